#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# eval.sh - what `yoke eval` says of classes and of values is what follows from the lines of
# `yoke predict`; and it says no more of models that tell neither.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES
digits="--data=$YOKE_SRCDIR/examples/data --devices=cpu:0"

expect 2 -- eval $digits --top=0 model
says "$err" '^yoke: eval: --top is 0; must be between'

usable "$pocl" || {
    skip "no PoCL"
    finish
}

# trained NAME DATA: trains $work/NAME.json a little; the model is $work/NAME
trained() {
    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" -- train --model="$work/$1.json" $2 --level=estimate --optimizer=sgd --lr=0.1 \
        --schedule=constant --epochs=3 --batch=64 --normalize --out="$work/$1"
}

# nears: standard output is JSON and has what $work/expected says: lines of PATH VALUE DIFFERENCE
nears() {
    checks=$((checks + 1))
    # shellcheck disable=SC2046 # words
    "$pick" $(cut -d' ' -f1 "$work/expected") <"$out" >"$work/values.txt" 2>&1
    wrong=$(paste -d' ' "$work/expected" "$work/values.txt" | awk '
        { d = $4 - $2; if ($4 !~ /^[0-9.e+-]+$/ || d > $3 || -d > $3) print $1 " is " $4 ", not " $2 }')
    [ -z "$wrong" ] || fail "$wrong"
}

# from_predict NAME: compares eval --json of the digits with what follows from lines such as
# "SAMPLE CLASS PROBABILITY (LABEL)": the counts of each pair and of each bin
from_predict() {
    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" -- predict $digits "$work/$1"
    tr -d '()' <"$out" | awk '{
            pair[$4 " " $2]++; right += $4 == $2
            bin = $3 * 15; bin = bin > int(bin) ? int(bin) : int(bin) - 1
            wrong[bin] += $3 - ($4 == $2); answers[$2]++; labels[$4]++
        }
        END {
            print "classification.samples", NR, 0
            print "classification.accuracy", right / NR, 1e-5
            print "metrics.accuracy", right / NR, 1e-5
            for (i = 0; i < 10; i++) {
                for (k = 0; k < 10; k++)
                    print "classification.confusion." i "." k, pair[i " " k] + 0, 0
                print "classification.classes." i ".samples", labels[i], 0
                print "classification.classes." i ".answers", answers[i], 0
                print "classification.classes." i ".f1", 2 * pair[i " " i] / (labels[i] + answers[i]), 1e-5
            }
            for (b in wrong)
                sum += wrong[b] < 0 ? -wrong[b] : wrong[b]
            print "classification.calibration.error", sum / NR, 5e-4
        }' >"$work/expected"
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- eval $digits --json "$work/$1"
    nears
}

# ---- classes ----

write_graph "$work/logits.json"
trained logits "$digits"
from_predict logits
cp "$out" "$work/whole"
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $digits --json --batch=77 --top=1 "$work/logits"
for key in confusion calibration.error mean.f1; do
    json classification.$key "$("$pick" classification.$key <"$work/whole")"
done
json classification.top.accuracy "$("$pick" classification.accuracy <"$work/whole")"
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $digits --confusion "$work/logits"
says "$out" '^top-5 accuracy [0-9.]+ %$'
says "$out" '^calibration error [0-9.]+ %$'
says "$out" '^CLASS  SAMPLES  PRECISION    RECALL        F1$'
says "$out" '^9           37 +[0-9.]+ %'
says "$out" '^LABEL +0 +1 +2'

sed 's/{"op": "softmax_cross_entropy"/{"op": "softmax", "name": "p", "axis": 0, "inputs": ["fc"]},\
    {"op": "cross_entropy"/; s/\["fc", "label"\]/["p", "label"]/; s/"logits": "fc"/"p": "p"/' \
    "$work/logits.json" >"$work/probabilities.json"
trained probabilities "$digits"
from_predict probabilities

# The label 9, which 37 samples have, does not count.
sed 's/"name": "ce",/& "has_ignore_index": true, "ignore_index": 9,/' "$work/logits.json" \
    >"$work/ignoring.json"
trained ignoring "$digits"
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $digits --json "$work/ignoring"
json samples 360
json classification.samples 323
json classification.classes.9.recall null

# ---- neither ----

# The output is not what the loss is of, and not what it is compared with.
sed 's/{"op": "target"/{"op": "relu", "name": "r", "inputs": ["fc"]}, &/; s/"logits": "fc"/"r": "r"/' \
    "$work/logits.json" >"$work/other.json"
trained other "$digits"
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $digits "$work/other"
checks=$((checks + 1))
[ "$(sed 's/ .*//' "$out" | tr '\n' ' ')" = 'samples loss accuracy ' ] || fail "more or less than it knows"
for wish in confusion per-class; do
    # shellcheck disable=SC2086
    expect 1 "$pocl" -- eval $digits --$wish "$work/other"
    says "$err" "^yoke: eval: --$wish is given; must go with a model that says one class"
done

# ---- values ----

# Columns and target have means and spreads of their own.
awk 'BEGIN { print "a,b,target"; for (i = 0; i < 60; i++) print i / 10 "," 1000 + i % 7 "," 5 * i + 300.5 + i % 3 }' \
    >"$work/values.csv"
values="--data=$work/values.csv --devices=cpu:0"
# shellcheck disable=SC2086
expect 0 "$pocl" -- train --model=tiny $values --level=estimate --epochs=20 --out="$work/values"
# shellcheck disable=SC2086
expect 0 "$pocl" -- predict $values "$work/values"
sed 1d "$work/values.csv" | cut -d, -f3 | paste - "$out" | awk '{
        e = $3 - $1; square += e * e; absolute += e < 0 ? -e : e; mean += $1 / 60; t[NR] = $1
    }
    END {
        for (i in t)
            spread += (t[i] - mean) ^ 2
        print "regression.samples", NR, 0
        print "regression.r2", 1 - square / spread, 1e-5
        print "regression.mae", absolute / NR, 1e-4 * absolute / NR
        print "metrics.absolute_error", absolute / NR, 1e-4 * absolute / NR
        print "regression.rmse", sqrt(square / NR), 1e-4 * absolute / NR
        print "regression.values.0.rmse", sqrt(square / NR), 1e-4 * absolute / NR
    }' >"$work/expected"
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $values --json "$work/values"
nears
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $values "$work/values"
says "$out" '^RMSE [0-9.]+$'
lacks "$out" '^VALUE'
# shellcheck disable=SC2086
expect 1 "$pocl" -- eval $values --confusion "$work/values"

# npy FILE: ten pairs of floats, which come from standard input
npy() {
    {
        printf '\223NUMPY\001\000v\000'
        printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (10, 2), }"
        cat
    } >"$1"
}

# Targets of two values: 1 and 2 in turn, and always 2.
mkdir "$work/pairs"
one='\000\000\200\077' two='\000\000\000\100'
for name in x y; do
    for i in 1 2 3 4 5; do
        printf "$one$two$two$two"
    done | npy "$work/pairs/$name.npy"
done
pairs="--data=$work/pairs --devices=cpu:0"
# shellcheck disable=SC2086
expect 0 "$pocl" -- train --model=tiny $pairs --level=estimate --epochs=2 --out="$work/two"
# shellcheck disable=SC2086
expect 0 "$pocl" -- predict $pairs "$work/two"
awk '{ e = $2 - (NR % 2 ? 1 : 2); a += e * e; e = $3 - 2; b += e * e }
    END {
        print "regression.r2", 1 - a / 2.5, 1e-4
        print "regression.values.0.rmse", sqrt(a / 10), 1e-5
        print "regression.values.1.rmse", sqrt(b / 10), 1e-5
        print "regression.rmse", sqrt((a + b) / 20), 1e-5
    }' "$out" >"$work/expected"
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $pairs --json "$work/two"
nears
json regression.values.1.r2 null
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $pairs "$work/two"
says "$out" '^VALUE +R2 +MAE +RMSE$'
says "$out" '^1 +- '

finish

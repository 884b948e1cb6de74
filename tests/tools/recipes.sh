#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# recipes.sh - models learn without any option: digits of several seeds, raw prices,
# on a team and under mpirun by the same recipe; and the hint after what did not.
#
# YOKE_TEST_RECIPES=all, which `make check-recipes` sets: five seeds in place of two, and larger models. Of
# ResNet-34, ResNet-50, mobilenet and a small gpt it is the beginning of their training, in which they learn
# much: all of it would take many minutes, as would char, gpt2 and llama. YOKE_TEST_QUICK=1 leaves these
# four out, which take a minute each, and all that `make check` has by itself.

kind=${YOKE_TEST_RECIPES:-} # it may run beside make check
. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES
digits=$YOKE_SRCDIR/examples/data
seeds='0 1'
what_runs=${YOKE_TEST_RECIPES:-}
[ "${YOKE_TEST_QUICK:-}" != 1 ] || what_runs=$what_runs-quick
case $what_runs in
all) seeds='0 1 2 3 4' ;;
all-quick) seeds='2 3 4' ;;
esac
prices=$work/prices.csv
: >"$out"
: >"$err"
what='the table of recipes'

# ---- the table of the manual is that of the program ----

# A row of the program may take two lines.
tr '\n' ' ' <"$YOKE_SRCDIR/tools/recipe.c" | sed 's/}, */},\
/g' |
    sed -n 's/^.*{"\([a-z0-9]*\)", "\([^"]*\)", \([0-9.e-]*\), "[^"]*", \([0-9]*\), \([0-9]*\), \([0-9]*\), [0-9]*, *\([0-9.]*\), *\([0-9.]*\), *[0-9]*, *["0-9.NUL]*},/\1 \2 \3 \4 \5 \6 \7 \8/p' |
    awk '{ print $1, $2, $3 + 0, "1/" $4, $5, $6, ($7 == 1 ? "shift" : $8 == 0 ? "" : "noise=" $8) }' >"$work/code"
sed -n '/^\.Sh RECIPES/,/^\.El/{/^\.It Em/d;s/^\.It \(Cm \)\{0,1\}//p;}' "$YOKE_SRCDIR/man/yoke-train.1" |
    awk -F ' *Ta *' '{ print $1, $2, $3 + 0, $4, $5, $6, $7 }' >"$work/page"
checks=$((checks + 1))
[ "$(wc -l <"$work/code")" = 13 ] && diff "$work/code" "$work/page" >"$out" ||
    fail "tools/recipe.c (<) and yoke-train(1) (>) differ"

# ---- figures ----

# ends_with WHAT WORDS COMPARISON BOUND ARGUMENT...: the test of a training ends with a figure, which
# compares so with the bound
ends_with() {
    figure=$1
    wanted=$2
    condition="$3 $4"
    shift 4
    expect 0 "$pocl" -- train "$@"
    checks=$((checks + 1))
    got=$(sed -n "s/^test \(.* \)\{0,1\}$figure \([0-9.]*\).*/\2/p" "$out")
    [ -n "$got" ] && awk "BEGIN { exit !($got $condition) }" ||
        fail "ends with $figure ${got:-of nothing}, must be $wanted ${condition#* }"
    echo "$figure ${got:-none}: yoke train $*"
}

# reaches WHAT LEAST ARGUMENT..., keeps_to WHAT MOST ARGUMENT...
reaches() {
    figure=$1
    least=$2
    shift 2
    ends_with "$figure" 'at least' '>=' "$least" "$@"
}

keeps_to() {
    figure=$1
    most=$2
    shift 2
    ends_with "$figure" 'at most' '<=' "$most" "$@"
}

npy() {
    printf '\223NUMPY\001\000v\000'
    printf "%-117s\n" "{'descr': '|u1', 'fortran_order': False, 'shape': $1, }"
    cat
}

# Behind each figure: what was measured.
check_larger() {
    reaches accuracy 95 --model=resnet18 --data="$digits" --devices=cpu:0 --epochs=5
    # Images in units of their spread: a mean of all has a loss of about 1.
    keeps_to loss 0.1 --model=autoencoder --data="$digits" --devices=cpu:0 # 0.05
    # Noise, and which of its pixels are bright: 15 values of 31.
    mkdir "$work/maps"
    awk 'BEGIN {
        for (state = 1; i < 200 * 81; i++) {
            state = state * 16807 % 2147483647
            printf "%c", 65 + state % 31
        }
    }' >"$work/bytes"
    npy '(200, 1, 9, 9)' <"$work/bytes" >"$work/maps/x.npy"
    tr '\101-\137' '[\000*16][\001*15]' <"$work/bytes" | npy '(200, 9, 9)' >"$work/maps/y.npy"
    reaches accuracy 80 --model=unet --width=2 --data="$work/maps" --devices=cpu:0 # 93
}

check_largest() {
    reaches accuracy 65 --model=resnet34 --data="$digits" --devices=cpu:0 --epochs=1  # 81
    reaches accuracy 45 --model=resnet50 --data="$digits" --devices=cpu:0 --epochs=1  # 63
    reaches accuracy 65 --model=mobilenet --data="$digits" --devices=cpu:0 --epochs=4 # 77 and 80
    # The pages of the manual, whose letters alone have a perplexity of 28.
    cat "$YOKE_SRCDIR"/man/*.[17] >"$work/pages.txt"
    keeps_to perplexity 20 --model=gpt --width=64 --layers=2 --context=64 --data="$work/pages.txt" \
        --devices=cpu:0 --epochs=4 # 16.2
}

check_digits() {
    for seed in $seeds; do
        reaches accuracy 95 --model=mlp --data="$digits" --devices=cpu:0 --seed=$seed
        reaches accuracy 95 --model=simplecnn --data="$digits" --devices=cpu:0 --seed=$seed --epochs=10
        reaches accuracy 95 --model=lenet --data="$digits" --devices=cpu:0 --seed=$seed --epochs=10
        says "$err" '^yoke: train: note: the recipe "lenet" chooses --batch=8 --optimizer=sgd,decay=1e-3 --lr=0.05 --schedule=one-cycle --normalize --augment=shift=1$'
        lacks "$err" hint
    done
    # Of 360 images one is 0.28 %, and seeds differ by three of them.
    sum=0
    for seed in 0 1 2 3 4 5 6 7; do
        reaches accuracy 94 --model=mlp --data="$digits" --devices=cpu:0 --seed=$seed --epochs=10
        sum=$(awk "BEGIN { print $sum + $got }")
    done
    checks=$((checks + 1))
    awk "BEGIN { exit !($sum / 8 >= 95.5) }" || fail "mlp: 8 seeds have $sum % together in 10 epochs, not 764"
}

# Columns and prices each in units of their own, also in what comes of the file.
check_prices() {
    awk -v count=1000 -f "$YOKE_SRCDIR/tests/tools/prices.awk" >"$prices"
    for seed in $seeds; do
        reaches R2 0.9 --model=mlp --data="$prices" --devices=cpu:0 --seed=$seed --out="$work/model"
    done
    reaches R2 0.7 --model=tiny --data="$prices" --devices=cpu:0
    expect 0 "$pocl" -- eval --data="$prices" --devices=cpu:0 "$work/model"
    checks=$((checks + 1))
    awk '$1 == "r2" && $2 >= 0.9 { good = 1 } END { exit !good }' "$out" || fail "r2 of the file"
    expect 0 -- info --json "$work/model"
    json 'input.mean.#' 5
    expect 0 "$pocl" -- predict --data="$prices" --devices=cpu:0 "$work/model"
    checks=$((checks + 1))
    sed 1d "$prices" | tr , '\t' | paste "$out" - | awk '
        { n++; away = $2 - $8; error += away * away; sum += $8; squares += $8 * $8 }
        END { exit !(n == 1000 && error < 0.1 * (squares - sum * sum / n)) }' ||
        fail "predictions are not in the units of the prices"
}

# ---- who decides ----

note() {
    sed -n 's/^yoke: train: .*note: the recipe "[a-z0-9]*" chooses //p' "$err"
}

check_choices() {
    given='--epochs=1 --batch=64 --optimizer=adam --lr=0.002 --schedule=constant --no-normalize --augment=none'
    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" -- train --model=lenet --data="$digits" $given --devices=cpu:0 --log="$work/log"
    lacks "$err" 'the recipe'
    head -n 1 "$work/log" >"$out"
    json batch 64
    checks=$((checks + 1))
    grep -q '"rate": 0\.0020000' "$work/log" || fail "another rate"
    expect 0 "$pocl" -- train --model=lenet --data="$digits" --devices=cpu:0 --epochs=1
    alone=$(note)
    expect 0 "$pocl" POCL_MAX_PTHREAD_COUNT=2 -- train --model=lenet --data="$digits" --epochs=1 \
        --devices=cpu:0/1+1
    checks=$((checks + 1))
    [ -n "$alone" ] && [ "$(note)" = "$alone" ] || fail "a team has another recipe: $(note)"
    write_graph "$work/graph.json" \
        '{"op": "dense", "name": "hidden", "units": 64}, {"op": "relu"},'
    reaches accuracy 88 --model="$work/graph.json" --data="$digits" --devices=cpu:0
    says "$err" 'the recipe "file" chooses --epochs=23 --batch=16 --optimizer=adam --lr=0.001 '
    [ -n "${MPIRUN:-}" ] && command -v "$MPIRUN" >/dev/null || return 0
    what='mpirun -n 2 yoke train'
    (
        . "$YOKE_SRCDIR/tests/support/launcher.sh"
        env "$pocl" "$MPIRUN" -n 2 "$yoke" train --model=lenet --data="$digits" --epochs=1
    ) >"$out" 2>"$err" </dev/null
    checks=$((checks + 1))
    [ "$(note)" = "$alone" ] || fail "two processes have another recipe"
}

# ---- hints ----

hints() {
    sed -n 's/^yoke: train: note: hint: //p' "$err"
}

check_hints() {
    cat >"$work/raw.json" <<'END'
{"nodes": [{"op": "input", "name": "x", "type": "f32", "shape": [5]},
           {"op": "dense", "units": 1}, {"op": "reshape", "shape": []},
           {"op": "target", "name": "target", "type": "f32", "shape": []},
           {"op": "mean_squared_error", "name": "mse", "inputs": ["reshape1", "target"]}],
 "outputs": {"y": "reshape1"}, "loss": "mse"}
END
    few="--data=$prices --devices=cpu:0 --epochs=3 --batch=16 --optimizer=sgd --schedule=constant"
    # shellcheck disable=SC2086 # words
    {
        expect 0 "$pocl" -- train --model=mlp $few --no-normalize --lr=0.1
        says "$err" '^yoke: train: note: hint: the loss is no longer a number; try --lr=0.01 or --normalize$'
        expect 0 "$pocl" -- train --model=mlp $few --lr=0.6
        checks=$((checks + 1))
        [ "$(hints | wc -l)" = 1 ] || fail "not one hint"
        says "$err" 'hint: the loss is no longer a number; try --lr=0.06$'
        expect 0 "$pocl" -- train --model=lenet --data="$digits" --devices=cpu:0 --epochs=2 --lr=3
        says "$err" 'hint: the loss grew from 2\.[0-9]{3} to [0-9.]+; try --lr=0.3$'
        expect 0 "$pocl" -- train --model=mlp $few --lr=1e-7
        says "$err" 'hint: the loss hardly fell, from [0-9.]+ to [0-9.]+; try --lr=1e-06$'
        expect 0 "$pocl" -- train --model=mlp $few --lr=1e-7 --json
        lacks "$err" hint
        expect 0 "$pocl" -- train --model="$work/raw.json" $few --lr=1e-9
        says "$err" 'hint: .*, or targets between -1 and 1$'
    }
}

if usable "$pocl"; then
    check_digits
    check_prices
    case $what_runs in all*) check_larger ;; esac
    [ "$what_runs" != all ] || check_largest
    [ "$what_runs" = all-quick ] || {
        check_choices
        check_hints
    }
else
    skip "no PoCL"
fi
finish

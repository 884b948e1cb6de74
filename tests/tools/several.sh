#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# several.sh - a model of several inputs, an image and a table, in `yoke train`, `yoke eval` and
# `yoke predict`: files are called after the inputs, and what is missing or doubled is a sentence.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES NO_COLOR
digits=$YOKE_SRCDIR/examples/data
data=$work/data

usable "$pocl" || {
    skip "no PoCL"
    finish
}

cat >"$work/both.json" <<'END'
{"yoke": 1, "nodes": [
{"op": "input", "name": "image", "type": "f32", "shape": [1, 8, 8]},
{"op": "input", "name": "table", "type": "f32", "shape": [2]},
{"op": "flatten", "name": "flat", "inputs": ["image"]},
{"op": "dense", "name": "a", "inputs": ["flat"], "units": 24},
{"op": "dense", "name": "b", "inputs": ["table"], "units": 24},
{"op": "add", "name": "sum", "inputs": ["a", "b"]},
{"op": "relu", "name": "r", "inputs": ["sum"]},
{"op": "dense", "name": "fc", "inputs": ["r"], "units": 10},
{"op": "target", "name": "label", "type": "i32", "shape": []},
{"op": "softmax_cross_entropy", "name": "ce", "inputs": ["fc", "label"]},
{"op": "accuracy", "name": "acc", "inputs": ["fc", "label"]}
], "outputs": {"logits": "fc"}, "loss": "ce", "metrics": {"accuracy": "acc"}}
END

# table PART WORD: a table that knows, in large numbers, which half a digit is in; with its name
table() {
    gunzip -c "$digits/$1-labels-idx1-ubyte.gz" | tail -c +9 | od -An -v -tu1 -w1 |
        awk 'BEGIN { print "half,label,noise" }
            { print 1000 + 5 * ($1 < 5) ",digit " $1 + 0 "," NR % 7 }' >"$data/$2-table.csv"
}

mkdir "$data"
cp "$digits/train-images-idx3-ubyte.gz" "$data/train-image.idx.gz"
cp "$digits/t10k-images-idx3-ubyte.gz" "$data/test-image.idx.gz"
table train train
table t10k test

train() {
    expect "$1" "$pocl" -- train --model="$work/both.json" --data="$data" --devices=cpu:0 \
        --level=estimate --epochs=20 --batch=32 --out="$work/model"
}

train 0
says "$err" 'chooses .*--normalize'
says "$out" '^test accuracy 9'
expect 0 "$pocl" -- eval --data="$data" --devices=cpu:0 "$work/model"
says "$out" '^samples 360$'
says "$out" '^accuracy 9'
accuracy=$(sed -n 's/^accuracy \(.*\) %/\1/p' "$out")

# What it predicts is what was tested, on two devices too.
for devices in cpu:0 cpu:0/2; do
    expect 0 "$pocl" -- predict --data="$data" --devices=$devices "$work/model"
    checks=$((checks + 1))
    right=$(awk -F '\t' '"(" $2 ")" == $4 { n++ } END { printf "%.2f", 100 * n / NR }' "$out")
    [ "$right" = "$accuracy" ] || fail "$right % are right; eval says $accuracy"
done
cp "$out" "$work/lines"
expect 0 "$pocl" -- predict --data="$data" --devices=cpu:0 --first=7 --count=9 --out="$work/all.csv" "$work/model"
checks=$((checks + 1))
awk -F, 'NR == FNR { split($0, line, "\t"); class[FNR - 1] = line[2]; next }
    FNR == 1 { for (i = 2; i <= NF; i++) name[i] = $i; next }
    { best = 2; for (i = 3; i <= NF; i++) if ($i > $best) best = i; bad += name[best] != class[$1] }
    END { exit bad || FNR != 10 }' "$work/lines" "$work/all.csv" || fail "another table: $(cat "$work/all.csv")"

# New samples have no labels.
mkdir "$work/new"
cp "$data/test-image.idx.gz" "$work/new/image.idx.gz"
cut -d, -f1,3 "$data/test-table.csv" >"$work/new/table.csv"
expect 0 "$pocl" -- predict --data="$work/new" --devices=cpu:0/2 "$work/model"
checks=$((checks + 1))
cut -f1-3 "$work/lines" | cmp -s - "$out" || fail "not the same without labels"

# Labels as a file of their own; and what is missing, doubled, unequal or unknown.
cut -d, -f2 "$data/train-table.csv" | sed 's/digit //' >"$data/train-label.csv"
cut -d, -f2 "$data/test-table.csv" | sed 's/digit //' >"$data/test-label.csv"
for part in train test; do
    cut -d, -f1,3 "$data/$part-table.csv" >"$work/cut" && mv "$work/cut" "$data/$part-table.csv"
done
train 0
says "$out" '^test accuracy 9'
cp "$data/train-table.csv" "$data/train-tabel.csv"
train 0
says "$err" "train-tabel.csv is left out: no input or target is called \"tabel\"$"
mv "$data/train-table.csv" "$work/table.csv"
train 1
says "$err" "$data has no file for \"table\"; must have train-table.npy, for example; did you mean \"tabel\"\?$"
mv "$data/train-tabel.csv" "$data/train_table.csv"
cp "$work/table.csv" "$data/train-table.csv"
train 1
says "$err" "$data has train-table.csv and train_table.csv for \"table\"; must have one of them$"
rm "$data/train_table.csv"
sed '$d' "$work/table.csv" >"$data/train-table.csv"
train 1
says "$err" "train-table.csv has 1436 samples, \"image\" has 1437; must have the same number$"
cp "$work/table.csv" "$data/train-table.csv"
rm "$data/train-label.csv"
train 1
says "$err" 'has samples but neither labels nor targets'
expect 1 "$pocl" -- predict --data="$data/test-table.csv" --devices=cpu:0 "$work/model"
says "$err" 'test-table.csv is no folder; must be one with a file for each of "image", "table"'

finish

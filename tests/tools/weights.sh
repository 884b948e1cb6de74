#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# weights.sh - weights of classes and of samples in the loss of `yoke train` and `yoke eval`.

# shellcheck disable=SC2086 # of $model, which is words
. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES NO_COLOR

# Three samples of class 0 for each of class 1, with weights 0 to 3; and each sample as often as it
# weighs.
awk 'BEGIN {
    print "a,b,weight,label"
    for (i = 0; i < 48; i++) print i % 7 "," i % 5 "," i % 4 "," (i % 4 == 1)
}' >"$work/weighted.csv"
awk -F, 'NR == 1 { print; next } { for (i = 0; i < $3; i++) print $1 "," $2 ",1," $4 }' \
    "$work/weighted.csv" >"$work/repeated.csv"
cut -d, -f1,2,4 "$work/weighted.csv" >"$work/plain.csv"
model='--model=tiny --devices=cpu:0 --level=estimate --epochs=3 --batch=8'

# loss: of the test, as the newest run says
loss() {
    tail -n 1 "$out" | "$pick" test_loss
}

# near A B: both are numbers, and the same but for rounding
near() {
    checks=$((checks + 1))
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 == a && b + 0 == b && a - b < 1e-5 && b - a < 1e-5) }'
}

# ---- classes ----

for bad in "1," x 1,-1 1,inf balance; do
    expect 2 -- train $model --data="$work/plain.csv" --class-weights=$bad
    says "$err" '^yoke: train: --class-weights=[^ ]*: must be balanced, or weights from 0 on such as 1,2.5$'
done
expect 1 "$pocl" -- train $model --data="$work/plain.csv" --class-weights=1,2,3
says "$err" '^yoke: train: --class-weights has 3 weights; must have 2, one for each class$'
awk 'BEGIN { print "a,target"; for (i = 0; i < 20; i++) print i "," i / 3 }' >"$work/values.csv"
expect 1 "$pocl" -- train $model --data="$work/values.csv" --class-weights=balanced
says "$err" '^yoke: train: --class-weights is given, but the data has no classes$'

# Without a test part of their own, classes are counted in the training samples alone.
mkdir "$work/folder"
cp "$work/plain.csv" "$work/folder/train.csv"
cp "$work/plain.csv" "$work/folder/test.csv"
expect 0 "$pocl" -- train $model --data="$work/folder" --json
plain=$(loss)
expect 0 "$pocl" -- train $model --data="$work/folder" --json --class-weights=1,1
[ "$(loss)" = "$plain" ] || fail "weights of 1 change the loss: $(loss), not $plain"
expect 0 "$pocl" -- train $model --data="$work/folder" --json --class-weights=balanced \
    --out="$work/balanced"
balanced=$(loss)
[ "$balanced" != "$plain" ] || fail "balanced weights change nothing"
# 48 / (2 * 36) and 48 / (2 * 12)
expect 0 "$pocl" -- train $model --data="$work/folder" --json --class-weights=0.6666667,2
near "$(loss)" "$balanced" ||
    fail "balanced: $balanced, not $(loss)"
expect 0 "$pocl" -- eval --data="$work/plain.csv" --devices=cpu:0 --json "$work/balanced"
near "$("$pick" loss <"$out")" "$balanced" ||
    fail "eval: the loss is not that of the test, $balanced"

# A checkpoint has no constants, and is a file of weights all the same.
expect 0 "$pocl" -- train $model --data="$work/folder" --class-weights=2,1 --ema=0.9 \
    --out="$work/averaged" --checkpoint="$work/checkpoints"
for file in "$work/averaged" "$work/checkpoints/checkpoint-000000000018.safetensors"; do
    expect 0 "$pocl" -- eval --data="$work/plain.csv" --devices=cpu:0 --json "$file"
    "$pick" loss <"$out" >>"$work/losses"
done
[ "$(sort -u "$work/losses" | wc -l)" = 1 ] || fail "the file has another average than the checkpoint"

# ---- label smoothing ----

for bad in x -0.1 1; do
    expect 2 -- train $model --data="$work/plain.csv" --label-smoothing=$bad
    says "$err" '--label-smoothing'
done
expect 1 "$pocl" -- train $model --data="$work/values.csv" --label-smoothing=0.1
says "$err" '^yoke: train: --label-smoothing is given, but the data has no classes$'
expect 0 "$pocl" -- train $model --data="$work/folder" --json --label-smoothing=0.2 --out="$work/smooth"
smooth=$(loss)
[ "$smooth" != "$plain" ] || fail "label smoothing changes nothing"
expect 0 "$pocl" -- eval --data="$work/plain.csv" --devices=cpu:0 --json "$work/smooth"
near "$("$pick" loss <"$out")" "$smooth" || fail "eval: the loss is not that of the test, $smooth"
grep -aq 'label_smoothing[^,]*0.2' "$work/smooth" || fail "the model has not kept its loss"

# ---- samples ----

expect 1 "$pocl" -- train --model=lenet --data="$YOKE_SRCDIR/examples/data" --sample-weights=2
says "$err" '^yoke: train: --sample-weights is given, but the data is no table$'
expect 1 "$pocl" -- train $model --data="$work/weighted.csv" --sample-weights=weigth
says "$err" 'has no column "weigth"; did you mean "weight"\?$'
expect 0 "$pocl" -- train $model --data="$work/weighted.csv" --sample-weights=weight --out="$work/weighted"
expect 1 "$pocl" -- eval --data="$work/plain.csv" --devices=cpu:0 "$work/weighted"
says "$err" '"weight"'
expect 0 "$pocl" -- eval --data="$work/weighted.csv" --devices=cpu:0 --json --sample-weights=weight "$work/weighted"
weighted=$("$pick" loss <"$out")

# Each sample as often as it weighs.
expect 0 "$pocl" -- eval --data="$work/repeated.csv" --devices=cpu:0 --json --sample-weights=3 "$work/weighted"
repeated=$("$pick" loss <"$out")
near "$repeated" "$weighted" ||
    fail "weighted loss $weighted, of repeated samples $repeated"

finish

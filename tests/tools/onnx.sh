#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# onnx.sh - models of ONNX by the command: in, trained on, out, and what is refused.

. "$YOKE_SRCDIR/tests/tools/lib.sh"
files=$YOKE_SRCDIR/tests/files/onnx

# ---- in and out ----

for name in residual images attention masked words; do
    expect 0 -- convert --out="$work/$name.safetensors" "$files/$name.onnx"
    expect 0 -- convert --out="$work/$name.onnx" "$work/$name.safetensors"
    expect 0 -- info "$work/$name.onnx"
    says "$out" '^total '
done
expect 0 -- info "$work/residual.safetensors"
says "$out" '^bn1 +batch_norm .*\(4, 4, 4\) +8'
says "$out" '^fc +dense units 5'
says "$out" '^samples    x, f32 \(2, 8, 8\)$'

# ---- refusals ----

expect 2 -- convert "$files/words.onnx"
says "$err" 'no file or folder is given; must be --out=PATH'
expect 2 -- convert --type=f16 --out="$work/x.onnx" "$files/words.onnx"
says "$err" '^yoke: convert: --type is given for a file; must go with a folder$'
expect 2 -- convert --shard=5 --out="$work/x.safetensors" "$files/words.onnx"
says "$err" '^yoke: convert: --shard is given for a file; must go with a folder$'
expect 1 -- convert --out="$work/x.onnx" "$work/gone.onnx"
says "$err" '^yoke: convert: .*/gone.onnx cannot be opened: '
head -c 900 "$files/words.onnx" >"$work/short.onnx"
expect 1 -- convert --out="$work/x.onnx" "$work/short.onnx"
says "$err" '^yoke: convert: .*/short.onnx is no model of ONNX, or ends in the middle; get the whole file$'
[ ! -e "$work/x.onnx" ] || fail "a refusal left a file"
# The name of an operator becomes another one of as many letters.
sed 's/Softmax/Hardmax/g' "$files/attention.onnx" >"$work/other.onnx"
expect 1 -- convert --out="$work/x.onnx" "$work/other.onnx"
says "$err" 'other.onnx: node "[^"]*" \(Hardmax\): yoke has no such operator'
expect 1 -- convert --out="$work/hf" "$files/words.onnx"
says "$err" 'must be a gpt or a llama'
expect 2 -- train --model="$files/words.onnx" --data="$work"
says "$err" 'is a model of ONNX; must be converted first: yoke convert --out=FILE.safetensors'
expect 2 -- eval --data="$work" "$files/words.onnx"
says "$err" 'is a model of ONNX, which has no loss; must be one that "yoke train --out" wrote'

# ---- training ----

take_pocl
# The label is the first word.
awk 'BEGIN { for (i = 0; i < 200; i++) { s = ""; for (k = 0; k < 7; k++) s = s (i * (k + 3) + k) % 5 ","
    print s i * 3 % 5 } }' >"$work/words.csv"
train() {
    expect 0 -- train "$@" --data="$work/words.csv" --level=estimate --core-groups=never \
        --devices=cpu:0 --batch=20 --validation=0.2 --json
}
train --model="$work/words.safetensors" --epochs=1 --lr=1e-30
first=$(sed -n 's/.*"test_loss": \([0-9.]*\).*/\1/p' "$out" | tail -n 1)
train --model="$work/words.safetensors" --epochs=8 --lr=0.02 --out="$work/trained.safetensors"
last=$(sed -n 's/.*"test_loss": \([0-9.]*\).*/\1/p' "$out" | tail -n 1)
checks=$((checks + 1))
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b > 0 && b < a - 0.5) }' ||
    fail "training from the file's weights: $first, then $last"
# What was trained is written, and predicts the same classes.
expect 0 -- convert --out="$work/trained.onnx" "$work/trained.safetensors"
expect 0 -- eval --devices=cpu:0 --data="$work/words.csv" --json "$work/trained.safetensors"

finish

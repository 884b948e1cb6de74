#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# formats.sh - data that does not say what it is: images with their channels last, and tables of
# whole numbers for integer inputs.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES
usable "$pocl" || {
    skip "no PoCL"
    finish
}

# npy FILE SHAPE: of bytes, which come from standard input
npy() {
    {
        printf '\223NUMPY\001\000v\000'
        printf "%-117s\n" "{'descr': '|u1', 'fortran_order': False, 'shape': $2, }"
        cat
    } >"$1"
}

# ---- images with their channels last ----

mkdir "$work/images"
awk 'BEGIN { for (i = 0; i < 20 * 16 * 16 * 3; i++) printf "%c", 65 + i * 7 % 31 }' |
    npy "$work/images/x.npy" "(20, 16, 16, 3)"
printf '\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001' |
    npy "$work/images/y.npy" "(20,)"
last="--data=$work/images --devices=cpu:0"
warning='warning: .*x\.npy: its samples of \(16, 16, 3\) are taken for images of 16 channels; .*--channels-last'

# shellcheck disable=SC2086 # words
expect 0 "$pocl" -- train --model=simplecnn $last --epochs=1
says "$err" "^yoke: train: $warning"
# shellcheck disable=SC2086
expect 0 "$pocl" -- train --model=simplecnn $last --epochs=1 --channels-last --no-normalize \
    --out="$work/model"
lacks "$err" 'taken for images'
expect 0 -- info "$work/model"
says "$out" '^samples +image, u8 \(3, 16, 16\)$'
for command in eval predict; do
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- $command $last --channels-last "$work/model"
    lacks "$err" 'taken for images'
done
# shellcheck disable=SC2086
expect 1 "$pocl" -- eval $last "$work/model"
says "$err" "$warning"
says "$err" 'field "image" has shape \(16, 16, 3\); must be \(3, 16, 16\), as the graph.s input "image"'

# ---- whole numbers ----

cat >"$work/tokens.json" <<'JSON'
{"nodes": [
  {"op": "input", "name": "tokens", "type": "i32", "shape": [4]},
  {"op": "embedding", "rows": 10, "width": 4},
  {"op": "flatten"},
  {"op": "dense", "name": "fc", "units": 2},
  {"op": "target", "name": "label", "type": "i32", "shape": []},
  {"op": "softmax_cross_entropy", "name": "ce", "inputs": ["fc", "label"]}],
 "outputs": {"logits": "fc"}, "loss": "ce"}
JSON
awk 'BEGIN { print "a,b,c,d,label"; for (i = 0; i < 40; i++)
    print i % 10 "," i * 3 % 10 "," i * 7 % 10 "," i * 9 % 10 "," i % 2 }' >"$work/tokens.csv"
tokens="--data=$work/tokens.csv --devices=cpu:0"
# shellcheck disable=SC2086
expect 0 "$pocl" -- train --model="$work/tokens.json" $tokens --batch=8 --epochs=2 --out="$work/words"
says "$out" ' 2 epochs$'
expect 0 -- info "$work/words"
says "$out" '^samples +x, i32 \(4\)$|^samples +tokens, i32 \(4\)$'
# shellcheck disable=SC2086
expect 0 "$pocl" -- eval $tokens "$work/words"
says "$out" '^1           20 '
# shellcheck disable=SC2086
expect 0 "$pocl" -- predict $tokens "$work/words"
checks=$((checks + 1))
[ "$(wc -l <"$out")" = 40 ] || fail "lines of predict"
sed '3s/^[0-9]*/1.5/' "$work/tokens.csv" >"$work/half.csv"
expect 1 "$pocl" -- train --model="$work/tokens.json" --data="$work/half.csv" --devices=cpu:0
says "$err" "half\.csv: line 3, column 1: \"1\.5\" is not a whole number of 32 bits"

# An array of floats has a type of its own, and the error says how to make it fit.
mkdir "$work/floats"
head -c 640 /dev/zero | npy "$work/floats/x.npy" "(40, 4)"
sed -i "1s/|u1/<f4/" "$work/floats/x.npy"
head -c 40 /dev/zero | tr '\000' '\001' | npy "$work/floats/y.npy" "(40,)"
expect 1 "$pocl" -- train --model="$work/tokens.json" --data="$work/floats" --devices=cpu:0
says "$err" 'field "x" has type f32; must be i32, as the graph.s input "tokens"; save the samples as whole numbers \(numpy\.int32\), read a table with csv_integers, or make the input f32'
# ---- labels that are maps, and samples without a label ----

mkdir "$work/maps" "$work/plain"
awk 'BEGIN { for (i = 0; i < 20 * 81; i++) printf "%c", 65 + i * 7 % 31 }' >"$work/bytes"
npy "$work/maps/x.npy" "(20, 1, 9, 9)" <"$work/bytes"
npy "$work/plain/x.npy" "(20, 1, 9, 9)" <"$work/bytes"
tr '\101-\137' '[\000*16][\001*15]' <"$work/bytes" | npy "$work/maps/y.npy" "(20, 9, 9)"
expect 0 "$pocl" -- train --model=unet --width=2 --data="$work/maps" --devices=cpu:0 --epochs=2 \
    --out="$work/model"
says "$err" 'the recipe "unet" chooses'
says "$out" '^test accuracy'
expect 0 -- info "$work/model"
says "$out" '^outc\.conv .*\(2, 9, 9\)'
expect 1 "$pocl" -- train --model=unet --width=2 --data="$work/maps" --devices=cpu:0 --augment=flip
says "$err" 'would move images, but not the maps'
expect 1 "$pocl" -- train --model=lenet --data="$work/maps" --devices=cpu:0
says "$err" 'labels have 2 axes; must be one number for each sample'
for data in maps plain/x.npy; do
    expect 0 "$pocl" -- train --model=autoencoder --width=2 --data="$work/$data" --devices=cpu:0 \
        --epochs=2
    says "$err" 'the recipe "autoencoder" chooses'
    says "$out" '^test loss'
done
expect 1 "$pocl" -- train --model=lenet --data="$work/plain/x.npy" --devices=cpu:0
says "$err" 'neither labels nor targets'

finish

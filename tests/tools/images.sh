#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# images.sh - `yoke train`, `eval` and `predict` with a folder of images: a damaged one is named or
# left out, images without classes are predicted under the names of their files, and those that are
# cut at random in training are cut from the middle in tests.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES NO_COLOR
set=$work/set

usable "$pocl" || {
    skip "no PoCL"
    finish
}
grep -q 'define YOKE_HAVE_PNG 1' "$YOKE_BUILDDIR/config.h" || {
    skip "this build reads no PNG"
    finish
}

# image CLASS FILE: 6 x 5 pixels, all of them red or blue
image() {
    case $1 in
        red) echo iVBORw0KGgoAAAANSUhEUgAAAAYAAAAFCAIAAADpOgqxAAAAEUlEQVR4nGM4ISeChhioKAQAhVwdTaKglsoAAAAASUVORK5CYII= ;;
        *) echo iVBORw0KGgoAAAANSUhEUgAAAAYAAAAFCAIAAADpOgqxAAAAEUlEQVR4nGPg0riDhhioKAQAxvwfpYEu+QgAAAAASUVORK5CYII= ;;
    esac | base64 -d >"$2"
}

for class in red blue; do
    mkdir -p "$set/train/$class" "$set/test/$class"
    for i in 1 2 3 4 5 6 7 8 9; do
        image $class "$set/train/$class/$i.png"
    done
    image $class "$set/test/$class/new.png"
done
mkdir "$set/train/red/folder.png"
image blue "$set/train/red/folder.png/1.png"

train() {
    expect "$1" "$pocl" -- train --devices=cpu:0 --level=estimate --epochs=30 --batch=6 --lr=0.05 \
        --data="$set" --out="$work/model" "$2" "$3"
}

train 0 --model=tiny --bad-images=stop
says "$out" '^test accuracy 100.00 %'
expect 0 "$pocl" -- eval --data="$set" --devices=cpu:0 "$work/model"
says "$out" '^samples 2$'
says "$out" '^accuracy 100.00 %'
printf 'no image' >"$set/train/blue/0.png"
train 1 --model=tiny --bad-images=stop
says "$err" 'train/blue/0.png is neither PNG nor JPEG'
train 0 --model=tiny --bad-images=skip
says "$err" 'left out: .*train/blue/0.png is neither PNG nor JPEG'
says "$out" '^test accuracy 100.00 %'
rm "$set/train/blue/0.png"

# New images have no classes.
mkdir "$work/new" "$work/new/test"
image blue "$work/new/test/one.png"
image red "$work/new/test/two.png"
for data in "$work/new" "$work/new/test"; do
    expect 0 "$pocl" -- predict --data="$data" --devices=cpu:0 "$work/model"
    says "$out" "^0	blue	[01]\.[0-9]*	$work/new/test/one.png$"
    says "$out" "^1	red	[01]\.[0-9]*	$work/new/test/two.png$"
done
expect 0 "$pocl" -- predict --data="$work/new" --devices=cpu:0 --out="$work/told.csv" "$work/model"
says "$work/told.csv" '^sample,blue,red,file$'
says "$work/told.csv" "^1,.*,$work/new/test/two.png$"
expect 0 "$pocl" -- predict --data="$work/new" --devices=cpu:0 --json "$work/model"
says "$out" "\"file\": ?\"$work/new/test/one.png\""

# A test part without classes tests nothing: some of the others are kept for that.
mv "$set/test" "$work/test"
mkdir "$set/test"
image red "$set/test/new.png"
train 0 --model=tiny --bad-images=stop
says "$err" "$set has no test part: 2 of its samples are kept for it"
rm -r "$set/test"
mv "$work/test" "$set/test"

# The graph takes 4 x 4 pixels of images that have 6 x 6.
cat >"$work/cut.json" <<'END'
{"yoke": 1, "nodes": [
{"op": "input", "name": "image", "type": "f32", "shape": [3, 4, 4]},
{"op": "flatten", "name": "flat", "inputs": ["image"]},
{"op": "dense", "name": "fc", "inputs": ["flat"], "units": 2},
{"op": "target", "name": "label", "type": "i32", "shape": []},
{"op": "softmax_cross_entropy", "name": "ce", "inputs": ["fc", "label"]},
{"op": "accuracy", "name": "acc", "inputs": ["fc", "label"]}
], "outputs": {"logits": "fc"}, "loss": "ce", "metrics": {"accuracy": "acc"}}
END
expect 0 "$pocl" -- train --model="$work/cut.json" --devices=cpu:0 --level=estimate --epochs=30 --lr=0.05 \
    --augment=crop --image-size=6x6 --data="$set" --out="$work/model"
says "$out" "^test accuracy 100.00 %"
expect 0 "$pocl" -- eval --data="$set" --devices=cpu:0 "$work/model"
says "$out" "^accuracy 100.00 %"
expect 0 "$pocl" -- predict --data="$set" --devices=cpu:0 "$work/model"
says "$out" "^0	blue	.*	.blue.	$set/test/blue/new.png$"

finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# plan.sh - what `yoke plan` tells is what training takes: the choice is that of `yoke train`, and the
# memory is within 3 % of what a training and a benchmark report. Times are not judged here.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

digits=$YOKE_SRCDIR/examples/data

# What cannot be needs no device.
expect 2 -- plan
says "$err" '^yoke: plan: no model is given; must be --model=lenet, for example'
expect 2 -- plan --model=lenett
says "$err" '^yoke: plan: there is no model "lenett".*did you mean "lenet"'
expect 2 -- plan --model=lenet extra
says "$err" 'extra'
for bad in batch=0 batch=x shard=all recompute=-1M recompute=all size=0; do
    expect 2 -- plan --model=lenet "--$bad"
    says "$err" "^yoke: plan: --${bad%%=*}( is |=).* must be "
done
expect 2 -- plan --model=mlp --size=32
says "$err" '^yoke: plan: mlp takes no images: --size is not for it'
expect 2 -- plan --model=gpt --seq=8 --context=4
says "$err" '^yoke: plan: a sample has 8 tokens; must have at most 4'
expect 2 -- plan --model=none.json --layers=2
says "$err" '^yoke: plan: none.json has its own sizes'
expect 2 -- plan --model=lenet --devices=nonsense
says "$err" '^yoke: plan: .*nonsense'
expect 1 -- plan --model="$work/none.json"
says "$err" '^yoke: plan: .*none.json'
echo '{"nodes": []' >"$work/broken.json"
expect 1 -- plan --model="$work/broken.json"
says "$err" '^yoke: plan: .*broken.json'

take_pocl
export POCL_MAX_PTHREAD_COUNT=2

# of MEMBER: of the JSON on standard output
of() {
    "$pick" "$1" <"$out"
}

# near WHAT EXPECTED: two sizes are within 3 %
near() {
    checks=$((checks + 1))
    awk -v a="$1" -v b="$2" 'BEGIN { d = a / b - 1; exit !(b > 0 && d < 0.03 && d > -0.03) }' ||
        fail "$1 bytes were told, and $2 are taken"
}

# as_bench MODEL SELECTOR OPTION...: all devices together take what a benchmark of the same reports
as_bench() {
    model=$1 devices=$2
    shift 2
    expect 0 -- plan --json --model="$model" --devices="$devices" --level=estimate "$@"
    json model "$model"
    json fits true
    told=0 k=0 samples=
    while [ $k -lt "$(of 'devices.#')" ]; do
        told=$((told + $(of devices.$k.memory_bytes)))
        samples="$samples $(of devices.$k.samples)"
        k=$((k + 1))
    done
    shard=$(of shard)
    expect 0 -- bench "$model" --json --devices="$devices" --level=estimate --shard=auto "$@"
    near $told "$(of memory_bytes)"
    k=0
    for one in $samples; do
        json shares.$k "$one"
        k=$((k + 1))
    done
}

as_bench lenet cpu:0 --batch=64
[ "$shard" = no ] || fail "without need $shard is divided"
as_bench lenet cpu:0/2 --batch=512 --shares=1,3 --optimizer=adam
[ "$shard" = no ] || fail "without need $shard is divided"
as_bench gpt cpu:0/2 --batch=8 --shares=even --own-weights --recompute=cheap

# Too little for one sample: the error says so, and programs learn it from the JSON.
expect 1 -- plan --json --model=lenet --devices=cpu:0/2@64KiB --level=estimate --batch=512
says "$err" '^yoke: plan: .*cpu:0/2.* quota'
json fits false
json batch 512
json why "$(sed 's/^yoke: plan: //; s/"/\\"/g' "$err")"

# Times that were measured: a step takes as long as its only device, and the update.
expect 0 YOKE_WISDOM="$work/wisdom" -- plan --json --model=tiny --devices=cpu:0 --core-groups=never --shares=even
checks=$((checks + 1))
json gather_ms null
awk -v a="$(of step_ms)" -v b="$(of devices.0.ms)" -v c="$(of update_ms)" \
    'BEGIN { d = (b + c) / a - 1; exit !(b > 0 && c > 0 && d < 1e-3 && d > -1e-3) }' ||
    fail "a step takes $(of step_ms) ms, its only device $(of devices.0.ms), the update $(of update_ms)"

# Two small devices have no room for all of the state: a training divides it as was told, and takes as
# much. Its layers are large beside what a few samples take in tests.
layers=
while [ ${#layers} -lt 400 ]; do layers="$layers {\"op\": \"dense\", \"units\": 512}, {\"op\": \"tanh\"},"; done
write_graph "$work/deep.json" "$layers"
set -- --model="$work/deep.json" --batch=32 --shares=even --level=estimate --optimizer=adam --own-weights
expect 0 -- plan --json "$@" --devices=cpu:0/2
json shard no
small=cpu:0/2@$(($(of devices.0.memory_bytes) * 4 / 5))B
expect 0 -- plan "$@" --devices="$small"
says "$out" '^.*/deep\.json, batch 32: the optimizer.s state is divided(;|$)'
says "$out" '^device +samples +memory +of quota +ms$'
says "$out" '^cpu:0/2\.1 +16 +[0-9.]+ MiB +[0-9.]+ MiB +(-|[0-9.e+]+)$'
expect 1 -- plan "$@" --devices="$small" --shard=no --recompute=none --stages=no
says "$err" '^yoke: plan: .*cpu:0/2.* quota'
expect 0 -- plan --json "$@" --devices="$small"
json shard state
first=$(of devices.0.memory_bytes) second=$(of devices.1.memory_bytes)
expect 0 -- train "$@" --devices="$small" --data="$digits" --epochs=1 --log="$work/log" # auto is the default
says "$err" '^yoke: train: note: .*: the optimizer.s state is divided$'
set -- $(sed -n 's/.*"kind": "step".*"memory": *\[\([0-9]*\), *\([0-9]*\)\].*/\1 \2/p' "$work/log" | tail -n 1)
near "$first" "${1:-0}"
near "$second" "${2:-0}"

finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fit_memory.sh - what `yoke plan` and `yoke train` do where devices have too little memory: both choose
# the same way by themselves, in which it fits, and tell it in a line; what is asked for by name stays.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

digits=$YOKE_SRCDIR/examples/data

for command in train plan; do
    set -- --model=lenet --devices=cpu:0
    [ $command = plan ] || set -- "$@" --data="$digits"
    for bad in recompute=fit recompute=0 stages=none stages=0; do
        expect 2 -- $command "$@" "--$bad"
        says "$err" "^yoke: $command: --${bad%%=*}( is |=).* must be "
    done
done
expect 2 -- tune lenet --recompute=auto
says "$err" '^yoke: tune: --recompute( is |=).* must be none, cheap, or a size'

take_pocl
export POCL_MAX_PTHREAD_COUNT=2

# of MEMBER: of the JSON on standard output
of() {
    "$pick" "$1" <"$out"
}

# Layers that keep much for backward, with few weights; the other way round; and half each.
layers=
while [ ${#layers} -lt 900 ]; do layers="$layers {\"op\": \"dense\", \"units\": 64}, {\"op\": \"tanh\"},"; done
write_graph "$work/long.json" "$layers"
wide=$(printf '%s' "$layers" | sed 's/64/512/g' | cut -d, -f1-24)
write_graph "$work/wide.json" "$wide,"
set -- --level=estimate --optimizer=adam --core-groups=never

# Enough memory: nothing is told.
expect 0 -- plan --json "$@" --model="$work/long.json" --batch=1024 --devices=cpu:0
json shard no
json stages 0
json devices.0.recompute_bytes 0
json devices.0.needed_bytes 0
whole=$(of devices.0.memory_bytes)
expect 0 -- train "$@" --model="$work/long.json" --batch=1024 --devices=cpu:0 --data="$digits" --epochs=1 --seed=1
lacks "$err" 'training needs'
first=$(sed 's/, [0-9]* samples.*//' "$out")

# One device computes again, as was planned, so that a test has room too, and learns the same.
small=cpu:0@${whole}B
expect 0 -- plan "$@" --model="$work/long.json" --batch=1024 --devices="$small"
says "$out" '^training needs about [0-9.]+ MiB on cpu:0, which has [0-9.]+ MiB$'
says "$out" 'long\.json, batch 1024: values are computed again to keep to [0-9.]+ [KM]iB(;|$)'
expect 0 -- train "$@" --model="$work/long.json" --batch=1024 --devices="$small" --data="$digits" --epochs=1 --seed=1
says "$err" '^yoke: train: note: training needs about [0-9.]+ MiB on cpu:0, which has [0-9.]+ MiB: values are computed again to keep to [0-9.]+ [KM]iB$'
checks=$((checks + 1))
[ "$(sed 's/, [0-9]* samples.*//' "$out")" = "$first" ] || fail "not as with enough memory: $first"
expect 1 -- train "$@" --model="$work/long.json" --batch=1024 --devices="cpu:0@$((whole * 4 / 5))B" --data="$digits" --recompute=none
says "$err" '^yoke: train: .*cpu:0.* quota'
expect 1 -- plan "$@" --model="$work/long.json" --batch=1024 --devices="cpu:0@$((whole * 4 / 5))B" --recompute=none --stages=no --shard=no
says "$err" '^yoke: plan: .*cpu:0.* quota'

# Two devices: stages, as shards are excluded; two steps of an epoch and a test have room.
expect 0 -- plan --json "$@" --model="$work/wide.json" --batch=32 --devices=cpu:0/2 --own-weights
memory=$(of devices.0.memory_bytes)
set -- "$@" --model="$work/wide.json" --batch=32 --own-weights --devices=cpu:0/2@$((memory * 7 / 10))B
expect 0 -- plan "$@" --shard=no
says "$out" 'wide\.json, batch 32: the network is cut into 2 stages(;|$)'
expect 0 -- plan --json "$@" --shard=no
json stages 2
json fits true
expect 0 -- train "$@" --shard=no --data="$digits" --epochs=1
says "$err" '^yoke: train: note: training needs about [0-9.]+ MiB on cpu:0/2\.[01], which has [0-9.]+ MiB: the network is cut into 2 stages$'
set -- "$@" --devices=cpu:0/2@$((memory * 9 / 10))B
expect 0 -- train "$@" --data="$digits" --epochs=1 --shares=even
says "$err" '^yoke: train: note: training needs .*: the optimizer.s state is divided$'

# Nothing fits: one sentence.
expect 1 -- train --model="$work/wide.json" --data="$digits" --level=estimate --devices=cpu:0/2@200KB --own-weights
says "$err" '^yoke: train: training needs about .* on cpu:0/2\.[01], which has 0\.2 MB left .*; in stages: '
expect 1 -- plan --json --model="$work/wide.json" --level=estimate --devices=cpu:0@200KB
json fits false
says "$err" '^yoke: plan: training needs about .* MB if backward computes again what it can; take '

finish

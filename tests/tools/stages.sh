#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# stages.sh - a network in stages: what is refused, what is told, and that a training goes on with
# stages or without.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

digits=$YOKE_SRCDIR/examples/data
take_pocl
export POCL_MAX_PTHREAD_COUNT=2

for bad in 0 x 2x -1 1.5 ''; do
    expect 2 -- train --model=lenet --data="$digits" "--stages=$bad"
    says "$err" '^yoke: train: --stages( is |=).*must be '
done
set -- --model=mlp --data="$digits" --level=estimate --batch=64 --seed=3 --epochs=2
expect 1 -- train "$@" --model=resnet18 --devices=cpu:0/2 --stages=2 --accumulate=7
says "$err" '^yoke: train: .*accumulate is 7, but the graph has batch norms, .* divide the batch, 64, then: take 4'
expect 1 -- train "$@" --devices=cpu:0/2 --stages=3
says "$err" '^yoke: train: .*stages is 3, and the team has 2 devices; must be at most that'
expect 1 -- train "$@" --devices=cpu:0/2 --stages=2 --shares=1,2
says "$err" '^yoke: train: .*with stages; must be '
expect 1 -- train "$@" --devices=cpu:0/2 --stages=2 --shard=state
says "$err" '^yoke: train: .*no shards'
expect 1 -- train "$@" --devices=cpu:0/2@20KB --stages=2
says "$err" '^yoke: train: .*(alone takes about|no cut of the graph into stages fits)'

# Each device has a part of the network, and computes all samples; together they do as much as one.
expect 0 -- plan --json --model=mlp --devices=cpu:0/2 --level=estimate --batch=64 --stages=2 --accumulate=8
json devices.0.samples 8
json devices.1.samples 8
expect 0 -- bench mlp --json --devices=cpu:0/2 --level=estimate --batch=64 --stages=2 --accumulate=8
staged=$("$pick" gflops <"$out") rate=$("$pick" step_ms <"$out")
expect 0 -- bench mlp --json --devices=cpu:0 --core-groups=never --level=estimate --batch=64 --accumulate=8
checks=$((checks + 1))
awk -v a="$staged" -v b="$rate" -v c="$("$pick" gflops <"$out")" -v d="$("$pick" step_ms <"$out")" \
    'BEGIN { q = a * b / (c * d); exit !(q > 0.97 && q < 1.03) }' ||
    fail "two stages do $staged GFLOP/s in steps of $rate ms"

# A training in two stages is saved as any other, and goes on without stages. Its micro-batches have 10
# samples or 9, without batch norms all the same.
expect 0 -- train "$@" --devices=cpu:0/2 --stages=2 --accumulate=7 --checkpoint="$work/both"
says "$out" ' 2 epochs$'
expect 0 -- train "$@" --devices=cpu:0 --core-groups=never --accumulate=4 --epochs=3 \
    --checkpoint="$work/both" --resume
says "$err" '^epoch 3/3 '
lacks "$err" 'micro-batches'
says "$out" ' 3 epochs$'

finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# memory.sh - two processes whose devices have too little memory for a training as it is: both choose the
# first way that fits, one tells it, and they train. tests/tools/fit_memory.sh does it in one process.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_command
pick=$YOKE_BUILDDIR/tests/tools/jsonpick
export POCL_MAX_PTHREAD_COUNT=1
rm -f "$work"/*.json

# Layers that keep much for backward, with few weights; the other way round.
layers=
while [ ${#layers} -lt 900 ]; do layers="$layers {\"op\": \"dense\", \"units\": 64}, {\"op\": \"tanh\"},"; done
write_graph "$work/long.json" "$layers"
write_graph "$work/wide.json" "$(printf '%s' "$layers" | sed 's/64/512/g' | cut -d, -f1-24),"

# needs NAME BATCH: bytes that each of two devices needs, into $needs
needs() {
    POCL_MAX_PTHREAD_COUNT=2 "$program" plan --json --level=estimate --optimizer=adam --core-groups=never --model="$work/$1.json" \
        --batch="$2" --devices=cpu:0/2 --own-weights >"$work/output" 2>&1 || fail "$1: no plan"
    needs=$("$pick" devices.0.memory_bytes <"$work/output") || fail "$1: no memory in the plan"
}

# chosen NAME BATCH PERCENT TOLD OPTION...: each has so much of what it needs
chosen() {
    name=$1
    batch=$2
    percent=$3
    told=$4
    shift 4
    what="$name with $percent %"
    needs "$name" "$batch"
    launch 2 train --level=estimate --optimizer=adam --core-groups=never --model="$work/$name.json" \
        --batch="$batch" --devices="cpu:0@$((needs * percent / 100))B" --epochs=1 \
        --data="$YOKE_SRCDIR/examples/data" "$@" || fail "$what: exit $launch_status"
    says "note: training needs .*: $told\$"
    [ "$(grep -c 'note: training needs' "$work/output")" = 1 ] || fail "$what: it is told more than once"
    says '^test accuracy '
}

chosen wide 32 70 'the network is cut into 2 stages' --shard=no
chosen wide 32 90 "the optimizer.s state is divided" --shares=even
chosen long 1024 80 'values are computed again to keep to [0-9.]* [KM]iB' --shard=no --stages=no --shares=even

# Nothing fits: a sentence, and no hang.
what='too little'
! launch 2 train --level=estimate --model="$work/wide.json" --data="$YOKE_SRCDIR/examples/data" \
    --devices=cpu:0@200KB || fail "$what: exit 0"
says 'training needs about .*; in stages: '

finish

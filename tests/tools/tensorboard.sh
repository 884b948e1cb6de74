#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tensorboard.sh - yoke train --tensorboard: a file of a training and one of its going on; rank 0
# alone writes; folders that cannot be made. tests/data/check_board.c reads such files byte by byte,
# read_tensorboard.sh as TensorBoard does, and check_tensorboard.c has a disk that is full.

. "$YOKE_SRCDIR/tests/tools/lib.sh"
take_pocl

digits=$YOKE_SRCDIR/examples/data
run="train --model=lenet --data=$digits --devices=cpu:0/2 --batch=8 --shares=even"
board=$work/runs/first

count() {
    checks=$((checks + 1))
    found=$(find "$1" -name 'events.out.tfevents.*' | wc -l)
    [ "$found" = "$2" ] || fail "$found files instead of $2"
}

# shellcheck disable=SC2086 # words
expect 0 POCL_MAX_PTHREAD_COUNT=2 -- $run --epochs=1 --tensorboard="$board" --checkpoint="$work/saved"
count "$board" 1
# shellcheck disable=SC2086
expect 0 POCL_MAX_PTHREAD_COUNT=2 -- $run --epochs=2 --tensorboard="$board" \
    --checkpoint="$work/saved" --resume
count "$board" 2
checks=$((checks + 1))
grep -q 'samples/1' "$board"/* || skip "built without libpng"
checks=$((checks + 1))
grep -q 'weights/fc2.bias' "$board"/* && grep -q 'shares/cpu:0/2.1' "$board"/* ||
    fail "the file has no weights or no shares"

# ---- what cannot be written ----

: >"$work/file"
# shellcheck disable=SC2086
expect 1 -- $run --epochs=1 --tensorboard="$work/file/below"
says "$err" "^yoke: train: the folder $work/file/below cannot be made: Not a directory"

# ---- rank 0 writes, all read the weights ----

. "$YOKE_SRCDIR/tests/support/launcher.sh"
if [ -n "${MPIRUN:-}" ]; then
    what='mpirun -n 2 yoke train --tensorboard'
    checks=$((checks + 1))
    # Open MPI and its libraries leak.
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 "$MPIRUN" -n 2 "$yoke" train --model=mlp --data="$digits" --devices=cpu:0 --epochs=1 --batch=64 \
        --tensorboard="$work/ranks" >"$out" 2>"$err" </dev/null || fail "it fails"
    count "$work/ranks" 1
    checks=$((checks + 1))
    grep -q 'weights/fc1.weight' "$work"/ranks/* || fail "the file has no weights"
else
    skip "this build has no MPI"
fi
finish

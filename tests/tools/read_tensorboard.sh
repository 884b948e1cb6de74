#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# read_tensorboard.sh - TensorBoard's own reader, where it is installed (PYTHON= names a Python that
# has it), finds in the files of `yoke train --tensorboard` each step once, also where an epoch was
# lost and trained again.

python=${PYTHON:-python3}
"$python" -c 'import tensorboard' 2>/dev/null || {
    echo "no package tensorboard for $python"
    exit 77
}
. "$YOKE_SRCDIR/tests/tools/lib.sh"
take_pocl

run="train --model=lenet --data=$YOKE_SRCDIR/examples/data --devices=cpu:0/2 --shares=even"
run="$run --batch=8 --epochs=2 --tensorboard=$work/board --checkpoint=$work/saved"
# shellcheck disable=SC2086 # words
expect 0 POCL_MAX_PTHREAD_COUNT=2 -- $run
newest=$(find "$work/saved" -name 'checkpoint-*' | sort | tail -n 1)
rm "$newest"
# shellcheck disable=SC2086
expect 0 POCL_MAX_PTHREAD_COUNT=2 -- $run --resume --json
steps=$(tail -n 1 "$out" | "$pick" steps)
checks=$((checks + 1))
"$python" "$YOKE_SRCDIR/tests/tools/read_tensorboard.py" "$work/board" "$steps" "$((steps / 2))" \
    >"$out" 2>"$err" || fail "TensorBoard reads something else"
finish

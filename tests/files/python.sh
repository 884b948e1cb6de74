#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# python.sh - Python reads what we write (check.py).
set -eu
if ! command -v python3 >/dev/null; then
    echo "there is no python3"
    [ "${YOKE_REQUIRE_ALL:-0}" != 1 ] || exit 1
    exit 77
fi
work=$YOKE_BUILDDIR/tests/files/python.tmp
rm -rf "$work"
mkdir -p "$work"
YOKE_TEST_WRITE=$work/weights.safetensors CK_RUN_CASE=python "$YOKE_BUILDDIR/tests/files/check_weights" \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
python3 "$YOKE_SRCDIR/tests/files/check.py" "$work/weights.safetensors"
rm -rf "$work"

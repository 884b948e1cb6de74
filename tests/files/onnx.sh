#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# onnx.sh - against the packages onnx and onnxruntime, and torch with onnxscript where they are
# (PYTHON= names a Python that has them): each operator and each built-in model that yoke writes has
# the same outputs there (onnx_runtime.py), and what PyTorch exports anew has its outputs and
# gradients here (onnx_models.py).

set -u

python=${PYTHON:-python3}
for package in onnx onnxruntime; do
    "$python" -c "import $package" 2>/dev/null || {
        echo "no package $package for $python"
        exit 77
    }
done
work=$YOKE_BUILDDIR/tests/files/onnx.tmp
rm -rf "$work"
mkdir -p "$work/written" "$work/exported"
check() {
    "$@" >"$work/log" 2>&1 || {
        cat "$work/log"
        exit 1
    }
}
YOKE_TEST_WRITE=$work/written CK_RUN_CASE=runtime check "$YOKE_BUILDDIR/tests/files/check_onnx"
check "$python" "$YOKE_SRCDIR/tests/files/onnx_runtime.py" "$work/written"
if "$python" -c "import torch, onnxscript" 2>/dev/null; then
    check "$python" "$YOKE_SRCDIR/tests/files/onnx_models.py" "$work/exported"
    YOKE_TEST_MODELS=$work/exported CK_RUN_CASE=read check "$YOKE_BUILDDIR/tests/files/check_onnx"
fi
rm -rf "$work"

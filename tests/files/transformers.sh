#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# transformers.sh - against Hugging Face's packages transformers and peft (PYTHON= names a Python that
# has them): models of random weights that they write have their logits and gradients, and adapters
# go there and back (adapters.py).

set -u

python=${PYTHON:-python3}
for package in torch transformers peft; do
    "$python" -c "import $package" 2>/dev/null || {
        echo "no package $package for $python"
        exit 77
    }
done
[ -x "$YOKE_BUILDDIR/tools/yoke" ] || {
    echo "built without the yoke command"
    exit 77
}
work=$YOKE_BUILDDIR/tests/files/transformers.tmp
rm -rf "$work"
mkdir -p "$work"
HF_HUB_OFFLINE=1
export HF_HUB_OFFLINE
"$python" "$YOKE_SRCDIR/tests/files/hugging_face.py" "$work" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
YOKE_TEST_MODELS=$work CK_RUN_CASE=models "$YOKE_BUILDDIR/tests/files/check_hugging_face" \
    >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
device=cpu:0
"$YOKE_BUILDDIR/tools/yoke" devices cpu:0 >/dev/null 2>&1 || device=
"$python" "$YOKE_SRCDIR/tests/files/adapters.py" "$YOKE_BUILDDIR/tools/yoke" "$work" "$device" \
    >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
rm -rf "$work"

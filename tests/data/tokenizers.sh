#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tokenizers.sh - yoke's tokens are those of Hugging Face's package tokenizers (PYTHON= names a
# Python that has it), on this project's own text and on made ones, with the cuts of GPT-2 and
# Llama 3; YOKE_GPT2=DIR adds a vocab.json and merges.txt. The package reads what yoke writes.

set -u

python=${PYTHON:-python3}
[ -x "$YOKE_BUILDDIR/tools/yoke" ] || {
    echo "built without the yoke command"
    exit 77
}
"$python" -c 'import tokenizers' 2>/dev/null || {
    echo "no package tokenizers for $python"
    exit 77
}
work=$YOKE_BUILDDIR/tests/data/tokenizers.tmp
rm -rf "$work"
mkdir -p "$work"
exec "$python" "$YOKE_SRCDIR/tests/data/tokenizers.py" "$YOKE_BUILDDIR/tools/yoke" "$YOKE_SRCDIR" "$work"

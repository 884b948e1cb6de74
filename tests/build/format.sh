#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# format.sh - every C file is as clang-format 14 writes it, with the .clang-format of the tree.
# Other versions differ in details, so without this one the test is skipped.

set -u
cd "${YOKE_SRCDIR:?}" || exit 1
for program in clang-format-14 clang-format none; do
    $program --version 2>/dev/null | grep -q 'version 14\.' && break
done
if [ $program = none ]; then
    echo "SKIPPED: there is no clang-format of version 14 here"
    exit 77
fi
# One process for all files: to start it takes longer than a file does.
if find lib mpi tools examples tests -name '*.[ch]' -exec $program --dry-run -Werror {} +; then
    exit 0
fi
echo "FAIL: these files are not formatted; mend them: $program -i FILE..."
exit 1

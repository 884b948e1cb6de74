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
failed=0
for file in $(find lib mpi tools examples tests -name '*.[ch]'); do
    $program "$file" | cmp -s - "$file" && continue
    echo "FAIL: $file is not formatted; mend it: $program -i $file"
    failed=1
done
exit $failed

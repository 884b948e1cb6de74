#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# shadow.sh - why plans are not run under Oclgrind's --uninitialized: shadow.c does
# three things that are right, and Oclgrind 21 complains of two. Where it no longer
# does, SKIP_ON_SIMULATOR (tests/op/harness.h) can go.
set -u

icd=
prefix=$(command -v oclgrind) || exit 77
for file in "${prefix%/bin/*}"/lib*/oclgrind/liboclgrind-rt-icd.so \
    "${prefix%/bin/*}"/lib*/liboclgrind-rt-icd.so; do
    [ -f "$file" ] && icd=$file
done
[ -n "$icd" ] || exit 77
status=0

# expect COUNT HOW: complaints, 0 or more than that
expect() {
    complaints=$(OCL_ICD_VENDORS=$icd OCLGRIND_UNINITIALIZED=1 ./tests/device/shadow "$2" 2>&1 |
        grep -c '^Uninitialized')
    case $1:$complaints in
    none:0 | some:[1-9]*) ;;
    *)
        echo "shadow $2: $complaints complaints, not $1"
        status=1
        ;;
    esac
}

expect none whole
expect some parts
expect some again
exit $status

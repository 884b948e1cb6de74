#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mutants.sh - every fault of tests/mutants/list.sh can still be made: the text that it replaces
# stands once in its file, and the test that must see it exists and is built. `make check-mutants`
# makes them.

set -u
cd "${YOKE_SRCDIR:?}" || exit 1
failed=0

# mutant NAME FILE OLD NEW PROGRAM [CASE]
mutant() {
    [ -f "$2" ] && OLD=$3 awk 'BEGIN { RS = "\001"; old = ENVIRON["OLD"] }
        { at = index($0, old); exit at == 0 || index(substr($0, at + 1), old) > 0 }' "$2" || {
        echo "FAIL: $1: not just once in $2: $3"
        failed=1
    }
    [ -f "$5.c" ] || [ -f "$5" ] || {
        echo "FAIL: $1: there is no test $5"
        failed=1
    }
    [ ! -f "$5.c" ] || grep -qw "$5" tests/mutants/Makemodule.am || {
        echo "FAIL: $1: $5 is not in MUTATED_TESTS, so make check-mutants does not build it"
        failed=1
    }
}
# shellcheck source=tests/mutants/list.sh
. tests/mutants/list.sh
exit $failed

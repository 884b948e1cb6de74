#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# words.sh - the words of docs/glossary.md: at most 40, each in one row, and each with a file that
# there is; and none comes back of the words that were given up for having several meanings. Nor does a
# solver name a vendor.

set -u
cd "${YOKE_SRCDIR:?}" || exit 1
failed=0
fail() {
    echo "FAIL: $*"
    failed=1
}

rows=$(sed -n 's/^| \([^|]*\) | [^|]* | `\([^`]*\)` |$/\1|\2/p' docs/glossary.md)
count=$(echo "$rows" | wc -l)
[ "$count" -ge 20 ] && [ "$count" -le 40 ] || fail "docs/glossary.md has $count rows; 20 to 40 are wanted"
[ "$(echo "$rows" | cut -d'|' -f1)" = "$(echo "$rows" | cut -d'|' -f1 | LC_ALL=C sort -u)" ] ||
    fail "the rows of docs/glossary.md are not sorted, or one stands twice"
for file in $(echo "$rows" | cut -d'|' -f2); do
    [ -f "$file" ] || fail "docs/glossary.md names $file, which is not there"
done

# given_up PATTERN INSTEAD FILE...: an identifier or a word that has another name now
given_up() {
    pattern=$1 instead=$2
    shift 2
    found=$(grep -rnE --include='*.c' --include='*.h' --include='*.[1-9]' "$pattern" "$@" |
        grep -v 'SIMD lane')
    [ -n "$found" ] || return 0
    fail "given up for \"$instead\": $found"
}
given_up '\<(yki|yoke|YOKE)_[A-Za-z_]*lanes?_(choice|always|measure|never|team|count)' 'core groups' lib tools tests man
given_up '(^|[^-])\<[Ll]anes?\>' 'core group(s)' lib/train/*.[ch] lib/team lib/shares lib/replica \
    lib/yoke-train.h man/yoke_trainer.3
given_up '\<lanes_|_of_lanes\>' 'core groups' tests/train
given_up '\<(freeze|frozen)\>' 'fixed' lib/shares
given_up '\<yki_part_of\>|[.>]parts\>' 'micro-batch' lib/train lib/team lib/replica/replica.*
given_up '\<yki_(part|parts|lie|ahead|feeds?|place|source)\>' 'a word of its own' lib tests
given_up '\<(yki_[a-z_]*_turns|MAX_TURNS|traits[.>-]+turns)\>' 'iterations' lib tests
given_up '\<(travel|teach|lend|agree|same|match|control|live|feeds?|parts)\.[ch]\>' 'a name that says what is in it' lib mpi
given_up '\<((set_|list_|find_|measure_|keep_good_)ways?|way_count|WAYS)\>|[>.]ways?\>' 'algorithm' lib/team mpi man/yoke_comm.3
# yoke plan tells of the gathers of divided weights.
# shellcheck disable=SC2046
given_up '\<[Gg]ather(s|ed|ing|_[a-z]*)?\>' 'take, read or collect' lib/op lib/graph lib/device lib/zoo lib/replica/loader.c \
    tests/op tests/device $(find tools -name '*.[ch]' ! -name plan.c)
given_up '\<allreduce_test\>' 'test' lib mpi tests man

# Solvers ask what a device can do, not who made it.
makers='nvidia|amd|intel|arm|mali|adreno|apple|qualcomm|geforce|radeon|xeon|epyc|zen'
! grep -rniE "\<($makers)\>" clkernels || fail "a kernel names a maker"
found=$(grep -rniE "\<($makers|pocl|rusticl)\>" lib/op lib/plan | grep -v '^lib/plan/wisdom.c:[0-9]*: \*  ')
[ -z "$found" ] || fail "a solver or the planner names a maker: $found"
exit $failed

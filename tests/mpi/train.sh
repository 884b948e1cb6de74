#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# train.sh - the same training on one device and on many ranks gives the same weights.
#
# 1 to 4 ranks, devices of unequal number and drivers, shares with zeros. The program itself
# compares the replicas of all ranks bit by bit. Ranks that are lost in a step are named.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_program "$YOKE_BUILDDIR/tests/mpi/train"
steps=40
limit=1e-5
if [ "${YOKE_TEST_QUICK:-0}" = 1 ]; then
    steps=20
fi

only_pocl

# A rank that stops in a step; the others wait for it beside all that follows.
export RANK_DEVICES=""
# On a busy machine a rank that compiles might be taken for lost, so all is compiled before.
launch 3 "$work/before" 1 48 even || fail "one step: exit $launch_status"
watchful
for where in before in; do
    aside lost 1 noticed 3 "$work/lost" 100000 48 even 1 stop $where
done
unset YOKE_MPI_TIMEOUT YOKE_MPI_WARN

# same NAME N DEVICES SHARES: as one device would have it
same() {
    export RANK_DEVICES="$3"
    rm -f "$work/$1"
    if ! launch "$2" "$work/$1" $steps 48 "$4"; then
        fail "$1: -n $2 on \"$3\": exit $launch_status after $took s"
        return
    fi
    far=$(difference "$work/one" "$work/$1")
    echo "$1: $far of the largest weight, $took s"
    is_within "$far" $limit ||
        fail "$1: -n $2 on \"$3\" differs by $far"
}

same one 1 cpu:0 even
same two 2 "" even
grep -q 'rank 1: 1 of 2 devices' "$work/output" || fail "two ranks of one host do not divide it"
same three 3 "" even
same four 4 "" even
same auto 2 "" auto
same unequal 2 "cpu:0/2 cpu:0/2.0" 3,1,2
same zero 3 "cpu:0/2.0" 1,0,2
same alone 2 "cpu:0/2.0" 0,1
# One of two devices holds less than half a batch.
same small 2 "cpu:0/2.0@60KiB cpu:0/2.1" auto
YOKE_MPI_MODE=nonblocking
export YOKE_MPI_MODE
same nonblocking 3 "" 1,2,1
unset YOKE_MPI_MODE

if add_rusticl; then
    same platforms 2 "cpu:0 cpu:1" 2,1
    remove_rusticl
fi

# Steps to which no sample counts.
export RANK_DEVICES=""
for n in 1 2; do
    launch $n "$work/nothing" 0 48 even 0 0 nothing || fail "steps of nothing: exit $launch_status"
    [ "$(grep -c 'nothing changed' "$work/output")" = $n ] || fail "$n ranks: steps of nothing count"
done

# A rank whose dataset has one sample less.
for who in 1 2; do
    launch 3 "$work/counts" 0 24 even $who 0 counts || fail "unlike counts: exit $launch_status"
    [ "$(grep -c 'unlike counts refused' "$work/output")" = 3 ] || fail "unlike counts are not refused"
done

# A signal to one rank: all stop after the same step.
for who in 0 2; do
    launch 3 "$work/stopped" 0 48 even $who term fit || fail "SIGTERM to rank $who: exit $launch_status"
    [ "$(grep -c 'stopped together' "$work/output")" = 3 ] || fail "SIGTERM to rank $who: not all stop"
done

# A rank that is lost in a step.
watchful
for where in before in; do
    lost 1 soon 3 "$work/lost" 100000 48 even 1 kill $where
    lost 1 $exit_ends 3 "$work/lost" 100000 48 even 1 exit $where
done

# Gradients in shared memory, and in buckets so small that there are several.
unset YOKE_MPI_TIMEOUT YOKE_MPI_WARN
export YOKE_MPI_MODE=shared YOKE_BUCKET_BYTES=2048
same shared 3 "" 1,2,1
unset YOKE_MPI_MODE YOKE_BUCKET_BYTES

# Ranks count rows, not samples.
export SEQUENCES=1
mv "$work/one" "$work/one-image"
same one 1 cpu:0 even
same sequences 2 "cpu:0/2 cpu:0/2.0" 3,1,2
# Products of numbers rounded to bfloat16.
export PRECISION=bf16
same one 1 cpu:0 even
same rounded 2 "cpu:0/2 cpu:0/2.0" 3,1,2
# Products of halves; the gradients of one rank overflow in a step, which all skip.
export PRECISION=f16 HUGE=1
same one 1 cpu:0 even
same halves 2 "cpu:0/2 cpu:0/2.0" 3,1,2
[ "$(grep -c 'loss scale 32768, 1 skipped' "$work/output")" = 2 ] || fail "not all skip the step"
unset PRECISION HUGE
mv "$work/one-image" "$work/one"
unset SEQUENCES

# How they travel is measured once, and known from then on.
export YOKE_WISDOM="$work/wisdom"
rm -f "$YOKE_WISDOM"
same measured 2 "" even
[ "$(grep -c ' travel-[a-z]* 0 all-reduce [0-9]* bytes | .* -> 2 ranks$' "$YOKE_WISDOM")" -ge 2 ] ||
    fail "what reductions take is not kept"
sed -n '/ travel-/s/^[0-9.]* //p' "$YOKE_WISDOM" >"$work/algorithms"
sed -i '/ travel-/s/^[0-9.]*/0.5/' "$YOKE_WISDOM"
same known 2 "" even
[ "$(grep -c '^0.5[0]* travel-' "$YOKE_WISDOM")" = "$(wc -l <"$work/algorithms")" ] ||
    fail "what is known is measured again"
! grep -q 'makes no sense' "$work/output" || fail "what is kept cannot be read"
unset YOKE_WISDOM

# Rank 0's wisdom is everybody's. plans FILE...: of the ranks; prints how rank 0 and how rank 1
# computes. One file has the times of the other turned round, so by it the slowest is chosen; with
# one that is not there all would be measured.
plans() {
    RANK_WISDOM="$*" launch 2 "$work/wise" 1 48 even || fail "wisdom of $*: exit $launch_status"
    for rank in 0 1; do
        sed -n "s/^[a-z]* by rank $rank: //p" "$work/output" | tr '\n' ' '
        echo
    done
}
rm -f "$work"/wise-*
export RANK_DEVICES=""
plans "$work/wise-a" >/dev/null
awk '/^[0-9]/ { $1 = sprintf("%.9f", 1e-7 / $1) } { print }' "$work/wise-a" >"$work/wise-b"
plans "$work/wise-a" >"$work/wise-aa"
plans "$work/wise-b" >"$work/wise-bb"
plans "$work/wise-a" "$work/wise-b" >"$work/wise-ab"
plans "$work/wise-a" "$work/wise-none" >"$work/wise-an"
for who in aa bb ab an; do
    [ "$(sed -n 1p "$work/wise-$who" | wc -w)" = 2 ] || fail "what ranks compute is not told"
    [ "$(uniq "$work/wise-$who" | wc -l)" = 1 ] ||
        fail "rank 1 computes by another wisdom than rank 0's: $who"
done
for who in aa ab; do
    ! cmp -s "$work/wise-$who" "$work/wise-bb" || fail "$who: rank 0's wisdom makes no difference"
done
if [ -e "$work/wise-none" ]; then # where time was short, rank 0 has left a little
    [ "$(grep -c '^[0-9]' "$work/wise-none")" -lt 5 ] || fail "rank 1 measures what rank 0 knows"
fi

together
finish

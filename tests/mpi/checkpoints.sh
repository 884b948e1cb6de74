#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# checkpoints.sh - replicas that differ are found, checkpoints go on with any number of ranks, and
# survive the loss of one.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_program "$YOKE_BUILDDIR/tests/mpi/train"
only_pocl
rm -rf "$work"/part* "$work"/whole* "$work"/flips* "$work"/kept*
export RANK_DEVICES=""

# ---- a rank that stops while rank 0 writes: beside all that follows ----

# On a busy machine a rank that compiles might be taken for lost, so all is compiled before.
launch 3 "$work/before" 1 48 even || fail "one step: exit $launch_status"
watchful
for who in 0 1; do
    aside lost $who noticed 3 "$work/kept-stop$who" 0 48 even $who stop save
done
unset YOKE_MPI_TIMEOUT YOKE_MPI_WARN

# ---- bits that turn by themselves: each is found, and its rank named ----

# found N COUNT DEVICES
found() {
    RANK_DEVICES=$3
    rm -rf "$work"/flips*
    if ! launch "$1" "$work/flips" 0 48 even "$2" "$work/flips-saved" flips; then
        fail "turned bits, -n $1 on \"$3\": exit $launch_status after $took s"
    elif [ "$(grep -c ": $(($2 + 2)) of $(($2 + 2)) turned bits were found" "$work/output")" != "$1" ]; then
        fail "turned bits, -n $1 on \"$3\": not all were found"
    fi
    RANK_DEVICES=
}

found 3 100 ""
found 2 20 ""
if add_rusticl; then
    found 2 20 "cpu:0,cpu:1 cpu:0"
    remove_rusticl
fi

# ---- going on: after five steps of three epochs of three ----

# epochs NAME N DIR
epochs() {
    launch "$2" "$work/$1" 0 48 auto 3 "$3" resume || fail "$1: -n $2: exit $launch_status"
}

export FREEZE=1
epochs whole 2 "$work/whole-saved"
STOP_AT=5
export STOP_AT
epochs part 2 "$work/part-saved"
unset STOP_AT
! cmp -s "$work/whole" "$work/part" || fail "a part of a training gives the whole of it"
for n in 1 2 3; do
    cp -r "$work/part-saved" "$work/part-saved-$n"
done
epochs part-2 2 "$work/part-saved-2"
cmp "$work/whole" "$work/part-2" || fail "resumed on as many ranks, frozen: other bits"
unset FREEZE
for n in 1 3; do
    epochs part-$n $n "$work/part-saved-$n"
    far=$(difference "$work/whole" "$work/part-$n")
    echo "resumed on $n instead of 2 ranks: $far of the largest weight"
    is_within "$far" 1e-5 || fail "resumed on $n ranks: differs by $far"
done

# ---- a rank that is lost while rank 0 writes ----

# The checkpoints before it are good.
goes_on() {
    # Nobody is lost here: a rank that a busy machine keeps waiting while it compiles is no loss.
    (
        unset YOKE_MPI_TIMEOUT
        launch 2 "$work/kept" 0 48 even 1 "$1" resume
    ) || fail "$1: cannot be resumed"
    ! ls "$1"/*.damaged >/dev/null 2>&1 || fail "$1: a damaged checkpoint"
    rm -rf "$1"
}

watchful
for who in 0 1; do
    lost $who soon 3 "$work/kept-kill$who" 0 48 even $who kill save
    goes_on "$work/kept-kill$who-save"
done
lost 0 $exit_ends 3 "$work/kept-exit" 0 48 even 0 exit save
goes_on "$work/kept-exit-save"

together
for who in 0 1; do
    goes_on "$work/kept-stop$who-save"
done

finish

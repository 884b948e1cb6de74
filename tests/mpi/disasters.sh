#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# disasters.sh - a rank that is killed, stopped, hangs, fails or leaves without a word.
#
# The program ends, soon, with a failure and a message that names that rank and no other, and
# no process is left. Where nothing goes wrong there is no alarm.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"

watchful

hangs() {
    lost 1 noticed 3 multiple disaster 1 hang step
    says 'rank 1 \(.*has not come to all-reduce \(call [0-9]*, 1024 values\) for .*step 3, forward'
    says 'log 1: waiting: rank 1 \('
}

# No alarm for who works for longer than the limit and says so.
busy() {
    export YOKE_MPI_TIMEOUT=20 YOKE_MPI_WARN=10
    expect 2 multiple slow 25
    ! grep -q 'ranks:' "$work/output" || fail "an alarm for one who works"
}

aside busy
aside lost 2 noticed 3 multiple disaster 2 stop step
aside lost 2 noticed 3 multiple disaster 2 stop collective
aside lost 0 noticed 3 multiple disaster 0 stop step
aside lost 1 noticed 3 serialized disaster 1 stop step
aside lost 1 noticed 2 funneled disaster 1 hang step
aside lost 1 noticed 3 multiple start 1 stop
aside lost 0 noticed 2 funneled start 0 stop
aside hangs
# The same while a rank waits for a message, or for its piece of a sum.
sends_nothing() {
    lost 1 noticed 3 multiple disaster 1 hang message
    says 'rank 1 \(.*has not come to the other end of receive \(tag 3, 8 bytes\) for .*step 3, forward'
}
aside sends_nothing
aside lost 1 noticed 3 serialized disaster 1 hang message
aside lost 2 noticed 3 multiple disaster 2 stop message
aside lost 2 noticed 3 multiple disaster 2 stop pieces
aside lost 1 noticed 3 funneled disaster 1 stop pieces
# In a reduction in shared memory.
export YOKE_MPI_MODE=shared
for level in multiple serialized; do
    aside lost 1 soon 3 $level disaster 1 kill step
    aside lost 1 noticed 3 $level disaster 1 stop step
done
unset YOKE_MPI_MODE

for where in step collective; do
    lost 1 soon 3 multiple disaster 1 kill $where
    lost 1 $exit_ends 3 multiple disaster 1 exit $where
done
for where in pieces message; do
    lost 1 soon 3 multiple disaster 1 kill $where
    lost 1 soon 3 serialized disaster 1 kill $where
done
lost 1 soon 3 multiple disaster 1 fail message
lost 0 soon 2 multiple disaster 0 kill step
lost 1 soon 3 multiple disaster 1 fail step
says 'rank 1 \(.*\): cpu:0: the device caught fire'
lost 0 soon 3 multiple disaster 0 fail step
says 'rank 0 \(.*\): cpu:0: the device caught fire'
lost 1 soon 3 serialized disaster 1 fail step
lost 1 soon 3 multiple start 1 kill
lost 1 $exit_ends 2 multiple start 1 exit

# Calls that do not match are an error: MPI's own, where it sees it, or the watchdog's.
export YOKE_MPI_TIMEOUT=2 YOKE_MPI_WARN=1
if launch 3 multiple mismatch; then
    fail "calls that do not match go through"
fi

if launch 3 multiple circle; then
    fail "ranks that wait for messages of one another go through"
fi
says 'rank [0-9] \(.*\) is in receive \(tag 3, 4 bytes\), but rank [0-9] \('

# No false alarm in many steps.
unset YOKE_MPI_WARN
export YOKE_MPI_TIMEOUT=60
steps=10000
[ "${YOKE_TEST_QUICK:-0}" != 1 ] || steps=1000
expect 2 multiple steps $steps
! grep -q 'log\|ranks:' "$work/output" || fail "a false alarm in $steps steps"

together
finish

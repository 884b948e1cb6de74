#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# timeline.sh - one timeline of several processes: whose tracks are in it, that what all do together
# is at the same time in all, and that this holds for clocks of which one is a day before the other.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
. "$YOKE_SRCDIR/tests/support/command.sh"
command=$yoke
[ -x "$command" ] || skip "the yoke command was not built"
[ -f "$YOKE_BUILDDIR/tools/.libs/yoke-mpi.so" ] || skip "the yoke command was built without MPI"
only_pocl
rm -rf "$work"/line*
read=$YOKE_BUILDDIR/tests/mpi/read_trace
train="train --model=lenet --data=$YOKE_SRCDIR/examples/data --batch=64 --normalize --shares=even
    --epochs=1 --lr=0.1 --schedule=constant"

# Ranks other than 0 may have another clock: one of a namespace of their own, or this machine's.
cat >"$work/ranked" <<END
#!/bin/sh
rank=\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}
[ "\${OTHER_CLOCKS:-0}" = 0 ] || [ "\$rank" = 0 ] ||
    exec unshare -T --monotonic \$((86400 * rank)) "$command" "\$@"
exec "$command" "\$@"
END
chmod +x "$work/ranked"
program=$work/ranked

# value WORD: of what was read
value() {
    sed -n "1s/.*\\b$1 \\([0-9]*\\).*/\\1/p" "$work/read"
}

# recorded RANKS: the newest launch wrote a timeline of so many processes
recorded() {
    if ! "$read" "$work/line.json" >"$work/read" 2>&1; then
        fail "$what: $(cat "$work/read")"
        return
    fi
    [ "$(value processes)" = "$1" ] || fail "$what: $(value processes) processes"
    # each has a queue, its thread, and two rows of what all do
    [ "$(value threads)" -ge $((4 * $1)) ] || fail "$what: $(value threads) tracks"
    # A device of each process has 1 bucket in 23 steps. Two exchanges a step, and requests.
    [ "$(value gradients)" = $((23 * $1)) ] || fail "$what: $(value gradients) arrows of gradients"
    [ "$(value operations)" -ge $((3 * 23)) ] || fail "$what: $(value operations) operations"
    [ "$(value last)" = $(($(value operations) * ($1 - 1))) ] ||
        fail "$what: $(value last) arrows of who came last"
    for rank in $(seq 1 "$1"); do
        grep -q "\"pid\": $rank, \"name\": \"all-reduce bucket 0\".*\"bytes\": [0-9]" "$work/line.json" ||
            fail "$what: rank $((rank - 1)) has no sum"
        grep -q "\"pid\": $rank, .*\"solver\".*\"gflops\"" "$work/line.json" ||
            fail "$what: rank $((rank - 1)) has no kernels"
    done
}

for ranks in 2 3; do
    what="$ranks ranks"
    # shellcheck disable=SC2086 # words
    launch $ranks $train --trace="$work/line.json" || fail "$what: exit $launch_status"
    recorded $ranks
done

if unshare -T --monotonic 5 true 2>/dev/null; then
    what="unlike clocks"
    # shellcheck disable=SC2086
    OTHER_CLOCKS=1 launch 3 $train --trace="$work/line.json" || fail "$what: exit $launch_status"
    recorded 3
else
    echo "SKIPPED: this machine has no namespaces of time"
    [ "${YOKE_REQUIRE_ALL:-0}" != 1 ] || fail "there are no namespaces of time"
fi

# A clock that was set: no merged file, but what each process saw, and training goes on.
what="a clock that was set"
program=$YOKE_BUILDDIR/tests/mpi/train
launch 3 "$work/weights" 0 24 even 2 "$work/line-set.json" trace || fail "$what: exit $launch_status"
[ ! -e "$work/line-set.json" ] || fail "$what: there is a merged file"
for rank in 0 1 2; do
    says "^rank $rank: -15, .*rank 0 .* and rank 2 .* moved by [0-9.e+]* ms .*line-set.json.rank-0 and so on"
    "$read" "$work/line-set.json.rank-$rank" >"$work/read" 2>&1 || fail "$what: $(cat "$work/read")"
    [ "$(value processes)" = 1 ] || fail "$what: $(value processes) processes"
    grep -q "\"pid\": $((rank + 1)), \"name\": \"process_name\"" "$work/line-set.json.rank-$rank" ||
        fail "$what: not the file of rank $rank"
done
program=$work/ranked

# All end alike if rank 0 has no place for the file, before they train.
what="no such folder"
# shellcheck disable=SC2086
! launch 2 $train --trace="$work/none/line.json" || fail "$what: exit 0"
says 'none/line.json'
[ "$(grep -c 'epoch' "$work/output")" = 0 ] || fail "$what: trains"

finish

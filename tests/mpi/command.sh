#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# command.sh - the yoke command under mpirun: who speaks, what signals do to all ranks and to one,
# devices by rank, tasks that do not know of each other.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_command
rm -rf "$work"/saved "$work"/logs "$work"/steps
pick=$YOKE_BUILDDIR/tests/tools/jsonpick
train="train --model=lenet --data=$YOKE_SRCDIR/examples/data --batch=64 --normalize --shares=even"

# count PATTERN: lines of the output that fit
count() {
    grep -cE "$1" "$work/output"
}

# ---- who speaks ----

what="two ranks"
# shellcheck disable=SC2086 # words
launch 2 $train --epochs=2 --lr=0.1 || fail "$what: exit $launch_status"
[ "$(count '^test accuracy [0-9.]+ %, ')" = 1 ] || fail "$what: the result is not said once"
[ "$(count '^epoch 2/2 ')" = 1 ] || fail "$what: an epoch is not said once"
[ "$(count 'rank 1 on ')" = 0 ] || fail "$what: rank 1 speaks"

what="an error that all ranks have"
# Rank 1 gives rank 0 a while to say it, and to end both. On a busy machine that may take longer.
tries=5
while [ $tries -gt 0 ]; do
    ! launch 2 train --model=lenet --data="$work/none" || fail "$what: exit 0"
    said=$(count 'there is no such')
    [ "$said" != 1 ] || break
    tries=$((tries - 1))
done
[ "$said" = 1 ] || fail "$what: said $said times"

# At this rate no weight changes, so all ranks end after the second epoch.
what="a file for each rank"
# shellcheck disable=SC2086
launch 2 $train --epochs=9 --lr=1e-30 --optimizer=sgd --schedule=constant --early-stop=1 \
    --keep-best --log-dir="$work/logs" --checkpoint="$work/saved" ||
    fail "$what: exit $launch_status"
[ "$(count .)" = 1 ] || fail "$what: more than the result is on the terminal"
[ "$(count ' 2 epochs$')" = 1 ] || fail "$what: does not end early"
for rank in 0 1; do
    [ -f "$work/logs/rank-$rank.log" ] || fail "$what: none of rank $rank"
    ! grep -qE "rank $((1 - rank)) on " "$work/logs/rank-$rank.log" || fail "$what: the other's words"
done
rm -rf "$work/saved"

# ---- devices by rank ----

what="selectors by rank"
cat >"$work/ranked" <<END
#!/bin/sh
rank=\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}
[ "\$rank" = 0 ] && export YOKE_DEVICES=cpu:0/2 || export YOKE_DEVICES=cpu:0/2.1
exec "$program" "\$@"
END
chmod +x "$work/ranked"
command=$program
program=$work/ranked
# shellcheck disable=SC2086
launch 2 $train --epochs=1 --log="$work/steps" || fail "$what: exit $launch_status"
[ "$(sed -n 2p "$work/steps" | "$pick" shares.2)" -gt 0 ] || fail "$what: there are no three devices"
program=$command

what="names of devices"
sed -n 1p "$work/steps" | grep -q '"rank 0 cpu:0[^"]*", .*"rank 1 cpu:0' ||
    fail "$what: $(sed -n 1p "$work/steps")"
says '^epoch 1/1 .* rank 0 cpu:0.* rank 1 cpu:0'
! grep -q 'device [0-9]' "$work/steps" || fail "$what: devices have numbers alone"

what="visible devices by rank"
cat >"$work/ranked" <<END
#!/bin/sh
rank=\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}
[ "\$rank" = 0 ] || export YOKE_VISIBLE_DEVICES=gpu:7
exec "$program" "\$@"
END
program=$work/ranked
# shellcheck disable=SC2086
! launch 2 $train --epochs=1 || fail "$what: exit 0"
says 'rank 1 .*YOKE_VISIBLE_DEVICES: '
program=$command

# ---- tasks that do not know of each other ----

what="a world of one of three tasks"
# shellcheck disable=SC2086
if env SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 "$program" $train --epochs=1 \
    --checkpoint="$work/saved" >"$work/output" 2>&1; then
    fail "$what: is taken"
fi
says '3 tasks were launched \(SLURM_STEP_NUM_TASKS\), but MPI knows of this one alone'
[ ! -e "$work/saved" ] || fail "$what: writes checkpoints"

# ---- signals ----

# The process that is rank $1.
process_of() {
    for pid in $(pgrep -f "/tools/.libs/yoke train .*--checkpoint=$work/saved"); do
        ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1\$" ||
            echo "$pid"
    done
}

newest() {
    find "$work/saved" -name 'checkpoint-*.safetensors' 2>/dev/null | sort | tail -n 1
}

# Epochs without end; it trains when this returns.
start() {
    rm -f "$work/steps"
    # shellcheck disable=SC2086
    "$MPIRUN" -n 2 "$program" $train --epochs=1000000 --every=100000000 --log="$work/steps" \
        --checkpoint="$work/saved" "$@" >"$work/output" 2>&1 </dev/null &
    launcher=$!
    wait_until grep -qs '"kind": "step"' "$work/steps" || fail "$what: does not begin"
}

# another_than FILE: there is a checkpoint, and not this one
another_than() {
    [ -n "$(newest)" ] && [ "$(newest)" != "$1" ]
}

grows_from() {
    [ "$(wc -l <"$work/steps")" -gt "$1" ]
}

# saved_by SIGNAL PROCESS: a checkpoint is written, and training goes on
saved_by() {
    before=$(newest)
    kill "-$1" "$2"
    wait_until another_than "$before" || fail "$what: no checkpoint"
    wait_until grows_from "$(wc -l <"$work/steps")" || fail "$what: does not go on"
}

# ended_by SIGNAL PROCESS: a checkpoint is written, and all end, as stopped. Who is hurried may be
# killed before.
hurried=
ended_by() {
    before=$(newest)
    kill "-$1" "$2"
    wait $launcher
    status=$?
    [ $status != 0 ] || fail "$what: exit 0"
    if ! another_than "$before"; then
        [ -n "$hurried" ] || fail "$what: no checkpoint"
        echo "SLOW: $what: no checkpoint within a second"
    fi
    [ -z "$(process_of '[0-9]')" ] || fail "$what: processes are left"
}

what="SIGUSR2 to rank 1"
start
saved_by USR2 "$(process_of 1)"
what="SIGUSR2 to mpirun"
saved_by USR2 $launcher
what="SIGTERM to rank 1"
ended_by TERM "$(process_of 1)"
[ "$status" = 3 ] || fail "$what: exit $status, not 3"
[ "$(count 'stopped after step [0-9]+; to go on: yoke train .*--resume')" = 1 ] ||
    fail "$what: how to go on is not said once"
# A busy machine may take longer to write a checkpoint than the second that Open MPI gives by itself.
# Open MPI 5 can give no more.
! "$MPIRUN" --version 2>/dev/null | grep -qE '\(Open MPI\) ([5-9]|[1-9][0-9])' || hurried=yes
what="SIGTERM to mpirun, resumed"
export OMPI_MCA_odls_base_sigkill_timeout=5
start --resume
ended_by TERM $launcher

finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# table.sh - every function of the table, on 1 to 4 ranks, at each thread level and in each
# mode, in small chunks too; what must be refused is refused.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"

# One start for several: types, pieces, messages between two ranks, and an algorithm in the memory of
# the host that trainers may measure.
expect 1 multiple table 30001 pieces
expect 2 multiple table 30001 pieces cycles 20 absurd shared
expect 3 multiple table 1000000 many types pieces shared
expect 4 multiple table 30001 parts pieces messages shared
expect 2 serialized table 10000 many
expect 3 serialized types pieces shared
expect 4 serialized messages
expect 3 funneled table 10000 shared

# After a failure nothing writes to the arrays of a blocking call.
for call in broadcast gather; do
    launch 3 serialized late $call
    [ "$(grep -c '^rank [0-9]: late ok$' "$work/output")" = 3 ] || fail "late $call"
done

# A rank that expects more of a message than is sent learns it. (If it expects less, MPI itself
# notices; MPICH then ends the program.)
for level in multiple serialized; do
    expect 2 $level unequal
done

# Chunks: of 400 bytes, and of a size that is no whole number of values.
export YOKE_MPI_CHUNK=4003
expect 3 multiple table 10000 types pieces
expect 3 funneled table 10000
unset YOKE_MPI_CHUNK

for mode in blocking nonblocking reduce-broadcast shared; do
    export YOKE_MPI_MODE=$mode
    expect 3 multiple many
    expect 3 serialized table 10000
done
unset YOKE_MPI_MODE

# Without heartbeats.
YOKE_MPI_WARN=-1 YOKE_MPI_TIMEOUT=-1
export YOKE_MPI_WARN YOKE_MPI_TIMEOUT
expect 2 multiple many
expect 2 funneled many
unset YOKE_MPI_WARN YOKE_MPI_TIMEOUT

# Rank 0's settings hold for all: with their own these would wait for each other for ever.
cat >"$work/differ" <<END
#!/bin/sh
[ "\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" = 0 ] || {
    export YOKE_MPI_MODE=nonblocking YOKE_MPI_CHUNK=403 YOKE_MPI_WARN=-1 YOKE_MPI_TIMEOUT=-1
}
exec "$program" "\$@"
END
chmod +x "$work/differ"
own=$program
program=$work/differ
for mode in blocking reduce-broadcast; do
    export YOKE_MPI_MODE=$mode
    expect 3 multiple table 10000
    expect 2 serialized many
done
unset YOKE_MPI_MODE
program=$own

# refused WORDS N ARGUMENT...
refused() {
    words=$1
    shift
    if launch "$@"; then
        fail "-n $*: is not refused"
    elif ! grep -q "$words" "$work/output"; then
        fail "-n $*: refused, but does not say \"$words\""
    fi
}

# MPICH gives what is asked for; so does Open MPI.
refused 'MPI_THREAD_SINGLE; call MPI_Init_thread' 1 single create
YOKE_MPI_TIMEOUT=soon
export YOKE_MPI_TIMEOUT
refused 'YOKE_MPI_TIMEOUT=soon; must be a finite number of at least 0.001, or -1 for never' \
    1 multiple create
for limit in YOKE_MPI_TIMEOUT YOKE_MPI_WARN; do
    export $limit=inf
    refused "$limit=inf; must be a finite number of at least 0.001" 1 multiple create
    unset $limit
done
YOKE_MPI_CHUNK=-1
export YOKE_MPI_CHUNK
refused 'YOKE_MPI_CHUNK=-1; must be a finite number of at least 8$' 1 multiple create
unset YOKE_MPI_CHUNK
YOKE_MPI_MODE=fast
export YOKE_MPI_MODE
refused 'YOKE_MPI_MODE=fast; must be auto, blocking, nonblocking, reduce-broadcast or shared' 1 multiple create
unset YOKE_MPI_MODE

# Tasks that do not know of each other: worlds of one.
alone() {
    env "$@" "$program" multiple create >"$work/output" 2>&1
}
for variable in SLURM_STEP_NUM_TASKS=4 'SLURM_NTASKS=3 SLURM_STEP_ID=0 SLURM_PROCID=1'; do
    # shellcheck disable=SC2086 # words
    if alone $variable; then
        fail "$variable: a world of one is taken"
    fi
    words=$(echo "${variable%% *}" | sed 's/\(.*\)=\(.*\)/\2 tasks were launched (\1)/')
    grep -q "$words" "$work/output" ||
        fail "$variable: does not say it"
done
alone SLURM_STEP_NUM_TASKS=4 YOKE_MPI_SINGLE=1 || fail "YOKE_MPI_SINGLE=1 does not help"
alone SLURM_NTASKS=4 || fail "a batch script's SLURM_NTASKS is taken for tasks"
alone SLURM_STEP_NUM_TASKS=1 || fail "one task is one task"

finish

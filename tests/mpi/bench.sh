#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bench.sh - `make bench-mpi [BENCH="ranks link slow"]`: how fast training is on several processes.
#
#   ranks  two ranks of one core each beside one process with both, and beside PyTorch's DDP where
#          there is PyTorch and BENCH_PEER names a program for it
#   link   two ranks in network namespaces, joined by a cable that tc slows to BENCH_RATE (1gbit):
#          what part of the communication backward hides
#   slow   two ranks, the launches of one made BENCH_SLOW (3) times as long by the fault layer:
#          shares auto beside even
#
# BENCH_MODEL (resnet18), BENCH_BATCH (64), BENCH_OPTIONS (of `yoke bench`), BENCH_ROUNDS (2): what is
# compared runs in turns. The machine has to be quiet, and kernels should have been compiled before.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
yoke=$YOKE_BUILDDIR/tools/yoke
[ $flavour = openmpi ] || skip "its options of mpirun are Open MPI's"
model=${BENCH_MODEL:-resnet18}
batch=${BENCH_BATCH:-64}
rounds=${BENCH_ROUNDS:-2}
unset OMPI_MCA_hwloc_base_binding_policy

# The first CPU of PoCL alone: other implementations on the same cores are no devices more.
vendors=$work/vendors
mkdir -p "$vendors"
cp /etc/OpenCL/vendors/pocl*.icd "$vendors" 2>/dev/null || skip "there is no PoCL"
export OCL_ICD_VENDORS="$vendors"
unset YOKE_DEVICES YOKE_VISIBLE_DEVICES

# figures FILE: what of the object is to be seen
figures() {
    tr -d ' ",{}' <"$1" | awk -F: -v ORS=' ' '
        /^(step_ms|samples_per_second|exposed_ms|apart_step_ms|backward_ms|communication_ms|hidden):/ {
            printf "%s %.4g  ", $1, $2 }
        END { printf "\n" }'
}

# say NAME COMMAND...: runs it, shows its figures
say() {
    name=$1
    shift
    if "$@" >"$work/figures" 2>"$work/output"; then
        printf '%-28s %s' "$name" "$(figures "$work/figures")"
        echo
    else
        fail "$name: exit $?"
    fi
}

# shellcheck disable=SC2086 # BENCH_OPTIONS are words
bench() {
    "$yoke" bench "$model" --json --batch="$batch" ${BENCH_OPTIONS:-} "$@"
}

# PoCL makes a thread for each core of the machine, whatever it is bound to: here one.
# shellcheck disable=SC2086
two() {
    "$MPIRUN" -n 2 --bind-to core -x POCL_MAX_PTHREAD_COUNT=1 "$yoke" bench "$model" --json --batch="$batch" ${BENCH_OPTIONS:-} "$@"
}

ranks() {
    i=0
    while [ $i -lt "$rounds" ]; do
        say "one process" bench
        say "two ranks" two --shares=even
        say "two ranks, local norm" two --shares=even --batch-norm=local
        if [ -n "${BENCH_PEER:-}" ]; then
            $BENCH_PEER --ddp 2 --only "$model" --batch "$batch" | sed 's/^/DDP: /'
        fi
        i=$((i + 1))
    done
}

tag=yb$$
clean() {
    for space in ${tag}a ${tag}b; do
        # shellcheck disable=SC2046 # words
        kill -9 $(ip netns pids $space 2>/dev/null) 2>/dev/null
        ip netns del $space 2>/dev/null
    done
}

cable() {
    ip netns add ${tag}a && ip netns add ${tag}b &&
        ip link add ${tag}v netns ${tag}a type veth peer name ${tag}w netns ${tag}b &&
        ip -n ${tag}a address add 10.199.8.1/24 dev ${tag}v &&
        ip -n ${tag}b address add 10.199.8.2/24 dev ${tag}w &&
        ip -n ${tag}a link set lo up && ip -n ${tag}b link set lo up &&
        ip -n ${tag}a link set ${tag}v up && ip -n ${tag}b link set ${tag}w up &&
        tc -n ${tag}a qdisc add dev ${tag}v root tbf rate "$1" burst 128kb latency 20ms &&
        tc -n ${tag}b qdisc add dev ${tag}w root tbf rate "$1" burst 128kb latency 20ms
}

# Ranks 0 and 1, each in its own namespace and on its own core; shared memory is none of theirs.
# shellcheck disable=SC2086
across() {
    ip netns exec ${tag}a "$MPIRUN" --host 10.199.8.1:1,10.199.8.2:1 -n 2 \
        --mca plm_rsh_agent "$work/agent" --mca plm rsh --mca btl tcp,self --mca pml ob1 \
        --mca btl_tcp_if_include 10.199.8.0/24 --mca oob_tcp_if_include 10.199.8.0/24 \
        ${BENCH_MCA:-} \
        --bind-to none -x OCL_ICD_VENDORS -x XDG_CACHE_HOME -x YOKE_MPI_MODE -x YOKE_BUCKET_BYTES -x YOKE_WISDOM \
        -x POCL_MAX_PTHREAD_COUNT=1 \
        sh -c 'exec taskset -c "$OMPI_COMM_WORLD_RANK" "$@"' one \
        "$yoke" bench "$model" --json --batch="$batch" ${BENCH_OPTIONS:-} "$@"
}

link() {
    if [ "$(id -u)" != 0 ] || ! command -v tc >/dev/null || ! unshare -n true 2>/dev/null; then
        skip "no right to make network namespaces, or no ip and tc"
    fi
    trap clean EXIT
    trap 'exit 1' INT TERM
    cable "${BENCH_RATE:-1gbit}" 2>"$work/output" || skip "no cable: $(cat "$work/output")"
    cat >"$work/agent" <<END
#!/bin/sh
while :; do
    case \$1 in
    -*) shift ;;
    *) break ;;
    esac
done
shift
exec ip netns exec ${tag}b sh -c "\$*"
END
    chmod +x "$work/agent"
    # What it learns of this cable is no wisdom for others.
    export YOKE_WISDOM="$work/wisdom"
    i=0
    while [ $i -lt "$rounds" ]; do
        say "link, norm over all" across --shares=even --overlap
        say "link, local norm" across --shares=even --overlap --batch-norm=local
        i=$((i + 1))
    done
    clean
}

# Rank 1 is slowed; what it computes stays right.
# shellcheck disable=SC2086
uneven() {
    "$MPIRUN" --bind-to core \
        -n 1 -x POCL_MAX_PTHREAD_COUNT=1 \
        "$yoke" bench "$model" --json --batch="$batch" ${BENCH_OPTIONS:-} "$@" : \
        -n 1 -x POCL_MAX_PTHREAD_COUNT=1 -x OPENCL_LAYERS="$layer" -x YOKE_SLOW="cpu:0:${BENCH_SLOW:-3}:0" \
        "$yoke" bench "$model" --json --batch="$batch" ${BENCH_OPTIONS:-} "$@"
}

slow() {
    layer=$YOKE_BUILDDIR/tests/faults/.libs/faultlayer.so
    [ -f "$layer" ] || skip "there is no fault layer: make check TESTS="
    i=0
    while [ $i -lt "$rounds" ]; do
        say "one of two slow, even" uneven --shares=even
        say "one of two slow, auto" uneven --shares=auto
        i=$((i + 1))
    done
}

for what in ${BENCH:-ranks link slow}; do
    $what
done
finish

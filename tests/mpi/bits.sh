#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bits.sh - with --reproducible=any-split the weights have the same bits in any number of processes,
# and in one process after the other.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_command
# Two of them are divided, and where it says so, four; more would only wait for the same processors.
export POCL_MAX_PTHREAD_COUNT=2
rm -rf "$work"/saved*
trained="--model=mlp --data=$YOKE_SRCDIR/examples/data --batch=64 --seed=3 --level=estimate"
trained="$trained --reproducible=any-split --schedule=constant --epochs=1 --quiet"

# With YOKE_TEST_QUICK=1 not what differs little.
quick=${YOKE_TEST_QUICK:-0}

for options in "--devices=cpu:0" "--devices=cpu:0 --accumulate=3 --clip-norm=0.5 --optimizer=adamw"; do
    case $quick:$options in 1:*:0) continue ;; esac
    # shellcheck disable=SC2086
    set -- $options
    hash 1 "$@"
    expected=$hash
    POCL_MAX_PTHREAD_COUNT=4 same 1 "$@" --devices=cpu:0/1+3 --shares=80,20
    same 2 "$@"
    same 2 "$@" --shares=1,3
    same 3 "$@" --shares=5,0,2
    same 4 "$@" --shares=1,0,2,2
    same 2 "$@" --devices=cpu:0/2 --shares=1,2,3,4
    hash 1 "$@" --granule=16
    [ "$hash" != "$expected" ] || fail "$*: granules of another size have the same bits"
done

# How gradients travel does not matter, nor in how many pieces they do.
hash 1 --devices=cpu:0
expected=$hash
modes="nonblocking reduce-broadcast shared"
[ "$quick" != 1 ] || modes=nonblocking
for mode in $modes; do
    YOKE_MPI_MODE=$mode same 3 --devices=cpu:0 --shares=even
done
YOKE_MPI_CHUNK=4096 same 2 --devices=cpu:0

# Integers of each size, of which the narrow ones round each granule.
for wire in int32 int16; do
    set -- --devices=cpu:0 --wire=$wire
    hash 1 "$@"
    [ "$hash" != "$expected" ] || fail "$*: the bits of wide integers"
    wide=$expected
    expected=$hash
    same 2 "$@" --shares=1,3
    same 2 "$@" --devices=cpu:0/2 --shares=1,2,3,4
    case $quick:$wire in 1:int32) modes= ;; *) modes="nonblocking shared" ;; esac
    for mode in $modes; do
        YOKE_MPI_MODE=$mode same 3 "$@" --shares=5,0,2
    done
    expected=$wide
done

# Statistics of the batch are merged over all processes: a small network with batch norms.
cat >"$work/norms.json" <<'END'
{"nodes": [
  {"op": "input", "name": "image", "type": "f32", "shape": [1, 8, 8]},
  {"op": "conv2d", "filters": 4, "kernel": 3, "stride": 2},
  {"op": "batch_norm"},
  {"op": "relu"},
  {"op": "flatten"},
  {"op": "dense", "name": "y", "units": 10},
  {"op": "target", "name": "label", "type": "i32", "shape": []},
  {"op": "softmax_cross_entropy", "name": "ce", "inputs": ["y", "label"]}],
 "outputs": {"logits": "y"}, "loss": "ce"}
END
set -- --model="$work/norms.json" --devices=cpu:0
hash 1 "$@"
expected=$hash
same 2 "$@" --shares=1,3
same 3 "$@" --shares=5,0,2
same 2 "$@" --devices=cpu:0/2 --shares=1,2,3,4

# yoke verify takes part in all processes, and tells where bits differ: here granules are added as
# floats.
verify="verify --bits mlp --devices=cpu:0 --steps=3 --batch=30"
# shellcheck disable=SC2086
launch 2 $verify --wire=int32 || fail "$verify: exit $launch_status"
says '^[0-9a-f]{32}  cpu:0 on all ranks, shares 0,1$'
says '^the same bits: 7 splits$'
[ "$(grep -c '^the same bits' "$work/output")" = 1 ] || fail "$verify: not one rank speaks"
rm -rf "$work/cl"
mkdir "$work/cl"
cp "$YOKE_SRCDIR"/clkernels/*.cl "$work/cl"
sed -i 's/ : \*to + add;/ : convert_wordv(YKI_PASTE(convert_float, VEC)(*to + add));/' \
    "$work/cl/granule.cl"
! cmp -s "$work/cl/granule.cl" "$YOKE_SRCDIR/clkernels/granule.cl" || fail "the fault is not there"
# shellcheck disable=SC2086
! YOKE_CL_DIR="$work/cl" launch 2 $verify || fail "$verify: sums of floats have the same bits"
says ' on all ranks, .*, from step [123] on, first in fc[12]\.(weight|bias) of rank 0$'
says '^DIFFERENT BITS: 7 splits$'

# Bits that flip, in the third launch of a granule of the second device of each process, or of the
# second process alone: a device that is checked is found, and no weight is another.
layer=$YOKE_BUILDDIR/tests/faults/.libs/faultlayer.so
if [ -f "$layer" ]; then
    set -- --devices=cpu:0/2 --shares=even
    hash 1 "$@"
    expected=$hash
    export OPENCL_LAYERS="$layer" YOKE_FAULT_STEP_KERNEL=yki_granule_add YOKE_FLIP=cpu:0/2.1:8:3:17
    hash 2 "$@"
    [ "$hash" != "$expected" ] || fail "flipped bits change nothing, so there is nothing to find"
    same 2 "$@" --recheck=1
    grep -q 'step 3: "fc1.weight" of device cpu:0/2.1 was computed again by cpu:0/2.0' \
        "$work/output" || fail "nobody tells of the flipped bits"
    printf '#!/bin/sh\n[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 1 ] || unset YOKE_FLIP\nexec "%s" "$@"\n' \
        "$program" >"$work/second"
    chmod +x "$work/second"
    yoke=$program
    program=$work/second
    same 2 "$@" --recheck=1
    program=$yoke
    grep -q 'step 3: device .*cpu:0/2.1 is left out of this step' "$work/output" ||
        fail "the first process does not tell of the flipped bits of the second"
    unset OPENCL_LAYERS YOKE_FAULT_STEP_KERNEL YOKE_FLIP
fi

# Another number of processes goes on.
hash 1 --devices=cpu:0 --epochs=3
expected=$hash
hash 2 --devices=cpu:0 --epochs=1 --checkpoint="$work/saved"
hash 1 --devices=cpu:0/2 --epochs=2 --checkpoint="$work/saved" --resume --shares=80,20
same 3 --devices=cpu:0 --epochs=3 --checkpoint="$work/saved" --resume
"$program" info "$work/saved" >"$work/output" 2>&1 || fail "yoke info: exit $?"
grep -q "^weights  *$expected\$" "$work/output" || fail "the checkpoint does not tell the hash"

finish

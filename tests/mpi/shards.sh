#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# shards.sh - where each process keeps a part of the optimizer's state, also of the gradients, or of the
# weights too, the weights are those of a process that keeps all; the parts are as they were asked for;
# checkpoints go on in either way.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_command
# Two of them are divided; more would only wait for the same processors.
export POCL_MAX_PTHREAD_COUNT=2
rm -rf "$work"/saved*
common="--model=mlp --data=$YOKE_SRCDIR/examples/data --batch=64 --seed=3 --level=estimate"
common="$common --devices=cpu:0 --schedule=constant --quiet"
trained="$common --epochs=1 --reproducible=any-split"

# With YOKE_TEST_QUICK=1 not what differs little.
quick=${YOKE_TEST_QUICK:-0}

# With one optimizer all ways to divide, with the others those that differ most.
for options in "--optimizer=sgd,momentum=0.9" \
    "--optimizer=adamw --clip-norm=0.5 --accumulate=3 --ema=0.9" "--optimizer=adam --shares=1,0,2"; do
    # shellcheck disable=SC2086
    set -- $options
    last=1
    case $options in *--shares*) last=3 ;; esac
    hash $last "$@"
    expected=$hash
    same 3 "$@" --shard=weights --shard-by=1,0,2
    case $quick:$options in 1:*sgd* | 1:*--shares*) continue ;; esac
    same 3 "$@" --shard=state --shard-by=0,5,1
    same 3 "$@" --shard=gradients --shard-by=1,0,2
    [ $last = 1 ] || continue
    same 2 "$@" --shard=gradients --devices=cpu:0/2 --shard-by=1,0,2,1 --shares=1,2,3,4
    [ -n "${YOKE_TEST_THOROUGH:-}" ] || case $options in *adamw*) ;; *) continue ;; esac
    same 1 "$@" --shard=state
    [ "$quick" = 1 ] || same 2 "$@" --shard=state
    [ "$quick" = 1 ] || same 2 "$@" --shard=gradients --shard-by=0,1 --shares=1,0
    same 4 "$@" --shard=gradients
    same 4 "$@" --shard=weights --shard-by=1,0,3,2
    same 2 "$@" --shard=weights --devices=cpu:0/2 --shard-by=1,0,2,1 --shares=1,2,3,4
    [ -n "${YOKE_TEST_THOROUGH:-}" ] || continue
    same 3 "$@" --shard=state --shard-by=1,1,1
    same 2 "$@" --shard=state --shard-by=1,3
    same 2 "$@" --shard=state --shard-by=0,1 --shares=1,0
    same 2 "$@" --shard=gradients --shard-by=1,3
    same 2 "$@" --shard=weights --shard-by=1,3
    same 2 "$@" --shard=state --devices=cpu:0/2 --shard-by=1,0,2,1 --shares=1,2,3,4
done
hash 2 --optimizer=adam --optimizer-state=bf16
expected=$hash
same 2 --optimizer=adam --optimizer-state=bf16 --shard=state --shard-by=1,3
same 3 --optimizer=adam --optimizer-state=bf16 --shard=weights --shard-by=1,0,2
hash 2 --optimizer=adam
[ "$hash" != "$expected" ] || fail "a state in bfloat16 changes nothing"
expected=$hash
# Devices that share memory are measured together.
same 2 --optimizer=adam --shard=auto --devices=cpu:0/2
modes="nonblocking reduce-broadcast shared"
[ "$quick" != 1 ] || modes=shared
for mode in $modes; do
    YOKE_MPI_MODE=$mode same 2 --optimizer=adam --shard=state --shard-by=3,1
    YOKE_MPI_MODE=$mode same 2 --optimizer=adam --shard=gradients --shard-by=3,1
done

# Integers of each size are scattered, too.
for wire in int32 int16; do
    case $quick:$wire in 1:int32) continue ;; esac
    hash 1 --optimizer=adam --wire=$wire
    expected=$hash
    same 2 --optimizer=adam --wire=$wire --shard=gradients --shard-by=3,1
done

# alike BY OPTION...: two processes write the same file with shards and without. Without any-split
# sums of two processes have one order only.
alike() {
    by=$1
    shift
    # shellcheck disable=SC2086
    launch 2 train $common --epochs=1 --reproducible=runs --shares=even "$@" \
        --out="$work/whole.safetensors" || fail "$*: exit $launch_status"
    # shellcheck disable=SC2086
    for kind in $kinds; do
        # shellcheck disable=SC2086
        launch 2 train $common --epochs=1 --reproducible=runs --shares=even "$@" --shard=$kind \
            --shard-by="$by" --out="$work/parts.safetensors" ||
            fail "$* in shards: exit $launch_status"
        cmp -s "$work/whole.safetensors" "$work/parts.safetensors" ||
            fail "$*: others in shards $by of $kind, buckets of ${YOKE_BUCKET_BYTES:-any} bytes"
    done
}
kinds='state gradients'
[ "$quick" = 1 ] || alike 1,3 --optimizer=adamw
alike 1,3 --optimizer=rmsprop --clip-norm=0.5 --ema=0.9

# Several buckets, of which each is cut. Then so many, of a deep network, that each stays whole: one
# process has an empty piece of it. any-split, above, takes no size of buckets from here.
layers=
while [ ${#layers} -lt 900 ]; do layers="$layers {\"op\": \"dense\", \"units\": 16}, {\"op\": \"tanh\"},"; done
cat >"$work/deep.json" <<END
{"nodes": [
  {"op": "input", "name": "image", "type": "f32", "shape": [1, 8, 8]},
  {"op": "flatten"}, $layers
  {"op": "dense", "name": "y", "units": 10},
  {"op": "target", "name": "label", "type": "i32", "shape": []},
  {"op": "softmax_cross_entropy", "name": "ce", "inputs": ["y", "label"]}],
 "outputs": {"logits": "y"}, "loss": "ce"}
END
export YOKE_BUCKET_BYTES=2048
alike 1,3 --optimizer=adamw
YOKE_BUCKET_BYTES=1024
kinds="$kinds weights"
[ "$quick" = 1 ] || alike 1,1 --optimizer=adamw --model="$work/deep.json"
alike 0,1 --optimizer=adam --clip-norm=0.5 --ema=0.9 --model="$work/deep.json"
unset YOKE_BUCKET_BYTES

# Another number of processes goes on, with shards or without.
hash 1 --optimizer=adamw --epochs=4 --ema=0.9
expected=$hash
set -- --optimizer=adamw --ema=0.9 --checkpoint="$work/saved"
hash 2 "$@" --epochs=1 --shard=state --shard-by=1,3
hash 3 "$@" --epochs=2 --resume --shard=weights --shard-by=2,0,1
hash 1 "$@" --epochs=3 --resume
same 2 "$@" --epochs=4 --resume --shard=gradients
hash 1 --optimizer=adam --optimizer-state=bf16 --epochs=2
expected=$hash
set -- --optimizer=adam --optimizer-state=bf16 --checkpoint="$work/saved-small"
hash 2 "$@" --epochs=1 --shard=state --shard-by=1,3
same 1 "$@" --epochs=2 --resume

# state RANKS OPTION...: bytes of it in rank 0, into $state
state() {
    ranks=$1
    shift
    launch "$ranks" bench lenet --batch=16 --level=estimate --devices=cpu:0 --json "$@" ||
        fail "bench, $ranks ranks, $*: exit $launch_status"
    state=$(sed -n 's/.*"state_bytes": *\([0-9]*\).*/\1/p' "$work/output")
    [ -n "$state" ] || fail "bench, $ranks ranks, $*: it does not tell the state"
    state=${state:-0}
}
state 1 --optimizer=adam
whole=$state
[ "$whole" -ge 290144 ] || fail "the state of 36268 parameters is $whole bytes"
state 2 --optimizer=adam
[ "$state" = "$whole" ] || fail "without shards a process has $state bytes of state, not $whole"
state 1 --optimizer=adam --optimizer-state=bf16
[ "$state" = $((whole / 2)) ] || fail "a small state has $state bytes, not half of $whole"
for part in "1,3 4" "3,1 -4" "0,1 0"; do
    by=${part% *} of=${part#* }
    state 2 --optimizer=adam --shard=state --shard-by="$by"
    case $of in
    0) right=0 ;;
    -*) right=$((whole + whole / of)) ;;
    *) right=$((whole / of)) ;;
    esac
    off=$((state - right))
    [ "${off#-}" -le 4096 ] || fail "shards $by: rank 0 has $state of $whole bytes of state"
done

# By free memory: each rank has a quota of its own; what it needs besides is a small part of that.
cat >"$work/by_rank" <<'END'
#!/bin/sh
set -- "$YOKE" "$@"
case ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} in
0) exec "$@" --devices=cpu:0@$FIRST ;;
*) exec "$@" --devices=cpu:0@$OTHERS ;;
esac
END
chmod +x "$work/by_rank"
export YOKE="$program" FIRST=600MiB OTHERS=1800MiB
program=$work/by_rank
state 2 --optimizer=adam --shard=state
[ "$state" -lt $((whole * 3 / 10)) ] && [ "$state" -gt $((whole * 2 / 10)) ] ||
    fail "with 600 of 2400 MiB rank 0 has $state of $whole bytes of state"

# What is told before of the devices of both ranks: a process takes as much.
launch 2 bench lenet --batch=16 --level=estimate --json --optimizer=adam --shard=state --shares=even ||
    fail "bench: exit $launch_status"
used=$(sed -n 's/.*"memory_bytes": *\([0-9]*\).*/\1/p' "$work/output")
launch 2 plan --model=lenet --batch=16 --level=estimate --json --optimizer=adam --shard=state --shares=even ||
    fail "plan: exit $launch_status"
says '"processes": 2'
says '"device": "rank 1 cpu:0"'
[ "$(grep -c '"samples": 8' "$work/output")" = 2 ] || fail "two devices have not 8 samples each"
told=$(sed -n 's/.*"memory_bytes": *\([0-9]*\).*/\1/p' "$work/output" | head -n 1)
off=$((told - used))
[ "${off#-}" -le $((used / 33)) ] || fail "$told bytes were told, and $used are taken"

# A rank that has memory for all else, and for a part of the state, but not for all of it. There are
# 36268 parameters here, whose state takes 0.29 MB.
lenet="--model=lenet --data=$YOKE_SRCDIR/examples/data --batch=16 --level=estimate --quiet"
lenet="$lenet --epochs=1 --optimizer=adam --shares=even"
rm -f "$work/log"
# shellcheck disable=SC2086
launch 2 train $lenet --log="$work/log" || fail "lenet: exit $launch_status"
used=$(sed -n 's/.*"memory": *\[\([0-9]*\)[],].*/\1/p' "$work/log" | tail -n 1)
FIRST=$((used - 150000))B
without='rank 0 cpu:0: its part of the optimizer.s state is 0\.[0-9]* MB, and 0\.[0-9]* MB of its memory'
# shellcheck disable=SC2086
! launch 2 train $lenet --shard=state --shard-by=1,0 --recompute=none || fail "a part without memory: not refused"
says "$without"
# shellcheck disable=SC2086
launch 2 train $lenet --shard=state --shard-by=1,3 # what follows may need more memory
! grep -q "$without" "$work/output" || fail "a part that fits is refused"
program=$YOKE

# What cannot be.
# refused PATTERN OPTION...
refused() {
    what=$1
    shift
    # shellcheck disable=SC2086
    ! launch 2 train $trained --optimizer=adam "$@" || fail "$*: not refused"
    says "$what"
}
refused 'no, state, gradients, weights or auto' --shard=all
refused 'weights?.*and the team has 2 devices' --shard=state --shard-by=1,2,3
refused 'every weight is zero' --shard=state --shard-by=0,0
refused 'must be NULL unless shard' --shard=no --shard-by=1,1

finish

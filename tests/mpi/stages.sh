#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# stages.sh - a graph in stages over the devices of several processes: the weights have the bits of the
# same stages in one process, and those of one device within rounding. Checkpoints go on anywhere.
# A rank that is lost, and a device or a message that fails, is told by a sentence of each rank.

set -u
. "$YOKE_SRCDIR/tests/mpi/lib.sh"
use_program "$YOKE_BUILDDIR/tests/mpi/train"
only_pocl
steps=20
limit=1e-5
# Where compiling is dear, no case that is one more of the same.
quick=${YOKE_TEST_QUICK:-}
rm -rf "$work"/saved*

export STAGES='' ACCUMULATE=1 RANK_DEVICES=cpu:0 POCL_MAX_PTHREAD_COUNT=1

# weights NAME RANKS DEVICES STAGES ACCUMULATE [THREADS]: trains; what each device has goes to NAME.cut
weights() {
    RANK_DEVICES=$3 STAGES=$4 ACCUMULATE=$5 POCL_MAX_PTHREAD_COUNT=${6:-1}
    rm -f "$work/$1"
    launch "$2" "$work/$1" $steps 24 - || fail "$1: $2 ranks of $3, $4 stages: exit $launch_status"
    awk '/cpu:0/ && $(NF - 2) $(NF - 1) ~ /^[0-9]+$/ && !seen[$0]++ { print $(NF - 2), $(NF - 1) }' \
        "$work/output" >"$work/$1.cut"
}

# One process compiles what ranks would all compile at the same time.
for micro_batches in 1 4; do
    STAGES='' weights one-$micro_batches 1 cpu:0 '' $micro_batches
done

# A rank that stops in a step, beside all that follows.
STAGES=3 ACCUMULATE=4
launch 3 "$work/before" 1 24 - || fail "one step: exit $launch_status"
watchful
[ -n "$quick" ] || aside lost 1 noticed 3 "$work/lost" 100000 24 - 1 stop before
aside lost 2 noticed 3 "$work/lost" 100000 24 - 2 stop in
unset YOKE_MPI_TIMEOUT YOKE_MPI_WARN

# agree WHAT: with the weights of one process, bit by bit, if that cuts at the same places: it copies
# faster, which matters where stages are so short.
compared=0
agree() {
    far=$(difference "$work/one-$ACCUMULATE" "$work/ranks")
    is_within "$far" $limit || fail "$1: differs by $far"
    [ -s "$work/ranks.cut" ] || fail "$1: no stages are told"
    cmp -s "$work/alone.cut" "$work/ranks.cut" || return
    compared=$((compared + 1))
    cmp "$work/alone" "$work/ranks" || fail "$1: other bits"
}

# alike RANKS STAGES ACCUMULATE: as one process with as many devices
alike() {
    weights ranks "$1" cpu:0 "$2" "$3"
    weights alone 1 "cpu:0/$1" "$2" "$3" "$1"
    agree "$1 ranks, $2 stages, $3 micro-batches"
}

alike 2 2 4
# Messages in many chunks.
export YOKE_MPI_CHUNK=403
weights ranks 2 cpu:0 2 4
unset YOKE_MPI_CHUNK
agree "messages in chunks"
# Each process tells of the whole pipeline.
for rank in 0 1; do
    [ "$(grep -cE "rank $rank cpu:0 +[1-9]" "$work/output")" = 4 ] || fail "the stage of rank $rank is not told"
done
alike 2 2 1
[ -n "$quick" ] || alike 3 3 4
# Two processes of two devices each: values cross inside and outside.
weights alone 1 cpu:0/4 4 4 4
weights ranks 2 cpu:0/2 4 4 2
agree "two ranks of two devices"
# The second device has four times the units, so it gets more of the graph.
if [ -z "$quick" ]; then
    weights ranks 2 "cpu:0/4.0 cpu:0" 2 4 4
    far=$(difference "$work/one-4" "$work/ranks")
    is_within "$far" $limit || fail "an unequal cut differs by $far"
fi
# Tokens, another number in each step, whose embedding is the head too, and what is predicted. One rank has
# no stage. Micro-batches of 5 samples, and one of 4.
export TOKENS=1
STAGES='' weights one-5 1 cpu:0 '' 5
weights alone 1 cpu:0/3 2 5 3
weights ranks 3 cpu:0 2 5
says 'cpu:0 has no part of the graph: it is no stage'
agree tokens
unset TOKENS
# Sequences of halves; the gradients of one step overflow, which all skip.
export SEQUENCES=1 PRECISION=f16 HUGE=1
STAGES='' weights one-4 1 cpu:0 '' 4
weights alone 1 cpu:0/2 2 4 2
weights ranks 2 cpu:0 2 4
agree halves
[ "$(grep -c 'loss scale 32768, 1 skipped' "$work/output")" = 2 ] || fail "not all skip the step"
unset SEQUENCES PRECISION HUGE
echo "$compared cuts alike"
[ $compared -ge 3 ] || fail "only $compared times one process has cut as several do"

# Steps to which no sample counts; a signal to one rank; datasets that differ.
RANK_DEVICES=cpu:0 STAGES=2 ACCUMULATE=3 POCL_MAX_PTHREAD_COUNT=1
launch 2 "$work/nothing" 0 24 - 0 0 nothing || fail "steps of nothing: exit $launch_status"
[ "$(grep -c 'nothing changed' "$work/output")" = 2 ] || fail "steps of nothing count"
launch 2 "$work/stopped" 0 24 - 1 term fit || fail "SIGTERM: exit $launch_status"
[ "$(grep -c 'stopped together' "$work/output")" = 2 ] || fail "SIGTERM: not all stop"
launch 2 "$work/counts" 0 24 - 1 0 counts || fail "unlike counts: exit $launch_status"
[ "$(grep -c 'unlike counts refused' "$work/output")" = 2 ] || fail "unlike counts are not refused"

# ---- checkpoints: after five steps of three epochs of three, the last with a rest batch ----

# epochs NAME RANKS STAGES DIR
epochs() {
    STAGES=$3
    launch "$2" "$work/$1" 0 24 - 3 "$4" resume || fail "$1: $2 ranks: exit $launch_status"
}
epochs whole 2 2 "$work/saved-whole"
STOP_AT=5
export STOP_AT
epochs part 2 2 "$work/saved"
epochs part-one 1 '' "$work/saved-one"
unset STOP_AT
! cmp -s "$work/whole" "$work/part" || fail "a part of a training gives the whole of it"
cp -r "$work/saved" "$work/saved-3"
cp -r "$work/saved" "$work/saved-1"
epochs again 2 2 "$work/saved"
cmp "$work/whole" "$work/again" || fail "resumed on as many ranks: other bits"
again='again-1 from-1'
if [ -z "$quick" ]; then
    epochs again-3 3 3 "$work/saved-3"
    again="again-3 $again"
fi
epochs again-1 1 '' "$work/saved-1"
epochs from-1 2 2 "$work/saved-one"
for name in $again; do
    far=$(difference "$work/whole" "$work/$name")
    is_within "$far" $limit || fail "resumed ($name): differs by $far"
done

# ---- disasters ----

watchful
STAGES=3
if [ -z "$quick" ]; then
    for where in before in; do
        lost 1 soon 3 "$work/lost" 100000 24 - 1 kill $where
    done
fi
lost 0 soon 3 "$work/lost" 100000 24 - 0 kill in
unset YOKE_MPI_TIMEOUT YOKE_MPI_WARN

# No watchdog ends what hangs.
export YOKE_MPI_TIMEOUT=$((2 * launch_limit))

# fails RANKS WHO WHAT WHERE SENTENCE: each rank has a stage
fails() {
    STAGES=$1
    all_say_fault - "$@"
}

fails 3 1 call step 'the cable is cut'
[ -n "$quick" ] || fails 2 0 call step 'the cable is cut'
fails 2 0 call evaluation 'the cable is cut'
FAULT_LAYER=$YOKE_BUILDDIR/tests/faults/.libs/faultlayer.so
if [ -f "$FAULT_LAYER" ]; then
    export FAULT_LAYER
    fails 3 1 device step '.* says CL_OUT_OF_RESOURCES'
    [ -n "$quick" ] || fails 2 0 device step '.* says CL_OUT_OF_RESOURCES'
elif [ "${YOKE_REQUIRE_ALL:-0}" = 1 ]; then
    fail "there is no fault layer"
else
    echo "no fault layer (it takes shared libraries): no device is lost"
fi
unset FAULT_LAYER YOKE_MPI_TIMEOUT

# ---- what cannot be ----

# refused PATTERN RANKS STAGES ACCUMULATE
refused() {
    STAGES=$3 ACCUMULATE=$4
    ! launch "$2" "$work/weights" 1 24 - || fail "$3 stages, $4 micro-batches: not refused"
    says "$1"
}
refused 'stages is 3, and the team has 2 devices; must be at most that' 2 3 1
refused 'accumulate is 5, but the graph has batch norms, .* must divide the batch, 24, then: take 4' 2 2 5

# ---- files, with losses and metrics of a test, by the command ----

command_runs() {
    use_command
    cat >"$work/norm.json" <<END
{"nodes": [
  {"op": "input", "name": "image", "type": "f32", "shape": [1, 8, 8]},
  {"op": "conv2d", "filters": 4, "kernel": [3, 3], "pad": [1, 1]}, {"op": "batch_norm"}, {"op": "relu"},
  {"op": "maxpool2d", "kernel": [2, 2]}, {"op": "conv2d", "filters": 16, "kernel": [3, 3], "pad": [1, 1]},
  {"op": "batch_norm"}, {"op": "relu"}, {"op": "conv2d", "filters": 16, "kernel": [3, 3]},
  {"op": "flatten"}, {"op": "dense", "units": 64},
  {"op": "dropout", "probability": 0.2}, {"op": "tanh"}, {"op": "dense", "name": "y", "units": 10},
  {"op": "target", "name": "label", "type": "i32", "shape": []},
  {"op": "softmax_cross_entropy", "name": "ce", "inputs": ["y", "label"]}],
 "outputs": {"logits": "y"}, "loss": "ce"}
END
    images="--data=$YOKE_SRCDIR/examples/data --batch=64"
    # What a tokenizer makes of a text stands beside it.
    cp "$YOKE_SRCDIR/examples/data/README" "$work/words.txt"
    text="--model=gpt --layers=2 --heads=2 --width=16 --context=16 --dropout=0.1 --data=$work/words.txt --batch=8"
    common="--seed=3 --level=estimate --epochs=1"
    # parts NAME: the nodes of each device, a line each, by a timeline
    parts() {
        sed -nE 's/.*"pid": ([0-9]+), "name": "([^ "]+) [^"]*", "tid": ([0-9]+),.*"op": .*/\1:\3 \2/p' \
            "$work/$1.json" | sort -u |
            awk '$1 != device { if (device) print nodes; nodes = ""; device = $1 }
                 { nodes = nodes " " $2 } END { print nodes }' | sort >"$work/$1.parts"
    }
    # files RANKS OPTION...: as one process with as many devices writes them, where it cuts alike
    same_parts=0
    files() {
        ranks=$1
        shift
        # shellcheck disable=SC2086 # words
        POCL_MAX_PTHREAD_COUNT=$ranks launch 1 train $common "$@" --devices="cpu:0/$ranks" --quiet \
            --trace="$work/alone.json" --out="$work/alone.safetensors" || fail "$*: exit $launch_status"
        sed -nE 's/, [0-9]+ (samples|tokens).*//p' "$work/output" >"$work/alone.said"
        # shellcheck disable=SC2086
        POCL_MAX_PTHREAD_COUNT=1 launch "$ranks" train $common "$@" --devices=cpu:0 --quiet \
            --trace="$work/ranks.json" --out="$work/ranks.safetensors" || fail "$*: exit $launch_status"
        sed -nE 's/, [0-9]+ (samples|tokens).*//p' "$work/output" >"$work/ranks.said"
        grep -q 'test loss' "$work/alone.said" || fail "$*: no loss"
        parts alone
        parts ranks
        [ "$(wc -l <"$work/ranks.parts")" = "$ranks" ] || fail "$ranks ranks, $*: not each has a stage"
        if ! cmp -s "$work/alone.parts" "$work/ranks.parts"; then
            diff "$work/alone.parts" "$work/ranks.parts"
            grep -q 'test loss' "$work/ranks.said" || fail "$ranks ranks, $*: no loss"
            return
        fi
        same_parts=$((same_parts + 1))
        cmp "$work/alone.safetensors" "$work/ranks.safetensors" || fail "$ranks ranks, $*: another file"
        cmp "$work/alone.said" "$work/ranks.said" || fail "$ranks ranks, $*: another result"
    }
    least=1
    # shellcheck disable=SC2086
    files 3 $images --model=mlp --stages=3 --accumulate=4 --optimizer=adamw --clip-norm=0.5 --ema=0.9
    # shellcheck disable=SC2086
    if [ -z "$quick" ]; then
        files 2 $images --model="$work/norm.json" --stages=2 --accumulate=4 --optimizer=adam --optimizer-state=bf16
        files 2 $text --stages=2 --accumulate=4
        files 2 $images --model=mlp --stages=2 --accumulate=4
        files 2 $images --model="$work/norm.json" --stages=2 --optimizer=sgd,momentum=0.9 --ema=0.9
        least=3
    fi
    [ $same_parts -ge $least ] || fail "only $same_parts times one process has cut as several do, by the command"
    echo "$same_parts files alike"
}
[ ! -x "$YOKE_BUILDDIR/tools/yoke" ] || command_runs

together
finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bench.sh - what a team of parts of one CPU reaches, beside what it could: `make bench-team`,
# on a machine that does nothing else (PoCL, 2 cores or more). Figures go to docs/benchmarks/.
#
#   bench.sh [FIGURE]...    default: resnet18 mlp unequal follow balance data reduce
#
#   resnet18 mlp tiny lenet simplecnn   the whole CPU, and its two halves as a team
#   unequal    two parts of a core, one three times as slow (fault layer): even, auto, each alone
#   follow     steps until shares have followed a slow-down in mid-run, and the recovery
#   picture    draws docs/shares.svg again: one half of the CPU three times as slow from step 60 to 130
#   balance    what following the speed costs when nothing changes
#   data       what a step waits for samples that a function gives, in half of the step's time
#   reduce     the sums of gradients: of the memory's speed, and what of it a step shows
#
# What is compared is run in turns, ROUNDS (3) of each, and the median told: machines differ from
# one minute to the next.

set -eu

yoke=$YOKE_BUILDDIR/tools/yoke
team=$YOKE_BUILDDIR/tests/train/bench_team
pick=$YOKE_BUILDDIR/tests/tools/jsonpick
layer=$YOKE_BUILDDIR/tests/faults/.libs/faultlayer.so
rounds=${ROUNDS:-3}
export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
work=$YOKE_BUILDDIR/tests/train/bench.tmp

rm -rf "$work"
mkdir -p "$work"

# one LABEL [NAME=VALUE]... -- ARGUMENT...: a run of yoke bench; its rate is noted under LABEL
one() {
    label=$1
    shift
    settings=
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # settings are words
    env $settings "$yoke" bench "$@" --json >"$work/json"
    "$pick" samples_per_second <"$work/json" >>"$work/$label"
}

# The median of what was noted under a label.
middle() {
    sort -g "$work/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# MODEL BATCH
halves() {
    rm -f "$work"/whole "$work"/halves
    for i in $(seq "$rounds"); do
        one whole -- "$1" --batch "$2" --devices cpu:0
        one halves -- "$1" --batch "$2" --devices cpu:0/2
    done
    awk -v m="$1" -v b="$2" -v w="$(middle whole)" -v h="$(middle halves)" 'BEGIN {
        printf "%s, batch %d: cpu:0 %.0f samples/s, cpu:0/2 %.0f (%.3f times)\n", m, b, w, h, h / w }'
}

# MODEL BATCH
unequal() {
    rm -f "$work"/even "$work"/auto "$work"/fast "$work"/slow
    slow="OPENCL_LAYERS=$layer YOKE_SLOW=cpu:0/2.1:3:1"
    for i in $(seq "$rounds"); do
        # shellcheck disable=SC2086 # settings are words
        for shares in even auto; do
            one $shares $slow -- "$1" --batch "$2" --devices cpu:0/2 --shares $shares
        done
        # shellcheck disable=SC2086
        for part in 0 1; do
            [ $part = 0 ] && label=fast || label=slow
            one $label $slow -- "$1" --batch "$2" --devices cpu:0/2.$part
        done
    done
    awk -v m="$1" -v b="$2" -v e="$(middle even)" -v a="$(middle auto)" -v f="$(middle fast)" \
        -v s="$(middle slow)" 'BEGIN {
        printf "%s, batch %d, one part 3 times as slow: even %.0f samples/s, auto %.0f, " \
               "alone %.0f and %.0f: %.3f times even, %.3f of the sum of speeds\n",
               m, b, e, a, f, s, a / e, a / (f + s) }'
}

# What README.md shows; kernels and times are known from the first of the two.
picture() {
    for slow in '' YOKE_SLOW=cpu:0/2.1:3:60:130; do
        env $slow OPENCL_LAYERS="$layer" YOKE_FAULT_STEP_KERNEL=yki_step_count "$yoke" train \
            --model=lenet --data="$YOKE_SRCDIR/examples/data" --devices=cpu:0/2 --batch=256 \
            --epochs=32 --optimizer=sgd,decay=1e-3 --lr=0.05 --schedule=constant \
            --log="$work/training.jsonl" 2>"$work/progress"
    done
    (cd "$work" && "$yoke" plot --out="$YOKE_SRCDIR/docs/shares.svg" training.jsonl)
}

for figure in ${*:-resnet18 mlp unequal follow balance data reduce}; do
    case $figure in
    resnet18) halves resnet18 64 ;;
    mlp | lenet) halves "$figure" 256 ;;
    simplecnn) halves simplecnn 64 ;;
    tiny) halves tiny 32 ;;
    unequal) unequal "${MODEL:-simplecnn}" "${BATCH:-256}" ;;
    follow) OPENCL_LAYERS=$layer "$team" follow "${MODEL:-simplecnn}" "${BATCH:-256}" cpu:0/2 ;;
    picture) picture ;;
    balance) "$team" balance "${MODEL:-simplecnn}" "${BATCH:-256}" cpu:0/2 ;;
    data)
        for devices in cpu:0 cpu:0/2; do
            for work in sleep compute; do
                "$YOKE_BUILDDIR/tests/train/bench_data" "${MODEL:-simplecnn}" "${BATCH:-256}" \
                    $devices 0.5 $work
            done
        done
        ;;
    reduce) "$team" reduce resnet18 64 cpu:0/2 ;;
    *)
        echo "bench.sh: no figure '$figure'" >&2
        exit 2
        ;;
    esac
done

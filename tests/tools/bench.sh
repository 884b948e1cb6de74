#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bench.sh - what `yoke bench` writes. How fast anything is, is not judged here:
# other tests run beside this one.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES

mkdir "$work/none"
expect 1 OCL_ICD_VENDORS="$work/none" -- bench devices
empty "$out"
says "$err" '^yoke: bench devices: .*install'

# positive MEMBER
positive() {
    json "$1" "$("$pick" "$1" <"$out")"
    checks=$((checks + 1))
    awk "BEGIN { exit !($value > 0) }" || fail "$1 is $value"
}

check_pocl() {
    threads=POCL_MAX_PTHREAD_COUNT=$(($(nproc) > 1 ? $(nproc) : 2))

    # The default is two halves of the CPU.
    expect 0 "$pocl" "$threads" -- bench devices --json --repeats 1
    json 'devices.#' 2
    json devices.0 cpu:0/2.0
    json devices.1 cpu:0/2.1
    json repeats 1
    for member in alone_seconds together_seconds ratio; do
        positive $member
    done
    checks=$((checks + 1))
    awk -v a="$("$pick" alone_seconds <"$out")" -v b="$("$pick" together_seconds <"$out")" \
        -v r="$value" 'BEGIN { d = b / a - r; exit !(d < 1e-9 && d > -1e-9) }' ||
        fail "the ratio is not that of the times"

    expect 0 "$pocl" "$threads" YOKE_DEVICES=cpu:0 -- bench devices --json -n1
    json 'devices.#' 1
    json devices.0 cpu:0
    expect 0 "$pocl" "$threads" YOKE_DEVICES=cpu:0 -- bench devices -n 1 cpu:0/1+1
    says "$out" '^devices +cpu:0/1\+1\.0 cpu:0/1\+1\.1$'
    says "$out" '^ratio +[0-9]+\.[0-9][0-9];'
    # A model: every figure is there, and they agree with one another.
    expect 0 "$pocl" YOKE_DEVICES=cpu:0 -- bench tiny --json --batch 16 --level estimate \
        --trace="$work/timeline"
    says "$work/timeline" '"name": "fc1 matmul", .*"solver": .*"gflops": [0-9]'
    json model tiny
    json batch 16
    json 'devices.#' 1
    json devices.0 cpu:0
    json 'shares.#' 1
    json shares.0 16
    json steps 200
    for member in step_ms step_ms_waited samples_per_second gflops peak_fraction memory_bytes \
        first_step_ms untraced_step_ms traced_step_ms; do
        positive $member
    done
    checks=$((checks + 1))
    awk -v ms="$("$pick" step_ms <"$out")" -v rate="$("$pick" samples_per_second <"$out")" \
        'BEGIN { d = rate * ms / 16e3 - 1; exit !(d < 1e-9 && d > -1e-9) }' ||
        fail "the rate is not that of the time"

    # The size of images is another: four times the operations, and not for what takes no images.
    for size in 32 64; do
        expect 0 "$pocl" YOKE_DEVICES=cpu:0 -- bench simplecnn --json --batch 1 --level estimate --size=$size
        json model simplecnn
        "$pick" gflops <"$out" >"$work/gflops.$size"
        "$pick" step_ms <"$out" >"$work/ms.$size"
    done
    checks=$((checks + 1))
    paste -d' ' "$work"/gflops.32 "$work"/ms.32 "$work"/gflops.64 "$work"/ms.64 |
        awk '{ r = $3 * $4 / ($1 * $2); exit !(r > 3.5 && r < 4.1) }' ||
        fail "an image of twice the height and width has not four times the operations"
    expect 2 "$pocl" -- bench mlp --size=32
    says "$err" '^yoke: bench mlp: mlp takes no images'

    # A language model: of the sizes that are given, and its rate in tokens.
    expect 0 "$pocl" YOKE_DEVICES=cpu:0 -- bench gpt --json --batch=2 --seq=8 --level=estimate --layers=1 \
        --heads=2 --width=16 --context=12 --vocabulary=20
    json model gpt
    json seq 8
    checks=$((checks + 1))
    awk -v samples="$("$pick" samples_per_second <"$out")" -v rate="$("$pick" tokens_per_second <"$out")" \
        'BEGIN { d = rate / samples / 8 - 1; exit !(d < 1e-9 && d > -1e-9) }' || fail "tokens are not 8 a sample"
    expect 2 "$pocl" -- bench char --heads=7
    says "$err" '^yoke: bench char: the width is 384; must be a multiple of the 7 heads'
    expect 2 "$pocl" -- bench gpt --context=16 --seq=17
    says "$err" '^yoke: bench gpt: a sample has 17 tokens; must have at most 16, the context'
    expect 2 "$pocl" -- bench mlp --layers=2
    says "$err" '^yoke: bench mlp: mlp has no such size: layers'
    expect 2 "$pocl" -- bench mlp --seq=2
    says "$err" '^yoke: bench mlp: mlp is no language model'

    # The plan, in names of the layers: what is backward belongs to one of them.
    expect 0 "$pocl" YOKE_DEVICES=cpu:0 -- bench lenet --plan --batch 2 --level estimate
    says "$out" '^ +[0-9]+ forward +avgpool2d1 +conv-pooled '
    says "$out" '^ +[0-9]+ backward +conv1\.weight '
    lacks "$out" '_grad[0-9]|backward +matmul'
    # In any-split the plan is another: first the convolution, then its pooling.
    expect 0 "$pocl" YOKE_DEVICES=cpu:0 -- bench lenet --plan --batch 2 --level estimate \
        --reproducible=any-split
    says "$out" '^ +[0-9]+ forward +avgpool2d1 '
    lacks "$out" 'conv-pooled'

    # Single operators, beside limits of the same run.
    expect 0 "$pocl" -- bench peak --json --devices=cpu:0
    json 0.case peak
    for member in gflops copy_gbytes triad_gbytes launch_us waited_launch_us; do
        positive 0.$member
    done
    expect 0 "$pocl" -- bench attention --json --devices=cpu:0 --repeats=1 --level=estimate --seq=64
    json '#' 2
    json 0.op attention
    json 0.case '12 x 64, T 64, causal'
    json 1.op attention_grad
    json 1.limit peak
    for member in us gflops fraction; do
        positive 1.$member
    done
    expect 2 "$pocl" -- bench gemm --seq=64
    says "$err" '^yoke: bench gemm: option "--seq=64" is unknown'
    expect 0 "$pocl" -- bench eltwise --json --devices=cpu:0 --repeats=1 --level=estimate
    json 0.op binary
    json 0.limit "copy bandwidth"
    for member in us gbytes fraction; do
        positive 0.$member
    done
    for op in bn_stats maxpool2d_grad layer_norm_grad update; do
        says "$out" "\"op\": \"$op\""
    done

    expect 2 "$pocl" -- bench devices nonsense
    says "$err" '^yoke: bench devices: .*nonsense'
}

if usable "$pocl"; then
    check_pocl
else
    skip "no PoCL"
fi
finish

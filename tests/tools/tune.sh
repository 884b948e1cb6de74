#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tune.sh - `yoke tune` fills a file of wisdom, a second time measures nothing, and a plan that
# is made without measuring knows its times by it: `yoke bench MODEL --plan` shows them, with the
# part of the device's limit that each is.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES

# A command of the plan with its time: the columns from the launches on.
timed='fc1 +gemm-[a-z]+ +direct +/1 +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ (peak|copy)$'

check_pocl() {
    wisdom=YOKE_WISDOM=$work/wisdom

    expect 0 "$pocl" "$wisdom" -- bench tiny --plan --level=estimate --devices=cpu:0
    lacks "$out" '^limits'
    lacks "$out" "$timed"
    says "$out" ' fc1 +gemm-[a-z]+ +direct '
    says "$out" '^packed [0-9.]+ MB of [0-9.]+ MB; whole plan [0-9.]+ MB$'
    checks=$((checks + 1))
    [ ! -e "$work/wisdom" ] || fail "an estimate measures"

    expect 0 "$pocl" -- tune --level=measure --wisdom="$work/wisdom" --devices=cpu:0 tiny
    says "$out" '^tiny, batches up to 32, on cpu:0 \(.*\): [0-9.]+ s$'
    says "$work/wisdom" '^yoke wisdom 1$'
    says "$work/wisdom" '^[0-9.]+ gemm-cpu [0-9]+ matmul nt bias relu .* @32$'
    cp "$work/wisdom" "$work/before"
    expect 0 "$pocl" -- tune --level=measure --wisdom="$work/wisdom" --devices=cpu:0 tiny
    checks=$((checks + 1))
    cmp "$work/before" "$work/wisdom" >"$out" 2>&1 || fail "what is known is measured again"

    expect 0 "$pocl" "$wisdom" -- bench tiny --plan --level=estimate --devices=cpu:0
    says "$out" '^limits: peak [0-9.]+ GFLOP/s, copy [0-9.]+ GB/s$'
    says "$out" "$timed"
    # No room for measuring: it says so, and goes without.
    expect 0 "$pocl" "$wisdom" -- bench tiny --plan --level=estimate --devices=cpu:0@16MiB
    says "$out" '^limits: not measured: .*16777216'
    lacks "$out" "$timed"
    says "$out" ' fc1 +gemm-[a-z]+ +direct '
}

if usable "$pocl"; then
    check_pocl
else
    skip "no PoCL"
fi
finish

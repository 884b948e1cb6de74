#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# verify.sh - `yoke verify` tells equal from different, and says what it will not do.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES

expect 2 -- verify
says "$err" '^yoke: verify: no model is given'
expect 2 -- verify mlp tiny
says "$err" 'one model at a time$'
expect 2 -- verify nonsense
says "$err" '"nonsense"'
expect 2 -- verify --batch-norm=local resnet18
says "$err" '^yoke: verify: --batch-norm is "local", .* must be sync'
for wrong in --steps=0 --batch=x --accumulate=-1 --lr=0 --tolerance=x --batch-norm=x; do
    expect 2 -- verify $wrong mlp
    says "$err" "^yoke: verify: ${wrong%=*} is \"?${wrong#*=}\"?; must be "
    empty "$out"
done

check_pocl() {
    threads=POCL_MAX_PTHREAD_COUNT=4

    expect 0 "$pocl" "$threads" -- verify mlp -d cpu:0/2 -S 80,20 -n 5 -b 30 -k 2
    says "$out" '^mlp, 5 steps of 30 samples: cpu:0/2\.0,cpu:0/2\.1 against cpu:0$'
    says "$out" '^weights worst difference [0-9.]+(e-[0-9]+)? of the largest, in fc[12]\.'
    says "$out" '^the same'
    empty "$err"
    # Rounding differs, and is seen where no difference is allowed.
    expect 1 "$pocl" "$threads" -- verify mlp -d cpu:0/2 -S 80,20 -n 5 -b 30 -t 1e-12
    says "$out" '^DIFFERENT'
    # Only after two more seeds: rounding may turn a relu.
    says "$out" 'again with seed 1:$'
    says "$out" 'again with seed 2:$'
    expect 1 "$pocl" "$threads" -- verify tiny -d cpu:0/2 -S 1,2,3
    says "$err" '^yoke: verify: .*3 weights, and the team has 2 devices'
    expect 0 "$pocl" "$threads" -- verify tiny -d cpu:0/2 -n 3 --alone=cpu:0/2.1 --precision=bf16
    says "$out" 'against cpu:0/2\.1$'
    expect 1 "$pocl" -- verify tiny --precision=f8
    says "$err" 'precision "f8"; must be f32, tf32, bf16 or f16'
    expect 2 "$pocl" -- verify tiny -d nonsense
    says "$err" '^yoke: verify: .*nonsense'

    expect 2 "$pocl" -- verify --bits tiny -d cpu:99
    says "$err" '^yoke: verify: .*cpu:99'
    expect 0 "$pocl" "$threads" -- verify --bits mlp -d cpu:0/4 -S 4,0,1,3 -n 3 -b 30 -k 2 --wire=int16
    says "$out" '^mlp, 3 steps of 30 samples$'
    says "$out" '^[0-9a-f]{32}  cpu:0/2, shares 80,20$'
    says "$out" '^[0-9a-f]{32}  cpu:0/4, shares 4,0,1,3$'
    says "$out" '^the same bits: 7 splits$'
    expect 0 POCL_MAX_PTHREAD_COUNT=2 "$pocl" -- verify --bits tiny -n 1
    says "$out" 'cpu:0/3: left out: '
    # Kernels that add granules as floats.
    mkdir -p "$work/cl"
    cp "$YOKE_SRCDIR"/clkernels/*.cl "$work/cl"
    sed -i 's/ : \*to + add;/ : convert_wordv(YKI_PASTE(convert_float, VEC)(*to + add));/' \
        "$work/cl/granule.cl"
    ! cmp -s "$work/cl/granule.cl" "$YOKE_SRCDIR/clkernels/granule.cl" || fail "the fault is not there"
    expect 1 "$pocl" "$threads" YOKE_CL_DIR="$work/cl" -- verify --bits mlp -d cpu:0/2 -n 3
    says "$out" ', from step [123] on, first in fc[12]\.'
    says "$out" '^DIFFERENT BITS: '
    expect 0 "$pocl" "$threads" -- verify --bits resnet18 -n 1 -b 2
    says "$out" '^the same bits: 7 splits$'
}

if usable "$pocl"; then
    check_pocl
else
    skip "no PoCL"
fi
finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# quotients.sh - kernels of canonical plans compute nothing whose rounding OpenCL leaves open: quotients
# and roots of floats are written QUOTIENT and ROOT (clkernels/exact.cl), and of the built-in functions of
# floats they call only those that have one right result.
#
# Each file with kernels is compiled as for a device that does not promise to round quotients, with its own
# quotients and roots replaced. Then no division of floats may be left, and no other function. Needs clang
# from 14 on.

set -eu
export LC_ALL=C
cd "${YOKE_SRCDIR:?}/clkernels"
work=${YOKE_BUILDDIR:?}/tests/build/quotients.tmp
exact='fma|fabs|fmax|fmin|max|min|clamp|select|isnan|isinf|isfinite|signbit|copysign|trunc'
exact="$exact|convert_u?(char|short|int|long|float)[0-9]*|v(load|store)[0-9]*"
# What a file makes for another kind of device, or with an option of its operator.
others='-DWG=64 -DRMS=1 -DWEIGHTED -DSPREAD=1 -DSMALL_STATE=1 -DINTERLEAVED=1 -DDROP'
failed=0

# compile CLANG FILE [OPTIONS]
compile() {
    "$1" $3 -x cl -cl-std=CL1.2 -target spir64-unknown-unknown -Xclang -finclude-default-header \
        -Xclang -fdeclare-opencl-builtins -w -S -emit-llvm -DYKI_CANONICAL=1 -DYKI_ROUNDED_DIVIDE=0 \
        '-DOWN_QUOTIENT(T,a,b)=(a)' '-DOWN_ROOT(T,a)=(a)' -o "$2.ll" "$2"
}

# left FILE: what is left in the code of FILE, with the functions that have it
left() {
    awk -v exact="^($exact)\$" '
        /^define / { match($0, /@[^(]*/); function_ = substr($0, RSTART + 1, RLENGTH - 1) }
        / (fdiv|frem) / { print "a quotient in " function_ }
        match($0, /call .*@_Z[0-9]+[^(]*/) {
            name = substr($0, RSTART, RLENGTH)
            sub(/.*@_Z/, "", name)
            size = name + 0
            sub(/^[0-9]+/, "", name)
            types = substr(name, size + 1)
            name = substr(name, 1, size)
            if (types ~ /f/ && name !~ exact)
                print name " in " function_
        }' "$1" | sort -u
}

# flat FILE: its text behind common.cl, with the text of the files that it includes
flat() {
    cat common.cl
    awk '/^#include "/ {
            split($0, part, "\"")
            while ((getline line <part[2]) > 0)
                print line
            close(part[2])
            next
        }
        { print }' "$1"
}

rm -rf "$work"
mkdir -p "$work"
echo '__kernel void f(__global float *x) { x[0] = fma(x[1], x[2], convert_float(x[3] > 0.f)); }' >"$work/probe.cl"
for clang in clang clang-14 clang-15 clang-16 clang-17 clang-18 clang-19 none; do
    compile "$clang" "$work/probe.cl" "" 2>"$work/probe.log" && break
done
[ "$clang" != none ] || exit 77

# What it looks for is found.
echo '__kernel void f(__global float4 *x) { x[0] = native_recip(x[1]) / sqrt(fabs(x[2]).x); }' >"$work/probe.cl"
compile "$clang" "$work/probe.cl" ""
if [ "$(left "$work/probe.cl.ll" | tr '\n' ';')" != 'a quotient in f;native_recip in f;sqrt in f;' ]; then
    echo "FAIL: of a quotient, a reciprocal and a root were found:"
    left "$work/probe.cl.ll"
    failed=1
fi

for file in $(grep -lE '^[^*]*\<(__kernel|KERNEL|GROUP|ITEM)\>' ./*.cl); do
    flat "$file" >"$work/$file"
    for options in -DDENSE=softmax_ce "$others"; do
        compile "$clang" "$work/$file" "$options" || failed=1
        left "$work/$file.ll"
    done >"$work/left"
    if [ -s "$work/left" ]; then
        echo "FAIL: ${file#./} has what devices round as they like; QUOTIENT, ROOT (exact.cl) or math.cl is wanted:"
        sort -u "$work/left"
        failed=1
    fi
done
exit "$failed"

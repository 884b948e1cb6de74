#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# static.sh - looks at the machine code of every kernel that models would launch on GPUs, when they train
# and when they write text, and predicts steps from it. No GPU is needed. `make check-gpu-static` runs it
# in the build folder.
#
# 1. list_launches asks the planner, on the null driver as an H200 and an MI300X, and keeps the programs.
# 2. clang compiles these: to PTX, which ptxas assembles for sm_80 and sm_90, and for gfx90a and gfx1100.
# 3. check_kernels.py judges the code by kernels.txt; roofline.py predicts a step of ResNet-18, and a token
#    of gpt2.
#
#   CLANG, CLC        a clang from 14 on, and the folder of libclc's bitcode of the same version; else
#                     the first pair of those installed that works
#   PTXAS, CUOBJDUMP  else those of a CUDA toolkit in PATH, else those of the package triton in the
#                     build folder, which STATIC_INSTALL=yes installs (1.1 GB). Without them PTX is
#                     compiled but not judged, and there is no prediction
#   MODELS            "MODEL:BATCH..."; MODEL:BATCH:PRECISION is an H200 with units for matrices, and
#                     write-MODEL:STREAMS is the step in which a language model writes a token in each
#                     stream. All of the zoo but its gpt, as a block of list_launches has that name: it has
#                     no other kernels
#
# The status is 77 where something that it needs is missing.

set -eu
export LC_ALL=C

here=${YOKE_SRCDIR:?}/tests/gpu
build=${YOKE_BUILDDIR:?}/tests/gpu
driver=$build/.libs/nulldriver.so
models=${MODELS:-tiny:32 mlp:64 simplecnn:64 lenet:256 mobilenet:64 autoencoder:64 transformer:32 gpt:32
    gpt-wide:32 gpt-narrow:32 char:16 gpt2:4 llama:8 unet:8 resnet18:128 resnet34:64 resnet50:32 gpt:32:tf32
    gpt:32:bf16 gpt:32:f16 resnet18:128:tf32 resnet18:128:bf16 resnet18:128:f16
    write-gpt2:1 write-gpt2:8 write-llama:4}
WORK=$build/static.tmp
export WORK PYTHONDONTWRITEBYTECODE=1

skip() {
    echo "check-gpu-static: skipped: $*" >&2
    exit 77
}

# compiles CLANG CLC TARGET CPU LIBRARY: whether a kernel with a function of the library goes through
compiles() {
    echo '__kernel void f(__global float *x) { x[get_global_id(0)] = sqrt(fmin(x[0], x[1])); }' |
        "$1" -x cl -cl-std=CL1.2 -target "$3" -Xclang -target-cpu -Xclang "$4" -Xclang -finclude-default-header \
            -Xclang -mlink-builtin-bitcode -Xclang "$2/$5" -nogpulib -w -O1 -S -o "$WORK/probe.s" - 2>"$WORK/probe.log"
}

find_clang() {
    for clang in ${CLANG:-clang-14 clang-15 clang-16 clang-17 clang-18 clang-19 clang}; do
        command -v "$clang" >/dev/null || continue
        for clc in ${CLC:-/usr/lib/clc /usr/share/clc "/usr/lib/llvm-${clang#clang-}/lib/clc"}; do
            if compiles "$clang" "$clc" nvptx64-nvidia-nvcl sm_80 nvptx64--nvidiacl.bc &&
                compiles "$clang" "$clc" amdgcn-amd-amdhsa gfx90a amdgcn--amdhsa.bc; then
                CLANG=$clang CLC=$clc
                return
            fi
        done
    done
    skip "needs clang from 14 on, with libclc of the same version (CLANG=, CLC=)"
}

find_ptxas() {
    if [ "${STATIC_INSTALL:-no}" = yes ] && [ ! -x "$build/triton/bin/python" ]; then
        python3 -m venv "$build/triton"
        "$build/triton/bin/python" -m pip install -q triton || {
            rm -rf "$build/triton"
            exit 1
        }
    fi
    wheel=$(echo "$build"/triton/lib/python3*/site-packages/triton/backends/nvidia/bin)
    PATH=$PATH:$wheel # cuobjdump calls nvdisasm
    PTXAS=${PTXAS:-$(command -v ptxas || :)} CUOBJDUMP=${CUOBJDUMP:-$(command -v cuobjdump || :)}
    [ -n "$PTXAS" ] && [ -n "$CUOBJDUMP" ] && command -v nvdisasm >/dev/null && return
    PTXAS='' CUOBJDUMP=''
    echo "no ptxas, cuobjdump, nvdisasm: PTX is compiled but not judged (STATIC_INSTALL=yes installs them)"
}

# list DEVICE MODEL BATCH [PRECISION]
list() {
    folder=$WORK/$1.$2.$3${4:+.$4}
    mkdir -p "$folder"
    OCL_ICD_VENDORS=$WORK/null.icd YOKE_NULL_DEVICES=$1 YOKE_NULL_DUMP=$folder \
        "$build/list_launches" "$driver" "$2" "$3" "${4:-f32}" "$folder/log" >"$folder/launches"
}

[ -e "$driver" ] || skip 'there is no null driver in a build without shared libraries'
command -v python3 >/dev/null || skip 'needs python3'
mkdir -p "$WORK"
rm -rf "$WORK"/h200.* "$WORK"/mi300x.*
unset OPENCL_LAYERS
echo "$driver" >"$WORK/null.icd"
find_clang
find_ptxas
export CLANG CLC PTXAS CUOBJDUMP PATH
STATIC_TARGETS='sm_80 sm_90 gfx90a'
if compiles "$CLANG" "$CLC" amdgcn-amd-amdhsa gfx1100 amdgcn--amdhsa.bc; then
    STATIC_TARGETS="$STATIC_TARGETS gfx1100"
else
    echo "$CLANG does not know gfx1100"
fi
export STATIC_TARGETS
"$CLANG" --version | head -n 1
[ -z "$PTXAS" ] || "$PTXAS" --version | tail -n 2 | head -n 1
for device in h200 mi300x; do
    for model in $models; do
        case $device.$model in
        mi300x.*:*:*) ;;
        # shellcheck disable=SC2046
        *) list "$device" $(echo "$model" | tr : ' ') ;;
        esac
    done
done
status=0
python3 "$here/check_kernels.py" || status=1
if [ -n "$PTXAS" ]; then
    echo
    python3 "$here/roofline.py" || status=1
fi
exit $status

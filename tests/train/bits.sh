#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bits.sh - the proof of --reproducible=any-split, as a table: models are trained on implementations,
# in splits and in processes, and each must end with one hash of the weights.
#
# `make check-bits` runs it in the build folder. BITS="NAME..." picks parts: pocl trains whole models
# for 50 steps on the CPU, its parts, and in up to four processes; small trains small ones for five
# steps, in three splits, on each of BITS_ROWS (pocl, rusticl, oclgrind, face). BITS_MODELS="NAME..."
# picks models. It prints a table in Markdown as it goes, and behind each model a verdict. What could
# not be run is said; with YOKE_REQUIRE_ALL=1 that is a failure, as other bits always are.

set -u
parts=${*:-pocl small}
rows=${BITS_ROWS:-pocl rusticl oclgrind face}
out=tests/train/bits.tmp
. "$YOKE_SRCDIR/tests/support/implementations.sh"
rm -rf "$out"
mkdir -p "$out"
work=$PWD/$out
. "$YOKE_SRCDIR/tests/support/launcher.sh"
yoke=$PWD/tools/yoke
face=$PWD/tests/gpu/.libs/face.so
failures=0
missing=0
train="train --reproducible=any-split --level=estimate --schedule=constant --epochs=1 --seed=3 --quiet"

say_missing() {
    echo "not run: $*"
    missing=$((missing + 1))
}

# ---- data and models ----

# cut_idx NAME KIND HEADER FROM BYTES: a header, and bytes of a file of examples/data
cut_idx() {
    { printf "$3" && gzip -dc "$YOKE_SRCDIR/examples/data/$1-$2-ubyte.gz" | tail -c +$4 | head -c $5; } \
        >"$work/digits/$1-$2-ubyte"
}

# Forty digits: five steps of eight.
make_digits() {
    mkdir "$work/digits"
    for set in train t10k; do
        cut_idx $set images-idx3 '\0\0\010\03\0\0\0\050\0\0\0\010\0\0\0\010' 17 2560
        cut_idx $set labels-idx1 '\0\0\010\01\0\0\0\050' 9 40
    done
}

# node NAME FIELDS / block NAME FILTERS STRIDE: of a graph in JSON
node() {
    name=$1
    shift
    echo "  {\"name\": \"$name\", $*},"
}

convolution() {
    node "$1" "\"op\": \"conv2d\", \"inputs\": [\"$2\"], \"filters\": $3, \"kernel\": $4, \"pad\": $(($4 / 2)), \"stride\": $5, \"no_bias\": true"
    node "$1n" "\"op\": \"batch_norm\", \"inputs\": [\"$1\"]"
}

block() {
    from=$previous
    convolution "$1a" "$from" "$2" 3 "$3"
    node "$1b" "\"op\": \"relu\", \"inputs\": [\"$1an\"]"
    convolution "$1c" "$1b" "$2" 3 1
    short=$from
    if [ "$3" = 2 ]; then
        convolution "$1d" "$from" "$2" 1 2
        short=$1dn
    fi
    node "$1e" "\"op\": \"add\", \"inputs\": [\"$1cn\", \"$short\"]"
    node "$1" "\"op\": \"relu\", \"inputs\": [\"$1e\"]"
    previous=$1
}

# resnet FILTERS BLOCKS: with two blocks of each width; eight blocks are ResNet-18, narrower
resnet() {
    echo '{"nodes": ['
    node image '"op": "input", "type": "f32", "shape": [1, 8, 8]'
    convolution stem image "$1" 3 1
    node first '"op": "relu", "inputs": ["stemn"]'
    previous=first
    width=$1
    number=1
    while [ $number -le "$2" ]; do
        stride=1
        if [ $number -gt 1 ] && [ $((number % 2)) = 1 ]; then
            stride=2
            width=$((2 * width))
        fi
        block "b$number" $width $stride
        number=$((number + 1))
    done
    node mean "\"op\": \"global_avgpool\", \"inputs\": [\"$previous\"]"
    node y '"op": "dense", "inputs": ["mean"], "units": 10'
    node label '"op": "target", "type": "i32", "shape": []'
    echo '  {"op": "softmax_cross_entropy", "name": "ce", "inputs": ["y", "label"]}],'
    echo ' "outputs": {"logits": "y"}, "loss": "ce"}'
}

# arguments MODEL SIZE: what trains it
arguments() {
    data="--data=$YOKE_SRCDIR/examples/data --batch=29" # 1437 digits: 50 steps
    [ "$2" = whole ] || data="--data=$work/digits --batch=8"
    case $1:$2 in
    resnet18:whole) echo "--model=$work/resnet18.json $data" ;;
    resnet:small) echo "--model=$work/resnet.json $data" ;;
    char:whole)
        echo "--model=char --layers=2 --heads=4 --width=64 --context=32 --data=$work/text.txt --tokenizer=bytes --batch=16"
        ;;
    char:small)
        echo "--model=char --layers=1 --heads=2 --width=16 --context=8 --data=$work/line.txt --tokenizer=bytes --batch=8"
        ;;
    mlp-int32:* | mlp-int16:*) echo "--model=mlp $data --wire=${1#mlp-}" ;;
    *) echo "--model=$1 $data" ;;
    esac
}

# ---- runs ----

# one MODEL SIZE WHERE PROCESSES SETTINGS OPTION...: a row of the table
one() {
    model=$1 size=$2 where=$3 ranks=$4 settings=$5
    shift 5
    launcher=
    if [ "$ranks" -gt 1 ]; then
        if ! command -v "${MPIRUN:-mpirun}" >/dev/null || [ ! -f tools/.libs/yoke-mpi.so ]; then
            say_missing "$model in $ranks processes: no MPI"
            return
        fi
        launcher="${MPIRUN:-mpirun} -n $ranks"
    fi
    # shellcheck disable=SC2086,SC2046 # words
    if ! timeout -k 5 "${BITS_TIMEOUT:-3600}" env $settings $launcher "$yoke" $train \
        $(arguments "$model" "$size") "$@" >"$work/output" 2>&1 </dev/null; then
        echo "FAILED: $model on $where: $*"
        tail -n 5 "$work/output"
        failures=$((failures + 1))
        return
    fi
    hash=$(sed -n 's/^weights //p' "$work/output")
    echo "| $model | $where | $* | $ranks | ${hash:-none} |"
    echo "${hash:-none}" >>"$work/$model-$size.hashes"
}

# verdict MODEL SIZE
verdict() {
    [ -f "$work/$1-$2.hashes" ] || return
    runs=$(wc -l <"$work/$1-$2.hashes")
    different=$(sort -u "$work/$1-$2.hashes" | wc -l)
    if [ "$different" = 1 ] && ! grep -q none "$work/$1-$2.hashes"; then
        echo "$1: the same bits in $runs runs"
    else
        echo "FAILED: $1: $different hashes in $runs runs"
        failures=$((failures + 1))
    fi
}

heading() {
    echo
    echo "| model | implementation | devices and shares | processes | weights |"
    echo "| --- | --- | --- | --- | --- |"
}

check_pocl() {
    if ! setup pocl pocl; then
        say_missing "PoCL is not installed"
        return
    fi
    settings="OCL_ICD_VENDORS=$icd POCL_MAX_PTHREAD_COUNT=6"
    heading
    for model in ${BITS_MODELS:-mlp mlp-int32 mlp-int16 lenet simplecnn char resnet18}; do
        for split in "cpu:0 auto" "cpu:0/2 even" "cpu:0/2 80,20" "cpu:0/2 0,1" "cpu:0/3 3,0,1" \
            "cpu:0/5 even" "cpu:0/1+3 1,3"; do
            one $model whole PoCL 1 "$settings" --devices="${split% *}" --shares="${split#* }"
        done
        one $model whole PoCL 2 "$settings" --devices=cpu:0 --shares=1,3
        one $model whole PoCL 2 "$settings" --devices=cpu:0/2 --shares=1,2,3,4
        one $model whole PoCL 3 "$settings" --devices=cpu:0 --shares=5,0,2
        one $model whole PoCL 4 "$settings" --devices=cpu:0 --shares=even
        verdict $model whole
    done
}

# The models on all rows, so that a verdict is about all of them.
check_small() {
    heading
    for model in ${BITS_MODELS:-mlp resnet char}; do
        while read -r name drivers devices of_row; do
            case " $rows " in *" $name "*) ;; *) continue ;; esac
            if ! setup "$name" "$drivers"; then
                say_missing "$model on $name: not installed"
                continue
            fi
            settings="OCL_ICD_VENDORS=$icd"
            [ "$of_row" = - ] || settings="$settings $of_row"
            device=cpu:0
            case $name in
            face) settings="$settings OPENCL_LAYERS=$face XDG_CACHE_HOME=$work/face" device=gpu:0 ;;
            rusticl) settings="$settings GALLIVM_PERF=nopt" ;;
            pocl) settings="$settings POCL_MAX_PTHREAD_COUNT=6" ;;
            oclgrind) device=all ;;
            esac
            one $model small "$name" 1 "$settings" --devices=$device
            one $model small "$name" 1 "$settings" --devices=$device/2 --shares=80,20
            one $model small "$name" 1 "$settings" --devices=$device/3 --shares=3,0,1
        done <<END
$(table)
END
        verdict $model small
    done
}

resnet 8 8 >"$work/resnet18.json"
resnet 4 2 >"$work/resnet.json"
licence=$YOKE_SRCDIR/COPYING
cat "$licence" "$licence" "$licence" | head -c 28500 >"$work/text.txt"
head -c 330 "$licence" >"$work/line.txt"
make_digits
for part in $parts; do
    case $part in
    pocl) check_pocl ;;
    small) check_small ;;
    *) echo "there is no part \"$part\"; must be pocl or small" && failures=1 ;;
    esac
done
echo
echo "bits: $failures failures, $missing not run"
[ $failures -eq 0 ] && { [ $missing -eq 0 ] || [ "${YOKE_REQUIRE_ALL:-0}" != 1 ]; }

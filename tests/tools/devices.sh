#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# devices.sh - `yoke devices` on each OpenCL implementation that is installed.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

vendors=/etc/OpenCL/vendors
pocl=OCL_ICD_VENDORS=$vendors/pocl.icd
rusticl=OCL_ICD_VENDORS=$vendors/rusticl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES RUSTICL_ENABLE

# No OpenCL at all: the library's sentence, which says what to install.
mkdir "$work/none"
expect 1 OCL_ICD_VENDORS="$work/none" -- devices
empty "$out"
says "$err" '^yoke: devices: .*install'
expect 1 OCL_ICD_VENDORS="$work/none" -- devices --json cpu
empty "$out"

# has the objects: as many as in $1, valid by a checker of ours and by Python's where it is
objects() {
    json '#' "$1"
    if command -v python3 >/dev/null; then
        checks=$((checks + 1))
        python3 -m json.tool <"$out" >/dev/null 2>&1 || fail "Python refuses it"
    fi
}

check_pocl() {
    expect 0 "$pocl" -- devices
    says "$out" '^ID  *NAME  *TYPE  *PLATFORM  *CUS  *MEMORY  *VIRTUAL  *HARDWARE'
    says "$out" '^cpu:0 .* cpu .*[0-9]+(\.[0-9])? [GMT]iB +no +host-cpu'
    lacks "$out" ' $'

    expect 0 "$pocl" -- devices --json
    objects 1
    json 0.id cpu:0
    json 0.type cpu
    json 0.virtual none
    json 0.parent cpu:0
    json 0.preferred cpu:0
    json 0.hardware host-cpu
    json 0.quota 0
    json 0.host_memory true
    for member in name platform vendor driver version; do
        json 0.$member "$("$pick" 0.$member <"$out")"
        checks=$((checks + 1))
        [ -n "$value" ] || fail "$member is empty"
    done
    for member in compute_units memory max_allocation vector_width; do
        json 0.$member "$("$pick" 0.$member <"$out")"
        checks=$((checks + 1))
        [ "$value" -gt 0 ] || fail "$member is $value"
    done
    for member in fp16 fp64; do
        json 0.$member "$("$pick" 0.$member <"$out")"
        checks=$((checks + 1))
        [ "$value" = true ] || [ "$value" = false ] || fail "$member is $value"
    done
    units=$("$pick" 0.compute_units <"$out")
    unit=$("$pick" 0.bf16 <"$out")
    # PoCL compiles for the processor, whatever it calls it.
    if grep -q avx512_bf16 /proc/cpuinfo && [ "$("$pick" 0.vector_width <"$out")" -ge 16 ]; then
        checks=$((checks + 1))
        [ "$unit" = avx512-bf16 ] || fail "bf16 is \"$unit\""
    fi

    expect 0 "$pocl" -- devices --verbose
    says "$out" '^cpu:0$'
    says "$out" "^  compute units +$units\$"
    says "$out" '^  partition +equally by_counts'
    says "$out" "^  bf16 +${unit:-no unit}\$"
    says "$out" "^  f16 +(mma-f16|no unit)\$"
}

check_quota() {
    expect 0 "$pocl" "$threads" -- devices --json 'cpu:0/2@256MiB'
    objects 2
    for i in 0 1; do
        json $i.virtual subdevice
        json $i.quota 268435456
        json $i.parent cpu:0
        json $i.id "cpu:0/2.$i"
    done
    expect 0 "$pocl" "$threads" -- devices 'cpu:0/2@256MiB'
    says "$out" '^cpu:0/2\.1 .* 256 MiB of .*iB +sub-device of cpu:0 '
    expect 0 "$pocl" "$threads" -- devices 'cpu:0@1.5GiB' --json
    objects 1
    json 0.quota 1610612736
    json 0.virtual none
}

check_environment() {
    expect 0 "$pocl" "$threads" YOKE_DEVICES=cpu:0/2 -- devices --json
    objects 2
    expect 0 "$pocl" "$threads" YOKE_DEVICES=cpu:0/2 -- devices --json cpu:0
    objects 1
    expect 0 "$pocl" "$threads" YOKE_DEVICES=cpu:0/2 -- devices --json --all
    objects 1
    expect 0 "$pocl" YOKE_DEVICES= -- devices --json
    objects 1
    expect 2 "$pocl" YOKE_DEVICES=nonsense -- devices
    says "$err" 'nonsense'

    # Only one device is visible, and nothing can be taken that is not.
    expect 0 "$pocl" YOKE_VISIBLE_DEVICES=cpu:0 -- devices --json
    objects 1
    expect 2 "$pocl" YOKE_VISIBLE_DEVICES=gpu:7 -- devices
    says "$err" '^yoke: devices: YOKE_VISIBLE_DEVICES: .*there (is|are): cpu:0 '
    expect 1 "$pocl" YOKE_VISIBLE_DEVICES= -- devices
    says "$err" '^yoke: devices: YOKE_VISIBLE_DEVICES is empty, which hides every device'

    # Nothing but where programs and libraries are.
    what="yoke devices in an empty environment"
    checks=$((checks + 1))
    env -i PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" "$pocl" "$yoke" devices --json >"$out" 2>"$err" || fail "exit status $?"
    objects 1
}

check_errors() {
    for selector in nonsense cpu:0/0 cpu:0/ 'cpu:0@12parsecs' gpu:99 name~nosuchname cpu:0,xyz; do
        expect 2 "$pocl" -- devices "$selector"
        empty "$out"
        says "$err" '^yoke: devices: '
        says "$err" 'cpu:0 '
    done
    says "$err" 'xyz'
    expect 2 "$pocl" -- devices ''

    what="yoke devices into a full disk"
    if [ -w /dev/full ]; then
        checks=$((checks + 1))
        env "$pocl" "$yoke" devices --json >/dev/full 2>"$err" && fail "exit status 0"
        says "$err" 'cannot write'
    fi
}

# More compute units than cores are warned of, however they are divided; others are not.
check_cores() {
    cores=$(nproc)
    many=POCL_MAX_PTHREAD_COUNT=$((cores + 2))
    expect 0 "$pocl" "$many" -- devices --json
    if [ "$("$pick" 0.compute_units <"$out")" -le "$cores" ]; then
        skip "PoCL has no more compute units than cores: no warning to see"
        return
    fi
    says "$err" "^yoke: devices: warning: cpu:0 runs $((cores + 2)) compute units.* $cores cores"
    expect 0 "$pocl" "$many" -- devices --json "cpu:0/$((cores + 2))"
    says "$err" "warning: cpu:0 runs $((cores + 2)) compute units"
    expect 0 "$pocl" "$many" -- devices --json "cpu:0/1+1"
    [ "$cores" -lt 2 ] || lacks "$err" 'compute units'
    expect 0 "$pocl" -- devices
    lacks "$err" 'compute units'
    if command -v taskset >/dev/null && [ "$cores" -gt 1 ]; then
        first=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
        what="taskset yoke devices"
        taskset -c "$first" env "$pocl" "$many" "$yoke" devices >"$out" 2>"$err"
        says "$err" 'compute units, but this process may use 1 cores: its affinity'
    fi
}

check_rusticl() {
    expect 0 "$rusticl" RUSTICL_ENABLE=llvmpipe -- devices --json
    objects 1
    json 0.hardware host-cpu
    json 0.partition.'#' 0
    id=$("$pick" 0.id <"$out")
    expect 0 "$rusticl" RUSTICL_ENABLE=llvmpipe -- devices --json "$id/2@64MiB"
    objects 2
    json 1.virtual slice
    json 1.parent "$id"
    json 1.quota 67108864
    expect 0 "$rusticl" RUSTICL_ENABLE=llvmpipe -- devices "name~llvmpipe"
    says "$out" "^$id "
}

# Two drivers of one chip are shown as such, and `all` takes one of them.
check_both() {
    both="OCL_ICD_VENDORS=$work/both"
    mkdir "$work/both"
    cp $vendors/pocl.icd $vendors/rusticl.icd "$work/both"
    expect 0 "$both" RUSTICL_ENABLE=llvmpipe -- devices
    says "$out" 'same chip as cpu:0$'
    expect 0 "$both" RUSTICL_ENABLE=llvmpipe -- devices --json
    objects 2
    json 0.preferred "$("$pick" 1.preferred <"$out")"
    expect 0 "$both" RUSTICL_ENABLE=llvmpipe -- devices --json all
    objects 1

    # The variable hides a device from every selector, and the others are numbered anew.
    expect 0 "$both" RUSTICL_ENABLE=llvmpipe YOKE_VISIBLE_DEVICES=cpu:1 -- devices --json
    objects 1
    json 0.id cpu:0
    json 0.platform rusticl
    json 0.preferred cpu:0
    expect 2 "$both" RUSTICL_ENABLE=llvmpipe YOKE_VISIBLE_DEVICES=cpu:1 -- devices cpu:1
    says "$err" 'YOKE_VISIBLE_DEVICES hides 1 more'
    expect 0 "$both" RUSTICL_ENABLE=llvmpipe YOKE_VISIBLE_DEVICES=cpu:1 -- devices --verbose
    says "$err" '^yoke: devices: note: YOKE_VISIBLE_DEVICES hides cpu:0 '

    # A platform without a device is worth a word only to those who ask.
    expect 0 "$both" -- devices
    empty "$err"
    expect 0 "$both" -- devices --verbose
    says "$err" '^yoke: devices: note: .*rusticl has no device'
}

if usable "$pocl"; then
    # A machine with one core can be halved too.
    threads=POCL_MAX_PTHREAD_COUNT=$(($(nproc) > 1 ? $(nproc) : 2))
    check_pocl
    check_quota
    check_environment
    check_errors
    check_cores
else
    skip "no PoCL"
fi
if usable "$rusticl" RUSTICL_ENABLE=llvmpipe; then
    check_rusticl
    ! usable "$pocl" || check_both
else
    skip "no Rusticl"
fi
finish

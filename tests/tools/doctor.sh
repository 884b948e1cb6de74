#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# doctor.sh - `yoke doctor` with one fault at a time, made by variables and scratch folders:
# what it finds, what it says to do, and its exit status.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
fake=$YOKE_BUILDDIR/tests/device/.libs/fakecl.so
module=$YOKE_BUILDDIR/tools/.libs/yoke-mpi.so
null=$YOKE_BUILDDIR/tests/gpu/.libs/nulldriver.so
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES OPENCL_VENDOR_PATH POCL_DEVICES RUSTICL_ENABLE
unset YOKE_DEVICES YOKE_VISIBLE_DEVICES OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
unset OMPI_MCA_hwloc_base_binding_policy PRTE_MCA_hwloc_default_binding_policy
mkdir "$work/none" "$work/missing" "$work/wrong"
none=OCL_ICD_VENDORS=$work/none

# advises PATTERN PATTERN: a finding like the first, and below it advice like the second
advises() {
    checks=$((checks + 1))
    awk '/^[a-z]/ { found = $0; next } /^ / { print found " TO DO " $0 }' "$out" |
        grep -q -E -e "$1.* TO DO .*$2" ||
        fail "no finding $1 with the advice $2"
}

expect 2 -- doctor cpu
empty "$out"
expect 2 -- doctor --limit=0
says "$err" '^yoke: doctor: --limit is "?0"?; must be '

# No driver at all.
expect 1 "$none" -- doctor
empty "$err"
advises "^problem  drivers  $work/none has no file that ends in .icd" 'unset OCL_ICD_VENDORS'
advises '^problem  devices  no OpenCL platform was found' 'drivers first'
says "$out" '^ok       nodes |^warning  nodes '
says "$out" '^2 problems, [0-9]+ warnings?$'
expect 1 OPENCL_VENDOR_PATH="$work/none" -- doctor --json
json findings.0.level problem
json findings.0.check drivers
json problems 2
json version "$("$yoke" --version | sed 's/yoke //')"

# Files that name what is not there, or is no driver.
echo libno-such-driver.so.7 >"$work/missing/a.icd"
echo libpocl-no-such.so.2 >"$work/missing/b.icd"
: >"$work/missing/c.icd"
echo libm.so.6 >"$work/missing/d.icd"
expect 1 OCL_ICD_VENDORS="$work/missing" -- doctor
advises '^warning  drivers  .*/a\.icd names libno-such-driver.so.7, which cannot be loaded: .*No such file' \
    'install the package that the library belongs to, or remove'
advises '^warning  drivers  .*/b\.icd names libpocl-no-such' \
    'apt install .*pocl-opencl-icd; Fedora: dnf install pocl; Arch: pacman -S pocl'
advises '^warning  drivers  .*/c\.icd names no library' 'first line'
advises '^warning  drivers  .*/d\.icd names libm.so.6, which is no OpenCL driver' 'remove'
advises '^problem  drivers  no OpenCL driver can be loaded' 'apt install pocl-opencl-icd'
expect 1 "$none" OCL_ICD_FILENAMES="$work/no.so" -- doctor
advises "^warning  drivers  OCL_ICD_FILENAMES names $work/no.so, which" 'install'

# A cache that cannot be used is a warning; these have problems beside it, as there is no driver.
: >"$work/file"
expect 1 "$none" YOKE_CACHE_DIR="$work/file" -- doctor
advises "^warning  cache    kernels are compiled anew .*$work/file cannot keep them" 'set YOKE_CACHE_DIR'
mkdir "$work/cache" && chmod 777 "$work/cache"
expect 1 "$none" YOKE_CACHE_DIR="$work/cache" -- doctor
advises '^warning  cache .*others can write to it' 'YOKE_CACHE_DIR'
chmod 500 "$work/cache"
if [ "$(id -u)" != 0 ]; then
    expect 1 "$none" YOKE_CACHE_DIR="$work/cache" -- doctor
    says "$out" '^warning  cache .*Permission denied'
fi
chmod 700 "$work/cache" && head -c 3000 /dev/zero >"$work/cache/x.bin"
expect 1 "$none" YOKE_CACHE_DIR="$work/cache" -- doctor
says "$out" '^ok       cache    .* has 1 file, 2\.9 KiB; .* are free'
expect 1 "$none" YOKE_CACHE_DIR="$work/cache/deep/er" -- doctor
says "$out" '^ok       cache    .*/deep/er will be made; '
expect 1 "$none" YOKE_CACHE_DIR= XDG_CACHE_HOME=x HOME= -- doctor
advises '^warning  cache .*none of YOKE_CACHE_DIR, XDG_CACHE_HOME and HOME' 'YOKE_CACHE_DIR'

# Drivers that crash, hang, refuse or compute nonsense.
check_fakes() {
    expect 1 OCL_ICD_VENDORS="$fake" YOKE_FAKECL=crash -- doctor
    advises '^problem  drivers  OCL_ICD_VENDORS: loading .*/fakecl.so was ended by signal 6 .*: fakecl: no lightning' \
        'update this driver'
    advises '^problem  devices  the process that listed the devices was ended by signal 6' 'OCL_ICD_VENDORS'
    says "$out" '^[1-9] problems, '
    expect 1 OCL_ICD_VENDORS="$fake" YOKE_FAKECL=exit -- doctor
    advises '^problem  drivers  OCL_ICD_VENDORS: loading .*/fakecl.so was ended with status 0 .*: fakecl: good bye' \
        'update this driver'
    advises '^problem  devices  the process that listed the devices was ended with status 0 .*: fakecl: good bye' \
        'OCL_ICD_VENDORS'
    expect 1 OCL_ICD_VENDORS="$fake" YOKE_FAKECL=hang -- doctor --limit=1
    says "$out" '^problem  drivers  .* did not end within 1 s'
    says "$out" '^problem  devices  .* did not end within 1 s'
    expect 1 OCL_ICD_VENDORS="$fake" YOKE_FAKECL=broken -- doctor
    says "$out" '^ok       drivers  OCL_ICD_VENDORS: .*/fakecl.so loads$'
    advises '^warning  devices  platform broken does not list its devices' 'update this driver'
    says "$out" '^ok       devices  platform empty has no device'
    advises '^warning  devices  platform odd: .* has no compiler' 'with its compiler'
    advises '^problem  devices  gpu:0 .*: compiling a kernel failed: ' 'update its driver'
    expect 1 OCL_ICD_VENDORS="$fake" YOKE_FAKECL=twice YOKE_DEVICES=gpu:7 -- doctor
    advises '^problem  devices  no devices are selected: YOKE_DEVICES: .*gpu:7' 'unset YOKE_DEVICES'
    expect 1 OCL_ICD_VENDORS="$fake" YOKE_FAKECL=gpus YOKE_VISIBLE_DEVICES=gpu:0 -- doctor
    advises '^warning  devices  YOKE_VISIBLE_DEVICES hides gpu:1 ' 'unset YOKE_VISIBLE_DEVICES'
    expect 1 OCL_ICD_VENDORS="$null" YOKE_NULL_DEVICES=h200 -- doctor
    advises '^problem  devices  gpu:0 .* computes wrongly: 0 \+ ' 'YOKE_VISIBLE_DEVICES'
}

check_pocl() {
    expect 0 "$pocl" POCL_MAX_PTHREAD_COUNT=1 -- doctor --json --limit=1000
    empty "$err"
    json findings.0.level ok
    json findings.0.advice null
    json problems 0
    says "$out" '"found": "cpu:0 .* compiles and computes, in '
    says "$out" '"check": "mpi"'

    # Without the linker in its path PoCL ends the process.
    expect 1 "$pocl" PATH=/nowhere -- doctor --limit=1000
    advises '^problem  devices  .* was ended by signal 6 ' 'with its compiler.* clang'

    # Variables of yoke that hide devices.
    expect 1 "$pocl" YOKE_VISIBLE_DEVICES= -- doctor
    advises '^problem  devices  YOKE_VISIBLE_DEVICES is empty, which hides' 'unset YOKE_VISIBLE_DEVICES'
    expect 1 "$pocl" YOKE_VISIBLE_DEVICES=gpu:7 -- doctor
    advises '^problem  devices  YOKE_VISIBLE_DEVICES: ' 'unset YOKE_VISIBLE_DEVICES'
}

# mpirun, and what Open MPI does with root and with cores.
check_mpi() {
    expect 1 "$none" PATH=/nowhere -- doctor
    advises '^warning  mpi      there is no mpirun in PATH' 'apt install openmpi-bin; Fedora'
    command -v mpirun >/dev/null && ldd "$module" | grep -q libopen-pal || return 0
    expect 1 "$none" -- doctor
    says "$out" '^ok       mpi  .*mpirun starts processes; it may bind each .*--bind-to none'
    if [ "$(id -u)" = 0 ]; then
        advises '^warning  mpi      Open MPI refuses' 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1'
        expect 1 "$none" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 -- doctor
        lacks "$out" 'Open MPI refuses'
    fi
    if command -v taskset >/dev/null && [ "$(nproc)" -gt 1 ]; then
        what="taskset yoke doctor as a rank"
        first=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
        taskset -c "$first" env "$none" OMPI_COMM_WORLD_LOCAL_SIZE=1 "$yoke" doctor >"$out" 2>"$err"
        advises '^warning  mpi      this rank may use 1 of ' 'bind-to none'
    fi
}

if [ -f "$fake" ] && [ -f "$null" ]; then
    check_fakes
else
    skip "no shared libraries, so no drivers with faults"
fi
[ ! -f "$module" ] || check_mpi
if usable "$pocl"; then
    check_pocl
else
    skip "no PoCL"
fi
finish

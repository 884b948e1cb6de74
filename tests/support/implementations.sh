# SPDX-License-Identifier: Apache-2.0
#
# implementations.sh - the OpenCL implementations that tests are run on, each isolated from the
# others. To be read by a script, in the build folder; $out is a folder for what belongs to each.

# name         drivers        devices         settings
table() {
    cat <<'END'
pocl           pocl           cpu:0           -
pocl-half      pocl           cpu:0/2         -
pocl-uneven    pocl           cpu:0/1+3       POCL_MAX_PTHREAD_COUNT=4
rusticl        rusticl        all             RUSTICL_ENABLE=llvmpipe
rusticl-all    rusticl        all             RUSTICL_ENABLE=llvmpipe
two-platforms  pocl,rusticl   cpu:0,cpu:1     RUSTICL_ENABLE=llvmpipe
intel          intel          cpu:0           -
face           pocl           gpu:0           YOKE_FACE_GROUP=128 YOKE_FACE_LOCAL=32768 YOKE_FACE_ANSWER=16 YOKE_FACE_COPIES=1 YOKE_TEST_MODELS=few
face-128       pocl           gpu:0           YOKE_FACE_GROUP=128 YOKE_FACE_LOCAL=32768 YOKE_FACE_COPIES=1
face-1024      pocl           gpu:0           YOKE_FACE_GROUP=1024 YOKE_FACE_LOCAL=49152
face-256       pocl           gpu:0           YOKE_FACE_GROUP=256 YOKE_FACE_LOCAL=32768
face-64        pocl           gpu:0           YOKE_FACE_GROUP=64 YOKE_FACE_LOCAL=16384
face-shared    pocl           gpu:0           YOKE_FACE_GROUP=128 YOKE_FACE_LOCAL=32768 YOKE_FACE_INTEGRATED=1
face-beside    pocl           cpu:0,gpu:0     YOKE_FACE_GROUP=128 YOKE_FACE_LOCAL=32768 YOKE_FACE_INTEGRATED=1 YOKE_FACE_BESIDE=1
face-pair      pocl           gpu:0,gpu:1     YOKE_FACE_GROUP=128 YOKE_FACE_LOCAL=32768
face-two       pocl           gpu:0,gpu:1     YOKE_FACE_GROUP=128 YOKE_FACE_LOCAL=32768
oclgrind       oclgrind       all             OCLGRIND_DATA_RACES=1 OCLGRIND_UNINITIALIZED=1 OCLGRIND_CHECK_API=1 OCLGRIND_BUILD_OPTIONS=-DYKI_LANES_APART
END
}

vendors=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}
[ -d "$vendors" ] || vendors=/etc/OpenCL/vendors
unset YOKE_DEVICES YOKE_VISIBLE_DEVICES YOKE_CL_DIR OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES RUSTICL_ENABLE

# setup NAME DRIVERS: a folder with these drivers alone, in $icd. 1 if one is missing.
setup() {
    icd=$PWD/$out/$1/vendors
    rm -rf "${out:?}/$1"
    mkdir -p "$icd"
    for driver in $(echo "$2" | tr , ' '); do
        found=
        case $driver in
        oclgrind) # installs no .icd file: it is a tool, whose library lies beside it
            prefix=$(command -v oclgrind) || return 1
            for file in "${prefix%/bin/*}"/lib*/oclgrind/liboclgrind-rt-icd.so \
                "${prefix%/bin/*}"/lib*/liboclgrind-rt-icd.so; do
                [ -f "$file" ] && found=$file && echo "$file" >"$icd/oclgrind.icd"
            done
            ;;
        intel)
            file=${YOKE_INTEL_RUNTIME:-$PWD/tests/intel/lib}/libintelocl.so
            [ -f "$file" ] && found=$file && echo "$file" >"$icd/intel.icd"
            [ -n "$found" ] || for file in "$vendors"/intel*.icd; do
                [ -f "$file" ] && found=$file && cp "$file" "$icd"
            done
            ;;
        *)
            for file in "$vendors/$driver"*.icd; do
                [ -f "$file" ] && found=$file && cp "$file" "$icd"
            done
            ;;
        esac
        [ -n "$found" ] || return 1
    done
}

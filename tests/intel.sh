#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# intel.sh FOLDER - Intel's OpenCL for processors, from the Python package index, into FOLDER/lib.
#
# `make intel-runtime` runs it, and nothing else does: it fetches some 240 MB. `make check-matrix`
# then finds it. Its own copies of the OpenCL loader and of hwloc are left out: programs and PoCL
# would get them in place of the system's.

set -eu

folder=$1
wheels=$folder/wheels
rm -rf "$folder/lib" "$folder/unpacked"
mkdir -p "$wheels" "$folder/lib" "$folder/unpacked"
python3 -m pip download --quiet --only-binary=:all: --dest "$wheels" intel-opencl-rt intel-cmplr-lib-rt
for wheel in "$wheels"/*.whl; do
    python3 -m zipfile -e "$wheel" "$folder/unpacked"
done
find "$folder/unpacked" -path '*/data/lib/*' -type f ! -name 'libOpenCL*' ! -name 'libhwloc*' \
    -exec mv {} "$folder/lib" ';'
rm -rf "$folder/unpacked"
[ -f "$folder/lib/libintelocl.so" ] || {
    echo "intel.sh: the packages hold no libintelocl.so" >&2
    exit 1
}
echo "intel.sh: $folder/lib/libintelocl.so is there; make check-matrix MATRIX=intel uses it"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libfuzzer.sh TARGET [ARGUMENT...] - fuzzes one target of targets.h with libFuzzer.
#
# To be run in the source folder, where clang is installed. Builds the library with
# the address and undefined-behaviour sanitizers in build-fuzz, once; inputs that
# were found are kept in build-fuzz/TARGET. The arguments are libFuzzer's, such as
# -runs=100000.

set -eu

target=$1
shift
clang=${CLANG:-clang}
flags="-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"
[ -d "tests/fuzz/seeds/$target" ] || {
    echo "libfuzzer.sh: no seeds for $target" >&2
    exit 2
}
if [ ! -f build-fuzz/Makefile ]; then
    mkdir -p build-fuzz
    (cd build-fuzz && ../configure -q --disable-shared --without-mpi --without-cli \
        CC="$clang" CFLAGS="$flags -fsanitize=fuzzer-no-link" LDFLAGS="$flags")
fi
make -s -C build-fuzz libyokeinternal.la
libs=$(sed -n 's/^\(OPENCL_LIBS\|CLBLAST_LIBS\|ZLIB_LIBS\|JANSSON_LIBS\|PNG_LIBS\|JPEG_LIBS\) = //p' build-fuzz/Makefile |
    tr '\n' ' ')
# shellcheck disable=SC2086 # words
$clang -std=c11 -D_GNU_SOURCE $flags -fsanitize=fuzzer "-DTARGET=fuzz_$target" -Ilib -Itests \
    tests/fuzz/libfuzzer.c tests/fuzz/parsers.c tests/data/fuzz_*.c \
    tools/config.c tools/fields.c tools/models.c tools/source.c \
    build-fuzz/.libs/libyokeinternal.a $libs -lm -lpthread -ldl -o "build-fuzz/fuzz_$target"
mkdir -p "build-fuzz/$target"
exec "build-fuzz/fuzz_$target" "$@" "build-fuzz/$target" "tests/fuzz/seeds/$target"

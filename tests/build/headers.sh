#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# headers.sh - the public headers in C and C++, by themselves, pedantically.
#
# With each compiler that is found (the one configured, gcc, clang and the C++
# ones), each public header compiles as C11 and C17, and as C++11, 14, 17 and 20
# where the compiler knows them; so does a C++ program that calls the library, and
# the C program in README.md.

set -eu

lib=$YOKE_SRCDIR/lib
warnings="-pedantic -Wall -Wextra -Wconversion -Wshadow -Werror"
status=0
count=0

# is_new COMPILER LANGUAGE: not one that was used by another name
used=
is_new() {
    version=$($1 --version 2>/dev/null | sed -n '1s/^[^ ]* //p')
    case "$used" in *"|$version $2|"*) return 1 ;; esac
    used="$used|$version $2|"
}

# knows COMPILER LANGUAGE STANDARD
knows() {
    echo 'int yoke;' | $1 -x "$2" -std="$3" -fsyntax-only - 2>/dev/null
}

# try COMPILER LANGUAGE STANDARD FILE [FLAGS]
try() {
    count=$((count + 1))
    # shellcheck disable=SC2086 # words
    if ! $1 -x "$2" -std="$3" $warnings -fsyntax-only -I "$lib" ${5:-} "$4"; then
        echo "$1 -std=$3 refuses $4"
        status=1
    fi
}

work=$YOKE_BUILDDIR/tests/build/headers.tmp
mkdir -p "$work"
headers=$(echo "$lib"/yoke*.h)
[ -z "${MPI_LIBS:-}" ] || headers="$headers $YOKE_SRCDIR/mpi/yoke-mpi.h"
# MPI's own headers are not held to our warnings.
system=$(echo " ${MPI_CFLAGS:-}" | sed 's/ -I/ -isystem /g')
for header in $headers; do
    # twice, and first of all: a header stands by itself
    name=${header##*/}
    printf '#include <%s>\n#include <%s>\nint yoke_user;\n' "$name" "$name" >"$work/$name.c"
done
awk '/^```/ { inside = $0 == "```c"; next } inside' "$YOKE_SRCDIR/README.md" >"$work/readme.c"
grep -q yoke_context_create "$work/readme.c" || {
    echo "README.md has no program"
    status=1
}

flags="-I $YOKE_SRCDIR/mpi $system"
for compiler in "$CC" gcc clang; do
    is_new "$compiler" c || continue
    for standard in c11 c17 c2x; do
        knows "$compiler" c $standard || continue
        for header in "$work"/*.c; do
            try "$compiler" c $standard "$header" "$flags"
        done
    done
done
rm "$work/readme.c"
for compiler in "${CXX:-c++}" g++ clang++; do
    is_new "$compiler" c++ || continue
    for standard in c++11 c++14 c++17 c++20; do
        knows "$compiler" c++ $standard || continue
        for header in "$work"/*.c; do
            try "$compiler" c++ $standard "$header" "$flags"
        done
        case $standard in
        c++11 | c++17) try "$compiler" c++ $standard "$YOKE_SRCDIR/tests/install/caller.cpp" ;;
        esac
    done
done

rm -rf "$work"
echo "$count compilations"
[ $count -gt 0 ] || exit 77
exit $status

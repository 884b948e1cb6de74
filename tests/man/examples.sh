#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# examples.sh - the examples of the manual are programs that work.
#
# Each .Bd block in the EXAMPLES of a page of section 3, and of yoke(7), and the program of README.md is
# compiled against yoke.h, linked with libyoke, and run where there is a driver.
# Every page of section 3 has one.

set -u

work=$YOKE_BUILDDIR/tests/man/examples.tmp
rm -rf "$work"
mkdir -p "$work"
cd "$YOKE_BUILDDIR" || exit
# Programs of Open MPI 5 do not start without a home, where they write nothing.
export HOME="$work"
failures=0
built=0
ran=0

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# Oclgrind interprets: the measurements would take minutes. It finds OpenCL by itself.
runs=yes
case ${LD_PRELOAD:-}${OCL_ICD_VENDORS:-} in
*oclgrind*) runs=no ;;
esac

for page in "$YOKE_SRCDIR"/man/*.3 "$YOKE_SRCDIR/man/yoke.7"; do
    name=$(basename "$page")
    awk -v stem="$work/$name" '
        $1 == ".Sh" { examples = $2 == "EXAMPLES" }
        examples && $1 == ".Ed" { close(file); file = "" }
        file != "" { gsub(/\\e/, "\\"); gsub(/\\&/, ""); print >file }
        examples && $1 == ".Bd" { file = stem "." ++count ".c" }
    ' "$page"
    [ -f "$work/$name.1.c" ] || fail "$name has no example"
done
awk '/^```/ { inside = $0 == "```c"; next } inside' "$YOKE_SRCDIR/README.md" >"$work/README.c"
mkdir "$work/examples"
ln -s "$YOKE_SRCDIR/examples/data" "$work/examples/data"

for source in "$work"/*.c; do
    [ -f "$source" ] || continue
    program=${source%.c}
    leaks=1
    flags=
    libraries=libyoke.la
    if grep -q yoke-mpi.h "$source"; then
        [ -n "${MPI_LIBS:-}" ] || continue
        flags="-I$YOKE_SRCDIR/mpi $MPI_CFLAGS"
        libraries="libyoke-mpi.la libyoke.la $MPI_LIBS"
        leaks=0 # MPI's own, in thousands of places
    fi
    # Through libtool, which knows what the library needs and how to run what is not installed.
    # shellcheck disable=SC2086 # words
    if ! ./libtool --quiet --tag=CC --mode=link $CC -std=c11 -pedantic -Wall -Wextra -Werror \
        -I"$YOKE_SRCDIR/lib" $flags $CFLAGS $LDFLAGS -o "$program" "$source" $libraries; then
        fail "${source##*/} does not build"
        continue
    fi
    built=$((built + 1))
    [ $runs = yes ] || continue
    if ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=$leaks \
        sh -c 'cd "$1" && "$2"' sh "$work" "$program" >"$work/output" 2>&1; then
        ran=$((ran + 1))
    elif grep -q 'no OpenCL' "$work/output"; then
        echo "no OpenCL driver, so nothing is run"
        runs=no
    else
        fail "${program##*/} fails"
        cat "$work/output"
    fi
done
echo "$built examples built, $ran run, $failures failures"
[ $failures -gt 0 ] || rm -rf "$work"
[ $failures -eq 0 ]

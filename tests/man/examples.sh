#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# examples.sh - the examples of the manual are programs that work.
#
# Each .Bd block in the EXAMPLES of a page of section 3, and of yoke(7), and the program of README.md is
# compiled against yoke.h, linked with libyoke, and run where there is a driver.
# Every page of section 3 has one. A table below tells what those print that train or compute.

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
tab=$(printf '\t')

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# ---- what is expected ----

# A program succeeds; a line here tells more of it. PROGRAM (page and number on the page, or README),
# a tab, and what it has to do: "says" a line like this; "least" or "most", a word and a
# number: the last number after that word is at least or at most so much; "learns" a number: the weights
# that it saves have at least this accuracy on the digits.
cat >"$work/expected" <<'END'
README	learns 88
yoke.7.1	says ^[1-9][0-9]* devices$
yoke.7.2	least accuracy 97
yoke.7.2	most loss 0.06
yoke_array.3.1	says ^\[3 3\]$
yoke_conv2d.3.1	says ^32 channels of 16 x 16$
yoke_dataset.3.1	says ^120 and 30$
yoke_graph.3.1	says ^total +7850 +15\.80 k$
yoke_graph.3.1	says ^add1: "fc1" has shape \(10\), "image" has shape \(1, 28, 28\)
yoke_mpi_comm.3.1	says ^rank 0 of 1, on .
yoke_operators.3.2	says ^cube1$
yoke_optimizer.3.1	says ^ 20  0\.0970$
yoke_optimizer.3.1	says ^100  0\.0000$
yoke_plan.3.1	says ^65760 operations$
yoke_replica.3.1	most loss 1e-6
yoke_replica.3.1	says slope (3|3\.000[0-9]*|2\.999[0-9]*)$
yoke_selection.3.1	says ^2 devices of 256 MiB$
yoke_team.3.1	says ^8 and 2$
yoke_tokenizer.3.1	says ^4 tokens, the first is 111$
yoke_trainer.3.1	most loss 1e-6
yoke_trainer.3.1	says slope (3|3\.000[0-9]*|2\.999[0-9]*)$
yoke_zoo.3.1	says ^lenet +129068 parameters$
END

# last_number WORD: of what the program has written
last_number() {
    sed -n "s/.*$1 *\([0-9.][0-9.e+-]*\).*/\1/p" "$work/output" | tail -n 1
}

# judge NAME KIND REST: what the program has written is compared with a line of the table
judge() {
    case $2 in
    says)
        grep -q -E -e "$3" "$work/output" && return
        fail "$1: no line with $3"
        ;;
    least | most)
        got=$(last_number "${3% *}")
        [ -n "$got" ] && awk "BEGIN { exit !($got $([ "$2" = least ] && echo '>=' || echo '<=') ${3#* }) }" &&
            return
        fail "$1: ${3% *} is ${got:-missing}, must be at $2 ${3#* }"
        ;;
    learns)
        [ -x "$YOKE_BUILDDIR/tools/yoke" ] || return 0
        (cd "$work" && "$YOKE_BUILDDIR/tools/yoke" eval --data=examples/data digits.safetensors) \
            >"$work/output" 2>&1
        got=$(sed -n 's/^accuracy \([0-9.]*\) .*/\1/p' "$work/output")
        [ -n "$got" ] && awk "BEGIN { exit !($got >= $3) }" && return
        fail "$1: its weights have an accuracy of ${got:-nothing}, must reach $3"
        ;;
    *) fail "the table expects '$2', which is nothing" ;;
    esac
    cat "$work/output"
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

cut -f 1 "$work/expected" | sort -u | while read -r program; do
    [ -f "$work/$program.c" ] || echo "$program"
done >"$work/stale"
[ ! -s "$work/stale" ] || fail "in the table above, but in no page: $(cat "$work/stale")"

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
        name=${program##*/}
        while IFS=$tab read -r of kind; do
            [ "$of" != "$name" ] || judge "$name" "${kind%% *}" "${kind#* }"
        done <"$work/expected"
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

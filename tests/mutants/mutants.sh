#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mutants.sh - whether the tests would see it: the library with one fault at a time.
#
# `make check-mutants` runs it in the build folder; MUTANTS="WORD..." picks those whose
# names contain one of the words. For each fault it prints the test that failed; a fault
# that no test sees, a "survivor", is a failure of the tests.
#
# Idea: a fault is one replacement in one file. A C file is compiled by itself and linked
# before the convenience library, so the rest of the tree is used as it is; a kernel file
# goes into a copy of clkernels/ that YOKE_CL_DIR names. Each program passes first without
# a fault, or the fault is skipped (Rusticl is not installed, say).
#
# From make: MUTANT_CC (compiler with all its options), MUTANT_LINK (libtool's link mode),
# MUTANT_LIBS. Programs and objects have to be built.

set -u

work=$PWD/tests/mutants/work
limit=${YOKE_MUTANT_TIMEOUT:-100} # seconds; a hang is seen, too
wanted="$*"
survivors=0
caught=0
skipped=0

rm -rf "$work"
mkdir -p "$work/cl" || exit

# passes PROGRAM CASE [NAME=VALUE]: what a run leaves is in $work/log
passes() {
    chosen=
    [ -n "$2" ] && chosen="CK_RUN_CASE=$2"
    # shellcheck disable=SC2086 # words
    timeout -k 5 "$limit" env $chosen ${3:-} "$1" >"$work/log" 2>&1 </dev/null
}

# sound PROGRAM CASE: passes without a fault, and is not skipped; asked once
sound() {
    key=$work/sound.$(echo "$1.$2" | tr '/ ' __)
    if [ ! -f "$key" ]; then
        if ! passes "./$1" "$2"; then
            echo "broken" >"$key"
        elif grep -q '^ok' "$work/log" && ! grep -v SKIP "$work/log" | grep -q '^ok'; then
            echo "not here" >"$key"
        else
            echo "sound" >"$key"
        fi
    fi
    state=$(cat "$key")
    [ "$state" = sound ]
}

# build FILE PROGRAM: the program with this object in front of the library
build() {
    objects=$2.o
    case $2 in
    *check_team* | *check_classes | *check_comm | *check_fit | *check_core_groups | *check_capacity | \
        *check_any_split | *check_granules | *check_recheck | *check_shards | *check_memory | *check_landing | \
        *check_pipeline | *check_stages | *check_small_state | *check_loss_scale | *check_divided)
        objects="$objects tests/train/runs.o"
        ;;
    tests/plan/check_fusion) objects="$objects tests/plan/fusing.o" ;;
    tests/gpu/check_budgets) objects="$objects tests/gpu/open_null.o tools/models.o" ;;
    tests/gpu/*) objects="$objects tests/gpu/open_null.o" ;;
    esac
    # A fault may leave something unused: that is no way to be caught.
    # shellcheck disable=SC2086 # words
    $MUTANT_CC -I"$YOKE_SRCDIR/$(dirname "$1")" -Wno-error -w -c "$work/mutant.c" \
        -o "$work/mutant.o" &&
        $MUTANT_LINK -o "$work/program" $objects "$work/mutant.o" $MUTANT_LIBS
}

# mutant NAME FILE OLD NEW PROGRAM [CASE]: OLD is text that is in FILE once
mutant() {
    name=$1 file=$2 program=$5 case=${6:-} setting=
    if [ -n "$wanted" ]; then
        for word in $wanted; do case $name in *"$word"*) word=; break ;; esac; done
        [ -z "$word" ] || return
    fi
    if ! OLD=$3 NEW=$4 perl -0777 -ne '
        my $at = index($_, $ENV{OLD});
        die "not there\n" if $at < 0;
        die "there twice\n" if index($_, $ENV{OLD}, $at + 1) >= 0;
        substr($_, $at, length $ENV{OLD}) = $ENV{NEW};
        print;' "$YOKE_SRCDIR/$file" >"$work/mutant.c" 2>"$work/log"; then
        echo "mutants: $name: FAILED, what it replaces in $file is $(cat "$work/log")"
        survivors=$((survivors + 1))
        return
    fi
    if ! sound "$program" "$case"; then
        echo "mutants: $name: skipped, $program${case:+ $case} is $state without it"
        skipped=$((skipped + 1))
        [ "$state" != broken ] || survivors=$((survivors + 1))
        return
    fi
    case $file in
    *.cl)
        rm -rf "$work/cl"
        mkdir "$work/cl"
        cp "$YOKE_SRCDIR"/clkernels/*.cl "$work/cl"
        cp "$work/mutant.c" "$work/cl/${file##*/}"
        setting=YOKE_CL_DIR=$work/cl
        run=./$program
        ;;
    *)
        if ! build "$file" "$program" >"$work/log" 2>&1; then
            echo "mutants: $name: FAILED, it does not compile"
            cat "$work/log"
            survivors=$((survivors + 1))
            return
        fi
        run=$work/program
        ;;
    esac
    passes "$run" "$case" "$setting"
    status=$?
    if [ $status -eq 0 ]; then
        echo "mutants: $name: SURVIVES $program${case:+ $case}"
        survivors=$((survivors + 1))
        return
    fi
    caught=$((caught + 1))
    test=$(sed -n 's/^not ok [0-9]* - [^:]*:\([^:]*:[^:]*\):.*/\1/p' "$work/log" | head -n 1)
    [ $status -ne 124 ] || test=${test:-it hangs}
    echo "mutants: $name: caught by $program, ${test:-exit status $status}"
}

. "$YOKE_SRCDIR/tests/mutants/list.sh"

echo "mutants: $caught caught, $survivors survive, $skipped skipped"
rm -rf "$work"
[ $survivors -eq 0 ] && { [ $skipped -eq 0 ] || [ "${YOKE_REQUIRE_ALL:-0}" != 1 ]; }

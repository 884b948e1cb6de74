# SPDX-License-Identifier: Apache-2.0
#
# lib.sh - for the scripts of tests/mpi: starting ranks with any MPI's launcher.

work=$YOKE_BUILDDIR/tests/mpi/${0##*/}.tmp
failures=0
mkdir -p "$work"

# use_program FILE: by a name of this script's own, so that `orphans` sees none of those that
# another script has started from the same file at the same time.
use_program() {
    program=$work/${1##*/}
    ln -sf "$1" "$program"
}
use_program "$YOKE_BUILDDIR/tests/mpi/ranks"

. "$YOKE_SRCDIR/tests/support/launcher.sh"
# The limits of a test are its own.
unset YOKE_MPI_WARN YOKE_MPI_TIMEOUT YOKE_MPI_MODE YOKE_MPI_CHUNK YOKE_MPI_SINGLE
unset OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_NTASKS SLURM_STEP_NUM_TASKS

skip() {
    echo "$1"
    [ "${YOKE_REQUIRE_ALL:-0}" != 1 ] || exit 1
    exit 77
}

if [ -z "${MPIRUN:-}" ] || ! command -v "$MPIRUN" >/dev/null; then
    skip "there is no mpirun"
fi
# Without it no process that is left over would be seen.
command -v pgrep >/dev/null || skip "there is no pgrep"
flavour=mpich
if "$MPIRUN" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE'; then
    flavour=openmpi
fi

# What failed stands behind the output: of a long log the end is shown.
fail() {
    failures=$((failures + 1))
    [ ! -f "$work/output" ] || sed 's/^/    /' "$work/output" | head -n 30
    echo "FAIL: $*"
}

# launch N ARGUMENT...: output in $work/output; returns mpirun's status, 124 if it hangs. In seconds:
# $took in all, $late from the strike to the end, $noticed from the strike until a rank knew (- if
# not so). The limit only ends what hangs: a busy machine does not come near it.
launch_limit=600
launch() {
    launch_ranks=$1
    shift
    rm -f "$work/struck" "$work/struck.noticed" "$work/struck.said"
    launch_start=$(date +%s.%N)
    # Ranks write there themselves: Open MPI 5 has lost what they said last (docs/drivers.md).
    : >"$work/output"
    # shellcheck disable=SC2016 # for the shell of a rank
    RANKS_WRITE=$work/output STRIKE_FILE=$work/struck timeout -k 5 $launch_limit "$MPIRUN" -n "$launch_ranks" \
        sh -c 'exec "$0" "$@" >>"$RANKS_WRITE" 2>&1' "$program" "$@" >>"$work/output" 2>&1 </dev/null
    launch_status=$?
    launch_end=$(date +%s.%N)
    [ ! -f "$work/struck.said" ] || cat "$work/struck.said" >>"$work/output"
    took=$(seconds "$launch_start" "$launch_end")
    struck=$(cat "$work/struck" 2>/dev/null)
    late=$(seconds "$struck" "$launch_end")
    noticed=$(seconds "$struck" "$(cat "$work/struck.noticed" 2>/dev/null)")
    return $launch_status
}

# seconds FROM TO: with two digits; - where one of them is not known
seconds() {
    awk -v a="$1" -v b="$2" 'BEGIN { if (a == "" || b == "") print "-"; else printf "%.2f", b - a }'
}

# is_within NUMBER LIMIT: it is a number, and no larger
is_within() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 == a && a <= b) }'
}

all_well() {
    [ "$(grep -c '^rank [0-9]*: .* ok$' "$work/output")" = "$1" ]
}

# On a busy machine Open MPI's mpirun may see the exit of a rank before its MPI_Finalize, which it
# then takes for a death. What is so by chance is not so twice.
launch_unless_late() {
    launch "$@" && return
    if ! grep -q 'exited without calling "finalize"' "$work/output" || ! all_well "$1"; then
        return $launch_status
    fi
    echo "SLOW: -n $*: mpirun was late and took the end of a rank for its death; once more"
    launch "$@"
}

# expect N ARGUMENT...: all ranks say that they are well
expect() {
    if ! launch_unless_late "$@"; then
        fail "-n $*: exit $launch_status after $took s"
    elif ! all_well "$1"; then
        fail "-n $*: not all ranks came through"
    fi
}

# says PATTERN: the newest launch
says() {
    grep -qE "$1" "$work/output" || fail "${what:+$what: }does not say \"$1\""
}

# wait_until COMMAND...: while $launcher runs; the limit ends what hangs. False: it never was so
wait_until() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -le $((10 * launch_limit)) ] || return 1
        kill -0 $launcher 2>/dev/null || return 1
        sleep 0.1
    done
}

# Processes of $program that are left; the launcher may still be ending them.
orphans() {
    tries=0
    while pgrep -f "^$program " >/dev/null && [ $tries -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    pgrep -f "^$program " || true
}

# Only what is under test: each rank may make drivers and threads of its own.
only_pocl() {
    pocl=
    for file in "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}"/pocl*.icd /etc/OpenCL/vendors/pocl*.icd; do
        [ ! -f "$file" ] || pocl=$file
    done
    [ -n "$pocl" ] || skip "there is no PoCL"
    vendors=$work/vendors
    mkdir -p "$vendors"
    cp "$pocl" "$vendors"
    export OCL_ICD_VENDORS="$vendors"
    unset YOKE_DEVICES YOKE_VISIBLE_DEVICES
}

# And Rusticl beside it; false: there is none.
add_rusticl() {
    rusticl=
    for file in /etc/OpenCL/vendors/rusticl*.icd; do
        [ ! -f "$file" ] || rusticl=$file
    done
    if [ -z "$rusticl" ]; then
        [ "${YOKE_REQUIRE_ALL:-0}" != 1 ] || fail "Rusticl is not installed"
        return 1
    fi
    cp "$rusticl" "$vendors"
    export RUSTICL_ENABLE=llvmpipe
}

remove_rusticl() {
    rm "$vendors/${rusticl##*/}"
    unset RUSTICL_ENABLE
}

# The ranks are the yoke command from here on.
use_command() {
    . "$YOKE_SRCDIR/tests/support/command.sh"
    program=$yoke
    [ -x "$program" ] || skip "the yoke command was not built"
    [ -f "$YOKE_BUILDDIR/tools/.libs/yoke-mpi.so" ] || skip "the yoke command was built without MPI"
    only_pocl
}

# hash RANKS OPTION...: of the weights that `yoke train $trained OPTION...` makes, into $hash
hash() {
    ranks=$1
    shift
    # shellcheck disable=SC2086,SC2154 # words; a script sets them
    launch "$ranks" train $trained "$@" || fail "$ranks ranks, $*: exit $launch_status"
    hash=$(sed -n 's/^weights //p' "$work/output")
    [ "$(printf %s "$hash" | wc -c)" = 32 ] || fail "$ranks ranks, $*: no hash of the weights"
}

# same RANKS OPTION...: the hash is that of $expected
same() {
    hash "$@"
    shift
    # shellcheck disable=SC2154 # likewise
    [ "$hash" = "$expected" ] || fail "$ranks ranks, $*: the weights have other bits"
}

# difference FILE FILE: max|a-b| / max|a|
difference() {
    paste "$1" "$2" | awk '
        NF != 2 || $1 !~ /^-?[0-9]/ || $2 !~ /^-?[0-9]/ { bad = 1; next }
        { d = $1 - $2; d = d < 0 ? -d : d; a = $1 < 0 ? -$1 : $1 }
        d > most { most = d }
        a > largest { largest = a }
        END { if (bad || NR < 100 || largest == 0) print "nan"; else print most / largest }'
}

# The watchdog's time in tests of a rank that stops; it waits most of the time, so such tests run
# side by side, and beside the rest of a script.
watchful() {
    export YOKE_MPI_TIMEOUT=30 YOKE_MPI_WARN=3
}

# expected_within WHAT NUMBER LIMIT: what an idle machine does in that many seconds. A busy one may
# take longer, which is said, by how much, and is no failure.
expected_within() {
    is_within "$2" "$3" ||
        awk -v w="$1" -v a="$2" -v b="$3" \
            'BEGIN { printf "SLOW: %s after %s s, %s s on an idle machine: %.2f s too late\n", w, a, b, a - b }'
}

# lost WHO ENDS N ARGUMENT...: rank WHO is struck. mpirun ends with a failure by itself: without
# the watchdog, whose time is then longer than a launch may take (ENDS = soon), or because the
# watchdog has noticed it (ENDS = noticed). Under Open MPI by then it is over, too; its mpirun
# continues a stopped process, which then goes by itself; Hydra does not. Nobody names another rank (a
# line that begins with the program's name), and no process is left. With ENDS = unsaid the launcher may
# take it for a success.
lost() {
    who=$1
    ends=$2
    shift 2
    watch=$YOKE_MPI_TIMEOUT
    [ "$ends" = noticed ] || YOKE_MPI_TIMEOUT=$((2 * launch_limit))
    if launch "$@" && [ "$ends" != unsaid ]; then
        fail "-n $*: rank $who is lost, and mpirun says that all is well"
    fi
    YOKE_MPI_TIMEOUT=$watch
    echo "-n $*: noticed after $noticed s, over after $late s"
    if ! is_within "$took" $launch_limit; then
        fail "-n $*: hangs: not over after $launch_limit s"
    elif [ "$ends" != noticed ]; then
        expected_within "-n $*: over" "$late" 5
    elif [ "$noticed" = - ]; then
        fail "-n $*: no rank has noticed it"
    else
        expected_within "-n $*: noticed" "$noticed" $((watch * 105 / 100))
        expected_within "-n $*: over" "$late" $((watch * 110 / 100 + 5))
    fi
    left=$(orphans)
    [ -z "$left" ] || fail "-n $*: left processes: $left"
    own=${program##*/}
    # Ours, then mpirun's own of a process that died; hydra knows no ranks.
    [ "$ends" = unsaid ] ||
        grep -qE "^$own: .*rank $who (\\(|of)|process rank $who with PID|BAD TERMINATION" "$work/output" ||
        fail "-n $*: nobody names rank $who"
    others=$(grep -a "^$own: " "$work/output" | grep -oE '\<ranks? [0-9]+' | grep -vE " $who\$")
    [ -z "$others" ] || fail "-n $*: names $others"
}

# all_say_fault SHARES RANKS WHO WHAT WHERE SENTENCE: in the second step of tests/mpi/train something of rank
# WHO fails, a call or a device; each rank tells it by a sentence, and none is left
all_say_fault() {
    ranks=$2 who=$3 sentence=$6
    what="$4 of rank $3 in the $5"
    ! launch "$ranks" "$work/weights" 0 24 "$1" "$who" "$4" "$5" || fail "$what: mpirun says that all is well"
    expected_within "$what: over" "$late" 5
    [ "$(wc -l <"$work/struck.said")" = "$ranks" ] || fail "$what: not a sentence of each rank"
    for rank in $(seq 0 $((ranks - 1))); do
        from='' status='[^:]*'
        [ "$rank" = "$who" ] || from="rank $who \\([^)]*\\): " status='communication between processes failed'
        grep -qE "^train: rank $rank, $status: (step 2, device [^ ]*: )?${from}step 2, device [^ ]*: $sentence" \
            "$work/struck.said" || fail "$what: rank $rank tells something else"
    done
    left=$(orphans)
    [ -z "$left" ] || fail "$what: left processes: $left"
}

# Hydra takes a rank that leaves for a success, now and then, and ends the others at once.
exit_ends=soon
[ $flavour = openmpi ] || exit_ends=unsaid

# aside COMMAND...: beside the others, in a folder of its own and by a name of its own
asides=0
aside() {
    asides=$((asides + 1))
    (
        work=$work/aside-$asides
        rm -rf "$work"
        mkdir -p "$work"
        ln -s "$program" "$work/${program##*/}"
        program=$work/${program##*/}
        own_memory
        failures=0
        "$@" >"$work/log" 2>&1
        echo $failures >"$work/failures"
    ) &
    # mpirun's start is what takes the processors
    sleep 0.2
}

# Waits for all of them.
together() {
    wait
    while [ $asides -gt 0 ]; do
        cat "$work/aside-$asides/log"
        failures=$((failures + $(cat "$work/aside-$asides/failures" 2>/dev/null || echo 1)))
        asides=$((asides - 1))
    done
}

finish() {
    [ $failures -gt 0 ] || rm -rf "$work"
    [ $failures -eq 0 ]
    exit
}

# SPDX-License-Identifier: Apache-2.0
#
# lib.sh - for the scripts that test the yoke command: run it, look at what it
# wrote, count what went wrong. Sourced; `finish` gives the exit status.

set -u

. "$YOKE_SRCDIR/tests/support/command.sh"
# A script that sets `kind` first has a folder of its own beside that of its other runs.
pick=$YOKE_BUILDDIR/tests/tools/jsonpick
work=$YOKE_BUILDDIR/tests/tools/$(basename "$0" .sh)${kind:+-$kind}.tmp
out=$work/out
err=$work/err
checks=0
failures=0
skips=0

rm -rf "$work"
mkdir -p "$work"

fail() {
    failures=$((failures + 1))
    echo "FAIL: $what: $*"
    echo "  standard output:" && sed 's/^/    /' "$out"
    echo "  standard error:" && sed 's/^/    /' "$err"
}

skip() {
    skips=$((skips + 1))
    echo "SKIP: $*"
}

# expect STATUS [NAME=VALUE]... -- ARGUMENT...: runs yoke with these settings and arguments
expect() {
    expected=$1
    shift
    settings=
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    what="$settings yoke $*"
    checks=$((checks + 1))
    # shellcheck disable=SC2086 # settings are words
    env $settings "$yoke" "$@" >"$out" 2>"$err" </dev/null
    status=$?
    [ "$status" = "$expected" ] || fail "exit status $status instead of $expected"
}

# says FILE PATTERN / lacks FILE PATTERN: a line that fits the extended expression
says() {
    checks=$((checks + 1))
    grep -q -E -e "$2" "$1" || fail "no line with: $2"
}

lacks() {
    checks=$((checks + 1))
    ! grep -q -E -e "$2" "$1" || fail "a line with: $2"
}

empty() {
    checks=$((checks + 1))
    [ ! -s "$1" ] || fail "${1##*/} is not empty"
}

# json PATH VALUE: standard output is JSON and has this there
json() {
    checks=$((checks + 1))
    value=$("$pick" "$1" <"$out" 2>&1) || fail "$value"
    [ "$value" = "$2" ] || fail "$1 is '$value' instead of '$2'"
}

# xml FILE: it is well-formed, as far as a program is there that can tell
xml() {
    checks=$((checks + 1))
    if command -v xmllint >/dev/null; then
        xmllint --noout "$1" 2>"$err" || fail "${1##*/} is no XML"
    fi
}

# usable NAME=VALUE...: whether these drivers have a device
usable() {
    env "$@" "$yoke" devices --all >"$out" 2>"$err" </dev/null
}

# take_pocl: what follows runs on PoCL alone; without it, or on Oclgrind, the script ends here
take_pocl() {
    unset OCL_ICD_FILENAMES POCL_DEVICES
    case ${LD_PRELOAD:-}${OCL_ICD_VENDORS:-} in
    *oclgrind*) finish ;;
    esac
    export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
    "$yoke" devices cpu:0 >"$out" 2>"$err" || {
        skip "no PoCL"
        finish
    }
}

finish() {
    echo "$checks checks, $failures failed, $skips skipped"
    [ $failures -gt 0 ] || rm -rf "$work"
    if [ $failures -gt 0 ] || { [ $skips -gt 0 ] && [ "${YOKE_REQUIRE_ALL:-0}" = 1 ]; }; then
        exit 1
    fi
    [ $skips -eq 0 ] || exit 77
    exit 0
}

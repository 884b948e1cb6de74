#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage.sh - how the yoke command answers to being called rightly and wrongly.
# Needs no device.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

expect 0 -- --version
says "$out" '^yoke [0-9]+\.[0-9]+\.[0-9]+$'
empty "$err"

# The commands that --help lists; those of bench as bench_NAME.
commands() {
    "$yoke" "$@" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z0-9]*\) .*/\1/p'
}
all=$(commands)
checks=$((checks + 1))
[ "$(echo "$all" | wc -l)" -gt 5 ] || fail "lists hardly any command"
measures=$(commands bench | sed 's/^/bench_/')
checks=$((checks + 1))
[ "$(echo "$measures" | wc -l)" -gt 5 ] || fail "lists hardly any measurement"

for command in '' $all bench_devices; do
    command=$(echo "$command" | tr _ ' ')
    # shellcheck disable=SC2086 # words
    expect 0 -- $command --help
    says "$out" "^Usage: yoke $command"
    says "$out" '^  -h, --help +[a-z]'
    empty "$err"
    # shellcheck disable=SC2086
    expect 0 -- $command -h
    says "$out" "^Usage: yoke $command"
    # shellcheck disable=SC2086
    expect 2 -- $command --no-such-option
    says "$err" "^yoke: .*\"--no-such-option\""
    says "$err" "^Try \"yoke( $command)? --help\""
    empty "$out"
    # shellcheck disable=SC2086
    expect 2 -- $command -Q
    says "$err" "\"-Q\""
done

# "man yoke" shows the command's page; the tour has a section of its own.
expect 0 -- --help
says "$out" '^"man 7 yoke" a tour'

# Each has an example, with options that it takes.
for command in $all $measures; do
    command=$(echo "$command" | tr _ ' ')
    # shellcheck disable=SC2086 # words
    expect 0 -- $command --help
    says "$out" "^  yoke $command "
    example=$(sed -n '/^Example:/,$s/^  yoke //p' "$out")
    # shellcheck disable=SC2086
    expect 0 -- $example --help
done

# Options of a command are its own: what stands behind its name is not yoke's.
expect 2 -- devices --version

expect 2 -- train --strict=3
says "$err" "\"--strict=3\" takes no argument"
expect 2 -- train --batch
says "$err" "\"--batch\" needs an argument"
expect 2 -- train --strit
says "$err" "\"--strit\" is unknown; did you mean"

expect 2 --
says "$err" 'no command is given'
expect 2 -- bench
says "$err" '^yoke: bench: no command is given'
expect 2 -- nonsense
says "$err" '"nonsense"'
expect 2 -- bench nonsense
says "$err" '"nonsense"'

expect 2 -- devices cpu gpu
says "$err" 'one selector \(a list has commas\) at a time$'
expect 2 -- devices --all cpu
expect 2 -- devices --json=yes
says "$err" '"--json=yes"'

for repeats in 0 -1 x 3x '' 99999999999999999999 10001; do
    expect 2 -- bench devices --repeats="$repeats"
    says "$err" "--repeats is \"?$repeats\"?; must be (a whole number )?between 1 and 10000\$"
done
expect 2 -- bench devices --repeats
says "$err" '"--repeats" needs'
expect 2 -- bench devices -n
says "$err" '"-n" needs'
expect 2 -- bench devices cpu gpu

expect 2 -- tune
says "$err" 'no model is given'
expect 2 -- tune nonsense
says "$err" 'no model "nonsense"'
expect 2 -- tune mlp lenet
says "$err" "one model"
for batch in 0 -1 x 2000000; do
    expect 2 -- tune --batch="$batch" mlp
    says "$err" "--batch is \"?$batch\"?; must be (a whole number )?between 1 and 1048576\$"
done
for level in estimate fast ''; do
    expect 2 -- tune --level="$level" mlp
    says "$err" "--level is \"$level\"; must be measure or patient"
done

finish

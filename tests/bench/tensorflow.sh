#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tensorflow.sh - training beside TensorFlow's: the program of its tutorial, a MirroredStrategy of
# two logical CPUs, beside yoke on two parts of the CPU; and plain Keras beside yoke on one device.
# The table goes into BENCHMARKS.md. `make bench-tensorflow` runs it; it judges nothing.
#
#   tensorflow.sh [measure | report]    both, unless one is named
#
#   CASES      "MODEL:BATCH:DEVICES..."
#   PYTHON, PEERS_INSTALL, ROUNDS (5), SECONDS_EACH, SAMPLES as for peers.sh

. "${YOKE_SRCDIR:?}/tests/bench/lib.sh"

rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-1}
cases=${CASES:-mlp:256:2 simplecnn:256:2 mlp:256:1 simplecnn:256:1}

measure_case() {
    DEVICES=cpu:0/2
    [ "$3" = 2 ] || DEVICES=cpu:0
    step=$(bench "$1" "$2" step_ms)
    ask tensorflow "$1" "$2" "$seconds" "$3"
    while read -r what value; do
        [ "$what" = version ] && echo "version $value" || echo "$1 $2 $3 $step $value"
    done <"$raw" >>"$samples"
}

measure() {
    peer tensorflow
    for round in $(seq "$rounds"); do
        for case in $cases; do
            echo "round $round: $case" >&2
            # shellcheck disable=SC2046 # words
            measure_case $(echo "$case" | tr : ' ')
        done
    done
}

# One line a case: model batch devices, yoke's median least greatest, TensorFlow's three, the ratio
# of the medians and its least and greatest over rounds, the rounds.
summarize() {
    "$awk" "$statistics"'
        $1 == "version" { next }
        {
            id = $1 " " $2 " " $3
            if (!(id in runs)) order[++cases] = id
            runs[id]++
            ours[id] = ours[id] " " $4; theirs[id] = theirs[id] " " $5; ratios[id] = ratios[id] " " $5 / $4
        }
        END {
            for (c = 1; c <= cases; c++) {
                id = order[c]
                a = median(ours[id]); printf "%s %s %s %s", id, a, low, high
                b = median(theirs[id]); printf " %s %s %s", b, low, high
                median(ratios[id]); printf " %s %s %s %d\n", b / a, low, high, runs[id]
            }
        }' "$samples"
}

table() {
    echo
    "$awk" '$1 == "version" { printf "TensorFlow %s. ", $2; exit }' "$samples"
    conditions "$("$awk" '{ print $13; exit }' "$work/summary")"
    cat <<'END'
Least and greatest in brackets; times are the ratio of the medians, and of single rounds.

| model, batch | on | yoke, ms | TensorFlow, ms | times TensorFlow | goal |
| --- | --- | --- | --- | --- | --- |
END
    "$awk" "$statistics"'{
        wanted = $3 == 1 && $1 == "simplecnn" ? 3 : 0
        printf "| %s %s | %s | %s (%s-%s) | %s (%s-%s) | **%.1f** (%.1f-%.1f) | %s |\n", $1, $2,
            ($3 == 1 ? "one CPU" : "two parts, MirroredStrategy"), digits($4), digits($5), digits($6),
            digits($7), digits($8), digits($9), $10, $11, $12,
            (!wanted ? "" : wanted ($10 >= wanted ? "" : ", missed")) }' "$work/summary"
    echo
}

plot=none
main "$@"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# busy.sh [RUNS] - all tests, again and again (10 times), on a machine that has something else to do.
#
# Two loops take a processor each while `make check` runs, so a test that fails when it is kept
# waiting is found here and not by a user. Each run says what came of it. The logs of the tests
# that failed are in busy/RUN of the build folder, which is where this starts.

set -u
runs=${1:-10}
loops=()
failed=0
rm -rf busy
mkdir busy
trap 'kill "${loops[@]}"' EXIT
trap 'exit 1' TERM INT HUP
for _ in 1 2; do
    while :; do :; done &
    loops+=($!)
done
for ((run = 1; run <= runs; run++)); do
    start=$SECONDS
    ${MAKE:-make} check >busy/$run.log 2>&1 && result=passed || result=failed
    echo "run $run: $result after $((SECONDS - start)) s: $(sed -n 's/^# \([A-Z]*: *[0-9]*\)$/\1/p' busy/$run.log | tr -s ' ' | paste -sd,)"
    [ "$result" = failed ] || continue
    failed=$((failed + 1))
    mkdir busy/$run
    grep -lE '^:test-result: (FAIL|ERROR|XPASS)' tests/*/*.trs | while read -r trs; do
        cp "$trs" "${trs%.trs}.log" busy/$run
    done
    grep -E '^(FAIL|ERROR|XPASS):' busy/$run.log
done
echo "$((runs - failed)) of $runs runs passed"
[ $failed = 0 ]

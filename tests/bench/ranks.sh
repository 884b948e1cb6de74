#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ranks.sh - two parts of a CPU, and two processes, beside PyTorch's DistributedDataParallel (two
# processes of one thread, gloo): equal ones, and of which one is three times as slow. The table
# goes into BENCHMARKS.md. `make bench-ranks` runs it; it judges nothing.
#
#   ranks.sh [measure | report]    both, unless one is named
#
#   CASES      "MODEL:BATCH..."
#   PYTHON, PEERS_INSTALL, ROUNDS (3), SECONDS_EACH, SAMPLES as for peers.sh
#
# yoke runs on PoCL alone. The fault layer makes the launches of its slow part longer; in the slow
# process of PyTorch gradients are computed three times.

. "${YOKE_SRCDIR:?}/tests/bench/lib.sh"

rounds=${ROUNDS:-3}
seconds=${SECONDS_EACH:-3}
cases=${CASES:-simplecnn:256 resnet18:64}
layer=$YOKE_BUILDDIR/tests/faults/.libs/faultlayer.so

# note LABEL: a measurement of yoke's, with LAUNCHER, DEVICES and OPTIONS
note() {
    value=$(bench "$model_of" "$batch_of" step_ms)
    echo "$model_of $batch_of $1 $value" >>"$samples"
}

measure_yoke() {
    DEVICES=cpu:0 note whole
    DEVICES=cpu:0/2 OPTIONS=--shares=even note parts
    slow="env OPENCL_LAYERS=$layer YOKE_SLOW=cpu:0/2.1:3:1"
    for shares in even auto; do
        LAUNCHER=$slow DEVICES=cpu:0/2 OPTIONS=--shares=$shares note "slow-$shares"
    done
    [ -n "${MPIRUN:-}" ] || return 0
    # PoCL makes a thread for each core of the machine, whatever it is bound to: here one.
    two="$MPIRUN -n 2 --bind-to core -x POCL_MAX_PTHREAD_COUNT=1"
    LAUNCHER=$two OPTIONS=--shares=even note ranks
}

measure_peer() {
    settings=
    for layout in default channels_last; do
        settings="$settings 1+1,$layout,eager,float32 1+1x3,$layout,eager,float32"
    done
    # shellcheck disable=SC2086 # words
    ask torch "$model_of" "$batch_of" "$seconds" $settings
    while read -r setting value; do
        echo "$model_of $batch_of $setting $value"
    done <"$raw" >>"$samples"
}

measure() {
    peer torch
    . "$srcdir/tests/support/launcher.sh"
    unset OMPI_MCA_hwloc_base_binding_policy PRTE_MCA_hwloc_default_binding_policy
    mkdir -p "$work/vendors"
    cp /etc/OpenCL/vendors/pocl*.icd "$work/vendors"
    export OCL_ICD_VENDORS="$work/vendors"
    for round in $(seq "$rounds"); do
        for case in $cases; do
            echo "round $round: $case" >&2
            model_of=${case%:*} batch_of=${case#*:}
            measure_yoke
            measure_peer
        done
    done
}

# One line a case and label: model batch label median least greatest runs. PyTorch's are ddp and
# ddp-slow, of its faster layout.
summarize() {
    "$awk" "$statistics"'
        $3 == "version" { next }
        {
            id = $1 " " $2
            if (!(id in seen)) { seen[id] = 1; order[++cases] = id }
            times[id, $3] = times[id, $3] " " $4
        }
        function show(id, label, list,    m, words) {
            m = median(list)
            print id, label, m, low, high, split(list, words, " ")
        }
        function faster(id, threads,    a, b) {
            a = times[id, threads ",default,eager,float32"]
            b = times[id, threads ",channels_last,eager,float32"]
            return b == "" || median(a) <= median(b) ? a : b
        }
        END {
            labels = split("whole parts ranks slow-even slow-auto", label, " ")
            for (c = 1; c <= cases; c++) {
                id = order[c]
                for (i = 1; i <= labels; i++)
                    if ((id, label[i]) in times) show(id, label[i], times[id, label[i]])
                show(id, "ddp", faster(id, "1+1"))
                show(id, "ddp-slow", faster(id, "1+1x3"))
            }
        }' "$samples"
}

table() {
    echo
    "$awk" '$3 == "version" {
        printf "PyTorch %s, two processes of one thread, gloo, eager mode, its faster layout.\n", $4; exit }' "$samples"
    conditions "$("$awk" '{ print $7; exit }' "$work/summary")"
    cat <<'END'
Milliseconds a step, least and greatest in brackets; in bold how many times as fast as PyTorch yoke is.
END
    for kind in equal slow; do
        echo
        if [ $kind = equal ]; then
            echo '| equal | one device | two parts | two processes | PyTorch |'
            echo '| --- | --- | --- | --- | --- |'
            labels='whole parts ranks ddp'
        else
            echo '| one three times as slow | two parts, even shares | two parts, shares by speed | PyTorch |'
            echo '| --- | --- | --- | --- |'
            labels='slow-even slow-auto ddp-slow'
        fi
        "$awk" -v labels="$labels" "$statistics"'
            {
                id = $1 " " $2
                if (!(id in seen)) { seen[id] = 1; order[++cases] = id }
                ms[id, $3] = $4
                text[id, $3] = digits($4) " (" digits($5) "-" digits($6) ")"
            }
            END {
                n = split(labels, label, " ")
                for (c = 1; c <= cases; c++) {
                    id = order[c]
                    printf "| %s", id
                    for (i = 1; i <= n; i++) {
                        printf " | %s", text[id, label[i]]
                        if (i < n && (id, label[i]) in ms)
                            printf " **%.1f**", ms[id, label[n]] / ms[id, label[i]]
                    }
                    print " |"
                }
            }' "$work/summary"
    done
    echo
}

plot=none
main "$@"

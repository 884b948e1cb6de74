#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# peers.sh - whole training steps beside PyTorch's, interleaved; the ratios go into
# BENCHMARKS.md, with a plot. `make bench-peers` runs it; it judges nothing.
#
#   peers.sh [measure | report]     both, unless one is named
#
#   PYTHON     a Python that has PyTorch. Without it the newest PyTorch is installed in the build
#              folder, if PEERS_INSTALL=yes or a person at the terminal says so
#   ROUNDS     how often each is run (5); SECONDS_EACH for a measurement in PyTorch (1)
#   CASES      "MODEL[@SIZE]:BATCH..."
#   SETTINGS   "THREADS,LAYOUT,MODE,TYPE..." of PyTorch, as peer_torch.py has them
#   SAMPLES    the file that measurements are added to, one a line, and that `report` reads: a
#              long run can be cut into several. `make bench-peers` begins anew.
#
# A setting that took more than twice as long as the fastest of its type in the first round is not
# run in the others, and does not count. What torch.compile makes is kept in the build folder.

. "${YOKE_SRCDIR:?}/tests/bench/lib.sh"
. "${YOKE_SRCDIR:?}/tests/bench/turns.sh"

cases=${CASES:-tiny:32 mlp:64 mlp:256 simplecnn:64 simplecnn:256 lenet:256 resnet18:32 resnet18:64
    resnet50@64:16 mobilenet:64}
goals='tiny 4 mlp 3 simplecnn 5 lenet 3 resnet18 2.5'
program=torch

# settings_of MODEL: those of PyTorch that make a difference to it; layouts are of images, and
# bfloat16 is for information
settings_of() {
    layouts='default channels_last'
    case $1 in tiny | mlp) layouts=default ;; esac
    for mode in eager compile; do
        for layout in $layouts; do
            for kind in 2,float32 1,float32 2,bfloat16; do
                echo "${kind%,*},$layout,$mode,${kind#*,}"
            done
        done
    done
}

table() {
    echo
    version
    cat <<'END'
the fastest in float32 of 1 or 2 threads, default layout or channels_last
(cl), eager mode or torch.compile (compile). bfloat16 (autocast, 2 threads) is information.
END
    rounds_and_machine
    cat <<'END'
Least and greatest in brackets; times are the ratio of the medians, and of single rounds.

| model, batch | yoke, ms | PyTorch, ms | fastest with | times PyTorch | goal | bfloat16, ms |
| --- | --- | --- | --- | --- | --- | --- |
END
    "$awk" "$statistics$words"'
        {
            model = $1; if (sub(/@/, " at ", model)) model = model "x" substr(model, index(model, " at ") + 4)
            printf "| %s %s | %s (%s-%s) | %s (%s-%s) | %s | **%.1f** (%.1f-%.1f) | %s%s | %s |\n",
                model, $2, digits($3), digits($4), digits($5), digits($7), digits($8), digits($9),
                words($6), $10, $11, $12, ($13 == "-" ? "" : $13),
                ($13 == "-" || $10 >= $13 ? "" : ", missed"), ($16 == "-" ? "" : digits($16))
            if ($13 == "-") next
            sum += log($10)
            if (!wanted++ || $10 < least) least = $10
        }
        END { if (wanted) printf "\nGeometric mean where there is a goal: **%.2f**; goal 3.35%s. The least: **%.1f**; goal 2.5%s.\n",
            exp(sum / wanted), (exp(sum / wanted) >= 3.35 ? "" : ", missed"), least, (least >= 2.5 ? "" : ", missed") }' "$work/summary"
    echo
    echo '![times PyTorch](tests/bench/peers.svg)'
    echo
}

plot() {
    "$awk" '
        { row[NR] = $0; for (i = 10; i <= 13; i++) if ($i + 0 > most) most = $i + 0 }
        END {
            scale = 400 / (int(most) + 1)
            printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"%d\" ", 24 * NR + 40
            print "font-family=\"sans-serif\" font-size=\"12\">"
            print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
            step = most > 8 ? 2 : 1
            for (t = 0; t <= most + 1; t += step) {
                x = 140 + scale * t
                printf "<path d=\"M%.0f 8V%d\" stroke=\"#ddd\"/>", x, 24 * NR + 12
                printf "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x, 24 * NR + 28, t
            }
            for (i = 1; i <= NR; i++) {
                split(row[i], f, " ")
                y = 24 * i - 12
                printf "<text x=\"132\" y=\"%d\" text-anchor=\"end\">%s %s</text>", y + 12, f[1], f[2]
                printf "<rect x=\"140\" y=\"%d\" width=\"%.0f\" height=\"16\" fill=\"#4878a8\"/>", y, scale * f[10]
                printf "<path d=\"M%.0f %dH%.0f\" stroke=\"black\"/>", 140 + scale * f[11], y + 8, 140 + scale * f[12]
                if (f[13] != "-")
                    printf "<path d=\"M%.0f %dv20\" stroke=\"#c03020\" stroke-width=\"2\"/>", 140 + scale * f[13], y - 2
                print ""
            }
            print "<title>times as fast as PyTorch: medians, range over rounds, and the goal in red</title>"
            print "</svg>"
        }' "$work/summary"
}

main "$@"

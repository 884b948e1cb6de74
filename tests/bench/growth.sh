#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# growth.sh - how the time of a step grows with the batch, and with the arithmetic of
# ResNet-18, -34 and -50; the tables go into BENCHMARKS.md, with a plot. `make bench-growth`
# runs it; it judges nothing.
#
#   growth.sh [measure | report]    both, unless one is named
#
#   ROUNDS     how often each is run (3)
#   CASES      "MODEL:BATCH..."; batches below 32 only serve the fit
#   DEPTH      the batch at which the three ResNets are compared (32)
#   SAMPLES    as for peers.sh

. "${YOKE_SRCDIR:?}/tests/bench/lib.sh"

rounds=${ROUNDS:-3}
depth=${DEPTH:-32}
cases=${CASES:-}
if [ -z "$cases" ]; then
    for batch in 8 16 32 64 128 256 512; do
        for model in mlp simplecnn lenet resnet18; do
            cases="$cases $model:$batch"
        done
    done
    cases="$cases resnet34:$depth resnet50:$depth"
fi

measure() {
    for round in $(seq "$rounds"); do
        for case in $cases; do
            echo "round $round: $case" >&2
            figures=$(bench "${case%:*}" "${case#*:}" step_ms gflops)
            echo "${case%:*} ${case#*:} $figures" >>"$samples"
        done
    done
}

# One line a case: model, batch, ms a step, 10^9 operations a step, runs.
summarize() {
    "$awk" "$statistics"'
        {
            id = $1 SUBSEP $2
            if (!(id in times)) order[++cases] = id
            times[id] = times[id] " " $3
            work[id] = $3 * $4 / 1e3
            runs[id]++
        }
        END {
            for (c = 1; c <= cases; c++) {
                split(order[c], name, SUBSEP)
                print name[1], name[2], median(times[order[c]]), work[order[c]], runs[order[c]]
            }
        }' "$samples" | sort -k1,1 -k2,2n
}

# The line of least relative squares through (batch, ms): weights 1 / ms^2.
batch_table() {
    "$awk" -v depth="$depth" "$statistics"'
        $1 ~ /^resnet(34|50)$/ { next }
        {
            ms[$1, $2] = $3
            if (!($1 in models)) { models[$1] = 1; model[++m] = $1 }
            if (!($2 in batches)) { batches[$2] = 1; batch[++b] = $2 }
            w = 1 / ($3 * $3)
            s[$1] += w; sx[$1] += w * $2; sy[$1] += w * $3; sxx[$1] += w * $2 * $2; sxy[$1] += w * $2 * $3
        }
        END {
            printf "| batch |"
            for (i = 1; i <= m; i++) printf " %s, us a sample | of batch 32 |", model[i]
            printf "\n| --- |"
            for (i = 1; i <= m; i++) printf " --- | --- |"
            print ""
            for (i = 2; i <= b; i++)
                for (j = i; j > 1 && batch[j - 1] + 0 > batch[j] + 0; j--) {
                    t = batch[j]; batch[j] = batch[j - 1]; batch[j - 1] = t
                }
            for (j = 1; j <= b; j++) {
                if (batch[j] + 0 < 32) continue
                printf "| %d |", batch[j]
                for (i = 1; i <= m; i++) {
                    id = model[i] SUBSEP batch[j]
                    if (!(id in ms)) { printf " | |"; continue }
                    each = 1e3 * ms[id] / batch[j]
                    base = 1e3 * ms[model[i], 32] / 32
                    printf " %s | %.2f |", digits(each), base ? each / base : 0
                }
                print ""
            }
            printf "\nA step of n samples, from n = %d on, by least relative squares:", batch[1]
            for (i = 1; i <= m; i++) {
                d = s[model[i]] * sxx[model[i]] - sx[model[i]] * sx[model[i]]
                if (d <= 0) continue
                slope = (s[model[i]] * sxy[model[i]] - sx[model[i]] * sy[model[i]]) / d
                start = (sy[model[i]] - slope * sx[model[i]]) / s[model[i]]
                printf "%s\n%s %.3f ms + %.4f ms n", (i > 1 ? ";" : ""), model[i], start, slope
            }
            print "."
        }' "$work/summary"
}

depth_table() {
    echo "| batch $depth | GFLOP a sample | ms a step | GFLOP/s | time per FLOP, of ResNet-18's |"
    echo "| --- | --- | --- | --- | --- |"
    "$awk" -v depth="$depth" "$statistics"'
        /^resnet/ && $2 == depth {
            if ($1 == "resnet18") base = $3 / $4
            row[++n] = $1; ms[n] = $3; work[n] = $4
        }
        END {
            for (i = 1; i <= n; i++)
                printf "| %s | %s | %s | %s | %s |\n", row[i], digits(work[i] / depth), digits(ms[i]),
                    digits(1e3 * work[i] / ms[i]), base ? sprintf("%.2f", ms[i] / work[i] / base) : ""
        }' "$work/summary"
}

# Left: time of a sample, of that in batches of 32, over the batch. Right: ms over GFLOP.
plot() {
    "$awk" -v depth="$depth" '
        function x_of(batch) { return 50 + 50 * (log(batch) / log(2) - 5) }
        function y_of(ratio) { return 170 - 100 * (ratio > 1.6 ? 1.6 : ratio < 0.4 ? 0.4 : ratio) + 40 }
        function label(x, y, text, anchor) {
            printf "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text
        }
        BEGIN { split("#4878a8 #c03020 #408040 #806090", colour, " ") }
        $1 !~ /^resnet(34|50)$/ && $2 == 32 { base[$1] = $3 / 32 }
        $1 !~ /^resnet(34|50)$/ && $2 >= 32 && base[$1] {
            if (!($1 in path)) { name[++m] = $1; path[$1] = "M" } else path[$1] = path[$1] "L"
            path[$1] = path[$1] sprintf("%.0f %.0f", x_of($2), y_of($3 / $2 / base[$1]))
            if ($2 > greatest) greatest = $2
        }
        /^resnet/ && $2 == depth { deep[++d] = $1; work[d] = $4; ms[d] = $3; if ($4 > most) most = $4
            if ($3 / $4 > steepest) steepest = $3 / $4 }
        END {
            print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"220\" font-family=\"sans-serif\" font-size=\"11\">"
            print "<title>time of a sample over the batch; time over operations</title>"
            print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
            for (r = 6; r <= 14; r += 2) {
                printf "<path d=\"M50 %.0fH%.0f\" stroke=\"#ddd\"/>", y_of(r / 10), x_of(greatest)
                label(44, y_of(r / 10) + 4, r / 10, "end")
            }
            for (b = 32; b <= greatest; b *= 2) label(x_of(b), 190, b, "middle")
            label(150, 208, "time of a sample, of batch 32", "middle")
            for (i = 1; i <= m; i++) {
                printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>", path[name[i]], colour[i]
                printf "<text x=\"%.0f\" y=\"16\" fill=\"%s\">%s</text>\n", 50 + 60 * (i - 1), colour[i], name[i]
            }
            if (d) {
                print "<path d=\"M340 20V170H580\" fill=\"none\" stroke=\"black\"/>"
                for (i = 1; i <= d; i++) {
                    x = 340 + 220 * work[i] / most
                    y = 170 - 140 * ms[i] / (most * steepest)
                    printf "<circle cx=\"%.0f\" cy=\"%.0f\" r=\"4\" fill=\"#4878a8\"/>", x, y
                    label(x - 6, y - 6, deep[i], "end")
                    if (deep[i] == "resnet18")
                        printf "<path d=\"M340 170L560 %.0f\" stroke=\"#c03020\"/>\n", 170 - 140 * ms[i] / work[i] / steepest
                }
                label(450, 208, "ms over GFLOP of a step", "middle")
            }
            print "</svg>"
        }' "$work/summary"
}

table() {
    echo
    conditions "$("$awk" 'NR == 1 { print $5 }' "$work/summary")"
    echo
    batch_table
    echo
    depth_table
    echo
    echo '![growth](tests/bench/growth.svg)'
    echo
}

main "$@"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# peers.sh - whole training steps beside PyTorch's, interleaved; the ratios go into
# BENCHMARKS.md, with a plot. `make bench-peers` runs it; it judges nothing.
#
#   peers.sh [measure | report]     both, unless one is named
#
#   PYTHON     a Python that has PyTorch (/usr/bin/python3)
#   ROUNDS     how often each is run (5); SECONDS_EACH for a measurement in PyTorch (1)
#   CASES      "MODEL:BATCH..."; SETTINGS "THREADS,LAYOUT..." of PyTorch
#   SAMPLES    the file that measurements are added to, one a line, and that `report` reads: a
#              long run can be cut into several. `make bench-peers` begins anew.
#
# A setting that took more than half as long again as the fastest in the first round is
# not run in the others.

. "${YOKE_SRCDIR:?}/tests/bench/lib.sh"

python=${PYTHON:-/usr/bin/python3}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-1}
cases=${CASES:-tiny:32 mlp:64 mlp:256 simplecnn:64 simplecnn:256 lenet:256 resnet18:32 resnet18:64}

# settings_of MODEL: those of PyTorch that make a difference to it; layouts are of images
settings_of() {
    case $1 in
    tiny | mlp) echo "${SETTINGS:-2,default 1,default}" ;;
    *) echo "${SETTINGS:-2,default 2,channels_last 1,default 1,channels_last}" ;;
    esac
}

# worthwhile MODEL BATCH: of its settings, those that are not known to be slow
worthwhile() {
    # shellcheck disable=SC2046 # one a line
    printf '%s\n' $(settings_of "$1") | "$awk" -v model="$1" -v batch="$2" -v samples="$samples" '
        BEGIN {
            while ((getline <samples) > 0)
                if ($1 == model && $2 == batch && $3 ~ /,/ && !($3 in first)) {
                    first[$3] = $4
                    if (!best || $4 < best) best = $4
                }
        }
        !($1 in first) || first[$1] <= 1.5 * best'
}

measure_case() {
    step=$(bench "$1" "$2" step_ms)
    echo "$1 $2 yoke $step" >>"$samples"
    # shellcheck disable=SC2046 # one a line
    "$python" "$srcdir/tests/bench/peer_torch.py" "$1" "$2" "$seconds" $(worthwhile "$1" "$2") >"$raw"
    while read -r setting value; do
        echo "$1 $2 $setting $value"
    done <"$raw" >>"$samples"
}

# Where libopenblas0 is not installed PyTorch multiplies matrices ten times as slowly as it can.
warn_of_blas() {
    for blas in /usr/lib/*/libblas.so.3 /usr/lib64/libblas.so.3; do
        case $(readlink -f "$blas" 2>/dev/null) in
        */blas/libblas.so*)
            echo "PyTorch has the reference BLAS here ($blas): install libopenblas0 and measure again" >&2
            ;;
        esac
    done
}

measure() {
    warn_of_blas
    "$python" -c 'import torch' 2>"$raw" || {
        echo "$python has no PyTorch ($(tail -n 1 "$raw")): install it, or name another in PYTHON=" >&2
        exit 1
    }
    for round in $(seq "$rounds"); do
        for case in $cases; do
            echo "round $round: $case" >&2
            measure_case "${case%:*}" "${case#*:}"
        done
    done
}

# One line a case: model batch, yoke's median least greatest, PyTorch's fastest setting and its
# three, the ratio and its least and greatest over rounds, the goal.
summarize() {
    "$awk" "$statistics"'
        BEGIN { split("tiny 2 mlp 3 simplecnn 5 lenet 3 resnet18 2.5", g, " ")
                for (i = 1; i in g; i += 2) goal[g[i]] = g[i + 1] }
        $3 == "version" { next }
        {
            id = $1 SUBSEP $2
            if (!(id in seen)) { seen[id] = 1; order[++cases] = id }
            key = id SUBSEP $3
            times[key] = times[key] " " $4
            if (!(key in count)) settings[id] = settings[id] " " $3
            count[key]++
        }
        END {
            for (c = 1; c <= cases; c++) {
                split(order[c], name, SUBSEP)
                best = ""
                n = split(settings[order[c]], s, " ")
                for (i = 1; i <= n; i++) {
                    if (s[i] == "yoke") continue
                    m = median(times[order[c], s[i]])
                    if (best == "" || m < best_time) { best = s[i]; best_time = m }
                }
                ours = median(times[order[c], "yoke"]); our_low = low; our_high = high
                theirs = median(times[order[c], best]); their_low = low; their_high = high
                n = split(times[order[c], "yoke"], a, " ")
                split(times[order[c], best], b, " ")
                ratios = ""
                for (i = 1; i <= n && i in b; i++) ratios = ratios " " b[i] / a[i]
                median(ratios)
                print name[1], name[2], ours, our_low, our_high, best, theirs, their_low, their_high,
                    theirs / ours, low, high, goal[name[1]], n
            }
        }' "$samples"
}

table() {
    version=$("$awk" '$3 == "version" { print $4; exit }' "$samples")
    echo
    echo "PyTorch $version, the fastest of 1 or 2 threads, default layout or channels_last (cl)."
    conditions "$("$awk" '{ print $14; exit }' "$work/summary")"
    cat <<'END'
Least and greatest in brackets; times are the ratio of the medians, and of single rounds.

| model, batch | yoke, ms | PyTorch, ms | fastest with | times PyTorch | goal |
| --- | --- | --- | --- | --- | --- |
END
    "$awk" "$statistics"'{
        split($6, s, ",")
        printf "| %s %s | %s (%s-%s) | %s (%s-%s) | %s thread%s%s | **%.1f** (%.1f-%.1f) | %s%s |\n",
            $1, $2, digits($3), digits($4), digits($5), digits($7), digits($8), digits($9),
            s[1], (s[1] > 1 ? "s" : ""), (s[2] == "channels_last" ? ", cl" : ""), $10, $11, $12, $13,
            ($10 >= $13 ? "" : ", missed") }' "$work/summary"
    echo
    echo '![times PyTorch](tests/bench/peers.svg)'
    echo
}

plot() {
    "$awk" '
        { row[NR] = $0; for (i = 10; i <= 13; i++) if ($i + 0 > most) most = $i + 0 }
        END {
            scale = 420 / (int(most) + 1)
            printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"%d\" ", 24 * NR + 40
            print "font-family=\"sans-serif\" font-size=\"12\">"
            print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
            step = most > 8 ? 2 : 1
            for (t = 0; t <= most + 1; t += step) {
                x = 120 + scale * t
                printf "<path d=\"M%.0f 8V%d\" stroke=\"#ddd\"/>", x, 24 * NR + 12
                printf "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x, 24 * NR + 28, t
            }
            for (i = 1; i <= NR; i++) {
                split(row[i], f, " ")
                y = 24 * i - 12
                printf "<text x=\"112\" y=\"%d\" text-anchor=\"end\">%s %s</text>", y + 12, f[1], f[2]
                printf "<rect x=\"120\" y=\"%d\" width=\"%.0f\" height=\"16\" fill=\"#4878a8\"/>", y, scale * f[10]
                printf "<path d=\"M%.0f %dH%.0f\" stroke=\"black\"/>", 120 + scale * f[11], y + 8, 120 + scale * f[12]
                printf "<path d=\"M%.0f %dv20\" stroke=\"#c03020\" stroke-width=\"2\"/>\n", 120 + scale * f[13], y - 2
            }
            print "<title>times as fast as PyTorch: medians, range over rounds, and the goal in red</title>"
            print "</svg>"
        }' "$work/summary"
}

main "$@"

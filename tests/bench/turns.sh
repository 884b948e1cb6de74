# SPDX-License-Identifier: Apache-2.0
#
# turns.sh - for the scripts of tests/bench that measure one case after the other, round by round:
# yoke, then PyTorch under all its settings. Sourced after lib.sh. A script has the cases in $cases,
# "MODEL[@SIZE]:BATCH...", and the goals in $goals, "MODEL[@SIZE][:BATCH] TIMES..."; `settings_of MODEL`
# prints PyTorch's settings, and $program is the name of the peer's.

rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-1}
export TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-$YOKE_BUILDDIR/tests/bench/inductor}"

# worthwhile MODEL BATCH: of its settings, those that are not known to be slow
worthwhile() {
    # shellcheck disable=SC2046 # one a line
    printf '%s\n' ${SETTINGS:-$(settings_of "$1")} | "$awk" -v model="$1" -v batch="$2" -v samples="$samples" '
        function type(setting) { sub(/.*,/, "", setting); return setting }
        BEGIN {
            while ((getline <samples) > 0)
                if ($1 == model && $2 == batch && $3 ~ /,/ && !($3 in first)) {
                    first[$3] = $4
                    t = type($3)
                    if (!(t in best) || $4 < best[t]) best[t] = $4
                }
        }
        !($1 in first) || first[$1] <= 2 * best[type($1)]'
}

measure_case() {
    step=$(bench "$1" "$2" step_ms peak_fraction)
    printf '%s\n' "$1 $2 yoke ${step% *}" "$1 $2 peak ${step#* }" >>"$samples"
    # shellcheck disable=SC2046 # one a line
    ask "$program" "$1" "$2" "$seconds" $(worthwhile "$1" "$2")
    while read -r setting value; do
        echo "$1 $2 $setting $value"
    done <"$raw" >>"$samples"
}

measure() {
    peer torch
    for round in $(seq "$rounds"); do
        for case in $cases; do
            echo "round $round: $case" >&2
            measure_case "${case%:*}" "${case#*:}"
        done
    done
}

# One line a case: model batch, yoke's median least greatest, PyTorch's fastest setting and its
# three, the ratio and its least and greatest over rounds, the goal, the rounds, and the fastest
# setting of bfloat16 with its time, and the part of the peak. What is not there is "-".
summarize() {
    "$awk" -v goals="$goals" "$statistics"'
        BEGIN { split(goals, g, " ")
                for (i = 1; i in g; i += 2) goal[g[i]] = g[i + 1] }
        # Of a case, or of all of its model.
        function goal_of(model, batch) {
            return (model ":" batch) in goal ? goal[model ":" batch] : model in goal ? goal[model] : "-"
        }
        $3 == "version" { next }
        {
            id = $1 SUBSEP $2
            if (!(id in seen)) { seen[id] = 1; order[++cases] = id }
            key = id SUBSEP $3
            times[key] = times[key] " " $4
            if (!(key in count)) settings[id] = settings[id] " " $3
            count[key]++
        }
        # The setting of this type with the least median, or "-". Those that ran in one round only
        # are slow ones, unless all others had bad luck later.
        function fastest(id, type,    n, s, i, m, best, most) {
            best = "-"
            n = split(settings[id], s, " ")
            for (i = 1; i <= n; i++)
                if (s[i] ~ type "$" && count[id, s[i]] > most) most = count[id, s[i]]
            for (i = 1; i <= n; i++) {
                if (s[i] !~ type "$" || count[id, s[i]] < most) continue
                m = median(times[id, s[i]])
                if (best == "-" || m < least) { best = s[i]; least = m }
            }
            return best
        }
        END {
            for (c = 1; c <= cases; c++) {
                split(order[c], name, SUBSEP)
                half = fastest(order[c], "bfloat16"); half_time = half == "-" ? "-" : least
                best = fastest(order[c], "float32")
                ours = median(times[order[c], "yoke"]); our_low = low; our_high = high
                theirs = median(times[order[c], best]); their_low = low; their_high = high
                n = split(times[order[c], "yoke"], a, " ")
                split(times[order[c], best], b, " ")
                ratios = ""
                for (i = 1; i <= n && i in b; i++) ratios = ratios " " b[i] / a[i]
                median(ratios)
                print name[1], name[2], ours, our_low, our_high, best, theirs, their_low, their_high,
                    theirs / ours, low, high, goal_of(name[1], name[2]), n, half, half_time,
                    median(times[order[c], "peak"])
            }
        }' "$samples"
}

# The peer, as the first words of a sentence.
version() {
    "$awk" '$3 == "version" {
        printf "PyTorch %s with oneDNN %s, ", $4, $5; exit }' "$samples"
}

rounds_and_machine() {
    conditions "$(sort -n -k14,14 "$work/summary" | "$awk" '
        NR == 1 { least = $14 } { most = $14 } END { print least (most > least ? " to " most : "") }')"
}

# In awk: a setting of PyTorch in words.
words='
    function words(setting,    s) {
        split(setting, s, ",")
        return s[1] " thread" (s[1] > 1 ? "s" : "") (s[2] == "channels_last" ? ", cl" : "") \
            (s[3] == "compile" ? ", compile" : "")
    }
'

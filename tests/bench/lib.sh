# SPDX-License-Identifier: Apache-2.0
#
# lib.sh - for the scripts of tests/bench: one figure of `yoke bench`, a part of
# BENCHMARKS.md that is rewritten, and the order of it all. Sourced; a script NAME.sh has
# the functions `measure`, which adds lines to $samples, and `summarize`, `table` and, unless it has
# plot=none, `plot`, which print: what of the samples counts (into $work/summary), and what is made
# of that.
# It ends with `main "$@"`.

set -eu
export LC_ALL=C

srcdir=${YOKE_SRCDIR:?}
yoke=${YOKE:-${YOKE_BUILDDIR:?}/tools/yoke}
document=${BENCHMARKS:-$srcdir/BENCHMARKS.md}
pictures=${PICTURES:-$srcdir/tests/bench}
awk=${AWK:-awk}
name=$(basename "$0" .sh)
work=${YOKE_BUILDDIR:?}/tests/bench/$name.tmp
samples=${SAMPLES:-$work/samples}
raw=$work/raw
mkdir -p "$work"

# bench MODEL[@SIZE] BATCH KEY...: the values of these members, on one line. LAUNCHER are the words
# that start yoke, OPTIONS more of its own; $size_option is what takes a SIZE (--size).
bench() {
    model=${1%@*} size=${1#"${1%@*}"} batch=$2
    shift 2
    # shellcheck disable=SC2086 # words; no devices, no argument
    ${LAUNCHER:-} "$yoke" bench "$model" --batch "$batch" ${size:+"${size_option:---size}" "${size#@}"} \
        ${DEVICES:+--devices "$DEVICES"} ${OPTIONS:-} --json >"$raw"
    "$awk" -v keys="$*" '
        { gsub(/[",: ]+/, " "); value[$1] = $2 }
        END {
            n = split(keys, key, " ")
            for (i = 1; i <= n; i++) {
                if (!(key[i] in value)) exit 1
                printf "%s%s", value[key[i]], i < n ? " " : "\n"
            }
        }' "$raw"
}

# peer PACKAGE: sets $python to one that has the package: PYTHON, or an environment in the build
# folder, with the newest of the package index. It is made only if PEERS_INSTALL=yes or a person at
# the terminal agrees: it takes some minutes, and up to 6 GB.
peer() {
    python=${PYTHON:-${YOKE_BUILDDIR:?}/tests/bench/$1/bin/python}
    if [ ! -x "$python" ] && [ -z "${PYTHON:-}" ]; then
        answer=${PEERS_INSTALL:-no}
        if [ "$answer" = no ] && [ -t 0 ] && [ -t 2 ]; then
            printf 'Install the newest %s in %s (up to 6 GB)? [yes/no] ' "$1" "${python%/bin/*}" >&2
            read -r answer
        fi
        [ "$answer" = yes ] || {
            echo "no $1: PEERS_INSTALL=yes installs it in the build folder, PYTHON= names a Python that has it" >&2
            exit 1
        }
        python3 -m venv "${python%/bin/*}"
        "$python" -m pip install -q "$1" || {
            rm -rf "${python%/bin/*}"
            exit 1
        }
    fi
    "$python" -c "import $1" 2>"$raw" || {
        echo "$python has no $1 ($(tail -n 1 "$raw")): name another in PYTHON=" >&2
        exit 1
    }
}

# ask NAME ARGUMENT...: what the program peer_NAME.py prints, in $raw; its messages only if it fails
ask() {
    program=$1
    shift
    "$python" -W ignore "$srcdir/tests/bench/peer_$program.py" "$@" >"$raw" 2>"$work/messages" || {
        cat "$work/messages" >&2
        return 1
    }
}

# What was measured where, in one line.
conditions() {
    cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
    runs="medians of ${1:?} runs"
    [ "$1" != 1 ] || runs='one run of each'
    echo "${cpu:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cores; $(date +%Y-%m-%d); $runs."
}

# rewrite NAME FILE: what stands in the document between NAME's two markers is now FILE
rewrite() {
    grep -q "^<!-- $1: begin" "$document" && grep -q "^<!-- $1: end" "$document" || {
        echo "$document has no markers of $1" >&2
        return 1
    }
    "$awk" -v begin="<!-- $1: begin" -v end="<!-- $1: end" -v text="$2" '
        index($0, end) == 1 { skipping = 0 }
        !skipping { print }
        index($0, begin) == 1 {
            while ((getline line <text) > 0) print line
            skipping = 1
        }' "$document" >"$work/document"
    cat "$work/document" >"$document"
}

# In awk: the median of the numbers in a list of words; the least and greatest in low, high.
statistics='
    function median(words,    v, n, i, j, t) {
        n = split(words, v, " ")
        for (i = 2; i <= n; i++) {
            t = v[i] + 0
            for (j = i - 1; j >= 1 && v[j] + 0 > t; j--) v[j + 1] = v[j]
            v[j + 1] = t
        }
        low = v[1]; high = v[n]
        return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    function digits(x) { return sprintf(x < 1 ? "%.3f" : x < 10 ? "%.2f" : x < 100 ? "%.1f" : "%.0f", x) }
'

report() {
    summarize >"$work/summary"
    table >"$work/table"
    rewrite "bench-$name" "$work/table"
    [ "${plot:-}" = none ] || plot >"$pictures/$name.svg"
    cat "$work/table"
}

main() {
    case ${1:-all} in
    measure) measure ;;
    report) report ;;
    all)
        : >"$samples"
        measure
        report
        ;;
    *)
        echo "$name.sh: measure or report, not '$1'" >&2
        exit 2
        ;;
    esac
}

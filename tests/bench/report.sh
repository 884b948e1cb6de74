#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# report.sh - the scripts beside it: a yoke and a peer of known times give the ratios that
# they should, between the markers and nowhere else. Nothing is measured.

set -eu
work=$YOKE_BUILDDIR/tests/bench/report.tmp
rm -rf "$work"
mkdir -p "$work"

# The fake takes 2, 3, 1 ms in turn; a step of batch n has n operations of 10^6.
cat >"$work/yoke" <<'END'
#!/bin/sh
turn=$(cat "$0.turn" 2>/dev/null || echo 0)
echo $((turn + 1)) >"$0.turn"
set -- "$@" "$(echo 2 3 1 | cut -d' ' -f$((turn % 3 + 1)))"
echo "{
  \"model\": \"$2\",
  \"step_ms\": $6,
  \"gflops\": 0.5
}"
END
chmod +x "$work/yoke"
# PyTorch is not asked for: this one prints what peer_torch.py would.
cat >"$work/python" <<'END'
#!/bin/sh
[ "$1" != -c ] || exit 0
shift 4
echo version 1.13
for setting; do
    case $setting in
    2,default) echo "$setting 30" ;;
    2,channels_last) echo "$setting 10" ;;
    *) echo "$setting 100" ;;
    esac
done
END
chmod +x "$work/python"
printf 'before\n<!-- bench-peers: begin -->\nold\n<!-- bench-peers: end -->\nbetween\n' >"$work/page.md"
printf '<!-- bench-growth: begin -->\n<!-- bench-growth: end -->\nafter\n' >>"$work/page.md"

export YOKE="$work/yoke" PYTHON="$work/python"
export BENCHMARKS="$work/page.md" PICTURES="$work"

run() {
    script=$1
    shift
    env "$@" SAMPLES="$work/$script.samples" sh "$YOKE_SRCDIR/tests/bench/$script.sh" \
        >"$work/out" 2>"$work/err" || {
        echo "FAIL: $script.sh"
        cat "$work/out" "$work/err"
        exit 1
    }
}

says() {
    grep -q -F -e "$1" "$work/page.md" || {
        echo "FAIL: BENCHMARKS.md lacks: $1"
        cat "$work/page.md"
        exit 1
    }
}

# Median 2 of 2, 3, 1 against 10 of the fastest setting: 5 times, between 3.3 and 10.
run peers ROUNDS=3 CASES=lenet:256
says '| lenet 256 | 2.00 (1.00-3.00) | 10.0 (10.0-10.0) | 2 threads, cl | **5.0** (3.3-10.0) | 3 |'
! grep -q '^old$' "$work/page.md"
# What was slow in the first round is not run again: 4 settings, a version and yoke, then 3 each.
test "$(wc -l <"$work/peers.samples")" -eq 12
grep -q '<rect x="120"' "$work/peers.svg"

# 2, 3 and 1 ms, three rounds each: always the same for a case. 8: 2 ms, 32: 3 ms, 64: 1 ms.
rm "$YOKE.turn"
run growth ROUNDS=1 CASES='mlp:8 mlp:32 mlp:64'
says '| 32 | 93.8 | 1.00 |'
says '| 64 | 15.6 | 0.17 |'
rm "$YOKE.turn"
run growth ROUNDS=1 CASES='resnet18:32 resnet34:32 resnet50:32'
says '| resnet34 | 0.000 | 3.00 | 0.500 | 1.00 |'
grep -q '<circle' "$work/growth.svg"

for line in before between after; do
    says "$line"
done
rm -r "$work"

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
last=$(echo 2 3 1 | cut -d' ' -f$((turn % 3 + 1)))
echo "{
  \"model\": \"$2\",
  \"step_ms\": $last,
  \"peak_fraction\": 0.75,
  \"gflops\": 0.5
}"
END
chmod +x "$work/yoke"
# No peer is asked for: this one prints what peer_torch.py and peer_tensorflow.py would.
cat >"$work/python" <<'END'
#!/bin/sh
case $1 in -c | -m) exit 0 ;; esac
script=$3
shift 6
echo version 2.15 3.13
for setting; do
    case $script:$setting in
    *:2,channels_last,compile,float32) # with bad luck from the second round on
        [ ! -e "$0.luck" ] || echo >>"$0.luck"
        case $(cat "$0.luck" 2>/dev/null | wc -l) in 0 | 1) echo "$setting 10" ;; *) echo "$setting 50" ;; esac ;;
    *tensorflow.py:*) echo "$setting 8" ;;
    *:1+1,default*) echo "$setting 10" ;;
    *:2,*,float32) echo "$setting 30" ;;
    *:2,default,eager,bfloat16) echo "$setting 4" ;;
    *) echo "$setting 100" ;;
    esac
done
END
chmod +x "$work/python"
printf 'before\n<!-- bench-peers: begin -->\nold\n<!-- bench-peers: end -->\nbetween\n' >"$work/page.md"
for part in ranks tensorflow growth gpt; do
    printf '<!-- bench-%s: begin -->\n<!-- bench-%s: end -->\n' $part $part
done >>"$work/page.md"
echo after >>"$work/page.md"

# Starts one process of the two.
cat >"$work/mpirun" <<'END'
#!/bin/sh
shift 6
exec "$@"
END
chmod +x "$work/mpirun"

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
says '| lenet 256 | 2.00 (1.00-3.00) | 10.0 (10.0-10.0) | 2 threads, cl, compile | **5.0** (3.3-10.0) | 3 | 4.00 |'
says 'PyTorch 2.15 with oneDNN 3.13, '
says 'goal: **5.00**; goal 3.35.'
! grep -q '^old$' "$work/page.md"
# What was slow in the first round is not run again: 12 settings, a version and two lines of yoke,
# then one of each type.
test "$(wc -l <"$work/peers.samples")" -eq 25
grep -q '<rect x="140"' "$work/peers.svg"
# It does not count either, though what was the fastest then (10) is slower later (50) than it was (30).
rm "$YOKE.turn"
touch "$PYTHON.luck"
run peers ROUNDS=3 CASES=lenet:256
says '| 50.0 (10.0-50.0) | 2 threads, cl, compile | **25.0** ('
rm "$PYTHON.luck"
# A case without a goal has its size, and no part in the mean.
rm "$YOKE.turn"
run peers ROUNDS=1 CASES='resnet50@64:16 tiny:32'
says '| resnet50 at 64x64 16 | 2.00 (2.00-2.00) | 10.0 (10.0-10.0) | 2 threads, cl, compile | **5.0** (5.0-5.0) |  | 4.00 |'
says 'goal: **10.00**; goal 3.35.'

# 4 samples of 64 tokens in 2 ms and in 10; the goal of the case is that of 64 tokens alone.
rm "$YOKE.turn"
run gpt ROUNDS=3 CASES='gpt2@64:4 gpt2@512:2'
says '| gpt2, 4 x 64 | 128000 (85333-256000) | 0.75 | 8533 (8533-8533) | 2 threads | **15.0** (10.0-30.0) | 3 | 64000 |'
says '| 1.5 | 256000 |'

# 2, 3, 1, 2, 3 ms are whole, parts, slow with even shares and by speed, and two processes.
rm "$YOKE.turn"
run ranks ROUNDS=1 CASES=lenet:256 MPIRUN="$work/mpirun"
says '| lenet 256 | 2.00 (2.00-2.00) **5.0** | 3.00 (3.00-3.00) **3.3** | 3.00 (3.00-3.00) **3.3** | 10.0 (10.0-10.0) |'
says '| lenet 256 | 1.00 (1.00-1.00) **100.0** | 2.00 (2.00-2.00) **50.0** | 100 (100-100) |'

rm "$YOKE.turn"
run tensorflow ROUNDS=3 CASES='simplecnn:256:1'
says '| simplecnn 256 | one CPU | 2.00 (1.00-3.00) | 8.00 (8.00-8.00) | **4.0** (2.7-8.0) | 3 |'

# Nothing is installed unless it is agreed to; then it is once.
mkdir "$work/bin"
cat >"$work/bin/python3" <<END
#!/bin/sh
mkdir -p "\$3/bin"
cp "$work/python" "\$3/bin"
echo once >>"$work/installed"
END
chmod +x "$work/bin/python3"
install() {
    env PYTHON= PATH="$work/bin:$PATH" YOKE_BUILDDIR="$work/build" SAMPLES="$work/install.samples" \
        ROUNDS=1 CASES=tiny:32 "$@" sh "$YOKE_SRCDIR/tests/bench/peers.sh" >"$work/out" 2>"$work/err" </dev/null
}
! install PEERS_INSTALL=no
grep -q 'PEERS_INSTALL=yes installs it' "$work/err"
test ! -e "$work/installed"
install PEERS_INSTALL=yes
install PEERS_INSTALL=no
test "$(cat "$work/installed")" = once

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

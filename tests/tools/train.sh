#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# train.sh - `yoke train` on the digits: what it learns, what it writes, and what
# it says of settings and files that are not good.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES NO_COLOR
digits=$YOKE_SRCDIR/examples/data

# ---- settings ----

expect 2 -- train
says "$err" 'no model is given'
expect 2 -- train --model=lenet
says "$err" 'no data is given'
expect 2 -- train --model=lenet --data="$digits" more
says "$err" '"more"'
expect 2 -- train --model=lenat --data="$digits"
says "$err" 'no model "lenat"'
for bad in epochs=0 epochs=x batch=-1 batch=2000000 lr=0 lr=nan lr=0x1 seed=-1 seed=4294967296 \
    accumulate=0 ema=1 validation=1 validation=0 batch-norm=both \
    clip-norm=0 clip-value=x recompute=all core-groups=maybe level=fast schedule=slow schedule=cosine,x=1 \
    schedule=step,period=-1 optimizer=lion optimizer=sgd,nesterov=1 augment=turn augment=shift=0.5 \
    augment=part=0.3 augment=shift=1,part=0; do
    expect 2 -- train --model=lenet --data="$digits" --"$bad"
    says "$err" "^yoke: train: --${bad%%=*}"
done
empty "$out"
expect 2 -- train --model=lenet --data="$digits" --batch=0
says "$err" '^yoke: train: --batch is 0; must be between 1 and 1048576$'
expect 2 -- train --model=lenet --data="$digits" --batch=3x
says "$err" "^yoke: train: --batch is \"3x\"; must be a whole number between 1 and 1048576\$"
expect 2 -- train --model=lenet --data="$digits" --recompute=all
says "$err" "^yoke: train: --recompute=all: must be auto, none, cheap, or a size in bytes such as 512M or 1.5GB\$"
for bad in 0 0M 12 -1M 1.2.3G 5Mb nanG 99999999T; do
    expect 2 -- train --model=lenet --data="$digits" --recompute=$bad
    says "$err" "^yoke: train: --recompute=$bad: must be auto, none, cheap, or a size"
done
for alone in --resume --every=3 --keep=2 --keep-best; do
    expect 2 -- train --model=lenet --data="$digits" $alone
    says "$err" 'must go with --checkpoint=DIR$'
done
expect 2 -- train --model=lenet --data="$digits" --plateau-factor=0.5
says "$err" '^yoke: train: --plateau-factor is given alone; must go with --plateau=N'
expect 2 -- train --model=lenet --data="$digits" --normalize --no-normalize
says "$err" '^yoke: train: --normalize and --no-normalize are given; must be one of both'

# ---- files ----

expect 1 -- train --model=lenet --data="$work/none"
says "$err" "^yoke: train: $work/none: there is no such"
mkdir "$work/empty"
expect 1 -- train --model=lenet --data="$work/empty"
says "$err" "^yoke: train: $work/empty: "
expect 1 -- train --model="$work/none.json" --data="$digits"
says "$err" "^yoke: train: $work/none.json: No such file"
echo '{"nodes": 7}' >"$work/bad.json"
expect 1 -- train --model="$work/bad.json" --data="$digits"
says "$err" "^yoke: train: $work/bad.json: "
expect 1 -- train --model="$work" --data="$digits"
says "$err" "^yoke: train: $work: is a folder"
printf 'a,b,c\n1,2,0\n3,4,1\n5,6\n' >"$work/ragged.csv"
expect 1 -- train --model=mlp --data="$work/ragged.csv"
says "$err" "^yoke: train: $work/ragged.csv: "
printf 'a,b,label\n1,2,0\n3,4,1\n5,6,0\n2,2,1\n1,1,1\n0,0,0\n9,9,0\n8,8,1\n7,7,1\n6,6,0\n' >"$work/small.csv"
expect 1 -- train --model=lenet --data="$work/small.csv"
says "$err" '^yoke: train: lenet is for images'
expect 1 -- train --model=lenet --data="$digits" --log="$work/no/log"
says "$err" "^yoke: train: $work/no/log: the log cannot be written"

# What is wrong in a file of options is said as of a command line.
while IFS='|' read -r text sentence; do
    echo "$text" >"$work/options.json"
    expect 2 -- train --config="$work/options.json" --data="$digits"
    says "$err" "^yoke: train: $work/options.json$sentence"
done <<'END'
{"epoch": 3}|: there is no option "epoch"; did you mean "epochs"\?
{"config": "other.json"}|: "config" is for the command line alone
{"epochs": "3"}|: the value of "epochs" must be a number
{"epochs": 0}|: --epochs is 0; must be between 1 and
{"strict": 1}|: the value of "strict" must be true or false
{"model": 3}|: the value of "model" must be a text
{"schedule": "cosin"}|: --schedule=cosin
{"epochs": 3, "epochs": 4}|: line 1 is no JSON: duplicate
["epochs"]| is no object; must be one
{"epochs": 3|: line 2 is no JSON
END
expect 1 -- train --config="$work/none.json"

# ---- training ----

quick="--model=lenet --data=$digits --batch=32 --devices=cpu:0"

check_training() {
    # shellcheck disable=SC2086 # words
    expect 1 "$pocl" -- train $quick --epochs=1 --trace="$work/no/timeline"
    says "$err" "^yoke: train: $work/no/timeline"
    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" -- train $quick --epochs=3 --lr=0.1 --schedule=constant --augment=none \
        --normalize --log="$work/log" --trace="$work/timeline"
    says "$work/timeline" '"name": "load samples of device 0"'
    says "$out" '^test accuracy [0-9.]+ %, test loss [0-9.]+, [0-9]+ samples/s, 3 epochs$'
    says "$err" '^epoch 3/3  loss [0-9.]+  accuracy +[0-9.]+ %  test loss'
    lacks "$err" "$(printf '\033')"
    checks=$((checks + 1))
    awk '$3 + 0 < 70 { exit 1 }' "$out" || fail "it learns nothing"
    checks=$((checks + 1))
    [ "$(grep -c '"kind": "step"' "$work/log")" = $((3 * 45)) ] || fail "steps in the log"
    [ "$(grep -c '"kind": "epoch"' "$work/log")" = 3 ] || fail "epochs in the log"
    [ "$(head -n 1 "$work/log" | "$pick" devices.0)" = cpu:0 ] || fail "devices in the log"
    [ "$(sed -n 7p "$work/log" | "$pick" step epoch shares.0 samples)" = "$(printf '6\n1\n32\n32')" ] ||
        fail "a step in the log"
    for key in loss metrics.accuracy rate memory.0 seconds; do
        sed -n 7p "$work/log" | "$pick" $key >/dev/null || fail "no $key in the log"
    done

    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" -- train $quick --epochs=2 --json --optimizer=adam --schedule=one-cycle \
        --augment=shift=1,noise=0.1 --validation=0.2 --accumulate=2
    checks=$((checks + 1))
    [ "$(wc -l <"$out")" = 3 ] || fail "lines of --json"
    tail -n 1 "$out" >"$work/last" && mv "$work/last" "$out"
    json epochs 2
    json steps 72
    json stopped false
    for key in test_accuracy test_loss samples_per_second; do
        json $key "$("$pick" $key <"$out")"
        checks=$((checks + 1))
        awk "BEGIN { exit !($value > 0) }" || fail "$key is $value"
    done

    # values, not classes
    awk 'BEGIN { print "a,b,target"; for (i = 0; i < 100; i++) print i / 100 "," i % 7 "," i / 50 + 0.5 }' \
        >"$work/values.csv"
    expect 0 "$pocl" -- train --model=tiny --data="$work/values.csv" --devices=cpu:0 --json
    tail -n 1 "$out" >"$work/last" && mv "$work/last" "$out"
    json test_accuracy null
    json epochs 167

    # a log that does not fit
    if [ -w /dev/full ]; then
        # shellcheck disable=SC2086 # words
        expect 1 "$pocl" -- train $quick --epochs=1 --log=/dev/full
        says "$err" '^yoke: train: /dev/full: the log cannot be written: No space'
    fi
}

# What a command that resumes asks for is used or refused, and never ignored.
check_resume() {
    kept="--model=mlp --data=$digits --devices=cpu:0 --checkpoint=$work/kept --log=$work/kept.log"
    kept="$kept --schedule=constant"
    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" -- train $kept --optimizer=sgd --lr=0.5 --batch=64 --seed=2 --epochs=2
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $kept --optimizer=sgd --batch=64 --seed=2 --epochs=2 --resume
    says "$out" ' 2 epochs$'
    says "$err" '^yoke: train: note: .*kept: the training has 2 epochs already, --epochs=2 asks for no more: nothing was left to do$'
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $kept --optimizer=sgd --batch=64 --seed=2 --epochs=3 --resume
    says "$out" ' 3 epochs$'
    says "$err" '^epoch 3/3 '
    lacks "$err" 'nothing was left|batches of'
    tail -n 1 "$work/kept.log" >"$out"
    json kind epoch
    json epoch 3
    tail -n 2 "$work/kept.log" | head -n 1 >"$out"
    json epoch 3
    json rate 0.5
    expect 0 -- info "$work/kept"
    says "$out" '^epochs +3$'
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $kept --optimizer=sgd --batch=128 --seed=2 --lr=0.25 \
        --schedule=step,period=1 --epochs=4 --resume
    says "$err" 'warning: the checkpoint was trained with batches of 64 samples, training goes on with batches of 128'
    says "$err" '^epoch 4/4 '
    tail -n 2 "$work/kept.log" | head -n 1 >"$out"
    json epoch 4
    rate=$("$pick" rate <"$out")
    checks=$((checks + 1))
    awk "BEGIN { exit !($rate < 0.25 && $rate > 0) }" || fail "rate is $rate: --lr or --schedule is not used"
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $kept --optimizer=sgd --batch=128 --seed=2 --lr=0.125 --epochs=5 --resume
    tail -n 2 "$work/kept.log" | head -n 1 >"$out"
    json epoch 5
    json rate 0.125
    # shellcheck disable=SC2086
    expect 1 "$pocl" -- train $kept --optimizer=adam --batch=64 --seed=2 --epochs=6 --resume
    says "$err" 'is a checkpoint of the optimizer sgd, whose state does not fit adam; go on with sgd'
    # shellcheck disable=SC2086
    expect 1 "$pocl" -- train $kept --optimizer=sgd --batch=64 --epochs=6 --resume
    says "$err" 'a training with the seed 2, this one has 0, .*; go on with the seed 2'

    # A state in half the bytes is told of as such, and floats go on from it.
    small="--model=mlp --data=$digits --devices=cpu:0 --checkpoint=$work/small --optimizer=adam"
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $small --epochs=1 --optimizer-state=bf16
    expect 0 -- info --json "$work/small"
    half=$("$pick" memory.optimizer <"$out")
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $small --epochs=2 --resume
    expect 0 -- info --json "$work/small"
    json memory.optimizer $((2 * half))
    # shellcheck disable=SC2086
    expect 2 "$pocl" -- train $small --epochs=2 --resume --optimizer-state=f16
    says "$err" 'optimizer-state.*"f16".*must be f32 or bf16'
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $small --epochs=3 --resume --precision=f16 --loss-scale=1024
    # shellcheck disable=SC2086
    expect 2 "$pocl" -- train $small --precision=f16 --loss-scale=1000
    says "$err" 'loss-scale=1000: must be auto, or a power of 2'
    # shellcheck disable=SC2086
    expect 1 "$pocl" -- train $small --loss-scale=1024
    says "$err" 'loss_scale is 1024, but no product is computed in f16'
}

# At this rate no weight changes, so no epoch is better than the first.
check_early_stop() {
    still="--model=mlp --data=$digits --devices=cpu:0 --batch=256 --optimizer=sgd --lr=1e-30"
    still="$still --schedule=constant --epochs=9 --keep=1 --checkpoint=$work/still"
    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" -- train $still --early-stop=2 --keep-best
    says "$out" ' 3 epochs$'
    says "$err" '^yoke: train: note: the test loss was not lower for 2 epochs: training ends after 3 of 9$'
    says "$err" '^yoke: train: note: epoch 1 is the best, with a test loss of [0-9.]+ after step 6$'
    checks=$((checks + 1))
    [ "$(cd "$work/still" && echo ./checkpoint-*)" = \
        "./checkpoint-000000000006.safetensors ./checkpoint-000000000018.safetensors" ] ||
        fail "other checkpoints: $(ls "$work/still")"
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $still --early-stop=3 --quiet --json --resume
    empty "$err"
    tail -n 1 "$out" >"$work/last" && mv "$work/last" "$out"
    json epochs 4
    json best_epoch 1
    json stopped false
    # After epochs 3, 5 and 7 the rate is halved.
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train ${still% --keep*} --plateau=2 --plateau-factor=0.5 --log="$work/plateau"
    grep '"kind": "step"' "$work/plateau" | tail -n 1 >"$out"
    checks=$((checks + 1))
    awk -v rate="$("$pick" rate <"$out")" 'BEGIN { exit !(rate > 1.24e-31 && rate < 1.26e-31) }' ||
        fail "not the rate of the ninth epoch"
}

# Options of a file, those of the command line, and what is written to run it again.
check_config() {
    printf '{"model": "mlp", "data": "%s", "devices": "cpu:0", "epochs": 3, "batch": 256, "lr": 0.125,
        "optimizer": "sgd", "reproducible": "runs", "strict": false, "normalize": true}' "$digits" \
        >"$work/options.json"
    expect 0 "$pocl" -- train --config="$work/options.json" --epochs=1 --out="$work/once"
    says "$out" ' 1 epoch$'
    says "$err" 'note: the recipe "mlp" chooses --schedule=one-cycle'
    lacks "$err" 'chooses .*--(epochs|batch|optimizer|lr|normalize)'
    cp "$work/once.options.json" "$out"
    json epochs 1
    json lr 0.125
    json normalize true
    json schedule one-cycle
    json reproducible runs
    lacks "$out" 'config|strict|seed'
    expect 0 "$pocl" -- train --config="$work/once.options.json" --no-normalize --out="$work/plain"
    cp "$work/plain.options.json" "$out"
    json no-normalize true
    lacks "$out" '"normalize"'
    expect 0 "$pocl" -- train --config="$work/once.options.json" --out="$work/twice" \
        --checkpoint="$work/configured" --resume
    lacks "$err" 'the recipe'
    checks=$((checks + 1))
    cmp "$work/once" "$work/twice" >"$out" 2>&1 || fail "other bits with the same options"
    cp "$work/configured/options.json" "$out"
    json checkpoint "$work/configured"
    lacks "$out" 'resume'

    # A name that JSON cannot have: the options are not written, rather than without it.
    latin=$work/$(printf 'gr\374n').json
    expect 0 "$pocl" -- train --config="$work/options.json" --epochs=1 --log="$latin" --out="$work/latin"
    says "$err" 'warning: .*latin.options.json: the options cannot be written: the value of "log" is not UTF-8'
    checks=$((checks + 1))
    [ ! -e "$work/latin.options.json" ] || fail "options were written"
}

# Stopped by a signal, it goes on to the same bits as if it had not been.
check_stop() {
    steady="$quick --epochs=25 --reproducible=runs --seed=3"
    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" -- train $steady --out="$work/whole"
    what="yoke train, stopped"
    # shellcheck disable=SC2086
    env "$pocl" "$yoke" train $steady --checkpoint="$work/saved" --log="$work/stopped" \
        >"$out" 2>"$err" </dev/null &
    process=$!
    tries=0
    while ! grep -q '"kind": "epoch"' "$work/stopped" 2>/dev/null && [ $tries -lt 300 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -TERM $process
    wait $process
    status=$?
    checks=$((checks + 1))
    if [ $status = 0 ]; then
        echo "it had ended before the signal came: nothing to go on from"
        return
    fi
    [ $status = 3 ] || fail "exit status $status instead of 3"
    says "$err" "stopped after step [0-9]+; to go on: yoke train .*--checkpoint=.* --resume"
    # shellcheck disable=SC2086
    expect 0 "$pocl" -- train $steady --checkpoint="$work/saved" --resume --out="$work/parts"
    says "$out" ' 25 epochs$'
    checks=$((checks + 1))
    cmp "$work/whole" "$work/parts" >"$out" 2>&1 || fail "other bits after going on"
}

check_parts() {
    # shellcheck disable=SC2086 # words
    expect 0 "$pocl" POCL_MAX_PTHREAD_COUNT=4 -- train --model=lenet --data="$digits" --epochs=1 \
        --devices=cpu:0/1+3 --shares=1,3 --reproducible=runs
    says "$err" 'cpu:0/1\+3\.0  25 %  cpu:0/1\+3\.1  75 %'
    expect 1 "$pocl" -- train --model=lenet --data="$digits" --devices=cpu:0 --shares=1,3
    says "$err" '^yoke: train: .*shares'
    expect 2 "$pocl" -- train --model=lenet --data="$digits" --devices=nonsense
}

if usable "$pocl"; then
    check_training
    check_resume
    check_early_stop
    check_config
    check_stop
    check_parts
else
    skip "no PoCL"
fi
finish

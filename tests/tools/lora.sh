#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lora.sh - adapters on the command line: trained, written alone, used, trained on, merged; on a
# team and in two processes as on one device; and what is refused.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "he yokes the two before the plough, and so they do the work of all."
done >"$work/rhyme.txt"

# ---- refusals that need no device ----

expect 2 -- train --model=gpt --data="$work" --lora=rank=0
says "$err" 'rank is "0"; must be a number of at least 1'
expect 2 -- train --model=gpt --data="$work" --lora=rnk=2
says "$err" 'there is no setting "rnk"; must be rank, alpha, dropout or targets; did you mean "rank"'
expect 2 -- train --model=gpt --data="$work" --lora=dropout=1
says "$err" 'dropout is 1; must be at least 0 and below 1'
expect 2 -- train --model=gpt --data="$work" --lora=targets=
says "$err" 'the targets are empty'
expect 2 -- train --model=gpt --data="$work" --adapters=x
says "$err" 'must go with --lora'
expect 2 -- train --model=gpt --data="$work" --lora=default --init-adapters=x
says "$err" 'must be one of both'
expect 2 -- merge
says "$err" 'no model is given'
expect 2 -- merge base
says "$err" 'must be --out=FILE'

# ---- training ----

take_pocl
train() {
    expected=$1
    shift
    expect "$expected" -- train --model=gpt --layers=1 --heads=1 --width=16 --context=16 \
        --level=estimate --core-groups=never --batch=8 --epochs=1 --data="$work/rhyme.txt" \
        --tokenizer=characters "$@"
}
loss() {
    sed -n 's/.*"test_loss": \([0-9.]*\).*/\1/p' "$1"
}
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a - b < 1e-4 && b - a < 1e-4) }' ||
        fail "the losses are $1 and $2"
}

train 0 --devices=cpu:0 --out="$work/base.safetensors"
train 1 --devices=cpu:0 --lora=rank=40
says "$err" 'h.0.attn.c_attn: the rank of the adapter is 40; must be between 1 and 16'
train 1 --devices=cpu:0 --lora=targets=c_atn
says "$err" 'matches the target "c_atn".*did you mean "c_attn"'
set -- --init="$work/base.safetensors" --lora=rank=2,targets=c_attn,c_fc,alpha=4 --lr=0.01
train 0 --devices=cpu:0 "$@" --json --out="$work/adapted.safetensors" --adapters="$work/adapters"
one=$(loss "$out")
says "$work/adapters/adapter_config.json" '"r": 2'
grep -a -q 'base_model.model.transformer.h.0.attn.c_attn.lora_A.weight' \
    "$work/adapters/adapter_model.safetensors" || fail "no tensor of that name"

# What it takes where nothing is said.
train 0 --devices=cpu:0 --lora=default --adapters="$work/default"
for word in '"r": 8,' '"lora_alpha": 16' 'c_attn'; do
    says "$work/default/adapter_config.json" "$word"
done
lacks "$work/default/adapter_config.json" 'c_fc'

# The whole model, the base with the adapters, and the merged model compute the same.
measure() {
    expect 0 -- eval --devices=cpu:0 --data="$work/rhyme.txt" --json "$@"
    sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' "$out"
}
before=$(measure "$work/base.safetensors")
whole=$(measure "$work/adapted.safetensors")
near "$whole" "$(measure --adapters="$work/adapters" "$work/base.safetensors")"
expect 0 -- merge --out="$work/merged.safetensors" "$work/base.safetensors" "$work/adapters"
near "$whole" "$(measure "$work/merged.safetensors")"
expect 0 -- merge --out="$work/merged2.safetensors" "$work/adapted.safetensors"
near "$whole" "$(measure "$work/merged2.safetensors")"
awk -v a="$before" -v b="$whole" 'BEGIN { exit !(b < a) }' || fail "nothing was learned"
expect 1 -- merge --out="$work/no" "$work/base.safetensors"
says "$err" 'has no adapters'
expect 1 -- merge --out="$work/no" "$work/base.safetensors" "$work/none"
says "$err" 'none/adapter_model.safetensors'
for model in "--model=$work/adapted.safetensors" \
    "--adapters=$work/adapters --model=$work/base.safetensors"; do
    # shellcheck disable=SC2086 # options are words
    expect 0 -- generate --devices=cpu:0 $model --prompt=he --length=8 --temperature=0
    [ "$model" = "--model=$work/adapted.safetensors" ] && cp "$out" "$work/text"
    cmp -s "$out" "$work/text" || fail "another text"
done

# Trained on, and from a checkpoint.
train 0 --devices=cpu:0 --init="$work/base.safetensors" --init-adapters="$work/adapters" --json
train 0 --devices=cpu:0 "$@" --checkpoint="$work/checkpoints"
train 0 --devices=cpu:0 "$@" --checkpoint="$work/checkpoints" --resume --epochs=2

# A team of two, and two processes.
train 0 --devices=cpu:0/1+1 --shares=even "$@" --json
near "$one" "$(loss "$out")"
. "$YOKE_SRCDIR/tests/support/launcher.sh"
if [ -n "${MPIRUN:-}" ]; then
    what="mpirun"
    checks=$((checks + 1))
    # Open MPI and its libraries leak.
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
        "$MPIRUN" -n 2 "$yoke" train --model=gpt --layers=1 --heads=1 --width=16 \
        --context=16 --level=estimate --core-groups=never --batch=8 --epochs=1 \
        --data="$work/rhyme.txt" --tokenizer=characters --devices=cpu:0 "$@" --json \
        >"$out" 2>"$err" </dev/null || fail "exit status $?"
    near "$one" "$(loss "$out")"
else
    skip "this build has no MPI"
fi
finish

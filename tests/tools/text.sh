#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# text.sh - text on the command line: tokens and back, tokenizers, training on a text and
# its test, and what is refused.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "he yokes the two before the plough, and so they do the work of all."
done >"$work/rhyme.txt"

# ---- tokens ----

expect 0 -- tokenize --train --vocabulary=270 --out="$work/own.json" "$work/rhyme.txt"
says "$err" '270 tokens'
expect 0 -- tokenize --tokenizer="$work/own.json" "$work/rhyme.txt"
cp "$out" "$work/numbers"
[ "$(wc -l <"$work/numbers")" -lt 700 ] || fail "more tokens than 700"
expect 0 -- tokenize --decode --tokenizer="$work/own.json" "$work/numbers"
cmp -s "$out" "$work/rhyme.txt" || fail "another text"
expect 0 -- tokenize --out="$work/rhyme.bin" "$work/rhyme.txt"
expect 0 -- tokenize --decode "$work/rhyme.bin"
cmp -s "$out" "$work/rhyme.txt" || fail "another text"
expect 2 -- tokenize
says "$err" 'no text is given'
expect 2 -- tokenize --train "$work/rhyme.txt"
says "$err" 'must be --out=FILE'
expect 2 -- tokenize --characters "$work/rhyme.txt"
says "$err" 'must go with it'
expect 1 -- tokenize --decode "$work/rhyme.txt"
says "$err" 'is no token'
echo '{' >"$work/broken.json"
expect 1 -- tokenize --tokenizer="$work/broken.json" "$work/rhyme.txt"
says "$err" 'broken.json: line [12] is no JSON'

# ---- training ----

take_pocl
train() {
    expected=$1
    shift
    expect "$expected" -- train --model=gpt --layers=1 --heads=1 --width=16 --context=16 \
        --level=estimate --core-groups=never --devices=cpu:0 --batch=8 --epochs=1 "$@"
}
train 0 --data="$work/rhyme.txt" --tokenizer=characters --out="$work/rhyme.safetensors"
says "$out" '^test perplexity [0-9.]+, [0-9.]+ bits a byte, test loss .* tokens/s, 1 epoch$'
says "$err" 'recipe "text" chooses .*--optimizer=adamw.* --clip-norm=1'
says "$err" 'perplexity .* tokens/s'
expect 0 -- eval --devices=cpu:0 --data="$work/rhyme.txt" "$work/rhyme.safetensors"
says "$out" '^perplexity '
says "$out" '^bits a byte '
says "$out" '^tokens/s [1-9][0-9]*$'
lacks "$out" '^calibration|^R2'
# Each token counts once, also in a last window that is short: the loss of 16 + 5 of them is that of
# the 16 and that of the 5.
mkdir "$work/part"
# measure FROM COUNT: `loss` of so many tokens from that one on
measure() {
    tail -c +"$1" "$work/rhyme.txt" | head -c $(($2 + 1)) >"$work/part.txt"
    expect 0 -- tokenize --tokenizer="$work/rhyme.safetensors" --out="$work/part/test.bin" \
        "$work/part.txt"
    expect 0 -- eval --devices=cpu:0 --data="$work/part" --json "$work/rhyme.safetensors"
    json tokens "$2"
    loss=$("$pick" loss <"$out")
}
measure 1 16
first=$loss
measure 17 5
second=$loss
measure 1 21
json samples 2
# 21 tokens in the time of 2 samples.
awk -v tokens="$("$pick" tokens_per_second <"$out")" -v samples="$("$pick" samples_per_second <"$out")" \
    'BEGIN { d = tokens * 2 / 21 / samples - 1; exit !(samples > 0 && d < 1e-9 && d > -1e-9) }' ||
    fail "the rate of tokens is not that of samples"
awk -v all="$loss" -v a="$first" -v b="$second" \
    'BEGIN { d = 21 * all - 16 * a - 5 * b; exit !(a != b && d < 1e-3 && d > -1e-3) }' ||
    fail "the losses are $loss, $first and $second"
# Tokens that the model does not have.
printf 'he yokes 2' >"$work/part.txt"
expect 0 -- tokenize --out="$work/part/test.bin" "$work/part.txt"
expect 1 -- eval --devices=cpu:0 --data="$work/part" "$work/rhyme.safetensors"
says "$err" 'part: token 0 is 104; must be at least 0 and below [0-9]*, the vocabulary'
# What was trained on characters writes characters, and takes no others.
expect 0 -- generate --devices=cpu:0 --model="$work/rhyme.safetensors" --prompt="he" --length=9
says "$out" '^he[a-z ,.]{0,9}$'
expect 0 -- generate --devices=cpu:0 --model="$work/rhyme.safetensors" --prompt="he yokes" --length=99
[ "$(head -c 17 "$out" | wc -c)" = 17 ] || fail "a text that does not fill the context"
# The most probable token alone is what a temperature of 0 takes; a stop ends the text before it.
expect 0 -- generate --devices=cpu:0 --model="$work/rhyme.safetensors" --prompt="he" --length=9 --temperature=0
most=$(cat "$out")
expect 0 -- generate --devices=cpu:0 --model="$work/rhyme.safetensors" --prompt="he" --length=9 --temperature=1 --top-p=0.001
[ "$(cat "$out")" = "$most" ] || fail "--top-p=0.001 wrote \"$(cat "$out")\", not \"$most\""
expect 0 -- generate --devices=cpu:0 --model="$work/rhyme.safetensors" --prompt="he" --length=9 --temperature=1 --top-k=1
[ "$(cat "$out")" = "$most" ] || fail "--top-k=1 wrote \"$(cat "$out")\", not \"$most\""
last=${most#"${most%?}"}
expect 0 -- generate --devices=cpu:0 --model="$work/rhyme.safetensors" --prompt="he" --length=9 --temperature=0 --stop="$last"
rest=${most#he}
[ "$(cat "$out")" = "he${rest%%"$last"*}" ] || fail "--stop=\"$last\" wrote \"$(cat "$out")\" of \"$most\""
expect 1 -- generate --devices=cpu:0 --model="$work/rhyme.safetensors" --prompt="HE" --length=9
says "$err" 'yoke: generate: '
expect 0 -- tokenize --tokenizer="$work/rhyme.safetensors" "$work/rhyme.txt"
expect 1 -- predict --data="$work/rhyme.txt" "$work/rhyme.safetensors"
says "$err" 'rhyme.safetensors is a language model; must be one of samples \("yoke generate" writes'
# It is written for Hugging Face, with its tokenizer, to a folder of its own.
expect 0 -- convert --type=f16 --out="$work/rhyme.hf" "$work/rhyme.safetensors"
grep -q '"torch_dtype": "float16"' "$work/rhyme.hf/config.json" || fail "no config.json of float16"
expect 0 -- tokenize --tokenizer="$work/rhyme.hf" "$work/rhyme.txt"
expect 1 -- convert --out="$work/rhyme.hf" "$work/rhyme.safetensors"
says "$err" 'yoke: convert: .*rhyme.hf has a config.json; must be a folder without a model'
expect 2 -- convert "$work/rhyme.safetensors"
says "$err" 'must be --out=PATH'
expect 2 -- convert --type=f64 --out="$work/x" "$work/rhyme.safetensors"
train 0 --data="$work/rhyme.bin" --json
says "$out" 'test_perplexity'
train 1 --data="$work/rhyme.txt" --tokenizer="$work/own.json" --vocabulary=256
says "$err" 'has 270 tokens, the model a vocabulary of 256'
echo short >"$work/short.txt"
train 1 --data="$work/short.txt"
says "$err" 'must have at least 17'
expect 1 -- train --model=lenet --data="$YOKE_SRCDIR/examples/data" --tokenizer=bytes
says "$err" 'not for text'

. "$YOKE_SRCDIR/tests/support/launcher.sh"
# What the last line of standard output tells: the steps and the weights.
told() {
    sed -n 's/.*"steps": *\([0-9]*\).*"weights": *"\([0-9a-f]*\)".*/\1 \2/p' "$out"
}
# same: they are those of one device
same() {
    checks=$((checks + 1))
    [ "$(told)" = "$one" ] || fail "other steps and weights than $one"
}

# divided --model=NAME OPTION...: begun on unequal devices and stopped in the middle of an epoch, gone on
# with there and in two processes, a training is that of one device: its weights have the same bits.
divided() {
    begun=$work/${1#*=}.begun halves=$work/${1#*=}.halves
    set -- train --layers=1 --width=16 --context=16 --level=estimate --core-groups=never --batch=8 \
        --granule=1 --schedule=constant --lr=0.01 --data="$work/rhyme.txt" --tokenizer=characters \
        --dropout=0.1 --reproducible=any-split --epochs=2 --json "$@"
    unequal="--devices=cpu:0/1+3 --shares=5,2"
    expect 0 -- "$@" --devices=cpu:0
    one=$(told)
    middle=$((${one% *} / 4))
    { [ "$middle" -gt 0 ] && [ ${#one} -gt 32 ]; } || fail "$one: too few steps, or no weights"
    # shellcheck disable=SC2086 # words
    expect 0 POCL_MAX_PTHREAD_COUNT=4 -- "$@" $unequal --every="$middle" --keep=9 --checkpoint="$begun"
    same
    for saved in "$begun"/checkpoint-*; do
        case $saved in *"$(printf %012d "$middle").safetensors") ;; *) rm "$saved" ;; esac
    done
    expect 0 -- info "$begun"
    says "$out" '^weights  *[0-9a-f]{32}$'
    lacks "$out" "${one#* }"
    cp -r "$begun" "$halves"
    # shellcheck disable=SC2086 # words
    expect 0 POCL_MAX_PTHREAD_COUNT=4 -- "$@" $unequal --resume --checkpoint="$begun"
    same
    if [ -n "${MPIRUN:-}" ]; then
        what="mpirun $*"
        checks=$((checks + 1))
        # Open MPI and its libraries leak.
        ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
            "$MPIRUN" -n 2 "$yoke" "$@" --devices=cpu:0 --shares=1,3 --resume \
            --checkpoint="$halves" >"$out" 2>"$err" </dev/null || fail "exit status $?"
        same
    else
        skip "this build has no MPI"
    fi
}
divided --model=gpt --heads=1
# Heads that share keys.
[ "${YOKE_TEST_QUICK:-0}" = 1 ] || divided --model=llama --heads=2 --shared=1 --inner=24

finish

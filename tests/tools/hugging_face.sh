#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# hugging_face.sh - a folder of Hugging Face as the model: its sizes, weights and tokenizer, there
# and back; and each key of config.json that asks for another model is refused.

. "$YOKE_SRCDIR/tests/tools/lib.sh"
files=$YOKE_SRCDIR/tests/files

# ---- sizes ----

# change FAMILY [KEY JSON]...: a folder with the config.json, in which keys have other values; a
# value of "-" takes the key out.
change() {
    mkdir -p "$work/hf"
    cp "$files/$1/config.json" "$work/config"
    shift
    while [ $# -gt 0 ]; do
        grep -v "^ *\"$1\": [^{]*\$" "$work/config" >"$work/hf/config.json"
        [ "$2" = - ] || sed "1s|^{|{ \"$1\": $2,|" "$work/hf/config.json" >"$work/config"
        [ "$2" != - ] || cp "$work/hf/config.json" "$work/config"
        shift 2
    done
    cp "$work/config" "$work/hf/config.json"
}

expect 0 -- info --json "$files/gpt2"
json kind graph
json parameters 1904
expect 0 -- info --json "$files/llama"
json parameters 1176
change gpt2 n_layer 3 layer_norm_epsilon 1e-6 n_inner 32
expect 0 -- info "$work/hf"
says "$out" '^h\.2\.mlp\.c_proj '
says "$out" '^ln_f +layer_norm .*epsilon 1e-06'
change llama tie_word_embeddings true num_key_value_heads - head_dim null rms_norm_eps 1e-6 \
    intermediate_size 20
# An older file has the base of the positions as a number, which is 10000 if it is not there.
sed '/rope_parameters/,/}/d; /rope_theta/d' "$work/config" >"$work/hf/config.json"
expect 0 -- info "$work/hf"
says "$out" 'rope heads 4, shared 4$|rope heads 4 +'
says "$out" 'rms_norm .*epsilon 1e-06'
lacks "$out" '^lm_head'
says "$out" '^model.layers.1.mlp.gate_up_proj .*40\)'
sed '1s|^{|{ "rope_theta": 5e5,|' "$work/hf/config.json" >"$work/config"
cp "$work/config" "$work/hf/config.json"
expect 0 -- info "$work/hf"
says "$out" 'rope heads 4.*, base 500000'

# ---- refusals ----

# refused FAMILY KEY JSON PATTERN: what the error says after the file
refused() {
    change "$1" "$2" "$3"
    expect 1 -- info "$work/hf"
    says "$err" "^yoke: info: $work/hf/config.json$4"
    empty "$out"
}
refused gpt2 model_type '"bert"' ': "model_type" is "bert"; must be "gpt2" or "llama"$'
refused gpt2 model_type - ' has no "model_type"; must be "gpt2" or "llama"$'
refused gpt2 n_layer - ' has no "n_layer"; must be a whole number between 1 and 65536$'
for bad in 0 -1 65537 2.5 '"2"' null '[]'; do
    refused gpt2 n_layer "$bad" ': "n_layer" is .*; must be a whole number between 1 and 65536$'
done
refused gpt2 n_head 3 ': "n_head" is 3; must be a divisor of the width, 8$'
refused gpt2 n_positions 16777217 ': "n_positions" is 16777217; must be '
refused gpt2 n_inner 16 ': "n_inner" is 16; must be 32, 4 times the width$'
refused gpt2 activation_function '"relu"' ': "activation_function" is "relu"; must be "gelu_new"$'
refused gpt2 layer_norm_epsilon 0 ': "layer_norm_epsilon" is 0; must be a number above 1e-30, '
refused gpt2 layer_norm_epsilon '"1e-5"' ': "layer_norm_epsilon" is "1e-5"; must be a number '
refused gpt2 scale_attn_weights false ': "scale_attn_weights" is false; must be true$'
refused gpt2 scale_attn_by_inverse_layer_idx true ': "scale_attn_by.*; must be false$'
refused gpt2 add_cross_attention true ': "add_cross_attention" is true; must be false$'
refused gpt2 tie_word_embeddings false ': "tie_word_embeddings" is false; must be true$'
refused llama hidden_size - ' has no "hidden_size"; must be '
refused llama hidden_size 12 ': "hidden_size" is 12; must be 4 times an even number$'
refused llama hidden_act '"gelu"' ': "hidden_act" is "gelu"; must be "silu"$'
refused llama num_key_value_heads 3 ': "num_key_value_heads" is 3; must be a divisor of the 4 heads$'
refused llama head_dim 4 ': "head_dim" is 4; must be 2, the width of a head$'
refused llama rms_norm_eps - ' has no "rms_norm_eps"; must be a number above 1e-30, at most 1$'
refused llama rope_scaling '{"rope_type": "llama3"}' ': "rope_scaling" is .*; must be null$'
refused llama sliding_window 4096 ': "sliding_window" is 4096; must be null$'
refused llama attention_bias true ': "attention_bias" is true; must be false$'
refused llama mlp_bias true ': "mlp_bias" is true; must be false$'
refused llama tie_word_embeddings 1 ': "tie_word_embeddings" is 1; must be true or false$'
for row in 's/"default"/"yarn"/|: "rope_type" is "yarn"; must be "default"$' \
    's/"rope_type": "default"/"factor": 8/|: "factor" is 8; must be left out$' \
    's/10000.0/1/|: "rope_theta" is 1; must be a number above 1, at most 1e\+12$'; do
    sed "${row%%|*}" "$files/llama/config.json" >"$work/hf/config.json"
    expect 1 -- info "$work/hf"
    says "$err" "^yoke: info: $work/hf/config.json${row#*|}"
done
echo '{"n_layer": 1, "n_layer": 2}' >"$work/hf/config.json"
expect 1 -- info "$work/hf"
says "$err" "^yoke: info: $work/hf/config.json is no JSON: .* in line 1$"

for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "abacadefghij"
done >"$work/text"
expect 2 -- train --model="$files/gpt2" --data="$work/text" --layers=3
says "$err" 'has its own sizes'
expect 1 -- train --model="$files/gpt2" --data="$work/text" --context=8
says "$err" 'a sample has 8 tokens; must have at most 7, the context'
expect 1 -- train --model="$files" --data="$work/text"
says "$err" "^yoke: train: $files: is a folder, .* a graph as JSON, or a folder with a config.json"

# The other commands that take a folder.
expect 1 -- generate --model="$work/hf" --prompt=a
says "$err" "^yoke: generate: $work/hf/config.json is no JSON"
expect 1 -- tune "$work/hf"
says "$err" "^yoke: tune: $work/hf/config.json is no JSON"
cp "$files/gpt2/config.json" "$work/hf"
expect 1 -- generate --model="$work/hf" --prompt=a
says "$err" "^yoke: generate: $work/hf has no model.safetensors; must have the weights of the model"
cp "$files/gpt2/model.safetensors" "$work/hf"
expect 0 -- tokenize --train --vocabulary=270 --out="$work/hf/tokenizer.json" "$work/text"
expect 1 -- eval --data="$work/text" "$work/hf"
says "$err" "^yoke: eval: $work/hf: its tokenizer has [0-9]* tokens, the model a vocabulary of 11"
expect 2 -- bench gpt --model="$files/llama"
says "$err" 'is of a llama; take "yoke bench llama"'
expect 2 -- bench gpt --model="$files/gpt2" --seq=8
says "$err" 'a sample has 8 tokens; must have at most 7, the context'

# ---- training ----

take_pocl
# train MODEL [OPTION]...: an epoch; `loss` is that of its test
train() {
    expect 0 -- train --model="$@" --data="$work/text" --level=estimate --core-groups=never \
        --devices=cpu:0 --batch=8 --epochs=1 --json
    loss=$(sed -n 's/.*"test_loss": \([0-9.]*\).*/\1/p' "$out" | tail -n 1)
}
near() {
    checks=$((checks + 1))
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a - b < 1e-5 && b - a < 1e-5) }' ||
        fail "the losses are $1 and $2"
}

# What was trained and written for Hugging Face is the same model there; its tokenizer comes along.
for model in gpt llama; do
    inner=
    [ $model = gpt ] || inner=--inner=24
    # shellcheck disable=SC2086 # one word or none
    train $model --layers=1 --heads=2 --width=16 --context=16 $inner \
        --tokenizer=characters --lr=0.01 --out="$work/$model.safetensors"
    trained=$loss
    expect 0 -- convert --out="$work/$model.hf" "$work/$model.safetensors"
    train "$work/$model.hf" --lr=1e-30 --out="$work/again.safetensors"
    near "$trained" "$loss"
    lacks "$err" 'the model starts anew'
    expect 0 -- eval --devices=cpu:0 --data="$work/text" --json "$work/again.safetensors"
    json samples 1
    near "$trained" "$("$pick" loss <"$out")"
    # The folder by itself is a model.
    expect 0 -- eval --devices=cpu:0 --data="$work/text" --json "$work/$model.hf"
    near "$trained" "$("$pick" loss <"$out")"
    for form in safetensors hf; do
        expect 0 -- generate --devices=cpu:0 --model="$work/$model.$form" --prompt=ab --length=9 \
            --temperature=0
        [ $form = hf ] || cp "$out" "$work/written"
        says "$out" '^ab[a-j]{2,9}$'
    done
    cmp -s "$out" "$work/written" || fail "the folder writes another text"
done
expect 0 -- convert --type=bf16 --out="$work/again.hf" "$work/llama.hf"
grep -q '"torch_dtype": "bfloat16"' "$work/again.hf/config.json" || fail "not bfloat16"
[ -f "$work/again.hf/tokenizer.json" ] || fail "the tokenizer is lost"
# Without the weights it starts anew; --init brings them, and their tokenizer.
mkdir "$work/bare"
cp "$work/gpt.hf/config.json" "$work/bare"
train "$work/bare" --tokenizer=characters --lr=1e-30
says "$err" 'bare has no model.safetensors: the model starts anew'
checks=$((checks + 1))
awk -v a="$loss" 'BEGIN { exit !(a > 2.2) }' || fail "it did not start anew: $loss"
train "$work/gpt.hf" --lr=1e-30
again=$loss
train "$work/bare" --init="$work/gpt.safetensors" --lr=1e-30
near "$again" "$loss"
# Weights from elsewhere that have no tokenizer are for that of the folder.
mkdir "$work/alone"
cp "$work/gpt.hf/model.safetensors" "$work/alone"
train "$work/gpt.hf" --init="$work/alone/model.safetensors" --lr=1e-30
near "$again" "$loss"
# Samples may be shorter than the model's, and what it computes may be dropped in training.
train "$files/gpt2" --tokenizer=characters --context=5 --dropout=0.1 --out="$work/short.safetensors"
grep -aq 'dropout[\\]*": *0\.1' "$work/short.safetensors" || fail "attention drops nothing"
expect 0 -- info "$work/short.safetensors"
says "$out" '^samples    tokens, i32 \(5\)$'
expect 0 -- convert --out="$work/short.hf" "$work/short.safetensors"
grep -q '"n_positions": 7' "$work/short.hf/config.json" || fail "another context"

finish

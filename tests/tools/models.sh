#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# models.sh - a model that was trained, written, tested, asked, shown, and its
# training drawn; and files that are no models.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES
digits=$YOKE_SRCDIR/examples/data
model=$work/digits.safetensors

# ---- calls that are wrong, files that are no good ----

for command in eval predict; do
    expect 2 -- $command
    says "$err" 'no model is given'
    expect 2 -- $command file
    says "$err" 'no data is given'
    expect 2 -- $command --data=x file more
    says "$err" '"more"'
done
expect 2 -- eval --data=x --batch=0 file
for bad in count=0 first=-1 top=x; do
    expect 2 -- predict --data=x --$bad file
    says "$err" "^yoke: predict: --${bad%%=*} is .*; must be "
done
expect 2 -- info
expect 2 -- info a b
expect 2 -- plot
expect 2 -- plot a b

: >"$work/empty"
head -c 100 /dev/zero >"$work/zeros"
printf '\377\377\377\377\377\377\377\377{}' >"$work/huge"
echo '{"nodes": [' >"$work/open.json"
for file in none empty zeros huge open.json; do
    expect 1 -- info "$work/$file"
    says "$err" "^yoke: info: $work/$file: "
    empty "$out"
done
expect 1 -- info "$work"
says "$err" "^yoke: info: $work is a folder without a checkpoint"
for command in eval predict; do
    expect 1 -- $command --data="$digits" "$work/zeros"
    says "$err" "^yoke: $command: $work/zeros: "
done

echo 'no log' >"$work/bad.log"
echo '{"kind": "epoch"}' >>"$work/bad.log"
expect 1 -- plot "$work/bad.log"
says "$err" "^yoke: plot: $work/bad.log: line 1 is no object of JSON"
printf '{"step": 1}\n{}\n' >"$work/bad.log"
expect 1 -- plot "$work/bad.log"
says "$err" "line 1 is not a line of a log"
expect 1 -- plot "$work/empty"
says "$err" "^yoke: plot: $work/empty: has no step"
expect 1 -- plot "$work/none"
says "$err" "^yoke: plot: $work/none: No such file"

# A graph alone has no weights.
write_graph "$work/graph.json"
expect 0 -- info "$work/graph.json"
says "$out" '^parameters 650$'
says "$out" '^fc '
expect 0 -- info --json "$work/graph.json"
json kind graph
json parameters 650
json frozen 0
json 'modules.#' 1
json modules.0.name fc
json modules.0.parameters 650
json flops_per_token null
json memory.weights 2600
json memory.gradients 2600
json memory.optimizer 5200
json memory.activations 48
json metrics.0 accuracy

# Built-in models, with as many parameters as the same models elsewhere.
expect 0 -- info --json char
json kind graph
json parameters 10770816
expect 0 -- info gpt2
says "$out" '^parameters 124475904$'
says "$out" '^h\.11\.mlp\.c_proj '
says "$out" '^           wte 38633472$'
says "$out" '^           h\.\*\.attn 28348416$'
says "$out" '^           h\.\*\.mlp 56669184$'
says "$out" '^           ln_f 1536$'
# Twice the weights of the layers and of the head, which is computed once; and the attention.
flops=$(sed -n 's/^FLOPs  *\([0-9]*\) a token, without backward$/\1/p' "$out")
awk -v f="${flops:-0}" 'BEGIN { exit !(f > 247e6 && f < 251e6) }' || fail "FLOPs: $flops"
says "$out" '^memory     weights 474\.8 MiB, gradients 474\.8 MiB, state of adam 949\.7 MiB$'
# Eighteen times the width for each token and layer, and a little.
says "$out" '^           activations 4[0-9]\.[0-9] MiB a sample, of which'
expect 0 -- info lenet
says "$out" '^lenet: a built-in model$'
says "$out" '^others     tiny mlp simplecnn resnet18 .*unet autoencoder gpt char gpt2 llama$'
expect 1 -- info lennet
says "$err" '^yoke: info: lennet is neither a file nor a built-in model,.*; did you mean "lenet".$'
empty "$out"
expect 0 -- info resnet18
says "$out" '^           layer2\.\*\.downsample 8448$'
says "$out" '^FLOPs      [0-9]+ a sample, without backward$'
sed 's/\("nodes"\)/"frozen": ["fc.bias"], \1/' "$work/graph.json" >"$work/frozen.json"
expect 0 -- info --json "$work/frozen.json"
json frozen 10
json memory.weights 2600
json memory.gradients 2560
json memory.optimizer 5120

# ---- a training ----

check_model() {
    expect 0 "$pocl" -- train --model="$work/graph.json" --data="$digits" --epochs=3 --batch=32 \
        --normalize --devices=cpu:0 --json --out="$model" --log="$work/log"
    trained=$(tail -n 1 "$out" | "$pick" test_accuracy)
    expect 0 "$pocl" -- eval --data="$digits" --devices=cpu:0 --json "$model"
    json samples 360
    json metrics.accuracy "$trained"
    expect 0 "$pocl" -- eval --data="$digits" --batch=7 "$model"
    says "$out" '^accuracy [0-9.]+ %$'

    # What it predicts is what was tested, and adds up to one.
    expect 0 "$pocl" -- predict --data="$digits" --devices=cpu:0 "$model"
    checks=$((checks + 1))
    right=$(awk -F '\t' '$4 == "(" $2 ")"' "$out" | wc -l)
    awk "BEGIN { d = $right / 360 - $trained; exit !(d < 1e-6 && d > -1e-6) }" ||
        fail "$right of 360 are right, but the accuracy was $trained"
    expect 0 "$pocl" -- predict --data="$digits" -n 2 -f 358 -t 10 --json "$model"
    checks=$((checks + 1))
    [ "$(wc -l <"$out")" = 2 ] || fail "lines"
    tail -n 1 "$out" >"$work/line" && mv "$work/line" "$out"
    json sample 359
    json 'classes.#' 10
    expect 1 "$pocl" -- predict --data="$digits" --first=360 "$model"

    expect 0 -- info "$model"
    says "$out" '^samples    image, u8 \(1, 8, 8\)$'
    expect 0 -- info --json "$model"
    json kind model
    json input.type u8
    json input.mean.# 1

    # A start from these weights is no worse after one more epoch.
    expect 0 "$pocl" -- train --model="$work/graph.json" --data="$digits" --epochs=1 --batch=32 \
        --normalize --devices=cpu:0 --json --init="$model"
    tail -n 1 "$out" >"$work/line" && mv "$work/line" "$out"
    checks=$((checks + 1))
    awk "BEGIN { exit !($("$pick" test_accuracy <"$out") > 0.7) }" || fail "it began anew"

    printf '1,2,3\n4,5,6\n' >"$work/short.csv"
    expect 1 "$pocl" -- predict --data="$work/short.csv" "$model"
    says "$err" "^yoke: predict: $work/short.csv: a sample has 3 values of type f32"
    head -c 1000 "$model" >"$work/cut"
    expect 1 "$pocl" -- predict --data="$digits" "$work/cut"
    says "$err" "^yoke: predict: $work/cut: "

    # the whole of it or nothing
    expect 1 "$pocl" -- train --model="$work/graph.json" --data="$digits" --epochs=1 \
        --devices=cpu:0 --out="$work/no/model"
    says "$err" "^yoke: train: .*$work/no"
}

check_plot() {
    expect 0 -- plot "$work/log"
    says "$out" '^<svg '
    for title in loss accuracy 'learning rate' 'speed of training'; do
        says "$out" "class=\"title\".*>$title</text>"
    done
    for unit in 'mean loss' '% of samples' 'samples/s' step; do
        says "$out" "class=\"weak\".*>$unit</text>"
    done
    says "$out" '>trained [0-9.]+</text>'
    says "$out" '>tested [0-9.]+ %</text>'
    says "$out" '<title>tested after step [0-9]+: [0-9.]+</title>'
    says "$out" 'prefers-color-scheme:dark'
    says "$out" ', on cpu:0</text>'
    lacks "$out" '>logarithmic<'
    expect 0 -- plot --out="$work/picture.svg" "$work/log"
    empty "$out"
    xml "$work/picture.svg"
    expect 1 -- plot --out="$work/no/picture.svg" "$work/log"
    says "$err" "^yoke: plot: $work/no/picture.svg: cannot be written"
    [ ! -w /dev/full ] || {
        expect 1 -- plot --out=/dev/full "$work/log"
        says "$err" '^yoke: plot: /dev/full: cannot be written'
    }
    # values that would flatten the others; names that are markup; two devices
    awk '/"kind": "start"/ { sub(/\["cpu:0"\]/, "[\"</text><script>\", \"b\"]") }
        /"kind": "step"/ {
            sub(/"shares": \[[0-9]*\]/, "\"shares\": [3, 1]")
            if (++n == 40) sub(/"loss": [0-9.e-]*/, "\"loss\": 1e30")
        }
        { print }' "$work/log" >"$work/hostile.log"
    expect 0 -- plot --out="$work/hostile.svg" "$work/hostile.log"
    says "$work/hostile.svg" '>[0-9]+ beyond the scale, up to 1e\+30<'
    says "$work/hostile.svg" '<title>&#60;/text&#62;&#60;script&#62;: 75.0 % in the mean'
    says "$work/hostile.svg" 'class="area".*hsl'
    lacks "$work/hostile.svg" '<script'
    xml "$work/hostile.svg"
    # a loss of many sizes
    awk '/"kind": "step"/ { sub(/"loss": [0-9.e-]*/, "\"loss\": " exp(-++n / 4)) }
        { print }' "$work/log" >"$work/many.log"
    expect 0 -- plot "$work/many.log"
    says "$out" '>logarithmic<'
    # two results come at once at the end of an epoch
    cat >"$work/speed.log" <<'END'
{"kind": "start", "batch": 10, "samples": 30, "devices": ["cpu:0"]}
{"kind": "step", "step": 1, "epoch": 1, "loss": 3, "samples": 10, "seconds": 1}
{"kind": "step", "step": 2, "epoch": 1, "loss": 2, "samples": 10, "seconds": 2}
{"kind": "step", "step": 3, "epoch": 1, "loss": 1, "samples": 10, "seconds": 2.5}
{"kind": "epoch", "step": 3, "epoch": 1, "test_loss": 1}
{"kind": "step", "step": 4, "epoch": 2, "loss": 1, "samples": 10, "seconds": 9}
{"kind": "step", "step": 5, "epoch": 2, "loss": 1, "samples": 10, "seconds": 9.5}
END
    expect 0 -- plot "$work/speed.log"
    says "$out" '<title>step 3: samples/s 13.33</title>'
    says "$out" '<title>step 5: samples/s 20</title>'
    lacks "$out" '<title>step [24]: samples/s'
    # cut off in the last line, as while it is written
    head -c 900 "$work/log" >"$work/cut.log"
    expect 0 -- plot "$work/cut.log"
}

# A folder of checkpoints, one of them, and one that is damaged.
check_checkpoint() {
    expect 0 "$pocl" -- train --model="$work/graph.json" --data="$digits" --epochs=2 --batch=32 \
        --devices=cpu:0 --checkpoint="$work/saved" --every=40 --optimizer=adam --seed=9
    expect 0 -- info "$work/saved"
    says "$out" '/checkpoint-000000000090.safetensors: a checkpoint, the newest of 3$'
    says "$out" '^step +90$'
    says "$out" '^epochs +2$'
    says "$out" '^history +2 epochs$'
    says "$out" '^optimizer +adam, learning rate 0.001$'
    says "$out" '^devices +cpu:0 \(.*\), share 32$'
    says "$out" '^parts +6, .*, all checksums hold$'
    says "$out" '^plans +[0-9a-f]{32}$'
    says "$out" '^memory .*, state of adam 5\.1 KiB$'
    says "$out" '^fc '
    newest=$work/saved/checkpoint-000000000080.safetensors
    expect 0 -- info "$newest"
    says "$out" '^epochs +1, and 1120 of the 1437 samples of the next$'
    expect 0 -- info --json "$newest"
    json kind checkpoint
    json checkpoint.step 80
    json checkpoint.epochs 1
    json checkpoint.position 1120
    json checkpoint.samples 1437
    json checkpoint.history 1
    json checkpoint.optimizer adam
    json checkpoint.seed 9
    json checkpoint.batch 32
    json checkpoint.shares.0 32
    json 'checkpoint.parts.#' 6
    json checkpoint.parts.0.good true
    json checkpoint.damaged 0
    json parameters 650
    # one bit of the last part
    size=$(wc -c <"$newest")
    { head -c $((size - 1)) "$newest" && printf '\200'; } >"$work/damaged"
    expect 1 -- info --json "$work/damaged"
    says "$err" "^yoke: info: $work/damaged is damaged"
    json checkpoint.damaged 1
    expect 1 -- info "$work/damaged"
    says "$out" 'of which these are damaged:$'
    head -c 200 "$newest" >"$work/damaged"
    expect 1 -- info "$work/damaged"
    says "$err" "^yoke: info: $work/damaged"
}

if usable "$pocl"; then
    check_model
    check_checkpoint
    check_plot
else
    skip "no PoCL"
fi
finish

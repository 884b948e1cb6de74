#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# commands.sh - the command lines of the manual, of README.md and of docs/tour.md work, and
# those that train reach the figure that stands for them below.
#
# What is run: in the EXAMPLES of pages of sections 1 and 7 the lines of .Dl and of
# .Bd -literal, and in the other two the lines of ```sh, that begin with yoke or mpirun.
# A table below tells what is expected of them; each line of it needs a command.

set -u

work=$YOKE_BUILDDIR/tests/man/commands.tmp
rm -rf "$work"
mkdir -p "$work/bin" "$work/examples"
failures=0
ran=0
skips=0
tab=$(printf '\t')

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
    sed 's/^/    /' "$work/out" "$work/err" 2>/dev/null | tail -n 20
}

[ -x "$YOKE_BUILDDIR/tools/yoke" ] || {
    echo "built without the yoke command"
    exit 77
}

# ---- what is expected ----

# A command succeeds and writes something; a line here tells more of it.
# COMMAND, a tab, and what it has to do: "accuracy" or "r2", of a test, of at least so much, or
# "perplexity" of at most so much; "says" a line like this; "writes" a file with one. With "gpu" before
# it, where there is no GPU, it fails and says so; with "jq" or "mpirun" that program has to be there.
# With "OPTION... :" before all of these it runs with these options besides, which make it shorter: what
# it says is held to the same figure.
cat >"$work/expected" <<'END'
yoke train --model=lenet --data=examples/data --epochs=30 --batch=16 --lr=0.05 --optimizer=sgd,momentum=0.9,decay=1e-3 --schedule=cosine --normalize --augment=shift=1,noise=0.2 --out=digits.safetensors --log=digits.jsonl	accuracy 96
yoke eval --data=examples/data digits.safetensors	says ^accuracy 9[6-9]
yoke eval --data=examples/data --confusion digits.safetensors	says ^LABEL +0 +1
yoke predict --data=examples/data --count=5 digits.safetensors	says ^4	[0-9]
yoke merge --out=merged.safetensors adapted.safetensors	writes merged.safetensors fc1.weight
yoke info digits.safetensors	says ^parameters
yoke plot --out=digits.svg digits.jsonl	writes digits.svg ^<svg
yoke train --model=mlp --data=measurements.csv --out=measurements.safetensors	r2 0.7
yoke train --model=lenet --data=examples/data	accuracy 95
yoke train --model=lenet --data=examples/data --epochs=10	accuracy 95
yoke train --model=lenet --data=examples/data --devices=cpu:0/1+1 --shares=3,1	--epochs=10 : accuracy 95
yoke train --model=mlp --data=prices.csv	r2 0.7
mpirun -n 2 yoke train --model=lenet --data=examples/data	mpirun accuracy 95
yoke train --model=lenet --data=examples/data --log=training.jsonl	--epochs=10 : accuracy 95
yoke report --out=report.html digits.safetensors	writes report.html ^<section id="samples">
yoke plot --out=training.svg training.jsonl	writes training.svg ^<svg
yoke predict --data=examples/data --count=10 --top=3 digits.safetensors	says ^9	[0-9]
yoke info --json checkpoints	says "kind": "checkpoint"
yoke tokenize --train --vocabulary=300 --out=tokenizer.json examples/data/README	writes tokenizer.json "merges"
yoke train --model=gpt --context=32 --data=examples/data/README --out=rhyme.safetensors	--epochs=10 --layers=1 : perplexity 48
yoke train --model=gpt --context=32 --data=examples/data/README --precision=bf16	--epochs=10 --layers=1 : perplexity 48
yoke train --model=gpt --context=32 --data=examples/data/README --precision='*.attn.*=f32,bf16'	--epochs=10 --layers=1 : perplexity 48
yoke train --model=lenet --data=examples/data --optimizer=adam --lr=0.003 --optimizer-state=bf16	--epochs=10 : accuracy 90
yoke convert --type=bf16 --out=rhyme rhyme.safetensors	writes rhyme/config.json "model_type"
yoke convert --out=digits.onnx digits.safetensors	writes digits.onnx fc1.weight
yoke convert --out=again.safetensors digits.onnx	writes again.safetensors fc1.weight
yoke train --model=./rhyme --context=16 --data=examples/data/README --epochs=2	--epochs=1 : perplexity 44
yoke tokenize --tokenizer=tokenizer.json examples/data/README	says ^[0-9]
yoke tokenize --train --vocabulary=1024 --out=pages.json pages.txt	writes pages.json "merges"
yoke train --model=gpt --width=192 --heads=6 --data=pages.txt --tokenizer=pages.json --epochs=15 --lr=0.002 --schedule=one-cycle --out=pages.safetensors	--epochs=2 --layers=1 : perplexity 125
yoke generate --model=pages.safetensors --prompt=".Dd November 24, 2026" --temperature=0.5 --seed=1	says ^\.Dd November 24, 2026
yoke generate --model=pages.safetensors --prompt=.Sh --temperature=0.3 --length=60	says ^\.Sh
yoke help train	says --epochs
yoke help bench devices	says --repeats
yoke data examples/data	says ^train: 1437 samples
yoke data --out=digits.pgm examples/data	writes digits.pgm ^P5
yoke devices	says cpu:0
yoke doctor	says ^ok  *devices  cpu:0 .* compiles and computes
yoke doctor --json | jq -r '.findings[].found'	jq says ^cpu:0 .* compiles and computes
yoke devices --json | jq -r '.[].name'	jq says ^(pthread|cpu)
yoke devices 'cpu:0/2@256MiB'	says cpu:0/2
yoke bench resnet18 --devices=gpu:0	gpu says ^rate .* samples/s
yoke bench resnet18 --devices=gpu:0 --plan	gpu says ^rate .* samples/s
yoke tune --batch=32 --devices=gpu resnet18	gpu says ^resnet18, batches up to 32, on gpu:
yoke info gpt2	says ^parameters 124475904$
yoke bench devices cpu:0/2	says ^ratio +[0-9.]+; 1 when each has its own hardware
yoke bench devices --repeats=11 cpu:0/2	says ^ratio +[0-9.]+; 1 when each has its own hardware
yoke bench resnet18 --batch=8 --level=estimate --recompute=25MB --plan	says ^recomputed: [1-9][0-9]* tasks run again, .* the limit is 25\.0 MB$
yoke plan --model=resnet18 --batch=8 --devices=cpu:0@180MB --level=estimate	says ^cpu:0 +8 +1[0-6][0-9]\.[0-9] MiB +171\.7 MiB
yoke bench lenet --devices=cpu:0/2 --stages=2 --batch=64 --accumulate=8 --level=estimate	says ^rate .* samples/s
yoke plan --model=gpt --batch=8 --devices=cpu:0/2@64MiB --level=estimate	says ^cpu:0/2.1 .* MiB
mpirun -n 2 yoke plan --model=lenet --optimizer=adam --devices=cpu:0	mpirun says ^rank 1 cpu:0 .* MiB
mpirun -n 2 yoke plan --model=lenet --accumulate=4 --stages=2 --devices=cpu:0	mpirun says ^lenet, batch 256: the network is cut into 2 stages
yoke plan --model=resnet18 --batch=16 --devices=cpu:0/2@144MiB --own-weights --level=estimate	says ^cpu:0/2.0 .* 144
yoke train --model=lenet --data=examples/data --devices=cpu:0/2	--epochs=10 : accuracy 95
yoke train --model=mine.json --data=examples/data --epochs=10 --batch=32 --normalize --lr=0.003	accuracy 80
yoke train --model=lenet --data=examples/data --lora=targets=fc1 --out=adapted.safetensors	accuracy 70
mpirun -n 2 yoke train --model=lenet --data=examples/data --shard=state --shard-by=1,3	--epochs=10 : mpirun accuracy 95
yoke train --model=mlp --data=examples/data --reproducible=any-split	--epochs=30 : accuracy 94
mpirun -n 3 yoke train --model=mlp --data=examples/data --reproducible=any-split	--epochs=30 : mpirun accuracy 94
yoke train --model=mlp --data=examples/data --reproducible=any-split --recheck=10	--epochs=30 : accuracy 94
yoke verify --devices=cpu:0/2 --shares=80,20 lenet	says ^the same: at most
yoke verify --bits mlp	says ^the same bits: [2-9] splits
END

# ---- what is there ----

# Command lines of the files of the manual in mdoc, or of other documents, one a line.
of_page() {
    awk '
        $1 == ".Sh" { examples = $2 == "EXAMPLES" }
        !examples { next }
        $1 == ".Ed" { literal = 0 }
        literal { print }
        $1 == ".Dl" { sub(/^\.Dl /, ""); print }
        $1 == ".Bd" && $2 == "-literal" { literal = 1 }
    ' "$1"
}

of_markdown() {
    awk '/^```/ { inside = $0 == "```sh"; next } inside' "$1" |
        sed -e ':again' -e '/\\$/{N;s/ *\\\n */ /;b again' -e '}' -e 's/ *#.*//'
}

{
    of_markdown "$YOKE_SRCDIR/README.md"
    of_markdown "$YOKE_SRCDIR/docs/tour.md"
    for page in "$YOKE_SRCDIR"/man/*.[17]; do
        of_page "$page"
    done
} | grep -E '^(mpirun .*)?yoke ' | awk '!seen[$0]++' >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 20 ] || fail "the command lines of the manual could not be read"

# expectation COMMAND: what the table says of it
expectation() {
    awk -F "$tab" -v command="$1" '
        substr($0, 1, length(command) + 1) == command "\t" {
            print substr($0, length(command) + 2)
        }' "$work/expected"
}

cut -f 1 "$work/expected" | while read -r command; do
    grep -q -F -x -e "$command" "$work/commands" || echo "$command"
done >"$work/stale"
[ ! -s "$work/stale" ] || fail "in the table above, but in no page: $(cat "$work/stale")"

# ---- where they run ----

case ${LD_PRELOAD:-}${OCL_ICD_VENDORS:-} in
*oclgrind*)
    echo "Oclgrind interprets: training would take hours"
    [ $failures -eq 0 ] && exit 77
    exit 1
    ;;
esac
unset OCL_ICD_FILENAMES POCL_DEVICES NO_COLOR
OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
export OCL_ICD_VENDORS
. "$YOKE_SRCDIR/tests/support/launcher.sh"
. "$YOKE_SRCDIR/tests/support/command.sh"
for program in yoke mpirun; do
    case $program in
    yoke) path=$yoke ;;
    mpirun) path=$(command -v "${MPIRUN:-none}") ;;
    esac
    [ -n "$path" ] || continue
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$path" >"$work/bin/$program"
    chmod +x "$work/bin/$program"
done
PATH=$work/bin:$PATH
export PATH
cd "$work" || exit
yoke devices cpu:0 >out 2>err || {
    echo "no PoCL"
    [ $failures -eq 0 ] && exit 77
    exit 1
}
gpu=no
! yoke devices gpu >out 2>err || gpu=yes
mkdir examples/data && cp "$YOKE_SRCDIR"/examples/data/*.gz "$YOKE_SRCDIR"/examples/data/README examples/data/
awk -v count=1000 -f "$YOKE_SRCDIR/tests/tools/prices.awk" >prices.csv
cp prices.csv measurements.csv
cat "$YOKE_SRCDIR"/man/*.[17] >pages.txt
awk '/^```/ { inside = $0 == "```json"; next } inside' "$YOKE_SRCDIR/docs/tour.md" >mine.json
yoke train --model=tiny --data=examples/data --epochs=1 --checkpoint=checkpoints >out 2>err ||
    fail "no checkpoint to look at"

# ---- running ----

# at_least WHAT NUMBER: the training's result says so
at_least() {
    figure=$(sed -n "s/^test $1 \([0-9.eE+-]*\).*/\1/p" out | tail -n 1)
    [ -n "$figure" ] && awk "BEGIN { exit !($figure >= $2) }" ||
        fail "$command: its test ends with $1 ${figure:-of nothing}, but must reach $2"
    echo "$1 ${figure:-none} (at least $2): $command"
}

# perplexity_within NUMBER: that of the training's test is so low
perplexity_within() {
    figure=$(sed -n 's/^test perplexity \([0-9.e+-]*\),.*/\1/p' out | tail -n 1)
    [ -n "$figure" ] && awk "BEGIN { exit !($figure <= $1) }" ||
        fail "$command: its test ends with the perplexity ${figure:-of nothing}, but must reach $1"
    echo "perplexity ${figure:-none} (at most $1): $command"
}

check() {
    case $1 in
    perplexity) perplexity_within "$2" ;;
    accuracy) at_least accuracy "$2" ;;
    r2) at_least R2 "$2" ;;
    says) grep -q -E -e "$2" out || fail "$command: no line with $2" ;;
    writes) grep -q -E -e "${2#* }" "${2%% *}" || fail "$command: ${2%% *} has no line with ${2#* }" ;;
    *) fail "$command: the table expects '$1', which is nothing" ;;
    esac
}

# Whether a line of the output speaks of what is expected; its number may be another.
is_said() {
    case $1 in
    accuracy) grep -q '^test accuracy [0-9]' out ;;
    perplexity) grep -q '^test perplexity [0-9]' out ;;
    says) grep -q -E -e "$2" out ;;
    *) [ -s out ] ;;
    esac
}

# A build without MPI has nothing that mpirun could start.
has() {
    command -v "$1" >/dev/null && { [ "$1" != mpirun ] || [ -n "${MPIRUN:-}" ]; }
}

# run COMMAND EXPECTATION
run() {
    command=$1
    wanted=$2
    case $wanted in
    --*) command="$command ${wanted%% : *}" wanted=${wanted#* : } ;;
    esac
    case $wanted in
    gpu\ *) wanted=${wanted#gpu } needs=gpu ;;
    jq\ * | mpirun\ *) needs=${wanted%% *} wanted=${wanted#* } ;;
    *) needs= ;;
    esac
    if [ -n "$needs" ] && [ "$needs" != gpu ] && ! has "$needs"; then
        echo "SKIP: there is no $needs for: $command"
        skips=$((skips + 1))
        return
    fi
    if eval "$command" >out 2>err </dev/null; then
        ran=$((ran + 1))
        # Open MPI 5 has twice lost the last lines of ranks that had ended well (docs/drivers.md).
        if [ "$needs" = mpirun ] && ! is_said "${wanted%% *}" "${wanted#* }"; then
            echo "mpirun lost what ranks that ended well have written: once more. It gave:"
            cat out err
            eval "$command" >out 2>err </dev/null || fail "$command"
        fi
        check "${wanted%% *}" "${wanted#* }"
    elif [ "$needs" = gpu ] && [ $gpu = no ] && grep -q -i gpu err; then
        ran=$((ran + 1))
    else
        fail "$command"
    fi
}

while read -r line; do
    wanted=$(expectation "$line")
    case $wanted$line in
    *'yoke train'*) [ -n "$wanted" ] || fail "the table above expects nothing of: $line" ;;
    esac
    run "$line" "${wanted:-says .}"
done <commands
echo "$ran command lines run, $skips skipped, $failures failures"
[ $failures -gt 0 ] || rm -rf "$work"
[ $failures -eq 0 ] || exit 1
[ $skips -eq 0 ] || [ "${YOKE_REQUIRE_ALL:-0}" != 1 ]

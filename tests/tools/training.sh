#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# training.sh - what users choose about training has an effect, in `yoke train` and in the
# other commands that take it.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES
threads=POCL_MAX_PTHREAD_COUNT=4
graph=$work/graph.json

# conv N: a layer for Winograd's algorithm, and values that are cheap to compute again
conv() {
    echo "{\"op\": \"conv2d\", \"name\": \"c$1\", \"filters\": 16, \"kernel\": 3, \"pad\": 1},
          {\"op\": \"batch_norm\"}, {\"op\": \"relu\"},"
}

# trained NAME ARGUMENT...: trains for an epoch; the model is $work/NAME, the log $work/NAME.log
trained() {
    name=$1
    shift
    expect 0 "$pocl" "$threads" "YOKE_WISDOM=$work/$name.wisdom" -- train --model="$graph" \
        --data="$YOKE_SRCDIR/examples/data" --epochs=1 --batch=128 --optimizer=sgd --lr=0.1 \
        --schedule=constant --reproducible=runs --level=estimate --devices=cpu:0 \
        --out="$work/$name" --log="$work/$name.log" "$@"
}

same() {
    checks=$((checks + 1))
    cmp -s "$work/$1" "$work/$2" || fail "$1 and $2 differ"
}

differs() {
    checks=$((checks + 1))
    ! cmp -s "$work/$1" "$work/$2" || fail "$1 and $2 are the same"
}

# memory NAME: bytes in use on the device in the last step
memory() {
    grep '"kind": "step"' "$work/$1.log" | tail -n 1 | "$pick" memory.0
}

check_pocl() {
    write_graph "$graph"
    trained plain
    trained again
    same plain again
    trained seed --seed=1
    differs plain seed
    trained norm --clip-norm=0.01
    differs plain norm
    trained wide --clip-norm=1e6 --clip-value=1e6
    same plain wide
    trained value --clip-value=0.001
    differs plain value
    differs norm value

    write_graph "$work/flat.json"
    { sed '/"flatten"/,$d' "$work/flat.json" && conv 1 && conv 2 && conv 3 &&
        sed -n '/"flatten"/,$p' "$work/flat.json"; } >"$graph"
    trained keeps
    trained cheap --recompute=cheap
    same keeps cheap
    checks=$((checks + 1))
    [ "$(memory cheap)" -lt "$(memory keeps)" ] || fail "--recompute: $(memory cheap) of $(memory keeps) bytes"
    # The sentence names what would do, and that does.
    expect 1 "$pocl" "$threads" -- train --model="$graph" --data="$YOKE_SRCDIR/examples/data" --batch=128 \
        --level=estimate --devices=cpu:0 --recompute=1000B
    says "$err" 'recompute_bytes is 1000; .* take a smaller batch, or accumulate'
    trained budget --recompute="$(sed -n 's/.* bytes, and \([0-9]*\) at least .*/\1/p' "$err")B"
    same keeps budget
    checks=$((checks + 1))
    [ "$(memory budget)" -lt "$(memory cheap)" ] || fail "--recompute: $(memory budget) of $(memory cheap) bytes"
    trained parts --accumulate=4
    checks=$((checks + 1))
    [ "$(memory parts)" -lt "$(memory keeps)" ] || fail "--accumulate: $(memory parts) of $(memory keeps) bytes"
    trained sync --devices=cpu:0/2 --shares=even
    trained local --devices=cpu:0/2 --shares=even --batch-norm=local
    differs sync local
    expect 1 "$pocl" "$threads" -- train --model="$graph" --data="$YOKE_SRCDIR/examples/data" \
        --devices=cpu:0/2 --core-groups=always
    says "$err" '^yoke: train: .*core groups'

    # An estimate measures nothing; other levels do, and Winograd's solvers too, unless they may not.
    checks=$((checks + 1))
    [ ! -e "$work/keeps.wisdom" ] || fail "--level=estimate measures"
    trained measured --level=measure
    says "$work/measured.wisdom" ' conv2d-winograd'
    trained strict --level=measure --strict
    says "$work/strict.wisdom" ' conv2d-lanes'
    lacks "$work/strict.wisdom" ' conv2d-winograd'

    # The other commands.
    limit=YOKE_WISDOM=$work/bench.wisdom
    for kind in none cheap; do
        expect 0 "$pocl" "$limit" -- bench resnet18 --plan --batch=2 --level=estimate --devices=cpu:0 \
            --recompute=$kind
        sed -n 's/^packed .* whole plan \([0-9.]*\) MB$/\1/p' "$out" >"$work/$kind"
    done
    checks=$((checks + 1))
    awk -v none="$(cat "$work/none")" -v cheap="$(cat "$work/cheap")" \
        'BEGIN { exit !(cheap + 0 > 0 && cheap + 0 < none + 0) }' ||
        fail "bench --recompute: $(cat "$work/cheap") of $(cat "$work/none") MB"
    less=$(awk '{ printf "%.1f", $1 * 0.7 }' "$work/none")
    expect 0 "$pocl" "$limit" -- bench resnet18 --plan --batch=2 --level=estimate --devices=cpu:0 \
        --recompute="${less}MB"
    says "$out" ' again  '
    says "$out" "^recomputed: [0-9]* tasks run again, .* instead of $(cat "$work/none") MB; the limit is $less MB"
    expect 0 "$pocl" -- bench tiny --level=estimate --devices=cpu:0/2 --shares=3,1 --json \
        --accumulate=2 --optimizer=adam --clip-norm=1 --clip-value=1 --reproducible=runs
    json shares.0 24
    json shares.1 8
    expect 1 "$pocl" -- bench tiny --level=estimate --devices=cpu:0/2 --core-groups=always
    says "$err" '^yoke: bench tiny: .*core groups'
    expect 0 "$pocl" -- verify tiny --devices=cpu:0/2 --shares=even --steps=3 --seed=5 --lr=0.1 --clip-norm=0.1 \
        --clip-value=0.1 --recompute=cheap --level=estimate --accumulate=2
    says "$out" '^the same'
    mv "$out" "$work/clipped"
    expect 0 "$pocl" -- verify tiny --devices=cpu:0/2 --shares=even --steps=3 --seed=5 --lr=0.1 --level=estimate
    differs clipped out
}

if usable "$pocl"; then
    check_pocl
else
    skip "no PoCL"
fi
finish

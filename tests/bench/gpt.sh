#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gpt.sh - language models beside PyTorch's, as peers.sh has the others. `make bench-gpt` runs it.
#
#   gpt.sh [measure | report]     both, unless one is named
#
# CASES are "MODEL@LENGTH:BATCH..."; all else is as there.

. "${YOKE_SRCDIR:?}/tests/bench/lib.sh"
. "${YOKE_SRCDIR:?}/tests/bench/turns.sh"

cases=${CASES:-char@256:4 char@256:16 gpt2@64:4 gpt2@512:2 gpt2@1024:1}
goals='gpt2@64:4 3 char 1.5 char@256 1.5 gpt2@512 1.5 gpt2@1024 1.5'
program=gpt
plot=none
size_option=--seq
OPTIONS="${OPTIONS:-} --clip-norm 1"

settings_of() {
    for mode in eager compile; do
        for type in float32 bfloat16; do
            echo "2,default,$mode,$type"
        done
    done
}

table() {
    echo
    version
    echo 'the faster of eager mode and torch.compile (compile), in float32, 2 threads.'
    echo 'bfloat16 (autocast) is information. AdamW; gradients are clipped at norm 1.'
    rounds_and_machine
    cat <<'END'
Least and greatest in brackets; times are the ratio of the medians, and of single rounds.

| model, batch x length | yoke, tokens/s | of the peak | PyTorch, tokens/s | fastest with | times PyTorch | goal | bfloat16, tokens/s |
| --- | --- | --- | --- | --- | --- | --- | --- |
END
    "$awk" "$statistics$words"'
        {
            split($1, name, "@")
            tokens = 1000 * $2 * name[2]
            printf "| %s, %s x %s | %.0f (%.0f-%.0f) | %.2f | %.0f (%.0f-%.0f) | %s | **%.1f** (%.1f-%.1f) | %s%s | %s |\n",
                name[1], $2, name[2], tokens / $3, tokens / $5, tokens / $4, $17, tokens / $7, tokens / $9,
                tokens / $8, words($6), $10, $11, $12, ($13 == "-" ? "" : $13),
                ($13 == "-" || $10 >= $13 ? "" : ", missed"), ($16 == "-" ? "" : sprintf("%.0f", tokens / $16))
        }' "$work/summary"
    echo
}

main "$@"

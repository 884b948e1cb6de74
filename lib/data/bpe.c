/* SPDX-License-Identifier: Apache-2.0
 *
 * bpe.c - merges the bytes of a piece to tokens: always the pair of the lowest rank, and of equal
 * ones the first.
 *
 * The symbols of a piece are a list in an array. A heap holds pairs that can be merged; those of
 * symbols that have changed since are skipped. So a piece of n bytes takes n log n steps.
 */
#include <string.h>

#include "data/tokenizer.h"

void
yki_bpe_clear(yki_bpe *bpe)
{
    yki_free(bpe->symbols);
    yki_free(bpe->heap);
    memset(bpe, 0, sizeof *bpe);
}

/* ---- merges by their pairs ---- */

static size_t
place_of(const yoke_tokenizer *t, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at;

    key *= 0x9E3779B97F4A7C15u;
    at = (size_t)(key >> 20) & (t->by_pair_size - 1);
    while (t->by_pair[at]) {
        const yki_joined *m = &t->merges[t->by_pair[at] - 1];

        if (m->left == left && m->right == right)
            break;
        at = (at + 1) & (t->by_pair_size - 1);
    }
    return at;
}

const yki_joined *
yki_bpe_find(const yoke_tokenizer *t, int32_t left, int32_t right)
{
    size_t at;

    if (!t->by_pair_size)
        return NULL;
    at = place_of(t, left, right);
    return t->by_pair[at] ? &t->merges[t->by_pair[at] - 1] : NULL;
}

/* Of a pair that occurs twice the last rank counts, as in Hugging Face's map. */
yoke_status
yki_bpe_index(yoke_tokenizer *t)
{
    size_t size = 16;

    while (size < 2 * t->merge_count)
        size *= 2;
    yki_free(t->by_pair);
    t->by_pair_size = 0;
    if (!(t->by_pair = yki_alloc(size, sizeof *t->by_pair, "merges of a tokenizer")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    t->by_pair_size = size;
    for (size_t i = 0; i < t->merge_count; i++)
        t->by_pair[place_of(t, t->merges[i].left, t->merges[i].right)] = (uint32_t)i + 1;
    return YOKE_OK;
}

/* ---- the heap ---- */

static bool
is_before(const struct yki_candidate *a, const struct yki_candidate *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static yoke_status
push(yki_bpe *b, struct yki_candidate c)
{
    size_t at = b->heap_count;

    YKI_TRY(
        yki_grow((void **)&b->heap, &b->heap_capacity, at + 1, sizeof *b->heap, "pairs of a text"));
    b->heap_count++;
    for (; at > 0 && is_before(&c, &b->heap[(at - 1) / 2]); at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = c;
    return YOKE_OK;
}

static struct yki_candidate
pop(yki_bpe *b)
{
    struct yki_candidate top = b->heap[0], last = b->heap[--b->heap_count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < b->heap_count) {
        if (child + 1 < b->heap_count && is_before(&b->heap[child + 1], &b->heap[child]))
            child++;
        if (!is_before(&b->heap[child], &last))
            break;
        b->heap[at] = b->heap[child];
        at = child;
    }
    b->heap[at] = last;
    return top;
}

/* ---- merging ---- */

/* The merge of the symbol at `at` with the next one; NULL: none. A symbol that is merged into the
 * one before it has a token of -1. */
static const yki_joined *
merge_at(const yki_bpe *b, const yoke_tokenizer *t, int32_t at)
{
    if (at < 0 || b->symbols[at].token < 0 || b->symbols[at].after < 0)
        return NULL;
    return yki_bpe_find(t, b->symbols[at].token, b->symbols[b->symbols[at].after].token);
}

static yoke_status
offer(yki_bpe *b, const yoke_tokenizer *t, int32_t at)
{
    const yki_joined *m = merge_at(b, t, at);

    return m ? push(b, (struct yki_candidate){(uint32_t)(m - t->merges), at}) : YOKE_OK;
}

static yoke_status
merge_all(yki_bpe *b, const yoke_tokenizer *t)
{
    struct yki_symbol *s = b->symbols;

    while (b->heap_count) {
        const struct yki_candidate c = pop(b);
        const yki_joined *m = merge_at(b, t, c.at);
        int32_t gone;

        if (!m || m - t->merges != c.rank)
            continue;
        gone = s[c.at].after;
        s[c.at].token = m->result;
        s[c.at].after = s[gone].after;
        s[gone].token = -1;
        if (s[c.at].after >= 0)
            s[s[c.at].after].before = c.at;
        YKI_TRY(offer(b, t, s[c.at].before));
        YKI_TRY(offer(b, t, c.at));
    }
    return YOKE_OK;
}

yoke_status
yki_bpe_encode(yki_bpe *b, const yoke_tokenizer *t, const unsigned char *piece, size_t length,
               yki_tokens *tokens)
{
    int32_t at = 0;

    YKI_TRY(yki_grow((void **)&b->symbols, &b->symbol_capacity, length, sizeof *b->symbols,
                     "symbols of a text"));
    for (size_t i = 0; i < length; i++)
        b->symbols[i] = (struct yki_symbol){t->bytes[piece[i]], (int32_t)i - 1,
                                            i + 1 < length ? (int32_t)i + 1 : -1};
    b->heap_count = 0;
    for (size_t i = 0; t->merge_count && i + 1 < length; i++)
        YKI_TRY(offer(b, t, (int32_t)i));
    YKI_TRY(merge_all(b, t));
    YKI_TRY(yki_grow((void **)&tokens->list, &tokens->capacity, tokens->count + length,
                     sizeof *tokens->list, "tokens"));
    for (; at >= 0 && length; at = b->symbols[at].after)
        tokens->list[tokens->count++] = b->symbols[at].token;
    return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer_train.c - learns a byte-level BPE from a text: the most frequent pair of tokens becomes
 * a token, again and again.
 *
 * Equal pieces of the text are one word with a count. Each pair knows the words it is in, so a
 * merge looks at these alone. Pairs wait in a heap with the count that they had when they were put
 * in; one that has become rarer is put back. Of equally frequent pairs the one of the smaller
 * tokens comes first, so the result follows from the text alone.
 */
#include <string.h>

#include "data/tokenizer.h"

/* ---- pieces ---- */

void
yki_pieces_clear(yki_pieces *p)
{
    yki_free(p->list);
    yki_free(p->pool);
    yki_free(p->table);
    memset(p, 0, sizeof *p);
}

static size_t
piece_place(const yki_pieces *p, const unsigned char *text, size_t length)
{
    size_t at = (size_t)yki_checksum_of(text, length) & (p->table_size - 1);

    while (p->table[at]) {
        const struct yki_piece *of = &p->list[p->table[at] - 1];

        if (of->length == length && memcmp(p->pool + of->offset, text, length) == 0)
            break;
        at = (at + 1) & (p->table_size - 1);
    }
    return at;
}

static yoke_status
widen(yki_pieces *p)
{
    size_t size = YKI_MAX(2 * p->table_size, (size_t)1024);
    uint32_t *table = yki_alloc(size, sizeof *table, "pieces of a text");

    if (!table)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_free(p->table);
    p->table = table;
    p->table_size = size;
    for (size_t i = 0; i < p->count; i++)
        table[piece_place(p, p->pool + p->list[i].offset, p->list[i].length)] = (uint32_t)i + 1;
    return YOKE_OK;
}

yoke_status
yki_pieces_add(yki_pieces *p, const unsigned char *text, size_t length)
{
    size_t at;

    if (2 * (p->count + 1) > p->table_size)
        YKI_TRY(widen(p));
    at = piece_place(p, text, length);
    if (!p->table[at]) {
        YKI_TRY(yki_grow((void **)&p->list, &p->capacity, p->count + 1, sizeof *p->list,
                         "pieces of a text"));
        YKI_TRY(yki_grow((void **)&p->pool, &p->pool_capacity, p->pool_size + length, 1,
                         "pieces of a text"));
        memcpy(p->pool + p->pool_size, text, length);
        p->list[p->count] = (struct yki_piece){p->pool_size, length, 0};
        p->pool_size += length;
        p->table[at] = (uint32_t)++p->count;
    }
    p->list[p->table[at] - 1].count++;
    return YOKE_OK;
}

/* ---- pairs ---- */

typedef struct pair {
    int32_t left, right;
    int64_t count;
    uint32_t *words; /* that it is or was in */
    size_t word_count, word_capacity;
} pair;

typedef struct waiting {
    int64_t count; /* that the pair had */
    int32_t left, right;
    uint32_t pair;
} waiting;

typedef struct learning {
    const yki_pieces *pieces;
    int32_t *symbols; /* of each word, where its bytes are in the pool */
    size_t *lengths;  /* symbols of each word */
    pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *table; /* of number + 1 */
    size_t table_size;
    waiting *heap;
    size_t heap_count, heap_capacity;
} learning;

static size_t
pair_place(const learning *l, int32_t left, int32_t right)
{
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    size_t at = (size_t)(key >> 20) & (l->table_size - 1);

    while (l->table[at]) {
        const pair *p = &l->pairs[l->table[at] - 1];

        if (p->left == left && p->right == right)
            break;
        at = (at + 1) & (l->table_size - 1);
    }
    return at;
}

static yoke_status
widen_pairs(learning *l)
{
    size_t size = YKI_MAX(2 * l->table_size, (size_t)4096);
    uint32_t *table = yki_alloc(size, sizeof *table, "pairs of tokens");

    if (!table)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_free(l->table);
    l->table = table;
    l->table_size = size;
    for (size_t i = 0; i < l->pair_count; i++)
        table[pair_place(l, l->pairs[i].left, l->pairs[i].right)] = (uint32_t)i + 1;
    return YOKE_OK;
}

/* Adds to the count of a pair, which a word has if `count` is positive. */
static yoke_status
count_pair(learning *l, int32_t left, int32_t right, int64_t count, uint32_t word)
{
    size_t at;
    pair *p;

    if (2 * (l->pair_count + 1) > l->table_size)
        YKI_TRY(widen_pairs(l));
    at = pair_place(l, left, right);
    if (!l->table[at]) {
        YKI_TRY(yki_grow((void **)&l->pairs, &l->pair_capacity, l->pair_count + 1, sizeof *l->pairs,
                         "pairs of tokens"));
        l->pairs[l->pair_count] = (pair){.left = left, .right = right};
        l->table[at] = (uint32_t)++l->pair_count;
    }
    p = &l->pairs[l->table[at] - 1];
    p->count += count;
    if (count < 0 || (p->word_count && p->words[p->word_count - 1] == word))
        return YOKE_OK;
    YKI_TRY(yki_grow((void **)&p->words, &p->word_capacity, p->word_count + 1, sizeof *p->words,
                     "words of a pair"));
    p->words[p->word_count++] = word;
    return YOKE_OK;
}

static yoke_status
count_word(learning *l, uint32_t word, int64_t sign)
{
    const struct yki_piece *piece = &l->pieces->list[word];
    const int32_t *s = l->symbols + piece->offset;

    for (size_t i = 0; i + 1 < l->lengths[word]; i++)
        YKI_TRY(count_pair(l, s[i], s[i + 1], sign * piece->count, word));
    return YOKE_OK;
}

/* ---- the heap ---- */

static bool
is_before(const waiting *a, const waiting *b)
{
    return a->count != b->count ? a->count > b->count
           : a->left != b->left ? a->left < b->left
                                : a->right < b->right;
}

static yoke_status
push(learning *l, uint32_t number)
{
    const pair *p = &l->pairs[number];
    const waiting w = {p->count, p->left, p->right, number};
    size_t at = l->heap_count;

    YKI_TRY(
        yki_grow((void **)&l->heap, &l->heap_capacity, at + 1, sizeof *l->heap, "pairs of tokens"));
    l->heap_count++;
    for (; at > 0 && is_before(&w, &l->heap[(at - 1) / 2]); at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = w;
    return YOKE_OK;
}

static waiting
pop(learning *l)
{
    waiting top = l->heap[0], last = l->heap[--l->heap_count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < l->heap_count) {
        if (child + 1 < l->heap_count && is_before(&l->heap[child + 1], &l->heap[child]))
            child++;
        if (!is_before(&l->heap[child], &last))
            break;
        l->heap[at] = l->heap[child];
        at = child;
    }
    l->heap[at] = last;
    return top;
}

/* Takes the most frequent pair; false: none occurs twice. */
static yoke_status
take_best(learning *l, uint32_t *best, bool *found)
{
    *found = false;
    while (l->heap_count) {
        const waiting w = pop(l);
        const int64_t now = l->pairs[w.pair].count;

        if (now == w.count) {
            *best = w.pair;
            *found = now > 1;
            return YOKE_OK;
        }
        if (now > 1 && now < w.count)
            YKI_TRY(push(l, w.pair));
    }
    return YOKE_OK;
}

/* ---- merging ---- */

static void
merge_word(learning *l, uint32_t word, int32_t left, int32_t right, int32_t token)
{
    int32_t *s = l->symbols + l->pieces->list[word].offset;
    size_t kept = 0;

    for (size_t i = 0; i < l->lengths[word]; i++) {
        const bool both = i + 1 < l->lengths[word] && s[i] == left && s[i + 1] == right;

        s[kept++] = both ? token : s[i];
        i += both;
    }
    l->lengths[word] = kept;
}

/* Puts the pairs of a new token that a word has into the heap. */
static yoke_status
push_new(learning *l, uint32_t word, int32_t token)
{
    const int32_t *s = l->symbols + l->pieces->list[word].offset;

    for (size_t i = 0; i + 1 < l->lengths[word]; i++)
        if (s[i] == token || s[i + 1] == token)
            YKI_TRY(push(l, l->table[pair_place(l, s[i], s[i + 1])] - 1));
    return YOKE_OK;
}

static yoke_status
merge_pair(learning *l, uint32_t number, int32_t token)
{
    const int32_t left = l->pairs[number].left, right = l->pairs[number].right;
    uint32_t *words = l->pairs[number].words;
    size_t count = l->pairs[number].word_count;
    yoke_status status = YOKE_OK;

    l->pairs[number].words = NULL;
    l->pairs[number].word_count = l->pairs[number].word_capacity = 0;
    for (size_t i = 0; i < count && status == YOKE_OK; i++) {
        status = count_word(l, words[i], -1);
        merge_word(l, words[i], left, right, token);
        if (status == YOKE_OK)
            status = count_word(l, words[i], 1);
    }
    for (size_t i = 0; i < count && status == YOKE_OK; i++)
        status = push_new(l, words[i], token);
    yki_free(words);
    return status;
}

static yoke_status
start(learning *l)
{
    const yki_pieces *p = l->pieces;

    l->symbols = yki_alloc(YKI_MAX(p->pool_size, (size_t)1), sizeof *l->symbols, "symbols");
    l->lengths = yki_alloc(YKI_MAX(p->count, (size_t)1), sizeof *l->lengths, "words");
    if (!l->symbols || !l->lengths)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < p->pool_size; i++)
        l->symbols[i] = p->pool[i];
    for (size_t i = 0; i < p->count; i++) {
        l->lengths[i] = p->list[i].length;
        YKI_TRY(count_word(l, (uint32_t)i, 1));
    }
    for (size_t i = 0; i < l->pair_count; i++)
        YKI_TRY(push(l, (uint32_t)i));
    return YOKE_OK;
}

/* The token of a text, which other merges may make too; t->count if there is none yet. */
static int32_t
token_of(const yoke_tokenizer *t, const unsigned char *text, size_t length)
{
    int32_t i = 0;

    while (i < t->count && (t->texts[i].length != length ||
                            memcmp(t->pool + t->texts[i].offset, text, length) != 0))
        i++;
    return i;
}

/* Puts the token that two others make. */
static yoke_status
put_merged(yoke_tokenizer *t, int32_t left, int32_t right, int32_t *token)
{
    const yki_token_text a = t->texts[left], b = t->texts[right];
    unsigned char *text = yki_alloc(a.length + b.length, 1, "a token");
    yoke_status status = YOKE_OK;

    if (!text)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memcpy(text, t->pool + a.offset, a.length);
    memcpy(text + a.length, t->pool + b.offset, b.length);
    *token = token_of(t, text, a.length + b.length);
    if (*token == t->count)
        status = yki_tokenizer_put(t, *token, text, a.length + b.length);
    yki_free(text);
    return status == YOKE_OK ? yki_tokenizer_add_merge(t, left, right, *token) : status;
}

static yoke_status
learn(learning *l, int32_t vocabulary, yoke_tokenizer *t)
{
    uint32_t best;
    int32_t token;
    bool found;

    YKI_TRY(start(l));
    while (t->count + 1 < vocabulary) {
        YKI_TRY(take_best(l, &best, &found));
        if (!found)
            return YOKE_OK;
        YKI_TRY(put_merged(t, l->pairs[best].left, l->pairs[best].right, &token));
        YKI_TRY(merge_pair(l, best, token));
    }
    return YOKE_OK;
}

yoke_status
yki_bpe_train(const yki_pieces *pieces, int32_t vocabulary, yoke_tokenizer *t)
{
    static const char end_of_text[] = "<|endoftext|>";
    learning l = {.pieces = pieces};
    yoke_status status = YOKE_OK;

    for (int i = 0; i < 256 && status == YOKE_OK; i++)
        status = yki_tokenizer_put(t, i, &(unsigned char){(unsigned char)i}, 1);
    if (status == YOKE_OK && vocabulary > 256)
        status = learn(&l, vocabulary, t);
    for (size_t i = 0; i < l.pair_count; i++)
        yki_free(l.pairs[i].words);
    yki_free(l.symbols);
    yki_free(l.lengths);
    yki_free(l.pairs);
    yki_free(l.table);
    yki_free(l.heap);
    if (status == YOKE_OK && vocabulary > 256)
        status = yki_tokenizer_put(t, t->count, end_of_text, sizeof end_of_text - 1);
    if (status == YOKE_OK && vocabulary > 256)
        status = yki_tokenizer_add_named(t, t->count - 1);
    return status;
}

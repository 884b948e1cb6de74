/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.c - the tokenizer object: its vocabulary, a text to tokens and back.
 *
 * Tokens that a text names, as <|endoftext|>, are found first; what lies between them is cut into
 * pieces (pieces.c), and each piece is merged (bpe.c). Text that is no UTF-8 keeps its bytes,
 * unless the tokenizer is one of characters.
 */
#include "data/tokenizer.h"

#include <string.h>

/* ---- making and keeping ---- */

yoke_status
yki_tokenizer_make(bool characters, yki_cut cut, yoke_tokenizer **out)
{
    yoke_tokenizer *t = yki_alloc(1, sizeof *t, "a tokenizer");

    if (!t)
        return YOKE_ERROR_OUT_OF_MEMORY;
    atomic_init(&t->references, 1);
    t->characters = characters;
    t->cut = cut;
    for (size_t i = 0; i < 256; i++)
        t->bytes[i] = -1;
    *out = t;
    return YOKE_OK;
}

yoke_tokenizer *
yki_tokenizer_retain(yoke_tokenizer *t)
{
    atomic_fetch_add(&t->references, 1);
    return t;
}

void
yoke_tokenizer_destroy(yoke_tokenizer *t)
{
    if (!t || atomic_fetch_sub(&t->references, 1) > 1)
        return;
    yki_free(t->texts);
    yki_free(t->pool);
    yki_free(t->by_text);
    yki_free(t->merges);
    yki_free(t->by_pair);
    yki_free(t->added);
    yki_free(t);
}

yoke_status
yki_tokenizer_put(yoke_tokenizer *t, int32_t token, const void *text, size_t length)
{
    yki_token_text *place;

    YKI_TRY(yki_grow((void **)&t->texts, &t->text_capacity, (size_t)token + 1, sizeof *t->texts,
                     "a vocabulary"));
    YKI_TRY(
        yki_grow((void **)&t->pool, &t->pool_capacity, t->pool_size + length, 1, "a vocabulary"));
    place = &t->texts[token];
    place->offset = t->pool_size;
    place->length = length;
    memcpy(t->pool + t->pool_size, text, length);
    t->pool_size += length;
    t->count = YKI_MAX(t->count, token + 1);
    return YOKE_OK;
}

yoke_status
yki_tokenizer_add_merge(yoke_tokenizer *t, int32_t left, int32_t right, int32_t result)
{
    YKI_TRY(yki_grow((void **)&t->merges, &t->merge_capacity, t->merge_count + 1, sizeof *t->merges,
                     "merges of a tokenizer"));
    t->merges[t->merge_count++] = (yki_joined){left, right, result};
    return YOKE_OK;
}

yoke_status
yki_tokenizer_add_named(yoke_tokenizer *t, int32_t token)
{
    size_t at;

    YKI_TRY(yki_grow((void **)&t->added, &t->added_capacity, t->added_count + 1, sizeof *t->added,
                     "added tokens"));
    for (at = t->added_count++; at > 0; at--) {
        if (t->texts[t->added[at - 1]].length >= t->texts[token].length)
            break;
        t->added[at] = t->added[at - 1];
    }
    t->added[at] = token;
    return YOKE_OK;
}

static size_t
text_place(const yoke_tokenizer *t, const void *text, size_t length)
{
    size_t at = (size_t)yki_checksum_of(text, length) & (t->by_text_size - 1);

    while (t->by_text[at]) {
        const yki_token_text *of = &t->texts[t->by_text[at] - 1];

        if (of->length == length && memcmp(t->pool + of->offset, text, length) == 0)
            break;
        at = (at + 1) & (t->by_text_size - 1);
    }
    return at;
}

int32_t
yki_tokenizer_find(const yoke_tokenizer *t, const void *text, size_t length)
{
    return (int32_t)t->by_text[text_place(t, text, length)] - 1;
}

yoke_status
yki_tokenizer_finish(yoke_tokenizer *t)
{
    size_t size = 16;

    while (size < 2 * (size_t)t->count)
        size *= 2;
    if (!(t->by_text = yki_alloc(size, sizeof *t->by_text, "a vocabulary")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    t->by_text_size = size;
    for (int32_t i = 0; i < t->count; i++) {
        const yki_token_text *of = &t->texts[i];
        size_t at = of->length ? text_place(t, t->pool + of->offset, of->length) : 0;

        if (of->length && t->by_text[at])
            return yki_fail(YOKE_ERROR_FORMAT,
                            "the tokens %d and %d stand for the same text; must be one",
                            (int)t->by_text[at] - 1, (int)i);
        if (of->length)
            t->by_text[at] = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < 256 && !t->characters; i++)
        t->bytes[i] = yki_tokenizer_find(t, &(unsigned char){(unsigned char)i}, 1);
    return yki_bpe_index(t);
}

void
yki_tokenizer_hash(const yoke_tokenizer *t, yki_hash *hash)
{
    const int32_t settings[] = {t->characters, t->whole_first, (int32_t)t->cut, t->count};

    yki_hash_add(hash, settings, sizeof settings);
    for (int32_t i = 0; i < t->count; i++) {
        yki_hash_add(hash, &t->texts[i].length, sizeof t->texts[i].length);
        yki_hash_add(hash, t->pool + t->texts[i].offset, t->texts[i].length);
    }
    yki_hash_add(hash, t->merges, t->merge_count * sizeof *t->merges);
    yki_hash_add(hash, t->added, t->added_count * sizeof *t->added);
}

int64_t
yoke_tokenizer_vocabulary(const yoke_tokenizer *t)
{
    return t ? t->count : 0;
}

const char *
yoke_tokenizer_get_text(const yoke_tokenizer *t, int32_t token, size_t *length)
{
    const bool known = t && token >= 0 && token < t->count && t->texts[token].length;

    if (length)
        *length = known ? t->texts[token].length : 0;
    return known ? (const char *)t->pool + t->texts[token].offset : NULL;
}

int32_t
yoke_tokenizer_find(const yoke_tokenizer *t, const char *text)
{
    return t && text && *text ? yki_tokenizer_find(t, text, strlen(text)) : -1;
}

/* ---- encoding ---- */

typedef struct encoding {
    const yoke_tokenizer *tokenizer;
    const char *where;
    uint64_t before;
    const unsigned char *start; /* of the whole text */
    yki_tokens *tokens;
    yki_bpe bpe;
} encoding;

static yoke_status
append(encoding *e, int32_t token)
{
    yki_tokens *k = e->tokens;

    YKI_TRY(yki_grow((void **)&k->list, &k->capacity, k->count + 1, sizeof *k->list, "tokens"));
    k->list[k->count++] = token;
    return YOKE_OK;
}

static yoke_status
encode_characters(encoding *e, const unsigned char *text, size_t length)
{
    for (size_t at = 0, size; at < length; at += size) {
        const unsigned long long byte = e->before + (uint64_t)(text + at - e->start);
        int32_t code, token;

        size = yki_utf8_next(text + at, length - at, &code);
        if (code < 0)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: byte %llu, 0x%02x, is no UTF-8; must be for a tokenizer of "
                            "characters; one of bytes takes any",
                            e->where, byte, text[at]);
        token = yki_tokenizer_find(e->tokenizer, text + at, size);
        if (token < 0)
            return yki_fail(YOKE_ERROR_VALUE,
                            "%s: the character U+%04X at byte %llu is none of the tokenizer's %d",
                            e->where, (unsigned)code, byte, (int)e->tokenizer->count);
        YKI_TRY(append(e, token));
    }
    return YOKE_OK;
}

static yoke_status
check_bytes(const encoding *e, const unsigned char *piece, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (e->tokenizer->bytes[piece[i]] < 0)
            return yki_fail(
                YOKE_ERROR_VALUE, "%s: byte %llu is 0x%02x, for which the tokenizer has no token",
                e->where, (unsigned long long)(e->before + (uint64_t)(piece + i - e->start)),
                piece[i]);
    return YOKE_OK;
}

static yoke_status
encode_piece(encoding *e, const unsigned char *piece, size_t length)
{
    const yoke_tokenizer *t = e->tokenizer;
    int32_t whole = t->whole_first ? yki_tokenizer_find(t, piece, length) : -1;

    if (whole >= 0)
        return append(e, whole);
    YKI_TRY(check_bytes(e, piece, length));
    return yki_bpe_encode(&e->bpe, t, piece, length, e->tokens);
}

/* Encodes text without tokens that it names. */
static yoke_status
encode_plain(encoding *e, const unsigned char *text, size_t length)
{
    if (e->tokenizer->characters)
        return encode_characters(e, text, length);
    while (length) {
        size_t size = yki_next_piece(e->tokenizer->cut, text, length);

        YKI_TRY(encode_piece(e, text, size));
        text += size;
        length -= size;
    }
    return YOKE_OK;
}

/* The added token that begins the text; -1: none. */
static int32_t
named_at(const yoke_tokenizer *t, const unsigned char *text, size_t length)
{
    for (size_t i = 0; i < t->added_count; i++) {
        const yki_token_text *of = &t->texts[t->added[i]];

        if (of->length <= length && memcmp(t->pool + of->offset, text, of->length) == 0)
            return t->added[i];
    }
    return -1;
}

static yoke_status
encode_all(encoding *e, const unsigned char *text, size_t length)
{
    const yoke_tokenizer *t = e->tokenizer;
    bool begins[256] = {false};
    size_t done = 0, at = 0;

    for (size_t i = 0; i < t->added_count; i++)
        begins[t->pool[t->texts[t->added[i]].offset]] = true;
    while (at < length) {
        int32_t token = begins[text[at]] ? named_at(t, text + at, length - at) : -1;

        if (token < 0) {
            at++;
            continue;
        }
        YKI_TRY(encode_plain(e, text + done, at - done));
        YKI_TRY(append(e, token));
        done = at += t->texts[token].length;
    }
    return encode_plain(e, text + done, length - done);
}

yoke_status
yki_tokenizer_encode(const yoke_tokenizer *t, const char *text, size_t length, const char *where,
                     uint64_t before, yki_tokens *tokens)
{
    encoding e = {.tokenizer = t,
                  .where = where,
                  .before = before,
                  .start = (const unsigned char *)text,
                  .tokens = tokens};
    yoke_status status;

    if (length > INT32_MAX)
        return yki_fail_range(YOKE_ERROR_VALUE, "the length of a text", (int64_t)length, 0,
                              INT32_MAX);
    status = encode_all(&e, e.start, length);
    yki_bpe_clear(&e.bpe);
    return status;
}

yoke_status
yoke_tokenizer_encode(const yoke_tokenizer *t, const char *text, size_t length, int32_t **tokens,
                      size_t *count)
{
    yki_tokens made = {0};
    yoke_status status;

    YKI_GIVEN("yoke_tokenizer_encode", {"tokenizer", t}, {"text", length ? text : ""},
              {"tokens", tokens}, {"count", count});
    status = yki_grow((void **)&made.list, &made.capacity, 1, sizeof *made.list, "tokens");
    if (status == YOKE_OK)
        status = yki_tokenizer_encode(t, text, length, "the text", 0, &made);
    if (status != YOKE_OK) {
        yki_free(made.list);
        return status;
    }
    *tokens = made.list;
    *count = made.count;
    return YOKE_OK;
}

/* ---- decoding ---- */

yoke_status
yoke_tokenizer_decode(const yoke_tokenizer *t, const int32_t *tokens, size_t count, char **text,
                      size_t *length)
{
    size_t size = 0;
    char *out;

    YKI_GIVEN("yoke_tokenizer_decode", {"tokenizer", t},
              {"tokens", count ? (const void *)tokens : ""}, {"text", text}, {"length", length});
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= t->count)
            return yki_fail(YOKE_ERROR_VALUE, "token %zu is %d; must be between 0 and %d", i,
                            (int)tokens[i], (int)t->count - 1);
        size += t->texts[tokens[i]].length;
    }
    if (!(out = yki_alloc(size + 1, 1, "a text")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    *text = out;
    *length = size;
    for (size_t i = 0; i < count; i++) {
        const yki_token_text *of = &t->texts[tokens[i]];

        memcpy(out, t->pool + of->offset, of->length);
        out += of->length;
    }
    return YOKE_OK;
}

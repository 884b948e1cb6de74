/* SPDX-License-Identifier: Apache-2.0
 *
 * token_file.c - a text as tokens in a file beside it, so that it is made to tokens once.
 *
 * The file is one of llm.c: 256 words, then the tokens, 16 bits each or, of a larger
 * vocabulary, 32. Words that llm.c leaves 0 have what the tokens were made of: the tokenizer, and
 * the size and the time of each file of the text. When these differ the file is made again.
 */
#include <string.h>

#include "data/token_file.h"

enum {
    WORDS = 256,
    HEADER = 4 * WORDS,
    NARROW = 20240520, /* llm.c's number for 16 bits, with version 1 */
    WIDE = 20240801,   /* for 32 bits, with version 7 */
    OWN = 0x656B6F79,  /* "yoke" */
    FLUSH = 1 << 16    /* tokens */
};

/* The words of the header after llm.c's own three. */
enum { WORD_OWN = 3, WORD_KEY = 4 };

static uint32_t
word_of(const unsigned char *head, size_t index)
{
    return (uint32_t)yki_little_endian(head + 4 * index, 4);
}

static void
put_word(unsigned char *head, size_t index, uint32_t value)
{
    yki_put_little_endian(head + 4 * index, value, 4);
}

bool
yki_is_token_file(const unsigned char *head, size_t size)
{
    return size >= 4 && (word_of(head, 0) == NARROW || word_of(head, 0) == WIDE);
}

yoke_status
yki_token_file_parse(yki_bytes *bytes, yki_column *column)
{
    unsigned char head[HEADER];
    uint64_t count, size;
    size_t got;
    bool wide;

    YKI_TRY(yki_bytes_peek(bytes, head, sizeof head, &got));
    if (got < sizeof head || !yki_is_token_file(head, got))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s is no file of tokens: it does not begin with the header of llm.c, 1024 "
                        "bytes with the number %d or %d; raw numbers can be read as .npy",
                        yki_bytes_name(bytes), NARROW, WIDE);
    wide = word_of(head, 0) == WIDE;
    if (word_of(head, 1) != (wide ? 7u : 1u))
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s is of version %u of its format; must be %d",
                        yki_bytes_name(bytes), word_of(head, 1), wide ? 7 : 1);
    count = word_of(head, 2);
    size = wide ? 4 : 2;
    YKI_TRY(yki_bytes_expect(bytes, HEADER + count * size));
    column->number = wide ? YKI_NUMBER_U32 : YKI_NUMBER_U16;
    column->stride = size;
    return yki_column_add(column, bytes, HEADER, (int64_t)count);
}

/* ---- writing ---- */

typedef struct writing {
    const yoke_tokenizer *tokenizer;
    const char *path; /* of the present file of the text */
    yki_replace *file;
    unsigned char *memory; /* if there is no file */
    size_t memory_size, memory_capacity;
    unsigned char head[HEADER];
    uint64_t count;
    int32_t end; /* the token between two files; -1: none */
    yki_tokens tokens;
} writing;

static yoke_status
put_bytes(writing *w, const void *data, size_t size)
{
    if (w->file)
        return yki_replace_write(w->file, data, size);
    YKI_TRY(yki_grow((void **)&w->memory, &w->memory_capacity, w->memory_size + size, 1, "tokens"));
    memcpy(w->memory + w->memory_size, data, size);
    w->memory_size += size;
    return YOKE_OK;
}

static yoke_status
put_tokens(writing *w)
{
    const size_t size = w->tokenizer->count <= 65536 ? 2 : 4;
    unsigned char bytes[4 * 1024];
    size_t used = 0;

    for (size_t i = 0; i < w->tokens.count; i++) {
        const uint32_t token = (uint32_t)w->tokens.list[i];

        for (size_t k = 0; k < size; k++)
            bytes[used++] = (unsigned char)(token >> 8 * k);
        if (used < sizeof bytes && i + 1 < w->tokens.count)
            continue;
        YKI_TRY(put_bytes(w, bytes, used));
        used = 0;
    }
    w->count += w->tokens.count;
    w->tokens.count = 0;
    return YOKE_OK;
}

static yoke_status
take(void *user, const char *text, size_t length, uint64_t before)
{
    writing *w = user;

    YKI_TRY(yki_tokenizer_encode(w->tokenizer, text, length, w->path, before, &w->tokens));
    return w->tokens.count < FLUSH ? YOKE_OK : put_tokens(w);
}

static yoke_status
end_file(writing *w)
{
    if (w->end < 0)
        return YOKE_OK;
    YKI_TRY(yki_grow((void **)&w->tokens.list, &w->tokens.capacity, w->tokens.count + 1,
                     sizeof *w->tokens.list, "tokens"));
    w->tokens.list[w->tokens.count++] = w->end;
    return YOKE_OK;
}

static yoke_status
write_all(writing *w, const yki_corpus *corpus)
{
    const uint32_t most = UINT32_MAX;

    YKI_TRY(put_bytes(w, w->head, sizeof w->head));
    for (size_t i = 0; i < corpus->count; i++) {
        w->path = corpus->files[i].path;
        YKI_TRY(yki_corpus_read(&corpus->files[i], take, w));
        YKI_TRY(end_file(w));
    }
    YKI_TRY(put_tokens(w));
    if (w->count > most)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s: the text has more than %u tokens; must be split into several",
                        corpus->files[0].path, most);
    put_word(w->head, 2, (uint32_t)w->count);
    if (w->file)
        return yki_replace_patch(w->file, 0, w->head, sizeof w->head);
    memcpy(w->memory, w->head, sizeof w->head);
    return YOKE_OK;
}

/* The key is of the content of files by their size and time, as make(1) has it. */
static void
make_head(writing *w, const yki_corpus *corpus)
{
    yki_hash hash;

    yki_hash_start(&hash);
    yki_tokenizer_hash(w->tokenizer, &hash);
    for (size_t i = 0; i < corpus->count; i++) {
        const struct yki_corpus_file *file = &corpus->files[i];

        yki_hash_string(&hash, corpus->folder ? file->path : "");
        yki_hash_add(&hash, &file->size, sizeof file->size);
        yki_hash_add(&hash, &file->time, sizeof file->time);
    }
    put_word(w->head, 0, w->tokenizer->count <= 65536 ? NARROW : WIDE);
    put_word(w->head, 1, w->tokenizer->count <= 65536 ? 1 : 7);
    put_word(w->head, WORD_OWN, OWN);
    for (size_t i = 0; i < 4; i++)
        put_word(w->head, WORD_KEY + i, (uint32_t)(hash.h[i / 2] >> 32 * (i % 2)));
}

/* Whether a file is there that was made of the same text by the same tokenizer. */
static bool
is_current(const char *path, const unsigned char *head, yki_column *column)
{
    unsigned char own[HEADER];
    yki_bytes *bytes;
    size_t got;
    bool same;

    if (yki_bytes_open(path, &bytes) != YOKE_OK)
        return false;
    same = yki_bytes_peek(bytes, own, sizeof own, &got) == YOKE_OK && got == sizeof own &&
           memcmp(own, head, 8) == 0 && memcmp(own + 12, head + 12, HEADER - 12) == 0 &&
           yki_token_file_parse(bytes, column) == YOKE_OK;
    yki_bytes_release(bytes);
    return same;
}

/* Opens what was written. */
static yoke_status
open_written(writing *w, const char *path, yki_column *column)
{
    yki_bytes *bytes;
    yoke_status status;

    if (w->file) {
        yki_replace *file = w->file;

        w->file = NULL;
        YKI_TRY(yki_replace_commit(file));
        YKI_TRY(yki_bytes_open(path, &bytes));
    } else {
        YKI_TRY(yki_bytes_take(w->memory, w->memory_size, path, &bytes));
        w->memory = NULL;
    }
    status = yki_token_file_parse(bytes, column);
    yki_bytes_release(bytes);
    return status;
}

static yoke_status
make(writing *w, const yki_corpus *corpus, const char *path, yki_column *column)
{
    yoke_status status;

    make_head(w, corpus);
    if (is_current(path, w->head, column))
        return YOKE_OK;
    if (yki_replace_begin(path, &w->file) != YOKE_OK) {
        w->file = NULL;
        yki_log(YOKE_LOG_INFO, "%s; the tokens stay in memory", yoke_last_error());
    }
    status = write_all(w, corpus);
    if (status == YOKE_OK)
        status = open_written(w, path, column);
    yki_replace_drop(w->file);
    yki_free(w->memory);
    yki_free(w->tokens.list);
    return status;
}

static int32_t
end_of_text(const yoke_tokenizer *t)
{
    const int32_t token = yoke_tokenizer_find(t, "<|endoftext|>");

    return token < 0 ? yoke_tokenizer_find(t, "<|end_of_text|>") : token;
}

yoke_status
yki_text_to_tokens(const char *path, const yoke_tokenizer *t, yki_column *column)
{
    writing w = {.tokenizer = t, .end = end_of_text(t)};
    yki_corpus corpus;
    yoke_status status;
    char *beside;

    YKI_TRY(yki_corpus_find(path, &corpus));
    beside = yki_format("%s%s", path, corpus.folder ? "/yoke.tokens" : ".tokens");
    status = beside ? make(&w, &corpus, beside, column) : YOKE_ERROR_OUT_OF_MEMORY;
    yki_free(beside);
    yki_corpus_clear(&corpus);
    return status;
}

yoke_status
yoke_tokenizer_encode_file(const yoke_tokenizer *t, const char *path, const char *out,
                           int64_t *count)
{
    yki_column column = {0};
    yki_corpus corpus;
    yoke_status status;
    writing w = {.tokenizer = t};

    YKI_GIVEN("yoke_tokenizer_encode_file", {"tokenizer", t}, {"path", path}, {"out", out});
    w.end = end_of_text(t);
    YKI_TRY(yki_corpus_find(path, &corpus));
    make_head(&w, &corpus);
    status = yki_replace_begin(out, &w.file);
    if (status == YOKE_OK) {
        status = write_all(&w, &corpus);
        if (status == YOKE_OK)
            status = open_written(&w, out, &column);
        yki_replace_drop(w.file);
    }
    if (status == YOKE_OK && count)
        *count = column.count;
    yki_column_clear(&column);
    yki_free(w.tokens.list);
    yki_corpus_clear(&corpus);
    return status;
}

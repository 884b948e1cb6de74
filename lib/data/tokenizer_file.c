/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer_file.c - where tokenizers come from: files, the metadata of a model's weights, or a
 * text.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/text.h"
#include "data/tokenizer.h"
#include "data/weights_file.h"

/* ---- files ---- */

static yoke_status
read_file(const char *path, yoke_tokenizer **tokenizer)
{
    char *text;
    size_t length;
    yoke_status status;

    YKI_TRY(yki_read_small(path, &text, &length));
    status = yki_tokenizer_read(text, length, path, tokenizer);
    yki_free(text);
    return status;
}

static yoke_status
read_pair(const char *vocabulary, const char *merges, yoke_tokenizer **tokenizer)
{
    char *words, *pairs;
    size_t words_length, pairs_length;
    yoke_status status;

    YKI_TRY(yki_read_small(vocabulary, &words, &words_length));
    status = yki_read_small(merges, &pairs, &pairs_length);
    if (status == YOKE_OK) {
        status = yki_tokenizer_read_pair(words, words_length, pairs, pairs_length, vocabulary,
                                         tokenizer);
        yki_free(pairs);
    }
    yki_free(words);
    return status;
}

static bool
is_file(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Looks in a folder, whose name ends with a slash or is empty. */
static yoke_status
read_folder(const char *folder, size_t length, yoke_tokenizer **tokenizer)
{
    char *json = yki_format("%.*s%s", (int)length, folder, "tokenizer.json");
    char *words = yki_format("%.*s%s", (int)length, folder, "vocab.json");
    char *merges = yki_format("%.*s%s", (int)length, folder, "merges.txt");
    yoke_status status = json && words && merges ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK && is_file(json))
        status = read_file(json, tokenizer);
    else if (status == YOKE_OK && is_file(words) && is_file(merges))
        status = read_pair(words, merges, tokenizer);
    else if (status == YOKE_OK)
        status = yki_fail(YOKE_ERROR_NOT_FOUND,
                          "%.*s has no tokenizer; must be a tokenizer.json, or a vocab.json and a "
                          "merges.txt",
                          length ? (int)length : 1, length ? folder : ".");
    yki_free(json);
    yki_free(words);
    yki_free(merges);
    return status;
}

/* The length of the part of a path that is its folder, with the slash. */
static size_t
folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The tokenizer of a model is in its file, or beside it. */
static yoke_status
read_weights(const char *path, yoke_tokenizer **tokenizer)
{
    yki_safetensors *file;
    const char *text;
    yoke_status status;

    YKI_TRY(yki_safetensors_open(path, &file));
    text = yki_safetensors_text(file, YKI_TOKENIZER_KEY);
    status = text ? yki_tokenizer_read(text, strlen(text), path, tokenizer)
                  : read_folder(path, folder_of(path), tokenizer);
    yki_safetensors_close(file);
    return status;
}

yoke_status
yoke_tokenizer_open(const char *path, yoke_tokenizer **tokenizer)
{
    const char *name;
    struct stat about;
    char *folder;
    yoke_status status;

    YKI_GIVEN("yoke_tokenizer_open", {"path", path}, {"tokenizer", tokenizer});
    name = path + folder_of(path);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        if (!(folder = yki_format("%s/", path)))
            return YOKE_ERROR_OUT_OF_MEMORY;
        status = read_folder(folder, strlen(folder), tokenizer);
        yki_free(folder);
        return status;
    }
    if (yki_ends_with(path, ".safetensors"))
        return read_weights(path, tokenizer);
    if (strcmp(name, "vocab.json") == 0 || strcmp(name, "merges.txt") == 0)
        return read_folder(path, folder_of(path), tokenizer);
    return read_file(path, tokenizer);
}

yoke_status
yki_tokenizer_beside(const char *path, yoke_tokenizer **tokenizer)
{
    struct stat about;
    yoke_status status;
    char *folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode)
                       ? yki_format("%s/", path)
                       : yki_format("%.*s", (int)folder_of(path), path);

    if (!folder)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = read_folder(folder, strlen(folder), tokenizer);
    yki_free(folder);
    return status;
}

yoke_status
yoke_tokenizer_save(const yoke_tokenizer *t, const char *path)
{
    yki_replace *replace;
    yoke_status status;
    char *text;

    YKI_GIVEN("yoke_tokenizer_save", {"tokenizer", t}, {"path", path});
    YKI_TRY(yki_tokenizer_write(t, &text));
    status = yki_replace_begin(path, &replace);
    if (status == YOKE_OK) {
        status = yki_replace_write(replace, text, strlen(text));
        if (status == YOKE_OK)
            status = yki_replace_commit(replace);
        else
            yki_replace_drop(replace);
    }
    yki_free(text);
    return status;
}

/* ---- a text ---- */

typedef struct lesson {
    const char *path; /* of the present file */
    yki_cut cut;
    yki_pieces pieces;
    bool *seen; /* characters; NULL: pieces are counted */
} lesson;

static yoke_status
see_characters(lesson *l, const unsigned char *text, size_t length, uint64_t before)
{
    for (size_t at = 0, size; at < length; at += size) {
        int32_t code;

        size = yki_utf8_next(text + at, length - at, &code);
        if (code < 0)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: byte %llu, 0x%02x, is no UTF-8; must be for a tokenizer of "
                            "characters; one of bytes takes any",
                            l->path, (unsigned long long)(before + at), text[at]);
        if (code == 0) /* JSON keeps tokens as keys, which cannot have it */
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s: byte %llu is 0; must be no NUL for a tokenizer of characters; one "
                            "of bytes takes any",
                            l->path, (unsigned long long)(before + at));
        l->seen[code] = true;
    }
    return YOKE_OK;
}

static yoke_status
see(void *user, const char *text, size_t length, uint64_t before)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    lesson *l = user;

    if (l->seen)
        return see_characters(l, at, length, before);
    while (at < end) {
        size_t size = yki_next_piece(l->cut, at, (size_t)(end - at));

        YKI_TRY(yki_pieces_add(&l->pieces, at, size));
        at += size;
    }
    return YOKE_OK;
}

static yoke_status
read_text(lesson *l, const char *path)
{
    yki_corpus corpus;
    yoke_status status = YOKE_OK;

    YKI_TRY(yki_corpus_find(path, &corpus));
    for (size_t i = 0; i < corpus.count && status == YOKE_OK; i++) {
        l->path = corpus.files[i].path;
        status = yki_corpus_read(&corpus.files[i], see, l);
    }
    yki_corpus_clear(&corpus);
    return status;
}

static yoke_status
put_characters(const lesson *l, const char *path, yoke_tokenizer *t)
{
    char text[4];

    for (int32_t code = 0; code < 0x110000; code++)
        if (l->seen[code])
            YKI_TRY(yki_tokenizer_put(t, t->count, text, yki_utf8_put(code, text)));
    return t->count ? YOKE_OK
                    : yki_fail(YOKE_ERROR_VALUE,
                               "%s is empty; must have a character at least for a tokenizer", path);
}

static yoke_status
train(lesson *l, const char *path, const yoke_tokenizer_options *o, yoke_tokenizer *t)
{
    if (o->kind == YOKE_TOKENIZER_CHARACTERS &&
        !(l->seen = yki_alloc(0x110000, sizeof *l->seen, "characters of a text")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (o->kind != YOKE_TOKENIZER_BYTES)
        YKI_TRY(read_text(l, path));
    YKI_TRY(l->seen ? put_characters(l, path, t)
                    : yki_bpe_train(&l->pieces, (int32_t)o->vocabulary, t));
    return yki_tokenizer_finish(t);
}

static yoke_status
check_options(const char *path, yoke_tokenizer_options *o)
{
    if (o->kind != YOKE_TOKENIZER_BYTES && o->kind != YOKE_TOKENIZER_CHARACTERS &&
        o->kind != YOKE_TOKENIZER_BPE)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_tokenizer_train: kind is %d; must be YOKE_TOKENIZER_BYTES, "
                        "YOKE_TOKENIZER_CHARACTERS or YOKE_TOKENIZER_BPE",
                        (int)o->kind);
    if (o->kind == YOKE_TOKENIZER_BYTES) {
        o->vocabulary = 256;
        return YOKE_OK;
    }
    YKI_GIVEN("yoke_tokenizer_train", {"path", path});
    if (o->kind == YOKE_TOKENIZER_BPE && o->vocabulary == 0)
        o->vocabulary = 4096;
    if (o->kind == YOKE_TOKENIZER_BPE && (o->vocabulary < 257 || o->vocabulary > YKI_MOST_TOKENS))
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "yoke_tokenizer_train: vocabulary",
                              o->vocabulary, 257, YKI_MOST_TOKENS);
    return YOKE_OK;
}

yoke_status
yoke_tokenizer_train_sized(const char *path, const yoke_tokenizer_options *options, size_t size,
                           yoke_tokenizer **tokenizer)
{
    yoke_tokenizer_options o = {0};
    yoke_tokenizer *t;
    lesson l = {0};
    yoke_status status;

    YKI_GIVEN("yoke_tokenizer_train", {"tokenizer", tokenizer});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    YKI_TRY(check_options(path, &o));
    l.cut = o.kind == YOKE_TOKENIZER_BPE ? YKI_CUT_GPT2 : YKI_CUT_NONE;
    YKI_TRY(yki_tokenizer_make(o.kind == YOKE_TOKENIZER_CHARACTERS, l.cut, &t));
    status = train(&l, path, &o, t);
    yki_pieces_clear(&l.pieces);
    yki_free(l.seen);
    if (status != YOKE_OK) {
        yoke_tokenizer_destroy(t);
        return status;
    }
    *tokenizer = t;
    return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.h - the insides of a tokenizer: its vocabulary, its merges, and how it cuts a text into
 * pieces before it merges.
 *
 * A tokenizer of characters has a token for each of some characters. Every other one is a
 * byte-level BPE: each byte has a token, and pairs of tokens are merged within the pieces of a
 * text, the pair of the lowest rank first. One of plain bytes is a BPE without merges.
 */
#ifndef YKI_TOKENIZER_H
#define YKI_TOKENIZER_H

#include "data/dataset.h"

/* ---- unicode.c ---- */

typedef enum yki_character {
    YKI_CHARACTER_OTHER, /* a byte that belongs to no character, too */
    YKI_CHARACTER_LETTER,
    YKI_CHARACTER_NUMBER,
    YKI_CHARACTER_SPACE
} yki_character;

/* Decodes the character at the start of a text that is not empty, and returns the number of its
 * bytes. A byte that begins no valid character has a length of 1 and the code -1. */
size_t yki_utf8_next(const unsigned char *text, size_t length, int32_t *code);
/* Writes a character of up to 4 bytes and returns their number. */
size_t yki_utf8_put(int32_t code, char *out);
yki_character yki_character_of(int32_t code);

/* ---- pieces.c ---- */

typedef enum yki_cut { YKI_CUT_NONE, YKI_CUT_GPT2, YKI_CUT_LLAMA3, YKI_CUT_LLAMA3_DIGITS } yki_cut;

/* Returns the length of the first piece of a text that is not empty. */
size_t yki_next_piece(yki_cut cut, const unsigned char *text, size_t length);

/* ---- tokenizer.c ---- */

enum { YKI_MOST_TOKENS = 1 << 20 };

typedef struct yki_token_text {
    size_t offset; /* in `pool` */
    size_t length; /* 0: there is no such token */
} yki_token_text;

typedef struct yki_joined {
    int32_t left, right, result;
} yki_joined;

struct yoke_tokenizer {
    atomic_int references;
    bool characters;
    bool whole_first; /* a piece that is a token is not merged from its bytes */
    yki_cut cut;
    int32_t count; /* tokens, with those that are missing between others */
    yki_token_text *texts;
    size_t text_capacity;
    unsigned char *pool;
    size_t pool_size, pool_capacity;
    uint32_t *by_text; /* a hash table of token + 1; 0: free */
    size_t by_text_size;
    yki_joined *merges; /* by rank */
    size_t merge_count, merge_capacity;
    uint32_t *by_pair; /* a hash table of rank + 1 */
    size_t by_pair_size;
    int32_t bytes[256]; /* the token of each byte; -1: none */
    int32_t *added;     /* tokens that a text may name, such as <|endoftext|>; the longest first */
    size_t added_count, added_capacity;
};

/* Makes an empty one of these settings; tokens, merges and added ones follow, then
 * yki_tokenizer_finish makes it ready. */
yoke_status yki_tokenizer_make(bool characters, yki_cut cut, yoke_tokenizer **tokenizer);
yoke_status yki_tokenizer_put(yoke_tokenizer *tokenizer, int32_t token, const void *text,
                              size_t length);
yoke_status yki_tokenizer_add_merge(yoke_tokenizer *tokenizer, int32_t left, int32_t right,
                                    int32_t result);
yoke_status yki_tokenizer_add_named(yoke_tokenizer *tokenizer, int32_t token);
yoke_status yki_tokenizer_finish(yoke_tokenizer *tokenizer);
/* Returns the token of this text; -1: there is none. */
int32_t yki_tokenizer_find(const yoke_tokenizer *tokenizer, const void *text, size_t length);

/* Tokens that grow. */
typedef struct yki_tokens {
    int32_t *list;
    size_t count, capacity;
} yki_tokens;

/* Appends the tokens of a text. `where` names the text in errors; offsets count from `before`. */
yoke_status yki_tokenizer_encode(const yoke_tokenizer *tokenizer, const char *text, size_t length,
                                 const char *where, uint64_t before, yki_tokens *tokens);

/* Adds all that decides which tokens a text becomes. */
void yki_tokenizer_hash(const yoke_tokenizer *tokenizer, yki_hash *hash);

/* ---- bpe.c ---- */

/* Memory that one encoding after the other uses. Zero is empty. */
typedef struct yki_bpe {
    struct yki_symbol {
        int32_t token;
        int32_t before, after; /* symbols beside it; -1: none */
    } * symbols;
    size_t symbol_capacity;
    struct yki_candidate {
        uint32_t rank;
        int32_t at;
    } * heap;
    size_t heap_count, heap_capacity;
} yki_bpe;

void yki_bpe_clear(yki_bpe *bpe);
/* Returns the merge of two tokens, or NULL; yki_bpe_index makes the table in which it looks. */
const yki_joined *yki_bpe_find(const yoke_tokenizer *tokenizer, int32_t left, int32_t right);
yoke_status yki_bpe_index(yoke_tokenizer *tokenizer);
/* Appends the tokens of a piece, all of whose bytes have tokens. */
yoke_status yki_bpe_encode(yki_bpe *bpe, const yoke_tokenizer *tokenizer,
                           const unsigned char *piece, size_t length, yki_tokens *tokens);

/* ---- tokenizer_json.c ---- */

/* Reads a tokenizer.json. `name` is for errors. */
yoke_status yki_tokenizer_read(const char *text, size_t length, const char *name,
                               yoke_tokenizer **tokenizer);
/* Reads GPT-2's pair of vocab.json and merges.txt. */
yoke_status yki_tokenizer_read_pair(const char *vocabulary, size_t vocabulary_length,
                                    const char *merges, size_t merges_length, const char *name,
                                    yoke_tokenizer **tokenizer);
/* Returns a tokenizer.json as text, which the caller frees with yki_free. */
yoke_status yki_tokenizer_write(const yoke_tokenizer *tokenizer, char **text);

/* ---- tokenizer_file.c ---- */

/* The tokenizer in the folder of a file, or in a folder; YOKE_ERROR_NOT_FOUND: none. */
yoke_status yki_tokenizer_beside(const char *path, yoke_tokenizer **tokenizer);

/* ---- tokenizer_train.c ---- */

/* Counts pieces of texts, from which merges are learned. Zero is empty. */
typedef struct yki_pieces {
    struct yki_piece {
        size_t offset, length; /* in `pool` */
        int64_t count;
    } * list;
    size_t count, capacity;
    unsigned char *pool;
    size_t pool_size, pool_capacity;
    uint32_t *table; /* of number + 1 */
    size_t table_size;
} yki_pieces;
void yki_pieces_clear(yki_pieces *pieces);
yoke_status yki_pieces_add(yki_pieces *pieces, const unsigned char *text, size_t length);
/* Puts the tokens of all bytes, learned merges up to `vocabulary` tokens, and the end of a text. */
yoke_status yki_bpe_train(const yki_pieces *pieces, int32_t vocabulary, yoke_tokenizer *tokenizer);

/* ---- corpus.c: the files of a text ---- */

typedef struct yki_corpus {
    struct yki_corpus_file {
        char *path;
        uint64_t size;
        int64_t time; /* of its last change, nanoseconds */
    } * files;        /* by name */
    size_t count, capacity;
    bool folder;
} yki_corpus;

/* Finds the texts of a folder, and of folders in it, or one file. */
yoke_status yki_corpus_find(const char *path, yki_corpus *corpus);
void yki_corpus_clear(yki_corpus *corpus);
/* Gives a text piece by piece to `take`: each ends between a letter and a space, where no tokenizer
 * joins what it cuts. */
yoke_status yki_corpus_read(const struct yki_corpus_file *file,
                            yoke_status (*take)(void *user, const char *text, size_t length,
                                                uint64_t before),
                            void *user);
/* Reads a whole small file, as one of a tokenizer. The caller frees it with yki_free. */
yoke_status yki_read_small(const char *path, char **text, size_t *length);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_tokenizer.c - how text is cut and becomes tokens; tokenizers that are learned, written and
 * read; texts as samples, and what is refused.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/token_file.h"
#include "support/scratch.h"
#include "support/support.h"

/* ---- pieces ---- */

/* The pieces of a text with "|" between them. */
static const char *
cut_text(yki_cut cut, const char *text)
{
    static char out[512];
    size_t length = strlen(text), used = 0;

    while (length) {
        size_t size = yki_next_piece(cut, (const unsigned char *)text, length);

        used += (size_t)snprintf(out + used, sizeof out - used, "%s%.*s", used ? "|" : "",
                                 (int)size, text);
        text += size;
        length -= size;
    }
    return out;
}

/* As the package tokenizers cuts them. */
START_TEST(pieces)
{
    static const struct {
        const char *text, *gpt2, *llama3;
    } rows[] = {
        {"The ox isn't it's", "The| ox| isn|'t| it|'s", "The| ox| isn|'t| it|'s"},
        {"IT'S we'LL", "IT|'|S| we|'|LL", "IT|'S| we|'LL"},
        {"a  b\n\n  c \n", "a| | b|\n\n | c| \n", "a| | b|\n\n| | c| \n"},
        {"12345 x1.5!!\n\nz", "12345| x|1|.|5|!!|\n|\n|z", "123|45| x|1|.|5|!!\n\n|z"},
        {"\tint *p;  ", "\t|int| *|p|;|  ", "\tint| *|p|;|  "},
        {"\xC3\xA9t\xC3\xA9\xC2\xA0"
         "\xE2\x82\xAC"
         "3",
         "\xC3\xA9t\xC3\xA9|\xC2\xA0|\xE2\x82\xAC|3", "\xC3\xA9t\xC3\xA9|\xC2\xA0|\xE2\x82\xAC|3"},
        {"\xFF\xFE a", "\xFF\xFE| a", "\xFF\xFE| a"},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        ck_assert_str_eq(cut_text(YKI_CUT_GPT2, rows[i].text), rows[i].gpt2);
        ck_assert_str_eq(cut_text(YKI_CUT_LLAMA3, rows[i].text), rows[i].llama3);
        ck_assert_str_eq(cut_text(YKI_CUT_NONE, rows[i].text), rows[i].text);
    }
    ck_assert_str_eq(cut_text(YKI_CUT_LLAMA3_DIGITS, "a12"), "a|1|2");
}
END_TEST

/* ---- tokenizers ---- */

static const char lines[] = "The farmer has two oxen now, the one is large, the other small; "
                            "he yokes the two before the plough, and so they do the work of all.\n";

static const char *
text_of(const char *name, int times)
{
    const char *path = scratch_path(name);
    char *text = calloc((size_t)times + 1, sizeof lines);

    for (int i = 0; i < times; i++)
        strcat(text, lines);
    scratch_write(path, text, strlen(text));
    free(text);
    return path;
}

static yoke_tokenizer *
learned(const char *path, yoke_tokenizer_kind kind, int64_t vocabulary)
{
    yoke_tokenizer *t = NULL;

    ASSERT_OK(yoke_tokenizer_train(
        path, &(yoke_tokenizer_options){.kind = kind, .vocabulary = vocabulary}, &t));
    return t;
}

/* Encodes and decodes; returns the number of tokens. */
static size_t
round_trip(const yoke_tokenizer *t, const char *text)
{
    size_t count, length;
    int32_t *tokens;
    char *again;

    ASSERT_OK(yoke_tokenizer_encode(t, text, strlen(text), &tokens, &count));
    ASSERT_OK(yoke_tokenizer_decode(t, tokens, count, &again, &length));
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_str_eq(again, text);
    yoke_free(tokens);
    yoke_free(again);
    return count;
}

/* The same tokenizer after it is written and read. */
static void
check_written(const yoke_tokenizer *t)
{
    yoke_tokenizer *again = NULL;
    char *text = NULL, *second = NULL;

    ASSERT_OK(yoke_tokenizer_to_json(t, &text));
    ASSERT_OK(yoke_tokenizer_from_json(text, strlen(text), &again));
    ASSERT_OK(yoke_tokenizer_to_json(again, &second));
    ck_assert_str_eq(text, second);
    ck_assert_uint_eq(round_trip(t, lines), round_trip(again, lines));
    yoke_tokenizer_destroy(again);
    yoke_free(text);
    yoke_free(second);
}

START_TEST(learning)
{
    const char *path = text_of("rhyme.txt", 20);
    yoke_tokenizer *bytes = learned(NULL, YOKE_TOKENIZER_BYTES, 0);
    yoke_tokenizer *characters = learned(path, YOKE_TOKENIZER_CHARACTERS, 0);
    yoke_tokenizer *bpe = learned(path, YOKE_TOKENIZER_BPE, 300);
    size_t length;

    ck_assert_int_eq(yoke_tokenizer_vocabulary(bytes), 256);
    ck_assert_uint_eq(round_trip(bytes, "any \xFF\x01 bytes"), 12);
    ck_assert_int_lt(yoke_tokenizer_vocabulary(characters), 40);
    ck_assert_uint_eq(round_trip(characters, lines), strlen(lines));
    ck_assert_int_eq(yoke_tokenizer_vocabulary(bpe), 300);
    ck_assert_uint_lt(round_trip(bpe, lines), strlen(lines) * 6 / 10);
    ck_assert_uint_eq(round_trip(bpe, "a<|endoftext|>b"), 3);
    ck_assert_int_eq(yoke_tokenizer_find(bpe, "<|endoftext|>"), 299);
    ck_assert_int_eq(*yoke_tokenizer_get_text(bpe, 'x', &length), 'x');
    ck_assert_uint_eq(length, 1);
    ck_assert_ptr_null(yoke_tokenizer_get_text(bpe, 300, &length));
    /* The most frequent pair of the rhyme, "he", is the first merge. */
    ck_assert_int_eq(yoke_tokenizer_find(bpe, "he"), 256);
    check_written(bytes);
    check_written(characters);
    check_written(bpe);
    yoke_tokenizer_destroy(bytes);
    yoke_tokenizer_destroy(characters);
    yoke_tokenizer_destroy(bpe);
}
END_TEST

START_TEST(refused_texts)
{
    const char *path = text_of("rhyme.txt", 1);
    yoke_tokenizer *t = learned(path, YOKE_TOKENIZER_CHARACTERS, 0);
    const int32_t beyond = 1000;
    int32_t *tokens;
    size_t count;
    char *text;

    ASSERT_REFUSED(YOKE_ERROR_VALUE, "U+0051",
                   yoke_tokenizer_encode(t, "two Q", 5, &tokens, &count));
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "byte 4, 0xff, is no UTF-8",
                   yoke_tokenizer_encode(t, "two \xFF", 5, &tokens, &count));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "token 0 is 1000",
                   yoke_tokenizer_decode(t, &beyond, 1, &text, &count));
    yoke_tokenizer_destroy(t);
    scratch_write(scratch_path("nul.txt"), "ab\0c", 4);
    ASSERT_REFUSED(
        YOKE_ERROR_FORMAT, "byte 2 is 0; must be no NUL",
        yoke_tokenizer_train(scratch_path("nul.txt"),
                             &(yoke_tokenizer_options){.kind = YOKE_TOKENIZER_CHARACTERS}, &t));
}
END_TEST

static yoke_status
count_takes(void *user, const char *text, size_t length, uint64_t before)
{
    int *takes = user;

    (void)before;
    ck_assert_uint_gt(length, 0);
    ck_assert(*takes == 0 || text[0] == ' ');
    ++*takes;
    return YOKE_OK;
}

/* A large text is taken in parts that end behind a word, in whatever script. */
START_TEST(parts_of_large_texts)
{
    static const char *const words[] = {"oxen ", "\xD0\xB2\xD0\xBE\xD0\xBB ",
                                        "\xE7\x89\x9B\xE8\xBD\xAD "};
    const size_t each = strlen(words[_i]), count = 9000000 / each;
    char *text = malloc(count * each);
    const char *path = scratch_path("large.txt");
    yki_corpus corpus;
    int takes = 0;

    for (size_t i = 0; i < count; i++)
        memcpy(text + i * each, words[_i], each);
    scratch_write(path, text, count * each);
    free(text);
    ASSERT_OK(yki_corpus_find(path, &corpus));
    ASSERT_OK(yki_corpus_read(&corpus.files[0], count_takes, &takes));
    yki_corpus_clear(&corpus);
    ck_assert_int_ge(takes, 2);
}
END_TEST

static const char *
json_of(const char *model, const char *more)
{
    static char text[1024];

    snprintf(text, sizeof text, "{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"model\": {%s}%s}",
             model, more);
    return text;
}

START_TEST(refused_tokenizers)
{
    static const struct {
        const char *model, *more, *part;
        yoke_status status;
    } rows[] = {
        {"\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]", "", "merge 1",
         YOKE_ERROR_FORMAT},
        {"\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}", "", "two tokens have the number 0",
         YOKE_ERROR_FORMAT},
        {"\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}", "", "has no number", YOKE_ERROR_FORMAT},
        {"\"type\": \"BPE\"", "", "no model with a vocab", YOKE_ERROR_FORMAT},
        {"\"type\": \"Unigram\", \"vocab\": {}", "", "is not BPE", YOKE_ERROR_UNSUPPORTED},
        {"\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {\"a\": 0}", "", "byte_fallback",
         YOKE_ERROR_UNSUPPORTED},
        {"\"type\": \"BPE\", \"vocab\": {\"a\": 0}", ", \"normalizer\": {\"type\": \"NFC\"}",
         "normalizer", YOKE_ERROR_UNSUPPORTED},
        {"\"type\": \"BPE\", \"vocab\": {\"a\": 0}", ", ", "is no JSON", YOKE_ERROR_FORMAT},
    };
    yoke_tokenizer *t;

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        const char *text = json_of(rows[i].model, rows[i].more);

        ASSERT_REFUSED(rows[i].status, rows[i].part,
                       yoke_tokenizer_from_json(text, strlen(text), &t));
    }
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "none",
                   yoke_tokenizer_open(scratch_path("none.json"), &t));
}
END_TEST

/* GPT-2's pair of files, and Llama 3's way to take a piece that is a token as it is. */
START_TEST(files)
{
    static const char words[] = "{\"a\": 0, \"b\": 1, \"\\u0120\": 2, \"ab\": 3, \"\\u0120ab\": 4,"
                                " \"<|endoftext|>\": 5}";
    static const char merges[] = "#version: 0.2\na b\n\xC4\xA0 ab\n";
    const char *json;
    yoke_tokenizer *t = NULL;
    size_t count;
    int32_t *tokens;

    scratch_write(scratch_path("vocab.json"), words, sizeof words - 1);
    scratch_write(scratch_path("merges.txt"), merges, sizeof merges - 1);
    ASSERT_OK(yoke_tokenizer_open(scratch_dir(), &t));
    ASSERT_OK(yoke_tokenizer_encode(t, "ab ab<|endoftext|>ba", 20, &tokens, &count));
    ck_assert_uint_eq(count, 5);
    ck_assert(tokens[0] == 3 && tokens[1] == 4 && tokens[2] == 5 && tokens[3] == 1 && !tokens[4]);
    yoke_free(tokens);
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "byte 2 is 0x63",
                   yoke_tokenizer_encode(t, "abc", 3, &tokens, &count));
    yoke_tokenizer_destroy(t);
    json = json_of("\"type\": \"BPE\", \"ignore_merges\": true, \"vocab\": {\"a\": 0, \"b\": 1, "
                   "\"aba\": 2}, \"merges\": []",
                   "");
    ASSERT_OK(yoke_tokenizer_from_json(json, strlen(json), &t));
    ck_assert_uint_eq(round_trip(t, "aba"), 1);
    ck_assert_uint_eq(round_trip(t, "abab"), 4);
    yoke_tokenizer_destroy(t);
}
END_TEST

/* ---- merges ---- */

enum { LETTERS = 3, MERGES = 40, LONGEST = 12, PIECE = 60, PIECES = 200 };

/* Random merges of three letters. A token is a letter, or what the merge LETTERS below it makes. */
typedef struct merges {
    char names[LETTERS + MERGES][LONGEST + 1];
    int left[MERGES], right[MERGES];
    int count;
} merges;

static int
token_named(const merges *m, const char *name)
{
    for (int i = 0; i < LETTERS + m->count; i++)
        if (strcmp(m->names[i], name) == 0)
            return i;
    return -1;
}

static int
draw(unsigned *state, size_t below)
{
    return (int)((size_t)rand_r(state) % below);
}

static void
draw_merges(merges *m, unsigned *state)
{
    *m = (merges){.names = {"a", "b", "c"}};
    while (m->count < MERGES) {
        const size_t tokens = LETTERS + (size_t)m->count;
        const int left = draw(state, tokens), right = draw(state, tokens);
        char name[2 * LONGEST + 1];

        snprintf(name, sizeof name, "%s%s", m->names[left], m->names[right]);
        if (strlen(name) > LONGEST || token_named(m, name) >= 0)
            continue;
        strcpy(m->names[tokens], name);
        m->left[m->count] = left;
        m->right[m->count++] = right;
    }
}

static yoke_tokenizer *
tokenizer_of(const merges *m)
{
    char vocabulary[2048], pairs[2048], json[5000];
    yoke_tokenizer *t = NULL;
    int used = 0;

    for (int i = 0; i < LETTERS + MERGES; i++)
        used += sprintf(vocabulary + used, "%s\"%s\": %d", i ? ", " : "", m->names[i], i);
    used = 0;
    for (int i = 0; i < MERGES; i++)
        used += sprintf(pairs + used, "%s\"%s %s\"", i ? ", " : "", m->names[m->left[i]],
                        m->names[m->right[i]]);
    snprintf(json, sizeof json,
             "{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", "
             "\"vocab\": {%s}, \"merges\": [%s]}}",
             vocabulary, pairs);
    ASSERT_OK(yoke_tokenizer_from_json(json, strlen(json), &t));
    return t;
}

/* Looks at all pairs again after each merge. */
static size_t
merge_slowly(const merges *m, const char *piece, int32_t tokens[PIECE])
{
    size_t count = strlen(piece);
    int rank = 0;

    for (size_t i = 0; i < count; i++)
        tokens[i] = piece[i] - 'a';
    while (rank < MERGES) {
        size_t at = 0;

        while (at + 1 < count && (tokens[at] != m->left[rank] || tokens[at + 1] != m->right[rank]))
            at++;
        if (at + 1 >= count) {
            rank++;
            continue;
        }
        tokens[at] = LETTERS + rank;
        memmove(&tokens[at + 1], &tokens[at + 2], (count - at - 2) * sizeof *tokens);
        count--;
        rank = 0;
    }
    return count;
}

START_TEST(merges_are_made_by_rank_and_place)
{
    unsigned state = (unsigned)_i + 1;
    yoke_tokenizer *t;
    merges m;

    draw_merges(&m, &state);
    t = tokenizer_of(&m);
    for (int i = 0; i < PIECES; i++) {
        const size_t length = 1 + (size_t)draw(&state, PIECE), letters = 1 + (size_t)i % LETTERS;
        char piece[PIECE + 1] = "";
        int32_t expected[PIECE], *tokens;
        size_t count;

        for (size_t k = 0; k < length; k++)
            piece[k] = (char)('a' + draw(&state, letters));
        ASSERT_OK(yoke_tokenizer_encode(t, piece, length, &tokens, &count));
        ck_assert_uint_eq(count, merge_slowly(&m, piece, expected));
        ck_assert_msg(memcmp(tokens, expected, count * sizeof *tokens) == 0, "%s", piece);
        yoke_free(tokens);
    }
    yoke_tokenizer_destroy(t);
}
END_TEST

/* ---- texts as samples ---- */

static yoke_dataset *
open_text(const char *path, int64_t context, yoke_data_part part)
{
    yoke_dataset *dataset = NULL;

    ASSERT_OK(yoke_dataset_open_text(path, &(yoke_text_options){.context = context, .part = part},
                                     &dataset));
    return dataset;
}

static void
read_window(const yoke_dataset *dataset, int64_t index, int32_t tokens[8], int32_t next[8])
{
    ASSERT_OK(yoke_dataset_read(dataset, "tokens", &index, 1, tokens, 8 * sizeof *tokens));
    ASSERT_OK(yoke_dataset_read(dataset, "next", &index, 1, next, 8 * sizeof *next));
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(tokens[i + 1], next[i]);
}

START_TEST(windows)
{
    const char *path = text_of("rhyme.txt", 4);
    const int64_t all = 4 * (int64_t)strlen(lines);
    yoke_dataset *train = open_text(path, 8, YOKE_PART_TRAIN);
    yoke_dataset *test = open_text(path, 8, YOKE_PART_TEST);
    int32_t tokens[8], next[8], first;
    bool moved = false, by_seed = false;

    ck_assert_int_eq(yoke_dataset_count(train), (all - all / 10 - 1) / 8 - 1);
    ck_assert_int_eq(yoke_dataset_count(test), (all / 10 - 1) / 8);
    ck_assert_int_eq(yoke_dataset_vocabulary(train), 256);
    ck_assert_int_eq(yoke_dataset_text_bytes(test), (all / 10 - 1) / 8 * 8);
    read_window(train, 1, tokens, next);
    ck_assert_int_eq(tokens[0], lines[8]);
    read_window(test, 0, tokens, next);
    ck_assert_int_eq(tokens[0], lines[(all - all / 10) % (int64_t)strlen(lines)]);
    /* An epoch moves the windows, by its seed and number alone, and never too far. */
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        yki_dataset_begin_epoch(train, 5, epoch);
        read_window(train, yoke_dataset_count(train) - 1, tokens, next);
        read_window(train, 0, tokens, next);
        first = tokens[0];
        moved |= first != lines[0];
        yki_dataset_begin_epoch(train, 5, epoch + 1);
        yki_dataset_begin_epoch(train, 5, epoch);
        read_window(train, 0, tokens, next);
        ck_assert_int_eq(tokens[0], first);
        yki_dataset_begin_epoch(train, 6, epoch);
        read_window(train, 0, tokens, next);
        by_seed |= tokens[0] != first;
    }
    ck_assert(moved && by_seed);
    yoke_dataset_destroy(train);
    yoke_dataset_destroy(test);
}
END_TEST

/* Each token of a part is predicted once, also where they fill no window. */
START_TEST(short_windows)
{
    const char *path = text_of("rhyme.txt", 1);
    const int64_t all = (int64_t)strlen(lines);
    yoke_text_options o = {.context = 8, .part = YOKE_PART_ANY, .short_last = true};
    int32_t tokens[8], next[8];
    yoke_dataset *d;
    int64_t last, there;

    ASSERT_OK(yoke_dataset_open_text(path, &o, &d));
    last = (all - 2) / 8;
    there = all - 1 - 8 * last;
    ck_assert_int_lt(there, 8);
    ck_assert_int_eq(yoke_dataset_count(d), last + 1);
    ck_assert_int_eq(yoke_dataset_text_tokens(d), all - 1);
    ck_assert_int_eq(yoke_dataset_text_bytes(d), all - 1);
    read_window(d, 0, tokens, next);
    ASSERT_OK(yoke_dataset_read(d, "tokens", &last, 1, tokens, sizeof tokens));
    ASSERT_OK(yoke_dataset_read(d, "next", &last, 1, next, sizeof next));
    for (int64_t i = 0; i < 8; i++) {
        ck_assert_int_eq(tokens[i], i < there ? lines[8 * last + i] : 0);
        ck_assert_int_eq(next[i], i < there ? lines[8 * last + i + 1] : -1);
    }
    yoke_dataset_destroy(d);
    /* A text that is shorter than a window is one. */
    o = (yoke_text_options){.context = 4096, .part = YOKE_PART_TEST, .short_last = true};
    ASSERT_OK(yoke_dataset_open_text(path, &o, &d));
    ck_assert_int_eq(yoke_dataset_count(d), 1);
    ck_assert_int_eq(yoke_dataset_text_tokens(d), all - 1);
    yoke_dataset_destroy(d);
    scratch_write(scratch_path("one.txt"), "a", 1);
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "has 1 token; must have at least 2",
                   yoke_dataset_open_text(scratch_path("one.txt"), &o, &d));
    o.part = YOKE_PART_TRAIN;
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "must be false for training",
                   yoke_dataset_open_text(path, &o, &d));
}
END_TEST

START_TEST(kept_tokens)
{
    const char *path = text_of("rhyme.txt", 4);
    char *kept = strcat(strcpy(malloc(4096), path), ".tokens");
    yoke_dataset *d = open_text(path, 8, YOKE_PART_ANY);
    struct stat before, after;

    yoke_dataset_destroy(d);
    ck_assert_int_eq(stat(kept, &before), 0);
    yoke_dataset_destroy(open_text(path, 8, YOKE_PART_ANY));
    ck_assert_int_eq(stat(kept, &after), 0);
    ck_assert(before.st_ino == after.st_ino);
    text_of("rhyme.txt", 5);
    d = open_text(path, 8, YOKE_PART_ANY);
    ck_assert_int_eq(yoke_dataset_count(d), (5 * (int64_t)strlen(lines) - 1) / 8 - 1);
    yoke_dataset_destroy(d);
    /* The file of tokens is data by itself, whatever the path to it begins with. */
    for (int i = 0; i < 2; i++) {
        if (i) {
            ck_assert_int_eq(chdir(scratch_dir()), 0);
            strcpy(kept, "./rhyme.txt.tokens");
        }
        d = open_text(kept, 8, YOKE_PART_ANY);
        ck_assert_int_eq(yoke_dataset_count(d), (5 * (int64_t)strlen(lines) - 1) / 8 - 1);
        ck_assert_ptr_null(yoke_dataset_get_tokenizer(d));
        yoke_dataset_destroy(d);
    }
    ck_assert_int_eq(chdir("/"), 0);
    free(kept);
}
END_TEST

static void
write_then(const char *name, const char *text, time_t seconds)
{
    const struct timespec then[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};

    scratch_write(scratch_path(name), text, strlen(text));
    ck_assert_int_eq(utimensat(AT_FDCWD, scratch_path(name), then, 0), 0);
}

/* Opens the text as samples of four tokens. */
static int32_t
first_token(const char *name, const yoke_tokenizer *tokenizer)
{
    const yoke_text_options o = {.context = 4, .tokenizer = tokenizer};
    int64_t index = 0;
    int32_t tokens[4];
    yoke_dataset *d = NULL;

    ASSERT_OK(yoke_dataset_open_text(scratch_path(name), &o, &d));
    ASSERT_OK(yoke_dataset_read(d, "tokens", &index, 1, tokens, sizeof tokens));
    yoke_dataset_destroy(d);
    return tokens[0];
}

/* Kept tokens are made again where the time of the text, its length, its tokenizer or the order of
 * its files is another, whatever else is as it was. */
START_TEST(tokens_are_of_the_text_as_it_is)
{
    const yoke_tokenizer_options characters = {.kind = YOKE_TOKENIZER_CHARACTERS};
    char first[300];
    yoke_tokenizer *t;

    write_then("text", "aaaaaaaa", 1000);
    ck_assert_int_eq(first_token("text", NULL), 'a');
    write_then("text", "bbbbbbbb", 1001);
    ck_assert_int_eq(first_token("text", NULL), 'b');
    write_then("text", "cccccccccc", 1001);
    ck_assert_int_eq(first_token("text", NULL), 'c');
    ASSERT_OK(yoke_tokenizer_train(scratch_path("text"), &characters, &t));
    ck_assert_int_eq(first_token("text", t), yoke_tokenizer_find(t, "c"));
    ck_assert_int_ne(yoke_tokenizer_find(t, "c"), 'c');
    ck_assert_int_eq(first_token("text", NULL), 'c');
    yoke_tokenizer_destroy(t);
    ck_assert_int_eq(mkdir(scratch_path("texts"), 0777), 0);
    write_then("texts/1", "aaaaaaaa", 1000);
    write_then("texts/2", "bbbbbbbb", 1000);
    ck_assert_int_eq(first_token("texts", NULL), 'a');
    snprintf(first, sizeof first, "%s", scratch_path("texts/1"));
    ck_assert_int_eq(rename(first, scratch_path("texts/3")), 0);
    ck_assert_int_eq(first_token("texts", NULL), 'b');
}
END_TEST

static int64_t
read_tokens(const yoke_dataset *d, int64_t count, int32_t tokens[8])
{
    for (int64_t i = 0; i < count; i++) {
        int32_t window[1];

        ASSERT_OK(yoke_dataset_read(d, "tokens", &i, 1, window, sizeof window));
        tokens[i] = window[0];
    }
    return yoke_dataset_count(d);
}

/* Between the files of a folder, and after the last, stands the token that ends a text. */
START_TEST(files_of_a_folder_end)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>"};

    for (size_t i = 0; i < YKI_COUNT(names); i++) {
        static const int32_t expected[] = {0, 1, 2, 1, 1};
        yoke_text_options o = {.context = 1, .part = YOKE_PART_ANY};
        yoke_tokenizer *t;
        yoke_dataset *d;
        char more[256];
        const char *json;
        int32_t tokens[8];

        snprintf(more, sizeof more,
                 ", \"added_tokens\": [{\"id\": 2, \"content\": \"%s\", \"special\": true}]",
                 names[i]);
        json = json_of("\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []", more);
        ASSERT_OK(yoke_tokenizer_from_json(json, strlen(json), &t));
        if (i == 0)
            ck_assert_int_eq(mkdir(scratch_path("texts"), 0777), 0);
        scratch_write(scratch_path("texts/1"), "ab", 2);
        scratch_write(scratch_path("texts/2"), "bb", 2);
        o.tokenizer = t;
        ASSERT_OK(yoke_dataset_open_text(scratch_path("texts"), &o, &d));
        /* Of 6 tokens, 5 are followed by one; the last window leaves room to move. */
        ck_assert_int_eq(read_tokens(d, 4, tokens), 4);
        ck_assert_mem_eq(tokens, expected, 4 * sizeof *tokens);
        ck_assert_int_eq(yoke_dataset_text_tokens(d), 4);
        yoke_dataset_destroy(d);
        yoke_tokenizer_destroy(t);
    }
}
END_TEST

/* A vocabulary that 16 bits do not count. */
START_TEST(tokens_of_32_bits)
{
    enum { LARGE = 70000 };
    const char *json =
        json_of("\"type\": \"BPE\", \"vocab\": {\"a\": 70000, \"b\": 1}, \"merges\": []", "");
    yoke_text_options o = {.context = 1, .part = YOKE_PART_ANY};
    char *kept = malloc(4096);
    int32_t tokens[8];
    yoke_tokenizer *t;
    yoke_dataset *d;

    ASSERT_OK(yoke_tokenizer_from_json(json, strlen(json), &t));
    scratch_write(scratch_path("text"), "abaabb", 6);
    o.tokenizer = t;
    for (int again = 0; again < 2; again++) {
        static const int32_t expected[] = {LARGE, 1, LARGE, LARGE};

        if (again) { /* the file of tokens by itself */
            sprintf(kept, "%s.tokens", scratch_path("text"));
            o.tokenizer = NULL;
        }
        ASSERT_OK(yoke_dataset_open_text(again ? kept : scratch_path("text"), &o, &d));
        ck_assert_int_eq(read_tokens(d, 4, tokens), 4);
        ck_assert_mem_eq(tokens, expected, sizeof expected);
        ck_assert_int_eq(yoke_dataset_vocabulary(d), LARGE + 1);
        yoke_dataset_destroy(d);
    }
    yoke_tokenizer_destroy(t);
    free(kept);
}
END_TEST

/* Writes a file of llm.c with tokens that count up from `first`. */
static void
write_shard(const char *name, int first)
{
    enum { COUNT = 9 };
    uint32_t head[256] = {20240520, 1, COUNT};
    unsigned char file[sizeof head + 2 * COUNT] = {0};

    memcpy(file, head, sizeof head);
    for (int i = 0; i < COUNT; i++)
        file[sizeof head + 2 * (size_t)i] = (unsigned char)(first + i);
    scratch_write(scratch_path(name), file, sizeof file);
}

/* Of a folder of llm.c, shards with "val" or "test" in their names are the test; without one of
 * these the tail of all tokens is. */
START_TEST(shards_are_parts)
{
    enum { TRAIN = 20, TEST = 100 };
    static const char *const names[] = {"words_val_000.bin", "words_test.bin"};
    int32_t tokens[8];
    yoke_dataset *d;

    ck_assert_int_eq(mkdir(scratch_path("shards"), 0777), 0);
    write_shard("shards/words_train_000.bin", TRAIN);
    write_shard("shards/words_train_001.bin", TRAIN + 9);
    for (size_t i = 0; i < YKI_COUNT(names); i++) {
        char name[64];

        snprintf(name, sizeof name, "shards/%s", names[i]);
        write_shard(name, TEST);
        d = open_text(scratch_path("shards"), 1, YOKE_PART_TRAIN);
        ck_assert_int_eq(yoke_dataset_vocabulary(d), 38);
        read_tokens(d, 8, tokens);
        ck_assert_int_eq(tokens[0], TRAIN);
        yoke_dataset_destroy(d);
        d = open_text(scratch_path("shards"), 1, YOKE_PART_TEST);
        ck_assert_int_eq(read_tokens(d, 8, tokens), 8);
        for (int k = 0; k < 8; k++)
            ck_assert_int_eq(tokens[k], TEST + k);
        yoke_dataset_destroy(d);
        ck_assert_int_eq(unlink(scratch_path(name)), 0);
    }
    d = open_text(scratch_path("shards"), 1, YOKE_PART_TEST);
    ck_assert_int_eq(read_tokens(d, 1, tokens), 1);
    ck_assert_int_eq(tokens[0], 36);
    yoke_dataset_destroy(d);
}
END_TEST

/* Tokens as NumPy saves them, of any whole type. */
START_TEST(tokens_of_numpy)
{
    static const struct {
        const char *type;
        int size;
    } kinds[] = {{"|u1", 1}, {"<u2", 2}, {"<i4", 4}, {"<u4", 4}, {"<i8", 8}};
    enum { COUNT = 41 };

    for (size_t k = 0; k < YKI_COUNT(kinds); k++) {
        unsigned char file[COUNT * 8];
        const int size = kinds[k].size;
        int32_t tokens[8], next[8];
        yoke_dataset *d;

        for (int i = 0; i < COUNT; i++)
            for (int b = 0; b < size; b++)
                file[i * size + b] = (unsigned char)(b == 0 ? 3 * i : b == 1 ? i % 2 : 0);
        scratch_write_npy(scratch_path("t.npy"), kinds[k].type, COUNT, file,
                          (size_t)(COUNT * size));
        d = open_text(scratch_path("t.npy"), 8, YOKE_PART_ANY);
        ck_assert_int_eq(yoke_dataset_count(d), (COUNT - 1) / 8 - 1);
        ck_assert_ptr_null(yoke_dataset_get_tokenizer(d));
        read_window(d, 2, tokens, next);
        for (int i = 0; i < 8; i++)
            ck_assert_int_eq(tokens[i], 3 * (16 + i) + (size > 1 ? (16 + i) % 2 * 256 : 0));
        yoke_dataset_destroy(d);
    }
}
END_TEST

/* No tokens: floats, numbers below 0 or beyond an int, files that do not go together. */
START_TEST(refused_tokens_of_numpy)
{
    const yoke_text_options o = {.context = 4};
    const int32_t numbers[12] = {1, 2, 3, 4, -5};
    const int64_t large[12] = {1, 2, (INT64_C(1) << 32) + 3};
    const float floats[12] = {1};
    yoke_dataset *d;

    scratch_write_npy(scratch_path("x.npy"), "<f4", 12, floats, sizeof floats);
    ASSERT_REFUSED(YOKE_ERROR_TYPE, "holds floats; must be whole numbers",
                   yoke_dataset_open_text(scratch_path("x.npy"), &o, &d));
    scratch_write_npy(scratch_path("x.npy"), "<i4", 12, numbers, sizeof numbers);
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "token 4 is -5",
                   yoke_dataset_open_text(scratch_path("x.npy"), &o, &d));
    scratch_write_npy(scratch_path("x.npy"), ">u2", 12, numbers, 24);
    ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "must be little-endian",
                   yoke_dataset_open_text(scratch_path("x.npy"), &o, &d));
    scratch_write_npy(scratch_path("x.npy"), "<i8", 12, large, sizeof large);
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "a number of sample 2 is beyond 32 bits",
                   yoke_dataset_open_text(scratch_path("x.npy"), &o, &d));
    ck_assert_int_eq(mkdir(scratch_path("shards"), 0700), 0);
    scratch_write_npy(scratch_path("shards/a.npy"), "<i4", 12, numbers, sizeof numbers);
    scratch_write_npy(scratch_path("shards/b.npy"), "<u2", 12, numbers, 24);
    ASSERT_REFUSED(YOKE_ERROR_TYPE, "b.npy has numbers of another type than the file before it",
                   yoke_dataset_open_text(scratch_path("shards"), &o, &d));
}
END_TEST

START_TEST(refused_data)
{
    const char *path = text_of("rhyme.txt", 1), *bin = scratch_path("x.bin");
    uint32_t head[256] = {20240520, 1, 10};
    uint16_t tokens[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 300};
    unsigned char file[sizeof head + sizeof tokens];
    yoke_text_options o = {.context = 4, .vocabulary = 200};
    yoke_dataset *d;

    memcpy(file, head, sizeof head);
    memcpy(file + sizeof head, tokens, sizeof tokens);
    scratch_write(bin, file, sizeof file);
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "token 9 is 300", yoke_dataset_open_text(bin, &o, &d));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "has 256 tokens, the model a vocabulary of 200",
                   yoke_dataset_open_text(path, &o, &d));
    o = (yoke_text_options){.context = 4096};
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "must have at least 4097",
                   yoke_dataset_open_text(path, &o, &d));
    o.context = 0;
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "context is 0",
                   yoke_dataset_open_text(path, &o, &d));
    scratch_write(bin, file, sizeof file - 2);
    o.context = 4;
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "must have 1044", yoke_dataset_open_text(bin, &o, &d));
    scratch_write(bin, "raw", 3);
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "no file of tokens", yoke_dataset_open_text(bin, &o, &d));
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *c = test_case(suite, "tokenizer");

    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, pieces);
    tcase_add_test(c, learning);
    tcase_add_test(c, refused_texts);
    tcase_add_loop_test(c, parts_of_large_texts, 0, 3);
    tcase_add_test(c, refused_tokenizers);
    tcase_add_test(c, files);
    tcase_add_loop_test(c, merges_are_made_by_rank_and_place, 0, 10);
    tcase_add_test(c, windows);
    tcase_add_test(c, short_windows);
    tcase_add_test(c, kept_tokens);
    tcase_add_test(c, tokens_are_of_the_text_as_it_is);
    tcase_add_test(c, files_of_a_folder_end);
    tcase_add_test(c, tokens_of_32_bits);
    tcase_add_test(c, shards_are_parts);
    tcase_add_test(c, tokens_of_numpy);
    tcase_add_test(c, refused_tokens_of_numpy);
    tcase_add_test(c, refused_data);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * text_dataset.c - a text as samples: windows of tokens, each with the tokens that follow.
 *
 * Window i of T tokens begins at token i * T, so an epoch sees each token once. In training an
 * epoch shifts all windows by a number below T that follows from the seed and the epoch, so that no
 * token always stands at the same place of its window. Their order, the share of each process and
 * going on after a checkpoint are those of any dataset. For evaluation the last window may have
 * fewer tokens: the others are 0, and what follows them is -1, which the loss ignores.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/text.h"
#include "data/token_file.h"

enum { CHUNK = 1 << 14 }; /* tokens looked at at a time */
static const double tenth = 0.1;

typedef struct windows {
    yki_column tokens;
    int64_t first, count; /* tokens of the part */
    int64_t context, samples;
    int64_t shift, most_shift;
} windows;

static yoke_status
windows_read(void *self, size_t field, const int64_t *indices, size_t count, void *out)
{
    const windows *w = self;
    int32_t *to = out;

    for (size_t i = 0; i < count; i++, to += w->context) {
        const int64_t at = w->shift + indices[i] * w->context;
        const int64_t there = YKI_MIN(w->context, w->count - 1 - at);

        YKI_TRY(
            yki_column_read_numbers(&w->tokens, w->first + at + (int64_t)field, (size_t)there, to));
        for (int64_t k = there; k < w->context; k++)
            to[k] = field ? -1 : 0;
    }
    return YOKE_OK;
}

static bool
windows_begin(void *self, uint32_t seed, uint32_t epoch)
{
    const uint32_t key[2] = {seed, 0x77696E64u}; /* "wind" */
    const uint32_t counter[4] = {epoch, 0, 0, 0};
    windows *w = self;
    int64_t before = w->shift;
    uint32_t word[4];

    yki_philox(key, counter, word);
    w->shift = word[0] % (w->most_shift + 1);
    return w->shift != before;
}

static void
windows_destroy(void *self)
{
    windows *w = self;

    yki_column_clear(&w->tokens);
    yki_free(w);
}

static const yki_sample_source windows_source = {windows_read, windows_destroy, 1, windows_begin,
                                                 NULL};

/* ---- finding the tokens ---- */

static yoke_status
add_file(const char *path, yki_column *column)
{
    unsigned char head[16];
    yki_column of = {0};
    yki_bytes *bytes;
    size_t got = 0;
    yoke_status status;

    YKI_TRY(yki_bytes_open(path, &bytes));
    status = yki_bytes_peek(bytes, head, sizeof head, &got);
    if (status == YOKE_OK)
        status = yki_format_npy.is(head, got)
                     ? yki_format_npy.parse(
                           bytes, &(yoke_dataset_open_options){.channels_last = true}, &of)
                     : yki_token_file_parse(bytes, &of);
    yki_bytes_release(bytes);
    YKI_TRY(status);
    if (yki_number_type(of.number) == YOKE_F32)
        status = yki_fail(YOKE_ERROR_TYPE, "%s holds floats; must be whole numbers, tokens", path);
    else if (column->part_count && of.number != column->number)
        status = yki_fail(
            YOKE_ERROR_TYPE,
            "%s has numbers of another type than the file before it; must be the same", path);
    else
        status = yki_column_add(column, of.parts[0].bytes, of.parts[0].offset,
                                of.count * yki_shape_count(of.shape));
    column->number = of.number;
    column->big_endian = of.big_endian;
    column->stride = yki_number_size(of.number);
    yki_column_clear(&of);
    return status;
}

static bool
is_tokens(const char *name)
{
    return name[0] != '.' && (yki_ends_with(name, ".bin") || yki_ends_with(name, ".npy") ||
                              (yki_ends_with(name, ".tokens") && strcmp(name, "yoke.tokens") != 0));
}

/* Whether a shard belongs to the test part. */
static bool
is_test(const char *name)
{
    return strstr(name, "val") || strstr(name, "test");
}

/* Names of shards in a folder. */
typedef struct shards {
    char **names;
    size_t count, capacity;
    bool any_test;
} shards;

static int
by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static yoke_status
list_shards(const char *path, shards *s)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    yoke_status status = YOKE_OK;

    while (folder && status == YOKE_OK && (entry = readdir(folder))) {
        if (!is_tokens(entry->d_name))
            continue;
        status = yki_grow((void **)&s->names, &s->capacity, s->count + 1, sizeof *s->names,
                          "names of files");
        if (status == YOKE_OK && !(s->names[s->count] = yki_strdup(entry->d_name, "a file's name")))
            status = YOKE_ERROR_OUT_OF_MEMORY;
        s->count += status == YOKE_OK;
        s->any_test |= is_test(entry->d_name);
    }
    if (folder)
        closedir(folder);
    if (s->count)
        qsort(s->names, s->count, sizeof *s->names, by_name);
    return status;
}

/* Adds the shards of the part; *split tells that the part is to be cut from all of them. */
static yoke_status
add_shards(const char *path, const shards *s, yoke_data_part part, yki_column *column, bool *split)
{
    const bool all = part == YOKE_PART_ANY || !s->any_test;

    *split = !s->any_test;
    for (size_t i = 0; i < s->count; i++) {
        char *name;
        yoke_status status;

        if (!all && is_test(s->names[i]) != (part == YOKE_PART_TEST))
            continue;
        if (!(name = yki_format("%s/%s", path, s->names[i])))
            return YOKE_ERROR_OUT_OF_MEMORY;
        status = add_file(name, column);
        yki_free(name);
        YKI_TRY(status);
    }
    return YOKE_OK;
}

/* The tokenizer that was given, or the one beside the text; else, for a text, plain bytes. */
static yoke_status
choose_tokenizer(const char *path, const yoke_text_options *o, bool tokens, yoke_tokenizer **out)
{
    yoke_status status;

    *out = NULL;
    if (o->tokenizer) {
        *out = yki_tokenizer_retain((yoke_tokenizer *)o->tokenizer);
        return YOKE_OK;
    }
    status = yki_tokenizer_beside(path, out);
    if (status != YOKE_ERROR_NOT_FOUND || tokens)
        return status == YOKE_ERROR_NOT_FOUND ? YOKE_OK : status;
    return yoke_tokenizer_train(NULL, NULL, out);
}

static yoke_status
find_tokens(const char *path, const yoke_text_options *o, yki_column *column,
            yoke_tokenizer **tokenizer, bool *split)
{
    const char *slash = strrchr(path, '/');
    struct stat about = {0};
    shards s = {0};
    bool tokens;
    yoke_status status = YOKE_OK;

    *split = true;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        status = list_shards(path, &s);
    tokens = s.count || (!S_ISDIR(about.st_mode) && is_tokens(slash ? slash + 1 : path));
    if (status == YOKE_OK)
        status = choose_tokenizer(path, o, tokens, tokenizer);
    if (status == YOKE_OK)
        status = s.count  ? add_shards(path, &s, o->part, column, split)
                 : tokens ? add_file(path, column)
                          : yki_text_to_tokens(path, *tokenizer, column);
    for (size_t i = 0; i < s.count; i++)
        yki_free(s.names[i]);
    yki_free(s.names);
    return status;
}

/* ---- the part ---- */

/* The test part is the tail of the tokens, a window at least. */
static void
choose_part(windows *w, const yoke_text_options *o, bool split)
{
    double fraction = o->test_fraction > 0 ? o->test_fraction : tenth;
    int64_t all = w->tokens.count, test = (int64_t)(fraction * (double)all);

    test = YKI_MIN(YKI_MAX(test, w->context + 1), all);
    w->count = all;
    if (!split || o->part == YOKE_PART_ANY)
        return;
    w->first = o->part == YOKE_PART_TEST ? all - test : 0;
    w->count = o->part == YOKE_PART_TEST ? test : all - test;
}

/* In training, one window less than there could be leaves room to shift them by any number. */
static yoke_status
count_windows(const char *path, windows *w, yoke_data_part part, bool short_last)
{
    const int64_t least = short_last ? 1 : w->context;
    const int64_t most = (w->count - 1 + w->context - least) / w->context;

    if (w->count < least + 1)
        return yki_fail(
            YOKE_ERROR_VALUE,
            "%s: the %stext has %lld token%s; must have at least %lld, a window of %lld "
            "and the one after it",
            path,
            part == YOKE_PART_TEST    ? "test part of the "
            : part == YOKE_PART_TRAIN ? "training part of the "
                                      : "",
            (long long)w->count, w->count == 1 ? "" : "s", (long long)least + 1, (long long)least);
    if (short_last) {
        w->samples = most;
        return YOKE_OK;
    }
    w->samples = part == YOKE_PART_TEST ? most : YKI_MAX(most - 1, (int64_t)1);
    w->most_shift = part == YOKE_PART_TEST
                        ? 0
                        : YKI_MIN(w->count - 1 - w->samples * w->context, w->context - 1);
    return YOKE_OK;
}

/* The tokens that windows predict, in all. */
static int64_t
predicted(const windows *w)
{
    return YKI_MIN(w->samples * w->context, w->count - 1);
}

/* Checks all tokens of the part; finds the largest, and the bytes that windows predict. */
static yoke_status
check_tokens(const char *path, const windows *w, const yoke_tokenizer *t, int64_t limit,
             int64_t *vocabulary, int64_t *bytes)
{
    const int64_t end = predicted(w);
    int32_t *chunk = yki_alloc(CHUNK, sizeof *chunk, "tokens");
    yoke_status status = chunk ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    limit = limit ? limit : t ? t->count : INT32_MAX;
    for (int64_t at = 0; at < w->count && status == YOKE_OK; at += CHUNK) {
        const size_t n = (size_t)YKI_MIN(w->count - at, (int64_t)CHUNK);

        status = yki_column_read_numbers(&w->tokens, w->first + at, n, chunk);
        for (size_t i = 0; i < n && status == YOKE_OK; i++) {
            const int64_t number = at + (int64_t)i;

            if (chunk[i] < 0 || chunk[i] >= limit)
                status =
                    yki_fail(YOKE_ERROR_VALUE,
                             "%s: token %lld is %d; must be at least 0 and below %lld, the "
                             "vocabulary",
                             path, (long long)(w->first + number), (int)chunk[i], (long long)limit);
            *vocabulary = YKI_MAX(*vocabulary, (int64_t)chunk[i] + 1);
            if (t && number > 0 && number <= end && chunk[i] >= 0 && chunk[i] < t->count)
                *bytes += (int64_t)t->texts[chunk[i]].length;
        }
    }
    yki_free(chunk);
    return status;
}

static yoke_status
check_vocabulary(const char *path, const yoke_tokenizer *t, int64_t limit)
{
    if (!t || !limit || t->count <= limit)
        return YOKE_OK;
    return yki_fail(YOKE_ERROR_VALUE,
                    "%s: its tokenizer has %d tokens, the model a vocabulary of %lld; must be the "
                    "model's tokenizer",
                    path, (int)t->count, (long long)limit);
}

/* Takes the windows, also on failure. */
static yoke_status
make_dataset(windows *w, yoke_dataset **dataset)
{
    yoke_field fields[2] = {{.name = "tokens", .type = YOKE_I32},
                            {.name = "next", .type = YOKE_I32}};

    fields[0].shape = fields[1].shape = yoke_shape(w->context);
    return yki_dataset_make(w->samples, fields, 2, &windows_source, w, dataset);
}

static yoke_status
open_text(const char *path, const yoke_text_options *o, yoke_dataset **out)
{
    windows *w = yki_alloc(1, sizeof *w, "a text");
    yoke_tokenizer *tokenizer = NULL;
    yoke_dataset *dataset = NULL;
    int64_t vocabulary = 0, bytes = 0, tokens = 0;
    bool split = true;
    yoke_status status;

    if (!w)
        return YOKE_ERROR_OUT_OF_MEMORY;
    w->context = o->context;
    status = find_tokens(path, o, &w->tokens, &tokenizer, &split);
    if (status == YOKE_OK)
        status = check_vocabulary(path, tokenizer, o->vocabulary);
    if (status == YOKE_OK) {
        choose_part(w, o, split);
        status = count_windows(path, w, o->part, o->short_last);
    }
    if (status == YOKE_OK)
        status = check_tokens(path, w, tokenizer, o->vocabulary, &vocabulary, &bytes);
    tokens = status == YOKE_OK ? predicted(w) : 0;
    if (status == YOKE_OK)
        status = make_dataset(w, &dataset);
    else
        windows_destroy(w);
    if (status != YOKE_OK) {
        yoke_tokenizer_destroy(tokenizer);
        return status;
    }
    dataset->tokenizer = tokenizer;
    dataset->vocabulary = tokenizer ? tokenizer->count : vocabulary;
    dataset->text_tokens = tokens;
    dataset->text_bytes = bytes;
    *out = dataset;
    return YOKE_OK;
}

yoke_status
yoke_dataset_open_text_sized(const char *path, const yoke_text_options *options, size_t size,
                             yoke_dataset **dataset)
{
    yoke_text_options o = {0};

    YKI_GIVEN("yoke_dataset_open_text", {"path", path}, {"dataset", dataset}, {"options", options});
    memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (o.context < 1 || o.context > 1 << 24)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "yoke_dataset_open_text: context",
                              o.context, 1, 1 << 24);
    if (!(o.test_fraction >= 0 && o.test_fraction < 1))
        return yki_fail_range_below(YOKE_ERROR_VALUE, "yoke_dataset_open_text: test_fraction",
                                    o.test_fraction, 0, 1);
    if (o.short_last && o.part == YOKE_PART_TRAIN)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_dataset_open_text: short_last is true; must be false for training, "
                        "which shifts the windows");
    return open_text(path, &o, dataset);
}

/* ---- what is known of the text ---- */

const yoke_tokenizer *
yoke_dataset_get_tokenizer(const yoke_dataset *dataset)
{
    return dataset ? dataset->tokenizer : NULL;
}

int64_t
yoke_dataset_vocabulary(const yoke_dataset *dataset)
{
    return dataset ? dataset->vocabulary : 0;
}

int64_t
yoke_dataset_text_tokens(const yoke_dataset *dataset)
{
    return dataset ? dataset->text_tokens : 0;
}

int64_t
yoke_dataset_text_bytes(const yoke_dataset *dataset)
{
    return dataset ? dataset->text_bytes : 0;
}

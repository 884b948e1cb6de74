/* SPDX-License-Identifier: Apache-2.0
 *
 * encoding.c - how columns of a table become numbers; see encoding.h.
 *
 * What one-hot learned are the texts of the training data. Another text, such as one that only the
 * test data has, gives zeros, as a missing one does. The hash is that of yki_hash, so it is the
 * same on every host.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "data/encoding.h"
#include "data/json.h"
#include "data/text.h"

enum { MOST_TEXTS = 4096, BUCKETS = 32, MOST_BUCKETS = 1 << 16, MOST_COLUMNS = 1 << 16 };

static const char *const kinds[] = {"number", "median", "one-hot", "hash", "drop", "auto"};

void
yki_encoding_destroy(yki_encoding *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->count; i++) {
        yki_encoded_column *c = &e->columns[i];

        for (size_t k = 0; k < c->text_count; k++)
            yki_free(c->texts[k]);
        yki_free(c->texts);
        yki_free(c->numbers);
        yki_free(c->name);
    }
    yki_free(e->columns);
    yki_free(e->label);
    yki_free(e);
}

/* ---- rules ---- */

typedef struct rule {
    const char *name; /* not ended with a 0 */
    size_t name_length;
    yki_encoding_kind kind;
    int64_t buckets;
} rule;

static yoke_status
bad_rule(const char *text, size_t length)
{
    return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                    "\"%.*s\" is no rule for columns; must be NAME=KIND, with number, median, "
                    "one-hot, hash, hash:N, drop or auto",
                    (int)YKI_MIN(length, (size_t)100), text);
}

/* Reads the rule at *text, and moves on behind it. False: there is none any more. */
static yoke_status
next_rule(const char **text, rule *r, bool *found)
{
    const char *p = *text, *mark;
    size_t length = strcspn(p, ","), word;
    int end = 0;

    *found = *p != '\0';
    if (!*found)
        return YOKE_OK;
    *text = p + length + (p[length] == ',');
    mark = memchr(p, '=', length);
    if (!mark || mark == p)
        return bad_rule(p, length);
    *r = (rule){.name = p, .name_length = (size_t)(mark - p), .buckets = BUCKETS};
    word = length - r->name_length - 1;
    for (size_t k = 0; k < YKI_COUNT(kinds); k++)
        if (strlen(kinds[k]) == word && strncmp(mark + 1, kinds[k], word) == 0) {
            r->kind = (yki_encoding_kind)k;
            return YOKE_OK;
        }
    if (word < 6 || word > 12 || strncmp(mark + 1, "hash:", 5) != 0 ||
        sscanf(mark + 6, "%7lld%n", (long long *)&r->buckets, &end) != 1 ||
        (size_t)end != word - 5 || r->buckets < 1 || r->buckets > MOST_BUCKETS)
        return bad_rule(p, length);
    r->kind = YKI_ENCODE_HASH;
    return YOKE_OK;
}

static bool
is_for(const rule *r, const char *name)
{
    return strlen(name) == r->name_length && strncasecmp(r->name, name, r->name_length) == 0;
}

yoke_status
yki_encoding_add(yki_encoding *e, const char *rules, const char *name)
{
    yki_encoded_column *c;
    bool found, named = false;
    rule r;

    if (e->count == MOST_COLUMNS)
        return yki_fail(YOKE_ERROR_FORMAT, "the table has more than %d columns", MOST_COLUMNS);
    YKI_TRY(
        yki_grow((void **)&e->columns, &e->capacity, e->count + 1, sizeof *e->columns, "columns"));
    c = &e->columns[e->count];
    *c = (yki_encoded_column){.name = yki_strdup(name, "a column's name")};
    if (!c->name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    e->count++;
    while (rules) {
        YKI_TRY(next_rule(&rules, &r, &found));
        if (!found)
            break;
        if (is_for(&r, name) || (!named && r.name_length == 1 && *r.name == '*')) {
            named |= is_for(&r, name);
            c->kind = r.kind;
            c->buckets = r.buckets;
        }
    }
    return YOKE_OK;
}

yoke_status
yki_encoding_check_rules(const yki_encoding *e, const char *rules)
{
    while (true) {
        yki_near near;
        char word[64];
        size_t i = 0;
        bool found;
        rule r;

        YKI_TRY(next_rule(&rules, &r, &found));
        if (!found)
            return YOKE_OK;
        if (r.name_length == 1 && *r.name == '*')
            continue;
        while (i < e->count && !is_for(&r, e->columns[i].name))
            i++;
        if (i < e->count)
            continue;
        snprintf(word, sizeof word, "%.*s", (int)YKI_MIN(r.name_length, sizeof word - 1), r.name);
        yki_near_start(&near, word);
        for (i = 0; i < e->count; i++)
            yki_near_offer(&near, e->columns[i].name);
        return yki_fail(YOKE_ERROR_NOT_FOUND, "there is no column of data \"%s\" for a rule%s",
                        word, yki_near_hint(&near));
    }
}

/* ---- learning ---- */

/* Finds a text; false: it is not there, and *at is where it would stand. */
static bool
find_text(const yki_encoded_column *c, const char *text, size_t *at)
{
    size_t low = 0, high = c->text_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(c->texts[middle], text);

        if (order == 0) {
            *at = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return false;
}

static bool
is_utf8(const char *text)
{
    json_t *json = json_string(text);

    json_decref(json);
    return json != NULL;
}

static yoke_status
learn_text(yki_encoded_column *c, const char *text)
{
    size_t at;
    char *copy;

    if (find_text(c, text, &at))
        return YOKE_OK;
    if (c->text_count == MOST_TEXTS)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "column \"%s\" has more than %d different texts; must have a rule such as "
                        "\"%s=hash\" or \"%s=drop\"",
                        c->name, MOST_TEXTS, c->name, c->name);
    if (!is_utf8(text))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "\"%.40s\" is no UTF-8; must be, to be kept with a model", text);
    YKI_TRY(yki_grow((void **)&c->texts, &c->text_capacity, c->text_count + 1, sizeof *c->texts,
                     "texts of a column"));
    copy = yki_strdup(text, "a text of a column");
    if (!copy)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memmove(c->texts + at + 1, c->texts + at, (c->text_count - at) * sizeof *c->texts);
    c->texts[at] = copy;
    c->text_count++;
    return YOKE_OK;
}

/* Reads a number of 32 bits. */
static yoke_status
take_number(const yki_encoded_column *c, const char *cell, size_t length, double *value)
{
    if (length == 0)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "the cell is empty; must be a number, or have a rule such as \"%s=median\"",
                        c->name);
    if (!yki_parse_number(cell, length, value))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "\"%.40s\" is not a number; a rule such as \"%s=one-hot\" takes text", cell,
                        c->name);
    if (!(fabs(*value) <= 3.4028235677973366e38))
        return yki_fail(YOKE_ERROR_FORMAT, "\"%.40s\" is not a finite number of 32 bits", cell);
    return YOKE_OK;
}

static yoke_status
learn_number(yki_encoded_column *c, double value)
{
    YKI_TRY(yki_grow((void **)&c->numbers, &c->number_capacity, c->number_count + 1,
                     sizeof *c->numbers, "numbers of a column"));
    c->numbers[c->number_count++] = value;
    return YOKE_OK;
}

yoke_status
yki_encoding_learn(yki_encoded_column *c, const char *cell, size_t length)
{
    double value;

    switch (c->kind) {
    case YKI_ENCODE_NUMBER:
        return take_number(c, cell, length, &value);
    case YKI_ENCODE_MEDIAN:
        if (length == 0)
            return YOKE_OK;
        YKI_TRY(take_number(c, cell, length, &value));
        return learn_number(c, value);
    case YKI_ENCODE_ONE_HOT:
        return length ? learn_text(c, cell) : YOKE_OK;
    case YKI_ENCODE_AUTO:
        if (length == 0)
            return YOKE_OK;
        if (!c->mixed && yki_parse_number(cell, length, &value) && fabs(value) < 3e38)
            YKI_TRY(learn_number(c, value));
        else
            c->mixed = true;
        /* Numbers of which there are too many to be texts are just numbers so far. */
        return c->mixed || c->text_count < MOST_TEXTS ? learn_text(c, cell) : YOKE_OK;
    case YKI_ENCODE_HASH:
    case YKI_ENCODE_DROP:
        break;
    }
    return YOKE_OK;
}

static int
by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The mean of the middle two, where their number is even. */
static yoke_status
find_median(yki_encoded_column *c)
{
    const size_t n = c->number_count;

    if (n == 0)
        return yki_fail(
            YOKE_ERROR_FORMAT,
            "column \"%s\" has no number, so it has no median; a rule \"%s=drop\" leaves "
            "it out",
            c->name, c->name);
    qsort(c->numbers, n, sizeof *c->numbers, by_size);
    c->median = n % 2 ? c->numbers[n / 2] : (c->numbers[n / 2 - 1] + c->numbers[n / 2]) / 2;
    return YOKE_OK;
}

static size_t
width_of(const yki_encoded_column *c)
{
    switch (c->kind) {
    case YKI_ENCODE_ONE_HOT:
        return c->text_count;
    case YKI_ENCODE_HASH:
        return (size_t)c->buckets;
    case YKI_ENCODE_DROP:
        return 0;
    default:
        return 1;
    }
}

static yoke_status
place_columns(yki_encoding *e)
{
    e->width = 0;
    for (size_t i = 0; i < e->count; i++) {
        e->columns[i].first = e->width;
        e->columns[i].width = width_of(&e->columns[i]);
        e->width += e->columns[i].width;
    }
    if (e->width == 0 || e->width > INT32_MAX)
        return yki_fail(YOKE_ERROR_FORMAT, "the rules leave %s; must leave some",
                        e->width ? "too many numbers" : "no column of data");
    return YOKE_OK;
}

yoke_status
yki_encoding_settle(yki_encoding *e)
{
    for (size_t i = 0; i < e->count; i++) {
        yki_encoded_column *c = &e->columns[i];

        if (c->kind == YKI_ENCODE_AUTO)
            c->kind = c->mixed ? YKI_ENCODE_ONE_HOT : YKI_ENCODE_MEDIAN;
        if (c->kind == YKI_ENCODE_MEDIAN)
            YKI_TRY(find_median(c));
        yki_free(c->numbers);
        c->numbers = NULL;
        c->number_count = c->number_capacity = 0;
    }
    return place_columns(e);
}

/* ---- applying ---- */

static size_t
bucket_of(const yki_encoded_column *c, const char *cell)
{
    uint64_t number = 0;
    yki_hash hash;
    char hex[33];

    yki_hash_start(&hash);
    yki_hash_string(&hash, cell);
    yki_hash_hex(&hash, hex);
    for (int i = 0; i < 15; i++)
        number = number * 16 + (uint64_t)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
    return (size_t)(number % (uint64_t)c->buckets);
}

yoke_status
yki_encoding_apply(const yki_encoded_column *c, const char *cell, size_t length, float *sample)
{
    float *to = sample + c->first;
    double value = c->median;
    size_t at;

    switch (c->kind) {
    case YKI_ENCODE_ONE_HOT:
        memset(to, 0, c->width * sizeof *to);
        if (length && find_text(c, cell, &at))
            to[at] = 1;
        return YOKE_OK;
    case YKI_ENCODE_HASH:
        memset(to, 0, c->width * sizeof *to);
        if (length)
            to[bucket_of(c, cell)] = 1;
        return YOKE_OK;
    case YKI_ENCODE_DROP:
        return YOKE_OK;
    default:
        if (length || c->kind == YKI_ENCODE_NUMBER)
            YKI_TRY(take_number(c, cell, length, &value));
        *to = (float)value;
        return YOKE_OK;
    }
}

/* ---- JSON ---- */

static json_t *
column_json(const yki_encoded_column *c)
{
    json_t *json = json_pack("{s:s, s:s}", "name", c->name, "kind", kinds[c->kind]);
    json_t *texts = json && c->kind == YKI_ENCODE_ONE_HOT ? json_array() : NULL;
    bool good = json != NULL;

    for (size_t i = 0; texts && i < c->text_count; i++)
        good = good && json_array_append_new(texts, json_string(c->texts[i])) == 0;
    if (texts)
        good = json_object_set_new(json, "texts", texts) == 0 && good;
    if (good && c->kind == YKI_ENCODE_HASH)
        good = json_object_set_new(json, "buckets", json_integer(c->buckets)) == 0;
    if (good && c->kind == YKI_ENCODE_MEDIAN)
        good = json_object_set_new(json, "median", yki_json_float((float)c->median)) == 0;
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

yoke_status
yki_encoding_write(const yki_encoding *e, char **out)
{
    yki_json_text text = {0};

    yki_json_add(&text, "{\"columns\": [");
    for (size_t i = 0; i < e->count; i++) {
        yki_json_add(&text, i ? ", " : "");
        yki_json_add_value(&text, column_json(&e->columns[i]), JSON_COMPACT);
    }
    yki_json_add(&text, "]");
    if (e->label) {
        yki_json_add(&text, ", \"label\": ");
        yki_json_add_value(&text, json_string(e->label), 0);
    }
    yki_json_add(&text, "}");
    return yki_json_take(&text, out);
}

static yoke_status
bad(const char *where)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: the encoding of columns is not one that yoke wrote",
                    where);
}

static yoke_status
read_column(const json_t *json, const char *where, yki_encoded_column *c)
{
    const char *name = json_string_value(json_object_get(json, "name"));
    const char *kind = json_string_value(json_object_get(json, "kind"));
    const json_t *texts = json_object_get(json, "texts");
    size_t k = 0;
    float median = 0;

    while (kind && k < YKI_ENCODE_AUTO && strcmp(kinds[k], kind) != 0)
        k++;
    if (!name || !kind || k >= YKI_ENCODE_AUTO)
        return bad(where);
    c->kind = (yki_encoding_kind)k;
    if (!(c->name = yki_strdup(name, "a column's name")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    c->buckets = json_integer_value(json_object_get(json, "buckets"));
    if (c->kind == YKI_ENCODE_HASH && (c->buckets < 1 || c->buckets > MOST_BUCKETS))
        return bad(where);
    if (c->kind == YKI_ENCODE_MEDIAN &&
        (!yki_json_get_float(json_object_get(json, "median"), &median) || !isfinite(median)))
        return bad(where);
    c->median = (double)median;
    if (c->kind == YKI_ENCODE_ONE_HOT && (!json_is_array(texts) || json_array_size(texts) == 0))
        return bad(where);
    for (size_t i = 0; c->kind == YKI_ENCODE_ONE_HOT && i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));

        if (!text || (i && strcmp(c->texts[i - 1], text) >= 0)) /* sorted, each once */
            return bad(where);
        YKI_TRY(learn_text(c, text));
    }
    return YOKE_OK;
}

static yoke_status
read_all(const json_t *json, const char *where, yki_encoding *e)
{
    const json_t *columns = json_object_get(json, "columns"), *label;
    const size_t count = json_array_size(columns);

    if (count == 0 || count > MOST_COLUMNS)
        return bad(where);
    YKI_TRY(yki_grow((void **)&e->columns, &e->capacity, count, sizeof *e->columns, "columns"));
    memset(e->columns, 0, count * sizeof *e->columns);
    for (; e->count < count; e->count++) {
        yoke_status status =
            read_column(json_array_get(columns, e->count), where, &e->columns[e->count]);

        if (status != YOKE_OK) {
            e->count++; /* so that it is freed */
            return status;
        }
    }
    label = json_object_get(json, "label");
    if (label && !json_is_string(label))
        return bad(where);
    if (label && !(e->label = yki_strdup(json_string_value(label), "a column's name")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    return place_columns(e);
}

yoke_status
yki_encoding_read(const char *text, const char *where, yki_encoding **out)
{
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    yki_encoding *e = yki_alloc(1, sizeof *e, "an encoding of columns");
    yoke_status status = e ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK)
        status = json_is_object(json) ? read_all(json, where, e) : bad(where);
    json_decref(json);
    if (status != YOKE_OK) {
        yki_encoding_destroy(e);
        return status;
    }
    *out = e;
    return YOKE_OK;
}

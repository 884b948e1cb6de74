/* SPDX-License-Identifier: Apache-2.0
 *
 * selector.c - reads device selectors into items.
 *
 *   selector = item ("," item)*
 *   item     = base ["/" split ["." piece]] ["@" size]
 *   base     = "all" | type [":" number] | "name~" text       type = "gpu" | "cpu" | "acc"
 *   split    = number | number ("+" number)+ | "numa"
 *   size     = number ["." digits] unit        unit = "B" | "KiB" | "MiB" | ... | "TB"
 *
 * The text after "name~" ends at "," "/" or "@". Blanks around items are skipped. An
 * error names the wrong token and the character at which it starts, counted from 1.
 *
 * Not here: which devices there are. This file knows no OpenCL, so it is tested
 * without a device.
 */
#include <stdio.h>
#include <string.h>

#include "device/internal.h"

typedef struct cursor {
    const char *text;
    size_t at;
} cursor;

static const char *const type_names[] = {
    [YOKE_DEVICE_GPU] = "gpu", [YOKE_DEVICE_CPU] = "cpu", [YOKE_DEVICE_ACCELERATOR] = "acc"};

const char *
yki_type_name(yoke_device_type type)
{
    return (size_t)type < YKI_COUNT(type_names) ? type_names[type] : "unknown";
}

const char *
yki_size_text(uint64_t size, char text[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    uint64_t unit = 1;
    size_t i = 0;

    while (i + 1 < YKI_COUNT(units) && size / unit >= 1024) {
        unit *= 1024;
        i++;
    }
    if (size % unit == 0)
        snprintf(text, 24, "%llu %s", (unsigned long long)(size / unit), units[i]);
    else
        snprintf(text, 24, "%.2f %s", (double)size / (double)unit, units[i]);
    return text;
}

yoke_status
yki_selector_fail(const char *text, size_t start, size_t length, const char *format, ...)
{
    enum { SHOWN = 80 };
    char reason[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (length == strlen(text) && length)
        return yki_fail(YOKE_ERROR_SELECTOR, "selector \"%.*s\": %s", 2 * SHOWN, text, reason);
    if (!length)
        return yki_fail(YOKE_ERROR_SELECTOR, "selector \"%.*s\", at the end: %s", 2 * SHOWN, text,
                        reason);
    return yki_fail(YOKE_ERROR_SELECTOR, "selector \"%.*s\", \"%.*s\" at character %zu: %s",
                    2 * SHOWN, text, (int)YKI_MIN(length, (size_t)SHOWN), text + start, start + 1,
                    reason);
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the length of the token at `at`: up to the next mark of the grammar, or that mark. */
static size_t
token_length(const char *text, size_t at)
{
    size_t length = strcspn(text + at, ",/@:+.");

    return length ? length : text[at] != '\0';
}

/* Fails at the cursor's token. */
static yoke_status
unexpected(const cursor *c, const char *wanted)
{
    return yki_selector_fail(c->text, c->at, token_length(c->text, c->at), "expected %s", wanted);
}

/* Whether a word ends before `c`. If it does not, the rest of the word is wrong too. */
static bool
ends_token(char c)
{
    return c == '\0' || strchr(",/@:+. \t", c) != NULL;
}

static yoke_status
read_number(cursor *c, const char *wanted, uint32_t *number)
{
    size_t start = c->at;
    uint64_t value = 0;

    if (!is_digit(c->text[c->at]))
        return unexpected(c, wanted);
    while (is_digit(c->text[c->at])) {
        value = value * 10 + (uint64_t)(c->text[c->at++] - '0');
        if (value > UINT32_MAX)
            return yki_selector_fail(c->text, start, token_length(c->text, start),
                                     "this number is too large");
    }
    if (!ends_token(c->text[c->at])) {
        c->at = start;
        return unexpected(c, wanted);
    }
    *number = (uint32_t)value;
    return YOKE_OK;
}

static bool
take(cursor *c, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(c->text + c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* Takes a word that does not go on with other characters. */
static bool
take_word(cursor *c, const char *word)
{
    size_t start = c->at;

    if (take(c, word) && ends_token(c->text[c->at]))
        return true;
    c->at = start;
    return false;
}

static yoke_status
read_base(cursor *c, yki_selector_item *part)
{
    if (take(c, "name~")) {
        part->base = YKI_BASE_NAME;
        part->name = c->text + c->at;
        part->name_length = strcspn(part->name, ",/@");
        c->at += part->name_length;
        while (part->name_length && part->name[part->name_length - 1] == ' ')
            part->name_length--;
        return part->name_length ? YOKE_OK : unexpected(c, "a part of a device's name");
    }
    if (take_word(c, "all")) {
        part->base = YKI_BASE_ALL;
        return YOKE_OK;
    }
    for (size_t i = 0; i < YKI_COUNT(type_names); i++)
        if (take_word(c, type_names[i])) {
            part->base = YKI_BASE_TYPE;
            part->type = (yoke_device_type)i;
            part->has_index = take(c, ":");
            return part->has_index ? read_number(c, "a device's number", &part->index) : YOKE_OK;
        }
    return unexpected(c, "all, gpu, cpu, acc or name~");
}

/* Writes the counts that were read into split->text, as in "1+3". */
static yoke_status
write_counts(const cursor *c, size_t start, yki_split *split)
{
    size_t length = 0;

    for (uint32_t i = 0; i < split->count; i++) {
        int n = snprintf(split->text + length, sizeof split->text - length, i ? "+%u" : "%u",
                         split->units[i]);

        length += (size_t)n;
        if (length >= sizeof split->text)
            return yki_selector_fail(c->text, start, c->at - start,
                                     "this split is too long to name its devices by");
    }
    return YOKE_OK;
}

static yoke_status
read_split(cursor *c, yki_split *split)
{
    size_t start = c->at, each;
    uint32_t number;

    if (take_word(c, "numa")) {
        split->kind = YKI_SPLIT_NUMA;
        snprintf(split->text, sizeof split->text, "numa");
        return YOKE_OK;
    }
    do {
        each = c->at;
        YKI_TRY(read_number(c, "a number of parts, counts like 1+3, or numa", &number));
        if (!number)
            return yki_selector_fail(c->text, each, c->at - each, "a count cannot be zero");
        if (split->count == YKI_MAX_COUNTS)
            return yki_selector_fail(c->text, each, c->at - each,
                                     "more than %d counts; split equally with /N", YKI_MAX_COUNTS);
        split->units[split->count++] = number;
    } while (take(c, "+"));
    if (split->count > 1) {
        split->kind = YKI_SPLIT_COUNTS;
        return write_counts(c, start, split);
    }
    if (number > YKI_MAX_PARTS)
        return yki_selector_fail(c->text, start, c->at - start, "more than %d parts",
                                 YKI_MAX_PARTS);
    split->kind = YKI_SPLIT_EQUAL;
    split->count = number;
    snprintf(split->text, sizeof split->text, "%u", number);
    return YOKE_OK;
}

/* *bytes = (whole + part / part_scale) * unit. Returns false if that exceeds 64 bits. */
static bool
scale_size(uint64_t whole, uint64_t part, uint64_t part_scale, uint64_t unit, uint64_t *bytes)
{
    uint64_t fraction = (uint64_t)((double)part / (double)part_scale * (double)unit);

    if (whole > (UINT64_MAX - fraction) / unit)
        return false;
    *bytes = whole * unit + fraction;
    return true;
}

static bool
read_unit(cursor *c, uint64_t *unit)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"B", 1},
        {"KiB", UINT64_C(1) << 10},
        {"MiB", UINT64_C(1) << 20},
        {"GiB", UINT64_C(1) << 30},
        {"TiB", UINT64_C(1) << 40},
        {"K", UINT64_C(1) << 10},
        {"M", UINT64_C(1) << 20},
        {"G", UINT64_C(1) << 30},
        {"T", UINT64_C(1) << 40},
        {"KB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {"TB", UINT64_C(1000000000000)},
    };

    for (size_t i = 0; i < YKI_COUNT(units); i++)
        if (take_word(c, units[i].name)) {
            *unit = units[i].bytes;
            return true;
        }
    return false;
}

static yoke_status
read_size(cursor *c, yki_selector_item *part)
{
    static const char wanted[] =
        "a size like 512M or 1.5GB (B; K, M, G, T or KiB, MiB, GiB, TiB; KB, MB, GB, TB)";
    /* Nine digits after the point are exact in a double, and more than anybody types. */
    const uint64_t most_parts = 1000000000;
    uint64_t whole = 0, fraction = 0, scale = 1, unit;
    size_t start = c->at, length = strcspn(c->text + start, ",/@ \t");

    part->quota_start = start;
    part->quota_length = length;
    if (!is_digit(c->text[c->at]))
        return yki_selector_fail(c->text, start, length, "expected %s", wanted);
    for (; is_digit(c->text[c->at]); c->at++) {
        uint64_t digit = (uint64_t)(c->text[c->at] - '0');

        if (whole > (UINT64_MAX - digit) / 10)
            return yki_selector_fail(c->text, start, length, "this size is too large");
        whole = whole * 10 + digit;
    }
    if (take(c, "."))
        for (; is_digit(c->text[c->at]) && scale < most_parts; c->at++, scale *= 10)
            fraction = fraction * 10 + (uint64_t)(c->text[c->at] - '0');
    if (!read_unit(c, &unit))
        return yki_selector_fail(c->text, start, length, "expected %s", wanted);
    if (!scale_size(whole, fraction, scale, unit, &part->quota))
        return yki_selector_fail(c->text, start, length, "this size is too large");
    if (!part->quota)
        return yki_selector_fail(c->text, start, length, "a quota cannot be zero");
    return YOKE_OK;
}

static void
skip_blanks(cursor *c)
{
    while (c->text[c->at] == ' ' || c->text[c->at] == '\t')
        c->at++;
}

static yoke_status
read_item(cursor *c, yki_selector_item *part)
{
    skip_blanks(c);
    part->start = c->at;
    YKI_TRY(read_base(c, part));
    if (take(c, "/")) {
        YKI_TRY(read_split(c, &part->split));
        if (take(c, ".")) {
            part->has_piece = true;
            YKI_TRY(read_number(c, "the number of one part", &part->piece));
        }
    }
    if (take(c, "@"))
        YKI_TRY(read_size(c, part));
    part->length = c->at - part->start;
    skip_blanks(c);
    if (c->text[c->at] == '\0' || c->text[c->at] == ',')
        return YOKE_OK;
    if (part->quota)
        return unexpected(c, "a comma or the end");
    if (part->has_piece)
        return unexpected(c, "@size, a comma or the end");
    if (part->split.kind != YKI_SPLIT_NONE)
        return unexpected(c, "+N, .N, @size, a comma or the end");
    return unexpected(c, "/split, @size, a comma or the end");
}

bool
yki_selector_is_empty(const char *text)
{
    return text[strspn(text, " \t")] == '\0';
}

yoke_status
yki_selector_parse(const char *text, yki_selector *selector)
{
    yki_selector result = {.text = text};
    cursor c = {text, 0};
    yoke_status status;

    if (yki_selector_is_empty(text))
        return yki_fail(YOKE_ERROR_SELECTOR,
                        "selector \"%s\" is empty: expected all, gpu, cpu, "
                        "acc or name~",
                        text);
    do {
        void *parts = result.parts;

        status = yki_grow(&parts, &result.capacity, result.count + 1, sizeof *result.parts,
                          "a selector");
        result.parts = parts;
        if (status == YOKE_OK) {
            result.parts[result.count] = (yki_selector_item){0};
            status = read_item(&c, &result.parts[result.count]);
            result.count++;
        }
    } while (status == YOKE_OK && take(&c, ","));
    if (status != YOKE_OK) {
        yki_selector_free(&result);
        return status;
    }
    *selector = result;
    return YOKE_OK;
}

void
yki_selector_free(yki_selector *selector)
{
    yki_free(selector->parts);
    *selector = (yki_selector){0};
}

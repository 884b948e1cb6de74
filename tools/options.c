/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - reads the arguments of options: numbers, names, and lists for schedules,
 * optimizers and augmentations.
 *
 * A row says of which kind the value of an option is, what its bounds are, and where it
 * goes. Lists are words with commas between them, such as "cosine,warmup=1". One reader
 * handles all of them; a table has the settings that each may have.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options.h"

enum { WHY = TOOL_WHY, WORD = 40 };

double
yki_tool_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads a finite decimal number; false: `text` is none. */
static bool
parse_real(const char *text, double *value)
{
    char *end;
    double v = strtod(text, &end);

    /* strtod also takes blanks, "inf", "nan" and hexadecimal numbers. */
    if (end == text || *end || !isfinite(v) || strspn(text, "+-.0123456789eE") < strlen(text))
        return false;
    *value = v;
    return true;
}

/* ---- values by their rows ---- */

static bool
read_number(const yki_tool_option *row, const char *text, double *value, char why[TOOL_SENTENCE])
{
    const bool whole = row->kind == TOOL_KIND_COUNT;
    const bool number = parse_real(text, value) && !(whole && strpbrk(text, ".eE"));

    if (number && *value >= row->least && *value <= row->most)
        return true;
    snprintf(why, TOOL_SENTENCE, "--%s is %s%s%s; must be %sbetween %.10g and %.10g", row->name,
             number ? "" : "\"", text, number ? "" : "\"",
             number  ? ""
             : whole ? "a whole number "
                     : "a number ",
             row->least, row->most);
    return false;
}

static bool
read_choice(const yki_tool_option *row, const char *text, int *value, char why[TOOL_SENTENCE])
{
    const yki_tool_choice *choice = row->choices;
    yki_near near;
    size_t used;

    yki_near_start(&near, text);
    for (; choice->name; choice++) {
        if (strcmp(choice->name, text) == 0) {
            *value = choice->value;
            return true;
        }
        yki_near_offer(&near, choice->name);
    }
    used = (size_t)snprintf(why, TOOL_SENTENCE, "--%s is \"%s\"; must be", row->name, text);
    for (choice = row->choices; choice->name && used < TOOL_SENTENCE; choice++)
        used += (size_t)snprintf(why + used, TOOL_SENTENCE - used, "%s %s",
                                 choice == row->choices ? ""
                                 : choice[1].name       ? ","
                                                        : " or",
                                 choice->name);
    if (used < TOOL_SENTENCE)
        snprintf(why + used, TOOL_SENTENCE - used, "%s", yki_near_hint(&near));
    return false;
}

bool
yki_tool_read_value(const yki_tool_option *row, const char *text, void *to, char why[TOOL_SENTENCE])
{
    void *at = (char *)to + row->offset;
    char reason[WHY] = "";
    double number;

    switch (row->kind) {
    case TOOL_KIND_FLAG:
        *(bool *)at = true;
        break;
    case TOOL_KIND_COUNT:
        if (!read_number(row, text, &number, why))
            return false;
        *(unsigned *)at = (unsigned)number;
        break;
    case TOOL_KIND_REAL:
        if (!read_number(row, text, &number, why))
            return false;
        *(double *)at = number;
        break;
    case TOOL_KIND_CHOICE:
        return read_choice(row, text, (int *)at, why);
    case TOOL_KIND_LIST:
        if (!row->check(text, reason)) {
            snprintf(why, TOOL_SENTENCE, "--%s=%s: %s", row->name, text, reason);
            return false;
        }
        *(const char **)at = text;
        break;
    case TOOL_KIND_TEXT:
        *(const char **)at = text;
        break;
    }
    return true;
}

/* ---- a name and settings ---- */

/* A setting: the variable that gets its number, or the flag that it sets; and the kinds that have
 * it, a bit for each. */
typedef struct setting {
    const char *name;
    double *value;
    double least;
    bool *flag;
    unsigned kinds;
} setting;
enum { EVERY_KIND = 0xff, MOST_SETTINGS = 8 };

/* Splits the first word of a list into `word` and, after "=", `value`; returns the rest. A text
 * that is too long becomes "". */
static const char *
next_word(const char *text, char word[WORD], char value[WORD])
{
    size_t length = strcspn(text, ","), name = strcspn(text, "=,");

    word[0] = value[0] = '\0';
    if (name < WORD)
        snprintf(word, WORD, "%.*s", (int)name, text);
    if (name < length && length - name - 1 < WORD)
        snprintf(value, WORD, "%.*s", (int)(length - name - 1), text + name + 1);
    return text[length] ? text + length + 1 : text + length;
}

/* Appends names to a sentence: " a, b or c". Returns the length that it would have in full. */
static size_t
list_names(char *sentence, size_t size, size_t used, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(sentence + used, size - used, "%s%s",
                                 i == 0          ? " "
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 names[i]);
    return used;
}

/* Says that `kind` has no setting of this name, and which it has. */
static void
deny_setting(const setting *settings, unsigned kind, const char *word, char why[WHY])
{
    const char *names[MOST_SETTINGS];
    yki_near near;
    size_t used = (size_t)snprintf(why, WHY, "there is no setting \"%s\"; must be", word);
    size_t count = 0;

    yki_near_start(&near, word);
    for (const setting *s = settings; s->name && count < MOST_SETTINGS; s++)
        if (s->kinds & 1u << kind) {
            yki_near_offer(&near, s->name);
            names[count++] = s->name;
        }
    used = list_names(why, WHY, used, names, count);
    if (used < WHY)
        snprintf(why + used, WHY - used, "%s", yki_near_hint(&near));
}

static bool
take_setting(const setting *settings, unsigned kind, const char *word, const char *value,
             char why[WHY])
{
    double number;

    for (const setting *s = settings; s->name; s++) {
        if (strcmp(s->name, word) != 0 || !(s->kinds & 1u << kind))
            continue;
        if (s->flag ? *value == '\0' : parse_real(value, &number) && number >= s->least) {
            if (s->flag)
                *s->flag = true;
            else
                *s->value = number;
            return true;
        }
        if (s->flag)
            snprintf(why, WHY, "%s is \"%s\"; must have no value", word, value);
        else
            snprintf(why, WHY, "%s is \"%s\"; must be a number of at least %g", word, value,
                     s->least);
        return false;
    }
    deny_setting(settings, kind, word, why);
    return false;
}

static bool
take_settings(const char *text, const setting *settings, unsigned kind, char why[WHY])
{
    char word[WORD], value[WORD];

    while (*text) {
        text = next_word(text, word, value);
        if (!take_setting(settings, kind, word, value, why))
            return false;
    }
    return true;
}

/* The index of the word in `names`, which ends with NULL; -1 and a reason if it is not there. */
static int
find_name(const char *word, const char *const *names, char why[WHY])
{
    yki_near near;
    size_t used;
    int count = 0;

    yki_near_start(&near, word);
    for (; names[count]; count++) {
        if (strcmp(word, names[count]) == 0)
            return count;
        yki_near_offer(&near, names[count]);
    }
    used = (size_t)snprintf(why, WHY, "\"%s\" is unknown; must be", word);
    used = list_names(why, WHY, used, names, (size_t)count);
    if (used < WHY)
        snprintf(why + used, WHY - used, "%s", yki_near_hint(&near));
    return -1;
}

bool
yki_tool_parse_schedule(const char *text, yki_tool_schedule *out, char why[WHY])
{
    static const char *const names[] = {"constant", "step", "cosine", "linear", "one-cycle", NULL};
    static const yoke_schedule_kind kinds[] = {YOKE_SCHEDULE_CONSTANT, YOKE_SCHEDULE_STEP,
                                               YOKE_SCHEDULE_COSINE, YOKE_SCHEDULE_LINEAR,
                                               YOKE_SCHEDULE_ONE_CYCLE};
    enum { STEP = 1 << 1, COSINE = 1 << 2, LINEAR = 1 << 3, ONE_CYCLE = 1 << 4 };
    yki_tool_schedule s = {.period = 30, .factor = 0.1, .initial = 0.04};
    const setting settings[] = {{"warmup", &s.warmup, 0, NULL, EVERY_KIND},
                                {"period", &s.period, 0, NULL, STEP},
                                {"factor", &s.factor, 0, NULL, STEP},
                                {"initial", &s.initial, 0, NULL, ONE_CYCLE},
                                {"final", &s.final_factor, 0, NULL, COSINE | LINEAR | ONE_CYCLE},
                                {0}};
    char word[WORD], value[WORD];
    const char *rest = next_word(text, word, value);
    int kind = find_name(word, names, why);

    if (kind < 0 || !take_settings(rest, settings, (unsigned)kind, why))
        return false;
    s.kind = kinds[kind];
    *out = s;
    return true;
}

/* Converts epochs to steps, rounded to the nearest. A time above 0 is at least one step. */
static int64_t
steps_of(double epochs, int64_t steps_per_epoch)
{
    double steps = epochs * (double)steps_per_epoch;

    return epochs > 0 && steps < 1 ? 1 : steps < 9e15 ? (int64_t)llround(steps) : INT64_MAX;
}

yoke_schedule
yki_tool_make_schedule(const yki_tool_schedule *s, int64_t steps_per_epoch, int64_t epochs)
{
    yoke_schedule schedule;

    memset(&schedule, 0, sizeof schedule);
    schedule.kind = s->kind;
    schedule.factor = (float)s->factor;
    schedule.initial = (float)s->initial;
    schedule.final_factor = (float)s->final_factor;
    schedule.warmup = steps_of(s->warmup, steps_per_epoch);
    schedule.period = steps_of(s->period, steps_per_epoch);
    schedule.steps = steps_of((double)epochs, steps_per_epoch);
    /* Without a warm-up, one-cycle grows for three tenths of all steps. */
    if (s->kind == YOKE_SCHEDULE_ONE_CYCLE && schedule.warmup == 0)
        schedule.warmup = schedule.steps * 3 / 10;
    return schedule;
}

bool
yki_tool_parse_optimizer(const char *text, double rate, yoke_optimizer *out, char why[WHY])
{
    static const char *const names[] = {"sgd", "adam", "adamw", "rmsprop", NULL};
    enum { SGD = 1, ADAM = 2 | 4, RMSPROP = 8 };
    double momentum = -1, decay = -1, epsilon = -1, beta1 = -1, beta2 = -1;
    bool nesterov = false;
    const setting settings[] = {{"momentum", &momentum, 0, NULL, SGD | RMSPROP},
                                {"decay", &decay, 0, NULL, EVERY_KIND},
                                {"epsilon", &epsilon, 0, NULL, ADAM | RMSPROP},
                                {"beta1", &beta1, 0, NULL, ADAM},
                                {"beta2", &beta2, 0, NULL, ADAM | RMSPROP},
                                {"nesterov", NULL, 0, &nesterov, SGD},
                                {0}};
    char word[WORD], value[WORD];
    const char *rest = next_word(text, word, value);
    int kind = find_name(word, names, why);
    yoke_optimizer o;

    if (kind < 0 || !take_settings(rest, settings, (unsigned)kind, why))
        return false;
    o = kind == 0   ? yoke_sgd(rate > 0 ? (float)rate : 0.01f, 0.9f)
        : kind == 1 ? yoke_adam(rate > 0 ? (float)rate : 1e-3f)
        : kind == 2 ? yoke_adamw(rate > 0 ? (float)rate : 1e-3f, 0.01f)
                    : yoke_rmsprop(rate > 0 ? (float)rate : 1e-3f);
    if (momentum >= 0)
        o.momentum = (float)momentum;
    if (decay >= 0)
        o.weight_decay = (float)decay;
    if (epsilon >= 0)
        o.epsilon = (float)epsilon;
    if (beta1 >= 0)
        o.beta1 = (float)beta1;
    if (beta2 >= 0)
        o.beta2 = (float)beta2;
    o.nesterov = nesterov;
    *out = o;
    return true;
}

bool
yki_tool_parse_augmentation(const char *text, yoke_augmentation *out, char why[WHY])
{
    double shift = 0, part = -1, noise = 0;
    bool flip = false, crop = false;
    const setting settings[] = {
        {"flip", NULL, 0, &flip, EVERY_KIND}, {"shift", &shift, 0, NULL, EVERY_KIND},
        {"part", &part, 0, NULL, EVERY_KIND}, {"noise", &noise, 0, NULL, EVERY_KIND},
        {"crop", NULL, 0, &crop, EVERY_KIND}, {0}};

    if (strcmp(text, "none") != 0 && !take_settings(text, settings, 0, why))
        return false;
    if (shift > 1000 || shift != floor(shift)) {
        snprintf(why, WHY, "shift is %g; must be a whole number of at most 1000", shift);
        return false;
    }
    /* To the library a part of 0 means all. */
    if ((float)part == 0 || part > 1) {
        snprintf(why, WHY, "part is %g; must be above 0 and at most 1", part);
        return false;
    }
    if (part > 0 && shift == 0) {
        snprintf(why, WHY, "part is %g, but nothing is shifted; must be with shift=N", part);
        return false;
    }
    memset(out, 0, sizeof *out);
    out->flip = flip;
    out->crop = crop;
    out->shift = (int32_t)shift;
    out->noise = (float)noise;
    out->shift_part = part > 0 ? (float)part : 0;
    return true;
}

/* A word without "=" goes on with the targets, which are separated by commas too. */
static bool
take_lora_word(const char *text, size_t length, const setting *settings, yki_tool_lora *l,
               bool *in_targets, char why[WHY])
{
    static const char key[] = "targets=";
    const size_t key_length = sizeof key - 1;
    const bool starts = strncmp(text, key, key_length) == 0;
    char word[WORD], value[WORD];
    size_t used = strlen(l->targets);

    if (!starts && !(*in_targets && !memchr(text, '=', length))) {
        *in_targets = false;
        next_word(text, word, value);
        return take_setting(settings, 0, word, value, why);
    }
    *in_targets = true;
    if (starts) {
        text += key_length;
        length -= key_length;
    }
    if (used + length + 2 > sizeof l->targets || length == 0) {
        snprintf(why, WHY, "the targets are %s; must have 1 to %zu characters",
                 length ? "too long" : "empty", sizeof l->targets - 1);
        return false;
    }
    snprintf(l->targets + used, sizeof l->targets - used, "%s%.*s", used ? "," : "", (int)length,
             text);
    return true;
}

bool
yki_tool_parse_lora(const char *text, yki_tool_lora *out, char why[WHY])
{
    double rank = 8, alpha = 16, dropout = 0;
    const setting settings[] = {{"rank", &rank, 1, NULL, EVERY_KIND},
                                {"alpha", &alpha, 1e-6, NULL, EVERY_KIND},
                                {"dropout", &dropout, 0, NULL, EVERY_KIND},
                                {"targets", NULL, 0, NULL, EVERY_KIND},
                                {0}};
    yki_tool_lora l = {0};
    bool in_targets = false;

    for (size_t length; *text && strcmp(text, "default") != 0;
         text += length + (text[length] != 0)) {
        length = strcspn(text, ",");
        if (!take_lora_word(text, length, settings, &l, &in_targets, why))
            return false;
    }
    if (rank > 65536 || rank != floor(rank)) {
        snprintf(why, WHY, "rank is %g; must be a whole number between 1 and 65536", rank);
        return false;
    }
    if (dropout >= 1) {
        snprintf(why, WHY, "dropout is %g; must be at least 0 and below 1", dropout);
        return false;
    }
    l.rank = (unsigned)rank;
    l.alpha = (float)alpha;
    l.dropout = (float)dropout;
    *out = l;
    return true;
}

bool
yki_tool_parse_image_size(const char *text, int *height, int *width, char why[WHY])
{
    enum { MOST = 4096 };
    char *end;
    long h = strtol(text, &end, 10), w = h;

    if (end != text && *end == 'x' && end[1] >= '0' && end[1] <= '9')
        w = strtol(end + 1, &end, 10);
    if (end == text || *end || h < 1 || h > MOST || w < 1 || w > MOST) {
        snprintf(why, WHY, "must be a side or height and width, as 224 or 96x128, of at most %d",
                 MOST);
        return false;
    }
    *height = (int)h;
    *width = (int)w;
    return true;
}

/* ---- memory ---- */

/* Reads a size such as 512M, 1.5GiB or 200MB, with the units of a quota (yoke-selectors). */
static bool
parse_size(const char *text, uint64_t *bytes)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"B", 1},        {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
                 {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},
                 {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double number;

    if (*text == '.' || digits == 0 || digits > 15)
        return false;
    number = strtod(text, &end);
    if (end != text + digits)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].name) == 0 && number * units[i].bytes >= 1 &&
            number * units[i].bytes < 0x1p63) {
            *bytes = (uint64_t)(number * units[i].bytes);
            return true;
        }
    return false;
}

bool
yki_tool_parse_loss_scale(const char *text, float *scale, char why[WHY])
{
    char *end;
    int exponent;
    float number = strtof(text, &end);

    *scale = 0;
    if (strcmp(text, "auto") == 0)
        return true;
    if (end != text && !*end && number >= 0x1p-24f && number <= 0x1p60f &&
        frexpf(number, &exponent) == 0.5f) {
        *scale = number;
        return true;
    }
    snprintf(why, WHY, "must be auto, or a power of 2 between 2^-24 and 2^60, such as 1024");
    return false;
}

bool
yki_tool_parse_stages(const char *text, uint32_t *stages, char why[WHY])
{
    enum { MOST = 65536 };
    char *end;
    long number = strtol(text, &end, 10);

    if (strcmp(text, "auto") == 0 || strcmp(text, "fit") == 0 || strcmp(text, "no") == 0) {
        *stages = text[0] == 'a' ? YOKE_STAGES_AUTO : text[0] == 'f' ? YOKE_STAGES_FIT : 0;
        return true;
    }
    if (end != text && !*end && number >= 1 && number <= MOST) {
        *stages = (uint32_t)number;
        return true;
    }
    snprintf(why, WHY, "must be no, fit, auto, or a number from 1 to %d", MOST);
    return false;
}

bool
yki_tool_parse_recompute(const char *text, yoke_recompute_choice *choice, uint64_t *bytes,
                         char why[WHY])
{
    *bytes = 0;
    *choice = strcmp(text, "cheap") == 0 ? YOKE_RECOMPUTE_CHEAP : YOKE_RECOMPUTE_NOTHING;
    if (*choice == YOKE_RECOMPUTE_CHEAP || strcmp(text, "none") == 0 || parse_size(text, bytes))
        return true;
    snprintf(why, WHY, "must be none, cheap, or a size in bytes such as 512M or 1.5GB");
    return false;
}

bool
yki_tool_parse_recompute_or_auto(const char *text, yoke_recompute_choice *choice, uint64_t *bytes,
                                 char why[WHY])
{
    if (yki_tool_parse_recompute(text, choice, bytes, why))
        return true;
    if (strcmp(text, "auto") == 0) {
        *choice = YOKE_RECOMPUTE_AUTO;
        return true;
    }
    snprintf(why, WHY, "must be auto, none, cheap, or a size in bytes such as 512M or 1.5GB");
    return false;
}

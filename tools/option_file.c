/* SPDX-License-Identifier: Apache-2.0
 *
 * option_file.c - reads and writes the options of a command as an object of JSON.
 *
 * The rows of the command say what each member must be, so a file is checked as a command line is,
 * and a new option needs nothing here.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "option_file.h"
#include "options.h"
#include "source.h"

enum { NUMBER = 40, SENTENCE = PATH_MAX + 256 };

/* ---- reading ---- */

static const yki_tool_option *
find_row(const yki_tool_command *command, const char *name, yki_near *near)
{
    const yki_tool_option *row;

    yki_near_start(near, name);
    for (size_t i = 0; (row = yki_tool_row(command, i)) != NULL; i++) {
        if (strcmp(row->name, name) == 0)
            return row;
        yki_near_offer(near, row->name);
    }
    return NULL;
}

/* Writes a number with the fewest digits, 15 or 17, that read back as it is. */
static const char *
number_text(const json_t *value, char text[NUMBER])
{
    if (json_is_integer(value)) {
        snprintf(text, NUMBER, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return text;
    }
    snprintf(text, NUMBER, "%.15g", json_real_value(value));
    if (strtod(text, NULL) < json_real_value(value) || strtod(text, NULL) > json_real_value(value))
        snprintf(text, NUMBER, "%.17g", json_real_value(value));
    return text;
}

static bool
read_member(const yki_tool_command *command, const yki_tool_option *row, const json_t *value,
            void *to, char why[TOOL_SENTENCE])
{
    const bool flag = row->kind == TOOL_KIND_FLAG;
    const bool counts = row->kind == TOOL_KIND_COUNT || row->kind == TOOL_KIND_REAL;
    const char *text = json_string_value(value);
    char number[NUMBER];

    if (flag && json_is_false(value))
        return true;
    if (counts && json_is_number(value))
        text = number_text(value, number);
    if (flag ? !json_is_true(value) : counts ? !json_is_number(value) : !text) {
        snprintf(why, TOOL_SENTENCE, "the value of \"%s\" must be %s", row->name,
                 flag     ? "true or false"
                 : counts ? "a number"
                          : "a text");
        return false;
    }
    return yki_tool_read_value(row, text, (char *)to + (row->takers ? command->shared_at : 0), why);
}

static int
read_members(const yki_tool_command *command, const char *path, json_t *json, void *to)
{
    const char *name;
    json_t *value;

    json_object_foreach(json, name, value)
    {
        char why[TOOL_SENTENCE];
        yki_near near;
        const yki_tool_option *row = find_row(command, name, &near);

        if (!row)
            return yki_tool_usage(command, "%s: there is no option \"%s\"%s", path, name,
                                  yki_near_hint(&near));
        if (!read_member(command, row, value, to, why))
            return yki_tool_usage(command, "%s: %s", path, why);
    }
    return TOOL_OK;
}

int
yki_tool_read_options(const yki_tool_command *command, const char *path, void *to, json_t **kept)
{
    json_error_t error;
    size_t length;
    char *text;
    yoke_status status = yki_tool_read_text(path, "options as JSON", &text, &length);

    if (status)
        return yki_tool_fail(command, status);
    *kept = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!*kept)
        return yki_tool_usage(command, "%s: line %d is no JSON: %s", path, error.line, error.text);
    if (!json_is_object(*kept))
        return yki_tool_usage(command, "%s is no object; must be one, such as {\"epochs\": 20}",
                              path);
    return read_members(command, path, *kept, to);
}

/* ---- writing ---- */

/* A text that is not UTF-8, as a file's name may be, is none of JSON. */
static bool
can_be_written(const yki_tool_option *row, const char *base)
{
    const bool text = row->kind == TOOL_KIND_TEXT || row->kind == TOOL_KIND_LIST;
    const char *value = text ? *(const char *const *)(base + row->offset) : NULL;
    json_t *json = value ? json_string(value) : NULL;
    const bool good = !value || json;

    json_decref(json);
    return good;
}

/* NULL: the option is not given. */
static json_t *
value_of(const yki_tool_option *row, const char *base)
{
    const char *at = base + row->offset;
    const yki_tool_choice *choice = row->choices;

    switch (row->kind) {
    case TOOL_KIND_FLAG:
        return *(const bool *)at ? json_true() : NULL;
    case TOOL_KIND_COUNT:
        return *(const unsigned *)at ? json_integer(*(const unsigned *)at) : NULL;
    case TOOL_KIND_REAL:
        return *(const double *)at > 0 || *(const double *)at < 0 ? json_real(*(const double *)at)
                                                                  : NULL;
    case TOOL_KIND_CHOICE:
        while (choice->name && choice->value != *(const int *)at)
            choice++;
        return *(const int *)at ? json_string(choice->name) : NULL;
    case TOOL_KIND_TEXT:
    case TOOL_KIND_LIST:
        break;
    }
    return json_string(*(const char *const *)at);
}

/* *bad: the name of an option whose value cannot be written; NULL: there is none. */
static json_t *
options_json(const yki_tool_command *command, const char *from, const char *const *except,
             const char **bad)
{
    json_t *json = json_object();
    const yki_tool_option *row;

    for (size_t i = 0; (row = yki_tool_row(command, i)) != NULL; i++) {
        const char *const *left_out = except;

        const char *base = from + (row->takers ? command->shared_at : 0);

        while (*left_out && strcmp(*left_out, row->name) != 0)
            left_out++;
        if (*left_out)
            continue;
        if (!can_be_written(row, base))
            *bad = row->name;
        json_object_set_new(json, row->name, value_of(row, base));
    }
    return json;
}

yoke_status
yki_tool_write_options(const yki_tool_command *command, const char *path, const void *from,
                       const char *const *except)
{
    char beside[PATH_MAX], sentence[SENTENCE];
    const char *bad = NULL;
    json_t *json = options_json(command, from, except, &bad);
    FILE *file;
    bool written;

    if (bad) {
        json_decref(json);
        snprintf(sentence, sizeof sentence,
                 "%s: the options cannot be written: the value of \"%s\" is not UTF-8, as texts of "
                 "JSON must be",
                 path, bad);
        return yoke_fail(YOKE_ERROR_VALUE, sentence);
    }
    snprintf(beside, sizeof beside, "%s.tmp", path);
    file = fopen(beside, "w");
    written = file && json_dumpf(json, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF;
    json_decref(json);
    written = (file && fclose(file) == 0) && written && rename(beside, path) == 0;
    if (written)
        return YOKE_OK;
    snprintf(sentence, sizeof sentence, "%s: the options cannot be written: %s", path,
             strerror(errno));
    if (file)
        unlink(beside);
    return yoke_fail(YOKE_ERROR_IO, sentence);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - a JSON writer: it indents by two blanks and writes one member a line.
 *
 * It keeps nothing in memory, so a document may have any size. It does not check that
 * keys differ or that the caller closes each object and array.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* After four of the first bytes, the second byte has tighter bounds, which exclude overlong forms,
 * surrogates, and all above U+10FFFF (Unicode, table 3-7). */
unsigned
yki_tool_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf;
    unsigned length;

    if (s[0] == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        length = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        length = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        length = 4;
    else
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    if (s[1] < low || s[1] > high)
        return 0;
    for (unsigned i = 2; i < length; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return length;
}

static void
write_string(FILE *stream, const char *text)
{
    fputc('"', stream);
    while (*text) {
        unsigned length = yki_tool_utf8_length(text);

        if (length == 0) {
            fputs("\\ufffd", stream);
            length = 1;
        } else if (*text == '"' || *text == '\\') {
            fprintf(stream, "\\%c", *text);
        } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            fprintf(stream, "\\u%04x", (unsigned)(unsigned char)*text);
        } else {
            fwrite(text, 1, length, stream);
        }
        text += length;
    }
    fputc('"', stream);
}

static void
indent(yki_tool_json *json)
{
    if (json->compact)
        return;
    fputc('\n', json->stream);
    for (unsigned i = 0; i < json->depth; i++)
        fputs("  ", json->stream);
}

/* Writes what stands before a value: a comma, the indentation, the key. */
static void
begin(yki_tool_json *json, const char *key)
{
    if (json->filled)
        fputs(json->compact ? ", " : ",", json->stream);
    if (json->depth > 0)
        indent(json);
    json->filled = true;
    if (key) {
        write_string(json->stream, key);
        fputs(": ", json->stream);
    }
}

static void
open_with(yki_tool_json *json, const char *key, char bracket)
{
    begin(json, key);
    fputc(bracket, json->stream);
    json->depth++;
    json->filled = false;
}

static void
close_with(yki_tool_json *json, char bracket)
{
    json->depth--;
    if (json->filled)
        indent(json);
    fputc(bracket, json->stream);
    json->filled = true;
}

void
yki_tool_json_start(yki_tool_json *json, FILE *stream)
{
    *json = (yki_tool_json){.stream = stream};
}

void
yki_tool_json_start_line(yki_tool_json *json, FILE *stream)
{
    *json = (yki_tool_json){.stream = stream, .compact = true};
}

void
yki_tool_json_end(yki_tool_json *json)
{
    fputc('\n', json->stream);
}

void
yki_tool_json_open_object(yki_tool_json *json, const char *key)
{
    open_with(json, key, '{');
}

void
yki_tool_json_close_object(yki_tool_json *json)
{
    close_with(json, '}');
}

void
yki_tool_json_open_array(yki_tool_json *json, const char *key)
{
    open_with(json, key, '[');
}

void
yki_tool_json_close_array(yki_tool_json *json)
{
    close_with(json, ']');
}

void
yki_tool_json_string(yki_tool_json *json, const char *key, const char *value)
{
    begin(json, key);
    if (value)
        write_string(json->stream, value);
    else
        fputs("null", json->stream);
}

void
yki_tool_json_integer(yki_tool_json *json, const char *key, uint64_t value)
{
    begin(json, key);
    fprintf(json->stream, "%llu", (unsigned long long)value);
}

/* The command never calls setlocale, so the decimal point is a point. */
void
yki_tool_json_real(yki_tool_json *json, const char *key, double value)
{
    char text[40];

    begin(json, key);
    if (!isfinite(value)) {
        fputs("null", json->stream);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, json->stream);
}

void
yki_tool_json_bool(yki_tool_json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->stream);
}

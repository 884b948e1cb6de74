/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - writes JSON (RFC 8259) to a stream, a value at a time.
 *
 * Commas, indentation and escapes are the writer's; the nesting and the keys
 * are the caller's: inside an object every value has a key, inside an array it
 * is NULL. Errors of the stream are left in the stream, for main to find.
 */
#ifndef YOKE_TOOLS_JSON_H
#define YOKE_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct yki_tool_json {
    FILE *stream;
    unsigned depth;
    bool filled;  /* the innermost object or array has a member already */
    bool compact; /* all on one line */
} yki_tool_json;

void yki_tool_json_start(yki_tool_json *json, FILE *stream);
/* The same for a file of lines, each of which is a value. */
void yki_tool_json_start_line(yki_tool_json *json, FILE *stream);
void yki_tool_json_end(yki_tool_json *json); /* the last newline */

void yki_tool_json_open_object(yki_tool_json *json, const char *key);
void yki_tool_json_close_object(yki_tool_json *json);
void yki_tool_json_open_array(yki_tool_json *json, const char *key);
void yki_tool_json_close_array(yki_tool_json *json);
/* Bytes that are not UTF-8 become U+FFFD: drivers may say anything. NULL is null. */
void yki_tool_json_string(yki_tool_json *json, const char *key, const char *value);
void yki_tool_json_integer(yki_tool_json *json, const char *key, uint64_t value);
/* Shortest of 15 to 17 digits that reads back as `value`; not finite: null. */
void yki_tool_json_real(yki_tool_json *json, const char *key, double value);
void yki_tool_json_bool(yki_tool_json *json, const char *key, bool value);

/* Bytes of the UTF-8 character that `text` begins with, or 0 if it is none. */
unsigned yki_tool_utf8_length(const char *text);

#endif

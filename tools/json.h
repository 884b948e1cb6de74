/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - writes JSON (RFC 8259) to a stream, one value at a time.
 *
 * The writer adds commas, indentation and escapes. The caller is responsible for the
 * nesting and the keys: inside an object every value has a key, inside an array the
 * key is NULL. Errors stay in the stream, where main finds them.
 */
#ifndef YOKE_TOOLS_JSON_H
#define YOKE_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct yki_tool_json {
    FILE *stream;
    unsigned depth;
    bool filled;  /* the innermost object or array already has a member */
    bool compact; /* all on one line */
} yki_tool_json;

void yki_tool_json_start(yki_tool_json *json, FILE *stream);
/* The same for a file in which each line is a value. */
void yki_tool_json_start_line(yki_tool_json *json, FILE *stream);
void yki_tool_json_end(yki_tool_json *json); /* writes the last newline */

void yki_tool_json_open_object(yki_tool_json *json, const char *key);
void yki_tool_json_close_object(yki_tool_json *json);
void yki_tool_json_open_array(yki_tool_json *json, const char *key);
void yki_tool_json_close_array(yki_tool_json *json);
/* Bytes that are not UTF-8 become U+FFFD, because names of drivers may hold any bytes. NULL is
 * written as null. */
void yki_tool_json_string(yki_tool_json *json, const char *key, const char *value);
void yki_tool_json_integer(yki_tool_json *json, const char *key, uint64_t value);
/* Writes the fewest digits, from 15 to 17, that read back as `value`; null if it is not finite. */
void yki_tool_json_real(yki_tool_json *json, const char *key, double value);
void yki_tool_json_bool(yki_tool_json *json, const char *key, bool value);

/* Returns the bytes of the UTF-8 character that `text` begins with, or 0 if there is none. */
unsigned yki_tool_utf8_length(const char *text);

#endif

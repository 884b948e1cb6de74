/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - aligned columns for people.
 *
 * Cells are added row by row and copied; nothing is printed before all widths are
 * known. Characters that would move the cursor are shown as '?', because names come
 * from drivers.
 */
#ifndef YOKE_TOOLS_TABLE_H
#define YOKE_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_MAX_COLUMNS = 16 };

typedef struct yki_tool_table {
    const char *heads[TABLE_MAX_COLUMNS];
    bool right[TABLE_MAX_COLUMNS]; /* aligned on the right, as numbers are */
    size_t columns;
    char **cells;
    size_t count, capacity;
    bool failed; /* out of memory; yki_tool_table_print returns false */
} yki_tool_table;

void yki_tool_table_start(yki_tool_table *table);
void yki_tool_table_column(yki_tool_table *table, const char *head, bool right);
/* Adds the next cell, from left to right and from top to bottom. */
void yki_tool_table_cell(yki_tool_table *table, const char *format, ...)
#if defined(__GNUC__) || defined(__clang__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* Prints the table and empties it; false: it was out of memory, and nothing was printed. */
bool yki_tool_table_print(yki_tool_table *table, FILE *stream);

/* Writes a size such as "1.5 GiB" to `text`, which has room for 32 characters; returns it. */
const char *yki_tool_bytes(uint64_t bytes, char *text);
/* Writes a driver's text, with '?' for control characters and for bytes that are not UTF-8. */
void yki_tool_print_clean(const char *text, FILE *stream);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - aligned columns for people. Widths count characters (code points), which is
 * right for the names of devices and wrong for scripts of double width.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "table.h"

/* C0, DEL, or one of the C1 controls, which are c2 80 to c2 9f in UTF-8. */
static bool
is_control(const char *text)
{
    unsigned char a = (unsigned char)text[0], b = (unsigned char)text[1];

    return a < 0x20 || a == 0x7f || (a == 0xc2 && b < 0xa0);
}

/* Counts the characters that a text takes on the screen; prints them if there is a stream. */
static size_t
clean(const char *text, FILE *stream)
{
    size_t width = 0;

    while (*text) {
        unsigned length = yki_tool_utf8_length(text);

        if (stream) {
            if (length == 0 || is_control(text))
                fputc('?', stream);
            else
                fwrite(text, 1, length, stream);
        }
        text += length ? length : 1;
        width++;
    }
    return width;
}

void
yki_tool_print_clean(const char *text, FILE *stream)
{
    clean(text, stream);
}

void
yki_tool_table_start(yki_tool_table *table)
{
    *table = (yki_tool_table){0};
}

void
yki_tool_table_column(yki_tool_table *table, const char *head, bool right)
{
    assert(table->columns < TABLE_MAX_COLUMNS);
    table->heads[table->columns] = head;
    table->right[table->columns] = right;
    table->columns++;
}

static bool
make_room(yki_tool_table *table)
{
    size_t capacity = table->capacity ? 2 * table->capacity : 64;
    char **cells;

    if (table->count < table->capacity)
        return true;
    cells = realloc(table->cells, capacity * sizeof *cells);
    if (!cells)
        return false;
    table->cells = cells;
    table->capacity = capacity;
    return true;
}

void
yki_tool_table_cell(yki_tool_table *table, const char *format, ...)
{
    char *cell = NULL;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0)
        cell = malloc((size_t)length + 1);
    if (!cell || !make_room(table)) {
        free(cell);
        table->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(cell, (size_t)length + 1, format, args);
    va_end(args);
    table->cells[table->count++] = cell;
}

static void
blanks(size_t count, FILE *stream)
{
    while (count-- > 0)
        fputc(' ', stream);
}

/* `pending` blanks are printed only before the next text, so that no line ends in blanks. */
static void
print_row(const yki_tool_table *table, const char *const *texts, const size_t *widths, FILE *stream)
{
    size_t pending = 0;

    for (size_t i = 0; i < table->columns; i++) {
        size_t width = clean(texts[i], NULL);

        if (width == 0) {
            pending += widths[i] + 2;
            continue;
        }
        blanks(pending + (table->right[i] ? widths[i] - width : 0), stream);
        clean(texts[i], stream);
        pending = 2 + (table->right[i] ? 0 : widths[i] - width);
    }
    fputc('\n', stream);
}

bool
yki_tool_table_print(yki_tool_table *table, FILE *stream)
{
    size_t widths[TABLE_MAX_COLUMNS] = {0};
    bool printed = !table->failed;

    for (size_t i = 0; i < table->columns; i++)
        widths[i] = clean(table->heads[i], NULL);
    for (size_t i = 0; i < table->count; i++) {
        size_t width = clean(table->cells[i], NULL);

        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }
    if (printed)
        print_row(table, table->heads, widths, stream);
    for (size_t i = 0; printed && i + table->columns <= table->count; i += table->columns)
        print_row(table, (const char *const *)(table->cells + i), widths, stream);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    yki_tool_table_start(table);
    return printed;
}

const char *
yki_tool_bytes(uint64_t bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    /* Whole numbers have no point, others one digit after it. */
    if (value == (double)(uint64_t)value)
        snprintf(text, 32, "%.0f %s", value, units[unit]);
    else
        snprintf(text, 32, "%.1f %s", value, units[unit]);
    return text;
}

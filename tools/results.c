/* SPDX-License-Identifier: Apache-2.0
 *
 * results.c - writes what a model says of samples to a file, for other programs.
 *
 * A table has 9 digits, which are enough to read the same floats again. An array has NumPy's
 * format, version 1.0.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "fields.h"
#include "results.h"

static bool
ends_with(const char *path, const char *end)
{
    const size_t length = strlen(path), size = strlen(end);

    return length >= size && strcasecmp(path + length - size, end) == 0;
}

bool
yki_tool_results_named(const char *path)
{
    return ends_with(path, ".csv") || ends_with(path, ".npy");
}

static void
write_cell(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, file);
        return;
    }
    putc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

static void
write_names(yki_tool_results *r, const yoke_model *model)
{
    const bool named = yoke_model_class_count(model) == r->columns;
    char number[24];

    fputs("sample", r->file);
    for (size_t i = 0; i < r->columns; i++) {
        putc(',', r->file);
        snprintf(number, sizeof number, "%zu", i);
        write_cell(r->file, named ? yoke_model_get_class_name(model, i) : number);
    }
    fputs(r->files ? ",file\n" : "\n", r->file);
}

/* The header, which is padded so that the numbers begin at a multiple of 64 bytes. */
static void
write_header(yki_tool_results *r, int64_t rows)
{
    const uint16_t one = 1;
    const char order = *(const char *)&one ? '<' : '>';
    char text[128];
    int length = snprintf(text, sizeof text,
                          "{'descr': '%cf4', 'fortran_order': False, 'shape': (%lld, %zu), }",
                          order, (long long)rows, r->columns);

    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, r->file); /* 118 bytes follow */
    fprintf(r->file, "%-*s\n", 117, length < 117 ? text : "");
}

static yoke_status
fail(const yki_tool_results *r)
{
    return yki_tool_fail_about(YOKE_ERROR_IO, r->path, strerror(errno));
}

yoke_status
yki_tool_results_open(const char *path, const yoke_model *model, int64_t first, int64_t rows,
                      size_t columns, bool files, yki_tool_results *r)
{
    *r = (yki_tool_results){.path = path,
                            .table = ends_with(path, ".csv"),
                            .files = files,
                            .columns = columns,
                            .next = first,
                            .file = fopen(path, "wb")};
    if (!r->file)
        return fail(r);
    if (r->table)
        write_names(r, model);
    else
        write_header(r, rows);
    return YOKE_OK;
}

void
yki_tool_results_add(yki_tool_results *r, const float *values, const char *file)
{
    if (!r->table) {
        fwrite(values, sizeof *values, r->columns, r->file);
        return;
    }
    fprintf(r->file, "%lld", (long long)r->next++);
    for (size_t i = 0; i < r->columns; i++)
        fprintf(r->file, ",%.9g", (double)values[i]);
    if (r->files) {
        putc(',', r->file);
        write_cell(r->file, file);
    }
    putc('\n', r->file);
}

yoke_status
yki_tool_results_close(yki_tool_results *r, yoke_status status)
{
    bool bad;

    if (!r->file)
        return status;
    bad = ferror(r->file) != 0;
    bad = fclose(r->file) != 0 || bad;
    r->file = NULL;
    return !status && bad ? fail(r) : status;
}

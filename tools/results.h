/* SPDX-License-Identifier: Apache-2.0
 *
 * results.h - a file of results, a row for each sample: a table (.csv) or an array (.npy).
 */
#ifndef YOKE_TOOLS_RESULTS_H
#define YOKE_TOOLS_RESULTS_H

#include <stdio.h>

#include <yoke.h>

typedef struct yki_tool_results {
    FILE *file; /* NULL: none is open */
    const char *path;
    bool table, files;
    size_t columns;
    int64_t next; /* number of the next sample */
} yki_tool_results;

/* Whether such a file can have this name. */
bool yki_tool_results_named(const char *path);
/* Makes a file for `rows` samples from number `first` on. A table has the names of the classes of
 * the model over its columns or, if it has not as many, numbers; `files`: and in the last the name
 * of each sample's file. */
yoke_status yki_tool_results_open(const char *path, const yoke_model *model, int64_t first,
                                  int64_t rows, size_t columns, bool files,
                                  yki_tool_results *results);
void yki_tool_results_add(yki_tool_results *results, const float *values, const char *file);
/* Returns `status` or, if that is good, what went wrong in writing. */
yoke_status yki_tool_results_close(yki_tool_results *results, yoke_status status);

#endif

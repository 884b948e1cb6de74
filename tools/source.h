/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - the data of a command line: samples to train with and to test with,
 * and what they are.
 */
#ifndef YOKE_TOOLS_SOURCE_H
#define YOKE_TOOLS_SOURCE_H

#include "models.h"
#include "tool.h"

typedef struct yki_tool_source {
    yoke_dataset *train, *test;      /* test: NULL if that was not asked for */
    const yoke_field *data, *target; /* of train, lent by it; target NULL: none */
    int64_t classes;                 /* of an integer target; 0: values */
    bool split;                      /* test was split off */
} yki_tool_source;

/* How samples are read; zeros are the default. */
typedef struct yki_tool_reading {
    bool channels_last; /* images of .npy files */
    bool integers;      /* data of tables */
    double validation;  /* part of the samples that is kept for tests where there is no test part;
                           0: a tenth, where there is none */
    uint32_t seed;      /* which ones */
} yki_tool_reading;

/* Opens `path`. Where there is no test part, some of the training samples become it. */
yoke_status yki_tool_source_open(const char *path, const yki_tool_reading *how,
                                 yki_tool_source *source);
/* The test part of a folder, or all of a file; as `train`. No target is fine. */
yoke_status yki_tool_source_open_test(const char *path, const yki_tool_reading *how,
                                      yki_tool_source *source);
/* The status, which `path` is named with if it says that samples are not what a model takes. */
yoke_status yki_tool_source_blame(const char *path, yoke_status status);
void yki_tool_source_close(yki_tool_source *source);

/* A built-in model fitted to the data; `scaled`: its targets are values of mean 0, deviation 1. */
yoke_status yki_tool_source_fit(yki_tool_source *source, const yki_tool_model *model, bool scaled,
                                yoke_graph **graph);
/* Measures the data that is trained with, and has both parts scaled to mean 0 and deviation 1: each
 * channel or column by itself, or (`whole`) with what all have together. */
yoke_status yki_tool_source_normalize(yki_tool_source *source, bool whole);

/* A whole file as text that ends with a 0, for free(). At most 64 MiB. */
yoke_status yki_tool_read_text(const char *path, char **text, size_t *length);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - the data that a command line names: samples to train and to test with,
 * their fields and their classes.
 */
#ifndef YOKE_TOOLS_SOURCE_H
#define YOKE_TOOLS_SOURCE_H

#include "models.h"
#include "tool.h"

enum { TOOL_MOST_FIELDS = 8 };

/* The fields of a graph of several inputs: those of its inputs, then of its targets. */
typedef struct yki_tool_fields {
    const char *names[TOOL_MOST_FIELDS]; /* lent by the graph */
    const yoke_graph *graph;
    size_t count, inputs; /* `count` 0: the graph has one input, whose field may have any name */
} yki_tool_fields;

yoke_status yki_tool_fields_of(const yoke_graph *graph, yki_tool_fields *fields);
/* The node of a graph's first output; NULL: it has none. */
yoke_node *yki_tool_first_output(const yoke_graph *graph);
/* A dataset's field of this name; NULL: there is none. */
const yoke_field *yki_tool_find_field(const yoke_dataset *dataset, const char *name);

typedef struct yki_tool_source {
    yoke_dataset *train, *test;      /* `test` is NULL if only one set was opened */
    const yoke_field *data, *target; /* lent by `train`; target NULL: none */
    int64_t classes;                 /* of an integer target; 0: values */
    bool split;                      /* `test` was split off the training samples */
    int64_t context;                 /* tokens of a sample of text; 0: no text */
    yki_tool_fields fields;          /* of several inputs; `data` is that of the first */
} yki_tool_source;

/* How samples are read; zeros are the default. */
typedef struct yki_tool_reading {
    bool channels_last; /* images of .npy files */
    bool integers;      /* data of tables */
    yoke_shape image;   /* images of folders: (channels, height, width); 0: the first image's */
    bool skip_bad;      /* images that are damaged are left out */
    const yoke_model *model; /* whose classes folders of images are; NULL: their own */
    const char *weights;     /* of a table: the column of weights of samples; NULL: none */
    const char *columns;     /* likewise: rules for columns of data; NULL: they are numbers */
    yki_tool_fields fields;  /* of several inputs: those that are looked for */
    bool maps;               /* integer targets are a class for each of their values */
    bool no_target;          /* samples are only data: what else they have is not looked at */
    double validation; /* the fraction of the samples that is kept for tests, in place of a test
                          part; 0: the test part or, if there is none, a tenth */
    uint32_t seed;     /* chooses the samples kept for tests */
} yki_tool_reading;

/* Opens `path` for training. If it has no test part, some of the training samples become it.
 * Samples without a target are an error. */
yoke_status yki_tool_source_open(const char *path, const yki_tool_reading *how,
                                 yki_tool_source *source);
/* What a model takes of texts. */
typedef struct yki_tool_text {
    int64_t context;    /* tokens of a sample; 0: it takes no text */
    int64_t vocabulary; /* tokens must be below it; 0: unknown */
    bool ignores;       /* its loss ignores what follows a token that is -1 */
} yki_tool_text;

/* The number of tokens of a graph's input "tokens", whose target is "next"; 0: it takes no text. */
int64_t yki_tool_text_context(const yoke_graph *graph);
yoke_status yki_tool_text_of(const yoke_graph *graph, yki_tool_text *text);
/* Opens a text as samples for a model, with a test part. `tokenizer` is bytes, characters, or a
 * file; NULL: that of the first of two models (each may be NULL) that has one, or that beside the
 * text, or bytes. */
yoke_status yki_tool_source_open_text(const char *path, const yki_tool_reading *how,
                                      const yki_tool_text *text, const char *tokenizer,
                                      const char *const models[2], yki_tool_source *source);
/* Opens the test part of a text for a model, as `train`. */
yoke_status yki_tool_source_open_test_text(const char *path, const yoke_model *model,
                                           const yki_tool_text *text, yki_tool_source *source);
/* Opens a tokenizer by what a user types: bytes, characters, which are those of a text, or a file.
 */
yoke_status yki_tool_open_tokenizer(const char *name, const char *text, yoke_tokenizer **tokenizer);
/* Converts the loss of a text, in nats a token, to bits for each byte; NaN: not known. */
double yki_tool_bits_per_byte(const yoke_dataset *text, double loss);
/* Opens all that there is: the training part of a folder and its test part, which is NULL if there
 * is none, or a file. */
yoke_status yki_tool_source_open_parts(const char *path, const yki_tool_reading *how,
                                       yoke_dataset **train, yoke_dataset **test);
/* Opens the test part of a folder, or all of a file or of a folder without a test part, as `train`.
 * Samples may lack a target; classes are not counted. */
yoke_status yki_tool_source_open_test(const char *path, const yki_tool_reading *how,
                                      yki_tool_source *source);
/* Returns `status`. If it says that the model does not take the samples, the last error is put
 * again with `path` before it. */
yoke_status yki_tool_source_blame(const char *path, yoke_status status);
void yki_tool_source_close(yki_tool_source *source);

/* Builds a model that fits the data; `scaled`: it learns values of mean 0 and deviation 1. */
yoke_status yki_tool_source_fit(yki_tool_source *source, const yki_tool_model *model, bool scaled,
                                yoke_graph **graph);
/* Gives a graph without a loss, as models of ONNX are, one of its first output: the softmax
 * cross-entropy of classes and their accuracy, or else the mean squared error. */
yoke_status yki_tool_source_complete(const yki_tool_source *source, yoke_graph *graph);
/* Whether an input can be scaled: its data are not integers of 32 bits, and the graph takes floats.
 */
bool yki_tool_can_scale(const yki_tool_source *source, const char *name);
/* Measures the training data, and sets the scaling of both sets that brings it to mean 0 and
 * deviation 1: each channel or column by itself or, if `whole`, all of them together. Of several
 * inputs, all that can be scaled. */
yoke_status yki_tool_source_normalize(yki_tool_source *source, bool whole);

bool yki_tool_is_folder(const char *path);
/* Reads a whole file of at most 64 MiB as text that ends with a 0. The caller calls free(). */
yoke_status yki_tool_read_text(const char *path, const char *wanted, char **text, size_t *length);
/* Reads the graph of a file of JSON, or of a model FILE.safetensors, as JSON. The caller calls
 * free(). */
yoke_status yki_tool_read_graph(const char *path, char **text, size_t *length);

#endif

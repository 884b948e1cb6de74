/* SPDX-License-Identifier: Apache-2.0
 *
 * models.h - the built-in models, on the public API.
 */
#ifndef YOKE_TOOLS_MODELS_H
#define YOKE_TOOLS_MODELS_H

#include <yoke.h>

#include "base/near.h"

/* Of a language model, and the width of others. Zeros are the model's own. */
typedef struct yki_tool_sizes {
    unsigned layers, heads, width;
    unsigned context;    /* the most tokens of a sample */
    unsigned vocabulary; /* tokens are 0 to vocabulary - 1 */
    unsigned shared;     /* llama: heads of keys and values; they divide the heads */
    unsigned inner;      /* llama: the width inside a gated layer */
    float epsilon;       /* of norms; 0: 1e-5 */
    float base;          /* llama: of rotary positions; 0: 10000 */
    bool tied;           /* llama: the head is the embedding, as gpt's always is */
    double dropout;      /* in training */
} yki_tool_sizes;

/* A model of the library's zoo, with what the command adds to it. */
typedef struct yki_tool_model {
    const char *name;
    const char *summary;
    yoke_zoo_kind kind;
    yoke_shape input; /* of one sample, unless the model is fitted to data */
    int64_t classes;  /* 0: regression of one value; of texts, the tokens */
    bool image;       /* samples must be (channels, height, width) */
    bool language;    /* of these sizes; `input` is the number of tokens */
    yki_tool_sizes sizes;
    yoke_optimizer (*optimizer)(void); /* of benchmarks, as the next */
    int64_t batch;
} yki_tool_model;

/* Returns a model by its place in the zoo; NULL: there are no more. */
const yki_tool_model *yki_tool_get_model(size_t index);
const yki_tool_model *yki_tool_find_model(const char *name);
/* Returns the "did you mean" hint for a name that is no model's. */
const char *yki_tool_near_model(const char *name, yki_near *near);

/* Whether a name ends so, and is more than that. */
bool yki_tool_ends_with(const char *name, const char *ending);
/* Whether a size, or the dropout, is not 0. */
bool yki_tool_sizes_given(const yki_tool_sizes *sizes);
/* Makes a copy of a model with the sizes that are not 0 and, of a language model, samples of
 * `length` tokens; 0: as many as the context that is given, or else the model's. False: they do not
 * fit, or the model has no such size; `why` has the sentence. */
enum { TOOL_MODEL_WHY = 160 };
bool yki_tool_size_model(const yki_tool_model *model, const yki_tool_sizes *sizes, unsigned length,
                         yki_tool_model *copy, char why[TOOL_MODEL_WHY]);

/* Hugging Face's config.json in a folder: whether there is one; and gpt or llama with its sizes,
 * and samples of as many tokens as the context, also from the file's text (config.c). */
bool yki_tool_has_config(const char *folder);
yoke_status yki_tool_read_config(const char *folder, yki_tool_model *model);
yoke_status yki_tool_parse_config(const char *text, size_t length, const char *path,
                                  yki_tool_model *model);
/* The same for what is measured without data: samples have as many tokens as those of the built-in
 * model, or the context if that is less. */
yoke_status yki_tool_read_shorter(const char *folder, yki_tool_model *model);
/* Whether such a folder has weights, and a model with its weights and its tokenizer, if it has one;
 * a file FILE.onnx is a model of ONNX, and another file or folder one of yoke (hugging_face.c). The
 * caller destroys the model. */
bool yki_tool_has_weights(const char *folder);
yoke_status yki_tool_load_model(const char *path, yoke_model **model);

/* The options of the library that are the model's sizes. */
yoke_zoo_options yki_tool_zoo_options(const yki_tool_model *model);
/* Builds the model with the input and classes that it has. The caller destroys the graph. */
yoke_status yki_tool_build_model(const yki_tool_model *model, yoke_graph **graph);

/* Returns the number of values in one sample of the model's own input. */
size_t yki_tool_model_values(const yki_tool_model *model);
/* Returns the number of values in the target of one sample. */
size_t yki_tool_target_values(const yki_tool_model *model);
/* Writes n random samples, which follow from `state`: inputs in -0.5 .. 0.5 (float) or tokens
 * (int32_t), and as targets labels or tokens (int32_t) or values (float). */
void yki_tool_random_batch(const yki_tool_model *model, int64_t n, uint32_t state, void *input,
                           void *target);
/* Describes such a batch as the inputs of a trainer of the model, and returns how many it has. */
size_t yki_tool_batch_feeds(const yki_tool_model *model, int64_t n, const void *input,
                            const void *target, yoke_feed feeds[2]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * models.h - the built-in models, on the public API.
 */
#ifndef YOKE_TOOLS_MODELS_H
#define YOKE_TOOLS_MODELS_H

#include <yoke.h>

#include "base/near.h"
#include "language.h"

typedef struct yki_tool_model {
    const char *name;
    const char *summary;
    yoke_shape input; /* of one sample, unless the model is fitted to data */
    int64_t classes;  /* 0: regression of one value */
    yoke_optimizer (*optimizer)(void);
    int64_t batch; /* of benchmarks */
    bool image;    /* samples must be (channels, height, width) */
    yoke_node *(*build)(yoke_graph *graph, yoke_node *x, int64_t outputs);
    yki_tool_language *language; /* if not NULL, it builds the model, of these sizes; `input` is the
                                    number of tokens */
    yki_tool_sizes sizes;
} yki_tool_model;

/* Ends with a row without a name. */
extern const yki_tool_model yki_tool_models[];

const yki_tool_model *yki_tool_find_model(const char *name);
/* Returns the "did you mean" hint for a name that is no model's. */
const char *yki_tool_near_model(const char *name, yki_near *near);

/* Whether a size, or the dropout, is not 0. */
bool yki_tool_sizes_given(const yki_tool_sizes *sizes);
/* Makes a copy of a language model with the sizes that are not 0, and samples of `length` tokens;
 * 0: as many as the context that is given, or else the model's. False: they do not fit, or it is no
 * language model; `why` has the sentence. */
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
/* Whether a name ends so, and is more than that. */
bool yki_tool_ends_with(const char *name, const char *ending);
/* Whether such a folder has weights, and a model with its weights and its tokenizer, if it has one;
 * a file FILE.onnx is a model of ONNX, and another file or folder one of yoke (hugging_face.c). The
 * caller destroys the model. */
bool yki_tool_has_weights(const char *folder);
yoke_status yki_tool_load_model(const char *path, yoke_model **model);

/* Builds the model with input "image", target "label" (or "value"), output "logits" (or
 * "prediction"), a loss and metrics; a language model has the input "tokens" and the target "next".
 * An `input` of rank 0 and `classes` of -1 mean the model's own. The caller destroys the graph. */
yoke_status yki_tool_build_model(const yki_tool_model *model, yoke_shape input, int64_t classes,
                                 yoke_graph **graph);

/* Returns the number of values in one sample of the model's own input. */
size_t yki_tool_model_values(const yki_tool_model *model);
/* Returns the number of values in the target of one sample. */
size_t yki_tool_target_values(const yki_tool_model *model);
/* Writes n random samples, which follow from `state`: inputs in -0.5 .. 0.5 (float) or tokens
 * (int32_t), and as targets labels or tokens (int32_t) or values (float). */
void yki_tool_random_batch(const yki_tool_model *model, int64_t n, uint32_t state, void *input,
                           void *target);
/* Describes such a batch as the inputs of a trainer of the model. */
void yki_tool_batch_feeds(const yki_tool_model *model, int64_t n, const void *input,
                          const void *target, yoke_feed feeds[2]);

enum { TOOL_MAX_PARTS = 16 };

/* Mean and deviation of targets: one pair for all values, or one for each index of the first axis.
 * A count of 0: not known. */
typedef struct yki_tool_spread {
    int64_t count;
    float mean[TOOL_MAX_PARTS], deviation[TOOL_MAX_PARTS];
} yki_tool_spread;

/* The data that a model is fitted to: names, shapes, and classes (0: values of the shape `target`).
 * If the spread of the values is known, the model learns values of mean 0 and deviation 1, and
 * predicts them in their own units. */
typedef struct yki_tool_fit {
    const char *input_name, *target_name;
    yoke_shape input, target;
    int64_t classes;
    yki_tool_spread spread;
} yki_tool_fit;
yoke_status yki_tool_fit_model(const yki_tool_model *model, const yki_tool_fit *fit,
                               yoke_graph **graph);

#endif

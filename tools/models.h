/* SPDX-License-Identifier: Apache-2.0
 *
 * models.h - the built-in models, on the public API.
 */
#ifndef YOKE_TOOLS_MODELS_H
#define YOKE_TOOLS_MODELS_H

#include <yoke.h>

#include "base/near.h"

typedef struct yki_tool_model {
    const char *name;
    const char *summary;
    yoke_shape input; /* of one sample, unless the data says otherwise */
    int64_t classes;  /* 0: regression of one value */
    yoke_optimizer (*optimizer)(void);
    int64_t batch; /* what it is measured with */
    bool image;    /* samples must be (channels, height, width) */
    yoke_node *(*build)(yoke_graph *graph, yoke_node *x, int64_t outputs);
} yki_tool_model;

/* Ends with a row without a name. */
extern const yki_tool_model yki_tool_models[];

const yki_tool_model *yki_tool_find_model(const char *name);
/* The hint for a name that is none of them. */
const char *yki_tool_near_model(const char *name, yki_near *near);

/* Input "image", target "label" (or "value"), output "logits" (or "prediction"), loss, accuracy.
 * `input` of rank 0 and `classes` of -1: the model's own. */
yoke_status yki_tool_build_model(const yki_tool_model *model, yoke_shape input, int64_t classes,
                                 yoke_graph **graph);

/* Values of one sample of its own input. */
size_t yki_tool_model_values(const yki_tool_model *model);
/* n samples drawn by `state`: values in -0.5 .. 0.5, and labels (int32_t) or values (float). */
void yki_tool_random_batch(const yki_tool_model *model, int64_t n, uint32_t state, float *image,
                           void *target);
/* Such a batch as what a trainer of the model is fed. */
void yki_tool_batch_feeds(const yki_tool_model *model, int64_t n, const float *image,
                          const void *target, yoke_feed feeds[2]);

enum { TOOL_MAX_PARTS = 16 };

/* The spread of values: one, or one for each part along their first axis; count 0: not known. */
typedef struct yki_tool_spread {
    int64_t count;
    float mean[TOOL_MAX_PARTS], deviation[TOOL_MAX_PARTS];
} yki_tool_spread;

/* What a model is to be fitted to: names, shapes, and classes (0: values of the shape `target`).
 * Where their spread is known, it learns values of mean 0 and deviation 1, and predicts in their
 * units. */
typedef struct yki_tool_fit {
    const char *input_name, *target_name;
    yoke_shape input, target;
    int64_t classes;
    yki_tool_spread spread;
} yki_tool_fit;
yoke_status yki_tool_fit_model(const yki_tool_model *model, const yki_tool_fit *fit,
                               yoke_graph **graph);

#endif

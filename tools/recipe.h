/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h - with which settings a model learns if nobody gives others.
 */
#ifndef YOKE_TOOLS_RECIPE_H
#define YOKE_TOOLS_RECIPE_H

#include "source.h"

typedef struct yki_tool_recipe {
    const char *model;     /* a built-in one, or what else it is for: "table", "file" */
    const char *optimizer; /* as --optimizer takes it */
    double rate;
    const char *schedule;  /* as --schedule takes it */
    int64_t part, batch;   /* a batch has samples / part, as a power of 2, from 8 to `batch` */
    int64_t steps, epochs; /* at least */
    bool shift;            /* images are moved by up to an eighth of their side */
    double noise;          /* and get noise of this deviation */
} yki_tool_recipe;

/* Ends with a row without a model. */
extern const yki_tool_recipe yki_tool_recipes[];

/* What a command line says, and what a recipe adds. */
typedef struct yki_tool_settings {
    unsigned epochs, batch;           /* 0: not given */
    const char *optimizer, *schedule; /* NULL: not given */
    const char *augment;
    double rate; /* 0: not given, and with an optimizer the optimizer's own */
    bool normalize, no_normalize;
    char own_augment[64]; /* what `augment` points to if the recipe chose it */
} yki_tool_settings;

/* The recipe of a model (NULL: of a file) for these data. */
const yki_tool_recipe *yki_tool_find_recipe(const yki_tool_model *model,
                                            const yki_tool_source *source);
/* Chooses what is not given. `floats`: the model's input takes numbers that can be scaled. `line`
 * gets the options that it chose, as they are typed; empty: none. */
void yki_tool_take_recipe(const yki_tool_recipe *recipe, const yki_tool_source *source, bool floats,
                          yki_tool_settings *settings, char line[256]);

#endif

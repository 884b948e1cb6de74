/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h - the settings with which a model is trained if the user gives no others.
 */
#ifndef YOKE_TOOLS_RECIPE_H
#define YOKE_TOOLS_RECIPE_H

#include "source.h"
#include "training.h"

typedef struct yki_tool_recipe {
    const char *model;     /* the name of a built-in one, or "table" or "file" */
    const char *optimizer; /* as --optimizer takes it */
    double rate;
    const char *schedule;  /* as --schedule takes it */
    int64_t part, batch;   /* the batch: the power of 2 up to samples / part, from 8 to `batch` */
    int64_t steps, epochs; /* least numbers of them */
    double shift; /* this part of the images is shifted by up to an eighth of their shorter side */
    double noise; /* images get noise of this deviation; 0: none */
    double clip;  /* the largest norm of all gradients; 0: none */
    const char *smoothing; /* of labels, as --label-smoothing takes it; NULL: none */
} yki_tool_recipe;

/* Ends with a row without a model. */
extern const yki_tool_recipe yki_tool_recipes[];

/* The settings of a command line, to which a recipe adds the missing ones. */
typedef struct yki_tool_settings {
    yki_tool_training training;
    unsigned epochs;     /* 0: not given */
    const char *augment; /* NULL: not given */
    bool normalize, no_normalize;
    char own_augment[64]; /* `augment` points to it if the recipe chose it */
} yki_tool_settings;

/* Returns the recipe of a built-in model, or of a graph from a file (NULL), for these data. */
const yki_tool_recipe *yki_tool_find_recipe(const yki_tool_model *model,
                                            const yki_tool_source *source);
/* Chooses the settings that are not given. `floats`: the inputs of the model are numbers that can
 * be scaled. Writes the chosen options to `line`, as a user types them; empty: none. */
void yki_tool_take_recipe(const yki_tool_recipe *recipe, const yki_tool_source *source, bool floats,
                          yki_tool_settings *settings, char line[256]);

#endif

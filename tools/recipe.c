/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.c - the settings with which each built-in model learns: one table, and the
 * choices that follow from the size of the data.
 *
 * A recipe writes options as a user types them, and leaves those alone that the user
 * gave. yoke-train(1) has the table, too.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recipe.h"

enum { LEAST_BATCH = 8, MOST_EPOCHS = 200, SHIFT_PART = 8, LINE = 256, AUGMENT = 64 };

const yki_tool_recipe yki_tool_recipes[] = {
    {"tiny", "sgd,decay=1e-4", 0.03, "one-cycle", 64, 256, 7200, 10, 0, 0.7, 0, NULL},
    {"mlp", "sgd,decay=2e-4,nesterov", 0.06, "one-cycle", 128, 256, 7200, 10, 0.3, 0.1, 0, "0.3"},
    {"simplecnn", "sgd,decay=3e-3", 0.05, "one-cycle", 64, 256, 1800, 10, 1, 0, 0, NULL},
    {"lenet", "sgd,decay=1e-3", 0.05, "one-cycle", 128, 256, 3600, 10, 1, 0, 0, NULL},
    {"resnet18", "adam", 1e-3, "one-cycle", 64, 128, 900, 10, 1, 0, 0, NULL},
    {"resnet34", "adam", 1e-3, "one-cycle", 64, 128, 900, 10, 1, 0, 0, NULL},
    {"resnet50", "adam", 1e-3, "one-cycle", 64, 128, 900, 10, 1, 0, 0, NULL},
    {"mobilenet", "adam", 3e-3, "one-cycle", 64, 128, 2700, 10, 1, 0, 0, NULL},
    {"unet", "adam", 1e-3, "one-cycle", 16, 16, 900, 10, 0, 0, 0, NULL},
    {"autoencoder", "adam", 2e-3, "one-cycle", 64, 128, 1800, 10, 0, 0, 0, NULL},
    {"table", "adam", 3e-3, "one-cycle", 64, 256, 2000, 10, 0, 0, 0, NULL},
    {"file", "adam", 1e-3, "one-cycle", 64, 128, 2000, 10, 0, 0, 0, NULL},
    {"text", "adamw,decay=0.1,beta2=0.99", 1e-3, "cosine,warmup=0.1,final=0.1", 64, 32, 2000, 1, 0,
     0, 1, NULL},
    {NULL, NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL},
};

/* A shifted or noisy image keeps its class, but not a value that belongs to it. */
static bool
can_be_moved(const yki_tool_source *source)
{
    return source->data->shape.rank == 3 && source->data->type != YOKE_I32 && source->classes > 0;
}

const yki_tool_recipe *
yki_tool_find_recipe(const yki_tool_model *model, const yki_tool_source *source)
{
    const bool maps = model && (model->kind == YOKE_ZOO_PIXELS || model->kind == YOKE_ZOO_COPIES);
    const bool images = maps || (source->data->shape.rank > 1 && source->classes > 0);
    const char *name = source->context ? "text" : !model ? "file" : images ? model->name : "table";
    const yki_tool_recipe *recipe = yki_tool_recipes;

    while (recipe[1].model && strcmp(recipe->model, name) != 0)
        recipe++;
    return recipe;
}

static int64_t
choose_batch(const yki_tool_recipe *r, int64_t samples)
{
    int64_t batch = LEAST_BATCH;

    while (2 * batch <= r->batch && 2 * batch * r->part <= samples)
        batch *= 2;
    return batch;
}

/* A smaller set of samples gets more epochs. */
static int64_t
choose_epochs(const yki_tool_recipe *r, int64_t samples, int64_t batch)
{
    int64_t of_epoch = (samples + batch - 1) / batch, epochs = (r->steps + of_epoch - 1) / of_epoch;

    epochs = epochs > MOST_EPOCHS ? MOST_EPOCHS : epochs;
    return epochs < r->epochs ? r->epochs : epochs;
}

/* Appends a word to the line, after `between` if the line is not empty. */
static void TOOL_PRINTF(4, 5) add(char *line, size_t size, char between, const char *format, ...)
{
    size_t used = strlen(line);
    va_list args;

    va_start(args, format);
    if (used > 0 && used + 1 < size)
        line[used++] = between;
    vsnprintf(line + used, size - used, format, args);
    va_end(args);
}

static void
write_augmentation(const yki_tool_recipe *r, const yki_tool_source *source, char text[AUGMENT])
{
    const int64_t *size = source->data->shape.dim;
    int shift = (int)((size[1] < size[2] ? size[1] : size[2]) / SHIFT_PART);

    text[0] = '\0';
    if (r->shift > 0 && shift > 0)
        add(text, AUGMENT, ',', "shift=%d", shift);
    if (r->shift > 0 && shift > 0 && r->shift < 1)
        add(text, AUGMENT, ',', "part=%g", r->shift);
    if (r->noise > 0)
        add(text, AUGMENT, ',', "noise=%g", r->noise);
}

/* Chooses the number of epochs and the batch. */
static void
take_sizes(const yki_tool_recipe *r, int64_t samples, yki_tool_settings *s, char line[LINE])
{
    unsigned *batch = &s->training.batch;
    const bool chosen = !*batch;

    if (chosen)
        *batch = (unsigned)choose_batch(r, samples);

    if (!s->epochs)
        add(line, LINE, ' ', "--epochs=%u",
            s->epochs = (unsigned)choose_epochs(r, samples, *batch));
    if (chosen)
        add(line, LINE, ' ', "--batch=%u", *batch);
}

void
yki_tool_take_recipe(const yki_tool_recipe *r, const yki_tool_source *source, bool floats,
                     yki_tool_settings *s, char line[LINE])
{
    yki_tool_training *t = &s->training;

    line[0] = '\0';
    take_sizes(r, yoke_dataset_count(source->train), s, line);
    if (!t->optimizer) {
        add(line, LINE, ' ', "--optimizer=%s", t->optimizer = r->optimizer);
        if (!(t->rate > 0))
            add(line, LINE, ' ', "--lr=%g", t->rate = r->rate);
    }
    if (!t->schedule)
        add(line, LINE, ' ', "--schedule=%s", t->schedule = r->schedule);
    if (r->clip > 0 && !(t->clip_norm > 0) && !(t->clip_value > 0))
        add(line, LINE, ' ', "--clip-norm=%g", t->clip_norm = r->clip);
    if (!s->normalize && !s->no_normalize && floats) {
        s->normalize = true;
        add(line, LINE, ' ', "--normalize");
    }
    if (r->smoothing && !t->label_smoothing && source->classes > 0)
        add(line, LINE, ' ', "--label-smoothing=%s", t->label_smoothing = r->smoothing);
    if (s->augment || !can_be_moved(source))
        return;
    write_augmentation(r, source, s->own_augment);
    if (s->own_augment[0])
        add(line, LINE, ' ', "--augment=%s", s->augment = s->own_augment);
}

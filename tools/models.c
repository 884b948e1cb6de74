/* SPDX-License-Identifier: Apache-2.0
 *
 * models.c - the built-in models as the command sees them: those of the library's zoo,
 * with what benchmarks add, and random samples for them.
 */
#include <stdio.h>
#include <string.h>

#include "models.h"

enum { MOST_MODELS = 32 };

static yoke_optimizer
adam(void)
{
    return yoke_adam(1e-3f);
}

static yoke_optimizer
sgd(void)
{
    return yoke_sgd(0.05f, 0.9f);
}

static yoke_optimizer
adamw(void)
{
    return yoke_adamw(3e-4f, 0.1f);
}

static const struct {
    const char *model;
    yoke_optimizer (*optimizer)(void);
    int64_t batch;
} benchmarks[] = {
    {"tiny", adam, 32},        {"mlp", adam, 64},      {"simplecnn", adam, 64},
    {"lenet", sgd, 256},       {"resnet18", sgd, 64},  {"resnet34", sgd, 64},
    {"resnet50", sgd, 32},     {"mobilenet", sgd, 64}, {"unet", adam, 8},
    {"autoencoder", adam, 64}, {"gpt", adamw, 8},      {"char", adamw, 16},
    {"gpt2", adamw, 4},        {"llama", adamw, 8},
};

static void
describe(const yoke_zoo_model *of, yki_tool_model *model)
{
    *model = (yki_tool_model){
        .name = of->name,
        .summary = of->summary,
        .kind = of->kind,
        .input = of->input,
        .classes = of->kind == YOKE_ZOO_TEXTS ? of->vocabulary : of->classes,
        .image = of->kind != YOKE_ZOO_ROWS && of->kind != YOKE_ZOO_TEXTS,
        .language = of->kind == YOKE_ZOO_TEXTS,
        .sizes = {.layers = (unsigned)of->layers,
                  .heads = (unsigned)of->heads,
                  .width = (unsigned)of->width,
                  .context = (unsigned)of->context,
                  .vocabulary = (unsigned)of->vocabulary,
                  .shared = (unsigned)of->shared,
                  .inner = (unsigned)of->inner},
        .optimizer = adam,
        .batch = 32,
    };
    for (size_t i = 0; i < sizeof benchmarks / sizeof *benchmarks; i++)
        if (strcmp(benchmarks[i].model, of->name) == 0) {
            model->optimizer = benchmarks[i].optimizer;
            model->batch = benchmarks[i].batch;
        }
}

/* The command has one thread while it reads its options, which is when this is called first. */
const yki_tool_model *
yki_tool_get_model(size_t index)
{
    static yki_tool_model models[MOST_MODELS];
    const yoke_zoo_model *of = index < MOST_MODELS ? yoke_zoo_get(index) : NULL;

    if (!of)
        return NULL;
    if (!models[index].name)
        describe(of, &models[index]);
    return &models[index];
}

bool
yki_tool_ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), end = strlen(ending);

    return length > end && strcmp(name + length - end, ending) == 0;
}

const yki_tool_model *
yki_tool_find_model(const char *name)
{
    const yki_tool_model *model;

    for (size_t i = 0; (model = yki_tool_get_model(i)) != NULL; i++)
        if (strcmp(model->name, name) == 0)
            return model;
    return NULL;
}

const char *
yki_tool_near_model(const char *name, yki_near *near)
{
    yki_near_start(near, name);
    for (size_t i = 0; yki_tool_get_model(i); i++)
        yki_near_offer(near, yki_tool_get_model(i)->name);
    return yki_near_hint(near);
}

bool
yki_tool_sizes_given(const yki_tool_sizes *s)
{
    return s->layers || s->heads || s->width || s->context || s->vocabulary || s->shared ||
           s->inner || s->dropout > 0;
}

yoke_zoo_options
yki_tool_zoo_options(const yki_tool_model *model)
{
    const yki_tool_sizes *s = &model->sizes;

    return (yoke_zoo_options){
        .layers = s->layers,
        .heads = s->heads,
        .width = s->width,
        .context = s->context,
        .vocabulary = s->vocabulary,
        .shared = s->shared,
        .inner = s->inner,
        .dropout = (float)s->dropout,
        .epsilon = s->epsilon,
        .base = s->base,
        .tied = s->tied,
    };
}

yoke_status
yki_tool_build_model(const yki_tool_model *model, yoke_graph **out)
{
    yoke_zoo_options o = yki_tool_zoo_options(model);

    o.input = model->input;
    return yoke_zoo(model->name, &o, out);
}

static unsigned
either(unsigned given, unsigned own)
{
    return given ? given : own;
}

/* The library says whether the sizes fit: it builds the graph, which costs no memory for weights.
 */
bool
yki_tool_size_model(const yki_tool_model *model, const yki_tool_sizes *sizes, unsigned length,
                    yki_tool_model *copy, char why[TOOL_MODEL_WHY])
{
    yki_tool_sizes *own = &copy->sizes;
    yoke_graph *graph;

    *copy = *model;
    if (length && !model->language) {
        snprintf(why, TOOL_MODEL_WHY, "%s is no language model: samples have no tokens",
                 model->name);
        return false;
    }
    own->layers = either(sizes->layers, own->layers);
    own->heads = either(sizes->heads, own->heads);
    own->width = either(sizes->width, own->width);
    own->context = either(sizes->context, own->context);
    own->vocabulary = either(sizes->vocabulary, own->vocabulary);
    own->shared = either(sizes->shared, own->shared);
    own->inner = either(sizes->inner, own->inner);
    own->dropout = sizes->dropout > 0 ? sizes->dropout : own->dropout;
    if (model->language) {
        copy->classes = own->vocabulary;
        copy->input.dim[0] = either(length, either(sizes->context, (unsigned)model->input.dim[0]));
    }
    if (yki_tool_build_model(copy, &graph)) {
        snprintf(why, TOOL_MODEL_WHY, "%s", yoke_last_error());
        return false;
    }
    yoke_graph_destroy(graph);
    return true;
}

/* ---- data ---- */

size_t
yki_tool_model_values(const yki_tool_model *model)
{
    size_t count = 1;

    for (int32_t i = 0; i < model->input.rank; i++)
        count *= (size_t)model->input.dim[i];
    return count;
}

size_t
yki_tool_target_values(const yki_tool_model *model)
{
    if (model->kind == YOKE_ZOO_PIXELS)
        return (size_t)(model->input.dim[1] * model->input.dim[2]);
    return model->language ? (size_t)model->input.dim[0] : 1;
}

static uint32_t
next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Labels or tokens below `classes`. */
static void
random_integers(uint32_t *state, int64_t classes, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        int32_t value = (int32_t)(next_random(state) % classes);

        memcpy((char *)out + 4 * i, &value, 4);
    }
}

static void
random_floats(uint32_t *state, float offset, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        float value = (float)next_random(state) / 16777216.f + offset;

        memcpy((char *)out + 4 * i, &value, 4);
    }
}

void
yki_tool_random_batch(const yki_tool_model *model, int64_t n, uint32_t state, void *input,
                      void *target)
{
    size_t values = yki_tool_model_values(model) * (size_t)n;
    size_t targets = yki_tool_target_values(model) * (size_t)n;

    if (model->language)
        random_integers(&state, model->classes, values, input);
    else
        random_floats(&state, -0.5f, values, input);
    if (model->classes)
        random_integers(&state, model->classes, targets, target);
    else
        random_floats(&state, 0, targets, target);
}

size_t
yki_tool_batch_feeds(const yki_tool_model *model, int64_t n, const void *input, const void *target,
                     yoke_feed feeds[2])
{
    int64_t values = (int64_t)yki_tool_model_values(model) * n;
    int64_t targets = (int64_t)yki_tool_target_values(model) * n;

    if (model->language) {
        feeds[0] = yoke_feed_i32("tokens", input, values);
        feeds[1] = yoke_feed_i32("next", target, targets);
        return 2;
    }
    feeds[0] = yoke_feed_f32("image", input, values);
    feeds[1] = model->classes ? yoke_feed_i32("label", target, targets)
                              : yoke_feed_f32("value", target, targets);
    return model->kind == YOKE_ZOO_COPIES ? 1 : 2;
}

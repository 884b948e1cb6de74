/* SPDX-License-Identifier: Apache-2.0
 *
 * list_launches.c - what one training step of a model launches on a GPU that is not there, or the
 * step in which one writes a token: for the scripts beside it.
 *
 *   list_launches NULLDRIVER MODEL BATCH PRECISION LOG
 *
 * The caller puts the process on the null driver (OCL_ICD_VENDORS, YOKE_NULL_DEVICES) and says
 * where programs are kept (YOKE_NULL_DUMP). LOG receives the driver's log of the step; standard
 * output its launches: each line is FLOPs and bytes, as the recipe states them, the solver, the
 * names of the ints, and the driver's line. "-" stands for what is unknown: launches that are in no
 * recipe, such as the optimizer's. With a precision other than f32 the GPU has units for matrices.
 *
 * A model is one of yoke's, or one of those that are here, one block of a transformer:
 * "transformer", whose attention is made of products and a softmax; "gpt", "gpt-wide" and
 * "gpt-narrow", of heads of 64, 128 and 32, with the operator. "write-MODEL" is a generator with
 * one of yoke's language models and all of its context; its BATCH is how many streams it writes.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/models.h"
#include "device/internal.h"
#include "gpu/null.h"
#include "replica/decoding.h"
#include "train/trainer.h"

enum { WARM = 3, LINE = 4096 };
enum { TOKENS = 128, WORDS = 1000, WIDTH = 256, HEADS = 4, CLASSES = 10 };
/* What the names of generators begin with. */
#define WRITES "write-"

static void
need(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "list_launches: %s\n", yoke_last_error());
    exit(EXIT_FAILURE);
}

static void *
need_memory(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (!memory)
        abort();
    return memory;
}

/* ---- a small transformer ---- */

/* A matrix of parameters, behind x (TOKENS, from). */
static yoke_node *
linear(yoke_graph *g, yoke_node *x, int64_t from, int64_t to, const char *name)
{
    yoke_initializer init = {YOKE_INIT_KAIMING_UNIFORM, 0, 0, 0};

    return yoke_matmul(g, x, yoke_parameter(g, name, yoke_shape(from, to), init), NULL);
}

/* (TOKENS, WIDTH) becomes (HEADS, TOKENS, WIDTH / HEADS). */
static yoke_node *
heads(yoke_graph *g, yoke_node *x)
{
    static const int32_t axes[] = {1, 0, 2};

    return yoke_transpose(g, yoke_reshape(g, x, yoke_shape(TOKENS, HEADS, WIDTH / HEADS)), axes);
}

static yoke_node *
attention(yoke_graph *g, yoke_node *x)
{
    static const int32_t axes[] = {1, 0, 2};
    yoke_node *q = heads(g, linear(g, x, WIDTH, WIDTH, "q"));
    yoke_node *k = heads(g, linear(g, x, WIDTH, WIDTH, "k"));
    yoke_node *v = heads(g, linear(g, x, WIDTH, WIDTH, "v"));
    yoke_node *weight = yoke_matmul(g, q, k, &(yoke_matmul_options){.transpose_b = true});

    weight = yoke_softmax(g, yoke_scale(g, weight, 0.125f, 0), 2);
    x = yoke_transpose(g, yoke_matmul(g, weight, v, NULL), axes);
    return linear(g, yoke_reshape(g, x, yoke_shape(TOKENS, WIDTH)), WIDTH, WIDTH, "out");
}

static yoke_node *
fused_attention(yoke_graph *g, yoke_node *x, int32_t count)
{
    yoke_attention_options o = {.heads = count, .causal = true};

    x = yoke_attention(g, linear(g, x, WIDTH, 3 * WIDTH, "qkv"), NULL, &o);
    return linear(g, x, WIDTH, WIDTH, "out");
}

/* Returns the heads of a model with the operator, -1 of the one without, 0 of none. */
static int32_t
heads_of(const char *name)
{
    if (strcmp(name, "gpt") == 0)
        return HEADS;
    if (strcmp(name, "gpt-wide") == 0)
        return HEADS / 2;
    if (strcmp(name, "gpt-narrow") == 0)
        return HEADS * 2;
    return strcmp(name, "transformer") == 0 ? -1 : 0;
}

static yoke_graph *
build_transformer(int32_t count)
{
    static const int32_t over_tokens[] = {0};
    yoke_layer_norm_options norm = {.axes = 1};
    yoke_graph *g;
    yoke_node *x, *y;

    need(yoke_graph_create(&g));
    x = yoke_input(g, "image", YOKE_I32, yoke_shape(TOKENS));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = WORDS, .width = WIDTH});
    y = yoke_layer_norm(g, x, &norm);
    x = yoke_add(g, x, count > 0 ? fused_attention(g, y, count) : attention(g, y));
    y = yoke_gelu(g, linear(g, yoke_layer_norm(g, x, &norm), WIDTH, 4 * WIDTH, "up"));
    x = yoke_add(g, x, yoke_dropout(g, linear(g, y, 4 * WIDTH, WIDTH, "down"), 0.1f));
    y = yoke_dense(g, yoke_mean(g, x, over_tokens, 1), &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_output(g, "logits", y);
    x = yoke_target(g, "label", YOKE_I32, yoke_shape());
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, x, NULL));
    return g;
}

/* ---- a step ---- */

/* The trials of units, and of copies to local memory, need numbers, which the null driver does not
 * make. */
static void
add_units(yoke_device *device, bool units)
{
    yoke_device_info info;

    need(yoke_device_get_info(device, &info));
    device->traits.copies_ahead = strstr(info.vendor, "NVIDIA") != NULL;
    if (!units)
        return;
    device->traits.bf16 = YKI_DOT_MMA_BF16;
    device->traits.tf32 = YKI_DOT_MMA_TF32;
    device->traits.f16 = YKI_DOT_MMA_F16;
}

/* What is made, and the plan of its step. */
typedef struct stepped {
    yoke_trainer *trainer;
    yoke_generator *generator;
    const yki_plan *plan;
} stepped;

/* Makes a trainer, trains some steps, and logs one more. argv: MODEL BATCH PRECISION LOG. */
static void
train(const null_driver *driver, yoke_context *context, char **argv, stepped *made)
{
    const char *name = argv[0], *precision = argv[2];
    int64_t batch = strtoll(argv[1], NULL, 10);
    yoke_trainer_options options = {
        .batch = batch,
        .level = YOKE_PLAN_ESTIMATE,
        .precision = precision,
        .optimizer = yoke_adam(1e-3f),
        .clip_norm = heads_of(name) > 0 ? 1 : 0}; /* as language models are trained */
    const yki_tool_model *model = heads_of(name) ? NULL : yki_tool_find_model(name);
    size_t values = model ? yki_tool_model_values(model) : TOKENS;
    float *image = need_memory(values * (size_t)batch, sizeof *image);
    size_t targets = model ? yki_tool_target_values(model) : TOKENS;
    int32_t *target = need_memory(targets * (size_t)batch, sizeof *target);
    yoke_feed feeds[2] = {yoke_feed_i32("image", (int32_t *)image, batch * TOKENS),
                          yoke_feed_i32("label", target, batch)};
    size_t fed = 2;
    yoke_graph *graph;
    yoke_team *team;

    need(yoke_team_create(context, "gpu:0", NULL, &team));
    add_units(yoke_team_get_device(team, 0), strcmp(precision, "f32") != 0);
    if (model) {
        options.optimizer = model->optimizer();
        need(yki_tool_build_model(model, &graph));
        fed = yki_tool_batch_feeds(model, batch, image, target, feeds);
    } else if (heads_of(name)) {
        graph = build_transformer(heads_of(name));
    } else {
        fprintf(stderr, "list_launches: there is no model \"%s\"\n", name);
        exit(EXIT_FAILURE);
    }
    need(yoke_trainer_create(team, graph, &options, &made->trainer));
    for (int i = 0; i < WARM; i++)
        need(yoke_trainer_step(made->trainer, batch, feeds, fed, NULL));
    if (driver->log(argv[3]) != 0)
        abort();
    need(yoke_trainer_step(made->trainer, batch, feeds, fed, NULL));
    driver->log(NULL);
    made->plan = made->trainer->crew.members[0].replica->training;
    yoke_graph_destroy(graph);
    yoke_team_destroy(team);
    free(image);
    free(target);
}

/* A language model whose samples have as many tokens as its context. */
static yoke_model *
whole_model(const char *name)
{
    const yki_tool_model *found = yki_tool_find_model(name);
    char why[TOOL_MODEL_WHY];
    yki_tool_model model;
    yoke_graph *graph;
    yoke_model *made;

    if (!found || !found->language) {
        fprintf(stderr, "list_launches: there is no language model \"%s\"\n", name);
        exit(EXIT_FAILURE);
    }
    if (!yki_tool_size_model(found, &found->sizes, found->sizes.context, &model, why)) {
        fprintf(stderr, "list_launches: %s\n", why);
        exit(EXIT_FAILURE);
    }
    need(yki_tool_build_model(&model, &graph));
    need(yoke_model_create(graph, NULL, &made));
    yoke_graph_destroy(graph);
    return made;
}

/* Makes a generator, gives each stream a prompt of one token, lets it write some tokens, and logs
 * the step of one more. argv: MODEL STREAMS PRECISION LOG. */
static void
generate(const null_driver *driver, yoke_context *context, char **argv, stepped *made)
{
    const yoke_generator_options options = {.streams = strtoll(argv[1], NULL, 10),
                                            .level = YOKE_PLAN_ESTIMATE};
    size_t streams = (size_t)options.streams, running;
    yoke_prompt *prompts = need_memory(streams, sizeof *prompts);
    int32_t *tokens = need_memory(streams, sizeof *tokens), first = 0;
    yoke_model *model = whole_model(argv[0]);

    need(yoke_generator_create(context, "gpu:0", model, &options, &made->generator));
    for (size_t i = 0; i < streams; i++)
        prompts[i] = (yoke_prompt){&first, 1};
    need(yoke_generator_start(made->generator, prompts, streams, NULL));
    for (int i = 0; i < WARM; i++)
        need(yoke_generator_next(made->generator, tokens, &running));
    if (driver->log(argv[3]) != 0)
        abort();
    need(yoke_generator_next(made->generator, tokens, &running));
    driver->log(NULL);
    made->plan = yki_generator_plan(made->generator);
    yoke_model_destroy(model);
    free(prompts);
    free(tokens);
}

/* ---- which launch is which ---- */

/* Writes the beginning of the log's line of a launch, up to the groups' sizes, behind the queue;
 * and its ints. */
static void
line_of(const yki_launch *launch, yki_extents extents, char *line, char *ints)
{
    yki_grid grid;
    size_t used;
    int dimensions = 3;

    line[0] = ints[0] = '\0';
    if (!yki_launch_grid_at(launch, extents, &grid))
        return;
    while (dimensions > 1 && grid.groups[dimensions - 1] * grid.local[dimensions - 1] == 1)
        dimensions--;
    used = (size_t)snprintf(line, LINE, " %s", launch->kernel);
    for (int d = 0; d < dimensions; d++)
        used += (size_t)snprintf(line + used, LINE - used, "%c%zu", d ? 'x' : ' ', grid.groups[d]);
    for (int d = 0; d < dimensions; d++)
        used += (size_t)snprintf(line + used, LINE - used, "%c%zu", d ? 'x' : ' ', grid.local[d]);
    snprintf(line + used, LINE - used, " ");
    used = 0;
    for (uint32_t i = 0; i < launch->arg_count; i++)
        if (launch->args[i].kind == YKI_ARG_INT)
            used += (size_t)snprintf(ints + used, LINE - used, " %lld",
                                     (long long)yki_expr_value(launch->args[i].expr, extents));
}

static bool
is_line_of(const char *line, const yki_launch *launch, yki_extents extents)
{
    char begin[LINE], ints[LINE], found[LINE] = "";
    const char *at = strchr(line + 2, ' ');
    uint32_t argument = 0;
    size_t used = 0;

    line_of(launch, extents, begin, ints);
    if (!begin[0] || !at || strncmp(at, begin, strlen(begin)) != 0)
        return false;
    at = strstr(at + strlen(begin), " p"); /* behind w<events> */
    at = at ? strchr(at + 1, ' ') : NULL;
    for (; at && argument < launch->arg_count; at = strchr(at + 1, ' '), argument++)
        if (launch->args[argument].kind == YKI_ARG_INT)
            used += (size_t)snprintf(found + used, LINE - used, "%.*s",
                                     (int)(1 + strcspn(at + 1, " \n")), at);
    return strcmp(found, ints) == 0;
}

/* A launch of the plan, and whether a line of the log was it. */
typedef struct planned {
    const yki_task *task;
    const yki_launch *launch;
    bool seen;
} planned;

static void
tell(const planned *p, yki_extents extents, const char *line)
{
    const yki_launch *launch = p ? p->launch : NULL;

    if (!launch) {
        printf("- - - %s", line);
        return;
    }
    printf("%lld %lld %s %s", (long long)yki_expr_value(launch->flops, extents),
           (long long)yki_expr_value(launch->bytes, extents), p->task->solver->name, line);
}

static void
tell_launches(const yki_plan *plan, FILE *log)
{
    size_t count = 0;
    planned *launches;
    char line[LINE];

    for (size_t t = 0; t < plan->task_count; t++)
        count += plan->tasks[t].recipe.launch_count;
    launches = need_memory(count + 1, sizeof *launches);
    count = 0;
    for (size_t t = 0; t < plan->task_count; t++)
        for (size_t k = 0; k < plan->tasks[t].recipe.launch_count; k++)
            launches[count++] =
                (planned){.task = &plan->tasks[t], .launch = &plan->tasks[t].recipe.launches[k]};
    while (fgets(line, sizeof line, log)) {
        planned *found = NULL;

        if (line[0] != 'K')
            continue;
        for (size_t i = 0; i < count && !found; i++)
            if (!launches[i].seen && is_line_of(line, launches[i].launch, plan->extents))
                found = &launches[i];
        if (found)
            found->seen = true;
        tell(found, plan->extents, line);
    }
    free(launches);
}

int
main(int argc, char **argv)
{
    void *module = argc == 6 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = module ? dlsym(module, NULL_DRIVER_SYMBOL) : NULL;
    const null_driver *(*get)(void);
    yoke_context *context;
    stepped made = {0};
    FILE *log;

    if (!symbol) {
        fprintf(stderr, "list_launches: %s\n",
                argc == 6 ? dlerror() : "needs NULLDRIVER MODEL BATCH PRECISION LOG");
        return 2;
    }
    memcpy(&get, &symbol, sizeof get);
    need(yoke_context_create(&(yoke_context_options){.no_cache = true}, &context));
    if (strncmp(argv[2], WRITES, strlen(WRITES)) == 0) {
        argv[2] += strlen(WRITES);
        generate(get(), context, argv + 2, &made);
    } else {
        train(get(), context, argv + 2, &made);
    }
    yoke_context_destroy(context);
    log = fopen(argv[5], "r");
    if (!log) {
        perror(argv[5]);
        return EXIT_FAILURE;
    }
    tell_launches(made.plan, log);
    fclose(log);
    yoke_trainer_destroy(made.trainer);
    yoke_generator_destroy(made.generator);
    return EXIT_SUCCESS;
}

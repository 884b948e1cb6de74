/* SPDX-License-Identifier: Apache-2.0
 *
 * verify_bits.c - `yoke verify --bits MODEL`: trains a built-in model in several splits, and
 * compares the bits of the weights after each step.
 *
 * The splits are: each device of --devices alone, as the whole device that it is a part of; the
 * first one in two and three parts, evenly and not; and --devices with --shares. What a device does
 * not allow is left out, as is what would be the same once more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

enum { HASH = 33, MOST_SPLITS = 32, SELECTOR = 512 };

typedef struct split {
    char selector[SELECTOR];
    const char *shares; /* NULL: auto */
} split;

/* What is compared: by step and parameter. */
typedef char (*hashes)[HASH];

typedef struct comparison {
    const yki_tool_model *model;
    const yki_tool_training *training;
    unsigned steps;
    yoke_context *context;
    yoke_graph *graph;
    split splits[MOST_SPLITS];
    size_t split_count;
    hashes first, other;
    size_t compared; /* splits that could be trained */
    bool same;
} comparison;

static void
add_split(comparison *c, const char *selector, const char *parts, const char *shares)
{
    split *s = &c->splits[c->split_count];

    if (c->split_count == MOST_SPLITS)
        return;
    snprintf(s->selector, sizeof s->selector, "%s%s", selector, parts);
    s->shares = shares;
    for (size_t i = 0; i < c->split_count; i++)
        if (strcmp(c->splits[i].selector, s->selector) == 0 &&
            strcmp(c->splits[i].shares ? c->splits[i].shares : "auto", shares ? shares : "auto") ==
                0)
            return;
    c->split_count++;
}

static yoke_status
list_splits(comparison *c)
{
    static const char *const parts[][2] = {
        {"/2", "even"}, {"/2", "80,20"}, {"/2", "1,0"}, {"/3", "even"}, {"/1+3", "1,3"}};
    const char *devices = c->training->devices;
    yoke_team *team = NULL;
    yoke_device_info info;
    char first[64] = "";
    yoke_status status = yoke_team_create(c->context, devices, NULL, &team);

    for (size_t k = 0; !status && k < yoke_team_local_count(team); k++) {
        status = yoke_device_get_info(yoke_team_get_device(team, k), &info);
        if (!status)
            add_split(c, info.parent, "", NULL);
        if (!status && k == 0)
            memcpy(first, info.parent, sizeof info.parent);
    }
    yoke_team_destroy(team);
    for (size_t i = 0; !status && i < sizeof parts / sizeof parts[0]; i++)
        add_split(c, first, parts[i][0], parts[i][1]);
    if (!status)
        add_split(c, devices ? devices : "all", "", c->training->shares);
    return status;
}

static yoke_status
note_hashes(const comparison *c, yoke_trainer *trainer, hashes into)
{
    const size_t count = yoke_graph_parameter_count(c->graph);
    yoke_status status = YOKE_OK;

    for (size_t i = 0; !status && i < count; i++)
        status = yoke_trainer_hash(trainer, yoke_node_name(yoke_graph_get_parameter(c->graph, i)),
                                   into[i]);
    return status;
}

/* Every step has its own random samples, which are the same in all trainings. */
static yoke_status
run_steps(const comparison *c, yoke_trainer *trainer, hashes into)
{
    const int64_t n = c->training->batch;
    void *input = malloc(yki_tool_model_values(c->model) * (size_t)n * 4);
    void *target = malloc(yki_tool_target_values(c->model) * (size_t)n * 4);
    yoke_feed feeds[2];
    const size_t count = yki_tool_batch_feeds(c->model, n, input, target, feeds);
    yoke_status status = input && target ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (unsigned i = 0; !status && i < c->steps; i++) {
        yki_tool_random_batch(c->model, n, i + 1, input, target);
        status = yoke_trainer_step(trainer, n, feeds, count, NULL);
        if (!status)
            status = note_hashes(c, trainer, into + i * yoke_graph_parameter_count(c->graph));
    }
    free(input);
    free(target);
    return status;
}

/* The first step and parameter whose bits differ. */
static void
tell_difference(const comparison *c)
{
    const size_t count = yoke_graph_parameter_count(c->graph);

    for (size_t i = 0; i < c->steps * count; i++)
        if (strcmp(c->first[i], c->other[i]) != 0) {
            printf(", from step %zu on, first in %s", i / count + 1,
                   yoke_node_name(yoke_graph_get_parameter(c->graph, i % count)));
            return;
        }
}

static yoke_status
train_split(comparison *c, const split *s)
{
    const size_t count = yoke_graph_parameter_count(c->graph);
    const size_t bytes = c->steps * count * sizeof *c->first;
    const bool first = c->compared == 0;
    yoke_trainer_options o = yki_tool_trainer_options(c->training, yoke_sgd(0.01f, 0));
    yoke_trainer *trainer = NULL;
    yoke_team *team = NULL;
    char all[HASH];
    yoke_status status;

    if (yoke_team_create(c->context, s->selector, NULL, &team)) {
        printf("%-32s  %s: left out: %s\n", "", s->selector, yoke_last_error());
        return YOKE_OK;
    }
    o.reproducible = YOKE_REPRODUCIBLE_ANY_SPLIT;
    o.shares = s->shares;
    status = yoke_trainer_create(team, c->graph, &o, &trainer);
    if (!status)
        status = run_steps(c, trainer, first ? c->first : c->other);
    if (!status)
        status = yoke_trainer_hash(trainer, NULL, all);
    if (!status) {
        printf("%s  %s, shares %s", all, s->selector, s->shares ? s->shares : "auto");
        if (!first && memcmp(c->first, c->other, bytes) != 0) {
            tell_difference(c);
            c->same = false;
        }
        printf("\n");
        c->compared++;
    }
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    return status;
}

yoke_status
yki_tool_verify_bits(const yki_tool_model *model, const yki_tool_training *training, unsigned steps,
                     yoke_context *context, bool *same)
{
    static comparison c; /* static, as it is large: it has the selectors */
    size_t count;
    yoke_status status;

    c = (comparison){
        .model = model, .training = training, .steps = steps, .context = context, .same = true};
    status = yki_tool_build_model(model, &c.graph);
    if (!status)
        status = list_splits(&c);
    count = status ? 0 : steps * yoke_graph_parameter_count(c.graph);
    c.first = calloc(count + 1, sizeof *c.first);
    c.other = calloc(count + 1, sizeof *c.other);
    if (!status && (!c.first || !c.other))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (!status)
        printf("%s, %u steps of %u samples\n", model->name, steps, training->batch);
    for (size_t i = 0; !status && i < c.split_count; i++)
        status = train_split(&c, &c.splits[i]);
    if (!status)
        printf("%s: %zu splits\n", c.same ? "the same bits" : "DIFFERENT BITS", c.compared);
    *same = c.same;
    free(c.first);
    free(c.other);
    yoke_graph_destroy(c.graph);
    return status;
}

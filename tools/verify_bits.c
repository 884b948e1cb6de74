/* SPDX-License-Identifier: Apache-2.0
 *
 * verify_bits.c - `yoke verify --bits MODEL`: trains a built-in model in several splits, and
 * compares the bits of the weights after each step.
 *
 * The splits are: each device of --devices alone, as the whole device that it is a part of; the
 * first one in two and three parts, evenly and not; and --devices with --shares. What a device does
 * not allow is left out, as is what would be the same once more.
 *
 * A job of several processes cannot change their number. There rank 0 trains alone first, on its
 * first device, and then all train together, with several shares; every rank compares its weights
 * with those of rank 0 alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

enum { HASH = 33, MOST_SPLITS = 32, SELECTOR = 512, WEIGHTS = 512 };

typedef struct split {
    char selector[SELECTOR]; /* empty: the usual devices */
    const char *shares;      /* NULL: auto */
    bool together;           /* by all processes */
} split;

/* What is compared: by step and parameter. */
typedef char (*hashes)[HASH];

typedef struct comparison {
    const yki_tool_model *model;
    const yki_tool_training *training;
    unsigned steps;
    yoke_context *context;
    yoke_comm *comm; /* NULL: one process */
    yoke_graph *graph;
    split splits[MOST_SPLITS];
    size_t split_count;
    hashes first, other;
    char weights[3][WEIGHTS]; /* shares of all devices of a job: see list_shares */
    size_t compared;          /* splits that could be trained */
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
        add_split(c, devices ? devices : "", "", c->training->shares);
    return status;
}

/* ---- several processes ---- */

/* Whether a rank's value is true on all. */
static yoke_status
all_say(yoke_comm *comm, bool own, bool *all)
{
    uint8_t said = own, *of = malloc((size_t)comm->ranks);
    yoke_status status = of ? comm->allgather(comm, &said, 1, of) : YOKE_ERROR_OUT_OF_MEMORY;

    *all = true;
    for (int32_t r = 0; !status && r < comm->ranks; r++)
        *all &= of[r];
    free(of);
    return status;
}

/* Everything for the first device, everything for the last one, and 1,2,3... */
static void
list_shares(comparison *c, size_t devices)
{
    size_t used[3] = {0};

    for (size_t k = 0; k < devices; k++) {
        const size_t values[3] = {k == 0, k + 1 == devices, k % 9 + 1};

        for (size_t i = 0; i < 3 && used[i] < WEIGHTS - 3; i++)
            used[i] +=
                (size_t)snprintf(c->weights[i] + used[i], 3, "%s%zu", k ? "," : "", values[i]);
    }
}

static void
add_together(comparison *c, const char *selector, const char *parts, const char *shares)
{
    split *s = &c->splits[c->split_count++];

    *s = (split){.shares = shares, .together = true};
    snprintf(s->selector, sizeof s->selector, "%s%s", selector, parts);
}

/* The splits of a job: the devices of all ranks, and halves of the first device of each. Every rank
 * makes the same list, but for the names of its devices, so nothing is left out that is twice. */
static yoke_status
list_job_splits(comparison *c)
{
    const char *devices = c->training->devices ? c->training->devices : "";
    const yoke_team_options o = {.comm = c->comm};
    yoke_team *team = NULL, *halves = NULL;
    yoke_device_info info;
    char parts[80];
    bool can;
    yoke_status status = yoke_team_create(c->context, c->training->devices, &o, &team);

    if (!status)
        status = yoke_device_get_info(yoke_team_get_device(team, 0), &info);
    if (status) {
        yoke_team_destroy(team);
        return status;
    }
    list_shares(c, yoke_team_count(team));
    yoke_team_destroy(team);
    add_split(c, info.parent, "", NULL);
    add_together(c, devices, "", c->training->shares);
    add_together(c, devices, "", "even");
    for (size_t i = 0; i < 3; i++)
        add_together(c, devices, "", c->weights[i]);
    snprintf(parts, sizeof parts, "%s/2", info.parent);
    can = yoke_team_create(c->context, parts, NULL, &halves) == YOKE_OK;
    yoke_team_destroy(halves);
    status = all_say(c->comm, can, &can);
    if (!status && can)
        add_together(c, info.parent, "/2", "even");
    return status;
}

/* Gives all ranks what rank 0 has computed alone. */
static yoke_status
share_first(comparison *c)
{
    const size_t count = c->steps * yoke_graph_parameter_count(c->graph);

    c->compared = 1;
    return c->comm->broadcast(c->comm, c->first, count * sizeof *c->first, 0);
}

/* ---- training ---- */

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
        if (c->comm && c->comm->heartbeat) /* the others may wait for this one alone */
            c->comm->heartbeat(c->comm, i + 1, "a step of `yoke verify`");
        yki_tool_random_batch(c->model, n, i + 1, input, target);
        status = yoke_trainer_step(trainer, n, feeds, count, NULL);
        if (!status)
            status = note_hashes(c, trainer, into + i * yoke_graph_parameter_count(c->graph));
    }
    free(input);
    free(target);
    return status;
}

/* Finds the first step and parameter whose bits differ, on any rank; SIZE_MAX: none does. */
static yoke_status
find_difference(const comparison *c, bool together, size_t *at, int32_t *rank)
{
    const size_t count = c->steps * yoke_graph_parameter_count(c->graph);
    uint64_t own = 0, *of;
    yoke_status status = YOKE_OK;

    while (own < count && strcmp(c->first[own], c->other[own]) == 0)
        own++;
    *rank = 0;
    *at = own < count ? own : SIZE_MAX;
    if (!together)
        return YOKE_OK;
    of = calloc((size_t)c->comm->ranks, sizeof *of);
    status = of ? c->comm->allgather(c->comm, &own, sizeof own, of) : YOKE_ERROR_OUT_OF_MEMORY;
    for (int32_t r = 0; !status && r < c->comm->ranks; r++)
        if (of[r] < count && of[r] < *at) {
            *at = of[r];
            *rank = r;
        }
    free(of);
    return status;
}

static yoke_status
compare_split(comparison *c, const split *s)
{
    const size_t count = yoke_graph_parameter_count(c->graph);
    size_t at;
    int32_t rank;
    yoke_status status = find_difference(c, s->together, &at, &rank);

    if (status || at == SIZE_MAX)
        return status;
    printf(", from step %zu on, first in %s", at / count + 1,
           yoke_node_name(yoke_graph_get_parameter(c->graph, at % count)));
    if (s->together)
        printf(" of rank %d", rank);
    c->same = false;
    return YOKE_OK;
}

static yoke_status
train_split(comparison *c, const split *s)
{
    const yoke_team_options team_options = {.comm = s->together ? c->comm : NULL};
    const bool first = c->compared == 0;
    yoke_trainer_options o = yki_tool_trainer_options(c->training, yoke_sgd(0.01f, 0));
    yoke_trainer *trainer = NULL;
    yoke_team *team = NULL;
    char all[HASH];
    yoke_status status;

    status = yoke_team_create(c->context, *s->selector ? s->selector : NULL, &team_options, &team);
    if (status && c->comm) /* the other ranks wait for it, or have nothing to compare with */
        return status;
    if (status) {
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
        printf("%s  %s%s, shares %s", all, *s->selector ? s->selector : "all devices",
               s->together ? " on all ranks" : "", s->shares ? s->shares : "auto");
        if (!first)
            status = compare_split(c, s);
        printf("\n");
        c->compared++;
    }
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    return status;
}

yoke_status
yki_tool_verify_bits(const yki_tool_model *model, const yki_tool_training *training, unsigned steps,
                     yoke_context *context, yoke_comm *comm, bool *same)
{
    static comparison c; /* static, as it is large: it has the selectors */
    size_t count;
    yoke_status status;

    c = (comparison){.model = model,
                     .training = training,
                     .steps = steps,
                     .context = context,
                     .comm = comm && comm->ranks > 1 ? comm : NULL,
                     .same = true};
    status = yki_tool_build_model(model, &c.graph);
    if (!status)
        status = c.comm ? list_job_splits(&c) : list_splits(&c);
    count = status ? 0 : steps * yoke_graph_parameter_count(c.graph);
    c.first = calloc(count + 1, sizeof *c.first);
    c.other = calloc(count + 1, sizeof *c.other);
    if (!status && (!c.first || !c.other))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (!status)
        printf("%s, %u steps of %u samples\n", model->name, steps, training->batch);
    for (size_t i = 0; !status && i < c.split_count; i++) {
        if (!c.comm || c.splits[i].together || c.comm->rank == 0)
            status = train_split(&c, &c.splits[i]);
        if (!status && c.comm && i == 0)
            status = share_first(&c);
    }
    if (!status)
        printf("%s: %zu splits\n", c.same ? "the same bits" : "DIFFERENT BITS", c.compared);
    *same = c.same;
    free(c.first);
    free(c.other);
    yoke_graph_destroy(c.graph);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * update_time.c - how long the update of a replica takes, before its first step.
 *
 * An update changes weights and state, so it is not tried on those of the replica. Another updater
 * with the same options updates one parameter of its own, at most as large as TRIED and a part of
 * the memory that is left; a larger update takes in proportion. The time is kept in wisdom.
 *
 * Not counted: with clipping, norms of what other updaters have.
 */
#include <math.h>
#include <stdio.h>

#include "replica/replica.h"

enum {
    TRIED = 16 << 20, /* bytes of values */
    LEAST = 64 << 10, /* fewer tell nothing of an update that is larger */
    PART = 16,        /* values are at most one part in so many of the memory that is left */
    RUNS = 4          /* the first one compiles and warms up */
};

static const char SOLVER[] = YKI_WISDOM_OWN;

/* What is tried; the replica is not touched. */
typedef struct trial {
    yoke_graph *graph;
    yki_weights *weights;
    yki_buffer *loss, *step;
    yki_updater *updater;
} trial;

static void
describe(const yki_updater_options *o, uint64_t bytes, char *text, size_t size)
{
    const yoke_optimizer *p = &o->optimizer;

    snprintf(text, size, "update %d%s%s%s%s%s%s of %llu bytes -> 0", (int)p->kind,
             p->momentum != 0 ? " momentum" : "", o->clip_norm > 0 ? " norm" : "",
             o->clip_value > 0 ? " limit" : "", o->state == YOKE_STATE_BF16 ? " small" : "",
             o->average > 0 ? " average" : "", o->settle ? " settle" : "",
             (unsigned long long)bytes);
}

/* A graph with one parameter, which nobody computes. */
static yoke_status
make_graph(uint64_t bytes, yoke_graph **graph)
{
    const yoke_shape shape = yoke_shape((int64_t)(bytes / 4));
    yoke_node *x, *target;

    YKI_TRY(yoke_graph_create(graph));
    x = yoke_input(*graph, "x", YOKE_F32, shape);
    target = yoke_target(*graph, "target", YOKE_F32, shape);
    x = yoke_add(*graph, x, yoke_parameter(*graph, "p", shape, (yoke_initializer){0}));
    yoke_graph_set_loss(*graph, yoke_mean_squared_error(*graph, x, target, NULL));
    return yoke_graph_status(*graph);
}

static yoke_status
make_trial(yoke_replica *r, uint64_t bytes, trial *t)
{
    const yki_updater_options *of = yki_updater_get_options(r->updater);
    const yki_updater_options o = {.optimizer = of->optimizer,
                                   .clip_norm = of->clip_norm,
                                   .clip_value = of->clip_value,
                                   .settle = of->settle,
                                   .state = of->state,
                                   .average = of->average};
    const float loss[2] = {0, 1};
    yki_step_values values = {.step = 1};
    yoke_device *device = r->weights->device;

    YKI_TRY(make_graph(bytes, &t->graph));
    YKI_TRY(yki_weights_create(device, t->graph, true, 0, NULL, &t->weights));
    YKI_TRY(yki_buffer_create(device, sizeof values, 0, "a trial", &t->step));
    YKI_TRY(yki_buffer_create(device, sizeof loss, 0, "a trial", &t->loss));
    YKI_TRY(yki_updater_create(t->weights, r->queue, t->loss, t->step, &o, &t->updater));
    values.loss_scale = values.unscale = 1;
    yki_updater_fill(t->updater, 1, 1, &values);
    YKI_TRY(yki_buffer_put(t->step, 0, sizeof values, &values));
    return yki_buffer_put(t->loss, 0, sizeof loss, loss);
}

static void
drop_trial(trial *t)
{
    yki_updater_destroy(t->updater);
    yki_buffer_destroy(t->loss);
    yki_buffer_destroy(t->step);
    yki_weights_release(t->weights);
    yoke_graph_destroy(t->graph);
}

/* The least time of some updates. */
static yoke_status
measure(yoke_replica *r, uint64_t bytes, double *seconds)
{
    trial t = {0};
    yoke_status status = make_trial(r, bytes, &t);
    double best = INFINITY;

    for (int run = 0; run < RUNS && status == YOKE_OK; run++) {
        double begin;

        status = yki_queue_finish(r->queue);
        begin = yki_now();
        if (status == YOKE_OK)
            status = yki_updater_enqueue(t.updater);
        if (status == YOKE_OK)
            status = yki_queue_finish(r->queue);
        if (run > 0)
            best = YKI_MIN(best, yki_now() - begin);
    }
    drop_trial(&t);
    *seconds = status == YOKE_OK ? best : 0;
    return status;
}

static void
remember(const yoke_replica *r, const char *text, double seconds)
{
    yoke_device *device = r->weights->device;

    if (yki_wisdom_put(r->wisdom, device, text, SOLVER, 0, seconds) != YOKE_OK ||
        yki_wisdom_save(r->wisdom) != YOKE_OK)
        yki_log(YOKE_LOG_DEBUG, "the time of an update is not kept");
}

yoke_status
yki_replica_time_update(yoke_replica *r, double *seconds)
{
    const uint64_t bytes = r->updater ? yki_updater_bytes(r->updater) : 0;
    const uint64_t room = yki_quota_left(r->weights->device) / PART;
    uint64_t tried = YKI_MIN(bytes, (uint64_t)TRIED);
    char text[160];
    double one = 0;

    *seconds = 0;
    /* By steps, so that wisdom knows it again when a little more memory is left. */
    for (uint64_t less = TRIED; tried > room && less >= LEAST; less /= 2)
        tried = YKI_MIN(tried, less);
    if (tried == 0 || tried > room)
        return YOKE_OK;
    describe(yki_updater_get_options(r->updater), tried, text, sizeof text);
    if (!yki_wisdom_get(r->wisdom, r->weights->device, text, SOLVER, 0, &one) &&
        r->options.level != YOKE_PLAN_ESTIMATE) {
        const yoke_status status = measure(r, tried, &one);

        if (status != YOKE_OK)
            return yki_lacks_memory(status) ? YOKE_OK : status;
        remember(r, text, one);
    }
    *seconds = one * ((double)bytes / (double)tried);
    return YOKE_OK;
}

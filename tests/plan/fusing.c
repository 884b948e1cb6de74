/* SPDX-License-Identifier: Apache-2.0
 *
 * fusing.c - plans a network in two ways and runs both on the same numbers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/harness.h"
#include "plan/fusing.h"
#include "support/devices.h"

TESTS_SHARE_A_PROCESS

enum { MAX_RESULTS = 64 };

/* What a run left: outputs, sums, gradients, next states. */
typedef struct results {
    size_t count;
    const char *names[MAX_RESULTS];
    float *values[MAX_RESULTS];
    int64_t sizes[MAX_RESULTS];
} results;

void
fusing_create(fusing_side *s, yoke_device *device, yoke_graph *graph,
              const yki_plan_options *options)
{
    ASSERT_OK(yki_weights_create(device, graph, options->training, 0, NULL, &s->weights));
    ASSERT_OK(yki_weights_initialize(s->weights, 3));
    ASSERT_OK(yki_queue_create(device, false, &s->queue));
    ASSERT_OK(yki_plan_create(s->weights, s->queue, options, &s->plan));
}

void
fusing_open(fusing_side *s, yoke_device *device, yoke_graph *graph, int64_t batch, bool training,
            bool no_fusion)
{
    const yki_plan_options options = {.max.batch = batch,
                                      .training = training,
                                      .no_fusion = no_fusion,
                                      .strict = true,
                                      .level = YOKE_PLAN_ESTIMATE};

    fusing_create(s, device, graph, &options);
}

void
fusing_close(fusing_side *s)
{
    yki_plan_destroy(s->plan);
    yki_queue_destroy(s->queue);
    yki_weights_release(s->weights);
}

static void
keep(results *r, const char *name, yki_buffer *buffer, int64_t count)
{
    float *values = calloc((size_t)count + 1, sizeof *values);

    if (!buffer || r->count == MAX_RESULTS) {
        free(values);
        return;
    }
    ASSERT_OK(yki_buffer_get(buffer, 0, (uint64_t)count * 4, values));
    r->names[r->count] = name;
    r->values[r->count] = values;
    r->sizes[r->count++] = count;
}

static void
give_inputs(fusing_side *s, int64_t n)
{
    const yoke_graph *g = s->weights->graph;

    for (size_t i = 0; i < g->node_count; i++) {
        const yoke_node *node = g->nodes[i];
        yki_buffer *buffer = node->role == YKI_ROLE_INPUT ? yki_plan_buffer(s->plan, node) : NULL;
        int64_t count = op_value_count(node, n);
        uint32_t *words;

        if (!buffer)
            continue;
        words = calloc((size_t)count + 1, sizeof *words);
        for (int64_t k = 0; k < count; k++) {
            float value = (float)op_normal(5, (uint32_t)i, (uint64_t)k);
            int32_t label = (int32_t)(op_uniform(6, (uint32_t)i, (uint64_t)k) * 4);

            memcpy(&words[k], node->type == YOKE_F32 ? (void *)&value : (void *)&label, 4);
        }
        ASSERT_OK(yki_buffer_put(buffer, 0, (uint64_t)count * 4, words));
        free(words);
    }
}

static void
run(fusing_side *s, int64_t n, results *r)
{
    const yoke_graph *g = s->weights->graph;
    yki_step_values step = {.step = 1, .inverse_count = 1, .clip_scale = 1, .good = 1};

    memset(r, 0, sizeof *r);
    give_inputs(s, n);
    ASSERT_OK(yki_buffer_put(s->plan->step_values, 0, sizeof step, &step));
    ASSERT_OK(yki_plan_enqueue(s->plan, YKI_FORWARD, (yki_extents){.batch = n}, NULL));
    if (s->weights->training) {
        ASSERT_OK(yki_plan_enqueue(s->plan, YKI_BACKWARD, (yki_extents){.batch = n}, NULL));
        ASSERT_OK(yki_plan_commit_states(s->plan));
    }
    ASSERT_OK(yki_queue_finish(s->queue));
    for (size_t i = 0; i < g->output_count; i++)
        keep(r, g->outputs[i].name, yki_plan_buffer(s->plan, g->outputs[i].node),
             op_value_count(g->outputs[i].node, n));
    if (g->loss_sum)
        keep(r, "loss", yki_plan_buffer(s->plan, g->loss_sum), 2);
    for (size_t i = 0; i < g->metric_count; i++)
        keep(r, g->metrics[i].name, yki_plan_buffer(s->plan, g->metrics[i].sum), 2);
    for (size_t i = 0; i < s->weights->weight_count && s->weights->training; i++)
        keep(r, s->weights->weights[i].node->name, s->weights->weights[i].gradient,
             op_value_count(s->weights->weights[i].node, 1));
    for (size_t i = 0; i < s->weights->state_count; i++)
        keep(r, s->weights->states[i].node->name, s->weights->states[i].value,
             op_value_count(s->weights->states[i].node, 1));
}

/* tolerance 0: the same bits. */
static void
compare(const results *a, const results *b, int64_t n, double tolerance)
{
    ck_assert_uint_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        double worst = 0, largest = 0;

        ck_assert_int_eq(a->sizes[i], b->sizes[i]);
        for (int64_t k = 0; k < a->sizes[i]; k++) {
            ck_assert_msg(isfinite(a->values[i][k]), "%s at %lld is %g, batch %lld", a->names[i],
                          (long long)k, (double)a->values[i][k], (long long)n);
            largest = fmax(largest, fabs((double)b->values[i][k]));
            worst = fmax(worst, fabs((double)a->values[i][k] - (double)b->values[i][k]));
        }
        ck_assert_msg(worst <= tolerance * largest, "%s is off by %g of %g, batch %lld",
                      a->names[i], worst, largest, (long long)n);
        free(a->values[i]);
        free(b->values[i]);
    }
}

void
fusing_compare(fusing_side *one, fusing_side *other, const int64_t *batches, size_t count,
               double tolerance)
{
    for (size_t i = 0; i < count; i++) {
        results a, b;

        run(one, batches[i], &a);
        run(other, batches[i], &b);
        compare(&a, &b, batches[i], tolerance);
    }
    fusing_close(one);
    fusing_close(other);
}

unsigned
fusing_tasks(const yki_plan *plan, const char *solver)
{
    unsigned count = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        count += plan->tasks[t].solver && strcmp(plan->tasks[t].solver->name, solver) == 0;
    return count;
}

static void
check_on(yoke_device *device, yoke_graph *graph, bool training, const fusing_expected *e)
{
    int64_t batches[] = {e->batch, 1, 0, (e->batch + 1) / 2};
    const yki_device_traits *traits = yki_device_get_traits(device);
    bool is_cpu = traits->type == YOKE_DEVICE_CPU && traits->vector_width >= 4;
    double tolerance = e->tolerance;
    fusing_side fused, plain;

    fusing_open(&fused, device, graph, e->batch, training, false);
    fusing_open(&plain, device, graph, e->batch, training, true);
    /* A norm that is joined with its statistics adds their parts in another order. */
    if (fusing_tasks(fused.plan, "bn-layer-whole") + fusing_tasks(fused.plan, "bn-layer-groups") >
        0)
        tolerance = YKI_MAX(tolerance, 1e-6);
    if (is_cpu ? e->cpu != NO_CPU : e->cpu != 1) {
        if (e->solver)
            ck_assert_uint_eq(fusing_tasks(fused.plan, e->solver), e->tasks);
        ck_assert_uint_le(fused.plan->task_count + e->removed, plain.plan->task_count);
    }
    fusing_compare(&fused, &plain, batches, YKI_COUNT(batches), tolerance);
}

static void
check_trained(yoke_device *device, yoke_graph *graph, const void *e)
{
    check_on(device, graph, true, e);
}

static void
check_evaluated(yoke_device *device, yoke_graph *graph, const void *e)
{
    check_on(device, graph, false, e);
}

void
fusing_each(yoke_graph *graph,
            void (*check)(yoke_device *device, yoke_graph *graph, const void *with),
            const void *with)
{
    ASSERT_OK(yoke_graph_status(graph));
    for (size_t i = 0; i < yoke_selection_count(test_selected()); i++)
        check(yoke_selection_get(test_selected(), i), graph, with);
}

void
fusing_check(yoke_graph *graph, bool training, const fusing_expected *e)
{
    fusing_each(graph, training ? check_trained : check_evaluated, e);
    yoke_graph_destroy(graph);
}

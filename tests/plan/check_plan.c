/* SPDX-License-Identifier: Apache-2.0
 *
 * check_plan.c - whole graphs compiled, run on every device under test, and held
 * to the oracles: results, losses and gradients, for several batches of one plan.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/harness.h"
#include "plan/plan.h"

enum { BATCH = 6 };

typedef struct bench {
    yoke_graph *graph;
    double **values; /* by node id, for a batch of BATCH */
    yki_plan *plan;
    yki_queue *queue;
} bench;

static void
fill_given(bench *b)
{
    for (size_t i = 0; i < b->graph->node_count; i++) {
        const yoke_node *node = b->graph->nodes[i];
        int64_t count = op_value_count(node, BATCH);

        if (node->op)
            continue;
        b->values[i] = calloc((size_t)count + 1, sizeof **b->values);
        for (int64_t k = 0; k < count; k++)
            b->values[i][k] = node->type == YOKE_F32
                                  ? (double)(float)op_normal(5, (uint32_t)i, (uint64_t)k) * 0.5
                                  : floor(op_uniform(5, (uint32_t)i, (uint64_t)k) * 3);
        /* The device gets floats. */
        for (int64_t k = 0; k < count; k++)
            b->values[i][k] = (double)(float)b->values[i][k];
    }
}

static void
put(yki_buffer *buffer, const yoke_node *node, const double *values, int64_t n)
{
    int64_t count = op_value_count(node, n);
    float *floats = malloc((size_t)count * sizeof *floats + 1);

    for (int64_t k = 0; k < count; k++) {
        int32_t integer = (int32_t)values[k];

        if (node->type == YOKE_F32)
            floats[k] = (float)values[k];
        else
            memcpy(&floats[k], &integer, sizeof integer);
    }
    ASSERT_OK(yki_buffer_put(buffer, 0, (uint64_t)count * 4, floats));
    free(floats);
}

static void
hold(yki_buffer *buffer, const yoke_node *node, const double *expected, int64_t n, const char *what)
{
    int64_t count = op_value_count(node, n);
    float *got = malloc((size_t)count * sizeof *got + 1);
    double worst = 0, largest = 0;

    ck_assert_ptr_nonnull(buffer);
    ASSERT_OK(yki_buffer_get(buffer, 0, (uint64_t)count * 4, got));
    for (int64_t k = 0; k < count; k++) {
        largest = fmax(largest, fabs(expected[k]));
        worst = fmax(worst, fabs((double)got[k] - expected[k]));
        ck_assert_msg(isfinite(got[k]), "%s: %s at %lld is %g", what, node->name, (long long)k,
                      (double)got[k]);
    }
    /* Errors of a few layers add up; see tests/op/oracles.h for one. */
    ck_assert_msg(worst <= 1e-5 * largest + 1e-30, "%s: %s is off by %g of %g, batch %lld", what,
                  node->name, worst, largest, (long long)n);
    free(got);
}

static void
run_and_hold(bench *b, int64_t n)
{
    yki_weights *w = b->plan->weights;
    yki_step_values step = {.step = 1};

    op_evaluate(b->graph, b->graph->node_count, n, &step, b->values);
    for (size_t i = 0; i < b->graph->node_count; i++) {
        const yoke_node *node = b->graph->nodes[i];

        if (node->role == YKI_ROLE_INPUT && yki_plan_buffer(b->plan, node))
            put(yki_plan_buffer(b->plan, node), node, b->values[i], n);
    }
    ASSERT_OK(yki_plan_enqueue(b->plan, YKI_FORWARD, (yki_extents){.batch = n}, NULL));
    if (w->training)
        ASSERT_OK(yki_plan_enqueue(b->plan, YKI_BACKWARD, (yki_extents){.batch = n}, NULL));
    ASSERT_OK(yki_queue_finish(b->queue));
    for (size_t i = 0; i < b->graph->output_count; i++)
        hold(yki_plan_buffer(b->plan, b->graph->outputs[i].node), b->graph->outputs[i].node,
             b->values[b->graph->outputs[i].node->id], n, "output");
    if (b->graph->loss_sum)
        hold(yki_plan_buffer(b->plan, b->graph->loss_sum), b->graph->loss_sum,
             b->values[b->graph->loss_sum->id], n, "loss");
    for (size_t i = 0; w->training && i < w->weight_count; i++)
        if (w->weights[i].node->gradient)
            hold(w->weights[i].gradient, w->weights[i].node,
                 b->values[w->weights[i].node->gradient->id], n, "gradient");
}

static void
check_on(yoke_graph *graph, yoke_device *device, bool training, yoke_plan_level level)
{
    static const int64_t batches[] = {BATCH, 0, 1, BATCH, 3};
    bench b = {.graph = graph};
    yki_plan_options options = {.max.batch = BATCH, .training = training, .level = level};
    yki_weights *weights;

    ASSERT_OK(yki_weights_create(device, graph, training, 0, NULL, &weights));
    ASSERT_OK(yki_queue_create(device, false, &b.queue));
    ASSERT_OK(yki_plan_create(weights, b.queue, &options, &b.plan));
    b.values = calloc(graph->node_count, sizeof *b.values);
    fill_given(&b);
    for (size_t i = 0; i < weights->weight_count; i++)
        put(weights->weights[i].value, weights->weights[i].node,
            b.values[weights->weights[i].node->id], 1);
    for (size_t i = 0; i < weights->state_count; i++)
        put(weights->states[i].value, weights->states[i].node,
            b.values[weights->states[i].node->id], 1);
    weights->version++;
    for (size_t i = 0; i < YKI_COUNT(batches); i++)
        run_and_hold(&b, batches[i]);
    yki_plan_destroy(b.plan);
    yki_queue_destroy(b.queue);
    yki_weights_release(weights);
    for (size_t i = 0; i < graph->node_count; i++)
        free(b.values[i]);
    free(b.values);
}

static void
check_everywhere(yoke_graph *graph, bool training, yoke_plan_level level)
{
    yoke_context *context;
    yoke_selection *selection;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check_on(graph, yoke_selection_get(selection, i), training, level);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    yoke_graph_destroy(graph);
}

/* Parameters used twice, broadcasting, a view, and a plain scalar as the loss. */
static yoke_graph *
elementwise_graph(void)
{
    yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
    yoke_graph *g;
    yoke_node *x, *p, *q, *h;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(5, 7));
    p = yoke_parameter(g, "p", yoke_shape(5, 7), init);
    q = yoke_parameter(g, "q", yoke_shape(7), init);
    h = yoke_tanh(g, yoke_add(g, yoke_mul(g, x, p), q));
    h = yoke_sub(g, yoke_mul(g, h, p), yoke_scale(g, x, 0.5f, 0));
    h = yoke_relu(g, yoke_flatten(g, h));
    yoke_graph_set_output(g, "y", h);
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, h, h), NULL, 0));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

START_TEST(plan_matches_oracles_in_training)
{
    check_everywhere(elementwise_graph(), true, YOKE_PLAN_ESTIMATE);
}
END_TEST

START_TEST(plan_matches_oracles_when_measured)
{
    check_everywhere(elementwise_graph(), true, YOKE_PLAN_MEASURE);
}
END_TEST

START_TEST(plan_matches_oracles_in_evaluation)
{
    check_everywhere(elementwise_graph(), false, YOKE_PLAN_ESTIMATE);
}
END_TEST

/* A result that is a view, long before the last task: its memory must not be used again. */
START_TEST(view_as_a_result_stays)
{
    yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
    yoke_graph *g;
    yoke_node *x, *h;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(5, 7));
    h = yoke_mul(g, x, yoke_parameter(g, "p", yoke_shape(5, 7), init));
    yoke_graph_set_output(g, "y", yoke_flatten(g, h));
    for (int i = 0; i < 4; i++)
        h = yoke_tanh(g, yoke_add(g, h, x));
    yoke_graph_set_loss(g, yoke_mean(g, h, NULL, 0));
    ASSERT_OK(yoke_graph_status(g));
    check_everywhere(g, _i, YOKE_PLAN_ESTIMATE);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("plan");
    TCase *tcase = test_case(suite, "plan");

    tcase_add_test(tcase, plan_matches_oracles_in_training);
    tcase_add_test(tcase, plan_matches_oracles_when_measured);
    tcase_add_test(tcase, plan_matches_oracles_in_evaluation);
    tcase_add_loop_test(tcase, view_as_a_result_stays, 0, 2);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_norm.c - normalisation: values, gradients, statistics that do not cancel,
 * what fusion asks of it, and what it refuses.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "plan/plan.h"

static const yoke_shape shapes[] = {
    {1, 0, {1}},         {1, 0, {17}},         {1, 0, {48}},       {3, 0, {1, 1, 2}},
    {3, 0, {5, 3, 7}},   {3, 0, {37, 4, 4}},   {3, 0, {16, 7, 7}}, {2, 0, {3, 301}},
    {3, 0, {2, 33, 35}}, {4, 0, {6, 2, 3, 5}},
};

/* A mean of the size of the terms, which its error is measured by. */
static const op_check_options off_centre = {.offset = 1};

START_TEST(batch_norm_matches_oracle)
{
    yoke_graph *graph;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&graph));
    x = yoke_input(graph, "x", YOKE_F32, shapes[_i / 2]);
    op_check_graph(graph,
                   yoke_batch_norm(graph, x, &(yoke_batch_norm_options){.no_affine = _i % 2 == 1}),
                   &off_centre);
}
END_TEST

/* Many samples: several splits, and tiles of several samples with a last one that is smaller. */
START_TEST(batch_norm_of_many_samples_matches_oracle)
{
    const yoke_shape many[] = {{1, 0, {72}}, {1, 0, {67}}, {3, 0, {8, 3, 3}}, {3, 0, {23, 1, 3}}};
    yoke_graph *graph;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&graph));
    x = yoke_input(graph, "x", YOKE_F32, many[_i]);
    op_check_graph(graph, yoke_batch_norm(graph, x, NULL),
                   /* The last one on simulators too: there are parts to be merged. */
                   &(op_check_options){.batch = 521,
                                       .offset = 1,
                                       .no_differences = true,
                                       .simulator_flops = _i == 3 ? 200000 : 0});
}
END_TEST

/* A mean that is a thousand times the deviation: the variance must not drown in it. */
START_TEST(variance_does_not_cancel)
{
    const yoke_shape many[] = {{1, 0, {16}}, {3, 0, {5, 9, 11}}, {3, 0, {2, 65, 67}}};
    yoke_graph *graph;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&graph));
    x = yoke_input(graph, "x", YOKE_F32, many[_i]);
    op_check_graph(
        graph, yoke_batch_norm(graph, x, NULL),
        &(op_check_options){.batch = 37, .offset = 1000, .no_gradient = true, .only = "bn-stats"});
}
END_TEST

/* What evaluation makes of running statistics. */
START_TEST(known_statistics_match_oracle)
{
    yoke_graph *graph;
    yoke_node *inputs[2];

    ASSERT_OK(yoke_graph_create(&graph));
    inputs[0] = yoke_parameter(graph, "mean", yoke_shape(37), (yoke_initializer){0});
    inputs[1] = yoke_parameter(graph, "variance", yoke_shape(37), (yoke_initializer){0});
    op_check_graph(graph, yki_node(graph, &yki_op_bn_known, NULL, inputs, 2, NULL, 0),
                   &(op_check_options){.no_gradient = true});
}
END_TEST

/* As a fusion makes it: with a second summand, an activation, or both. */
START_TEST(fused_batch_norm_matches_oracle)
{
    for (size_t i = 3; i < 8; i++) {
        yki_bn_attrs a = {.epsilon = 1e-3f, .affine = 1, .act = _i & 1, .residual = _i >> 1};
        yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
        yoke_shape channels = yoke_shape(shapes[i].dim[0]);
        yoke_graph *graph;
        yoke_node *inputs[5];

        ASSERT_OK(yoke_graph_create(&graph));
        inputs[0] = yoke_input(graph, "x", YOKE_F32, shapes[i]);
        inputs[1] = yki_node(graph, &yki_op_bn_stats, NULL, inputs, 1, &a, sizeof a);
        inputs[2] = yoke_parameter(graph, "weight", channels, init);
        inputs[3] = yoke_parameter(graph, "bias", channels, init);
        inputs[4] = yoke_input(graph, "residual", YOKE_F32, shapes[i]);
        op_check_graph(
            graph,
            yki_node(graph, &yki_op_bn_apply, "bn", inputs, a.residual ? 5 : 4, &a, sizeof a),
            &off_centre);
    }
}
END_TEST

typedef struct rows {
    yoke_shape x;
    int32_t axes;
} rows;

START_TEST(layer_norm_matches_oracle)
{
    const rows table[] = {
        {{1, 0, {1}}, 0},     {{1, 0, {7}}, 1},         {{1, 0, {129}}, 0},
        {{2, 0, {5, 48}}, 1}, {{3, 0, {3, 7, 11}}, 2},  {{3, 0, {2, 3, 33}}, 0},
        {{2, 0, {65, 3}}, 1}, {{3, 0, {2, 9, 700}}, 1},
    };
    const rows *t = &table[_i / 4];
    yoke_layer_norm_options o = {.axes = t->axes, .no_affine = _i % 2 == 1};
    yoke_graph *graph;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&graph));
    x = yoke_input(graph, "x", YOKE_F32, t->x);
    x = _i % 4 < 2 ? yoke_layer_norm(graph, x, &o) : yoke_rms_norm(graph, x, &o);
    op_check_graph(graph, x, &off_centre);
}
END_TEST

/* ---- running statistics ---- */

enum { SAMPLES = 4, CHANNELS = 5, AREA = 6 };

static float
element(int64_t i)
{
    return (float)op_normal(3, 1, (uint64_t)i) * 2 + 3;
}

/* The mean, and M2, of a channel. */
static void
describe_channel(int c, double *mean, double *m2)
{
    *mean = *m2 = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int n = 0; n < SAMPLES; n++)
            for (int k = 0; k < AREA; k++) {
                double v = (double)element((n * CHANNELS + c) * AREA + k);

                if (pass == 0)
                    *mean += v / (SAMPLES * AREA);
                else
                    *m2 += (v - *mean) * (v - *mean);
            }
}

/* `kept`: by the statistics of a micro-batch that is not the last one, after kernels for another
 * device could not be made. */
static void
commit(yki_plan *plan, bool kept)
{
    yki_buffer *statistics = NULL;

    if (!kept) {
        ASSERT_OK(yki_plan_commit_states(plan));
        return;
    }
    ASSERT_OK(yki_plan_keep_running(plan, &statistics));
    ck_assert_ptr_nonnull(statistics);
    yki_kernel_destroy(plan->running.kernel);
    plan->running.kernel = NULL;
    plan->commits_on = NULL;
    ASSERT_OK(yki_plan_commit_kept(plan, plan->queue, statistics));
    ASSERT_OK(yki_queue_finish(plan->queue));
    yki_buffer_destroy(statistics);
}

static void
run_plan(yki_weights *weights, yki_queue *queue, bool training, bool kept, int64_t n, float *y)
{
    const yoke_graph *graph = weights->graph;
    yki_plan_options options = {
        .max.batch = SAMPLES, .training = training, .level = YOKE_PLAN_ESTIMATE};
    float x[SAMPLES * CHANNELS * AREA];
    yki_plan *plan;

    for (int64_t i = 0; i < (int64_t)YKI_COUNT(x); i++)
        x[i] = element(i);
    ASSERT_OK(yki_plan_create(weights, queue, &options, &plan));
    ASSERT_OK(
        yki_buffer_put(yki_plan_buffer(plan, yoke_graph_get_node(graph, "x")), 0, sizeof x, x));
    ASSERT_OK(yki_plan_enqueue(plan, YKI_FORWARD, (yki_extents){.batch = n}, NULL));
    if (training) {
        ASSERT_OK(yki_plan_enqueue(plan, YKI_BACKWARD, (yki_extents){.batch = n}, NULL));
        /* What the updater's first launch says of a step with finite gradients. */
        ASSERT_OK(
            yki_buffer_put(plan->step_values, offsetof(yki_step_values, good), 4, &(uint32_t){1}));
        commit(plan, kept);
    }
    ASSERT_OK(yki_queue_finish(queue));
    ASSERT_OK(yki_buffer_get(yki_plan_buffer(plan, graph->outputs[0].node), 0, sizeof x, y));
    yki_plan_destroy(plan);
}

static void
check_running(yoke_graph *graph, yoke_device *device, bool kept)
{
    float y[SAMPLES * CHANNELS * AREA], running[2][CHANNELS];
    yki_weights *weights;
    yki_queue *queue;

    ASSERT_OK(yki_weights_create(device, graph, true, 0, NULL, &weights));
    ASSERT_OK(yki_queue_create(device, false, &queue));
    ck_assert_uint_eq(weights->state_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const float first[CHANNELS] = {1, 1, 1, 1, 1};

        ASSERT_OK(yki_buffer_put(weights->states[i].value, 0, sizeof first, first));
        ASSERT_OK(yki_buffer_put(weights->weights[i].value, 0, sizeof first, first));
    }
    run_plan(weights, queue, true, kept, 0, y); /* changes nothing */
    run_plan(weights, queue, true, kept, SAMPLES, y);
    for (size_t i = 0; i < 2; i++)
        ASSERT_OK(yki_buffer_get(weights->states[i].value, 0, sizeof running[i], running[i]));
    run_plan(weights, queue, false, false, SAMPLES, y);
    for (int c = 0; c < CHANNELS; c++) {
        double mean, m2;

        describe_channel(c, &mean, &m2);
        mean = 0.75 + 0.25 * mean;
        m2 = 0.75 + 0.25 * m2 / (SAMPLES * AREA - 1);
        ck_assert_double_eq_tol((double)running[0][c], mean, 1e-5);
        ck_assert_double_eq_tol((double)running[1][c], m2, 1e-5);
        for (int i = c * AREA; i < (int)YKI_COUNT(y);
             i += i % AREA < AREA - 1 ? 1 : (CHANNELS - 1) * AREA + 1)
            ck_assert_double_eq_tol((double)y[i], ((double)element(i) - mean) / sqrt(m2 + 1e-5) + 1,
                                    1e-5);
    }
    yki_queue_destroy(queue);
    yki_weights_release(weights);
}

START_TEST(running_statistics_are_kept_and_used)
{
    yoke_batch_norm_options o = {.momentum = 0.25f};
    yoke_context *context;
    yoke_selection *selection;
    yoke_graph *graph;
    yoke_node *y;

    SKIP_ON_SIMULATOR;
    ASSERT_OK(yoke_graph_create(&graph));
    y = yoke_batch_norm(graph, yoke_input(graph, "x", YOKE_F32, yoke_shape(CHANNELS, 2, 3)), &o);
    yoke_graph_set_output(graph, "y", y);
    yoke_graph_set_loss(graph, yoke_mean(graph, y, NULL, 0));
    ASSERT_OK(yoke_graph_status(graph));
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++) {
        check_running(graph, yoke_selection_get(selection, i), false);
        check_running(graph, yoke_selection_get(selection, i), true);
    }
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    yoke_graph_destroy(graph);
}
END_TEST

START_TEST(layer_norm_names_what_is_wrong)
{
    const yoke_layer_norm_options options[] = {{.epsilon = -1}, {.axes = 3}, {.axes = -1}};
    const char *details[] = {"ln1: epsilon is -1",
                             "ln1: axes is 3; must be between 0 and 2, the rank of \"x\"",
                             "ln1: axes is -1; must be between 0 and 2, the rank of \"x\""};

    for (size_t i = 0; i < YKI_COUNT(options); i++) {
        yoke_graph *graph;

        ASSERT_OK(yoke_graph_create(&graph));
        ck_assert_ptr_null(yoke_layer_norm(
            graph, yoke_input(graph, "x", YOKE_F32, yoke_shape(4, 5)), &options[i]));
        ck_assert_int_ne(yoke_graph_status(graph), YOKE_OK);
        ASSERT_DETAIL(details[i]);
        yoke_graph_destroy(graph);
    }
}
END_TEST

START_TEST(norm_names_what_is_wrong)
{
    const yoke_batch_norm_options options[] = {
        {.epsilon = -1}, {.momentum = 1.5f}, {.name = "b", .momentum = -0.1f}, {.local = true}};
    const char *details[] = {"bn1: epsilon is -1", "bn1: momentum is 1.5", "b: momentum is -0.1",
                             "bn1: the input \"x\" has shape (); must be (channels, ...)"};

    for (size_t i = 0; i < YKI_COUNT(options); i++) {
        yoke_graph *graph;
        yoke_shape shape = i < 3 ? yoke_shape(3) : yoke_shape();

        ASSERT_OK(yoke_graph_create(&graph));
        ck_assert_ptr_null(
            yoke_batch_norm(graph, yoke_input(graph, "x", YOKE_F32, shape), &options[i]));
        ck_assert_int_ne(yoke_graph_status(graph), YOKE_OK);
        ASSERT_DETAIL(details[i]);
        yoke_graph_destroy(graph);
    }
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("norm");
    TCase *tcase = test_case(suite, "norm");

    tcase_add_loop_test(tcase, batch_norm_matches_oracle, 0, 2 * (int)YKI_COUNT(shapes));
    tcase_add_loop_test(tcase, batch_norm_of_many_samples_matches_oracle, 0, 4);
    tcase_add_test(tcase, known_statistics_match_oracle);
    tcase_add_loop_test(tcase, variance_does_not_cancel, 0, 3);
    tcase_add_loop_test(tcase, fused_batch_norm_matches_oracle, 1, 4);
    tcase_add_test(tcase, running_statistics_are_kept_and_used);
    tcase_add_loop_test(tcase, layer_norm_matches_oracle, 0, 32);
    tcase_add_test(tcase, layer_norm_names_what_is_wrong);
    tcase_add_test(tcase, norm_names_what_is_wrong);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_memory.c - training with little memory: what is computed again has the bits
 * that it had, on one device and in a team, and the plan holds less. Packed weights
 * are made again for each run, or kept where steps have parts: the same bits too.
 */
#include <stdlib.h>
#include <string.h>

#include "replica/replica.h"
#include "train/runs.h"

enum { N = 6, CHANNELS = 8, SIDE = 16, CLASSES = 3, TENSORS = 32 };

static yoke_node *
conv(yoke_graph *g, yoke_node *x, const char *name)
{
    return yoke_conv2d(
        g, x,
        &(yoke_conv2d_options){
            .filters = CHANNELS, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true, .name = name});
}

static yoke_node *
norm(yoke_graph *g, yoke_node *x)
{
    return yoke_batch_norm(g, x, NULL);
}

/* Blocks with shortcuts, a dropout, a pooling: every kind of value that is dropped, and chains
 * of them. */
static yoke_graph *
network(void)
{
    yoke_graph *g;
    yoke_node *x, *y;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(3, SIDE, SIDE));
    y = yoke_relu(g, norm(g, conv(g, x, "c0")));
    for (int i = 0; i < 3; i++) {
        static const char *const names[3][2] = {{"c1", "c2"}, {"c3", "c4"}, {"c5", "c6"}};
        yoke_node *z = yoke_relu(g, norm(g, conv(g, y, names[i][0])));

        y = yoke_relu(g, yoke_add(g, norm(g, conv(g, z, names[i][1])), y));
    }
    y = yoke_silu(g, conv(g, yoke_maxpool2d(g, y, &(yoke_pool2d_options){.kernel = {2, 2}}), "c7"));
    y = conv(g, yoke_dropout(g, y, 0.25f), "c8");
    y = yoke_dense(g, yoke_flatten(g, y), &(yoke_dense_options){.units = CLASSES, .name = "fc"});
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, y, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

typedef struct outcome {
    float *values[TENSORS];
    size_t size[TENSORS], count, dropped;
    uint64_t memory;
} outcome;

/* Tasks of backward whose result a task of forward has made before. */
static size_t
count_again(const yki_plan *plan)
{
    size_t count = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        count += plan->tasks[t].section == YKI_BACKWARD && plan->tasks[t].node &&
                 !plan->tasks[t].node->backward;
    return count;
}

/* Two steps, then every parameter and its gradient. */
static void
train(yoke_device *device, const yki_replica_in_team *part, yoke_recompute_choice recompute,
      outcome *result)
{
    /* Without Winograd in the matrix: llvmpipe compiles those kernels for minutes. */
    const yoke_replica_options o = {.batch = N,
                                    .level = YOKE_PLAN_ESTIMATE,
                                    .strict = test_in_matrix(),
                                    .recompute = recompute,
                                    .seed = 3};
    static float x[N * 3 * SIDE * SIDE];
    int32_t labels[N];
    yoke_graph *g = network();
    yoke_replica *r;

    for (size_t i = 0; i < YKI_COUNT(x); i++)
        x[i] = (float)((i * 37 + i / 5) % 101) / 50 - 1;
    for (int i = 0; i < N; i++)
        labels[i] = i % CLASSES;
    ASSERT_OK(yki_replica_create(device, g, &o, part, &r));
    for (int step = 0; step < 2; step++) {
        ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_f32("x", x, YKI_COUNT(x))));
        ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_i32("label", labels, N)));
        ASSERT_OK(yoke_replica_forward(r, N));
        ASSERT_OK(yoke_replica_backward(r));
        ASSERT_OK(yoke_replica_update(r, 1));
    }
    for (size_t i = 0; i < r->weights->weight_count; i++) {
        const yki_weight *w = &r->weights->weights[i];
        float *values = malloc(2 * w->size);

        ck_assert_uint_lt(result->count, TENSORS);
        ASSERT_OK(yoke_replica_read(r, w->node->name, values, w->size / 4));
        ASSERT_OK(yoke_replica_read_gradient(r, w->node->name, values + w->size / 4, w->size / 4));
        result->values[result->count] = values;
        result->size[result->count++] = 2 * w->size;
    }
    result->dropped = count_again(r->training);
    result->memory = yki_plan_memory(r->training);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}

static void
hold_same(outcome *a, outcome *b)
{
    ck_assert_uint_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        ck_assert_uint_eq(a->size[i], b->size[i]);
        ck_assert_msg(memcmp(a->values[i], b->values[i], a->size[i]) == 0,
                      "parameter %zu has other bits", i);
        free(a->values[i]);
        free(b->values[i]);
    }
}

START_TEST(what_is_computed_again_has_the_same_bits)
{
    test_devices devices;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    if (devices.slow)
        TEST_NOT_HERE("whole plans are not for the simulator");
    for (size_t d = 0; d < devices.count; d++) {
        outcome fast = {.count = 0}, small = {.count = 0};

        train(devices.device[d], NULL, YOKE_RECOMPUTE_NOTHING, &fast);
        train(devices.device[d], NULL, YOKE_RECOMPUTE_CHEAP, &small);
        ck_assert_uint_eq(fast.dropped, 0);
        ck_assert_uint_ge(small.dropped, 5);
        ck_assert_msg((double)small.memory < 0.8 * (double)fast.memory,
                      "%llu bytes instead of %llu", (unsigned long long)small.memory,
                      (unsigned long long)fast.memory);
        hold_same(&fast, &small);
    }
    test_devices_close(&devices);
}
END_TEST

START_TEST(packed_weights_are_made_again_or_kept)
{
    const yki_replica_in_team parts = {.owners = 1, .accumulates = true};
    test_devices devices;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    if (devices.slow)
        TEST_NOT_HERE("whole plans are not for the simulator");
    for (size_t d = 0; d < devices.count; d++) {
        outcome again = {.count = 0}, kept = {.count = 0};

        train(devices.device[d], NULL, YOKE_RECOMPUTE_NOTHING, &again);
        train(devices.device[d], &parts, YOKE_RECOMPUTE_NOTHING, &kept);
        ck_assert_uint_le(again.memory, kept.memory);
        if (!test_in_matrix()) /* there, maybe without a solver that packs */
            ck_assert_uint_lt(again.memory, kept.memory);
        hold_same(&again, &kept);
    }
    test_devices_close(&devices);
}
END_TEST

/* Statistics of the batch are merged between the tasks of a team's plan. */
START_TEST(a_team_computes_again_too)
{
    static const team_net nets[] = {TEAM_CONV, TEAM_DROPOUT};
    team_run run = {.shares = "even", .net = nets[_i], .steps = 3, .seed = 5};
    team_outcome fast = {0}, small = {0};
    test_devices devices;

    if (test_in_matrix() || !test_devices_find(TEST_POCL_HALVES, &devices))
        TEST_NOT_HERE("PoCL's halves are for make check");
    run.selector = devices.selector;
    team_train(devices.context, &run, &fast);
    run.recompute = YOKE_RECOMPUTE_CHEAP;
    team_train(devices.context, &run, &small);
    ck_assert(team_same_bits(&fast, &small));
    team_free(&small);
    team_free(&fast);
    test_devices_close(&devices);
}
END_TEST

START_TEST(another_choice_is_refused)
{
    yoke_replica_options o = {.batch = 1};
    test_devices devices;
    yoke_graph *g = network();
    yoke_replica *r = NULL;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    memset(&o.recompute, 0x7f, sizeof o.recompute);
    ck_assert_int_eq(yoke_replica_create(devices.device[0], g, &o, &r),
                     YOKE_ERROR_INVALID_ARGUMENT);
    ASSERT_DETAIL("recompute is 2139062143; must be between 0 and 1");
    yoke_graph_destroy(g);
    test_devices_close(&devices);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = test_case(suite, "memory");

    tcase_add_test(tcase, what_is_computed_again_has_the_same_bits);
    tcase_add_test(tcase, packed_weights_are_made_again_or_kept);
    tcase_add_loop_test(tcase, a_team_computes_again_too, 0, 2);
    tcase_add_test(tcase, another_choice_is_refused);
    return suite;
}

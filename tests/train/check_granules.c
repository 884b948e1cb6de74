/* SPDX-License-Identifier: Apache-2.0
 *
 * check_granules.c - the units in which gradients of granules are added: they follow from the step
 * before; a step whose gradients do not fit them is made again; what is no number stays none. All
 * of it in each kind of integer.
 *
 * The network is y = W x with W = 0, so the gradient of a weight is a sum of -2 x target, which
 * is known.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/runs.h"
#include "train/trainer.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 12, GRANULE = 2, INPUTS = 5, OUTPUTS = 3, WEIGHTS = INPUTS * OUTPUTS };

static test_devices devices;
static char root[128];

static void
open_devices(void)
{
    yoke_device_info info[2];

    setenv("POCL_MAX_PTHREAD_COUNT", "6", 1); /* for splits in six */
    ck_assert(team_find(TEST_AS_IS, &devices, info));
    snprintf(root, sizeof root, "%s", info[0].parent);
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

static yoke_trainer *
make(const char *parts, const char *shares, yoke_wire_choice wire)
{
    const yoke_trainer_options o = {.batch = BATCH,
                                    .granule = GRANULE,
                                    .wire = wire,
                                    .shares = shares,
                                    .reproducible = YOKE_REPRODUCIBLE_ANY_SPLIT,
                                    .level = YOKE_PLAN_ESTIMATE,
                                    .optimizer = yoke_sgd(0.5f, 0)};
    static const float zeros[WEIGHTS];
    char selector[160];
    yoke_trainer *t;
    yoke_graph *g;
    yoke_team *team;
    yoke_node *y;

    snprintf(selector, sizeof selector, "%s%s", root, parts);
    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(INPUTS)),
                   &(yoke_dense_options){.units = OUTPUTS, .no_bias = true});
    yoke_graph_set_loss(
        g, yoke_mean_squared_error(g, y, yoke_target(g, "target", YOKE_F32, yoke_shape(OUTPUTS)),
                                   NULL));
    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    ASSERT_OK(
        yoke_trainer_write(t, yoke_node_name(yoke_graph_get_parameter(g, 0)), zeros, WEIGHTS));
    ASSERT_OK(yoke_trainer_set_learning_rate(t, 0));
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    return t;
}

/* Samples whose targets are about as large as `rest`, those of the first and the last as `first`
 * and `last`. */
static void
fill(float first, float rest, float last, float *x, float *target)
{
    for (int i = 0; i < BATCH * INPUTS; i++)
        x[i] = 0.3f + 0.1f * (float)(i * 7 % 11);
    for (int i = 0; i < BATCH * OUTPUTS; i++)
        target[i] = (i < OUTPUTS                 ? first
                     : i < (BATCH - 1) * OUTPUTS ? rest
                                                 : last) *
                    (1 + 0.2f * (float)(i * 5 % 7));
}

/* Makes a step and reads its gradient. */
static void
step(yoke_trainer *t, float first, float rest, float last, float *gradient, yoke_result *result)
{
    float x[BATCH * INPUTS], target[BATCH * OUTPUTS];
    const yki_weight *w = &t->crew.members[0].replica->weights->weights[0];
    yoke_feed feeds[2];

    fill(first, rest, last, x, target);
    feeds[0] = yoke_feed_f32("x", x, BATCH * INPUTS);
    feeds[1] = yoke_feed_f32("target", target, BATCH * OUTPUTS);
    ASSERT_OK(yoke_trainer_step(t, BATCH, feeds, 2, result));
    ASSERT_OK(yoke_trainer_wait(t));
    ASSERT_OK(yki_buffer_get(w->gradient, 0, w->size, gradient));
}

/* In double. */
static void
expect(float first, float rest, float last, double *gradient)
{
    float x[BATCH * INPUTS], target[BATCH * OUTPUTS];

    fill(first, rest, last, x, target);
    for (int o = 0; o < OUTPUTS; o++)
        for (int i = 0; i < INPUTS; i++) {
            double sum = 0;

            for (int s = 0; s < BATCH; s++)
                sum -= (double)x[s * INPUTS + i] * (double)target[s * OUTPUTS + o];
            gradient[o * INPUTS + i] = 2 * sum;
        }
}

/* The gradients of steps as these, and which of them are made twice, by kind of integer. */
static const struct {
    float first, rest, last;
    int again[3];
} steps[] = {
    {1, 1, 1, {1, 1, 1}}, /* nothing is known yet */
    {1, 1, 1, {0, 0, 0}},
    {100, 100, 100, {0, 1, 1}},             /* larger than 32 bits leave room for */
    {1.5625f, 1.5625f, 1.5625f, {0, 0, 1}}, /* 2^6 times smaller: 16 bits would keep four */
    {6.25f, 6.25f, 6.25f, {0, 0, 0}},       /* as much larger as fits 16 bits */
    {-100, -100, -100, {0, 0, 1}},          /* and 32 bits */
    {0x1p30f, 0x1p30f, 0x1p30f, {1, 1, 1}}, /* far larger */
    {0x1p30f, 0x1p30f, 0x1p30f, {0, 0, 0}},
    {0x1p-10f, 0x1p-10f, 0x1p-10f, {1, 1, 1}}, /* far smaller, by 2^40 */
    {0, 0, 0, {0, 0, 0}},                      /* nothing at all: the units stay */
    {0x1p-10f, 0x1p-10f, 0x1p-10f, {0, 0, 0}},
    {0x1p-10f, 0x1p-10f, 0x1p24f, {1, 1, 1}}, /* one granule that is far larger than all others */
    {0x1p24f, 0x1p-10f, 0x1p-10f, {0, 0, 0}}, /* and another one, of another device */
    {1e-36f, 1e-36f, 1e-36f, {1, 1, 1}},      /* near the least numbers */
    {1e36f, 1e36f, -1e36f, {1, 1, 1}},        /* and the largest */
};

static void
check_gradient(size_t index, const float *gradient, yoke_wire_choice wire)
{
    /* 32 bits keep 16 of each element, and 16 bits eight, unless a step is made again. */
    static const double bounds[] = {1e-6, 1.6e-5, 0.004};
    double expected[WEIGHTS], largest = 0;

    expect(steps[index].first, steps[index].rest, steps[index].last, expected);
    for (int i = 0; i < WEIGHTS; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int i = 0; i < WEIGHTS; i++)
        ck_assert_msg(fabs((double)gradient[i] - expected[i]) <= bounds[wire] * largest,
                      "step %zu, weight %d: %.9g, not %.9g", index, i, (double)gradient[i],
                      expected[i]);
}

static const char *const parts[][2] = {{"", NULL},    {"/2", "even"}, {"/2", "5,1"},
                                       {"/2", "0,1"}, {"/3", "even"}, {"/3", "1,0,2"}};

START_TEST(units_follow_gradients)
{
    static float first[YKI_COUNT(steps)][WEIGHTS];
    float gradient[WEIGHTS];

    for (size_t p = 0; p < YKI_COUNT(parts); p++) {
        yoke_trainer *t = make(parts[p][0], parts[p][1], (yoke_wire_choice)_i);

        for (size_t i = 0; i < YKI_COUNT(steps); i++) {
            uint64_t before = t->crew.exact.repeats;

            step(t, steps[i].first, steps[i].rest, steps[i].last, p == 0 ? first[i] : gradient,
                 NULL);
            ck_assert_msg((int)(t->crew.exact.repeats - before) == steps[i].again[_i],
                          "step %zu on %s: made again %d times", i, parts[p][0],
                          (int)(t->crew.exact.repeats - before));
            if (p == 0)
                check_gradient(i, first[i], (yoke_wire_choice)_i);
            else
                ck_assert_msg(memcmp(first[i], gradient, sizeof gradient) == 0,
                              "step %zu has other bits on %s with shares %s", i, parts[p][0],
                              parts[p][1]);
        }
        yoke_trainer_destroy(t);
    }
}
END_TEST

/* A step that is no number, or of no samples, changes nothing and leaves the units as they are. */
START_TEST(no_number_changes_nothing)
{
    for (size_t p = 0; p < YKI_COUNT(parts); p++) {
        yoke_trainer *t = make(parts[p][0], parts[p][1], (yoke_wire_choice)_i);
        char before[33], after[33];
        float gradient[WEIGHTS];
        yoke_result result;
        yoke_feed feeds[2];

        ASSERT_OK(yoke_trainer_set_learning_rate(t, 0.5f));
        step(t, 1, 1, 1, gradient, &result);
        ASSERT_OK(yoke_trainer_hash(t, NULL, before));
        step(t, 1, 1, NAN, gradient, &result);
        ck_assert(isnan(result.loss));
        ck_assert(isnan(gradient[0]));
        ASSERT_OK(yoke_trainer_hash(t, NULL, after));
        ck_assert_str_eq(before, after);
        step(t, INFINITY, 1, 1, gradient, &result);
        ASSERT_OK(yoke_trainer_hash(t, NULL, after));
        ck_assert_str_eq(before, after);
        feeds[0] = yoke_feed_f32("x", gradient, 0);
        feeds[1] = yoke_feed_f32("target", gradient, 0);
        ASSERT_OK(yoke_trainer_step(t, 0, feeds, 2, &result));
        ck_assert(result.count == 0);
        ASSERT_OK(yoke_trainer_hash(t, NULL, after));
        ck_assert_str_eq(before, after);
        step(t, 1, 1, 1, gradient, &result);
        ck_assert_msg(t->crew.exact.repeats == 1, "made again %d times",
                      (int)t->crew.exact.repeats);
        ck_assert_msg(isfinite(result.loss) && isfinite(gradient[0]), "%s: loss %g, gradient %g",
                      parts[p][0], result.loss, (double)gradient[0]);
        ASSERT_OK(yoke_trainer_hash(t, NULL, after));
        ck_assert_str_ne(before, after);
        yoke_trainer_destroy(t);
    }
}
END_TEST

/* ---- sums of floats ---- */

START_TEST(exact_sums_have_no_order)
{
    static const float values[] = {1e30f,  1,      -1e30f, 0x1p-149f,   3e38f,     -0x1p-126f,
                                   -3e38f, 7e-20f, -0.1f,  0x1.8p-140f, 12345.678f};
    yki_exact_sum forward = {0}, backward = {0}, half = {0};
    double expected = 1 + 7e-20 - 0.1 + 12345.678;

    for (size_t i = 0; i < YKI_COUNT(values); i++) {
        yki_exact_add(&forward, values[i]);
        yki_exact_add(i % 2 ? &backward : &half, values[YKI_COUNT(values) - 1 - i]);
    }
    yki_exact_merge(&backward, &half);
    ck_assert(yki_exact_value(&forward) == yki_exact_value(&backward));
    ck_assert(fabs(yki_exact_value(&forward) - expected) < 1e-3);
    for (size_t i = 0; i < YKI_COUNT(values); i++)
        yki_exact_add(&forward, -values[i]);
    ck_assert(yki_exact_value(&forward) == 0);
    yki_exact_add(&forward, -0x1p-149f);
    ck_assert(yki_exact_value(&forward) == -0x1p-149);
    yki_exact_add(&forward, INFINITY);
    ck_assert(isinf(yki_exact_value(&forward)));
    yki_exact_add(&forward, -INFINITY);
    ck_assert(isnan(yki_exact_value(&forward)));
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("granules");
    TCase *tc = test_case(suite, "units");

    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_loop_test(tc, units_follow_gradients, 0, 3);
    tcase_add_loop_test(tc, no_number_changes_nothing, 0, 3);
    tc = test_case(suite, "sums");
    tcase_add_test(tc, exact_sums_have_no_order);
    return suite;
}

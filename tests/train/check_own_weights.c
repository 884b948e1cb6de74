/* SPDX-License-Identifier: Apache-2.0
 *
 * check_own_weights.c - parts of one device that keep weights of their own: they compute what they
 * compute together, each has its own memory, and what no part has room for they divide. Those that
 * share weights have the frozen ones once, too.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/runs.h"
#include "train/trainer.h"

static test_devices devices;

enum { PARTS = 4, UNITS = 128, LAYERS = 24, BATCH = 16, STEPS = 3 };

/* Many layers of one shape, so that a bucket is small beside all of them. */
static yoke_graph *
deep_graph(void)
{
    yoke_graph *g;
    yoke_node *x, *target;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(UNITS));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(UNITS));
    for (int i = 0; i < LAYERS; i++)
        x = yoke_tanh(g, yoke_dense(g, x, &(yoke_dense_options){.units = UNITS, .no_bias = true}));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* A trainer on four parts of the processor, each with so many bytes. Takes over the graph. */
static yoke_status
trainer_of(yoke_graph *g, bool own, yoke_shard_choice shard, uint64_t quota, yoke_trainer **trainer)
{
    const yoke_trainer_options o = {.optimizer = yoke_adam(0.001f),
                                    .batch = BATCH,
                                    .seed = 1,
                                    .shares = "even",
                                    .level = YOKE_PLAN_ESTIMATE,
                                    .bucket_bytes = sizeof(float) * UNITS * UNITS,
                                    .core_groups = YOKE_CORE_GROUPS_NEVER,
                                    .shard = shard,
                                    .own_weights = own};
    char selector[300];
    yoke_team *team;
    yoke_status status;

    snprintf(selector, sizeof selector, "%s@%lluB", devices.selector, (unsigned long long)quota);
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    status = yoke_trainer_create(team, g, &o, trainer);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    return status;
}

static yoke_status
deep_trainer(bool own, yoke_shard_choice shard, uint64_t quota, yoke_trainer **trainer)
{
    return trainer_of(deep_graph(), own, shard, quota, trainer);
}

/* The loss of the last of some steps. */
static double
train_deep(yoke_trainer *trainer)
{
    static float x[BATCH * UNITS], y[BATCH * UNITS];
    yoke_result result = {0};

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH * UNITS; i++) {
            x[i] = sinf((float)(i + step));
            y[i] = 0.3f * cosf((float)(2 * i + step));
        }
        ASSERT_OK(yoke_trainer_step(trainer, BATCH,
                                    (yoke_feed[]){yoke_feed_f32("x", x, BATCH * UNITS),
                                                  yoke_feed_f32("target", y, BATCH * UNITS)},
                                    2, &result));
    }
    return result.loss;
}

static uint64_t
memory_of(yoke_trainer *trainer, size_t part)
{
    yoke_memory_usage usage;

    ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(trainer->team, part), &usage));
    return usage.used;
}

/* The state of Adam, the weights and their gradients. */
static const uint64_t whole = sizeof(float) * 4 * LAYERS * UNITS * UNITS;

static void
compare_memory(void)
{
    double together, alone;
    yoke_trainer *t;

    ASSERT_OK(deep_trainer(false, YOKE_SHARD_NOTHING, UINT64_C(1) << 28, &t));
    ck_assert_uint_eq(t->crew.group_count, 1);
    together = train_deep(t);
    ck_assert_uint_lt(memory_of(t, PARTS - 1), whole);
    yoke_trainer_destroy(t);
    ASSERT_OK(deep_trainer(true, YOKE_SHARD_NOTHING, UINT64_C(1) << 28, &t));
    ck_assert_uint_eq(t->crew.group_count, PARTS);
    alone = train_deep(t);
    for (size_t part = 0; part < PARTS; part++)
        ck_assert_uint_gt(memory_of(t, part), whole);
    yoke_trainer_destroy(t);
    ck_assert_double_eq_tol(alone, together, 1e-5 * together);
}

/* Trains adapters of all layers. Returns the loss; `used` becomes the memory of all parts. */
static double
train_adapters(bool own, uint64_t *used)
{
    yoke_graph *g = deep_graph();
    double loss;
    yoke_trainer *t;

    ASSERT_OK(yoke_graph_add_lora(g, &(yoke_lora_options){.rank = 1, .targets = "dense*"}));
    ASSERT_OK(trainer_of(g, own, YOKE_SHARD_NOTHING, UINT64_C(1) << 28, &t));
    ck_assert_uint_eq(t->crew.group_count, own ? PARTS : 1);
    loss = train_deep(t);
    *used = 0;
    for (size_t part = 0; part < PARTS; part++)
        *used += memory_of(t, part);
    yoke_trainer_destroy(t);
    return loss;
}

/* The base of adapters, which no step changes, is there once for all parts of a memory; what each
 * has besides is less than another one. */
static void
share_a_base(void)
{
    const uint64_t base = sizeof(float) * LAYERS * UNITS * UNITS;
    uint64_t together, apart;
    const double loss = train_adapters(false, &together), other = train_adapters(true, &apart);

    ck_assert_uint_gt(together, base);
    ck_assert_uint_lt(together, 2 * base);
    ck_assert_uint_gt(apart, PARTS * base);
    ck_assert_double_eq_tol(other, loss, 1e-5 * loss);
}

/* A model three times as large as the memory of each of four devices. */
static void
train_in_a_third(void)
{
    const uint64_t third = whole / 3;
    double expected;
    yoke_trainer *t = NULL;

    ASSERT_OK(deep_trainer(false, YOKE_SHARD_NOTHING, UINT64_C(1) << 28, &t));
    expected = train_deep(t);
    yoke_trainer_destroy(t);
    ASSERT_STATUS(YOKE_ERROR_QUOTA, deep_trainer(true, YOKE_SHARD_NOTHING, third, &t));
    ASSERT_OK(deep_trainer(true, YOKE_SHARD_AUTO, third, &t));
    ck_assert_int_eq((int)t->crew.sharding.level, YOKE_SHARD_WEIGHTS);
    ck_assert_double_eq_tol(train_deep(t), expected, 1e-5 * expected);
    for (size_t part = 0; part < PARTS; part++)
        ck_assert_uint_le(memory_of(t, part), third);
    yoke_trainer_destroy(t);
}

static bool
open_parts(test_setup setup)
{
    return test_devices_find(setup, &devices);
}

TEAM_SETUP(parts_have_their_own, TEST_POCL_QUARTERS, open_parts, compare_memory())
TEAM_SETUP(parts_share_the_base_of_adapters, TEST_POCL_QUARTERS, open_parts, share_a_base())
TEAM_SETUP(a_third_of_the_memory_is_enough, TEST_POCL_QUARTERS, open_parts, train_in_a_third())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("own weights");
    TCase *tcase = test_case(suite, "own weights");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, parts_have_their_own);
    tcase_add_test(tcase, parts_share_the_base_of_adapters);
    tcase_add_test(tcase, a_third_of_the_memory_is_enough);
    return suite;
}

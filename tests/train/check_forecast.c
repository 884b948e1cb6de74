/* SPDX-License-Identifier: Apache-2.0
 *
 * check_forecast.c - what a trainer tells of its steps before the first one: the memory is that
 * which they take, and the time of a step is that of its slowest device, of the update, and of the
 * gathers of weights that are divided.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/runs.h"
#include "train/trainer.h"

static test_devices devices;

enum { BATCH = 16, UNITS = 2048, DEVICES = 2, STEPS = 5 };

/* Its inputs are a large part of what a step needs. */
static yoke_graph *
wide_graph(void)
{
    yoke_graph *g;
    yoke_node *x, *target;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(UNITS));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(8));
    x = yoke_tanh(g, yoke_dense(g, x, &(yoke_dense_options){.units = 32}));
    x = yoke_dense(g, x, &(yoke_dense_options){.units = 8});
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static bool hidden; /* devices pass for ones with memory of their own */
static uint32_t micro_batches;
static int64_t granule; /* samples; 0: none */

static void
hide_memory(yoke_team *team)
{
    test_devices members = {.count = DEVICES};

    for (size_t k = 0; k < DEVICES; k++)
        members.device[k] = yoke_team_get_device(team, k);
    test_devices_hide_host_memory(&members);
}

static yoke_trainer *
wide_trainer(const char *selector, const char *shares, yoke_shard_choice shard,
             yoke_plan_level level)
{
    const yoke_trainer_options o = {.optimizer = yoke_adam(0.001f),
                                    .batch = BATCH,
                                    .shares = shares,
                                    .level = level,
                                    .shard = shard,
                                    .accumulate = micro_batches,
                                    .reproducible = granule ? YOKE_REPRODUCIBLE_ANY_SPLIT : 0,
                                    .granule = granule,
                                    .core_groups = YOKE_CORE_GROUPS_NEVER};
    yoke_graph *g = wide_graph();
    yoke_team *team;
    yoke_trainer *t;

    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    ck_assert_uint_eq(yoke_team_count(team), DEVICES);
    if (hidden)
        hide_memory(team);
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    return t;
}

static void
train(yoke_trainer *t)
{
    static float x[BATCH * UNITS], y[BATCH * 8];

    for (int step = 0; step < STEPS; step++)
        ASSERT_OK(yoke_trainer_step(t, BATCH,
                                    (yoke_feed[]){yoke_feed_f32("x", x, BATCH * UNITS),
                                                  yoke_feed_f32("target", y, BATCH * 8)},
                                    2, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
}

/* Both devices take what was told of them, within 3 %. After the first steps nothing is to come. */
static void
compare(yoke_trainer *t, int64_t samples, uint64_t quota)
{
    yoke_forecast list[DEVICES], later[DEVICES];

    ASSERT_OK(yoke_trainer_forecast(t, list, DEVICES));
    ck_assert_int_eq(list[0].samples, samples);
    ck_assert_int_eq(list[1].samples, BATCH - samples);
    train(t);
    ASSERT_OK(yoke_trainer_forecast(t, later, DEVICES));
    for (size_t k = 0; k < DEVICES; k++) {
        yoke_memory_usage usage;

        ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(t->team, k), &usage));
        ck_assert_msg(list[k].memory > usage.used / 100 * 97 &&
                          list[k].memory < usage.used / 100 * 103,
                      "device %zu: %llu bytes were told, and %llu are taken", k,
                      (unsigned long long)list[k].memory, (unsigned long long)usage.used);
        ck_assert_uint_eq(list[k].quota, quota);
        ck_assert_uint_eq(later[k].memory, usage.used);
        ck_assert_int_eq((int)list[k].shard, (int)t->crew.sharding.level);
    }
    yoke_trainer_destroy(t);
}

static bool
open_setup(test_setup setup)
{
    return test_devices_find(setup, &devices);
}

/* Of equal and of unequal devices; inputs that travel through buffers of their own too, where each
 * takes as much as the plan. */
static void
compare_all(void)
{
    compare(wide_trainer(devices.selector, "even", YOKE_SHARD_NOTHING, YOKE_PLAN_ESTIMATE),
            BATCH / 2, 0);
    compare(wide_trainer(devices.selector, "1,3", YOKE_SHARD_STATE, YOKE_PLAN_ESTIMATE), BATCH / 4,
            0);
    hidden = true;
    compare(wide_trainer(devices.selector, "1,3", YOKE_SHARD_NOTHING, YOKE_PLAN_ESTIMATE),
            BATCH / 4, 0);
}

/* A quota that has no room for the state on both devices, and none for such buffers. */
static void
compare_under_quota(void)
{
    yoke_trainer *t =
        wide_trainer(devices.selector, "even", YOKE_SHARD_NOTHING, YOKE_PLAN_ESTIMATE);
    yoke_memory_usage usage;
    const char *second = strchr(devices.selector, ',');
    uint64_t quota;
    char selector[300];

    ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(t->team, 0), &usage));
    yoke_trainer_destroy(t);
    quota = usage.used / 10 * 9;
    ck_assert_ptr_nonnull(second);
    snprintf(selector, sizeof selector, "%.*s@%lluB%s@%lluB", (int)(second - devices.selector),
             devices.selector, (unsigned long long)quota, second, (unsigned long long)quota);
    t = wide_trainer(selector, "even", YOKE_SHARD_AUTO, YOKE_PLAN_ESTIMATE);
    ck_assert_int_gt((int)t->crew.sharding.level, YOKE_SHARD_NOTHING);
    compare(t, BATCH / 2, quota);
}

/* All devices compute, then all update. */
static void
expect_step(const yoke_forecast list[DEVICES])
{
    const double slowest = YKI_MAX(list[0].seconds, list[1].seconds);
    const double update = YKI_MAX(list[0].update_seconds, list[1].update_seconds);

    for (size_t k = 0; k < DEVICES; k++)
        ck_assert_double_eq_tol(list[k].step_seconds, slowest + update + list[k].gather_seconds,
                                1e-9 * list[k].step_seconds);
}

/* A device computes as long as its tasks were measured, for its share of the samples. */
static void
compare_times(void)
{
    yoke_trainer *t = wide_trainer(devices.selector, "1,3", YOKE_SHARD_NOTHING, YOKE_PLAN_MEASURE);
    yoke_forecast list[DEVICES];

    ASSERT_OK(yoke_trainer_forecast(t, list, DEVICES));
    for (size_t k = 0; k < DEVICES; k++) {
        const yki_plan *plan = t->crew.members[k].replica->training;
        double seconds = 0;

        for (size_t i = 0; i < plan->task_count; i++)
            seconds += plan->tasks[i].seconds;
        ck_assert_double_gt(seconds, 0);
        seconds *= (double)list[k].samples / (double)plan->options.max.batch;
        ck_assert_double_eq_tol(list[k].seconds, seconds, 1e-6 * seconds);
        ck_assert_double_gt(list[k].update_seconds, 0);
        ck_assert_double_eq(list[k].gather_seconds, 0);
    }
    expect_step(list);
    yoke_trainer_destroy(t);
}

/* Trying an update changes none of the weights, and takes as long as is told, about: a busy machine
 * makes one of them slower. Wisdom knows it the next time. */
static void
compare_updates(void)
{
    yoke_trainer *t = wide_trainer(devices.selector, "even", YOKE_SHARD_NOTHING, YOKE_PLAN_MEASURE);
    yoke_replica *r = t->crew.members[0].replica;
    const uint64_t version = r->weights->version;
    yoke_forecast list[DEVICES], again[DEVICES];
    double least = INFINITY;

    ASSERT_OK(yoke_trainer_forecast(t, list, DEVICES));
    ck_assert_uint_eq(r->weights->version, version);
    for (int i = 0; i < 20; i++) {
        double begin;

        ASSERT_OK(yki_queue_finish(r->queue));
        begin = yki_now();
        ASSERT_OK(yki_updater_enqueue(r->updater));
        ASSERT_OK(yki_queue_finish(r->queue));
        least = YKI_MIN(least, yki_now() - begin);
    }
    ck_assert_double_gt(list[0].update_seconds, least / 4);
    yoke_trainer_destroy(t);
    t = wide_trainer(devices.selector, "even", YOKE_SHARD_NOTHING, YOKE_PLAN_ESTIMATE);
    ASSERT_OK(yoke_trainer_forecast(t, again, DEVICES));
    for (size_t k = 0; k < DEVICES; k++)
        ck_assert_double_eq_tol(again[k].update_seconds, list[k].update_seconds,
                                1e-3 * list[k].update_seconds);
    yoke_trainer_destroy(t);
}

/* Weights that are divided are gathered in each micro-batch, of granules in each turn. Measuring
 * that leaves them as they are. */
static void
compare_gathers(uint32_t accumulate, int64_t samples, double turns)
{
    char before[33], after[33];
    yoke_forecast list[DEVICES], later[DEVICES];
    yoke_trainer *t;

    micro_batches = accumulate;
    granule = samples;
    t = wide_trainer(devices.selector, "1,3", YOKE_SHARD_WEIGHTS, YOKE_PLAN_MEASURE);
    ASSERT_OK(yoke_trainer_hash(t, NULL, before));
    ASSERT_OK(yoke_trainer_forecast(t, list, DEVICES));
    ASSERT_OK(yoke_trainer_hash(t, NULL, after));
    ck_assert_str_eq(before, after);
    ck_assert_double_gt(t->gather_seconds, 0);
    for (size_t k = 0; k < DEVICES; k++)
        ck_assert_double_eq_tol(list[k].gather_seconds, turns * t->gather_seconds,
                                1e-9 * list[k].gather_seconds);
    if (!samples) /* solvers that any split allows are not measured */
        expect_step(list);
    train(t);
    ASSERT_OK(yoke_trainer_forecast(t, later, DEVICES));
    ck_assert_double_eq(later[0].gather_seconds, list[0].gather_seconds);
    yoke_trainer_destroy(t);
    t = wide_trainer(devices.selector, "1,3", YOKE_SHARD_WEIGHTS, YOKE_PLAN_ESTIMATE);
    ASSERT_OK(yoke_trainer_forecast(t, list, DEVICES));
    ck_assert_double_eq(list[0].gather_seconds, 0);
    yoke_trainer_destroy(t);
    micro_batches = 0;
    granule = 0;
}

static void
compare_all_gathers(void)
{
    compare_gathers(1, 0, 1);
    compare_gathers(2, 0, 2);
    compare_gathers(1, 4, 3);
}

/* An older caller's struct is shorter; what is behind it stays as it is. */
static void
refuse(void)
{
    yoke_trainer *t =
        wide_trainer(devices.selector, "even", YOKE_SHARD_NOTHING, YOKE_PLAN_ESTIMATE);
    yoke_forecast list[DEVICES];
    int64_t samples[DEVICES + 1] = {0, 0, 7};

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_trainer_forecast(t, list, 1));
    ASSERT_DETAIL("count is 1; must be 2, the devices of the team");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_trainer_forecast(t, NULL, DEVICES));
    ASSERT_OK(yoke_trainer_forecast_sized(t, (yoke_forecast *)samples, DEVICES, sizeof samples[0]));
    ck_assert_int_eq(samples[0], BATCH / 2);
    ck_assert_int_eq(samples[1], BATCH / 2);
    ck_assert_int_eq(samples[2], 7);
    yoke_trainer_destroy(t);
}

TEAM_SETUP(memory_is_that_of_steps, TEST_POCL_ROOTS, open_setup, compare_all())
TEAM_SETUP(memory_under_quotas, TEST_POCL_ROOTS, open_setup, compare_under_quota())
TEAM_SETUP(times_are_those_of_tasks, TEST_POCL_ROOTS, open_setup, compare_times())
TEAM_SETUP(times_of_updates, TEST_POCL_ROOTS, open_setup, compare_updates())
TEAM_SETUP(times_of_gathers, TEST_POCL_ROOTS, open_setup, compare_all_gathers())
TEAM_SETUP(forecasts_that_cannot_be, TEST_POCL_ROOTS, open_setup, refuse())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("forecast");
    TCase *tcase = test_case(suite, "forecast");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, memory_is_that_of_steps);
    tcase_add_test(tcase, memory_under_quotas);
    tcase_add_test(tcase, times_are_those_of_tasks);
    tcase_add_test(tcase, times_of_updates);
    tcase_add_test(tcase, times_of_gathers);
    tcase_add_test(tcase, forecasts_that_cannot_be);
    return suite;
}

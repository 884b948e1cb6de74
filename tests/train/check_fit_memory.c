/* SPDX-License-Identifier: Apache-2.0
 *
 * check_fit_memory.c - where devices have too little memory for what the options ask for, a trainer
 * is made in the first way for which it suffices: as it is, computing again, dividing, in stages,
 * in stages that compute again. Quotas stand for small devices. What is made trains and evaluates
 * within them, as one device does, and takes the memory that was told, within 3 %; what is given up
 * leaves nothing behind.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/runs.h"
#include "train/trainer.h"

static test_devices devices;

static bool
open_setup(test_setup setup)
{
    return team_find(setup, &devices, NULL);
}

/* ---- networks ---- */

typedef struct net {
    int layers, width, batch;
} net;

/* Most of its memory is what backward reads; most of it is weights, gradients and state; half each.
 */
static const net long_net = {24, 64, 512}, wide_net = {12, 256, 16}, both_net = {24, 128, 384};

enum { MOST = 512, INPUTS = 8, LABELS = 4 };

static yoke_graph *
make_graph(net n)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(INPUTS));
    for (int i = 0; i < n.layers; i++)
        x = yoke_tanh(g, yoke_dense(g, x, &(yoke_dense_options){.units = n.width}));
    x = yoke_dense(g, x, &(yoke_dense_options){.units = LABELS});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(
                               g, x, yoke_target(g, "target", YOKE_I32, yoke_shape()), NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* What yoke may do, as `yoke train` lets it. */
static yoke_trainer_options
everything(void)
{
    return (yoke_trainer_options){.optimizer = yoke_adam(0.001f),
                                  .level = YOKE_PLAN_ESTIMATE,
                                  .own_weights = true,
                                  .core_groups = YOKE_CORE_GROUPS_NEVER,
                                  .recompute = YOKE_RECOMPUTE_AUTO,
                                  .shard = YOKE_SHARD_AUTO,
                                  .stages = YOKE_STAGES_FIT};
}

/* The team stays, so that its devices tell what is left. */
static yoke_status
make(net n, int count, uint64_t quota, yoke_trainer_options o, yoke_team **team, yoke_trainer **t)
{
    const char *second = strchr(devices.selector, ',');
    yoke_graph *g = make_graph(n);
    char selector[600], limit[32] = "";
    yoke_status status;

    if (quota)
        snprintf(limit, sizeof limit, "@%lluB", (unsigned long long)quota);
    if (second)
        snprintf(selector, sizeof selector, "%.*s%s%s%s", (int)(second - devices.selector),
                 devices.selector, limit, count > 1 ? second : "", count > 1 ? limit : "");
    else
        snprintf(selector, sizeof selector, "%s%s%s", devices.selector, count > 1 ? "" : ".0",
                 limit);
    o.batch = n.batch;
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, team));
    ck_assert_uint_eq(yoke_team_count(*team), (size_t)count);
    *t = NULL;
    status = yoke_trainer_create(*team, g, &o, t);
    yoke_graph_destroy(g);
    return status;
}

/* Destroys both. Every byte has been given back. */
static void
end(yoke_team *team, yoke_trainer *t)
{
    yoke_trainer_destroy(t);
    for (size_t k = 0; k < yoke_team_count(team); k++) {
        yoke_memory_usage usage;

        ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(team, k), &usage));
        ck_assert_msg(usage.used == 0, "device %zu has %llu bytes left", k,
                      (unsigned long long)usage.used);
    }
    yoke_team_destroy(team);
}

static uint64_t used_in_steps[2]; /* by device */

static void
note_memory(const yoke_trainer *t)
{
    for (size_t k = 0; k < yoke_team_count(t->team); k++) {
        yoke_memory_usage usage;

        ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(t->team, k), &usage));
        used_in_steps[k] = usage.used;
    }
}

/* Trains some steps, and evaluates twice. */
static void
train(net n, yoke_trainer *t, double losses[2])
{
    static float x[MOST * INPUTS];
    static int32_t labels[MOST];
    const int64_t values = (int64_t)n.batch * INPUTS;
    const yoke_field fields[2] = {
        {.name = "x", .type = YOKE_F32, .shape = yoke_shape(INPUTS), .data = x},
        {.name = "target", .type = YOKE_I32, .shape = yoke_shape(), .data = labels}};
    yoke_dataset *dataset;

    ck_assert_int_le(n.batch, MOST);
    for (int64_t i = 0; i < values; i++)
        x[i] = (float)(i % 23) / 23 - (float)(i % 7) / 7;
    for (int i = 0; i < n.batch; i++)
        labels[i] = i % LABELS;
    ASSERT_OK(yoke_dataset_create(n.batch, fields, 2, NULL, &dataset));
    for (int turn = 0; turn < 2; turn++) {
        yoke_result result;

        for (int step = 0; step < 3; step++)
            ASSERT_OK(yoke_trainer_step(t, n.batch,
                                        (yoke_feed[]){yoke_feed_f32("x", x, values),
                                                      yoke_feed_i32("target", labels, n.batch)},
                                        2, NULL));
        ASSERT_OK(yoke_trainer_wait(t));
        if (turn == 0)
            note_memory(t);
        ASSERT_OK(yoke_trainer_evaluate(t, dataset, &result));
        losses[turn] = result.loss;
    }
    yoke_dataset_destroy(dataset);
}

/* What the device that takes most takes without a quota, if the options are followed just as they
 * are: drivers choose different kernels. */
static uint64_t
taken(net n, int count, yoke_trainer_options o, double losses[2])
{
    uint64_t most = 0;
    yoke_trainer *t;
    yoke_team *team;

    o.recompute = YOKE_RECOMPUTE_NOTHING;
    o.shard = YOKE_SHARD_NOTHING;
    o.stages = 0;
    ASSERT_OK(make(n, count, 0, o, &team, &t));
    train(n, t, losses);
    for (size_t k = 0; k < yoke_team_count(team); k++) {
        yoke_memory_usage usage;

        ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(team, k), &usage));
        most = usage.used > most ? usage.used : most;
    }
    end(team, t);
    return most;
}

/* ---- what is chosen ---- */

typedef struct choice {
    bool is_short, again;
    yoke_shard_choice shard;
    uint32_t stages;
} choice;

static void
count_line(void *user, const char *line)
{
    int *found = user;

    *found += strstr(line, "for what would need about") != NULL;
}

/* What is made with a part of the memory that it would take, and that it trains as it should. */
static void
chooses(net n, int count, double part, yoke_trainer_options o, choice expected)
{
    double whole[2], less[2];
    const uint64_t all = taken(n, count, o, whole);
    const uint64_t quota = (uint64_t)(part * (double)all);
    yoke_forecast list[2];
    yoke_trainer *t;
    yoke_team *team;
    int lines = 0;

    ASSERT_OK(make(n, count, quota, o, &team, &t));
    ASSERT_OK(yoke_trainer_forecast(t, list, (size_t)count));
    ck_assert_msg(list[0].shard == expected.shard, "%d is divided", (int)list[0].shard);
    ck_assert_uint_eq(list[0].stages, expected.stages);
    for (int k = 0; k < count; k++) {
        ck_assert_int_eq(list[k].recompute_bytes > 0, expected.again);
        ck_assert_int_eq(list[k].needed > list[k].available, expected.is_short);
        ck_assert_uint_le(list[k].memory, quota);
        ck_assert(!expected.is_short || list[k].available == quota);
        ck_assert(expected.is_short || list[k].needed == 0);
    }
    ASSERT_OK(yoke_trainer_explain(t, count_line, &lines));
    ck_assert_int_eq(lines, expected.is_short);
    train(n, t, less);
    for (int k = 0; k < count; k++)
        ck_assert_msg(list[k].memory > used_in_steps[k] / 100 * 97 &&
                          list[k].memory < used_in_steps[k] / 100 * 103,
                      "device %d: %llu bytes were told, and %llu are taken", k,
                      (unsigned long long)list[k].memory, (unsigned long long)used_in_steps[k]);
    for (int i = 0; i < 2; i++)
        ck_assert_double_le(fabs(less[i] - whole[i]), 1e-4 * whole[i]);
    end(team, t);
}

static void
check_enough(void)
{
    chooses(long_net, 1, 2, everything(), (choice){0});
    chooses(wide_net, 2, 2, everything(), (choice){0});
}

static void
check_again(void)
{
    yoke_trainer_options o = everything();

    chooses(long_net, 1, 0.9, o, (choice){.is_short = true, .again = true});
    o.shares = "even";
    chooses(long_net, 2, 0.9, o, (choice){.is_short = true, .again = true});
}

/* Rusticl takes long for each task. */
static void
check_slow_drivers(void)
{
    const net narrow = {12, 64, 512}, wide = {8, 256, 16};
    yoke_trainer_options o = everything();

    o.shares = "even";
    chooses(narrow, 2, 0.92, o, (choice){.is_short = true, .again = true});
    o.shares = NULL;
    o.shard = YOKE_SHARD_NOTHING;
    chooses(wide, 2, 0.75, o, (choice){.is_short = true, .stages = 2});
}

static void
check_shards(void)
{
    yoke_trainer_options o = everything();

    o.shares = "even";
    chooses(wide_net, 2, 0.88, o, (choice){.is_short = true, .shard = YOKE_SHARD_STATE});
}

/* Less and less memory for networks of many buckets: first more is divided, and where that does not
 * suffice values are computed again as well. */
static void
check_levels(void)
{
    static const struct row {
        net of;
        double part;
        yoke_shard_choice shard;
        bool again;
    } rows[] = {{{24, 128, 256}, 0.78, YOKE_SHARD_GRADIENTS, false},
                {{32, 128, 512}, 0.76, YOKE_SHARD_WEIGHTS, false},
                {{32, 128, 512}, 0.68, YOKE_SHARD_STATE, true},
                {{32, 128, 512}, 0.60, YOKE_SHARD_GRADIENTS, true},
                {{32, 128, 512}, 0.55, YOKE_SHARD_WEIGHTS, true}};
    yoke_trainer_options o = everything();

    o.shares = "even";
    o.bucket_bytes = 128 * 128 * 4;
    for (size_t i = 0; i < YKI_COUNT(rows); i++)
        chooses(rows[i].of, 2, rows[i].part, o,
                (choice){.is_short = true, .shard = rows[i].shard, .again = rows[i].again});
}

/* Shards are excluded by name, or do not suffice. */
static void
check_stages(void)
{
    yoke_trainer_options o = everything();

    o.shard = YOKE_SHARD_NOTHING;
    o.accumulate = 2;
    chooses(wide_net, 2, 0.7, o, (choice){.is_short = true, .stages = 2});
    o.accumulate = 1;
    chooses(both_net, 2, 0.58, o, (choice){.is_short = true, .stages = 2, .again = true});
}

TEAM_SETUP(enough_memory, TEST_POCL_HALVES, open_setup, check_enough())
TEAM_SETUP(computing_again, TEST_POCL_HALVES, open_setup, check_again())
TEAM_SETUP(shards_suffice, TEST_POCL_HALVES, open_setup, check_shards())
TEAM_SETUP(levels_suffice, TEST_POCL_HALVES, open_setup, check_levels())
TEAM_SETUP(stages_suffice, TEST_POCL_HALVES, open_setup, check_stages())
TEAM_SETUP(ways_of_slices, TEST_RUSTICL_SLICES, open_setup, check_slow_drivers())
TEAM_SETUP(ways_of_two_platforms, TEST_POCL_AND_RUSTICL, open_setup, check_slow_drivers())

/* ---- what is not ---- */

/* What the user asks for by name stays: the error is that of the quota. */
static void
check_names(void)
{
    yoke_trainer_options o = everything();
    double losses[2];
    yoke_trainer *t;
    yoke_team *team;
    uint64_t all;

    o.shares = "even";
    all = taken(long_net, 2, o, losses);
    o.recompute = YOKE_RECOMPUTE_NOTHING;
    o.shard = YOKE_SHARD_NOTHING;
    o.stages = 0;
    ASSERT_STATUS(YOKE_ERROR_QUOTA, make(long_net, 2, all / 10 * 7, o, &team, &t));
    ASSERT_DETAIL("take a smaller batch or a larger quota");
    end(team, t);
    o.recompute = YOKE_RECOMPUTE_AUTO; /* a budget by name is no choice of yoke's */
    o.recompute_bytes = all;
    ASSERT_STATUS(YOKE_ERROR_QUOTA, make(long_net, 2, all / 10 * 7, o, &team, &t));
    end(team, t);
    o.recompute_bytes = 0;
    o.stages = YOKE_STAGES_FIT; /* shares exclude it */
    o.recompute = YOKE_RECOMPUTE_NOTHING;
    ASSERT_STATUS(YOKE_ERROR_QUOTA, make(long_net, 2, all / 10 * 7, o, &team, &t));
    ASSERT_DETAIL("take a smaller batch or a larger quota");
    end(team, t);
}

/* The sentence tells how much is needed, and where it is not. */
static void
check_nothing_fits(void)
{
    yoke_trainer_options o = everything();
    yoke_trainer *t;
    yoke_team *team;
    yoke_status status;

    status = make(wide_net, 1, 2000000, o, &team, &t);
    ck_assert(yki_lacks_memory(status));
    ASSERT_DETAIL("training needs about ");
    ASSERT_DETAIL(", which has 2.0 MB left (its quota, or its memory), or ");
    ASSERT_DETAIL(" MB if backward computes again what it can; take a smaller batch, ");
    ck_assert_ptr_null(t);
    end(team, t);
    status = make(wide_net, 2, 1000000, o, &team, &t);
    ck_assert(yki_lacks_memory(status));
    ASSERT_DETAIL("; in stages: ");
    ck_assert_ptr_null(t);
    end(team, t);
    o.recompute = (yoke_recompute_choice)3;
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, make(wide_net, 1, 0, o, &team, &t));
    ASSERT_DETAIL("recompute is 3; must be between 0 and 2");
    end(team, t);
}

TEAM_SETUP(names_are_followed, TEST_POCL_HALVES, open_setup, check_names())
TEAM_SETUP(nothing_fits, TEST_POCL_HALVES, open_setup, check_nothing_fits())

/* ---- what turns out otherwise ---- */

/* Takes most of a device's memory once a choice is made, and gives it back when that has failed. */
static struct {
    yoke_team *team;
    yki_buffer *buffer;
    uint64_t size;
    int warnings;
} hog;

static void
take_memory(void *user, yoke_log_level level, const char *line)
{
    (void)user;
    if (strstr(line, "auto chose") && !hog.buffer && !hog.warnings)
        ASSERT_OK(yki_buffer_create(yoke_team_get_device(hog.team, 0), hog.size, 0, "a hog",
                                    &hog.buffer));
    if (level != YOKE_LOG_WARNING || !strstr(line, "should have fit"))
        return;
    hog.warnings++;
    yki_buffer_destroy(hog.buffer);
    hog.buffer = NULL;
}

/* A choice that fails makes room for the next one. */
static void
check_second_thoughts(void)
{
    yoke_trainer_options o = everything();
    const uint64_t quota = taken(long_net, 1, o, (double[2]){0}) * 2;
    yoke_graph *g = make_graph(long_net);
    char selector[600];
    yoke_forecast one;
    double losses[2];
    yoke_trainer *t;

    snprintf(selector, sizeof selector, "%s.0@%lluB", devices.selector, (unsigned long long)quota);
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &hog.team));
    o.batch = long_net.batch;
    hog.size = quota / 10 * 9;
    yoke_log_set(take_memory, NULL, YOKE_LOG_DEBUG);
    ASSERT_OK(yoke_trainer_create(hog.team, g, &o, &t));
    yoke_log_set(NULL, NULL, YOKE_LOG_ERROR);
    ck_assert_int_eq(hog.warnings, 1);
    ASSERT_OK(yoke_trainer_forecast(t, &one, 1));
    ck_assert_uint_gt(one.recompute_bytes, 0);
    ck_assert_uint_gt(one.needed, 0);
    train(long_net, t, losses);
    yoke_graph_destroy(g);
    end(hog.team, t);
}

TEAM_SETUP(second_thoughts, TEST_POCL_HALVES, open_setup, check_second_thoughts())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("fit_memory");
    TCase *tc = test_case(suite, "ways");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, enough_memory);
    tcase_add_test(tc, computing_again);
    tcase_add_test(tc, shards_suffice);
    tcase_add_test(tc, levels_suffice);
    tcase_add_test(tc, stages_suffice);
    tcase_add_test(tc, names_are_followed);
    tcase_add_test(tc, nothing_fits);
    tcase_add_test(tc, second_thoughts);
    if (getenv("YOKE_TEST_QUICK")) /* Rusticl takes long to make kernels ready */
        return suite;
    tc = test_case(suite, "slow");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, ways_of_slices);
    tcase_add_test(tc, ways_of_two_platforms);
    return suite;
}

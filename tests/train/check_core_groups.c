/* SPDX-License-Identifier: Apache-2.0
 *
 * check_core_groups.c - a whole CPU in core groups: the same training, shown as one device; when
 * they are taken, kept, and refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/opened.h"
#include "support/scratch.h"
#include "train/runs.h"
#include "train/trainer.h"

TESTS_SHARE_A_PROCESS

/* The first whole CPU with two units that can be split, as `devices.selector`. */
static bool
find_cpu(void)
{
    for (size_t i = 0; i < yoke_context_device_count(devices.context); i++) {
        yoke_device_info info;

        ASSERT_OK(yoke_device_get_info(yoke_context_get_device(devices.context, i), &info));
        if (info.type != YOKE_DEVICE_CPU || info.compute_units < 2 ||
            !(info.partition & YOKE_PARTITION_EQUALLY))
            continue;
        snprintf(devices.selector, sizeof devices.selector, "%s", info.id);
        return true;
    }
    return false;
}

#define NEED_CPU                                                                                   \
    do {                                                                                           \
        if (test_in_matrix())                                                                      \
            TEST_NOT_HERE("the matrix has its own devices");                                       \
        if (!find_cpu())                                                                           \
            TEST_SKIP("no CPU that can be split");                                                 \
    } while (0)

static yoke_status
try_trainer(const team_run *run, const yoke_trainer_options *o, yoke_trainer **trainer)
{
    yoke_graph *g = team_graph(run->net);
    yoke_status status;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, run->selector, NULL, &team));
    status = yoke_trainer_create(team, g, o, trainer);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return status;
}

static yoke_trainer *
trainer_of(const team_run *run, const yoke_trainer_options *o)
{
    yoke_trainer *trainer;

    ASSERT_OK(try_trainer(run, o, &trainer));
    return trainer;
}

static void
train(const team_run *run, yoke_core_groups_choice core_groups, bool local, team_outcome *outcome)
{
    yoke_trainer_options o = team_options(run);
    yoke_result result;
    yoke_trainer *t;

    o.core_groups = core_groups;
    o.local_batch_norm = local;
    t = trainer_of(run, &o);
    ck_assert_uint_eq(t->crew.count, core_groups == YOKE_CORE_GROUPS_ALWAYS ? 2 : 1);
    for (int i = 0; i < TEAM_STEPS; i++)
        ASSERT_OK(team_step(run, t, i, &result));
    ASSERT_OK(team_read(t, outcome));
    outcome->loss = result.loss;
    yoke_trainer_destroy(t);
}

static void
explain(yoke_trainer *t)
{
    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
}

static const team_run runs[] = {
    {.net = TEAM_MLP, .last = 7, .ignored = TEAM_FIRST_IGNORED},
    {.net = TEAM_MLP, .last = 1, .batch = 25, .clip_norm = 0.05f},
    {.net = TEAM_REGRESSION, .last = 7, .accumulate = 3},
    {.net = TEAM_DROPOUT, .last = 7},
    {.net = TEAM_CONV, .last = 7},
    {.net = TEAM_CONV, .last = 7, .accumulate = 3},
};

/* Local statistics are those of the one device, so those of all its core groups. */
START_TEST(core_groups_train_what_the_device_does)
{
    team_outcome whole, core_groups, again;
    team_run run = runs[_i];
    char what[64];

    NEED_CPU;
    run.selector = devices.selector;
    train(&run, YOKE_CORE_GROUPS_NEVER, true, &whole);
    train(&run, YOKE_CORE_GROUPS_ALWAYS, true, &core_groups);
    train(&run, YOKE_CORE_GROUPS_ALWAYS, true, &again);
    snprintf(what, sizeof what, "core groups of run %d", _i);
    team_assert_near(&core_groups, &whole, what);
    ck_assert(team_same_bits(&core_groups, &again));
    team_free(&whole);
    team_free(&core_groups);
    team_free(&again);
}
END_TEST

/* One device to see: its share, its predictions, its memory. */
START_TEST(core_groups_are_one_device_to_see)
{
    enum { N = 61 };
    static float whole[N * TEAM_CLASSES], core_groups[N * TEAM_CLASSES];
    team_run run = {.net = TEAM_MLP};
    yoke_trainer_options o = team_options(&run);
    yoke_feed feeds[2];
    yoke_trainer *t;
    int64_t count = 0;

    NEED_CPU;
    run.selector = devices.selector;
    for (int i = 0; i < 2; i++) {
        o.core_groups = i ? YOKE_CORE_GROUPS_ALWAYS : YOKE_CORE_GROUPS_NEVER;
        t = trainer_of(&run, &o);
        ASSERT_OK(team_step(&run, t, 0, NULL));
        team_feeds(&run, 7, N, feeds);
        ASSERT_OK(
            yoke_trainer_predict(t, "y", N, feeds, 1, i ? core_groups : whole, N * TEAM_CLASSES));
        if (i == 0)
            yoke_trainer_destroy(t);
    }
    for (int i = 0; i < N * TEAM_CLASSES; i++)
        ck_assert_float_eq_tol(core_groups[i], whole[i], 1e-5f);
    ASSERT_OK(yoke_trainer_get_shares(t, &count, 1));
    ck_assert_int_eq(count, 24);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_trainer_get_shares(t, &count, 2));
    ASSERT_OK(yoke_trainer_set_shares(t, "even"));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_trainer_set_shares(t, "1,1"));
    ASSERT_OK(team_step(&run, t, 1, NULL));
    explain(t);
    ck_assert_msg(strstr(test_lines, "core groups: the device runs as 2") != NULL, "%s",
                  test_lines);
    ck_assert_msg(strstr(test_lines, "/2.") == NULL, "the core groups are devices in\n%s",
                  test_lines);
    yoke_trainer_destroy(t);
}
END_TEST

/* fit's history and a checkpoint know one device, so what core groups began goes on without them.
 */
START_TEST(checkpoints_of_core_groups_go_on_without_them)
{
    enum { COUNT = 100, WIDTH = 12 };
    team_run run = {.net = TEAM_MLP, .batch = 16};
    yoke_trainer_options o = team_options(&run);
    yoke_fit_options fit = {.epochs = 1, .resume = true};
    const yoke_epoch *h;
    yoke_dataset *dataset;
    yoke_feed feeds[2];
    yoke_trainer *t;

    NEED_CPU;
    run.selector = devices.selector;
    fit.checkpoint_dir = scratch_path("checkpoints");
    team_feeds(&run, 0, COUNT, feeds);
    ASSERT_OK(yoke_dataset_create(
        COUNT,
        (yoke_field[]){
            {.name = "x", .type = YOKE_F32, .shape = yoke_shape(WIDTH), .data = feeds[0].data},
            {.name = "target", .type = YOKE_I32, .shape = yoke_shape(), .data = feeds[1].data}},
        2, NULL, &dataset));
    for (int64_t i = 0; i < 2; i++) {
        o.core_groups = i == 0 ? YOKE_CORE_GROUPS_ALWAYS : YOKE_CORE_GROUPS_NEVER;
        fit.epochs = i + 1;
        t = trainer_of(&run, &o);
        ASSERT_OK(yoke_trainer_fit(t, dataset, dataset, &fit));
        ck_assert_uint_eq(yoke_trainer_epoch_count(t), (size_t)i + 1);
        h = yoke_trainer_get_epoch(t, (size_t)i);
        ck_assert_uint_eq(h->devices, 1);
        ck_assert_double_eq(h->shares[0], 16);
        ck_assert_double_eq_tol(h->device_losses[0], h->train->loss, 1e-9);
        yoke_trainer_destroy(t);
    }
    yoke_dataset_destroy(dataset);
}
END_TEST

/* What the device may use is what its core groups may use together. */
START_TEST(core_groups_keep_to_the_quota)
{
    team_run run = {.net = TEAM_MLP};
    yoke_trainer_options o = team_options(&run);
    yoke_memory_usage usage;
    yoke_trainer *t = NULL;
    char selector[300];

    NEED_CPU;
    snprintf(selector, sizeof selector, "%s@64MiB", devices.selector);
    run.selector = selector;
    o.core_groups = YOKE_CORE_GROUPS_ALWAYS;
    t = trainer_of(&run, &o);
    ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(t->team, 0), &usage));
    ck_assert_uint_gt(usage.used, 0);
    yoke_trainer_destroy(t);
    snprintf(selector, sizeof selector, "%s@16KiB", devices.selector);
    ASSERT_STATUS(YOKE_ERROR_QUOTA, try_trainer(&run, &o, &t));
}
END_TEST

START_TEST(core_groups_that_cannot_be_are_refused)
{
    static const struct {
        const char *split, *says;
        team_net net;
        int64_t batch;
    } rows[] = {
        {"/2", "several devices", TEAM_MLP, 24},
        {"/2.0", "no whole CPU", TEAM_MLP, 24},
        {"", "one sample", TEAM_MLP, 1},
        {"", "statistics of each device", TEAM_LOCAL, 24},
    };
    yoke_trainer *t = NULL;

    NEED_CPU;
    for (size_t i = 0; i <= YKI_COUNT(rows); i++) {
        size_t row = i % YKI_COUNT(rows);
        team_run run = {.net = rows[row].net, .batch = rows[row].batch};
        yoke_trainer_options o = team_options(&run);
        char selector[300];

        snprintf(selector, sizeof selector, "%s%s", devices.selector, rows[row].split);
        run.selector = selector;
        o.core_groups = i < YKI_COUNT(rows) ? YOKE_CORE_GROUPS_ALWAYS : (yoke_core_groups_choice)3;
        ASSERT_STATUS(i < YKI_COUNT(rows) ? YOKE_ERROR_UNSUPPORTED : YOKE_ERROR_INVALID_ARGUMENT,
                      try_trainer(&run, &o, &t));
        ck_assert_msg(
            strstr(yoke_last_error(), i < YKI_COUNT(rows) ? rows[row].says : "core_groups is 3"),
            "%s", yoke_last_error());
    }
    ck_assert_ptr_null(t);
}
END_TEST

/* ---- measuring ---- */

/* Replaces the seconds of a line of wisdom that has this word. */
static void
rewrite(const char *path, const char *word, const char *seconds)
{
    size_t size;
    char *text = scratch_read(path, &size), *at = strstr(text, word);

    ck_assert_msg(at != NULL, "no %s in %s", word, text);
    while (at > text && at[-1] != '\n')
        at--;
    memcpy(at, seconds, strlen(seconds));
    scratch_write(path, text, size);
    free(text);
}

/* What was measured is kept, and decides from then on: also where plans are frozen, which measures
 * nothing. Given shares and estimated plans have no core groups. */
START_TEST(the_choice_is_kept_in_wisdom)
{
    team_run run = {.net = TEAM_MLP, .wisdom = scratch_path("wisdom")};
    team_outcome measured, whole;
    yoke_trainer_options o;
    yoke_trainer *t;

    NEED_CPU;
    run.selector = devices.selector;
    o = team_options(&run);
    o.level = YOKE_PLAN_MEASURE;
    o.reproducible = YOKE_REPRODUCIBLE_RUNS;
    t = trainer_of(&run, &o);
    explain(t);
    ck_assert_msg(strstr(test_lines, "core groups") == NULL, "%s", test_lines);
    yoke_trainer_destroy(t);

    o.reproducible = YOKE_REPRODUCIBLE_NO;
    t = trainer_of(&run, &o);
    /* A step of this net takes much less than 2 ms, unless other work holds it up: then nothing is
     * measured. */
    for (int tries = 0; !t->core_groups.known && tries < 20; tries++) {
        yoke_trainer_destroy(t);
        t = trainer_of(&run, &o);
    }
    ck_assert_int_eq(yoke_trainer_get_step(t), 0);
    ck_assert(t->core_groups.known && t->core_groups.seconds[0] > 0 &&
              t->core_groups.seconds[1] > 0);
    explain(t);
    ck_assert_msg(strstr(test_lines, "core groups: ") && strstr(test_lines, "ms a step, whole "),
                  "%s", test_lines);
    ASSERT_OK(team_read(t, &measured));
    yoke_trainer_destroy(t);
    o.core_groups = YOKE_CORE_GROUPS_NEVER;
    t = trainer_of(&run, &o);
    ck_assert_uint_eq(t->crew.count, 1);
    ASSERT_OK(team_read(t, &whole));
    ck_assert(team_same_bits(&measured, &whole)); /* the beginning is the same */
    team_free(&measured);
    team_free(&whole);
    yoke_trainer_destroy(t);

    o.core_groups = YOKE_CORE_GROUPS_MEASURE;
    for (int i = 0; i < 8; i++) {
        bool faster = i % 2, taken = faster && i != 5 && i != 7;

        rewrite(run.wisdom, " device-whole ", "0.001000000");
        rewrite(run.wisdom, " device-lanes ", faster ? "0.000900000" : "0.000960000");
        o.precision = i / 2 == 1 ? "f32" : NULL; /* which is the same */
        o.reproducible = i / 2 == 1 ? YOKE_REPRODUCIBLE_RUNS : YOKE_REPRODUCIBLE_NO;
        o.shares = i / 2 == 2 ? "even" : NULL;
        o.level = i / 2 == 3 ? YOKE_PLAN_ESTIMATE : YOKE_PLAN_MEASURE;
        t = trainer_of(&run, &o);
        ck_assert_msg(t->crew.count == (taken ? 2 : 1), "row %d: %zu", i, t->crew.count);
        yoke_trainer_destroy(t);
    }
}
END_TEST

/* What the device may take is divided. */
START_TEST(core_groups_share_a_budget)
{
    team_run run = {.net = TEAM_CONV};
    yoke_trainer_options o;
    yoke_trainer *t;
    uint64_t full;

    NEED_CPU;
    run.selector = devices.selector;
    o = team_options(&run);
    o.core_groups = YOKE_CORE_GROUPS_ALWAYS;
    t = trainer_of(&run, &o);
    full = yki_plan_memory(t->crew.members[0].replica->training);
    yoke_trainer_destroy(t);
    o.recompute_bytes = 2 * full * 9 / 10;
    t = trainer_of(&run, &o);
    for (size_t k = 0; k < t->crew.count; k++)
        ck_assert_uint_le(yki_plan_memory(t->crew.members[k].replica->training), full * 9 / 10);
    yoke_trainer_destroy(t);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("core groups");
    TCase *tc = test_case(suite, "core groups");

    tcase_add_checked_fixture(tc, find_devices, leave_devices);
    tcase_add_loop_test(tc, core_groups_train_what_the_device_does, 0, YKI_COUNT(runs));
    tcase_add_test(tc, core_groups_are_one_device_to_see);
    tcase_add_test(tc, checkpoints_of_core_groups_go_on_without_them);
    tcase_add_test(tc, core_groups_keep_to_the_quota);
    tcase_add_test(tc, core_groups_share_a_budget);
    tcase_add_test(tc, core_groups_that_cannot_be_are_refused);
    tcase_add_test(tc, the_choice_is_kept_in_wisdom);
    return suite;
}

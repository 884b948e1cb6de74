/* SPDX-License-Identifier: Apache-2.0
 *
 * check_team_refusals.c - what teams, shares and trainers do not take: each a status and
 * a sentence; what is refused changes nothing, and nothing is lost by it.
 *
 * What a trainer refuses after its team has failed is in tests/faults/check_team_faults.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/runs.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 24, WIDTH = 12 };

static test_devices devices;
static yoke_device_info info[2];

static void
open_devices(void)
{
    ck_assert(team_find(TEST_AS_IS, &devices, info));
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

static const team_run run = {.shares = NULL, .net = TEAM_MLP};

static yoke_team *
make_team(void)
{
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    return team;
}

static uint64_t
memory_of(const yoke_team *team)
{
    uint64_t sum = 0;

    for (size_t k = 0; k < yoke_team_local_count(team); k++) {
        yoke_memory_usage usage;

        ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(team, k), &usage));
        sum += usage.used;
    }
    return sum;
}

/* ---- teams ---- */

START_TEST(teams)
{
    yoke_team *team = NULL;
    char twice[200];
    int64_t counts[2];

    ASSERT_INVALID(yoke_team_create(NULL, devices.selector, NULL, &team));
    ASSERT_INVALID(yoke_team_create(devices.context, devices.selector, NULL, NULL));
    snprintf(twice, sizeof twice, "%s,%s,%s", info[0].id, info[1].id, info[0].id);
    ASSERT_REFUSED(YOKE_ERROR_SELECTOR, "is there twice",
                   yoke_team_create(devices.context, twice, NULL, &team));
    ASSERT_REFUSED(YOKE_ERROR_SELECTOR, "", yoke_team_create(devices.context, "cpu:", NULL, &team));
    ASSERT_REFUSED(YOKE_ERROR_SELECTOR, "cpu:77",
                   yoke_team_create(devices.context, "cpu:77", NULL, &team));
    ck_assert_ptr_null(team);
    yoke_team_destroy(NULL);
    ck_assert_uint_eq(yoke_team_local_count(NULL), 0);
    ck_assert_uint_eq(yoke_team_count(NULL), 0);
    ck_assert_ptr_null(yoke_team_get_device(NULL, 0));
    ASSERT_INVALID(yoke_team_split(NULL, "even", 1, counts));
    team = make_team();
    ASSERT_INVALID(yoke_team_split(team, "even", 1, NULL));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "-1", yoke_team_split(team, "even", -1, counts));
    ck_assert_ptr_null(yoke_team_get_device(team, 2));
    yoke_team_destroy(team);
}
END_TEST

/* Arrays of another context, of the same device by name. */
START_TEST(devices_of_two_contexts)
{
    const int64_t counts[2] = {2, 2};
    yoke_array *here[2], *mixed[2];
    yoke_team *team = make_team(), *other;
    yoke_context *context;
    float rows[4] = {0};

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_team_create(context, devices.selector, NULL, &other));
    for (size_t k = 0; k < 2; k++)
        ASSERT_OK(yoke_array_create(yoke_team_get_device(team, k), YOKE_F32, 4, &here[k]));
    mixed[0] = here[0];
    ASSERT_OK(yoke_array_create(yoke_team_get_device(other, 1), YOKE_F32, 4, &mixed[1]));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "array 1 is not on device 1",
                   yoke_team_scatter(team, counts, 1, rows, mixed));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "array 1 is not on device 1",
                   yoke_team_gather(team, counts, 1, mixed, rows));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "array 1 is not on device 1",
                   yoke_team_allreduce(team, mixed, 1));
    ASSERT_OK(yoke_team_allreduce(team, here, 1));
    yoke_array_destroy(mixed[1]);
    for (size_t k = 0; k < 2; k++)
        yoke_array_destroy(here[k]);
    yoke_team_destroy(other);
    yoke_context_destroy(context);
    yoke_team_destroy(team);
}
END_TEST

/* ---- shares ---- */

static const struct {
    const char *shares, *detail;
} bad_shares[] = {
    {"0,0", "every weight is zero"},
    {"0.0,0", "every weight is zero"},
    {"-1,2", "negative"},
    {"2,-1", "negative"},
    {"1", "have 1 weight, and the team has 2 devices"},
    {"1,2,3", "has 2 devices"},
    {"nan,1", "list of numbers"},
    {"inf,1", "list of numbers"},
    {"1e9,1", "list of numbers"},
    {"", "list of numbers"},
    {"1,", "list of numbers"},
    {",1", "list of numbers"},
    {"80;20", "list of numbers"},
    {"evenly", "list of numbers"},
    {"12345678901234567890,1", "list of numbers"},
};

START_TEST(shares)
{
    yoke_team *team = make_team();
    yoke_trainer_options o = team_options(&run);
    yoke_graph *g = team_graph(run.net);
    int64_t before[2], after[2], counts[2] = {7, 7};
    uint64_t memory = memory_of(team);
    yoke_trainer *t = NULL;

    for (size_t i = 0; i < YKI_COUNT(bad_shares); i++) {
        o.shares = bad_shares[i].shares;
        ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, bad_shares[i].detail,
                       yoke_trainer_create(team, g, &o, &t));
        ck_assert_ptr_null(t);
        ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, bad_shares[i].detail,
                       yoke_team_split(team, o.shares, 10, counts));
        ck_assert(counts[0] == 7 && counts[1] == 7);
    }
    ck_assert_uint_eq(memory_of(team), memory);
    o.shares = NULL;
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    ASSERT_OK(yoke_trainer_set_shares(t, "3,1"));
    ASSERT_OK(yoke_trainer_get_shares(t, before, 2));
    for (size_t i = 0; i < YKI_COUNT(bad_shares); i++)
        ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, bad_shares[i].detail,
                       yoke_trainer_set_shares(t, bad_shares[i].shares));
    ASSERT_INVALID(yoke_trainer_set_shares(t, NULL));
    ASSERT_INVALID(yoke_trainer_set_shares(NULL, "even"));
    ASSERT_OK(yoke_trainer_get_shares(t, after, 2));
    ck_assert_mem_eq(after, before, sizeof after);
    ASSERT_REFUSED(YOKE_ERROR_SHAPE,
                   "the number of counts is 3; must be 2, one for each device of the team",
                   yoke_trainer_get_shares(t, after, 3));
    ASSERT_INVALID(yoke_trainer_get_shares(t, NULL, 2));
    ASSERT_OK(team_step(&run, t, 0, NULL));
    yoke_trainer_destroy(t);
    ck_assert_uint_eq(memory_of(team), memory);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
}
END_TEST

/* ---- making a trainer ---- */

START_TEST(trainers)
{
    yoke_team *team = make_team();
    yoke_trainer_options good = team_options(&run), o;
    yoke_graph *g = team_graph(run.net), *lossless;
    uint64_t memory = memory_of(team);
    yoke_trainer *t = NULL;

    ASSERT_INVALID(yoke_trainer_create(NULL, g, &good, &t));
    ASSERT_INVALID(yoke_trainer_create(team, NULL, &good, &t));
    ASSERT_INVALID(yoke_trainer_create(team, g, &good, NULL));
    for (int i = 0; i < 2; i++) {
        o = good;
        o.batch = (int64_t[]){-1, INT64_MAX}[i];
        ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "; must be between 0 and 2147483647",
                       yoke_trainer_create(team, g, &o, &t));
    }
    o = good;
    o.accumulate = UINT32_MAX;
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT,
                   "accumulate is 4294967295; must be between 0 and 65536",
                   yoke_trainer_create(team, g, &o, &t));
    o = good;
    o.optimizer = yoke_sgd(NAN, 0);
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "learning rate",
                   yoke_trainer_create(team, g, &o, &t));
    o = good;
    o.clip_norm = -1;
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "clip_norm", yoke_trainer_create(team, g, &o, &t));
    o = good;
    o.level = (yoke_plan_level)7;
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "level", yoke_trainer_create(team, g, &o, &t));
    ASSERT_OK(yoke_graph_create(&lossless));
    yoke_input(lossless, "x", YOKE_F32, yoke_shape(2));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "no loss", yoke_trainer_create(team, lossless, &good, &t));
    yoke_graph_destroy(lossless);
    ck_assert_ptr_null(t);
    yoke_trainer_destroy(NULL);
    yoke_graph_destroy(g);
    ck_assert_uint_eq(memory_of(team), memory);
    yoke_team_destroy(team);
}
END_TEST

/* Memory of the host that runs out somewhere on the way: nothing is kept on a device. */
START_TEST(trainers_without_memory)
{
    yoke_team *team = make_team();
    yoke_trainer_options o = team_options(&run);
    uint64_t memory = memory_of(team);
    yoke_trainer *t = NULL;
    uint64_t tried = 0;

    if (devices.slow)
        TEST_NOT_HERE("simulated");
    for (uint64_t n = 1; !t; n += 1 + n / 3) {
        yoke_graph *g = team_graph(run.net);
        yoke_status status;

        yki_alloc_fail_at(n);
        status = yoke_trainer_create(team, g, &o, &t);
        yki_alloc_fail_at(0);
        yoke_graph_destroy(g);
        tried++;
        if (status == YOKE_OK)
            break;
        ck_assert_msg(status == YOKE_ERROR_OUT_OF_MEMORY, "allocation %d: %s: %s", (int)n,
                      yoke_status_name(status), yoke_last_error());
        ck_assert_ptr_null(t);
        ck_assert_uint_eq(memory_of(team), memory);
    }
    ck_assert_uint_gt(tried, 10);
    ASSERT_OK(team_step(&run, t, 0, NULL));
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
}
END_TEST

/* ---- using one ---- */

START_TEST(nothing_takes_null)
{
    yoke_trainer *t = team_trainer(devices.context, &(team_run){.selector = devices.selector});
    float f[1] = {0};
    yoke_result result;

    ASSERT_INVALID(yoke_trainer_step(NULL, 0, NULL, 0, NULL));
    ASSERT_INVALID(yoke_trainer_step(t, 1, NULL, 2, NULL));
    ASSERT_INVALID(yoke_trainer_evaluate(NULL, NULL, &result));
    ASSERT_INVALID(yoke_trainer_evaluate(t, NULL, &result));
    ASSERT_INVALID(yoke_trainer_predict(NULL, "y", 0, NULL, 0, NULL, 0));
    ASSERT_INVALID(yoke_trainer_predict(t, NULL, 0, NULL, 0, NULL, 0));
    ASSERT_INVALID(yoke_trainer_fit(NULL, NULL, NULL, NULL));
    ASSERT_INVALID(yoke_trainer_fit(t, NULL, NULL, NULL));
    ASSERT_INVALID(yoke_trainer_wait(NULL));
    ASSERT_INVALID(yoke_trainer_initialize(NULL, 1));
    ASSERT_INVALID(yoke_trainer_set_learning_rate(NULL, 1));
    ASSERT_INVALID(yoke_trainer_freeze(NULL, "*"));
    ASSERT_INVALID(yoke_trainer_freeze(t, NULL));
    ASSERT_INVALID(yoke_trainer_unfreeze(NULL, "*"));
    ASSERT_INVALID(yoke_trainer_unfreeze(t, NULL));
    ASSERT_INVALID(yoke_trainer_read(NULL, "dense1.bias", f, 1));
    ASSERT_INVALID(yoke_trainer_read(t, NULL, f, 1));
    ASSERT_INVALID(yoke_trainer_read(t, "dense1.bias", NULL, 1));
    ASSERT_INVALID(yoke_trainer_write(NULL, "dense1.bias", f, 1));
    ASSERT_INVALID(yoke_trainer_write(t, NULL, f, 1));
    ASSERT_INVALID(yoke_trainer_write(t, "dense1.bias", NULL, 1));
    ASSERT_INVALID(yoke_trainer_save(NULL, "x"));
    ASSERT_INVALID(yoke_trainer_save(t, NULL));
    ASSERT_INVALID(yoke_trainer_explain(NULL, test_drop_line, NULL));
    ASSERT_INVALID(yoke_trainer_print_plan(NULL, test_drop_line, NULL));
    ASSERT_INVALID(yoke_trainer_explain(t, NULL, NULL));
    yoke_trainer_request_stop(NULL);
    yoke_trainer_request_save(NULL);
    ck_assert_uint_eq(yoke_trainer_epoch_count(NULL), 0);
    ASSERT_OK(team_step(&run, t, 0, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(names_counts_and_numbers)
{
    yoke_trainer *t = team_trainer(devices.context, &(team_run){.selector = devices.selector});
    float f[64] = {0};

    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "dense9.bias", yoke_trainer_read(t, "dense9.bias", f, 1));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "dense9.bias", yoke_trainer_write(t, "dense9.bias", f, 1));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "; did you mean \"dense1.bias\"?",
                   yoke_trainer_read(t, "dense1.bais", f, 1));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "23", yoke_trainer_read(t, "dense1.bias", f, 23));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "25", yoke_trainer_write(t, "dense1.bias", f, 25));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "conv*", yoke_trainer_freeze(t, "conv*"));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "the learning rate is -1; must be at least 0",
                   yoke_trainer_set_learning_rate(t, -1));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "nan", yoke_trainer_set_learning_rate(t, NAN));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "inf", yoke_trainer_set_learning_rate(t, INFINITY));
    ASSERT_REFUSED(YOKE_ERROR_IO, "/nowhere", yoke_trainer_save(t, "/nowhere/model.safetensors"));
    ASSERT_OK(team_step(&run, t, 0, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    yoke_trainer_destroy(t);
}
END_TEST

/* What is given to a step or a prediction; the trainer works on, with its old weights. */
START_TEST(data)
{
    static float x[(BATCH + 1) * WIDTH], y[BATCH * TEAM_CLASSES];
    static int32_t labels[BATCH + 1], wrong[BATCH + 1] = {[3] = TEAM_CLASSES};
    const yoke_feed good[2] = {yoke_feed_f32("x", x, 4 * WIDTH),
                               yoke_feed_i32("target", labels, 4)};
    const yoke_feed unknown[2] = {yoke_feed_f32("z", x, 4 * WIDTH), good[1]};
    const yoke_feed empty[2] = {yoke_feed_f32("x", NULL, 4 * WIDTH), good[1]};
    const yoke_feed beyond[2] = {good[0], yoke_feed_i32("target", wrong, 4)};
    const yoke_feed nameless[2] = {yoke_feed_f32(NULL, x, 4 * WIDTH), good[1]};
    const struct {
        yoke_status status;
        const char *detail;
        int64_t n;
        const yoke_feed *feeds;
        size_t count;
    } steps[] = {
        {YOKE_ERROR_INVALID_ARGUMENT, "25 samples", BATCH + 1, good, 2},
        {YOKE_ERROR_INVALID_ARGUMENT, "-1 samples", -1, good, 2},
        {YOKE_ERROR_NOT_FOUND, "\"target\"", 4, good, 1},
        {YOKE_ERROR_NOT_FOUND, "\"z\"", 4, unknown, 2},
        {YOKE_ERROR_INVALID_ARGUMENT, "the data of feed \"x\" is NULL", 4, empty, 2},
        {YOKE_ERROR_INVALID_ARGUMENT, "feed 0", 4, nameless, 2},
        {YOKE_ERROR_VALUE, "sample 3", 4, beyond, 2},
        {YOKE_ERROR_STATE, "nothing is given", 4, NULL, 0},
    };
    yoke_trainer *t = team_trainer(devices.context, &(team_run){.selector = devices.selector});
    team_outcome before, after;
    yoke_result result;

    ASSERT_OK(team_read(t, &before));
    for (size_t i = 0; i < YKI_COUNT(steps); i++)
        ASSERT_REFUSED(steps[i].status, steps[i].detail,
                       yoke_trainer_step(t, steps[i].n, steps[i].feeds, steps[i].count, &result));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "\"z\"",
                   yoke_trainer_predict(t, "y", 4, unknown, 1, y, 4 * TEAM_CLASSES));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "\"x\"",
                   yoke_trainer_predict(t, "y", 4, good + 1, 1, y, 4 * TEAM_CLASSES));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "the data of feed \"x\" is NULL",
                   yoke_trainer_predict(t, "y", 4, empty, 1, y, 4 * TEAM_CLASSES));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "\"w\"",
                   yoke_trainer_predict(t, "w", 4, good, 1, y, 4 * TEAM_CLASSES));
    ASSERT_INVALID(yoke_trainer_predict(t, "y", 4, good, 1, NULL, 4 * TEAM_CLASSES));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "the number of values is 15; must be 20 for 4 samples",
                   yoke_trainer_predict(t, "y", 4, good, 1, y, 3 * TEAM_CLASSES));
    ASSERT_OK(team_read(t, &after));
    ck_assert(team_same_bits(&after, &before));
    ck_assert_int_eq(yoke_trainer_get_step(t), 0);
    /* Fewer samples than devices, and none, are no mistake. */
    for (int64_t n = 2; n-- > 0;) {
        const yoke_feed few[2] = {yoke_feed_f32("x", x, n * WIDTH),
                                  yoke_feed_i32("target", labels, n)};

        ASSERT_OK(yoke_trainer_step(t, n, few, 2, &result));
        ck_assert_double_eq(result.count, (double)n);
    }
    ASSERT_OK(yoke_trainer_predict(t, "y", 4, good, 1, y, 4 * TEAM_CLASSES));
    team_free(&before);
    team_free(&after);
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(datasets)
{
    static float x[4 * WIDTH];
    static int32_t labels[4] = {0, 1, TEAM_CLASSES, 2};
    const yoke_field fields[] = {
        {.name = "x", .type = YOKE_F32, .shape = yoke_shape(WIDTH), .data = x},
        {.name = "target", .type = YOKE_I32, .shape = yoke_shape(), .data = labels},
        {.name = "x", .type = YOKE_F32, .shape = yoke_shape(WIDTH - 1), .data = x},
    };
    yoke_trainer *t = team_trainer(devices.context, &(team_run){.selector = devices.selector});
    yoke_dataset *lacking, *wrong, *narrow;
    yoke_result result;

    ASSERT_OK(yoke_dataset_create(4, fields, 1, NULL, &lacking));
    ASSERT_OK(yoke_dataset_create(4, fields, 2, NULL, &wrong));
    ASSERT_OK(yoke_dataset_create(4, fields + 1, 2, NULL, &narrow));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "target", yoke_trainer_evaluate(t, lacking, &result));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "target", yoke_trainer_fit(t, lacking, NULL, NULL));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "sample 2", yoke_trainer_evaluate(t, wrong, &result));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "sample 2", yoke_trainer_fit(t, wrong, NULL, NULL));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "x", yoke_trainer_fit(t, narrow, NULL, NULL));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT,
                   "yoke_trainer_fit: epochs is -2; must be at least 0",
                   yoke_trainer_fit(t, lacking, NULL, &(yoke_fit_options){.epochs = -2}));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "checkpoint_dir",
                   yoke_trainer_fit(t, lacking, NULL, &(yoke_fit_options){.resume = true}));
    ASSERT_OK(team_step(&run, t, 0, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    ck_assert_int_eq(yoke_trainer_get_step(t), 1);
    yoke_dataset_destroy(lacking);
    yoke_dataset_destroy(wrong);
    yoke_dataset_destroy(narrow);
    yoke_trainer_destroy(t);
}
END_TEST

/* Children hold their parents: team, graph and context may go first. */
START_TEST(order_of_destruction)
{
    yoke_context *context;
    yoke_team *team;
    yoke_trainer_options o = team_options(&run);
    yoke_graph *g = team_graph(run.net);
    yoke_trainer *t, *second;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_team_create(context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &second)); /* of the same team and graph */
    yoke_context_destroy(context);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    ASSERT_OK(team_step(&run, t, 0, NULL));
    yoke_trainer_destroy(t); /* with a step under way */
    ASSERT_OK(team_step(&run, second, 0, NULL));
    ASSERT_OK(yoke_trainer_set_shares(second, "1,3"));
    ASSERT_OK(team_step(&run, second, 1, NULL));
    yoke_trainer_destroy(second);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("refusals of a team");
    TCase *tc = test_case(suite, "refusals");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, teams);
    tcase_add_test(tc, devices_of_two_contexts);
    tcase_add_test(tc, shares);
    tcase_add_test(tc, trainers);
    tcase_add_test(tc, trainers_without_memory);
    tcase_add_test(tc, nothing_takes_null);
    tcase_add_test(tc, names_counts_and_numbers);
    tcase_add_test(tc, data);
    tcase_add_test(tc, datasets);
    tcase_add_test(tc, order_of_destruction);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_team_results.c - what a team reports: evaluation counts every sample once,
 * predictions come in the samples' order, losses are means over what counts; and what
 * may change in mid-run: shares, learning rate, frozen parameters, initial values.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/runs.h"

TESTS_SHARE_A_PROCESS

static test_devices devices;

static void
open_devices(void)
{
    ck_assert(team_find(TEST_AS_IS, &devices, NULL));
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

enum { WIDTH = 12, EVALUATED = 61 };

/* Loss and accuracy over samples, in double from the network's outputs; the metric counts every
 * sample, and hits none with a label that the loss ignores. */
static void
expected(const float *y, const int32_t *labels, int64_t n, yoke_result *result)
{
    memset(result, 0, sizeof *result);
    for (int64_t i = 0; i < n; i++) {
        const float *row = y + i * TEAM_CLASSES;
        double sum = 0;
        int best = 0;

        if (labels[i] == TEAM_IGNORED)
            continue;
        for (int c = 0; c < TEAM_CLASSES; c++) {
            sum += exp((double)row[c]);
            best = row[c] > row[best] ? c : best;
        }
        result->loss += log(sum) - (double)row[labels[i]];
        result->metrics[0] += best == labels[i];
        result->count++;
    }
    result->loss /= result->count;
}

/* Batches of 24 over a data set of 61: no padding, no remainder dropped, ignored labels left out.
 */
START_TEST(evaluation_counts_every_sample_once)
{
    static const char *const shares[] = {"even", "80,20", "1,0", NULL};
    static float y[EVALUATED * TEAM_CLASSES];

    for (size_t i = 0; i < YKI_COUNT(shares); i++)
        for (int64_t n = EVALUATED; n > 0; n = n == EVALUATED ? 24 : n == 24 ? 1 : 0) {
            team_run run = {.selector = devices.selector,
                            .shares = shares[i],
                            .ignored = i % 2 ? TEAM_FIRST_IGNORED : TEAM_NONE_IGNORED};
            yoke_trainer *t = team_trainer(devices.context, &run);
            yoke_dataset *dataset = team_dataset(&run, 100, n);
            yoke_feed feeds[2];
            yoke_result result, wanted;

            ASSERT_OK(team_step(&run, t, 0, NULL));
            team_feeds(&run, 100, n, feeds);
            ASSERT_OK(yoke_trainer_predict(t, "y", n, feeds, 1, y, (size_t)n * TEAM_CLASSES));
            ASSERT_OK(yoke_trainer_evaluate(t, dataset, &result));
            expected(y, (const int32_t *)feeds[1].data, n, &wanted);
            ck_assert_int_eq(result.samples, n);
            ck_assert_int_eq(result.step, 1);
            ck_assert_double_eq(result.count, wanted.count);
            ck_assert_uint_eq(result.metric_count, 1);
            if (wanted.count > 0) {
                ck_assert_double_eq_tol(result.loss, wanted.loss, 1e-5 * wanted.loss);
                ck_assert_double_eq_tol(result.metrics[0], wanted.metrics[0] / (double)n, 1e-12);
            }
            yoke_dataset_destroy(dataset);
            yoke_trainer_destroy(t);
        }
}
END_TEST

/* Five steps, with two to which nothing counts in their midst: all labels ignored, and no sample.
 */
static void
train_with_gap(team_run run, bool gap, team_outcome *outcome)
{
    yoke_trainer *t = team_trainer(devices.context, &run);
    team_outcome before, after;

    for (int i = 0; i < 3; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    for (int i = 0; gap && i < 2; i++) {
        int64_t n = i == 0 ? 24 : 0;
        team_run empty = run;
        yoke_feed feeds[2];
        yoke_result result;

        empty.ignored = TEAM_ALL_IGNORED;
        ASSERT_OK(team_read(t, &before));
        team_feeds(&empty, 0, n, feeds);
        ASSERT_OK(yoke_trainer_step(t, n, feeds, 2, &result));
        ck_assert_double_eq(result.count, 0);
        ck_assert_int_eq(result.step, 4 + i); /* it has its number all the same */
        ASSERT_OK(team_read(t, &after));
        ck_assert(team_same_bits(&before, &after));
        team_free(&before);
        team_free(&after);
    }
    for (int i = 3; i < 5; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    ASSERT_OK(team_read(t, outcome));
    yoke_trainer_destroy(t);
}

/* A step to which no sample counts moves neither weights, by momentum or decay, nor the state of
 * the optimizer: without it what comes after is the same, bit by bit. */
START_TEST(steps_of_nothing_change_nothing)
{
    static const team_net nets[] = {TEAM_MLP, TEAM_CONV};
    static const char *const shares[] = {"even", "1,0"};

    for (int i = 0; i < 8; i++) {
        team_run run = {.selector = devices.selector,
                        .shares = shares[i / 2 % 2],
                        .net = nets[i % 2],
                        .clip_norm = i < 4 ? 0 : 0.5f,
                        .optimizer = yoke_sgd(0.1f, 0.9f)};
        team_outcome with, without;

        run.optimizer.weight_decay = 0.1f;
        train_with_gap(run, true, &with);
        train_with_gap(run, false, &without);
        ck_assert_msg(team_same_bits(&with, &without), "case %d", i);
        team_free(&with);
        team_free(&without);
    }
}
END_TEST

/* More samples than a batch, in order, the same as one device gives. */
START_TEST(predictions_keep_the_order)
{
    enum { N = 61 };
    static float team[N * TEAM_CLASSES], one[N * TEAM_CLASSES];
    team_run run = {.selector = devices.selector, .shares = "80,20"};
    yoke_feed feeds[2];
    yoke_trainer *t = team_trainer(devices.context, &run);

    team_feeds(&run, 7, N, feeds);
    ASSERT_OK(yoke_trainer_predict(t, "y", N, feeds, 1, team, N * TEAM_CLASSES));
    for (int64_t i = 0; i < N; i++) {
        yoke_feed row = yoke_feed_f32("x", (const float *)feeds[0].data + i * WIDTH, WIDTH);

        ASSERT_OK(yoke_trainer_predict(t, "y", 1, &row, 1, one + i * TEAM_CLASSES, TEAM_CLASSES));
    }
    for (int64_t i = 0; i < N * TEAM_CLASSES; i++)
        ck_assert_float_eq_tol(team[i], one[i], 1e-5f);
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND,
                  yoke_trainer_predict(t, "z", N, feeds, 1, team, N * TEAM_CLASSES));
    ASSERT_STATUS(YOKE_ERROR_SHAPE,
                  yoke_trainer_predict(t, "y", N, feeds, 1, team, N * TEAM_CLASSES - 1));
    yoke_trainer_destroy(t);
}
END_TEST

/* The result of a step: the mean over what counts in the whole batch, before the update. */
START_TEST(losses_are_means_over_the_batch)
{
    enum { N = 24 };
    static float y[N * TEAM_CLASSES];
    team_run run = {.selector = devices.selector, .shares = "80,20", .ignored = TEAM_FIRST_IGNORED};
    yoke_trainer *t = team_trainer(devices.context, &run);

    for (int i = 0; i < 4; i++) {
        yoke_feed feeds[2];
        yoke_result result, wanted;

        team_feeds(&run, i * N, N, feeds);
        ASSERT_OK(yoke_trainer_predict(t, "y", N, feeds, 1, y, N * TEAM_CLASSES));
        ASSERT_OK(team_step(&run, t, i, &result));
        expected(y, (const int32_t *)feeds[1].data, N, &wanted);
        ck_assert_double_eq_tol(result.loss, wanted.loss, 1e-5 * wanted.loss);
        ck_assert_double_eq(result.count, wanted.count);
        ck_assert_int_eq(result.samples, N);
        ck_assert_int_eq(result.step, i + 1);
        ck_assert_int_eq(yoke_trainer_get_step(t), i + 1);
    }
    yoke_trainer_destroy(t);
}
END_TEST

/* Shares moved in mid-run, back and forth: the weights are those of one split. */
START_TEST(shares_move_and_nothing_changes)
{
    static const char *const moves[] = {"even", "80,20", "auto", "1,0", "0,1", "99,1"};
    team_run run = {.selector = devices.selector, .shares = "even", .net = TEAM_CONV, .last = 7};
    team_outcome still, moved;
    yoke_trainer *t;
    int64_t counts[2];

    team_train(devices.context, &run, &still);
    run.shares = NULL; /* plans for any split; given shares are planned for what they need */
    t = team_trainer(devices.context, &run);
    for (int i = 0; i < TEAM_STEPS; i++) {
        yoke_result result;

        ASSERT_OK(yoke_trainer_set_shares(t, moves[(size_t)i % YKI_COUNT(moves)]));
        ASSERT_OK(team_step(&run, t, i, &result));
        moved.loss = result.loss;
    }
    ASSERT_OK(yoke_trainer_get_shares(t, counts, 2));
    ck_assert_int_eq(counts[0] + counts[1], 24);
    {
        double loss = moved.loss;

        ASSERT_OK(team_read(t, &moved));
        moved.loss = loss;
    }
    team_assert_near(&moved, &still, "shares that move");
    team_free(&moved);
    team_free(&still);
    yoke_trainer_destroy(t);
}
END_TEST

/* Initialised anew with the same seed, a trainer does the same again; with another, another. */
START_TEST(initialize_starts_again)
{
    team_run run = {.selector = devices.selector, .shares = "80,20", .net = TEAM_DROPOUT};
    team_outcome outcome[3];
    yoke_trainer *t;

    run.optimizer = yoke_adam(0.01f);
    t = team_trainer(devices.context, &run);
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            ASSERT_OK(yoke_trainer_initialize(t, i == 1 ? 1 : 2));
        ck_assert_int_eq(yoke_trainer_get_step(t), 0);
        for (int j = 0; j < 6; j++)
            ASSERT_OK(team_step(&run, t, j, NULL));
        ASSERT_OK(team_read(t, &outcome[i]));
    }
    ck_assert(team_same_bits(&outcome[1], &outcome[0]));
    ck_assert(!team_same_bits(&outcome[2], &outcome[0]));
    for (int i = 0; i < 3; i++)
        team_free(&outcome[i]);
    yoke_trainer_destroy(t);
}
END_TEST

/* What an optimizer that is all zero stands for is what a checkpoint keeps. */
START_TEST(a_rate_that_nobody_gave)
{
    team_run run = {.selector = devices.selector};
    yoke_trainer_options o = team_options(&run);
    yoke_graph *g = team_graph(run.net);
    yoke_trainer *t;
    yoke_team *team;

    o.optimizer = (yoke_optimizer){0};
    ASSERT_OK(yoke_team_create(devices.context, run.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    ck_assert(yoke_trainer_get_learning_rate(t) == 0.01f);
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}
END_TEST

/* The caller's array of groups may go once the trainer is made; freezing treats parameters anew. */
START_TEST(groups_are_copied)
{
    team_run run = {.selector = devices.selector};
    yoke_trainer_options o = team_options(&run);
    char pattern[] = "*.weight";
    yoke_parameter_group group = {.pattern = pattern, .learning_rate_scale = 1e-30f};
    yoke_graph *g = team_graph(run.net);
    team_outcome before, after;
    yoke_trainer *t;
    yoke_team *team;

    o.groups = &group;
    o.group_count = 1;
    ASSERT_OK(yoke_team_create(devices.context, run.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_team_destroy(team);
    memset(pattern, 'x', sizeof pattern - 1);
    memset(&group, 0xff, sizeof group);
    ASSERT_OK(yoke_trainer_freeze(t, "dense1.bias"));
    ASSERT_OK(team_read(t, &before));
    ASSERT_OK(team_step(&run, t, 0, NULL));
    ASSERT_OK(team_read(t, &after));
    for (size_t i = 0; i < before.tensors; i++) {
        bool moves = strstr(after.name[i], ".bias") && strcmp(after.name[i], "dense1.bias") != 0;

        ck_assert_msg((memcmp(after.values[i], before.values[i], 4 * after.count[i]) != 0) == moves,
                      "%s %s", after.name[i], moves ? "stays" : "moves");
    }
    team_free(&before);
    team_free(&after);
    yoke_trainer_destroy(t);
    yoke_graph_destroy(g);
}
END_TEST

/* A learning rate of 0 stops the weights; a frozen parameter stays while the others move. */
START_TEST(rate_and_freezing_in_mid_run)
{
    team_run run = {.selector = devices.selector, .shares = "80,20"};
    team_outcome before, after;
    yoke_trainer *t = team_trainer(devices.context, &run);

    ASSERT_OK(team_step(&run, t, 0, NULL));
    ASSERT_OK(team_read(t, &before));
    ASSERT_OK(yoke_trainer_set_learning_rate(t, 0));
    ASSERT_OK(team_step(&run, t, 1, NULL));
    ASSERT_OK(team_read(t, &after));
    ck_assert(team_same_bits(&after, &before));
    team_free(&after);
    ASSERT_OK(yoke_trainer_set_learning_rate(t, 0.1f));
    ck_assert(yoke_trainer_get_learning_rate(t) == 0.1f);
    ASSERT_OK(yoke_trainer_freeze(t, before.name[0]));
    ASSERT_OK(team_step(&run, t, 2, NULL));
    ASSERT_OK(team_read(t, &after));
    for (size_t i = 0; i < before.tensors; i++)
        ck_assert_msg((memcmp(after.values[i], before.values[i], 4 * after.count[i]) == 0) ==
                          (i == 0),
                      "%s %s", after.name[i], i ? "stays" : "moves");
    team_free(&after);
    ASSERT_OK(yoke_trainer_unfreeze(t, before.name[0]));
    ASSERT_OK(team_step(&run, t, 3, NULL));
    ASSERT_OK(team_read(t, &after));
    ck_assert(memcmp(after.values[0], before.values[0], 4 * after.count[0]) != 0);
    team_free(&after);
    team_free(&before);
    yoke_trainer_destroy(t);
}
END_TEST

/* Trained with clipping, the first layer frozen from the start or in mid-run. */
static void
train_frozen(const team_run *run, bool in_mid_run, team_outcome *outcome)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g = team_graph(run->net);
    yoke_trainer *t;
    yoke_team *team;

    if (!in_mid_run)
        ASSERT_OK(yoke_graph_freeze(g, "dense1.*"));
    ASSERT_OK(yoke_team_create(devices.context, run->selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    if (in_mid_run)
        ASSERT_OK(yoke_trainer_freeze(t, "dense1.*"));
    for (int i = 0; i < 5; i++)
        ASSERT_OK(team_step(run, t, i, NULL));
    ASSERT_OK(team_read(t, outcome));
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

/* What is frozen in mid-run is no part of the norm that gradients are clipped by. Buckets of one
 * parameter each and one bucket of all; whole steps and steps of two parts; a team and one device.
 */
START_TEST(frozen_parameters_are_no_part_of_the_norm)
{
    char one[sizeof devices.selector];

    snprintf(one, sizeof one, "%.*s", (int)strcspn(devices.selector, "/,"), devices.selector);
    for (int i = 0; i < 8; i++) {
        const team_run run = {.selector = i & 1 ? one : devices.selector,
                              .clip_norm = 0.05f,
                              .bucket_bytes = i & 2 ? 512 : 0,
                              .accumulate = i & 4 ? 2 : 1};
        team_outcome from_start, in_mid_run;

        train_frozen(&run, false, &from_start);
        train_frozen(&run, true, &in_mid_run);
        team_assert_near(&in_mid_run, &from_start, run.selector);
        team_free(&from_start);
        team_free(&in_mid_run);
    }
}
END_TEST

/* What is written by name reaches every device: the next steps are those of the writer. */
START_TEST(written_weights_reach_every_device)
{
    team_run run = {.selector = devices.selector, .shares = "even", .seed = 5};
    team_outcome a, b;
    yoke_trainer *first = team_trainer(devices.context, &run), *second;

    for (int i = 0; i < 3; i++)
        ASSERT_OK(team_step(&run, first, i, NULL));
    ASSERT_OK(team_read(first, &a));
    run.seed = 6;
    second = team_trainer(devices.context, &run);
    for (size_t i = 0; i < a.tensors; i++)
        ASSERT_OK(yoke_trainer_write(second, a.name[i], a.values[i], a.count[i]));
    team_free(&a);
    for (int i = 3; i < 8; i++) {
        ASSERT_OK(team_step(&run, first, i, NULL));
        ASSERT_OK(team_step(&run, second, i, NULL));
    }
    ASSERT_OK(team_read(first, &a));
    ASSERT_OK(team_read(second, &b));
    ck_assert(team_same_bits(&b, &a));
    team_free(&a);
    team_free(&b);
    yoke_trainer_destroy(first);
    yoke_trainer_destroy(second);
}
END_TEST

/* Each device is there, with its share. */
START_TEST(explain_names_every_device)
{
    team_run run = {.selector = devices.selector, .shares = "80,20"};
    yoke_trainer *t = team_trainer(devices.context, &run);
    yoke_team *team;

    for (int i = 0; i < 5; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
    ASSERT_OK(yoke_team_create(devices.context, run.selector, NULL, &team));
    for (size_t k = 0; k < yoke_team_local_count(team); k++) {
        yoke_device_info info;

        ASSERT_OK(yoke_device_get_info(yoke_team_get_device(team, k), &info));
        ck_assert_msg(strstr(test_lines, info.id) != NULL, "no %s in\n%s", info.id, test_lines);
    }
    ck_assert_msg(strstr(test_lines, "19") && strstr(test_lines, "memory of"), "%s", test_lines);
    yoke_team_destroy(team);
    yoke_trainer_destroy(t);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("results of a team");
    TCase *tc = test_case(suite, "results");

    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, evaluation_counts_every_sample_once);
    tcase_add_test(tc, steps_of_nothing_change_nothing);
    tcase_add_test(tc, predictions_keep_the_order);
    tcase_add_test(tc, losses_are_means_over_the_batch);
    tcase_add_test(tc, explain_names_every_device);
    tc = test_case(suite, "in mid-run");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, shares_move_and_nothing_changes);
    tcase_add_test(tc, initialize_starts_again);
    tcase_add_test(tc, a_rate_that_nobody_gave);
    tcase_add_test(tc, rate_and_freezing_in_mid_run);
    tcase_add_test(tc, groups_are_copied);
    tcase_add_test(tc, frozen_parameters_are_no_part_of_the_norm);
    tcase_add_test(tc, written_weights_reach_every_device);
    return suite;
}

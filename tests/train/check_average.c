/* SPDX-License-Identifier: Apache-2.0
 *
 * check_average.c - the moving average of the weights: its bits follow from those of the weights
 * after each step, on one device and on a team; evaluations and files have it, and training goes on
 * as without it, from a checkpoint too.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scratch.h"
#include "train/runs.h"

enum { STEPS = 6 };
static const float DECAY = 0.6f; /* which n / (n + 9) passes at step 14, and a resumed run at 15 */

static test_devices devices;

static void
open_devices(void)
{
    scratch_set_up();
    ck_assert(team_find(TEST_AS_IS, &devices, NULL));
}

static void
close_devices(void)
{
    test_devices_close(&devices);
    scratch_tear_down();
}

/* From the weights after step `n`, counted from 0. */
static void
add_to_average(team_outcome *average, const team_outcome *weights, int n, float decay)
{
    const float d = fminf(decay, (float)n / ((float)n + 9));

    for (size_t i = 0; i < weights->tensors; i++)
        for (size_t k = 0; k < weights->count[i]; k++) {
            const float w = weights->values[i][k];
            float *a = &average->values[i][k];

            *a = n == 0 ? w : fmaf(d, *a - w, w);
        }
}

/* What a file has under these names. */
static void
read_file(const char *path, const team_outcome *like, team_outcome *out)
{
    yoke_model *model;

    ASSERT_OK(yoke_model_load(path, &model));
    *out = *like;
    for (size_t i = 0; i < like->tensors; i++) {
        out->values[i] = malloc(like->count[i] * sizeof(float));
        ASSERT_OK(yoke_model_read(model, like->name[i], out->values[i], (int64_t)like->count[i]));
    }
    yoke_model_destroy(model);
}

static void
expect_in_file(const char *path, const team_outcome *average, const char *what)
{
    team_outcome saved;

    read_file(path, average, &saved);
    ck_assert_msg(team_same_bits(&saved, average), "%s", what);
    team_free(&saved);
}

/* The loss of other weights than those that the trainer is at. */
static double
loss_with(yoke_trainer *t, const team_outcome *weights, yoke_dataset *data)
{
    yoke_result result;

    for (size_t i = 0; i < weights->tensors; i++)
        ASSERT_OK(yoke_trainer_write(t, weights->name[i], weights->values[i],
                                     (int64_t)weights->count[i]));
    ASSERT_OK(yoke_trainer_evaluate(t, data, &result));
    return result.loss;
}

static const team_run runs[] = {
    {.shares = "1,0", .net = TEAM_MLP},
    {.shares = "80,20", .net = TEAM_MLP, .last = 7, .clip_norm = 0.5f, .bucket_bytes = 512},
    {.shares = "even", .net = TEAM_MLP, .accumulate = 3, .ignored = TEAM_FIRST_IGNORED},
    {.shares = "80,20", .net = TEAM_REGRESSION},
};

START_TEST(the_average_follows_the_weights)
{
    const char *path = scratch_path("saved");
    team_run run = runs[_i];
    team_outcome weights, average, after;
    yoke_trainer *t, *plain;
    yoke_result with, step;

    run.selector = devices.selector;
    plain = team_trainer(devices.context, &run);
    run.average = DECAY;
    t = team_trainer(devices.context, &run);
    ASSERT_OK(team_read(t, &average));
    ASSERT_OK(yoke_trainer_save(t, path));
    expect_in_file(path, &average, "before the first step");
    for (int i = 0; i < STEPS; i++) {
        yoke_dataset *data;

        ASSERT_OK(team_step(&run, t, i, &step));
        ASSERT_OK(team_read(t, &weights));
        add_to_average(&average, &weights, i, DECAY);
        ASSERT_OK(yoke_trainer_save(t, path));
        expect_in_file(path, &average, "after a step");
        data = team_dataset(&run, 200, 30);
        ASSERT_OK(yoke_trainer_evaluate(t, data, &with));
        ck_assert_double_eq_tol(with.loss, loss_with(plain, &average, data), 1e-6 * with.loss);
        yoke_dataset_destroy(data);
        ASSERT_OK(team_read(t, &after));
        ck_assert_msg(team_same_bits(&after, &weights), "the weights are not what they were");
        team_free(&after);
        team_free(&weights);
    }
    team_free(&average);
    yoke_trainer_destroy(t);
    yoke_trainer_destroy(plain);
}
END_TEST

/* A step to which nothing counts changes no average. */
START_TEST(steps_of_nothing_change_no_average)
{
    const char *path = scratch_path("saved");
    team_run run = {.selector = devices.selector, .shares = "even", .average = DECAY};
    team_run empty = run;
    team_outcome weights, before;
    yoke_trainer *t = team_trainer(devices.context, &run);

    empty.ignored = TEAM_ALL_IGNORED;
    for (int i = 0; i < 3; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    ASSERT_OK(yoke_trainer_save(t, path));
    ASSERT_OK(team_read(t, &weights));
    read_file(path, &weights, &before);
    ck_assert(!team_same_bits(&before, &weights));
    ASSERT_OK(team_step(&empty, t, 3, NULL));
    ASSERT_OK(yoke_trainer_save(t, path));
    expect_in_file(path, &before, "a step of nothing");
    /* In the first step the average becomes the weights, whatever it was. */
    ASSERT_OK(yoke_trainer_initialize(t, 3));
    ASSERT_OK(team_step(&empty, t, 0, NULL));
    team_free(&weights);
    ASSERT_OK(team_read(t, &weights));
    ASSERT_OK(yoke_trainer_save(t, path));
    expect_in_file(path, &weights, "a first step of nothing");
    team_free(&weights);
    team_free(&before);
    yoke_trainer_destroy(t);
}
END_TEST

static bool
stop_at_five(void *user, const yoke_result *result)
{
    (void)user;
    return result->step == 5;
}

/* Trains 3 epochs of 4 steps, with an interruption in the midst of the second; the weights and what
 * a file has. */
static void
train_in_pieces(const char *dir, bool interrupt, team_outcome *weights, team_outcome *saved)
{
    const char *path = scratch_path("saved");
    team_run run = {.selector = devices.selector, .shares = "even", .average = DECAY};
    yoke_fit_options options = {.epochs = 3, .checkpoint_dir = dir, .resume = true};
    yoke_dataset *data = team_dataset(&run, 0, 96);
    yoke_trainer *t = team_trainer(devices.context, &run);

    if (interrupt) {
        options.on_step = stop_at_five;
        ASSERT_OK(yoke_trainer_fit(t, data, NULL, &options));
        ck_assert_int_lt(yoke_trainer_get_step(t), 8);
        yoke_trainer_destroy(t);
        t = team_trainer(devices.context, &run);
        options.on_step = NULL;
    }
    ASSERT_OK(yoke_trainer_fit(t, data, NULL, &options));
    ck_assert_int_eq(yoke_trainer_get_step(t), 12);
    ASSERT_OK(team_read(t, weights));
    ASSERT_OK(yoke_trainer_save(t, path));
    read_file(path, weights, saved);
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(data);
}

START_TEST(checkpoints_have_the_average)
{
    const char *whole = scratch_path("whole"), *pieces = scratch_path("pieces");
    team_outcome weights[2], saved[2];
    char path[4096];

    train_in_pieces(whole, false, &weights[0], &saved[0]);
    train_in_pieces(pieces, true, &weights[1], &saved[1]);
    ck_assert(team_same_bits(&weights[1], &weights[0]));
    ck_assert(team_same_bits(&saved[1], &saved[0]));
    ck_assert(!team_same_bits(&saved[0], &weights[0]));
    snprintf(path, sizeof path, "%s/checkpoint-000000000012.safetensors", pieces);
    expect_in_file(path, &saved[0], "a checkpoint is a file of averages");
    for (int i = 0; i < 2; i++) {
        team_free(&weights[i]);
        team_free(&saved[i]);
    }
}
END_TEST

START_TEST(decays_from_1_on_are_refused)
{
    static const float bad[] = {-0.1f, 1, NAN};
    yoke_graph *g = team_graph(TEAM_MLP);
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    for (size_t i = 0; i < YKI_COUNT(bad); i++) {
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                      yoke_trainer_create(team, g, &(yoke_trainer_options){.average = bad[i]}, &t));
        ASSERT_DETAIL("average is ");
    }
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("average");
    TCase *tcase = test_case(suite, "average");

    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    tcase_add_loop_test(tcase, the_average_follows_the_weights, 0, YKI_COUNT(runs));
    tcase_add_test(tcase, steps_of_nothing_change_no_average);
    tcase_add_test(tcase, checkpoints_have_the_average);
    tcase_add_test(tcase, decays_from_1_on_are_refused);
    return suite;
}

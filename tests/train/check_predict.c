/* SPDX-License-Identifier: Apache-2.0
 *
 * check_predict.c - predictions over a dataset: the values of samples that are given batch by
 * batch, in their order, whatever the shares, from any sample on; what is refused changes nothing.
 */
#include <string.h>

#include "train/runs.h"

TESTS_SHARE_A_PROCESS

enum { SAMPLES = 61, CLASSES = TEAM_CLASSES, WIDTH = 12 };

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

static const team_run runs[] = {
    {.shares = "even", .net = TEAM_MLP},
    {.shares = "80,20", .net = TEAM_MLP, .accumulate = 3},
    {.shares = "1,0", .net = TEAM_CONV, .batch = 7},
};

/* Unlike the trainer's batches, and the last of them is short. */
static void
predict_in_batches(yoke_trainer *t, const team_run *run, float *y)
{
    enum { AT_ONCE = 9 };

    for (int64_t first = 0, n; first < SAMPLES; first += n) {
        yoke_feed feeds[2];

        n = YKI_MIN((int64_t)AT_ONCE, SAMPLES - first);
        team_feeds(run, first, n, feeds);
        ASSERT_OK(yoke_trainer_predict(t, "y", n, feeds, 1, y + first * CLASSES, n * CLASSES));
    }
}

START_TEST(samples_of_a_dataset)
{
    static const int64_t firsts[] = {0, 5, SAMPLES - 1}, counts[] = {SAMPLES, 30, 1};
    team_run run = runs[_i];
    float fed[SAMPLES * CLASSES], read[SAMPLES * CLASSES];
    yoke_dataset *data;
    yoke_trainer *t;

    run.selector = devices.selector;
    t = team_trainer(devices.context, &run);
    ASSERT_OK(team_step(&run, t, 0, NULL));
    predict_in_batches(t, &run, fed);
    data = team_dataset(&run, 0, SAMPLES);
    for (size_t i = 0; i < YKI_COUNT(firsts); i++) {
        const int64_t values = counts[i] * CLASSES;

        memset(read, 0, sizeof read);
        ASSERT_OK(yoke_trainer_predict_dataset(t, "y", data, firsts[i], counts[i], read, values));
        for (int64_t k = 0; k < values; k++)
            ck_assert_float_eq_tol(read[k], fed[firsts[i] * CLASSES + k], 1e-5f);
    }
    yoke_dataset_destroy(data);
    yoke_trainer_destroy(t);
}
END_TEST

/* Samples without a target, or with one that no loss would take, in floats that are scaled. */
START_TEST(targets_are_not_looked_at)
{
    static const float mean = 0.25f, scale = 1.5f;
    team_run run = {.selector = devices.selector, .shares = "80,20"};
    yoke_trainer *t = team_trainer(devices.context, &run);
    static float x[SAMPLES * WIDTH], target[SAMPLES * 3];
    float fed[SAMPLES * CLASSES], read[SAMPLES * CLASSES];
    yoke_feed feeds[2];

    team_feeds(&run, 0, SAMPLES, feeds);
    memcpy(x, feeds[0].data, sizeof x);
    for (size_t i = 0; i < YKI_COUNT(x); i++)
        x[i] = (x[i] - mean) * scale;
    feeds[0] = yoke_feed_f32("x", x, YKI_COUNT(x));
    ASSERT_OK(yoke_trainer_predict(t, "y", SAMPLES, feeds, 1, fed, YKI_COUNT(fed)));
    for (size_t fields = 1; fields < 3; fields++) {
        const yoke_field data_fields[] = {
            {.name = "x", .type = YOKE_F32, .shape = yoke_shape(WIDTH), .data = x},
            {.name = "target", .type = YOKE_F32, .shape = yoke_shape(3), .data = target}};
        yoke_dataset *data;

        team_feeds(&run, 0, SAMPLES, feeds);
        memcpy(x, feeds[0].data, sizeof x);
        ASSERT_OK(yoke_dataset_create(SAMPLES, data_fields, fields, NULL, &data));
        ASSERT_OK(yoke_dataset_set_scaling(data, "x", &mean, &scale, 1));
        ASSERT_OK(yoke_trainer_predict_dataset(t, "y", data, 0, SAMPLES, read, YKI_COUNT(read)));
        for (size_t k = 0; k < YKI_COUNT(read); k++)
            ck_assert_float_eq_tol(read[k], fed[k], 1e-5f);
        yoke_dataset_destroy(data);
    }
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(refusals)
{
    static const float other[2 * SAMPLES];
    const yoke_field field = {.name = "z", .type = YOKE_F32, .shape = yoke_shape(2), .data = other};
    team_run run = {.selector = devices.selector, .shares = "even"};
    yoke_trainer *t = team_trainer(devices.context, &run);
    yoke_dataset *data = team_dataset(&run, 0, SAMPLES), *wrong;
    float y[SAMPLES * CLASSES];

#define REFUSED(status, detail, output, set, first, n, count)                                      \
    ASSERT_STATUS(status, yoke_trainer_predict_dataset(t, output, set, first, n, y, count));       \
    ASSERT_DETAIL(detail)
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "first is 62", "y", data, SAMPLES + 1, 0, 0);
    REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples is 61", "y", data, 1, SAMPLES, 1);
    REFUSED(YOKE_ERROR_SHAPE, "the number of values is 1", "y", data, 1, 2, 1);
    REFUSED(YOKE_ERROR_NOT_FOUND, "no output \"why\"", "why", data, 0, 1, CLASSES);
    ASSERT_OK(yoke_dataset_create(SAMPLES, &field, 1, NULL, &wrong));
    REFUSED(YOKE_ERROR_NOT_FOUND, "no field for the graph's input \"x\"", "y", wrong, 0, 1,
            CLASSES);
    ASSERT_OK(yoke_trainer_predict_dataset(t, "y", data, 0, 1, y, CLASSES));
    yoke_dataset_destroy(wrong);
    yoke_dataset_destroy(data);
    yoke_trainer_destroy(t);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("predict");
    TCase *tc = test_case(suite, "predict");

    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_loop_test(tc, samples_of_a_dataset, 0, YKI_COUNT(runs));
    tcase_add_test(tc, targets_are_not_looked_at);
    tcase_add_test(tc, refusals);
    return suite;
}

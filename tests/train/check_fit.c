/* SPDX-License-Identifier: Apache-2.0
 *
 * check_fit.c - epochs over a dataset: who is told of steps and when, how training is
 * stopped, what the history holds, and that scaling and augmentation which change
 * between two calls are what the second one uses.
 */
#include <math.h>

#include "train/runs.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 24, SAMPLES = 61, IMAGES = 30, STEPS = 3 /* of an epoch */ };

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

typedef struct listener {
    yoke_trainer *trainer;
    int64_t steps, epochs;         /* told of */
    int64_t stop_step, stop_epoch; /* where it says stop; 0: never */
    int64_t latest;                /* most steps that one was told late */
    double losses[2 * STEPS + 1];
} listener;

static bool
on_step(void *user, const yoke_result *result)
{
    listener *l = user;
    int64_t late = yoke_trainer_get_step(l->trainer) - result->step;

    ck_assert_int_eq(result->step, ++l->steps);
    ck_assert_int_ge(late, 0);
    if (late > l->latest)
        l->latest = late;
    ck_assert_int_eq(result->samples,
                     (result->step - 1) % STEPS == STEPS - 1 ? SAMPLES % BATCH : BATCH);
    if ((size_t)result->step < YKI_COUNT(l->losses))
        l->losses[result->step] = result->loss * result->count;
    return l->stop_step && result->step >= l->stop_step;
}

static bool
on_epoch(void *user, const yoke_epoch *epoch)
{
    listener *l = user;

    ck_assert_int_eq(epoch->epoch, l->epochs++);
    ck_assert_int_eq(l->steps, STEPS * l->epochs); /* every step was told before */
    ck_assert_int_eq(epoch->step, l->steps);
    return l->stop_epoch && l->epochs >= l->stop_epoch;
}

static yoke_status
fit(listener *l, yoke_dataset *train, yoke_dataset *test, int64_t epochs)
{
    const yoke_fit_options o = {
        .epochs = epochs, .on_step = on_step, .on_epoch = on_epoch, .user = l};

    return yoke_trainer_fit(l->trainer, train, test, &o);
}

/* Programs that were built with a shorter struct, or with a longer one. */
START_TEST(structs_of_other_versions)
{
    typedef struct long_field {
        yoke_field now;
        uint64_t later;
    } long_field;
    typedef struct long_result {
        yoke_result now;
        uint64_t later[2];
    } long_result;
    enum { VALUES = 6 };
    static const float x[VALUES] = {1, 2, 3, 4, 5, 6};
    const long_field fields[2] = {{{"a", YOKE_F32, yoke_shape(2), x, 0}, 7},
                                  {{"b", YOKE_F32, yoke_shape(1), x, 0}, 7}};
    team_run run = {.selector = devices.selector, .shares = "even"};
    yoke_dataset *data, *samples = team_dataset(&run, 0, SAMPLES);
    listener l = {.trainer = team_trainer(devices.context, &run)};
    long_result result;
    struct {
        double loss, guard;
    } old = {0, -1};

    ASSERT_OK(yoke_dataset_create_sized(3, &fields[0].now, 2, sizeof fields[0], NULL, 0, &data));
    ck_assert_str_eq(yoke_dataset_get_field(data, 1)->name, "b");
    ck_assert_ptr_eq(yoke_dataset_get_field(data, 1)->data, x);
    memset(&result, 1, sizeof result);
    ASSERT_OK(yoke_trainer_evaluate_sized(l.trainer, samples, &result.now, sizeof result));
    ck_assert_int_eq(result.now.samples, SAMPLES);
    ck_assert(result.later[0] == 0 && result.later[1] == 0);
    ASSERT_OK(
        yoke_trainer_evaluate_sized(l.trainer, samples, (yoke_result *)&old, sizeof old.loss));
    ck_assert(old.loss == result.now.loss && old.guard == -1);
    yoke_dataset_destroy(data);
    yoke_dataset_destroy(samples);
    yoke_trainer_destroy(l.trainer);
}
END_TEST

/* Each step is told once, in order, at most two late; the history adds up. */
START_TEST(callbacks_and_history)
{
    for (int i = 0; i < 2; i++) { /* a team of two, and of one */
        team_run run = {.selector = i ? info[0].parent : devices.selector,
                        .shares = i ? NULL : "80,20"};
        yoke_dataset *data = team_dataset(&run, 0, SAMPLES);
        listener l = {0};

        l.trainer = team_trainer(devices.context, &run);
        ASSERT_OK(fit(&l, data, data, 2));
        ck_assert_int_eq(l.epochs, 2);
        ck_assert_int_ge(l.latest, 1); /* the next one was enqueued before */
        ck_assert_int_le(l.latest, 2);
        ck_assert_uint_eq(yoke_trainer_epoch_count(l.trainer), 2);
        for (int e = 0; e < 2; e++) {
            const yoke_epoch *h = yoke_trainer_get_epoch(l.trainer, (size_t)e);
            double sum = 0, of_devices = 0, shares = 0;

            for (int s = 1; s <= STEPS; s++)
                sum += l.losses[STEPS * e + s];
            ck_assert_double_eq_tol(h->train->loss, sum / SAMPLES, 1e-6 * h->train->loss);
            ck_assert_int_eq(h->train->samples, SAMPLES);
            ck_assert_double_eq(h->train->count, SAMPLES);
            ck_assert_int_eq(h->test->samples, SAMPLES);
            ck_assert_double_gt(h->samples_per_second, 0);
            ck_assert_uint_eq(h->devices, i ? 1 : 2);
            for (size_t k = 0; k < h->devices; k++) {
                /* of 61 samples in batches of 24, 24 and 13, four fifths are 19, 19 and 10 */
                double n = i ? SAMPLES : k ? 13 : 48;

                shares += h->shares[k];
                of_devices += n * h->device_losses[k];
            }
            ck_assert_double_eq(shares, BATCH);
            ck_assert_double_eq(h->shares[0], i ? BATCH : 19);
            ck_assert_double_eq_tol(of_devices / SAMPLES, h->train->loss, 1e-5 * h->train->loss);
        }
        ck_assert_double_lt(yoke_trainer_get_epoch(l.trainer, 1)->test->loss,
                            yoke_trainer_get_epoch(l.trainer, 0)->train->loss);
        ck_assert_ptr_null(yoke_trainer_get_epoch(l.trainer, 2));
        ck_assert(!yoke_trainer_was_stopped(l.trainer));
        yoke_trainer_destroy(l.trainer);
        yoke_dataset_destroy(data);
    }
}
END_TEST

/* A device without samples has no loss. */
/* A program that feeds what yoke_dataset_batch gives does what fit does. */
START_TEST(batches_are_what_fit_feeds)
{
    enum { N = 48, WIDTH = 12 };
    const float mean[] = {0.25f}, scale[] = {1.5f};
    team_run run = {.selector = devices.selector, .shares = "even"};
    yoke_trainer *fitted = team_trainer(devices.context, &run);
    yoke_trainer *fed = team_trainer(devices.context, &run);
    yoke_dataset *dataset = team_dataset(&run, 0, N);
    team_outcome a, b;

    ASSERT_OK(yoke_dataset_set_scaling(dataset, "x", mean, scale, 1));
    ASSERT_OK(yoke_trainer_fit(fitted, dataset, NULL, &(yoke_fit_options){.no_shuffle = true}));
    for (int64_t first = 0; first < N; first += 24) {
        float x[24 * WIDTH];
        int32_t label[24];
        int64_t indices[24];
        yoke_feed feeds[2];

        for (int64_t i = 0; i < 24; i++)
            indices[i] = first + i;
        ASSERT_OK(yoke_dataset_batch(dataset, "x", indices, 24, x, YKI_COUNT(x)));
        ASSERT_OK(yoke_dataset_read(dataset, "target", indices, 24, label, sizeof label));
        feeds[0] = yoke_feed_f32("x", x, YKI_COUNT(x));
        feeds[1] = yoke_feed_i32("target", label, 24);
        ASSERT_OK(yoke_trainer_step(fed, 24, feeds, 2, NULL));
    }
    ASSERT_OK(team_read(fitted, &a));
    ASSERT_OK(team_read(fed, &b));
    ck_assert(team_same_bits(&a, &b));
    team_free(&a);
    team_free(&b);
    yoke_dataset_destroy(dataset);
    yoke_trainer_destroy(fitted);
    yoke_trainer_destroy(fed);
}
END_TEST

START_TEST(device_without_samples)
{
    team_run run = {.selector = devices.selector, .shares = "1,0"};
    yoke_dataset *data = team_dataset(&run, 0, SAMPLES);
    const yoke_epoch *h;
    listener l = {.trainer = team_trainer(devices.context, &run)};

    ASSERT_OK(fit(&l, data, NULL, 1));
    ck_assert_uint_eq(yoke_trainer_epoch_count(l.trainer), 1);
    h = yoke_trainer_get_epoch(l.trainer, 0);
    ck_assert_double_eq_tol(h->device_losses[0], h->train->loss, 1e-9);
    ck_assert(isnan(h->device_losses[1]));
    ck_assert_int_eq(h->test->samples, 0);
    yoke_trainer_destroy(l.trainer);
    yoke_dataset_destroy(data);
}
END_TEST

/* By a callback of a step, of an epoch, and from outside; then it goes on where it was. */
START_TEST(stopping)
{
    team_run run = {.selector = devices.selector, .shares = "even"};
    yoke_dataset *data = team_dataset(&run, 0, SAMPLES);
    listener l = {.trainer = team_trainer(devices.context, &run), .stop_step = 1};

    ASSERT_OK(fit(&l, data, NULL, 50));
    ck_assert(yoke_trainer_was_stopped(l.trainer));
    ck_assert_int_le(l.steps, 1 + 2); /* two more were under way */
    ck_assert_int_eq(yoke_trainer_get_step(l.trainer), l.steps);
    ASSERT_OK(yoke_trainer_initialize(l.trainer, 1));
    l = (listener){.trainer = l.trainer, .stop_epoch = 1};
    ASSERT_OK(fit(&l, data, NULL, 50));
    ck_assert(yoke_trainer_was_stopped(l.trainer));
    ck_assert_int_eq(l.steps, STEPS);
    ck_assert_uint_eq(yoke_trainer_epoch_count(l.trainer), 1);
    yoke_trainer_request_stop(l.trainer);
    ASSERT_OK(fit(&l, data, NULL, 50));
    ck_assert(yoke_trainer_was_stopped(l.trainer));
    ck_assert_int_eq(yoke_trainer_get_step(l.trainer), STEPS + 1);
    yoke_trainer_destroy(l.trainer);
    yoke_dataset_destroy(data);
}
END_TEST

/* ---- what changes between calls ---- */

static double
loss_of(yoke_trainer *t, yoke_dataset *data)
{
    yoke_result result;

    ASSERT_OK(yoke_trainer_evaluate(t, data, &result));
    return result.loss;
}

static void
scale_by(yoke_dataset *data, float scale)
{
    const float mean = 0;

    ASSERT_OK(yoke_dataset_set_scaling(data, "x", &mean, &scale, 1));
}

/* Trained with one scaling, then with another over the same dataset: as two trainers with a
 * dataset each. The same for evaluation. */
START_TEST(scaling_that_changes)
{
    team_run run = {.selector = devices.selector, .shares = "80,20"};
    yoke_dataset *changing = team_dataset(&run, 0, SAMPLES),
                 *fixed = team_dataset(&run, 0, SAMPLES);
    yoke_trainer *t = team_trainer(devices.context, &run), *u;
    team_outcome a, b;
    double plain, scaled;

    plain = loss_of(t, changing);
    scale_by(changing, 3);
    scale_by(fixed, 3);
    scaled = loss_of(t, changing);
    ck_assert_double_ne(scaled, plain);
    ck_assert_double_eq(loss_of(t, fixed), scaled);
    scale_by(changing, 1);
    ck_assert_double_eq(loss_of(t, changing), plain);

    ASSERT_OK(yoke_trainer_fit(t, changing, NULL, NULL));
    scale_by(changing, 3);
    ASSERT_OK(yoke_trainer_fit(t, changing, NULL, NULL));
    ASSERT_OK(team_read(t, &a));
    u = team_trainer(devices.context, &run);
    scale_by(changing, 1);
    ASSERT_OK(yoke_trainer_fit(u, changing, NULL, NULL));
    ASSERT_OK(yoke_trainer_fit(u, fixed, NULL, NULL));
    ASSERT_OK(team_read(u, &b));
    ck_assert(team_same_bits(&a, &b));
    team_free(&a);
    team_free(&b);
    yoke_trainer_destroy(t);
    yoke_trainer_destroy(u);
    yoke_dataset_destroy(changing);
    yoke_dataset_destroy(fixed);
}
END_TEST

static void
augment(yoke_dataset *data, bool flip)
{
    ASSERT_OK(yoke_dataset_set_augmentation(data, &(yoke_augmentation){.flip = flip}));
}

/* Flips from the second epoch on. */
static bool
begin_to_flip(void *user, const yoke_epoch *epoch)
{
    (void)epoch;
    augment(user, true);
    return false;
}

/* Also in the middle of a fit, by its callback; evaluation never augments. */
START_TEST(augmentation_that_changes)
{
    team_run run = {.selector = devices.selector, .shares = "even", .net = TEAM_CONV};
    yoke_dataset *data = team_dataset(&run, 0, IMAGES);
    team_outcome outcome[3];

    for (int i = 0; i < 3; i++) {
        yoke_trainer *t = team_trainer(devices.context, &run);
        yoke_fit_options o = {.epochs = 1};

        augment(data, false);
        if (i == 0) { /* never */
            o.epochs = 2;
            ASSERT_OK(yoke_trainer_fit(t, data, NULL, &o));
        } else if (i == 1) { /* between two calls */
            ASSERT_OK(yoke_trainer_fit(t, data, NULL, &o));
            augment(data, true);
            ASSERT_OK(yoke_trainer_fit(t, data, NULL, &o));
        } else { /* between two epochs */
            o.epochs = 2;
            o.on_epoch = begin_to_flip;
            o.user = data;
            ASSERT_OK(yoke_trainer_fit(t, data, NULL, &o));
        }
        ASSERT_OK(team_read(t, &outcome[i]));
        yoke_trainer_destroy(t);
    }
    ck_assert(!team_same_bits(&outcome[1], &outcome[0]));
    ck_assert(team_same_bits(&outcome[2], &outcome[1]));
    for (int i = 0; i < 3; i++)
        team_free(&outcome[i]);
    yoke_dataset_destroy(data);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("fit");
    TCase *tc = test_case(suite, "fit");

    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, structs_of_other_versions);
    tcase_add_test(tc, callbacks_and_history);
    tcase_add_test(tc, batches_are_what_fit_feeds);
    tcase_add_test(tc, device_without_samples);
    tcase_add_test(tc, stopping);
    tcase_add_test(tc, scaling_that_changes);
    tcase_add_test(tc, augmentation_that_changes);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_fit_prefetch.c - training on samples of a function, more of them than stay on the
 * devices: read ahead or not, the weights have the same bits, an error ends the same
 * step, and a training that was stopped goes on at the same sample.
 */
#include <stdio.h>
#include <string.h>

#include "support/scratch.h"
#include "train/runs.h"
#include "train/trace_events.h"
#include "train/trainer.h"

TESTS_SHARE_A_PROCESS

#define NOT_SIMULATED                                                                              \
    if (devices.slow)                                                                              \
    TEST_NOT_HERE("thousands of samples take too long in a simulator")

enum { WIDTH = 256, SAMPLES = 1500, BATCH = 96, STEPS = 16 /* of an epoch */ };

static test_devices devices;
static char selector[256];

/* With so little memory that the samples do not stay there. */
static void
open_devices(void)
{
    yoke_device_info info[2];

    scratch_set_up();
    ck_assert(team_find(TEST_AS_IS, &devices, info));
    snprintf(selector, sizeof selector, "%s@4MiB,%s@4MiB", info[0].id, info[1].id);
}

static void
close_devices(void)
{
    test_devices_close(&devices);
    scratch_tear_down();
}

typedef struct source {
    pthread_t caller;
    int64_t broken;        /* sample whose x cannot be had; -1: none */
    atomic_int own, other; /* samples of x that the caller's thread was asked for, and others */
} source;

static yoke_status
fill(void *user, int64_t index, size_t field, void *out)
{
    source *s = user;
    float *x = out;

    if (field == 1) {
        *(int32_t *)out = (int32_t)(index * 7 % TEAM_CLASSES);
        return YOKE_OK;
    }
    for (int i = 0; i < WIDTH; i++)
        x[i] = (float)((index * 31 + i * 17) % 101) / 50 - 1;
    atomic_fetch_add(pthread_equal(pthread_self(), s->caller) ? &s->own : &s->other, 1);
    return index == s->broken ? YOKE_ERROR_IO : YOKE_OK;
}

static yoke_dataset *
dataset_of(source *s, bool ahead)
{
    const yoke_field fields[] = {{"x", YOKE_F32, yoke_shape(WIDTH), NULL, 0},
                                 {"target", YOKE_I32, yoke_shape(), NULL, 0}};
    yoke_dataset *dataset;

    *s = (source){.caller = pthread_self(), .broken = -1};
    ASSERT_OK(yoke_dataset_create(
        SAMPLES, fields, 2, &(yoke_dataset_options){.fill = fill, .user = s, .no_ahead = !ahead},
        &dataset));
    return dataset;
}

static yoke_trainer *
make_trainer(const team_run *run)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g;
    yoke_node *y;
    yoke_team *team;
    yoke_trainer *trainer;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH)),
                   &(yoke_dense_options){.units = TEAM_CLASSES});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(
                               g, y, yoke_target(g, "target", YOKE_I32, yoke_shape()), NULL));
    ASSERT_OK(yoke_team_create(devices.context, run->selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &trainer));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return trainer;
}

/* An epoch, and a look at all samples once more: by a thread, or by the caller, with the same bits.
 * Steps of one part, and of two. */
START_TEST(same_bits)
{
    team_outcome outcome[2];
    double loss[2];

    NOT_SIMULATED;
    for (int ahead = 0; ahead < 2; ahead++) {
        const team_run run = {
            .selector = selector, .shares = "80,20", .batch = BATCH, .accumulate = (uint32_t)_i};
        yoke_trainer *t = make_trainer(&run);
        yoke_result result;
        source s;
        yoke_dataset *data = dataset_of(&s, ahead);

        ASSERT_OK(yoke_trainer_fit(t, data, NULL, NULL));
        ck_assert_int_eq(atomic_load(&s.own), ahead ? 0 : SAMPLES);
        ck_assert_int_eq(atomic_load(&s.other), ahead ? SAMPLES : 0);
        ASSERT_OK(yoke_trainer_evaluate(t, data, &result));
        loss[ahead] = result.loss;
        ck_assert_int_eq(atomic_load(&s.own), ahead ? 0 : 2 * SAMPLES);
        ck_assert_int_eq(atomic_load(&s.other), ahead ? 2 * SAMPLES : 0);
        ASSERT_OK(team_read(t, &outcome[ahead]));
        yoke_trainer_destroy(t);
        yoke_dataset_destroy(data);
    }
    ck_assert(team_same_bits(&outcome[0], &outcome[1]));
    ck_assert_double_eq(loss[0], loss[1]);
    for (int ahead = 0; ahead < 2; ahead++)
        team_free(&outcome[ahead]);
}
END_TEST

/* A timeline shows each range that the thread reads, on a track of its own. */
START_TEST(reading_is_recorded)
{
    const team_run run = {.selector = selector, .shares = "80,20", .batch = BATCH};
    const char *path = scratch_path("ahead.json");
    trace_counts counts;
    json_t *file, *events;
    yoke_dataset *data;
    yoke_trainer *t;
    const char *wrong;
    int reads = 0;
    source s;

    NOT_SIMULATED;
    t = make_trainer(&run);
    data = dataset_of(&s, true);
    ASSERT_OK(yoke_trainer_trace(t, path));
    ASSERT_OK(yoke_trainer_fit(t, data, NULL, NULL));
    ASSERT_OK(yoke_trainer_trace(t, NULL));
    file = json_load_file(path, 0, NULL);
    events = json_object_get(file, "traceEvents");
    wrong = trace_events_fault(events, false, &counts);
    ck_assert_msg(!wrong, "%s", wrong);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i), *args = json_object_get(event, "args");

        if (strcmp(json_string_value(json_object_get(event, "name")), "read ahead") != 0)
            continue;
        ck_assert_int_ge(json_integer_value(json_object_get(args, "bytes")), WIDTH * 4);
        reads++;
    }
    ck_assert_int_eq(reads, STEPS);
    json_decref(file);
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(data);
}
END_TEST

/* A sample that cannot be had ends the step that it is of, and is named. */
START_TEST(errors)
{
    enum { AT = 5 * BATCH + 12 };
    char sample[64];

    NOT_SIMULATED;
    for (int ahead = 0; ahead < 2; ahead++) {
        const team_run run = {.selector = selector, .shares = "80,20", .batch = BATCH};
        yoke_trainer *t = make_trainer(&run);
        const yki_order order = {.count = SAMPLES, .seed = 1};
        source s;
        yoke_dataset *data = dataset_of(&s, ahead);

        s.broken = yki_order_at(&order, AT);
        ASSERT_STATUS(YOKE_ERROR_IO, yoke_trainer_fit(t, data, NULL, NULL));
        snprintf(sample, sizeof sample, "sample %lld, field 0", (long long)s.broken);
        ASSERT_DETAIL("step 6, ");
        ASSERT_DETAIL(sample);
        ck_assert_int_eq(yoke_trainer_get_step(t), AT / BATCH);
        ck_assert_int_eq(atomic_load(&s.own) + atomic_load(&s.other), AT + 1);
        yoke_trainer_destroy(t);
        yoke_dataset_destroy(data);
    }
}
END_TEST

static bool
stop_at_seven(void *user, const yoke_result *result)
{
    (void)user;
    return result->step == 7;
}

/* What was read and not used is read again by who goes on. When fit returns nobody reads. */
START_TEST(stopped_and_resumed)
{
    const team_run run = {.selector = selector, .shares = "80,20", .batch = BATCH};
    const yoke_fit_options whole = {.epochs = 1};
    yoke_fit_options o = {.epochs = 1,
                          .on_step = stop_at_seven,
                          .checkpoint_dir = scratch_path("run"),
                          .checkpoint_every = 100};
    team_outcome outcome[2];

    NOT_SIMULATED;
    for (int i = 0; i < 2; i++) {
        yoke_trainer *t = make_trainer(&run);
        source s;
        yoke_dataset *data = dataset_of(&s, true);

        if (i == 0) {
            ASSERT_OK(yoke_trainer_fit(t, data, NULL, &whole));
        } else {
            int64_t steps;
            int calls;

            ASSERT_OK(yoke_trainer_fit(t, data, NULL, &o));
            ck_assert(yoke_trainer_was_stopped(t));
            calls = atomic_load(&s.other);
            steps = yoke_trainer_get_step(t);
            ck_assert_int_ge(calls, steps * BATCH);
            ck_assert_int_le(calls, (steps + 2) * BATCH);
            yoke_trainer_destroy(t);
            ck_assert_int_eq(atomic_load(&s.other), calls);
            t = make_trainer(&run);
            o.on_step = NULL;
            o.resume = true;
            ASSERT_OK(yoke_trainer_fit(t, data, NULL, &o));
            ck_assert_int_eq(atomic_load(&s.other), calls + SAMPLES - steps * BATCH);
            ck_assert_int_eq(atomic_load(&s.own), 0);
        }
        ck_assert_int_eq(yoke_trainer_get_step(t), STEPS);
        ASSERT_OK(team_read(t, &outcome[i]));
        yoke_trainer_destroy(t);
        yoke_dataset_destroy(data);
    }
    ck_assert(team_same_bits(&outcome[0], &outcome[1]));
    for (int i = 0; i < 2; i++)
        team_free(&outcome[i]);
}
END_TEST

/* Shares that follow the speed move what a device wants, and each sample is still read once. */
START_TEST(shares_that_move)
{
    const team_run run = {.selector = selector, .batch = BATCH};
    yoke_trainer *t;
    source s;
    yoke_dataset *data;

    NOT_SIMULATED;
    t = make_trainer(&run);
    data = dataset_of(&s, true);
    ASSERT_OK(yoke_trainer_fit(t, data, NULL, NULL));
    ck_assert_int_eq(atomic_load(&s.other), SAMPLES);
    ck_assert_int_eq(atomic_load(&s.own), 0);
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(data);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("fit_ahead");
    TCase *tc = test_case(suite, "fit");

    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_loop_test(tc, same_bits, 1, 3);
    tcase_add_test(tc, errors);
    tcase_add_test(tc, stopped_and_resumed);
    tcase_add_test(tc, reading_is_recorded);
    tcase_add_test(tc, shares_that_move);
    return suite;
}

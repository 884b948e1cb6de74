/* SPDX-License-Identifier: Apache-2.0
 *
 * check_timeline.c - the file of a timeline, read again: names, times, nesting, arrows; and that
 * nothing is recorded before and behind it.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/opened.h"
#include "support/scratch.h"
#include "train/runs.h"
#include "train/trace_events.h"
#include "train/trainer.h"

enum { STEPS = 3 };

static bool
open_setup(test_setup setup)
{
    return team_find(setup, &devices, NULL);
}

/* ---- reading ---- */

static const char *
text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    ck_assert_msg(text && *text, "an event has no %s", key);
    return text;
}

static double
number_of(const json_t *event, const char *key)
{
    const json_t *number = json_object_get(event, key);

    ck_assert_msg(json_is_number(number), "\"%s\" has no %s", text_of(event, "name"), key);
    return json_number_value(number);
}

static json_t *
read_events(const char *path, json_t **file)
{
    json_error_t error;
    json_t *events;

    *file = json_load_file(path, 0, &error);
    ck_assert_msg(*file != NULL, "%s: line %d: %s", path, error.line, error.text);
    events = json_object_get(*file, "traceEvents");
    ck_assert_uint_gt(json_array_size(events), 0);
    return events;
}

static bool
is_phase(const json_t *event, char phase)
{
    return text_of(event, "ph")[0] == phase;
}

/* How many events of a phase have a name that begins so. */
static int
count_of(const json_t *events, char phase, const char *name)
{
    int count = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);

        count += is_phase(event, phase) && strncmp(text_of(event, "name"), name, strlen(name)) == 0;
    }
    return count;
}

/* ---- what holds for every file ---- */

static trace_counts
check_events(const json_t *events, bool clocks)
{
    trace_counts counts;
    const char *wrong = trace_events_fault(events, clocks, &counts);

    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_int_eq(counts.processes, 1);
    return counts;
}

/* Every command of a step begins and ends while the host makes this step or waits for it. */
static void
check_steps(const json_t *events, double slack)
{
    double first = -1, last = -1;
    int commands = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);

        if (!is_phase(event, 'X') || (strncmp(text_of(event, "name"), "step ", 5) != 0 &&
                                      strncmp(text_of(event, "name"), "wait for step ", 14) != 0))
            continue;
        if (first < 0)
            first = number_of(event, "ts");
        last = YKI_MAX(last, number_of(event, "ts") + number_of(event, "dur"));
    }
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const json_t *args = json_object_get(event, "args");

        if (!is_phase(event, 'X') || !json_object_get(args, "solver"))
            continue;
        ck_assert_msg(number_of(event, "ts") >= first - slack &&
                          number_of(event, "ts") + number_of(event, "dur") <= last + slack,
                      "\"%s\" is at %.3f + %.3f us, the steps from %.3f to %.3f",
                      text_of(event, "name"), number_of(event, "ts"), number_of(event, "dur"),
                      first, last);
        ck_assert_int_eq(*text_of(args, "shape"), '(');
        commands++;
        if (strcmp(text_of(args, "verb"), "running library") == 0)
            continue;
        ck_assert_str_eq(text_of(args, "verb"), "running kernel");
        ck_assert(strncmp(text_of(args, "kernel"), "yki_", 4) == 0);
    }
    ck_assert_int_ge(commands, 6 * STEPS); /* three layers, forward and backward */
}

/* ---- tests ---- */

static void
make_steps(const team_run *run, yoke_trainer *t)
{
    yoke_result result;

    for (int i = 0; i < STEPS; i++)
        ASSERT_OK(team_step(run, t, i, &result));
}

static void
check_off(const yoke_trainer *t)
{
    ck_assert_ptr_null(t->timeline);
    ck_assert_ptr_null(t->crew.host_track);
    for (size_t k = 0; k < t->crew.count; k++)
        ck_assert_ptr_null(yki_queue_track(t->crew.members[k].replica->queue));
}

/* Two timelines of one trainer, with steps before, between and behind them that nobody sees. */
static void
record(void)
{
    const team_run run = {
        .selector = devices.selector, .shares = "even", .bucket_bytes = 1024, .batch = 8};
    yoke_trainer *t = team_trainer(devices.context, &run);
    const char *path = scratch_path("timeline.json");
    json_t *file, *events;
    trace_counts counts;

    make_steps(&run, t);
    for (int round = 0; round < 2; round++) {
        size_t members = t->crew.count;
        bool clocks = true;

        check_off(t);
        ASSERT_OK(yoke_trainer_trace(t, path));
        for (size_t k = 0; k < members; k++)
            clocks &= yki_queue_track(t->crew.members[k].replica->queue)->clock != NULL;
        make_steps(&run, t);
        ASSERT_OK(yoke_trainer_trace(t, NULL));
        check_off(t);
        events = read_events(path, &file);
        counts = check_events(events, clocks);
        check_steps(events, counts.slack);
        ck_assert_int_eq(count_of(events, 'X', "step "), STEPS);
        ck_assert_int_eq(count_of(events, 'X', "wait for step "), STEPS);
        ck_assert_int_eq(count_of(events, 'X', "enqueue backward"), STEPS);
        ck_assert_int_eq(count_of(events, 'C', "loss"), STEPS);
        ck_assert_int_eq(count_of(events, 'C', "samples"), STEPS);
        ck_assert_int_eq(count_of(events, 'C', "memory"), STEPS);
        /* Of each device's gradients in each bucket. */
        ck_assert_int_eq(counts.gradients,
                         members > 1 ? (int)(STEPS * members * t->crew.buckets.count) : 0);
        ck_assert_uint_gt(t->crew.buckets.count, 1);
        json_decref(file);
        make_steps(&run, t);
    }
    yoke_trainer_destroy(t);
}

TEAM_SETUP(halves_are_recorded, TEST_POCL_HALVES, open_setup, record())
TEAM_SETUP(roots_are_recorded, TEST_POCL_ROOTS, open_setup, record())
TEAM_SETUP(slices_are_recorded, TEST_RUSTICL_SLICES, open_setup, record())
TEAM_SETUP(devices_are_recorded, TEST_AS_IS, open_setup, record())

/* Makes a trainer that measures, so it writes wisdom. */
static yoke_trainer *
measured_trainer(const team_run *run)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g = team_graph(run->net);
    yoke_trainer *trainer;
    yoke_team *team;

    o.level = YOKE_PLAN_MEASURE;
    ASSERT_OK(yoke_team_create(devices.context, run->selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &trainer));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return trainer;
}

/* Writes wisdom anew that has, behind each time of a forward product, a better one of CLBlast. */
static void
prefer_clblast(const char *path)
{
    const unsigned set = 12585637; /* tiles of 32 x 32, 8 x 8 work-items */
    size_t size;
    char *text = scratch_read(path, &size), *line, *rest, *problem;
    FILE *file = fopen(path, "w");
    int found = 0;

    ck_assert(text && file);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        fprintf(file, "%s\n", line);
        problem = strstr(line, " matmul nt");
        if (!problem)
            continue;
        fprintf(file, "0.000000001 gemm-clblast %u%s\n", set, problem);
        found++;
    }
    ck_assert_int_gt(found, 0);
    fclose(file);
    free(text);
}

/* Products of CLBlast have a name, a shape and a rate, too. */
TEAM_SETUP(products_of_clblast_are_recorded, TEST_POCL_HALVES, open_setup, {
    const team_run run = {.selector = devices.selector,
                          .shares = "even",
                          .batch = 8,
                          .any_class = true,
                          .wisdom = scratch_path("wisdom")};
    const char *path = scratch_path("clblast.json");
    json_t *file, *events;
    yoke_trainer *t = measured_trainer(&run);
    int products = 0;

    yoke_trainer_destroy(t);
    prefer_clblast(run.wisdom);
    t = measured_trainer(&run);
    ASSERT_OK(yoke_trainer_trace(t, path));
    make_steps(&run, t);
    ASSERT_OK(yoke_trainer_trace(t, NULL));
    events = read_events(path, &file);
    check_events(events, true);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *args = json_object_get(json_array_get(events, i), "args");
        const char *kernel = json_string_value(json_object_get(args, "kernel"));

        if (!kernel || strcmp(kernel, "CLBlast SGEMM") != 0)
            continue;
        ck_assert_str_eq(text_of(args, "solver"), "gemm-clblast");
        ck_assert_int_eq(*text_of(args, "shape"), '(');
        ck_assert_double_gt(json_number_value(json_object_get(args, "mflop")), 0);
        products++;
    }
    ck_assert_int_eq(products, (int)(t->crew.count * STEPS)); /* of the first layer */
    json_decref(file);
    yoke_trainer_destroy(t);
})

/* Each granule of a device adds to its gradients: one arrow. The first step may be made twice. */
TEAM_SETUP(granules_are_recorded, TEST_POCL_HALVES, open_setup, {
    const team_run run = {.selector = devices.selector,
                          .shares = "even",
                          .batch = 8,
                          .any_split = true,
                          .granule = 2,
                          .bucket_bytes = 1024};
    yoke_trainer *t = team_trainer(devices.context, &run);
    const char *path = scratch_path("granules.json");
    json_t *file, *events;
    trace_counts counts;

    ASSERT_OK(yoke_trainer_trace(t, path));
    make_steps(&run, t);
    ck_assert_uint_gt(t->crew.exact.repeats, 0);
    ASSERT_OK(yoke_trainer_trace(t, NULL));
    events = read_events(path, &file);
    counts = check_events(events, false);
    ck_assert_int_eq(counts.gradients, (int)(STEPS * t->crew.count * t->crew.buckets.count));
    json_decref(file);
    yoke_trainer_destroy(t);
})

/* fit: epochs, an evaluation, and rows that a queue of their own copies. */
TEAM_SETUP(fit_is_recorded, TEST_POCL_HALVES, open_setup, {
    const team_run run = {.selector = devices.selector, .shares = "even", .batch = 8};
    yoke_dataset *data = team_dataset(&run, 0, 32);
    const char *path = scratch_path("fit.json");
    yoke_trainer *t = team_trainer(devices.context, &run);
    json_t *file;
    json_t *events;

    ASSERT_OK(yoke_trainer_trace(t, path));
    ASSERT_OK(yoke_trainer_fit(t, data, data, &(yoke_fit_options){.epochs = 2}));
    ASSERT_OK(yoke_trainer_trace(t, NULL));
    events = read_events(path, &file);
    check_events(events, false);
    ck_assert_int_eq(count_of(events, 'X', "step "), 8);
    ck_assert_int_eq(count_of(events, 'X', "load samples of device "), 16);
    json_decref(file);
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(data);
})

TEAM_SETUP(what_makes_no_sense_is_refused, TEST_POCL_HALVES, open_setup, {
    const team_run run = {.selector = devices.selector, .shares = "even", .batch = 8};
    yoke_trainer *t = team_trainer(devices.context, &run);
    const char *path = scratch_path("refused.json");

    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "trainer is NULL", yoke_trainer_trace(NULL, path));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "no timeline is recorded", yoke_trainer_trace(t, NULL));
    ASSERT_REFUSED(YOKE_ERROR_IO, "nowhere", yoke_trainer_trace(t, scratch_path("nowhere/x.json")));
    check_off(t);
    ASSERT_OK(yoke_trainer_trace(t, path));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "refused.json", yoke_trainer_trace(t, path));
    make_steps(&run, t);
    yoke_trainer_destroy(t); /* and nothing is written */
    ck_assert_int_ne(access(path, F_OK), 0);
})

Suite *
test_suite(void)
{
    Suite *suite = suite_create("timeline");
    TCase *tc = test_case(suite, "timeline");

    tcase_add_checked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_test(tc, halves_are_recorded);
    tcase_add_test(tc, roots_are_recorded);
    tcase_add_test(tc, slices_are_recorded);
    tcase_add_test(tc, devices_are_recorded);
    tcase_add_test(tc, products_of_clblast_are_recorded);
    tcase_add_test(tc, granules_are_recorded);
    tcase_add_test(tc, fit_is_recorded);
    tcase_add_test(tc, what_makes_no_sense_is_refused);
    return suite;
}

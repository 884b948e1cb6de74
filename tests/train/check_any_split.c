/* SPDX-License-Identifier: Apache-2.0
 *
 * check_any_split.c - with YOKE_REPRODUCIBLE_ANY_SPLIT the weights are the same bits however a
 * batch is split.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scratch.h"
#include "train/runs.h"
#include "train/trainer.h"

TESTS_SHARE_A_PROCESS

enum { EVALUATED = 61 };

static test_devices devices;
static char root[128];

static void
open_devices(void)
{
    yoke_device_info info[2];

    scratch_set_up();

    setenv("POCL_MAX_PTHREAD_COUNT", "6", 1); /* for splits in six */
    ck_assert(team_find(TEST_AS_IS, &devices, info));
    snprintf(root, sizeof root, "%s", info[0].parent);
}

static void
close_devices(void)
{
    test_devices_close(&devices);
    scratch_tear_down();
}

/* ---- splits ---- */

typedef struct split {
    const char *parts, *shares;
} split;

static const split splits[] = {{"", NULL},      {"/2", "even"}, {"/2", "80,20"},  {"/2", "1,0"},
                               {"/2", "0,1"},   {"/2", "1,3"},  {"/2", NULL},     {"/3", "even"},
                               {"/3", "3,0,1"}, {"/5", "even"}, {"/1+3", "even"}, {"/1+1+4", NULL}};

/* On the implementations of the matrix every third: llvmpipe compiles all kernels for each. Slices
 * are equal. */
static bool
is_split_for_here(size_t i)
{
    return !test_in_matrix() || (i % 3 == 0 && !strchr(splits[i].parts, '+'));
}

/* All splits are compared for a plain network of each kind; with options, those that differ most:
 * of shares 80,20, of three with one idle, and of unlike parts. */
static bool
is_among_some(size_t i)
{
    return test_in_matrix() || test_is_thorough() || i % 8 == 0 || i % 8 == 2;
}

/* Trains on splits and compares with the first. */
static void
compare(team_run run, bool all)
{
    team_outcome first, other;
    char selector[160];

    run.any_split = true;
    for (size_t i = 0; i < YKI_COUNT(splits); i++) {
        const split *s = &splits[i];

        if (!is_split_for_here(i) || !(all || is_among_some(i)))
            continue;
        snprintf(selector, sizeof selector, "%s%s", root, s->parts);
        run.selector = selector;
        run.shares = s->shares;
        team_train(devices.context, &run, i == 0 ? &first : &other);
        if (i == 0) {
            team_run usual = run;

            usual.any_split = false;
            usual.granule = 0;
            usual.wire = YOKE_WIRE_I64;
            team_train(devices.context, &usual, &other);
            if (!run.wire) /* the others round what a granule adds */
                team_assert_near(&first, &other, "without granules");
            team_free(&other);
            continue;
        }
        ck_assert_msg(team_same_bits(&first, &other), "%s with shares %s has other bits", selector,
                      s->shares ? s->shares : "auto");
        ck_assert_msg(first.loss == other.loss, "%s with shares %s: loss %.9g, not %.9g", selector,
                      s->shares ? s->shares : "auto", other.loss, first.loss);
        team_free(&other);
    }
    team_free(&first);
}

static void
compare_splits(team_run run)
{
    compare(run, true);
}

static void
compare_some_splits(team_run run)
{
    compare(run, false);
}

/* The core groups of a whole CPU are one more split. */
START_TEST(core_groups)
{
    team_run run = {.net = TEAM_MLP, .any_split = true, .selector = root, .steps = 10};
    team_outcome whole, groups;
    yoke_device_info info;
    yoke_selection *selection;

    ASSERT_OK(yoke_selection_create(devices.context, root, NULL, &selection));
    ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, 0), &info));
    yoke_selection_destroy(selection);
    if (info.type != YOKE_DEVICE_CPU || info.compute_units < 2 || test_in_matrix())
        TEST_NOT_HERE("no CPU of several units");
    team_train(devices.context, &run, &whole);
    run.core_groups = YOKE_CORE_GROUPS_ALWAYS;
    team_train(devices.context, &run, &groups);
    ck_assert(team_same_bits(&whole, &groups));
    ck_assert(whole.loss == groups.loss);
    team_free(&whole);
    team_free(&groups);
}
END_TEST

/* Evaluation and outputs, over samples that are no whole number of granules. */
START_TEST(evaluations)
{
    static float y[EVALUATED * TEAM_CLASSES], first[EVALUATED * TEAM_CLASSES];
    yoke_result result, expected = {0};
    char selector[160];

    for (size_t i = 0; i < YKI_COUNT(splits); i++) {
        team_run run = {.net = TEAM_MLP, .any_split = true, .selector = selector};
        float *into = i == 0 ? first : y;
        yoke_dataset *dataset;
        yoke_trainer *t;
        yoke_feed feeds[2];

        if (!is_split_for_here(i))
            continue;
        snprintf(selector, sizeof selector, "%s%s", root, splits[i].parts);
        run.shares = splits[i].shares;
        t = team_trainer(devices.context, &run);
        dataset = team_dataset(&run, 0, EVALUATED);
        ASSERT_OK(yoke_trainer_evaluate(t, dataset, &result));
        yoke_dataset_destroy(dataset);
        ck_assert(team_feeds(&run, 0, EVALUATED, feeds) > 0);
        ASSERT_OK(yoke_trainer_predict(t, "y", EVALUATED, feeds, 1, into, YKI_COUNT(y)));
        if (i == 0)
            expected = result;
        ck_assert_msg(result.loss == expected.loss, "%s: loss %.17g, not %.17g", selector,
                      result.loss, expected.loss);
        ck_assert(result.metrics[0] == expected.metrics[0] && result.count == expected.count);
        ck_assert_int_eq(memcmp(into, first, sizeof first), 0);
        yoke_trainer_destroy(t);
    }
}
END_TEST

/* Steps are made again in mid-run of `initialize` as in a new trainer. */
START_TEST(a_new_beginning)
{
    team_run run = {.net = TEAM_MLP, .any_split = true, .selector = root};
    yoke_trainer *t = team_trainer(devices.context, &run);
    char first[33], second[33];

    for (int i = 0; i < 5; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    ASSERT_OK(yoke_trainer_hash(t, NULL, first));
    ck_assert_int_eq(t->crew.exact.repeats, 1);
    ASSERT_OK(yoke_trainer_initialize(t, 1));
    for (int i = 0; i < 5; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    ASSERT_OK(yoke_trainer_hash(t, NULL, second));
    ck_assert_int_eq(t->crew.exact.repeats, 2);
    ck_assert_str_eq(first, second);
    ASSERT_OK(yoke_trainer_hash(t, "dense1.weight", second));
    ck_assert_str_ne(first, second);
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "dense1.wait",
                   yoke_trainer_hash(t, "dense1.wait", second));
    yoke_trainer_destroy(t);
}
END_TEST

static bool
stop_early(void *user, const yoke_result *result)
{
    return result->step >= *(const int64_t *)user;
}

/* The newest checkpoint tells the hash of its weights. */
static void
check_checkpoint(const char *dir, const char *hash)
{
    yoke_checkpoint *c;

    ASSERT_OK(yoke_checkpoint_open(dir, &c));
    ck_assert_str_eq(yoke_checkpoint_get_info(c)->weights, hash);
    ck_assert_int_eq(yoke_checkpoint_get_info(c)->granule, 3);
    yoke_checkpoint_destroy(c);
}

/* A run that goes on from a checkpoint on another team has the bits of one without interruption;
 * what images are changed to goes by sample and epoch. */
START_TEST(resumed_elsewhere)
{
    static const yoke_fit_options whole = {.epochs = 3};
    static const yoke_augmentation changes = {
        .flip = true, .shift = 1, .noise = 0.1f, .shift_part = 0.5f};
    team_run run = {.net = TEAM_CONV, .any_split = true, .selector = root, .last = 0};
    const char *dir = scratch_path("resumed");
    char selector[160], expected[33], got[33];
    int64_t limit;
    yoke_fit_options part = {
        .epochs = 3, .checkpoint_every = 3, .on_step = stop_early, .user = &limit};
    yoke_dataset *dataset = team_dataset(&run, 0, 100);
    yoke_trainer *t = team_trainer(devices.context, &run);

    ASSERT_OK(yoke_dataset_set_augmentation(dataset, &changes));
    ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &whole));
    ASSERT_OK(yoke_trainer_hash(t, NULL, expected));
    yoke_trainer_destroy(t);
    part.checkpoint_dir = dir;
    for (int i = 0; i < 3; i++) {
        snprintf(selector, sizeof selector, "%s%s", root, (const char *[]){"/2", "", "/3"}[i]);
        run.selector = selector;
        run.shares = (const char *[]){"80,20", NULL, "1,0,2"}[i];
        part.resume = i > 0;
        limit = i < 2 ? 4 + 3 * i : 1000;
        t = team_trainer(devices.context, &run);
        ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &part));
        ASSERT_OK(yoke_trainer_hash(t, NULL, got));
        yoke_trainer_destroy(t);
    }
    ck_assert_str_eq(expected, got);
    check_checkpoint(dir, got);
    yoke_dataset_destroy(dataset);
}
END_TEST

START_TEST(splits_have_the_same_bits)
{
    compare_splits((team_run){.net = TEAM_MLP});
}
END_TEST

START_TEST(a_short_batch)
{
    compare_some_splits((team_run){.net = TEAM_MLP, .last = 7, .granule = 2, .steps = 10});
}
END_TEST

START_TEST(micro_batches)
{
    compare_some_splits((team_run){.net = TEAM_MLP, .accumulate = 3, .last = 5, .steps = 10});
}
END_TEST

/* Without batch norms, whole granules are the same in a batch and in its micro-batches. */
START_TEST(micro_batches_are_the_batch)
{
    const yoke_wire_choice wires[] = {YOKE_WIRE_I64, YOKE_WIRE_I32, YOKE_WIRE_I16};
    team_run run = {.net = TEAM_DROPOUT,
                    .any_split = true,
                    .selector = root,
                    .granule = 4,
                    .wire = wires[_i],
                    .steps = 6};
    team_outcome whole, pieces;

    team_train(devices.context, &run, &whole);
    run.accumulate = 3;
    team_train(devices.context, &run, &pieces);
    ck_assert(team_same_bits(&whole, &pieces));
    ck_assert(whole.loss == pieces.loss);
    team_free(&whole);
    team_free(&pieces);
}
END_TEST

START_TEST(clipping_by_norm)
{
    compare_some_splits((team_run){.net = TEAM_REGRESSION, .clip_norm = 0.05f, .steps = 10});
}
END_TEST

/* Batch norms, whose granules go through the network together. The last batches are short. */
START_TEST(statistics_of_the_batch)
{
    compare_splits((team_run){.net = TEAM_CONV, .last = 10, .steps = 6});
    compare_some_splits((team_run){.net = TEAM_CONV, .accumulate = 3, .last = 5, .steps = 6});
}
END_TEST

START_TEST(adamw)
{
    compare_some_splits(
        (team_run){.net = TEAM_MLP, .optimizer = yoke_adamw(1e-3f, 0.01f), .steps = 10});
}
END_TEST

START_TEST(dropout_and_small_buckets)
{
    compare_some_splits((team_run){.net = TEAM_DROPOUT, .bucket_bytes = 1024, .steps = 10});
}
END_TEST

START_TEST(most_labels_ignored)
{
    compare_some_splits((team_run){.net = TEAM_MLP, .ignored = TEAM_ALL_BUT_LAST, .steps = 10});
}
END_TEST

/* In narrower integers each granule is rounded, which no split may change; other bits than in wide
 * ones, and near them. */
START_TEST(narrow_integers)
{
    const yoke_wire_choice wire = _i ? YOKE_WIRE_I16 : YOKE_WIRE_I32;
    team_run run = {.net = TEAM_MLP, .any_split = true, .selector = root, .steps = 10};
    team_outcome wide, narrow;
    const char *worst;

    compare_splits(
        (team_run){.net = TEAM_MLP, .wire = wire, .accumulate = 3, .last = 5, .steps = 6});
    compare_some_splits((team_run){.net = TEAM_CONV, .wire = wire, .last = 10, .steps = 5});
    team_train(devices.context, &run, &wide);
    run.wire = wire;
    team_train(devices.context, &run, &narrow);
    ck_assert(!team_same_bits(&wide, &narrow));
    ck_assert_msg(team_distance(&narrow, &wide, &worst) < (_i ? 0.02 : 1e-5), "%s: %g", worst,
                  team_distance(&narrow, &wide, &worst));
    team_free(&wide);
    team_free(&narrow);
}
END_TEST

/* ---- refusals ---- */

static yoke_status
try_options(yoke_graph *graph, yoke_reproducible_choice reproducible, int64_t granule,
            yoke_wire_choice wire)
{
    const yoke_trainer_options o = {.batch = 2048,
                                    .reproducible = reproducible,
                                    .granule = granule,
                                    .wire = wire,
                                    .level = YOKE_PLAN_ESTIMATE};
    yoke_trainer *trainer = NULL;
    yoke_team *team;
    yoke_status status;

    ASSERT_OK(yoke_team_create(devices.context, root, NULL, &team));
    status = yoke_trainer_create(team, graph, &o, &trainer);
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    return status;
}

START_TEST(what_is_refused)
{
    const team_run run = {.net = TEAM_MLP, .any_split = true, .selector = root};
    yoke_graph *g = team_graph(TEAM_MLP), *local = team_graph(TEAM_LOCAL), *placed;
    yoke_trainer *t;

    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "granule is 4; must be 0",
                   try_options(g, YOKE_REPRODUCIBLE_RUNS, 4, 0));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "granule",
                   try_options(g, YOKE_REPRODUCIBLE_ANY_SPLIT, -1, 0));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "reproducible is 3",
                   try_options(g, (yoke_reproducible_choice)3, 0, 0));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "wire is YOKE_WIRE_I16",
                   try_options(g, YOKE_REPRODUCIBLE_RUNS, 0, YOKE_WIRE_I16));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "wire is 3",
                   try_options(g, YOKE_REPRODUCIBLE_ANY_SPLIT, 0, (yoke_wire_choice)3));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "of 16 bits must be at most 256",
                   try_options(g, YOKE_REPRODUCIBLE_ANY_SPLIT, 4, YOKE_WIRE_I16));
    ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "statistics of the samples of each device",
                   try_options(local, YOKE_REPRODUCIBLE_ANY_SPLIT, 0, 0));
    ASSERT_OK(yoke_graph_create(&placed));
    yoke_graph_set_place(placed, "left");
    yoke_graph_set_loss(
        placed, yoke_mean(placed, yoke_input(placed, "x", YOKE_F32, yoke_shape(3)), NULL, 0));
    ASSERT_OK(yoke_graph_status(placed));
    ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "places",
                   try_options(placed, YOKE_REPRODUCIBLE_ANY_SPLIT, 0, 0));
    yoke_graph_destroy(placed);
    yoke_graph_destroy(g);
    yoke_graph_destroy(local);
    t = team_trainer(devices.context, &run);
    ASSERT_OK(team_step(&run, t, 0, NULL));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "nothing is given", yoke_trainer_step(t, 24, NULL, 0, NULL));
    yoke_trainer_destroy(t);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("the same bits on any split");
    TCase *tc = test_case(suite, "splits");

    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, splits_have_the_same_bits);
    tcase_add_test(tc, a_short_batch);
    tcase_add_test(tc, micro_batches);
    tcase_add_test(tc, clipping_by_norm);
    tcase_add_test(tc, statistics_of_the_batch);
    tcase_add_test(tc, adamw);
    tcase_add_test(tc, dropout_and_small_buckets);
    tcase_add_test(tc, most_labels_ignored);
    tcase_add_test(tc, core_groups);
    tcase_add_test(tc, evaluations);
    tc = test_case(suite, "micro-batches");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_loop_test(tc, micro_batches_are_the_batch, 0, 3);
    tc = test_case(suite, "integers");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_loop_test(tc, narrow_integers, 0, 2);
    tc = test_case(suite, "in mid-run");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, a_new_beginning);
    tcase_add_test(tc, resumed_elsewhere);
    tcase_add_test(tc, what_is_refused);
    return suite;
}

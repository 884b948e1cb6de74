/* SPDX-License-Identifier: Apache-2.0
 *
 * check_any_split.c - with YOKE_REPRODUCIBLE_ANY_SPLIT the weights are the same bits however a
 * batch is split.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "team/crew.h"
#include "train/runs.h"
#include "train/trainer.h"

static test_devices devices;
static char root[128];

static void
open_devices(void)
{
    yoke_device_info info[2];

    if (!test_in_matrix())
        setenv("POCL_MAX_PTHREAD_COUNT", "6", 1);
    ck_assert(team_find(TEST_AS_IS, &devices, info));
    snprintf(root, sizeof root, "%s", info[0].parent);
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

/* ---- splits ---- */

typedef struct split {
    const char *parts, *shares;
} split;

static const split splits[] = {{"", NULL},      {"/2", "even"}, {"/2", "80,20"},  {"/2", "1,0"},
                               {"/2", "0,1"},   {"/2", "1,3"},  {"/2", NULL},     {"/3", "even"},
                               {"/3", "3,0,1"}, {"/5", "even"}, {"/1+3", "even"}, {"/1+1+4", NULL}};

/* Trains on every split and compares with the first. */
static void
compare_splits(team_run run)
{
    team_outcome first, other;
    char selector[160];

    run.any_split = true;
    for (size_t i = 0; i < YKI_COUNT(splits); i++) {
        const split *s = &splits[i];

        if (strchr(s->parts, '+') && test_in_matrix())
            continue; /* slices are equal */
        snprintf(selector, sizeof selector, "%s%s", root, s->parts);
        run.selector = selector;
        run.shares = s->shares;
        team_train(devices.context, &run, i == 0 ? &first : &other);
        if (i == 0) {
            team_run usual = run;

            usual.any_split = false;
            usual.granule = 0;
            team_train(devices.context, &usual, &other);
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

START_TEST(splits_have_the_same_bits)
{
    compare_splits((team_run){.net = TEAM_MLP});
}
END_TEST

START_TEST(a_short_batch)
{
    compare_splits((team_run){.net = TEAM_MLP, .last = 7, .granule = 2, .steps = 10});
}
END_TEST

START_TEST(micro_batches)
{
    compare_splits((team_run){.net = TEAM_MLP, .accumulate = 3, .last = 5, .steps = 10});
}
END_TEST

START_TEST(clipping_by_norm)
{
    compare_splits((team_run){.net = TEAM_REGRESSION, .clip_norm = 0.05f, .steps = 10});
}
END_TEST

START_TEST(adamw)
{
    compare_splits((team_run){.net = TEAM_MLP, .optimizer = yoke_adamw(1e-3f, 0.01f), .steps = 10});
}
END_TEST

START_TEST(dropout_and_small_buckets)
{
    compare_splits((team_run){.net = TEAM_DROPOUT, .bucket_bytes = 1024, .steps = 10});
}
END_TEST

START_TEST(most_labels_ignored)
{
    compare_splits((team_run){.net = TEAM_MLP, .ignored = TEAM_ALL_BUT_LAST, .steps = 10});
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
    tcase_add_test(tc, adamw);
    tcase_add_test(tc, dropout_and_small_buckets);
    tcase_add_test(tc, most_labels_ignored);
    return suite;
}

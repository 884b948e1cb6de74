/* SPDX-License-Identifier: Apache-2.0
 *
 * check_team_faults.c - a device of a team fails in step k: at each command that the
 * step enqueues on it, in turn.
 *
 * Every time there is an error that names the device and the step, the others come to
 * rest, the weights can be read and are those of one completed step to the last bit, no
 * further step is possible, and what is destroyed is gone. Where devices update a part of the
 * weights each, the weights are that or are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fault.h"
#include "support/scratch.h"
#include "train/runs.h"
#include "train/trainer.h"

enum {
    FAILING = 3, /* steps before it are completed */
    MOST = 600,  /* commands tried */
    QUIET = 12,  /* so many without a failure: the step has no more */
    EACH = 12,   /* with YOKE_TEST_QUICK=1, of the commands after so many only every third */
    QUICK_STEP = 3
};

static test_devices devices;
static char device_id[64], layer_name[FAULT_NAME_SIZE];
static const fault_layer *faults;
static unsigned refusals;  /* of weights that are in part old */
static size_t failing = 1; /* the device of the team */
static bool lost;          /* nothing behind the command that fails works either */
static bool tears;         /* weights of which a part is old are refused */

static void
open_devices(void)
{
    faults = fault_open();
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

/* The device that fails, by yoke's name and by the layer's. */
static void
name_device(const char *selector)
{
    yoke_selection *selection;
    yoke_device *device;
    yoke_device_info info;

    ASSERT_OK(yoke_selection_create(devices.context, selector, NULL, &selection));
    device = yoke_selection_get(selection, failing);
    ASSERT_OK(yoke_device_get_info(device, &info));
    snprintf(device_id, sizeof device_id, "%s", info.id);
    /* Two roots of one driver have one name; with no other driver both count them alike. */
    if (info.virtual_kind == YOKE_VIRTUAL_NONE)
        snprintf(layer_name, sizeof layer_name, "%s", info.id);
    else
        ck_assert(fault_device_name(device, layer_name, sizeof layer_name));
    yoke_selection_destroy(selection);
}

/* Weights after each of the first steps, of a run without failure. */
static void
completed_steps(const team_run *run, team_outcome outcomes[FAILING + 2])
{
    yoke_trainer *t = team_trainer(devices.context, run);

    for (int i = 0; i <= FAILING + 1; i++) {
        ASSERT_OK(team_read(t, &outcomes[i]));
        ASSERT_OK(team_step(run, t, i, NULL));
    }
    ASSERT_OK(yoke_trainer_wait(t));
    yoke_trainer_destroy(t);
}

/* Neither read, nor hashed, nor saved. */
static void
assert_refused(yoke_trainer *t)
{
    const char *why = "a part of this process's weights is of another state";
    team_outcome now;
    char hash[33];

    ASSERT_STATUS(YOKE_ERROR_STATE, team_read(t, &now));
    ASSERT_DETAIL(why);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_hash(t, NULL, hash));
    ASSERT_DETAIL(why);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_save(t, scratch_path("old")));
    ASSERT_DETAIL(why);
    refusals++;
}

/* The weights are one of two, or parts of both that are refused. `detail`: what says which; NULL:
 * nothing does. */
static void
assert_whole(yoke_trainer *t, uint64_t n, const char *detail, const team_outcome outcomes[2])
{
    const char *said = detail ? strstr(detail, "the weights are those of step ") : NULL;
    int step = said ? atoi(said + strlen("the weights are those of step ")) : -1;
    team_outcome now;
    yoke_status status = team_read(t, &now);

    if (tears && status != YOKE_OK) {
        assert_refused(t);
        return;
    }
    ASSERT_OK(status);
    ck_assert_msg(team_same_bits(&now, &outcomes[0]) || team_same_bits(&now, &outcomes[1]),
                  "command %llu: the weights are a mixture (%s)", (unsigned long long)n,
                  detail ? detail : "");
    for (int i = 0; i < 2; i++)
        if (step == FAILING + i)
            ck_assert_msg(team_same_bits(&now, &outcomes[i]),
                          "command %llu: the weights are those of another step (%s)",
                          (unsigned long long)n, detail);
    team_free(&now);
}

/* The trainer that failed with `status`: what it says, what it still gives, what it refuses. */
static void
assert_stands_still(yoke_trainer *t, const team_run *run, yoke_status status, uint64_t n,
                    const team_outcome outcomes[FAILING + 2])
{
    char detail[512], place[128];

    ck_assert_int_ne(status, YOKE_OK);
    snprintf(detail, sizeof detail, "%s", yoke_last_error());
    snprintf(place, sizeof place, "step %d, device %s:", FAILING + 1, device_id);
    ck_assert_msg(strstr(detail, place) != NULL, "command %llu: no \"%s\" in: %s",
                  (unsigned long long)n, place, detail);
    assert_whole(t, n, detail, outcomes + FAILING);
    ASSERT_STATUS(YOKE_ERROR_STATE, team_step(run, t, FAILING + 1, NULL));
    ASSERT_DETAIL(device_id);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_wait(t));
}

/* A trainer that has done a few steps. */
static yoke_trainer *
trained(const team_run *run)
{
    yoke_trainer *t = team_trainer(devices.context, run);

    for (int i = 0; i < FAILING; i++)
        ASSERT_OK(team_step(run, t, i, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    return t;
}

/* One trainer whose command n of step FAILING fails; false: nothing failed. */
static bool
fail_at(const team_run *run, uint64_t n, const team_outcome outcomes[FAILING + 2])
{
    yoke_trainer *t = trained(run);
    yoke_status status;

    ck_assert((lost ? faults->lose : faults->fail_enqueue)(layer_name, 2 * n + 1, n,
                                                           FAULT_CL_OUT_OF_RESOURCES));
    faults->step(2 * n + 1); /* a number that no other rule has */
    status = team_step(run, t, FAILING, NULL);
    if (status == YOKE_OK)
        status = yoke_trainer_wait(t);
    faults->step(2 * n + 2);
    if (status != YOKE_OK) {
        assert_stands_still(t, run, status, n, outcomes);
    } else { /* there is no such command, or it is one of the update, which is tried again */
        team_outcome now;

        ASSERT_OK(team_read(t, &now));
        ck_assert_msg(team_same_bits(&now, &outcomes[FAILING + 1]),
                      "command %llu: not the weights of the step", (unsigned long long)n);
        team_free(&now);
    }
    yoke_trainer_destroy(t);
    return status != YOKE_OK;
}

static void
fail_everywhere(const char *selector, team_run run)
{
    team_outcome outcomes[FAILING + 2];
    bool quick;
    uint64_t failed = 0, n = 1, last = 0;
    yoke_selection *kept;

    run.selector = selector;
    name_device(selector);
    /* Weights that are divided are not shared after an update. */
    tears |= run.shard && run.shard != YOKE_SHARD_WEIGHTS;
    /* As long as the devices are held in this split, their programs stay built. */
    ASSERT_OK(yoke_selection_create(devices.context, selector, NULL, &kept));
    quick = getenv("YOKE_TEST_QUICK") && !tears; /* few commands tear */
    completed_steps(&run, outcomes);
    for (; n < MOST && n < last + QUIET; n += quick && n > EACH ? QUICK_STEP : 1)
        if (fail_at(&run, n, outcomes)) {
            failed++;
            last = n;
        }
    printf("# %llu commands of a step failed on %s, net %d\n", (unsigned long long)failed,
           device_id, (int)run.net);
    ck_assert_uint_gt(failed, 10);
    ck_assert_uint_lt(n, MOST);
    ck_assert_int_eq(refusals > 0, tears);
    for (int i = 0; i <= FAILING + 1; i++)
        team_free(&outcomes[i]);
    yoke_selection_destroy(kept);
}

static bool
open_setup(test_setup setup)
{
    return test_devices_find(setup, &devices);
}

#define SETUP(name, setup, ...)                                                                    \
    TEAM_SETUP(name, setup, open_setup, fail_everywhere(devices.selector, (team_run){__VA_ARGS__}))

SETUP(halves, TEST_POCL_HALVES, .shares = "even", .net = TEAM_MLP)
SETUP(halves_in_parts, TEST_POCL_HALVES, .shares = "even", .net = TEAM_MLP, .accumulate = 2,
      .bucket_bytes = 256)
SETUP(halves_with_batch_norm, TEST_POCL_HALVES, .shares = "80,20", .net = TEAM_CONV)
SETUP(roots, TEST_POCL_ROOTS, .shares = "even", .net = TEAM_MLP)

SETUP(halves_in_stages, TEST_POCL_HALVES, .stages = 2, .accumulate = 4, .net = TEAM_DROPOUT)
SETUP(roots_in_stages, TEST_POCL_ROOTS, .stages = 2, .accumulate = 4, .net = TEAM_MLP)

/* One memory, two kinds of kernels: either may have to do the rest of an update for the other. */
SETUP(beside, TEST_POCL_BESIDE, .shares = "even", .net = TEAM_MLP, .bucket_bytes = 256,
      .optimizer = yoke_adam(0.01f), .clip_norm = 0.5f)

/* The first device also updates the running statistics. */
static void
fail_one(size_t which, bool lose)
{
    const team_run run = {.shares = "80,20", .net = TEAM_CONV, .bucket_bytes = 512};

    failing = which;
    lost = lose;
    fail_everywhere(devices.selector, run);
}

TEAM_SETUP(beside_first, TEST_POCL_BESIDE, open_setup, fail_one(0, false))
TEAM_SETUP(beside_lost, TEST_POCL_BESIDE, open_setup, fail_one(0, true))
TEAM_SETUP(halves_first, TEST_POCL_HALVES, open_setup, fail_one(0, false))
/* Nobody else can do the update of a device that has memory of its own. Weights are read from the
 * first one: if it is lost in the midst of its update, they are refused. */
TEAM_SETUP(root_lost, TEST_POCL_ROOTS, open_setup, {
    tears = true;
    fail_one(0, true);
})
TEAM_SETUP(other_root_lost, TEST_POCL_ROOTS, open_setup, fail_one(1, true))
TEAM_SETUP(halves_lost, TEST_POCL_HALVES, open_setup, fail_one(0, true))

SETUP(roots_with_shards, TEST_POCL_ROOTS, .shares = "even", .net = TEAM_MLP,
      .shard = YOKE_SHARD_STATE, .optimizer = yoke_sgd(0.1f, 0.9f))
SETUP(roots_with_shards_of_gradients, TEST_POCL_ROOTS, .shares = "even", .net = TEAM_MLP,
      .shard = YOKE_SHARD_GRADIENTS, .optimizer = yoke_sgd(0.1f, 0.9f), .bucket_bytes = 512)

SETUP(roots_with_shards_of_weights, TEST_POCL_ROOTS, .shares = "even", .net = TEAM_MLP,
      .shard = YOKE_SHARD_WEIGHTS, .optimizer = yoke_sgd(0.1f, 0.9f), .bucket_bytes = 512)

/* To save averages they take the places of the weights, and back: each command fails in turn. */
static void
fail_averages(yoke_shard_choice shard)
{
    const team_run run = {.selector = devices.selector,
                          .shares = "even",
                          .net = TEAM_MLP,
                          .average = 0.9f,
                          .shard = shard};
    team_outcome outcomes[2];
    yoke_trainer *t = trained(&run);
    yoke_status status = YOKE_OK;
    uint64_t n = 1;

    name_device(devices.selector);
    tears = true;
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(team_read(t, &outcomes[i]));
        ASSERT_OK(yki_trainer_exchange_average(t));
    }
    ck_assert(!team_same_bits(&outcomes[0], &outcomes[1]));
    yoke_trainer_destroy(t);
    do {
        t = trained(&run);
        ck_assert(faults->fail_enqueue(layer_name, 2 * n + 1, n, FAULT_CL_OUT_OF_RESOURCES));
        faults->step(2 * n + 1);
        status = yoke_trainer_save(t, scratch_path("averages"));
        faults->step(2 * n + 2);
        if (status != YOKE_OK) {
            ASSERT_STATUS(YOKE_ERROR_STATE, team_step(&run, t, FAILING, NULL));
            assert_whole(t, n, NULL, outcomes);
        }
        yoke_trainer_destroy(t);
    } while (status != YOKE_OK && n++ < MOST);
    ck_assert_uint_lt(n, MOST);
    ck_assert_uint_ge(refusals, 2); /* on the way there, and on the way back */
    team_free(&outcomes[0]);
    team_free(&outcomes[1]);
}

TEAM_SETUP(averages, TEST_POCL_ROOTS, open_setup, fail_averages(YOKE_SHARD_NOTHING))
TEAM_SETUP(averages_of_shards, TEST_POCL_ROOTS, open_setup, fail_averages(YOKE_SHARD_STATE))

/* A label out of range is found before the step: nothing has happened, and training goes on. */
START_TEST(target_out_of_range)
{
    team_run run = {.shares = "even"};
    yoke_feed feeds[2];
    team_outcome before, after;
    int32_t labels[24];
    yoke_trainer *t;
    size_t count;

    if (!test_devices_find(TEST_POCL_HALVES, &devices))
        TEST_SKIP("%s", devices.missing);
    run.selector = devices.selector;
    t = team_trainer(devices.context, &run);
    ASSERT_OK(team_step(&run, t, 0, NULL));
    ASSERT_OK(team_read(t, &before));
    count = team_feeds(&run, 0, 24, feeds);
    memcpy(labels, feeds[1].data, sizeof labels);
    labels[17] = TEAM_CLASSES;
    feeds[1].data = labels;
    ASSERT_STATUS(YOKE_ERROR_VALUE, yoke_trainer_step(t, 24, feeds, count, NULL));
    ASSERT_DETAIL("target");
    ASSERT_DETAIL("17");
    ASSERT_OK(team_read(t, &after));
    ck_assert(team_same_bits(&after, &before));
    ck_assert_int_eq(yoke_trainer_get_step(t), 1);
    ASSERT_OK(team_step(&run, t, 1, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    team_free(&before);
    team_free(&after);
    yoke_trainer_destroy(t);
    close_devices();
}
END_TEST

/* A case for each, for those who want one of them (CK_RUN_CASE). */
static void
add(Suite *suite, const char *name, const TTest *test)
{
    TCase *tc = test_case(suite, name);

    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, open_devices, NULL);
    tcase_add_checked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_test(tc, test);
}

Suite *
test_suite(void)
{
    Suite *suite = suite_create("faults of a team");

    fault_require();
    add(suite, "halves", halves);
    add(suite, "parts", halves_in_parts);
    add(suite, "batch norm", halves_with_batch_norm);
    add(suite, "roots", roots);
    add(suite, "stages", halves_in_stages);
    add(suite, "stages apart", roots_in_stages);
    add(suite, "beside", beside);
    add(suite, "first beside", beside_first);
    add(suite, "lost beside", beside_lost);
    add(suite, "first half", halves_first);
    add(suite, "lost half", halves_lost);
    add(suite, "lost root", root_lost);
    add(suite, "lost other root", other_root_lost);
    add(suite, "shards", roots_with_shards);
    add(suite, "gradients", roots_with_shards_of_gradients);
    add(suite, "weights", roots_with_shards_of_weights);
    add(suite, "averages", averages);
    add(suite, "averages of shards", averages_of_shards);
    add(suite, "target", target_out_of_range);
    return suite;
}

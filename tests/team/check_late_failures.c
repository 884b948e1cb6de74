/* SPDX-License-Identifier: Apache-2.0
 *
 * check_late_failures.c - what is enqueued fails when its turn comes, and no call has failed: on a
 * device alone, or on one of two that have one memory. Updates are enqueued by then, and are done
 * on one device, on both or on none. So the weights are refused, unless they are those of the step
 * that the error names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cl.h"
#include "train/runs.h"
#include "train/trainer.h"

enum { BEFORE = 2 }; /* steps before a device is held */

static test_devices devices;

static bool
open_setup(test_setup setup)
{
    return team_find(setup, &devices, NULL);
}

static void
break_gate(const yki_event *gate)
{
    ck_assert_int_eq(clSetUserEventStatus(gate->cl, CL_OUT_OF_RESOURCES), CL_SUCCESS);
}

static void
assert_refused(yoke_trainer *t)
{
    team_outcome now;

    ck_assert_msg(strstr(yoke_last_error(), "a part of the weights is of another state") != NULL,
                  "%s", yoke_last_error());
    ASSERT_REFUSED(YOKE_ERROR_STATE, "a failure came in an update", team_read(t, &now));
}

/* The queue fails behind `steps` steps. */
static void
fail_behind(const team_run *run, size_t member, bool side, int steps)
{
    yoke_trainer *t = team_trained(devices.context, run, BEFORE);
    yki_member *m = &t->crew.members[member];
    yki_event gate = team_hold(side && m->side ? m->side : m->replica->queue);

    ck_assert_uint_eq(t->crew.group_count, 1);
    for (int i = 0; i < steps; i++)
        ASSERT_OK(team_step(run, t, BEFORE + i, NULL));
    break_gate(&gate);
    yki_event_release(&gate);
    ck_assert_int_ne(yoke_trainer_wait(t), YOKE_OK);
    assert_refused(t);
    yoke_trainer_destroy(t);
}

/* What fails behind the newest update takes nothing from it. */
static void
fail_at_rest(const team_run *run, size_t member)
{
    yoke_trainer *t = team_trained(devices.context, run, BEFORE);
    team_outcome before, now;
    yki_event gate;

    ASSERT_OK(team_read(t, &before));
    gate = team_hold(t->crew.members[member].replica->queue);
    break_gate(&gate);
    yki_event_release(&gate);
    ck_assert_int_ne(yoke_trainer_wait(t), YOKE_OK);
    ASSERT_DETAIL("the weights are those of step 2");
    ASSERT_OK(team_read(t, &now));
    ck_assert(team_same_bits(&now, &before));
    team_free(&now);
    team_free(&before);
    yoke_trainer_destroy(t);
}

static void
updates_are_missing(const char *selector, size_t members)
{
    const team_run runs[] = {
        {.net = TEAM_MLP, .bucket_bytes = 256},
        {.net = TEAM_CONV, .optimizer = yoke_adam(0.01f), .clip_norm = 0.5f},
    };

    for (size_t i = 0; i < YKI_COUNT(runs); i++) {
        team_run run = runs[i];

        run.selector = selector;
        run.shares = members > 1 ? "even" : NULL;
        for (size_t k = 0; k < members; k++) {
            for (int side = 0; side < (members > 1 ? 2 : 1); side++)
                for (int steps = 1; steps <= YKI_FLIGHT; steps++)
                    fail_behind(&run, k, side, steps);
            fail_at_rest(&run, k);
        }
    }
}

TEAM_SETUP(beside, TEST_POCL_BESIDE, open_setup, updates_are_missing(devices.selector, 2))
TEAM_SETUP(halves, TEST_POCL_HALVES, open_setup, updates_are_missing(devices.selector, 2))
TEAM_SETUP(alone, TEST_POCL_ROOTS, open_setup, updates_are_missing("cpu:0", 1))

Suite *
test_suite(void)
{
    Suite *suite = suite_create("late failures");
    TCase *tcase = test_case(suite, "late failures");

    tcase_add_test(tcase, beside);
    tcase_add_test(tcase, halves);
    tcase_add_test(tcase, alone);
    return suite;
}

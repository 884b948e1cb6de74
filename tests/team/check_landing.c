/* SPDX-License-Identifier: Apache-2.0
 *
 * check_landing.c - sums between devices that share no memory are added while the caller goes on: a
 * step returns though a device is late, and has the bits of one whose caller waits. If a device
 * fails, the step fails without hanging, names it, and changes nothing on the others.
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

/* Of two devices that share memory, or whose driver has no gates, nothing lands. */
static bool
lands(const team_run *run)
{
    yoke_trainer *t = team_trainer(devices.context, run);
    bool there = t->crew.landings != NULL;

    yoke_trainer_destroy(t);
    return there;
}

/* ---- the caller does not wait ---- */

static void
return_before(const team_run *run, size_t late)
{
    yoke_trainer *t = team_trained(devices.context, run, BEFORE);
    team_outcome outcome, wanted;
    yki_event gate = team_hold(t->crew.members[late].replica->queue);

    for (int i = BEFORE; i < BEFORE + YKI_FLIGHT; i++)
        ASSERT_OK(team_step(run, t, i, NULL)); /* would hang */
    yki_gate_open(&gate);
    yki_event_release(&gate);
    ASSERT_OK(yoke_trainer_wait(t));
    ASSERT_OK(team_read(t, &outcome));
    yoke_trainer_destroy(t);
    t = team_trained(devices.context, run, BEFORE);
    for (int i = BEFORE; i < BEFORE + YKI_FLIGHT; i++)
        ASSERT_OK(team_step(run, t, i, NULL));
    ASSERT_OK(team_read(t, &wanted));
    ck_assert(team_same_bits(&outcome, &wanted));
    team_free(&outcome);
    team_free(&wanted);
    yoke_trainer_destroy(t);
}

static void
steps_return(void)
{
    const team_run run = {
        .selector = devices.selector, .shares = "even", .net = TEAM_MLP, .bucket_bytes = 256};

    if (!lands(&run))
        TEST_NOT_HERE("no sum lands on these devices");
    for (size_t late = 0; late < 2; late++)
        return_before(&run, late);
}

/* ---- bits ---- */

static void
train(const team_run *run, bool waits, team_outcome *outcome)
{
    yoke_trainer *t = team_trainer(devices.context, run);
    yoke_result result;

    if (waits)
        yki_landings_destroy(&t->crew);
    for (int i = 0; i < TEAM_STEPS; i++)
        ASSERT_OK(team_step(run, t, i, i + 1 < TEAM_STEPS ? NULL : &result));
    ASSERT_OK(team_read(t, outcome));
    outcome->loss = result.loss;
    yoke_trainer_destroy(t);
}

static void
bits_are_those_of_a_caller_that_waits(void)
{
    const team_run runs[] = {
        {.shares = "even", .net = TEAM_MLP, .bucket_bytes = 256},
        {.shares = "80,20", .net = TEAM_CONV, .clip_norm = 0.5f},
        {.shares = "even", .net = TEAM_CONV, .accumulate = 3, .bucket_bytes = 512},
        {.shares = "1,0", .net = TEAM_MLP, .ignored = TEAM_FIRST_IGNORED},
        {.shares = "even", .net = TEAM_MLP, .shard = YOKE_SHARD_STATE},
    };

    for (size_t i = 0; i < YKI_COUNT(runs); i++) {
        team_run run = runs[i];
        team_outcome outcome, wanted;

        run.selector = devices.selector;
        if (i == 0 && !lands(&run))
            TEST_NOT_HERE("no sum lands on these devices");
        train(&run, false, &outcome);
        train(&run, true, &wanted);
        ck_assert_msg(team_same_bits(&outcome, &wanted), "run %zu: other weights", i);
        ck_assert_msg(outcome.loss == wanted.loss, "run %zu: another loss", i);
        team_free(&outcome);
        team_free(&wanted);
    }
}

/* ---- failures ---- */

typedef struct bytes {
    unsigned char *at;
    size_t count;
} bytes;

static void
add_buffer(bytes *to, yki_buffer *buffer)
{
    const size_t size = buffer ? yki_buffer_size(buffer) : 0;

    if (size == 0)
        return;
    to->at = realloc(to->at, to->count + size);
    ck_assert_ptr_nonnull(to->at);
    ASSERT_OK(yki_buffer_get(buffer, 0, size, to->at + to->count));
    to->count += size;
}

/* All that a step may change on a device: weights, running statistics, and what is kept beside the
 * weights. */
static bytes
kept_by(yki_member *m)
{
    const yki_weights *w = m->replica->weights;
    bytes all = {0};

    ASSERT_OK(yki_queue_finish(m->replica->queue));
    for (size_t b = 0; b < w->bucket_count; b++) {
        add_buffer(&all, w->buckets[b].values);
        for (unsigned which = 0; which < 3; which++) {
            yki_range range;

            if (yki_updater_keeps(m->replica->updater, which))
                add_buffer(&all, yki_updater_state(m->replica->updater, b, which, &range).buffer);
        }
    }
    add_buffer(&all, w->state_bucket.values);
    return all;
}

/* Where a device fails: the queue that brings gradients to the host, if there is one. Then that
 * with the updates is whole, and updates run. */
static yki_queue *
weakest(const yki_member *m)
{
    return m->side ? m->side : m->replica->queue;
}

/* `waits`: the caller hears of the failure while it waits, not in the next step. */
static void
fail_with(const team_run *run, size_t late, bool waits)
{
    yoke_trainer *t = team_trained(devices.context, run, BEFORE);
    const char *id = yki_device_id(yoke_team_get_device(t->crew.team, late));
    yki_member *other = &t->crew.members[1 - late];
    bytes before, now;
    yki_event gate;
    char place[128];

    before = kept_by(other);
    gate = team_hold(weakest(&t->crew.members[late]));
    for (int i = 0; i < YKI_FLIGHT; i++)
        ASSERT_OK(team_step(run, t, BEFORE + i, NULL));
    ck_assert_int_eq(clSetUserEventStatus(gate.cl, CL_OUT_OF_RESOURCES), CL_SUCCESS);
    yki_event_release(&gate);
    if (waits)
        ck_assert_int_ne(yoke_trainer_wait(t), YOKE_OK);
    else
        ck_assert_int_ne(team_step(run, t, BEFORE + YKI_FLIGHT, NULL), YOKE_OK);
    snprintf(place, sizeof place, "step %d, device %s: passing a marker, on %s (", BEFORE + 1, id,
             id);
    ASSERT_DETAIL(place);
    snprintf(place, sizeof place, "; the weights are those of step %d", BEFORE);
    ASSERT_DETAIL(place);
    ck_assert_int_eq(yoke_trainer_get_step(t), BEFORE);
    now = kept_by(other);
    ck_assert_uint_eq(now.count, before.count);
    ck_assert_msg(memcmp(now.at, before.at, now.count) == 0, "something has changed on %s",
                  yki_device_id(yoke_team_get_device(t->crew.team, 1 - late)));
    ASSERT_STATUS(YOKE_ERROR_STATE, team_step(run, t, BEFORE, NULL));
    free(before.at);
    free(now.at);
    yoke_trainer_destroy(t);
}

static void
failures_end(void)
{
    team_run runs[] = {
        {.net = TEAM_MLP, .bucket_bytes = 256},
        {.net = TEAM_LOCAL, .optimizer = yoke_adam(0.01f), .clip_norm = 0.5f, .average = 0.9f},
        {.net = TEAM_MLP, .optimizer = yoke_sgd(0.1f, 0.9f), .average = 0.9f},
    };

    for (size_t i = 0; i < YKI_COUNT(runs); i++) {
        runs[i].selector = devices.selector;
        runs[i].shares = "even";
        if (i == 0 && !lands(&runs[i]))
            TEST_NOT_HERE("no sum lands on these devices");
        for (size_t late = 0; late < 2; late++)
            for (int waits = 0; waits < 2; waits++)
                fail_with(&runs[i], late, waits);
    }
}

/* A trainer may go while its devices have work. */
static void
destroy_at_once(void)
{
    const team_run run = {.selector = devices.selector, .shares = "even", .net = TEAM_MLP};

    for (int n = 0; n < 10; n++) {
        yoke_trainer *t = team_trainer(devices.context, &run);

        for (int i = 0; i < n % 3; i++)
            ASSERT_OK(team_step(&run, t, i, NULL));
        yoke_trainer_destroy(t);
    }
}

TEAM_SETUP(return_as_is, TEST_AS_IS, open_setup, steps_return())
TEAM_SETUP(return_roots, TEST_POCL_ROOTS, open_setup, steps_return())
TEAM_SETUP(bits_as_is, TEST_AS_IS, open_setup, bits_are_those_of_a_caller_that_waits())
TEAM_SETUP(bits_roots, TEST_POCL_ROOTS, open_setup, bits_are_those_of_a_caller_that_waits())
TEAM_SETUP(fail_as_is, TEST_AS_IS, open_setup, failures_end())
TEAM_SETUP(fail_roots, TEST_POCL_ROOTS, open_setup, failures_end())
TEAM_SETUP(destroy_as_is, TEST_AS_IS, open_setup, destroy_at_once())
TEAM_SETUP(destroy_roots, TEST_POCL_ROOTS, open_setup, destroy_at_once())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("landing");
    TCase *tcase = test_case(suite, "as_is");

    tcase_add_test(tcase, return_as_is);
    tcase_add_test(tcase, bits_as_is);
    tcase_add_test(tcase, fail_as_is);
    tcase_add_test(tcase, destroy_as_is);
    tcase = test_case(suite, "roots");
    tcase_add_test(tcase, return_roots);
    tcase_add_test(tcase, bits_roots);
    tcase_add_test(tcase, fail_roots);
    tcase_add_test(tcase, destroy_roots);
    return suite;
}

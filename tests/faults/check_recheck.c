/* SPDX-License-Identifier: Apache-2.0
 *
 * check_recheck.c - bits that flip on a device are found, and training goes on as if none had.
 *
 * The layer flips bits in what a device computes, or in its buffers, while it computes granules
 * that are checked. Whatever happens, the weights after each step are those of a run without
 * faults. A flip that is not found has changed nothing (a bit of what nobody reads).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fault.h"
#include "train/runs.h"
#include "train/trainer.h"

enum { MOST_STEPS = 1000, MOST_DEVICES = 3 };

static test_devices devices;
static char names[MOST_DEVICES][FAULT_NAME_SIZE], root[128];
static const fault_layer *faults;
static uint64_t announced;

static void
open_devices(void)
{
    yoke_device_info info[2];

    setenv("POCL_MAX_PTHREAD_COUNT", "6", 1); /* for three parts */
    faults = fault_open();
    ck_assert(team_find(TEST_AS_IS, &devices, info));
    snprintf(root, sizeof root, "%s", info[0].parent);
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

static uint32_t
draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A trainer on so many parts of the device; the layer's names of them go to `names`. */
static yoke_trainer *
make(team_run *run, const char *parts)
{
    static char selector[160];
    yoke_trainer *t;

    snprintf(selector, sizeof selector, "%s%s", root, parts);
    run->selector = selector;
    run->any_split = true;
    t = team_trainer(devices.context, run);
    for (size_t k = 0; k < t->crew.count; k++)
        ck_assert(fault_device_name(yoke_team_get_device(t->team, k), names[k], sizeof names[k]));
    return t;
}

/* One step, which the layer knows by a number that no other one has. */
static yoke_status
step(const team_run *run, yoke_trainer *t, int index)
{
    faults->step(++announced);
    return team_step(run, t, index, NULL);
}

/* A step after which the layer knows which buffers several devices share. */
static void
warm_up(const team_run *run, yoke_trainer *t)
{
    const fault_flip none = {.device = names[0], .nth = 1};

    ck_assert(faults->flip(&none));
    ASSERT_OK(step(run, t, 0));
}

/* Hashes of the weights after each step without faults, on one device. */
static void
expect(team_run run, int steps, char (*hashes)[33])
{
    yoke_trainer *t;

    run.recheck = 0;
    run.shares = NULL;
    t = make(&run, "");
    warm_up(&run, t);
    for (int i = 0; i < steps; i++) {
        ASSERT_OK(step(&run, t, i));
        ASSERT_OK(yoke_trainer_hash(t, NULL, hashes[i]));
    }
    yoke_trainer_destroy(t);
}

static void
check_hash(yoke_trainer *t, const char *expected, int index)
{
    char hash[33];

    ASSERT_OK(yoke_trainer_hash(t, NULL, hash));
    ck_assert_msg(strcmp(hash, expected) == 0, "the weights after step %d are not those expected",
                  index + 1);
}

/* ---- one bit, once ---- */

/* Launches of a device for its own granules in a step in which it is checked. */
static uint64_t
count_launches(const team_run *run, yoke_trainer *t, size_t device)
{
    uint64_t low = 1, high = 4096;

    warm_up(run, t);
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2, before = faults->flips();
        fault_flip flip = {.device = names[device],
                           .from = announced + 1,
                           .to = announced + 2,
                           .nth = middle,
                           .until = "yki_team_sum_i64",
                           .before = true};

        for (size_t i = 0; i < t->crew.team->total; i++) {
            const bool its = (size_t)(t->step + 1) % t->crew.count == device;

            flip.from = flip.to = announced + 1;
            if (its)
                ck_assert(faults->flip(&flip));
            ASSERT_OK(step(run, t, 0));
            memset(t->recheck.times, 0, t->crew.team->total);
        }
        *(faults->flips() > before ? &low : &high) = middle;
    }
    return low;
}

/* So many flips, one in each step, in what launches change or in buffers. */
static void
flip_once(team_run run, const char *parts, int steps, bool before)
{
    static char expected[MOST_STEPS][33];
    uint32_t state = before ? 7 : 1;
    uint64_t launches[MOST_DEVICES], flips, found = 0;
    char first[33];
    yoke_trainer *t;

    run.recheck = 1;
    run.shares = "even";
    t = make(&run, parts);
    for (size_t k = 0; k < t->crew.count; k++)
        launches[k] = count_launches(&run, t, k);
    yoke_trainer_destroy(t);
    expect(run, steps, expected);
    t = make(&run, parts);
    warm_up(&run, t);
    ASSERT_OK(yoke_trainer_hash(t, NULL, first));
    flips = faults->flips();
    for (int i = 0; i < steps; i++) {
        const size_t device = (size_t)(t->step + 1) % t->crew.count;
        const fault_flip flip = {.device = names[device],
                                 .from = announced + 1,
                                 .to = announced + 1,
                                 .nth = 1 + draw(&state) % launches[device],
                                 .bit = draw(&state),
                                 .before = before};

        ck_assert(faults->flip(&flip));
        if (step(&run, t, i) != YOKE_OK) {
            /* A bit that nobody writes again: with two devices nobody can say whose it is. */
            ASSERT_DETAIL("nobody can say which");
            check_hash(t, i ? expected[i - 1] : first, i - 1);
            found += 1 + t->recheck.found;
            yoke_trainer_destroy(t);
            t = make(&run, parts);
            warm_up(&run, t);
            for (int k = 0; k <= i; k++)
                ASSERT_OK(step(&run, t, k));
        }
        check_hash(t, expected[i], i);
        memset(t->recheck.times, 0, t->crew.team->total); /* all is forgiven */
    }
    flips = faults->flips() - flips;
    found += t->recheck.found;
    ck_assert_msg(flips >= (uint64_t)steps * 9 / 10, "%d flips in %d steps", (int)flips, steps);
    ck_assert_msg(found >= flips / 8, "%d of %d flips found", (int)found, (int)flips);
    ck_assert(found <= flips);
    yoke_trainer_destroy(t);
}

START_TEST(flips_in_results)
{
    flip_once((team_run){.net = TEAM_REGRESSION}, "/2", 250, false);
}
END_TEST

START_TEST(flips_in_buffers)
{
    flip_once((team_run){.net = TEAM_REGRESSION}, "/2", 250, true);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite;
    TCase *tc;

    fault_require();
    suite = suite_create("recheck");
    tc = test_case(suite, "one bit");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, flips_in_results);
    tcase_add_test(tc, flips_in_buffers);
    return suite;
}

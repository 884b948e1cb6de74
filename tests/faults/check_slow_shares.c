/* SPDX-License-Identifier: Apache-2.0
 *
 * check_slow_shares.c - shares of a real team, one device of which is made slow by the
 * fault layer.
 *
 * Single steps that are slow, at random, move next to nothing and leave nobody out; a
 * device that stays slow gets less. A machine that is busy with something else can really stop a
 * device for long, which shares then follow rightly. So a run that moved too much is made again,
 * and one of three must be calm, unless the steps that the layer left alone tell by their times
 * that the machine disturbed each of them: then nothing can be said here. The network is not the
 * smallest: where a step is 0.1 ms, nearly all of it is overhead, and leaving a device out is
 * right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "support/fault.h"
#include "train/runs.h"

enum { BATCH = 16, STEPS = 300, FOLLOWED = 150, WARM = 3, RUNS = 3 };
enum { QUARTERS = 4, RARE = 16 };

typedef enum verdict { CALM, MOVED, DISTURBED } verdict;

static test_devices devices;
static char slow_name[FAULT_NAME_SIZE]; /* the second device's */
static const fault_layer *faults;

static bool
open_setup(test_setup setup)
{
    yoke_selection *selection;

    faults = fault_open();
    if (!test_devices_find(setup, &devices))
        return false;
    ASSERT_OK(yoke_selection_create(devices.context, devices.selector, NULL, &selection));
    ck_assert(fault_device_name(yoke_selection_get(selection, 1), slow_name, sizeof slow_name));
    yoke_selection_destroy(selection);
    return true;
}

/* One step, and what the second device has of it. */
static int64_t
step(const team_run *run, yoke_trainer *t, int i)
{
    int64_t counts[2];

    faults->step((uint64_t)i);
    ASSERT_OK(team_step(run, t, i % 8, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    ASSERT_OK(yoke_trainer_get_shares(t, counts, 2));
    ck_assert_int_eq(counts[0] + counts[1], BATCH);
    return counts[1];
}

static int
compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Whether, of steps that were all left alone, more than one in RARE took twice what the middle one
 * took, or those of one quarter half as long again as those of another. */
static bool
machine_disturbs(const double *seconds, size_t count)
{
    double sorted[STEPS], least = 0, most = 0;
    size_t slow = 0, each = count / QUARTERS;

    for (size_t q = 0; q < QUARTERS; q++) {
        memcpy(sorted, seconds + q * each, each * sizeof *sorted);
        qsort(sorted, each, sizeof *sorted, compare_times);
        least = q == 0 ? sorted[each / 2] : YKI_MIN(least, sorted[each / 2]);
        most = YKI_MAX(most, sorted[each / 2]);
    }
    memcpy(sorted, seconds, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_times);
    while (slow < count && sorted[count - 1 - slow] > 2 * sorted[count / 2])
        slow++;
    printf("# %zu of %zu steps that were left alone took twice %.3f ms, quarters %.3f to %.3f ms\n",
           slow, count, 1e3 * sorted[count / 2], 1e3 * least, 1e3 * most);
    return slow > count / RARE || most > 1.5 * least;
}

/* One step in eight is slow. Nobody may be left out, and few samples may move. */
static verdict
run_at_random(void)
{
    team_run run = {.selector = devices.selector, .net = TEAM_WIDE, .batch = BATCH};
    yoke_trainer *t = team_trainer(devices.context, &run);
    int64_t least = BATCH, moved = 0, last = step(&run, t, 0);
    double alone[STEPS];
    size_t alone_count = 0;
    bool disturbed;
    uint32_t x = 7;

    for (int i = 1; i < STEPS; i++) {
        double start;
        bool slow;
        int64_t now;

        x = x * 1664525u + 1013904223u;
        slow = i % 4 == 0 && (x >> 24) < 128;
        ck_assert(faults->slow(slow_name, slow ? 10 : 1, (uint64_t)i, (uint64_t)i));
        start = yki_now();
        now = step(&run, t, i);
        if (!slow)
            alone[alone_count++] = yki_now() - start;
        least = YKI_MIN(least, now);
        ck_assert_int_le(now > last ? now - last : last - now, BATCH / 2);
        moved += now > last ? now - last : last - now;
        last = now;
    }
    printf("# slow at random: at least %lld of %d samples, %lld moved in %d steps\n",
           (long long)least, BATCH, (long long)moved, STEPS);
    disturbed = machine_disturbs(alone, alone_count);
    fflush(stdout);
    ck_assert(faults->slow(slow_name, 1, 0, 0));
    yoke_trainer_destroy(t);
    return least >= 1 && moved <= 2 * BATCH ? CALM : disturbed ? DISTURBED : MOVED;
}

/* False if the machine disturbed all runs. */
static bool
check_random(void)
{
    int moved = 0;

    for (int i = 0; i < RUNS; i++) {
        verdict v = run_at_random();

        if (v == CALM)
            return true;
        moved += v == MOVED;
    }
    ck_assert_msg(moved == 0, "%d of %d runs moved too much, and nothing disturbed them", moved,
                  RUNS);
    return false;
}

/* From one step on the device is eight times as slow. */
static void
check_lasting(void)
{
    team_run run = {.selector = devices.selector, .net = TEAM_CONV, .batch = BATCH};
    yoke_trainer *t = team_trainer(devices.context, &run);
    int64_t count = 0;

    for (int i = 0; i < WARM; i++)
        step(&run, t, i);
    ck_assert(faults->slow(slow_name, 8, 0, UINT64_MAX));
    for (int i = WARM; i < WARM + FOLLOWED; i++)
        count = step(&run, t, i);
    printf("# slow from now on: %lld of %d samples after %d steps\n", (long long)count, BATCH,
           FOLLOWED);
    ck_assert_int_le(count, BATCH / 4);
    ck_assert(faults->slow(slow_name, 1, 0, 0));
    yoke_trainer_destroy(t);
}

TEAM_SETUP(slow_at_random, TEST_POCL_HALVES, open_setup, {
    if (!check_random())
        test_note_unfit(__func__,
                        "the machine is busy: steps that nobody slows take unequal times");
})
TEAM_SETUP(slow_from_now_on, TEST_POCL_HALVES, open_setup, check_lasting())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("shares of a slow device");
    TCase *tc = test_case(suite, "slow");

    fault_require();
    tcase_set_timeout(tc, 120 * RUNS);
    tcase_add_test(tc, slow_at_random);
    tcase_add_test(tc, slow_from_now_on);
    return suite;
}

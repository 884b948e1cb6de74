/* SPDX-License-Identifier: Apache-2.0
 *
 * check_team.c - the split never changes the answer: 20 steps of plain SGD on teams of
 * several make-ups, with shares of every kind, against the same steps on one device.
 *
 * Every weight and running statistic within 1e-5 of the largest of its tensor. Under the
 * matrix of implementations the team is two parts of what it names; elsewhere it is each
 * set-up that this machine has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/runs.h"

static test_devices devices;
/* The device that the team is compared with: the whole one that its first device is of. */
static char whole[64];

static bool
open_setup(test_setup setup)
{
    yoke_device_info info[2];

    if (!team_find(setup, &devices, info))
        return false;
    snprintf(whole, sizeof whole, "%s", info[0].parent);
    return true;
}

/* ---- comparing a team with one device ---- */

typedef struct reference {
    team_run run;
    team_outcome outcome;
} reference;

static reference known[16];
static size_t known_count;

/* What one device makes of this run; runs that differ by their split alone share it. Batch norm
 * sees one part of an accumulated batch at a time, so there the parts belong to the run. */
static const team_outcome *
on_one_device(const team_run *run)
{
    team_run alone = *run;
    reference *r;

    alone.selector = whole;
    alone.shares = NULL;
    alone.bucket_bytes = 0;
    alone.waits = true;
    if (run->net != TEAM_CONV)
        alone.accumulate = 1;
    for (size_t i = 0; i < known_count; i++)
        if (memcmp(&known[i].run, &alone, sizeof alone) == 0)
            return &known[i].outcome;
    ck_assert_uint_lt(known_count, YKI_COUNT(known));
    r = &known[known_count++];
    r->run = alone;
    team_train(devices.context, &alone, &r->outcome);
    return &r->outcome;
}

static void
assert_like_one_device(const team_run *run)
{
    team_outcome outcome;
    char what[512];

    snprintf(what, sizeof what,
             "team %s, shares %s, net %d, ignored %d, batch %d, last %d, parts %u, %s",
             run->selector, run->shares ? run->shares : "auto", run->net, run->ignored,
             (int)run->batch, (int)run->last, run->accumulate,
             run->precision ? run->precision : "f32");
    team_train(devices.context, run, &outcome);
    team_assert_near(&outcome, on_one_device(run), what);
    team_free(&outcome);
}

static void
forget_references(void)
{
    for (size_t i = 0; i < known_count; i++)
        team_free(&known[i].outcome);
    known_count = 0;
}

/* Fields in the order of team_run, from the shares on. Teams of two. */
static const team_run pairs[] = {
    {.shares = "even", .net = TEAM_MLP, .last = 7},
    {.shares = "80,20", .net = TEAM_MLP, .last = 7},
    {.shares = "99,1", .net = TEAM_MLP, .last = 7},
    {.shares = "1,0", .net = TEAM_MLP, .last = 7},
    {.shares = "0,1", .net = TEAM_MLP, .last = 7},
    {.shares = NULL, .net = TEAM_MLP, .last = 7},
    {.shares = "even", .net = TEAM_MLP, .last = 7, .bucket_bytes = 256},
    {.shares = "80,20", .net = TEAM_MLP, .last = 7, .bucket_bytes = 256, .clip_norm = 0.05f},
    {.shares = "even", .net = TEAM_MLP, .ignored = TEAM_FIRST_IGNORED},
    {.shares = "80,20", .net = TEAM_MLP, .ignored = TEAM_FIRST_IGNORED, .accumulate = 3},
    {.shares = "even", .net = TEAM_MLP, .ignored = TEAM_ALL_BUT_LAST},
    {.shares = "80,20", .net = TEAM_MLP, .last = 7, .accumulate = 3},
    {.shares = "even", .net = TEAM_REGRESSION, .batch = 25, .last = 1, .accumulate = 1},
    {.shares = "80,20", .net = TEAM_REGRESSION, .batch = 25, .last = 1, .accumulate = 3},
    {.shares = "80,20", .net = TEAM_WEIGHTED, .last = 7, .accumulate = 3},
    {.shares = "80,20", .net = TEAM_WEIGHTED, .ignored = TEAM_FIRST_IGNORED, .clip_norm = 0.5f},
    {.shares = "even", .net = TEAM_DROPOUT, .last = 7},
    {.shares = "80,20", .net = TEAM_DROPOUT, .last = 7, .accumulate = 3},
    {.shares = "80,20", .net = TEAM_MLP, .last = 7, .precision = "bf16"},
    {.shares = "80,20", .net = TEAM_SEQUENCE, .last = 7, .precision = "bf16"},
    {.shares = "80,20", .net = TEAM_SEQUENCE, .last = 7, .precision = "f16"},
    {.shares = "even", .net = TEAM_MLP, .last = 7, .precision = "f16", .bucket_bytes = 256},
    {.shares = "even", .net = TEAM_SEQUENCE, .last = 7, .ignored = TEAM_FIRST_IGNORED},
    {.shares = "80,20", .net = TEAM_SEQUENCE, .last = 7, .accumulate = 3},
    {.shares = "even", .net = TEAM_CONV, .last = 7},
    {.shares = "80,20", .net = TEAM_CONV, .last = 7},
    {.shares = "99,1", .net = TEAM_CONV, .last = 7},
    {.shares = "1,0", .net = TEAM_CONV, .last = 7},
    {.shares = "80,20", .net = TEAM_CONV, .last = 7, .accumulate = 3},
};

/* Where compiling takes longer than all steps (llvmpipe); there, beside the matrix, which takes
 * all, a machine's own set-ups take the first of them. */
static const team_run some_pairs[] = {
    {.shares = "80,20", .net = TEAM_CONV, .last = 7},
    {.shares = "80,20", .net = TEAM_MLP, .ignored = TEAM_FIRST_IGNORED, .accumulate = 3},
    {.shares = "80,20", .net = TEAM_SEQUENCE, .last = 7},
    {.shares = "even", .net = TEAM_MLP, .last = 7, .bucket_bytes = 256},
    {.shares = "80,20", .net = TEAM_MLP, .last = 7, .precision = "bf16"},
    {.shares = "99,1", .net = TEAM_CONV, .last = 7},
    {.shares = "even", .net = TEAM_DROPOUT, .last = 7},
};
enum { SOME = sizeof some_pairs / sizeof some_pairs[0] };

static void
check_pairs(const team_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        team_run run = runs[i];

        run.selector = devices.selector;
        assert_like_one_device(&run);
    }
    forget_references();
}

/* Given shares, twice: the same bits. */
static void
check_bits(const team_net *nets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        team_run run = {.selector = devices.selector, .shares = "80,20", .net = nets[i], .last = 7};
        team_outcome first, second;

        run.optimizer = yoke_adam(0.01f);
        team_train(devices.context, &run, &first);
        run.waits = true; /* how far the caller runs ahead is no matter */
        team_train(devices.context, &run, &second);
        ck_assert_msg(team_same_bits(&first, &second), "net %d: two runs differ", (int)nets[i]);
        team_free(&first);
        team_free(&second);
    }
}

static const team_net nets[] = {TEAM_CONV, TEAM_MLP, TEAM_DROPOUT};

static void
check_all(void)
{
    check_pairs(pairs, YKI_COUNT(pairs));
    check_bits(nets, YKI_COUNT(nets));
}

/* What matters most, or the first of it. */
static void
check_some(size_t first)
{
    check_pairs(some_pairs, test_is_thorough() ? (size_t)SOME : first);
    check_bits(nets, 1);
}

/* Rusticl takes long to make kernels ready. With YOKE_TEST_QUICK=1 it has one of the first pairs.
 */
static void
check_slow_drivers(size_t quick)
{
    if (getenv("YOKE_TEST_QUICK"))
        check_pairs(some_pairs + quick, 1);
    else
        check_some(2);
}

TEAM_SETUP(team_of_the_matrix, TEST_AS_IS, open_setup, check_some(SOME))
TEAM_SETUP(team_of_halves, TEST_POCL_HALVES, open_setup, check_all())
TEAM_SETUP(team_of_uneven_parts, TEST_POCL_UNEVEN, open_setup, check_all())
TEAM_SETUP(team_of_roots, TEST_POCL_ROOTS, open_setup, check_some(SOME))
TEAM_SETUP(team_of_one_memory, TEST_POCL_BESIDE, open_setup, check_some(2))
TEAM_SETUP(team_of_two_platforms, TEST_POCL_AND_RUSTICL, open_setup, check_slow_drivers(0))
TEAM_SETUP(team_of_slices, TEST_RUSTICL_SLICES, open_setup, check_slow_drivers(1))

/* Seven samples over four devices, and fewer samples than devices. */
static void
check_four(void)
{
    static const team_run runs[] = {
        {.shares = "even", .net = TEAM_MLP, .batch = 7, .last = 2},
        {.shares = "even", .net = TEAM_CONV, .batch = 7, .last = 3},
        {.shares = "1,0,5,1", .net = TEAM_CONV, .batch = 7, .last = 3},
        {.shares = "0,0,1,0", .net = TEAM_MLP, .batch = 7, .last = 2},
        {.shares = NULL, .net = TEAM_MLP, .batch = 3, .accumulate = 1},
        {.shares = "even", .net = TEAM_MLP, .batch = 3, .accumulate = 3},
    };

    for (size_t i = 0; i < YKI_COUNT(runs); i++) {
        team_run run = runs[i];

        run.selector = devices.selector;
        assert_like_one_device(&run);
    }
    forget_references();
}

/* The proof would see a difference: statistics of each device alone are another network. */
static void
check_local(void)
{
    team_run run = {.shares = "80,20", .net = TEAM_LOCAL};
    team_outcome team, one;
    const char *worst;

    run.selector = devices.selector;
    team_train(devices.context, &run, &team);
    run.selector = whole;
    run.shares = NULL;
    team_train(devices.context, &run, &one);
    ck_assert_double_gt(team_distance(&team, &one, &worst), 1e-3);
    team_free(&team);
    team_free(&one);
}

TEAM_SETUP(team_of_four, TEST_POCL_QUARTERS, open_setup, check_four())
TEAM_SETUP(local_statistics_are_told_apart, TEST_POCL_HALVES, open_setup, check_local())

/* A case for each set-up, for those who want one of them (CK_RUN_CASE). */
static void
add(Suite *suite, const char *name, const TTest *test)
{
    TCase *tc = test_case(suite, name);

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test);
}

Suite *
test_suite(void)
{
    Suite *suite = suite_create("team");

    add(suite, "matrix", team_of_the_matrix);
    add(suite, "halves", team_of_halves);
    add(suite, "uneven", team_of_uneven_parts);
    add(suite, "roots", team_of_roots);
    add(suite, "one memory", team_of_one_memory);
    add(suite, "platforms", team_of_two_platforms);
    add(suite, "slices", team_of_slices);
    add(suite, "four", team_of_four);
    add(suite, "local", local_statistics_are_told_apart);
    return suite;
}

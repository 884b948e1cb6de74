/* SPDX-License-Identifier: Apache-2.0
 *
 * check_shards.c - two devices of one process, with memory of their own, that keep a part of the
 * optimizer's state each. tests/mpi/shards.sh has the same for processes.
 */
#include <stdio.h>
#include <string.h>

#include "train/runs.h"
#include "train/trainer.h"

static test_devices devices;

static bool
open_setup(test_setup setup)
{
    return team_find(setup, &devices, NULL);
}

/* Trains as `run` says; gives the bytes of state in this process, and those of device 0. */
static void
train(const team_run *run, team_outcome *outcome, uint64_t *all, uint64_t *first)
{
    yoke_trainer *t = team_trainer(devices.context, run);

    *all = yoke_trainer_state_bytes(t);
    *first = yki_updater_state_bytes(t->crew.members[0].replica->updater);
    for (int i = 0; i < 6; i++)
        ASSERT_OK(team_step(run, t, i, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    ASSERT_OK(yki_trainer_compare_weights(t));
    ASSERT_OK(team_read(t, outcome));
    yoke_trainer_destroy(t);
}

/* The same bits with parts as without, and each has the part that it was given. */
static void
compare(team_run run)
{
    static const char *const by[] = {NULL, "1,1", "1,3", "0,1", "1,0"};
    uint64_t whole, state, first;
    team_outcome usual, parts;

    run.selector = devices.selector;
    run.shares = "even";
    train(&run, &usual, &whole, &first);
    ck_assert_uint_eq(whole, 2 * first);
    for (size_t i = 0; i < YKI_COUNT(by); i++) {
        run.shard = YOKE_SHARD_STATE;
        run.shard_by = by[i];
        train(&run, &parts, &state, &first);
        ck_assert_uint_eq(2 * state, whole);
        ck_assert_msg(team_same_bits(&usual, &parts), "other bits with the shards %s",
                      by[i] ? by[i] : "auto");
        if (i == 2)
            ck_assert(first > state / 8 && first < state * 3 / 8);
        if (i == 3)
            ck_assert_uint_eq(first, 0);
        if (i == 4)
            ck_assert_uint_eq(first, state);
        team_free(&parts);
    }
    team_free(&usual);
}

TEAM_SETUP(parts_of_two_devices, TEST_POCL_ROOTS, open_setup,
           compare((team_run){.net = TEAM_MLP, .optimizer = yoke_sgd(0.1f, 0.9f)});
           compare((team_run){.net = TEAM_CONV, .optimizer = yoke_adam(0.01f), .average = 0.9f});
           compare((team_run){.net = TEAM_MLP,
                              .optimizer = yoke_adamw(0.01f, 0.1f),
                              .clip_norm = 0.3f,
                              .accumulate = 2,
                              .bucket_bytes = 1024,
                              .any_split = true}))

/* Freezing changes which elements of a part are updated. */
static void
freeze(void)
{
    team_run run = {.net = TEAM_MLP,
                    .selector = devices.selector,
                    .shares = "even",
                    .clip_norm = 0.05f, /* what is frozen has no part in the norm either */
                    .optimizer = yoke_sgd(0.1f, 0.9f)};
    team_outcome outcomes[2];

    for (int shards = 0; shards < 2; shards++) {
        yoke_trainer *t;

        run.shard = shards ? YOKE_SHARD_STATE : YOKE_SHARD_NOTHING;
        t = team_trainer(devices.context, &run);
        for (int i = 0; i < 6; i++) {
            if (i == 2)
                ASSERT_OK(yoke_trainer_freeze(t, "*.weight"));
            if (i == 4)
                ASSERT_OK(yoke_trainer_unfreeze(t, "*.weight"));
            ASSERT_OK(team_step(&run, t, i, NULL));
        }
        ASSERT_OK(team_read(t, &outcomes[shards]));
        yoke_trainer_destroy(t);
    }
    ck_assert(team_same_bits(&outcomes[0], &outcomes[1]));
    team_free(&outcomes[0]);
    team_free(&outcomes[1]);
}

TEAM_SETUP(frozen_parameters, TEST_POCL_ROOTS, open_setup, freeze())

/* A trainer of a larger network on both devices, with quotas. */
static yoke_trainer *
with_quotas(const team_run *run, const uint64_t quotas[2])
{
    const char *second = strchr(devices.selector, ',');
    yoke_trainer_options o = team_options(run);
    yoke_trainer *trainer;
    char selector[256];
    yoke_graph *g;
    yoke_team *team;

    ck_assert_ptr_nonnull(second);
    snprintf(selector, sizeof selector, "%.*s@%lluB%s@%lluB", (int)(second - devices.selector),
             devices.selector, (unsigned long long)quotas[0], second,
             (unsigned long long)quotas[1]);
    ASSERT_OK(yoke_zoo("mlp", NULL, &g));
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &trainer));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return trainer;
}

/* What a step and its comparisons need is there before the state is divided by what is left:
 * here room for a half of it, and for one and a half. */
static void
divide_by_room(void)
{
    team_run run = {.net = TEAM_MLP,
                    .shares = "even",
                    .optimizer = yoke_adam(0.01f),
                    .any_split = true,
                    .recheck = 1};
    uint64_t quotas[2] = {UINT64_C(1) << 29, UINT64_C(1) << 29};
    yoke_trainer *t = with_quotas(&run, quotas);
    const uint64_t state = yoke_trainer_state_bytes(t) / 2;
    uint64_t first;

    for (size_t k = 0; k < 2; k++) /* all but the state; and a half of it, or three */
        quotas[k] -= yki_quota_left(t->crew.members[k].replica->weights->device) + state -
                     (2 * k + 1) * state / 2;
    yoke_trainer_destroy(t);
    run.shard = YOKE_SHARD_STATE;
    t = with_quotas(&run, quotas);
    ck_assert_uint_eq(yoke_trainer_state_bytes(t), state);
    first = yki_updater_state_bytes(t->crew.members[0].replica->updater);
    ck_assert_msg(first > state * 22 / 100 && first < state * 28 / 100,
                  "the device with a quarter of the room has %llu of %llu bytes",
                  (unsigned long long)first, (unsigned long long)state);
    yoke_trainer_destroy(t);
}

TEAM_SETUP(parts_by_room, TEST_POCL_ROOTS, open_setup, divide_by_room())

static void
expect_refusal(const team_run *run, const char *sentence)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g = team_graph(run->net);
    yoke_trainer *trainer = NULL;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ck_assert_int_ne(yoke_trainer_create(team, g, &o, &trainer), YOKE_OK);
    ck_assert_msg(strstr(yoke_last_error(), sentence) != NULL, "says \"%s\"", yoke_last_error());
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
}

static void
refuse(void)
{
    team_run run = {.net = TEAM_MLP, .shares = "even", .shard_by = "1,3"};

    expect_refusal(&run, "must be NULL unless shard is YOKE_SHARD_STATE");
    run.shard = (yoke_shard_choice)7;
    expect_refusal(&run, "shard is 7; must be");
    run.shard = YOKE_SHARD_STATE;
    run.shard_by = "1,2,3";
    expect_refusal(&run, "3 weights, and the team has 2 devices");
    run.shard_by = "0,0";
    expect_refusal(&run, "every weight is zero");
    run.shard_by = "much";
    expect_refusal(&run, "not a list of numbers");
}

TEAM_SETUP(shards_that_are_refused, TEST_POCL_ROOTS, open_setup, refuse())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("shards");
    TCase *tc = test_case(suite, "shards");

    tcase_add_test(tc, parts_of_two_devices);
    tcase_add_test(tc, frozen_parameters);
    tcase_add_test(tc, parts_by_room);
    tcase_add_test(tc, shards_that_are_refused);
    return suite;
}

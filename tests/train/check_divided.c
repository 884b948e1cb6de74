/* SPDX-License-Identifier: Apache-2.0
 *
 * check_divided.c - what divided weights meet in networks: a table that is read at both ends,
 * adapters beside a frozen base, and devices whose plans are so unlike that they cannot gather
 * together. check_shards.c has the levels, tests/mpi/shards.sh processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "team/sharding.h"
#include "train/runs.h"
#include "train/trainer.h"

enum { LAYERS = 6, UNITS = 32, WORDS = 48, LENGTH = 6, BATCH = 8, STEPS = 3 };

static test_devices devices;

static bool
open_setup(test_setup setup)
{
    return team_find(setup, &devices, NULL);
}

typedef enum network {
    WORDS_NET,  /* a table of words that is the head too, as in gpt; */
    MATRIX_NET, /* a matrix that the first layer and, turned round, the last one read; */
    ADAPTED_NET /* the same between two layers with adapters, where all else is frozen */
} network;

static yoke_node *
layer(yoke_graph *g, yoke_node *x, const char *name)
{
    return yoke_tanh(
        g, yoke_dense(
               g, x, &(yoke_dense_options){.units = UNITS, .no_bias = name == NULL, .name = name}));
}

static yoke_graph *
words_graph(void)
{
    const yoke_embedding_options embedding = {
        WORDS, UNITS, "table", {YOKE_INIT_NORMAL, 0, 0.5f, 0}};
    yoke_graph *g;
    yoke_node *words, *next, *table, *x;

    ASSERT_OK(yoke_graph_create(&g));
    words = yoke_sequence(g, yoke_input(g, "x", YOKE_I32, yoke_shape(LENGTH)));
    next = yoke_sequence(g, yoke_target(g, "target", YOKE_I32, yoke_shape(LENGTH)));
    x = yoke_embedding(g, words, &embedding);
    table = yoke_graph_get_node(g, "table.weight");
    for (int i = 0; i < LAYERS; i++)
        x = layer(g, x, NULL);
    yoke_graph_set_loss(g, yoke_linear_cross_entropy(g, x, table, next, NULL));
    return g;
}

static yoke_graph *
matrix_graph(bool adapted)
{
    const yoke_initializer normal = {YOKE_INIT_NORMAL, 0, 0.2f, 0};
    yoke_graph *g;
    yoke_node *x, *target, *table;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(1, UNITS));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(1, UNITS));
    table = yoke_parameter(g, "table", yoke_shape(UNITS, UNITS), normal);
    if (adapted)
        x = layer(g, x, "first.attn");
    x = yoke_matmul(g, x, table, NULL);
    for (int i = 0; i < LAYERS; i++)
        x = layer(g, x, NULL);
    if (adapted)
        x = layer(g, x, "last.attn");
    x = yoke_matmul(g, x, table, &(yoke_matmul_options){.transpose_b = true});
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    if (adapted)
        ASSERT_OK(yoke_graph_add_lora(
            g, &(yoke_lora_options){.rank = 4, .targets = "attn", .dropout = 0.2f}));
    return g;
}

static yoke_trainer *
trainer_of(const team_run *run, network net)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g = net == WORDS_NET ? words_graph() : matrix_graph(net == ADAPTED_NET);
    yoke_trainer *t;
    yoke_team *team;

    o.batch = BATCH;
    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_team_create(devices.context, run->selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return t;
}

static void
step(yoke_trainer *t, network net, int index)
{
    static float x[BATCH * UNITS], target[BATCH * UNITS];
    static int32_t words[BATCH * LENGTH], next[BATCH * LENGTH];
    yoke_feed feeds[2] = {yoke_feed_f32("x", x, YKI_COUNT(x)),
                          yoke_feed_f32("target", target, YKI_COUNT(target))};

    for (int i = 0; i < BATCH * UNITS; i++) {
        x[i] = (float)((i * 7 + index) % 23) / 23.0f - 0.5f;
        target[i] = (float)((i * 5 + index) % 19) / 19.0f - 0.5f;
    }
    for (int i = 0; i < BATCH * LENGTH; i++) {
        words[i] = (i * i + 3 * index) % WORDS;
        next[i] = (5 * i + index) % WORDS;
    }
    if (net == WORDS_NET) {
        feeds[0] = yoke_feed_i32("x", words, YKI_COUNT(words));
        feeds[1] = yoke_feed_i32("target", next, YKI_COUNT(next));
    }
    ASSERT_OK(yoke_trainer_step(t, BATCH, feeds, 2, NULL));
}

/* The same bits with all weights whole as with divided ones. */
static void
compare(network net, team_run run)
{
    team_outcome outcomes[2];
    char hashes[2][33];

    run.selector = devices.selector;
    run.shares = "even";
    run.optimizer = yoke_adamw(0.01f, 0.1f);
    run.bucket_bytes = UNITS * UNITS * 4;
    for (int i = 0; i < 2; i++) {
        yoke_trainer *t;

        run.shard = i ? YOKE_SHARD_WEIGHTS : YOKE_SHARD_NOTHING;
        t = trainer_of(&run, net);
        for (int k = 0; k < STEPS; k++)
            step(t, net, k);
        ASSERT_OK(yoke_trainer_wait(t));
        if (i)
            ck_assert(t->crew.members[0].replica->weights->divided);
        ck_assert_int_eq(t->crew.members[0].replica->weights->frozen_buckets > 0,
                         net == ADAPTED_NET);
        ASSERT_OK(yoke_trainer_hash(t, NULL, hashes[i]));
        ASSERT_OK(team_read(t, &outcomes[i]));
        yoke_trainer_destroy(t);
    }
    ck_assert_msg(team_same_bits(&outcomes[0], &outcomes[1]), "network %d: other bits", (int)net);
    ck_assert_str_eq(hashes[0], hashes[1]);
    for (int i = 0; i < 2; i++)
        team_free(&outcomes[i]);
}

static void
compare_networks(void)
{
    for (network net = WORDS_NET; net <= ADAPTED_NET; net++)
        compare(net, (team_run){.any_split = true, .granule = 2});
    compare(WORDS_NET, (team_run){.clip_norm = 0.3f, .average = 0.9f});
    compare(ADAPTED_NET, (team_run){.accumulate = 2});
}

TEAM_SETUP(weights_that_are_tied_or_adapted, TEST_POCL_ROOTS, open_setup, compare_networks())

/* A table is there all through forward, with about three buckets of other layers. The last layer's
 * gradient reads it first in backward, unless the loss has computed it. The others follow layer by
 * layer. */
static void
measure(void)
{
    for (network net = WORDS_NET; net <= MATRIX_NET; net++) {
        const team_run run = {.selector = devices.selector,
                              .shares = "even",
                              .shard = YOKE_SHARD_WEIGHTS,
                              .bucket_bytes = UNITS * UNITS * 4};
        yoke_trainer *t = trainer_of(&run, net);
        const uint64_t table = (uint64_t)(net == WORDS_NET ? WORDS : UNITS) * UNITS * 4;
        const yki_plan *plan = t->crew.members[0].replica->training;
        const uint64_t bytes = yki_plan_gathered_bytes(plan);
        size_t first = 0;

        ck_assert_uint_eq(t->crew.buckets.count, LAYERS + 1);
        ck_assert_msg(bytes <= table + 3 * run.bucket_bytes, "network %d: %llu bytes at a time",
                      (int)net, (unsigned long long)bytes);
        while (plan->stops[first].section == YKI_FORWARD)
            first++;
        ck_assert_uint_eq(plan->stops[first].gathers, net == WORDS_NET ? 1 : LAYERS + 1);
        yoke_trainer_destroy(t);
    }
}

TEAM_SETUP(bytes_of_a_table, TEST_POCL_ROOTS, open_setup, measure())

/* ---- plans that are unlike ---- */

static yoke_status
create(const team_run *run, yoke_trainer **t)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g = team_graph(run->net);
    yoke_status status;
    yoke_team *team;

    *t = NULL;
    ASSERT_OK(yoke_team_create(devices.context, run->selector, NULL, &team));
    status = yoke_trainer_create(team, g, &o, t);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return status;
}

/* A budget that one device's part of the batch does not fit makes its plan compute layers again,
 * whose weights come before a statistic that they come behind elsewhere. */
static void
unlike(void)
{
    team_run run = {.net = TEAM_CONV,
                    .selector = devices.selector,
                    .shares = "7,1",
                    .batch = 32,
                    .bucket_bytes = 512};
    yoke_trainer *t;
    uint64_t bytes[2];

    run.shard = YOKE_SHARD_WEIGHTS;
    ASSERT_OK(create(&run, &t));
    for (size_t k = 0; k < 2; k++)
        bytes[k] = yki_plan_memory(t->crew.members[k].replica->training);
    yoke_trainer_destroy(t);
    ck_assert_uint_gt(bytes[0], 2 * bytes[1]);
    run.recompute_bytes = bytes[0] * 85 / 100;
    ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED,
                   "gathers weights and merges statistics of the batch in another order",
                   create(&run, &t));
    ck_assert_ptr_null(t);
    run.shard = YOKE_SHARD_GRADIENTS; /* as the sentence says */
    ASSERT_OK(create(&run, &t));
    yoke_trainer_destroy(t);
}

TEAM_SETUP(orders_that_differ, TEST_POCL_ROOTS, open_setup, unlike())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("divided");
    TCase *networks = test_case(suite, "networks"), *plans = test_case(suite, "plans");

    tcase_set_timeout(networks, 300);
    tcase_set_timeout(plans, 300);
    tcase_add_test(networks, weights_that_are_tied_or_adapted);
    tcase_add_test(networks, bytes_of_a_table);
    tcase_add_test(plans, orders_that_differ);
    return suite;
}

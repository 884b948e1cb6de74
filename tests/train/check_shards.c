/* SPDX-License-Identifier: Apache-2.0
 *
 * check_shards.c - two devices of one process, with memory of their own, that keep a part of the
 * optimizer's state each, also of the gradients, or of the weights too. tests/mpi/shards.sh has the
 * same for processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scratch.h"
#include "team/sharding.h"
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
compare(team_run run, yoke_shard_choice kind)
{
    static const char *const by[] = {NULL, "1,1", "1,3", "0,1", "1,0"};
    const bool quick = getenv("YOKE_TEST_QUICK") != NULL;
    uint64_t whole, state, first;
    team_outcome usual, parts;

    run.selector = devices.selector;
    run.shares = "even";
    train(&run, &usual, &whole, &first);
    ck_assert_uint_eq(whole, 2 * first);
    for (size_t i = 0; i < YKI_COUNT(by); i++) {
        if (quick && i != 2 && i != 3)
            continue;
        run.shard = kind;
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

static void
compare_usual(yoke_shard_choice kind)
{
    compare((team_run){.net = TEAM_MLP, .optimizer = yoke_sgd(0.1f, 0.9f)}, kind);
    compare((team_run){.net = TEAM_CONV, .optimizer = yoke_adam(0.01f), .average = 0.9f}, kind);
    compare((team_run){.net = TEAM_MLP,
                       .optimizer = yoke_adamw(0.01f, 0.1f),
                       .clip_norm = 0.3f,
                       .accumulate = 2,
                       .bucket_bytes = 1024,
                       .any_split = true},
            kind);
}

TEAM_SETUP(parts_of_two_devices, TEST_POCL_ROOTS, open_setup, compare_usual(YOKE_SHARD_STATE))
TEAM_SETUP(gradients_of_two_devices, TEST_POCL_ROOTS, open_setup,
           compare_usual(YOKE_SHARD_GRADIENTS))

/* Many buckets, whose gradients are taken in the course of backward, at its stops, or added to sums
 * of micro-batches and of granules. */
TEAM_SETUP(
    gradients_in_small_buckets, TEST_POCL_ROOTS, open_setup,
    compare((team_run){.net = TEAM_MLP,
                       .optimizer = yoke_adam(0.01f),
                       .clip_norm = 0.3f,
                       .bucket_bytes = 1024},
            YOKE_SHARD_GRADIENTS);
    compare((team_run){.net = TEAM_CONV, .optimizer = yoke_sgd(0.01f, 0.9f), .bucket_bytes = 512},
            YOKE_SHARD_GRADIENTS);
    compare((team_run){.net = TEAM_MLP,
                       .optimizer = yoke_adam(0.01f),
                       .accumulate = 2,
                       .bucket_bytes = 1024},
            YOKE_SHARD_GRADIENTS))
TEAM_SETUP(gradients_of_granules, TEST_POCL_ROOTS, open_setup,
           compare((team_run){.net = TEAM_CONV,
                              .optimizer = yoke_adam(0.01f),
                              .any_split = true,
                              .bucket_bytes = 1024,
                              .recheck = 1},
                   YOKE_SHARD_GRADIENTS))

/* Weights that are gathered for each section, with one bucket and with many. */
TEAM_SETUP(weights_of_two_devices, TEST_POCL_ROOTS, open_setup, compare_usual(YOKE_SHARD_WEIGHTS))
TEAM_SETUP(
    weights_in_small_buckets, TEST_POCL_ROOTS, open_setup,
    compare((team_run){.net = TEAM_MLP,
                       .optimizer = yoke_adam(0.01f),
                       .clip_norm = 0.3f,
                       .bucket_bytes = 1024},
            YOKE_SHARD_WEIGHTS);
    compare((team_run){.net = TEAM_CONV, .optimizer = yoke_sgd(0.01f, 0.9f), .bucket_bytes = 512},
            YOKE_SHARD_WEIGHTS);
    compare((team_run){.net = TEAM_MLP,
                       .optimizer = yoke_adam(0.01f),
                       .accumulate = 2,
                       .bucket_bytes = 1024},
            YOKE_SHARD_WEIGHTS);
    compare((team_run){.net = TEAM_CONV,
                       .optimizer = yoke_adam(0.01f),
                       .any_split = true,
                       .bucket_bytes = 1024},
            YOKE_SHARD_WEIGHTS))

/* Attention over sequences of many lengths; and what is computed again of weights that come twice.
 */
static void
compare_others(void)
{
    team_run runs[] = {{.net = TEAM_SEQUENCE, .bucket_bytes = 1024},
                       {.net = TEAM_CONV, .bucket_bytes = 512, .recompute_bytes = 200000}};

    for (size_t i = 0; i < YKI_COUNT(runs); i++) {
        team_outcome outcomes[2];
        uint64_t all, first;

        for (int k = 0; k < 2; k++) {
            runs[i].selector = devices.selector;
            runs[i].shares = "even";
            runs[i].optimizer = yoke_adam(0.01f);
            runs[i].shard = k ? YOKE_SHARD_WEIGHTS : YOKE_SHARD_NOTHING;
            train(&runs[i], &outcomes[k], &all, &first);
        }
        ck_assert(team_same_bits(&outcomes[0], &outcomes[1]));
        team_free(&outcomes[0]);
        team_free(&outcomes[1]);
    }
}

TEAM_SETUP(weights_of_other_networks, TEST_POCL_ROOTS, open_setup, compare_others())

enum { EVALUATED = 41, CLASSES = 5 };

/* What a trainer tells between its steps. */
typedef struct told {
    double loss[2];
    float y[EVALUATED * CLASSES];
    char hash[3][33];
    long size; /* of the file */
    char file[1 << 20];
} told;

static void
save_file(yoke_trainer *t, told *to)
{
    const char *path = scratch_path("model");
    FILE *file;

    ASSERT_OK(yoke_trainer_save(t, path));
    file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    to->size = (long)fread(to->file, 1, sizeof to->file, file);
    ck_assert(to->size > 0 && to->size < (long)sizeof to->file && fclose(file) == 0);
}

/* Evaluates, predicts, writes, trains on, saves, loads and begins anew. */
static void
ask(const team_run *run, told *to)
{
    yoke_trainer *t = team_trainer(devices.context, run);
    const yoke_node *parameter = yoke_graph_get_parameter(yoke_trainer_get_graph(t), 0);
    const char *name = yoke_node_name(parameter);
    const size_t count = (size_t)yki_shape_count(parameter->shape);
    float *values = calloc(count, sizeof *values);
    yoke_feed feeds[2];
    yoke_result result;

    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) {
            yoke_dataset *dataset = team_dataset(run, 100, EVALUATED);

            ASSERT_OK(yoke_trainer_evaluate(t, dataset, &result));
            yoke_dataset_destroy(dataset);
            to->loss[i / 2] = result.loss;
        }
        if (i == 2) {
            ASSERT_OK(yoke_trainer_read(t, name, values, (int64_t)count));
            for (size_t k = 0; k < count; k++)
                values[k] *= 0.5f;
            ASSERT_OK(yoke_trainer_write(t, name, values, (int64_t)count));
        }
        ASSERT_OK(team_step(run, t, i, NULL));
    }
    team_feeds(run, 7, EVALUATED, feeds);
    ASSERT_OK(yoke_trainer_predict(t, "y", EVALUATED, feeds, 1, to->y, YKI_COUNT(to->y)));
    ASSERT_OK(yoke_trainer_hash(t, NULL, to->hash[0]));
    save_file(t, to);
    ASSERT_OK(yoke_trainer_initialize(t, 5));
    ASSERT_OK(yoke_trainer_hash(t, NULL, to->hash[1]));
    ASSERT_OK(yoke_trainer_load_weights(t, scratch_path("model"), NULL));
    ASSERT_OK(team_step(run, t, 4, NULL));
    ASSERT_OK(yoke_trainer_hash(t, NULL, to->hash[2]));
    yoke_trainer_destroy(t);
    free(values);
}

static void
ask_all(void)
{
    static const team_net nets[] = {TEAM_MLP, TEAM_CONV, TEAM_WIDE};
    static told whole, parts;

    for (size_t i = 0; i < YKI_COUNT(nets); i++) {
        team_run run = {.net = nets[i],
                        .selector = devices.selector,
                        .shares = "even",
                        .optimizer = yoke_adam(0.01f),
                        .accumulate = (uint32_t)i,
                        .any_class = true,
                        .average = 0.9f,
                        .bucket_bytes = 1024};

        memset(&whole, 0, sizeof whole);
        memset(&parts, 0, sizeof parts);
        ask(&run, &whole);
        run.shard = YOKE_SHARD_WEIGHTS;
        ask(&run, &parts);
        ck_assert_msg(memcmp(&whole, &parts, sizeof whole) == 0,
                      "net %d: losses %g %g and %g %g, predictions %s, hashes %s %s %s and %s %s "
                      "%s, files %s",
                      (int)nets[i], whole.loss[0], whole.loss[1], parts.loss[0], parts.loss[1],
                      memcmp(whole.y, parts.y, sizeof whole.y) == 0 ? "alike" : "differ",
                      whole.hash[0], whole.hash[1], whole.hash[2], parts.hash[0], parts.hash[1],
                      parts.hash[2],
                      memcmp(whole.file, parts.file, sizeof whole.file) == 0 ? "alike" : "differ");
    }
}

TEAM_SETUP(weights_between_steps, TEST_POCL_ROOTS, open_setup, ask_all())

/* Freezing changes which elements of a part are updated. */
static void
freeze(float clip_norm)
{
    team_run run = {.net = TEAM_MLP,
                    .selector = devices.selector,
                    .shares = "even",
                    .clip_norm = 0.05f, /* what is frozen has no part in the norm either */
                    .optimizer = yoke_sgd(0.1f, 0.9f)};
    team_outcome outcomes[4];

    for (int shards = 0; shards < 4; shards++) {
        yoke_trainer *t;

        run.clip_norm = clip_norm;
        run.shard = (yoke_shard_choice)shards;
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
    ck_assert(team_same_bits(&outcomes[0], &outcomes[2]));
    ck_assert(team_same_bits(&outcomes[0], &outcomes[3]));
    for (int shards = 0; shards < 4; shards++)
        team_free(&outcomes[shards]);
}

TEAM_SETUP(frozen_parameters, TEST_POCL_ROOTS, open_setup, freeze(0); freeze(0.3f))

enum { LAYERS = 20, UNITS = 64, DEEP_BATCH = 8, LARGE_BATCH = 64 };

typedef enum deep_net {
    DEEP_PLAIN,  /* a bucket for each of many equal layers, */
    DEEP_UNREAD, /* and for one behind them that no loss reads; */
    DEEP_NORMED  /* or with a statistic of the batch */
} deep_net;

static yoke_graph *
deep_graph(deep_net net)
{
    yoke_graph *g;
    yoke_node *x, *target;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(UNITS));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(UNITS));
    for (int i = 0; i < LAYERS; i++)
        x = yoke_tanh(g, yoke_dense(g, x, &(yoke_dense_options){.units = UNITS, .no_bias = true}));
    if (net == DEEP_NORMED)
        x = yoke_batch_norm(g, x, NULL);
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    if (net == DEEP_UNREAD) {
        x = yoke_dense(g, x, &(yoke_dense_options){.units = UNITS, .no_bias = true});
        yoke_graph_set_output(g, "unread", x);
    }
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static void
note_parts(void *user, const char *line)
{
    *(size_t *)user += strstr(line, " MB of gradients") != NULL ||
                       strstr(line, " of 0.3 MB of whole gradients, in its plan") != NULL ||
                       strstr(line, " MB of weights") != NULL ||
                       strstr(line, " of 0.3 MB of whole weights, in its plan") != NULL;
}

static void
note_buckets(void *user, const char *line)
{
    *(size_t *)user += strstr(line, " a bucket of gradients") != NULL ||
                       strncmp(line, "gradients: up to 0.", 19) == 0;
}

static void
note_gathers(void *user, const char *line)
{
    *(size_t *)user +=
        strstr(line, " a bucket of weights") != NULL || strncmp(line, "weights: up to 0.", 17) == 0;
}

/* A deep trainer on both devices, with the quotas of a selector. */
static yoke_trainer *
deep_trainer(const team_run *run, const char *selector, deep_net net)
{
    yoke_trainer_options o = team_options(run);
    yoke_graph *g = deep_graph(net);
    yoke_trainer *t;
    yoke_team *team;

    o.batch = run->batch ? run->batch : DEEP_BATCH;
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return t;
}

static void
step_deep(yoke_trainer *t, int64_t n)
{
    static float x[LARGE_BATCH * UNITS];
    const yoke_feed feeds[2] = {yoke_feed_f32("x", x, (size_t)n * UNITS),
                                yoke_feed_f32("target", x, (size_t)n * UNITS)};

    for (int i = 0; i < LARGE_BATCH * UNITS; i++)
        x[i] = (float)(i % 19) / 19.0f - 0.5f;
    ASSERT_OK(yoke_trainer_step(t, n, feeds, 2, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
}

/* Makes three steps of the deep graph. */
static void
train_deep(yoke_trainer *t, team_outcome *outcome)
{
    for (int i = 0; i < 3; i++)
        step_deep(t, DEEP_BATCH);
    ASSERT_OK(team_read(t, outcome));
}

/* The bytes of device 0 that a trainer takes before its first step; and the weights after some. */
static uint64_t
bytes_of(team_run run, yoke_shard_choice kind, uint64_t *whole, uint64_t *parts, uint64_t *at_once,
         team_outcome *outcome)
{
    const yoke_replica *r;
    yoke_memory_usage usage;
    yoke_trainer *t;
    size_t lines = 0;

    run.shard = kind;
    run.shard_by = "1,1";
    t = deep_trainer(&run, devices.selector, DEEP_PLAIN);
    ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(t->team, 0), &usage));
    ASSERT_OK(yoke_trainer_explain(t, note_parts, &lines));
    ck_assert_uint_eq(lines, 4 * (size_t)(kind - YOKE_SHARD_STATE)); /* two of each device */
    lines = 0;
    ASSERT_OK(yoke_trainer_print_plan(t, note_buckets, &lines));
    ck_assert_uint_eq(lines, kind >= YOKE_SHARD_GRADIENTS ? LAYERS + 1 : 0);
    lines = 0;
    ASSERT_OK(yoke_trainer_print_plan(t, note_gathers, &lines));
    /* The first layer's weights are not read in backward. */
    ck_assert_uint_eq(lines, kind == YOKE_SHARD_WEIGHTS ? 2 * LAYERS : 0);
    r = t->crew.members[0].replica;
    *whole = 0;
    for (size_t b = 0; b < r->weights->bucket_count; b++)
        *whole += r->weights->buckets[b].size;
    *parts = t->crew.sharding.gradients ? yki_ranges_total(t->crew.sharding.ranges, 0) : 0;
    *at_once = yki_plan_bucket_bytes(r->training);
    /* The host takes the last two when all is enqueued. */
    for (size_t b = LAYERS - 2; kind == YOKE_SHARD_GRADIENTS && b < LAYERS && run.accumulate == 1;
         b++)
        ck_assert_uint_eq(yki_plan_bucket_end(r->training, b), r->training->task_count);
    *at_once += yki_plan_gathered_bytes(r->training);
    train_deep(t, outcome);
    yoke_trainer_destroy(t);
    return usage.used;
}

/* A device has its part of the gradients, and a few buckets at a time in its plan, where one comes
 * after the other without changing a bit. Sums over micro-batches are whole. */
static void
measure_gradients(void)
{
    for (uint32_t accumulate = 1; accumulate <= 2; accumulate++) {
        const team_run run = {.selector = devices.selector,
                              .shares = "even",
                              .optimizer = yoke_adam(0.01f),
                              .accumulate = accumulate,
                              .bucket_bytes = UNITS * UNITS * 4};
        const uint64_t few = (accumulate == 1 ? 4 : 2) * run.bucket_bytes;
        uint64_t whole, parts, at_once, state, gradients, weights;
        team_outcome outcomes[3];

        state = bytes_of(run, YOKE_SHARD_STATE, &whole, &parts, &at_once, &outcomes[0]);
        ck_assert_uint_eq(whole, LAYERS * run.bucket_bytes);
        ck_assert_uint_eq(parts, 0);
        ck_assert_uint_eq(at_once, 0);
        gradients = bytes_of(run, YOKE_SHARD_GRADIENTS, &whole, &parts, &at_once, &outcomes[1]);
        ck_assert_uint_eq(parts, whole / 2);
        ck_assert_msg(at_once <= few, "%llu bytes of buckets at a time",
                      (unsigned long long)at_once);
        ck_assert_msg(gradients + whole <= state + parts + few,
                      "%llu bytes of gradients: %llu bytes in all where whole ones take %llu",
                      (unsigned long long)whole, (unsigned long long)gradients,
                      (unsigned long long)state);
        /* Of weights there are three: with the host, under way and in use. */
        weights = bytes_of(run, YOKE_SHARD_WEIGHTS, &whole, &parts, &at_once, &outcomes[2]);
        ck_assert_msg(at_once <= few + 3 * run.bucket_bytes, "%llu bytes of buckets at a time",
                      (unsigned long long)at_once);
        ck_assert_msg(weights + whole <= gradients + parts + 3 * run.bucket_bytes,
                      "%llu bytes of weights: %llu bytes in all where whole ones take %llu",
                      (unsigned long long)whole, (unsigned long long)weights,
                      (unsigned long long)gradients);
        ck_assert(team_same_bits(&outcomes[0], &outcomes[1]));
        ck_assert(team_same_bits(&outcomes[0], &outcomes[2]));
        for (size_t i = 0; i < YKI_COUNT(outcomes); i++)
            team_free(&outcomes[i]);
    }
}

TEAM_SETUP(bytes_of_gradients, TEST_POCL_ROOTS, open_setup, measure_gradients())

/* Where nobody computes a gradient, it is 0 until it is taken: else it would count in the norm. */
static void
keep_zeros(void)
{
    team_outcome outcomes[3];

    for (uint32_t accumulate = 1; accumulate <= 2; accumulate++) {
        team_run run = {.selector = devices.selector,
                        .shares = "even",
                        .optimizer = yoke_sgd(0.1f, 0),
                        .accumulate = accumulate,
                        .clip_norm = 1e-3f,
                        .shard_by = "1,1",
                        .bucket_bytes = UNITS * UNITS * 4};

        for (int i = 0; i < 3; i++) {
            yoke_trainer *t;

            run.shard = (yoke_shard_choice)(YOKE_SHARD_STATE + i);
            t = deep_trainer(&run, devices.selector, DEEP_UNREAD);
            train_deep(t, &outcomes[i]);
            yoke_trainer_destroy(t);
        }
        ck_assert(team_same_bits(&outcomes[0], &outcomes[1]));
        ck_assert(team_same_bits(&outcomes[0], &outcomes[2]));
        for (int i = 0; i < 3; i++)
            team_free(&outcomes[i]);
    }
}

TEAM_SETUP(gradients_that_nobody_computes, TEST_POCL_ROOTS, open_setup, keep_zeros())

/* A device without samples computes what depends on weights alone, too. Of zeros that came instead
 * of weights, the gradient of a root would be none. */
static void
train_without_samples(void)
{
    static float x[TEAM_CLASSES * 8];
    const yoke_feed feeds[2] = {yoke_feed_f32("x", x, YKI_COUNT(x)),
                                yoke_feed_f32("target", x, YKI_COUNT(x))};
    team_run run = {.selector = devices.selector, .shares = "1,0"};
    team_outcome outcomes[2];

    for (size_t i = 0; i < YKI_COUNT(x); i++)
        x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 2; i++) {
        yoke_trainer_options o;
        yoke_node *input, *scale;
        yoke_trainer *t;
        yoke_graph *g;
        yoke_team *team;

        run.shard = i ? YOKE_SHARD_WEIGHTS : YOKE_SHARD_NOTHING;
        o = team_options(&run);
        o.batch = 8;
        ASSERT_OK(yoke_graph_create(&g));
        input = yoke_input(g, "x", YOKE_F32, yoke_shape(TEAM_CLASSES));
        scale = yoke_parameter(g, "scale", yoke_shape(TEAM_CLASSES),
                               (yoke_initializer){.kind = YOKE_INIT_CONSTANT, .a = 2});
        input = yoke_mul(g, input, yoke_sqrt(g, scale));
        yoke_graph_set_loss(
            g, yoke_mean_squared_error(
                   g, input, yoke_target(g, "target", YOKE_F32, yoke_shape(TEAM_CLASSES)), NULL));
        ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
        ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
        for (int k = 0; k < 3; k++)
            ASSERT_OK(yoke_trainer_step(t, 8, feeds, 2, NULL));
        ASSERT_OK(team_read(t, &outcomes[i]));
        yoke_trainer_destroy(t);
        yoke_graph_destroy(g);
        yoke_team_destroy(team);
    }
    ck_assert_float_gt(outcomes[0].values[0][0], 0.5f);
    ck_assert(team_same_bits(&outcomes[0], &outcomes[1]));
    for (int i = 0; i < 2; i++)
        team_free(&outcomes[i]);
}

TEAM_SETUP(weights_without_samples, TEST_POCL_ROOTS, open_setup, train_without_samples())

/* Writes the selector of both devices with quotas. */
static const char *
quoted(char selector[256], const uint64_t quotas[2])
{
    const char *second = strchr(devices.selector, ',');

    ck_assert_ptr_nonnull(second);
    snprintf(selector, 256, "%.*s@%lluB%s@%lluB", (int)(second - devices.selector),
             devices.selector, (unsigned long long)quotas[0], second,
             (unsigned long long)quotas[1]);
    return selector;
}

/* A trainer of a larger network on both devices, with quotas. */
static yoke_trainer *
with_quotas(const team_run *run, const uint64_t quotas[2])
{
    yoke_trainer_options o = team_options(run);
    yoke_trainer *trainer;
    char selector[256];
    yoke_graph *g;
    yoke_team *team;

    quoted(selector, quotas);
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
note_choice(void *user, const char *line)
{
    *(size_t *)user += strcmp(line, "shards: auto chose weights") == 0;
}

/* Each level is chosen where the quotas hold what it takes, but not what the one before does. */
static void
choose_level(void)
{
    team_run run = {
        .shares = "even", .optimizer = yoke_adam(0.01f), .bucket_bytes = UNITS * UNITS * 4};
    uint64_t used[YOKE_SHARD_WEIGHTS + 1], quotas[2] = {UINT64_C(1) << 29, UINT64_C(1) << 29};
    team_outcome whole, outcome;
    char selector[256];
    yoke_trainer *t;

    for (int level = 0; level <= YOKE_SHARD_WEIGHTS; level++) {
        yoke_memory_usage usage;

        run.shard = (yoke_shard_choice)level;
        run.shard_by = level ? "1,1" : NULL;
        t = deep_trainer(&run, quoted(selector, quotas), DEEP_PLAIN);
        ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(t->team, 0), &usage));
        used[level] = usage.used;
        if (level == 0)
            train_deep(t, &whole);
        yoke_trainer_destroy(t);
    }
    run.shard = YOKE_SHARD_AUTO;
    run.shard_by = NULL;
    for (int level = 0; level <= YOKE_SHARD_WEIGHTS; level++) {
        const uint64_t least = used[level];
        const uint64_t most = level ? used[level - 1] : 2 * least;
        size_t lines = 0;

        ck_assert_uint_gt(most, least);
        quotas[0] = quotas[1] = least + (most - least) * 3 / 4;
        t = deep_trainer(&run, quoted(selector, quotas), DEEP_PLAIN);
        ck_assert_msg((int)t->crew.sharding.level == level,
                      "%llu bytes, where level %d takes %llu: level %d",
                      (unsigned long long)quotas[0], level, (unsigned long long)least,
                      (int)t->crew.sharding.level);
        ASSERT_OK(yoke_trainer_explain(t, note_choice, &lines));
        ck_assert_uint_eq(lines, level == YOKE_SHARD_WEIGHTS);
        train_deep(t, &outcome);
        ck_assert(team_same_bits(&whole, &outcome));
        team_free(&outcome);
        yoke_trainer_destroy(t);
    }
    team_free(&whole);
}

/* The level of a team with room for `share` of what a step takes where nothing is divided, if its
 * shares are `shares`. The trainer's step must go through. */
static int
level_in_less(team_run run, deep_net net, double share, const char *shares, int64_t *batch)
{
    uint64_t quotas[2] = {UINT64_C(1) << 29, UINT64_C(1) << 29};
    yoke_memory_usage usage;
    char selector[256];
    yoke_trainer *t;
    int level;

    run.batch = LARGE_BATCH;
    run.shares = "even";
    t = deep_trainer(&run, quoted(selector, quotas), net);
    step_deep(t, LARGE_BATCH);
    ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(t->team, 0), &usage));
    yoke_trainer_destroy(t);
    quotas[0] = quotas[1] = (uint64_t)((double)usage.used * share);
    run.shares = shares;
    run.shard = YOKE_SHARD_AUTO;
    t = deep_trainer(&run, quoted(selector, quotas), net);
    step_deep(t, LARGE_BATCH);
    level = (int)t->crew.sharding.level;
    *batch = t->crew.members[0].replica->options.batch;
    yoke_trainer_destroy(t);
    return level;
}

/* Where any device may get the whole batch, its even share must fit; and where each granule has a
 * plan, all of them. */
static void
choose_by_shares(void)
{
    team_run run = {.optimizer = yoke_adam(0.01f), .bucket_bytes = UNITS * UNITS * 4};
    int64_t batch;

    ck_assert_int_eq(level_in_less(run, DEEP_PLAIN, 1.08, NULL, &batch), YOKE_SHARD_NOTHING);
    ck_assert_int_ge(batch, LARGE_BATCH / 2);
    ck_assert_int_lt(batch, LARGE_BATCH);
    run.any_split = true;
    run.granule = DEEP_BATCH;
    ck_assert_int_gt(level_in_less(run, DEEP_NORMED, 0.8, "even", &batch), YOKE_SHARD_NOTHING);
}

TEAM_SETUP(level_by_shares, TEST_POCL_ROOTS, open_setup, choose_by_shares())

TEAM_SETUP(level_by_memory, TEST_POCL_ROOTS, open_setup, choose_level())

/* Where another device computes the gradients of a bucket much later than this one, whose plan by
 * then has something else there. */
static void
take_too_late(void)
{
    const team_run run = {.shard = YOKE_SHARD_WEIGHTS, .bucket_bytes = UNITS * UNITS * 4};
    yoke_trainer *t = deep_trainer(&run, devices.selector, DEEP_PLAIN);

    yki_comm_release(t->crew.comm, t->crew.buckets.transit_memory);
    ASSERT_OK(yki_sharding_make_transit(&t->crew));
    yki_comm_release(t->crew.comm, t->crew.buckets.transit_memory);
    t->crew.buckets.ready_stop[0] += 3;
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED, yki_sharding_make_transit(&t->crew));
    ASSERT_DETAIL("its plan needs the memory of gradients (bucket 0) again before another device");
    yoke_trainer_destroy(t);
}

TEAM_SETUP(gradients_that_come_late, TEST_POCL_ROOTS, open_setup, take_too_late())

/* Devices of a group need not be neighbours. */
START_TEST(owners_by_group)
{
    static const yki_shard_row rows[] = {{.rank = 0, .group = 0}, {.rank = 0, .group = 1},
                                         {.rank = 0, .group = 0}, {.rank = 1, .group = 0},
                                         {.rank = 1, .group = 0}, {.rank = 2, .group = 0}};
    static const size_t expected[] = {0, 1, 0, 2, 2, 3};
    size_t owners[YKI_COUNT(rows)];

    ck_assert_uint_eq(yki_sharding_number(rows, YKI_COUNT(rows), owners), 4);
    ck_assert_mem_eq(owners, expected, sizeof owners);
}
END_TEST

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

    expect_refusal(&run, "must be NULL unless shard is another choice");
    run.shard = (yoke_shard_choice)7;
    expect_refusal(&run, "shard is 7; must be");
    run.shard = YOKE_SHARD_WEIGHTS;
    run.any_split = true;
    run.recheck = 1;
    expect_refusal(&run, "recheck is 1, but a device that keeps a part of the weights");
    run.recheck = 0;
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
    TCase *state = test_case(suite, "state"), *gradients = test_case(suite, "gradients"),
          *weights = test_case(suite, "weights");

    tcase_set_timeout(state, 300);
    tcase_set_timeout(gradients, 300);
    tcase_set_timeout(weights, 300);
    tcase_add_test(state, parts_of_two_devices);
    tcase_add_test(state, frozen_parameters);
    tcase_add_test(state, parts_by_room);
    tcase_add_test(state, owners_by_group);
    tcase_add_test(state, shards_that_are_refused);
    tcase_add_test(gradients, gradients_of_two_devices);
    tcase_add_test(gradients, gradients_in_small_buckets);
    tcase_add_test(gradients, gradients_of_granules);
    tcase_add_test(gradients, bytes_of_gradients);
    tcase_add_test(gradients, gradients_that_nobody_computes);
    tcase_add_test(weights, weights_of_two_devices);
    tcase_add_test(weights, weights_in_small_buckets);
    tcase_add_test(weights, weights_of_other_networks);
    tcase_add_test(weights, weights_between_steps);
    tcase_add_test(weights, weights_without_samples);
    tcase_add_test(weights, gradients_that_come_late);
    tcase_add_test(weights, level_by_memory);
    tcase_add_test(weights, level_by_shares);
    return suite;
}

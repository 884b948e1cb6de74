/* SPDX-License-Identifier: Apache-2.0
 *
 * check_small_state.c - optimizers whose state is kept as bfloat16: half the memory, the same bits
 * on any split and after any interruption, and there and back to floats. check_update_kernels.c
 * compares the rounding with its formula, check_precisions.c what is learned.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"
#include "data/weights_file.h"
#include "support/scratch.h"
#include "train/checkpoint.h"
#include "train/runs.h"
#include "train/saved_tensors.h"

static test_devices devices;
static char whole[64];

static bool
open_halves(test_setup setup)
{
    yoke_device_info info[2];

    scratch_set_up();
    if (!team_find(setup, &devices, info))
        return false;
    snprintf(whole, sizeof whole, "%s", info[0].parent);
    return true;
}

static team_kept
read_kept(yoke_trainer *t)
{
    team_kept k = team_read_kept(t);

    ck_assert_uint_lt(k.state_from, k.count);
    return k;
}

static team_kept
train(team_run run)
{
    yoke_trainer *t = team_trainer(devices.context, &run);
    team_kept k;

    for (int i = 0; i < 8; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    k = read_kept(t);
    yoke_trainer_destroy(t);
    return k;
}

static void
assert_same(const team_kept *a, team_kept b, const char *what)
{
    ck_assert_uint_eq(a->count, b.count);
    ck_assert_msg(memcmp(a->values, b.values, a->count * sizeof *a->values) == 0, "%s: other bits",
                  what);
    free(b.values);
}

static bool
is_small(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (bits & 0xffff) == 0;
}

/* ---- the same bits ---- */

static team_run
usual(yoke_optimizer optimizer)
{
    return (team_run){.selector = whole,
                      .net = TEAM_MLP,
                      .last = 7,
                      .optimizer = optimizer,
                      .state = YOKE_STATE_BF16};
}

/* A word follows from seed, step and element: not from buckets, devices, or who owns what. In the
 * matrix, where some compilers are slow, what differs most is compared. */
static void
compare_splits(void)
{
    const yoke_optimizer optimizers[] = {yoke_adam(0.01f), yoke_sgd(0.1f, 0.9f)};
    const bool few = test_in_matrix() && !test_is_thorough();

    for (size_t i = 0; i < (few ? 1 : YKI_COUNT(optimizers)); i++) {
        team_run run = usual(optimizers[i]);
        team_kept first = train(run);

        for (size_t k = first.state_from; k < first.count; k++)
            ck_assert_msg(is_small(first.values[k]), "%a is kept", (double)first.values[k]);
        run.bucket_bytes = 512;
        assert_same(&first, train(run), "many buckets");
        if (!few) {
            team_kept other;

            run.bucket_bytes = 0;
            assert_same(&first, train(run), "again");
            run.seed = 2;
            other = train(run);

            ck_assert_mem_ne(first.values, other.values, first.count * sizeof *first.values);
            free(other.values);
        }
        free(first.values);

        run = usual(optimizers[i]);
        run.any_split = true;
        first = train(run);
        run.selector = devices.selector;
        run.shares = "80,20";
        assert_same(&first, train(run), "two devices");
        run.own_weights = true;
        if (!few)
            assert_same(&first, train(run), "two devices with weights of their own");
        run.shard = YOKE_SHARD_STATE;
        run.shard_by = "1,2";
        if (!few)
            assert_same(&first, train(run), "state in shards");
        run.shard = YOKE_SHARD_WEIGHTS;
        run.bucket_bytes = 1024;
        assert_same(&first, train(run), "all in shards");
        free(first.values);
    }
}

/* Near what floats give, but not that. */
static void
compare_with_floats(void)
{
    team_run run = usual(yoke_adam(0.01f));
    const team_kept small = train(run);
    double apart = 0, largest = 0;
    team_kept full;

    run.state = YOKE_STATE_F32;
    full = train(run);
    ck_assert_uint_eq(small.count, full.count);
    for (size_t i = 0; i < small.state_from; i++) {
        apart = fmax(apart, fabs((double)small.values[i] - (double)full.values[i]));
        largest = fmax(largest, fabs((double)full.values[i]));
    }
    ck_assert_msg(apart > 0 && apart < 0.02 * largest, "%g of %g", apart, largest);
    free(small.values);
    free(full.values);
}

/* ---- half the memory ---- */

/* What the devices of a run have: state, and what is foretold of all memory. */
static void
weigh(const team_run *run, uint64_t *state, uint64_t *memory)
{
    yoke_trainer *t = team_trainer(devices.context, run);
    yoke_forecast forecast[2];
    size_t count = yoke_team_count(t->team);

    ck_assert_uint_le(count, 2);
    ASSERT_OK(yoke_trainer_forecast(t, forecast, count));
    *state = yoke_trainer_state_bytes(t);
    *memory = 0;
    for (size_t k = 0; k < count; k++)
        *memory += forecast[k].memory;
    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
    yoke_trainer_destroy(t);
}

/* An average is kept as floats. */
static void
check_memory(void)
{
    for (int i = 0; i < 4; i++) {
        const bool sharded = i & 1;
        team_run run = usual(yoke_adam(0.01f));
        uint64_t small, full, memory[2];
        char line[80];

        run.average = i & 2 ? 0.9f : 0;
        if (sharded) {
            run.selector = devices.selector;
            run.own_weights = true;
            run.shard = YOKE_SHARD_STATE;
            run.shares = "even";
        }
        weigh(&run, &small, &memory[0]);
        if (sharded) {
            snprintf(line, sizeof line, "in shards: %.1f MB in all", (double)small / 1e6);
            ck_assert_msg(strstr(test_lines, line), "no \"%s\" in\n%s", line, test_lines);
        }
        run.state = YOKE_STATE_F32;
        weigh(&run, &full, &memory[1]);
        ck_assert_uint_eq(full % 6, 0);
        ck_assert_uint_eq(small, run.average > 0 ? full / 3 * 2 : full / 2);
        ck_assert_uint_eq(memory[1] - memory[0], full - small);
    }
}

/* ---- checkpoints ---- */

enum { SAMPLES = 96 };

/* Trains up to the end of an epoch, or goes on from what is in the folder. */
static team_kept
fit(const team_run *run, const char *dir, int64_t epochs)
{
    yoke_trainer *t = team_trainer(devices.context, run);
    yoke_dataset *data = team_dataset(run, 0, SAMPLES);
    team_kept k;

    ASSERT_OK(yoke_trainer_fit(
        t, data, NULL,
        &(yoke_fit_options){.epochs = epochs, .checkpoint_dir = dir, .resume = dir != NULL}));
    ck_assert_int_eq(yoke_trainer_get_step(t), epochs * SAMPLES / 24);
    k = read_kept(t);
    yoke_dataset_destroy(data);
    yoke_trainer_destroy(t);
    return k;
}

/* Of the file of a step: weights are floats, and the state is as it is kept. */
static void
check_file(const char *dir, int64_t step, bool small)
{
    char *path = yki_checkpoint_path(dir, step);
    yki_safetensors *file;
    size_t states = 0;

    ASSERT_OK(yki_safetensors_open(path, &file));
    for (size_t i = 0; i < file->count; i++) {
        const bool is_state = strchr(file->tensors[i].name, '#') != NULL;

        states += is_state;
        ck_assert_msg(file->tensors[i].dtype ==
                          (is_state && small ? YKI_DTYPE_BF16 : YKI_DTYPE_F32),
                      "%s has another type", file->tensors[i].name);
    }
    ck_assert_uint_eq(states, 8); /* of two layers */
    yki_safetensors_close(file);
    yki_free(path);
}

static void
check_checkpoints(bool sharded)
{
    const char *dir = scratch_path(sharded ? "shards" : "run");
    team_run run = usual(yoke_adam(0.01f));
    team_kept through, now, later;

    if (sharded) {
        run.selector = devices.selector;
        run.own_weights = true;
        run.shard = YOKE_SHARD_STATE;
        run.shares = "even";
    }
    run.last = 0;
    through = fit(&run, NULL, 2);
    now = fit(&run, dir, 1);
    check_file(dir, SAMPLES / 24, true);
    assert_same(&now, fit(&run, dir, 1), "what was read"); /* nothing is left to do */
    assert_same(&through, fit(&run, dir, 2), "resumed");

    /* To floats, which have the same values at first, and back: to the nearest. */
    run.state = YOKE_STATE_F32;
    assert_same(&through, fit(&run, dir, 2), "as floats");
    later = fit(&run, dir, 3);
    check_file(dir, 3 * SAMPLES / 24, false);
    free(now.values);
    run.state = YOKE_STATE_BF16;
    now = fit(&run, dir, 3);
    ck_assert_uint_eq(now.count, later.count);
    for (size_t i = 0; i < now.count; i++) {
        const uint32_t half = (uint32_t)yki_to_bf16(later.values[i]) << 16;
        float wanted = later.values[i];

        if (i >= now.state_from)
            memcpy(&wanted, &half, sizeof wanted);
        ck_assert_msg(now.values[i] == wanted, "number %zu: %a, not %a", i, (double)now.values[i],
                      (double)wanted);
    }
    free(now.values);
    free(later.values);
    free(through.values);
}

/* Every set-up, in turn with that of the matrix. */
#define CASE(name, ...)                                                                            \
    TEAM_SETUP(name##_of_the_matrix, TEST_AS_IS, open_halves, __VA_ARGS__; scratch_tear_down())    \
    TEAM_SETUP(name##_of_halves, TEST_POCL_HALVES, open_halves, __VA_ARGS__; scratch_tear_down())

CASE(splits, compare_splits())
CASE(floats, compare_with_floats())
CASE(memory, check_memory())
CASE(checkpoints, check_checkpoints(false))
CASE(checkpoints_in_shards, check_checkpoints(true))

#define ADD(name)                                                                                  \
    tcase_add_test(tcase, name##_of_the_matrix);                                                   \
    tcase_add_test(tcase, name##_of_halves)

Suite *
test_suite(void)
{
    Suite *suite = suite_create("small state");
    TCase *tcase = test_case(suite, "small state");

    ADD(splits);
    ADD(floats);
    ADD(memory);
    ADD(checkpoints);
    ADD(checkpoints_in_shards);
    return suite;
}

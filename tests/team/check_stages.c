/* SPDX-License-Identifier: Apache-2.0
 *
 * check_stages.c - a graph that yoke cuts into stages trains as on one device: within rounding, and
 * with the same bits whether micro-batches are under way together or not.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scratch.h"
#include "team/pipeline.h"
#include "team/stages.h"
#include "train/runs.h"
#include "train/trainer.h"

enum { BATCH = 24, STEPS = 6 };

static test_devices devices;
static char first_device[sizeof((yoke_device_info){0}.id)];

static bool
open_setup(test_setup setup)
{
    yoke_device_info info[2];

    if (!team_find(setup, &devices, info))
        return false;
    memcpy(first_device, info[0].id, sizeof first_device);
    return true;
}

/* ---- runs ---- */

typedef struct how {
    team_net net;
    uint32_t stages, micro_batches;
    bool behind; /* one micro-batch is done before the next begins */
    const char *selector;
} how;

static yoke_status
make(const how *h, yoke_trainer **t)
{
    team_run run = {.net = h->net, .batch = BATCH, .optimizer = yoke_sgd(0.1f, 0.9f)};
    yoke_trainer_options o;
    yoke_graph *g = team_graph(h->net);
    yoke_status status;
    yoke_team *team;

    o = team_options(&run);
    o.stages = h->stages;
    o.accumulate = h->micro_batches;
    o.no_overlap = h->behind;
    o.clip_norm = 1;
    ASSERT_OK(yoke_team_create(devices.context, h->selector ? h->selector : devices.selector, NULL,
                               &team));
    status = yoke_trainer_create(team, g, &o, t);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return status;
}

/* Members that compute nodes of forward. */
static size_t
count_stages(const yoke_trainer *t)
{
    size_t stages = 0;

    for (size_t k = 0; k < t->crew.count; k++) {
        const yki_plan *plan = t->crew.members[k].replica->training;
        bool any = false;

        for (size_t i = 0; i < plan->task_count; i++)
            any |= plan->tasks[i].section == YKI_FORWARD && plan->tasks[i].solver;
        stages += any;
    }
    return stages;
}

typedef struct outcome {
    team_outcome weights;
    yoke_result evaluated;
} outcome;

static void
train(const how *h, outcome *out)
{
    const team_run run = {.net = h->net, .batch = BATCH, .last = 7};
    yoke_trainer *t;

    ASSERT_OK(make(h, &t));
    if (h->stages && h->stages != YOKE_STAGES_AUTO)
        ck_assert_uint_eq(count_stages(t), h->stages);
    if (h->stages > 1 && h->stages != YOKE_STAGES_AUTO)
        ck_assert_int_eq(yki_pipeline_exists(&t->crew), h->micro_batches > 1 && !h->behind);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < STEPS; i++)
        ASSERT_OK(team_step(&run, t, i, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    if (h->net != TEAM_SEQUENCE) {                         /* whose samples are no dataset here */
        yoke_dataset *dataset = team_dataset(&run, 0, 40); /* the last step has fewer samples */

        ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &(yoke_fit_options){.epochs = 1}));
        ASSERT_OK(yoke_trainer_evaluate(t, dataset, &out->evaluated));
        yoke_dataset_destroy(dataset);
    }
    ASSERT_OK(team_read(t, &out->weights));
    yoke_trainer_destroy(t);
}

static void
assert_alike(team_net net, uint32_t stages, uint32_t micro_batches)
{
    char what[64];
    outcome piped, behind, one;
    how h = {net, stages, micro_batches, false, NULL};

    train(&h, &piped);
    h.behind = true;
    train(&h, &behind);
    h = (how){net, 0, micro_batches, false, first_device};
    train(&h, &one);
    snprintf(what, sizeof what, "net %d, %u stages, %u micro-batches", (int)net, stages,
             micro_batches);
    ck_assert_msg(team_same_bits(&piped.weights, &behind.weights), "%s: bits differ", what);
    team_assert_near(&piped.weights, &one.weights, what);
    ck_assert_double_le(fabs(piped.evaluated.loss - one.evaluated.loss), 1e-5 * one.evaluated.loss);
    ck_assert_double_eq(piped.evaluated.count, one.evaluated.count);
    team_free(&piped.weights);
    team_free(&behind.weights);
    team_free(&one.weights);
}

/* Micro-batches of 5 and of 4 samples, and in smaller steps of fewer and of none: each sample
 * counts as much as in a batch that is not cut. */
static void
assert_unequal(team_net net, uint32_t stages, uint32_t micro_batches)
{
    how h = {net, stages, micro_batches, false, NULL};
    outcome cut, whole;

    ck_assert_int_ne(BATCH % micro_batches, 0);
    assert_alike(net, stages, micro_batches);
    train(&h, &cut);
    h = (how){net, 0, 1, false, first_device};
    train(&h, &whole);
    team_assert_near(&cut.weights, &whole.weights, "beside a batch that is not cut");
    team_free(&cut.weights);
    team_free(&whole.weights);
}

static void
check_two(void)
{
    assert_alike(TEAM_CONV, 2, 4);
    assert_alike(TEAM_MLP, 2, 3);
    assert_unequal(TEAM_MLP, 2, 5);
}

static void
check_nets(void)
{
    check_two();
    assert_alike(TEAM_SEQUENCE, 2, 2);
    assert_alike(TEAM_DROPOUT, 2, 8);
    assert_alike(TEAM_WEIGHTED, 2, 1);
    assert_alike(TEAM_CONV, 1, 2);
    assert_alike(TEAM_CONV, YOKE_STAGES_AUTO, 6);
    assert_unequal(TEAM_SEQUENCE, 2, 9);
    assert_unequal(TEAM_DROPOUT, 2, 7);
}

static void
check_many(void)
{
    assert_alike(TEAM_CONV, 3, 6);
    assert_alike(TEAM_CONV, 4, 8);
    assert_alike(TEAM_SEQUENCE, 3, 4);
    assert_unequal(TEAM_SEQUENCE, 4, 5);
}

TEAM_SETUP(stages_of_the_matrix, TEST_AS_IS, open_setup, check_two())
TEAM_SETUP(stages_on_halves, TEST_POCL_HALVES, open_setup, check_nets())
TEAM_SETUP(stages_on_unequal_parts, TEST_POCL_UNEVEN, open_setup, check_two())
TEAM_SETUP(stages_on_quarters, TEST_POCL_QUARTERS, open_setup, check_many())
TEAM_SETUP(stages_on_two_platforms, TEST_POCL_AND_RUSTICL, open_setup, check_two())
TEAM_SETUP(stages_on_slices, TEST_RUSTICL_SLICES, open_setup, assert_alike(TEAM_MLP, 2, 3))

/* ---- checkpoints ---- */

/* Trains one step more, from the newest checkpoint. */
static void
go_on(how h, const char *dir, int64_t step, unsigned warnings)
{
    const team_run run = {.net = h.net, .batch = BATCH};
    const yoke_fit_options fit = {.epochs = step, .checkpoint_dir = dir, .resume = true};
    yoke_dataset *dataset = team_dataset(&run, 0, BATCH);
    yoke_trainer *t;

    ASSERT_OK(make(&h, &t));
    scratch_log_clear();
    ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &fit));
    ck_assert_int_eq(yoke_trainer_get_step(t), step);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "was trained with"), warnings);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "with 4 micro-batches in a step"),
                      warnings);
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(dataset);
}

/* Where a batch norm takes statistics of each micro-batch, another number of them is told. */
static void
check_checkpoints(void)
{
    const char *norm = scratch_path("norm"), *plain = scratch_path("plain");

    go_on((how){TEAM_CONV, 2, 4, false, NULL}, norm, 1, 0);
    go_on((how){TEAM_CONV, 2, 4, false, NULL}, norm, 2, 0);
    go_on((how){TEAM_CONV, 0, 3, false, first_device}, norm, 3, 1);
    go_on((how){TEAM_MLP, 2, 5, false, NULL}, plain, 1, 0);
    go_on((how){TEAM_MLP, 0, 3, false, first_device}, plain, 2, 0);
}

TEAM_SETUP(other_micro_batches, TEST_POCL_HALVES, open_setup, check_checkpoints())

/* ---- where it is cut ---- */

/* Twelve equal layers, of which each has a megabyte of weights and gradients and momentum. */
enum { LAYERS = 12, WIDTH = 256 };

static yoke_graph *
make_layers(int layers)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    for (int i = 0; i < layers; i++)
        x = yoke_tanh(g, yoke_dense(g, x, &(yoke_dense_options){.units = WIDTH}));
    x = yoke_dense(g, x, &(yoke_dense_options){.units = 4});
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(
                               g, x, yoke_target(g, "target", YOKE_I32, yoke_shape()), NULL));
    return g;
}

static yoke_status
make_of_layers(const char *selector, int layers, yoke_trainer_options o, yoke_trainer **t)
{
    yoke_graph *g = make_layers(layers);
    yoke_status status;
    yoke_team *team;

    o.level = YOKE_PLAN_ESTIMATE;
    o.batch = 16;
    o.optimizer = yoke_sgd(0.1f, 0.9f);
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    status = yoke_trainer_create(team, g, &o, t);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return status;
}

/* Parameters of a member. */
static uint64_t
own_parameters(const yoke_trainer *t, size_t member)
{
    const yki_weights *w = t->crew.members[member].replica->weights;
    uint64_t bytes = 0;

    for (size_t i = 0; i < w->weight_count; i++)
        bytes += w->weights[i].value ? w->weights[i].size : 0;
    return bytes / 4;
}

static void
find_lines(void *user, const char *text)
{
    size_t *found = user;

    found[0] += strstr(text, "stages: every device has a part") != NULL;
    found[1] += strstr(text, "4 micro-batches of a step go through the stages, up to 2") != NULL;
    found[2] += strstr(text, "waits, %") != NULL;
}

/* Equal devices get equal parts of equal layers. */
static void
check_even(void)
{
    const yoke_trainer_options o = {.stages = 2, .accumulate = 4};
    size_t found[3] = {0};
    yoke_trainer *t;
    uint64_t first, second;

    ASSERT_OK(make_of_layers(devices.selector, LAYERS, o, &t));
    first = own_parameters(t, 0);
    second = own_parameters(t, 1);
    ck_assert_uint_ge(first, (LAYERS / 2 - 1) * WIDTH * WIDTH);
    ck_assert_uint_ge(second, (LAYERS / 2 - 1) * WIDTH * WIDTH);
    ASSERT_OK(yoke_trainer_explain(t, find_lines, found));
    ck_assert_uint_eq(found[0], 1);
    ck_assert_uint_eq(found[1], 1);
    ck_assert_uint_eq(found[2], 1);
    yoke_trainer_destroy(t);
}

/* One device is three times as fast: it gets three times as many layers. */
static void
check_by_speed(void)
{
    const yoke_trainer_options o = {.stages = 2, .accumulate = 4};
    yoke_trainer *t;

    ASSERT_OK(make_of_layers(devices.selector, LAYERS, o, &t));
    ck_assert_uint_ge(own_parameters(t, 0), 2 * WIDTH * WIDTH);
    ck_assert_uint_le(own_parameters(t, 0), 5 * WIDTH * WIDTH);
    yoke_trainer_destroy(t);
}

/* The first part holds a quarter of what the second one holds. */
static void
check_by_memory(void)
{
    const yoke_trainer_options o = {.stages = 2, .accumulate = 4};
    yoke_trainer *t;
    char selector[600];

    snprintf(selector, sizeof selector, "%s.0@5MB,%s.1@30MB", devices.selector, devices.selector);
    ASSERT_OK(make_of_layers(selector, LAYERS, o, &t));
    ck_assert_uint_ge(own_parameters(t, 0), 2 * WIDTH * WIDTH);
    ck_assert_uint_lt(own_parameters(t, 0), 5 * WIDTH * WIDTH);
    yoke_trainer_destroy(t);
}

/* Four small devices hold what none of them holds. */
static void
check_small_devices(void)
{
    static float x[16 * WIDTH];
    static const int32_t labels[16] = {1, 2, 3};
    const yoke_feed feeds[] = {yoke_feed_f32("x", x, 16 * WIDTH),
                               yoke_feed_i32("target", labels, 16)};
    yoke_trainer_options o = {.accumulate = 4};
    yoke_result result;
    char selector[600];
    yoke_trainer *t;

    snprintf(selector, sizeof selector, "%s.0@5MB", devices.selector);
    ck_assert(yki_lacks_memory(make_of_layers(selector, LAYERS, o, &t)));
    o.stages = YOKE_STAGES_AUTO;
    o.own_weights = true;
    snprintf(selector, sizeof selector, "%s@5MB", devices.selector);
    ASSERT_OK(make_of_layers(selector, LAYERS, o, &t));
    ck_assert_uint_ge(count_stages(t), 3);
    ck_assert(yki_pipeline_exists(&t->crew));
    for (size_t i = 0; i < YKI_COUNT(x); i++)
        x[i] = (float)(i % 7) / 7;
    for (int i = 0; i < 3; i++)
        ASSERT_OK(yoke_trainer_step(t, 16, feeds, 2, &result));
    ck_assert_double_eq(result.count, 16);
    yoke_trainer_destroy(t);
}

TEAM_SETUP(small_devices, TEST_POCL_QUARTERS, open_setup, check_small_devices())
TEAM_SETUP(equal_parts, TEST_POCL_HALVES, open_setup, check_even())
TEAM_SETUP(parts_by_speed, TEST_POCL_UNEVEN, open_setup, check_by_speed())
TEAM_SETUP(parts_by_memory, TEST_POCL_HALVES, open_setup, check_by_memory())

/* ---- what is refused ---- */

static void
refused(const char *selector, yoke_trainer_options o, yoke_status status, const char *detail)
{
    yoke_trainer *t = NULL;

    ASSERT_STATUS(status, make_of_layers(selector, LAYERS, o, &t));
    ASSERT_DETAIL(detail);
    ck_assert_ptr_null(t);
}

static void
check_mistakes(void)
{
    char selector[600];
    yoke_trainer_options o = {.stages = 3, .accumulate = 4};

    refused(devices.selector, o, YOKE_ERROR_INVALID_ARGUMENT, "must be at most that");
    o.stages = 2;
    o.shares = "1,2";
    refused(devices.selector, o, YOKE_ERROR_UNSUPPORTED, "with stages; must be NULL");
    o.shares = NULL;
    o.shard = YOKE_SHARD_STATE;
    refused(devices.selector, o, YOKE_ERROR_UNSUPPORTED, "no shards");
    o.shard = YOKE_SHARD_AUTO;
    o.reproducible = YOKE_REPRODUCIBLE_ANY_SPLIT;
    refused(devices.selector, o, YOKE_ERROR_UNSUPPORTED, "no batch is split");
    o.reproducible = YOKE_REPRODUCIBLE_NO;
    snprintf(selector, sizeof selector, "%s.0@5MB,%s.1@5MB", devices.selector, devices.selector);
    refused(selector, o, YOKE_ERROR_OUT_OF_DEVICE_MEMORY, "no cut of the graph into stages fits");
    snprintf(selector, sizeof selector, "%s.0@600KB,%s.1@500KB", devices.selector,
             devices.selector);
    refused(selector, o, YOKE_ERROR_OUT_OF_DEVICE_MEMORY, "\"dense1\" alone takes about");
}

/* A batch norm takes statistics of each micro-batch, so all have as many samples. */
static void
check_statistics(void)
{
    how h = {TEAM_CONV, 2, 5, false, NULL};
    yoke_trainer *t = NULL;

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, make(&h, &t));
    ASSERT_DETAIL("accumulate is 5, but the graph has batch norms");
    ASSERT_DETAIL("must divide the batch, 24, then: take 4, or another batch");
    h.micro_batches = 25;
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, make(&h, &t));
    ASSERT_DETAIL("take 24, or another batch");
    ck_assert_ptr_null(t);
}

/* More stages than layers. */
static void
check_few_layers(void)
{
    const yoke_trainer_options o = {.stages = 4, .accumulate = 4};
    yoke_trainer *t = NULL;

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, make_of_layers(devices.selector, 0, o, &t));
    ASSERT_DETAIL("stages is 4, but the graph can be cut into");
}

TEAM_SETUP(mistakes_are_told, TEST_POCL_HALVES, open_setup, check_mistakes())
TEAM_SETUP(statistics_of_unequal_ones, TEST_POCL_HALVES, open_setup, check_statistics())
TEAM_SETUP(too_few_layers, TEST_POCL_QUARTERS, open_setup, check_few_layers())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("stages");
    TCase *tc = test_case(suite, "alike");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, stages_of_the_matrix);
    tcase_add_test(tc, stages_on_halves);
    tcase_add_test(tc, stages_on_unequal_parts);
    tcase_add_test(tc, stages_on_quarters);
    tcase_add_test(tc, stages_on_two_platforms);
    tcase_add_test(tc, stages_on_slices);
    tc = test_case(suite, "cuts");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, small_devices);
    tcase_add_test(tc, equal_parts);
    tcase_add_test(tc, parts_by_speed);
    tcase_add_test(tc, parts_by_memory);
    tcase_add_test(tc, mistakes_are_told);
    tcase_add_test(tc, statistics_of_unequal_ones);
    tcase_add_test(tc, too_few_layers);
    tc = test_case(suite, "checkpoints");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_test(tc, other_micro_batches);
    return suite;
}

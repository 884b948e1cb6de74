/* SPDX-License-Identifier: Apache-2.0
 *
 * check_memory.c - training with little memory: what is computed again has the bits
 * that it had, on one device and in a team, and the plan holds less: as little as a
 * budget allows, where there is one. Packed weights are made again for each run, or
 * kept where steps have parts: the same bits too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/again.h"
#include "replica/replica.h"
#include "train/runs.h"
#include "train/trainer.h"

enum { N = 6, CHANNELS = 8, SIDE = 16, CLASSES = 3, TENSORS = 128, LENGTH = 16, WORDS = 19 };

static yoke_node *
conv(yoke_graph *g, yoke_node *x, const char *name)
{
    return yoke_conv2d(
        g, x,
        &(yoke_conv2d_options){
            .filters = CHANNELS, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true, .name = name});
}

static yoke_node *
norm(yoke_graph *g, yoke_node *x)
{
    return yoke_batch_norm(g, x, NULL);
}

/* Blocks with shortcuts, a dropout, a pooling: every kind of value that is dropped, and chains
 * of them. */
static yoke_graph *
network(void)
{
    yoke_graph *g;
    yoke_node *x, *y;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(3, SIDE, SIDE));
    y = yoke_relu(g, norm(g, conv(g, x, "c0")));
    for (int i = 0; i < 5; i++) {
        static const char *const names[5][2] = {
            {"c1", "c2"}, {"c3", "c4"}, {"c5", "c6"}, {"d1", "d2"}, {"d3", "d4"}};
        yoke_node *z = yoke_relu(g, norm(g, conv(g, y, names[i][0])));

        y = yoke_relu(g, yoke_add(g, norm(g, conv(g, z, names[i][1])), y));
    }
    y = yoke_silu(g, conv(g, yoke_maxpool2d(g, y, &(yoke_pool2d_options){.kernel = {2, 2}}), "c7"));
    y = conv(g, yoke_dropout(g, y, 0.25f), "c8");
    y = yoke_dense(g, yoke_flatten(g, y), &(yoke_dense_options){.units = CLASSES, .name = "fc"});
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, y, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* Views, layers of one sum each, attention: values that many tasks read. */
static yoke_graph *
gpt(void)
{
    yoke_graph *g;

    ASSERT_OK(yoke_zoo("gpt",
                       &(yoke_zoo_options){.layers = 4,
                                           .heads = 2,
                                           .width = 32,
                                           .context = LENGTH,
                                           .vocabulary = WORDS,
                                           .dropout = 0.1f,
                                           .input_name = "x",
                                           .target_name = "label"},
                       &g));
    return g;
}

static yoke_graph *(*const graphs[])(void) = {network, gpt};

typedef struct outcome {
    float *values[TENSORS];
    size_t size[TENSORS], count, dropped, costly;
    uint64_t memory, before;
    double seconds; /* of what runs again, as the plan says */
} outcome;

/* Tasks of backward, of this operator or any, whose result a task of forward has made before. */
static size_t
count_again(const yki_plan *plan, const yki_op *op)
{
    size_t count = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        count += plan->tasks[t].section == YKI_BACKWARD && plan->tasks[t].node &&
                 !plan->tasks[t].node->backward && (!op || plan->tasks[t].problem.op == op);
    return count;
}

static void
give(yoke_replica *r, bool words)
{
    static float x[N * 3 * SIDE * SIDE];
    int32_t tokens[N * LENGTH];

    for (size_t i = 0; i < YKI_COUNT(x); i++)
        x[i] = (float)((i * 37 + i / 5) % 101) / 50 - 1;
    for (int i = 0; i < N * LENGTH; i++)
        tokens[i] = words ? (i * 7 + i / 3) % WORDS : i % CLASSES;
    if (words)
        ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_i32("x", tokens, N * LENGTH)));
    else
        ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_f32("x", x, YKI_COUNT(x))));
    ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_i32("label", tokens, words ? N * LENGTH : N)));
}

static void
keep(yoke_replica *r, const yki_weight *w, bool gradient, outcome *result)
{
    float *values = malloc(w->size);

    ck_assert_uint_lt(result->count, TENSORS);
    if (gradient)
        ASSERT_OK(yoke_replica_read_gradient(r, w->node->name, values, w->size / 4));
    else
        ASSERT_OK(yoke_replica_read(r, w->node->name, values, w->size / 4));
    result->values[result->count] = values;
    result->size[result->count++] = w->size;
}

static yoke_replica_options
options(yoke_recompute_choice recompute, uint64_t bytes)
{
    /* Without Winograd in the matrix: llvmpipe compiles those kernels for minutes. */
    return (yoke_replica_options){.batch = N,
                                  .level = YOKE_PLAN_ESTIMATE,
                                  .strict = test_in_matrix(),
                                  .recompute = recompute,
                                  .recompute_bytes = bytes,
                                  .seed = 3};
}

/* Some steps, then every parameter, its gradient, and running statistics. */
static void
train_net(yoke_device *device, const yki_replica_in_team *part, yoke_graph *(*net)(void),
          const yoke_replica_options *o, outcome *result)
{
    yoke_graph *g = net();
    yoke_replica *r;

    memset(result, 0, sizeof *result);
    ASSERT_OK(yki_replica_create(device, g, o, part, &r));
    for (int step = 0; step < 3; step++) {
        give(r, net == gpt);
        ASSERT_OK(yoke_replica_forward(r, N));
        ASSERT_OK(yoke_replica_backward(r));
        ASSERT_OK(yoke_replica_update(r, 1));
    }
    for (size_t i = 0; i < r->weights->weight_count; i++)
        for (int gradient = 0; gradient < 2; gradient++)
            keep(r, &r->weights->weights[i], gradient, result);
    for (size_t i = 0; i < r->weights->state_count; i++)
        if (r->weights->states[i].node->next)
            keep(r, &r->weights->states[i], false, result);
    result->dropped = count_again(r->training, NULL);
    result->costly =
        count_again(r->training, &yki_op_conv2d) + count_again(r->training, &yki_op_matmul);
    result->memory = yki_plan_memory(r->training);
    result->before = r->training->recomputed.before;
    result->seconds = r->training->recomputed.seconds;
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}

static void
train(yoke_device *device, const yki_replica_in_team *part, yoke_recompute_choice recompute,
      outcome *result)
{
    const yoke_replica_options o = options(recompute, 0);

    train_net(device, part, network, &o, result);
}

static void
drop(outcome *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->values[i]);
    a->count = 0;
}

static void
compare(const outcome *a, const outcome *b)
{
    ck_assert_uint_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        ck_assert_uint_eq(a->size[i], b->size[i]);
        ck_assert_msg(memcmp(a->values[i], b->values[i], a->size[i]) == 0,
                      "tensor %zu has other bits", i);
    }
}

static void
hold_same(outcome *a, outcome *b)
{
    compare(a, b);
    drop(a);
    drop(b);
}

static test_devices devices;

static void
close_devices(void)
{
    test_devices_close(&devices);
    memset(&devices, 0, sizeof devices);
}

#define OPEN_DEVICES                                                                               \
    do {                                                                                           \
        ck_assert(test_devices_open(TEST_AS_IS, &devices));                                        \
        if (devices.slow)                                                                          \
            TEST_NOT_HERE("whole plans are not for the simulator");                                \
    } while (0)

START_TEST(what_is_computed_again_has_the_same_bits)
{
    OPEN_DEVICES;
    for (size_t d = 0; d < devices.count; d++) {
        outcome fast = {.count = 0}, small = {.count = 0};

        train(devices.device[d], NULL, YOKE_RECOMPUTE_NOTHING, &fast);
        train(devices.device[d], NULL, YOKE_RECOMPUTE_CHEAP, &small);
        ck_assert_uint_eq(fast.dropped, 0);
        ck_assert_uint_ge(small.dropped, 5);
        ck_assert_msg((double)small.memory < 0.8 * (double)fast.memory,
                      "%llu bytes instead of %llu", (unsigned long long)small.memory,
                      (unsigned long long)fast.memory);
        hold_same(&fast, &small);
    }
}
END_TEST

/* ---- budgets ---- */

/* On the loop's network, in one part and in several. */
START_TEST(a_budget_is_met_with_the_same_bits)
{
    static const unsigned percents[] = {80, 60, 50};
    const yki_replica_in_team parts = {.owners = 1, .accumulates = true};

    OPEN_DEVICES;
    for (size_t d = 0; d < devices.count; d++) {
        yoke_replica_options o = options(YOKE_RECOMPUTE_NOTHING, 0);
        outcome full, less;
        double seconds = 0;

        train_net(devices.device[d], NULL, graphs[_i], &o, &full);
        ck_assert_uint_eq(full.dropped, 0);
        for (size_t p = 0; p < YKI_COUNT(percents); p++) {
            o.recompute_bytes = full.memory * percents[p] / 100;
            train_net(devices.device[d], p == 1 ? &parts : NULL, graphs[_i], &o, &less);
            ck_assert_msg(less.memory <= o.recompute_bytes, "%llu bytes, the budget is %llu",
                          (unsigned long long)less.memory, (unsigned long long)o.recompute_bytes);
            if (percents[p] < 80 || !test_in_matrix()) { /* a GPU may do without late sums first */
                ck_assert_uint_ge(less.dropped, 1);
                ck_assert_msg(less.seconds > seconds, "%u %% costs %g s, more memory %g s",
                              percents[p], less.seconds, seconds);
            }
            if (percents[p] == 50)
                ck_assert_uint_ge(less.costly, 1);
            seconds = less.seconds;
            compare(&full, &less);
            drop(&less);
        }
        /* One that is large enough changes nothing. */
        o.recompute_bytes = full.memory;
        train_net(devices.device[d], NULL, graphs[_i], &o, &less);
        ck_assert_uint_eq(less.dropped, 0);
        ck_assert_uint_eq(less.memory, full.memory);
        ck_assert_uint_eq(less.before, full.memory);
        hold_same(&full, &less);
    }
}
END_TEST

/* The sentence names bytes that really suffice. */
START_TEST(a_budget_that_cannot_be_met_is_refused)
{
    OPEN_DEVICES;
    for (size_t d = 0; d < devices.count; d++) {
        yoke_replica_options o = options(YOKE_RECOMPUTE_NOTHING, 1000);
        yoke_graph *g = graphs[_i]();
        unsigned long long full, least;
        const char *figures;
        yoke_replica *r;

        ASSERT_REFUSED(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                       "recompute_bytes is 1000; the values of a plan for 6 samples take ",
                       yoke_replica_create(devices.device[d], g, &o, &r));
        ASSERT_DETAIL("take a smaller batch, or accumulate");
        figures = strstr(yoke_last_error(), "samples take ");
        ck_assert_int_eq(
            sscanf(figures, "samples take %llu bytes, and %llu at least", &full, &least), 2);
        ck_assert_uint_lt(2 * least, full + least / 2);
        o.recompute_bytes = least;
        ASSERT_OK(yoke_replica_create(devices.device[d], g, &o, &r));
        ck_assert_uint_le(yki_plan_memory(r->training), least);
        yoke_replica_destroy(r);
        yoke_graph_destroy(g);
    }
}
END_TEST

/* Where both are given, the budget alone counts. */
START_TEST(a_budget_comes_before_a_choice)
{
    const yoke_replica_options o = options(YOKE_RECOMPUTE_CHEAP, UINT64_C(1) << 40);
    yoke_graph *g = network();
    yoke_replica *r;

    OPEN_DEVICES;
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    ck_assert(!r->training->options.small);
    ck_assert_uint_eq(count_again(r->training, NULL), 0);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* No budget helps against one value that is larger than the device allows. */
START_TEST(one_value_is_too_large)
{
    const yki_replica_in_team part = {.owners = 1};
    const yoke_replica_options o = options(YOKE_RECOMPUTE_NOTHING, 1000);
    yki_device_traits *traits;
    yoke_graph *g = network();
    yoke_replica *r;
    uint64_t allowed;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    traits = (yki_device_traits *)yki_device_get_traits(devices.device[0]);
    ASSERT_OK(yki_replica_open(devices.device[0], g, &o, &part, &r));
    allowed = traits->max_allocation;
    traits->max_allocation = N * CHANNELS * SIDE * SIDE * 4 - 1;
    ASSERT_REFUSED(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, "the values of a plan: a buffer of ",
                   yki_replica_plan(r, &o, &part));
    traits->max_allocation = allowed;
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

static void
count(void *user)
{
    ++*(size_t *)user;
}

/* Other processes hear that this one still searches. */
START_TEST(a_search_shows_life)
{
    size_t ticks[2] = {0}, again = 0;
    uint64_t most = UINT64_C(1) << 40;

    OPEN_DEVICES;
    for (int searches = 0; searches < 2; searches++) {
        const yki_replica_in_team part = {
            .owners = 1, .tick = count, .tick_user = &ticks[searches]};
        const yoke_replica_options o = options(YOKE_RECOMPUTE_NOTHING, most);
        yoke_graph *g = network();
        yoke_replica *r;

        ASSERT_OK(yki_replica_create(devices.device[0], g, &o, &part, &r));
        ck_assert(!r->training->options.small);
        again = r->training->recomputed.tasks; /* each ticks too when it is bound */
        most = yki_plan_memory(r->training) * 3 / 5;
        yoke_replica_destroy(r);
        yoke_graph_destroy(g);
    }
    ck_assert_msg(ticks[1] > ticks[0] + again, "%zu ticks, without a search %zu", ticks[1],
                  ticks[0]);
}
END_TEST

/* Statistics that no launch commits are merged into values that are packed like others. */
START_TEST(what_a_team_merges_stays)
{
    const yki_replica_in_team part = {.owners = 1, .merges = true};
    const yoke_replica_options o = options(YOKE_RECOMPUTE_NOTHING, 0);
    yoke_graph *g = network();
    yoke_replica *r;
    yki_again again;
    size_t merges = 0;

    OPEN_DEVICES;
    ASSERT_OK(yki_replica_create(devices.device[0], g, &o, &part, &r));
    for (size_t v = 0; v < r->training->value_count; v++)
        if (r->training->values[v].storage == YKI_STORE_POOLED)
            r->training->values[v].storage = YKI_STORE_ARENA;
    ASSERT_OK(yki_again_begin(&again, r->training));
    for (size_t t = 0; t < r->training->task_count; t++) {
        const yki_task *task = &r->training->tasks[t];

        if (task->problem.op != &yki_op_merge)
            continue;
        merges++;
        ck_assert_int_eq(again.maker[task->slots[0]], YKI_NOWHERE);
        ck_assert_int_eq(again.maker[task->slots[1]], YKI_NOWHERE);
    }
    ck_assert_uint_gt(merges, 0);
    yki_again_end(&again);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* A plan that had to be made smaller, as the quota was short, shares its packed weights with plans
 * that are made like it, even where there is more room then. */
START_TEST(another_plan_is_as_small)
{
    const yki_replica_in_team part = {.owners = 1, .accumulates = true, .canonical = true};
    yoke_replica_options o = options(YOKE_RECOMPUTE_NOTHING, UINT64_C(1) << 40);
    yoke_selection *selection;
    yoke_device_info info;
    yoke_device *device;
    yoke_graph *g = network();
    yoke_replica *r;
    yki_buffer *ballast;
    yki_plan *plan;
    char selector[128];
    uint64_t room, needs;

    if (test_in_matrix())
        TEST_NOT_HERE("the matrix has its own devices");
    ck_assert(test_devices_find(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_device_get_info(yoke_context_get_device(devices.context, 0), &info));
    snprintf(selector, sizeof selector, "%s@64MiB", info.id);
    ASSERT_OK(yoke_selection_create(devices.context, selector, NULL, &selection));
    device = yoke_selection_get(selection, 0);
    room = yki_quota_left(device);
    ASSERT_OK(yki_replica_create(device, g, &o, &part, &r));
    ck_assert(!r->training->options.small);
    needs = room - yki_quota_left(device);
    yoke_replica_destroy(r);
    ASSERT_OK(yki_buffer_create(device, room - needs + 1024, 0, "ballast", &ballast));
    ASSERT_OK(yki_replica_create(device, g, &o, &part, &r));
    ck_assert(r->training->options.small);
    yki_buffer_destroy(ballast);
    ASSERT_OK(yki_replica_plan_again(r, r->weights, &plan));
    ck_assert(plan->options.small && plan->options.no_join);
    yki_plan_destroy(plan);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
    yoke_selection_destroy(selection);
}
END_TEST

/* What the table of a plan says of recomputation. */
typedef struct table {
    size_t rows;    /* of tasks that run again */
    char last[256]; /* its last line */
} table;

static void
note(void *user, const char *line)
{
    table *t = user;

    t->rows += strncmp(line + 5, "again ", 6) == 0;
    snprintf(t->last, sizeof t->last, "%s", line);
}

/* Each task runs at most once more, right before its reader or the next of its chain. */
START_TEST(chains_run_once_more)
{
    yoke_replica_options o = options(YOKE_RECOMPUTE_NOTHING, 0);
    yoke_graph *g = network();
    yoke_replica *r;
    uint64_t full;
    size_t again = 0, chained = 0;
    table seen = {.rows = 0};
    char figures[64];

    OPEN_DEVICES;
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    full = yki_plan_memory(r->training);
    yoke_replica_destroy(r);
    o.recompute_bytes = full / 2;
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    for (size_t t = 0; t < r->training->task_count; t++) {
        const yki_task *task = &r->training->tasks[t];

        if (!task->again)
            continue;
        again++;
        chained += r->training->tasks[t + 1].again;
        for (size_t i = 0; i < t; i++)
            ck_assert(!r->training->tasks[i].again || r->training->tasks[i].node != task->node ||
                      r->training->tasks[i].problem.op != task->problem.op);
    }
    ck_assert_uint_ge(chained, 1);
    ck_assert_uint_eq(again, r->training->recomputed.tasks);
    ASSERT_OK(yoke_replica_print_plan(r, note, &seen));
    ck_assert_uint_eq(seen.rows, again);
    snprintf(figures, sizeof figures, "recomputed: %zu tasks run again, for ", again);
    ck_assert_msg(strncmp(seen.last, figures, strlen(figures)) == 0, "%s", seen.last);
    snprintf(figures, sizeof figures, " instead of %.1f MB; the limit is %.1f MB",
             (double)full / 1e6, (double)o.recompute_bytes / 1e6);
    ck_assert_msg(strstr(seen.last, figures) != NULL, "%s", seen.last);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* More samples fit, and no more than a plan can be made for. */
START_TEST(a_budget_counts_where_a_batch_is_chosen)
{
    yoke_replica_options o = options(YOKE_RECOMPUTE_NOTHING, 0);
    yoke_graph *g = network();
    yoke_replica *r;
    uint64_t bytes;
    int64_t most;

    OPEN_DEVICES;
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    o.recompute_bytes = yki_plan_memory(r->training);
    yoke_replica_destroy(r);
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    ASSERT_OK(yki_plan_capacity(r->training, &most));
    ck_assert_int_ge(most, 2 * N);
    ASSERT_OK(yki_plan_memory_at(r->training, (yki_extents){.batch = most}, &bytes));
    ck_assert_uint_le(bytes, o.recompute_bytes);
    ASSERT_OK(yki_plan_memory_at(r->training, (yki_extents){.batch = 2 * most}, &bytes));
    ck_assert(bytes == UINT64_MAX);
    yoke_replica_destroy(r);
    o.batch = most;
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    ck_assert_uint_le(yki_plan_memory(r->training), o.recompute_bytes);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* Of the plan of the first device; what is told says so. */
static uint64_t
memory_of(yoke_context *context, const team_run *run)
{
    yoke_trainer *t = team_trainer(context, run);
    uint64_t bytes = yki_plan_memory(t->crew.members[0].replica->training);
    char told[64];

    test_forget_lines();
    ASSERT_OK(yoke_trainer_explain(t, test_keep_line, NULL));
    snprintf(told, sizeof told, "others; %.1f MB instead of", (double)bytes / 1e6);
    ck_assert((strstr(test_lines, told) != NULL) == (run->recompute_bytes > 0));
    yoke_trainer_destroy(t);
    return bytes;
}

/* On each device of a team, in micro-batches, in granules, and where granules of a network with
 * statistics go through it together. */
START_TEST(a_team_meets_a_budget)
{
    static const team_run runs[] = {{.net = TEAM_CONV},
                                    {.net = TEAM_DROPOUT, .accumulate = 2},
                                    {.net = TEAM_WIDE, .any_class = true},
                                    {.net = TEAM_DROPOUT, .any_split = true, .granule = 12},
                                    {.net = TEAM_CONV, .any_split = true}};
    team_run run = runs[_i];
    team_outcome full = {0}, less = {0};
    uint64_t bytes;

    if (test_in_matrix() || !test_devices_find(TEST_POCL_HALVES, &devices))
        TEST_NOT_HERE("PoCL's halves are for make check");
    run.selector = devices.selector;
    run.shares = "even";
    run.steps = 3;
    run.seed = 5;
    team_train(devices.context, &run, &full);
    bytes = memory_of(devices.context, &run);
    run.recompute_bytes = bytes * 9 / 10;
    team_train(devices.context, &run, &less);
    ck_assert_uint_le(memory_of(devices.context, &run), run.recompute_bytes);
    ck_assert(team_same_bits(&full, &less));
    team_free(&less);
    team_free(&full);
}
END_TEST

START_TEST(packed_weights_are_made_again_or_kept)
{
    const yki_replica_in_team parts = {.owners = 1, .accumulates = true};

    OPEN_DEVICES;
    for (size_t d = 0; d < devices.count; d++) {
        outcome again = {.count = 0}, kept = {.count = 0};

        train(devices.device[d], NULL, YOKE_RECOMPUTE_NOTHING, &again);
        train(devices.device[d], &parts, YOKE_RECOMPUTE_NOTHING, &kept);
        ck_assert_uint_le(again.memory, kept.memory);
        if (!test_in_matrix()) /* there, maybe without a solver that packs */
            ck_assert_uint_lt(again.memory, kept.memory);
        hold_same(&again, &kept);
    }
}
END_TEST

/* Statistics of the batch are merged between the tasks of a team's plan. */
START_TEST(a_team_computes_again_too)
{
    static const team_net nets[] = {TEAM_CONV, TEAM_DROPOUT};
    team_run run = {.shares = "even", .net = nets[_i], .steps = 3, .seed = 5};
    team_outcome fast = {0}, small = {0};

    if (test_in_matrix() || !test_devices_find(TEST_POCL_HALVES, &devices))
        TEST_NOT_HERE("PoCL's halves are for make check");
    run.selector = devices.selector;
    team_train(devices.context, &run, &fast);
    run.recompute = YOKE_RECOMPUTE_CHEAP;
    team_train(devices.context, &run, &small);
    ck_assert(team_same_bits(&fast, &small));
    team_free(&small);
    team_free(&fast);
}
END_TEST

START_TEST(another_choice_is_refused)
{
    yoke_replica_options o = {.batch = 1};
    yoke_graph *g = network();
    yoke_replica *r = NULL;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    memset(&o.recompute, 0x7f, sizeof o.recompute);
    ck_assert_int_eq(yoke_replica_create(devices.device[0], g, &o, &r),
                     YOKE_ERROR_INVALID_ARGUMENT);
    ASSERT_DETAIL("recompute is 2139062143; must be between 0 and 1");
    yoke_graph_destroy(g);
}
END_TEST

/* Bytes of the plan of training with attention over so many rows. */
static uint64_t
memory_of_attention(int64_t rows)
{
    enum { HEADS = 4, WIDTH = 16 };
    const yoke_attention_options causal = {.heads = HEADS, .causal = true};
    const yoke_replica_options o = {.batch = 1, .level = YOKE_PLAN_ESTIMATE};
    uint64_t bytes;
    yoke_graph *g;
    yoke_node *x, *target;
    yoke_replica *r;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(rows, HEADS * WIDTH));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(rows, HEADS * WIDTH));
    x = yoke_dense(g, x, &(yoke_dense_options){.units = 3 * HEADS * WIDTH});
    x = yoke_attention(g, x, NULL, &causal);
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    bytes = yki_plan_memory(r->training);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
    return bytes;
}

/* Not by its square, as scores of all pairs of rows would. */
START_TEST(attention_takes_memory_by_length)
{
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ck_assert_uint_le(10 * memory_of_attention(1024), 21 * memory_of_attention(512));
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = test_case(suite, "memory");

    tcase_add_checked_fixture(tcase, NULL, close_devices);
    tcase_add_test(tcase, what_is_computed_again_has_the_same_bits);
    tcase_add_test(tcase, packed_weights_are_made_again_or_kept);
    tcase_add_loop_test(tcase, a_team_computes_again_too, 0, 2);
    tcase_add_test(tcase, another_choice_is_refused);
    tcase_add_test(tcase, attention_takes_memory_by_length);
    tcase = test_case(suite, "budget");
    tcase_add_checked_fixture(tcase, NULL, close_devices);
    tcase_add_loop_test(tcase, a_budget_is_met_with_the_same_bits, 0, YKI_COUNT(graphs));
    tcase_add_loop_test(tcase, a_budget_that_cannot_be_met_is_refused, 0, YKI_COUNT(graphs));
    tcase_add_test(tcase, a_budget_comes_before_a_choice);
    tcase_add_test(tcase, one_value_is_too_large);
    tcase_add_test(tcase, a_search_shows_life);
    tcase_add_test(tcase, what_a_team_merges_stays);
    tcase_add_test(tcase, another_plan_is_as_small);
    tcase_add_test(tcase, chains_run_once_more);
    tcase_add_test(tcase, a_budget_counts_where_a_batch_is_chosen);
    tcase_add_loop_test(tcase, a_team_meets_a_budget, 0, 5);
    return suite;
}

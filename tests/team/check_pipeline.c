/* SPDX-License-Identifier: Apache-2.0
 *
 * check_pipeline.c - micro-batches that go through the stages of a graph at the same time give the
 * bits of micro-batches that go one after the other.
 *
 * The order of turns alone is checked against the rules that it promises, on random graphs of legs,
 * and against the usual one forward, one backward, on chains.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "team/pipeline.h"
#include "train/runs.h"
#include "train/trainer.h"

/* ---- the order ---- */

enum { MOST_LEGS = 40, MOST_TURNS = MOST_LEGS * 40, MOST_MEMBERS = 6 };

static uint32_t
draw(uint32_t below)
{
    static uint32_t x = 7;

    x = x * 1664525u + 1013904223u;
    return (x >> 8) % below;
}

static size_t
find_turn(const yki_turn *turns, size_t count, uint32_t micro_batch, uint32_t leg)
{
    size_t i = 0;

    while (i < count && (turns[i].micro_batch != micro_batch || turns[i].leg != leg))
        i++;
    return i;
}

/* Walks through the turns of one member: what it has under way, and in what order it does it. */
static void
assert_member(const yki_order_problem *p, const yki_turn *turns, size_t count, uint32_t member)
{
    uint32_t own = 0, entered = 0, left = 0, done[64] = {0}, backwards = 0;
    int at = -1; /* the micro-batch in backward */

    for (size_t j = 0; j < p->leg_count; j++) {
        own += p->legs[j].member == member;
        backwards += p->legs[j].member == member && p->legs[j].backward;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t b = turns[i].micro_batch;
        const yki_leg *leg = &p->legs[turns[i].leg];

        if (leg->member != member)
            continue;
        ck_assert_uint_lt(b, 64);
        if (done[b]++ == 0)
            ck_assert_uint_eq(entered++, b);
        ck_assert(b == 0 || done[b - 1] >= done[b]);
        ck_assert(!leg->backward || at < 0 || at == (int)b);
        at = leg->backward && backwards > 1 ? (int)b : at;
        if (done[b] == own) {
            ck_assert_uint_eq(left++, b);
            at = -1;
        }
        ck_assert_uint_le(entered - left, p->depth[member]);
    }
    ck_assert_uint_eq(left, p->micro_batches);
}

static void
assert_order(const yki_order_problem *p, const yki_turn *turns)
{
    const size_t count = p->leg_count * p->micro_batches;

    for (uint32_t m = 0; m < p->members; m++)
        assert_member(p, turns, count, m);
    for (uint32_t b = 0; b < p->micro_batches; b++)
        for (uint32_t j = 0; j < p->leg_count; j++) {
            const size_t at = find_turn(turns, count, b, j);

            ck_assert_uint_lt(at, count);
            for (size_t i = 0; i < p->need_count; i++)
                if (p->needs[i].leg == j)
                    ck_assert_uint_lt(find_turn(turns, count, b, p->needs[i].made_by), at);
            /* All members are done with what this one begins to use again. */
            for (uint32_t other = 0; b >= p->width && other < p->leg_count; other++)
                ck_assert_uint_lt(find_turn(turns, count, b - p->width, other), at);
        }
}

/* Forward of stages 0, 1, ..., then backward of ..., 1, 0. */
static void
make_chain(uint32_t stages, uint32_t micro_batches, yki_order_problem *p)
{
    static yki_leg legs[MOST_LEGS];
    static yki_need needs[MOST_LEGS];
    static uint32_t depth[MOST_MEMBERS];

    for (uint32_t s = 0; s < stages; s++) {
        legs[s] = (yki_leg){s, false, 1};
        legs[2 * stages - 1 - s] = (yki_leg){s, true, 2};
        depth[s] = YKI_MIN(stages - s, micro_batches);
    }
    for (uint32_t j = 1; j < 2 * stages; j++)
        needs[j - 1] = (yki_need){j, j - 1};
    *p = (yki_order_problem){.legs = legs,
                             .leg_count = 2 * stages,
                             .needs = needs,
                             .need_count = 2 * stages - 1,
                             .depth = depth,
                             .members = stages,
                             .width = depth[0],
                             .micro_batches = micro_batches};
}

/* A stage with d stages from it on does forward of d micro-batches, and then a backward and a
 * forward in turn. */
static void
assert_textbook(const yki_order_problem *p, const yki_turn *turns, uint32_t stage)
{
    uint32_t forward = 0, backward = 0;

    for (size_t i = 0; i < p->leg_count * p->micro_batches; i++) {
        const yki_leg *leg = &p->legs[turns[i].leg];

        if (leg->member != stage)
            continue;
        if (forward == p->micro_batches || forward == backward + p->depth[stage]) {
            ck_assert(leg->backward);
            ck_assert_uint_eq(turns[i].micro_batch, backward++);
        } else {
            ck_assert(!leg->backward);
            ck_assert_uint_eq(turns[i].micro_batch, forward++);
        }
    }
}

START_TEST(chains_alternate)
{
    static yki_turn turns[MOST_TURNS];

    for (uint32_t stages = 1; stages <= MOST_MEMBERS; stages++)
        for (uint32_t k = 1; k <= 12; k++) {
            yki_order_problem p;
            double seconds;

            make_chain(stages, k, &p);
            ASSERT_OK(yki_pipeline_order(&p, turns, &seconds));
            assert_order(&p, turns);
            for (uint32_t s = 0; s < stages; s++)
                assert_textbook(&p, turns, s);
            /* The bubble is that of so many stages. */
            ck_assert_double_eq(seconds, 3. * (k + stages - 1));
        }
}
END_TEST

START_TEST(any_graph_keeps_the_rules)
{
    static yki_turn turns[MOST_TURNS];

    for (int round = 0; round < 300; round++) {
        yki_leg legs[MOST_LEGS];
        yki_need needs[MOST_LEGS * 2];
        uint32_t depth[MOST_MEMBERS], forward = 1 + draw(12), members = 1 + draw(MOST_MEMBERS);
        yki_order_problem p = {.legs = legs, .needs = needs, .depth = depth, .members = members};
        double seconds, longest = 0;

        p.micro_batches = 1 + draw(20);
        for (uint32_t m = 0; m < members; m++) {
            depth[m] = 1 + draw(YKI_MIN(4u, p.micro_batches));
            p.width = YKI_MAX(p.width, depth[m]);
        }
        for (uint32_t j = 0; j < forward; j++)
            legs[p.leg_count++] = (yki_leg){draw(members), false, draw(5)};
        for (uint32_t j = 0; j < forward; j++)
            legs[p.leg_count++] = (yki_leg){draw(members), true, draw(5)};
        for (uint32_t m = 0; m < members; m++)
            legs[p.leg_count++] = (yki_leg){m, true, 1};
        for (uint32_t j = 1; j < p.leg_count; j++)
            for (uint32_t i = draw(3); i > 0; i--)
                needs[p.need_count++] = (yki_need){j, draw(j)};
        ASSERT_OK(yki_pipeline_order(&p, turns, &seconds));
        assert_order(&p, turns);
        for (uint32_t m = 0; m < members; m++) {
            double own = 0;

            for (size_t j = 0; j < p.leg_count; j++)
                own += legs[j].member == m ? legs[j].seconds : 0;
            longest = YKI_MAX(longest, own * p.micro_batches);
        }
        ck_assert_double_ge(seconds, longest);
    }
}
END_TEST

/* ---- networks ---- */

enum { STEPS = 6, BATCH = 14, SAMPLES = 64, WIDTH = 48, CLASSES = 4 };

typedef enum net {
    CHAIN,  /* layers, one place behind the other */
    IMAGES, /* convolutions with batch norm and dropout; a shortcut goes around the second place */
    RETURN, /* the loss is where the input was */
    SHARED, /* a parameter of the first place and the last */
    FROZEN, /* the first place has no gradients */
    CONSTANT, /* all places read a constant of the graph */
    NETS
} net;

static test_devices devices;
static char ids[3][sizeof((yoke_device_info){0}.id)];
static size_t places; /* 2 or 3 */
static float images[SAMPLES * WIDTH];
static int32_t labels[SAMPLES], row_labels[SAMPLES * WIDTH / 16];

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units, const char *name)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .name = name});
}

static yoke_node *
block(yoke_graph *g, yoke_node *x)
{
    x = yoke_conv2d(g, x, &(yoke_conv2d_options){.filters = 6, .kernel = {3, 3}, .pad = {1, 1}});
    return yoke_silu(g, yoke_batch_norm(g, x, NULL));
}

static void
place(yoke_graph *g, size_t at)
{
    static const char *const names[] = {"first", "second", "third"};

    yoke_graph_set_place(g, names[at]);
}

static yoke_node *
make_layers(yoke_graph *g, net which, yoke_node *x)
{
    yoke_node *side = NULL, *w = NULL, *c = NULL;

    if (which == CONSTANT)
        c = yoke_constant(g, "scale", yoke_shape(WIDTH), images);
    place(g, 0);
    if (which == IMAGES)
        side = x = block(g, yoke_reshape(g, x, yoke_shape(3, 4, 4)));
    if (which == SHARED) {
        w = yoke_parameter(g, "shared", yoke_shape(WIDTH, WIDTH),
                           (yoke_initializer){.kind = YOKE_INIT_NORMAL, .b = 0.1f});
        x = yoke_tanh(g, yoke_matmul(g, yoke_reshape(g, x, yoke_shape(1, WIDTH)), w, NULL));
    } else if (which != IMAGES) {
        x = yoke_tanh(g, dense(g, x, WIDTH, "front"));
    }
    for (size_t i = 1; i < places; i++) {
        place(g, i);
        x = which == IMAGES ? block(g, x) : yoke_tanh(g, dense(g, x, WIDTH, NULL));
        if (c)
            x = yoke_mul(g, x, c);
    }
    if (which == IMAGES)
        x = yoke_flatten(g, yoke_dropout(g, yoke_add(g, x, side), 0.25f));
    if (which == SHARED)
        x = yoke_flatten(g, yoke_matmul(g, x, w, &(yoke_matmul_options){.transpose_b = true}));
    if (which == RETURN)
        place(g, 0);
    return dense(g, x, CLASSES, NULL);
}

static yoke_graph *
make_graph(net which)
{
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    target = yoke_target(g, "target", YOKE_I32, yoke_shape());
    y = make_layers(g, which, x);
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, target, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, target));
    if (which == FROZEN)
        ASSERT_OK(yoke_graph_freeze(g, "front*"));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static void
fill_data(void)
{
    for (size_t i = 0; i < YKI_COUNT(images); i++)
        images[i] = (float)draw(1 << 20) / (1 << 19) - 1;
    for (size_t i = 0; i < SAMPLES; i++)
        labels[i] = (int32_t)((images[i * WIDTH] > 0) + 2 * (images[i * WIDTH + 1] > 0));
}

static bool
open_setup(test_setup setup)
{
    yoke_selection *selection;
    yoke_device_info info;

    if (!team_find(setup, &devices, NULL))
        return false;
    ASSERT_OK(yoke_selection_create(devices.context, devices.selector, NULL, &selection));
    places = YKI_MIN(yoke_selection_count(selection), YKI_COUNT(ids));
    for (size_t k = 0; k < places; k++) {
        ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, k), &info));
        memcpy(ids[k], info.id, sizeof ids[k]);
    }
    yoke_selection_destroy(selection);
    fill_data();
    return true;
}

/* ---- runs ---- */

typedef struct how {
    net which;
    uint32_t micro_batches;
    float clip_norm;
    bool hide_memory; /* devices pass for ones with memory of their own */
} how;

typedef struct outcome {
    team_outcome weights;
    yoke_result steps[STEPS], evaluated;
    float y[SAMPLES * CLASSES];
} outcome;

static yoke_trainer *
make_trainer(const how *h, bool piped)
{
    static const char *const names[] = {"first", "second", "third"};
    const yoke_trainer_options o = {.optimizer = yoke_adam(0.01f),
                                    .batch = BATCH,
                                    .seed = 5,
                                    .level = YOKE_PLAN_ESTIMATE,
                                    .accumulate = h->micro_batches,
                                    .clip_norm = h->clip_norm,
                                    .bucket_bytes = 4096,
                                    .no_overlap = !piped};
    yoke_graph *g = make_graph(h->which);
    yoke_trainer *t;
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    for (size_t k = 0; k < places; k++)
        ASSERT_OK(yoke_team_bind_place(team, names[k], ids[k]));
    for (size_t k = 0; h->hide_memory && k < yoke_team_local_count(team); k++) {
        test_devices one = {.device = {yoke_team_get_device(team, k)}, .count = 1};

        test_devices_hide_host_memory(&one);
    }
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return t;
}

/* Whether a task writes gradients of parameters and nothing else. */
static bool
serves_nobody(const yki_plan *plan, const yki_task *task)
{
    const uint32_t inputs = task->problem.input_count, all = yki_problem_operands(&task->problem);

    for (uint32_t s = inputs; s < all; s++)
        if (!plan->values[yki_value_root(plan, task->slots[s])].bucket)
            return false;
    return task->solver && all > inputs;
}

/* In backward of a place no gradient of its own comes before what another place waits for. */
static void
assert_hastened(const yoke_trainer *t, size_t member)
{
    const yki_plan *plan = t->crew.members[member].replica->training;
    const yki_crossings *all = &plan->weights->placed->crossings[true];
    size_t own = 0, awaited = 0;

    for (size_t i = 0; i < plan->task_count; i++) {
        const yki_task *task = &plan->tasks[i];

        if (task->section != YKI_BACKWARD || !task->solver)
            continue;
        own = own ? own : serves_nobody(plan, task) ? i : 0;
        for (size_t c = 0; c < all->count; c++) {
            const yki_crossing *crossing = &all->list[c];
            const int32_t value = plan->node_value[crossing->node->id];

            if (crossing->from == member && crossing->node->backward &&
                yki_value_root(plan, value) ==
                    yki_value_root(plan, task->slots[task->problem.input_count]))
                awaited = i;
        }
    }
    ck_assert_uint_gt(awaited, 0);
    ck_assert_uint_gt(own, awaited);
    ck_assert(plan->hastened);
}

/* Most steps are enqueued behind one another. Some have micro-batches of unlike sizes, or of none.
 */
static void
run(const how *h, bool piped, outcome *out)
{
    static const int64_t sizes[STEPS] = {BATCH, 5, BATCH, 1, BATCH - 1, BATCH};
    const yoke_field fields[] = {
        {.name = "x", .type = YOKE_F32, .shape = yoke_shape(WIDTH), .data = images},
        {.name = "target", .type = YOKE_I32, .shape = yoke_shape(), .data = labels},
    };
    yoke_trainer *t = make_trainer(h, piped);
    yoke_dataset *dataset;

    memset(out, 0, sizeof *out);
    ck_assert_int_eq(yki_pipeline_exists(&t->crew), piped);
    for (size_t k = 0; piped && k < places; k++)
        ck_assert_uint_eq(yki_pipeline_depth(&t->crew, k), YKI_MIN(places - k, h->micro_batches));
    for (size_t k = 1; k < places && h->which == IMAGES; k++)
        assert_hastened(t, k);
    ASSERT_OK(yoke_dataset_create(SAMPLES, fields, 2, NULL, &dataset));
    for (int i = 0; i < STEPS; i++) {
        const yoke_feed feeds[] = {
            yoke_feed_f32("x", images + i * 7 * WIDTH, sizes[i] * WIDTH),
            yoke_feed_i32("target", labels + i * 7, sizes[i]),
        };

        ASSERT_OK(yoke_trainer_step(t, sizes[i], feeds, 2, i % 3 == 2 ? &out->steps[i] : NULL));
        out->steps[i].seconds = 0;
    }
    ASSERT_OK(yoke_trainer_fit(t, dataset, NULL, &(yoke_fit_options){.epochs = 1}));
    ASSERT_OK(team_read(t, &out->weights));
    ASSERT_OK(yoke_trainer_evaluate(t, dataset, &out->evaluated));
    out->evaluated.seconds = 0;
    ASSERT_OK(yoke_trainer_predict_dataset(t, "y", dataset, 0, SAMPLES, out->y, YKI_COUNT(out->y)));
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(dataset);
}

static void
assert_same(how h)
{
    outcome piped, behind;

    run(&h, true, &piped);
    run(&h, false, &behind);
    ck_assert_msg(team_same_bits(&piped.weights, &behind.weights),
                  "net %d, %u micro-batches: bits differ", (int)h.which, h.micro_batches);
    ck_assert_mem_eq(piped.steps, behind.steps, sizeof piped.steps);
    ck_assert_mem_eq(&piped.evaluated, &behind.evaluated, sizeof piped.evaluated);
    ck_assert_mem_eq(piped.y, behind.y, sizeof piped.y);
    team_free(&piped.weights);
    team_free(&behind.weights);
}

static void
check_nets(bool everything)
{
    assert_same((how){.which = IMAGES, .micro_batches = 5});
    assert_same((how){.which = SHARED, .micro_batches = 3, .clip_norm = 0.2f});
    for (net which = CHAIN; everything && which < NETS; which++)
        for (uint32_t k = 2; k <= 7; k += 1 + k)
            assert_same((how){.which = which, .micro_batches = k});
}

/* Rusticl takes long to make kernels ready. */
static void
check_slow_drivers(how quick)
{
    if (getenv("YOKE_TEST_QUICK"))
        assert_same(quick);
    else
        check_nets(false);
}

static void
check_memory_apart(void)
{
    assert_same((how){.which = IMAGES, .micro_batches = 4, .hide_memory = true});
    assert_same((how){.which = RETURN, .micro_batches = 3, .hide_memory = true});
}

/* ---- sequences ---- */

enum { LENGTH = 12, SHORTER = 8, ROW = 16, ROWS = SAMPLES * WIDTH / ROW / SHORTER };

/* Trains with sequences that are shorter than the graph's, on one device, or with a place for each:
 * only the first and the last have inputs. */
static void
train_sequences(bool apart, bool piped, team_outcome *weights, yoke_result *result)
{
    static const char *const names[] = {"first", "second", "third"};
    const yoke_field fields[] = {
        {.name = "x", .type = YOKE_F32, .shape = yoke_shape(SHORTER, ROW), .data = images},
        {.name = "t", .type = YOKE_I32, .shape = yoke_shape(SHORTER), .data = row_labels},
    };
    const yoke_trainer_options o = {.optimizer = yoke_adam(0.01f),
                                    .batch = 8,
                                    .seed = 5,
                                    .level = YOKE_PLAN_ESTIMATE,
                                    .accumulate = 4,
                                    .no_overlap = !piped};
    yoke_dataset *dataset;
    yoke_node *x, *t;
    yoke_trainer *trainer;
    yoke_graph *g;
    yoke_team *team;

    ASSERT_OK(yoke_graph_create(&g));
    place(g, 0);
    x = yoke_sequence(g, yoke_input(g, "x", YOKE_F32, yoke_shape(LENGTH, ROW)));
    for (size_t i = 0; i < places; i++) {
        place(g, i);
        x = yoke_attention(g, dense(g, x, 3 * ROW, NULL), NULL,
                           &(yoke_attention_options){.heads = 2, .causal = true});
        x = yoke_tanh(g, dense(g, x, ROW, NULL));
    }
    t = yoke_sequence(g, yoke_target(g, "t", YOKE_I32, yoke_shape(LENGTH)));
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, dense(g, x, CLASSES, NULL), t, NULL));
    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_team_create(devices.context, apart ? devices.selector : ids[0], NULL, &team));
    for (size_t k = 0; k < places; k++)
        ASSERT_OK(yoke_team_bind_place(team, names[k], ids[apart ? k : 0]));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &trainer));
    ck_assert_int_eq(yki_pipeline_exists(&trainer->crew), piped);
    ASSERT_OK(yoke_dataset_create(ROWS, fields, 2, NULL, &dataset));
    ASSERT_OK(yoke_trainer_fit(trainer, dataset, NULL, &(yoke_fit_options){.epochs = 1}));
    ASSERT_OK(team_read(trainer, weights));
    ASSERT_OK(yoke_trainer_evaluate(trainer, dataset, result));
    yoke_trainer_destroy(trainer);
    yoke_dataset_destroy(dataset);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

static void
check_sequences(void)
{
    team_outcome whole, behind, piped;
    yoke_result results[3];

    for (size_t i = 0; i < YKI_COUNT(row_labels); i++)
        row_labels[i] = (int32_t)draw(CLASSES);
    train_sequences(false, false, &whole, &results[0]);
    train_sequences(true, false, &behind, &results[1]);
    train_sequences(true, true, &piped, &results[2]);
    ck_assert(team_same_bits(&behind, &piped));
    ck_assert_msg(results[1].loss == results[2].loss, "%.9g and %.9g", results[1].loss,
                  results[2].loss);
    ck_assert_msg(fabs(results[0].loss - results[2].loss) < 1e-5, "%.9g on one device, %.9g apart",
                  results[0].loss, results[2].loss);
    team_free(&whole);
    team_free(&behind);
    team_free(&piped);
}

/* ---- memory ---- */

static yoke_trainer *
make_limited(const char *selector, bool piped)
{
    static const char *const names[] = {"first", "second"};
    const yoke_trainer_options o = {.optimizer = yoke_adam(0.01f),
                                    .batch = 16 * SAMPLES,
                                    .level = YOKE_PLAN_ESTIMATE,
                                    .accumulate = 2,
                                    .no_overlap = !piped};
    yoke_device_info info;
    yoke_node *x, *target;
    yoke_trainer *t;
    yoke_graph *g;
    yoke_team *team;

    ASSERT_OK(yoke_graph_create(&g));
    place(g, 0);
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(WIDTH));
    for (size_t i = 0; i < 2; i++) {
        place(g, i);
        for (int layer = 0; layer < 3; layer++)
            x = yoke_tanh(g, dense(g, x, 1024, NULL));
    }
    target = yoke_target(g, "target", YOKE_I32, yoke_shape());
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, target, NULL));
    ASSERT_OK(yoke_team_create(devices.context, selector, NULL, &team));
    for (size_t k = 0; k < 2; k++) {
        ASSERT_OK(yoke_device_get_info(yoke_team_get_device(team, k), &info));
        ASSERT_OK(yoke_team_bind_place(team, names[k], info.id));
    }
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return t;
}

/* Trains before and after an evaluation. */
static void
train_limited(yoke_trainer *t, bool piped, team_outcome *weights, yoke_result *result)
{
    const yoke_field fields[] = {
        {.name = "x", .type = YOKE_F32, .shape = yoke_shape(WIDTH), .data = images},
        {.name = "target", .type = YOKE_I32, .shape = yoke_shape(), .data = labels},
    };
    yoke_feed feeds[2] = {yoke_feed_f32("x", images, SAMPLES * WIDTH),
                          yoke_feed_i32("target", labels, SAMPLES)};
    yoke_dataset *dataset;

    ck_assert_int_eq(yki_pipeline_exists(&t->crew), piped);
    ASSERT_OK(yoke_dataset_create(SAMPLES, fields, 2, NULL, &dataset));
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(yoke_trainer_step(t, SAMPLES, feeds, 2, NULL));
        if (i == 1)
            ASSERT_OK(yoke_trainer_evaluate(t, dataset, result));
    }
    ck_assert(!yki_pipeline_exists(&t->crew));
    ASSERT_OK(team_read(t, weights));
    yoke_trainer_destroy(t);
    yoke_dataset_destroy(dataset);
}

/* The pipeline of the first device takes memory that is free, and gives it back to an evaluation,
 * which needs it. */
static void
check_evaluation(void)
{
    yoke_trainer *t = make_limited(devices.selector, true);
    team_outcome piped, behind;
    yoke_result results[2];
    yoke_memory_usage usage;
    char selector[3 * sizeof ids[0]];

    ASSERT_OK(yoke_device_get_memory(yoke_team_get_device(t->team, 0), &usage));
    yoke_trainer_destroy(t);
    snprintf(selector, sizeof selector, "%s@%lluB,%s", ids[0],
             (unsigned long long)(usage.used + 50000), ids[1]);
    train_limited(make_limited(selector, true), true, &piped, &results[0]);
    train_limited(make_limited(selector, false), false, &behind, &results[1]);
    ck_assert(team_same_bits(&piped, &behind));
    ck_assert(results[0].loss == results[1].loss);
    team_free(&piped);
    team_free(&behind);
}

TEAM_SETUP(of_the_matrix, TEST_AS_IS, open_setup, check_nets(false))
TEAM_SETUP(on_halves, TEST_POCL_HALVES, open_setup, check_nets(true))
TEAM_SETUP(on_quarters, TEST_POCL_QUARTERS, open_setup, check_nets(true))
TEAM_SETUP(on_two_platforms, TEST_POCL_AND_RUSTICL, open_setup,
           check_slow_drivers((how){.which = SHARED, .micro_batches = 5}))
TEAM_SETUP(on_slices, TEST_RUSTICL_SLICES, open_setup, check_nets(false))
TEAM_SETUP(sequences_on_quarters, TEST_POCL_QUARTERS, open_setup, check_sequences())
TEAM_SETUP(memory_for_an_evaluation, TEST_POCL_HALVES, open_setup, check_evaluation())
TEAM_SETUP(with_memory_of_their_own, TEST_POCL_ROOTS, open_setup, check_memory_apart())

Suite *
test_suite(void)
{
    Suite *suite = suite_create("pipeline");
    TCase *tc = test_case(suite, "order");

    /* What kernels do here takes llvmpipe longer than to optimise them. */
    unsetenv("GALLIVM_PERF");
    tcase_add_test(tc, chains_alternate);
    tcase_add_test(tc, any_graph_keeps_the_rules);
    tc = test_case(suite, "bits");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, of_the_matrix);
    tcase_add_test(tc, on_halves);
    tcase_add_test(tc, on_quarters);
    tcase_add_test(tc, on_two_platforms);
    if (!getenv("YOKE_TEST_QUICK")) /* its driver is one of the two platforms */
        tcase_add_test(tc, on_slices);
    tcase_add_test(tc, with_memory_of_their_own);
    tcase_add_test(tc, sequences_on_quarters);
    tcase_add_test(tc, memory_for_an_evaluation);
    return suite;
}

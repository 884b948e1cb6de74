/* SPDX-License-Identifier: Apache-2.0
 *
 * check_replicas.c - the replicas of a team whose devices share no memory: after some updates by
 * each optimizer parameters and optimizer state are the same, bit by bit, on PoCL, on Rusticl, and
 * on both together.
 *
 * Each group gets the same summed gradients and makes the update by itself, so what two compilers
 * make of the update kernels shows. Tensors are compared, not buckets: what lies between tensors
 * belongs to nobody.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/harness.h"
#include "support/devices.h"
#include "train/graphs.h"
#include "train/trainer.h"

/* Many numbers and few updates: Rusticl takes a millisecond for a launch, however small it is. */
enum { UPDATES = 25, KINDS = 3, WIDTH = 602, BATCH = 5 };

static const char *const kinds[KINDS] = {"value", "first state", "second state"};

static test_devices devices;

/* Where a tensor of a group is. No buffer: the optimizer keeps none. */
static yki_state_place
find_tensor(const yki_crew *crew, size_t group, size_t index, int kind)
{
    const yki_member *first = yki_crew_in_group(crew, group, 0);
    const yki_weight *w = &first->replica->weights->weights[index];
    yki_range range;

    if (kind == 0)
        return (yki_state_place){.buffer = w->value};
    for (size_t i = 0; i < crew->groups[group].count; i++) {
        const yki_member *m = yki_crew_in_group(crew, group, i);

        if (yki_member_owns(crew, m, w->bucket))
            return yki_state_behind(
                yki_updater_state(m->replica->updater, w->bucket, (unsigned)(kind - 1), &range),
                w->offset);
    }
    return (yki_state_place){0};
}

/* The same tensor of two groups. Returns whether there is one. */
static bool
compare_tensor(const yki_crew *crew, size_t group, size_t index, int kind, const char *what)
{
    const yki_weight *w = &yki_crew_in_group(crew, 0, 0)->replica->weights->weights[index];
    const yki_state_place places[2] = {find_tensor(crew, 0, index, kind),
                                       find_tensor(crew, group, index, kind)};
    float *values[2];
    size_t count = (size_t)w->size / 4, different = 0;

    ck_assert(!places[0].buffer == !places[1].buffer);
    if (!places[0].buffer)
        return false;
    for (int i = 0; i < 2; i++) {
        values[i] = malloc((size_t)w->size);
        ck_assert_ptr_nonnull(values[i]);
        ASSERT_OK(yki_state_get(places[i], w->size, values[i]));
    }
    for (size_t i = 0; i < count; i++)
        different += memcmp(&values[0][i], &values[1][i], sizeof(float)) != 0;
    ck_assert_msg(different == 0, "%s: %s of %s: %zu of %zu numbers differ after %d updates", what,
                  kinds[kind], w->node->name, different, count, UPDATES);
    free(values[0]);
    free(values[1]);
    return true;
}

/* All replicas of the trainer with the first. `states`: that the optimizer keeps. */
static void
compare_replicas(yoke_trainer *t, size_t states, const char *what)
{
    const yki_crew *crew = &t->crew;
    size_t tensors = yki_crew_in_group(crew, 0, 0)->replica->weights->weight_count, compared = 0;

    ck_assert_uint_ge(crew->group_count, 2);
    for (size_t g = 1; g < crew->group_count; g++)
        for (size_t i = 0; i < tensors; i++)
            for (int kind = 0; kind < KINDS; kind++)
                compared += compare_tensor(crew, g, i, kind, what);
    ck_assert_uint_eq(compared, (crew->group_count - 1) * tensors * (1 + states));
}

typedef struct optimizer_case {
    const char *what;
    yoke_optimizer optimizer;
    size_t states;
    float clip_norm, clip_value;
    yoke_state_choice state;
} optimizer_case;

static void
train_and_compare(const optimizer_case *c)
{
    const yoke_schedule schedule = {.kind = YOKE_SCHEDULE_COSINE, .warmup = 5, .steps = UPDATES};
    yoke_trainer_options o = {.optimizer = c->optimizer,
                              .batch = BATCH,
                              .shares = "80,20",
                              .level = YOKE_PLAN_ESTIMATE,
                              .schedule = &schedule,
                              .clip_norm = c->clip_norm,
                              .state = c->state,
                              .clip_value = c->clip_value};
    float x[BATCH * WIDTH] = {0};
    const yoke_feed feed = yoke_feed_f32("x", x, BATCH * WIDTH);
    yoke_trainer *trainer;
    yoke_graph *g = graph_two_parameters(WIDTH);
    yoke_team *team;
    yoke_result result;

    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &trainer));
    for (int i = 0; i < UPDATES; i++) {
        for (size_t k = 0; k < YKI_COUNT(x); k++)
            x[k] = (float)op_normal(3, (uint32_t)i, (uint64_t)k);
        ASSERT_OK(yoke_trainer_step(trainer, BATCH, &feed, 1, i == UPDATES - 1 ? &result : NULL));
    }
    ck_assert(result.loss >= 0 && result.loss < 10);
    compare_replicas(trainer, c->states, c->what);
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}

static optimizer_case
sgd(const char *what, float momentum, bool nesterov, float decay)
{
    optimizer_case c = {
        .what = what, .optimizer = yoke_sgd(0.1f, momentum), .states = momentum > 0};

    c.optimizer.nesterov = nesterov;
    c.optimizer.weight_decay = decay;
    return c;
}

START_TEST(replicas_of_two_drivers_have_the_same_bits)
{
    optimizer_case cases[] = {
        sgd("SGD", 0, false, 0),
        sgd("SGD with Nesterov's momentum and decay", 0.9f, true, 0.01f),
        sgd("SGD clipped by norm", 0.9f, false, 0.01f),
        sgd("SGD clipped by value", 0.9f, false, 0),
        {.what = "Adam", .optimizer = yoke_adam(0.01f), .states = 2},
        {.what = "AdamW", .optimizer = yoke_adamw(0.01f, 0.1f), .states = 2},
        {.what = "RMSprop", .optimizer = yoke_rmsprop(0.01f), .states = 1},
        {.what = "RMSprop with momentum", .optimizer = yoke_rmsprop(0.01f), .states = 2},
        {.what = "Adam with a small state",
         .optimizer = yoke_adam(0.01f),
         .states = 2,
         .state = YOKE_STATE_BF16},
    };

    if (test_in_matrix())
        TEST_NOT_HERE("the matrix has its own devices");
    if (!test_devices_find(TEST_POCL_AND_RUSTICL, &devices))
        TEST_SKIP("%s", devices.missing);
    cases[2].clip_norm = 0.05f;
    cases[3].clip_value = 0.001f;
    cases[7].optimizer.momentum = 0.9f;
    for (size_t i = 0; i < YKI_COUNT(cases); i++)
        train_and_compare(&cases[i]);
    test_devices_close(&devices);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("replicas");
    TCase *tcase = test_case(suite, "replicas");

    tcase_add_test(tcase, replicas_of_two_drivers_have_the_same_bits);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_sets.c - see fake_sets.h.
 */
#include "support/fake_sets.h"

#include <stdio.h>
#include <string.h>

#include "support/support.h"

unsigned fake_measured[FAKE_SETS];
static unsigned fake_used;
static fake_search_options search;

static bool
fake_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    (void)traits;
    return true;
}

static double
fake_work(const yki_problem *problem, char *text, size_t size)
{
    (void)problem;
    snprintf(text, size, "a product");
    return search.work;
}

static size_t
fake_seeds(const unsigned **seeds)
{
    static const unsigned list[] = {3, 3, 8};

    *seeds = list;
    return YKI_COUNT(list);
}

static bool
fake_valid(unsigned set, const yki_device_traits *traits)
{
    (void)traits;
    return set < FAKE_SETS;
}

static size_t
fake_neighbours(unsigned set, unsigned move, unsigned found[YKI_MAX_NEIGHBOURS])
{
    found[0] = set + 1 + move;
    found[1] = set - 1 - move;
    return 2;
}

static void
fake_describe(unsigned set, char *text, size_t size)
{
    snprintf(text, size, "%u", set);
}

/* Odd sets work, and a higher one is faster. */
static yoke_status
fake_measure(yki_queue *queue, const yki_problem *problem, unsigned set, double *seconds)
{
    (void)queue;
    (void)problem;
    if (set >= FAKE_SETS)
        return yki_fail(YOKE_ERROR_VALUE, "no own set");
    fake_measured[set]++;
    if (search.all_fail || set % 2 == 0)
        return yki_fail(YOKE_ERROR_VALUE, "set %u computes wrongly", set);
    *seconds = 1.0 / set;
    return YOKE_OK;
}

static yoke_status
fake_use(yki_queue *queue, unsigned set)
{
    (void)queue;
    fake_used = set;
    return YOKE_OK;
}

static bool
fake_in_force(yki_queue *queue, unsigned *set)
{
    (void)queue;
    (void)set;
    return false;
}

static const yki_parameter_sets fake_sets = {
    .title = "a test",
    .own = UINT32_MAX,
    .moves = 2,
    .work = fake_work,
    .seeds = fake_seeds,
    .valid = fake_valid,
    .neighbours = fake_neighbours,
    .describe = fake_describe,
    .measure = fake_measure,
    .use = fake_use,
    .in_force = fake_in_force,
};

unsigned
fake_search(yoke_device *device, const fake_search_options *options)
{
    static const yki_op *const op = &yki_op_matmul;
    const yki_solver fake = {
        .name = "fake", .op = &op, .sets = &fake_sets, .applies = fake_applies};
    yki_plan_options o = {.max.batch = 4};
    const unsigned *set;
    unsigned taken;
    yki_weights *weights;
    yki_queue *queue;
    yki_plan *plan;
    yoke_graph *g;

    search = *options;
    fake_used = FAKE_SETS;
    memset(fake_measured, 0, sizeof fake_measured);
    ASSERT_OK(yki_wisdom_open(NULL, &o.wisdom));
    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_output(g, "y",
                          yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(6)),
                                     &(yoke_dense_options){.units = 5}));
    ASSERT_OK(yki_queue_create(device, false, &queue));
    ASSERT_OK(yki_weights_create(device, g, false, 0, NULL, &weights));
    ASSERT_OK(yki_plan_create(weights, queue, &o, &plan));
    ck_assert_ptr_null(yki_plan_set_of(plan, &fake));
    plan->options.level = options->level;
    ASSERT_OK(yki_plan_search_sets(plan, &fake));
    set = yki_plan_set_of(plan, &fake);
    taken = set ? *set : FAKE_SETS;
    ck_assert_uint_eq(fake_used, taken);
    yki_plan_destroy(plan);
    yki_weights_release(weights);
    yki_queue_destroy(queue);
    yoke_graph_destroy(g);
    yki_wisdom_close(o.wisdom);
    return taken;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_growth.c - planning costs in proportion to a network's nodes: iterations of the
 * planner's loops are counted, not time. A search for a budget of memory has limits. And its two
 * ways of packing memory give maps in which nothing overlaps.
 */
#include <stdio.h>

#include "plan/plan.h"
#include "support/support.h"

typedef struct made {
    yoke_context *context;
    yoke_selection *selection;
    yoke_graph *graph;
    yki_weights *weights;
    yki_queue *queue;
    yki_plan *plan;
} made;

/* Layers with a shortcut around each: activations, products with parameters, sums. */
static yoke_graph *
deep_graph(int layers)
{
    yoke_initializer init = {YOKE_INIT_DEFAULT, 0, 0, 0};
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(8));
    for (int i = 0; i < layers; i++) {
        char name[32];

        snprintf(name, sizeof name, "p%d", i);
        x = yoke_add(g, yoke_tanh(g, yoke_mul(g, x, yoke_parameter(g, name, yoke_shape(8), init))),
                     x);
    }
    yoke_graph_set_loss(g, yoke_mean(g, x, NULL, 0));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* All stages but the last, which makes kernels. */
static void
make(made *m, int layers, bool training)
{
    ASSERT_OK(yoke_context_create(NULL, &m->context));
    ASSERT_OK(yoke_selection_create(m->context, test_selector(), NULL, &m->selection));
    m->graph = deep_graph(layers);
    ASSERT_OK(yki_weights_create(yoke_selection_get(m->selection, 0), m->graph, training, 0, NULL,
                                 &m->weights));
    ASSERT_OK(yki_queue_create(yoke_selection_get(m->selection, 0), false, &m->queue));
    m->plan = yki_alloc(1, sizeof *m->plan, "a plan");
    ck_assert_ptr_nonnull(m->plan);
    m->plan->options =
        (yki_plan_options){.max.batch = 4, .training = training, .level = YOKE_PLAN_ESTIMATE};
    m->plan->weights = yki_weights_retain(m->weights);
    m->plan->queue = m->queue;
    ASSERT_OK(yki_plan_lower(m->plan));
    ASSERT_OK(yki_plan_fuse(m->plan));
    ASSERT_OK(yki_plan_choose(m->plan));
    ASSERT_OK(yki_plan_pack(m->plan));
}

static void
destroy(made *m)
{
    yki_plan_destroy(m->plan);
    yki_queue_destroy(m->queue);
    yki_weights_release(m->weights);
    yoke_graph_destroy(m->graph);
    yoke_selection_destroy(m->selection);
    yoke_context_destroy(m->context);
}

/* Plans anew, within a budget. Returns the work of the search. */
static uint64_t
meet(made *m, uint64_t most, bool only_bytes, yoke_status expected)
{
    yki_plan_options o = m->plan->options;
    uint64_t before;

    yki_plan_destroy(m->plan);
    o.most = most;
    o.only_bytes = only_bytes;
    m->plan = yki_alloc(1, sizeof *m->plan, "a plan");
    ck_assert_ptr_nonnull(m->plan);
    m->plan->options = o;
    m->plan->weights = yki_weights_retain(m->weights);
    m->plan->queue = m->queue;
    ASSERT_OK(yki_plan_lower(m->plan));
    ASSERT_OK(yki_plan_fuse(m->plan));
    ASSERT_OK(yki_plan_choose(m->plan));
    before = m->plan->work;
    ck_assert_int_eq(yki_plan_recompute(m->plan), expected);
    if (expected == YOKE_OK)
        ASSERT_OK(yki_plan_pack(m->plan));
    return m->plan->work - before;
}

/* A search of a large network ends early, yet within the budget. Where bytes alone are asked for it
 * ends at the first choice, or without looking for the least. */
START_TEST(a_search_has_limits)
{
    const uint64_t most = 60000000;
    made m = {0};
    uint64_t full, work, less;

    make(&m, 600, true);
    full = yki_plan_memory(m.plan);
    work = meet(&m, full / 2, false, YOKE_OK);
    ck_assert_uint_le(yki_plan_memory(m.plan), full / 2);
    less = meet(&m, full / 2, true, YOKE_OK);
    ck_assert_uint_le(yki_plan_memory(m.plan), full / 2);
    ck_assert_msg(work < most && less < work * 3 / 4, "%llu turns, for the bytes alone %llu",
                  (unsigned long long)work, (unsigned long long)less);
    m.plan->options.small = true;
    work = meet(&m, 1000, true, YOKE_ERROR_OUT_OF_DEVICE_MEMORY);
    ck_assert_msg(work < most, "%llu turns", (unsigned long long)work);
    destroy(&m);
}
END_TEST

START_TEST(planning_grows_with_the_nodes)
{
    made few = {0}, many = {0};
    double ratio, per_node;

    make(&few, 150, _i);
    make(&many, 1200, _i);
    ratio = (double)many.plan->work / (double)few.plan->work;
    per_node = (double)many.plan->work / (double)many.graph->node_count;
    ck_assert_msg(ratio < 8 * 1.25, "8 times the nodes take %.1f times the work", ratio);
    ck_assert_msg(per_node < 300, "%.0f turns a node", per_node);
    destroy(&few);
    destroy(&many);
}
END_TEST

static bool
lies_in_memory(const yki_value *v)
{
    return v->storage == YKI_STORE_ARENA && v->alias < 0 && v->last >= 0;
}

/* Nothing that lives at the same time overlaps, and the whole is not much more than what has to
 * live at once. */
START_TEST(memory_is_packed_well)
{
    static const int layers[] = {20, 500};
    made m = {0};
    uint64_t peak = 0, packed = 0;

    make(&m, layers[_i % 2], _i / 2);
    for (size_t a = 0; a < m.plan->value_count; a++)
        for (size_t b = a + 1; b < m.plan->value_count; b++) {
            const yki_value *x = &m.plan->values[a], *y = &m.plan->values[b];

            if (lies_in_memory(x) && lies_in_memory(y) && x->chunk == y->chunk &&
                x->first <= y->last && y->first <= x->last)
                ck_assert(x->offset + x->size <= y->offset || y->offset + y->size <= x->offset);
        }
    for (int32_t t = 0; t < (int32_t)m.plan->task_count; t++) {
        uint64_t now = 0;

        for (size_t v = 0; v < m.plan->value_count; v++)
            if (lies_in_memory(&m.plan->values[v]) && m.plan->values[v].first <= t &&
                t <= m.plan->values[v].last)
                now += m.plan->values[v].size;
        peak = YKI_MAX(peak, now);
    }
    for (size_t i = 0; i < m.plan->chunks.count; i++)
        packed += m.plan->chunks.sizes[i];
    ck_assert_msg((double)packed <= 1.1 * (double)peak, "packed %.0f, alive at once %.0f",
                  (double)packed, (double)peak);
    destroy(&m);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("growth");
    TCase *tcase = test_case(suite, "growth");

    tcase_add_loop_test(tcase, planning_grows_with_the_nodes, 0, 2);
    tcase_add_test(tcase, a_search_has_limits);
    tcase_add_loop_test(tcase, memory_is_packed_well, 0, 4);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_prefetch.c - the planner asks what the readers of a value want. Graphs of tasks
 * that can do with any layout, as long as input and result have the same; what each
 * takes in which is invented and written into wisdom.
 */
#include <math.h>

#include "plan/plan.h"
#include "support/planning.h"
#include "support/support.h"

enum { BATCH = 4, LAYOUTS = 4, LONGEST = 6, SEEDS = 40 };
static const uint32_t blocks[LAYOUTS] = {1, 16, 8, 4};

/* Microseconds: of each task, in the order in which a graph has them, by layout; of any reorder. */
typedef struct times {
    double task[LONGEST][LAYOUTS], reorder;
} times;

typedef struct made {
    planning base;
    yki_plan *plan;
} made;

/* ---- graphs ---- */

static yoke_node *
start(yoke_graph **g)
{
    ASSERT_OK(yoke_graph_create(g));
    return yoke_input(*g, "x", YOKE_F32, yoke_shape(16, 2, 2));
}

static yoke_graph *
finish(yoke_graph *g, yoke_node *y)
{
    yoke_graph_set_output(g, "y", y);
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* A task that wisdom can tell from the others. */
static yoke_node *
step(yoke_graph *g, yoke_node *x, int number)
{
    return yoke_scale(g, x, (float)(2 + number), 0);
}

static yoke_graph *
chain(int length)
{
    yoke_graph *g;
    yoke_node *x = start(&g);

    for (int i = 0; i < length; i++)
        x = step(g, x, i);
    return finish(g, x);
}

/* Two readers of the first task's result, that meet again. */
static yoke_graph *
fork_and_join(void)
{
    yoke_graph *g;
    yoke_node *x = start(&g), *a, *b;

    x = step(g, x, 0);
    a = step(g, x, 1);
    b = step(g, x, 2);
    return finish(g, step(g, yoke_add(g, a, b), 4));
}

/* A short and a long way from the input to where they meet. */
static yoke_graph *
two_ways(void)
{
    yoke_graph *g;
    yoke_node *x = start(&g), *a, *b;

    a = step(g, x, 0);
    b = step(g, step(g, x, 1), 2);
    return finish(g, step(g, yoke_add(g, a, b), 4));
}

/* ---- plans ---- */

/* What each task takes, in every layout; of a problem in several places the last is heard. */
static void
invent_tasks(made *m, const times *t)
{
    const yki_device_traits *traits = yki_device_get_traits(m->base.device);

    for (size_t i = 0; i < m->plan->task_count; i++)
        for (const yki_solver *const *s = yki_solvers; *s; s++)
            for (unsigned variant = 0; *(*s)->op == m->plan->tasks[i].problem.op; variant++) {
                yki_problem problem = m->plan->tasks[i].problem;
                char text[YKI_PROBLEM_TEXT];

                if (!(*s)->layouts || !(*s)->layouts(&problem, traits, variant))
                    break;
                ck_assert_uint_eq(problem.out.layout.block, blocks[variant]);
                yki_problem_text(&problem, text, sizeof text);
                ASSERT_OK(yki_wisdom_put(m->base.wisdom, m->base.device, text, (*s)->name, 0,
                                         t->task[i][variant] * 1e-6));
            }
}

/* All values are alike, so one is enough. */
static void
invent_reorders(made *m, const times *t)
{
    yki_problem problem = {.op = &yki_op_reorder, .input_count = 1, .max.batch = BATCH};
    char text[YKI_PROBLEM_TEXT];

    for (int from = 0; from < LAYOUTS; from++)
        for (int to = 0; to < LAYOUTS; to++) {
            problem.in[0] = problem.out = m->plan->tasks[0].problem.out;
            problem.in[0].layout.block = blocks[from];
            problem.out.layout.block = blocks[to];
            yki_problem_text(&problem, text, sizeof text);
            ASSERT_OK(yki_wisdom_put(m->base.wisdom, m->base.device, text, "reorder", 0,
                                     t->reorder * 1e-6));
        }
}

/* Up to the tasks, which are not decided; nothing will be measured. */
static void
open_plan(made *m, yoke_graph *graph)
{
    *m = (made){.plan = yki_alloc(1, sizeof *m->plan, "a plan")};
    ck_assert_ptr_nonnull(m->plan);
    planning_open(&m->base, test_selector(), graph);
    m->plan->options = (yki_plan_options){
        .max.batch = BATCH, .level = YOKE_PLAN_ESTIMATE, .wisdom = m->base.wisdom};
    m->plan->weights = yki_weights_retain(m->base.weights);
    m->plan->queue = m->base.queue;
    ASSERT_OK(yki_plan_lower(m->plan));
    ck_assert_uint_le(m->plan->task_count, LONGEST);
}

static void
close_plan(made *m)
{
    yki_plan_destroy(m->plan);
    planning_close(&m->base);
}

/* ---- what is best ---- */

/* Microseconds with the tasks in these layouts: a value is copied once for each other layout in
 * which it is read. */
static double
cost_of(const yki_plan *plan, const times *t, const int *layouts)
{
    int lies[1 + LONGEST] = {0}; /* by value, of which the first is the graph's input */
    unsigned wanted[1 + LONGEST] = {0};
    double cost = 0;

    for (size_t i = 0; i < plan->task_count; i++) {
        const yki_task *task = &plan->tasks[i];

        cost += t->task[i][layouts[i]];
        lies[task->slots[task->problem.input_count]] = layouts[i];
        for (uint32_t k = 0; k < task->problem.input_count; k++)
            wanted[task->slots[k]] |= 1u << layouts[i];
    }
    for (size_t v = 0; v < plan->value_count; v++)
        for (int l = 0; l < LAYOUTS; l++)
            cost += l != lies[v] && wanted[v] >> l & 1 ? t->reorder : 0;
    return cost;
}

/* Of all ways; the last task's result is seen from outside, so it has to be plain. */
static double
least_cost(const yki_plan *plan, const times *t)
{
    double least = INFINITY;
    int ways = 1;

    for (size_t i = 0; i + 1 < plan->task_count; i++)
        ways *= LAYOUTS;
    for (int way = 0; way < ways; way++) {
        int layouts[LONGEST] = {0};

        for (size_t i = 0, rest = (size_t)way; i + 1 < plan->task_count; i++, rest /= LAYOUTS)
            layouts[i] = (int)(rest % LAYOUTS);
        least = YKI_MIN(least, cost_of(plan, t, layouts));
    }
    return least;
}

/* Microseconds and reorders of the planner's plan, and those of the best one. */
typedef struct outcome {
    double took, least;
    size_t reorders;
} outcome;

static outcome
plan_parts(yoke_graph *graph, const times *t, size_t forward)
{
    outcome o = {0};
    made m;

    open_plan(&m, graph);
    invent_tasks(&m, t);
    invent_reorders(&m, t);
    o.least = least_cost(m.plan, t);
    for (size_t i = forward; i < m.plan->task_count; i++)
        m.plan->tasks[i].section = YKI_BACKWARD;
    ASSERT_OK(yki_plan_choose(m.plan));
    for (size_t i = 0; i < m.plan->task_count; i++) {
        o.took += m.plan->tasks[i].seconds * 1e6;
        o.reorders += !m.plan->tasks[i].node;
    }
    close_plan(&m);
    return o;
}

static outcome
plan_with(yoke_graph *graph, const times *t)
{
    return plan_parts(graph, t, LONGEST);
}

static void
assert_best(const outcome *o, size_t reorders)
{
    ck_assert_msg(fabs(o->took - o->least) < 1e-3, "%.0f us with %zu reorders, %.0f can be had",
                  o->took, o->reorders, o->least);
    ck_assert_uint_eq(o->reorders, reorders);
}

/* ---- cases ---- */

#define ALL(us)                                                                                    \
    {                                                                                              \
        us, us, us, us                                                                             \
    }
#define IN_16(us)                                                                                  \
    {                                                                                              \
        100, us, 900, 900                                                                          \
    }

/* The second task is faster in blocks, by more than a reorder, but its reader is not: back again
 * costs more than was gained. */
START_TEST(a_detour_that_costs_more_is_left_out)
{
    const times t = {{ALL(100), IN_16(30), IN_16(900), ALL(100)}, 60};
    outcome o = plan_with(chain(4), &t);

    assert_best(&o, 0);
}
END_TEST

/* The same where what minds comes several tasks later. */
START_TEST(what_does_not_mind_is_looked_through)
{
    const times t = {{ALL(100), IN_16(30), ALL(50), ALL(50), IN_16(900), ALL(100)}, 60};
    outcome o = plan_with(chain(6), &t);

    assert_best(&o, 0);
}
END_TEST

START_TEST(a_detour_that_pays_is_taken)
{
    const times t = {{ALL(100), IN_16(30), IN_16(900), ALL(100)}, 30};
    outcome o = plan_with(chain(4), &t);

    assert_best(&o, 2);
}
END_TEST

/* Two tasks in a row together save what neither does alone. */
START_TEST(a_detour_pays_for_several)
{
    const times t = {{ALL(100), IN_16(60), ALL(50), IN_16(20), ALL(100)}, 50};
    outcome o = plan_with(chain(5), &t);

    assert_best(&o, 2);
}
END_TEST

/* A task that gains too little by itself leaves its result as both readers want it. */
START_TEST(all_readers_count)
{
    const times t = {{IN_16(60), IN_16(10), IN_16(10), ALL(50), ALL(100)}, 95};
    outcome o = plan_with(fork_and_join(), &t);

    assert_best(&o, 2);
}
END_TEST

/* What backward starts with goes where forward left what it meets in the end. */
START_TEST(backward_knows_what_forward_decided)
{
    const times t = {{{300, 10, 900, 900}, ALL(50), ALL(50), {80, 50, 900, 900}, ALL(100)}, 60};
    outcome o = plan_parts(two_ways(), &t, 1);

    assert_best(&o, 2);
}
END_TEST

static double
draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return 1 + (*state >> 16) % 200;
}

/* Along a chain nothing is guessed: of all plans it is the best. */
START_TEST(a_chain_is_decided_as_well_as_can_be)
{
    uint32_t state = (uint32_t)_i + 1;
    times t = {.reorder = draw(&state) / 3};
    outcome o;

    for (int i = 0; i < LONGEST; i++)
        for (int l = 0; l < LAYOUTS; l++)
            t.task[i][l] = draw(&state);
    o = plan_with(chain(LONGEST), &t);
    assert_best(&o, o.reorders);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("ahead");
    TCase *tcase = test_case(suite, "ahead");

    tcase_add_test(tcase, a_detour_that_costs_more_is_left_out);
    tcase_add_test(tcase, what_does_not_mind_is_looked_through);
    tcase_add_test(tcase, a_detour_that_pays_is_taken);
    tcase_add_test(tcase, a_detour_pays_for_several);
    tcase_add_test(tcase, all_readers_count);
    tcase_add_test(tcase, backward_knows_what_forward_decided);
    tcase_add_loop_test(tcase, a_chain_is_decided_as_well_as_can_be, 0, SEEDS);
    return suite;
}

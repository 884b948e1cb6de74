/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.c - picks a solver and layouts for every task, and adds reorders where neighbours
 * disagree.
 *
 * It walks the tasks in order, so the inputs of a task have their layouts by then. The cost of
 * an offer is its own time (offers.c), the time to bring its inputs into the layouts that it
 * wants (a copy made for an earlier task is used again), and what the readers of its result
 * lose by its layout (look_ahead.c).
 */
#include <string.h>

#include "plan/choose.h"

/* Gives the cost of an offer for the task at hand. */
static yoke_status
cost_of(yki_choice *choice, const yki_offer *offer, double *cost)
{
    *cost = offer->cost + yki_choice_results(choice, choice->index, offer);
    return yki_choice_inputs(choice, choice->index, offer, -1, cost);
}

/* Finds the cheapest offer, and the costs of the cheapest of each class. */
static yoke_status
cheapest(yki_choice *choice, const yki_offer **best, double costs[YKI_CLASSES])
{
    yki_plan *plan = choice->plan;
    double least = 0;

    *best = NULL;
    memset(costs, 0, YKI_CLASSES * sizeof *costs);
    for (size_t i = choice->menu[choice->index].begin; i < choice->menu[choice->index].end; i++) {
        const yki_offer *offer = &choice->offers[i];
        double cost, *of_class = &costs[offer->solver->numerical_class];

        plan->work++;
        YKI_TRY(cost_of(choice, offer, &cost));
        if (*of_class == 0 || cost < *of_class)
            *of_class = cost;
        if (!*best || cost < least) {
            *best = offer;
            least = cost;
        }
    }
    return YOKE_OK;
}

/* Finds the cheapest offer that works. A survey also notes the cheapest of each class. */
static yoke_status
best_offer(yki_choice *choice, const yki_task *task, const yki_offer **best)
{
    yki_plan *plan = choice->plan;
    double costs[YKI_CLASSES];
    bool works = false;

    choice->broken_count = 0;
    while (!works) {
        YKI_TRY(cheapest(choice, best, costs));
        YKI_TRY(yki_choice_try(choice, *best, &works));
    }
    if (plan->costs && task->node)
        yki_costs_add(plan->costs, task->node->id, costs);
    return YOKE_OK;
}

/* Appends a reorder of a value for a task of `section`. */
static yoke_status
add_reorder(const yki_choice *choice, yki_section section, int32_t value, yki_layout layout,
            int32_t *copy)
{
    yki_plan *plan = choice->plan;
    yki_value target = {.alias = -1, .storage = YKI_STORE_ARENA, .decided = true};
    yki_task task = {.section = section};

    YKI_TRY(yki_choice_make_reorder(choice, &plan->values[value].operand, layout, &task));
    target.operand = task.problem.out;
    target.next_copy = plan->values[value].copies;
    YKI_TRY(yki_plan_add_value(plan, &target, copy));
    plan->values[value].copies = *copy;
    task.slots[0] = value;
    task.slots[1] = *copy;
    return yki_plan_add_task(plan, &task);
}

static yoke_status
bring_inputs(const yki_choice *choice, yki_task *task)
{
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        yki_layout layout = task->problem.in[k].layout;
        int32_t value = task->slots[k],
                there = yki_choice_find(choice, value, yki_layout_index(layout));

        if (there < 0)
            YKI_TRY(add_reorder(choice, task->section, value, layout, &there));
        task->slots[k] = there;
    }
    return YOKE_OK;
}

/* Takes a reorder that lowering made: its layouts are given. */
static yoke_status
take_copy(const yki_choice *choice, yki_task *task)
{
    yki_plan *plan = choice->plan;

    YKI_TRY(yki_choice_make_reorder(choice, &plan->values[task->slots[0]].operand,
                                    task->problem.out.layout, task));
    return yki_plan_add_task(plan, task);
}

/* Gives the results the layouts of the chosen problem. */
static void
decide_results(const yki_choice *choice, const yki_task *task)
{
    yki_plan *plan = choice->plan;

    for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++) {
        const yki_operand *result = yki_problem_operand(&task->problem, s);
        yki_value *value = &plan->values[task->slots[s]];

        value->operand.layout = result->layout;
        value->decided = true;
        value->size = (uint64_t)yki_expr_value(yki_operand_bytes(result), task->problem.max);
    }
}

/* Decides a task and appends it, after the reorders of its inputs. A view only needs its input in
 * the plain layout. */
static yoke_status
take(yki_choice *choice, yki_task *task)
{
    yki_plan *plan = choice->plan;
    int32_t out = task->slots[task->problem.input_count];
    yki_problem problem;
    const yki_offer *best = NULL;

    if (task->problem.op == &yki_op_reorder)
        return take_copy(choice, task);
    if (task->problem.op->is_view) {
        YKI_TRY(bring_inputs(choice, task));
        plan->values[out].alias = yki_value_root(plan, task->slots[0]);
        plan->values[out].decided = true;
        return yki_plan_add_task(plan, task);
    }
    YKI_TRY(yki_choice_look_from(choice, choice->index));
    YKI_TRY(best_offer(choice, task, &best));
    task->solver = best->solver;
    task->tuning = best->tuning;
    task->seconds = best->seconds;
    yki_offer_problem(plan, task, best, &problem);
    task->problem = problem;
    decide_results(choice, task);
    YKI_TRY(bring_inputs(choice, task));
    return yki_plan_add_task(plan, task);
}

/* Lists readers by value. They are first counted and then entered, so that each value has a range
 * of one array. */
static yoke_status
list_readers(yki_choice *c)
{
    size_t uses = 0;

    c->values = c->plan->value_count;
    for (size_t t = 0; t < c->count; t++)
        uses += c->tasks[t].problem.input_count;
    c->first = yki_alloc(c->values + 2, sizeof *c->first, "a plan's readers");
    c->readers = yki_alloc(uses, sizeof *c->readers, "a plan's readers");
    if (!c->first || !c->readers)
        return YOKE_ERROR_OUT_OF_MEMORY;
    /* Counts stand two entries further than they belong: entering the readers moves the end of each
     * range to where the next range begins. */
    for (size_t t = 0; t < c->count; t++)
        for (uint32_t k = 0; k < c->tasks[t].problem.input_count; k++)
            c->first[c->tasks[t].slots[k] + 2]++;
    for (size_t v = 2; v < c->values + 2; v++)
        c->first[v] += c->first[v - 1];
    for (size_t t = 0; t < c->count; t++)
        for (uint32_t k = 0; k < c->tasks[t].problem.input_count; k++)
            c->readers[c->first[c->tasks[t].slots[k] + 1]++] = (uint32_t)t;
    return YOKE_OK;
}

/* Does all that comes before the decisions. */
static yoke_status
prepare(yki_choice *c)
{
    YKI_TRY(list_readers(c));
    c->menu = yki_alloc(c->count + 1, sizeof *c->menu, "what solvers offer");
    c->reorders = yki_alloc(c->values + 1, sizeof *c->reorders, "times of reorders");
    c->ahead = yki_alloc(c->values + 1, sizeof *c->ahead, "what layouts cost");
    if (!c->menu || !c->reorders || !c->ahead)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_choice_list_offers(c));
    return yki_choice_look_ahead(c, 0);
}

static yoke_status
walk(yki_choice *c)
{
    bool again = false;

    for (c->index = 0; c->index < c->count; c->index++) {
        yki_plan_tick(c->plan);
        /* Backward reads values of forward, whose layouts are decided now. Once is enough, whatever
         * the order of the tasks. */
        if (!again && c->tasks[c->index].section == YKI_BACKWARD) {
            again = true;
            YKI_TRY(yki_choice_look_ahead(c, c->index));
        }
        YKI_TRY(take(c, &c->tasks[c->index]));
    }
    return YOKE_OK;
}

yoke_status
yki_plan_choose(yki_plan *plan)
{
    yki_choice c = {.plan = plan, .tasks = plan->tasks, .count = plan->task_count};
    yoke_status status;

    plan->tasks = NULL;
    plan->task_count = plan->task_capacity = 0;
    status = prepare(&c);
    if (status == YOKE_OK)
        status = walk(&c);
    yki_free(c.tasks);
    yki_free(c.first);
    yki_free(c.readers);
    yki_free(c.offers);
    yki_free(c.asked);
    yki_free(c.broken);
    yki_free(c.menu);
    yki_free(c.reorders);
    yki_free(c.ahead);
    YKI_TRY(status);
    for (size_t i = 0; i < plan->task_count; i++) {
        yki_task *task = &plan->tasks[i];

        plan->work++;
        if (task->solver)
            YKI_TRY(yki_solver_emit(task->solver, &task->problem,
                                    yki_plan_traits(plan, task->solver), task->tuning,
                                    &task->recipe));
    }
    return YOKE_OK;
}

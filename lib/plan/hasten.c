/* SPDX-License-Identifier: Apache-2.0
 *
 * hasten.c - lets backward of a stage first compute what other members wait for.
 *
 * The gradients by its weights, which nobody waits for, follow. So the member before can begin its
 * backward while this one still has work, and micro-batches leave less time in which one of them
 * has nothing to do. The price is memory: gradients by activations, and what forward has kept, live
 * until the gradients by weights are computed. So nothing is hastened where memory is limited, or
 * was too short.
 *
 * Order among the tasks that others wait for stays, and so does that among the rest; gradients have
 * the same bits.
 */
#include <string.h>

#include "plan/plan.h"

static bool
leaves(const yki_plan *plan, const yki_crossing *crossing)
{
    return crossing->from == plan->weights->home && crossing->node->backward &&
           plan->node_value[crossing->node->id] >= 0;
}

bool
yki_plan_hastens(const yki_plan *plan)
{
    const yki_plan_options *o = &plan->options;
    const yki_placed *placed = plan->weights->placed;

    if (!placed || !o->training || o->small || o->most || o->no_join)
        return false;
    for (size_t i = 0; i < placed->crossings[true].count; i++)
        if (leaves(plan, &placed->crossings[true].list[i]))
            return true;
    return false;
}

static void
mark_leaving(const yki_plan *plan, bool *awaited)
{
    const yki_crossings *all = &plan->weights->placed->crossings[true];

    for (size_t i = 0; i < all->count; i++)
        if (leaves(plan, &all->list[i]))
            awaited[yki_value_root(plan, plan->node_value[all->list[i].node->id])] = true;
}

/* Marks the tasks of backward that write what is awaited, and awaits what these touch. */
static void
mark_tasks(const yki_plan *plan, bool *awaited, bool *first)
{
    for (size_t t = plan->task_count; t-- > 0;) {
        const yki_task *task = &plan->tasks[t];
        const uint32_t slots = yki_problem_operands(&task->problem);

        if (task->section != YKI_BACKWARD)
            continue;
        for (uint32_t s = task->problem.input_count; s < slots; s++)
            first[t] |= awaited[yki_value_root(plan, task->slots[s])];
        for (uint32_t s = 0; first[t] && s < slots; s++)
            awaited[yki_value_root(plan, task->slots[s])] = true;
    }
}

/* Moves these tasks of backward before the others. */
static void
move(yki_plan *plan, const bool *first, yki_task *rest)
{
    size_t count = 0, to = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        if (plan->tasks[t].section == YKI_BACKWARD && !first[t])
            rest[count++] = plan->tasks[t];
        else
            plan->tasks[to++] = plan->tasks[t];
    memcpy(plan->tasks + to, rest, count * sizeof *rest);
}

yoke_status
yki_plan_hasten(yki_plan *plan)
{
    bool *awaited, *first;
    yki_task *rest;
    yoke_status status = YOKE_OK;

    if (!yki_plan_hastens(plan))
        return YOKE_OK;
    awaited = yki_alloc(plan->value_count, sizeof *awaited, "a plan's values");
    first = yki_alloc(plan->task_count, sizeof *first, "a plan's tasks");
    rest = yki_alloc(plan->task_count, sizeof *rest, "a plan's tasks");
    if (!awaited || !first || !rest) {
        status = YOKE_ERROR_OUT_OF_MEMORY;
    } else {
        mark_leaving(plan, awaited);
        mark_tasks(plan, awaited, first);
        move(plan, first, rest);
        plan->hastened = true;
    }
    yki_free(awaited);
    yki_free(first);
    yki_free(rest);
    return status;
}

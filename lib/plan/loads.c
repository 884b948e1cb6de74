/* SPDX-License-Identifier: Apache-2.0
 *
 * loads.c - what each node of a graph costs a device in training: time, and memory. It is read off
 * the decisions of a plan, which is not packed and has no buffers.
 */
#include "plan/plan.h"

/* Bytes of a task's operands and scratch: what it needs while it runs. */
static uint64_t
working_of(const yki_plan *plan, const yki_task *task)
{
    const yki_extents max = yki_task_extents(task, plan->options.max);
    uint64_t bytes = 0;

    for (uint32_t s = 0; s < yki_problem_operands(&task->problem); s++)
        if (plan->values[yki_value_root(plan, task->slots[s])].storage == YKI_STORE_ARENA)
            bytes += plan->values[task->slots[s]].size;
    for (uint32_t s = yki_problem_operands(&task->problem); s < task->recipe.slot_count; s++)
        if (task->recipe.slots[s].kind != YKI_SLOT_PREPARED)
            bytes += (uint64_t)yki_expr_value(task->recipe.slots[s].bytes, max);
    return bytes;
}

/* Bytes of its packed weights. */
static uint64_t
prepared_of(const yki_plan *plan, const yki_task *task)
{
    const yki_extents max = yki_task_extents(task, plan->options.max);
    uint64_t bytes = 0;

    for (uint32_t s = yki_problem_operands(&task->problem); s < task->recipe.slot_count; s++)
        if (task->recipe.slots[s].kind == YKI_SLOT_PREPARED)
            bytes += (uint64_t)yki_expr_value(task->recipe.slots[s].bytes, max);
    return bytes;
}

/* Adds the values that forward makes and backward reads to the nodes that make them. */
static yoke_status
add_kept(const yki_plan *plan, yki_load *loads)
{
    const yoke_node **made_by = yki_alloc(plan->value_count, sizeof *made_by, "values that stay");
    const yoke_node *node = NULL;

    if (!made_by)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        node = task->node ? task->node : node;
        for (uint32_t s = 0; s < yki_problem_operands(&task->problem) && task->solver; s++) {
            const int32_t root = yki_value_root(plan, task->slots[s]);
            const yki_value *value = &plan->values[root];

            if (value->storage == YKI_STORE_LENT || value->storage == YKI_STORE_INPUT || !node)
                continue;
            if (task->section == YKI_FORWARD && s >= task->problem.input_count) {
                made_by[root] = node;
            } else if (made_by[root] && (task->section == YKI_BACKWARD)) {
                loads[made_by[root]->id].kept += yki_plan_aligned(plan, value->size);
                made_by[root] = NULL;
            }
        }
    }
    yki_free(made_by);
    return YOKE_OK;
}

yoke_status
yki_plan_count_loads(const yki_plan *plan, yki_load *loads, bool *measured)
{
    double *seconds = yki_alloc(plan->task_count, sizeof *seconds, "times of tasks");
    const bool repacks = yki_plan_repacks(plan);
    const yoke_node *node = NULL;

    if (!seconds)
        return YOKE_ERROR_OUT_OF_MEMORY;
    *measured = yki_plan_find_seconds(plan, seconds);
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];
        uint64_t working, prepared;
        yki_load *load;

        node = task->node ? task->node : node;
        if (!node)
            continue;
        load = &loads[node->id];
        load->seconds += seconds[t];
        working = working_of(plan, task);
        prepared = prepared_of(plan, task);
        load->packed += repacks ? 0 : prepared;
        load->working = YKI_MAX(load->working, working + (repacks ? prepared : 0));
        if (task->section == YKI_FORWARD) {
            load->forward = YKI_MAX(load->forward, working);
            load->prepared += prepared;
        }
        for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++)
            if (plan->values[task->slots[s]].node)
                loads[plan->values[task->slots[s]].node->id].there = true;
    }
    yki_free(seconds);
    return add_kept(plan, loads);
}

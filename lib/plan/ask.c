/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.c - runs of a plan that compute only some results. A prediction has no target, so the
 * loss, which would read it, is not run.
 *
 * Such a run leaves tasks out. Memory and arguments stay as they are: a value is written before
 * it is read, whatever else runs. Plans for training always run whole.
 */
#include <string.h>

#include "plan/plan.h"

/* Marks the nodes that the asked nodes are computed from. */
static void
mark_nodes(const yki_plan *plan, bool *asked)
{
    const yoke_graph *graph = plan->weights->graph;

    for (size_t i = plan->node_count; i-- > 0;) {
        yoke_node *inputs[YKI_MAX_INPUTS];
        const yki_op *op;
        uint32_t count;

        if (!asked[i])
            continue;
        count = yki_effective(graph->nodes[i], plan->options.training, &op, inputs);
        for (uint32_t k = 0; k < count; k++)
            asked[inputs[k]->id] = true;
    }
}

/* Marks a value, and the values whose memory it uses. */
static void
mark_value(const yki_plan *plan, bool *wanted, int32_t value)
{
    for (; value >= 0; value = plan->values[value].alias)
        wanted[value] = true;
}

/* Goes from the last task to the first, and leaves out each that writes no wanted value. */
static void
mark_tasks(yki_plan *plan, bool *wanted)
{
    for (size_t i = 0; i < plan->node_count; i++)
        if (plan->asked.nodes[i])
            mark_value(plan, wanted, plan->node_value[i]);
    for (size_t t = plan->task_count; t-- > 0;) {
        const yki_task *task = &plan->tasks[t];
        uint32_t inputs = task->problem.input_count;

        plan->asked.skips[t] = true;
        for (uint32_t s = inputs; s < yki_problem_operands(&task->problem); s++)
            plan->asked.skips[t] &= !wanted[task->slots[s]];
        for (uint32_t s = 0; s < inputs && !plan->asked.skips[t]; s++)
            mark_value(plan, wanted, task->slots[s]);
    }
}

yoke_status
yki_plan_ask(yki_plan *plan, const yoke_node *const *nodes, size_t count)
{
    bool *wanted;

    plan->asked.some = false;
    if (count == 0)
        return YOKE_OK;
    if (!plan->asked.skips)
        plan->asked.skips =
            yki_alloc(plan->task_count, sizeof *plan->asked.skips, "a plan's tasks");
    if (!plan->asked.nodes)
        plan->asked.nodes =
            yki_alloc(plan->node_count, sizeof *plan->asked.nodes, "a plan's nodes");
    wanted = yki_alloc(plan->value_count, sizeof *wanted, "a plan's values");
    if (!plan->asked.skips || !plan->asked.nodes || !wanted) {
        yki_free(wanted);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    memset(plan->asked.nodes, 0, plan->node_count * sizeof *plan->asked.nodes);
    for (size_t i = 0; i < count; i++)
        plan->asked.nodes[nodes[i]->id] = true;
    mark_nodes(plan, plan->asked.nodes);
    mark_tasks(plan, wanted);
    yki_free(wanted);
    plan->asked.some = true;
    return YOKE_OK;
}

bool
yki_plan_is_asked(const yki_plan *plan, const yoke_node *node)
{
    return !plan->asked.some || (node->id < plan->node_count && plan->asked.nodes[node->id]);
}

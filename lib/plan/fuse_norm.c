/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_norm.c - joins the gradient of relu with the gradient of the batch norm before it.
 *
 * relu's gradient passes dy on where y was above 0. The gradient of the batch norm reads x
 * anyway and can compute y = relu(normalised x) again from it. The same arithmetic finds the
 * same sign. So a pass that reads y and dy and writes dy is gone. (With a shortcut between the
 * two, y does not follow from x alone.)
 */
#include <string.h>

#include "plan/fuse.h"

/* The two tasks that read the gate's result are looked for this far behind it. */
enum { NEAR = 8 };

/* Returns the batch norm whose result relu turns into y; NULL if y is something else. */
static const yoke_node *
normalisation_under(const yki_plan *plan, int32_t y)
{
    const yoke_node *relu = plan->values[y].node;

    if (!relu || relu->op != &yki_op_unary ||
        yki_unary_attrs_get(&relu->attrs).kind != YKI_UNARY_RELU ||
        relu->inputs[0]->op != &yki_op_bn_apply)
        return NULL;
    return relu->inputs[0];
}

/* Returns whether the task is the operator `op` on x, dy and the statistics of this batch norm. */
static bool
belongs_to(const yki_fusion *f, const yki_task *task, const yki_op *op, const yoke_node *norm,
           int32_t dy)
{
    const int32_t *value = f->plan->node_value;

    return task->problem.op == op && !task->dropped && task->section == YKI_BACKWARD &&
           task->slots[0] == value[norm->inputs[0]->id] && task->slots[1] == dy &&
           task->slots[2] == value[norm->inputs[1]->id];
}

/* Returns the task as it is with dy taken behind relu. It gets those of gamma and beta that it does
 * not read yet: `parameters` of them, if the batch norm has them. */
static yki_task
gated(const yki_fusion *f, const yki_task *task, const yoke_node *norm, int32_t dy,
      uint32_t parameters)
{
    yki_task joined = *task;
    yki_bn_attrs attrs = yki_bn_attrs_get(&task->problem.attrs);
    uint32_t *count = &joined.problem.input_count;
    int32_t result = yki_task_result(task);

    attrs.act = YKI_BN_RELU;
    yki_bn_attrs_set(&joined.problem.attrs, &attrs);
    joined.slots[1] = dy;
    for (uint32_t i = 4 - parameters; i < 4 && norm->input_count == 4; i++) {
        joined.slots[*count] = f->plan->node_value[norm->inputs[i]->id];
        joined.problem.in[*count] = f->plan->values[joined.slots[*count]].operand;
        ++*count;
    }
    joined.slots[*count] = result;
    return joined;
}

bool
yki_fuse_normalised_gate(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task gate = plan->tasks[index], sums, grad;
    size_t end = YKI_MIN(index + NEAR, plan->task_count), at = index + 1, last;
    const yoke_node *norm;
    yki_readers readers;

    if (!yki_is_relu_gradient(&gate) || gate.section != YKI_BACKWARD)
        return false;
    norm = normalisation_under(plan, gate.slots[0]);
    readers = f->readers[yki_task_result(&gate)];
    if (!norm || readers.count != 2 ||
        plan->values[yki_task_result(&gate)].storage != YKI_STORE_ARENA)
        return false;
    while (at < end &&
           !belongs_to(f, &plan->tasks[at], &yki_op_bn_grad_stats, norm, yki_task_result(&gate)))
        at++;
    last = (size_t)readers.sum - at;
    if (at == end || last >= plan->task_count ||
        !belongs_to(f, &plan->tasks[last], &yki_op_bn_grad, norm, yki_task_result(&gate)))
        return false;
    sums = gated(f, &plan->tasks[at], norm, gate.slots[1], 2);
    grad = gated(f, &plan->tasks[last], norm, gate.slots[1], 1);
    if (!yki_fusion_solvable(f, &sums.problem) || !yki_fusion_solvable(f, &grad.problem))
        return false;
    if (gate.node)
        plan->node_value[gate.node->id] = -1;
    yki_fusion_drop(f, index);
    yki_fusion_replace(f, at, &sums);
    yki_fusion_replace(f, last, &grad);
    return true;
}

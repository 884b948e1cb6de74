/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_linear_loss.c - joins a dense layer's cross-entropy with its gradients: the loss
 * has each chunk's logits, and gives the gradients as further results.
 */
#include "plan/fuse.h"

static bool
same_operands(const yki_task *a, const yki_task *b)
{
    return a->slots[0] == b->slots[0] && a->slots[1] == b->slots[1] && a->slots[2] == b->slots[2];
}

bool
yki_fuse_linear_loss(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task joined = plan->tasks[index];
    yki_linear_loss_attrs attrs = yki_linear_loss_attrs_get(&joined.problem.attrs);
    size_t gradients[2];
    uint32_t count = 0;

    if (joined.problem.op != &yki_op_linear_loss || attrs.dx || attrs.dw)
        return false;
    /* The gradient by the input comes first among the results. */
    for (int by_weight = 0; by_weight < 2; by_weight++)
        for (size_t t = index + 1; t < plan->task_count; t++) {
            const yki_task *task = &plan->tasks[t];
            yki_linear_loss_attrs a;

            f->plan->work++;
            if (task->dropped || task->problem.op != &yki_op_linear_loss_grad ||
                !same_operands(task, &joined))
                continue;
            a = yki_linear_loss_attrs_get(&task->problem.attrs);
            if (a.dw != by_weight || count == 2)
                continue;
            attrs.dx |= a.dx;
            attrs.dw |= a.dw;
            attrs.scaled |= a.scaled;
            gradients[count++] = t;
            joined.slots[yki_problem_operands(&joined.problem)] = yki_task_result(task);
            joined.problem.extra[joined.problem.extra_count++] = task->problem.out;
            break;
        }
    yki_linear_loss_attrs_set(&joined.problem.attrs, &attrs);
    if (count == 0 || !yki_fusion_solvable(f, &joined.problem))
        return false;
    for (uint32_t i = 0; i < count; i++)
        yki_fusion_drop(f, gradients[i]);
    yki_fusion_replace(f, index, &joined);
    return true;
}

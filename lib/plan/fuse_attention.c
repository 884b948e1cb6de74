/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_attention.c - joins attention with the logarithms of its sums, which backward needs:
 * forward has them anyway.
 */
#include "plan/fuse.h"

/* Returns the position of the task of a node, which stands before `end`. Tasks are in the order of
 * their nodes. -1: it is not there. */
static int32_t
find_task(const yki_fusion *f, const yoke_node *node, size_t end)
{
    size_t low = 0, high = end;

    while (low < high) {
        size_t middle = (low + high) / 2, at = middle;

        f->plan->work++;
        while (at > low && !f->plan->tasks[at].node)
            at--;
        if (f->plan->tasks[at].node && f->plan->tasks[at].node->id >= node->id)
            high = at;
        else
            low = middle + 1;
    }
    return low < end && f->plan->tasks[low].node == node ? (int32_t)low : -1;
}

/* The logarithms have one reader, the gradient, which also reads the result. */
bool
yki_fuse_attention(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    const yki_task *lse = &plan->tasks[index], *gradient;
    yki_attention_attrs attrs;
    yki_task joined;
    int32_t reader, at;
    uint32_t result;

    if (lse->problem.op != &yki_op_attention_lse)
        return false;
    reader = yki_fusion_only_reader(f, yki_task_result(lse));
    if (reader < 0)
        return false;
    gradient = &plan->tasks[reader];
    if (!plan->values[gradient->slots[1]].node)
        return false;
    at = find_task(f, plan->values[gradient->slots[1]].node, index);
    if (at < 0 || plan->tasks[at].dropped || plan->tasks[at].problem.op != &yki_op_attention ||
        plan->tasks[at].slots[0] != lse->slots[0])
        return false;
    joined = plan->tasks[at];
    attrs = yki_attention_attrs_get(&joined.problem.attrs);
    attrs.lse = 1;
    yki_attention_attrs_set(&joined.problem.attrs, &attrs);
    result = yki_problem_operands(&joined.problem);
    joined.slots[result] = yki_task_result(lse);
    joined.problem.extra[joined.problem.extra_count++] = lse->problem.out;
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    yki_fusion_drop(f, index);
    yki_fusion_replace(f, (size_t)at, &joined);
    return true;
}

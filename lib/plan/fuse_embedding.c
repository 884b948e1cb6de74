/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_embedding.c - where the table of an embedding has another gradient, as of a head
 * that is the same table, the embedding adds its rows to that one instead of making a
 * table of its own, which is mostly zeros and must then be added.
 *
 * The other gradient is written straight to where the sum belongs, so it is not copied.
 */
#include "plan/fuse.h"

bool
yki_fuse_embedding(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task joined = plan->tasks[index];
    int32_t own = yki_task_result(&joined), reader, other;
    const yki_task *sum;

    if (joined.problem.op != &yki_op_embedding_grad || joined.problem.input_count != 2)
        return false;
    reader = yki_fusion_only_reader(f, own);
    if (reader < 0)
        return false;
    sum = &plan->tasks[reader];
    other = sum->slots[sum->slots[0] == own];
    if (!yki_is_plain_sum(sum) || sum->section != joined.section ||
        yki_fusion_only_reader(f, other) != reader)
        return false;
    joined.problem.in[2] = sum->problem.out;
    joined.problem.input_count = 3;
    joined.slots[2] = other;
    joined.slots[3] = yki_task_result(sum);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    /* Its bucket stays the sum's alone: it is not complete before that. */
    if (plan->values[joined.slots[3]].storage == YKI_STORE_LENT) {
        plan->values[other].storage = YKI_STORE_LENT;
        plan->values[other].buffer = plan->values[joined.slots[3]].buffer;
        plan->values[other].within = plan->values[joined.slots[3]].within;
        plan->values[other].offset = plan->values[joined.slots[3]].offset;
    }
    if (joined.node)
        plan->node_value[joined.node->id] = -1;
    yki_fusion_drop(f, index);
    yki_fusion_replace(f, (size_t)reader, &joined);
    return true;
}

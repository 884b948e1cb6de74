/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_matmul.c - backward through dense layers in few launches. The gradient of relu joins the
 * product whose result it gates, the gradient of a bias joins that of the weight, and the two
 * products of a small layer become one task.
 *
 * Tasks whose operands do not depend on one another are joined in the place of the earlier one.
 * So what the later one reads must be there by then: values of forward.
 */
#include <string.h>

#include "plan/fuse.h"

/* FLOPs. Products with more work than this are worth a launch, and a solver, of their own. */
static const double PAIR_FLOPS = 2e7;

static yki_matmul_attrs
matmul_attrs(const yki_task *task)
{
    yki_matmul_attrs attrs = {0};

    if (task->problem.op == &yki_op_matmul)
        attrs = yki_matmul_attrs_get(&task->problem.attrs);
    return attrs;
}

bool
yki_fuse_gate(yki_fusion *f, size_t index)
{
    const yki_task *task = &f->plan->tasks[index], *gate;
    yki_matmul_attrs attrs = matmul_attrs(task);
    yki_task joined = *task;
    int32_t reader;

    if (task->problem.op != &yki_op_matmul || task->section != YKI_BACKWARD || attrs.act ||
        attrs.bias || attrs.sums)
        return false;
    reader = yki_fusion_only_reader(f, yki_task_result(task));
    if (reader < 0)
        return false;
    gate = &f->plan->tasks[reader];
    if (!yki_is_relu_gradient(gate) || gate->section != task->section ||
        gate->slots[1] != yki_task_result(task) || !yki_is_of_forward(f->plan, gate->slots[0]) ||
        gate->problem.out.type != task->problem.out.type)
        return false;
    attrs.act = YKI_MATMUL_GATE;
    yki_matmul_attrs_set(&joined.problem.attrs, &attrs);
    joined.problem.in[2] = gate->problem.in[0];
    joined.problem.input_count = 3;
    joined.slots[2] = gate->slots[0];
    joined.slots[3] = yki_task_result(gate);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    if (task->node)
        f->plan->node_value[task->node->id] = -1;
    yki_fusion_drop(f, (size_t)reader);
    yki_fusion_replace(f, index, &joined);
    return true;
}

static bool
sums_same_rows(const yki_fusion *f, const yki_task *task, const yki_task *other)
{
    (void)f;
    return other->problem.op == &yki_op_sum_rows && other->slots[0] == task->slots[0];
}

bool
yki_fuse_sums(yki_fusion *f, size_t index)
{
    const yki_task *task = &f->plan->tasks[index];
    yki_matmul_attrs attrs = matmul_attrs(task);
    yki_task joined = *task;
    size_t sums;

    if (!attrs.sum_batch || !attrs.transpose_a || attrs.sums || task->problem.input_count != 2)
        return false;
    sums = yki_fusion_find_near(f, index, sums_same_rows);
    if (sums == 0)
        return false;
    attrs.sums = 1;
    yki_matmul_attrs_set(&joined.problem.attrs, &attrs);
    joined.problem.extra_count = 1;
    joined.problem.extra[0] = f->plan->tasks[sums].problem.out;
    joined.slots[3] = yki_task_result(&f->plan->tasks[sums]);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    yki_fusion_drop(f, sums);
    yki_fusion_replace(f, index, &joined);
    return true;
}

static double
flops_of(const yki_task *task)
{
    return task->node && task->node->op->flops
               ? task->node->op->flops(task->node) * (double)task->problem.max.batch
               : 0;
}

/* Returns whether one task may compute both nodes, as one solver rounds all operands or none. A
 * survey keeps them apart: other devices may have a task for each, and must know its costs. */
static bool
are_of_one_class(const yki_plan *plan, const yki_task *task, const yki_task *other)
{
    if (!task->rounds || !other->rounds || !yki_plan_agrees(plan))
        return task->rounds == other->rounds;
    return !plan->costs && yki_agreed_class(&plan->options, task->node) ==
                               yki_agreed_class(&plan->options, other->node);
}

/* Returns whether the other task is the other gradient of the same layer: it reads the same dy, and
 * besides that only values of forward. */
static bool
is_other_half(const yki_fusion *f, const yki_task *task, const yki_task *other)
{
    if (other->problem.op != &yki_op_matmul || other->slots[0] != task->slots[0] ||
        !are_of_one_class(f->plan, task, other) || matmul_attrs(other).bias ||
        flops_of(task) + flops_of(other) > PAIR_FLOPS)
        return false;
    for (uint32_t k = 1; k < other->problem.input_count; k++)
        if (!yki_is_of_forward(f->plan, other->slots[k]))
            return false;
    return true;
}

static void
copy_operands(yki_task *joined, const yki_task *from, uint32_t input, uint32_t result)
{
    const yki_problem *p = &from->problem;

    for (uint32_t k = 0; k < p->input_count; k++) {
        joined->problem.in[input + k] = p->in[k];
        joined->slots[input + k] = from->slots[k];
    }
    for (uint32_t s = p->input_count; s < yki_problem_operands(p); s++, result++) {
        joined->slots[result] = from->slots[s];
        if (result == joined->problem.input_count)
            joined->problem.out = *yki_problem_operand(p, s);
        else
            joined->problem.extra[result - joined->problem.input_count - 1] =
                *yki_problem_operand(p, s);
    }
}

bool
yki_fuse_pair(yki_fusion *f, size_t index)
{
    const yki_task *task = &f->plan->tasks[index], *other;
    yki_task joined = *task;
    yki_matmul_pair_attrs attrs;
    size_t partner;

    if (task->problem.op != &yki_op_matmul || task->section != YKI_BACKWARD ||
        matmul_attrs(task).bias)
        return false;
    partner = yki_fusion_find_near(f, index, is_other_half);
    if (partner == 0)
        return false;
    other = &f->plan->tasks[partner];
    if (task->problem.input_count + other->problem.input_count > YKI_MAX_INPUTS)
        return false;
    attrs = (yki_matmul_pair_attrs){{matmul_attrs(task), matmul_attrs(other)}};
    joined.problem.op = &yki_op_matmul_pair;
    yki_matmul_pair_attrs_set(&joined.problem.attrs, &attrs);
    joined.problem.input_count = task->problem.input_count + other->problem.input_count;
    joined.problem.extra_count = 1 + task->problem.extra_count + other->problem.extra_count;
    copy_operands(&joined, task, 0, joined.problem.input_count);
    copy_operands(&joined, other, task->problem.input_count,
                  joined.problem.input_count + 1 + task->problem.extra_count);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    yki_fusion_drop(f, partner);
    yki_fusion_replace(f, index, &joined);
    return true;
}

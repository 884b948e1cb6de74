/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_norm.c - joins the gradient of relu with the gradient of the batch norm before it, and the
 * statistics of a batch norm with their use.
 *
 * relu's gradient passes dy on where y was above 0. The gradient of the batch norm reads x
 * anyway and can compute y = relu(normalised x) again from it. The same arithmetic finds the
 * same sign. So a pass that reads y and dy and writes dy is gone. (With a shortcut between the
 * two, y does not follow from x alone.)
 *
 * Statistics and their use become one operator where a device has a solver for it: the pass that
 * uses partial statistics adds them up itself. In a team they stay apart, because the statistics
 * of all devices are merged between the two.
 *
 * The gradients of a layer norm by its input and by its parameters become one operator in the same
 * way: both compute the mean and the deviation of each row.
 */
#include <string.h>

#include "plan/fuse.h"

/* The two tasks that read the gate's result are looked for this far behind it. */
enum { NEAR = 8, MOST_APART = 24 /* statistics and their use */ };

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

/* ---- statistics and their use ---- */

static bool
reads(const yki_task *task, int32_t value)
{
    for (uint32_t k = 0; k < task->problem.input_count; k++)
        if (task->slots[k] == value)
            return true;
    return false;
}

/* Returns the task before `index` that computes `value`, if it is this operator, is near, and no
 * task reads the value before `index`, except operator `except`; else -1. */
static int64_t
producer_near(const yki_fusion *f, size_t index, int32_t value, const yki_op *op,
              const yki_op *except)
{
    for (size_t t = index; t > 0 && t + MOST_APART > index; t--) {
        const yki_task *task = &f->plan->tasks[t - 1];

        f->plan->work++;
        if (task->dropped)
            continue;
        if (yki_task_result(task) == value)
            return task->problem.op == op ? (int64_t)t - 1 : -1;
        if (reads(task, value) && task->problem.op != except)
            return -1;
    }
    return -1;
}

/* Removes an input. */
static void
remove_input(yki_task *task, uint32_t at)
{
    yki_problem *p = &task->problem;

    for (uint32_t k = at; k < p->input_count; k++)
        task->slots[k] = task->slots[k + 1]; /* the result too */
    for (uint32_t k = at; k + 1 < p->input_count; k++)
        p->in[k] = p->in[k + 1];
    p->input_count--;
}

static void
add_result(yki_fusion *f, yki_task *task, int32_t value)
{
    task->slots[yki_problem_operands(&task->problem)] = value;
    task->problem.extra[task->problem.extra_count++] = f->plan->values[value].operand;
}

bool
yki_fuse_statistics(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task joined = plan->tasks[index];
    int32_t statistics = joined.slots[1];
    int64_t at;

    if (joined.problem.op != &yki_op_bn_apply || joined.section != YKI_FORWARD ||
        plan->options.small) /* which computes the normalised values again (recompute.c) */
        return false;
    at = producer_near(f, index, statistics, &yki_op_bn_stats, NULL);
    if (at < 0 || plan->tasks[at].slots[0] != joined.slots[0])
        return false;
    joined.problem.op = &yki_op_bn_layer;
    remove_input(&joined, 1);
    add_result(f, &joined, statistics);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    yki_fusion_drop(f, (size_t)at);
    yki_fusion_replace(f, index, &joined);
    return true;
}

/* Finds the two tasks that take the rows of `sums`, from task `first` on. Returns false unless they
 * and so many others are all its readers. */
static bool
find_rows(const yki_fusion *f, size_t first, int32_t sums, int64_t others, size_t rows[2])
{
    const yki_plan *plan = f->plan;
    int found = 0;

    if (plan->values[sums].storage != YKI_STORE_ARENA || f->readers[sums].count != 2 + others)
        return false;
    for (size_t t = first; t < YKI_MIN(first + 2 * (size_t)MOST_APART, plan->task_count); t++) {
        const yki_task *task = &plan->tasks[t];

        f->plan->work++;
        if (task->dropped || task->problem.op != &yki_op_row || task->slots[0] != sums)
            continue;
        rows[yki_row_attrs_get(&task->problem.attrs).row] = t;
        found++;
    }
    return found == 2;
}

bool
yki_fuse_gradient_sums(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task joined = plan->tasks[index];
    int32_t sums = joined.slots[3];
    const yki_task *stats;
    size_t rows[2] = {0, 0};
    bool with_rows;
    int64_t at;

    if (joined.problem.op != &yki_op_bn_grad)
        return false;
    at = producer_near(f, index, sums, &yki_op_bn_grad_stats, &yki_op_row);
    if (at < 0)
        return false;
    stats = &plan->tasks[at];
    if (memcmp(stats->slots, joined.slots, 3 * sizeof *stats->slots) != 0 ||
        yki_bn_attrs_get(&stats->problem.attrs).act != yki_bn_attrs_get(&joined.problem.attrs).act)
        return false;
    with_rows = find_rows(f, (size_t)at, sums, 1, rows);
    if (!with_rows && producer_near(f, index, sums, &yki_op_bn_grad_stats, NULL) < 0)
        return false;
    joined.problem.op = &yki_op_bn_layer_grad;
    remove_input(&joined, 3);
    for (int i = 0; i < 2 && with_rows; i++)
        add_result(f, &joined, yki_task_result(&plan->tasks[rows[i]]));
    if (!with_rows)
        add_result(f, &joined, sums);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    for (int i = 0; i < 2 && with_rows; i++)
        yki_fusion_drop(f, rows[i]);
    yki_fusion_drop(f, (size_t)at);
    yki_fusion_replace(f, index, &joined);
    return true;
}

/* ---- the gradients of a layer norm ---- */

/* Returns whether `params` gives the gradients of the parameters of the layer norm whose gradient
 * by the input is `grad`. */
static bool
of_one_layer_norm(const yki_fusion *f, const yki_task *grad, const yki_task *params)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&grad->problem.attrs);
    yki_ln_attrs b;

    (void)f;
    if (params->problem.op != &yki_op_layer_norm_grad_params)
        return false;
    b = yki_ln_attrs_get(&params->problem.attrs);
    return memcmp(&a, &b, sizeof a) == 0 &&
           memcmp(params->slots, grad->slots, 2 * sizeof *grad->slots) == 0 &&
           params->problem.rows == grad->problem.rows;
}

bool
yki_fuse_layer_norm(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task joined = plan->tasks[index];
    size_t params, rows[2] = {0, 0};
    bool rms;
    int32_t sums;

    if (joined.problem.op != &yki_op_layer_norm_grad || joined.problem.input_count != 3)
        return false;
    params = yki_fusion_find_near(f, index, of_one_layer_norm);
    if (params == 0)
        return false;
    rms = yki_ln_attrs_get(&joined.problem.attrs).rms;
    sums = yki_task_result(&plan->tasks[params]);
    if (!rms && !find_rows(f, params, sums, 0, rows))
        return false;
    joined.problem.op = &yki_op_layer_norm_grads;
    for (int i = 0; i < 2 && !rms; i++)
        add_result(f, &joined, yki_task_result(&plan->tasks[rows[i]]));
    if (rms)
        add_result(f, &joined, sums);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    for (int i = 0; i < 2 && !rms; i++)
        yki_fusion_drop(f, rows[i]);
    yki_fusion_drop(f, params);
    yki_fusion_replace(f, index, &joined);
    return true;
}

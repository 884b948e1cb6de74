/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_loss.c - joins the loss with its sum over the batch, its gradient, and the metrics of
 * the same operands. The result is one task with several results (op/loss/fused_loss.c) in the
 * place of the loss. So the gradient is there before backward begins.
 */
#include <string.h>

#include "plan/fuse.h"

enum { MAX_METRICS = 2 };

typedef struct parts {
    size_t sum; /* of the loss */
    size_t metric[MAX_METRICS], metric_sum[MAX_METRICS];
    int32_t metric_count;
    size_t gradient;
    bool has_gradient;
} parts;

static yki_loss_attrs
attrs_of(const yki_task *task)
{
    return yki_loss_attrs_get(&task->problem.attrs);
}

static bool
same_operands(const yki_task *a, const yki_task *b)
{
    return a->slots[0] == b->slots[0] && a->slots[1] == b->slots[1];
}

/* Returns the task that sums a loss or metric over the batch, if it is the only reader; -1: there
 * is none. */
static int32_t
sum_of(const yki_fusion *f, const yki_task *task)
{
    int32_t reader = yki_fusion_only_reader(f, yki_task_result(task));

    if (reader < 0 || f->plan->tasks[reader].problem.op != &yki_op_batch_sum ||
        f->plan->tasks[reader].section != task->section)
        return -1;
    return reader;
}

/* Returns whether the kernel of this loss can compute the metric too. */
static bool
goes_with(yki_loss_attrs metric, yki_loss_attrs loss)
{
    if (loss.kind == YKI_LOSS_SOFTMAX_CE || loss.kind == YKI_LOSS_CE)
        return metric.kind == YKI_METRIC_ACCURACY || metric.kind == YKI_METRIC_TOP_K;
    return metric.kind == YKI_METRIC_MAE;
}

static void
find_parts(const yki_fusion *f, const yki_task *loss, parts *p)
{
    for (size_t t = 0; t < f->plan->task_count; t++) {
        const yki_task *task = &f->plan->tasks[t];
        int32_t sum;

        f->plan->work++;
        if (task->dropped || task == loss)
            continue;
        if (task->problem.op == &yki_op_loss_grad && same_operands(task, loss) &&
            memcmp(&task->problem.attrs, &loss->problem.attrs, sizeof loss->problem.attrs) == 0) {
            p->gradient = t;
            p->has_gradient = true;
        }
        if (task->problem.op != &yki_op_loss || !same_operands(task, loss) ||
            !goes_with(attrs_of(task), attrs_of(loss)) || p->metric_count == MAX_METRICS)
            continue;
        sum = sum_of(f, task);
        if (sum < 0)
            continue;
        p->metric[p->metric_count] = t;
        p->metric_sum[p->metric_count++] = (size_t)sum;
    }
}

static void
add_result(yki_task *task, const yki_task *from)
{
    yki_problem *p = &task->problem;

    task->slots[yki_problem_operands(p)] = yki_task_result(from);
    p->extra[p->extra_count++] = from->problem.out;
}

bool
yki_fuse_loss(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    const yki_task *loss = &plan->tasks[index];
    yki_task joined = *loss;
    yki_fused_loss_attrs attrs = {.loss = attrs_of(loss)};
    parts p = {0};
    int32_t sum;

    if (loss->problem.op != &yki_op_loss || loss->node != plan->weights->graph->loss ||
        loss->problem.input_count > 2) /* weighted */
        return false;
    sum = sum_of(f, loss);
    if (sum < 0)
        return false;
    p.sum = (size_t)sum;
    find_parts(f, loss, &p);
    attrs.metrics = p.metric_count;
    attrs.gradient = p.has_gradient;
    joined.problem.op = &yki_op_fused_loss;
    joined.problem.out = plan->tasks[p.sum].problem.out;
    joined.slots[2] = yki_task_result(&plan->tasks[p.sum]);
    for (int32_t i = 0; i < p.metric_count; i++) {
        attrs.k[i] = YKI_MAX(attrs_of(&plan->tasks[p.metric[i]]).k, 1);
        add_result(&joined, &plan->tasks[p.metric_sum[i]]);
    }
    if (p.has_gradient)
        add_result(&joined, &plan->tasks[p.gradient]);
    yki_fused_loss_attrs_set(&joined.problem.attrs, &attrs);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    plan->node_value[loss->node->id] = -1;
    yki_fusion_drop(f, p.sum);
    for (int32_t i = 0; i < p.metric_count; i++) {
        plan->node_value[plan->tasks[p.metric[i]].node->id] = -1;
        yki_fusion_drop(f, p.metric[i]);
        yki_fusion_drop(f, p.metric_sum[i]);
    }
    if (p.has_gradient)
        yki_fusion_drop(f, p.gradient);
    yki_fusion_replace(f, index, &joined);
    return true;
}

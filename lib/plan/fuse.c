/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse.c - tasks joined to one where an operator can do the next one's work on its
 * way out.
 *
 * A rule looks at a task and the only task that reads its result; if they fit it
 * changes the first and drops the second. Rules run until none applies, so chains
 * fuse step by step. What another task or the caller still reads is left alone:
 * with gradients taken from results (relu) this costs nothing in training either.
 */
#include <string.h>

#include "plan/fuse.h"

/* Enters what a task reads, or (sign -1) takes it out. */
static void
note_reads(yki_fusion *f, size_t index, int sign)
{
    const yki_task *task = &f->plan->tasks[index];

    f->plan->work++;
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        f->readers[task->slots[k]].count += sign;
        f->readers[task->slots[k]].sum += sign * (int64_t)index;
    }
}

int32_t
yki_fusion_only_reader(const yki_fusion *f, int32_t value)
{
    if (f->plan->values[value].storage != YKI_STORE_ARENA || f->readers[value].count != 1)
        return -1;
    return (int32_t)f->readers[value].sum;
}

void
yki_fusion_drop(yki_fusion *f, size_t index)
{
    note_reads(f, index, -1);
    f->plan->tasks[index].dropped = true;
}

void
yki_fusion_replace(yki_fusion *f, size_t index, const yki_task *task)
{
    note_reads(f, index, -1);
    f->plan->tasks[index] = *task;
    note_reads(f, index, 1);
}

void
yki_fusion_take_over(yki_fusion *f, size_t earlier, size_t later)
{
    yki_task *task = &f->plan->tasks[earlier];

    task->slots[task->problem.input_count] = yki_task_result(&f->plan->tasks[later]);
    if (task->node)
        f->plan->node_value[task->node->id] = -1;
    yki_fusion_drop(f, later);
}

bool
yki_fusion_solvable(const yki_fusion *f, const yki_problem *problem)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(f->plan->queue));

    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == problem->op && yki_solver_suits(*s, problem, traits))
            return true;
    return false;
}

bool
yki_is_relu_gradient(const yki_task *task)
{
    yki_unary_attrs attrs;

    memcpy(&attrs, task->problem.attrs.bytes, sizeof attrs);
    return task->problem.op == &yki_op_unary_grad && attrs.kind == YKI_UNARY_RELU;
}

/* ---- rules ---- */

static bool
is_relu(const yki_task *task)
{
    return task->problem.op == &yki_op_unary &&
           ((const yki_unary_attrs *)task->problem.attrs.bytes)->kind == YKI_UNARY_RELU;
}

/* The place of an operator's activation among its attributes, if it has one. */
static int32_t *
activation_of(yki_problem *problem)
{
    if (problem->op == &yki_op_conv2d || problem->op == &yki_op_conv2d_grad_input)
        return &((yki_conv_attrs *)problem->attrs.bytes)->act;
    if (problem->op == &yki_op_matmul)
        return &((yki_matmul_attrs *)problem->attrs.bytes)->act;
    if (problem->op == &yki_op_bn_apply)
        return &((yki_bn_attrs *)problem->attrs.bytes)->act;
    return NULL;
}

/* relu after a product or a convolution: in its epilogue. */
static bool
fuse_activation(yki_fusion *f, size_t index)
{
    yki_task *task = &f->plan->tasks[index];
    int32_t *act = activation_of(&task->problem);
    int32_t reader;

    if (!act || *act)
        return false;
    reader = yki_fusion_only_reader(f, yki_task_result(task));
    if (reader < 0 || !is_relu(&f->plan->tasks[reader]) ||
        f->plan->tasks[reader].section != task->section)
        return false;
    *act = 1;
    yki_fusion_take_over(f, index, (size_t)reader);
    return true;
}

static bool
is_plain_sum(const yki_task *task)
{
    const yki_problem *p = &task->problem;

    return p->op == &yki_op_binary &&
           ((const yki_binary_attrs *)p->attrs.bytes)->kind == YKI_BINARY_ADD &&
           yki_shape_equal(p->in[0].shape, p->in[1].shape) && p->in[0].batched == p->in[1].batched;
}

/* A sum after a batch norm: a shortcut. The joined task stands where the sum did, since the
 * other term may be computed between the two. */
static bool
fuse_residual(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task joined = plan->tasks[index];
    uint32_t count = joined.problem.input_count, other;
    const yki_task *sum;
    yki_bn_attrs attrs;
    int32_t reader;

    memcpy(&attrs, joined.problem.attrs.bytes, sizeof attrs);
    if (joined.problem.op != &yki_op_bn_apply || attrs.residual || attrs.act ||
        count == YKI_MAX_INPUTS)
        return false;
    reader = yki_fusion_only_reader(f, joined.slots[count]);
    if (reader < 0 || !is_plain_sum(&plan->tasks[reader]) ||
        plan->tasks[reader].section != joined.section)
        return false;
    sum = &plan->tasks[reader];
    other = sum->slots[0] == joined.slots[count] ? 1 : 0;
    attrs.residual = 1;
    memcpy(joined.problem.attrs.bytes, &attrs, sizeof attrs);
    joined.problem.in[count] = sum->problem.in[other];
    joined.problem.input_count = count + 1;
    joined.slots[count] = sum->slots[other];
    joined.slots[count + 1] = sum->slots[2];
    plan->node_value[joined.node->id] = -1;
    yki_fusion_drop(f, index);
    yki_fusion_replace(f, (size_t)reader, &joined);
    return true;
}

typedef bool (*rule)(yki_fusion *f, size_t index);

static const rule rules[] = {
    fuse_activation,
    fuse_residual,
    yki_fuse_loss,
    yki_fuse_pooled_gate,
    yki_fuse_averaged_gate,
    yki_fuse_normalised_gate,
    yki_fuse_gate,
    yki_fuse_sums,
};
/* When nothing else can be joined any more. */
static const rule last_rules[] = {
    yki_fuse_pair,
};

static void
apply(yki_fusion *f, const rule *list, size_t count)
{
    for (size_t t = 0; t < f->plan->task_count; t++)
        for (size_t r = 0; r < count && !f->plan->tasks[t].dropped;) {
            f->plan->work++;
            r = list[r](f, t) ? 0 : r + 1;
        }
}

static void
remove_dropped(yki_plan *plan)
{
    size_t kept = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        if (!plan->tasks[t].dropped)
            plan->tasks[kept++] = plan->tasks[t];
    plan->task_count = kept;
}

yoke_status
yki_plan_fuse(yki_plan *plan)
{
    yki_fusion f = {.plan = plan};
    yoke_status status;

    if (plan->options.no_fusion)
        return YOKE_OK;
    f.readers = yki_alloc(plan->value_count, sizeof *f.readers, "a plan's readers");
    if (!f.readers)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t t = 0; t < plan->task_count; t++)
        note_reads(&f, t, 1);
    apply(&f, rules, YKI_COUNT(rules));
    apply(&f, last_rules, YKI_COUNT(last_rules));
    status = yki_fuse_running(&f);
    remove_dropped(plan);
    yki_free(f.readers);
    return status;
}

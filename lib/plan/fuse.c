/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse.c - joins tasks where an operator can do the work of the next one before it writes its
 * result.
 *
 * A rule here looks at a task and the only task that reads its result. If they fit, it changes
 * one and drops the other. Rules are tried on a task until none applies, so chains are joined
 * step by step. A result that another task or the caller still reads is left alone. The
 * gradient of relu reads relu's result, so this costs nothing in training either.
 */
#include <string.h>

#include "plan/fuse.h"

/* ---- rules ---- */

static bool
is_relu(const yki_task *task)
{
    return task->problem.op == &yki_op_unary &&
           yki_unary_attrs_get(&task->problem.attrs).kind == YKI_UNARY_RELU;
}

/* Sets the activation of an operator to relu. Returns false if it takes none, or has one. */
static bool
set_relu(yki_problem *problem)
{
#define SET(type, relu)                                                                            \
    do {                                                                                           \
        type attrs = type##_get(&problem->attrs);                                                  \
                                                                                                   \
        if (attrs.act)                                                                             \
            return false;                                                                          \
        attrs.act = relu;                                                                          \
        type##_set(&problem->attrs, &attrs);                                                       \
        return true;                                                                               \
    } while (0)

    if (problem->op == &yki_op_conv2d || problem->op == &yki_op_conv2d_grad_input)
        SET(yki_conv_attrs, YKI_CONV_ACT_RELU);
    if (problem->op == &yki_op_matmul)
        SET(yki_matmul_attrs, YKI_MATMUL_RELU);
    if (problem->op == &yki_op_bn_apply)
        SET(yki_bn_attrs, YKI_BN_RELU);
#undef SET
    return false;
}

/* relu after a product, a convolution or a batch norm: the operator applies it to its result. */
static bool
fuse_activation(yki_fusion *f, size_t index)
{
    yki_task *task = &f->plan->tasks[index];
    yki_problem joined = task->problem;
    int32_t reader;

    if (!set_relu(&joined))
        return false;
    reader = yki_fusion_only_reader(f, yki_task_result(task));
    if (reader < 0 || !is_relu(&f->plan->tasks[reader]) ||
        f->plan->tasks[reader].section != task->section)
        return false;
    task->problem = joined;
    yki_fusion_take_over(f, index, (size_t)reader);
    return true;
}

/* A sum after a batch norm is a shortcut. The joined task takes the place of the sum, because the
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

    attrs = yki_bn_attrs_get(&joined.problem.attrs);
    if (joined.problem.op != &yki_op_bn_apply || attrs.residual || attrs.act ||
        count == YKI_MAX_INPUTS)
        return false;
    reader = yki_fusion_only_reader(f, joined.slots[count]);
    if (reader < 0 || !yki_is_plain_sum(&plan->tasks[reader]) ||
        plan->tasks[reader].section != joined.section)
        return false;
    sum = &plan->tasks[reader];
    other = sum->slots[0] == joined.slots[count] ? 1 : 0;
    attrs.residual = 1;
    yki_bn_attrs_set(&joined.problem.attrs, &attrs);
    joined.problem.in[count] = sum->problem.in[other];
    joined.problem.input_count = count + 1;
    joined.slots[count] = sum->slots[other];
    joined.slots[count + 1] = sum->slots[2];
    plan->node_value[joined.node->id] = -1;
    yki_fusion_drop(f, index);
    yki_fusion_replace(f, (size_t)reader, &joined);
    return true;
}

/* Where two paths meet behind a relu, its gradient adds theirs as it gates them. */
static bool
fuse_gated_sum(yki_fusion *f, size_t index)
{
    const yki_task *sum = &f->plan->tasks[index];
    yki_task joined;
    int32_t reader;

    if (!yki_is_plain_sum(sum) || sum->section != YKI_BACKWARD)
        return false;
    reader = yki_fusion_only_reader(f, yki_task_result(sum));
    if (reader < 0)
        return false;
    joined = f->plan->tasks[reader];
    if (!yki_is_relu_gradient(&joined) || joined.slots[1] != yki_task_result(sum))
        return false;
    joined.problem.input_count = 3;
    joined.slots[3] = yki_task_result(&f->plan->tasks[reader]);
    for (uint32_t k = 0; k < 2; k++) {
        joined.problem.in[1 + k] = sum->problem.in[k];
        joined.slots[1 + k] = sum->slots[k];
    }
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    if (sum->node)
        f->plan->node_value[sum->node->id] = -1;
    yki_fusion_drop(f, index);
    yki_fusion_replace(f, (size_t)reader, &joined);
    return true;
}

typedef bool (*rule)(yki_fusion *f, size_t index);

static const rule rules[] = {
    fuse_activation,      fuse_residual,          yki_fuse_loss,
    yki_fuse_pooled_gate, yki_fuse_averaged_gate, yki_fuse_normalised_gate,
    yki_fuse_gate,        yki_fuse_sums,          yki_fuse_attention,
    yki_fuse_linear_loss, yki_fuse_embedding,
};
/* These run when the other rules can join nothing more. */
static const rule last_rules[] = {
    yki_fuse_pair,
    fuse_gated_sum,
    yki_fuse_pooled,
    yki_fuse_pooled_grad,
};
/* The pairs are complete. */
static const rule loss_rules[] = {
    yki_fuse_dense_loss,
};

/* Only the gradient reads the statistics now, and gates are joined. */
static const rule norm_rules[] = {
    yki_fuse_statistics,
    yki_fuse_gradient_sums,
    yki_fuse_layer_norm,
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

yoke_status
yki_plan_fuse(yki_plan *plan)
{
    yki_fusion f;
    yoke_status status;

    if (plan->options.no_fusion)
        return YOKE_OK;
    YKI_TRY(yki_fusion_begin(&f, plan));
    apply(&f, rules, YKI_COUNT(rules));
    apply(&f, last_rules, YKI_COUNT(last_rules));
    apply(&f, loss_rules, YKI_COUNT(loss_rules));
    status = yki_fuse_running(&f);
    apply(&f, norm_rules, YKI_COUNT(norm_rules));
    yki_fusion_end(&f);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - attention of new rows to what a cache keeps of earlier ones
 * (clkernels/attention_step.cl). Plans that generate have it in place of attention.
 *
 * The cache is a state that the operator itself writes: a copy of all of it each step
 * would cost more than the step. Running it again writes and computes the same.
 */
#include <stdio.h>

#include "op/ops.h"

enum { BLOCK = 64, GROUPS_PER_CORE = 4, MOST_GROUPS = 32768 };

static int64_t
padded_width(const yki_attention_attrs *a)
{
    return (a->width + 15) / 16 * 16;
}

yoke_shape
yki_attention_cache(const yki_attention_attrs *a, int64_t streams, int64_t length)
{
    length = (length + BLOCK - 1) / BLOCK * BLOCK;
    return yoke_shape(streams, a->shared, length, a->width + padded_width(a));
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_attention_attrs a = yki_attention_attrs_get(attrs);

    snprintf(text, size, "%d/%d x %d s%.9g", a.heads, a.shared, a.width, (double)a.scale);
}

static yoke_status
infer(yoke_node *node)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0], *positions = node->inputs[1], *cache = node->inputs[2];
    const yoke_shape shape = yki_whole_shape(x);

    if (shape.rank != 2 || shape.dim[1] != ((int64_t)a.heads + 2 * a.shared) * a.width ||
        positions->type != YOKE_I32 || yki_whole_shape(positions).dim[0] != shape.dim[0] ||
        positions->length != x->length || cache->shape.rank != 4 || cache->batched)
        return yki_fail_bug("a step of attention has other operands");
    yki_node_like(node, x);
    node->shape.dim[node->shape.rank - 1] = (int64_t)a.heads * a.width;
    return YOKE_OK;
}

static double
flops(const yoke_node *node)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);

    return 4.0 * (double)yki_whole_shape(node).dim[0] * (double)node->inputs[2]->shape.dim[2] *
           a.heads * a.width;
}

const yki_op yki_op_attention_step = {
    .name = "attention_step",
    .infer = infer,
    .flops = flops,
    .describe = describe,
    .whole = true,
};

/* ---- the solver ---- */

static void
size_args(yki_recipe *recipe, const yki_problem *problem, const yki_attention_attrs *a)
{
    yki_arg_expr(recipe, "streams", YKI_BATCH);
    yki_arg_int(recipe, "rows", problem->in[0].shape.dim[0]);
    yki_arg_int(recipe, "heads", a->heads);
    yki_arg_int(recipe, "shared", a->shared);
    yki_arg_int(recipe, "length", problem->in[2].shape.dim[2]);
}

static void
grid(yki_launch *launch, const yki_problem *problem, const yki_device_traits *traits,
     uint32_t group, double each)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    yki_expr groups = YKI_PER_SAMPLE(problem->in[0].shape.dim[0] * a.shared);

    groups.max = group == 1 ? (int64_t)traits->compute_units * GROUPS_PER_CORE : MOST_GROUPS;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, group, 1, 1);
    yki_launch_iterations(launch, problem,
                          each * (group == 1 ? 1 : group) *
                              (double)(problem->max.batch * problem->in[0].shape.dim[0]) * a.shared,
                          0);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    uint32_t group = traits->type == YOKE_DEVICE_CPU ? 1 : BLOCK;
    int64_t length = problem->in[2].shape.dim[2];
    double a_row = (double)a.heads / a.shared * (double)length / BLOCK * (a.width + BLOCK + 16.0);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "attention_step.cl", "yki_attention_store", "-DD=%d -DWG=%u",
                               a.width, group);
    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, i);
    size_args(recipe, problem, &a);
    grid(launch, problem, traits, group, a.width + 1);
    launch = yki_recipe_launch(recipe, "attention_step.cl", "yki_attention_step", "-DD=%d -DWG=%u",
                               a.width, group);
    for (uint32_t i = 0; i < 4; i++)
        yki_arg_slot(recipe, i);
    size_args(recipe, problem, &a);
    yki_arg_float(recipe, "scale", a.scale);
    grid(launch, problem, traits, group, a_row);
    if (launch) {
        launch->flops =
            YKI_PER_SAMPLE(4 * problem->in[0].shape.dim[0] * length * a.heads * a.width);
        launch->bytes = YKI_PER_SAMPLE(4 * length * a.shared * (a.width + padded_width(&a)));
    }
    return recipe->status;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_plain_applies(problem, traits) && problem->in[0].batched &&
           (traits->type == YOKE_DEVICE_CPU || traits->max_group >= BLOCK);
}

static const yki_op *const op = &yki_op_attention_step;

const yki_solver yki_solver_attention_step = {
    .name = "attention-step",
    .op = &op,
    .applies = applies,
    .emit = emit,
};

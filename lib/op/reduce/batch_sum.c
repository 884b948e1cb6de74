/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_sum.c - the sum over the samples of a batch, in their order: for losses, for
 * metrics, and for gradients of an operand that serves every sample.
 */
#include "op/flat.h"
#include "op/ops.h"

enum { MAX_GROUPS = 32768 };

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];

    if (!x->batched)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "\"%s\" does not depend on the sample; must be computed from an input",
                        x->name);
    node->type = YOKE_F32;
    node->shape = x->shape;
    node->batched = false;
    return YOKE_OK;
}

static yoke_status
infer_positions(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];

    if (!x->length)
        return yki_fail_bug("\"%s\" is no sequence", x->name);
    node->type = YOKE_F32;
    node->shape = yki_whole_shape(x);
    node->batched = false;
    return YOKE_OK;
}

static yoke_status
infer_counted(yoke_node *node)
{
    node->type = YOKE_F32;
    node->shape = yoke_shape(2);
    node->batched = node->inputs[0]->batched;
    return YOKE_OK;
}

static double
flops(const yoke_node *node)
{
    return (double)yki_shape_count(node->shape);
}

const yki_op yki_op_batch_sum = {
    .name = "batch_sum",
    .infer = infer,
    .flops = flops,
    .takes_losses = true,
};

const yki_op yki_op_position_sum = {
    .name = "position_sum",
    .infer = infer_positions,
    .flops = flops,
    .whole = true,
};

const yki_op yki_op_counted = {
    .name = "counted",
    .infer = infer_counted,
};

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->type == YOKE_DEVICE_CPU && problem->in[0].layout.block == 1;
}

static bool
groups_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->type != YOKE_DEVICE_CPU && problem->in[0].layout.block == 1;
}

static void
cost(yki_launch *launch, int64_t count)
{
    if (!launch)
        return;
    launch->flops = YKI_PER_SAMPLE(count);
    launch->bytes = (yki_expr){.per_sample = 4 * count, .constant = 4 * count};
}

/* A few results, as those of a loss, have 32 work-items each: loss.cl adds in the same order. */
static yoke_status
emit_groups(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    int64_t count = yki_shape_count(problem->out.shape);
    uint32_t items = 256, share;
    yki_launch *launch;

    (void)tuning;
    while (items > traits->max_group)
        items /= 2;
    share = YKI_MIN(count <= 8 ? 32u : 8u, items);
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "reduce_groups.cl", "yki_batch_sum_groups",
                               "-DWG=%u -DSHARE=%u -DACROSS=1", items, share);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_int(recipe, "count", count);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_launch_grid(launch,
                    YKI_CONST(YKI_MIN((count * share + items - 1) / items, (int64_t)MAX_GROUPS)),
                    (yki_expr){0}, (yki_expr){0}, items, 1, 1);
    cost(launch, count);
    return recipe->status;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    int64_t count = yki_shape_count(problem->out.shape);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", "yki_batch_sum", "-DVEC=%u -DWG=1",
                               YKI_MAX(traits->vector_width, 4u));
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_int(recipe, "count", count);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_launch_grid(launch,
                    YKI_CONST(YKI_MIN((count + 63) / 64, (int64_t)traits->compute_units * 8)),
                    (yki_expr){0}, (yki_expr){0}, 1, 1, 1);
    cost(launch, count);
    return recipe->status;
}

static yoke_status
emit_positions(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
               yki_recipe *recipe)
{
    int64_t count = yki_shape_count(problem->out.shape);
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", "yki_position_sum", "-DVEC=%u -DWG=%u",
                               flat.vector, flat.group);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_int(recipe, "count", count);
    yki_arg_expr(recipe, "used", YKI_PER_ROW(count / problem->max.length));
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_flat_grid(launch, &flat, problem);
    if (launch && flat.group > 1)
        launch->groups[0] =
            YKI_CONST(YKI_MIN((count + flat.group - 1) / flat.group, (int64_t)flat.groups));
    cost(launch, count);
    yki_launch_iterations(launch, problem, (double)count * (double)problem->max.batch, 1);
    return recipe->status;
}

static bool
counted_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)traits;
    return problem->in[0].batched && yki_shape_count(problem->in[0].shape) == 1;
}

static yoke_status
emit_counted(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
             yki_recipe *recipe)
{
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", "yki_counted", "-DVEC=%u -DWG=%u", flat.vector,
                               flat.group);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_flat_grid(launch, &flat, problem);
    return recipe->status;
}

static const yki_op *const batch_sum_op = &yki_op_batch_sum;
static const yki_op *const position_sum_op = &yki_op_position_sum;
static const yki_op *const counted_op = &yki_op_counted;

const yki_solver yki_solver_counted = {
    .name = "counted",
    .op = &counted_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = counted_applies,
    .emit = emit_counted,
};

const yki_solver yki_solver_batch_sum = {
    .name = "batch-sum",
    .op = &batch_sum_op,
    .applies = applies,
    .emit = emit,
};

const yki_solver yki_solver_batch_sum_groups = {
    .name = "batch-sum-groups",
    .op = &batch_sum_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = groups_apply,
    .emit = emit_groups,
};

const yki_solver yki_solver_position_sum = {
    .name = "position-sum",
    .op = &position_sum_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = yki_plain_applies,
    .emit = emit_positions,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_sum.c - the sum over the samples of a batch, in their order: for losses, for
 * metrics, and for gradients of an operand that serves every sample.
 */
#include "op/flat.h"
#include "op/ops.h"

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

const yki_op yki_op_counted = {
    .name = "counted",
    .infer = infer_counted,
};

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)traits;
    return problem->in[0].layout.block == 1;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    int64_t count = yki_shape_count(problem->out.shape);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch =
        yki_recipe_launch(recipe, "flat.cl", "yki_batch_sum", "-DVEC=%u -DWG=%u",
                          traits->type == YOKE_DEVICE_CPU ? YKI_MAX(traits->vector_width, 4u) : 4u,
                          traits->type == YOKE_DEVICE_CPU ? 1u : YKI_MIN(traits->max_group, 128u));
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_int(recipe, "count", count);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_launch_grid(launch,
                    YKI_CONST(YKI_MIN((count + 63) / 64, (int64_t)traits->compute_units * 8)),
                    (yki_expr){0}, (yki_expr){0}, 1, 1, 1);
    if (launch) {
        launch->flops = YKI_PER_SAMPLE(count);
        launch->bytes = (yki_expr){4 * count, 4 * count, 1, 0};
    }
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
static const yki_op *const counted_op = &yki_op_counted;

const yki_solver yki_solver_counted = {
    .name = "counted",
    .op = &counted_op,
    .applies = counted_applies,
    .emit = emit_counted,
};

const yki_solver yki_solver_batch_sum = {
    .name = "batch-sum",
    .op = &batch_sum_op,
    .applies = applies,
    .emit = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * loss_scale.c - multiplies the gradient of the loss by the scale of the step, so that what
 * backward makes of it does not become 0 where products are made of halves. Only plans have it
 * (plan/lower.c), behind the operator with which differentiation began. The update takes the scale
 * out again (clkernels/update.cl).
 */
#include "op/flat.h"
#include "op/ops.h"

static yoke_status
infer(yoke_node *node)
{
    yki_node_like(node, node->inputs[0]);
    return YOKE_OK;
}

const yki_op yki_op_loss_scale = {
    .name = "loss_scale",
    .infer = infer,
};

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", "yki_loss_scale", "-DVEC=%u -DWG=%u", flat.vector,
                               flat.group);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_step(recipe);
    yki_arg_expr(recipe, "count", yki_operand_elements(&problem->out));
    yki_flat_grid(launch, &flat, problem);
    yki_flat_cost(launch, problem, 1);
    return recipe->status;
}

static const yki_op *const op = &yki_op_loss_scale;

const yki_solver yki_solver_loss_scale = {
    .name = "loss-scale",
    .op = &op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_flat_applies,
    .layouts = yki_flat_layouts,
    .emit = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * reorder.c - brings a tensor into another layout, or copies it. Only the planner
 * makes these tasks.
 */
#include "op/flat.h"
#include "op/ops.h"

static yoke_status
infer(yoke_node *node)
{
    yki_node_like(node, node->inputs[0]);
    return YOKE_OK;
}

const yki_op yki_op_reorder = {
    .name = "reorder",
    .infer = infer,
    .cheap = true,
};

static bool
copy_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)traits;
    return problem->in[0].layout.block == problem->out.layout.block && problem->out.type != YOKE_U8;
}

static yoke_status
emit_copy(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", "yki_copy_flat", "-DVEC=%u -DWG=%u", flat.vector,
                               flat.group);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "count", yki_operand_elements(&problem->out));
    yki_flat_grid(launch, &flat, problem);
    yki_flat_cost(launch, problem, 0);
    return recipe->status;
}

static bool
reorder_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)traits;
    return problem->out.type != YOKE_U8 && problem->out.shape.rank > 0;
}

/* From plain to blocked and back, and between blocks. */
static bool
reorder_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    static const uint32_t pairs[][2] = {{1, 16}, {16, 1}, {1, 8}, {8, 1}, {4, 1}, {16, 4}};

    (void)traits;
    if (variant >= YKI_COUNT(pairs))
        return false;
    problem->in[0].layout.block = pairs[variant][0];
    problem->out.layout.block = pairs[variant][1];
    return true;
}

static yoke_status
emit_reorder(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
             yki_recipe *recipe)
{
    int64_t channels = problem->out.shape.dim[0], to = problem->out.layout.block;
    yki_expr groups = problem->out.batched ? YKI_PER_SAMPLE((channels + to - 1) / to)
                                           : YKI_CONST((channels + to - 1) / to);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", "yki_reorder", "-DVEC=%u -DWG=%u",
                               yki_flat_for(traits).vector, yki_flat_for(traits).group);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "samples", problem->out.batched ? YKI_BATCH : YKI_CONST(1));
    yki_arg_int(recipe, "channels", channels);
    yki_arg_int(recipe, "rest", yki_shape_count(problem->out.shape) / channels);
    yki_arg_int(recipe, "from", problem->in[0].layout.block);
    yki_arg_int(recipe, "to", to);
    groups.max = traits->compute_units * 8;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, 1, 1, 1);
    yki_flat_cost(launch, problem, 0);
    return recipe->status;
}

static const yki_op *const reorder_op = &yki_op_reorder;

const yki_solver yki_solver_copy = {
    .name = "copy-flat",
    .op = &reorder_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = copy_applies,
    .layouts = yki_flat_layouts,
    .emit = emit_copy,
};

const yki_solver yki_solver_reorder = {
    .name = "reorder",
    .op = &reorder_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = reorder_applies,
    .layouts = reorder_layouts,
    .emit = emit_reorder,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * swiglu_solver.c - the gate of Llama's layers and its gradient; a group takes rows.
 */
#include "op/flat.h"
#include "op/ops.h"

enum { ELEMENTS_PER_GROUP = 4096 };

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    bool is_grad = problem->op == &yki_op_swiglu_grad;
    const yki_operand *x = &problem->in[0];
    int64_t width = x->shape.dim[x->shape.rank - 1] / 2;
    int64_t rows_per_sample = yki_shape_count(x->shape) / (2 * width);
    yki_expr rows = x->batched ? YKI_PER_SAMPLE(rows_per_sample) : YKI_CONST(rows_per_sample);
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;
    yki_expr groups = rows;

    (void)tuning;
    while (width % flat.vector != 0)
        flat.vector = flat.group == 1 ? flat.vector / 2 : 1;
    while (flat.group > 64 && (int64_t)flat.group * flat.vector > width)
        flat.group /= 2;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "swiglu.cl", is_grad ? "yki_swiglu_grad" : "yki_swiglu",
                               "-DVEC=%u -DWG=%u", flat.vector, flat.group);
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, "rows", rows);
    yki_arg_int(recipe, "width", width);
    groups.divisor = YKI_MAX(ELEMENTS_PER_GROUP / width, 1);
    groups.max = flat.groups;
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), flat.group, 1, 1);
    yki_launch_iterations(launch, problem,
                          (double)yki_expr_value(rows, problem->max) *
                              (double)((width / flat.vector + flat.group) + flat.group),
                          2 + width / flat.vector / flat.group);
    yki_flat_cost(launch, problem, is_grad ? 8 : 6);
    return recipe->status;
}

static const yki_op *const swiglu_op = &yki_op_swiglu;
static const yki_op *const swiglu_grad_op = &yki_op_swiglu_grad;

const yki_solver yki_solver_swiglu = {
    .name = "swiglu",
    .op = &swiglu_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_plain_applies,
    .emit = emit,
};

const yki_solver yki_solver_swiglu_grad = {
    .name = "swiglu-grad",
    .op = &swiglu_grad_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_plain_applies,
    .emit = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * unary_solver.c - unary operators and their gradients over flat memory, in one pass.
 * It works in any layout, if all operands have the same one; but functions that are infinite at
 * some numbers take plain tensors alone, as they would make NaN of what padding lanes hold.
 */
#include "op/flat.h"
#include "op/ops.h"

static const char *const kernels[YKI_UNARY_KINDS][2] = {
#define KERNELS(kind, id, name, ...) [YKI_UNARY_##kind] = {"yki_" #name, "yki_" #name "_grad"},
    YKI_UNARY_PLAIN(KERNELS) YKI_UNARY_NUMBER(KERNELS) KERNELS(SCALE, 6, scale)
#undef KERNELS
};

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_unary_attrs attrs = yki_unary_attrs_get(&problem->attrs);
    bool is_grad = problem->op == &yki_op_unary_grad;
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "unary.cl",
                               problem->input_count == 3 ? "yki_relu_grad_of_sum"
                                                         : kernels[attrs.kind][is_grad],
                               "-DVEC=%u -DWG=%u", flat.vector, flat.group);
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, "count", yki_operand_elements(&problem->out));
    yki_arg_float(recipe, "a", attrs.a);
    yki_arg_float(recipe, "b", attrs.b);
    yki_flat_grid(launch, &flat, problem);
    yki_flat_cost(launch, problem, 1);
    return recipe->status;
}

static const yki_op *const unary_op = &yki_op_unary;
static const yki_op *const unary_grad_op = &yki_op_unary_grad;

static bool
is_finite(const yki_problem *problem)
{
    switch (yki_unary_attrs_get(&problem->attrs).kind) {
    case YKI_UNARY_EXP:
    case YKI_UNARY_LOG:
    case YKI_UNARY_SQRT:
    case YKI_UNARY_POW:
        return false;
    }
    return true;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_flat_applies(problem, traits) &&
           (problem->out.layout.block == 1 || is_finite(problem));
}

const yki_solver yki_solver_unary = {
    .name = "unary-flat",
    .op = &unary_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .layouts = yki_flat_layouts,
    .emit = emit,
};

/* Only relu's gradient takes a sum. */
static bool
grad_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return applies(problem, traits) &&
           (problem->input_count == 2 ||
            yki_unary_attrs_get(&problem->attrs).kind == YKI_UNARY_RELU);
}

const yki_solver yki_solver_unary_grad = {
    .name = "unary-grad-flat",
    .op = &unary_grad_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = grad_applies,
    .layouts = yki_flat_layouts,
    .emit = emit,
};

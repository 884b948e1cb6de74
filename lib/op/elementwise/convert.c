/* SPDX-License-Identifier: Apache-2.0
 *
 * convert.c - a tensor of floats in half its bytes, as bfloat16 or as half, and back. Only the
 * planner makes these tasks (plan/halves.c).
 */
#include "op/flat.h"
#include "op/ops.h"

const yki_op yki_op_narrow = {
    .name = "narrow",
    .infer = yki_infer_joined,
    .in_place = 1,
    .cheap = true,
};

const yki_op yki_op_widen = {
    .name = "widen",
    .infer = yki_infer_joined,
    .cheap = true,
};

static bool
is_like(const yki_operand *a, const yki_operand *b)
{
    return yki_shape_equal(a->shape, b->shape) && a->batched == b->batched &&
           a->layout.block == b->layout.block;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, const char *kernel,
     yoke_type type, yki_recipe *recipe)
{
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "convert.cl", kernel, "-DVEC=%u -DWG=%u%s", flat.vector,
                               flat.group, type == YKI_TYPE_F16 ? " -DYKI_F16" : "");
    for (uint32_t i = 0; i < yki_problem_operands(problem); i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, "count", yki_operand_elements(&problem->out));
    yki_flat_grid(launch, &flat, problem);
    if (launch) {
        const int64_t bytes = problem->extra_count ? 10 : 6; /* of an element */

        launch->bytes = yki_operand_elements(&problem->out);
        launch->bytes.per_sample *= bytes;
        launch->bytes.constant *= bytes;
    }
    return recipe->status;
}

static bool
narrow_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)traits;
    return problem->extra_count == 1 && yki_type_is_half(problem->extra[0].type) &&
           problem->in[0].type == YOKE_F32 && problem->out.type == YOKE_F32 &&
           is_like(&problem->in[0], &problem->out) && is_like(&problem->in[0], &problem->extra[0]);
}

static yoke_status
emit_narrow(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    (void)tuning;
    return emit(problem, traits, "yki_narrow", problem->extra[0].type, recipe);
}

static bool
widen_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)traits;
    return yki_type_is_half(problem->in[0].type) && problem->out.type == YOKE_F32 &&
           is_like(&problem->in[0], &problem->out);
}

static yoke_status
emit_widen(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    (void)tuning;
    return emit(problem, traits, "yki_widen", problem->in[0].type, recipe);
}

static const yki_op *const narrow_op = &yki_op_narrow, *const widen_op = &yki_op_widen;

const yki_solver yki_solver_narrow = {
    .name = "narrow-flat",
    .op = &narrow_op,
    .applies = narrow_applies,
    .emit = emit_narrow,
};

const yki_solver yki_solver_widen = {
    .name = "widen-flat",
    .op = &widen_op,
    .applies = widen_applies,
    .emit = emit_widen,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * custom_solver.c - runs a user's kernel as the one launch of a recipe, in plain
 * layout.
 */
#include "op/custom/custom.h"

enum { MAX_GROUPS = 4096 };

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_custom_text *text = problem->data;
    bool is_grad = problem->op == &yki_op_custom_grad;
    uint32_t group = YKI_MIN(traits->max_group, (uint32_t)YKI_FREE_GROUP);
    uint32_t inputs = problem->input_count - (is_grad ? 2 : 0);
    yki_expr groups = yki_operand_elements(&problem->out);
    const yki_operand *result = is_grad ? &problem->in[inputs] : &problem->out;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, text->name, text->kernel, "-DYOKE_GROUP=%u", group);
    if (launch)
        launch->source = text->source;
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, NULL, problem->out.batched ? YKI_BATCH : YKI_CONST(1));
    for (uint32_t i = 0; i < inputs; i++)
        yki_arg_int(recipe, NULL, yki_shape_count(problem->in[i].shape));
    yki_arg_int(recipe, NULL, yki_shape_count(result->shape));
    groups.divisor = group;
    groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, group, 1, 1);
    return recipe->status;
}

static const yki_op *const custom_op = &yki_op_custom;
static const yki_op *const custom_grad_op = &yki_op_custom_grad;

const yki_solver yki_solver_custom = {
    .name = "custom",
    .op = &custom_op,
    .applies = yki_plain_applies,
    .emit = emit,
};

const yki_solver yki_solver_custom_grad = {
    .name = "custom-grad",
    .op = &custom_grad_op,
    .applies = yki_plain_applies,
    .emit = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax_solver.c - softmax and its gradient in plain layout. Along the innermost
 * axis a group takes a row; along another axis a work-item takes adjacent columns.
 */
#include "op/flat.h"
#include "op/ops.h"

enum { ELEMENTS_PER_GROUP = 2048 };

typedef struct view {
    int64_t outer, length, inner;
} view;

static view
view_of(const yki_problem *problem)
{
    int32_t axis = yki_softmax_attrs_get(&problem->attrs).axis;
    view v = {1, problem->out.shape.dim[axis], 1};

    for (int32_t i = 0; i < problem->out.shape.rank; i++) {
        if (i < axis)
            v.outer *= problem->out.shape.dim[i];
        else if (i > axis)
            v.inner *= problem->out.shape.dim[i];
    }
    return v;
}

static bool
rows_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_plain_applies(problem, traits) && view_of(problem).inner == 1;
}

static yoke_status
emit(const yki_problem *problem, const char *kernel, uint32_t vector, uint32_t group, int64_t tasks,
     int64_t per_group, int64_t max_groups, yki_recipe *recipe)
{
    view v = view_of(problem);
    yki_expr elements = yki_operand_elements(&problem->out);
    yki_expr rows = problem->out.batched ? YKI_PER_SAMPLE(v.outer) : YKI_CONST(v.outer), groups;
    yki_launch *launch;

    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "softmax.cl", kernel, "-DVEC=%u -DWG=%u", vector, group);
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, "rows", rows);
    yki_arg_int(recipe, "length", v.length);
    yki_arg_int(recipe, "inner", v.inner);
    groups = problem->out.batched ? YKI_PER_SAMPLE(tasks) : YKI_CONST(tasks);
    groups.divisor = per_group;
    groups.max = max_groups;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, group, 1, 1);
    yki_launch_iterations(launch, problem,
                          4.0 * (double)yki_operand_count(&problem->out, problem->max),
                          4 * v.length);
    if (launch) {
        launch->flops = elements;
        launch->flops.per_sample *= 5;
        launch->flops.constant *= 5;
        launch->bytes = elements;
        launch->bytes.per_sample *= 4 * (problem->input_count + 1);
        launch->bytes.constant *= 4 * (problem->input_count + 1);
    }
    return recipe->status;
}

static yoke_status
emit_rows(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    bool is_grad = problem->op == &yki_op_softmax_grad, is_cpu = traits->type == YOKE_DEVICE_CPU;
    yki_flat flat = yki_flat_for(traits);
    view v = view_of(problem);
    uint32_t group = is_cpu ? 1 : 1u << 6;
    /* A group takes one row, or as many short ones as make a group worth its cost. */
    int64_t rows_per_group = is_cpu ? YKI_MAX(1, ELEMENTS_PER_GROUP / v.length) : 1;

    (void)tuning;
    if (!is_cpu && v.length % flat.vector != 0)
        flat.vector = 1;
    /* Four vectors of a long row for each work-item. */
    while (!is_cpu && group < 256 && (int64_t)group * flat.vector * 4 < v.length)
        group *= 2;
    while (group > traits->max_group)
        group /= 2;
    return emit(problem, is_grad ? "yki_softmax_grad_rows" : "yki_softmax_rows", flat.vector, group,
                v.outer, rows_per_group, is_cpu ? flat.groups : 32768, recipe);
}

static yoke_status
emit_columns(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
             yki_recipe *recipe)
{
    bool is_grad = problem->op == &yki_op_softmax_grad, is_cpu = traits->type == YOKE_DEVICE_CPU;
    yki_flat flat = yki_flat_for(traits);
    view v = view_of(problem);
    uint32_t vector = is_cpu && v.inner >= flat.vector ? flat.vector : 1;
    /* One work-item does the last columns of a row of vectors one by one. */
    int64_t tasks = v.outer * ((v.inner + vector - 1) / vector);

    (void)tuning;
    return emit(problem, is_grad ? "yki_softmax_grad_columns" : "yki_softmax_columns", vector,
                flat.group, tasks,
                is_cpu ? YKI_MAX(1, ELEMENTS_PER_GROUP / (v.length * vector)) : flat.group,
                is_cpu ? flat.groups : 32768, recipe);
}

static const yki_op *const softmax_op = &yki_op_softmax;
static const yki_op *const softmax_grad_op = &yki_op_softmax_grad;

const yki_solver yki_solver_softmax_rows = {
    .name = "softmax-rows",
    .op = &softmax_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = rows_apply,
    .emit = emit_rows,
};

const yki_solver yki_solver_softmax_columns = {
    .name = "softmax-columns",
    .op = &softmax_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = yki_plain_applies,
    .emit = emit_columns,
};

const yki_solver yki_solver_softmax_grad_rows = {
    .name = "softmax-grad-rows",
    .op = &softmax_grad_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = rows_apply,
    .emit = emit_rows,
};

const yki_solver yki_solver_softmax_grad_columns = {
    .name = "softmax-grad-columns",
    .op = &softmax_grad_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = yki_plain_applies,
    .emit = emit_columns,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * rope_solver.c - rotary positions, a group of work-items for some rows.
 */
#include "op/conv/conv.h"
#include "op/flat.h"
#include "op/ops.h"

enum { PAIRS_PER_GROUP = 1024 };

/* e^x for x <= 0 and its inverse for x >= 1, by sums and products alone: the same on every host. */
static double
exponential(double x)
{
    double sum = 1, term = 1;

    x /= 1024;
    for (int i = 1; i < 12; i++) {
        term *= x / i;
        sum += term;
    }
    for (int i = 0; i < 10; i++)
        sum *= sum;
    return sum;
}

static double
logarithm(double x)
{
    double result = 0, square, power, z;

    for (; x > 1.5; x /= 2)
        result += 0.69314718055994530942;
    z = (x - 1) / (x + 1);
    square = z * z;
    power = 2 * z;
    for (int i = 1; i < 60; i += 2) {
        result += power / i;
        power *= square;
    }
    return result;
}

/* base^(-2 / width), with 64 bits after the point. */
static uint64_t
step_of(const yki_rope_attrs *a)
{
    return (uint64_t)(exponential(-2 * logarithm((double)a->base) / a->width) *
                      18446744073709551616.0);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_rope_attrs a = yki_rope_attrs_get(&problem->attrs);
    int64_t length = problem->in[0].shape.dim[0], columns = problem->in[0].shape.dim[1];
    int64_t heads = a.heads + a.shared, per_row;
    uint64_t step = step_of(&a);
    yki_flat flat = yki_flat_for(traits);
    bool start = problem->input_count > 1;
    yki_launch *launch;
    yki_expr rows = problem->in[0].batched ? YKI_PER_SAMPLE(length) : YKI_CONST(length), groups;

    (void)tuning;
    while (a.width / 2 % (int32_t)flat.vector != 0)
        flat.vector = flat.group == 1 ? flat.vector / 2 : 1;
    per_row = a.width / 2 / flat.vector;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "rope.cl", "yki_rope", "-DVEC=%u -DWG=%u -DINTERLEAVED=%d",
                               flat.vector, flat.group, a.interleaved);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, start ? 1 : 0);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_expr(recipe, "samples", problem->in[0].batched ? YKI_BATCH : YKI_CONST(1));
    yki_arg_expr(recipe, "length", problem->max.length ? YKI_PER_ROW(1) : YKI_CONST(length));
    yki_arg_int(recipe, "columns", columns);
    yki_arg_int(recipe, "heads", heads);
    yki_arg_int(recipe, "width", a.width);
    yki_arg_int(recipe, "step_high", (int32_t)(uint32_t)(step >> 32));
    yki_arg_int(recipe, "step_low", (int32_t)(uint32_t)step);
    yki_arg_int(recipe, "has_start", start);
    yki_arg_float(recipe, "sign", a.back ? -1 : 1);
    groups = rows;
    groups.divisor = YKI_MAX(PAIRS_PER_GROUP / (heads * a.width / 2), 1);
    groups.max = flat.groups;
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), flat.group, 1, 1);
    yki_launch_iterations(
        launch, problem,
        (double)yki_expr_value(rows, problem->max) *
            (double)(per_row * (heads + 1 + (int64_t)flat.vector) + columns / flat.vector + 1),
        8 * a.width);
    if (launch) {
        launch->flops = yki_operand_elements(&problem->out);
        launch->flops.per_sample *= 3;
        launch->flops.constant *= 3;
        launch->bytes = yki_problem_bytes(problem);
    }
    return recipe->status;
}

static const yki_op *const op = &yki_op_rope;

const yki_solver yki_solver_rope = {
    .name = "rope",
    .op = &op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_plain_applies,
    .emit = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_rows_solver.c - the sum over rows, on any device (clkernels/sum_rows.cl). On
 * processors work-items own columns and walk down the rows; elsewhere a group has some
 * columns, and its work-items divide the rows. Where there are many rows and few columns,
 * several groups divide the rows, and a second launch adds their partial sums in order.
 */
#include "op/matmul/matmul.h"

enum { MAX_PARTS = 256, MIN_ROWS = 64, MIN_ELEMENTS = 1 << 16, ROWS_AN_ITEM = 8 };

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_plain_applies(problem, traits) &&
           yki_operand_count(&problem->in[0], problem->max) / problem->out.shape.dim[0] <=
               INT32_MAX;
}

/* How many work-items of a group have columns beside one another: a power of 2. */
static int64_t
items_across(int64_t columns, uint32_t group)
{
    int64_t across = 1;

    while (across < 32 && across < group && across * 4 < columns)
        across *= 2;
    return across;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    bool cpu = traits->type == YOKE_DEVICE_CPU;
    uint32_t wg = yki_sum_group(traits), to = 1;
    int64_t columns = problem->out.shape.dim[0], across = items_across(columns, wg);
    int64_t width = cpu ? YKI_MIN(YKI_MAX(traits->vector_width, 4u), 16u) : 4 * across;
    int64_t blocks = YKI_MIN((columns + width - 1) / width, 32768);
    int64_t min_rows = cpu ? MIN_ROWS : ROWS_AN_ITEM * (wg / across);
    yki_expr rows = yki_operand_elements(&problem->in[0]);
    int64_t max_rows, parts = 1;
    yki_launch *launch;

    (void)tuning;
    rows.per_sample /= columns;
    rows.constant /= columns;
    max_rows = yki_expr_value(rows, problem->max);
    if (max_rows * columns >= MIN_ELEMENTS)
        parts = YKI_MIN(YKI_MIN(2 * (int64_t)traits->compute_units / blocks, max_rows / min_rows),
                        MAX_PARTS);
    parts = YKI_MAX(parts, 1);
    yki_recipe_start(recipe, problem);
    if (parts > 1)
        to = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(parts * columns * 4));
    launch = yki_sum_launch(recipe, traits, cpu ? "yki_sum_rows" : "yki_sum_rows_tree");
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, to);
    yki_arg_expr(recipe, "rows", rows);
    yki_arg_int(recipe, "columns", columns);
    if (!cpu)
        yki_arg_int(recipe, "across", across);
    yki_launch_grid(launch, YKI_CONST(blocks), YKI_CONST(parts), YKI_CONST(1), wg, 1, 1);
    if (launch) {
        launch->flops = yki_operand_elements(&problem->in[0]);
        launch->bytes = yki_operand_bytes(&problem->in[0]);
    }
    if (parts > 1) {
        launch = yki_sum_launch(recipe, traits, "yki_gemm_finish");
        yki_arg_slot(recipe, to);
        yki_arg_slot(recipe, 1);
        yki_arg_slot(recipe, 0);
        yki_arg_int(recipe, "count", columns);
        yki_arg_int(recipe, "part_count", parts);
        yki_arg_int(recipe, "columns", columns);
        yki_arg_int(recipe, "flags", 0);
        yki_launch_grid(launch, YKI_CONST(YKI_MIN((columns + wg - 1) / wg, 1024)), YKI_CONST(1),
                        YKI_CONST(1), wg, 1, 1);
    }
    return recipe->status;
}

static const yki_op *const op = &yki_op_sum_rows;

const yki_solver yki_solver_sum_rows = {
    .name = "sum-rows",
    .op = &op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit,
};

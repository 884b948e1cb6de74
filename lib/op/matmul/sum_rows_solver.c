/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_rows_solver.c - the sum over rows, on any device. Work-items own columns and
 * walk down the rows. Where there are many rows and few columns, several groups divide
 * the rows, and a second launch adds their partial sums in order.
 */
#include "op/matmul/matmul.h"

enum { MAX_PARTS = 256, MIN_ROWS = 64, MIN_ELEMENTS = 1 << 16 };

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_plain_applies(problem, traits) &&
           yki_operand_count(&problem->in[0], problem->max) / problem->out.shape.dim[0] <=
               INT32_MAX;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    bool cpu = traits->type == YOKE_DEVICE_CPU;
    uint32_t wg = yki_gemm_sum_group(traits), to = 1;
    uint32_t vec = cpu ? YKI_MIN(YKI_MAX(traits->vector_width, 4u), 16u) : 1;
    int64_t columns = problem->out.shape.dim[0], blocks = (columns + wg * vec - 1) / (wg * vec);
    yki_expr rows = yki_operand_elements(&problem->in[0]);
    int64_t max_rows, parts = 1;
    yki_launch *launch;
    char options[64];

    (void)tuning;
    yki_gemm_options(traits, yki_gemm_edge(traits, 0, 0), options, sizeof options);
    rows.per_sample /= columns;
    rows.constant /= columns;
    max_rows = yki_expr_value(rows, problem->max);
    blocks = YKI_MIN(blocks, 32768);
    if (max_rows * columns >= MIN_ELEMENTS)
        parts = YKI_MIN(YKI_MIN(2 * (int64_t)traits->compute_units / blocks, max_rows / MIN_ROWS),
                        MAX_PARTS);
    parts = YKI_MAX(parts, 1);
    yki_recipe_start(recipe, problem);
    if (parts > 1)
        to = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(parts * columns * 4));
    launch = yki_recipe_launch(recipe, "gemm.cl", "yki_sum_rows", "%s", options);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, to);
    yki_arg_expr(recipe, "rows", rows);
    yki_arg_int(recipe, "columns", columns);
    yki_launch_grid(launch, YKI_CONST(blocks), YKI_CONST(parts), YKI_CONST(1), wg, 1, 1);
    if (launch) {
        launch->flops = yki_operand_elements(&problem->in[0]);
        launch->bytes = yki_operand_bytes(&problem->in[0]);
    }
    if (parts > 1) {
        launch = yki_recipe_launch(recipe, "gemm.cl", "yki_gemm_finish", "%s", options);
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
    .applies = applies,
    .emit = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding_solver.c - copies rows and, for the gradient, adds them up. Each group
 * owns rows of the table, so no two groups write the same element, and no atomics are
 * needed. On processors it walks all indices in order; elsewhere its work-items search
 * them side by side, and put what they find in order. So a sum has the order of the
 * batch for any number of groups. Where the rows are added in place to another gradient
 * of the table, only those that occur are touched.
 */
#include "op/flat.h"
#include "op/ops.h"

enum { ELEMENTS_PER_GROUP = 4096, MOST_ITEMS = 128, MOST_FOUND = 512 /* at a time */ };

static yki_launch *
start(yki_recipe *recipe, const yki_problem *problem, const char *file, const char *kernel,
      const yki_flat *flat)
{
    yki_launch *launch =
        yki_recipe_launch(recipe, file, kernel, "-DINDEX=%s -DVEC=%u -DWG=%u%s",
                          problem->in[0].type == YOKE_U8 ? "uchar" : "int", flat->vector,
                          flat->group, problem->input_count > 2 ? " -DADD=1" : "");

    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, "places", yki_operand_elements(&problem->in[0]));
    return launch;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_flat flat = yki_flat_for(traits);
    yki_expr groups = yki_operand_elements(&problem->out);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = start(recipe, problem, "embedding.cl", "yki_embedding", &flat);
    yki_arg_int(recipe, "rows", problem->in[1].shape.dim[0]);
    yki_arg_int(recipe, "width", problem->in[1].shape.dim[1]);
    if (launch) {
        launch->bytes = groups;
        launch->bytes.per_sample *= 8;
        launch->bytes.constant *= 8;
    }
    groups.divisor = ELEMENTS_PER_GROUP;
    groups.max = flat.groups;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, flat.group, 1, 1);
    yki_launch_iterations(launch, problem,
                          2.0 * (double)yki_operand_count(&problem->out, problem->max), 0);
    return recipe->status;
}

static void
cost_grad(yki_launch *launch, const yki_problem *problem)
{
    if (!launch)
        return;
    launch->flops = yki_operand_elements(&problem->in[1]);
    launch->bytes = yki_operand_bytes(&problem->in[1]);
    launch->bytes.constant +=
        problem->input_count > 2 ? 0 : 4 * yki_operand_count(&problem->out, problem->max);
}

static yoke_status
emit_grad(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    int64_t rows = problem->out.shape.dim[0], width = problem->out.shape.dim[1];
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = start(recipe, problem, "embedding.cl", "yki_embedding_grad", &flat);
    yki_arg_int(recipe, "rows", rows);
    yki_arg_int(recipe, "width", width);
    /* With no sample the table of sums must still become zero, so the grid does not depend on
     * the batch. */
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(rows, (int64_t)flat.groups)), (yki_expr){0},
                    (yki_expr){0}, flat.group, 1, 1);
    /* Each group reads all indices, and all of them may select its rows. */
    yki_launch_iterations(launch, problem, 0,
                          yki_operand_count(&problem->in[0], problem->max) *
                              (1 + width / flat.vector / flat.group + flat.vector));
    cost_grad(launch, problem);
    return recipe->status;
}

static bool
cpu_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->type == YOKE_DEVICE_CPU && yki_plain_applies(problem, traits);
}

/* ---- work-items side by side ---- */

static bool
groups_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->type != YOKE_DEVICE_CPU && yki_plain_applies(problem, traits);
}

static yoke_status
emit_grad_groups(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
                 yki_recipe *recipe)
{
    int64_t rows = problem->out.shape.dim[0], width = problem->out.shape.dim[1], across, down = 1;
    int64_t places = yki_operand_count(&problem->in[0], problem->max), each;
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    flat.group = MOST_ITEMS;
    while (flat.group > traits->max_group)
        flat.group /= 2;
    across = YKI_MIN((width + flat.group - 1) / flat.group, (int64_t)flat.groups);
    while (down < rows && 2 * down * across <= (int64_t)flat.groups)
        down *= 2;
    yki_recipe_start(recipe, problem);
    launch = start(recipe, problem, "embedding_groups.cl", "yki_embedding_grad_groups", &flat);
    yki_arg_int(recipe, "rows", rows);
    yki_arg_int(recipe, "width", width);
    yki_launch_grid(launch, YKI_CONST(down), YKI_CONST(across), (yki_expr){0}, flat.group, 1, 1);
    /* All places may be those of one group. Each time that it has found so many, it searches them
     * again, brings them into order and adds them. */
    each = (places / MOST_FOUND + 1) *
           (places / flat.group + 1 + MOST_FOUND * (MOST_FOUND / flat.group));
    yki_launch_iterations(launch, problem, (double)rows * (double)width,
                          each + places * (width / across / flat.group + 2));
    cost_grad(launch, problem);
    return recipe->status;
}

static const yki_op *const embedding_op = &yki_op_embedding;
static const yki_op *const embedding_grad_op = &yki_op_embedding_grad;

const yki_solver yki_solver_embedding = {
    .name = "embedding-rows",
    .op = &embedding_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_plain_applies,
    .emit = emit,
};

const yki_solver yki_solver_embedding_grad = {
    .name = "embedding-grad-owned",
    .op = &embedding_grad_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = cpu_applies,
    .emit = emit_grad,
};

const yki_solver yki_solver_embedding_grad_groups = {
    .name = "embedding-grad-groups",
    .op = &embedding_grad_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FREE,
    .applies = groups_apply,
    .emit = emit_grad_groups,
};

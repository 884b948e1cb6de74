/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm_solver.c - layer normalisation and its gradients in plain layout; a
 * work-group takes rows. The sums over rows, for the parameters, are partial sums over
 * splits of the rows, added in order.
 */
#include "op/conv/conv.h"
#include "op/ops.h"

enum {
    MAX_GROUPS = 16384,
    ELEMENTS_PER_GROUP = 4096,
    ELEMENTS_PER_SPLIT = 16384,
    MOST_ITEMS = 256,
    VECTORS_PER_ITEM = 4, /* of a row, where there are enough */
    MOST_KEPT = 8         /* vectors of columns that stay in registers */
};

typedef struct form {
    uint32_t vector, items;
    int64_t width, rows_per_sample;
    yki_expr rows;
} form;

static form
form_of(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&problem->attrs);
    const yki_operand *x = &problem->in[0];
    form f = {.vector = 4, .items = 64, .width = 1};

    for (int32_t i = x->shape.rank - a.axes; i < x->shape.rank; i++)
        f.width *= x->shape.dim[i];
    f.rows_per_sample = yki_shape_count(x->shape) / f.width;
    f.rows = x->batched ? YKI_PER_SAMPLE(f.rows_per_sample) : YKI_CONST(f.rows_per_sample);
    if (f.width % f.vector != 0)
        f.vector = 1;
    while (f.items < MOST_ITEMS && (int64_t)f.items * f.vector * VECTORS_PER_ITEM < f.width)
        f.items *= 2;
    while (f.items > traits->max_group)
        f.items /= 2;
    if (yki_conv_is_cpu(traits)) {
        f.items = 1;
        f.vector = traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;
    }
    return f;
}

static void
cost(yki_launch *launch, const yki_problem *problem)
{
    if (!launch)
        return;
    launch->flops = yki_operand_elements(&problem->in[0]);
    launch->flops.per_sample *= 8;
    launch->flops.constant *= 8;
    launch->bytes = yki_problem_bytes(problem);
}

/* The operands of layer_norm are x, gamma, beta, y; those of layer_norm_grad are x, dy, gamma,
 * dx. x stands for parameters that a problem lacks; the kernel then does not read it. */
static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&problem->attrs);
    bool is_grad = problem->op == &yki_op_layer_norm_grad;
    form f = form_of(problem, traits);
    yki_expr groups = f.items == 1 ? yki_operand_elements(&problem->out) : f.rows;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "layer_norm.cl", is_grad ? "yki_ln_grad" : "yki_ln",
                               "-DVEC=%u -DWG=%u%s", f.vector, f.items, a.rms ? " -DRMS=1" : "");
    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, i < problem->input_count ? i : 0);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_expr(recipe, "rows", f.rows);
    yki_arg_int(recipe, "width", f.width);
    yki_arg_int(recipe, "affine", a.affine);
    yki_arg_float(recipe, "epsilon", a.epsilon);
    if (f.items == 1) {
        groups.divisor = ELEMENTS_PER_GROUP;
        groups.max = YKI_MIN((int64_t)traits->compute_units * 8, MAX_GROUPS);
    } else
        groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), f.items, 1, 1);
    cost(launch, problem);
    return recipe->status;
}

static yoke_status
emit_params(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&problem->attrs);
    form f = form_of(problem, traits);
    int64_t rows = f.rows_per_sample * (problem->in[0].batched ? problem->max.batch : 1);
    int64_t splits = (int64_t)traits->compute_units * (f.items == 1 ? 2 : 4);
    int64_t kept = (f.width + (int64_t)f.items * f.vector - 1) / ((int64_t)f.items * f.vector);
    int64_t sums = a.rms ? f.width : 2 * f.width;
    uint32_t part = 2;
    yki_launch *launch;

    (void)tuning;
    if (f.items == 1 || kept > MOST_KEPT)
        kept = 0;
    splits = YKI_MIN(YKI_MIN(splits, rows), rows * f.width / ELEMENTS_PER_SPLIT);
    splits = YKI_MAX(YKI_MIN(splits, f.items == 1 ? 256 : 1024), 1);
    yki_recipe_start(recipe, problem);
    if (splits > 1)
        part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * sums * splits));
    launch = yki_recipe_launch(recipe, "layer_norm.cl", "yki_ln_grad_params",
                               "-DVEC=%u -DWG=%u -DKEEP=%d%s", f.vector, f.items, (int)kept,
                               a.rms ? " -DRMS=1" : "");
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    yki_arg_expr(recipe, "rows", f.rows);
    yki_arg_int(recipe, "width", f.width);
    yki_arg_float(recipe, "epsilon", a.epsilon);
    yki_launch_grid(launch, YKI_CONST(splits), YKI_CONST(1), YKI_CONST(1), f.items, 1, 1);
    cost(launch, problem);
    if (splits > 1)
        yki_conv_sum_parts(recipe, traits, part, 2, sums, splits);
    return recipe->status;
}

static const yki_op *const layer_norm_op = &yki_op_layer_norm;
static const yki_op *const layer_norm_grad_op = &yki_op_layer_norm_grad;
static const yki_op *const layer_norm_grad_params_op = &yki_op_layer_norm_grad_params;

const yki_solver yki_solver_layer_norm = {
    .name = "layer-norm",
    .op = &layer_norm_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = yki_plain_applies,
    .emit = emit,
};

const yki_solver yki_solver_layer_norm_grad = {
    .name = "layer-norm-grad",
    .op = &layer_norm_grad_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = yki_plain_applies,
    .emit = emit,
};

const yki_solver yki_solver_layer_norm_grad_params = {
    .name = "layer-norm-grad-params",
    .op = &layer_norm_grad_params_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = yki_plain_applies,
    .emit = emit_params,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm_grads.c - all gradients of a layer norm in two launches, where work-items run side by
 * side: each row is read once, for its own gradient and for what it gives to the parameters'. Each
 * group has sums over its rows, which the second launch adds, in order. Only a fusion makes this
 * operator (plan/fuse_norm.c).
 */
#include <stdio.h>

#include "op/conv/conv.h"
#include "op/ops.h"

enum {
    MOST_ITEMS = 256,
    KEPT = 12,       /* floats of a row that a work-item keeps */
    MOST_KEPT = 32,  /* where a group has no more items */
    LEAST_SHARE = 4, /* items of a row */
    GROUPS_A_UNIT = 2,
    MOST_ACROSS = 8, /* items with neighbouring columns, 4 each, in the second launch */
    MAX_GROUPS = 16384
};

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    yki_op_layer_norm_grad.describe(attrs, text, size);
}

const yki_op yki_op_layer_norm_grads = {
    .name = "layer_norm_grads",
    .infer = yki_infer_joined,
    .describe = describe,
};

typedef struct form {
    uint32_t items, share, vector;
    int64_t width, kept; /* vectors of an item */
    int64_t rows_per_sample, groups;
} form;

static form
form_of(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&problem->attrs);
    const yki_operand *x = &problem->in[0];
    form f = {.items = MOST_ITEMS, .share = LEAST_SHARE, .vector = 4, .width = 1};
    int64_t down;

    for (int32_t i = x->shape.rank - a.axes; i < x->shape.rank; i++)
        f.width *= x->shape.dim[i];
    f.rows_per_sample = yki_shape_count(x->shape) / YKI_MAX(f.width, 1);
    if (f.width % f.vector != 0)
        f.vector = 1;
    while (f.items > traits->max_group)
        f.items /= 2;
    while (f.share < f.items && (int64_t)f.share * KEPT < f.width)
        f.share *= 2;
    f.kept = (f.width + (int64_t)f.share * f.vector - 1) / ((int64_t)f.share * f.vector);
    down = f.items / f.share;
    f.groups = (f.rows_per_sample * (x->batched ? problem->max.batch : 1) + down - 1) / down;
    f.groups = YKI_MIN(f.groups, (int64_t)traits->compute_units * GROUPS_A_UNIT);
    f.groups = YKI_MAX(YKI_MIN(f.groups, MAX_GROUPS), 1);
    return f;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    form f = form_of(problem, traits);

    return !yki_conv_is_cpu(traits) && yki_plain_applies(problem, traits) && f.items >= f.share &&
           f.kept * f.vector <= MOST_KEPT;
}

static yki_launch *
launch_of(yki_recipe *recipe, const form *f, const char *kernel, bool rms)
{
    return yki_recipe_launch(recipe, "layer_norm_groups.cl", kernel,
                             "-DVEC=%u -DWG=%u -DSHARE=%u -DKEEP=%d%s", f->vector, f->items,
                             f->share, (int)f->kept, rms ? " -DRMS=1" : "");
}

/* The operands are x, dy, gamma; dx and the gradients of beta (not with rms) and gamma. */
static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&problem->attrs);
    const bool batched = problem->in[0].batched;
    form f = form_of(problem, traits);
    int64_t sums = problem->extra_count, down = f.items / f.share, across = 1;
    yki_launch *launch;
    uint32_t part;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * sums * f.width * f.groups));
    launch = launch_of(recipe, &f, "yki_ln_grads", a.rms);
    for (uint32_t i = 0; i < 4; i++)
        yki_arg_slot(recipe, i);
    yki_arg_slot(recipe, part);
    yki_arg_expr(recipe, "rows",
                 batched ? YKI_PER_SAMPLE(f.rows_per_sample) : YKI_CONST(f.rows_per_sample));
    yki_arg_int(recipe, "width", f.width);
    yki_arg_float(recipe, "epsilon", a.epsilon);
    yki_launch_grid(launch, YKI_CONST(f.groups), YKI_CONST(1), YKI_CONST(1), f.items, 1, 1);
    yki_launch_iterations(launch, problem,
                          (double)yki_operand_count(&problem->in[0], problem->max) /
                              (double)f.width * f.share,
                          2 * f.kept * down);
    if (launch) {
        launch->flops = yki_operand_elements(&problem->in[0]);
        launch->flops.per_sample *= 16;
        launch->flops.constant *= 16;
        launch->bytes = yki_problem_bytes(problem);
    }
    while (across < MOST_ACROSS && 4 * across < f.width)
        across *= 2;
    launch = launch_of(recipe, &f, "yki_ln_join", a.rms);
    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, 4);
    yki_arg_slot(recipe, 3 + problem->extra_count);
    yki_arg_int(recipe, "parts", f.groups);
    yki_arg_int(recipe, "width", f.width);
    yki_arg_int(recipe, "across", across);
    yki_launch_grid(launch, YKI_CONST((f.width + 4 * across - 1) / (4 * across)), YKI_CONST(sums),
                    YKI_CONST(1), f.items, 1, 1);
    yki_launch_iterations(launch, problem, 0, f.groups * across / f.items + f.items);
    if (launch)
        launch->bytes = YKI_CONST(4 * sums * f.width * (f.groups + 1));
    return recipe->status;
}

static const yki_op *const layer_norm_grads_op = &yki_op_layer_norm_grads;

const yki_solver yki_solver_layer_norm_grads = {
    .name = "layer-norm-grads",
    .op = &layer_norm_grads_op,
    .side_by_side = true,
    .applies = applies,
    .emit = emit,
};

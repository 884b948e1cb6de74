/* SPDX-License-Identifier: Apache-2.0
 *
 * loss_rows.c - softmax cross-entropy over the last axis, whose elements lie side by
 * side (clkernels/loss_rows.cl): each row gives a pair, and a second launch adds those
 * of a sample.
 */
#include <string.h>

#include "op/flat.h"
#include "op/loss/loss.h"

enum { ELEMENTS_PER_GROUP = 4096, MAX_GROUPS = 16384, MOST_ITEMS = 256 };

yki_rows_form
yki_rows_form_for(const yki_device_traits *traits, int64_t width)
{
    yki_flat flat = yki_flat_for(traits);
    yki_rows_form f = {flat.vector, flat.group, (int64_t)flat.groups};

    if (f.items == 1)
        return f;
    if (width % f.vector != 0)
        f.vector = 1;
    f.groups = MAX_GROUPS;
    f.items = 64;
    while (f.items < MOST_ITEMS && (int64_t)f.items * f.vector * 4 < width)
        f.items *= 2;
    while (f.items > traits->max_group)
        f.items /= 2;
    return f;
}

yki_launch *
yki_rows_launch(yki_recipe *recipe, const yki_device_traits *traits, const char *kernel,
                yoke_type label, int64_t width, yki_expr rows)
{
    yki_rows_form f = yki_rows_form_for(traits, width);
    yki_launch *launch =
        yki_recipe_launch(recipe, "loss_rows.cl", kernel, "-DVEC=%u -DWG=%u -DLABEL=%s", f.vector,
                          f.items, label == YOKE_U8 ? "uchar" : "int");
    yki_expr groups = rows;

    groups.divisor = f.items == 1 ? YKI_MAX(ELEMENTS_PER_GROUP / width, 1) : 1;
    groups.max = f.groups;
    if (rows.max)
        groups.max = YKI_MIN((rows.max + groups.divisor - 1) / groups.divisor, f.groups);
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), f.items, 1, 1);
    if (launch) {
        launch->bytes = rows;
        launch->bytes.per_sample *= 8 * width;
        launch->bytes.constant *= 8 * width;
        launch->bytes.max *= 8 * width;
        launch->flops = launch->bytes;
    }
    return launch;
}

void
yki_rows_ce(yki_recipe *recipe, const yki_problem *problem, const yki_device_traits *traits,
            const yki_rows_ce_slots *slots, const yki_rows_ce_args *a)
{
    yki_rows_form f = yki_rows_form_for(traits, a->width);
    yki_launch *launch =
        yki_rows_launch(recipe, traits, "yki_ce_rows", a->label, a->width, a->rows);

    yki_arg_slot(recipe, slots->x);
    yki_arg_slot(recipe, slots->target);
    yki_arg_slot(recipe, slots->grad);
    yki_arg_slot(recipe, slots->pairs);
    yki_arg_expr(recipe, "rows", a->rows);
    yki_arg_int(recipe, "first", a->first);
    yki_arg_int(recipe, "width", a->width);
    yki_arg_int(recipe, "has_ignore", a->has_ignore);
    yki_arg_int(recipe, "ignore", a->ignore);
    yki_arg_float(recipe, "smoothing", a->smoothing);
    yki_arg_int(recipe, "with_grad", a->with_grad);
    if (a->scaled) {
        yki_arg_step(recipe);
        if (launch)
            strcat(launch->options, " -DSCALED=1");
    }
    yki_launch_iterations(launch, problem,
                          (double)yki_expr_value(a->rows, problem->max) * f.items *
                              (3.0 * (double)(a->width / f.vector / f.items + 1) + 24),
                          0);
}

void
yki_rows_sum(yki_recipe *recipe, const yki_problem *problem, uint32_t pairs, uint32_t out,
             int64_t length, const yki_device_traits *traits)
{
    yki_launch *launch = yki_rows_launch(recipe, traits, "yki_sum_pairs", YOKE_I32, 1, YKI_BATCH);
    yki_expr samples = YKI_BATCH;
    uint32_t items = yki_rows_form_for(traits, 1).items;

    yki_arg_slot(recipe, pairs);
    yki_arg_slot(recipe, out);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_arg_int(recipe, "length", length);
    samples.max = MAX_GROUPS;
    yki_launch_grid(launch, samples, YKI_CONST(1), YKI_CONST(1), items, 1, 1);
    yki_launch_iterations(launch, problem, 0, (length + 1) * (problem->max.batch / MAX_GROUPS + 1));
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_loss_attrs_get(&problem->attrs).rows && yki_plain_applies(problem, traits);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_loss_attrs attrs = yki_loss_attrs_get(&problem->attrs);
    const yoke_shape *x = &problem->in[0].shape;
    bool is_grad = problem->op == &yki_op_loss_grad;
    int64_t width = x->dim[x->rank - 1], length = yki_shape_count(*x) / width;
    yki_rows_ce_slots slots = {0, 1, 2, 0};
    yki_rows_ce_args args = {.label = problem->in[1].type,
                             .rows = YKI_PER_SAMPLE(length),
                             .width = width,
                             .has_ignore = attrs.has_ignore_index,
                             .ignore = attrs.ignore_index,
                             .smoothing = attrs.label_smoothing,
                             .with_grad = is_grad};

    (void)tuning;
    yki_recipe_start(recipe, problem);
    slots.pairs = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_PER_SAMPLE(8 * length));
    if (!is_grad)
        slots.grad = slots.pairs;
    yki_rows_ce(recipe, problem, traits, &slots, &args);
    if (!is_grad)
        yki_rows_sum(recipe, problem, slots.pairs, 2, length, traits);
    return recipe->status;
}

static const yki_op *const loss_op = &yki_op_loss;
static const yki_op *const loss_grad_op = &yki_op_loss_grad;

const yki_solver yki_solver_loss_rows = {
    .name = "loss-rows",
    .op = &loss_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit,
};

const yki_solver yki_solver_loss_grad_rows = {
    .name = "loss-grad-rows",
    .op = &loss_grad_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit,
};

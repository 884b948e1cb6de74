/* SPDX-License-Identifier: Apache-2.0
 *
 * loss_solver.c - losses, metrics and their gradients in plain layout. A work-item
 * takes whole samples. Losses are a very small part of a step: their latency matters,
 * not their throughput.
 */
#include "op/flat.h"
#include "op/loss/loss.h"

static const char *const kernels[YKI_LOSS_KINDS] = {
    "yki_softmax_ce", "yki_ce",    "yki_bce",   "yki_mse", "yki_l1",
    "yki_huber",      "yki_top_k", "yki_top_k", "yki_l1",
};
static const char *const gradients[YKI_LOSS_KINDS] = {
    "yki_softmax_ce_grad", "yki_ce_grad", "yki_bce_grad",
    "yki_mse_grad",        "yki_l1_grad", "yki_huber_grad",
};

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_loss_attrs attrs = yki_loss_attrs_get(&problem->attrs);

    if (problem->op == &yki_op_loss_grad && !gradients[attrs.kind])
        return false;
    return !attrs.rows && yki_plain_applies(problem, traits);
}

yki_loss_form
yki_loss_form_for(const yki_problem *problem, const yki_device_traits *traits, int32_t kind)
{
    enum { ITEMS = 256, FEW_ITEMS = 64, ELEMENTS_PER_ITEM = 256, FEW_POSITIONS = 32 };
    int64_t count = yki_shape_count(problem->in[0].shape), n = problem->max.batch;
    int64_t classes = problem->in[0].shape.rank ? problem->in[0].shape.dim[0] : 1;
    int64_t positions = count / YKI_MAX(classes, 1), width = count, share;
    bool labels = kind == YKI_LOSS_SOFTMAX_CE || kind == YKI_LOSS_CE ||
                  kind == YKI_METRIC_ACCURACY || kind == YKI_METRIC_TOP_K;
    yki_loss_form f = {1, 0, {0}};

    if (traits->type != YOKE_DEVICE_CPU) {
        f.items = FEW_ITEMS;
        if ((n + f.items - 1) / f.items * count > ELEMENTS_PER_ITEM) {
            f.spread = labels && positions < FEW_POSITIONS ? 2 : 1;
            width = f.spread == 2 ? classes : labels ? positions : count;
            f.items = width >= 4 * ITEMS ? ITEMS : FEW_ITEMS;
        }
        while (f.items > traits->max_group)
            f.items /= 2;
    }
    /* A group has a few thousand elements at least, so a small batch is one group. */
    share = f.spread ? 1 : YKI_MAX(1, 2048 / YKI_MAX(count, 1)) * f.items;
    f.groups = YKI_PER_SAMPLE(1);
    f.groups.divisor = share;
    f.groups.max = (int64_t)traits->compute_units * (f.spread ? 32 : 4);
    return f;
}

/* Where there are no weights, the kernel does not read the slot. */
static void
add_weights(const yki_problem *problem, const yki_loss_attrs *attrs, yki_recipe *recipe)
{
    const uint32_t last = problem->input_count - 1;

    yki_arg_slot(recipe, attrs->class_weights ? 2 : 0);
    yki_arg_slot(recipe, attrs->weights ? last : 0);
    yki_arg_int(recipe, "has_class_weights", attrs->class_weights);
    yki_arg_int(recipe, "has_weights", attrs->weights);
    yki_arg_int(recipe, "weight_step", attrs->weights && problem->in[last].shape.rank > 0);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_loss_attrs attrs = yki_loss_attrs_get(&problem->attrs);
    bool is_grad = problem->op == &yki_op_loss_grad;
    bool weighted = attrs.class_weights || attrs.weights;
    int64_t count = yki_shape_count(problem->in[0].shape);
    int64_t classes = problem->in[0].shape.rank ? problem->in[0].shape.dim[0] : 1;
    yki_loss_form form = yki_loss_form_for(problem, traits, attrs.kind);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    if (weighted)
        form.spread = YKI_MIN(form.spread, 1);
    launch = yki_recipe_launch(recipe, "loss.cl", (is_grad ? gradients : kernels)[attrs.kind],
                               "-DWG=%u -DLABEL=%s -DSPREAD=%d%s", form.items,
                               problem->in[1].type == YOKE_U8 ? "uchar" : "int", form.spread,
                               weighted ? " -DWEIGHTED" : "");
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_arg_int(recipe, "classes", classes);
    yki_arg_int(recipe, "positions", count / classes);
    yki_arg_int(recipe, "has_ignore", attrs.has_ignore_index);
    yki_arg_int(recipe, "ignore", attrs.ignore_index);
    yki_arg_float(recipe, "smoothing", attrs.label_smoothing);
    yki_arg_float(recipe, "delta", attrs.delta);
    yki_arg_int(recipe, "k", attrs.k);
    if (weighted)
        add_weights(problem, &attrs, recipe);
    yki_launch_grid(launch, form.groups, (yki_expr){0}, (yki_expr){0}, form.items, 1, 1);
    yki_launch_iterations(launch, problem, 4.0 * (double)count * (double)problem->max.batch,
                          4 * count);
    if (launch) {
        launch->flops = YKI_PER_SAMPLE(6 * count);
        launch->bytes = YKI_PER_SAMPLE(is_grad ? 12 * count : 8 * count);
    }
    return recipe->status;
}

static const yki_op *const loss_op = &yki_op_loss;
static const yki_op *const loss_grad_op = &yki_op_loss_grad;

const yki_solver yki_solver_loss = {
    .name = "loss-plain",
    .op = &loss_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit,
};

const yki_solver yki_solver_loss_grad = {
    .name = "loss-grad-plain",
    .op = &loss_grad_op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit,
};

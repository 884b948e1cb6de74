/* SPDX-License-Identifier: Apache-2.0
 *
 * fused_loss.c - all that a training step needs of its loss in one operator: the sum
 * over the batch, its gradient, and metrics of the same operands. Only fusions make it
 * (plan/fuse_loss.c), from the operators in loss.c; its results have the same bits as
 * theirs.
 *
 * A small batch is one group and one launch. This operator is for such batches: with
 * few samples a launch costs more than its work. Larger batches are spread over the
 * device, and a second launch sums them.
 */
#include <stdio.h>
#include <string.h>

#include "op/loss/loss.h"

enum { ALONE_ELEMENTS = 4096, ALONE_SAMPLES = 4096 };

static const char *const kernels[YKI_LOSS_KINDS] = {
    "yki_softmax_ce_step", "yki_ce_step", "yki_bce_step",
    "yki_mse_step",        "yki_l1_step", "yki_huber_step",
};

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_fused_loss_attrs a = yki_fused_loss_attrs_get(attrs);
    yki_attrs loss = {{0}};
    int used;

    memcpy(loss.bytes, &a.loss, sizeof a.loss);
    yki_op_loss.describe(&loss, text, size);
    used = snprintf(NULL, 0, "%s", text);
    if ((size_t)used < size)
        snprintf(text + used, size - (size_t)used, " m%d:%d,%d%s", a.metrics, a.k[0], a.k[1],
                 a.gradient ? " grad" : "");
}

const yki_op yki_op_fused_loss = {
    .name = "loss_step",
    .infer = yki_infer_joined,
    .describe = describe,
};

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_fused_loss_attrs a = yki_fused_loss_attrs_get(&problem->attrs);

    return yki_plain_applies(problem, traits) && kernels[a.loss.kind] != NULL && !a.loss.rows;
}

static void
emit_sums(yki_recipe *recipe, const uint32_t *results, uint32_t pairs, int64_t stride,
          int32_t metrics)
{
    yki_launch *launch =
        yki_recipe_launch(recipe, "loss.cl", "yki_loss_sums", "%s", recipe->launches[0].options);

    yki_arg_slot(recipe, pairs);
    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, results[i]);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_arg_int(recipe, "stride", stride);
    yki_arg_int(recipe, "metrics", metrics);
    yki_launch_grid(launch, YKI_CONST(1), (yki_expr){0}, (yki_expr){0},
                    recipe->launches[0].local[0], 1, 1);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_fused_loss_attrs a = yki_fused_loss_attrs_get(&problem->attrs);
    int64_t count = yki_shape_count(problem->in[0].shape), n = problem->max.batch;
    int64_t classes = problem->in[0].shape.rank ? problem->in[0].shape.dim[0] : 1;
    yki_loss_form form = yki_loss_form_for(problem, traits, a.loss.kind);
    /* Work-items side by side are spread where a sample for each would be too much. */
    bool alone = form.items == 1 ? n * count <= ALONE_ELEMENTS && n <= ALONE_SAMPLES : !form.spread;
    uint32_t out = problem->input_count, pairs, results[3];
    uint32_t metrics = (uint32_t)a.metrics, gradient = out + 1 + metrics;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    pairs = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(8 * n * (1 + metrics)));
    for (uint32_t i = 0; i < 3; i++)
        results[i] = i <= metrics ? out + i : out;
    launch = yki_recipe_launch(recipe, "loss.cl", kernels[a.loss.kind],
                               "-DWG=%u -DLABEL=%s -DSPREAD=%d -DMETRICS=%d", form.items,
                               problem->in[1].type == YOKE_U8 ? "uchar" : "int", form.spread,
                               form.spread ? (int)a.metrics : 0);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, a.gradient ? gradient : pairs);
    yki_arg_slot(recipe, pairs);
    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, results[i]);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_arg_int(recipe, "stride", n);
    yki_arg_int(recipe, "classes", classes);
    yki_arg_int(recipe, "positions", count / classes);
    yki_arg_int(recipe, "has_ignore", a.loss.has_ignore_index);
    yki_arg_int(recipe, "ignore", a.loss.ignore_index);
    yki_arg_float(recipe, "smoothing", a.loss.label_smoothing);
    yki_arg_float(recipe, "delta", a.loss.delta);
    yki_arg_int(recipe, "metrics", a.metrics);
    yki_arg_int(recipe, "k0", a.k[0]);
    yki_arg_int(recipe, "k1", a.k[1]);
    yki_arg_int(recipe, "with_grad", a.gradient);
    yki_arg_int(recipe, "alone", alone);
    yki_launch_grid(launch, alone ? YKI_CONST(1) : form.groups, (yki_expr){0}, (yki_expr){0},
                    form.items, 1, 1);
    if (launch) {
        launch->flops = YKI_PER_SAMPLE((6 + 4 * a.gradient + 2 * a.metrics) * count);
        launch->bytes = YKI_PER_SAMPLE((8 + 4 * a.gradient) * count);
    }
    if (!alone && recipe->status == YOKE_OK)
        emit_sums(recipe, results, pairs, n, a.metrics);
    return recipe->status;
}

static const yki_op *const op = &yki_op_fused_loss;

const yki_solver yki_solver_fused_loss = {
    .name = "loss-step",
    .op = &op,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * dense_loss.c - the last dense layer of a network with its loss and its backward: what
 * fused_loss.c gives, and the gradients by weight, bias and input. Only fusions make it
 * (plan/fuse_dense_loss.c), on CPUs.
 *
 * Such a layer has as few units as there are classes, so each of its steps alone is less
 * work than a launch costs. Together they are one launch of one work-item, without an
 * exchange: waking another core for so little takes longer. Larger layers keep their tasks.
 */
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

/* FLOPs of a batch, forward and backward: some 50 us of a core, as much as the launches that are
 * saved. */
static const double MOST_FLOPS = 4e6;
enum { MOST_UNITS = 64, BLOCK = 8 /* samples, and units, that the kernel takes at once */ };

static const char *const kinds[YKI_LOSS_KINDS] = {
    "softmax_ce", "ce", "bce", "mse", "l1", "huber",
};

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_dense_loss_attrs a = yki_dense_loss_attrs_get(attrs);
    yki_attrs loss = {{0}};
    int used;

    yki_fused_loss_attrs_set(&loss, &a.loss);
    yki_op_fused_loss.describe(&loss, text, size);
    used = snprintf(NULL, 0, "%s", text);
    if ((size_t)used < size)
        snprintf(text + used, size - (size_t)used, "%s%s%s", a.bias ? " bias" : "",
                 a.gate ? " gate" : "", a.input ? " dx" : "");
}

const yki_op yki_op_dense_loss = {
    .name = "dense_loss",
    .infer = yki_infer_joined,
    .describe = describe,
};

static int64_t
units_of(const yki_problem *problem)
{
    return problem->in[1].shape.dim[0];
}

static int64_t
inputs_of(const yki_problem *problem)
{
    return problem->in[1].shape.dim[1];
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_dense_loss_attrs a = yki_dense_loss_attrs_get(&problem->attrs);

    return traits->type == YOKE_DEVICE_CPU && traits->vector_width >= 4 &&
           yki_plain_applies(problem, traits) && kinds[a.loss.loss.kind] &&
           problem->in[0].shape.rank == 1 && problem->in[1].shape.rank == 2 &&
           units_of(problem) <= MOST_UNITS &&
           6.0 * (double)(units_of(problem) * inputs_of(problem) * problem->max.batch) <=
               MOST_FLOPS;
}

static void
add_results(yki_recipe *recipe, const yki_problem *problem, const yki_dense_loss_attrs *a,
            uint32_t scratch)
{
    uint32_t next = problem->input_count, metrics = (uint32_t)a->loss.metrics;

    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, i <= metrics ? next + i : scratch);
    next += 1 + metrics;
    yki_arg_slot(recipe, next++);
    yki_arg_slot(recipe, next++);
    yki_arg_slot(recipe, a->bias ? next++ : scratch);
    yki_arg_slot(recipe, a->input ? next : scratch);
}

/* An upper bound of the iterations of the kernel's loops. */
static int64_t
iterations_of(int64_t n, int64_t inputs, int64_t units, int64_t padded, int64_t lanes)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK, vectors = (inputs + lanes - 1) / lanes;

    return padded * (inputs + 1) + blocks * (padded / lanes) * inputs + n * (4 * units + padded) +
           blocks * vectors * units + vectors * (padded / BLOCK) * n + (padded / lanes) * n +
           units * BLOCK * vectors;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_dense_loss_attrs a = yki_dense_loss_attrs_get(&problem->attrs);
    int64_t n = problem->max.batch, units = units_of(problem), inputs = inputs_of(problem);
    int lanes = traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;
    int64_t padded = yki_round_up(units, YKI_MAX(lanes, BLOCK));
    uint32_t target = 2 + (uint32_t)a.bias, scratch;
    yoke_type type = problem->in[target].type;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    scratch = yki_recipe_slot(
        recipe, YKI_SLOT_SCRATCH,
        YKI_CONST(4 * ((inputs + 1) * padded + n * padded + 2 * n * (1 + a.loss.metrics))));
    launch = yki_recipe_launch(recipe, "loss.cl", "yki_dense_loss",
                               "-DWG=1 -DLABEL=%s -DTARGET=%s -DLANES=%d -DDENSE=%s -DMETRIC=%s",
                               type == YOKE_U8 ? "uchar" : "int",
                               type == YOKE_U8    ? "uchar"
                               : type == YOKE_F32 ? "float"
                                                  : "int",
                               lanes, kinds[a.loss.loss.kind], type == YOKE_F32 ? "l1" : "top_k");
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, a.bias ? 2 : 1);
    yki_arg_slot(recipe, target);
    add_results(recipe, problem, &a, scratch);
    yki_arg_slot(recipe, scratch);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_arg_int(recipe, "most", n);
    yki_arg_int(recipe, "inputs", inputs);
    yki_arg_int(recipe, "classes", units);
    yki_arg_int(recipe, "per_target", yki_shape_count(problem->in[target].shape));
    yki_arg_int(recipe, "has_bias", a.bias);
    yki_arg_int(recipe, "gate", a.gate);
    yki_arg_int(recipe, "with_dx", a.input);
    yki_arg_int(recipe, "has_ignore", a.loss.loss.has_ignore_index);
    yki_arg_int(recipe, "ignore", a.loss.loss.ignore_index);
    yki_arg_float(recipe, "smoothing", a.loss.loss.label_smoothing);
    yki_arg_float(recipe, "delta", a.loss.loss.delta);
    yki_arg_int(recipe, "metrics", a.loss.metrics);
    yki_arg_int(recipe, "k0", a.loss.k[0]);
    yki_arg_int(recipe, "k1", a.loss.k[1]);
    yki_launch_grid(launch, YKI_CONST(1), (yki_expr){0}, (yki_expr){0}, 1, 1, 1);
    if (launch) {
        launch->iterations = iterations_of(n, inputs, units, padded, lanes);
        launch->flops = YKI_PER_SAMPLE((a.input ? 6 : 4) * inputs * units + 10 * units);
        launch->bytes = YKI_PER_SAMPLE((a.input ? 8 : 4) * inputs);
        launch->bytes.constant = 8 * inputs * units;
    }
    return recipe->status;
}

static const yki_op *const op = &yki_op_dense_loss;

const yki_solver yki_solver_dense_loss = {
    .name = "dense-loss",
    .op = &op,
    .applies = applies,
    .emit = emit,
};

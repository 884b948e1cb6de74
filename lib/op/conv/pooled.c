/* SPDX-License-Identifier: Apache-2.0
 *
 * pooled.c - a convolution of few channels with its bias, relu, and pooling over windows of
 * 2 x 2; and the gradients of its weights and bias (clkernels/conv_pooled.cl). Only fusions make
 * these operators (plan/fuse_pooled.c), on CPUs.
 *
 * A first layer is bound by memory: its image before the pooling is written once and read once
 * forward, and read, written and read twice backward. Here that image is in no memory: backward
 * computes it again. With few taps that is the smaller work.
 */
#include <stdio.h>
#include <string.h>

#include "op/conv/conv.h"

/* Of taps, above which the image is cheaper to read than to compute. With so few no device uses
 * Winograd, so devices need not agree about the class. Of a strip, in floats. */
enum { MOST_TAPS = 50, MOST_STRIP = 1 << 16, LEAST_WINDOWS = 2 /* W of the kernel */ };

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_conv_pooled_attrs a = yki_conv_pooled_attrs_get(attrs);
    yki_attrs conv = {{0}};
    size_t used;

    yki_conv_attrs_set(&conv, &a.conv);
    yki_op_conv2d.describe(&conv, text, size);
    used = strlen(text);
    snprintf(text + used, size - used, "%s %s", a.bias ? " bias" : "", a.max ? "max" : "mean");
}

const yki_op yki_op_conv_pooled = {
    .name = "conv_pooled",
    .infer = yki_infer_joined,
    .describe = describe,
};

const yki_op yki_op_conv_pooled_grad = {
    .name = "conv_pooled_grad",
    .infer = yki_infer_joined,
    .describe = describe,
};

typedef struct layer {
    yki_conv_pooled_attrs a;
    int64_t c, h, w, o, oh, ow, taps;
    int64_t v, pairs;           /* of blocks of v output channels */
    int64_t line_at, grad_step; /* floats of a group's scratch: before its line, and all */
    yki_operand *small;         /* the result of the pooling, or its gradient */
    bool is_grad;
} layer;

static int64_t
reach(const yki_conv_attrs *a, int i, int64_t pixels)
{
    return (pixels - 1) * a->stride[i] + (a->kernel[i] - 1) * (int64_t)a->dilation[i] + 1;
}

static int64_t
strip_of(const layer *l)
{
    return l->c * reach(&l->a.conv, 0, 2) * reach(&l->a.conv, 1, 2 * l->ow);
}

static layer
layer_of(yki_problem *problem, const yki_device_traits *traits)
{
    layer l = {.a = yki_conv_pooled_attrs_get(&problem->attrs),
               .is_grad = problem->op == &yki_op_conv_pooled_grad,
               .v = yki_conv_width(traits)};
    int64_t weights;

    l.small = l.is_grad ? &problem->in[problem->input_count - 1] : &problem->out;
    l.c = problem->in[0].shape.dim[0];
    l.h = problem->in[0].shape.dim[1];
    l.w = problem->in[0].shape.dim[2];
    l.o = l.small->shape.dim[0];
    l.oh = l.small->shape.dim[1];
    l.ow = l.small->shape.dim[2];
    l.taps = l.c * l.a.conv.kernel[0] * l.a.conv.kernel[1];
    l.pairs = (l.o + 2 * l.v - 1) / (2 * l.v);
    weights = l.pairs * (l.taps + 1) * 2 * l.v;
    l.line_at = yki_round_up(weights + strip_of(&l), 16);
    l.grad_step = l.line_at + 5 * l.ow * 2 * l.v + weights;
    return l;
}

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    layer l = layer_of(problem, traits);

    if (variant > 1)
        return false;
    l.small->layout.block = variant ? 1 : (uint32_t)l.v;
    return true;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_problem copy = *problem;
    layer l;

    if (!yki_conv_is_cpu(traits))
        return false;
    l = layer_of(&copy, traits);
    for (uint32_t i = 0; i < yki_problem_operands(problem); i++) {
        const yki_operand *operand = yki_problem_operand(&copy, i);

        if (operand->layout.block > 1 && (operand != l.small || operand->layout.block != l.v))
            return false;
    }
    return l.a.conv.groups == 1 && l.taps <= MOST_TAPS && l.ow >= LEAST_WINDOWS &&
           strip_of(&l) <= MOST_STRIP && l.grad_step * traits->compute_units < INT32_MAX &&
           problem->in[0].batched && !problem->in[1].batched;
}

static yki_launch *
add_launch(const yki_problem *problem, const yki_device_traits *traits, const layer *l,
           uint32_t result, yki_expr groups, yki_recipe *recipe)
{
    int64_t units = traits->compute_units, step = l->is_grad ? l->grad_step : l->line_at;
    uint32_t scratch, tables;
    yki_launch *launch;
    yki_conv conv = {.a = l->a.conv};
    const yki_named_int sizes[] = {{"c", l->c}, {"h", l->h},   {"w", l->w},
                                   {"o", l->o}, {"oh", l->oh}, {"ow", l->ow}};

    step += l->is_grad ? 0 : l->ow * 2 * l->v;
    scratch = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * units * step));
    tables = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * units * l->taps));
    launch = yki_recipe_launch(recipe, "conv_pooled.cl",
                               l->is_grad ? "yki_conv_pooled_grad" : "yki_conv_pooled",
                               "-DV=%d -DBLOCK=%u", (int)l->v, YKI_MAX(l->small->layout.block, 1u));
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, l->a.bias ? 2 : 1); /* a kernel has no optional arguments */
    if (l->is_grad)
        yki_arg_slot(recipe, problem->input_count - 1);
    yki_arg_slot(recipe, result);
    yki_arg_slot(recipe, scratch);
    yki_arg_slot(recipe, tables);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_arg_ints(recipe, sizes, YKI_COUNT(sizes));
    yki_arg_window(recipe, &conv);
    yki_arg_int(recipe, "is_max", l->a.max);
    yki_arg_int(recipe, "act", l->a.conv.act);
    yki_arg_int(recipe, "has_bias", l->a.bias);
    yki_arg_int(recipe, "line_at", l->line_at);
    yki_arg_int(recipe, "scratch_step", step);
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->flops = YKI_PER_SAMPLE((l->is_grad ? 16 : 8) * l->o * l->oh * l->ow * l->taps);
        launch->bytes = yki_problem_bytes(problem);
    }
    return launch;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_problem copy = *problem;
    layer l = layer_of(&copy, traits);
    yki_expr groups = YKI_PER_SAMPLE(l.oh);

    (void)tuning;
    yki_recipe_start(recipe, problem);
    groups.max = traits->compute_units; /* and no group if there are no samples */
    (void)add_launch(problem, traits, &l, problem->input_count, groups, recipe);
    return recipe->status;
}

/* Each group has sums of its own, of zeros if there are no samples for it. */
static yoke_status
emit_grad(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    yki_problem copy = *problem;
    layer l = layer_of(&copy, traits);
    int64_t units = traits->compute_units, weights = l.o * l.taps;
    uint32_t part, dw = problem->input_count;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * units * (weights + l.o)));
    (void)add_launch(problem, traits, &l, part, YKI_CONST(units), recipe);
    launch = yki_recipe_launch(recipe, "conv_pooled.cl", "yki_conv_pooled_sum", "-DV=%d -DBLOCK=%u",
                               (int)l.v, YKI_MAX(l.small->layout.block, 1u));
    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, dw);
    yki_arg_slot(recipe, l.a.bias ? dw + 1 : dw);
    yki_arg_int(recipe, "parts", units);
    yki_arg_int(recipe, "weights", weights);
    yki_arg_int(recipe, "biases", l.a.bias ? l.o : 0);
    yki_arg_int(recipe, "part_step", weights + l.o);
    yki_launch_grid(launch, YKI_CONST(1), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch)
        launch->bytes = YKI_CONST(4 * (units + 1) * (weights + l.o));
    return recipe->status;
}

static const yki_op *const forward_op = &yki_op_conv_pooled;
static const yki_op *const grad_op = &yki_op_conv_pooled_grad;

const yki_solver yki_solver_conv_pooled = {
    .name = "conv-pooled",
    .op = &forward_op,
    .applies = applies,
    .layouts = layouts,
    .emit = emit,
};

const yki_solver yki_solver_conv_pooled_grad = {
    .name = "conv-pooled-grad",
    .op = &grad_op,
    .applies = applies,
    .layouts = layouts,
    .emit = emit_grad,
};

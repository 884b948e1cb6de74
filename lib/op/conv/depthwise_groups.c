/* SPDX-License-Identifier: Apache-2.0
 *
 * depthwise_groups.c - convolutions with one filter per channel on devices that run
 * the work-items of a group side by side (clkernels/conv_depthwise_groups.cl).
 *
 * The window's shape is compiled in. So windows are small, as in all known networks;
 * the others, and several filters per channel, are left to other solvers; in canonical plans also
 * an image of one channel: there the general solvers set the order of sums on every device.
 */
#include "op/conv/conv.h"

enum {
    MAX_KERNEL = 5,
    MAX_STRIDE = 2,
    COLUMNS = 4, /* of a work-item, and its rows */
    ROWS = 2,
    MAX_GROUPS = 16384,
    MAX_CHANNELS = 65535,
    GROUPS_PER_UNIT = 8, /* of a gradient by the weights */
    MAX_SPLITS = 64
};

static int64_t
ceil_of(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static uint32_t
items_of(const yki_device_traits *traits)
{
    uint32_t items = 128;

    while (items > traits->max_group)
        items /= 2;
    return items;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    int64_t samples = conv.batched ? problem->max.batch : 1;
    bool small = true;

    for (int i = 0; i < 2; i++)
        small = small && conv.a.kernel[i] <= MAX_KERNEL && conv.a.stride[i] <= MAX_STRIDE &&
                conv.a.pad[i] < conv.a.kernel[i] && conv.a.dilation[i] == 1;
    return small && yki_plain_applies(problem, traits) && !yki_conv_is_cpu(traits) &&
           conv.cg == 1 && conv.og == 1 && (!traits->canonical || conv.a.groups > 1) &&
           conv.c <= MAX_CHANNELS &&
           4 * conv.taps * items_of(traits) <= (int64_t)traits->local_memory &&
           samples * conv.c <= INT32_MAX / 4 &&
           (double)(samples * conv.c) * (double)YKI_MAX(conv.h, conv.oh) *
                   (double)(YKI_MAX(conv.w, conv.ow) + COLUMNS) <=
               INT32_MAX;
}

static yki_launch *
start(yki_recipe *recipe, const char *kernel, const yki_conv *conv, uint32_t items, bool transposed)
{
    const yki_conv_attrs *a = &conv->a;

    return yki_recipe_launch(
        recipe, "conv_depthwise_groups.cl", kernel,
        "-DWG=%u -DKH=%d -DKW=%d -DSH=%d -DSW=%d -DPH=%d -DPW=%d -DTRANSPOSED=%d", items,
        a->kernel[0], a->kernel[1], a->stride[0], a->stride[1], a->pad[0], a->pad[1], transposed);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    bool transposed = problem->op == &yki_op_conv2d_grad_input;
    int64_t h = transposed ? conv.oh : conv.h, w = transposed ? conv.ow : conv.w;
    int64_t oh = transposed ? conv.h : conv.oh, ow = transposed ? conv.w : conv.ow;
    yki_expr groups = yki_conv_times(&conv, conv.c * ceil_of(oh, ROWS) * ceil_of(ow, COLUMNS));
    uint32_t items = items_of(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = start(recipe, "yki_depthwise", &conv, items, transposed);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv.has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe,
                 (const yki_named_int[]){{"c", conv.c}, {"h", h}, {"w", w}, {"oh", oh}, {"ow", ow}},
                 5);
    yki_arg_int(recipe, "has_bias", conv.has_bias);
    yki_arg_int(recipe, "act", conv.a.act);
    if (!launch)
        return recipe->status;
    /* An unrolled loop counts as one iteration. */
    groups.divisor = items;
    groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), items, 1, 1);
    yki_launch_iterations(launch, problem,
                          (double)(conv.batched ? problem->max.batch : 1) * (double)conv.c *
                              (double)(ceil_of(oh, ROWS) * ceil_of(ow, COLUMNS)),
                          1);
    launch->flops = yki_conv_flops(&conv);
    launch->bytes = yki_problem_bytes(problem);
    return recipe->status;
}

static yoke_status
emit_weight(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    int64_t most = conv.batched ? problem->max.batch : 1, splits;
    uint32_t items = items_of(traits), part;
    yki_launch *launch;

    (void)tuning;
    splits = ceil_of((int64_t)traits->compute_units * GROUPS_PER_UNIT, conv.c);
    splits = YKI_MAX(YKI_MIN(YKI_MIN(splits, most), MAX_SPLITS), 1);
    yki_recipe_start(recipe, problem);
    part = splits > 1 ? yki_recipe_slot(recipe, YKI_SLOT_SCRATCH,
                                        YKI_CONST(4 * splits * conv.c * conv.taps))
                      : problem->input_count;
    launch = start(recipe, "yki_depthwise_grad_weight", &conv, items, false);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe,
                 (const yki_named_int[]){{"splits", splits},
                                         {"c", conv.c},
                                         {"h", conv.h},
                                         {"w", conv.w},
                                         {"oh", conv.oh},
                                         {"ow", conv.ow}},
                 6);
    if (!launch)
        return recipe->status;
    yki_launch_grid(launch, YKI_CONST(conv.c), YKI_CONST(splits), YKI_CONST(1), items, 1, 1);
    yki_launch_iterations(
        launch, problem, 0,
        ceil_of(ceil_of(most, splits) * conv.oh * ceil_of(conv.ow, COLUMNS), items) +
            16 * conv.taps);
    launch->flops = yki_conv_flops(&conv);
    launch->bytes = yki_problem_bytes(problem);
    if (splits > 1)
        yki_conv_sum_parts(recipe, traits, part, problem->input_count, conv.c * conv.taps, splits);
    return recipe->status;
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;
static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;

const yki_solver yki_solver_depthwise_groups = {
    .name = "conv2d-depthwise-groups",
    .op = &forward_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit,
};

const yki_solver yki_solver_depthwise_groups_grad_input = {
    .name = "conv2d-grad-input-depthwise-groups",
    .op = &grad_input_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit,
};

const yki_solver yki_solver_depthwise_groups_grad_weight = {
    .name = "conv2d-grad-weight-depthwise-groups",
    .op = &grad_weight_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = applies,
    .emit = emit_weight,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * plain_solver.c - convolutions in plain layout on any device, for all attributes: as
 * implicit matrix products, or element by element.
 *
 * Both ways are tunings of one solver per operator. The guess is the product where a
 * group has enough channels to fill tiles.
 */
#include "op/conv/conv.h"

enum { MAX_GROUPS = 16384, FEW_CHANNELS = 8 };

typedef struct form {
    const char *gemm, *gather;
} form;

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    (void)traits;
    return 2;
}

/* The side of a square work-group: 16 where a group may have 256 work-items. */
static uint32_t
tile_side(const yki_device_traits *traits)
{
    return traits->max_group >= 256 ? 16 : traits->max_group >= 64 ? 8 : 1;
}

static uint32_t
group_items(const yki_device_traits *traits)
{
    uint32_t items = 64;

    while (items > traits->max_group)
        items /= 2;
    return items;
}

static void
shape_args(yki_recipe *recipe, const yki_conv *conv)
{
    const yki_named_int sizes[] = {{"groups", conv->a.groups},
                                   {"cg", conv->cg},
                                   {"og", conv->og},
                                   {"h", conv->h},
                                   {"w", conv->w},
                                   {"oh", conv->oh},
                                   {"ow", conv->ow}};

    yki_arg_expr(recipe, "samples", conv->n);
    yki_arg_ints(recipe, sizes, YKI_COUNT(sizes));
    yki_arg_window(recipe, conv);
}

static bool
use_gemm(const yki_conv *conv, unsigned tuning)
{
    return (YKI_MIN(conv->cg, conv->og) >= FEW_CHANNELS) == (tuning == 0);
}

/* An iteration is a multiply-add, or one step of a product of tiles. A sum has `length` terms;
 * what a work-item loads for it counts too. */
static void
set_iterations(yki_launch *launch, const yki_problem *problem, const yki_conv *conv, bool gemm,
               uint32_t side, int64_t length)
{
    double multiplies = (double)yki_expr_value(yki_conv_flops(conv), problem->max) / 2;

    if (gemm)
        yki_launch_iterations(launch, problem, multiplies / 16,
                              length * (2 + (8 + side - 1) / side));
    else
        yki_launch_iterations(launch, problem, multiplies, length);
}

/* Forward and the input's gradient. `rows` and `area` are those of the result's group. */
static yoke_status
emit_image(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe, const form *names, int64_t rows, int64_t area)
{
    yki_conv conv = yki_conv_of(problem);
    bool gemm = use_gemm(&conv, tuning);
    uint32_t side = tile_side(traits), items = group_items(traits);
    yki_launch *launch;
    yki_expr groups;

    yki_recipe_start(recipe, problem);
    if (gemm)
        launch = yki_recipe_launch(recipe, "conv_gemm.cl", names->gemm, "-DTS=%u", side);
    else
        launch = yki_recipe_launch(recipe, "conv_gather.cl", names->gather, "-DWG=%u", items);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv.has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, problem->input_count);
    shape_args(recipe, &conv);
    yki_arg_int(recipe, "has_bias", conv.has_bias);
    yki_arg_int(recipe, "act", conv.a.act);
    if (!launch)
        return recipe->status;
    groups = yki_conv_times(&conv, gemm ? area : rows * conv.a.groups * area);
    groups.divisor = gemm ? 4 * side : items;
    groups.max = MAX_GROUPS;
    if (gemm)
        yki_launch_grid(launch, groups,
                        YKI_CONST(YKI_MIN((rows + 4 * side - 1) / (4 * side), MAX_GROUPS)),
                        YKI_CONST(YKI_MIN(conv.a.groups, MAX_GROUPS)), side, side, 1);
    else
        yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), items, 1, 1);
    set_iterations(launch, problem, &conv, gemm, side,
                   problem->op == &yki_op_conv2d ? conv.cg * conv.taps : conv.og * conv.taps);
    launch->flops = yki_conv_flops(&conv);
    launch->bytes = yki_problem_bytes(problem);
    return recipe->status;
}

static yoke_status
emit_forward(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
             yki_recipe *recipe)
{
    static const form names = {"yki_conv_gemm_forward", "yki_conv_gather_forward"};
    yki_conv conv = yki_conv_of(problem);

    return emit_image(problem, traits, tuning, recipe, &names, conv.og, conv.oh * conv.ow);
}

static yoke_status
emit_grad_input(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
                yki_recipe *recipe)
{
    static const form names = {"yki_conv_gemm_grad_input", "yki_conv_gather_grad_input"};
    yki_conv conv = yki_conv_of(problem);

    return emit_image(problem, traits, tuning, recipe, &names, conv.cg, conv.h * conv.w);
}

/* Enough splits of the samples to fill the device, given `tiles` independent pieces of work. */
static int64_t
split_count(const yki_problem *problem, const yki_device_traits *traits, int64_t tiles)
{
    int64_t wanted = (int64_t)traits->compute_units * 4, splits = (wanted + tiles - 1) / tiles;

    return YKI_MAX(YKI_MIN(YKI_MIN(splits, problem->max.batch), 64), 1);
}

static yoke_status
emit_grad_weight(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
                 yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    bool gemm = use_gemm(&conv, tuning);
    uint32_t side = tile_side(traits), items = group_items(traits), part;
    int64_t columns = conv.cg * conv.taps, elements = conv.o * columns;
    int64_t tiles_m = (conv.og + 4 * side - 1) / (4 * side);
    int64_t tiles_p = (columns + 4 * side - 1) / (4 * side);
    int64_t splits =
        split_count(problem, traits, gemm ? tiles_m * tiles_p * conv.a.groups : elements);
    yki_launch *launch;

    yki_recipe_start(recipe, problem);
    part = splits > 1 ? yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * splits * elements))
                      : problem->input_count;
    if (gemm)
        launch =
            yki_recipe_launch(recipe, "conv_gemm.cl", "yki_conv_gemm_grad_weight", "-DTS=%u", side);
    else
        launch = yki_recipe_launch(recipe, "conv_gather.cl", "yki_conv_gather_grad_weight",
                                   "-DWG=%u", items);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    shape_args(recipe, &conv);
    yki_arg_int(recipe, "splits", splits);
    if (!launch)
        return recipe->status;
    if (gemm)
        yki_launch_grid(launch, YKI_CONST(YKI_MIN(tiles_p, MAX_GROUPS)),
                        YKI_CONST(YKI_MIN(tiles_m, MAX_GROUPS)),
                        YKI_CONST(YKI_MIN(conv.a.groups * splits, MAX_GROUPS)), side, side, 1);
    else
        yki_launch_grid(launch, YKI_CONST(YKI_MIN(elements, MAX_GROUPS)), YKI_CONST(splits),
                        YKI_CONST(1), items, 1, 1);
    set_iterations(launch, problem, &conv, gemm, side,
                   (problem->max.batch + splits - 1) / splits * conv.oh * conv.ow /
                       (gemm ? 1 : items));
    launch->flops = yki_conv_flops(&conv);
    launch->bytes = yki_problem_bytes(problem);
    if (splits > 1)
        yki_conv_sum_parts(recipe, traits, part, problem->input_count, elements, splits);
    return recipe->status;
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;
static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;

const yki_solver yki_solver_conv_plain = {
    .name = "conv2d-plain",
    .op = &forward_op,
    .side_by_side = true,
    .applies = yki_plain_applies,
    .tunings = tunings,
    .emit = emit_forward,
};

const yki_solver yki_solver_conv_plain_grad_input = {
    .name = "conv2d-grad-input-plain",
    .op = &grad_input_op,
    .side_by_side = true,
    .applies = yki_plain_applies,
    .tunings = tunings,
    .emit = emit_grad_input,
};

const yki_solver yki_solver_conv_plain_grad_weight = {
    .name = "conv2d-grad-weight-plain",
    .op = &grad_weight_op,
    .side_by_side = true,
    .applies = yki_plain_applies,
    .tunings = tunings,
    .emit = emit_grad_weight,
};

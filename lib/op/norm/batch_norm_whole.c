/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm_whole.c - batch normalisation in one launch where work-items run side by side: a group
 * takes whole channels, with its statistics (norm_whole.cl). For channels that fit the caches of a
 * compute unit, if there are enough of them to occupy the device; batch_norm_groups.c divides the
 * others. Of a channel that is small a launch costs more than its work.
 *
 * The statistics alone are the same kernel without its last pass. A plan that saves memory keeps
 * them apart from their use (plan/recompute.c), and has the same bits.
 */
#include "op/conv/conv.h"
#include "op/norm/norm.h"

enum {
    MAX_GROUPS = 16384,
    SMALL_CHANNEL = 8192,  /* elements that one group takes alone on any device */
    LARGE_CHANNEL = 65536, /* and where there is a channel for every other compute unit */
    ITEMS = 1024,
    FEW_ITEMS = 256,
    MOST_ELEMENTS = 1 << 30 /* whose addresses are ints */
};

enum { ALONE = 8 }; /* one more bit of the kernel's flags: statistics only */

/* Elements of a channel, at most. */
static int64_t
channel_size(const yki_problem *problem)
{
    return yki_shape_count(problem->in[0].shape) / problem->in[0].shape.dim[0] * problem->max.batch;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_operand *x = &problem->in[0];
    int64_t size;

    if (yki_conv_is_cpu(traits) || !x->batched || !yki_plain_applies(problem, traits))
        return false;
    size = channel_size(problem);
    return yki_operand_count(x, problem->max) <= MOST_ELEMENTS &&
           (size <= SMALL_CHANNEL ||
            (size <= LARGE_CHANNEL && 2 * x->shape.dim[0] >= (int64_t)traits->compute_units));
}

/* Both kernels take gamma and beta from input `at` on; where the problem lacks an operand they get
 * x, which the flags keep from being read. */
static void
parameters(yki_recipe *recipe, const yki_problem *problem, const yki_bn_attrs *a, uint32_t at)
{
    for (uint32_t i = at; i < at + 2; i++)
        yki_arg_slot(recipe, a->affine && i < problem->input_count ? i : 0);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);
    const bool is_grad = problem->op == &yki_op_bn_layer_grad;
    const bool alone = problem->op == &yki_op_bn_stats;
    const int64_t channels = problem->in[0].shape.dim[0];
    const int64_t area = yki_shape_count(problem->in[0].shape) / channels;
    const int64_t size = channel_size(problem);
    const uint32_t out = problem->input_count, vector = area % 4 == 0 ? 4 : 1;
    uint32_t items = size > SMALL_CHANNEL / 2 ? ITEMS : FEW_ITEMS;
    yki_launch *launch;

    (void)tuning;
    while (items > traits->max_group)
        items /= 2;
    yki_recipe_start(recipe, problem);
    launch =
        yki_recipe_launch(recipe, "norm_whole.cl", is_grad ? "yki_bn_whole_grad" : "yki_bn_whole",
                          "-DVEC=%u -DWG=%u", vector, items);
    for (uint32_t i = 0; i < (is_grad ? 3 : 1); i++)
        yki_arg_slot(recipe, i);
    parameters(recipe, problem, &a, is_grad ? 3 : 1);
    if (!is_grad)
        yki_arg_slot(recipe, a.residual ? out - 1 : 0);
    yki_arg_slot(recipe, alone ? 0 : out);
    yki_arg_slot(recipe, alone ? out : out + 1);
    if (is_grad)
        yki_arg_slot(recipe, out + problem->extra_count);
    yki_arg_expr(recipe, "samples", YKI_BATCH);
    yki_arg_int(recipe, "channels", channels);
    yki_arg_int(recipe, "area", area);
    yki_arg_int(recipe, "flags", alone ? ALONE : yki_bn_flags(problem));
    yki_arg_float(recipe, "epsilon", a.epsilon);
    if (is_grad)
        yki_arg_int(recipe, "dot_at", problem->extra_count == 1 ? channels : 0);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(channels, MAX_GROUPS)), YKI_CONST(1), YKI_CONST(1),
                    items, 1, 1);
    yki_launch_iterations(launch, problem,
                          (is_grad || alone ? 2. : 3.) * (double)size / vector * (double)channels,
                          32);
    if (launch) {
        launch->flops = yki_operand_elements(&problem->in[0]);
        launch->flops.per_sample *= alone ? 4 : 8;
        launch->bytes = yki_problem_bytes(problem);
    }
    return recipe->status;
}

static const yki_op *const stats_op = &yki_op_bn_stats;
static const yki_op *const layer_op = &yki_op_bn_layer;
static const yki_op *const layer_grad_op = &yki_op_bn_layer_grad;

const yki_solver yki_solver_bn_stats_whole = {
    .name = "bn-stats-whole",
    .op = &stats_op,
    .side_by_side = true,
    .applies = applies,
    .emit = emit,
};

const yki_solver yki_solver_bn_layer_whole = {
    .name = "bn-layer-whole",
    .op = &layer_op,
    .side_by_side = true,
    .applies = applies,
    .emit = emit,
};

const yki_solver yki_solver_bn_layer_grad_whole = {
    .name = "bn-layer-grad-whole",
    .op = &layer_grad_op,
    .side_by_side = true,
    .applies = applies,
    .emit = emit,
};

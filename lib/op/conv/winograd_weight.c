/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_weight.c - the gradient of 3x3 weights at stride 1 by Winograd's F(3x3,
 * 4x4) on CPUs (yki_winograd_grad_weight in clkernels/winograd.cl).
 *
 * A unit of work is a square of input and output channels. Its 36 matrices of sums
 * stay in a cache while tiles pass. Where the tiles are so few that all are transformed at once,
 * neighbouring squares share the transformed gradients. Only where there are fewer squares than
 * compute units, the tiles are split too. The partial sums, which are already as small as the
 * weights, are then added in order.
 */
#include "op/conv/winograd.h"

enum { MAX_SPLITS = 64, CHANNELS = 64, CHUNK = 32, ONE_CHUNK = 64 };

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    if (variant || !yki_winograd_fits(problem, traits))
        return false;
    problem->in[0].layout.block = yki_conv_width(traits);
    problem->in[1].layout.block = yki_conv_width(traits);
    return true;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    uint32_t v = yki_conv_width(traits);

    return yki_winograd_fits(problem, traits) && problem->in[0].layout.block == v &&
           problem->in[1].layout.block == v && problem->out.layout.block <= 1;
}

typedef struct shape {
    int64_t v, c_most, o_most; /* blocks of channels in a unit; c_most is even */
    int64_t chunk;             /* tiles transformed together */
    int64_t splits, units;
    int64_t step; /* floats of a group's scratch */
} shape;

static int64_t
common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;

        a = b;
        b = t;
    }
    return a;
}

static int64_t
squares_of(const shape *s, int64_t in_blocks, int64_t out_blocks)
{
    return ((in_blocks + s->c_most - 1) / s->c_most) * ((out_blocks + s->o_most - 1) / s->o_most);
}

static shape
shape_for(const yki_problem *problem, const yki_device_traits *traits, const yki_conv *conv)
{
    shape s = {.v = yki_conv_width(traits), .chunk = CHUNK};
    int64_t in_blocks = (conv->c + s.v - 1) / s.v, out_blocks = (conv->o + s.v - 1) / s.v;
    int64_t units = traits->compute_units;
    int64_t most =
        (conv->batched ? problem->max.batch : 1) * yki_winograd_tiles(conv->oh, conv->ow);

    s.c_most = YKI_MIN(CHANNELS / s.v, (in_blocks + 1) / 2 * 2);
    if (most <= ONE_CHUNK) { /* x is transformed for each square anyway, so squares are narrow */
        s.chunk = YKI_MAX(most, 1);
        s.c_most = 2;
    }
    s.o_most = YKI_MIN(CHANNELS / s.v, out_blocks);
    s.units = squares_of(&s, in_blocks, out_blocks);
    /* A canonical sum is one chain over all tiles, so squares are as small as devices are wide. */
    while (traits->canonical && s.units < units && (s.o_most > 1 || s.c_most > 2)) {
        if (s.o_most > 1)
            s.o_most = (s.o_most + 1) / 2;
        else
            s.c_most = (s.c_most / 2 + 1) / 2 * 2;
        s.units = squares_of(&s, in_blocks, out_blocks);
    }
    /* Each compute unit gets the same number of units, unless there are many. */
    s.splits = traits->canonical      ? 1
               : s.units >= 4 * units ? 1
                                      : units / common_divisor(s.units, units);
    s.splits = YKI_MAX(YKI_MIN(YKI_MIN(s.splits, most / 8), MAX_SPLITS), 1);
    s.units *= s.splits;
    s.step = 36 * (s.chunk * s.c_most * s.v + YKI_WINOGRAD_SKEW) +
             36 * (s.chunk * s.o_most * s.v + YKI_WINOGRAD_SKEW) +
             36 * (s.c_most * s.v * s.o_most * s.v + YKI_WINOGRAD_SKEW);
    return s;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    shape s = shape_for(problem, traits, &conv);
    int64_t groups = YKI_MIN(traits->compute_units, s.units);
    int64_t tiles = yki_winograd_tiles(conv.oh, conv.ow), elements = conv.o * conv.c * 9;
    const yki_named_int values[] = {{"splits", s.splits},
                                    {"c_most", s.c_most},
                                    {"o_most", s.o_most},
                                    {"chunk", s.chunk},
                                    {"c", conv.c},
                                    {"h", conv.h},
                                    {"w", conv.w},
                                    {"o", conv.o},
                                    {"oh", conv.oh},
                                    {"ow", conv.ow},
                                    {"pad_h", conv.a.pad[0]},
                                    {"pad_w", conv.a.pad[1]},
                                    {"scratch_step", s.step}};
    uint32_t scratch, part = problem->input_count;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    scratch = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * s.step * groups));
    if (s.splits > 1)
        part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * s.splits * elements));
    launch = yki_recipe_launch(recipe, "winograd.cl", "yki_winograd_grad_weight", "-DV=%u",
                               (unsigned)s.v);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, scratch);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    if (!launch)
        return recipe->status;
    yki_launch_grid(launch, YKI_CONST(groups), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    launch->flops =
        yki_conv_times(&conv, tiles * (72 * conv.c * conv.o + 192 * conv.c + 140 * conv.o));
    launch->bytes = yki_problem_bytes(problem);
    if (s.splits > 1)
        yki_conv_sum_parts(recipe, traits, part, problem->input_count, elements, s.splits);
    return recipe->status;
}

static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;

const yki_solver yki_solver_winograd_grad_weight = {
    .name = "conv2d-grad-weight-winograd4",
    .op = &grad_weight_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .layouts = layouts,
    .emit = emit,
};

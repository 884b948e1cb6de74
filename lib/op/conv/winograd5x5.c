/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd5x5.c - 5x5 convolutions with stride 1 and their gradients by Winograd's
 * F(3x3, 5x5) on CPUs (clkernels/winograd5x5.cl has the arithmetic).
 *
 * A group transforms few tiles at a time, so that all that it keeps stays in a cache
 * near it. The gradient of the weights keeps its 49 matrices of sums there too; where
 * these are too large, it is left to the direct solvers.
 *
 * Layers with few channels, and images that tiles of 3 x 3 cover badly, are left to
 * them too, and so are those with many channels: errors grow with the root of their
 * number, and up to here they stay within the tolerance of F(4x4, 3x3).
 */
#include "op/conv/conv.h"

enum {
    LEAST_CHANNELS = 8, /* of x and y */
    MOST_CHANNELS = 256,
    PACK_GROUPS = 64,
    SKEW = 16,  /* floats between two matrices, the same as in the kernels */
    CHUNK = 36, /* tiles that the gradient of the weights transforms together */
    MOST_SUMS = 2 << 20,
};

/* What is read and written; the tiles lie on y, or on dy. */
typedef struct side {
    int64_t c, h, w, o, oh, ow, v, in_blocks, pairs, tiles, most, step;
    bool spread;
} side;

static int64_t
tiles_of(const yki_conv *conv)
{
    return (conv->oh + 2) / 3 * ((conv->ow + 2) / 3);
}

static bool
fits(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    const yki_conv_attrs *a = &conv.a;
    int64_t limit = INT32_MAX / 2, n = conv.batched ? problem->max.batch : 1;
    int64_t least = YKI_MIN(conv.c, conv.o), most = YKI_MAX(conv.c, conv.o);
    uint32_t v = yki_conv_width(traits);

    if (!yki_conv_is_cpu(traits) || a->groups != 1)
        return false;
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] != 5 || a->stride[i] != 1 || a->dilation[i] != 1 || a->pad[i] < 0 ||
            a->pad[i] > 4)
            return false;
    /* A tile of 9 results costs 49 products and the transforms; directly each result costs 25
     * products. */
    if (least < LEAST_CHANNELS || most > MOST_CHANNELS ||
        9 * tiles_of(&conv) > 2 * conv.oh * conv.ow)
        return false;
    return (conv.c + v) * conv.h * conv.w < limit && (conv.o + v) * conv.oh * conv.ow < limit &&
           n * tiles_of(&conv) < limit;
}

static bool
in_blocks_of(const yki_operand *one, const yki_operand *other, uint32_t v)
{
    return one->layout.block == v && other->layout.block == v;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return fits(problem, traits) &&
           in_blocks_of(&problem->in[0], &problem->out, yki_conv_width(traits)) &&
           problem->in[1].layout.block <= 1;
}

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    if (variant || !fits(problem, traits))
        return false;
    problem->in[0].layout.block = yki_conv_width(traits);
    problem->out.layout.block = yki_conv_width(traits);
    return true;
}

/* Tiles that are transformed together, a multiple of those multiplied at a time, P in the kernels:
 * with more the weights are read less often, with fewer more stays in the first-level cache. */
static int64_t
tiles_together(int64_t v, unsigned tuning)
{
    int64_t p = v == 16 ? 12 : 6;

    return tuning ? p : 3 * p;
}

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    (void)traits;
    return 2;
}

static side
side_of(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning)
{
    yki_conv conv = yki_conv_of(problem);
    int64_t v = yki_conv_width(traits);
    side s = {.c = conv.c, .h = conv.h, .w = conv.w, .o = conv.o, .oh = conv.oh, .ow = conv.ow};

    if (problem->op == &yki_op_conv2d_grad_input)
        s = (side){.c = conv.o,
                   .h = conv.oh,
                   .w = conv.ow,
                   .o = conv.c,
                   .oh = conv.h,
                   .ow = conv.w,
                   .spread = true};
    s.v = v;
    s.in_blocks = (s.c + v - 1) / v;
    s.pairs = (s.o + 2 * v - 1) / (2 * v);
    s.tiles = tiles_of(&conv);
    s.most = tiles_together(v, tuning);
    s.step = 49 * (s.most * s.in_blocks * v + SKEW) + 49 * (s.most * 2 * v + SKEW);
    return s;
}

static void
emit_pack(yki_recipe *recipe, const yki_conv *conv, const side *s, uint32_t packed)
{
    yki_launch *launch =
        yki_recipe_launch(recipe, "winograd5x5.cl", "yki_winograd5x5_pack", "-DV=%d", (int)s->v);

    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv->has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, packed);
    yki_arg_int(recipe, "c", s->c);
    yki_arg_int(recipe, "o", s->o);
    yki_arg_int(recipe, "transposed", s->spread);
    yki_arg_int(recipe, "has_bias", conv->has_bias);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(2 * s->pairs * s->c, PACK_GROUPS)), YKI_CONST(1),
                    YKI_CONST(1), 1, 1, 1);
    if (!launch)
        return;
    launch->phase = YKI_PHASE_PREPARE;
    launch->bytes = YKI_CONST(4 * s->c * s->o * (25 + 49));
    launch->flops = YKI_CONST(s->c * s->o * 300);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    side s = side_of(problem, traits, tuning);
    const yki_named_int values[] = {{"most", s.most},
                                    {"c", s.c},
                                    {"h", s.h},
                                    {"w", s.w},
                                    {"o", s.o},
                                    {"oh", s.oh},
                                    {"ow", s.ow},
                                    {"pad_h", conv.a.pad[0]},
                                    {"pad_w", conv.a.pad[1]},
                                    {"spread", s.spread},
                                    {"scratch_step", s.step},
                                    {"act", conv.a.act}};
    yki_expr groups = yki_conv_times(&conv, s.spread ? 1 : s.tiles);
    uint32_t packed, scratch;
    yki_launch *launch;

    yki_recipe_start(recipe, problem);
    packed = yki_recipe_slot(recipe, YKI_SLOT_PREPARED,
                             YKI_CONST(4 * s.pairs * (49 * (s.c * 2 * s.v + SKEW) + 2 * s.v)));
    scratch =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * s.step * traits->compute_units));
    emit_pack(recipe, &conv, &s, packed);
    launch = yki_recipe_launch(recipe, "winograd5x5.cl", "yki_winograd5x5", "-DV=%d", (int)s.v);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, packed);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, scratch);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    groups.max = traits->compute_units; /* and no group if there are no samples */
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->flops = yki_conv_times(&conv, s.tiles * (98 * s.c * s.o + 400 * (s.c + s.o)));
        launch->bytes = yki_problem_bytes(problem);
    }
    return recipe->status;
}

/* ---- the gradient of the weights ---- */

typedef struct weight_shape {
    int64_t v, rows, splits, step; /* rows of the product; floats of a group's scratch */
    bool fits;
} weight_shape;

/* Rows of the product are channels of x. A step costs its multiply-adds and about two more. What is
 * read beyond the channels of x still lies in its blocks. */
static weight_shape
shape_of_weight(const yki_problem *problem, const yki_device_traits *traits, const yki_conv *conv)
{
    int64_t v = yki_conv_width(traits), row = yki_round_up(conv->c, v), best = 0;
    int64_t d_row = yki_round_up(conv->o, 2 * v), tiles, sums;
    weight_shape s = {.v = v};

    for (int64_t r = v == 16 ? 12 : 6; r >= 2; r--) {
        int64_t rows = yki_round_up(conv->c, r), cost = rows / r * (r + 2);

        if (rows <= row && (!best || cost < best)) {
            best = cost;
            s.rows = r;
        }
    }
    tiles = (conv->batched ? problem->max.batch : 1) * tiles_of(conv);
    s.splits = YKI_MAX(YKI_MIN(traits->compute_units, tiles / 8), 1);
    sums = 49 * (yki_round_up(conv->c, s.rows) * d_row + SKEW);
    s.step = 49 * (CHUNK * row + SKEW) + 49 * (CHUNK * d_row + SKEW) + sums;
    s.fits = 4 * sums <= MOST_SUMS;
    return s;
}

static bool
weight_fits(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);

    return fits(problem, traits) && shape_of_weight(problem, traits, &conv).fits;
}

static bool
weight_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    if (variant || !weight_fits(problem, traits))
        return false;
    problem->in[0].layout.block = yki_conv_width(traits);
    problem->in[1].layout.block = yki_conv_width(traits);
    return true;
}

static bool
weight_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return weight_fits(problem, traits) &&
           in_blocks_of(&problem->in[0], &problem->in[1], yki_conv_width(traits)) &&
           problem->out.layout.block <= 1;
}

static yoke_status
emit_weight(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    weight_shape s = shape_of_weight(problem, traits, &conv);
    int64_t elements = conv.o * conv.c * 25;
    const yki_named_int values[] = {{"chunk", CHUNK},
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
    scratch = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * s.step * s.splits));
    if (s.splits > 1)
        part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * s.splits * elements));
    launch = yki_recipe_launch(recipe, "winograd5x5.cl", "yki_winograd5x5_grad_weight",
                               "-DV=%d -DR=%d", (int)s.v, (int)s.rows);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, scratch);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    yki_launch_grid(launch, YKI_CONST(s.splits), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->flops = yki_conv_times(
            &conv, tiles_of(&conv) * (98 * conv.c * conv.o + 400 * conv.c + 100 * conv.o));
        launch->bytes = yki_problem_bytes(problem);
    }
    if (s.splits > 1)
        yki_conv_sum_parts(recipe, traits, part, problem->input_count, elements, s.splits);
    return recipe->status;
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;
static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;

const yki_solver yki_solver_winograd5x5 = {
    .name = "conv2d-winograd5x5",
    .op = &forward_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .applies = applies,
    .layouts = layouts,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_winograd5x5_grad_input = {
    .name = "conv2d-grad-input-winograd5x5",
    .op = &grad_input_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .applies = applies,
    .layouts = layouts,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_winograd5x5_grad_weight = {
    .name = "conv2d-grad-weight-winograd5x5",
    .op = &grad_weight_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .applies = weight_applies,
    .layouts = weight_layouts,
    .emit = emit_weight,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd.c - 3x3 convolutions with stride 1, and gradients of their input, by
 * Winograd's F(4x4, 3x3) on CPUs (clkernels/winograd.cl has the arithmetic).
 *
 * The gradient of the input is the same convolution of dy, with the weights rotated by
 * half a turn, channels exchanged, and the pad 2 - pad. Weights are transformed when
 * they change; they become four times as large.
 *
 * This file chooses the shape of a work-group's block: how many tiles are transformed
 * together, and over how many groups the output channels of a block are split. Each
 * block reads the transformed weights once, so a block is larger where they are. What
 * a group keeps must fit a cache of its own.
 *
 * Layers with few channels, and images that tiles of 4 x 4 cover badly, are left to
 * the direct solvers.
 */
#include "op/conv/winograd.h"

enum { MIN_CHANNELS = 16, PACK_GROUPS = 256, UNITS_EACH = 8 };
/* Alternatives to measure: blocks of another height, and the other way to store weights. */
enum { AS_GUESSED, OTHER_BLOCKS, OTHER_STORES, TUNINGS };

int64_t
yki_winograd_tiles(int64_t h, int64_t w)
{
    return (h + 3) / 4 * ((w + 3) / 4);
}

bool
yki_winograd_pays(const yki_conv *conv, int64_t h, int64_t w)
{
    const yki_conv_attrs *a = &conv->a;

    if (a->groups != 1)
        return false;
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] != 3 || a->stride[i] != 1 || a->dilation[i] != 1 || a->pad[i] < 0 ||
            a->pad[i] > 2)
            return false;
    /* A tile of 16 results costs 36 products and the transforms; directly each result costs 9
     * products. */
    return conv->c >= MIN_CHANNELS && conv->o >= MIN_CHANNELS &&
           2 * 16 * yki_winograd_tiles(h, w) <= 5 * h * w;
}

/* Every device must be able to do it: by launches that keep their matrices in memory, each within
 * what OpenCL lets any device allocate, and whose loops are short enough for each driver
 * (winograd_tiles.c). */
yki_class
yki_canonical_class(const yki_problem *problem)
{
    enum { MOST_BYTES = 128 << 20, MOST_TILES = 30000 };
    yki_conv conv;
    int64_t tiles, most;
    bool to_x = problem->op == &yki_op_conv2d_grad_input;

    if (!to_x && problem->op != &yki_op_conv2d && problem->op != &yki_op_conv2d_grad_weight)
        return YKI_CLASS_DIRECT;
    conv = yki_conv_of(problem);
    if (!yki_winograd_pays(&conv, to_x ? conv.h : conv.oh, to_x ? conv.w : conv.ow))
        return YKI_CLASS_DIRECT;
    tiles = (conv.batched ? problem->max.batch : 1) *
            yki_winograd_tiles(to_x ? conv.h : conv.oh, to_x ? conv.w : conv.ow);
    most = YKI_MAX(conv.c, conv.o) + 3; /* rows are whole vectors of 4 */
    return tiles <= MOST_TILES &&
                   YKI_MAX(tiles + 3, YKI_MIN(conv.c, conv.o)) <= MOST_BYTES / (36 * 4) / most
               ? YKI_CLASS_WINOGRAD4
               : YKI_CLASS_DIRECT;
}

bool
yki_winograd_fits(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    int64_t limit = INT32_MAX / 2, n = conv.batched ? problem->max.batch : 1;
    bool to_x = problem->op == &yki_op_conv2d_grad_input;
    int64_t h = to_x ? conv.h : conv.oh, w = to_x ? conv.w : conv.ow;
    uint32_t v = yki_conv_width(traits);

    /* A driver whose compiler has no vectors makes them of the work-items of a group. Here a
     * group has one work-item. */
    if (traits->type != YOKE_DEVICE_CPU || traits->vector_width < 4 ||
        !yki_winograd_pays(&conv, h, w))
        return false;
    return (conv.c + v) * conv.h * conv.w < limit && (conv.o + v) * conv.oh * conv.ow < limit &&
           n * yki_winograd_tiles(h, w) < limit && conv.c < limit / 9 / conv.o;
}

bool
yki_winograd_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    if (variant || !yki_winograd_fits(problem, traits))
        return false;
    problem->in[0].layout.block = yki_conv_width(traits);
    problem->out.layout.block = yki_conv_width(traits);
    return true;
}

bool
yki_winograd_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    uint32_t v = yki_conv_width(traits);

    return yki_winograd_fits(problem, traits) && problem->in[0].layout.block == v &&
           problem->out.layout.block == v && problem->in[1].layout.block <= 1;
}

yki_winograd_side
yki_winograd_side_of(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    yki_winograd_side s = {.c = conv.c,
                           .h = conv.h,
                           .w = conv.w,
                           .o = conv.o,
                           .oh = conv.oh,
                           .ow = conv.ow,
                           .pad = {conv.a.pad[0], conv.a.pad[1]},
                           .v = yki_conv_width(traits)};

    if (problem->op == &yki_op_conv2d_grad_input)
        s = (yki_winograd_side){.c = conv.o,
                                .h = conv.oh,
                                .w = conv.ow,
                                .o = conv.c,
                                .oh = conv.h,
                                .ow = conv.w,
                                .pad = {2 - conv.a.pad[0], 2 - conv.a.pad[1]},
                                .v = s.v,
                                .transposed = true};
    s.in_blocks = (s.c + s.v - 1) / s.v;
    s.pairs = (s.o + 2 * s.v - 1) / (2 * s.v);
    s.tiles = yki_winograd_tiles(s.oh, s.ow);
    s.most_tiles = (conv.batched ? problem->max.batch : 1) * s.tiles;
    s.step = s.v == 16 ? 12 : 6;
    return s;
}

typedef struct shape {
    int64_t most;   /* tiles of a block, a multiple of the register tile */
    int64_t splits; /* of the output channels */
    int64_t step;   /* floats of a group's scratch */
    bool stream;    /* whether packed weights are written past the caches */
} shape;

/* Tuning 0 is the best one on a CPU of two cores with 1 MB of second-level cache each. Weights
 * that do not fit the last-level cache are read from memory for each block, so the block is
 * large. Units are small enough that every group has the same amount of work. Units of one block
 * that fall to one group share its transformed tiles. */
static shape
shape_for(const yki_device_traits *traits, const yki_winograd_side *s, unsigned tuning)
{
    int64_t p = s->step, blocks;
    int64_t weights = 4 * 36 * s->c * s->o;
    int64_t cache = traits->cache > 0 ? (int64_t)(traits->cache / 2) : 16 << 20;
    shape b;

    b.stream = weights > YKI_MIN(cache, 16 << 20);
    b.most = b.stream ? 3 * p : p;
    b.stream = s->v == 16 && b.stream != (tuning == OTHER_STORES); /* a vector is a cache line */
    if (tuning == OTHER_BLOCKS)
        b.most = b.most == p ? 2 * p : p;
    blocks = YKI_MAX((s->most_tiles + b.most - 1) / b.most, 1);
    b.splits = ((int64_t)traits->compute_units * UNITS_EACH + blocks - 1) / blocks;
    b.splits = YKI_MIN(b.splits, s->pairs);
    b.step = 36 * (b.most * s->in_blocks * s->v + YKI_WINOGRAD_SKEW) +
             36 * (b.most * 2 * s->v + YKI_WINOGRAD_SKEW);
    return b;
}

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    return yki_conv_width(traits) == 16 ? TUNINGS : OTHER_STORES;
}

static void
emit_pack(yki_recipe *recipe, const yki_conv *conv, const yki_winograd_side *s, bool stream,
          uint32_t packed)
{
    yki_launch *launch = yki_recipe_launch(recipe, "winograd.cl", "yki_winograd_pack", "-DV=%u%s",
                                           (unsigned)s->v, stream ? " -DSTREAM" : "");

    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv->has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, packed);
    yki_arg_int(recipe, "c", s->c);
    yki_arg_int(recipe, "o", s->o);
    yki_arg_int(recipe, "transposed", s->transposed);
    yki_arg_int(recipe, "has_bias", conv->has_bias);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(s->pairs * s->c, PACK_GROUPS)), YKI_CONST(1),
                    YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->phase = YKI_PHASE_PREPARE;
        launch->bytes = YKI_CONST(4 * s->c * s->o * (9 + 36));
        launch->flops = YKI_CONST(s->c * s->o * 117);
    }
}

yoke_status
yki_winograd_finish(yki_recipe *recipe, yki_launch *launch, const yki_problem *problem,
                    const yki_device_traits *traits, const yki_named_int *values, size_t count)
{
    yki_conv conv = yki_conv_of(problem);
    yki_winograd_side s = yki_winograd_side_of(problem, traits);
    yki_expr groups = yki_conv_times(&conv, s.tiles * s.pairs);

    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe, values, count);
    if (!launch)
        return recipe->status;
    groups.max = traits->compute_units; /* and no group if there are no samples */
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    launch->flops = yki_conv_times(&conv, s.tiles * (72 * s.c * s.o + 192 * s.c + 120 * s.o));
    launch->bytes = yki_problem_bytes(problem);
    return recipe->status;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    yki_winograd_side s = yki_winograd_side_of(problem, traits);
    shape b = shape_for(traits, &s, tuning);
    const yki_named_int values[] = {{"most", b.most},
                                    {"splits", b.splits},
                                    {"c", s.c},
                                    {"h", s.h},
                                    {"w", s.w},
                                    {"o", s.o},
                                    {"oh", s.oh},
                                    {"ow", s.ow},
                                    {"pad_h", s.pad[0]},
                                    {"pad_w", s.pad[1]},
                                    {"scratch_step", b.step},
                                    {"act", conv.a.act}};
    uint32_t packed, scratch;
    yki_launch *launch;

    yki_recipe_start(recipe, problem);
    packed = yki_recipe_slot(
        recipe, YKI_SLOT_PREPARED,
        YKI_CONST(4 * s.pairs * (36 * (s.c * 2 * s.v + YKI_WINOGRAD_SKEW) + 2 * s.v)));
    scratch =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * b.step * traits->compute_units));
    emit_pack(recipe, &conv, &s, b.stream, packed);
    launch = yki_recipe_launch(recipe, "winograd.cl", "yki_winograd", "-DV=%u", (unsigned)s.v);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, packed);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, scratch);
    return yki_winograd_finish(recipe, launch, problem, traits, values, YKI_COUNT(values));
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;

const yki_solver yki_solver_winograd = {
    .name = "conv2d-winograd4",
    .op = &forward_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_winograd_applies,
    .layouts = yki_winograd_layouts,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_winograd_grad_input = {
    .name = "conv2d-grad-input-winograd4",
    .op = &grad_input_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_winograd_applies,
    .layouts = yki_winograd_layouts,
    .tunings = tunings,
    .emit = emit,
};

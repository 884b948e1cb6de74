/* SPDX-License-Identifier: Apache-2.0
 *
 * blocked_weight.c - the gradient of a convolution's weights on CPUs, with channels in
 * blocks of the vector's width (clkernels/conv_blocked_weight.cl).
 *
 * Work is first divided by blocks of input channels: they need no partial sums and
 * copy nothing twice. Only where these are too few for the device, the samples are
 * divided too.
 */
#include "op/conv/conv.h"

enum {
    FEW_CHANNELS = 4,  /* up to this many, x is read in plain layout */
    UNIT_PIXELS = 256, /* with dy and x of these, a tap stays in the first-level cache */
    STRIP_BYTES = 64 << 10,
    MAX_SPLITS = 64
};

typedef struct shape {
    uint32_t v, p;
    bool from_plain, direct;
    int64_t cp, in_blocks, out_groups, splits;
    int64_t samples, rows; /* in a unit */
    int64_t strip, table;  /* floats of a strip, ints of one table, both of one work-group */
} shape;

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    yki_conv conv = yki_conv_of(problem);
    uint32_t v = yki_conv_width(traits);

    if (variant || !yki_conv_is_cpu(traits))
        return false;
    problem->in[0].layout.block = conv.c <= FEW_CHANNELS && conv.a.groups == 1 ? 1 : v;
    problem->in[1].layout.block = v;
    return true;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    uint32_t v = yki_conv_width(traits), block = problem->in[0].layout.block;
    int64_t limit = INT32_MAX / 2;

    if (!yki_conv_is_cpu(traits) || problem->in[1].layout.block != v ||
        problem->out.layout.block > 1 || (block != v && (block > 1 || conv.c > FEW_CHANNELS)))
        return false;
    /* Canonical plans leave them to depthwise_groups.c where it applies, on devices of any width.
     */
    if (traits->canonical && conv.a.groups > 1)
        return false;
    /* With many groups, a block multiplies mostly zeros. */
    if (conv.a.groups > 1 && (block != v || YKI_MIN(conv.cg, conv.og) * 4 < v))
        return false;
    return (conv.c + v) * conv.h * conv.w < limit && (conv.o + v) * conv.oh * conv.ow < limit &&
           (conv.h + 2 * (int64_t)conv.a.pad[0]) * (conv.w + 2 * (int64_t)conv.a.pad[1]) <
               limit / v;
}

/* Channels in a tile: a divisor of the block, or for first layers what wastes least of a row of
 * taps. */
static uint32_t
tile_channels(const yki_conv *conv, const shape *s)
{
    static const uint32_t sizes[] = {12, 10, 8, 6, 4};
    int64_t run = conv->c * (conv->a.dilation[1] == 1 ? conv->a.kernel[1] : 1), least = INT64_MAX;
    uint32_t best = 4;

    if (!s->from_plain)
        return s->v >= 16 ? 8 : 4;
    for (size_t i = 0; i < YKI_COUNT(sizes); i++) {
        /* Loading dy for a tile costs as much as two channels. */
        int64_t tiles = (run + sizes[i] - 1) / sizes[i], cost = tiles * (sizes[i] + 2);

        if (cost < least && (s->v >= 16 || sizes[i] <= 6)) {
            least = cost;
            best = sizes[i];
        }
    }
    return best;
}

static int64_t
reach(const yki_conv *conv, int i, int64_t count)
{
    return (count - 1) * conv->a.stride[i] +
           (int64_t)conv->a.dilation[i] * (conv->a.kernel[i] - 1) + 1;
}

static shape
shape_of(const yki_problem *problem, const yki_device_traits *traits, const yki_conv *conv)
{
    shape s = {.v = yki_conv_width(traits), .samples = 1, .rows = conv->oh, .splits = 1};
    int64_t n = conv->batched ? problem->max.batch : 1, units = traits->compute_units, strips;
    int64_t row, most, limit = INT32_MAX / 2;

    s.from_plain = problem->in[0].layout.block <= 1;
    s.p = tile_channels(conv, &s);
    s.cp = s.from_plain ? conv->c : s.v;
    s.in_blocks = s.from_plain ? 1 : (conv->c + s.v - 1) / s.v;
    s.out_groups = (conv->o + 2 * s.v - 1) / (2 * s.v);
    s.direct = !s.from_plain && !conv->a.pad[0] && !conv->a.pad[1];
    if (traits->canonical)
        s.splits = yki_conv_canonical_parts(conv);
    while (!traits->canonical && s.splits < YKI_MIN(n, MAX_SPLITS) &&
           s.in_blocks * s.splits < 4 * units && s.in_blocks * s.splits % units)
        s.splits++;
    row = 4 * s.cp * (s.direct ? conv->w : reach(conv, 1, conv->ow));
    while (s.rows > 1 &&
           (s.rows * conv->ow > UNIT_PIXELS || row * reach(conv, 0, s.rows) > STRIP_BYTES))
        s.rows--;
    strips = (conv->oh + s.rows - 1) / s.rows;
    s.rows = (conv->oh + strips - 1) / strips;
    if (strips == 1) {
        most = YKI_MIN((n + s.splits - 1) / s.splits, UNIT_PIXELS / (s.rows * conv->ow));
        most = YKI_MIN(most, limit / ((conv->c + s.v) * conv->h * conv->w));
        most = YKI_MIN(most, limit / ((conv->o + s.v) * conv->oh * conv->ow));
        s.samples = YKI_MAX(most, 1);
    }
    s.strip = s.direct ? 16 : s.samples * reach(conv, 0, s.rows) * row / 4 + s.p;
    s.strip = (s.strip + 15) / 16 * 16;
    s.table = (s.samples * s.rows * conv->ow + 15) / 16 * 16;
    return s;
}

/* A job may read P channels where fewer are left in the last block of x. Inside a block that is
 * safe because P divides V; in a strip it reads the zeros behind it. */
static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    shape s = shape_of(problem, traits, &conv);
    int64_t units = traits->compute_units, jobs = s.in_blocks * s.out_groups;
    int64_t sums = s.splits * jobs * conv.taps * s.cp * 2 * s.v;
    uint32_t part, strips, tables;
    const yki_named_int work[] = {{"splits", s.splits},  {"unit_samples", s.samples},
                                  {"unit_rows", s.rows}, {"c", conv.c},
                                  {"h", conv.h},         {"w", conv.w},
                                  {"o", conv.o},         {"oh", conv.oh},
                                  {"ow", conv.ow}};
    const yki_named_int memory[] = {{"groups", conv.a.groups},
                                    {"from_plain", s.from_plain},
                                    {"direct", s.direct},
                                    {"strip_size", s.strip},
                                    {"table_size", s.table}};
    const yki_named_int unpack[] = {{"splits", s.splits}, {"c", conv.c},
                                    {"o", conv.o},        {"groups", conv.a.groups},
                                    {"area", conv.taps},  {"from_plain", s.from_plain}};
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * sums));
    strips = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * units * s.strip));
    tables = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(8 * units * s.table));
    launch = yki_recipe_launch(recipe, "conv_blocked_weight.cl", "yki_conv_blocked_grad_weight",
                               "-DV=%u -DP=%u", s.v, s.p);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, strips);
    yki_arg_slot(recipe, tables);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe, work, YKI_COUNT(work));
    yki_arg_window(recipe, &conv);
    yki_arg_ints(recipe, memory, YKI_COUNT(memory));
    yki_launch_grid(launch, YKI_CONST(units), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->flops = yki_conv_flops(&conv);
        launch->bytes = yki_problem_bytes(problem);
    }
    launch = yki_recipe_launch(recipe, "conv_blocked_weight.cl", "yki_conv_blocked_unpack",
                               "-DV=%u -DP=%u", s.v, s.p);
    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, 2);
    yki_arg_ints(recipe, unpack, YKI_COUNT(unpack));
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(jobs, 4 * units)), YKI_CONST(1), YKI_CONST(1), 1, 1,
                    1);
    if (launch)
        launch->bytes = YKI_CONST(4 * (sums + conv.o * conv.cg * conv.taps));
    return recipe->status;
}

static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;

const yki_solver yki_solver_conv_blocked_grad_weight = {
    .name = "conv2d-grad-weight-blocked",
    .op = &grad_weight_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .layouts = layouts,
    .emit = emit,
};

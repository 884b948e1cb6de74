/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.c - convolutions and their gradients on CPUs with one sample in each SIMD lane
 * (clkernels/conv_lanes.cl). They are for batches of small images with channels that
 * do not fill vectors.
 *
 * This file chooses the tile, and decides which problems are small enough: the
 * transposed samples of a unit should stay in the second-level cache.
 */
#include "op/conv/conv.h"

enum { STRIP_BYTES = 1 << 20, PACK_GROUPS = 64, MOST_TILE = 8, UNITS_EACH = 4 };

typedef struct tile {
    int64_t v, rows, columns;
} tile;

/* What is read and what is written. */
typedef struct side {
    int64_t c, h, w, o;
    yki_conv_axis vertical, horizontal;
    bool transposed;
} side;

static side
side_of(const yki_problem *problem, const yki_conv *conv)
{
    if (problem->op == &yki_op_conv2d_grad_input)
        return (side){conv->o,
                      conv->oh,
                      conv->ow,
                      conv->c,
                      yki_conv_gradient_axis(conv, 0, 0),
                      yki_conv_gradient_axis(conv, 1, 0),
                      true};
    return (side){conv->c,
                  conv->h,
                  conv->w,
                  conv->o,
                  yki_conv_forward_axis(conv, 0),
                  yki_conv_forward_axis(conv, 1),
                  false};
}

/* Taps of a row for which a tile of `columns` positions from `first` on reads something inside
 * x. */
static int64_t
taps_of_tile(const yki_conv_axis *a, int64_t size, int64_t first, int64_t columns)
{
    int64_t last = YKI_MIN(first + columns, a->count) - 1, taps = 0;

    for (int64_t t = 0; t < a->taps; t++)
        taps += last * a->in_step + a->in_at + t * a->tap_step >= 0 &&
                first * a->in_step + a->in_at + t * a->tap_step < size;
    return taps;
}

/* The tile of rows by columns that takes least time. A step of the sum costs its multiply-adds,
 * and about 4.5 more (measured). The sums, all columns, and a number of one row must fit the
 * registers. Without an axis, as for the gradient of the weights, each tile takes one step. */
static tile
tile_for(int64_t v, int64_t rows, int64_t columns, const yki_conv_axis *axis, int64_t size)
{
    int64_t registers = v >= 16 ? 32 : 16;
    tile best = {v, 1, 1};
    double least = 0;

    for (int64_t c = 1; c <= YKI_MIN(columns, MOST_TILE); c++) {
        int64_t steps = axis ? 0 : yki_round_up(columns, c) / c;

        for (int64_t first = 0; axis && first < columns; first += c)
            steps += taps_of_tile(axis, size, first, c);
        for (int64_t r = 1; r <= MOST_TILE && r * c + c + 1 <= registers; r++) {
            double cost =
                (double)(yki_round_up(rows, r) / r) * (double)steps * ((double)(r * c) + 4.5);

            if (least == 0 || cost < least) {
                least = cost;
                best = (tile){v, r, c};
            }
        }
    }
    return best;
}

/* Columns of zeros to the left of x; columns_of counts all that a row of tiles reads. */
static int64_t
columns_left(const yki_conv_axis *a)
{
    return YKI_MAX(-a->in_at, 0);
}

static int64_t
columns_of(const yki_conv_axis *a, int64_t w, int64_t tile_columns)
{
    int64_t reach = (yki_round_up(a->count, tile_columns) - 1) * a->in_step +
                    (a->taps - 1) * a->tap_step + 1 + a->in_at;

    return columns_left(a) + YKI_MAX(reach, w);
}

/* Each of two operands may be in blocks or plain: variants 0 .. 3. */
static bool
set_blocks(yki_operand *one, yki_operand *other, const yki_device_traits *traits, unsigned variant)
{
    uint32_t v = yki_conv_width(traits);

    if (variant > 3 || !yki_conv_is_cpu(traits))
        return false;
    one->layout.block = variant & 1 ? v : 1;
    other->layout.block = variant & 2 ? v : 1;
    return true;
}

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    return set_blocks(&problem->in[0], &problem->out, traits, variant);
}

static bool
weight_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    return set_blocks(&problem->in[0], &problem->in[1], traits, variant);
}

static int64_t
block_of(const yki_operand *operand)
{
    return YKI_MAX(operand->layout.block, 1u);
}

static bool
suits_layout(const yki_operand *operand, const yki_device_traits *traits)
{
    return block_of(operand) == 1 || block_of(operand) == yki_conv_width(traits);
}

static bool
is_for_lanes(const yki_problem *problem, const yki_device_traits *traits, const yki_conv *conv)
{
    return yki_conv_is_cpu(traits) && conv->a.groups == 1 && conv->batched &&
           problem->max.batch >= 2;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    int64_t v = yki_conv_width(traits);
    side s = side_of(problem, &conv);
    bool whole = !s.transposed || (conv.a.stride[0] == 1 && conv.a.stride[1] == 1);

    return is_for_lanes(problem, traits, &conv) && whole && s.horizontal.taps > 0 &&
           suits_layout(&problem->in[0], traits) && suits_layout(&problem->out, traits) &&
           block_of(&problem->in[1]) == 1 &&
           4 * v * s.c * s.h * columns_of(&s.horizontal, s.w, MOST_TILE) <= STRIP_BYTES;
}

/* Both kernels have the same options, so that they are one program. */
static yki_launch *
launch_of(yki_recipe *recipe, const char *kernel, const side *s, const tile *t)
{
    return yki_recipe_launch(recipe, "conv_lanes.cl", kernel, "-DV=%d -DR=%d -DX=%d -DISW=%d",
                             (int)t->v, (int)t->rows, (int)t->columns, (int)s->horizontal.in_step);
}

static void
emit_pack(yki_recipe *recipe, const yki_conv *conv, const side *s, const tile *t, uint32_t packed)
{
    int64_t blocks = yki_round_up(s->o, t->rows) / t->rows;
    yki_launch *launch = launch_of(recipe, "yki_conv_lanes_pack", s, t);

    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv->has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, packed);
    yki_arg_int(recipe, "c", s->c);
    yki_arg_int(recipe, "o", s->o);
    yki_arg_int(recipe, "transposed", s->transposed);
    yki_arg_packed_taps(recipe, conv, &s->vertical, &s->horizontal);
    yki_arg_int(recipe, "has_bias", conv->has_bias);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(blocks * s->c, PACK_GROUPS)), YKI_CONST(1),
                    YKI_CONST(1), 1, 1, 1);
    if (!launch)
        return;
    launch->phase = YKI_PHASE_PREPARE;
    launch->bytes = YKI_CONST(8 * blocks * t->rows * s->c * s->vertical.taps * s->horizontal.taps);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    side s = side_of(problem, &conv);
    const yki_conv_axis *v = &s.vertical, *h = &s.horizontal;
    tile t = tile_for(yki_conv_width(traits), s.o, h->count, h, s.w);
    int64_t columns = columns_of(h, s.w, t.columns), strip = s.c * s.h * columns * t.v;
    int64_t blocks = yki_round_up(s.o, t.rows) / t.rows, units = traits->compute_units;
    int64_t somes = (problem->max.batch + t.v - 1) / t.v;
    /* With few samples, the channels are divided too. */
    int64_t pieces = YKI_MIN((units * UNITS_EACH + somes - 1) / somes, blocks);
    int64_t left = columns_left(h), from = block_of(&problem->in[0]), to = block_of(&problem->out);
    const yki_named_int values[] = {
        {"c", s.c},          {"h", s.h},           {"w", s.w},           {"o", s.o},
        {"gh", v->count},    {"gw", h->count},     {"ish", v->in_step},  {"taps_h", v->taps},
        {"taps_w", h->taps}, {"tsh", v->tap_step}, {"tsw", h->tap_step}, {"bh", v->in_at},
        {"bw", h->in_at},    {"left", left},       {"columns", columns}, {"strip_size", strip},
        {"pieces", pieces},  {"x_block", from},    {"y_block", to},      {"act", conv.a.act}};
    yki_expr groups = yki_conv_times(&conv, pieces);
    uint32_t packed, strips;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    packed = yki_recipe_slot(recipe, YKI_SLOT_PREPARED,
                             YKI_CONST(4 * blocks * t.rows * (s.c * v->taps * h->taps + 1)));
    strips = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * strip * units));
    emit_pack(recipe, &conv, &s, &t, packed);
    launch = launch_of(recipe, "yki_conv_lanes", &s, &t);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, packed);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, strips);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    groups.max = units; /* and no group if there are no samples */
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->flops = yki_conv_flops(&conv);
        launch->bytes = yki_problem_bytes(problem);
    }
    return recipe->status;
}

/* ---- the gradient of the weights ---- */

typedef struct weight_shape {
    tile t;
    int64_t columns, x, dy, sums, splits; /* x, dy, sums: floats in a group's scratch */
} weight_shape;

static weight_shape
shape_of_weight(const yki_problem *problem, const yki_device_traits *traits, const yki_conv *conv)
{
    int64_t v = yki_conv_width(traits), kw = conv->a.kernel[1];
    tile t = tile_for(v, conv->o, kw, NULL, 0);
    int64_t taps = yki_round_up(kw, t.columns);
    int64_t reach = (conv->ow - 1) * conv->a.stride[1] + (taps - 1) * conv->a.dilation[1] + 1;
    int64_t columns = YKI_MAX(reach, conv->w + conv->a.pad[1]);

    return (weight_shape){.t = t,
                          .columns = columns,
                          .x = conv->c * conv->h * columns * v,
                          .dy = conv->o * conv->oh * conv->ow * v,
                          .sums = conv->o * conv->c * conv->a.kernel[0] * taps * v,
                          .splits =
                              YKI_MIN(traits->compute_units, (problem->max.batch + v - 1) / v)};
}

static bool
weight_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    weight_shape s = shape_of_weight(problem, traits, &conv);

    return is_for_lanes(problem, traits, &conv) && suits_layout(&problem->in[0], traits) &&
           suits_layout(&problem->in[1], traits) && block_of(&problem->out) == 1 &&
           4 * s.x <= STRIP_BYTES && 4 * s.dy <= STRIP_BYTES && 4 * s.sums <= 2 * STRIP_BYTES;
}

static yoke_status
emit_weight(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    weight_shape s = shape_of_weight(problem, traits, &conv);
    int64_t scratch = s.x + s.dy + s.sums, elements = conv.o * conv.c * conv.taps;
    const yki_named_int sizes[] = {{"c", conv.c}, {"h", conv.h},   {"w", conv.w},
                                   {"o", conv.o}, {"oh", conv.oh}, {"ow", conv.ow}};
    const yki_named_int memory[] = {{"columns", s.columns},
                                    {"x_size", s.x},
                                    {"dy_size", s.dy},
                                    {"scratch_size", scratch},
                                    {"x_block", block_of(&problem->in[0])},
                                    {"dy_block", block_of(&problem->in[1])}};
    uint32_t own, part = problem->input_count;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    own = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * scratch * s.splits));
    if (s.splits > 1)
        part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * s.splits * elements));
    launch = yki_recipe_launch(recipe, "conv_lanes.cl", "yki_conv_lanes_grad_weight",
                               "-DV=%d -DR=%d -DX=%d", (int)s.t.v, (int)s.t.rows, (int)s.t.columns);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, own);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_ints(recipe, sizes, YKI_COUNT(sizes));
    yki_arg_window(recipe, &conv);
    yki_arg_ints(recipe, memory, YKI_COUNT(memory));
    yki_launch_grid(launch, YKI_CONST(s.splits), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->flops = yki_conv_flops(&conv);
        launch->bytes = yki_problem_bytes(problem);
    }
    if (s.splits > 1)
        yki_conv_sum_parts(recipe, traits, part, problem->input_count, elements, s.splits);
    return recipe->status;
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;
static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;

const yki_solver yki_solver_conv_lanes = {
    .name = "conv2d-lanes",
    .op = &forward_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .layouts = layouts,
    .emit = emit,
};

const yki_solver yki_solver_conv_lanes_grad_input = {
    .name = "conv2d-grad-input-lanes",
    .op = &grad_input_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .layouts = layouts,
    .emit = emit,
};

const yki_solver yki_solver_conv_lanes_grad_weight = {
    .name = "conv2d-grad-weight-lanes",
    .op = &grad_weight_op,
    .applies = weight_applies,
    .layouts = weight_layouts,
    .emit = emit_weight,
};

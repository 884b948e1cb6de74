/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_tiles.c - 3x3 convolutions with stride 1 in plain layout, and both their
 * gradients, by Winograd's F(4x4, 3x3) on devices that run the work-items of a group
 * side by side (clkernels/winograd_tiles.cl has the layouts).
 *
 * Three launches: both operands are transformed, 36 matrices are multiplied (tile.cl), the
 * results are transformed back. What lies between them passes through memory: 36/16 of
 * the images, written and read once. A group that keeps it to itself needs 144 sums in each
 * of 256 work-items, which fits few devices and gains little (docs/tried.md).
 *
 * Weights that are large beside the images are transformed in a launch of their own,
 * once as long as they stay the same, unless they change before each run. The gradient by the
 * weights is a sum over tiles, which are split into parts where it has too few groups otherwise.
 * The last launch adds them in order.
 *
 * The blocks of the product are tunings. The guess is the one with which the busiest
 * compute unit has the least to do.
 *
 * Both gradients of a convolution join their launches, where the image has as many tiles as the
 * result, and with them what follows the gradient of the image in a network with shortcuts: the
 * sum with the gradient by another reader, and the gate of relu. The planner puts that solver in
 * the place of the two (plan/join.c).
 *
 * The last launch of a convolution also writes parts of the statistics for a batch norm behind it,
 * and that of both gradients parts of the sums for the gradient of a batch norm.
 */
#include <stdio.h>
#include <string.h>

#include "op/conv/winograd.h"
#include "op/norm/norm.h"

enum {
    CHANNELS = 16,    /* the least of c o / (c + o): below, memory takes longer than products */
    LEAST_TILES = 16, /* of the largest batch: a block of the product has at least 64 */
    MAX_GROUPS = 16384,
    MOST_BLOCKS = 65535,
    MAX_SPLITS = 64,
    LEAST_SUM = 64,    /* terms of a split */
    ITEMS_EACH = 1024, /* work-items of a product for each compute unit */
    MOST_PARTS = 256,  /* that a norm joins in each of its groups */
    PAIRS = 16         /* of channels, that a group of yki_tiles_weight_out takes */
};

/* A block of the product, tm x tn results, im x in of each work-item. The cost of a result counts
 * what is loaded for it (tile.cl). */
typedef struct block {
    int64_t tm, tn, im, in;
    double cost;
} block;

static const block choices[] = {{128, 128, 8, 8, 1.0}, {64, 64, 8, 8, 1.05}, {32, 64, 4, 8, 1.2}};

static int64_t
items_of(const block *b)
{
    return b->tm / b->im * (b->tn / b->in);
}

/* The terms of a round, as of other products (gemm_tiled.c): long ones where copies run ahead. */
static int
terms_of(const block *b, const yki_device_traits *traits)
{
    const int64_t long_round = 2 * 16 * 4 * (b->tm + b->tn + 8);

    return traits->copies_ahead && long_round <= (int64_t)traits->local_memory ? 16 : 8;
}

static bool
block_fits(const block *b, const yki_device_traits *traits)
{
    const int terms = terms_of(b, traits);

    return items_of(b) <= traits->max_group &&
           yki_rounds(traits, terms) * terms * 4 * (b->tm + b->tn + 8) <=
               (int64_t)traits->local_memory;
}

static int64_t
pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* A row of a matrix: whole vectors. */
static int64_t
row_of(int64_t n)
{
    return pieces(n, 4) * 4;
}

/* What is read and written. For convolutions and gradients by the input, c channels of h x w become
 * o of oh x ow. For gradients by the weights they are those of x and of dy. */
typedef struct side {
    yki_conv conv;
    int64_t c, h, w, o, oh, ow, pad[2], th, tw;
    int64_t tiles; /* of one sample */
    int64_t row;   /* those of the largest batch, as a row */
    bool weight, transposed;
} side;

/* `op` is the problem's, or one of those that it joins. */
static side
side_of(const yki_problem *problem, const yki_op *op)
{
    yki_conv conv = yki_conv_of(problem);
    side s = {.conv = conv,
              .c = conv.c,
              .h = conv.h,
              .w = conv.w,
              .o = conv.o,
              .oh = conv.oh,
              .ow = conv.ow,
              .pad = {conv.a.pad[0], conv.a.pad[1]},
              .weight = op == &yki_op_conv2d_grad_weight};

    if (op == &yki_op_conv2d_grad_input)
        s = (side){.conv = conv,
                   .c = conv.o,
                   .h = conv.oh,
                   .w = conv.ow,
                   .o = conv.c,
                   .oh = conv.h,
                   .ow = conv.w,
                   .pad = {2 - conv.a.pad[0], 2 - conv.a.pad[1]},
                   .transposed = true};
    s.th = pieces(s.oh, 4);
    s.tw = pieces(s.ow, 4);
    s.tiles = s.th * s.tw;
    s.row = row_of((conv.batched ? problem->max.batch : 1) * s.tiles);
    return s;
}

/* How the product is cut: blocks of rows and of columns, and splits of its sums. */
typedef struct cut {
    const block *block;
    int64_t down, across, splits, sum;
} cut;

static cut
cut_of(const side *s, const yki_device_traits *traits, const block *b)
{
    int64_t wanted = (int64_t)traits->compute_units * ITEMS_EACH / items_of(b);
    cut k = {.block = b, .down = pieces(s->o, b->tm), .splits = 1, .sum = s->c};

    k.across = pieces(s->weight ? s->c : s->row, b->tn);
    if (s->weight && !traits->canonical) { /* whose sums are one chain */
        k.splits = YKI_MIN(pieces(wanted, 36 * k.down * k.across), s->row / LEAST_SUM);
        k.splits = YKI_MAX(YKI_MIN(k.splits, MAX_SPLITS), 1);
    }
    if (s->weight)
        k.sum = pieces(s->row, k.splits);
    return k;
}

/* What the busiest compute unit has to do. */
static double
work_of(const cut *k, const yki_device_traits *traits)
{
    int64_t groups = 36 * k->splits * k->down * k->across;

    return (double)pieces(groups, YKI_MAX(traits->compute_units, 1)) *
           (double)(k->block->tm * k->block->tn * k->sum) * k->block->cost;
}

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    unsigned count = 0;

    (void)problem;
    for (size_t i = 0; i < YKI_COUNT(choices); i++)
        count += block_fits(&choices[i], traits);
    return count;
}

/* Cuts products, of one launch, by the same block. Tuning 0 is the guess; the others follow in the
 * order of the list. */
static void
cut_all(const side *sides, size_t count, const yki_device_traits *traits, unsigned tuning,
        cut *cuts)
{
    const block *fitting[YKI_COUNT(choices)] = {0};
    unsigned found = 0, best = 0;
    double least = 0;

    for (size_t i = 0; i < YKI_COUNT(choices); i++) {
        double work = 0;

        if (!block_fits(&choices[i], traits))
            continue;
        for (size_t k = 0; k < count; k++) {
            cut one = cut_of(&sides[k], traits, &choices[i]);

            work += work_of(&one, traits);
        }
        if (found == 0 || work < least) {
            best = found;
            least = work;
        }
        fitting[found++] = &choices[i];
    }
    tuning = tuning == 0 ? best : tuning <= best ? tuning - 1 : tuning;
    for (size_t k = 0; k < count; k++)
        cuts[k] = cut_of(&sides[k], traits, fitting[tuning]);
}

/* Whether one of the products can be computed with scratch memory for `places` in each of 36
 * matrices. */
static bool
fits(const yki_problem *problem, const yki_device_traits *traits, const side *s, int64_t places)
{
    int64_t a = s->c * s->row, b = s->o * s->row, limit = INT32_MAX / 2;

    if (!yki_plain_applies(problem, traits) || tunings(problem, traits) == 0 ||
        !yki_winograd_pays(&s->conv, s->oh, s->ow))
        return false;
    /* What a canonical plan wants of it, every device must do (yki_canonical_class). */
    if (!traits->canonical && (s->c * s->o < CHANNELS * (s->c + s->o) || s->row < LEAST_TILES ||
                               4 * 36 * places > (int64_t)(traits->memory / 4)))
        return false;
    /* The places of one of 36 matrices are ints, and all 36 need memory. */
    return s->row <= MOST_BLOCKS * choices[YKI_COUNT(choices) - 1].tn && a < limit && b < limit &&
           s->c * s->o < limit / 9 && s->c * s->h * s->w < limit && s->o * s->oh * s->ow < limit &&
           4 * 36 * YKI_MAX(a, b) <= (int64_t)traits->max_allocation;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    side s = side_of(problem, problem->op);

    return fits(problem, traits, &s, (s.c + s.o) * s.row);
}

/* The tiles of a strip. */
static uint32_t
strip_of(const side *s, const yki_device_traits *traits)
{
    uint32_t strip = 128;

    while (strip > traits->max_group || (strip > 32 && strip / 2 >= s->row))
        strip /= 2;
    return strip;
}

/* A group for every strip of each channel, and `besides` groups. */
static yki_expr
groups_of(const side *s, int64_t channels, uint32_t strip, int64_t besides)
{
    yki_expr groups = yki_conv_times(&s->conv, s->tiles * channels);

    groups.constant += (strip - 1) * channels + besides * strip;
    groups.divisor = strip;
    groups.max = besides + MAX_GROUPS;
    return groups;
}

static yki_launch *
start_transform(yki_recipe *recipe, const char *kernel, uint32_t strip)
{
    return yki_recipe_launch(recipe, "winograd_tiles.cl", kernel, "-DWG=%u", (unsigned)strip);
}

/* A place is 36 elements. */
static void
finish_transform(yki_launch *launch, const yki_problem *problem, yki_expr groups, uint32_t strip,
                 int64_t places)
{
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), strip, 1, 1);
    yki_launch_iterations(launch, problem, 64.0 * (double)places, 128);
}

/* Transforms images, and weights where there are groups for them. */
static void
emit_in(yki_recipe *recipe, const side *s, uint32_t v, uint32_t u, bool images,
        int64_t weight_groups, uint32_t strip, const yki_problem *problem)
{
    yki_launch *launch = start_transform(recipe, "yki_tiles_in", strip);
    const yki_named_int values[] = {{"c", s->c},
                                    {"h", s->h},
                                    {"w", s->w},
                                    {"pad_h", s->pad[0]},
                                    {"pad_w", s->pad[1]},
                                    {"th", s->th},
                                    {"tw", s->tw},
                                    {"o", s->o},
                                    {"transposed", s->transposed},
                                    {"weight_groups", weight_groups}};

    /* A kernel has no optional arguments. */
    yki_arg_slot(recipe, images ? 0 : 1);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, images ? v : u);
    yki_arg_slot(recipe, weight_groups ? u : v);
    yki_arg_expr(recipe, "samples", s->conv.n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    if (!launch)
        return;
    launch->phase = images ? YKI_PHASE_RUN : YKI_PHASE_PREPARE;
    finish_transform(launch, problem,
                     images ? groups_of(s, s->c, strip, weight_groups) : YKI_CONST(weight_groups),
                     strip, s->c * (row_of(s->o) + (images ? s->row : 0)));
    if (images) {
        launch->flops = yki_conv_times(&s->conv, s->tiles * s->c * 192);
        launch->bytes = yki_conv_times(&s->conv, 4 * s->c * (s->h * s->w + 36 * s->tiles));
    }
    if (weight_groups) {
        launch->flops.constant += s->c * s->o * 117;
        launch->bytes.constant += 4 * s->c * s->o * (9 + 36);
    }
}

/* The parts for a norm: one for each strip of a channel. */
static int64_t
parts_of(const side *s, const yki_device_traits *traits)
{
    return pieces(s->row, strip_of(s, traits));
}

/* As the kernels have them. */
enum { STATISTICS = 1, SUMS = 2 };

static int
norm_of(const yki_problem *problem)
{
    return problem->op == &yki_op_conv2d_parts         ? STATISTICS
           : problem->op == &yki_op_conv2d_grads_parts ? SUMS
                                                       : 0;
}

/* A launch that transforms results; `norm` is what a norm behind them gets. */
static yki_launch *
start_results(yki_recipe *recipe, const char *kernel, uint32_t strip, int norm)
{
    return norm == 0 ? start_transform(recipe, kernel, strip)
                     : yki_recipe_launch(recipe, "winograd_tiles.cl", kernel, "-DWG=%u -DNORM=%d",
                                         (unsigned)strip, norm);
}

/* The arguments for the norm. Its operands are the last inputs, the parts the last result. */
static void
norm_args(yki_recipe *recipe, const yki_problem *problem, int64_t parts)
{
    const yki_conv_parts_attrs a = yki_conv_parts_attrs_get(&problem->attrs);
    const uint32_t part = yki_problem_operands(problem) - 1;
    const int norm = norm_of(problem);
    const bool gates = norm == SUMS && a.norm_act != YKI_BN_NONE && a.norm_affine;
    const uint32_t x = problem->input_count - (gates ? 4 : 2);

    if (norm == SUMS) {
        yki_arg_slot(recipe, x);
        yki_arg_slot(recipe, x + 1);
        yki_arg_slot(recipe, gates ? x + 2 : x);
        yki_arg_slot(recipe, gates ? x + 3 : x);
    }
    if (norm)
        yki_arg_slot(recipe, part);
    if (norm)
        yki_arg_int(recipe, "parts", parts);
    if (norm == SUMS) {
        yki_arg_int(recipe, "flags", (a.norm_act != YKI_BN_NONE ? RELU : 0) | (gates ? AFFINE : 0));
        yki_arg_float(recipe, "epsilon", a.epsilon);
    }
}

static yki_launch *
start_product(yki_recipe *recipe, const char *kernel, const block *b,
              const yki_device_traits *traits)
{
    return yki_recipe_launch(
        recipe, "winograd_product.cl", kernel, "-DTM=%d -DTN=%d -DIM=%d -DIN=%d -DTK=%d%s%s",
        (int)b->tm, (int)b->tn, (int)b->im, (int)b->in, terms_of(b, traits),
        yki_two_groups(items_of(b)), yki_ahead_option(traits, YKI_DOT_FMA, terms_of(b, traits)));
}

static void
finish_product(yki_launch *launch, const side *s, const cut *k, const yki_problem *problem,
               yki_expr g0, yki_expr g2)
{
    if (!launch)
        return;
    yki_launch_grid(launch, g0, YKI_CONST(36), g2, (uint32_t)items_of(k->block), 1, 1);
    yki_launch_iterations(launch, problem, 0, 2 * k->sum + 256);
    launch->flops = yki_conv_times(&s->conv, s->tiles * 72 * s->c * s->o);
    launch->bytes = yki_conv_times(&s->conv, 4 * 36 * s->tiles * (s->c + s->o));
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    side s = side_of(problem, problem->op);
    uint32_t strip = strip_of(&s, traits), u, v, m;
    int64_t weights = s.c * row_of(s.o);
    int64_t weight_groups = YKI_MIN(pieces(weights, strip), MAX_GROUPS);
    /* Whether transforming the weights takes more than an eighth of what the images take. */
    bool apart = !s.transposed && !problem->repacks && 8 * (9 + 36) * s.o > (16 + 36) * s.row;
    yki_expr across = yki_conv_times(&s.conv, s.tiles);
    const yki_named_int sizes[] = {{"o", s.o},           {"oh", s.oh},
                                   {"ow", s.ow},         {"th", s.th},
                                   {"tw", s.tw},         {"has_bias", s.conv.has_bias},
                                   {"act", s.conv.a.act}};
    yki_launch *launch;
    cut k;

    cut_all(&s, 1, traits, tuning, &k);
    yki_recipe_start(recipe, problem);
    u = yki_recipe_slot(recipe, apart ? YKI_SLOT_PREPARED : YKI_SLOT_SCRATCH,
                        YKI_CONST(4 * 36 * weights));
    v = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s.c * s.row));
    m = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s.o * s.row));
    if (apart)
        emit_in(recipe, &s, v, u, false, weight_groups, strip, problem);
    emit_in(recipe, &s, v, u, true, apart ? 0 : weight_groups, strip, problem);

    launch = start_product(recipe, "yki_tiles_product", k.block, traits);
    yki_arg_slot(recipe, u);
    yki_arg_slot(recipe, v);
    yki_arg_slot(recipe, m);
    yki_arg_expr(recipe, "samples", s.conv.n);
    yki_arg_int(recipe, "tiles", s.tiles);
    yki_arg_int(recipe, "c", s.c);
    yki_arg_int(recipe, "o", s.o);
    across.divisor = k.block->tn;
    finish_product(launch, &s, &k, problem, YKI_CONST(k.down), across);

    launch = start_results(recipe, "yki_tiles_out", strip, norm_of(problem));
    yki_arg_slot(recipe, m);
    yki_arg_slot(recipe, s.conv.has_bias ? 2 : 1);
    yki_arg_slot(recipe, problem->input_count);
    norm_args(recipe, problem, parts_of(&s, traits));
    yki_arg_expr(recipe, "samples", s.conv.n);
    yki_arg_ints(recipe, sizes, YKI_COUNT(sizes));
    if (!launch)
        return recipe->status;
    finish_transform(launch, problem, groups_of(&s, s.o, strip, 0), strip, s.o * s.row);
    launch->flops = yki_conv_times(&s.conv, s.tiles * s.o * 120);
    launch->bytes = yki_conv_times(&s.conv, 4 * s.o * (36 * s.tiles + s.oh * s.ow));
    return recipe->status;
}

/* Transforms x and dy. */
static void
emit_both(yki_recipe *recipe, const side *s, uint32_t v, uint32_t d, uint32_t strip,
          const yki_problem *problem)
{
    yki_launch *launch = start_transform(recipe, "yki_tiles_both", strip);
    const yki_named_int sizes[] = {
        {"c", s->c},   {"h", s->h},          {"w", s->w},          {"o", s->o},   {"oh", s->oh},
        {"ow", s->ow}, {"pad_h", s->pad[0]}, {"pad_w", s->pad[1]}, {"th", s->th}, {"tw", s->tw}};

    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, v);
    yki_arg_slot(recipe, d);
    yki_arg_expr(recipe, "samples", s->conv.n);
    yki_arg_ints(recipe, sizes, YKI_COUNT(sizes));
    if (!launch)
        return;
    finish_transform(launch, problem, groups_of(s, s->c + s->o, strip, 0), strip,
                     (s->c + s->o) * s->row);
    launch->flops = yki_conv_times(&s->conv, s->tiles * (s->c * 192 + s->o * 140));
    launch->bytes = yki_conv_times(
        &s->conv, 4 * (s->c * s->h * s->w + s->o * s->oh * s->ow + 36 * s->tiles * (s->c + s->o)));
}

static yoke_status
emit_weight(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    side s = side_of(problem, problem->op);
    uint32_t strip = strip_of(&s, traits), v, d, sums;
    int64_t strips = s.o * pieces(s.c, PAIRS);
    yki_launch *launch;
    cut k;

    cut_all(&s, 1, traits, tuning, &k);
    yki_recipe_start(recipe, problem);
    v = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s.c * s.row));
    d = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s.o * s.row));
    sums =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * k.splits * s.o * row_of(s.c)));
    emit_both(recipe, &s, v, d, strip, problem);

    launch = start_product(recipe, "yki_tiles_product_weight", k.block, traits);
    yki_arg_slot(recipe, d);
    yki_arg_slot(recipe, v);
    yki_arg_slot(recipe, sums);
    yki_arg_expr(recipe, "samples", s.conv.n);
    yki_arg_int(recipe, "tiles", s.tiles);
    yki_arg_int(recipe, "c", s.c);
    yki_arg_int(recipe, "o", s.o);
    yki_arg_int(recipe, "splits", k.splits);
    finish_product(launch, &s, &k, problem, YKI_CONST(k.across), YKI_CONST(k.splits * k.down));

    launch = start_transform(recipe, "yki_tiles_weight_out", strip);
    yki_arg_slot(recipe, sums);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_int(recipe, "o", s.o);
    yki_arg_int(recipe, "c", s.c);
    yki_arg_int(recipe, "splits", k.splits);
    if (!launch)
        return recipe->status;
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(strips, MAX_GROUPS)), YKI_CONST(1), YKI_CONST(1),
                    strip, 1, 1);
    yki_launch_iterations(launch, problem, 0,
                          pieces(strips, MAX_GROUPS) * (pieces(36 * PAIRS, strip) + 2) * k.splits);
    launch->flops = YKI_CONST(s.o * s.c * 36 * (k.splits + 3));
    launch->bytes = YKI_CONST(4 * s.o * s.c * (36 * k.splits + 9));
    return recipe->status;
}

/* ---- both gradients ---- */

/* Without what the norm behind it is: these are never measured, so wisdom has no use for it. */
static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_conv_attrs a = yki_conv_attrs_get(attrs);
    size_t used;

    yki_op_conv2d.describe(attrs, text, size);
    used = strlen(text);
    if (a.act >= YKI_CONV_ACT_SUM && used < size)
        snprintf(text + used, size - used, a.act == YKI_CONV_ACT_SUM ? " sum" : " gated sum");
}

const yki_op yki_op_conv2d_grads = {
    .name = "conv2d_grads",
    .infer = yki_infer_joined,
    .describe = describe,
    .in_place = 1u << 3,
};

const yki_op yki_op_conv2d_parts = {
    .name = "conv2d_parts",
    .infer = yki_infer_joined,
    .describe = describe,
};

/* Input 3 is another gradient, or the norm's x, which the norm reads later. */
const yki_op yki_op_conv2d_grads_parts = {
    .name = "conv2d_grads_parts",
    .infer = yki_infer_joined,
    .describe = describe,
    .in_place = 1u << 3,
};

enum { BY_INPUT, BY_WEIGHT };

static void
find_sides(const yki_problem *problem, side sides[2])
{
    sides[BY_INPUT] = side_of(problem, &yki_op_conv2d_grad_input);
    sides[BY_WEIGHT] = side_of(problem, &yki_op_conv2d_grad_weight);
}

static bool
applies_grads(const yki_problem *problem, const yki_device_traits *traits)
{
    side s[2];
    int64_t places;

    find_sides(problem, s);
    places = 2 * (s[0].c + s[0].o) * s[0].row;
    return s[0].th == s[1].th && s[0].tw == s[1].tw && fits(problem, traits, &s[0], places) &&
           fits(problem, traits, &s[1], places);
}

/* Transforms both operands of both products. */
static void
emit_grads_in(yki_recipe *recipe, const side *s, const uint32_t scratch[4], uint32_t strip,
              const yki_problem *problem)
{
    int64_t weights = s->o * row_of(s->c);
    int64_t weight_groups = YKI_MIN(pieces(weights, strip), MAX_GROUPS);
    yki_launch *launch = start_transform(recipe, "yki_tiles_grads_in", strip);
    const yki_named_int values[] = {{"c", s->c},
                                    {"h", s->h},
                                    {"w", s->w},
                                    {"o", s->o},
                                    {"oh", s->oh},
                                    {"ow", s->ow},
                                    {"pad_h", s->pad[0]},
                                    {"pad_w", s->pad[1]},
                                    {"th", s->th},
                                    {"tw", s->tw},
                                    {"weight_groups", weight_groups}};

    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, i);
    for (uint32_t i = 0; i < 4; i++)
        yki_arg_slot(recipe, scratch[i]);
    yki_arg_expr(recipe, "samples", s->conv.n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    if (!launch)
        return;
    finish_transform(launch, problem, groups_of(s, s->c + s->o, strip, weight_groups), strip,
                     (s->c + 2 * s->o) * s->row + weights);
    launch->flops = yki_conv_times(&s->conv, s->tiles * (s->c * 192 + s->o * (140 + 192)));
    launch->bytes = yki_conv_times(&s->conv, 4 * (s->c * s->h * s->w + s->o * s->oh * s->ow +
                                                  36 * s->tiles * (s->c + 2 * s->o)));
    launch->flops.constant += s->c * s->o * 117;
    launch->bytes.constant += 4 * s->c * s->o * (9 + 36);
}

/* Transforms the results of both products. */
static void
emit_grads_out(yki_recipe *recipe, const side *s, const cut *k, uint32_t m, uint32_t sums,
               uint32_t strip, int64_t parts, const yki_problem *problem)
{
    uint32_t out = problem->input_count;
    int terms = s->conv.a.act < YKI_CONV_ACT_SUM ? 0 /* the sum's, and the gate */
                                                 : s->conv.a.act - YKI_CONV_ACT_SUM + 1;
    int64_t strips = s->o * pieces(s->c, PAIRS);
    int64_t image_groups = YKI_MIN(pieces(s->row, strip) * s->c, MAX_GROUPS);
    int64_t sum_groups = YKI_MIN(strips, MAX_GROUPS);
    yki_launch *launch = start_results(recipe, "yki_tiles_grads_out", strip, norm_of(problem));
    const yki_named_int values[] = {{"c", s->c},
                                    {"h", s->h},
                                    {"w", s->w},
                                    {"th", s->th},
                                    {"tw", s->tw},
                                    {"act", s->conv.a.act},
                                    {"image_groups", image_groups},
                                    {"o", s->o},
                                    {"splits", k->splits}};

    yki_arg_slot(recipe, m);
    yki_arg_slot(recipe, terms > 0 ? 3 : m);
    yki_arg_slot(recipe, terms > 1 ? 4 : m);
    yki_arg_slot(recipe, sums);
    yki_arg_slot(recipe, out);
    yki_arg_slot(recipe, out + 1);
    norm_args(recipe, problem, parts);
    yki_arg_expr(recipe, "samples", s->conv.n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    if (!launch)
        return;
    terms += norm_of(problem) == SUMS;
    finish_transform(launch, problem, YKI_CONST(image_groups + sum_groups), strip, 0);
    launch->iterations =
        YKI_MAX(pieces(pieces(s->row, strip) * s->c, image_groups) * 64,
                pieces(strips, MAX_GROUPS) * (pieces(36 * PAIRS, strip) + 2) * k->splits);
    launch->flops = yki_conv_times(&s->conv, s->tiles * s->c * 120);
    launch->bytes =
        yki_conv_times(&s->conv, 4 * s->c * (36 * s->tiles + (1 + (int64_t)terms) * s->h * s->w));
    launch->flops.constant += s->o * s->c * 36 * (k->splits + 3);
    launch->bytes.constant += 4 * s->o * s->c * (36 * k->splits + 9);
}

static yoke_status
emit_grads(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    side sides[2];
    const side *s = &sides[BY_WEIGHT];
    cut cuts[2], *k = &cuts[BY_WEIGHT];
    yki_expr blocks;
    uint32_t strip, v, d, g, u, m, sums;
    int64_t parts;
    yki_launch *launch;

    find_sides(problem, sides);
    cut_all(sides, 2, traits, tuning, cuts);
    strip = strip_of(s, traits);
    parts = k->splits * k->down;
    yki_recipe_start(recipe, problem);
    v = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s->c * s->row));
    d = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s->o * s->row));
    g = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s->o * s->row));
    u = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s->o * row_of(s->c)));
    m = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 36 * s->c * s->row));
    sums = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH,
                           YKI_CONST(4 * 36 * k->splits * s->o * row_of(s->c)));
    emit_grads_in(recipe, s, (const uint32_t[]){v, d, g, u}, strip, problem);

    launch = start_product(recipe, "yki_tiles_product_grads", k->block, traits);
    yki_arg_slot(recipe, u);
    yki_arg_slot(recipe, g);
    yki_arg_slot(recipe, m);
    yki_arg_slot(recipe, d);
    yki_arg_slot(recipe, v);
    yki_arg_slot(recipe, sums);
    yki_arg_expr(recipe, "samples", s->conv.n);
    yki_arg_int(recipe, "tiles", s->tiles);
    yki_arg_int(recipe, "c", s->c);
    yki_arg_int(recipe, "o", s->o);
    yki_arg_int(recipe, "splits", k->splits);
    yki_arg_int(recipe, "parts", parts);
    blocks = yki_conv_times(&s->conv, s->tiles);
    blocks.divisor = k->block->tn;
    blocks.constant += parts * blocks.divisor;
    finish_product(launch, s, cuts[BY_INPUT].sum > k->sum ? &cuts[BY_INPUT] : k, problem,
                   YKI_CONST(YKI_MAX(cuts[BY_INPUT].down, k->across)), blocks);
    if (launch) {
        launch->flops.per_sample *= 2;
        launch->flops.constant *= 2;
        launch->bytes.per_sample *= 2;
        launch->bytes.constant *= 2;
    }
    emit_grads_out(recipe, s, k, m, sums, strip, parts_of(&sides[BY_INPUT], traits), problem);
    return recipe->status;
}

static int64_t
count_parts(const yki_problem *problem, const yki_device_traits *traits)
{
    side s = side_of(problem, problem->op == &yki_op_conv2d_parts ? &yki_op_conv2d
                                                                  : &yki_op_conv2d_grad_input);

    return parts_of(&s, traits);
}

static bool
applies_parts(const yki_problem *problem, const yki_device_traits *traits)
{
    return problem->out.batched && applies(problem, traits) &&
           count_parts(problem, traits) <= MOST_PARTS;
}

static bool
applies_grads_parts(const yki_problem *problem, const yki_device_traits *traits)
{
    return problem->out.batched && applies_grads(problem, traits) &&
           count_parts(problem, traits) <= MOST_PARTS;
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;
static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;
static const yki_op *const grads_op = &yki_op_conv2d_grads;
static const yki_op *const parts_op = &yki_op_conv2d_parts;
static const yki_op *const grads_parts_op = &yki_op_conv2d_grads_parts;

const yki_solver yki_solver_winograd_tiles_parts = {
    .name = "conv2d-parts-winograd4-tiles",
    .op = &parts_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .side_by_side = true,
    .parts = count_parts,
    .applies = applies_parts,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_winograd_tiles_grads_parts = {
    .name = "conv2d-grads-parts-winograd4-tiles",
    .op = &grads_parts_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .side_by_side = true,
    .parts = count_parts,
    .applies = applies_grads_parts,
    .tunings = tunings,
    .emit = emit_grads,
};

const yki_solver yki_solver_winograd_tiles = {
    .name = "conv2d-winograd4-tiles",
    .op = &forward_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FREE,
    .with_parts = &yki_solver_winograd_tiles_parts,
    .applies = applies,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_winograd_tiles_grad_input = {
    .name = "conv2d-grad-input-winograd4-tiles",
    .op = &grad_input_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_winograd_tiles_grad_weight = {
    .name = "conv2d-grad-weight-winograd4-tiles",
    .op = &grad_weight_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .tunings = tunings,
    .emit = emit_weight,
};

const yki_solver yki_solver_winograd_tiles_grads = {
    .name = "conv2d-grads-winograd4-tiles",
    .op = &grads_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .side_by_side = true,
    .adds = true,
    .with_parts = &yki_solver_winograd_tiles_grads_parts,
    .joins = {&yki_solver_winograd_tiles_grad_input, &yki_solver_winograd_tiles_grad_weight},
    .applies = applies_grads,
    .tunings = tunings,
    .emit = emit_grads,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * plain_solver.c - convolutions in plain layout on any device, for all attributes: as
 * implicit matrix products, or element by element.
 *
 * The tiles of the products that fit the device, and the other way, are tunings of one solver
 * per operator. The guess is the one whose slowest compute unit is done first, by a count of its
 * multiply-adds; element by element where rows of a tile would be empty.
 *
 * Products whose operands are rounded (yki_class_rounds) have solvers of their own,
 * with a device's matrix unit or in ordinary arithmetic. They are never done element by element.
 */
#include <stdio.h>

#include "op/conv/conv.h"
#include "op/matmul/matmul.h"

enum { MAX_GROUPS = 16384, MIN_ROWS = 8, MAX_GRID = 65535, TERMS = 8, DOT_TERMS = 16 };
enum { MAX_PARTS = 256, MAX_IMAGE_PARTS = 16, MAX_PART_BYTES = 64 << 20 }; /* of sums */
enum { MASK_BITS = 31 }; /* an implicit product has one for each row and column of the kernel */
enum {
    NOTED = -1,
    BY_K,
    BY_ROW,
    BY_K4,
    BY_ROW4
}; /* forms of operands in tile.cl, or conv_gemm.cl */

/* A tile of a group, and an item's piece of it. `density` is the share of multiply-adds in the
 * inner loop, in percent, as compiled for sm_90; with a matrix unit, more than all of it. */
typedef struct tile {
    uint32_t rows, columns, item_rows, item_columns, density;
} tile;

static const tile tiles[] = {{32, 32, 4, 4, 56},
                             {64, 64, 8, 4, 71},
                             {64, 64, 8, 8, 77},
                             {128, 64, 8, 8, 81},
                             {128, 128, 8, 8, 84}};
/* As in tile_mma.cl. */
static const tile dot_tiles[] = {{64, 64, 8, 8, 180}, {128, 64, 8, 8, 240}, {128, 128, 8, 8, 300}};
enum { TILES = YKI_COUNT(tiles), DOT_TILES = YKI_COUNT(dot_tiles) };

static uint32_t
items_of(const tile *t)
{
    return t->rows / t->item_rows * (t->columns / t->item_columns);
}

/* The product that an operator is: a result of rows x columns in each group, sums of `depth`. */
typedef struct product {
    int64_t rows, columns; /* the columns at the largest batch, of the largest class */
    int64_t depth, groups; /* groups: independent pieces, classes and bands apart */
    bool fits;             /* all offsets that kernels count as int are ints */
    bool of_weights;       /* a gradient of them */
    int64_t most_parts;    /* into which the sum may be divided */
    int64_t canonical_parts;
    yki_dot_unit dot;
    const tile *tiles; /* that it has, the smallest first */
    unsigned tile_count;
    int64_t terms; /* of a round */
} product;

static void
set_dot(product *p, yki_dot_unit dot)
{
    bool matrices = yki_dot_of_matrices(dot);

    p->dot = dot;
    p->tiles = matrices ? dot_tiles : tiles;
    p->tile_count = matrices ? DOT_TILES : TILES;
    p->terms = matrices ? DOT_TERMS : TERMS;
}

/* Whether its other way, element by element, is of the same class and has the same bits. */
static bool
has_elements(const product *p, const yki_device_traits *traits)
{
    return p->dot == YKI_DOT_FMA && !(traits->canonical && p->of_weights);
}

static int64_t
ceil_of(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Returns whether the device can run groups of the tile. Processors get the smallest only, which
 * compiles soonest: they have other solvers for all but tests. */
static bool
tile_fits(const tile *t, const product *p, const yki_device_traits *traits)
{
    uint64_t bytes = (uint64_t)(2 * p->terms * 4) * (t->rows + t->columns + 8) + 16 * t->columns +
                     16 * items_of(t) + 512;

    return p->fits && items_of(t) <= traits->max_group &&
           (bytes <= traits->local_memory || t == p->tiles) &&
           (traits->type != YOKE_DEVICE_CPU || t == p->tiles) &&
           ceil_of(p->rows, t->rows) <= MAX_GRID &&
           p->groups * YKI_MAX(ceil_of(ceil_of(p->columns, t->columns), MAX_GROUPS), 64) <=
               MAX_GRID;
}

/* How long the busiest compute unit takes, in multiply-adds of a unit that does nothing else: a
 * model of large GPUs. With few work-items it stands still at times. Parts are written, read and
 * added by another launch, which all gradients of weights share (plan/late_sums.c). */
static double
cost_of(const tile *t, const product *p, const yki_device_traits *traits, int64_t parts)
{
    enum { FULL = 512, EDGE = 32, DOT_EDGE = 96, PER_BYTE = 12, LAUNCH = 1200000, LATE = 400000 };
    int64_t units = YKI_MAX(traits->compute_units, 1u);
    int64_t count = ceil_of(p->rows, t->rows) * ceil_of(p->columns, t->columns) * p->groups;
    int64_t most = ceil_of(count * parts, units);
    double idle = 1 - (double)YKI_MIN(most * items_of(t), FULL) / FULL;
    double edge = p->terms == TERMS ? EDGE : DOT_EDGE;
    double terms = (double)p->depth / (double)parts + edge;
    double cost = (double)(most * t->rows * t->columns) * terms / (1 - idle * idle);

    cost = 100 * cost / t->density;
    if (parts > 1)
        cost += (p->of_weights ? LATE : LAUNCH) +
                8.0 * PER_BYTE * (double)(parts * p->rows * p->columns * p->groups) / (double)units;
    return cost;
}

/* The number of parts with the least cost. */
static int64_t
parts_of(const tile *t, const product *p, const yki_device_traits *traits)
{
    int64_t best = 1;

    if (traits->canonical)
        return p->canonical_parts;
    for (int64_t parts = 2; parts <= p->most_parts; parts++)
        if (cost_of(t, p, traits, parts) < cost_of(t, p, traits, best))
            best = parts;
    return best;
}

static double
least_cost(const tile *t, const product *p, const yki_device_traits *traits)
{
    return cost_of(t, p, traits, parts_of(t, p, traits));
}

/* Returns the tile of a tuning, or NULL for element by element. */
static const tile *
tile_of(const product *p, const yki_device_traits *traits, unsigned tuning)
{
    const tile *list[TILES + 1], *guess = NULL;
    unsigned count = 0;

    for (const tile *t = p->tiles; t < p->tiles + p->tile_count; t++)
        if (tile_fits(t, p, traits)) {
            list[count++] = t;
            if (!guess || least_cost(t, p, traits) < least_cost(guess, p, traits))
                guess = t;
        }
    list[count++] = NULL;
    if (!has_elements(p, traits))
        count--;
    else if (p->rows < MIN_ROWS || p->depth < TERMS)
        guess = NULL;
    if (tuning == 0)
        return guess;
    for (unsigned i = 0, other = 0; i < count; i++)
        if (list[i] != guess && ++other == tuning)
            return list[i];
    return guess;
}

static unsigned
count_tunings(const product *p, const yki_device_traits *traits)
{
    unsigned count = has_elements(p, traits);

    for (unsigned i = 0; i < p->tile_count; i++)
        count += tile_fits(&p->tiles[i], p, traits);
    return count;
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

/* A 1x1 kernel that reads each position once: the images are matrices. Four positions are read at
 * a time. */
static bool
is_flat(const yki_conv *conv)
{
    const yki_conv_attrs *a = &conv->a;

    return conv->taps == 1 && a->stride[0] == 1 && a->stride[1] == 1 && !a->pad[0] && !a->pad[1] &&
           conv->h * conv->w % 4 == 0;
}

/* Forward and the input's gradient see one geometry: what is read in windows, and the result. */
typedef struct image {
    bool transposed;
    int64_t rows, channels;  /* of the result and of the other, in a group */
    int64_t h, w, oh, ow;    /* of the other and of the result */
    int64_t classes, column; /* positions of the largest class in a sample */
} image;

static image
image_of(const yki_problem *problem, const yki_conv *conv)
{
    const yki_conv_attrs *a = &conv->a;

    if (problem->op == &yki_op_conv2d)
        return (image){false,    conv->og, conv->cg,           conv->h, conv->w, conv->oh,
                       conv->ow, 1,        conv->oh * conv->ow};
    return (image){true,
                   conv->cg,
                   conv->og,
                   conv->oh,
                   conv->ow,
                   conv->h,
                   conv->w,
                   (int64_t)a->stride[0] * a->stride[1],
                   ceil_of(conv->h, a->stride[0]) * ceil_of(conv->w, a->stride[1])};
}

static product
image_product(const yki_problem *problem, const yki_conv *conv, const image *i, yki_dot_unit dot)
{
    product p = {.rows = i->rows,
                 .columns = i->column * (conv->batched ? problem->max.batch : 1),
                 .depth = i->channels * conv->taps / i->classes,
                 .groups = conv->a.groups * i->classes,
                 .most_parts =
                     conv->has_bias || conv->a.act > YKI_CONV_ACT_RELU ? 1 : MAX_IMAGE_PARTS,
                 .canonical_parts = 1};

    p.fits = i->channels * i->h * i->w <= INT32_MAX / 2 && i->oh * i->ow <= INT32_MAX / 2 &&
             conv->o * conv->cg * conv->taps <= INT32_MAX / 2;
    set_dot(&p, dot);
    /* One band of columns, and parts that fit into memory. */
    p.most_parts =
        YKI_MIN(p.most_parts, MAX_PART_BYTES / 4 / YKI_MAX(p.rows * p.columns * p.groups, 1));
    if (p.columns > (int64_t)MAX_GROUPS * p.tiles->columns || conv->taps * i->channels < 1)
        p.most_parts = 1;
    p.most_parts = YKI_MAX(p.most_parts, 1);
    return p;
}

/* What the kernels are told of it. */
static const char *
dot_options(const product *p, char text[24])
{
    text[0] = '\0';
    if (p->dot != YKI_DOT_FMA)
        snprintf(text, 24, " -DDOT=%d -DTK=%d", (int)p->dot, (int)p->terms);
    return text;
}

static void
emit_image_product(const yki_problem *problem, bool canonical, yki_recipe *recipe,
                   const yki_conv *conv, const image *i, const product *p, const tile *t,
                   int64_t parts)
{
    bool sum = conv->a.act >= YKI_CONV_ACT_SUM;
    bool flat = is_flat(conv), vectors = t->rows * p->terms / items_of(t) % 4 == 0;
    char dot[24];
    int64_t bands = ceil_of(ceil_of(p->columns, t->columns), MAX_GROUPS);
    int form = flat ? i->transposed ? BY_ROW : BY_K : NOTED;
    yki_expr columns = yki_conv_times(conv, i->column);
    uint32_t to = problem->input_count;
    yki_launch *launch;

    if (flat && vectors && (i->transposed ? i->rows : i->channels) % 4 == 0)
        form = i->transposed ? BY_ROW4 : BY_K4;
    if (!flat && !i->transposed && !canonical && i->channels * conv->taps % 4 == 0)
        form = BY_K4;
    if (parts > 1)
        to = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH,
                             yki_gemm_times(yki_operand_bytes(&problem->out), YKI_CONST(parts)));
    launch =
        yki_recipe_launch(recipe, "conv_gemm.cl", "yki_conv_gemm_image",
                          "-DTM=%u -DTN=%u -DIM=%u -DIN=%u -DFLAT=%d -DA_FORM=%d%s%s%s%s", t->rows,
                          t->columns, t->item_rows, t->item_columns, flat, form,
                          conv->a.kernel[0] + conv->a.kernel[1] > MASK_BITS ? " -DMASKS=0" : "",
                          sum ? " -DSUM" : "", dot_options(p, dot), yki_two_groups(items_of(t)));
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv->has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, to);
    if (sum) {
        yki_arg_slot(recipe, 2);
        yki_arg_slot(recipe, conv->a.act == YKI_CONV_ACT_GATED_SUM ? 3 : 2);
    }
    yki_arg_int(recipe, "transposed", i->transposed);
    yki_arg_expr(recipe, "samples", conv->n);
    yki_arg_ints(recipe,
                 (const yki_named_int[]){{"groups", conv->a.groups},
                                         {"rows", i->rows},
                                         {"channels", i->channels},
                                         {"h", i->h},
                                         {"w", i->w},
                                         {"oh", i->oh},
                                         {"ow", i->ow}},
                 7);
    yki_arg_window(recipe, conv);
    yki_arg_int(recipe, "has_bias", conv->has_bias);
    yki_arg_int(recipe, "act", parts > 1 ? 0 : conv->a.act);
    yki_arg_int(recipe, "bands", bands);
    yki_arg_int(recipe, "parts", parts);
    yki_arg_int(recipe, "wide", i->classes == 1 && i->oh * i->ow % 4 == 0);
    if (!launch)
        return;
    columns.divisor = t->columns;
    columns.max = MAX_GROUPS;
    yki_launch_grid(launch, YKI_CONST(ceil_of(i->rows, t->rows)), columns,
                    YKI_CONST(p->groups * parts * bands), items_of(t), 1, 1);
    /* An iteration is one term of the sums, what an item loads for it, or a step to the next. */
    yki_launch_iterations(launch, problem, 0,
                          (canonical ? 4 : 3) * i->channels * conv->taps + conv->a.kernel[0] +
                              conv->a.kernel[1]);
}

static void
emit_image_elements(const yki_problem *problem, const yki_device_traits *traits, yki_recipe *recipe,
                    const yki_conv *conv, const image *i)
{
    uint32_t items = group_items(traits);
    yki_launch *launch = yki_recipe_launch(recipe, "conv_elements.cl",
                                           i->transposed ? "yki_conv_elements_grad_input"
                                                         : "yki_conv_elements_forward",
                                           "-DWG=%u", items);
    yki_expr groups = yki_conv_times(conv, i->rows * conv->a.groups * i->oh * i->ow);

    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv->has_bias ? 2 : 1);
    yki_arg_slot(recipe, problem->input_count);
    shape_args(recipe, conv);
    yki_arg_int(recipe, "has_bias", conv->has_bias);
    yki_arg_int(recipe, "act", conv->a.act);
    if (!launch)
        return;
    groups.divisor = items;
    groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), items, 1, 1);
    yki_launch_iterations(launch, problem,
                          (double)yki_expr_value(yki_conv_flops(conv), problem->max) / 2,
                          i->channels * conv->taps);
}

static yoke_status
emit_image(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit dot,
           unsigned tuning, yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    image i = image_of(problem, &conv);
    product p = image_product(problem, &conv, &i, dot);
    const tile *t = tile_of(&p, traits, tuning), *guess = tile_of(&p, traits, 0);
    int64_t parts = guess ? parts_of(guess, &p, traits) : 1; /* all tiles give the same bits */

    yki_recipe_start(recipe, problem);
    if (t)
        emit_image_product(problem, traits->canonical, recipe, &conv, &i, &p, t, parts);
    else
        emit_image_elements(problem, traits, recipe, &conv, &i);
    if (recipe->status != YOKE_OK)
        return recipe->status;
    recipe->launches[0].flops = yki_conv_flops(&conv);
    recipe->launches[0].bytes = yki_problem_bytes(problem);
    if (t && parts > 1) {
        /* It adds as for a matrix; a multiple of 4 columns lets it add vectors. */
        yki_gemm finish = {.n = YKI_CONST(i.oh * i.ow % 4 == 0 ? 4 : 1),
                           .relu = conv.a.act == YKI_CONV_ACT_RELU};

        yki_gemm_emit_finish(recipe, problem, &finish, traits, recipe->launches[0].args[3].slot,
                             parts);
    }
    return recipe->status;
}

/* The positions of which a part of the sum has whole units: a piece of a sample, except in
 * canonical plans, whose parts have whole samples. */
static int64_t
unit_of(const yki_conv *conv, bool canonical, int64_t terms)
{
    int64_t unit = conv->oh * conv->ow;

    while (!canonical && unit > 64 && unit % (2 * terms) == 0)
        unit /= 2;
    return unit;
}

static product
weight_product(const yki_problem *problem, const yki_conv *conv, yki_dot_unit dot)
{
    int64_t samples = conv->batched ? problem->max.batch : 1, area = conv->oh * conv->ow;
    product p = {.rows = conv->og,
                 .columns = conv->cg * conv->taps,
                 .depth = samples * area,
                 .groups = conv->a.groups,
                 .of_weights = true,
                 .canonical_parts = yki_conv_canonical_parts(conv)};

    set_dot(&p, dot);
    p.most_parts = YKI_MIN(samples * (area / unit_of(conv, false, p.terms)), MAX_PARTS);
    p.most_parts = YKI_MIN(p.most_parts, MAX_GRID / p.groups);
    p.most_parts =
        YKI_MIN(p.most_parts, MAX_PART_BYTES / 4 / YKI_MAX(conv->o * conv->cg * conv->taps, 1));
    p.fits = p.depth <= INT32_MAX / 2 && conv->o * area <= INT32_MAX / 2 &&
             conv->c * conv->h * conv->w <= INT32_MAX / 2 && p.columns <= INT32_MAX / 2;
    return p;
}

/* Element by element: enough splits of the samples to fill the device, given `pieces` independent
 * pieces of work. */
static int64_t
split_count(const yki_problem *problem, const yki_device_traits *traits, const yki_conv *conv,
            int64_t pieces)
{
    int64_t wanted = ceil_of((int64_t)traits->compute_units * 4, pieces);

    if (traits->canonical)
        return yki_conv_canonical_parts(conv);
    if (pieces >= traits->compute_units)
        return 1;
    return YKI_MAX(YKI_MIN(YKI_MIN(wanted, problem->max.batch), 64), 1);
}

/* How the kernel's items count through the positions. */
static void
walk_args(yki_recipe *recipe, const yki_conv *conv, int64_t unit, int64_t terms)
{
    int64_t area = conv->oh * conv->ow;

    yki_arg_ints(
        recipe,
        (const yki_named_int[]){{"unit", unit},
                                {"step", terms % area},
                                {"step_x", terms % conv->ow * conv->a.stride[1]},
                                {"step_y", terms / conv->ow % conv->oh * conv->a.stride[0]},
                                {"step_n", terms / area},
                                {"wide", conv->cg * conv->taps % 4 == 0}},
        6);
}

static yoke_status
emit_grad_weight(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit dot,
                 unsigned tuning, yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    product p = weight_product(problem, &conv, dot);
    const tile *t = tile_of(&p, traits, tuning);
    uint32_t items = t ? items_of(t) : group_items(traits), part;
    int64_t elements = conv.o * p.columns, groups = conv.a.groups;
    int64_t across = t ? ceil_of(p.columns, t->columns) : 0,
            down = t ? ceil_of(p.rows, t->rows) : 0;
    int64_t splits = t ? parts_of(t, &p, traits) : split_count(problem, traits, &conv, elements);
    yki_launch *launch;
    char options[24];

    yki_recipe_start(recipe, problem);
    part = splits > 1 ? yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * splits * elements))
                      : problem->input_count;
    if (t)
        launch = yki_recipe_launch(
            recipe, "conv_gemm_weight.cl", "yki_conv_gemm_weight",
            "-DTM=%u -DTN=%u -DIM=%u -DIN=%u -DFLAT=%d -DVECTORS=%d%s", t->rows, t->columns,
            t->item_rows, t->item_columns, is_flat(&conv),
            is_flat(&conv) || conv.oh * conv.ow % p.terms == 0, dot_options(&p, options));
    else
        launch = yki_recipe_launch(recipe, "conv_elements.cl", "yki_conv_elements_grad_weight",
                                   "-DWG=%u", items);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    shape_args(recipe, &conv);
    yki_arg_int(recipe, "splits", splits);
    if (t)
        walk_args(recipe, &conv, unit_of(&conv, traits->canonical, p.terms), p.terms);
    if (!launch)
        return recipe->status;
    if (t)
        yki_launch_grid(launch, YKI_CONST(across), YKI_CONST(down), YKI_CONST(groups * splits),
                        items, 1, 1);
    else
        yki_launch_grid(launch, YKI_CONST(YKI_MIN(elements, MAX_GROUPS)), YKI_CONST(splits),
                        YKI_CONST(1), items, 1, 1);
    p.depth = t ? ceil_of(p.depth, splits) + conv.oh * conv.ow
                : ceil_of(problem->max.batch, splits) * conv.oh * conv.ow;
    yki_launch_iterations(launch, problem,
                          t ? 0 : (double)yki_expr_value(yki_conv_flops(&conv), problem->max) / 2,
                          t ? 3 * p.depth : p.depth / items);
    launch->flops = yki_conv_flops(&conv);
    launch->bytes = yki_problem_bytes(problem);
    if (splits > 1)
        yki_conv_sum_parts(recipe, traits, part, problem->input_count, elements, splits);
    return recipe->status;
}

static product
product_of(const yki_problem *problem, yki_dot_unit dot)
{
    yki_conv conv = yki_conv_of(problem);
    image i;

    if (problem->op == &yki_op_conv2d_grad_weight)
        return weight_product(problem, &conv, dot);
    i = image_of(problem, &conv);
    return image_product(problem, &conv, &i, dot);
}

/* Element by element no other gradient is added, and a canonical gradient of weights has another
 * order. */
static bool
applies_with(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit dot)
{
    product p = product_of(problem, dot);

    return yki_plain_applies(problem, traits) &&
           ((has_elements(&p, traits) && yki_conv_of(problem).a.act < YKI_CONV_ACT_SUM) ||
            tile_of(&p, traits, 0) != NULL);
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;
static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;

/* Processors have far better convolutions, in float32, than one that only rounds. */
static bool
rounds_on(const yki_device_traits *traits)
{
    return traits->type != YOKE_DEVICE_CPU;
}

/* The solvers of a class. `has` says whether the device has the dot unit. */
#define PLAIN(suffix, text, of_class, dot_unit, has, emulated)                                     \
    static bool applies##suffix(const yki_problem *problem, const yki_device_traits *traits)       \
    {                                                                                              \
        return (has) && applies_with(problem, traits, (dot_unit));                                 \
    }                                                                                              \
    static unsigned tunings##suffix(const yki_problem *problem, const yki_device_traits *traits)   \
    {                                                                                              \
        product p = product_of(problem, (dot_unit));                                               \
                                                                                                   \
        return count_tunings(&p, traits);                                                          \
    }                                                                                              \
    PLAIN_SOLVER(, "", forward_op, false, emit_image, suffix, text, of_class, emulated)            \
    PLAIN_SOLVER(_grad_input, "-grad-input", grad_input_op, true, emit_image, suffix, text,        \
                 of_class, emulated)                                                               \
    PLAIN_SOLVER(_grad_weight, "-grad-weight", grad_weight_op, false, emit_grad_weight, suffix,    \
                 text, of_class, emulated)
#define PLAIN_SOLVER(kind, kind_text, of_op, can_add, emit_it, suffix, text, of_class, emulated)   \
    const yki_solver yki_solver_conv_plain##kind##suffix = {                                       \
        .name = "conv2d" kind_text "-plain" text,                                                  \
        .op = &of_op,                                                                              \
        .numerical_class = (of_class),                                                             \
        .emulates = (emulated),                                                                    \
        .side_by_side = true,                                                                      \
        .canonical = (of_class) == YKI_CLASS_DIRECT ? YKI_CANONICAL_FREE : YKI_NOT_CANONICAL,      \
        .adds = (can_add),                                                                         \
        .applies = applies##suffix,                                                                \
        .tunings = tunings##suffix,                                                                \
        .emit_by = emit_it,                                                                        \
    };
PLAIN(, "", YKI_CLASS_DIRECT, YKI_DOT_FMA, true, false)
PLAIN(_bf16, "-bf16", YKI_CLASS_BF16, YKI_DOT_MMA_BF16, traits->bf16 == YKI_DOT_MMA_BF16, false)
PLAIN(_tf32, "-tf32", YKI_CLASS_TF32, YKI_DOT_MMA_TF32, traits->tf32 == YKI_DOT_MMA_TF32, false)
PLAIN(_f16, "-f16", YKI_CLASS_F16, YKI_DOT_MMA_F16, yki_has_f16(traits), false)
PLAIN(_rounded, "-rounded", YKI_CLASS_BF16, YKI_DOT_ROUNDED, rounds_on(traits), true)
PLAIN(_rounded_tf32, "-rounded-tf32", YKI_CLASS_TF32, YKI_DOT_ROUNDED_TF32, rounds_on(traits), true)
PLAIN(_rounded_f16, "-rounded-f16", YKI_CLASS_F16, YKI_DOT_ROUNDED_F16, rounds_on(traits), true)

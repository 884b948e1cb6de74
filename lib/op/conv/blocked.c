/* SPDX-License-Identifier: Apache-2.0
 *
 * blocked.c - convolutions and gradients of their input on CPUs, with channels in
 * blocks of the vector's width (clkernels/conv_blocked.cl).
 *
 * This file computes the numbers with which one kernel does both: grids of result
 * positions with the taps that reach them, the shape of a unit of work (some samples
 * or some rows) that fits the cache, and the register tile.
 *
 * First layers, which have few channels, read the plain layout.
 *
 * The solver "stacked" uses tiles of samples instead of pixels. It is for small images
 * and large kernels, where padding would be a large part of the work.
 */
#include "op/conv/conv.h"

enum {
    FEW_CHANNELS = 4,        /* up to this many, x is read in plain layout */
    STRIP_BYTES = 192 << 10, /* of a unit's input: it should stay in L2 with the weights */
    UNIT_PIXELS = 128,       /* enough to make reading the weights worth while */
    PACK_GROUPS = 256,
    STACK_BYTES = 256 << 10, /* of the samples of a stacked unit */
    UNITS_PER_CORE = 4,      /* enough to divide the units evenly */
    MAX_GRIDS = 16
};

/* Alternatives to measure: stores through the caches, or past them. */
enum { THROUGH_CACHES, PAST_CACHES, TUNINGS };

typedef struct tile {
    uint32_t v, p, q;
} tile;

/* What the kernel does in one launch. */
typedef struct unit_shape {
    int64_t samples, rows;  /* in a unit */
    int64_t strip, table;   /* floats of a strip, ints of one table */
    bool direct;            /* whether x is read where it is, without a strip */
    int64_t pieces, sample; /* stacked: pieces of the outputs, floats of a sample in the strip */
} unit_shape;

typedef struct side {
    int64_t c, h, w, o, oh, ow; /* of what is read, and of what is written */
    bool transposed, from_plain;
} side;

static side
side_of(const yki_problem *problem, const yki_conv *conv)
{
    bool transposed = problem->op == &yki_op_conv2d_grad_input;
    side s = {conv->c, conv->h, conv->w, conv->o, conv->oh, conv->ow, transposed, false};

    if (transposed)
        s = (side){conv->o, conv->oh, conv->ow, conv->c, conv->h, conv->w, transposed, false};
    s.from_plain = problem->in[0].layout.block <= 1;
    return s;
}

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    uint32_t v = yki_conv_width(traits);
    yki_conv conv = yki_conv_of(problem);
    int64_t channels = problem->in[0].shape.dim[0];

    if (variant || !yki_conv_is_cpu(traits))
        return false;
    problem->in[0].layout.block = channels <= FEW_CHANNELS && conv.a.groups == 1 ? 1 : v;
    problem->out.layout.block = v;
    return true;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    side s = side_of(problem, &conv);
    uint32_t v = yki_conv_width(traits), block = problem->in[0].layout.block;
    int64_t limit = INT32_MAX / 2;

    if (!yki_conv_is_cpu(traits) || problem->out.layout.block != v ||
        problem->in[1].layout.block > 1 || (block != v && (block > 1 || s.c > FEW_CHANNELS)))
        return false;
    if (s.transposed && (int64_t)conv.a.stride[0] * conv.a.stride[1] > MAX_GRIDS)
        return false;
    /* A canonical sum takes the channels of a group from its first one on, which blocks do not. */
    if (traits->canonical && conv.a.groups > 1)
        return false;
    /* With many groups, a block multiplies mostly zeros. depthwise.c is for one filter per
     * channel. */
    if (conv.a.groups > 1 && (block != v || YKI_MIN(conv.cg, conv.og) * 4 < v))
        return false;
    return (s.c + v) * s.h * s.w < limit && (s.o + v) * s.oh * s.ow < limit &&
           (s.h + 2 * (int64_t)conv.a.pad[0] + s.oh) * (s.w + 2 * (int64_t)conv.a.pad[1] + s.ow) <
               limit / (s.c + v);
}

/* Measured with 16 lanes: a tile of 8 x 2 reaches 0.92 of the peak; 12 x 2 and 6 x 2 are as fast
 * where memory is near; 14 x 1 reaches only 0.73. So single blocks are used only where half of
 * two would be waste. */
static tile
tile_for(const side *s, uint32_t v)
{
    int64_t blocks = (s->o + v - 1) / v;

    if (blocks == 1 || blocks == 3)
        return (tile){v, v >= 16 ? 14 : 8, 1};
    return (tile){v, v == 8 ? 6 : 8, 2}; /* 16 registers with 8 lanes, else 32 */
}

/* Rows of x, padding included, that `count` positions of an axis reach. */
static int64_t
reach(const yki_conv_axis *a, int64_t count)
{
    return (count - 1) * a->in_step + (a->taps - 1) * a->tap_step + 1;
}

static unit_shape
shape_of_unit(const yki_problem *problem, const yki_device_traits *traits, const side *s,
              const yki_conv_axis *vertical, const yki_conv_axis *horizontal, const tile *t)
{
    unit_shape u = {.samples = 1, .rows = vertical->count};
    int64_t cp = s->from_plain ? s->c : t->v, blocks = s->from_plain ? 1 : (s->c + t->v - 1) / t->v;
    int64_t per_row = blocks * cp * (int64_t)sizeof(float), most, strips, pixels;
    int64_t n = problem->in[0].batched ? problem->max.batch : 1;

    u.direct = !s->from_plain && vertical->in_at >= 0 && horizontal->in_at >= 0 &&
               vertical->in_at + reach(vertical, vertical->count) <= s->h &&
               horizontal->in_at + reach(horizontal, horizontal->count) <= s->w;
    per_row *= u.direct ? s->w : reach(horizontal, horizontal->count);
    /* As many rows as fit, in units of nearly equal height. */
    while (u.rows > 1 && per_row * reach(vertical, u.rows) > STRIP_BYTES)
        u.rows--;
    strips = (vertical->count + u.rows - 1) / u.rows;
    u.rows = (vertical->count + strips - 1) / strips;
    pixels = u.rows * horizontal->count;
    if (strips == 1) {
        /* As many samples as fit, but at least four units for each compute unit. */
        most = STRIP_BYTES / (per_row * YKI_MAX(reach(vertical, u.rows), 1));
        most = YKI_MIN(most, n / (4 * (int64_t)traits->compute_units));
        most = YKI_MIN(most, (2 * UNIT_PIXELS + pixels - 1) / pixels);
        while (u.samples < most && (u.samples * pixels < UNIT_PIXELS || u.samples * pixels % t->p))
            u.samples++;
    }
    u.strip = u.direct ? 0
                       : u.samples * blocks * cp * reach(vertical, u.rows) *
                             reach(horizontal, horizontal->count);
    u.strip = (u.strip + 15) / 16 * 16;
    u.table = (u.samples * pixels + t->p - 1) / t->p * t->p;
    u.table = (u.table + 15) / 16 * 16;
    return u;
}

/* Floats of packed weights for Q blocks of outputs: all channels that any of them reads. */
static int64_t
weight_step(const yki_conv *conv, const side *s, const yki_conv_axis *vertical,
            const yki_conv_axis *horizontal, const tile *t)
{
    int64_t most = 0, width = (int64_t)t->q * t->v;
    int64_t cg = s->c / conv->a.groups, og = s->o / conv->a.groups;

    for (int64_t o0 = 0; o0 < s->o; o0 += width) {
        int64_t first = o0 / og, last = (YKI_MIN(o0 + width, s->o) - 1) / og;
        int64_t c0 = first * cg / t->v, c1 = ((last + 1) * cg + t->v - 1) / t->v;

        most = YKI_MAX(most, s->from_plain ? s->c : YKI_MIN(c1 * t->v, s->c) - c0 * t->v);
    }
    return most * vertical->taps * horizontal->taps * width;
}

/* One launch: a grid of positions, and where its weights begin in the packed weights. */
typedef struct grid {
    yki_conv_axis vertical, horizontal;
    unit_shape unit;
    int64_t weight_at, weight_step;
} grid;

typedef struct slots {
    uint32_t weights, strips, tables;
} slots;

static void
emit_pack(yki_recipe *recipe, const yki_conv *conv, const side *s, const grid *g, const tile *t,
          uint32_t weights)
{
    int64_t width = (int64_t)t->q * t->v, out_groups = (s->o + width - 1) / width;
    int64_t jobs = out_groups * (s->from_plain ? 1 : (s->c + t->v - 1) / t->v);
    yki_launch *launch = yki_recipe_launch(recipe, "conv_blocked.cl", "yki_conv_blocked_pack",
                                           "-DV=%u -DP=%u -DQ=%u", t->v, t->p, t->q);
    const yki_named_int values[] = {{"weight_at", g->weight_at},
                                    {"c", s->c},
                                    {"o", s->o},
                                    {"groups", conv->a.groups},
                                    {"transposed", s->transposed}};
    const yki_named_int memory[] = {{"from_plain", s->from_plain},
                                    {"weight_step", g->weight_step},
                                    {"has_bias", conv->has_bias}};

    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv->has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, weights);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    yki_arg_packed_taps(recipe, conv, &g->vertical, &g->horizontal);
    yki_arg_ints(recipe, memory, YKI_COUNT(memory));
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(jobs, PACK_GROUPS)), YKI_CONST(1), YKI_CONST(1), 1, 1,
                    1);
    if (launch) {
        launch->phase = YKI_PHASE_PREPARE;
        launch->bytes = YKI_CONST(8 * out_groups * g->weight_step);
    }
}

/* Counts the taps of an axis that lie inside x, over all positions. */
static int64_t
inner_taps(const yki_conv_axis *a, int64_t size)
{
    int64_t taps = 0;

    for (int64_t i = 0; i < a->count; i++)
        for (int64_t t = 0; t < a->taps; t++) {
            int64_t at = i * a->in_step + a->in_at + t * a->tap_step;

            taps += at >= 0 && at < size;
        }
    return taps;
}

/* The samples of a unit are a multiple of a tile, where there are enough. Sets strip and table
 * too. */
static unit_shape
shape_of_stack(const yki_problem *problem, const yki_device_traits *traits, const side *s,
               const tile *t)
{
    unit_shape u = {.samples = t->p, .rows = 1};
    int64_t cp = s->from_plain ? s->c : t->v, blocks = s->from_plain ? 1 : (s->c + t->v - 1) / t->v;
    int64_t out_groups = ((s->o + t->v - 1) / t->v + t->q - 1) / t->q;
    int64_t n = problem->max.batch, wanted = UNITS_PER_CORE * (int64_t)traits->compute_units;

    /* One cache line more than a sample, so that the samples of a tile do not share a set of the
     * cache. */
    u.sample = (blocks * cp * s->h * s->w + 15) / 16 * 16 + 16;
    while ((u.samples + t->p) * u.sample * (int64_t)sizeof(float) <= STACK_BYTES &&
           n / (u.samples + t->p) >= wanted)
        u.samples += t->p;
    /* With few samples, the blocks of outputs are divided too. */
    u.pieces = (wanted * u.samples + n - 1) / YKI_MAX(n, 1);
    u.pieces = YKI_MAX(YKI_MIN(u.pieces, out_groups), 1);
    u.strip = u.samples * u.sample;
    u.table = (u.samples + 15) / 16 * 16;
    return u;
}

static void
emit_grid(const yki_problem *problem, const yki_device_traits *traits, yki_recipe *recipe,
          const yki_conv *conv, const side *s, const grid *g, const tile *t, const slots *slot,
          bool stacked, bool stream)
{
    const yki_conv_axis *v = &g->vertical, *h = &g->horizontal;
    const unit_shape *u = &g->unit;
    yki_launch *launch = yki_recipe_launch(
        recipe, "conv_blocked.cl", stacked ? "yki_conv_stacked" : "yki_conv_blocked",
        "-DV=%u -DP=%u -DQ=%u%s", t->v, t->p, t->q, stream ? " -DSTREAM" : "");
    const uint32_t buffers[] = {0, slot->weights, problem->input_count, slot->strips, slot->tables};
    const yki_named_int second =
        stacked ? (yki_named_int){"pieces", u->pieces} : (yki_named_int){"unit_rows", u->rows};
    const yki_named_int source =
        stacked ? (yki_named_int){"sample_step", u->sample} : (yki_named_int){"direct", u->direct};
    const yki_named_int values[] = {{"weight_at", g->weight_at},
                                    {"unit_samples", u->samples},
                                    second,
                                    {"c", s->c},
                                    {"h", s->h},
                                    {"w", s->w},
                                    {"o", s->o},
                                    {"oh", s->oh},
                                    {"ow", s->ow}};
    const yki_named_int memory[] = {
        {"groups", conv->a.groups}, {"from_plain", s->from_plain}, source,
        {"strip_size", u->strip},   {"table_size", u->table},      {"weight_step", g->weight_step},
        {"act", conv->a.act}};
    yki_expr groups = yki_conv_times(conv, traits->compute_units);
    int64_t taps = stacked ? inner_taps(v, s->h) * inner_taps(h, s->w)
                           : v->count * v->taps * h->count * h->taps;

    for (size_t i = 0; i < YKI_COUNT(buffers); i++)
        yki_arg_slot(recipe, buffers[i]);
    yki_arg_expr(recipe, "samples", conv->n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    yki_arg_axes(recipe, v, h);
    yki_arg_ints(recipe, memory, YKI_COUNT(memory));
    if (!launch)
        return;
    groups.max = traits->compute_units; /* and no group if there are no samples */
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    launch->flops = yki_conv_times(conv, 2 * s->o * (s->c / conv->a.groups) * taps);
    launch->bytes = yki_problem_bytes(problem);
}

/* Adds a launch for positions that no tap reaches. With a stride above the kernel's size these
 * are most of a gradient. `bias_at` is where the bias begins in the packed weights. */
static void
emit_rest(const yki_problem *problem, yki_recipe *recipe, const yki_conv *conv, const side *s,
          const grid *grids, size_t count, const tile *t, const slots *slot, int64_t bias_at)
{
    yki_launch *launch = yki_recipe_launch(recipe, "conv_blocked.cl", "yki_conv_blocked_rest",
                                           "-DV=%u -DP=%u -DQ=%u", t->v, t->p, t->q);
    int64_t rows = 0, columns = 0, lines = (s->o + t->v - 1) / t->v * s->oh;
    yki_expr groups = yki_conv_times(conv, lines);

    for (size_t i = 0; i < count; i++) {
        rows |= grids[i].vertical.taps ? (int64_t)1 << grids[i].vertical.out_at : 0;
        columns |= grids[i].horizontal.taps ? (int64_t)1 << grids[i].horizontal.out_at : 0;
    }
    const yki_named_int values[] = {{"bias_at", bias_at},
                                    {"o", s->o},
                                    {"oh", s->oh},
                                    {"ow", s->ow},
                                    {"sh", conv->a.stride[0]},
                                    {"sw", conv->a.stride[1]},
                                    {"rows", rows},
                                    {"columns", columns},
                                    {"act", conv->a.act}};

    yki_arg_slot(recipe, slot->weights);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_expr(recipe, "samples", conv->n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    groups.max = PACK_GROUPS; /* and no group if there are no samples */
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch)
        launch->bytes = yki_operand_bytes(&problem->out);
}

static bool
is_reached(const grid *g)
{
    return g->vertical.taps && g->horizontal.taps;
}

/* Fills in the grids of a problem, and returns their number: one, or one for each residue modulo
 * the stride. */
static size_t
grids_of(const yki_conv *conv, const side *s, grid *grids)
{
    size_t count = 0;

    if (!s->transposed) {
        grids[0] = (grid){.vertical = yki_conv_forward_axis(conv, 0),
                          .horizontal = yki_conv_forward_axis(conv, 1)};
        return 1;
    }
    for (int64_t i = 0; i < conv->a.stride[0]; i++)
        for (int64_t j = 0; j < conv->a.stride[1]; j++) {
            grid g = {.vertical = yki_conv_gradient_axis(conv, 0, i),
                      .horizontal = yki_conv_gradient_axis(conv, 1, j)};

            if (g.vertical.count && g.horizontal.count)
                grids[count++] = g;
        }
    return count;
}

static yoke_status
emit_either(const yki_problem *problem, const yki_device_traits *traits, bool stacked, bool stream,
            yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    side s = side_of(problem, &conv);
    tile t = tile_for(&s, yki_conv_width(traits));
    int64_t width = (int64_t)t.q * t.v, out_groups = (s.o + width - 1) / width;
    int64_t weights = 0, strips = 16, tables = 16;
    grid grids[MAX_GRIDS];
    size_t count = grids_of(&conv, &s, grids);
    bool rest = false; /* whether the positions that no tap reaches have a launch */
    slots slot;

    for (size_t i = 0; i < count; i++) {
        grid *g = &grids[i];

        g->weight_at = weights;
        if (!is_reached(g)) {
            weights += out_groups * width; /* the bias */
            continue;
        }
        g->unit = stacked ? shape_of_stack(problem, traits, &s, &t)
                          : shape_of_unit(problem, traits, &s, &g->vertical, &g->horizontal, &t);
        g->weight_step = weight_step(&conv, &s, &g->vertical, &g->horizontal, &t);
        weights += out_groups * (g->weight_step + width);
        strips = YKI_MAX(strips, g->unit.strip);
        tables = YKI_MAX(tables, g->unit.table);
    }
    yki_recipe_start(recipe, problem);
    slot.weights = yki_recipe_slot(recipe, YKI_SLOT_PREPARED, YKI_CONST(4 * weights));
    slot.strips =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * strips * traits->compute_units));
    slot.tables =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(8 * tables * traits->compute_units));
    for (size_t i = 0; i < count; i++) {
        const grid *g = &grids[i];

        if (is_reached(g)) {
            emit_pack(recipe, &conv, &s, g, &t, slot.weights);
            emit_grid(problem, traits, recipe, &conv, &s, g, &t, &slot, stacked, stream);
        } else if (!rest) {
            rest = true;
            emit_pack(recipe, &conv, &s, g, &t, slot.weights);
            emit_rest(problem, recipe, &conv, &s, grids, count, &t, &slot, g->weight_at);
        }
    }
    return recipe->status;
}

/* With few input channels, much is written and little calculated, so both ways to store are
 * measured. Only a vector of 16 lanes is a whole cache line. */
static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);

    return yki_conv_width(traits) == 16 && side_of(problem, &conv).from_plain ? TUNINGS
                                                                              : THROUGH_CACHES + 1;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    return emit_either(problem, traits, false, tuning == PAST_CACHES, recipe);
}

static yoke_status
stack(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
      yki_recipe *recipe)
{
    (void)tuning;
    return emit_either(problem, traits, true, false, recipe);
}

/* There must be samples to stack, and at least a fifth of the work to save. Canonical plans, which
 * measure nothing, count the samples that fill the last tile as work. */
static bool
stack_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    side s = side_of(problem, &conv);
    int64_t all = 0, inner = 0, n = problem->max.batch, done = n;
    grid grids[MAX_GRIDS];
    size_t count;

    if (!applies(problem, traits) || !problem->in[0].batched || n < 4)
        return false;
    if (traits->canonical)
        done = yki_round_up(n, tile_for(&s, yki_conv_width(traits)).p);
    count = grids_of(&conv, &s, grids);
    for (size_t i = 0; i < count; i++) {
        const yki_conv_axis *v = &grids[i].vertical, *h = &grids[i].horizontal;

        all += v->count * v->taps * h->count * h->taps;
        inner += inner_taps(v, s.h) * inner_taps(h, s.w);
    }
    return 5 * inner * done <= 4 * all * n;
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;

const yki_solver yki_solver_conv_blocked = {
    .name = "conv2d-blocked",
    .op = &forward_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .layouts = layouts,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_conv_blocked_grad_input = {
    .name = "conv2d-grad-input-blocked",
    .op = &grad_input_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .layouts = layouts,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_conv_stacked = {
    .name = "conv2d-stacked",
    .op = &forward_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = stack_applies,
    .layouts = layouts,
    .emit = stack,
};

const yki_solver yki_solver_conv_stacked_grad_input = {
    .name = "conv2d-grad-input-stacked",
    .op = &grad_input_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = stack_applies,
    .layouts = layouts,
    .emit = stack,
};

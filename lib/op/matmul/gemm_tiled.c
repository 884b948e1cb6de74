/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_tiled.c - matrix products of any shape on any device, with tiles in local
 * memory (clkernels/gemm.cl).
 *
 * Tunings are tiles: those that fit the device and are not far larger than the result. All
 * of them give the same bits. The guess is the one whose slowest compute unit is done first,
 * by a count of its multiply-adds.
 *
 * Operands may be rounded to bfloat16, TF32 or half on their way into local memory or out of it, or
 * be multiplied by a unit for matrices, which has tiles of its own.
 *
 * A gate is applied where the result is written. The sums of A over k are another group's work in
 * the same launch.
 *
 * Where the result is too small to occupy the device, the sum is divided into parts,
 * which a second launch adds. The number of parts depends on the problem, never on the
 * batch: a sample's result does not depend on the samples beside it. Nor does it depend on
 * the tile. In a canonical plan there is one part, so that an element is one chain on every
 * device.
 */
#include <stdio.h>
#include <string.h>

#include "op/matmul/matmul.h"

enum {
    MAX_GROUPS = 32768, /* in one grid dimension; kernels loop over the rest */
    MAX_PARTS = 64,
    MIN_PART = 64,             /* a part should have at least this many terms of the sum, */
    GOOD_PART = 256,           /* or this many, so that parts cost little to write and to add */
    MIN_SPLIT = 256,           /* a sum of less terms is faster than a second launch */
    MAX_SUMMED = 4096,         /* one group of a row adds up A, over this many terms at most */
    MAX_PART_BYTES = 64 << 20, /* of all parts together */
    PART_TILE = 64,            /* the tile for which parts are counted: a unit needs */
    PART_GROUPS = 2,           /* so many groups of it, */
    GOOD_GROUPS = 8            /* and a GPU's hides latency with so many */
};

/* As in tile.cl. `density` is the share of multiply-adds in the inner loop, in percent, as
 * compiled for sm_90. */
typedef struct tile {
    uint8_t rows, columns, item_rows, item_columns, terms, density;
} tile;

static const tile tiles[] = {
    {128, 128, 8, 8, 8, 89}, {128, 64, 8, 8, 8, 88}, {64, 128, 8, 8, 8, 88}, {64, 64, 8, 8, 8, 87},
    {64, 64, 8, 4, 8, 84},   {64, 64, 4, 4, 16, 81}, {32, 32, 4, 4, 8, 74},
};
/* As in tile_mma.cl: 32 items have 32 times item_rows * item_columns elements. */
static const tile unit_tiles[] = {
    {128, 128, 8, 16, 16, 22}, {128, 128, 8, 8, 16, 20}, {128, 64, 8, 8, 16, 17},
    {64, 128, 8, 8, 16, 17},   {64, 64, 8, 8, 16, 13},   {64, 32, 8, 8, 16, 9},
};

enum { TILES = YKI_COUNT(tiles) };
_Static_assert(YKI_COUNT(unit_tiles) <= TILES, "a list has room for either");

/* The tiles that a unit has. The last is the smallest. */
typedef struct shelf {
    const tile *tiles, *smallest;
} shelf;

static shelf
shelf_for(yki_dot_unit unit)
{
    if (yki_dot_of_matrices(unit))
        return (shelf){unit_tiles, &unit_tiles[YKI_COUNT(unit_tiles) - 1]};
    return (shelf){tiles, &tiles[TILES - 1]};
}

static int64_t
group_of(const tile *t)
{
    return t->rows / t->item_rows * (t->columns / t->item_columns);
}

/* The bytes of local memory for rounds of so many terms, at most: bfloat16 takes half of it, where
 * it is stored as such. */
static int64_t
bytes_of(const tile *t, const yki_device_traits *traits, int64_t terms)
{
    return yki_rounds(traits, terms) * terms * (t->rows + 4 + t->columns + 4) * 4;
}

/* The terms of a round. Copies ahead are best in long ones. */
static int64_t
terms_of(const tile *t, const yki_device_traits *traits, yki_dot_unit unit)
{
    enum { LONG = 16 };
    const bool fits = (uint64_t)bytes_of(t, traits, LONG) <= traits->local_memory;

    return traits->copies_ahead && unit == YKI_DOT_FMA && fits ? LONG : t->terms;
}

static int64_t
local_bytes(const tile *t, const yki_device_traits *traits, yki_dot_unit unit)
{
    return bytes_of(t, traits, terms_of(t, traits, unit));
}

static int64_t
rounded_up(int64_t size, int64_t unit)
{
    return (size + unit - 1) / unit;
}

/* Whether the kernel can add up A over k, too: then one more group of each row of groups does. */
static bool
can_sum(const yki_problem *problem, const yki_gemm *g, const tile *smallest)
{
    return g->outer + g->sum == 0 && g->a_m == 1 && g->a_k == yki_expr_value(g->m, problem->max) &&
           yki_expr_value(g->k, problem->max) <= MAX_SUMMED &&
           yki_expr_value(g->m, problem->max) <= (int64_t)MAX_GROUPS * smallest->rows &&
           yki_expr_value(g->n, problem->max) < (int64_t)MAX_GROUPS * smallest->columns;
}

static bool
applies_with(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit unit)
{
    const tile *smallest = shelf_for(unit).smallest;
    yki_gemm g;

    return group_of(smallest) <= traits->max_group &&
           (uint64_t)local_bytes(smallest, traits, unit) <= traits->local_memory &&
           yki_gemm_of(problem, &g) &&
           (!g.sums || (!traits->canonical && can_sum(problem, &g, smallest)));
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return applies_with(problem, traits, YKI_DOT_FMA);
}

static bool
applies_bf16(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->bf16 == YKI_DOT_MMA_BF16 && applies_with(problem, traits, traits->bf16);
}

static bool
applies_tf32(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_has_tf32(traits) && applies_with(problem, traits, traits->tf32);
}

static bool
applies_f16(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_has_f16(traits) && applies_with(problem, traits, traits->f16);
}

/* The length of the sum over all its axes. */
static int64_t
length_of(const yki_problem *problem, const yki_gemm *g)
{
    int64_t length = yki_expr_value(g->k, problem->max);

    for (uint32_t i = 0; i < g->sum; i++)
        length *= yki_expr_value(g->axes[g->outer + i].size, problem->max);
    return length;
}

/* The tiles of the result at the largest extents. */
static int64_t
count_tiles(const yki_problem *problem, const yki_gemm *g, int64_t rows, int64_t columns)
{
    return rounded_up(yki_expr_value(g->m, problem->max), rows) *
           rounded_up(yki_expr_value(g->n, problem->max), columns) *
           yki_expr_value(g->z, problem->max);
}

/* The number of parts that gives each compute unit enough groups. */
static int64_t
choose_parts(const yki_problem *problem, const yki_gemm *g, const yki_device_traits *traits)
{
    yki_extents max = problem->max;
    int64_t m = yki_expr_value(g->m, max), n = yki_expr_value(g->n, max);
    int64_t z = yki_expr_value(g->z, max), parts;
    int64_t count = count_tiles(problem, g, PART_TILE, PART_TILE);

    if (count == 0 || length_of(problem, g) < MIN_SPLIT || traits->canonical)
        return 1;
    parts = YKI_MIN(PART_GROUPS * (int64_t)traits->compute_units / count,
                    length_of(problem, g) / MIN_PART);
    if (traits->type == YOKE_DEVICE_GPU)
        parts = YKI_MAX(parts, YKI_MIN(GOOD_GROUPS * (int64_t)traits->compute_units / count,
                                       length_of(problem, g) / GOOD_PART));
    parts = YKI_MIN(parts, MAX_PART_BYTES / YKI_MAX(m * n * z * 4, 1));
    parts = YKI_MIN(parts, MAX_PARTS);
    /* Only sums can be divided along their outermost axis, which must be long enough too. */
    if (g->sum > 0)
        parts = YKI_MIN(parts, yki_expr_value(g->axes[g->outer].size, max));
    return YKI_MAX(parts, 1);
}

/* Whether a tile fits the device, and most of it the result. A processor gets one only: compiling
 * others would take longer than they could save. */
static bool
suits(const tile *t, const yki_problem *problem, const yki_gemm *g, const yki_device_traits *traits,
      yki_dot_unit unit)
{
    if (t == &tiles[TILES - 1] || t == &unit_tiles[YKI_COUNT(unit_tiles) - 1])
        return true;
    return traits->type != YOKE_DEVICE_CPU && group_of(t) <= traits->max_group &&
           (uint64_t)local_bytes(t, traits, unit) <= traits->local_memory &&
           t->rows < 2 * yki_expr_value(g->m, problem->max) &&
           t->columns < 2 * yki_expr_value(g->n, problem->max);
}

/* How long the busiest compute unit takes for a sum of one term: a model. A unit with less than
 * 256 work-items stands still at times. */
static double
guess_time(const tile *t, int64_t count, const yki_device_traits *traits)
{
    int64_t most = YKI_MAX(rounded_up(count, YKI_MAX(traits->compute_units, 1u)), 1);
    double full = (double)YKI_MIN(most * group_of(t), 256) / 256;

    return (double)(most * t->rows * t->columns) / (full * t->density);
}

/* Lists the tiles that suit, the guess first. Returns how many there are. */
static unsigned
list_tiles(const yki_problem *problem, const yki_gemm *g, const yki_device_traits *traits,
           yki_dot_unit unit, const tile *list[TILES])
{
    const shelf from = shelf_for(unit);
    int64_t parts = choose_parts(problem, g, traits);
    double best = 0;
    unsigned count = 0;

    for (const tile *t = from.tiles; t <= from.smallest; t++) {
        double time;

        if (!suits(t, problem, g, traits, unit))
            continue;
        time = guess_time(t, count_tiles(problem, g, t->rows, t->columns) * parts, traits);
        list[count++] = t;
        if (count == 1 || time < best) {
            best = time;
            list[count - 1] = list[0];
            list[0] = t;
        }
    }
    return count;
}

static unsigned
tunings_with(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit unit)
{
    const tile *list[TILES];
    yki_gemm g;

    return yki_gemm_of(problem, &g) ? list_tiles(problem, &g, traits, unit, list) : 1;
}

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    return tunings_with(problem, traits, YKI_DOT_FMA);
}

static unsigned
unit_tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    return tunings_with(problem, traits, YKI_DOT_MMA_TF32);
}

static yki_expr
groups_of(yki_expr size, int64_t per_group)
{
    size.divisor = per_group;
    size.max = MAX_GROUPS;
    return size;
}

/* Whether there are more tiles along a dimension than groups. */
static bool
exceeds_grid(const yki_problem *problem, const yki_gemm *g, const tile *t, int64_t parts)
{
    yki_extents max = problem->max;

    return rounded_up(yki_expr_value(g->n, max), t->columns) > MAX_GROUPS ||
           rounded_up(yki_expr_value(g->m, max), t->rows) > MAX_GROUPS ||
           yki_expr_value(g->z, max) * parts > MAX_GROUPS;
}

static bool
by_four(yki_expr size)
{
    return size.per_sample % 4 == 0 && size.constant % 4 == 0;
}

/* How tile.cl reads A (or B, `of_b`): the larger of the two strides is that between vectors. */
static const char *
form_of(const yki_gemm *g, bool of_b)
{
    int64_t row = of_b ? g->b_n : g->a_m, k = of_b ? g->b_k : g->a_k;
    bool vectors = true;

    for (uint32_t i = 0; i < g->outer + g->sum; i++)
        vectors = vectors && (of_b ? g->axes[i].b : g->axes[i].a) % 4 == 0;
    if (k == 1 && vectors && row % 4 == 0 && by_four(g->k))
        return "TILE_BY_K4";
    if (row == 1 && vectors && k % 4 == 0 && by_four(of_b ? g->n : g->m))
        return "TILE_BY_ROW4";
    return k == 1 ? "TILE_BY_K" : "TILE_BY_ROW";
}

/* ---- operands as pairs of bfloat16 or half ----
 *
 * A large product reads each operand many times. With half the bytes, and nothing to round as they
 * are multiplied, that takes less time than a launch before it takes to round them once. */

enum { LEAST_SIDE = 128 };
#define LEAST_WORK (256.0 * 256 * 256)

/* The words of a row of k terms, at the largest batch; the kernel reads as many as there are terms.
 */
static int64_t
words_of(const yki_problem *problem, const yki_gemm *g)
{
    return rounded_up(yki_expr_value(g->k, problem->max), 8) * 4;
}

static bool
applies_pairs_of(const yki_problem *problem, const yki_device_traits *traits, bool has_unit)
{
    yki_extents max = problem->max;
    double m, n, k;
    yki_gemm g;

    if (!traits->copies_ahead || !has_unit || !applies_with(problem, traits, YKI_DOT_MMA_PAIRS) ||
        !yki_gemm_of(problem, &g) || g.outer + g.sum > 0 || (g.a_k != 1 && g.a_m != 1) ||
        (g.b_k != 1 && g.b_n != 1) || (g.sums && (g.bias || g.gate)))
        return false;
    m = (double)yki_expr_value(g.m, max);
    n = (double)yki_expr_value(g.n, max);
    k = (double)yki_expr_value(g.k, max);
    return m >= LEAST_SIDE && n >= LEAST_SIDE && k >= LEAST_SIDE && m * n * k >= LEAST_WORK &&
           YKI_MAX(m, n) * (double)words_of(problem, &g) <= INT32_MAX;
}

static bool
applies_pairs(const yki_problem *problem, const yki_device_traits *traits)
{
    return applies_pairs_of(problem, traits, traits->bf16 == YKI_DOT_MMA_BF16);
}

static bool
applies_pairs_f16(const yki_problem *problem, const yki_device_traits *traits)
{
    return applies_pairs_of(problem, traits, yki_has_f16(traits));
}

static bool
of_pairs(yki_dot_unit unit)
{
    return unit == YKI_DOT_MMA_PAIRS || unit == YKI_DOT_MMA_PAIRS_F16;
}

/* Adds the launch that writes `rows` rows of the operand in slot `from` as pairs. Returns their
 * slot. */
static uint32_t
emit_pairs(yki_recipe *recipe, const yki_problem *problem, const yki_device_traits *traits,
           const yki_gemm *g, yki_dot_unit unit, uint32_t from)
{
    const uint32_t group = yki_sum_group(traits);
    const yki_expr rows = from == 0 ? g->m : g->n;
    const int64_t words = words_of(problem, g), stride = from == 0 ? g->a_m : g->b_n,
                  step = from == 0 ? g->a_k : g->b_k;
    const bool turned = step != 1, fours = !turned && stride % 4 == 0 && by_four(g->k);
    const uint32_t to =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, yki_gemm_times(rows, YKI_CONST(4 * words)));
    char dot[16] = "";
    yki_launch *launch;

    if (unit == YKI_DOT_MMA_PAIRS_F16)
        snprintf(dot, sizeof dot, " -DDOT=%d", (int)YKI_DOT_ROUNDED_F16);
    launch = yki_recipe_launch(recipe, "pairs.cl",
                               turned  ? "yki_pairs_turned"
                               : fours ? "yki_pairs_of_fours"
                                       : "yki_pairs",
                               "-DWG=%u%s", group, dot);
    yki_arg_slot(recipe, from);
    yki_arg_slot(recipe, to);
    yki_arg_expr(recipe, "rows", rows);
    yki_arg_expr(recipe, "k", g->k);
    yki_arg_int(recipe, "words", words);
    yki_arg_int(recipe, "stride", turned ? step : stride);
    if (turned)
        yki_launch_grid(launch, YKI_CONST(YKI_MIN(rounded_up(words, 16), MAX_GROUPS)),
                        groups_of(rows, group / 4), YKI_CONST(1), group, 1, 1);
    else
        yki_launch_grid(launch, groups_of(yki_gemm_times(rows, YKI_CONST(words / 4)), group),
                        YKI_CONST(1), YKI_CONST(1), group, 1, 1);
    if (launch)
        launch->bytes = yki_gemm_times(rows, YKI_CONST(12 * words));
    return to;
}

/* With a matrix unit vectors alone are copied beside what items compute. */
static const char *
ahead_option(const yki_gemm *g, const tile *t, const yki_device_traits *traits, yki_dot_unit unit)
{
    bool vectors =
        of_pairs(unit) || (strchr(form_of(g, false), '4') && strchr(form_of(g, true), '4'));

    return unit == YKI_DOT_FMA || vectors
               ? yki_ahead_option(traits, unit, terms_of(t, traits, unit))
               : "";
}

/* Whether the terms of a row may be 2^31 elements apart. */
static bool
far_apart(const yki_problem *problem, const yki_gemm *g)
{
    return (double)yki_expr_value(g->k, problem->max) * (double)YKI_MAX(g->a_k, g->b_k) > INT32_MAX;
}

static void
write_sum_options(const yki_device_traits *traits, char *text, size_t size)
{
    snprintf(text, size, "-DSUM_WG=%u -DVEC=%u", yki_sum_group(traits),
             traits->type == YOKE_DEVICE_CPU ? YKI_MIN(YKI_MAX(traits->vector_width, 4u), 16u) : 4);
}

uint32_t
yki_sum_group(const yki_device_traits *traits)
{
    uint32_t group = 256;

    if (traits->type == YOKE_DEVICE_CPU)
        return 1;
    while (group > traits->max_group)
        group /= 2;
    return group;
}

yki_launch *
yki_sum_launch(yki_recipe *recipe, const yki_device_traits *traits, const char *kernel)
{
    char options[64];

    write_sum_options(traits, options, sizeof options);
    return yki_recipe_launch(recipe, "sum_rows.cl", kernel, "%s", options);
}

void
yki_gemm_emit_finish(yki_recipe *recipe, const yki_problem *problem, const yki_gemm *g,
                     const yki_device_traits *traits, uint32_t from, int64_t parts)
{
    uint32_t wg = yki_sum_group(traits);
    yki_expr count = yki_operand_elements(&problem->out);
    yki_launch *launch = yki_sum_launch(recipe, traits, "yki_gemm_finish");

    yki_arg_slot(recipe, from);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, g->bias || g->gate ? 2 : 0);
    yki_arg_expr(recipe, "count", count);
    yki_arg_int(recipe, "part_count", parts);
    yki_arg_expr(recipe, "columns", g->n);
    yki_arg_int(recipe, "flags", (g->bias ? 1 : 0) | (g->relu ? 2 : 0) | (g->gate ? 64 : 0));
    yki_launch_grid(launch, groups_of(count, wg == 1 ? 1024 : 4 * wg), YKI_CONST(1), YKI_CONST(1),
                    wg, 1, 1);
    if (launch) {
        launch->flops = yki_gemm_times(count, YKI_CONST(parts));
        launch->bytes = yki_gemm_times(count, YKI_CONST(4 * (parts + 1)));
    }
}

/* The iterations of all work-items together, as in tile.cl: an unrolled loop counts as one. */
static double
iterations_of(const yki_problem *problem, const yki_gemm *g, const tile *t)
{
    double sums =
        (double)length_of(problem, g) / (double)YKI_MAX(yki_expr_value(g->k, problem->max), 1);
    double steps = (double)length_of(problem, g) / t->terms + sums * (t->terms + 1);

    return (double)(count_tiles(problem, g, t->rows, t->columns) * group_of(t)) * steps;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit unit,
     unsigned tuning, yki_recipe *recipe)
{
    const bool pairs = of_pairs(unit);
    uint32_t out = problem->input_count, to = out, a = 0, b = 1;
    const tile *list[TILES], *t;
    char dot[16] = "";
    yki_launch *launch;
    yki_expr columns;
    int64_t parts;
    yki_gemm g;

    if (!yki_gemm_of(problem, &g))
        return yki_fail_bug("a solver of products was asked for another operator");
    if (tuning >= list_tiles(problem, &g, traits, unit, list))
        return yki_fail_bug("a product has no tuning %u", tuning);
    t = list[tuning];
    if (unit != YKI_DOT_FMA)
        snprintf(dot, sizeof dot, " -DDOT=%d", (int)unit);
    parts = choose_parts(problem, &g, traits);
    yki_recipe_start(recipe, problem);
    if (parts > 1) {
        yki_expr bytes = yki_operand_bytes(&problem->out);

        to = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, yki_gemm_times(bytes, YKI_CONST(parts)));
    }
    if (pairs) {
        a = emit_pairs(recipe, problem, traits, &g, unit, 0);
        b = emit_pairs(recipe, problem, traits, &g, unit, 1);
        g.a_m = g.b_n = words_of(problem, &g);
        g.a_k = g.b_k = 1;
    }
    launch = yki_recipe_launch(
        recipe, "gemm.cl", "yki_gemm_tiled",
        "-DTM=%d -DTN=%d -DIM=%d -DIN=%d -DTK=%d -DA_FORM=%s -DB_FORM=%s "
        "-DLOOPS=%d -DOUTER_AXES=%d -DSUM_AXES=%d%s%s%s%s%s",
        t->rows, t->columns, t->item_rows, t->item_columns, (int)terms_of(t, traits, unit),
        pairs ? "TILE_BY_K4" : form_of(&g, false), pairs ? "TILE_BY_K4" : form_of(&g, true),
        exceeds_grid(problem, &g, t, parts), g.outer > 0, g.sum > 0, g.sums ? " -DSUMS=1" : "",
        far_apart(problem, &g) ? " -DTILE_OFFSET=long" : "", dot, yki_two_groups(group_of(t)),
        ahead_option(&g, t, traits, unit));
    yki_arg_slot(recipe, a);
    yki_arg_slot(recipe, b);
    yki_arg_slot(recipe, to);
    yki_arg_slot(recipe, g.bias || g.gate ? 2 : 0);
    yki_arg_slot(recipe, g.sums ? out + 1 : to);
    yki_arg_int(recipe, "parts", parts);
    yki_gemm_args(recipe, &g);
    columns = groups_of(g.n, t->columns);
    if (g.sums)
        columns = YKI_CONST(yki_expr_value(columns, problem->max) + 1);
    yki_launch_grid(launch, columns, groups_of(g.m, t->rows),
                    groups_of(yki_gemm_times(g.z, YKI_CONST(parts)), 1), (uint32_t)group_of(t), 1,
                    1);
    if (launch)
        yki_gemm_cost(&launch->flops, &launch->bytes, problem, &g);
    yki_launch_iterations(launch, problem, iterations_of(problem, &g, t), 0);
    if (parts > 1)
        yki_gemm_emit_finish(recipe, problem, &g, traits, to, parts);
    return recipe->status;
}

static const yki_op *const op = &yki_op_matmul;

const yki_solver yki_solver_gemm_tiled = {
    .name = "gemm-tiled",
    .op = &op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .tunings = tunings,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_tiled_rounded = {
    .name = "gemm-tiled-rounded",
    .op = &op,
    .numerical_class = YKI_CLASS_BF16,
    .side_by_side = true,
    .emulates = true,
    .applies = applies,
    .emit_by = emit,
};

static unsigned
pairs_tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    return tunings_with(problem, traits, YKI_DOT_MMA_PAIRS);
}

static yoke_status
emit_with_pairs(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit unit,
                unsigned tuning, yki_recipe *recipe)
{
    unit = unit == YKI_DOT_MMA_F16 ? YKI_DOT_MMA_PAIRS_F16 : YKI_DOT_MMA_PAIRS;
    return emit(problem, traits, unit, tuning, recipe);
}

const yki_solver yki_solver_gemm_pairs_bf16 = {
    .name = "gemm-pairs-bf16",
    .op = &op,
    .numerical_class = YKI_CLASS_BF16,
    .side_by_side = true,
    .applies = applies_pairs,
    .tunings = pairs_tunings,
    .emit_by = emit_with_pairs,
};

const yki_solver yki_solver_gemm_pairs_f16 = {
    .name = "gemm-pairs-f16",
    .op = &op,
    .numerical_class = YKI_CLASS_F16,
    .side_by_side = true,
    .applies = applies_pairs_f16,
    .tunings = pairs_tunings,
    .emit_by = emit_with_pairs,
};

const yki_solver yki_solver_gemm_tiled_bf16 = {
    .name = "gemm-tiled-bf16",
    .op = &op,
    .numerical_class = YKI_CLASS_BF16,
    .side_by_side = true,
    .applies = applies_bf16,
    .tunings = unit_tunings,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_tiled_tf32 = {
    .name = "gemm-tiled-tf32",
    .op = &op,
    .numerical_class = YKI_CLASS_TF32,
    .side_by_side = true,
    .applies = applies_tf32,
    .tunings = unit_tunings,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_tiled_f16 = {
    .name = "gemm-tiled-f16",
    .op = &op,
    .numerical_class = YKI_CLASS_F16,
    .side_by_side = true,
    .applies = applies_f16,
    .tunings = unit_tunings,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_tiled_rounded_f16 = {
    .name = "gemm-tiled-rounded-f16",
    .op = &op,
    .numerical_class = YKI_CLASS_F16,
    .side_by_side = true,
    .emulates = true,
    .applies = applies,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_tiled_rounded_tf32 = {
    .name = "gemm-tiled-rounded-tf32",
    .op = &op,
    .numerical_class = YKI_CLASS_TF32,
    .side_by_side = true,
    .emulates = true,
    .applies = applies,
    .emit_by = emit,
};

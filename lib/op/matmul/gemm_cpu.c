/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_cpu.c - matrix products on CPUs, with a register tile of vectors for each
 * work-item (clkernels/gemm_cpu.cl). Packing is a part of the one launch.
 *
 * Operands may be rounded to bfloat16: by the same kernel, with the device's unit for that
 * or without one; or to half, without one (clkernels/dot.cl).
 *
 * This file decides the tile for the device's vectors, how the result is divided among
 * groups, which operands are packed, and the blocks of the caches.
 */
#include "op/matmul/matmul.h"

enum {
    KC_MAX = 640,    /* terms of a piece of the sum: a panel of B is in L1, or close to it */
    MC_MAX = 480,    /* rows of a block of A: with KC_MAX about 1 MiB, for L2 */
    NC_MAX = 512,    /* columns of a packed block of B: 1 MiB at most for each group */
    PACK_ROWS = 384, /* from this many rows on, copying B pays where it is not needed */
    MAX_OUTER_GROUPS = 4096,
    TUNINGS = 4
};
/* Smaller pieces of work are not worth waking another core for (about 2 us). */
static const double min_group_flops = 2e5;

typedef yki_gemm_cpu_tile tile;
typedef yki_gemm_cpu_blocking blocking;

/* Accumulators, a row of B and a number of A must fit the registers: 32 with AVX-512 and NEON,
 * 16 with AVX2. */
tile
yki_gemm_cpu_tile_for(const yki_device_traits *traits, yki_dot_unit unit, int64_t n)
{
    tile t = {4, 2, 8, unit};

    if (traits->vector_width >= 16)
        t = (tile){16, 2, 12, unit};
    else if (traits->vector_width >= 8)
        t = (tile){8, 2, 6, unit};
    if (n <= t.lanes)
        t.vectors = 1;
    return t;
}

/* The terms of a part, as in clkernels/dot.cl. */
static int64_t
terms_of(yki_dot_unit unit)
{
    return unit == YKI_DOT_FMA || unit == YKI_DOT_ROUNDED_F16 ? 1 : 2;
}

/* What is rounded exists only in packed form. */
static bool
rounds(yki_dot_unit unit)
{
    return unit != YKI_DOT_FMA;
}

yki_launch *
yki_gemm_cpu_launch(yki_recipe *recipe, const char *kernel, tile t)
{
    return yki_recipe_launch(recipe, "gemm_cpu.cl", kernel, "-DW=%d -DNV=%d -DMR=%d -DDOT=%d",
                             (int)t.lanes, (int)t.vectors, (int)t.rows, (int)t.unit);
}

static int64_t
divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The cycles until the last of nx * ny * z groups is done on `units` cores: multiply-adds (two
 * vectors a cycle), reading A for the first time, copying B. Only ratios matter. */
static double
cost_of_grid(const blocking *b, int64_t tiles, int64_t panels, int64_t k, int64_t groups,
             int64_t units, int64_t nx, int64_t ny)
{
    double row_tiles = (double)divide_up(tiles, ny), col_panels = (double)divide_up(panels, nx);
    double rounds = (double)divide_up(groups, units),
           columns = (double)(b->tile.lanes * b->tile.vectors);
    double multiply = row_tiles * col_panels * (double)(b->tile.rows * b->tile.vectors) /
                      (double)(2 * terms_of(b->tile.unit));
    double read_a = (b->tile.unit == YKI_DOT_FMA ? 0.3 : 0.5) * row_tiles * (double)b->tile.rows;
    double copy_b = (b->pack_b ? 0.5 : 0.2) * col_panels * columns;

    return rounds * ((multiply + read_a + copy_b) * (double)k + 500);
}

static void
choose_grid(blocking *b, const yki_gemm *g, const yki_device_traits *traits, yki_extents max)
{
    int64_t m = yki_expr_value(g->m, max), n = yki_expr_value(g->n, max);
    int64_t k = yki_expr_value(g->k, max), z = yki_expr_value(g->z, max);
    int64_t units = YKI_MAX(traits->compute_units, 1u);
    int64_t tiles = YKI_MAX(divide_up(m, b->tile.rows), 1);
    int64_t panels = divide_up(n, b->tile.lanes * b->tile.vectors);
    double flops = 2.0 * (double)m * (double)n * (double)YKI_MAX(k, 1) * (double)z, best = -1;
    int64_t limit = (int64_t)YKI_MIN(flops / min_group_flops, 4.0 * (double)units);

    b->nx = b->ny = 1;
    b->nz = YKI_MIN(z, MAX_OUTER_GROUPS);
    limit = YKI_MAX(limit, 1);
    if (z >= 2 * limit)
        b->nz = YKI_MAX(limit, 1);
    else
        for (int64_t nx = 1; nx <= YKI_MIN(panels, limit); nx++)
            for (int64_t ny = 1; ny <= YKI_MIN(tiles, limit) && nx * ny * z <= YKI_MAX(limit, z);
                 ny++) {
                double cost = cost_of_grid(b, tiles, panels, k, nx * ny * z, units, nx, ny);

                if (best < 0 || cost < best) {
                    best = cost;
                    b->nx = nx;
                    b->ny = ny;
                }
            }
    b->row_tiles = divide_up(tiles, b->ny);
    b->col_panels = divide_up(panels, b->nx);
}

blocking
yki_gemm_cpu_choose(yki_extents max, const yki_gemm *g, const yki_device_traits *traits, tile of,
                    unsigned tuning)
{
    int64_t k = YKI_MAX(yki_expr_value(g->k, max), 1), columns, terms = terms_of(of.unit);
    blocking b = {.tile = of};

    b.pack_a = rounds(of.unit) || (g->a_m != 1 && g->a_k != 1);
    b.pack_b = rounds(of.unit) || g->b_n != 1;
    choose_grid(&b, g, traits, max);
    b.pack_b |= b.row_tiles * b.tile.rows >= PACK_ROWS;
    /* The alternatives to measure pack an operand that need not be packed, or do not pack one
     * where packing mostly pays. */
    if (tuning & 1)
        b.pack_b = rounds(of.unit) || g->b_n != 1 || !b.pack_b;
    if (tuning & 2)
        b.pack_a = true;
    columns = b.tile.lanes * b.tile.vectors;
    b.kc = divide_up(k, divide_up(k, KC_MAX * terms));
    b.kc = divide_up(b.kc, terms) * terms;
    b.mc = YKI_MIN(b.row_tiles, MC_MAX / b.tile.rows) * b.tile.rows;
    b.nc = YKI_MIN(b.col_panels, NC_MAX / columns) * columns;
    /* What the kernel keeps for a group: a narrow tile, and packed pieces. A vector may be written
     * past the end of the rows of A. */
    b.scratch = b.tile.rows * columns +
                ((b.pack_a ? b.mc : b.tile.rows) + (b.pack_b ? b.nc : columns)) * b.kc / terms +
                2 * b.tile.lanes;
    if (terms > 1)
        b.scratch += b.tile.lanes * b.tile.lanes;
    b.scratch = divide_up(b.scratch, 16) * 16;
    return b;
}

/* The most loop iterations of one group: tiles, then packing, which at worst goes number by
 * number, and the sums over rows. */
int64_t
yki_gemm_cpu_iterations(const blocking *b, const yki_gemm *g, yki_extents max)
{
    int64_t k = YKI_MAX(yki_expr_value(g->k, max), 1), z = yki_expr_value(g->z, max);
    int64_t rows = b->tile.rows, columns = b->tile.lanes * b->tile.vectors;
    int64_t pieces = divide_up(k, b->kc), blocks = divide_up(b->col_panels * columns, b->nc);
    int64_t per_tile = k + 4 * pieces, narrow = b->row_tiles * pieces * 2 * rows * columns;
    int64_t copy_a = (b->pack_a ? b->row_tiles : 1) * blocks * k * (rows + 1);
    int64_t copy_b =
        (b->pack_b ? b->col_panels : 1) * k * (g->b_n == 1 ? b->tile.vectors + 1 : columns + 1);
    int64_t sums = g->sums ? b->row_tiles * rows * k : 0;

    return divide_up(z, b->nz) *
           (b->row_tiles * b->col_panels * per_tile + narrow + copy_a + copy_b + sums);
}

static bool
applies_direct(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_gemm g;

    return traits->type == YOKE_DEVICE_CPU && yki_gemm_of(problem, &g) && g.sum == 0 &&
           (!g.sums || (!traits->canonical && g.outer == 0));
}

static bool
applies_bf16(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_has_bf16_pairs(traits) && applies_direct(problem, traits);
}

static unsigned
tunings_direct(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    (void)traits;
    return TUNINGS;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit unit,
     unsigned tuning, yki_recipe *recipe)
{
    uint32_t out = problem->input_count, scratch;
    yki_launch *launch;
    yki_expr rows, outer;
    yki_gemm g;
    blocking b;

    if (!yki_gemm_of(problem, &g))
        return yki_fail_bug("a solver of products was asked for another operator");
    b = yki_gemm_cpu_choose(problem->max, &g, traits,
                            yki_gemm_cpu_tile_for(traits, unit, yki_expr_value(g.n, problem->max)),
                            tuning);
    g.pack_a = b.pack_a;
    g.pack_b = b.pack_b;
    yki_recipe_start(recipe, problem);
    scratch =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * b.scratch * b.nx * b.ny * b.nz));
    launch = yki_gemm_cpu_launch(recipe, "yki_gemm_cpu", b.tile);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, out);
    yki_arg_slot(recipe, g.bias ? 2 : 0);
    yki_arg_slot(recipe, g.gate ? out - 1 : 0);
    yki_arg_slot(recipe, g.sums ? out + 1 : scratch);
    yki_arg_slot(recipe, scratch);
    yki_arg_int(recipe, "scratch_size", b.scratch);
    yki_arg_int(recipe, "kc", b.kc);
    yki_arg_int(recipe, "mc", b.mc);
    yki_arg_int(recipe, "nc", b.nc);
    yki_gemm_args(recipe, &g);
    rows = g.m;
    rows.divisor = b.row_tiles * b.tile.rows;
    rows.max = b.ny;
    outer = g.z;
    outer.max = b.nz;
    yki_launch_grid(launch, YKI_CONST(b.nx), rows, outer, 1, 1, 1);
    if (launch) {
        yki_gemm_cost(&launch->flops, &launch->bytes, problem, &g);
        launch->iterations = yki_gemm_cpu_iterations(&b, &g, problem->max);
    }
    return recipe->status;
}

static const yki_op *const op = &yki_op_matmul;

const yki_solver yki_solver_gemm_cpu = {
    .name = "gemm-cpu",
    .op = &op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies_direct,
    .tunings = tunings_direct,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_cpu_bf16 = {
    .name = "gemm-cpu-bf16",
    .op = &op,
    .numerical_class = YKI_CLASS_BF16,
    .applies = applies_bf16,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_cpu_rounded = {
    .name = "gemm-cpu-rounded",
    .op = &op,
    .numerical_class = YKI_CLASS_BF16,
    .emulates = true,
    .applies = applies_direct,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_cpu_rounded_f16 = {
    .name = "gemm-cpu-rounded-f16",
    .op = &op,
    .numerical_class = YKI_CLASS_F16,
    .emulates = true,
    .applies = applies_direct,
    .emit_by = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_tiled.c - matrix products of any shape on any device, with tiles in local
 * memory (clkernels/gemm.cl).
 *
 * Where the result is too small to occupy the device, the sum is divided into parts,
 * which a second launch adds. The number of parts depends on the problem, never on the
 * batch: a sample's result does not depend on the samples beside it.
 */
#include <stdio.h>

#include "op/matmul/matmul.h"

enum {
    SMALL = 32,         /* rows and columns that a group of 8 x 8 work-items computes at once */
    MAX_GROUPS = 32768, /* in one grid dimension; kernels loop over the rest */
    MAX_PARTS = 64,
    MIN_PART = 64,            /* a part should have at least this many terms of the sum */
    MAX_PART_BYTES = 64 << 20 /* of all parts together */
};

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_gemm g;

    (void)traits;
    return yki_gemm_of(problem, &g) && !g.gate && !g.sums;
}

/* The number of parts that gives about two groups for each compute unit. */
static int64_t
choose_parts(const yki_problem *problem, const yki_gemm *g, const yki_device_traits *traits,
             int64_t tile)
{
    yki_extents max = problem->max;
    int64_t m = yki_expr_value(g->m, max), n = yki_expr_value(g->n, max);
    int64_t z = yki_expr_value(g->z, max), length = yki_expr_value(g->k, max), parts;
    int64_t tiles = ((m + tile - 1) / tile) * ((n + tile - 1) / tile) * z;

    for (uint32_t i = 0; i < g->sum; i++)
        length *= yki_expr_value(g->axes[g->outer + i].size, max);
    if (tiles == 0)
        return 1;
    parts = 2 * (int64_t)traits->compute_units / tiles;
    parts = YKI_MIN(parts, length / MIN_PART);
    parts = YKI_MIN(parts, MAX_PART_BYTES / YKI_MAX(m * n * z * 4, 1));
    parts = YKI_MIN(parts, MAX_PARTS);
    /* Only sums can be divided along their outermost axis, which must be long enough too. */
    if (g->sum > 0)
        parts = YKI_MIN(parts, yki_expr_value(g->axes[g->outer].size, max));
    return YKI_MAX(parts, 1);
}

static yki_expr
groups_of(yki_expr size, int64_t per_group)
{
    size.divisor = per_group;
    size.max = MAX_GROUPS;
    return size;
}

void
yki_gemm_options(const yki_device_traits *traits, uint32_t edge, char *text, size_t size)
{
    bool cpu = traits->type == YOKE_DEVICE_CPU;

    snprintf(text, size, "-DWG=%u -DSUM_WG=%u -DVEC=%u", edge, yki_gemm_sum_group(traits),
             cpu ? YKI_MIN(YKI_MAX(traits->vector_width, 4u), 16u) : 1);
}

uint32_t
yki_gemm_edge(const yki_device_traits *traits, int64_t rows, int64_t columns)
{
    return traits->max_group >= 256 && YKI_MAX(rows, columns) > SMALL ? 16 : 8;
}

uint32_t
yki_gemm_sum_group(const yki_device_traits *traits)
{
    return traits->type == YOKE_DEVICE_CPU ? 1 : YKI_MIN(traits->max_group, 64u);
}

void
yki_gemm_emit_finish(yki_recipe *recipe, const yki_problem *problem, const yki_gemm *g,
                     const yki_device_traits *traits, uint32_t from, int64_t parts)
{
    uint32_t wg = yki_gemm_sum_group(traits);
    uint32_t edge = yki_gemm_edge(traits, yki_expr_value(g->m, problem->max),
                                  yki_expr_value(g->n, problem->max));
    yki_expr count = yki_operand_elements(&problem->out);
    yki_launch *launch;
    char options[64];

    yki_gemm_options(traits, edge, options, sizeof options);
    launch = yki_recipe_launch(recipe, "gemm.cl", "yki_gemm_finish", "%s", options);
    yki_arg_slot(recipe, from);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, g->bias ? 2 : 0);
    yki_arg_expr(recipe, "count", count);
    yki_arg_int(recipe, "part_count", parts);
    yki_arg_expr(recipe, "columns", g->n);
    yki_arg_int(recipe, "flags", (g->bias ? 1 : 0) | (g->relu ? 2 : 0));
    yki_launch_grid(launch, groups_of(count, wg == 1 ? 1024 : wg), YKI_CONST(1), YKI_CONST(1), wg,
                    1, 1);
    if (launch) {
        launch->flops = yki_gemm_times(count, YKI_CONST(parts));
        launch->bytes = yki_gemm_times(count, YKI_CONST(4 * (parts + 1)));
    }
}

/* The iterations of all work-items together: for each tile a step of the sum and, before it,
 * what a work-item loads. */
static double
iterations_of(const yki_problem *problem, const yki_gemm *g, uint32_t edge, int64_t tile)
{
    yki_extents max = problem->max;
    int64_t m = yki_expr_value(g->m, max), n = yki_expr_value(g->n, max);
    double length = (double)yki_expr_value(g->k, max), items = (double)edge * edge;

    for (uint32_t i = 0; i < g->sum; i++)
        length *= (double)yki_expr_value(g->axes[g->outer + i].size, max);
    return (double)(((m + tile - 1) / tile) * ((n + tile - 1) / tile) * yki_expr_value(g->z, max)) *
           items * length * (2 + 2 * (double)tile / items);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    uint32_t out = problem->input_count, to = out, edge;
    int64_t tile, parts;
    yki_launch *launch;
    yki_gemm g;
    char options[64];

    (void)tuning;
    if (!yki_gemm_of(problem, &g))
        return yki_fail_bug("a solver of products was asked for another operator");
    edge =
        yki_gemm_edge(traits, yki_expr_value(g.m, problem->max), yki_expr_value(g.n, problem->max));
    tile = edge * 4;
    yki_gemm_options(traits, edge, options, sizeof options);
    parts = choose_parts(problem, &g, traits, tile);
    yki_recipe_start(recipe, problem);
    if (parts > 1) {
        yki_expr bytes = yki_operand_bytes(&problem->out);

        to = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, yki_gemm_times(bytes, YKI_CONST(parts)));
    }
    launch = yki_recipe_launch(recipe, "gemm.cl", "yki_gemm_tiled", "%s", options);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, to);
    yki_arg_slot(recipe, g.bias ? 2 : 0);
    yki_arg_int(recipe, "parts", parts);
    yki_gemm_args(recipe, &g);
    yki_launch_grid(launch, groups_of(g.n, tile), groups_of(g.m, tile),
                    groups_of(yki_gemm_times(g.z, YKI_CONST(parts)), 1), edge, edge, 1);
    if (launch)
        yki_gemm_cost(&launch->flops, &launch->bytes, problem, &g);
    yki_launch_iterations(launch, problem, iterations_of(problem, &g, edge, tile), 0);
    if (parts > 1)
        yki_gemm_emit_finish(recipe, problem, &g, traits, to, parts);
    return recipe->status;
}

static const yki_op *const op = &yki_op_matmul;

const yki_solver yki_solver_gemm_tiled = {
    .name = "gemm-tiled",
    .op = &op,
    .side_by_side = true,
    .applies = applies,
    .emit = emit,
};

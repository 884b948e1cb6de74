/* SPDX-License-Identifier: Apache-2.0
 *
 * gemv.c - products of at most 8 rows with a matrix whose rows are the terms, as a dense
 * layer's weight is: one that generates tokens has a row for each stream
 * (clkernels/gemv.cl). Tiles would be empty but for these rows, and a copy of the matrix
 * would cost as much as the product.
 */
#include <stdio.h>

#include "op/matmul/matmul.h"

enum { MOST_ROWS = 8, MOST_AT_ONCE = 4, SHARE = 32, GROUP = 128, MAX_GROUPS = 32768 };
/* So many in each compute unit keep a GPU's memory busy, if each has some vectors to read. */
enum { ITEMS_PER_CORE = 1024, VECTORS_PER_ITEM = 4 };
/* Smaller pieces of the matrix are not worth waking another core for. */
enum { PIECE_BYTES = 65536, PIECES_PER_CORE = 4 };

static bool
fits(const yki_problem *problem)
{
    yki_gemm g;

    return yki_gemm_of(problem, &g) && g.outer == 0 && g.sum == 0 && !g.gate && !g.sums &&
           g.a_k == 1 && g.b_k == 1 && g.n.per_sample == 0 && g.k.per_sample == 0 &&
           yki_expr_value(g.m, problem->max) <= MOST_ROWS;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->type == YOKE_DEVICE_CPU && fits(problem);
}

static bool
groups_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->max_group >= 2 * SHARE && fits(problem);
}

static int
rows_at_once(const yki_problem *problem, const yki_gemm *g)
{
    int rows = 1;

    while (rows < MOST_AT_ONCE && 2 * rows <= yki_expr_value(g->m, problem->max))
        rows *= 2;
    return rows;
}

static yki_launch *
start(yki_recipe *recipe, const yki_problem *problem, const yki_gemm *g, const char *kernel,
      const char *options)
{
    yki_launch *launch;

    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "gemv.cl", kernel, "-DMT=%d%s", rows_at_once(problem, g),
                               options);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, g->bias ? 2 : 0);
    yki_arg_expr(recipe, "m", g->m);
    yki_arg_expr(recipe, "n_all", g->n);
    yki_arg_expr(recipe, "k", g->k);
    yki_arg_int(recipe, "a_m", g->a_m);
    yki_arg_int(recipe, "b_n", g->b_n);
    yki_arg_int(recipe, "flags", (g->bias ? 1 : 0) | (g->relu ? 2 : 0));
    if (launch)
        yki_gemm_cost(&launch->flops, &launch->bytes, problem, g);
    return launch;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_launch *launch;
    int64_t n, k, m, groups;
    yki_gemm g;

    (void)tuning;
    if (!yki_gemm_of(problem, &g))
        return yki_fail_bug("a solver of products was asked for another operator");
    m = yki_expr_value(g.m, problem->max);
    n = yki_expr_value(g.n, problem->max);
    k = yki_expr_value(g.k, problem->max);
    groups = YKI_MIN((int64_t)((double)n * (double)k * 4 / PIECE_BYTES),
                     (int64_t)traits->compute_units * PIECES_PER_CORE);
    launch = start(recipe, problem, &g, "yki_gemv", "");
    yki_launch_grid(launch, YKI_CONST(YKI_MAX(YKI_MIN(groups, n), 1)), (yki_expr){0}, (yki_expr){0},
                    1, 1, 1);
    yki_launch_iterations(launch, problem, (double)n * (double)m * ((double)k / 16 + 16), 0);
    return recipe->status;
}

/* How many work-items read a row of the matrix together. Where it has few rows, as most of a
 * language model's have, more of them share one. */
static uint32_t
share_of(const yki_gemm *g, const yki_device_traits *traits, uint32_t group)
{
    int64_t share = SHARE;

    while (2 * share <= group && g->k.constant / 4 > share * VECTORS_PER_ITEM &&
           g->n.constant * share < (int64_t)traits->compute_units * ITEMS_PER_CORE)
        share *= 2;
    return (uint32_t)share;
}

static yoke_status
emit_groups(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    uint32_t group = GROUP, share;
    yki_launch *launch;
    char options[64];
    yki_expr groups;
    yki_gemm g;

    (void)tuning;
    if (!yki_gemm_of(problem, &g))
        return yki_fail_bug("a solver of products was asked for another operator");
    while (group > traits->max_group)
        group /= 2;
    share = share_of(&g, traits, group);
    snprintf(options, sizeof options, " -DWG=%u -DSHARE=%u -DBY_FOUR=%d", group, share,
             g.k.constant % 4 == 0 && g.a_m % 4 == 0 && g.b_n % 4 == 0);
    launch = start(recipe, problem, &g, "yki_gemv_groups", options);
    groups = g.n;
    groups.divisor = group / share;
    groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, group, 1, 1);
    yki_launch_iterations(launch, problem, 0,
                          (yki_expr_value(g.n, problem->max) / (group / share) / MAX_GROUPS + 1) *
                              MOST_ROWS * (g.k.constant / share + 16));
    return recipe->status;
}

static const yki_op *const op = &yki_op_matmul;

const yki_solver yki_solver_gemv = {
    .name = "gemv",
    .op = &op,
    .applies = applies,
    .emit = emit,
};

const yki_solver yki_solver_gemv_groups = {
    .name = "gemv-groups",
    .op = &op,
    .side_by_side = true,
    .applies = groups_apply,
    .emit = emit_groups,
};

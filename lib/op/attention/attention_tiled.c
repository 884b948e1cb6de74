/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_tiled.c - attention on GPUs, whose products are tiles in local memory
 * (clkernels/attention_tiled.cl), for heads of 32 to 128 columns, a multiple of 16.
 *
 * Tunings are tiles; all of them give the same bits.
 */
#include "op/attention/attention.h"
#include "op/conv/conv.h"

enum {
    MAX_GROUPS = 32768,
    LEAST = 32, /* columns: of narrower heads half of a tile would be empty */
    MOST = 128,
    MULTIPLE = 16,  /* terms that a tile takes at a time */
    DOTS_ITEMS = 16 /* work-items for a query in yki_attention_dots */
};

/* As in tile.cl. `widest` is the widest head whose gradient stays in registers. */
typedef struct tile {
    uint8_t rows, item_rows, item_columns, terms, widest;
} tile;

/* The first is the guess. Those of more terms wait less often, and more items hide more of that. */
static const tile tiles[] = {
    {64, 4, 8, 8, 64},  {32, 4, 4, 16, 128}, {32, 4, 8, 8, 128},
    {64, 4, 8, 16, 64}, {64, 4, 4, 16, 64},
};

static uint32_t
group_of(const tile *t)
{
    return (uint32_t)(t->rows / t->item_rows * (YKI_ATTENTION_KEYS / t->item_columns));
}

/* Two halves of the operands, the weights, and two numbers of each query. */
static uint64_t
local_bytes(const tile *t)
{
    return 4 * (2 * t->terms * (t->rows + 4 + YKI_ATTENTION_KEYS + 4) +
                (uint64_t)YKI_ATTENTION_KEYS * (t->rows + 4) + 2 * YKI_ATTENTION_KEYS);
}

/* Returns the tile of a tuning, or NULL behind the last. */
static const tile *
find_tile(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);

    for (size_t i = 0; i < YKI_COUNT(tiles); i++)
        if (a.width <= tiles[i].widest && group_of(&tiles[i]) <= traits->max_group &&
            local_bytes(&tiles[i]) <= traits->local_memory && tuning-- == 0)
            return &tiles[i];
    return NULL;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);

    return yki_plain_applies(problem, traits) && a.width >= LEAST && a.width <= MOST &&
           a.width % MULTIPLE == 0 && find_tile(problem, traits, 0);
}

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    unsigned count = 0;

    while (find_tile(problem, traits, count))
        count++;
    /* Compiling one takes a processor longer than another could save. */
    return traits->type == YOKE_DEVICE_CPU ? YKI_MIN(count, 1u) : count;
}

static yki_launch *
start(const yki_problem *problem, yki_recipe *recipe, const tile *t, const char *kernel,
      const char *part, const char *drop)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    double last = (double)yki_attention_length(problem) * (a.heads + 2.0 * a.shared) * a.width;

    return yki_recipe_launch(recipe, "attention_tiled.cl", kernel,
                             "-DPART=%s -DD=%d -DTM=%d -DIM=%d -DIN=%d -DTK=%d%s%s", part, a.width,
                             t->rows, t->item_rows, t->item_columns, t->terms,
                             last > INT32_MAX ? " -DTILE_OFFSET=long" : "", drop);
}

/* A group for each block of rows of each of `heads`, in which `products` products are made. */
static void
finish(yki_launch *launch, const yki_problem *problem, const tile *t, int64_t heads,
       int64_t products)
{
    int64_t length = yki_attention_length(problem), blocks = (length + t->rows - 1) / t->rows;
    double columns = (double)((length + YKI_ATTENTION_KEYS - 1) / YKI_ATTENTION_KEYS);
    yki_expr groups = yki_attention_per_sample(problem, heads * blocks);
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    /* The last piece of a head is computed as if it were whole. */
    int width = (a.width + YKI_ATTENTION_KEYS - 1) / YKI_ATTENTION_KEYS * YKI_ATTENTION_KEYS;
    /* Of the generator, for four weights of an item at once. */
    int rounds = a.dropout.probability > 0 ? 10 * t->item_rows * t->item_columns / 4 : 0;

    groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, group_of(t), 1, 1);
    if (!launch)
        return;
    launch->flops = yki_attention_flops(problem, products);
    launch->bytes = yki_problem_bytes(problem);
    yki_launch_iterations(
        launch, problem,
        (double)yki_expr_value(yki_attention_per_sample(problem, a.heads * blocks), problem->max) *
            group_of(t) * columns * (double)(products * width / t->terms + 40 + rounds),
        40);
}

/* x[, lengths] -> y, or lse, or both. */
static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    const tile *t = find_tile(problem, traits, tuning);
    yki_launch *launch;
    uint32_t y, lse;

    if (!t)
        return yki_fail_bug("attention has no tuning %u", tuning);
    yki_attention_results(problem, recipe, &y, &lse);
    launch = start(problem, recipe, t, "yki_attention_tiled", "FORWARD",
                   yki_attention_drop_option(problem));
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, a.lengths ? 1 : 0);
    yki_arg_slot(recipe, y);
    yki_arg_slot(recipe, lse);
    yki_attention_size_args(problem, recipe, 0);
    yki_attention_drop_args(problem, recipe);
    finish(launch, problem, t, a.heads, 2);
    return recipe->status;
}

/* The sums of dy y, and their launch. */
static uint32_t
emit_dots(const yki_problem *problem, yki_recipe *recipe, const tile *t)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    int64_t rows = yki_attention_length(problem) * a.heads;
    uint32_t dots =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, yki_attention_per_sample(problem, 4 * rows));
    yki_launch *launch = start(problem, recipe, t, "yki_attention_dots", "DOTS", "");
    yki_expr groups = yki_attention_per_sample(problem, rows);

    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, 2);
    yki_arg_slot(recipe, dots);
    yki_arg_expr(recipe, "samples", yki_attention_per_sample(problem, 1));
    yki_arg_expr(recipe, "length", yki_attention_rows(problem));
    yki_arg_int(recipe, "heads", a.heads);
    groups.divisor = group_of(t) / DOTS_ITEMS;
    groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, group_of(t), 1, 1);
    if (launch) {
        launch->flops = yki_attention_per_sample(problem, 2 * rows * a.width);
        launch->bytes = yki_attention_per_sample(problem, 4 * rows * (2 * a.width + 1));
    }
    yki_launch_iterations(
        launch, problem,
        8.0 * DOTS_ITEMS *
            (double)yki_expr_value(yki_attention_per_sample(problem, rows), problem->max),
        8);
    return dots;
}

/* x, y, dy, lse[, lengths] -> dx */
static yoke_status
emit_grad(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    static const char *const kernels[] = {"yki_attention_tiled_grad_keys",
                                          "yki_attention_tiled_grad_queries"};
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    const tile *t = find_tile(problem, traits, tuning);
    uint32_t dots;

    if (!t)
        return yki_fail_bug("attention's gradient has no tuning %u", tuning);
    yki_recipe_start(recipe, problem);
    dots = emit_dots(problem, recipe, t);
    for (int i = 0; i < 2; i++) {
        yki_launch *launch = start(problem, recipe, t, kernels[i], i == 0 ? "KEYS" : "QUERIES",
                                   yki_attention_drop_option(problem));

        yki_arg_slot(recipe, 0);
        yki_arg_slot(recipe, 2);
        yki_arg_slot(recipe, 3);
        yki_arg_slot(recipe, dots);
        yki_arg_slot(recipe, a.lengths ? 4 : 0);
        yki_arg_slot(recipe, problem->input_count);
        yki_attention_size_args(problem, recipe, 0);
        yki_attention_drop_args(problem, recipe);
        finish(launch, problem, t, i == 0 ? a.shared : a.heads, i == 0 ? 4 : 3);
    }
    return recipe->status;
}

static const yki_op *const attention_op = &yki_op_attention;
static const yki_op *const attention_lse_op = &yki_op_attention_lse;
static const yki_op *const attention_grad_op = &yki_op_attention_grad;

const yki_solver yki_solver_attention_tiled = {
    .name = "attention-tiled",
    .op = &attention_op,
    .side_by_side = true,
    .applies = applies,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_attention_lse_tiled = {
    .name = "attention-lse-tiled",
    .op = &attention_lse_op,
    .side_by_side = true,
    .applies = applies,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_attention_grad_tiled = {
    .name = "attention-grad-tiled",
    .op = &attention_grad_op,
    .side_by_side = true,
    .applies = applies,
    .tunings = tunings,
    .emit = emit_grad,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_solver.c - attention whose scores are there for a block of queries and keys at a
 * time, with one work-item for a part of a head's queries, or in backward for the heads that share
 * keys (clkernels/attention.cl).
 *
 * One kernel computes the result and the logarithms of the sums together. Where a
 * problem wants only one of them, the other goes to scratch memory.
 */
#include "op/attention/attention.h"
#include "op/conv/conv.h"

enum { TILE_VECTORS = 2, UNITS_PER_CORE = 4, LANES = 16 };

static int64_t
up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static int
vector_of(const yki_device_traits *traits)
{
    return traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;
}

static int64_t
block_queries(const yki_device_traits *traits)
{
    return (int64_t)TILE_VECTORS * vector_of(traits);
}

int64_t
yki_attention_length(const yki_problem *problem)
{
    return problem->in[0].shape.dim[0];
}

yki_expr
yki_attention_rows(const yki_problem *problem)
{
    return problem->max.length ? YKI_PER_ROW(1) : YKI_CONST(yki_attention_length(problem));
}

yki_expr
yki_attention_per_sample(const yki_problem *problem, int64_t count)
{
    return problem->in[0].batched ? YKI_PER_SAMPLE(count) : YKI_CONST(count);
}

yki_expr
yki_attention_flops(const yki_problem *problem, int64_t products)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    int64_t length = yki_attention_length(problem);
    int64_t pairs = a.causal ? length * (length + 1) / 2 : length * length;

    return yki_attention_per_sample(problem, 2 * products * pairs * a.heads * a.width);
}

void
yki_attention_results(const yki_problem *problem, yki_recipe *recipe, uint32_t *y, uint32_t *lse)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    int64_t rows = 4 * yki_attention_length(problem) * a.heads;

    yki_recipe_start(recipe, problem);
    *y = *lse = problem->input_count;
    if (problem->op == &yki_op_attention_lse)
        *y = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH,
                             yki_attention_per_sample(problem, rows * a.width));
    else if (a.lse)
        *lse = problem->input_count + 1;
    else
        *lse = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, yki_attention_per_sample(problem, rows));
}

void
yki_attention_size_args(const yki_problem *problem, yki_recipe *recipe, int64_t chunks)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);

    yki_arg_expr(recipe, "samples", yki_attention_per_sample(problem, 1));
    yki_arg_expr(recipe, "length", yki_attention_rows(problem));
    yki_arg_int(recipe, "heads", a.heads);
    yki_arg_int(recipe, "shared", a.shared);
    if (chunks > 0)
        yki_arg_int(recipe, "chunks", chunks);
    yki_arg_int(recipe, "causal", a.causal);
    yki_arg_int(recipe, "has_lengths", a.lengths);
    yki_arg_float(recipe, "scale", a.scale);
}

const char *
yki_attention_drop_option(const yki_problem *problem)
{
    return yki_attention_attrs_get(&problem->attrs).dropout.probability > 0 ? " -DDROP" : "";
}

void
yki_attention_drop_args(const yki_problem *problem, yki_recipe *recipe)
{
    const yki_dropout_attrs d = yki_attention_attrs_get(&problem->attrs).dropout;

    if (!(d.probability > 0))
        return;
    yki_arg_step(recipe);
    yki_arg_int(recipe, "batched", problem->in[0].batched);
    /* The bits are passed as an int. */
    yki_arg_int(recipe, "key0", (int32_t)d.key[0]);
    yki_arg_int(recipe, "key1", (int32_t)d.key[1]);
    yki_arg_int(recipe, "threshold", (int32_t)d.threshold);
    yki_arg_float(recipe, "kept", d.scale);
}

/* Returns among how many groups the queries that share keys are divided: as many as leave no core
 * without work in the largest batch. */
static int64_t
chunks_of(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    int64_t units = yki_expr_value(yki_attention_per_sample(problem, a.shared), problem->max);
    int64_t blocks =
        a.heads / a.shared *
        (up(yki_attention_length(problem), block_queries(traits)) / block_queries(traits));
    int64_t wanted = (int64_t)traits->compute_units * UNITS_PER_CORE;

    if (problem->op == &yki_op_attention_grad)
        return 1;
    return YKI_MAX(1, YKI_MIN(blocks, (wanted + units - 1) / YKI_MAX(1, units)));
}

/* Returns how many groups there are at most: each has scratch memory of its own. */
static int64_t
most_groups(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    int64_t units = yki_expr_value(
        yki_attention_per_sample(problem, a.shared * chunks_of(problem, traits)), problem->max);

    return YKI_MAX(1, YKI_MIN(units, (int64_t)traits->compute_units * UNITS_PER_CORE));
}

/* What the kernels say of their scratch memory. */
static yki_expr
scratch_bytes(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    int64_t block = block_queries(traits), length = yki_attention_length(problem);
    int64_t keys = up(length, YKI_ATTENTION_KEYS), queries = up(length, block);
    int64_t rows = 2 * keys + 3 * block, numbers = block * (YKI_ATTENTION_KEYS + 3);

    if (problem->op == &yki_op_attention_grad) {
        rows = 2 * keys + 5 * queries + 2 * YKI_ATTENTION_KEYS + block;
        numbers = 2 * queries + 2 * block * YKI_ATTENTION_KEYS;
    }
    return YKI_CONST(most_groups(problem, traits) * (rows * up(a.width, LANES) + numbers) *
                     (int64_t)sizeof(float));
}

/* The iterations of all loops but those of the products, together: copies, and softmax. */
static double
copied(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    bool grad = problem->op == &yki_op_attention_grad;
    double rows = (double)up(yki_attention_length(problem), YKI_ATTENTION_KEYS),
           width = (double)up(a.width, LANES);
    double keys = (grad ? 4 : 2) * rows * width, scores = 2 * rows * rows / vector_of(traits);
    double queries = a.heads / a.shared * ((grad ? 12 : 6) * rows * width + scores);
    double units =
        (double)yki_expr_value(yki_attention_per_sample(problem, a.shared), problem->max);

    return units * ((double)chunks_of(problem, traits) * keys + queries);
}

static void
finish(yki_launch *launch, const yki_problem *problem, const yki_device_traits *traits,
       int64_t products)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    yki_expr groups = yki_attention_per_sample(problem, a.shared * chunks_of(problem, traits));
    /* Beside the products of a score: the rounds of the generator, for four scores at once. */
    double rounds = a.dropout.probability > 0 ? 10 / 4.0 : 0;

    groups.max = most_groups(problem, traits);
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, 1, 1, 1);
    if (!launch)
        return;
    launch->flops = yki_attention_flops(problem, products);
    launch->bytes = yki_problem_bytes(problem);
    /* A vector of a product is an iteration. */
    yki_launch_iterations(launch, problem,
                          (double)yki_expr_value(launch->flops, problem->max) / 2 /
                                  vector_of(traits) * (1 + rounds / (double)(products * a.width)) +
                              copied(problem, traits),
                          0);
}

/* x[, lengths] -> y, or lse, or both. */
static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    uint32_t y, lse, scratch;
    yki_launch *launch;

    (void)tuning;
    yki_attention_results(problem, recipe, &y, &lse);
    scratch = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, scratch_bytes(problem, traits));
    launch = yki_recipe_launch(recipe, "attention.cl", "yki_attention", "-DD=%d -DW=%d%s", a.width,
                               vector_of(traits), yki_attention_drop_option(problem));
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, a.lengths ? 1 : 0);
    yki_arg_slot(recipe, y);
    yki_arg_slot(recipe, lse);
    yki_arg_slot(recipe, scratch);
    yki_attention_size_args(problem, recipe, chunks_of(problem, traits));
    yki_attention_drop_args(problem, recipe);
    finish(launch, problem, traits, 2);
    return recipe->status;
}

static yoke_status
emit_grad(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    yki_launch *launch;
    uint32_t scratch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    scratch = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, scratch_bytes(problem, traits));
    launch = yki_recipe_launch(recipe, "attention.cl", "yki_attention_grad", "-DD=%d -DW=%d%s",
                               a.width, vector_of(traits), yki_attention_drop_option(problem));
    for (uint32_t i = 0; i < 4; i++)
        yki_arg_slot(recipe, i);
    yki_arg_slot(recipe, a.lengths ? 4 : 0);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, scratch);
    yki_attention_size_args(problem, recipe, 0);
    yki_attention_drop_args(problem, recipe);
    finish(launch, problem, traits, 5);
    return recipe->status;
}

static const yki_op *const attention_op = &yki_op_attention;
static const yki_op *const attention_lse_op = &yki_op_attention_lse;
static const yki_op *const attention_grad_op = &yki_op_attention_grad;

const yki_solver yki_solver_attention = {
    .name = "attention",
    .op = &attention_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_plain_applies,
    .emit = emit,
};

const yki_solver yki_solver_attention_lse = {
    .name = "attention-lse",
    .op = &attention_lse_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_plain_applies,
    .emit = emit,
};

const yki_solver yki_solver_attention_grad = {
    .name = "attention-grad",
    .op = &attention_grad_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_plain_applies,
    .emit = emit_grad,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_loss_solver.c - a dense layer with its cross-entropy, chunk by chunk. A chunk's
 * logits are in scratch memory, become their own gradient there, and are multiplied with
 * the weight and with the rows before the next chunk comes.
 *
 * The products are the recipes of the solvers of matmul, for a batch whose samples are
 * the rows of a chunk; append() puts them in here. A chunk has a fixed number of rows:
 * it orders the sums of the weight's gradient, so it is part of the result and no
 * tuning. All products are of one class, and so is the whole. Launches of chunks that a
 * smaller batch does not have do nothing.
 *
 * On GPUs a launch of few rows takes as long as one of many, and each chunk reads all weights: a
 * chunk has more rows where they are short or memory is large, and their number depends on the
 * largest batch. Not in canonical plans, whose sums have one order on devices of any memory. If
 * that is the whole batch, no rows are copied.
 */
#include <string.h>

#include "op/conv/conv.h"
#include "op/loss/loss.h"

enum { CHUNK = 512, PRODUCTS = 3 };
/* Logits, or values of rows, of a chunk on GPUs: at least, at most, and a share of what a device
 * may use. */
enum { FEW_LOGITS = 8 << 20, MANY_LOGITS = 128 << 20, LOGITS_SHARE = 64 };

typedef struct plan {
    const yki_problem *problem;
    const yki_device_traits *traits;
    yki_recipe *recipe;
    yki_linear_loss_attrs attrs;
    int64_t rows, width, classes; /* rows of a sample */
    int64_t most, first;          /* rows of a chunk; where this chunk begins */
    uint32_t scratch[PRODUCTS][4];
    bool has_scratch[PRODUCTS];
    yki_class numerical_class; /* of the products; `emulates` as theirs */
    bool emulates;
} plan;

/* The rows of the chunk: 0 or less if the batch ends before it. */
static yki_expr
chunk_rows(const plan *p)
{
    return (yki_expr){.per_sample = p->rows, .constant = -p->first, .divisor = 1, .max = p->most};
}

/* An expression in the samples of a product, as one in the rows of the chunk. */
static yki_expr
of_chunk(const plan *p, yki_expr e)
{
    int64_t most = yki_expr_value(e, (yki_extents){.batch = p->most});

    if (e.per_sample == 0)
        return e;
    e.constant -= e.per_sample * p->first;
    e.per_sample *= p->rows;
    e.max = YKI_MAX(most, 1);
    return e;
}

/* A launch whose grid does not depend on the batch sums over it, and would add nothing. */
static void
skip_without_rows(const plan *p, yki_launch *launch)
{
    int64_t groups = YKI_MAX(launch->groups[2].constant, 1);

    if (p->first == 0 || launch->groups[0].per_sample || launch->groups[1].per_sample ||
        launch->groups[2].per_sample)
        return;
    launch->groups[2] = (yki_expr){.per_sample = p->rows * groups,
                                   .constant = -p->first * groups,
                                   .divisor = 1,
                                   .max = groups};
}

/* Adds the launches of a product, whose operands are in these slots. */
static void
append(plan *p, const yki_recipe *sub, const uint32_t *operands, unsigned product)
{
    for (uint32_t i = 3; i < sub->slot_count && !p->has_scratch[product]; i++) {
        yki_expr bytes = sub->slots[i].bytes;

        p->scratch[product][i - 3] =
            yki_recipe_slot(p->recipe, YKI_SLOT_SCRATCH,
                            YKI_CONST(yki_expr_value(bytes, (yki_extents){.batch = p->most})));
    }
    p->has_scratch[product] = true;
    for (size_t i = 0; i < sub->launch_count; i++) {
        const yki_launch *from = &sub->launches[i];
        yki_launch *launch =
            yki_recipe_launch(p->recipe, from->file, from->kernel, "%s", from->options);

        if (!launch)
            return;
        *launch = *from;
        launch->phase = YKI_PHASE_RUN;
        for (uint32_t k = 0; k < launch->arg_count; k++) {
            yki_arg *arg = &launch->args[k];

            if (arg->kind == YKI_ARG_SLOT)
                arg->slot =
                    arg->slot < 3 ? operands[arg->slot] : p->scratch[product][arg->slot - 3];
            else if (arg->kind == YKI_ARG_INT)
                arg->expr = of_chunk(p, arg->expr);
        }
        for (int d = 0; d < 3; d++)
            launch->groups[d] = of_chunk(p, launch->groups[d]);
        launch->flops = of_chunk(p, launch->flops);
        launch->bytes = of_chunk(p, launch->bytes);
        launch->adds_parts = false;
        skip_without_rows(p, launch);
    }
}

static int64_t
chunk_for(const yki_device_traits *traits, int64_t all, int64_t classes, int64_t width)
{
    const int64_t share = (int64_t)(traits->memory / sizeof(float) / LOGITS_SHARE);
    const int64_t logits = YKI_MAX(FEW_LOGITS, YKI_MIN(share, MANY_LOGITS));
    int64_t most = logits / YKI_MAX(classes, width) / CHUNK * CHUNK;

    if (yki_conv_is_cpu(traits) || traits->canonical || most <= CHUNK || all <= CHUNK)
        return CHUNK;
    return YKI_MIN(most, (all + CHUNK - 1) / CHUNK * CHUNK);
}

static yki_operand
matrix(bool batched, int64_t rows, int64_t columns)
{
    return (yki_operand){YOKE_F32, yoke_shape(rows, columns), batched, YKI_PLAIN, false};
}

/* Product 0 gives the logits, 1 the gradient by the rows, 2 that by the weight. */
static yki_problem
product_of(const plan *p, unsigned product)
{
    yki_matmul_attrs attrs = {
        .transpose_b = product == 0, .transpose_a = product == 2, .sum_batch = product == 2};
    yki_operand x = matrix(true, 1, p->width), logits = matrix(true, 1, p->classes);
    yki_operand weight = matrix(false, p->classes, p->width);
    yki_problem problem = {.op = &yki_op_matmul, .input_count = 2, .max.batch = p->most};

    yki_matmul_attrs_set(&problem.attrs, &attrs);
    problem.in[0] = product == 0 ? x : logits;
    problem.in[1] = product == 2 ? x : weight;
    problem.out = product == 0 ? logits : product == 1 ? x : weight;
    return problem;
}

/* The first solver for the product that the device can use; NULL: there is none. */
static const yki_solver *
solver_for(const plan *p, const yki_problem *product)
{
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == &yki_op_matmul && !(*s)->sets &&
            (*s)->numerical_class == p->numerical_class && (*s)->emulates == p->emulates &&
            (!p->traits->canonical || (*s)->canonical) && yki_solver_suits(*s, product, p->traits))
            return *s;
    return NULL;
}

static void
multiply(plan *p, unsigned product, uint32_t a, uint32_t b, uint32_t out)
{
    const uint32_t operands[3] = {a, b, out};
    yki_problem problem = product_of(p, product);
    const yki_solver *solver = solver_for(p, &problem);
    yki_recipe sub;

    if (p->recipe->status != YOKE_OK || !solver)
        return;
    p->recipe->status = yki_solver_emit(solver, &problem, p->traits, 0, &sub);
    if (p->recipe->status != YOKE_OK)
        return;
    append(p, &sub, operands, product);
    yki_recipe_clear(&sub);
}

static void
copy_rows(plan *p, uint32_t from, uint32_t to, int64_t from_row, int64_t to_row)
{
    (void)yki_rows_launch(p->recipe, p->traits, "yki_copy_rows", YOKE_I32, p->width, chunk_rows(p));
    yki_arg_slot(p->recipe, from);
    yki_arg_slot(p->recipe, to);
    yki_arg_expr(p->recipe, "rows", chunk_rows(p));
    yki_arg_int(p->recipe, "from_row", from_row);
    yki_arg_int(p->recipe, "to_row", to_row);
    yki_arg_int(p->recipe, "width", p->width);
}

static void
add_weights(plan *p, uint32_t from, uint32_t to)
{
    yki_launch *launch = yki_rows_launch(p->recipe, p->traits, "yki_add_rows", YOKE_I32, p->width,
                                         YKI_CONST(p->classes));

    yki_arg_slot(p->recipe, from);
    yki_arg_slot(p->recipe, to);
    yki_arg_int(p->recipe, "rows", p->classes);
    yki_arg_int(p->recipe, "width", p->width);
    if (launch) {
        launch->groups[0].constant = yki_expr_value(launch->groups[0], (yki_extents){0});
        launch->groups[0].divisor = 1;
        skip_without_rows(p, launch);
    }
}

static bool
can_multiply(const yki_problem *problem, const yki_device_traits *traits, yki_class numerical_class,
             bool emulates)
{
    plan p = {.problem = problem,
              .traits = traits,
              .numerical_class = numerical_class,
              .emulates = emulates};

    if (!yki_plain_applies(problem, traits))
        return false;
    p.width = problem->in[1].shape.dim[1];
    p.classes = problem->in[1].shape.dim[0];
    p.rows = yki_shape_count(problem->in[0].shape) / p.width;
    p.most = chunk_for(traits, p.rows * problem->max.batch, p.classes, p.width);
    for (unsigned i = 0; i < PRODUCTS; i++) {
        yki_problem product = product_of(&p, i);

        if (!solver_for(&p, &product))
            return false;
    }
    return true;
}

static yoke_status
write_recipe(const yki_problem *problem, const yki_device_traits *traits, yki_class numerical_class,
             bool emulates, yki_recipe *recipe)
{
    bool is_loss = problem->op == &yki_op_linear_loss;
    plan p = {.problem = problem,
              .traits = traits,
              .recipe = recipe,
              .numerical_class = numerical_class,
              .emulates = emulates,
              .attrs = yki_linear_loss_attrs_get(&problem->attrs),
              .width = problem->in[1].shape.dim[1],
              .classes = problem->in[1].shape.dim[0]};
    uint32_t x = 0, logits, pairs, part = 0, dx = 3u + is_loss, dw = dx + (p.attrs.dx != 0);
    uint32_t slope = dx;
    int64_t all;
    bool whole;

    p.rows = yki_shape_count(problem->in[0].shape) / p.width;
    all = p.rows * problem->max.batch;
    p.most = chunk_for(traits, all, p.classes, p.width);
    whole = p.most > CHUNK && p.most >= all;
    yki_recipe_start(recipe, problem);
    if (!whole)
        x = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * p.most * p.width));
    logits = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * p.most * p.classes));
    pairs = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(8 * YKI_MAX(all, 1)));
    if (p.attrs.dx && !whole)
        slope = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * p.most * p.width));
    if (p.attrs.dw && all > p.most)
        part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * p.classes * p.width));
    for (p.first = 0; p.first < YKI_MAX(all, 1); p.first += p.most) {
        const yki_rows_ce_slots slots = {logits, 2, logits, pairs};
        const yki_rows_ce_args args = {.label = problem->in[2].type,
                                       .rows = chunk_rows(&p),
                                       .first = p.first,
                                       .width = p.classes,
                                       .has_ignore = p.attrs.has_ignore_index,
                                       .ignore = p.attrs.ignore_index,
                                       .with_grad = p.attrs.dx || p.attrs.dw,
                                       .scaled = p.attrs.scaled};

        if (!whole)
            copy_rows(&p, 0, x, p.first, 0);
        multiply(&p, 0, x, 1, logits);
        yki_rows_ce(recipe, problem, traits, &slots, &args);
        if (p.attrs.dx) {
            multiply(&p, 1, logits, 1, slope);
            if (!whole)
                copy_rows(&p, slope, dx, 0, p.first);
        }
        if (p.attrs.dw) {
            multiply(&p, 2, logits, x, p.first == 0 ? dw : part);
            if (p.first > 0)
                add_weights(&p, part, dw);
        }
    }
    if (is_loss)
        yki_rows_sum(recipe, problem, pairs, 3, p.rows, traits);
    return recipe->status;
}

static const yki_op *const loss_op = &yki_op_linear_loss;
static const yki_op *const loss_grad_op = &yki_op_linear_loss_grad;

/* The solvers of both operators, with products of one kind. */
#define LINEAR_LOSS(suffix, text, of_class, emulated)                                              \
    static bool applies##suffix(const yki_problem *problem, const yki_device_traits *traits)       \
    {                                                                                              \
        return can_multiply(problem, traits, of_class, emulated);                                  \
    }                                                                                              \
    static yoke_status emit##suffix(const yki_problem *problem, const yki_device_traits *traits,   \
                                    unsigned tuning, yki_recipe *recipe)                           \
    {                                                                                              \
        (void)tuning;                                                                              \
        return write_recipe(problem, traits, of_class, emulated, recipe);                          \
    }                                                                                              \
    const yki_solver yki_solver_linear_loss##suffix = {                                            \
        .name = "linear-loss" text,                                                                \
        .op = &loss_op,                                                                            \
        .numerical_class = (of_class),                                                             \
        .emulates = (emulated),                                                                    \
        .canonical = (of_class) == YKI_CLASS_DIRECT ? YKI_CANONICAL_FIXED : YKI_NOT_CANONICAL,     \
        .applies = applies##suffix,                                                                \
        .emit = emit##suffix,                                                                      \
    };                                                                                             \
    const yki_solver yki_solver_linear_loss_grad##suffix = {                                       \
        .name = "linear-loss-grad" text,                                                           \
        .op = &loss_grad_op,                                                                       \
        .numerical_class = (of_class),                                                             \
        .emulates = (emulated),                                                                    \
        .canonical = (of_class) == YKI_CLASS_DIRECT ? YKI_CANONICAL_FIXED : YKI_NOT_CANONICAL,     \
        .applies = applies##suffix,                                                                \
        .emit = emit##suffix,                                                                      \
    };
LINEAR_LOSS(, "", YKI_CLASS_DIRECT, false)
LINEAR_LOSS(_bf16, "-bf16", YKI_CLASS_BF16, false)
LINEAR_LOSS(_rounded, "-rounded", YKI_CLASS_BF16, true)
LINEAR_LOSS(_tf32, "-tf32", YKI_CLASS_TF32, false)
LINEAR_LOSS(_rounded_tf32, "-rounded-tf32", YKI_CLASS_TF32, true)
LINEAR_LOSS(_f16, "-f16", YKI_CLASS_F16, false)
LINEAR_LOSS(_rounded_f16, "-rounded-f16", YKI_CLASS_F16, true)

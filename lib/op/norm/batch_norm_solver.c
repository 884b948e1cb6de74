/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm_solver.c - batch normalisation on processors, and its small operators.
 * Statistics are computed over (piece of the channels, split of the samples), and the
 * partial ones are merged in order; then one pass uses them. norm.cl has the two forms
 * of each kernel.
 */
#include "op/conv/conv.h"
#include "op/norm/norm.h"

enum {
    MAX_GROUPS = 16384,
    ELEMENTS_PER_GROUP = 4096,
    ELEMENTS_PER_SPLIT = 16384,
    TILE_BYTES = 16384,  /* of each operand: half of a first-level cache */
    ROWS_BYTES = 131072, /* of a tile of whole rows: it fits a second-level cache */
    MOST_ROWS = 16       /* channels of a piece; the kernel's limit */
};

typedef struct form {
    const char *kernels[4]; /* stats, apply, grad_stats, grad */
    uint32_t vector;
    int64_t pieces;                /* of the channels */
    int64_t channels, area, width; /* width: channels in a piece */
    bool in_rows;                  /* kernels of statistics take the width */
} form;

static const char *const blocked[] = {"yki_bn_stats_blocked", "yki_bn_apply_blocked",
                                      "yki_bn_grad_stats_blocked", "yki_bn_grad_blocked"};
static const char *const rows[] = {"yki_bn_stats_rows", "yki_bn_apply_rows",
                                   "yki_bn_grad_stats_rows", "yki_bn_grad_rows"};

enum { STATS, APPLY, GRAD_STATS, GRAD };

static void
set_form(form *f, const char *const *kernels, uint32_t vector, int64_t width)
{
    for (int i = 0; i < 4; i++)
        f->kernels[i] = kernels[i];
    f->vector = vector;
    f->width = width;
    f->pieces = (f->channels + width - 1) / width;
}

static form
form_of(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_operand *x = &problem->in[0];
    uint32_t width = traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;
    form f = {.channels = x->shape.dim[0]};

    f.area = yki_shape_count(x->shape) / f.channels;
    if (x->layout.block > 1) {
        set_form(&f, blocked, x->layout.block, x->layout.block);
        return f;
    }
    /* Without an area, neighbouring channels are adjacent in memory. */
    for (uint32_t v = width; f.area == 1 && v >= 4; v /= 2)
        if (f.channels % v == 0) {
            set_form(&f, blocked, v, v);
            return f;
        }
    while (width > 4 && (int64_t)width > f.area)
        width /= 2;
    f.in_rows = true;
    set_form(&f, rows, width,
             YKI_MAX(YKI_MIN(YKI_MIN(ROWS_BYTES / 4 / f.area, f.channels), MOST_ROWS), 1));
    return f;
}

static yki_expr
samples_of(const yki_operand *x)
{
    return x->batched ? YKI_BATCH : YKI_CONST(1);
}

static void
cost(yki_launch *launch, const yki_problem *problem, int64_t flops_per_element)
{
    if (!launch)
        return;
    launch->flops = yki_operand_elements(&problem->in[0]);
    launch->flops.per_sample *= flops_per_element;
    launch->flops.constant *= flops_per_element;
    launch->bytes = yki_problem_bytes(problem);
}

/* ---- layouts ---- */

/* x, and the other operands of this operator with its shape. */
static bool
image_at(const yki_problem *problem, uint32_t i)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);

    if (i == 0)
        return true;
    if (i == problem->input_count)
        return problem->op == &yki_op_bn_apply || problem->op == &yki_op_bn_grad;
    if (problem->op == &yki_op_bn_apply)
        return a.residual && i + 1 == problem->input_count;
    return i == 1 && problem->op != &yki_op_bn_stats;
}

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    static const uint32_t blocks[] = {1, 16, 8, 4};

    (void)traits;
    if (variant >= YKI_COUNT(blocks))
        return false;
    for (uint32_t i = 0; i < problem->input_count; i++)
        if (image_at(problem, i))
            problem->in[i].layout.block = blocks[variant];
    if (image_at(problem, problem->input_count))
        problem->out.layout.block = blocks[variant];
    return true;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    uint32_t block = problem->in[0].layout.block;

    if (!yki_conv_is_cpu(traits))
        return false;
    for (uint32_t i = 0; i <= problem->input_count; i++) {
        const yki_operand *operand = i == problem->input_count ? &problem->out : &problem->in[i];

        if (image_at(problem, i)
                ? !yki_bn_is_image(problem, operand) || operand->layout.block != block
                : operand->layout.block > 1 || operand->batched)
            return false;
    }
    return block <= 1 || block == 4 || block == 8 || block == 16;
}

/* ---- statistics ---- */

typedef struct split_plan {
    int64_t splits, tile_samples, tile_area;
} split_plan;

static split_plan
plan_splits(const form *f, const yki_operand *x, const yki_device_traits *traits,
            int64_t max_samples)
{
    int64_t most = x->batched ? max_samples : 1, tile, tiles;
    split_plan s;

    tile = (f->in_rows ? ROWS_BYTES : TILE_BYTES) / 4 / f->width;
    s.tile_area = YKI_MIN(f->area, tile);
    /* A tile has several rows if they are short, but never more than there are. */
    s.tile_samples = YKI_MAX(YKI_MIN(tile / s.tile_area, most), 1);
    tiles =
        (most + s.tile_samples - 1) / s.tile_samples * ((f->area + s.tile_area - 1) / s.tile_area);
    s.splits = ((int64_t)traits->compute_units * 4 + f->pieces - 1) / f->pieces;
    s.splits = YKI_MIN(s.splits, most * f->area * f->channels / ELEMENTS_PER_SPLIT);
    s.splits = YKI_MAX(YKI_MIN(YKI_MIN(s.splits, tiles), 256), 1);
    return s;
}

/* Where the problem lacks an operand, the kernel's argument is x; the flags keep it from being
 * read. */
static void
parameter_slot(yki_recipe *recipe, const yki_problem *problem, uint32_t i)
{
    yki_arg_slot(recipe, i < problem->input_count ? i : 0);
}

/* The first pass, which writes partial statistics into slot `part`. */
static void
emit_parts(yki_recipe *recipe, const yki_problem *problem, const form *f, int kernel,
           const split_plan *s, uint32_t part)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);
    yki_launch *launch =
        yki_recipe_launch(recipe, "norm.cl", f->kernels[kernel], "-DVEC=%u -DWG=1", f->vector);

    for (uint32_t i = 0; i < (kernel == STATS ? 1 : 3); i++)
        yki_arg_slot(recipe, i);
    for (uint32_t i = 3; kernel == GRAD_STATS && i < 5; i++)
        parameter_slot(recipe, problem, i);
    yki_arg_slot(recipe, part);
    yki_arg_expr(recipe, "samples", samples_of(&problem->in[0]));
    yki_arg_int(recipe, "channels", f->channels);
    yki_arg_int(recipe, "area", f->area);
    yki_arg_int(recipe, "splits", s->splits);
    yki_arg_int(recipe, "tile_samples", s->tile_samples);
    yki_arg_int(recipe, "tile_area", s->tile_area);
    if (kernel == GRAD_STATS) {
        yki_arg_int(recipe, "flags",
                    yki_bn_flags(problem) & (problem->input_count > 3 ? ~0 : ~AFFINE));
        yki_arg_float(recipe, "epsilon", a.epsilon);
    }
    if (f->in_rows)
        yki_arg_int(recipe, "rows", f->width);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(f->pieces, MAX_GROUPS)), YKI_CONST(s->splits),
                    YKI_CONST(1), 1, 1, 1);
    cost(launch, problem, 4);
}

static yoke_status
emit_stats(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    form f = form_of(problem, traits);
    split_plan s = plan_splits(&f, &problem->in[0], traits, problem->max.batch);
    uint32_t part = 1;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    if (s.splits > 1)
        part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 3 * f.channels * s.splits));
    emit_parts(recipe, problem, &f, STATS, &s, part);
    if (s.splits > 1) {
        yki_launch *launch =
            yki_recipe_launch(recipe, "norm.cl", "yki_bn_merge", "-DVEC=%u -DWG=1", f.vector);

        yki_arg_slot(recipe, 0);
        yki_arg_slot(recipe, part);
        yki_arg_slot(recipe, 1);
        yki_arg_int(recipe, "channels", f.channels);
        yki_arg_int(recipe, "area", f.area);
        yki_arg_int(recipe, "block", YKI_MAX(problem->in[0].layout.block, 1));
        yki_arg_int(recipe, "splits", s.splits);
        yki_launch_grid(launch, YKI_CONST(YKI_MIN((f.channels + 255) / 256, MAX_GROUPS)),
                        YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    }
    return recipe->status;
}

static yoke_status
emit_grad_stats(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
                yki_recipe *recipe)
{
    form f = form_of(problem, traits);
    split_plan s = plan_splits(&f, &problem->in[0], traits, problem->max.batch);
    uint32_t out = problem->input_count, part = out;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    if (s.splits > 1)
        part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * 2 * f.channels * s.splits));
    emit_parts(recipe, problem, &f, GRAD_STATS, &s, part);
    if (s.splits > 1)
        yki_conv_sum_parts(recipe, traits, part, out, 2 * f.channels, s.splits);
    return recipe->status;
}

/* ---- one pass over the elements ---- */

static yki_expr
element_groups(const yki_operand *x, const yki_device_traits *traits)
{
    yki_expr groups = yki_operand_elements(x);

    groups.divisor = ELEMENTS_PER_GROUP;
    groups.max = YKI_MIN((int64_t)traits->compute_units * 8, MAX_GROUPS);
    return groups;
}

/* apply: x, stats, gamma, beta, residual, y; grad: x, dy, stats, sums, gamma, beta, dx. */
static void
element_slots(yki_recipe *recipe, const yki_problem *problem, const yki_bn_attrs *a)
{
    uint32_t at = problem->op == &yki_op_bn_apply ? 2 : 4;

    for (uint32_t i = 0; i < at; i++)
        yki_arg_slot(recipe, i);
    for (uint32_t i = at; i < at + 2; i++)
        if (a->affine)
            parameter_slot(recipe, problem, i);
        else
            yki_arg_slot(recipe, 0);
    if (problem->op == &yki_op_bn_apply)
        yki_arg_slot(recipe, a->residual ? problem->input_count - 1 : 0);
    yki_arg_slot(recipe, problem->input_count);
}

static yoke_status
emit_elements(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
              yki_recipe *recipe)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);
    form f = form_of(problem, traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "norm.cl",
                               f.kernels[problem->op == &yki_op_bn_apply ? APPLY : GRAD],
                               "-DVEC=%u -DWG=1", f.vector);
    element_slots(recipe, problem, &a);
    yki_arg_expr(recipe, "samples", samples_of(&problem->in[0]));
    yki_arg_int(recipe, "channels", f.channels);
    yki_arg_int(recipe, "area", f.area);
    yki_arg_int(recipe, "flags", yki_bn_flags(problem));
    yki_arg_float(recipe, "epsilon", a.epsilon);
    yki_launch_grid(launch, element_groups(&problem->in[0], traits), YKI_CONST(1), YKI_CONST(1), 1,
                    1, 1);
    cost(launch, problem, 4);
    return recipe->status;
}

/* ---- a few numbers per channel ---- */

static yoke_status
emit_small(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);
    int64_t count =
        yki_shape_count(problem->op == &yki_op_row ? problem->out.shape : problem->in[0].shape);
    uint32_t items = yki_conv_is_cpu(traits) ? 1 : 64;
    const char *kernel = problem->op == &yki_op_bn_running ? "yki_bn_running"
                         : problem->op == &yki_op_bn_known ? "yki_bn_known"
                                                           : "yki_row";
    yki_launch *launch;

    (void)tuning;
    while (items > traits->max_group)
        items /= 2;
    yki_recipe_start(recipe, problem);
    /* This kernel has no vectors. On a processor it gets the options of the others, so that it
     * is in the same program. */
    launch = yki_recipe_launch(recipe, "norm.cl", kernel, "-DVEC=%u -DWG=%u",
                               yki_conv_is_cpu(traits) ? yki_conv_width(traits) : 4, items);
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_arg_slot(recipe, i);
    if (problem->op == &yki_op_row)
        yki_arg_int(recipe, "first", yki_row_attrs_get(&problem->attrs).row * count);
    yki_arg_int(recipe, problem->op == &yki_op_row ? "count" : "channels", count);
    if (problem->op == &yki_op_bn_running) {
        yki_arg_int(recipe, "variance", a.variance);
        yki_arg_float(recipe, "momentum", a.momentum);
    }
    yki_launch_grid(launch, YKI_CONST(YKI_MIN((count + 1023) / 1024, MAX_GROUPS)), YKI_CONST(1),
                    YKI_CONST(1), items, 1, 1);
    if (launch)
        launch->bytes = yki_problem_bytes(problem);
    return recipe->status;
}

#define SOLVER(op_name, text, is_canonical, applies_to, lay_out, write)                            \
    static const yki_op *const op_name##_op = &yki_op_##op_name;                                   \
    const yki_solver yki_solver_##op_name = {                                                      \
        .name = text,                                                                              \
        .op = &op_name##_op,                                                                       \
        .canonical = (is_canonical),                                                               \
        .applies = applies_to,                                                                     \
        .layouts = lay_out,                                                                        \
        .emit = write,                                                                             \
    }
SOLVER(bn_stats, "bn-stats", YKI_NOT_CANONICAL, applies, layouts, emit_stats);
SOLVER(bn_apply, "bn-apply", YKI_CANONICAL_FREE, applies, layouts, emit_elements);
SOLVER(bn_grad_stats, "bn-grad-stats", YKI_NOT_CANONICAL, applies, layouts, emit_grad_stats);
SOLVER(bn_grad, "bn-grad", YKI_CANONICAL_FREE, applies, layouts, emit_elements);
SOLVER(bn_running, "bn-running", YKI_CANONICAL_FREE, yki_plain_applies, NULL, emit_small);
SOLVER(bn_known, "bn-known", YKI_CANONICAL_FREE, yki_plain_applies, NULL, emit_small);
SOLVER(row, "row", YKI_CANONICAL_FREE, yki_plain_applies, NULL, emit_small);

/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm_groups.c - batch normalisation where work-items run side by side: GPUs,
 * in plain layout. norm_groups.cl has the kernels, and says what parts are.
 *
 * bn_layer and bn_layer_grad join the statistics with their use. Only fusions make
 * them (plan/fuse_norm.c), for these devices: each is two launches, and the second
 * joins the parts of the first. In bn_apply_parts and bn_grad_parts the launch before the norm has
 * made them, so they are the second launch alone (plan/join.c). The operators apart need a launch
 * more where there are several parts. The gradient of a bias is a sum over channels too.
 */
#include <stdio.h>

#include "op/conv/conv.h"
#include "op/norm/norm.h"

enum {
    MAX_GROUPS = 65535,
    MOST_ITEMS = 256, /* of a group; the other tuning has a quarter */
    MOST_COLUMNS = 32,
    MOST_PARTS = 64,
    VECTORS_PER_ITEM = 8, /* that make it worth to begin a piece */
    WIDE = 1 << 30        /* vectors from which on addresses have 64 bits */
};

/* More bits of the kernels' flags. */
enum { WRITE = 8, PIVOTS = 16 };

/* ---- operators that fusions make ---- */

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    yki_op_bn_apply.describe(attrs, text, size);
}

const yki_op yki_op_bn_layer = {
    .name = "bn_layer",
    .infer = yki_infer_joined,
    .describe = describe,
};

const yki_op yki_op_bn_layer_grad = {
    .name = "bn_layer_grad",
    .infer = yki_infer_joined,
    .describe = describe,
    .in_place = 3,
};

const yki_op yki_op_bn_apply_parts = {
    .name = "bn_apply_parts",
    .infer = yki_infer_joined,
    .describe = describe,
};

const yki_op yki_op_bn_grad_parts = {
    .name = "bn_grad_parts",
    .infer = yki_infer_joined,
    .describe = describe,
    .in_place = 3,
};

/* ---- how the work is divided ---- */

typedef struct form {
    uint32_t vector, items, columns;
    int64_t channels, area;
    int64_t wide;   /* vectors of a row */
    int64_t pieces; /* of a channel */
    bool far;       /* addresses need 64 bits */
} form;

static form
form_of(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning)
{
    const yki_operand *x = &problem->in[0];
    form f = {
        .vector = 1, .items = MOST_ITEMS >> 2 * tuning, .columns = 1, .channels = x->shape.dim[0]};
    int64_t positions, blocks, per_piece;

    f.area = yki_shape_count(x->shape) / f.channels;
    while (f.items > traits->max_group)
        f.items /= 2;
    if (f.area % 4 == 0)
        f.vector = 4;
    if (f.area == 1)
        f.columns = YKI_MIN(f.items, (uint32_t)MOST_COLUMNS);
    f.wide = f.area / f.vector;
    f.far = yki_operand_count(x, problem->max) / f.vector >= WIDE;
    positions = f.wide * (x->batched ? problem->max.batch : 1);
    blocks = (f.channels + f.columns - 1) / f.columns;
    per_piece = (int64_t)(f.items / f.columns) * VECTORS_PER_ITEM;
    /* Where there are few channels, a piece may be as small as a vector for each work-item. */
    f.pieces = YKI_MAX(positions / per_piece, YKI_MIN(positions * VECTORS_PER_ITEM / per_piece,
                                                      2 * traits->compute_units / blocks));
    f.pieces = YKI_MAX(YKI_MIN(f.pieces, MOST_PARTS), 1);
    return f;
}

/* Whether an operand has x's shape. */
static bool
image_at(const yki_problem *problem, uint32_t i)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);
    const yki_op *op = problem->op;

    if (i == 0)
        return true;
    if (i == problem->input_count)
        return op != &yki_op_bn_stats && op != &yki_op_bn_grad_stats && op != &yki_op_reduce_bias;
    if (op == &yki_op_bn_apply || op == &yki_op_bn_layer || op == &yki_op_bn_apply_parts)
        return a.residual && i + 1 == problem->input_count;
    return i == 1 && op != &yki_op_bn_stats;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    if (yki_conv_is_cpu(traits) || !yki_plain_applies(problem, traits))
        return false;
    for (uint32_t i = 0; i <= problem->input_count; i++) {
        const yki_operand *operand = yki_problem_operand(problem, i);

        if (image_at(problem, i) ? !yki_bn_is_image(problem, operand) : operand->batched)
            return false;
    }
    return true;
}

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    return traits->max_group >= MOST_ITEMS ? 2 : 1;
}

/* ---- launches ---- */

static yki_launch *
launch_of(yki_recipe *recipe, const form *f, const char *kernel, uint32_t keep)
{
    return yki_recipe_launch(recipe, "norm_groups.cl", kernel,
                             "-DVEC=%u -DWG=%u -DKEEP=%u -DCOLUMNS=%u%s", f->vector, f->items, keep,
                             f->columns, f->far ? " -DAT=long" : "");
}

static void
cost(yki_launch *launch, const yki_problem *problem)
{
    if (!launch)
        return;
    launch->flops = yki_operand_elements(&problem->in[0]);
    launch->flops.per_sample *= 4;
    launch->flops.constant *= 4;
    launch->bytes = yki_problem_bytes(problem);
}

static void
sizes(yki_recipe *recipe, const yki_problem *problem, const form *f)
{
    yki_arg_expr(recipe, "positions",
                 problem->in[0].batched ? YKI_PER_SAMPLE(f->wide) : YKI_CONST(f->wide));
    yki_arg_int(recipe, "channels", f->channels);
    yki_arg_int(recipe, "wide", f->wide);
}

static void
grid(yki_launch *launch, const form *f, int64_t pieces)
{
    int64_t blocks = (f->channels + f->columns - 1) / f->columns;

    yki_launch_grid(launch, YKI_CONST(YKI_MIN(blocks, MAX_GROUPS)), YKI_CONST(pieces), YKI_CONST(1),
                    f->items, 1, 1);
}

/* Input i, or x where the problem lacks it; the flags keep it from being read. */
static void
optional_slot(yki_recipe *recipe, const yki_problem *problem, uint32_t i, bool given)
{
    yki_arg_slot(recipe, given && i < problem->input_count ? i : 0);
}

static void
add_statistics(yki_recipe *recipe, const yki_problem *problem, const form *f, uint32_t part,
               int flags)
{
    yki_launch *launch = launch_of(recipe, f, "yki_bn_parts", 4);

    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, part);
    sizes(recipe, problem, f);
    yki_arg_int(recipe, "parts", f->pieces);
    yki_arg_int(recipe, "flags", flags);
    grid(launch, f, f->pieces);
    cost(launch, problem);
}

/* gamma is input `at`, beta the next one. */
static void
add_sums(yki_recipe *recipe, const yki_problem *problem, const form *f, uint32_t at, uint32_t part)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);
    bool parameters = a.affine && problem->input_count == at + 2;
    yki_launch *launch = launch_of(recipe, f, "yki_bn_grad_parts", 4);

    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, i);
    for (uint32_t i = at; i < at + 2; i++)
        optional_slot(recipe, problem, i, parameters);
    yki_arg_slot(recipe, part);
    sizes(recipe, problem, f);
    yki_arg_int(recipe, "parts", f->pieces);
    yki_arg_int(recipe, "flags", yki_bn_flags(problem) & (parameters ? ~0 : ~AFFINE));
    yki_arg_float(recipe, "epsilon", a.epsilon);
    grid(launch, f, f->pieces);
    cost(launch, problem);
}

static void
piece_args(yki_recipe *recipe, const yki_problem *problem, const form *f, int64_t parts, int flags)
{
    sizes(recipe, problem, f);
    yki_arg_int(recipe, "pieces", f->pieces);
    yki_arg_int(recipe, "parts", parts);
    yki_arg_int(recipe, "flags", yki_bn_flags(problem) | flags);
    yki_arg_float(recipe, "epsilon", yki_bn_attrs_get(&problem->attrs).epsilon);
}

/* gamma is input `at`; the statistics are `parts` parts, and joined ones go to `joined`, if that
 * is not 0. `pivots`: PIVOTS, or 0. */
static void
add_apply(yki_recipe *recipe, const yki_problem *problem, const form *f, uint32_t at, uint32_t part,
          int64_t parts, uint32_t joined, int pivots)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);
    yki_launch *launch = launch_of(recipe, f, "yki_bn_apply_parts", 2);

    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, part);
    for (uint32_t i = at; i < at + 2; i++)
        optional_slot(recipe, problem, i, a.affine);
    optional_slot(recipe, problem, problem->input_count - 1, a.residual);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, joined ? joined : problem->input_count);
    piece_args(recipe, problem, f, parts, (joined ? WRITE : 0) | pivots);
    grid(launch, f, f->pieces);
    cost(launch, problem);
}

/* The same for the gradient: the joined sums go to `sum` and, from element dot_at on, to `dot`. */
static void
add_grad(yki_recipe *recipe, const yki_problem *problem, const form *f, uint32_t at, uint32_t part,
         int64_t parts, uint32_t sum, uint32_t dot, int64_t dot_at)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);
    uint32_t out = problem->input_count;
    yki_launch *launch = launch_of(recipe, f, "yki_bn_grad_apply", 2);

    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, i);
    yki_arg_slot(recipe, part);
    for (uint32_t i = at; i < at + 2; i++)
        optional_slot(recipe, problem, i, a.affine);
    yki_arg_slot(recipe, out);
    yki_arg_slot(recipe, sum ? sum : out);
    yki_arg_slot(recipe, sum ? dot : out);
    yki_arg_int(recipe, "dot_at", dot_at);
    piece_args(recipe, problem, f, parts, sum ? WRITE : 0);
    grid(launch, f, f->pieces);
    cost(launch, problem);
}

/* The joined sums are one more result, or two, their rows. */
static void
add_layer_grad(yki_recipe *recipe, const yki_problem *problem, const form *f, uint32_t at,
               uint32_t part, int64_t parts)
{
    const uint32_t extra = problem->input_count + 1;

    if (problem->extra_count == 1)
        add_grad(recipe, problem, f, at, part, parts, extra, extra, f->channels);
    else
        add_grad(recipe, problem, f, at, part, parts, extra, extra + 1, 0);
}

/* Adds a slot for parts of `rows` numbers a channel, and its pivot. */
static uint32_t
part_slot(yki_recipe *recipe, const form *f, int64_t rows)
{
    return yki_recipe_slot(recipe, YKI_SLOT_SCRATCH,
                           YKI_CONST(4 * f->channels * (rows * f->pieces + 1)));
}

static void
add_join(yki_recipe *recipe, const form *f, const char *kernel, uint32_t part, uint32_t out)
{
    yki_launch *launch = launch_of(recipe, f, kernel, 2);

    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, out);
    yki_arg_int(recipe, "channels", f->channels);
    yki_arg_int(recipe, "parts", f->pieces);
    yki_arg_int(recipe, "flags", PIVOTS);
    grid(launch, f, 1);
}

static yoke_status
emit_stats(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    form f = form_of(problem, traits, tuning);
    uint32_t out = problem->input_count, part = out;
    bool is_grad = problem->op == &yki_op_bn_grad_stats;

    yki_recipe_start(recipe, problem);
    if (f.pieces > 1)
        part = part_slot(recipe, &f, is_grad ? 2 : 3);
    if (is_grad)
        add_sums(recipe, problem, &f, 3, part);
    else
        add_statistics(recipe, problem, &f, part, f.pieces > 1 ? PIVOTS : 0);
    if (f.pieces > 1)
        add_join(recipe, &f, is_grad ? "yki_bn_join_sums" : "yki_bn_join", part, out);
    return recipe->status;
}

static yoke_status
emit_use(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
         yki_recipe *recipe)
{
    form f = form_of(problem, traits, tuning);

    yki_recipe_start(recipe, problem);
    if (problem->op == &yki_op_bn_apply)
        add_apply(recipe, problem, &f, 2, 1, 1, 0, 0);
    else
        add_grad(recipe, problem, &f, 4, 3, 1, 0, 0, 0);
    return recipe->status;
}

static yoke_status
emit_layer(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    form f = form_of(problem, traits, tuning);
    uint32_t extra = problem->input_count + 1, part;

    yki_recipe_start(recipe, problem);
    if (problem->op == &yki_op_bn_layer) {
        part = part_slot(recipe, &f, 3);
        add_statistics(recipe, problem, &f, part, PIVOTS);
        add_apply(recipe, problem, &f, 1, part, f.pieces, extra, PIVOTS);
        return recipe->status;
    }
    part = part_slot(recipe, &f, 2);
    add_sums(recipe, problem, &f, 3, part);
    add_layer_grad(recipe, problem, &f, 3, part, f.pieces);
    return recipe->status;
}

/* The same from parts that are given. */
static yoke_status
emit_given(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    form f = form_of(problem, traits, tuning);
    const bool is_grad = problem->op == &yki_op_bn_grad_parts;
    const uint32_t part = is_grad ? 3 : 1;
    const int64_t parts = problem->in[part].shape.dim[0];

    yki_recipe_start(recipe, problem);
    if (is_grad)
        add_layer_grad(recipe, problem, &f, 4, part, parts);
    else
        add_apply(recipe, problem, &f, 2, part, parts, problem->input_count + 1, 0);
    return recipe->status;
}

static yoke_status
emit_bias(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    form f = form_of(problem, traits, tuning);
    uint32_t part = 1;
    yki_launch *launch;

    yki_recipe_start(recipe, problem);
    if (f.pieces > 1)
        part = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * f.channels * f.pieces));
    launch = launch_of(recipe, &f, "yki_channel_sums", 4);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, part);
    sizes(recipe, problem, &f);
    yki_arg_int(recipe, "parts", f.pieces);
    grid(launch, &f, f.pieces);
    cost(launch, problem);
    if (f.pieces > 1)
        yki_conv_sum_parts(recipe, traits, part, 1, f.channels, f.pieces);
    return recipe->status;
}

#define SOLVER(op_name, text, is_canonical, write, given)                                          \
    static const yki_op *const op_name##_op = &yki_op_##op_name;                                   \
    const yki_solver yki_solver_##op_name##_groups = {                                             \
        .name = text,                                                                              \
        .op = &op_name##_op,                                                                       \
        .side_by_side = true,                                                                      \
        .canonical = (is_canonical),                                                               \
        .with_parts = (given),                                                                     \
        .applies = applies,                                                                        \
        .tunings = tunings,                                                                        \
        .emit = write,                                                                             \
    }
/* What is computed for each element alone has the bits of batch_norm_solver.c. */
SOLVER(bn_stats, "bn-stats-groups", YKI_CANONICAL_FIXED, emit_stats, NULL);
SOLVER(bn_apply, "bn-apply-groups", YKI_CANONICAL_FREE, emit_use, NULL);
SOLVER(bn_grad_stats, "bn-grad-stats-groups", YKI_CANONICAL_FIXED, emit_stats, NULL);
SOLVER(bn_grad, "bn-grad-groups", YKI_CANONICAL_FREE, emit_use, NULL);
SOLVER(bn_apply_parts, "bn-apply-parts-groups", YKI_CANONICAL_FIXED, emit_given, NULL);
SOLVER(bn_grad_parts, "bn-grad-parts-groups", YKI_CANONICAL_FIXED, emit_given, NULL);
SOLVER(bn_layer, "bn-layer-groups", YKI_CANONICAL_FIXED, emit_layer,
       &yki_solver_bn_apply_parts_groups);
SOLVER(bn_layer_grad, "bn-layer-grad-groups", YKI_CANONICAL_FIXED, emit_layer,
       &yki_solver_bn_grad_parts_groups);
SOLVER(reduce_bias, "reduce-bias-groups", YKI_CANONICAL_FIXED, emit_bias, NULL);

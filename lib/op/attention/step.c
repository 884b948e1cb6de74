/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - attention of new rows to what a cache keeps of earlier ones
 * (clkernels/attention_step.cl). Plans that generate have it in place of attention.
 *
 * The cache is a state that the operator itself writes: a copy of all of it each step
 * would cost more than the step. Running it again writes and computes the same.
 */
#include <stdio.h>

#include "op/ops.h"

/* BLOCK: the cache has so many rows, or a multiple. A stream's only row leaves most of a GPU idle:
 * there it gets large groups, several where the cache is longer than a block. The join reads what
 * they found one after the other, so they are not too many. */
enum { BLOCK = 64, GROUPS_PER_CORE = 4, MOST_GROUPS = 32768, WIDE_GROUP = 256, MOST_PARTS = 64 };

static int64_t
padded_width(const yki_attention_attrs *a)
{
    return (a->width + 15) / 16 * 16;
}

yoke_shape
yki_attention_cache(const yki_attention_attrs *a, int64_t streams, int64_t length)
{
    length = (length + BLOCK - 1) / BLOCK * BLOCK;
    return yoke_shape(streams, a->shared, length, a->width + padded_width(a));
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_attention_attrs a = yki_attention_attrs_get(attrs);

    snprintf(text, size, "%d/%d x %d s%.9g", a.heads, a.shared, a.width, (double)a.scale);
}

static yoke_status
infer(yoke_node *node)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0], *positions = node->inputs[1], *cache = node->inputs[2];
    const yoke_shape shape = yki_whole_shape(x);

    if (shape.rank != 2 || shape.dim[1] != ((int64_t)a.heads + 2 * a.shared) * a.width ||
        positions->type != YOKE_I32 || yki_whole_shape(positions).dim[0] != shape.dim[0] ||
        positions->length != x->length || cache->shape.rank != 4 || cache->batched)
        return yki_fail_bug("a step of attention has other operands");
    yki_node_like(node, x);
    node->shape.dim[node->shape.rank - 1] = (int64_t)a.heads * a.width;
    return YOKE_OK;
}

static double
flops(const yoke_node *node)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);

    return 4.0 * (double)yki_whole_shape(node).dim[0] * (double)node->inputs[2]->shape.dim[2] *
           a.heads * a.width;
}

const yki_op yki_op_attention_step = {
    .name = "attention_step",
    .infer = infer,
    .flops = flops,
    .describe = describe,
    .whole = true,
};

/* ---- the solver ---- */

/* How one row is computed. */
typedef struct shape {
    uint32_t group;      /* items; 1: a processor's */
    int64_t parts, each; /* groups that share a row, and the keys of each */
} shape;

static shape
shape_of(const yki_problem *problem, const yki_device_traits *traits)
{
    int64_t length = problem->in[2].shape.dim[2], blocks = length / BLOCK;
    shape s = {BLOCK, 1, length};

    if (traits->type == YOKE_DEVICE_CPU) {
        s.group = 1;
    } else if (problem->in[0].shape.dim[0] == 1) {
        s.group = traits->max_group >= WIDE_GROUP ? WIDE_GROUP : BLOCK;
        s.each = (blocks + MOST_PARTS - 1) / MOST_PARTS * BLOCK;
        s.parts = (length + s.each - 1) / s.each;
    }
    return s;
}

static yki_launch *
begin(yki_recipe *recipe, const yki_attention_attrs *a, const shape *s, const char *kernel)
{
    return yki_recipe_launch(recipe, "attention_step.cl", kernel, "-DD=%d -DWG=%u", a->width,
                             s->group);
}

static void
size_args(yki_recipe *recipe, const yki_problem *problem, const yki_attention_attrs *a)
{
    yki_arg_expr(recipe, "streams", YKI_BATCH);
    yki_arg_int(recipe, "rows", problem->in[0].shape.dim[0]);
    yki_arg_int(recipe, "heads", a->heads);
    yki_arg_int(recipe, "shared", a->shared);
    yki_arg_int(recipe, "length", problem->in[2].shape.dim[2]);
}

/* `units`: of a row; `each`: iterations of one. */
static void
grid(yki_launch *launch, const yki_problem *problem, const yki_device_traits *traits,
     const shape *s, int64_t units, double each)
{
    int64_t rows = problem->in[0].shape.dim[0];
    yki_expr groups = YKI_PER_SAMPLE(rows * units);

    groups.max = s->group == 1 ? (int64_t)traits->compute_units * GROUPS_PER_CORE : MOST_GROUPS;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, s->group, 1, 1);
    yki_launch_iterations(launch, problem,
                          each * s->group * (double)(problem->max.batch * rows * units), 0);
}

/* Keys and values of several rows. */
static void
store(yki_recipe *recipe, const yki_problem *problem, const yki_device_traits *traits,
      const yki_attention_attrs *a, const shape *s)
{
    yki_launch *launch = begin(recipe, a, s, "yki_attention_store");

    for (uint32_t i = 0; i < 3; i++)
        yki_arg_slot(recipe, i);
    size_args(recipe, problem, a);
    grid(launch, problem, traits, s, a->shared, a->width + 1);
}

/* What the groups of a row found, together. */
static void
join(yki_recipe *recipe, const yki_problem *problem, const yki_device_traits *traits,
     const yki_attention_attrs *a, const shape *of, uint32_t left)
{
    const shape s = {BLOCK, of->parts, of->each};
    yki_launch *launch = begin(recipe, a, &s, "yki_attention_join");

    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, left);
    yki_arg_slot(recipe, 3);
    yki_arg_expr(recipe, "streams", YKI_BATCH);
    yki_arg_int(recipe, "rows", problem->in[0].shape.dim[0]);
    yki_arg_int(recipe, "heads", a->heads);
    yki_arg_int(recipe, "length", problem->in[2].shape.dim[2]);
    yki_arg_int(recipe, "parts", s.parts);
    yki_arg_int(recipe, "each", s.each);
    grid(launch, problem, traits, &s, a->heads, (double)s.parts * (1 + a->width) + 1);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_attention_attrs a = yki_attention_attrs_get(&problem->attrs);
    const shape s = shape_of(problem, traits);
    int64_t rows = problem->in[0].shape.dim[0], length = problem->in[2].shape.dim[2];
    double a_row =
        (double)a.heads / a.shared * ((double)s.each / BLOCK + 1) * (2 * a.width + BLOCK + 16.0);
    yki_launch *launch;
    uint32_t left = 3;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    if (s.parts > 1)
        left = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH,
                               YKI_PER_SAMPLE(rows * a.heads * s.parts * (padded_width(&a) + 4) *
                                              (int64_t)sizeof(float)));
    if (rows > 1)
        store(recipe, problem, traits, &a, &s);
    launch = begin(recipe, &a, &s, "yki_attention_step");
    for (uint32_t i = 0; i < 4; i++)
        yki_arg_slot(recipe, i);
    yki_arg_slot(recipe, left);
    size_args(recipe, problem, &a);
    yki_arg_int(recipe, "parts", s.parts);
    yki_arg_int(recipe, "each", s.each);
    yki_arg_float(recipe, "scale", a.scale);
    grid(launch, problem, traits, &s, a.shared * s.parts, a_row);
    if (launch) {
        launch->flops = YKI_PER_SAMPLE(4 * rows * length * a.heads * a.width);
        launch->bytes = YKI_PER_SAMPLE(4 * length * a.shared * (a.width + padded_width(&a)));
    }
    if (s.parts > 1)
        join(recipe, problem, traits, &a, &s, left);
    return recipe->status;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_plain_applies(problem, traits) && problem->in[0].batched &&
           (traits->type == YOKE_DEVICE_CPU || traits->max_group >= BLOCK);
}

static const yki_op *const op = &yki_op_attention_step;

const yki_solver yki_solver_attention_step = {
    .name = "attention-step",
    .op = &op,
    .applies = applies,
    .emit = emit,
};

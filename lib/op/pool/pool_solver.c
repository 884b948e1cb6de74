/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_solver.c - pooling and its gradients, one launch each. See pool.cl.
 *
 * "blocked" is for devices on which few large work-items are best: groups of one
 * work-item, with vectors over a block of channels, or scalars in the plain layout.
 * "plain" is for devices whose work-items run side by side (pool_groups.cl). "2x2" is
 * the plain layout where vectors can run along a row.
 */
#include "op/conv/conv.h"
#include "op/ops.h"

enum { MAX_GROUPS = 32768, ELEMENTS_PER_GROUP = 4096, ELEMENTS_PER_ITEM = 8 };

typedef struct pool {
    const yki_operand *x, *y; /* the operator decides which of the two is given */
    yki_pool_attrs a;
    bool is_max, is_grad;
    int64_t planes; /* of one sample; planes are blocks of channels */
} pool;

static pool
pool_of(const yki_problem *problem)
{
    const yki_op *op = problem->op;
    pool p = {.a = yki_pool_attrs_get(&problem->attrs)};
    uint32_t block;

    p.is_grad = op == &yki_op_maxpool2d_grad || op == &yki_op_avgpool2d_grad ||
                op == &yki_op_global_avgpool_grad;
    p.is_max = op == &yki_op_maxpool2d || op == &yki_op_maxpool2d_grad;
    p.x = p.is_grad ? &problem->out : &problem->in[0];
    p.y = p.is_grad ? &problem->in[problem->input_count - 1] : &problem->out;
    block = YKI_MAX(p.x->layout.block, 1u);
    p.planes = (p.x->shape.dim[0] + block - 1) / block;
    return p;
}

static yki_expr
times(const yki_operand *operand, int64_t count)
{
    return operand->batched ? YKI_PER_SAMPLE(count) : YKI_CONST(count);
}

/* The number of groups of one work-item: pieces with enough elements, a few for each compute
 * unit. */
static yki_expr
cpu_groups(const yki_operand *larger, const yki_device_traits *traits)
{
    yki_expr groups = yki_operand_elements(larger);

    groups.divisor = ELEMENTS_PER_GROUP;
    groups.max = YKI_MIN((int64_t)traits->compute_units * 8, MAX_GROUPS);
    return groups;
}

static yki_expr
item_groups(const yki_operand *operand, uint32_t items)
{
    yki_expr groups = yki_operand_elements(operand);

    groups.divisor = (int64_t)items * ELEMENTS_PER_ITEM;
    groups.max = MAX_GROUPS;
    return groups;
}

static uint32_t
group_items(const yki_device_traits *traits)
{
    uint32_t items = 256;

    while (items > traits->max_group)
        items /= 2;
    return items;
}

static void
cost(yki_launch *launch, const yki_problem *problem, const pool *p)
{
    yki_expr bytes = yki_operand_bytes(&problem->out);
    int64_t windows;

    if (!launch)
        return;
    for (uint32_t i = 0; i < problem->input_count; i++) {
        bytes.per_sample += yki_operand_bytes(&problem->in[i]).per_sample;
        bytes.constant += yki_operand_bytes(&problem->in[i]).constant;
    }
    launch->bytes = bytes;
    windows = YKI_MAX(p->a.kernel[0], 1) * YKI_MAX(p->a.kernel[1], 1);
    yki_launch_iterations(launch, problem,
                          (double)(yki_operand_count(p->y, problem->max) * windows +
                                   yki_operand_count(p->x, problem->max)),
                          windows);
    launch->flops = times(p->y, yki_shape_count(p->y->shape) * YKI_MAX(p->a.kernel[0], 1) *
                                    YKI_MAX(p->a.kernel[1], 1));
}

/* Whether every element of x belongs to exactly one window. */
static bool
is_exact(const pool *p)
{
    for (int i = 0; i < 2; i++)
        if (p->a.stride[i] != p->a.kernel[i] || p->a.pad[i] != 0 ||
            p->y->shape.dim[i + 1] * p->a.kernel[i] != p->x->shape.dim[i + 1])
            return false;
    return true;
}

/* Sets the arguments of all kernels over windows: operands, geometry, and one flag. */
static void
window_args(yki_recipe *recipe, const yki_problem *problem, const pool *p)
{
    const yki_named_int geometry[] = {{"h", p->x->shape.dim[1]},  {"w", p->x->shape.dim[2]},
                                      {"oh", p->y->shape.dim[1]}, {"ow", p->y->shape.dim[2]},
                                      {"kh", p->a.kernel[0]},     {"kw", p->a.kernel[1]},
                                      {"sh", p->a.stride[0]},     {"sw", p->a.stride[1]},
                                      {"ph", p->a.pad[0]},        {"pw", p->a.pad[1]}};

    if (problem->op == &yki_op_avgpool2d_grad && problem->input_count == 1)
        yki_arg_slot(recipe, 0); /* stands for the gate: a kernel has no optional arguments */
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, "planes", times(p->x, p->planes));
    yki_arg_ints(recipe, geometry, YKI_COUNT(geometry));
    if (p->is_max && p->is_grad)
        yki_arg_int(recipe, "exact", is_exact(p));
    else if (!p->is_max)
        yki_arg_int(recipe, "exclude_pad", p->a.exclude_pad);
    if (problem->op == &yki_op_avgpool2d_grad)
        yki_arg_int(recipe, "gated", problem->input_count == 2);
}

static const char *
pick(const pool *p, const char *max, const char *max_grad, const char *avg, const char *avg_grad)
{
    return p->is_max ? (p->is_grad ? max_grad : max) : (p->is_grad ? avg_grad : avg);
}

/* All operands have one layout. */
static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    static const uint32_t blocks[] = {16, 8, 4, 1};

    (void)traits;
    if (variant >= YKI_COUNT(blocks))
        return false;
    for (uint32_t i = 0; i < problem->input_count; i++)
        problem->in[i].layout.block = blocks[variant];
    problem->out.layout.block = blocks[variant];
    return true;
}

static bool
blocked_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    uint32_t block = problem->out.layout.block;

    if (!yki_conv_is_cpu(traits))
        return false;
    for (uint32_t i = 0; i < problem->input_count; i++)
        if (problem->in[i].layout.block != block)
            return false;
    return block == 1 || block == 4 || block == 8 || block == 16;
}

static yoke_status
emit_blocked(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
             yki_recipe *recipe)
{
    pool p = pool_of(problem);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "pool.cl",
                               pick(&p, "yki_maxpool_blocked", "yki_maxpool_grad_blocked",
                                    "yki_avgpool_blocked", "yki_avgpool_grad_blocked"),
                               "-DVEC=%u -DWG=1", problem->out.layout.block);
    window_args(recipe, problem, &p);
    yki_launch_grid(launch, cpu_groups(p.x, traits), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    cost(launch, problem, &p);
    return recipe->status;
}

static yoke_status
emit_plain(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    pool p = pool_of(problem);
    uint32_t items = group_items(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "pool_groups.cl",
                               pick(&p, "yki_maxpool_plain", "yki_maxpool_grad_plain",
                                    "yki_avgpool_plain", "yki_avgpool_grad_plain"),
                               "-DWG=%u", items);
    window_args(recipe, problem, &p);
    yki_launch_grid(launch, item_groups(&problem->out, items), YKI_CONST(1), YKI_CONST(1), items, 1,
                    1);
    cost(launch, problem, &p);
    return recipe->status;
}

/* Windows of 2x2 without padding, all inside x, in rows of at least one vector. */
static bool
pairs_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    pool p = pool_of(problem);

    if (!yki_conv_is_cpu(traits) || !yki_plain_applies(problem, traits))
        return false;
    for (int i = 0; i < 2; i++)
        if (p.a.kernel[i] != 2 || p.a.stride[i] != 2 || p.a.pad[i] != 0 ||
            2 * p.y->shape.dim[i + 1] > p.x->shape.dim[i + 1])
            return false;
    return p.y->shape.dim[2] >= 4;
}

static yoke_status
emit_pairs(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    pool p = pool_of(problem);
    uint32_t vector = p.y->shape.dim[2] >= 8 && traits->vector_width >= 8 ? 8 : 4;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch =
        yki_recipe_launch(recipe, "pool.cl", p.is_grad ? "yki_maxpool_grad_2x2" : "yki_maxpool_2x2",
                          "-DVEC=%u -DWG=1", vector);
    window_args(recipe, problem, &p);
    yki_launch_grid(launch, cpu_groups(p.x, traits), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    cost(launch, problem, &p);
    return recipe->status;
}

/* The mean over planes: x may be in blocks; (C) is always plain. */
static bool
global_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    static const uint32_t blocks[] = {16, 8, 4, 1};
    yki_operand *x = problem->op == &yki_op_global_avgpool ? &problem->in[0] : &problem->out;

    (void)traits;
    if (variant >= YKI_COUNT(blocks))
        return false;
    x->layout.block = blocks[variant];
    return true;
}

static bool
global_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    pool p = pool_of(problem);
    uint32_t block = p.x->layout.block;

    return yki_conv_is_cpu(traits) && p.y->layout.block <= 1 &&
           (block <= 1 || block == 4 || block == 8 || block == 16);
}

static yoke_status
emit_global(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    pool p = pool_of(problem);
    uint32_t block = p.x->layout.block;
    const char *kernel;
    yki_launch *launch;

    (void)tuning;
    if (block > 1)
        kernel = p.is_grad ? "yki_plane_mean_grad_blocked" : "yki_plane_mean_blocked";
    else
        kernel = p.is_grad ? "yki_plane_mean_grad_rows" : "yki_plane_mean_rows";
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "pool.cl", kernel, "-DVEC=%u -DWG=1",
                               block > 1                   ? block
                               : traits->vector_width >= 8 ? 8
                                                           : 4);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "samples", times(p.x, 1));
    yki_arg_int(recipe, "channels", p.x->shape.dim[0]);
    yki_arg_int(recipe, "area", p.x->shape.dim[1] * p.x->shape.dim[2]);
    yki_launch_grid(launch, cpu_groups(p.x, traits), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    cost(launch, problem, &p);
    return recipe->status;
}

static bool
global_groups_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return !yki_conv_is_cpu(traits) && yki_plain_applies(problem, traits);
}

static yoke_status
emit_global_groups(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
                   yki_recipe *recipe)
{
    pool p = pool_of(problem);
    uint32_t items = group_items(traits), share = 1;
    int64_t area = p.x->shape.dim[1] * p.x->shape.dim[2], vector = area % 4 == 0 ? 4 : 1;
    yki_expr groups = times(p.x, p.planes);
    yki_launch *launch;

    (void)tuning;
    while (2 * share <= items && 2 * share <= area / vector)
        share *= 2;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "pool_groups.cl",
                               p.is_grad ? "yki_plane_mean_grad_groups" : "yki_plane_mean_groups",
                               "-DVEC=%d -DWG=%u -DSHARE=%u", (int)vector, items, share);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "planes", groups);
    yki_arg_int(recipe, "wide", area / vector);
    groups.divisor = items / share;
    groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), items, 1, 1);
    cost(launch, problem, &p);
    return recipe->status;
}

#define POOL_SOLVERS(op_name, text)                                                                \
    static const yki_op *const op_name##_op = &yki_op_##op_name;                                   \
    const yki_solver yki_solver_##op_name##_blocked = {                                            \
        .name = text "-blocked",                                                                   \
        .op = &op_name##_op,                                                                       \
        .canonical = YKI_CANONICAL_FREE,                                                           \
        .applies = blocked_applies,                                                                \
        .layouts = layouts,                                                                        \
        .emit = emit_blocked,                                                                      \
    };                                                                                             \
    const yki_solver yki_solver_##op_name##_plain = {                                              \
        .name = text "-plain",                                                                     \
        .op = &op_name##_op,                                                                       \
        .side_by_side = true,                                                                      \
        .canonical = YKI_CANONICAL_FREE,                                                           \
        .applies = yki_plain_applies,                                                              \
        .emit = emit_plain,                                                                        \
    }
POOL_SOLVERS(maxpool2d, "maxpool");
POOL_SOLVERS(maxpool2d_grad, "maxpool-grad");
POOL_SOLVERS(avgpool2d, "avgpool");
POOL_SOLVERS(avgpool2d_grad, "avgpool-grad");

const yki_solver yki_solver_maxpool2d_2x2 = {
    .name = "maxpool-2x2",
    .op = &maxpool2d_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = pairs_applies,
    .emit = emit_pairs,
};

const yki_solver yki_solver_maxpool2d_grad_2x2 = {
    .name = "maxpool-grad-2x2",
    .op = &maxpool2d_grad_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = pairs_applies,
    .emit = emit_pairs,
};

static const yki_op *const global_op = &yki_op_global_avgpool;
static const yki_op *const global_grad_op = &yki_op_global_avgpool_grad;

const yki_solver yki_solver_global_avgpool = {
    .name = "global-avgpool",
    .op = &global_op,
    .applies = global_applies,
    .layouts = global_layouts,
    .emit = emit_global,
};

const yki_solver yki_solver_global_avgpool_grad = {
    .name = "global-avgpool-grad",
    .op = &global_grad_op,
    .applies = global_applies,
    .layouts = global_layouts,
    .emit = emit_global,
};

const yki_solver yki_solver_global_avgpool_groups = {
    .name = "global-avgpool-groups",
    .op = &global_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = global_groups_apply,
    .emit = emit_global_groups,
};

const yki_solver yki_solver_global_avgpool_grad_groups = {
    .name = "global-avgpool-grad-groups",
    .op = &global_grad_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = global_groups_apply,
    .emit = emit_global_groups,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_solver.c - sums over any axes. On processors a result at a time, in the order
 * of memory; elsewhere several work-items share a result, which side by side take what
 * lies side by side.
 */
#include "op/flat.h"
#include "op/ops.h"

enum { KEPT = 5, REDUCED = 4, MAX_GROUPS = 32768 };

typedef struct axes {
    int64_t size[YOKE_MAX_RANK + 1], stride[YOKE_MAX_RANK + 1];
    int count;
} axes;

/* Adds an axis outside the existing ones. It is joined with the last one if they are adjacent in
 * memory. */
static void
add_axis(axes *list, int64_t size, int64_t stride)
{
    if (size == 1)
        return;
    if (list->count > 0 && stride == list->stride[list->count - 1] * list->size[list->count - 1]) {
        list->size[list->count - 1] *= size;
        return;
    }
    list->size[list->count] = size;
    list->stride[list->count++] = stride;
}

/* The innermost axis comes first. The batch is the outermost kept axis, and is joined with none
 * because its size varies. */
static void
split_axes(const yki_problem *problem, axes *kept, axes *reduced)
{
    const yki_reduce_attrs attrs = yki_reduce_attrs_get(&problem->attrs);
    const yoke_shape *shape = &problem->in[0].shape;
    int64_t stride = 1;

    kept->count = reduced->count = 0;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        add_axis(attrs.axes >> i & 1 ? reduced : kept, shape->dim[i], stride);
        stride *= shape->dim[i];
    }
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    axes kept, reduced;

    split_axes(problem, &kept, &reduced);
    return yki_plain_applies(problem, traits) && kept.count < KEPT && reduced.count <= REDUCED;
}

/* Adds the operands, the axes and the factor. */
static void
add_args(yki_recipe *recipe, const yki_problem *problem, const axes *kept, const axes *reduced)
{
    const yki_reduce_attrs attrs = yki_reduce_attrs_get(&problem->attrs);
    int64_t in_count = yki_shape_count(problem->in[0].shape);
    int64_t out_count = yki_shape_count(problem->out.shape);

    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "count", yki_operand_elements(&problem->out));
    for (int i = KEPT - 1; i > 0; i--)
        yki_arg_int_at(recipe, "k", KEPT - i, i - 1 < kept->count ? kept->size[i - 1] : 1);
    yki_arg_int(recipe, "ks0", in_count); /* elements from one sample to the next */
    for (int i = KEPT - 1; i > 0; i--)
        yki_arg_int_at(recipe, "ks", KEPT - i, i - 1 < kept->count ? kept->stride[i - 1] : 0);
    for (int i = REDUCED - 1; i >= 0; i--)
        yki_arg_int_at(recipe, "r", REDUCED - 1 - i, i < reduced->count ? reduced->size[i] : 1);
    for (int i = REDUCED - 1; i >= 0; i--)
        yki_arg_int_at(recipe, "rs", REDUCED - 1 - i, i < reduced->count ? reduced->stride[i] : 0);
    yki_arg_float(recipe, "factor", attrs.mean ? (float)out_count / (float)in_count : 1);
}

static void
cost(yki_launch *launch, const yki_problem *problem)
{
    if (!launch)
        return;
    launch->flops = yki_operand_elements(&problem->in[0]);
    launch->bytes = yki_operand_bytes(&problem->in[0]);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    int64_t in_count = yki_shape_count(problem->in[0].shape);
    int64_t out_count = yki_shape_count(problem->out.shape);
    yki_flat flat = yki_flat_for(traits);
    yki_expr groups = yki_operand_elements(&problem->out);
    axes kept, reduced;
    yki_launch *launch;

    (void)tuning;
    split_axes(problem, &kept, &reduced);
    yki_recipe_start(recipe, problem);
    launch =
        yki_recipe_launch(recipe, "flat.cl", "yki_reduce", "-DVEC=%u -DWG=%u", flat.vector, 1u);
    add_args(recipe, problem, &kept, &reduced);
    groups.max = flat.groups;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, 1, 1, 1);
    /* One work-item computes one result. */
    yki_launch_iterations(launch, problem, (double)yki_operand_count(&problem->in[0], problem->max),
                          in_count / YKI_MAX(out_count, 1));
    cost(launch, problem);
    return recipe->status;
}

/* ---- work-items side by side ---- */

static bool
groups_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->type != YOKE_DEVICE_CPU && applies(problem, traits);
}

static yoke_status
emit_groups(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    int64_t results = yki_operand_count(&problem->out, problem->max), terms;
    yki_expr groups = yki_operand_elements(&problem->out);
    yki_share s;
    axes kept, reduced;
    yki_launch *launch;
    bool across;

    (void)tuning;
    split_axes(problem, &kept, &reduced);
    across = reduced.count == 0 || reduced.stride[0] > 1;
    terms = reduced.count > 0 ? reduced.size[0] : 1;
    s = yki_share_for(traits, results, terms, across);
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "reduce_groups.cl", "yki_reduce_groups",
                               "-DWG=%u -DSHARE=%u -DACROSS=%d", s.items, s.share, across);
    add_args(recipe, problem, &kept, &reduced);
    groups.divisor = s.items / s.share;
    groups.max = MAX_GROUPS;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, s.items, 1, 1);
    yki_launch_iterations(
        launch, problem, (double)yki_operand_count(&problem->in[0], problem->max) / s.share,
        yki_shape_count(problem->in[0].shape) / YKI_MAX(yki_shape_count(problem->out.shape), 1));
    cost(launch, problem);
    return recipe->status;
}

static const yki_op *const reduce_op = &yki_op_reduce;

static bool
cpu_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return traits->type == YOKE_DEVICE_CPU && applies(problem, traits);
}

const yki_solver yki_solver_reduce = {
    .name = "reduce-plain",
    .op = &reduce_op,
    .applies = cpu_applies,
    .emit = emit,
};

const yki_solver yki_solver_reduce_groups = {
    .name = "reduce-groups",
    .op = &reduce_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FIXED,
    .applies = groups_apply,
    .emit = emit_groups,
};

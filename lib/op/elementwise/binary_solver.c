/* SPDX-License-Identifier: Apache-2.0
 *
 * binary_solver.c - binary operators: over flat memory where the operands are alike,
 * and by strides over up to nine axes where one is broadcast.
 */
#include <string.h>

#include "op/flat.h"
#include "op/ops.h"

enum { AXES = YOKE_MAX_RANK + 1 }; /* the batch and the axes of the shape */

/* Without broadcasting, and with it. */
static const char *const kernels[YKI_BINARY_KINDS][2] = {
#define KERNELS(kind, id, name) [YKI_BINARY_##kind] = {"yki_" #name, "yki_" #name "_broadcast"},
    YKI_BINARY(KERNELS) KERNELS(AT_LEAST, 6, at_least)
#undef KERNELS
};

static yoke_status
emit_flat(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    const yki_binary_attrs attrs = yki_binary_attrs_get(&problem->attrs);
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", kernels[attrs.kind][0], "-DVEC=%u -DWG=%u",
                               flat.vector, flat.group);
    for (uint32_t i = 0; i <= 2; i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, "count", yki_operand_elements(&problem->out));
    yki_flat_grid(launch, &flat, problem);
    yki_flat_cost(launch, problem, 1);
    return recipe->status;
}

/* Sets the strides of an operand along the result's axes, batch first; 0 where it is broadcast. */
static void
strides_of(const yki_operand *operand, const yki_operand *out, int64_t *strides)
{
    int64_t stride = 1;
    int32_t extra = out->shape.rank - operand->shape.rank;

    for (int i = 0; i < AXES; i++)
        strides[i] = 0;
    for (int32_t i = out->shape.rank - 1; i >= extra; i--) {
        int64_t dim = operand->shape.dim[i - extra];

        /* The shape's axes are the last of the nine; the batch is the first. */
        strides[AXES - out->shape.rank + i] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
    /* The stride of the batch is the size of one sample. The kernel finds the sample by dividing
     * out all other axes. */
    if (operand->batched)
        strides[0] = stride;
}

typedef struct walk {
    int64_t size[AXES];      /* of the result's axes; that of the batch, the first, is not used */
    int64_t stride[2][AXES]; /* of the operands */
    int outer;               /* the first axis that is used; of positions it has the rows */
} walk;

/* Whether an operand has a row for each row of a sequence. The batch of the walk are then samples,
 * and its first axis ends with the rows that are there. */
static bool
has_positions(const yki_problem *problem)
{
    return YKI_MAX(problem->in[0].shape.rank, problem->in[1].shape.rank) > problem->out.shape.rank;
}

static yki_operand
with_positions(yki_operand operand, int64_t length)
{
    if (!operand.rows)
        return operand;
    memmove(operand.shape.dim + 1, operand.shape.dim,
            (size_t)operand.shape.rank++ * sizeof operand.shape.dim[0]);
    operand.shape.dim[0] = length;
    return operand;
}

/* Leaves out axes of size 1, and joins neighbours that both operands step through as if they
 * were one axis. So the last axis, along which a work-item runs, becomes as long as possible. */
static walk
walk_of(const yki_problem *problem)
{
    const int64_t length = problem->max.length;
    const bool positions = has_positions(problem);
    const yki_operand out = positions ? with_positions(problem->out, length) : problem->out;
    const yoke_shape *shape = &out.shape;
    int64_t strides[2][AXES];
    walk w = {.stride = {{0}}};
    int at = AXES;

    for (int k = 0; k < 2; k++) {
        const yki_operand in = positions ? with_positions(problem->in[k], length) : problem->in[k];

        strides_of(&in, &out, strides[k]);
        w.stride[k][0] = strides[k][0];
    }
    for (int i = 0; i < AXES; i++)
        w.size[i] = 1;
    for (int32_t axis = shape->rank - 1; axis >= 0; axis--) {
        int i = AXES - shape->rank + axis;

        if (shape->dim[axis] == 1)
            continue;
        if (at == AXES || strides[0][i] != w.stride[0][at] * w.size[at] ||
            strides[1][i] != w.stride[1][at] * w.size[at]) {
            at--;
            w.stride[0][at] = strides[0][i];
            w.stride[1][at] = strides[1][i];
        }
        w.size[at] *= shape->dim[axis];
    }
    w.outer = at;
    return w;
}

/* A size or a stride, of which the length is a factor where `rows` says so. */
static yki_expr
with_length(const yki_problem *problem, int64_t value, bool rows)
{
    int64_t length = problem->max.length;

    return rows && length > 1 ? YKI_PER_ROW(value / length) : YKI_CONST(value);
}

static yoke_status
emit_broadcast(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
               yki_recipe *recipe)
{
    const yki_binary_attrs attrs = yki_binary_attrs_get(&problem->attrs);
    yki_flat flat = yki_flat_for(traits);
    const bool positions = has_positions(problem);
    walk w = walk_of(problem);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", kernels[attrs.kind][1], "-DVEC=%u -DWG=%u",
                               flat.vector, flat.group);
    for (uint32_t i = 0; i <= 2; i++)
        yki_arg_slot(recipe, i);
    yki_arg_expr(recipe, "count", yki_operand_elements(&problem->out));
    for (int i = 1; i < AXES; i++)
        yki_arg_expr_at(recipe, "d", i, with_length(problem, w.size[i], positions && i == w.outer));
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < AXES; i++)
            yki_arg_expr_at(recipe, k ? "sb" : "sa", i,
                            with_length(problem, w.stride[k][i], positions && i == 0));
    yki_flat_grid(launch, &flat, problem);
    yki_flat_cost(launch, problem, 1);
    return recipe->status;
}

static yoke_status
emit_ones(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    yki_flat flat = yki_flat_for(traits);
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "flat.cl", "yki_ones", "-DVEC=%u -DWG=%u", flat.vector,
                               flat.group);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "count", yki_operand_elements(&problem->out));
    yki_flat_grid(launch, &flat, problem);
    yki_flat_cost(launch, problem, 0);
    return recipe->status;
}

static const yki_op *const binary_op = &yki_op_binary;
static const yki_op *const ones_op = &yki_op_ones;

/* A quotient of what padding lanes hold may be NaN. */
static bool
flat_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_flat_applies(problem, traits) &&
           (problem->out.layout.block == 1 ||
            yki_binary_attrs_get(&problem->attrs).kind != YKI_BINARY_DIV);
}

const yki_solver yki_solver_binary = {
    .name = "binary-flat",
    .op = &binary_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = flat_applies,
    .layouts = yki_flat_layouts,
    .emit = emit_flat,
};

const yki_solver yki_solver_binary_broadcast = {
    .name = "binary-broadcast",
    .op = &binary_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_plain_applies,
    .emit = emit_broadcast,
};

const yki_solver yki_solver_ones = {
    .name = "ones-flat",
    .op = &ones_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = yki_flat_applies,
    .layouts = yki_flat_layouts,
    .emit = emit_ones,
};

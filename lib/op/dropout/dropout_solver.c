/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout_solver.c - one pass over memory: in plain layout, or in blocks where those
 * keep the order of the elements. Random numbers depend on an element's index in its
 * sample, so other layouts would draw another mask.
 */
#include "op/flat.h"
#include "op/ops.h"

/* Elements that share a run of counters; see dropout.cl. */
enum { CHUNK = 64, CHUNKS_PER_GROUP = 16 };

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    if (!yki_flat_applies(problem, traits))
        return false;
    return problem->out.layout.block == 1 ||
           (!problem->max.length && problem->out.shape.rank > 0 &&
            yki_shape_count(problem->out.shape) == problem->out.shape.dim[0]);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_dropout_attrs attrs = yki_dropout_attrs_get(&problem->attrs);
    int64_t count = yki_operand_count(&problem->out, (yki_extents){.batch = 1}); /* of a sample */
    int64_t length = problem->max.length;
    int64_t chunks = (count + CHUNK - 1) / CHUNK;
    bool batched = problem->out.batched;
    yki_flat flat = yki_flat_for(traits);
    yki_expr groups = batched ? YKI_PER_SAMPLE(chunks) : YKI_CONST(chunks);
    yki_launch *launch;

    (void)tuning;
    groups.divisor = CHUNKS_PER_GROUP;
    groups.max = flat.groups;
    yki_recipe_start(recipe, problem);
    launch = yki_recipe_launch(recipe, "dropout.cl", "yki_dropout", "-DVEC=%u -DWG=%u", flat.vector,
                               flat.group);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_step(recipe);
    yki_arg_expr(recipe, "samples", batched ? YKI_BATCH : YKI_CONST(1));
    yki_arg_expr(recipe, "count", length ? YKI_PER_ROW(count / length) : YKI_CONST(count));
    yki_arg_int(recipe, "batched", batched);
    /* The bits are passed as an int. */
    yki_arg_int(recipe, "key0", (int32_t)attrs.key[0]);
    yki_arg_int(recipe, "key1", (int32_t)attrs.key[1]);
    yki_arg_int(recipe, "threshold", (int32_t)attrs.threshold);
    yki_arg_float(recipe, "scale", attrs.scale);
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, flat.group, 1, 1);
    yki_flat_cost(launch, problem, 1);
    return recipe->status;
}

static const yki_op *const dropout_op = &yki_op_dropout;

const yki_solver yki_solver_dropout = {
    .name = "dropout-flat",
    .op = &dropout_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = applies,
    .layouts = yki_flat_layouts,
    .emit = emit,
};

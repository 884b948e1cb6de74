/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c - the point in a plan where the values of all devices become one value of
 * the team. The planner inserts it and the team does it (team/exchange.c), so the
 * recipe has no launch.
 */
#include <stdio.h>

#include "op/ops.h"

static yoke_status
infer(yoke_node *node)
{
    return yki_fail_bug("%s: merges are made by the planner", node->name);
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "%s", yki_merge_get(attrs) == YKI_MERGE_SUM ? "sum" : "moments");
}

const yki_op yki_op_merge = {
    .name = "merge",
    .infer = infer,
    .describe = describe,
};

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    (void)traits;
    (void)tuning;
    yki_recipe_start(recipe, problem);
    return recipe->status;
}

static const yki_op *const merge_op = &yki_op_merge;

const yki_solver yki_solver_merge = {
    .name = "team",
    .op = &merge_op,
    .canonical = YKI_CANONICAL_FREE, /* the team computes it */
    .applies = yki_plain_applies,
    .emit = emit,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * flat.h - what solvers share that take tensors as flat memory: vector and group
 * sizes, the grid, and the rule that all operands have the same layout.
 */
#ifndef YKI_FLAT_H
#define YKI_FLAT_H

#include "op/recipe.h"

typedef struct yki_flat {
    uint32_t vector; /* floats a work-item takes at a time */
    uint32_t group;  /* work-items per group */
    uint32_t groups; /* the most groups for a tensor, unless its loops would be too long */
} yki_flat;

/* Returns the sizes for a device. A CPU gets groups of one work-item with the widest vector, and
 * a few pieces for each compute unit; other devices get short vectors and many work-items. */
yki_flat yki_flat_for(const yki_device_traits *traits);
/* Sets the grid for the elements of the result. A small tensor gets at most one group per 4096
 * elements, because a launch is not worth more. A large one gets flat->groups, and more where a
 * work-item would otherwise make more iterations than every driver allows (llvmpipe ends such a
 * work-item silently). */
void yki_flat_grid(yki_launch *launch, const yki_flat *flat, const yki_problem *problem);
/* How work-items that run side by side share sums (reduce_groups.cl): powers of 2. */
typedef struct yki_share {
    uint32_t items; /* of a group */
    uint32_t share; /* of them add up one result */
} yki_share;
/* Returns the shares for `results` sums of `terms` each. `across`: neighbouring results lie side by
 * side in memory, otherwise neighbouring terms. */
yki_share yki_share_for(const yki_device_traits *traits, int64_t results, int64_t terms,
                        bool across);
/* Sets the FLOPs and bytes of a launch, for yoke_replica_print_plan. */
void yki_flat_cost(yki_launch *launch, const yki_problem *problem, int64_t flops_per_element);

/* Returns whether all operands have the same type, shape, batch and layout. */
bool yki_flat_applies(const yki_problem *problem, const yki_device_traits *traits);
/* Offers the variants plain, then blocks of 16, 8, 4. */
bool yki_flat_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * flat.h - what solvers over flat memory share: vector and group sizes, the grid,
 * and the rule that all operands lie in the same layout.
 */
#ifndef YKI_FLAT_H
#define YKI_FLAT_H

#include "op/recipe.h"

typedef struct yki_flat {
    uint32_t vector; /* floats a work-item takes at a time */
    uint32_t group;  /* work-items per group */
    uint32_t groups; /* for large tensors */
} yki_flat;

/* CPUs: one work-item with the widest vector, a few pieces per unit; else short vectors and
 * many items. */
yki_flat yki_flat_for(const yki_device_traits *traits);
/* Groups for the result's elements: for small tensors at most one per 4096 elements, since a
 * launch is not worth spreading thinner; for large ones flat->groups, and more where a
 * work-item would turn its loop more often than every driver can (llvmpipe ends it silently). */
void yki_flat_grid(yki_launch *launch, const yki_flat *flat, const yki_problem *problem);
/* FLOPs and bytes for explaining. */
void yki_flat_cost(yki_launch *launch, const yki_problem *problem, int64_t flops_per_element);

/* All operands alike in shape, batch and layout. */
bool yki_flat_applies(const yki_problem *problem, const yki_device_traits *traits);
/* Variants: plain, then blocks 16, 8, 4. */
bool yki_flat_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * flat.c - shared by the solvers that take tensors as flat memory.
 */
#include "op/flat.h"

enum { ELEMENTS_PER_GROUP = 4096, MAX_GROUPS = 32768, MAX_ITERATIONS = 32768 };

yki_flat
yki_flat_for(const yki_device_traits *traits)
{
    yki_flat flat;

    if (traits->type == YOKE_DEVICE_CPU) {
        flat.vector = YKI_MIN(YKI_MAX(traits->vector_width, 4u), 16u);
        flat.group = 1;
        flat.groups = traits->compute_units * 4;
    } else {
        flat.vector = 4;
        flat.group = YKI_MIN(traits->max_group, 128u);
        flat.groups = traits->compute_units * 16;
    }
    flat.groups = YKI_MIN(flat.groups, (uint32_t)MAX_GROUPS);
    return flat;
}

void
yki_flat_grid(yki_launch *launch, const yki_flat *flat, const yki_problem *problem)
{
    yki_expr groups = yki_operand_elements(&problem->out);
    int64_t most = yki_operand_count(&problem->out, problem->max);
    int64_t iterations = most / flat->vector / flat->group;

    /* The number of groups must be an expression. The kernel divides the work among any number of
     * them. */
    groups.divisor = ELEMENTS_PER_GROUP;
    groups.max = YKI_MAX((int64_t)flat->groups, (iterations + MAX_ITERATIONS - 1) / MAX_ITERATIONS);
    groups.max = YKI_MIN(groups.max, MAX_GROUPS);
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, flat->group, 1, 1);
}

yki_share
yki_share_for(const yki_device_traits *traits, int64_t results, int64_t terms, bool across)
{
    enum { ITEMS = 256, BESIDE = 32, ITEMS_PER_UNIT = 1024, TERMS_PER_ITEM = 8 };
    yki_share s = {ITEMS, 1};
    uint32_t most;

    while (s.items > traits->max_group)
        s.items /= 2;
    most = s.items;
    /* What lies side by side is read by as many work-items: whole lines of memory. */
    for (int64_t beside = 1; across && beside < YKI_MIN(results, BESIDE) && most > 1; beside *= 2)
        most /= 2;
    while (!across && s.share < BESIDE && 2 * s.share <= YKI_MIN(terms, most))
        s.share *= 2;
    /* More of them for a result only if results are few, or so long that it costs little. */
    while (2 * s.share <= most &&
           (results * s.share < (int64_t)traits->compute_units * ITEMS_PER_UNIT
                ? 4 * s.share <= terms
                : !across && 2 * s.share * TERMS_PER_ITEM <= terms))
        s.share *= 2;
    return s;
}

void
yki_flat_cost(yki_launch *launch, const yki_problem *problem, int64_t flops_per_element)
{
    yki_expr elements = yki_operand_elements(&problem->out);

    if (!launch)
        return;
    launch->flops = elements;
    launch->flops.per_sample *= flops_per_element;
    launch->flops.constant *= flops_per_element;
    launch->bytes = elements;
    launch->bytes.per_sample *= 4 * (problem->input_count + 1);
    launch->bytes.constant *= 4 * (problem->input_count + 1);
}

bool
yki_flat_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)traits;
    for (uint32_t i = 0; i < problem->input_count; i++)
        if (!yki_shape_equal(problem->in[i].shape, problem->out.shape) ||
            problem->in[i].batched != problem->out.batched ||
            problem->in[i].layout.block != problem->out.layout.block ||
            problem->in[i].type != problem->out.type)
            return false;
    return true;
}

bool
yki_flat_layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    static const uint32_t blocks[] = {1, 16, 8, 4};

    (void)traits;
    if (variant >= YKI_COUNT(blocks) || (variant && problem->out.shape.rank == 0))
        return false;
    for (uint32_t i = 0; i < problem->input_count; i++)
        problem->in[i].layout.block = blocks[variant];
    problem->out.layout.block = blocks[variant];
    return true;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * agree_classes.c - makes all devices of a team agree on the numerical class of each node.
 *
 * Before its plan is made, each device notes what each class would cost it. The costs
 * are summed over the members and then, in the order of ranks, over the processes. So
 * all processes choose the same classes (lib/plan/classes.c).
 *
 * There is nothing to agree on if the team is one device, under `strict`, which leaves
 * one class, if the graph has places, and if plans are the same everywhere anyway.
 */
#include <stdio.h>
#include <string.h>

#include "team/stages.h"

bool
yki_crew_agrees_classes(const yki_crew *crew, const yki_crew_options *options)
{
    return crew->team->total > 1 && !options->replica.strict && !crew->stages && !options->granule;
}

static yoke_status
merge_processes(const yki_crew *crew, yki_costs *costs)
{
    size_t count = costs->nodes * YKI_CLASSES, bytes = count * sizeof *costs->of;
    yoke_comm *comm = crew->comm;
    double *all;
    yoke_status status;

    if (!comm)
        return YOKE_OK;
    all = yki_alloc((size_t)comm->ranks, bytes, "costs of other processes");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = comm->allgather(comm, costs->of, bytes, all);
    if (status == YOKE_OK)
        memset(costs->of, 0, bytes);
    for (int32_t r = 0; r < comm->ranks && status == YOKE_OK; r++)
        yki_costs_merge(costs, all + count * (size_t)r);
    yki_free(all);
    return status;
}

/* Keeps the classes that a member alone would choose, then weighs its costs for the sum. */
static yoke_status
note_member(yki_member *m, yki_costs *costs)
{
    m->own_classes = yki_alloc(costs->nodes, 1, "numerical classes");
    if (!m->own_classes)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_costs_choose(costs, m->own_classes);
    yki_costs_weigh(costs);
    return YOKE_OK;
}

yoke_status
yki_crew_agree_classes(yki_crew *crew, yki_costs *costs)
{
    yki_costs sum;
    yoke_status status = YOKE_OK;

    crew->class_count = crew->graph->node_count;
    YKI_TRY(yki_costs_create(crew->class_count, &sum));
    crew->classes = yki_alloc(crew->class_count, 1, "numerical classes");
    if (!crew->classes)
        status = YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < crew->count && status == YOKE_OK; k++) {
        status = note_member(&crew->members[k], &costs[k]);
        if (status == YOKE_OK)
            yki_costs_merge(&sum, costs[k].of);
    }
    if (status == YOKE_OK)
        status = merge_processes(crew, &sum);
    if (status == YOKE_OK)
        yki_costs_choose(&sum, crew->classes);
    for (size_t k = 0; k < crew->count && status == YOKE_OK; k++) {
        crew->members[k].replica->classes = crew->classes;
        crew->members[k].replica->class_count = crew->class_count;
    }
    yki_costs_free(&sum);
    return status;
}

/* ---- explaining ---- */

/* Names the nodes for which the device alone would choose another class, as many as fit a line. */
static void
tell_member(const yki_crew *crew, size_t k, const yki_teller *to)
{
    const char *id = yki_device_id(yoke_team_get_device(crew->team, k));
    const uint8_t *own = crew->members[k].own_classes;
    char nodes[280] = "";
    size_t used = 0, count = 0;

    for (size_t i = 0; i < crew->class_count; i++) {
        if (own[i] == crew->classes[i] || own[i] == YKI_ANY_CLASS)
            continue;
        count++;
        if (used + 60 < sizeof nodes)
            used += (size_t)snprintf(nodes + used, sizeof nodes - used, "%s %.40s as %s",
                                     count > 1 ? "," : "", crew->graph->nodes[i]->name,
                                     yki_class_name((yki_class)(own[i] - 1)));
        else if (nodes[used - 1] != '.')
            used += (size_t)snprintf(nodes + used, sizeof nodes - used, ", ...");
    }
    if (count > 0)
        yki_tell(to, "numerical classes: %s alone would compute %zu otherwise:%s", id, count,
                 nodes);
}

/* The name of a device's unit for a class; "": it has none. */
static const char *
unit_for(const yki_device_traits *traits, yki_class rounds)
{
    if (rounds == YKI_CLASS_BF16 && yki_has_bf16(traits))
        return yki_dot_unit_name(traits->bf16);
    if (rounds == YKI_CLASS_TF32 && yki_has_tf32(traits))
        return yki_dot_unit_name(traits->tf32);
    return rounds == YKI_CLASS_F16 && yki_has_f16(traits) ? yki_dot_unit_name(traits->f16) : "";
}

/* Tells how many products a device multiplies in `rounds`, where that was asked for. */
static void
tell_precision(const yki_crew *crew, size_t k, yki_class rounds, const yki_teller *to)
{
    const yoke_replica *r = crew->members[k].replica;
    const yoke_device *device = yoke_team_get_device(crew->team, k);
    const yki_device_traits *traits = yki_device_get_traits(device);
    const yki_plan *plan = r->training ? r->training : r->evaluation;
    const char *by = "", *unit;
    size_t products = 0, asked = 0, rounded = 0;

    for (size_t t = 0; plan && t < plan->task_count; t++)
        if (plan->tasks[t].solver && yki_has_class(plan->tasks[t].problem.op, rounds)) {
            products++;
            asked += plan->tasks[t].rounds == rounds;
            rounded += plan->tasks[t].solver->numerical_class == rounds;
        }
    if (!r->precision || !plan || asked == 0)
        return;
    unit = unit_for(traits, rounds);
    if (!unit[0])
        by = "; it has no unit for that";
    else if (rounded > 0)
        by = ", by ";
    else
        unit = "";
    yki_tell(to, "precision %s: %s does %zu of %zu products in %s%s%s", r->precision,
             yki_device_id(device), rounded, products, yki_class_name(rounds), by, unit);
}

void
yki_crew_explain_classes(const yki_crew *crew, const yki_teller *to)
{
    size_t counts[YKI_CLASSES] = {0};

    for (size_t k = 0; k < crew->count; k++)
        for (int c = YKI_CLASS_BF16; c < YKI_CLASSES; c++)
            tell_precision(crew, k, (yki_class)c, to);
    if (!crew->classes)
        return;
    for (size_t i = 0; i < crew->class_count; i++)
        if (crew->classes[i] != YKI_ANY_CLASS)
            counts[crew->classes[i] - 1]++;
    yki_tell(to,
             "numerical classes, the same on every device: %zu nodes %s, %zu %s, %zu %s, "
             "%zu %s, %zu %s",
             counts[YKI_CLASS_DIRECT], yki_class_name(YKI_CLASS_DIRECT),
             counts[YKI_CLASS_WINOGRAD4], yki_class_name(YKI_CLASS_WINOGRAD4),
             counts[YKI_CLASS_BF16], yki_class_name(YKI_CLASS_BF16), counts[YKI_CLASS_TF32],
             yki_class_name(YKI_CLASS_TF32), counts[YKI_CLASS_F16], yki_class_name(YKI_CLASS_F16));
    for (size_t k = 0; k < crew->count; k++)
        tell_member(crew, k, to);
}

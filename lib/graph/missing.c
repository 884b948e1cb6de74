/* SPDX-License-Identifier: Apache-2.0
 *
 * missing.c - errors for names that a graph does not have. They suggest the nearest name that it
 * has.
 */
#include "base/near.h"
#include "graph/graph.h"

static void
offer_nodes(yki_near *near, const yoke_graph *graph, yki_node_role role)
{
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == role)
            yki_near_offer(near, graph->nodes[i]->name);
}

static yoke_status
fail(const char *kind, const char *name, yki_near *near)
{
    return yki_fail(YOKE_ERROR_NOT_FOUND, "there is no %s \"%s\"%s", kind, name,
                    yki_near_hint(near));
}

yoke_status
yki_graph_no_input(const yoke_graph *graph, const char *name)
{
    yki_near near;

    yki_near_start(&near, name);
    offer_nodes(&near, graph, YKI_ROLE_INPUT);
    return fail("input", name, &near);
}

yoke_status
yki_graph_no_output(const yoke_graph *graph, const char *name)
{
    yki_near near;

    yki_near_start(&near, name);
    for (size_t i = 0; i < graph->output_count; i++)
        yki_near_offer(&near, graph->outputs[i].name);
    return fail("output", name, &near);
}

yoke_status
yki_graph_no_metric(const yoke_graph *graph, const char *name)
{
    yki_near near;

    yki_near_start(&near, name);
    for (size_t i = 0; i < graph->metric_count; i++)
        yki_near_offer(&near, graph->metrics[i].name);
    return fail("metric", name, &near);
}

yoke_status
yki_graph_no_weight(const yoke_graph *graph, const char *name)
{
    yki_near near;

    yki_near_start(&near, name);
    offer_nodes(&near, graph, YKI_ROLE_PARAMETER);
    offer_nodes(&near, graph, YKI_ROLE_STATE);
    return fail("parameter or state", name, &near);
}

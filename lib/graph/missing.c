/* SPDX-License-Identifier: Apache-2.0
 *
 * missing.c - the errors for names that a graph does not have, with the name that may have been
 * meant.
 */
#include "base/near.h"
#include "graph/graph.h"

yoke_status
yki_graph_no_input(const yoke_graph *graph, const char *name)
{
    yki_near near;

    yki_near_start(&near, name);
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_INPUT)
            yki_near_offer(&near, graph->nodes[i]->name);
    return yki_fail(YOKE_ERROR_NOT_FOUND, "no input \"%s\"%s", name, yki_near_hint(&near));
}

yoke_status
yki_graph_no_output(const yoke_graph *graph, const char *name)
{
    yki_near near;

    yki_near_start(&near, name);
    for (size_t i = 0; i < graph->output_count; i++)
        yki_near_offer(&near, graph->outputs[i].name);
    return yki_fail(YOKE_ERROR_NOT_FOUND, "no output \"%s\"%s", name, yki_near_hint(&near));
}

yoke_status
yki_graph_no_metric(const yoke_graph *graph, const char *name)
{
    yki_near near;

    yki_near_start(&near, name);
    for (size_t i = 0; i < graph->metric_count; i++)
        yki_near_offer(&near, graph->metrics[i].name);
    return yki_fail(YOKE_ERROR_NOT_FOUND, "no metric \"%s\"%s", name, yki_near_hint(&near));
}

yoke_status
yki_graph_no_weight(const yoke_graph *graph, const char *name)
{
    yki_near near;

    yki_near_start(&near, name);
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_PARAMETER || graph->nodes[i]->role == YKI_ROLE_STATE)
            yki_near_offer(&near, graph->nodes[i]->name);
    return yki_fail(YOKE_ERROR_NOT_FOUND, "no parameter or state \"%s\"%s", name,
                    yki_near_hint(&near));
}

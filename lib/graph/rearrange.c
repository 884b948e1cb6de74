/* SPDX-License-Identifier: Apache-2.0
 *
 * rearrange.c - changes a graph that was built but not compiled: which nodes read a node, and the
 * order of the nodes. Adapters are put into a graph with it, and taken out of it.
 */
#include <string.h>

#include "graph/graph.h"

yoke_status
yki_graph_check_open(const yoke_graph *graph)
{
    YKI_TRY(yki_graph_status(graph));
    if (!graph->own_count)
        return YOKE_OK;
    return yki_fail(YOKE_ERROR_STATE, "the graph is compiled for a trainer or a replica and cannot "
                                      "change any more; change it before, or build another graph");
}

void
yki_graph_redirect(yoke_node *from, yoke_node *to, size_t count)
{
    yoke_graph *graph = from->graph;

    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->input_count; k++)
            if (graph->nodes[i]->inputs[k] == from)
                graph->nodes[i]->inputs[k] = to;
    for (size_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i].node == from)
            graph->outputs[i].node = to;
    for (size_t i = 0; i < graph->metric_count; i++)
        if (graph->metrics[i].node == from)
            graph->metrics[i].node = to;
    if (graph->loss == from)
        graph->loss = to;
}

yoke_status
yki_graph_reorder(yoke_graph *graph, yoke_node *const *order, size_t count)
{
    bool *kept = yki_alloc(graph->node_count, sizeof *kept, "nodes of a graph");

    if (!kept)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        kept[order[i]->id] = true;
    for (size_t i = 0; i < graph->node_count; i++)
        if (!kept[i])
            yki_node_free(graph->nodes[i]);
    yki_free(kept);
    memcpy(graph->nodes, order, count * sizeof *order);
    graph->node_count = count;
    for (size_t i = 0; i < count; i++)
        graph->nodes[i]->id = (uint32_t)i;
    yki_names_renew(graph);
    return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * complete.c - adds the nodes of a graph that only a plan needs: gradients, and the loss and
 * the metrics summed over the batch.
 */
#include "plan/plan.h"

/* Sums pairs of value and count, (2) per sample, over the batch. A plain scalar counts as 1. */
static yoke_node *
summed(yoke_graph *graph, yoke_node *node)
{
    if (!node->op || !node->op->is_loss)
        node = yki_node1(graph, &yki_op_counted, node);
    return node ? yki_node1(graph, &yki_op_batch_sum, node) : NULL;
}

/* Adds the sums of the loss and of the metrics over the batch. */
static yoke_status
finish_graph(yoke_graph *graph)
{
    bool differentiated = graph->differentiated;
    uint32_t place = graph->place;

    YKI_TRY(yki_graph_status(graph));
    yki_graph_begin_compiling(graph);
    /* The new nodes belong to the forward section, even if gradients are there already. */
    graph->differentiated = false;
    /* All of them are on one device, that of the loss. */
    graph->place = graph->loss ? graph->loss->place : 0;
    if (graph->loss && !graph->loss_sum)
        graph->loss_sum = summed(graph, graph->loss);
    for (size_t i = 0; i < graph->metric_count; i++)
        if (!graph->metrics[i].sum)
            graph->metrics[i].sum = summed(graph, graph->metrics[i].node);
    graph->differentiated = differentiated;
    graph->place = place;
    yki_graph_end_compiling(graph);
    return yki_graph_status(graph);
}

yoke_status
yki_graph_complete(yoke_graph *graph, bool training)
{
    YKI_TRY(finish_graph(graph));
    if (!training)
        return YOKE_OK;
    return yki_graph_differentiate(graph, &yki_op_binary, &yki_op_ones, NULL, 0);
}

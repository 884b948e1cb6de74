/* SPDX-License-Identifier: Apache-2.0
 *
 * digest.c - a hash that identifies a graph: the nodes that its user made, with
 * names, shapes and attributes, and which of them are loss, outputs and metrics. The
 * same program gets the same hash on every host of one byte order, before and after
 * the graph is compiled.
 *
 * Initial values, what is frozen, and places are left out: they may differ between
 * runs of one model. The values of constants are part of it.
 */
#include <string.h>

#include "graph/graph.h"

static void
add_number(yki_hash *hash, int64_t number)
{
    unsigned char bytes[8];

    yki_put_little_endian(bytes, (uint64_t)number, sizeof bytes);
    yki_hash_add(hash, bytes, sizeof bytes);
}

static void
add_node(yki_hash *hash, const yoke_node *node)
{
    yki_hash_string(hash, node->name);
    yki_hash_string(hash, node->op ? node->op->name : "");
    add_number(hash, (int64_t)node->role);
    add_number(hash, (int64_t)node->type);
    add_number(hash, node->batched);
    add_number(hash, node->shape.rank);
    for (int32_t i = 0; i < node->shape.rank; i++)
        add_number(hash, node->shape.dim[i]);
    if (node->length)
        add_number(hash, node->length);
    add_number(hash, node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++)
        add_number(hash, node->inputs[i]->id);
    yki_hash_add(hash, node->attrs.bytes, sizeof node->attrs.bytes);
    if (yki_is_constant(node))
        yki_hash_add(hash, node->data, (size_t)yki_shape_count(node->shape) * sizeof(float));
    add_number(hash, node->next ? (int64_t)node->next->id : -1);
}

void
yki_graph_hash(const yoke_graph *graph, yki_hash *hash)
{
    size_t count = yki_graph_own_count(graph);

    yki_hash_start(hash);
    add_number(hash, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        add_node(hash, graph->nodes[i]);
    add_number(hash, graph->loss ? (int64_t)graph->loss->id : -1);
    add_number(hash, (int64_t)graph->output_count);
    for (size_t i = 0; i < graph->output_count; i++) {
        yki_hash_string(hash, graph->outputs[i].name);
        add_number(hash, graph->outputs[i].node->id);
    }
    add_number(hash, (int64_t)graph->metric_count);
    for (size_t i = 0; i < graph->metric_count; i++) {
        yki_hash_string(hash, graph->metrics[i].name);
        add_number(hash, graph->metrics[i].node->id);
    }
}

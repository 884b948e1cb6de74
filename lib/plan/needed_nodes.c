/* SPDX-License-Identifier: Apache-2.0
 *
 * needed_nodes.c - which nodes of a graph a plan has to deal with, and which values cross from
 * one member to another where nodes are placed.
 *
 * A node is live if a result depends on it. Results are outputs, the loss and the metrics
 * summed over the batch, and for training the gradients and the next states. Each node has one
 * member that computes it. Inputs and views are everywhere that they are
 * read, so they never cross. Any other value that other members read crosses once to each of
 * them.
 */
#include <string.h>

#include "plan/plan.h"

uint32_t
yki_effective(const yoke_node *node, bool training, const yki_op **op, yoke_node **inputs)
{
    *op = node->op;
    if (!training && node->op && node->op->evaluation)
        return node->op->evaluation(node, op, inputs);
    memcpy(inputs, node->inputs, node->input_count * sizeof *inputs);
    return node->input_count;
}

static void
note_results(const yoke_graph *graph, bool training, yki_use *uses)
{
    for (size_t i = 0; i < graph->output_count; i++)
        uses[graph->outputs[i].node->id].result = true;
    if (graph->loss_sum)
        uses[graph->loss_sum->id].result = true;
    for (size_t i = 0; i < graph->metric_count; i++)
        uses[graph->metrics[i].sum->id].result = true;
    for (size_t i = 0; training && i < graph->node_count; i++) {
        const yoke_node *node = graph->nodes[i];

        if (node->next)
            uses[node->next->id].result = true;
        if (node->role == YKI_ROLE_INPUT && node->gradient)
            uses[node->gradient->id].result = true;
    }
}

/* Marks results, gradients of parameters, and all nodes that these are computed from. */
static void
mark_live(const yoke_graph *graph, bool training, yki_use *uses)
{
    for (size_t i = 0; i < graph->node_count; i++) {
        const yoke_node *gradient = graph->nodes[i]->gradient;

        uses[i].live |= uses[i].result;
        if (training && gradient && graph->nodes[i]->role == YKI_ROLE_PARAMETER)
            uses[gradient->id].live = true;
    }
    for (size_t i = graph->node_count; i-- > 0;) {
        yoke_node *inputs[YKI_MAX_INPUTS];
        const yki_op *op;
        uint32_t count;

        if (!uses[i].live)
            continue;
        count = yki_effective(graph->nodes[i], training, &op, inputs);
        for (uint32_t k = 0; k < count; k++)
            uses[inputs[k]->id].live = true;
    }
}

/* Returns whether a node costs nothing to have on several members: the host gives it, or it is the
 * bytes of an input. */
static bool
is_everywhere(const yoke_node *node, bool training)
{
    yoke_node *inputs[YKI_MAX_INPUTS];
    const yki_op *op;

    if (!node->op)
        return node->role == YKI_ROLE_INPUT;
    (void)yki_effective(node, training, &op, inputs);
    return !op || op->is_view;
}

uint32_t
yki_home_of(const yki_placed *placed, const yoke_node *node)
{
    return placed->homes[node->id];
}

/* Goes from the last node to the first: a node that this member computes needs its inputs here. */
static void
mark_own(const yoke_graph *graph, bool training, const yki_placed *placed, uint32_t home,
         yki_use *uses)
{
    for (size_t i = 0; i < graph->node_count; i++) {
        const yoke_node *node = graph->nodes[i];

        if (training && node->role == YKI_ROLE_PARAMETER && node->gradient &&
            yki_home_of(placed, node) == home)
            uses[node->gradient->id].needed = true;
    }
    for (size_t i = graph->node_count; i-- > 0;) {
        const yoke_node *node = graph->nodes[i];
        bool here = yki_home_of(placed, node) == home;
        yoke_node *inputs[YKI_MAX_INPUTS];
        const yki_op *op;
        uint32_t count;

        if (!uses[i].live)
            continue;
        uses[i].own =
            is_everywhere(node, training) ? uses[i].needed || (uses[i].result && here) : here;
        uses[i].import = uses[i].needed && !uses[i].own;
        uses[i].result &= here;
        if (!uses[i].own)
            continue;
        count = yki_effective(node, training, &op, inputs);
        for (uint32_t k = 0; k < count; k++)
            uses[inputs[k]->id].needed = true;
    }
}

void
yki_find_uses(const yoke_graph *graph, bool training, const yki_placed *placed, uint32_t home,
              yki_use *uses)
{
    memset(uses, 0, graph->node_count * sizeof *uses);
    note_results(graph, training, uses);
    mark_live(graph, training, uses);
    if (placed)
        mark_own(graph, training, placed, home, uses);
    for (size_t i = 0; !placed && i < graph->node_count; i++)
        uses[i].own = uses[i].live;
}

/* ---- crossings ---- */

/* Finds the nodes that each member reads from another: a row of flags for each member. */
static yoke_status
find_imports(const yoke_graph *graph, bool training, const yki_placed *placed, bool *imports)
{
    yki_use *uses = yki_alloc(graph->node_count, sizeof *uses, "crossings");

    if (!uses)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < placed->members; k++) {
        yki_find_uses(graph, training, placed, k, uses);
        for (size_t i = 0; i < graph->node_count; i++)
            imports[k * graph->node_count + i] = uses[i].import;
    }
    yki_free(uses);
    return YOKE_OK;
}

yoke_status
yki_find_crossings(const yoke_graph *graph, bool training, const yki_placed *placed,
                   yki_crossings *found)
{
    size_t nodes = graph->node_count;
    bool *imports = yki_alloc(nodes * placed->members, sizeof *imports, "crossings");
    yoke_status status = imports ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK)
        status = find_imports(graph, training, placed, imports);
    for (size_t i = 0; i < nodes && status == YOKE_OK; i++) {
        const yoke_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < placed->members && status == YOKE_OK; k++) {
            if (!imports[k * nodes + i])
                continue;
            status = yki_grow((void **)&found->list, &found->capacity, found->count + 1,
                              sizeof *found->list, "crossings");
            if (status == YOKE_OK)
                found->list[found->count++] =
                    (yki_crossing){.node = node, .from = yki_home_of(placed, node), .to = k};
        }
    }
    yki_free(imports);
    return status;
}

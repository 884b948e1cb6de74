/* SPDX-License-Identifier: Apache-2.0
 *
 * gradient.c - reverse-mode differentiation: appends the nodes of backward.
 *
 * It walks the nodes backward from the loss. Each operator's `gradient` takes the
 * gradient by the operator's result and adds nodes for the gradients by its inputs.
 * A node with several readers gets the sum of their gradients, added in the order
 * of the walk, which depends on the graph alone. All gradients are sums over
 * samples; they are divided by the count after the reduction over devices.
 *
 * An operator's gradients are made in the place of that operator. The sum of two
 * gradients is made in their place if both have the same, else in the place of the
 * node that they belong to.
 */
#include <string.h>

#include "graph/graph.h"

/* Marks the nodes whose gradient is needed: those that depend on a parameter that is not frozen,
 * or on a node in `also`. */
static void
mark_wanted(const yoke_graph *graph, size_t count, yoke_node *const *also, size_t also_count,
            bool *wanted)
{
    for (size_t i = 0; i < count; i++) {
        const yoke_node *node = graph->nodes[i];

        if (node->role == YKI_ROLE_PARAMETER)
            wanted[i] = !node->frozen;
        for (size_t k = 0; k < also_count; k++)
            wanted[i] |= also[k] == node;
        for (uint32_t k = 0; k < node->input_count; k++)
            wanted[i] |= wanted[node->inputs[k]->id];
    }
}

/* Adds `part`, the gradient through one reader, to the gradient of `node`. */
static yoke_status
accumulate(yoke_graph *graph, const yki_op *add, const yoke_node *node, yoke_node **gradient,
           yoke_node *part)
{
    if (!part)
        return yki_graph_status(graph); /* NULL without an error: there is no such gradient */
    graph->place = *gradient && (*gradient)->place == part->place ? part->place : node->place;
    *gradient = *gradient ? yki_node2(graph, add, *gradient, part) : part;
    return yki_graph_status(graph);
}

static yoke_status
walk(yoke_graph *graph, const yki_op *add, const yoke_node *start, size_t count, const bool *wanted,
     yoke_node **gradients)
{
    yoke_status status;

    for (size_t i = count; i-- > 0;) {
        yoke_node *node = graph->nodes[i], *dx[YKI_MAX_INPUTS] = {0};
        bool want[YKI_MAX_INPUTS] = {0};
        /* The walk starts at a loss operator, whose gradient needs no dy. */
        bool starts = node == start && node->op && node->op->is_loss;

        if (!node->op || !node->op->gradient || !wanted[i] || (!starts && !gradients[i]))
            continue;
        for (uint32_t k = 0; k < node->input_count; k++)
            want[k] = wanted[node->inputs[k]->id];
        graph->place = node->place;
        graph->origin = node;
        status = node->op->gradient(node, gradients[i], want, dx);
        graph->origin = NULL;
        if (status != YOKE_OK) {
            yki_graph_fail(graph, node->name, status);
            return yki_graph_status(graph);
        }
        for (uint32_t k = 0; k < node->input_count; k++)
            if (want[k])
                YKI_TRY(accumulate(graph, add, node->inputs[k], &gradients[node->inputs[k]->id],
                                   dx[k]));
    }
    return YOKE_OK;
}

yoke_status
yki_graph_differentiate_from(yoke_graph *graph, const yki_op *add, yoke_node *start,
                             yoke_node *seed, yoke_node *const *also, size_t also_count)
{
    size_t count = graph->node_count;
    bool *wanted = NULL;
    yoke_node **gradients = NULL;
    uint32_t place = graph->place;
    yoke_status status;

    wanted = yki_alloc(count, sizeof *wanted, "gradient marks");
    gradients = yki_alloc(count, sizeof *gradients, "gradients");
    if (!wanted || !gradients) {
        status = YOKE_ERROR_OUT_OF_MEMORY;
        goto done;
    }
    mark_wanted(graph, count, also, also_count, wanted);
    if (!wanted[start->id]) {
        status =
            yki_fail(YOKE_ERROR_STATE,
                     "\"%s\" depends on no parameter that is trained; must depend on at least one",
                     start->name);
        goto done;
    }
    gradients[start->id] = seed;
    status = walk(graph, add, start, count, wanted, gradients);
    if (status != YOKE_OK)
        goto done;
    for (size_t i = 0; i < count; i++)
        graph->nodes[i]->gradient = gradients[i];
done:
    graph->place = place;
    yki_free(wanted);
    yki_free(gradients);
    return status;
}

yoke_status
yki_graph_differentiate(yoke_graph *graph, const yki_op *add, const yki_op *ones,
                        yoke_node *const *also, size_t also_count)
{
    yoke_node *seed = NULL;
    yoke_status status;

    YKI_TRY(yki_graph_status(graph));
    if (graph->differentiated)
        return YOKE_OK;
    if (!graph->loss)
        return yki_fail(YOKE_ERROR_STATE, "the graph has no loss; call yoke_graph_set_loss before");
    yki_graph_begin_compiling(graph);
    graph->differentiated = true; /* nodes that are added from now on belong to backward */
    /* A scalar that is no loss operator starts with its gradient by itself: 1 for each sample. */
    if (!graph->loss->op || !graph->loss->op->is_loss) {
        uint32_t place = graph->place;

        graph->place = graph->loss->place;
        seed = yki_node1(graph, ones, graph->loss);
        graph->place = place;
    }
    status = yki_graph_status(graph);
    if (status == YOKE_OK)
        status = yki_graph_differentiate_from(graph, add, graph->loss, seed, also, also_count);
    yki_graph_end_compiling(graph);
    /* After a failure it may be tried again, for example with a parameter unfrozen. */
    graph->differentiated = status == YOKE_OK;
    return status;
}

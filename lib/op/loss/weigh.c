/* SPDX-License-Identifier: Apache-2.0
 *
 * weigh.c - gives weights or label smoothing to the loss of a graph that is already complete, such
 * as one that was read from a file. The loss stays the node that it was; weights are more inputs,
 * which come to stand before it.
 */
#include <string.h>

#include "op/ops.h"

/* The first `own` nodes are those that were there; those behind them come before the loss. */
static yoke_status
move_before(yoke_graph *g, const yoke_node *loss, size_t own)
{
    yoke_node **order = yki_alloc(g->node_count, sizeof *order, "nodes of a graph");
    const size_t added = g->node_count - own, at = loss->id;
    yoke_status status;

    if (!order)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memcpy(order, g->nodes, at * sizeof *order);
    memcpy(order + at, g->nodes + own, added * sizeof *order);
    memcpy(order + at + added, g->nodes + at, (own - at) * sizeof *order);
    status = yki_graph_reorder(g, order, g->node_count);
    yki_free(order);
    return status;
}

static yoke_status
add_class_weights(yoke_node *loss, const float *values, size_t count)
{
    char *name = yki_format("%s.class_weights", loss->name);

    if (!name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    loss->inputs[loss->input_count++] =
        yoke_constant(loss->graph, name, yoke_shape((int64_t)count), values);
    yki_free(name);
    return yki_graph_status(loss->graph);
}

/* A loss of rows has a weight for each. */
static yoke_status
add_weights(yoke_node *loss, const char *name)
{
    yoke_graph *g = loss->graph;
    const int64_t length = loss->length;
    yoke_node *node = yoke_target(g, name, YOKE_F32, length ? yoke_shape(length) : yoke_shape());

    loss->inputs[loss->input_count++] = length ? yoke_sequence(g, node) : node;
    return yki_graph_status(g);
}

static yoke_status
check(const yoke_graph *g, bool classes, bool weights)
{
    const yoke_node *loss = g->loss;
    yki_loss_attrs a;

    if (!loss || loss->op != &yki_op_loss)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        loss ? "the loss is %s; weights are for those of yoke_loss_options"
                             : "the graph has no loss%s; must have one",
                        loss ? loss->op->name : "");
    a = yki_loss_attrs_get(&loss->attrs);
    if (a.class_weights || a.weights)
        return yki_fail(YOKE_ERROR_STATE, "%s: the loss has weights already", loss->name);
    if (a.rows && (classes || weights))
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s: its classes are the last axis; must be the first, or the weights be "
                        "given in yoke_loss_options",
                        loss->name);
    if (classes && a.kind != YKI_LOSS_SOFTMAX_CE && a.kind != YKI_LOSS_CE)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s: only a cross-entropy of labels takes weights of classes", loss->name);
    return YOKE_OK;
}

/* After a failure the graph has an error, so that nothing is made of it. */
static yoke_status
weigh(yoke_graph *g, const float *class_weights, size_t count, const char *weights)
{
    yoke_node *loss = g->loss;
    yki_loss_attrs a = yki_loss_attrs_get(&loss->attrs);
    const size_t own = g->node_count;

    a.class_weights = class_weights != NULL;
    a.weights = weights != NULL;
    if (class_weights)
        YKI_TRY(add_class_weights(loss, class_weights, count));
    if (weights)
        YKI_TRY(add_weights(loss, weights));
    for (size_t i = own; i < g->node_count; i++)
        g->nodes[i]->place = loss->place;
    YKI_TRY(move_before(g, loss, own));
    yki_loss_attrs_set(&loss->attrs, &a);
    return loss->op->infer(loss);
}

yoke_status
yoke_graph_weigh_loss(yoke_graph *graph, const float *class_weights, size_t count,
                      const char *weights)
{
    yoke_status status;

    YKI_GIVEN("yoke_graph_weigh_loss", {"graph", graph});
    YKI_TRY(yki_graph_check_open(graph));
    YKI_TRY(check(graph, class_weights, weights));
    status = weigh(graph, class_weights, count, weights);
    if (status != YOKE_OK) {
        graph->loss->input_count = 2;
        yki_graph_fail(graph, graph->loss->name, status);
    }
    return yki_graph_status(graph);
}

yoke_status
yoke_graph_smooth_labels(yoke_graph *graph, float label_smoothing)
{
    const yoke_node *loss;
    yki_loss_attrs a;

    YKI_GIVEN("yoke_graph_smooth_labels", {"graph", graph});
    YKI_TRY(yki_graph_check_open(graph));
    if (!(label_smoothing >= 0 && label_smoothing < 1))
        return yki_fail_range_below(YOKE_ERROR_VALUE, "label_smoothing", (double)label_smoothing, 0,
                                    1);
    loss = graph->loss;
    if (!loss)
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "the graph has no loss; must have one");
    if (loss->op == &yki_op_loss)
        a = yki_loss_attrs_get(&loss->attrs);
    if (loss->op != &yki_op_loss || (a.kind != YKI_LOSS_SOFTMAX_CE && a.kind != YKI_LOSS_CE))
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s: only a cross-entropy of labels takes label_smoothing, and "
                        "yoke_linear_cross_entropy does not",
                        loss->name);
    a.label_smoothing = label_smoothing;
    yki_loss_attrs_set(&graph->loss->attrs, &a);
    return YOKE_OK;
}

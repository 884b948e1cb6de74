/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax.c - exp(x) over its sum along an axis of the sample, and the gradient,
 * computed from the result: y (dy - sum(dy y)).
 */
#include <stdio.h>

#include "op/ops.h"

static int32_t
axis_of(const yki_attrs *attrs)
{
    return yki_softmax_attrs_get(attrs).axis;
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "axis %d", axis_of(attrs));
}

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];
    int32_t axis = axis_of(&node->attrs);

    YKI_TRY(yki_check_f32("the input", x));
    if (axis < 0 || axis >= x->shape.rank)
        return yki_fail_axis("axis", axis, x);
    yki_node_like(node, x);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yoke_node *inputs[2] = {node, dy};

    if (wanted[0])
        dx[0] = yki_node(node->graph, &yki_op_softmax_grad, NULL, inputs, 2, &node->attrs,
                         sizeof node->attrs);
    return yki_graph_status(node->graph);
}

static double
flops(const yoke_node *node)
{
    return 5.0 * (double)yki_shape_count(node->shape);
}

static double
flops_grad(const yoke_node *node)
{
    return 4.0 * (double)yki_shape_count(node->shape);
}

const yki_op yki_op_softmax = {
    .name = "softmax",
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
};

const yki_op yki_op_softmax_grad = {
    .name = "softmax_grad",
    .infer = infer,
    .flops = flops_grad,
    .describe = describe,
};

yoke_node *
yoke_softmax(yoke_graph *graph, yoke_node *x, int32_t axis)
{
    yki_softmax_attrs attrs = {axis};

    return yki_node(graph, &yki_op_softmax, NULL, &x, 1, &attrs, sizeof attrs);
}

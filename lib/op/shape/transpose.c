/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose.c - the axes of the sample in another order: axis i of the result is axis
 * axes[i] of the input. The gradient is the inverse transposition.
 */
#include <stdio.h>

#include "op/ops.h"

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_transpose_attrs a = yki_transpose_attrs_get(attrs);
    size_t used = 0;

    text[0] = '\0';
    for (int32_t i = 0; i < a.rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", a.axes[i]);
}

static yoke_status
infer(yoke_node *node)
{
    const yki_transpose_attrs a = yki_transpose_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];
    uint32_t seen = 0;
    char what[32];

    yki_node_like(node, x);
    for (int32_t i = 0; i < a.rank; i++) {
        int32_t axis = a.axes[i];

        snprintf(what, sizeof what, "axes[%d]", i);
        if (axis < 0 || axis >= a.rank)
            return yki_fail_axis(what, axis, x);
        if (seen >> axis & 1)
            return yki_fail(YOKE_ERROR_SHAPE,
                            "%s is %d, as an entry before it; must name each axis once", what,
                            axis);
        seen |= 1u << axis;
        node->shape.dim[i] = x->shape.dim[axis];
    }
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    const yki_transpose_attrs a = yki_transpose_attrs_get(&node->attrs);
    int32_t inverse[YOKE_MAX_RANK] = {0};

    for (int32_t i = 0; i < a.rank; i++)
        inverse[a.axes[i]] = i;
    if (wanted[0])
        dx[0] = yoke_transpose(node->graph, dy, inverse);
    return yki_graph_status(node->graph);
}

const yki_op yki_op_transpose = {
    .name = "transpose",
    .infer = infer,
    .gradient = gradient,
    .describe = describe,
};

yoke_node *
yoke_transpose(yoke_graph *graph, yoke_node *x, const int32_t *axes)
{
    yki_transpose_attrs attrs = {0};

    if (x) {
        attrs.rank = x->shape.rank;
        for (int32_t i = 0; i < attrs.rank; i++)
            attrs.axes[i] = axes ? axes[i] : attrs.rank - 1 - i;
    }
    return yki_node(graph, &yki_op_transpose, NULL, &x, 1, &attrs, sizeof attrs);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * slice.c - a range of an axis of the sample, and unslice, which puts a range back
 * into zeros. Each is the other's gradient.
 */
#include <stdio.h>

#include "op/ops.h"

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_slice_attrs a = yki_slice_attrs_get(attrs);

    snprintf(text, size, "axis %d %lld:%lld of %lld", a.axis, (long long)a.begin, (long long)a.end,
             (long long)a.size);
}

static yoke_status
infer(yoke_node *node)
{
    const yki_slice_attrs a = yki_slice_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];

    if (a.axis < 0 || a.axis >= x->shape.rank)
        return yki_fail_axis("axis", a.axis, x);
    if (a.end < 1 || a.end > a.size)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "end is %lld; must be between 1 and %lld, the size of axis %d of \"%s\"",
                        (long long)a.end, (long long)a.size, a.axis, x->name);
    if (a.begin < 0 || a.begin >= a.end)
        return yki_fail(YOKE_ERROR_SHAPE, "begin is %lld; must be at least 0 and below end, %lld",
                        (long long)a.begin, (long long)a.end);
    yki_node_like(node, x);
    node->shape.dim[a.axis] = node->op == &yki_op_slice ? a.end - a.begin : a.size;
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    const yki_op *other = node->op == &yki_op_slice ? &yki_op_unslice : &yki_op_slice;

    if (wanted[0])
        dx[0] = yki_node(node->graph, other, NULL, &dy, 1, &node->attrs, sizeof node->attrs);
    return yki_graph_status(node->graph);
}

const yki_op yki_op_slice = {
    .name = "slice",
    .infer = infer,
    .gradient = gradient,
    .describe = describe,
};

const yki_op yki_op_unslice = {
    .name = "unslice",
    .infer = infer,
    .gradient = gradient,
    .describe = describe,
};

yoke_node *
yoke_slice(yoke_graph *graph, yoke_node *x, int32_t axis, int64_t begin, int64_t end)
{
    yki_slice_attrs attrs = {axis, 0, begin, end, 0};

    if (x && axis >= 0 && axis < x->shape.rank)
        attrs.size = x->shape.dim[axis];
    return yki_node(graph, &yki_op_slice, NULL, &x, 1, &attrs, sizeof attrs);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce.c - sum and mean over axes of the sample, and the gradient, which spreads
 * over all elements that were summed.
 */
#include <stdio.h>

#include "op/ops.h"

static const char *
called(const yki_attrs *attrs)
{
    return yki_reduce_attrs_get(attrs).mean ? "mean" : "sum";
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "%s %x", yki_reduce_attrs_get(attrs).mean ? "mean" : "sum",
             yki_reduce_attrs_get(attrs).axes);
}

static int64_t
reduced_count(const yoke_node *x, uint32_t axes)
{
    int64_t count = 1;

    for (int32_t i = 0; i < x->shape.rank; i++)
        if (axes >> i & 1)
            count *= x->shape.dim[i];
    return count;
}

static yoke_status
infer(yoke_node *node)
{
    const yki_reduce_attrs attrs = yki_reduce_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];

    YKI_TRY(yki_check_f32("the input", x));
    node->type = YOKE_F32;
    node->batched = x->batched;
    node->shape = attrs.shape;
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yoke_graph *graph = node->graph;
    const yki_reduce_attrs attrs = yki_reduce_attrs_get(&node->attrs);
    yoke_node *x = node->inputs[0], *ones, *spread;
    yki_binary_attrs mul = {YKI_BINARY_MUL};
    yoke_shape kept = x->shape;

    if (!wanted[0])
        return YOKE_OK;
    for (int32_t i = 0; i < kept.rank; i++)
        if (attrs.axes >> i & 1)
            kept.dim[i] = 1;
    spread = yoke_reshape(graph, dy, kept);
    if (attrs.mean && spread)
        spread = yoke_scale(graph, spread, 1.f / (float)reduced_count(x, attrs.axes), 0);
    ones = yki_node1(graph, &yki_op_ones, x);
    if (spread && ones) {
        yoke_node *factors[2] = {ones, spread};

        dx[0] = yki_node(graph, &yki_op_binary, NULL, factors, 2, &mul, sizeof mul);
    }
    return yki_graph_status(graph);
}

static double
flops(const yoke_node *node)
{
    return (double)yki_shape_count(node->inputs[0]->shape);
}

const yki_op yki_op_reduce = {
    .name = "reduce",
    .called = called,
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
};

yoke_node *
yki_reduce(yoke_graph *graph, yoke_node *x, uint32_t axes, bool mean, yoke_shape shape)
{
    yki_reduce_attrs attrs = {axes, mean, shape};
    char *name = yki_layer_name(graph, NULL, mean ? "mean" : "sum");
    yoke_node *node = yki_node(graph, &yki_op_reduce, name, &x, 1, &attrs, sizeof attrs);

    yki_free(name);
    return node;
}

/* Checks entry i of a list of axes; `seen` has a bit for each axis that came before. */
static yoke_status
check_axis(const yoke_node *x, const int32_t *axes, int32_t i, uint32_t seen)
{
    char what[32];

    if (!axes)
        return yki_fail(YOKE_ERROR_SHAPE, "axes is NULL; must have as many entries as count says");
    snprintf(what, sizeof what, "axes[%d]", i);
    if (axes[i] < 0 || axes[i] >= x->shape.rank)
        return yki_fail_axis(what, axes[i], x);
    if (seen >> axes[i] & 1)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "%s is %d, as an entry before it; must name each axis once", what, axes[i]);
    return YOKE_OK;
}

static yoke_node *
over_axes(yoke_graph *graph, yoke_node *x, const int32_t *axes, int32_t count, bool mean)
{
    const char *kind = mean ? "mean" : "sum";
    yoke_shape shape = {0};
    uint32_t mask = 0;

    if (!graph || !x)
        return NULL;
    if (count < 0) {
        yki_graph_fail(
            graph, kind,
            yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "count", count, 0, YOKE_MAX_RANK - 1));
        return NULL;
    }
    for (int32_t i = 0; i < count; i++) {
        yoke_status status = check_axis(x, axes, i, mask);

        if (status != YOKE_OK) {
            yki_graph_fail(graph, kind, status);
            return NULL;
        }
        mask |= 1u << axes[i];
    }
    if (count == 0) /* no axes given: all */
        mask = (1u << x->shape.rank) - 1;
    for (int32_t i = 0; i < x->shape.rank; i++)
        if (!(mask >> i & 1))
            shape.dim[shape.rank++] = x->shape.dim[i];
    return yki_reduce(graph, x, mask, mean, shape);
}

yoke_node *
yoke_sum(yoke_graph *graph, yoke_node *x, const int32_t *axes, int32_t count)
{
    return over_axes(graph, x, axes, count, false);
}

yoke_node *
yoke_mean(yoke_graph *graph, yoke_node *x, const int32_t *axes, int32_t count)
{
    return over_axes(graph, x, axes, count, true);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * unary.c - functions of one element: activations and scale. The rules for shape
 * and gradient; how it is computed is in unary_solver.c.
 *
 * One operator with a kind, not seven: they share everything but one line of
 * kernel. The gradient reads the result where that suffices (relu, sigmoid, ...),
 * so that the argument's memory can be given up early, else the argument.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

static const struct {
    const char *name;
    bool from_result; /* the gradient needs y, not x */
    double flops;
} kinds[YKI_UNARY_KINDS] = {
    [YKI_UNARY_RELU] = {"relu", true, 1},       [YKI_UNARY_LEAKY_RELU] = {"leaky_relu", true, 2},
    [YKI_UNARY_SIGMOID] = {"sigmoid", true, 4}, [YKI_UNARY_TANH] = {"tanh", true, 8},
    [YKI_UNARY_GELU] = {"gelu", false, 12},     [YKI_UNARY_SILU] = {"silu", false, 5},
    [YKI_UNARY_SCALE] = {"scale", false, 2},
};

static const yki_unary_attrs *
attrs_of(const yki_attrs *attrs)
{
    return (const yki_unary_attrs *)attrs->bytes;
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_unary_attrs *a = attrs_of(attrs);

    snprintf(text, size, "%s %.9g %.9g", kinds[a->kind].name, (double)a->a, (double)a->b);
}

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];

    if (x->type != YOKE_F32)
        return yki_fail(YOKE_ERROR_TYPE, "the input %s is not float32", x->name);
    node->type = YOKE_F32;
    node->shape = x->shape;
    node->batched = x->batched;
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    const yki_unary_attrs *a = attrs_of(&node->attrs);
    yoke_node *inputs[2] = {kinds[a->kind].from_result ? node : node->inputs[0], dy};

    if (!wanted[0])
        return YOKE_OK;
    if (a->kind == YKI_UNARY_SCALE) {
        yki_unary_attrs factor = {YKI_UNARY_SCALE, a->a, 0};

        dx[0] = yki_node(node->graph, &yki_op_unary, NULL, &dy, 1, &factor, sizeof factor);
        return YOKE_OK;
    }
    dx[0] = yki_node(node->graph, &yki_op_unary_grad, NULL, inputs, 2, a, sizeof *a);
    return YOKE_OK;
}

static double
flops(const yoke_node *node)
{
    return kinds[attrs_of(&node->attrs)->kind].flops * (double)yki_shape_count(node->shape);
}

const yki_op yki_op_unary = {
    .name = "unary",
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
    .in_place = 1,
    .cheap = true,
};

const yki_op yki_op_unary_grad = {
    .name = "unary_grad",
    .infer = infer,
    .flops = flops,
    .describe = describe,
    .in_place = 2, /* over dy */
};

static yoke_node *
unary(yoke_graph *graph, yoke_node *x, yki_unary_kind kind, float a, float b)
{
    yki_unary_attrs attrs = {(int32_t)kind, a, b};
    char *name = yki_layer_name(graph, NULL, kinds[kind].name);
    yoke_node *node;

    if (name && (!isfinite(a) || !isfinite(b)))
        yki_graph_fail(graph, name,
                       yki_fail(YOKE_ERROR_VALUE, "one of its numbers is %g; must be finite",
                                (double)(isfinite(a) ? b : a)));
    node = yki_node(graph, &yki_op_unary, name, &x, 1, &attrs, sizeof attrs);

    yki_free(name);
    return node;
}

yoke_node *
yoke_relu(yoke_graph *graph, yoke_node *x)
{
    return unary(graph, x, YKI_UNARY_RELU, 0, 0);
}

yoke_node *
yoke_leaky_relu(yoke_graph *graph, yoke_node *x, float slope)
{
    /* The gradient looks at the result's sign. */
    if (graph && graph->status == YOKE_OK && !(slope >= 0)) {
        yki_fail_range_real(YOKE_ERROR_VALUE, "slope", (double)slope, 0, FLT_MAX);
        yki_graph_fail(graph, "leaky_relu", YOKE_ERROR_VALUE);
    }
    return unary(graph, x, YKI_UNARY_LEAKY_RELU, slope, 0);
}

yoke_node *
yoke_gelu(yoke_graph *graph, yoke_node *x)
{
    return unary(graph, x, YKI_UNARY_GELU, 0, 0);
}

yoke_node *
yoke_silu(yoke_graph *graph, yoke_node *x)
{
    return unary(graph, x, YKI_UNARY_SILU, 0, 0);
}

yoke_node *
yoke_sigmoid(yoke_graph *graph, yoke_node *x)
{
    return unary(graph, x, YKI_UNARY_SIGMOID, 0, 0);
}

yoke_node *
yoke_tanh(yoke_graph *graph, yoke_node *x)
{
    return unary(graph, x, YKI_UNARY_TANH, 0, 0);
}

yoke_node *
yoke_scale(yoke_graph *graph, yoke_node *x, float factor, float offset)
{
    return unary(graph, x, YKI_UNARY_SCALE, factor, offset);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * unary.c - functions of one element: activations, powers and scale. This file has the rules
 * for shape and gradient; unary_solver.c computes them.
 *
 * One operator with a kind, not one operator for each: they share everything but one line of
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
    const char *number; /* what `a` is called; NULL: it has none of its own */
} kinds[YKI_UNARY_KINDS] = {[YKI_UNARY_SCALE] = {"scale", false, 2, NULL},
#define PLAIN(kind, id, name, from_result, flops)                                                  \
    [YKI_UNARY_##kind] = {#name, from_result, flops, NULL},
#define NUMBER(kind, id, name, from_result, flops, number)                                         \
    [YKI_UNARY_##kind] = {#name, from_result, flops, #number},
                            YKI_UNARY_PLAIN(PLAIN) YKI_UNARY_NUMBER(NUMBER)
#undef PLAIN
#undef NUMBER
};

static const char *
called(const yki_attrs *attrs)
{
    return kinds[yki_unary_attrs_get(attrs).kind].name;
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_unary_attrs a = yki_unary_attrs_get(attrs);

    snprintf(text, size, "%s %.9g %.9g", kinds[a.kind].name, (double)a.a, (double)a.b);
}

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];

    YKI_TRY(yki_check_f32("the input", x));
    yki_node_like(node, x);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    const yki_unary_attrs a = yki_unary_attrs_get(&node->attrs);
    yoke_node *inputs[2] = {kinds[a.kind].from_result ? node : node->inputs[0], dy};

    if (!wanted[0])
        return YOKE_OK;
    if (a.kind == YKI_UNARY_SCALE) {
        yki_unary_attrs factor = {YKI_UNARY_SCALE, a.a, 0};

        dx[0] = yki_node(node->graph, &yki_op_unary, NULL, &dy, 1, &factor, sizeof factor);
        return YOKE_OK;
    }
    dx[0] = yki_node(node->graph, &yki_op_unary_grad, NULL, inputs, 2, &a, sizeof a);
    return YOKE_OK;
}

static double
flops(const yoke_node *node)
{
    return kinds[yki_unary_attrs_get(&node->attrs).kind].flops *
           (double)yki_shape_count(node->shape);
}

const yki_op yki_op_unary = {
    .name = "unary",
    .called = called,
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
    .in_place = 6, /* dx may overwrite dy, or a term of it */
};

yoke_node *
yki_unary(yoke_graph *graph, yoke_node *x, yki_unary_kind kind, float a, float b)
{
    yki_unary_attrs attrs = {(int32_t)kind, a, b};
    char *name = yki_layer_name(graph, NULL, kinds[kind].name);
    yoke_node *node;

    if (name && kinds[kind].number && kinds[kind].from_result && !(a >= 0))
        yki_graph_fail(
            graph, name,
            yki_fail_range_real(YOKE_ERROR_VALUE, kinds[kind].number, (double)a, 0, FLT_MAX));
    else if (name && (!isfinite(a) || !isfinite(b)))
        yki_graph_fail(graph, name,
                       yki_fail(YOKE_ERROR_VALUE, "one of its numbers is %g; must be finite",
                                (double)(isfinite(a) ? b : a)));
    node = yki_node(graph, &yki_op_unary, name, &x, 1, &attrs, sizeof attrs);

    yki_free(name);
    return node;
}

#define PLAIN(kind, id, name, ...)                                                                 \
    yoke_node *yoke_##name(yoke_graph *graph, yoke_node *x)                                        \
    {                                                                                              \
        return yki_unary(graph, x, YKI_UNARY_##kind, 0, 0);                                        \
    }
YKI_UNARY_PLAIN(PLAIN)

#define NUMBER(kind, id, name, from_result, flops, number)                                         \
    yoke_node *yoke_##name(yoke_graph *graph, yoke_node *x, float number)                          \
    {                                                                                              \
        return yki_unary(graph, x, YKI_UNARY_##kind, number, 0);                                   \
    }
YKI_UNARY_NUMBER(NUMBER)

yoke_node *
yoke_scale(yoke_graph *graph, yoke_node *x, float factor, float offset)
{
    return yki_unary(graph, x, YKI_UNARY_SCALE, factor, offset);
}

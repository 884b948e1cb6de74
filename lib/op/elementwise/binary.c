/* SPDX-License-Identifier: Apache-2.0
 *
 * binary.c - functions of two elements, with numpy's broadcasting. An operand that is not
 * batched serves every sample.
 */
#include <stdio.h>

#include "op/ops.h"

static const char *const names[YKI_BINARY_KINDS] = {
#define NAME(kind, id, name) [YKI_BINARY_##kind] = #name,
    YKI_BINARY(NAME) NAME(AT_LEAST, 6, at_least)
#undef NAME
};

static int32_t
kind_of(const yki_attrs *attrs)
{
    return yki_binary_attrs_get(attrs).kind;
}

static const char *
called(const yki_attrs *attrs)
{
    return names[kind_of(attrs)];
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "%s", names[kind_of(attrs)]);
}

/* Whether `b` has a row for each row of the sequence `a`: (length, the shape of a row). */
static bool
has_positions(const yoke_node *a, const yoke_node *b)
{
    return a->length && !b->batched && yki_shape_equal(yki_whole_shape(a), b->shape);
}

/* A parameter of more axes than a row has must have all of them. */
static yoke_status
check_positions(const yoke_node *a, const yoke_node *b)
{
    char text[128];

    if (!a->length || b->batched || b->shape.rank <= a->shape.rank)
        return YOKE_OK;
    return yki_fail_shape("the input", b, yki_shape_text(yki_whole_shape(a), text, sizeof text));
}

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *a = node->inputs[0], *b = node->inputs[1];
    char left[128], right[128];

    for (int i = 0; i < 2; i++)
        if (has_positions(node->inputs[i], node->inputs[1 - i])) {
            YKI_TRY(yki_check_f32("the input", a));
            YKI_TRY(yki_check_f32("the input", b));
            yki_node_like(node, node->inputs[i]);
            return YOKE_OK;
        }
    YKI_TRY(check_positions(a, b));
    YKI_TRY(check_positions(b, a));

    YKI_TRY(yki_check_f32("the input", a));
    YKI_TRY(yki_check_f32("the input", b));
    if (!yki_shape_broadcast(a->shape, b->shape, &node->shape))
        return yki_fail(YOKE_ERROR_SHAPE,
                        "\"%s\" has shape %s, \"%s\" has shape %s; from the last axis on, sizes "
                        "must be equal or one of them 1",
                        a->name, yki_shape_text(a->shape, left, sizeof left), b->name,
                        yki_shape_text(b->shape, right, sizeof right));
    node->type = YOKE_F32;
    node->batched = a->batched || b->batched;
    return YOKE_OK;
}

/* Sums a gradient to the shape that an operand had before it was broadcast. */
static yoke_node *
sum_to(yoke_node *gradient, const yoke_node *operand)
{
    yoke_graph *graph = gradient->graph;
    uint32_t axes = 0;
    int32_t extra = gradient->shape.rank - operand->shape.rank;

    if (has_positions(gradient, operand))
        return yki_node1(graph, &yki_op_position_sum, gradient);
    if (gradient->batched && !operand->batched)
        gradient = yki_node1(graph, &yki_op_batch_sum, gradient);
    for (int32_t i = 0; gradient && i < gradient->shape.rank; i++)
        if (i < extra || (operand->shape.dim[i - extra] == 1 && gradient->shape.dim[i] != 1))
            axes |= 1u << i;
    if (axes)
        gradient = yki_reduce(graph, gradient, axes, false, operand->shape);
    return gradient;
}

static yoke_node *
make(yoke_node *a, yoke_node *b, yki_binary_kind kind)
{
    yki_binary_attrs attrs = {(int32_t)kind};
    yoke_node *inputs[2] = {a, b};

    return a && b ? yki_node(a->graph, &yki_op_binary, NULL, inputs, 2, &attrs, sizeof attrs)
                  : NULL;
}

/* What the gradients by both operands are made of, if anything. Of equal elements the first
 * operand's is the maximum, or the minimum. */
static yoke_node *
common(yoke_node *node, yoke_node *dy)
{
    yoke_node *const *in = node->inputs;

    switch ((yki_binary_kind)kind_of(&node->attrs)) {
    case YKI_BINARY_DIV:
        return make(dy, in[1], YKI_BINARY_DIV);
    case YKI_BINARY_MAXIMUM:
        return make(in[0], in[1], YKI_BINARY_AT_LEAST);
    case YKI_BINARY_MINIMUM:
        return make(in[1], in[0], YKI_BINARY_AT_LEAST);
    default:
        return dy;
    }
}

/* The gradient by one operand, before it is summed to the operand's shape. */
static yoke_node *
part(yoke_node *node, yoke_node *dy, yoke_node *both, int operand)
{
    yoke_graph *graph = node->graph;

    switch ((yki_binary_kind)kind_of(&node->attrs)) {
    case YKI_BINARY_SUB:
        return operand ? yoke_scale(graph, dy, -1, 0) : dy;
    case YKI_BINARY_MUL:
        return make(dy, node->inputs[!operand], YKI_BINARY_MUL);
    case YKI_BINARY_DIV:
        return operand ? yoke_scale(graph, make(both, node, YKI_BINARY_MUL), -1, 0) : both;
    case YKI_BINARY_MAXIMUM:
    case YKI_BINARY_MINIMUM:
        return make(dy, operand ? yoke_scale(graph, both, -1, 1) : both, YKI_BINARY_MUL);
    default:
        return dy;
    }
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yoke_node *both = wanted[0] || wanted[1] ? common(node, dy) : NULL;

    for (int i = 0; i < 2; i++) {
        yoke_node *of = both && wanted[i] ? part(node, dy, both, i) : NULL;

        if (of)
            dx[i] = sum_to(of, node->inputs[i]);
    }
    return yki_graph_status(node->graph);
}

static double
flops(const yoke_node *node)
{
    return (double)yki_shape_count(node->shape);
}

const yki_op yki_op_binary = {
    .name = "binary",
    .called = called,
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
    .in_place = 3,
    .cheap = true,
};

static yoke_node *
binary(yoke_graph *graph, yoke_node *a, yoke_node *b, yki_binary_kind kind)
{
    yki_binary_attrs attrs = {(int32_t)kind};
    yoke_node *inputs[2] = {a, b};
    char *name = yki_layer_name(graph, NULL, names[kind]);
    yoke_node *node = yki_node(graph, &yki_op_binary, name, inputs, 2, &attrs, sizeof attrs);

    yki_free(name);
    return node;
}

#define FUNCTION(kind, id, name)                                                                   \
    yoke_node *yoke_##name(yoke_graph *graph, yoke_node *a, yoke_node *b)                          \
    {                                                                                              \
        return binary(graph, a, b, YKI_BINARY_##kind);                                             \
    }
YKI_BINARY(FUNCTION)

/* SPDX-License-Identifier: Apache-2.0
 *
 * binary.c - add, sub and mul with numpy's broadcasting. An operand that is not
 * batched serves every sample.
 */
#include <stdio.h>

#include "op/ops.h"

static const char *const names[YKI_BINARY_KINDS] = {"add", "sub", "mul"};

static int32_t
kind_of(const yki_attrs *attrs)
{
    return yki_binary_attrs_get(attrs).kind;
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

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yoke_graph *graph = node->graph;
    int32_t kind = kind_of(&node->attrs);
    yki_binary_attrs mul = {YKI_BINARY_MUL};

    for (int i = 0; i < 2; i++) {
        yoke_node *part = dy, *factors[2] = {dy, node->inputs[1 - i]};

        if (!wanted[i])
            continue;
        if (kind == YKI_BINARY_MUL)
            part = yki_node(graph, &yki_op_binary, NULL, factors, 2, &mul, sizeof mul);
        else if (kind == YKI_BINARY_SUB && i == 1)
            part = yoke_scale(graph, dy, -1, 0);
        if (part)
            dx[i] = sum_to(part, node->inputs[i]);
    }
    return yki_graph_status(graph);
}

static double
flops(const yoke_node *node)
{
    return (double)yki_shape_count(node->shape);
}

const yki_op yki_op_binary = {
    .name = "binary",
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

yoke_node *
yoke_add(yoke_graph *graph, yoke_node *a, yoke_node *b)
{
    return binary(graph, a, b, YKI_BINARY_ADD);
}

yoke_node *
yoke_sub(yoke_graph *graph, yoke_node *a, yoke_node *b)
{
    return binary(graph, a, b, YKI_BINARY_SUB);
}

yoke_node *
yoke_mul(yoke_graph *graph, yoke_node *a, yoke_node *b)
{
    return binary(graph, a, b, YKI_BINARY_MUL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * concat.c - inputs one after the other along an axis of the sample.
 *
 * An input that is not batched serves every sample, as with binary operators (a class
 * token before the patches of an image). If there are more inputs than a node can
 * have, they are first joined in groups.
 */
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

static int32_t
axis_of(const yki_attrs *attrs)
{
    return yki_concat_attrs_get(attrs).axis;
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "axis %d", axis_of(attrs));
}

/* Whether an input fits the first one: all sizes but that of the axis must be equal. */
static bool
fits(yoke_shape part, yoke_shape first, int32_t axis)
{
    if (part.rank != first.rank)
        return false;
    for (int32_t i = 0; i < part.rank; i++)
        if (i != axis && part.dim[i] != first.dim[i])
            return false;
    return true;
}

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *first = node->inputs[0];
    int32_t axis = axis_of(&node->attrs);
    char left[128], right[128];
    int64_t size = 0;

    if (axis < 0 || axis >= first->shape.rank)
        return yki_fail_axis("axis", axis, first);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const yoke_node *part = node->inputs[i];

        if (part->type != first->type)
            return yki_fail(YOKE_ERROR_TYPE, "\"%s\" has type %s; must be %s, the type of \"%s\"",
                            part->name, yki_value_type_name(part->type),
                            yki_value_type_name(first->type), first->name);
        if (!fits(part->shape, first->shape, axis))
            return yki_fail(
                YOKE_ERROR_SHAPE,
                "\"%s\" has shape %s; must be %s, the shape of \"%s\", in all axes but axis %d",
                part->name, yki_shape_text(part->shape, right, sizeof right),
                yki_shape_text(first->shape, left, sizeof left), first->name, axis);
        size += part->shape.dim[axis];
        node->batched |= part->batched;
    }
    if (size > INT32_MAX)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "the size of axis %d of the result is %lld; must be at most %d", axis,
                        (long long)size, INT32_MAX);
    node->type = first->type;
    node->shape = first->shape;
    node->shape.dim[axis] = size;
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yoke_graph *graph = node->graph;
    int32_t axis = axis_of(&node->attrs);
    int64_t begin = 0;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const yoke_node *part = node->inputs[i];
        int64_t size = part->shape.dim[axis];

        if (wanted[i]) {
            yoke_node *own = yoke_slice(graph, dy, axis, begin, begin + size);

            if (own && own->batched && !part->batched)
                own = yki_node1(graph, &yki_op_batch_sum, own);
            dx[i] = own;
        }
        begin += size;
    }
    return yki_graph_status(graph);
}

const yki_op yki_op_concat = {
    .name = "concat",
    .infer = infer,
    .gradient = gradient,
    .describe = describe,
};

static yoke_node *
join(yoke_graph *graph, yoke_node *const *parts, size_t count, int32_t axis)
{
    yki_concat_attrs attrs = {axis};

    if (count == 1 && parts[0])
        return parts[0];
    return yki_node(graph, &yki_op_concat, NULL, parts, (uint32_t)count, &attrs, sizeof attrs);
}

yoke_node *
yoke_concat(yoke_graph *graph, yoke_node *const *parts, size_t count, int32_t axis)
{
    yoke_node **left, *node;

    if (!graph || graph->status != YOKE_OK)
        return NULL;
    if (!parts || count == 0) {
        yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s; must be at least 1",
                 parts ? "the number of parts is 0" : "parts is NULL, which are 0");
        yki_graph_fail(graph, "concat", YOKE_ERROR_INVALID_ARGUMENT);
        return NULL;
    }
    if (parts[0] && (axis < 0 || axis >= parts[0]->shape.rank)) {
        yki_fail_axis("axis", axis, parts[0]);
        yki_graph_fail(graph, "concat", YOKE_ERROR_SHAPE);
        return NULL;
    }
    if (count <= YKI_MAX_INPUTS)
        return join(graph, parts, count, axis);
    left = yki_alloc(count, sizeof *left, "the parts of a concat");
    if (!left) {
        yki_graph_fail(graph, "concat", YOKE_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    memcpy(left, parts, count * sizeof *left);
    while (count > YKI_MAX_INPUTS) {
        size_t joined = 0;

        for (size_t i = 0; i < count; i += YKI_MAX_INPUTS)
            left[joined++] =
                join(graph, left + i, YKI_MIN(count - i, (size_t)YKI_MAX_INPUTS), axis);
        count = joined;
    }
    node = join(graph, left, count, axis);
    yki_free(left);
    return node;
}

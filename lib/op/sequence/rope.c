/* SPDX-License-Identifier: Apache-2.0
 *
 * rope.c - rotary positions on the queries and keys of packed rows, as attention takes
 * them. The gradient turns back.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

enum { MAX_POSITION = 1 << 24 };

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_rope_attrs a = yki_rope_attrs_get(attrs);

    snprintf(text, size, "h%d/%d w%d b%.9g%s%s", a.heads, a.shared, a.width, (double)a.base,
             a.interleaved ? " interleaved" : "", a.back ? " back" : "");
}

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0], *start = node->input_count > 1 ? node->inputs[1] : NULL;

    YKI_TRY(yki_check_f32("the input", x));
    if (start && start->type != YOKE_I32)
        return yki_fail_type("the start", start, "i32");
    if (start && (start->shape.rank != 0 || start->length))
        return yki_fail_shape("the start", start, "(), one number for each sample");
    if (start && start->batched && !x->batched)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "\"%s\" does not depend on the sample; must, as the start \"%s\" does",
                        x->name, start->name);
    if (start && !start->batched)
        return yki_fail(YOKE_ERROR_SHAPE, "the start \"%s\" does not depend on the sample; must",
                        start->name);
    yki_node_like(node, x);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yki_rope_attrs a = yki_rope_attrs_get(&node->attrs);
    yoke_node *inputs[2] = {dy, node->inputs[1]};

    a.back = !a.back;
    if (wanted[0])
        dx[0] = yki_node(node->graph, &yki_op_rope, NULL, inputs, node->input_count, &a, sizeof a);
    return yki_graph_status(node->graph);
}

static double
flops(const yoke_node *node)
{
    return 3 * (double)yki_shape_count(node->shape);
}

const yki_op yki_op_rope = {
    .name = "rope",
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
    .in_place = 1,
    .whole = true,
};

/* Fills the attributes; what is wrong with them is the graph's error. */
static yoke_status
read_options(const yoke_node *x, const yoke_rope_options *o, yki_rope_attrs *a)
{
    int32_t shared = o->shared, width;

    if (!(o->base == 0 || (o->base > 1 && o->base <= 1e12f)))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "base is %g; must be more than 1 and at most 1e+12", (double)o->base);
    YKI_TRY(yki_packed_heads(x, o->heads, &shared, true, &width));
    *a = (yki_rope_attrs){.heads = o->heads,
                          .shared = shared,
                          .width = width,
                          .interleaved = o->interleaved,
                          .base = o->base == 0 ? 10000 : o->base};
    return YOKE_OK;
}

yoke_node *
yoke_rope_sized(yoke_graph *graph, yoke_node *x, yoke_node *start, const yoke_rope_options *options,
                size_t size)
{
    yoke_rope_options o = {0};
    yki_rope_attrs attrs;
    yoke_node *inputs[2] = {x, start}, *node = NULL;
    yoke_status status;
    char *name = yki_layer_name(graph, NULL, "rope");

    if (!name)
        return NULL;
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    status = !x || x->graph != graph ? yki_fail_node("the input", x) : read_options(x, &o, &attrs);
    if (status != YOKE_OK)
        yki_graph_fail(graph, name, status);
    else {
        node = yki_node(graph, &yki_op_rope, name, inputs, start ? 2 : 1, &attrs, sizeof attrs);
        if (node && start && !yki_limit_values(start, 0, MAX_POSITION, NULL))
            node = NULL;
    }
    yki_free(name);
    return node;
}

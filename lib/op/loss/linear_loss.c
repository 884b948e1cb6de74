/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_loss.c - a dense layer without bias and the softmax cross-entropy of its
 * result, in chunks of rows: the logits of a large batch never exist.
 *
 * The gradients are nodes of their own, and each would compute the logits again. A
 * fusion (plan/fuse_linear_loss.c) makes them further results of the loss, which then
 * computes each chunk's logits once and is done with them.
 */
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_linear_loss_attrs a = yki_linear_loss_attrs_get(attrs);

    snprintf(text, size, "i%d:%d%s%s%s", a.has_ignore_index, a.ignore_index, a.dx ? " dx" : "",
             a.dw ? " dw" : "", a.scaled ? " scaled" : "");
}

static yoke_status
check(const yoke_node *node)
{
    const yoke_node *x = node->inputs[0], *weight = node->inputs[1], *target = node->inputs[2];
    yoke_shape rest = x->shape;
    char text[128];

    YKI_TRY(yki_check_f32("the input", x));
    YKI_TRY(yki_check_f32("the weight", weight));
    if (target->type == YOKE_F32)
        return yki_fail_type("the target", target, "i32 or u8");
    if (!x->batched || !target->batched)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "\"%s\" does not depend on the sample; must be computed from an input",
                        x->batched ? target->name : x->name);
    if (x->shape.rank < 1)
        return yki_fail_shape("the input", x, "(..., columns)");
    if (weight->batched || weight->shape.rank != 2 ||
        weight->shape.dim[1] != x->shape.dim[x->shape.rank - 1]) {
        snprintf(text, sizeof text, "(classes, %lld), as the rows of \"%s\" are so long",
                 (long long)x->shape.dim[x->shape.rank - 1], x->name);
        return yki_fail_shape("the weight", weight, text);
    }
    rest.dim[--rest.rank] = 0;
    if (!yki_shape_equal(rest, target->shape))
        return yki_fail_shape("the target", target, yki_shape_text(rest, text, sizeof text));
    return YOKE_OK;
}

static yoke_status
infer(yoke_node *node)
{
    YKI_TRY(check(node));
    node->type = YOKE_F32;
    node->shape = yoke_shape(2);
    node->batched = true;
    return YOKE_OK;
}

static yoke_status
infer_grad(yoke_node *node)
{
    YKI_TRY(check(node));
    yki_node_like(node, node->inputs[yki_linear_loss_attrs_get(&node->attrs).dw ? 1 : 0]);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    (void)dy; /* differentiation starts at a loss */
    if (wanted[2])
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the target \"%s\" depends on a parameter that is trained; must not, as a "
                        "loss has no gradient by its target",
                        node->inputs[2]->name);
    for (int i = 0; i < 2; i++) {
        yki_linear_loss_attrs a = yki_linear_loss_attrs_get(&node->attrs);

        a.dx = i == 0;
        a.dw = i == 1;
        if (wanted[i])
            dx[i] = yki_node(node->graph, &yki_op_linear_loss_grad, NULL, node->inputs, 3, &a,
                             sizeof a);
    }
    return yki_graph_status(node->graph);
}

static double
product(const yoke_node *node)
{
    return 2.0 * (double)yki_shape_count(node->inputs[0]->shape) *
           (double)node->inputs[1]->shape.dim[0];
}

/* That the gradients need the logits too is not counted: mostly they are joined with the loss. */
const yki_op yki_op_linear_loss = {
    .name = "linear_loss",
    .infer = infer,
    .gradient = gradient,
    .flops = product,
    .describe = describe,
    .is_loss = true,
};

const yki_op yki_op_linear_loss_grad = {
    .name = "linear_loss_grad",
    .infer = infer_grad,
    .flops = product,
    .describe = describe,
};

yoke_node *
yoke_linear_cross_entropy_sized(yoke_graph *graph, yoke_node *x, yoke_node *weight,
                                yoke_node *target, const yoke_loss_options *options, size_t size)
{
    yoke_loss_options o = {0};
    yki_linear_loss_attrs attrs = {0};
    yoke_node *inputs[3] = {x, weight, target}, *node;
    char *name = yki_layer_name(graph, NULL, "linear_cross_entropy");

    if (!name)
        return NULL;
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (o.label_smoothing != 0 || o.delta != 0 || o.axis != 0 || o.class_weights || o.weights) {
        yki_graph_fail(graph, name,
                       yki_fail(YOKE_ERROR_VALUE,
                                "label_smoothing, delta, axis and weights must be "
                                "0 or NULL for this loss"));
        yki_free(name);
        return NULL;
    }
    attrs.has_ignore_index = o.has_ignore_index;
    attrs.ignore_index = o.has_ignore_index ? o.ignore_index : 0;
    node = yki_node(graph, &yki_op_linear_loss, name, inputs, 3, &attrs, sizeof attrs);
    yki_free(name);
    if (node && !yki_limit_values(target, 0, weight->shape.dim[0],
                                  o.has_ignore_index ? &o.ignore_index : NULL))
        return NULL;
    return node;
}

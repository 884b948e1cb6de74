/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm.c - batch normalisation as a chain of operators, and the layer made of
 * them. ops.h says what each computes, and how the statistics of several devices are
 * merged. Because of this merging the statistics are nodes of their own.
 *
 * Evaluation needs no other operator for the normalisation: statistics that were kept
 * during training replace those of the batch.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_bn_attrs a = yki_bn_attrs_get(attrs);

    snprintf(text, size, "e%.9g%s%s%s%s", (double)a.epsilon, a.affine ? " affine" : "",
             a.residual ? " residual" : "", a.act == YKI_BN_RELU ? " relu" : "",
             a.local ? " local" : "");
}

static yoke_status
check_operand(const yoke_node *node, const char *what, yoke_shape shape)
{
    char text[128];

    YKI_TRY(yki_check_f32(what, node));
    if (!yki_shape_equal(node->shape, shape))
        return yki_fail_shape(what, node, yki_shape_text(shape, text, sizeof text));
    return YOKE_OK;
}

static yoke_status
check_input(const yoke_node *x)
{
    YKI_TRY(yki_check_f32("the input", x));
    if (x->shape.rank < 1)
        return yki_fail_shape("the input", x, "(channels, ...)");
    return YOKE_OK;
}

static double
flops(const yoke_node *node)
{
    return 4 * (double)yki_shape_count(node->inputs[0]->shape);
}

/* ---- statistics ---- */

static yoke_status
infer_stats(yoke_node *node)
{
    YKI_TRY(check_input(node->inputs[0]));
    node->type = YOKE_F32;
    node->shape = yoke_shape(3, node->inputs[0]->shape.dim[0]);
    node->batched = false;
    return YOKE_OK;
}

/* Finds the states through the nodes that update them from these statistics. */
static uint32_t
stats_evaluation(const yoke_node *node, const yki_op **op, yoke_node **inputs)
{
    const yoke_graph *graph = node->graph;
    uint32_t found = 0;

    for (size_t i = node->id + 1; i < graph->node_count && found < 2; i++) {
        const yoke_node *running = graph->nodes[i];

        if (running->op == &yki_op_bn_running && running->inputs[1] == node)
            inputs[found++] = running->inputs[0];
    }
    if (found == 2) {
        *op = &yki_op_bn_known;
        return 2;
    }
    inputs[0] = node->inputs[0];
    return 1;
}

static yki_merge
merge_stats(const yki_attrs *attrs)
{
    return yki_bn_attrs_get(attrs).local ? YKI_MERGE_NONE : YKI_MERGE_MOMENTS;
}

static yki_merge
merge_sums(const yki_attrs *attrs)
{
    return yki_bn_attrs_get(attrs).local ? YKI_MERGE_NONE : YKI_MERGE_SUM;
}

static const char *
called(const yki_attrs *attrs)
{
    (void)attrs;
    return "batch_norm";
}

const yki_op yki_op_bn_stats = {
    .name = "bn_stats",
    .called = called,
    .infer = infer_stats,
    .flops = flops,
    .describe = describe,
    .merge = merge_stats,
    .evaluation = stats_evaluation,
};

static yoke_status
infer_known(yoke_node *node)
{
    YKI_TRY(check_input(node->inputs[0]));
    YKI_TRY(check_operand(node->inputs[1], "the variance", node->inputs[0]->shape));
    node->type = YOKE_F32;
    node->shape = yoke_shape(3, node->inputs[0]->shape.dim[0]);
    node->batched = false;
    return YOKE_OK;
}

const yki_op yki_op_bn_known = {
    .name = "bn_known",
    .called = called,
    .infer = infer_known,
    .describe = describe,
};

static yoke_status
infer_running(yoke_node *node)
{
    const yoke_node *old = node->inputs[0];

    YKI_TRY(check_input(old));
    YKI_TRY(check_operand(node->inputs[1], "the statistics", yoke_shape(3, old->shape.dim[0])));
    node->type = YOKE_F32;
    node->shape = old->shape;
    node->batched = false;
    return YOKE_OK;
}

static void
describe_running(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "%s m%.9g", yki_bn_attrs_get(attrs).variance ? "variance" : "mean",
             (double)yki_bn_attrs_get(attrs).momentum);
}

const yki_op yki_op_bn_running = {
    .name = "bn_running",
    .called = called,
    .infer = infer_running,
    .describe = describe_running,
};

/* ---- normalisation ---- */

static yoke_status
infer_apply(yoke_node *node)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];
    uint32_t expected = 2 + 2 * (a.affine != 0) + (a.residual != 0);

    YKI_TRY(check_input(x));
    if (node->input_count != expected)
        return yki_fail_bug("%s has %u operands, not %u", node->name, node->input_count, expected);
    YKI_TRY(check_operand(node->inputs[1], "the statistics", yoke_shape(3, x->shape.dim[0])));
    for (uint32_t i = 2; a.affine && i < 4; i++)
        YKI_TRY(check_operand(node->inputs[i], "the parameter", yoke_shape(x->shape.dim[0])));
    if (a.residual)
        YKI_TRY(check_operand(node->inputs[expected - 1], "the residual", x->shape));
    yki_node_like(node, x);
    return YOKE_OK;
}

/* Makes of the gradient after the activation the one before it, which is the residual's gradient
 * too. Without a residual, x tells which elements the activation passed. */
static yoke_node *
before_activation(yoke_node *node, yoke_node *dy)
{
    yki_unary_attrs relu = {.kind = YKI_UNARY_RELU};
    yoke_node *inputs[2] = {node, dy};

    if (yki_bn_attrs_get(&node->attrs).act != YKI_BN_RELU ||
        !yki_bn_attrs_get(&node->attrs).residual)
        return dy;
    return yki_node(node->graph, &yki_op_unary_grad, NULL, inputs, 2, &relu, sizeof relu);
}

/* bn_grad contains all paths from x to the result, those through the statistics too. So there is
 * no gradient by the statistics. */
static yoke_status
apply_gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yki_bn_attrs a = yki_bn_attrs_get(&node->attrs);
    yoke_graph *graph = node->graph;
    yoke_node *x = node->inputs[0], *stats = node->inputs[1], *sums;
    bool affine = a.affine != 0;

    dy = before_activation(node, dy);
    if (a.residual && wanted[node->input_count - 1])
        dx[node->input_count - 1] = dy;
    if (a.residual)
        a.act = a.residual = 0;
    if (dy && (wanted[0] || (affine && (wanted[2] || wanted[3])))) {
        yoke_node *gamma = affine ? node->inputs[2] : NULL, *beta = affine ? node->inputs[3] : NULL;
        yoke_node *seen[5] = {x, dy, stats, gamma, beta};
        uint32_t gates = affine && a.act == YKI_BN_RELU;

        sums = yki_node(graph, &yki_op_bn_grad_stats, NULL, seen, 3 + 2 * gates, &a, sizeof a);
        if (sums && wanted[0]) {
            yoke_node *inputs[6] = {x, dy, stats, sums, gamma, beta};

            dx[0] =
                yki_node(graph, &yki_op_bn_grad, NULL, inputs, 4 + affine + gates, &a, sizeof a);
        }
        for (int32_t i = 0; sums && affine && i < 2; i++)
            if (wanted[2 + i]) /* the gradient of gamma is the second row */
                dx[2 + i] = yki_row(graph, sums, 1 - i);
    }
    return yki_graph_status(graph);
}

const yki_op yki_op_bn_apply = {
    .name = "bn_apply",
    .called = called,
    .infer = infer_apply,
    .gradient = apply_gradient,
    .flops = flops,
    .describe = describe,
    .in_place = 1,
    .cheap = true,
};

/* ---- gradients ---- */

/* Checks gamma and beta, from input `at` on. */
static yoke_status
check_parameters(const yoke_node *node, uint32_t at, uint32_t count)
{
    if (node->input_count != at + count)
        return yki_fail_bug("%s has %u operands, not %u", node->name, node->input_count,
                            at + count);
    for (uint32_t i = at; i < at + count; i++)
        YKI_TRY(check_operand(node->inputs[i], "the parameter",
                              yoke_shape(node->inputs[0]->shape.dim[0])));
    return YOKE_OK;
}

static yoke_status
infer_grad_stats(yoke_node *node)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];

    YKI_TRY(check_input(x));
    YKI_TRY(check_operand(node->inputs[1], "the gradient", x->shape));
    YKI_TRY(check_operand(node->inputs[2], "the statistics", yoke_shape(3, x->shape.dim[0])));
    YKI_TRY(check_parameters(node, 3, a.act == YKI_BN_RELU && a.affine ? 2 : 0));
    node->type = YOKE_F32;
    node->shape = yoke_shape(2, x->shape.dim[0]);
    node->batched = false;
    return YOKE_OK;
}

static yoke_status
infer_grad(yoke_node *node)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];

    YKI_TRY(check_input(x));
    YKI_TRY(check_operand(node->inputs[1], "the gradient", x->shape));
    YKI_TRY(check_operand(node->inputs[2], "the statistics", yoke_shape(3, x->shape.dim[0])));
    YKI_TRY(check_operand(node->inputs[3], "the sums", yoke_shape(2, x->shape.dim[0])));
    YKI_TRY(check_parameters(node, 4, !a.affine ? 0 : a.act == YKI_BN_RELU ? 2 : 1));
    yki_node_like(node, x);
    return YOKE_OK;
}

const yki_op yki_op_bn_grad_stats = {
    .name = "bn_grad_stats",
    .infer = infer_grad_stats,
    .flops = flops,
    .describe = describe,
    .merge = merge_sums,
};

const yki_op yki_op_bn_grad = {
    .name = "bn_grad",
    .infer = infer_grad,
    .flops = flops,
    .describe = describe,
    .in_place = 3,
};

/* ---- a row ---- */

static yoke_status
infer_row(yoke_node *node)
{
    const yki_row_attrs a = yki_row_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];

    YKI_TRY(check_input(x));
    if (x->batched || a.row < 0 || a.row >= x->shape.dim[0])
        return yki_fail_bug("row %d of %s", a.row, x->name);
    node->type = YOKE_F32;
    node->shape.rank = x->shape.rank - 1;
    for (int32_t i = 0; i < node->shape.rank; i++)
        node->shape.dim[i] = x->shape.dim[i + 1];
    node->batched = false;
    return YOKE_OK;
}

static void
describe_row(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "%d", yki_row_attrs_get(attrs).row);
}

const yki_op yki_op_row = {
    .name = "row",
    .infer = infer_row,
    .describe = describe_row,
    .reads_unmerged = true,
};

yoke_node *
yki_row(yoke_graph *graph, yoke_node *x, int32_t row)
{
    yki_row_attrs a = {row};

    return yki_node(graph, &yki_op_row, NULL, &x, 1, &a, sizeof a);
}

/* ---- the layer ---- */

static bool
check_options(yoke_graph *graph, const char *layer, const yoke_node *x,
              const yoke_batch_norm_options *o)
{
    yoke_status status = YOKE_OK;

    if (!x || x->graph != graph)
        status = yki_fail_node("the input", x);
    else if (!(o->epsilon >= 0 && isfinite(o->epsilon)))
        status = yki_fail_range_real(YOKE_ERROR_INVALID_ARGUMENT, "epsilon", (double)o->epsilon, 0,
                                     FLT_MAX);
    else if (!(o->momentum >= 0 && o->momentum <= 1))
        status =
            yki_fail_range_real(YOKE_ERROR_INVALID_ARGUMENT, "momentum", (double)o->momentum, 0, 1);
    else
        status = check_input(x);
    if (status != YOKE_OK)
        yki_graph_fail(graph, layer, status);
    return status == YOKE_OK;
}

static yoke_node *
layer_nodes(yoke_graph *graph, const char *layer, yoke_node *x, yki_bn_attrs a)
{
    const yoke_initializer one = {YOKE_INIT_CONSTANT, 1, 0, 0}, zero = {YOKE_INIT_ZEROS, 0, 0, 0};
    yoke_shape shape = yoke_shape(x->shape.dim[0]);
    yoke_node *inputs[4] = {x}, *states[2], *y;

    if (a.affine) {
        inputs[2] = yki_parameter(graph, layer, "weight", shape, one, shape.dim[0], shape.dim[0]);
        inputs[3] = yki_parameter(graph, layer, "bias", shape, zero, shape.dim[0], shape.dim[0]);
    }
    states[0] = yki_state(graph, layer, "running_mean", shape, 0);
    states[1] = yki_state(graph, layer, "running_var", shape, 1);
    inputs[1] = yki_node(graph, &yki_op_bn_stats, NULL, &x, 1, &a, sizeof a);
    y = yki_node(graph, &yki_op_bn_apply, layer, inputs, a.affine ? 4 : 2, &a, sizeof a);
    for (int32_t i = 0; y && i < 2; i++) {
        yki_bn_attrs running = {.momentum = a.momentum, .variance = i};
        yoke_node *renewed[2] = {states[i], inputs[1]};

        states[i]->next =
            yki_node(graph, &yki_op_bn_running, NULL, renewed, 2, &running, sizeof running);
        if (!states[i]->next)
            return NULL;
    }
    return y;
}

yoke_node *
yoke_batch_norm_sized(yoke_graph *graph, yoke_node *x, const yoke_batch_norm_options *options,
                      size_t size)
{
    yoke_batch_norm_options o = {0};
    yki_bn_attrs a = {0};
    yoke_node *node = NULL;
    char *layer;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    layer = yki_layer_name(graph, o.name, "bn");
    if (!layer)
        return NULL;
    if (check_options(graph, layer, x, &o)) {
        a.epsilon = o.epsilon > 0 ? o.epsilon : 1e-5f;
        a.momentum = o.momentum > 0 ? o.momentum : 0.1f;
        a.local = o.local;
        a.affine = !o.no_affine;
        node = layer_nodes(graph, layer, x, a);
    }
    yki_free(layer);
    return node;
}

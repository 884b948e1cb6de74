/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm.c - normalisation over the last axes of a sample, its gradients, and the
 * layers: the one with a mean, and the one by the root mean square, which is the same
 * without a mean and without a shift.
 *
 * The gradients compute a row's mean and deviation again. That costs one more pass
 * over data that is read anyway, and saves a result that would have to be kept.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_ln_attrs a = yki_ln_attrs_get(attrs);

    snprintf(text, size, "axes %d e%.9g%s%s", a.axes, (double)a.epsilon, a.affine ? " affine" : "",
             a.rms ? " rms" : "");
}

/* The number of parameters. */
static uint32_t
parameters(yki_ln_attrs a)
{
    return !a.affine ? 0 : a.rms ? 1 : 2;
}

/* The shape of the last `axes` axes. */
static yoke_shape
inner_shape(const yoke_node *x, int32_t axes)
{
    yoke_shape shape = {.rank = axes};

    for (int32_t i = 0; i < axes; i++)
        shape.dim[i] = x->shape.dim[x->shape.rank - axes + i];
    return shape;
}

/* Checks that all operands are float32. The first `like_x` have x's shape; parameters of the
 * inner shape follow. */
static yoke_status
check(const yoke_node *node, uint32_t like_x, uint32_t count)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];
    char text[128];

    if (a.axes < 1 || a.axes > x->shape.rank)
        return yki_fail_range(YOKE_ERROR_SHAPE, "axes", a.axes, 1, x->shape.rank);
    if (node->input_count != count)
        return yki_fail_bug("%s has %u operands, not %u", node->name, node->input_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const yoke_node *operand = node->inputs[i];
        yoke_shape shape = i < like_x ? x->shape : inner_shape(x, a.axes);

        YKI_TRY(yki_check_f32("the input", operand));
        if (!yki_shape_equal(operand->shape, shape))
            return yki_fail_shape("the input", operand, yki_shape_text(shape, text, sizeof text));
    }
    return YOKE_OK;
}

static yoke_status
infer(yoke_node *node)
{
    YKI_TRY(check(node, 1, 1 + parameters(yki_ln_attrs_get(&node->attrs))));
    yki_node_like(node, node->inputs[0]);
    return YOKE_OK;
}

static yoke_status
infer_grad(yoke_node *node)
{
    YKI_TRY(check(node, 2, yki_ln_attrs_get(&node->attrs).affine ? 3 : 2));
    yki_node_like(node, node->inputs[0]);
    return YOKE_OK;
}

static yoke_status
infer_grad_params(yoke_node *node)
{
    const yki_ln_attrs a = yki_ln_attrs_get(&node->attrs);
    yoke_shape inner;

    YKI_TRY(check(node, 2, 2));
    inner = inner_shape(node->inputs[0], a.axes);
    node->type = YOKE_F32;
    node->batched = false;
    if (a.rms) {
        node->shape = inner;
        return YOKE_OK;
    }
    node->shape = (yoke_shape){.rank = inner.rank + 1, .dim = {2}};
    memcpy(node->shape.dim + 1, inner.dim, (size_t)inner.rank * sizeof inner.dim[0]);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yki_ln_attrs a = yki_ln_attrs_get(&node->attrs);
    yoke_graph *graph = node->graph;
    yoke_node *inputs[3] = {node->inputs[0], dy, a.affine ? node->inputs[1] : NULL};

    if (wanted[0])
        dx[0] =
            yki_node(graph, &yki_op_layer_norm_grad, NULL, inputs, a.affine ? 3 : 2, &a, sizeof a);
    if (a.affine && (wanted[1] || (!a.rms && wanted[2]))) {
        yoke_node *sums =
            yki_node(graph, &yki_op_layer_norm_grad_params, NULL, inputs, 2, &a, sizeof a);

        if (a.rms)
            dx[1] = sums;
        for (int32_t i = 0; sums && !a.rms && i < 2; i++)
            if (wanted[1 + i]) /* the gradient of gamma is the second row */
                dx[1 + i] = yki_row(graph, sums, 1 - i);
    }
    return yki_graph_status(graph);
}

static double
flops(const yoke_node *node)
{
    return 8 * (double)yki_shape_count(node->inputs[0]->shape);
}

const yki_op yki_op_layer_norm = {
    .name = "layer_norm",
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
};

const yki_op yki_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .infer = infer_grad,
    .flops = flops,
    .describe = describe,
};

const yki_op yki_op_layer_norm_grad_params = {
    .name = "layer_norm_grad_params",
    .infer = infer_grad_params,
    .flops = flops,
    .describe = describe,
};

static bool
check_options(yoke_graph *graph, const char *layer, const yoke_node *x,
              const yoke_layer_norm_options *o)
{
    yoke_status status = YOKE_OK;

    if (!x || x->graph != graph)
        status = yki_fail_node("the input", x);
    else if (!(o->epsilon >= 0 && isfinite(o->epsilon)))
        status = yki_fail_range_real(YOKE_ERROR_INVALID_ARGUMENT, "epsilon", (double)o->epsilon, 0,
                                     FLT_MAX);
    else if (o->axes < 0 || o->axes > x->shape.rank || x->shape.rank == 0)
        status = x->shape.rank == 0
                     ? yki_fail_shape("the input", x, "of at least one axis")
                     : yki_fail(YOKE_ERROR_SHAPE,
                                "axes is %d; must be between 0 and %d, the rank of \"%s\"", o->axes,
                                x->shape.rank, x->name);
    if (status != YOKE_OK)
        yki_graph_fail(graph, layer, status);
    return status == YOKE_OK;
}

static yoke_node *
build(yoke_graph *graph, yoke_node *x, const yoke_layer_norm_options *options, size_t size,
      bool rms)
{
    const yoke_initializer one = {YOKE_INIT_CONSTANT, 1, 0, 0}, zero = {YOKE_INIT_ZEROS, 0, 0, 0};
    yoke_layer_norm_options o = {0};
    yoke_node *node = NULL, *inputs[3] = {x};
    char *layer;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    layer = yki_layer_name(graph, o.name, rms ? "rms" : "ln");
    if (!layer)
        return NULL;
    if (check_options(graph, layer, x, &o)) {
        yki_ln_attrs a = {.epsilon = o.epsilon > 0 ? o.epsilon : 1e-5f,
                          .axes = o.axes ? o.axes : x->shape.rank,
                          .affine = !o.no_affine,
                          .rms = rms};
        yoke_shape inner = inner_shape(x, a.axes);
        int64_t width = yki_shape_count(inner);

        if (a.affine) {
            inputs[1] = yki_parameter(graph, layer, "weight", inner, one, width, width);
            if (!rms)
                inputs[2] = yki_parameter(graph, layer, "bias", inner, zero, width, width);
        }
        node = yki_node(graph, &yki_op_layer_norm, layer, inputs, 1 + parameters(a), &a, sizeof a);
    }
    yki_free(layer);
    return node;
}

yoke_node *
yoke_layer_norm_sized(yoke_graph *graph, yoke_node *x, const yoke_layer_norm_options *options,
                      size_t size)
{
    return build(graph, x, options, size, false);
}

yoke_node *
yoke_rms_norm_sized(yoke_graph *graph, yoke_node *x, const yoke_layer_norm_options *options,
                    size_t size)
{
    return build(graph, x, options, size, true);
}

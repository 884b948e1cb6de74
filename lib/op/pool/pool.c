/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - pooling: shapes, gradients, and the functions that build it. It has maxima
 * and means over windows of (C, H, W), and the mean over whole planes.
 *
 * Sizes, divisors and the order of ties are PyTorch's. The gradient of a maximum reads
 * x and y again instead of keeping positions: that takes less memory than an index per
 * element, and no second result.
 */
#include <stdio.h>
#include <string.h>

#include "op/conv/conv.h"

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_pool_attrs a = yki_pool_attrs_get(attrs);

    snprintf(text, size, "%dx%d s%dx%d p%dx%d%s%s", a.kernel[0], a.kernel[1], a.stride[0],
             a.stride[1], a.pad[0], a.pad[1], a.ceil_mode ? " ceil" : "",
             a.exclude_pad ? " exclude_pad" : "");
}

/* PyTorch's rule: with ceil_mode a last window may reach beyond the padding, but not begin
 * there. Returns 0 if no window fits. */
static int64_t
out_size(const yki_pool_attrs *a, int i, int64_t in)
{
    int64_t span = in + 2 * (int64_t)a->pad[i] - a->kernel[i], stride = a->stride[i], out;

    if (span < 0 && !a->ceil_mode)
        return 0;
    out = span < 0 ? 1 : (span + (a->ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (a->ceil_mode && (out - 1) * stride >= in + a->pad[i])
        out--;
    return out;
}

static yoke_status
check_input(const yoke_node *x)
{
    YKI_TRY(yki_check_f32("the input", x));
    if (x->shape.rank != 3)
        return yki_fail_shape("the input", x, "(channels, height, width)");
    return YOKE_OK;
}

static yoke_status
infer(yoke_node *node)
{
    const yki_pool_attrs a = yki_pool_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0];

    YKI_TRY(check_input(x));
    yki_node_like(node, x);
    for (int i = 0; i < 2; i++) {
        node->shape.dim[i + 1] = out_size(&a, i, x->shape.dim[i + 1]);
        if (node->shape.dim[i + 1] < 1)
            return yki_fail(
                YOKE_ERROR_SHAPE,
                "kernel[%d] is %d; must fit into the %s of \"%s\", which is %lld with its padding",
                i, a.kernel[i], i ? "width" : "height", x->name,
                (long long)x->shape.dim[i + 1] + 2 * (long long)a.pad[i]);
    }
    return YOKE_OK;
}

/* x, y, dy or [gate,] dy -> x's shape, which the attributes keep too. */
static yoke_status
infer_grad(yoke_node *node)
{
    const yki_pool_attrs a = yki_pool_attrs_get(&node->attrs);
    const yoke_node *dy = node->inputs[node->input_count - 1];

    YKI_TRY(check_input(dy));
    node->type = YOKE_F32;
    node->batched = dy->batched;
    node->shape = yoke_shape(dy->shape.dim[0], a.size[0], a.size[1]);
    return YOKE_OK;
}

static yki_pool_attrs
grad_attrs(const yoke_node *node)
{
    yki_pool_attrs a = yki_pool_attrs_get(&node->attrs);

    a.size[0] = (int32_t)node->inputs[0]->shape.dim[1];
    a.size[1] = (int32_t)node->inputs[0]->shape.dim[2];
    return a;
}

static yoke_status
max_gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yoke_node *inputs[3] = {node->inputs[0], node, dy};
    yki_pool_attrs a = grad_attrs(node);

    if (wanted[0])
        dx[0] = yki_node(node->graph, &yki_op_maxpool2d_grad, NULL, inputs, 3, &a, sizeof a);
    return yki_graph_status(node->graph);
}

static yoke_status
avg_gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yki_pool_attrs a = grad_attrs(node);

    if (wanted[0])
        dx[0] = yki_node(node->graph, &yki_op_avgpool2d_grad, NULL, &dy, 1, &a, sizeof a);
    return yki_graph_status(node->graph);
}

static double
flops(const yoke_node *node)
{
    const yki_pool_attrs a = yki_pool_attrs_get(&node->attrs);

    return (double)yki_shape_count(node->shape) * a.kernel[0] * a.kernel[1];
}

/* Every window is visited once, whether the loop is over x or over y. */
static double
grad_flops(const yoke_node *node)
{
    const yki_pool_attrs a = yki_pool_attrs_get(&node->attrs);
    const yoke_node *dy = node->inputs[node->input_count - 1];

    return (double)yki_shape_count(dy->shape) * a.kernel[0] * a.kernel[1];
}

const yki_op yki_op_maxpool2d = {
    .name = "maxpool2d",
    .infer = infer,
    .gradient = max_gradient,
    .flops = flops,
    .describe = describe,
    .cheap = true,
};

const yki_op yki_op_avgpool2d = {
    .name = "avgpool2d",
    .infer = infer,
    .gradient = avg_gradient,
    .flops = flops,
    .describe = describe,
    .cheap = true,
};

const yki_op yki_op_maxpool2d_grad = {
    .name = "maxpool2d_grad",
    .infer = infer_grad,
    .flops = grad_flops,
    .describe = describe,
};

const yki_op yki_op_avgpool2d_grad = {
    .name = "avgpool2d_grad",
    .infer = infer_grad,
    .flops = grad_flops,
    .describe = describe,
};

/* ---- the mean over planes ---- */

static yoke_status
infer_global(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];

    YKI_TRY(check_input(x));
    node->type = YOKE_F32;
    node->batched = x->batched;
    node->shape = yoke_shape(x->shape.dim[0]);
    return YOKE_OK;
}

static yoke_status
infer_global_grad(yoke_node *node)
{
    const yki_pool_attrs a = yki_pool_attrs_get(&node->attrs);

    node->type = YOKE_F32;
    node->batched = node->inputs[0]->batched;
    node->shape = yoke_shape(node->inputs[0]->shape.dim[0], a.size[0], a.size[1]);
    return YOKE_OK;
}

static yoke_status
global_gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    yki_pool_attrs a = grad_attrs(node);

    if (wanted[0])
        dx[0] = yki_node(node->graph, &yki_op_global_avgpool_grad, NULL, &dy, 1, &a, sizeof a);
    return yki_graph_status(node->graph);
}

static double
global_flops(const yoke_node *node)
{
    return (double)YKI_MAX(yki_shape_count(node->inputs[0]->shape), yki_shape_count(node->shape));
}

static void
describe_global(const yki_attrs *attrs, char *text, size_t size)
{
    snprintf(text, size, "to %dx%d", yki_pool_attrs_get(attrs).size[0],
             yki_pool_attrs_get(attrs).size[1]);
}

const yki_op yki_op_global_avgpool = {
    .name = "global_avgpool",
    .infer = infer_global,
    .gradient = global_gradient,
    .flops = global_flops,
};

const yki_op yki_op_global_avgpool_grad = {
    .name = "global_avgpool_grad",
    .infer = infer_global_grad,
    .flops = global_flops,
    .describe = describe_global,
};

/* ---- building ---- */

static yoke_node *
pool(yoke_graph *graph, yoke_node *x, const yki_op *op, const yoke_pool2d_options *options,
     size_t size)
{
    yoke_pool2d_options o = {0};
    yki_pool_attrs a = {0};

    if (!graph || graph->status != YOKE_OK)
        return NULL;
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (!yki_take_pair(graph, op->name, "kernel", o.kernel, NULL, 1, a.kernel) ||
        !yki_take_pair(graph, op->name, "stride", o.stride, a.kernel, 1, a.stride) ||
        !yki_take_pair(graph, op->name, "pad", o.pad, NULL, 0, a.pad))
        return NULL;
    for (int i = 0; i < 2; i++)
        /* Otherwise a window could lie in the padding altogether, and have no maximum. */
        if (2 * a.pad[i] > a.kernel[i]) {
            yki_graph_fail(graph, op->name,
                           yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                                    "pad[%d] is %d; must be between 0 and %d, half of the kernel",
                                    i, a.pad[i], a.kernel[i] / 2));
            return NULL;
        }
    a.ceil_mode = o.ceil_mode;
    a.exclude_pad = op == &yki_op_avgpool2d && o.exclude_pad;
    return yki_node(graph, op, NULL, &x, 1, &a, sizeof a);
}

yoke_node *
yoke_maxpool2d_sized(yoke_graph *graph, yoke_node *x, const yoke_pool2d_options *options,
                     size_t size)
{
    return pool(graph, x, &yki_op_maxpool2d, options, size);
}

yoke_node *
yoke_avgpool2d_sized(yoke_graph *graph, yoke_node *x, const yoke_pool2d_options *options,
                     size_t size)
{
    return pool(graph, x, &yki_op_avgpool2d, options, size);
}

yoke_node *
yoke_global_avgpool(yoke_graph *graph, yoke_node *x)
{
    if (!graph || graph->status != YOKE_OK)
        return NULL;
    return yki_node1(graph, &yki_op_global_avgpool, x);
}

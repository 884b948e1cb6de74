/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d.c - the three operators of a convolution: shapes, gradients, costs.
 *
 * They are closed under differentiation. The gradient of a convolution by its input is
 * conv2d_grad_input, whose own gradient by its input is a convolution; both use
 * conv2d_grad_weight for the weights. So a transposed convolution is conv2d_grad_input
 * used forward, and needs no kernel of its own.
 *
 * The gradient of the weights cannot be differentiated: there are no second
 * derivatives.
 */
#include <stdio.h>
#include <string.h>

#include "op/conv/conv.h"

/* Returns the size of a convolution's result along axis i; <= 0 if the kernel does not fit. */
static int64_t
out_size(const yki_conv_attrs *a, int i, int64_t in)
{
    int64_t span = in + 2 * (int64_t)a->pad[i] - (int64_t)a->dilation[i] * (a->kernel[i] - 1) - 1;

    return span < 0 ? 0 : span / a->stride[i] + 1;
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_conv_attrs a = yki_conv_attrs_get(attrs);
    size_t used;

    used = (size_t)snprintf(text, size, "%dx%d s%dx%d p%dx%d", a.kernel[0], a.kernel[1],
                            a.stride[0], a.stride[1], a.pad[0], a.pad[1]);
    if ((a.dilation[0] != 1 || a.dilation[1] != 1) && used < size)
        used += (size_t)snprintf(text + used, size - used, " d%dx%d", a.dilation[0], a.dilation[1]);
    if (a.groups != 1 && used < size)
        used += (size_t)snprintf(text + used, size - used, " g%d", a.groups);
    if (a.size[0] && used < size)
        used += (size_t)snprintf(text + used, size - used, " to %dx%d", a.size[0], a.size[1]);
    if (a.act == YKI_CONV_ACT_RELU && used < size)
        snprintf(text + used, size - used, " relu");
}

/* Fails with the sentence about two operands that do not fit. */
static yoke_status
mismatch(const yoke_node *a, const yoke_node *b, const char *why)
{
    char sa[128], sb[128];

    return yki_fail(YOKE_ERROR_SHAPE, "\"%s\" has shape %s, \"%s\" has shape %s: %s", a->name,
                    yki_shape_text(a->shape, sa, sizeof sa), b->name,
                    yki_shape_text(b->shape, sb, sizeof sb), why);
}

static yoke_status
check_operands(const yoke_node *node, uint32_t required, uint32_t most)
{
    if (node->input_count < required || node->input_count > most)
        return yki_fail_bug("%s has %u operands", node->name, node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++)
        YKI_TRY(yki_check_f32("the input", node->inputs[i]));
    return YOKE_OK;
}

/* Checks the weight (O, C / groups, kh, kw) against an image: `axis` of the weight (0: O, 1: C)
 * counts the image's channels. Checks the bias against the channels of the result. */
static yoke_status
check_weight(const yoke_node *node, int axis)
{
    const yki_conv_attrs a = yki_conv_attrs_get(&node->attrs);
    const yoke_node *image = node->inputs[0], *weight = node->inputs[1];
    int64_t in, out;

    if (image->shape.rank != 3)
        return yki_fail_shape("the input", image, "(channels, height, width)");
    if (weight->batched || weight->shape.rank != 4 || weight->shape.dim[2] != a.kernel[0] ||
        weight->shape.dim[3] != a.kernel[1] || weight->shape.dim[0] % a.groups)
        return mismatch(weight, image,
                        "the weight must be (filters, channels / groups, height, width)");
    in = weight->shape.dim[axis] * (axis ? a.groups : 1);
    out = weight->shape.dim[!axis] * (axis ? 1 : a.groups);
    if (image->shape.dim[0] != in)
        return mismatch(image, weight,
                        "the weight must have the channels of the input, divided by groups");
    if (node->input_count > 2) {
        const yoke_node *bias = node->inputs[2];

        if (bias->batched || bias->shape.rank != 1 || bias->shape.dim[0] != out)
            return mismatch(bias, weight, "the bias must have one value for each filter");
    }
    return YOKE_OK;
}

/* Fails with the sentence about a kernel that is larger than the padded input along an axis. */
static yoke_status
too_large(const yki_conv_attrs *a, const yoke_node *x, int axis)
{
    return yki_fail(YOKE_ERROR_SHAPE,
                    "the kernel spans %lld %s; must span at most %lld, the %s of \"%s\" with its "
                    "padding",
                    (long long)a->dilation[axis] * (a->kernel[axis] - 1) + 1,
                    axis ? "columns" : "rows",
                    (long long)x->shape.dim[axis + 1] + 2 * (long long)a->pad[axis],
                    axis ? "width" : "height", x->name);
}

static yoke_status
infer_conv2d(yoke_node *node)
{
    const yki_conv_attrs a = yki_conv_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0], *weight;
    int64_t oh, ow;

    YKI_TRY(check_operands(node, 2, 3));
    YKI_TRY(check_weight(node, 1));
    weight = node->inputs[1];
    oh = out_size(&a, 0, x->shape.dim[1]);
    ow = out_size(&a, 1, x->shape.dim[2]);
    if (oh < 1 || ow < 1)
        return too_large(&a, x, oh < 1 ? 0 : 1);
    if (oh > INT32_MAX || ow > INT32_MAX)
        return mismatch(x, weight, "each size of the result must be at most 2147483647");
    node->type = YOKE_F32;
    node->shape = yoke_shape(weight->shape.dim[0], oh, ow);
    node->batched = x->batched;
    return YOKE_OK;
}

static yoke_status
infer_grad_input(yoke_node *node)
{
    const yki_conv_attrs a = yki_conv_attrs_get(&node->attrs);
    const yoke_node *dy = node->inputs[0], *weight;

    YKI_TRY(check_operands(node, 2, 3));
    YKI_TRY(check_weight(node, 0));
    weight = node->inputs[1];
    if (a.size[0] < 1 || a.size[1] < 1 || out_size(&a, 0, a.size[0]) != dy->shape.dim[1] ||
        out_size(&a, 1, a.size[1]) != dy->shape.dim[2])
        return mismatch(dy, weight, "no input of the given size has a convolution of this shape");
    node->type = YOKE_F32;
    node->shape = yoke_shape(weight->shape.dim[1] * a.groups, a.size[0], a.size[1]);
    node->batched = dy->batched;
    return YOKE_OK;
}

static yoke_status
infer_grad_weight(yoke_node *node)
{
    const yki_conv_attrs a = yki_conv_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0], *dy = node->inputs[1];

    YKI_TRY(check_operands(node, 2, 2));
    if (x->shape.rank != 3 || dy->shape.rank != 3 || x->batched != dy->batched)
        return mismatch(x, dy, "a convolution needs (channels, height, width), both batched alike");
    if (x->shape.dim[0] % a.groups || dy->shape.dim[0] % a.groups ||
        out_size(&a, 0, x->shape.dim[1]) != dy->shape.dim[1] ||
        out_size(&a, 1, x->shape.dim[2]) != dy->shape.dim[2])
        return mismatch(x, dy, "they are not input and result of one convolution");
    node->type = YOKE_F32;
    node->shape =
        yoke_shape(dy->shape.dim[0], x->shape.dim[0] / a.groups, a.kernel[0], a.kernel[1]);
    node->batched = false;
    return YOKE_OK;
}

/* The gradients by x, weight and bias, of conv2d or (roles exchanged) conv2d_grad_input. */
static yoke_status
gradient_of(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx, bool is_forward)
{
    yki_conv_attrs a = yki_conv_attrs_get(&node->attrs);
    yoke_node *x = node->inputs[0], *pair[2];

    if (a.act == YKI_CONV_ACT_RELU) {
        yki_unary_attrs relu = {YKI_UNARY_RELU, 0, 0};

        pair[0] = node;
        pair[1] = dy;
        dy = yki_node(node->graph, &yki_op_unary_grad, NULL, pair, 2, &relu, sizeof relu);
    }
    a.act = YKI_CONV_ACT_NONE;
    if (wanted[0]) {
        yki_conv_attrs by_x = a;

        by_x.size[0] = is_forward ? (int32_t)x->shape.dim[1] : 0;
        by_x.size[1] = is_forward ? (int32_t)x->shape.dim[2] : 0;
        pair[0] = dy;
        pair[1] = node->inputs[1];
        dx[0] = yki_node(node->graph, is_forward ? &yki_op_conv2d_grad_input : &yki_op_conv2d, NULL,
                         pair, 2, &by_x, sizeof by_x);
    }
    if (wanted[1]) {
        a.size[0] = a.size[1] = 0;
        pair[0] = is_forward ? x : dy;
        pair[1] = is_forward ? dy : x;
        dx[1] = yki_node(node->graph, &yki_op_conv2d_grad_weight, NULL, pair, 2, &a, sizeof a);
    }
    if (node->input_count > 2 && wanted[2])
        dx[2] = yki_node1(node->graph, &yki_op_reduce_bias, dy);
    return YOKE_OK;
}

static yoke_status
gradient_conv2d(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    return gradient_of(node, dy, wanted, dx, true);
}

static yoke_status
gradient_grad_input(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    return gradient_of(node, dy, wanted, dx, false);
}

/* The products of one sample. The count is the same for all three operators: each output
 * position meets each tap of its group's channels. Taps on padding count too, as is usual. */
static double
flops(const yoke_node *node)
{
    const yki_conv_attrs a = yki_conv_attrs_get(&node->attrs);
    bool is_forward = node->op == &yki_op_conv2d;
    const yoke_node *x =
        is_forward || node->op == &yki_op_conv2d_grad_weight ? node->inputs[0] : node;
    const yoke_node *y = is_forward                               ? node
                         : node->op == &yki_op_conv2d_grad_weight ? node->inputs[1]
                                                                  : node->inputs[0];

    return 2.0 * (double)yki_shape_count(y->shape) * a.kernel[0] * a.kernel[1] *
           (double)(x->shape.dim[0] / a.groups);
}

const yki_op yki_op_conv2d = {
    .name = "conv2d",
    .infer = infer_conv2d,
    .gradient = gradient_conv2d,
    .flops = flops,
    .describe = describe,
};

const yki_op yki_op_conv2d_grad_input = {
    .name = "conv2d_grad_input",
    .infer = infer_grad_input,
    .gradient = gradient_grad_input,
    .flops = flops,
    .describe = describe,
};

const yki_op yki_op_conv2d_grad_weight = {
    .name = "conv2d_grad_weight",
    .infer = infer_grad_weight,
    .flops = flops,
    .describe = describe,
};

static bool
is_both_grads(const yki_op *op)
{
    return op == &yki_op_conv2d_grads || op == &yki_op_conv2d_grads_parts;
}

yki_conv
yki_conv_of(const yki_problem *problem)
{
    yki_conv conv = {0};
    const yki_operand *x = &problem->in[0], *y = &problem->out;

    conv.a = yki_conv_attrs_get(&problem->attrs);
    if (problem->op == &yki_op_conv2d_grad_input) {
        x = &problem->out;
        y = &problem->in[0];
    } else if (problem->op == &yki_op_conv2d_grad_weight || is_both_grads(problem->op)) {
        y = &problem->in[1];
    }
    conv.c = x->shape.dim[0];
    conv.h = x->shape.dim[1];
    conv.w = x->shape.dim[2];
    conv.o = y->shape.dim[0];
    conv.oh = y->shape.dim[1];
    conv.ow = y->shape.dim[2];
    conv.cg = conv.c / conv.a.groups;
    conv.og = conv.o / conv.a.groups;
    conv.taps = (int64_t)conv.a.kernel[0] * conv.a.kernel[1];
    conv.has_bias = problem->op != &yki_op_conv2d_grad_weight && !is_both_grads(problem->op) &&
                    problem->input_count > 2 && conv.a.act < YKI_CONV_ACT_SUM;
    conv.batched = x->batched;
    conv.n = x->batched ? YKI_BATCH : YKI_CONST(1);
    return conv;
}

int64_t
yki_conv_canonical_parts(const yki_conv *conv)
{
    enum { MANY_WEIGHTS = 1 << 17, PARTS = 4 };

    return conv->o * conv->cg * conv->taps >= MANY_WEIGHTS ? 1 : PARTS;
}

yki_expr
yki_conv_times(const yki_conv *conv, int64_t per_sample)
{
    return conv->batched ? YKI_PER_SAMPLE(per_sample) : YKI_CONST(per_sample);
}

yki_expr
yki_conv_flops(const yki_conv *conv)
{
    return yki_conv_times(conv, 2 * conv->o * conv->oh * conv->ow * conv->cg * conv->taps);
}

yki_expr
yki_problem_bytes(const yki_problem *problem)
{
    yki_expr sum = yki_operand_bytes(&problem->out);

    for (uint32_t i = 0; i < problem->input_count; i++) {
        yki_expr bytes = yki_operand_bytes(&problem->in[i]);

        sum.per_sample += bytes.per_sample;
        sum.constant += bytes.constant;
    }
    return sum;
}

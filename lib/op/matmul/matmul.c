/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.c - matrix products: the rules for shape and gradient, and the public
 * builder. The solvers beside this file compute them.
 *
 * One operator serves the product and both its gradients. Its result may be summed
 * over the samples and over leading axes, as the gradient by a broadcast operand
 * needs. A sum over rows or samples joins the inner sum, so the gradient of a weight
 * is again one product. A vector as the first operand is a matrix of one row, and the
 * result leaves the axis of rows out. So a dense layer on (N, in) is one product with
 * N rows.
 *
 * Gradients of gradients are not provided.
 */
#include <stdio.h>
#include <string.h>

#include "op/matmul/matmul.h"

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_matmul_attrs a = yki_matmul_attrs_get(attrs);
    int used = snprintf(text, size, "%c%c", a.transpose_a ? 't' : 'n', a.transpose_b ? 't' : 'n');

    if (a.sum_batch && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, " sum");
    if ((a.sum_axes || a.drop_axes) && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, " axes %x drop %d", (unsigned)a.sum_axes,
                         (int)a.drop_axes);
    if (a.bias && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, " bias");
    if (a.act && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, "%s",
                         a.act == YKI_MATMUL_RELU ? " relu" : " gate");
    if (a.sums && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, " sums");
}

yki_matmul_view
yki_matmul_view_of(yoke_shape shape, bool transpose)
{
    yki_matmul_view view = {{0}, 1, 1};
    int32_t rank = shape.rank;

    if (rank >= 1)
        view.columns = shape.dim[rank - 1];
    if (rank >= 2)
        view.rows = shape.dim[rank - 2];
    if (transpose) {
        int64_t rows = view.rows;

        view.rows = view.columns;
        view.columns = rows;
    }
    view.lead.rank = YKI_MAX(rank - 2, 0);
    for (int32_t i = 0; i < view.lead.rank; i++)
        view.lead.dim[i] = shape.dim[i];
    return view;
}

/* Fails with "(2, 3) and (4, 5)" for two shapes that do not fit. */
static yoke_status
mismatch(const yoke_node *node, const char *what)
{
    const yki_matmul_attrs attrs = yki_matmul_attrs_get(&node->attrs);
    char a[128], b[128];

    return yki_fail(YOKE_ERROR_SHAPE, "a matrix product of %s%s and %s%s: %s",
                    yki_shape_text(node->inputs[0]->shape, a, sizeof a),
                    attrs.transpose_a ? " transposed" : "",
                    yki_shape_text(node->inputs[1]->shape, b, sizeof b),
                    attrs.transpose_b ? " transposed" : "", what);
}

static yoke_status
infer_bias(const yoke_node *node, int64_t columns)
{
    const yki_matmul_attrs attrs = yki_matmul_attrs_get(&node->attrs);
    const yoke_node *bias = attrs.bias ? node->inputs[2] : NULL;
    char text[128];

    if (!bias)
        return YOKE_OK;
    if (attrs.sum_batch || attrs.sum_axes || attrs.drop_axes)
        return yki_fail_bug("a summed product with a bias");
    if (bias->batched || bias->shape.rank != 1 || bias->shape.dim[0] != columns)
        return yki_fail_shape("the bias", bias,
                              yki_shape_text(yoke_shape(columns), text, sizeof text));
    return YOKE_OK;
}

/* The leading axes that remain after the sum over some of them. */
static yoke_shape
lead_of_result(const yki_matmul_attrs *attrs, yoke_shape lead)
{
    yoke_shape out = {0};

    for (int32_t i = attrs->drop_axes; i < lead.rank; i++) {
        bool summed = attrs->sum_axes >> (lead.rank - 1 - i) & 1;

        out.dim[out.rank++] = summed ? 1 : lead.dim[i];
    }
    return out;
}

static yoke_status
infer(yoke_node *node)
{
    const yki_matmul_attrs attrs = yki_matmul_attrs_get(&node->attrs);
    const yoke_node *a = node->inputs[0], *b = node->inputs[1];
    yki_matmul_view va, vb;
    yoke_shape lead;

    for (uint32_t i = 0; i < node->input_count; i++)
        YKI_TRY(yki_check_f32("the input", node->inputs[i]));
    if (a->shape.rank < 1 || b->shape.rank < 1)
        return mismatch(node, "both must have at least one axis");
    va = yki_matmul_view_of(a->shape, attrs.transpose_a);
    vb = yki_matmul_view_of(b->shape, attrs.transpose_b);
    if (a->shape.rank == 1 && !attrs.transpose_a && vb.lead.rank > 0)
        return mismatch(node, "a vector must be multiplied by one matrix, not by several");
    if (va.columns != vb.rows)
        return mismatch(node, "the columns of the first must be as many as the rows of the second");
    if (!yki_shape_broadcast(va.lead, vb.lead, &lead))
        return mismatch(node, "the leading axes must be equal, or one of them 1");
    YKI_TRY(infer_bias(node, vb.columns));
    if (attrs.drop_axes < 0 || attrs.drop_axes > lead.rank)
        return yki_fail_bug("%d of %d leading axes dropped", attrs.drop_axes, lead.rank);
    node->type = YOKE_F32;
    node->batched = (a->batched || b->batched) && !attrs.sum_batch;
    node->shape = lead_of_result(&attrs, lead);
    if (a->shape.rank > 1 || attrs.transpose_a)
        node->shape.dim[node->shape.rank++] = va.rows;
    node->shape.dim[node->shape.rank++] = vb.columns;
    return YOKE_OK;
}

/* The product op(a) op(b), summed to `target`'s shape: its gradient. */
static yoke_node *
product_for(const yoke_node *target, yoke_node *a, bool transpose_a, yoke_node *b, bool transpose_b)
{
    yki_matmul_view va = yki_matmul_view_of(a->shape, transpose_a);
    yki_matmul_view vb = yki_matmul_view_of(b->shape, transpose_b);
    yki_matmul_attrs attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    yoke_node *inputs[2] = {a, b};
    int32_t target_lead = YKI_MAX(target->shape.rank - 2, 0);
    yoke_shape lead;

    /* They come from a product whose shapes fitted. */
    if (!yki_shape_broadcast(va.lead, vb.lead, &lead))
        return NULL;
    attrs.sum_batch = (a->batched || b->batched) && !target->batched;
    attrs.drop_axes = lead.rank - target_lead;
    for (int32_t i = 0; i < target_lead; i++)
        if (target->shape.dim[i] == 1 && lead.dim[attrs.drop_axes + i] > 1)
            attrs.sum_axes |= 1 << (target_lead - 1 - i);
    return yki_node(target->graph, &yki_op_matmul, NULL, inputs, 2, &attrs, sizeof attrs);
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    const yki_matmul_attrs attrs = yki_matmul_attrs_get(&node->attrs);
    yoke_node *a = node->inputs[0], *b = node->inputs[1];
    bool ta = attrs.transpose_a, tb = attrs.transpose_b;

    if (attrs.sum_batch || attrs.sum_axes || attrs.drop_axes)
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "the gradient of a gradient is not provided");
    if (attrs.act) {
        yki_unary_attrs relu = {YKI_UNARY_RELU, 0, 0};
        yoke_node *inputs[2] = {node, dy};

        dy = yki_node(node->graph, &yki_op_unary_grad, NULL, inputs, 2, &relu, sizeof relu);
        if (!dy)
            return yki_graph_status(node->graph);
    }
    /* For y = op(a) op(b): d op(a) = dy op(b)^T and d op(b) = op(a)^T dy. Both are transposed
     * where the operand itself is. */
    if (wanted[0])
        dx[0] = ta ? product_for(a, b, tb, dy, true) : product_for(a, dy, false, b, !tb);
    if (wanted[1])
        dx[1] = tb ? product_for(b, dy, true, a, ta) : product_for(b, a, !ta, dy, false);
    if (attrs.bias && wanted[2])
        dx[2] = yki_node1(node->graph, &yki_op_sum_rows, dy);
    return yki_graph_status(node->graph);
}

static double
flops(const yoke_node *node)
{
    const yki_matmul_attrs attrs = yki_matmul_attrs_get(&node->attrs);
    yki_matmul_view a = yki_matmul_view_of(node->inputs[0]->shape, attrs.transpose_a);
    yki_matmul_view b = yki_matmul_view_of(node->inputs[1]->shape, attrs.transpose_b);
    yoke_shape lead;

    if (!yki_shape_broadcast(a.lead, b.lead, &lead))
        return 0;
    return 2.0 * (double)yki_shape_count(lead) * (double)a.rows * (double)a.columns *
           (double)b.columns;
}

const yki_op yki_op_matmul = {
    .name = "matmul",
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
};

yoke_node *
yoke_matmul_sized(yoke_graph *graph, yoke_node *a, yoke_node *b, const yoke_matmul_options *options,
                  size_t size)
{
    yoke_matmul_options o = {0};
    yki_matmul_attrs attrs = {0};
    yoke_node *inputs[2] = {a, b}, *node;
    char *name = yki_layer_name(graph, NULL, "matmul");

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (!name)
        return NULL;
    attrs.transpose_a = o.transpose_a;
    attrs.transpose_b = o.transpose_b;
    if (a && b && (a->shape.rank < 2 - (o.transpose_a ? 0 : 1) || b->shape.rank < 2)) {
        yki_graph_fail(graph, name,
                       b->shape.rank < 2
                           ? yki_fail_shape("the second operand", b,
                                            o.transpose_b ? "(..., N, K)" : "(..., K, N)")
                           : yki_fail_shape("the first operand", a,
                                            o.transpose_a ? "(..., K, M)" : "(..., M, K)"));
        yki_free(name);
        return NULL;
    }
    node = yki_node(graph, &yki_op_matmul, name, inputs, 2, &attrs, sizeof attrs);
    yki_free(name);
    return node;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * swiglu.c - the gate of Llama's layers: silu of one half of a row times the other.
 */
#include "op/ops.h"

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];
    int32_t last = x->shape.rank - 1;

    YKI_TRY(yki_check_f32("the input", x));
    if (last < 0 || x->shape.dim[last] % 2 != 0)
        return yki_fail_shape("the input", x,
                              "(..., 2 C), gates and what they are multiplied with");
    yki_node_like(node, x);
    if (node->op == &yki_op_swiglu)
        node->shape.dim[last] /= 2;
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    if (wanted[0])
        dx[0] = yki_node2(node->graph, &yki_op_swiglu_grad, node->inputs[0], dy);
    return yki_graph_status(node->graph);
}

static double
flops(const yoke_node *node)
{
    return 6 * (double)yki_shape_count(node->inputs[0]->shape);
}

const yki_op yki_op_swiglu = {
    .name = "swiglu",
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
};

const yki_op yki_op_swiglu_grad = {
    .name = "swiglu_grad",
    .infer = infer,
    .flops = flops,
};

yoke_node *
yoke_swiglu(yoke_graph *graph, yoke_node *x)
{
    return yki_node1(graph, &yki_op_swiglu, x);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * bias.c - the gradient of a bias: (C, rest...) summed over the batch and over all
 * axes but the first. bias_solver.c computes it.
 */
#include "op/conv/conv.h"

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *dy = node->inputs[0];

    YKI_TRY(yki_check_f32("the input", dy));
    if (dy->shape.rank < 1)
        return yki_fail_shape("the input", dy, "(channels, ...)");
    node->type = YOKE_F32;
    node->shape = yoke_shape(dy->shape.dim[0]);
    node->batched = false;
    return YOKE_OK;
}

/* Those of one sample; the sum runs over the batch too. */
static double
flops(const yoke_node *node)
{
    return (double)yki_shape_count(node->inputs[0]->shape);
}

const yki_op yki_op_reduce_bias = {
    .name = "reduce_bias",
    .infer = infer,
    .flops = flops,
};

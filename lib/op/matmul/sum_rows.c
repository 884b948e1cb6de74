/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_rows.c - the sum over samples and all axes but the last: the gradient of a bias
 * that was added to every row.
 *
 * It is not a general reduction, and not differentiable: only gradient rules use it.
 */
#include "op/matmul/matmul.h"

static yoke_status
infer(yoke_node *node)
{
    const yoke_node *x = node->inputs[0];

    YKI_TRY(yki_check_f32("the input", x));
    if (x->shape.rank < 1)
        return yki_fail_shape("the input", x, "(..., columns)");
    node->type = YOKE_F32;
    node->shape = yoke_shape(x->shape.dim[x->shape.rank - 1]);
    node->batched = false;
    return YOKE_OK;
}

static double
flops(const yoke_node *node)
{
    return (double)yki_shape_count(node->inputs[0]->shape);
}

const yki_op yki_op_sum_rows = {
    .name = "sum_rows",
    .infer = infer,
    .flops = flops,
};

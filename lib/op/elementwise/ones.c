/* SPDX-License-Identifier: Apache-2.0
 *
 * ones.c - a tensor of ones like its input. Differentiation starts with it when the
 * loss is a plain scalar.
 */
#include "op/ops.h"

static yoke_status
infer(yoke_node *node)
{
    node->type = YOKE_F32;
    node->shape = node->inputs[0]->shape;
    node->batched = node->inputs[0]->batched;
    return YOKE_OK;
}

const yki_op yki_op_ones = {
    .name = "ones",
    .infer = infer,
};

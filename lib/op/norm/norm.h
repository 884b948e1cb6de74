/* SPDX-License-Identifier: Apache-2.0
 *
 * norm.h - what the solvers of batch normalisation have in common.
 */
#ifndef YKI_NORM_H
#define YKI_NORM_H

#include "op/ops.h"

/* Bits of the kernels' flags (norm_flags.cl). */
enum { AFFINE = 1, RESIDUAL = 2, RELU = 4 };

static inline int
yki_bn_flags(const yki_problem *problem)
{
    const yki_bn_attrs a = yki_bn_attrs_get(&problem->attrs);

    return (a.affine ? AFFINE : 0) | (a.residual ? RESIDUAL : 0) |
           (a.act == YKI_BN_RELU ? RELU : 0);
}

/* Whether an operand has the shape of x. */
static inline bool
yki_bn_is_image(const yki_problem *problem, const yki_operand *operand)
{
    return operand->batched == problem->in[0].batched &&
           yki_shape_equal(operand->shape, problem->in[0].shape);
}

#endif

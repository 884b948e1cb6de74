/* SPDX-License-Identifier: Apache-2.0
 *
 * tolerance.c - how far each operator may be from its oracle, as
 * max|a-b| / max|b| over the tensor, and why.
 *
 * Unit: u = 2^-24, half an ulp of 1. A chain of k multiply-adds has an error of
 * about sqrt(k) u in the root mean square and rarely above k u; results are not
 * smaller than the terms by much in these tests (random data), so the bound is
 * a few times sqrt(k) u, with k up to about 5000 here.
 */
#include "harness.h"

typedef struct row {
    const yki_op *op;
    yki_class numerical_class;
    double tolerance;
    const char *reason;
} row;

/* Transforms of F(4x4, 3x3) enlarge some terms that cancel again: the rms error is 3 times that of
 * a direct chain at 64 to 512 channels. Largest seen, at 256: 4.1e-6 forward, 4.9e-6 by the input;
 * by the weights 1.5e-6 (sums over tiles are shorter than those over pixels). */
#define WINOGRAD4 "5 times the direct one"

static const row rows[] = {
    {&yki_op_unary, YKI_CLASS_DIRECT, 1e-6,
     "exp of OpenCL to 4 ulp, tanh and cdf of the kernels to 3, and products"},
    {&yki_op_unary_grad, YKI_CLASS_DIRECT, 2e-6, "products of two such functions"},
    {&yki_op_binary, YKI_CLASS_DIRECT, 1e-7, "correctly rounded: u, twice for safety"},
    {&yki_op_loss, YKI_CLASS_DIRECT, 4e-6, "exp and log to 4 ulp, sums of up to 1000 terms"},
    {&yki_op_loss_grad, YKI_CLASS_DIRECT, 2e-6, "a quotient of such sums"},
    {&yki_op_counted, YKI_CLASS_DIRECT, 1e-7, "exact, but for the rounding of the oracle's input"},
    {&yki_op_ones, YKI_CLASS_DIRECT, 0, "exact"},
    {&yki_op_reorder, YKI_CLASS_DIRECT, 1e-7, "exact, but for the rounding of the oracle's input"},
    {&yki_op_batch_sum, YKI_CLASS_DIRECT, 2e-6, "a chain of up to 300 sums"},
    {&yki_op_reduce, YKI_CLASS_DIRECT, 4e-6, "a chain of up to 1000 sums"},
    {&yki_op_concat, YKI_CLASS_DIRECT, 1e-7, "exact, but for the rounding of the oracle's input"},
    {&yki_op_slice, YKI_CLASS_DIRECT, 1e-7, "exact, but for the rounding of the oracle's input"},
    {&yki_op_unslice, YKI_CLASS_DIRECT, 1e-7, "exact, but for the rounding of the oracle's input"},
    {&yki_op_transpose, YKI_CLASS_DIRECT, 1e-7,
     "exact, but for the rounding of the oracle's input"},
    {&yki_op_softmax, YKI_CLASS_DIRECT, 2e-6, "exp to 4 ulp, sums of up to 1000 positive terms"},
    {&yki_op_softmax_grad, YKI_CLASS_DIRECT, 2e-6, "a difference of dy and a chain of 1000 terms"},
    {&yki_op_embedding, YKI_CLASS_DIRECT, 1e-7,
     "exact, but for the rounding of the oracle's input"},
    {&yki_op_embedding_grad, YKI_CLASS_DIRECT, 2e-6, "a chain of up to 300 sums"},
    {&yki_op_dropout, YKI_CLASS_DIRECT, 2e-7, "a product with a rounded factor"},
    {&yki_op_custom, YKI_CLASS_DIRECT, 1e-6, "sums of up to ten products in the test's kernels"},
    {&yki_op_custom_grad, YKI_CLASS_DIRECT, 1e-6, "the same"},
    {&yki_op_conv2d, YKI_CLASS_DIRECT, 2e-6,
     "chains of C/groups kh kw up to 5000; largest of many sums"},
    {&yki_op_conv2d_grad_input, YKI_CLASS_DIRECT, 2e-6, "the same, of O/groups kh kw"},
    {&yki_op_conv2d_grad_weight, YKI_CLASS_DIRECT, 2e-6, "the same, of N OH OW, in parts"},
    {&yki_op_conv2d, YKI_CLASS_WINOGRAD4, 1e-5, WINOGRAD4},
    {&yki_op_conv2d_grad_input, YKI_CLASS_WINOGRAD4, 1e-5, WINOGRAD4},
    {&yki_op_conv2d_grad_weight, YKI_CLASS_WINOGRAD4, 1e-5, WINOGRAD4},
    {&yki_op_reduce_bias, YKI_CLASS_DIRECT, 2e-6, "sums of N OH OW terms in parts"},
    {&yki_op_matmul, YKI_CLASS_DIRECT, 5e-6, "a chain of up to 2000 terms"},
    {&yki_op_sum_rows, YKI_CLASS_DIRECT, 5e-6, "a chain of up to 2000 terms"},
    {&yki_op_maxpool2d, YKI_CLASS_DIRECT, 1e-7,
     "exact, but for the rounding of the oracle's input"},
    {&yki_op_maxpool2d_grad, YKI_CLASS_DIRECT, 1e-6,
     "sums over the windows of an element, up to 100"},
    {&yki_op_avgpool2d, YKI_CLASS_DIRECT, 1e-6, "sums over a window, up to 100, and two roundings"},
    {&yki_op_avgpool2d_grad, YKI_CLASS_DIRECT, 1e-6, "the same over the windows of an element"},
    {&yki_op_global_avgpool, YKI_CLASS_DIRECT, 2e-6, "a mean over up to 3000, in vectors"},
    {&yki_op_global_avgpool_grad, YKI_CLASS_DIRECT, 4e-7, "a quotient to 2.5 ulp and a product"},
    {&yki_op_bn_stats, YKI_CLASS_DIRECT, 5e-6, "chains of up to 4096 terms, a tile, then merges"},
    {&yki_op_bn_apply, YKI_CLASS_DIRECT, 2e-6,
     "a division, a root, two roundings of the difference"},
    {&yki_op_bn_grad_stats, YKI_CLASS_DIRECT, 5e-6, "the same"},
    {&yki_op_bn_grad, YKI_CLASS_DIRECT, 2e-6, "as bn_apply"},
    {&yki_op_bn_running, YKI_CLASS_DIRECT, 5e-7, "two products and a division"},
    {&yki_op_bn_known, YKI_CLASS_DIRECT, 1e-7, "exact, but for the rounding of the oracle's input"},
    {&yki_op_layer_norm, YKI_CLASS_DIRECT, 2e-6, "as bn_apply; a mean of up to 5000 in vectors"},
    {&yki_op_layer_norm_grad, YKI_CLASS_DIRECT, 4e-6, "the same with two such sums"},
    {&yki_op_layer_norm_grad_params, YKI_CLASS_DIRECT, 5e-6, "a chain over up to 2000 rows"},
    {&yki_op_row, YKI_CLASS_DIRECT, 1e-7, "exact, but for the rounding of the oracle's input"},
};

double
op_tolerance(const yki_op *op, yki_class numerical_class)
{
    for (size_t i = 0; i < YKI_COUNT(rows); i++)
        if (rows[i].op == op && rows[i].numerical_class == numerical_class)
            return rows[i].tolerance;
    ck_abort_msg("operator %s has no tolerance for class %d (tests/op/tolerance.c)", op->name,
                 (int)numerical_class);
    return 0;
}

bool
op_rows_differ(const yki_op *op)
{
    return op == &yki_op_bn_stats || op == &yki_op_bn_known || op == &yki_op_bn_grad_stats ||
           op == &yki_op_layer_norm_grad_params;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * oracles.c - finds the oracle and the tolerance of an operator.
 */
#include "oracles.h"

const yki_op *const op_sum_of_two = &yki_op_binary;

op_oracle op_custom_oracle;

static void
oracle_custom(const op_run *run, double *out)
{
    op_custom_oracle(run, out);
}

const op_row op_rows_custom[] = {
    {&yki_op_custom, oracle_custom, 1e-6, "sums of up to ten products in the test's kernels", 0},
    {&yki_op_custom_grad, oracle_custom, 1e-6, "the same", 0},
    {0},
};

const op_row *
op_find_row(const yki_op *op)
{
#define FAMILY(family) op_rows_##family,
    static const op_row *const families[] = {OP_FAMILIES(FAMILY)};
#undef FAMILY

    for (size_t i = 0; i < YKI_COUNT(families); i++)
        for (const op_row *row = families[i]; row->op; row++)
            if (row->op == op)
                return row;
    return NULL;
}

static const op_rounded_row rounded_rows[] = {
    {&yki_op_matmul, 2, 5e-6, 5e-6, 5e-6, "as without rounding: a chain of up to 2000 terms"},
    {&yki_op_conv2d, 2, 5e-6, 5e-6, 5e-6, "the same"},
    {&yki_op_conv2d_grad_input, 2, 5e-6, 5e-6, 5e-6, "the same"},
    {&yki_op_conv2d_grad_weight, 2, 5e-6, 5e-6, 5e-6, "the same, and of its parts"},
    {&yki_op_linear_loss, 0, 1e-2, 1.3e-3, 1.3e-3,
     "a product is off by 2^-8, by 2^-11, a few times that where terms cancel"},
    {&yki_op_linear_loss_grad, 0, 1e-2, 1.3e-3, 1.3e-3, "the same"},
};

const op_rounded_row *
op_find_rounded_row(const yki_op *op)
{
    for (size_t i = 0; i < YKI_COUNT(rounded_rows); i++)
        if (rounded_rows[i].op == op)
            return &rounded_rows[i];
    return NULL;
}

double
op_tolerance(const yki_op *op, yki_class numerical_class)
{
    const op_row *row = op_find_row(op);
    const op_rounded_row *rounded = op_find_rounded_row(op);
    double tolerance;

    ck_assert_msg(row != NULL, "operator %s has no tolerance (tests/op/oracle_<family>.c)",
                  op->name);
    tolerance = numerical_class == YKI_CLASS_DIRECT      ? row->tolerance
                : numerical_class == YKI_CLASS_WINOGRAD4 ? row->winograd4
                : !rounded                               ? 0
                : numerical_class == YKI_CLASS_TF32      ? rounded->tf32
                : numerical_class == YKI_CLASS_F16       ? rounded->f16
                                                         : rounded->bf16;
    /* What is exact has the tolerance 0 in the direct class. */
    ck_assert_msg(tolerance > 0 || numerical_class == YKI_CLASS_DIRECT,
                  "operator %s has no tolerance for class %d (tests/op/oracle_<family>.c)",
                  op->name, (int)numerical_class);
    return tolerance;
}

bool
op_rows_differ(const yoke_node *node)
{
    const yki_op *op = node->op;

    return op == &yki_op_bn_stats || op == &yki_op_bn_known || op == &yki_op_bn_grad_stats ||
           (op == &yki_op_layer_norm_grad_params && !yki_ln_attrs_get(&node->attrs).rms);
}

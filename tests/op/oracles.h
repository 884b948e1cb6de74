/* SPDX-License-Identifier: Apache-2.0
 *
 * oracles.h - what the tests know of each operator: its oracle, which is its meaning in double, and
 * how far a device may be from that. One row for each operator stands below its oracle, in
 * oracle_<family>.c.
 *
 * The tolerance is max|a-b| / max|b| over the tensor. Unit: u = 2^-24, half an ulp of 1. A chain of
 * k multiply-adds has an error of about sqrt(k) u in the root mean square and rarely above k u;
 * results are not smaller than the terms by much in these tests (random data), so the bound is a
 * few times sqrt(k) u, with k up to about 5000 here.
 */
#ifndef YOKE_TESTS_ORACLES_H
#define YOKE_TESTS_ORACLES_H

#include "harness.h"

typedef struct op_row {
    const yki_op *op;
    op_oracle oracle;
    double tolerance;
    const char *reason; /* of the tolerance */
    double winograd4;   /* tolerance of solvers of YKI_CLASS_WINOGRAD4; 0: there are none */
} op_row;

/* What the classes of bfloat16, TF32 and half add for the operators that have them. */
typedef struct op_rounded_row {
    const yki_op *op;
    uint32_t rounded; /* so many inputs are rounded before the oracle sees them: products of such
                       * numbers are exact in float32, so what is left is the rounding of sums */
    double bf16, tf32, f16; /* tolerances */
    const char *reason;
} op_rounded_row;

/* The families: X(family) is op_rows_FAMILY, which ends with a row of zeros. */
#define OP_FAMILIES(X)                                                                             \
    X(elementwise)                                                                                 \
    X(reduce)                                                                                      \
    X(loss)                                                                                        \
    X(shape)                                                                                       \
    X(softmax)                                                                                     \
    X(attention)                                                                                   \
    X(sequence)                                                                                    \
    X(embedding)                                                                                   \
    X(dropout)                                                                                     \
    X(custom)                                                                                      \
    X(conv)                                                                                        \
    X(matmul)                                                                                      \
    X(pool)                                                                                        \
    X(norm)

#define OP_ROWS(family) extern const op_row op_rows_##family[];
OP_FAMILIES(OP_ROWS)
#undef OP_ROWS

/* The row of an operator; NULL: there is none. */
const op_row *op_find_row(const yki_op *op);
const op_rounded_row *op_find_rounded_row(const yki_op *op);

/* The test's own, for custom and custom_grad (whose attributes say by which input). */
extern op_oracle op_custom_oracle;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.h - what the matrix operators share with their solvers: a product with all
 * its axes, reduced to as few as possible.
 *
 * Whatever the shapes of the operands, a product is
 *
 *     C[z][m][n] = sum over s, k of A[z, s][m][k] * B[z, s][k][n]
 *
 * with strides for each axis of A and B (0 where an operand is broadcast), and a
 * row-major C. yki_gemm_of() finds this form, and folds axes that are adjacent in
 * memory: samples become rows where the second operand is the same for all of them,
 * and a sum over samples becomes a longer inner sum.
 */
#ifndef YKI_MATMUL_H
#define YKI_MATMUL_H

#include "op/ops.h"

/* A shape as matrices: the leading axes, and rows and columns after transposing. */
typedef struct yki_matmul_view {
    yoke_shape lead;
    int64_t rows, columns;
} yki_matmul_view;
yki_matmul_view yki_matmul_view_of(yoke_shape shape, bool transpose);

enum { YKI_GEMM_AXES = 6 }; /* samples, and the leading axes of a tensor of rank 7 */

typedef struct yki_gemm_axis {
    yki_expr size;
    int64_t a, b; /* strides, in elements; 0: broadcast */
} yki_gemm_axis;

typedef struct yki_gemm {
    yki_expr m, n, k;
    int64_t a_m, a_k, b_k, b_n; /* strides, in elements */
    /* The outermost come first: `outer` axes of the result, then `sum` axes that are summed
     * over. */
    yki_gemm_axis axes[YKI_GEMM_AXES];
    uint32_t outer, sum;
    yki_expr z; /* product of the sizes of the outer axes */
    bool bias, relu;
    bool gate, sums;     /* as in the attributes; only some solvers can do them */
    bool pack_a, pack_b; /* for gemm_cpu.cl; set by its solver */
} yki_gemm;

/* Finds the form of a problem. Returns false where a number does not fit a kernel's int, or a
 * layout is not plain. */
bool yki_gemm_of(const yki_problem *problem, yki_gemm *gemm);
/* Returns the product of two expressions, of which at most one depends on an extent. */
yki_expr yki_gemm_times(yki_expr a, yki_expr b);
/* yki_gemm_size_args appends sizes, strides and flags as arguments, in the order in which all
 * kernels take them; yki_gemm_args appends the axes too. `part` is the number in which the names of
 * the parameters end; -1: they end in none. */
void yki_gemm_size_args(yki_recipe *recipe, const yki_gemm *gemm, int part);
void yki_gemm_args(yki_recipe *recipe, const yki_gemm *gemm);
/* Adds a launch that computes C from `parts` partial sums in slot `from`. With one part, which
 * is C itself, it applies bias and relu alone. */
void yki_gemm_emit_finish(yki_recipe *recipe, const yki_problem *problem, const yki_gemm *gemm,
                          const yki_device_traits *traits, uint32_t from, int64_t parts);
/* How gemm_cpu.cl divides a product (gemm_cpu.c). */
typedef struct yki_gemm_cpu_tile {
    int64_t lanes, vectors, rows; /* a tile is rows x (lanes * vectors) */
    yki_dot_unit unit;
} yki_gemm_cpu_tile;

typedef struct yki_gemm_cpu_blocking {
    yki_gemm_cpu_tile tile;
    int64_t nx, ny, nz;            /* groups at the largest extents */
    int64_t row_tiles, col_panels; /* in a group */
    int64_t kc, mc, nc;
    int64_t scratch; /* floats for each group */
    bool pack_a, pack_b;
} yki_gemm_cpu_blocking;

/* Returns the tile for results of n columns. */
yki_gemm_cpu_tile yki_gemm_cpu_tile_for(const yki_device_traits *traits, yki_dot_unit unit,
                                        int64_t n);
/* Adds the launch of one of the kernels of gemm_cpu.cl. */
yki_launch *yki_gemm_cpu_launch(yki_recipe *recipe, const char *kernel, yki_gemm_cpu_tile tile);
yki_gemm_cpu_blocking yki_gemm_cpu_choose(yki_extents max, const yki_gemm *gemm,
                                          const yki_device_traits *traits, yki_gemm_cpu_tile tile,
                                          unsigned tuning);
/* Returns the loop iterations of the group that makes most. */
int64_t yki_gemm_cpu_iterations(const yki_gemm_cpu_blocking *blocking, const yki_gemm *gemm,
                                yki_extents max);
/* Returns the work-items in a group of the kernels of sum_rows.cl. */
uint32_t yki_sum_group(const yki_device_traits *traits);
/* Adds a launch of one of them, all with the same build options, so that they are one program. */
yki_launch *yki_sum_launch(yki_recipe *recipe, const yki_device_traits *traits, const char *kernel);
/* The FLOPs and bytes of the whole problem. */
void yki_gemm_cost(yki_expr *flops, yki_expr *bytes, const yki_problem *problem,
                   const yki_gemm *gemm);

#endif

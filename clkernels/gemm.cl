/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.cl - matrix products for any device: tiles in local memory (tile.cl).
 *
 *     C[z][m][n] = sum over s, k of A[z, s][m][k] * B[z, s][k][n]  (+ bias[n], relu, gate)
 *
 * A and B have a stride for every axis, so one kernel serves transposed and broadcast
 * operands; C is row-major. How a matrix is read, A_FORM and B_FORM, the host decides
 * from strides and sizes. Every element is one chain of multiply-adds in the order of s,
 * k, from 0, so its value does not depend on where it is. -DDOT says with what they are made.
 *
 * Long sums of small results are divided into `parts` along the outermost summed axis, or along k
 * at multiples of 16 terms, of pairs 32; yki_gemm_finish (sum_rows.cl) adds the parts in order.
 *
 * Axes i < outer are the result's; the next `sum` ones are summed over.
 */
#define W 4
#include "dot.cl"
#include "tile.cl"
#include "tile_mma.cl"
#ifndef A_FORM
#define A_FORM TILE_BY_K
#endif
#ifndef B_FORM
#define B_FORM TILE_BY_ROW
#endif
#include "tile_ahead.cl"
/* Whether there are axes of the result, and such to sum over: without them the kernel has more
 * registers for its tile. */
#ifndef OUTER_AXES
#define OUTER_AXES 1
#endif
#ifndef SUM_AXES
#define SUM_AXES 1
#endif
/* Whether a group may have several tiles: also a matter of registers. */
#ifndef LOOPS
#define LOOPS 1
#endif
#define NEXT(at, step, end) (LOOPS ? (at) + (step) : (end))
#define STEP 16

/* Whether the sums of A over k are a further result; only without axes, and of an A whose rows are
 * adjacent. The last group of each row of groups has them. */
#ifndef SUMS
#define SUMS 0
#endif
#if SUMS
#include "sum_columns.cl"
/* Where A is pairs, its floats come in the place of a bias, which such a product has not. */
#define SUMS_OF (DOT_OF_PAIRS ? more : A)
#define SUMS_DOWN 4 /* of every tile, which all have the same bits */
/* Columns of 4 at a time: those of the tile, or as many as the group has items for. */
#define SUMS_ACROSS (TILE_ITEMS / SUMS_DOWN < TM / 4 ? TILE_ITEMS / SUMS_DOWN : TM / 4)
#endif

#define FLAG_BIAS 1
#define FLAG_RELU 2
#define FLAG_GATE 64

#define AXIS_PARAMS(i) int e##i, int a##i, int b##i

/* Takes axis i off the running index: the position along it is `index % size`, as a
 * long: of a remainder beside a division LLVM makes a freeze, which Oclgrind lacks. */
#define AXIS_STEP(i, first, last, index, oa, ob)                                              \
    if (i >= (first) && i < (last)) {                                                         \
        int next_ = index / e##i;                                                             \
        long at_ = (long)index - (long)next_ * e##i;                                          \
                                                                                              \
        index = next_;                                                                        \
        oa += at_ * a##i;                                                                     \
        ob += at_ * b##i;                                                                     \
    }
#define AXES(first, last, index, oa, ob)                                                      \
    {                                                                                         \
    AXIS_STEP(5, first, last, index, oa, ob)                                                  \
    AXIS_STEP(4, first, last, index, oa, ob)                                                  \
    AXIS_STEP(3, first, last, index, oa, ob)                                                  \
    AXIS_STEP(2, first, last, index, oa, ob)                                                  \
    AXIS_STEP(1, first, last, index, oa, ob)                                                  \
    AXIS_STEP(0, first, last, index, oa, ob)                                                  \
    }
#define SIZE_OF(i, first, last) (i >= (first) && i < (last) ? e##i : 1)
#define SIZES(first, last)                                                                    \
    (SIZE_OF(0, first, last) * SIZE_OF(1, first, last) * SIZE_OF(2, first, last) *            \
     SIZE_OF(3, first, last) * SIZE_OF(4, first, last) * SIZE_OF(5, first, last))

/* A form whose terms or rows are adjacent has a constant stride there. */
#define ROW_STRIDE(form, stride) ((form) == TILE_BY_ROW4 ? 1 : (stride))
#define K_STRIDE(form, stride)   ((form) == TILE_BY_K4 ? 1 : (stride))

#define LOAD(at)                                                                              \
    tile_load(ra, pa, A_FORM, TM, tile_item, m - row0, k1 - k0, ROW_STRIDE(A_FORM, a_m),      \
              K_STRIDE(A_FORM, a_k), at);                                                     \
    tile_load(rb, pb, B_FORM, TN, tile_item, n - col0, k1 - k0, ROW_STRIDE(B_FORM, b_n),      \
              K_STRIDE(B_FORM, b_k), at);
#define STORE(half)                                                                           \
    TILE_STORE_A(half, ra, A_FORM)                                                            \
    TILE_STORE_B(half, rb, B_FORM)

#define FETCH(round, at)                                                                      \
    {                                                                                         \
        TILE_FETCH_A(round, pa, A_FORM, m - row0, k1 - k0, ROW_STRIDE(A_FORM, a_m),           \
                     K_STRIDE(A_FORM, a_k), at)                                               \
        TILE_FETCH_B(round, pb, B_FORM, n - col0, k1 - k0, ROW_STRIDE(B_FORM, b_n),           \
                     K_STRIDE(B_FORM, b_k), at)                                               \
    }

/* Writes 4 columns of a row of n. `more` is the bias, or the gate's row: 0 where that is not
 * positive. Relu is max(x, 0), and NaN stays NaN. */
static __attribute__((always_inline)) void
put(__global float *row, float4 x, int column, int n, __global const float *more, int flags)
{
    if (n % 4 == 0) {
        if (column >= n)
            return;
        if (flags & FLAG_BIAS)
            x += *(__global const float4 *)(more + column);
        if (flags & FLAG_RELU)
            x = select(x, (float4)(0.f), x <= 0.f);
        if (flags & FLAG_GATE)
            x = select(x, (float4)(0.f), *(__global const float4 *)(more + column) <= 0.f);
        *(__global float4 *)(row + column) = x;
    } else {
        float lanes[4];

        vstore4(x, 0, lanes);
        for (int i = 0; i < 4 && column + i < n; i++) {
            float y = lanes[i] + (flags & FLAG_BIAS ? more[column + i] : 0.f);

            if ((flags & FLAG_RELU && y <= 0.f) || (flags & FLAG_GATE && more[column + i] <= 0.f))
                y = 0.f;
            row[column + i] = y;
        }
    }
}

__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_gemm_tiled(__global const float *A, __global const float *B, __global float *C,
               __global const float *more, __global float *sums, int parts, int m, int n, int k, int a_m, int a_k,
               int b_k, int b_n, int flags, int outer, int sum, AXIS_PARAMS(0), AXIS_PARAMS(1),
               AXIS_PARAMS(2), AXIS_PARAMS(3), AXIS_PARAMS(4), AXIS_PARAMS(5))
{
    TILE_START
    int zs = OUTER_AXES ? SIZES(0, outer) : 1, last_flags = parts > 1 ? 0 : flags;

#if SUMS
    const int terms = k;

    if (get_group_id(0) == get_num_groups(0) - 1 && get_group_id(2) == 0)
        for (int c = 0; c < TM; c += 4 * SUMS_ACROSS)
            sum_columns((__local float4 *)tile_a, tile_item, SUMS_ACROSS, SUMS_DOWN, SUMS_OF, terms, m,
                        (int)get_group_id(1) * TM + c, sums);
#endif
#if DOT_OF_PAIRS
    k = (k + 7) / 8 * 4; /* words, of which the last may have zeros */
#endif
    for (int zp = (int)get_group_id(2); zp < zs * parts;
         zp = NEXT(zp, (int)get_num_groups(2), zs * parts)) {
        int part = zp; /* what is left of it behind the axes */
        long za = 0, zb = 0;

        if (OUTER_AXES)
            AXES(0, outer, part, za, zb)
#if SUM_AXES
        int sums = SIZES(outer, outer + sum), k0 = 0, k1 = k;
        int s0 = (int)((long)sums * part / parts), s1 = (int)((long)sums * (part + 1) / parts);
#else
        long steps = ((long)k + STEP - 1) / STEP;
        int k0 = (int)min((long)k, steps * part / parts * STEP);
        int k1 = (int)min((long)k, steps * (part + 1) / parts * STEP);
#endif
        for (int row0 = (int)get_group_id(1) * TM; row0 < m;
             row0 = NEXT(row0, (int)get_num_groups(1) * TM, m))
            for (int col0 = (int)get_group_id(0) * TN; col0 < n;
                 col0 = NEXT(col0, (int)get_num_groups(0) * TN, n)) {
                __global const float *pa = A + za + (long)row0 * a_m + (long)k0 * a_k;
                __global const float *pb = B + zb + (long)col0 * b_n + (long)k0 * b_k;
                float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];
                float4 acc[TILE_ACCS];

                TILE_ZERO(acc)
#if SUM_AXES
                for (int s = s0; s < s1; s++) {
                    int index = s;
                    long oa = 0, ob = 0;

                    AXES(outer, outer + sum, index, oa, ob)
                    pa += oa;
                    pb += ob;
                    TILE_SUM_EITHER(acc, k1 - k0, LOAD, STORE, FETCH)
                    pa -= oa;
                    pb -= ob;
                }
#else
                TILE_SUM_EITHER(acc, k1 - k0, LOAD, STORE, FETCH)
#endif
#pragma unroll
                for (int i = 0; i < IM; i++) {
                    int row = row0 + TILE_ROW(i);
                    long at = ((long)zp * m + row) * n;

                    if (row < m)
#pragma unroll
                        for (int j = 0; j < IN / 4; j++)
                            put(C + at, acc[TILE_ACC(i, j)], col0 + TILE_COLUMN(j), n,
                                last_flags & FLAG_GATE ? more + at : more, last_flags);
                }
            }
    }
}
DOT_END

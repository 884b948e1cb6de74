/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.cl - matrix products for any device: tiles in local memory.
 *
 *     C[z][m][n] = sum over s, k of A[z, s][m][k] * B[z, s][k][n]  (+ bias[n], relu)
 *
 * A and B have a stride for every axis, so one kernel serves transposed and broadcast
 * operands; C is row-major. A group of WG x WG work-items computes a tile of 4 WG rows
 * and columns, 4 x 4 for each work-item, and walks the inner sum in steps of KT
 * through local memory. Every element is one chain of multiply-adds in the order of s,
 * k, from 0, so its value does not depend on where it is.
 *
 * Long sums of small results are divided into `parts` along the outermost summed axis;
 * yki_gemm_finish adds the parts in order.
 *
 * Axes i < outer are the result's; the next `sum` ones are summed over.
 */
#ifndef WG
#define WG 16
#endif
#ifndef VEC
#define VEC 4
#endif
#ifndef SUM_WG
#define SUM_WG 1
#endif
#define KT 16
#define RM 4
#define RN 4
#define TILE (WG * 4)

#define FLAG_BIAS 1
#define FLAG_RELU 2

#define AXIS_PARAMS(i) int e##i, int a##i, int b##i

/* Takes axis i off the running index: the position along it is `index % size`. */
#define AXIS_STEP(i, first, last, index, oa, ob)                                              \
    if (i >= (first) && i < (last)) {                                                         \
        int next_ = index / e##i, at_ = index - next_ * e##i;                                 \
                                                                                              \
        index = next_;                                                                        \
        oa += (long)at_ * a##i;                                                               \
        ob += (long)at_ * b##i;                                                               \
    }
#define AXES(first, last, index, oa, ob)                                                      \
    AXIS_STEP(5, first, last, index, oa, ob)                                                  \
    AXIS_STEP(4, first, last, index, oa, ob)                                                  \
    AXIS_STEP(3, first, last, index, oa, ob)                                                  \
    AXIS_STEP(2, first, last, index, oa, ob)                                                  \
    AXIS_STEP(1, first, last, index, oa, ob)                                                  \
    AXIS_STEP(0, first, last, index, oa, ob)
#define SIZES(result, first, last)                                                            \
    {                                                                                         \
        const int e_[6] = {e0, e1, e2, e3, e4, e5};                                           \
        for (int i_ = (first); i_ < (last); i_++)                                             \
            result *= e_[i_];                                                                 \
    }

/* max(x, 0); NaN stays NaN. */
float finish(float x, __global const float *bias, int column, int flags)
{
    if (flags & FLAG_BIAS)
        x += bias[column];
    if (flags & FLAG_RELU)
        x = x <= 0.f ? 0.f : x;
    return x;
}

/* Loads a block of op(X) with `rows` along the tile: to[k][row], with zeros outside.
 * Neighbouring work-items read adjacent addresses, whichever axis that is. */
void load_tile(__local float *to, __global const float *x, int row_stride, int k_stride, int rows,
               int ks, int item)
{
    /* Unsigned, so that quotients and remainders by powers of two are shifts and masks. */
    for (uint i = (uint)item; i < KT * TILE; i += WG * WG) {
        int row = (int)(k_stride == 1 ? i / KT : i % TILE);
        int k = (int)(k_stride == 1 ? i % KT : i / TILE);

        to[k * (TILE + 1) + row] =
            row < rows && k < ks ? x[(long)row * row_stride + (long)k * k_stride] : 0.f;
    }
}

/* One term of the work-item's 4 x 4 elements. It is a macro because Oclgrind 21 cannot pass an
 * array of arrays to a function. */
#define MULTIPLY_STEP(q)                                                                      \
    {                                                                                         \
        float va[RM], vb[RN];                                                                 \
                                                                                              \
        for (int i = 0; i < RM; i++)                                                          \
            va[i] = ta[(q) * (TILE + 1) + ly + i * WG];                                       \
        for (int j = 0; j < RN; j++)                                                          \
            vb[j] = tb[(q) * (TILE + 1) + lx + j * WG];                                       \
        for (int i = 0; i < RM; i++)                                                          \
            for (int j = 0; j < RN; j++)                                                      \
                acc[i][j] = YKI_FMA(va[i], vb[j], acc[i][j]);                                 \
    }

__kernel YKI_GROUP(WG, WG) void
yki_gemm_tiled(__global const float *A, __global const float *B, __global float *C,
               __global const float *bias, int parts, int m, int n, int k, int a_m, int a_k,
               int b_k, int b_n, int flags, int outer, int sum, AXIS_PARAMS(0), AXIS_PARAMS(1),
               AXIS_PARAMS(2), AXIS_PARAMS(3), AXIS_PARAMS(4), AXIS_PARAMS(5))
{
    __local float ta[KT * (TILE + 1)], tb[KT * (TILE + 1)];
    int lx = (int)get_local_id(0), ly = (int)get_local_id(1), item = ly * WG + lx;
    int zs = 1, sums = 1;

    SIZES(zs, 0, outer)
    SIZES(sums, outer, outer + sum)
    for (int zp = (int)get_group_id(2); zp < zs * parts; zp += (int)get_num_groups(2)) {
        int part = zp / zs, index = zp - part * zs;
        int s0 = 0, s1 = sums, k0 = 0, k1 = k;
        long za = 0, zb = 0;

        AXES(0, outer, index, za, zb)
        if (sum > 0) {
            s0 = (int)((long)sums * part / parts);
            s1 = (int)((long)sums * (part + 1) / parts);
        } else {
            k0 = (int)((long)k * part / parts);
            k1 = (int)((long)k * (part + 1) / parts);
        }
        for (int row0 = (int)get_group_id(1) * TILE; row0 < m;
             row0 += (int)get_num_groups(1) * TILE)
            for (int col0 = (int)get_group_id(0) * TILE; col0 < n;
                 col0 += (int)get_num_groups(0) * TILE) {
                float acc[RM][RN];

                for (int i = 0; i < RM; i++)
                    for (int j = 0; j < RN; j++)
                        acc[i][j] = 0.f;
                for (int s = s0; s < s1; s++) {
                    long oa = za, ob = zb;

                    index = s;
                    AXES(outer, outer + sum, index, oa, ob)
                    for (int kk = k0; kk < k1; kk += KT) {
                        int ks = min(KT, k1 - kk);

                        load_tile(ta, A + oa + (long)row0 * a_m + (long)kk * a_k, a_m, a_k,
                                  m - row0, ks, item);
                        load_tile(tb, B + ob + (long)col0 * b_n + (long)kk * b_k, b_n, b_k,
                                  n - col0, ks, item);
                        barrier(CLK_LOCAL_MEM_FENCE);
                        if (ks == KT)
                            for (int q = 0; q < KT; q++)
                                MULTIPLY_STEP(q)
                        else
                            for (int q = 0; q < ks; q++)
                                MULTIPLY_STEP(q)
                        barrier(CLK_LOCAL_MEM_FENCE);
                    }
                }
                for (int i = 0; i < RM; i++)
                    for (int j = 0; j < RN; j++) {
                        int row = row0 + ly + i * WG, col = col0 + lx + j * WG;

                        if (row < m && col < n)
                            C[((long)zp * m + row) * n + col] =
                                parts > 1 ? acc[i][j] : finish(acc[i][j], bias, col, flags);
                    }
            }
    }
}

/* out[i] = parts[0][i] + parts[1][i] + ...; each part has `count` elements, and i % columns is
 * the column. */
__kernel YKI_GROUP(SUM_WG, 1) void
yki_gemm_finish(__global const float *parts, __global float *out, __global const float *bias,
                int count, int part_count, int columns, int flags)
{
    for (int i = (int)get_global_id(0); i < count; i += (int)get_global_size(0)) {
        float sum = 0.f;

        for (int p = 0; p < part_count; p++)
            sum += parts[(long)p * count + i];
        out[i] = finish(sum, bias, i % columns, flags);
    }
}

/* out[part][c] = sum over the part's rows of x[row][c]. A work-item has VEC columns. */
__kernel YKI_GROUP(SUM_WG, 1) void
yki_sum_rows(__global const float *x, __global float *out, int rows, int columns)
{
    int part = (int)get_group_id(1), parts = (int)get_num_groups(1);
    int row0 = (int)((long)rows * part / parts), row1 = (int)((long)rows * (part + 1) / parts);

    for (int c = (int)get_global_id(0) * VEC; c < columns; c += (int)get_global_size(0) * VEC) {
        int width = min(VEC, columns - c);
        __global const float *from = x + (long)row0 * columns + c;
        float sum[VEC];

        for (int j = 0; j < VEC; j++)
            sum[j] = 0.f;
        if (width == VEC)
            for (int row = row0; row < row1; row++, from += columns)
                for (int j = 0; j < VEC; j++)
                    sum[j] += from[j];
        else
            for (int row = row0; row < row1; row++, from += columns)
                for (int j = 0; j < width; j++)
                    sum[j] += from[j];
        for (int j = 0; j < width; j++)
            out[(long)part * columns + c + j] = sum[j];
    }
}

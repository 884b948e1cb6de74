/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_gemm_weight.cl - gradients of convolutions by their weight as implicit matrix products,
 * in plain layout, with any kernel, stride, pad, dilation and groups.
 *
 *     part[split][o][p] = sum over k of dy[o][k] * x[k][p]
 *
 * Rows o are the output channels of a group, columns p its (channel, vertical tap, horizontal
 * tap), and k runs over the positions of the split's samples. What an element's place owes to its
 * column is noted once for all items, in local memory. What it owes to k an item keeps for the
 * one position that it reads from: it counts through the positions without a division. In the form
 * FLAT, for 1x1 kernels of stride 1 without padding, both operands are matrices for each sample,
 * read in float4.
 *
 * Letters: x (N, G * CG, H, W), dy (N, G * OG, OH, OW).
 */
#include "tile.cl"

#ifndef FLAT
#define FLAT 0
#endif

/* An item reads one position of every STEP-th row and column, or four positions. */
#define STEP (TILE_ITEMS / TK)
#if FLAT
#define OWN        ((int)(item / 16 % 2) * 4)
#define A_COUNT    (TILE_FLOATS(TM) / 4)
#define B_COUNT    (TILE_FLOATS(TN) / 4)
#define A_OF(u)    tile_row(TILE_BY_K4, TM, tile_item, u)
#define B_OF(u)    tile_row(TILE_BY_K4, TN, tile_item, u)
#define FOUR(r, u) r[4 * u] = f.s0, r[4 * u + 1] = f.s1, r[4 * u + 2] = f.s2, r[4 * u + 3] = f.s3;
#define READ                                                                                  \
    _Pragma("unroll") for (int u = 0; u < A_COUNT; u++)                                       \
    {                                                                                         \
        float4 f = *(__global const float4 *)(from_dy + row_at[u]);                           \
                                                                                              \
        FOUR(ra, u)                                                                           \
    }                                                                                         \
    _Pragma("unroll") for (int u = 0; u < B_COUNT; u++)                                       \
    {                                                                                         \
        float4 f = *(__global const float4 *)(from_x + column_at[u]);                         \
                                                                                              \
        FOUR(rb, u)                                                                           \
    }
#define STORE(half)                                                                           \
    tile_store(&TILE_A(half, 0, 0), TILE_A_STEP, ra, TILE_BY_K4, TM, tile_item);              \
    tile_store(&TILE_B(half, 0, 0), TILE_B_STEP, rb, TILE_BY_K4, TN, tile_item);
#else
#define OWN     ((int)(item % TK))
#define A_COUNT TILE_FLOATS(TM)
#define B_COUNT TILE_FLOATS(TN)
#define A_OF(u) ((int)(item / TK) + u * STEP)
#define B_OF(u) ((int)(item / TK) + u * STEP)
#define READ                                                                                  \
    {                                                                                         \
        int iy = oy * sh, ix = ox * sw;                                                       \
        __global const float *px = from_x + (iy * w + ix);                                    \
                                                                                              \
        _Pragma("unroll") for (int u = 0; u < A_COUNT; u++) ra[u] = from_dy[row_at[u]];       \
        _Pragma("unroll") for (int u = 0; u < B_COUNT; u++)                                   \
        {                                                                                     \
            int4 c = taps[B_OF(u)];                                                           \
                                                                                              \
            rb[u] = (uint)(iy + c.s1) < (uint)h && (uint)(ix + c.s2) < (uint)w ? px[c.s0]     \
                                                                               : 0.f;         \
        }                                                                                     \
    }
#define STORE(half)                                                                           \
    _Pragma("unroll") for (int u = 0; u < A_COUNT; u++) TILE_A(half, OWN, A_OF(u)) = ra[u];   \
    _Pragma("unroll") for (int u = 0; u < B_COUNT; u++) TILE_B(half, OWN, B_OF(u)) = rb[u];
#endif

/* Then the item goes TK positions on, unless that is behind the last sample. */
#define LOAD(k)                                                                               \
    READ                                                                                      \
    if ((k) + TK + OWN < length) {                                                            \
        int over = step_n;                                                                    \
                                                                                              \
        ox += step_x, oy += step_y;                                                           \
        if (ox >= ow)                                                                         \
            ox -= ow, oy++;                                                                   \
        if (oy >= oh)                                                                         \
            oy -= oh, over++;                                                                 \
        from_dy += TK;                                                                        \
        if (FLAT)                                                                             \
            from_x += TK;                                                                     \
        from_dy += (long)over * over_dy;                                                      \
        from_x += (long)over * over_x;                                                        \
    }

/* The grid: tiles of columns; tiles of rows; (group, split). `wide`: the columns are a multiple
 * of 4. */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_conv_gemm_weight(__global const float *x, __global const float *dy, __global float *part,
                     int samples, int groups, int cg, int og, int h, int w, int oh, int ow, int kh,
                     int kw, int sh, int sw, int ph, int pw, int dh, int dw, int splits, int wide)
{
    TILE_START
    const uint item = (uint)tile_item; /* its quotients and remainders are shifts and masks */
    const int columns = cg * kh * kw, area = oh * ow;
    const int gs = get_group_id(2), g = gs / splits, split = gs - g * splits;
    const int p0 = (int)get_group_id(0) * TN, m0 = (int)get_group_id(1) * TM;
    const int first = (int)((long)samples * split / splits);
    const int length = ((int)((long)samples * (split + 1) / splits) - first) * area;
    const int own = OWN < length ? OWN : 0, turn = own / ow, left = og - m0 - TILE_ROW(0);
    int ox = own - turn * ow, n = turn / oh, oy = turn - n * oh;
    const int step_x = TK % ow, step_y = TK / ow % oh, step_n = TK / ow / oh;
    const int over_dy = (groups * og - 1) * area; /* to the same place in the next sample */
    const int over_x = groups * cg * h * w - (FLAT ? area : 0);
    __global const float *from_dy =
        dy + ((long)(first + n) * groups + g) * og * area + (own - n * area);
    __global const float *from_x =
        x + ((long)(first + n) * groups + g) * cg * h * w + (FLAT ? own - n * area : 0);
    __global float *to = part + ((long)split * groups + g) * og * columns +
                         (long)(m0 + TILE_ROW(0)) * columns + p0;
    float4 acc[TILE_ACCS];
    float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];
    int row_at[A_COUNT];
#if FLAT
    int column_at[B_COUNT];

    _Pragma("unroll") for (int u = 0; u < B_COUNT; u++) column_at[u] =
        min(p0 + B_OF(u), columns - 1) * area;
#else
    __local int4 taps[TN];

    for (int i = tile_item; i < TN; i += TILE_ITEMS) {
        int p = min(p0 + i, columns - 1), r = p / kw, c = r / kh;
        int down = (r - c * kh) * dh - ph, right = (p - r * kw) * dw - pw;

        tile_put4(&taps[i], c * h * w + down * w + right, down, right, 0);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    _Pragma("unroll") for (int u = 0; u < A_COUNT; u++) row_at[u] =
        min(m0 + A_OF(u), og - 1) * area;
    TILE_ZERO(acc)
    TILE_SUM(acc, length, LOAD, STORE)
    _Pragma("unroll") for (int i = 0; i < IM; i++)
    {
        _Pragma("unroll") for (int j = 0; j < IN / 4; j++)
        {
            int c = TILE_COLUMN(j);
            float4 f = acc[TILE_ACC(i, j)];

            if (TILE_ROW(i) - TILE_ROW(0) >= left)
                continue;
            if (wide) {
                if (p0 + c < columns)
                    *(__global float4 *)(to + c) = f;
            } else {
                if (p0 + c < columns)
                    to[c] = f.s0;
                if (p0 + c + 1 < columns)
                    to[c + 1] = f.s1;
                if (p0 + c + 2 < columns)
                    to[c + 2] = f.s2;
                if (p0 + c + 3 < columns)
                    to[c + 3] = f.s3;
            }
        }
        to += (long)columns * (i == 3 ? TM / (IM / 4) - 3 : 1);
    }
}

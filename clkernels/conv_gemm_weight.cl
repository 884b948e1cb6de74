/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_gemm_weight.cl - gradients of convolutions by their weight as implicit matrix products,
 * in plain layout, with any kernel, stride, pad, dilation and groups.
 *
 *     part[split][o][p] = sum over k of dy[o][k] * x[k][p]
 *
 * Rows o are the output channels of a group, columns p its (channel, vertical tap, horizontal
 * tap), and k runs over the positions of the split. What an element's place owes to its column is
 * noted once for all items, in local memory. What it owes to k an item keeps for the one position
 * that it reads from: it counts through the positions without a division. It reads 4 columns of that,
 * and another element where one lies outside of the image: a branch around a load costs more than
 * the load.
 *
 * With VECTORS, where the positions of a sample are a multiple of TK, dy is read in float4, and all
 * items are in the same sample. In the form FLAT, for 1x1 kernels of stride 1 without padding, both
 * operands are matrices for each sample, read in float4; their positions are a multiple of 4.
 *
 * Letters: x (N, G * CG, H, W), dy (N, G * OG, OH, OW).
 */
#define W 4
#include "dot.cl"
#include "tile.cl"
#include "tile_mma.cl"

#ifndef FLAT
#define FLAT 0
#endif
#ifndef VECTORS
#define VECTORS FLAT
#endif

/* The items that follow one another have all positions of 4 rows or columns, then those of the next;
 * or 4 positions of a row. */
#define OWN          ((int)(item % TK))
#define FOURS(R)     (TILE_FLOATS(R) / 4)
#define FIRST(u)     ((int)(item / TK + (u) * (TILE_ITEMS / TK)) * 4)
#define OWN_FOUR     tile_term(TILE_BY_K4, TM, item, 0)
#define FOUR(r, u, f) r[4 * u] = f.s0, r[4 * u + 1] = f.s1, r[4 * u + 2] = f.s2, r[4 * u + 3] = f.s3;

/* The samples' part of an address: `base` of the first one, `bytes` of each. It is a number first, as
 * compilers would else add it again for each element. */
#define SAMPLE(base, n, bytes)                                                                \
    ((__global const float *)((size_t)(base) + (ulong)(uint)min(n, samples - 1) * (bytes)))

#if VECTORS
#define OWN_A    (FLAT ? OWN_FOUR : 0)
#define A_COUNT  FOURS(TM)
#define A_OF(u)  tile_row(TILE_BY_K4, TM, tile_item, u)
#define READ_A                                                                                \
    _Pragma("unroll") for (int u = 0; u < FOURS(TM); u++)                                     \
    {                                                                                         \
        float4 f = *(__global const float4 *)(from_dy + (at + row_at[u]));                    \
                                                                                              \
        FOUR(ra, u, f)                                                                        \
    }
#define STORE_A(half) TILE_STORE_A(half, ra, TILE_BY_K4)
#else
#define OWN_A    OWN
#define A_COUNT  TILE_FLOATS(TM)
#define A_OF(u)  (FIRST((u) / 4) + (u) % 4)
#define READ_A                                                                                \
    _Pragma("unroll") for (int u = 0; u < A_COUNT; u++) ra[u] = from_dy[at + row_at[u]];
#define STORE_A(half)                                                                         \
    _Pragma("unroll") for (int u = 0; u < FOURS(TM); u++)                                     \
        TILE_FOUR_A(half, OWN, FIRST(u), ra, 4 * u)
#endif

/* The sample and the position in it go TK positions on. */
#define NEXT_A                                                                                \
    at += step, n += step_n;                                                                  \
    if (at >= area)                                                                           \
        at -= area, n++;

#if FLAT
#define READ_B                                                                                \
    {                                                                                         \
        __global const float *from_x = SAMPLE(x, n, x_bytes);                                 \
                                                                                              \
        _Pragma("unroll") for (int u = 0; u < FOURS(TN); u++)                                 \
        {                                                                                     \
            float4 f = *(__global const float4 *)(from_x + (at + column_at[u]));              \
                                                                                              \
            FOUR(rb, u, f)                                                                    \
        }                                                                                     \
    }
#define STORE_B(half) TILE_STORE_B(half, rb, TILE_BY_K4)
#define NEXT_B
#else
#define PIXEL(e)                                                                              \
    {                                                                                         \
        bool in_ = ((uint)(iy + down.s##e) < (uint)h) & ((uint)(ix + right.s##e) < (uint)w);   \
        float x_ = from_x[in_ ? image.s##e : -place];                                         \
                                                                                              \
        rb[4 * u + e] = in_ ? x_ : 0.f;                                                       \
    }
#define READ_B                                                                                \
    {                                                                                         \
        const int place = iy * w + ix;                                                        \
        __global const float *from_x =                                                        \
            (__global const float *)((size_t)SAMPLE(x, n, x_bytes) + 4 * (long)place);       \
                                                                                              \
        _Pragma("unroll") for (int u = 0; u < FOURS(TN); u++)                                 \
        {                                                                                     \
            int4 image = *(__local const int4 *)&taps.image[FIRST(u)];                        \
            int4 down = *(__local const int4 *)&taps.down[FIRST(u)];                          \
            int4 right = *(__local const int4 *)&taps.right[FIRST(u)];                        \
                                                                                              \
            PIXEL(0) PIXEL(1) PIXEL(2) PIXEL(3)                                               \
        }                                                                                     \
    }
#define STORE_B(half)                                                                         \
    _Pragma("unroll") for (int u = 0; u < FOURS(TN); u++)                                     \
        TILE_FOUR_B(half, OWN, FIRST(u), rb, 4 * u)
#define NEXT_B                                                                                \
    ix += step_x, iy += step_y;                                                               \
    if (ix >= end_x)                                                                          \
        ix -= end_x, iy += sh;                                                                \
    if (iy >= end_y)                                                                          \
        iy -= end_y;
#endif

#define LOAD(k)                                                                               \
    {                                                                                         \
        __global const float *from_dy = SAMPLE(dy, n, dy_bytes);                              \
                                                                                              \
        READ_A                                                                                \
        READ_B                                                                                \
        NEXT_A                                                                                \
        NEXT_B                                                                                \
    }
#define STORE(half) STORE_A(half) STORE_B(half)

/* The grid: tiles of columns; tiles of rows; (group, split). A split has whole units of positions, into
 * which each sample is divided. TK positions are `step_n` samples and `step` positions, which are step_y / sh rows and step_x / sw
 * more. `wide`: the columns are a multiple of 4. */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_conv_gemm_weight(__global const float *x, __global const float *dy, __global float *part,
                     int samples, int groups, int cg, int og, int h, int w, int oh, int ow, int kh,
                     int kw, int sh, int sw, int ph, int pw, int dh, int dw, int splits, int unit,
                     int step, int step_x, int step_y, int step_n, int wide)
{
    TILE_START
    const uint item = (uint)tile_item; /* its quotients and remainders are shifts and masks */
    const int columns = cg * kh * kw, area = oh * ow;
    const int gs = get_group_id(2), g = gs / splits, split = gs - g * splits;
    const int p0 = (int)get_group_id(0) * TN, m0 = (int)get_group_id(1) * TM;
    const long units = (long)samples * (area / unit);
    const int first = (int)(units * split / splits) * unit;
    const int length = (int)(units * (split + 1) / splits) * unit - first;
    const int left = og - m0 - TILE_ROW(0);
    const uint dy_bytes = 4u * groups * og * area, x_bytes = 4u * groups * cg * h * w;
    int n = (first + OWN_A) / area, at = first + OWN_A - n * area;
    __global float *to = part + ((long)split * groups + g) * og * columns +
                         (long)(m0 + TILE_ROW(0)) * columns + p0;
    float4 acc[TILE_ACCS];
    float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];
    int row_at[A_COUNT];
#if FLAT
    int column_at[FOURS(TN)];

    _Pragma("unroll") for (int u = 0; u < FOURS(TN); u++) column_at[u] =
        min(p0 + tile_row(TILE_BY_K4, TN, tile_item, u), columns - 1) * area;
#else
    __local struct {
        int image[TN], down[TN], right[TN];
    } taps __attribute__((aligned(16)));
    const int end_x = ow * sw, end_y = oh * sh, turn = (first + OWN) / ow;
    int ix = (first + OWN - turn * ow) * sw, iy = (turn - turn / oh * oh) * sh;

    for (int i = tile_item; i < TN; i += TILE_ITEMS) {
        int p = min(p0 + i, columns - 1), r = p / kw, c = r / kh;
        int down = (r - c * kh) * dh - ph, right = (p - r * kw) * dw - pw;

        taps.image[i] = c * h * w + down * w + right;
        taps.down[i] = down, taps.right[i] = right;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    _Pragma("unroll") for (int u = 0; u < A_COUNT; u++) row_at[u] =
        min(m0 + A_OF(u), og - 1) * area + (VECTORS > FLAT ? OWN_FOUR : 0);
    dy += (long)g * og * area, x += (long)g * cg * h * w;
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
DOT_END

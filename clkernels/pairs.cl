/* SPDX-License-Identifier: Apache-2.0
 *
 * pairs.cl - a matrix of floats as pairs of bfloat16 or half, for products that read it often (gemm.cl
 * with DOT_MMA_PAIRS or DOT_MMA_PAIRS_F16): half the bytes, and every row's terms are adjacent, as a
 * matrix unit takes them.
 *
 * Row r of the result has `words` words, a multiple of 4: word w has terms 2 w and 2 w + 1, the earlier
 * one in the low half. Terms from k on are 0. An item writes 4 words of a row.
 */
#ifndef DOT
#define DOT DOT_ROUNDED
#endif
#define W 4
#include "dot.cl"
#ifndef WG
#define WG 256
#endif

/* x has element (row, term) at row * stride + term. The grid is in one dimension. */
__kernel YKI_GROUP(WG, 1) void
yki_pairs(__global const float *x, __global uint *y, int rows, int k, int words, int stride)
{
    const int fours = words / 4;
    const long count = (long)rows * fours;

    for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
        const int row = (int)(i / fours), w = (int)(i - (long)row * fours) * 4;
        __global const float *from = x + (long)row * stride + 2 * w;
        float f[8];

#pragma unroll
        for (int e = 0; e < 8; e++)
            f[e] = 2 * w + e < k ? from[e] : 0.f;
        *(__global uint4 *)(y + (long)row * words + w) =
            (uint4)(DOT_PAIR(1, f[0], f[1]), DOT_PAIR(1, f[2], f[3]), DOT_PAIR(1, f[4], f[5]),
                    DOT_PAIR(1, f[6], f[7]));
    }
}

/* The same, where k and stride are multiples of 4 and x is aligned. */
__kernel YKI_GROUP(WG, 1) void
yki_pairs_of_fours(__global const float *x, __global uint *y, int rows, int k, int words, int stride)
{
    const int fours = words / 4;
    const long count = (long)rows * fours;

    for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
        const int row = (int)(i / fours), w = (int)(i - (long)row * fours) * 4;
        __global const float *from = x + (long)row * stride + 2 * w;
        float4 a = 2 * w < k ? *(__global const float4 *)from : (float4)(0.f);
        float4 b = 2 * w + 4 < k ? *(__global const float4 *)(from + 4) : (float4)(0.f);

        *(__global uint4 *)(y + (long)row * words + w) =
            (uint4)(DOT_PAIR(1, a.s0, a.s1), DOT_PAIR(1, a.s2, a.s3), DOT_PAIR(1, b.s0, b.s1),
                    DOT_PAIR(1, b.s2, b.s3));
    }
}

/* x has element (row, term) at row + term * stride: it is turned in local memory, WG / 4 rows of 32
 * terms at a time. The grid is (blocks of 32 terms, blocks of rows), or less. */
#define DOWN (WG / 4)
__kernel YKI_GROUP(WG, 1) void
yki_pairs_turned(__global const float *x, __global uint *y, int rows, int k, int words, int stride)
{
    __local float block[32 * (DOWN + 1)];
    const int item = (int)get_local_id(0), down = item / 4, across = item % 4;

    for (int r0 = (int)get_group_id(1) * DOWN; r0 < rows; r0 += (int)get_num_groups(1) * DOWN)
        for (int w0 = (int)get_group_id(0) * 16; w0 < words; w0 += (int)get_num_groups(0) * 16) {
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const int r = item % DOWN, t = item / DOWN + 4 * e;

                block[t * (DOWN + 1) + r] =
                    r0 + r < rows && 2 * w0 + t < k ? x[r0 + r + (long)(2 * w0 + t) * stride] : 0.f;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (r0 + down < rows && w0 + 4 * across < words) {
                __local const float *from = block + 8 * across * (DOWN + 1) + down;

#define TERM(e) from[(e) * (DOWN + 1)]
                *(__global uint4 *)(y + (long)(r0 + down) * words + w0 + 4 * across) =
                    (uint4)(DOT_PAIR(1, TERM(0), TERM(1)), DOT_PAIR(1, TERM(2), TERM(3)),
                            DOT_PAIR(1, TERM(4), TERM(5)), DOT_PAIR(1, TERM(6), TERM(7)));
            }
        }
}
DOT_END

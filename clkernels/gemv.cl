/* SPDX-License-Identifier: Apache-2.0
 *
 * gemv.cl - a matrix by a few vectors: C (M, N) = A (M, K) B (N, K)^T (+ bias, relu),
 * where M is so small that reading B once is all the time there is.
 *
 * Each row of B meets all rows of A while it is in registers or the first level of the
 * caches, MT of them at a time. The terms of an element are added lane by lane, and then
 * the lanes by a tree. So its bits do not depend on how many rows A has, nor on where
 * it stands. With WG 1 a work-item reads NB rows of B side by side; otherwise SHARE
 * work-items read a row together.
 */
#ifndef MT
#define MT 1
#endif
#ifndef WG
#define WG 1
#endif

#define FLAG_BIAS 1
#define FLAG_RELU 2

#define KERNEL __kernel YKI_GROUP(WG, 1) void

float
finish(float x, __global const float *bias, int n, int flags)
{
    if (flags & FLAG_BIAS)
        x += bias[n];
    return flags & FLAG_RELU && x <= 0.f ? 0.f : x;
}

#if WG == 1

#define NB 4

/* The same sums where Oclgrind reads them, which crashes on a half of a vector of 16. */
float
sum_lanes(float16 x)
{
#ifdef YKI_LANES_APART
    volatile float lanes[16] = {x.s0, x.s1, x.s2, x.s3, x.s4, x.s5, x.s6, x.s7,
                                x.s8, x.s9, x.sa, x.sb, x.sc, x.sd, x.se, x.sf};

    for (int apart = 8; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            lanes[i] += lanes[i + apart];
    return lanes[0];
#else
    float8 a = x.lo + x.hi;
    float4 b = a.lo + a.hi;
    float2 c = b.lo + b.hi;

    return c.s0 + c.s1;
#endif
}

/* ROWS rows of A from m on by COLUMNS rows of B from n on. */
#define PIECE(ROWS, COLUMNS)                                                                  \
    {                                                                                         \
        float16 sums[ROWS][COLUMNS];                                                          \
        __global const float *b = B + (long)n * b_n, *a = A + (long)m0 * a_m;                 \
        int at = 0;                                                                           \
                                                                                              \
        for (int i = 0; i < (ROWS); i++)                                                      \
            for (int j = 0; j < (COLUMNS); j++)                                               \
                sums[i][j] = (float16)(0.f);                                                  \
        for (; at + 16 <= k; at += 16)                                                        \
            for (int j = 0; j < (COLUMNS); j++) {                                             \
                float16 v = vload16(0, b + (long)j * b_n + at);                               \
                                                                                              \
                for (int i = 0; i < (ROWS); i++)                                              \
                    sums[i][j] = YKI_FMA(vload16(0, a + (long)i * a_m + at), v, sums[i][j]);  \
            }                                                                                 \
        for (int i = 0; i < (ROWS); i++)                                                      \
            for (int j = 0; j < (COLUMNS); j++) {                                             \
                float x = sum_lanes(sums[i][j]);                                              \
                                                                                              \
                for (int t = at; t < k; t++)                                                  \
                    x = YKI_FMA(a[(long)i * a_m + t], b[(long)j * b_n + t], x);               \
                C[(long)(m0 + i) * n_all + n + j] = finish(x, bias, n + j, flags);            \
            }                                                                                 \
    }

#define ROWS_OF_A(COLUMNS)                                                                    \
    {                                                                                         \
        int m0 = 0;                                                                           \
                                                                                              \
        for (; m0 + MT <= m; m0 += MT)                                                        \
            PIECE(MT, COLUMNS)                                                                \
        if (MT > 1)                                                                           \
            for (; m0 < m; m0++)                                                              \
                PIECE(1, COLUMNS)                                                             \
    }

/* A group takes a range of the rows of B. */
KERNEL
yki_gemv(__global const float *A, __global const float *B, __global float *C,
         __global const float *bias, int m, int n_all, int k, int a_m, int b_n, int flags)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int n = (int)((long)n_all * group / groups), end = (int)((long)n_all * (group + 1) / groups);

    for (; n + NB <= end; n += NB)
        ROWS_OF_A(NB)
    for (; n < end; n++)
        ROWS_OF_A(1)
}

#else

#ifndef SHARE
#define SHARE 32
#endif
#define VEC 4
#include "vectors.cl"

/* BY_FOUR: K and the distances between rows are multiples of 4. */
#ifndef BY_FOUR
#define BY_FOUR 1
#endif

/* A group takes WG / SHARE rows of B at a time. */
KERNEL
yki_gemv_groups(__global const float *A, __global const float *B, __global float *C,
                __global const float *bias, int m, int n_all, int k, int a_m, int b_n, int flags)
{
    __local float parts[MT * WG];
    int lid = (int)get_local_id(0), sub = lid & (SHARE - 1), row = lid / SHARE;
    int step = (int)get_num_groups(0) * (WG / SHARE);

    for (int n0 = (int)get_group_id(0) * (WG / SHARE); n0 < n_all; n0 += step) {
        int n = n0 + row;
        __global const float *b = B + (long)min(n, n_all - 1) * b_n;

        for (int m0 = 0; m0 < m; m0 += MT) {
            float4 sums[MT];

            for (int i = 0; i < MT; i++)
                sums[i] = (float4)(0.f);
#if BY_FOUR
            for (int t = sub; t < k / 4; t += SHARE) {
                float4 v = LOADV(t, b);

                for (int i = 0; i < MT; i++)
                    sums[i] = YKI_FMA(LOADV(t, A + (long)min(m0 + i, m - 1) * a_m), v, sums[i]);
            }
#else
            for (int t = sub; t < k; t += SHARE)
                for (int i = 0; i < MT; i++)
                    sums[i].s0 = YKI_FMA(A[(long)min(m0 + i, m - 1) * a_m + t], b[t], sums[i].s0);
#endif
            for (int i = 0; i < MT; i++)
                parts[i * WG + lid] = yki_sum_few_lanes(sums[i]);
            for (int apart = SHARE / 2; apart > 0; apart /= 2) {
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int i = 0; sub < apart && i < MT; i++)
                    parts[i * WG + lid] += parts[i * WG + lid + apart];
            }
            for (int i = 0; sub == 0 && n < n_all && i < MT && m0 + i < m; i++)
                C[(long)(m0 + i) * n_all + n] = finish(parts[i * WG + lid], bias, n, flags);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm.cl - normalisation of rows (the last axes of a sample taken together),
 * and its gradients. With RMS 1 a row is divided by its root mean square: there is no
 * mean to subtract, and no shift.
 *
 * A work-group does whole rows, and its work-items take vectors of a row in rotation:
 * one work-item with a wide vector on CPUs, many with a short one elsewhere. Each pass
 * reads the row again, from the cache that then holds it: first for the mean, then for
 * the deviations from it, so nothing cancels.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 1
#endif

#ifndef KEEP
#define KEEP 0
#endif
#ifndef RMS
#define RMS 0
#endif

#if RMS
#define SHIFTED(v, gamma, beta) ((v) * (gamma))
#define PARTS                   1
#else
#define SHIFTED(v, gamma, beta) YKI_FMA(v, gamma, beta)
#define PARTS                   2
#endif

/* Side by side, work-items have vectors of 1 or 4, which divide the width. */
#include "vectors.cl"
#include "exact.cl"

#define KERNEL __kernel YKI_GROUP(WG, 1) void

/* The rows of this work-group. */
#define FOR_EACH_ROW(row)                                                                      \
    long groups_ = (long)get_num_groups(0), group_ = (long)get_group_id(0);                    \
    for (long row = (long)rows * group_ / groups_; row < (long)rows * (group_ + 1) / groups_;  \
         row++)

/* The elements of a row that this work-item takes: whole vectors at i, then the remainder. */
#define FOR_ITEM(i, VECTOR_BODY, SCALAR_BODY)                                                  \
    for (int i = (int)get_local_id(0) * VEC; i + VEC <= width; i += WG * VEC) {                \
        VECTOR_BODY;                                                                           \
    }                                                                                          \
    for (int i = width / VEC * VEC + (int)get_local_id(0); i < width; i += WG) {               \
        SCALAR_BODY;                                                                           \
    }

/* The sum of all lanes and of `rest`, over all work-items. Each of them gets it. */
float
yki_sum_row(floatv v, float rest, __local float *sums)
{
    float lanes[VEC], sum = rest;

    storev(v, 0, lanes);
    for (int l = 0; l < VEC; l++)
        sum += lanes[l];
#if WG > 1
    int item = (int)get_local_id(0);

    sums[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = WG / 2; step > 0; step /= 2) {
        if (item < step)
            sums[item] += sums[item + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = sums[0];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    return sum;
}

float
yki_row_mean(__global const float *p, int width, __local float *sums)
{
#if RMS
    return 0.f;
#else
    floatv v = 0.f;
    float rest = 0.f;

    FOR_ITEM(i, v += LOADV(0, p + i), rest += p[i])
    return QUOTIENT(float, yki_sum_row(v, rest, sums), width);
#endif
}

/* 1 / deviation. */
float
yki_row_inverse(__global const float *p, int width, float mean, float epsilon,
                __local float *sums)
{
    floatv v = 0.f;
    float rest = 0.f;

    FOR_ITEM(i, floatv d = LOADV(0, p + i) - mean; v = YKI_FMA(d, d, v),
             float d = p[i] - mean; rest = YKI_FMA(d, d, rest))
    return INVERSE_ROOT(float, QUOTIENT(float, yki_sum_row(v, rest, sums), width) + epsilon);
}

KERNEL
yki_ln(__global const float *x, __global const float *gamma, __global const float *beta,
       __global float *y, int rows, int width, int affine, float epsilon)
{
    __local float sums[WG];

    FOR_EACH_ROW(row)
    {
        __global const float *p = x + row * width;
        __global float *out = y + row * width;
        float mean = yki_row_mean(p, width, sums);
        float inverse = yki_row_inverse(p, width, mean, epsilon, sums);

        if (affine) {
            FOR_ITEM(i,
                     STOREV(SHIFTED((LOADV(0, p + i) - mean) * inverse, LOADV(0, gamma + i),
                                    LOADV(0, beta + i)),
                            0, out + i),
                     out[i] = SHIFTED((p[i] - mean) * inverse, gamma[i], beta[i]))
        } else {
            FOR_ITEM(i, STOREV((LOADV(0, p + i) - mean) * inverse, 0, out + i),
                     out[i] = (p[i] - mean) * inverse)
        }
    }
}

/* dx = (g - mean of g - normalised x * mean of their product) / deviation, g = dy gamma. With RMS
 * the mean of g is left out. */
KERNEL
yki_ln_grad(__global const float *x, __global const float *dy, __global const float *gamma,
            __global float *dx, int rows, int width, int affine, float epsilon)
{
    __local float sums[WG];

    FOR_EACH_ROW(row)
    {
        __global const float *p = x + row * width, *g = dy + row * width;
        __global float *out = dx + row * width;
        float mean = yki_row_mean(p, width, sums);
        float inverse = yki_row_inverse(p, width, mean, epsilon, sums);
        floatv v = 0.f, dots = 0.f;
        float rest = 0.f, dot = 0.f;

        FOR_ITEM(
            i, floatv t = LOADV(0, g + i); if (affine) t *= LOADV(0, gamma + i); v += t;
            dots = YKI_FMA(t, LOADV(0, p + i) - mean, dots), float t = g[i];
            if (affine) t *= gamma[i]; rest += t; dot = YKI_FMA(t, p[i] - mean, dot))
#if RMS
        rest = 0.f;
#else
        rest = QUOTIENT(float, yki_sum_row(v, rest, sums), width);
#endif
        dot = QUOTIENT(float, -yki_sum_row(dots, dot, sums) * inverse * inverse, width);
        FOR_ITEM(i, floatv t = LOADV(0, g + i); if (affine) t *= LOADV(0, gamma + i);
                 STOREV(YKI_FMA(LOADV(0, p + i) - mean, (floatv)(dot), t - rest) * inverse, 0,
                        out + i),
                 float t = g[i]; if (affine) t *= gamma[i];
                 out[i] = YKI_FMA(p[i] - mean, dot, t - rest) * inverse)
    }
}

/* part is (splits, PARTS, width): sums over a split's rows of dy (not with RMS), and of dy times
 * the normalised x.
 * A split is a work-group, and each of its work-items has its own columns: up to KEEP vectors of
 * them, which then stay in registers. */
#if KEEP == 0
KERNEL
yki_ln_grad_params(__global const float *x, __global const float *dy, __global float *part,
                   int rows, int width, float epsilon)
{
    __local float sums[WG];
    __global float *sum = part + (long)get_group_id(0) * PARTS * width;
    __global float *dot = sum + (PARTS - 1) * width;

    FOR_ITEM(i, STOREV((floatv)(0.f), 0, sum + i); STOREV((floatv)(0.f), 0, dot + i),
             sum[i] = 0.f;
             dot[i] = 0.f)
    FOR_EACH_ROW(row)
    {
        __global const float *p = x + row * width, *g = dy + row * width;
        float mean = yki_row_mean(p, width, sums);
        float inverse = yki_row_inverse(p, width, mean, epsilon, sums);

        FOR_ITEM(i, floatv t = LOADV(0, g + i);
                 if (!RMS) STOREV(LOADV(0, sum + i) + t, 0, sum + i);
                 STOREV(YKI_FMA(t, (LOADV(0, p + i) - mean) * inverse, LOADV(0, dot + i)), 0,
                        dot + i),
                 if (!RMS) sum[i] += g[i];
                 dot[i] = YKI_FMA(g[i], (p[i] - mean) * inverse, dot[i]))
    }
}
#else
#define EACH_COLUMN(k, i)                                                                      \
    _Pragma("unroll") for (int k = 0, i = (int)get_local_id(0) * VEC; k < KEEP;                \
                           k++, i += WG * VEC) if (i < width)

KERNEL
yki_ln_grad_params(__global const float *x, __global const float *dy, __global float *part,
                   int rows, int width, float epsilon)
{
    __local float sums[WG];
    __global float *sum = part + (long)get_group_id(0) * PARTS * width;
    __global float *dot = sum + (PARTS - 1) * width;
    floatv s[KEEP], d[KEEP];

    EACH_COLUMN(k, i)
        s[k] = d[k] = 0.f;
    FOR_EACH_ROW(row)
    {
        __global const float *p = x + row * width, *g = dy + row * width;
        float mean = yki_row_mean(p, width, sums);
        float inverse = yki_row_inverse(p, width, mean, epsilon, sums);

        EACH_COLUMN(k, i)
        {
            floatv t = LOADV(0, g + i);

            if (!RMS)
                s[k] += t;
            d[k] = YKI_FMA(t, (LOADV(0, p + i) - mean) * inverse, d[k]);
        }
    }
    EACH_COLUMN(k, i)
    {
        if (!RMS)
            STOREV(s[k], 0, sum + i);
        STOREV(d[k], 0, dot + i);
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_whole.cl - batch normalisation with its statistics in one launch, and its gradient with its
 * sums: a group has whole channels. norm_groups.cl does it in two, for channels that are few and
 * large.
 *
 * x is (N, C, area), in VEC floats at a time: 4 if that divides the area, else 1. A group walks
 * over one channel without a division: from one vector to its next it steps over whole images.
 * It reads the channel again for the squares and for the result; the caches have it still.
 *
 * Statistics are (3, C): count, mean, M2, as in norm.cl. The mean is kept as the difference from the
 * channel's first element, the pivot, until the end.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 64
#endif

#include "vectors.cl"
#include "exact.cl"
#include "norm_flags.cl"

#define ALONE 8 /* another flag: statistics only; y is not written */

#define KERNEL __kernel YKI_GROUP(WG, 1) void
#define FOR_EACH_CHANNEL(c)                                                                    \
    for (int c = (int)get_group_id(0); c < channels; c += (int)get_num_groups(0))

/* This work-item's way through channel c; EACH goes it, with `at` the vector in x. */
#define WALK(c)                                                                                \
    int wide = area / VEC, vectors = samples * wide, first = (int)get_local_id(0);             \
    int jump = WG / wide, step = WG - jump * wide, over = (channels - 1) * wide;               \
    int image = first / wide, start = first - image * wide;                                    \
    int from = (image * channels + (c)) * wide + start
#define EACH                                                                                   \
    int k = first, a = start, at = from;                                                       \
    k < vectors;                                                                               \
    k += WG, a += step, at += jump * channels * wide + step + (a >= wide ? over : 0),          \
                        a -= a >= wide ? wide : 0

/* The sum of all work-items' values, in a fixed order. Each of them gets it. */
float
group_sum(float value, __local float *sums)
{
    int item = (int)get_local_id(0);
    float sum;

    sums[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int apart = WG / 2; apart > 0; apart /= 2) {
        if (item < apart)
            sums[item] += sums[item + apart];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = sums[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}

/* ---- forward ---- */

KERNEL
yki_bn_whole(__global const float *x, __global const float *gamma, __global const float *beta,
             __global const float *residual, __global float *y, __global float *stats, int samples,
             int channels, int area, int flags, float epsilon)
{
    __local float sums[WG];

    FOR_EACH_CHANNEL(c)
    {
        WALK(c);
        float count = (float)vectors * VEC, mean, m2, scale, shift;
        float pivot = samples > 0 ? x[(long)c * area] : 0.f;
        floatv sum = 0.f, squares = 0.f;

        for (EACH)
            sum += LOADV(at, x) - pivot;
        mean = QUOTIENT(float, group_sum(yki_sum_few_lanes(sum), sums), max(count, 1.f));
        for (EACH) {
            floatv d = LOADV(at, x) - pivot - mean;

            squares = YKI_FMA(d, d, squares);
        }
        m2 = group_sum(yki_sum_few_lanes(squares), sums);
        mean += pivot;
        if (get_local_id(0) == 0) {
            stats[c] = count;
            stats[channels + c] = mean;
            stats[2 * channels + c] = m2;
        }
        if (flags & ALONE)
            continue;
        scale = INVERSE(float, count, m2) * (flags & AFFINE ? gamma[c] : 1.f);
        shift = flags & AFFINE ? beta[c] : 0.f;
        for (EACH) {
            floatv v = YKI_FMA(LOADV(at, x) - mean, (floatv)(scale), (floatv)(shift));

            if (flags & RESIDUAL)
                v += LOADV(at, residual);
            if (flags & RELU) /* false for NaN, which stays */
                v = select(v, (floatv)(0.f), v <= 0.f);
            STOREV(v, at, y);
        }
    }
}

/* ---- gradient ---- */

/* An element's difference e from the mean and its dy, d. With RELU, dy is the gradient after the
 * activation, and the normalisation tells what passed, as in norm.cl. */
#define ELEMENT(e, d)                                                                          \
    floatv e = LOADV(at, x) - mean, d = LOADV(at, dy);                                         \
    if (flags & RELU)                                                                          \
        d = select(d, (floatv)(0.f), YKI_FMA(e, (floatv)(scale), (floatv)(shift)) <= 0.f)

/* dx = gamma / deviation * (dy - mean of dy - normalised x * mean of their product); the sums of dy
 * and of that product go to total_sum and, from element dot_at on, to total_dot. dx may be x or
 * dy: each work-item writes what it alone reads again. */
KERNEL
yki_bn_whole_grad(__global const float *x, __global const float *dy, __global const float *stats,
                  __global const float *gamma, __global const float *beta, __global float *dx,
                  __global float *total_sum, __global float *total_dot, int samples, int channels,
                  int area, int flags, float epsilon, int dot_at)
{
    __local float sums[WG];

    FOR_EACH_CHANNEL(c)
    {
        WALK(c);
        float count = max(stats[c], 1.f), mean = stats[channels + c];
        float inverse = INVERSE(float, stats[c], stats[2 * channels + c]);
        float scale = inverse * (flags & AFFINE ? gamma[c] : 1.f);
        float shift = (flags & RELU) && (flags & AFFINE) ? beta[c] : 0.f;
        float all, product, offset, slope;
        floatv sum = 0.f, dot = 0.f;

        for (EACH) {
            ELEMENT(e, d);
            sum += d;
            dot = YKI_FMA(d, e, dot);
        }
        all = group_sum(yki_sum_few_lanes(sum), sums);
        product = group_sum(yki_sum_few_lanes(dot), sums) * inverse;
        if (get_local_id(0) == 0) {
            total_sum[c] = all;
            total_dot[dot_at + c] = product;
        }
        offset = QUOTIENT(float, all, count);
        slope = QUOTIENT(float, -product * inverse, count);
        for (EACH) {
            ELEMENT(e, d);
            STOREV(YKI_FMA(e, (floatv)(slope), d - offset) * scale, at, dx);
        }
    }
}

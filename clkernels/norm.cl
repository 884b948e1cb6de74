/* SPDX-License-Identifier: Apache-2.0
 *
 * norm.cl - batch normalisation on processors: statistics of channels, their use, and
 * both for the gradient. norm_groups.cl is for devices whose work-items run side by
 * side.
 *
 * x is (N, C, area). Kernels named _blocked take it in blocks of VEC channels, (N, C /
 * VEC, area, VEC). With area 1 and a number of channels that VEC divides, the plain
 * layout is the same as that. Those named _rows take the plain layout with vectors
 * along the area. A group has one work-item.
 *
 * Statistics are (3, C): count, mean, M2 (the sum of squared deviations from the
 * mean). A tile that fits the first-level cache is read twice, for its mean and for
 * the deviations from it, and then merged exactly (Chan) with the tiles before it. So
 * memory is read once, and nothing cancels. Until the end, means are kept as
 * differences from a channel's first element, the pivot, so that a mean far from 0
 * does not cost the deviations their digits. Work is split by tiles; yki_bn_merge
 * merges the partial statistics in order.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 1
#endif

#include "vectors.cl"
#include "norm_flags.cl"
#include "exact.cl"

#define KERNEL __kernel YKI_GROUP(WG, 1) void

/* The piece of `count` tasks that this group does. */
#define FOR_EACH_TASK(task, count)                                                             \
    long count_ = (count), groups_ = (long)get_num_groups(0), group_ = (long)get_group_id(0);  \
    for (long task = count_ * group_ / groups_ + (long)get_local_id(0);                        \
         task < count_ * (group_ + 1) / groups_; task += WG)

/* The pieces of the grid: channels along dimension 0, splits of the tiles along dimension 1. */
#define FOR_EACH_PART(split, piece, pieces)                                                    \
    for (int split = (int)get_group_id(1); split < splits; split += (int)get_num_groups(1))    \
        for (int piece = (int)get_group_id(0); piece < (pieces);                               \
             piece += (int)get_num_groups(0))

/* The tiles of a split: tile_samples by tile_area, [n0, n1) by [a0, a1). */
#define FOR_EACH_TILE(split)                                                                   \
    int across_ = (area + tile_area - 1) / tile_area;                                          \
    long tiles_ = (long)((samples + tile_samples - 1) / tile_samples) * across_;               \
    for (long tile = tiles_ * (split) / splits; tile < tiles_ * ((split) + 1) / splits; tile++)
#define TILE                                                                                   \
    long down_ = tile / across_;                                                               \
    int n0 = (int)down_ * tile_samples, n1 = min(n0 + tile_samples, samples);                  \
    int a0 = (int)(tile - down_ * across_) * tile_area, a1 = min(a0 + tile_area, area);

/* Merges another (count, mean, m2), which is not empty, into this one. */
#define MERGE(count, mean, m2, other_count, other_mean, other_m2)                              \
    {                                                                                          \
        float total_ = (count) + (other_count), share_ = QUOTIENT(float, other_count, total_); \
        mean##_type delta_ = (other_mean) - (mean);                                            \
        (m2) += (other_m2) + delta_ * delta_ * ((count)*share_);                               \
        (mean) += delta_ * share_;                                                             \
        (count) = total_;                                                                      \
    }
#define mean_type  float
#define meanv_type floatv

/* VEC values p[c...] of the channels; `otherwise` beyond the last channel. */
#define LOAD_LANES(v, p, c, otherwise)                                                         \
    floatv v;                                                                                  \
    if ((c) + VEC <= channels)                                                                 \
        v = loadv(0, (p) + (c));                                                               \
    else {                                                                                     \
        float lanes_[VEC];                                                                     \
        for (int l_ = 0; l_ < VEC; l_++)                                                       \
            lanes_[l_] = (c) + l_ < channels ? (p)[(c) + l_] : (otherwise);                    \
        v = loadv(0, lanes_);                                                                  \
    }
#define STORE_LANES(v, p, c)                                                                   \
    if ((c) + VEC <= channels)                                                                 \
        storev(v, 0, (p) + (c));                                                               \
    else {                                                                                     \
        float lanes_[VEC];                                                                     \
        storev(v, 0, lanes_);                                                                  \
        for (int l_ = 0; l_ < VEC && (c) + l_ < channels; l_++)                                \
            (p)[(c) + l_] = lanes_[l_];                                                        \
    }

/* Steps i by `step`, with four chains of sums at a time: a single chain would wait for its last
 * addition. The remainder goes to the first chain. */
#define FOR_EACH_4(i, begin, end, step, CHAIN0, CHAIN1, CHAIN2, CHAIN3)                        \
    int i = (begin);                                                                           \
    for (; i + 4 * (step) <= (end); i += 4 * (step)) {                                         \
        CHAIN0;                                                                                \
        CHAIN1;                                                                                \
        CHAIN2;                                                                                \
        CHAIN3;                                                                                \
    }                                                                                          \
    for (; i + (step) <= (end); i += (step)) {                                                 \
        CHAIN0;                                                                                \
    }
#define ADD_SQUARE(sum, difference)                                                            \
    {                                                                                          \
        floatv d = difference;                                                                 \
        sum = YKI_FMA(d, d, sum);                                                              \
    }

float
yki_sum_lanes(floatv v)
{
    float lanes[VEC], sum = 0.f;

    storev(v, 0, lanes);
    for (int l = 0; l < VEC; l++)
        sum += lanes[l];
    return sum;
}

/* ---- statistics: part is (splits, 3, C); with one split it is the result ---- */

__kernel YKI_GROUP(1, 1) void
yki_bn_stats_blocked(__global const float *x, __global float *part, int samples, int channels,
                     int area, int splits, int tile_samples, int tile_area)
{
    int blocks = (channels + VEC - 1) / VEC;

    FOR_EACH_PART(split, b, blocks)
    {
        float count = 0.f;
        floatv meanv = 0.f, m2 = 0.f, pivot = 0.f;
        __global float *out = part + (long)split * 3 * channels;

        if (samples > 0)
            pivot = loadv(0, x + (long)b * area * VEC);

        FOR_EACH_TILE(split)
        {
            TILE
            float tile_count = (float)(n1 - n0) * (float)(a1 - a0);
            floatv s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f, tile_mean, tile_m2;

            for (int n = n0; n < n1; n++) {
                __global const float *p = x + ((long)n * blocks + b) * area * VEC;

                FOR_EACH_4(i, a0, a1, 1, s0 += loadv(i, p) - pivot, s1 += loadv(i + 1, p) - pivot,
                           s2 += loadv(i + 2, p) - pivot, s3 += loadv(i + 3, p) - pivot)
            }
            tile_mean = QUOTIENT(floatv, (s0 + s1) + (s2 + s3), tile_count);
            s0 = s1 = s2 = s3 = 0.f;
            for (int n = n0; n < n1; n++) {
                __global const float *p = x + ((long)n * blocks + b) * area * VEC;

                FOR_EACH_4(i, a0, a1, 1, ADD_SQUARE(s0, loadv(i, p) - pivot - tile_mean),
                           ADD_SQUARE(s1, loadv(i + 1, p) - pivot - tile_mean),
                           ADD_SQUARE(s2, loadv(i + 2, p) - pivot - tile_mean),
                           ADD_SQUARE(s3, loadv(i + 3, p) - pivot - tile_mean))
            }
            tile_m2 = (s0 + s1) + (s2 + s3);
            MERGE(count, meanv, m2, tile_count, tile_mean, tile_m2)
        }
        if (splits == 1)
            meanv += pivot;
        STORE_LANES((floatv)(count), out, b * VEC)
        STORE_LANES(meanv, out + channels, b * VEC)
        STORE_LANES(m2, out + 2 * channels, b * VEC)
    }
}

/* A piece is up to `rows` channels that are adjacent in memory: the short rows of one channel
 * are too far apart for memory to be read at its speed. Sums stay vectors until the end of a
 * tile. */
#define MOST_ROWS 16

__kernel YKI_GROUP(1, 1) void
yki_bn_stats_rows(__global const float *x, __global float *part, int samples, int channels,
                  int area, int splits, int tile_samples, int tile_area, int rows)
{
    FOR_EACH_PART(split, piece, (channels + rows - 1) / rows)
    {
        int c = piece * rows, some = min(rows, channels - c);
        float count = 0.f, means[MOST_ROWS], m2[MOST_ROWS], pivots[MOST_ROWS], rests[MOST_ROWS];
        float tile_means[MOST_ROWS];
        floatv sums[MOST_ROWS];
        __global float *out = part + (long)split * 3 * channels + c;

        for (int k = 0; k < some; k++) {
            means[k] = m2[k] = 0.f;
            pivots[k] = samples > 0 ? x[(long)(c + k) * area] : 0.f;
        }
        FOR_EACH_TILE(split)
        {
            TILE
            float tile_count = (float)(n1 - n0) * (float)(a1 - a0);

            for (int k = 0; k < some; k++)
                sums[k] = rests[k] = 0.f;
            for (int n = n0; n < n1; n++)
                for (int k = 0; k < some; k++) {
                    __global const float *p = x + ((long)n * channels + c + k) * area;
                    float pivot = pivots[k], rest = rests[k];
                    floatv s0 = sums[k], s1 = 0.f, s2 = 0.f, s3 = 0.f;

                    FOR_EACH_4(i, a0, a1, VEC, s0 += loadv(0, p + i) - pivot,
                               s1 += loadv(1, p + i) - pivot, s2 += loadv(2, p + i) - pivot,
                               s3 += loadv(3, p + i) - pivot)
                    for (; i < a1; i++)
                        rest += p[i] - pivot;
                    sums[k] = (s0 + s1) + (s2 + s3);
                    rests[k] = rest;
                }
            for (int k = 0; k < some; k++) {
                tile_means[k] = QUOTIENT(float, yki_sum_lanes(sums[k]) + rests[k], tile_count);
                sums[k] = rests[k] = 0.f;
            }
            for (int n = n0; n < n1; n++)
                for (int k = 0; k < some; k++) {
                    __global const float *p = x + ((long)n * channels + c + k) * area;
                    float pivot = pivots[k], tile_mean = tile_means[k], rest = rests[k];
                    floatv s0 = sums[k], s1 = 0.f, s2 = 0.f, s3 = 0.f;

                    FOR_EACH_4(i, a0, a1, VEC, ADD_SQUARE(s0, loadv(0, p + i) - pivot - tile_mean),
                               ADD_SQUARE(s1, loadv(1, p + i) - pivot - tile_mean),
                               ADD_SQUARE(s2, loadv(2, p + i) - pivot - tile_mean),
                               ADD_SQUARE(s3, loadv(3, p + i) - pivot - tile_mean))
                    for (; i < a1; i++) {
                        float d = p[i] - pivot - tile_mean;

                        rest = YKI_FMA(d, d, rest);
                    }
                    sums[k] = (s0 + s1) + (s2 + s3);
                    rests[k] = rest;
                }
            for (int k = 0; k < some; k++) {
                float so_far = count, mean = means[k];
                float tile_m2 = yki_sum_lanes(sums[k]) + rests[k];

                MERGE(so_far, mean, m2[k], tile_count, tile_means[k], tile_m2)
                means[k] = mean;
            }
            count += tile_count;
        }
        for (int k = 0; k < some; k++) {
            out[k] = count;
            out[channels + k] = splits == 1 ? means[k] + pivots[k] : means[k];
            out[2 * channels + k] = m2[k];
        }
    }
}

KERNEL
yki_bn_merge(__global const float *x, __global const float *part, __global float *stats,
             int channels, int area, int block, int splits)
{
    FOR_EACH_TASK(c, channels)
    {
        float count = 0.f, mean = 0.f, m2 = 0.f;

        for (int k = 0; k < splits; k++) {
            __global const float *p = part + (long)k * 3 * channels + c;

            if (p[0] > 0.f)
                MERGE(count, mean, m2, p[0], p[channels], p[2 * channels])
        }
        if (count > 0.f)
            mean += x[c / block * block * (area - 1) + c];
        stats[c] = count;
        stats[channels + c] = mean;
        stats[2 * channels + c] = m2;
    }
}

/* ---- y = (x - mean) / deviation * gamma + beta (+ residual), with relu at least 0 ---- */

#define APPLY_ARGS                                                                             \
    __global const float *x, __global const float *stats, __global const float *gamma,         \
        __global const float *beta, __global const float *residual, __global float *y,         \
        int samples, int channels, int area, int flags, float epsilon

/* Adds gamma and beta of a block of channels to the numbers that normalise it. */
#define ADD_PARAMETERS(c)                                                                      \
    if (flags & AFFINE) {                                                                      \
        LOAD_LANES(weight_, gamma, c, 0.f)                                                     \
        LOAD_LANES(bias_, beta, c, 0.f)                                                        \
                                                                                               \
        scale *= weight_;                                                                      \
        shift = bias_;                                                                         \
    }

__kernel YKI_GROUP(1, 1) void
yki_bn_apply_blocked(APPLY_ARGS)
{
    int blocks = (channels + VEC - 1) / VEC, block = -1;
    floatv mean = 0.f, scale = 0.f, shift = 0.f;

    /* The loop over samples is inside that over blocks, so the numbers of a block serve all its
     * samples. */
    FOR_EACH_TASK(task, (long)samples * blocks)
    {
        int b = (int)(task / samples), c = b * VEC;
        long at = ((task - (long)b * samples) * blocks + b) * area * VEC;
        __global const float *in = x + at, *more = residual + at;
        __global float *out = y + at;

        if (b != block) {
            LOAD_LANES(count, stats, c, 1.f)
            LOAD_LANES(m, stats + channels, c, 0.f)
            LOAD_LANES(m2, stats + 2 * channels, c, 0.f)

            block = b;
            mean = m;
            scale = INVERSE(floatv, count, m2);
            shift = 0.f;
            ADD_PARAMETERS(c)
        }
        for (int i = 0; i < area; i++) {
            floatv v = YKI_FMA(loadv(i, in) - mean, scale, shift);

            if (flags & RESIDUAL)
                v += loadv(i, more);
            if (flags & RELU)
                v = select(v, (floatv)(0.f), v <= 0.f);
            storev(v, i, out);
        }
    }
}

/* The result for one element, vector or not. A comparison that is false for NaN keeps it. */
#define APPLY_ONE(type, v, r)                                                                  \
    v = YKI_FMA(v - mean, (type)(scale), (type)(shift));                                       \
    if (flags & RESIDUAL)                                                                      \
        v += r;                                                                                \
    if (flags & RELU)                                                                          \
        v = select(v, (type)(0.f), v <= 0.f);

#define CHANNEL_SCALE(c)                                                                       \
    float mean = stats[channels + (c)];                                                        \
    float scale = INVERSE(float, stats[c], stats[2 * channels + (c)]) *                        \
                  (flags & AFFINE ? gamma[c] : 1.f);                                           \
    float shift = flags & AFFINE ? beta[c] : 0.f;

__kernel YKI_GROUP(1, 1) void
yki_bn_apply_rows(APPLY_ARGS)
{
    FOR_EACH_TASK(task, (long)samples * channels)
    {
        int c = (int)(task % channels), i = 0;
        __global const float *in = x + task * area, *more = residual + task * area;
        __global float *out = y + task * area;
        CHANNEL_SCALE(c)

        for (; i + VEC <= area; i += VEC) {
            floatv v = loadv(0, in + i);

            APPLY_ONE(floatv, v, loadv(0, more + i))
            storev(v, 0, out + i);
        }
        for (; i < area; i++) {
            float v = in[i];

            APPLY_ONE(float, v, more[i])
            out[i] = v;
        }
    }
}

/* ---- sums for the gradient: part is (splits, 2, C): dy, and dy times the normalised x ---- */

/* With RELU, dy is the gradient after the activation. Where the normalisation, computed as
 * above, is not above 0, nothing passes. `difference` is from the mean. */
#define GATE(type, g, difference)                                                              \
    (flags & RELU ? select(g, (type)(0.f),                                                     \
                           YKI_FMA(difference, (type)(scale), (type)(shift)) <= 0.f)           \
                  : (g))
#define ADD_GRAD(sum, dot, g, difference)                                                      \
    {                                                                                          \
        floatv e = difference, d = GATE(floatv, g, e);                                         \
        sum += d;                                                                              \
        dot = YKI_FMA(d, e, dot);                                                              \
    }

#define GRAD_STATS_ARGS                                                                        \
    __global const float *x, __global const float *dy, __global const float *stats,            \
        __global const float *gamma, __global const float *beta, __global float *part,         \
        int samples, int channels, int area, int splits, int tile_samples, int tile_area,      \
        int flags, float epsilon

__kernel YKI_GROUP(1, 1) void
yki_bn_grad_stats_blocked(GRAD_STATS_ARGS)
{
    int blocks = (channels + VEC - 1) / VEC;

    FOR_EACH_PART(split, b, blocks)
    {
        __global float *out = part + (long)split * 2 * channels;
        int c = b * VEC;
        floatv sum = 0.f, dot = 0.f;
        LOAD_LANES(count, stats, c, 1.f)
        LOAD_LANES(mean, stats + channels, c, 0.f)
        LOAD_LANES(m2, stats + 2 * channels, c, 0.f)
        floatv inverse = INVERSE(floatv, count, m2), scale = inverse, shift = 0.f;
        ADD_PARAMETERS(c)

        FOR_EACH_TILE(split)
        {
            TILE
            floatv s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
            floatv d0 = 0.f, d1 = 0.f, d2 = 0.f, d3 = 0.f;

            for (int n = n0; n < n1; n++) {
                long at = ((long)n * blocks + b) * area * VEC;
                __global const float *p = x + at, *g = dy + at;

                FOR_EACH_4(i, a0, a1, 1, ADD_GRAD(s0, d0, loadv(i, g), loadv(i, p) - mean),
                           ADD_GRAD(s1, d1, loadv(i + 1, g), loadv(i + 1, p) - mean),
                           ADD_GRAD(s2, d2, loadv(i + 2, g), loadv(i + 2, p) - mean),
                           ADD_GRAD(s3, d3, loadv(i + 3, g), loadv(i + 3, p) - mean))
            }
            sum += (s0 + s1) + (s2 + s3);
            dot += (d0 + d1) + (d2 + d3);
        }
        dot *= inverse;
        STORE_LANES(sum, out, c)
        STORE_LANES(dot, out + channels, c)
    }
}

__kernel YKI_GROUP(1, 1) void
yki_bn_grad_stats_rows(GRAD_STATS_ARGS, int rows)
{
    FOR_EACH_PART(split, piece, (channels + rows - 1) / rows)
    {
        int c = piece * rows, some = min(rows, channels - c);
        float means[MOST_ROWS], rests[MOST_ROWS], rest_dots[MOST_ROWS];
        float sum[MOST_ROWS], dot[MOST_ROWS], scales[MOST_ROWS], shifts[MOST_ROWS];
        floatv sums[MOST_ROWS], dots[MOST_ROWS];
        __global float *out = part + (long)split * 2 * channels + c;

        for (int k = 0; k < some; k++) {
            CHANNEL_SCALE(c + k)
            means[k] = mean;
            scales[k] = scale;
            shifts[k] = shift;
            sum[k] = dot[k] = 0.f;
        }
        FOR_EACH_TILE(split)
        {
            TILE
            for (int k = 0; k < some; k++) {
                sums[k] = dots[k] = 0.f;
                rests[k] = rest_dots[k] = 0.f;
            }
            for (int n = n0; n < n1; n++)
                for (int k = 0; k < some; k++) {
                    long at = ((long)n * channels + c + k) * area;
                    __global const float *p = x + at, *g = dy + at;
                    float mean = means[k], rest = rests[k], rest_dot = rest_dots[k];
                    float scale = scales[k], shift = shifts[k];
                    floatv s0 = sums[k], s1 = 0.f, s2 = 0.f, s3 = 0.f;
                    floatv d0 = dots[k], d1 = 0.f, d2 = 0.f, d3 = 0.f;

                    FOR_EACH_4(i, a0, a1, VEC,
                               ADD_GRAD(s0, d0, loadv(0, g + i), loadv(0, p + i) - mean),
                               ADD_GRAD(s1, d1, loadv(1, g + i), loadv(1, p + i) - mean),
                               ADD_GRAD(s2, d2, loadv(2, g + i), loadv(2, p + i) - mean),
                               ADD_GRAD(s3, d3, loadv(3, g + i), loadv(3, p + i) - mean))
                    for (; i < a1; i++) {
                        float e = p[i] - mean, d = GATE(float, g[i], e);

                        rest += d;
                        rest_dot = YKI_FMA(d, e, rest_dot);
                    }
                    sums[k] = (s0 + s1) + (s2 + s3);
                    dots[k] = (d0 + d1) + (d2 + d3);
                    rests[k] = rest;
                    rest_dots[k] = rest_dot;
                }
            for (int k = 0; k < some; k++) {
                sum[k] += yki_sum_lanes(sums[k]) + rests[k];
                dot[k] += yki_sum_lanes(dots[k]) + rest_dots[k];
            }
        }
        for (int k = 0; k < some; k++) {
            out[k] = sum[k];
            out[channels + k] = dot[k] * INVERSE(float, stats[c + k], stats[2 * channels + c + k]);
        }
    }
}

/* ---- dx = gamma / deviation * (dy - mean of dy - normalised x * mean of their product) ---- */

#define GRAD_ARGS                                                                              \
    __global const float *x, __global const float *dy, __global const float *stats,            \
        __global const float *sums, __global const float *gamma, __global const float *beta,   \
        __global float *dx, int samples, int channels, int area, int flags, float epsilon

__kernel YKI_GROUP(1, 1) void
yki_bn_grad_blocked(GRAD_ARGS)
{
    int blocks = (channels + VEC - 1) / VEC, block = -1;
    floatv mean = 0.f, scale = 0.f, offset = 0.f, slope = 0.f, shift = 0.f;

    FOR_EACH_TASK(task, (long)samples * blocks)
    {
        int b = (int)(task / samples), c = b * VEC;
        long at = ((task - (long)b * samples) * blocks + b) * area * VEC;
        __global const float *p = x + at, *g = dy + at;
        __global float *out = dx + at;

        if (b != block) {
            LOAD_LANES(count, stats, c, 1.f)
            LOAD_LANES(m, stats + channels, c, 0.f)
            LOAD_LANES(m2, stats + 2 * channels, c, 0.f)
            LOAD_LANES(sum, sums, c, 0.f)
            LOAD_LANES(dot, sums + channels, c, 0.f)
            floatv inverse = INVERSE(floatv, count, m2);

            block = b;
            mean = m;
            offset = QUOTIENT(floatv, sum, max(count, 1.f));
            slope = QUOTIENT(floatv, -dot * inverse, max(count, 1.f));
            scale = inverse;
            if (flags & AFFINE) {
                LOAD_LANES(weight, gamma, c, 0.f)

                scale *= weight;
            }
            if ((flags & RELU) && (flags & AFFINE)) {
                LOAD_LANES(bias, beta, c, 0.f)

                shift = bias;
            }
        }
        for (int i = 0; i < area; i++) {
            floatv e = loadv(i, p) - mean, d = GATE(floatv, loadv(i, g), e);

            storev(YKI_FMA(e, slope, d - offset) * scale, i, out);
        }
    }
}

#define CHANNEL_SLOPE(c)                                                                       \
    float count = max(stats[c], 1.f), mean = stats[channels + (c)];                            \
    float inverse = INVERSE(float, stats[c], stats[2 * channels + (c)]);                       \
    float offset = QUOTIENT(float, sums[c], count);                                            \
    float slope = QUOTIENT(float, -sums[channels + (c)] * inverse, count);                     \
    float scale = inverse * (flags & AFFINE ? gamma[c] : 1.f);                                 \
    float shift = (flags & RELU) && (flags & AFFINE) ? beta[c] : 0.f;

__kernel YKI_GROUP(1, 1) void
yki_bn_grad_rows(GRAD_ARGS)
{
    FOR_EACH_TASK(task, (long)samples * channels)
    {
        int c = (int)(task % channels), i = 0;
        __global const float *p = x + task * area, *g = dy + task * area;
        __global float *out = dx + task * area;
        CHANNEL_SLOPE(c)

        for (; i + VEC <= area; i += VEC) {
            floatv e = loadv(0, p + i) - mean, d = GATE(floatv, loadv(0, g + i), e);

            storev(YKI_FMA(e, (floatv)(slope), d - offset) * scale, 0, out + i);
        }
        for (; i < area; i++) {
            float e = p[i] - mean, d = GATE(float, g[i], e);

            out[i] = YKI_FMA(e, slope, d - offset) * scale;
        }
    }
}

/* ---- a few numbers per channel ---- */

/* (1 - momentum) old + momentum new, of the mean (0) or the unbiased variance (1). A channel
 * without an estimate in this batch keeps its value. */
KERNEL
yki_bn_running(__global const float *old, __global const float *stats, __global float *out,
               int channels, int variance, float momentum)
{
    FOR_EACH_TASK(c, channels)
    {
        float count = stats[c], now = old[c], value;

        value = variance ? quotient_float(stats[2 * channels + c], max(count - 1.f, 1.f))
                         : stats[channels + c];
        out[c] = count > (variance ? 1.f : 0.f) ? renewed(now, value, momentum) : now;
    }
}

/* The statistics that one value with this mean and variance would have. */
KERNEL
yki_bn_known(__global const float *mean, __global const float *variance, __global float *stats,
             int channels)
{
    FOR_EACH_TASK(c, channels)
    {
        stats[c] = 1.f;
        stats[channels + c] = mean[c];
        stats[2 * channels + c] = variance[c];
    }
}

/* Copies row `first / count` of a matrix. */
KERNEL
yki_row(__global const float *x, __global float *y, int first, int count)
{
    FOR_EACH_TASK(i, count)
    {
        y[i] = x[first + i];
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_tiles.cl - 3x3 convolutions with stride 1 by Winograd's F(4x4, 3x3), and the
 * gradient of their weights by F(3x3, 4x4), for devices that run the work-items of a group
 * side by side, in plain layout. winograd_matrices.cl has the arithmetic.
 *
 * The kernels here transform; winograd_product.cl multiplies 36 pairs of matrices between them. A
 * work-item takes one place in each of 36 matrices:
 *
 *     v  [36][c][tiles]       the inputs; the tiles of all samples stand in a row
 *     u  [36][c][o]           the weights
 *     m  [36][o][tiles]       the results
 *     d  [36][o][tiles]       gradients, for those of the weights
 *     s  [split][36][o][c]    their sums
 *
 * Rows are whole vectors of 4, and end with zeros. Neighbouring work-items have neighbouring tiles,
 * so the matrices are read and written without gaps. A group has a strip of WG tiles and one
 * channel; groups that follow one another have the channels of one strip. One launch makes both
 * operands of a product.
 *
 * The matrices pass through memory, but a cache keeps what was touched last: the products begin
 * with the last tiles, and the results are transformed from the first on.
 *
 * A batch norm that reads results next needs sums over them, in parts, as norm_groups.cl describes
 * them. With NORM the launch that writes results writes these too: a part is what a strip has.
 */
#ifndef WG
#define WG 64
#endif

#include "winograd_matrices.cl"
#include "exact.cl"
#include "norm_flags.cl"
#include "sum_pairs.cl"

#define VECTORS(n) (((n) + 3) / 4 * 4)

/* Where a tile lies: its sample, and its first row and column of results. */
typedef struct place {
    int n, y, x;
} place;

place
place_of(int tile, int th, int tw)
{
    int line = tile / tw, n = line / th;

    return (place){n, (line - n * th) * 4, (tile - line * tw) * 4};
}

/* The 36 places of a tile or a pair of channels that are zeros. */
void
put_zeros(__global float *to, long plane)
{
#pragma unroll
    for (int e = 0; e < 36; e++)
        to[e * plane] = 0.f;
}

/* Row i of the 6 x 6 numbers of a tile, or of a pair of channels. */
#define PUT_ROW(i, a, b, c, d, e, f)                                                          \
    {                                                                                         \
        to[((i)*6) * plane] = a;                                                              \
        to[((i)*6 + 1) * plane] = b;                                                          \
        to[((i)*6 + 2) * plane] = c;                                                          \
        to[((i)*6 + 3) * plane] = d;                                                          \
        to[((i)*6 + 4) * plane] = e;                                                          \
        to[((i)*6 + 5) * plane] = f;                                                          \
    }

/* Transforms the 6 x 6 window at (y0, x0) of an image of h x w, with zeros around it. */
void
put_window(__global const float *x, int h, int w, int y0, int x0, __global float *to, long plane)
{
    float d[36];

#pragma unroll
    for (int j = 0; j < 6; j++) {
        float a[6];

#pragma unroll
        for (int i = 0; i < 6; i++)
            a[i] = (uint)(y0 + i) < (uint)h && (uint)(x0 + j) < (uint)w
                       ? x[(y0 + i) * w + x0 + j]
                       : 0.f;
        TRANSFORM_6(a[0], a[1], a[2], a[3], a[4], a[5], d[j], d[6 + j], d[12 + j], d[18 + j],
                    d[24 + j], d[30 + j])
    }
#pragma unroll
    for (int i = 0; i < 6; i++) {
        float o0, o1, o2, o3, o4, o5;

        TRANSFORM_6(d[i * 6], d[i * 6 + 1], d[i * 6 + 2], d[i * 6 + 3], d[i * 6 + 4], d[i * 6 + 5],
                    o0, o1, o2, o3, o4, o5)
        PUT_ROW(i, o0, o1, o2, o3, o4, o5)
    }
}

/* Transforms the 4 x 4 window at (y0, x0), which begins inside. */
void
put_gradient(__global const float *dy, int h, int w, int y0, int x0, __global float *to,
             long plane)
{
    float d[24];

#pragma unroll
    for (int j = 0; j < 4; j++) {
        float a[4];

#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = y0 + i < h && x0 + j < w ? dy[(y0 + i) * w + x0 + j] : 0.f;
        TRANSFORM_4(a[0], a[1], a[2], a[3], d[j], d[4 + j], d[8 + j], d[12 + j], d[16 + j],
                    d[20 + j])
    }
#pragma unroll
    for (int i = 0; i < 6; i++) {
        float o0, o1, o2, o3, o4, o5;

        TRANSFORM_4(d[i * 4], d[i * 4 + 1], d[i * 4 + 2], d[i * 4 + 3], o0, o1, o2, o3, o4, o5)
        PUT_ROW(i, o0, o1, o2, o3, o4, o5)
    }
}

/* Transforms 9 weights, from the last to the first if `turned`. */
void
put_weights(__global const float *w, int turned, __global float *to, long plane)
{
    float g[9], d[18];

#pragma unroll
    for (int k = 0; k < 9; k++)
        g[k] = w[turned ? 8 - k : k];
#pragma unroll
    for (int j = 0; j < 3; j++)
        TRANSFORM_3(g[j], g[3 + j], g[6 + j], d[j], d[3 + j], d[6 + j], d[9 + j], d[12 + j],
                    d[15 + j])
#pragma unroll
    for (int i = 0; i < 6; i++) {
        float o0, o1, o2, o3, o4, o5;

        TRANSFORM_3(d[i * 3], d[i * 3 + 1], d[i * 3 + 2], o0, o1, o2, o3, o4, o5)
        PUT_ROW(i, o0 * scales[i * 6], o1 * scales[i * 6 + 1], o2 * scales[i * 6 + 2],
                o3 * scales[i * 6 + 3], o4 * scales[i * 6 + 4], o5 * scales[i * 6 + 5])
    }
}

/* weight (o, c, 3, 3), or (c, o, 3, 3) if transposed, -> u, by the first `groups` groups. */
void
weights_in(__global const float *weight, __global float *u, int c, int o, int transposed,
           int groups)
{
    int group = get_group_id(0), row = VECTORS(o);
    long plane = (long)c * row;

    for (int i = group * WG + (int)get_local_id(0); group < groups && i < c * row;
         i += groups * WG) {
        int in = i / row, out = i - in * row;

        if (out < o)
            put_weights(weight + (transposed ? (long)in * o + out : (long)out * c + in) * 9,
                        transposed, u + i, plane);
        else
            put_zeros(u + i, plane);
    }
}

/* x (N, c, h, w) -> v, and weight -> u. The first `weight_groups` groups have the weights. The
 * results have th x tw tiles an image. */
__kernel YKI_GROUP(WG, 1) void
yki_tiles_in(__global const float *x, __global const float *weight, __global float *v,
             __global float *u, int samples, int c, int h, int w, int pad_h, int pad_w, int th,
             int tw, int o, int transposed, int weight_groups)
{
    int group = get_group_id(0), groups = get_num_groups(0), item = get_local_id(0);
    int tiles = samples * th * tw, row = VECTORS(tiles), units = (row + WG - 1) / WG * c;
    long plane = (long)c * row;

    weights_in(weight, u, c, o, transposed, weight_groups);
    for (int unit = group - weight_groups; unit >= 0 && unit < units;
         unit += groups - weight_groups) {
        int strip = unit / c, channel = unit - strip * c, tile = strip * WG + item;
        __global float *to = v + (long)channel * row + tile;
        place p = place_of(tile, th, tw);

        if (tile < tiles)
            put_window(x + ((long)p.n * c + channel) * h * w, h, w, p.y - pad_h, p.x - pad_w, to,
                       plane);
        else if (tile < row)
            put_zeros(to, plane);
    }
}

/* What becomes of a result r before it is stored: of the place `at` of y. */
#define ACT_RELU      1
#define ACT_SUM       2 /* r + other */
#define ACT_GATED_SUM 3 /* the same where gate is above 0, else 0; comparisons are false for NaN */
#define FINISH(type, r, load, at)                                                             \
    r += add;                                                                                 \
    if (act == ACT_RELU)                                                                      \
        r = select(r, (type)(0.f), r <= 0.f);                                                 \
    if (act >= ACT_SUM)                                                                       \
        r += load(at, other);                                                                 \
    if (act == ACT_GATED_SUM)                                                                 \
        r = select(r, (type)(0.f), load(at, gate) <= 0.f);
#define LOAD1(at, from) ((from)[at])
#define LOAD4(at, from) (*(__global const float4 *)((from) + (at)))

/* ---- what a norm behind the results gets: parts of each channel, one from each strip ---- */

#define STATISTICS 1 /* count, mean, M2 */
#define SUMS       2 /* of the results, which are gradients, and of them times the normalised x */
#ifndef NORM
#define NORM 0
#endif

#if NORM == STATISTICS
#define NORM_PARAMS __global float *part, int parts,
#define NORM_ARGS   part, parts,
#elif NORM == SUMS
#define NORM_PARAMS                                                                           \
    __global const float *norm_x, __global const float *stats, __global const float *gamma,   \
        __global const float *beta, __global float *part, int parts, int flags, float epsilon,
#define NORM_ARGS norm_x, stats, gamma, beta, part, parts, flags, epsilon,
#else
#define NORM_PARAMS
#define NORM_ARGS
#endif

#if NORM == STATISTICS
/* Values are differences from the first that this work-item has, so that little cancels. */
#define NORM_START                                                                            \
    float pivot = 0.f, sum = 0.f, more = 0.f;                                                 \
    int count = 0;
#define NORM_TAKE(r)                                                                          \
    {                                                                                         \
        float d_;                                                                             \
                                                                                              \
        pivot = count == 0 ? (r) : pivot;                                                     \
        d_ = (r)-pivot;                                                                       \
        sum += d_;                                                                            \
        more = YKI_FMA(d_, d_, more);                                                         \
        count++;                                                                              \
    }
#define NORM_TAKE1(r, at) NORM_TAKE(r)
#define NORM_TAKE4(r, at) NORM_TAKE(r.s0) NORM_TAKE(r.s1) NORM_TAKE(r.s2) NORM_TAKE(r.s3)
#define NORM_END                                                                              \
    put_statistics(count, pivot, sum, more, part + ((long)strip * 3) * o + channel, o, space);

/* Writes (count, mean, M2) of all work-items of the group. */
void
put_statistics(int count, float pivot, float sum, float squares, __global float *to, int step,
               __local float2 *space)
{
    float n = (float)count, mean = QUOTIENT(float, sum, max(n, 1.f)), m2 = YKI_FMA(-sum, mean, squares);
    __local float *pivots = (__local float *)space;
    float first, moved;
    float2 all;

    if (ITEM == 0)
        pivots[0] = pivot;
    barrier(CLK_LOCAL_MEM_FENCE);
    first = pivots[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    mean += count ? pivot - first : 0.f;
    all = yki_sum_pairs((float2)(n, n * mean), WG, space);
    moved = QUOTIENT(float, all.y, max(all.x, 1.f));
    mean -= moved;
    m2 = yki_sum_pairs((float2)(YKI_FMA(n * mean, mean, m2 < 0.f ? 0.f : m2), 0.f), WG, space).x;
    if (ITEM == 0) {
        to[0] = all.x;
        to[step] = first + moved;
        to[2 * step] = m2;
    }
}
#elif NORM == SUMS
#define NORM_START                                                                            \
    float inverse = INVERSE(float, stats[channel], stats[2 * o + channel]), mean = stats[o + channel]; \
    float scale = inverse * (flags & AFFINE ? gamma[channel] : 1.f);                          \
    float shift = flags & RELU && flags & AFFINE ? beta[channel] : 0.f, sum = 0.f, more = 0.f; \
    float2 all;
/* As in norm_groups.cl: with RELU the results pass where the norm's own result is above 0. */
#define NORM_TAKE(r, x)                                                                       \
    {                                                                                         \
        float e_ = (x)-mean;                                                                  \
        float g_ = flags & RELU && YKI_FMA(e_, scale, shift) <= 0.f ? 0.f : (r);              \
                                                                                              \
        sum += g_;                                                                            \
        more = YKI_FMA(g_, e_, more);                                                         \
    }
#define NORM_TAKE1(r, at) NORM_TAKE(r, norm_x[at])
#define NORM_TAKE4(r, at)                                                                     \
    {                                                                                         \
        float4 x_ = LOAD4(at, norm_x);                                                        \
                                                                                              \
        NORM_TAKE(r.s0, x_.s0)                                                                \
        NORM_TAKE(r.s1, x_.s1)                                                                \
        NORM_TAKE(r.s2, x_.s2)                                                                \
        NORM_TAKE(r.s3, x_.s3)                                                                \
    }
#define NORM_END                                                                              \
    all = yki_sum_pairs((float2)(sum, more), WG, space);                                      \
    if (ITEM == 0) {                                                                          \
        part[((long)strip * 2) * o + channel] = all.x;                                        \
        part[((long)strip * 2 + 1) * o + channel] = all.y * inverse;                          \
    }
#else
#define NORM_START
#define NORM_TAKE1(r, at)
#define NORM_TAKE4(r, at)
#define NORM_END (void)space;
#endif

/* m -> y (N, o, oh, ow), by the first `groups` groups. With NORM there is a part for each strip of
 * the largest batch. */
void
results_out(__global const float *m, __global const float *bias, __global const float *other,
            __global const float *gate, __global float *y, NORM_PARAMS int samples, int o, int oh,
            int ow, int th, int tw, int has_bias, int act, int groups, __local float2 *space)
{
    int tiles = samples * th * tw, row = VECTORS(tiles);
#if NORM
    int units = parts * o;
#else
    int units = (tiles + WG - 1) / WG * o;
#endif
    long plane = (long)o * row;

    for (int unit = get_group_id(0); (int)get_group_id(0) < groups && unit < units;
         unit += groups) {
        int strip = unit / o, channel = unit - strip * o, tile = strip * WG + get_local_id(0);
        float d[24], add = has_bias ? bias[channel] : 0.f;
        __global const float *from = m + (long)channel * row + tile;
        place p = place_of(tile, th, tw);
        long corner = (((long)p.n * o + channel) * oh + p.y) * ow + p.x;
        NORM_START

        if (tile < tiles) {
#pragma unroll
            for (int j = 0; j < 6; j++) {
                float a[6];

#pragma unroll
                for (int k = 0; k < 6; k++)
                    a[k] = from[(k * 6 + j) * plane];
                RESULTS_4(a[0], a[1], a[2], a[3], a[4], a[5], d[j], d[6 + j], d[12 + j],
                          d[18 + j])
            }
#pragma unroll
            for (int k = 0; k < 4; k++) {
                long at = corner + k * ow;
                float r[4];

                RESULTS_4(d[k * 6], d[k * 6 + 1], d[k * 6 + 2], d[k * 6 + 3], d[k * 6 + 4],
                          d[k * 6 + 5], r[0], r[1], r[2], r[3])
                if (p.y + k >= oh)
                    continue;
                if ((ow & 3) == 0) { /* then the row is a whole vector, aligned as one */
                    float4 all = (float4)(r[0], r[1], r[2], r[3]);

                    FINISH(float4, all, LOAD4, at)
                    NORM_TAKE4(all, at)
                    *(__global float4 *)(y + at) = all;
                    continue;
                }
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (p.x + j < ow) {
                        FINISH(float, r[j], LOAD1, at + j)
                        NORM_TAKE1(r[j], at + j)
                        y[at + j] = r[j];
                    }
            }
        }
        NORM_END
    }
}

__kernel YKI_GROUP(WG, 1) void
yki_tiles_out(__global const float *m, __global const float *bias, __global float *y,
              NORM_PARAMS int samples, int o, int oh, int ow, int th, int tw, int has_bias, int act)
{
    __local float2 space[NORM ? WG : 1];

    results_out(m, bias, y, y, y, NORM_ARGS samples, o, oh, ow, th, tw, has_bias, act,
                get_num_groups(0), space);
}

/* x (N, c, h, w) -> v and dy (N, o, oh, ow) -> d; with `also`, dy -> g, as the image of a
 * convolution that has th x tw tiles too. Not by the first `besides` groups. */
void
both_in(__global const float *x, __global const float *dy, __global float *v, __global float *d,
        __global float *g, int also, int samples, int c, int h, int w, int o, int oh, int ow,
        int pad_h, int pad_w, int th, int tw, int besides)
{
    int tiles = samples * th * tw, row = VECTORS(tiles), units = (row + WG - 1) / WG * (c + o);

    for (int unit = (int)get_group_id(0) - besides; unit >= 0 && unit < units;
         unit += (int)get_num_groups(0) - besides) {
        int strip = unit / (c + o), channel = unit - strip * (c + o), of_x = channel < c;
        int tile = strip * WG + get_local_id(0);
        long plane = (long)(of_x ? c : o) * row;
        long at = (long)(of_x ? channel : channel - c) * row + tile;
        place p = place_of(tile, th, tw);

        if (tile >= tiles) {
            if (tile < row)
                put_zeros((of_x ? v : d) + at, plane);
            if (tile < row && !of_x && also)
                put_zeros(g + at, plane);
        } else if (of_x) {
            put_window(x + ((long)p.n * c + channel) * h * w, h, w, p.y - pad_h, p.x - pad_w,
                       v + at, plane);
        } else {
            __global const float *image = dy + ((long)p.n * o + channel - c) * oh * ow;

            put_gradient(image, oh, ow, p.y, p.x, d + at, plane);
            if (also)
                put_window(image, oh, ow, p.y + pad_h - 2, p.x + pad_w - 2, g + at, plane);
        }
    }
}

__kernel YKI_GROUP(WG, 1) void
yki_tiles_both(__global const float *x, __global const float *dy, __global float *v,
               __global float *d, int samples, int c, int h, int w, int o, int oh, int ow,
               int pad_h, int pad_w, int th, int tw)
{
    both_in(x, dy, v, d, d, 0, samples, c, h, w, o, oh, ow, pad_h, pad_w, th, tw, 0);
}

/* s -> dw (o, c, 3, 3), not by the first `besides` groups. A group takes 16 pairs of channels at a
 * time: first each work-item adds the splits of some of the 36 x 16 sums. */
#define PAIRS 16
void
sums_out(__global const float *s, __global float *dw, int o, int c, int splits, int besides,
         __local float (*sum)[PAIRS])
{
    int item = get_local_id(0), c_row = VECTORS(c), strips = (c + PAIRS - 1) / PAIRS;
    long plane = (long)o * c_row;

    for (int unit = (int)get_group_id(0) - besides; unit >= 0 && unit < o * strips;
         unit += (int)get_num_groups(0) - besides) {
        int row = unit / strips, c0 = (unit - row * strips) * PAIRS;

        for (int i = item; i < 36 * PAIRS; i += WG) {
            int e = i / PAIRS, k = min(c0 + i - e * PAIRS, c - 1);
            __global const float *from = s + e * plane + (long)row * c_row + k;
            float value = from[0];

            for (int split = 1; split < splits; split++)
                value += from[split * 36 * plane];
            sum[e][i - e * PAIRS] = value * scales[e];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < PAIRS && c0 + item < c) {
            float d[18], g[9];

#pragma unroll
            for (int j = 0; j < 6; j++)
                RESULTS_3(sum[j][item], sum[6 + j][item], sum[12 + j][item], sum[18 + j][item],
                          sum[24 + j][item], sum[30 + j][item], d[j], d[6 + j], d[12 + j])
#pragma unroll
            for (int i = 0; i < 3; i++)
                RESULTS_3(d[i * 6], d[i * 6 + 1], d[i * 6 + 2], d[i * 6 + 3], d[i * 6 + 4],
                          d[i * 6 + 5], g[i * 3], g[i * 3 + 1], g[i * 3 + 2])
#pragma unroll
            for (int k = 0; k < 9; k++)
                dw[((long)row * c + c0 + item) * 9 + k] = g[k];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

__kernel YKI_GROUP(WG, 1) void
yki_tiles_weight_out(__global const float *s, __global float *dw, int o, int c, int splits)
{
    __local float sum[36][PAIRS];

    sums_out(s, dw, o, c, splits, 0, sum);
}

/* ---- both gradients of a convolution, whose image and result have as many tiles ---- */

/* x -> v, dy -> d and g, weight -> u. The first `weight_groups` groups have the weights. */
__kernel YKI_GROUP(WG, 1) void
yki_tiles_grads_in(__global const float *x, __global const float *dy, __global const float *weight,
                   __global float *v, __global float *d, __global float *g, __global float *u,
                   int samples, int c, int h, int w, int o, int oh, int ow, int pad_h, int pad_w,
                   int th, int tw, int weight_groups)
{
    weights_in(weight, u, o, c, 1, weight_groups);
    both_in(x, dy, v, d, g, 1, samples, c, h, w, o, oh, ow, pad_h, pad_w, th, tw, weight_groups);
}

/* m -> dx (N, c, h, w), by the first `image_groups` groups, and s -> dw. */
__kernel YKI_GROUP(WG, 1) void
yki_tiles_grads_out(__global const float *m, __global const float *other,
                    __global const float *gate, __global const float *s, __global float *dx,
                    __global float *dw,
                    NORM_PARAMS int samples, int c, int h, int w, int th, int tw, int act,
                    int image_groups, int o, int splits)
{
    __local float sum[36][PAIRS];
    __local float2 space[NORM ? WG : 1];

    results_out(m, m, other, gate, dx, NORM_ARGS samples, c, h, w, th, tw, 0, act, image_groups,
                space);
    sums_out(s, dw, o, c, splits, image_groups, sum);
}

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
 * The matrices pass through memory, but a cache keeps what was touched last: the products begin with
 * the last tiles, and the results are transformed from the first on.
 */
#ifndef WG
#define WG 64
#endif

#include "winograd_matrices.cl"

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

/* x (N, c, h, w) -> v, and weight (o, c, 3, 3), or (c, o, 3, 3) if transposed, -> u. The first
 * `weight_groups` groups have the weights. The results have th x tw tiles an image. */
__kernel YKI_GROUP(WG, 1) void
yki_tiles_in(__global const float *x, __global const float *weight, __global float *v,
             __global float *u, int samples, int c, int h, int w, int pad_h, int pad_w, int th,
             int tw, int o, int transposed, int weight_groups)
{
    int group = get_group_id(0), groups = get_num_groups(0), item = get_local_id(0);
    int tiles = samples * th * tw, row = VECTORS(tiles), o_row = VECTORS(o);
    int units = (row + WG - 1) / WG * c;
    long plane = (long)c * row, weight_plane = (long)c * o_row;

    for (int i = group * WG + item; group < weight_groups && i < c * o_row;
         i += weight_groups * WG) {
        int in = i / o_row, out = i - in * o_row;

        if (out < o)
            put_weights(weight + (transposed ? (long)in * o + out : (long)out * c + in) * 9,
                        transposed, u + i, weight_plane);
        else
            put_zeros(u + i, weight_plane);
    }
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

/* m -> y (N, o, oh, ow). */
__kernel YKI_GROUP(WG, 1) void
yki_tiles_out(__global const float *m, __global const float *bias, __global float *y, int samples,
              int o, int oh, int ow, int th, int tw, int has_bias, int act)
{
    int tiles = samples * th * tw, row = VECTORS(tiles), units = (tiles + WG - 1) / WG * o;
    long plane = (long)o * row;

    for (int unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {
        int strip = unit / o, channel = unit - strip * o, tile = strip * WG + get_local_id(0);
        float d[24], add = has_bias ? bias[channel] : 0.f;
        __global const float *from = m + (long)channel * row + tile;
        place p = place_of(tile, th, tw);
        __global float *to = y + (((long)p.n * o + channel) * oh + p.y) * ow + p.x;

        if (tile >= tiles)
            continue;
#pragma unroll
        for (int j = 0; j < 6; j++) {
            float a[6];

#pragma unroll
            for (int k = 0; k < 6; k++)
                a[k] = from[(k * 6 + j) * plane];
            RESULTS_4(a[0], a[1], a[2], a[3], a[4], a[5], d[j], d[6 + j], d[12 + j], d[18 + j])
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float r[4];

            RESULTS_4(d[k * 6], d[k * 6 + 1], d[k * 6 + 2], d[k * 6 + 3], d[k * 6 + 4],
                      d[k * 6 + 5], r[0], r[1], r[2], r[3])
#pragma unroll
            for (int j = 0; j < 4; j++) {
                r[j] += add;
                r[j] = act == 1 && r[j] <= 0.f ? 0.f : r[j];
            }
            if (p.y + k >= oh)
                continue;
            if ((ow & 3) == 0) { /* then the row is a whole vector, aligned as one */
                *(__global float4 *)(to + k * ow) = (float4)(r[0], r[1], r[2], r[3]);
                continue;
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (p.x + j < ow)
                    to[k * ow + j] = r[j];
        }
    }
}

/* x (N, c, h, w) -> v and dy (N, o, oh, ow) -> d. */
__kernel YKI_GROUP(WG, 1) void
yki_tiles_both(__global const float *x, __global const float *dy, __global float *v,
               __global float *d, int samples, int c, int h, int w, int o, int oh, int ow, int pad_h,
               int pad_w, int th, int tw)
{
    int tiles = samples * th * tw, row = VECTORS(tiles), units = (row + WG - 1) / WG * (c + o);

    for (int unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {
        int strip = unit / (c + o), channel = unit - strip * (c + o), of_x = channel < c;
        int tile = strip * WG + get_local_id(0), channels = of_x ? c : o;
        place p = place_of(tile, th, tw);
        __global float *to = of_x ? v : d;

        channel -= of_x ? 0 : c;
        to += (long)channel * row + tile;
        if (tile >= tiles) {
            if (tile < row)
                put_zeros(to, (long)channels * row);
        } else if (of_x) {
            put_window(x + ((long)p.n * c + channel) * h * w, h, w, p.y - pad_h, p.x - pad_w, to,
                       (long)c * row);
        } else {
            put_gradient(dy + ((long)p.n * o + channel) * oh * ow, oh, ow, p.y, p.x, to,
                         (long)o * row);
        }
    }
}

/* s -> dw (o, c, 3, 3). A group takes 16 pairs of channels at a time: first each work-item adds the
 * splits of some of the 36 x 16 sums. */
#define PAIRS 16
__kernel YKI_GROUP(WG, 1) void
yki_tiles_weight_out(__global const float *s, __global float *dw, int o, int c, int splits)
{
    __local float sum[36][PAIRS];
    int item = get_local_id(0), c_row = VECTORS(c), strips = (c + PAIRS - 1) / PAIRS;
    long plane = (long)o * c_row;

    for (int unit = get_group_id(0); unit < o * strips; unit += get_num_groups(0)) {
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

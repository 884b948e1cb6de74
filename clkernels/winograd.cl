/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd.cl - 3x3 convolutions with stride 1 by Winograd's F(4x4, 3x3), and the
 * gradient of their weights by F(3x3, 4x4), for CPUs, on channels in blocks of V.
 * winograd_matrices.cl has the arithmetic.
 *
 * Transforms and products are fused. A work-group of one work-item transforms a block of tiles into
 * its own scratch memory, which stays in a cache near it. It multiplies 36 small matrices by a
 * register tile of P tiles x 2 blocks of output channels, while the weights stream past once for the
 * block, and transforms back. A tile's arithmetic does not depend on the block that it is in.
 */
#ifndef V
#define V 16
#endif

#define floatv YKI_PASTE(float, V)
#define intv YKI_PASTE(int, V)
#define as_floatv YKI_PASTE(as_float, V)
#define as_intv YKI_PASTE(as_int, V)
#define loadv YKI_PASTE(vload, V)
#define storev YKI_PASTE(yki_store, V)

/* Tiles at a time, for 32 registers or 16. R: rows of the product in weight gradients. The
 * remainder is done by thirds of P. */
#if V == 16
#define P 12
#define R 8
#define EACH_3(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define EACH_2(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define EACH_1(F) F(0) F(1) F(2) F(3)
#define EACH_R(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#else
#define P 6
#define R 4
#define EACH_3(F) F(0) F(1) F(2) F(3) F(4) F(5)
#define EACH_2(F) F(0) F(1) F(2) F(3)
#define EACH_1(F) F(0) F(1)
#define EACH_R(F) F(0) F(1) F(2) F(3)
#endif
#define THIRD (P / 3)

/* The floats by which the distance of the matrices e = 0..35 in scratch differs from a power of
 * two. At a power of two, all of them would share a few lines of a cache. */
#define SKEW 16

#include "winograd_matrices.cl"

/* The first 8 weights of V channels, in 8 vectors or, for V = 4, in two halves. In memory a row has
 * the weights of a channel; 16 lanes have two rows. The ninth is moved alone: transposing 9 of 16
 * columns would take more than twice as many shuffles. */
#if V == 16
#define HALF 8
#ifdef YKI_LANES_APART
float16
join(float8 low, float8 high)
{
    float lanes[16];

    vstore8(low, 0, lanes);
    vstore8(high, 1, lanes);
    return vload16(0, lanes);
}
float8
half_of(float16 x, int which)
{
    float lanes[16];

    vstore16(x, 0, lanes);
    return vload8(which, lanes);
}
#define LOW(x)  half_of(x, 0)
#define HIGH(x) half_of(x, 1)
#else
#define join(low, high) (float16)(low, high)
#define LOW(x)          (x).lo
#define HIGH(x)         (x).hi
#endif
#define LOAD_ROWS(p, apart, l)                                                                \
    join(vload8(0, (p) + 2 * (l) * (apart)), vload8(0, (p) + (2 * (l) + 1) * (apart)))
#define STORE_ROWS(r, l, p)                                                                   \
    yki_store8(LOW(r), 0, (p) + 2 * (l)*9);                                                   \
    yki_store8(HIGH(r), 0, (p) + (2 * (l) + 1) * 9);
#define LANES_V YKI_LANES16
#else
#define HALF                    V
#define LOAD_ROWS(p, apart, l)  loadv(0, (p) + (l) * (apart))
#define STORE_ROWS(r, l, p)     storev(r, 0, (p) + (l)*9);
#define LANES_V                 YKI_PASTE(YKI_LANES, V)
#endif
YKI_DEFINE_TURN(rows_to_taps, HALF, V, HALF)
YKI_DEFINE_TURN(taps_to_rows, HALF, V, V)

/* Transforms the 6 x 6 window at (y0, x0) of a plane of one channel block. Matrix e goes to to +
 * e * e_step. Outside the image are zeros: rows are clamped and their bits masked, so it does
 * not matter what memory holds there. */
void
transform_window(__global const float *x, int h, int w, int y0, int x0, __global float *to,
                 long e_step)
{
    floatv d[36];

    if (y0 >= 0 && x0 >= 0 && y0 + 6 <= h && x0 + 6 <= w) {
        __global const float *q = x + ((long)y0 * w + x0) * V;

#pragma unroll
        for (int j = 0; j < 6; j++) {
            floatv a0 = loadv(j, q), a1 = loadv(w + j, q), a2 = loadv(2 * w + j, q);
            floatv a3 = loadv(3 * w + j, q), a4 = loadv(4 * w + j, q), a5 = loadv(5 * w + j, q);

            TRANSFORM_6(a0, a1, a2, a3, a4, a5, d[j], d[6 + j], d[12 + j], d[18 + j], d[24 + j],
                        d[30 + j])
        }
    } else {
        int row[6], keep[6];

#pragma unroll
        for (int i = 0; i < 6; i++) {
            keep[i] = y0 + i >= 0 && y0 + i < h ? -1 : 0;
            row[i] = clamp(y0 + i, 0, h - 1) * w;
        }
#pragma unroll
        for (int j = 0; j < 6; j++) {
            int column = clamp(x0 + j, 0, w - 1), in = x0 + j == column ? -1 : 0;
            floatv a0 = as_floatv(as_intv(loadv(row[0] + column, x)) & (keep[0] & in));
            floatv a1 = as_floatv(as_intv(loadv(row[1] + column, x)) & (keep[1] & in));
            floatv a2 = as_floatv(as_intv(loadv(row[2] + column, x)) & (keep[2] & in));
            floatv a3 = as_floatv(as_intv(loadv(row[3] + column, x)) & (keep[3] & in));
            floatv a4 = as_floatv(as_intv(loadv(row[4] + column, x)) & (keep[4] & in));
            floatv a5 = as_floatv(as_intv(loadv(row[5] + column, x)) & (keep[5] & in));

            TRANSFORM_6(a0, a1, a2, a3, a4, a5, d[j], d[6 + j], d[12 + j], d[18 + j], d[24 + j],
                        d[30 + j])
        }
    }
#pragma unroll
    for (int i = 0; i < 6; i++) {
        floatv o0, o1, o2, o3, o4, o5;

        TRANSFORM_6(d[i * 6], d[i * 6 + 1], d[i * 6 + 2], d[i * 6 + 3], d[i * 6 + 4], d[i * 6 + 5],
                    o0, o1, o2, o3, o4, o5)
        storev(o0, 0, to + (i * 6) * e_step);
        storev(o1, 0, to + (i * 6 + 1) * e_step);
        storev(o2, 0, to + (i * 6 + 2) * e_step);
        storev(o3, 0, to + (i * 6 + 3) * e_step);
        storev(o4, 0, to + (i * 6 + 4) * e_step);
        storev(o5, 0, to + (i * 6 + 5) * e_step);
    }
}

/* One matrix e of some tiles: v [block][P][V] times u [channel][2 V] gives m [tile][2 V], or is
 * added to it. The last block has `last` channels. */
#define START(i) floatv a##i##_0 = 0.f, a##i##_1 = 0.f;
#define GO_ON(i)                                                                              \
    a##i##_0 = loadv(2 * i, m);                                                               \
    a##i##_1 = loadv(2 * i + 1, m);
#define STEP(i)                                                                               \
    a##i##_0 = YKI_FMA((floatv)(v[i * V + l]), w0, a##i##_0);                                 \
    a##i##_1 = YKI_FMA((floatv)(v[i * V + l]), w1, a##i##_1);
#define STORE(i)                                                                              \
    storev(a##i##_0, 2 * i, m);                                                               \
    storev(a##i##_1, 2 * i + 1, m);
#define MULTIPLY(name, EACH)                                                                  \
    void name(__global const float *v, __global const float *u, __global float *m,            \
              int blocks, int last, int add)                                                  \
    {                                                                                         \
        EACH(START)                                                                           \
        if (add) {                                                                            \
            EACH(GO_ON)                                                                       \
        }                                                                                     \
        for (int b = 0; b < blocks; b++) {                                                    \
            int lanes = b + 1 < blocks ? V : last;                                            \
                                                                                              \
            for (int l = 0; l < lanes; l++) {                                                 \
                floatv w0 = loadv(0, u), w1 = loadv(1, u);                                    \
                                                                                              \
                YKI_PREFETCH(u + YKI_AHEAD * 2 * V);                                              \
                YKI_PREFETCH(u + (YKI_AHEAD * 2 + 1) * V);                                        \
                YKI_PREFETCH(v + (2 * P + l) * V);                                            \
                EACH(STEP)                                                                    \
                u += 2 * V;                                                                   \
            }                                                                                 \
            v += P * V;                                                                       \
        }                                                                                     \
        EACH(STORE)                                                                           \
    }
MULTIPLY(multiply_3, EACH_3)
MULTIPLY(multiply_2, EACH_2)
MULTIPLY(multiply_1, EACH_1)

floatv
finish(floatv y, int act)
{
    return act == 1 ? select(y, (floatv)(0.f), y <= 0.f) : y;
}

/* The 36 products of one tile and channel block, at m + e * m_step, give up to 4 x 4 results in
 * the plane y of w columns. */
void
results_tile(__global const float *m, long m_step, floatv bias, __global float *y, int w, int rows,
             int columns, int act)
{
    floatv d[24];

#pragma unroll
    for (int j = 0; j < 6; j++) {
        floatv m0 = loadv(0, m + j * m_step), m1 = loadv(0, m + (6 + j) * m_step);
        floatv m2 = loadv(0, m + (12 + j) * m_step), m3 = loadv(0, m + (18 + j) * m_step);
        floatv m4 = loadv(0, m + (24 + j) * m_step), m5 = loadv(0, m + (30 + j) * m_step);

        RESULTS_4(m0, m1, m2, m3, m4, m5, d[j], d[6 + j], d[12 + j], d[18 + j])
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __global float *to = y + (long)i * w * V;
        floatv y0, y1, y2, y3;

        RESULTS_4(d[i * 6], d[i * 6 + 1], d[i * 6 + 2], d[i * 6 + 3], d[i * 6 + 4], d[i * 6 + 5],
                  y0, y1, y2, y3)
        if (i < rows) {
            storev(finish(y0 + bias, act), 0, to);
            if (columns > 1)
                storev(finish(y1 + bias, act), 1, to);
            if (columns > 2)
                storev(finish(y2 + bias, act), 2, to);
            if (columns > 3)
                storev(finish(y3 + bias, act), 3, to);
        }
    }
}

/* Where the tiles of a convolution are. Remainders are written as differences, because Oclgrind
 * does not know what the compiler makes of a / b and a % b together. */
typedef struct plane {
    int h, w, oh, ow, pad_h, pad_w, in_blocks, out_blocks;
} plane;

/* A unit of work: a block of tiles, [t0, t1), and a range of pairs of output blocks. `count`
 * includes the tiles that fill up the last third. */
typedef struct piece {
    int block, t0, t1, count, first, end;
} piece;

piece
piece_of(int unit, int splits, int blocks, int tiles, int pairs)
{
    int thirds = (tiles + THIRD - 1) / THIRD, split;
    piece q;

    q.block = unit / splits;
    split = unit - q.block * splits;
    q.t0 = (int)((long)thirds * q.block / blocks) * THIRD;
    q.t1 = min((int)((long)thirds * (q.block + 1) / blocks) * THIRD, tiles);
    q.count = (q.t1 - q.t0 + THIRD - 1) / THIRD * THIRD;
    q.first = (int)((long)pairs * split / splits);
    q.end = (int)((long)pairs * (split + 1) / splits);
    return q;
}

/* While products are computed, memory is idle, and before and after them the transforms wait for
 * it. So each piece of the products, part / parts, asks for a piece of the lines that the next
 * transform reads or, if `store`, writes. They are those of the tiles t0..t1 of 4 x 4, of the
 * channel blocks b0..b1, in image (N, blocks, h, w, V). Lines around the tiles are not asked for:
 * most of them belong to neighbours. */
void
ask_tiles(__global const float *image, int blocks, int h, int w, int th, int tw, int t0, int t1,
          int b0, int b1, int part, int parts, int store)
{
#if YKI_NATIVE
    int rows = max(t1 - t0, 0) * 4;
    long all = (long)rows * (b1 - b0);

    for (int i = (int)(all * part / parts); i < (int)(all * (part + 1) / parts); i++) {
        int b = i / rows, k = i - b * rows, t = t0 + k / 4, row = t / tw, n = row / th;
        int y = (row - n * th) * 4 + (k & 3), x = (t - row * tw) * 4;
        __global const float *p = image + ((((long)n * blocks + b0 + b) * h + y) * w + x) * V;

        if (y >= h)
            continue;
        for (int j = 0; j < 4; j++)
            if (store)
                YKI_PREFETCH_TO_STORE(p + j * V);
            else
                YKI_PREFETCH(p + j * V);
    }
#endif
}

/* Transforms `count` tiles of x (N, c/V, h, w, V) from t0 on, for `chunk` blocks of channels one
 * after the other, c_step apart, to [36][count / P][chunk][P][V]. Neighbouring tiles follow one
 * another, so rows of x are read as streams. Beyond the last tile, any other one is used. */
void
transform_tiles(__global const float *x, plane p, int t0, int count, int tiles, __global float *v,
                long v_step, int chunk, long c_step)
{
    int th = (p.oh + 3) / 4, tw = (p.ow + 3) / 4;

    for (int b = 0; b < p.in_blocks; b++) {
        __global float *to = v + b / chunk * c_step + (b - b / chunk * chunk) * P * V;

        for (int t = 0; t < count; t++) {
            int tile = min(t0 + t, tiles - 1), row = tile / tw, n = row / th, part = t / P;

            transform_window(x + ((long)n * p.in_blocks + b) * p.h * p.w * V, p.h, p.w,
                             (row - n * th) * 4 - p.pad_h, (tile - row * tw) * 4 - p.pad_w,
                             to + ((long)part * chunk * P + t - part * P) * V, v_step);
        }
    }
}

/* One matrix e of a block of `count` tiles, a multiple of THIRD. v_part: the floats of P tiles. */
void
multiply_tiles(__global const float *v, long v_part, __global const float *u, __global float *m,
               int count, int blocks, int last, int add)
{
    int t = 0;

    for (; t + P <= count; t += P, v += v_part)
        multiply_3(v, u, m + t * 2 * V, blocks, last, add);
    if (t + 2 * THIRD == count)
        multiply_2(v, u, m + t * 2 * V, blocks, last, add);
    else if (t < count)
        multiply_1(v, u, m + t * 2 * V, blocks, last, add);
}

/* Transforms the products of tiles t0 to t1 and a pair of output blocks back to y (N, o/V, oh,
 * ow, V). */
void
results_tiles(__global const float *m, long m_step, plane p, int t0, int t1, int pair,
              __global const float *bias, __global float *y, int act)
{
    int th = (p.oh + 3) / 4, tw = (p.ow + 3) / 4;

    for (int q = 0; q < 2 && pair * 2 + q < p.out_blocks; q++)
        for (int t = t0; t < t1; t++) {
            int row = t / tw, n = row / th;
            int y0 = (row - n * th) * 4, x0 = (t - row * tw) * 4;

            results_tile(m + (long)(t - t0) * 2 * V + q * V, m_step, loadv(q, bias),
                         y + (((long)n * p.out_blocks + pair * 2 + q) * p.oh * p.ow +
                              (long)y0 * p.ow + x0) * V,
                         p.ow, p.oh - y0, p.ow - x0, act);
        }
}

/* x (N, c/V, h, w, V), packed weights (see below) -> y (N, o/V, oh, ow, V).
 *
 * Work is divided into blocks of at most `most` tiles. Where the weights must be read rarely, blocks
 * are large and few, and each is divided into `splits` ranges of output channels. The scratch memory
 * of a group has the transformed tiles [36][most / P][c / V][P][V], and products [36][most][2 V]. */
__kernel YKI_GROUP(1, 1) void
yki_winograd(__global const float *x, __global const float *packed, __global float *y,
             __global float *scratch, int samples, int most, int splits, int c, int h, int w, int o,
             int oh, int ow, int pad_h, int pad_w, int scratch_step, int act)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    plane p = {h, w, oh, ow, pad_h, pad_w, (c + V - 1) / V, (o + V - 1) / V};
    int th = (oh + 3) / 4, tw = (ow + 3) / 4, tiles = samples * th * tw;
    int pairs = (p.out_blocks + 1) / 2;
    int thirds = (tiles + THIRD - 1) / THIRD, blocks = (tiles + most - 1) / most, have = -1;
    int last = c - (p.in_blocks - 1) * V;
    long v_part = (long)p.in_blocks * P * V, v_step = (most + P - 1) / P * v_part + SKEW;
    long m_step = (long)most * 2 * V + SKEW, u_step = (long)c * 2 * V + SKEW;
    __global float *v = scratch + (long)group * scratch_step, *m = v + 36 * v_step;
    __global const float *bias = packed + pairs * 36 * u_step;

    if (splits == 1) /* every group gets the same number */
        blocks = min((blocks + groups - 1) / groups * groups, thirds);
    for (int unit = (int)((long)blocks * splits * group / groups);
         unit < (int)((long)blocks * splits * (group + 1) / groups); unit++) {
        piece q = piece_of(unit, splits, blocks, tiles, pairs);
        piece next = piece_of(min(unit + 1, blocks * splits - 1), splits, blocks, tiles, pairs);

        if (q.block != have)
            transform_tiles(x, p, q.t0, q.count, tiles, v, v_step, p.in_blocks, 0);
        have = q.block;
        for (int pair = q.first; pair < q.end; pair++) {
            for (int e = 0; e < 36; e++) {
                multiply_tiles(v + e * v_step, v_part, packed + ((long)pair * 36 + e) * u_step,
                               m + e * m_step, q.count, p.in_blocks, last, 0);
                ask_tiles(y, p.out_blocks, oh, ow, th, tw, q.t0, q.t1, pair * 2,
                          min(pair * 2 + 2, p.out_blocks), e, 36, 1);
                if (next.block != q.block)
                    ask_tiles(x, p.in_blocks, h, w, th, tw, next.t0, next.t1, 0, p.in_blocks,
                              (pair - q.first) * 36 + e, (q.end - q.first) * 36, 0);
            }
            results_tiles(m, m_step, p, q.t0, q.t1, pair, bias + pair * 2 * V, y, act);
        }
    }
}

/* STREAM is for packed weights that fit no cache. */
#if defined STREAM && V == 16
#define STORE_PACKED(x, p) YKI_STREAM(x, p)
#else
#define STORE_PACKED(x, p) storev(x, 0, p)
#endif

/* The 9 weights of V output channels, as 9 vectors; channels are `apart` floats from one
 * another. `lanes` of them exist. */
void
load_taps(__global const float *weight, long apart, int lanes, floatv *g)
{
    if (lanes >= V) {
        floatv r[HALF];

#pragma unroll
        for (int k = 0; k < 8; k += HALF) {
#pragma unroll
            for (int l = 0; l < HALF; l++)
                r[l] = LOAD_ROWS(weight + k, apart, l);
            rows_to_taps(r);
#pragma unroll
            for (int i = 0; i < HALF; i++)
                g[k + i] = r[i];
        }
#define LANE(name, l) g[8].s##name = weight[l * apart + 8];
        LANES_V(LANE)
#undef LANE
    } else {
        float taps[9 * V];

        for (int l = 0; l < V; l++)
            for (int k = 0; k < 9; k++)
                taps[k * V + l] = l < lanes ? weight[l * apart + k] : 0.f;
#pragma unroll
        for (int k = 0; k < 9; k++)
            g[k] = loadv(k, taps);
    }
}

/* Transforms the weights of output channels o0 to o0 + V by one input channel. `weight` is (o,
 * c, 3, 3) or, if `transposed`, (c, o, 3, 3) rotated by half a turn. Matrix e goes to to + e *
 * e_step, and is zero where there is no output channel. */
void
transform_weight(__global const float *weight, int c, int o, int transposed, int o0, int channel,
                 __global float *to, long e_step)
{
    long of_o = transposed ? 9 : (long)c * 9, of_c = transposed ? (long)o * 9 : 9;
    floatv g[9], d[18];

    weight += o0 * of_o + channel * of_c;
    /* V streams are more than processors prefetch by themselves; transposed weights are one
     * stream. */
    for (int l = 0; l < min(V, o - o0) && !transposed; l++)
        YKI_PREFETCH(weight + l * of_o + 32);
    load_taps(weight, of_o, o - o0, g);
    if (transposed) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            floatv t = g[k];

            g[k] = g[8 - k];
            g[8 - k] = t;
        }
    }
#pragma unroll
    for (int j = 0; j < 3; j++)
        TRANSFORM_3(g[j], g[3 + j], g[6 + j], d[j], d[3 + j], d[6 + j], d[9 + j], d[12 + j],
                    d[15 + j])
#pragma unroll
    for (int i = 0; i < 6; i++) {
        floatv u0, u1, u2, u3, u4, u5;

        TRANSFORM_3(d[i * 3], d[i * 3 + 1], d[i * 3 + 2], u0, u1, u2, u3, u4, u5)
        STORE_PACKED(u0 * scales[i * 6], to + (i * 6) * e_step);
        STORE_PACKED(u1 * scales[i * 6 + 1], to + (i * 6 + 1) * e_step);
        STORE_PACKED(u2 * scales[i * 6 + 2], to + (i * 6 + 2) * e_step);
        STORE_PACKED(u3 * scales[i * 6 + 3], to + (i * 6 + 3) * e_step);
        STORE_PACKED(u4 * scales[i * 6 + 4], to + (i * 6 + 4) * e_step);
        STORE_PACKED(u5 * scales[i * 6 + 5], to + (i * 6 + 5) * e_step);
    }
}

/* Transforms a weight into [o / 2 V][36][c][2 V]. The bias follows, in pieces of 2 V. Matrices
 * are SKEW floats further apart. */
__kernel YKI_GROUP(1, 1) void
yki_winograd_pack(__global const float *weight, __global const float *bias, __global float *packed,
                  int c, int o, int transposed, int has_bias)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    int pairs = (o + 2 * V - 1) / (2 * V);
    long jobs = (long)pairs * c, u_step = (long)c * 2 * V + SKEW;

    for (long job = jobs * group / groups; job < jobs * (group + 1) / groups; job++) {
        int pair = (int)(job / c), channel = (int)(job - (long)pair * c);
        __global float *to = packed + (long)pair * 36 * u_step + (long)channel * 2 * V;

        for (int q = 0; q < 2; q++)
            transform_weight(weight, c, o, transposed, (pair * 2 + q) * V, channel, to + q * V,
                             u_step);
    }
    for (int i = 0; group == 0 && i < pairs * 2 * V; i++)
        packed[pairs * 36 * u_step + i] = has_bias && i < o ? bias[i] : 0.f;
}

#ifndef STREAM
/* The same as yki_winograd, from weights that are not packed. A group transforms those of a pair
 * of output blocks and `chunk` blocks of input channels where it needs them, to [36][chunk V][2
 * V] in its scratch memory. 2 V of bias follow. This is for layers whose transformed weights
 * would pass through memory twice for a few tiles. */
__kernel YKI_GROUP(1, 1) void
yki_winograd_unpacked(__global const float *x, __global const float *weight,
                      __global const float *bias, __global float *y, __global float *scratch,
                      int samples, int most, int splits, int chunk, int c, int h, int w, int o,
                      int oh, int ow, int pad_h, int pad_w, int scratch_step, int act,
                      int transposed, int has_bias)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    plane p = {h, w, oh, ow, pad_h, pad_w, (c + V - 1) / V, (o + V - 1) / V};
    int th = (oh + 3) / 4, tw = (ow + 3) / 4, tiles = samples * th * tw;
    int pairs = (p.out_blocks + 1) / 2, blocks = (tiles + most - 1) / most, have = -1;
    long v_part = (long)chunk * P * V, v_step = (most + P - 1) / P * v_part + SKEW;
    long c_step = 36 * v_step;
    long m_step = (long)most * 2 * V + SKEW, u_step = (long)chunk * V * 2 * V + SKEW;
    __global float *v = scratch + (long)group * scratch_step;
    __global float *m = v + (p.in_blocks + chunk - 1) / chunk * c_step;
    __global float *u = m + 36 * m_step, *biases = u + 36 * u_step;

    for (int unit = (int)((long)blocks * splits * group / groups);
         unit < (int)((long)blocks * splits * (group + 1) / groups); unit++) {
        piece q = piece_of(unit, splits, blocks, tiles, pairs);

        if (q.block != have)
            transform_tiles(x, p, q.t0, q.count, tiles, v, v_step, chunk, c_step);
        have = q.block;
        for (int pair = q.first; pair < q.end; pair++) {
            for (int b = 0; b < p.in_blocks; b += chunk) {
                int here = min(chunk, p.in_blocks - b), channels = min(here * V, c - b * V);

                for (int side = 0; side < 2; side++)
                    for (int l = 0; l < channels; l++)
                        transform_weight(weight, c, o, transposed, (pair * 2 + side) * V,
                                         b * V + l, u + (l * 2 + side) * V, u_step);
                for (int e = 0; e < 36; e++) {
                    multiply_tiles(v + b / chunk * c_step + e * v_step, v_part, u + e * u_step,
                                   m + e * m_step, q.count, here, channels - (here - 1) * V, b > 0);
                    if (b + chunk >= p.in_blocks)
                        ask_tiles(y, p.out_blocks, oh, ow, th, tw, q.t0, q.t1, pair * 2,
                                  min(pair * 2 + 2, p.out_blocks), e, 36, 1);
                }
            }
            for (int i = 0; i < 2 * V; i++)
                biases[i] = has_bias && pair * 2 * V + i < o ? bias[pair * 2 * V + i] : 0.f;
            results_tiles(m, m_step, p, q.t0, q.t1, pair, biases, y, act);
        }
    }
}
#endif

/* Transforms the 4 x 4 window at (y0, x0) of a gradient, as above. The window begins inside. */
void
transform_gradient(__global const float *dy, int h, int w, int y0, int x0, __global float *to,
                   long e_step)
{
    int row[4], keep[4];
    floatv d[24];

#pragma unroll
    for (int i = 0; i < 4; i++) {
        keep[i] = y0 + i < h ? -1 : 0;
        row[i] = min(y0 + i, h - 1) * w;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int column = min(x0 + j, w - 1), in = x0 + j == column ? -1 : 0;
        floatv g0 = as_floatv(as_intv(loadv(row[0] + column, dy)) & (keep[0] & in));
        floatv g1 = as_floatv(as_intv(loadv(row[1] + column, dy)) & (keep[1] & in));
        floatv g2 = as_floatv(as_intv(loadv(row[2] + column, dy)) & (keep[2] & in));
        floatv g3 = as_floatv(as_intv(loadv(row[3] + column, dy)) & (keep[3] & in));

        TRANSFORM_4(g0, g1, g2, g3, d[j], d[4 + j], d[8 + j], d[12 + j], d[16 + j], d[20 + j])
    }
#pragma unroll
    for (int i = 0; i < 6; i++) {
        floatv o0, o1, o2, o3, o4, o5;

        TRANSFORM_4(d[i * 4], d[i * 4 + 1], d[i * 4 + 2], d[i * 4 + 3], o0, o1, o2, o3, o4, o5)
        storev(o0, 0, to + (i * 6) * e_step);
        storev(o1, 0, to + (i * 6 + 1) * e_step);
        storev(o2, 0, to + (i * 6 + 2) * e_step);
        storev(o3, 0, to + (i * 6 + 3) * e_step);
        storev(o4, 0, to + (i * 6 + 4) * e_step);
        storev(o5, 0, to + (i * 6 + 5) * e_step);
    }
}

/* sum[R][2 V] (+)= over tiles, d[tile][R] by v[tile][2 V]. */
#define START_R(i) floatv a##i##_0 = 0.f, a##i##_1 = 0.f;
#define LOAD_R(i)                                                                             \
    a##i##_0 = loadv(2 * i, sum);                                                             \
    a##i##_1 = loadv(2 * i + 1, sum);
#define STEP_R(i)                                                                             \
    a##i##_0 = YKI_FMA((floatv)(d[i]), v0, a##i##_0);                                         \
    a##i##_1 = YKI_FMA((floatv)(d[i]), v1, a##i##_1);
#define STORE_R(i)                                                                            \
    storev(a##i##_0, 2 * i, sum);                                                             \
    storev(a##i##_1, 2 * i + 1, sum);
void
add_products(__global const float *v, int v_row, __global const float *d, int d_row,
             __global float *sum, int tiles, int first)
{
    EACH_R(START_R)
    if (!first) {
        EACH_R(LOAD_R)
    }
    for (int t = 0; t < tiles; t++) {
        floatv v0 = loadv(0, v), v1 = loadv(1, v);

        EACH_R(STEP_R)
        v += v_row;
        d += d_row;
    }
    EACH_R(STORE_R)
}

/* Stores the 9 weights of V channels, of which `lanes` exist, one channel after the other. */
void
store_taps(floatv *g, int lanes, __global float *to)
{
    floatv r[HALF];

    if (lanes < V) {
        float taps[9 * V];

        for (int k = 0; k < 9; k++)
            storev(g[k], k, taps);
        for (int l = 0; l < lanes; l++)
            for (int k = 0; k < 9; k++)
                to[l * 9 + k] = taps[k * V + l];
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k += HALF) {
#pragma unroll
        for (int i = 0; i < HALF; i++)
            r[i] = g[k + i];
        taps_to_rows(r);
#pragma unroll
        for (int l = 0; l < HALF; l++) {
            STORE_ROWS(r[l], l, to + k)
        }
    }
#define LANE(name, l) to[l * 9 + 8] = g[8].s##name;
    LANES_V(LANE)
#undef LANE
}

/* The 36 sums for one output channel and V input channels give 9 weights of `lanes` channels. */
void
results_weight(__global const float *sum, long e_step, __global float *to, int lanes)
{
    floatv d[18], g[9];

#pragma unroll
    for (int j = 0; j < 6; j++) {
        floatv m0 = loadv(0, sum + j * e_step) * scales[j];
        floatv m1 = loadv(0, sum + (6 + j) * e_step) * scales[6 + j];
        floatv m2 = loadv(0, sum + (12 + j) * e_step) * scales[12 + j];
        floatv m3 = loadv(0, sum + (18 + j) * e_step) * scales[18 + j];
        floatv m4 = loadv(0, sum + (24 + j) * e_step) * scales[24 + j];
        floatv m5 = loadv(0, sum + (30 + j) * e_step) * scales[30 + j];

        RESULTS_3(m0, m1, m2, m3, m4, m5, d[j], d[6 + j], d[12 + j])
    }
#pragma unroll
    for (int i = 0; i < 3; i++)
        RESULTS_3(d[i * 6], d[i * 6 + 1], d[i * 6 + 2], d[i * 6 + 3], d[i * 6 + 4], d[i * 6 + 5],
                  g[i * 3], g[i * 3 + 1], g[i * 3 + 2])
    store_taps(g, lanes, to);
}

/* x (N, c/V, h, w, V), dy (N, o/V, oh, ow, V) -> part[split] (o, c, 3, 3).
 *
 * A unit of work is a range of tiles (a split), c_most blocks of x (an even number) and o_most
 * of dy. Where one chunk has all tiles, units of the same gradients share their transforms. Its
 * sums stay in the group's scratch memory, [36][o_most V / R][c_most / 2][R][2 V],
 * while tiles pass through in chunks: [36][chunk][c_most V], then [36][chunk][o_most V]. */
__kernel YKI_GROUP(1, 1) void
yki_winograd_grad_weight(__global const float *x, __global const float *dy, __global float *part,
                         __global float *scratch, int samples, int splits, int c_most, int o_most,
                         int chunk, int c, int h, int w, int o, int oh, int ow, int pad_h,
                         int pad_w, int scratch_step)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    int th = (oh + 3) / 4, tw = (ow + 3) / 4, tiles = samples * th * tw;
    int in_blocks = (c + V - 1) / V, out_blocks = (o + V - 1) / V;
    int c_parts = (in_blocks + c_most - 1) / c_most, o_parts = (out_blocks + o_most - 1) / o_most;
    int c_row = c_most * V, o_row = o_most * V;
    long v_step = (long)chunk * c_row + SKEW, d_step = (long)chunk * o_row + SKEW;
    long s_step = (long)c_row * o_row + SKEW;
    __global float *v = scratch + (long)group * scratch_step, *d = v + 36 * v_step;
    __global float *sums = d + 36 * d_step;
    int units = splits * c_parts * o_parts, have = -1;
    int ask = c_parts * o_parts <= 4; /* otherwise, a cache has most of the images */

    for (int unit = (int)((long)units * group / groups);
         unit < (int)((long)units * (group + 1) / groups); unit++) {
        int row = unit / c_parts, split = row / o_parts;
        int c0 = (unit - row * c_parts) * c_most, o0 = (row - split * o_parts) * o_most;
        int cn = min(c_most, in_blocks - c0), on = min(o_most, out_blocks - o0);
        int c_pairs = (cn + 1) / 2, o_tiles = on * V / R;
        int t0 = (int)((long)tiles * split / splits);
        int t1 = (int)((long)tiles * (split + 1) / splits), first = 1;
        int kept = row == have && t1 - t0 <= chunk; /* the gradients of the unit before */

        do { /* at least once, because sums of nothing are 0 */
            int count = min(chunk, t1 - t0), next = t0 + chunk, parts = 36 * o_tiles;

            for (int b = 0; b < c_pairs * 2 + (kept ? 0 : on); b++)
                for (int t = 0; t < count; t++) {
                    int line = (t0 + t) / tw, n = line / th, from = b - c_pairs * 2;
                    int y0 = (line - n * th) * 4, x0 = (t0 + t - line * tw) * 4;
                    __global float *to = v + (long)t * c_row + b * V;

                    if (from >= 0)
                        transform_gradient(
                            dy + ((long)n * out_blocks + o0 + from) * oh * ow * V, oh, ow, y0, x0,
                            d + (long)t * o_row + from * V, d_step);
                    else if (b < cn)
                        transform_window(x + ((long)n * in_blocks + c0 + b) * h * w * V, h, w,
                                         y0 - pad_h, x0 - pad_w, to, v_step);
                    else
                        for (int e = 0; e < 36; e++)
                            storev((floatv)(0.f), 0, to + e * v_step);
                }
            for (int e = 0; e < 36; e++)
                for (int i = 0; i < o_tiles; i++) {
                    for (int j = 0; j < c_pairs; j++)
                        add_products(v + e * v_step + j * 2 * V, c_row, d + e * d_step + i * R,
                                     o_row,
                                     sums + e * s_step + (long)(i * c_pairs + j) * R * 2 * V,
                                     count, first);
                    if (!ask)
                        continue;
                    ask_tiles(x, in_blocks, h, w, th, tw, next, min(next + chunk, t1), c0, c0 + cn,
                              e * o_tiles + i, parts, 0);
                    ask_tiles(dy, out_blocks, oh, ow, th, tw, next, min(next + chunk, t1), o0,
                              o0 + on, e * o_tiles + i, parts, 0);
                }
            first = 0;
            t0 += chunk;
        } while (t0 < t1);
        have = row;
        for (int i = 0; i < on * V; i++)
            for (int j = 0; j < cn && o0 * V + i < o; j++) {
                int tile = i / R * c_pairs + j / 2, line = i - i / R * R, channel = (c0 + j) * V;

                results_weight(sums + ((long)tile * R + line) * 2 * V + (j & 1) * V, s_step,
                               part + (((long)split * o + o0 * V + i) * c + channel) * 9,
                               min(V, c - channel));
            }
    }
}

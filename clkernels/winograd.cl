/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd.cl - 3x3 convolutions with stride 1 by Winograd's F(4x4, 3x3), and the
 * gradient of their weights by F(3x3, 4x4), for CPUs, on channels in blocks of V.
 *
 * A correlation of 6 inputs with a 3-tap filter, 4 results, is a polynomial
 * product read backwards; evaluated at the 5 points a = 0, 1, -1, 1/2, -2 and at
 * infinity it takes 6 products:
 *
 *     y = AT [ (G g) . (BT d) ]
 *
 * With M(x) the product of all (x - a_i), Mj(x) that without (x - a_j), and
 * fj = Mj(a_j), the matrices are
 *
 *     BT: row j the coefficients of Mj, last row those of M   (6 x 6)
 *     G:  row j = (1, a_j, a_j^2) / fj, last row (0, 0, 1)    (6 x 3)
 *     AT: row i = (a_j^i for the points j, i == 3)            (4 x 6)
 *
 * which for these points are, exactly,
 *
 *     BT =  1 -3/2  -2  3/2  1  0     fj =    1     AT = 1  1  1   1    1  0
 *           0  -1  1/2  5/2  1  0             3          0  1 -1  1/2  -2  0
 *           0   1 -5/2  1/2  1  0            -3          0  1  1  1/4   4  0
 *           0  -2  -1    2   1  0         -15/16         0  1 -1  1/8  -8  1
 *           0  1/2 -1  -1/2  1  0            15
 *           0   1 -3/2  -2  3/2 1             1
 *
 * (tests/op/check_winograd.c makes them again from the points and compares.) Only
 * the 1/fj are inexact in binary; they are applied once to each weight, as one
 * rounded factor. Nested in two dimensions: 36 products for 16 results instead of
 * 144. These points lose less than 0, +-1, +-2 (errors stand in tolerance.c).
 *
 * The gradient of the weights is a correlation of 6 inputs with 4 gradients, 3
 * results: the same BT, 4 coefficients instead of 3, 3 results instead of 4. Both
 * the sum over tiles and 1/fj commute with AT, which is applied once at the end.
 *
 * Transforms and products are fused: a work-group of one item transforms a block
 * of tiles into scratch of its own that stays in a cache near it, multiplies 36
 * small matrices by a register tile of P tiles x 2 blocks of output channels
 * while the weights stream past once for the block, and transforms back. A tile's
 * arithmetic does not depend on the block it is in.
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

/* Tiles at a time, for 32 registers or 16; R: rows of the product in weight gradients. What is
 * left over is done by thirds of P. */
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

/* What the matrices e = 0..35 in scratch are apart from a power of two, which would put all of
 * them into the same few lines of a cache. */
#define SKEW 16

/* BT times a column or row. */
#define TRANSFORM_6(d0, d1, d2, d3, d4, d5, o0, o1, o2, o3, o4, o5)                           \
    {                                                                                         \
        floatv p_ = d4 - d2, q_ = d3 - d1;                                                    \
        o0 = YKI_FMA((floatv)(1.5f), q_, YKI_FMA((floatv)(-2.f), d2, d0 + d4));               \
        o1 = YKI_FMA((floatv)(2.5f), d3, YKI_FMA((floatv)(.5f), d2, d4 - d1));                \
        o2 = YKI_FMA((floatv)(.5f), d3, YKI_FMA((floatv)(-2.5f), d2, d4 + d1));               \
        o3 = YKI_FMA((floatv)(2.f), q_, p_);                                                  \
        o4 = YKI_FMA((floatv)(-.5f), q_, p_);                                                 \
        o5 = YKI_FMA((floatv)(1.5f), p_, YKI_FMA((floatv)(-2.f), d3, d1 + d5));               \
    }

/* G, without 1/f. */
#define TRANSFORM_3(g0, g1, g2, o0, o1, o2, o3, o4, o5)                                       \
    {                                                                                         \
        floatv s_ = g0 + g2;                                                                  \
        o0 = g0;                                                                              \
        o1 = s_ + g1;                                                                         \
        o2 = s_ - g1;                                                                         \
        o3 = YKI_FMA((floatv)(.25f), g2, YKI_FMA((floatv)(.5f), g1, g0));                     \
        o4 = YKI_FMA((floatv)(4.f), g2, YKI_FMA((floatv)(-2.f), g1, g0));                     \
        o5 = g2;                                                                              \
    }

/* The same for 4 coefficients. */
#define TRANSFORM_4(g0, g1, g2, g3, o0, o1, o2, o3, o4, o5)                                   \
    {                                                                                         \
        floatv s_ = g0 + g2, t_ = g1 + g3;                                                    \
        o0 = g0;                                                                              \
        o1 = s_ + t_;                                                                         \
        o2 = s_ - t_;                                                                         \
        o3 = YKI_FMA((floatv)(.125f), g3,                                                     \
                     YKI_FMA((floatv)(.25f), g2, YKI_FMA((floatv)(.5f), g1, g0)));            \
        o4 = YKI_FMA((floatv)(-8.f), g3,                                                      \
                     YKI_FMA((floatv)(4.f), g2, YKI_FMA((floatv)(-2.f), g1, g0)));            \
        o5 = g3;                                                                              \
    }

/* AT for 4 results, and for 3. */
#define RESULTS_4(m0, m1, m2, m3, m4, m5, y0, y1, y2, y3)                                     \
    {                                                                                         \
        floatv s_ = m1 + m2, d_ = m1 - m2;                                                    \
        y0 = m0 + s_ + (m3 + m4);                                                             \
        y1 = YKI_FMA((floatv)(-2.f), m4, YKI_FMA((floatv)(.5f), m3, d_));                     \
        y2 = YKI_FMA((floatv)(4.f), m4, YKI_FMA((floatv)(.25f), m3, s_));                     \
        y3 = YKI_FMA((floatv)(-8.f), m4, YKI_FMA((floatv)(.125f), m3, d_)) + m5;              \
    }
#define RESULTS_3(m0, m1, m2, m3, m4, m5, y0, y1, y2)                                         \
    {                                                                                         \
        floatv s_ = m1 + m2, d_ = m1 - m2;                                                    \
        y0 = m0 + s_ + (m3 + m4);                                                             \
        y1 = YKI_FMA((floatv)(-2.f), m4, YKI_FMA((floatv)(.5f), m3, d_));                     \
        y2 = YKI_FMA((floatv)(4.f), m4, YKI_FMA((floatv)(.25f), m3, s_)) + m5;                \
    }

/* 1 / (f_i f_j); 1/f is 15, 5, -5, -16, 1, 15 fifteenths. */
#define SCALES(n)                                                                             \
    (n * 15) / 225.f, (n * 5) / 225.f, (n * -5) / 225.f, (n * -16) / 225.f, (n * 1) / 225.f,  \
        (n * 15) / 225.f
__constant float scales[36] = {SCALES(15), SCALES(5), SCALES(-5), SCALES(-16), SCALES(1),
                               SCALES(15)};

/* Transforms the 6 x 6 window at (y0, x0) of a plane of one channel block; matrix e goes to
 * to + e * e_step. Outside the image are zeros: rows are clamped and their bits masked, so what
 * lies there does not matter. */
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

/* One matrix e of some tiles: v [block][P][V] by u [channel][2 V] gives m [tile][2 V]. The last
 * block has `last` channels. */
#define START(i) floatv a##i##_0 = 0.f, a##i##_1 = 0.f;
#define STEP(i)                                                                               \
    a##i##_0 = YKI_FMA((floatv)(v[i * V + l]), w0, a##i##_0);                                 \
    a##i##_1 = YKI_FMA((floatv)(v[i * V + l]), w1, a##i##_1);
#define STORE(i)                                                                              \
    storev(a##i##_0, 2 * i, m);                                                               \
    storev(a##i##_1, 2 * i + 1, m);
#define MULTIPLY(name, EACH)                                                                  \
    void name(__global const float *v, __global const float *u, __global float *m,            \
              int blocks, int last)                                                           \
    {                                                                                         \
        EACH(START)                                                                           \
        for (int b = 0; b < blocks; b++) {                                                    \
            int lanes = b + 1 < blocks ? V : last;                                            \
                                                                                              \
            for (int l = 0; l < lanes; l++) {                                                 \
                floatv w0 = loadv(0, u), w1 = loadv(1, u);                                    \
                                                                                              \
                YKI_PREFETCH(u + YKI_AHEAD * 2 * V);                                              \
                YKI_PREFETCH(u + (YKI_AHEAD * 2 + 1) * V);                                        \
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

/* Remainders are written as differences: what the compiler makes of a / b and a % b together is
 * unknown to Oclgrind.
 *
 * x (N, c/V, h, w, V), packed weights (see below) -> y (N, o/V, oh, ow, V).
 *
 * Work is cut into blocks of at most `most` tiles, and each into `splits` ranges of output
 * channels where the weights are what must be read least often. Scratch of a group: the
 * transformed tiles [36][most / P][c / V][P][V], and products [36][most][2 V]. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
yki_winograd(__global const float *x, __global const float *packed, __global float *y,
             __global float *scratch, int samples, int most, int splits, int c, int h, int w, int o,
             int oh, int ow, int pad_h, int pad_w, int scratch_step, int act)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    int th = (oh + 3) / 4, tw = (ow + 3) / 4, tiles = samples * th * tw;
    int in_blocks = (c + V - 1) / V, out_blocks = (o + V - 1) / V, pairs = (out_blocks + 1) / 2;
    int thirds = (tiles + THIRD - 1) / THIRD, blocks = (tiles + most - 1) / most, have = -1;
    long v_step = (long)((most + P - 1) / P) * in_blocks * P * V + SKEW;
    long m_step = (long)most * 2 * V + SKEW, u_step = (long)c * 2 * V + SKEW;
    long plane = (long)oh * ow * V;
    __global float *v = scratch + (long)group * scratch_step, *m = v + 36 * v_step;
    __global const float *bias = packed + pairs * 36 * u_step;

    if (splits == 1) /* the same number for each group */
        blocks = min((blocks + groups - 1) / groups * groups, thirds);
    for (int unit = (int)((long)blocks * splits * group / groups);
         unit < (int)((long)blocks * splits * (group + 1) / groups); unit++) {
        int block = unit / splits, split = unit - block * splits;
        int t0 = (int)((long)thirds * block / blocks) * THIRD;
        int t1 = min((int)((long)thirds * (block + 1) / blocks) * THIRD, tiles);
        int count = (t1 - t0 + THIRD - 1) / THIRD * THIRD;

        /* Neighbouring tiles one after the other: rows of x are read as streams. */
        for (int b = 0; block != have && b < in_blocks; b++)
            for (int t = 0; t < count; t++) {
                /* Past the last tile of all: any tile will do. */
                int tile = min(t0 + t, tiles - 1), row = tile / tw, n = row / th, part = t / P;

                transform_window(x + ((long)n * in_blocks + b) * h * w * V, h, w,
                                 (row - n * th) * 4 - pad_h, (tile - row * tw) * 4 - pad_w,
                                 v + (((long)part * in_blocks + b) * P + t - part * P) * V,
                                 v_step);
            }
        have = block;
        for (int pair = (int)((long)pairs * split / splits);
             pair < (int)((long)pairs * (split + 1) / splits); pair++) {
            for (int e = 0; e < 36; e++) {
                __global const float *u = packed + ((long)pair * 36 + e) * u_step;
                __global const float *ve = v + e * v_step;
                __global float *me = m + e * m_step;
                int last = c - (in_blocks - 1) * V, t = 0;

                for (; t + P <= count; t += P)
                    multiply_3(ve + (long)t * in_blocks * V, u, me + t * 2 * V, in_blocks, last);
                if (t + 2 * THIRD == count)
                    multiply_2(ve + (long)t * in_blocks * V, u, me + t * 2 * V, in_blocks, last);
                else if (t < count)
                    multiply_1(ve + (long)t * in_blocks * V, u, me + t * 2 * V, in_blocks, last);
            }
            for (int q = 0; q < 2 && pair * 2 + q < out_blocks; q++)
                for (int t = t0; t < t1; t++) {
                    int row = t / tw, n = row / th;
                    int y0 = (row - n * th) * 4, x0 = (t - row * tw) * 4;

                    results_tile(m + (long)(t - t0) * 2 * V + q * V, m_step,
                                 loadv(pair * 2 + q, bias),
                                 y + ((long)n * out_blocks + pair * 2 + q) * plane +
                                     ((long)y0 * ow + x0) * V,
                                 ow, oh - y0, ow - x0, act);
                }
        }
    }
}

/* STREAM: for packed weights that no cache holds. */
#if defined STREAM && V == 16
#define STORE_PACKED(x, p) YKI_STREAM(x, p)
#else
#define STORE_PACKED(x, p) storev(x, 0, p)
#endif

/* Transforms a weight (o, c, 3, 3), or (c, o, 3, 3) turned round if `transposed`, into
 * [o / 2 V][36][c][2 V], zero where there is no output; behind it the bias, by 2 V. Matrices
 * are SKEW floats further apart. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
yki_winograd_pack(__global const float *weight, __global const float *bias, __global float *packed,
                  int c, int o, int transposed, int has_bias)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    int pairs = (o + 2 * V - 1) / (2 * V);
    long jobs = (long)pairs * c, u_step = (long)c * 2 * V + SKEW;
    long of_o = transposed ? 9 : (long)c * 9, of_c = transposed ? (long)o * 9 : 9;

    for (long job = jobs * group / groups; job < jobs * (group + 1) / groups; job++) {
        int pair = (int)(job / c), channel = (int)(job - (long)pair * c);
        __global float *to = packed + (long)pair * 36 * u_step + (long)channel * 2 * V;

        for (int q = 0; q < 2; q++, to += V) {
            int o0 = (pair * 2 + q) * V;
            float taps[9 * V];
            floatv g[9], d[18];

            for (int l = 0; l < V; l++)
                for (int k = 0; k < 9; k++)
                    taps[k * V + l] = o0 + l < o ? weight[(o0 + l) * of_o + channel * of_c +
                                                          (transposed ? 8 - k : k)]
                                                 : 0.f;
#pragma unroll
            for (int k = 0; k < 9; k++)
                g[k] = loadv(k, taps);
#pragma unroll
            for (int j = 0; j < 3; j++)
                TRANSFORM_3(g[j], g[3 + j], g[6 + j], d[j], d[3 + j], d[6 + j], d[9 + j],
                            d[12 + j], d[15 + j])
#pragma unroll
            for (int i = 0; i < 6; i++) {
                floatv u0, u1, u2, u3, u4, u5;

                TRANSFORM_3(d[i * 3], d[i * 3 + 1], d[i * 3 + 2], u0, u1, u2, u3, u4, u5)
                STORE_PACKED(u0 * scales[i * 6], to + (i * 6) * u_step);
                STORE_PACKED(u1 * scales[i * 6 + 1], to + (i * 6 + 1) * u_step);
                STORE_PACKED(u2 * scales[i * 6 + 2], to + (i * 6 + 2) * u_step);
                STORE_PACKED(u3 * scales[i * 6 + 3], to + (i * 6 + 3) * u_step);
                STORE_PACKED(u4 * scales[i * 6 + 4], to + (i * 6 + 4) * u_step);
                STORE_PACKED(u5 * scales[i * 6 + 5], to + (i * 6 + 5) * u_step);
            }
        }
    }
    for (int i = 0; group == 0 && i < pairs * 2 * V; i++)
        packed[pairs * 36 * u_step + i] = has_bias && i < o ? bias[i] : 0.f;
}

/* Transforms the 4 x 4 window at (y0, x0) of a gradient, as above. It begins inside. */
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

/* The 36 sums for one output channel and V input channels give 9 weights of `lanes` channels. */
void
results_weight(__global const float *sum, long e_step, __global float *to, int lanes)
{
    floatv d[18];
    float taps[9 * V];

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
    for (int i = 0; i < 3; i++) {
        floatv y0, y1, y2;

        RESULTS_3(d[i * 6], d[i * 6 + 1], d[i * 6 + 2], d[i * 6 + 3], d[i * 6 + 4], d[i * 6 + 5],
                  y0, y1, y2)
        storev(y0, i * 3, taps);
        storev(y1, i * 3 + 1, taps);
        storev(y2, i * 3 + 2, taps);
    }
    for (int l = 0; l < lanes; l++)
        for (int k = 0; k < 9; k++)
            to[l * 9 + k] = taps[k * V + l];
}

/* x (N, c/V, h, w, V), dy (N, o/V, oh, ow, V) -> part[split] (o, c, 3, 3).
 *
 * A unit of work is a range of tiles (a split), c_most blocks of x (an even number) and o_most of
 * dy. Its sums stay in scratch of the group, [36][o_most V / R][c_most / 2][R][2 V], while tiles
 * pass through in chunks: [36][chunk][c_most V], then [36][chunk][o_most V]. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
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
    int units = splits * c_parts * o_parts;

    for (int unit = (int)((long)units * group / groups);
         unit < (int)((long)units * (group + 1) / groups); unit++) {
        int row = unit / c_parts, split = row / o_parts;
        int c0 = (unit - row * c_parts) * c_most, o0 = (row - split * o_parts) * o_most;
        int cn = min(c_most, in_blocks - c0), on = min(o_most, out_blocks - o0);
        int c_pairs = (cn + 1) / 2, o_tiles = on * V / R;
        int t0 = (int)((long)tiles * split / splits);
        int t1 = (int)((long)tiles * (split + 1) / splits), first = 1;

        do { /* once at least, for sums of nothing are 0 */
            int count = min(chunk, t1 - t0);

            for (int b = 0; b < c_pairs * 2 + on; b++)
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
                for (int i = 0; i < o_tiles; i++)
                    for (int j = 0; j < c_pairs; j++)
                        add_products(v + e * v_step + j * 2 * V, c_row, d + e * d_step + i * R,
                                     o_row,
                                     sums + e * s_step + (long)(i * c_pairs + j) * R * 2 * V,
                                     count, first);
            first = 0;
            t0 += chunk;
        } while (t0 < t1);
        for (int i = 0; i < on * V; i++)
            for (int j = 0; j < cn && o0 * V + i < o; j++) {
                int tile = i / R * c_pairs + j / 2, line = i - i / R * R, channel = (c0 + j) * V;

                results_weight(sums + ((long)tile * R + line) * 2 * V + (j & 1) * V, s_step,
                               part + (((long)split * o + o0 * V + i) * c + channel) * 9,
                               min(V, c - channel));
            }
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd5x5.cl - 5x5 convolutions with stride 1 by Winograd's F(3x3, 5x5), and their gradients by
 * its transposes, for CPUs, on channels in blocks of V.
 *
 * clkernels/winograd.cl has the idea and the letters. Here 7 inputs and 5 taps give 3 results. The
 * points are a = 0, 1, -1, 2, -2, 1/2 and infinity:
 *
 *     BT =  -2    4  5/2  -5 -1/2  1  0     fj =    -2     AT = 1  1  1  1  1   1  0
 *            0    2   -2 -9/2 1/2  1  0             -3          0  1 -1  2 -2 1/2  0
 *            0   -2    6 -7/2 -3/2 1  0              9          0  1  1  4  4 1/4  1
 *            0    1 -3/2  -2  3/2  1  0             36
 *            0   -1  5/2   0 -5/2  1  0            -60
 *            0    4    0  -5   0   1  0           45/32
 *            0   -2    4  5/2  -5 -1/2 1             1
 *
 * (tests/op/check_winograd.c computes them again.) M(x) = x N(x) (x - 1/2) with N(x) = (x^2 - 1)
 * (x^2 - 4). Rows of all points but 1/2 begin with the product by x - 1/2, so they share it. Nested in
 * two dimensions, 9 results take 49 products instead of 225.
 *
 * The product y = AT [(G g) . (BT d)] is linear in d and in g, so its transposes are the gradients,
 * from the same tiles with the same 49 products:
 *
 *     dd = B [(G g) . (A dy)]     spread over a window of 7 x 7, and added where windows overlap
 *     dg = GT [(BT d) . (A dy)]
 *
 * The other way to the gradient of the input, a convolution of dy with turned weights, would need a
 * tile for each 3 x 3 of the larger image.
 *
 * Transforms and products are fused as in winograd.cl: a group transforms some tiles into its own
 * scratch memory, multiplies 49 small matrices, and transforms back. The windows of a sample are
 * added by one group, in order.
 *
 * V: lanes. For the weights' gradient, R: rows of the product.
 */
#ifndef V
#define V 16
#endif
#ifndef R
#define R 6
#endif

#define floatv YKI_PASTE(float, V)
#define intv YKI_PASTE(int, V)
#define as_floatv YKI_PASTE(as_float, V)
#define as_intv YKI_PASTE(as_int, V)
#define loadv YKI_PASTE(vload, V)
#define storev YKI_PASTE(yki_store, V)

#define UP_TO_2(F)  F(0) F(1)
#define UP_TO_3(F)  UP_TO_2(F) F(2)
#define UP_TO_4(F)  UP_TO_3(F) F(3)
#define UP_TO_5(F)  UP_TO_4(F) F(4)
#define UP_TO_6(F)  UP_TO_5(F) F(5)
#define UP_TO_7(F)  UP_TO_6(F) F(6)
#define UP_TO_8(F)  UP_TO_7(F) F(7)
#define UP_TO_9(F)  UP_TO_8(F) F(8)
#define UP_TO_10(F) UP_TO_9(F) F(9)
#define UP_TO_11(F) UP_TO_10(F) F(10)
#define UP_TO_12(F) UP_TO_11(F) F(11)
#define EACH_R      YKI_PASTE(UP_TO_, R)

/* Tiles at a time, for 32 registers or 16. The remainder is done by thirds of P. */
#if V == 16
#define P 12
#define EACH_3 UP_TO_12
#define EACH_2 UP_TO_8
#define EACH_1 UP_TO_4
#else
#define P 6
#define EACH_3 UP_TO_6
#define EACH_2 UP_TO_4
#define EACH_1 UP_TO_2
#endif
#define THIRD (P / 3)

/* As in winograd.cl. */
#define SKEW 16

/* In all of these, elements of `d` are s apart and elements of `o` t apart. */
/* BT */
#define TRANSFORM_7(d, s, o, t)                                                               \
    {                                                                                         \
        floatv t0_ = YKI_FMA((floatv)(-.5f), d[0], d[1 * s]);                                 \
        floatv t1_ = YKI_FMA((floatv)(-.5f), d[1 * s], d[2 * s]);                             \
        floatv t2_ = YKI_FMA((floatv)(-.5f), d[2 * s], d[3 * s]);                             \
        floatv t3_ = YKI_FMA((floatv)(-.5f), d[3 * s], d[4 * s]);                             \
        floatv t4_ = YKI_FMA((floatv)(-.5f), d[4 * s], d[5 * s]);                             \
        floatv t5_ = YKI_FMA((floatv)(-.5f), d[5 * s], d[6 * s]);                             \
        floatv p_ = YKI_FMA((floatv)(-4.f), t2_, t4_);                                        \
        floatv q_ = YKI_FMA((floatv)(-4.f), t1_, t3_);                                        \
        floatv r_ = t4_ - t2_, s_ = t3_ - t1_;                                                \
                                                                                              \
        o[0] = YKI_FMA((floatv)(4.f), t0_, YKI_FMA((floatv)(-5.f), t2_, t4_));                \
        o[1 * t] = p_ + q_;                                                                   \
        o[2 * t] = p_ - q_;                                                                   \
        o[3 * t] = YKI_FMA((floatv)(2.f), s_, r_);                                            \
        o[4 * t] = YKI_FMA((floatv)(-2.f), s_, r_);                                           \
        o[5 * t] = YKI_FMA((floatv)(4.f), d[1 * s],                                           \
                           YKI_FMA((floatv)(-5.f), d[3 * s], d[5 * s]));                      \
        o[6 * t] = YKI_FMA((floatv)(4.f), t1_, YKI_FMA((floatv)(-5.f), t3_, t5_));            \
    }

/* B */
#define SPREAD_7(d, s, o, t)                                                                  \
    {                                                                                         \
        floatv p_ = d[1 * s] + d[2 * s], q_ = d[1 * s] - d[2 * s];                            \
        floatv r_ = d[3 * s] + d[4 * s], s_ = d[3 * s] - d[4 * s];                            \
        floatv t0_ = d[0] * 4.f;                                                              \
        floatv t1_ = YKI_FMA((floatv)(4.f), d[6 * s] - q_, s_ * -2.f);                        \
        floatv t2_ = YKI_FMA((floatv)(-5.f), d[0], YKI_FMA((floatv)(-4.f), p_, -r_));         \
        floatv t3_ = YKI_FMA((floatv)(-5.f), d[6 * s], YKI_FMA((floatv)(2.f), s_, q_));       \
        floatv t4_ = d[0] + p_ + r_, t5_ = d[6 * s], m5_ = d[5 * s];                          \
                                                                                              \
        o[0] = t0_ * -.5f;                                                                    \
        o[1 * t] = YKI_FMA((floatv)(4.f), m5_, YKI_FMA((floatv)(-.5f), t1_, t0_));            \
        o[2 * t] = YKI_FMA((floatv)(-.5f), t2_, t1_);                                         \
        o[3 * t] = YKI_FMA((floatv)(-5.f), m5_, YKI_FMA((floatv)(-.5f), t3_, t2_));           \
        o[4 * t] = YKI_FMA((floatv)(-.5f), t4_, t3_);                                         \
        o[5 * t] = YKI_FMA((floatv)(-.5f), t5_, t4_) + m5_;                                   \
        o[6 * t] = t5_;                                                                       \
    }

/* G, without 1/f. */
#define TRANSFORM_5(d, s, o, t)                                                               \
    {                                                                                         \
        floatv e_ = d[0] + d[2 * s] + d[4 * s], f_ = d[1 * s] + d[3 * s];                     \
        floatv g_ = YKI_FMA((floatv)(16.f), d[4 * s],                                         \
                            YKI_FMA((floatv)(4.f), d[2 * s], d[0]));                          \
        floatv h_ = YKI_FMA((floatv)(4.f), d[3 * s], d[1 * s]);                               \
                                                                                              \
        o[0] = d[0];                                                                          \
        o[1 * t] = e_ + f_;                                                                   \
        o[2 * t] = e_ - f_;                                                                   \
        o[3 * t] = YKI_FMA((floatv)(2.f), h_, g_);                                            \
        o[4 * t] = YKI_FMA((floatv)(-2.f), h_, g_);                                           \
        g_ = YKI_FMA((floatv)(.5f), d[4 * s], d[3 * s]);                                      \
        g_ = YKI_FMA((floatv)(.5f), YKI_FMA((floatv)(.5f), g_, d[2 * s]), d[1 * s]);          \
        o[5 * t] = YKI_FMA((floatv)(.5f), g_, d[0]);                                          \
        o[6 * t] = d[4 * s];                                                                  \
    }

/* GT, without 1/f. */
#define WEIGHTS_5(d, s, o, t)                                                                 \
    {                                                                                         \
        floatv p_ = d[1 * s] + d[2 * s], q_ = d[1 * s] - d[2 * s];                            \
        floatv r_ = d[3 * s] + d[4 * s], s_ = d[3 * s] - d[4 * s], m_ = d[5 * s];             \
                                                                                              \
        o[0] = d[0] + p_ + (r_ + m_);                                                         \
        o[1 * t] = YKI_FMA((floatv)(2.f), s_, YKI_FMA((floatv)(.5f), m_, q_));                \
        o[2 * t] = YKI_FMA((floatv)(4.f), r_, YKI_FMA((floatv)(.25f), m_, p_));               \
        o[3 * t] = YKI_FMA((floatv)(8.f), s_, YKI_FMA((floatv)(.125f), m_, q_));              \
        o[4 * t] = YKI_FMA((floatv)(16.f), r_, YKI_FMA((floatv)(.0625f), m_, p_)) + d[6 * s]; \
    }

/* A */
#define TRANSFORM_3(d, s, o, t)                                                               \
    {                                                                                         \
        floatv p_ = d[0] + d[2 * s], q_ = YKI_FMA((floatv)(4.f), d[2 * s], d[0]);             \
                                                                                              \
        o[0] = d[0];                                                                          \
        o[1 * t] = p_ + d[1 * s];                                                             \
        o[2 * t] = p_ - d[1 * s];                                                             \
        o[3 * t] = YKI_FMA((floatv)(2.f), d[1 * s], q_);                                      \
        o[4 * t] = YKI_FMA((floatv)(-2.f), d[1 * s], q_);                                     \
        o[5 * t] = YKI_FMA((floatv)(.5f), YKI_FMA((floatv)(.5f), d[2 * s], d[1 * s]), d[0]);  \
        o[6 * t] = d[2 * s];                                                                  \
    }

/* AT */
#define RESULTS_3(d, s, o, t)                                                                 \
    {                                                                                         \
        floatv p_ = d[1 * s] + d[2 * s], q_ = d[1 * s] - d[2 * s];                            \
        floatv r_ = d[3 * s] + d[4 * s], s_ = d[3 * s] - d[4 * s], m_ = d[5 * s];             \
                                                                                              \
        o[0] = d[0] + p_ + (r_ + m_);                                                         \
        o[1 * t] = YKI_FMA((floatv)(2.f), s_, YKI_FMA((floatv)(.5f), m_, q_));                \
        o[2 * t] = YKI_FMA((floatv)(4.f), r_, YKI_FMA((floatv)(.25f), m_, p_)) + d[6 * s];    \
    }

/* 1 / (f_i f_j), where 180/f is -90, -60, 20, 5, -3, 128, 180. */
#define SCALES(n)                                                                             \
    (n * -90) / 32400.f, (n * -60) / 32400.f, (n * 20) / 32400.f, (n * 5) / 32400.f,          \
        (n * -3) / 32400.f, (n * 128) / 32400.f, (n * 180) / 32400.f
__constant float scales[49] = {SCALES(-90), SCALES(-60), SCALES(20), SCALES(5),
                               SCALES(-3),  SCALES(128), SCALES(180)};

/* The plane of a channel block at (i, j). Outside it are zeros: rows are clamped and their bits
 * masked, so it does not matter what memory holds there. */
floatv
inside(__global const float *x, int h, int w, int i, int j)
{
    int row = clamp(i, 0, h - 1), column = clamp(j, 0, w - 1);

    return as_floatv(as_intv(loadv(row * w + column, x)) &
                     (row == i && column == j ? -1 : 0));
}

/* Transforms the 7 x 7 window at (y0, x0) of a plane. Matrix e goes to to + e * e_step. */
void
transform_window(__global const float *x, int h, int w, int y0, int x0, __global float *to,
                 long e_step)
{
    int whole = y0 >= 0 && x0 >= 0 && y0 + 7 <= h && x0 + 7 <= w;
    floatv d[49];

#pragma unroll
    for (int j = 0; j < 7; j++) {
        __global const float *q = x + ((long)y0 * w + x0 + j) * V;
        floatv a[7];

        if (whole) {
#pragma unroll
            for (int i = 0; i < 7; i++)
                a[i] = loadv(i * w, q);
        } else {
#pragma unroll
            for (int i = 0; i < 7; i++)
                a[i] = inside(x, h, w, y0 + i, x0 + j);
        }
        TRANSFORM_7(a, 1, (d + j), 7)
    }
#pragma unroll
    for (int i = 0; i < 7; i++) {
        floatv o[7];

        TRANSFORM_7((d + i * 7), 1, o, 1)
#pragma unroll
        for (int j = 0; j < 7; j++)
            storev(o[j], 0, to + (i * 7 + j) * e_step);
    }
}

/* The same for the 3 x 3 of a gradient at (y0, x0), which begin inside. */
void
transform_gradient(__global const float *dy, int h, int w, int y0, int x0, __global float *to,
                   long e_step)
{
    int whole = y0 + 3 <= h && x0 + 3 <= w;
    floatv d[21];

#pragma unroll
    for (int j = 0; j < 3; j++) {
        __global const float *q = dy + ((long)y0 * w + x0 + j) * V;
        floatv a[3];

        if (whole) {
#pragma unroll
            for (int i = 0; i < 3; i++)
                a[i] = loadv(i * w, q);
        } else {
#pragma unroll
            for (int i = 0; i < 3; i++)
                a[i] = inside(dy, h, w, y0 + i, x0 + j);
        }
        TRANSFORM_3(a, 1, (d + j), 3)
    }
#pragma unroll
    for (int i = 0; i < 7; i++) {
        floatv o[7];

        TRANSFORM_3((d + i * 3), 1, o, 1)
#pragma unroll
        for (int j = 0; j < 7; j++)
            storev(o[j], 0, to + (i * 7 + j) * e_step);
    }
}

/* One matrix e: v [block][P][V] times u [channel][2 V] gives m [tile][2 V]. */
#define START(i) floatv a##i##_0 = 0.f, a##i##_1 = 0.f;
#define STEP(i)                                                                               \
    a##i##_0 = YKI_FMA((floatv)(v[i * V + l]), w0, a##i##_0);                                 \
    a##i##_1 = YKI_FMA((floatv)(v[i * V + l]), w1, a##i##_1);
#define STORE(i)                                                                              \
    storev(a##i##_0, 2 * i, m);                                                               \
    storev(a##i##_1, 2 * i + 1, m);
#define MULTIPLY(name, EACH)                                                                  \
    void name(__global const float *v, __global const float *u, __global float *m, int c)     \
    {                                                                                         \
        EACH(START)                                                                           \
        for (int b = 0; b < c; b += V) {                                                      \
            int lanes = min(V, c - b);                                                        \
                                                                                              \
            for (int l = 0; l < lanes; l++) {                                                 \
                floatv w0 = loadv(0, u), w1 = loadv(1, u);                                    \
                                                                                              \
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

/* All matrices of `count` tiles. v_part: the floats of P tiles. */
void
multiply(__global const float *v, long v_part, long v_step, __global const float *u, long u_step,
         __global float *m, long m_step, int count, int c)
{
    for (int e = 0; e < 49; e++, v += v_step, u += u_step, m += m_step) {
        __global const float *vp = v;
        __global float *mp = m;

        for (int left = count; left > 0; left -= P, vp += v_part, mp += P * 2 * V)
            if (left > 2 * THIRD)
                multiply_3(vp, u, mp, c);
            else if (left > THIRD)
                multiply_2(vp, u, mp, c);
            else
                multiply_1(vp, u, mp, c);
    }
}

/* The 49 products of a tile and channel block, at m + e * m_step, give up to 3 x 3 results. */
void
results_tile(__global const float *m, long m_step, floatv bias, __global float *y, int w, int rows,
             int columns, int act)
{
    floatv d[21];

#pragma unroll
    for (int j = 0; j < 7; j++) {
        floatv a[7];

#pragma unroll
        for (int i = 0; i < 7; i++)
            a[i] = loadv(0, m + (i * 7 + j) * m_step);
        RESULTS_3(a, 1, (d + j), 7)
    }
#pragma unroll
    for (int i = 0; i < 3; i++) {
        floatv o[3];

        RESULTS_3((d + i * 7), 1, o, 1)
#pragma unroll
        for (int j = 0; j < 3; j++) {
            floatv r = o[j] + bias;

            if (act == 1)
                r = select(r, (floatv)(0.f), r <= 0.f);
            if (i < rows && j < columns)
                storev(r, i * w + j, y);
        }
    }
}

/* The same products, spread over the 7 x 7 window at (y0, x0) of a plane, to which they are added. */
void
spread_tile(__global const float *m, long m_step, __global float *x, int h, int w, int y0, int x0)
{
    floatv d[49];

#pragma unroll
    for (int j = 0; j < 7; j++) {
        floatv a[7];

#pragma unroll
        for (int i = 0; i < 7; i++)
            a[i] = loadv(0, m + (i * 7 + j) * m_step);
        SPREAD_7(a, 1, (d + j), 7)
    }
#pragma unroll
    for (int i = 0; i < 7; i++) {
        floatv o[7];

        SPREAD_7((d + i * 7), 1, o, 1)
        if (y0 + i < 0 || y0 + i >= h)
            continue;
#pragma unroll
        for (int j = 0; j < 7; j++) {
            int at = (y0 + i) * w + x0 + j;

            if (x0 + j >= 0 && x0 + j < w)
                storev(loadv(at, x) + o[j], at, x);
        }
    }
}

/* x (N, c/V, h, w, V) -> y (N, o/V, oh, ow, V), or with `spread` dy -> dx: then h, w are those of dy
 * and oh, ow those of dx. Weights are packed [o / 2 V][49][c][2 V]. Tiles are 3 x 3 of y. */
__kernel YKI_GROUP(1, 1) void
yki_winograd5x5(__global const float *x, __global const float *packed, __global float *y,
                __global float *scratch, int samples, int most, int c, int h, int w, int o, int oh,
                int ow, int pad_h, int pad_w, int spread, int scratch_step, int act)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    int th = ((spread ? h : oh) + 2) / 3, tw = ((spread ? w : ow) + 2) / 3, each = th * tw;
    int in_blocks = (c + V - 1) / V, out_blocks = (o + V - 1) / V, pairs = (out_blocks + 1) / 2;
    /* Windows of a sample overlap, so its tiles stay together. */
    int unit = spread ? each : 1, units = samples * (each / unit);
    int begin = (int)((long)units * group / groups) * unit;
    int end = (int)((long)units * (group + 1) / groups) * unit;
    long v_part = (long)in_blocks * P * V, v_step = most / P * v_part + SKEW;
    long m_step = (long)most * 2 * V + SKEW;
    long u_step = (long)c * 2 * V + SKEW, plane = (long)oh * ow * V;
    __global float *v = scratch + (long)group * scratch_step, *m = v + 49 * v_step;
    __global const float *biases = packed + pairs * 49 * u_step;

    for (int t0 = begin; t0 < end; t0 += most) {
        int some = min(most, end - t0), count = (some + THIRD - 1) / THIRD * THIRD;

        for (int b = 0; b < in_blocks; b++)
            for (int t = 0; t < count; t++) {
                /* Beyond the last tile, any other one is used. */
                int tile = min(t0 + t, end - 1), row = tile / tw, n = row / th;
                int i = (row - n * th) * 3, j = (tile - row * tw) * 3, part = t / P;
                __global const float *from = x + ((long)n * in_blocks + b) * h * w * V;
                __global float *to = v + part * v_part + (b * P + t - part * P) * V;

                if (spread)
                    transform_gradient(from, h, w, i, j, to, v_step);
                else
                    transform_window(from, h, w, i - pad_h, j - pad_w, to, v_step);
            }
        for (int pair = 0; pair < pairs; pair++) {
            multiply(v, v_part, v_step, packed + pair * 49 * u_step, u_step, m, m_step, count, c);
            for (int t = 0; t < some; t++) {
                int tile = t0 + t, row = tile / tw, n = row / th;
                int i = (row - n * th) * 3, j = (tile - row * tw) * 3;

                for (int b = 0; b < min(2, out_blocks - pair * 2); b++) {
                    __global const float *from = m + (t * 2 + b) * V;
                    __global float *to = y + ((long)n * out_blocks + pair * 2 + b) * plane;
                    floatv bias = loadv(pair * 2 + b, biases);

                    if (!spread) {
                        results_tile(from, m_step, bias, to + ((long)i * ow + j) * V, ow, oh - i,
                                     ow - j, act);
                        continue;
                    }
                    for (int k = 0; k < oh * ow && tile == n * each; k++)
                        storev(bias, k, to);
                    spread_tile(from, m_step, to, oh, ow, i - pad_h, j - pad_w);
                    for (int k = 0; k < oh * ow && act == 1 && tile + 1 == (n + 1) * each; k++) {
                        floatv r = loadv(k, to);

                        storev(select(r, (floatv)(0.f), r <= 0.f), k, to);
                    }
                }
            }
        }
    }
}

/* Transforms the weights of V output channels, from o0 on, by one input channel. `weight` is (o, c,
 * 5, 5) or, if `transposed`, (c, o, 5, 5). */
__kernel YKI_GROUP(1, 1) void
yki_winograd5x5_pack(__global const float *weight, __global const float *bias,
                     __global float *packed, int c, int o, int transposed, int has_bias)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    int pairs = (o + 2 * V - 1) / (2 * V);
    long jobs = (long)pairs * 2 * c, u_step = (long)c * 2 * V + SKEW;
    long of_o = transposed ? 25 : (long)c * 25, of_c = transposed ? (long)o * 25 : 25;

    for (long job = jobs * group / groups; job < jobs * (group + 1) / groups; job++) {
        int block = (int)(job / c), channel = (int)(job - (long)block * c), o0 = block * V;
        __global float *to =
            packed + block / 2 * 49 * u_step + ((long)channel * 2 + (block & 1)) * V;
        float taps[25 * V];
        floatv d[35];

        for (int l = 0; l < V; l++)
            for (int k = 0; k < 25; k++)
                taps[k * V + l] = o0 + l < o ? weight[(o0 + l) * of_o + channel * of_c + k] : 0.f;
        for (int j = 0; j < 5; j++) {
            floatv a[5];

            for (int i = 0; i < 5; i++)
                a[i] = loadv(i * 5 + j, taps);
            TRANSFORM_5(a, 1, (d + j), 5)
        }
        for (int i = 0; i < 7; i++) {
            floatv u[7];

            TRANSFORM_5((d + i * 5), 1, u, 1)
            for (int j = 0; j < 7; j++)
                storev(u[j] * scales[i * 7 + j], 0, to + (i * 7 + j) * u_step);
        }
    }
    for (int i = 0; group == 0 && i < pairs * 2 * V; i++)
        packed[pairs * 49 * u_step + i] = has_bias && i < o ? bias[i] : 0.f;
}

/* ---- the gradient of the weights ---- */

/* sum[R][2 V] = or += over tiles, x[tile][R] by d[tile][2 V]. */
#define STEP_R(i)                                                                             \
    a##i##_0 = YKI_FMA((floatv)(x[i]), d0, a##i##_0);                                         \
    a##i##_1 = YKI_FMA((floatv)(x[i]), d1, a##i##_1);
#define ADD_R(i)                                                                              \
    a##i##_0 += loadv(2 * i, sum);                                                            \
    a##i##_1 += loadv(2 * i + 1, sum);
#define STORE_R(i)                                                                            \
    storev(a##i##_0, 2 * i, sum);                                                             \
    storev(a##i##_1, 2 * i + 1, sum);
void
add_products(__global const float *x, int x_row, __global const float *d, int d_row,
             __global float *sum, int tiles, int first)
{
    EACH_R(START)
    for (int t = 0; t < tiles; t++) {
        floatv d0 = loadv(0, d), d1 = loadv(1, d);

        EACH_R(STEP_R)
        x += x_row;
        d += d_row;
    }
    if (!first) {
        EACH_R(ADD_R)
    }
    EACH_R(STORE_R)
}

/* The 49 sums for V output channels and one input channel give 25 weights of `lanes` channels,
 * which are `apart`. */
void
results_weight(__global const float *sum, long e_step, __global float *to, int lanes, long apart)
{
    float taps[25 * V];
    floatv d[35];

    for (int j = 0; j < 7; j++) {
        floatv a[7];

        for (int i = 0; i < 7; i++)
            a[i] = loadv(0, sum + (i * 7 + j) * e_step) * scales[i * 7 + j];
        WEIGHTS_5(a, 1, (d + j), 7)
    }
    for (int i = 0; i < 5; i++) {
        floatv g[5];

        WEIGHTS_5((d + i * 7), 1, g, 1)
        for (int j = 0; j < 5; j++)
            storev(g[j], i * 5 + j, taps);
    }
    for (int l = 0; l < lanes; l++)
        for (int k = 0; k < 25; k++)
            to[l * apart + k] = taps[k * V + l];
}

/* x (N, c/V, h, w, V), dy (N, o/V, oh, ow, V) -> part[split] (o, c, 5, 5). The sums stay in the
 * group's scratch memory, [49][c / R][o / 2 V][R][2 V], while tiles pass through in chunks:
 * [49][chunk][c in whole blocks], then [49][chunk][o in whole pairs of blocks]. */
__kernel YKI_GROUP(1, 1) void
yki_winograd5x5_grad_weight(__global const float *x, __global const float *dy,
                            __global float *part, __global float *scratch, int samples, int chunk,
                            int c, int h, int w, int o, int oh, int ow, int pad_h, int pad_w,
                            int scratch_step)
{
    int split = get_group_id(0), splits = get_num_groups(0);
    int th = (oh + 2) / 3, tw = (ow + 2) / 3, tiles = samples * th * tw, first = 1;
    int in_blocks = (c + V - 1) / V, out_blocks = (o + V - 1) / V, pairs = (out_blocks + 1) / 2;
    int c_row = in_blocks * V, o_row = pairs * 2 * V, strips = (c + R - 1) / R;
    int t0 = (int)((long)tiles * split / splits), t1 = (int)((long)tiles * (split + 1) / splits);
    long v_step = (long)chunk * c_row + SKEW, d_step = (long)chunk * o_row + SKEW;
    long s_step = (long)strips * R * o_row + SKEW;
    __global float *v = scratch + (long)split * scratch_step, *d = v + 49 * v_step;
    __global float *sums = d + 49 * d_step;

    do { /* at least once, because sums of nothing are 0 */
        int count = min(chunk, t1 - t0);

        for (int b = 0; b < in_blocks + 2 * pairs; b++)
            for (int t = 0; t < count; t++) {
                int row = (t0 + t) / tw, n = row / th, from = b - in_blocks;
                int i = (row - n * th) * 3, j = (t0 + t - row * tw) * 3;
                __global float *to = d + (long)t * o_row + from * V;

                if (from < 0)
                    transform_window(x + ((long)n * in_blocks + b) * h * w * V, h, w, i - pad_h,
                                     j - pad_w, v + (long)t * c_row + b * V, v_step);
                else if (from < out_blocks)
                    transform_gradient(dy + ((long)n * out_blocks + from) * oh * ow * V, oh, ow, i,
                                       j, to, d_step);
                else
                    for (int e = 0; e < 49; e++)
                        storev((floatv)(0.f), 0, to + e * d_step);
            }
        for (int e = 0; e < 49; e++)
            for (int i = 0; i < strips; i++)
                for (int j = 0; j < pairs; j++)
                    add_products(v + e * v_step + i * R, c_row, d + e * d_step + j * 2 * V, o_row,
                                 sums + e * s_step + (long)(i * pairs + j) * R * 2 * V, count,
                                 first);
        first = 0;
        t0 += chunk;
    } while (t0 < t1);
    for (int b = 0; b < out_blocks; b++)
        for (int i = 0; i < c; i++) {
            int strip = i / R, line = i - strip * R;

            results_weight(sums + ((long)(strip * pairs + b / 2) * R + line) * 2 * V + (b & 1) * V,
                           s_step, part + (((long)split * o + b * V) * c + i) * 25,
                           min(V, o - b * V), (long)c * 25);
        }
}

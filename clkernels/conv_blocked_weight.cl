/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_blocked_weight.cl - the gradient of a convolution's weights for CPUs, on
 * channels in blocks of V.
 *
 * One work-item per group holds P input channels x Q blocks of output channels of one
 * tap in registers. It adds up over the pixels of a unit: some samples, or some rows
 * of one, few enough to stay in the first-level cache while all taps pass over them.
 * The unit's input, one block of channels, is first copied with its padding into the
 * group's own scratch memory. Tables say where each pixel begins in it and in dy.
 *
 * A job is a block of input channels over the samples of a split. Its sums go to
 * part[split][O / (Q V)][C / V][taps h][taps w][channels of the block][Q V]. The last
 * pass adds the splits in order, and writes the weight's own axes.
 */
#ifndef V
#define V 16
#endif
#ifndef P
#define P 8
#endif
#define Q 2

#define floatv YKI_PASTE(float, V)
#define loadv YKI_PASTE(vload, V)
#define storev YKI_PASTE(yki_store, V)

#if P == 4
#define EACH_CHANNEL(F) F(0) F(1) F(2) F(3)
#elif P == 6
#define EACH_CHANNEL(F) F(0) F(1) F(2) F(3) F(4) F(5)
#elif P == 8
#define EACH_CHANNEL(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#elif P == 10
#define EACH_CHANNEL(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)
#elif P == 12
#define EACH_CHANNEL(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#endif

/* In canonical plans the sum over later units goes on with the chain of those before. */
#if YKI_CANONICAL
#define START(i)                                                                              \
    floatv a##i##_0 = 0.f, a##i##_1 = 0.f;                                                    \
    if (!first && i < count) {                                                                \
        a##i##_0 = loadv(2 * i, to);                                                          \
        a##i##_1 = loadv(2 * i + 1, to);                                                      \
    }
#define ADDED(x, i) (x)
#else
#define START(i) floatv a##i##_0 = 0.f, a##i##_1 = 0.f;
#define ADDED(x, i) (first ? (x) : (x) + loadv(i, to))
#endif
#define STEP(i)                                                                               \
    a##i##_0 = YKI_FMA((floatv)(x[i]), d0, a##i##_0);                                         \
    a##i##_1 = YKI_FMA((floatv)(x[i]), d1, a##i##_1);
/* The sum over the first unit is stored; sums over later units are added to it. */
#define STORE(i)                                                                              \
    if (i < count) {                                                                          \
        storev(ADDED(a##i##_0, 2 * i), 2 * i, to);                                            \
        storev(ADDED(a##i##_1, 2 * i + 1), 2 * i + 1, to);                                    \
    }

/* Sums P channels by Q V outputs over pixels. This is the innermost loop. */
void
tile(__global const float *xp, __global const int *in_at, __global const float *dy,
     __global const int *out_at, int pixels, long plane, __global float *to, int count, int first)
{
    EACH_CHANNEL(START)

    for (int k = 0; k < pixels; k++) {
        __global const float *x = xp + in_at[k], *d = dy + out_at[k];
        floatv d0 = loadv(0, d), d1 = loadv(0, d + plane);

        EACH_CHANNEL(STEP)
    }
    EACH_CHANNEL(STORE)
}

/* Copies one block of channels of a unit with its padding, strip[s][rows][columns][cp], then P
 * zeros. */
void
pack_block(__global const float *x, __global float *strip, int n0, int ns, int blocks, int block,
           int h, int w, int cp, int from_plain, int y0, int rows, int x0, int columns)
{
    int left = clamp(-x0, 0, columns), right = clamp(w - x0, left, columns);
    __global float *to = strip;

    for (int s = 0; s < ns; s++)
        for (int r = 0; r < rows; r++, to += columns * cp) {
            int y = y0 + r, inside = y >= 0 && y < h, i;
            int begin = inside ? left : columns, end = inside ? right : columns;

            for (i = 0; i < begin * cp; i++)
                to[i] = 0.f;
            if (from_plain)
                for (int c = 0; c < cp; c++) {
                    __global const float *from =
                        x + ((long)(n0 + s) * cp + c) * h * w + (long)y * w + x0;

                    for (i = begin; i < end; i++)
                        to[i * cp + c] = from[i];
                }
            else {
                __global const float *from =
                    x + (((long)(n0 + s) * blocks + block) * h * w + (long)y * w + x0) * V;

                for (i = begin; i < end; i++)
                    storev(loadv(i, from), i, to);
            }
            for (i = end * cp; i < columns * cp; i++)
                to[i] = 0.f;
        }
    for (int i = 0; i < P; i++)
        to[i] = 0.f;
}

__kernel YKI_GROUP(1, 1) void
yki_conv_blocked_grad_weight(__global const float *x, __global const float *dy,
                             __global float *part, __global float *strips, __global int *tables,
                             int samples, int splits, int unit_samples, int unit_rows, int c,
                             int h, int w, int o, int oh, int ow, int kh, int kw, int sh, int sw,
                             int ph, int pw, int dh, int dw, int groups, int from_plain, int direct,
                             int strip_size, int table_size)
{
    int group = get_group_id(0), work_groups = get_num_groups(0);
    int cp = from_plain ? c : V, in_blocks = from_plain ? 1 : (c + V - 1) / V;
    int out_blocks = (o + V - 1) / V, out_groups = (out_blocks + Q - 1) / Q;
    int strips_of = (oh + unit_rows - 1) / unit_rows, jobs = in_blocks * splits;
    int columns = direct ? w : (ow - 1) * sw + (kw - 1) * dw + 1;
    int merged = dw == 1 && from_plain, cg = c / groups, og = o / groups;
    int taps_w = merged ? 1 : kw, run = merged ? kw * cp : cp;
    long plane = (long)oh * ow * V;
    __global float *strip = strips + (long)group * strip_size;
    __global int *in_at = tables + (long)group * table_size * 2, *out_at = in_at + table_size;

    for (int job = (int)((long)jobs * group / work_groups);
         job < (int)((long)jobs * (group + 1) / work_groups); job++) {
        int block = job / splits, split = job - block * splits;
        int from = (int)((long)samples * split / splits);
        int until = (int)((long)samples * (split + 1) / splits);
        int units = (until - from + unit_samples - 1) / unit_samples * strips_of;
        int used = from_plain ? run : min(V, c - block * V); /* the last block may have fewer */
        long size = (long)kh * kw * cp * Q * V; /* of the sums for one group of outputs */
        __global float *sums = part + ((long)split * out_groups * in_blocks + block) * size;

        if (units == 0)
            for (int b = 0; b < out_groups; b++)
                for (long i = 0; i < size; i++)
                    sums[(long)b * in_blocks * size + i] = 0.f;
        for (int unit = 0; unit < units; unit++) {
            int some = unit / strips_of, n0 = from + some * unit_samples;
            int ns = min(unit_samples, until - n0);
            int g0 = (unit - some * strips_of) * unit_rows, gr = min(unit_rows, oh - g0), at = 0;
            int rows = (gr - 1) * sh + (kh - 1) * dh + 1;
            long sample = direct ? (long)in_blocks * h * w * V : (long)rows * columns * cp;
            __global const float *xp = strip;

            if (direct)
                xp = x + (((long)n0 * in_blocks + block) * h + g0 * sh) * w * V;
            else
                pack_block(x, strip, n0, ns, in_blocks, block, h, w, cp, from_plain, g0 * sh - ph,
                           rows, -pw, columns);
            for (int s = 0; s < ns; s++)
                for (int i = 0; i < gr; i++)
                    for (int j = 0; j < ow; j++, at++) {
                        in_at[at] = (int)(s * sample) + (i * sh * columns + j * sw) * cp;
                        out_at[at] = (int)(s * out_blocks * plane) + ((g0 + i) * ow + j) * V;
                    }
            for (int b = 0; b < out_blocks; b += Q) {
                int first_group = b * V / og, last_group = (min((b + Q) * V, o) - 1) / og;
                __global float *to = sums + (long)(b / Q) * in_blocks * size;
                __global const float *dp = dy + ((long)n0 * out_blocks + b) * plane;

                /* None of these outputs uses an input of the block. */
                if (!from_plain &&
                    (block * V >= (last_group + 1) * cg || (block + 1) * V <= first_group * cg))
                    continue;
                for (int r = 0; r < kh; r++)
                    for (int s = 0; s < taps_w; s++, to += (long)run * Q * V)
                        for (int k = 0; k < used; k += P)
                            tile(xp + ((long)r * dh * columns + s * dw) * cp + k, in_at, dp, out_at,
                                 at, b + 1 < out_blocks ? plane : 0, to + (long)k * Q * V, used - k,
                                 unit == 0);
            }
        }
    }
}

/* out (o, cg, kh, kw) is the sum of the splits. A job is a block of inputs and a group of
 * outputs. */
__kernel YKI_GROUP(1, 1) void
yki_conv_blocked_unpack(__global const float *part, __global float *out, int splits, int c, int o,
                        int groups, int area, int from_plain)
{
    int group = get_group_id(0), work_groups = get_num_groups(0);
    int cp = from_plain ? c : V, in_blocks = from_plain ? 1 : (c + V - 1) / V;
    int out_groups = (o + Q * V - 1) / (Q * V), jobs = in_blocks * out_groups;
    int cg = c / groups, og = o / groups;
    long size = (long)area * cp * Q * V, next = (long)jobs * size;

    for (int job = (int)((long)jobs * group / work_groups);
         job < (int)((long)jobs * (group + 1) / work_groups); job++) {
        int b = job / in_blocks, o0 = b * Q * V, c0 = (job - b * in_blocks) * cp;
        int c1 = min(c0 + cp, c);

        for (int q = 0; q < Q; q++)
            for (int t = 0; t < area; t++)
                for (int ci = c0; ci < c1; ci++) {
                    int g = ci / cg, first = max(o0 + q * V, g * og);
                    int end = min(min(o0 + (q + 1) * V, o), (g + 1) * og);
                    __global const float *from =
                        part + (long)job * size + ((long)t * cp + ci - c0) * Q * V + q * V;
                    floatv sum = loadv(0, from);
                    float lanes[V];

                    for (int k = 1; k < splits; k++)
                        sum += loadv(0, from + k * next);
                    storev(sum, 0, lanes);
                    for (int oi = first; oi < end; oi++)
                        out[((long)oi * cg + (ci - g * cg)) * area + t] =
                            lanes[oi - o0 - q * V];
                }
    }
}

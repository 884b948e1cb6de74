/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_blocked.cl - convolutions for CPUs, on channels in blocks of V: forward and,
 * with other arguments, the gradient of the input.
 *
 * One work-item per group holds P pixels x Q blocks of output channels in registers: P
 * * Q vectors of V floats, each multiplied by one float of an input pixel. Groups are
 * few and loop over units; a unit is some samples, or some rows of one. A unit's input
 * is first copied with its padding into a strip of the group's own scratch memory, and
 * then used for all output channels, so the inner loop knows no borders. A table of
 * the unit's pixels lets tiles run across rows and samples, so small or odd images
 * waste nothing.
 *
 * The kernel computes, for the positions (i, j) of a grid of GH x GW:
 *
 *   y[i * OSH + OAH][j * OSW + OAW] = bias + sum over taps (r, s) and channels of
 *       x[i * ISH + r * TSH + BH][j * ISW + s * TSW + BW] * weight
 *
 * A convolution is one such grid: BH is minus the pad, TSH the dilation, ISH the
 * stride. The gradient of its input is one grid per residue of the position modulo the
 * stride, with the taps that reach it.
 *
 * yki_conv_stacked takes tiles of P samples instead, all at one position. It does only
 * the taps that lie inside x for that position, where the other kernel multiplies the
 * padding. With small images and large kernels that saves half of the work.
 *
 * Packed weights, in the order of use: [O / (Q V)][C / V][taps h][taps w][channels of
 * the block][Q V], then the bias. A block of x with fewer than V real channels has
 * weights for these only.
 *
 * In canonical plans sums begin with 0 and the bias comes last; narrow blocks are taken
 * SUBS at a time for each tap, and packed so.
 */
#ifndef V
#define V 16
#endif
#ifndef P
#define P 8
#endif
#ifndef Q
#define Q 2
#endif

#define SUBS (YKI_CANONICAL && V < YKI_CANONICAL_CHANNELS ? YKI_CANONICAL_CHANNELS / V : 1)

#define floatv YKI_PASTE(float, V)
#define loadv YKI_PASTE(vload, V)
#define storev YKI_PASTE(yki_store, V)
#if YKI_CANONICAL
#define FIRST(bias) (floatv)(0.f)
#else
#define FIRST(bias) bias
#endif
/* STREAM is for results that fit no cache. */
#if defined STREAM && V == 16
#define STORE_RESULT(x, p) YKI_STREAM(x, p)
#else
#define STORE_RESULT(x, p) storev(x, 0, p)
#endif

#if P == 4
#define EACH_PIXEL(F) F(0) F(1) F(2) F(3)
#elif P == 6
#define EACH_PIXEL(F) F(0) F(1) F(2) F(3) F(4) F(5)
#elif P == 8
#define EACH_PIXEL(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#elif P == 10
#define EACH_PIXEL(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)
#elif P == 12
#define EACH_PIXEL(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#elif P == 14
#define EACH_PIXEL(F)                                                                         \
    F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13)
#endif

#if Q == 1
#define WEIGHTS floatv w0 = loadv(0, wp);
#define START(i) floatv a##i##_0 = FIRST(b0);
#define BIAS(i) a##i##_0 += b0;
#define STEP(i) a##i##_0 = YKI_FMA((floatv)(x##i[k]), w0, a##i##_0);
#define ACT(i) a##i##_0 = select(a##i##_0, (floatv)(0.f), a##i##_0 <= 0.f);
#define STORE(i)                                                                              \
    if (i < count) {                                                                          \
        __global float *o_ = yp + out_at[i];                                                  \
        STORE_RESULT(a##i##_0, o_);                                                              \
    }
#elif Q == 2
#define WEIGHTS floatv w0 = loadv(0, wp), w1 = loadv(1, wp);
#define START(i) floatv a##i##_0 = FIRST(b0), a##i##_1 = FIRST(b1);
#define BIAS(i) a##i##_0 += b0, a##i##_1 += b1;
#define STEP(i)                                                                               \
    a##i##_0 = YKI_FMA((floatv)(x##i[k]), w0, a##i##_0);                                      \
    a##i##_1 = YKI_FMA((floatv)(x##i[k]), w1, a##i##_1);
#define ACT(i)                                                                                \
    a##i##_0 = select(a##i##_0, (floatv)(0.f), a##i##_0 <= 0.f);                              \
    a##i##_1 = select(a##i##_1, (floatv)(0.f), a##i##_1 <= 0.f);
#define STORE(i)                                                                              \
    if (i < count) {                                                                          \
        __global float *o_ = yp + out_at[i];                                                  \
        STORE_RESULT(a##i##_0, o_);                                                              \
        if (blocks > 1)                                                                       \
            STORE_RESULT(a##i##_1, o_ + plane);                                                  \
    }
#elif Q == 3
#define WEIGHTS floatv w0 = loadv(0, wp), w1 = loadv(1, wp), w2 = loadv(2, wp);
#define START(i) floatv a##i##_0 = FIRST(b0), a##i##_1 = FIRST(b1), a##i##_2 = FIRST(b2);
#define BIAS(i) a##i##_0 += b0, a##i##_1 += b1, a##i##_2 += b2;
#define STEP(i)                                                                               \
    a##i##_0 = YKI_FMA((floatv)(x##i[k]), w0, a##i##_0);                                      \
    a##i##_1 = YKI_FMA((floatv)(x##i[k]), w1, a##i##_1);                                      \
    a##i##_2 = YKI_FMA((floatv)(x##i[k]), w2, a##i##_2);
#define ACT(i)                                                                                \
    a##i##_0 = select(a##i##_0, (floatv)(0.f), a##i##_0 <= 0.f);                              \
    a##i##_1 = select(a##i##_1, (floatv)(0.f), a##i##_1 <= 0.f);                              \
    a##i##_2 = select(a##i##_2, (floatv)(0.f), a##i##_2 <= 0.f);
#define STORE(i)                                                                              \
    if (i < count) {                                                                          \
        __global float *o_ = yp + out_at[i];                                                  \
        STORE_RESULT(a##i##_0, o_);                                                              \
        if (blocks > 1)                                                                       \
            STORE_RESULT(a##i##_1, o_ + plane);                                                  \
        if (blocks > 2)                                                                       \
            STORE_RESULT(a##i##_2, o_ + 2 * plane);                                              \
    }
#endif

#define POINT(i) __global const float *x##i = xp + in_at[i];

/* The taps of a channel block that a tile leaves out: before the first, between two rows, after
 * the last. A tap has `width` channels; 0 means as many as a run. */
typedef struct left_out {
    int lead, between, trail, width;
} left_out;

/* One tile: P pixels whose inputs begin at xp + in_at[], and Q blocks. In x, channel blocks are
 * `step` apart, rows of taps `row`, columns of taps `column`. A run is what is contiguous in x
 * and in the weights. The last channel block has runs of `last`. */
void
tile(__global const float *xp, __global const int *in_at, __global const float *wp,
     __global const float *bias, __global float *yp, __global const int *out_at, int count,
     int blocks, long plane, int channel_blocks, long step, int taps_h, long row, int taps_w,
     long column, int run, int last, left_out out, int act)
{
    floatv b0 = loadv(0, bias);
#if Q > 1
    floatv b1 = loadv(1, bias);
#endif
#if Q > 2
    floatv b2 = loadv(2, bias);
#endif
    EACH_PIXEL(START)
    EACH_PIXEL(POINT)

    for (int c = 0; c < channel_blocks; c += SUBS) {
        int subs = SUBS == 1 ? 1 : min(SUBS, channel_blocks - c);
        long length = c + subs < channel_blocks ? run : last;
        long tap = (out.width ? out.width : (subs - 1) * run + length) * Q * V;

        wp += out.lead * tap;
        for (int r = 0; r < taps_h; r++) {
            for (int s = 0; s < taps_w; s++)
                for (int sub = 0; sub < subs; sub++) {
                    long begin = (c + sub) * step + r * row + s * column;
                    long end = begin + (sub + 1 < subs ? run : length);

                    for (long k = begin; k < end; k++) {
                        WEIGHTS
                        for (int q = 0; q < Q; q++)
                            YKI_PREFETCH(wp + (YKI_AHEAD * Q + q) * V);
                        EACH_PIXEL(STEP)
                        wp += Q * V;
                    }
                }
            wp += out.between * tap;
        }
        wp += out.trail * tap;
    }
#if YKI_CANONICAL
    EACH_PIXEL(BIAS)
#endif
    if (act == 1) {
        EACH_PIXEL(ACT)
    }
    EACH_PIXEL(STORE)
}

/* Copies rows of a unit with their padding: strip[s][c][rows][columns][cp]. */
void
pack_strip(__global const float *x, __global float *strip, int n0, int ns, int blocks, int h, int w,
           int cp, int from_plain, int y0, int rows, int x0, int columns)
{
    int left = clamp(-x0, 0, columns), right = clamp(w - x0, left, columns);

    for (int sc = 0; sc < ns * blocks; sc++) {
        __global float *to = strip + (long)sc * rows * columns * cp;

        for (int r = 0; r < rows; r++, to += columns * cp) {
            int y = y0 + r, i = 0;
            int begin = y >= 0 && y < h ? left : columns, end = y >= 0 && y < h ? right : columns;

            for (i = 0; i < begin * cp; i++)
                to[i] = 0.f;
            if (from_plain) {
                for (int c = 0; c < cp; c++) {
                    __global const float *from =
                        x + ((long)(n0 + sc) * cp + c) * h * w + (long)y * w + x0;

                    for (i = begin; i < end; i++)
                        to[i * cp + c] = from[i];
                }
            } else {
                __global const float *from =
                    x + (((long)n0 * blocks + sc) * h * w + (long)y * w + x0) * V;

                for (i = begin; i < end; i++)
                    storev(loadv(i, from), i, to);
            }
            for (i = end * cp; i < columns * cp; i++)
                to[i] = 0.f;
        }
    }
}

__kernel YKI_GROUP(1, 1) void
yki_conv_blocked(__global const float *x, __global const float *weight, __global float *y,
                 __global float *strips, __global int *tables, int samples, int weight_at,
                 int unit_samples,
                 int unit_rows, int c, int h, int w, int o, int oh, int ow, int gh, int gw,
                 int ish, int isw, int taps_h, int taps_w, int tsh, int tsw, int bh, int bw,
                 int osh, int osw, int oah, int oaw, int groups, int from_plain, int direct,
                 int strip_size, int table_size, int weight_step, int act)
{
    int group = get_group_id(0), work_groups = get_num_groups(0);
    int cp = from_plain ? c : V;
    int in_blocks = from_plain ? 1 : (c + V - 1) / V, out_blocks = (o + V - 1) / V;
    int strips_of = (gh + unit_rows - 1) / unit_rows;
    int units = (samples + unit_samples - 1) / unit_samples * strips_of;
    int columns = direct ? w : (gw - 1) * isw + (taps_w - 1) * tsw + 1;
    int merged = tsw == 1 && (from_plain || (SUBS == 1 && c % V == 0));
    int last = from_plain ? c : c - (in_blocks - 1) * V;
    int cg = c / groups, og = o / groups;
    long plane = (long)oh * ow * V;
    __global float *strip = strips + (long)group * strip_size;
    __global int *in_at = tables + (long)group * table_size * 2, *out_at = in_at + table_size;
    __global const float *packed = weight + weight_at;
    __global const float *bias = packed + (long)((out_blocks + Q - 1) / Q) * weight_step;

    for (int unit = (int)((long)units * group / work_groups);
         unit < (int)((long)units * (group + 1) / work_groups); unit++) {
        int some = unit / strips_of, n0 = some * unit_samples, ns = min(unit_samples, samples - n0);
        int g0 = (unit - some * strips_of) * unit_rows, gr = min(unit_rows, gh - g0);
        int rows = direct ? h : (gr - 1) * ish + (taps_h - 1) * tsh + 1;
        long step = (long)rows * columns * cp;
        int pixels = ns * gr * gw, at = 0;
        __global const float *xp = strip;

        if (direct)
            xp = x + (long)n0 * in_blocks * h * w * V + ((long)(g0 * ish + bh) * w + bw) * V;
        else
            pack_strip(x, strip, n0, ns, in_blocks, h, w, cp, from_plain, g0 * ish + bh, rows, bw,
                       columns);
        for (int s = 0; s < ns; s++)
            for (int i = 0; i < gr; i++)
                for (int j = 0; j < gw; j++, at++) {
                    in_at[at] = (int)(s * in_blocks * step) + (i * ish * columns + j * isw) * cp;
                    out_at[at] = (int)(s * out_blocks * plane) +
                                 (((g0 + i) * osh + oah) * ow + j * osw + oaw) * V;
                }
        for (; at % P; at++) {
            in_at[at] = in_at[pixels - 1];
            out_at[at] = 0;
        }
        for (int b = 0; b < out_blocks; b += Q) {
            int first_group = b * V / og, last_group = (min((b + Q) * V, o) - 1) / og;
            int c0 = first_group * cg / V, c1 = ((last_group + 1) * cg + V - 1) / V;
            int tail = c1 == in_blocks ? last : V;
            __global float *yp = y + ((long)n0 * out_blocks + b) * plane;

            if (from_plain) {
                c0 = 0;
                c1 = 1;
            }
            for (int t = 0; t < pixels; t += P)
                tile(xp + c0 * step, in_at + t, packed + (long)(b / Q) * weight_step, bias + b * V,
                     yp, out_at + t, pixels - t, out_blocks - b, plane, c1 - c0, step, taps_h,
                     (long)tsh * columns * cp, merged ? 1 : taps_w, (long)tsw * cp,
                     merged ? taps_w * cp : V, merged ? taps_w * cp : tail,
                     (left_out){0, 0, 0, 0}, act);
        }
    }
}

/* A unit is some samples and a piece of the blocks of outputs. Samples are `sample_step` apart
 * in the strip. That is not a multiple of a page, or a tile's P lines would share a set of the
 * cache. */
__kernel YKI_GROUP(1, 1) void
yki_conv_stacked(__global const float *x, __global const float *weight, __global float *y,
                 __global float *strips, __global int *tables, int samples, int weight_at,
                 int unit_samples, int pieces, int c, int h, int w, int o, int oh, int ow, int gh,
                 int gw, int ish, int isw, int taps_h, int taps_w, int tsh, int tsw, int bh, int bw,
                 int osh, int osw, int oah, int oaw, int groups, int from_plain, int sample_step,
                 int strip_size, int table_size, int weight_step, int act)
{
    int group = get_group_id(0), work_groups = get_num_groups(0);
    int cp = from_plain ? c : V, packed_some = -1;
    int in_blocks = from_plain ? 1 : (c + V - 1) / V, out_blocks = (o + V - 1) / V;
    int out_groups = (out_blocks + Q - 1) / Q;
    int units = (samples + unit_samples - 1) / unit_samples * pieces;
    int merged = tsw == 1 && (from_plain || (SUBS == 1 && c % V == 0));
    int last = from_plain ? c : c - (in_blocks - 1) * V;
    int cg = c / groups, og = o / groups;
    long plane = (long)oh * ow * V, step = (long)h * w * cp;
    __global float *strip = strips + (long)group * strip_size;
    __global int *in_at = tables + (long)group * table_size * 2, *out_at = in_at + table_size;
    __global const float *packed = weight + weight_at;
    __global const float *bias = packed + (long)out_groups * weight_step;

    for (int unit = (int)((long)units * group / work_groups);
         unit < (int)((long)units * (group + 1) / work_groups); unit++) {
        int some = unit / pieces, piece = unit - some * pieces;
        int n0 = some * unit_samples, ns = min(unit_samples, samples - n0);
        int end_group = (int)((long)out_groups * (piece + 1) / pieces);

        if (some != packed_some) {
            for (int s = 0; s < ns; s++) {
                pack_strip(x, strip + (long)s * sample_step, n0 + s, 1, in_blocks, h, w, cp,
                           from_plain, 0, h, 0, w);
                in_at[s] = s * sample_step;
                out_at[s] = (int)(s * out_blocks * plane);
            }
            for (int s = ns; s % P; s++) {
                in_at[s] = in_at[ns - 1];
                out_at[s] = 0;
            }
            packed_some = some;
        }
        for (int b = (int)((long)out_groups * piece / pieces) * Q; b < end_group * Q; b += Q) {
            int first_group = b * V / og, last_group = (min((b + Q) * V, o) - 1) / og;
            int c0 = from_plain ? 0 : first_group * cg / V;
            int c1 = from_plain ? 1 : ((last_group + 1) * cg + V - 1) / V;
            int tail = c1 == in_blocks ? last : V;
            __global float *yp = y + ((long)n0 * out_blocks + b) * plane;

            for (int i = 0; i < gh; i++)
                for (int j = 0; j < gw; j++) {
                    int top = i * ish + bh, left = j * isw + bw;
                    int r0 = YKI_FIRST_TAP(top, tsh), r1 = YKI_END_TAP(top, tsh, h, taps_h);
                    int s0 = YKI_FIRST_TAP(left, tsw), s1 = YKI_END_TAP(left, tsw, w, taps_w);
                    int rn = s1 > s0 ? max(r1 - r0, 0) : 0, sn = max(s1 - s0, 0);
                    left_out out = {r0 * taps_w + s0, taps_w - sn,
                                    (taps_h - rn) * taps_w - r0 * taps_w - s0, merged ? cp : 0};
                    __global const float *xp =
                        strip + c0 * step +
                        (rn ? ((long)(top + r0 * tsh) * w + left + s0 * tsw) * cp : 0);
                    __global float *to = yp + ((long)(i * osh + oah) * ow + j * osw + oaw) * V;

                    for (int t = 0; t < ns; t += P)
                        tile(xp, in_at + t, packed + (long)(b / Q) * weight_step, bias + b * V, to,
                             out_at + t, ns - t, out_blocks - b, plane, rn ? c1 - c0 : 0, step, rn,
                             (long)tsh * w * cp, merged ? 1 : sn, (long)tsw * cp,
                             merged ? sn * cp : V, merged ? sn * cp : tail, out, act);
                }
        }
    }
}

/* Writes the bias where no tap reaches y. Bit r of `rows` says that taps reach rows r, r + sh,
 * ..., and `columns` likewise. Whole rows are written in one go. */
__kernel YKI_GROUP(1, 1) void
yki_conv_blocked_rest(__global const float *weight, __global float *y, int samples, int bias_at,
                      int o, int oh, int ow, int sh, int sw, int rows, int columns, int act)
{
    long group = get_group_id(0), groups = get_num_groups(0);
    int out_blocks = (o + V - 1) / V;
    long lines = (long)samples * out_blocks * oh;

    for (long line = lines * group / groups; line < lines * (group + 1) / groups; line++) {
        long plane = line / oh, n = plane / out_blocks;
        int row = (int)(line - plane * oh);
        floatv value = loadv(0, weight + bias_at + (plane - n * out_blocks) * V);
        __global float *to = y + line * ow * V;

        if (act == 1)
            value = select(value, (floatv)(0.f), value <= 0.f);
        if (!(rows >> (row - row / sh * sh) & 1)) {
            for (int i = 0; i < ow; i++)
                storev(value, i, to);
            continue;
        }
        for (int r = 0; r < sw; r++)
            for (int i = columns >> r & 1 ? ow : r; i < ow; i += sw)
                storev(value, i, to);
    }
}

/* Packs a weight (o, cg, kh, kw) and a bias for the kernels above. Outputs are rows of the
 * weight or, if transposed, its channels. Tap r of the grid is row kh0 + r * khs of the weight.
 * A group packs whole vectors of outputs. */
__kernel YKI_GROUP(1, 1) void
yki_conv_blocked_pack(__global const float *weight, __global const float *bias,
                      __global float *packed, int weight_at, int c, int o, int groups, int transposed, int kh,
                      int kw, int taps_h, int taps_w, int kh0, int khs, int kw0, int kws,
                      int from_plain, int weight_step, int has_bias)
{
    int group = get_group_id(0), work_groups = get_num_groups(0);
    int out_groups = (o + Q * V - 1) / (Q * V), cg = c / groups, og = o / groups;
    int in_blocks = from_plain ? 1 : (c + V - 1) / V, width = from_plain ? c : V;
    long area = (long)kh * kw, jobs = (long)out_groups * in_blocks;

    for (long job = jobs * group / work_groups; job < jobs * (group + 1) / work_groups; job++) {
        int b = (int)(job / in_blocks), block = (int)(job - (long)b * in_blocks);
        int o0 = b * Q * V, o1 = min(o0 + Q * V, o);
        int first_group = o0 / og, last_group = (o1 - 1) / og;
        int c0 = from_plain ? 0 : first_group * cg / V;
        int c1 = from_plain ? 1 : ((last_group + 1) * cg + V - 1) / V;
        int length = min(width, c - block * width);
        /* The blocks that are packed together for each tap, and their channels. */
        int first = (block - c0) / SUBS * SUBS, wide = min(SUBS * width, c - (c0 + first) * width);
        __global float *to = packed + weight_at + (long)b * weight_step +
                             ((long)first * taps_h * taps_w + block - c0 - first) * V * Q * V;

        if (block < c0 || block >= c1)
            continue;
        for (int r = 0; r < taps_h; r++)
            for (int s = 0; s < taps_w; s++, to += (wide - length) * Q * V) {
                long tap = (long)(kh0 + r * khs) * kw + kw0 + s * kws;

                for (int i = 0; i < length; i++, to += Q * V) {
                    int ci = block * width + i, g = ci / cg;
                    /* The outputs of this input's group; the others do not use the input. */
                    int begin = max(o0, g * og), end = min(o1, (g + 1) * og);
                    long at = transposed ? ((long)ci * og - (long)g * og) * area + tap
                                         : (long)(ci - g * cg) * area + tap;
                    long step = transposed ? area : (long)cg * area;

                    for (int k = 0; k < Q * V; k++)
                        to[k] = o0 + k >= begin && o0 + k < end
                                    ? weight[at + (long)(o0 + k) * step]
                                    : 0.f;
                }
            }
    }
    if (group == 0)
        for (int i = 0; i < out_groups * Q * V; i++)
            packed[weight_at + (long)out_groups * weight_step + i] = has_bias && i < o ? bias[i] : 0.f;
}

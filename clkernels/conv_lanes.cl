/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_lanes.cl - convolutions for CPUs with one sample in each lane: forward, the
 * gradient of the input with other arguments, and the gradient of the weights. Tensors
 * are plain or blocked.
 *
 * Where channels are the lanes (conv_blocked.cl), 20 of them cost as much as 32. Here
 * no channel is added: a unit is V samples, transposed so that lanes are samples, in a
 * strip of the group's own scratch memory: [C][H][columns][V], with columns of zeros
 * left and right. A tile is R channels by X positions of a row, each a vector. A step
 * multiplies X vectors of x by R single weights. Taps above and below x are left out,
 * and so are taps beside x that no position of the tile needs.
 *
 * The kernel computes, for the positions (i, j) of GH x GW, as in conv_blocked.cl:
 *
 *   y[i][j] = bias + sum over channels and taps (r, s) of
 *       x[i * ISH + r * TSH + BH][j * ISW + s * TSW + BW] * weight
 *
 * Packed weights: [O / R][C][taps h][taps w][R], then the bias. In canonical plans channels are
 * summed CHANNELS at a time for each tap: [O / R][C / CHANNELS][taps h][taps w][CHANNELS][R].
 *
 * V: lanes; R, X: the tile; ISW. For the weights' gradient, X counts taps of a row
 * instead.
 */
#ifndef V
#define V 16
#endif
#ifndef R
#define R 4
#endif
#ifndef X
#define X 6
#endif
#ifndef ISW
#define ISW 1
#endif

#define CHANNELS (YKI_CANONICAL ? YKI_CANONICAL_CHANNELS : 1)

#define floatv YKI_PASTE(float, V)
#define loadv YKI_PASTE(vload, V)
#define storev YKI_PASTE(yki_store, V)

#define UP_TO_1(F) F(0)
#define UP_TO_2(F) UP_TO_1(F) F(1)
#define UP_TO_3(F) UP_TO_2(F) F(2)
#define UP_TO_4(F) UP_TO_3(F) F(3)
#define UP_TO_5(F) UP_TO_4(F) F(4)
#define UP_TO_6(F) UP_TO_5(F) F(5)
#define UP_TO_7(F) UP_TO_6(F) F(6)
#define UP_TO_8(F) UP_TO_7(F) F(7)
/* The same macros again, because a macro is not expanded inside itself. */
#define BY_1(F, i) F(i, 0)
#define BY_2(F, i) BY_1(F, i) F(i, 1)
#define BY_3(F, i) BY_2(F, i) F(i, 2)
#define BY_4(F, i) BY_3(F, i) F(i, 3)
#define BY_5(F, i) BY_4(F, i) F(i, 4)
#define BY_6(F, i) BY_5(F, i) F(i, 5)
#define BY_7(F, i) BY_6(F, i) F(i, 6)
#define BY_8(F, i) BY_7(F, i) F(i, 7)
#define EACH_ROW    YKI_PASTE(UP_TO_, R)
#define EACH_COLUMN YKI_PASTE(UP_TO_, X)
#define BY_COLUMN   YKI_PASTE(BY_, X)

#define LANES      YKI_PASTE(YKI_LANES, V)

/* An element of V samples. Where there are fewer, the last sample is repeated, or 0 is used. */
#define TAKE(name, l)      x.s##name = from[(l)*sample];
#define TAKE_SOME(name, l) x.s##name = l <= last ? from[(l)*sample] : zero ? 0.f : from[last * sample];

/* The offset of channel c in a sample, whose planes have `area` positions, in blocks of `block`. */
long channel_at(int c, long area, int block)
{
    int whole = c / block;

    return whole * area * block + c - whole * block;
}

/* The floats of a sample. */
long sample_of(int c, long area, int block)
{
    return (c + block - 1) / block * block * area;
}

YKI_DEFINE_TRANSPOSE(turn_vectors, V)

/* Transposes V samples of a plain channel, V positions at a time; the last ones perhaps twice. */
void turn_plane(__global const float *x, long sample, int h, int w, __global float *strip, int columns)
{
    int area = h * w;
    floatv r[V];

    for (int next = 0; next < area; next += V) {
        int at = min(next, area - V), line = at / w, j = at - line * w;

        for (int l = 0; l < V; l++)
            r[l] = loadv(0, x + l * sample + at);
        turn_vectors(r);
        for (int i = 0; i < V; i++, j++) {
            if (j == w) {
                j = 0;
                line++;
            }
            storev(r[i], line * columns + j, strip);
        }
    }
}

/* Transposes V samples of the first `count` channels of a block of V. */
void turn_block(__global const float *x, long sample, int count, int h, int w, __global float *strip,
                int columns)
{
    floatv r[V];

    for (int line = 0; line < h; line++)
        for (int j = 0; j < w; j++, x += V) {
            for (int l = 0; l < V; l++)
                r[l] = loadv(0, x + l * sample);
            turn_vectors(r);
            for (int i = 0; i < V; i++)
                if (i < count)
                    storev(r[i], (i * h + line) * columns + j, strip);
        }
}

/* Writes strip[c][h][columns][V], from column `left` on, of `last` + 1 samples. It goes element
 * by element where V by V is not possible. */
void turn(__global const float *x, int last, int zero, int c, int h, int w, int block,
          __global float *strip, int left, int columns)
{
    long sample = sample_of(c, (long)h * w, block);

    for (int c0 = 0; c0 < c; c0 += block) {
        __global const float *whole = x + (long)c0 * h * w;
        __global float *begin = strip + ((long)c0 * h * columns + left) * V;

        if (last == V - 1 && block == V) {
            turn_block(whole, sample, min(V, c - c0), h, w, begin, columns);
            continue;
        }
        if (last == V - 1 && block == 1 && h * w >= V) {
            turn_plane(whole, sample, h, w, begin, columns);
            continue;
        }
        for (int line = 0; line < h; line++)
            for (int j = 0; j < w; j++) {
                __global const float *from = whole + ((long)line * w + j) * block;
                __global float *to = begin + ((long)line * columns + j) * V;
                floatv x;

                for (int k = 0; k < min(block, c - c0); k++, from++, to += (long)h * columns * V) {
                    if (last == V - 1) {
                        LANES(TAKE)
                    } else {
                        LANES(TAKE_SOME)
                    }
                    storev(x, 0, to);
                }
            }
    }
}

/* The columns beside x stay zero from the first unit on. */
void clear_sides(__global float *strip, int lines, int columns, int left, int w)
{
    for (int line = 0; line < lines; line++)
        for (int j = 0; j < columns; j++)
            if (j < left || j >= left + w)
                storev((floatv)(0.f), (long)line * columns + j, strip);
}

/* Clears the channels that only a block has. */
void clear_padding(__global float *y, int last, int o, long plane, int block, long sample)
{
    for (int l = 0; l <= last; l++)
        for (int c = o; c % block; c++)
            for (long at = 0; at < plane; at++)
                y[l * sample + channel_at(c, plane, block) + at * block] = 0.f;
}

/* In canonical plans the bias comes last, as in conv_gemm.cl. */
#if YKI_CANONICAL
#define START(i, j)   floatv a##i##_##j = (floatv)(0.f);
#else
#define START(i, j)   floatv a##i##_##j = (floatv)(bias[i]);
#endif
#define BIAS(i, j)    a##i##_##j += (floatv)(bias[i]);
#define BIAS_ROW(i)   BY_COLUMN(BIAS, i)
#define START_ROW(i)  BY_COLUMN(START, i)
#define LOAD_X(j)     floatv x##j = loadv(j * ISW, x);
#define STEP(i, j)    a##i##_##j = YKI_FMA((floatv)(w[i]), x##j, a##i##_##j);
#define STEP_ROW(i)   BY_COLUMN(STEP, i)
#define ACT(i, j)     a##i##_##j = select(a##i##_##j, (floatv)(0.f), a##i##_##j <= 0.f);
#define ACT_ROW(i)    BY_COLUMN(ACT, i)
#define SCATTER(name, l) to[(l)*sample] = value.s##name;
#define SCATTER_SOME(name, l) if (l <= last) to[(l)*sample] = value.s##name;
#define STORE(i, j)                                                                           \
    if (i < rows && j < count)                                                                \
        scatter(a##i##_##j, y + channel_at(o0 + i, plane, block) + j * block, sample, last);
#define STORE_ROW(i)  BY_COLUMN(STORE, i)

void scatter(floatv value, __global float *to, long sample, int last)
{
    if (last == V - 1) {
        LANES(SCATTER)
    } else {
        LANES(SCATTER_SOME)
    }
}

/* Computes R channels by X positions. xp is at the first tap of the first position, which is tap
 * `first` of the weights. Channels of x are `channel` apart, rows of taps `line`, taps `tap`, all
 * counted in vectors; those of the weights are `channel_w` and `line_w` apart. */
void tile(__global const float *xp, __global const float *wp, __global const float *bias, int c,
          int first, int taps_h, int taps_w, int channel, int line, int tap, int channel_w, int line_w,
          int o0, int rows, int count, __global float *y, long plane, int block, long sample,
          int last, int act)
{
    EACH_ROW(START_ROW)

#if YKI_CANONICAL
    for (int c0 = 0; c0 < c; c0 += CHANNELS) {
        int channels = min(CHANNELS, c - c0);

        for (int r = 0; r < taps_h; r++)
            for (int s = 0; s < taps_w; s++) {
                __global const float *x = xp + ((long)c0 * channel + (long)r * line + s * tap) * V;
                __global const float *w =
                    wp + ((long)c0 * channel_w + (first + r * line_w + s) * channels) * R;

                for (int ci = 0; ci < channels; ci++, x += (long)channel * V, w += R) {
                    EACH_COLUMN(LOAD_X)
                    EACH_ROW(STEP_ROW)
                }
            }
    }
    EACH_ROW(BIAS_ROW)
#else
    for (int ci = 0; ci < c; ci++)
        for (int r = 0; r < taps_h; r++) {
            __global const float *x = xp + ((long)ci * channel + (long)r * line) * V;
            __global const float *w = wp + ((long)ci * channel_w + first + r * line_w) * R;

            for (int s = 0; s < taps_w; s++, x += tap * V, w += R) {
                EACH_COLUMN(LOAD_X)
                EACH_ROW(STEP_ROW)
            }
        }
#endif
    if (act == 1) {
        EACH_ROW(ACT_ROW)
    }
    EACH_ROW(STORE_ROW)
}

__kernel YKI_GROUP(1, 1) void
yki_conv_lanes(__global const float *x, __global const float *packed, __global float *y,
               __global float *strips, int samples, int c, int h, int w, int o, int gh, int gw,
               int ish, int taps_h, int taps_w, int tsh, int tsw, int bh, int bw, int left,
               int columns, int strip_size, int pieces, int x_block, int y_block, int act)
{
    int group = get_group_id(0), groups = get_num_groups(0), have = -1;
    int blocks = (o + R - 1) / R, units = (samples + V - 1) / V * pieces;
    int line_w = taps_w, channel_w = taps_h * taps_w, channel = h * columns;
    __global float *strip = strips + (long)group * strip_size;
    __global const float *bias = packed + (long)blocks * c * channel_w * R;
    long plane = (long)gh * gw, sample = sample_of(o, plane, y_block);

    clear_sides(strip, c * h, columns, left, w);
    for (int unit = (int)((long)units * group / groups);
         unit < (int)((long)units * (group + 1) / groups); unit++) {
        int some = unit / pieces, piece = unit - some * pieces, n0 = some * V;
        int last = min(V, samples - n0) - 1;

        if (some != have)
            turn(x + n0 * sample_of(c, (long)h * w, x_block), last, 0, c, h, w, x_block, strip,
                 left, columns);
        have = some;
        if (piece == 0)
            clear_padding(y + n0 * sample, last, o, plane, y_block, sample);
        for (int b = (int)((long)blocks * piece / pieces);
             b < (int)((long)blocks * (piece + 1) / pieces); b++)
            for (int i = 0; i < gh; i++) {
                int top = i * ish + bh;
                int r0 = YKI_FIRST_TAP(top, tsh), r1 = YKI_END_TAP(top, tsh, h, taps_h);

                for (int j = 0; j < gw; j += X) {
                    int count = min(X, gw - j), first = j * ISW + bw;
                    int s0 = YKI_FIRST_TAP(first + (count - 1) * ISW, tsw);
                    int s1 = YKI_END_TAP(first, tsw, w, taps_w);

                    tile(strip + ((long)(top + r0 * tsh) * columns + first + s0 * tsw + left) * V,
                         packed + (long)b * c * channel_w * R, bias + b * R, c, r0 * line_w + s0,
                         max(r1 - r0, 0), max(s1 - s0, 0), channel, tsh * columns, tsw,
                         channel_w, line_w, b * R, o - b * R, count,
                         y + n0 * sample + ((long)i * gw + j) * y_block, plane, y_block, sample,
                         last, act);
                }
            }
    }
}

/* Packs the weights. Outputs are rows of the weight (o, c, kh, kw) or, if transposed, its
 * channels (c, o, kh, kw). Tap t of the grid is kernel_at + t * kernel_step of the weight. */
__kernel YKI_GROUP(1, 1) void
yki_conv_lanes_pack(__global const float *weight, __global const float *bias,
                    __global float *packed, int c, int o, int transposed, int kh, int kw,
                    int taps_h, int taps_w, int kh0, int khs, int kw0, int kws, int has_bias)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    int blocks = (o + R - 1) / R, area = kh * kw;
    long jobs = (long)blocks * c;

    for (long job = jobs * group / groups; job < jobs * (group + 1) / groups; job++) {
        int b = (int)(job / c), ci = (int)(job - (long)b * c), c0 = ci / CHANNELS * CHANNELS;
        int others = min(CHANNELS, c - c0) - 1; /* channels that lie beside this one */
        __global float *to = packed + ((job - ci + c0) * taps_h * taps_w + ci - c0) * R;

        for (int r = 0; r < taps_h; r++)
            for (int s = 0; s < taps_w; s++, to += others * R)
                for (int i = 0; i < R; i++, to++) {
                    int oi = b * R + i, tap = (kh0 + r * khs) * kw + kw0 + s * kws;
                    long at = transposed ? (long)ci * o + oi : (long)oi * c + ci;

                    *to = oi < o ? weight[at * area + tap] : 0.f;
                }
    }
    if (group == 0)
        for (int i = 0; i < blocks * R; i++)
            packed[jobs * taps_h * taps_w * R + i] = has_bias && i < o ? bias[i] : 0.f;
}

/* ---- the gradient of the weights ---- */

#define SUM_START(i, j)  floatv a##i##_##j = 0.f;
#define SUM_START_ROW(i) BY_COLUMN(SUM_START, i)
#define SUM_LOAD_X(j)    floatv x##j = loadv(j * tap, xr);
#define SUM_STEP(i, j)   a##i##_##j = YKI_FMA(d##i, x##j, a##i##_##j);
#define SUM_STEP_ROW(i)                                                                       \
    floatv d##i = loadv(0, dr + (i < rows ? i : rows - 1) * plane);                           \
    BY_COLUMN(SUM_STEP, i)
#define SUM_STORE(i, j)                                                                       \
    if (i < rows)                                                                             \
        storev(first ? a##i##_##j : a##i##_##j + loadv(j, sums + i * sums_row), j,            \
               sums + i * sums_row);
#define SUM_STORE_ROW(i) BY_COLUMN(SUM_STORE, i)

/* Sums R channels of dy by X taps of a row, over lines of `width` positions. */
void sum_tile(__global const float *xp, __global const float *dp, int lines, int width, long line,
              int step, int tap, long plane, int rows, __global float *sums, long sums_row,
              int first)
{
    EACH_ROW(SUM_START_ROW)

    for (int i = 0; i < lines; i++) {
        __global const float *xr = xp + i * line, *dr = dp + (long)i * width * V;

        for (int j = 0; j < width; j++, xr += step * V, dr += V) {
            EACH_COLUMN(SUM_LOAD_X)
            EACH_ROW(SUM_STEP_ROW)
        }
    }
    EACH_ROW(SUM_STORE_ROW)
}

/* Adds the lanes of a vector, one half to the other each time. */
float sum_lanes(floatv v)
{
    float lanes[V];

    storev(v, 0, lanes);
#pragma unroll
    for (int step = V / 2; step > 0; step /= 2)
#pragma unroll
        for (int l = 0; l < step; l++)
            lanes[l] += lanes[l + step];
    return lanes[0];
}

/* Writes part[split] (o, c, kh, kw), summed over the split's units. The scratch memory of a
 * group has a strip of x, one of dy, and sums [o][c][kh][taps, a multiple of X][V]. */
__kernel YKI_GROUP(1, 1) void
yki_conv_lanes_grad_weight(__global const float *x, __global const float *dy,
                           __global float *part, __global float *scratch, int samples, int c, int h,
                           int w, int o, int oh, int ow, int kh, int kw, int sh, int sw, int ph,
                           int pw, int dh, int dw, int columns, int x_size, int dy_size,
                           int scratch_size, int x_block, int dy_block)
{
    int split = get_group_id(0), splits = get_num_groups(0);
    int units = (samples + V - 1) / V, taps_w = (kw + X - 1) / X * X;
    int begin = (int)((long)units * split / splits), end = (int)((long)units * (split + 1) / splits);
    __global float *xs = scratch + (long)split * scratch_size, *ds = xs + x_size;
    __global float *sums = ds + dy_size, *to = part + (long)split * o * c * kh * kw;
    long plane = (long)oh * ow * V, sums_row = (long)c * kh * taps_w * V;

    clear_sides(xs, c * h, columns, pw, w);
    for (int unit = begin; unit < end; unit++) {
        int n0 = unit * V, last = min(V, samples - n0) - 1;

        turn(x + n0 * sample_of(c, (long)h * w, x_block), last, 0, c, h, w, x_block, xs, pw,
             columns);
        turn(dy + n0 * sample_of(o, (long)oh * ow, dy_block), last, 1, o, oh, ow, dy_block, ds, 0,
             ow);
        for (int b = 0; b < o; b += R)
            for (int ci = 0; ci < c; ci++)
                for (int r = 0; r < kh; r++) {
                    /* The lines of dy for which the row of taps lies inside x. */
                    int i0 = YKI_FIRST_TAP(r * dh - ph, sh), i1 = YKI_END_TAP(r * dh - ph, sh, h, oh);

                    for (int s = 0; s < taps_w; s += X)
                        sum_tile(xs + (((long)ci * h + i0 * sh + r * dh - ph) * columns + s * dw) * V,
                                 ds + b * plane + (long)i0 * ow * V, max(i1 - i0, 0), ow,
                                 (long)sh * columns * V, sw, dw, plane, min(R, o - b),
                                 sums + b * sums_row + (((long)ci * kh + r) * taps_w + s) * V,
                                 sums_row, unit == begin);
                }
    }
    for (int row = 0; row < o * c * kh; row++)
        for (int s = 0; s < kw; s++)
            *to++ = begin < end ? sum_lanes(loadv((long)row * taps_w + s, sums)) : 0.f;
}

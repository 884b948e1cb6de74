/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_pooled.cl - a convolution of few channels with its bias, relu, and the maximum or mean of each
 * 2 x 2 results; and the gradients of its weights and bias. For CPUs.
 *
 * A first layer makes images that are much larger than what goes in and what leaves the pooling. Here
 * they are never in memory: backward computes them again, which takes less time than to read them.
 *
 * A unit of work is a row of windows of one sample. Its input is copied with its padding into the
 * group's scratch memory: [c][rows][columns]. A tile is W windows, so 4 W pixels of the convolution,
 * by two blocks of V channels. Terms are added in the order of conv_blocked.cl, with the same bits.
 *
 * Scratch of a group: weights [pair of blocks][taps][2 V], each followed by 2 V of bias; the strip;
 * a line [4 windows' pixels][2 V]; and for gradients sums like the weights. A table has the place of
 * each tap in the strip.
 *
 * V: lanes. Results and their gradients are in blocks of V, or plain if BLOCK is 1.
 */
#ifndef V
#define V 16
#endif
#ifndef BLOCK
#define BLOCK V
#endif

#define floatv YKI_PASTE(float, V)
#define intv YKI_PASTE(int, V)
#define loadv YKI_PASTE(vload, V)
#define storev YKI_PASTE(yki_store, V)

/* W: windows of a tile. T: taps of a tile of the weights' gradient. For 32 registers or 16. */
#define UP_TO_4(F) F(0) F(1) F(2) F(3)
#if V == 16
#define W 2
#define T 9
#define EACH_PIXEL(F) UP_TO_4(F) F(4) F(5) F(6) F(7)
#define EACH_TAP(F) UP_TO_4(F) F(4) F(5) F(6) F(7) F(8)
#else
#define W 1
#define T 4
#define EACH_PIXEL UP_TO_4
#define EACH_TAP UP_TO_4
#endif

/* Pixels stay in registers between the convolution and what is made of them. */
#define ALWAYS_INLINE __attribute__((always_inline))

/* True where b replaces a, the maximum so far; a NaN is a maximum. */
#define EXCEEDS(b, a) (((b) > (a)) | ((b) != (b)))

/* A layer: x (c, h, w), results (o, oh, ow) of the pooling. `rows` and `columns` are those of a strip,
 * `down` and `right` the steps between neighbouring pixels of the convolution in it. */
typedef struct layer {
    int c, h, w, o, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw;
    int taps, pairs, rows, columns, down, right;
} layer;

layer
layer_of(int c, int h, int w, int o, int oh, int ow, int kh, int kw, int sh, int sw, int ph, int pw,
         int dh, int dw)
{
    layer q = {c, h, w, o, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw};

    q.taps = c * kh * kw;
    q.pairs = (o + 2 * V - 1) / (2 * V);
    q.rows = sh + (kh - 1) * dh + 1;
    q.columns = (2 * ow - 1) * sw + (kw - 1) * dw + 1;
    q.down = sh * q.columns;
    q.right = sw;
    return q;
}

/* Taps are in the order (row, column, channel). */
void
pack(layer q, __global const float *weight, __global const float *bias, int has_bias,
     __global float *packed, __global int *at)
{
    for (int r = 0, k = 0; r < q.kh; r++)
        for (int s = 0; s < q.kw; s++)
            for (int ci = 0; ci < q.c; ci++, k++)
                at[k] = (ci * q.rows + r * q.dh) * q.columns + s * q.dw;
    for (int i = 0; i < q.pairs * 2 * V; i++) {
        int pair = i / (2 * V);
        __global float *to = packed + pair * (q.taps + 1) * 2 * V + i - pair * 2 * V;

        for (int k = 0; k < q.taps; k++) {
            int tap = k / q.c, ci = k - tap * q.c;

            to[k * 2 * V] = i < q.o ? weight[(i * q.c + ci) * q.kh * q.kw + tap] : 0.f;
        }
        to[q.taps * 2 * V] = has_bias && i < q.o ? bias[i] : 0.f;
    }
}

/* Copies the rows that a row of windows reads. x: the sample. */
void
copy_rows(layer q, __global const float *x, int oy, __global float *strip)
{
    int left = clamp(q.pw, 0, q.columns), right = clamp(q.w + q.pw, left, q.columns);

    for (int ci = 0; ci < q.c; ci++)
        for (int r = 0; r < q.rows; r++, strip += q.columns) {
            int y = 2 * oy * q.sh - q.ph + r, inside = y >= 0 && y < q.h;
            int begin = inside ? left : q.columns, end = inside ? right : q.columns;
            __global const float *from = x + ((long)ci * q.h + y) * q.w - q.pw;

            for (int i = 0; i < begin; i++)
                strip[i] = 0.f;
            for (int i = begin; i < end; i++)
                strip[i] = from[i];
            for (int i = end; i < q.columns; i++)
                strip[i] = 0.f;
        }
}

#define START(i) floatv a##i##_0 = b0, a##i##_1 = b1;
#define POINT(i)                                                                              \
    __global const float *x##i = x + (i / 4 * 2 + i % 2) * q.right + i / 2 % 2 * q.down;
#define STEP(i)                                                                               \
    a##i##_0 = YKI_FMA((floatv)(x##i[j]), w0, a##i##_0);                                      \
    a##i##_1 = YKI_FMA((floatv)(x##i[j]), w1, a##i##_1);
#define KEEP(i)                                                                               \
    r[2 * i] = a##i##_0;                                                                      \
    r[2 * i + 1] = a##i##_1;

/* The convolution of W windows: r[window][row][column][block]. x: where the first one begins. */
ALWAYS_INLINE void
convolve(layer q, __global const float *x, __global const int *at, __global const float *w,
         floatv *r)
{
    __global const float *bias = w + q.taps * 2 * V;
    floatv b0 = loadv(0, bias), b1 = loadv(1, bias);
    EACH_PIXEL(START)
    EACH_PIXEL(POINT)

    for (int k = 0; k < q.taps; k++, w += 2 * V) {
        int j = at[k];
        floatv w0 = loadv(0, w), w1 = loadv(1, w);

        EACH_PIXEL(STEP)
    }
    EACH_PIXEL(KEEP)
}

/* Where channel i of a row of results begins; its elements are BLOCK floats apart. */
long
result_at(layer q, long n, int oy, int i)
{
    int blocks = (q.o + BLOCK - 1) / BLOCK, b = i / BLOCK;

    return ((n * blocks + b) * q.oh + oy) * q.ow * BLOCK + i - b * BLOCK;
}

/* Plain rows and lines are turned in squares of 8 windows by V channels. Simulators cannot run the
 * shuffles of that (docs/drivers.md). */
#if BLOCK == 1 && V > 4 && !defined YKI_LANES_APART
#define TURNS
YKI_DEFINE_TURN(to_rows, 8, V, V)
YKI_DEFINE_TURN(to_lines, 8, V, 8)
#if V == 16
#define ROW(r, i)            ((i) % 2 ? (r)[(i) / 2].hi : (r)[(i) / 2].lo)
#define SET_ROW(r, i, value)                                                                  \
    if ((i) % 2)                                                                              \
        (r)[(i) / 2].hi = value;                                                              \
    else                                                                                      \
        (r)[(i) / 2].lo = value;
#else
#define ROW(r, i)            ((r)[i])
#define SET_ROW(r, i, value) (r)[i] = value;
#endif
#endif

/* Moves a row of results, or of their gradients, between memory and a line [ow][2 V]. */
void
store_line(layer q, __global const float *line, long n, int oy, int pair, __global float *y)
{
    int end = min((q.o + BLOCK - 1) / BLOCK * BLOCK, (pair + 1) * 2 * V), begin = pair * 2 * V;

#ifdef TURNS
    for (; q.ow >= 8 && begin + V <= end; begin += V, line += V)
        for (int t = 0; t < q.ow; t += 8) {
            int x = min(t, q.ow - 8);
            floatv r[8];

#pragma unroll
            for (int i = 0; i < 8; i++)
                r[i] = loadv(2 * (x + i), line);
            to_rows(r);
#pragma unroll
            for (int i = 0; i < V; i++)
                yki_store8(ROW(r, i), 0, y + result_at(q, n, oy, begin + i) + x);
        }
#endif
    for (int i = begin; i < end; i += BLOCK, line += BLOCK) {
        __global float *to = y + result_at(q, n, oy, i);

#if BLOCK == 1
        for (int x = 0; x < q.ow; x++)
            to[x] = line[x * 2 * V];
#else
        for (int x = 0; x < q.ow; x++)
            storev(loadv(2 * x, line), x, to);
#endif
    }
}

void
load_line(layer q, __global const float *dy, long n, int oy, int pair, __global float *line)
{
    int begin = pair * 2 * V;

#ifdef TURNS
    for (; q.ow >= 8 && begin + V <= min(q.o, (pair + 1) * 2 * V); begin += V, line += V)
        for (int t = 0; t < q.ow; t += 8) {
            int x = min(t, q.ow - 8);
            floatv r[8];

#pragma unroll
            for (int i = 0; i < V; i++) {
                SET_ROW(r, i, vload8(0, dy + result_at(q, n, oy, begin + i) + x))
            }
            to_lines(r);
#pragma unroll
            for (int i = 0; i < 8; i++)
                storev(r[i], 2 * (x + i), line);
        }
#endif
    for (int i = begin; i < (pair + 1) * 2 * V; i += BLOCK, line += BLOCK) {
        __global const float *from = dy + result_at(q, n, oy, min(i, q.o - 1) / BLOCK * BLOCK);

#if BLOCK == 1
        for (int x = 0; x < q.ow; x++)
            line[x * 2 * V] = i < q.o ? from[x] : 0.f;
#else
        for (int x = 0; x < q.ow; x++)
            storev(loadv(x, from), 2 * x, line);
#endif
    }
}

floatv
larger(floatv a, floatv b)
{
    return select(a, b, EXCEEDS(b, a));
}

/* What becomes of a window: four pixels p, 2 vectors apart. Relu may come behind the maximum. */
ALWAYS_INLINE floatv
pooled(const floatv *p, int is_max, int act)
{
    const floatv zero = 0.f;
    floatv sum = zero, best = p[0];

    if (is_max) {
#pragma unroll
        for (int i = 2; i < 8; i += 2)
            best = larger(best, p[i]);
        return act ? select(best, zero, best <= 0.f) : best;
    }
#pragma unroll
    for (int i = 0; i < 8; i += 2)
        sum += act ? select(p[i], zero, p[i] <= 0.f) : p[i];
    return sum * .25f;
}

/* x (N, c, h, w), weight (o, c, kh, kw), bias -> y (N, o/BLOCK, oh, ow, BLOCK). */
__kernel YKI_GROUP(1, 1) void
yki_conv_pooled(__global const float *x, __global const float *weight, __global const float *bias,
                __global float *y, __global float *scratch, __global int *tables, int samples, int c,
                int h, int w, int o, int oh, int ow, int kh, int kw, int sh, int sw, int ph, int pw,
                int dh, int dw, int is_max, int act, int has_bias, int line_at, int scratch_step)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    layer q = layer_of(c, h, w, o, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw);
    __global float *packed = scratch + (long)group * scratch_step;
    __global float *strip = packed + q.pairs * (q.taps + 1) * 2 * V, *line = packed + line_at;
    __global int *at = tables + group * q.taps;
    long units = (long)samples * oh;

    pack(q, weight, bias, has_bias, packed, at);
    for (long unit = units * group / groups; unit < units * (group + 1) / groups; unit++) {
        long n = unit / oh;
        int oy = (int)(unit - n * oh);

        copy_rows(q, x + n * c * h * w, oy, strip);
        for (int pair = 0; pair < q.pairs; pair++) {
            for (int t = 0; t < ow; t += W) {
                int ox = min(t, ow - W);
                floatv r[8 * W];

                convolve(q, strip + 2 * ox * sw, at, packed + pair * (q.taps + 1) * 2 * V, r);
#pragma unroll
                for (int i = 0; i < 2 * W; i++)
                    storev(pooled(r + i / 2 * 8 + i % 2, is_max, act), (ox + i / 2) * 2 + i % 2,
                           line);
            }
            store_line(q, line, n, oy, pair, y);
        }
    }
}

/* What the four pixels of a window get of its gradient g. If the maximum is positive, relu's maximum
 * is in the same place. */
ALWAYS_INLINE void
spread(floatv *p, floatv g, int is_max, int act)
{
    const floatv zero = 0.f;

    if (is_max) {
        intv second = EXCEEDS(p[2], p[0]), third, fourth;
        floatv best = select(p[0], p[2], second);

        third = EXCEEDS(p[4], best);
        best = select(best, p[4], third);
        fourth = EXCEEDS(p[6], best);
        best = select(best, p[6], fourth);
        if (act)
            g = select(g, zero, best <= 0.f);
        p[6] = select(zero, g, fourth);
        g = select(g, zero, fourth);
        p[4] = select(zero, g, third);
        g = select(g, zero, third);
        p[2] = select(zero, g, second);
        p[0] = select(g, zero, second);
        return;
    }
    g *= .25f;
#pragma unroll
    for (int i = 0; i < 8; i += 2)
        p[i] = act ? select(g, zero, p[i] <= 0.f) : g;
}

#define TAP(i) __global const float *x##i = strip + at[min(first + i, q.taps - 1)];
#define BEGIN(i) floatv s##i##_0 = 0.f, s##i##_1 = 0.f;
#define ADD(i)                                                                                \
    s##i##_0 = YKI_FMA((floatv)(x##i[j]), d0, s##i##_0);                                      \
    s##i##_1 = YKI_FMA((floatv)(x##i[j]), d1, s##i##_1);
#define END(i)                                                                                \
    if (first + i < q.taps) {                                                                 \
        storev(loadv(2 * i, sums) + s##i##_0, 2 * i, sums);                                   \
        storev(loadv(2 * i + 1, sums) + s##i##_1, 2 * i + 1, sums);                           \
    }

/* Adds the products of T taps, from `first` on, with the gradients d [2][2 ow][2 V] of two rows. The
 * sum of the gradients alone is added to `bias`, if it is not NULL. */
void
add_products(layer q, __global const float *strip, __global const int *at, int first,
             __global const float *d, __global float *sums, __global float *bias)
{
    floatv b0 = 0.f, b1 = 0.f;
    EACH_TAP(TAP)
    EACH_TAP(BEGIN)

    for (int row = 0; row < 2; row++)
        for (int i = 0, j = row * q.down; i < 2 * q.ow; i++, j += q.right, d += 2 * V) {
            floatv d0 = loadv(0, d), d1 = loadv(1, d);

            EACH_TAP(ADD)
            b0 += d0;
            b1 += d1;
        }
    EACH_TAP(END)
    if (bias) {
        storev(loadv(0, bias) + b0, 0, bias);
        storev(loadv(1, bias) + b1, 1, bias);
    }
}

/* The gradients d of the pixels of a row of windows, from those of the windows in `line`. */
void
spread_line(layer q, __global const float *strip, __global const int *at, __global const float *w,
            __global const float *line, int is_max, int act, __global float *d)
{
    for (int t = 0; t < q.ow; t += W) {
        int ox = min(t, q.ow - W);
        floatv r[8 * W];

        convolve(q, strip + 2 * ox * q.sw, at, w, r);
#pragma unroll
        for (int i = 0; i < 2 * W; i++)
            spread(r + i / 2 * 8 + i % 2, loadv((ox + i / 2) * 2 + i % 2, line), is_max, act);
#pragma unroll
        for (int i = 0; i < 8 * W; i++) {
            int pixel = i / 2, column = 2 * (ox + pixel / 4) + pixel % 2;

            storev(r[i], (pixel / 2 % 2 * 2 * q.ow + column) * 2 + i % 2, d);
        }
    }
}

/* x, dy (N, o/BLOCK, oh, ow, BLOCK) -> part[group] (o, c, kh, kw), then (o) of the bias. */
__kernel YKI_GROUP(1, 1) void
yki_conv_pooled_grad(__global const float *x, __global const float *weight,
                     __global const float *bias, __global const float *dy, __global float *part,
                     __global float *scratch, __global int *tables, int samples, int c, int h, int w,
                     int o, int oh, int ow, int kh, int kw, int sh, int sw, int ph, int pw, int dh,
                     int dw, int is_max, int act, int has_bias, int line_at, int scratch_step)
{
    int group = get_group_id(0), groups = get_num_groups(0);
    layer q = layer_of(c, h, w, o, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw);
    int pair_step = (q.taps + 1) * 2 * V;
    __global float *packed = scratch + (long)group * scratch_step;
    __global float *strip = packed + q.pairs * pair_step, *line = packed + line_at;
    __global float *d = line + ow * 2 * V, *sums = d + 4 * ow * 2 * V;
    __global int *at = tables + group * q.taps;
    long units = (long)samples * oh;

    pack(q, weight, bias, has_bias, packed, at);
    for (int i = 0; i < q.pairs * pair_step; i++)
        sums[i] = 0.f;
    for (long unit = units * group / groups; unit < units * (group + 1) / groups; unit++) {
        long n = unit / oh;
        int oy = (int)(unit - n * oh);

        copy_rows(q, x + n * c * h * w, oy, strip);
        for (int pair = 0; pair < q.pairs; pair++) {
            __global float *to = sums + pair * pair_step;

            load_line(q, dy, n, oy, pair, line);
            spread_line(q, strip, at, packed + pair * pair_step, line, is_max, act, d);
            for (int k = 0; k < q.taps; k += T)
                add_products(q, strip, at, k, d, to + k * 2 * V,
                             k ? (__global float *)0 : to + q.taps * 2 * V);
        }
    }
    part += (long)group * o * (q.taps + 1);
    for (int i = 0; i < o; i++) {
        int pair = i / (2 * V);
        __global const float *from = sums + pair * pair_step + i - pair * 2 * V;

        for (int k = 0; k < q.taps; k++) {
            int tap = k / c, ci = k - tap * c;

            part[(i * c + ci) * kh * kw + tap] = from[k * 2 * V];
        }
        part[o * q.taps + i] = from[q.taps * 2 * V];
    }
}

/* Adds the parts in their order. */
__kernel YKI_GROUP(1, 1) void
yki_conv_pooled_sum(__global const float *part, __global float *dw, __global float *db, int parts,
                    int weights, int biases, int part_step)
{
    for (int i = 0; i < weights + biases; i++) {
        float sum = part[i];

        for (int k = 1; k < parts; k++)
            sum += part[(long)k * part_step + i];
        if (i < weights)
            dw[i] = sum;
        else
            db[i - weights] = sum;
    }
}

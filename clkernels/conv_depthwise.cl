/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_depthwise.cl - convolutions with one filter per channel, for CPUs, on channels
 * in blocks of V: forward and the gradient of the input (one kernel, with the grids of
 * conv_blocked.cl), and the gradient of the weights.
 *
 * Lanes are channels, so every tap is one multiply-add of vectors, and memory is the
 * limit. A job is one plane: one block of channels of one sample. A band of its rows
 * is copied with its padding into the group's own scratch memory, so that the taps
 * know no borders.
 *
 * Packed weights: [C / V][taps h][taps w][V]; the bias follows the taps of each block.
 */
#ifndef V
#define V 16
#endif
/* floats of dy in a band of rows */
#define BAND 4096

#define floatv YKI_PASTE(float, V)
#define loadv YKI_PASTE(vload, V)
#define storev YKI_PASTE(yki_store, V)

/* STREAM is for results that fit no cache. */
#if defined STREAM && V == 16
#define STORE(x, i, p) YKI_STREAM(x, (p) + (long)(i) * V)
#else
#define STORE(x, i, p) storev(x, i, p)
#endif

floatv
activated(floatv value, int act)
{
    return act == 1 ? select(value, (floatv)(0.f), value <= 0.f) : value;
}

/* The columns [*from, *to) of count whose taps at j * step + at + s * tap_step all lie in [0,
 * size). */
void
inner_columns(int count, int step, int at, int taps, int tap_step, int size, int *from, int *to)
{
    int reach = at + (taps - 1) * tap_step;

    *from = at < 0 ? min((-at + step - 1) / step, count) : 0;
    *to = reach < size ? min((size - 1 - reach) / step + 1, count) : 0;
    *to = max(*to, *from);
}

/* Copies rows of a plane with their padding, strip[rows][columns]. It is one loop that only
 * reads ahead, because the hardware's prefetcher follows that. */
void
pack_rows(__global const float *image, __global float *strip, int h, int w, int y0, int rows, int x0,
          int columns)
{
    int left = clamp(-x0, 0, columns), right = clamp(w - x0, left, columns);

    for (int r = 0; r < rows; r++, strip += columns * V) {
        int y = y0 + r, inside = y >= 0 && y < h, i;
        int begin = inside ? left : columns, end = inside ? right : columns;
        __global const float *from = image + ((long)y * w + x0) * V;

        for (i = 0; i < begin; i++)
            storev((floatv)(0.f), i, strip);
        for (; i < end; i++)
            storev(loadv(i, from), i, strip);
        for (; i < columns; i++)
            storev((floatv)(0.f), i, strip);
    }
}

/* Asks for vectors that the next band will read, while this band computes; otherwise memory would
 * rest meanwhile. They may be beyond the end of a buffer. */
void
ask_ahead(__global const float *from, int vectors)
{
#if YKI_NATIVE
    for (int i = 0; i < vectors; i++)
        YKI_PREFETCH_FAR(from + (long)i * V);
#endif
}

__kernel YKI_GROUP(1, 1) void
yki_conv_depthwise(__global const float *x, __global const float *weight, __global float *y,
                   __global float *strips, int samples, int weight_at, int blocks, int h, int w,
                   int oh, int ow, int gh, int gw, int ish, int isw, int taps_h, int taps_w,
                   int tsh, int tsw, int bh, int bw, int osh, int osw, int oah, int oaw, int act,
                   int band, int strip_size)
{
    long jobs = (long)samples * blocks;
    int group = get_group_id(0), groups = get_num_groups(0), taps = taps_h * taps_w;
    int columns = (gw - 1) * isw + (taps_w - 1) * tsw + 1;
    __global float *strip = strips + (long)group * strip_size;

    for (long job = jobs * group / groups; job < jobs * (group + 1) / groups; job++) {
        __global const float *packed = weight + weight_at + (long)(job % blocks) * (taps + 1) * V;
        floatv bias = loadv(taps, packed);

        for (int g0 = 0; g0 < gh; g0 += band) {
            int gr = min(band, gh - g0);
            /* the row of x where the next band begins; that of the next plane follows the last */
            int next = clamp((g0 + gr - 1) * ish + bh + (taps_h - 1) * tsh + 1, 0, h);

            if (taps)
                pack_rows(x + job * h * w * V, strip, h, w, g0 * ish + bh,
                          (gr - 1) * ish + (taps_h - 1) * tsh + 1, bw, columns);
            for (int i = 0; i < gr; i++) {
                __global float *out = y + ((job * oh + (g0 + i) * osh + oah) * ow + oaw) * V;
                __global const float *row = strip + (long)i * ish * columns * V;
                int j = 0;

                ask_ahead(x + (job * h + next + i * ish) * w * V, ish * w);
                for (; j + 8 <= gw; j += 8) {
                    floatv a0 = bias, a1 = bias, a2 = bias, a3 = bias;
                    floatv a4 = bias, a5 = bias, a6 = bias, a7 = bias;

                    for (int r = 0; r < taps_h; r++) {
                        __global const float *p = row + ((long)r * tsh * columns + j * isw) * V;

                        for (int s = 0; s < taps_w; s++, p += tsw * V) {
                            floatv u = loadv(r * taps_w + s, packed);

                            a0 = YKI_FMA(loadv(0, p), u, a0);
                            a1 = YKI_FMA(loadv(isw, p), u, a1);
                            a2 = YKI_FMA(loadv(2 * isw, p), u, a2);
                            a3 = YKI_FMA(loadv(3 * isw, p), u, a3);
                            a4 = YKI_FMA(loadv(4 * isw, p), u, a4);
                            a5 = YKI_FMA(loadv(5 * isw, p), u, a5);
                            a6 = YKI_FMA(loadv(6 * isw, p), u, a6);
                            a7 = YKI_FMA(loadv(7 * isw, p), u, a7);
                        }
                    }
                    STORE(activated(a0, act), j * osw, out);
                    STORE(activated(a1, act), (j + 1) * osw, out);
                    STORE(activated(a2, act), (j + 2) * osw, out);
                    STORE(activated(a3, act), (j + 3) * osw, out);
                    STORE(activated(a4, act), (j + 4) * osw, out);
                    STORE(activated(a5, act), (j + 5) * osw, out);
                    STORE(activated(a6, act), (j + 6) * osw, out);
                    STORE(activated(a7, act), (j + 7) * osw, out);
                }
                for (; j < gw; j++) {
                    floatv a = bias;

                    for (int r = 0; r < taps_h; r++)
                        for (int s = 0; s < taps_w; s++)
                            a = YKI_FMA(loadv((long)r * tsh * columns + j * isw + s * tsw, row),
                                        loadv(r * taps_w + s, packed), a);
                    STORE(activated(a, act), j * osw, out);
                }
            }
        }
    }
}

/* The same without the copy, for grids of few taps that leave out elements of y. Columns whose
 * taps are all inside go four at a time; the others check each tap. It takes the same arguments. */
__kernel YKI_GROUP(1, 1) void
yki_conv_depthwise_direct(__global const float *x, __global const float *weight, __global float *y,
                          __global float *strips, int samples, int weight_at, int blocks, int h,
                          int w, int oh, int ow, int gh, int gw, int ish, int isw, int taps_h,
                          int taps_w, int tsh, int tsw, int bh, int bw, int osh, int osw, int oah,
                          int oaw, int act, int band, int strip_size)
{
    long jobs = (long)samples * blocks;
    int group = get_group_id(0), groups = get_num_groups(0), taps = taps_h * taps_w, from, to;

    inner_columns(gw, isw, bw, taps_w, tsw, w, &from, &to);
    for (long job = jobs * group / groups; job < jobs * (group + 1) / groups; job++) {
        __global const float *packed =
            weight + weight_at + (long)(job % blocks) * (taps + 1) * V;
        __global const float *image = x + job * h * w * V;
        floatv bias = loadv(taps, packed);

        for (int i = 0; i < gh; i++) {
            int top = i * ish + bh, j = 0;
            __global float *out = y + ((job * oh + i * osh + oah) * ow + oaw) * V;

            while (j < gw) {
                if (j >= from && j + 4 <= to) {
                    floatv a0 = bias, a1 = bias, a2 = bias, a3 = bias;

                    for (int r = 0; r < taps_h; r++) {
                        int row = top + r * tsh;
                        __global const float *p = image + ((long)row * w + j * isw + bw) * V;

                        if (row < 0 || row >= h)
                            continue;
                        for (int s = 0; s < taps_w; s++, p += tsw * V) {
                            floatv u = loadv(r * taps_w + s, packed);

                            a0 = YKI_FMA(loadv(0, p), u, a0);
                            a1 = YKI_FMA(loadv(isw, p), u, a1);
                            a2 = YKI_FMA(loadv(2 * isw, p), u, a2);
                            a3 = YKI_FMA(loadv(3 * isw, p), u, a3);
                        }
                    }
                    STORE(activated(a0, act), j * osw, out);
                    STORE(activated(a1, act), (j + 1) * osw, out);
                    STORE(activated(a2, act), (j + 2) * osw, out);
                    STORE(activated(a3, act), (j + 3) * osw, out);
                    j += 4;
                } else {
                    floatv a = bias;

                    for (int r = 0; r < taps_h; r++)
                        for (int s = 0; s < taps_w; s++) {
                            int row = top + r * tsh, column = j * isw + bw + s * tsw;

                            if (row >= 0 && row < h && column >= 0 && column < w)
                                a = YKI_FMA(loadv((long)row * w + column, image),
                                            loadv(r * taps_w + s, packed), a);
                        }
                    STORE(activated(a, act), j * osw, out);
                    j++;
                }
            }
        }
    }
}

/* Packs weight (C, 1, kh, kw) and bias (C). Tap r of the grid is row kh0 + r * khs of the
 * weight. */
__kernel YKI_GROUP(1, 1) void
yki_conv_depthwise_pack(__global const float *weight, __global const float *bias,
                        __global float *packed, int weight_at, int c, int kh, int kw, int taps_h,
                        int taps_w, int kh0, int khs, int kw0, int kws, int has_bias)
{
    int blocks = (c + V - 1) / V, taps = taps_h * taps_w;

    for (int b = get_group_id(0); b < blocks; b += get_num_groups(0)) {
        __global float *to = packed + weight_at + (long)b * (taps + 1) * V;

        for (int l = 0; l < V; l++) {
            int channel = b * V + l;

            for (int r = 0; r < taps_h; r++)
                for (int s = 0; s < taps_w; s++)
                    to[(r * taps_w + s) * V + l] =
                        channel < c ? weight[((long)channel * kh + kh0 + r * khs) * kw + kw0 + s * kws]
                                    : 0.f;
            to[taps * V + l] = has_bias && channel < c ? bias[channel] : 0.f;
        }
    }
}

/* Writes part[split][C / V][kh][kw][V]. A job is a block of channels over a split's samples. */
__kernel YKI_GROUP(1, 1) void
yki_conv_depthwise_grad_weight(__global const float *x, __global const float *dy,
                               __global float *part, int samples, int splits, int blocks, int h,
                               int w, int oh, int ow, int kh, int kw, int sh, int sw, int ph,
                               int pw, int dh, int dw)
{
    int group = get_group_id(0), groups = get_num_groups(0), jobs = splits * blocks;
    int band = max(BAND / (ow * V), 1);

    for (int job = (int)((long)jobs * group / groups);
         job < (int)((long)jobs * (group + 1) / groups); job++) {
        int split = job / blocks, block = job - split * blocks;
        int from = (int)((long)samples * split / splits);
        int until = (int)((long)samples * (split + 1) / splits);
        __global float *sums = part + (long)job * kh * kw * V;

        for (int t = 0; t < kh * kw; t++)
            storev((floatv)(0.f), t, sums);
        for (int n = from; n < until; n++) {
            __global const float *image = x + ((long)n * blocks + block) * h * w * V;
            __global const float *grad = dy + ((long)n * blocks + block) * oh * ow * V;

            /* A band of rows stays in the first-level cache while all taps pass over it. */
            for (int i0 = 0; i0 < oh; i0 += band) {
                __global const float *next = image + (long)min((i0 + band) * sh, h) * w * V;
                __global const float *next_grad = grad + (long)min(i0 + band, oh) * ow * V;
                int vectors = min(band, oh) * sh * w / (kh * kw) + 1;
                int grad_vectors = min(band, oh) * ow / (kh * kw) + 1;

                for (int s = 0; s < kw; s++) {
                    int first, end;

                    inner_columns(ow, sw, s * dw - pw, 1, 1, w, &first, &end);
                    for (int r = 0; r < kh; r++) {
                        floatv a0 = loadv(r * kw + s, sums), a1 = 0.f, a2 = 0.f, a3 = 0.f;

                        ask_ahead(next + (long)(r * kw + s) * vectors * V, vectors);
                        ask_ahead(next_grad + (long)(r * kw + s) * grad_vectors * V, grad_vectors);
                        for (int i = i0; i < min(i0 + band, oh); i++) {
                            int row = i * sh - ph + r * dh, j;
                            __global const float *d = grad + (long)i * ow * V, *p;

                            if (row < 0 || row >= h)
                                continue;
                            p = image + ((long)row * w + first * sw + s * dw - pw) * V;
                            for (j = first; j + 4 <= end; j += 4, p += 4 * sw * V) {
                                a0 = YKI_FMA(loadv(0, p), loadv(j, d), a0);
                                a1 = YKI_FMA(loadv(sw, p), loadv(j + 1, d), a1);
                                a2 = YKI_FMA(loadv(2 * sw, p), loadv(j + 2, d), a2);
                                a3 = YKI_FMA(loadv(3 * sw, p), loadv(j + 3, d), a3);
                            }
                            for (; j < end; j++, p += sw * V)
                                a0 = YKI_FMA(loadv(0, p), loadv(j, d), a0);
                        }
                        storev((a0 + a1) + (a2 + a3), r * kw + s, sums);
                    }
                }
            }
        }
    }
}

/* out (C, 1, kh, kw) is the sum of the splits. */
__kernel YKI_GROUP(1, 1) void
yki_conv_depthwise_unpack(__global const float *part, __global float *out, int splits, int c,
                          int area)
{
    int blocks = (c + V - 1) / V;

    for (int b = get_group_id(0); b < blocks; b += get_num_groups(0))
        for (int t = 0; t < area; t++) {
            floatv sum = 0.f;
            float lanes[V];

            for (int k = 0; k < splits; k++)
                sum += loadv(((long)k * blocks + b) * area + t, part);
            storev(sum, 0, lanes);
            for (int l = 0; l < V && b * V + l < c; l++)
                out[(long)(b * V + l) * area + t] = lanes[l];
        }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_gemm.cl - convolutions and gradients by their input as implicit matrix products, in
 * plain layout, with any kernel, stride, pad, dilation and groups.
 *
 *     y[m][p] = sum over taps k of weight[m][k] * x[k][p]
 *
 * Rows m are the channels of the result in a group, columns p its positions in all samples,
 * and k runs over (channel, vertical tap, horizontal tap), the order of the weight in memory:
 * it is read in place, since packing it would be a launch a layer in each step of training. In
 * canonical plans k runs over (16 channels, vertical tap, horizontal tap, one of them).
 *
 * Where an element of x lies is the sum of what depends on the column alone, which an item keeps
 * in registers, and of what depends on k alone. That is noted for all items in local memory, many
 * taps at a time. Whether it lies in the image is a bit for each row and each column of the kernel
 * (MASKS), and an item reads another element where it does not: a branch around a load costs more
 * than the load. An item reads terms that follow one another, so 4 notes are one load; and items
 * that follow one another have neighbouring columns, or rows.
 *
 * The weights are read in float4 where terms follow one another in memory (A_FORM, a form of
 * tile.cl), else as noted (NOTED). In the form FLAT, for 1x1 kernels of stride 1 without padding, x
 * is a matrix for each sample, read in float4, too.
 *
 * A gradient by the input with a stride is a convolution for each remainder of the position
 * by the stride (a class): those positions meet the same taps, and no others are looked at.
 *
 * A group computes one tile and has no loop over tiles: compilers would compute everything that
 * does not change before that loop, and keep it in 60 registers.
 *
 * Letters: x (N, G * channels, H, W) is what is read in windows, y (N, G * rows, OH, OW) the result.
 */
#define W 4
#include "dot.cl"
#include "tile.cl"
#include "tile_mma.cl"

#ifndef FLAT
#define FLAT 0
#endif
#define NOTED -1
#ifndef A_FORM
#define A_FORM NOTED
#endif
/* The kernel has fewer than 32 rows and columns, together. */
#ifndef MASKS
#define MASKS 1
#endif

/* Column tiles along one dimension of the grid; beyond it, another one goes on. */
#define BAND 16384

/* max(x, 0) where act is 1; NaN stays NaN. Some compilers need fewer registers for numbers than for
 * vectors, but Oclgrind does not follow a vector made of four numbers. */
static float4
activated(float4 f, int act)
{
#ifdef YKI_LANES_APART
    return act == 1 ? select(f, (float4)(0.f), f <= 0.f) : f;
#else
    f.s0 = act == 1 && f.s0 <= 0.f ? 0.f : f.s0;
    f.s1 = act == 1 && f.s1 <= 0.f ? 0.f : f.s1;
    f.s2 = act == 1 && f.s2 <= 0.f ? 0.f : f.s2;
    f.s3 = act == 1 && f.s3 <= 0.f ? 0.f : f.s3;
    return f;
#endif
}

/* One axis of the positions of a result: position i is element i * out_step + out_at of it, and
 * its tap t reads element i * in_step + in_at + t * tap_step with weight kernel_at + t *
 * kernel_step. */
typedef struct axis {
    int count, out_step, out_at, in_step, in_at, taps, tap_step, kernel_at, kernel_step;
} axis;

/* The axis of a convolution, or, transposed, of the positions whose remainder by the stride is
 * `residue`. */
static void
find_axis(__local volatile axis *a, int transposed, int residue, int size, int kernel_size,
          int stride, int pad, int dilation)
{
    int first = -1, period = 0, last = 0, taps = 0;

    for (int k = 0; transposed && k < kernel_size; k++) {
        int at = residue + pad - k * dilation;

        if (at / stride * stride != at)
            continue;
        if (first < 0)
            first = k;
        else if (!period)
            period = k - first;
        last = k;
        taps++;
    }
    a->count = !transposed ? size : residue < size ? (size - residue + stride - 1) / stride : 0;
    a->out_step = transposed ? stride : 1;
    a->out_at = residue;
    a->in_step = transposed ? 1 : stride;
    a->in_at = transposed ? (residue + pad - last * dilation) / stride : -pad;
    a->taps = transposed ? taps : kernel_size;
    a->tap_step = !transposed ? dilation : period ? period * dilation / stride : 1;
    a->kernel_at = last;
    a->kernel_step = transposed ? -period : 1;
}

/* How the taps lie in the image and in the weight. Local and volatile: else compilers keep it in
 * registers of all items. */
typedef struct walk {
    int channels, taps_h, taps_w, begin; /* the sum begins with term `begin` */
    int x_c, x_i, x_j, down, right; /* in the image */
    int w_at, w_c, w_i, w_j;        /* in the weight */
} walk;

/* What is noted of a tap: its offset in the image and in the weight, and its bits of a mask; or how
 * many rows down and columns to the right it is. */
#define CHUNK TILE_ITEMS
typedef struct notes {
    int image[CHUNK], weight[CHUNK], inside[CHUNK];
#if !MASKS
    int right[CHUNK];
#endif
} notes;
#define NEVER (1 << 31) /* of a mask: no item has this bit */

/* Notes the tap of term t: number t in the order (channel, vertical, horizontal), in canonical plans
 * (16 channels, vertical, horizontal, one of them). Behind the last it notes one outside of each
 * image. PoCL 3.1 crashes where it has to inline this itself. */
__attribute__((always_inline)) static void
note_tap(__local notes *to, int at, int t, __local const volatile walk *k)
{
    t += k->begin;
    const int channels = k->channels, taps_h = k->taps_h, taps_w = k->taps_w;
#if YKI_CANONICAL
    const int all = taps_h * taps_w, begin = t / (YKI_CANONICAL_CHANNELS * all) * YKI_CANONICAL_CHANNELS;
    const int width = clamp(channels - begin, 1, YKI_CANONICAL_CHANNELS);
    const int tap = (t - begin * all) / width, c = t - begin * all - tap * width + begin;
    const bool inside = begin < channels && tap < all;
#else
    const int all = taps_h * taps_w, c = t / all, tap = t - c * all;
    const bool inside = c < channels;
#endif
    const int i = tap / taps_w, j = tap - i * taps_w;

    to->image[at] = inside ? c * k->x_c + i * k->x_i + j * k->x_j : 0;
    to->weight[at] = k->w_at + (inside ? c * k->w_c + i * k->w_i + j * k->w_j : 0);
#if MASKS
    to->inside[at] = inside ? 1 << i | 1 << (taps_h + j) : NEVER;
#else
    to->inside[at] = inside ? i * k->down : INT_MIN / 2;
    to->right[at] = j * k->right;
#endif
}

/* The bits of the taps for which `at` + tap * step is in 0 .. size - 1. */
static int
mask_of(int at, int step, int size, int taps)
{
    int mask = 0;

    for (int i = 0; i < taps; i++)
        mask |= (uint)(at + i * step) < (uint)size ? 1 << i : 0;
    return mask;
}

/* The pointer `by` floats further on. By bytes: else compilers add `by` again wherever it is used. */
#define MOVED(p, by) ((__global const float *)((size_t)(p) + 4 * (by)))

/* An item reads terms of one row, and of one column. */
#define TERMS(R)  TILE_FLOATS(R)
#define OWN_A     ((int)(item / TM) * TERMS(TM))
#define OWN_B     ((int)(item / TN) * TERMS(TN))
#define FOUR(r, u, f) r[u] = f.s0, r[u + 1] = f.s1, r[u + 2] = f.s2, r[u + 3] = f.s3
#if FLAT
#define LOAD(k)                                                                               \
    tile_load(ra, from_w, A_FORM, TM, tile_item, rows - m0, depth, w_row, w_channel, k);      \
    _Pragma("unroll") for (int u = 0; u < TILE_FLOATS(TN) / 4; u++)                           \
    {                                                                                         \
        int c = min((k) + tile_term(TILE_BY_ROW4, TN, tile_item, u), depth - 1);              \
        float4 f = *(__global const float4 *)(from_x + (long)c * (h * w));                    \
                                                                                              \
        FOUR(rb, 4 * u, f);                                                                    \
    }
#define STORE(half)                                                                           \
    TILE_STORE_A(half, ra, A_FORM)                                                            \
    TILE_STORE_B(half, rb, TILE_BY_ROW4)
#else
#if MASKS
#define INSIDE(e) ((f.s##e & mask) == f.s##e)
#define RIGHT(k)
#else
#define INSIDE(e) ((uint)(iy + f.s##e) < (uint)h && (uint)(ix + r.s##e) < (uint)w)
#define RIGHT(k)  int4 r = *(__local const int4 *)&taps.right[CHUNK_OF(k) + OWN_B + u];
#endif
#define CHUNK_OF(k) ((k) & (CHUNK - 1))
#define PIXEL(e)                                                                              \
    {                                                                                         \
        bool in_ = INSIDE(e);                                                                 \
        float x_ = from_x[in_ ? at_.s##e : nowhere];                                          \
                                                                                              \
        rb[u + e] = in_ ? x_ : 0.f;                                                           \
    }
#define LOAD_B(k)                                                                             \
    _Pragma("unroll") for (int u = 0; u < TERMS(TN); u += 4)                                  \
    {                                                                                         \
        int4 at_ = *(__local const int4 *)&taps.image[CHUNK_OF(k) + OWN_B + u];               \
        int4 f = *(__local const int4 *)&taps.inside[CHUNK_OF(k) + OWN_B + u];                \
        RIGHT(k)                                                                              \
        PIXEL(0) PIXEL(1) PIXEL(2) PIXEL(3)                                                   \
    }
#define STORE_B(half)                                                                         \
    _Pragma("unroll") for (int u = 0; u < TERMS(TN); u++)                                     \
        TILE_B(half, OWN_B + u, item % TN) = TILE_OPERAND(rb[u]);
#if A_FORM == NOTED
#define LOAD_A(k)                                                                             \
    _Pragma("unroll") for (int u = 0; u < TERMS(TM); u += 4)                                  \
    {                                                                                         \
        int4 at_ = *(__local const int4 *)&taps.weight[CHUNK_OF(k) + OWN_A + u];              \
                                                                                              \
        ra[u] = from_w[at_.s0], ra[u + 1] = from_w[at_.s1];                                   \
        ra[u + 2] = from_w[at_.s2], ra[u + 3] = from_w[at_.s3];                               \
    }
#define STORE_A(half)                                                                         \
    _Pragma("unroll") for (int u = 0; u < TERMS(TM); u++)                                     \
        TILE_A(half, OWN_A + u, item % TM) = TILE_OPERAND(ra[u]);
#else
#define LOAD_A(k)                                                                             \
    _Pragma("unroll") for (int u = 0; u < TERMS(TM) / 4; u++)                                 \
    {                                                                                         \
        int t = min((k) + tile_term(A_FORM, TM, item, u), depth - 4);                         \
        float4 f = *(__global const float4 *)(from_row[u] + t);                               \
                                                                                              \
        FOUR(ra, 4 * u, f);                                                                   \
    }
#define STORE_A(half) TILE_STORE_A(half, ra, A_FORM)
#endif
#define LOAD(k)     LOAD_A(k) LOAD_B(k)
#define STORE(half) STORE_A(half) STORE_B(half)
#define NOTE(first) note_tap(&taps, tile_item, (first) + tile_item, &k);
#endif

/* Stores elements of y. With SUM other's are added, and where act is 3, what is left is where gate is
 * above 0; a comparison that is false for NaN keeps it. */
#ifdef SUM
#define SUM_PARAMS __global const float *other, __global const float *gate,
#define PUT(type, to, value)                                                                  \
    {                                                                                         \
        const long at_ = to - y;                                                              \
        type sum_ = value + *(__global const type *)(other + at_);                            \
                                                                                              \
        if (act == 3)                                                                         \
            sum_ = select(sum_, (type)(0.f), *(__global const type *)(gate + at_) <= 0.f);    \
        *(__global type *)(to) = sum_;                                                        \
    }
#else
#define SUM_PARAMS
#define PUT(type, to, value) *(__global type *)(to) = value;
#endif

/* Where `wide` is 0, items store one position at a time. Then column 4 x + e of 32 is position 8 e + x
 * of these: items that follow one another store neighbours. */
#define POSITION(column) ((column) / 32 * 32 + (column) % 4 * 8 + (column) % 32 / 4)

/* Column e of block j of the item's elements. */
#define STORE_COLUMN(e)                                                                       \
    if (POSITION((uint)TILE_COLUMN(j)) + 8 * e < (uint)columns) {                             \
        uint q = q0 + POSITION((uint)TILE_COLUMN(j)) + 8 * e;                                 \
        uint n = q / (uint)area, oy;                                                          \
        __global float *to;                                                                   \
                                                                                              \
        q -= n * area, oy = q / (uint)OUT_W, q -= oy * OUT_W;                                 \
        to = py + (long)n * groups * rows * oh * ow + (long)OUT_Y(oy) * ow + OUT_X(q);        \
        _Pragma("unroll") for (int i = 0; i < IM; i++)                                        \
        {                                                                                     \
            if (TILE_ROW(i) - TILE_ROW(0) < left)                                             \
                PUT(float, to, acc[TILE_ACC(i, j)].s##e)                                      \
            to += (long)oh * ow * (i == 3 ? TM / (IM / 4) - 3 : 1);                           \
        }                                                                                     \
    }

#if FLAT
#define OUT_W    ow
#define OUT_Y(i) (i)
#define OUT_X(i) (i)
#else
#define OUT_W    across.count
#define OUT_Y(i) ((i)*down.out_step + down.out_at)
#define OUT_X(i) ((i)*across.out_step + across.out_at)
#endif

/* What a tile is: its group, the sample and the position of its first column, its columns, and the
 * positions in a sample; and of the sum the first term and their number. Local and volatile, too: it
 * is needed before and behind the sum. */
typedef struct place {
    int g, n0, q0, columns, area, begin, length;
} place;

static void
find_place(__local volatile place *here, int g, int band, int tile, int samples, int area, int depth,
           int part, int parts)
{
    const int begin = (int)((long)depth * part / parts) / TK * TK;
    const int end = (int)((long)depth * (part + 1) / parts) / TK * TK;
    const long p0 = ((long)band * BAND + tile) * TN;
    const int n0 = area ? (int)(p0 / area) : 0;

    here->g = g, here->n0 = n0, here->area = area;
    here->q0 = (int)(p0 - (long)n0 * area);
    here->columns = (int)clamp((long)samples * area - p0, 0l, (long)TN);
    here->begin = begin, here->length = (part + 1 == parts ? depth : end) - begin;
}

/* The grid: tiles of rows; tiles of columns of the largest class, at most BAND; (group, class, part of
 * the sum, band of columns). Each part has a y of its own. `wide`: the area of the result is a multiple
 * of 4, and there is one class. */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_conv_gemm_image(__global const float *x, __global const float *weight,
                    __global const float *bias, __global float *y, SUM_PARAMS int transposed, int samples,
                    int groups, int rows, int channels, int h, int w, int oh, int ow, int kh,
                    int kw, int sh, int sw, int ph, int pw, int dh, int dw, int has_bias, int act,
                    int bands, int parts, int wide)
{
    TILE_START
    const uint item = (uint)tile_item; /* its quotients and remainders are shifts and masks */
    __local volatile place here;
    /* No remainder beside a division: LLVM would make a freeze, which Oclgrind lacks. */
    const int parted = (int)get_group_id(2) / bands, band = (int)get_group_id(2) - parted * bands;
    const int strip = parted / parts, part = parted - strip * parts;
#if FLAT
    if (tile_item == 0)
        find_place(&here, strip, band, get_group_id(1), samples, h * w, channels, part, parts);
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    __local notes taps __attribute__((aligned(16)));
    __local volatile axis down, across;
    __local volatile walk k;

    if (tile_item == 0) {
        const int classes = transposed ? sh * sw : 1, all = kh * kw;
        int g = strip / classes, class = strip - g * classes;
        int class_h = transposed ? class / sw : 0;

        /* The class with most taps is the first: the last groups should be short. */
        find_axis(&down, transposed, transposed ? (class_h + sh - ph % sh) % sh : 0, oh, kh, sh, ph,
                  dh);
        class -= class_h * sw;
        find_axis(&across, transposed, transposed ? (class + sw - pw % sw) % sw : 0, ow, kw, sw, pw,
                  dw);
        k.channels = down.taps && across.taps ? channels : 0;
        k.taps_h = down.taps, k.taps_w = across.taps;
        k.x_c = h * w, k.x_i = down.tap_step * w, k.x_j = across.tap_step;
        k.down = down.tap_step, k.right = across.tap_step;
        k.w_at = down.kernel_at * kw + across.kernel_at;
        k.w_c = transposed ? rows * all : all;
        k.w_i = down.kernel_step * kw, k.w_j = across.kernel_step;
        find_place(&here, g, band, get_group_id(1), samples, down.count * across.count,
                   k.channels * k.taps_h * k.taps_w, part, parts);
        k.begin = here.begin;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (here.columns > 0) {
        const int m0 = (int)get_group_id(0) * TM, depth = here.length;
        const int w_row = transposed ? kh * kw : channels * kh * kw;
        float4 acc[TILE_ACCS];
        float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];
        __global const float *from_w = weight + (long)here.g * channels * rows * (kh * kw);
        __global const float *from_x = x + ((long)here.n0 * groups + here.g) * channels * h * w;
#if FLAT
        const int w_channel = transposed ? rows : 1;
        uint q = here.q0 + (uint)min(tile_row(TILE_BY_ROW4, TN, tile_item, 0), here.columns - 4);
        uint n = q / (uint)here.area;

        from_x += ((long)n * groups * channels + here.begin) * h * w + (q - n * here.area);
        from_w += (long)m0 * w_row + (long)here.begin * w_channel;
#else
        const uint column = wide ? item % TN : POSITION(item % TN);
        uint q = here.q0 + (uint)min((int)column, here.columns - 1);
        uint n = q / (uint)here.area, oy;
        int iy, ix, nowhere;

        q -= n * here.area, oy = q / (uint)across.count;
        iy = (int)oy * down.in_step + down.in_at;
        ix = (int)(q - oy * across.count) * across.in_step + across.in_at;
        nowhere = -(iy * w + ix); /* leads to the first element of the group's channels */
        from_x = MOVED(from_x, (long)n * groups * channels * h * w - nowhere);
#if A_FORM == NOTED
        from_w = MOVED(from_w, (long)min(m0 + (int)(item % TM), rows - 1) * w_row);
#else
        __global const float *from_row[TERMS(TM) / 4];

        _Pragma("unroll") for (int u = 0; u < TERMS(TM) / 4; u++) from_row[u] =
            MOVED(from_w,
                  (long)min(m0 + tile_row(A_FORM, TM, item, u), rows - 1) * w_row + here.begin);
#endif
#if MASKS
        const int mask = mask_of(iy, down.tap_step, h, down.taps) |
                         mask_of(ix, across.tap_step, w, across.taps) << down.taps;
#endif
#endif
        TILE_ZERO(acc)
#if FLAT
        TILE_SUM(acc, depth, LOAD, STORE)
#else
        TILE_SUM_NOTED(acc, depth, CHUNK, NOTE, LOAD, STORE)
#endif
        {
            const int q0 = here.q0, columns = here.columns, area = here.area;
            const int left = rows - m0 - TILE_ROW(0);
            const long row0 = (long)here.g * rows + m0 + TILE_ROW(0);
            const long sample0 = (long)part * samples + here.n0;
            __global float *py = y + (sample0 * groups * rows + row0) * oh * ow;

            _Pragma("unroll") for (int i = 0; i < IM; i++)
            {
                float add = has_bias && TILE_ROW(i) - TILE_ROW(0) < left
                                ? bias[row0 + TILE_ROW(i) - TILE_ROW(0)]
                                : 0.f;

                _Pragma("unroll") for (int j = 0; j < IN / 4; j++)
                acc[TILE_ACC(i, j)] = activated(acc[TILE_ACC(i, j)] + add, act);
            }
            _Pragma("unroll") for (int j = 0; j < IN / 4; j++)
            {
                if (wide) {
                    if (TILE_COLUMN(j) < columns) {
                        uint q = q0 + TILE_COLUMN(j), n = q / (uint)area;
                        __global float *to = py + (long)n * groups * rows * area + (q - n * area);

                        _Pragma("unroll") for (int i = 0; i < IM; i++)
                        {
                            if (TILE_ROW(i) - TILE_ROW(0) < left)
                                PUT(float4, to, acc[TILE_ACC(i, j)])
                            to += (long)area * (i == 3 ? TM / (IM / 4) - 3 : 1);
                        }
                    }
                } else {
                    STORE_COLUMN(0)
                    STORE_COLUMN(1)
                    STORE_COLUMN(2)
                    STORE_COLUMN(3)
                }
            }
        }
    }
}
DOT_END

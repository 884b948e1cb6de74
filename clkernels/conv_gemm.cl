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
 * in registers, and of what depends on k alone. That is noted once for all items, TK taps at a
 * time, by the first TK of them: they count through the taps without a division. In the form FLAT,
 * for 1x1 kernels of stride 1 without padding, x is a matrix for each sample, read in float4.
 *
 * A gradient by the input with a stride is a convolution for each remainder of the position
 * by the stride (a class): those positions meet the same taps, and no others are looked at.
 *
 * A group computes one tile and has no loop over tiles: compilers would compute everything that
 * does not change before that loop, and keep it in 60 registers.
 *
 * Letters: x (N, G * channels, H, W) is what is gathered from, y (N, G * rows, OH, OW) the result.
 */
#include "tile.cl"

#ifndef FLAT
#define FLAT 0
#endif
#ifndef A_FORM
#define A_FORM TILE_BY_K
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

/* How the sum walks over its taps. Only a few items walk, so it lies in local memory, and is
 * volatile: else compilers keep it in registers of all items. */
typedef struct walk {
    int channels, taps_h, taps_w, step_c, step_i, step_j; /* a step is TK taps */
    int x_c, x_i, x_j, down, right;                       /* in the image */
    int w_at, w_c, w_i, w_j;                              /* in the weight */
} walk;

/* From c, which may be beyond the channels of a tap, to the tap and the channel that it means. */
#define STEPS                                                                                 \
    {                                                                                         \
        int width = min(YKI_CANONICAL_CHANNELS, channels - begin), next = c / width;          \
                                                                                              \
        c -= next * width, p.s2 += next;                                                      \
        next = p.s2 / taps_w;                                                                 \
        p.s2 -= next * taps_w, p.s1 += next;                                                  \
    }

/* Notes the tap `at` (channel, vertical, horizontal) as (offset in the image, rows down, columns to
 * the right, offset in the weight), and goes a step on. Behind the last channel it notes one that
 * lies outside of each image. PoCL 3.1 crashes where it has to inline this itself. */
__attribute__((always_inline)) static void
next_tap(__local int4 *tap, __local int4 *at, __local const volatile walk *k)
{
    int4 p = *at;
    bool inside = p.s0 < k->channels;

    tile_put4(tap, p.s0 * k->x_c + p.s1 * k->x_i + p.s2 * k->x_j,
         inside ? p.s1 * k->down : INT_MIN / 2, p.s2 * k->right,
         inside ? k->w_at + p.s0 * k->w_c + p.s1 * k->w_i + p.s2 * k->w_j : k->w_at);
#if YKI_CANONICAL
    /* From 16 channels there is at most one step to the next tap, which may be the first of the
     * next channels. These may be fewer; more steps go through them, but not beyond them. */
    const int channels = k->channels, taps_h = k->taps_h, taps_w = k->taps_w;
    int begin = p.s0 / YKI_CANONICAL_CHANNELS * YKI_CANONICAL_CHANNELS, c = p.s0 - begin + TK;

    if (inside) {
        STEPS
        if (p.s1 >= taps_h) {
            p.s1 = 0, begin += YKI_CANONICAL_CHANNELS;
            if (begin < channels) {
                STEPS
                if (p.s1 >= taps_h)
                    begin = channels, c = 0;
            }
        }
    }
    tile_put4(at, begin + c, p.s1, p.s2, 0);
#else
    p += (int4)(k->step_c, k->step_i, k->step_j, 0);
    if (p.s2 >= k->taps_w)
        p.s2 -= k->taps_w, p.s1++;
    if (p.s1 >= k->taps_h)
        p.s1 -= k->taps_h, p.s0++;
    *at = p;
#endif
}

/* An item reads one term of every row of its own, and of its own column every B_STEP-th term. */
#define A_STEP (TILE_ITEMS / TK)
#define B_STEP (TILE_ITEMS / TN)
#if FLAT
#define LOAD(k)                                                                               \
    tile_load(ra, from_w, A_FORM, TM, tile_item, rows - m0, channels, w_row, w_channel, k);   \
    _Pragma("unroll") for (int u = 0; u < TILE_FLOATS(TN) / 4; u++)                           \
    {                                                                                         \
        int c = min((k) + tile_term(TILE_BY_ROW4, TN, tile_item, u), channels - 1);           \
        float4 f = *(__global const float4 *)(from_x + (long)c * (h * w));                    \
                                                                                              \
        rb[4 * u] = f.s0, rb[4 * u + 1] = f.s1, rb[4 * u + 2] = f.s2, rb[4 * u + 3] = f.s3;   \
    }
#define STORE(half)                                                                           \
    tile_store(&TILE_A(half, 0, 0), TILE_A_STEP, ra, A_FORM, TM, tile_item);                  \
    tile_store(&TILE_B(half, 0, 0), TILE_B_STEP, rb, TILE_BY_ROW4, TN, tile_item);
#else
#define LOAD(k)                                                                               \
    {                                                                                         \
        __local const int4 *now = taps[(k) / TK & 1];                                         \
        __global const float *from = from_w + now[item % TK].s3;                              \
                                                                                              \
        _Pragma("unroll") for (int u = 0; u < TILE_FLOATS(TM); u++) ra[u] = from[w_at[u]];    \
        _Pragma("unroll") for (int u = 0; u < TILE_FLOATS(TN); u++)                           \
        {                                                                                     \
            int4 tap = now[item / TN + u * B_STEP];                                           \
                                                                                              \
            rb[u] = (uint)(iy + tap.s1) < (uint)h && (uint)(ix + tap.s2) < (uint)w            \
                        ? from_x[tap.s0]                                                      \
                        : 0.f;                                                                \
        }                                                                                     \
    }
#define STORE(half)                                                                           \
    _Pragma("unroll") for (int u = 0; u < TILE_FLOATS(TM); u++)                               \
        TILE_A(half, item % TK, item / TK + u * A_STEP) = ra[u];                              \
    _Pragma("unroll") for (int u = 0; u < TILE_FLOATS(TN); u++)                               \
        TILE_B(half, item / TN + u * B_STEP, item % TN) = rb[u];                              \
    if (tile_item < TK)                                                                       \
        next_tap(&taps[half ^ 1][tile_item], &at[tile_item], &k);
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

/* Column e of block j of the item's elements, where p + 4 j + e is a position. */
#define STORE_COLUMN(e)                                                                       \
    if (TILE_COLUMN(j) + e < columns) {                                                       \
        uint q = q0 + TILE_COLUMN(j) + e;                                                     \
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
 * positions in a sample. Local and volatile, too: it is needed before and behind the sum. */
typedef struct place {
    int g, n0, q0, columns, area;
} place;

static void
find_place(__local volatile place *here, int g, int band, int tile, int samples, int area)
{
    const long p0 = ((long)band * BAND + tile) * TN;
    const int n0 = area ? (int)(p0 / area) : 0;

    here->g = g, here->n0 = n0, here->area = area;
    here->q0 = (int)(p0 - (long)n0 * area);
    here->columns = (int)clamp((long)samples * area - p0, 0l, (long)TN);
}

/* The grid: tiles of rows; tiles of columns of the largest class, at most BAND; (group, class, band
 * of columns). `wide`: the area of the result is a multiple of 4, and there is one class. */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_conv_gemm_image(__global const float *x, __global const float *weight,
                    __global const float *bias, __global float *y, SUM_PARAMS int transposed, int samples,
                    int groups, int rows, int channels, int h, int w, int oh, int ow, int kh,
                    int kw, int sh, int sw, int ph, int pw, int dh, int dw, int has_bias, int act,
                    int bands, int wide)
{
    TILE_START
    const uint item = (uint)tile_item; /* its quotients and remainders are shifts and masks */
    __local volatile place here;
    int depth;
#if FLAT
    const int g = (int)get_group_id(2) / bands;

    if (tile_item == 0)
        find_place(&here, g, (int)get_group_id(2) - g * bands, get_group_id(1), samples, h * w);
    barrier(CLK_LOCAL_MEM_FENCE);
    depth = channels;
#else
    __local int4 taps[2][TK], at[TK];
    __local volatile axis down, across;
    __local volatile walk k;

    if (tile_item == 0) {
        const int classes = transposed ? sh * sw : 1, all = kh * kw;
        int gc = (int)get_group_id(2) / bands, g = gc / classes, class = gc - g * classes, i;
        int class_h = transposed ? class / sw : 0;

        find_axis(&down, transposed, class_h, oh, kh, sh, ph, dh);
        find_axis(&across, transposed, class - class_h * sw, ow, kw, sw, pw, dw);
        k.channels = down.taps && across.taps ? channels : 0;
        k.taps_h = down.taps, k.taps_w = across.taps;
        i = k.taps_w ? TK / k.taps_w : 0;
        k.step_c = k.taps_h ? i / k.taps_h : 0;
        k.step_i = i - k.step_c * k.taps_h;
        k.step_j = TK - i * k.taps_w;
        k.x_c = h * w, k.x_i = down.tap_step * w, k.x_j = across.tap_step;
        k.down = down.tap_step, k.right = across.tap_step;
        k.w_at = down.kernel_at * kw + across.kernel_at;
        k.w_c = transposed ? rows * all : all;
        k.w_i = down.kernel_step * kw, k.w_j = across.kernel_step;
        find_place(&here, g, (int)get_group_id(2) - gc * bands, get_group_id(1), samples,
                   down.count * across.count);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    depth = k.channels * k.taps_h * k.taps_w;
    if (tile_item < TK) {
        int taps_w = max(k.taps_w, 1), taps_h = max(k.taps_h, 1);
#if YKI_CANONICAL
        int width = max(min(YKI_CANONICAL_CHANNELS, k.channels), 1);
        int tap = tile_item / width, i = tap / taps_w, past = i / taps_h;

        tile_put4(&at[tile_item], tile_item - tap * width + past * YKI_CANONICAL_CHANNELS, i,
                  tap - i * taps_w, 0);
#else
        int i = tile_item / taps_w, c = i / taps_h;

        tile_put4(&at[tile_item], c, i - c * taps_h, tile_item - i * taps_w, 0);
#endif
        next_tap(&taps[0][tile_item], &at[tile_item], &k);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (here.columns > 0) {
        const int m0 = (int)get_group_id(0) * TM;
        const int w_row = transposed ? kh * kw : channels * kh * kw;
        float4 acc[TILE_ACCS];
        float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];
        __global const float *from_w = weight + (long)here.g * channels * rows * (kh * kw);
        __global const float *from_x = x + ((long)here.n0 * groups + here.g) * channels * h * w;
#if FLAT
        const int w_channel = transposed ? rows : 1;
        uint q = here.q0 + (uint)min(tile_row(TILE_BY_ROW4, TN, tile_item, 0), here.columns - 4);
        uint n = q / (uint)here.area;

        from_x += (long)n * groups * channels * h * w + (q - n * here.area);
        from_w += (long)m0 * w_row;
#else
        uint q = here.q0 + (uint)min((int)(item % TN), here.columns - 1);
        uint n = q / (uint)here.area, oy;
        int w_at[TILE_FLOATS(TM)], iy, ix;

        q -= n * here.area, oy = q / (uint)across.count;
        iy = (int)oy * down.in_step + down.in_at;
        ix = (int)(q - oy * across.count) * across.in_step + across.in_at;
        from_x += (long)n * groups * channels * h * w + (long)iy * w + ix;
        _Pragma("unroll") for (int u = 0; u < TILE_FLOATS(TM); u++) w_at[u] =
            min(m0 + (int)(item / TK) + u * A_STEP, rows - 1) * w_row;
#endif
        TILE_ZERO(acc)
        TILE_SUM(acc, depth, LOAD, STORE)
        {
            const int q0 = here.q0, columns = here.columns, area = here.area;
            const int left = rows - m0 - TILE_ROW(0);
            const long row0 = (long)here.g * rows + m0 + TILE_ROW(0);
            __global float *py = y + ((long)here.n0 * groups * rows + row0) * oh * ow;

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

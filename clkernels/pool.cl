/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.cl - maxima and means over windows and over whole planes, and their gradients.
 *
 * Kernels named _blocked take a tensor in blocks of VEC channels, (N, C / VEC, H, W,
 * VEC), with one work-item per group, which does whole rows or planes; VEC 1 is the
 * plain layout. A maximum is the first one of its window in row-major order, and a NaN
 * is a maximum, as in PyTorch. pool_groups.cl is for devices whose work-items run side
 * by side.
 *
 * The operator makes sure that each window holds at least one element of the input.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 1
#endif

#include "vectors.cl"
#include "exact.cl"
#include "pool_window.cl"

#define KERNEL __kernel YKI_GROUP(WG, 1) void

/* The piece of `count` tasks that this group does. */
#define FOR_EACH_TASK(task, count)                                                             \
    long count_ = (count), groups_ = (long)get_num_groups(0), group_ = (long)get_group_id(0);  \
    for (long task = count_ * group_ / groups_ + (long)get_local_id(0);                        \
         task < count_ * (group_ + 1) / groups_; task += WG)

/* The offset of the two rows of x that give row `row` of y. */
#define FIRST_OF_PAIR (row / oh * (h - 2 * oh) + row * 2) * w

/* ---- blocks of channels; a task is a row of y ---- */

#define LARGER(a, b) select(a, b, EXCEEDS(b, a))
/* The same where b is not NaN, in one instruction. A NaN in a stays. */
#define NUMBER_LARGER(a, b) ((b) > (a) ? (b) : (a))
#define IS_NAN(v)           ((v) != (v))
/* The maximum of three and of four. NaNs after the first operand are looked for separately, and
 * set all bits, which is a NaN. (A constant NaN would be loaded from memory under a mask that is
 * almost always empty. While the constant's page is not mapped, each such load is a suppressed
 * fault, and takes 20 times as long. With single floats, LLVM 15 fails to compile all this.) */
#if VEC == 1
#define MAXIMUM_3(a, b, c)    LARGER(LARGER(a, b), c)
#define MAXIMUM_4(a, b, c, d) LARGER(LARGER(a, b), LARGER(c, d))
#else
#define NAN_WHERE(mask, v) as_floatv(as_intv(v) | (mask))
#define MAXIMUM_3(a, b, c)                                                                     \
    NAN_WHERE(IS_NAN(b) | IS_NAN(c), NUMBER_LARGER(NUMBER_LARGER(a, b), c))
#define MAXIMUM_4(a, b, c, d)                                                                  \
    NAN_WHERE(IS_NAN(b) | IS_NAN(c) | IS_NAN(d),                                               \
              NUMBER_LARGER(NUMBER_LARGER(a, b), NUMBER_LARGER(c, d)))
#endif

/* `count` windows of 2 by 2 or 3 by 3, `step` apart, that lie inside. Most of the time of
 * pooling is spent here. `in` is the corner of the first one. */
void
yki_maxima_2x2(__global const float *in, __global float *out, int count, int w, int step)
{
    for (int i = 0; i < count; i++) {
        floatv a = loadv(i * step, in), b = loadv(i * step + 1, in);
        floatv c = loadv(w + i * step, in), d = loadv(w + i * step + 1, in);

        storev(MAXIMUM_4(a, b, c, d), i, out);
    }
}

floatv
yki_maximum_of_3(__global const float *p, int w)
{
    floatv a = loadv(0, p), b = loadv(w, p), c = loadv(2 * w, p);

    return MAXIMUM_3(a, b, c);
}

void
yki_maxima_3x3(__global const float *in, __global float *out, int count, int w, int step)
{
    floatv last = yki_maximum_of_3(in, w);

    for (int i = 0; i < count; i++) {
        __global const float *p = in + (long)i * step * VEC;
        /* With steps of 2 the last column of a window is the first of the next. */
        floatv a = step == 2 || i == 0 ? last : yki_maximum_of_3(p, w);
        floatv b = yki_maximum_of_3(p + VEC, w);

        last = yki_maximum_of_3(p + 2 * VEC, w);
        storev(MAXIMUM_3(a, b, last), i, out);
    }
}

KERNEL
yki_maxpool_blocked(__global const float *x, __global float *y, GEOMETRY)
{
    FOR_EACH_TASK(row, (long)planes * oh)
    {
        long plane_ = row / oh;
        int oy = (int)(row - plane_ * oh), r0 = max(oy * sh - ph, 0), r1 = min(oy * sh - ph + kh, h);
        __global const float *plane = x + plane_ * h * w * VEC;
        __global float *out = y + row * ow * VEC;
        int tall = r1 - r0 == kh, inner = max((w - kw + pw) / sw + 1, 0);

        for (int ox = 0; ox < ow; ox++) {
            int s0 = max(ox * sw - pw, 0), s1 = min(ox * sw - pw + kw, w), whole;
            floatv best = loadv(r0 * w + s0, plane);

            /* The windows from here to `inner` are whole. */
            whole = tall && s1 - s0 == kw && kh == kw && (kw == 2 || kw == 3);
            whole = whole ? min(inner, ow) - ox : 0;
            if (whole > 0) {
                __global const float *in = plane + ((long)r0 * w + s0) * VEC;

                if (kw == 2)
                    yki_maxima_2x2(in, out + (long)ox * VEC, whole, w, sw);
                else
                    yki_maxima_3x3(in, out + (long)ox * VEC, whole, w, sw);
                ox += whole - 1;
                continue;
            }
            for (int r = r0; r < r1; r++)
                for (int s = s0; s < s1; s++) {
                    floatv v = loadv(r * w + s, plane);

                    best = LARGER(best, v);
                }
            storev(best, ox, out);
        }
    }
}

KERNEL
yki_avgpool_blocked(__global const float *x, __global float *y, GEOMETRY, int exclude_pad)
{
    FOR_EACH_TASK(row, (long)planes * oh)
    {
        long plane_ = row / oh;
        int oy = (int)(row - plane_ * oh), r0 = max(oy * sh - ph, 0), r1 = min(oy * sh - ph + kh, h);
        __global const float *plane = x + plane_ * h * w * VEC;
        __global float *out = y + row * ow * VEC;

        for (int ox = 0; ox < ow; ox++) {
            int s0 = max(ox * sw - pw, 0), s1 = min(ox * sw - pw + kw, w);
            floatv sum = 0.f;

            for (int r = r0; r < r1; r++)
                for (int s = s0; s < s1; s++)
                    sum += loadv(r * w + s, plane);
            storev(sum * yki_window_weight(oy, ox, h, w, kh, kw, sh, sw, ph, pw, exclude_pad), ox,
                   out);
        }
    }
}

/* A row of windows of 2 by 2, all inside, that do not overlap. g goes to the first maximum. */
void
yki_pairs_of_rows(__global const float *in, __global const float *grad, __global float *out, int w,
                  int ow)
{
    const floatv zero = 0.f;

    for (int ox = 0; ox < ow; ox++) {
        floatv a = loadv(2 * ox, in), b = loadv(2 * ox + 1, in), g = loadv(ox, grad);
        floatv c = loadv(w + 2 * ox, in), d = loadv(w + 2 * ox + 1, in);
        intv second = EXCEEDS(b, a), third, fourth;

        a = select(a, b, second);
        third = EXCEEDS(c, a);
        a = select(a, c, third);
        fourth = EXCEEDS(d, a);
        storev(select(zero, g, fourth), w + 2 * ox + 1, out);
        g = select(g, zero, fourth);
        storev(select(zero, g, third), w + 2 * ox, out);
        g = select(g, zero, third);
        storev(select(zero, g, second), 2 * ox + 1, out);
        storev(select(g, zero, second), 2 * ox, out);
    }
}

/* For single floats, LLVM 15 makes masks here and then fails on them. */
#if VEC > 1
/* Element v of a window takes its gradient if it is the maximum `best`, and no element before it
 * was. */
#define TAKE(v, sum)                                                                           \
    {                                                                                          \
        intv hit = SAME(v, best) & open;                                                       \
                                                                                               \
        sum += hit ? g : (floatv)(0.f);                                                        \
        open &= ~hit;                                                                          \
    }
/* Equal, or one of them is NaN. */
#define SAME(a, b) (!((a) < (b)) & !((a) > (b)))

/* `count` windows of 3 by 3 in a row, two columns apart and all inside. They add to the first
 * row of dx and to the first column. The other elements belong to these windows alone, and get
 * their first value here. The last column of a window is the first of the next. `in` and `out`
 * are at the corner. */
void
yki_overlapping_3x3(__global const float *in, __global const float *y, __global const float *grad,
                    __global float *out, int count, int w)
{
    floatv x0 = loadv(0, in), x1 = loadv(w, in), x2 = loadv(2 * w, in);
    floatv s0 = loadv(0, out), s1 = loadv(w, out), s2 = loadv(2 * w, out);

    for (int i = 0; i < count; i++, in += 2 * VEC, out += 2 * VEC) {
        floatv best = loadv(i, y), g = loadv(i, grad);
        floatv m0 = loadv(1, out), m1 = 0.f, m2 = 0.f, e0 = loadv(2, out), e1 = 0.f, e2 = 0.f;
        intv open = -1;

        TAKE(x0, s0)
        TAKE(loadv(1, in), m0)
        x0 = loadv(2, in);
        TAKE(x0, e0)
        TAKE(x1, s1)
        TAKE(loadv(w + 1, in), m1)
        x1 = loadv(w + 2, in);
        TAKE(x1, e1)
        TAKE(x2, s2)
        TAKE(loadv(2 * w + 1, in), m2)
        x2 = loadv(2 * w + 2, in);
        TAKE(x2, e2)
        storev(s0, 0, out);
        storev(m0, 1, out);
        storev(s1, w, out);
        storev(m1, w + 1, out);
        storev(s2, 2 * w, out);
        storev(m2, 2 * w + 1, out);
        s0 = e0;
        s1 = e1;
        s2 = e2;
    }
    storev(s0, 0, out);
    storev(s1, w, out);
    storev(s2, 2 * w, out);
}
#endif

/* Window [r0, r1) by [s0, s1) of a plane adds to dx, or writes it. */
void
yki_window_grad(__global const float *in, __global float *out, floatv g, int r0, int r1, int s0,
                int s1, int w, int exact)
{
    floatv best = loadv(r0 * w + s0, in);
    intv where = r0 * w + s0;

    for (int r = r0; r < r1; r++)
        for (int s = s0; s < s1; s++) {
            floatv v = loadv(r * w + s, in);
            intv exceeds = EXCEEDS(v, best);

            best = select(best, v, exceeds);
            where = select(where, (intv)(r * w + s), exceeds);
        }
    for (int r = r0; r < r1; r++)
        for (int s = s0; s < s1; s++) {
            floatv part = select((floatv)(0.f), g, where == (intv)(r * w + s));

            if (!exact)
                part += loadv(r * w + s, out);
            storev(part, r * w + s, out);
        }
}

void
yki_fill_columns(__global float *row, int from, int to)
{
    for (int s = from; s < to; s++)
        storev((floatv)(0.f), s, row);
}

/* A task is a plane, so its windows, which may overlap, add to it in order. Where the maximum is
 * looked for again, y is not needed. `exact`: every element belongs to one window, which can
 * then write it. */
KERNEL
yki_maxpool_grad_blocked(__global const float *x, __global const float *y,
                         __global const float *dy, __global float *dx, GEOMETRY, int exact)
{
    /* Whole windows of 3 by 3, 2 apart: `run` of them, from `first` on. */
    int threes = VEC > 1 && kh == 3 && kw == 3 && sh == 2 && sw == 2, first = (pw + 1) / 2;
    int run = threes ? max(min((w - 3 + pw) / 2 + 1, ow) - first, 0) : 0;

    FOR_EACH_TASK(plane, planes)
    {
        __global const float *in = x + plane * h * w * VEC, *grad = dy + plane * oh * ow * VEC;
        __global float *out = dx + plane * h * w * VEC;
        int zeroed = exact ? h : 0; /* rows of dx that hold a value */

        if (exact && kh == 2 && kw == 2) {
            for (int oy = 0; oy < oh; oy++)
                yki_pairs_of_rows(in + 2l * oy * w * VEC, grad + (long)oy * ow * VEC,
                                  out + 2l * oy * w * VEC, w, ow);
            continue;
        }
        for (int oy = 0; oy < oh; oy++) {
            int r0 = max(oy * sh - ph, 0), r1 = min(oy * sh - ph + kh, h);
            int whole = r1 - r0 == 3 && zeroed <= r0 + 1 ? run : 0, c0 = first * 2 - pw;

            for (; zeroed < r1; zeroed++) {
                /* The run itself writes the elements that only it has: from its second column
                 * on, except in its first row. */
                int own = whole > 0 && zeroed > r0;

                yki_fill_columns(out + (long)zeroed * w * VEC, 0, own ? c0 + 1 : w);
                if (own)
                    yki_fill_columns(out + (long)zeroed * w * VEC, c0 + 2 * whole + 1, w);
            }
            for (int ox = 0; ox < ow; ox++) {
                int s0 = max(ox * sw - pw, 0), s1 = min(ox * sw - pw + kw, w);

#if VEC > 1
                if (ox == first && whole > 0) {
                    long corner = ((long)r0 * w + c0) * VEC, at = ((long)oy * ow + ox) * VEC;

                    yki_overlapping_3x3(in + corner, y + plane * oh * ow * VEC + at, grad + at,
                                        out + corner, whole, w);
                    ox += whole - 1;
                    continue;
                }
#endif
                yki_window_grad(in, out, loadv(oy * ow + ox, grad), r0, r1, s0, s1, w, exact);
            }
        }
        for (; zeroed < h; zeroed++)
            yki_fill_columns(out + (long)zeroed * w * VEC, 0, w);
    }
}

/* The windows that contain position i of an axis: from FIRST to before END. */
#define FIRST_WINDOW(i, k, s, p)      ((i) + (p) < (k) ? 0 : ((i) + (p) - (k)) / (s) + 1)
#define END_WINDOW(i, s, p, windows)  min(((i) + (p)) / (s) + 1, windows)

/* A task is a row of dx. */
KERNEL
yki_avgpool_grad_blocked(__global const float *gate, __global const float *dy, __global float *dx,
                         GEOMETRY, int exclude_pad, int gated)
{
    FOR_EACH_TASK(row, (long)planes * h)
    {
        long plane_ = row / h;
        int iy = (int)(row - plane_ * h), y0 = FIRST_WINDOW(iy, kh, sh, ph), y1 = END_WINDOW(iy, sh, ph, oh);
        __global const float *grad = dy + plane_ * oh * ow * VEC;
        __global float *out = dx + row * w * VEC;

        for (int ix = 0; ix < w; ix++) {
            int x0 = FIRST_WINDOW(ix, kw, sw, pw), x1 = END_WINDOW(ix, sw, pw, ow);
            floatv sum = 0.f;

            for (int oy = y0; oy < y1; oy++)
                for (int ox = x0; ox < x1; ox++)
                    sum = YKI_FMA(loadv(oy * ow + ox, grad),
                                  (floatv)(yki_window_weight(oy, ox, h, w, kh, kw, sh, sw, ph, pw,
                                                             exclude_pad)),
                                  sum);
            if (gated)
                sum = select(sum, (floatv)(0.f), loadv(ix, gate + row * w * VEC) <= 0.f);
            storev(sum, ix, out);
        }
    }
}

/* ---- plain, windows of 2 by 2 that do not overlap, VEC of them at a time; a task is a row of
 * y. The last vector of a row overlaps the one before where VEC does not divide the row. ---- */

#if VEC == 4 || VEC == 8
#if VEC == 4
#define float2v float8
#define load2v  vload8
#define store2v yki_store8
#else
#define float2v float16
#define load2v  vload16
#define store2v yki_store16
#endif

#ifdef YKI_LANES_APART
/* For simulators that cannot run a shuffle (docs/drivers.md): the same through memory. */
floatv
yki_every_second(float2v v, int first)
{
    float pairs[2 * VEC], lanes[VEC];

    store2v(v, 0, pairs);
    for (int l = 0; l < VEC; l++)
        lanes[l] = pairs[2 * l + first];
    return loadv(0, lanes);
}

float2v
yki_zip(floatv x, floatv y)
{
    float pairs[2 * VEC], even[VEC], odd[VEC];

    storev(x, 0, even);
    storev(y, 0, odd);
    for (int l = 0; l < VEC; l++) {
        pairs[2 * l] = even[l];
        pairs[2 * l + 1] = odd[l];
    }
    return load2v(0, pairs);
}
#define EVEN(v)   yki_every_second(v, 0)
#define ODD(v)    yki_every_second(v, 1)
#define ZIP(x, y) yki_zip(x, y)
#else
#define EVEN(v) ((v).even)
#define ODD(v)  ((v).odd)
#if VEC == 4
#define ZIP(x, y) (float8)((x).s0, (y).s0, (x).s1, (y).s1, (x).s2, (y).s2, (x).s3, (y).s3)
#else
#define ZIP(x, y)                                                                              \
    (float16)((x).s0, (y).s0, (x).s1, (y).s1, (x).s2, (y).s2, (x).s3, (y).s3, (x).s4, (y).s4,  \
              (x).s5, (y).s5, (x).s6, (y).s6, (x).s7, (y).s7)
#endif
#endif

KERNEL
yki_maxpool_2x2(__global const float *x, __global float *y, GEOMETRY)
{
    FOR_EACH_TASK(row, (long)planes * oh)
    {
        __global const float *in = x + FIRST_OF_PAIR;
        __global float *out = y + row * ow;

        for (int at = 0; at < ow; at += VEC) {
            int ox = min(at, ow - VEC);
            float2v a = load2v(0, in + 2 * ox), b = load2v(0, in + w + 2 * ox);
            float2v m = select(a, b, EXCEEDS(b, a));

            storev(LARGER(EVEN(m), ODD(m)), 0, out + ox);
        }
    }
}

KERNEL
yki_maxpool_grad_2x2(__global const float *x, __global const float *y, __global const float *dy,
                     __global float *dx, GEOMETRY, int exact)
{
    FOR_EACH_TASK(row, (long)planes * oh)
    {
        long first = FIRST_OF_PAIR;
        __global const float *in = x + first, *grad = dy + row * ow;
        __global float *out = dx + first;

        for (int at = 0; at < ow; at += VEC) {
            int ox = min(at, ow - VEC);
            float2v a = load2v(0, in + 2 * ox), b = load2v(0, in + w + 2 * ox), top, low;
            floatv best = EVEN(a), g = loadv(0, grad + ox), zero = 0.f, left;
            intv second = EXCEEDS(ODD(a), best), third, fourth;

            best = select(best, ODD(a), second);
            third = EXCEEDS(EVEN(b), best);
            best = select(best, EVEN(b), third);
            fourth = EXCEEDS(ODD(b), best);
            /* What the first and second element of a window get, if neither in the second row
             * gets the gradient. */
            left = select(select(g, zero, fourth), zero, third);
            top = ZIP(select(left, zero, second), select(zero, left, second));
            low = ZIP(select(zero, select(g, zero, fourth), third), select(zero, g, fourth));
            store2v(top, 0, out + 2 * ox);
            store2v(low, 0, out + w + 2 * ox);
        }
        for (int s = 2 * ow; s < w; s++)
            out[s] = out[w + s] = 0.f;
        if ((row + 1) % oh == 0)
            for (int s = 2 * w; s < (h - 2 * (oh - 1)) * w; s++)
                out[s] = 0.f;
    }
}
#endif

/* ---- means over whole planes: x (N, C, area), y (N, C) ---- */

/* x in blocks of VEC channels, y plain; a task is a block of a sample. */
KERNEL
yki_plane_mean_blocked(__global const float *x, __global float *y, int samples, int channels,
                       int area)
{
    int blocks = (channels + VEC - 1) / VEC;

    FOR_EACH_TASK(task, (long)samples * blocks)
    {
        __global const float *p = x + task * area * VEC;
        long n = task / blocks;
        int c = (int)(task - n * blocks) * VEC;
        floatv s0 = 0.f, s1 = 0.f;
        float lanes[VEC];
        int i = 0;

        for (; i + 1 < area; i += 2) {
            s0 += loadv(i, p);
            s1 += loadv(i + 1, p);
        }
        if (i < area)
            s0 += loadv(i, p);
        storev(QUOTIENT(floatv, s0 + s1, area), 0, lanes);
        for (int l = 0; l < VEC && c + l < channels; l++)
            y[n * channels + c + l] = lanes[l];
    }
}

KERNEL
yki_plane_mean_grad_blocked(__global const float *dy, __global float *dx, int samples,
                            int channels, int area)
{
    int blocks = (channels + VEC - 1) / VEC;
    float weight = QUOTIENT(float, 1.f, area);

    FOR_EACH_TASK(task, (long)samples * blocks)
    {
        __global float *p = dx + task * area * VEC;
        long n = task / blocks;
        int c = (int)(task - n * blocks) * VEC;
        float lanes[VEC];
        floatv g;

        for (int l = 0; l < VEC; l++)
            lanes[l] = c + l < channels ? dy[n * channels + c + l] * weight : 0.f;
        g = loadv(0, lanes);
        for (int i = 0; i < area; i++)
            storev(g, i, p);
    }
}

/* Plain, with one work-item per group and vectors along the plane. */
KERNEL
yki_plane_mean_rows(__global const float *x, __global float *y, int samples, int channels,
                    int area)
{
    FOR_EACH_TASK(task, (long)samples * channels)
    {
        __global const float *p = x + task * area;
        floatv s0 = 0.f;
        float lanes[VEC], sum = 0.f;
        int i = 0;

        for (; i + VEC <= area; i += VEC)
            s0 += loadv(0, p + i);
        for (; i < area; i++)
            sum += p[i];
        storev(s0, 0, lanes);
        for (int l = 0; l < VEC; l++)
            sum += lanes[l];
        y[task] = QUOTIENT(float, sum, area);
    }
}

KERNEL
yki_plane_mean_grad_rows(__global const float *dy, __global float *dx, int samples, int channels,
                         int area)
{
    float weight = QUOTIENT(float, 1.f, area);

    FOR_EACH_TASK(task, (long)samples * channels)
    {
        __global float *p = dx + task * area;
        float g = dy[task] * weight;
        int i = 0;

        for (; i + VEC <= area; i += VEC)
            storev((floatv)(g), 0, p + i);
        for (; i < area; i++)
            p[i] = g;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_groups.cl - pooling (pool.cl) in the plain layout, for devices whose work-items
 * run side by side.
 *
 * Neighbouring work-items take neighbouring elements of the result. A group takes a
 * piece of it, and each work-item steps through the piece by adding and carrying, so
 * nothing is divided for an element. Of whole planes a group takes several at a time,
 * SHARE work-items for each.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 256
#endif
#ifndef SHARE
#define SHARE 32
#endif

#include "vectors.cl"
#include "exact.cl"
#include "pool_window.cl"

#define KERNEL __kernel YKI_GROUP(WG, 1) void

/* The elements i = (plane * height + y) * width + x of this group's piece that this work-item
 * takes. */
#define FOR_EACH_ELEMENT(i, plane, y, x, height, width)                                        \
    long count_ = (long)planes * (height) * (width);                                           \
    long groups_ = (long)get_num_groups(0), group_ = (long)get_group_id(0);                    \
    long begin_ = count_ * group_ / groups_, end_ = count_ * (group_ + 1) / groups_;           \
    long line_ = begin_ / (width), plane = line_ / (height);                                   \
    int x = (int)(begin_ - line_ * (width)) + (int)get_local_id(0), more_ = x / (width);       \
    int y = (int)(line_ - plane * (height)) + more_, planes_ = y / (height);                   \
    int lines_ = WG / (width), x_ = WG - lines_ * (width), all_ = lines_ / (height);           \
    int y_ = lines_ - all_ * (height);                                                         \
                                                                                               \
    x -= more_ * (width);                                                                      \
    y -= planes_ * (height);                                                                   \
    plane += planes_;                                                                          \
    for (long i = begin_ + (long)get_local_id(0); i < end_;                                    \
         i += WG, x += x_, y += y_ + (x >= (width)), x -= x >= (width) ? (width) : 0,          \
              plane += all_ + (y >= (height)), y -= y >= (height) ? (height) : 0)

/* The windows that contain position i of an axis: from FIRST to before END. Most steps are 1 or 2,
 * for which nothing need be divided. */
#define STEPS(a, s)                  ((s) == 1 ? (a) : (s) == 2 ? (a) >> 1 : (a) / (s))
#define FIRST_WINDOW(i, k, s, p)     ((i) + (p) < (k) ? 0 : STEPS((i) + (p) - (k), s) + 1)
#define END_WINDOW(i, s, p, windows) min(STEPS((i) + (p), s) + 1, windows)

/* ---- windows ---- */

KERNEL
yki_maxpool_plain(__global const float *x, __global float *y, GEOMETRY)
{
    FOR_EACH_ELEMENT(i, plane_, oy, ox, oh, ow)
    {
        int r0 = max(oy * sh - ph, 0), r1 = min(oy * sh - ph + kh, h);
        int s0 = max(ox * sw - pw, 0), s1 = min(ox * sw - pw + kw, w);
        __global const float *plane = x + plane_ * h * w;
        float best = plane[r0 * w + s0];

        for (int r = r0; r < r1; r++)
            for (int s = s0; s < s1; s++) {
                float v = plane[r * w + s];

                best = EXCEEDS(v, best) ? v : best;
            }
        y[i] = best;
    }
}

KERNEL
yki_avgpool_plain(__global const float *x, __global float *y, GEOMETRY, int exclude_pad)
{
    FOR_EACH_ELEMENT(i, plane_, oy, ox, oh, ow)
    {
        int r0 = max(oy * sh - ph, 0), r1 = min(oy * sh - ph + kh, h);
        int s0 = max(ox * sw - pw, 0), s1 = min(ox * sw - pw + kw, w);
        __global const float *plane = x + plane_ * h * w;
        float sum = 0.f;

        for (int r = r0; r < r1; r++)
            for (int s = s0; s < s1; s++)
                sum += plane[r * w + s];
        y[i] = sum * yki_window_weight(oy, ox, h, w, kh, kw, sh, sw, ph, pw, exclude_pad);
    }
}

/* Whether element (iy, ix), which equals the maximum of window (oy, ox), is the first such
 * element. */
int
yki_is_first(__global const float *plane, float best, int iy, int ix, int oy, int ox, int w,
             int kw, int sh, int sw, int ph, int pw)
{
    int s0 = max(ox * sw - pw, 0), s1 = min(ox * sw - pw + kw, w);

    for (int r = max(oy * sh - ph, 0); r <= iy; r++)
        for (int s = s0; s < (r == iy ? ix : s1); s++)
            if (plane[r * w + s] == best)
                return 0;
    return 1;
}

KERNEL
yki_maxpool_grad_plain(__global const float *x, __global const float *y, __global const float *dy,
                       __global float *dx, GEOMETRY, int exact)
{
    FOR_EACH_ELEMENT(i, plane_, iy, ix, h, w)
    {
        int y0 = FIRST_WINDOW(iy, kh, sh, ph), y1 = END_WINDOW(iy, sh, ph, oh);
        int x0 = FIRST_WINDOW(ix, kw, sw, pw), x1 = END_WINDOW(ix, sw, pw, ow);
        __global const float *in = x + plane_ * h * w;
        float v = x[i], sum = 0.f;

        for (int oy = y0; oy < y1; oy++)
            for (int ox = x0; ox < x1; ox++) {
                long o = (plane_ * oh + oy) * ow + ox;

                if (y[o] == v && yki_is_first(in, v, iy, ix, oy, ox, w, kw, sh, sw, ph, pw))
                    sum += dy[o];
            }
        dx[i] = sum;
    }
}

KERNEL
yki_avgpool_grad_plain(__global const float *gate, __global const float *dy, __global float *dx,
                       GEOMETRY, int exclude_pad, int gated)
{
    FOR_EACH_ELEMENT(i, plane_, iy, ix, h, w)
    {
        int y0 = FIRST_WINDOW(iy, kh, sh, ph), y1 = END_WINDOW(iy, sh, ph, oh);
        int x0 = FIRST_WINDOW(ix, kw, sw, pw), x1 = END_WINDOW(ix, sw, pw, ow);
        __global const float *grad = dy + plane_ * oh * ow;
        float sum = 0.f;

        for (int oy = y0; oy < y1; oy++)
            for (int ox = x0; ox < x1; ox++)
                sum = YKI_FMA(grad[oy * ow + ox],
                              yki_window_weight(oy, ox, h, w, kh, kw, sh, sw, ph, pw, exclude_pad),
                              sum);
        dx[i] = gated && gate[i] <= 0.f ? 0.f : sum;
    }
}

/* ---- means over whole planes: x (planes, wide) in vectors, y (planes) ---- */

#define PLANES (WG / SHARE) /* at a time */

/* SHARE is a power of 2. */
#define FOR_EACH_PLANE(plane)                                                                  \
    int sub = (int)get_local_id(0) & (SHARE - 1);                                              \
    for (long base_ = (long)get_group_id(0) * PLANES; base_ < planes;                          \
         base_ += (long)get_num_groups(0) * PLANES)
#define PLANE(plane) long plane = base_ + (int)get_local_id(0) / SHARE;

KERNEL
yki_plane_mean_groups(__global const float *x, __global float *y, int planes, int wide)
{
    __local float sums[WG];
    __local float *own = sums + get_local_id(0);
    __global const floatv *in = (__global const floatv *)x;

    FOR_EACH_PLANE(plane)
    {
        PLANE(plane)
        floatv sum = 0.f;

        if (plane < planes)
            for (int i = sub; i < wide; i += SHARE)
                sum += in[plane * wide + i];
#if VEC == 1
        *own = sum;
#else
        float lanes[VEC];

        vstore4(sum, 0, lanes);
        *own = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
#endif
        for (int step = SHARE / 2; step > 0; step /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (sub < step)
                *own += own[step];
        }
        if (sub == 0 && plane < planes)
            y[plane] = QUOTIENT(float, *own, wide * VEC);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

KERNEL
yki_plane_mean_grad_groups(__global const float *dy, __global float *dx, int planes, int wide)
{
    __global floatv *out = (__global floatv *)dx;
    float weight = QUOTIENT(float, 1.f, wide * VEC);

    FOR_EACH_PLANE(plane)
    {
        PLANE(plane)

        if (plane < planes) {
            float g = dy[plane] * weight;

            for (int i = sub; i < wide; i += SHARE)
                out[plane * wide + i] = g;
        }
    }
}

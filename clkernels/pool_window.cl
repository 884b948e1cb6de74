/* SPDX-License-Identifier: Apache-2.0
 *
 * pool_window.cl - what the kernels of pooling have in common (pool.cl, pool_groups.cl).
 */
#ifndef QUOTIENT /* compiled alone */
#define QUOTIENT(T, a, b) ((a) / (b))
#endif

/* planes: (N, C) or (N, C / VEC); x is h by w, y is oh by ow. */
#define GEOMETRY                                                                               \
    int planes, int h, int w, int oh, int ow, int kh, int kw, int sh, int sw, int ph, int pw

/* True where b replaces a, the maximum so far. */
#define EXCEEDS(b, a) (((b) > (a)) | ((b) != (b)))

/* The divisor of the mean over window (oy, ox): PyTorch counts the padding, but not what the
 * last window of ceil_mode has beyond it. */
float
yki_window_weight(int oy, int ox, int h, int w, int kh, int kw, int sh, int sw, int ph, int pw,
                  int exclude_pad)
{
    int y0 = oy * sh - ph, x0 = ox * sw - pw;
    int y1 = min(y0 + kh, h + ph), x1 = min(x0 + kw, w + pw);

    if (exclude_pad) {
        y0 = max(y0, 0);
        x0 = max(x0, 0);
        y1 = min(y1, h);
        x1 = min(x1, w);
    }
    return QUOTIENT(float, 1.f, (float)(y1 - y0) * (float)(x1 - x0));
}

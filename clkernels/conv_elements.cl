/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_elements.cl - convolutions element by element, in plain layout, with any kernel,
 * stride, pad, dilation and groups.
 *
 * A work-item computes one element of the result from all that reaches it. That suits
 * convolutions with few products per element (depthwise, few channels), where the
 * tiles of a matrix product would be mostly empty. It is also the plainest form to
 * compare with. The letters are those of conv_gemm.cl.
 */
#ifndef WG
#define WG 64
#endif

/* Channels whose products with all taps are added before those of other channels. */
#define CHANNELS (YKI_CANONICAL ? YKI_CANONICAL_CHANNELS : 1)

float
activated(float value, int act)
{
    return act == 1 && value <= 0.f ? 0.f : value;
}

__kernel YKI_GROUP(WG, 1) void
yki_conv_elements_forward(__global const float *x, __global const float *weight,
                        __global const float *bias, __global float *y, int samples, int groups,
                        int cg, int og, int h, int w, int oh, int ow, int kh, int kw, int sh,
                        int sw, int ph, int pw, int dh, int dw, int has_bias, int act)
{
    long area = (long)oh * ow, count = (long)samples * groups * og * area;

    for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
        long plane = i / area, n = plane / (groups * og);
        int q = (int)(i - plane * area), o = (int)(plane - n * groups * og), g = o / og;
        int oy = q / ow, y0 = oy * sh - ph, x0 = (q - oy * ow) * sw - pw;
        float sum = 0.f;

        for (int c0 = 0; c0 < cg; c0 += CHANNELS) {
            int channels = min(CHANNELS, cg - c0);
            __global const float *image = x + ((n * groups + g) * cg + c0) * h * w;
            __global const float *tap = weight + ((long)o * cg + c0) * kh * kw;

            for (int r = 0; r < kh; r++) {
                int iy = y0 + r * dh;

                if (iy < 0 || iy >= h)
                    continue;
                for (int s = 0; s < kw; s++) {
                    int ix = x0 + s * dw;

                    for (int c = 0; c < channels && ix >= 0 && ix < w; c++)
                        sum = YKI_FMA(image[((long)c * h + iy) * w + ix],
                                      tap[((long)c * kh + r) * kw + s], sum);
                }
            }
        }
        y[i] = activated(sum + (has_bias ? bias[o] : 0.f), act);
    }
}

/* In canonical plans the taps are met as in conv_gemm.cl: along dy. */
#define TAP(i, taps) (YKI_CANONICAL ? (taps)-1 - (i) : (i))

__kernel YKI_GROUP(WG, 1) void
yki_conv_elements_grad_input(__global const float *dy, __global const float *weight,
                           __global const float *bias, __global float *dx, int samples, int groups,
                           int cg, int og, int h, int w, int oh, int ow, int kh, int kw, int sh,
                           int sw, int ph, int pw, int dh, int dw, int has_bias, int act)
{
    long area = (long)h * w, count = (long)samples * groups * cg * area;

    for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
        long plane = i / area, n = plane / (groups * cg);
        int q = (int)(i - plane * area), c = (int)(plane - n * groups * cg), g = c / cg;
        int iy = q / w, ix = q - iy * w;
        float sum = 0.f;

        for (int o0 = 0; o0 < og; o0 += CHANNELS) {
            int channels = min(CHANNELS, og - o0);
            __global const float *image = dy + ((n * groups + g) * og + o0) * oh * ow;
            __global const float *tap =
                weight + ((long)(g * og + o0) * cg + (c - g * cg)) * kh * kw;

            for (int down = 0; down < kh; down++) {
                int r = TAP(down, kh), ty = iy + ph - r * dh, oy = ty / sh;

                if (ty < 0 || oy * sh != ty || oy >= oh)
                    continue;
                for (int right = 0; right < kw; right++) {
                    int s = TAP(right, kw), tx = ix + pw - s * dw, ox = tx / sw;

                    for (int o = 0; o < channels && tx >= 0 && ox * sw == tx && ox < ow; o++)
                        sum = YKI_FMA(image[((long)o * oh + oy) * ow + ox],
                                      tap[((long)o * cg * kh + r) * kw + s], sum);
                }
            }
        }
        dx[i] = activated(sum + (has_bias ? bias[c] : 0.f), act);
    }
}

/* A work-group adds up one element of the weight over its split's samples: work-items take
 * positions in rotation, then a tree in local memory adds their sums. Only WG and the sizes
 * determine the order. */
__kernel YKI_GROUP(WG, 1) void
yki_conv_elements_grad_weight(__global const float *x, __global const float *dy, __global float *part,
                            int samples, int groups, int cg, int og, int h, int w, int oh, int ow,
                            int kh, int kw, int sh, int sw, int ph, int pw, int dh, int dw,
                            int splits)
{
    __local float sums[WG];
    int item = get_local_id(0), elements = groups * og * cg * kh * kw;
    long area = (long)oh * ow;

    for (int split = get_group_id(1); split < splits; split += get_num_groups(1)) {
        long first = (long)samples * split / splits * area;
        long end = (long)samples * (split + 1) / splits * area;

        for (int e = get_group_id(0); e < elements; e += get_num_groups(0)) {
            int er = e / kw, ec = er / kh, o = ec / cg;
            int s = e - er * kw, r = er - ec * kh, c = ec - o * cg;
            int channel = o / og * cg + c;
            float sum = 0.f;

            for (long k = first + item; k < end; k += WG) {
                long n = k / area;
                int q = (int)(k - n * area), oy = q / ow;
                int iy = oy * sh - ph + r * dh, ix = (q - oy * ow) * sw - pw + s * dw;

                if (iy >= 0 && iy < h && ix >= 0 && ix < w)
                    sum = YKI_FMA(x[(n * groups * cg + channel) * h * w + (long)iy * w + ix],
                                  dy[(n * groups * og + o) * area + q], sum);
            }
            sums[item] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int step = WG / 2; step > 0; step /= 2) {
                if (item < step)
                    sums[item] += sums[item + step];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            if (item == 0)
                part[(long)split * elements + e] = sums[0];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

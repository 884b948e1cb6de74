/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_depthwise_groups.cl - convolutions with one filter per channel in plain layout, and both
 * gradients, on devices that run the work-items of a group side by side.
 *
 * A work-item computes 4 columns by 2 rows of a plane. What these read lies in a small window, whose
 * rows it reads one after the other, each element once, and the weights stay in registers. The
 * window's shape is in macros, so which element meets which weight is known when it is compiled:
 * with a stride of 2, the gradient of the input too has no tap for nothing. Elements outside of the
 * plane are 0.
 *
 * A sum is one chain over the rows of its window, and in each over the columns. The gradient of the
 * weights is added up by a group for each channel and each piece of the samples, in a fixed order.
 *
 * KH, KW: the kernel; SH, SW: strides, 1 or 2; PH, PW: pads, smaller than the kernel; TRANSPOSED: 1
 * for the gradient of the input. Letters: x (N, C, H, W) is read, y (N, C, OH, OW) the result; for
 * the weights' gradient they are the convolution's.
 */
#ifndef WG
#define WG 64
#endif
#ifndef KH
#define KH 3
#define KW 3
#define SH 1
#define SW 1
#define PH 1
#define PW 1
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0
#endif

#define COLUMNS 4
#define ROWS    2

/* Along an axis with kernel K, stride S and pad P: the first and the last element that n results
 * read, beside the place of the first one, and the tap by which result r reads element j. */
#if TRANSPOSED
#define FIRST(K, S, P)      (-(((K)-1 - (P)) / (S)))
#define LAST(K, S, P, n)    (((n)-1 + (P)) / (S))
#define TAP(S, P, r, j)     ((r) + (P) - (S) * (j))
#define PLACE(S, at)        ((at) / (S))
#else
#define FIRST(K, S, P)      (-(P))
#define LAST(K, S, P, n)    (((n)-1) * (S) + (K)-1 - (P))
#define TAP(S, P, r, j)     ((j) + (P) - (r) * (S))
#define PLACE(S, at)        ((at) * (S))
#endif
#define LEFT  FIRST(KW, SW, PW)
#define WIDTH (LAST(KW, SW, PW, COLUMNS) - LEFT + 1)

/* Reads row `row` of a plane from column `column` on, WIDTH elements. */
void
read_row(__global const float *plane, int row, int column, int h, int w, float *values)
{
    bool inside = (uint)row < (uint)h;

#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        values[i] = inside && (uint)(column + i) < (uint)w ? plane[row * w + column + i] : 0.f;
}

__kernel YKI_GROUP(WG, 1) void
yki_depthwise(__global const float *x, __global const float *weight, __global const float *bias,
              __global float *y, int samples, int c, int h, int w, int oh, int ow, int has_bias,
              int act)
{
    const uint across = (uint)(ow + COLUMNS - 1) / COLUMNS, down = (uint)(oh + ROWS - 1) / ROWS;
    const uint count = (uint)samples * (uint)c * down * across;

    for (uint at = get_group_id(0) * WG + get_local_id(0); at < count;
         at += get_num_groups(0) * WG) {
        uint line = at / across, plane = line / down, channel = plane % (uint)c;
        int x0 = (int)(at - line * across) * COLUMNS, y0 = (int)(line - plane * down) * ROWS;
        __global const float *from = x + (long)plane * h * w, *w0 = weight + channel * (KH * KW);
        float sum[ROWS][COLUMNS], taps[KH * KW], values[WIDTH];
        float add = has_bias ? bias[channel] : 0.f;

#pragma unroll
        for (int k = 0; k < KH * KW; k++)
            taps[k] = w0[k];
#pragma unroll
        for (int k = 0; k < ROWS * COLUMNS; k++)
            sum[k / COLUMNS][k % COLUMNS] = 0.f;
#pragma unroll
        for (int j = FIRST(KH, SH, PH); j <= LAST(KH, SH, PH, ROWS); j++) {
            read_row(from, PLACE(SH, y0) + j, PLACE(SW, x0) + LEFT, h, w, values);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int ky = TAP(SH, PH, r, j);

                if (ky < 0 || ky >= KH)
                    continue;
#pragma unroll
                for (int i = 0; i < WIDTH; i++) {
#pragma unroll
                    for (int e = 0; e < COLUMNS; e++) {
                        const int kx = TAP(SW, PW, e, i + LEFT);

                        if (kx >= 0 && kx < KW)
                            sum[r][e] = YKI_FMA(values[i], taps[ky * KW + kx], sum[r][e]);
                    }
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            __global float *to = y + ((long)plane * oh + y0 + r) * ow + x0;

#pragma unroll
            for (int e = 0; e < COLUMNS; e++) {
                sum[r][e] += add;
                sum[r][e] = act == 1 && sum[r][e] <= 0.f ? 0.f : sum[r][e];
            }
            if (y0 + r >= oh)
                continue;
#ifndef YKI_LANES_APART /* simulators do not follow a vector made of numbers */
            if ((ow & 3) == 0) { /* then it is a whole vector, aligned as one */
                *(__global float4 *)to = (float4)(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
                continue;
            }
#endif
#pragma unroll
            for (int e = 0; e < COLUMNS; e++)
                if (x0 + e < ow)
                    to[e] = sum[r][e];
        }
    }
}

#if !TRANSPOSED
/* dw (splits, C, KH, KW): the parts of the sum. The grid: channels; splits of the samples. */
__kernel YKI_GROUP(WG, 1) void
yki_depthwise_grad_weight(__global const float *x, __global const float *dy, __global float *dw,
                          int samples, int splits, int c, int h, int w, int oh, int ow)
{
    __local float sums[KH * KW][WG];
    const uint across = (uint)(ow + COLUMNS - 1) / COLUMNS;
    const int channel = get_group_id(0), split = get_group_id(1), item = get_local_id(0);
    const int n0 = (int)((long)samples * split / splits);
    const int n1 = (int)((long)samples * (split + 1) / splits);
    const uint count = (uint)(n1 - n0) * (uint)oh * across;
    float sum[KH * KW], values[WIDTH], d[COLUMNS];

#pragma unroll
    for (int k = 0; k < KH * KW; k++)
        sum[k] = 0.f;
    for (uint at = item; at < count; at += WG) {
        uint line = at / across, n = line / (uint)oh;
        int x0 = (int)(at - line * across) * COLUMNS, y0 = (int)(line - n * (uint)oh);
        long plane = ((long)n0 + n) * c + channel;
        __global const float *from = x + plane * h * w, *gradient = dy + (plane * oh + y0) * ow;

#pragma unroll
        for (int e = 0; e < COLUMNS; e++)
            d[e] = x0 + e < ow ? gradient[x0 + e] : 0.f;
#pragma unroll
        for (int ky = 0; ky < KH; ky++) {
            read_row(from, y0 * SH - PH + ky, x0 * SW - PW, h, w, values);
#pragma unroll
            for (int kx = 0; kx < KW; kx++) {
#pragma unroll
                for (int e = 0; e < COLUMNS; e++)
                    sum[ky * KW + kx] = YKI_FMA(values[e * SW + kx], d[e], sum[ky * KW + kx]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < KH * KW; k++)
        sums[k][item] = sum[k];
    for (int step = WG / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < KH * KW && item < step; k++)
            sums[k][item] += sums[k][item + step];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = item; k < KH * KW; k += WG)
        dw[((long)split * c + channel) * (KH * KW) + k] = sums[k][0];
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_step.cl - causal attention of a few new rows of each stream, whose earlier
 * keys and values are in a cache.
 *
 * A row of x ((heads + 2 shared) D) has queries, keys and values as in attention.cl.
 * It stands at its position in its stream; one at -1 takes no part, and its result
 * is 0. yki_attention_store puts keys and values of all rows into the cache. Then, in a
 * launch of its own, yki_attention_step lets each row look at all positions up to its own.
 *
 * The cache has for each stream and each of the `shared` heads `length` keys and then
 * as many values; `length` is a multiple of BK. The keys lie in blocks of 16, transposed
 * (length / 16, D, 16), so scores of 16 keys are one vector; the values lie as rows of
 * DP numbers.
 *
 * Softmax runs online over blocks of BK keys, as in attention.cl. With WG 1 a group is
 * one work-item, otherwise it has one for each key of a block.
 */
#ifndef D
#define D 64
#endif
#ifndef WG
#define WG 1
#endif

#define BK 64
#define DP ((D + 15) / 16 * 16)
#define KERNEL __kernel YKI_GROUP(WG, 1) void

#if WG == 1
#define VEC 16
#else
#define VEC 1
#endif
#include "vectors.cl"
#include "exact.cl"
#include "exp2.cl"

/* e^x for x <= 0. NaN stays NaN, whatever its bits. */
floatv
yki_exp(floatv x)
{
#if VEC == 1
    return isnan(x) ? x : exp2_down(x * 1.44269504f);
#else
    return select(exp2_down(x * 1.44269504f), x, isnan(x));
#endif
}

KERNEL
yki_attention_store(__global const float *x, __global const int *positions, __global float *cache,
                    int streams, int rows, int heads, int shared, int length)
{
    int width = (heads + 2 * shared) * D, units = streams * rows * shared;

    for (int unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {
        int place = unit / shared, g = unit - place * shared, n = place / rows;
        int at = positions[place];
        __global const float *from = x + (long)place * width + (heads + g) * D;
        __global float *keys = cache + (long)(n * shared + g) * length * (D + DP);
        __global float *values = keys + (long)length * D;

        if (at < 0 || at >= length)
            continue;
        for (int d = get_local_id(0); d < D; d += WG) {
            keys[(long)(at / 16 * D + d) * 16 + (at & 15)] = from[d];
            values[(long)at * DP + d] = from[shared * D + d];
        }
    }
}

#if WG == 1

/* Through an array, as Oclgrind crashes on a half of a vector of 16. */
#define JOIN_LANES(OP)                                                                        \
    {                                                                                         \
        float lanes[16];                                                                      \
                                                                                              \
        vstore16(x, 0, lanes);                                                                \
        for (int apart = 8; apart > 0; apart /= 2)                                            \
            for (int i = 0; i < apart; i++)                                                   \
                lanes[i] = OP(lanes[i], lanes[i + apart]);                                    \
        return lanes[0];                                                                      \
    }
#define ADD(a, b) ((a) + (b))

float
yki_lanes_sum(float16 x) JOIN_LANES(ADD)

float
yki_lanes_top(float16 x) JOIN_LANES(fmax)

/* The result of one query that sees the first `end` keys; 0 if there are none. */
void
yki_attend(__global const float *q, __global const float *keys, __global const float *values,
           int end, float scale, __global float *y)
{
    float16 o[DP / 16];
    float top = -INFINITY, sum = 0.f;
    int d = 0;

    for (int j = 0; j < DP / 16; j++)
        o[j] = (float16)(0.f);
    for (int k0 = 0; k0 < end; k0 += BK) {
        __global const float *block = keys + (long)k0 * D;
        float16 s[BK / 16];
        float weights[BK], before = top, factor;
        int count = min(BK, end - k0);

        for (int v = 0; v < BK / 16; v++)
            s[v] = (float16)(0.f);
        for (d = 0; d < D; d++)
            for (int v = 0; v < BK / 16; v++)
                s[v] = YKI_FMA((float16)(q[d]), vload16(v * D + d, block), s[v]);
        for (int v = 0; v < BK / 16; v++) {
            int16 key = 16 * v + (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

            s[v] = select(s[v] * scale, (float16)(-INFINITY), key >= count);
        }
        top = fmax(before, yki_lanes_top(fmax(fmax(s[0], s[1]), fmax(s[2], s[3]))));
        for (int v = 0; v < BK / 16; v++) {
            s[v] = yki_exp(s[v] - top);
            vstore16(s[v], v, weights);
        }
        factor = yki_exp((float16)(before - top)).s0;
        sum = YKI_FMA(sum, factor, yki_lanes_sum(((s[0] + s[1]) + s[2]) + s[3]));
        for (int j = 0; j < DP / 16; j++)
            o[j] *= factor;
        for (int k = 0; k < count; k++)
            for (int j = 0; j < DP / 16; j++)
                o[j] = YKI_FMA((float16)(weights[k]),
                               vload16(j, values + (long)(k0 + k) * DP), o[j]);
    }
    for (int j = 0; j < DP / 16; j++) {
        float lanes[16];

        vstore16(end > 0 ? QUOTIENT(float16, o[j], sum) : (float16)(0.f), 0, lanes);
        for (d = 16 * j; d < min(16 * j + 16, D); d++)
            y[d] = lanes[d - 16 * j];
    }
}

#else

/* The values of all work-items joined by a tree, for each of them. */
#define JOIN_ITEMS(OP)                                                                        \
    {                                                                                         \
        int lid = (int)get_local_id(0);                                                       \
                                                                                              \
        shares[lid] = x;                                                                      \
        for (int step = WG / 2; step > 0; step /= 2) {                                        \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
            if (lid < step)                                                                   \
                shares[lid] = OP(shares[lid], shares[lid + step]);                            \
        }                                                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        x = shares[0];                                                                        \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        return x;                                                                             \
    }
#define ADD(a, b) ((a) + (b))

float
yki_items_sum(float x, __local float *shares) JOIN_ITEMS(ADD)

float
yki_items_top(float x, __local float *shares) JOIN_ITEMS(fmax)

void
yki_attend(__global const float *q, __global const float *keys, __global const float *values,
           int end, float scale, __global float *y, __local float *shares, __local float *weights)
{
    int lid = (int)get_local_id(0);
    float o[(D + WG - 1) / WG], top = -INFINITY, sum = 0.f;

    for (int j = 0; j < (D + WG - 1) / WG; j++)
        o[j] = 0.f;
    for (int k0 = 0; k0 < end; k0 += BK) {
        __global const float *block = keys + (long)(k0 + lid / 16 * 16) * D + (lid & 15);
        float s = 0.f, before = top, factor;
        int count = min(BK, end - k0);

        for (int d = 0; d < D; d++)
            s = YKI_FMA(q[d], block[d * 16], s);
        s = lid < count ? s * scale : -INFINITY;
        top = fmax(before, yki_items_top(s, shares));
        s = yki_exp(s - top);
        weights[lid] = s;
        factor = yki_exp(before - top);
        sum = YKI_FMA(sum, factor, yki_items_sum(s, shares));
        for (int j = 0; j < (D + WG - 1) / WG; j++) {
            int d = lid + j * WG;

            o[j] *= factor;
            for (int k = 0; d < D && k < count; k++)
                o[j] = YKI_FMA(weights[k], values[(long)(k0 + k) * DP + d], o[j]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int j = 0; j < (D + WG - 1) / WG; j++)
        if (lid + j * WG < D)
            y[lid + j * WG] = end > 0 ? QUOTIENT(float, o[j], sum) : 0.f;
}

#endif

/* y (streams, rows, heads D). A group takes the heads of a row that share keys. */
KERNEL
yki_attention_step(__global const float *x, __global const int *positions,
                   __global const float *cache, __global float *y, int streams, int rows,
                   int heads, int shared, int length, float scale)
{
    int width = (heads + 2 * shared) * D, ratio = heads / shared;
    int units = streams * rows * shared;
#if WG > 1
    __local float shares[WG], weights[WG];
#endif

    for (int unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {
        int n = unit / (rows * shared), rest = unit - n * rows * shared;
        int g = rest / rows, r = rest - g * rows, at = positions[n * rows + r];
        int end = at < 0 || at >= length ? 0 : at + 1;
        long place = (long)n * rows + r;
        __global const float *keys = cache + (long)(n * shared + g) * length * (D + DP);

        for (int h = g * ratio; h < (g + 1) * ratio; h++) {
            __global const float *q = x + place * width + h * D;
            __global float *to = y + (place * heads + h) * D;

#if WG == 1
            yki_attend(q, keys, keys + (long)length * D, end, scale, to);
#else
            yki_attend(q, keys, keys + (long)length * D, end, scale, to, shares, weights);
#endif
        }
    }
}

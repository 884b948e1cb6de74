/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_step.cl - causal attention of a few new rows of each stream, whose earlier
 * keys and values are in a cache.
 *
 * A row of x ((heads + 2 shared) D) has queries, keys and values as in attention.cl.
 * It stands at its position in its stream; one at -1 takes no part, and its result
 * is 0. yki_attention_step puts a stream's only row into the cache and lets it look at all
 * positions up to its own. Where there are several rows, one may look at another one's:
 * yki_attention_store puts them there before, in a launch of its own.
 *
 * The cache has for each stream and each of the `shared` heads `length` keys and then
 * as many values; `length` is a multiple of 64. The keys lie in blocks of 16, transposed
 * (length / 16, D, 16), so scores of 16 keys are one vector; the values lie as rows of
 * DP numbers.
 *
 * Softmax runs online over blocks of BK keys, as in attention.cl. With WG 1 a group is
 * one work-item. Otherwise WG is a multiple of BK, and all loads are of four numbers: an
 * item takes four keys by some of their terms, then four columns of the values by some of
 * their rows. A single stream has too few heads for a GPU, and each of them much to read: with
 * `parts` > 1 several groups share a row, each leaves what it found of `each` keys, and
 * yki_attention_join puts that together.
 */
#ifndef D
#define D 64
#endif
#ifndef WG
#define WG 1
#endif

#define BK 64
#define DP ((D + 15) / 16 * 16)
/* What is left of a part: a sum for each column, the largest score, the sum of the weights. */
#define LEFT (DP + 4)
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

/* How many keys a row at this position sees. */
int
yki_seen(int at, int length)
{
    return at < 0 || at >= length ? 0 : at + 1;
}

/* Puts the key and the value of a row into the cache of its head. */
void
yki_keep(__global const float *from, __global float *keys, int at, int shared, int length)
{
    __global float *values = keys + (long)length * D;

    for (int d = get_local_id(0); d < D; d += WG) {
        keys[(long)(at / 16 * D + d) * 16 + (at & 15)] = from[d];
        values[(long)at * DP + d] = from[shared * D + d];
    }
}

KERNEL
yki_attention_store(__global const float *x, __global const int *positions, __global float *cache,
                    int streams, int rows, int heads, int shared, int length)
{
    int width = (heads + 2 * shared) * D, units = streams * rows * shared;

    for (int unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {
        int place = unit / shared, g = unit - place * shared, n = place / rows;
        int at = positions[place];

        if (at < 0 || at >= length)
            continue;
        yki_keep(x + (long)place * width + (heads + g) * D,
                 cache + (long)(n * shared + g) * length * (D + DP), at, shared, length);
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

/* Heads have at most 256 columns, so at most 64 fours of them, and WG is at least that. */
#define QUADS  (DP / 4)
#define SLICES (WG / QUADS)
#define TERMS  (WG / (BK / 4)) /* items that share the terms of four keys */

#define LOAD4(p) (*(__global const float4 *)(p))

/* The largest score of a block, of which each work-item sees all. */
float
yki_top(__local const float4 *scores)
{
    float4 top = scores[0];

    for (int i = 1; i < BK / 4; i++)
        top = fmax(top, scores[i]);
#ifdef YKI_LANES_APART
    volatile float a = top.s0, b = top.s1, c = top.s2, d = top.s3;

    return fmax(fmax(a, b), fmax(c, d));
#else
    return fmax(fmax(top.s0, top.s1), fmax(top.s2, top.s3));
#endif
}

/* What a group has in local memory. */
typedef struct {
    float q[DP];
    float4 partial[WG], scores[BK / 4], sums[SLICES * QUADS];
    float weights[BK], weight_sums[SLICES];
} board;

/* Of one query, with the keys from `begin` to `end`: leaves the sums of the slices on the board,
 * and returns the largest score. */
float
yki_attend(__local board *b, __global const float *keys, __global const float *values, int begin,
           int end, float scale)
{
    int lid = (int)get_local_id(0), slice = lid / QUADS, column = lid - slice * QUADS;
    int quad = lid & 3, term = lid / 4 & (TERMS - 1), sixteen = lid / (4 * TERMS);
    __local const float *partial = (__local const float *)b->partial;
    __local float *scores = (__local float *)b->scores;
    float top = -INFINITY, sum = 0.f;
    float4 o = (float4)(0.f);

    for (int k0 = begin; k0 < end; k0 += BK) {
        __global const float *block = keys + (long)(k0 + 16 * sixteen) * D + 4 * quad;
        float4 four = (float4)(0.f);
        float s = 0.f, before = top, factor;
        int count = min(BK, end - k0);

        for (int i = 0; i < (D + TERMS - 1) / TERMS; i++) {
            int d = i * TERMS + term;

            if (D % TERMS == 0 || d < D)
                four = YKI_FMA((float4)(b->q[d]), LOAD4(block + d * 16), four);
        }
        b->partial[term * (BK / 4) + 4 * sixteen + quad] = four;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < BK) {
            for (int i = 0; i < TERMS; i++)
                s += partial[i * BK + lid];
            s = lid < count ? s * scale : -INFINITY;
            scores[lid] = s;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        top = fmax(before, yki_top(b->scores));
        if (lid < BK)
            b->weights[lid] = yki_exp(s - top);
        factor = yki_exp(before - top);
        barrier(CLK_LOCAL_MEM_FENCE);
        sum *= factor;
        o *= factor;
        for (int k = slice; slice < SLICES && k < count; k += SLICES) {
            float weight = b->weights[k];

            sum += weight;
            o = YKI_FMA((float4)(weight), LOAD4(values + (long)(k0 + k) * DP + 4 * column), o);
        }
    }
    if (slice < SLICES)
        b->sums[lid] = o;
    if (slice < SLICES && column == 0)
        b->weight_sums[slice] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    return top;
}

/* The result of a query that sees `end` keys from the board; of a part what yki_attention_join
 * needs. */
void
yki_leave(__local const board *b, float top, __global float *y, int end, bool whole)
{
    __local const float *sums = (__local const float *)b->sums;
    float weights = b->weight_sums[0];

    for (int slice = 1; slice < SLICES; slice++)
        weights += b->weight_sums[slice];
    for (int d = (int)get_local_id(0); d < D; d += WG) {
        float sum = sums[d];

        for (int slice = 1; slice < SLICES; slice++)
            sum += sums[slice * DP + d];
        y[d] = !whole ? sum : end > 0 ? QUOTIENT(float, sum, weights) : 0.f;
    }
    if (!whole && get_local_id(0) == 0) {
        y[DP] = top;
        y[DP + 1] = weights;
    }
}

/* y (streams, rows, heads, D) from what groups left of their parts. */
KERNEL
yki_attention_join(__global const int *positions, __global const float *left, __global float *y,
                   int streams, int rows, int heads, int length, int parts, int each)
{
    for (int unit = get_group_id(0); unit < streams * rows * heads; unit += get_num_groups(0)) {
        __global const float *from = left + (long)unit * parts * LEFT;
        int end = yki_seen(positions[unit / heads], length);
        int used = (end + each - 1) / each;
        float top = -INFINITY;

        for (int p = 0; p < used; p++)
            top = fmax(top, from[p * LEFT + DP]);
        for (int d = (int)get_local_id(0); d < D; d += WG) {
            float sum = 0.f, weights = 0.f;

            for (int p = 0; p < used; p++) {
                float factor = yki_exp(from[p * LEFT + DP] - top);

                weights = YKI_FMA(from[p * LEFT + DP + 1], factor, weights);
                sum = YKI_FMA(from[p * LEFT + d], factor, sum);
            }
            y[(long)unit * D + d] = used > 0 ? QUOTIENT(float, sum, weights) : 0.f;
        }
    }
}

#endif

/* y (streams, rows, heads, D), or left (streams, rows, heads, parts, LEFT). A group takes the heads
 * of a row that share keys, and one part of these. */
KERNEL
yki_attention_step(__global const float *x, __global const int *positions, __global float *cache,
                   __global float *y, __global float *left, int streams, int rows, int heads,
                   int shared, int length, int parts, int each, float scale)
{
    int width = (heads + 2 * shared) * D, ratio = heads / shared;
    int units = streams * rows * shared * parts;
#if WG > 1
    __local board b;
#endif

    for (int unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {
        int row = unit / parts, part = unit - row * parts;
        int n = row / (rows * shared), rest = row - n * rows * shared;
        int g = rest / rows, r = rest - g * rows, at = positions[n * rows + r];
        int end = yki_seen(at, length);
        int begin = part * each, stop = min(end, begin + each);
        long place = (long)n * rows + r;
        __global float *keys = cache + (long)(n * shared + g) * length * (D + DP);

        if (parts > 1 && begin >= end)
            continue;
        if (rows == 1 && stop == end && end > 0) {
            yki_keep(x + place * width + (heads + g) * D, keys, at, shared, length);
#if WG > 1
            barrier(CLK_GLOBAL_MEM_FENCE);
#endif
        }
        for (int h = g * ratio; h < (g + 1) * ratio; h++) {
            __global const float *q = x + place * width + h * D;
            __global float *to = y + (place * heads + h) * D;

#if WG == 1
            yki_attend(q, keys, keys + (long)length * D, end, scale, to);
#else
            float top;

            for (int d = (int)get_local_id(0); d < D; d += WG)
                b.q[d] = q[d];
            barrier(CLK_LOCAL_MEM_FENCE);
            top = yki_attend(&b, keys, keys + (long)length * D, begin, stop, scale);
            if (parts > 1)
                to = left + ((place * heads + h) * parts + part) * LEFT;
            yki_leave(&b, top, to, end, parts == 1);
#endif
        }
    }
}

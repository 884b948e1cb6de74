/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_groups.cl - batch normalisation for devices whose work-items run side by side.
 *
 * x is (N, C, area) in vectors of VEC floats, `wide` of them a row. A channel is
 * `positions` vectors, N rows of them. A group takes a piece of COLUMNS channels, with
 * ITEMS work-items for each: all for one channel, or, where the area is 1, neighbours
 * for neighbouring channels. The work-items of a channel walk side by side; a step
 * adds to an address and carries into the next row, so nothing is divided on the way.
 * KEEP vectors are on their way to a work-item at a time.
 *
 * Statistics come in parts, (parts, 3, C): count, mean, M2. Each is a statistic by
 * itself; those without elements have count 0. With PIVOTS, means are differences from
 * the channel's pivot, and the pivots (C) stand behind the parts. Who needs the
 * statistics joins the parts of its channel, in a fixed order. So no launch is needed
 * between the two passes over x. Sums for the gradient are (parts, 2, C), in the same
 * way. winograd_tiles.cl writes parts of both as well.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 256
#endif
#ifndef KEEP
#define KEEP 4
#endif
#ifndef COLUMNS
#define COLUMNS 1
#endif
#ifndef AT /* the type of addresses, in vectors */
#define AT int
#endif

#include "vectors.cl"
#include "exact.cl"
#include "norm_flags.cl"

#define ITEMS  (WG / COLUMNS)
#define ITEM   ((int)get_local_id(0) / COLUMNS)
#define COLUMN ((int)get_local_id(0) & (COLUMNS - 1)) /* a power of 2; no %: see shape.cl */
#include "sum_pairs.cl"

#define KERNEL __kernel YKI_GROUP(WG, 1) void
#define EACH(k) _Pragma("unroll") for (int k = 0; k < KEEP; k++)

/* The channels of a group. This work-item's one is `c`, and `mine` unless it is beyond the last. */
#define FOR_EACH_CHANNEL                                                                       \
    for (int base_ = (int)get_group_id(0) * COLUMNS; base_ < channels;                         \
         base_ += (int)get_num_groups(0) * COLUMNS)
#define CHANNEL(c)                                                                             \
    bool mine = COLUMNS == 1 || base_ + COLUMN < channels;                                     \
    int c = COLUMNS == 1 ? base_ : min(base_ + COLUMN, channels - 1);

/* The pieces of the grid: channels along dimension 0, pieces of a channel along dimension 1. */
#define FOR_EACH_PIECE(piece, pieces)                                                          \
    int chunk_ = (positions + (pieces)-1) / (pieces);                                          \
    for (int piece = (int)get_group_id(1); piece < (pieces); piece += (int)get_num_groups(1))  \
        FOR_EACH_CHANNEL

/* The walk of this work-item over positions first..end of channel c: `pos` is its position, and
 * `at` the vector there. */
#define WALK(c, piece)                                                                         \
    int first = min((piece)*chunk_, positions);                                                \
    int end = mine ? min(first + chunk_, positions) : first;                                   \
    int pos = first + ITEM, row_ = pos / wide, in_row_ = pos - row_ * wide;                    \
    int rows_ = ITEMS / wide, turn_ = ITEMS - rows_ * wide;                                    \
    AT at = ((AT)row_ * channels + (c)) * wide + in_row_;                                      \
    AT stride_ = (AT)rows_ * channels * wide + turn_, carry_ = (AT)(channels - 1) * wide;
#define STEP                                                                                   \
    {                                                                                          \
        at += stride_;                                                                         \
        in_row_ += turn_;                                                                      \
        if (in_row_ >= wide) {                                                                 \
            in_row_ -= wide;                                                                   \
            at += carry_;                                                                      \
        }                                                                                      \
        pos += ITEMS;                                                                          \
    }
/* How many of the next KEEP vectors exist. */
#define SOME min((end - pos + ITEMS - 1) / ITEMS, KEEP)

/* More bits of `flags`. */
#define WRITE    8 /* the group of a channel's first piece writes the joined statistics or sums */
#define PIVOTS   16

/* ---- statistics ---- */

/* Merges another (count, mean, m2), which is not empty, into this one. */
#define MERGE(count, mean, m2, other_count, other_mean, other_m2)                              \
    {                                                                                          \
        float total_ = (count) + (other_count), share_ = QUOTIENT(float, other_count, total_); \
        float delta_ = (other_mean) - (mean);                                                  \
        (m2) += (other_m2) + delta_ * delta_ * ((count)*share_);                               \
        (mean) += delta_ * share_;                                                             \
        (count) = total_;                                                                      \
    }

/* A work-item merges the statistics of KEEP vectors at a time, each exact in itself, so nothing
 * cancels. Until the end means are differences from the channel's first element. */
KERNEL
yki_bn_parts(__global const float *x, __global float *part, int positions, int channels, int wide,
             int parts, int flags)
{
    __local float2 sums[WG];
    __global const floatv *in = (__global const floatv *)x;

    FOR_EACH_PIECE(p, parts)
    {
        CHANNEL(c)
        float pivot = positions > 0 ? x[(long)c * wide * VEC] : 0.f;
        float count = 0.f, mean = 0.f, m2 = 0.f, size, delta;
        __global float *out = part + (long)p * 3 * channels + c;
        WALK(c, p)

        while (pos < end) {
            int some = SOME;
            floatv v[KEEP], sum = 0.f, squares = 0.f;
            float own, own_mean;

            EACH(k)
            {
                v[k] = 0.f;
                if (k < some)
                    v[k] = in[at] - pivot;
                STEP
            }
            EACH(k) sum += v[k];
            own = (float)(some * VEC);
            own_mean = QUOTIENT(float, yki_sum_few_lanes(sum), own);
            EACH(k)
            {
                floatv d = v[k] - own_mean;

                if (k < some)
                    squares = YKI_FMA(d, d, squares);
            }
            MERGE(count, mean, m2, own, own_mean, yki_sum_few_lanes(squares))
        }
        size = (float)(end - first) * VEC;
        delta = QUOTIENT(float, yki_sum_pairs((float2)(count * mean, 0.f), ITEMS, sums).x, max(size, 1.f));
        mean -= delta;
        m2 = yki_sum_pairs((float2)(YKI_FMA(count * mean, mean, m2), 0.f), ITEMS, sums).x;
        if (ITEM == 0 && mine) {
            out[0] = size;
            out[channels] = flags & PIVOTS ? delta : delta + pivot;
            out[2 * channels] = m2;
            if ((flags & PIVOTS) && p == 0)
                part[(long)parts * 3 * channels + c] = pivot;
        }
    }
}

/* The work-items that join parts, and the parts of this one. */
#define JOINERS      (ITEMS < 32 ? ITEMS : 32)
#define EACH_PART(k) for (int k = ITEM < JOINERS ? ITEM : parts; k < parts; k += JOINERS)

/* (count, mean, M2, 0) of channel c. Single floats until the end: lanes that move from vector to
 * vector would be shuffled (docs/drivers.md). */
float4
yki_join_statistics(__global const float *part, int parts, int channels, int c, int flags,
                    __local float2 *sums)
{
    float count = part[c], mean = part[channels + c], m2 = part[2 * channels + c];
    __local float *first = (__local float *)(sums + COLUMN);

    if (parts > 1) {
        float pivot = mean, moved = 0.f;

        count = m2 = 0.f;
        EACH_PART(k)
        {
            __global const float *p = part + (long)k * 3 * channels + c;

            count += p[0];
            moved += p[0] * (p[channels] - pivot);
        }
        yki_sum_pairs((float2)(count, moved), JOINERS, sums);
        count = first[0];
        moved = QUOTIENT(float, first[1], max(count, 1.f));
        mean = pivot + moved;
        EACH_PART(k)
        {
            __global const float *p = part + (long)k * 3 * channels + c;
            float d = p[channels] - pivot - moved;

            m2 += YKI_FMA(p[0] * d, d, p[2 * channels]);
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* all have read `first` */
        yki_sum_pairs((float2)(m2, 0.f), JOINERS, sums);
        m2 = first[0];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (flags & PIVOTS)
        mean += part[(long)parts * 3 * channels + c];
    return (float4)(count, mean, m2, 0.f);
}

/* (sum, dot) of channel c. */
float2
yki_join_sums(__global const float *part, int parts, int channels, int c, __local float2 *sums)
{
    float2 s = (float2)(part[c], part[channels + c]);

    if (parts > 1) {
        s = 0.f;
        EACH_PART(k)
        {
            __global const float *p = part + (long)k * 2 * channels + c;

            s += (float2)(p[0], p[channels]);
        }
        s = yki_sum_pairs(s, JOINERS, sums);
    }
    return s;
}

KERNEL
yki_bn_join(__global const float *part, __global float *stats, int channels, int parts, int flags)
{
    __local float2 sums[WG];

    FOR_EACH_CHANNEL
    {
        CHANNEL(c)
        float4 s = yki_join_statistics(part, parts, channels, c, flags, sums);

        if (ITEM == 0 && mine) {
            stats[c] = s.x;
            stats[channels + c] = s.y;
            stats[2 * channels + c] = s.z;
        }
    }
}

KERNEL
yki_bn_join_sums(__global const float *part, __global float *out, int channels, int parts,
                 int flags)
{
    __local float2 sums[WG];

    FOR_EACH_CHANNEL
    {
        CHANNEL(c)
        float2 s = yki_join_sums(part, parts, channels, c, sums);

        if (ITEM == 0 && mine) {
            out[c] = s.x;
            out[channels + c] = s.y;
        }
    }
}

/* ---- y = (x - mean) / deviation * gamma + beta (+ residual), with relu at least 0 ---- */

#define STATISTICS(s)                                                                          \
    float count = max((s).x, 1.f), mean = (s).y, inverse = INVERSE(float, (s).x, (s).z);       \
    float scale = inverse * (flags & AFFINE ? gamma[c] : 1.f);

/* A comparison that is false for NaN keeps it. */
KERNEL
yki_bn_apply_parts(__global const float *x, __global const float *part,
                   __global const float *gamma, __global const float *beta,
                   __global const float *residual, __global float *y, __global float *stats,
                   int positions, int channels, int wide, int pieces, int parts, int flags,
                   float epsilon)
{
    __local float2 sums[WG];
    __global const floatv *in = (__global const floatv *)x;
    __global const floatv *more = (__global const floatv *)residual;
    __global floatv *out = (__global floatv *)y;

    FOR_EACH_PIECE(piece, pieces)
    {
        CHANNEL(c)
        float4 s = yki_join_statistics(part, parts, channels, c, flags, sums);
        STATISTICS(s)
        float shift = flags & AFFINE ? beta[c] : 0.f;

        WALK(c, piece)

        (void)count;
        if ((flags & WRITE) && piece == 0 && ITEM == 0 && mine) {
            stats[c] = s.x;
            stats[channels + c] = s.y;
            stats[2 * channels + c] = s.z;
        }
        while (pos < end) {
            floatv v[KEEP], r[KEEP];
            AT to[KEEP];
            int some = SOME;

            EACH(k)
            {
                to[k] = at;
                if (k < some) {
                    v[k] = in[at];
                    if (flags & RESIDUAL)
                        r[k] = more[at];
                }
                STEP
            }
            EACH(k)
            {
                v[k] = YKI_FMA(v[k] - mean, (floatv)(scale), (floatv)(shift));
                if (flags & RESIDUAL)
                    v[k] += r[k];
                if (flags & RELU)
                    v[k] = select(v[k], (floatv)(0.f), v[k] <= 0.f);
                if (k < some)
                    out[to[k]] = v[k];
            }
        }
    }
}

/* ---- sums for the gradient: dy, and dy times the normalised x ---- */

/* With RELU, dy is the gradient after the activation. Where the normalisation, computed as
 * above, is not above 0, nothing passes. `difference` is from the mean. */
#define GATE(g, difference)                                                                    \
    (flags & RELU ? select(g, (floatv)(0.f),                                                   \
                           YKI_FMA(difference, (floatv)(scale), (floatv)(shift)) <= 0.f)       \
                  : (g))
#define GATE_SHIFT (flags & RELU && flags & AFFINE ? beta[c] : 0.f)

KERNEL
yki_bn_grad_parts(__global const float *x, __global const float *dy, __global const float *stats,
                  __global const float *gamma, __global const float *beta, __global float *part,
                  int positions, int channels, int wide, int parts, int flags, float epsilon)
{
    __local float2 sums[WG];
    __global const floatv *in = (__global const floatv *)x, *grad = (__global const floatv *)dy;

    FOR_EACH_PIECE(p, parts)
    {
        CHANNEL(c)
        __global float *out = part + (long)p * 2 * channels + c;
        float4 s = (float4)(stats[c], stats[channels + c], stats[2 * channels + c], 0.f);
        STATISTICS(s)
        float shift = GATE_SHIFT;
        floatv sum = 0.f, dot = 0.f;
        float2 all;
        WALK(c, p)

        (void)count;
        while (pos < end) {
            int some = SOME;
            floatv v[KEEP], g[KEEP];

            EACH(k)
            {
                v[k] = g[k] = 0.f;
                if (k < some) {
                    v[k] = in[at];
                    g[k] = grad[at];
                }
                STEP
            }
            EACH(k)
            {
                floatv e = v[k] - mean, d = GATE(g[k], e);

                sum += d;
                dot = YKI_FMA(d, e, dot);
            }
        }
        all = yki_sum_pairs((float2)(yki_sum_few_lanes(sum), yki_sum_few_lanes(dot)), ITEMS, sums);
        if (ITEM == 0 && mine) {
            out[0] = all.x;
            out[channels] = all.y * inverse;
        }
    }
}

/* ---- dx = gamma / deviation * (dy - mean of dy - normalised x * mean of their product) ---- */

KERNEL
yki_bn_grad_apply(__global const float *x, __global const float *dy, __global const float *stats,
                  __global const float *part, __global const float *gamma,
                  __global const float *beta, __global float *dx, __global float *total_sum,
                  __global float *total_dot, int dot_at, int positions, int channels, int wide,
                  int pieces, int parts, int flags, float epsilon)
{
    __local float2 sums[WG];
    __global const floatv *in = (__global const floatv *)x, *grad = (__global const floatv *)dy;
    __global floatv *out = (__global floatv *)dx;

    FOR_EACH_PIECE(piece, pieces)
    {
        CHANNEL(c)
        float4 s = (float4)(stats[c], stats[channels + c], stats[2 * channels + c], 0.f);
        STATISTICS(s)
        float shift = GATE_SHIFT;
        WALK(c, piece)
        float2 all = yki_join_sums(part, parts, channels, c, sums);
        float offset = QUOTIENT(float, all.x, count), slope = QUOTIENT(float, -all.y * inverse, count);

        if ((flags & WRITE) && piece == 0 && ITEM == 0 && mine) {
            total_sum[c] = all.x;
            total_dot[dot_at + c] = all.y;
        }
        while (pos < end) {
            floatv v[KEEP], g[KEEP];
            AT to[KEEP];
            int some = SOME;

            EACH(k)
            {
                to[k] = at;
                if (k < some) {
                    v[k] = in[at];
                    g[k] = grad[at];
                }
                STEP
            }
            EACH(k)
            {
                floatv e = v[k] - mean, d = GATE(g[k], e);

                if (k < some)
                    out[to[k]] = YKI_FMA(e, (floatv)(slope), d - offset) * scale;
            }
        }
    }
}

/* ---- the gradient of a bias: part is (parts, C), the sums of the channels ---- */

KERNEL
yki_channel_sums(__global const float *dy, __global float *part, int positions, int channels,
                 int wide, int parts)
{
    __local float2 sums[WG];
    __global const floatv *in = (__global const floatv *)dy;

    FOR_EACH_PIECE(p, parts)
    {
        CHANNEL(c)
        floatv sum = 0.f;
        float all;
        WALK(c, p)

        while (pos < end) {
            int some = SOME;
            floatv v[KEEP];

            EACH(k)
            {
                v[k] = 0.f;
                if (k < some)
                    v[k] = in[at];
                STEP
            }
            EACH(k) sum += v[k];
        }
        all = yki_sum_pairs((float2)(yki_sum_few_lanes(sum), 0.f), ITEMS, sums).x;
        if (ITEM == 0 && mine)
            part[(long)p * channels + c] = all;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm_groups.cl - all gradients of the normalisation of rows, for devices whose work-items
 * run side by side (layer_norm.cl has each by itself).
 *
 * SHARE items, a power of 2, have a row, of which each keeps KEEP vectors in registers: so x and dy
 * are read once. A group does WG / SHARE rows at a time. An item has the same columns in all its
 * rows, and adds up what they give to the gradients of gamma and beta. With RMS 1 there is no mean
 * and no beta.
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
#ifndef KEEP
#define KEEP 3
#endif
#ifndef RMS
#define RMS 0
#endif

#include "vectors.cl"
#include "exact.cl"
#include "sum_columns.cl"

#define KERNEL __kernel YKI_GROUP(WG, 1) void
#define ROWS   (WG / SHARE)
#define EACH_VECTOR(k, i)                                                                      \
    _Pragma("unroll") for (int k = 0, i = sub * VEC; k < KEEP; k++, i += SHARE * VEC)

/* The sum over the items of a row, for all of them; in `sums` each item has its own before. */
static float
yki_share(__local const float4 *sums)
{
    __local const float4 *from = sums + (int)get_local_id(0) / SHARE * (SHARE / 4);
    float4 sum = 0.f;
    float lanes[4];

#pragma unroll
    for (int k = 0; k < SHARE / 4; k++)
        sum += from[k];
    vstore4(sum, 0, lanes);
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/* The sum of all lanes of v, over the items of a row. `sums` was last read before a barrier. */
static float
yki_row_sum(const floatv *v, __local float4 *sums)
{
    floatv own = v[0];

#pragma unroll
    for (int k = 1; k < KEEP; k++)
        own += v[k];
    ((__local float *)sums)[get_local_id(0)] = yki_sum_few_lanes(own);
    barrier(CLK_LOCAL_MEM_FENCE);
    return yki_share(sums);
}

/* The sum of v over the group's rows, for the items of the first. */
static floatv
yki_column_sum(floatv v, __local floatv *sums)
{
    int lid = (int)get_local_id(0);

    sums[lid] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int apart = ROWS / 2; apart > 0; apart /= 2) {
        if (lid < apart * SHARE)
            sums[lid] += sums[lid + apart * SHARE];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    v = sums[lid];
    barrier(CLK_LOCAL_MEM_FENCE);
    return v;
}

/* dx as yki_ln_grad has it. part is (1 or 2, groups, width): of the group's rows, the sums of dy
 * (not with RMS), and those of dy times the normalised x. */
KERNEL
yki_ln_grads(__global const float *x, __global const float *dy, __global const float *gamma,
             __global float *dx, __global float *part, int rows, int width, float epsilon)
{
    __local float4 means[WG / 4], squares[WG / 4], slopes[WG / 4], dots[WG / 4];
    __local floatv columns[WG];
    int sub = (int)get_local_id(0) & (SHARE - 1), slot = (int)get_local_id(0) / SHARE;
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    floatv sum_dy[KEEP], sum_dot[KEEP];

    EACH_VECTOR(k, i)
        sum_dy[k] = sum_dot[k] = 0.f;
    for (int first = group * ROWS; first < rows; first += groups * ROWS) {
        bool there = first + slot < rows;
        long at = (long)(first + slot) * width;
        floatv v[KEEP], g[KEEP], t[KEEP];
        float mean = 0.f, inverse, slope = 0.f, dot;

        EACH_VECTOR(k, i)
        {
            v[k] = g[k] = 0.f;
            if (there && i < width) {
                v[k] = LOADV(0, x + at + i);
                g[k] = LOADV(0, dy + at + i);
            }
        }
        if (!RMS)
            mean = QUOTIENT(float, yki_row_sum(v, means), width);
        EACH_VECTOR(k, i)
        {
            v[k] = i < width ? v[k] - mean : 0.f;
            t[k] = v[k] * v[k];
        }
        inverse = INVERSE_ROOT(float, QUOTIENT(float, yki_row_sum(t, squares), width) + epsilon);
        EACH_VECTOR(k, i)
        {
            sum_dy[k] += g[k];
            sum_dot[k] = YKI_FMA(g[k], v[k] * inverse, sum_dot[k]);
            if (i < width)
                g[k] *= LOADV(0, gamma + i);
            t[k] = g[k] * v[k];
        }
        if (!RMS)
            slope = QUOTIENT(float, yki_row_sum(g, slopes), width);
        dot = QUOTIENT(float, -yki_row_sum(t, dots) * inverse * inverse, width);
        EACH_VECTOR(k, i)
            if (there && i < width)
                STOREV(YKI_FMA(v[k], (floatv)(dot), g[k] - slope) * inverse, 0, dx + at + i);
    }
    EACH_VECTOR(k, i)
    {
        floatv sum = yki_column_sum(sum_dot[k], columns);
        __global float *to = part + (long)group * width + i;

        if (slot == 0 && i < width)
            STOREV(sum, 0, to + (RMS ? 0 : (long)groups * width));
        if (!RMS) {
            sum = yki_column_sum(sum_dy[k], columns);
            if (slot == 0 && i < width)
                STOREV(sum, 0, to);
        }
    }
}

/* The sums over the parts: the second index of the grid selects one of the two. */
KERNEL
yki_ln_join(__global const float *part, __global float *first, __global float *second, int parts,
            int width, int across)
{
    __local float4 sums[WG];
    int which = (int)get_group_id(1);

    for (int c0 = (int)get_group_id(0) * 4 * across; c0 < width;
         c0 += (int)get_num_groups(0) * 4 * across)
        sum_columns(sums, (int)get_local_id(0), across, WG / across,
                    part + (long)which * parts * width, parts, width, c0,
                    which ? second : first);
}

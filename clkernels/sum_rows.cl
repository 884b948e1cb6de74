/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_rows.cl - sums of rows of a matrix, in a fixed order, and of the parts into which
 * matrix products are divided.
 *
 * SUM_WG is the work-items of a group: 1 on processors, where an item has VEC columns. Elsewhere
 * an item has 4 columns.
 */
#ifndef SUM_WG
#define SUM_WG 1
#endif
#ifndef VEC
#define VEC 4
#endif

#include "sum_columns.cl"

#define FLAG_BIAS 1
#define FLAG_RELU 2
#define FLAG_GATE 64

/* out[i] = parts[0][i] + parts[1][i] + ...; each part has `count` elements, and i % columns is
 * the column. `more` is the bias, or the gate: 0 where that is not positive. Relu is max(x, 0); NaN
 * stays NaN. */
__kernel YKI_GROUP(SUM_WG, 1) void
yki_gemm_finish(__global const float *parts, __global float *out, __global const float *more,
                int count, int part_count, int columns, int flags)
{
    int first = (int)get_global_id(0), step = (int)get_global_size(0);

    if (columns % 4 == 0)
        for (int i = first; i < count / 4; i += step) {
            __global const float4 *from = (__global const float4 *)parts + i;
            float4 sum = 0.f;

#pragma unroll 4
            for (int p = 0; p < part_count; p++, from += count / 4)
                sum += *from;
            if (flags & FLAG_BIAS)
                sum += ((__global const float4 *)more)[i % (columns / 4)];
            if (flags & FLAG_RELU)
                sum = select(sum, (float4)(0.f), sum <= 0.f);
            if (flags & FLAG_GATE)
                sum = select(sum, (float4)(0.f), ((__global const float4 *)more)[i] <= 0.f);
            ((__global float4 *)out)[i] = sum;
        }
    else
        for (int i = first; i < count; i += step) {
            float sum = 0.f;

            for (int p = 0; p < part_count; p++)
                sum += parts[(long)p * count + i];
            if (flags & FLAG_BIAS)
                sum += more[i % columns];
            if ((flags & FLAG_RELU && sum <= 0.f) || (flags & FLAG_GATE && more[i] <= 0.f))
                sum = 0.f;
            out[i] = sum;
        }
}

/* out[part][c] = sum over the part's rows of x[row][c]. A work-item has VEC columns. */
__kernel YKI_GROUP(SUM_WG, 1) void
yki_sum_rows(__global const float *x, __global float *out, int rows, int columns)
{
    int part = (int)get_group_id(1), parts = (int)get_num_groups(1);
    int row0 = (int)((long)rows * part / parts), row1 = (int)((long)rows * (part + 1) / parts);

    for (int c = (int)get_global_id(0) * VEC; c < columns; c += (int)get_global_size(0) * VEC) {
        int width = min(VEC, columns - c);
        __global const float *from = x + (long)row0 * columns + c;
        float sum[VEC];

        for (int j = 0; j < VEC; j++)
            sum[j] = 0.f;
        if (width == VEC)
            for (int row = row0; row < row1; row++, from += columns)
                for (int j = 0; j < VEC; j++)
                    sum[j] += from[j];
        else
            for (int row = row0; row < row1; row++, from += columns)
                for (int j = 0; j < width; j++)
                    sum[j] += from[j];
        for (int j = 0; j < width; j++)
            out[(long)part * columns + c + j] = sum[j];
    }
}

/* The same where items run side by side: `across` of them, a power of 2, have neighbouring
 * columns, 4 each; the others of the group have other rows. Their sums are added as a tree. */
__kernel YKI_GROUP(SUM_WG, 1) void
yki_sum_rows_tree(__global const float *x, __global float *out, int rows, int columns, int across)
{
    __local float4 sums[SUM_WG];
    int part = (int)get_group_id(1), parts = (int)get_num_groups(1);
    int row0 = (int)((long)rows * part / parts), row1 = (int)((long)rows * (part + 1) / parts);
    int width = 4 * across;

    for (int c0 = (int)get_group_id(0) * width; c0 < columns;
         c0 += (int)get_num_groups(0) * width)
        sum_columns(sums, (int)get_local_id(0), across, SUM_WG / across,
                    x + (long)row0 * columns, row1 - row0, columns, c0,
                    out + (long)part * columns);
}

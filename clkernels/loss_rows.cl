/* SPDX-License-Identifier: Apache-2.0
 *
 * loss_rows.cl - softmax cross-entropy and its gradient where the classes of a position
 * lie side by side: rows.
 *
 * A group takes whole rows, and its work-items vectors of a row in rotation: one
 * work-item with a wide vector on CPUs, many elsewhere. Each row gives a pair, its loss
 * and 1; an ignored one gives two zeros. A label that is no class gives NaN.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 1
#endif
#ifndef LABEL
#define LABEL int
#endif

#include "vectors.cl"
#include "exact.cl"
#include "exp2.cl"
#include "math.cl"

#define LOG2E  1.442695041f
#define KERNEL __kernel YKI_GROUP(WG, 1) void

/* Vector i of a row; beyond its end stands `fill`. */
floatv
yki_some(__global const float *row, int i, int width, float fill)
{
    float part[VEC];

    if (i + VEC <= width)
        return LOADV(0, row + i);
    for (int k = 0; k < VEC; k++)
        part[k] = i + k < width ? row[i + k] : fill;
    return loadv(0, part);
}

void
yki_put_some(floatv v, __global float *row, int i, int width)
{
    float part[VEC];

    if (i + VEC <= width) {
        STOREV(v, 0, row + i);
        return;
    }
    storev(v, 0, part);
    for (int k = 0; k < VEC && i + k < width; k++)
        row[i + k] = part[k];
}

#define JOIN(name, OP)                                                                         \
    float name(floatv v, __local float *parts)                                                 \
    {                                                                                          \
        float lanes[VEC], own;                                                                 \
                                                                                               \
        storev(v, 0, lanes);                                                                   \
        own = lanes[0];                                                                        \
        for (int k = 1; k < VEC; k++)                                                          \
            own = OP(own, lanes[k]);                                                           \
        if (WG > 1) {                                                                          \
            parts[get_local_id(0)] = own;                                                      \
            barrier(CLK_LOCAL_MEM_FENCE);                                                      \
            for (int step = WG / 2; step > 0; step /= 2) {                                     \
                if ((int)get_local_id(0) < step)                                               \
                    parts[get_local_id(0)] =                                                   \
                        OP(parts[get_local_id(0)], parts[get_local_id(0) + step]);             \
                barrier(CLK_LOCAL_MEM_FENCE);                                                  \
            }                                                                                  \
            own = parts[0];                                                                    \
            barrier(CLK_LOCAL_MEM_FENCE);                                                      \
        }                                                                                      \
        return own;                                                                            \
    }
#define ADD(a, b) ((a) + (b))
JOIN(yki_join_largest, fmax)
JOIN(yki_join_sum, ADD)

#define FOR_EACH_VECTOR(i) for (int i = (int)get_local_id(0) * VEC; i < width; i += WG * VEC)

/* With -DSCALED gradients are multiplied by the loss scale, word 8 of the step values (update.cl). */
#if SCALED
#define SCALE_PARAM , __global const uint *values
#define SCALED_BY   *as_float(values[8])
#else
#define SCALE_PARAM
#define SCALED_BY
#endif

/* x and grad are (rows, width) and may be one; target and pairs begin at row `first`. */
KERNEL
yki_ce_rows(__global const float *x, __global const LABEL *target, __global float *grad,
            __global float *pairs, int rows, int first, int width, int has_ignore, int ignore,
            float smoothing, int with_grad SCALE_PARAM)
{
    __local float parts[WG];
    long groups = (long)get_num_groups(0), group = (long)get_group_id(0);

    for (long row = rows * group / groups; row < rows * (group + 1) / groups; row++) {
        __global const float *p = x + row * width;
        int label = (int)target[first + row];
        int ignored = has_ignore && label == ignore, good = label >= 0 && label < width;
        float picked = p[good ? label : 0], none = ignored ? 0.f : NAN, largest, sum, all;
        floatv m = -INFINITY, s = 0.f, a = 0.f;

        FOR_EACH_VECTOR(i)
            m = fmax(m, yki_some(p, i, width, -INFINITY));
        largest = yki_join_largest(m, parts);
        if (WG > 1) /* all have read their picked logit before one of them writes a gradient there */
            barrier(CLK_GLOBAL_MEM_FENCE);
        FOR_EACH_VECTOR(i)
        {
            s += exp2_down((yki_some(p, i, width, -INFINITY) - largest) * LOG2E);
            if (smoothing > 0.f)
                a += yki_some(p, i, width, largest) - largest;
        }
        sum = yki_join_sum(s, parts);
        all = smoothing > 0.f ? yki_join_sum(a, parts) : 0.f;
        if (get_local_id(0) == 0) {
            float log_sum = YKI_LOG(float, sum), loss = largest - picked + log_sum;

            if (smoothing > 0.f)
                loss = YKI_FMA(1.f - smoothing, loss, smoothing * (log_sum - QUOTIENT(float, all, width)));
            vstore2(good && !ignored ? (float2)(loss, 1.f) : (float2)(none, ignored ? 0.f : 1.f),
                    first + row, pairs);
        }
        sum = QUOTIENT(float, 1.f, sum);
        if (with_grad)
            FOR_EACH_VECTOR(i)
            {
                floatv v = yki_some(p, i, width, largest) - largest;

                v = YKI_FMA(exp2_down(v * LOG2E), (floatv)(sum), (floatv)(QUOTIENT(float, -smoothing, width)));
                yki_put_some(good && !ignored ? v SCALED_BY : (floatv)(none), grad + row * width, i, width);
            }
        if (with_grad && good && !ignored && (int)get_local_id(0) == label / VEC % WG)
            grad[row * width + label] -= (1.f - smoothing) SCALED_BY;
    }
}

/* The pairs of each sample's `length` rows, in their order: several work-items fetch them for the
 * one that adds. */
KERNEL
yki_sum_pairs(__global const float *pairs, __global float *out, int samples, int length)
{
    long groups = (long)get_num_groups(0), group = (long)get_group_id(0);
#if WG > 1
    __local float2 some[WG];
    int lid = (int)get_local_id(0);
#endif

    for (long n = samples * group / groups; n < samples * (group + 1) / groups; n++) {
        float2 sum = (float2)(0.f, 0.f);

#if WG == 1
        for (int t = 0; t < length; t++)
            sum += vload2(n * length + t, pairs);
        vstore2(sum, n, out);
#else
        for (int first = 0; first < length; first += WG) {
            int here = min(length - first, WG);

            if (lid < here)
                some[lid] = vload2(n * length + first + lid, pairs);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lid == 0)
                for (int t = 0; t < here; t++)
                    sum += some[t];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (lid == 0)
            vstore2(sum, n, out);
#endif
    }
}

/* Copies rows: from row `from_row` of one tensor to row `to_row` of another. */
KERNEL
yki_copy_rows(__global const float *from, __global float *to, int rows, int from_row, int to_row,
              int width)
{
    long groups = (long)get_num_groups(0), group = (long)get_group_id(0);

    for (long row = rows * group / groups; row < rows * (group + 1) / groups; row++)
        FOR_EACH_VECTOR(i)
            yki_put_some(yki_some(from + (from_row + row) * width, i, width, 0.f),
                         to + (to_row + row) * width, i, width);
}

/* to += from */
KERNEL
yki_add_rows(__global const float *from, __global float *to, int rows, int width)
{
    long groups = (long)get_num_groups(0), group = (long)get_group_id(0);

    for (long row = rows * group / groups; row < rows * (group + 1) / groups; row++)
        FOR_EACH_VECTOR(i)
            yki_put_some(yki_some(to + row * width, i, width, 0.f) +
                             yki_some(from + row * width, i, width, 0.f),
                         to + row * width, i, width);
}

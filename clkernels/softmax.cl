/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax.cl - softmax and its gradient along one axis: x is (rows, length, inner).
 *
 * The largest element is subtracted first, so nothing overflows, and the sum is at
 * least 1. Along the innermost axis (inner 1) a group of WG work-items takes a row,
 * and joins their partial results in a fixed tree. With one work-item a group, the
 * lanes of vectors are joined instead. Along another axis a work-item takes VEC
 * adjacent columns and walks down.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

/* Side by side, VEC divides the length. */
#include "vectors.cl"
#include "exact.cl"
#include "math.cl"
#define KERNEL __kernel YKI_GROUP(WG, 1) void

#if WG == 1
#define JOIN_PARTS(name, OP)                                                                  \
    float name(float own, __local float *parts)                                               \
    {                                                                                         \
        (void)parts;                                                                          \
        return own;                                                                           \
    }
#else
/* WG is a power of two. */
#define JOIN_PARTS(name, OP)                                                                  \
    float name(float own, __local float *parts)                                               \
    {                                                                                         \
        int lid = (int)get_local_id(0);                                                       \
        float all;                                                                            \
                                                                                              \
        parts[lid] = own;                                                                     \
        for (int step = WG / 2; step > 0; step /= 2) {                                        \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
            if (lid < step)                                                                   \
                parts[lid] = OP(parts[lid], parts[lid + step]);                               \
        }                                                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        all = parts[0];                                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        return all;                                                                           \
    }
#endif
#define ADD(a, b) ((a) + (b))
JOIN_PARTS(largest_of_group, fmax)
JOIN_PARTS(sum_of_group, ADD)

/* The lanes of a vector are joined in order. */
float largest_lane(floatv v)
{
    float lanes[VEC], m;

    storev(v, 0, lanes);
    m = lanes[0];
    for (int i = 1; i < VEC; i++)
        m = fmax(m, lanes[i]);
    return m;
}

float sum_of_lanes(floatv v)
{
    float lanes[VEC], sum = 0.f;

    storev(v, 0, lanes);
    for (int i = 0; i < VEC; i++)
        sum += lanes[i];
    return sum;
}

/* A row in vectors, which the work-items take side by side, then the remainder element by
 * element. */
#define FOR_ROW(VECTOR_BODY, SCALAR_BODY)                                                     \
    for (int i = (int)get_local_id(0); i < length / VEC; i += WG) {                           \
        VECTOR_BODY;                                                                          \
    }                                                                                         \
    for (int i = length / VEC * VEC + (int)get_local_id(0); i < length; i += WG) {            \
        SCALAR_BODY;                                                                          \
    }

KERNEL
yki_softmax_rows(__global const float *x, __global float *y, int rows, int length, int inner)
{
    __local float parts[WG];
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int begin = (int)((long)rows * group / groups), end = (int)((long)rows * (group + 1) / groups);

    for (int row = begin; row < end; row++) {
        __global const float *in = x + (long)row * length;
        __global float *out = y + (long)row * length;
        floatv tops = (floatv)(-INFINITY), sums = (floatv)(0.f);
        float top = -INFINITY, sum = 0.f, scale;

        FOR_ROW(tops = fmax(tops, LOADV(i, in)), top = fmax(top, in[i]))
        top = largest_of_group(fmax(top, largest_lane(tops)), parts);
        FOR_ROW(floatv e = YKI_EXP(floatv, LOADV(i, in) - top); sums += e; STOREV(e, i, out),
                float e = YKI_EXP(float, in[i] - top); sum += e; out[i] = e)
        sum = sum_of_group(sum + sum_of_lanes(sums), parts);
        scale = QUOTIENT(float, 1.f, sum);
        FOR_ROW(STOREV(LOADV(i, out) * scale, i, out), out[i] *= scale)
    }
}

KERNEL
yki_softmax_grad_rows(__global const float *y, __global const float *dy, __global float *dx,
                      int rows, int length, int inner)
{
    __local float parts[WG];
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int begin = (int)((long)rows * group / groups), end = (int)((long)rows * (group + 1) / groups);

    for (int row = begin; row < end; row++) {
        __global const float *p = y + (long)row * length, *d = dy + (long)row * length;
        __global float *out = dx + (long)row * length;
        floatv sums = (floatv)(0.f);
        float sum = 0.f;

        FOR_ROW(sums = YKI_FMA(LOADV(i, p), LOADV(i, d), sums), sum = YKI_FMA(p[i], d[i], sum))
        sum = sum_of_group(sum + sum_of_lanes(sums), parts);
        FOR_ROW(STOREV(LOADV(i, p) * (LOADV(i, d) - sum), i, out), out[i] = p[i] * (d[i] - sum))
    }
}

/* One column, or VEC of them. T is float or floatv; AT and PUT load and store the j-th element,
 * given a pointer to the first. */
#define SOFTMAX_COLUMN(T, AT, PUT, in, out)                                                   \
    {                                                                                         \
        T top = AT(0, in), sum = (T)(0.f), scale;                                             \
                                                                                              \
        for (int j = 1; j < length; j++)                                                      \
            top = fmax(top, AT(0, in + (long)j * inner));                                     \
        for (int j = 0; j < length; j++) {                                                    \
            T e = YKI_EXP(T, AT(0, in + (long)j * inner) - top);                                     \
                                                                                              \
            sum += e;                                                                         \
            PUT(e, 0, out + (long)j * inner);                                                 \
        }                                                                                     \
        scale = QUOTIENT(T, 1.f, sum);                                                        \
        for (int j = 0; j < length; j++)                                                      \
            PUT(AT(0, out + (long)j * inner) * scale, 0, out + (long)j * inner);              \
    }

#define GRAD_COLUMN(T, AT, PUT, p, d, out)                                                    \
    {                                                                                         \
        T sum = (T)(0.f);                                                                     \
                                                                                              \
        for (int j = 0; j < length; j++)                                                      \
            sum = YKI_FMA(AT(0, p + (long)j * inner), AT(0, d + (long)j * inner), sum);       \
        for (int j = 0; j < length; j++)                                                      \
            PUT(AT(0, p + (long)j * inner) * (AT(0, d + (long)j * inner) - sum), 0,           \
                out + (long)j * inner);                                                       \
    }

#define AT1(i, p) ((p)[i])
#define PUT1(x, i, p) ((p)[i] = (x))

/* Tasks are pieces of VEC columns; the last piece of a row may be shorter. */
#define FOR_COLUMNS(VECTOR_BODY, SCALAR_BODY)                                                 \
    int pieces = (inner + VEC - 1) / VEC;                                                     \
    long tasks = (long)rows * pieces, groups = get_num_groups(0), group = get_group_id(0);    \
    long begin = tasks * group / groups, end = tasks * (group + 1) / groups;                  \
                                                                                              \
    for (long task = begin + get_local_id(0); task < end; task += WG) {                       \
        long row = task / pieces; /* no %: see shape.cl */                                    \
        int column = (int)(task - row * pieces) * VEC;                                        \
        long at = row * length * inner + column;                                              \
                                                                                              \
        if (column + VEC <= inner)                                                            \
            VECTOR_BODY                                                                       \
        else                                                                                  \
            for (; column < inner; column++, at++)                                            \
                SCALAR_BODY                                                                   \
    }

KERNEL
yki_softmax_columns(__global const float *x, __global float *y, int rows, int length, int inner)
{
    FOR_COLUMNS(SOFTMAX_COLUMN(floatv, LOADV, STOREV, x + at, y + at),
                SOFTMAX_COLUMN(float, AT1, PUT1, x + at, y + at))
}

KERNEL
yki_softmax_grad_columns(__global const float *y, __global const float *dy, __global float *dx,
                         int rows, int length, int inner)
{
    FOR_COLUMNS(GRAD_COLUMN(floatv, LOADV, STOREV, y + at, dy + at, dx + at),
                GRAD_COLUMN(float, AT1, PUT1, y + at, dy + at, dx + at))
}

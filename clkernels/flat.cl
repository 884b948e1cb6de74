/* SPDX-License-Identifier: Apache-2.0
 *
 * flat.cl - plain elementwise work: functions of two elements, copies, constants, with
 * and without broadcasting, and the change of layout.
 *
 * The kernels without broadcasting take flat memory (unary.cl has the idea). Those
 * with it take sizes and strides of up to nine axes, outermost first. They use no %
 * beside a / of the same numbers: see shape.cl.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#include "vectors.cl"
#include "exact.cl"

/* What is computed of x and y, both of type T, a float or a vector. NaN stays NaN. */
#define ADD(T) x + y
#define SUB(T) x - y
#define MUL(T) x *y
#define DIV(T) QUOTIENT(T, x, y)
#define MAXIMUM(T) select(y, x, (x >= y) | (x != x))
#define MINIMUM(T) select(y, x, (x <= y) | (x != x))
#define AT_LEAST(T) select((T)(0.f), (T)(1.f), x >= y)

#define BINARY(name, OF)                                                                      \
    __kernel YKI_GROUP(WG, 1) void yki_##name(                                                \
        __global const float *a, __global const float *b, __global float *out, int count)     \
    {                                                                                         \
        FOR_FLAT(floatv x = LOADV(i, a); floatv y = LOADV(i, b); STOREV(OF(floatv), i, out),  \
                 float x = a[i]; float y = b[i]; out[i] = OF(float))                          \
    }
BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(div, DIV)
BINARY(maximum, MAXIMUM)
BINARY(minimum, MINIMUM)
BINARY(at_least, AT_LEAST)

__kernel YKI_GROUP(WG, 1) void
yki_ones(__global float *out, int count)
{
    FOR_FLAT(STOREV((floatv)(1.f), i, out), out[i] = 1.f)
}

/* Word 8 of the step values is the loss scale (update.cl). */
__kernel YKI_GROUP(WG, 1) void
yki_loss_scale(__global const float *in, __global float *out, __global const uint *values, int count)
{
    const float scale = as_float(values[8]);

    FOR_FLAT(STOREV(LOADV(i, in) * scale, i, out), out[i] = in[i] * scale)
}

__kernel YKI_GROUP(WG, 1) void
yki_copy_flat(__global const float *in, __global float *out, int count)
{
    FOR_FLAT(STOREV(LOADV(i, in), i, out), out[i] = in[i])
}

/* Writes a scalar per sample, and the count 1. */
__kernel YKI_GROUP(WG, 1) void
yki_counted(__global const float *in, __global float *out, int samples)
{
    for (int i = (int)get_global_id(0); i < samples; i += (int)get_global_size(0)) {
        out[2 * i] = in[i];
        out[2 * i + 1] = 1.f;
    }
}

/* d1..d8 are the sizes of the axes after the first. Both operands have strides; 0: broadcast.
 * Neighbouring axes that both operands step through alike are joined, and the last has strides
 * of 0 or 1. */
#define AXES(p) int p##0, int p##1, int p##2, int p##3, int p##4, int p##5, int p##6, int p##7, int p##8

#define STEP(axis, size)                                                                      \
    if (size > 1) {                                                                           \
        int outside = rest / size, c = rest - outside * size;                                 \
        rest = outside;                                                                       \
        ia += (long)c * sa##axis;                                                             \
        ib += (long)c * sb##axis;                                                             \
    }

/* From element i of the result on, `run` are in a row: one where work-items run side by side,
 * otherwise the rest of the last axis. */
#if WG == 1
#define RUN(OF)                                                                               \
    int c = i - i / d8 * d8, k = 0;                                                           \
    run = min(d8 - c, end - i);                                                               \
    for (; k + VEC <= run; k += VEC) {                                                        \
        floatv x = sa8 ? loadv(0, a + ia + k) : (floatv)(a[ia]);                              \
        floatv y = sb8 ? loadv(0, b + ib + k) : (floatv)(b[ib]);                              \
        storev(OF(floatv), 0, out + i + k);                                                   \
    }                                                                                         \
    for (; k < run; k++) {                                                                    \
        float x = a[ia + k * sa8], y = b[ib + k * sb8];                                       \
        out[i + k] = OF(float);                                                               \
    }
#else
#define RUN(OF)                                                                               \
    float x = a[ia], y = b[ib];                                                               \
    out[i] = OF(float);
#endif

#define BINARY_BROADCAST(name, OF)                                                            \
    __kernel YKI_GROUP(WG, 1) void yki_##name##_broadcast(                                    \
        __global const float *a, __global const float *b, __global float *out, int count,     \
        int d1, int d2, int d3, int d4, int d5, int d6, int d7, int d8, AXES(sa), AXES(sb))   \
    {                                                                                         \
        int groups = (int)get_num_groups(0), group = (int)get_group_id(0);                    \
        int begin = (int)((long)count * group / groups);                                      \
        int end = (int)((long)count * (group + 1) / groups), run = WG;                        \
        for (int i = begin + (int)get_local_id(0); i < end; i += run) {                       \
            int rest = i;                                                                     \
            long ia = 0, ib = 0;                                                              \
            STEP(8, d8) STEP(7, d7) STEP(6, d6) STEP(5, d5)                                   \
            STEP(4, d4) STEP(3, d3) STEP(2, d2) STEP(1, d1)                                   \
            ia += (long)rest * sa0;                                                           \
            ib += (long)rest * sb0;                                                           \
            RUN(OF)                                                                           \
        }                                                                                     \
    }
BINARY_BROADCAST(add, ADD)
BINARY_BROADCAST(sub, SUB)
BINARY_BROADCAST(mul, MUL)
BINARY_BROADCAST(div, DIV)
BINARY_BROADCAST(maximum, MAXIMUM)
BINARY_BROADCAST(minimum, MINIMUM)
BINARY_BROADCAST(at_least, AT_LEAST)

#if VEC == 4 || VEC == 8 || VEC == 16
#define TURNS 1
YKI_DEFINE_TRANSPOSE(turn, VEC)

/* Copies one block of `lanes` real channels, at `blocked` (R, VEC), from or to rows at `plain`.
 * It takes VEC positions at a time, the last ones perhaps twice, and needs at least VEC
 * positions. */
void
reorder_block(__global const float *from, __global float *to, int rest, int lanes, int into_block)
{
    floatv r[VEC];

    for (int next = 0; next < rest; next += VEC) {
        int at = min(next, rest - VEC);

        if (into_block) {
            for (int i = 0; i < VEC; i++)
                r[i] = i < lanes ? loadv(0, from + (long)i * rest + at) : (floatv)(0.f);
            turn(r);
            for (int i = 0; i < VEC; i++)
                storev(r[i], at + i, to);
        } else {
            for (int i = 0; i < VEC; i++)
                r[i] = loadv(at + i, from);
            turn(r);
            for (int i = 0; i < VEC; i++)
                if (i < lanes)
                    storev(r[i], 0, to + (long)i * rest + at);
        }
    }
}
#else
#define TURNS 0
#endif

/* From layout (C / from, R, from) to (C / to, R, to), per sample; 1 is plain. Padding lanes of
 * the result are 0. A work-item takes one (sample, block of the result) and loops over the rest.
 * Between plain and whole vectors, it transposes them in registers. */
__kernel YKI_GROUP(1, 1) void
yki_reorder(__global const float *in, __global float *out, int samples, int channels, int rest,
            int from, int to)
{
    int from_blocks = (channels + from - 1) / from, to_blocks = (channels + to - 1) / to;
    long tasks = (long)samples * to_blocks, groups = get_num_groups(0), group = get_group_id(0);

#if TURNS
    if (rest >= VEC && ((from == 1 && to == VEC) || (from == VEC && to == 1))) {
        int blocks = min(from_blocks, to_blocks);

        tasks = (long)samples * blocks;
        for (long task = tasks * group / groups; task < tasks * (group + 1) / groups; task++) {
            long n = task / blocks, c = (task - n * blocks) * VEC;
            long plain = (n * channels + c) * rest, blocked = task * rest * VEC;

            reorder_block(in + (from == 1 ? plain : blocked), out + (to == 1 ? plain : blocked), rest,
                          (int)min(channels - c, (long)VEC), to == VEC);
        }
        return;
    }
#endif
    for (long task = tasks * group / groups; task < tasks * (group + 1) / groups; task++) {
        long n = task / to_blocks, block = task - n * to_blocks;
        __global float *o = out + task * rest * to;

        if (to == 1) {
            long b = block / from, lane = block - b * from;
            __global const float *p = in + (n * from_blocks + b) * rest * from + lane;
            for (int r = 0; r < rest; r++)
                o[r] = p[(long)r * from];
            continue;
        }
        /* Piece by piece, so that the strided writes of one lane hit lines that are still in the
         * cache. */
        for (int r0 = 0; r0 < rest; r0 += 64) {
            int r1 = min(r0 + 64, rest);

            for (int lane = 0; lane < to; lane++) {
                long c = block * to + lane, b = c / from;
                __global const float *p =
                    in + ((n * from_blocks + b) * rest) * from + (c - b * from);

                for (int r = r0; r < r1; r++)
                    o[(long)r * to + lane] = c < channels ? p[(long)r * from] : 0.f;
            }
        }
    }
}

/* out[s] = sum over n of in[n * count + s], n in order. A group takes a piece of the elements. */
__kernel YKI_GROUP(1, 1) void
yki_batch_sum(__global const float *in, __global float *out, int count, int samples)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int begin = (int)((long)count * group / groups);
    int end = (int)((long)count * (group + 1) / groups);

    for (int s = begin; s < end; s++)
        out[s] = 0.f;
    for (long n = 0; n < samples; n++)
        for (int s = begin; s < end; s++)
            out[s] += in[n * count + s];
}

/* The same where a sample has `used` elements, at most `count`; those that no sample has are 0. Side
 * by side, a work-item keeps its sum. */
__kernel YKI_GROUP(WG, 1) void
yki_position_sum(__global const float *in, __global float *out, int count, int used, int samples)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0), run = WG;
    int begin = (int)((long)count * group / groups) + (int)get_local_id(0);
    int end = (int)((long)count * (group + 1) / groups), there = min(used, end);

#if WG > 1
    for (int s = begin; s < end; s += run) {
        float sum = 0.f;

#pragma unroll 8
        for (int n = 0; n < (s < there ? samples : 0); n++)
            sum += in[(long)n * used + s];
        out[s] = sum;
    }
#else
    for (int s = begin; s < end; s += run)
        out[s] = 0.f;
    for (long n = 0; n < samples; n++)
        for (int s = begin; s < there; s += run)
            out[s] += in[n * used + s];
#endif
}

#define REDUCE_STEP(size, stride)                                                             \
    outside = rest / size;                                                                    \
    at += (long)(rest - outside * size) * stride;                                             \
    rest = outside;

/* The sum of a row, in several chains: with one addition after the other it would take three
 * times as long as reading. */
float
sum_row(__global const float *row, int count)
{
    floatv s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
    float lanes[VEC], sum = 0.f;
    int i = 0;

    for (; i + 4 * VEC <= count; i += 4 * VEC) {
        s0 += loadv(0, row + i);
        s1 += loadv(1, row + i);
        s2 += loadv(2, row + i);
        s3 += loadv(3, row + i);
    }
    storev((s0 + s1) + (s2 + s3), 0, lanes);
    for (int l = 0; l < VEC; l++)
        sum += lanes[l];
    for (; i < count; i++)
        sum += row[i];
    return sum;
}

/* Sums over some axes. Kept axes k0..k3 and reduced axes r0..r3 come with their strides,
 * innermost last; `factor` turns a sum into a mean. A sum has the order of memory, except for
 * rows that are long and contiguous. */
__kernel YKI_GROUP(1, 1) void
yki_reduce(__global const float *in, __global float *out, int count, int k1, int k2, int k3, int k4,
           int ks0, int ks1, int ks2, int ks3, int ks4, int r0, int r1, int r2, int r3, int rs0,
           int rs1, int rs2, int rs3, float factor)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int begin = (int)((long)count * group / groups);
    int end = (int)((long)count * (group + 1) / groups);

    for (int i = begin; i < end; i++) {
        int rest = i, outside;
        long at = 0;
        float sum = 0.f;

        REDUCE_STEP(k4, ks4)
        REDUCE_STEP(k3, ks3)
        REDUCE_STEP(k2, ks2)
        REDUCE_STEP(k1, ks1)
        at += (long)rest * ks0;
        for (int a = 0; a < r0; a++)
            for (int b = 0; b < r1; b++)
                for (int c = 0; c < r2; c++) {
                    __global const float *row =
                        in + at + (long)a * rs0 + (long)b * rs1 + (long)c * rs2;

                    if (rs3 == 1 && r3 >= 4 * VEC)
                        sum += sum_row(row, r3);
                    else
                        for (int d = 0; d < r3; d++)
                            sum += row[(long)d * rs3];
                }
        out[i] = sum * factor;
    }
}

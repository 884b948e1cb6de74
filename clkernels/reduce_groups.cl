/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_groups.cl - sums over axes, for devices whose work-items run side by side.
 *
 * SHARE work-items add up one result, and join their sums in a tree. If ACROSS is 1,
 * neighbouring work-items take neighbouring results, otherwise neighbouring terms of
 * one: whichever lies side by side in memory.
 */
#ifndef WG
#define WG 256
#endif
#ifndef SHARE
#define SHARE 32
#endif
#ifndef ACROSS
#define ACROSS 0
#endif

/* Results of a group at a time. SHARE and WG are powers of 2. */
#define RESULTS (WG / SHARE)
#if ACROSS
#define RESULT ((int)get_local_id(0) & (RESULTS - 1))
#define SUB    ((int)get_local_id(0) / RESULTS)
#define APART  RESULTS
#else
#define RESULT ((int)get_local_id(0) / SHARE)
#define SUB    ((int)get_local_id(0) & (SHARE - 1))
#define APART  1
#endif

/* The sum over the work-items that share a result, for the first of them. */
float
yki_join(float value, __local float *sums)
{
    __local float *own = sums + get_local_id(0);

    *own = value;
    for (int step = SHARE / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (SUB < step)
            *own += own[step * APART];
    }
    value = *own;
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

#define FOR_EACH_BASE(base, count)                                                             \
    for (long base = (long)get_group_id(0) * RESULTS; base < (count);                          \
         base += (long)get_num_groups(0) * RESULTS)

/* out[i] = sum over n of in[n * count + i]. */
__kernel YKI_GROUP(WG, 1) void
yki_batch_sum_groups(__global const float *in, __global float *out, int count, int samples)
{
    __local float sums[WG];

    FOR_EACH_BASE(base, count)
    {
        long i = base + RESULT;
        float sum = 0.f;

        if (i < count)
#pragma unroll 16
            for (long n = SUB; n < samples; n += SHARE)
                sum += in[n * count + i];
        sum = yki_join(sum, sums);
        if (SUB == 0 && i < count)
            out[i] = sum;
    }
}

#define REDUCE_STEP(size, stride)                                                             \
    if ((size) > 1) {                                                                         \
        outside = rest / (size);                                                              \
        at += (long)(rest - outside * (size)) * (stride);                                     \
        rest = outside;                                                                       \
    }

/* Sums over some axes. Kept axes k0..k4 and reduced axes r0..r3 come with their strides,
 * innermost last; `factor` turns a sum into a mean. */
__kernel YKI_GROUP(WG, 1) void
yki_reduce_groups(__global const float *in, __global float *out, int count, int k1, int k2, int k3,
                  int k4, int ks0, int ks1, int ks2, int ks3, int ks4, int r0, int r1, int r2,
                  int r3, int rs0, int rs1, int rs2, int rs3, float factor)
{
    __local float sums[WG];
    int outer = r0 * r1 * r2;

    FOR_EACH_BASE(base, count)
    {
        long i = base + RESULT, at = 0;
        int rest = (int)min(i, (long)count - 1), outside;
        float sum = 0.f;

        REDUCE_STEP(k4, ks4)
        REDUCE_STEP(k3, ks3)
        REDUCE_STEP(k2, ks2)
        REDUCE_STEP(k1, ks1)
        __global const float *first = in + at + (long)rest * ks0;

        for (int o = 0; o < outer && i < count; o++) {
            __global const float *row;

            at = 0;
            rest = o;
            REDUCE_STEP(r2, rs2)
            REDUCE_STEP(r1, rs1)
            row = first + at + (long)rest * rs0;
            for (int d = SUB; d < r3; d += SHARE)
                sum += row[(long)d * rs3];
        }
        sum = yki_join(sum, sums);
        if (SUB == 0 && i < count)
            out[i] = sum * factor;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * team.cl - merges the results of a team's devices: sums of gradients and of losses,
 * statistics.
 *
 * Every kernel takes up to eight inputs, `used` of them, and goes through them in
 * order, so the order of a sum is the order of the devices. More than eight are merged
 * in several launches, with the result so far as the first input: `out` may be one of
 * the inputs, because elements are independent. Sums and products are correctly rounded;
 * quotients are the device's, and only members that share weights merge moments here.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#include "vectors.cl"

#define INPUTS                                                                                \
    __global const float *a0, __global const float *a1, __global const float *a2,             \
        __global const float *a3, __global const float *a4, __global const float *a5,         \
        __global const float *a6, __global const float *a7, int used

#include "exact.cl"

#define ITEM __kernel YKI_GROUP(1, 1)
#define GROUP __kernel YKI_GROUP(WG, 1)

/* Adds buckets of `count` vectors, without a remainder. Each group has one contiguous piece,
 * which a CPU reads as streams. */
GROUP void
yki_team_sum(INPUTS, __global float *out, int count)
{
    int groups = (int)get_num_groups(0), part = (count + groups - 1) / groups;
    int begin = (int)get_group_id(0) * part, end = min(begin + part, count);

    for (int i = begin + (int)get_local_id(0); i < end; i += WG) {
        floatv sum = LOADV(i, a0);

        if (used > 1)
            sum += LOADV(i, a1);
        if (used > 2)
            sum += LOADV(i, a2);
        if (used > 3)
            sum += LOADV(i, a3);
        if (used > 4)
            sum += LOADV(i, a4);
        if (used > 5)
            sum += LOADV(i, a5);
        if (used > 6)
            sum += LOADV(i, a6);
        if (used > 7)
            sum += LOADV(i, a7);
        STOREV(sum, i, out);
    }
}

/* The same of integers, which have the same sum in any order. */
#define SUM_WHOLE(name, number)                                                               \
    GROUP void name(INPUTS, __global float *out, int count)                                   \
    {                                                                                         \
        int groups = (int)get_num_groups(0), part = (count + groups - 1) / groups;            \
        int begin = (int)get_group_id(0) * part, end = min(begin + part, count);              \
                                                                                              \
        for (int i = begin + (int)get_local_id(0); i < end; i += WG) {                        \
            YKI_PASTE(number, VEC) sum = WHOLE(a0, number);                                   \
                                                                                              \
            if (used > 1)                                                                     \
                sum += WHOLE(a1, number);                                                     \
            if (used > 2)                                                                     \
                sum += WHOLE(a2, number);                                                     \
            if (used > 3)                                                                     \
                sum += WHOLE(a3, number);                                                     \
            if (used > 4)                                                                     \
                sum += WHOLE(a4, number);                                                     \
            if (used > 5)                                                                     \
                sum += WHOLE(a5, number);                                                     \
            if (used > 6)                                                                     \
                sum += WHOLE(a6, number);                                                     \
            if (used > 7)                                                                     \
                sum += WHOLE(a7, number);                                                     \
            ((__global YKI_PASTE(number, VEC) *)out)[i] = sum;                                \
        }                                                                                     \
    }
#define WHOLE(a, number) (((__global const YKI_PASTE(number, VEC) *)(a))[i])

SUM_WHOLE(yki_team_sum_i64, long)
SUM_WHOLE(yki_team_sum_i32, int)
SUM_WHOLE(yki_team_sum_i16, short)

/* Element `at` of device i, as a value. A pointer chosen by a condition would hide the access
 * from compilers. */
#define PICK(i, at)                                                                           \
    ((i) == 0   ? a0[at]                                                                      \
     : (i) == 1 ? a1[at]                                                                      \
     : (i) == 2 ? a2[at]                                                                      \
     : (i) == 3 ? a3[at]                                                                      \
     : (i) == 4 ? a4[at]                                                                      \
     : (i) == 5 ? a5[at]                                                                      \
     : (i) == 6 ? a6[at]                                                                      \
                : a7[at])

/* Adds a few floats. */
GROUP void
yki_team_sum_few(INPUTS, __global float *out, int count)
{
    for (int k = (int)get_global_id(0); k < count; k += (int)get_global_size(0)) {
        float sum = a0[k];

        for (int i = 1; i < used; i++)
            sum += PICK(i, k);
        out[k] = sum;
    }
}

/* Statistics (3, C): count, mean, sum of squared deviations. With d = mean2 - mean1 and n = n1 +
 * n2: mean = mean1 + d n2 / n, M = M1 + M2 + d^2 n1 n2 / n. */
GROUP void
yki_team_moments(INPUTS, __global float *out, int count)
{
    int channels = count / 3;

    for (int c = (int)get_global_id(0); c < channels; c += (int)get_global_size(0)) {
        float n = a0[c], mean = a0[channels + c], m2 = a0[2 * channels + c];

        for (int i = 1; i < used; i++) {
            float more = PICK(i, c), total = n + more;

            if (more > 0.f) {
                float d = PICK(i, channels + c) - mean, part = QUOTIENT(float, more, total);

                m2 += PICK(i, 2 * channels + c);
                m2 += d * d * (n * part);
                mean += d * part;
                n = total;
            }
        }
        out[c] = n;
        out[channels + c] = mean;
        out[2 * channels + c] = m2;
    }
}

/* Collects a device's sums and counts, of the loss and the metrics, side by side from pair
 * `first` on. `more`: they are added to what is there, for steps in several micro-batches. */
ITEM void
yki_team_results(INPUTS, __global float *out, int first, int more)
{
    out += 2 * first;
    for (int i = 0; i < used; i++) {
        float sum = PICK(i, 0), count = PICK(i, 1);

        out[2 * i] = more ? out[2 * i] + sum : sum;
        out[2 * i + 1] = more ? out[2 * i + 1] + count : count;
    }
}

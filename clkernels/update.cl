/* SPDX-License-Identifier: Apache-2.0
 *
 * update.cl - what runs between backward and the next forward: the count, the norm of
 * all gradients, and the optimizers.
 *
 * It uses only correctly rounded operations (fma, product, quotient, root), so
 * replicas updated on different vendors' devices keep the same bits. exact.cl says
 * how, in a team some of whose devices do not promise that. Segments of a bucket start
 * and end at multiples of 128 floats (padding is 0 and stays 0), so there are no
 * remainders, and groups of work-items load and store aligned vectors (LOADV, STOREV).
 *
 * With -DSMALL_STATE m and v are kept as bfloat16, half as many bytes. Rounded to nearest, what
 * changes by less than a part in 256 in a step would never change: so it is rounded up with the
 * chance that it is nearer to the upper number, by a random word that follows from seed, step and
 * element alone. A step computes with the state as it is before it is rounded.
 *
 * Step values, as words: 0 step, 1-2 seed, 3-4 first sample, 5 learning rate, 6-7 bias
 * corrections, 8 loss scale, 9 its inverse, 10 inverse count, 11 clip scale, 12 good.
 *
 * Gradients that have a loss scale, a power of 2, lose it by the inverse count, which is multiplied
 * by the scale's inverse: exactly. Then their norm is always computed, so that all devices see from
 * the same bits that one of them is not finite.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#include "vectors.cl"

#define ITEM __kernel YKI_GROUP(1, 1)
#define GROUP __kernel YKI_GROUP(WG, 1)

#include "exact.cl"

#ifndef SMALL_STATE
#define SMALL_STATE 0
#endif
#if SMALL_STATE
#include "random_words.cl"
#endif

#if SETTLE && VEC != 16
DEFINE_EXACT(float16, int16)
#endif

float inverse_count(__global const float *loss)
{
    return loss[1] > 0.f ? QUOTIENT(float, 1.f, loss[1]) : 0.f;
}

/* A step whose loss is not finite, or in which no sample counted, changes nothing. */
bool
is_good(__global const float *loss)
{
    return isfinite(loss[0]) && loss[1] > 0.f;
}

/* Notes the batch's count, by which gradients will be divided, and by their scale. Nothing is
 * clipped yet. */
void count_step(__global const float *loss, __global float *step)
{
    step[10] = inverse_count(loss) * step[9];
    step[11] = 1.f;
    ((__global uint *)step)[12] = is_good(loss) ? 1u : 0u;
}

ITEM void
yki_step_count(__global const float *loss, __global float *step)
{
    count_step(loss, step);
}

/* Sums in LANES lanes, whatever the device's width, because the order of a sum is part of its bits.
 * Each lane is a chain in order, then the lanes are added in order. A group of one item has the
 * lanes in a vector; in a larger one neighbouring items have one each. */
#define LANES 16
#if WG >= LANES
#define SUMMING GROUP
#define SUMS    (WG / LANES) /* of a group, side by side */
#else
#define SUMMING ITEM
#endif

float
lanes_added(const float *lanes)
{
    float total = 0.f;

    for (int k = 0; k < LANES; k++)
        total += lanes[k];
    return total;
}

/* Sums the squares of a bucket of `count` times LANES values, in `all` parts. */
SUMMING void
yki_norm_part(__global const float *gradient, __global float *parts, int count, int all,
              int first_part)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);

#if WG >= LANES
    __local float shared[WG];
    int item = (int)get_local_id(0), row = item / LANES, lane = item - row * LANES;

    for (int base = group * SUMS; base < all; base += groups * SUMS) {
        int part = base + row, begin = (int)((long)count * part / all);
        int end = part < all ? (int)((long)count * (part + 1) / all) : begin;
        float sum = 0.f;

        for (int i = begin; i < end; i++) {
            float g = SETTLED(float, gradient[(long)i * LANES + lane]);
            sum = SETTLED(float, YKI_EXACT_FMA(g, g, sum));
        }
        shared[item] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0 && part < all) {
            float lanes[LANES];

            for (int k = 0; k < LANES; k++)
                lanes[k] = shared[item + k];
            parts[first_part + part] = lanes_added(lanes);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#else
    int last = (int)((long)all * (group + 1) / groups);

    for (int part = (int)((long)all * group / groups); part < last; part++) {
        int begin = (int)((long)count * part / all), end = (int)((long)count * (part + 1) / all);
        float16 sum = 0.f;
        float lanes[LANES];

        for (int i = begin; i < end; i++) {
            float16 g = SETTLED(float16, vload16(i, gradient));
            sum = SETTLED(float16, YKI_EXACT_FMA(g, g, sum));
        }
        yki_store16(sum, 0, lanes);
        parts[first_part + part] = lanes_added(lanes);
    }
#endif
}

/* Adds the parts: lane k has k, k + LANES, ... */
SUMMING void
yki_norm_finish(__global const float *parts, int count, __global float *step, float clip_norm)
{
    float lanes[LANES], norm;

#if WG >= LANES
    __local float shared[LANES];
    int item = (int)get_local_id(0);

    if (item < LANES) {
        float sum = 0.f;

        for (int i = item; i < count; i += LANES)
            sum += parts[i];
        shared[item] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item > 0)
        return;
    for (int k = 0; k < LANES; k++)
        lanes[k] = shared[k];
#else
    float16 sum = 0.f;

    for (int i = 0; i < count / LANES; i++)
        sum += vload16(i, parts);
    yki_store16(sum, 0, lanes);
    for (int i = count / LANES * LANES; i < count; i++)
        lanes[i % LANES] += parts[i];
#endif
    norm = ROOT(float, lanes_added(lanes)) * step[10];
    if (!isfinite(norm))
        ((__global uint *)step)[12] = 0u;
    if (clip_norm > 0.f && norm > clip_norm)
        step[11] = QUOTIENT(float, clip_norm, norm + 1e-6f);
}

/* A state (running statistics) takes its next value, unless the step is skipped. */
ITEM void
yki_commit_state(__global const uint *next, __global uint *state, __global const float *step,
                 int count)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int begin = (int)((long)count * group / groups);
    int end = (int)((long)count * (group + 1) / groups);

    if (((__global const uint *)step)[12] == 0u)
        return;
    for (int i = begin; i < end; i++)
        state[i] = next[i];
}

/* Adds the parts of gradients, in their order (plan/late_sums.c). A row of the table has: where the
 * first part begins, how far the next one is, where the sums go, how many they are, and the number
 * of parts. */
GROUP void
yki_sum_late(__global const float *part, __global float *gradient, __global const int *table,
             int rows)
{
    for (int r = (int)get_group_id(0); r < rows; r += (int)get_num_groups(0)) {
        __global const int *row = table + 5 * r;

        for (int i = (int)get_local_id(0); i < row[3]; i += WG) {
            __global const float *p = part + row[0] + i;
            float sum = 0.f;

#pragma unroll 16
            for (int k = 0; k < row[4]; k++)
                sum += p[(long)k * row[1]];
            gradient[row[2] + i] = sum;
        }
    }
}

/* Merges the batch's statistics into the running ones, unless the step is skipped. A row of the
 * table has: where (count, mean, M2) and the state begin, the number of channels, the first
 * channel and the end, and the momentum, which is negative for a variance. The operations are
 * those of bn_running in norm.cl. */
GROUP void
yki_commit_running(__global const float *stats, __global float *states,
                   __global const float *step, __global const int *table, int rows)
{
    if (((__global const uint *)step)[12] == 0u)
        return;
    for (int r = (int)get_group_id(0); r < rows; r += (int)get_num_groups(0)) {
        __global const int *row = table + 6 * r;
        __global const float *from = stats + row[0];
        __global float *state = states + row[1];
        float momentum = fabs(as_float(row[5]));
        bool variance = signbit(as_float(row[5])) != 0;
        int channels = row[2];

        for (int c = row[3] + (int)get_local_id(0); c < row[4]; c += WG) {
            float count = from[c], now = state[c], value;

            value = variance ? quotient_float(from[2 * channels + c], max(count - 1.f, 1.f))
                             : from[channels + c];
            state[c] = count > (variance ? 1.f : 0.f) ? renewed(now, value, momentum) : now;
        }
    }
}

/* The vectors i of this work-group. A row of the table is a segment, which is updated alike: its
 * first vector, how many vectors the rows before it have together, the bits of its rate_scale and
 * of its decay, and the number of its first element among all parameters of the graph, in 128s.
 * All rows have `count` vectors, of which each group takes one contiguous piece.
 * counts: 0 if yki_step_count ran before. Otherwise this is the first launch that needs its values,
 * and computes them itself; with 2 it also stores them for later launches. */
#define FOR_EACH_VECTOR(i)                                                                     \
    float scale = counts ? inverse_count(loss) : step[10] * step[11];                          \
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);                         \
    int begin = (int)((long)count * group / groups);                                           \
    int end = (int)((long)count * (group + 1) / groups), row = 0, above = rows;                \
    bool good = counts ? is_good(loss) : ((__global const uint *)step)[12] != 0u;              \
    if (counts == 2 && get_global_id(0) == 0)                                                  \
        count_step(loss, step);                                                                \
    if (!good)                                                                                 \
        return;                                                                                \
    DRAW_KEYS                                                                                  \
    while (above - row > 1) {                                                                  \
        int middle = (row + above) / 2;                                                        \
                                                                                               \
        if (table[5 * middle + 1] <= begin)                                                    \
            row = middle;                                                                      \
        else                                                                                   \
            above = middle;                                                                    \
    }                                                                                          \
    for (int next; begin < end; begin = next, row++) {                                         \
        int shift = table[5 * row] - table[5 * row + 1];                                       \
        float rate = step[5] * as_float(table[5 * row + 2]);                                   \
        float decay = as_float(table[5 * row + 3]);                                            \
        NUMBER_ELEMENTS                                                                        \
                                                                                               \
        next = row + 1 < rows ? min(end, table[5 * row + 6]) : end;                            \
        for (int i = begin + shift + (int)get_local_id(0); i < next + shift; i += WG)
#define END }

/* What the optimizers compute by. */
#define LOAD(i, p)   SETTLED(floatv, LOADV(i, p))
#define FMA(a, b, c) SETTLED(floatv, YKI_EXACT_FMA((floatv)(a), b, c))
#define TIMES(a, b)  SETTLED(floatv, (a) * (b))
#define OVER(a, b)   SETTLED(floatv, QUOTIENT(floatv, a, (floatv)(b)))
#define ROOT_OF(a)   SETTLED(floatv, ROOT(floatv, a))

#if SMALL_STATE
#define uintv      YKI_PASTE(uint, VEC)
#define as_uintv   YKI_PASTE(as_uint, VEC)
#define as_ushortv YKI_PASTE(as_ushort, VEC)
#if VEC == 16
#define HALF 8
#elif VEC == 8
#define HALF 4
#else
#define HALF 2
#endif
#define floath YKI_PASTE(float, HALF)

/* The upper halves of floats, two of which lie in the place of one. */
floatv unpacked(floath pairs)
{
    return as_floatv(YKI_PASTE(convert_uint, VEC)(as_ushortv(pairs)) << 16);
}

/* `random` is from 0 to 2^16 - 1. What is infinite, or would become so, keeps its upper half, and
 * NaN stays NaN. */
floath packed(floatv x, uintv random)
{
    uintv bits = as_uintv(x), size = bits & 0x7fffffffu;
    uintv kept = size > 0x7f800000u ? bits | 0x400000u : bits;
    uintv y = size + random < 0x7f800000u ? bits + random : kept;

    return YKI_PASTE(as_float, HALF)(YKI_PASTE(convert_ushort, VEC)(y >> 16));
}

/* Keys are drawn anew in each step. A word has two halves, for two states. */
#define DRAW_KEYS                                                                             \
    uint key0 = ((__global const uint *)step)[0], key1 = 0x57a7eu, spare0 = 0u, spare1 = 0u;  \
    YKI_PHILOX(uint, ulong, key0, key1, spare0, spare1, ((__global const uint *)step)[1],     \
               ((__global const uint *)step)[2]);
#define NUMBER_ELEMENTS uint from = (uint)table[5 * row + 4] * 128u - (uint)table[5 * row] * VEC;
#define DRAW(i)         uintv word = random_words(from + (uint)(i)*VEC, key0, key1);
#if WG == 1
#define LOADH  YKI_PASTE(vload, HALF)
#define STOREH YKI_PASTE(yki_store, HALF)
#else
#define LOADH(i, p)     (((__global const floath *)(p))[i])
#define STOREH(x, i, p) (((__global floath *)(p))[i] = (x))
#endif
#define LOAD_STATE(i, p) SETTLED(floatv, unpacked(LOADH(i, p)))
#define STORE_M(x, i)    STOREH(packed(x, word & 0xffffu), i, m)
#define STORE_V(x, i)    STOREH(packed(x, word >> 16), i, v)
#else
#define DRAW_KEYS
#define NUMBER_ELEMENTS
#define DRAW(i)
#define LOAD_STATE    LOAD
#define STORE_M(x, i) STOREV(x, i, m)
#define STORE_V(x, i) STOREV(x, i, v)
#endif

/* Divides by the count and clips. With clip_value 0 no value is clipped. */
#define GRADIENT(i)                                                                           \
    floatv p = LOAD(i, value), g = TIMES(LOAD(i, gradient), scale);                           \
    if (clip_value > 0.f)                                                                     \
        g = clamp(g, (floatv)(-clip_value), (floatv)(clip_value));

#define ARGS                                                                                  \
    __global float *value, __global const float *gradient, __global float *m,                 \
        __global float *v, __global float *step, __global const float *loss, int counts,      \
        __global const int *table, int rows, int count, float clip_value

/* m: momentum's buffer, as PyTorch keeps it. */
GROUP void
yki_sgd(ARGS, float momentum, int nesterov)
{
    FOR_EACH_VECTOR(i)
    {
        GRADIENT(i)
        g = FMA(decay, p, g);
        if (momentum != 0.f) {
            floatv b = FMA(momentum, LOAD_STATE(i, m), g);
            DRAW(i)
            STORE_M(b, i);
            g = nesterov ? FMA(momentum, b, g) : b;
        }
        STOREV(FMA(-rate, g, p), i, value);
    }
    END
}

GROUP void
yki_adam(ARGS, float beta1, float beta2, float epsilon, int decoupled)
{
    FOR_EACH_VECTOR(i)
    {
        GRADIENT(i)
        floatv a, b, root;
        float size = QUOTIENT(float, rate, step[6]);

        if (decoupled)
            p = FMA(-(rate * decay), p, p);
        else
            g = FMA(decay, p, g);
        a = FMA(1.f - beta1, g, TIMES(beta1, LOAD_STATE(i, m)));
        b = FMA(TIMES(1.f - beta2, g), g, TIMES(beta2, LOAD_STATE(i, v)));
        DRAW(i)
        STORE_M(a, i);
        STORE_V(b, i);
        root = OVER(ROOT_OF(b), step[7]) + epsilon;
        STOREV(FMA(-size, OVER(a, root), p), i, value);
    }
    END
}

/* v: mean square; m: momentum's buffer. */
GROUP void
yki_rmsprop(ARGS, float alpha, float epsilon, float momentum)
{
    FOR_EACH_VECTOR(i)
    {
        GRADIENT(i)
        floatv b, change;

        g = FMA(decay, p, g);
        b = FMA(TIMES(1.f - alpha, g), g, TIMES(alpha, LOAD_STATE(i, v)));
        DRAW(i)
        STORE_V(b, i);
        change = OVER(g, ROOT_OF(b) + epsilon);
        if (momentum != 0.f) {
            change = FMA(momentum, LOAD_STATE(i, m), change);
            STORE_M(change, i);
        }
        STOREV(FMA(-rate, change, p), i, value);
    }
    END
}

/* ---- the moving average of the weights ---- */

/* After step n, counted from 0, average = value + d (average - value), where d is `decay` or, if
 * that is less, n / (n + 9): the first steps, which change most, are soon forgotten. In the first
 * the average becomes the value, whatever was there; after that a step that changes no weight
 * changes no average. `count` is in vectors, of which each group takes one contiguous piece. */
GROUP void
yki_average(__global const float *value, __global float *average, __global const float *step,
            int count, float decay)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int begin = (int)((long)count * group / groups);
    int end = (int)((long)count * (group + 1) / groups);
    float n = (float)(((__global const uint *)step)[0] - 1u);
    bool first = n == 0.f;
    float d = min(decay, QUOTIENT(float, n, n + 9.f));

    if (!first && ((__global const uint *)step)[12] == 0u)
        return;
    for (int i = begin + (int)get_local_id(0); i < end; i += WG) {
        floatv p = LOAD(i, value);

        STOREV(first ? p : FMA(d, SETTLED(floatv, LOAD(i, average) - p), p), i, average);
    }
}

/* a and b take each other's values. */
GROUP void
yki_exchange(__global float *a, __global float *b, int count)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int begin = (int)((long)count * group / groups);
    int end = (int)((long)count * (group + 1) / groups);

    for (int i = begin + (int)get_local_id(0); i < end; i += WG) {
        floatv kept = LOADV(i, a);

        STOREV(LOADV(i, b), i, a);
        STOREV(kept, i, b);
    }
}

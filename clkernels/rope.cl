/* SPDX-License-Identifier: Apache-2.0
 *
 * rope.cl - rotary positions: each pair of elements of a head of queries or keys is
 * turned by its row's position times the frequency of the pair.
 *
 * x is (rows, columns): `heads` heads of `width` that are turned, then what is copied.
 * Pair i of a head is (i, i + width / 2) or, with INTERLEAVED, (2 i, 2 i + 1). Its
 * frequency is base^(-2 i / width). Angles are counted in turns, as 64 bits after the
 * point, so whole turns vanish without a rounding; sine and cosine are polynomials
 * within an eighth of a turn. All that is exact, or rounded once, so the angles are the
 * same bits on every device, however large the position is.
 *
 * A group takes rows; its work-items take vectors of pairs, and turn that pair of all
 * heads.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 1
#endif
#ifndef INTERLEAVED
#define INTERLEAVED 0
#endif

#include "vectors.cl"

#define MOST_PAIRS 128

#if VEC == 1
#define to_floatv convert_float
#else
#define to_floatv YKI_PASTE(convert_float, VEC)
#endif

/* Turns a position for pair i: `step` to the power i, over 2 pi. */
ulong
yki_frequency(int i, ulong step)
{
    ulong f = 0x28BE60DB9391054AUL; /* 2^64 / (2 pi) */

    for (; i > 0; i /= 2) {
        if (i % 2)
            f = mul_hi(f, step);
        step = mul_hi(step, step);
    }
    return f;
}

/* Sine and cosine of so many quarters of a turn and the rest, in units of 2^-32 turns. */
floatv
yki_sin_cos(intv quarter, intv rest, floatv *cosine)
{
    floatv x = to_floatv(rest) * 1.4629180792671596e-9f, z = x * x, s, c, swap;

    s = YKI_EXACT_FMA(z, (floatv)(-1.9515295891e-4f), (floatv)(8.3321608736e-3f));
    s = YKI_EXACT_FMA(z, s, (floatv)(-1.6666654611e-1f));
    s = YKI_EXACT_FMA(z * s, x, x);
    c = YKI_EXACT_FMA(z, (floatv)(2.443315711809948e-5f), (floatv)(-1.388731625493765e-3f));
    c = YKI_EXACT_FMA(z, c, (floatv)(4.166664568298827e-2f));
    c = YKI_EXACT_FMA(z, c, (floatv)(-.5f));
    c = YKI_EXACT_FMA(z, c, (floatv)(1.f));
    /* An odd number of quarters exchanges the two; bit 1 of it, or of the next, is the sign. */
    swap = select(s, c, (quarter & 1) != 0);
    c = select(c, s, (quarter & 1) != 0);
    *cosine = as_floatv(as_intv(c) ^ (((quarter + 1) & 2) << 30));
    return as_floatv(as_intv(swap) ^ ((quarter & 2) << 30));
}

#define TURN(a, b)                                                                             \
    floatv first = YKI_FMA(a, c, -(b * s)), second = YKI_FMA(b, c, a * s);

/* Turns VEC pairs of one head, of which `pair` is the first. */
void
yki_turn(__global const float *x, __global float *y, int width, int pair, floatv s, floatv c)
{
#if !INTERLEAVED
    floatv a = LOADV(0, x + pair), b = LOADV(0, x + width / 2 + pair);
    TURN(a, b)

    STOREV(first, 0, y + pair);
    STOREV(second, 0, y + width / 2 + pair);
#elif VEC == 1
    float a = x[2 * pair], b = x[2 * pair + 1];
    TURN(a, b)

    y[2 * pair] = first;
    y[2 * pair + 1] = second;
#elif defined(YKI_LANES_APART)
    float one[VEC], two[VEC];
    floatv a, b;

    for (int k = 0; k < VEC; k++) {
        one[k] = x[2 * (pair + k)];
        two[k] = x[2 * (pair + k) + 1];
    }
    a = loadv(0, one);
    b = loadv(0, two);
    TURN(a, b)
    storev(first, 0, one);
    storev(second, 0, two);
    for (int k = 0; k < VEC; k++) {
        y[2 * (pair + k)] = one[k];
        y[2 * (pair + k) + 1] = two[k];
    }
#else
    floatv low = LOADV(0, x + 2 * pair), high = LOADV(1, x + 2 * pair);
    floatv a = (floatv)(low.even, high.even), b = (floatv)(low.odd, high.odd);
    TURN(a, b)

    low.even = first.lo;
    low.odd = second.lo;
    high.even = first.hi;
    high.odd = second.hi;
    STOREV(low, 0, y + 2 * pair);
    STOREV(high, 1, y + 2 * pair);
#endif
}

/* start has the position of each sample's first row, if has_start. sign is -1 for the gradient,
 * which turns back. y may be x. */
__kernel YKI_GROUP(WG, 1) void
yki_rope(__global const float *x, __global const int *start, __global float *y,
         int samples, int length, int columns, int heads, int width, int step_high, int step_low,
         int has_start, float sign)
{
    __local ulong frequency[MOST_PAIRS];
    long groups = (long)get_num_groups(0), group = (long)get_group_id(0);
    int rows = samples * length;
    int begin = (int)(rows * group / groups), end = (int)(rows * (group + 1) / groups);
    int blocks = width / 2 / VEC, copied = columns - heads * width, lid = (int)get_local_id(0);

    for (int i = lid; i < width / 2; i += WG)
        frequency[i] = yki_frequency(i, ((ulong)(uint)step_high << 32) | (uint)step_low);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = lid; k < (end - begin) * blocks; k += WG) {
        int row = begin + k / blocks, pair = (k - k / blocks * blocks) * VEC, sample = row / length;
        int position = row - sample * length + (has_start ? start[sample] : 0);
        long at = (long)row * columns;
        int quarter[VEC], rest[VEC];
        floatv s, c;

        for (int i = 0; i < VEC; i++) {
            uint turn = (uint)((frequency[pair + i] * (ulong)position) >> 32);

            quarter[i] = (int)((turn + (1u << 29)) >> 30);
            rest[i] = (int)(turn - ((uint)quarter[i] << 30));
        }
        s = yki_sin_cos(loadv(0, quarter), loadv(0, rest), &c) * sign;
        for (int h = 0; h < heads; h++)
            yki_turn(x + at + h * width, y + at + h * width, width, pair, s, c);
    }
    if ((__global const float *)y == x)
        return;
    for (int row = begin; row < end; row++) {
        long at = (long)row * columns + heads * width;

        for (int i = lid * VEC; i < copied; i += WG * VEC)
            STOREV(LOADV(0, x + at + i), 0, y + at + i);
    }
}

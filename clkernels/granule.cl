/* SPDX-License-Identifier: Apache-2.0
 *
 * granule.cl - sums of gradients that are the same bits in any order (lib/team/granules.c).
 *
 * A granule's gradient is added as integers, in units of a power of 2, so the order of a sum does
 * not matter. Every weight has its own unit. All is done with integers, so devices that round in
 * another way, or take numbers below 1.2e-38 for 0, compute the same: here all take them for 0.
 *
 * Weights start at multiples of 128 floats within a bucket. `weights` says, for each 128 floats,
 * whose they are, and behind that how many of them are: the others are 0. `units` has, by weight,
 * what is added to the biased exponent of a float to get the number of bits that its 24 bits are
 * shifted to the left.
 *
 * WORD is the size of an integer in bytes. Those of 8 hold all bits of a float. Those of 4 and 2 do
 * not, so a granule's elements are rounded up or down at random, such that the mean is right. The
 * random number follows from the step, the granule and the element, so the split does not matter.
 */
#ifndef WORD
#define WORD 8
#endif
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#define floatv YKI_PASTE(float, VEC)
#define intv   YKI_PASTE(int, VEC)
#define uintv  YKI_PASTE(uint, VEC)
#define loadv  YKI_PASTE(vload, VEC)
#define storev YKI_PASTE(yki_store, VEC)

#define as_intv        YKI_PASTE(as_int, VEC)
#define as_uintv       YKI_PASTE(as_uint, VEC)
#define as_floatv      YKI_PASTE(as_float, VEC)
#define convert_intv   YKI_PASTE(convert_int, VEC)
#define convert_uintv  YKI_PASTE(convert_uint, VEC)

/* Integers as they are stored, and as they are computed with. */
#if WORD == 8
#define wordv          YKI_PASTE(long, VEC)
#define widev          YKI_PASTE(long, VEC)
#define uwidev         YKI_PASTE(ulong, VEC)
#define convert_wordv  YKI_PASTE(convert_long, VEC)
#define convert_widev  YKI_PASTE(convert_long, VEC)
#define convert_uwidev YKI_PASTE(convert_ulong, VEC)
#define SIGN           63
#else
#if WORD == 4
#define wordv          YKI_PASTE(int, VEC)
#define convert_wordv  YKI_PASTE(convert_int, VEC)
#else
#define wordv          YKI_PASTE(short, VEC)
#define convert_wordv  YKI_PASTE(convert_short, VEC)
#endif
#define widev          intv
#define uwidev         uintv
#define convert_widev  convert_intv
#define convert_uwidev convert_uintv
#define SIGN           31
#endif

/* Vectors of a run of floats that belongs to one weight. */
#define RUN (128 / VEC)
/* The unit of a weight whose gradient has an element that is no number. */
#define NO_NUMBER (-2147483647 - 1)

#define GROUP __kernel YKI_GROUP(WG, 1)

/* Each group has one contiguous piece, as in team.cl. */
#define FOR_EACH_VECTOR(i)                                                                    \
    int groups = (int)get_num_groups(0), part = (count + groups - 1) / groups;                \
    int begin = (int)get_group_id(0) * part, end = min(begin + part, count);                  \
                                                                                              \
    for (int i = begin + (int)get_local_id(0); i < end; i += WG)

/* Notes the largest of these elements; as bits, because those of floats are in their order. */
void note_largest(uintv bits, __global uint *largest)
{
    uint lanes[VEC], most = 0u;

    YKI_PASTE(vstore, VEC)(bits, 0, lanes);
    for (int k = 0; k < VEC; k++)
        most = max(most, lanes[k]);
    if (most >= 0x800000u)
        atomic_max((volatile __global uint *)largest, most);
}

#if WORD == 8
#define RANDOM(element) ((uintv)0u)

/* The elements, whose bits without a sign are given, in units; rounded to the nearest. */
wordv in_units(uintv bits, intv sign, int unit, uintv random, uint most)
{
    intv exponent = as_intv(bits >> 23), shift = exponent + unit;
    uintv mantissa = exponent > 0 ? (bits & 0x7fffffu) | 0x800000u : (uintv)0u;
    uintv right = as_uintv(clamp(-shift, 0, 31));
    widev minus = convert_widev(sign >> 31), whole;

    mantissa = (mantissa + (((uintv)1u << right) >> 1)) >> right;
    whole = convert_widev(mantissa) << convert_widev(clamp(shift, 0, 39));
    return (whole ^ minus) - minus;
}
#else
#define RANDOM(element) random_words((uint)(element), key0, key1)

#include "random_words.cl"

/* The elements, whose bits without a sign are given, in units, at most `most` of them. What is
 * behind a unit is the chance that the element is rounded up. */
wordv in_units(uintv bits, intv sign, int unit, uintv random, uint most)
{
    intv exponent = as_intv(bits >> 23), shift = exponent + unit, minus = sign >> 31;
    uintv mantissa = exponent > 0 ? (bits & 0x7fffffu) | 0x800000u : (uintv)0u;
    uintv right = as_uintv(clamp(-shift, 0, 31)), lost = as_uintv(clamp(-31 - shift, 0, 31));

    mantissa = ((mantissa >> lost) + (random & (((uintv)1u << right) - 1u))) >> right;
    mantissa = min(mantissa << as_uintv(clamp(shift, 0, 7)), (uintv)most);
    return convert_wordv((as_intv(mantissa) ^ minus) - minus);
}
#endif

/* Adds a granule's gradient of a bucket, of `count` vectors; the `first` one of a step begins the
 * sum. `cap` is the most units of an element, as the sum of all granules has to fit. The keys are
 * those of the granule. */
GROUP void
yki_granule_add(__global const float *gradient, __global const int *weights,
                __global const int *units, __global uint *largest, __global long *sum, int count,
                int first, int run, int turn, int cap, uint key0, uint key1)
{
    const int first_element = 128 * run;
    uintv most = 0u;
    int weight = -1, unit = 0;

    weights += run;
    units += turn;
    FOR_EACH_VECTOR(i)
    {
        intv given = as_intv(loadv(i, gradient));
        uintv bits = as_uintv(given) & 0x7fffffffu;
        __global wordv *to = (__global wordv *)sum + i;
        wordv add;

        if (weights[i / RUN] != weight) {
            if (weight >= 0)
                note_largest(most, largest + weight);
            most = 0u;
            weight = weights[i / RUN];
            unit = units[weight];
        }
        most = max(most, bits);
        add = in_units(bits, given, unit, RANDOM(first_element + i * VEC), (uint)cap);
        *to = first ? add : *to + add;
    }
    if (weight >= 0)
        note_largest(most, largest + weight);
}

/* Makes floats of sums, rounded once, to the nearest, ties to even. */
GROUP void
yki_granule_round(__global const long *sum, __global const int *weights,
                  __global const int *units, __global float *gradient, int count, int run,
                  int turn, int runs)
{
    weights += run;
    units += turn;
    FOR_EACH_VECTOR(i)
    {
        widev from = convert_widev(((__global const wordv *)sum)[i]);
        uwidev size = abs(from), right, odd, bias;
        intv top = SIGN - convert_intv(clz(size)), exponent;
        intv minus = convert_intv(from >> SIGN) & (intv)NO_NUMBER;
        int unit = units[weights[i / RUN]];
        uintv bits;

        if (unit == NO_NUMBER) {
            /* Of numbers with a sign, clang makes what Oclgrind does not know (freeze). */
            int there = weights[runs + i / RUN] - (int)((uint)i % RUN) * VEC;

            for (int k = 0; k < VEC; k++)
                gradient[(long)i * VEC + k] = k < there ? as_float(0x7fc00000u) : 0.f;
            continue;
        }

        size <<= convert_uwidev(max(23 - top, 0));
        right = convert_uwidev(max(top - 23, 0));
        odd = (size >> right) & (uwidev)1u;
        bias = right > (uwidev)0u ? ((uwidev)1u << right >> 1) - (uwidev)1u + odd : (uwidev)0u;
        size = (size + bias) >> right;
        exponent = top - 23 - unit;
        /* A sum that was rounded up to 2^24 adds 1 to the exponent. */
        bits = (as_uintv(exponent) << 23) + (convert_uintv(size) - 0x800000u);
        bits = exponent > 254 ? (uintv)0x7f800000u : bits;
        bits = exponent < 1 || top < 0 ? (uintv)0u : bits;
        storev(as_floatv(bits | as_uintv(minus)), i, gradient);
    }
}

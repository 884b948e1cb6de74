/* SPDX-License-Identifier: Apache-2.0
 *
 * exact_sum.c - sums of floats that are exact, so that their order does not matter.
 *
 * A float is a whole number of 2^-149 with at most 277 bits. A sum is kept as nine digits of 32
 * bits, each in 64, which have room for 2^31 floats before carries are due. What is no number is
 * counted.
 */
#include <math.h>
#include <string.h>

#include "base/base.h"

enum { LOWEST = 149, BITS = 32 };

void
yki_exact_add(yki_exact_sum *sum, float value)
{
    uint32_t bits, exponent;
    uint64_t mantissa;
    int64_t low, high;

    memcpy(&bits, &value, sizeof bits);
    exponent = bits >> 23 & 255;
    mantissa = (bits & 0x7fffff) | (exponent ? 0x800000u : 0);
    if (exponent == 255) {
        sum->no_number += (bits & 0x7fffff) != 0;
        sum->infinite[bits >> 31] += (bits & 0x7fffff) == 0;
        return;
    }
    exponent -= exponent > 0;
    mantissa <<= exponent % BITS;
    low = (int64_t)(mantissa & UINT32_MAX);
    high = (int64_t)(mantissa >> BITS);
    sum->digits[exponent / BITS] += bits >> 31 ? -low : low;
    if (high)
        sum->digits[exponent / BITS + 1] += bits >> 31 ? -high : high;
}

void
yki_exact_merge(yki_exact_sum *sum, const yki_exact_sum *other)
{
    for (size_t i = 0; i < YKI_EXACT_DIGITS; i++)
        sum->digits[i] += other->digits[i];
    sum->no_number += other->no_number;
    sum->infinite[0] += other->infinite[0];
    sum->infinite[1] += other->infinite[1];
}

/* Moves what a digit has beyond 32 bits to the next one, and returns whether the sum is below 0. */
static bool
carry(int64_t *digits)
{
    for (size_t i = 0; i + 1 < YKI_EXACT_DIGITS; i++) {
        int64_t low = digits[i] & UINT32_MAX;

        digits[i + 1] += (digits[i] - low) / (INT64_C(1) << BITS);
        digits[i] = low;
    }
    return digits[YKI_EXACT_DIGITS - 1] < 0;
}

double
yki_exact_value(const yki_exact_sum *sum)
{
    int64_t digits[YKI_EXACT_DIGITS];
    double value = 0;
    bool minus;

    if (sum->no_number || (sum->infinite[0] && sum->infinite[1]))
        return (double)NAN;
    if (sum->infinite[0] || sum->infinite[1])
        return sum->infinite[0] ? (double)INFINITY : -(double)INFINITY;
    memcpy(digits, sum->digits, sizeof digits);
    minus = carry(digits);
    if (minus) {
        for (size_t i = 0; i < YKI_EXACT_DIGITS; i++)
            digits[i] = -digits[i];
        (void)carry(digits);
    }
    for (size_t i = 0; i < YKI_EXACT_DIGITS; i++)
        value += ldexp((double)digits[i], (int)i * BITS - LOWEST);
    return minus ? -value : value;
}

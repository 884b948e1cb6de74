/* SPDX-License-Identifier: Apache-2.0
 *
 * exp2.cl - 2^a for a <= 0 and what follows from it, on the vectors of vectors.cl, which
 * stands before it.
 */
#ifndef floatv /* compiled alone */
#define floatv    float4
#define intv      int4
#define as_floatv as_float4
#define as_intv   as_int4
#define QUOTIENT(T, a, b) ((a) / (b))
#endif

/* 2^a where a <= 0 (0 below 2^-126). The nearest integer goes to the exponent, and a polynomial
 * takes the rest. The error is at most 1.4 units of the last place; it takes half the time of a
 * driver's exp. */
floatv exp2_down(floatv a)
{
    const float bias = 12582912.f; /* 1.5 * 2^23: a sum with it is rounded to an integer */
    floatv shifted = a + bias, f = a - (shifted - bias), r;

    r = YKI_FMA(f, (floatv)(1.5353362e-4f), (floatv)(1.3398875e-3f));
    r = YKI_FMA(f, r, (floatv)(9.61843692e-3f));
    r = YKI_FMA(f, r, (floatv)(5.55033237e-2f));
    r = YKI_FMA(f, r, (floatv)(2.40226477e-1f));
    r = YKI_FMA(f, r, (floatv)(6.93147182e-1f));
    r = YKI_FMA(f, r, (floatv)(1.f));
    return select(as_floatv(as_intv(r) + (as_intv(shifted) << 23)), (floatv)(0.f), a < -126.f);
}

/* 1 / (1 + e^-x) without overflow: e^-|x| is at most 1. NaN stays NaN. The exponent is a product
 * with log2(e) whose rounding is put right. `rest` is 1 / (1 + e^x), which is what is missing to
 * 1. */
floatv sigmoid_and_rest(floatv x, floatv *rest)
{
    floatv t = -fabs(x), a = t * 1.442695041f, e = exp2_down(a), one;

    e = select(YKI_FMA(e, YKI_FMA(t, (floatv)(1.442695041f), -a) * 0.693147181f, e),
               (floatv)(0.f), a < -126.f);
    one = QUOTIENT(floatv, 1.f, 1.f + e);
    *rest = select(one, e * one, x >= 0.f);
    return select(e * one, one, x >= 0.f);
}

floatv sigmoidv(floatv x)
{
    floatv rest;

    return sigmoid_and_rest(x, &rest);
}

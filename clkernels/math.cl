/* SPDX-License-Identifier: Apache-2.0
 *
 * math.cl - exponentials, logarithms and powers. In a canonical plan (YKI_CANONICAL, common.cl)
 * they have the same bits on every device: they are sequences of fma, sums and products here,
 * with results below FLT_MIN settled to 0. Elsewhere they are the driver's own, which are faster.
 *
 *     YKI_EXP(float, x)      e^x
 *     YKI_LOG(float, x)      the natural logarithm
 *     YKI_LOG1P(float, x)    log(1 + x) for x >= 0
 *     YKI_POW(float, x, a)   x^a, in which a is a float for all lanes
 *
 * The type may be float, or floatv of vectors.cl if that stands before. Errors are about one unit
 * of the last place; of powers, as many as a and the exponent of x make of it. Polynomials: Cephes.
 */
#if !YKI_CANONICAL
#define YKI_EXP(T, x)    exp(x)
#define YKI_LOG(T, x)    log(x)
#define YKI_LOG1P(T, x)  log1p(x)
#define YKI_POW(T, x, a) pow(x, (T)(a))
#else
#define YKI_EXP(T, x)    YKI_PASTE(exp_, T)(x)
#define YKI_LOG(T, x)    YKI_PASTE(log_, T)(x)
#define YKI_LOG1P(T, x)  YKI_PASTE(log1p_, T)(x)
#define YKI_POW(T, x, a) YKI_PASTE(pow_, T)(x, a)

/* exp: x = n log(2) + r with |r| <= log(2) / 2. 2^n is two factors, because n may be 128. */
#define DEFINE_EXP(T, I)                                                                      \
    T YKI_PASTE(exp_, T)(T x)                                                                 \
    {                                                                                         \
        const float bias = 12582912.f; /* a sum with it is rounded to an integer */           \
        T t = select(x, (T)(-90.f), x < -90.f), shifted, n, r, p;                             \
        I half_, rest_;                                                                       \
                                                                                              \
        t = select(t, (T)(90.f), x > 90.f);                                                   \
        shifted = fma(t, (T)(1.44269504f), (T)(bias));                                        \
        n = shifted - bias;                                                                   \
        r = fma(n, (T)(-0.693359375f), t);                                                    \
        r = fma(n, (T)(2.12194440e-4f), r);                                                   \
        p = fma(r, (T)(1.9875691500e-4f), (T)(1.3981999507e-3f));                             \
        p = fma(r, p, (T)(8.3334519073e-3f));                                                 \
        p = fma(r, p, (T)(4.1665795894e-2f));                                                 \
        p = fma(r, p, (T)(1.6666665459e-1f));                                                 \
        p = fma(r, p, (T)(5.0000001201e-1f));                                                 \
        p = fma(r * r, p, r) + 1.f;                                                           \
        rest_ = YKI_PASTE(as_, I)(shifted) - 0x4b400000;                                      \
        half_ = rest_ >> 1;                                                                   \
        rest_ -= half_;                                                                       \
        p = p * YKI_PASTE(as_, T)((half_ + 127) << 23);                                       \
        p = p * YKI_PASTE(as_, T)((rest_ + 127) << 23);                                       \
        p = select(p, (T)(0.f), x < -87.3365402f);                                            \
        p = select(p, (T)(INFINITY), x > 88.7228317f);                                        \
        return select(p, x, isnan(x));                                                        \
    }

/* log: x = 2^e m with m from sqrt(1/2) to sqrt(2). The result and *low are its logarithm, the
 * result alone that rounded. Only for numbers that are positive and finite. */
#define DEFINE_LOG(T, I)                                                                      \
    T YKI_PASTE(log_parts_, T)(T x, T *low)                                                   \
    {                                                                                         \
        I bits = YKI_PASTE(as_, I)(x) - 0x3f3504f3, whole = bits >> 23;                       \
        T e = YKI_PASTE(convert_, T)(whole), z, y, high, sum;                                 \
                                                                                              \
        z = YKI_PASTE(as_, T)((bits & 0x7fffff) + 0x3f3504f3) - 1.f;                          \
        y = fma(z, (T)(7.0376836292e-2f), (T)(-1.1514610310e-1f));                            \
        y = fma(z, y, (T)(1.1676998740e-1f));                                                 \
        y = fma(z, y, (T)(-1.2420140846e-1f));                                                \
        y = fma(z, y, (T)(1.4249322787e-1f));                                                 \
        y = fma(z, y, (T)(-1.6668057665e-1f));                                                \
        y = fma(z, y, (T)(2.0000714765e-1f));                                                 \
        y = fma(z, y, (T)(-2.4999993993e-1f));                                                \
        y = fma(z, y, (T)(3.3333331174e-1f));                                                 \
        y = z * (z * z) * y;                                                                  \
        y = fma(e, (T)(-2.12194440e-4f), y);                                                  \
        y = fma(z * z, (T)(-.5f), y);                                                         \
        e = e * 0.693359375f; /* without an error */                                          \
        high = e + z;                                                                         \
        y += z - (high - e); /* again none: e is larger than z, or 0 */                       \
        sum = high + y;                                                                       \
        *low = y - (sum - high);                                                              \
        return sum;                                                                           \
    }                                                                                         \
    T YKI_PASTE(log_, T)(T x)                                                                 \
    {                                                                                         \
        T low, y = YKI_PASTE(log_parts_, T)(x, &low);                                         \
                                                                                              \
        y = select(y, (T)(-INFINITY), x < (T)(FLT_MIN));                                      \
        y = select(y, (T)(NAN), x < (T)(0.f));                                                \
        return select(y, x, isnan(x) | (x == (T)(INFINITY)));                                 \
    }                                                                                         \
    T YKI_PASTE(log1p_, T)(T x)                                                               \
    {                                                                                         \
        T sum = 1.f + x;                                                                      \
                                                                                              \
        return YKI_PASTE(log_, T)(sum) + QUOTIENT(T, x - (sum - 1.f), sum);                   \
    }

/* The power of 0 and of infinity, by the sign of a. */
#define DEFINE_POW(T, I)                                                                      \
    T YKI_PASTE(pow_, T)(T x, float a)                                                        \
    {                                                                                         \
        const int whole = a == trunc(a), odd = whole && fabs(a) < 16777216.f && ((int)a & 1); \
        T base = fabs(x), low, high, p, error, y;                                             \
                                                                                              \
        if (a == 0.f)                                                                         \
            return (T)(1.f);                                                                  \
        high = YKI_PASTE(log_parts_, T)(base, &low);                                          \
        p = high * a;                                                                         \
        error = fma(low, (T)(a), fma(high, (T)(a), -p));                                      \
        y = YKI_PASTE(exp_, T)(p);                                                            \
        y = select(fma(y, error, y), y, (y == 0.f) | (y == (T)(INFINITY)));                   \
        y = select(y, (T)(a > 0.f ? 0.f : INFINITY), base < (T)(FLT_MIN));                    \
        y = select(y, (T)(a > 0.f ? INFINITY : 0.f), base == (T)(INFINITY));                  \
        if (odd)                                                                              \
            y = copysign(y, x);                                                               \
        if (!whole)                                                                           \
            y = select(y, (T)(NAN), x < (T)(0.f));                                            \
        return select(y, x, isnan(x));                                                        \
    }

#define DEFINE_MATH(T, I)                                                                     \
    DEFINE_EXP(T, I)                                                                          \
    DEFINE_LOG(T, I)                                                                          \
    DEFINE_POW(T, I)

DEFINE_MATH(float, int)
#if defined floatv && VEC > 1
DEFINE_MATH(floatv, intv)
#endif
#endif

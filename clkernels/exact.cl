/* SPDX-License-Identifier: Apache-2.0
 *
 * exact.cl - arithmetic with the same bits on every device, for what each replica computes for
 * itself (updates and running statistics) and for canonical plans. YKI_EXACT_FMA (common.cl) rounds
 * once everywhere; here are quotients, roots, and numbers below FLT_MIN.
 *
 *     QUOTIENT(float, a, b)      a / b
 *     ROOT(float, a)             the square root
 *     INVERSE_ROOT(float, a)     1 / the square root
 *     SETTLED(float, x)          x, an operand or a result
 *     DEFINE_EXACT(float4, int4) makes all that another type of floats needs; floatv has it, if it
 *                                is defined before, as by vectors.cl
 *
 * All kernels write quotients and roots of floats so. Where updates are settled (SETTLE) and in
 * canonical plans they are rounded once, also on devices that do not promise it. There they are
 * within 3 units of the last place. A step of Newton's brings them to the right number or to a
 * neighbour of it, and remainders tell which. They have no error, because small operands are made
 * larger before: a remainder may be 2^-46 of its operand, and below FLT_MIN it could be taken for 0.
 * The step takes a quarter of the remainder and 4 / b: 1 / b may be below FLT_MIN.
 *
 * SETTLE is 1 in a team that has a device which does not promise all of IEEE's arithmetic. Then
 * numbers below FLT_MIN are 0: some devices keep them, others take operands for 0, or results, or
 * those of a few operations. FLT_MIN becomes 0 too: what rounds to it may have been 0 before.
 */
#ifndef SETTLE
#define SETTLE 0
#endif

#if SETTLE
#define SETTLED(T, x) YKI_PASTE(settled_, T)(x)
#else
#define SETTLED(T, x) (x)
#endif

/* The device's own. */
#ifndef OWN_QUOTIENT
#define OWN_QUOTIENT(T, a, b) ((a) / (b))
#define OWN_ROOT(T, a)        sqrt(a)
#endif

#define INVERSE_ROOT(T, a) QUOTIENT(T, 1.f, ROOT(T, a))
#if YKI_ROUNDED_DIVIDE || !(SETTLE || YKI_CANONICAL)
#define QUOTIENT(T, a, b) OWN_QUOTIENT(T, (T)(a), (T)(b))
#define ROOT(T, a)        OWN_ROOT(T, a)
#else
#define QUOTIENT(T, a, b) YKI_PASTE(quotient_, T)((T)(a), (T)(b))
#define ROOT(T, a)        YKI_PASTE(root_, T)(a)
#endif

#if YKI_ROUNDED_DIVIDE
#define DEFINE_ROUNDED(T, I)                                                                  \
    T YKI_PASTE(quotient_, T)(T a, T b) { return a / b; }                                     \
    T YKI_PASTE(root_, T)(T a) { return sqrt(a); }
#else
#define NEIGHBOUR(T, I, x, way) YKI_PASTE(as_, T)(YKI_PASTE(as_, I)(x) + (way))
/* x times 2^power if a is small. */
#define SCALED(T, x, power, a)  ((x) * select((T)(1.f), (T)(power), fabs(a) < (T)(0x1p-80f)))
/* A neighbour that is no number has a remainder that is none, and loses each comparison; so do those
 * of infinity. */
#define DEFINE_ROUNDED(T, I)                                                                  \
    T YKI_PASTE(quotient_, T)(T a, T b)                                                       \
    {                                                                                         \
        T c = SCALED(T, a, 0x1p64f, a), q = OWN_QUOTIENT(T, c, b), up, down, least;           \
        T next = fma(fma(-q, b, c) * .25f, OWN_QUOTIENT(T, (T)(4.f), b), q);                  \
                                                                                              \
        q = select(q, next, isfinite(next));                                                  \
        up = NEIGHBOUR(T, I, q, 1), down = NEIGHBOUR(T, I, q, -1);                            \
        least = select((T)(0.f), fabs(fma(-q, b, c)), isfinite(q));                           \
        next = select(q, up, fabs(fma(-up, b, c)) < least);                                   \
        next = select(next, down, fabs(fma(-down, b, c)) < least);                            \
        return SCALED(T, next, 0x1p-64f, a);                                                  \
    }                                                                                         \
    T YKI_PASTE(root_, T)(T a)                                                                \
    {                                                                                         \
        T c = SCALED(T, a, 0x1p64f, a), s = OWN_ROOT(T, c), up, down;                         \
        T next = fma(fma(-s, s, c), OWN_QUOTIENT(T, (T)(.5f), s), s);                         \
                                                                                              \
        s = select(s, next, isfinite(next));                                                  \
        up = NEIGHBOUR(T, I, s, 1), down = NEIGHBOUR(T, I, s, -1);                            \
        next = select(s, up, fma(s, up, -c) < (T)(0.f));                                      \
        next = select(next, down, (fma(s, down, -c) >= (T)(0.f)) & (s > (T)(0.f)));           \
        return SCALED(T, next, 0x1p-32f, a);                                                  \
    }
#endif

#define DEFINE_EXACT(T, I)                                                                    \
    T YKI_PASTE(settled_, T)(T x)                                                             \
    {                                                                                         \
        return select(x, (T)(0.f), fabs(x) <= (T)(FLT_MIN));                                  \
    }                                                                                         \
    DEFINE_ROUNDED(T, I)

DEFINE_EXACT(float, int)
#if defined floatv && VEC > 1
DEFINE_EXACT(floatv, YKI_PASTE(int, VEC))
#endif

/* The next value of a running mean or variance, always settled: it costs nothing, and those of a
 * channel that is 0 for long come down to numbers that some devices do not keep. */
float
renewed(float now, float value, float momentum)
{
    float old = settled_float((1.f - momentum) * settled_float(now));

    return settled_float(YKI_EXACT_FMA(momentum, settled_float(value), old));
}

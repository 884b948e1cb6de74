/* SPDX-License-Identifier: Apache-2.0
 *
 * unary.cl - functions of one element, and their gradients.
 *
 * The tensor is flat memory: layouts do not matter, and padding lanes are computed
 * like the rest; functions that are not finite at some of them take none. A work-group takes
 * one contiguous piece, which its WG work-items walk together, VEC floats at a time:
 * WG 1 and a full vector on CPUs, many work-items and a short vector on GPUs.
 *
 * The result for an element does not depend on the vector that it falls into. Vector
 * and scalar forms of a function may differ by a bit, so the remainder goes through
 * the vector form too, on a padded copy.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#include "vectors.cl"
#include "exact.cl"
#include "exp2.cl"
#include "math.cl"

/* The range of this work-group, in whole vectors of the tensor. */
#define FOR_EACH_VECTOR(i)                                                                    \
    int vectors_ = (count + VEC - 1) / VEC;                                                   \
    int groups_ = (int)get_num_groups(0), group_ = (int)get_group_id(0);                      \
    int begin_ = (int)((long)vectors_ * group_ / groups_);                                    \
    int end_ = (int)((long)vectors_ * (group_ + 1) / groups_);                                \
    for (int i = begin_ + (int)get_local_id(0); i < end_; i += WG)

/* Loads and stores vector i; the last one of a tensor may exist only in part. */
#define LOAD(v, p, i)                                                                         \
    floatv v;                                                                                 \
    if (((i) + 1) * VEC <= count)                                                             \
        v = LOADV((i), p);                                                                    \
    else {                                                                                    \
        float part_[VEC];                                                                     \
        for (int k_ = 0; k_ < VEC; k_++)                                                      \
            part_[k_] = (i)*VEC + k_ < count ? p[(i)*VEC + k_] : 0.f;                         \
        v = loadv(0, part_);                                                                  \
    }
#define STORE(v, p, i)                                                                        \
    if (((i) + 1) * VEC <= count)                                                             \
        STOREV(v, (i), p);                                                                    \
    else {                                                                                    \
        float part_[VEC];                                                                     \
        storev(v, 0, part_);                                                                  \
        for (int k_ = 0; k_ < VEC && (i)*VEC + k_ < count; k_++)                              \
            p[(i)*VEC + k_] = part_[k_];                                                      \
    }

/* y = EXPR of x; dx = GRAD of dy and v. v is y where the gradient follows from the result (which
 * may then share its memory with x), otherwise x. a and b are the operator's numbers. */
#define UNARY(name, EXPR, GRAD)                                                               \
    __kernel YKI_GROUP(WG, 1) void yki_##name(                                                \
        __global const float *in, __global float *out, int count, float a, float b)           \
    {                                                                                         \
        FOR_EACH_VECTOR(i)                                                                    \
        {                                                                                     \
            LOAD(x, in, i)                                                                    \
            floatv y = EXPR;                                                                  \
            STORE(y, out, i)                                                                  \
        }                                                                                     \
    }                                                                                         \
    __kernel YKI_GROUP(WG, 1) void yki_##name##_grad(                                         \
        __global const float *in, __global const float *grad, __global float *out, int count, \
        float a, float b)                                                                     \
    {                                                                                         \
        FOR_EACH_VECTOR(i)                                                                    \
        {                                                                                     \
            LOAD(v, in, i)                                                                    \
            LOAD(dy, grad, i)                                                                 \
            floatv dx = GRAD;                                                                 \
            STORE(dx, out, i)                                                                 \
        }                                                                                     \
    }

/* The cumulative normal distribution, with which gelu(x) = x * cdf(x). Left of 0 it is 2^(t p(t)
 * - 1) with t = -x. p is a polynomial fitted up to 5.5, where cdf is 2e-8. So the error of cdf
 * is less than 8e-8 and, down to there, its relative error is less than 1e-5. (Computed as 1 +
 * erf(x), the relative error would be 1.) */
floatv cdf(floatv x)
{
    floatv t = fabs(x), u = select(t, (floatv)(5.5f), t > 5.5f), p, left;

    p = YKI_FMA(u, (floatv)(-3.5779383e-8f), (floatv)(9.98781616e-7f));
    p = YKI_FMA(u, p, (floatv)(-1.20945251e-5f));
    p = YKI_FMA(u, p, (floatv)(8.10576821e-5f));
    p = YKI_FMA(u, p, (floatv)(-2.89490941e-4f));
    p = YKI_FMA(u, p, (floatv)(9.62799822e-6f));
    p = YKI_FMA(u, p, (floatv)(6.94597932e-3f));
    p = YKI_FMA(u, p, (floatv)(-5.24463691e-2f));
    p = YKI_FMA(u, p, (floatv)(-4.59217846e-1f));
    p = YKI_FMA(u, p, (floatv)(-1.15110457f));
    left = exp2_down(YKI_FMA(t, p, (floatv)(-1.f)));
    return select(1.f - left, left, x < 0.f);
}

/* Its derivative, e^(-x^2 / 2) / sqrt(2 pi), as a power of two. */
floatv pdf(floatv x)
{
    return exp2_down(YKI_FMA(x * x, (floatv)(-0.72134752044448170f), (floatv)(-1.3257480647361593f)));
}

/* What gelu's distribution is by tanh: (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3),
 * as 1 / (1 + 2^-w) with w = 2 u log2(e). Beyond 10 it is 1, or nothing, as it is at 10, so large
 * numbers are not cubed. */
floatv gelu_bounded(floatv x)
{
    return select(select(x, (floatv)(10.f), x > 10.f), (floatv)(-10.f), x < -10.f);
}

floatv gelu_share(floatv x)
{
    floatv t = gelu_bounded(x), e;

    e = exp2_down(-fabs(t) * YKI_FMA(t * t, (floatv)(0.1029432397f), (floatv)(2.302208198f)));
    return QUOTIENT(floatv, select(e, (floatv)(1.f), x >= 0.f), 1.f + e);
}

/* 2 u'. */
floatv gelu_slope(floatv x)
{
    floatv t = gelu_bounded(x);

    return YKI_FMA(t * t, (floatv)(0.2140644488f), (floatv)(1.595769122f));
}

/* Near 0 an odd polynomial (Cephes), farther out 1 - 2 / (e^2|x| + 1). The tanh of some drivers
 * takes four times as long as reading x. The error is at most 3 units of the last place. The
 * polynomial keeps NaN. */
floatv tanhv(floatv x)
{
    floatv z = x * x, near;
    floatv far = 1.f - QUOTIENT(floatv, 2.f, YKI_EXP(floatv, 2.f * fabs(x)) + 1.f);

    near = YKI_FMA(z, (floatv)(-5.70498872745e-3f), (floatv)(2.06390887954e-2f));
    near = YKI_FMA(z, near, (floatv)(-5.37397155531e-2f));
    near = YKI_FMA(z, near, (floatv)(1.33314422036e-1f));
    near = YKI_FMA(z, near, (floatv)(-3.33332819422e-1f));
    near = YKI_FMA(z * near, x, x);
    return select(near, select(far, -far, x < 0.f), fabs(x) >= .625f);
}

/* e^x - 1 where x <= 0: 2 t / (1 - t) with t = tanh(x / 2). */
floatv expm1v(floatv x)
{
    floatv t = tanhv(.5f * x);

    return QUOTIENT(floatv, 2.f * t, 1.f - t);
}

/* max(x, 0) would turn NaN into 0; a comparison that is false for NaN keeps it. */
UNARY(relu, select(x, (floatv)(0.f), x <= 0.f), select(dy, (floatv)(0.f), v <= 0.f))

/* The same with dy = one + other, the gradients by two readers. */
__kernel YKI_GROUP(WG, 1) void
yki_relu_grad_of_sum(__global const float *in, __global const float *one,
                     __global const float *other, __global float *out, int count, float a, float b)
{
    FOR_EACH_VECTOR(i)
    {
        LOAD(v, in, i)
        LOAD(dy, one, i)
        LOAD(more, other, i)
        dy += more;
        dy = select(dy, (floatv)(0.f), v <= 0.f);
        STORE(dy, out, i)
    }
}

UNARY(leaky_relu, select(x, a *x, x <= 0.f), select(dy, a *dy, v <= 0.f))
UNARY(sigmoid, sigmoidv(x), dy *v *(1.f - v))
UNARY(tanh, tanhv(x), dy *(1.f - v * v))
UNARY(gelu, x *cdf(x), dy *YKI_FMA(v, pdf(v), cdf(v)))
UNARY(gelu_tanh, x *gelu_share(x),
      dy *YKI_FMA(v * gelu_share(v) * (1.f - gelu_share(v)), gelu_slope(v), gelu_share(v)))
UNARY(silu, x *sigmoidv(x), dy *sigmoidv(v) * YKI_FMA(v, 1.f - sigmoidv(v), (floatv)(1.f)))
/* Linear but for a smooth turn within 3 of 0; comparisons keep NaN, and keep infinity from 0. */
UNARY(hardswish, select(select(x *YKI_FMA(x, (floatv)(1.f / 6.f), (floatv)(.5f)), x, x >= 3.f), (floatv)(0.f), x <= -3.f),
      select(select(dy *YKI_FMA(v, (floatv)(1.f / 3.f), (floatv)(.5f)), dy, v > 3.f), (floatv)(0.f), v < -3.f))
/* e^x - 1 left of 0, by way of tanh, which is exact near 0, too. */
UNARY(elu, select(x, a *expm1v(x), x <= 0.f), select(dy, dy *(v + a), v <= 0.f))
/* Infinite, or NaN, outside of what they are for, as IEEE 754 has it. */
UNARY(exp, YKI_EXP(floatv, x), dy *v)
UNARY(log, YKI_LOG(floatv, x), QUOTIENT(floatv, dy, v))
UNARY(sqrt, ROOT(floatv, x), QUOTIENT(floatv, .5f * dy, v))
UNARY(abs, fabs(x), select(select(dy, -dy, v < 0.f), v, v == 0.f))
/* A square is exact. The gradient of a constant is 0, also where x^-1 is infinite. */
UNARY(pow, a == 2.f ? x *x : YKI_POW(floatv, x, a),
      a == 0.f ? 0.f * v : a == 2.f ? 2.f * dy *v : dy *a *YKI_POW(floatv, v, a - 1.f))
UNARY(scale, YKI_FMA(x, (floatv)(a), (floatv)(b)), dy *a)

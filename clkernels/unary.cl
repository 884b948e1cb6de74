/* SPDX-License-Identifier: Apache-2.0
 *
 * unary.cl - functions of one element, and their gradients.
 *
 * The tensor is flat: layouts do not matter, padding lanes are computed like the
 * rest (every function here is finite at finite values). A work-group takes one
 * contiguous piece, WG items walk it together, VEC floats at a time: WG 1 and a
 * full vector on CPUs, many items and a short one on GPUs.
 *
 * What an element becomes does not depend on the vector it falls into: vector and
 * scalar forms of a function may differ by a bit, so the tail goes through the
 * vector form as well, on a padded copy.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#define floatv YKI_PASTE(float, VEC)
#define intv YKI_PASTE(int, VEC)
#define loadv YKI_PASTE(vload, VEC)
#define storev YKI_PASTE(yki_store, VEC)
#define as_intv YKI_PASTE(as_int, VEC)

/* The range of this work-group, in whole vectors of the tensor. */
#define FOR_EACH_VECTOR(i)                                                                    \
    int vectors_ = (count + VEC - 1) / VEC;                                                   \
    int groups_ = (int)get_num_groups(0), group_ = (int)get_group_id(0);                      \
    int begin_ = (int)((long)vectors_ * group_ / groups_);                                    \
    int end_ = (int)((long)vectors_ * (group_ + 1) / groups_);                                \
    for (int i = begin_ + (int)get_local_id(0); i < end_; i += WG)

/* Loads and stores vector i, the last one of a tensor perhaps only in part. */
#define LOAD(v, p, i)                                                                         \
    floatv v;                                                                                 \
    if (((i) + 1) * VEC <= count)                                                             \
        v = loadv((i), p);                                                                    \
    else {                                                                                    \
        float part_[VEC];                                                                     \
        for (int k_ = 0; k_ < VEC; k_++)                                                      \
            part_[k_] = (i)*VEC + k_ < count ? p[(i)*VEC + k_] : 0.f;                         \
        v = loadv(0, part_);                                                                  \
    }
#define STORE(v, p, i)                                                                        \
    if (((i) + 1) * VEC <= count)                                                             \
        storev(v, (i), p);                                                                    \
    else {                                                                                    \
        float part_[VEC];                                                                     \
        storev(v, 0, part_);                                                                  \
        for (int k_ = 0; k_ < VEC && (i)*VEC + k_ < count; k_++)                              \
            p[(i)*VEC + k_] = part_[k_];                                                      \
    }

/* y = EXPR of x; dx = GRAD of dy and v, which is y where the gradient can be told from the
 * result (it may then share its memory with x), else x. a and b are the operator's numbers. */
#define UNARY(name, EXPR, GRAD)                                                               \
    __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void yki_##name(                 \
        __global const float *in, __global float *out, int count, float a, float b)           \
    {                                                                                         \
        FOR_EACH_VECTOR(i)                                                                    \
        {                                                                                     \
            LOAD(x, in, i)                                                                    \
            floatv y = EXPR;                                                                  \
            STORE(y, out, i)                                                                  \
        }                                                                                     \
    }                                                                                         \
    __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void yki_##name##_grad(          \
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

/* 1 / (1 + e^-x) without overflow: e^-|x| is at most 1. NaN stays NaN. */
floatv sigmoidv(floatv x)
{
    floatv e = exp(-fabs(x));

    return select(e, (floatv)(1.f), x >= 0.f) / (1.f + e);
}

/* The error function: near 0 x and an odd polynomial, beyond 1 - e^-p(|x|), p's polynomial the
 * logarithm of what is missing to 1; both fitted for the least greatest error, which is under one
 * unit of the last place. A driver may go through erf one lane after the other. NaN stays NaN by
 * the first. */
floatv erfv(floatv x)
{
    floatv z = x * x, t = fabs(x), near, far;

    near = YKI_FMA(z, (floatv)(-5.965799791738391e-4f), (floatv)(4.988307133316994e-3f));
    near = YKI_FMA(z, near, (floatv)(-2.6763329282402992e-2f));
    near = YKI_FMA(z, near, (floatv)(1.1281726509332657e-1f));
    near = YKI_FMA(z, near, (floatv)(-3.7612485885620117e-1f));
    near = YKI_FMA(z, near, (floatv)(1.2837915122509003e-1f));
    far = YKI_FMA(t, (floatv)(1.1231225471419748e-5f), (floatv)(-3.2280306913889945e-4f));
    far = YKI_FMA(t, far, (floatv)(3.642455907538533e-3f));
    far = YKI_FMA(t, far, (floatv)(-2.3762056604027748e-2f));
    far = YKI_FMA(t, far, (floatv)(1.0623686760663986e-1f));
    far = YKI_FMA(t, far, (floatv)(6.351513266563416e-1f));
    far = YKI_FMA(t, far, (floatv)(1.1286485195159912f));
    far = 1.f - exp(-t * far);
    return select(YKI_FMA(near, x, x), select(far, -far, x < 0.f), t >= .92f);
}

/* The normal distribution: gelu(x) = x * cdf(x). */
floatv cdf(floatv x)
{
    return 0.5f * (1.f + erfv(x * 0.70710678118654752f));
}
floatv pdf(floatv x)
{
    return 0.39894228040143268f * exp(-0.5f * x * x);
}

/* Near 0 an odd polynomial (Cephes), beyond 1 - 2 / (e^2|x| + 1): some drivers' own takes four times
 * as long as reading x. Within 3 units of the last place. NaN stays NaN by the first. */
floatv tanhv(floatv x)
{
    floatv z = x * x, far = 1.f - 2.f / (exp(2.f * fabs(x)) + 1.f), near;

    near = YKI_FMA(z, (floatv)(-5.70498872745e-3f), (floatv)(2.06390887954e-2f));
    near = YKI_FMA(z, near, (floatv)(-5.37397155531e-2f));
    near = YKI_FMA(z, near, (floatv)(1.33314422036e-1f));
    near = YKI_FMA(z, near, (floatv)(-3.33332819422e-1f));
    near = YKI_FMA(z * near, x, x);
    return select(near, select(far, -far, x < 0.f), fabs(x) >= .625f);
}

/* max(x, 0) would turn NaN into 0: a comparison that NaN fails keeps it. */
UNARY(relu, select(x, (floatv)(0.f), x <= 0.f), select(dy, (floatv)(0.f), v <= 0.f))
UNARY(leaky_relu, select(x, a *x, x <= 0.f), select(dy, a *dy, v <= 0.f))
UNARY(sigmoid, sigmoidv(x), dy *v *(1.f - v))
UNARY(tanh, tanhv(x), dy *(1.f - v * v))
UNARY(gelu, x *cdf(x), dy *YKI_FMA(v, pdf(v), cdf(v)))
UNARY(silu, x *sigmoidv(x), dy *sigmoidv(v) * YKI_FMA(v, 1.f - sigmoidv(v), (floatv)(1.f)))
UNARY(scale, YKI_FMA(x, (floatv)(a), (floatv)(b)), dy *a)

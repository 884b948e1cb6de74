/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_matrices.cl - the matrices of Winograd's F(4x4, 3x3) and F(3x3, 4x4), for the
 * files that include it. They define floatv, the type of what is transformed.
 *
 * The correlation of 6 inputs with a filter of 3 taps, which gives 4 results, is the transpose of
 * a product of polynomials. Evaluated at the 5 points a = 0, 1, -1, 1/2, -2 and at infinity, it
 * takes 6 products:
 *
 *     y = AT [ (G g) . (BT d) ]
 *
 * M(x) is the product of all (x - a_i), Mj(x) the product without (x - a_j), and fj = Mj(a_j).
 * The matrices are
 *
 *     BT: row j has the coefficients of Mj, the last row those of M   (6 x 6)
 *     G:  row j = (1, a_j, a_j^2) / fj, last row (0, 0, 1)            (6 x 3)
 *     AT: row i = (a_j^i for the points j, i == 3)                    (4 x 6)
 *
 * For these points they are, exactly,
 *
 *     BT =  1 -3/2  -2  3/2  1  0     fj =    1     AT = 1  1  1   1    1  0
 *           0  -1  1/2  5/2  1  0             3          0  1 -1  1/2  -2  0
 *           0   1 -5/2  1/2  1  0            -3          0  1  1  1/4   4  0
 *           0  -2  -1    2   1  0         -15/16         0  1 -1  1/8  -8  1
 *           0  1/2 -1  -1/2  1  0            15
 *           0   1 -3/2  -2  3/2 1             1
 *
 * (tests/op/check_winograd.c computes them again from the points and compares.) Only the 1/fj are
 * inexact in binary. They are applied once to each weight, as one rounded factor. Nested in two
 * dimensions, 16 results take 36 products instead of 144. These points lose less precision than 0,
 * +-1, +-2 (tests/op/oracle_conv.c has the errors).
 *
 * The gradient of the weights is the correlation of 6 inputs with 4 gradients, which gives 3
 * results. BT is the same, with 4 coefficients instead of 3, and 3 results instead of 4. Both the
 * sum over tiles and 1/fj commute with AT, which is applied once at the end.
 */
#ifndef floatv
#define floatv float
#endif

/* BT times a column or row. */
#define TRANSFORM_6(d0, d1, d2, d3, d4, d5, o0, o1, o2, o3, o4, o5)                           \
    {                                                                                         \
        floatv p_ = d4 - d2, q_ = d3 - d1;                                                    \
        o0 = YKI_FMA((floatv)(1.5f), q_, YKI_FMA((floatv)(-2.f), d2, d0 + d4));               \
        o1 = YKI_FMA((floatv)(2.5f), d3, YKI_FMA((floatv)(.5f), d2, d4 - d1));                \
        o2 = YKI_FMA((floatv)(.5f), d3, YKI_FMA((floatv)(-2.5f), d2, d4 + d1));               \
        o3 = YKI_FMA((floatv)(2.f), q_, p_);                                                  \
        o4 = YKI_FMA((floatv)(-.5f), q_, p_);                                                 \
        o5 = YKI_FMA((floatv)(1.5f), p_, YKI_FMA((floatv)(-2.f), d3, d1 + d5));               \
    }

/* G, without 1/f. */
#define TRANSFORM_3(g0, g1, g2, o0, o1, o2, o3, o4, o5)                                       \
    {                                                                                         \
        floatv s_ = g0 + g2;                                                                  \
        o0 = g0;                                                                              \
        o1 = s_ + g1;                                                                         \
        o2 = s_ - g1;                                                                         \
        o3 = YKI_FMA((floatv)(.25f), g2, YKI_FMA((floatv)(.5f), g1, g0));                     \
        o4 = YKI_FMA((floatv)(4.f), g2, YKI_FMA((floatv)(-2.f), g1, g0));                     \
        o5 = g2;                                                                              \
    }

/* The same for 4 coefficients. */
#define TRANSFORM_4(g0, g1, g2, g3, o0, o1, o2, o3, o4, o5)                                   \
    {                                                                                         \
        floatv s_ = g0 + g2, t_ = g1 + g3;                                                    \
        o0 = g0;                                                                              \
        o1 = s_ + t_;                                                                         \
        o2 = s_ - t_;                                                                         \
        o3 = YKI_FMA((floatv)(.125f), g3,                                                     \
                     YKI_FMA((floatv)(.25f), g2, YKI_FMA((floatv)(.5f), g1, g0)));            \
        o4 = YKI_FMA((floatv)(-8.f), g3,                                                      \
                     YKI_FMA((floatv)(4.f), g2, YKI_FMA((floatv)(-2.f), g1, g0)));            \
        o5 = g3;                                                                              \
    }

/* AT for 4 results, and for 3. */
#define RESULTS_4(m0, m1, m2, m3, m4, m5, y0, y1, y2, y3)                                     \
    {                                                                                         \
        floatv s_ = m1 + m2, d_ = m1 - m2;                                                    \
        y0 = m0 + s_ + (m3 + m4);                                                             \
        y1 = YKI_FMA((floatv)(-2.f), m4, YKI_FMA((floatv)(.5f), m3, d_));                     \
        y2 = YKI_FMA((floatv)(4.f), m4, YKI_FMA((floatv)(.25f), m3, s_));                     \
        y3 = YKI_FMA((floatv)(-8.f), m4, YKI_FMA((floatv)(.125f), m3, d_)) + m5;              \
    }
#define RESULTS_3(m0, m1, m2, m3, m4, m5, y0, y1, y2)                                         \
    {                                                                                         \
        floatv s_ = m1 + m2, d_ = m1 - m2;                                                    \
        y0 = m0 + s_ + (m3 + m4);                                                             \
        y1 = YKI_FMA((floatv)(-2.f), m4, YKI_FMA((floatv)(.5f), m3, d_));                     \
        y2 = YKI_FMA((floatv)(4.f), m4, YKI_FMA((floatv)(.25f), m3, s_)) + m5;                \
    }

/* 1 / (f_i f_j), where 1/f is 15, 5, -5, -16, 1, 15 fifteenths. */
#define SCALES(n)                                                                             \
    (n * 15) / 225.f, (n * 5) / 225.f, (n * -5) / 225.f, (n * -16) / 225.f, (n * 1) / 225.f,  \
        (n * 15) / 225.f
__constant float scales[36] = {SCALES(15), SCALES(5), SCALES(-5), SCALES(-16), SCALES(1),
                               SCALES(15)};

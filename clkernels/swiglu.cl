/* SPDX-License-Identifier: Apache-2.0
 *
 * swiglu.cl - silu of the first half of each row times its second half, and the
 * gradient.
 *
 * x is (rows, 2, width), the result (rows, width). A group takes a piece of the result
 * in whole vectors of VEC, which divides the width.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef WG
#define WG 1
#endif

#include "vectors.cl"
#include "exact.cl"
#include "exp2.cl"

/* `i` is a vector of the result, `at` where its gate stands in x. Groups take rows, so that no
 * element needs a division by the width. */
#define FOR_EACH(i, at)                                                                        \
    long groups_ = (long)get_num_groups(0), group_ = (long)get_group_id(0);                    \
    long begin_ = (long)rows * group_ / groups_;                                               \
    for (long row_ = begin_; row_ < (long)rows * (group_ + 1) / groups_; row_++)               \
        for (long column_ = (long)get_local_id(0) * VEC, i = row_ * width + column_,           \
                  at = 2 * row_ * width + column_;                                             \
             column_ < width; column_ += WG * VEC, i += WG * VEC, at += WG * VEC)

__kernel YKI_GROUP(WG, 1) void
yki_swiglu(__global const float *x, __global float *y, int rows, int width)
{
    FOR_EACH(i, at)
    {
        floatv gate = LOADV(0, x + at), up = LOADV(0, x + at + width);

        STOREV(gate * sigmoidv(gate) * up, 0, y + i);
    }
}

/* The slope of silu is s + gate s (1 - s). */
__kernel YKI_GROUP(WG, 1) void
yki_swiglu_grad(__global const float *x, __global const float *dy, __global float *dx, int rows,
                int width)
{
    FOR_EACH(i, at)
    {
        floatv gate = LOADV(0, x + at), up = LOADV(0, x + at + width), slope = LOADV(0, dy + i);
        floatv rest, s = sigmoid_and_rest(gate, &rest);

        STOREV(slope * up * s * YKI_FMA(gate, rest, (floatv)(1.f)), 0, dx + at);
        STOREV(slope * gate * s, 0, dx + at + width);
    }
}

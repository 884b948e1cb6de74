/* SPDX-License-Identifier: Apache-2.0
 *
 * dot_probe.cl - one step of a dot unit: c + a * b for one part a, W parts b and W sums c.
 * lib/device/dot.c compares the numbers with those that it knows.
 */
#ifndef DOT
#define DOT 1 /* DOT_ROUNDED */
#endif
#include "dot.cl"

__kernel YKI_GROUP(1, 1) void
yki_dot_probe(__global const uint *a, __global const uint *b, __global float *c)
{
    floatw sum = YKI_PASTE(vload, W)(0, c);

    YKI_PASTE(vstore, W)(DOT_ADD(a[0], DOT_LOAD(0, b), sum), 0, c);
}
DOT_END

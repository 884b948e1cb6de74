/* SPDX-License-Identifier: Apache-2.0
 *
 * load.cl - keeps the arithmetic units of a device busy for a time that grows with
 * `rounds` and the number of work-groups, and touches no memory. It is for measuring
 * how devices run side by side.
 *
 * Eight independent chains hide the latency of a multiply-add; x -> 0.5 x + 0.5 stays
 * finite for ever. LOCAL is the size of a work-group.
 */
#ifndef LOCAL
#define LOCAL 1 /* work-items in a group; for compiling this file alone */
#endif

__kernel YKI_GROUP(LOCAL, 1) void
yki_load(__global float *out, uint rounds)
{
    const float16 half16 = (float16)(0.5f);
    float16 a = (float16)((float)get_global_id(0)), b = a + 1, c = a + 2, d = a + 3;
    float16 e = a + 4, f = a + 5, g = a + 6, h = a + 7;

    for (uint i = 0; i < rounds; i++) {
        a = YKI_FMA(a, half16, half16);
        b = YKI_FMA(b, half16, half16);
        c = YKI_FMA(c, half16, half16);
        d = YKI_FMA(d, half16, half16);
        e = YKI_FMA(e, half16, half16);
        f = YKI_FMA(f, half16, half16);
        g = YKI_FMA(g, half16, half16);
        h = YKI_FMA(h, half16, half16);
    }
    a = (a + b) + (c + d) + ((e + f) + (g + h));
    /* This never holds, because the sum of all lanes is far from it, but no compiler can know
     * that. */
    if (a.s0 + a.s5 + a.sa + a.sf == -1.0f)
        out[0] = a.s0;
}

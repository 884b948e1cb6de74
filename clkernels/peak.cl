/* SPDX-License-Identifier: Apache-2.0
 *
 * peak.cl - the most that a device can do: multiply-adds from registers, and words to
 * and from memory.
 *
 * Twelve independent chains cover the latency of two multiply-add units with four to
 * six cycles each. The streams read and write contiguous pieces, one for each
 * work-group, as good kernels do.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#define floatv YKI_PASTE(float, VEC)
#define loadv YKI_PASTE(vload, VEC)
#define storev YKI_PASTE(vstore, VEC)
#define GROUP __kernel YKI_GROUP(WG, 1)

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define DECLARE(k) floatv c##k = first + (floatv)(k);
#define STEP(k) c##k = YKI_FMA(c##k, factor, factor);
#define SUM(k) sum += c##k;

/* 24 VEC floating-point operations for each round and work-item. All lanes are different, and all
 * count in the end: a compiler that takes vectors apart drops what nobody reads, and computes
 * once what is the same. `never` is the total for which it is stored; no compiler knows it. */
GROUP void
yki_peak_fma(__global float *out, int rounds, float never)
{
    const floatv factor = (floatv)(0.5f); /* x -> 0.5 x + 0.5 stays finite */
    floatv first, sum = (floatv)(0.f);
    float lanes[VEC], total = 0.f;

    for (int l = 0; l < VEC; l++)
        lanes[l] = (float)get_global_id(0) + 0.01f * l;
    first = loadv(0, lanes);
    EACH(DECLARE)
    for (int i = 0; i < rounds; i++) {
        EACH(STEP)
    }
    EACH(SUM)
    storev(sum, 0, lanes);
    for (int l = 0; l < VEC; l++)
        total += lanes[l];
    if (total == never)
        out[0] = total;
}

#define FOR_EACH_VECTOR(i)                                                                    \
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);                        \
    int begin = (int)((long)count * group / groups);                                          \
    int end = (int)((long)count * (group + 1) / groups);                                      \
    for (int i = begin + (int)get_local_id(0); i < end; i += WG)

/* Two words are read, one is written. `count` is in vectors. */
GROUP void
yki_peak_triad(__global const float *a, __global const float *b, __global float *out, int count)
{
    FOR_EACH_VECTOR(i)
    {
        storev(YKI_FMA(loadv(i, b), (floatv)(3.f), loadv(i, a)), i, out);
    }
}

/* One word is read, one is written. */
GROUP void
yki_peak_copy(__global const float *a, __global const float *b, __global float *out, int count)
{
    FOR_EACH_VECTOR(i)
    {
        storev(loadv(i, a), i, out);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout.cl - keeps and scales elements, or sets them to zero, by random words.
 *
 * Element i of a sample has word i / 16 % 4 of counter i / 64 * 16 + i % 16. So 16
 * neighbours take one word each of 16 neighbouring counters, which vectors of 4, 8 and
 * 16 lanes compute side by side. The other words of the counter are the sample's
 * global index and the step; the key is the seed and the layer's key. Only integers
 * are compared, so the mask is the same on every device.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#define FLOATS YKI_PASTE(float, VEC)
#define UINTS YKI_PASTE(uint, VEC)
#define ULONGS YKI_PASTE(ulong, VEC)
#define AS_FLOATS YKI_PASTE(as_float, VEC)
#define AS_UINTS YKI_PASTE(as_uint, VEC)
#define LOADV YKI_PASTE(vload, VEC)
#define STOREV YKI_PASTE(yki_store, VEC)

enum { CHUNK = 64, LANES = 16 };

__constant uint numbers[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* One counter gives the words of elements at, at + 16, + 32, + 48, as far as these exist. */
void four_elements(__global const float *in, __global float *out, int at, int count, uint counter,
                   ulong sample, uint step, uint key0, uint key1, uint threshold, float scale)
{
    uint c0 = counter, c1 = (uint)sample, c2 = (uint)(sample >> 32), c3 = step;

    YKI_PHILOX(uint, ulong, c0, c1, c2, c3, key0, key1);
    if (at < count)
        out[at] = c0 >= threshold ? in[at] * scale : 0.f;
    if (at + LANES < count)
        out[at + LANES] = c1 >= threshold ? in[at + LANES] * scale : 0.f;
    if (at + 2 * LANES < count)
        out[at + 2 * LANES] = c2 >= threshold ? in[at + 2 * LANES] * scale : 0.f;
    if (at + 3 * LANES < count)
        out[at + 3 * LANES] = c3 >= threshold ? in[at + 3 * LANES] * scale : 0.f;
}

/* Where a word is below the threshold, the element's bits become those of 0. */
#define VECTOR(word, at)                                                                      \
    STOREV(AS_FLOATS(AS_UINTS(LOADV(0, in + (at)) * scale) & AS_UINTS((word) >= threshold)), 0, \
           out + (at))

void whole_chunk(__global const float *in, __global float *out, uint chunk, ulong sample, uint step,
                 uint key0, uint key1, uint threshold, float scale)
{
    for (int lane = 0; lane < LANES; lane += VEC) {
        UINTS c0 = LOADV(0, numbers + lane) + chunk * LANES;
        UINTS c1 = (UINTS)((uint)sample), c2 = (UINTS)((uint)(sample >> 32)), c3 = (UINTS)(step);

        YKI_PHILOX(UINTS, ULONGS, c0, c1, c2, c3, key0, key1);
        VECTOR(c0, lane);
        VECTOR(c1, lane + LANES);
        VECTOR(c2, lane + 2 * LANES);
        VECTOR(c3, lane + 3 * LANES);
    }
}

/* `count` elements a sample. values: struct yki_step_values. batched 0: one tensor for all
 * samples. */
__kernel YKI_GROUP(WG, 1) void
yki_dropout(__global const float *x, __global float *y, __global const uint *values, int samples,
            int count, int batched, uint key0, uint key1, uint threshold, float scale)
{
    long chunks = (count + CHUNK - 1) / CHUNK, groups = get_num_groups(0), group = get_group_id(0);
    long begin = samples * chunks * group / groups, end = samples * chunks * (group + 1) / groups;
    ulong first = batched ? values[3] | (ulong)values[4] << 32 : 0;

    key0 ^= values[1];
    key1 ^= values[2];
#if WG == 1
    for (long task = begin; task < end; task++) {
        long n = task / chunks, chunk = task - n * chunks; /* no %: see shape.cl */
        __global const float *in = x + n * count + chunk * CHUNK;
        __global float *out = y + n * count + chunk * CHUNK;
        int left = (int)(count - chunk * CHUNK);

        if (left >= CHUNK)
            whole_chunk(in, out, (uint)chunk, first + n, values[0], key0, key1, threshold, scale);
        else
            for (int lane = 0; lane < LANES; lane++)
                four_elements(in, out, lane, left, (uint)(chunk * LANES + lane), first + n,
                              values[0], key0, key1, threshold, scale);
    }
#else
    for (long task = begin * LANES + get_local_id(0); task < end * LANES; task += WG) {
        long all = task / LANES, n = all / chunks, chunk = all - n * chunks;
        int lane = (int)(task - all * LANES);

        four_elements(x + n * count, y + n * count, (int)(chunk * CHUNK + lane), count,
                      (uint)(chunk * LANES + lane), first + n, values[0], key0, key1, threshold,
                      scale);
    }
#endif
}

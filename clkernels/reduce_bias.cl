/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_bias.cl - sums over samples: partial sums added in a fixed order, and the
 * gradient of a bias.
 *
 * Every sum is first split by samples, so that all compute units work, and
 * yki_sum_parts adds the partial sums. norm_groups.cl and reduce_groups.cl have the
 * kernels for devices whose work-items run side by side. The order of additions depends on the sizes and
 * the number of splits alone.
 */
#ifndef WG
#define WG 64
#endif
#ifndef VEC
#define VEC 16
#endif

#define floatv YKI_PASTE(float, VEC)
#define loadv YKI_PASTE(vload, VEC)
#define storev YKI_PASTE(yki_store, VEC)

/* out[i] = part[0][i] + part[1][i] + ... */
__kernel YKI_GROUP(WG, 1) void
yki_sum_parts(__global const float *part, __global float *out, int count, int parts)
{
    for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
        float sum = 0.f;

        for (int k = 0; k < parts; k++)
            sum += part[(long)k * count + i];
        out[i] = sum;
    }
}

/* part[split][c] from dy in blocks of VEC channels (N, C / VEC, area, VEC). With area 1 and a number of channels that VEC divides, the plain layout is the same as
 * that. */
__kernel YKI_GROUP(1, 1) void
yki_bias_blocked(__global const float *dy, __global float *part, int samples, int channels,
                 int area, int splits)
{
    int blocks = (channels + VEC - 1) / VEC;

    for (int split = get_group_id(1); split < splits; split += get_num_groups(1)) {
        long first = (long)samples * split / splits, end = (long)samples * (split + 1) / splits;

        for (int b = get_group_id(0); b < blocks; b += get_num_groups(0)) {
            floatv s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
            float lanes[VEC];

            for (long n = first; n < end; n++) {
                __global const float *p = dy + (n * blocks + b) * area * VEC;
                int i = 0;

                for (; i + 3 < area; i += 4) {
                    s0 += loadv(i, p);
                    s1 += loadv(i + 1, p);
                    s2 += loadv(i + 2, p);
                    s3 += loadv(i + 3, p);
                }
                for (; i < area; i++)
                    s0 += loadv(i, p);
            }
            storev((s0 + s1) + (s2 + s3), 0, lanes);
            for (int l = 0; l < VEC && b * VEC + l < channels; l++)
                part[(long)split * channels + b * VEC + l] = lanes[l];
        }
    }
}

/* The same for plain rows (N, C, area) with an area of many
 * vectors. */
__kernel YKI_GROUP(1, 1) void
yki_bias_rows(__global const float *dy, __global float *part, int samples, int channels, int area,
              int splits)
{
    for (int split = get_group_id(1); split < splits; split += get_num_groups(1)) {
        long first = (long)samples * split / splits, end = (long)samples * (split + 1) / splits;

        for (int c = get_group_id(0); c < channels; c += get_num_groups(0)) {
            floatv s0 = 0.f, s1 = 0.f;
            float lanes[VEC], sum = 0.f;

            for (long n = first; n < end; n++) {
                __global const float *p = dy + (n * channels + c) * area;
                int i = 0;

                for (; i + 2 * VEC <= area; i += 2 * VEC) {
                    s0 += loadv(0, p + i);
                    s1 += loadv(1, p + i);
                }
                for (; i < area; i++)
                    sum += p[i];
            }
            storev(s0 + s1, 0, lanes);
            for (int l = 0; l < VEC; l++)
                sum += lanes[l];
            part[(long)split * channels + c] = sum;
        }
    }
}

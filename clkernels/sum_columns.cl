/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_columns.cl - the sum of rows of a matrix by work-items that run side by side: for the kernels
 * that include it.
 *
 * Of the items of a group, `across` have neighbouring columns from c0 on, 4 each, and `down` times
 * as many have other rows; both are powers of 2. Their sums are added as a tree. So the order
 * depends on `down` alone. All items of the group must come here, also those that have no work.
 */
static __attribute__((always_inline)) void
sum_columns(__local float4 *sums, int item, int across, int down, __global const float *x,
            int rows, int columns, int c0, __global float *out)
{
    int first = item / across, c = c0 + (item & (across - 1)) * 4;
    __global const float *from = x + (long)first * columns;
    float4 sum = 0.f;

    if (first < down) {
        if (columns % 4 == 0) {
            from += min(c, columns - 4);
#pragma unroll 8
            for (int row = first; row < rows; row += down, from += (long)down * columns)
                sum += *(__global const float4 *)from;
        } else {
            int c1 = min(c, columns - 1), c2 = min(c + 1, columns - 1);
            int c3 = min(c + 2, columns - 1), c4 = min(c + 3, columns - 1);

#pragma unroll 4
            for (int row = first; row < rows; row += down, from += (long)down * columns)
                sum += (float4)(from[c1], from[c2], from[c3], from[c4]);
        }
        sums[item] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int apart = down / 2; apart > 0; apart /= 2) {
        if (first < apart)
            sums[item] += sums[item + apart * across];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (first == 0) {
        float lanes[4];

        vstore4(sums[item], 0, lanes);
        for (int i = 0; i < 4 && c + i < columns; i++)
            out[c + i] = lanes[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_pairs.cl - the sum over work-items of a group, of two numbers at once, in a fixed order: a
 * tree. The kernels of norm_groups.cl and winograd_tiles.cl make parts of statistics by it.
 *
 * A group may have several channels side by side: COLUMNS of them, of which this work-item has
 * COLUMN; of its work-items it is number ITEM. One channel, unless the file that includes it says
 * more.
 */
#ifndef ITEM
#define ITEM    ((int)get_local_id(0))
#define COLUMN  0
#define COLUMNS 1
#endif

/* The sums of the values of a channel's first `items` (a power of 2) work-items. Each of its
 * work-items gets them. */
float2
yki_sum_pairs(float2 value, int items, __local float2 *sums)
{
    int item = ITEM;
    float2 sum;

    sums += COLUMN;
    if (item < items)
        sums[item * COLUMNS] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = items / 2; step > 0; step /= 2) {
        if (item < step)
            sums[item * COLUMNS] += sums[(item + step) * COLUMNS];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = sums[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}

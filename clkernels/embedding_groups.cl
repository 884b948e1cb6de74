/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding_groups.cl - the sums of rows by index, for devices whose work-items run side by side.
 *
 * x holds `places` indices (INDEX); out is (rows, width). Along the first dimension of the grid,
 * which is a power of 2, group g of G has the rows g, g + G, ...; along the second, a group has
 * some of the columns. The items of a group search the indices for those of its rows, each a piece
 * of them. What they find is brought into the order of rows, and of places within a row. Then each
 * item has a column, and adds up a row's terms in the order of the batch, as the kernel for
 * processors does: the bits are the same. An index beyond the table adds nothing.
 */
#ifndef INDEX
#define INDEX int
#endif
#ifndef WG
#define WG 128
#endif
#ifndef ADD
#define ADD 0
#endif

enum { MOST = 512 /* what is found and added at a time */, AHEAD = 16 /* terms read together */ };

/* Adds to the row at `sum` the rows of dy at these places, in their order. -0 added to a number is
 * that number. */
static void
add_rows(__global float *sum, __global const float *dy, __local const int *places, int count,
         int width)
{
    float all = *sum, terms[AHEAD];

    for (int first = 0; first < count; first += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            terms[k] = first + k < count ? dy[(long)places[first + k] * width] : -0.f;
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            all += terms[k];
    }
    *sum = all;
}

/* The sums begin at 0, or with ADD at the values of `more`: where that is `out` itself, nothing is
 * done for rows that no index selects. */
__kernel YKI_GROUP(WG, 1) void
yki_embedding_grad_groups(__global const INDEX *x, __global const float *dy,
#if ADD
                          __global const float *more,
#endif
                          __global float *out, int places, int rows, int width)
{
    __local int counts[WG], found_place[MOST], found_row[MOST], place[MOST], row[MOST];
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0), lid = (int)get_local_id(0);
    int column = (int)get_group_id(1) * WG + lid, step = (int)get_num_groups(1) * WG;
    int begin = (int)((long)places * lid / WG), end = (int)((long)places * (lid + 1) / WG);
    int count = 0, before, all;

#if ADD
#define FIRST more[at]
    if (more != out)
#else
#define FIRST 0.f
#endif
        for (int r = group; r < rows; r += groups)
            for (int c = column; c < width; c += step) {
                long at = (long)r * width + c;

                out[at] = FIRST;
            }

#define OWN(r) ((uint)(r) < (uint)rows && ((r) & (groups - 1)) == group)
#pragma unroll 8
    for (int i = begin; i < end; i++)
        count += OWN((int)x[i]);
    counts[lid] = count;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int apart = 1; apart < WG; apart *= 2) {
        int more_before = lid >= apart ? counts[lid - apart] : 0;

        barrier(CLK_LOCAL_MEM_FENCE);
        counts[lid] += more_before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    all = counts[WG - 1];
    before = counts[lid] - count;
    for (int first = 0; first < all; first += MOST) {
        int here = min(all - first, (int)MOST);

        if (count > 0 && before < first + MOST && before + count > first)
            for (int i = begin, at = before - first; i < end; i++) {
                int r = (int)x[i];

                if (!OWN(r))
                    continue;
                if (at >= 0 && at < MOST) {
                    found_place[at] = i;
                    found_row[at] = r;
                }
                at++;
            }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = lid; i < here; i += WG) {
            int own = found_row[i], at = i;

            if (groups < rows) { /* else there is one row */
                at = 0;
#pragma unroll 8
                for (int k = 0; k < here; k++)
                    at += found_row[k] < own + (k < i);
            }
            place[at] = found_place[i];
            row[at] = own;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0, next; i < here; i = next) {
            int own = row[i];

            next = groups < rows ? i + 1 : here;
            while (next < here && row[next] == own)
                next++;
            for (int c = column; c < width; c += step)
                add_rows(out + (long)own * width + c, dy + c, place + i, next - i, width);
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* before the next ones are found */
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * shape_groups.cl - transpositions (shape.cl) for devices whose work-items run side by
 * side. A row or a tile of the result is found once, with a few divisions, and then
 * copied by neighbouring work-items element by element.
 */
#ifndef ELEM
#define ELEM uint
#endif
#ifndef WG
#define WG 256
#endif
#ifndef SHARE
#define SHARE 32
#endif
#define KERNEL __kernel YKI_GROUP(WG, 1) void

#define STEP(axis)                                                                            \
    if (d##axis > 1) {                                                                        \
        int outside = rest / d##axis;                                                         \
                                                                                              \
        from += (long)(rest - outside * d##axis) * s##axis;                                   \
        rest = outside;                                                                       \
    }

/* SHARE work-items (a power of 2) copy a row of `length` elements, which are `stride` apart in the
 * input. d1..d6 are the sizes of the axes outside a row, s1..s6 their strides in the input, and
 * count the elements of a sample. */
KERNEL
yki_transpose_rows_groups(__global const ELEM *in, __global ELEM *out, int samples, int count,
                          int d1, int d2, int d3, int d4, int d5, int d6, int s1, int s2, int s3,
                          int s4, int s5, int s6, int length, int stride)
{
    int per_sample = count / length, sub = (int)get_local_id(0) & (SHARE - 1);
    long rows = (long)samples * per_sample, step = (long)get_num_groups(0) * (WG / SHARE);

    for (long row = (long)get_group_id(0) * (WG / SHARE) + (int)get_local_id(0) / SHARE; row < rows;
         row += step) {
        long sample = samples == 1 ? 0 : row / per_sample, from = sample * count;
        int rest = (int)(row - sample * per_sample);

        STEP(6) STEP(5) STEP(4) STEP(3) STEP(2)
        from += (long)rest * s1;
        for (int i = sub; i < length; i += SHARE)
            out[row * length + i] = in[from + (long)i * stride];
    }
}

/* A group takes a tile of EDGE by EDGE, and reads and writes EDGE elements that lie side by side. */
#ifndef EDGE
#define EDGE 32
#endif

#define STEP2(axis)                                                                           \
    if (d##axis > 1) {                                                                        \
        int outside = rest / d##axis, c = rest - outside * d##axis;                           \
                                                                                              \
        from += (long)c * s##axis;                                                            \
        to += (long)c * t##axis;                                                              \
        rest = outside;                                                                       \
    }

/* Transposes matrices of rows x columns, as yki_transpose_tiles does. */
KERNEL
yki_transpose_tiles_groups(__global const ELEM *in, __global ELEM *out, int samples, int count,
                           int d1, int d2, int d3, int d4, int d5, int s1, int s2, int s3, int s4,
                           int s5, int t1, int t2, int t3, int t4, int t5, int rows, int columns,
                           int in_stride, int out_stride)
{
    __local ELEM tile[EDGE * (EDGE + 1)];
    int down = (rows + EDGE - 1) / EDGE, across = (columns + EDGE - 1) / EDGE;
    int matrices = count / rows / columns, tiles = down * across;
    int lane = (int)get_local_id(0) & (EDGE - 1), line = (int)get_local_id(0) / EDGE;

    for (long task = get_group_id(0); task < (long)samples * matrices * tiles;
         task += get_num_groups(0)) {
        long matrix = task / tiles, sample = matrix / matrices;
        int place = (int)(task - matrix * tiles), rest = (int)(matrix - sample * matrices);
        int row = place / across * EDGE, column = (place - place / across * across) * EDGE;
        long from = sample * count, to = sample * count;

        STEP2(5) STEP2(4) STEP2(3) STEP2(2) STEP2(1)
        from += row + lane;
        for (int c = line; c < EDGE; c += WG / EDGE)
            if (row + lane < rows && column + c < columns)
                tile[c * (EDGE + 1) + lane] = in[from + (long)(column + c) * in_stride];
        barrier(CLK_LOCAL_MEM_FENCE);
        to += column + lane;
        for (int r = line; r < EDGE; r += WG / EDGE)
            if (row + r < rows && column + lane < columns)
                out[to + (long)(row + r) * out_stride] = tile[lane * (EDGE + 1) + r];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

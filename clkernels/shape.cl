/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.cl - moves data without changing it: copies runs (concat, slice), puts runs
 * into zeros (the gradient of a slice), transposes.
 *
 * Elements are words without a meaning (ELEM). Each group takes a piece of the result.
 * With one work-item a group (CPUs), a piece is walked run by run in vectors; with
 * several, neighbours take neighbouring elements; transpositions have kernels of their
 * own for that (shape_groups.cl).
 *
 * Remainders are written as a - a / b * b: of a pair a / b, a % b, LLVM makes a
 * `freeze`, which Oclgrind does not know.
 */
#ifndef ELEM
#define ELEM uint
#endif
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif
#ifndef INDEX /* of an element of the result: int, where that suffices, is divided faster */
#define INDEX long
#endif

#define ELEMS YKI_PASTE(ELEM, VEC)
#define LOADV YKI_PASTE(vload, VEC)
#define STOREV YKI_PASTE(vstore, VEC)
#define KERNEL __kernel YKI_GROUP(WG, 1) void

/* This group's piece of `count`: begin .. end. */
#define PIECE(count)                                                                          \
    long groups = get_num_groups(0), group = get_group_id(0);                                 \
    long begin = (count) * group / groups, end = (count) * (group + 1) / groups;

void copy_run(__global const ELEM *in, __global ELEM *out, int count)
{
    int i = 0;

    for (; i + VEC <= count; i += VEC)
        STOREV(LOADV(0, in + i), 0, out + i);
    for (; i < count; i++)
        out[i] = in[i];
}

void zero_run(__global ELEM *out, int count)
{
    int i = 0;

    for (; i + VEC <= count; i += VEC)
        STOREV((ELEMS)(0), 0, out + i);
    for (; i < count; i++)
        out[i] = 0;
}

/* Copies `outer` runs of each sample. in_sample 0: the same run for all samples. */
KERNEL
yki_move(__global const ELEM *in, __global ELEM *out, int samples, int outer, int run,
         int in_sample, int in_stride, int in_offset, int out_sample, int out_stride,
         int out_offset)
{
    PIECE((long)samples * outer * run)

#if WG == 1
    for (long i = begin; i < end;) {
        long row = i / run, sample = row / outer, o = row - sample * outer;
#else
    for (INDEX i = (INDEX)begin + (INDEX)get_local_id(0); i < end; i += WG) {
        INDEX row = i / run, sample = row / outer, o = row - sample * outer;
#endif
        int at = (int)(i - row * run);
        __global const ELEM *from = in + (long)sample * in_sample + (long)o * in_stride + in_offset + at;
        __global ELEM *to = out + (long)sample * out_sample + (long)o * out_stride + out_offset + at;

#if WG == 1
        int length = (int)min((long)(run - at), end - i);

        copy_run(from, to, length);
        i += length;
#else
        *to = *from;
#endif
    }
}

/* Puts each row of `in_run` elements at `offset` in a row of `out_run`, with zeros around it. */
KERNEL
yki_pad(__global const ELEM *in, __global ELEM *out, int rows, int in_run, int out_run, int offset)
{
    PIECE((long)rows * out_run)

#if WG == 1
    for (long i = begin; i < end;) {
        long row = i / out_run;
        int at = (int)(i - row * out_run), stop = (int)min((long)out_run, at + (end - i));
        int zeros = clamp(offset, at, stop), copied = clamp(offset + in_run, at, stop);

        zero_run(out + i, zeros - at);
        copy_run(in + row * in_run + (zeros - offset), out + i + (zeros - at), copied - zeros);
        zero_run(out + i + (copied - at), stop - copied);
        i += stop - at;
    }
#else
    for (INDEX i = (INDEX)begin + (INDEX)get_local_id(0); i < end; i += WG) {
        INDEX row = i / out_run;
        int at = (int)(i - row * out_run) - offset;

        out[i] = at >= 0 && at < in_run ? in[(long)row * in_run + at] : 0;
    }
#endif
}

#define STEP(axis)                                                                            \
    {                                                                                         \
        long outside = rest / d##axis;                                                        \
                                                                                              \
        from += (rest - outside * d##axis) * s##axis;                                         \
        rest = outside;                                                                       \
    }

/* Writes the result row by row. d1..d6 are the sizes of the axes outside a row, s1..s6 their
 * strides in the input. A row has `length` elements, `stride` apart. count: elements of a
 * sample. */
KERNEL
yki_transpose_rows(__global const ELEM *in, __global ELEM *out, int samples, int count, int d1,
                   int d2, int d3, int d4, int d5, int d6, int s1, int s2, int s3, int s4, int s5,
                   int s6, int length, int stride)
{
    PIECE((long)samples * count)

    for (long i = begin; i < end;) {
        long rest = i / length, at = i - rest * length, from = at * stride;

        STEP(6) STEP(5) STEP(4) STEP(3) STEP(2) STEP(1)
        from += rest * count;
        int n = (int)min(length - at, end - i);

        if (stride == 1)
            copy_run(in + from, out + i, n);
        else
            for (int k = 0; k < n; k++)
                out[i + k] = in[from + (long)k * stride];
        i += n;
    }
}

#define TILE 16

#define STEP2(axis)                                                                           \
    {                                                                                         \
        long outside = rest / d##axis, c = rest - outside * d##axis;                          \
                                                                                              \
        from += c * s##axis;                                                                  \
        to += c * t##axis;                                                                    \
        rest = outside;                                                                       \
    }

/* Transposes matrices of rows x columns, tile by tile. They are row-major in the result (rows
 * are `out_stride` apart) and column-major in the input (columns are `in_stride` apart). From
 * matrix to matrix, the strides are s1..s5 in the input and t1..t5 in the result. */
KERNEL
yki_transpose_tiles(__global const ELEM *in, __global ELEM *out, int samples, int count, int d1,
                    int d2, int d3, int d4, int d5, int s1, int s2, int s3, int s4, int s5, int t1,
                    int t2, int t3, int t4, int t5, int rows, int columns, int in_stride,
                    int out_stride)
{
    int down = (rows + TILE - 1) / TILE, across = (columns + TILE - 1) / TILE;
    long matrices = count / rows / columns;
    PIECE(samples * matrices * down * across)

    for (long task = begin + get_local_id(0); task < end; task += WG) {
        long strip = task / down, rest = strip / across, from = 0, to = 0;
        int row = (int)(task - strip * down) * TILE;
        int column = (int)(strip - rest * across) * TILE;
        int row_end = min(row + TILE, rows), column_end = min(column + TILE, columns);

        STEP2(5) STEP2(4) STEP2(3) STEP2(2) STEP2(1)
        from += rest * count;
        to += rest * count;
        if (row_end - row == TILE && column_end - column == TILE) {
            ELEM tile[TILE * TILE];

            for (int c = 0; c < TILE; c++)
                vstore16(vload16(0, in + from + row + (long)(column + c) * in_stride), c, tile);
            for (int r = 0; r < TILE; r++) {
                __private const ELEM *t = tile + r;

                vstore16((YKI_PASTE(ELEM, 16))(t[0], t[16], t[32], t[48], t[64], t[80], t[96],
                                               t[112], t[128], t[144], t[160], t[176], t[192],
                                               t[208], t[224], t[240]),
                         0, out + to + (long)(row + r) * out_stride + column);
            }
            continue;
        }
        for (int r = row; r < row_end; r++)
            for (int c = column; c < column_end; c++)
                out[to + (long)r * out_stride + c] = in[from + r + (long)c * in_stride];
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding.cl - rows of a table by index, and the sums of rows by index.
 *
 * x holds `places` indices (INDEX), the table is (rows, width). An index beyond the
 * table reads nothing: its result is NaN, and it adds nothing to a gradient.
 */
#ifndef INDEX
#define INDEX int
#endif
#ifndef VEC
#define VEC 16
#endif
#ifndef WG
#define WG 1
#endif

#ifndef ADD
#define ADD 0
#endif

#define FLOATS YKI_PASTE(float, VEC)
#define LOADV YKI_PASTE(vload, VEC)
#define STOREV YKI_PASTE(yki_store, VEC)
#define KERNEL __kernel YKI_GROUP(WG, 1) void

/* A group takes a piece of the result. With WG 1 it goes by vectors within a row, otherwise by
 * elements. */
KERNEL
yki_embedding(__global const INDEX *x, __global const float *table, __global float *out, int places,
              int rows, int width)
{
    long count = (long)places * width, groups = get_num_groups(0), group = get_group_id(0);
    long begin = count * group / groups, end = count * (group + 1) / groups;

#if WG == 1
    for (long i = begin; i < end;) {
#else
    for (long i = begin + get_local_id(0); i < end; i += WG) {
#endif
        long place = i / width;
        int at = (int)(i - place * width); /* no %: see shape.cl */
        int index = (int)x[place];
        bool good = index >= 0 && index < rows;
        __global const float *from = table + (good ? (long)index * width + at : 0);

#if WG == 1
        int n = (int)min((long)(width - at), end - i), k = 0;

        for (; good && k + VEC <= n; k += VEC)
            STOREV(LOADV(0, from + k), 0, out + i + k);
        for (; k < n; k++)
            out[i + k] = good ? from[k] : NAN;
        i += n;
#else
        out[i] = good ? *from : NAN;
#endif
    }
}

/* Each group owns a range of rows. Each work-item takes every WG-th vector of them, and then
 * every WG-th element of the remainder. All walk the indices in order. The sums begin at 0, or with
 * ADD at the values of `more`: where that is `out` itself, nothing is done for rows that no index
 * selects. */
KERNEL
yki_embedding_grad(__global const INDEX *x, __global const float *dy,
#if ADD
                   __global const float *more,
#endif
                   __global float *out, int places, int rows, int width)
{
    int groups = (int)get_num_groups(0), group = (int)get_group_id(0);
    int begin = (int)((long)rows * group / groups), end = (int)((long)rows * (group + 1) / groups);
    int vectors = width / VEC, lid = (int)get_local_id(0);

#if ADD
    for (int row = more == out ? end : begin; row < end; row++) {
        __global const float *from = more + (long)row * width;
#define FIRST_VECTOR(v)  LOADV(v, from)
#define FIRST_ELEMENT(k) from[k]
#else
    for (int row = begin; row < end; row++) {
#define FIRST_VECTOR(v)  (FLOATS)(0.f)
#define FIRST_ELEMENT(k) 0.f
#endif
        __global float *sums = out + (long)row * width;

        for (int v = lid; v < vectors; v += WG)
            STOREV(FIRST_VECTOR(v), v, sums);
        for (int k = vectors * VEC + lid; k < width; k += WG)
            sums[k] = FIRST_ELEMENT(k);
    }
    for (int place = 0; place < places; place++) {
        int row = (int)x[place];
        __global float *sums = out + (long)row * width;
        __global const float *rest = dy + (long)place * width;

        if (row < begin || row >= end)
            continue;
        for (int v = lid; v < vectors; v += WG)
            STOREV(LOADV(v, sums) + LOADV(v, rest), v, sums);
        for (int k = vectors * VEC + lid; k < width; k += WG)
            sums[k] += rest[k];
    }
}

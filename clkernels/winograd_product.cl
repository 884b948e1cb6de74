/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_product.cl - the 36 products between the transforms of winograd_tiles.cl, which has the
 * layouts. Rows of memory are whole vectors. Each result is one chain of multiply-adds in the
 * order of its terms, so it depends neither on the tiles beside it nor on its position.
 */
#include "tile.cl"
#include "tile_ahead.cl"

#define VECTORS(n) (((n) + 3) / 4 * 4)

#define LOADS(form, a, a_rows, a_terms, a_row, a_k, b, b_rows, b_terms, b_row, b_k, k)        \
    tile_load(ra, a, form, TM, tile_item, a_rows, a_terms, a_row, a_k, k);                    \
    tile_load(rb, b, form, TN, tile_item, b_rows, b_terms, b_row, b_k, k);
#define STORES(form, half)                                                                    \
    tile_store(&TILE_A(half, 0, 0), TILE_A_STEP, ra, form, TM, tile_item);                    \
    tile_store(&TILE_B(half, 0, 0), TILE_B_STEP, rb, form, TN, tile_item);

/* Stores the tile, which is at `row` and `column` of a matrix. */
#define STORE_RESULTS(to, row, rows, column, columns)                                         \
    _Pragma("unroll") for (int i = 0; i < IM; i++)                                            \
        _Pragma("unroll") for (int j = 0; j < IN / 4; j++)                                    \
    {                                                                                         \
        if (row + TILE_ROW(i) < rows && column + TILE_COLUMN(j) < columns)                    \
            *(__global float4 *)(to + (row + TILE_ROW(i)) * columns + column +          \
                                 TILE_COLUMN(j)) = acc[TILE_ACC(i, j)];                       \
    }

/* A product by itself, and one of several in a launch: they take the group's place among those of the
 * product, and its local memory by the names that tile.cl has for it. */
#define TILE_PARAMS __local float *tile_a, __local float *tile_b, int tile_item, int tile_x, int tile_y
#define TILE_PLACE  tile_a, tile_b, tile_item, tile_x, tile_y

/* u [36][c][o], v [36][c][tiles] -> m [36][o][tiles], at rows from `row` and columns from `column` of
 * matrix e. */
static __attribute__((always_inline)) void
multiply_images(TILE_PARAMS, __global const float *u, __global const float *v, __global float *m,
                int tiles_row, int c, int o, int row, int e, int column)
{
    int o_row = VECTORS(o);
    __global const float *a = u + (long)e * c * o_row + row;
    __global const float *b = v + (long)e * c * tiles_row + column;
    __global float *to = m + (long)e * o * tiles_row;
    float4 acc[TILE_ACCS];
    float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];

#define LOAD(k)                                                                               \
    LOADS(TILE_BY_ROW4, a, o_row - row, c, 1, o_row, b, tiles_row - column, c, 1, tiles_row, k)
#define STORE(half) STORES(TILE_BY_ROW4, half)
#define FETCH(round, k)                                                                       \
    {                                                                                         \
        TILE_FETCH_A(round, a, TILE_BY_ROW4, o_row - row, c, 1, o_row, k)                     \
        TILE_FETCH_B(round, b, TILE_BY_ROW4, tiles_row - column, c, 1, tiles_row, k)          \
    }
    TILE_ZERO(acc)
    TILE_SUM_EITHER(acc, c, LOAD, STORE, FETCH)
#undef LOAD
#undef STORE
#undef FETCH
    STORE_RESULTS(to, row, o, column, tiles_row)
}

/* d [36][o][tiles], v [36][c][tiles] -> s [split][36][o][c], likewise. `part` is the split, counted
 * from the last one, times the blocks of o, and the block. */
static __attribute__((always_inline)) void
multiply_weights(TILE_PARAMS, __global const float *d, __global const float *v, __global float *s,
                 int tiles_row, int c, int o, int splits, int part, int e, int column)
{
    int c_row = VECTORS(c), down = (o + TM - 1) / TM, before = part / down;
    int row = (part - before * down) * TM, split = splits - 1 - before;
    int first = (int)((long)(tiles_row / 4) * split / splits) * 4;
    int terms = (int)((long)(tiles_row / 4) * (split + 1) / splits) * 4 - first;
    __global const float *a = d + ((long)e * o + row) * tiles_row + first;
    __global const float *b = v + ((long)e * c + column) * tiles_row + first;
    __global float *to = s + ((long)split * 36 + e) * o * c_row;
    float4 acc[TILE_ACCS];
    float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];

#define LOAD(k)                                                                               \
    LOADS(TILE_BY_K4, a, o - row, terms, tiles_row, 1, b, c - column, terms, tiles_row, 1, k)
#define STORE(half) STORES(TILE_BY_K4, half)
#define FETCH(round, k)                                                                       \
    {                                                                                         \
        TILE_FETCH_A(round, a, TILE_BY_K4, o - row, terms, tiles_row, 1, k)                   \
        TILE_FETCH_B(round, b, TILE_BY_K4, c - column, terms, tiles_row, 1, k)                \
    }
    TILE_ZERO(acc)
    TILE_SUM_EITHER(acc, terms, LOAD, STORE, FETCH)
#undef LOAD
#undef STORE
#undef FETCH
    STORE_RESULTS(to, row, o, column, c_row)
}

/* The grid is (blocks of o, 36, blocks of tiles), and begins with the last tiles. */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_tiles_product(__global const float *u, __global const float *v, __global float *m,
                  int samples, int tiles, int c, int o)
{
    TILE_START
    multiply_images(TILE_PLACE, u, v, m, VECTORS(samples * tiles), c, o, get_group_id(0) * TM,
                    get_group_id(1), (get_num_groups(2) - 1 - get_group_id(2)) * TN);
}

/* The grid is (blocks of c, 36, splits times blocks of o), and begins with the last tiles. */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_tiles_product_weight(__global const float *d, __global const float *v, __global float *s,
                         int samples, int tiles, int c, int o, int splits)
{
    TILE_START
    multiply_weights(TILE_PLACE, d, v, s, VECTORS(samples * tiles), c, o, splits, get_group_id(2),
                     get_group_id(1), get_group_id(0) * TN);
}

/* Both gradients of a convolution, of c channels to o: u and g -> m, d and v -> s. The grid is (blocks
 * of c: TM in m, TN in s if these are more, 36, parts of s and behind them blocks of tiles). */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_tiles_product_grads(__global const float *u, __global const float *g, __global float *m,
                        __global const float *d, __global const float *v, __global float *s,
                        int samples, int tiles, int c, int o, int splits, int parts)
{
    int row = VECTORS(samples * tiles), block = get_group_id(0), e = get_group_id(1);
    int part = get_group_id(2);
    TILE_START

    if (part >= parts && block * TM < c)
        multiply_images(TILE_PLACE, u, g, m, row, o, c, block * TM, e,
                        ((int)get_num_groups(2) - 1 - part) * TN);
    else if (part < parts && block * TN < c)
        multiply_weights(TILE_PLACE, d, v, s, row, c, o, splits, part, e, block * TN);
}

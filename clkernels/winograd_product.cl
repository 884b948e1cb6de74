/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_product.cl - the 36 products between the transforms of winograd_tiles.cl, which has the
 * layouts. Rows of memory are whole vectors. Each result is one chain of multiply-adds in the
 * order of its terms, so it depends neither on the tiles beside it nor on its position.
 */
#include "tile.cl"

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

/* u [36][c][o], v [36][c][tiles] -> m [36][o][tiles]. The grid is (blocks of o, 36, blocks of tiles),
 * and begins with the last tiles. */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_tiles_product(__global const float *u, __global const float *v, __global float *m,
                  int samples, int tiles, int c, int o)
{
    int o_row = VECTORS(o), tiles_row = VECTORS(samples * tiles), row = get_group_id(0) * TM;
    int e = get_group_id(1), column = (get_num_groups(2) - 1 - get_group_id(2)) * TN;
    __global const float *a = u + (long)e * c * o_row + row;
    __global const float *b = v + (long)e * c * tiles_row + column;
    __global float *to = m + (long)e * o * tiles_row;
    float4 acc[TILE_ACCS];
    float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];

    TILE_START
#define LOAD(k)                                                                               \
    LOADS(TILE_BY_ROW4, a, o_row - row, c, 1, o_row, b, tiles_row - column, c, 1, tiles_row, k)
#define STORE(half) STORES(TILE_BY_ROW4, half)
    TILE_ZERO(acc)
    TILE_SUM(acc, c, LOAD, STORE)
#undef LOAD
#undef STORE
    STORE_RESULTS(to, row, o, column, tiles_row)
}

/* d [36][o][tiles], v [36][c][tiles] -> s [split][36][o][c]. The grid is (blocks of c, 36, splits
 * times blocks of o), and begins with the last tiles. */
__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_tiles_product_weight(__global const float *d, __global const float *v, __global float *s,
                         int samples, int tiles, int c, int o, int splits)
{
    int c_row = VECTORS(c), tiles_row = VECTORS(samples * tiles);
    int down = (o + TM - 1) / TM, part = get_group_id(2), before = part / down;
    int row = (part - before * down) * TM, column = get_group_id(0) * TN, e = get_group_id(1);
    int split = splits - 1 - before;
    int first = (int)((long)(tiles_row / 4) * split / splits) * 4;
    int terms = (int)((long)(tiles_row / 4) * (split + 1) / splits) * 4 - first;
    __global const float *a = d + ((long)e * o + row) * tiles_row + first;
    __global const float *b = v + ((long)e * c + column) * tiles_row + first;
    __global float *to = s + ((long)split * 36 + e) * o * c_row;
    float4 acc[TILE_ACCS];
    float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];

    TILE_START
#define LOAD(k)                                                                               \
    LOADS(TILE_BY_K4, a, o - row, terms, tiles_row, 1, b, c - column, terms, tiles_row, 1, k)
#define STORE(half) STORES(TILE_BY_K4, half)
    TILE_ZERO(acc)
    TILE_SUM(acc, terms, LOAD, STORE)
#undef LOAD
#undef STORE
    STORE_RESULTS(to, row, o, column, c_row)
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_probe.cl - one tile by tile.cl: c = a * b, where a has TM rows of k terms, and b has k rows of
 * TN. lib/device/dot.c tries a unit with it, and compares the numbers with those that it knows.
 */
#ifndef TM
#define TM 128
#define TN 64
#define IM 8
#define IN 8
#define TK 16
#endif
#define W 4
#include "dot.cl"
#include "tile.cl"
#include "tile_mma.cl"

#define LOAD(at)                                                                              \
    tile_load(ra, a, TILE_BY_K, TM, tile_item, TM, k, k, 1, at);                              \
    tile_load(rb, b, TILE_BY_ROW4, TN, tile_item, TN, k, 1, TN, at);
#define STORE(half)                                                                           \
    TILE_STORE_A(half, ra, TILE_BY_K)                                                         \
    TILE_STORE_B(half, rb, TILE_BY_ROW4)

__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_tile_probe(__global const float *a, __global const float *b, __global float *c)
{
    TILE_START
    const int k = 53;
    float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];
    float4 acc[TILE_ACCS];

    TILE_ZERO(acc)
    TILE_SUM(acc, k, LOAD, STORE)
#pragma unroll
    for (int i = 0; i < IM; i++)
#pragma unroll
        for (int j = 0; j < IN / 4; j++)
            *(__global float4 *)(c + TILE_ROW(i) * TN + TILE_COLUMN(j)) = acc[TILE_ACC(i, j)];
}
DOT_END

/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_probe.cl - one tile by tile.cl or tile_ahead.cl: c = a * b, where a has TM rows of k terms, and b has k rows of
 * TN; with other forms a lies by terms, and b by columns. lib/device/dot.c tries a unit with it, and compares the
 * numbers with those that it knows.
 */
#ifndef TM
#define TM 128
#define TN 64
#define IM 8
#define IN 8
#endif
#ifndef TK
#define TK 16
#endif
#define W 4
#include "dot.cl"
#include "tile.cl"
#include "tile_mma.cl"
#ifndef A_FORM
#define A_FORM TILE_BY_K4
#endif
#ifndef B_FORM
#define B_FORM TILE_BY_ROW4
#endif
#include "tile_ahead.cl"

#define BY_TERMS(form)          (form == TILE_BY_ROW || form == TILE_BY_ROW4)
#define ROW_STRIDE(form)        (BY_TERMS(form) ? 1 : k)
#define TERM_STRIDE(form, rows) (BY_TERMS(form) ? rows : 1)

#define LOAD(at)                                                                              \
    tile_load(ra, a, A_FORM, TM, tile_item, TM, k, ROW_STRIDE(A_FORM),                        \
              TERM_STRIDE(A_FORM, TM), at);                                                   \
    tile_load(rb, b, B_FORM, TN, tile_item, TN, k, ROW_STRIDE(B_FORM),                        \
              TERM_STRIDE(B_FORM, TN), at);
#define STORE(half)                                                                           \
    TILE_STORE_A(half, ra, A_FORM)                                                            \
    TILE_STORE_B(half, rb, B_FORM)
#define FETCH(round, at)                                                                      \
    {                                                                                         \
        TILE_FETCH_A(round, a, A_FORM, TM, k, ROW_STRIDE(A_FORM), TERM_STRIDE(A_FORM, TM), at) \
        TILE_FETCH_B(round, b, B_FORM, TN, k, ROW_STRIDE(B_FORM), TERM_STRIDE(B_FORM, TN), at) \
    }

__kernel YKI_GROUP(TILE_ITEMS, 1) void
yki_tile_probe(__global const float *a, __global const float *b, __global float *c)
{
    TILE_START
    const int k = 52;
    float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];
    float4 acc[TILE_ACCS];

    TILE_ZERO(acc)
    TILE_SUM_EITHER(acc, k, LOAD, STORE, FETCH)
#pragma unroll
    for (int i = 0; i < IM; i++)
#pragma unroll
        for (int j = 0; j < IN / 4; j++)
            *(__global float4 *)(c + TILE_ROW(i) * TN + TILE_COLUMN(j)) = acc[TILE_ACC(i, j)];
}
DOT_END

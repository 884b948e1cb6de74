/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.cl - the core of matrix products on GPUs: a group computes a tile of TM x TN
 * elements, each of which is a sum over k of a[k][row] * b[k][column].
 *
 * A kernel file includes it and says where a and b come from: gemm.cl reads matrices,
 * a convolution reads pixels. Everything else is here:
 *
 *  - An item has IM rows and IN columns, in blocks of 4 x 4 that lie TM / (IM / 4) rows and
 *    TN / (IN / 4) columns apart. 32 items that follow one another are 8 across and 4 down.
 *    So 128 bits are read from local memory at a time, and no two items wait for one bank.
 *  - TK terms at a time lie in local memory, as a[k][row] and b[k][column]. It has room for two
 *    times TK: while one half is multiplied, the next terms come from global memory, first to
 *    registers (LOAD), then to the other half (STORE). One barrier for each TK terms.
 *  - Each element is one chain of multiply-adds in the order of k, from 0. So its bits depend
 *    neither on the tile nor on its place in it. The last terms, fewer than TK, are multiplied
 *    one by one, and none beyond them: LOAD may put anything finite or not there, it only has
 *    to stay inside of its buffer.
 *
 * How a kernel uses it:
 *
 *     __kernel YKI_GROUP(TILE_ITEMS, 1) void f(...)
 *     {
 *         TILE_START                        local memory, and this item's place in the group
 *         float4 acc[TILE_ACCS];
 *         float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];
 *
 *         for each tile {
 *             TILE_ZERO(acc)
 *             TILE_SUM(acc, length, LOAD, STORE)      again for more terms of the same sums
 *             acc[TILE_ACC(i, j)] has 4 columns, from TILE_COLUMN(j), of row TILE_ROW(i)
 *         }                                           i < IM, j < IN / 4
 *     }
 *
 * All items of a group must come to each TILE_SUM, with the same length. LOAD(k) is a statement,
 * usually a macro of the user: it reads a's and b's terms k .. k + TK - 1 from global memory into
 * the user's registers. k is a multiple of TK, below the length; terms at the length and beyond it
 * are not used. STORE(half) writes the registers, as TILE_OPERAND, to TILE_A(half, k, row) and
 * TILE_B(half, k, column), with k < TK; TILE_FOUR_A and TILE_FOUR_B write 4 rows or columns of a
 * term. Each item moves TILE_FLOATS(TM) elements of a and TILE_FLOATS(TN) of b; which ones is the
 * user's business.
 *
 * TILE_SUM_NOTED also has NOTE(k), with which the items note something about many terms at a time
 * for LOAD, in local memory.
 *
 * For an operand that is a matrix there are tile_load, and TILE_STORE_A and TILE_STORE_B. They are
 * made for one of four forms, a constant:
 *
 *     TILE_BY_K      the terms of a row are adjacent in memory, or nothing is; any alignment
 *     TILE_BY_ROW    the rows of a term are adjacent
 *     TILE_BY_K4     as TILE_BY_K, read as float4: the length (or what LOAD is told of it) and the
 *                    rows' stride are multiples of 4, the address is one of 16 bytes
 *     TILE_BY_ROW4   as TILE_BY_ROW, read as float4: the number of rows and the terms' stride are
 *                    multiples of 4, the address is one of 16 bytes
 *
 * The last two need TILE_FLOATS(rows) to be a multiple of 4 (TILE_VECTORS). tile_load never leaves
 * the matrix: rows and terms beyond its end are those at its end. A row's terms are less than 2^31
 * elements apart, or -DTILE_OFFSET=long.
 *
 * With a matrix unit (DOT_MMA of dot.cl) tile_mma.cl replaces what depends on how local memory is
 * laid out; TILE_SUM_WHOLE is not there then.
 *
 * Sizes that fit together: TM / IM is a multiple of 4, TN / IN of 8; TK is 8 or 16. Local memory:
 * TILE_BYTES.
 */
#ifndef TM
#define TM 64
#endif
#ifndef TN
#define TN 64
#endif
#ifndef IM
#define IM 8
#endif
#ifndef IN
#define IN 8
#endif
#ifndef TK
#define TK 8
#endif

#ifdef TILE_ROUNDS
#define TILE_HALVES TILE_ROUNDS
#else
#define TILE_HALVES 2
#endif

#ifndef TILE_OFFSET
#define TILE_OFFSET int
#endif
/* An element as it lies in local memory: dot.cl may round it. */
#ifdef DOT_OPERAND
#define TILE_OPERAND DOT_OPERAND
#else
#define TILE_OPERAND(x) (x)
#endif

#define TILE_ITEMS      (TM / IM * (TN / IN))
#define TILE_FLOATS(R)  ((R) * TK / TILE_ITEMS)
#define TILE_VECTORS(R) (TILE_FLOATS(R) % 4 == 0)
#define TILE_ACCS       (IM * IN / 4)
#define TILE_ACC(i, j)  ((i) * (IN / 4) + (j))

#ifndef DOT_MMA
/* Rows of local memory are 4 floats longer than the tile. So 32 items that store 8 terms of 4 rows,
 * or 4 rows of 2 groups of terms of 16 rows, hit different banks, and rows stay aligned. */
#define TILE_A_STEP (TM + 4)
#define TILE_B_STEP (TN + 4)
#define TILE_BYTES  (TILE_HALVES * TK * (TILE_A_STEP + TILE_B_STEP) * 4)

#if TM % (4 * IM) || TN % (8 * IN) || (IM != 4 && IM != 8) || (IN != 4 && IN != 8) || TK % 8
#error "tile.cl: sizes that do not fit together"
#endif

/* Declares local memory and the item's place. It must stand in the body of the kernel itself. */
#define TILE_START                                                                            \
    __local float tile_a[TILE_HALVES * TK * TILE_A_STEP] __attribute__((aligned(16)));        \
    __local float tile_b[TILE_HALVES * TK * TILE_B_STEP] __attribute__((aligned(16)));        \
    const int tile_item = (int)get_local_id(0);                                               \
    const int tile_x = (int)((uint)tile_item / 32 % (TN / IN / 8) * 8 + (uint)tile_item % 8); \
    const int tile_y = (int)((uint)tile_item / 32 / (TN / IN / 8) * 4 + (uint)tile_item / 8 % 4);

#define TILE_A(half, k, row)    tile_a[((half)*TK + (k)) * TILE_A_STEP + (row)]
#define TILE_B(half, k, column) tile_b[((half)*TK + (k)) * TILE_B_STEP + (column)]

#define TILE_ROW(i)    ((i) / 4 * (TM / (IM / 4)) + tile_y * 4 + (i) % 4)
#define TILE_COLUMN(j) ((j) * (TN / (IN / 4)) + tile_x * 4)
#endif

#define TILE_ZERO(acc)                                                                        \
    {                                                                                         \
        _Pragma("unroll") for (int tile_i = 0; tile_i < TILE_ACCS; tile_i++) acc[tile_i] =    \
            (float4)(0.f);                                                                    \
    }

#ifndef DOT_MMA
/* One term of the item's elements, number q behind the item's first of a and of b. These are
 * pointers so that the rest of the address is a constant. It is a macro because acc must stay in
 * registers. */
#define TILE_TERM(acc, a, b, q)                                                               \
    {                                                                                         \
        float4 tile_va[IM / 4], tile_vb[IN / 4];                                              \
                                                                                              \
        _Pragma("unroll") for (int tile_i = 0; tile_i < IM / 4; tile_i++) tile_va[tile_i] =   \
            *(__local const float4 *)(a + (q)*TILE_A_STEP + tile_i * (TM / (IM / 4)));        \
        _Pragma("unroll") for (int tile_j = 0; tile_j < IN / 4; tile_j++) tile_vb[tile_j] =   \
            *(__local const float4 *)(b + (q)*TILE_B_STEP + tile_j * (TN / (IN / 4)));        \
        _Pragma("unroll") for (int tile_i = 0; tile_i < IM / 4; tile_i++)                     \
            _Pragma("unroll") for (int tile_j = 0; tile_j < IN / 4; tile_j++)                 \
        {                                                                                     \
            TILE_TERM_ROW(acc, 0)                                                             \
            TILE_TERM_ROW(acc, 1)                                                             \
            TILE_TERM_ROW(acc, 2)                                                             \
            TILE_TERM_ROW(acc, 3)                                                             \
        }                                                                                     \
    }
#define TILE_TERM_ROW(acc, r)                                                                 \
    acc[TILE_ACC(tile_i * 4 + r, tile_j)] =                                                   \
        YKI_FMA((float4)(tile_va[tile_i].s##r), tile_vb[tile_j],                              \
                acc[TILE_ACC(tile_i * 4 + r, tile_j)]);

/* Declares what the next three need. */
#define TILE_POINTERS                                                                         \
    __local const float *tile_pa = &TILE_A(0, 0, tile_y * 4);                             \
    __local const float *tile_pb = &TILE_B(0, 0, tile_x * 4);

/* Reads the terms from tile_k on while those before it are multiplied, then stores them. */
#define TILE_TURN(acc, LOAD, STORE)                                                           \
    {                                                                                         \
        LOAD(tile_k)                                                                          \
        _Pragma("unroll") for (int tile_q = 0; tile_q < TK; tile_q++)                         \
            TILE_TERM(acc, tile_pa, tile_pb, tile_q)                                          \
        tile_half ^= 1;                                                                       \
        STORE(tile_half)                                                                      \
        tile_pa = &TILE_A(tile_half, 0, tile_y * 4);                                          \
        tile_pb = &TILE_B(tile_half, 0, tile_x * 4);                                          \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
    }

/* Multiplies the last terms, of which there may be fewer than TK. */
#define TILE_REST(acc)                                                                        \
    for (tile_k -= TK; tile_k < tile_length; tile_k++) {                                      \
        TILE_TERM(acc, tile_pa, tile_pb, 0)                                                   \
        tile_pa += TILE_A_STEP;                                                               \
        tile_pb += TILE_B_STEP;                                                               \
    }
#endif

/* Adds `length` terms to acc. The first barrier is for what was multiplied before. */
#define TILE_SUM(acc, length, LOAD, STORE)                                                    \
    {                                                                                         \
        const int tile_length = (length);                                                     \
        int tile_half = 0, tile_k = TK;                                                       \
        TILE_POINTERS                                                                         \
                                                                                              \
        if (tile_length > 0) {                                                                \
            LOAD(0)                                                                           \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
            STORE(0)                                                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
            for (; tile_k < tile_length; tile_k += TK)                                        \
                TILE_TURN(acc, LOAD, STORE)                                                   \
            TILE_REST(acc)                                                                    \
        }                                                                                     \
    }

/* The same, where LOAD reads what NOTE(k) has noted in local memory of the terms k .. k + chunk - 1;
 * chunk is a multiple of TK. */
#define TILE_SUM_NOTED(acc, length, chunk, NOTE, LOAD, STORE)                                 \
    {                                                                                         \
        const int tile_length = (length);                                                     \
        int tile_half = 0, tile_k = TK;                                                       \
        TILE_POINTERS                                                                         \
                                                                                              \
        if (tile_length > 0) {                                                                \
            NOTE(0)                                                                           \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
            LOAD(0)                                                                           \
            STORE(0)                                                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
            while (tile_k < tile_length) {                                                    \
                const int tile_end = min(tile_length, tile_k / (chunk) * (chunk) + (chunk));  \
                                                                                              \
                if (tile_k % (chunk) == 0) {                                                  \
                    NOTE(tile_k)                                                              \
                    barrier(CLK_LOCAL_MEM_FENCE);                                             \
                }                                                                             \
                for (; tile_k < tile_end; tile_k += TK)                                       \
                    TILE_TURN(acc, LOAD, STORE)                                               \
            }                                                                                 \
            TILE_REST(acc)                                                                    \
        }                                                                                     \
    }

/* TILE_SUM, or TILE_SUM_AHEAD of tile_ahead.cl. */
#ifdef TILE_ROUNDS
#define TILE_SUM_EITHER(acc, length, LOAD, STORE, FETCH) TILE_SUM_AHEAD(acc, length, FETCH)
#else
#define TILE_SUM_EITHER(acc, length, LOAD, STORE, FETCH) TILE_SUM(acc, length, LOAD, STORE)
#endif

#ifndef DOT_MMA
/* The same for a constant number of terms that is a multiple of TK. A(half, k) is where row tile_y * 4
 * of term k lies, in rows of TILE_A_STEP: TILE_IN_TILE, or an array of the user that holds all terms
 * of a; then STORE writes b alone. */
#define TILE_IN_TILE(half, k) (&TILE_A(half, 0, tile_y * 4))
#define TILE_SUM_WHOLE(acc, A, length, LOAD, STORE)                                           \
    {                                                                                         \
        int tile_half = 0, tile_k = TK;                                                       \
        __local const float *tile_pa, *tile_pb;                                               \
                                                                                              \
        LOAD(0)                                                                               \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        STORE(0)                                                                              \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        for (; tile_k < (length); tile_k += TK) {                                             \
            LOAD(tile_k)                                                                      \
            tile_pa = A(tile_half, tile_k - TK);                                              \
            tile_pb = &TILE_B(tile_half, 0, tile_x * 4);                                      \
            _Pragma("unroll") for (int tile_q = 0; tile_q < TK; tile_q++)                     \
                TILE_TERM(acc, tile_pa, tile_pb, tile_q)                                      \
            tile_half ^= 1;                                                                   \
            STORE(tile_half)                                                                  \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
        }                                                                                     \
        tile_pa = A(tile_half, tile_k - TK);                                                  \
        tile_pb = &TILE_B(tile_half, 0, tile_x * 4);                                          \
        _Pragma("unroll") for (int tile_q = 0; tile_q < TK; tile_q++)                         \
            TILE_TERM(acc, tile_pa, tile_pb, tile_q)                                          \
    }
#endif

/* ---- operands that are matrices ---- */

#define TILE_BY_K    0
#define TILE_BY_ROW  1
#define TILE_BY_K4   2
#define TILE_BY_ROW4 3

/* TILE_BY_K4 has so many terms side by side. With 8, what follows the item's first float4 is further on in
 * the same rows and needs no address of its own; units have all, so all of an item of 64 or more are the
 * same terms, on which conv_gemm_weight.cl relies. */
#ifdef DOT_MMA
#define TILE_K4_TERMS TK
#else
#define TILE_K4_TERMS 8
#endif

/* The row and the term of the item's float or float4 number u, out of `size` rows. Items and rows are
 * powers of 2, so what u adds is a constant of its own, which goes into addresses; and what the item
 * adds is unsigned, so that quotients and remainders are shifts and masks. */
static __attribute__((always_inline)) int
tile_row(int form, int size, uint item, int u)
{
    switch (form) {
    case TILE_BY_K:
        return (int)(item / 8 % (uint)size) + u * TILE_ITEMS / 8 % size;
    case TILE_BY_ROW:
        return (int)(item % (uint)size) + u * TILE_ITEMS % size;
    case TILE_BY_K4: /* items that follow one another have TILE_K4_TERMS terms of 16 rows */
        return (int)(item / (4 * TILE_K4_TERMS) * 16 % (uint)size + item % 16) +
               u * TILE_ITEMS / (4 * TILE_K4_TERMS) * 16 % size;
    default:
        return (int)(item * 4 % (uint)size) + u * TILE_ITEMS * 4 % size;
    }
}

static __attribute__((always_inline)) int
tile_term(int form, int size, uint item, int u)
{
    switch (form) {
    case TILE_BY_K:
        return (int)(item / (8 * (uint)size) * 8 + item % 8) + u * TILE_ITEMS / (8 * size) * 8;
    case TILE_BY_ROW:
        return (int)(item / (uint)size) + u * TILE_ITEMS / size;
    case TILE_BY_K4:
        return (int)(item * 4 / (TILE_K4_TERMS * (uint)size) * TILE_K4_TERMS +
                     item / 16 % (TILE_K4_TERMS / 4) * 4) +
               u * TILE_ITEMS * 4 / (TILE_K4_TERMS * size) * TILE_K4_TERMS +
               u * TILE_ITEMS / 16 % (TILE_K4_TERMS / 4) * 4;
    default:
        return (int)(item * 4 / (uint)size) + u * TILE_ITEMS * 4 / size;
    }
}

/* Reads the item's floats of the terms from k on into to[TILE_FLOATS(size)], for a tile of `size`
 * rows. The element at (row, k) is x[row * row_stride + k * k_stride]; the matrix has `rows` rows
 * and `terms` terms, at least one. */
static __attribute__((always_inline)) void
tile_load(float *to, __global const float *x, int form, int size, int item, int rows, int terms,
          int row_stride, int k_stride, int k)
{
    const int vector = form >= TILE_BY_K4 ? 4 : 1;

#pragma unroll
    for (int u = 0; u < TILE_FLOATS(size) / vector; u++) {
        int row = min(tile_row(form, size, item, u),
                      form == TILE_BY_ROW4 ? rows - 4 : rows - 1);
        int term = min(k + tile_term(form, size, item, u),
                       form == TILE_BY_K4 ? terms - 4 : terms - 1);
        __global const float *from = x + (long)row * row_stride + (TILE_OFFSET)term * k_stride;

        if (vector == 4) {
            float4 v = *(__global const float4 *)from;

            to[4 * u] = v.s0;
            to[4 * u + 1] = v.s1;
            to[4 * u + 2] = v.s2;
            to[4 * u + 3] = v.s3;
        } else {
            to[u] = *from;
        }
    }
}

/* Writes four lanes. Simulators take a vector of which no lane was there before for uninitialised. */
#ifdef YKI_LANES_APART
void
tile_put4(__local int4 *to, int a, int b, int c, int d)
{
    __local int *lanes = (__local int *)to;

    lanes[0] = a, lanes[1] = b, lanes[2] = c, lanes[3] = d;
}
#else
#define tile_put4(to, a, b, c, d) (*(to) = (int4)(a, b, c, d))
#endif

#ifndef DOT_MMA
#define TILE_FOUR(to, r, at)                                                                  \
    tile_put4((__local int4 *)(to), as_int(TILE_OPERAND((r)[at])),                            \
              as_int(TILE_OPERAND((r)[(at) + 1])), as_int(TILE_OPERAND((r)[(at) + 2])),       \
              as_int(TILE_OPERAND((r)[(at) + 3])));
#define TILE_FOUR_A(half, k, row, r, at)    TILE_FOUR(&TILE_A(half, k, row), r, at)
#define TILE_FOUR_B(half, k, column, r, at) TILE_FOUR(&TILE_B(half, k, column), r, at)

/* Writes them to a half of local memory: `tile` is &TILE_A(half, 0, 0), `step` TILE_A_STEP. */
static __attribute__((always_inline)) void
tile_store(__local float *tile, int step, const float *from, int form, int size, int item)
{
    const int vector = form >= TILE_BY_K4 ? 4 : 1;

#pragma unroll
    for (int u = 0; u < TILE_FLOATS(size) / vector; u++) {
        __local float *to = tile + tile_term(form, size, item, u) * step +
                            tile_row(form, size, item, u);

        if (form == TILE_BY_ROW4)
            TILE_FOUR(to, from, 4 * u)
        else
#pragma unroll
            for (int i = 0; i < vector; i++)
                to[i * step] = TILE_OPERAND(from[u * vector + i]);
    }
}
#define TILE_STORE_A(half, from, form)                                                        \
    tile_store(&TILE_A(half, 0, 0), TILE_A_STEP, from, form, TM, tile_item);
#define TILE_STORE_B(half, from, form)                                                        \
    tile_store(&TILE_B(half, 0, 0), TILE_B_STEP, from, form, TN, tile_item);
#endif

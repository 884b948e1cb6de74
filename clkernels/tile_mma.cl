/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_mma.cl - the core of tile.cl for units that multiply matrices (DOT_MMA of dot.cl). A file
 * that includes tile.cl includes this behind it, if it may be compiled for such a unit.
 *
 * An instruction multiplies 16 rows by 8 columns and 8 parts of the sum; a part is a term of TF32, or
 * two of bfloat16 or half that follow one another. 32 items, a warp, execute it together: item l, with
 * g = l / 4 and t = l % 4, gives
 *
 *     a0, a1, a2, a3   row g, row g + 8 of part t, and the same rows of part t + 4
 *     b0, b1           column g of part t, and of part t + 4
 *     c0, c1, c2, c3   columns 2 t and 2 t + 1 of row g, and of row g + 8
 *
 * Which row, column and part of the tile these are is free. Here they are chosen so that an item has
 * rows and columns as tile.cl's users expect, and reads what one instruction needs by one load of
 * 128 bits, as four registers in their order:
 *
 *  - A warp has blocks of 32 x 32, IM / 4 down and IN / 8 across, as far apart as those of tile.cl.
 *    Instruction m (of 2) and n (of 4) of a block has, of the tile, rows 4 g + 2 m and 4 g + 2 m + 1,
 *    and column 4 g + n. So an item ends with 4 rows from 4 g and 8 columns from 8 t.
 *  - Parts t and t + 4 are the parts 2 t and 2 t + 1 of 8 that follow one another.
 *  - Local memory has words of 32 bits, a part each. Two parts, of two rows or columns that follow
 *    one another, are 4 words: a0 .. a3, or b0 and b1 of two instructions. TILE_SLOT says where
 *    they lie. Two parts of all rows are 8 words longer than these, so that 8 items that load, two g
 *    and four t, hit different banks.
 *
 * The last terms, fewer than TK, are completed by zeros in local memory.
 *
 * With TILE_ROUNDS local memory has floats, which an item makes parts of: tile_ahead.cl.
 */
#ifdef DOT_MMA
#if TM % (8 * IM) || TN % (4 * IN) || (IM != 4 && IM != 8) || (IN != 8 && IN != 16) ||        \
    TK % (8 * DOT_TERMS)
#error "tile_mma.cl: sizes that do not fit together"
#endif

#define TILE_PARTS  (TK / DOT_TERMS)
#define TILE_A_STEP (2 * TM + 8) /* words of two parts */
#define TILE_B_STEP (2 * TN + 8)
#ifdef TILE_ROUNDS
#define TILE_ELEMENT float
#define TILE_A_HALF  (TM * TK)
#define TILE_B_HALF  (TN * TK)
#else
#define TILE_ELEMENT uint
#define TILE_A_HALF (TILE_PARTS / 2 * TILE_A_STEP)
#define TILE_B_HALF (TILE_PARTS / 2 * TILE_B_STEP)
#endif
#define TILE_BYTES  (TILE_HALVES * (TILE_A_HALF + TILE_B_HALF) * 4)

#ifdef DOT_MMA_PLAIN
#define TILE_GIVEN __local uint tile_given[TILE_ITEMS * 6];
#else
#define TILE_GIVEN
#endif
#define TILE_START                                                                            \
    TILE_GIVEN                                                                                \
    __local TILE_ELEMENT tile_a[TILE_HALVES * TILE_A_HALF] __attribute__((aligned(16)));      \
    __local TILE_ELEMENT tile_b[TILE_HALVES * TILE_B_HALF] __attribute__((aligned(16)));      \
    const int tile_item = (int)(get_local_id(0) % TILE_ITEMS);                                \
    const int tile_x = tile_item / 32 % (TN / IN / 4) * 8 + tile_item % 4 * 2;                \
    const int tile_y = tile_item / 32 / (TN / IN / 4) * 8 + tile_item / 4 % 8;

#define TILE_ROW(i)    ((i) / 4 * (TM / (IM / 4)) + tile_y * 4 + (i) % 4)
#define TILE_COLUMN(j) ((j) / 2 * (TN / (IN / 8)) + tile_x * 4 + (j) % 2 * 4)

/* Where the 4 words of part k / DOT_TERMS and row r lie. */
#define TILE_SLOT(step, k, r)                                                                 \
    ((uint)(k) / DOT_TERMS / 2 * (step) + (uint)(r) / 32 * 64 + (uint)(r) / 2 % 2 * 32 +      \
     (uint)(r) / 4 % 8 * 4)
#define TILE_PART(k) ((uint)(k) / DOT_TERMS % 2)
#define TILE_A_WORD(half, k, row)                                                             \
    (tile_a + (half)*TILE_A_HALF + TILE_SLOT(TILE_A_STEP, k, row) + TILE_PART(k) * 2 +        \
     (uint)(row) % 2)
#define TILE_B_WORD(half, k, column)                                                          \
    (tile_b + (half)*TILE_B_HALF + TILE_SLOT(TILE_B_STEP, k, column) +                        \
     (uint)(column) % 2 * 2 + TILE_PART(k))
#if DOT_TERMS == 1
#define TILE_TERM_AT(word, k) (*(word))
#else
#define TILE_TERM_AT(word, k) (((__local ushort *)(word))[(uint)(k) % 2])
#endif
#define TILE_A(half, k, row)    TILE_TERM_AT(TILE_A_WORD(half, k, row), k)
#define TILE_B(half, k, column) TILE_TERM_AT(TILE_B_WORD(half, k, column), k)

#ifndef DOT_MMA_PLAIN
/* It is volatile so that it stays where all 32 items execute it. */
#define TILE_INSTRUCTION(c0, c1, c2, c3, a, b0, b1)                                           \
    __asm__ volatile(DOT_MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"         \
                     : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)                                 \
                     : "r"(a.s0), "r"(a.s1), "r"(a.s2), "r"(a.s3), "r"(b0), "r"(b1));
#else
/* What the instruction does, as its maker describes it: items see each other's registers. */
#define TILE_INSTRUCTION(c0, c1, c2, c3, a, b0, b1)                                           \
    {                                                                                         \
        const uint given_[6] = {a.s0, a.s1, a.s2, a.s3, b0, b1};                              \
        __local const uint *warp_ = tile_given + tile_item / 32 * (32 * 6);                   \
        const int g_ = tile_item % 32 / 4, t_ = tile_item % 4;                                \
                                                                                              \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        for (int i_ = 0; i_ < 6; i_++)                                                        \
            tile_given[tile_item * 6 + i_] = given_[i_];                                      \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        c0 = tile_dot(warp_, g_, 2 * t_, c0);                                                 \
        c1 = tile_dot(warp_, g_, 2 * t_ + 1, c1);                                             \
        c2 = tile_dot(warp_, g_ + 8, 2 * t_, c2);                                             \
        c3 = tile_dot(warp_, g_ + 8, 2 * t_ + 1, c3);                                         \
    }
static float
tile_dot(__local const uint *warp, int row, int column, float sum)
{
    for (int p = 0; p < 8; p++) {
        uint a = warp[(row % 8 * 4 + p % 4) * 6 + row / 8 + p / 4 * 2];
        uint b = warp[(column * 4 + p % 4) * 6 + 4 + p / 4];

#if DOT == DOT_MMA_TF32
        sum += as_float(a) * as_float(b);
#else
        sum += DOT_LOW(a) * DOT_LOW(b);
        sum += DOT_HIGH(a) * DOT_HIGH(b);
#endif
    }
    return sum;
}
#endif

/* Instruction m and n of block i, j. The registers go through variables, which every compiler of
 * OpenCL takes. */
#define TILE_MULTIPLY(acc, i, j, m, n, a, b0, b1)                                             \
    {                                                                                         \
        float c0_ = acc[TILE_ACC(4 * (i) + 2 * (m), 2 * (j))].s##n;                           \
        float c1_ = acc[TILE_ACC(4 * (i) + 2 * (m), 2 * (j) + 1)].s##n;                       \
        float c2_ = acc[TILE_ACC(4 * (i) + 2 * (m) + 1, 2 * (j))].s##n;                       \
        float c3_ = acc[TILE_ACC(4 * (i) + 2 * (m) + 1, 2 * (j) + 1)].s##n;                   \
                                                                                              \
        TILE_INSTRUCTION(c0_, c1_, c2_, c3_, a, b0, b1)                                       \
        acc[TILE_ACC(4 * (i) + 2 * (m), 2 * (j))].s##n = c0_;                                 \
        acc[TILE_ACC(4 * (i) + 2 * (m), 2 * (j) + 1)].s##n = c1_;                             \
        acc[TILE_ACC(4 * (i) + 2 * (m) + 1, 2 * (j))].s##n = c2_;                             \
        acc[TILE_ACC(4 * (i) + 2 * (m) + 1, 2 * (j) + 1)].s##n = c3_;                         \
    }

/* All terms of a half. */
#define TILE_TERMS(acc, half)                                                                 \
    {                                                                                         \
        __local const uint *tile_pa = tile_a + (half)*TILE_A_HALF + tile_item % 4 * TILE_A_STEP + \
                                      tile_y / 8 * 64 + tile_y % 8 * 4;                       \
        __local const uint *tile_pb = tile_b + (half)*TILE_B_HALF + tile_item % 4 * TILE_B_STEP + \
                                      tile_x / 8 * 64 + tile_item / 4 % 8 * 4;                \
                                                                                              \
        _Pragma("unroll") for (int tile_q = 0; tile_q < TILE_PARTS / 8; tile_q++)             \
        {                                                                                     \
            uint4 tile_vb[IN / 4];                                                            \
                                                                                              \
            _Pragma("unroll") for (int tile_j = 0; tile_j < IN / 4; tile_j++) tile_vb[tile_j] = \
                *(__local const uint4 *)(tile_pb + tile_q * 4 * TILE_B_STEP +                 \
                                         tile_j / 2 * (2 * TN / (IN / 8)) + tile_j % 2 * 32); \
            _Pragma("unroll") for (int tile_i = 0; tile_i < IM / 4; tile_i++)                 \
            {                                                                                 \
                __local const uint *tile_from =                                               \
                    tile_pa + tile_q * 4 * TILE_A_STEP + tile_i * (2 * TM / (IM / 4));        \
                uint4 tile_v0 = *(__local const uint4 *)tile_from;                            \
                uint4 tile_v1 = *(__local const uint4 *)(tile_from + 32);                     \
                                                                                              \
                _Pragma("unroll") for (int tile_j = 0; tile_j < IN / 8; tile_j++)             \
                {                                                                             \
                    uint4 tile_b0 = tile_vb[2 * tile_j], tile_b1 = tile_vb[2 * tile_j + 1];   \
                                                                                              \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 0, 0, tile_v0, tile_b0.s0, tile_b0.s1) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 0, 1, tile_v0, tile_b0.s2, tile_b0.s3) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 0, 2, tile_v0, tile_b1.s0, tile_b1.s1) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 0, 3, tile_v0, tile_b1.s2, tile_b1.s3) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 1, 0, tile_v1, tile_b0.s0, tile_b0.s1) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 1, 1, tile_v1, tile_b0.s2, tile_b0.s3) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 1, 2, tile_v1, tile_b1.s0, tile_b1.s1) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 1, 3, tile_v1, tile_b1.s2, tile_b1.s3) \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
    }

/* The steps of TILE_SUM. */
#define TILE_POINTERS
#define TILE_TURN(acc, LOAD, STORE)                                                           \
    {                                                                                         \
        LOAD(tile_k)                                                                          \
        TILE_TERMS(acc, tile_half)                                                            \
        tile_half ^= 1;                                                                       \
        STORE(tile_half)                                                                      \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
    }
#define TILE_REST(acc)                                                                        \
    {                                                                                         \
        if (tile_k > tile_length) {                                                           \
            for (int k_ = tile_length - tile_k + TK; k_ < TK; k_++) {                         \
                for (int r_ = tile_item; r_ < TM; r_ += TILE_ITEMS)                           \
                    TILE_A(tile_half, k_, r_) = 0;                                            \
                for (int r_ = tile_item; r_ < TN; r_ += TILE_ITEMS)                           \
                    TILE_B(tile_half, k_, r_) = 0;                                            \
            }                                                                                 \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
        }                                                                                     \
        TILE_TERMS(acc, tile_half)                                                            \
    }

#define TILE_STORE(at, from, form, size)                                                      \
    {                                                                                         \
        _Pragma("unroll") for (int u_ = 0; u_ < TILE_FLOATS(size); u_++)                      \
        {                                                                                     \
            const int vector_ = form >= TILE_BY_K4 ? 4 : 1, i_ = u_ % vector_;                \
            const int k_ = tile_term(form, size, tile_item, u_ / vector_) +                   \
                           (form == TILE_BY_K4 ? i_ : 0);                                     \
            const int r_ = tile_row(form, size, tile_item, u_ / vector_) +                    \
                           (form == TILE_BY_ROW4 ? i_ : 0);                                   \
                                                                                              \
            at = TILE_OPERAND(from[u_]);                                                      \
        }                                                                                     \
    }
#define TILE_FOUR_A(half, k, row, r, at)                                                      \
    _Pragma("unroll") for (int e_ = 0; e_ < 4; e_++) TILE_A(half, k, (row) + e_) =            \
        TILE_OPERAND((r)[(at) + e_]);
#define TILE_FOUR_B(half, k, column, r, at)                                                   \
    _Pragma("unroll") for (int e_ = 0; e_ < 4; e_++) TILE_B(half, k, (column) + e_) =         \
        TILE_OPERAND((r)[(at) + e_]);
#define TILE_STORE_A(half, from, form) TILE_STORE(TILE_A(half, k_, r_), from, form, TM)
#define TILE_STORE_B(half, from, form) TILE_STORE(TILE_B(half, k_, r_), from, form, TN)
#endif

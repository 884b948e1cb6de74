/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_ahead.cl - the core of tile.cl for devices that copy from global to local memory beside what an
 * item computes (cp.async of PTX, sm_80 and later). A file that includes tile.cl includes this
 * behind it and behind tile_mma.cl, if it may be compiled with -DTILE_ROUNDS.
 *
 * Local memory has room for TILE_ROUNDS times TK terms. While those of one round are multiplied, those
 * of the others are on their way, and need no registers. One barrier for each TK terms.
 *
 *     TILE_SUM_AHEAD(acc, length, FETCH)     in place of TILE_SUM
 *
 * FETCH(round, k) is a statement that starts copies of a's and b's terms k .. k + TK - 1 to
 * TILE_ROUND_A(round) and TILE_ROUND_B(round); tile_fetch does so for an operand that is a matrix.
 *
 * Results have the same bits as those of tile.cl and tile_mma.cl: all that differs is how numbers come
 * to local memory. There they are floats as they are in global memory, also for matrix units: an item
 * rounds what it gives to an instruction. For units, an operand of the form TILE_BY_K4 lies there in rows
 * of 16 terms, and blocks of 16 bytes are exchanged such that 8 items that read hit different banks;
 * all else lies in terms of TM (or TN) rows.
 *
 * A compiler that does not make PTX gets ordinary copies, for tests.
 */
#ifdef TILE_ROUNDS
#if !defined(__NVPTX__) && !defined(__PTX__) && !defined(__NV_CL_C_VERSION)
#define TILE_AHEAD_PLAIN
#endif
#ifndef TILE_AHEAD_PLAIN
/* Copies 4 or 16 bytes, or writes zeros if not `there`. */
#define TILE_COPY(bytes, how, to, from, there)                                                \
    __asm__ volatile("cp.async." how ".shared.global [%0], [%1], " #bytes ", %2;" ::"r"(      \
                         (uint)(size_t)(to)),                                                 \
                     "l"((ulong)(size_t)(from)), "r"((there) ? bytes : 0)                     \
                     : "memory");
#define tile_copy4(to, from, there)  TILE_COPY(4, "ca", to, from, there)
#define tile_copy16(to, from, there) TILE_COPY(16, "cg", to, from, there)
#define TILE_COMMIT                  __asm__ volatile("cp.async.commit_group;" ::: "memory");
#define TILE_WAIT                                                                             \
    __asm__ volatile("cp.async.wait_group %0;" ::"n"(TILE_ROUNDS - 2) : "memory");
#else
static __attribute__((always_inline)) void
tile_copy4(__local float *to, __global const float *from, bool there)
{
    *to = there ? *from : 0.f;
}
static __attribute__((always_inline)) void
tile_copy16(__local float *to, __global const float *from, bool there)
{
    *(__local float4 *)to = there ? *(__global const float4 *)from : (float4)(0.f);
}
#define TILE_COMMIT
#define TILE_WAIT
#endif

/* How an item copies an operand of a form: TILE_WAY is the form by which it is copied, in TILE_COPIES
 * pieces. tile_copy_row and tile_copy_term say where piece u begins, and tile_place where an element
 * lies in a round. Local memory has terms of `size` rows each, but in the core for matrix units rows of
 * 16 terms, if the form is TILE_BY_K4. */
#define TILE_ROUND_A(round)     (tile_a + (round)*TK * TILE_A_ROOM)
#define TILE_ROUND_B(round)     (tile_b + (round)*TK * TILE_B_ROOM)
#define TILE_COPIES(form, size) (TILE_FLOATS(size) / (TILE_WAY(form) >= TILE_BY_K4 ? 4 : 1))

#ifndef DOT_MMA
/* Terms beyond the last are not multiplied: what lies there does not matter. */
#define TILE_THERE(there) true
/* What lies by terms is turned, so it goes float by float. */
#define TILE_WAY(form) ((form) == TILE_BY_K4 ? TILE_BY_K : (form))
#define TILE_A_ROOM    TILE_A_STEP
#define TILE_B_ROOM    TILE_B_STEP
#define tile_copy_row(form, size, item, u)  tile_row(TILE_WAY(form), size, item, u)
#define tile_copy_term(form, size, item, u) tile_term(TILE_WAY(form), size, item, u)
#define tile_place(form, size, row, k)      ((k) * ((size) + 4) + (row))
#else
#define TILE_THERE(there) (there)
#define TILE_WAY(form) (form)
#define TILE_A_ROOM    TM
#define TILE_B_ROOM    TN
#if TK % 16
#error "tile_ahead.cl: rows have 16 terms"
#endif
/* An item gives an instruction two parts of a row: so many terms that follow one another. */
#define TILE_OWN_TERMS (2 * DOT_TERMS)

static __attribute__((always_inline)) int
tile_copy_row(int form, int size, uint item, int u)
{
    const uint i = item + u * TILE_ITEMS;

    return (int)(form == TILE_BY_K4 ? i / (TK / 4) : i % ((uint)size / 4) * 4);
}

static __attribute__((always_inline)) int
tile_copy_term(int form, int size, uint item, int u)
{
    const uint i = item + u * TILE_ITEMS;

    return (int)(form == TILE_BY_K4 ? i % (TK / 4) * 4 : i / ((uint)size / 4));
}

/* Of rows of 16 terms, two are 128 bytes, whose quarters are exchanged such that rows 4 apart lie
 * in others; of terms, blocks of 4 rows are exchanged. */
static __attribute__((always_inline)) int
tile_place(int form, int size, uint row, uint k)
{
    if (form == TILE_BY_K4)
        return (int)(k / 16 * 16 * (uint)size + row / 2 * 32 +
                     ((row % 2 * 2 + k % 16 / 8) ^ (row / 4 % 2 * 2 + row / 8 % 2)) * 8 + k % 8);
    return (int)(k * (uint)size + (row / 4 ^ k / TILE_OWN_TERMS % 4 * 2) * 4 + row % 4);
}
#endif

/* Copies the item's floats of the terms from k on, as tile_load reads them, and zeros behind the
 * last term. */
static __attribute__((always_inline)) void
tile_fetch(__local float *tile, __global const float *x, int form, int size, int item, int rows,
           int terms, int row_stride, int k_stride, int k)
{
#pragma unroll
    for (int u = 0; u < TILE_COPIES(form, size); u++) {
        int r = tile_copy_row(form, size, item, u), t = tile_copy_term(form, size, item, u);
        int row = min(r, TILE_WAY(form) == TILE_BY_ROW4 ? rows - 4 : rows - 1);
        int term = min(k + t, TILE_WAY(form) == TILE_BY_K4 ? terms - 4 : terms - 1);
        __global const float *from = x + (long)row * row_stride + (TILE_OFFSET)term * k_stride;
        __local float *to = tile + tile_place(form, size, r, t);

        if (TILE_WAY(form) >= TILE_BY_K4) {
            tile_copy16(to, from, TILE_THERE(k + t < terms));
        } else {
            tile_copy4(to, from, TILE_THERE(k + t < terms));
        }
    }
}
#define TILE_FETCH_A(round, x, form, rows, terms, row_stride, k_stride, k)                    \
    tile_fetch(TILE_ROUND_A(round), x, form, TM, tile_item, rows, terms, row_stride, k_stride, k);
#define TILE_FETCH_B(round, x, form, rows, terms, row_stride, k_stride, k)                    \
    tile_fetch(TILE_ROUND_B(round), x, form, TN, tile_item, rows, terms, row_stride, k_stride, k);

#ifndef DOT_MMA
#define TILE_ROUND_TERMS(acc, round)                                                         \
    {                                                                                         \
        __local const float *tile_pa = &TILE_A(round, 0, tile_y * 4);                         \
        __local const float *tile_pb = &TILE_B(round, 0, tile_x * 4);                         \
                                                                                              \
        _Pragma("unroll") for (int tile_q = 0; tile_q < TK; tile_q++)                         \
            TILE_TERM(acc, tile_pa, tile_pb, tile_q)                                          \
    }
/* Fewer than TK terms are multiplied one by one, and none beyond them. */
#define TILE_ROUNDS_END(length) ((length) / TK * TK)
#define TILE_ROUNDS_REST(acc)                                                                 \
    if (tile_k < tile_length) {                                                               \
        __local const float *tile_pa = &TILE_A(tile_round, 0, tile_y * 4);                    \
        __local const float *tile_pb = &TILE_B(tile_round, 0, tile_x * 4);                    \
                                                                                              \
        TILE_WAIT                                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        for (; tile_k < tile_length; tile_k++) {                                              \
            TILE_TERM(acc, tile_pa, tile_pb, 0)                                               \
            tile_pa += TILE_A_STEP;                                                           \
            tile_pb += TILE_B_STEP;                                                           \
        }                                                                                     \
    }
#else
#if DOT_TERMS == 1
#define TILE_WORD(x, part) DOT_OPERAND((x)[part])
#elif defined(DOT_MMA_PLAIN)
#define TILE_WORD(x, part)                                                                    \
    ((uint)DOT_OPERAND((x)[2 * (part)]) | (uint)DOT_OPERAND((x)[2 * (part) + 1]) << 16)
#else
#define TILE_WORD(x, part) dot_pair((x)[2 * (part)], (x)[2 * (part) + 1])
#endif

/* Two parts of 4 rows, as words[2 * row + part]: of the terms from k on of the rows from `row` on. */
static __attribute__((always_inline)) void
tile_words(uint *words, __local const float *tile, int form, int size, int row, int k)
{
    float x[4][TILE_OWN_TERMS];

    if (form == TILE_BY_K4) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
            __local const float *from = tile + tile_place(form, size, row + r, k);

#if DOT_TERMS == 1
            float2 f = *(__local const float2 *)from;
            x[r][0] = f.s0, x[r][1] = f.s1;
#else
            float4 f = *(__local const float4 *)from;
            x[r][0] = f.s0, x[r][1] = f.s1, x[r][2] = f.s2, x[r][3] = f.s3;
#endif
        }
    } else {
#pragma unroll
        for (int i = 0; i < TILE_OWN_TERMS; i++) {
            float4 f = *(__local const float4 *)(tile + tile_place(form, size, row, k + i));

            x[0][i] = f.s0, x[1][i] = f.s1, x[2][i] = f.s2, x[3][i] = f.s3;
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        words[2 * r] = TILE_WORD(x[r], 0);
        words[2 * r + 1] = TILE_WORD(x[r], 1);
    }
}

#define TILE_ROUND_TERMS(acc, round)                                                         \
    {                                                                                         \
        _Pragma("unroll") for (int tile_q = 0; tile_q < TK; tile_q += 8 * DOT_TERMS)          \
        {                                                                                     \
            const int tile_own = tile_q + tile_item % 4 * TILE_OWN_TERMS;                     \
            uint tile_vb[IN / 8][8];                                                          \
                                                                                              \
            _Pragma("unroll") for (int tile_j = 0; tile_j < IN / 8; tile_j++)                 \
                tile_words(tile_vb[tile_j], TILE_ROUND_B(round), B_FORM, TN,                  \
                           tile_j * (TN / (IN / 8)) + tile_x / 8 * 32 + tile_item / 4 % 8 * 4,\
                           tile_own);                                                         \
            _Pragma("unroll") for (int tile_i = 0; tile_i < IM / 4; tile_i++)                 \
            {                                                                                 \
                uint tile_va[8];                                                              \
                                                                                              \
                tile_words(tile_va, TILE_ROUND_A(round), A_FORM, TM,                          \
                           tile_i * (TM / (IM / 4)) + tile_y * 4, tile_own);                  \
                uint4 tile_v0 = (uint4)(tile_va[0], tile_va[2], tile_va[1], tile_va[3]);      \
                uint4 tile_v1 = (uint4)(tile_va[4], tile_va[6], tile_va[5], tile_va[7]);      \
                                                                                              \
                _Pragma("unroll") for (int tile_j = 0; tile_j < IN / 8; tile_j++)             \
                {                                                                             \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 0, 0, tile_v0, tile_vb[tile_j][0], tile_vb[tile_j][1]) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 0, 1, tile_v0, tile_vb[tile_j][2], tile_vb[tile_j][3]) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 0, 2, tile_v0, tile_vb[tile_j][4], tile_vb[tile_j][5]) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 0, 3, tile_v0, tile_vb[tile_j][6], tile_vb[tile_j][7]) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 1, 0, tile_v1, tile_vb[tile_j][0], tile_vb[tile_j][1]) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 1, 1, tile_v1, tile_vb[tile_j][2], tile_vb[tile_j][3]) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 1, 2, tile_v1, tile_vb[tile_j][4], tile_vb[tile_j][5]) \
                    TILE_MULTIPLY(acc, tile_i, tile_j, 1, 3, tile_v1, tile_vb[tile_j][6], tile_vb[tile_j][7]) \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
    }
#define TILE_ROUNDS_END(length) (length)
#define TILE_ROUNDS_REST(acc)
#endif

/* Adds `length` terms to acc. The first barrier is for what was multiplied before. */
#define TILE_SUM_AHEAD(acc, length, FETCH)                                                    \
    {                                                                                         \
        const int tile_length = (length);                                                     \
        int tile_round = 0, tile_free = TILE_ROUNDS - 1, tile_k;                              \
                                                                                              \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        _Pragma("unroll") for (tile_k = 0; tile_k < (TILE_ROUNDS - 1) * TK; tile_k += TK)     \
        {                                                                                     \
            if (tile_k < tile_length)                                                         \
                FETCH(tile_k / TK, tile_k)                                                    \
            TILE_COMMIT                                                                       \
        }                                                                                     \
        for (tile_k = 0; tile_k < TILE_ROUNDS_END(tile_length); tile_k += TK) {               \
            const int tile_ahead = tile_k + (TILE_ROUNDS - 1) * TK;                           \
                                                                                              \
            TILE_WAIT                                                                         \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
            if (tile_ahead < tile_length)                                                     \
                FETCH(tile_free, tile_ahead)                                                  \
            TILE_COMMIT                                                                       \
            TILE_ROUND_TERMS(acc, tile_round)                                                 \
            tile_free = tile_round;                                                           \
            tile_round = tile_round + 1 == TILE_ROUNDS ? 0 : tile_round + 1;                  \
        }                                                                                     \
        TILE_ROUNDS_REST(acc)                                                                 \
    }
#endif

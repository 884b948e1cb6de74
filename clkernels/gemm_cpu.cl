/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_cpu.cl - matrix products on CPUs: a group is one work-item, which holds a tile
 * of C in vector registers.
 *
 *     C[z][m][n] = sum over k of A[z][m][k] * B[z][k][n]  (+ bias[n], relu)
 *
 * For gradients, elements of C can be set to 0 where a gate of the same shape is not
 * positive (relu's gradient), the sums of A over k can be a further result (a bias'
 * gradient), and two products can share a launch.
 *
 * Within one group it is Goto's scheme. The block of C is walked in columns of `nc`,
 * in pieces of the inner sum of `kc` (a panel of B, kc x NR, stays in L1), in rows of
 * `mc` (a block of A, mc x kc, stays in L2). A tile is MR rows by NV vectors of W
 * lanes; each step of k loads NV vectors of B and multiplies them by MR numbers of A.
 * An operand is copied ("packed") into the group's scratch memory where its own order
 * would make bad use of caches, or cannot be loaded as vectors. The last rows and
 * columns, which do not fill a tile, are always packed, so nothing is read beyond an
 * operand's end. Groups share nothing, so all is one launch.
 *
 * With -DDOT a step of k is a part of two terms in bfloat16, or one term that is rounded to half
 * (dot.cl). Operands are floats in memory all the same, and become parts when they are packed, which
 * then all are.
 *
 * Every element is one chain of multiply-adds over k from 0, which waits in C between
 * pieces. So its bits do not depend on its position, the tile or the batch.
 *
 * Sums over several axes are left to gemm.cl.
 */
#include "dot.cl"
#ifndef NV
#define NV 2
#endif
#ifndef MR
#define MR 12
#endif
#define NR (NV * W)

#define FLAG_BIAS   1
#define FLAG_RELU   2
#define FLAG_PACK_A 4
#define FLAG_PACK_B 8
#define FLAG_GATE   64
#define FLAG_SUMS   128
/* The kernel sets these: this piece of the sum is the first, or the last. */
#define FLAG_FIRST 16
#define FLAG_LAST  32

#define intw   YKI_PASTE(int, W)
#define loadw  YKI_PASTE(vload, W)
#define storew YKI_PASTE(yki_store, W)

/* Heights of tiles for the last rows of C. */
#if MR == 12
#define MR_MIDDLE 8
#define MR_LOW    4
#elif MR == 8
#define MR_MIDDLE 4
#define MR_LOW    2
#else
#define MR_MIDDLE 4
#define MR_LOW    2
#endif

#define REP2(F)  F(0) F(1)
#define REP4(F)  REP2(F) F(2) F(3)
#define REP6(F)  REP4(F) F(4) F(5)
#define REP8(F)  REP6(F) F(6) F(7)
#define REP12(F) REP8(F) F(8) F(9) F(10) F(11)
#define REP(R)   YKI_PASTE(REP, R)

#if NV == 2
#define ON_VECTORS(F, i) F(i, 0) F(i, 1)
#else
#define ON_VECTORS(F, i) F(i, 0)
#endif

#define LANES      YKI_PASTE(YKI_LANES, W)
#define LANE_LOAD(name, i)                                                                    \
    if (i < count)                                                                            \
        x.s##name = from[i];
#define LANE_STORE(name, i)                                                                   \
    if (i < count)                                                                            \
        to[i] = x.s##name;

/* A vector of which only the first `count` lanes exist in memory. The others are read as 0, and
 * are not stored. */
floatw load_some(__global const float *from, int count)
{
    floatw x = 0.f;

    if (count >= W)
        return loadw(0, from);
    LANES(LANE_LOAD)
    return x;
}

void store_some(floatw x, __global float *to, int count)
{
    if (count >= W) {
        storew(x, 0, to);
        return;
    }
    LANES(LANE_STORE)
}

/* Applies bias, max(x, 0), and the gate (0 where it is not positive) to all lanes. NaN stays
 * NaN. */
floatw finish(floatw x, __global const float *bias, __global const float *gate, int flags)
{
    if (flags & FLAG_BIAS)
        x += loadw(0, bias);
    if (flags & FLAG_RELU)
        x = select(x, (floatw)(0.f), x <= 0.f);
    if (flags & FLAG_GATE)
        x = select(x, (floatw)(0.f), loadw(0, gate) <= 0.f);
    return x;
}

/* A narrow tile, of fewer columns than NR, is computed in the group's scratch memory. What waits in
 * C is copied there before, and the tile back afterwards, in one place for tiles of all heights.
 * Written out in each of them, it would be most of the code to compile. */
void load_narrow(__global float *tile, __global const float *c, int ldc, int rows, int columns)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < NR; j++)
            tile[i * NR + j] = j < columns ? c[(long)i * ldc + j] : 0.f;
}

void store_narrow(__global const float *tile, __global float *c, int ldc, int rows, int columns,
                  __global const float *bias, __global const float *gate, int flags)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            long at = (long)i * ldc + j;
            float x = tile[i * NR + j];

            if ((flags & FLAG_LAST) && (flags & FLAG_BIAS))
                x += bias[j];
            if ((flags & FLAG_LAST) && (flags & FLAG_RELU))
                x = x <= 0.f ? 0.f : x;
            if ((flags & FLAG_LAST) && (flags & FLAG_GATE))
                x = gate[at] <= 0.f ? 0.f : x;
            c[at] = x;
        }
}

#define ACC_ZERO(i, j) floatw c##i##_##j = (floatw)(0.f);
#define ACC_LOAD(i, j) c##i##_##j = loadw(j, c + (long)i * ldc);
#define ACC_DONE(i, j)                                                                        \
    c##i##_##j = finish(c##i##_##j, bias + j * W, gate + (long)i * ldc + j * W, flags);
#define ACC_STORE(i, j) storew(c##i##_##j, j, c + (long)i * ldc);
#define ACC_FMA(i, j)   c##i##_##j = DOT_ADD(x, b##j, c##i##_##j);

#define DECLARE(i) ON_VECTORS(ACC_ZERO, i)
#define LOAD_C(i)                                                                             \
    if (i < rows) {                                                                           \
        ON_VECTORS(ACC_LOAD, i)                                                               \
    }
#define STORE_C(i)                                                                            \
    if (i < rows) {                                                                           \
        if (flags & FLAG_LAST) {                                                              \
            ON_VECTORS(ACC_DONE, i)                                                           \
        }                                                                                     \
        ON_VECTORS(ACC_STORE, i)                                                              \
    }
/* The beginning of a tile of R rows, before its sums. */
#define BEGIN(R)                                                                              \
    REP(R)(DECLARE)                                                                           \
    if (!(flags & FLAG_FIRST)) {                                                              \
        REP(R)(LOAD_C)                                                                        \
    }
#define STEP_COLUMN(i)                                                                        \
    {                                                                                         \
        dot_part x = a[i];                                                                    \
        ON_VECTORS(ACC_FMA, i)                                                                \
    }
#define STEP_ROW(i)                                                                           \
    {                                                                                         \
        dot_part x = a[(long)i * a_step + q];                                                 \
        ON_VECTORS(ACC_FMA, i)                                                                \
    }
#if NV == 2
#define LOAD_B dot_parts b0 = DOT_LOAD(0, b), b1 = DOT_LOAD(1, b);
#define PREFETCH_B                                                                            \
    YKI_PREFETCH(b + b_ahead);                                                                \
    YKI_PREFETCH(b + b_ahead + W);
#else
#define LOAD_B     dot_parts b0 = DOT_LOAD(0, b);
#define PREFETCH_B YKI_PREFETCH(b + b_ahead);
#endif

/* Goes over the ks parts of a sum; a_ahead and b_ahead are the distances to what is asked for. Where
 * parts are far apart, nothing beyond the last is asked for: that may be in a page which does not
 * exist, and on some processors looking for such pages took ten times as long as the products. */
#define FOR_PARTS(q, step)                                                                    \
    int lead = (step) > 2 * NR ? YKI_AHEAD : 0;                                               \
                                                                                              \
    for (int q = 0, end = max(ks - lead, 0); q < ks; end = ks, b_ahead = 0, a_ahead = 0)      \
        for (; q < end; q++)

/* A tile of R rows: C (the first `rows` of it) = or += A B over `ks` parts. column: the R parts
 * of a step are adjacent, and steps are a_step apart (packed, or A stored transposed). row: A is
 * row-major with rows a_step apart. */
#define TILE(R)                                                                               \
    void tile_column_##R(__global const dot_part *a, long a_step, __global const dot_part *b, \
                         long b_step, int ks, __global float *c, int ldc, int rows,           \
                         __global const float *bias, __global const float *gate, int flags)   \
    {                                                                                         \
        long b_ahead = YKI_AHEAD * b_step, a_ahead = YKI_AHEAD * a_step;                      \
                                                                                              \
        BEGIN(R)                                                                              \
        FOR_PARTS(q, max(a_step, b_step))                                                     \
        {                                                                                     \
            LOAD_B                                                                            \
            PREFETCH_B                                                                        \
            YKI_PREFETCH(a + a_ahead);                                                        \
            REP(R)(STEP_COLUMN)                                                               \
            a += a_step;                                                                      \
            b += b_step;                                                                      \
        }                                                                                     \
        REP(R)(STORE_C)                                                                       \
    }
#define TILE_ROW(R)                                                                           \
    void tile_row_##R(__global const dot_part *a, long a_step, __global const dot_part *b,    \
                      long b_step, int ks, __global float *c, int ldc, int rows,              \
                      __global const float *bias, __global const float *gate, int flags)      \
    {                                                                                         \
        long b_ahead = YKI_AHEAD * b_step, a_ahead = 0;                                       \
                                                                                              \
        BEGIN(R)                                                                              \
        FOR_PARTS(q, b_step)                                                                  \
        {                                                                                     \
            LOAD_B                                                                            \
            PREFETCH_B                                                                        \
            REP(R)(STEP_ROW)                                                                  \
            b += b_step;                                                                      \
        }                                                                                     \
        REP(R)(STORE_C)                                                                       \
    }
/* These macros expand MR before it is pasted. */
#define MAKE_TILE(R)     TILE(R)
#define MAKE_TILE_ROW(R) TILE_ROW(R)
MAKE_TILE(MR)
MAKE_TILE(MR_MIDDLE)
MAKE_TILE(MR_LOW)
#if DOT == DOT_FMA
MAKE_TILE_ROW(MR)
#endif

/* transpose_block: to[q][j] = from[j][q] for W x W elements; rows of `from` beyond `rows` count
 * as 0. It zips vector i with vector i + W / 2 (x0 y0 x1 y1 ... of the first halves, then of the
 * second). Doing that log2(W) times transposes. */
#if defined(YKI_LANES_APART) && W > 4
/* For simulators that cannot run a shuffle (docs/drivers.md): the same through memory. */
floatw zip(floatw x, floatw y, int first)
{
    float a[W], b[W], zipped[W];

    storew(x, 0, a);
    storew(y, 0, b);
    for (int i = 0; i < W / 2; i++) {
        zipped[2 * i] = a[first + i];
        zipped[2 * i + 1] = b[first + i];
    }
    return loadw(0, zipped);
}
#define ZIP_LOW(x, y)  zip(x, y, 0)
#define ZIP_HIGH(x, y) zip(x, y, W / 2)
#elif W == 16
#define ZIP_LOW(x, y)                                                                         \
    (floatw)(x.s0, y.s0, x.s1, y.s1, x.s2, y.s2, x.s3, y.s3, x.s4, y.s4, x.s5, y.s5, x.s6,    \
             y.s6, x.s7, y.s7)
#define ZIP_HIGH(x, y)                                                                        \
    (floatw)(x.s8, y.s8, x.s9, y.s9, x.sa, y.sa, x.sb, y.sb, x.sc, y.sc, x.sd, y.sd, x.se,    \
             y.se, x.sf, y.sf)
#elif W == 8
#define ZIP_LOW(x, y)  (floatw)(x.s0, y.s0, x.s1, y.s1, x.s2, y.s2, x.s3, y.s3)
#define ZIP_HIGH(x, y) (floatw)(x.s4, y.s4, x.s5, y.s5, x.s6, y.s6, x.s7, y.s7)
#endif

#if W == 16
/* Two sets of 16 vectors are more than the registers. As arrays they spill to the stack in
 * order, which measured faster than named variables. */
void transpose_block(__global const float *from, long from_step, int rows, __global float *to,
                     int to_step)
{
    floatw v[W], t[W];

#pragma unroll
    for (int j = 0; j < W; j++)
        v[j] = j < rows ? loadw(0, from + j * from_step) : (floatw)(0.f);
#pragma unroll
    for (int stage = 0; stage < 4; stage++) {
#pragma unroll
        for (int j = 0; j < W / 2; j++) {
            t[2 * j] = ZIP_LOW(v[j], v[j + W / 2]);
            t[2 * j + 1] = ZIP_HIGH(v[j], v[j + W / 2]);
        }
#pragma unroll
        for (int j = 0; j < W; j++)
            v[j] = t[j];
    }
#pragma unroll
    for (int j = 0; j < W; j++)
        storew(v[j], 0, to + j * to_step);
}
#elif W == 8
#define STAGE(x, y)                                                                           \
    y##0 = ZIP_LOW(x##0, x##4); y##1 = ZIP_HIGH(x##0, x##4);                                  \
    y##2 = ZIP_LOW(x##1, x##5); y##3 = ZIP_HIGH(x##1, x##5);                                  \
    y##4 = ZIP_LOW(x##2, x##6); y##5 = ZIP_HIGH(x##2, x##6);                                  \
    y##6 = ZIP_LOW(x##3, x##7); y##7 = ZIP_HIGH(x##3, x##7);
#define LOAD_ROW(i)  floatw p##i = i < rows ? loadw(0, from + i * from_step) : (floatw)(0.f), q##i;
#define STORE_ROW(i) storew(q##i, 0, to + i * to_step);

void transpose_block(__global const float *from, long from_step, int rows, __global float *to,
                     int to_step)
{
    REP8(LOAD_ROW)
    STAGE(p, q)
    STAGE(q, p)
    STAGE(p, q)
    REP8(STORE_ROW)
}
#else
/* Number by number: with vectors of 4 there is little to gain. */
void transpose_block(__global const float *from, long from_step, int rows, __global float *to,
                     int to_step)
{
    for (int q = 0; q < W; q++)
        for (int j = 0; j < W; j++)
            to[q * to_step + j] = j < rows ? from[j * from_step + q] : 0.f;
}
#endif

#define LEAST(a, b) ((a) < (b) ? (a) : (b))

/* The same for a block with fewer rows, out of line to keep the common case short. */
void transpose_some(__global const float *from, long from_step, int rows, __global float *to,
                    int to_step)
{
    transpose_block(from, from_step, rows, to, to_step);
}

#if DOT_TERMS == 1
#if DOT == DOT_FMA
#define ROUND_PACKED(x, count)
#else
#define ROUND_PACKED round_packed
void round_packed(__global float *x, int count)
{
    int i = 0;

    for (; i + W <= count; i += W)
        storew(YKI_PASTE(dot_f16_, W)(loadw(0, x + i)), 0, x + i);
    for (; i < count; i++)
        x[i] = dot_f16_1(x[i]);
}
#endif
/* pack_a, pack_b: to[q][i] = X[i][q] for q < ks, with WIDTH values of i in a row. `used` of them
 * exist; the others are 0. X has strides x_i and x_q. With x_q 1 and a WIDTH that is no multiple
 * of W, up to W - 1 elements beyond the last row are overwritten. `turned` is not used. */
#define PACK(name, WIDTH)                                                                     \
    void name(__global const float *x, long x_i, long x_q, int used, int ks,                  \
              __global float *to, __global float *turned)                                     \
    {                                                                                         \
        int done = 0;                                                                         \
                                                                                              \
        if (x_i == 1 && used == WIDTH) {                                                      \
            for (; done < ks; done++)                                                         \
                copy_##name(x + done * x_q, to + done * WIDTH);                               \
            ROUND_PACKED(to, ks *WIDTH);                                                      \
            return;                                                                           \
        }                                                                                     \
        if (x_q == 1)                                                                         \
            for (; done + W <= ks; done += W)                                                 \
                for (int i = 0; i < WIDTH; i += W) {                                          \
                    if (used - i >= LEAST(W, WIDTH - i))                                      \
                        transpose_block(x + i * x_i + done, x_i, LEAST(W, WIDTH - i),         \
                                        to + done * WIDTH + i, WIDTH);                        \
                    else                                                                      \
                        transpose_some(x + i * x_i + done, x_i, used - i,                     \
                                       to + done * WIDTH + i, WIDTH);                         \
                }                                                                             \
        for (int q = done; q < ks; q++)                                                       \
            for (int i = 0; i < WIDTH; i++)                                                   \
                to[q * WIDTH + i] = i < used ? x[i * x_i + q * x_q] : 0.f;                    \
        ROUND_PACKED(to, ks *WIDTH);                                                          \
    }
/* A row of the packed form, where it can be copied: MR numbers, or NR. */
void copy_pack_a(__global const float *from, __global float *to)
{
    for (int i = 0; i + 4 <= MR; i += 4)
        vstore4(vload4(0, from + i), 0, to + i);
    for (int i = MR / 4 * 4; i < MR; i++)
        to[i] = from[i];
}

void copy_pack_b(__global const float *from, __global float *to)
{
    for (int j = 0; j < NV; j++)
        storew(loadw(j, from), j, to);
}

#else
/* The same with parts: to[q][i] = X[i][2 q] and X[i][2 q + 1], of which the second is 0 beyond the
 * end. Where terms are adjacent, a block's rows are first turned to parts, in `turned`, which has
 * W * W floats; then the block is transposed. */
void turn_rows(__global const float *x, long x_i, int rows, __global float *turned)
{
    for (int i = 0; i < rows; i++) {
        floatw low = loadw(0, x + i * x_i), high = loadw(1, x + i * x_i);

        YKI_PREFETCH(x + i * x_i + 4 * W); /* two blocks ahead */
        YKI_PREFETCH(x + i * x_i + 5 * W);
        storew(YKI_PASTE(as_, floatw)(DOT_IN_ORDER(low, high)), i, turned);
    }
}

#define PACK(name, WIDTH)                                                                     \
    void name(__global const float *x, long x_i, long x_q, int used, int ks,                  \
              __global dot_part *to, __global float *turned)                                  \
    {                                                                                         \
        int done = 0, parts = (ks + 1) / 2;                                                   \
                                                                                              \
        if (x_i == 1 && used == WIDTH)                                                        \
            for (; done < ks / 2; done++)                                                     \
                copy_##name(x + 2 * done * x_q, x_q,                                          \
                            2 * done + YKI_AHEAD < ks ? YKI_AHEAD * x_q : 0,                  \
                            to + done * WIDTH);                                               \
        else if (x_q == 1)                                                                    \
            for (; done + W <= ks / 2; done += W)                                             \
                for (int i = 0; i < WIDTH; i += W) {                                          \
                    int rows = LEAST(W, used - i);                                            \
                                                                                              \
                    turn_rows(x + i * x_i + 2 * done, x_i, rows, turned);                     \
                    transpose_some(turned, W, rows, (__global float *)to + done * WIDTH + i,  \
                                   WIDTH);                                                    \
                }                                                                             \
        for (int q = done; q < parts; q++)                                                    \
            for (int i = 0; i < WIDTH; i++) {                                                 \
                __global const float *at = x + i * x_i + 2 * q * x_q;                         \
                                                                                              \
                to[q * WIDTH + i] =                                                           \
                    i < used ? DOT_PAIR(1, at[0], 2 * q + 1 < ks ? at[x_q] : 0.f) : 0u;       \
            }                                                                                 \
    }

/* A row of the packed form from two rows of X, which are `step` apart. What lies `ahead` will be
 * wanted. */
void copy_pack_a(__global const float *first, long step, long ahead, __global dot_part *to)
{
    __global const float *second = first + step;

    for (int i = 0; i + 4 <= MR; i += 4)
        vstore4(DOT_PAIR(4, vload4(0, first + i), vload4(0, second + i)), 0, to + i);
    for (int i = MR / 4 * 4; i < MR; i++)
        to[i] = DOT_PAIR(1, first[i], second[i]);
}

/* The rows of a wide matrix are in other pages, so nothing else fetches them ahead. */
void copy_pack_b(__global const float *first, long step, long ahead, __global dot_part *to)
{
    __global const float *second = first + step;

    for (int j = 0; j < NV; j++) {
        YKI_PREFETCH(first + ahead + j * W);
        YKI_PREFETCH(second + ahead + j * W);
        storew(YKI_PASTE(as_, floatw)(DOT_PAIRS(loadw(j, first), loadw(j, second))), j,
               (__global float *)to);
    }
}
#endif

PACK(pack_a, MR)
PACK(pack_b, NR)

#define AXIS_PARAMS(i) int e##i, int a##i, int b##i
#define AXIS_SIZE(i) zs *= i < outer ? e##i : 1;
/* Takes axis i off the running index: the position along it is `index % size`. */
#define AXIS_STEP(i)                                                                          \
    if (i < outer) {                                                                          \
        int next_ = index / e##i, at_ = index - next_ * e##i;                                 \
                                                                                              \
        index = next_;                                                                        \
        a_z += (long)at_ * a##i;                                                              \
        b_z += (long)at_ * b##i;                                                              \
    }

/* sums[i] = sum over q of A[i][q] in the order of q, for rows begin .. end. */
void sum_rows(__global const float *A, __global float *sums, int a_m, int a_k, int k, int begin,
              int end)
{
    if (a_m != 1) {
        for (int i = begin; i < end; i++) {
            float sum = 0.f;

            for (int q = 0; q < k; q++)
                sum += A[(long)i * a_m + (long)q * a_k];
            sums[i] = sum;
        }
        return;
    }
    for (int i = begin; i < end; i += W) {
        floatw sum = 0.f;

        for (int q = 0; q < k; q++)
            sum += load_some(A + i + (long)q * a_k, end - i);
        store_some(sum, sums + i, end - i);
    }
}

#if DOT_TERMS == 1
#define TURNED      0
#define IN_PLACE(x) (x)
#else
#define TURNED      (W * W)
#define IN_PLACE(x) ((__global const dot_part *)(x)) /* never read */
#endif

/* The piece of one product that group (gx, gy) of nx by ny computes; `packed` is the group's own
 * scratch memory. kc, mc, nc: steps of the inner sum, of rows (a multiple of MR) and of columns
 * (of NR). */
void product(__global const float *A, __global const float *B, __global float *C,
             __global const float *bias, __global const float *gate, __global float *sums,
             __global float *packed, int kc, int mc, int nc, int m, int n, int k, int a_m, int a_k,
             int b_k, int b_n, int flags, int gx, int gy, int nx, int ny)
{
    int tiles = (m + MR - 1) / MR, panels = (n + NR - 1) / NR;
    int row_begin = (int)((long)tiles * gy / ny) * MR;
    int row_end = min((int)((long)tiles * (gy + 1) / ny) * MR, m);
    int col_begin = (int)((long)panels * gx / nx) * NR;
    int col_end = min((int)((long)panels * (gx + 1) / nx) * NR, n);
    /* What is rounded exists only in packed form. */
    bool all_a = DOT != DOT_FMA || flags & FLAG_PACK_A;
    bool all_b = DOT != DOT_FMA || flags & FLAG_PACK_B;
    int kp = kc / DOT_TERMS;
    __global float *narrow = packed, *turned = packed + MR * NR;
    __global dot_part *packed_a = (__global dot_part *)(turned + TURNED);
    __global dot_part *packed_b = packed_a + (all_a ? mc : MR) * kp + W;

    if ((flags & FLAG_SUMS) && gx == 0)
        sum_rows(A, sums, a_m, a_k, k, row_begin, row_end);
    for (int nb = col_begin; nb < col_end; nb += nc)
        for (int kb = 0; kb < k || kb == 0; kb += kc) {
            int ks = min(kc, k - kb), parts = (ks + DOT_TERMS - 1) / DOT_TERMS;
            int now = (flags & (FLAG_BIAS | FLAG_RELU | FLAG_GATE)) | (kb == 0 ? FLAG_FIRST : 0) |
                      (kb + kc >= k ? FLAG_LAST : 0);
            __global const float *a_k0 = A + (long)kb * a_k;
            __global const float *b_k0 = B + (long)kb * b_k;

            for (int mb = row_begin; mb < row_end; mb += mc) {
                int me = min(mb + mc, row_end);

                for (int i = mb; i < me; i += MR)
                    if (all_a || i + MR > m)
                        pack_a(a_k0 + (long)i * a_m, a_m, a_k, min(MR, m - i), ks,
                               packed_a + (all_a ? (i - mb) * kp : 0), turned);
                for (int j = nb; j < min(nb + nc, col_end); j += NR) {
                    int columns = min(NR, n - j);
                    bool own_b = !all_b && columns == NR;
                    __global dot_part *to = packed_b + (all_b ? (j - nb) * kp : 0);
                    __global const dot_part *b = own_b ? IN_PLACE(b_k0 + j) : to;
                    long b_step = own_b ? b_k : NR;

                    if (!own_b && mb == row_begin)
                        pack_b(b_k0 + (long)j * b_n, b_n, b_k, columns, ks, to, turned);
                    for (int i = mb; i < me; i += MR) {
                        int rows = min(MR, m - i);
                        long at = (long)i * n + j;
                        __global const dot_part *own = IN_PLACE(a_k0 + (long)i * a_m);
                        __global const dot_part *a = packed_a + (all_a ? (i - mb) * kp : 0);
                        bool in_place = rows == MR && !all_a;
                        long a_step = in_place ? a_k : MR;
                        __global float *c = columns == NR ? C + at : narrow;
                        int ldc = columns == NR ? n : NR;
                        int then = columns == NR ? now : now & ~FLAG_LAST;

                        if (columns < NR && kb > 0)
                            load_narrow(narrow, C + at, n, rows, columns);
                        /* Each function is called in one place only, because all are inlined. */
#if DOT == DOT_FMA
                        if (in_place && a_m != 1)
                            YKI_PASTE(tile_row_, MR)
                            (own, a_m, b, b_step, ks, c, ldc, MR, bias + j, gate + at, then);
                        else
#endif
                            if (rows > MR_MIDDLE)
                            YKI_PASTE(tile_column_, MR)
                            (in_place ? own : a, a_step, b, b_step, parts, c, ldc, rows, bias + j,
                             gate + at, then);
                        else if (rows > MR_LOW)
                            YKI_PASTE(tile_column_, MR_MIDDLE)
                            (a, MR, b, b_step, parts, c, ldc, rows, bias + j, gate + at, then);
                        else
                            YKI_PASTE(tile_column_, MR_LOW)
                            (a, MR, b, b_step, parts, c, ldc, rows, bias + j, gate + at, then);
                        if (columns < NR)
                            store_narrow(narrow, C + at, n, rows, columns, bias + j, gate + at,
                                         now);
                    }
                }
            }
        }
}

/* `sums` are possible only for a product without outer axes. */
__kernel YKI_GROUP(1, 1) void
yki_gemm_cpu(__global const float *A, __global const float *B, __global float *C,
             __global const float *bias, __global const float *gate, __global float *sums,
             __global float *scratch, int scratch_size, int kc, int mc, int nc, int m, int n, int k,
             int a_m, int a_k, int b_k, int b_n, int flags, int outer, int sum, AXIS_PARAMS(0),
             AXIS_PARAMS(1), AXIS_PARAMS(2), AXIS_PARAMS(3), AXIS_PARAMS(4), AXIS_PARAMS(5))
{
    int gx = (int)get_group_id(0), gy = (int)get_group_id(1), gz = (int)get_group_id(2);
    int nx = (int)get_num_groups(0), ny = (int)get_num_groups(1), nz = (int)get_num_groups(2);
    int zs = 1;
    __global float *packed = scratch + (long)((gz * ny + gy) * nx + gx) * scratch_size;

    AXIS_SIZE(0) AXIS_SIZE(1) AXIS_SIZE(2) AXIS_SIZE(3) AXIS_SIZE(4) AXIS_SIZE(5)
    for (int z = gz; z < zs; z += nz) {
        long a_z = 0, b_z = 0, c_z = (long)z * m * n;
        int index = z;

        AXIS_STEP(5) AXIS_STEP(4) AXIS_STEP(3) AXIS_STEP(2) AXIS_STEP(1) AXIS_STEP(0)
        product(A + a_z, B + b_z, C + c_z, bias, gate + c_z, sums, packed, kc, mc, nc, m, n, k,
                a_m, a_k, b_k, b_n, flags, gx, gy, nx, ny);
    }
}

#define PRODUCT_PARAMS(p)                                                                     \
    __global const float *A##p, __global const float *B##p, __global float *C##p,             \
        __global const float *gate##p, __global float *sums##p, int kc##p, int mc##p,         \
        int nc##p, int m##p, int n##p, int k##p, int a_m##p, int a_k##p, int b_k##p,          \
        int b_n##p, int flags##p, int nx##p, int ny##p
#define EITHER(x) (second ? x##1 : x##0)

/* Two products that do not depend on one another: the first nx0 * ny0 groups compute the first,
 * the others the second. There is one call for both, so that it is compiled once. */
__kernel YKI_GROUP(1, 1) void
yki_gemm_cpu_pair(PRODUCT_PARAMS(0), PRODUCT_PARAMS(1), __global float *scratch, int scratch_size)
{
    int group = (int)get_group_id(0);
    bool second = group >= nx0 * ny0;
    int at = second ? group - nx0 * ny0 : group, nx = EITHER(nx);
    int row = at / nx; /* not at % nx beside it: LLVM would make a freeze, which Oclgrind lacks */

    product(EITHER(A), EITHER(B), EITHER(C), EITHER(A), EITHER(gate), EITHER(sums),
            scratch + (long)group * scratch_size, EITHER(kc), EITHER(mc), EITHER(nc), EITHER(m),
            EITHER(n), EITHER(k), EITHER(a_m), EITHER(a_k), EITHER(b_k), EITHER(b_n),
            EITHER(flags), at - row * nx, row, nx, EITHER(ny));
}
DOT_END

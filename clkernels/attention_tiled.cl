/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_tiled.cl - attention and its gradient on GPUs (see attention.cl), for heads of a
 * multiple of 16 columns: products are tiles in local memory (tile.cl).
 *
 * A group of forward has TM queries of a head. For each block of BK keys the scores are
 * a tile in registers; the items join the greatest of each row, and keep sums of their
 * own until the end. The weights go to local memory, transposed, and are the operand of
 * the second product, whose result stays in registers too.
 *
 * Backward computes scores and weights again. One kernel has TM keys, and walks through the
 * queries that see them: dk, dv. Another has TM queries, and walks through the keys: dq. So
 * nothing is added by two groups, and each sum has its order.
 *
 * The order of sums depends on no tile but BK. Sums of weights are of four adjacent keys
 * first, over the blocks, then of the 16 of a block. Blocks of keys that no query of
 * the group sees are skipped.
 */
#ifndef D
#define D 64
#endif
#ifndef TM
#define TM 64
#endif
#ifndef IM
#define IM 4
#endif
#ifndef IN
#define IN 8
#endif
/* The kernel that the program has; all of them would need more local memory than simulators have. */
#ifndef PART
#define PART ALL
#endif
#define ALL     0
#define FORWARD 1
#define DOTS    2
#define KEYS    3
#define QUERIES 4
#define HAS(part) (PART == ALL || PART == part)

#define BK 64 /* part of the result: the same on all devices */
#define TN BK

#define WG 2 /* more than one */
#define VEC 4
#include "vectors.cl"
#include "exact.cl"
#include "exp2.cl"
#include "math.cl"
#include "tile.cl"
#include "attention_drop.cl"

#define KERNEL __kernel YKI_GROUP(TILE_ITEMS, 1) void
#define INLINE static __attribute__((always_inline))
#define PIECES ((D + TN - 1) / TN) /* pieces of a head, as wide as a tile; the last may be less */
#define WIDE(piece) (D - (piece)*TN < TN ? D - (piece)*TN : TN)
#define UNROLL _Pragma("unroll")

/* The weights, as an operand of a product: of term k, a row's. */
#define WEIGHTS(half, k) (weights + (k)*TILE_A_STEP + tile_y * 4)

/* e^x for x <= 0. NaN stays NaN. */
INLINE float4
yki_exp(float4 x)
{
    return select(exp2_down(x * 1.44269504f), x, isnan(x));
}

/* Writes the item's elements of a tile to local memory, transposed. */
#define PUT(acc)                                                                              \
    UNROLL for (int i = 0; i < IM; i += 4)                                                    \
        UNROLL for (int j = 0; j < IN / 4; j++)                                               \
    {                                                                                         \
        __local float *to_ = weights + TILE_COLUMN(j) * TILE_A_STEP + TILE_ROW(i);            \
                                                                                              \
        PUT_COLUMN(acc, 0)                                                                    \
        PUT_COLUMN(acc, 1)                                                                    \
        PUT_COLUMN(acc, 2)                                                                    \
        PUT_COLUMN(acc, 3)                                                                    \
    }
#ifdef YKI_LANES_APART
#define PUT_COLUMN(acc, c)                                                                    \
    for (int lane_ = 0; lane_ < 4; lane_++)                                                   \
        to_[c * TILE_A_STEP + lane_] = ((const float *)&acc[TILE_ACC(i + lane_, j)])[c];
#else
#define PUT_COLUMN(acc, c)                                                                    \
    *(__local float4 *)(to_ + c * TILE_A_STEP) =                                              \
        (float4)(acc[TILE_ACC(i, j)].s##c, acc[TILE_ACC(i + 1, j)].s##c,                      \
                 acc[TILE_ACC(i + 2, j)].s##c, acc[TILE_ACC(i + 3, j)].s##c);
#endif

/* Operands of the first products: rows of D numbers. `a` has TM rows, `b` has TN. */
#define LOAD_ROWS(at)                                                                         \
    tile_load(ra, a, TILE_BY_K4, TM, tile_item, a_rows, D, a_stride, 1, at);                  \
    tile_load(rb, b, TILE_BY_K4, TN, tile_item, b_rows, D, b_stride, 1, at);
#define STORE_ROWS(half)                                                                      \
    tile_store(&TILE_A(half, 0, 0), TILE_A_STEP, ra, TILE_BY_K4, TM, tile_item);              \
    tile_store(&TILE_B(half, 0, 0), TILE_B_STEP, rb, TILE_BY_K4, TN, tile_item);
/* Those of the second: a row of b is a term. */
#define LOAD_TERMS(at)                                                                        \
    tile_load(rb, b + piece * TN, TILE_BY_ROW4, TN, tile_item, WIDE(piece), b_rows, 1, b_stride, at);
#define STORE_TERMS(half)                                                                     \
    tile_store(&TILE_B(half, 0, 0), TILE_B_STEP, rb, TILE_BY_ROW4, TN, tile_item);

/* acc = A B^T for a (a_rows there, the first is a0), b. */
#define PRODUCT(acc, a0, a_there, a_step, b0, b_there, b_step)                                \
    {                                                                                         \
        __global const float *a = a0, *b = b0;                                                \
        const int a_rows = a_there, a_stride = a_step, b_rows = b_there, b_stride = b_step;   \
                                                                                              \
        TILE_ZERO(acc)                                                                        \
        TILE_SUM_WHOLE(acc, TILE_IN_TILE, D, LOAD_ROWS, STORE_ROWS)                           \
    }
/* acc += (what PUT wrote) B. */
#define ADD_PRODUCT(acc, b0, b_there, b_step)                                                 \
    {                                                                                         \
        __global const float *b = b0;                                                         \
        const int b_rows = b_there, b_stride = b_step;                                        \
                                                                                              \
        UNROLL for (int piece = 0; piece < PIECES; piece++)                                   \
            TILE_SUM_WHOLE(acc[piece], WEIGHTS, BK, LOAD_TERMS, STORE_TERMS)                  \
    }
#define ZERO(acc)                                                                             \
    UNROLL for (int piece = 0; piece < PIECES; piece++)                                       \
        TILE_ZERO(acc[piece])

/* Writes the group's rows of D numbers, of which the first `there` count, the others up to `end` are
 * 0. EACH(i): what a row is divided by. An item's quads of a row lie TN / (IN / 4) columns apart: of a
 * narrow piece compilers drop those that no item writes, with their multiply-adds. So a piece of at
 * most 32 columns costs half of a whole one where IN is 8; any other costs as much. */
#define WRITE(acc, to0, stride, there, end, EACH)                                             \
    UNROLL for (int i = 0; i < IM; i++)                                                       \
        if (TILE_ROW(i) < (end))                                                              \
            UNROLL for (int piece = 0; piece < PIECES; piece++)                               \
                UNROLL for (int j = 0; j < IN / 4; j++)                                       \
                    if (j * (TN / (IN / 4)) < WIDE(piece) && TILE_COLUMN(j) < WIDE(piece))    \
                        *(__global float4 *)((to0) + (long)TILE_ROW(i) * (stride) + piece * TN +  \
                                         TILE_COLUMN(j)) =                                    \
                        TILE_ROW(i) < (there) ? EACH(i, acc[piece][TILE_ACC(i, j)])           \
                                              : (float4)(0.f);
#define AS_IS(i, x)    x
#define OVER_SUM(i, x) QUOTIENT(float4, x, sum[i])

/* The weights of queries in rows (`down` = 0) or in columns: 0 where a query does not see a key, which
 * is behind it or beyond the sample's length. */
#define COLUMNS(j) (TILE_COLUMN(j) + (int4)(0, 1, 2, 3))

#ifdef DROP
/* Which of the weights stay: of a query in a row, and, as a new tile, where rows are keys. */
#define DROP_QUERY(i, j) yki_drop_row(&drop, q0 + TILE_ROW(i), k0 + TILE_COLUMN(j))
#define DROP_KEYS(to, from)                                                                   \
    UNROLL for (int i = 0; i < IM; i += 4)                                                    \
        UNROLL for (int j = 0; j < IN / 4; j++)                                               \
    {                                                                                         \
        float4 factors[4];                                                                    \
                                                                                              \
        yki_drop_keys(factors, &drop, as_uint4(q0 + COLUMNS(j)), k0 + TILE_ROW(i));           \
        UNROLL for (int r = 0; r < 4; r++)                                                    \
            to[TILE_ACC(i + r, j)] = from[TILE_ACC(i + r, j)] * factors[r];                   \
    }
#define DROPPED acc
#else
#define DROP_KEYS(to, from)
#define DROPPED p
#endif

#if HAS(FORWARD)
/* y (T, heads D) and lse (heads, T). lengths: of each sample, if has_lengths. */
KERNEL
yki_attention_tiled(__global const float *x, __global const int *lengths, __global float *y,
                    __global float *lse, int samples, int length, int heads, int shared,
                    int causal, int has_lengths, float scale DROP_ARGS)
{
    TILE_START
    __local float weights[BK * TILE_A_STEP] __attribute__((aligned(16)));
    int width = (heads + 2 * shared) * D, blocks = (length + TM - 1) / TM;

    for (int unit = (int)get_group_id(0); unit < samples * heads * blocks;
         unit += (int)get_num_groups(0)) {
        int row = unit / heads, h = unit - row * heads, block = row / samples;
        int n = row - block * samples;
        int g = h / (heads / shared), q0 = (blocks - 1 - block) * TM; /* the longest first */
        int used = has_lengths ? clamp(lengths[n], 0, length) : length;
        int limit = q0 >= used ? 0 : causal ? min(q0 + TM, used) : used;
        __global const float *from = x + (long)n * length * width;
        __global const float *keys = from + (heads + g) * D, *values = keys + shared * D;
        float4 acc[TILE_ACCS], out[PIECES][TILE_ACCS];
        float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)], top[IM], sum[IM], part[IM][IN / 4];
        DROP_START(n, h)

        ZERO(out)
        UNROLL for (int i = 0; i < IM; i++)
        {
            top[i] = -INFINITY;
            UNROLL for (int j = 0; j < IN / 4; j++) part[i][j] = 0.f;
        }
        for (int k0 = 0; k0 < limit; k0 += BK) {
            PRODUCT(acc, from + (long)q0 * width + h * D, used - q0, width,
                    keys + (long)k0 * width, used - k0, width)
            UNROLL for (int i = 0; i < IM; i++)
            {
                float most = -INFINITY;

                UNROLL for (int j = 0; j < IN / 4; j++)
                {
                    int end = causal ? min(q0 + TILE_ROW(i) + 1, used) : used;
                    float4 s = select(acc[TILE_ACC(i, j)], (float4)(-INFINITY),
                                      k0 + COLUMNS(j) >= end);

                    acc[TILE_ACC(i, j)] = s;
                    most = fmax(most, fmax(fmax(s.s0, s.s1), fmax(s.s2, s.s3)));
                }
                weights[tile_x * TILE_A_STEP + TILE_ROW(i)] = most;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            UNROLL for (int i = 0; i < IM; i++)
            {
                float before = top[i], most = -INFINITY, factor;

                UNROLL for (int other = 0; other < TN / IN; other++) most =
                    fmax(most, weights[other * TILE_A_STEP + TILE_ROW(i)]);
                top[i] = fmax(before, most * scale);
                factor = yki_exp((float4)(before - top[i])).s0;
                UNROLL for (int j = 0; j < IN / 4; j++)
                {
                    float4 p = yki_exp(
                        YKI_FMA(acc[TILE_ACC(i, j)], (float4)(scale), (float4)(-top[i])));

                    acc[TILE_ACC(i, j)] = p IF_DROP(*DROP_QUERY(i, j));
                    part[i][j] = YKI_FMA(part[i][j], factor, yki_sum_few_lanes(p));
                    UNROLL for (int piece = 0; piece < PIECES; piece++)
                        out[piece][TILE_ACC(i, j)] *= factor;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            PUT(acc)
            ADD_PRODUCT(out, values + (long)k0 * width, used - k0, width)
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL for (int i = 0; i < IM; i++)
            UNROLL for (int j = 0; j < IN / 4; j++)
                weights[TILE_COLUMN(j) / 4 * TILE_A_STEP + TILE_ROW(i)] = part[i][j];
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL for (int i = 0; i < IM; i++)
        {
            sum[i] = weights[TILE_ROW(i)];
            UNROLL for (int j = 1; j < TN / 4; j++) sum[i] += weights[j * TILE_A_STEP + TILE_ROW(i)];
            if (tile_x == 0 && q0 + TILE_ROW(i) < length)
                lse[((long)n * heads + h) * length + q0 + TILE_ROW(i)] =
                    q0 + TILE_ROW(i) < used ? top[i] + YKI_LOG(float, sum[i]) : 0.f;
        }
        WRITE(out, y + (((long)n * length + q0) * heads + h) * D, heads * D, used - q0,
              length - q0, OVER_SUM)
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif

#if HAS(DOTS)
/* dots (heads, T) of each sample: the sum of dy y over a head. 16 items have a query. */
KERNEL
yki_attention_dots(__global const float *y, __global const float *dy, __global float *dots,
                   int samples, int length, int heads)
{
    __local float lanes[TILE_ITEMS];
    int item = (int)get_local_id(0), lane = item & 15;
    int units = samples * length * heads, step = (int)get_num_groups(0) * (TILE_ITEMS / 16);

    for (int first = (int)get_group_id(0) * (TILE_ITEMS / 16); first < units; first += step) {
        int unit = first + (item >> 4);
        float4 sum = (float4)(0.f);

        if (unit < units)
            for (int d = lane * 4; d < D; d += 64)
                sum = YKI_FMA(*(__global const float4 *)(dy + (long)unit * D + d),
                              *(__global const float4 *)(y + (long)unit * D + d), sum);
        lanes[item] = yki_sum_few_lanes(sum);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int other = 8; other > 0; other /= 2) {
            if (lane < other)
                lanes[item] += lanes[item + other];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (lane == 0 && unit < units) {
            int row = unit / heads, h = unit - row * heads, n = row / length, t = row - n * length;

            dots[((long)n * heads + h) * length + t] = lanes[item];
        }
    }
}
#endif

#if HAS(KEYS)
/* The part of dx by keys and values. */
KERNEL
yki_attention_tiled_grad_keys(__global const float *x, __global const float *dy,
                              __global const float *lse, __global const float *dots,
                              __global const int *lengths, __global float *dx, int samples,
                              int length, int heads, int shared, int causal, int has_lengths,
                              float scale DROP_ARGS)
{
    TILE_START
    __local float weights[BK * TILE_A_STEP] __attribute__((aligned(16)));
    __local float logs[TN] __attribute__((aligned(16))), means[TN] __attribute__((aligned(16)));
    int width = (heads + 2 * shared) * D, blocks = (length + TM - 1) / TM;

    for (int unit = (int)get_group_id(0); unit < samples * shared * blocks;
         unit += (int)get_num_groups(0)) {
        int row = unit / shared, g = unit - row * shared, block = row / samples;
        int n = row - block * samples;
        int k0 = block * TM, ratio = heads / shared;
        int used = has_lengths ? clamp(lengths[n], 0, length) : length;
        int end = k0 < used ? used : 0;
        __global const float *from = x + (long)n * length * width;
        __global const float *keys = from + (heads + g) * D + (long)k0 * width;
        __global float *to = dx + (long)n * length * width + (heads + g) * D + (long)k0 * width;
        float4 p[TILE_ACCS], acc[TILE_ACCS], dk[PIECES][TILE_ACCS], dv[PIECES][TILE_ACCS];
        float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)];

        ZERO(dk)
        ZERO(dv)
        for (int h = g * ratio; h < (g + 1) * ratio; h++)
            for (int q0 = causal ? k0 / TN * TN : 0; q0 < end; q0 += TN) {
                __global const float *q = from + (long)q0 * width + h * D;
                __global const float *out = dy + (((long)n * length + q0) * heads + h) * D;
                DROP_START(n, h)

                for (int i = tile_item; i < TN; i += TILE_ITEMS) {
                    long at = ((long)n * heads + h) * length + min(q0 + i, length - 1);

                    logs[i] = -lse[at];
                    means[i] = q0 + i < used ? dots[at] : 0.f; /* beyond, dy may be NaN */
                }
                PRODUCT(p, keys, used - k0, width, q, used - q0, width)
                UNROLL for (int i = 0; i < IM; i++)
                    UNROLL for (int j = 0; j < IN / 4; j++)
                {
                    float4 s = YKI_FMA(p[TILE_ACC(i, j)], (float4)(scale),
                                       *(__local const float4 *)(logs + TILE_COLUMN(j)));
                    int first = causal ? k0 + TILE_ROW(i) : 0;

                    p[TILE_ACC(i, j)] =
                        select(yki_exp(s), (float4)(0.f),
                               q0 + COLUMNS(j) < first || q0 + COLUMNS(j) >= used);
                }
                DROP_KEYS(acc, p)
                PUT(DROPPED)
                ADD_PRODUCT(dv, out, used - q0, heads * D)
                PRODUCT(acc, keys + shared * D, used - k0, width, out, used - q0, heads * D)
                DROP_KEYS(acc, acc)
                UNROLL for (int i = 0; i < IM; i++)
                    UNROLL for (int j = 0; j < IN / 4; j++) p[TILE_ACC(i, j)] *=
                    (acc[TILE_ACC(i, j)] - *(__local const float4 *)(means + TILE_COLUMN(j))) *
                    scale;
                PUT(p)
                ADD_PRODUCT(dk, q, used - q0, width)
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        WRITE(dk, to, width, used - k0, length - k0, AS_IS)
        WRITE(dv, to + shared * D, width, used - k0, length - k0, AS_IS)
    }
}
#endif

#if HAS(QUERIES)
/* The part of dx by queries. */
KERNEL
yki_attention_tiled_grad_queries(__global const float *x, __global const float *dy,
                                 __global const float *lse, __global const float *dots,
                                 __global const int *lengths, __global float *dx, int samples,
                                 int length, int heads, int shared, int causal, int has_lengths,
                                 float scale DROP_ARGS)
{
    TILE_START
    __local float weights[BK * TILE_A_STEP] __attribute__((aligned(16)));
    int width = (heads + 2 * shared) * D, blocks = (length + TM - 1) / TM;

    for (int unit = (int)get_group_id(0); unit < samples * heads * blocks;
         unit += (int)get_num_groups(0)) {
        int row = unit / heads, h = unit - row * heads, block = row / samples;
        int n = row - block * samples;
        int g = h / (heads / shared), q0 = (blocks - 1 - block) * TM; /* the longest first */
        int used = has_lengths ? clamp(lengths[n], 0, length) : length;
        int limit = q0 >= used ? 0 : causal ? min(q0 + TM, used) : used;
        __global const float *from = x + (long)n * length * width;
        __global const float *out = dy + (((long)n * length + q0) * heads + h) * D;
        float4 p[TILE_ACCS], acc[TILE_ACCS], dq[PIECES][TILE_ACCS];
        float ra[TILE_FLOATS(TM)], rb[TILE_FLOATS(TN)], minus[IM], mean[IM];
        DROP_START(n, h)

        ZERO(dq)
        UNROLL for (int i = 0; i < IM; i++)
        {
            long at = ((long)n * heads + h) * length + min(q0 + TILE_ROW(i), length - 1);

            minus[i] = -lse[at];
            mean[i] = dots[at];
        }
        for (int k0 = 0; k0 < limit; k0 += BK) {
            __global const float *keys = from + (long)k0 * width + (heads + g) * D;

            PRODUCT(p, from + (long)q0 * width + h * D, used - q0, width, keys, used - k0, width)
            UNROLL for (int i = 0; i < IM; i++)
                UNROLL for (int j = 0; j < IN / 4; j++)
            {
                int end = causal ? min(q0 + TILE_ROW(i) + 1, used) : used;

                p[TILE_ACC(i, j)] =
                    select(yki_exp(YKI_FMA(p[TILE_ACC(i, j)], (float4)(scale), (float4)(minus[i]))),
                           (float4)(0.f), k0 + COLUMNS(j) >= end);
            }
            PRODUCT(acc, out, used - q0, heads * D, keys + shared * D, used - k0, width)
            UNROLL for (int i = 0; i < IM; i++)
                UNROLL for (int j = 0; j < IN / 4; j++) p[TILE_ACC(i, j)] *=
                (acc[TILE_ACC(i, j)] IF_DROP(*DROP_QUERY(i, j)) - mean[i]) * scale;
            PUT(p)
            ADD_PRODUCT(dq, keys, used - k0, width)
        }
        WRITE(dq, dx + ((long)n * length + q0) * width + h * D, width, used - q0, length - q0,
              AS_IS)
    }
}
#endif

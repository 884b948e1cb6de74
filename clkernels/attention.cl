/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.cl - softmax(scale Q K^T) V for every head of every sample, and its
 * gradient, on CPUs, in memory linear in the length.
 *
 * A row of x (T, (heads + 2 shared) D) has the queries of all heads, then keys and
 * values of the `shared` heads: heads / shared query heads share one. The scores of
 * BQ queries and BK keys are in memory for as long as they are needed. Softmax
 * runs online: for each block of keys a query's greatest score so far, its sum and its
 * result are brought up to date. What backward needs of it is log(sum(exp(scores))),
 * one number a query; it computes the scores again from that.
 *
 * A group is one work-item. Lanes of a vector are queries: a row of the scores, a row of
 * the result and a row of dq belong to one key or one column, so softmax needs no sum over
 * lanes, and each product is a tile of MR rows by NV vectors in registers. Only blocks of
 * queries are transposed, each once. Forward divides a head's queries among `chunks` groups
 * that share nothing; backward takes all heads that share keys, so the gradients by keys and
 * values are sums in a fixed order. All that a group works on is in scratch memory of its own,
 * as rows of whole vectors filled with zeros. A remainder is a difference: compilers make of a
 * quotient and a remainder together what simulators cannot run.
 *
 * The order of every sum is fixed and does not depend on the device: BK is part of the
 * result, BQ, W, MR and NV are not. Blocks of keys beyond a query are skipped where it is
 * causal. Rows from a sample's length on do not take part: their results are zero.
 *
 * With DROP weights are dropped once their sum is taken (attention_drop.cl).
 */
#ifndef D
#define D 64
#endif
#ifndef W /* lanes: 4, 8, 16 */
#define W 4
#endif
#define MR (W == 8 ? 4 : 8) /* divides BK and 16 */
#define NV 2

#define BQ (NV * W)
#define BK 64 /* part of the result: the same on all devices */
#define DP ((D + 15) / 16 * 16)
#define KERNEL __kernel YKI_GROUP(1, 1) void
#define ALWAYS_INLINE __attribute__((always_inline))

#define VEC W
#include "vectors.cl"
#include "exact.cl"
#include "exp2.cl"
#include "math.cl"
#include "attention_drop.cl"
YKI_DEFINE_TRANSPOSE(turn, W)

#define LANE_QUERIES(q0) (YKI_PASTE(as_uint, W)(COUNT_UP) + (uint)(q0))
#define LOAD(p)     loadv(0, p)
#define STORE(x, p) storev(x, 0, p)
#define UNROLL      _Pragma("unroll")
#define UP(x, to)   (((x) + (to)-1) / (to) * (to))

#if W == 16
#define COUNT_UP (intv)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif W == 8
#define COUNT_UP (intv)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define COUNT_UP (intv)(0, 1, 2, 3)
#endif

/* e^x for x <= 0. NaN stays NaN, whatever its bits. */
ALWAYS_INLINE floatv
yki_exp(floatv x)
{
    return select(exp2_down(x * 1.44269504f), x, isnan(x));
}

/* MR rows by N vectors of out = (0, or what is there, or that times `factor`) + the sum over k of
 * a[row a_row + k a_k] b[k b_step + column]: one chain. */
#define TILE(N)                                                                               \
    for (int r = 0; r < rows; r += MR) {                                                      \
        __global const float *ak = a + r * a_row, *bk = b + c;                                \
        __global float *to = out + r * out_step + c;                                          \
        floatv acc[MR][N];                                                                    \
                                                                                              \
        UNROLL for (int j = 0; j < N; j++)                                                    \
        {                                                                                     \
            floatv f = start == SCALED ? LOAD(factor + c + j * W) : (floatv)(1.f);            \
                                                                                              \
            UNROLL for (int i = 0; i < MR; i++)                                               \
                acc[i][j] = start == ZERO     ? (floatv)(0.f)                                 \
                            : start == SCALED ? LOAD(to + i * out_step + j * W) * f           \
                                              : LOAD(to + i * out_step + j * W);              \
        }                                                                                     \
        for (int k = 0; k < count; k++) {                                                     \
            floatv v[N];                                                                      \
                                                                                              \
            UNROLL for (int j = 0; j < N; j++) v[j] = LOAD(bk + j * W);                       \
            UNROLL for (int i = 0; i < MR; i++)                                               \
            {                                                                                 \
                floatv u = ak[i * a_row];                                                     \
                                                                                              \
                UNROLL for (int j = 0; j < N; j++) acc[i][j] = YKI_FMA(u, v[j], acc[i][j]);   \
            }                                                                                 \
            ak += a_k;                                                                        \
            bk += b_step;                                                                     \
        }                                                                                     \
        UNROLL for (int i = 0; i < MR; i++)                                                   \
            UNROLL for (int j = 0; j < N; j++)                                                \
                STORE(acc[i][j], to + i * out_step + j * W);                                  \
    }

enum { ZERO, KEEP, SCALED };

/* out (rows, columns). `rows` is a multiple of MR, `columns` of 16. */
ALWAYS_INLINE void
yki_multiply(__global float *out, int out_step, __global const float *a, int a_row, int a_k,
             __global const float *b, int b_step, int rows, int columns, int count, int start,
             __global const float *factor)
{
    int c = 0;

    for (; c + NV * W <= columns; c += NV * W)
        TILE(NV)
    for (; c < columns; c += W)
        TILE(1)
}

/* Copies rows of D numbers, `stride` apart, as rows of DP; from `rows` to `end` they are zeros. */
void
yki_pack(__global float *to, __global const float *from, int stride, int rows, int end)
{
    for (int r = 0; r < rows; r++) {
        int d = 0;

        for (; d + W <= D; d += W)
            STORE(LOAD(from + (long)r * stride + d), to + (long)r * DP + d);
        for (; d < DP; d++)
            to[(long)r * DP + d] = d < D ? from[(long)r * stride + d] : 0.f;
    }
    for (int r = rows; r < end; r++)
        for (int d = 0; d < DP; d += W)
            STORE((floatv)(0.f), to + (long)r * DP + d);
}

/* The reverse: writes the first D numbers of each row; without `from` these are zeros. */
void
yki_unpack(__global float *to, int stride, __global const float *from, int rows)
{
    for (int r = 0; r < rows; r++) {
        int d = 0;

        for (; d + W <= D; d += W)
            STORE(from ? LOAD(from + (long)r * DP + d) : (floatv)(0.f), to + (long)r * stride + d);
        for (; d < D; d++)
            to[(long)r * stride + d] = from ? from[(long)r * DP + d] : 0.f;
    }
}

/* to (columns, rows) = from (rows, columns), which are multiples of W. */
void
yki_transpose(__global float *to, __global const float *from, int rows, int columns)
{
    for (int r = 0; r < rows; r += W)
        for (int c = 0; c < columns; c += W) {
            floatv v[W];

            UNROLL for (int i = 0; i < W; i++) v[i] = LOAD(from + (r + i) * columns + c);
            turn(v);
            UNROLL for (int i = 0; i < W; i++) STORE(v[i], to + (c + i) * rows + r);
        }
}


/* For BQ queries: the scores of `count` keys, whose greatest is joined to top, become weights,
 * whose sum is joined to sum; `factor` is what the result so far is multiplied by. masked: queries
 * see no keys behind them. */
void
yki_soften(__global float *scores, __global float *top, __global float *sum,
           __global float *factor, int count, float scale, int masked, int q0, int k0 DROP_TAKE)
{
    floatv most[NV];

    UNROLL for (int v = 0; v < NV; v++) most[v] = (floatv)(-INFINITY);
    for (int k = 0; k < count; k++)
        UNROLL for (int v = 0; v < NV; v++)
        {
            floatv x = LOAD(scores + k * BQ + v * W);

            if (masked) {
                x = select(x, (floatv)(-INFINITY), (intv)(k0 + k) > q0 + v * W + COUNT_UP);
                STORE(x, scores + k * BQ + v * W);
            }
            most[v] = select(most[v], x, x > most[v]); /* one instruction, unlike fmax */
        }
    UNROLL for (int v = 0; v < NV; v++)
    {
        int c = v * W;
        floatv before = LOAD(top + c), now = fmax(before, most[v] * scale), total = (floatv)(0.f);
        floatv f;
        IF_DROP(floatv factors[4];)

        for (int k = 0; k < count; k++) {
            floatv x = yki_exp(YKI_FMA(LOAD(scores + k * BQ + c), (floatv)(scale), -now));

            IF_DROP(if ((k & 3) == 0)
                        yki_drop_keys(factors, drop, LANE_QUERIES(q0 + c), k0 + k);)
            STORE(x IF_DROP(*factors[k & 3]), scores + k * BQ + c);
            total += x;
        }
        f = yki_exp(before - now);
        STORE(now, top + c);
        STORE(f, factor + c);
        STORE(YKI_FMA(LOAD(sum + c), f, total), sum + c);
    }
}

/* y (T, heads D) and lse (heads, T). lengths: of each sample, if has_lengths. scratch: of each group
 * (2 (T rounded up to BK) + 3 BQ) DP + BQ (BK + 3) numbers. */
KERNEL
yki_attention(__global const float *x, __global const int *lengths, __global float *y,
              __global float *lse, __global float *scratch, int samples, int length, int heads,
              int shared, int chunks, int causal, int has_lengths, float scale DROP_ARGS)
{
    int width = (heads + 2 * shared) * D, ratio = heads / shared;
    long padded = (long)UP(length, BK) * DP;
    long own = 2 * padded + 3 * BQ * DP + BQ * (BK + 3);
    __global float *keys = scratch + own * get_group_id(0), *values = keys + padded;
    __global float *q = values + padded, *rows_of = q + BQ * DP, *o = rows_of + BQ * DP;
    __global float *scores = o + BQ * DP, *top = scores + BQ * BK, *sum = top + BQ;
    __global float *factor = sum + BQ;

    for (int unit = get_group_id(0); unit < samples * shared * chunks;
         unit += get_num_groups(0)) {
        int pair = unit / chunks, chunk = unit - pair * chunks;
        int n = pair / shared, g = pair - n * shared;
        int used = has_lengths ? clamp(lengths[n], 0, length) : length;
        int blocks = (used + BQ - 1) / BQ;
        __global const float *from = x + (long)n * length * width;

        yki_pack(keys, from + (heads + g) * D, width, used, UP(used, BK));
        yki_pack(values, from + (heads + shared + g) * D, width, used, UP(used, BK));
        for (int block = chunk; block < blocks * ratio; block += chunks) {
            int head = block / blocks, h = g * ratio + head, q0 = (block - head * blocks) * BQ;
            int rows = min(BQ, used - q0), limit = causal ? q0 + rows : used;
            __global float *to = y + (((long)n * length + q0) * heads + h) * D;
            __global float *lse_to = lse + ((long)n * heads + h) * length + q0;
            DROP_START(n, h)

            yki_pack(rows_of, from + (long)q0 * width + h * D, width, rows, BQ);
            yki_transpose(q, rows_of, BQ, DP);
            for (int c = 0; c < BQ; c++) {
                top[c] = -INFINITY;
                sum[c] = 0.f;
            }
            for (int k0 = 0; k0 < limit; k0 += BK) {
                int count = min(BK, limit - k0);
                int masked = causal && k0 + count > q0 + 1;

                yki_multiply(scores, BQ, keys + (long)k0 * DP, DP, 1, q, BQ, UP(count, MR), BQ, DP,
                             ZERO, factor);
                yki_soften(scores, top, sum, factor, count, scale, masked, q0, k0 DROP_GIVE);
                if (k0 == 0)
                    yki_multiply(o, BQ, values, 1, DP, scores, BQ, DP, BQ, count, ZERO, factor);
                else
                    yki_multiply(o, BQ, values + (long)k0 * DP, 1, DP, scores, BQ, DP, BQ, count,
                                 SCALED, factor);
            }
            for (int c = 0; c < BQ; c += W)
                for (int d = 0; d < DP; d++)
                    STORE(QUOTIENT(floatv, LOAD(o + d * BQ + c), LOAD(sum + c)), o + d * BQ + c);
            yki_transpose(rows_of, o, DP, BQ);
            yki_unpack(to, heads * D, rows_of, rows);
            for (int c = 0; c < rows; c++)
                lse_to[c] = top[c] + YKI_LOG(float, sum[c]);
        }
        for (int h = g * ratio + chunk; h < (g + 1) * ratio; h += chunks) {
            yki_unpack(y + (((long)n * length + used) * heads + h) * D, heads * D, 0,
                       length - used);
            for (int i = used; i < length; i++)
                lse[((long)n * heads + h) * length + i] = 0.f;
        }
    }
}

/* The sum of dy y for each of BQ queries, from rows of dy (DP apart) and of y. */
void
yki_dots(__global float *to, __global const float *dy, __global const float *y, int stride,
         int rows)
{
    for (int r = 0; r < BQ; r++) {
        float lanes[16], x[16];

        for (int i = 0; i < 16; i++)
            lanes[i] = 0.f;
        if (r < rows)
            for (int d0 = 0; d0 < DP; d0 += 16) {
                for (int i = 0; i < 16; i++)
                    x[i] = d0 + i < D ? y[(long)r * stride + d0 + i] : 0.f;
                for (int i = 0; i < 16; i += W)
                    STORE(YKI_FMA(LOAD(dy + r * DP + d0 + i), LOAD(x + i), LOAD(lanes + i)), lanes + i);
            }
        for (int step = 8; step > 0; step /= 2)
            for (int i = 0; i < step; i++)
                lanes[i] += lanes[i + step];
        to[r] = lanes[0];
    }
}

/* scores become weights p, dp becomes ds = p (dp - dots) scale. */
void
yki_soften_grad(__global float *scores, __global float *dp, __global const float *lse,
                __global const float *dots, int count, float scale, int masked, int q0, int k0
                    DROP_TAKE)
{
    for (int c = 0; c < BQ; c += W) {
        intv query = q0 + c + COUNT_UP;
        floatv minus = -LOAD(lse + c), dot = LOAD(dots + c);
        IF_DROP(floatv factors[4];)

        for (int k = 0; k < count; k++) {
            floatv p = yki_exp(YKI_FMA(LOAD(scores + k * BQ + c), (floatv)(scale), minus));

            if (masked)
                p = select(p, (floatv)(0.f), (intv)(k0 + k) > query);
            IF_DROP(if ((k & 3) == 0)
                        yki_drop_keys(factors, drop, LANE_QUERIES(q0 + c), k0 + k);)
            STORE(p IF_DROP(*factors[k & 3]), scores + k * BQ + c);
            STORE(p * (LOAD(dp + k * BQ + c) IF_DROP(*factors[k & 3]) - dot) * scale,
                  dp + k * BQ + c);
        }
    }
}

/* dx, of x's shape. scratch: of each group (2 (T rounded up to BK) + 5 (T rounded up to BQ) + 2 BK + BQ)
 * DP + 2 (T rounded up to BQ) + 2 BQ BK numbers. With p the weights of softmax: dv = p^T dy, dp = dy v^T,
 * ds = p (dp - sum(dy y)) scale, dq = ds k, dk = ds^T q. Where weights are dropped, dv has p and ds has dp
 * times the factors of the mask. */
KERNEL
yki_attention_grad(__global const float *x, __global const float *y, __global const float *dy,
                   __global const float *lse, __global const int *lengths, __global float *dx,
                   __global float *scratch, int samples, int length, int heads, int shared,
                   int causal, int has_lengths, float scale DROP_ARGS)
{
    int width = (heads + 2 * shared) * D, ratio = heads / shared;
    long queries = UP(length, BQ), padded = queries * DP, keys = (long)UP(length, BK) * DP;
    long own = 2 * keys + 5 * padded + (2 * BK + BQ) * DP + 2 * queries + 2 * BQ * BK;
    __global float *dk = scratch + own * get_group_id(0), *dv = dk + keys, *q_rows = dv + keys;
    __global float *q = q_rows + padded, *dy_rows = q + padded, *d_out = dy_rows + padded;
    __global float *dq = d_out + padded, *key = dq + padded, *value = key + BK * DP;
    __global float *dq_rows = value + BK * DP, *dots = dq_rows + BQ * DP, *logs = dots + queries;
    __global float *scores = logs + queries, *dp = scores + BQ * BK;

    for (int unit = get_group_id(0); unit < samples * shared; unit += get_num_groups(0)) {
        int n = unit / shared, g = unit - n * shared;
        int used = has_lengths ? clamp(lengths[n], 0, length) : length;
        __global const float *from = x + (long)n * length * width;
        __global float *to = dx + (long)n * length * width;

        for (long i = 0; i < (long)UP(used, BK) * DP; i += W) {
            STORE((floatv)(0.f), dk + i);
            STORE((floatv)(0.f), dv + i);
        }
        for (int h = g * ratio; h < (g + 1) * ratio; h++) {
            DROP_START(n, h)

            for (int q0 = 0; q0 < used; q0 += BQ) {
                int rows = min(BQ, used - q0);
                long at = ((long)n * length + q0) * heads * D + h * D, own_at = (long)q0 * DP;

                yki_pack(q_rows + own_at, from + (long)q0 * width + h * D, width, rows, BQ);
                yki_transpose(q + own_at, q_rows + own_at, BQ, DP);
                yki_pack(dy_rows + own_at, dy + at, heads * D, rows, BQ);
                yki_transpose(d_out + own_at, dy_rows + own_at, BQ, DP);
                yki_dots(dots + q0, dy_rows + own_at, y + at, heads * D, rows);
                for (int i = 0; i < BQ; i++)
                    logs[q0 + i] = i < rows ? lse[((long)n * heads + h) * length + q0 + i] : 0.f;
            }
            for (long i = 0; i < (long)UP(used, BQ) * DP; i += W)
                STORE((floatv)(0.f), dq + i);
            for (int k0 = 0; k0 < used; k0 += BK) {
                int there = min(BK, used - k0);

                yki_pack(key, from + (long)k0 * width + (heads + g) * D, width, there, BK);
                yki_pack(value, from + (long)k0 * width + (heads + shared + g) * D, width, there,
                         BK);
                for (int q0 = causal ? k0 / BQ * BQ : 0; q0 < used; q0 += BQ) {
                    int rows = min(BQ, used - q0);
                    int count = causal ? min(there, q0 + rows - k0) : there, up = UP(count, MR);
                    int masked = causal && k0 + up > q0 + 1;
                    long at = (long)q0 * DP, key_at = (long)k0 * DP;

                    yki_multiply(scores, BQ, key, DP, 1, q + at, BQ, up, BQ, DP, ZERO, 0);
                    yki_multiply(dp, BQ, value, DP, 1, d_out + at, BQ, up, BQ, DP, ZERO, 0);
                    yki_soften_grad(scores, dp, logs + q0, dots + q0, up, scale, masked, q0, k0
                                        DROP_GIVE);
                    yki_multiply(dv + key_at, DP, scores, BQ, 1, dy_rows + at, DP, up, DP, rows,
                                 KEEP, 0);
                    yki_multiply(dk + key_at, DP, dp, BQ, 1, q_rows + at, DP, up, DP, rows, KEEP,
                                 0);
                    yki_multiply(dq + at, BQ, key, 1, DP, dp, BQ, DP, BQ, count, KEEP, 0);
                }
            }
            for (int q0 = 0; q0 < used; q0 += BQ) {
                yki_transpose(dq_rows, dq + (long)q0 * DP, DP, BQ);
                yki_unpack(to + (long)q0 * width + h * D, width, dq_rows, min(BQ, used - q0));
            }
            yki_unpack(to + (long)used * width + h * D, width, 0, length - used);
        }
        yki_unpack(to + (heads + g) * D, width, dk, used);
        yki_unpack(to + (heads + shared + g) * D, width, dv, used);
        yki_unpack(to + (long)used * width + (heads + g) * D, width, 0, length - used);
        yki_unpack(to + (long)used * width + (heads + shared + g) * D, width, 0, length - used);
    }
}

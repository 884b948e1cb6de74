/* SPDX-License-Identifier: Apache-2.0
 *
 * sampling.c - draws a token from logits, on the host and in double.
 *
 * The random number of a token follows from the seed and its place in its stream alone, so
 * a prompt gets the same tokens whatever is generated beside it.
 */
#include <math.h>

#include "replica/sampling.h"

yoke_status
yki_check_sampling(const yoke_sampling *s)
{
    if (!(s->temperature >= 0 && s->temperature <= 1e6f))
        return yki_fail_range_real(YOKE_ERROR_INVALID_ARGUMENT, "temperature",
                                   (double)s->temperature, 0, 1e6);
    if (s->top_k < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "top_k", s->top_k, 0, INT32_MAX);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return yki_fail_range_real(YOKE_ERROR_INVALID_ARGUMENT, "top_p", (double)s->top_p, 0, 1);
    if (s->length < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "length", s->length, 0, INT64_MAX);
    if (s->stop_count && !s->stops)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "stops is NULL; must have %zu tokens",
                        s->stop_count);
    return YOKE_OK;
}

/* 0 <= number < 1, with 53 bits. */
static double
draw(uint64_t seed, int64_t place)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)place, (uint32_t)((uint64_t)place >> 32), 0, 0x67656e};
    uint32_t words[4];

    yki_philox(key, counter, words);
    return (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) * 0x1p-53;
}

/* Whether token a comes before b: it is more probable or, if they are equal, has the lower number.
 */
static bool
before(const double *weights, int32_t a, int32_t b)
{
    return weights[a] > weights[b] || (!(weights[a] < weights[b]) && a < b);
}

/* Moves order[at] down the heap, whose first element comes before all others. */
static void
sift(const double *weights, int32_t *order, int64_t count, int64_t at)
{
    int32_t moved = order[at];

    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && before(weights, order[child + 1], order[child]))
            child++;
        if (!before(weights, order[child], moved))
            break;
        order[at] = order[child];
        at = child;
    }
    order[at] = moved;
}

/* Puts the most probable tokens at the end of `order`, the first of them last: at most `top_k` (0:
 * any number), and no more than are needed for `top_p` of their sum. Returns how many, and their
 * sum. A heap gives them one by one, so the others are never sorted. */
static int64_t
take_top(const double *weights, int64_t count, const yoke_sampling *s, int32_t *order, double *sum)
{
    int64_t left = count, most = s->top_k ? YKI_MIN((int64_t)s->top_k, count) : count, taken = 0;
    double total = 0, kept = 0;
    bool by_part = s->top_p > 0 && s->top_p < 1;

    for (int64_t i = 0; i < count; i++) {
        order[i] = (int32_t)i;
        total += s->top_k ? 0 : weights[i];
    }
    for (int64_t i = count / 2; i-- > 0;)
        sift(weights, order, count, i);
    while (taken < most && (s->top_k || !by_part || kept < (double)s->top_p * total)) {
        int32_t first = order[0];

        order[0] = order[--left];
        sift(weights, order, left, 0);
        order[left] = first;
        kept += weights[first];
        taken++;
    }
    if (s->top_k && by_part) {
        total = kept;
        kept = 0;
        for (most = taken, taken = 0; taken < most && kept < (double)s->top_p * total; taken++)
            kept += weights[order[count - 1 - taken]];
    }
    *sum = kept;
    return taken;
}

/* Returns the most probable token, the first of equal ones; -1: there is a NaN. */
static int32_t
best_of(const float *logits, int64_t count)
{
    int64_t best = 0;

    for (int64_t i = 0; i < count; i++) {
        if (isnan(logits[i]))
            return -1;
        if (logits[i] > logits[best])
            best = i;
    }
    return isinf(logits[best]) ? -1 : (int32_t)best;
}

int32_t
yki_sample(const float *logits, int64_t count, const yoke_sampling *s, uint64_t seed, int64_t place,
           double *work, int32_t *order)
{
    int32_t best = best_of(logits, count), last = best;
    bool some = s->top_k || (s->top_p > 0 && s->top_p < 1);
    int64_t taken = count;
    double sum = 0, at;

    if (best < 0 || !(s->temperature > 0))
        return best;
    for (int64_t i = 0; i < count; i++)
        work[i] = exp(((double)logits[i] - (double)logits[best]) / (double)s->temperature);
    if (some)
        taken = take_top(work, count, s, order, &sum);
    for (int64_t i = 0; !some && i < count; i++)
        sum += work[i];
    at = draw(seed, place) * sum;
    for (int64_t i = 0; i < taken; i++) {
        int32_t token = some ? order[count - 1 - i] : (int32_t)i;

        if (work[token] > 0)
            last = token;
        at -= work[token];
        if (at < 0)
            break;
    }
    return last;
}

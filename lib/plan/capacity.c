/* SPDX-License-Identifier: Apache-2.0
 *
 * capacity.c - the largest batch for which there is memory.
 *
 * A plan is planned and packed for other batches, without being made, until the largest one
 * that fits is found. A planner that measures may choose other solvers for that batch than are
 * assumed here.
 */
#include <math.h>

#include "plan/plan.h"

/* A batch that is too large for every solver does not fit either. */
yoke_status
yki_plan_bytes_at(const yki_plan *plan, int64_t samples, uint64_t *bytes)
{
    yki_extents max = plan->options.max;
    yoke_status status;

    max.batch = samples;
    status = yki_plan_memory_at(plan, max, bytes);
    if (status != YOKE_ERROR_UNSUPPORTED)
        return status;
    *bytes = UINT64_MAX;
    return YOKE_OK;
}

/* Memory is affine in the batch except for rounding and changed choices, so two sizes tell where to
 * look. The search ends when it is within a hundredth. */
typedef struct search {
    yki_bytes_of bytes_of;
    const void *user;
    bool level; /* bytes are not affine: recomputation keeps them at a budget */
    uint64_t room;
    int64_t good, bad; /* the largest known to fit, the smallest known not to */
} search;

static int64_t
grain(int64_t samples)
{
    return samples / 128 + 1;
}

/* Doubles what fits until something does not, and halves the interval then. */
static int64_t
next_step(const search *s)
{
    return s->bad > INT32_MAX ? YKI_MIN(2 * s->good, (int64_t)INT32_MAX) : (s->good + s->bad) / 2;
}

/* Returns where the line through two points meets the room. After a batch that fits, the guess is
 * at least a bit above it. */
static int64_t
next_guess(const search *s, int64_t n, uint64_t bytes, int64_t before, uint64_t bytes_before)
{
    double rise = ((double)bytes - (double)bytes_before) / (double)(n - before);
    double guess = (double)n + ((double)s->room - (double)bytes) / rise;

    if (bytes == UINT64_MAX || bytes_before == UINT64_MAX || !(rise > 0))
        guess = 0.5 * (double)(s->good + s->bad);
    else if (bytes <= s->room)
        guess = fmax(guess, (double)(n + grain(n)));
    else
        guess = fmin(guess, (double)(n - 1));
    guess = fmin(fmax(guess, (double)(s->good + 1)), (double)(s->bad - 1));
    return (int64_t)guess;
}

static yoke_status
find_largest(search *s, int64_t start)
{
    int64_t before = 0, n = start;
    uint64_t bytes_before = UINT64_MAX, bytes;

    s->good = 0;
    s->bad = (int64_t)INT32_MAX + 1;
    for (int turn = 0; turn < 64 && s->bad - s->good > grain(s->good); turn++) {
        int64_t guess;

        YKI_TRY(s->bytes_of(s->user, n, &bytes));
        *(bytes <= s->room ? &s->good : &s->bad) = n;
        if (s->level)
            guess = next_step(s);
        else if (turn > 0)
            guess = next_guess(s, n, bytes, before, bytes_before);
        else
            guess = bytes <= s->room ? YKI_MIN(2 * n, s->bad - 1) : YKI_MAX(n / 2, (int64_t)1);
        before = n;
        bytes_before = bytes;
        n = guess;
    }
    return YOKE_OK;
}

yoke_status
yki_find_capacity(yki_bytes_of bytes_of, const void *user, bool level, uint64_t room, int64_t start,
                  int64_t *samples)
{
    search s = {.bytes_of = bytes_of, .user = user, .level = level, .room = room};

    YKI_TRY(find_largest(&s, start));
    *samples = s.good;
    return YOKE_OK;
}

static yoke_status
bytes_of_plan(const void *user, int64_t samples, uint64_t *bytes)
{
    return yki_plan_bytes_at(user, samples, bytes);
}

yoke_status
yki_plan_capacity(const yki_plan *plan, int64_t *samples)
{
    uint64_t room = yki_plan_memory(plan) + yki_quota_left(yki_queue_device(plan->queue));

    return yki_find_capacity(bytes_of_plan, plan, plan->options.most > 0, room,
                             plan->options.max.batch, samples);
}

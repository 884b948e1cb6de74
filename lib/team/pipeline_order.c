/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline_order.c - the order in which members of a pipeline take turns.
 *
 * It plays the step through, with the seconds that legs take: each time it takes the turn that can
 * begin first; of those, backward before forward, and the oldest micro-batch. With as many
 * micro-batches under way on a member as there are stages behind it, and itself, a chain of stages
 * comes out as one forward, one backward in turn. Graphs whose values go to and fro come out in
 * their own way.
 *
 * It comes to an end: the oldest micro-batch that is not done may always go on, as no member has
 * let a younger one in before it, and none waits for a younger one.
 */
#include "team/pipeline.h"

typedef struct play {
    const yki_order_problem *p;
    uint32_t *legs_of;        /* the legs of member 0, of member 1, ... */
    size_t *first_leg;        /* by member: where its own begin; and the end */
    size_t *first_need;       /* by leg: likewise among the needs */
    uint32_t *entered, *left; /* by member: micro-batches that have come, that have gone */
    uint32_t *next;           /* by member and micro-batch under way: its next leg of its own */
    uint32_t *done;           /* by leg and likewise: the micro-batch that has done it, + 1 */
    double *ends;             /* and when */
    double *gone;             /* by member and likewise: when the newest has gone */
    double *idle_from;        /* by member */
} play;

static bool
make(play *s, const yki_order_problem *p)
{
    size_t at = 0, need = 0;

    s->p = p;
    s->legs_of = yki_alloc(p->leg_count, sizeof *s->legs_of, "a pipeline's order");
    s->first_leg = yki_alloc(p->members + 1, sizeof *s->first_leg, "a pipeline's order");
    s->first_need = yki_alloc(p->leg_count + 1, sizeof *s->first_need, "a pipeline's order");
    s->entered = yki_alloc(p->members, sizeof *s->entered, "a pipeline's order");
    s->left = yki_alloc(p->members, sizeof *s->left, "a pipeline's order");
    s->next = yki_alloc(p->members * p->width, sizeof *s->next, "a pipeline's order");
    s->done = yki_alloc(p->leg_count * p->width, sizeof *s->done, "a pipeline's order");
    s->ends = yki_alloc(p->leg_count * p->width, sizeof *s->ends, "a pipeline's order");
    s->gone = yki_alloc(p->members * p->width, sizeof *s->gone, "a pipeline's order");
    s->idle_from = yki_alloc(p->members, sizeof *s->idle_from, "a pipeline's order");
    if (!s->legs_of || !s->first_leg || !s->first_need || !s->entered || !s->left || !s->next ||
        !s->done || !s->ends || !s->gone || !s->idle_from)
        return false;
    for (uint32_t m = 0; m < p->members; m++) {
        s->first_leg[m] = at;
        for (uint32_t j = 0; j < p->leg_count; j++)
            if (p->legs[j].member == m)
                s->legs_of[at++] = j;
    }
    s->first_leg[p->members] = at;
    for (uint32_t j = 0; j <= p->leg_count; j++) {
        while (need < p->need_count && p->needs[need].leg < j)
            need++;
        s->first_need[j] = need;
    }
    return true;
}

static void
unmake(play *s)
{
    yki_free(s->legs_of);
    yki_free(s->first_leg);
    yki_free(s->first_need);
    yki_free(s->entered);
    yki_free(s->left);
    yki_free(s->next);
    yki_free(s->done);
    yki_free(s->ends);
    yki_free(s->gone);
    yki_free(s->idle_from);
}

/* Whether a member may let one more micro-batch in, and from when on: what it uses is in use until
 * all members are done with the one before the last `width`. */
static bool
may_enter(const play *s, uint32_t member, double *start)
{
    const uint32_t width = s->p->width, micro_batch = s->entered[member];

    if (micro_batch == s->p->micro_batches || micro_batch - s->left[member] >= s->p->depth[member])
        return false;
    for (uint32_t m = 0; m < s->p->members && micro_batch >= width; m++) {
        if (s->left[m] <= micro_batch - width)
            return false;
        *start = YKI_MAX(*start, s->gone[m * width + micro_batch % width]);
    }
    return true;
}

/* Whether the member may go on with a micro-batch: gives the leg, and when it can begin. */
static bool
may_go_on(const play *s, uint32_t member, uint32_t micro_batch, uint32_t *leg, double *start)
{
    const uint32_t width = s->p->width, at = micro_batch % width;
    const bool enters = micro_batch == s->entered[member];
    const uint32_t own = enters ? 0 : s->next[member * width + at];

    *start = s->idle_from[member];
    if (enters && !may_enter(s, member, start))
        return false;
    *leg = s->legs_of[s->first_leg[member] + own];
    if (micro_batch > s->left[member] &&
        (s->p->legs[*leg].backward || s->next[member * width + (micro_batch - 1) % width] <= own))
        return false;
    for (size_t i = s->first_need[*leg]; i < s->first_need[*leg + 1]; i++) {
        const size_t made = s->p->needs[i].made_by * width + at;

        if (s->done[made] != micro_batch + 1)
            return false;
        *start = YKI_MAX(*start, s->ends[made]);
    }
    return true;
}

/* Takes the turn. */
static void
take(play *s, const yki_turn *turn, double start)
{
    const uint32_t width = s->p->width, at = turn->micro_batch % width;
    const yki_leg *leg = &s->p->legs[turn->leg];
    const uint32_t m = leg->member;

    if (turn->micro_batch == s->entered[m]) {
        s->entered[m]++;
        s->next[m * width + at] = 0;
    }
    s->next[m * width + at]++;
    s->idle_from[m] = s->ends[turn->leg * width + at] = start + leg->seconds;
    s->done[turn->leg * width + at] = turn->micro_batch + 1;
    if (s->first_leg[m] + s->next[m * width + at] == s->first_leg[m + 1]) {
        s->left[m]++;
        s->gone[m * width + at] = s->idle_from[m];
    }
}

static bool
find_turn(const play *s, yki_turn *best, double *best_start)
{
    bool found = false;

    for (uint32_t m = 0; m < s->p->members; m++)
        for (uint32_t i = s->left[m]; i <= s->entered[m]; i++) {
            double start;
            uint32_t leg;
            bool better;

            if (!may_go_on(s, m, i, &leg, &start))
                continue;
            better = !found || start < *best_start;
            if (!better && start <= *best_start) {
                const bool before = s->p->legs[best->leg].backward, now = s->p->legs[leg].backward;

                better = now != before ? now : i < best->micro_batch;
            }
            if (!better)
                continue;
            found = true;
            *best = (yki_turn){i, leg};
            *best_start = start;
        }
    return found;
}

yoke_status
yki_pipeline_order(const yki_order_problem *p, yki_turn *turns, double *seconds)
{
    const size_t count = p->leg_count * p->micro_batches;
    play s = {0};
    yoke_status status = make(&s, p) ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    *seconds = 0;
    for (size_t i = 0; i < count && status == YOKE_OK; i++) {
        double start = 0;

        if (!find_turn(&s, &turns[i], &start)) {
            status = yki_fail_bug("no member of a pipeline can go on after %zu turns", i);
            break;
        }
        take(&s, &turns[i], start);
        *seconds = YKI_MAX(*seconds, start + p->legs[turns[i].leg].seconds);
    }
    unmake(&s);
    return status;
}

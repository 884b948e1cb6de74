/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline_clocks.c - where the clocks of processes stand beside rank 0's.
 *
 * It is a ping-pong of all processes at once, by the one operation that every comm has: each gives
 * the others the time at which it entered an all-gather. No process leaves it before all have
 * entered. So each learns, in every round, a time of rank 0's clock that was before it left, and
 * one that was after it entered; the shorter the round, the closer these bounds. The narrowest of
 * all rounds count. Two such looks, at both ends of a timeline, give a line.
 *
 * Nothing is assumed of clocks but that they go on evenly. That is judged at the end.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "train/timeline.h"

enum { LEAST_ROUNDS = 16, MOST_ROUNDS = 10000 };

static const double GOOD = 1e-4;      /* seconds: of so narrow bounds there is no need for better */
static const double PATIENCE = 1;     /* seconds, then what was found must do */
static const double MOST_OPEN = 4e-3; /* seconds between bounds: with more, nothing fits */
static const double MOST_DRIFT = 1e-3; /* of two clocks: each is at most 500 ppm wrong */

/* All processes decide alike, because all have the same turns. */
static bool
goes_on(const yki_clock_turn *all, int32_t ranks, int round, double begin)
{
    double widest = 0;

    for (int32_t r = 1; r < ranks; r++)
        widest = YKI_MAX(widest, all[r].open);
    return round < LEAST_ROUNDS ||
           (round < MOST_ROUNDS && widest > GOOD && all[0].entered - begin < PATIENCE);
}

static yoke_status
take_turns(yoke_comm *comm, double (*now)(void), yki_clock_turn *all, yki_sight *sight)
{
    yki_clock_turn own = {.open = DBL_MAX};
    double low = -DBL_MAX, high = DBL_MAX, begin = 0;

    for (int round = 0; round == 0 || goes_on(all, comm->ranks, round, begin); round++) {
        double entered = own.entered;

        own.entered = now();
        YKI_TRY(comm->allgather(comm, &own, sizeof own, all));
        own.left = now();
        low = YKI_MAX(low, all[0].entered - own.left);
        if (round == 0)
            begin = all[0].entered;
        else /* rank 0 left the round before after this process had entered it */
            high = YKI_MIN(high, all[0].left - entered);
        own.open = round ? high - low : DBL_MAX;
    }
    *sight = (yki_sight){own.left + 0.5 * (low + high), low, high};
    return YOKE_OK;
}

yoke_status
yki_clocks_look(yoke_comm *comm, double (*now)(void), yki_sight *sight)
{
    yki_clock_turn *all = yki_alloc((size_t)comm->ranks, sizeof *all, "times of other processes");
    yoke_status status;

    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = take_turns(comm, now, all, sight);
    yki_free(all);
    return status;
}

bool
yki_clocks_agree(const yki_sight *sights, char why[YKI_CLOCKS_WHY])
{
    double seconds = sights[1].at - sights[0].at, first, second, moved, known = 0;

    for (int i = 0; i < 2; i++) {
        double open = sights[i].high - sights[i].low;

        known += 0.5 * fabs(open);
        if (open <= MOST_OPEN)
            continue;
        snprintf(why, YKI_CLOCKS_WHY,
                 "messages leave %.3g ms open between them; must be at most %.3g", 1e3 * open,
                 1e3 * MOST_OPEN);
        return false;
    }
    first = 0.5 * (sights[0].low + sights[0].high);
    second = 0.5 * (sights[1].low + sights[1].high);
    moved = fabs(second - first);
    if (moved <= known + MOST_DRIFT * YKI_MAX(seconds, 0))
        return true;
    snprintf(why, YKI_CLOCKS_WHY, "one moved by %.3g ms against the other in %.3g s", 1e3 * moved,
             seconds);
    return false;
}

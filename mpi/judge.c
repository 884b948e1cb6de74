/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.c - finds out who keeps the others waiting.
 *
 * A rank that waits is innocent, as long as it is heard. If some ranks are not heard any more, they
 * are to blame. If all are heard, those are to blame that are behind and have shown no progress for
 * as long as the others have waited. If all are heard and wait for the same operation, the network
 * is to blame, or calls that do not match.
 *
 * It reads records only: no MPI, no clock, no threads.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

enum { NAMED = 3 }; /* ranks that a sentence describes; others are listed by number */

void
yki_mpi_name_operation(const yki_mpi_beat *beat, char *text, size_t size)
{
    static const char *const names[] = {"nothing", "all-reduce", "broadcast",
                                        "gather",  "barrier",    "sharing of memory"};
    unsigned long long number = (unsigned long long)beat->entered;
    unsigned long long count = (unsigned long long)beat->count;

    switch (beat->kind) {
    case YKI_MPI_ALLREDUCE:
        snprintf(text, size, "%s (call %llu, %llu values)", names[beat->kind], number, count);
        break;
    case YKI_MPI_BROADCAST:
    case YKI_MPI_GATHER:
    case YKI_MPI_SHARE:
        snprintf(text, size, "%s (call %llu, %llu bytes)", names[beat->kind], number, count);
        break;
    default:
        snprintf(text, size, "%s (call %llu)", names[YKI_MPI_BARRIER], number);
    }
}

static bool
silent(const yki_mpi_witness *rank, double now, double limit)
{
    return now - rank->heard > limit / 2;
}

static bool
waits(const yki_mpi_witness *rank, double now, double limit)
{
    return rank->beat.waited > 0 && !silent(rank, now, limit);
}

/* The rank that has waited longest until now; -1: none waits. */
static int
longest_waiting(const yki_mpi_witness *ranks, int count, double now, double limit, double *waited)
{
    int found = -1;

    *waited = 0;
    for (int r = 0; r < count; r++) {
        double w = ranks[r].beat.waited + (now - ranks[r].heard);

        if (waits(&ranks[r], now, limit) && w > *waited) {
            *waited = w;
            found = r;
        }
    }
    return found;
}

/* Progress counts as a sign of life: a rank that compiles for long calls `beat` now and then. */
static bool
behind(const yki_mpi_witness *rank, uint64_t furthest, double now, double limit)
{
    return rank->beat.entered < furthest && rank->beat.waited == 0 &&
           now - rank->changed >= limit * 0.999;
}

static void
append(char reason[YKI_MPI_REASON], const char *text)
{
    size_t length = strlen(reason);

    snprintf(reason + length, YKI_MPI_REASON - length, "%s", text);
}

static void
describe(const yki_mpi_witness *rank, int number, const char *operation, bool mute, double now,
         char reason[YKI_MPI_REASON])
{
    char text[320];

    if (mute)
        snprintf(text, sizeof text,
                 "rank %d (%s) has not been heard of for %.1f s, and %s needs it", number,
                 rank->host, now - rank->heard, operation);
    else
        snprintf(text, sizeof text, "rank %d (%s) has not come to %s for %.1f s", number,
                 rank->host, operation, now - rank->changed);
    append(reason, text);
    if (rank->beat.doing[0]) {
        snprintf(text, sizeof text, "; it was last at step %lld, %s", (long long)rank->beat.step,
                 rank->beat.doing);
        append(reason, text);
    }
}

/* No rank is behind: calls do not match, or messages do not arrive. */
static bool
blame_nobody(const yki_mpi_witness *ranks, int count, int waiting, double now, double limit,
             char reason[YKI_MPI_REASON])
{
    double least = ranks[waiting].beat.waited + (now - ranks[waiting].heard);
    const yki_mpi_beat *first = &ranks[waiting].beat;
    char mine[96], theirs[96];

    yki_mpi_name_operation(first, mine, sizeof mine);
    for (int r = 0; r < count; r++) {
        const yki_mpi_beat *other = &ranks[r].beat;
        double waited = other->waited + (now - ranks[r].heard);

        if (other->entered != first->entered || !waits(&ranks[r], now, limit))
            return false;
        least = waited < least ? waited : least;
        /* The last rank has only just come, so it will go on now. */
        if (least < limit)
            return false;
        if (other->kind != first->kind || other->count != first->count) {
            yki_mpi_name_operation(other, theirs, sizeof theirs);
            snprintf(reason, YKI_MPI_REASON, "rank %d (%s) is in %s, but rank %d (%s) in %s",
                     waiting, ranks[waiting].host, mine, r, ranks[r].host, theirs);
            return true;
        }
    }
    snprintf(reason, YKI_MPI_REASON,
             "all ranks have come to %s, but no message has got through for %.1f s", mine, least);
    return true;
}

void
yki_mpi_forgive(yki_mpi_witness *ranks, int count, double now, double absence)
{
    for (int r = 0; r < count; r++) {
        double heard = ranks[r].heard + absence, changed = ranks[r].changed + absence;

        ranks[r].heard = heard < now ? heard : now;
        ranks[r].changed = changed < now ? changed : now;
    }
}

bool
yki_mpi_judge(const yki_mpi_witness *ranks, int count, double now, double limit,
              char reason[YKI_MPI_REASON])
{
    char operation[96], number[64];
    uint64_t furthest = 0;
    double waited;
    bool mute = false;
    int guilty = 0, waiting;

    if (limit < 0)
        return false;
    waiting = longest_waiting(ranks, count, now, limit, &waited);
    if (waiting < 0 || waited < limit)
        return false;
    for (int r = 0; r < count; r++) {
        mute = mute || silent(&ranks[r], now, limit);
        furthest = ranks[r].beat.entered > furthest ? ranks[r].beat.entered : furthest;
    }
    yki_mpi_name_operation(&ranks[waiting].beat, operation, sizeof operation);
    reason[0] = '\0';
    for (int r = 0; r < count; r++) {
        if (mute ? !silent(&ranks[r], now, limit) : !behind(&ranks[r], furthest, now, limit))
            continue;
        snprintf(number, sizeof number, guilty == NAMED ? "; so it is with rank %d" : ", %d", r);
        if (guilty > 0 && guilty < NAMED)
            append(reason, "; ");
        if (guilty < NAMED)
            describe(&ranks[r], r, operation, mute, now, reason);
        else
            append(reason, number);
        guilty++;
    }
    return guilty > 0 || blame_nobody(ranks, count, waiting, now, limit, reason);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.c - finds out who keeps the others waiting.
 *
 * A rank that waits is innocent, as long as it is heard. If some ranks are not heard any more, they
 * are to blame. If all are heard, those are to blame that are behind and have shown no progress for
 * as long as the others have waited. Behind are those that have not come to an operation of all
 * ranks, and those for whose message another waits. If all are heard and wait, or some wait for
 * messages of one another, the network is to blame, or calls that do not match.
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
    static const char *const names[] = {"nothing",        "all-reduce",
                                        "broadcast",      "gather",
                                        "barrier",        "sharing of memory",
                                        "reduce-scatter", "all-gather of pieces",
                                        "send",           "receive"};
    unsigned long long number = (unsigned long long)beat->entered;
    unsigned long long count = (unsigned long long)beat->count;

    if (beat->peer) {
        snprintf(text, size, "%s (tag %d, %llu bytes)",
                 names[beat->message == YKI_MPI_SEND ? YKI_MPI_SEND : YKI_MPI_RECEIVE],
                 (int)beat->tag, (unsigned long long)beat->bytes);
        return;
    }
    switch (beat->kind) {
    case YKI_MPI_ALLREDUCE:
    case YKI_MPI_REDUCE_SCATTER:
    case YKI_MPI_ALLGATHER:
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

/* Seconds that a rank has waited until now; 0: it does not wait. */
static double
waited_until(const yki_mpi_witness *rank, double now, double limit)
{
    return waits(rank, now, limit) ? rank->beat.waited + (now - rank->heard) : 0;
}

/* The rank that has waited longest until now; -1: none waits. */
static int
longest_waiting(const yki_mpi_witness *ranks, int count, double now, double limit, double *waited)
{
    int found = -1;

    *waited = 0;
    for (int r = 0; r < count; r++) {
        double w = waited_until(&ranks[r], now, limit);

        if (w > *waited) {
            *waited = w;
            found = r;
        }
    }
    return found;
}

/* True if a rank has waited too long for what rank `r` has not come to: a message, or an operation
 * of all ranks, of which the newest is `furthest`. */
static bool
is_needed(const yki_mpi_witness *ranks, int count, int r, uint64_t furthest, double now,
          double limit)
{
    for (int other = 0; other < count; other++) {
        const yki_mpi_beat *beat = &ranks[other].beat;

        if (waited_until(&ranks[other], now, limit) >= limit &&
            (beat->peer ? beat->peer == (uint32_t)r + 1 : ranks[r].beat.entered < furthest))
            return true;
    }
    return false;
}

/* Progress counts as a sign of life: a rank that compiles for long calls `beat` now and then. */
static bool
behind(const yki_mpi_witness *ranks, int count, int r, uint64_t furthest, double now, double limit)
{
    return ranks[r].beat.waited == 0 && now - ranks[r].changed >= limit * 0.999 &&
           is_needed(ranks, count, r, furthest, now, limit);
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

/* Follows the ranks that wait for messages from `r` on. True: they wait for one another. */
static bool
in_circle(const yki_mpi_witness *ranks, int count, int r, double now, double limit)
{
    for (int i = 0; i < count; i++) {
        if (waited_until(&ranks[r], now, limit) < limit || ranks[r].beat.peer < 1 ||
            ranks[r].beat.peer > (uint32_t)count)
            return false;
        r = (int)ranks[r].beat.peer - 1;
    }
    return true;
}

static void
tell_apart(const yki_mpi_witness *ranks, int one, int other, char reason[YKI_MPI_REASON])
{
    char mine[96], theirs[96];

    yki_mpi_name_operation(&ranks[one].beat, mine, sizeof mine);
    yki_mpi_name_operation(&ranks[other].beat, theirs, sizeof theirs);
    snprintf(reason, YKI_MPI_REASON, "rank %d (%s) is in %s, but rank %d (%s) in %s", one,
             ranks[one].host, mine, other, ranks[other].host, theirs);
}

/* No rank is behind: calls do not match, or messages do not arrive. */
static bool
blame_nobody(const yki_mpi_witness *ranks, int count, int waiting, double now, double limit,
             char reason[YKI_MPI_REASON])
{
    double least = waited_until(&ranks[waiting], now, limit);
    const yki_mpi_beat *first = &ranks[waiting].beat;
    int other = waiting;
    char operation[96];

    for (int r = 0; r < count; r++) {
        if (!in_circle(ranks, count, r, now, limit))
            continue;
        tell_apart(ranks, r, (int)ranks[r].beat.peer - 1, reason);
        return true;
    }
    for (int r = 0; r < count; r++) {
        const yki_mpi_beat *beat = &ranks[r].beat;
        double waited = waited_until(&ranks[r], now, limit);

        least = waited < least ? waited : least;
        if (other == waiting && (beat->entered != first->entered || beat->kind != first->kind ||
                                 beat->count != first->count || beat->peer || first->peer))
            other = r;
    }
    /* Somebody works, or has only just come: it will go on now. */
    if (least < limit)
        return false;
    if (other != waiting) {
        tell_apart(ranks, waiting, other, reason);
        return true;
    }
    yki_mpi_name_operation(first, operation, sizeof operation);
    snprintf(reason, YKI_MPI_REASON,
             "all ranks have come to %s, but no message has got through for %.1f s", operation,
             least);
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
    char operation[96 + sizeof "the other end of "], number[64];
    uint64_t furthest = 0;
    size_t length;
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
    snprintf(operation, sizeof operation, "%s",
             ranks[waiting].beat.peer ? "the other end of " : "");
    length = strlen(operation);
    yki_mpi_name_operation(&ranks[waiting].beat, operation + length, sizeof operation - length);
    reason[0] = '\0';
    for (int r = 0; r < count; r++) {
        if (mute ? !silent(&ranks[r], now, limit) : !behind(ranks, count, r, furthest, now, limit))
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

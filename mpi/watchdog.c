/* SPDX-License-Identifier: Apache-2.0
 *
 * watchdog.c - heartbeats over a communicator of their own, and verdicts that follow from them.
 *
 * Messages form a star. At every interval each rank sends its own record to rank 0 (the hub), and
 * the hub sends its record to all. The hub judges. A verdict goes to everybody at once and makes
 * all their calls fail. A report of a rank about itself (`fail`), or about a neighbour on its host
 * whose process has ended, goes the same way. If the hub itself is not heard, each rank that waits
 * notices that alone.
 *
 * Nothing here blocks: sends and receives are polled. Leaving is a message too. When the hub has
 * one from every rank it sends one back, and after that nothing is under way.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

enum { BEAT = 1, VERDICT = 2, LEAVE = 3, TAG = 1 };

/* Seconds between two looks at a neighbour's process, and from its end to the report. Together they
 * are less than the second after which mpirun ends the remaining ranks, so the rank is named in
 * time. */
#define LOOK_EVERY 0.2
#define LOOK_TWICE 0.3

typedef struct message {
    int32_t type;
    int32_t launcher_acts; /* of a verdict: the launcher already ends the ranks */
    yki_mpi_beat beat;
    char reason[YKI_MPI_REASON + 128];
} message;

/* To one rank: a message under way, and a verdict or farewell that must follow it. */
typedef struct channel {
    MPI_Request request;
    message sent;
    int32_t owed; /* VERDICT or LEAVE to be sent next; 0: none */
    bool beat_owed;
} channel;

typedef struct yki_mpi_watchdog {
    yki_mpi_witness *witnesses; /* hub: of all ranks; else [0] the hub, [1] this rank */
    channel *channels;          /* hub: to all; else [0]: to the hub */
    int channel_count;
    MPI_Request receive;
    message incoming;
    message verdict;       /* sent on channels that owe one */
    double interval, poll; /* seconds */
    double next_beat, next_poll;
    double last_turn;
    bool warned;
    int left;   /* ranks that have said farewell */
    bool *gone; /* by rank */
    bool leaving;
    int neighbours[2]; /* ranks on this host whose processes are watched; -1: none */
    double next_look;
    double ended[2]; /* when their end was first seen; 0: they run */
    double absence;  /* seconds that this process did not run, if long enough for the others to give
                        it up */
    double back;     /* when it ran again */
} yki_mpi_watchdog;

static bool
is_hub(const yki_mpi *self)
{
    return self->table.rank == 0;
}

/* ---- messages ---- */

static void
post_receive(yki_mpi *self)
{
    yki_mpi_watchdog *w = self->watchdog;

    MPI_Irecv(&w->incoming, (int)sizeof w->incoming, MPI_BYTE, is_hub(self) ? MPI_ANY_SOURCE : 0,
              TAG, self->beats, &w->receive);
}

static void
fill_beat(yki_mpi *self, yki_mpi_beat *beat)
{
    double now = yki_mpi_now(), limit = self->settings.error > 0 ? self->settings.error : 60;

    pthread_mutex_lock(&self->lock);
    *beat = self->beat;
    beat->waited = 0;
    /* A caller that tested for a result and then went on to something else does not wait. */
    if (self->waiting.since > 0 &&
        (self->waiting.blocked || now - self->waiting.polled < limit / 2))
        beat->waited = now - self->waiting.since + 1e-9;
    pthread_mutex_unlock(&self->lock);
}

/* Sends what channel `c` owes, if its last message has been received. True: nothing is left to
 * send. */
static bool
drain(yki_mpi *self, int c)
{
    yki_mpi_watchdog *w = self->watchdog;
    channel *to = &w->channels[c];
    int sent = 1;

    if (to->request != MPI_REQUEST_NULL &&
        (MPI_Test(&to->request, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || !sent))
        return false;
    if (!to->owed && !to->beat_owed)
        return true;
    if (to->owed == VERDICT) {
        to->sent = w->verdict;
    } else {
        memset(&to->sent, 0, sizeof to->sent);
        to->sent.type = to->owed ? to->owed : BEAT;
        fill_beat(self, &to->sent.beat);
    }
    to->owed = 0;
    to->beat_owed = false;
    /* Synchronous, so that at most one message waits for a rank that does not read. */
    MPI_Issend(&to->sent, (int)sizeof to->sent, MPI_BYTE, is_hub(self) ? c : 0, TAG, self->beats,
               &to->request);
    return false;
}

/* True if the rank behind channel `c` was not heard for so long that it receives nothing either: it
 * is stopped, or its host is gone. */
static bool
is_deaf(const yki_mpi *self, int c)
{
    double error = self->settings.error, limit = error > 0 ? error : 60;

    return yki_mpi_now() - self->watchdog->witnesses[is_hub(self) ? c : 0].heard > limit / 2;
}

/* True: nothing is left to send, except to ranks that receive nothing. A verdict is mostly about
 * one of these, and without the exception every rank would wait for it before it can end. */
static bool
drain_all(yki_mpi *self)
{
    bool empty = true;

    for (int c = is_hub(self) ? 1 : 0; c < self->watchdog->channel_count; c++)
        if (!drain(self, c) && !is_deaf(self, c))
            empty = false;
    return empty;
}

/* Fails this rank with the verdict, and sends it to the others (the hub passes it on). */
static void
spread(yki_mpi *self, const char *sentence)
{
    yki_mpi_watchdog *w = self->watchdog;

    if (w->verdict.type == VERDICT)
        return;
    w->verdict.type = VERDICT;
    w->verdict.launcher_acts = atomic_load(&self->failure.launcher_acts);
    snprintf(w->verdict.reason, sizeof w->verdict.reason, "%s", sentence);
    yki_mpi_set_failure(self, sentence);
    for (int c = is_hub(self) ? 1 : 0; c < w->channel_count; c++)
        w->channels[c].owed = VERDICT;
    drain_all(self);
}

static void
note_beat(yki_mpi_witness *witness, const yki_mpi_beat *beat, double now)
{
    if (beat->entered != witness->beat.entered || beat->signs != witness->beat.signs)
        witness->changed = now;
    witness->beat = *beat;
    witness->heard = now;
}

static void
take(yki_mpi *self, int from)
{
    yki_mpi_watchdog *w = self->watchdog;
    const message *m = &w->incoming;

    switch (m->type) {
    case VERDICT:
        if (m->launcher_acts)
            atomic_store(&self->failure.launcher_acts, true);
        if (is_hub(self))
            spread(self, m->reason);
        else
            yki_mpi_set_failure(self, m->reason);
        break;
    case LEAVE:
        if (!w->gone[from])
            w->left++;
        w->gone[from] = true;
        break;
    default:
        note_beat(&w->witnesses[from], &m->beat, yki_mpi_now());
    }
}

static void
receive_all(yki_mpi *self)
{
    yki_mpi_watchdog *w = self->watchdog;
    MPI_Status status;
    int come = 0;

    while (w->receive != MPI_REQUEST_NULL && MPI_Test(&w->receive, &come, &status) == MPI_SUCCESS &&
           come) {
        take(self, status.MPI_SOURCE);
        if (!is_hub(self) && w->gone[0])
            return; /* the hub's farewell is its last message */
        post_receive(self);
    }
}

/* ---- judging ---- */

/* True if a process of this host has ended: its rank left without a message. */
static bool
has_ended(const yki_mpi_identity *peer)
{
    char name[64], line[256], *end;
    size_t length;
    FILE *file;

    snprintf(name, sizeof name, "/proc/%lld/stat", (long long)peer->pid);
    file = fopen(name, "r");
    if (!file)
        return errno == ENOENT;
    length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    end = strrchr(line, ')'); /* "12 (name) S ..." */
    return end && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
}

/* True if this process was stopped for so long that the others gave it up. A launcher continues a
 * stopped process in order to end it, and waits for it. So it must leave at once, and blame nobody
 * else. */
static bool
was_given_up(const yki_mpi_watchdog *w, double now)
{
    return w->absence > 0 && now - w->back < 5;
}

/* An ended process is not reported at once: the hub's verdict on it may be on its way; and if the
 * launcher is ending all ranks, there is nothing left to say. */
static void
look_at_neighbours(yki_mpi *self, double now)
{
    yki_mpi_watchdog *w = self->watchdog;
    const yki_mpi_identity *me = &self->peers[self->table.rank];
    char sentence[YKI_MPI_REASON];

    for (int i = 0; i < 2; i++) {
        int rank = w->neighbours[i];

        if (rank < 0 || !has_ended(&self->peers[rank]))
            continue;
        if (was_given_up(w, now)) {
            snprintf(sentence, sizeof sentence,
                     "rank %d (%s, process %lld) did not run for %.1f s, and the others have ended",
                     self->table.rank, me->host, (long long)me->pid, w->absence);
            spread(self, sentence);
            return;
        }
        if (w->ended[i] == 0)
            w->ended[i] = now;
        if (now - w->ended[i] < LOOK_TWICE)
            continue;
        snprintf(sentence, sizeof sentence, "rank %d (%s, process %lld) has ended without a word",
                 rank, self->peers[rank].host, (long long)self->peers[rank].pid);
        w->neighbours[i] = -1;
        atomic_store(&self->failure.launcher_acts, true);
        spread(self, sentence);
    }
}

static void
judge(yki_mpi *self, double now)
{
    yki_mpi_watchdog *w = self->watchdog;
    int count = is_hub(self) ? self->table.ranks : 2;
    char reason[YKI_MPI_REASON], sentence[YKI_MPI_REASON + 64];
    yki_mpi_beat mine;

    fill_beat(self, &mine);
    note_beat(&w->witnesses[is_hub(self) ? 0 : 1], &mine, now);
    /* A rank that is not the hub knows only the hub, so all it can find is that the hub is silent.
     */
    if (!is_hub(self) && (self->settings.error < 0 || mine.waited < self->settings.error ||
                          now - w->witnesses[0].heard <= self->settings.error / 2))
        return;
    if (yki_mpi_judge(w->witnesses, count, now, self->settings.error, reason)) {
        spread(self, reason);
        return;
    }
    if (!is_hub(self) || !yki_mpi_judge(w->witnesses, count, now, self->settings.warn, reason)) {
        w->warned = false;
        return;
    }
    if (w->warned)
        return;
    w->warned = true;
    snprintf(sentence, sizeof sentence, "waiting: %s", reason);
    yoke_log_write(YOKE_LOG_WARNING, sentence);
}

/* ---- one pass: receive, send, judge ---- */

/* While this process did not run (it was stopped and continued, the machine slept, no call of the
 * library was in progress) it could hear nobody, so that time does not count as their silence.
 * Also, a process that the launcher continues in order to end it sees first that others are gone.
 */
static void
forgive_absence(yki_mpi *self, double now)
{
    yki_mpi_watchdog *w = self->watchdog;
    double warn = self->settings.warn, error = self->settings.error;
    double limit = warn > 0 && (error <= 0 || warn < error) ? warn : error;
    double absence = w->last_turn > 0 ? now - w->last_turn : 0;

    w->last_turn = now;
    if (error > 0 && absence > error / 2) {
        w->absence = absence;
        w->back = now;
    }
    if (absence > limit / 4)
        yki_mpi_forgive(w->witnesses, is_hub(self) ? self->table.ranks : 2, now, absence);
}

static void
turn(yki_mpi *self, double now)
{
    yki_mpi_watchdog *w = self->watchdog;

    forgive_absence(self, now);
    receive_all(self);
    if (now >= w->next_beat) {
        w->next_beat = now + w->interval;
        for (int c = 0; c < w->channel_count; c++)
            w->channels[c].beat_owed = !w->leaving;
    }
    if (now >= w->next_look && !w->leaving && !atomic_load(&self->failure.set)) {
        w->next_look = now + (was_given_up(w, now) ? LOOK_EVERY / 4 : LOOK_EVERY);
        look_at_neighbours(self, now);
    }
    if (drain_all(self) && w->verdict.type == VERDICT &&
        !atomic_exchange(&self->failure.reported, true)) {
        pthread_mutex_lock(&self->lock);
        pthread_cond_broadcast(&self->changed);
        pthread_mutex_unlock(&self->lock);
    }
    if (!w->leaving && !atomic_load(&self->failure.set))
        judge(self, now);
}

void
yki_mpi_watchdog_tick(yki_mpi *self)
{
    yki_mpi_watchdog *w = self->watchdog;
    double now;

    if (!w || self->threaded)
        return;
    now = yki_mpi_now();
    if (now < w->next_poll)
        return;
    w->next_poll = now + w->poll;
    turn(self, now);
}

static struct timespec
time_in(double seconds)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += (long)(seconds * 1e9); /* less than a second */
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return end;
}

static void
doze(yki_mpi *self, double seconds)
{
    struct timespec end = time_in(seconds);

    pthread_mutex_lock(&self->lock);
    if (!self->stop)
        pthread_cond_timedwait(&self->watchdog_wakes, &self->lock, &end);
    pthread_mutex_unlock(&self->lock);
}

void *
yki_mpi_watchdog_run(void *argument)
{
    yki_mpi *self = argument;

    for (;;) {
        bool stop;

        pthread_mutex_lock(&self->lock);
        stop = self->stop;
        if (self->failure.report[0] && self->watchdog->verdict.type != VERDICT) {
            char sentence[sizeof self->failure.report];

            memcpy(sentence, self->failure.report, sizeof sentence);
            pthread_mutex_unlock(&self->lock);
            spread(self, sentence);
        } else {
            pthread_mutex_unlock(&self->lock);
        }
        if (stop)
            return NULL;
        turn(self, yki_mpi_now());
        doze(self, self->watchdog->poll);
    }
}

/* Waits up to a second until a verdict is received. Not for use while the thread runs. */
static void
flush(yki_mpi *self)
{
    double end = yki_mpi_now() + 1;
    unsigned naps = 0;

    while (!drain_all(self) && yki_mpi_now() < end)
        yki_mpi_nap(&naps);
}

void
yki_mpi_watchdog_report(yki_mpi *self, const char *sentence)
{
    struct timespec end;

    if (!self->watchdog) {
        yki_mpi_set_failure(self, sentence);
        return;
    }
    if (!self->threaded) {
        spread(self, sentence);
        flush(self);
        return;
    }
    end = time_in(0.999);
    pthread_mutex_lock(&self->lock);
    if (!self->failure.report[0])
        snprintf(self->failure.report, sizeof self->failure.report, "%s", sentence);
    pthread_cond_signal(&self->watchdog_wakes);
    while (!atomic_load(&self->failure.reported))
        if (pthread_cond_timedwait(&self->changed, &self->lock, &end) == ETIMEDOUT)
            break;
    pthread_mutex_unlock(&self->lock);
}

/* The thread, if there was one, has ended before. */
void
yki_mpi_watchdog_leave(yki_mpi *self)
{
    yki_mpi_watchdog *w = self->watchdog;
    double end = yki_mpi_now() + (self->settings.error > 0 ? self->settings.error : 60);
    unsigned naps = 0;

    if (!w)
        return;
    if (atomic_load(&self->failure.set)) {
        flush(self);
        return;
    }
    w->leaving = true;
    if (!is_hub(self))
        w->channels[0].owed = LEAVE;
    while (yki_mpi_now() < end && !atomic_load(&self->failure.set)) {
        receive_all(self);
        if (is_hub(self) && w->left == self->table.ranks - 1)
            break;
        drain_all(self);
        if (!is_hub(self) && w->gone[0])
            break;
        yki_mpi_nap(&naps);
    }
    if (is_hub(self) && w->left == self->table.ranks - 1)
        for (int c = 1; c < w->channel_count; c++)
            w->channels[c].owed = LEAVE;
    flush(self);
    if (w->left == (is_hub(self) ? self->table.ranks - 1 : 1) && w->receive != MPI_REQUEST_NULL) {
        MPI_Cancel(&w->receive);
        MPI_Wait(&w->receive, MPI_STATUS_IGNORE);
    }
}

/* ---- making one ---- */

/* Watches the next rank of this host, in a circle, and rank 0. So another process watches every
 * process. */
static void
choose_neighbours(yki_mpi *self)
{
    const yki_mpi_identity *me = &self->peers[self->table.rank];
    int ranks = self->table.ranks;

    self->watchdog->neighbours[0] = self->watchdog->neighbours[1] = -1;
    for (int i = ranks - 1; i > 0; i--) {
        int r = (self->table.rank + i) % ranks;
        const yki_mpi_identity *peer = &self->peers[r];

        if (strcmp(peer->boot, me->boot) != 0 || peer->pid_space != me->pid_space ||
            has_ended(peer))
            continue;
        self->watchdog->neighbours[0] = r;
        if (r == 0)
            self->watchdog->neighbours[1] = 0;
    }
    if (self->watchdog->neighbours[0] == self->watchdog->neighbours[1])
        self->watchdog->neighbours[1] = -1;
}

yoke_status
yki_mpi_watchdog_create(yki_mpi *self)
{
    double error = self->settings.error, warn = self->settings.warn;
    double least = error > 0 && (warn < 0 || error < warn) ? error : warn;
    size_t ranks = (size_t)self->table.ranks;
    yki_mpi_watchdog *w;

    if ((error < 0 && warn < 0) || ranks < 2)
        return YOKE_OK;
    w = calloc(1, sizeof *w);
    if (!w)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for the watchdog");
    self->watchdog = w;
    w->channel_count = is_hub(self) ? self->table.ranks : 1;
    w->witnesses = calloc(ranks, sizeof *w->witnesses);
    w->gone = calloc(ranks, sizeof *w->gone);
    w->channels = calloc((size_t)w->channel_count, sizeof *w->channels);
    if (!w->witnesses || !w->gone || !w->channels)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for the watchdog");
    for (int c = 0; c < w->channel_count; c++)
        w->channels[c].request = MPI_REQUEST_NULL;
    for (size_t r = 0; r < ranks; r++) {
        w->witnesses[r].heard = w->witnesses[r].changed = yki_mpi_now();
        snprintf(w->witnesses[r].host, YKI_MPI_HOST, "%s", self->peers[r].host);
    }
    if (!is_hub(self)) /* [1] is this rank */
        snprintf(w->witnesses[1].host, YKI_MPI_HOST, "%s", self->table.host);
    w->interval = least / 20 < 0.01 ? 0.01 : least / 20 > 1 ? 1 : least / 20;
    w->poll = w->interval / 4 > 0.05 ? 0.05 : w->interval / 4;
    choose_neighbours(self);
    post_receive(self);
    return YOKE_OK;
}

void
yki_mpi_watchdog_destroy(yki_mpi *self)
{
    yki_mpi_watchdog *w = self->watchdog;

    if (!w)
        return;
    free(w->witnesses);
    free(w->gone);
    free(w->channels);
    free(w);
    self->watchdog = NULL;
}

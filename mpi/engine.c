/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - operations. An operation is a call of the table that involves all ranks.
 *
 * MPI wants collective calls in the same order on all ranks. All ranks ask in the same order, so
 * reductions stand in one queue. If there is a worker, it handles the queue. Inline, a reduction is
 * started at once, and whoever waits polls it. All other operations bypass the queue over another
 * communicator, while the caller waits.
 *
 * Every wait polls and sleeps, so it can be given up when a rank is lost. Only MPI_Allreduce itself
 * can block. So ranks meet before it, polling asleep, and it takes no longer than the transfer.
 *
 * MPI cannot be made to forget an operation that is given up, so its arrays are not freed. The
 * algorithms of reductions are MPI's.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

double
yki_mpi_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void
yki_mpi_nap(unsigned *turn)
{
    struct timespec t = {0, 20000};

    t.tv_nsec = *turn < 8 ? 20000 : *turn < 64 ? 60000 : *turn < 1000 ? 200000 : 1000000;
    ++*turn;
    nanosleep(&t, NULL);
}

yoke_status
yki_mpi_error(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "", sentence[MPI_MAX_ERROR_STRING + 80];
    int length = 0;

    MPI_Error_string(code, text, &length);
    snprintf(sentence, sizeof sentence, "%s: %s", what, text);
    return yoke_fail(YOKE_ERROR_COMM, sentence);
}

yoke_status
yki_mpi_thread(void *(*run)(void *), void *argument, pthread_t *thread)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "cannot start a thread for communication")
                 : YOKE_OK;
}

/* ---- failure ---- */

void
yki_mpi_set_failure(yki_mpi *self, const char *sentence)
{
    pthread_mutex_lock(&self->lock);
    if (!atomic_load(&self->failed)) {
        snprintf(self->failure, sizeof self->failure, "%s", sentence);
        atomic_store(&self->failed, true);
        if (self->first || self->direct)
            atomic_store(&self->abandoned, true);
    }
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

yoke_status
yki_mpi_failure(yki_mpi *self)
{
    return yoke_fail(YOKE_ERROR_COMM, self->failure);
}

void
yki_mpi_fail_with(yki_mpi *self, int code, const char *what)
{
    char sentence[sizeof self->failure];

    yki_mpi_error(code, what);
    snprintf(sentence, sizeof sentence, "rank %d (%s): %s", (int)self->table.rank, self->table.host,
             yoke_last_error());
    yki_mpi_set_failure(self, sentence);
    yki_mpi_watchdog_report(self, sentence);
}

/* ---- MPI's part of an operation ---- */

/* Elements of the chunk that begins at `begin`. MPI counts in int. */
static int
chunk_count(const yki_mpi *self, const yki_mpi_operation *o, size_t begin)
{
    size_t size = o->kind == YKI_MPI_ALLREDUCE ? sizeof(float) : 1;
    size_t most = (size_t)self->settings.chunk / size;

    most = most > INT_MAX ? INT_MAX : most;
    return (int)(o->count - begin < most ? o->count - begin : most);
}

/* Starts chunk after chunk; `o->requests` has room for all. */
int
yki_mpi_reduce_start(yki_mpi *self, yki_mpi_operation *o, const float *in, float *out)
{
    int code = MPI_SUCCESS, n = 0;

    for (size_t at = 0; at < o->count && code == MPI_SUCCESS; n++) {
        int count = chunk_count(self, o, at);

        code =
            MPI_Iallreduce(in + at, out + at, count, MPI_FLOAT, MPI_SUM, o->comm, &o->requests[n]);
        at += (size_t)count;
    }
    return code;
}

static int
start_broadcast(yki_mpi *self, yki_mpi_operation *o)
{
    int code = MPI_SUCCESS, n = 0;

    for (size_t at = 0; at < o->count && code == MPI_SUCCESS; n++) {
        int count = chunk_count(self, o, at);

        code = MPI_Ibcast((char *)o->out + at, count, MPI_BYTE, o->root, o->comm, &o->requests[n]);
        at += (size_t)count;
    }
    return code;
}

/* If all bytes are too many for one call, each rank in turn broadcasts its own. */
static int
start_gather(yki_mpi *self, yki_mpi_operation *o)
{
    size_t ranks = (size_t)self->table.ranks;
    int code = MPI_SUCCESS, per_rank = o->request_count / self->table.ranks;

    if (o->count * ranks <= self->settings.chunk)
        return MPI_Iallgather(o->in, (int)o->count, MPI_BYTE, o->out, (int)o->count, MPI_BYTE,
                              o->comm, &o->requests[0]);
    memcpy((char *)o->out + o->count * (size_t)self->table.rank, o->in, o->count);
    for (int r = 0; r < self->table.ranks && code == MPI_SUCCESS; r++) {
        yki_mpi_operation part = {.kind = YKI_MPI_BROADCAST,
                                  .out = (char *)o->out + o->count * (size_t)r,
                                  .count = o->count,
                                  .root = r,
                                  .comm = o->comm,
                                  .requests = o->requests + r * per_rank};

        code = start_broadcast(self, &part);
    }
    return code;
}

static yoke_status
make_requests(yki_mpi *self, yki_mpi_operation *o)
{
    size_t size = o->kind == YKI_MPI_ALLREDUCE ? sizeof(float) : 1;
    size_t chunks = (o->count * size + self->settings.chunk - 1) / self->settings.chunk + 1;

    /* A chunk holds whole values, so there may be more chunks than the bytes suggest. */
    if (o->kind == YKI_MPI_ALLREDUCE)
        chunks = o->count / (self->settings.chunk / size) + 1;
    if (o->kind == YKI_MPI_GATHER)
        chunks *= (size_t)self->table.ranks;
    o->requests = malloc(chunks * sizeof *o->requests);
    if (!o->requests || chunks > INT_MAX)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for the requests of an operation");
    o->request_count = (int)chunks;
    for (size_t i = 0; i < chunks; i++)
        o->requests[i] = MPI_REQUEST_NULL;
    return YOKE_OK;
}

/* Starts all non-blocking calls of an operation. */
static int
start_requests(yki_mpi *self, yki_mpi_operation *o)
{
    o->started = true;
    switch (o->kind) {
    case YKI_MPI_BARRIER:
        return MPI_Ibarrier(o->comm, &o->requests[0]);
    case YKI_MPI_GATHER:
        return start_gather(self, o);
    case YKI_MPI_BROADCAST:
        return start_broadcast(self, o);
    default:
        return yki_mpi_reduce_start(self, o, o->in, o->out);
    }
}

/* Tests one by one, because gcc warns of MPI_Testall with MPICH's MPI_STATUSES_IGNORE. */
int
yki_mpi_reduce_test(yki_mpi_operation *o, int *done)
{
    int code = MPI_SUCCESS;

    *done = 1;
    for (int i = 0; i < o->request_count && code == MPI_SUCCESS && *done; i++)
        if (o->requests[i] != MPI_REQUEST_NULL)
            code = MPI_Test(&o->requests[i], done, MPI_STATUS_IGNORE);
    return code;
}

/* Notes for the heartbeats that the caller waits. Needs the lock. */
static void
note_waiting(yki_mpi *self, bool blocked)
{
    self->polled = yki_mpi_now();
    if (self->waiting_since == 0)
        self->waiting_since = self->polled;
    self->blocked = blocked;
}

/* Polls `o`, with sleeps, until it is done (true) or the communication has failed. */
static bool
poll_requests(yki_mpi *self, yki_mpi_operation *o)
{
    unsigned turn = 0;

    for (;;) {
        int done = 0, code = yki_mpi_reduce_test(o, &done);

        if (code != MPI_SUCCESS)
            yki_mpi_fail_with(self, code, "a collective operation of MPI's");
        if (atomic_load(&self->failed))
            return false;
        if (done)
            return true;
        if (!self->threaded) {
            pthread_mutex_lock(&self->lock);
            note_waiting(self, true);
            pthread_mutex_unlock(&self->lock);
            yki_mpi_watchdog_tick(self);
        }
        yki_mpi_nap(&turn);
    }
}

/* Waits until all ranks of `comm` have come, so that the next call takes only the transfer. */
static bool
meet(yki_mpi *self, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    yki_mpi_operation o = {
        .kind = YKI_MPI_BARRIER, .comm = comm, .requests = &request, .request_count = 1};
    int code = start_requests(self, &o);

    if (code != MPI_SUCCESS) {
        yki_mpi_fail_with(self, code, "MPI_Ibarrier");
        return false;
    }
    return poll_requests(self, &o);
}

bool
yki_mpi_reduce(yki_mpi *self, yki_mpi_operation *o, yoke_mpi_mode mode, const float *in, float *out)
{
    int code = MPI_SUCCESS;

    if (self->settings.arrive && !meet(self, o->comm))
        return false;
    for (size_t at = 0; at < o->count && code == MPI_SUCCESS;) {
        int count = chunk_count(self, o, at);

        if (mode == YOKE_MPI_REDUCE_BROADCAST) {
            code = MPI_Reduce(in + at, out + at, count, MPI_FLOAT, MPI_SUM, 0, o->comm);
            if (code == MPI_SUCCESS)
                code = MPI_Bcast(out + at, count, MPI_FLOAT, 0, o->comm);
        } else {
            code = MPI_Allreduce(in + at, out + at, count, MPI_FLOAT, MPI_SUM, o->comm);
        }
        at += (size_t)count;
    }
    if (code != MPI_SUCCESS)
        yki_mpi_fail_with(self, code, "a reduction of MPI's");
    return code == MPI_SUCCESS;
}

/* Non-blocking reductions may be under way together. Any other operation runs alone, when it is
 * first in the queue. */
static bool
is_nonblocking(const yki_mpi_operation *o)
{
    return o->kind == YKI_MPI_ALLREDUCE && o->mode == YOKE_MPI_NONBLOCKING;
}

/* ---- the queue of reductions ---- */

/* Removes an operation from the queue. Needs the lock. */
static void
take_out(yki_mpi *self, yki_mpi_operation *o)
{
    yki_mpi_operation *before = NULL;

    for (yki_mpi_operation *at = self->first; at; before = at, at = at->next) {
        if (at != o)
            continue;
        if (before)
            before->next = o->next;
        else
            self->first = o->next;
        if (self->last == o)
            self->last = before;
        return;
    }
}

static void
complete(yki_mpi *self, yki_mpi_operation *o)
{
    pthread_mutex_lock(&self->lock);
    take_out(self, o);
    o->done = true;
    self->beat.signs++;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

/* Starts the non-blocking operations in the queue, up to the first that must run alone. Runs inline
 * or in the worker. */
static void
start_line(yki_mpi *self)
{
    for (;;) {
        yki_mpi_operation *o;
        int code;

        pthread_mutex_lock(&self->lock);
        for (o = self->first; o && o->started; o = o->next)
            ;
        pthread_mutex_unlock(&self->lock);
        if (!o || !is_nonblocking(o) || atomic_load(&self->failed))
            return;
        code = start_requests(self, o);
        if (code != MPI_SUCCESS)
            yki_mpi_fail_with(self, code, "starting a collective operation of MPI's");
    }
}

/* Advances the first operation of the queue, which runs alone. True: there was progress. */
static bool
advance_first(yki_mpi *self, yki_mpi_operation *o)
{
    bool done = false, progress = true;

    if (o->kind == YKI_MPI_ALLREDUCE && o->mode == YOKE_MPI_SHARED) {
        o->started = true;
        progress = yki_mpi_shared_advance(self, o, &done);
    } else if (!o->started) {
        o->started = true;
        if (o->kind == YKI_MPI_SHARE)
            done = meet(self, self->data) && yki_mpi_shared_make(self, o);
        else
            done = yki_mpi_reduce(self, o, o->mode, o->in, o->out);
    }
    if (done)
        complete(self, o);
    return progress;
}

/* Does what can be done without waiting. True: there was progress. */
static bool
advance(yki_mpi *self)
{
    yki_mpi_operation *o, *next;
    bool progress = false;

    start_line(self);
    pthread_mutex_lock(&self->lock);
    o = self->first;
    pthread_mutex_unlock(&self->lock);
    if (o && !is_nonblocking(o) && !atomic_load(&self->failed))
        return advance_first(self, o);
    for (; o && o->started && !atomic_load(&self->failed); o = next) {
        int done = 0, code;

        pthread_mutex_lock(&self->lock);
        next = o->next;
        pthread_mutex_unlock(&self->lock);
        if (!is_nonblocking(o))
            break;
        code = yki_mpi_reduce_test(o, &done);
        if (code != MPI_SUCCESS)
            yki_mpi_fail_with(self, code, "a collective operation of MPI's");
        else if (done) {
            complete(self, o); /* from here on `o` belongs to its owner */
            progress = true;
        }
    }
    return progress;
}

void *
yki_mpi_worker(void *argument)
{
    yki_mpi *self = argument;
    unsigned turn = 0;

    for (;;) {
        pthread_mutex_lock(&self->lock);
        while (!self->first && !self->stop && !atomic_load(&self->failed)) {
            pthread_cond_wait(&self->changed, &self->lock);
            turn = 0;
        }
        if ((self->stop && !self->first) || atomic_load(&self->failed)) {
            pthread_mutex_unlock(&self->lock);
            break;
        }
        pthread_mutex_unlock(&self->lock);
        if (advance(self))
            turn = 0;
        else
            yki_mpi_nap(&turn);
    }
    atomic_store(&self->worker_gone, true);
    return NULL;
}

/* Numbers an operation when the caller asks for it. Needs the lock. */
static void
note_entered(yki_mpi *self, const yki_mpi_operation *o)
{
    self->beat.entered++;
    self->beat.signs++;
    self->beat.kind = (uint32_t)o->kind;
    self->beat.count = o->count;
    self->waiting_since = 0;
}

static yoke_status
prepare(yki_mpi *self, yki_mpi_operation *o, MPI_Comm comm)
{
    yoke_status status;

    if (atomic_load(&self->failed))
        return yki_mpi_failure(self);
    o->comm = comm;
    status = make_requests(self, o);
    if (status != YOKE_OK)
        free(o->requests);
    return status;
}

yoke_status
yki_mpi_enter(yki_mpi *self, yki_mpi_operation *o)
{
    yoke_status status = prepare(self, o, self->data);

    if (status != YOKE_OK)
        return status;
    pthread_mutex_lock(&self->lock);
    note_entered(self, o);
    if (self->last)
        self->last->next = o;
    else
        self->first = o;
    self->last = o;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    if (!self->threaded) {
        advance(self);
        yki_mpi_watchdog_tick(self);
    }
    return YOKE_OK;
}

/* Reductions that are under way advance meanwhile: another rank may wait for them before it comes
 * to this operation. */
static void
poll_directly(yki_mpi *self, yki_mpi_operation *o, int *done)
{
    unsigned turn = 0;

    while (!atomic_load(&self->failed)) {
        int code = yki_mpi_reduce_test(o, done);

        if (code != MPI_SUCCESS)
            yki_mpi_fail_with(self, code, "a collective operation of MPI's");
        if (*done || code != MPI_SUCCESS)
            return;
        pthread_mutex_lock(&self->lock);
        note_waiting(self, true);
        pthread_mutex_unlock(&self->lock);
        if (!self->threaded) {
            advance(self);
            yki_mpi_watchdog_tick(self);
        }
        yki_mpi_nap(&turn);
    }
}

yoke_status
yki_mpi_perform(yki_mpi *self, yki_mpi_operation *o, bool *done)
{
    yoke_status status = prepare(self, o, self->few);
    int code, through = 0;

    *done = status != YOKE_OK;
    if (status != YOKE_OK) {
        o->requests = NULL;
        return status;
    }
    pthread_mutex_lock(&self->lock);
    note_entered(self, o);
    self->direct = true;
    pthread_mutex_unlock(&self->lock);
    code = start_requests(self, o);
    if (code != MPI_SUCCESS)
        yki_mpi_fail_with(self, code, "starting a collective operation of MPI's");
    else
        poll_directly(self, o, &through);
    pthread_mutex_lock(&self->lock);
    self->direct = self->blocked = false;
    self->waiting_since = 0;
    self->beat.signs += through != 0;
    pthread_mutex_unlock(&self->lock);
    *done = through;
    return through ? YOKE_OK : yki_mpi_failure(self);
}

yoke_status
yki_mpi_finish(yki_mpi *self, yki_mpi_operation *o, bool wait, bool *done)
{
    unsigned turn = 0;

    pthread_mutex_lock(&self->lock);
    for (;;) {
        if (!self->threaded && !o->done) {
            pthread_mutex_unlock(&self->lock);
            advance(self);
            yki_mpi_watchdog_tick(self);
            pthread_mutex_lock(&self->lock);
        }
        if (o->done || atomic_load(&self->failed))
            break;
        note_waiting(self, wait);
        if (!wait)
            break;
        if (self->threaded) {
            pthread_cond_wait(&self->changed, &self->lock);
        } else {
            pthread_mutex_unlock(&self->lock);
            yki_mpi_nap(&turn);
            pthread_mutex_lock(&self->lock);
        }
    }
    self->blocked = false;
    if (o->done || atomic_load(&self->failed))
        self->waiting_since = 0;
    *done = o->done;
    pthread_mutex_unlock(&self->lock);
    return !*done && atomic_load(&self->failed) ? yki_mpi_failure(self) : YOKE_OK;
}

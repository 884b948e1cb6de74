/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - operations. An operation is a call of the table that involves all ranks, or two.
 *
 * MPI wants collective calls in the same order on all ranks. All ranks ask in the same order, so
 * reductions and pieces stand in one queue. If there is a worker, it handles the queue. Inline, an
 * operation is started at once, and whoever waits polls it. Blocking calls and messages between two
 * ranks bypass the queue over another communicator: the caller starts and polls them itself.
 *
 * Every wait polls and sleeps, so it can be given up when a rank is lost. Only MPI_Allreduce itself
 * can block. So ranks meet before it, polling asleep, and it takes no longer than the transfer.
 *
 * MPI cannot be made to forget an operation that is given up, so its arrays are not freed.
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
    return error ? yoke_fail(
                       YOKE_ERROR_OUT_OF_MEMORY,
                       "no thread could be started for communication; the system allows no more")
                 : YOKE_OK;
}

/* ---- failure ---- */

void
yki_mpi_set_failure(yki_mpi *self, const char *sentence)
{
    pthread_mutex_lock(&self->lock);
    if (!atomic_load(&self->failure.set)) {
        snprintf(self->failure.text, sizeof self->failure.text, "%s", sentence);
        atomic_store(&self->failure.set, true);
        if (self->first || self->direct > 0)
            atomic_store(&self->threads.abandoned, true);
    }
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

yoke_status
yki_mpi_failure(yki_mpi *self)
{
    return yoke_fail(YOKE_ERROR_COMM, self->failure.text);
}

void
yki_mpi_fail_with(yki_mpi *self, int code, const char *what)
{
    char sentence[sizeof self->failure.text];

    if (code == MPI_ERR_TRUNCATE)
        what = "a message does not have the bytes that its receiver expects";
    yki_mpi_error(code, what);
    snprintf(sentence, sizeof sentence, "rank %d (%s): %s", (int)self->table.rank, self->table.host,
             yoke_last_error());
    yki_mpi_set_failure(self, sentence);
    yki_mpi_watchdog_report(self, sentence);
}

/* ---- MPI's part of an operation ---- */

/* Two ranks make it, in no order with what all ranks do. */
static bool
is_message(const yki_mpi_operation *o)
{
    return o->kind == YKI_MPI_SEND || o->kind == YKI_MPI_RECEIVE;
}

/* It bypasses the queue. */
static bool
is_direct(const yki_mpi_operation *o)
{
    return is_message(o) || o->kind == YKI_MPI_BROADCAST || o->kind == YKI_MPI_GATHER ||
           o->kind == YKI_MPI_BARRIER;
}

/* Values of the chunk that begins at `begin`. MPI counts in int. */
static int
chunk_count(const yki_mpi *self, const yki_mpi_operation *o, size_t begin)
{
    size_t most = (size_t)self->settings.chunk / yki_mpi_type_size(o->type);

    most = most > INT_MAX ? INT_MAX : most;
    return (int)(o->count - begin < most ? o->count - begin : most);
}

/* Starts chunk after chunk; `o->requests` has room for all. */
int
yki_mpi_reduce_start(yki_mpi *self, yki_mpi_operation *o, const void *in, void *out)
{
    size_t size = yki_mpi_type_size(o->type);
    int code = MPI_SUCCESS, n = 0;

    for (size_t at = 0; at < o->count && code == MPI_SUCCESS; n++) {
        int count = chunk_count(self, o, at);

        code = MPI_Iallreduce((const char *)in + at * size, (char *)out + at * size, count,
                              yki_mpi_type(o->type), MPI_SUM, o->comm, &o->requests[n]);
        at += (size_t)count;
    }
    return code;
}

static yoke_status
make_requests(yki_mpi *self, yki_mpi_operation *o)
{
    size_t chunks = 1, own;

    if (o->kind == YKI_MPI_ALLREDUCE)
        chunks = o->count / (self->settings.chunk / yki_mpi_type_size(o->type)) + 1;
    else if (o->offsets || is_message(o))
        chunks = yki_mpi_count_messages(self, o);
    if (o->kind == YKI_MPI_REDUCE_SCATTER) {
        own = o->offsets[self->table.rank + 1] - o->offsets[self->table.rank];
        o->box = malloc((size_t)self->table.ranks * own * yki_mpi_type_size(o->type) + 1);
    }
    o->requests = malloc(chunks * sizeof *o->requests);
    if (!o->requests || chunks > INT_MAX || (o->kind == YKI_MPI_REDUCE_SCATTER && !o->box))
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
        return MPI_Iallgather(o->in, (int)o->count, MPI_BYTE, o->out, (int)o->count, MPI_BYTE,
                              o->comm, &o->requests[0]);
    case YKI_MPI_BROADCAST:
        return MPI_Ibcast(o->out, (int)o->count, MPI_BYTE, o->peer, o->comm, &o->requests[0]);
    case YKI_MPI_REDUCE_SCATTER:
    case YKI_MPI_ALLGATHER:
        return yki_mpi_exchange_start(self, o);
    case YKI_MPI_SEND:
    case YKI_MPI_RECEIVE:
        return yki_mpi_message_start(self, o);
    default:
        return yki_mpi_reduce_start(self, o, o->in, o->out);
    }
}

/* Tests one by one, because gcc warns of MPI_Testall with MPICH's MPI_STATUSES_IGNORE. */
int
yki_mpi_reduce_test(yki_mpi_operation *o, int *done)
{
    int code = MPI_SUCCESS, bytes = 0;
    MPI_Status arrived;

    *done = 1;
    for (int i = 0; i < o->request_count && code == MPI_SUCCESS && *done; i++) {
        if (o->requests[i] == MPI_REQUEST_NULL)
            continue;
        code = MPI_Test(&o->requests[i], done, &arrived);
        if (code == MPI_SUCCESS && *done && o->kind == YKI_MPI_RECEIVE) {
            code = MPI_Get_count(&arrived, MPI_BYTE, &bytes);
            o->received += (size_t)bytes;
        }
    }
    /* MPI itself refuses a message that is longer than its receiver expects, but not a shorter. */
    if (code == MPI_SUCCESS && *done && o->kind == YKI_MPI_RECEIVE && o->received < o->count)
        code = MPI_ERR_TRUNCATE;
    return code;
}

/* Notes for the heartbeats that the caller waits for `o`. Needs the lock. */
static void
note_waiting(yki_mpi *self, const yki_mpi_operation *o, bool blocked)
{
    self->beat.peer = 0;
    if (is_message(o)) {
        self->beat.peer = (uint32_t)o->peer + 1;
        self->beat.message = (uint32_t)o->kind;
        self->beat.tag = o->tag;
        self->beat.bytes = o->count;
    }
    self->waiting.polled = yki_mpi_now();
    if (self->waiting.since == 0)
        self->waiting.since = self->waiting.polled;
    self->waiting.blocked = blocked;
}

/* Polls `o`, with sleeps, until it is done (true) or the communication has failed. */
static bool
poll_requests(yki_mpi *self, yki_mpi_operation *o)
{
    unsigned turn = 0;

    for (;;) {
        int done = 0, code = yki_mpi_reduce_test(o, &done);

        if (code != MPI_SUCCESS)
            yki_mpi_fail_with(self, code, "an operation of MPI's");
        if (atomic_load(&self->failure.set))
            return false;
        if (done)
            return true;
        if (!self->threaded) {
            pthread_mutex_lock(&self->lock);
            note_waiting(self, o, true);
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
yki_mpi_reduce(yki_mpi *self, yki_mpi_operation *o, yoke_mpi_mode mode, const void *in, void *out)
{
    MPI_Datatype type = yki_mpi_type(o->type);
    int code = MPI_SUCCESS;

    if (self->settings.arrive && !meet(self, o->comm))
        return false;
    for (size_t at = 0; at < o->count && code == MPI_SUCCESS;) {
        int count = chunk_count(self, o, at);
        const char *from = (const char *)in + at * yki_mpi_type_size(o->type);
        char *to = (char *)out + at * yki_mpi_type_size(o->type);

        if (mode == YOKE_MPI_REDUCE_BROADCAST) {
            code = MPI_Reduce(from, to, count, type, MPI_SUM, 0, o->comm);
            if (code == MPI_SUCCESS)
                code = MPI_Bcast(to, count, type, 0, o->comm);
        } else {
            code = MPI_Allreduce(from, to, count, type, MPI_SUM, o->comm);
        }
        at += (size_t)count;
    }
    if (code != MPI_SUCCESS)
        yki_mpi_fail_with(self, code, "a reduction of MPI's");
    return code == MPI_SUCCESS;
}

/* Non-blocking reductions and pieces may be under way together. Any other operation of the queue
 * runs alone, when it is first. */
static bool
is_nonblocking(const yki_mpi_operation *o)
{
    return o->offsets || (o->kind == YKI_MPI_ALLREDUCE && o->mode == YOKE_MPI_NONBLOCKING);
}

/* ---- the queue ---- */

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
    if (o->kind == YKI_MPI_REDUCE_SCATTER)
        yki_mpi_exchange_sum(self, o);
    pthread_mutex_lock(&self->lock);
    if (is_direct(o))
        self->direct--;
    else
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
        if (!o || !is_nonblocking(o) || atomic_load(&self->failure.set))
            return;
        code = start_requests(self, o);
        if (code != MPI_SUCCESS)
            yki_mpi_fail_with(self, code, "starting an operation of MPI's");
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

/* Tests an operation that was started. True: it is done, and belongs to its owner from now on. */
static bool
test_requests(yki_mpi *self, yki_mpi_operation *o)
{
    int done = 0, code = yki_mpi_reduce_test(o, &done);

    if (code != MPI_SUCCESS)
        yki_mpi_fail_with(self, code, "an operation of MPI's");
    else if (done)
        complete(self, o);
    return code == MPI_SUCCESS && done;
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
    if (o && !is_nonblocking(o) && !atomic_load(&self->failure.set))
        return advance_first(self, o);
    for (; o && o->started && !atomic_load(&self->failure.set); o = next) {
        pthread_mutex_lock(&self->lock);
        next = o->next;
        pthread_mutex_unlock(&self->lock);
        if (!is_nonblocking(o))
            break;
        progress |= test_requests(self, o);
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
        while (!self->first && !self->stop && !atomic_load(&self->failure.set)) {
            pthread_cond_wait(&self->changed, &self->lock);
            turn = 0;
        }
        if ((self->stop && !self->first) || atomic_load(&self->failure.set)) {
            pthread_mutex_unlock(&self->lock);
            break;
        }
        pthread_mutex_unlock(&self->lock);
        if (advance(self))
            turn = 0;
        else
            yki_mpi_nap(&turn);
    }
    atomic_store(&self->threads.worker_gone, true);
    return NULL;
}

/* Numbers an operation of all ranks when the caller asks for it. Needs the lock. */
static void
note_entered(yki_mpi *self, const yki_mpi_operation *o)
{
    self->beat.signs++;
    self->waiting.since = 0;
    if (is_message(o))
        return;
    self->beat.entered++;
    self->beat.kind = (uint32_t)o->kind;
    self->beat.count = o->count;
}

/* Needs the lock. */
static void
append(yki_mpi *self, yki_mpi_operation *o)
{
    if (self->last)
        self->last->next = o;
    else
        self->first = o;
    self->last = o;
    pthread_cond_broadcast(&self->changed);
}

yoke_status
yki_mpi_enter(yki_mpi *self, yki_mpi_operation *o)
{
    int code = MPI_SUCCESS;
    yoke_status status = make_requests(self, o);

    if (status != YOKE_OK)
        return status;
    o->comm = is_direct(o) ? self->few : self->data;
    pthread_mutex_lock(&self->lock);
    if (atomic_load(&self->failure.set)) {
        pthread_mutex_unlock(&self->lock);
        return yki_mpi_failure(self);
    }
    note_entered(self, o);
    if (is_direct(o))
        self->direct++;
    else
        append(self, o);
    pthread_mutex_unlock(&self->lock);
    if (is_direct(o))
        code = start_requests(self, o);
    if (code != MPI_SUCCESS) /* whoever waits for the operation hears of it */
        yki_mpi_fail_with(self, code, "starting an operation of MPI's");
    if (!self->threaded) {
        advance(self);
        yki_mpi_watchdog_tick(self);
    }
    return YOKE_OK;
}

/* Does what the caller has to do for its operation. Operations of the queue advance meanwhile:
 * another rank may wait for them before it comes to this one. */
static void
help(yki_mpi *self, yki_mpi_operation *o)
{
    if (is_direct(o) && !atomic_load(&self->failure.set))
        test_requests(self, o);
    if (self->threaded)
        return;
    advance(self);
    yki_mpi_watchdog_tick(self);
}

yoke_status
yki_mpi_finish(yki_mpi *self, yki_mpi_operation *o, bool wait, bool *done)
{
    bool helps = !self->threaded || is_direct(o);
    unsigned turn = 0;

    pthread_mutex_lock(&self->lock);
    for (;;) {
        if (helps && !o->done) {
            pthread_mutex_unlock(&self->lock);
            help(self, o);
            pthread_mutex_lock(&self->lock);
        }
        if (o->done || atomic_load(&self->failure.set))
            break;
        note_waiting(self, o, wait);
        if (!wait)
            break;
        if (helps) {
            pthread_mutex_unlock(&self->lock);
            yki_mpi_nap(&turn);
            pthread_mutex_lock(&self->lock);
        } else {
            pthread_cond_wait(&self->changed, &self->lock);
        }
    }
    self->waiting.blocked = false;
    if (o->done || atomic_load(&self->failure.set))
        self->waiting.since = 0;
    *done = o->done;
    pthread_mutex_unlock(&self->lock);
    return !*done && atomic_load(&self->failure.set) ? yki_mpi_failure(self) : YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - the yoke_comm on MPI: create, destroy, and the functions of its table.
 *
 * Each function makes an operation (engine.c) and waits for it, except for reductions, whose
 * operation is the caller's request. There are three duplicates of the user's communicator: for
 * reductions, for small messages, for heartbeats. So messages of the application cannot get mixed
 * up with them.
 *
 * After a failure nothing of MPI is waited for or freed: that could hang, and the program is about
 * to end. Only the application may call MPI_Abort.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { PAGE = 4096 };

/* ---- the table ---- */

static yoke_status
allreduce_start(yoke_comm *comm, const float *in, float *out, size_t count, void **request)
{
    yki_mpi *self = comm->self;
    yki_mpi_operation *o = calloc(1, sizeof *o);
    yoke_status status;

    if (!o)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for a reduction");
    *o = (yki_mpi_operation){.kind = YKI_MPI_ALLREDUCE,
                             .in = in,
                             .out = out,
                             .count = count,
                             .mode = self->ways[self->way]};
    /* Arrays outside shared memory need another way. */
    if (o->mode == YOKE_MPI_SHARED && !yki_mpi_shared_holds(self, in, out, count))
        o->mode = self->settings.threaded ? YOKE_MPI_BLOCKING : YOKE_MPI_NONBLOCKING;
    status = yki_mpi_enter(self, o);
    if (status != YOKE_OK) {
        free(o);
        return status;
    }
    *request = o;
    return YOKE_OK;
}

static void
free_operation(yki_mpi_operation *o)
{
    free(o->requests);
    free(o);
}

static yoke_status
allreduce_test(yoke_comm *comm, void **request, bool wait, bool *done)
{
    yki_mpi_operation *o = *request;
    bool is_done = false;
    yoke_status status = yki_mpi_finish(comm->self, o, wait, &is_done);

    if (is_done)
        free_operation(o);
    /* A failed operation may still be in use by MPI or the worker, so its memory stays. */
    if (is_done || status != YOKE_OK)
        *request = NULL;
    if (status == YOKE_OK)
        *done = is_done;
    return status;
}

/* Performs an operation and waits for it. */
yoke_status
yki_mpi_run(yki_mpi *self, yki_mpi_operation what)
{
    yki_mpi_operation *o = malloc(sizeof *o);
    bool done = false, in_line = what.kind == YKI_MPI_ALLREDUCE || what.kind == YKI_MPI_SHARE;
    yoke_status status;

    if (!o)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for a collective operation");
    *o = what;
    if (in_line) {
        status = yki_mpi_enter(self, o);
        if (status != YOKE_OK) {
            free(o);
            return status;
        }
        status = yki_mpi_finish(self, o, true, &done);
    } else {
        status = yki_mpi_perform(self, o, &done);
    }
    if (done)
        free_operation(o);
    return status;
}

static yoke_status
broadcast(yoke_comm *comm, void *data, size_t bytes, int32_t root)
{
    if (root < 0 || root >= comm->ranks)
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT, "broadcast: there is no such rank");
    return yki_mpi_run(
        comm->self,
        (yki_mpi_operation){.kind = YKI_MPI_BROADCAST, .out = data, .count = bytes, .root = root});
}

static yoke_status
gather(yoke_comm *comm, const void *in, size_t bytes, void *out)
{
    return yki_mpi_run(
        comm->self,
        (yki_mpi_operation){.kind = YKI_MPI_GATHER, .in = in, .out = out, .count = bytes});
}

static yoke_status
barrier(yoke_comm *comm)
{
    return yki_mpi_run(comm->self, (yki_mpi_operation){.kind = YKI_MPI_BARRIER});
}

static void
beat(yoke_comm *comm, int64_t step, const char *doing)
{
    yki_mpi *self = comm->self;

    pthread_mutex_lock(&self->lock);
    self->beat.signs++;
    self->beat.step = step;
    snprintf(self->beat.doing, sizeof self->beat.doing, "%s", doing ? doing : "");
    self->waiting_since = 0;
    pthread_mutex_unlock(&self->lock);
    yki_mpi_watchdog_tick(self);
}

static void
give_up(yoke_comm *comm, const char *reason)
{
    yki_mpi *self = comm->self;
    char sentence[YKI_MPI_REASON + 128];

    if (atomic_load(&self->failed))
        return; /* the others know already, or cannot be told */
    snprintf(sentence, sizeof sentence, "rank %d (%s): %s", (int)comm->rank, comm->host,
             reason ? reason : "gave up");
    yki_mpi_set_failure(self, sentence);
    yki_mpi_watchdog_report(self, sentence);
}

static void *
take_memory(yoke_comm *comm, size_t bytes)
{
    yki_mpi *self = comm->self;
    void *memory = NULL;

    if (self->ways[self->way] == YOKE_MPI_SHARED)
        memory = yki_mpi_shared_take(self, bytes ? bytes : 1);
    if (memory)
        return memory;
    if (posix_memalign(&memory, PAGE, bytes ? bytes : 1) != 0) {
        yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for communication");
        return NULL;
    }
    return memory;
}

/* After a failure with reductions under way, MPI may still write to the memory, so it stays. */
static void
release(yoke_comm *comm, void *memory)
{
    yki_mpi *self = comm->self;

    if (!memory || yki_mpi_shared_give(self, memory))
        return;
    if (!atomic_load(&self->abandoned))
        free(memory);
}

/* ---- destroy ---- */

static void
stop_threads(yki_mpi *self)
{
    unsigned naps = 0;
    /* If the program aborts while the launcher ends all ranks, the launcher starts to end them
     * anew. So there is more time in that case. */
    double end = yki_mpi_now() + (atomic_load(&self->launcher_acts) ? 0.5 : 0.1);

    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_broadcast(&self->changed);
    pthread_cond_broadcast(&self->watchdog_wakes);
    pthread_mutex_unlock(&self->lock);
    if (self->has_watchdog)
        pthread_join(self->watchdog_thread, NULL);
    self->has_watchdog = false;
    if (!self->has_worker)
        return;
    /* A worker inside MPI_Allreduce with a dead rank does not come back. */
    while (atomic_load(&self->failed) && !atomic_load(&self->worker_gone) && yki_mpi_now() < end)
        yki_mpi_nap(&naps);
    if (atomic_load(&self->failed) && !atomic_load(&self->worker_gone)) {
        pthread_detach(self->worker);
        return;
    }
    pthread_join(self->worker, NULL);
    self->has_worker = false;
}

static void
destroy(yoke_comm *comm)
{
    yki_mpi *self = comm->self;

    stop_threads(self);
    self->threaded = false; /* from here on this thread does all that is left */
    yki_mpi_watchdog_leave(self);
    if (atomic_load(&self->failed))
        return; /* MPI may still use memory of the object, so all of it stays */
    yki_mpi_watchdog_destroy(self);
    yki_mpi_shared_destroy(self);
    if (self->beats != MPI_COMM_NULL)
        MPI_Comm_free(&self->beats);
    if (self->few != MPI_COMM_NULL)
        MPI_Comm_free(&self->few);
    if (self->data != MPI_COMM_NULL)
        MPI_Comm_free(&self->data);
    pthread_cond_destroy(&self->changed);
    pthread_cond_destroy(&self->watchdog_wakes);
    pthread_mutex_destroy(&self->lock);
    free(self->peers);
    free(self);
}

/* ---- create ---- */

static void
fill_table(yki_mpi *self)
{
    yoke_comm *t = &self->table;

    t->size = sizeof *t;
    t->self = self;
    t->allreduce_start = allreduce_start;
    t->allreduce_test = allreduce_test;
    t->broadcast = broadcast;
    t->allgather = gather;
    t->barrier = barrier;
    t->heartbeat = beat;
    t->fail = give_up;
    t->alloc = take_memory;
    t->release = release;
    t->destroy = destroy;
    t->way = yki_mpi_way;
    t->set_way = yki_mpi_set_way;
    t->transport = self->transport;
}

static void
make_locks(yki_mpi *self)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&self->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&self->changed, &attributes);
    pthread_cond_init(&self->watchdog_wakes, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Learns who runs where. Ranks of one host are those that run under one kernel. */
static yoke_status
meet_peers(yki_mpi *self)
{
    yoke_comm *t = &self->table;
    const yki_mpi_identity *me;
    yki_mpi_identity identity;
    yoke_status status;

    yki_mpi_identify(&identity);
    self->peers = calloc((size_t)t->ranks, sizeof *self->peers);
    if (!self->peers)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for the list of ranks");
    memcpy(t->host, identity.host, sizeof t->host);
    status = gather(t, &identity, sizeof identity, self->peers);
    if (status != YOKE_OK)
        return status;
    me = &self->peers[t->rank];
    for (int r = 0; r < t->ranks; r++) {
        if (strcmp(self->peers[r].boot, me->boot) != 0)
            continue;
        t->local_ranks++;
        t->local_rank += r < t->rank;
    }
    return YOKE_OK;
}

/* All ranks take rank 0's settings. They must make the same kind of calls, so the lowest thread
 * level decides that. */
static yoke_status
agree(yki_mpi *self, int level)
{
    yki_mpi_settings *s = &self->settings;
    int *levels = calloc((size_t)self->table.ranks, sizeof *levels), least = level;
    yoke_status status;

    if (!levels)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for thread levels");
    status = gather(&self->table, &level, sizeof level, levels);
    for (int r = 0; r < self->table.ranks && status == YOKE_OK; r++)
        least = levels[r] < least ? levels[r] : least;
    free(levels);
    if (status != YOKE_OK)
        return status;
    s->threaded = least == MPI_THREAD_MULTIPLE;
    s->arrive = s->threaded || s->warn >= 0 || s->error >= 0;
    return broadcast(&self->table, s, sizeof *s, 0);
}

/* "Open MPI v4.1.4, hosts: 2, ranks on each: 1 to 4" */
static void
describe(yki_mpi *self)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "MPI";
    int length = 0, hosts = 0, least = self->table.ranks, most = 0;

    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    for (char *tab = strchr(library, '\t'); tab; tab = strchr(tab, '\t'))
        *tab = ' ';
    for (int r = 0; r < self->table.ranks; r++) {
        int here = 0;
        bool first = true;

        for (int other = 0; other < self->table.ranks; other++)
            if (strcmp(self->peers[other].boot, self->peers[r].boot) == 0) {
                first = first && other >= r;
                here++;
            }
        hosts += first;
        least = here < least ? here : least;
        most = here > most ? here : most;
    }
    snprintf(self->transport, sizeof self->transport, "%.60s, hosts: %d, ranks on each: %d to %d",
             library, hosts, least, most);
}

/* The duplicates exist. Until the threads run, all operations are inline. */
static yoke_status
set_up(yki_mpi *self, int level)
{
    yoke_status status = meet_peers(self);

    if (status == YOKE_OK)
        status = agree(self, level);
    if (status != YOKE_OK)
        return status;
    describe(self);
    status = yki_mpi_watchdog_create(self);
    if (status == YOKE_OK)
        status = yki_mpi_find_ways(self);
    if (status != YOKE_OK || level < MPI_THREAD_MULTIPLE)
        return status;
    self->threaded = true;
    status = yki_mpi_thread(yki_mpi_worker, self, &self->worker);
    if (status != YOKE_OK)
        return status;
    self->has_worker = true;
    if (!self->watchdog)
        return YOKE_OK;
    status = yki_mpi_thread(yki_mpi_watchdog_run, self, &self->watchdog_thread);
    self->has_watchdog = status == YOKE_OK;
    return status;
}

yoke_status
yoke_mpi_comm_create_sized(MPI_Comm mpi, const yoke_mpi_options *given, size_t size,
                           yoke_comm **comm)
{
    yoke_mpi_options options = {0};
    yki_mpi_settings settings;
    yki_mpi *self;
    yoke_status status;
    int level = 0, rank, ranks;

    if (!comm)
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT, "comm is NULL");
    if (given)
        memcpy(&options, given, size < sizeof options ? size : sizeof options);
    status = yki_mpi_check_start(mpi, &options, &level);
    if (status == YOKE_OK)
        status = yki_mpi_read_settings(&options, &settings);
    if (status != YOKE_OK)
        return status;
    self = calloc(1, sizeof *self);
    if (!self)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for a comm");
    self->data = self->few = self->beats = MPI_COMM_NULL;
    self->settings = settings;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &ranks);
    self->table.rank = rank;
    self->table.ranks = ranks;
    make_locks(self);
    fill_table(self);
    status = yki_mpi_duplicate(mpi, &settings, &self->data);
    if (status == YOKE_OK)
        status = yki_mpi_duplicate(self->data, &settings, &self->few);
    if (status == YOKE_OK)
        status = yki_mpi_duplicate(self->data, &settings, &self->beats);
    if (status == YOKE_OK)
        status = set_up(self, level);
    if (status != YOKE_OK) {
        /* Other ranks may still be in the middle of creation, so nothing can be freed together. */
        yki_mpi_set_failure(self, yoke_last_error());
        yoke_comm_destroy(&self->table);
        return yki_mpi_failure(self);
    }
    *comm = &self->table;
    return YOKE_OK;
}

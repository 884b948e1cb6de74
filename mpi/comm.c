/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - the yoke_comm on MPI: create, destroy, and the functions of its table.
 *
 * Each function makes an operation (engine.c). Of a function that starts, it is the caller's
 * request; the others wait for it. There are three duplicates of the user's communicator: for
 * reductions and pieces, for blocking calls and messages, for heartbeats. So messages of the
 * application cannot get mixed up with them.
 *
 * After a failure nothing of MPI is waited for or freed: that could hang, and the program is about
 * to end. MPI may still write then, so it never gets the arrays of a blocking call, but copies of
 * them. Only the application may call MPI_Abort.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { PAGE = 4096, BOX = 16 << 20 };

/* ---- operations ---- */

static void
free_operation(yki_mpi_operation *o)
{
    if (!o)
        return;
    free(o->offsets);
    free(o->box);
    free(o->requests);
    free(o);
}

/* Fails for a value that must be between 0 and `most`. */
static yoke_status
fail_range(const char *what, long long value, int most)
{
    char sentence[100];

    snprintf(sentence, sizeof sentence, "%s is %lld; must be between 0 and %d", what, value, most);
    return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT, sentence);
}

/* Enters a copy of an operation, which takes over its offsets. */
static yoke_status
enter(yoke_comm *comm, yki_mpi_operation what, void **request)
{
    yki_mpi_operation *o = malloc(sizeof *o);
    yoke_status status = YOKE_OK;

    if (o)
        *o = what;
    else
        status = yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for an operation");
    if (status == YOKE_OK)
        status = yki_mpi_enter(comm->self, o);
    if (status == YOKE_OK) {
        *request = o;
        return YOKE_OK;
    }
    if (o)
        free_operation(o);
    else
        free(what.offsets);
    return status;
}

static yoke_status
test(yoke_comm *comm, void **request, bool wait, bool *done)
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
    bool done;
    void *request;
    yoke_status status = enter(&self->table, what, &request);

    return status == YOKE_OK ? test(&self->table, &request, true, &done) : status;
}

static yoke_status
allreduce_start(yoke_comm *comm, int32_t type, const void *in, void *out, size_t count,
                size_t algorithm, void **request)
{
    yki_mpi *self = comm->self;
    yki_mpi_operation o = {
        .kind = YKI_MPI_ALLREDUCE, .type = type, .in = in, .out = out, .count = count};
    yoke_status status = yki_mpi_check_type(type, true);

    if (status != YOKE_OK)
        return status;
    if (algorithm >= self->algorithm_count)
        return fail_range("allreduce_start: algorithm", (long long)algorithm,
                          (int)self->algorithm_count - 1);
    o.mode = self->algorithms[algorithm];
    /* Arrays outside shared memory need another algorithm. */
    if (o.mode == YOKE_MPI_SHARED && !yki_mpi_shared_holds(self, &o))
        o.mode = self->settings.threaded ? YOKE_MPI_BLOCKING : YOKE_MPI_NONBLOCKING;
    return enter(comm, o, request);
}

static yoke_status
start_pieces(yoke_comm *comm, yki_mpi_operation o, const size_t *counts, void **request)
{
    yoke_status status = yki_mpi_check_type(o.type, o.kind == YKI_MPI_REDUCE_SCATTER);

    if (status != YOKE_OK)
        return status;
    o.offsets = calloc((size_t)comm->ranks + 1, sizeof *o.offsets);
    if (!o.offsets)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for the sizes of pieces");
    for (int r = 0; r < comm->ranks; r++)
        o.offsets[r + 1] = o.offsets[r] + counts[r];
    o.count = o.offsets[comm->ranks];
    return enter(comm, o, request);
}

static yoke_status
reduce_scatter_start(yoke_comm *comm, int32_t type, const void *in, void *out, const size_t *counts,
                     void **request)
{
    return start_pieces(
        comm,
        (yki_mpi_operation){.kind = YKI_MPI_REDUCE_SCATTER, .type = type, .in = in, .out = out},
        counts, request);
}

static yoke_status
allgather_start(yoke_comm *comm, int32_t type, const void *in, void *out, const size_t *counts,
                void **request)
{
    return start_pieces(
        comm, (yki_mpi_operation){.kind = YKI_MPI_ALLGATHER, .type = type, .in = in, .out = out},
        counts, request);
}

/* Starts a message. MPI promises tags up to 32767. */
static yoke_status
start_message(yoke_comm *comm, yki_mpi_operation o, void **request)
{
    if (o.peer < 0 || o.peer >= comm->ranks)
        return fail_range("a message: peer", o.peer, comm->ranks - 1);
    if (o.peer == comm->rank)
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT,
                         "a message: peer is this rank; must be another one");
    if (o.tag < 0 || o.tag > 32767)
        return fail_range("a message: tag", o.tag, 32767);
    return enter(comm, o, request);
}

static yoke_status
send_start(yoke_comm *comm, const void *data, size_t bytes, int32_t peer, int32_t tag,
           void **request)
{
    return start_message(
        comm,
        (yki_mpi_operation){
            .kind = YKI_MPI_SEND, .in = data, .count = bytes, .peer = peer, .tag = tag},
        request);
}

static yoke_status
receive_start(yoke_comm *comm, void *data, size_t bytes, int32_t peer, int32_t tag, void **request)
{
    return start_message(
        comm,
        (yki_mpi_operation){
            .kind = YKI_MPI_RECEIVE, .out = data, .count = bytes, .peer = peer, .tag = tag},
        request);
}

/* ---- blocking calls ---- */

/* Makes a box for what goes through one call of MPI: `parts` of *most bytes each, at most `bytes`.
 * MPI may still use it after a failure, when the caller's arrays are gone; then `release` keeps it.
 */
static char *
make_box(const yki_mpi *self, size_t bytes, size_t parts, size_t *most)
{
    char *box;

    *most = self->box / parts > 0 ? self->box / parts : 1;
    *most = bytes < *most ? bytes : *most;
    box = malloc(*most * parts + 1);
    if (!box)
        yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for communication");
    return box;
}

static yoke_status
broadcast(yoke_comm *comm, void *data, size_t bytes, int32_t root)
{
    size_t most, at = 0;
    yoke_status status;
    char *box;

    if (root < 0 || root >= comm->ranks)
        return fail_range("broadcast: root", root, comm->ranks - 1);
    box = make_box(comm->self, bytes, 1, &most);
    if (!box)
        return YOKE_ERROR_OUT_OF_MEMORY;
    do {
        size_t n = bytes - at < most ? bytes - at : most;

        if (comm->rank == root && n)
            memcpy(box, (char *)data + at, n);
        status = yki_mpi_run(
            comm->self,
            (yki_mpi_operation){.kind = YKI_MPI_BROADCAST, .out = box, .count = n, .peer = root});
        if (status == YOKE_OK && comm->rank != root && n)
            memcpy((char *)data + at, box, n);
        at += n;
    } while (status == YOKE_OK && at < bytes);
    comm->release(comm, box);
    return status;
}

static yoke_status
gather(yoke_comm *comm, const void *in, size_t bytes, void *out)
{
    size_t ranks = (size_t)comm->ranks, most, at = 0;
    yoke_status status;
    char *box = make_box(comm->self, bytes, ranks + 1, &most);

    if (!box)
        return YOKE_ERROR_OUT_OF_MEMORY;
    do {
        size_t n = bytes - at < most ? bytes - at : most;

        if (n)
            memcpy(box + ranks * n, (const char *)in + at, n);
        status = yki_mpi_run(
            comm->self, (yki_mpi_operation){
                            .kind = YKI_MPI_GATHER, .in = box + ranks * n, .out = box, .count = n});
        for (size_t r = 0; status == YOKE_OK && n && r < ranks; r++)
            memcpy((char *)out + r * bytes + at, box + r * n, n);
        at += n;
    } while (status == YOKE_OK && at < bytes);
    comm->release(comm, box);
    return status;
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
    self->waiting.since = 0;
    pthread_mutex_unlock(&self->lock);
    yki_mpi_watchdog_tick(self);
}

static void
give_up(yoke_comm *comm, const char *reason)
{
    yki_mpi *self = comm->self;
    char sentence[YKI_MPI_REASON + 128];

    if (atomic_load(&self->failure.set))
        return; /* the others know already, or cannot be told */
    snprintf(sentence, sizeof sentence, "rank %d (%s): %s", (int)comm->rank, comm->host,
             reason ? reason : "gave up");
    yki_mpi_set_failure(self, sentence);
    yki_mpi_watchdog_report(self, sentence);
}

static void *
take_memory(yoke_comm *comm, size_t bytes, size_t algorithm)
{
    yki_mpi *self = comm->self;
    void *memory = NULL;

    if (algorithm < self->algorithm_count && self->algorithms[algorithm] == YOKE_MPI_SHARED)
        memory = yki_mpi_shared_take(self, bytes ? bytes : 1);
    if (memory)
        return memory;
    if (posix_memalign(&memory, PAGE, bytes ? bytes : 1) != 0) {
        yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for communication");
        return NULL;
    }
    return memory;
}

/* After a failure with operations under way, MPI may still write to the memory, so it stays. */
static void
release(yoke_comm *comm, void *memory)
{
    yki_mpi *self = comm->self;

    if (!memory || yki_mpi_shared_give(self, memory))
        return;
    if (!atomic_load(&self->threads.abandoned))
        free(memory);
}

/* ---- destroy ---- */

static void
stop_threads(yki_mpi *self)
{
    unsigned naps = 0;
    /* If the program aborts while the launcher ends all ranks, the launcher starts to end them
     * anew. So there is more time in that case. */
    double end = yki_mpi_now() + (atomic_load(&self->failure.launcher_acts) ? 0.5 : 0.1);

    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_broadcast(&self->changed);
    pthread_cond_broadcast(&self->watchdog_wakes);
    pthread_mutex_unlock(&self->lock);
    if (self->threads.has_watchdog)
        pthread_join(self->threads.watchdog, NULL);
    self->threads.has_watchdog = false;
    if (!self->threads.has_worker)
        return;
    /* A worker inside MPI_Allreduce with a dead rank does not come back. */
    while (atomic_load(&self->failure.set) && !atomic_load(&self->threads.worker_gone) &&
           yki_mpi_now() < end)
        yki_mpi_nap(&naps);
    if (atomic_load(&self->failure.set) && !atomic_load(&self->threads.worker_gone)) {
        pthread_detach(self->threads.worker);
        return;
    }
    pthread_join(self->threads.worker, NULL);
    self->threads.has_worker = false;
}

static void
destroy(yoke_comm *comm)
{
    yki_mpi *self = comm->self;

    stop_threads(self);
    self->threaded = false; /* from here on this thread does all that is left */
    yki_mpi_watchdog_leave(self);
    if (atomic_load(&self->failure.set))
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
    t->test = test;
    t->broadcast = broadcast;
    t->allgather = gather;
    t->barrier = barrier;
    t->heartbeat = beat;
    t->fail = give_up;
    t->alloc = take_memory;
    t->release = release;
    t->destroy = destroy;
    t->algorithm = yki_mpi_algorithm;
    t->reduce_scatter_start = reduce_scatter_start;
    t->allgather_start = allgather_start;
    t->send_start = send_start;
    t->receive_start = receive_start;
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
    status = broadcast(&self->table, s, sizeof *s, 0);
    self->box = s->chunk < BOX ? s->chunk : BOX;
    return status;
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
        status = yki_mpi_find_algorithms(self);
    if (status != YOKE_OK || level < MPI_THREAD_MULTIPLE)
        return status;
    self->threaded = true;
    status = yki_mpi_thread(yki_mpi_worker, self, &self->threads.worker);
    if (status != YOKE_OK)
        return status;
    self->threads.has_worker = true;
    if (!self->watchdog)
        return YOKE_OK;
    status = yki_mpi_thread(yki_mpi_watchdog_run, self, &self->threads.watchdog);
    self->threads.has_watchdog = status == YOKE_OK;
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
    self->box = BOX; /* until all have rank 0's settings */
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

yoke_status
yoke_mpi_comm_from_fortran(MPI_Fint mpi, yoke_comm **comm)
{
    return yoke_mpi_comm_create(MPI_Comm_f2c(mpi), NULL, comm);
}

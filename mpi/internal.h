/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h - what the files of libyoke-mpi share.
 *
 *   start.c     may we, and with whom: thread level, launcher, duplicates, roll call
 *   comm.c      create, destroy, and the functions of the table
 *   engine.c    operations: in order, on a thread of their own or on the caller's
 *   ways.c      the ways to reduce: which there are, which give all the same bits
 *   shared.c    one of them: sums in memory that the ranks of a host share
 *   watchdog.c  heartbeats and verdicts over the second communicator
 *   judge.c     who is to blame: no MPI in it
 *
 * Idea: an operation has a number, the same on all ranks because all make the same
 * calls. Each rank tells rank 0 now and then which number it has reached and whether
 * it waits; rank 0 sees who keeps the others waiting and tells everybody.
 *
 * With MPI_THREAD_MULTIPLE two threads are ours: the worker does the reductions, the
 * watchdog the heartbeats. Otherwise ("inline") both happen in the calls of the table.
 *
 * Reductions are large and many are under way; all else is small, and the caller waits for
 * it in the middle of backward. So the small has a communicator of its own, where it
 * overtakes the large, and is polled by the caller itself.
 */
#ifndef YKI_MPI_INTERNAL_H
#define YKI_MPI_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "yoke-mpi.h"

typedef struct yki_mpi yki_mpi;

/* ---- judge.c ---- */

typedef enum yki_mpi_kind {
    YKI_MPI_NOTHING = 0,
    YKI_MPI_ALLREDUCE,
    YKI_MPI_BROADCAST,
    YKI_MPI_GATHER,
    YKI_MPI_BARRIER,
    YKI_MPI_SHARE /* memory is made that the ranks of a host share */
} yki_mpi_kind;

enum { YKI_MPI_DOING = 48, YKI_MPI_REASON = 400, YKI_MPI_HOST = 64 };

/* What one rank says of itself. */
typedef struct yki_mpi_beat {
    uint64_t entered; /* number of the last operation that was asked for; the first is 1 */
    uint64_t signs;   /* grows with every call of the table */
    int64_t step;
    double waited;  /* seconds the caller has been waiting for an operation; 0: it is not */
    uint64_t count; /* floats or bytes of operation `entered` */
    uint32_t kind;
    char doing[YKI_MPI_DOING];
} yki_mpi_beat;

/* What the judge knows of a rank. Times are of its own clock, in seconds. */
typedef struct yki_mpi_witness {
    yki_mpi_beat beat;
    double heard;   /* when the last beat came */
    double changed; /* when `entered` or `signs` last grew */
    char host[YKI_MPI_HOST];
} yki_mpi_witness;

/* Somebody has waited for `limit` seconds and others are to blame: true, with a sentence that
 * names those and what they were to do. */
bool yki_mpi_judge(const yki_mpi_witness *ranks, int count, double now, double limit,
                   char reason[YKI_MPI_REASON]);
/* The judge itself was away for `absence` seconds: they do not count against anybody. */
void yki_mpi_forgive(yki_mpi_witness *ranks, int count, double now, double absence);
/* "all-reduce 12 of 4096 values" */
void yki_mpi_name_operation(const yki_mpi_beat *beat, char *text, size_t size);

/* ---- start.c ---- */

/* Settings, rank 0's on all. */
typedef struct yki_mpi_settings {
    double warn, error; /* seconds; negative: never */
    uint64_t chunk;     /* bytes */
    int32_t mode;       /* a yoke_mpi_mode */
    int32_t arrive;     /* meet, with sleeps, before a blocking reduction */
    int32_t threaded;   /* every rank has a worker */
} yki_mpi_settings;

typedef struct yki_mpi_identity {
    char host[YKI_MPI_HOST];
    char boot[40]; /* of the kernel: one for all containers of a host */
    int64_t pid;
    uint64_t pid_space; /* pids of other spaces mean nothing */
} yki_mpi_identity;

/* Options and environment to settings; mode may still be AUTO. */
yoke_status yki_mpi_read_settings(const yoke_mpi_options *options, yki_mpi_settings *settings);
/* Is MPI usable, and has it seen all the tasks that were launched? */
yoke_status yki_mpi_check_start(MPI_Comm mpi, const yoke_mpi_options *options, int *level);
void yki_mpi_identify(yki_mpi_identity *identity);
/* Duplicates the user's communicator; within the limits of `settings` names who is missing. */
yoke_status yki_mpi_duplicate(MPI_Comm mpi, const yki_mpi_settings *settings, MPI_Comm *copy);

/* ---- engine.c ---- */

typedef struct yki_mpi_operation yki_mpi_operation;
struct yki_mpi_operation {
    yki_mpi_kind kind;
    const void *in;
    void *out;
    size_t count; /* floats of a reduction, else bytes */
    int root;
    yoke_mpi_mode mode; /* of a reduction */
    unsigned phase;     /* of one in shared memory */
    MPI_Comm comm;      /* what MPI's part goes over */
    MPI_Request *requests;
    int request_count;
    bool started, done; /* `done` under the lock */
    yki_mpi_operation *next;
};

enum { YKI_MPI_MODES = YOKE_MPI_SHARED + 1 };

struct yki_mpi {
    yoke_comm table; /* first: the table is the object */
    MPI_Comm data;   /* reductions */
    MPI_Comm few;    /* all else that is waited for */
    MPI_Comm beats;
    bool threaded;
    yki_mpi_settings settings;
    yki_mpi_identity *peers; /* by rank */
    char transport[128];
    yoke_mpi_mode ways[YKI_MPI_MODES]; /* that there are; the caller's */
    size_t way_count, way;
    struct yki_mpi_shared *shared; /* NULL: nobody shares memory */

    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t changed, watchdog_wakes;
    yki_mpi_operation *first, *last; /* in order; done ones are taken out */
    yki_mpi_beat beat;               /* of this rank */
    double waiting_since, polled;    /* waiting_since 0: not waiting */
    bool blocked;                    /* the caller is inside a wait */
    bool direct;                     /* ... for an operation that is not in line */
    bool stop;
    char failure[YKI_MPI_REASON + 128];
    char report[YKI_MPI_REASON + 128]; /* for the watchdog to tell all others; "" for none */
    atomic_bool failed;                /* set once, after `failure` is written */
    atomic_bool launcher_acts; /* it failed since a process died: the launcher ends the rest */
    atomic_bool reported;      /* a verdict of ours has reached those whom it was sent to */

    pthread_t worker, watchdog_thread;
    bool has_worker, has_watchdog;
    atomic_bool worker_gone, abandoned; /* abandoned: MPI may still write to arrays */
    struct yki_mpi_watchdog *watchdog;
};

double yki_mpi_now(void);
/* A poll's sleep, longer each time: 20 microseconds up to a millisecond. */
void yki_mpi_nap(unsigned *turn);
/* YOKE_ERROR_COMM with MPI's own words. */
yoke_status yki_mpi_error(int code, const char *what);
/* A thread that takes no signals. */
yoke_status yki_mpi_thread(void *(*run)(void *), void *argument, pthread_t *thread);

/* Puts an operation at the end of the line; inline, it starts it. */
yoke_status yki_mpi_enter(yki_mpi *self, yki_mpi_operation *operation);
/* From beginning to end, past the line: not for reductions. `done` is false where it failed, and
 * then the operation is MPI's. */
yoke_status yki_mpi_perform(yki_mpi *self, yki_mpi_operation *operation, bool *done);
/* Is it done? Waits if told to. When done or failed the operation is out of the line. */
yoke_status yki_mpi_finish(yki_mpi *self, yki_mpi_operation *operation, bool wait, bool *done);
void *yki_mpi_worker(void *self);
/* MPI's part of a reduction over `o->comm`: from beginning to end, false: failed; ... */
bool yki_mpi_reduce(yki_mpi *self, yki_mpi_operation *o, yoke_mpi_mode mode, const float *in,
                    float *out);
/* ... or under way in `o->requests` when it returns, and looked at. MPI's codes. */
int yki_mpi_reduce_start(yki_mpi *self, yki_mpi_operation *o, const float *in, float *out);
int yki_mpi_reduce_test(yki_mpi_operation *o, int *done);
/* Puts it in line and waits; it is freed. */
yoke_status yki_mpi_run(yki_mpi *self, yki_mpi_operation what);
/* The sentence that makes every call fail from now on; the first one holds. */
void yki_mpi_set_failure(yki_mpi *self, const char *sentence);
yoke_status yki_mpi_failure(yki_mpi *self);
/* A call of MPI's that failed: everybody is told. */
void yki_mpi_fail_with(yki_mpi *self, int code, const char *what);

/* ---- ways.c ---- */

/* Fills in `ways`; the first is taken. */
yoke_status yki_mpi_find_ways(yki_mpi *self);
const char *yki_mpi_way(yoke_comm *comm, size_t index);
yoke_status yki_mpi_set_way(yoke_comm *comm, size_t index);

/* ---- shared.c ---- */

/* All call it. Where memory cannot be shared `shared` stays NULL on all. */
yoke_status yki_mpi_shared_create(yki_mpi *self);
/* Frees what MPI holds, together with the others. */
void yki_mpi_shared_destroy(yki_mpi *self);
/* Page-aligned memory, zeros at first. All call it, for as many bytes. NULL: there is none. */
void *yki_mpi_shared_take(yki_mpi *self, size_t bytes);
/* False: it is not from there. */
bool yki_mpi_shared_give(yki_mpi *self, void *memory);
/* Both arrays of a reduction are there. */
bool yki_mpi_shared_holds(yki_mpi *self, const float *in, const float *out, size_t count);
/* Does what can be done without waiting; true if that was anything. `done`: all of it. */
bool yki_mpi_shared_advance(yki_mpi *self, yki_mpi_operation *o, bool *done);
/* The worker's part of `take`. */
bool yki_mpi_shared_make(yki_mpi *self, yki_mpi_operation *o);

/* ---- watchdog.c ---- */

/* Both limits off: there is none, and no message is ever sent. */
yoke_status yki_mpi_watchdog_create(yki_mpi *self);
void yki_mpi_watchdog_destroy(yki_mpi *self);
/* Inline: sends, receives and judges if it is time to. */
void yki_mpi_watchdog_tick(yki_mpi *self);
void *yki_mpi_watchdog_run(void *self);
/* Tells all others that this rank gives up; waits a second at most for it to be on its way. */
void yki_mpi_watchdog_report(yki_mpi *self, const char *sentence);
/* Everybody leaves: after it no message is under way. */
void yki_mpi_watchdog_leave(yki_mpi *self);

#endif

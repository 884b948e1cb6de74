/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h - what the files of libyoke-mpi share.
 *
 *   start.c       checks before the start: thread level, launcher, duplicates, roll call
 *   comm.c        create, destroy, and the functions of the table
 *   engine.c      operations: in order, on a thread of their own or on the caller's
 *   algorithms.c  of reductions: which there are, which give all ranks the same bits
 *   shared.c      one of them: sums in memory that the ranks of a host share
 *   messages.c    operations made of messages between two ranks
 *   types.c       types of values: their sizes, and sums
 *   watchdog.c    heartbeats and verdicts over a communicator of their own
 *   judge.c       which rank is to blame; uses no MPI
 *
 * Every operation of all ranks has a number. It is the same on all ranks, because all make the same
 * calls. Each rank regularly tells rank 0 which number it has reached and whether it waits, and for
 * whom if it waits for a message. Rank 0 sees which rank keeps the others waiting, and tells
 * everybody.
 *
 * With MPI_THREAD_MULTIPLE the library has up to two threads: the worker makes the reductions, the
 * watchdog the heartbeats. Otherwise ("inline") the calls of the table do both.
 *
 * Reductions and pieces are large, and many are under way at once. Blocking calls are small, and
 * the caller waits for them in the middle of backward. Messages between two ranks stand in no order
 * with what all ranks do. So these two have a communicator of their own, where they do not queue
 * behind reductions, and the caller itself polls them.
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
    YKI_MPI_SHARE, /* making memory that the ranks of a host share */
    YKI_MPI_REDUCE_SCATTER,
    YKI_MPI_ALLGATHER, /* of pieces; GATHER is the blocking call */
    YKI_MPI_SEND,
    YKI_MPI_RECEIVE
} yki_mpi_kind;

enum { YKI_MPI_DOING = 48, YKI_MPI_REASON = 400, YKI_MPI_HOST = 64 };

/* What a rank reports about itself. */
typedef struct yki_mpi_beat {
    uint64_t entered; /* number of the newest operation of all ranks; the first is 1 */
    uint64_t signs;   /* increases when an operation begins or is done, and with every `beat` */
    int64_t step;
    double waited;  /* seconds that the caller has waited for an operation; 0: it does not wait */
    uint64_t count; /* values or bytes of operation `entered` */
    uint32_t kind;
    /* If the caller waits for a message: the other rank + 1, else 0; and what the message is. */
    uint32_t peer;
    uint32_t message; /* YKI_MPI_SEND or YKI_MPI_RECEIVE */
    int32_t tag;
    uint64_t bytes;
    char doing[YKI_MPI_DOING];
} yki_mpi_beat;

/* What the judge knows about a rank. Times are by the judge's own clock, in seconds. */
typedef struct yki_mpi_witness {
    yki_mpi_beat beat;
    double heard;   /* when the newest beat came */
    double changed; /* when `entered` or `signs` last increased */
    char host[YKI_MPI_HOST];
} yki_mpi_witness;

/* Returns true if some rank has waited for `limit` seconds and others are to blame, or calls do not
 * match, or messages do not arrive. `reason` then says so in a sentence. */
bool yki_mpi_judge(const yki_mpi_witness *ranks, int count, double now, double limit,
                   char reason[YKI_MPI_REASON]);
/* The judge itself did not run for `absence` seconds: they do not count against any rank. */
void yki_mpi_forgive(yki_mpi_witness *ranks, int count, double now, double absence);
/* "all-reduce (call 12, 4096 values)" */
void yki_mpi_name_operation(const yki_mpi_beat *beat, char *text, size_t size);

/* ---- start.c ---- */

/* Settings; all ranks have those of rank 0. */
typedef struct yki_mpi_settings {
    double warn, error; /* seconds; negative: never */
    uint64_t chunk;     /* bytes */
    int32_t mode;       /* a yoke_mpi_mode */
    int32_t arrive;     /* ranks meet, polling asleep, before a blocking reduction */
    int32_t threaded;   /* every rank has MPI_THREAD_MULTIPLE */
} yki_mpi_settings;

typedef struct yki_mpi_identity {
    char host[YKI_MPI_HOST];
    char boot[40]; /* id of the running kernel: the same for all containers of a host */
    int64_t pid;
    uint64_t pid_space; /* pids of another pid namespace mean nothing */
} yki_mpi_identity;

/* Reads settings from options and environment. The mode may still be AUTO. */
yoke_status yki_mpi_read_settings(const yoke_mpi_options *options, yki_mpi_settings *settings);
/* Checks that MPI is usable and knows all tasks that were launched. Gives the thread level. */
yoke_status yki_mpi_check_start(MPI_Comm mpi, const yoke_mpi_options *options, int *level);
void yki_mpi_identify(yki_mpi_identity *identity);
/* Duplicates a communicator. If a rank does not come within the error limit, the error names it. */
yoke_status yki_mpi_duplicate(MPI_Comm mpi, const yki_mpi_settings *settings, MPI_Comm *copy);

/* ---- engine.c ---- */

typedef struct yki_mpi_operation yki_mpi_operation;
struct yki_mpi_operation {
    yki_mpi_kind kind;
    int32_t type; /* of the values of a reduction or of pieces */
    const void *in;
    void *out;
    size_t count;       /* values of a reduction, or of all pieces; else bytes */
    int peer;           /* root of a broadcast; other rank of a message */
    int tag;            /* of a message */
    size_t received;    /* bytes of a message that have arrived */
    yoke_mpi_mode mode; /* of a reduction */
    unsigned phase;     /* of a reduction in shared memory */
    size_t *offsets;    /* by rank: the values before its piece; then all. NULL: no pieces */
    char *box;          /* of a reduce-scatter: this rank's piece, as each rank has it */
    MPI_Comm comm;      /* for the calls of MPI */
    MPI_Request *requests;
    int request_count;
    bool started, done; /* `done` needs the lock */
    yki_mpi_operation *next;
};

enum { YKI_MPI_MODES = YOKE_MPI_SHARED + 1 };

struct yki_mpi {
    yoke_comm table; /* must be first: a pointer to the table is a pointer to the object */
    MPI_Comm data;   /* for reductions */
    MPI_Comm few;    /* for all other operations */
    MPI_Comm beats;
    bool threaded;
    yki_mpi_settings settings;
    size_t box;              /* the most bytes that a blocking call gives to one call of MPI */
    yki_mpi_identity *peers; /* by rank */
    char transport[128];
    yoke_mpi_mode algorithms[YKI_MPI_MODES]; /* the possible ones; the first is the usual one */
    size_t algorithm_count;
    struct yki_mpi_shared *shared; /* NULL: no ranks share memory */

    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t changed, watchdog_wakes;
    yki_mpi_operation *first, *last; /* queue; an operation leaves it when done */
    yki_mpi_beat beat;               /* of this rank */
    struct {
        double since, polled; /* since 0: not waiting */
        bool blocked;         /* the caller is inside a waiting call */
    } waiting;
    unsigned direct; /* operations under way that bypass the queue */
    bool stop;
    struct {
        char text[YKI_MPI_REASON + 128];
        char report[YKI_MPI_REASON + 128]; /* the watchdog tells it to all others; "": nothing */
        atomic_bool set;                   /* set once, after `text` is written */
        atomic_bool launcher_acts;         /* a process died, so the launcher ends the others */
        atomic_bool reported;              /* this rank's verdict has reached its receivers */
    } failure;

    struct {
        pthread_t worker, watchdog;
        bool has_worker, has_watchdog;
        atomic_bool worker_gone, abandoned; /* abandoned: MPI may still write to arrays */
    } threads;
    struct yki_mpi_watchdog *watchdog;
};

double yki_mpi_now(void);
/* Sleeps between two polls: 20 microseconds at first, a millisecond after many. */
void yki_mpi_nap(unsigned *turn);
/* Returns YOKE_ERROR_COMM, with MPI's text for the code. */
yoke_status yki_mpi_error(int code, const char *what);
/* Starts a thread that receives no signals. */
yoke_status yki_mpi_thread(void *(*run)(void *), void *argument, pthread_t *thread);

/* Appends an operation to the queue, or starts it if it bypasses the queue. If this fails, nothing
 * uses the operation. */
yoke_status yki_mpi_enter(yki_mpi *self, yki_mpi_operation *operation);
/* Says whether an operation is done; waits for it if `wait`. A done operation has left the queue.
 * After a failure MPI may still use an operation that is not done, so do not free it. */
yoke_status yki_mpi_finish(yki_mpi *self, yki_mpi_operation *operation, bool wait, bool *done);
void *yki_mpi_worker(void *self);
/* Reduces with MPI over `o->comm`, from beginning to end. False: the communication has failed. */
bool yki_mpi_reduce(yki_mpi *self, yki_mpi_operation *o, yoke_mpi_mode mode, const void *in,
                    void *out);
/* Start a reduction in `o->requests`, and test it. They return MPI's codes. */
int yki_mpi_reduce_start(yki_mpi *self, yki_mpi_operation *o, const void *in, void *out);
int yki_mpi_reduce_test(yki_mpi_operation *o, int *done);
/* Performs a copy of `what` and waits for it. Frees the copy, unless MPI may still use it. */
yoke_status yki_mpi_run(yki_mpi *self, yki_mpi_operation what);
/* Makes every call fail with this sentence from now on. Only the first one counts. */
void yki_mpi_set_failure(yki_mpi *self, const char *sentence);
yoke_status yki_mpi_failure(yki_mpi *self);
/* Fails because a call of MPI failed, and tells all ranks. */
void yki_mpi_fail_with(yki_mpi *self, int code, const char *what);

/* ---- algorithms.c ---- */

/* Fills in `algorithms`. */
yoke_status yki_mpi_find_algorithms(yki_mpi *self);
const char *yki_mpi_algorithm(yoke_comm *comm, size_t index);

/* ---- types.c ---- */

/* Refuses types that are not known, or not summed. The other functions take known ones. */
yoke_status yki_mpi_check_type(int32_t type, bool summed);
size_t yki_mpi_type_size(int32_t type);
MPI_Datatype yki_mpi_type(int32_t type);
void yki_mpi_add(int32_t type, void *to, const void *from, size_t count);

/* ---- messages.c ---- */

/* Returns how many requests of MPI an operation made of messages needs. */
size_t yki_mpi_count_messages(const yki_mpi *self, const yki_mpi_operation *o);
/* Start a message, or all messages of a reduce-scatter or an all-gather, in `o->requests`. They
 * return MPI's codes. */
int yki_mpi_message_start(yki_mpi *self, yki_mpi_operation *o);
int yki_mpi_exchange_start(yki_mpi *self, yki_mpi_operation *o);
/* Sums what a reduce-scatter has received. */
void yki_mpi_exchange_sum(yki_mpi *self, yki_mpi_operation *o);

/* ---- shared.c ---- */

/* Finds out which ranks share memory. All ranks call it. If memory cannot be shared, `shared` is
 * NULL on all ranks afterwards. */
yoke_status yki_mpi_shared_create(yki_mpi *self);
/* Frees windows and communicators. All ranks must call it. */
void yki_mpi_shared_destroy(yki_mpi *self);
/* Returns page-aligned memory, zeros when new. All ranks must call it with the same number of
 * bytes. NULL: none can be had. */
void *yki_mpi_shared_take(yki_mpi *self, size_t bytes);
/* Gives memory back; false: it is not from yki_mpi_shared_take. */
bool yki_mpi_shared_give(yki_mpi *self, void *memory);
/* True if both arrays of a reduction are in shared memory. */
bool yki_mpi_shared_holds(yki_mpi *self, const yki_mpi_operation *o);
/* Does the steps of a reduction that need no waiting. Returns true if there was progress; `done`
 * says whether the reduction is complete. */
bool yki_mpi_shared_advance(yki_mpi *self, yki_mpi_operation *o, bool *done);
/* Makes a window for yki_mpi_shared_take, in the worker or inline. */
bool yki_mpi_shared_make(yki_mpi *self, yki_mpi_operation *o);

/* ---- watchdog.c ---- */

/* With both limits off, or one rank, there is no watchdog, and no message is ever sent. */
yoke_status yki_mpi_watchdog_create(yki_mpi *self);
void yki_mpi_watchdog_destroy(yki_mpi *self);
/* Inline: sends, receives and judges, if it is time to. Does nothing if there is a thread. */
void yki_mpi_watchdog_tick(yki_mpi *self);
void *yki_mpi_watchdog_run(void *self);
/* Tells all others that this rank gives up. Waits until the message is received, for a second at
 * most. */
void yki_mpi_watchdog_report(yki_mpi *self, const char *sentence);
/* All ranks call it to leave. Afterwards no message is under way. Waits. */
void yki_mpi_watchdog_leave(yki_mpi *self);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-train.h - training: optimizers, replicas, teams of devices, trainers, checkpoints.
 *
 * Programs include <yoke.h>, which includes this file and has the conventions that hold here.
 */
#ifndef YOKE_TRAIN_H
#define YOKE_TRAIN_H

#include "yoke-data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------- optimizer */

typedef enum yoke_optimizer_kind {
    YOKE_OPTIMIZER_SGD = 0,
    YOKE_OPTIMIZER_ADAM = 1,
    YOKE_OPTIMIZER_ADAMW = 2,
    YOKE_OPTIMIZER_RMSPROP = 3
} yoke_optimizer_kind;

/* An optimizer is passed by value. The functions below fill in PyTorch's defaults. */
typedef struct yoke_optimizer {
    yoke_optimizer_kind kind;
    float learning_rate;
    float momentum;     /* SGD, RMSprop */
    float beta1, beta2; /* Adam; beta2 is RMSprop's alpha */
    float epsilon;
    float weight_decay; /* AdamW shrinks the parameter by it; others add it * parameter to the
                         * gradient */
    bool nesterov;      /* SGD */
    uint32_t reserved[8];
} yoke_optimizer;

YOKE_API yoke_optimizer yoke_sgd(float learning_rate, float momentum);
YOKE_API yoke_optimizer yoke_adam(float learning_rate);
YOKE_API yoke_optimizer yoke_adamw(float learning_rate, float weight_decay);
YOKE_API yoke_optimizer yoke_rmsprop(float learning_rate);

typedef enum yoke_schedule_kind {
    YOKE_SCHEDULE_CONSTANT = 0,
    YOKE_SCHEDULE_STEP,     /* multiply by `factor` every `period` steps */
    YOKE_SCHEDULE_COSINE,   /* from 1 to `final_factor` at step `steps`, along a cosine */
    YOKE_SCHEDULE_LINEAR,   /* from 1 to `final_factor` at step `steps`, along a line */
    YOKE_SCHEDULE_ONE_CYCLE /* from `initial` to 1 in `warmup` steps, then to `final_factor` at
                             * step `steps`, both along a cosine */
} yoke_schedule_kind;

/* A schedule gives the factor that the learning rate is multiplied by at each step. With every kind
 * the first `warmup` steps go up to 1, in a line except with ONE_CYCLE. `steps` includes them;
 * `period` is counted from their end. */
typedef struct yoke_schedule {
    yoke_schedule_kind kind;
    float factor, initial, final_factor;
    int64_t warmup, period, steps;
    uint32_t reserved[4];
} yoke_schedule;

/* Returns the factor at a step, counted from 0; for a NULL schedule, 1. It returns NaN, and
 * yoke_last_error() says why, if the step is negative or the schedule has a value out of range;
 * yoke_trainer_create refuses such a schedule. */
YOKE_API float yoke_schedule_factor(const yoke_schedule *schedule, int64_t step);

/* Settings for the parameters whose names match `pattern`. Of several groups the first that matches
 * a name counts. A pattern that matches no parameter is an error. */
typedef struct yoke_parameter_group {
    const char *pattern;       /* "*.bias", with * and ? */
    float learning_rate_scale; /* multiplies the learning rate; 0: 1 */
    float weight_decay;        /* replaces that of the optimizer, */
    bool has_weight_decay;     /* if this is true */
    uint32_t reserved[4];
} yoke_parameter_group;

/* --------------------------------------------------------------- replica */

/* A replica is a graph on one device, with its parameters, gradients and optimizer state, compiled
 * for batches up to a size. Programs with a training loop of their own use it. Its functions
 * enqueue work and return, unless they say that they wait. The next call that waits returns an
 * error of enqueued work. */
typedef struct yoke_replica yoke_replica;

typedef enum yoke_plan_level {
    YOKE_PLAN_MEASURE = 0, /* measures solvers for up to 20 seconds a plan, and keeps the times */
    YOKE_PLAN_ESTIMATE,    /* measures nothing, but uses times that are known */
    YOKE_PLAN_PATIENT      /* measures for up to ten minutes */
} yoke_plan_level;

typedef enum yoke_recompute_choice {
    YOKE_RECOMPUTE_NOTHING = 0, /* keeps all values of forward that backward reads */
    YOKE_RECOMPUTE_CHEAP,       /* computes cheap values again in backward: less memory; they have
                                 * the same bits; and keeps the others in bfloat16 or half, if that
                                 * is their precision (yoke-precision(7)) */
    YOKE_RECOMPUTE_AUTO /* of trainers: nothing; or, where a device has too little memory for
                         * that, what keeps to the memory that it has (yoke-parallel(7)) */
} yoke_recompute_choice;

/* In what an optimizer keeps its state, such as momentum. */
typedef enum yoke_state_choice {
    YOKE_STATE_F32 = 0, /* float */
    YOKE_STATE_BF16     /* bfloat16, rounded up or down at random, so that it is right on average:
                         * half the memory. A step has the same bits as before on each device */
} yoke_state_choice;

typedef struct yoke_replica_options {
    int64_t batch;        /* the largest number of samples; has to be given */
    uint32_t seed;        /* of initial values and dropout */
    bool evaluation_only; /* no gradients and no optimizer state; the graph needs no loss */
    bool strict;          /* no Winograd: only solvers that sum as the operator is defined */
    yoke_plan_level level;
    yoke_optimizer optimizer;           /* all zero: SGD with rate 0.01 */
    const yoke_parameter_group *groups; /* copied */
    size_t group_count;
    float clip_norm;    /* largest norm of all gradients together, after the division; 0: none */
    float clip_value;   /* largest size of each element of a gradient; 0: none */
    const char *wisdom; /* file of measured times; NULL: $YOKE_WISDOM, else in the cache */
    yoke_recompute_choice recompute;
    yoke_state_choice state; /* in what the optimizer keeps it */
    const char *precision;   /* of products: "f32" (NULL), "tf32", "bf16", "f16"; "head=f32,bf16" */
    /* Bytes that the values of the plan for training may take. Values are computed again in
     * backward, costly ones too, until that is so. They have the same bits, but on a GPU gradients
     * of weights by Winograd's method, and statistics of batch norms behind it, may be summed in
     * other parts. If that does not suffice, others are kept in bfloat16 or half, if that is their
     * precision. With it `recompute` does not matter. 0: no limit. */
    uint64_t recompute_bytes;
} yoke_replica_options;

/* Compiles the graph for a selected device and gives the parameters their initial values. `options`
 * must not be NULL, because the batch has to be given. From then on the graph cannot change. The
 * replica keeps the graph alive. Waits. */
YOKE_API yoke_status yoke_replica_create_sized(yoke_device *device, yoke_graph *graph,
                                               const yoke_replica_options *options, size_t size,
                                               yoke_replica **replica);
static inline yoke_status
yoke_replica_create(yoke_device *device, yoke_graph *graph, const yoke_replica_options *options,
                    yoke_replica **replica)
{
    return yoke_replica_create_sized(device, graph, options, sizeof(yoke_replica_options), replica);
}
/* Waits for enqueued work. NULL is fine. */
YOKE_API void yoke_replica_destroy(yoke_replica *replica);

/* Copy a parameter or a state (running statistics) by its name, from or to a host array of exactly
 * `count` floats. Wait. */
YOKE_API yoke_status yoke_replica_write(yoke_replica *replica, const char *name,
                                        const float *values, int64_t count);
YOKE_API yoke_status yoke_replica_read(yoke_replica *replica, const char *name, float *values,
                                       int64_t count);
/* Copies the gradient by a parameter: the sum over the samples, not divided. Waits. */
YOKE_API yoke_status yoke_replica_read_gradient(yoke_replica *replica, const char *name,
                                                float *values, int64_t count);
/* Writes the graph with its weights to a safetensors file, as yoke_trainer_save does. Waits. */
YOKE_API yoke_status yoke_replica_save(yoke_replica *replica, const char *path);
/* Gives parameters and states new initial values; optimizer state and step number start again.
 * Waits. */
YOKE_API yoke_status yoke_replica_initialize(yoke_replica *replica, uint32_t seed);

/* Values in host memory for the input or target of this name: all samples, one after the other.
 * Type and count must be those of the graph; both are checked before any value is read. */
typedef struct yoke_feed {
    const char *name;
    yoke_type type;       /* of the input, and of what `data` points to */
    const void *data;     /* the caller may change it when the call returns */
    int64_t count;        /* number of values: samples times the values of one sample */
    int64_t length;       /* of a sequence: rows of each sample; 0: as many as the count says */
    uint64_t reserved[2]; /* 0 */
} yoke_feed;

/* Make a feed of an array of `count` values. */
static inline yoke_feed
yoke_feed_make(const char *name, yoke_type type, const void *data, int64_t count)
{
    yoke_feed feed;

    feed.name = name;
    feed.type = type;
    feed.data = data;
    feed.count = count;
    feed.length = 0;
    feed.reserved[0] = feed.reserved[1] = 0;
    return feed;
}
static inline yoke_feed
yoke_feed_f32(const char *name, const float *values, int64_t count)
{
    return yoke_feed_make(name, YOKE_F32, values, count);
}
static inline yoke_feed
yoke_feed_i32(const char *name, const int32_t *values, int64_t count)
{
    return yoke_feed_make(name, YOKE_I32, values, count);
}
static inline yoke_feed
yoke_feed_u8(const char *name, const uint8_t *values, int64_t count)
{
    return yoke_feed_make(name, YOKE_U8, values, count);
}

/* Gives the values of an input or target for n samples, at most the batch. A label or index that is
 * out of range is YOKE_ERROR_VALUE; the error names the sample. */
YOKE_API yoke_status yoke_replica_set_input(yoke_replica *replica, int64_t n, yoke_feed feed);
/* A training step is forward, backward, update: once each, in this order. yoke_replica_forward
 * computes the graph as in training. Every input that it reads must have been given for at least n
 * samples. It may also be called alone. */
YOKE_API yoke_status yoke_replica_forward(yoke_replica *replica, int64_t n);
/* Computes the gradients: sums over the samples of the forward before it. */
YOKE_API yoke_status yoke_replica_backward(yoke_replica *replica);
/* Divides the gradients by what the loss counted, clips them, lets the optimizer apply them, and
 * renews running statistics. The learning rate is multiplied by `rate_factor`
 * (yoke_schedule_factor). Parameters, optimizer state and running statistics stay as they are if
 * the loss is not finite, if with clip_norm the norm is not finite, or if the loss counted no
 * sample; the step counts all the same. */
YOKE_API yoke_status yoke_replica_update(yoke_replica *replica, float rate_factor);
/* Computes the graph as in evaluation: with running statistics, without dropout. A training step
 * that was begun is dropped. Results that need an input that was not given for n samples are left
 * out. The first call on a replica for training makes a plan and waits for it. */
YOKE_API yoke_status yoke_replica_evaluate(yoke_replica *replica, int64_t n);
/* Read results of the newest forward or evaluate. Loss and metrics are a sum over the samples and
 * what it counted; their mean is sum / count. `count` of an output is the number of values, for all
 * n samples. Wait. */
YOKE_API yoke_status yoke_replica_read_loss(yoke_replica *replica, double *sum, double *count);
YOKE_API yoke_status yoke_replica_read_metric(yoke_replica *replica, const char *name, double *sum,
                                              double *count);
YOKE_API yoke_status yoke_replica_read_output(yoke_replica *replica, const char *name,
                                              float *values, int64_t count);
/* Waits for all enqueued work. */
YOKE_API yoke_status yoke_replica_wait(yoke_replica *replica);
/* Hands a table of the plan to `line`, line by line: for each task its solver, layout, FLOPs,
 * bytes, measured time and fraction of the device's limit; then where each value lies in memory.
 * It is the plan for training or, if there is none, that for evaluation. Measures the device's
 * limits where the plan has times. Waits. */
YOKE_API yoke_status yoke_replica_print_plan(yoke_replica *replica,
                                             void (*line)(void *user, const char *text),
                                             void *user);
/* One task of a plan with its time: by the device's clock, else from launch to end. */
typedef struct yoke_task_info {
    const char *name; /* the node's; in backward, of the node that the gradient belongs to */
    const char *op;   /* "conv2d_grad_weight" */
    const char *solver;
    bool backward;
    uint32_t launches;
    double flops, bytes;
    double seconds; /* with the time to pack weights */
} yoke_task_info;
/* Runs that plan for n samples, task by task, `repeats` times (at least 1), and hands each task
 * to `each` with the shortest of its times. The texts are valid during the call. Results
 * are undefined afterwards, and a training step that was begun is dropped. Waits. */
YOKE_API yoke_status yoke_replica_profile(yoke_replica *replica, int64_t n, unsigned repeats,
                                          void (*each)(void *user, const yoke_task_info *task),
                                          void *user);
/* Returns the FLOPs of a training step with n samples, as the plan counts them; of an evaluation if
 * the replica is for evaluation only. */
YOKE_API double yoke_replica_flops(const yoke_replica *replica, int64_t n);

/* ------------------------------------------------------------------ comm */

/* Types of values that only comms know. Their numbers follow those of yoke_type. */
typedef enum yoke_comm_type {
    YOKE_F64 = 3,
    YOKE_I64 = 4,
    YOKE_BF16 = 5,
    YOKE_F16 = 6,
    YOKE_I16 = 7
} yoke_comm_type;

/* A comm is how the processes of a team communicate: a table of functions. libyoke-mpi makes one
 * (yoke_mpi_comm_create); an application with another transport fills in the table by itself, and
 * leaves all else 0.
 *
 * The library calls these functions from one thread at a time, and only inside a call of the
 * application's. All processes make the same calls in the same order, except those of `test`,
 * `send_start`, `receive_start`, `heartbeat`, `fail` and `release`. Memory is the host's.
 *
 * Functions that end in _start set *request and return before the operation is done. Their arrays
 * stay in place, and what is read from them unchanged, until `test` says that it is done. Several
 * operations may be under way. The arrays are from `alloc`, unless that is NULL. `type` is a
 * yoke_type or a yoke_comm_type. A function that does not know it, or an algorithm that does not,
 * refuses it with YOKE_ERROR_UNSUPPORTED: in all processes, and without an effect.
 *
 * A function that cannot communicate returns YOKE_ERROR_COMM and gives the reason with yoke_fail().
 * From then on every call must fail at once; `fail`, `release` and `destroy` may still be called.
 * After a failure the transport may still use memory that `alloc` gave, for example because MPI
 * cannot cancel an operation. It uses no other memory of the caller's once a function has failed:
 * the caller may free it. */
typedef struct yoke_comm yoke_comm;
struct yoke_comm {
    size_t size;                     /* sizeof(yoke_comm) where the table was filled in */
    void *self;                      /* the transport's own; the library does not use it */
    int64_t holders;                 /* the library's own: how many teams keep the comm alive */
    int32_t rank, ranks;             /* the number of this process, and how many there are */
    int32_t local_rank, local_ranks; /* the same among the processes of this host */
    char host[64];
    /* Names the transport's library and how ranks are spread over hosts, for people to read.
     * Measured times are kept in wisdom under this text. May be NULL. */
    const char *transport;
    /* Returns the name of algorithm `index` for reductions, the same in all processes, or NULL
     * after the last. Trainers measure the algorithms and pick the best. A NULL function: there is
     * one algorithm, 0. */
    const char *(*algorithm)(yoke_comm *comm, size_t index);
    /* Starts out = sum of `in` over all ranks, with the same bits on each. The arrays do not
     * overlap. */
    yoke_status (*allreduce_start)(yoke_comm *comm, int32_t type, const void *in, void *out,
                                   size_t count, size_t algorithm, void **request);
    /* Says in *done whether the operation of a request is done, and with `wait` waits for it. When
     * it is done, or the test fails, the test takes the request back and sets *request to NULL. */
    yoke_status (*test)(yoke_comm *comm, void **request, bool wait, bool *done);
    /* Copies `bytes` of rank `root` to all. Waits. */
    yoke_status (*broadcast)(yoke_comm *comm, void *data, size_t bytes, int32_t root);
    /* Gives every process the `bytes` of all; `out` holds ranks * bytes, by rank. Waits. */
    yoke_status (*allgather)(yoke_comm *comm, const void *in, size_t bytes, void *out);
    /* Returns when all processes have called it. */
    yoke_status (*barrier)(yoke_comm *comm);
    /* Tells a watchdog that this process is alive and what it does next. The library calls it now
     * and then while the others may wait long, so it must be cheap. NULL: there is no watchdog. */
    void (*heartbeat)(yoke_comm *comm, int64_t step, const char *doing);
    /* This process gives up: the calls of all other processes fail soon, with its rank, its host
     * and `reason`. NULL: the others find out by themselves. */
    void (*fail)(yoke_comm *comm, const char *reason);
    /* Returns memory for arrays that suits the transport (shared by the ranks of a host, or
     * registered with a network device), and best this algorithm of allreduce_start; NULL if there
     * is none. All processes call it together, with the same arguments. A NULL function: the
     * library uses memory of its own, and the transport does not use it after a failure. */
    void *(*alloc)(yoke_comm *comm, size_t bytes, size_t algorithm);
    /* Takes back what `alloc` gave; it accepts NULL. After a failure it keeps memory that the
     * transport may still use. */
    void (*release)(yoke_comm *comm, void *memory);
    /* Frees the comm. All processes call it; after a failure it waits for nobody, and may keep
     * memory that the transport still uses. NULL: there is nothing to free. */
    void (*destroy)(yoke_comm *comm);

    /* Each of the following may be NULL: the transport does not offer it. */

    /* Starts the sum of `in` over all ranks, of which each gets a piece: rank r the counts[r]
     * values that follow those of the ranks before it. The bits do not depend on who comes when.
     * `out` may be this process's piece of `in`. `counts` is the same in all processes, and is read
     * during the call only. */
    yoke_status (*reduce_scatter_start)(yoke_comm *comm, int32_t type, const void *in, void *out,
                                        const size_t *counts, void **request);
    /* Starts the opposite: out = the pieces of all ranks, one after the other; rank r gives
     * counts[r] values. `in` may be this process's piece of `out`. */
    yoke_status (*allgather_start)(yoke_comm *comm, int32_t type, const void *in, void *out,
                                   const size_t *counts, void **request);
    /* Start a message from this process to rank `peer`, another one, and its receipt there. The
     * receiver gives the same number of bytes and the same tag, from 0 to 32767. Messages with one
     * tag arrive in the order in which they were sent. A message may be done only when the receiver
     * has started to receive it. */
    yoke_status (*send_start)(yoke_comm *comm, const void *data, size_t bytes, int32_t peer,
                              int32_t tag, void **request);
    yoke_status (*receive_start)(yoke_comm *comm, void *data, size_t bytes, int32_t peer,
                                 int32_t tag, void **request);
    void *reserved[8]; /* NULL */
};
/* Gives the comm back. Teams keep it alive: its `destroy` is called when the last team that uses it
 * is gone, else now. NULL is fine. */
YOKE_API void yoke_comm_destroy(yoke_comm *comm);

/* ------------------------------------------------------------------ team */

/* A team is the logical devices that train one model: those of this process and, through a comm,
 * those of others. */
typedef struct yoke_team yoke_team;

typedef struct yoke_team_options {
    yoke_comm *comm; /* how the processes of the team communicate; NULL: this process is alone */
} yoke_team_options;

/* Makes a team of the devices that `selector` picks in this process; NULL is $YOKE_DEVICES, else
 * "all". While it exists, the hardware stays split as the selector says. With a comm, all processes
 * call it, and the team keeps the comm alive. A device that does not round to the nearest number
 * must be alone. */
YOKE_API yoke_status yoke_team_create_sized(yoke_context *context, const char *selector,
                                            const yoke_team_options *options, size_t size,
                                            yoke_team **team);
static inline yoke_status
yoke_team_create(yoke_context *context, const char *selector, const yoke_team_options *options,
                 yoke_team **team)
{
    return yoke_team_create_sized(context, selector, options, sizeof(yoke_team_options), team);
}
YOKE_API void yoke_team_destroy(yoke_team *team);
/* Return the number of devices of this process, and of all processes together. */
YOKE_API size_t yoke_team_local_count(const yoke_team *team);
YOKE_API size_t yoke_team_count(const yoke_team *team);
/* Lends a device of this process; NULL where there is none. */
YOKE_API yoke_device *yoke_team_get_device(const yoke_team *team, size_t index);
/* Lends the name of a device of any process: "cpu:0/2.1", or "rank 1 cpu:0/2.1" if there are
 * several processes. */
YOKE_API const char *yoke_team_get_device_name(const yoke_team *team, size_t index);
/* Binds a place of graphs (yoke_graph_set_place) to the one device of the team that `selector`
 * names. Trainers that are made afterwards run the nodes of the place there. */
YOKE_API yoke_status yoke_team_bind_place(yoke_team *team, const char *place, const char *selector);

/* Computes how n samples are split over all devices. `shares` is "even" or a weight for each
 * device, such as "80,20"; NULL means even. Counts are rounded by largest remainder, so their sum
 * is n. `counts` has yoke_team_count() entries. */
YOKE_API yoke_status yoke_team_split(const yoke_team *team, const char *shares, int64_t n,
                                     int64_t *counts);

/* An array is a number of values of one type in the memory of one device. They are not initialised.
 */
typedef struct yoke_array yoke_array;
/* Makes an array of `count` values, at least 1, on a selected device. */
YOKE_API yoke_status yoke_array_create(yoke_device *device, yoke_type type, int64_t count,
                                       yoke_array **array);
YOKE_API void yoke_array_destroy(yoke_array *array);
/* Return the number of values, and the device, which is lent. */
YOKE_API int64_t yoke_array_count(const yoke_array *array);
YOKE_API yoke_device *yoke_array_get_device(const yoke_array *array);
/* Copy exactly yoke_array_count() values from and to host memory. Wait. */
YOKE_API yoke_status yoke_array_write(yoke_array *array, const void *values, int64_t count);
YOKE_API yoke_status yoke_array_read(yoke_array *array, void *values, int64_t count);

/* Lend arrays of a replica: a parameter or state; a gradient, which is a sum over the replica's
 * samples and not divided; and the loss of the newest forward, which is two values, sum and count.
 * A program that sums gradients and loss over the replicas of a team (yoke_team_allreduce) before
 * yoke_replica_update gets the update of the whole batch on every replica. */
YOKE_API yoke_status yoke_replica_get_parameter(yoke_replica *replica, const char *name,
                                                yoke_array **array);
YOKE_API yoke_status yoke_replica_get_gradient(yoke_replica *replica, const char *name,
                                               yoke_array **array);
YOKE_API yoke_status yoke_replica_get_loss(yoke_replica *replica, yoke_array **array);

/* Copy rows of `row_values` values from and to one array for each device of this process. The first
 * counts[0] rows are those of device 0 of the whole team, the next counts[1] those of device 1, and
 * so on; they lie at the beginning of the device's array. With a comm every process calls them and
 * has all rows: it scatters those of its own devices, and gathers the rows of all. Wait. */
YOKE_API yoke_status yoke_team_scatter(yoke_team *team, const int64_t *counts, int64_t row_values,
                                       const void *rows, yoke_array *const *arrays);
YOKE_API yoke_status yoke_team_gather(yoke_team *team, const int64_t *counts, int64_t row_values,
                                      yoke_array *const *arrays, void *rows);
/* Replaces each array of a list by the sum of the list's arrays over all devices of the team, added
 * in the order of the devices. A list has one float array for each device of this process; `arrays`
 * holds `count` lists, one after the other. With a comm every process calls it. Waits. */
YOKE_API yoke_status yoke_team_allreduce(yoke_team *team, yoke_array *const *arrays, size_t count);

/* --------------------------------------------------------------- trainer */

/* A trainer has a graph compiled for each device of a team, and trains it on all of them. */
typedef struct yoke_trainer yoke_trainer;

/* Whether a team of one whole CPU runs as core groups: up to 8 groups of its compute units, each
 * with its samples of a batch. They wait for each other once a step, not after each launch. The
 * team still has one device, with one share and one quota. */
typedef enum yoke_core_groups_choice {
    YOKE_CORE_GROUPS_MEASURE =
        0, /* if a step takes less than 2 ms and core groups are over 5 % faster */
    YOKE_CORE_GROUPS_NEVER,
    YOKE_CORE_GROUPS_ALWAYS /* YOKE_ERROR_UNSUPPORTED where core groups are impossible */
} yoke_core_groups_choice;

/* Which runs have the same bits. Runs with other shares agree within rounding in any case. */
typedef enum yoke_reproducible_choice {
    YOKE_REPRODUCIBLE_NO = 0,   /* shares and plans follow what is measured */
    YOKE_REPRODUCIBLE_RUNS,     /* shares and plans stay as they are: so do the bits of every run on
                                 * the same devices */
    YOKE_REPRODUCIBLE_ANY_SPLIT /* the bits do not depend on devices, processes and shares */
} yoke_reproducible_choice;

/* What each device keeps a part of, where others keep the rest; see yoke-parallel(7). */
typedef enum yoke_shard_choice {
    YOKE_SHARD_NOTHING = 0, /* each device has all of it; those that share memory have it once */
    YOKE_SHARD_STATE,       /* the optimizer's state and the moving average */
    YOKE_SHARD_GRADIENTS,   /* these, and the sums of gradients */
    YOKE_SHARD_WEIGHTS,     /* these, and the weights */
    YOKE_SHARD_AUTO         /* as little of that as the memory of the devices asks for */
} yoke_shard_choice;

/* In which integers the gradients of granules are added, on devices and between processes. Each has
 * the same bits on any split. */
typedef enum yoke_wire_choice {
    YOKE_WIRE_I64 = 0, /* all bits of a float are kept */
    YOKE_WIRE_I32,     /* as many bytes as floats; each granule's gradients are rounded at random */
    YOKE_WIRE_I16      /* half as many, for slow links; coarser */
} yoke_wire_choice;

#define YOKE_STAGES_AUTO UINT32_MAX
#define YOKE_STAGES_FIT  (UINT32_MAX - 1)

typedef struct yoke_trainer_options {
    yoke_optimizer optimizer; /* all zero: SGD with rate 0.01 */
    int64_t batch;            /* samples of a step, over the whole team; 0: 32 */
    uint32_t seed;            /* of initial values, dropout and the order of samples */
    uint32_t accumulate;      /* micro-batches of a step, one after the other, or, with places,
                               * several at a time; 0: 1 */
    const char *shares;       /* "auto", "even" or weights, "80,20"; NULL: "auto" */
    yoke_reproducible_choice reproducible;
    bool strict;           /* no Winograd */
    bool local_batch_norm; /* batch norm uses the statistics of each device's samples */
    yoke_plan_level level;
    const yoke_schedule *schedule;      /* of the learning rate; copied; NULL: constant */
    const yoke_parameter_group *groups; /* copied */
    size_t group_count;
    float clip_norm, clip_value; /* as in yoke_replica_options */
    const char *wisdom;          /* as in yoke_replica_options */
    uint64_t bucket_bytes;       /* of gradients that are summed at once; 0: yoke chooses */
    yoke_recompute_choice recompute;
    yoke_state_choice state; /* as in yoke_replica_options */
    bool no_overlap;         /* several processes send gradients after backward, not during it; with
                              * places, one micro-batch is done before the next one begins */
    yoke_core_groups_choice core_groups;
    const char *precision; /* as in yoke_replica_options */
    int64_t granule; /* with ANY_SPLIT: samples that one device computes together; 0: yoke chooses
                      * by the batch */
    /* Decay of a moving average of the weights, such as 0.999, or what is less, n / (n + 9) after
     * step n from 0; 0: none. Evaluations, predictions and files then have the average. */
    float average;
    /* With ANY_SPLIT: every so many steps the granules of a device are computed again and compared
     * (yoke-reproducibility(7)); 0: never. */
    int64_t recheck;
    yoke_shard_choice shard;
    const char *shard_by;  /* "auto": by free memory; or a weight for each device, as "1,3", "0,1";
                            * NULL: "auto" */
    yoke_wire_choice wire; /* with ANY_SPLIT; else it must be 0 */
    uint64_t recompute_bytes; /* on each device; as in yoke_replica_options */
    /* Devices that share memory, the parts of a CPU or it and an integrated GPU (yoke-parallel(7)),
     * each keep weights and state of their own, as others do. Then quotas mean for them what they
     * mean for others, and shards divide. */
    bool own_weights;
    /* Stages into which the graph is cut, each with the nodes of one device, through which the
     * micro-batches of a step go; YOKE_STAGES_AUTO: as many as make a step shortest;
     * YOKE_STAGES_FIT: the same, but only where the memory of the devices suffices in no other way
     * that these options allow; 0: it is not cut (yoke-parallel(7)). */
    uint32_t stages;
    /* Where products are computed in f16: what the gradient of the loss is multiplied by until the
     * update, a power of 2; 0: 65536 at first, then as yoke-precision(7) says. */
    float loss_scale;
} yoke_trainer_options;

/* Compiles the graph for all devices of the team, measures, and gives every device the same initial
 * values. The trainer keeps team and graph alive; the graph cannot change any more. Without a loss
 * the trainer can predict, but not train or evaluate. With a comm every process calls this function
 * and those below that run or change the trainer. Waits. */
YOKE_API yoke_status yoke_trainer_create_sized(yoke_team *team, yoke_graph *graph,
                                               const yoke_trainer_options *options, size_t size,
                                               yoke_trainer **trainer);
static inline yoke_status
yoke_trainer_create(yoke_team *team, yoke_graph *graph, const yoke_trainer_options *options,
                    yoke_trainer **trainer)
{
    return yoke_trainer_create_sized(team, graph, options, sizeof(yoke_trainer_options), trainer);
}
YOKE_API void yoke_trainer_destroy(yoke_trainer *trainer);

enum { YOKE_MAX_METRICS = 8 };

/* The results of a step, an epoch or an evaluation. Loss and metrics are means over what counts. */
typedef struct yoke_result {
    double loss;
    double count;                     /* what the loss counted */
    double metrics[YOKE_MAX_METRICS]; /* in the graph's order */
    size_t metric_count;
    int64_t samples;
    int64_t step;   /* completed steps of this trainer */
    double seconds; /* that it took */
} yoke_result;

/* Makes one training step with n samples, from 0 to the batch. There is a feed for each input and
 * target; the caller may change their memory when the call returns. With a comm every process gives
 * all n samples and uses those of its devices. With no feeds, those of the step before are used
 * again, if n and the shares are the same and a step is one micro-batch. The call enqueues; if
 * `result` is not NULL, it waits. */
YOKE_API yoke_status yoke_trainer_step_sized(yoke_trainer *trainer, int64_t n,
                                             const yoke_feed *feeds, size_t feed_count,
                                             yoke_result *result, size_t size);
static inline yoke_status
yoke_trainer_step(yoke_trainer *trainer, int64_t n, const yoke_feed *feeds, size_t feed_count,
                  yoke_result *result)
{
    return yoke_trainer_step_sized(trainer, n, feeds, feed_count, result, sizeof(yoke_result));
}
/* Computes loss and metrics over a dataset of any size, each sample once. Waits. */
YOKE_API yoke_status yoke_trainer_evaluate_sized(yoke_trainer *trainer, yoke_dataset *dataset,
                                                 yoke_result *result, size_t size);
static inline yoke_status
yoke_trainer_evaluate(yoke_trainer *trainer, yoke_dataset *dataset, yoke_result *result)
{
    return yoke_trainer_evaluate_sized(trainer, dataset, result, sizeof(yoke_result));
}
/* Computes an output of the graph for any number n of samples, in their order; every process gets
 * all. Feeds are needed for the inputs that the output is computed from; if there are none, n is 1.
 * `count` is the number of values of n results, which `values` has room for. Waits. */
YOKE_API yoke_status yoke_trainer_predict(yoke_trainer *trainer, const char *output, int64_t n,
                                          const yoke_feed *feeds, size_t feed_count, float *values,
                                          int64_t count);
/* Computes an output, NULL: the first, for samples [first, first + n) of a dataset, in their order
 * and on all devices, which scale and crop them as in an evaluation. Targets are not needed.
 * `count` is the number of values of n results. With a comm every process calls it, and gets all.
 * Waits. */
YOKE_API yoke_status yoke_trainer_predict_dataset(yoke_trainer *trainer, const char *output,
                                                  yoke_dataset *dataset, int64_t first, int64_t n,
                                                  float *values, int64_t count);

/* One epoch of training, as the history keeps it. The struct and all that it points to are lent; it
 * may grow at its end. */
typedef struct yoke_epoch {
    int64_t epoch;            /* from 0 */
    int64_t step;             /* completed steps at its end */
    const yoke_result *train; /* means over the steps of the epoch, each before its update */
    const yoke_result *test;  /* evaluated at its end; `samples` is 0 without test data */
    double samples_per_second;
    size_t devices;              /* of the whole team */
    const double *shares;        /* samples of each device in the last step */
    const double *device_losses; /* mean loss of the samples of each device; NaN: it had none */
} yoke_epoch;

typedef struct yoke_fit_options {
    int64_t epochs;  /* with `resume`, those of the checkpoint count; 0: 1 */
    bool no_shuffle; /* samples come in the order of their numbers */
    /* Called after each completed step, up to two steps late, and after each epoch. If one returns
     * true, training stops. What they are given is valid during the call. */
    bool (*on_step)(void *user, const yoke_result *result);
    bool (*on_epoch)(void *user, const yoke_epoch *epoch);
    void *user;
    const char *checkpoint_dir; /* folder of checkpoints; NULL: none are written */
    int64_t checkpoint_every;   /* steps between checkpoints; 0: one after each epoch */
    uint32_t checkpoint_keep;   /* how many are kept, the newest; 0: 3 */
    bool resume;                /* go on from the newest good checkpoint, if there is one */
    bool keep_learning_rate;    /* resume with the trainer's rate, not the checkpoint's */
    bool same_seed;             /* refuse a checkpoint of another seed (YOKE_ERROR_STATE) */
    int64_t patience;           /* epochs without a lower loss after which training ends; 0: any */
    bool keep_best;             /* keep the checkpoint of the best epoch beside the newest */
    int64_t plateau; /* epochs without a lower loss after which the learning rate falls; 0: never */
    float plateau_factor; /* that it is multiplied by then; 0: 0.1 */
} yoke_fit_options;

/* Trains for some epochs, and evaluates `test` after each if it is not NULL. The order of samples
 * depends on seed and epoch alone. A checkpoint that cannot be written is only a warning in the
 * log, but the last one is an error. If a callback or yoke_trainer_request_stop ends training, the
 * call returns YOKE_OK, yoke_trainer_was_stopped says so, and training can go on. Waits. */
YOKE_API yoke_status yoke_trainer_fit_sized(yoke_trainer *trainer, yoke_dataset *train,
                                            yoke_dataset *test, const yoke_fit_options *options,
                                            size_t size);
static inline yoke_status
yoke_trainer_fit(yoke_trainer *trainer, yoke_dataset *train, yoke_dataset *test,
                 const yoke_fit_options *options)
{
    return yoke_trainer_fit_sized(trainer, train, test, options, sizeof(yoke_fit_options));
}
/* Return the number of epochs that all calls of fit trained since initialisation, and one of them,
 * the oldest first; NULL where there is none. It is lent until the next call of fit or
 * yoke_trainer_initialize, or until training goes back behind it (recheck). */
YOKE_API size_t yoke_trainer_epoch_count(const yoke_trainer *trainer);
YOKE_API const yoke_epoch *yoke_trainer_get_epoch(const yoke_trainer *trainer, size_t index);
/* Returns the epoch with the lowest loss of the test, or of the training where there was no test;
 * of equal ones the first. NULL: no epoch has a loss that is a number. It is lent likewise. */
YOKE_API const yoke_epoch *yoke_trainer_best_epoch(const yoke_trainer *trainer);
/* Says whether the newest call of fit ended before its time, because a callback or
 * yoke_trainer_request_stop asked for it. */
YOKE_API bool yoke_trainer_was_stopped(const yoke_trainer *trainer);
/* Makes fit return after the step that is running, with a checkpoint if it has a folder for them.
 * Any thread may call it, and a signal handler. Of several processes one is enough. */
YOKE_API void yoke_trainer_request_stop(yoke_trainer *trainer);
/* Makes fit write a checkpoint after the step that is running, if it has a folder for them, and go
 * on. It may be called as the function above. */
YOKE_API void yoke_trainer_request_save(yoke_trainer *trainer);

/* Waits for all steps, and returns the error of any. */
YOKE_API yoke_status yoke_trainer_wait(yoke_trainer *trainer);
/* Gives the weights new initial values; optimizer state, step number and history start again.
 * Waits. */
YOKE_API yoke_status yoke_trainer_initialize(yoke_trainer *trainer, uint32_t seed);
/* Sets the learning rate from the next step on. */
YOKE_API yoke_status yoke_trainer_set_learning_rate(yoke_trainer *trainer, float rate);
/* Returns the learning rate without the factor of a schedule. */
YOKE_API float yoke_trainer_get_learning_rate(const yoke_trainer *trainer);
/* Sets the shares from the next step on. YOKE_ERROR_STATE: a device would get more samples than it
 * was prepared for; a trainer made with "auto" has room for all shares that fit its memory. */
YOKE_API yoke_status yoke_trainer_set_shares(yoke_trainer *trainer, const char *shares);
/* Exclude the parameters whose names match `pattern` (with * and ?) from training, or include them
 * again, from the next step on. Wait. */
YOKE_API yoke_status yoke_trainer_freeze(yoke_trainer *trainer, const char *pattern);
YOKE_API yoke_status yoke_trainer_unfreeze(yoke_trainer *trainer, const char *pattern);
/* Writes how many samples of a full batch each device of the whole team gets. `count` is
 * yoke_team_count(). */
YOKE_API yoke_status yoke_trainer_get_shares(const yoke_trainer *trainer, int64_t *counts,
                                             size_t count);
/* Lends the graph. */
YOKE_API yoke_graph *yoke_trainer_get_graph(const yoke_trainer *trainer);
/* Returns the number of steps since initialisation, including those that are under way. */
YOKE_API int64_t yoke_trainer_get_step(const yoke_trainer *trainer);
/* Writes the scale of the loss, 1 without products in f16, and how many steps were skipped because
 * a gradient was not finite (yoke-precision(7)), both as the newest step left them that the caller
 * knows of. */
YOKE_API yoke_status yoke_trainer_get_loss_scale(const yoke_trainer *trainer, float *scale,
                                                 int64_t *skipped);
/* Returns the FLOPs of a step with n samples on the devices of this process, with the shares of
 * now. */
YOKE_API double yoke_trainer_flops(const yoke_trainer *trainer, int64_t n);
/* Returns the bytes that the optimizer's state, and the moving average, take on the devices of this
 * process. */
YOKE_API uint64_t yoke_trainer_state_bytes(const yoke_trainer *trainer);
/* Where the newest step of a team of several processes spent the caller's time, in seconds. */
typedef struct yoke_step_times {
    double exposed; /* waited for sums of gradients after all gradients of its own were known */
    double forward, backward; /* only with no_overlap, else 0 */
} yoke_step_times;
YOKE_API yoke_status yoke_trainer_get_times_sized(const yoke_trainer *trainer,
                                                  yoke_step_times *times, size_t size);
static inline yoke_status
yoke_trainer_get_times(const yoke_trainer *trainer, yoke_step_times *times)
{
    return yoke_trainer_get_times_sized(trainer, times, sizeof(yoke_step_times));
}
/* What a full step will take of one device of the team, as far as it is known before. */
typedef struct yoke_forecast {
    int64_t samples; /* of a micro-batch */
    uint64_t memory; /* bytes that steps need: no plan for evaluation, and no samples that stay */
    uint64_t quota;  /* 0: none */
    double seconds;  /* that it computes, without the update; 0: unknown */
    double step_seconds;     /* of the step of all devices, with the update; 0: unknown */
    yoke_shard_choice shard; /* what is divided, on all devices alike */
    /* Where some device has too little memory for training in the first way that the options allow:
     * about what that way would need of this one, and what there was; else 0. */
    uint64_t needed, available;
    uint64_t recompute_bytes; /* that the values of its plan may take, if that was chosen; 0: all */
    uint32_t stages;          /* into which the graph is cut, on all devices alike; 0: it is not */
    double update_seconds;    /* of the step: that this device updates weights; 0: unknown */
    double gather_seconds;    /* of the step: that weights which are divided are gathered, on all
                                 devices alike; 0: they are not, or it is unknown */
} yoke_forecast;
/* Writes it for each of the `count` devices of the whole team. Times are those that were measured
 * when the trainer was made; those of update and gathers are measured now, the latter only before
 * the first step. With a comm every process calls it. */
YOKE_API yoke_status yoke_trainer_forecast_sized(yoke_trainer *trainer, yoke_forecast *list,
                                                 size_t count, size_t size);
static inline yoke_status
yoke_trainer_forecast(yoke_trainer *trainer, yoke_forecast *list, size_t count)
{
    return yoke_trainer_forecast_sized(trainer, list, count, sizeof(yoke_forecast));
}
/* Records a timeline from now on: each command of each device, what this thread does, loss, shares
 * and memory. A second call, with a path that is NULL, ends it and writes the file, as Chrome's
 * trace events in JSON, which Perfetto opens. The path is checked in the first call. A trainer that
 * is destroyed before has written nothing. At most 1048576 records are kept, in host memory, by all
 * processes together; then the timeline ends, which the log tells. With a comm every process makes
 * both calls, and rank 0 writes one file of all, in times of its clock. YOKE_ERROR_STATE: the
 * clocks of two processes cannot be compared, so each process has written a file of its own,
 * "PATH.rank-N". Waits. */
YOKE_API yoke_status yoke_trainer_trace(yoke_trainer *trainer, const char *path);
/* Copy a parameter or a state by its name, from or to a host array of exactly `count` floats. With
 * a comm every process calls them, and the values of rank 0 are written. Wait. */
YOKE_API yoke_status yoke_trainer_read(yoke_trainer *trainer, const char *name, float *values,
                                       int64_t count);
YOKE_API yoke_status yoke_trainer_write(yoke_trainer *trainer, const char *name,
                                        const float *values, int64_t count);
/* Writes 32 hexadecimal digits and a 0 to `text`, which stand for the bits of the parameter or
 * state `name`, or of all of them (NULL). With a comm every process calls it. Waits. */
YOKE_API yoke_status yoke_trainer_hash(yoke_trainer *trainer, const char *name, char text[33]);
/* Writes the model to a safetensors file: the weights and, in the metadata, the graph. With a comm
 * every process calls it, and rank 0 writes. Waits. */
YOKE_API yoke_status yoke_trainer_save(yoke_trainer *trainer, const char *path);
/* Explains how the team trains, line by line: for each device its share, predicted and measured
 * time, idle time and memory; then the sum of the speeds that the devices have alone, the largest
 * batch that fits, and what limits the team. */
YOKE_API yoke_status yoke_trainer_explain(yoke_trainer *trainer,
                                          void (*line)(void *user, const char *text), void *user);
/* Hands the table of yoke_replica_print_plan to `line`, of the plan by which the first device of
 * this process trains. Waits. */
YOKE_API yoke_status yoke_trainer_print_plan(yoke_trainer *trainer,
                                             void (*line)(void *user, const char *text),
                                             void *user);

/* ------------------------------------------------------------ checkpoint */

/* A checkpoint that yoke_trainer_fit wrote, opened to see what it contains and whether it is
 * intact. It needs no device. */
typedef struct yoke_checkpoint yoke_checkpoint;

/* One tensor of a checkpoint: a weight, or a tensor of the optimizer's state. It may grow at its
 * end. */
typedef struct yoke_checkpoint_tensor {
    const char *name;
    uint64_t bytes;
    bool good; /* its bytes match its checksum */
} yoke_checkpoint_tensor;

/* What a checkpoint contains. The struct and all that it points to are lent by the checkpoint. It
 * may grow at its end. */
typedef struct yoke_checkpoint_info {
    const char *path; /* of the file */
    int64_t step;     /* completed steps */
    int64_t epochs;   /* completed epochs */
    int64_t position; /* samples of the next epoch that were trained */
    int64_t samples;  /* samples of that epoch */
    int64_t batch;
    uint32_t seed;
    yoke_optimizer_kind optimizer;
    float learning_rate;
    size_t history;    /* number of epochs whose results it keeps */
    const char *graph; /* identity of the graph, as a hexadecimal number */
    const char *plans; /* identity of the solvers that computed, likewise */
    size_t devices;    /* of the whole team */
    const char *const *device_names;
    const int64_t *shares;   /* samples of a batch, for each device */
    size_t tensors, damaged; /* number of tensors, and how many of them are damaged */
    size_t others;           /* number of older checkpoints in the folder, if a folder was opened */
    int64_t granule;         /* samples, with YOKE_REPRODUCIBLE_ANY_SPLIT; else 0 */
    const char *weights;     /* yoke_trainer_hash of all weights then; else "" */
} yoke_checkpoint_info;

/* Opens a file, or the newest checkpoint of a folder, and reads all of it. Damaged tensors are
 * marked and are no error. YOKE_ERROR_FORMAT: the header is damaged, or it is another kind of file.
 * YOKE_ERROR_NOT_FOUND: the folder has no checkpoint, or the file has weights alone. */
YOKE_API yoke_status yoke_checkpoint_open(const char *path, yoke_checkpoint **checkpoint);
YOKE_API void yoke_checkpoint_destroy(yoke_checkpoint *checkpoint);
YOKE_API const yoke_checkpoint_info *yoke_checkpoint_get_info(const yoke_checkpoint *checkpoint);
/* Lends a tensor of the checkpoint; NULL where there is none. */
YOKE_API const yoke_checkpoint_tensor *yoke_checkpoint_get_tensor(const yoke_checkpoint *checkpoint,
                                                                  size_t index);

#ifdef __cplusplus
}
#endif
#endif

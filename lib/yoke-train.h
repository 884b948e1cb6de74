/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-train.h - the second half of yoke.h: data, teams of devices, trainers, models.
 *
 * Programs include <yoke.h>, which includes this file. The first half (devices, graphs and the
 * replica on one device) is complete by itself; this half is built on it. The conventions at the
 * top of yoke.h hold here too.
 */
#ifndef YOKE_TRAIN_H
#define YOKE_TRAIN_H

#include "yoke.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ comm */

/* A comm is how the processes of a team communicate: a table of functions. libyoke-mpi makes one
 * (yoke_mpi_comm_create); an application with another transport fills in the table by itself.
 *
 * The library calls these functions from one thread at a time, and only inside a call of the
 * application's. All processes make the same calls in the same order, except those of `beat`,
 * `fail` and `release`. Memory is the host's; `in` and `out` never overlap.
 *
 * A function that fails returns YOKE_ERROR_COMM and gives the reason with yoke_fail(). From then on
 * every call must fail at once; `fail`, `release` and `destroy` may still be called. */
typedef struct yoke_comm yoke_comm;
struct yoke_comm {
    size_t size;                     /* sizeof(yoke_comm) where the table was filled in */
    void *self;                      /* the transport's own; the library does not use it */
    int32_t rank, ranks;             /* the number of this process, and how many there are */
    int32_t local_rank, local_ranks; /* the same among the processes of this host */
    char host[64];
    /* Starts out = sum of `in` over all ranks, with the same bits on each, and sets *request. Both
     * arrays stay in place, and `in` unchanged, until a test says that it is done. Several
     * reductions may be under way. */
    yoke_status (*allreduce_start)(yoke_comm *comm, const float *in, float *out, size_t count,
                                   void **request);
    /* Says in *done whether the reduction is done, and with `wait` waits for it. When it is done,
     * the test frees the request and sets *request to NULL.
     * A test that fails also sets *request to NULL. The transport may still write to the arrays
     * then, for example because MPI cannot cancel a reduction; so it keeps its own memory of the
     * request, and `release` keeps the arrays. Arrays that are not from `alloc` are different: the
     * library frees them, even after a failure. These are all arrays if `alloc` is NULL, else those
     * of yoke_team_allreduce, `broadcast` and `gather`. */
    yoke_status (*allreduce_test)(yoke_comm *comm, void **request, bool wait, bool *done);
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
    /* Returns memory for in and out that suits the transport (shared by the ranks of a host, or
     * registered with a network device), or NULL if there is none. All processes call it together,
     * for the same number of bytes. A NULL function: the library uses memory of its own. */
    void *(*alloc)(yoke_comm *comm, size_t bytes);
    /* Takes back what `alloc` gave; it accepts NULL. After a failure it keeps memory that the
     * transport may still write to. */
    void (*release)(yoke_comm *comm, void *memory);
    /* Frees the comm. All processes call it; after a failure it waits for nobody, and may keep
     * memory that the transport still uses. */
    void (*destroy)(yoke_comm *comm);
    /* A transport may know several algorithms to reduce; trainers measure them and pick the best.
     * `way` returns the name of number `index`, the same in all processes, or NULL after the last.
     * `set_way` picks one for the reductions started, and the memory allocated, from then on; all
     * processes call it, and it communicates with nobody. NULL: there is one algorithm. */
    const char *(*way)(yoke_comm *comm, size_t index);
    yoke_status (*set_way)(yoke_comm *comm, size_t index);
    /* Names the transport's library and how ranks are spread over hosts, for people to read.
     * Measured times are kept in wisdom under this text. May be NULL. */
    const char *transport;
    void *reserved[5]; /* NULL */
};
/* Calls the comm's `destroy`. NULL is fine. Nothing keeps a comm alive: first destroy all teams
 * that use it, and all trainers of those teams. */
YOKE_API void yoke_comm_destroy(yoke_comm *comm);

/* ------------------------------------------------------------------ data */

/* A dataset is a number of samples, counted from 0, each with the same named fields. Who trains or
 * evaluates asks for samples by their numbers. Views and trainers that use it keep it alive. */
typedef struct yoke_dataset yoke_dataset;

typedef struct yoke_field {
    const char *name; /* of the graph's input or target that the field is for */
    yoke_type type;
    yoke_shape shape; /* of one sample */
    const void *data; /* sample 0 in memory; not used with `fill` */
    int64_t stride;   /* bytes from one sample to the next; 0: they follow each other */
} yoke_field;

typedef struct yoke_dataset_options {
    /* Called once with `user`, when nothing uses the fields' memory any more. Not called if making
     * the dataset fails. */
    void (*release)(void *user);
    /* Writes field `field` of sample `index` to `out`; it replaces memory. One thread at a time
     * calls it, but that may be a thread of yoke's: while a fit or an evaluation runs, yoke reads
     * samples that do not stay on the devices before they are needed. Any status but YOKE_OK ends
     * the step that needs the sample. */
    yoke_status (*fill)(void *user, int64_t index, size_t field, void *out);
    void *user;
    bool no_ahead; /* call `fill` only when samples are needed, from the thread that calls yoke */
} yoke_dataset_options;

/* Makes a dataset of `count` samples with at most 8 fields. The samples lie in the caller's arrays,
 * which must stay as they are until `release` is called, or come from `fill`. */
YOKE_API yoke_status yoke_dataset_create_sized(int64_t count, const yoke_field *fields,
                                               size_t field_count,
                                               const yoke_dataset_options *options, size_t size,
                                               yoke_dataset **dataset);
static inline yoke_status
yoke_dataset_create(int64_t count, const yoke_field *fields, size_t field_count,
                    const yoke_dataset_options *options, yoke_dataset **dataset)
{
    return yoke_dataset_create_sized(count, fields, field_count, options,
                                     sizeof(yoke_dataset_options), dataset);
}
YOKE_API void yoke_dataset_destroy(yoke_dataset *dataset);
/* Describe the dataset: the numbers of samples and of fields, and one field, which is lent; NULL
 * where there is none. */
YOKE_API int64_t yoke_dataset_count(const yoke_dataset *dataset);
YOKE_API size_t yoke_dataset_field_count(const yoke_dataset *dataset);
YOKE_API const yoke_field *yoke_dataset_get_field(const yoke_dataset *dataset, size_t index);
/* Copies field `name` of `count` samples, given by their numbers, one after the other in the
 * field's type: not scaled, not augmented. `bytes` is the size of `out`, exactly what they take. */
YOKE_API yoke_status yoke_dataset_read(const yoke_dataset *dataset, const char *name,
                                       const int64_t *indices, size_t count, void *out,
                                       size_t bytes);

typedef enum yoke_data_part {
    YOKE_PART_ANY = 0, /* the training data of a folder that has training data, else everything */
    YOKE_PART_TRAIN,
    YOKE_PART_TEST /* files called "t10k" or "validation" too */
} yoke_data_part;

typedef struct yoke_dataset_open_options {
    yoke_data_part part;
    const char *data_name;   /* name of the data field; NULL: "image" or "x" */
    const char *target_name; /* name of the other field; NULL: "label" or "target" */
    const char *target_file; /* file of labels or targets for a single file; NULL: none */
    bool channels_last;      /* npy: images are (H, W, C) */
    /* CSV: the column of labels, by name or by number from 1. NULL: the column called label, class,
     * target or y, else the last one. It holds classes if its values are whole numbers from 0 or
     * text, else it is a target. */
    const char *csv_label;
    const char *csv_targets; /* CSV: columns of targets, "price", or several, "x,y" */
    bool csv_no_label;       /* CSV: all columns are data */
    bool csv_integers;       /* CSV: data are whole numbers and become i32, for integer inputs */
} yoke_dataset_open_options;

/* Opens a file (IDX, IDX.gz, CIFAR-10 or -100 binary, .npy, CSV), or a folder of such files with
 * their usual names (yoke-data(7)). Sizes in a file are compared with its length before memory is
 * taken. A file that is not compressed is read when samples are, so it must not change meanwhile.
 */
YOKE_API yoke_status yoke_dataset_open_sized(const char *path,
                                             const yoke_dataset_open_options *options, size_t size,
                                             yoke_dataset **dataset);
static inline yoke_status
yoke_dataset_open(const char *path, const yoke_dataset_open_options *options,
                  yoke_dataset **dataset)
{
    return yoke_dataset_open_sized(path, options, sizeof(yoke_dataset_open_options), dataset);
}

/* Makes a view of a dataset: its sample i is sample indices[i] of `dataset`. The view copies the
 * indices, and the scaling, augmentation and class names as they are now. It keeps `dataset` alive
 * and reads through it. */
YOKE_API yoke_status yoke_dataset_subset(yoke_dataset *dataset, const int64_t *indices,
                                         int64_t count, yoke_dataset **subset);
/* Makes two views: `fraction` (0 to 1) of the samples for validation, and the others for training.
 * The seed decides which, in the same way on every machine. */
YOKE_API yoke_status yoke_dataset_split(yoke_dataset *dataset, double fraction, uint32_t seed,
                                        yoke_dataset **train, yoke_dataset **validation);

/* Makes devices compute (x - mean) * scale from the values x of a field. `count` is 1, or the size
 * of the first axis: the channels of an image or the columns of a table; 0 removes the scaling.
 * Without scaling, u8 for a float input becomes x / 255, and other values stay as they are. */
YOKE_API yoke_status yoke_dataset_set_scaling(yoke_dataset *dataset, const char *field,
                                              const float *mean, const float *scale, size_t count);
/* Reads all samples and sets the scaling that gives each channel or column mean 0 and standard
 * deviation 1. A channel or column that is constant becomes 0. */
YOKE_API yoke_status yoke_dataset_measure_scaling(yoke_dataset *dataset, const char *field);
/* Returns the number of means and scales that are set, and lends them until they are set again; 0:
 * none are set. */
YOKE_API size_t yoke_dataset_get_scaling(const yoke_dataset *dataset, const char *field,
                                         const float **mean, const float **scale);

/* Random changes to images (C, H, W) of u8 or f32 in training. What happens to a sample depends on
 * the trainer's seed, the epoch and the sample's number alone. */
typedef struct yoke_augmentation {
    const char *field; /* NULL: the only field of images */
    bool flip;         /* mirror half of the images, left and right */
    int32_t shift;     /* move by up to this many pixels each way; zeros move in */
    bool crop;         /* cut larger images to the input's size: in training at a random position,
                        * else in the middle */
    float noise;       /* standard deviation of the noise that is added after scaling */
} yoke_augmentation;
/* Sets the augmentation of a dataset; NULL removes it. The next epoch uses it. */
YOKE_API yoke_status yoke_dataset_set_augmentation_sized(yoke_dataset *dataset,
                                                         const yoke_augmentation *augmentation,
                                                         size_t size);
static inline yoke_status
yoke_dataset_set_augmentation(yoke_dataset *dataset, const yoke_augmentation *augmentation)
{
    return yoke_dataset_set_augmentation_sized(dataset, augmentation, sizeof(yoke_augmentation));
}

/* Sets the names of classes 0, 1, ..., which are copied, and returns them. Names that are returned
 * are lent until they are set again; NULL where there is none. */
YOKE_API yoke_status yoke_dataset_set_class_names(yoke_dataset *dataset, const char *const *names,
                                                  size_t count);
YOKE_API size_t yoke_dataset_class_count(const yoke_dataset *dataset);
YOKE_API const char *yoke_dataset_get_class_name(const yoke_dataset *dataset, size_t index);

/* ------------------------------------------------------------------ team */

/* A team is the logical devices that train one model: those of this process and, through a comm,
 * those of others. */
typedef struct yoke_team yoke_team;

/* Makes a team of the devices that `selector` picks in this process; NULL is $YOKE_DEVICES, else
 * "all". While it exists, the hardware stays split as the selector says. With a comm, all processes
 * call it, and the comm must live longer than the team. NULL: this process alone. */
YOKE_API yoke_status yoke_team_create(yoke_context *context, const char *selector, yoke_comm *comm,
                                      yoke_team **team);
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

/* Whether a team of one whole CPU runs as core groups: up to 8 groups of its compute units, called
 * lanes here, each with its samples of a batch. They wait for each other once a step, not after
 * each launch. The team still has one device, with one share and one quota. */
typedef enum yoke_core_groups_choice {
    YOKE_CORE_GROUPS_MEASURE =
        0, /* if a step takes less than 2 ms and core groups are over 5 % faster */
    YOKE_CORE_GROUPS_NEVER,
    YOKE_CORE_GROUPS_ALWAYS /* YOKE_ERROR_UNSUPPORTED where core groups are impossible */
} yoke_core_groups_choice;

typedef struct yoke_trainer_options {
    yoke_optimizer optimizer; /* all zero: SGD with rate 0.01 */
    int64_t batch;            /* samples of a step, over the whole team; 0: 32 */
    uint32_t seed;            /* of initial values, dropout and the order of samples */
    uint32_t accumulate;      /* micro-batches of a step, one after the other; 0: 1 */
    const char *shares;       /* "auto", "even" or weights, "80,20"; NULL: "auto" */
    bool freeze;              /* shares and plans stay as they are: every run has the same bits */
    bool strict;              /* no Winograd */
    bool local_batch_norm;    /* batch norm uses the statistics of each device's samples */
    yoke_plan_level level;
    const yoke_schedule *schedule;      /* of the learning rate; copied; NULL: constant */
    const yoke_parameter_group *groups; /* copied */
    size_t group_count;
    float clip_norm, clip_value; /* as in yoke_replica_options */
    const char *wisdom;          /* as in yoke_replica_options */
    uint64_t bucket_bytes;       /* of gradients that are summed at once; 0: yoke chooses */
    yoke_memory_choice memory;
    bool no_overlap; /* several processes send gradients after backward, not during it */
    yoke_core_groups_choice core_groups;
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
YOKE_API yoke_status yoke_trainer_step(yoke_trainer *trainer, int64_t n, const yoke_feed *feeds,
                                       size_t feed_count, yoke_result *result);
/* Computes loss and metrics over a dataset of any size, each sample once. Waits. */
YOKE_API yoke_status yoke_trainer_evaluate(yoke_trainer *trainer, yoke_dataset *dataset,
                                           yoke_result *result);
/* Computes an output of the graph for any number n of samples, in their order; every process gets
 * all. Feeds are needed for the inputs that the output is computed from; if there are none, n is 1.
 * `count` is the number of values of n results, which `values` has room for. Waits. */
YOKE_API yoke_status yoke_trainer_predict(yoke_trainer *trainer, const char *output, int64_t n,
                                          const yoke_feed *feeds, size_t feed_count, float *values,
                                          size_t count);

/* One epoch of training, as the history keeps it. */
typedef struct yoke_epoch {
    int64_t epoch;     /* from 0 */
    int64_t step;      /* completed steps at its end */
    yoke_result train; /* means over the steps of the epoch, each before its update */
    yoke_result test;  /* evaluated at the end of the epoch; its `samples` is 0 without test data */
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
} yoke_fit_options;

/* Trains for some epochs, and evaluates `test` after each if it is not NULL. The order of samples
 * depends on seed and epoch alone. A checkpoint that cannot be written is only a warning in the
 * log, but the last one is an error. YOKE_ERROR_STOPPED: a callback or yoke_trainer_request_stop
 * ended training; the trainer can go on. Waits. */
YOKE_API yoke_status yoke_trainer_fit_sized(yoke_trainer *trainer, yoke_dataset *train,
                                            yoke_dataset *test, const yoke_fit_options *options,
                                            size_t size);
static inline yoke_status
yoke_trainer_fit(yoke_trainer *trainer, yoke_dataset *train, yoke_dataset *test,
                 const yoke_fit_options *options)
{
    return yoke_trainer_fit_sized(trainer, train, test, options, sizeof(yoke_fit_options));
}
/* Returns the number of epochs that all calls of fit trained since initialisation, and lends them
 * until the next call of fit or yoke_trainer_initialize. */
YOKE_API size_t yoke_trainer_get_history(const yoke_trainer *trainer, const yoke_epoch **epochs);
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
/* Returns the FLOPs of a step with n samples on the devices of this process, with the shares of
 * now. */
YOKE_API double yoke_trainer_flops(const yoke_trainer *trainer, int64_t n);
/* Where the newest step of a team of several processes spent the caller's time, in seconds. */
typedef struct yoke_step_times {
    double exposed; /* waited for sums of gradients after all gradients of its own were known */
    double forward, backward; /* only with no_overlap, else 0 */
} yoke_step_times;
YOKE_API yoke_status yoke_trainer_get_times_sized(const yoke_trainer *trainer, size_t size,
                                                  yoke_step_times *times);
static inline yoke_status
yoke_trainer_get_times(const yoke_trainer *trainer, yoke_step_times *times)
{
    return yoke_trainer_get_times_sized(trainer, sizeof(yoke_step_times), times);
}
/* Copy a parameter or a state by its name, from or to a host array of exactly `count` floats. With
 * a comm every process calls them, and the values of rank 0 are written. Wait. */
YOKE_API yoke_status yoke_trainer_read(yoke_trainer *trainer, const char *name, float *values,
                                       size_t count);
YOKE_API yoke_status yoke_trainer_write(yoke_trainer *trainer, const char *name,
                                        const float *values, size_t count);
/* Writes the model to a safetensors file: the weights and, in the metadata, the graph. With a comm
 * every process calls it, and rank 0 writes. Waits. */
YOKE_API yoke_status yoke_trainer_save(yoke_trainer *trainer, const char *path);
/* Explains how the team trains, line by line: for each device its share, predicted and measured
 * time, idle time and memory; then the sum of the speeds that the devices have alone, the largest
 * batch that fits, and what limits the team. */
YOKE_API yoke_status yoke_trainer_explain(yoke_trainer *trainer,
                                          void (*line)(void *user, const char *text), void *user);

/* ------------------------------------------------------------ checkpoint */

/* A checkpoint that yoke_trainer_fit wrote, opened to see what it contains and whether it is
 * intact. It needs no device. */
typedef struct yoke_checkpoint yoke_checkpoint;

/* One tensor of a checkpoint: a weight, or a tensor of the optimizer's state. */
typedef struct yoke_checkpoint_part {
    const char *name;
    uint64_t bytes;
    bool good; /* its bytes match its checksum */
} yoke_checkpoint_part;

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
    const int64_t *shares; /* samples of a batch, for each device */
    size_t parts, damaged; /* number of tensors, and how many of them are damaged */
    const yoke_checkpoint_part *part;
    size_t others; /* number of older checkpoints in the folder, if a folder was opened */
} yoke_checkpoint_info;

/* Opens a file, or the newest checkpoint of a folder, and reads all of it. Damaged tensors are
 * marked and are no error. YOKE_ERROR_FORMAT: the header is damaged, or it is another kind of file.
 * YOKE_ERROR_NOT_FOUND: the folder has no checkpoint, or the file has weights alone. */
YOKE_API yoke_status yoke_checkpoint_open(const char *path, yoke_checkpoint **checkpoint);
YOKE_API void yoke_checkpoint_destroy(yoke_checkpoint *checkpoint);
YOKE_API const yoke_checkpoint_info *yoke_checkpoint_get_info(const yoke_checkpoint *checkpoint);

/* ----------------------------------------------------------------- model */

/* A model is a graph with its weights, input scaling and class names, in host memory. A file of
 * weights holds one. Several threads may use a model at once, except while one loads weights into
 * it or writes to it. */
typedef struct yoke_model yoke_model;

typedef struct yoke_model_options {
    uint32_t seed;             /* of initial values */
    yoke_type input_type;      /* of the data that will be given; YOKE_U8 suits a float input too */
    const float *mean, *scale; /* devices compute (x - mean) * scale of the data; copied */
    /* Number of means and scales: 1, or the size of the input's first axis. 0: u8 becomes x / 255,
     * and floats stay as they are. */
    size_t scaling_count;
    const char *const *class_names; /* copied */
    size_t class_count;
} yoke_model_options;

/* Makes a model of a copy of the graph, with initial values. */
YOKE_API yoke_status yoke_model_create_sized(const yoke_graph *graph,
                                             const yoke_model_options *options, size_t size,
                                             yoke_model **model);
static inline yoke_status
yoke_model_create(const yoke_graph *graph, const yoke_model_options *options, yoke_model **model)
{
    return yoke_model_create_sized(graph, options, sizeof(yoke_model_options), model);
}
/* Reads a model from a file that yoke wrote, or another safetensors file that has a graph in its
 * metadata (yoke-files(7)). */
YOKE_API yoke_status yoke_model_load(const char *path, yoke_model **model);
/* Writes the model to a file. An older file is replaced as a whole or not at all. */
YOKE_API yoke_status yoke_model_save(const yoke_model *model, const char *path);
YOKE_API void yoke_model_destroy(yoke_model *model);
/* Lends the graph. */
YOKE_API yoke_graph *yoke_model_get_graph(const yoke_model *model);
/* Lends a description of one sample of the data: name, type and shape. */
YOKE_API const yoke_field *yoke_model_get_input(const yoke_model *model);
/* Returns the number of means and scales of the input, and lends them; 0: none were set. */
YOKE_API size_t yoke_model_get_scaling(const yoke_model *model, const float **mean,
                                       const float **scale);
/* Return the number of class names, and one of them, which is lent; NULL where there is none. */
YOKE_API size_t yoke_model_class_count(const yoke_model *model);
YOKE_API const char *yoke_model_get_class_name(const yoke_model *model, size_t index);
/* Copy a parameter or a state by its name, from or to an array of exactly `count` floats.
 * Predictors that exist keep the values that they have. */
YOKE_API yoke_status yoke_model_read(const yoke_model *model, const char *name, float *values,
                                     size_t count);
YOKE_API yoke_status yoke_model_write(yoke_model *model, const char *name, const float *values,
                                      size_t count);

/* yoke_model_load_weights, yoke_replica_load_weights and yoke_trainer_load_weights take weights by
 * name from a safetensors file of any origin. The file must have every parameter and state of the
 * graph and nothing else, except PyTorch's num_batches_tracked. All names and shapes are compared
 * before anything changes. */
typedef struct yoke_load_options {
    const char *pattern; /* take only names of the graph that match (with * and ?); NULL: all */
    const char *except;  /* and that do not match this; NULL: none */
    const char *prefix;  /* what precedes the names in the file, such as "module."; NULL: nothing */
    bool partial;        /* ignore names that only the graph or only the file has */
} yoke_load_options;
/* Declares yoke_OBJECT_load_weights(object, path, options). */
#define YOKE_LOAD(object)                                                                          \
    YOKE_API yoke_status yoke_##object##_load_weights_sized(                                       \
        yoke_##object *object, const char *path, const yoke_load_options *options, size_t size);   \
    static inline yoke_status yoke_##object##_load_weights(                                        \
        yoke_##object *object, const char *path, const yoke_load_options *options)                 \
    {                                                                                              \
        return yoke_##object##_load_weights_sized(object, path, options,                           \
                                                  sizeof(yoke_load_options));                      \
    }
YOKE_LOAD(model)
/* These leave the optimizer's state and the step number as they are. Wait. */
YOKE_LOAD(replica)
YOKE_LOAD(trainer) /* with a comm every process calls it and reads the file */

/* A predictor is a model on one device, for one thread. Any number of predictors may share a model.
 */
typedef struct yoke_predictor yoke_predictor;

typedef struct yoke_predictor_options {
    const char *output; /* name of an output of the graph; NULL: the first */
    bool raw;           /* do not apply softmax or sigmoid to the output */
    int64_t batch;      /* samples computed at once; 0: 64 */
    bool strict;        /* no Winograd */
    yoke_plan_level level;
    const char *wisdom; /* as in yoke_replica_options */
} yoke_predictor_options;

/* Makes a predictor on the first device that `selector` picks. Predictors of one model on one
 * device share the weights there. Waits. */
YOKE_API yoke_status yoke_predictor_create_sized(yoke_context *context, const char *selector,
                                                 yoke_model *model,
                                                 const yoke_predictor_options *options, size_t size,
                                                 yoke_predictor **predictor);
static inline yoke_status
yoke_predictor_create(yoke_context *context, const char *selector, yoke_model *model,
                      const yoke_predictor_options *options, yoke_predictor **predictor)
{
    return yoke_predictor_create_sized(context, selector, model, options,
                                       sizeof(yoke_predictor_options), predictor);
}
YOKE_API void yoke_predictor_destroy(yoke_predictor *predictor);
/* Returns the shape of the result for one sample. */
YOKE_API yoke_shape yoke_predictor_get_shape(const yoke_predictor *predictor);
/* Computes the output for any number n of samples, which have the name, type and shape that
 * yoke_model_get_input says. If a cross-entropy of logits is computed from the output, the result
 * is its softmax or sigmoid, which are probabilities. `count` is the number of values of `output`:
 * n times those of yoke_predictor_get_shape. Waits. */
YOKE_API yoke_status yoke_predictor_run(yoke_predictor *predictor, int64_t n, yoke_feed input,
                                        float *output, size_t count);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-train.h - the second half of yoke.h: data, teams of devices, trainers, models.
 *
 * Include <yoke.h>, which includes this. It stands apart because the first half (devices, graphs
 * and the replica on one device) is complete by itself, and this half is built on it.
 */
#ifndef YOKE_TRAIN_H
#define YOKE_TRAIN_H

#include "yoke.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ comm */

/* How the processes of a team talk: one group of processes, all of which make the same calls in
 * the same order, each from one thread at a time, with yoke on the application's stack. libyoke-mpi
 * makes one (yoke_mpi_comm_create); another transport fills in this table by itself. Memory is the
 * host's; in and out never overlap. Every call may fail with YOKE_ERROR_COMM (use yoke_fail to say
 * why), after which all do, and only `fail` and `destroy` are called. */
typedef struct yoke_comm yoke_comm;
struct yoke_comm {
    size_t size; /* sizeof(yoke_comm) of who made it */
    void *self;
    int32_t rank, ranks;             /* this process, and how many there are */
    int32_t local_rank, local_ranks; /* among those of this host */
    char host[64];
    /* out = sum over ranks, in the same bits on all. Starts it; `request` is freed by the test that
     * says done, and the arrays stay as they are until then. Several may be under way. */
    yoke_status (*allreduce_start)(yoke_comm *comm, const float *in, float *out, size_t count,
                                   void **request);
    /* A request that failed is freed too; nobody writes to its arrays any more. */
    yoke_status (*allreduce_test)(yoke_comm *comm, void **request, bool wait, bool *done);
    yoke_status (*broadcast)(yoke_comm *comm, void *data, size_t bytes, int32_t root);
    /* Every process gets all: out holds ranks * bytes, by rank. */
    yoke_status (*gather)(yoke_comm *comm, const void *in, size_t bytes, void *out);
    yoke_status (*barrier)(yoke_comm *comm);
    /* Tells the watchdog (if there is one) what this process does next, and that it lives: to be
     * called now and then while others wait for long. Cheap. NULL: none. */
    void (*beat)(yoke_comm *comm, int64_t step, const char *doing);
    /* This process gives up: the calls of all others fail with its rank, its host and `reason`,
     * soon and wherever they are. NULL: they find out by themselves. */
    void (*fail)(yoke_comm *comm, const char *reason);
    /* Memory that the transport likes (shared between ranks of a host, registered); NULL: malloc.
     * All call alloc, for as many bytes. */
    void *(*alloc)(yoke_comm *comm, size_t bytes);
    void (*release)(yoke_comm *comm, void *memory);
    /* All call it, unless the communication failed: then it returns at once. */
    void (*destroy)(yoke_comm *comm);
    /* Several ways to reduce, of which trainers measure the best: the name of number `index`, the
     * same in all processes, NULL behind the last. Reductions and memory that are asked for from
     * here on go by the one that was set; all call it. NULL: there is one way. */
    const char *(*way)(yoke_comm *comm, size_t index);
    yoke_status (*set_way)(yoke_comm *comm, size_t index);
    /* Library and layout of ranks, as people read them and what was measured is known by. */
    const char *transport;
    void *reserved[5];
};
/* NULL is fine. Teams that use it must be gone. */
YOKE_API void yoke_comm_destroy(yoke_comm *comm);

/* ------------------------------------------------------------------ data */

/* Samples by number, each with named fields: what an epoch goes through. Kept by who uses it. */
typedef struct yoke_dataset yoke_dataset;

typedef struct yoke_field {
    const char *name; /* of the graph's input or target it is for */
    yoke_type type;
    yoke_shape shape; /* of one sample */
    const void *data; /* from memory: sample 0; NULL with a callback */
    int64_t stride;   /* bytes from sample to sample; 0: one after the other */
} yoke_field;

typedef struct yoke_dataset_options {
    /* Called once, when nobody needs the fields' memory any more. */
    void (*release)(void *user);
    /* Instead of memory: writes field `field` of sample `index`. Called from one thread at a time,
     * which may be one of yoke's: while a fit or an evaluation runs, samples that do not stay on
     * the devices are read ahead. */
    yoke_status (*fill)(void *user, int64_t index, size_t field, void *out);
    void *user;
    bool no_ahead; /* fill is called when samples are wanted, from the thread that calls yoke */
} yoke_dataset_options;

/* `count` samples in arrays that are borrowed, or asked for one by one. */
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
YOKE_API int64_t yoke_dataset_count(const yoke_dataset *dataset);
YOKE_API size_t yoke_dataset_field_count(const yoke_dataset *dataset);
YOKE_API const yoke_field *yoke_dataset_get_field(const yoke_dataset *dataset, size_t index);
/* Field `name` of `count` samples by their numbers, one after the other, in the field's type. `out`
 * has exactly the `bytes` that they take. */
YOKE_API yoke_status yoke_dataset_read(const yoke_dataset *dataset, const char *name,
                                       const int64_t *indices, size_t count, void *out,
                                       size_t bytes);

typedef enum yoke_data_part {
    YOKE_PART_ANY = 0, /* the training part of a folder that has parts, else everything */
    YOKE_PART_TRAIN,
    YOKE_PART_TEST /* also files called "t10k" or "validation" */
} yoke_data_part;

typedef struct yoke_dataset_open_options {
    yoke_data_part part;
    const char *data_name;   /* of the fields; NULL: "image" or "x", */
    const char *target_name; /* and "label" or "target" */
    const char *target_file; /* labels or targets of a single file; NULL: as the format has them */
    bool channels_last;      /* npy: images are (H, W, C) */
    /* CSV: columns by name or by number, from 1. NULL: one called label, class, target or y, else
     * the last; classes if it holds whole numbers from 0, or text, else a target. */
    const char *csv_label;
    const char *csv_targets; /* "price", or several: "x,y" */
    bool csv_no_label;       /* all columns are data */
    bool csv_integers;       /* columns of data are whole numbers: i32, for integer inputs */
} yoke_dataset_open_options;

/* A file (IDX, IDX.gz, CIFAR-10 or -100 binary, .npy, CSV), or a folder of those with their usual
 * names; see yoke-data(7). Sizes are checked before memory is taken. */
YOKE_API yoke_status yoke_dataset_open_sized(const char *path,
                                             const yoke_dataset_open_options *options, size_t size,
                                             yoke_dataset **dataset);
static inline yoke_status
yoke_dataset_open(const char *path, const yoke_dataset_open_options *options,
                  yoke_dataset **dataset)
{
    return yoke_dataset_open_sized(path, options, sizeof(yoke_dataset_open_options), dataset);
}

/* Sample i of `subset` is sample indices[i] of `dataset`: a view, with its scaling, augmentation
 * and class names as they are now. Copies the indices; keeps the dataset. */
YOKE_API yoke_status yoke_dataset_subset(yoke_dataset *dataset, const int64_t *indices,
                                         int64_t count, yoke_dataset **subset);
/* Two views: `fraction` of the samples, drawn by the seed, for validation, and the others. */
YOKE_API yoke_status yoke_dataset_split(yoke_dataset *dataset, double fraction, uint32_t seed,
                                        yoke_dataset **train, yoke_dataset **validation);

/* Devices compute (x - mean) * scale of a field's values; one mean and scale, or one for each
 * channel of an image or column of a table (the first axis). Without it u8 for a float input is x /
 * 255, and floats stay as they are. */
YOKE_API yoke_status yoke_dataset_set_scaling(yoke_dataset *dataset, const char *field,
                                              const float *mean, const float *scale, size_t count);
/* The same with what the samples have: mean 0 and deviation 1 for each channel or column; a
 * constant one keeps its deviation of 0. Reads them all. */
YOKE_API yoke_status yoke_dataset_measure_scaling(yoke_dataset *dataset, const char *field);
/* What is in force: the number of means and scales, lent; 0: none was set. */
YOKE_API size_t yoke_dataset_get_scaling(const yoke_dataset *dataset, const char *field,
                                         const float **mean, const float **scale);

/* What happens to training samples, by sample and epoch; images (C, H, W) of u8 or f32. */
typedef struct yoke_augmentation {
    const char *field; /* NULL: the only field of images */
    bool flip;         /* left and right, every second time */
    int32_t shift;     /* up to so many pixels each way; zeros move in */
    bool crop;         /* images larger than the input are cut at random, else in the middle */
    float noise;       /* standard deviation, of what is added after scaling */
} yoke_augmentation;
YOKE_API yoke_status yoke_dataset_set_augmentation_sized(yoke_dataset *dataset,
                                                         const yoke_augmentation *augmentation,
                                                         size_t size);
static inline yoke_status
yoke_dataset_set_augmentation(yoke_dataset *dataset, const yoke_augmentation *augmentation)
{
    return yoke_dataset_set_augmentation_sized(dataset, augmentation, sizeof(yoke_augmentation));
}

/* Names of classes 0, 1, ...; copied. NULL from get: there is none. */
YOKE_API yoke_status yoke_dataset_set_class_names(yoke_dataset *dataset, const char *const *names,
                                                  size_t count);
YOKE_API size_t yoke_dataset_class_count(const yoke_dataset *dataset);
YOKE_API const char *yoke_dataset_get_class_name(const yoke_dataset *dataset, size_t index);

/* ------------------------------------------------------------------ team */

/* The logical devices that train one model: of this process and, through a comm, of others. */
typedef struct yoke_team yoke_team;

/* NULL selector: $YOKE_DEVICES, else every device; NULL comm: this process alone. */
YOKE_API yoke_status yoke_team_create(yoke_context *context, const char *selector, yoke_comm *comm,
                                      yoke_team **team);
YOKE_API void yoke_team_destroy(yoke_team *team);
/* Devices of this process, and of all. */
YOKE_API size_t yoke_team_size(const yoke_team *team);
YOKE_API size_t yoke_team_total(const yoke_team *team);
YOKE_API yoke_device *yoke_team_get_device(const yoke_team *team, size_t index);
/* Of all of them: "cpu:0/2.1", or, where there are several processes, "rank 1 cpu:0/2.1". */
YOKE_API const char *yoke_team_get_device_name(const yoke_team *team, size_t index);
/* Nodes that were made in this place of a graph (yoke_graph_set_place) run on that device. */
YOKE_API yoke_status yoke_team_bind_place(yoke_team *team, const char *place, const char *selector);

/* How a batch of n is split over all devices: "even", or weights such as "80,20"; NULL: even.
 * Largest remainder: the sum is n. `counts` has yoke_team_total() entries. */
YOKE_API yoke_status yoke_team_split(const yoke_team *team, const char *shares, int64_t n,
                                     int64_t *counts);

/* Values on one device. */
typedef struct yoke_array yoke_array;
YOKE_API yoke_status yoke_array_create(yoke_device *device, yoke_type type, int64_t count,
                                       yoke_array **array);
YOKE_API void yoke_array_destroy(yoke_array *array);
YOKE_API int64_t yoke_array_count(const yoke_array *array);
YOKE_API yoke_device *yoke_array_get_device(const yoke_array *array);
/* From and to the host, exactly `count` values. Wait. */
YOKE_API yoke_status yoke_array_write(yoke_array *array, const void *values, int64_t count);
YOKE_API yoke_status yoke_array_read(yoke_array *array, void *values, int64_t count);

/* A replica's parameter or state, gradient (a sum over its samples, not divided), and loss (sum and
 * count, of the newest forward): lent by it. All-reduced over the replicas of a team, gradients and
 * loss are those of the whole batch, and every replica makes the same update. */
YOKE_API yoke_status yoke_replica_get_parameter(yoke_replica *replica, const char *name,
                                                yoke_array **array);
YOKE_API yoke_status yoke_replica_get_gradient(yoke_replica *replica, const char *name,
                                               yoke_array **array);
YOKE_API yoke_status yoke_replica_get_loss(yoke_replica *replica, yoke_array **array);

/* Row r of n goes to array k where counts[0] + .. + counts[k] > r first; one array for each device
 * of this process, which takes its part of the rows. Wait. */
YOKE_API yoke_status yoke_team_scatter(yoke_team *team, const int64_t *counts, int64_t row_values,
                                       const void *rows, yoke_array *const *arrays);
YOKE_API yoke_status yoke_team_gather(yoke_team *team, const int64_t *counts, int64_t row_values,
                                      yoke_array *const *arrays, void *rows);
/* Each becomes the sum of all: `count` lists of one float array for each device of this process,
 * one list after the other, summed in the devices' order. Waits. */
YOKE_API yoke_status yoke_team_allreduce(yoke_team *team, yoke_array *const *arrays, size_t count);

/* --------------------------------------------------------------- trainer */

/* Trains a graph on a team. */
typedef struct yoke_trainer yoke_trainer;

/* Whether a team of one whole CPU is run as a team of its units, which remains one device to see.
 */
typedef enum yoke_lanes_choice {
    YOKE_LANES_MEASURE = 0, /* where a step is short and lanes are faster by more than 5 % */
    YOKE_LANES_NEVER,
    YOKE_LANES_ALWAYS /* an error where there can be none */
} yoke_lanes_choice;

typedef struct yoke_trainer_options {
    yoke_optimizer optimizer; /* zero: SGD with rate 0.01 */
    int64_t batch;            /* of a step, over the whole team; 0: 32 */
    uint32_t seed;            /* initial values, dropout, order of samples */
    uint32_t accumulate;      /* parts a step is computed in, one after the other; 0: 1 */
    const char *shares;       /* "auto", "even", "80,20"; NULL: auto */
    bool freeze;              /* shares and plans stay as they are: same bits every time */
    bool strict;              /* no Winograd */
    bool local_batch_norm;    /* statistics per device */
    yoke_plan_level level;
    const yoke_schedule *schedule;      /* copied; NULL: constant */
    const yoke_parameter_group *groups; /* copied */
    size_t group_count;
    float clip_norm, clip_value; /* 0: none */
    const char *wisdom;          /* see yoke_replica_options */
    uint64_t bucket_bytes;       /* of gradients reduced at once; 0: chosen */
    yoke_memory_choice memory;
    bool no_overlap; /* between processes gradients travel after backward, not during it */
    yoke_lanes_choice lanes;
} yoke_trainer_options;

/* Takes hold of team and graph; compiles, measures and initialises. Waits. A graph without a loss
 * can be predicted, and not trained or evaluated. */
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

/* What a step or an evaluation gave: means over the samples that count. */
typedef struct yoke_result {
    double loss;
    double count;                     /* what the loss counted */
    double metrics[YOKE_MAX_METRICS]; /* in the graph's order */
    size_t metric_count;
    int64_t samples;
    int64_t step; /* completed steps of this trainer */
    double seconds;
} yoke_result;

/* One step over n samples (up to the batch; 0 too). Enqueues; with a result it waits for it. With a
 * comm each process gives all n samples and uses its part. No feeds: those of the step before
 * again, if n and shares are the same and steps have one part. */
YOKE_API yoke_status yoke_trainer_step(yoke_trainer *trainer, int64_t n, const yoke_feed *feeds,
                                       size_t feed_count, yoke_result *result);
/* Evaluation of any number of samples, every one once. Waits. */
YOKE_API yoke_status yoke_trainer_evaluate(yoke_trainer *trainer, yoke_dataset *dataset,
                                           yoke_result *result);
/* An output of the graph for n samples, in their order, at every process; n is 1 for one that is
 * computed from no input. `count` is the number of values that `values` holds. Waits. */
YOKE_API yoke_status yoke_trainer_predict(yoke_trainer *trainer, const char *output, int64_t n,
                                          const yoke_feed *feeds, size_t feed_count, float *values,
                                          size_t count);

/* One epoch of training, as the history keeps it. */
typedef struct yoke_epoch {
    int64_t epoch;     /* from 0 */
    int64_t step;      /* at its end */
    yoke_result train; /* means over the epoch, while it was trained */
    yoke_result test;  /* evaluated at its end; samples 0: no test data */
    double samples_per_second;
    size_t devices;              /* of the whole team */
    const double *shares;        /* of the last step, in samples */
    const double *device_losses; /* mean loss of the samples each had; NaN: none */
} yoke_epoch;

typedef struct yoke_fit_options {
    int64_t epochs; /* 0: 1 */
    bool no_shuffle;
    /* After each completed step, at most two late, and after each epoch; true stops training. */
    bool (*on_step)(void *user, const yoke_result *result);
    bool (*on_epoch)(void *user, const yoke_epoch *epoch);
    void *user;
    const char *checkpoint_dir; /* NULL: none */
    int64_t checkpoint_every;   /* steps; 0: each epoch */
    uint32_t checkpoint_keep;   /* 0: 3 */
    bool resume;                /* from the newest good one, if there is any */
    bool keep_learning_rate;    /* resume with the trainer's, not with the checkpoint's */
    bool same_seed;             /* refuse a checkpoint whose seed is not the trainer's */
} yoke_fit_options;

/* Trains. Stopping by a callback or yoke_trainer_request_stop is YOKE_ERROR_STOPPED. */
YOKE_API yoke_status yoke_trainer_fit_sized(yoke_trainer *trainer, yoke_dataset *train,
                                            yoke_dataset *test, const yoke_fit_options *options,
                                            size_t size);
static inline yoke_status
yoke_trainer_fit(yoke_trainer *trainer, yoke_dataset *train, yoke_dataset *test,
                 const yoke_fit_options *options)
{
    return yoke_trainer_fit_sized(trainer, train, test, options, sizeof(yoke_fit_options));
}
/* Epochs of all calls of fit since initialisation; lent until the next. */
YOKE_API size_t yoke_trainer_get_history(const yoke_trainer *trainer, const yoke_epoch **epochs);
/* The step that is running is completed, then fit returns (save: after a checkpoint). Any thread;
 * async-signal-safe. In a job of several processes one request is enough. */
YOKE_API void yoke_trainer_request_stop(yoke_trainer *trainer);
/* A checkpoint after the step that is running; fit goes on. Likewise. */
YOKE_API void yoke_trainer_request_save(yoke_trainer *trainer);

/* Waits for all steps; returns the error of any. */
YOKE_API yoke_status yoke_trainer_wait(yoke_trainer *trainer);
/* New initial values, and optimizer, step and history from the start. Waits. */
YOKE_API yoke_status yoke_trainer_initialize(yoke_trainer *trainer, uint32_t seed);
/* From the next step on. */
YOKE_API yoke_status yoke_trainer_set_learning_rate(yoke_trainer *trainer, float rate);
/* Without the factor of a schedule. */
YOKE_API float yoke_trainer_get_learning_rate(const yoke_trainer *trainer);
YOKE_API yoke_status yoke_trainer_set_shares(yoke_trainer *trainer, const char *shares);
YOKE_API yoke_status yoke_trainer_freeze(yoke_trainer *trainer, const char *pattern);
YOKE_API yoke_status yoke_trainer_unfreeze(yoke_trainer *trainer, const char *pattern);
/* Samples each device of the whole team gets of a full batch. */
YOKE_API yoke_status yoke_trainer_get_shares(const yoke_trainer *trainer, int64_t *counts,
                                             size_t count);
YOKE_API yoke_graph *yoke_trainer_get_graph(const yoke_trainer *trainer);
YOKE_API int64_t yoke_trainer_get_step(const yoke_trainer *trainer);
/* FLOPs of a step of n samples on the devices of this process, with the shares as they are. */
YOKE_API double yoke_trainer_flops(const yoke_trainer *trainer, int64_t n);
/* Where the newest step of a team of several processes spent the caller's time, in seconds. */
typedef struct yoke_step_times {
    double exposed;           /* waiting for sums of gradients when all of its own were known */
    double forward, backward; /* with no_overlap alone, else 0 */
} yoke_step_times;
YOKE_API yoke_status yoke_trainer_get_times_sized(const yoke_trainer *trainer, size_t size,
                                                  yoke_step_times *times);
static inline yoke_status
yoke_trainer_get_times(const yoke_trainer *trainer, yoke_step_times *times)
{
    return yoke_trainer_get_times_sized(trainer, sizeof(yoke_step_times), times);
}
/* Parameters and states by name; with a comm every process calls it, and rank 0's values are
 * written. Wait. */
YOKE_API yoke_status yoke_trainer_read(yoke_trainer *trainer, const char *name, float *values,
                                       size_t count);
YOKE_API yoke_status yoke_trainer_write(yoke_trainer *trainer, const char *name,
                                        const float *values, size_t count);
/* The model alone: a safetensors file that also holds the graph. Rank 0 writes. Waits. */
YOKE_API yoke_status yoke_trainer_save(yoke_trainer *trainer, const char *path);
/* Lines on each device: predicted and measured time, share, idle part, memory; the ceiling, the
 * largest batch that fits, and what holds the team back. */
YOKE_API yoke_status yoke_team_explain(yoke_trainer *trainer,
                                       void (*line)(void *user, const char *text), void *user);

/* ------------------------------------------------------------ checkpoint */

/* What a checkpoint of yoke_trainer_fit says, and whether it is whole; needs no device. */
typedef struct yoke_checkpoint yoke_checkpoint;

/* A weight, or a part of the optimizer's state. */
typedef struct yoke_checkpoint_part {
    const char *name;
    uint64_t bytes;
    bool good; /* its checksum holds */
} yoke_checkpoint_part;

/* Lent by the checkpoint, as is what it points to. May grow at its end. */
typedef struct yoke_checkpoint_info {
    const char *path; /* of the file */
    int64_t step;     /* that were completed */
    int64_t epochs;   /* that were completed */
    int64_t position; /* samples of the next epoch that were trained, */
    int64_t samples;  /* and how many there are */
    int64_t batch;
    uint32_t seed;
    yoke_optimizer_kind optimizer;
    float learning_rate;
    size_t history;    /* epochs that it keeps the results of */
    const char *graph; /* identities, as hexadecimal numbers: of the graph, */
    const char *plans; /* and of the solvers that computed */
    size_t devices;    /* of the whole team */
    const char *const *device_names;
    const int64_t *shares; /* of a batch, by device */
    size_t parts, damaged; /* the latter: of the former */
    const yoke_checkpoint_part *part;
    size_t others; /* older ones in the folder, if it was named */
} yoke_checkpoint_info;

/* A file, or a folder: its newest. Reads all of it; what is damaged is told of, unless it is the
 * header: YOKE_ERROR_FORMAT. YOKE_ERROR_NOT_FOUND: a folder without any, or weights alone. */
YOKE_API yoke_status yoke_checkpoint_open(const char *path, yoke_checkpoint **checkpoint);
YOKE_API void yoke_checkpoint_destroy(yoke_checkpoint *checkpoint);
YOKE_API const yoke_checkpoint_info *yoke_checkpoint_get_info(const yoke_checkpoint *checkpoint);

/* ----------------------------------------------------------------- model */

/* A graph with its weights, input scaling and class names, in host memory: what a file of weights
 * holds. Loading and writing aside it may be used by several threads at once. */
typedef struct yoke_model yoke_model;

typedef struct yoke_model_options {
    uint32_t seed;             /* of initial values */
    yoke_type input_type;      /* of the data that is given: YOKE_U8 for a float input too */
    const float *mean, *scale; /* (x - mean) * scale is computed of it; copied */
    size_t scaling_count; /* 1, or the size of the input's first axis; 0: u8 becomes x / 255, floats
                             stay */
    const char *const *class_names; /* copied */
    size_t class_count;
} yoke_model_options;

/* A copy of the graph, with initial values. */
YOKE_API yoke_status yoke_model_create_sized(const yoke_graph *graph,
                                             const yoke_model_options *options, size_t size,
                                             yoke_model **model);
static inline yoke_status
yoke_model_create(const yoke_graph *graph, const yoke_model_options *options, yoke_model **model)
{
    return yoke_model_create_sized(graph, options, sizeof(yoke_model_options), model);
}
/* From a file that yoke wrote, or that has a graph in its metadata (yoke-files(7)). */
YOKE_API yoke_status yoke_model_load(const char *path, yoke_model **model);
YOKE_API yoke_status yoke_model_save(const yoke_model *model, const char *path);
YOKE_API void yoke_model_destroy(yoke_model *model);
YOKE_API yoke_graph *yoke_model_get_graph(const yoke_model *model);
/* What one sample of the data has to be: name, type and shape; lent. */
YOKE_API const yoke_field *yoke_model_get_input(const yoke_model *model);
/* (x - mean) * scale is computed of it: the number of means and scales, lent; 0: none was set. */
YOKE_API size_t yoke_model_get_scaling(const yoke_model *model, const float **mean,
                                       const float **scale);
YOKE_API size_t yoke_model_class_count(const yoke_model *model);
YOKE_API const char *yoke_model_get_class_name(const yoke_model *model, size_t index);
/* Parameters and states by name. Predictors that exist keep what they have. */
YOKE_API yoke_status yoke_model_read(const yoke_model *model, const char *name, float *values,
                                     size_t count);
YOKE_API yoke_status yoke_model_write(yoke_model *model, const char *name, const float *values,
                                      size_t count);

/* Weights of a safetensors file of any origin, by name. Every one of the graph's parameters and
 * states has to be in it, and nothing else, but for PyTorch's num_batches_tracked. */
typedef struct yoke_load_options {
    const char *pattern; /* only names of the graph that match (* and ?); NULL: all */
    const char *except;  /* ... and do not match this; NULL: none */
    const char *prefix;  /* of the names in the file: "module."; NULL: none */
    bool partial;        /* names that only one side has are left alone */
} yoke_load_options;
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
/* Optimizer state and step stay as they are. Wait. */
YOKE_LOAD(replica)
YOKE_LOAD(trainer) /* with a comm every process calls it, and reads the file */

/* A model on one device, for one thread; any number may share the model. */
typedef struct yoke_predictor yoke_predictor;

typedef struct yoke_predictor_options {
    const char *output; /* NULL: the first */
    bool raw;           /* no softmax or sigmoid after it */
    int64_t batch;      /* samples computed at once; 0: 64 */
    bool strict;        /* no Winograd */
    yoke_plan_level level;
    const char *wisdom; /* see yoke_replica_options */
} yoke_predictor_options;

/* On the first device of the selector. Those of one model on one device share its weights. */
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
/* Of the result for one sample. */
YOKE_API yoke_shape yoke_predictor_get_shape(const yoke_predictor *predictor);
/* The output for n samples as yoke_model_get_input says; where it is what a cross-entropy is of,
 * after that one's softmax or sigmoid: probabilities. `count` is the number of values that `output`
 * holds: n results of yoke_predictor_get_shape. Any n. Waits. */
YOKE_API yoke_status yoke_predict(yoke_predictor *predictor, int64_t n, yoke_feed input,
                                  float *output, size_t count);

#ifdef __cplusplus
}
#endif
#endif

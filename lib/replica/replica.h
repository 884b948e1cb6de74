/* SPDX-License-Identifier: Apache-2.0
 *
 * replica.h - the insides of a replica, a graph on one device, for the files of
 * lib/team and lib/train that build teams of several.
 */
#ifndef YKI_REPLICA_H
#define YKI_REPLICA_H

#include "device/trace.h"
#include "replica/updater.h"

enum { YKI_RING = 3 };

/* Host memory from which a transfer reads, pinned where it is large and the device's memory is not
 * the host's. It may be reused after the event `busy`. */
typedef struct yki_staging {
    yki_buffer *pinned; /* `memory` is its; NULL: `memory` is allocated */
    void *memory;
    uint64_t size;
    yki_buffer *passing; /* beside an input: see yki_replica_give; or NULL */
    yki_event busy;
} yki_staging;

/* Waits until the memory may be reused, and makes it at least `size` bytes long. Zeros are an empty
 * staging. */
yoke_status yki_staging_get(yki_staging *staging, yoke_device *device, uint64_t size);
/* Waits for the transfer and frees the memory. */
void yki_staging_free(yki_staging *staging);

typedef struct yki_replica_input {
    const yoke_node *node;
    int64_t given;  /* samples of the newest data that was given */
    int64_t length; /* of a sequence: rows of each of them; else 0 */
    yki_staging ring[YKI_RING];
    unsigned next;
} yki_replica_input;

/* How far the step that was begun has come. Backward runs only once after a forward: it overwrites
 * forward's results with other values. */
typedef enum yki_stage { YKI_STAGE_NONE, YKI_STAGE_FORWARD, YKI_STAGE_BACKWARD } yki_stage;

struct yoke_replica {
    yoke_replica_options options; /* without its pointers */
    yki_weights *weights;
    yki_queue *queue;
    yki_queue *transfer; /* for what is given to inputs; NULL: nothing has needed it */
    bool in_line;        /* it goes through `queue`: there is no memory for another way */
    struct {
        yki_trace *trace; /* lent; `transfer` joins it when it is made; NULL: no timeline */
        char name[128];   /* of its track */
    } traced;
    yki_wisdom *wisdom;
    struct yki_compilers *compilers;
    char *precision;  /* NULL: f32 */
    bool scales_loss; /* see yki_plan_options; then */
    float loss_scale; /* is that of the next step, */
    uint32_t skipped; /* and so many steps before it were none of the optimizer */
    yki_plan *training, *evaluation;
    yki_updater *updater;
    yki_replica_input *inputs;
    size_t input_count;
    yki_staging steps[2 * YKI_RING]; /* step values: a step sends them once or twice */
    unsigned next_step;
    uint32_t step; /* number of the next update, from 1 */
    uint32_t seed;
    uint64_t first_sample;    /* index of this device's first sample in the batch of the team */
    yki_plan *newest;         /* the plan that ran forward last */
    const yoke_node *missing; /* an input without data in the newest evaluation, or NULL */
    int64_t batch;            /* samples of the newest forward; -1: there was none */
    yki_stage stage;
    const uint8_t *classes; /* the team's classes (yki_plan_options); lent; NULL: its own choice */
    size_t class_count;
    double surveyed; /* seconds that a survey has spent measuring */
    bool repeats;    /* see yki_plan_options */
    bool overlaps;   /* see yki_replica_in_team */
    bool canonical;  /* see yki_plan_options */
    uint32_t lag;    /* likewise */
    void (*tick)(void *user);
    void *tick_user;
    struct {
        yoke_array **list;
        size_t count, capacity;
    } lent; /* arrays, made by team/replica_arrays.c */
};

/* What a team gives to a replica that is one of several. */
typedef struct yki_replica_in_team {
    yki_weights *lender;      /* weights in the same memory, which it shares, or NULL */
    yki_weights *weights;     /* to use as they are (places); retained; NULL: it makes its own */
    bool merges;              /* statistics are merged over the team */
    bool timed;               /* events of its queue have times */
    bool accumulates;         /* steps may have several micro-batches; packed weights are kept */
    bool overlaps;            /* gradients are read while backward runs */
    bool settle;              /* see yki_updater_options */
    bool canonical;           /* see yki_plan_options */
    float average;            /* likewise */
    bool scales_loss;         /* see yki_plan_options */
    uint64_t bucket_size;     /* 0: the default */
    uint32_t owner, owners;   /* updates buckets `owner`, `owner` + `owners`, ...; owners 0: all */
    const yki_ranges *ranges; /* see yki_updater_options */
    size_t shard;
    bool divides; /* likewise; its weights' gradients are transient, */
    bool gathers; /* and its weights are divided */
    uint32_t lag; /* see yki_plan_options */
    bool waits;   /* yki_replica_plan leaves the optimizer to yki_replica_make_updater */
    void (*tick)(void *user); /* see yki_plan_options */
    void *tick_user;
    yki_buffer *totals;     /* sum and count of the loss over the team; lent; NULL: its own */
    yki_buffer *norm_parts; /* partial norms that all owners share; lent; NULL: its own */
} yki_replica_in_team;

/* Makes a replica with its weights, its plan and, for training, its optimizer. `in_team` NULL: it
 * is no member of a team. The caller has checked the optimizer (yki_check_settings). Waits. */
yoke_status yki_replica_create(yoke_device *device, yoke_graph *graph,
                               const yoke_replica_options *options,
                               const yki_replica_in_team *in_team, yoke_replica **replica);
/* Makes all but the plan and the optimizer. yki_replica_plan then makes those. */
yoke_status yki_replica_open(yoke_device *device, yoke_graph *graph,
                             const yoke_replica_options *options,
                             const yki_replica_in_team *in_team, yoke_replica **replica);
/* Makes the plan and the optimizer, with the options and `in_team` that yki_replica_open was given,
 * for `replica->options.batch` samples. After a failure, the caller may change that and call again.
 */
yoke_status yki_replica_plan(yoke_replica *replica, const yoke_replica_options *options,
                             const yki_replica_in_team *in_team);
/* Makes the optimizer of a replica whose plan was made without. */
yoke_status yki_replica_make_updater(yoke_replica *replica, const yoke_replica_options *options,
                                     const yki_replica_in_team *in_team);
/* Makes one more training plan, with weights that share those of the replica. The caller destroys
 * it before the replica. */
yoke_status yki_replica_plan_again(yoke_replica *replica, yki_weights *weights, yki_plan **plan);
/* Frees the training plan and the optimizer, so that they can be made again. */
void yki_replica_unplan(yoke_replica *replica);
/* Finds what each numerical class would cost, before the plan is made. May measure. */
yoke_status yki_replica_survey(yoke_replica *replica, const yki_replica_in_team *in_team,
                               yki_costs *costs);
/* Of which plan the bytes are asked for. */
typedef struct yki_estimate {
    bool evaluation;         /* that of evaluations, not of training */
    bool transient, divided; /* what the weights are taken for, whatever they were made as */
    uint64_t most;           /* in training: a budget instead of that of the options; 0: that */
    bool least;              /* in training: as little as computing again leads to */
} yki_estimate;

/* Gives the bytes of a plan like that which would be made; makes none. UINT64_MAX: it does not keep
 * to its budget. */
yoke_status yki_replica_estimate(yoke_replica *replica, const yki_replica_in_team *in_team,
                                 const yki_estimate *of, uint64_t *bytes);
/* Gives what each node would cost, by node id, with the weights that it has (yki_plan_find_loads).
 */
yoke_status yki_replica_find_loads(yoke_replica *replica, yki_load *loads, bool *measured);
/* Opens wisdom from the file `given`; if that is NULL, from YOKE_WISDOM, or else from the cache
 * directory of the device's context. The caller closes it. */
yoke_status yki_open_wisdom(yoke_device *device, const char *given, yki_wisdom **wisdom);
/* Enqueues the step values that the host computes: step, seed, first sample, learning rate. */
yoke_status yki_replica_send_step(yoke_replica *replica, yki_plan *plan, float rate_factor);
/* Copies samples [first, first + n) of `data` and enqueues their transfer to the input `name` of
 * the plan, if the plan reads it; sequences have `length` rows. Does not check the data, which may
 * be reused on return. Much data for a device with memory of its own goes through a queue of its
 * own to a buffer beside the input, which the device then copies: so it travels while the step
 * before computes. */
yoke_status yki_replica_give(yoke_replica *replica, yki_plan *plan, const char *name,
                             int64_t length, int64_t first, int64_t n, const void *data);
/* Makes the plan for evaluation unless it exists. */
yoke_status yki_replica_make_evaluation(yoke_replica *replica);
/* Gives the seconds of an update, from wisdom or, unless the level is to estimate, by measuring; 0:
 * neither knows, or there is nothing to update. Waits. (update_time.c) */
yoke_status yki_replica_time_update(yoke_replica *replica, double *seconds);
/* Bytes of the device that are not there yet, through which the inputs of n samples will travel, at
 * most a full batch; they are made in the first steps, where memory allows it. */
uint64_t yki_replica_way_bytes(const yoke_replica *replica, int64_t n);
/* Copies the data to staging memory and enqueues its transfer to a plan's input buffer, if the plan
 * reads that input. */
yoke_status yki_replica_upload(yoke_replica *replica, yki_replica_input *input, yki_plan *plan,
                               const void *data, uint64_t size);
/* Frees the buffers of data on its way to inputs, when it has arrived, and makes no more. */
yoke_status yki_replica_close_way(yoke_replica *replica);

/* ---- settings.c ---- */

/* Sets the learning rate of an SGD optimizer to 0.01 if it is 0. */
void yki_optimizer_complete(yoke_optimizer *optimizer);

/* Checks the optimizer, clipping and parameter groups of the options. */
yoke_status yki_check_settings(const yoke_replica_options *options, const yoke_graph *graph);
/* Checks each field of a schedule. */
yoke_status yki_check_schedule(const yoke_schedule *schedule);

/* ---- check_feeds.c ---- */

/* Returns the values of a sample of an input; a sequence has `length` rows. */
int64_t yki_sample_count(const yoke_node *node, int64_t length);
/* Checks that a feed holds n samples of this input. Of a sequence it gives the rows of each: as
 * many as the count says, or 0 if there are no samples. `function` names, in messages, the public
 * function that got it. */
yoke_status yki_check_feed(const char *function, const yoke_feed *feed, const yoke_node *node,
                           int64_t n, int64_t *length);
/* The same for data of another type and shape. */
yoke_status yki_check_feed_of(const char *function, const yoke_feed *feed, yoke_type type,
                              yoke_shape shape, int64_t n);
/* Fails because two sequences have lengths that differ. */
yoke_status yki_fail_lengths(const char *function, const char *name, int64_t length,
                             const char *other, int64_t other_length);
/* Refuses labels that the input `node` cannot take, before they reach a kernel. `data` has n
 * samples of that input. */
yoke_status yki_check_labels(const yoke_node *node, int64_t length, int64_t n, const void *data);

#endif

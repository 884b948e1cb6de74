/* SPDX-License-Identifier: Apache-2.0
 *
 * replica.h - what is inside a replica, for the files of lib/train that make a
 * team of several.
 */
#ifndef YKI_REPLICA_H
#define YKI_REPLICA_H

#include "replica/updater.h"

enum { YKI_RING = 3 };

/* Host memory a transfer reads from, free again after its event. */
typedef struct yki_staging {
    void *memory;
    uint64_t size;
    yki_event busy;
} yki_staging;

/* Waits until it is free, and makes it large enough. */
yoke_status yki_staging_get(yki_staging *staging, uint64_t size);
void yki_staging_free(yki_staging *staging);

typedef struct yki_replica_input {
    const yoke_node *node;
    int64_t given; /* samples */
    yki_staging ring[YKI_RING];
    unsigned next;
} yki_replica_input;

/* How far the step is that was begun. Backward runs once: it leaves other values where forward
 * left its results. */
typedef enum yki_stage { YKI_STAGE_NONE, YKI_STAGE_FORWARD, YKI_STAGE_BACKWARD } yki_stage;

struct yoke_replica {
    yoke_replica_options options; /* without its pointers */
    yki_weights *weights;
    yki_queue *queue;
    yki_wisdom *wisdom;
    yki_plan *training, *evaluation;
    yki_updater *updater;
    yki_replica_input *inputs;
    size_t input_count;
    yki_staging steps[2 * YKI_RING]; /* up to two a step */
    unsigned next_step;
    uint32_t step; /* of the next update, from 1 */
    uint32_t seed;
    uint64_t first_sample;    /* number of this device's first one in the batch of the team */
    yki_plan *newest;         /* that ran forward last */
    const yoke_node *missing; /* an input without data in the newest evaluation, or NULL */
    int64_t batch;            /* of the newest forward; -1: none */
    yki_stage stage;
    const uint8_t *classes; /* of the team (yki_plan_options); lent; NULL: its own choice */
    size_t class_count;
    double surveyed; /* seconds that a survey has measured */
    bool repeats;    /* see yki_plan_options */
    void (*tick)(void *user);
    void *tick_user;
    yoke_array **lent; /* made by team/replica_arrays.c */
    size_t lent_count, lent_capacity;
};

/* What a team gives to a replica that is one of several. */
typedef struct yki_replica_part {
    yki_weights *lender;      /* of the same space, or NULL */
    yki_weights *weights;     /* made already, of a part of the graph: retained; NULL: its own */
    bool merges;              /* statistics are those of the team */
    bool timed;               /* events of its queue have times */
    bool parts;               /* steps may have several: weights stay from one to the next */
    uint64_t bucket_size;     /* 0: the usual one */
    uint32_t owner, owners;   /* updates buckets `owner`, `owner` + `owners`, ... */
    void (*tick)(void *user); /* see yki_plan_options */
    void *tick_user;
    yki_buffer *totals;     /* sum and count of the loss over the team; lent; NULL: its own */
    yki_buffer *norm_parts; /* shared by the owners; lent; NULL: its own */
} yki_replica_part;

/* `part` NULL: all by itself. */
yoke_status yki_replica_create(yoke_device *device, yoke_graph *graph,
                               const yoke_replica_options *options, const yki_replica_part *part,
                               yoke_replica **replica);
/* In two steps: first all but the plan, ... */
yoke_status yki_replica_open(yoke_device *device, yoke_graph *graph,
                             const yoke_replica_options *options, const yki_replica_part *part,
                             yoke_replica **replica);
/* ... then that, with the same options and part; on failure it can be tried with another batch
 * (`replica->options.batch`). */
yoke_status yki_replica_plan(yoke_replica *replica, const yoke_replica_options *options,
                             const yki_replica_part *part);
/* Undoes it. */
void yki_replica_unplan(yoke_replica *replica);
/* Between the two: what each numerical class would cost. */
yoke_status yki_replica_survey(yoke_replica *replica, const yki_replica_part *part,
                               yki_costs *costs);
/* The wisdom of a device's context; `given`: a path, or NULL. */
yoke_status yki_open_wisdom(yoke_device *device, const char *given, yki_wisdom **wisdom);
/* The host's part of the step values, in order with what is enqueued. */
yoke_status yki_replica_send_step(yoke_replica *replica, yki_plan *plan, float rate_factor);
/* Samples [first, first + n) of `data` to an input of the plan, unchecked; the data may be reused.
 */
yoke_status yki_replica_give(yoke_replica *replica, yki_plan *plan, const char *name, int64_t first,
                             int64_t n, const void *data);
/* The plan for evaluation, made when first asked for. */
yoke_status yki_replica_make_evaluation(yoke_replica *replica);

/* ---- settings.c ---- */

/* Puts in the learning rate of an optimizer that is all zero. */
void yki_optimizer_complete(yoke_optimizer *optimizer);

/* Optimizer, clipping and groups of these options. */
yoke_status yki_check_settings(const yoke_replica_options *options, const yoke_graph *graph);
yoke_status yki_check_schedule(const yoke_schedule *schedule);

/* ---- check_feeds.c ---- */

/* Whether a feed is n samples of this type and shape; `function` is the one that it was given to.
 */
yoke_status yki_check_feed(const char *function, const yoke_feed *feed, yoke_type type,
                           yoke_shape shape, int64_t n);
/* Labels that a loss cannot have are refused before they reach a kernel. `data` has n samples of
 * the input `node`. */
yoke_status yki_check_labels(const yoke_node *node, int64_t n, const void *data);

#endif

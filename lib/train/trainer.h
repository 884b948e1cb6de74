/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.h - inside a trainer.
 */
#ifndef YKI_TRAINER_H
#define YKI_TRAINER_H

#include "replica/feed.h"
#include "shares/shares.h"
#include "team/crew.h"

/* A step that is enqueued: where its results arrive. */
typedef struct yki_flight {
    bool busy;
    float pairs[2 * YKI_PAIRS];
    float *devices; /* sum and count of the loss at each member; NULL in a team of one */
    yki_event *device_reads;
    yki_event read;
    int64_t step, samples;
    double begun;
    int64_t *counts; /* by device of the whole crew */
} yki_flight;

/* Datasets that feed the members' plans, kept from one call to the next. */
typedef struct yki_feeds {
    yoke_dataset *dataset; /* retained; NULL: none yet */
    uint64_t version;      /* of its scaling and augmentation */
    yki_feed **feeds;      /* by member */
    yki_ahead *ahead;      /* for an epoch or an evaluation; NULL: nothing is read ahead */
    int64_t asked, count;  /* samples of it: asked of `ahead`, and all */
} yki_feeds;

/* Whether the team's one device is run as several (lanes.c). */
typedef struct yki_lanes_choice {
    uint32_t possible; /* lanes that there can be; below 2: none */
    uint32_t taken;    /* 0: the device is used whole */
    bool measures;     /* it is to be found out */
    bool known;
    double seconds[2]; /* of a step, whole and in lanes, where that is known */
} yki_lanes_choice;

struct yoke_trainer {
    yoke_trainer_options options; /* pointers are not kept */
    yoke_graph *graph;            /* retained */
    yoke_team *team;              /* retained: what the user knows, and shares are for */
    yki_lanes_choice lanes;
    yki_crew crew; /* of that team, or of the lanes of its one device */
    yki_shares *shares;
    yoke_schedule schedule;
    bool has_schedule;
    yki_flight flights[YKI_FLIGHT];
    int64_t step; /* enqueued */
    int64_t completed;
    int64_t *counts;    /* of the part being enqueued, by device of the whole crew */
    double *seconds;    /* of a completed step, by device of the whole team */
    float *told;        /* times of every process */
    yoke_status status; /* of the failure that ended it */
    char *detail;
    uint32_t epoch; /* of the next one that fit trains */
    yki_feeds train_feeds, test_feeds;
    yki_buffer **inputs; /* of a plan, for feeds */
    yoke_epoch *history;
    size_t history_count, history_capacity;
    atomic_int stop, save;
    bool local_statistics; /* a batch norm takes those of each device alone */
    bool states_differ;    /* so groups have to be told */
    /* told of each completed step */
    void (*on_result)(void *user, const yki_flight *flight);
    void *on_result_user;
};

/* Where the samples of a step come from: gives `n` of them, from number `first` of the batch, to
 * the member's plan. */
typedef yoke_status (*yki_loader)(void *user, yoke_trainer *trainer, size_t member, yki_plan *plan,
                                  int64_t first, int64_t n);

/* yoke_trainer_create, of options that were checked. */
yoke_status yki_trainer_make(yoke_team *team, yoke_graph *graph,
                             const yoke_trainer_options *options, const yki_lanes_choice *lanes,
                             yoke_trainer **trainer);
/* n samples over the devices of the whole crew, as shares are now. */
void yki_trainer_divide(const yoke_trainer *trainer, int64_t n, int64_t *counts);

/* Some batch normalisation takes the statistics of each device's samples. */
bool yki_graph_is_local(const yoke_graph *graph);

/* ---- lanes.c ---- */

/* What is known without trying; what was asked for and cannot be is an error. */
yoke_status yki_lanes_decide(const yoke_team *team, const yoke_graph *graph,
                             const yoke_trainer_options *options, yki_lanes_choice *choice);
/* Where lanes are to be measured, and are worth it, they take the place of the new trainer. */
yoke_status yki_lanes_measure(yoke_team *team, const yoke_trainer_options *options,
                              yoke_trainer **trainer);
yoke_status yki_lanes_team(const yoke_team *team, uint32_t count, yoke_team **lanes);
void yki_lanes_explain(const yki_lanes_choice *choice, void (*line)(void *user, const char *text),
                       void *user);

/* Checks that the trainer still works; on a failure it is remembered. */
yoke_status yki_trainer_ready(yoke_trainer *trainer, const char *function);
/* And that its graph has a loss. */
yoke_status yki_trainer_trains(yoke_trainer *trainer, const char *function);
yoke_status yki_trainer_failed(yoke_trainer *trainer, yoke_status status);
/* From now on only reading, saving and destroying is possible; the detail is the newest one.
 * Returns the status. */
yoke_status yki_trainer_stand_still(yoke_trainer *trainer, yoke_status status);
/* Do all replicas have the same weights, bit by bit? An error names where they do not; on all
 * processes, which all call it (compare_replicas.c). Waits for all steps. */
yoke_status yki_trainer_compare_weights(yoke_trainer *trainer);
/* One step of n samples. */
yoke_status yki_trainer_run(yoke_trainer *trainer, int64_t n, yki_loader load, void *user);
/* Waits until at most `left` steps are under way. */
yoke_status yki_trainer_settle(yoke_trainer *trainer, size_t left);
/* An output for n samples. */
yoke_status yki_trainer_predict(yoke_trainer *trainer, const char *output, int64_t n,
                                yki_loader load, void *user, float *values, size_t count);
void yki_trainer_result(const yoke_trainer *trainer, const double *pairs, yoke_result *result);
/* Several processes: they mean the same, and have rank 0's seed (compare_processes.c). */
yoke_status yki_trainer_compare(yoke_comm *comm, const yoke_graph *graph,
                                yoke_trainer_options *options);
/* The speed of each device, before the first step (calibrate.c). */
yoke_status yki_trainer_calibrate(yoke_trainer *trainer);
/* The samples of part `part` of a step of n samples in so many parts. */
static inline int64_t
yki_part_of(int64_t n, int64_t parts, int64_t part)
{
    return n / parts + (part < n % parts);
}

/* ---- feeds.c ---- */

/* Feeds of a dataset for every member; `training`: augmented. */
yoke_status yki_trainer_feeds(yoke_trainer *trainer, yki_feeds *feeds, yoke_dataset *dataset,
                              bool training);
void yki_feeds_clear(yki_feeds *feeds, size_t count);
/* Samples of a dataset to a member's plan; their position is that in the order of `begin_ahead`. */
yoke_status yki_trainer_feed(yoke_trainer *trainer, yki_feeds *feeds, size_t member, yki_plan *plan,
                             const yki_samples *samples);
/* From here on samples are read ahead, in this order, from `position` on, if that is worth a thread
 * and their function allows it. When `end_ahead` returns nobody reads any more. */
yoke_status yki_trainer_begin_ahead(yoke_trainer *trainer, yki_feeds *feeds, const yki_order *order,
                                    int64_t position);
void yki_trainer_end_ahead(yki_feeds *feeds);
/* The step at `position` comes next; it and those behind it have up to `step` samples, in so many
 * parts. Never waits. */
yoke_status yki_trainer_look_ahead(yoke_trainer *trainer, yki_feeds *feeds, int64_t position,
                                   int64_t step, int64_t parts);

#endif

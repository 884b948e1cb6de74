/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.h - what is inside a trainer, and what the files of lib/train share.
 */
#ifndef YKI_TRAINER_H
#define YKI_TRAINER_H

#include "replica/loader.h"
#include "shares/shares.h"
#include "team/crew.h"

typedef struct yki_timeline yki_timeline;

/* A step that is enqueued, and where its results arrive. */
typedef struct yki_flight {
    bool busy;
    float pairs[2 * YKI_PAIRS];
    float *devices; /* sum and count of the loss at each member; NULL in a team of one */
    yki_event *device_reads;
    yki_event read;
    int64_t step, samples;
    uint32_t good; /* with a loss scale: whether the weights changed */
    double begun;
    int64_t *counts; /* by device of the whole crew: samples of the first micro-batch */
} yki_flight;

/* The loaders of one dataset for all members. They are kept from one call to the next. */
typedef struct yki_loaders {
    bool *reads; /* by node: inputs that a prediction needs, which others lack; NULL: all inputs */
    yoke_dataset *dataset; /* retained; NULL: none yet */
    uint64_t version;      /* of the dataset's settings when the loaders were made */
    yki_loader **loaders;  /* by member */
    yki_prefetch *ahead;   /* lives for an epoch or an evaluation; NULL: nothing is read ahead */
    yki_track *track;      /* of a timeline: what is read ahead; NULL: none */
    int64_t asked, count;  /* positions asked of `ahead` so far; samples of the dataset */
    int64_t length;        /* rows of its sequences; 0: there are none */
} yki_loaders;

/* Whether the team's one device, a whole CPU, is trained on as a team of core groups
 * (core_groups.c). */
typedef struct yki_core_groups_choice {
    uint32_t possible; /* core groups that can be made; below 2: none */
    uint32_t taken;    /* core groups in use; 0: the device is used whole */
    bool measures;     /* both ways are to be timed */
    bool known;
    double seconds[2]; /* of a step: whole, and as core groups; valid if `known` */
} yki_core_groups_choice;

/* An epoch of the history, with what `told` points to. */
typedef struct yki_epoch {
    yoke_epoch told;
    yoke_result train, test;
} yki_epoch;

struct yoke_trainer;

/* The scale of the loss of the next step (loss_scale.c). */
typedef struct yki_loss_scale {
    bool scales;     /* some product may be made of halves; else the scale is 1 */
    float scale;     /* of the mean over a batch; */
    float divisor;   /* that of sums is less by this */
    int64_t good;    /* steps since it changed, */
    int64_t every;   /* after so many of which it doubles */
    int64_t bad;     /* steps that were skipped since the newest good one */
    int64_t skipped; /* steps that changed nothing */
    bool warned;     /* that skipping is in vain */
} yki_loss_scale;

/* A state that training may go back to (verified.c). */
typedef struct yki_verified {
    bool there;
    float *values;      /* of all tensors of a checkpoint */
    int32_t *exponents; /* that units of gradients follow from */
    int64_t step;
    uint32_t epoch;
    size_t epochs; /* in the history */
    float rate;
} yki_verified;

/* Loads samples into a member's plan: `n` of them, from number `first` of the batch. */
typedef yoke_status (*yki_load_function)(void *user, struct yoke_trainer *trainer, size_t member,
                                         yki_plan *plan, int64_t first, int64_t n);

/* A step that is being enqueued: what it needs to be made again, and how (steps.c). */
typedef struct yki_step {
    const yki_flight *flight;
    int64_t n; /* samples */
    yki_load_function load;
    void *user;
    /* Sets the counts of micro-batch `index`. Returns its first sample of this process. */
    int64_t (*begin)(struct yoke_trainer *trainer, const struct yki_step *step, int64_t index);
    /* Loads one granule, number `index` of the checked member's, for a member that has its n and
     * first, and enqueues it again. */
    yoke_status (*again)(struct yoke_trainer *trainer, const struct yki_step *step, size_t member,
                         int64_t micro_batch, int64_t index);
} yki_step;

struct yoke_trainer {
    yoke_trainer_options options; /* pointers are not kept */
    yoke_graph *graph;            /* retained */
    yoke_team *team;              /* retained: the user's team; the shares are of its devices */
    yki_core_groups_choice core_groups;
    yki_crew crew; /* of that team, or of the core groups of its one device */
    yki_shares *shares;
    yki_fitting *fitting;    /* while it is made, lent; NULL: what does not fit is an error */
    yki_shortage *shortages; /* by device of the whole team, where memory was short; else NULL */
    yoke_schedule schedule;
    bool has_schedule;
    yki_flight flights[YKI_FLIGHT];
    yki_loss_scale loss_scale;
    int64_t step;      /* of the newest step that is enqueued */
    int64_t completed; /* the newest step whose update is known to be done where weights are read */
    int64_t *counts;   /* of the micro-batch being enqueued, by device of the whole crew */
    double *seconds;   /* that a completed step took, by device of the whole team */
    float *told;       /* the same as floats, then those of every process */
    struct {
        yoke_status status;
        char *detail;
    } failure;      /* that ended training */
    uint32_t epoch; /* that fit trains next */
    yki_loaders train_loaders, test_loaders, predict_loaders;
    yki_buffer **inputs; /* of one plan, passed to a loader */
    struct {
        yki_epoch **epochs;
        size_t count, capacity;
    } history;
    double gather_seconds;  /* of a micro-batch, where weights are divided; 0: not measured */
    yki_timeline *timeline; /* that is recorded; NULL: none */
    atomic_int stop, save;
    struct {
        uint8_t *out;     /* by device of the crew's whole team: whether it is left out */
        uint8_t *times;   /* likewise: how often it was wrong */
        size_t *members;  /* room for those that take part */
        size_t chosen[3]; /* members: that is checked, that checks it, that decides between them */
        bool active;      /* in the step under way one is checked */
        uint64_t checks, found;
        yki_verified states[2];
        size_t newest;  /* of them */
        bool went_back; /* instead of making the newest step; who sees it clears it */
        bool doubts;    /* a device was left out for good in this step */
        bool paused;    /* steps have no data */
        struct {
            void (*keep)(void *user, size_t which); /* NULL: fit does not run */
            void (*go_back)(void *user, size_t which);
            void *user;
        } fit;             /* what it keeps beside each state */
    } recheck;             /* zeros: granules are not compared */
    bool stopped;          /* the newest fit ended on request */
    bool local_statistics; /* a batch norm takes the statistics of each device alone */
    bool states_differ;    /* running statistics of the groups may differ */
    struct {
        void (*call)(void *user, const yki_flight *flight);
        void *user;
    } on_result; /* called after each completed step; may be NULL */
};

/* Makes a trainer: yoke_trainer_create after it has checked and completed the options. `fitting`
 * NULL: just as they say. */
typedef yoke_status yki_make_trainer(yoke_team *team, yoke_graph *graph,
                                     const yoke_trainer_options *options,
                                     const yki_core_groups_choice *core_groups,
                                     yki_fitting *fitting, yoke_trainer **trainer);
yki_make_trainer yki_trainer_make;
/* The same, by `make`; but where the devices have too little memory, in another way of those that
 * the options leave open, and in stages if `cuts` (fit_memory.c). */
yoke_status yki_trainer_fit_memory(yki_make_trainer *make, yoke_team *team, yoke_graph *graph,
                                   const yoke_trainer_options *options,
                                   const yki_core_groups_choice *core_groups, bool cuts,
                                   yoke_trainer **trainer);
/* Tells what was chosen, if memory was short. */
void yki_trainer_explain_fitting(const yoke_trainer *trainer, const yki_teller *to);
/* Divides n samples over the devices of the whole crew, by the shares as they are now. */
void yki_trainer_divide(const yoke_trainer *trainer, int64_t n, int64_t *counts);
/* Sets the learning rate of all devices. */
static inline void
yki_trainer_put_rate(yoke_trainer *trainer, float rate)
{
    for (size_t k = 0; k < trainer->crew.count; k++)
        yki_updater_set_rate(trainer->crew.members[k].replica->updater, rate);
    trainer->options.optimizer.learning_rate = rate;
}

/* True if a batch normalisation of the graph takes the statistics of each device's samples alone.
 */
bool yki_graph_is_local(const yoke_graph *graph);

/* ---- core_groups.c ---- */

/* Decides from options, device and wisdom whether to use core groups, without timing anything.
 * Fails if the options demand core groups and the device or graph rules them out. */
yoke_status yki_core_groups_decide(const yoke_team *team, const yoke_graph *graph,
                                   const yoke_trainer_options *options,
                                   yki_core_groups_choice *choice);
/* If `*trainer` is to be timed in both ways, makes a second trainer on core groups, times both, and
 * leaves the faster one in `*trainer`, with its initial values. */
yoke_status yki_core_groups_measure(yoke_team *team, const yoke_trainer_options *options,
                                    yoke_trainer **trainer);
/* Makes a team of `count` core groups of the one device of `team`. The caller destroys it. */
yoke_status yki_core_groups_team(const yoke_team *team, uint32_t count, yoke_team **core_groups);
/* Tells the choice, if core groups are used or both times are known. */
void yki_core_groups_explain(const yki_core_groups_choice *choice, const yki_teller *to);

/* Fails with YOKE_ERROR_STATE, and the sentence of the failure, if a failure has ended training.
 * `function` is the name for the message. */
yoke_status yki_trainer_ready(yoke_trainer *trainer, const char *function);
/* Checks the same, and that the graph has a loss. */
yoke_status yki_trainer_trains(yoke_trainer *trainer, const char *function);
/* Reads a parameter or state, wherever it is. If it is divided, all processes call it. No step is
 * under way. */
yoke_status yki_trainer_read_weight(yoke_trainer *trainer, const yki_weight *weight, float *values);
/* Fails if a failure came in an update that could not be completed, or in the midst of an exchange
 * of shards, or of weights and averages: then a part of the weights here is of another state. */
yoke_status yki_trainer_is_whole(yoke_trainer *trainer, const char *function);
/* Ends training after a failure in a step or an evaluation: waits for all devices, completes an
 * update that was begun, tells the other processes, and keeps a detail with device and step.
 * Returns `status`. */
yoke_status yki_trainer_failed(yoke_trainer *trainer, yoke_status status);
/* The same between steps if other processes wait for this one's part of the weights; else nothing.
 * Returns `status`, which may be YOKE_OK. */
yoke_status yki_trainer_gathered(yoke_trainer *trainer, yoke_status status);
/* Ends training: from now on only reading, saving and destroying work. Keeps the newest error
 * detail for the errors of later calls. Returns `status`. */
yoke_status yki_trainer_stand_still(yoke_trainer *trainer, yoke_status status);
/* Compares the weights of all replicas, bit by bit (compare_replicas.c). Every process calls it and
 * gets the same verdict; the error names the replicas that differ. Waits for all steps. */
yoke_status yki_trainer_compare_weights(yoke_trainer *trainer);
/* Enqueues one step of n samples, after it has waited for the results of the step before last.
 * `load` is called for each member that gets samples; NULL: the inputs keep their data. */
yoke_status yki_trainer_run(yoke_trainer *trainer, int64_t n, yki_load_function load, void *user);
/* Marks the nodes that an output is computed from in `reads`, by node. */
void yki_trainer_mark_read(const yoke_trainer *trainer, const char *output, bool *reads);
/* Computes an output for n samples, in evaluation mode, and writes `count` values. Waits. */
yoke_status yki_trainer_predict(yoke_trainer *trainer, const char *output, int64_t n,
                                yki_load_function load, void *user, float *values, int64_t count);
/* Fills in loss, count and metrics of `result` from (sum, count) pairs. */
void yki_trainer_result(const yoke_trainer *trainer, const double *pairs, yoke_result *result);
/* With several processes: fails if their graphs or options differ, then sets the seed to rank 0's
 * (compare_processes.c). */
yoke_status yki_trainer_compare_processes(yoke_comm *comm, const yoke_graph *graph,
                                          yoke_trainer_options *options);
/* Fails with YOKE_ERROR_STATE in all processes if their datasets have other numbers of samples:
 * they would take unlike numbers of steps, and wait for one another for ever. All call it.
 * `function` and `what` ("training") are for the message. */
yoke_status yki_trainer_compare_counts(const yoke_trainer *trainer, const char *function,
                                       const char *what, int64_t count);
/* Measures the speed of each device before the first step, if shares follow the speed
 * (calibrate.c). */
yoke_status yki_trainer_calibrate(yoke_trainer *trainer);
/* Samples of micro-batch `index`, where a step of n samples has `count` of them. */
static inline int64_t
yki_micro_batch_size(int64_t n, int64_t count, int64_t index)
{
    return n / count + (index < n % count);
}
/* Samples of the first, largest micro-batch of a full step: no device gets more at once. */
static inline int64_t
yki_largest_micro_batch(const yoke_trainer_options *options)
{
    return yki_micro_batch_size(options->batch, options->accumulate, 0);
}

/* ---- recheck.c: all do nothing unless options.recheck is above 0 ---- */

/* Chooses the device that is checked in the step that begins, if one is. */
void yki_trainer_begin_recheck(yoke_trainer *trainer);
/* Checks that device in a step whose granules are all enqueued. Then waits. Sets the crew's
 * verdicts, which yki_granules_judge tells all processes.
 */
yoke_status yki_trainer_recheck(yoke_trainer *trainer, const yki_step *step);
/* Leaves out those devices that the verdicts of all processes are against. *found: there are some,
 * and the step is to be made again. Fails if it cannot. */
yoke_status yki_trainer_leave_out(yoke_trainer *trainer, bool *found);
/* Whether a device is left out for good since this was asked last: what it computed before, since
 * its turn to be checked, may be wrong. */
bool yki_trainer_doubts(yoke_trainer *trainer);
/* Whether a device of the crew's whole team is left out; and how many are not. */
bool yki_trainer_is_out(const yoke_trainer *trainer, size_t device);
size_t yki_trainer_devices_in(const yoke_trainer *trainer);
/* Ends a step: devices that were left out of it alone take part again. */
void yki_trainer_let_in(yoke_trainer *trainer);
/* Gives the granules of devices that are left out to the others. */
void yki_trainer_spread(const yoke_trainer *trainer, int64_t n, size_t devices, int64_t *counts);

/* ---- verified.c ---- */

/* Whether a device may be found after the weights have become wrong: unless each process checks its
 * only device in every step. */
bool yki_trainer_goes_back(const yoke_trainer *trainer);
/* Whether it is time to keep the state before the step that comes next. */
bool yki_trainer_keeps_state(const yoke_trainer *trainer);
/* Keeps it; or goes back to one that is verified. All processes call these. No step is under way.
 */
yoke_status yki_trainer_keep_state(yoke_trainer *trainer);
yoke_status yki_trainer_go_back(yoke_trainer *trainer);
/* Somebody else changes the weights. */
static inline void
yki_trainer_forget_states(yoke_trainer *trainer)
{
    trainer->recheck.states[0].there = trainer->recheck.states[1].there = false;
}
void yki_trainer_free_states(yoke_trainer *trainer);

/* ---- average.c ---- */

/* If there is an average of the weights, lets the weights and it take each other's places. A second
 * call undoes it. All steps must be complete. Every process calls it. Waits. */
yoke_status yki_trainer_exchange_average(yoke_trainer *trainer);

/* ---- timeline.c: all do nothing while no timeline is recorded ---- */

/* Records the copies of these loaders too. */
yoke_status yki_timeline_add_loaders(yoke_trainer *trainer, yki_loaders *loaders);
/* Records what their thread reads ahead. */
yoke_status yki_timeline_add_prefetch(yoke_trainer *trainer, yki_loaders *loaders);
/* Records loss, shares and memory after a step. */
void yki_timeline_count(yoke_trainer *trainer, const yki_flight *flight);
/* Ends the timeline without a file. */
void yki_timeline_drop(yoke_trainer *trainer);

/* ---- loss_scale.c: without a loss scale, these do nothing ---- */

/* Returns whether the scale is one that training may have: a power of 2 in the range. */
bool yki_loss_scale_is_valid(float scale);
/* Checks the option. */
yoke_status yki_loss_scale_check(const yoke_trainer_options *options, const yoke_graph *graph);
/* Sets the first scale, and forgets steps that were skipped. */
void yki_loss_scale_start(yoke_trainer *trainer);
/* What to clip by so that a norm is computed in any case. */
float yki_loss_scale_clip_norm(float clip_norm);
/* Gives scale and skipped steps to all devices of this process. */
void yki_loss_scale_give(yoke_trainer *trainer);
/* Enqueues that `flight->good` is read, before its results. */
yoke_status yki_loss_scale_read(yoke_trainer *trainer, yki_flight *flight);
/* Takes what a step has told. */
void yki_loss_scale_land(yoke_trainer *trainer, const yki_flight *flight);
void yki_loss_scale_explain(const yoke_trainer *trainer, const yki_teller *to);

/* ---- loaders.c ---- */

/* Makes loaders of the dataset for every member, unless `loaders` has them already. `training`
 * turns augmentation on. */
yoke_status yki_trainer_loaders(yoke_trainer *trainer, yki_loaders *loaders, yoke_dataset *dataset,
                                bool training);
/* The same for a prediction, which reads nothing but these inputs, by node, each sample once. */
yoke_status yki_trainer_loaders_of(yoke_trainer *trainer, yki_loaders *loaders,
                                   yoke_dataset *dataset, const bool *reads);
/* Frees the loaders of `count` members and stops reading ahead. */
void yki_loaders_clear(yki_loaders *loaders, size_t count);
/* Loads samples into the inputs of a member's plan. Their position is that in the order of
 * `begin_ahead`. */
yoke_status yki_trainer_load(yoke_trainer *trainer, yki_loaders *loaders, size_t member,
                             yki_plan *plan, const yki_samples *samples);
/* Loads samples `first` to `first` + n of an evaluation into a member's plan, and reads ahead; the
 * evaluation begins with number `start` of the dataset. */
yoke_status yki_trainer_load_range(yoke_trainer *trainer, yki_loaders *loaders, size_t member,
                                   yki_plan *plan, int64_t start, int64_t first, int64_t n);
/* Starts a thread that reads samples in this order, from `position` on, if some field is copied
 * from the host and the dataset is worth reading ahead. After `end_ahead` nobody reads any more. */
yoke_status yki_trainer_begin_prefetch(yoke_trainer *trainer, yki_loaders *loaders,
                                       const yki_order *order, int64_t position);
void yki_trainer_end_prefetch(yki_loaders *loaders);
/* Asks the thread for the samples of the step at `position`, which comes next, and of the two after
 * it. A step has up to `step` samples in `micro_batches` micro-batches. Never waits. */
yoke_status yki_trainer_prefetch(yoke_trainer *trainer, yki_loaders *loaders, int64_t position,
                                 int64_t step, int64_t micro_batches);

#endif

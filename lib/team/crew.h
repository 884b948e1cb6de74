/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - the devices of this process that train one graph together, and what
 * they exchange.
 *
 * Each device is a member. Members whose devices share memory form a
 * group with one set of weights. Each bucket of gradients has an owner in the
 * group. The owner sums the bucket, updates its weights and keeps its optimizer
 * state; within a group nobody waits on the host. Groups and processes exchange
 * data through the host. Then each group makes the same update from the same bits.
 *
 * If the graph has places, each member runs the nodes of its places, on every
 * sample. Then each member is a group of its own, and members exchange values of
 * nodes.
 *
 *   crew.c           makes a crew: replicas, kernels, buffers
 *   share_wisdom.c   the order in which processes plan, and the wisdom they share
 *   agree_classes.c  agrees on the numerical class of each node
 *   reduce_choice.c  picks the reduction algorithm and the size of buckets
 *   granules.c       steps whose bits do not depend on the split
 *   passes.c         the same where the graph has statistics of the batch
 *   recheck.c        a second sum of granules, and how two are compared
 *   exchange.c       merges statistics in mid-section, gradients and losses
 *   landing.c        adds gradients and losses of groups while the caller goes on
 *   step.c           builds a training step from these
 *   sharding.c       parts of the optimizer's state, of the gradients, and of the weights
 *   shard_level.c    chooses what is divided
 *   stages.c         runs a graph on several devices, each with nodes of its own
 *   cut_graph.c      finds these nodes where the user has named no places, by cut.c
 *   stage_mail.c     what stages of several processes exchange besides; mail.c: their messages
 *   pipeline.c       the same with several micro-batches at a time; pipeline_order.c: their order
 */
#ifndef YKI_CREW_H
#define YKI_CREW_H

#include "device/trace.h"
#include "replica/replica.h"
#include "team/team.h"

enum {
    YKI_TEAM_INPUTS = 8,              /* input buffers of a kernel in team.cl */
    YKI_PAIRS = 1 + YOKE_MAX_METRICS, /* (sum, count) of the loss and of each metric, at most */
    YKI_FLIGHT = 2,                   /* steps enqueued before the host waits for the oldest */
};

/* Launches of one kernel in team.cl that combine any number of inputs, in their order. */
typedef struct yki_combine {
    yki_kernel **kernels;
    size_t count;
    yki_grid grid;
} yki_combine;

/* What a member needs to add granules (granules.c); zeros: steps have none. */
typedef struct yki_adder {
    yki_kernel **adds;   /* by bucket: accumulated += a granule's gradients */
    yki_kernel **rounds; /* by bucket: gradients = accumulated; NULL: it is not the owner */
    yki_grid *grids;     /* by bucket, of both */
    yki_buffer *largest; /* by weight: bits of the largest element of a granule's gradient */
    size_t count;        /* granules of this step so far */
    size_t at;           /* the number, in this step, of the one whose buckets are added */
    uint32_t *found;     /* `largest`, on the host */
    float *rows;         /* pairs of each granule, on the host */
    yki_event reads[2];  /* when they are there */
    double loss[2];      /* sum and count of the loss of this member's granules */
    bool ended;          /* the newest granule is the step's last, and its buckets are marked */
} yki_adder;

/* What a member adds granules to that it computes for a comparison (recheck.c). */
typedef struct yki_spare {
    yki_adder adder;
    yki_buffer **accumulated; /* by bucket */
    yki_buffer *results;
} yki_spare;

/* What computes one granule of a graph with statistics of the batch (passes.c). */
typedef struct yki_pass {
    yki_weights *weights; /* the member's, with gradients of its own */
    yki_plan *plan;
    int64_t first, n; /* samples of the granule; n is 0 for a pass without one */
    size_t position;  /* next task of the running section */
} yki_pass;

typedef struct yki_member {
    yoke_replica *replica;
    uint32_t group, index_in_group; /* index of the group; index of the member in it */
    yki_queue *side;     /* sums gradients; NULL: it owns no bucket, or is alone in its group */
    yki_queue *back;     /* brings the team's gradients, behind gates (landing.c); or NULL */
    yki_buffer *results; /* pairs of this device, of each granule if there are any; NULL: not
                            needed (open_replica) */
    yki_buffer *totals;  /* pairs of the whole team */
    yki_kernel *pack[2]; /* copy the pairs of a plan into results, eight at a time */
    yki_combine total;   /* totals = sum of the results of the group */
    yki_combine *merges; /* by stop */
    yki_combine *sums;   /* by bucket; empty: it is not the owner, or nothing is summed */
    yki_buffer **accumulated; /* by bucket: sums over micro-batches, or over granules, as integers;
                                 NULL: a step has only one */
    yki_combine *accumulates; /* by bucket: accumulated += gradients of a micro-batch */
    yki_event arrived;        /* the newest point that other members wait for */
    yki_event *complete;      /* by bucket: its gradients are complete */
    yki_event reduced;        /* the newest sum of gradients */
    yki_event updated;        /* this member's share of the newest update */
    /* How far the newest update is enqueued: the weights, the running statistics, of which so many
     * are those of micro-batches before the last one, and all. What is enqueued twice counts twice.
     */
    bool is_committed, has_states, is_updated;
    uint32_t kept_states;
    uint8_t *own_classes; /* by node: class + 1 that the device alone would take; NULL: unknown */
    int64_t first, n;     /* samples of the running micro-batch */
    size_t position;      /* next task of the running section */
    yki_adder adder;
    yki_spare spare;                                /* zeros: granules are not compared */
    yki_pass *passes;                               /* the first one has the plan of the replica */
    size_t pass_count, pass_capacity, passes_taken; /* those of this micro-batch */
    yki_buffer *few; /* pinned: a statistic on its way to the host, then back; NULL: the host
                        may use the device's memory */
    /* Time spent computing, without waits; empty unless the crew is timed. */
    struct yki_spans {
        yki_event *events; /* begin, end, begin, end, ... */
        size_t count, capacity;
    } spans[YKI_FLIGHT];
} yki_member;

typedef struct yki_group {
    size_t *members;
    size_t count;
    uint32_t owners;        /* the first `owners` members own buckets */
    yki_buffer *norm_parts; /* partial norms of all owners; NULL: each updater has its own */
    yki_buffer *weight_of;  /* with granules: by 128 floats of gradients, whose they are */
    yki_buffer *units;      /* with granules: by weight, of two steps */
    yki_buffer **kept; /* by micro-batch: its statistics, until the update (passes.c); or NULL */
    yki_buffer *
        *pinned; /* by bucket: its gradients on their way to the host, then the team's back;
                    NULL: the host may use the device's memory, or other processes take part */
} yki_group;

/* A bucket that is exchanged through the host. */
typedef struct yki_transit {
    void *own, *sum; /* gradients of this process; of all. Only with other processes, or where
                        gradients are divided */
    size_t after;    /* buckets before this one must have left their memory for it */
    void *request;
    double begun;       /* when the reduction was started, if a timeline is recorded */
    yki_event *arrived; /* by group: the host may use its gradients. Only without other processes,
                         * where gradients are whole */
} yki_transit;

/* How the gradients of a crew are summed: bucket after bucket, while backward runs. */
typedef struct yki_bucket_exchange {
    size_t count;         /* of buckets */
    uint64_t limit;       /* bytes of a bucket; 0: the default */
    size_t *ready_stop;   /* by bucket: stops of backward that come before it is complete, + 1 */
    size_t stop_count;    /* of the training plan */
    size_t next;          /* the next bucket to be summed in backward */
    size_t landed;        /* the next bucket whose sum is to be taken by the host */
    bool first;           /* the micro-batch under way is the first one of its step */
    bool marks;           /* complete[] is recorded while backward runs */
    bool apart;           /* gradients are exchanged after backward, not during it */
    yki_transit *transit; /* by bucket; NULL: nothing goes through the host */
    void *transit_memory; /* one piece, for all buckets */
    size_t algorithm;     /* of the comm, by which gradients are reduced */
    double seconds;       /* that processes need to sum them, as measured; 0: unknown */
    char text[80];        /* the algorithm and the limit, for reports */
} yki_bucket_exchange;

/* The integers in which granules are added (granules.c). */
typedef struct yki_wire {
    int32_t type; /* of a comm */
    size_t bytes;
    const char *sum;   /* the kernel that adds them */
    int32_t bits;      /* of a sum, one less than there are behind the sign */
    int32_t growth;    /* bits by which gradients may grow from step to step */
    int32_t shrinkage; /* or become smaller, before the step is made again with finer units */
    int32_t granules;  /* bits of the largest number of granules; with more too few are left */
    bool random;       /* whether elements are rounded at random */
} yki_wire;

/* What a comparison says of a device (recheck.c). All processes know the same. */
typedef enum yki_verdict {
    YKI_VERDICT_NONE = 0, /* nothing against it */
    YKI_VERDICT_ONCE,     /* it was wrong, and right when it computed the same again */
    YKI_VERDICT_BROKEN,   /* it was wrong again */
    YKI_VERDICT_OPEN      /* it or another one is wrong, and nobody can say which */
} yki_verdict;

/* Which groups keep which part of the optimizer's state, of the gradients, and of the weights
 * (sharding.c); zeros: each keeps all. */
typedef struct yki_sharding {
    yoke_shard_choice level; /* what is divided, */
    bool chosen;             /* which has been chosen here, */
    int64_t batch;           /* for so many samples of a device, at most; 0: not chosen */
    yki_ranges *ranges;      /* by bucket and owner */
    size_t count;            /* owners: the groups of all processes */
    size_t first;            /* that of this process's first group */
    size_t *end_of;          /* by rank: the owner behind its last one */
    size_t *device;          /* by owner: its first device, numbered over the whole team */
    size_t *counts;          /* by rank: values of a bucket; written anew for each call */
    size_t halves;           /* of a float: state of a parameter */
    void *host;              /* a bucket on its way from group to group; NULL: buckets.transit */
    bool gradients;          /* a group keeps its own part of the gradients alone, */
    bool weights;            /* and of the weights */
    bool norms;              /* the update clips by norm */
    bool scatters;           /* a process gets its own part of the gradients alone */
    char *passing[2];        /* buckets of weights on their way to plans, in turn */
    void *passing_memory;
    yki_event *passed[2]; /* by member: when its plans have them */
    unsigned turn;
    void *request; /* of an all-gather that has failed */
    size_t held;   /* the bucket + 1 whose weights the host has whole, where buckets are on their
                      way to it; 0: none */
    uint64_t held_version; /* of these weights */
} yki_sharding;

/* Statistics of a step that are needed to compute granules again (passes.c). Those of a granule, or
 * merged ones, of all stops are `size` floats. */
typedef struct yki_kept_rows {
    float *merged;      /* of each micro-batch; NULL: nothing is kept */
    float *granules[2]; /* of each granule of the checked member: its own; and computed again */
    size_t *first;      /* by stop: where its floats are */
    size_t size;
    size_t most; /* granules of a micro-batch */
} yki_kept_rows;

/* How granules are added (granules.c); zeros: steps have none. */
typedef struct yki_exact {
    int64_t granule; /* samples */
    size_t most;     /* granules of a step */
    const yki_wire *wire;
    size_t weights;              /* of the graph, frozen ones too; at least 1 */
    int32_t *exponents;          /* by weight: of the largest element so far; 0: not known */
    int32_t *units;              /* that follow from them, on their way to devices */
    unsigned turn;               /* which half of the groups' `units` this step uses */
    void *message;               /* what processes exchange: this one's, then those of all */
    float totals[2 * YKI_PAIRS]; /* of the newest step */
    uint64_t repeats;            /* steps that were made twice */
    uint32_t micro_batches;      /* of a step, at most */
    uint32_t kept;               /* of this step: whose statistics are kept so far */
    bool together;               /* the graph has statistics of the batch: passes.c */
    float *rows;                 /* statistics of a stop: merged, of granules here, of all */
    size_t row;                  /* floats of the largest */
    uint32_t *widths;            /* granules of a micro-batch, of each process */
    uint32_t micro_batch;        /* the number of the one under way, with `together` */
    bool last;                   /* the granule under way is its member's last of the step */
    uint8_t *verdicts;           /* by device of the whole team: yki_verdict, of this step; NULL:
                                    granules are not compared */
    void *room;                  /* for two tensors that are compared */
    uint64_t room_size;          /* bytes of each */
    uint32_t *devices;           /* of each process */
    size_t checked;              /* the member whose granules are compared in this step */
    yki_kept_rows stats;         /* with `together` */
} yki_exact;

typedef struct yki_landings yki_landings;

/* How much memory a device lacks. */
typedef struct yki_shortage {
    uint64_t needed; /* about, in the first way; 0: no device lacks any */
    uint64_t left;   /* that there is */
} yki_shortage;

enum { YKI_WAYS = 8 };

/* Where memory is foreseen. */
enum {
    YKI_SPARE = 32,  /* one part in so many of a device's stays for small things */
    YKI_PASSING = 8, /* batches of samples on their way to a device: those of training, and of an
                        evaluation, have a ring of four each (replica/loader.c) */
};

/* What may be done where devices have too little memory, besides what the options of a crew say,
 * and what was done. There are YKI_WAYS, the cheapest first (shard_level.c). */
typedef struct yki_fitting {
    bool recomputes;         /* values may be computed again, within the memory that is left */
    bool last;               /* there is no other way: what does not seem to fit is tried */
    size_t first;            /* ways before this one have failed */
    size_t taken;            /* out: the one that is made; YKI_WAYS: none seems to fit */
    yki_shortage *shortages; /* out, by device of the whole team; lent */
    uint64_t least;          /* out: bytes of the device that lacks most, if it computes again; 0:
                                unknown */
    bool alike;              /* out: it failed, in all processes and before anything was made */
} yki_fitting;

typedef struct yki_crew {
    yoke_team *team;   /* retained */
    yoke_comm *comm;   /* the team's; NULL: this process alone */
    yoke_graph *graph; /* lent by the trainer */
    yki_member *members;
    size_t count;
    yki_group *groups;
    size_t group_count;
    bool through_host; /* several groups or processes */
    bool rechecks;     /* granules are compared: recheck.c */
    size_t pairs;      /* 1 + metrics */
    yki_bucket_exchange buckets;
    yki_landings *landings; /* NULL: the host waits for the sums of groups, or there are none */
    yki_exact exact;
    yki_sharding sharding;
    yoke_step_times times; /* of the newest step */
    float *host;           /* rows of host_floats for merging: the result, one per rank */
    size_t host_floats;    /* of the largest statistic */
    bool timing;           /* spans are recorded */
    size_t flight;         /* index of the spans that are recorded */
    /* Of a timeline: what this thread does, and what it does with all other processes, in the same
     * order in each. NULL: none is recorded, or there are no other processes. */
    yki_track *host_track, *comm_track;
    yki_track *adds_track;     /* what the thread of landing.c does; NULL: as host_track */
    bool updating;             /* an update is being enqueued */
    bool torn;                 /* a part of the weights is new, or an average, and others are not */
    int64_t length;            /* rows of the sequences of this step; 0: as many as there may be */
    size_t at;                 /* member of the newest command: errors name it */
    struct yki_stages *stages; /* set up for places; NULL: each member has the whole graph */
    uint64_t *budgets;         /* by member: bytes that the values of its training plan may take, if
                                  they were chosen here; or NULL */
    uint8_t *classes;          /* by node: the team's numerical class + 1; NULL: not agreed */
    size_t class_count;
    size_t home; /* member with the loss and metrics, if there are places and it is of this process;
                    else 0 */
} yki_crew;

typedef struct yki_crew_options {
    yoke_replica_options replica;
    bool local_batch_norm;
    bool accumulates;       /* steps may have several micro-batches */
    bool timed;             /* queues record times */
    bool apart;             /* communication does not overlap backward */
    int64_t granule;        /* samples of a granule; 0: the bits may depend on the split */
    size_t granules;        /* of a step, at most */
    yoke_wire_choice wire;  /* with granules */
    uint32_t micro_batches; /* likewise */
    bool rechecks;          /* with granules: some are computed twice and compared */
    float average;          /* see yki_updater_options */
    bool scales_loss;       /* see yki_plan_options */
    yoke_shard_choice shard;
    const char *shard_by;  /* text (yki_sharding_create) */
    bool own_weights;      /* devices that share memory make no group */
    uint32_t stages;       /* as in yoke_trainer_options */
    yki_fitting *fitting;  /* NULL: what does not fit is an error */
    bool may_shrink;       /* a member's batch may be less than `most` if its memory is short */
    uint64_t bucket_bytes; /* 0: chosen */
    const int64_t *most;   /* by member: its largest batch */
    int64_t micro_batch;   /* of all members of all processes, the largest */
} yki_crew_options;

/* Makes the replicas, plans and buffers for training, or for evaluation only if the graph has no
 * loss. Retains the team; the graph stays the caller's and must outlive the crew. All processes of
 * the team call it. Waits. On failure the crew is empty. */
yoke_status yki_crew_create(yoke_team *team, yoke_graph *graph, const yki_crew_options *options,
                            yki_crew *crew);
/* If the options ask for shards: divides the optimizer's state by what all else has left of the
 * memory, and makes the optimizers. The last step of making. All processes call it. Waits. */
yoke_status yki_crew_divide_state(yki_crew *crew, const yki_crew_options *options);
/* Waits for everything enqueued, then frees all but `crew` itself. Zeros are fine. */
void yki_crew_destroy(yki_crew *crew);

/* Makes the plans for evaluation unless they exist. All processes call it. */
yoke_status yki_crew_make_evaluation(yki_crew *crew);
/* Tells which devices have one set of weights, though they are not parts of one. */
void yki_crew_explain_groups(const yki_crew *crew, const yki_teller *to);
/* Finds the first member that holds the parameter or state `name`. The weight stays the member's.
 * Returns YOKE_ERROR_NOT_FOUND, without a message, where there is none. */
yoke_status yki_crew_find(const yki_crew *crew, const char *name, size_t *member,
                          yki_weight **weight);

/* The member at `index` of a group. */
static inline yki_member *
yki_crew_in_group(const yki_crew *crew, size_t group, size_t index)
{
    return &crew->members[crew->groups[group].members[index]];
}

/* The member of a group that sums and updates a bucket. */
static inline yki_member *
yki_crew_owner(const yki_crew *crew, size_t group, size_t bucket)
{
    return yki_crew_in_group(crew, group, bucket % crew->groups[group].owners);
}

/* Whether groups of this process alone exchange whole gradients, while the host does other things.
 */
static inline bool
yki_crew_adds_pinned(const yki_crew *crew)
{
    return crew->through_host && !crew->comm && !crew->sharding.gradients;
}

/* The number of the arrow of a timeline from a member's gradients of a bucket, in a step, through
 * their sum to the update. */
static inline uint64_t
yki_flow_of_step(const yki_crew *crew, int64_t step, size_t member, size_t bucket)
{
    return ((uint64_t)step * crew->buckets.count + bucket) * crew->count + member;
}

/* The same in the step that is being enqueued. */
static inline uint64_t
yki_member_flow(const yki_crew *crew, const yki_member *m, size_t bucket)
{
    return yki_flow_of_step(crew, (int64_t)m->replica->step, (size_t)(m - crew->members), bucket);
}

/* Bytes of a bucket's gradients as they are summed: floats, or integers of granules. */
static inline uint64_t
yki_crew_travel_size(const yki_crew *crew, size_t bucket)
{
    uint64_t size = crew->members[0].replica->weights->buckets[bucket].size;

    return crew->exact.granule ? size / 4 * crew->exact.wire->bytes : size;
}

/* Bytes that a bucket needs on its way, in whole pages: of its gradients, and of its weights if
 * they are divided, which are more than narrow integers. */
static inline uint64_t
yki_crew_transit_size(const yki_crew *crew, size_t bucket)
{
    const uint64_t page = 4096;
    const uint64_t size = YKI_MAX(yki_crew_travel_size(crew, bucket),
                                  crew->members[0].replica->weights->buckets[bucket].size);

    return (size + page - 1) / page * page;
}

/* Whether the member updates this bucket. */
bool yki_member_owns(const yki_crew *crew, const yki_member *member, size_t bucket);

/* ---- share_wisdom.c ---- */

/* Calls act(crew, user), which plans, once in each process. Rank 0 goes first, and so does the
 * first process of each host that has no device of rank 0's kind. Then all get rank 0's wisdom, the
 * first processes of the other hosts follow, and the rest come last. All processes call it. */
yoke_status yki_crew_in_turn(yki_crew *crew, yoke_status (*act)(yki_crew *crew, void *user),
                             void *user);

/* ---- agree_classes.c ---- */

/* Whether the devices of this team have to agree on classes. */
bool yki_crew_agrees_classes(const yki_crew *crew, const yki_crew_options *options);
/* Sets the classes of the crew and of its replicas from costs[], one entry for each member. Weighs
 * the entries in place (yki_costs_weigh). All processes call it. */
yoke_status yki_crew_agree_classes(yki_crew *crew, yki_costs *costs);
/* Tells the classes, if classes were agreed on. */
void yki_crew_explain_classes(const yki_crew *crew, const yki_teller *to);

/* ---- reduce_choice.c ---- */

/* Sets `bucket_bytes` and, with several processes, `algorithm` and `travel`, to the same in all of
 * them. May measure, for about a second. All processes call it. */
yoke_status yki_crew_choose_reduction(yki_crew *crew, const yki_crew_options *options);

/* ---- granules.c: nothing here is called unless crew->exact.granule is above 0 ---- */

/* The integers of a choice. */
const yki_wire *yki_granules_wire(yoke_wire_choice choice);
/* Makes what granules need besides replicas, `accumulated`, `results` and `totals`. On failure
 * yki_granules_destroy frees what was made. */
yoke_status yki_granules_create(yki_crew *crew);
/* Frees it. Zeros are fine. */
void yki_granules_destroy(yki_crew *crew);
/* Forgets the units, as before the first step; or takes the exponents that they follow from, of a
 * checkpoint. No step is under way. */
yoke_status yki_granules_forget(yki_crew *crew);
yoke_status yki_granules_resume(yki_crew *crew, const int32_t *exponents);
/* Begins the sum of a granule, before its backward. */
yoke_status yki_granules_begin(yki_member *member);
/* Enqueues the sum of one bucket of granule adder.at, whose first sample is member->first. */
yoke_status yki_granules_add_bucket(yki_crew *crew, yki_member *member, const yki_weights *weights,
                                    size_t bucket);
/* Enqueues the sum of the granule whose backward the member has enqueued, with these weights and
 * this plan. `first` is its first sample. Where gradients are divided, its buckets were added while
 * backward ran. */
yoke_status yki_granules_add(yki_crew *crew, yki_member *member, const yki_weights *weights,
                             const yki_plan *plan, int64_t first);
/* Enqueues sums of nothing, for a member that gets no granule in this step. */
yoke_status yki_granules_none(yki_crew *crew, yki_member *member);
/* Waits for all granules of the step, and merges their losses over the team, and the verdicts.
 * *good is false if their units were wrong, or if there is a verdict: then the step is to be made
 * again. All processes call it and get the same answer. */
yoke_status yki_granules_judge(yki_crew *crew, bool *good);
/* Enqueues the sums of the buckets that the member owns, rounded to float, as gradients; and their
 * norms, if those are of gradients that are divided. */
yoke_status yki_granules_round(yki_crew *crew, yki_member *member);
/* Where gradients are divided: from now on sums of parts, which lie at the beginning of the
 * member's sums, become the gradients of its updater. */
yoke_status yki_granules_divide(yki_crew *crew);
/* Sets the units of the next step, once all is enqueued that reads those of this one. */
yoke_status yki_granules_next(yki_crew *crew);

/* Keeps the statistics of micro-batch `index`, which is not the last one, until the update. */
yoke_status yki_granules_keep(yki_crew *crew, uint32_t index);
/* Enqueues the update of running statistics with those that were kept, on a queue of its memory. */
yoke_status yki_granules_commit(yki_crew *crew, yki_member *member, yki_queue *queue);

/* ---- passes.c: likewise, if crew->exact.together ---- */

/* Gives the member passes for `count` granules, at least one, and clears their n. New ones take
 * memory, and time for planning. */
yoke_status yki_passes_take(yki_crew *crew, yki_member *member, size_t count);
/* Notes how many granules of a micro-batch each process has; counts[k]: samples of device k of the
 * whole team. */
void yki_passes_divide(yki_crew *crew, const int64_t *counts);
/* Enqueues forward and backward of all granules of a micro-batch, and adds their gradients. The
 * caller has divided them, has set n and first of the passes of each member and given the inputs.
 * The host waits at each statistic. All processes call it. `last`: they are known to be the last
 * ones of the step. */
yoke_status yki_passes_run(yki_crew *crew, float rate_factor, bool last);

/* Make and free what the member needs to add granules to its `accumulated` and `results`. */
yoke_status yki_adder_create(yki_crew *crew, yki_member *member);
void yki_adder_destroy(const yki_crew *crew, yki_adder *adder);

/* ---- recheck.c: likewise, if granules are compared ---- */

/* Makes the spare sums of all members. On failure yki_recheck_destroy frees what was made; zeros
 * are fine. */
yoke_status yki_recheck_create(yki_crew *crew);
void yki_recheck_destroy(yki_crew *crew);
/* Lets the member's sums and its spare ones take each other's places. */
void yki_recheck_swap(yki_member *member);
/* Compares the sums of `member` with the spare ones of `other`, bit for bit. Waits for both.
 * *tensor is the name of the first tensor that differs, lent; NULL: they are the same. */
yoke_status yki_recheck_compare(yki_crew *crew, yki_member *member, yki_member *other,
                                const char **tensor);
/* Writes a hash of the member's sums, or of its spare ones. Waits for them. */
yoke_status yki_recheck_hash(yki_crew *crew, yki_member *member, bool spare, char hex[33]);

/* Keeps what passes_again needs, from the next step on. Zeros are fine to free. */
yoke_status yki_passes_keep(yki_crew *crew);
void yki_passes_keep_no_more(yki_crew *crew);
/* Forgets those of granules: of the checked member, or those computed again. */
void yki_passes_clear_kept(yki_crew *crew, bool again);
/* Computes granule `index` of the checked member in this micro-batch again, on `member`, which has
 * its n and first and the inputs in the plan of its first pass. Adds its gradients, unless n is 0.
 * Waits. */
yoke_status yki_passes_again(yki_crew *crew, yki_member *member, uint32_t micro_batch, size_t index,
                             float rate_factor);

/* ---- exchange.c ---- */

/* Makes the launches of `kernel`, of team.cl, that combine `count` inputs of `floats` floats each
 * into `out`. The first launch reads eight inputs; each further one adds seven to the result so
 * far. So `out` may be one of the first eight inputs, but no later one. For "yki_team_sum", and
 * for those of integers, `floats` is a multiple of the device's vector. The
 * caller frees `combine`, also on failure. */
yoke_status yki_combine_make(yoke_device *device, const char *kernel, yki_buffer *const *inputs,
                             size_t count, yki_buffer *out, size_t floats, yki_combine *combine);
/* Frees the launches. Zeros are fine. */
void yki_combine_clear(yki_combine *combine);
/* Enqueues the launches; the first one waits for `wait`. */
yoke_status yki_combine_enqueue(yki_queue *queue, const yki_combine *combine, yki_wait wait);

/* Sets `arrived` of each member to an event behind all that it has enqueued. Members that are alone
 * in their group are left out. */
yoke_status yki_crew_arrive(yki_crew *crew);
/* Lets the member's queue wait for `arrived` of the other members of its group. */
yoke_status yki_crew_meet(yki_crew *crew, yki_member *member);
/* Lets `queue` wait for one event of each member of the group: pick(member, index). Skips the
 * member `but` (NULL: none) and events that are not set. */
yoke_status yki_wait_for_group(yki_crew *crew, size_t group, yki_queue *queue,
                               const yki_member *but,
                               const yki_event *(*pick)(const yki_member *, size_t), size_t index);
/* Merges the statistic at a stop over the team. The host waits, once, if it goes through the host.
 */
yoke_status yki_crew_merge(yki_crew *crew, size_t stop);
/* Merges a row of `count` floats of a statistic into another. */
void yki_merge_rows(yki_merge merge, float *into, const float *from, size_t count);
/* Sums, within groups, the buckets that are complete after `stops_passed` stops of backward
 * (SIZE_MAX: all), and starts their exchange between groups and processes. An exchange between
 * processes waits for the sums; all else is only enqueued, and the host adds what has arrived. With
 * places, just enqueues the sums over micro-batches. */
yoke_status yki_crew_reduce(yki_crew *crew, size_t stops_passed);
/* Does the same for the buckets before number `end`, for gradients that are divided. */
yoke_status yki_crew_take(yki_crew *crew, size_t end);
/* Waits for all exchanges that yki_crew_reduce has started and writes the sums to the owners. */
yoke_status yki_crew_receive(yki_crew *crew);
/* Enqueues the copy of each member's loss and metrics, of a micro-batch or of an evaluation, into
 * `results`; `more`: adds them to what is there. */
yoke_status yki_crew_results(yki_crew *crew, bool evaluation, bool more);
/* The same of one member, of the plan that it has run, into row `row` of its results. */
yoke_status yki_member_pack(yki_crew *crew, yki_member *member, const yki_plan *plan, size_t row,
                            bool more);
/* Sums `results` over the team into `totals` of each member that updates weights. */
yoke_status yki_crew_total(yki_crew *crew);

/* What of a member's gradients is exchanged: sums of granules, or the gradients themselves. */
yki_buffer *yki_travelling(const yki_crew *crew, const yki_member *member, size_t bucket);
/* Enqueues the sum of a bucket over a group, on the owner's device. `done` is an event behind it.
 * The caller releases it. */
yoke_status yki_sum_in_group(yki_crew *crew, size_t group, size_t bucket, yki_member **owner,
                             yki_event *done);
/* Adds the gradients of all groups of this process, which the host has, in their order, and gives
 * each the sum. */
void yki_add_pieces(const yki_crew *crew, size_t bucket);
/* Tells a timeline when the host has added a bucket of a step. */
void yki_note_addition(const yki_crew *crew, int64_t step, size_t bucket, double begin, double end);

/* Gives every process the `bytes` of all, as yoke_comm.allgather, in a step. A timeline tells
 * `what`, a constant. */
yoke_status yki_crew_gather(yki_crew *crew, const char *what, const void *in, size_t bytes,
                            void *out);

/* The buffers that a member contributes: its pairs, and its statistic at a stop. */
yki_buffer *yki_member_results(const yki_member *member, size_t index);
yki_buffer *yki_member_stop(const yki_member *member, size_t stop);
/* The node of a pair (sum, count): pair 0 is the loss, the metrics follow. */
const yoke_node *yki_pair_node(const yoke_graph *graph, size_t pair);

/* ---- landing.c: without crew->landings nothing happens ---- */

/* Sets crew->landings where groups of this process exchange whole gradients, and all drivers have
 * gates. On failure yki_landings_destroy frees what was made. */
yoke_status yki_landings_create(yki_crew *crew);
/* All queues have been waited for. */
void yki_landings_destroy(yki_crew *crew);
/* With crew->landings: enqueue the sum of a bucket over all groups, and that of the results
 * (yki_crew_total). */
yoke_status yki_landings_bucket(yki_crew *crew, size_t bucket);
yoke_status yki_landings_results(yki_crew *crew);
/* Waits for the sums under way. They end when the devices have done what is enqueued. */
void yki_landings_settle(yki_crew *crew);
/* Of a step whose results have come: if a sum of it, or of a step before, has failed because of a
 * device, sets crew->at to that device and returns its error, with its sentence. Results of such a
 * step are nothing. */
yoke_status yki_landings_check(yki_crew *crew, int64_t step);
/* After a failure, when all queues have been waited for: says whether a sum has failed. Then the
 * updates of that step and of later ones have changed nothing, and *step is the one before. */
bool yki_landings_broke(yki_crew *crew, int64_t *step);

/* ---- step.c ---- */

/* Begins a pass of samples [first, first + n) of the member with this plan, number `index` of those
 * of the step. */
yoke_status yki_member_begin(yki_crew *crew, yki_member *member, yki_plan *plan, uint32_t index,
                             float rate_factor);
/* Enqueues the tasks of a section from the member's position up to `end`, and an event behind each
 * bucket that becomes complete. */
yoke_status yki_member_run(yki_crew *crew, yki_member *member, yki_plan *plan, yki_section section,
                           size_t end);

/* Enqueues that the gradients of a micro-batch are added to those of the ones before; of the first
 * one (crew->buckets.first) they replace what is there. */
yoke_status yki_member_accumulate(yki_crew *crew, yki_member *member, bool last);
/* Enqueues forward and backward of micro-batch `index` of `count`. The caller has set n and first
 * of each member and given the inputs. */
yoke_status yki_crew_micro_batch(yki_crew *crew, uint32_t index, uint32_t count, float rate_factor);
/* Enqueues forward and backward of one granule on one member, and adds its gradients. The caller
 * has set n and first of the member and given the inputs; n is 0 for a member that gets no granule
 * in a step. `last`: it is known to be the member's last of the step, so its buckets are complete
 * one by one. */
yoke_status yki_crew_granule(yki_crew *crew, yki_member *member, float rate_factor, bool last);
/* Enqueues the end of a member's granules in a step, unless its last one was known to be that: each
 * bucket is complete when all before is done. Without a granule its gradients are zeros. */
yoke_status yki_member_end_granules(yki_crew *crew, yki_member *member);
/* Enqueues one granule of each member that has samples, all together. */
yoke_status yki_crew_granules(yki_crew *crew, float rate_factor);
/* Sums the gradients that are not summed yet, waits for those that are exchanged through the host,
 * and enqueues the update. All processes call it. */
yoke_status yki_crew_update(yki_crew *crew);
/* After a failure, when all queues have been waited for: completes an update that was enqueued for
 * some devices only, on other queues of the same memory. Waits. Returns false if no update was
 * under way or it cannot be completed; crew->torn then says whether a part of it was enqueued. Only
 * groups from which weights are read count. */
bool yki_crew_complete_update(yki_crew *crew);
/* Likewise: whether something has failed that was enqueued for such a group. Updates whose end
 * nobody has seen may then be missing. */
bool yki_crew_has_failed(const yki_crew *crew);
/* Ends a pass that makes no update: waits for buckets under way and for all queues. All processes
 * call it. */
yoke_status yki_crew_settle(yki_crew *crew);
/* Waits for all queues of all members and returns the first error. */
yoke_status yki_crew_finish(yki_crew *crew);
/* Seconds that the member spent computing, by its spans; 0: unknown. Waits for the last span. */
double yki_member_seconds(yki_member *member, size_t flight);
/* Forgets the spans of all members for one step in flight. */
void yki_crew_drop_times(yki_crew *crew, size_t flight);

#endif

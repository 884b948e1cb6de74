/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - the devices of this process at work on one graph, and what they
 * exchange.
 *
 * Members whose devices share memory (one space) form a group: they have one
 * set of weights, each bucket of gradients has an owner among them that sums it,
 * updates the weights and keeps the optimizer's state, and nobody waits on the
 * host. What groups and processes exchange goes through the host; each group then
 * makes the same update from the same bits.
 *
 * Or each member has a part of the graph (places) and every sample: then each is a
 * group of its own, and what they exchange are values between nodes.
 *
 *   crew.c      making it: replicas, kernels, buffers
 *   agree_classes.c     the numerical class of each node
 *   exchange.c  statistics in mid-section, losses, gradients
 *   reduce_choice.c    the way and the buckets in which gradients go between processes
 *   step.c      a training step out of these
 *   stages.c    parts of the graph on several devices
 */
#ifndef YKI_CREW_H
#define YKI_CREW_H

#include "replica/replica.h"
#include "team/team.h"

enum {
    YKI_TEAM_INPUTS = 8,              /* of a kernel in team.cl */
    YKI_PAIRS = 1 + YOKE_MAX_METRICS, /* the loss and metrics */
    YKI_FLIGHT = 2,                   /* steps enqueued and not waited for */
};

/* Launches of a kernel in team.cl, one after the other: out = the inputs, combined in order. */
typedef struct yki_combine {
    yki_kernel **kernels;
    size_t count;
    yki_grid grid;
} yki_combine;

typedef struct yki_member {
    yoke_replica *replica;
    uint32_t group, place; /* place in the group */
    yki_queue *side;       /* sums of gradients; NULL where it owns none */
    yki_buffer *results;   /* pairs of this device; NULL in a crew of one */
    yki_buffer *totals;    /* ... of the team */
    yki_kernel *pack[2];   /* the pairs, eight at a time */
    yki_combine total;     /* totals from results of the group */
    yki_combine *merges;   /* by stop */
    yki_combine *sums;     /* by bucket; used where it owns it */
    yki_buffer **gathered; /* by bucket: gradients of the parts of a step; NULL without parts */
    yki_combine *gathers;  /* gathered += gradients, by bucket */
    yki_event arrived;     /* newest thing others wait for */
    yki_event *complete;   /* by bucket: its gradients are there */
    yki_event reduced;     /* newest sum on the side queue */
    yki_event updated;     /* its part of the newest update */
    bool is_updated, is_committed; /* how far the newest update is enqueued */
    uint8_t *own_classes; /* by node: what the device alone would take; NULL: nobody asked */
    int64_t first, n;     /* samples of the running part of a step */
    size_t position;      /* task at which the section was left */
    yki_staging staging;  /* what the host merged, on its way back */
    /* time of computing, without waiting; where queues are timed */
    struct yki_spans {
        yki_event *events; /* begin, end, begin, end, ... */
        size_t count, capacity;
    } spans[YKI_FLIGHT];
} yki_member;

typedef struct yki_group {
    size_t *members;
    size_t count;
    uint32_t owners;        /* the first so many */
    yki_buffer *norm_parts; /* NULL: a group of one has its own */
} yki_group;

/* A bucket on its way through the host. */
typedef struct yki_transit {
    float *own, *sum; /* of this process, and of all */
    void *request;
} yki_transit;

typedef struct yki_crew {
    yoke_team *team;   /* retained */
    yoke_comm *comm;   /* several processes, or NULL */
    yoke_graph *graph; /* lent by the trainer */
    yki_member *members;
    size_t count;
    yki_group *groups;
    size_t group_count;
    bool through_host;     /* several groups or processes */
    size_t pairs;          /* 1 + metrics */
    yki_transit *transit;  /* by bucket; NULL unless through_host */
    float *transit_memory; /* of all of them */
    uint64_t bucket_bytes; /* the most in a bucket; 0: the usual */
    size_t way;            /* of the comm's, to reduce */
    char travel[80];       /* both, in words */
    bool apart;            /* gradients travel after backward, not during it */
    yoke_step_times times; /* of the newest step */
    size_t bucket_count;
    size_t *ready_stop; /* by bucket: backward stops after which it may travel */
    size_t stop_count;  /* of a training plan */
    float *host;        /* of the largest statistic, for members and processes */
    size_t host_floats;
    size_t next_bucket;        /* of backward: the next to be summed */
    bool marks_buckets;        /* gradients are summed while backward runs */
    bool timing;               /* spans are noted */
    size_t flight;             /* where */
    bool updating;             /* an update is being enqueued */
    size_t at;                 /* member that the newest command was for */
    struct yki_stages *stages; /* members have parts of the graph; NULL: all have the whole */
    uint8_t *classes; /* by node: the team's numerical class + 1; NULL: none was agreed upon */
    size_t class_count;
    size_t home; /* member with the loss and the metrics of all */
} yki_crew;

typedef struct yki_crew_options {
    yoke_replica_options replica;
    bool local_batch_norm;
    bool parts; /* steps may have several */
    bool timed;
    bool apart;      /* no overlap of backward and communication */
    bool may_shrink; /* a device may be made for less than `most`, if its memory asks for that */
    uint64_t bucket_bytes;
    const int64_t *most; /* by member: its largest batch */
} yki_crew_options;

yoke_status yki_crew_create(yoke_team *team, yoke_graph *graph, const yki_crew_options *options,
                            yki_crew *crew);
void yki_crew_destroy(yki_crew *crew);

/* The plans for evaluation, made when first asked for. */
yoke_status yki_crew_make_evaluation(yki_crew *crew);
/* The member that has a parameter or state of this name, and it; of several the first. */
yoke_status yki_crew_find(const yki_crew *crew, const char *name, size_t *member,
                          yki_weight **weight);
static inline yki_member *
yki_crew_in_group(const yki_crew *crew, size_t group, size_t place)
{
    return &crew->members[crew->groups[group].members[place]];
}

bool yki_member_owns(const yki_crew *crew, const yki_member *member, size_t bucket);

/* ---- share_wisdom.c ---- */

/* Plans: here at once; with several processes rank 0 first, whose wisdom the others are given, then
 * the first of each host, then the rest. All call it. */
yoke_status yki_crew_in_turn(yki_crew *crew, yoke_status (*act)(yki_crew *crew, void *user),
                             void *user);

/* ---- agree_classes.c ---- */

/* Whether there is anything to be agreed upon. */
bool yki_crew_agrees(const yki_crew *crew, const yki_crew_options *options);
/* Out of the members' costs; afterwards they are weighed. All processes call it. */
yoke_status yki_crew_agree(yki_crew *crew, yki_costs *costs);
void yki_crew_explain_classes(const yki_crew *crew, void (*line)(void *user, const char *text),
                              void *user);

/* ---- reduce_choice.c ---- */

/* Sets `way` and `bucket_bytes`, the same in all processes; may measure. */
yoke_status yki_crew_choose_travel(yki_crew *crew, const yki_crew_options *options);

/* ---- exchange.c ---- */

/* Makes out = a combination of `count` inputs, in turns of eight; `out` may be one of the first
 * eight inputs. */
yoke_status yki_combine_make(yoke_device *device, const char *kernel, yki_buffer *const *inputs,
                             size_t count, yki_buffer *out, size_t floats, yki_combine *combine);
void yki_combine_clear(yki_combine *combine);
yoke_status yki_combine_enqueue(yki_queue *queue, const yki_combine *combine, yki_wait wait);

/* Every member's `arrived` is an event behind what it has enqueued so far. */
yoke_status yki_crew_arrive(yki_crew *crew);
/* What a member enqueues from here on comes after what all of its group had then. */
yoke_status yki_crew_meet(yki_crew *crew, yki_member *member);
/* What `queue` gets next comes after one event of each member of the group but one. */
yoke_status yki_wait_for_group(yki_crew *crew, size_t group, yki_queue *queue,
                               const yki_member *but,
                               const yki_event *(*pick)(const yki_member *, size_t), size_t index);
/* The statistic at a stop, merged over the team. */
yoke_status yki_crew_merge(yki_crew *crew, size_t stop);
/* Buckets that are complete after so many stops of backward are summed within groups, and sent on
 * their way through the host where that is needed. SIZE_MAX: all. */
yoke_status yki_crew_reduce(yki_crew *crew, size_t stops_passed);
/* All gradients that travel have come back. */
yoke_status yki_crew_receive(yki_crew *crew);
/* The loss and metrics of a part of a step (or of an evaluation) at each member; `more`: added to
 * those of the parts before. */
yoke_status yki_crew_results(yki_crew *crew, bool evaluation, bool more);
/* Those of the team, in `totals` of every member. */
yoke_status yki_crew_total(yki_crew *crew);

/* What a member gives: its pairs, and its statistic at a stop. */
yki_buffer *yki_member_results(const yki_member *member, size_t index);
yki_buffer *yki_member_stop(const yki_member *member, size_t stop);
/* The (sum, count) that pair 0, the loss, or a metric behind it is. */
const yoke_node *yki_pair_node(const yoke_graph *graph, size_t pair);

/* ---- step.c ---- */

/* Forward and backward of one part of a step; members' n and first are set, inputs are given. */
yoke_status yki_crew_part(yki_crew *crew, uint32_t part, uint32_t parts, float rate_factor);
/* Sums, totals and the update. */
yoke_status yki_crew_update(yki_crew *crew);
/* After a failure: an update that some devices have enqueued is completed for the others. False:
 * there was none, or it could not be done. Waits. */
bool yki_crew_complete_update(yki_crew *crew);
/* A pass without an update is over: buckets on their way have come back, everybody has finished. */
yoke_status yki_crew_settle(yki_crew *crew);
/* Waits for everything; the first error. */
yoke_status yki_crew_finish(yki_crew *crew);
/* Seconds of computing that the member's spans tell of; 0: unknown. Waits for the last. */
double yki_member_seconds(yki_member *member, size_t flight);
void yki_crew_drop_times(yki_crew *crew, size_t flight);

#endif

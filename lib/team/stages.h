/* SPDX-License-Identifier: Apache-2.0
 *
 * stages.h - a crew whose members run different nodes of one graph, by its places,
 * instead of different samples. The nodes of one member are its stage.
 */
#ifndef YKI_STAGES_H
#define YKI_STAGES_H

#include "team/crew.h"
#include "team/mail.h"

/* How far each member may run its section before a value is passed to another member. */
typedef struct yki_route {
    yki_section *sections; /* by crossing: the section in which it is made */
    size_t *ends;          /* by member and crossing: task before which the member stops */
} yki_route;

/* How much of the graph a member has, for people to read. */
typedef struct yki_stage_size {
    uint64_t commands, parameters;
    uint64_t copied; /* bytes that others copy to it */
} yki_stage_size;

/* Members are numbered over the whole team here, as its devices are: those of this process have the
 * numbers from crew->team->first on. */
struct yki_stages {
    yki_placed placed;
    size_t home;           /* the member with the loss and the metrics */
    int32_t *rank_of;      /* by member: its process */
    bool *reads;           /* by node: whether training reads this input anywhere */
    yki_stage_size *sizes; /* by member */
    yki_mail mail;
    yki_letter *letters[2]; /* by crossing, as routes; then, of training, by member: the totals */
    void *letter_memory[2];
    yki_weights **weights; /* by member of this process */
    yki_link **links;      /* by sender and receiver of this process; NULL: shared memory, or
                              nothing crosses */
    yki_route routes[2];   /* of evaluation, of training */
    yki_buffer **owned;    /* buffers of crossings */
    size_t owned_count, owned_capacity;
    struct yki_pipeline *pipeline; /* NULL: one micro-batch follows the other */
};

/* Whether a member is of this process. */
static inline bool
yki_is_here(const yki_crew *crew, size_t member)
{
    return member - crew->team->first < crew->count;
}

/* The number of a member in this process, of which it is. */
static inline size_t
yki_here(const yki_crew *crew, size_t member)
{
    return member - crew->team->first;
}

/* The device of a member of this process. */
static inline yoke_device *
yki_device_here(const yki_crew *crew, size_t member)
{
    return yoke_team_get_device(crew->team, yki_here(crew, member));
}

/* Whether a value goes from one process to another, and this is one of them. */
static inline bool
yki_is_mailed(const yki_crew *crew, size_t from, size_t to)
{
    return yki_is_here(crew, from) != yki_is_here(crew, to);
}

/* Checks that all places of the graph are bound, that the team binds no others, and that nothing
 * excludes places or a cut: there must be no `shares`, and one process, or a comm with messages for
 * a cut. A graph that has no places and is not cut passes. */
yoke_status yki_stages_check(const yoke_team *team, const yoke_graph *graph,
                             const yoke_trainer_options *options);
/* Makes the text of shares that gives all samples to one member of the team; the caller frees it
 * with yki_free. */
yoke_status yki_stages_shares(const yoke_team *team, size_t home, char **shares);
/* Gives each node of the completed graph a member, for crew->options.stages stages or as many as
 * are best: homes[i], by node id; and each member of this process that has some the memory that is
 * left for the values of its plan: budgets[k], unless that is NULL. May measure. All processes call
 * it. (cut_graph.c) */
yoke_status yki_stages_cut(const yki_crew *crew, const yki_crew_options *options, uint32_t *homes,
                           uint64_t *budgets);
/* Sets crew->stages and crew->home before the replicas are made: the member of each node, the
 * weights of each member, and what crosses in training. On failure yki_stages_destroy frees what
 * was made. */
yoke_status yki_stages_create(yki_crew *crew, const yki_crew_options *options);
/* Finds the routes, once all members have their plans for training or for evaluation. All processes
 * call it. */
yoke_status yki_stages_connect(yki_crew *crew, bool training);
/* Ends all messages, before the replicas are destroyed. All that is enqueued has been waited for.
 */
void yki_stages_end_mail(yki_crew *crew);
/* Frees crew->stages. NULL is fine. */
void yki_stages_destroy(yki_crew *crew);

/* Enqueues one section of all plans for training or for evaluation. The caller has set the batch
 * and given the inputs. */
yoke_status yki_stages_run(yki_crew *crew, bool training, yki_section section);
/* Lets each member's queue wait for all that the others have enqueued, so that no value is
 * overwritten before it is read. */
yoke_status yki_stages_meet(yki_crew *crew);
/* Enqueues the sums of gradients over the micro-batches of a step, if there are several. */
yoke_status yki_stages_reduce(yki_crew *crew);
/* Enqueues the sums of the loss and the metrics, and their copy to all members. */
yoke_status yki_stages_total(yki_crew *crew);
/* Makes `copies` letters for each value of a list, of at most bytes[i], from member ends[2 * i] to
 * ends[2 * i + 1], with i as tag; those that do not leave a process, or are not of this one, have
 * no peer. All processes call it. *letters is freed by yki_letters_free, as is *memory. */
yoke_status yki_letters_make(yki_crew *crew, size_t count, const uint64_t *bytes,
                             const uint32_t *ends, size_t copies, yki_letter **letters,
                             void **memory);
void yki_letters_free(yki_crew *crew, yki_letter *letters, size_t count, void *memory);
/* What crosses between members in training, and then what goes from the loss to each member: its
 * bytes and its ends, as for yki_letters_make. The caller frees both, also on failure. */
yoke_status yki_stages_list(const yki_crew *crew, bool training, yki_extents max, size_t *count,
                            uint64_t **bytes, uint32_t **ends);
/* Gives all processes the values of a parameter or a state. All call it. */
yoke_status yki_stages_read(yki_crew *crew, const yki_weight *weight, float *values);
/* Gives all members the norms of the gradients of all processes. Waits. All call it. */
yoke_status yki_stages_gather_norms(yki_crew *crew);
/* Waits until what this process has sent has arrived. No process may wait for another one in a
 * call of all before that. */
yoke_status yki_stages_settle(yki_crew *crew);
/* Enqueues the exchange of the gradients' norms, if the update clips by norm, and then
 * yki_stages_meet: no member updates before all have done their backward. Waits for what goes to
 * other processes. */
yoke_status yki_stages_agree(yki_crew *crew);

/* Tells, in a table, how much of the graph each device has, and how many bytes others copy to it.
 */
void yki_stages_explain(const yki_crew *crew, const yki_teller *to);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * stages.h - a crew whose members run different nodes of one graph, by its places,
 * instead of different samples. The nodes of one member are its stage.
 */
#ifndef YKI_STAGES_H
#define YKI_STAGES_H

#include "team/crew.h"

/* How far each member may run its section before a value is passed to another member. */
typedef struct yki_route {
    yki_section *sections; /* by crossing: the section in which it is made */
    size_t *ends;          /* by crossing and member: task before which the member stops */
} yki_route;

struct yki_stages {
    yki_placed placed;
    yki_weights **weights; /* by member */
    yki_link **links;      /* by sender and receiver; NULL: shared memory, or nothing crosses */
    yki_route routes[2];   /* of evaluation, of training */
    yki_buffer **owned;    /* buffers of crossings */
    size_t owned_count, owned_capacity;
    struct yki_pipeline *pipeline; /* NULL: one micro-batch follows the other */
};

/* Checks that all places of the graph are bound, that the team binds no others, and that nothing
 * excludes places or a cut: there must be one process and no `shares`. A graph that has no places
 * and is not cut passes. */
yoke_status yki_stages_check(const yoke_team *team, const yoke_graph *graph,
                             const yoke_trainer_options *options);
/* Makes the text of shares that gives all samples to one member; the caller frees it with yki_free.
 */
yoke_status yki_stages_shares(const yoke_team *team, size_t home, char **shares);
/* Gives each node of the completed graph a member, for crew->options.stages stages or as many as
 * are best: homes[i], by node id; and each member that has some the memory that is left for the
 * values of its plan: budgets[k], unless that is NULL. May measure. (cut_graph.c) */
yoke_status yki_stages_cut(const yki_crew *crew, const yki_crew_options *options, uint32_t *homes,
                           uint64_t *budgets);
/* Sets crew->stages and crew->home before the replicas are made: the member of each node, the
 * weights of each member, and what crosses in training. On failure yki_stages_destroy frees what
 * was made. */
yoke_status yki_stages_create(yki_crew *crew, const yki_crew_options *options);
/* Finds the routes, once all members have their plans for training or for evaluation. */
yoke_status yki_stages_connect(yki_crew *crew, bool training);
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
/* Enqueues the exchange of the gradients' norms, if the update clips by norm, and then
 * yki_stages_meet: no member updates before all have done their backward. */
yoke_status yki_stages_agree(yki_crew *crew);

/* Tells, in a table, how much of the graph each device has, and how many bytes others copy to it.
 */
void yki_stages_explain(const yki_crew *crew, const yki_teller *to);

#endif

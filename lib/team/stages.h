/* SPDX-License-Identifier: Apache-2.0
 *
 * stages.h - a crew whose members have different parts of one graph (places)
 * instead of different samples.
 */
#ifndef YKI_STAGES_H
#define YKI_STAGES_H

#include "team/crew.h"

/* How far each member's section may run before a crossing is made. */
typedef struct yki_route {
    yki_section *sections; /* by crossing: when it is made */
    size_t *ends;          /* tasks, by crossing and member */
} yki_route;

struct yki_stages {
    yki_placed placed;
    yki_weights **weights; /* by member */
    yki_link **links;      /* by from and to; NULL where memory is shared or nothing crosses */
    yki_route routes[2];   /* of evaluation and of training */
    yki_buffer **owned;    /* of crossings */
    size_t owned_count, owned_capacity;
};

/* The graph's places are all bound, and nothing was asked for that places exclude. */
yoke_status yki_stages_check(const yoke_team *team, const yoke_graph *graph,
                             const yoke_trainer_options *options);
/* Shares that say so: all samples to the device of the loss. NULL without places; to be freed. */
yoke_status yki_stages_shares(const yoke_team *team, const yoke_graph *graph, char **shares);
/* Before the replicas are made: who has what, weights, what crosses in training. Fills in
 * crew->stages and crew->home. */
yoke_status yki_stages_create(yki_crew *crew, const yki_crew_options *options);
/* Behind the plans of one kind. */
yoke_status yki_stages_connect(yki_crew *crew, bool training);
void yki_stages_destroy(yki_crew *crew);

/* A section of all plans of one kind, whose batch is set and whose inputs are given. */
yoke_status yki_stages_run(yki_crew *crew, bool training, yki_section section);
/* Nobody goes on before all have read what they need of the others' values. */
yoke_status yki_stages_meet(yki_crew *crew);
/* Gradients of several parts, where they were gathered. */
yoke_status yki_stages_reduce(yki_crew *crew);
/* What the loss counted, and its sum, to all. */
yoke_status yki_stages_total(yki_crew *crew);
/* Each has the norms of all gradients, and all are behind their backward. */
yoke_status yki_stages_agree(yki_crew *crew);

/* Lines of a table: who has how much of the graph, and what comes to it from others. */
void yki_stages_explain(const yki_crew *crew, void (*line)(void *user, const char *text),
                        void *user);

#endif

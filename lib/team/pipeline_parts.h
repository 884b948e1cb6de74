/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline_parts.h - what pipeline.c and pipeline_legs.c know of a pipeline.
 */
#ifndef YKI_PIPELINE_PARTS_H
#define YKI_PIPELINE_PARTS_H

#include "team/pipeline.h"
#include "team/stages.h"

/* The tasks of a leg. */
typedef struct yki_leg_span {
    yki_section section;
    size_t begin, end;
} yki_leg_span;

/* A value of one micro-batch on its way from one member to another. */
typedef struct yki_passage {
    yki_buffer *source, *target; /* the same where memory is shared */
    yki_buffer *staging; /* pinned, of the sender; NULL: memory is shared, or a letter goes */
    yki_letter *letter;  /* to or from another process; or NULL */
    bool owns_source, owns_target;
    yki_event made, taken; /* the receiver may take it; `staging` may be written again */
} yki_passage;

/* What all processes know of a task of a member's plan, */
typedef struct yki_note {
    double seconds;
    uint8_t section;
    bool computes;
    bool writes; /* gradients of parameters */
} yki_note;

/* and of the plan. */
typedef struct yki_head {
    uint64_t tasks;
    bool measured; /* all seconds are */
    bool early;    /* has_early_states */
    bool lacks;    /* memory for a pipeline */
} yki_head;

typedef struct yki_pipeline {
    size_t members;  /* of all processes */
    yki_head *heads; /* by member */
    yki_note *notes; /* of all members, one after the other */
    size_t *first_note;
    uint32_t micro_batches;
    uint32_t width;  /* micro-batches under way anywhere */
    uint32_t *depth; /* by member: under way there */
    yki_leg *legs;
    yki_leg_span *spans; /* by leg */
    size_t leg_count, leg_capacity, span_capacity;
    size_t *first_leg, *last_leg; /* by member */
    size_t home_leg;              /* behind which loss and metrics are known */
    size_t crossings;
    size_t *makers,
        *takers;           /* by crossing: the leg behind which it leaves, before which it comes */
    yki_passage *passages; /* by crossing, then by member for the totals; and by micro-batch */
    bool totals;           /* running statistics follow each micro-batch */
    yki_plan **plans;      /* by member and micro-batch; the first is the replica's */
    yki_turn *turns;
    yki_event *left; /* by member and micro-batch: behind its last leg */
    double seconds;  /* of a step, by the times of tasks */
    bool measured;   /* all of these */
    /* Of letters, where there are several processes. */
    yki_letter *letters;
    size_t letter_count;
    void *letter_memory;
    uint32_t *expected; /* by passage as by crossing: micro-batches that were expected so far */
} yki_pipeline;

/* ---- pipeline_legs.c ---- */

/* Gets what all processes know of their plans, in arrays that pipeline.c frees. All processes call
 * it. */
yoke_status yki_pipeline_make_notes(yki_pipeline *p, yki_crew *crew);
/* Finds the legs of all members from that. */
yoke_status yki_pipeline_make_legs(yki_pipeline *p, const yki_crew *crew);

#endif

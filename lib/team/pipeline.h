/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline.h - several micro-batches on their way through the stages of a graph at a time.
 *
 * A leg is what one member computes of a micro-batch between two crossings. A turn is one leg of
 * one micro-batch. pipeline_order.c finds the order of turns; it knows no device. pipeline.c makes
 * what micro-batches need to be under way together, and enqueues the turns.
 */
#ifndef YKI_PIPELINE_H
#define YKI_PIPELINE_H

#include "team/crew.h"

/* ---- pipeline_order.c ---- */

typedef struct yki_leg {
    uint32_t member;
    bool backward; /* it writes gradients, or one before it does */
    double seconds;
} yki_leg;

/* A leg that reads what another one makes. */
typedef struct yki_need {
    uint32_t leg, made_by;
} yki_need;

typedef struct yki_turn {
    uint32_t micro_batch, leg;
} yki_turn;

typedef struct yki_order_problem {
    const yki_leg
        *legs; /* in an order in which one micro-batch can run them; each member has some */
    size_t leg_count;
    const yki_need *needs; /* in the order of `leg` */
    size_t need_count;
    const uint32_t *depth; /* by member: micro-batches under way there, at most */
    size_t members;
    uint32_t width; /* under way anywhere, at most; at least all of `depth` */
    uint32_t micro_batches;
} yki_order_problem;

/* Finds the order in which all turns are enqueued, into `turns`, which has room for leg_count *
 * micro_batches. A member comes to a leg of one micro-batch after that of the micro-batch before,
 * and finishes backward of one before it begins that of the next. *seconds: until all are done, if
 * legs take the seconds they say and copies none. */
yoke_status yki_pipeline_order(const yki_order_problem *problem, yki_turn *turns, double *seconds);

/* ---- pipeline.c ---- */

/* Loads micro-batch `index` for crew->members[member] into a plan, and sets first and n of the
 * member. */
typedef struct yki_pipeline_source {
    yoke_status (*load)(void *user, size_t member, yki_plan *plan, uint32_t index);
    int64_t (*samples)(void *user, uint32_t index); /* of micro-batch `index` */
    void *user;
} yki_pipeline_source;

/* Sets the pipeline of a crew with stages, for steps of so many micro-batches. Without one, one
 * micro-batch follows the other: so it stays where one member has all, or memory is too short,
 * which is logged. All processes call it, and come to the same. Waits. */
yoke_status yki_pipeline_create(yki_crew *crew, uint32_t micro_batches);
/* Frees it, before the crew. Without one nothing happens. */
void yki_pipeline_destroy(yki_crew *crew);
/* The same where memory is short, which the newest error says and a warning repeats. The caller has
 * waited for the crew. */
void yki_pipeline_give_up(yki_crew *crew);
/* Whether the crew has one. */
bool yki_pipeline_exists(const yki_crew *crew);
/* Enqueues forward and backward of all micro-batches of a step. */
yoke_status yki_pipeline_run(yki_crew *crew, const yki_pipeline_source *source, float rate_factor);
/* Seconds of a step, as far as the times of tasks tell. */
double yki_pipeline_seconds(const yki_crew *crew);
/* The most micro-batches that the member has under way; members are numbered over the whole team.
 */
uint32_t yki_pipeline_depth(const yki_crew *crew, size_t member);
/* Tells, for each member, the micro-batches under way, and how long it computes and waits. */
void yki_pipeline_explain(const yki_crew *crew, const yki_teller *to);

#endif

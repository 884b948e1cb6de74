/* SPDX-License-Identifier: Apache-2.0
 *
 * again.h - running tasks of forward once more in backward: what recompute.c and budget.c, which
 * choose the tasks, share.
 */
#ifndef YKI_AGAIN_H
#define YKI_AGAIN_H

#include "plan/plan.h"

enum { YKI_NOWHERE = -1 };

/* Which tasks are run again. A task of forward whose results are dropped is run again at most once,
 * right before the first task of backward that reads one of them. What that needs and was dropped
 * too is made before it, so a whole chain runs from the nearest values that are kept. */
typedef struct yki_again {
    yki_plan *plan;
    int32_t *maker; /* by value: the task of forward that can make it again; or NOWHERE: it stays */
    bool *read;     /* by value: backward reads it */
    bool *dropped;  /* by task: its results are dropped after forward; the caller decides */
    bool *rerun;    /* by task: it is in `order` a second time */
    int32_t *order; /* all tasks in the order in which they will run; ~t: task t, once more */
    size_t count;   /* of that list */
    int32_t *todo;
} yki_again;

/* Nothing is dropped at first. */
yoke_status yki_again_begin(yki_again *a, yki_plan *plan);
void yki_again_end(yki_again *a);
/* Returns whether backward has to read a copy of this value, which must be a root. */
static inline bool
yki_again_is_dropped(const yki_again *a, int32_t root)
{
    return a->maker[root] != YKI_NOWHERE && a->dropped[a->maker[root]];
}
/* Makes the order from what is dropped. */
void yki_again_order(yki_again *a);
/* Gives the plan these tasks and values, in a new order. A trial has no recipes of its own: the
 * tasks that run again borrow those of the first run. */
yoke_status yki_again_apply(yki_again *a, yki_plan *plan, bool trial);
/* Gives the bytes that the plan will take. */
yoke_status yki_again_bytes(yki_again *a, uint64_t *bytes);

/* A copy of a plan to be changed and packed: its lists are its own, the recipes are not. It has to
 * be freed, also after an error. */
yoke_status yki_plan_copy_lists(const yki_plan *plan, yki_plan *copy);
yoke_status yki_plan_pack_copy(yki_plan *copy, uint64_t *bytes);
void yki_plan_free_lists(yki_plan *copy);

/* Meets options.most by running tasks again, or fails. (budget.c) */
yoke_status yki_plan_meet_budget(yki_plan *plan);
/* Keeps what backward needs of forward in half its bytes, where the precision allows it. The plan
 * may be a copy (`trial`). (halves.c) */
yoke_status yki_plan_halve(yki_plan *plan, bool trial);
/* Returns whether it might keep anything so. */
bool yki_plan_may_halve(const yki_plan *plan);

#endif

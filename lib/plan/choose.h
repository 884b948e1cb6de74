/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.h - what the files that choose solvers and layouts share: offers.c knows
 * what each task could be done by and how long it takes, look_ahead.c what a layout costs
 * those who read it, choose.c decides.
 */
#ifndef YKI_CHOOSE_H
#define YKI_CHOOSE_H

#include "plan/plan.h"

/* Layouts by number: blocks of 1, 2, 4, 8, 16. */
enum { YKI_LIES = 5, YKI_LIES_PLAIN = 0 };

/* A way to do a task: with what, how its operands lie, what it takes by itself. Of the same layouts
 * and class only the best is kept. */
typedef struct yki_offer {
    const yki_solver *solver;
    unsigned tuning, variant;
    double seconds; /* 0: not measured */
    double cost;    /* the seconds, or a preference in their place */
    uint8_t lies[YKI_MAX_OPERANDS];
} yki_offer;

/* The tasks as they came, and who reads each value: while they are decided, the plan's list grows
 * anew, with reorders between them. */
typedef struct yki_choice {
    yki_plan *plan;
    yki_task *tasks;
    size_t count, index; /* the one at hand */
    uint32_t *first;     /* by value: the first of its readers, which end where the next begin */
    uint32_t *readers;   /* tasks, in their order */
    size_t values;       /* those that the tasks came with */
    yki_offer *offers;
    size_t offer_count, offer_capacity;
    size_t *menu; /* by task: the first of its offers, which end where the next begin */
    double (*reorders)[YKI_LIES][YKI_LIES]; /* by value, from, to: seconds; 0: not asked yet */
    double (*ahead)[YKI_LIES]; /* by value: what its readers lose by this layout (look_ahead.c) */
} yki_choice;

/* The number of a layout. */
static inline uint8_t
yki_lie(yki_layout layout)
{
    uint8_t lie = 0;

    while (lie + 1 < YKI_LIES && layout.block >> (lie + 1))
        lie++;
    return lie;
}

/* ---- offers.c ---- */

/* The offers of all tasks, in their order, as long as the time for measuring lasts. */
yoke_status yki_choice_list_offers(yki_choice *choice);
/* Seconds to bring one of the tasks' values from a layout into another: measured, else by its
 * bytes. */
yoke_status yki_choice_reorder(yki_choice *choice, int32_t value, uint8_t from, uint8_t to,
                               double *seconds);
/* A task that does it. */
yoke_status yki_choice_make_reorder(const yki_choice *choice, const yki_operand *from,
                                    yki_layout to, yki_task *task);
/* The problem of an offer. */
void yki_offer_problem(const yki_plan *plan, const yki_task *task, const yki_offer *offer,
                       yki_problem *problem);

/* ---- look_ahead.c ---- */

/* For what tasks `from` and later make. */
yoke_status yki_choice_look_ahead(yki_choice *choice, size_t from);
/* For what one task makes, by what is decided now. */
yoke_status yki_choice_look_from(yki_choice *choice, size_t task);
/* What the inputs of a task cost that an offer wants elsewhere than they are, those that are
 * decided; `but`: without this value. */
yoke_status yki_choice_inputs(yki_choice *choice, size_t task, const yki_offer *offer, int32_t but,
                              double *cost);
/* The value that holds `value` in this layout already, or -1. */
int32_t yki_choice_find(const yki_choice *choice, int32_t value, uint8_t lie);
/* What the readers of an offer's results lose by the layouts that it leaves. */
double yki_choice_results(const yki_choice *choice, size_t task, const yki_offer *offer);

#endif

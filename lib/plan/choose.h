/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.h - what the files that choose solvers and layouts share. offers.c finds which solvers
 * can do each task and how long they take, look_ahead.c what a layout costs those who read it,
 * and choose.c decides.
 */
#ifndef YKI_CHOOSE_H
#define YKI_CHOOSE_H

#include "plan/plan.h"

/* A layout's index, 0 to YKI_LAYOUT_COUNT - 1, stands for blocks of 1, 2, 4, 8, 16. */
enum { YKI_LAYOUT_COUNT = 5, YKI_LAYOUT_PLAIN_INDEX = 0 };

/* A candidate for a task: a solver with its tuning and layouts. Of candidates with the same layouts
 * and class only the cheapest is kept, or the first of those that cost about the same. */
typedef struct yki_offer {
    const yki_solver *solver;
    unsigned tuning, variant;
    double seconds; /* 0: not measured */
    bool known;     /* the seconds are wisdom's */
    double cost;    /* the seconds, or a preference in their place */
    uint8_t lies[YKI_MAX_OPERANDS];
} yki_offer;

/* The state of choosing. The tasks are those that came from fusing. While they are decided, the
 * plan's list of tasks is built anew, with reorders in between. */
typedef struct yki_choice {
    yki_plan *plan;
    yki_task *tasks;
    size_t count, index; /* the task at hand */
    uint32_t *first;     /* by value: start of its readers; the next value's start ends them */
    uint32_t *readers;   /* tasks, in their order */
    size_t values;       /* the number of values before the first reorder */
    yki_offer *offers;
    size_t offer_count, offer_capacity;
    yki_offer *asked; /* all offers of the task at hand */
    size_t asked_count, asked_capacity;
    unsigned layouts; /* a bit for each layout that is worth asking for */
    struct yki_menu {
        size_t begin, end;
    } * menu;          /* by task: its offers */
    yki_offer *broken; /* offers for the task at hand that turned out not to work */
    size_t broken_count, broken_capacity;
    yoke_status refusal; /* why the newest of the offers for it does not work */
    double (*reorders)[YKI_LAYOUT_COUNT]
                      [YKI_LAYOUT_COUNT]; /* [value][from][to]: seconds; 0: not looked up yet */
    double (*ahead)[YKI_LAYOUT_COUNT]; /* [value][layout]: what its readers lose (look_ahead.c) */
} yki_choice;

/* Returns the index of a layout. */
static inline uint8_t
yki_layout_index(yki_layout layout)
{
    uint8_t lie = 0;

    while (lie + 1 < YKI_LAYOUT_COUNT && layout.block >> (lie + 1))
        lie++;
    return lie;
}

/* ---- offers.c ---- */

/* Lists the offers of all tasks, in the order of tasks. It measures them while the budget lasts. */
yoke_status yki_choice_list_offers(yki_choice *choice);
/* Makes sure that an offer for the task at hand works, as far as building its kernels tells. If it
 * does not, lists the task's offers again without it, and *works is false. `offer` may be gone
 * then. Fails if no offer is left. */
yoke_status yki_choice_try(yki_choice *choice, const yki_offer *offer, bool *works);
/* Gives the seconds to bring one of the tasks' values from one layout into another: measured, or
 * else estimated from the bytes. */
yoke_status yki_choice_reorder(yki_choice *choice, int32_t value, uint8_t from, uint8_t to,
                               double *seconds);
/* Makes a task that brings an operand into another layout. Its slots are left to the caller. */
yoke_status yki_choice_make_reorder(const yki_choice *choice, const yki_operand *from,
                                    yki_layout to, yki_task *task);
/* Gives the problem with the layouts of an offer. */
void yki_offer_problem(const yki_plan *plan, const yki_task *task, const yki_offer *offer,
                       yki_problem *problem);

/* Finds the order in which tasks are asked for, and the layouts that are worth asking for. */
yoke_status yki_choice_start(yki_choice *choice, size_t *order);
/* Lists, as `asked`, what may do the task at hand, without its times. */
yoke_status yki_choice_ask(yki_choice *choice);
/* Returns whether wisdom knows the seconds of a trial, and enters them. */
bool yki_trial_is_known(const yki_plan *plan, yki_trial *trial);
/* Whether its weights are packed as a task is measured. */
bool yki_task_packs(const yki_plan *plan, const yki_task *task);

/* ---- rehearse.c ---- */

/* Compiles what is to be measured, beside others, if much is and there are others. The tasks come
 * in this order. */
yoke_status yki_choice_rehearse(yki_choice *choice, const size_t *order);

/* ---- look_ahead.c ---- */

/* Computes `ahead` for the results of task `from` and all later tasks. */
yoke_status yki_choice_look_ahead(yki_choice *choice, size_t from);
/* Computes `ahead` for the results of one task, from what is decided now. */
yoke_status yki_choice_look_from(yki_choice *choice, size_t task);
/* Adds to *cost the reorders that an offer needs for the inputs of a task. It counts only inputs
 * whose layout is decided, and leaves out the value `but`. */
yoke_status yki_choice_inputs(yki_choice *choice, size_t task, const yki_offer *offer, int32_t but,
                              double *cost);
/* Returns the value that holds `value` in this layout already, be it itself or a copy; -1 if there
 * is none. */
int32_t yki_choice_find(const yki_choice *choice, int32_t value, uint8_t lie);
/* Returns what the readers of an offer's results lose by its layouts. */
double yki_choice_results(const yki_choice *choice, size_t task, const yki_offer *offer);

#endif

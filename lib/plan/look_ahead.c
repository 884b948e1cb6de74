/* SPDX-License-Identifier: Apache-2.0
 *
 * look_ahead.c - what the readers of a value lose by the layout that the value is left in.
 *
 * This goes from the last task to the first. The cost of a reader with its input in a layout is
 * the least over the reader's offers. An offer's cost is its time, the reorders of its other
 * inputs, and what its own readers lose by the layout of its result. So a chain of tasks that
 * work in any layout passes on the preference of its end, however long it is. Inputs that are
 * not decided yet are assumed to be in the wanted layout; they share the cost of their reader.
 *
 * Only the cost above the best layout is passed on, which is never more than a reorder. So
 * costs do not pile up where branches meet again, and the cost of a class in a survey remains
 * that of its node. The readers of a value share a copy of it.
 *
 * Each value is examined a fixed number of times: at the start, when forward is decided, and
 * right before the value itself is decided. Along a chain the result is exact; where branches
 * meet it is an estimate. That a copy made for one reader would serve a later one is taken into
 * account before the value is decided, but not when its readers are.
 */
#include <math.h>

#include "plan/choose.h"

int32_t
yki_choice_find(const yki_choice *choice, int32_t value, uint8_t lie)
{
    yki_plan *plan = choice->plan;

    if (yki_layout_index(plan->values[value].operand.layout) == lie)
        return value;
    for (int32_t c = plan->values[value].copies; c; c = plan->values[c].next_copy) {
        plan->work++;
        if (yki_layout_index(plan->values[c].operand.layout) == lie)
            return c;
    }
    return -1;
}

yoke_status
yki_choice_inputs(yki_choice *choice, size_t task, const yki_offer *offer, int32_t but,
                  double *cost)
{
    const yki_task *t = &choice->tasks[task];

    for (uint32_t k = 0; k < t->problem.input_count; k++) {
        const yki_value *value = &choice->plan->values[t->slots[k]];
        double seconds;

        if (t->slots[k] == but || !value->decided ||
            yki_choice_find(choice, t->slots[k], offer->lies[k]) >= 0)
            continue;
        YKI_TRY(yki_choice_reorder(choice, t->slots[k], yki_layout_index(value->operand.layout),
                                   offer->lies[k], &seconds));
        *cost += seconds;
    }
    return YOKE_OK;
}

double
yki_choice_results(const yki_choice *choice, size_t task, const yki_offer *offer)
{
    const yki_task *t = &choice->tasks[task];
    double cost = 0;

    for (uint32_t s = t->problem.input_count; s < yki_problem_operands(&t->problem); s++)
        cost += choice->ahead[t->slots[s]][offer->lies[s]];
    return cost;
}

/* Returns the fraction of a reader's cost that counts for one of its inputs. Inputs that are not
 * decided yet share the cost by their sizes. When each is decided later, it takes the others into
 * account as they are then. */
static double
share_of(const yki_choice *choice, const yki_task *reader, int32_t value)
{
    const yki_value *values = choice->plan->values;
    yki_extents max = choice->plan->options.max;
    double own = (double)yki_value_count(&values[value].operand, max), all = own;

    for (uint32_t k = 0; k < reader->problem.input_count; k++)
        if (reader->slots[k] != value && !values[reader->slots[k]].decided)
            all += (double)yki_value_count(&values[reader->slots[k]].operand, max);
    return own / all;
}

/* Gives by layout the least cost of a reader with the value in that layout; INFINITY where no offer
 * of the reader takes it. */
static yoke_status
ask_reader(yki_choice *choice, size_t reader, int32_t value, double takes[YKI_LAYOUT_COUNT])
{
    const yki_task *task = &choice->tasks[reader];
    double share = share_of(choice, task, value);
    uint32_t slot = 0;

    for (uint8_t l = 0; l < YKI_LAYOUT_COUNT; l++)
        takes[l] = task->problem.op == &yki_op_reorder ? 0 : INFINITY;
    if (task->problem.op->is_view)
        takes[YKI_LAYOUT_PLAIN_INDEX] = 0;
    while (task->slots[slot] != value)
        slot++;
    for (size_t i = choice->menu[reader].begin; i < choice->menu[reader].end; i++) {
        const yki_offer *offer = &choice->offers[i];
        double *least = &takes[offer->lies[slot]];
        double cost = offer->cost + yki_choice_results(choice, reader, offer);

        choice->plan->work++;
        if (cost >= *least)
            continue;
        YKI_TRY(yki_choice_inputs(choice, reader, offer, value, &cost));
        *least = YKI_MIN(*least, cost);
    }
    for (uint8_t l = 0; l < YKI_LAYOUT_COUNT; l++)
        takes[l] *= share;
    return YOKE_OK;
}

/* Gives the cost of a reader where a value has layout `at` and a copy of it has layout `copy`. The
 * reader may make another copy. */
static yoke_status
with_copy(yki_choice *choice, int32_t value, const double takes[YKI_LAYOUT_COUNT], uint8_t at,
          uint8_t copy, double *cost)
{
    double seconds;

    *cost = YKI_MIN(takes[at], takes[copy]);
    for (uint8_t l = 0; l < YKI_LAYOUT_COUNT; l++) {
        if (takes[l] >= *cost)
            continue;
        YKI_TRY(yki_choice_reorder(choice, value, at, l, &seconds));
        *cost = YKI_MIN(*cost, takes[l] + seconds);
    }
    return YOKE_OK;
}

/* Gives the cost of all readers, with the value in a layout of the mask `left` and a copy of it in
 * another layout. */
static yoke_status
ask_readers(yki_choice *choice, int32_t value, unsigned left,
            double sums[YKI_LAYOUT_COUNT][YKI_LAYOUT_COUNT])
{
    for (uint32_t r = choice->first[value]; r < choice->first[value + 1]; r++) {
        double takes[YKI_LAYOUT_COUNT], cost;

        if (r > choice->first[value] && choice->readers[r] == choice->readers[r - 1])
            continue; /* it reads the value twice */
        YKI_TRY(ask_reader(choice, choice->readers[r], value, takes));
        for (uint8_t at = 0; at < YKI_LAYOUT_COUNT; at++)
            for (uint8_t copy = 0; copy < YKI_LAYOUT_COUNT && left >> at & 1; copy++) {
                YKI_TRY(with_copy(choice, value, takes, at, copy, &cost));
                sums[at][copy] += cost;
            }
    }
    return YOKE_OK;
}

static yoke_status
look_from_value(yki_choice *choice, int32_t value, unsigned left)
{
    double sums[YKI_LAYOUT_COUNT][YKI_LAYOUT_COUNT] = {{0}}, *row = choice->ahead[value],
           least = INFINITY;

    YKI_TRY(ask_readers(choice, value, left, sums));
    for (uint8_t at = 0; at < YKI_LAYOUT_COUNT; at++) {
        row[at] = INFINITY;
        for (uint8_t copy = 0; copy < YKI_LAYOUT_COUNT && left >> at & 1; copy++) {
            double seconds;

            if (copy != at && sums[at][copy] >= sums[at][at])
                continue;
            YKI_TRY(yki_choice_reorder(choice, value, at, copy, &seconds));
            row[at] = YKI_MIN(row[at], sums[at][copy] + seconds);
        }
        least = YKI_MIN(least, row[at]);
    }
    for (uint8_t at = 0; at < YKI_LAYOUT_COUNT; at++)
        row[at] = left >> at & 1 ? row[at] - least : 0;
    return YOKE_OK;
}

yoke_status
yki_choice_look_from(yki_choice *choice, size_t task)
{
    const yki_task *t = &choice->tasks[task];

    for (uint32_t s = t->problem.input_count; s < yki_problem_operands(&t->problem); s++) {
        unsigned left = 0; /* a bit for each layout that the value may be left in */

        for (size_t i = choice->menu[task].begin; i < choice->menu[task].end; i++)
            left |= 1u << choice->offers[i].lies[s];
        if (left & (left - 1)) /* otherwise there is no choice */
            YKI_TRY(look_from_value(choice, t->slots[s], left));
    }
    return YOKE_OK;
}

yoke_status
yki_choice_look_ahead(yki_choice *choice, size_t from)
{
    for (size_t t = choice->count; t-- > from;) {
        choice->plan->work++;
        YKI_TRY(yki_choice_look_from(choice, t));
    }
    return YOKE_OK;
}

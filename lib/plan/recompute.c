/* SPDX-License-Identifier: Apache-2.0
 *
 * recompute.c - saves memory by a little arithmetic: a value that forward computes cheaply and
 * backward reads is not kept, but computed again right before backward needs it.
 *
 * Operators say whether they are cheap (yki_op.cheap): they take a few operations an element,
 * so computing a value again costs about as much as reading it twice. A value qualifies when
 * each value that it is computed from is there in backward anyway, or is small. A network of
 * convolutions, batch normalisation and activations then keeps only the results of the
 * convolutions. A dropped value is not used to compute another one again. So in a chain of
 * shortcuts every other value stays, and nothing is computed more than twice.
 *
 * The second task is a copy of the first, with the same solver, layouts and inputs, so the bits
 * are the same. Costly values are not recomputed, even where that would pay: the convolutions
 * between a few widely spaced ones that are kept.
 */
#include <string.h>

#include "plan/plan.h"

enum {
    NOWHERE = -1,
    SMALL_PART = 8 /* an input up to this fraction of the dropped value may live longer for it */
};

/* The uses of a value. */
typedef struct uses {
    int32_t first, last; /* first and last task of backward that reads it; or NOWHERE */
    bool fixed;          /* a view reads it, or uses its memory: it stays where it is */
    int32_t again;       /* if dropped: the value that backward reads instead; else NOWHERE */
} uses;

typedef struct recompute {
    yki_plan *plan;
    uses *uses;      /* by value */
    int32_t *before; /* by task: the task of forward that is run again right before it, */
    int32_t *next;   /* and the next such task; NOWHERE */
    size_t count;    /* number of tasks that are run again */
} recompute;

static void
note_uses(recompute *r)
{
    yki_plan *plan = r->plan;

    for (size_t v = 0; v < plan->value_count; v++)
        r->uses[v] = (uses){.first = NOWHERE, .last = NOWHERE, .again = NOWHERE};
    for (size_t v = 0; v < plan->value_count; v++)
        if (plan->values[v].alias >= 0)
            r->uses[yki_value_root(plan, (int32_t)v)].fixed = true;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        r->before[t] = r->next[t] = NOWHERE;
        for (uint32_t k = 0; k < task->problem.input_count; k++) {
            uses *u = &r->uses[yki_value_root(plan, task->slots[k])];

            plan->work++;
            u->fixed |= !task->solver;
            if (task->section != YKI_BACKWARD)
                continue;
            if (u->first == NOWHERE)
                u->first = (int32_t)t;
            u->last = (int32_t)t;
        }
    }
}

/* Returns whether an input of a task is still there when backward comes to task `when`. The caller
 * may overwrite an input of the plan after its last reader. */
static bool
is_there(const recompute *r, int32_t input, int32_t when, uint64_t dropped)
{
    int32_t root = yki_value_root(r->plan, input);
    const yki_value *value = &r->plan->values[root];

    if (value->storage == YKI_STORE_INPUT)
        return r->uses[root].last >= when;
    if (value->storage != YKI_STORE_ARENA)
        return true;
    return r->uses[root].again == NOWHERE &&
           (r->uses[root].last >= when || value->size <= dropped / SMALL_PART);
}

static bool
is_worth(const recompute *r, const yki_task *task)
{
    int32_t out = task->slots[task->problem.input_count];
    const yki_value *value = &r->plan->values[out];
    const uses *u = &r->uses[out];

    if (task->section != YKI_FORWARD || !task->solver || task->recipe.call ||
        !task->problem.op->cheap ||
        yki_problem_operands(&task->problem) != task->problem.input_count + 1)
        return false;
    if (value->storage != YKI_STORE_ARENA || value->alias >= 0 || u->fixed || u->first == NOWHERE)
        return false;
    for (uint32_t k = 0; k < task->problem.input_count; k++)
        if (!is_there(r, task->slots[k], u->first, value->size))
            return false;
    return true;
}

/* Drops the result of task `index` after forward. */
static yoke_status
drop(recompute *r, size_t index)
{
    const yki_task *task = &r->plan->tasks[index];
    int32_t out = task->slots[task->problem.input_count], again;
    yki_value copy = r->plan->values[out];
    uses *u = &r->uses[out];

    YKI_TRY(yki_plan_add_value(r->plan, &copy, &again));
    u->again = again;
    r->next[index] = r->before[u->first];
    r->before[u->first] = (int32_t)index;
    r->count++;
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        uses *in = &r->uses[yki_value_root(r->plan, task->slots[k])];

        in->last = YKI_MAX(in->last, u->first);
    }
    return YOKE_OK;
}

/* Appends the task that computes a dropped value again. The list has room for it. */
static yoke_status
add_again(const recompute *r, const yki_task *first)
{
    yki_plan *plan = r->plan;
    yki_task *task = &plan->tasks[plan->task_count];
    int32_t *out = &task->slots[first->problem.input_count];

    plan->work++;
    *task = *first;
    *out = r->uses[*out].again;
    task->section = YKI_BACKWARD;
    memset(&task->recipe, 0, sizeof task->recipe);
    plan->task_count++;
    return yki_solver_emit(task->solver, &task->problem, yki_plan_traits(plan, task->solver),
                           task->tuning, &task->recipe);
}

/* Builds the list of tasks anew, with the repeated tasks in their places. */
static yoke_status
insert(const recompute *r)
{
    yki_plan *plan = r->plan;
    yki_task *tasks = plan->tasks;
    size_t count = plan->task_count;
    yoke_status status = YOKE_OK;

    plan->tasks = NULL;
    plan->task_count = plan->task_capacity = 0;
    status = yki_grow((void **)&plan->tasks, &plan->task_capacity, count + r->count, sizeof *tasks,
                      "a plan's tasks");
    for (size_t t = 0; t < count; t++) {
        yki_task *task = &tasks[t];

        for (int32_t i = r->before[t]; i != NOWHERE && status == YOKE_OK; i = r->next[i])
            status = add_again(r, &tasks[i]);
        for (uint32_t k = 0; k < task->problem.input_count; k++) {
            int32_t again = r->uses[task->slots[k]].again;

            if (task->section == YKI_BACKWARD && again != NOWHERE)
                task->slots[k] = again;
        }
        if (status == YOKE_OK)
            plan->tasks[plan->task_count++] = *task;
        else
            yki_recipe_clear(&task->recipe);
    }
    yki_free(tasks);
    return status;
}

yoke_status
yki_plan_recompute(yki_plan *plan)
{
    recompute r = {.plan = plan};
    yoke_status status = YOKE_OK;

    if (!plan->options.small || !plan->options.training)
        return YOKE_OK;
    r.uses = yki_alloc(plan->value_count, sizeof *r.uses, "a plan's uses");
    r.before = yki_alloc(plan->task_count, sizeof *r.before, "a plan's uses");
    r.next = yki_alloc(plan->task_count, sizeof *r.next, "a plan's uses");
    if (!r.uses || !r.before || !r.next)
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        note_uses(&r);
    for (size_t t = 0; t < plan->task_count && status == YOKE_OK; t++)
        if (is_worth(&r, &plan->tasks[t]))
            status = drop(&r, t);
    if (status == YOKE_OK && r.count)
        status = insert(&r);
    yki_free(r.next);
    yki_free(r.before);
    yki_free(r.uses);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * again.c - runs tasks of forward once more in backward, so that their results need no memory in
 * between.
 *
 * The second task is a copy of the first, with the same solver, tuning, layouts and inputs, so the
 * bits are the same; random numbers follow from the step and the sample. It writes to memory of its
 * own, whatever the first has written to: a statistic of the batch, which running statistics and
 * other devices read, is not touched again.
 *
 * Not here: which tasks. A result that somebody outside the plan sees, a gradient, a value of
 * another device and what is merged over a team cannot be made again.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/again.h"

/* ---- what can be made again ---- */

/* Returns whether a task could run in backward. The caller may overwrite an input that only forward
 * reads. */
static bool
can_run_again(const yki_again *a, const yki_task *task)
{
    const yki_plan *plan = a->plan;

    if (task->section != YKI_FORWARD || !task->solver || task->problem.op == &yki_op_merge)
        return false;
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        int32_t root = yki_value_root(plan, task->slots[k]);

        if (plan->values[root].storage == YKI_STORE_INPUT && !a->read[root])
            return false;
    }
    for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++) {
        const yki_value *value = &plan->values[task->slots[s]];

        if (value->storage == YKI_STORE_LENT || value->alias >= 0)
            return false;
    }
    return true;
}

static void
note_makers(yki_again *a)
{
    const yki_plan *plan = a->plan;

    for (size_t v = 0; v < plan->value_count; v++)
        a->maker[v] = YKI_NOWHERE;
    for (size_t t = 0; t < plan->task_count; t++)
        for (uint32_t k = 0; k < plan->tasks[t].problem.input_count; k++)
            if (plan->tasks[t].section == YKI_BACKWARD)
                a->read[yki_value_root(plan, plan->tasks[t].slots[k])] = true;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        if (!can_run_again(a, task))
            continue;
        for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++)
            if (plan->values[task->slots[s]].storage == YKI_STORE_ARENA)
                a->maker[task->slots[s]] = (int32_t)t;
    }
    /* A result that is a view, and what the team merges. */
    for (size_t v = 0; v < plan->value_count; v++)
        if (plan->values[v].alias >= 0 && plan->values[v].storage != YKI_STORE_ARENA)
            a->maker[yki_value_root(plan, (int32_t)v)] = YKI_NOWHERE;
    for (size_t t = 0; t < plan->task_count; t++)
        if (plan->tasks[t].problem.op == &yki_op_merge)
            a->maker[yki_value_root(plan, plan->tasks[t].slots[0])] = YKI_NOWHERE;
}

yoke_status
yki_again_begin(yki_again *a, yki_plan *plan)
{
    const size_t tasks = plan->task_count, values = plan->value_count;

    *a = (yki_again){.plan = plan};
    a->maker = yki_alloc(values, sizeof *a->maker, "a plan's values");
    a->read = yki_alloc(values, sizeof *a->read, "a plan's values");
    a->dropped = yki_alloc(tasks, sizeof *a->dropped, "a plan's tasks");
    a->rerun = yki_alloc(tasks, sizeof *a->rerun, "a plan's tasks");
    a->order = yki_alloc(2 * tasks, sizeof *a->order, "a plan's tasks");
    a->todo = yki_alloc(tasks, sizeof *a->todo, "a plan's tasks");
    if (!a->maker || !a->read || !a->dropped || !a->rerun || !a->order || !a->todo) {
        yki_again_end(a);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    note_makers(a);
    return YOKE_OK;
}

void
yki_again_end(yki_again *a)
{
    yki_free(a->maker);
    yki_free(a->read);
    yki_free(a->dropped);
    yki_free(a->rerun);
    yki_free(a->order);
    yki_free(a->todo);
}

/* ---- the order ---- */

/* Notes the makers of the dropped values that a task reads, unless they run before it already. */
static void
note_missing(yki_again *a, const yki_task *task, size_t *count)
{
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        int32_t root = yki_value_root(a->plan, task->slots[k]);

        if (!yki_again_is_dropped(a, root) || a->rerun[a->maker[root]])
            continue;
        a->rerun[a->maker[root]] = true;
        a->todo[(*count)++] = a->maker[root];
    }
}

static int
ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

void
yki_again_order(yki_again *a)
{
    const yki_plan *plan = a->plan;

    a->count = 0;
    memset(a->rerun, 0, plan->task_count * sizeof *a->rerun);
    for (size_t t = 0; t < plan->task_count; t++) {
        size_t count = 0;

        if (plan->tasks[t].section == YKI_BACKWARD)
            note_missing(a, &plan->tasks[t], &count);
        for (size_t i = 0; i < count; i++)
            note_missing(a, &plan->tasks[a->todo[i]], &count);
        qsort(a->todo, count, sizeof *a->todo, ascending); /* as forward has run them */
        for (size_t i = 0; i < count; i++)
            a->order[a->count++] = ~a->todo[i];
        a->order[a->count++] = (int32_t)t;
    }
}

/* ---- the plan ---- */

/* What a new list of tasks is made with. */
typedef struct remake {
    const yki_again *again;
    yki_plan *plan;
    int32_t *copy;  /* by value: what backward reads instead; NOWHERE: not made yet */
    int32_t *place; /* by task: where its first run is now */
    bool trial;
} remake;

/* Gives the value that a task of backward reads instead of `value`. A view of a dropped value
 * becomes a view of its copy. */
static yoke_status
find_copy(const remake *r, int32_t value, int32_t *copy)
{
    yki_value view = r->plan->values[value];

    if (!yki_again_is_dropped(r->again, yki_value_root(r->plan, value))) {
        *copy = value;
        return YOKE_OK;
    }
    if (r->copy[value] == YKI_NOWHERE) {
        YKI_TRY(find_copy(r, view.alias, &view.alias));
        YKI_TRY(yki_plan_add_value(r->plan, &view, &r->copy[value]));
    }
    *copy = r->copy[value];
    return YOKE_OK;
}

/* Gives a task that runs again results of its own. */
static yoke_status
renew_results(const remake *r, yki_task *task)
{
    for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++) {
        int32_t *slot = &task->slots[s];
        yki_value copy = {.node = r->plan->values[*slot].node,
                          .operand = r->plan->values[*slot].operand,
                          .storage = YKI_STORE_ARENA,
                          .alias = -1,
                          .decided = true};

        YKI_TRY(yki_plan_add_value(r->plan, &copy, &r->copy[*slot]));
        *slot = r->copy[*slot];
    }
    if (r->trial)
        return YOKE_OK;
    return yki_solver_emit(task->solver, &task->problem, yki_plan_traits(r->plan, task->solver),
                           task->tuning, &task->recipe);
}

/* The result of a task without a solver, which may be a view of a dropped value. */
static int32_t *
view_of(yki_task *task)
{
    return &task->slots[task->problem.input_count];
}

static yoke_status
add_entry(const remake *r, const yki_task *tasks, int32_t entry)
{
    yki_task *task = &r->plan->tasks[r->plan->task_count];

    r->plan->work++;
    *task = tasks[entry < 0 ? ~entry : entry];
    r->plan->task_count++;
    if (entry >= 0)
        r->place[entry] = (int32_t)r->plan->task_count - 1;
    task->again = entry < 0;
    if (task->again) {
        task->first = r->place[~entry];
        task->section = YKI_BACKWARD;
        if (!r->trial)
            memset(&task->recipe, 0, sizeof task->recipe); /* that is the first run's */
        YKI_TRY(renew_results(r, task));
    }
    if (task->section != YKI_BACKWARD)
        return YOKE_OK;
    for (uint32_t k = 0; k < task->problem.input_count; k++)
        YKI_TRY(find_copy(r, task->slots[k], &task->slots[k]));
    return task->solver ? YOKE_OK : find_copy(r, *view_of(task), view_of(task));
}

yoke_status
yki_again_apply(yki_again *a, yki_plan *plan, bool trial)
{
    remake r = {.again = a, .plan = plan, .trial = trial};
    const size_t values = plan->value_count;
    yki_task *before = plan->tasks, *tasks = NULL;
    size_t capacity = 0, done = 0;
    yoke_status status;

    r.copy = yki_alloc(values, sizeof *r.copy, "a plan's values");
    r.place = yki_alloc(plan->task_count, sizeof *r.place, "a plan's tasks");
    if (!r.copy || !r.place) {
        yki_free(r.copy);
        yki_free(r.place);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    for (size_t v = 0; v < values; v++)
        r.copy[v] = YKI_NOWHERE;
    status = yki_grow((void **)&tasks, &capacity, a->count, sizeof *tasks, "a plan's tasks");
    if (status == YOKE_OK) {
        plan->tasks = tasks;
        plan->task_count = 0;
        plan->task_capacity = capacity;
        for (; done < a->count && status == YOKE_OK; done++)
            status = add_entry(&r, before, a->order[done]);
        /* After an error the plan is only destroyed, with the recipes that it took over. */
        for (; done < a->count && !trial; done++)
            if (a->order[done] >= 0)
                yki_recipe_clear(&before[a->order[done]].recipe);
        yki_free(before);
    }
    yki_free(r.copy);
    yki_free(r.place);
    return status;
}

yoke_status
yki_plan_copy_lists(const yki_plan *plan, yki_plan *copy)
{
    *copy = *plan;
    copy->chunks.sizes = NULL;
    copy->chunks.count = copy->chunks.capacity = 0;
    copy->value_capacity = plan->value_count;
    copy->task_capacity = plan->task_count;
    copy->values = yki_alloc(plan->value_count, sizeof *copy->values, "a plan's memory map");
    copy->tasks = yki_alloc(plan->task_count, sizeof *copy->tasks, "a plan's memory map");
    if (!copy->values || !copy->tasks)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memcpy(copy->values, plan->values, plan->value_count * sizeof *copy->values);
    memcpy(copy->tasks, plan->tasks, plan->task_count * sizeof *copy->tasks);
    return YOKE_OK;
}

yoke_status
yki_plan_pack_copy(yki_plan *copy, uint64_t *bytes)
{
    YKI_TRY(yki_plan_pack(copy));
    *bytes = yki_plan_memory(copy);
    return YOKE_OK;
}

void
yki_plan_free_lists(yki_plan *copy)
{
    yki_plan_free_late_sums(copy);
    yki_free(copy->chunks.sizes);
    yki_free(copy->tasks);
    yki_free(copy->values);
}

yoke_status
yki_again_bytes(yki_again *a, uint64_t *bytes)
{
    yki_plan copy;
    yoke_status status = yki_plan_copy_lists(a->plan, &copy);

    if (status == YOKE_OK) {
        yki_again_order(a);
        status = yki_again_apply(a, &copy, true);
    }
    if (status == YOKE_OK)
        status = yki_plan_pack_copy(&copy, bytes);
    a->plan->work = copy.work;
    yki_plan_free_lists(&copy);
    return status;
}

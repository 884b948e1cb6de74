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
 * Costly values are not recomputed here; budget.c does that, where a budget asks for it. halves.c
 * keeps values in half their bytes.
 */
#include "plan/again.h"

enum {
    SMALL_PART = 8 /* an input up to this fraction of the dropped value may live longer for it */
};

/* The uses of a value. */
typedef struct uses {
    int32_t first, last; /* first and last task of backward that reads it; or NOWHERE */
    bool fixed;          /* a view reads it, or uses its memory: it stays where it is */
} uses;

typedef struct recompute {
    yki_plan *plan;
    yki_again again;
    uses *uses; /* by value */
} recompute;

static void
note_uses(recompute *r)
{
    yki_plan *plan = r->plan;

    for (size_t v = 0; v < plan->value_count; v++)
        r->uses[v] = (uses){.first = YKI_NOWHERE, .last = YKI_NOWHERE};
    for (size_t v = 0; v < plan->value_count; v++)
        if (plan->values[v].alias >= 0)
            r->uses[yki_value_root(plan, (int32_t)v)].fixed = true;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        for (uint32_t k = 0; k < task->problem.input_count; k++) {
            uses *u = &r->uses[yki_value_root(plan, task->slots[k])];

            plan->work++;
            u->fixed |= !task->solver;
            if (task->section != YKI_BACKWARD)
                continue;
            if (u->first == YKI_NOWHERE)
                u->first = (int32_t)t;
            u->last = (int32_t)t;
        }
    }
}

/* Returns whether an input of a task is still there when backward comes to task `when`. */
static bool
is_there(const recompute *r, int32_t input, int32_t when, uint64_t dropped)
{
    int32_t root = yki_value_root(r->plan, input);
    const yki_value *value = &r->plan->values[root];

    if (value->storage == YKI_STORE_INPUT)
        return r->uses[root].last >= when;
    if (value->storage != YKI_STORE_ARENA)
        return true;
    return !yki_again_is_dropped(&r->again, root) &&
           (r->uses[root].last >= when || value->size <= dropped / SMALL_PART);
}

static bool
is_worth(const recompute *r, size_t index)
{
    const yki_task *task = &r->plan->tasks[index];
    int32_t out = task->slots[task->problem.input_count];
    const yki_value *value = &r->plan->values[out];
    const uses *u = &r->uses[out];

    if (r->again.maker[out] != (int32_t)index || task->recipe.call || !task->problem.op->cheap ||
        yki_problem_operands(&task->problem) != task->problem.input_count + 1 || u->fixed ||
        u->first == YKI_NOWHERE)
        return false;
    for (uint32_t k = 0; k < task->problem.input_count; k++)
        if (!is_there(r, task->slots[k], u->first, value->size))
            return false;
    return true;
}

/* Drops the result of task `index` after forward. */
static void
drop(recompute *r, size_t index)
{
    const yki_task *task = &r->plan->tasks[index];
    const uses *u = &r->uses[task->slots[task->problem.input_count]];

    r->again.dropped[index] = true;
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        uses *in = &r->uses[yki_value_root(r->plan, task->slots[k])];

        in->last = YKI_MAX(in->last, u->first);
    }
}

static yoke_status
recompute_cheap(yki_plan *plan, bool trial)
{
    recompute r = {.plan = plan};
    size_t count = 0;
    yoke_status status;

    YKI_TRY(yki_again_begin(&r.again, plan));
    r.uses = yki_alloc(plan->value_count, sizeof *r.uses, "a plan's uses");
    status = r.uses ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        note_uses(&r);
    for (size_t t = 0; t < plan->task_count && status == YOKE_OK; t++)
        if (is_worth(&r, t)) {
            drop(&r, t);
            count++;
        }
    if (status == YOKE_OK && count) {
        yki_again_order(&r.again);
        status = yki_again_apply(&r.again, plan, trial);
    }
    yki_free(r.uses);
    yki_again_end(&r.again);
    return status;
}

/* Gives the bytes that a plan takes that computes what is cheap again, and then with the other
 * values in half their bytes. */
static yoke_status
weigh(const yki_plan *plan, uint64_t *cheap, uint64_t *halved)
{
    yki_plan copy;
    yoke_status status = YOKE_OK;

    for (int halves = 0; halves < 2 && status == YOKE_OK; halves++) {
        status = yki_plan_copy_lists(plan, &copy);
        if (status == YOKE_OK)
            status = recompute_cheap(&copy, true);
        if (status == YOKE_OK && halves)
            status = yki_plan_halve(&copy, true);
        if (status == YOKE_OK)
            status = yki_plan_pack_copy(&copy, halves ? halved : cheap);
        yki_plan_free_lists(&copy);
    }
    return status;
}

/* What is cheap is computed again; the other values are kept in half their bytes, if that takes
 * less and they may be. */
static yoke_status
save(yki_plan *plan)
{
    uint64_t cheap = 0, halved = 0;

    if (yki_plan_may_halve(plan))
        YKI_TRY(weigh(plan, &cheap, &halved));
    YKI_TRY(recompute_cheap(plan, false));
    return halved < cheap ? yki_plan_halve(plan, false) : YOKE_OK;
}

/* What is computed again has the same bits, and takes about as long as to round and widen what is
 * kept. So values are rounded only where it does not suffice. */
static yoke_status
meet_budget(yki_plan *plan)
{
    yoke_status status = yki_plan_meet_budget(plan);

    if (!yki_lacks_memory(status) || !plan->options.small || !yki_plan_may_halve(plan))
        return status;
    YKI_TRY(yki_plan_halve(plan, false));
    return yki_plan_meet_budget(plan);
}

yoke_status
yki_plan_recompute(yki_plan *plan)
{
    if (!plan->options.training)
        return YOKE_OK;
    if (plan->options.most)
        return meet_budget(plan);
    return plan->options.small ? save(plan) : YOKE_OK;
}

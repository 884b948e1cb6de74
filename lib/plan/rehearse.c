/* SPDX-License-Identifier: Apache-2.0
 *
 * rehearse.c - compiles what a plan will measure before it is measured, while other processes
 * compile some of it.
 *
 * A driver may compile one kernel at a time in a process, and a first plan needs dozens,
 * so the other cores idle. The kernels are compiled by running each trial once, with one sample:
 * only then a driver knows all that it needs. All processes go through the same tasks in the same
 * order, the longest first. Each runs a trial if it has a kernel that nobody has claimed, and
 * claims that. The others find the compiled kernels in the caches of yoke and of the driver.
 * Nothing is timed before all are done, because compiling would disturb it.
 *
 * A trial that fails here is left to measuring, which knows what to do.
 */
#include <string.h>

#include "plan/choose.h"

/* Kernels fewer than these are compiled by the time that others have started. */
enum { FEW = 4 };

static uint64_t
key_of(const yki_launch *launch)
{
    uint64_t key;
    yki_hash hash;
    char hex[33];

    yki_hash_start(&hash);
    yki_hash_string(&hash, launch->file);
    yki_hash_string(&hash, launch->kernel);
    yki_hash_string(&hash, launch->options);
    yki_hash_hex(&hash, hex);
    memcpy(&key, hex, sizeof key); /* eight digits of it, which are never zero */
    return key;
}

/* Returns whether nobody had claimed this kernel, which is claimed now. */
static bool
claim(yki_claims *claims, uint64_t key)
{
    size_t at = (size_t)(key % YKI_COUNT(claims->keys));

    for (size_t tries = 0; tries < YKI_COUNT(claims->keys); tries++) {
        uint_least64_t found = 0;

        if (atomic_compare_exchange_strong(&claims->keys[at], &found, key))
            return true;
        if (found == key)
            return false;
        at = (at + 1) % YKI_COUNT(claims->keys);
    }
    return false; /* there is no room: it is compiled when it is measured */
}

/* Counts the kernels of a trial that are new. */
static uint32_t
claim_kernels(const yki_plan *plan, const yki_trial *trial, yki_claims *claims)
{
    yki_recipe recipe = {.status = YOKE_OK};
    uint32_t count = 0;

    if (yki_solver_emit(trial->solver, &trial->problem, yki_plan_traits(plan, trial->solver),
                        trial->tuning, &recipe) == YOKE_OK)
        for (size_t k = 0; k < recipe.launch_count; k++)
            count += claim(claims, key_of(&recipe.launches[k]));
    yki_recipe_clear(&recipe);
    return count;
}

/* Goes through all that is unknown: counts the kernels that are not claimed yet, until there are
 * `most`, and with `runs` compiles them. */
static yoke_status
go_through(yki_choice *choice, const size_t *order, yki_claims *claims, bool runs, uint32_t most,
           uint32_t *count)
{
    yki_plan *plan = choice->plan;

    *count = 0;
    for (size_t t = 0; t < choice->count && *count < most; t++) {
        const yki_task *task = &choice->tasks[choice->index = order[t]];

        yki_plan_tick(plan);
        YKI_TRY(yki_choice_ask(choice));
        for (size_t i = 0; i < choice->asked_count && *count < most; i++) {
            yki_trial trial = {.solver = choice->asked[i].solver,
                               .tuning = choice->asked[i].tuning};
            uint32_t fresh;

            yki_offer_problem(plan, task, &choice->asked[i], &trial.problem);
            if (yki_trial_is_known(plan, &trial))
                continue;
            fresh = claim_kernels(plan, &trial, claims);
            *count += fresh;
            if (runs && fresh &&
                yki_measure_nothing(plan->queue, &trial, yki_task_packs(plan, task)) != YOKE_OK)
                (void)yki_queue_finish(plan->queue); /* it returns the error once more */
        }
    }
    return YOKE_OK;
}

yoke_status
yki_choice_rehearse(yki_choice *choice, const size_t *order)
{
    const yki_plan_options *o = &choice->plan->options;
    const yki_rehearsal *rehearsal = o->rehearsal;
    yki_claims *claims;
    yoke_status status;
    uint32_t count;

    if (o->level == YOKE_PLAN_ESTIMATE || o->canonical)
        return YOKE_OK;
    claims = yki_alloc(1, sizeof *claims, "names of kernels");
    if (!claims)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = go_through(choice, order, claims, false, FEW, &count);
    yki_free(claims);
    if (status != YOKE_OK || count < FEW)
        return status;
    claims = rehearsal->begin(rehearsal->user, o);
    if (!claims)
        return YOKE_OK;
    status = go_through(choice, order, claims, true, UINT32_MAX, &count);
    rehearsal->end(rehearsal->user);
    yki_log(YOKE_LOG_INFO, "%s: %u of a plan's kernels were compiled here, the others beside it",
            yki_device_id(yki_queue_device(choice->plan->queue)), (unsigned)count);
    return status;
}

yoke_status
yki_plan_compile_tasks(yki_plan *plan, yki_claims *claims)
{
    yki_choice choice = {.plan = plan, .tasks = plan->tasks, .count = plan->task_count};
    size_t *order = yki_alloc(choice.count, sizeof *order, "a plan's order");
    yoke_status status = order ? yki_choice_start(&choice, order) : YOKE_ERROR_OUT_OF_MEMORY;
    uint32_t count;

    if (status == YOKE_OK)
        status = go_through(&choice, order, claims, true, UINT32_MAX, &count);
    yki_free(choice.asked);
    yki_free(choice.broken);
    yki_free(order);
    return status;
}

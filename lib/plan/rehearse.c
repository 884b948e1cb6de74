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
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/choose.h"

/* Fewer kernels than this are compiled before other processes are ready. */
enum { FEW = 4 };

/* Kernels that were compiled for plans of this process, by whomever: parts of a device, and other
 * batches, need the same. */
static yki_claims compiled;

/* ---- claims ---- */

/* Returns a number that is not zero. */
static uint64_t
key_of(const char *device, const yki_launch *launch)
{
    yki_hash hash;
    char hex[33];

    yki_hash_start(&hash);
    yki_hash_string(&hash, device);
    yki_hash_string(&hash, launch->file);
    yki_hash_string(&hash, launch->source ? launch->source : "");
    yki_hash_string(&hash, launch->kernel);
    yki_hash_string(&hash, launch->options);
    yki_hash_hex(&hash, hex);
    hex[16] = '\0';
    return strtoull(hex, NULL, 16) | 1;
}

/* Returns whether nobody had claimed this kernel, which is claimed now. */
static bool
claim(yki_claims *claims, uint64_t key)
{
    size_t at = (size_t)(key / 2 % YKI_COUNT(claims->keys));

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

static void
claim_all(yki_claims *claims, const yki_claims *others)
{
    for (size_t i = 0; i < YKI_COUNT(others->keys); i++) {
        uint64_t key = atomic_load(&others->keys[i]);

        if (key)
            (void)claim(claims, key);
    }
}

/* ---- a plan's trials ---- */

typedef enum purpose {
    CLAIM_KNOWN, /* claims the kernels of trials whose times are known: they are compiled */
    COUNT_NEW,   /* claims those of the others */
    COMPILE_NEW  /* the same, and runs what is new */
} purpose;

typedef struct rehearsed {
    purpose purpose;
    yki_claims *claims;
    double deadline;
    char device[128];
    uint32_t unknown; /* trials */
    uint32_t fresh;   /* kernels that nobody had claimed */
} rehearsed;

/* Counts the kernels of a trial that are new. */
static uint32_t
claim_kernels(const yki_plan *plan, const yki_trial *trial, const rehearsed *r)
{
    yki_recipe recipe = {.status = YOKE_OK};
    uint32_t count = 0;

    if (yki_solver_emit(trial->solver, &trial->problem, yki_plan_traits(plan, trial->solver),
                        trial->tuning, &recipe) == YOKE_OK)
        for (size_t k = 0; k < recipe.launch_count; k++)
            count += claim(r->claims, key_of(r->device, &recipe.launches[k]));
    yki_recipe_clear(&recipe);
    return count;
}

static void
take(yki_plan *plan, const yki_task *task, yki_trial *trial, rehearsed *r)
{
    const bool known = yki_trial_is_known(plan, trial);
    uint32_t fresh;

    r->unknown += !known;
    if (known != (r->purpose == CLAIM_KNOWN))
        return;
    fresh = claim_kernels(plan, trial, r);
    r->fresh += fresh;
    if (fresh && r->purpose == COMPILE_NEW &&
        yki_run_once(plan->queue, trial, yki_task_packs(plan, task)) != YOKE_OK)
        (void)yki_queue_finish(plan->queue); /* it returns the error once more */
}

static yoke_status
go_through(yki_choice *choice, const size_t *order, rehearsed *r)
{
    yki_plan *plan = choice->plan;
    yoke_device_info info;

    YKI_TRY(yoke_device_get_info(yki_queue_device(plan->queue), &info));
    memcpy(r->device, info.name, sizeof r->device);
    r->unknown = r->fresh = 0;
    for (size_t t = 0; t < choice->count; t++) {
        const yki_task *task = &choice->tasks[choice->index = order[t]];

        yki_plan_tick(plan);
        YKI_TRY(yki_choice_ask(choice));
        for (size_t i = 0; i < choice->asked_count && !atomic_load(&r->claims->over); i++) {
            yki_trial trial = {.solver = choice->asked[i].solver,
                               .tuning = choice->asked[i].tuning};

            yki_offer_problem(plan, task, &choice->asked[i], &trial.problem);
            take(plan, task, &trial, r);
            if (r->purpose == COMPILE_NEW && yki_now() > r->deadline)
                atomic_store(&r->claims->over, true); /* of all processes */
        }
    }
    return YOKE_OK;
}

static yoke_status
rehearse(yki_choice *choice, const size_t *order, yki_claims *known, yki_claims *counted)
{
    yki_plan *plan = choice->plan;
    const yki_rehearsal *rehearsal = plan->options.rehearsal;
    rehearsed r = {.purpose = CLAIM_KNOWN, .claims = known};
    yoke_status status;

    YKI_TRY(go_through(choice, order, &r));
    if (r.unknown == 0)
        return YOKE_OK;
    claim_all(known, &compiled);
    claim_all(counted, known);
    r = (rehearsed){.purpose = COUNT_NEW, .claims = counted};
    YKI_TRY(go_through(choice, order, &r));
    if (r.fresh < FEW)
        return YOKE_OK;
    r = (rehearsed){.purpose = COMPILE_NEW,
                    .claims = rehearsal->begin(rehearsal->user, &plan->options, known),
                    .deadline = yki_now() + yki_plan_budget(plan) - plan->measuring.seconds};
    if (!r.claims)
        return YOKE_OK;
    status = go_through(choice, order, &r);
    claim_all(&compiled, r.claims);
    rehearsal->end(rehearsal->user);
    yki_log(YOKE_LOG_INFO, "%s: %u of a plan's kernels were compiled here, the others beside it",
            yki_device_id(yki_queue_device(plan->queue)), (unsigned)r.fresh);
    return status;
}

yoke_status
yki_choice_rehearse(yki_choice *choice, const size_t *order)
{
    const yki_plan_options *o = &choice->plan->options;
    yki_claims *claims;
    yoke_status status;

    if (o->level == YOKE_PLAN_ESTIMATE || o->canonical || !o->rehearsal->may(o->rehearsal->user, o))
        return YOKE_OK;
    claims = yki_alloc(2, sizeof *claims, "names of kernels");
    if (!claims)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = rehearse(choice, order, &claims[0], &claims[1]);
    yki_free(claims);
    return status;
}

yoke_status
yki_plan_compile_tasks(yki_plan *plan, yki_claims *claims)
{
    yki_choice choice = {.plan = plan, .tasks = plan->tasks, .count = plan->task_count};
    size_t *order = yki_alloc(choice.count, sizeof *order, "a plan's order");
    yoke_status status = order ? yki_choice_start(&choice, order) : YOKE_ERROR_OUT_OF_MEMORY;
    rehearsed r = {.purpose = COMPILE_NEW, .claims = claims, .deadline = INFINITY};

    if (status == YOKE_OK)
        status = go_through(&choice, order, &r);
    yki_free(choice.asked);
    yki_free(choice.broken);
    yki_free(order);
    return status;
}

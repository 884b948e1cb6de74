/* SPDX-License-Identifier: Apache-2.0
 *
 * search.c - sets of parameters for the solvers that have them (yki_parameter_sets).
 *
 * A set of parameters belongs to a device, not to a problem, because changing it builds
 * kernels. So a plan takes one set for all problems of a solver: the set that wisdom has times
 * of for most of them, and of those sets the fastest.
 *
 * Level patient looks for better sets where wisdom has not seen enough. It begins at the
 * solver's seeds, makes one move at a time, and keeps what is faster on the model's largest
 * problem. It goes on until nothing is faster, or the time is over. Then it measures the best few
 * sets on the other problems. Nothing here knows a device or a solver by name.
 *
 * Level measure tries the seeds alone, for a few seconds, on a device that is no processor, if no
 * set is known and a product is large: a small one takes less time than the kernels of a library
 * that copy its operands. What it finds is only worth measuring: the planner then runs it in turns
 * with the other solvers (offers.c).
 *
 * The search stops at a local optimum; a second run goes on from the best set known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

enum {
    MAX_PROBLEMS = 48,
    MAX_TRIED = 400,
    ENOUGH = 12, /* with so many sets measured on the largest problem, it was searched before */
    FINALISTS = 3
};
/* The fraction of the measuring budget that the search takes at level patient and at level measure.
 * The rest is for other solvers. */
#define SHARE       0.7
#define SEEDS_SHARE 0.2
/* Operations of a large product. */
#define LARGE        (2.0 * 512 * 512 * 512)
#define REPORT_EVERY 2.0

typedef struct sized_problem {
    const yki_problem *problem;
    char text[YKI_PROBLEM_TEXT];
    char sizes[64]; /* for people */
    double flops;
} sized_problem;

typedef struct tried {
    unsigned set;
    double seconds; /* for the largest problem; 0: unknown */
    double total;   /* sum over the problems that have a time */
    size_t known;   /* number of problems that have a time */
    bool failed;    /* it does not work: it is neither taken nor measured again */
} tried;

typedef struct search {
    yki_plan *plan;
    const yki_solver *solver;
    const yki_parameter_sets *sets;
    yoke_device *device;
    const yki_device_traits *traits;
    sized_problem *problems; /* the largest first */
    size_t problem_count;
    tried *tried;
    size_t tried_count;
    double deadline, reported;
    double own; /* seconds with the library's own parameters; 0: unknown */
} search;

/* ---- problems of the plan ---- */

static int
larger_first(const void *a, const void *b)
{
    const sized_problem *x = a, *y = b;

    if (x->flops != y->flops)
        return x->flops < y->flops ? 1 : -1;
    return strcmp(x->text, y->text);
}

static void
add_problem(search *s, const yki_problem *problem)
{
    sized_problem *p = &s->problems[s->problem_count];

    if (s->problem_count == MAX_PROBLEMS || problem->op != *s->solver->op ||
        !s->solver->applies(problem, s->traits))
        return;
    p->problem = problem;
    p->flops = s->sets->work(problem, p->sizes, sizeof p->sizes);
    if (p->flops == 0)
        return;
    yki_problem_text(problem, p->text, sizeof p->text);
    for (size_t i = 0; i < s->problem_count; i++)
        if (strcmp(s->problems[i].text, p->text) == 0)
            return;
    s->problem_count++;
}

/* ---- what is known ---- */

static tried *
entry_of(search *s, unsigned set)
{
    for (size_t i = 0; i < s->tried_count; i++)
        if (s->tried[i].set == set)
            return &s->tried[i];
    if (s->tried_count == MAX_TRIED)
        return NULL;
    s->tried[s->tried_count] = (tried){.set = set};
    return &s->tried[s->tried_count++];
}

static void
note(search *s, unsigned set, size_t index, double seconds)
{
    tried *t = entry_of(s, set);

    if (!t)
        return;
    if (index == 0)
        t->seconds = seconds;
    t->total += seconds;
    t->known++;
}

/* Takes in an entry of wisdom. It may be damaged, so only sets that exist count. */
static void
recall(void *user, unsigned set, const char *problem, double seconds)
{
    search *s = user;

    if (!s->sets->valid(set, s->traits))
        return;
    (void)entry_of(s, set); /* other problems may gain from it too */
    for (size_t i = 0; i < s->problem_count; i++)
        if (strcmp(s->problems[i].text, problem) == 0)
            note(s, set, i, seconds);
}

/* Returns the set to take: the one known for most problems, and of those the fastest. NULL: none is
 * known. */
static const tried *
best(const search *s)
{
    const tried *found = NULL;

    for (size_t i = 0; i < s->tried_count; i++) {
        const tried *t = &s->tried[i];

        if (t->failed)
            continue;
        if (!found || t->known > found->known ||
            (t->known == found->known && t->total < found->total))
            found = t;
    }
    return found;
}

/* Returns the set that is fastest on the largest problem, the `count` sets in `taken` excepted. */
static const tried *
fastest(const search *s, const unsigned *taken, size_t count)
{
    const tried *found = NULL;

    for (size_t i = 0; i < s->tried_count; i++) {
        const tried *t = &s->tried[i];
        bool is_taken = t->seconds == 0 || t->failed;

        for (size_t k = 0; k < count; k++)
            is_taken |= taken[k] == t->set;
        if (!is_taken && (!found || t->seconds < found->seconds))
            found = t;
    }
    return found;
}

/* ---- trying ---- */

static bool
is_over(const search *s)
{
    return yki_now() > s->deadline || s->tried_count == MAX_TRIED;
}

static void
report(search *s, bool always)
{
    const tried *t = fastest(s, NULL, 0);
    const sized_problem *p = &s->problems[0];
    char text[256], ratio[64] = "";

    if (!t || (!always && yki_now() - s->reported < REPORT_EVERY))
        return;
    s->reported = yki_now();
    s->sets->describe(t->set, text, sizeof text);
    if (s->own > 0)
        snprintf(ratio, sizeof ratio, ", %.1f times its own parameters", s->own / t->seconds);
    yki_log(YOKE_LOG_INFO, "%s: %s for %s: %zu sets tried, the best has %.1f GFLOP/s%s: %s",
            yki_device_id(s->device), s->sets->title, p->sizes, s->tried_count,
            p->flops / t->seconds / 1e9, ratio, text);
}

/* Measures a set on a problem. That a set does not build or fit, or computes wrongly, is a result;
 * a lack of the host's memory is an error. */
static yoke_status
measure(search *s, unsigned set, size_t index)
{
    double seconds = 0;
    tried *t;
    yoke_status status =
        s->sets->measure(s->plan->queue, s->problems[index].problem, set, &seconds);

    if (status == YOKE_ERROR_OUT_OF_MEMORY)
        return status;
    if (status != YOKE_OK) {
        yki_log(YOKE_LOG_DEBUG, "%s: set %u: %s", yki_device_id(s->device), set, yoke_last_error());
        (void)yki_queue_finish(s->plan->queue); /* returns what is known already */
        t = entry_of(s, set);
        if (t)
            t->failed = true;
        return YOKE_OK;
    }
    note(s, set, index, seconds);
    return yki_wisdom_put(s->plan->options.wisdom, s->device, s->problems[index].text,
                          s->solver->name, set, seconds);
}

/* Tries a set on the largest problem, unless it is invalid, known already, or the search is over.
 * *better: it is the fastest so far, by more than 2 %. */
static yoke_status
attempt(search *s, unsigned set, bool *better)
{
    const tried *before = fastest(s, NULL, 0), *after;
    double least = before ? before->seconds : 0;

    *better = false;
    if (!s->sets->valid(set, s->traits) || is_over(s))
        return YOKE_OK;
    for (size_t i = 0; i < s->tried_count; i++)
        if (s->tried[i].set == set && (s->tried[i].seconds > 0 || s->tried[i].failed))
            return YOKE_OK;
    YKI_TRY(measure(s, set, 0));
    after = fastest(s, NULL, 0);
    *better = after && after->set == set && (least == 0 || after->seconds < 0.98 * least);
    report(s, false);
    return YOKE_OK;
}

/* Measures the library's own parameters for comparison. This works as long as this process has set
 * no others. */
static void
measure_own(search *s)
{
    const sized_problem *p = &s->problems[0];
    unsigned set;

    if (s->sets->in_force(s->plan->queue, &set))
        return;
    if (s->sets->measure(s->plan->queue, p->problem, s->sets->own, &s->own) != YOKE_OK)
        s->own = 0;
    else
        yki_log(YOKE_LOG_INFO, "%s: %s for %s: its own parameters have %.1f GFLOP/s",
                yki_device_id(s->device), s->sets->title, p->sizes, p->flops / s->own / 1e9);
}

/* ---- changing one thing ---- */

/* Tries all neighbours by one move and keeps the better ones. Sets *better if there was one. */
static yoke_status
try_move(search *s, unsigned move, unsigned *at, bool *better)
{
    unsigned next[YKI_MAX_NEIGHBOURS];
    size_t count = s->sets->neighbours(*at, move, next);

    for (size_t i = 0; i < count; i++) {
        bool is_better;

        YKI_TRY(attempt(s, next[i], &is_better));
        if (is_better)
            *at = next[i];
        *better |= is_better;
    }
    return YOKE_OK;
}

static yoke_status
descend(search *s)
{
    unsigned since = 0; /* moves since the last gain */
    const tried *t = fastest(s, NULL, 0);
    unsigned at;

    if (!t)
        return YOKE_OK;
    at = t->set;
    for (unsigned m = 0; since < s->sets->moves && !is_over(s); m = (m + 1) % s->sets->moves) {
        bool better = false;

        YKI_TRY(try_move(s, m, &at, &better));
        since = better ? 0 : since + 1;
    }
    return YOKE_OK;
}

static yoke_status
try_seeds(search *s)
{
    const unsigned *seeds;
    size_t count = s->sets->seeds(&seeds), known = s->tried_count;
    bool better;

    for (size_t i = 0; i < count + known; i++)
        YKI_TRY(attempt(s, i < count ? seeds[i] : s->tried[i - count].set, &better));
    return YOKE_OK;
}

/* Measures the best few sets on the other problems; at least one set, even if the time is over. */
static yoke_status
compare_finalists(search *s)
{
    unsigned sets[FINALISTS];

    for (size_t f = 0; f < FINALISTS; f++) {
        const tried *t = fastest(s, sets, f);

        if (!t || (f > 0 && (yki_now() > s->deadline || s->problem_count == 1)))
            break;
        sets[f] = t->set;
        for (size_t i = 1; i < s->problem_count; i++) {
            double seconds;

            if (yki_wisdom_get(s->plan->options.wisdom, s->device, s->problems[i].text,
                               s->solver->name, sets[f], &seconds))
                continue;
            yki_log(YOKE_LOG_INFO, "%s: %s for %s (%zu of %zu problems)", yki_device_id(s->device),
                    s->sets->title, s->problems[i].sizes, i + 1, s->problem_count);
            YKI_TRY(measure(s, sets[f], i));
        }
    }
    return YOKE_OK;
}

static size_t
known_of_largest(const search *s)
{
    size_t count = 0;

    for (size_t i = 0; i < s->tried_count; i++)
        count += s->tried[i].seconds > 0;
    return count;
}

static yoke_status
take(search *s, unsigned set)
{
    yki_plan *plan = s->plan;

    YKI_TRY(yki_grow((void **)&plan->sets.list, &plan->sets.capacity, plan->sets.count + 1,
                     sizeof *plan->sets.list, "sets of parameters"));
    plan->sets.list[plan->sets.count++] = (yki_taken_set){s->solver, set};
    return YOKE_OK;
}

/* Whether level measure has to look for a set, which may win. */
static bool
has_to_begin(const search *s)
{
    unsigned set;

    return s->traits->type != YOKE_DEVICE_CPU && s->problems[0].flops >= LARGE && !best(s) &&
           !s->sets->in_force(s->plan->queue, &set);
}

static yoke_status
run(search *s)
{
    bool patient = s->plan->options.level == YOKE_PLAN_PATIENT, begins = has_to_begin(s);
    double start = yki_now(), took;
    unsigned set;

    s->deadline = start + (patient ? SHARE : SEEDS_SHARE) * yki_plan_budget(s->plan);
    s->reported = start;
    if (patient && known_of_largest(s) < ENOUGH) {
        measure_own(s);
        YKI_TRY(try_seeds(s));
        YKI_TRY(descend(s));
        report(s, true);
    }
    if (patient)
        YKI_TRY(compare_finalists(s));
    else if (begins)
        YKI_TRY(try_seeds(s));
    took = yki_now() - start;
    /* A build that took longer than the search had does not take from the other solvers. */
    s->plan->measuring.seconds += patient ? took : YKI_MIN(took, s->deadline - start);
    if (!best(s))
        return YOKE_OK;
    set = best(s)->set;
    if (patient || begins)
        YKI_TRY(s->sets->use(s->plan->queue, set));
    else
        /* The set that this process uses already needs no build, and other plans keep their
         * kernels. */
        (void)s->sets->in_force(s->plan->queue, &set);
    return take(s, set);
}

const unsigned *
yki_plan_set_of(const yki_plan *plan, const yki_solver *solver)
{
    for (size_t i = 0; i < plan->sets.count; i++)
        if (plan->sets.list[i].solver == solver)
            return &plan->sets.list[i].set;
    return NULL;
}

yoke_status
yki_plan_search_sets(yki_plan *plan, const yki_solver *solver)
{
    search s = {.plan = plan,
                .solver = solver,
                .sets = solver->sets,
                .device = yki_queue_device(plan->queue)};
    yoke_status status = YOKE_OK;

    s.traits = yki_device_get_traits(s.device);
    s.problems = yki_alloc(MAX_PROBLEMS + 1, sizeof *s.problems, "the problems of a plan");
    s.tried = yki_alloc(MAX_TRIED, sizeof *s.tried, "sets of parameters");
    if (!s.problems || !s.tried)
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK) {
        for (size_t t = 0; t < plan->task_count; t++)
            add_problem(&s, &plan->tasks[t].problem);
        qsort(s.problems, s.problem_count, sizeof *s.problems, larger_first);
        if (s.problem_count) {
            yki_wisdom_each(plan->options.wisdom, s.device, solver->name, recall, &s);
            status = run(&s);
        }
    }
    yki_free(s.problems);
    yki_free(s.tried);
    return status;
}

yoke_status
yki_plan_search(yki_plan *plan)
{
    if (!plan->options.wisdom || plan->options.level == YOKE_PLAN_ESTIMATE ||
        plan->options.canonical)
        return YOKE_OK;
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if ((*s)->sets)
            YKI_TRY(yki_plan_search_sets(plan, *s));
    return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * search.c - parameters for CLBlast's products on this device.
 *
 * A set of parameters belongs to a device, not to a problem, because changing it builds
 * kernels. So a plan takes one set for all of its products: the set that wisdom has times of
 * for most of them, and of those sets the fastest.
 *
 * Level patient looks for better sets where wisdom has not seen enough. It begins at common
 * starting points, changes one parameter, or two that belong together, and keeps what is faster
 * on the model's largest product. It goes on until nothing is faster, or the time is over. Then
 * it measures the best few sets on the other products. Nothing here knows a device by name.
 *
 * The search stops at a local optimum; a second run goes on from the best set known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/matmul/clblast.h"
#include "plan/plan.h"

enum {
    MAX_PROBLEMS = 48,
    MAX_TRIED = 400,
    ENOUGH = 12, /* with so many sets measured on the largest product, it was searched before */
    FINALISTS = 3
};
/* The fraction of the measuring budget that the search takes; the rest is for other solvers. */
#define SHARE        0.7
#define REPORT_EVERY 2.0

extern const yki_solver yki_solver_gemm_clblast;

typedef struct product {
    const yki_problem *problem;
    char text[YKI_PROBLEM_TEXT];
    int64_t sizes[3];
    double flops;
} product;

typedef struct tried {
    unsigned set;
    double seconds; /* for the largest product; 0: unknown, or it does not work */
    double total;   /* sum over the products that have a time */
    size_t known;   /* number of products that have a time */
} tried;

typedef struct search {
    yki_plan *plan;
    yoke_device *device;
    const yki_device_traits *traits;
    product *products; /* the largest first */
    size_t product_count;
    tried *tried;
    size_t tried_count;
    double deadline, reported;
    double own; /* seconds with CLBlast's own parameters; 0: unknown */
} search;

/* ---- products of the plan ---- */

static int
larger_first(const void *a, const void *b)
{
    const product *x = a, *y = b;

    if (x->flops != y->flops)
        return x->flops < y->flops ? 1 : -1;
    return strcmp(x->text, y->text);
}

static void
add_product(search *s, const yki_problem *problem)
{
    product *p = &s->products[s->product_count];

    if (s->product_count == MAX_PROBLEMS || problem->op != *yki_solver_gemm_clblast.op ||
        !yki_solver_gemm_clblast.applies(problem, s->traits) ||
        !yki_clblast_sizes(problem, p->sizes))
        return;
    p->problem = problem;
    p->flops = 2.0 * (double)p->sizes[0] * (double)p->sizes[1] * (double)p->sizes[2];
    yki_problem_text(problem, p->text, sizeof p->text);
    for (size_t i = 0; i < s->product_count; i++)
        if (strcmp(s->products[i].text, p->text) == 0)
            return;
    s->product_count++;
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
    yki_clblast_set values;

    if (!yki_clblast_decode(set, &values) || !yki_clblast_valid(&values, s->traits))
        return;
    (void)entry_of(s, set); /* other products may gain from it too */
    for (size_t i = 0; i < s->product_count; i++)
        if (strcmp(s->products[i].text, problem) == 0)
            note(s, set, i, seconds);
}

/* Returns the set to take: the one known for most products, and of those the fastest. NULL: none is
 * known. */
static const tried *
best(const search *s)
{
    const tried *found = NULL;

    for (size_t i = 0; i < s->tried_count; i++) {
        const tried *t = &s->tried[i];

        if (!found || t->known > found->known ||
            (t->known == found->known && t->total < found->total))
            found = t;
    }
    return found;
}

/* Returns the set that is fastest on the largest product, the `count` sets in `taken` excepted. */
static const tried *
fastest(const search *s, const unsigned *taken, size_t count)
{
    const tried *found = NULL;

    for (size_t i = 0; i < s->tried_count; i++) {
        const tried *t = &s->tried[i];
        bool is_taken = t->seconds == 0;

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
    const product *p = &s->products[0];
    yki_clblast_set values;
    char text[256], ratio[64] = "";

    if (!t || (!always && yki_now() - s->reported < REPORT_EVERY))
        return;
    s->reported = yki_now();
    if (yki_clblast_decode(t->set, &values))
        yki_clblast_text(&values, text, sizeof text);
    else
        snprintf(text, sizeof text, "its own");
    if (s->own > 0)
        snprintf(ratio, sizeof ratio, ", %.1f times its own parameters", s->own / t->seconds);
    yki_log(YOKE_LOG_INFO,
            "%s: CLBlast for %lldx%lldx%lld: %zu sets tried, the best has %.1f GFLOP/s%s: %s",
            yki_device_id(s->device), (long long)p->sizes[0], (long long)p->sizes[1],
            (long long)p->sizes[2], s->tried_count, p->flops / t->seconds / 1e9, ratio, text);
}

/* Measures a set on a product. That a set does not build, or computes wrongly, is a result; a lack
 * of memory is an error. */
static yoke_status
measure(search *s, unsigned set, size_t index)
{
    double seconds = 0;
    yoke_status status =
        yki_clblast_measure(s->plan->queue, s->products[index].problem, set, &seconds);

    if (status == YOKE_ERROR_OUT_OF_MEMORY || status == YOKE_ERROR_OUT_OF_DEVICE_MEMORY ||
        status == YOKE_ERROR_QUOTA)
        return status;
    if (status != YOKE_OK) {
        yki_log(YOKE_LOG_DEBUG, "%s: set %u: %s", yki_device_id(s->device), set, yoke_last_error());
        (void)entry_of(s, set); /* it counts as tried */
        return YOKE_OK;
    }
    note(s, set, index, seconds);
    return yki_wisdom_put(s->plan->options.wisdom, s->device, s->products[index].text,
                          yki_solver_gemm_clblast.name, set, seconds);
}

/* Tries a set on the largest product, unless it is invalid, known already, or the search is over.
 * *better: it is the fastest so far, by more than 2 %. */
static yoke_status
attempt(search *s, const yki_clblast_set *values, bool *better)
{
    unsigned set = yki_clblast_encode(values);
    const tried *before = fastest(s, NULL, 0), *after;
    double least = before ? before->seconds : 0;

    *better = false;
    if (!yki_clblast_valid(values, s->traits) || is_over(s))
        return YOKE_OK;
    for (size_t i = 0; i < s->tried_count; i++)
        if (s->tried[i].set == set && s->tried[i].seconds > 0)
            return YOKE_OK;
    YKI_TRY(measure(s, set, 0));
    after = fastest(s, NULL, 0);
    *better = after && after->set == set && (least == 0 || after->seconds < 0.98 * least);
    report(s, false);
    return YOKE_OK;
}

/* Measures CLBlast's own parameters for comparison. This works as long as this process has set no
 * others. */
static void
measure_own(search *s)
{
    unsigned set;

    if (yki_clblast_in_force(s->plan->queue, &set))
        return;
    if (yki_clblast_measure(s->plan->queue, s->products[0].problem, YKI_CLBLAST_DEFAULTS,
                            &s->own) != YOKE_OK)
        s->own = 0;
    else
        yki_log(YOKE_LOG_INFO,
                "%s: CLBlast for %lldx%lldx%lld: its own parameters have %.1f GFLOP/s",
                yki_device_id(s->device), (long long)s->products[0].sizes[0],
                (long long)s->products[0].sizes[1], (long long)s->products[0].sizes[2],
                s->products[0].flops / s->own / 1e9);
}

/* ---- changing one thing ---- */

/* Two parameters that are changed together, because one alone seldom gives a valid set. Where both
 * are the same, it is changed alone. */
typedef struct move {
    yki_clblast_parameter a, b;
} move;

static const move moves[] = {
    {YKI_CLBLAST_VWM, YKI_CLBLAST_VWM},     {YKI_CLBLAST_VWN, YKI_CLBLAST_VWN},
    {YKI_CLBLAST_MWG, YKI_CLBLAST_MWG},     {YKI_CLBLAST_NWG, YKI_CLBLAST_NWG},
    {YKI_CLBLAST_MDIMC, YKI_CLBLAST_MDIMA}, {YKI_CLBLAST_NDIMC, YKI_CLBLAST_NDIMB},
    {YKI_CLBLAST_SA, YKI_CLBLAST_SA},       {YKI_CLBLAST_SB, YKI_CLBLAST_SB},
    {YKI_CLBLAST_KWG, YKI_CLBLAST_KWG},     {YKI_CLBLAST_KWI, YKI_CLBLAST_KWI},
    {YKI_CLBLAST_MWG, YKI_CLBLAST_VWM},     {YKI_CLBLAST_NWG, YKI_CLBLAST_VWN},
    {YKI_CLBLAST_MDIMC, YKI_CLBLAST_VWM},   {YKI_CLBLAST_NDIMC, YKI_CLBLAST_VWN},
    {YKI_CLBLAST_STRM, YKI_CLBLAST_STRM},   {YKI_CLBLAST_STRN, YKI_CLBLAST_STRN},
    {YKI_CLBLAST_MDIMA, YKI_CLBLAST_MDIMA}, {YKI_CLBLAST_NDIMB, YKI_CLBLAST_NDIMB},
};

/* Moves a parameter to a neighbouring value, up or down. Sizes are powers of two in order, so
 * several steps reach farther ones. Returns false if there is no such value. */
static bool
step(yki_clblast_set *values, yki_clblast_parameter parameter, int by)
{
    int choice = values->choice[parameter] + by;

    if (choice < 0 || choice >= (int)yki_clblast_choices(parameter))
        return false;
    values->choice[parameter] = (uint8_t)choice;
    return true;
}

/* Tries all neighbours by one move and keeps the better ones. Sets *better if there was one. */
static yoke_status
try_move(search *s, const move *m, yki_clblast_set *at, bool *better)
{
    static const int steps[][2] = {{1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
    yki_clblast_set start = *at;

    for (size_t i = 0; i < YKI_COUNT(steps); i++) {
        yki_clblast_set next = start;
        bool is_better;

        if (m->a == m->b && i >= 2)
            break;
        if (!step(&next, m->a, steps[i][0]) || (m->a != m->b && !step(&next, m->b, steps[i][1])))
            continue;
        YKI_TRY(attempt(s, &next, &is_better));
        if (is_better)
            *at = next;
        *better |= is_better;
    }
    return YOKE_OK;
}

static yoke_status
descend(search *s)
{
    size_t since = 0; /* moves since the last gain */
    const tried *t = fastest(s, NULL, 0);
    yki_clblast_set at;

    if (!t || !yki_clblast_decode(t->set, &at))
        return YOKE_OK;
    for (size_t m = 0; since < YKI_COUNT(moves) && !is_over(s); m = (m + 1) % YKI_COUNT(moves)) {
        bool better = false;

        YKI_TRY(try_move(s, &moves[m], &at, &better));
        since = better ? 0 : since + 1;
    }
    return YOKE_OK;
}

static yoke_status
find_sets(search *s)
{
    const unsigned *seeds;
    size_t count = yki_clblast_seeds(&seeds), known = s->tried_count;

    for (size_t i = 0; i < count + known; i++) {
        yki_clblast_set values;
        bool better;

        if (yki_clblast_decode(i < count ? seeds[i] : s->tried[i - count].set, &values))
            YKI_TRY(attempt(s, &values, &better));
    }
    return descend(s);
}

/* Measures the best few sets on the other products; at least one set, even if the time is over. */
static yoke_status
compare_finalists(search *s)
{
    unsigned sets[FINALISTS];

    for (size_t f = 0; f < FINALISTS; f++) {
        const tried *t = fastest(s, sets, f);

        if (!t || (f > 0 && (yki_now() > s->deadline || s->product_count == 1)))
            break;
        sets[f] = t->set;
        for (size_t i = 1; i < s->product_count; i++) {
            double seconds;

            if (yki_wisdom_get(s->plan->options.wisdom, s->device, s->products[i].text,
                               yki_solver_gemm_clblast.name, sets[f], &seconds))
                continue;
            yki_log(YOKE_LOG_INFO, "%s: CLBlast for %lldx%lldx%lld (%zu of %zu products)",
                    yki_device_id(s->device), (long long)s->products[i].sizes[0],
                    (long long)s->products[i].sizes[1], (long long)s->products[i].sizes[2], i + 1,
                    s->product_count);
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
run(search *s)
{
    double start = yki_now();
    unsigned set;

    s->deadline = start + SHARE * yki_plan_budget(s->plan);
    s->reported = start;
    if (s->plan->options.level == YKI_LEVEL_PATIENT) {
        if (known_of_largest(s) < ENOUGH) {
            measure_own(s);
            YKI_TRY(find_sets(s));
            report(s, true);
        }
        YKI_TRY(compare_finalists(s));
    }
    s->plan->measured_seconds += yki_now() - start;
    if (!best(s))
        return YOKE_OK;
    s->plan->has_set = true;
    s->plan->set = best(s)->set;
    if (s->plan->options.level == YKI_LEVEL_PATIENT)
        return yki_clblast_use(s->plan->queue, s->plan->set);
    /* The set that this process uses already needs no build, and other plans keep their kernels. */
    if (yki_clblast_in_force(s->plan->queue, &set))
        s->plan->set = set;
    return YOKE_OK;
}

yoke_status
yki_plan_search(yki_plan *plan)
{
    search s = {.plan = plan, .device = yki_queue_device(plan->queue)};
    yoke_status status = YOKE_OK;

    if (!plan->options.wisdom || plan->options.level == YKI_LEVEL_ESTIMATE)
        return YOKE_OK;
    s.traits = yki_device_get_traits(s.device);
    s.products = yki_alloc(MAX_PROBLEMS + 1, sizeof *s.products, "the products of a plan");
    s.tried = yki_alloc(MAX_TRIED, sizeof *s.tried, "sets of parameters");
    if (!s.products || !s.tried)
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK) {
        for (size_t t = 0; t < plan->task_count; t++)
            add_product(&s, &plan->tasks[t].problem);
        qsort(s.products, s.product_count, sizeof *s.products, larger_first);
        if (s.product_count) {
            yki_wisdom_each(plan->options.wisdom, s.device, yki_solver_gemm_clblast.name, recall,
                            &s);
            status = run(&s);
        }
    }
    yki_free(s.products);
    yki_free(s.tried);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * core_groups.c - trains on one whole CPU as on a team of its core groups.
 *
 * Where a step takes a millisecond or less, most of it may be threads that wait for one another
 * after each launch. Core groups (lib/device/core_groups.c) meet only
 * once a step. Which way is faster is measured: both trainers are made, they run steps in
 * alternation, and the slower one is destroyed. The times are kept in wisdom, so the next run
 * decides the same without measuring.
 *
 * For the user it stays one device. Its samples are divided evenly over the core groups. Batch
 * normalisation takes the statistics of all of them, as one device would.
 *
 * Nothing is measured where the same bits are promised and depend on it: with given shares, with
 * YOKE_REPRODUCIBLE_RUNS (which takes the choice that wisdom has), or with estimated plans.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

/* In seconds. Longer steps gain too little to be worth the measurement. */
static const double LONG_STEP = 2e-3;
/* Core groups must be faster by this factor. Less is noise, and fewer choices are better. */
static const double WORTH = 1.05;

enum {
    MOST = YKI_TEAM_INPUTS, /* core groups: one launch sums this many inputs, and as many owners
                               share the buckets */
    WARM = 4,               /* steps before the clock counts */
    TURNS = 5,              /* rounds for each of the two trainers */
    STEPS = 12              /* in one round */
};

/* The names under which wisdom keeps both times. Files have them, so they stay. */
static const char WHOLE[] = "device-whole", GROUPS[] = "device-lanes";

/* ---- whether it can be ---- */

/* Returns how many core groups there can be. Below 2: none, and `why` says why not. */
static uint32_t
possible(const yoke_team *team, const yoke_graph *graph, const yoke_trainer_options *o,
         const char **why)
{
    const int64_t samples = yki_largest_micro_batch(o);
    const int64_t pieces = o->granule ? (samples + o->granule - 1) / o->granule : samples;
    uint32_t count;

    *why = NULL;
    if (team->total != 1)
        *why = "the team has several devices";
    else if (graph->place_count || o->stages)
        *why = "the graph has places or stages";
    else if (!graph->loss)
        *why = "the graph has no loss, so there are no steps to measure";
    else if (yki_graph_is_local(graph)) /* each core group would have statistics of its own */
        *why = "the graph has a batch normalisation with statistics of each device";
    if (*why)
        return 0;
    count = yki_core_groups_count(yoke_selection_get(team->selection, 0),
                                  (uint32_t)YKI_MIN(pieces, (int64_t)MOST));
    if (count < 2)
        *why = pieces < 2 ? "one sample or granule at a time cannot be split"
                          : "the device is no whole CPU that can be split into equal parts";
    return count;
}

yoke_status
yki_core_groups_team(const yoke_team *team, uint32_t count, yoke_team **out)
{
    yoke_team *core_groups = yki_alloc(1, sizeof *core_groups, "a team of core groups");
    yoke_status status;

    if (!core_groups)
        return YOKE_ERROR_OUT_OF_MEMORY;
    atomic_store(&core_groups->references, 1);
    status = yki_core_groups_create(yoke_selection_get(team->selection, 0), count,
                                    &core_groups->selection);
    if (status != YOKE_OK) {
        yoke_team_destroy(core_groups);
        return status;
    }
    core_groups->count = core_groups->total = count;
    *out = core_groups;
    return YOKE_OK;
}

/* ---- which is faster ---- */

/* Names everything that the two times depend on. */
static void
problem_text(const yoke_graph *graph, const yoke_trainer_options *o, uint32_t count, char *text,
             size_t size)
{
    yki_hash hash;
    char hex[33], granules[40] = "", memory[40] = "";

    yki_hash_start(&hash);
    yki_graph_hash(graph, &hash);
    yki_hash_string(&hash, yki_precision_text(o->precision));
    yki_hash_hex(&hash, hex);
    if (o->granule)
        snprintf(granules, sizeof granules, ", granules of %lld", (long long)o->granule);
    if (o->recompute_bytes)
        snprintf(memory, sizeof memory, ", %llu bytes", (unsigned long long)o->recompute_bytes);
    snprintf(text, size, "step %s%s of %lld in %u%s%s, optimizer %d%s -> %u core groups", hex,
             o->strict ? " strict" : "", (long long)o->batch, o->accumulate, granules, memory,
             (int)o->optimizer.kind, o->clip_norm > 0 ? " clipped" : "", count);
}

static yoke_status
load_nothing(void *user, yoke_trainer *t, size_t member, yki_plan *plan, int64_t first, int64_t n)
{
    (void)user, (void)t, (void)member, (void)plan, (void)first, (void)n;
    return YOKE_OK;
}

/* Measures the seconds of a step, with steps enqueued as in training. Inputs keep their initial
 * data. */
static yoke_status
time_steps(yoke_trainer *t, int steps, double *seconds)
{
    double start = yki_now();

    t->recheck.paused = true; /* the inputs of two devices differ */
    for (int i = 0; i < steps; i++)
        YKI_TRY(yki_trainer_run(t, t->options.batch, load_nothing, NULL));
    t->recheck.paused = false;
    YKI_TRY(yoke_trainer_wait(t));
    *seconds = (yki_now() - start) / steps;
    return YOKE_OK;
}

/* Decides first by the planner's times, then by the clock. */
static yoke_status
is_short(yoke_trainer *t, bool *is)
{
    const yki_plan *plan = t->crew.members[0].replica->training;
    double seconds = 0;

    *is = false;
    for (size_t i = 0; i < plan->task_count; i++)
        seconds += plan->tasks[i].seconds;
    if (t->options.granule)
        seconds *= (double)t->crew.exact.most;
    else
        seconds *= t->options.accumulate;
    if (seconds > LONG_STEP)
        return YOKE_OK;
    YKI_TRY(time_steps(t, 1, &seconds)); /* warms up; one step is enough to see that it is long */
    if (seconds > 20 * LONG_STEP)
        return YOKE_OK;
    YKI_TRY(time_steps(t, WARM, &seconds));
    *is = seconds < LONG_STEP;
    return YOKE_OK;
}

/* The trainers alternate, so that other load on the machine disturbs both. */
static yoke_status
race(yoke_trainer *const rivals[2], double seconds[2])
{
    double once;

    seconds[0] = seconds[1] = INFINITY;
    for (int i = 0; i < 2; i++)
        YKI_TRY(time_steps(rivals[i], WARM, &once));
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < 2; i++) {
            YKI_TRY(time_steps(rivals[i], STEPS, &once));
            seconds[i] = YKI_MIN(seconds[i], once);
        }
    return YOKE_OK;
}

static bool
is_worth_it(const yki_core_groups_choice *c)
{
    return c->known && c->seconds[0] > WORTH * c->seconds[1];
}

/* Reads both times from wisdom; c->known says whether they are there. */
static yoke_status
recall(const yoke_team *team, const yoke_graph *graph, const yoke_trainer_options *o,
       yki_core_groups_choice *c)
{
    yoke_device *device = yoke_selection_get(team->selection, 0);
    yki_wisdom *wisdom;
    char problem[200];

    problem_text(graph, o, c->possible, problem, sizeof problem);
    YKI_TRY(yki_open_wisdom(device, o->wisdom, &wisdom));
    c->known = yki_wisdom_get(wisdom, device, problem, WHOLE, 0, &c->seconds[0]) &&
               yki_wisdom_get(wisdom, device, problem, GROUPS, 0, &c->seconds[1]);
    yki_wisdom_close(wisdom);
    return YOKE_OK;
}

static void
remember(const yoke_trainer *t, const yki_core_groups_choice *c)
{
    yoke_replica *r = t->crew.members[0].replica;
    yoke_device *device = r->weights->device;
    char problem[200];

    problem_text(t->graph, &t->options, c->possible, problem, sizeof problem);
    if (yki_wisdom_put(r->wisdom, device, problem, WHOLE, 0, c->seconds[0]) != YOKE_OK ||
        yki_wisdom_put(r->wisdom, device, problem, GROUPS, 0, c->seconds[1]) != YOKE_OK ||
        yki_wisdom_save(r->wisdom) != YOKE_OK)
        yki_log(YOKE_LOG_DEBUG, "the speed of core groups is not kept");
}

yoke_status
yki_core_groups_decide(const yoke_team *team, const yoke_graph *graph,
                       const yoke_trainer_options *o, yki_core_groups_choice *c)
{
    const char *why;

    memset(c, 0, sizeof *c);
    if ((unsigned)o->core_groups > YOKE_CORE_GROUPS_ALWAYS)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "core_groups", (int)o->core_groups, 0,
                              YOKE_CORE_GROUPS_ALWAYS);
    if (o->core_groups == YOKE_CORE_GROUPS_NEVER)
        return YOKE_OK;
    c->possible = possible(team, graph, o, &why);
    if (o->core_groups == YOKE_CORE_GROUPS_ALWAYS) {
        c->taken = c->possible;
        return c->possible > 1
                   ? YOKE_OK
                   : yki_fail(YOKE_ERROR_UNSUPPORTED,
                              "core groups are wanted always; must be measured or never "
                              "here: %s",
                              why);
    }
    if (c->possible < 2 || o->level == YOKE_PLAN_ESTIMATE || !yki_shares_are_auto(o->shares))
        return YOKE_OK;
    YKI_TRY(recall(team, graph, o, c));
    c->taken = is_worth_it(c) ? c->possible : 0;
    c->measures = !c->known && o->reproducible != YOKE_REPRODUCIBLE_RUNS;
    return YOKE_OK;
}

/* Times both trainers, keeps the faster one in *t and destroys the other. The caller initialises *t
 * again. */
static yoke_status
compete(yoke_trainer **t, yoke_trainer *rival, const yki_core_groups_choice *choice)
{
    yoke_trainer *rivals[2] = {*t, rival}, *loser;
    yki_core_groups_choice c = *choice;
    yoke_status status = race(rivals, c.seconds);

    if (status != YOKE_OK) {
        yoke_trainer_destroy(rival);
        return status;
    }
    c.known = true;
    remember(*t, &c);
    c.taken = is_worth_it(&c) ? c.possible : 0;
    loser = rivals[!c.taken];
    *t = rivals[c.taken > 0];
    (*t)->core_groups = c;
    yki_log(YOKE_LOG_INFO, "core groups: %.4g ms a step whole, %.4g ms as %u core groups",
            1e3 * c.seconds[0], 1e3 * c.seconds[1], c.possible);
    yoke_trainer_destroy(loser);
    return YOKE_OK;
}

yoke_status
yki_core_groups_measure(yoke_team *team, const yoke_trainer_options *o, yoke_trainer **t)
{
    yki_core_groups_choice c = (*t)->core_groups;
    yoke_trainer *rival;
    bool is = false;

    if (!c.measures)
        return YOKE_OK;
    YKI_TRY(is_short(*t, &is));
    c.taken = c.possible;
    if (!is)
        ;
    else if (yki_trainer_make(team, (*t)->graph, o, &c, NULL, &rival) == YOKE_OK)
        YKI_TRY(compete(t, rival, &c));
    else /* for example, too little memory for both */
        yki_log(YOKE_LOG_DEBUG, "core groups are not tried: %s", yoke_last_error());
    return (*t)->step > 0 ? yoke_trainer_initialize(*t, o->seed) : YOKE_OK;
}

/* ---- telling ---- */

void
yki_core_groups_explain(const yki_core_groups_choice *c, const yki_teller *to)
{
    char times[80] = "";

    if (c->known)
        snprintf(times, sizeof times, ": %.4g ms a step, whole %.4g ms", 1e3 * c->seconds[1],
                 1e3 * c->seconds[0]);
    if (c->taken)
        yki_tell(to, "core groups: the device runs as %u, each with its share of a batch%s",
                 c->taken, times);
    else if (c->known)
        yki_tell(to, "core groups: none; %u would not be worth it%s", c->possible, times);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate.c - measures how fast each device is, before the first step. Shares that follow the
 * speed start from it.
 *
 * Forward and backward run for two batch sizes on all devices at once, as in a step, on the inputs'
 * initial data. Nothing is updated. The times are kept in wisdom. A device whose driver has no
 * clock is timed alone, by the host.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

enum {
    SIZES = 2,
    RUNS = 3, /* the first run of a size compiles and warms up */
    MORE = 24 /* more runs, where they are short: on a busy machine at least one is not disturbed */
};

/* Seconds. A run that takes less is short. */
static const double SHORT = 2e-3;

/* Seconds. Below this the driver's clock does not work. */
static const double NO_CLOCK = 1e-7;

/* ---- wisdom ---- */

static const char SOLVER[] = YKI_WISDOM_OWN;

static void
problem_text(const yoke_trainer *t, int64_t n, char *text, size_t size)
{
    yki_hash hash;
    char hex[33];

    yki_hash_start(&hash);
    yki_graph_hash(t->graph, &hash);
    yki_hash_string(&hash, yki_precision_text(t->options.precision));
    yki_hash_hex(&hash, hex);
    snprintf(text, size, "step %s%s of %zu -> %lld samples", hex,
             t->options.strict ? " strict" : "", t->crew.team->total, (long long)n);
}

static double
remembered(const yoke_trainer *t, size_t member, int64_t n)
{
    yoke_replica *r = t->crew.members[member].replica;
    char text[160];
    double seconds;

    problem_text(t, n, text, sizeof text);
    return yki_wisdom_get(r->wisdom, r->weights->device, text, SOLVER, 0, &seconds) ? seconds : 0;
}

static void
remember(const yoke_trainer *t, size_t member, int64_t n, double seconds)
{
    yoke_replica *r = t->crew.members[member].replica;
    char text[160];

    problem_text(t, n, text, sizeof text);
    if (!(seconds > 0) ||
        yki_wisdom_put(r->wisdom, r->weights->device, text, SOLVER, 0, seconds) != YOKE_OK ||
        yki_wisdom_save(r->wisdom) != YOKE_OK)
        yki_log(YOKE_LOG_DEBUG, "the speed of %s is not kept", yki_device_id(r->weights->device));
}

/* ---- measuring ---- */

/* Times forward and backward of one member alone, by the host's clock. */
static yoke_status
time_alone(yki_member *m, double *seconds)
{
    yki_plan *plan = m->replica->training;
    double start;

    *seconds = INFINITY;
    for (int run = 0; run < RUNS; run++) {
        start = yki_now();
        YKI_TRY(yki_plan_begin(plan, (yki_extents){.batch = m->n}));
        YKI_TRY(yki_plan_enqueue_tasks(plan, YKI_FORWARD, 0, plan->task_count));
        YKI_TRY(yki_plan_enqueue_tasks(plan, YKI_BACKWARD, 0, plan->task_count));
        YKI_TRY(yki_queue_finish(m->replica->queue));
        *seconds = YKI_MIN(*seconds, yki_now() - start);
    }
    return YOKE_OK;
}

/* Gives every process the times of all devices. Each process has those of its own devices, and
 * zeros for the others. */
static yoke_status
tell_all(yoke_trainer *t, double *seconds)
{
    const yoke_team *team = t->crew.team;
    yoke_comm *comm = t->crew.comm;
    double *all;
    yoke_status status;

    if (!comm)
        return YOKE_OK;
    all = yki_alloc(team->total * (size_t)comm->ranks, sizeof *all, "times");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < team->total; k++)
        if (k < team->first || k >= team->first + team->count)
            seconds[k] = 0;
    status = comm->allgather(comm, seconds, team->total * sizeof *seconds, all);
    for (size_t k = 0; k < team->total && status == YOKE_OK; k++) {
        seconds[k] = 0;
        for (int32_t r = 0; r < comm->ranks; r++)
            seconds[k] += all[(size_t)r * team->total + k];
    }
    yki_free(all);
    return status;
}

/* Runs passes on all devices; t->seconds keeps the least time of each device of this process. */
static yoke_status
run_together(yoke_trainer *t, int runs)
{
    const yoke_team *team = t->crew.team;
    uint32_t last = t->options.accumulate - 1;

    for (int run = 0; run < runs; run++) {
        t->crew.flight = 0;
        yki_crew_drop_times(&t->crew, 0);
        /* The last micro-batch of a step: running statistics are not updated. */
        YKI_TRY(yki_crew_micro_batch(&t->crew, last, last + 1, 0));
        YKI_TRY(yki_crew_settle(&t->crew));
        for (size_t k = 0; k < team->count; k++)
            t->seconds[team->first + k] =
                YKI_MIN(t->seconds[team->first + k], yki_member_seconds(&t->crew.members[k], 0));
    }
    return YOKE_OK;
}

/* The least time of a few passes, in t->seconds by device of the whole team. All processes make the
 * same number of passes. */
static yoke_status
time_together(yoke_trainer *t)
{
    const yoke_team *team = t->crew.team;
    double slowest = 0;

    for (size_t k = 0; k < team->count; k++)
        t->seconds[team->first + k] = INFINITY;
    YKI_TRY(run_together(t, RUNS));
    YKI_TRY(tell_all(t, t->seconds));
    for (size_t k = 0; k < team->total; k++)
        slowest = fmax(slowest, t->seconds[k]);
    if (slowest >= NO_CLOCK && slowest < SHORT)
        YKI_TRY(run_together(t, MORE));
    for (size_t k = 0; k < team->count; k++)
        if (t->seconds[team->first + k] < NO_CLOCK && t->crew.members[k].n > 0)
            YKI_TRY(time_alone(&t->crew.members[k], &t->seconds[team->first + k]));
    return YOKE_OK;
}

/* Takes the times of one size from wisdom if every process has them, else measures them. */
static yoke_status
calibrate_size(yoke_trainer *t, int64_t total)
{
    const yoke_team *team = t->crew.team;
    bool known = true;

    YKI_TRY(yki_shares_split("even", team->total, total, t->counts));
    /* All processes take in the same, so that their shares stay alike: what another's device runs
     * is known from its limit. */
    for (size_t k = 0; k < team->total; k++) {
        yki_share_info info;

        yki_shares_get(t->shares, k, &info);
        t->counts[k] = t->options.granule ? t->options.granule : YKI_MIN(t->counts[k], info.limit);
    }
    memset(t->seconds, 0, team->total * sizeof *t->seconds);
    for (size_t k = 0; k < team->count; k++) {
        size_t at = team->first + k;

        t->crew.members[k].n = YKI_MIN(t->counts[at], t->crew.members[k].replica->options.batch);
        t->crew.members[k].first = 0;
        t->counts[at] = t->crew.members[k].n;
        t->seconds[at] = remembered(t, k, t->counts[at]);
    }
    YKI_TRY(tell_all(t, t->seconds));
    for (size_t k = 0; k < team->total; k++)
        known &= t->seconds[k] > 0 || t->counts[k] == 0;
    if (!known) {
        YKI_TRY(time_together(t));
        for (size_t k = 0; k < team->count; k++)
            remember(t, k, t->counts[team->first + k], t->seconds[team->first + k]);
        YKI_TRY(tell_all(t, t->seconds));
    }
    for (size_t k = 0; k < team->total; k++)
        yki_shares_calibrate(t->shares, k, t->counts[k], t->seconds[k]);
    return YOKE_OK;
}

yoke_status
yki_trainer_calibrate(yoke_trainer *t)
{
    int64_t micro_batch = yki_largest_micro_batch(&t->options);
    int64_t devices = (int64_t)t->crew.team->total;

    if (!t->crew.timing)
        return YOKE_OK;
    /* A device with granules takes as long for each of them: one size is enough. */
    for (int64_t s = 0; s < (t->options.granule ? 1 : SIZES); s++) {
        int64_t total = s == 0 ? micro_batch : micro_batch / 4;

        if (total >= devices)
            YKI_TRY(calibrate_size(t, total));
    }
    yki_crew_drop_times(&t->crew, 0);
    return YOKE_OK;
}

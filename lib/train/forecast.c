/* SPDX-License-Identifier: Apache-2.0
 *
 * forecast.c - what a full step will take of each device of the team, before the first one.
 *
 * The memory is there already, but for what inputs pass through. The time of a device is that of
 * the tasks of its plan, as the planner has measured them or knows them; where shares follow the
 * speed of devices, it is what was measured for them. Added are the update, which is tried on other
 * weights (replica/update_time.c); the sums of gradients between processes, as far as they were
 * measured; and the gathers of weights that are divided. Backward may hide a part of the sums, and
 * tasks a part of the gathers.
 *
 * Not counted: what copies gradients and updated weights between groups of one process, plans for
 * evaluation, and samples that stay on a device.
 */
#include <string.h>

#include "team/pipeline.h"
#include "team/sharding.h"
#include "train/capacity.h"

/* What each process tells of its devices. */
typedef struct row {
    uint64_t memory, quota, budget;
    double seconds, update;
    double gathers; /* of a micro-batch; alike for all devices of a process */
    uint64_t tasks; /* with stages */
} row;

/* The most samples that one of these members gets. */
static int64_t
part_of(int64_t samples, size_t members)
{
    return (samples + (int64_t)members - 1) / (int64_t)members;
}

/* Seconds in which a member computes n samples of a micro-batch, at most as many as its plan is
 * made for; 0: unknown. */
static double
tasks_of(const yoke_trainer *t, const yki_plan *plan, int64_t n)
{
    const int64_t granule = t->options.granule;
    double seconds = 0;

    for (size_t i = 0; i < plan->task_count; i++) {
        if (plan->tasks[i].solver && !(plan->tasks[i].seconds > 0))
            return 0;
        seconds += plan->tasks[i].seconds;
    }
    return granule ? seconds * (double)((n + granule - 1) / granule)
                   : seconds * (double)n / (double)plan->options.max.batch;
}

static double
seconds_of(const yoke_trainer *t, size_t device, const yki_share_info *share)
{
    double slowest = 0;
    size_t first, end;

    if (t->crew.stages)
        return tasks_of(t, t->crew.members[device].replica->training,
                        yki_largest_micro_batch(&t->options));
    if (share->predicted > 0 && !t->options.granule)
        return share->predicted;
    yki_trainer_members_of(t, device, &first, &end);
    for (size_t k = first; k < end; k++) {
        const double one =
            tasks_of(t, t->crew.members[k].replica->training, part_of(share->count, end - first));

        if (!(one > 0))
            return 0;
        slowest = YKI_MAX(slowest, one);
    }
    return slowest;
}

/* Seconds of the update of the slowest member of a device; 0: unknown, or it has none. */
static yoke_status
time_update(const yoke_trainer *t, size_t device, double *slowest)
{
    size_t first, end;

    *slowest = 0;
    yki_trainer_members_of(t, device, &first, &end);
    for (size_t k = first; k < end; k++) {
        double one;

        YKI_TRY(yki_replica_time_update(t->crew.members[k].replica, &one));
        *slowest = YKI_MAX(*slowest, one);
    }
    return YOKE_OK;
}

static yoke_status
fill(const yoke_trainer *t, size_t k, row *to)
{
    yoke_device *device = yoke_team_get_device(t->team, k);
    yoke_memory_usage usage;
    yki_share_info share;
    size_t first, end;

    yki_shares_get(t->shares, t->team->first + k, &share);
    YKI_TRY(yoke_device_get_memory(device, &usage));
    yki_trainer_members_of(t, k, &first, &end);
    *to = (row){.memory = usage.used, .quota = usage.quota};
    for (size_t i = first; i < end; i++)
        to->memory +=
            yki_replica_way_bytes(t->crew.members[i].replica, part_of(share.count, end - first));
    if (to->quota) /* inputs go without such a way then */
        to->memory = YKI_MIN(to->memory, YKI_MAX(to->quota, usage.used));
    to->seconds = seconds_of(t, k, &share) * t->options.accumulate;
    YKI_TRY(time_update(t, k, &to->update));
    to->gathers = t->gather_seconds;
    to->budget = t->crew.budgets ? t->crew.budgets[k] : 0;
    to->tasks = t->crew.stages ? t->crew.members[k].replica->training->task_count : 0;
    return YOKE_OK;
}

/* How often a step gathers all weights for forward and backward. Devices take their granules side
 * by side, and as many turns as the one that has most. */
static double
turns_of(const yoke_trainer *t)
{
    const int64_t granule = t->crew.exact.together ? 0 : t->options.granule;
    int64_t most = 1;

    for (size_t k = 0; k < t->team->total && granule; k++) {
        yki_share_info share;

        yki_shares_get(t->shares, k, &share);
        most = YKI_MAX(most, (share.count + granule - 1) / granule);
    }
    return (double)most * t->options.accumulate;
}

static double
gathers_of(const yoke_trainer *t, const row *rows)
{
    double slowest = 0;

    for (size_t k = 0; k < t->team->total; k++)
        slowest = YKI_MAX(slowest, rows[k].gathers);
    return slowest * turns_of(t);
}

/* What processes send of gradients. Where weights are divided, nothing follows the update, which is
 * the other half of a sum. */
static double
sums_of(const yoke_trainer *t)
{
    return t->crew.sharding.weights ? t->crew.buckets.seconds / 2 : t->crew.buckets.seconds;
}

/* Seconds of a step of all devices. Stages follow one another, as far as a pipeline does not let
 * them work at the same time, as others do. All update at the same time. */
static double
step_of(const yoke_trainer *t, const row *rows)
{
    double sum = 0, slowest = 0, update = 0;

    for (size_t k = 0; k < t->team->total; k++) {
        yki_share_info share;

        yki_shares_get(t->shares, k, &share);
        if (!(rows[k].seconds > 0) && (t->crew.stages ? rows[k].tasks > 0 : share.count > 0))
            return 0;
        sum += rows[k].seconds;
        slowest = YKI_MAX(slowest, rows[k].seconds);
        update = YKI_MAX(update, rows[k].update);
    }
    if (yki_pipeline_exists(&t->crew))
        return yki_pipeline_seconds(&t->crew) + update;
    return update + (t->crew.stages ? sum : slowest + sums_of(t) + gathers_of(t, rows));
}

/* Runs the gathers of a micro-batch, while nothing else runs. */
static yoke_status
run_gathers(yki_crew *crew)
{
    const yki_plan *plan = crew->members[0].replica->training;

    for (size_t s = 0; s < crew->buckets.stop_count; s++)
        if (plan->stops[s].gathers)
            YKI_TRY(yki_sharding_bring(crew, plan->stops[s].gathers - 1, s, yki_training_of));
    return yki_crew_finish(crew);
}

/* Measures the gathers once, and before the first step, as they write to the memory of plans. */
static yoke_status
time_gathers(yoke_trainer *t)
{
    if (!t->crew.sharding.weights || t->gather_seconds > 0 || t->step > 0 ||
        t->options.level == YOKE_PLAN_ESTIMATE)
        return YOKE_OK;
    for (int run = 0; run < 2; run++) { /* the first one warms up */
        const double begin = yki_now();

        YKI_TRY(run_gathers(&t->crew));
        t->gather_seconds = yki_now() - begin;
    }
    return YOKE_OK;
}

static yoke_status
gather(const yoke_trainer *t, row *rows)
{
    for (size_t k = 0; k < t->team->count; k++)
        YKI_TRY(fill(t, k, &rows[t->team->first + k]));
    return yki_team_share_rows(t->team, NULL, sizeof *rows, rows);
}

static uint32_t
stages_of(const yoke_trainer *t, const row *rows)
{
    uint32_t stages = 0;

    for (size_t k = 0; k < t->team->total && t->options.stages; k++)
        stages += rows[k].tasks > 0;
    return stages;
}

yoke_status
yoke_trainer_forecast_sized(yoke_trainer *t, yoke_forecast *list, size_t count, size_t size)
{
    row *rows;
    yoke_status status;

    YKI_GIVEN("yoke_trainer_forecast", {"trainer", t}, {"list", list});
    YKI_TRY(yki_trainer_trains(t, "yoke_trainer_forecast"));
    if (count != t->team->total)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_trainer_forecast: count is %zu; must be %zu, the devices of the team",
                        count, t->team->total);
    rows = yki_alloc(count, sizeof *rows, "a forecast");
    status = rows ? time_gathers(t) : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        status = gather(t, rows);
    for (size_t k = 0; k < count && status == YOKE_OK; k++) {
        yki_share_info share;
        yoke_forecast one = {.memory = rows[k].memory,
                             .quota = rows[k].quota,
                             .seconds = rows[k].seconds,
                             .step_seconds = step_of(t, rows),
                             .shard = t->crew.sharding.level,
                             .recompute_bytes = rows[k].budget,
                             .stages = stages_of(t, rows),
                             .update_seconds = rows[k].update,
                             .gather_seconds = gathers_of(t, rows)};

        if (t->shortages) {
            one.needed = t->shortages[k].needed;
            one.available = t->shortages[k].left;
        }
        yki_shares_get(t->shares, k, &share);
        one.samples = t->crew.stages ? (rows[k].tasks > 0) * yki_largest_micro_batch(&t->options)
                                     : share.count;
        memset((char *)list + k * size, 0, size);
        memcpy((char *)list + k * size, &one, YKI_MIN(size, sizeof one));
    }
    yki_free(rows);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * forecast.c - what a full step will take of each device of the team, before the first one.
 *
 * The memory is there already, but for what inputs pass through. The time of a device is that of
 * the tasks of its plan, as the planner has measured them or knows them; where shares follow the
 * speed of devices, it is what was measured for them. Between processes the time of the sums of
 * gradients is added, as far as it was measured, although backward may hide a part of it.
 *
 * Not counted: the update, plans for evaluation, and samples that stay on a device.
 */
#include <string.h>

#include "team/pipeline.h"
#include "train/capacity.h"

/* What each process tells of its devices. */
typedef struct row {
    uint64_t memory, quota, budget;
    double seconds;
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
    to->budget = t->crew.budgets ? t->crew.budgets[k] : 0;
    to->tasks = t->crew.stages ? t->crew.members[k].replica->training->task_count : 0;
    return YOKE_OK;
}

/* Seconds of a step of all devices. Stages follow one another, as far as a pipeline does not let
 * them work at the same time, as others do. */
static double
step_of(const yoke_trainer *t, const row *rows)
{
    double sum = 0, slowest = 0;

    for (size_t k = 0; k < t->team->total; k++) {
        yki_share_info share;

        yki_shares_get(t->shares, k, &share);
        if (!(rows[k].seconds > 0) && (t->crew.stages ? rows[k].tasks > 0 : share.count > 0))
            return 0;
        sum += rows[k].seconds;
        slowest = YKI_MAX(slowest, rows[k].seconds);
    }
    if (yki_pipeline_exists(&t->crew))
        return yki_pipeline_seconds(&t->crew);
    return t->crew.stages ? sum : slowest + t->crew.buckets.seconds;
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
    status = rows ? gather(t, rows) : YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < count && status == YOKE_OK; k++) {
        yki_share_info share;
        yoke_forecast one = {.memory = rows[k].memory,
                             .quota = rows[k].quota,
                             .seconds = rows[k].seconds,
                             .step_seconds = step_of(t, rows),
                             .shard = t->crew.sharding.level,
                             .recompute_bytes = rows[k].budget,
                             .stages = stages_of(t, rows)};

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

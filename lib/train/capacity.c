/* SPDX-License-Identifier: Apache-2.0
 *
 * capacity.c - the memory that a trainer's devices use, and the largest batch that fits.
 *
 * A device's plans grow with the batch. lib/plan/capacity.c finds the largest batch for which the
 * quota or the device's memory has room. Plans for evaluation count once they are made.
 *
 * Not here: buffers of datasets, which grow too, but are small beside plans; and graphs with
 * places, where each device has a stage of the graph.
 */
#include <stdio.h>

#include "train/capacity.h"

void
yki_trainer_members_of(const yoke_trainer *t, size_t device, size_t *first, size_t *end)
{
    *first = t->core_groups.taken ? 0 : device;
    *end = t->core_groups.taken ? t->crew.count : device + 1;
}

/* Samples at once that the device's plans are made for now. */
static int64_t
made_for(const yoke_trainer *t, size_t device)
{
    int64_t samples = 0;
    size_t first, end;

    yki_trainer_members_of(t, device, &first, &end);
    for (size_t k = first; k < end; k++)
        samples += t->crew.members[k].replica->options.batch;
    return samples;
}

/* Bytes of the device's plans: as they are (samples 0), or if made for this many samples. */
static yoke_status
plan_bytes(const yoke_trainer *t, size_t device, int64_t samples, uint64_t *bytes)
{
    size_t first, end;
    int64_t count;

    *bytes = 0;
    yki_trainer_members_of(t, device, &first, &end);
    count = (int64_t)(end - first);
    for (size_t k = first; k < end; k++) {
        const yoke_replica *r = t->crew.members[k].replica;
        const yki_plan *plans[2] = {r->training, r->evaluation};

        for (int i = 0; i < 2; i++) {
            uint64_t one;

            if (!plans[i])
                continue;
            if (samples == 0)
                one = yki_plan_memory(plans[i]);
            else /* the first of several core groups has the most */
                YKI_TRY(yki_plan_bytes_at(plans[i], (samples + count - 1) / count, &one));
            *bytes = one < UINT64_MAX - *bytes ? *bytes + one : UINT64_MAX;
        }
    }
    return YOKE_OK;
}

/* ---- the largest ---- */

typedef struct question {
    const yoke_trainer *trainer;
    size_t device;
} question;

static yoke_status
bytes_of_device(const void *user, int64_t samples, uint64_t *bytes)
{
    const question *q = user;

    return plan_bytes(q->trainer, q->device, samples, bytes);
}

/* Finds the most samples at once that plans of device number `device` of this process could be made
 * for. Not for a graph with places. */
static yoke_status
capacity_of(const yoke_trainer *t, size_t device, int64_t *samples)
{
    const question q = {t, device};
    uint64_t now;

    YKI_TRY(plan_bytes(t, device, 0, &now));
    now += yki_quota_left(yoke_team_get_device(t->team, device));
    return yki_find_capacity(bytes_of_device, &q, t->options.recompute_bytes > 0 || t->crew.budgets,
                             now, made_for(t, device), samples);
}

/* ---- of a team ---- */

/* Where shares do not change, a device is made for one sample more than its share, because rounding
 * may give it that. */
static int64_t
share_of(const yoke_trainer *t, int64_t samples)
{
    yki_shares_state state;

    yki_shares_get_state(t->shares, &state);
    if (state.devices == 1 || (state.kind == YKI_SHARES_AUTO && !t->options.reproducible))
        return samples;
    return samples - 1;
}

/* With granules every device holds one of them at once: as many as now, of the largest size. */
static int64_t
batch_of_granules(const yoke_trainer *t, const int64_t *held)
{
    int64_t granule = INT32_MAX / (int64_t)t->crew.exact.most;

    for (size_t k = 0; k < t->team->count; k++)
        granule = YKI_MIN(granule, held[k]);
    return granule * (int64_t)t->crew.exact.most;
}

/* The largest batch, from the samples that each device of the team can hold. */
static int64_t
batch_of(const yoke_trainer *t, int64_t *held)
{
    if (t->options.granule)
        return batch_of_granules(t, held);
    for (size_t k = 0; k < t->team->count; k++)
        held[k] = share_of(t, held[k]);
    return YKI_MIN(yki_shares_largest_batch(t->shares, held), (int64_t)INT32_MAX) *
           t->options.accumulate;
}

yoke_status
yki_trainer_largest_batch(const yoke_trainer *t, int64_t *batch)
{
    int64_t *held = yki_alloc(t->team->total, sizeof *held, "what devices hold");
    yoke_status status = held ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t k = 0; k < t->team->count && status == YOKE_OK; k++)
        status = capacity_of(t, k, &held[k]);
    if (status == YOKE_OK)
        *batch = batch_of(t, held);
    yki_free(held);
    return status;
}

/* ---- telling ---- */

/* Tells what it costs the plans of the device to keep to a budget. */
static void
explain_recomputation(const yoke_trainer *t, size_t device, const yki_teller *to)
{
    size_t first, end;
    char text[256];

    yki_trainer_members_of(t, device, &first, &end);
    for (size_t k = first; k < end; k++) {
        const yki_plan *plan = t->crew.members[k].replica->training;

        if (plan && plan->options.most)
            yki_tell(to, "recomputed on %s: %s",
                     yki_device_id(t->crew.members[k].replica->weights->device),
                     yki_plan_recomputed_text(plan, text, sizeof text));
    }
}

/* Writes the most samples at once to `held` as well. */
static yoke_status
explain_device(const yoke_trainer *t, size_t k, const yki_teller *to, int64_t *held)
{
    yoke_device *device = yoke_team_get_device(t->team, k);
    yoke_memory_usage usage;
    char limit[64] = "no quota", most[80] = "";

    YKI_TRY(yoke_device_get_memory(device, &usage));
    if (usage.quota)
        snprintf(limit, sizeof limit, "of a quota of %.1f MB", (double)usage.quota / 1e6);
    if (!t->crew.stages) {
        YKI_TRY(capacity_of(t, k, held));
        snprintf(most, sizeof most, "; the most that fit are %lld", (long long)*held);
    }
    yki_tell(to,
             "memory of %s: %.1f MB used, %.1f MB at most, %s, for up to %lld samples at once%s",
             yki_device_id(device), (double)usage.used / 1e6, (double)usage.peak / 1e6, limit,
             (long long)made_for(t, k), most);
    explain_recomputation(t, k, to);
    return YOKE_OK;
}

yoke_status
yki_trainer_explain_memory(const yoke_trainer *t, const yki_teller *to)
{
    int64_t *held = yki_alloc(t->team->total, sizeof *held, "what devices hold");
    yoke_status status = held ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t k = 0; k < t->team->count && status == YOKE_OK; k++)
        status = explain_device(t, k, to, &held[k]);
    /* A process knows only the memory of its own devices. */
    if (status == YOKE_OK && !t->crew.stages && t->team->total == t->team->count)
        yki_tell(to, "the largest batch that fits: %lld samples%s", (long long)batch_of(t, held),
                 t->options.granule          ? ", in as many granules as now"
                 : t->options.accumulate > 1 ? ", in as many micro-batches as now"
                                             : "");
    yki_free(held);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cut.c - cuts a chain into stages by dynamic programming, from its end to its beginning.
 *
 * A stage has as many micro-batches under way as there are stages from it on, so what comes behind
 * it must be known first. A tail is a way to divide all units from some unit on. What counts of it
 * is the slowest stage and the sum of all: a tail that is worse in both is dropped, and what is
 * left of a unit, a number of stages and the devices that may have them is a short list. So the
 * result is the best of all cuts, for devices in their order, some of which may be left out.
 */
#include "team/cut.h"

typedef struct tail {
    double longest, sum; /* seconds of its slowest stage, and of all */
    uint32_t device;     /* of its first stage, */
    uint32_t end;        /* which ends before this unit */
    uint32_t rest;       /* the tail behind it, in the list of that unit */
} tail;

typedef struct tails {
    tail *list;
    size_t count, capacity;
} tails;

typedef struct search {
    const yki_cut_problem *p;
    size_t most;   /* stages */
    double *until; /* by device and unit: seconds of all units before */
    tails *all;    /* by stages, first device that may have one, and unit */
} search;

static tails *
tails_at(const search *s, size_t stages, size_t device, size_t unit)
{
    return &s->all[((stages - 1) * (s->p->device_count + 1) + device) * (s->p->unit_count + 1) +
                   unit];
}

/* Adds a tail, unless there is one that is as good; drops those that are not better than it. */
static yoke_status
add(tails *to, const tail *one)
{
    size_t kept = 0;

    for (size_t i = 0; i < to->count; i++)
        if (to->list[i].longest <= one->longest && to->list[i].sum <= one->sum)
            return YOKE_OK;
    for (size_t i = 0; i < to->count; i++)
        if (to->list[i].longest < one->longest || to->list[i].sum < one->sum)
            to->list[kept++] = to->list[i];
    to->count = kept;
    YKI_TRY(yki_grow((void **)&to->list, &to->capacity, to->count + 1, sizeof *to->list,
                     "cuts of a graph"));
    to->list[to->count++] = *one;
    return YOKE_OK;
}

static uint64_t
bytes_across(const yki_cut_problem *p, size_t unit)
{
    return unit > 0 && unit < p->unit_count ? p->units[unit].crosses : 0;
}

/* Micro-batches that a stage has under way. */
static uint64_t
depth_of(const yki_cut_problem *p, size_t behind)
{
    return YKI_MIN(behind + 1, (size_t)p->micro_batches);
}

/* What a stage needs, apart from what it keeps of micro-batches, and computes with. */
static uint64_t
apart_of(const yki_cut_problem *p, size_t first, size_t end, size_t most)
{
    const uint64_t width = YKI_MIN(most, (size_t)p->micro_batches);
    const uint64_t across = bytes_across(p, first) + bytes_across(p, end);
    uint64_t fixed = 0, evaluation = 0;

    for (size_t i = first; i < end; i++) {
        fixed += p->units[i].fixed + (p->evaluates ? p->units[i].prepared : 0);
        evaluation = YKI_MAX(evaluation, p->units[i].evaluation);
    }
    return fixed + width * across + (p->evaluates ? evaluation + across / 2 : 0);
}

uint64_t
yki_cut_bytes(const yki_cut_problem *p, size_t first, size_t end, size_t behind, size_t most)
{
    uint64_t bytes = apart_of(p, first, end, most), working = 0;

    for (size_t i = first; i < end; i++) {
        bytes += depth_of(p, behind) * p->units[i].kept;
        working = YKI_MAX(working, p->units[i].working);
    }
    return bytes + working;
}

uint64_t
yki_cut_budget(const yki_cut_problem *p, size_t device, size_t first, size_t end, size_t behind,
               size_t most)
{
    const uint64_t apart = apart_of(p, first, end, most), memory = p->devices[device].memory;

    return apart < memory ? (memory - apart) / depth_of(p, behind) : 0;
}

/* Adds all tails of so many stages whose first is units [first, ...) on a device. */
static yoke_status
add_stages(const search *s, size_t stages, size_t device, size_t first)
{
    const yki_cut_problem *p = s->p;
    const double *until = s->until + device * (p->unit_count + 1);
    tails *to = tails_at(s, stages, device, first);

    for (size_t end = first + 1; end <= p->unit_count; end++) {
        const tails *behind = stages > 1 ? tails_at(s, stages - 1, device + 1, end) : NULL;
        const double seconds =
            until[end] - until[first] +
            (double)(bytes_across(p, first) + bytes_across(p, end)) * p->seconds_per_byte;

        if (stages > 1 ? end == p->unit_count || !p->units[end].cuts || behind->count == 0
                       : end < p->unit_count)
            continue;
        if (yki_cut_bytes(p, first, end, stages - 1, s->most) > p->devices[device].memory)
            continue;
        if (stages == 1)
            YKI_TRY(add(to, &(tail){seconds, seconds, (uint32_t)device, (uint32_t)end, 0}));
        for (size_t i = 0; behind && i < behind->count; i++)
            YKI_TRY(add(to, &(tail){YKI_MAX(seconds, behind->list[i].longest),
                                    seconds + behind->list[i].sum, (uint32_t)device, (uint32_t)end,
                                    (uint32_t)i}));
    }
    return YOKE_OK;
}

/* Fills in all tails. Those that leave the first device out are among those that may use it. */
static yoke_status
find_tails(const search *s)
{
    const yki_cut_problem *p = s->p;

    for (size_t stages = 1; stages <= s->most; stages++)
        for (size_t device = p->device_count; device-- > 0;)
            for (size_t unit = 0; unit < p->unit_count; unit++) {
                const tails *others = tails_at(s, stages, device + 1, unit);
                tails *to = tails_at(s, stages, device, unit);

                if (unit > 0 && !p->units[unit].cuts)
                    continue;
                YKI_TRY(add_stages(s, stages, device, unit));
                for (size_t i = 0; i < others->count; i++)
                    YKI_TRY(add(to, &others->list[i]));
            }
    return YOKE_OK;
}

static void
take_best(const search *s, uint32_t *device_of, size_t *stages, double *seconds)
{
    const tail *best = NULL;

    *stages = 0;
    for (size_t n = s->p->stages ? s->p->stages : 1; n <= s->most; n++) {
        const tails *from = tails_at(s, n, 0, 0);

        for (size_t i = 0; i < from->count; i++) {
            const double step =
                (s->p->micro_batches - 1) * from->list[i].longest + from->list[i].sum;

            if (best && step >= *seconds)
                continue;
            best = &from->list[i];
            *seconds = step;
            *stages = n;
        }
    }
    for (size_t n = *stages, unit = 0; n > 0; n--) {
        const size_t end = best->end;

        while (unit < end)
            device_of[unit++] = best->device;
        if (n > 1)
            best = &tails_at(s, n - 1, best->device + 1, end)->list[best->rest];
    }
}

yoke_status
yki_cut(const yki_cut_problem *p, uint32_t *device_of, size_t *stages, double *seconds)
{
    const size_t units = p->unit_count, devices = p->device_count;
    search s = {.p = p, .most = YKI_MIN(p->stages ? p->stages : devices, devices)};
    const size_t lists = s.most * (devices + 1) * (units + 1);
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    *stages = 0;
    s.until = yki_alloc(devices * (units + 1), sizeof *s.until, "cuts of a graph");
    s.all = yki_alloc(lists, sizeof *s.all, "cuts of a graph");
    for (size_t k = 0; s.until && k < devices; k++)
        for (size_t i = 0; i < units; i++)
            s.until[k * (units + 1) + i + 1] =
                s.until[k * (units + 1) + i] + p->devices[k].seconds[i];
    if (s.until && s.all)
        status = find_tails(&s);
    if (status == YOKE_OK && (!p->stages || p->stages <= devices))
        take_best(&s, device_of, stages, seconds);
    for (size_t i = 0; s.all && i < lists; i++)
        yki_free(s.all[i].list);
    yki_free(s.all);
    yki_free(s.until);
    return status;
}

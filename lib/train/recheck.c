/* SPDX-License-Identifier: Apache-2.0
 *
 * recheck.c - finds devices that compute wrongly, in steps whose bits do not depend on the split.
 *
 * Every so many steps one device of each process is checked: another one computes its granules
 * again, and the sums are compared bit for bit, before any weight has changed. Devices take turns,
 * both as the one that is checked and as the one that checks it. The only device of a process
 * computes its granules twice.
 *
 * If the sums differ, one of two devices was wrong. Both compute once more; what two devices agree
 * on is right. So a device that was wrong once shows itself: now it agrees. If each of two devices
 * gives the same again, a third one decides; in a process of two nobody can.
 *
 * All processes hear of it with the losses of the step (granules.c), and make the step again
 * without the device that was wrong: this step, if it was wrong once; for good, if it was wrong
 * again, or for the third time. The bits are the same on any split, so they are those of a training
 * in which no device was wrong.
 */
#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

enum {
    FORGIVEN = 2, /* times that a device may be wrong once */
    IN = 0,
    OUT_OF_STEP = 1,
    OUT = 2
};

/* ---- who ---- */

static size_t
first_of(const yoke_trainer *t)
{
    return t->crew.team->first;
}

/* The members that take part, in their order, from number `index` of them on. */
static size_t
take_part(const yoke_trainer *t, size_t index, size_t *members)
{
    size_t count = 0, most = 0;

    for (size_t k = 0; k < t->crew.count; k++)
        most += t->recheck.out[first_of(t) + k] == IN;
    for (size_t k = 0; k < t->crew.count; k++)
        if (t->recheck.out[first_of(t) + k] == IN)
            members[(count++ + most - index % most) % most] = k;
    return count;
}

/* The member that is checked, the one that checks it, and one that may decide between them; the
 * same ones again where there are no others. */
static bool
choose(const yoke_trainer *t, size_t *chosen)
{
    const size_t turn = (size_t)((t->step + 1) / t->options.recheck);
    size_t *members = t->recheck.members, count = take_part(t, turn, members), shift;

    if (count == 0)
        return false;
    shift = count > 1 ? turn / count % (count - 1) : 0;
    chosen[0] = members[0];
    chosen[1] = members[count > 1 ? 1 + shift : 0];
    chosen[2] = members[count > 2 ? 1 + (shift + 1) % (count - 1) : 0];
    return true;
}

static const char *
name_of(const yoke_trainer *t, size_t member)
{
    return yki_device_id(t->crew.members[member].replica->weights->device);
}

/* ---- computing again ---- */

/* Adds all granules of member `of` to the spare sums of member `who`. */
static yoke_status
add_again(yoke_trainer *t, const yki_step *step, size_t who, size_t of)
{
    yki_crew *crew = &t->crew;
    yki_member *m = &crew->members[who];

    crew->at = who;
    m->adder.count = 0;
    for (int64_t p = 0; p < t->options.accumulate; p++) {
        int64_t first = step->begin(t, step, p);
        int64_t left = t->counts[first_of(t) + of], i = 0;

        for (size_t k = 0; k < of; k++)
            first += t->counts[first_of(t) + k];
        for (; left > 0; left -= t->options.granule, first += t->options.granule) {
            m->first = first;
            m->n = YKI_MIN(t->options.granule, left);
            YKI_TRY(step->again(t, step, who, p, i++));
        }
        m->n = 0;
        /* The update takes statistics of the last micro-batch from the plan. */
        if (i == 0 && crew->exact.together && p + 1 == t->options.accumulate)
            YKI_TRY(step->again(t, step, who, p, 0));
    }
    return YOKE_OK;
}

static yoke_status
compute(yoke_trainer *t, const yki_step *step, size_t who, size_t of)
{
    yki_member *m = &t->crew.members[who];
    const bool timing = t->crew.timing;
    yoke_status status;

    t->crew.timing = false; /* shares follow the time of a device's own samples */
    yki_passes_clear_kept(&t->crew, true);
    yki_recheck_swap(m);
    status = add_again(t, step, who, of);
    yki_recheck_swap(m);
    t->crew.timing = timing;
    return status;
}

/* A hash of what a member makes of the granules. */
static yoke_status
hash(yoke_trainer *t, const yki_step *step, size_t who, size_t of, char hex[33])
{
    YKI_TRY(compute(t, step, who, of));
    return yki_recheck_hash(&t->crew, &t->crew.members[who], true, hex);
}

/* ---- who was wrong ---- */

static bool
same(const char a[33], const char b[33])
{
    return strcmp(a, b) == 0;
}

/* The results of the member that is checked, of the one that checks it, and of a third. */
typedef struct results {
    char first[2][33], again[2][33], third[33];
    bool has_third;
} results;

static void
blame(yoke_trainer *t, size_t member, yki_verdict verdict)
{
    t->crew.exact.verdicts[first_of(t) + member] = (uint8_t)verdict;
}

/* Neither agreed with the other when both computed again. */
static void
blame_steady(yoke_trainer *t, const results *r, const size_t *chosen)
{
    const bool steady[2] = {same(r->first[0], r->again[0]), same(r->first[1], r->again[1])};

    for (size_t i = 0; i < 2; i++) {
        const bool right = r->has_third
                               ? same(r->third, r->first[1 - i]) || same(r->third, r->again[1 - i])
                               : steady[1 - i] && !steady[i];

        if (right) {
            blame(t, chosen[i], YKI_VERDICT_BROKEN);
            return;
        }
    }
    blame(t, chosen[0], YKI_VERDICT_OPEN);
    blame(t, chosen[1], YKI_VERDICT_OPEN);
}

/* The one device of this process: it is right if it ever gives the same twice. */
static yoke_status
decide_alone(yoke_trainer *t, const yki_step *step, size_t member, results *r)
{
    YKI_TRY(hash(t, step, member, member, r->again[0]));
    blame(t, member,
          same(r->again[0], r->first[0]) || same(r->again[0], r->first[1]) ? YKI_VERDICT_ONCE
                                                                           : YKI_VERDICT_BROKEN);
    return YOKE_OK;
}

static yoke_status
decide(yoke_trainer *t, const yki_step *step, const size_t *chosen)
{
    results r = {.has_third = chosen[2] != chosen[0]};

    YKI_TRY(yki_recheck_hash(&t->crew, &t->crew.members[chosen[0]], false, r.first[0]));
    YKI_TRY(yki_recheck_hash(&t->crew, &t->crew.members[chosen[1]], true, r.first[1]));
    if (chosen[0] == chosen[1])
        return decide_alone(t, step, chosen[0], &r);
    for (size_t i = 0; i < 2; i++)
        YKI_TRY(hash(t, step, chosen[i], chosen[0], r.again[i]));
    for (size_t i = 0; i < 2; i++)
        if (same(r.again[i], r.first[1 - i])) {
            blame(t, chosen[i], YKI_VERDICT_ONCE);
            return YOKE_OK;
        }
    if (r.has_third)
        YKI_TRY(hash(t, step, chosen[2], chosen[0], r.third));
    blame_steady(t, &r, chosen);
    return YOKE_OK;
}

/* ---- a step ---- */

static void
tell(const yoke_trainer *t, const size_t *chosen, const char *tensor)
{
    static const char *const words[] = {
        [YKI_VERDICT_ONCE] = "was wrong once",
        [YKI_VERDICT_BROKEN] = "was wrong, and wrong again",
        [YKI_VERDICT_OPEN] = "or the other one is wrong: each gives the same again",
    };

    for (size_t i = 0; i < 1 + (chosen[0] != chosen[1]); i++) {
        const yki_verdict verdict = t->crew.exact.verdicts[first_of(t) + chosen[i]];

        if (verdict != YKI_VERDICT_NONE)
            yki_log(YOKE_LOG_WARNING,
                    "step %lld: \"%s\" of device %s was computed again by %s, and the bits differ: "
                    "%s %s",
                    (long long)t->step + 1, tensor, name_of(t, chosen[0]), name_of(t, chosen[1]),
                    name_of(t, chosen[i]), words[verdict]);
    }
}

void
yki_trainer_begin_recheck(yoke_trainer *t)
{
    const int64_t every = t->options.recheck;

    if (!every)
        return;
    memset(t->crew.exact.verdicts, YKI_VERDICT_NONE, t->crew.team->total);
    t->recheck.active =
        !t->recheck.paused && (t->step + 1) % every == 0 && choose(t, t->recheck.chosen);
    t->crew.exact.checked = t->recheck.chosen[0];
    if (t->recheck.active)
        yki_passes_clear_kept(&t->crew, false);
}

yoke_status
yki_trainer_recheck(yoke_trainer *t, const yki_step *step)
{
    const size_t *chosen = t->recheck.chosen;
    const char *tensor;

    if (!t->recheck.active || t->crew.members[chosen[0]].adder.count == 0)
        return YOKE_OK;
    YKI_TRY(compute(t, step, chosen[1], chosen[0]));
    YKI_TRY(yki_recheck_compare(&t->crew, &t->crew.members[chosen[0]], &t->crew.members[chosen[1]],
                                &tensor));
    t->recheck.checks++;
    if (!tensor)
        return YOKE_OK;
    YKI_TRY(decide(t, step, chosen));
    tell(t, chosen, tensor);
    return YOKE_OK;
}

/* The first device with this verdict, of the whole team; SIZE_MAX: none has it. */
static size_t
find_verdict(const yoke_trainer *t, yki_verdict verdict)
{
    for (size_t k = 0; k < t->crew.team->total; k++)
        if (t->crew.exact.verdicts[k] == verdict)
            return k;
    return SIZE_MAX;
}

bool
yki_trainer_is_out(const yoke_trainer *t, size_t device)
{
    return t->recheck.out && t->recheck.out[device] != IN;
}

size_t
yki_trainer_devices_in(const yoke_trainer *t)
{
    size_t count = 0;

    for (size_t k = 0; k < t->crew.team->total; k++)
        count += !yki_trainer_is_out(t, k);
    return count;
}

static size_t
devices_in(const yoke_trainer *t, size_t devices)
{
    size_t count = 0;

    for (size_t k = 0; k < devices; k++)
        count += t->recheck.out[k] == IN;
    return count;
}

/* How often a device may be wrong once: nearly always, if it is the last one that is not out. */
static uint8_t
forgiven(const yoke_trainer *t)
{
    size_t count = 0;

    for (size_t k = 0; k < t->crew.team->total; k++)
        count += t->recheck.out[k] != OUT;
    return count > 1 ? FORGIVEN : UINT8_MAX - 1;
}

yoke_status
yki_trainer_leave_out(yoke_trainer *t, bool *found)
{
    const size_t open = t->options.recheck ? find_verdict(t, YKI_VERDICT_OPEN) : SIZE_MAX;

    *found = false;
    t->recheck.doubts = open < SIZE_MAX;
    if (open < SIZE_MAX)
        return yki_fail(YOKE_ERROR_DEVICE,
                        "device %s or the one that checked it computes wrongly, and with two of "
                        "them nobody can say which; train without one of them",
                        yoke_team_get_device_name(t->crew.team, open));
    for (size_t k = 0; t->options.recheck && k < t->crew.team->total; k++) {
        const uint8_t verdict = t->crew.exact.verdicts[k];
        uint8_t *out = &t->recheck.out[k];

        if (verdict == YKI_VERDICT_NONE)
            continue;
        *found = true;
        t->recheck.found++;
        *out = verdict == YKI_VERDICT_BROKEN || ++t->recheck.times[k] > forgiven(t) ? OUT
                                                                                    : OUT_OF_STEP;
        t->recheck.doubts |= *out == OUT;
        yki_log(YOKE_LOG_WARNING, "step %lld: device %s is left out %s", (long long)t->step + 1,
                yoke_team_get_device_name(t->crew.team, k),
                *out == OUT ? "from now on" : "of this step, which is made again");
    }
    if (*found && yki_trainer_devices_in(t) > 0)
        return YOKE_OK;
    for (size_t k = 0; *found && k < t->crew.team->total; k++)
        if (t->recheck.out[k] == OUT_OF_STEP) { /* nobody else is left to make the step again */
            t->recheck.out[k] = IN;
            return YOKE_OK;
        }
    return *found ? yki_fail(YOKE_ERROR_DEVICE, "no device is left that computes rightly")
                  : YOKE_OK;
}

bool
yki_trainer_doubts(yoke_trainer *t)
{
    const bool doubts = t->recheck.doubts;

    t->recheck.doubts = false;
    return doubts && yki_trainer_goes_back(t);
}

void
yki_trainer_let_in(yoke_trainer *t)
{
    for (size_t k = 0; t->options.recheck && k < t->crew.team->total; k++)
        if (t->recheck.out[k] == OUT_OF_STEP)
            t->recheck.out[k] = IN;
}

/* ---- shares ---- */

static int64_t
granules_in(const yoke_trainer *t, int64_t samples)
{
    return (samples + t->options.granule - 1) / t->options.granule;
}

/* The device that is in with the fewest granules; SIZE_MAX: none is in. */
static size_t
least_busy(const yoke_trainer *t, size_t devices, const int64_t *granules)
{
    size_t best = SIZE_MAX;

    for (size_t k = 0; k < devices; k++)
        if (t->recheck.out[k] == IN && (best == SIZE_MAX || granules[k] < granules[best]))
            best = k;
    return best;
}

void
yki_trainer_spread(const yoke_trainer *t, int64_t n, size_t devices, int64_t *counts)
{
    const size_t in = t->options.recheck ? devices_in(t, devices) : devices;

    if (in == devices || in == 0)
        return;
    for (size_t k = 0; k < devices; k++)
        counts[k] = granules_in(t, counts[k]);
    for (size_t k = 0; k < devices; k++)
        for (; t->recheck.out[k] != IN && counts[k] > 0; counts[k]--)
            counts[least_busy(t, devices, counts)]++;
    for (size_t k = 0; k < devices; k++) {
        counts[k] = YKI_MIN(counts[k] * t->options.granule, n);
        n -= counts[k];
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * balance.c - shares that follow the measured speed of devices.
 *
 * Idea: the time of each device is a line in its samples, which its steps keep up to date (pace.c).
 * The shares go to the fastest split for these lines if
 *
 *   - it makes the step shorter by more than the hysteresis plus the likely error of the lines.
 *     That error follows from the scatter of the steps, so on a busy machine only certain gains
 *     count; and
 *   - steps at the present counts have been seen.
 *
 * One change moves at most half of the batch, or a quarter if times scatter. Every device keeps a
 * sample, so that it is measured, until many evaluations in a row find that the team is as fast
 * without it. A device that would make the step hardly shorter is dropped, because its part in each
 * reduction costs more. A device without samples cannot show that it has recovered, and one sample
 * does not show the cost of a second. So such a device gets a few more samples for a few steps, at
 * growing intervals: a probe.
 *
 * Not here: measuring, gathering over processes, memory in bytes, the lines for people (explain.c).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shares/pace.h"

enum {
    PATIENCE = 16,   /* steps before a change if a device reports no times */
    PIECES_SURE = 2, /* a change moves at most 1 / PIECES_SURE of the batch */
    PIECES = 4,      /* the same if times scatter */
    ROOM = 8,        /* with so many samples a device in a batch, each gets at least one */
    DROP_AFTER = 20, /* evaluations in a row that find a device useless before it is dropped */
    PROBE_STEPS = YKI_PACE_PROBES, /* several: the first may be slow because the device was idle */
    PROBE_TIMES = 4,               /* a probe gives a device this many times its samples */
    PROBE_FIRST = 64, /* steps to the first probe; each probe in vain doubles the interval */
    PROBE_LAST = 16384
};

static const double USELESS = 0.02;     /* gain not worth a reduction, times the devices */
static const double HOPELESS = 3;       /* useless: one sample takes so many steps of the others */
static const double DOUBTS = 1;         /* standard errors that a gain must exceed */
static const double PROBE_COST = 0.005; /* fraction of the time that all probes may take */

typedef struct member {
    char *name;
    int64_t limit;
    yki_pace pace;
    uint32_t useless; /* evaluations in a row that found it useless */
    double wasted;    /* seconds of its steps in that time */
    uint64_t probe_at;
    uint64_t probe_interval; /* steps */
    char reason[160];
} member;

struct yki_shares {
    size_t devices;
    int64_t batch;
    double hysteresis;
    yki_shares_kind kind;
    bool fixed;
    bool decided;   /* counts are a decision, not just a start */
    uint64_t step;  /* splits so far that might have changed the shares */
    uint64_t since; /* such splits since the counts last changed */
    uint64_t changes;
    size_t probed; /* device under probe; equal to `devices`: none */
    uint32_t probe_left;
    double *given;   /* weights by the text of the shares; all 1 for a word */
    int64_t *counts; /* of a full batch */
    /* Scratch, so that a step allocates nothing. */
    double *weights;
    yki_line *lines;
    int64_t *limits, *best, *other;
    bool *used;
    member *member;
};

/* ---- times ---- */

void
yki_shares_calibrate(yki_shares *s, size_t device, int64_t n, double seconds)
{
    if (n > 0 && isfinite(seconds) && seconds > 0)
        yki_pace_calibrate(&s->member[device].pace, n, seconds);
}

bool
yki_shares_get_line(const yki_shares *s, size_t device, yki_line *line)
{
    if (!s->member[device].pace.known)
        return false;
    *line = yki_pace_line(&s->member[device].pace);
    return true;
}

void
yki_shares_set_line(yki_shares *s, size_t device, yki_line line)
{
    yki_pace_set(&s->member[device].pace, YKI_MIN(line.a / line.b, 1e6 * (double)s->batch), line.b);
}

/* The samples of a device in a probe; 0: it needs no probe, its steps show enough. */
static int64_t
probe_samples(const yki_shares *s, size_t k)
{
    int64_t even = s->batch / (int64_t)s->devices, samples = PROBE_TIMES * s->counts[k];

    if (s->counts[k] == 0)
        return YKI_MIN(1, s->member[k].limit);
    return samples <= YKI_MIN(even / 2, s->member[k].limit) ? samples : 0;
}

void
yki_shares_observe(yki_shares *s, const int64_t *counts, const double *seconds)
{
    int64_t n = 0;
    bool present;

    for (size_t k = 0; k < s->devices; k++)
        n += counts[k];
    yki_shares_divide(s, n, s->other);
    present = memcmp(s->other, counts, s->devices * sizeof *counts) == 0;
    for (size_t k = 0; k < s->devices; k++) {
        if (counts[k] <= 0 || !isfinite(seconds[k]) || seconds[k] <= 0)
            continue;
        /* Times come late. Once a step at the present count was seen, a time at the probe's count
         * is a probe's, not that of an older step. */
        if (s->counts[k] > 0 && s->member[k].pace.settled > 0 && counts[k] == probe_samples(s, k))
            yki_pace_probe(&s->member[k].pace, counts[k], seconds[k]);
        else
            yki_pace_observe(&s->member[k].pace, counts[k], seconds[k], present);
    }
}

/* ---- decisions ---- */

static double
slowest(const yki_shares *s, const int64_t *counts)
{
    double seconds = 0;

    for (size_t k = 0; k < s->devices; k++)
        seconds = fmax(seconds, yki_line_seconds(&s->lines[k], counts[k]));
    return seconds;
}

/* Sets the lines and limits of all devices. An unknown device gets the line of the median device.
 * Returns false if none is known. */
static bool
take_lines(yki_shares *s)
{
    const member *typical = NULL;
    size_t known = 0, seen = 0;

    for (size_t k = 0; k < s->devices; k++)
        known += s->member[k].pace.known;
    for (size_t k = 0; k < s->devices && typical == NULL; k++) {
        size_t faster = 0;

        /* Of equal devices the first counts as the faster one, so the ranking has no ties. */
        for (size_t j = 0; j < s->devices && s->member[k].pace.known; j++)
            faster +=
                s->member[j].pace.known && (s->member[j].pace.b < s->member[k].pace.b ||
                                            (s->member[j].pace.b == s->member[k].pace.b && j < k));
        if (s->member[k].pace.known && faster == known / 2)
            typical = &s->member[k];
    }
    for (size_t k = 0; k < s->devices; k++) {
        const member *m = s->member[k].pace.known ? &s->member[k] : typical;

        s->limits[k] = s->member[k].limit;
        s->lines[k] = m != NULL ? yki_pace_line(&m->pace) : (yki_line){.a = 0, .b = 1};
        seen += s->member[k].pace.known;
    }
    return seen > 0;
}

static void
say_dropped(yki_shares *s, size_t k, double with, double without)
{
    member *m = &s->member[k];

    if (without < 0 || without <= with)
        snprintf(m->reason, sizeof m->reason,
                 "one sample takes it %.3g ms, and the others need %.3g ms for all",
                 1e3 * yki_line_seconds(&s->lines[k], 1), 1e3 * with);
    else
        snprintf(
            m->reason, sizeof m->reason,
            "it would make a step shorter by %.2g %%, less than its part in the reduction costs",
            100 * (without - with) / without);
}

/* The largest relative error of a line in use. */
static double
doubt(const yki_shares *s)
{
    double most = 0;

    for (size_t k = 0; k < s->devices; k++)
        if (s->counts[k] > 0)
            most = fmax(most, yki_pace_doubt(&s->member[k].pace));
    return most;
}

static bool
is_dropped(const member *m)
{
    return m->useless >= DROP_AFTER && m->wasted >= YKI_PACE_MOMENT;
}

/* Notes that device k was found useless once more. Returns whether it is left out now. A device
 * with samples goes only after many times. Before the first step a device goes only if it is
 * useless even in case calibration was disturbed. */
static bool
goes(yki_shares *s, size_t k, double seconds)
{
    member *m = &s->member[k];

    if (!s->decided)
        return s->batch < ROOM * (int64_t)s->devices ||
               yki_line_seconds(&s->lines[k], 1) > HOPELESS * seconds;
    if (s->counts[k] == 0)
        return true;
    m->useless++;
    m->wasted += yki_line_seconds(&s->lines[k], s->counts[k]);
    return is_dropped(m);
}

/* The device in use that has the fewest samples in `best`, but at least one. */
static size_t
fewest(const yki_shares *s)
{
    size_t least = s->devices;

    for (size_t k = 0; k < s->devices; k++)
        if (s->used[k] && s->best[k] > 0 && (least == s->devices || s->best[k] < s->best[least]))
            least = k;
    return least;
}

/* Gives a sample of the slowest device to each device that has none but is to be measured further.
 * Returns the seconds of a step. */
static double
keep_measured(yki_shares *s, double seconds)
{
    for (size_t k = 0; k < s->devices && s->batch >= ROOM * (int64_t)s->devices; k++) {
        size_t from = k;

        if (s->best[k] > 0 || !s->used[k] || s->limits[k] < 1 || goes(s, k, seconds))
            continue;
        for (size_t j = 0; j < s->devices; j++)
            if (s->best[j] > 1 && yki_line_seconds(&s->lines[j], s->best[j]) >
                                      yki_line_seconds(&s->lines[from], s->best[from]))
                from = j;
        s->best[from]--;
        s->best[k]++;
    }
    return slowest(s, s->best);
}

/* Sets `best` to the fastest split without useless devices. Returns its seconds. */
static double
best_split(yki_shares *s)
{
    double worth = USELESS / (double)s->devices, seconds;

    for (size_t k = 0; k < s->devices; k++)
        s->used[k] = true;
    seconds = yki_shares_fastest(s->lines, s->limits, s->used, s->devices, s->batch, s->best);
    while (seconds >= 0) {
        size_t least = fewest(s);
        double without;

        s->used[least] = false;
        without = yki_shares_fastest(s->lines, s->limits, s->used, s->devices, s->batch, s->other);
        s->used[least] = without < 0 || without > seconds * (1 + worth);
        for (size_t k = 0; k < s->devices && s->used[least]; k++)
            if (s->best[k] > 0) {
                s->member[k].useless = 0;
                s->member[k].wasted = 0;
            }
        if (s->used[least] || (s->used[least] = !goes(s, least, seconds)))
            return keep_measured(s, seconds);
        say_dropped(s, least, seconds, without);
        seconds = without;
        memcpy(s->best, s->other, s->devices * sizeof *s->best);
    }
    return seconds;
}

/* Brings `best` so near to the present counts that no more is moved than is allowed at once. */
static void
limit_change(yki_shares *s)
{
    int64_t pieces = doubt(s) > s->hysteresis ? PIECES : PIECES_SURE;
    int64_t moves = 0, most = YKI_MAX(s->batch / pieces, 1);

    for (size_t k = 0; k < s->devices; k++)
        moves += YKI_MAX(s->best[k] - s->counts[k], 0);
    if (moves <= most)
        return;
    for (size_t k = 0; k < s->devices; k++)
        s->weights[k] = (double)s->counts[k] +
                        (double)(s->best[k] - s->counts[k]) * (double)most / (double)moves;
    yki_shares_round(s->weights, s->devices, s->batch, s->best);
}

/* Plans the next probe of a device after its interval, or later if probes would cost too much. The
 * first probe is not put off, because calibration alone may be wrong about the device. */
static void
plan_probe(yki_shares *s, size_t k)
{
    double step = slowest(s, s->counts);
    double wait =
        fmax(yki_pace_least(&s->member[k].pace, PROBE_STEPS, probe_samples(s, k)) - step, 0);
    double probed = 0, rare = 0;

    for (size_t j = 0; j < s->devices; j++)
        probed += probe_samples(s, j) > 0;
    if (step > 0 && (s->member[k].pace.seen || s->batch < ROOM * (int64_t)s->devices))
        rare = PROBE_STEPS * probed * wait / step / PROBE_COST;
    s->member[k].probe_at =
        s->step + YKI_MAX(s->member[k].probe_interval, (uint64_t)fmin(rare, 1e9));
}

/* Writes "12+20 of 32", cut where there is no room. */
static void
counts_text(const yki_shares *s, const int64_t *counts, char *text, size_t size)
{
    size_t at = 0;

    for (size_t k = 0; k < s->devices && at < size; k++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", k ? "+" : "", (long long)counts[k]);
    if (at < size)
        snprintf(text + at, size - at, " of %lld", (long long)s->batch);
}

static void
adopt(yki_shares *s, const int64_t *counts)
{
    bool first = !s->decided;
    char text[200];

    if (s->devices > 1) {
        counts_text(s, counts, text, sizeof text);
        yki_log(YOKE_LOG_INFO, "shares: %s, %.4g ms a step by the model instead of %.4g", text,
                1e3 * slowest(s, counts), 1e3 * slowest(s, s->counts));
    }
    for (size_t k = 0; k < s->devices; k++) {
        member *m = &s->member[k];

        if (counts[k] == 0 && (first || s->counts[k] > 0)) {
            if (m->reason[0] == '\0')
                say_dropped(s, k, slowest(s, counts), -1);
            yki_log(YOKE_LOG_INFO, "shares: %s is left out: %s", m->name, m->reason);
        }
        if (counts[k] > 0)
            m->reason[0] = '\0';
        if (!first && counts[k] == s->counts[k])
            continue;
        m->pace.anchor.n = 0;
        m->pace.probes = 0;
        if (!first && m->pace.known && s->counts[k] > 0 && counts[k] > 0)
            yki_pace_leave(&m->pace, s->counts[k]);
        m->probe_interval = PROBE_FIRST;
        s->counts[k] = counts[k];
    }
    for (size_t k = 0; k < s->devices; k++) {
        s->member[k].pace.settled = 0;
        plan_probe(s, k);
    }
    s->since = 0;
    s->changes += !first;
    s->decided = true;
}

static bool
settled(const yki_shares *s)
{
    for (size_t k = 0; k < s->devices; k++)
        if (s->counts[k] > 0 && s->member[k].pace.settled < YKI_PACE_SETTLED)
            return s->since >= PATIENCE;
    return true;
}

static yoke_status
too_large(const yki_shares *s)
{
    int64_t most = 0;

    for (size_t k = 0; k < s->devices; k++)
        most += YKI_MAX(s->member[k].limit, 0); /* no overflow: the sum is less than a batch */
    return yki_fail(
        YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
        "the batch is %lld; must be at most %lld, for which the devices of the team have memory",
        (long long)s->batch, (long long)most);
}

/* Adopts shares by speed for a full batch, if they are worth a change. */
static yoke_status
decide(yki_shares *s)
{
    bool known = take_lines(s), idle_now = false;
    double seconds;

    if (!s->decided && !known) { /* all devices count as equal until steps are measured */
        seconds = yki_shares_fastest(s->lines, s->limits, NULL, s->devices, s->batch, s->best);
        if (seconds < 0)
            return too_large(s);
        adopt(s, s->best);
        return YOKE_OK;
    }
    if (s->decided && (!known || !settled(s)))
        return YOKE_OK;
    seconds = best_split(s);
    if (seconds < 0)
        return too_large(s);
    for (size_t k = 0; k < s->devices && s->decided; k++)
        idle_now |= s->best[k] == 0 && s->counts[k] > 0 && is_dropped(&s->member[k]);
    if (s->decided && !idle_now &&
        seconds >= slowest(s, s->counts) * (1 - s->hysteresis - DOUBTS * doubt(s)))
        return YOKE_OK;
    if (s->decided)
        limit_change(s);
    adopt(s, s->best);
    return YOKE_OK;
}

/* Now and then gives more samples, taken from the slowest device, to a device that has too few to
 * show its speed. */
static void
probe(yki_shares *s, int64_t *counts)
{
    size_t from = s->devices;
    int64_t more;

    for (size_t k = 0; k < s->devices && s->probed == s->devices; k++)
        if (probe_samples(s, k) > 0 && s->step >= s->member[k].probe_at) {
            s->probed = k;
            s->probe_left = PROBE_STEPS;
            if (s->counts[k] == 0)
                yki_pace_forget(&s->member[k].pace);
        }
    if (s->probed == s->devices)
        return;
    more = probe_samples(s, s->probed) - counts[s->probed];
    for (size_t k = 0; k < s->devices; k++)
        if (k != s->probed && counts[k] >= more &&
            (from == s->devices || yki_line_seconds(&s->lines[k], counts[k]) >
                                       yki_line_seconds(&s->lines[from], counts[from])))
            from = k;
    if (from != s->devices && more > 0) {
        counts[from] -= more;
        counts[s->probed] += more;
    }
    if (--s->probe_left == 0) {
        member *m = &s->member[s->probed];

        m->probe_interval = YKI_MIN(2 * m->probe_interval, (uint64_t)PROBE_LAST);
        plan_probe(s, s->probed);
        s->probed = s->devices;
    }
}

yoke_status
yki_shares_next(yki_shares *s, int64_t n, int64_t *counts)
{
    /* A step of half a batch or less is the rest of an epoch: it changes nothing. */
    bool moves = s->kind == YKI_SHARES_AUTO && n > s->batch / 2;

    if (n < 0 || n > s->batch)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples of a step", n, 0,
                              s->batch);
    if (moves && !(s->fixed && s->decided))
        YKI_TRY(decide(s));
    yki_shares_divide(s, n, counts);
    if (moves && !s->fixed) {
        s->step++;
        s->since++;
        probe(s, counts);
    }
    return YOKE_OK;
}

void
yki_shares_divide(const yki_shares *s, int64_t n, int64_t *counts)
{
    if (n == s->batch) {
        memcpy(counts, s->counts, s->devices * sizeof *counts);
        return;
    }
    for (size_t k = 0; k < s->devices; k++)
        s->weights[k] = (double)s->counts[k];
    yki_shares_round(s->weights, s->devices, n, counts);
}

/* ---- life ---- */

/* Refuses counts that a device's memory does not hold. */
static yoke_status
check_limits(const yki_shares *s, const int64_t *counts)
{
    for (size_t k = 0; k < s->devices; k++)
        if (counts[k] > s->member[k].limit)
            return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                            "the share of %s is %lld of %lld samples; must be at most %lld, for "
                            "which it has memory",
                            s->member[k].name, (long long)counts[k], (long long)s->batch,
                            (long long)s->member[k].limit);
    return YOKE_OK;
}

/* Sets new shares and the counts to start with. Nothing changes on failure. */
static yoke_status
establish(yki_shares *s, yki_shares_kind kind, const double *weights)
{
    if (kind == YKI_SHARES_AUTO) {
        for (size_t k = 0; k < s->devices; k++) {
            s->limits[k] = s->member[k].limit;
            s->lines[k] = (yki_line){.a = 0, .b = 1};
        }
        if (yki_shares_fastest(s->lines, s->limits, NULL, s->devices, s->batch, s->best) < 0)
            return too_large(s);
    } else {
        yki_shares_round(weights, s->devices, s->batch, s->best);
        YKI_TRY(check_limits(s, s->best));
    }
    memcpy(s->given, weights, s->devices * sizeof *weights);
    memcpy(s->counts, s->best, s->devices * sizeof *s->counts);
    s->kind = kind;
    s->decided = kind != YKI_SHARES_AUTO;
    s->probed = s->devices;
    s->since = 0;
    for (size_t k = 0; k < s->devices; k++) {
        s->member[k].pace.settled = 0;
        s->member[k].useless = 0;
        s->member[k].wasted = 0;
        s->member[k].pace.anchor.n = 0;
        s->member[k].reason[0] = '\0';
    }
    return YOKE_OK;
}

yoke_status
yki_shares_set(yki_shares *s, const char *text)
{
    yki_shares_kind kind;

    YKI_TRY(yki_shares_parse(text, YKI_SHARES_AUTO, s->devices, &kind, s->weights));
    return establish(s, kind, s->weights);
}

static bool
allocate(yki_shares *s, size_t devices, const char *const *names)
{
    static const char what[] = "shares of devices";

    s->given = yki_alloc(devices, sizeof *s->given, what);
    s->counts = yki_alloc(devices, sizeof *s->counts, what);
    s->weights = yki_alloc(devices, sizeof *s->weights, what);
    s->lines = yki_alloc(devices, sizeof *s->lines, what);
    s->limits = yki_alloc(devices, sizeof *s->limits, what);
    s->best = yki_alloc(devices, sizeof *s->best, what);
    s->other = yki_alloc(devices, sizeof *s->other, what);
    s->used = yki_alloc(devices, sizeof *s->used, what);
    s->member = yki_alloc(devices, sizeof *s->member, what);
    if (s->given == NULL || s->counts == NULL || s->weights == NULL || s->lines == NULL ||
        s->limits == NULL || s->best == NULL || s->other == NULL || s->used == NULL ||
        s->member == NULL)
        return false;
    s->devices = devices;
    for (size_t k = 0; k < devices; k++) {
        s->member[k].name =
            names != NULL ? yki_strdup(names[k], what) : yki_format("device %zu", k);
        if (s->member[k].name == NULL)
            return false;
        s->member[k].limit = INT64_MAX;
    }
    return true;
}

yoke_status
yki_shares_create(size_t devices, const yki_shares_options *options, yki_shares **shares)
{
    yki_shares *s;
    yoke_status status;

    if (devices == 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the number of devices is 0; must be at least 1");
    if (options->batch < 1)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "batch", options->batch, 1, INT64_MAX);
    s = yki_alloc(1, sizeof *s, "shares");
    if (s == NULL)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (!allocate(s, devices, options->names)) {
        yki_shares_destroy(s);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    s->batch = options->batch;
    s->hysteresis = options->hysteresis > 0 ? options->hysteresis : 0.02;
    s->fixed = options->fixed;
    for (size_t k = 0; k < devices && options->limits != NULL; k++)
        s->member[k].limit = options->limits[k];
    status = yki_shares_set(s, options->shares);
    if (status != YOKE_OK) {
        yki_shares_destroy(s);
        return status;
    }
    *shares = s;
    return YOKE_OK;
}

void
yki_shares_destroy(yki_shares *s)
{
    if (s == NULL)
        return;
    for (size_t k = 0; k < s->devices; k++)
        yki_free(s->member[k].name);
    yki_free(s->member);
    yki_free(s->used);
    yki_free(s->other);
    yki_free(s->best);
    yki_free(s->limits);
    yki_free(s->lines);
    yki_free(s->weights);
    yki_free(s->counts);
    yki_free(s->given);
    yki_free(s);
}

yoke_status
yki_shares_set_counts(yki_shares *s, const int64_t *counts)
{
    int64_t sum = 0;

    for (size_t k = 0; k < s->devices; k++) {
        if (counts[k] < 0 || counts[k] > s->batch)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "the share of %s is %lld; must be between 0 and the batch, %lld",
                            s->member[k].name, (long long)counts[k], (long long)s->batch);
        sum += counts[k];
    }
    if (sum != s->batch)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the sum of the shares is %lld; must be the batch, %lld", (long long)sum,
                        (long long)s->batch);
    YKI_TRY(check_limits(s, counts));
    take_lines(s);
    adopt(s, counts);
    return YOKE_OK;
}

yoke_status
yki_shares_set_limits(yki_shares *s, const int64_t *limits)
{
    for (size_t k = 0; k < s->devices; k++) {
        s->best[k] = s->member[k].limit;
        s->member[k].limit = limits[k];
    }
    if (s->decided && check_limits(s, s->counts) == YOKE_OK)
        return YOKE_OK;
    memcpy(s->weights, s->given, s->devices * sizeof *s->weights);
    memcpy(s->other, s->best, s->devices * sizeof *s->other);
    if (establish(s, s->kind, s->weights) == YOKE_OK)
        return YOKE_OK;
    for (size_t k = 0; k < s->devices; k++)
        s->member[k].limit = s->other[k];
    return YOKE_ERROR_OUT_OF_DEVICE_MEMORY;
}

int64_t
yki_shares_largest_batch(const yki_shares *s, const int64_t *limits)
{
    double sum = 0, most = 9e15; /* doubles hold every integer up to there */
    int64_t n = 0;

    if (s->kind == YKI_SHARES_AUTO) {
        for (size_t k = 0; k < s->devices; k++) {
            int64_t limit = YKI_MAX(limits[k], 0);

            if (limit > INT64_MAX - n)
                return INT64_MAX;
            n += limit;
        }
        return n;
    }
    for (size_t k = 0; k < s->devices; k++)
        sum += s->given[k];
    for (size_t k = 0; k < s->devices; k++)
        if (s->given[k] > 0)
            most = fmin(most, (double)limits[k] * (sum / s->given[k]));
    return most >= 9e15 ? INT64_MAX : (int64_t)most;
}

/* ---- what users see ---- */

void
yki_shares_get(const yki_shares *s, size_t device, yki_share_info *info)
{
    const member *m = &s->member[device];
    double step = yki_shares_step_seconds(s);
    yki_line line = yki_pace_line(&m->pace);

    *info = (yki_share_info){
        .name = m->name,
        .count = s->counts[device],
        .limit = m->limit,
        .measured = yki_pace_measured(&m->pace, s->counts[device]),
        .reason = s->counts[device] == 0 ? m->reason : "",
    };
    if (!m->pace.known)
        return;
    info->predicted = yki_line_seconds(&line, info->count);
    info->overhead = fmax(line.a, 0);
    info->idle = step > 0 ? 1 - info->predicted / step : 0;
    info->speed = (double)s->batch / fmax(yki_line_seconds(&line, s->batch), 1e-15);
}

double
yki_shares_step_seconds(const yki_shares *s)
{
    double seconds = 0;

    for (size_t k = 0; k < s->devices; k++) {
        yki_line line = yki_pace_line(&s->member[k].pace);

        if (s->member[k].pace.known)
            seconds = fmax(seconds, yki_line_seconds(&line, s->counts[k]));
    }
    return seconds;
}

double
yki_shares_ceiling(const yki_shares *s)
{
    double sum = 0;

    for (size_t k = 0; k < s->devices; k++) {
        yki_line line = yki_pace_line(&s->member[k].pace);

        if (s->member[k].pace.known)
            sum += (double)s->batch / fmax(yki_line_seconds(&line, s->batch), 1e-15);
    }
    return sum;
}

void
yki_shares_get_state(const yki_shares *s, yki_shares_state *state)
{
    *state = (yki_shares_state){.devices = s->devices,
                                .batch = s->batch,
                                .kind = s->kind,
                                .fixed = s->fixed,
                                .changes = s->changes};
}

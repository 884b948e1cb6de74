/* SPDX-License-Identifier: Apache-2.0
 *
 * balance.c - shares that follow the measured speed of devices.
 *
 * Idea: a device takes b (o + n) seconds for n samples. o, the overhead counted in
 * samples, comes from calibration at two sizes: in training n hardly varies, so steps
 * could not tell it. b, seconds a sample, comes from every step:
 *
 *   - the median of the newest WINDOW steps is deaf to outliers;
 *   - as long as it stays within JUMP of b, b follows it slowly: noise is averaged;
 *   - beyond, the device's speed has changed, and b becomes the median at once. A change is
 *     thus acted on after three steps of it have been seen.
 *
 * When shares change, the two sizes show how wrong o was (learn_overhead).
 *
 * Shares change when the fastest split for these lines promises a step shorter by the
 * hysteresis, and steps at the present counts have been seen. A device that would shorten
 * the step by next to nothing is dropped: its part in each reduction costs more. A device
 * without samples cannot be seen to recover, so at growing intervals it gets one sample.
 *
 * Not here: measuring, gathering over processes, memory, telling (explain.c).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/shares.h"

enum {
    WINDOW = 5,       /* steps in a median */
    SETTLED = 3,      /* steps seen at the present counts before they may change again */
    PATIENCE = 16,    /* or this many handed out: a device may tell no times */
    POINTS = 16,      /* calibrations kept for each device */
    DROP_AFTER = 10,  /* steps in a row that a device has to be of no use */
    PROBE_STEPS = 2,  /* a probe: the first of two may be slow for having been idle */
    PROBE_FIRST = 64, /* steps to the first probe; the interval doubles with each in vain */
    PROBE_LAST = 16384
};

static const double JUMP = 0.1;         /* of b: beyond it is a change, not noise */
static const double FOLLOW = 0.2;       /* part of the way that b goes to the median each step */
static const double USELESS = 0.02;     /* divided by the devices: gain not worth a reduction */
static const double PROBE_COST = 0.005; /* part of all time that probes of all may take */

typedef struct point {
    int64_t n;
    double seconds;
} point;

typedef struct member {
    char *name;
    int64_t limit;
    point calibration[POINTS];
    size_t calibrations;
    bool known;           /* o and b mean something */
    double o, b;          /* seconds = b (o + n) */
    point window[WINDOW]; /* the newest steps, a ring */
    uint64_t seen;        /* steps in the window, and before */
    uint64_t settled;     /* steps seen at the present count */
    point anchor;         /* another count and its time by the model when it was left; n 0: none */
    uint32_t useless;     /* evaluations in a row that found it so */
    uint64_t probe_at;
    uint64_t probe_interval; /* steps */
    char reason[160];
} member;

struct yki_shares {
    size_t devices;
    int64_t batch;
    double hysteresis;
    yki_shares_kind kind;
    bool freeze;
    bool decided;   /* counts hold a decision */
    uint64_t step;  /* splits handed out that might have changed the shares */
    uint64_t since; /* of them, with the present counts */
    uint64_t changes;
    size_t probed; /* device under probe; devices: none */
    uint32_t probe_left;
    double *given;   /* weights that the text of the shares gave; ones for a word */
    int64_t *counts; /* of a full batch */
    /* Scratch, so that a step allocates nothing. */
    double *weights;
    yki_line *lines;
    int64_t *limits, *best, *other;
    bool *used;
    member *member;
};

/* ---- estimates ---- */

static double
median(double *values, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double swap = values[j];

            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* b within what arithmetic can handle: 1 fs a sample at least, and not lost beside the overhead. */
static void
set_model(member *m, double o, double b)
{
    m->o = o;
    m->b = fmax(b, 1e-15);
    m->known = true;
}

static yki_line
line_of(const member *m)
{
    return (yki_line){.a = m->b * m->o, .b = m->b};
}

/* Median time of the calibrations of size n. */
static double
calibrated(const member *m, int64_t n)
{
    double values[POINTS];
    size_t count = 0;

    for (size_t i = 0; i < m->calibrations; i++)
        if (m->calibration[i].n == n)
            values[count++] = m->calibration[i].seconds;
    return median(values, count);
}

/* The line through the medians at the smallest and at the largest size. */
static void
fit(member *m)
{
    int64_t low = m->calibration[0].n, high = low;
    double at_low, at_high, a, b;

    for (size_t i = 1; i < m->calibrations; i++) {
        low = YKI_MIN(low, m->calibration[i].n);
        high = YKI_MAX(high, m->calibration[i].n);
    }
    at_high = calibrated(m, high);
    at_low = calibrated(m, low);
    if (low == high) {
        set_model(m, 0, at_high / (double)high);
        return;
    }
    b = (at_high - at_low) / (double)(high - low);
    /* Less than a hundredth is noise: more samples always take longer. */
    b = fmax(b, 0.01 * at_high / (double)high);
    a = fmax(at_high - b * (double)high, 0);
    b = (at_high - a) / (double)high;
    set_model(m, a / b, b);
}

void
yki_shares_calibrate(yki_shares *s, size_t device, int64_t n, double seconds)
{
    member *m = &s->member[device];

    if (n <= 0 || !isfinite(seconds) || !(seconds > 0))
        return;
    m->calibration[m->calibrations % POINTS] = (point){n, seconds};
    m->calibrations++;
    if (m->calibrations > POINTS) { /* the oldest goes */
        memmove(m->calibration, m->calibration + 1, (POINTS - 1) * sizeof m->calibration[0]);
        m->calibration[POINTS - 1] = (point){n, seconds};
        m->calibrations = POINTS;
    }
    fit(m);
}

bool
yki_shares_get_line(const yki_shares *s, size_t device, yki_line *line)
{
    if (!s->member[device].known)
        return false;
    *line = line_of(&s->member[device]);
    return true;
}

void
yki_shares_set_line(yki_shares *s, size_t device, yki_line line)
{
    if (isfinite(line.a) && isfinite(line.b) && line.b > 0 && line.a >= 0)
        set_model(&s->member[device], YKI_MIN(line.a / line.b, 1e6 * (double)s->batch), line.b);
}

/* b by the newest `most` steps of the window, each of its own count, with the present o. */
static double
newest_b(const member *m, uint64_t most)
{
    size_t count = (size_t)YKI_MIN(m->seen, most);
    double values[WINDOW];

    for (size_t i = 0; i < count; i++) {
        const point *at = &m->window[(m->seen - 1 - i) % WINDOW];

        values[i] = at->seconds / (m->o + (double)at->n);
    }
    /* Of two the faster: what disturbs a step makes it slower. */
    return count == 2 ? fmin(values[0], values[1]) : median(values, count);
}

/* Shares have changed, and the newest steps are at the new count n: their time and that at the
 * count before give the slope. Half of the correction (the geometric mean of both slopes) is taken.
 * A slope far from the model's is a change of speed that came in between. */
static void
learn_overhead(member *m, int64_t n)
{
    double at_anchor = m->anchor.seconds, now, slope;
    int64_t apart = n - m->anchor.n;

    m->anchor.n = 0;
    if (fabs((double)apart) < 0.1 * (double)YKI_MAX(n, 1))
        return;
    now = newest_b(m, SETTLED) * (m->o + (double)n);
    slope = (now - at_anchor) / (double)apart;
    if (slope < m->b / 2.5 || slope > m->b * 2.5)
        return;
    slope = sqrt(slope * m->b);
    set_model(m, fmin(fmax(now / slope - (double)n, -0.5 * (double)n), 1e6 * (double)n), slope);
}

/* `present`: the step was split as steps are split now. */
static void
observe_one(member *m, int64_t n, double seconds, bool present)
{
    double now;

    /* A model with a < 0 was learnt at larger counts. */
    if (m->known && m->o + (double)n < 0.5 * (double)n)
        m->o = -0.5 * (double)n;
    m->window[m->seen % WINDOW] = (point){n, seconds};
    m->seen++;
    m->settled += present;
    if (!m->known) {
        set_model(m, 0, seconds / (double)n);
        return;
    }
    if (m->anchor.n > 0 && m->settled == SETTLED)
        learn_overhead(m, n);
    now = newest_b(m, WINDOW);
    if (fabs(now - m->b) > JUMP * m->b || m->seen < WINDOW)
        set_model(m, m->o, now);
    else
        set_model(m, m->o, m->b + FOLLOW * (now - m->b));
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
    for (size_t k = 0; k < s->devices; k++)
        if (counts[k] > 0 && isfinite(seconds[k]) && seconds[k] > 0)
            observe_one(&s->member[k], counts[k], seconds[k], present);
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

/* Lines and limits of all, unknown devices as the median of the others; false: none is known. */
static bool
take_lines(yki_shares *s)
{
    const member *typical = NULL;
    size_t known = 0, seen = 0;

    for (size_t k = 0; k < s->devices; k++)
        known += s->member[k].known;
    for (size_t k = 0; k < s->devices && typical == NULL; k++) {
        size_t faster = 0;

        /* Of equal ones the first counts as the faster, so each rank is there once. */
        for (size_t j = 0; j < s->devices && s->member[k].known; j++)
            faster += s->member[j].known && (s->member[j].b < s->member[k].b ||
                                             (s->member[j].b == s->member[k].b && j < k));
        if (s->member[k].known && faster == known / 2)
            typical = &s->member[k];
    }
    for (size_t k = 0; k < s->devices; k++) {
        const member *m = s->member[k].known ? &s->member[k] : typical;

        s->limits[k] = s->member[k].limit;
        s->lines[k] = m != NULL ? line_of(m) : (yki_line){.a = 0, .b = 1};
        seen += s->member[k].known;
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

/* Into `best` the fastest split, without devices that would not be worth it; its time. Devices that
 * are in use now are dropped only when they have been of no use for long. */
static double
best_split(yki_shares *s)
{
    double worth = USELESS / (double)s->devices, seconds;

    for (size_t k = 0; k < s->devices; k++)
        s->used[k] = true;
    seconds = yki_shares_fastest(s->lines, s->limits, s->used, s->devices, s->batch, s->best);
    while (seconds >= 0) {
        size_t least = s->devices;
        double without;

        for (size_t k = 0; k < s->devices; k++)
            if (s->used[k] && s->best[k] > 0 &&
                (least == s->devices || s->best[k] < s->best[least]))
                least = k;
        s->used[least] = false;
        without = yki_shares_fastest(s->lines, s->limits, s->used, s->devices, s->batch, s->other);
        if (without < 0 || without > seconds * (1 + worth)) {
            s->used[least] = true;
            s->member[least].useless = 0;
            return seconds;
        }
        if (s->decided && s->counts[least] > 0 && ++s->member[least].useless < DROP_AFTER) {
            s->used[least] = true;
            return seconds;
        }
        say_dropped(s, least, seconds, without);
        seconds = without;
        memcpy(s->best, s->other, s->devices * sizeof *s->best);
    }
    return seconds;
}

/* The next probe of a device: after its interval, or later where it would cost too much. */
static void
plan_probe(yki_shares *s, size_t k)
{
    double step = slowest(s, s->counts);
    double wait = fmax(yki_line_seconds(&s->lines[k], 1) - step, 0);
    double rare = step > 0 ? PROBE_STEPS * (double)s->devices * wait / step / PROBE_COST : 0;

    s->member[k].probe_at =
        s->step + YKI_MAX(s->member[k].probe_interval, (uint64_t)fmin(rare, 1e9));
}

/* "12+20 of 32", as many as there is room for. */
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
        m->anchor = (point){0, 0};
        if (!first && m->known && s->counts[k] > 0 && counts[k] > 0) {
            m->anchor = (point){s->counts[k], yki_line_seconds(&s->lines[k], s->counts[k])};
        }
        m->probe_interval = PROBE_FIRST;
        s->counts[k] = counts[k];
    }
    for (size_t k = 0; k < s->devices; k++) {
        s->member[k].settled = 0;
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
        if (s->counts[k] > 0 && s->member[k].settled < SETTLED)
            return s->since >= PATIENCE;
    return true;
}

static yoke_status
too_large(const yki_shares *s)
{
    int64_t most = 0;

    for (size_t k = 0; k < s->devices; k++)
        most += YKI_MAX(s->member[k].limit, 0); /* less than a batch */
    return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                    "a batch of %lld samples does not fit: the memory of the team's devices holds "
                    "%lld",
                    (long long)s->batch, (long long)most);
}

/* Shares by speed for a full batch, if they are worth a change. */
static yoke_status
decide(yki_shares *s)
{
    bool known = take_lines(s), idle_now = false;
    double seconds, present;

    if (!s->decided && !known) { /* all alike, until steps tell */
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
    present = s->decided ? slowest(s, s->counts) : 0;
    for (size_t k = 0; k < s->devices && s->decided; k++)
        idle_now |= s->best[k] == 0 && s->counts[k] > 0 && s->member[k].useless >= DROP_AFTER;
    if (!s->decided || idle_now || seconds < present * (1 - s->hysteresis))
        adopt(s, s->best);
    return YOKE_OK;
}

/* A device without samples gets one now and then, in place of one of the slowest. */
static void
probe(yki_shares *s, int64_t *counts)
{
    size_t from = s->devices;

    for (size_t k = 0; k < s->devices && s->probed == s->devices; k++)
        if (s->counts[k] == 0 && s->member[k].limit > 0 && s->step >= s->member[k].probe_at) {
            s->probed = k;
            s->probe_left = PROBE_STEPS;
            s->member[k].seen = 0;
        }
    if (s->probed == s->devices)
        return;
    for (size_t k = 0; k < s->devices; k++)
        if (counts[k] > 0 &&
            (from == s->devices || yki_line_seconds(&s->lines[k], counts[k]) >
                                       yki_line_seconds(&s->lines[from], counts[from])))
            from = k;
    if (from != s->devices && counts[s->probed] == 0) {
        counts[from]--;
        counts[s->probed]++;
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
    /* Less than half a batch is the rest of an epoch, and no occasion. */
    bool moves = s->kind == YKI_SHARES_AUTO && n > s->batch / 2;

    if (n < 0 || n > s->batch)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "a step of %lld samples; the batch is %lld",
                        (long long)n, (long long)s->batch);
    if (moves && !(s->freeze && s->decided))
        YKI_TRY(decide(s));
    yki_shares_divide(s, n, counts);
    if (moves && !s->freeze) {
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

/* Bounds of memory against the counts that even or given shares make. */
static yoke_status
check_limits(const yki_shares *s, const int64_t *counts)
{
    for (size_t k = 0; k < s->devices; k++)
        if (counts[k] > s->member[k].limit)
            return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                            "%s gets %lld samples of a batch of %lld, and its memory holds %lld",
                            s->member[k].name, (long long)counts[k], (long long)s->batch,
                            (long long)s->member[k].limit);
    return YOKE_OK;
}

/* New shares: counts for them, from what is known so far. Nothing changes on failure. */
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
        s->member[k].settled = 0;
        s->member[k].useless = 0;
        s->member[k].anchor.n = 0;
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
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "shares of a team without devices");
    if (options->batch < 1)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "shares of a batch of %lld samples",
                        (long long)options->batch);
    s = yki_alloc(1, sizeof *s, "shares");
    if (s == NULL)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (!allocate(s, devices, options->names)) {
        yki_shares_destroy(s);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    s->batch = options->batch;
    s->hysteresis = options->hysteresis > 0 ? options->hysteresis : 0.02;
    s->freeze = options->freeze;
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
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s gets %lld samples of a batch of %lld",
                            s->member[k].name, (long long)counts[k], (long long)s->batch);
        sum += counts[k];
    }
    if (sum != s->batch)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "shares of %lld samples together for a batch of %lld", (long long)sum,
                        (long long)s->batch);
    YKI_TRY(check_limits(s, counts));
    take_lines(s);
    adopt(s, counts);
    return YOKE_OK;
}

void
yki_shares_freeze(yki_shares *s, bool freeze)
{
    s->freeze = freeze;
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

/* ---- telling ---- */

void
yki_shares_get(const yki_shares *s, size_t device, yki_share_info *info)
{
    const member *m = &s->member[device];
    double values[WINDOW], step = yki_shares_step_seconds(s);
    yki_line line = line_of(m);
    size_t count = 0;

    for (uint64_t i = 0; i < YKI_MIN(m->seen, (uint64_t)WINDOW); i++)
        if (m->window[i].n == s->counts[device])
            values[count++] = m->window[i].seconds;
    *info = (yki_share_info){
        .name = m->name,
        .count = s->counts[device],
        .limit = m->limit,
        .measured = count ? median(values, count) : 0,
        .reason = s->counts[device] == 0 ? m->reason : "",
    };
    if (!m->known)
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
        yki_line line = line_of(&s->member[k]);

        if (s->member[k].known)
            seconds = fmax(seconds, yki_line_seconds(&line, s->counts[k]));
    }
    return seconds;
}

double
yki_shares_ceiling(const yki_shares *s)
{
    double sum = 0;

    for (size_t k = 0; k < s->devices; k++) {
        yki_line line = line_of(&s->member[k]);

        if (s->member[k].known)
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
                                .freeze = s->freeze,
                                .changes = s->changes};
}

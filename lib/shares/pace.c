/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c - learns how fast one device is from the times of its steps.
 *
 * Idea: a device takes b (o + n) seconds for n samples. o is the overhead, counted in
 * samples. It comes from calibration at two sizes: n hardly varies in training, so steps
 * do not show it. b is the seconds per sample. It comes from every step: it is the median
 * of the newest AVERAGE steps since the speed last changed, so single steps do not move it.
 *
 * The model takes a change of speed for real if the newest few steps, all but a fifth of
 * them, are slower (or faster) than the steps before make likely. Let f be the fraction of
 * the steps before that are as slow. Then k such steps in a row are no chance if f^k is
 * tiny. So the model follows a quiet device after three or four steps, and one that is
 * disturbed in every fourth step after a dozen. Short steps may be disturbed many times in
 * a row, so the run of steps must also last for a MOMENT, or for 32 steps. Other changes
 * still move the median, slowly.
 *
 * When the count changes, the times at the two sizes show how wrong o was (learn_overhead).
 * Where the count would not change, a probe shows it: a few steps with more samples.
 *
 * Not here: the shares that follow from the speed (balance.c).
 */
#include <math.h>
#include <string.h>

#include "shares/pace.h"

enum {
    AVERAGE = 32, /* steps in the median that is b */
    PRIOR = 3,    /* steps for which a calibration counts */
    RUN_MOST = 32 /* newest steps that may show a change, at most */
};

static const double JUMP = 0.1;         /* fraction of b that is too little for a change */
static const double CHANCE = 1e-5;      /* a run less likely than this is no chance */
static const double HUGE_OVERHEAD = 32; /* times the count */
static const double SURPRISE = 0.7;     /* o stays if a probe takes more of its predicted time */
static const double CERTAIN = 4;        /* standard errors that a difference must exceed */

/* ---- sorted numbers ---- */

static void
sort(double *values, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double swap = values[j];

            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
}

static double
median(double *values, size_t count)
{
    sort(values, count);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- calibration and wisdom ---- */

/* Sets o and b. b is at least 1 fs a sample, so that divisions by it stay finite. */
static void
set_model(yki_pace *p, double o, double b)
{
    p->o = o;
    p->b = fmax(b, 1e-15);
    p->known = true;
}

void
yki_pace_set(yki_pace *p, double o, double b)
{
    set_model(p, o, b);
    p->prior = p->b;
}

yki_line
yki_pace_line(const yki_pace *p)
{
    return (yki_line){.a = p->b * p->o, .b = p->b};
}

/* Median time of the calibrations of size n. */
static double
calibrated(const yki_pace *p, int64_t n)
{
    double values[YKI_PACE_POINTS];
    size_t count = 0;

    for (size_t i = 0; i < p->calibrations; i++)
        if (p->calibration[i].n == n)
            values[count++] = p->calibration[i].seconds;
    return median(values, count);
}

/* Fits the line through the medians at the smallest and at the largest size. */
static void
fit(yki_pace *p)
{
    int64_t low = p->calibration[0].n, high = low;
    double at_low, at_high, a, b;

    for (size_t i = 1; i < p->calibrations; i++) {
        low = YKI_MIN(low, p->calibration[i].n);
        high = YKI_MAX(high, p->calibration[i].n);
    }
    at_high = calibrated(p, high);
    at_low = calibrated(p, low);
    if (low == high) {
        yki_pace_set(p, 0, at_high / (double)high);
        return;
    }
    b = (at_high - at_low) / (double)(high - low);
    /* More samples always take longer: a slope below a hundredth of the mean is noise. */
    b = fmax(b, 0.01 * at_high / (double)high);
    a = fmax(at_high - b * (double)high, 0);
    b = (at_high - a) / (double)high;
    yki_pace_set(p, a / b, b);
}

void
yki_pace_calibrate(yki_pace *p, int64_t n, double seconds)
{
    if (p->calibrations == YKI_PACE_POINTS) { /* drop the oldest */
        p->calibrations--;
        memmove(p->calibration, p->calibration + 1, p->calibrations * sizeof p->calibration[0]);
    }
    p->calibration[p->calibrations++] = (yki_point){n, seconds};
    fit(p);
}

/* ---- steps ---- */

/* b by the step `back` steps ago, from that step's count and the present o. */
static double
b_of(const yki_pace *p, uint64_t back)
{
    const yki_point *at = &p->window[(p->seen - 1 - back) % YKI_PACE_WINDOW];

    return at->seconds / (p->o + (double)at->n);
}

/* Collects b by the steps [from, to) ago, sorted. The prior counts as PRIOR more steps if there is
 * room. */
static size_t
collect(const yki_pace *p, uint64_t from, uint64_t to, double *values)
{
    size_t count = 0;

    for (uint64_t i = from; i < YKI_MIN(p->since, to); i++)
        values[count++] = b_of(p, i);
    for (int i = 0; i < PRIOR && p->prior > 0 && count < to - from; i++)
        values[count++] = p->prior;
    sort(values, count);
    return count;
}

/* The relative standard error of the median of sorted values. The middle half of normal numbers is
 * 1.349 standard deviations wide. The standard error of a median is 1.253 times that of a mean. */
static double
error_of(const double *values, size_t count)
{
    double middle = values[(3 * count) / 4] - values[count / 4];

    return 1.253 / 1.349 * middle / (values[count / 2] * sqrt((double)count));
}

double
yki_pace_doubt(const yki_pace *p)
{
    double values[AVERAGE];
    size_t count = collect(p, 0, AVERAGE, values);

    return count > 1 ? error_of(values, count) : 0;
}

double
yki_pace_least(const yki_pace *p, uint64_t most, int64_t n)
{
    double least = p->b;

    for (uint64_t i = 0; i < YKI_MIN(p->since, most); i++)
        least = fmin(least, b_of(p, i));
    return least * (p->o + (double)n);
}

double
yki_pace_measured(const yki_pace *p, int64_t n)
{
    double values[YKI_PACE_SETTLED + 2];
    size_t count = 0;

    for (uint64_t i = 0; i < YKI_MIN(p->seen, (uint64_t)YKI_COUNT(values)); i++) {
        const yki_point *at = &p->window[(p->seen - 1 - i) % YKI_PACE_WINDOW];

        if (at->n == n)
            values[count++] = at->seconds;
    }
    return count ? median(values, count) : 0;
}

/* Whether the newest m steps, all but a fifth of them, are beyond what the steps before make
 * likely. `up`: slower, else faster. */
static bool
is_change(const yki_pace *p, size_t m, bool up)
{
    double newest[RUN_MOST], before[YKI_PACE_WINDOW + PRIOR], bound, part, chance = 1;
    size_t skip = m / 5, older, beyond = 0;

    for (size_t i = 0; i < m; i++)
        newest[i] = b_of(p, i);
    sort(newest, m);
    bound = up ? newest[skip] : newest[m - 1 - skip];
    if (up ? bound <= p->b * (1 + JUMP) : bound >= p->b / (1 + JUMP))
        return false;
    older = collect(p, m, YKI_PACE_WINDOW, before);
    for (size_t i = 0; i < older; i++)
        beyond += up ? before[i] >= bound : before[i] <= bound;
    part = ((double)beyond + 0.5) / ((double)older + 1);
    for (size_t i = 0; i < m - skip; i++)
        chance *= part;
    for (size_t i = 0; i < skip; i++) /* ways to choose the steps that do not count */
        chance *= (double)(m - i) / (double)(i + 1);
    return chance < CHANCE;
}

/* Counts the newest steps that show another speed; 0: none do. The run must last for a moment, by
 * the time that its steps should have taken. */
static size_t
find_change(const yki_pace *p)
{
    static const uint8_t runs[] = {3, 4, 5, 6, 8, 10, 13, 18, 24, RUN_MOST};
    double newest = b_of(p, 0), seconds = 0;
    uint64_t added = 0;

    if (newest <= p->b * (1 + JUMP) && newest >= p->b / (1 + JUMP))
        return 0;
    for (size_t i = 0; i < YKI_COUNT(runs) && runs[i] < p->since; i++) {
        for (; added < runs[i]; added++)
            seconds += p->b * (p->o + (double)p->window[(p->seen - 1 - added) % YKI_PACE_WINDOW].n);
        if ((seconds >= YKI_PACE_MOMENT || runs[i] == RUN_MOST) &&
            is_change(p, runs[i], newest > p->b))
            return runs[i];
    }
    return 0;
}

/* Corrects o once steps at the new count n have been seen. If their time differs from the expected
 * one by more than their scatter, it gives the slope, with the time at the count before. Half of
 * the correction is made: the geometric mean of both slopes. A slope far from the model's means
 * that the speed changed in between, unless o was so large that the time should hardly depend on
 * the count. */
static void
learn_overhead(yki_pace *p, int64_t n)
{
    size_t count = (size_t)YKI_MIN(p->settled, (uint64_t)AVERAGE);
    double apart = (double)(n - p->anchor.n), samples = p->o + (double)n;
    double left = p->anchor.seconds / (p->o + (double)p->anchor.n); /* b at the count before */
    bool huge = p->o >= HUGE_OVERHEAD * (double)YKI_MAX(n, p->anchor.n);
    double values[AVERAGE], wrong, now, slope;

    for (size_t i = 0; i < count; i++)
        values[i] = b_of(p, i);
    sort(values, count);
    wrong = CERTAIN * error_of(values, count);
    now = median(values, count) * samples;
    slope = (now - p->anchor.seconds) / apart;
    if (fabs(slope - left) * fabs(apart) < wrong * now && count < AVERAGE)
        return;
    p->anchor.n = 0;
    if (fabs(slope - left) * fabs(apart) < wrong * now ||
        fabs(apart) < 0.1 * (double)YKI_MAX(n, 1) || slope < left / 2.5 ||
        (slope > left * 2.5 && !huge))
        return;
    slope = sqrt(slope * left);
    set_model(p, fmin(fmax(now / slope - (double)n, -0.5 * (double)n), 1e6 * (double)n), slope);
    p->since = count;
    p->prior = 0;
}

/* Corrects o once a probe and as many steps after it, with few samples again, have been seen. The
 * probe's time counts only if the steps after it show that the speed did not change. */
static void
learn_from_probe(yki_pace *p)
{
    int64_t few = p->probe[YKI_PACE_PROBES].n, more = p->probe[0].n - few;
    double before = p->b * (p->o + (double)few), probed, after, slope;
    double values[2][YKI_PACE_PROBES];

    p->probes = 0;
    for (size_t i = 0; i < YKI_PACE_PROBES; i++) {
        values[0][i] = p->probe[i].seconds;
        values[1][i] = p->probe[YKI_PACE_PROBES + i].seconds;
    }
    probed = median(values[0], YKI_PACE_PROBES);
    after = median(values[1], YKI_PACE_PROBES);
    if (probed > SURPRISE * p->b * (p->o + (double)p->probe[0].n) || after < SURPRISE * before)
        return;
    /* A slope below a hundredth is noise, as in fit(). */
    slope = fmax((probed - before) / (double)more, 0.01 * probed / (double)p->probe[0].n);
    set_model(p, fmax(before / slope - (double)few, 0), slope);
    p->prior = 0;
}

void
yki_pace_observe(yki_pace *p, int64_t n, double seconds, bool present)
{
    double values[AVERAGE];
    size_t changed;

    /* A model with a < 0 was learnt at larger counts, and may give times near 0 at this one. */
    if (p->known && p->o + (double)n < 0.5 * (double)n)
        p->o = -0.5 * (double)n;
    p->window[p->seen % YKI_PACE_WINDOW] = (yki_point){n, seconds};
    p->seen++;
    p->since = YKI_MIN(p->since + 1, (uint64_t)YKI_PACE_WINDOW);
    p->settled += present;
    if (p->probes >= YKI_PACE_PROBES && present) {
        if (p->probes == YKI_PACE_PROBES || n == p->probe[YKI_PACE_PROBES].n)
            p->probe[p->probes++] = (yki_point){n, seconds};
        if (p->probes == YKI_COUNT(p->probe))
            learn_from_probe(p);
    }
    if (!p->known)
        set_model(p, 0, seconds / (double)n);
    if (p->anchor.n > 0 && p->settled >= YKI_PACE_SETTLED)
        learn_overhead(p, n);
    if ((changed = find_change(p)) > 0) {
        p->since = changed;
        p->prior = 0;
    }
    /* One step alone proves nothing. */
    if (p->prior > 0 || p->since >= YKI_PACE_SETTLED)
        set_model(p, p->o, median(values, collect(p, 0, AVERAGE, values)));
}

void
yki_pace_probe(yki_pace *p, int64_t n, double seconds)
{
    if (p->probes < YKI_PACE_PROBES && (p->probes == 0 || p->probe[0].n == n))
        p->probe[p->probes++] = (yki_point){n, seconds};
}

void
yki_pace_forget(yki_pace *p)
{
    p->since = 0;
    p->prior = 0;
}

void
yki_pace_leave(yki_pace *p, int64_t n)
{
    yki_line line = yki_pace_line(p);

    p->anchor = (yki_point){n, yki_line_seconds(&line, n)};
}

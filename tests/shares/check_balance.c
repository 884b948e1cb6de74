/* SPDX-License-Identifier: Apache-2.0
 *
 * check_balance.c - shares that follow speed, on devices that are formulas.
 *
 * Each has overhead and seconds a sample, a factor that changes with the step, noise and
 * outliers; times are observed two steps late, as a trainer that pipelines sees them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shares/shares.h"
#include "support/support.h"

enum { MOST = 64, LATE = 2 };

typedef struct simulation {
    size_t devices;
    int64_t batch;
    double a[MOST], b[MOST];
    double square[MOST];  /* seconds * n^2: slower with size than a line */
    double factor[MOST];  /* of all its times, now */
    double noise;         /* part of a time, uniform to both sides */
    uint32_t outliers;    /* one time in so many is ten times as long; 0: none */
    uint32_t bursts;      /* one in so many begins four that are; 0: none */
    uint32_t burst[MOST]; /* times left of one */
    uint32_t drawn;
    int64_t counts[LATE + 1][MOST];
    double seconds[LATE + 1][MOST];
    uint64_t steps;
    double total; /* seconds of all steps: the slowest device of each */
    yki_shares *shares;
} simulation;

static double
uniform(simulation *s)
{
    uint32_t out[4];

    yki_philox((uint32_t[2]){3, 9}, (uint32_t[4]){s->drawn++, 0, 0, 0}, out);
    return out[0] / 4294967296.0;
}

static double
exact(const simulation *s, size_t k, int64_t n)
{
    return n > 0 ? s->factor[k] * (s->a[k] + s->b[k] * (double)n + s->square[k] * (double)(n * n))
                 : 0;
}

static double
noisy(simulation *s, size_t k, int64_t n)
{
    double t = exact(s, k, n) * (1 + s->noise * (2 * uniform(s) - 1));

    if (s->bursts && uniform(s) * s->bursts < 1)
        s->burst[k] = 4;
    if (s->burst[k] > 0) {
        s->burst[k]--;
        return 10 * t;
    }
    return s->outliers && uniform(s) * s->outliers < 1 ? 10 * t : t;
}

static double
makespan(const simulation *s, const int64_t *counts)
{
    double most = 0;

    for (size_t k = 0; k < s->devices; k++)
        most = fmax(most, exact(s, k, counts[k]));
    return most;
}

/* Devices a[k], b[k] in milliseconds. */
static void
begin(simulation *s, size_t devices, int64_t batch, const double *a, const double *b)
{
    memset(s, 0, sizeof *s);
    s->devices = devices;
    s->batch = batch;
    for (size_t k = 0; k < devices; k++) {
        s->a[k] = 1e-3 * a[k];
        s->b[k] = 1e-3 * b[k];
        s->factor[k] = 1;
    }
}

static void
create(simulation *s, const char *shares)
{
    ASSERT_OK(yki_shares_create(
        s->devices, &(yki_shares_options){.shares = shares, .batch = s->batch}, &s->shares));
}

static void
calibrate(simulation *s)
{
    int64_t even = YKI_MAX(s->batch / (int64_t)s->devices, 1);
    int64_t other = even >= 4 ? even / 4 : even + 3;

    for (size_t k = 0; k < s->devices; k++)
        for (int i = 0; i < 3; i++) {
            yki_shares_calibrate(s->shares, k, even, noisy(s, k, even));
            yki_shares_calibrate(s->shares, k, other, noisy(s, k, other));
        }
}

static void
step(simulation *s, int64_t n)
{
    size_t slot = s->steps % (LATE + 1);
    int64_t sum = 0;

    /* The slot holds the step of LATE + 1 before: its times come now at the latest. */
    if (s->steps > LATE)
        yki_shares_observe(s->shares, s->counts[slot], s->seconds[slot]);
    ASSERT_OK(yki_shares_next(s->shares, n, s->counts[slot]));
    for (size_t k = 0; k < s->devices; k++) {
        ck_assert_int_ge(s->counts[slot][k], 0);
        sum += s->counts[slot][k];
        s->seconds[slot][k] = noisy(s, k, s->counts[slot][k]);
    }
    ck_assert_int_eq(sum, n);
    s->total += makespan(s, s->counts[slot]);
    s->steps++;
}

static void
run(simulation *s, int steps)
{
    for (int i = 0; i < steps; i++)
        step(s, s->batch);
}

static const int64_t *
newest(const simulation *s)
{
    return s->counts[(s->steps - 1) % (LATE + 1)];
}

/* The best that any split reaches now, by the formulas. */
static double
best(const simulation *s)
{
    yki_line lines[MOST];
    int64_t counts[MOST];

    for (size_t k = 0; k < s->devices; k++)
        lines[k] = (yki_line){s->factor[k] * s->a[k], s->factor[k] * s->b[k]};
    return yki_shares_fastest(lines, NULL, NULL, s->devices, s->batch, counts);
}

/* How near the newest step is to the best. */
static double
reached(const simulation *s)
{
    return best(s) / makespan(s, newest(s));
}

#define ASSERT_REACHED(s, part)                                                                    \
    ck_assert_msg(reached(s) >= (part), "step %llu reaches %.4f of the best, less than %g",        \
                  (unsigned long long)(s)->steps, reached(s), (double)(part))

static const double none[MOST],
    ones[MOST] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* One device three times as slow: the first step is already right, and stays. */
START_TEST(calibration_tells_the_first_step)
{
    simulation s;

    begin(&s, 2, 64, (double[]){2, 1}, (double[]){1, 3});
    create(&s, NULL);
    calibrate(&s);
    run(&s, 1);
    ASSERT_REACHED(&s, 1);
    run(&s, 500);
    ASSERT_REACHED(&s, 1);
    {
        yki_shares_state state;

        yki_shares_get_state(s.shares, &state);
        ck_assert_uint_eq(state.changes, 0);
    }
    ck_assert_double_ge((double)s.batch / best(&s), 0.93 * yki_shares_ceiling(s.shares));
    yki_shares_destroy(s.shares);
}
END_TEST

/* The pair: 1.9 times an even split at least, 0.95 of the sum of speeds. */
START_TEST(unequal_pair)
{
    simulation s;
    int64_t even[2] = {32, 32};

    begin(&s, 2, 64, (double[]){0.2, 0.6}, (double[]){1, 3});
    s.noise = 0.02;
    create(&s, "auto");
    calibrate(&s);
    run(&s, 200);
    ck_assert_double_ge(makespan(&s, even) * 200 / s.total, 1.9);
    ck_assert_double_ge(64 * 200 / s.total, 0.95 * (64 / exact(&s, 0, 64) + 64 / exact(&s, 1, 64)));
    yki_shares_destroy(s.shares);
}
END_TEST

/* ---- a busy machine ---- */

/* As a trainer does it: the least of many short passes. */
static void
calibrate_busy(simulation *s)
{
    const int64_t even = s->batch / (int64_t)s->devices, sizes[] = {even, even / 4};

    for (size_t i = 0; i < YKI_COUNT(sizes); i++)
        for (size_t k = 0; k < s->devices; k++) {
            double least = INFINITY;

            for (int run = 0; run < 27; run++)
                least = fmin(least, noisy(s, k, sizes[i]));
            yki_shares_calibrate(s->shares, k, sizes[i], least);
        }
}

/* How shares of the first of two devices went. */
typedef struct path {
    int64_t least, most, moved, largest; /* samples: of all steps, and of one step to the next */
    int astray;    /* steps in which it had less than a quarter or more than three */
    double regret; /* part of the time that the best splits would have saved */
} path;

/* `steps` steps; `slow`: now and then one device, at random, is slow for a random while. */
static path
walk(simulation *s, int steps, double slow)
{
    path p = {.least = INT64_MAX};
    double ideal = 0, before = s->total;
    int left = 0;

    for (int i = 0; i < steps; i++) {
        int64_t last = i ? newest(s)[0] : -1;

        if (slow > 1 && --left < 0) {
            left = 100 + (int)(300 * uniform(s));
            s->factor[0] = s->factor[1] = 1;
            if (uniform(s) < 0.67)
                s->factor[uniform(s) < 0.5] = slow;
        }
        step(s, s->batch);
        ideal += best(s);
        p.least = YKI_MIN(p.least, newest(s)[0]);
        p.most = YKI_MAX(p.most, newest(s)[0]);
        p.astray += 4 * newest(s)[0] < s->batch || 4 * newest(s)[0] > 3 * s->batch;
        last = last < 0 ? 0 : newest(s)[0] > last ? newest(s)[0] - last : last - newest(s)[0];
        p.moved += last;
        p.largest = YKI_MAX(p.largest, last);
    }
    p.regret = 1 - ideal / (s->total - before);
    return p;
}

enum { SEEDS = 60, STEPS = 2000 };

#define ASSERT_PATH(holds, p, seed, batch)                                                         \
    ck_assert_msg((holds) && (p).least > 0 && (p).most < (batch),                                  \
                  "seed %u, batch %lld: %lld to %lld, %lld moved, %lld at once, %d steps astray, " \
                  "regret %.3f",                                                                   \
                  seed, (long long)(batch), (long long)(p).least, (long long)(p).most,             \
                  (long long)(p).moved, (long long)(p).largest, (p).astray, (p).regret)

/* Two equal devices that need as long for the overhead as for all samples, steps of a fifth of a
 * millisecond: times scatter by a quarter, one in eight is ten times as long, and so are four in a
 * row now and then. Shares stay near one half, and nobody is ever left out. */
START_TEST(busy_equals_do_not_flip)
{
    static const int64_t batches[] = {16, 32, 128};

    for (uint32_t i = 0; i < SEEDS; i++) {
        int64_t batch = batches[i % YKI_COUNT(batches)];
        double b = 0.1 / (double)batch;
        simulation s;
        path p;

        begin(&s, 2, batch, (double[]){0.1, 0.1}, (double[]){b, b});
        s.drawn = 10000000 * i;
        s.noise = 0.25;
        s.outliers = 8;
        s.bursts = 200;
        create(&s, NULL);
        calibrate_busy(&s);
        p = walk(&s, STEPS, 1);
        ASSERT_PATH(p.moved <= 6 * batch && p.largest <= batch / 4 && p.astray <= STEPS / 20 &&
                        p.regret <= 0.06,
                    p, i, batch);
        yki_shares_destroy(s.shares);
    }
}
END_TEST

/* One device is three times as fast as the other, and now and then one of them, at random, is three
 * times as slow for a while. Steps of two milliseconds, some of them ten times as long. */
START_TEST(busy_unequals_are_followed)
{
    double regret = 0;

    for (uint32_t i = 0; i < SEEDS; i++) {
        int64_t batch = i % 2 ? 16 : 96;
        double b = 3.2 / (double)batch;
        simulation s;
        path p;

        begin(&s, 2, batch, (double[]){0.1, 0.3}, (double[]){b, 3 * b});
        s.drawn = 10000000 * i;
        s.noise = 0.15;
        s.outliers = 8;
        create(&s, NULL);
        calibrate_busy(&s);
        p = walk(&s, STEPS, 3);
        ASSERT_PATH(p.moved <= 6 * batch && p.largest <= batch / 4 && p.regret <= 0.15, p, i,
                    batch);
        regret += p.regret / SEEDS;
        yki_shares_destroy(s.shares);
    }
    ck_assert_double_le(regret, 0.06);
}
END_TEST

/* Told that a device needs fifty times as long a sample as it does, and nothing before the first:
 * with one sample, all that it gets then, its steps do not tell otherwise. */
START_TEST(one_sample_is_not_all_for_ever)
{
    static const int64_t batches[] = {16, 32};

    for (uint32_t i = 0; i < SEEDS; i++) {
        int64_t batch = batches[i % 2];
        double b = 0.1 / (double)batch;
        simulation s;

        begin(&s, 2, batch, (double[]){0.1, 0.1}, (double[]){b, b});
        s.drawn = 10000000 * i;
        s.noise = 0.25;
        s.outliers = 8;
        create(&s, NULL);
        calibrate_busy(&s);
        yki_shares_set_line(s.shares, 1, (yki_line){0, 50 * s.b[1]});
        run(&s, STEPS);
        ck_assert_msg(4 * newest(&s)[1] >= batch, "seed %u, batch %lld: %lld+%lld", i,
                      (long long)batch, (long long)newest(&s)[0], (long long)newest(&s)[1]);
        yki_shares_destroy(s.shares);
    }
}
END_TEST

START_TEST(without_calibration_steps_tell)
{
    simulation s;

    begin(&s, 3, 100, none, (double[]){1, 2, 5});
    create(&s, NULL);
    run(&s, 1);
    ck_assert_int_le(newest(&s)[0] - newest(&s)[2], 1);
    run(&s, 15);
    ASSERT_REACHED(&s, 0.97);
    yki_shares_destroy(s.shares);
}
END_TEST

/* Three times as slow from a step on, and back: within ten steps each, noise or not. */
START_TEST(changes_are_followed)
{
    static const double noises[] = {0, 0.03};

    for (size_t i = 0; i < YKI_COUNT(noises); i++) {
        simulation s;

        begin(&s, 2, 96, (double[]){1, 1}, (double[]){1, 1});
        s.noise = noises[i];
        create(&s, NULL);
        calibrate(&s);
        run(&s, 50);
        ASSERT_REACHED(&s, 0.96);
        for (int cycle = 0; cycle < 10; cycle++) {
            s.factor[0] = 3;
            run(&s, 10);
            ASSERT_REACHED(&s, 0.95);
            run(&s, 31 + cycle);
            ASSERT_REACHED(&s, 0.96);
            s.factor[0] = 1;
            run(&s, 10);
            ASSERT_REACHED(&s, 0.95);
            run(&s, 17 + 3 * cycle);
            ASSERT_REACHED(&s, 0.96);
        }
        yki_shares_destroy(s.shares);
    }
}
END_TEST

START_TEST(drift_is_followed)
{
    simulation s;
    double worst = 1;

    begin(&s, 3, 120, (double[]){1, 1, 1}, (double[]){1, 1.5, 2});
    s.noise = 0.02;
    create(&s, NULL);
    calibrate(&s);
    for (int i = 0; i < 2000; i++) {
        s.factor[1] *= i < 1000 ? 1.002 : 1 / 1.002;
        run(&s, 1);
        if (i > 20)
            worst = fmin(worst, reached(&s));
    }
    ck_assert_double_ge(worst, 0.92);
    ASSERT_REACHED(&s, 0.96);
    yki_shares_destroy(s.shares);
}
END_TEST

/* Noise and outliers move no share for long: the whole run is within 3 % of the best. */
START_TEST(noise_is_not_followed)
{
    simulation s;
    yki_shares_state state;

    begin(&s, 4, 256, (double[]){1, 2, 1, 2}, (double[]){1, 2, 3, 4});
    s.noise = 0.05;
    s.outliers = 20;
    create(&s, NULL);
    calibrate(&s);
    run(&s, 1000);
    ck_assert_double_ge(best(&s) * 1000 / s.total, 0.97);
    yki_shares_get_state(s.shares, &state);
    ck_assert_uint_le(state.changes, 40);
    yki_shares_destroy(s.shares);
}
END_TEST

/* Calibrated as if there were no overhead, or twice the true; and times that grow faster. */
START_TEST(wrong_overheads_are_learnt)
{
    static const double told[] = {0, 0.5, 2};

    for (size_t i = 0; i < YKI_COUNT(told); i++) {
        simulation s;

        begin(&s, 2, 128, (double[]){20, 5}, (double[]){1, 4});
        create(&s, NULL);
        for (size_t k = 0; k < 2; k++)
            yki_shares_set_line(s.shares, k, (yki_line){told[i] * s.a[k], s.b[k]});
        run(&s, 40);
        ASSERT_REACHED(&s, 0.97);
        yki_shares_destroy(s.shares);
    }
    for (int i = 0; i < 2; i++) {
        simulation s;
        double least = INFINITY;

        begin(&s, 2, 128, none, (double[]){1, 1});
        s.square[1] = 1e-3 * (i ? 0.1 : 0.02);
        create(&s, NULL);
        calibrate(&s);
        run(&s, 60);
        for (int64_t n = 0; n <= 128; n++)
            least = fmin(least, makespan(&s, (int64_t[]){n, 128 - n}));
        ck_assert_double_le(makespan(&s, newest(&s)), least / 0.97);
        yki_shares_destroy(s.shares);
    }
}
END_TEST

/* 1 to 64 devices of random speeds, batches 1 to 4096: 0.97 of the best; with all steps counted. */
START_TEST(teams_of_all_sizes)
{
    static const size_t sizes[] = {1, 2, 3, 4, 7, 16, 33, 64};
    static const int64_t batches[] = {1, 2, 7, 64, 100, 1024, 4096};

    for (size_t i = 0; i < YKI_COUNT(sizes); i++)
        for (size_t j = 0; j < YKI_COUNT(batches); j++) {
            simulation s;
            int steps = sizes[i] > 16 ? 150 : 400;

            begin(&s, sizes[i], batches[j], none, none);
            s.drawn = (uint32_t)(1000000 * (i + 10 * j));
            for (size_t k = 0; k < s.devices; k++) {
                s.b[k] = 1e-3 * (1 + 9 * uniform(&s));
                s.a[k] = s.b[k] * uniform(&s);
            }
            s.noise = 0.01;
            create(&s, NULL);
            calibrate(&s);
            run(&s, steps);
            ck_assert_msg(best(&s) * steps / s.total >= 0.96, "%zu devices, batch %lld: %.4f",
                          s.devices, (long long)s.batch, best(&s) * steps / s.total);
            yki_shares_destroy(s.shares);
        }
}
END_TEST

static const char *
explained(const yki_shares *shares)
{
    test_forget_lines();
    yki_shares_explain(shares, &(yki_teller){test_keep_line, NULL});
    return test_lines;
}

/* What nobody knows yet is said in words, and no time of 0. */
START_TEST(what_is_not_known_is_told_so)
{
    simulation s;

    begin(&s, 2, 64, (double[]){1, 1}, (double[]){1, 1});
    create(&s, NULL);
    ck_assert_msg(strstr(explained(s.shares), " not known      not yet "), "%s", test_lines);
    ck_assert_ptr_null(strstr(test_lines, "0.000 ms"));
    yki_shares_destroy(s.shares);
}
END_TEST

/* A device whose overhead alone is more than the step of the others is left out, with the reason;
 * when it becomes fast, a probe finds it. */
START_TEST(what_holds_back_is_left_out)
{
    simulation s;
    yki_share_info info;
    uint64_t left;

    begin(&s, 3, 64, (double[]){1, 500, 1}, (double[]){1, 1, 1});
    create(&s, NULL);
    calibrate(&s);
    run(&s, 20);
    ck_assert_int_eq(newest(&s)[1], 0);
    yki_shares_get(s.shares, 1, &info);
    ck_assert(strstr(info.reason, "501 ms") != NULL);
    ck_assert(strstr(explained(s.shares), "left out: one sample takes it 501 ms") != NULL);
    ASSERT_REACHED(&s, 1);
    s.factor[1] = 0.002;
    for (left = 0; left < 20000 && newest(&s)[1] < 10; left++)
        run(&s, 1);
    ck_assert_uint_lt(left, 20000);
    run(&s, 40); /* the two others become useless, and go after 20 evaluations */
    ASSERT_REACHED(&s, 0.97);
    yki_shares_get(s.shares, 1, &info);
    ck_assert_str_eq(info.reason, "");
    yki_shares_destroy(s.shares);
}
END_TEST

/* Probes of a slow device cost less than a hundredth of all time, whether it has nothing to do or
 * one sample, which is as much as it can. */
START_TEST(probes_are_cheap)
{
    static const struct {
        double a, b; /* of the second device, milliseconds */
        int64_t has;
    } slow[] = {{2000, 1, 0}, {0, 50, 1}};

    for (size_t i = 0; i < YKI_COUNT(slow); i++) {
        simulation s;
        int probes = 0;

        begin(&s, 2, 64, (double[]){1, slow[i].a}, (double[]){1, slow[i].b});
        create(&s, NULL);
        calibrate(&s);
        for (int k = 0; k < 50000; k++) {
            run(&s, 1);
            probes += newest(&s)[1] > slow[i].has;
        }
        ck_assert_int_ge(probes, 2);
        ck_assert_int_eq(newest(&s)[1], slow[i].has);
        ck_assert_double_ge(best(&s) * 50000 / s.total, 0.97);
        yki_shares_destroy(s.shares);
    }
}
END_TEST

/* A sample that shortens a step by less than a reduction is worth is not given away. */
START_TEST(next_to_useless_is_left_out)
{
    simulation s;

    begin(&s, 2, 1000, none, (double[]){1, 150});
    create(&s, NULL);
    calibrate(&s);
    run(&s, 30);
    ck_assert_int_eq(newest(&s)[1], 0);
    ck_assert(strstr(explained(s.shares), "shorter by") != NULL);
    s.factor[1] = 0.1; /* a fifteenth of the team's speed is worth it */
    run(&s, 300);
    ck_assert_int_gt(newest(&s)[1], 0);
    s.factor[1] = 1; /* and back: only after it has been so for a while */
    run(&s, 5);
    ck_assert_int_gt(newest(&s)[1], 0);
    run(&s, 50);
    ck_assert_int_eq(newest(&s)[1], 0);
    yki_shares_destroy(s.shares);
}
END_TEST

START_TEST(memory_bounds)
{
    int64_t limits[3] = {10, 100, 100}, counts[3];
    yki_shares_options o = {.batch = 64, .limits = limits};
    simulation s;

    begin(&s, 3, 64, none, (double[]){1, 4, 4});
    ASSERT_OK(yki_shares_create(3, &o, &s.shares));
    ck_assert_int_eq(yki_shares_largest_batch(s.shares, limits), 210);
    calibrate(&s);
    run(&s, 30);
    ck_assert_int_eq(newest(&s)[0], 10);
    ck_assert(strstr(explained(s.shares), "no more than 10 samples") != NULL);
    limits[0] = 5;
    ASSERT_OK(yki_shares_set_limits(s.shares, limits));
    run(&s, 3);
    ck_assert_int_eq(newest(&s)[0], 5);
    limits[1] = limits[2] = 29;
    ASSERT_STATUS(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, yki_shares_set_limits(s.shares, limits));
    ASSERT_DETAIL("63");
    run(&s, 1);
    yki_shares_destroy(s.shares);

    limits[1] = 5, limits[2] = 49;
    ASSERT_STATUS(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, yki_shares_create(3, &o, &s.shares));
    limits[1] = limits[2] = 100;
    o.shares = "even";
    ASSERT_STATUS(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, yki_shares_create(3, &o, &s.shares));
    ASSERT_DETAIL("device 0");
    o.shares = "10,20,70";
    o.batch = 50;
    ASSERT_OK(yki_shares_create(3, &o, &s.shares));
    ck_assert_int_eq(yki_shares_largest_batch(s.shares, limits), 50);
    ASSERT_STATUS(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, yki_shares_set(s.shares, "80,10,10"));
    yki_shares_divide(s.shares, 50, counts);
    ck_assert(counts[0] == 5 && counts[1] == 10 && counts[2] == 35);
    yki_shares_destroy(s.shares);
}
END_TEST

START_TEST(given_shares_stay)
{
    simulation s;

    begin(&s, 2, 10, none, (double[]){1, 50});
    create(&s, "80,20");
    calibrate(&s);
    run(&s, 50);
    ck_assert(newest(&s)[0] == 8 && newest(&s)[1] == 2);
    step(&s, 7);
    ck_assert(newest(&s)[0] == 6 && newest(&s)[1] == 1);
    step(&s, 0);
    ck_assert(newest(&s)[0] == 0 && newest(&s)[1] == 0);
    ck_assert(strstr(explained(s.shares), "whose share is given") != NULL);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_shares_next(s.shares, 11, s.counts[0]));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_shares_next(s.shares, -1, s.counts[0]));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_shares_set(s.shares, "0,0"));
    run(&s, 1);
    ck_assert_int_eq(newest(&s)[0], 8);
    ASSERT_OK(yki_shares_set(s.shares, "auto"));
    run(&s, 2);
    ASSERT_REACHED(&s, 1);
    ASSERT_OK(yki_shares_set(s.shares, "even"));
    run(&s, 1);
    ck_assert_int_eq(newest(&s)[0], 5);
    yki_shares_destroy(s.shares);
}
END_TEST

START_TEST(fixed_shares_stay)
{
    simulation s;
    int64_t counts[2] = {20, 12}, wrong[2] = {20, 13};

    begin(&s, 2, 32, none, ones);
    ASSERT_OK(yki_shares_create(s.devices, &(yki_shares_options){.batch = s.batch, .fixed = true},
                                &s.shares));
    calibrate(&s);
    run(&s, 1);
    ck_assert_int_eq(newest(&s)[0], 16);
    s.factor[1] = 5;
    run(&s, 100);
    ck_assert_int_eq(newest(&s)[0], 16);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_shares_set_counts(s.shares, wrong));
    wrong[0] = -1, wrong[1] = 33;
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_shares_set_counts(s.shares, wrong));
    ASSERT_OK(yki_shares_set_counts(s.shares, counts));
    run(&s, 50);
    ck_assert(newest(&s)[0] == 20 && newest(&s)[1] == 12);
    yki_shares_destroy(s.shares);
}
END_TEST

/* Times that are not measured, not numbers, or of devices without samples change nothing. */
START_TEST(useless_times_are_left_aside)
{
    static const double bad[] = {0, -1, NAN, INFINITY};
    simulation s;

    begin(&s, 2, 30, none, (double[]){1, 2});
    create(&s, NULL);
    calibrate(&s);
    run(&s, 10);
    for (int i = 0; i < 100; i++) {
        int64_t counts[2];

        ASSERT_OK(yki_shares_next(s.shares, 30, counts));
        ck_assert(counts[0] == 20 && counts[1] == 10);
        yki_shares_observe(s.shares, counts, (double[]){bad[i % 4], bad[(i / 4) % 4]});
        yki_shares_observe(s.shares, (int64_t[]){0, 10}, (double[]){55, 0.02});
    }
    yki_shares_destroy(s.shares);
}
END_TEST

/* Two processes that see the same times decide the same. */
START_TEST(decisions_are_functions_of_times)
{
    simulation s;
    yki_shares *twin;

    begin(&s, 5, 333, (double[]){1, 2, 3, 4, 5}, (double[]){5, 1, 4, 2, 3});
    s.noise = 0.2;
    s.outliers = 5;
    create(&s, NULL);
    ASSERT_OK(yki_shares_create(5, &(yki_shares_options){.batch = 333}, &twin));
    for (int i = 0; i < 500; i++) {
        int64_t a[5], b[5], n = i % 7 ? 333 : i % 333;
        double seconds[5];

        ASSERT_OK(yki_shares_next(s.shares, n, a));
        ASSERT_OK(yki_shares_next(twin, n, b));
        ck_assert_mem_eq(a, b, sizeof a);
        for (size_t k = 0; k < 5; k++)
            seconds[k] = noisy(&s, k, a[k]);
        yki_shares_observe(s.shares, a, seconds);
        yki_shares_observe(twin, b, seconds);
    }
    yki_shares_destroy(s.shares);
    yki_shares_destroy(twin);
}
END_TEST

START_TEST(lines_are_kept_and_told)
{
    yki_shares *shares;
    yki_line line = {0};
    const char *names[] = {"gpu:0", "cpu:0"};

    ASSERT_OK(yki_shares_create(2, &(yki_shares_options){.batch = 40, .names = names}, &shares));
    ck_assert(!yki_shares_get_line(shares, 0, &line));
    yki_shares_calibrate(shares, 0, 4, 0.006);
    yki_shares_calibrate(shares, 0, 16, 0.018);
    yki_shares_calibrate(shares, 0, 16, 0.9); /* medians of two are their mean */
    yki_shares_calibrate(shares, 0, 16, 0.018);
    ck_assert(yki_shares_get_line(shares, 0, &line));
    ck_assert_double_eq_tol(line.a, 0.002, 1e-9);
    ck_assert_double_eq_tol(line.b, 0.001, 1e-9);
    yki_shares_set_line(shares, 1, (yki_line){0.001, 0.002});
    ck_assert(yki_shares_get_line(shares, 1, &line));
    ck_assert_double_eq_tol(line.a, 0.001, 1e-9);
    ck_assert(strstr(explained(shares), "gpu:0") != NULL);
    yki_shares_destroy(shares);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_shares_create(2, &(yki_shares_options){.batch = 0}, &shares));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_shares_create(0, &(yki_shares_options){.batch = 1}, &shares));
    yki_shares_destroy(NULL);
}
END_TEST

START_TEST(allocations_that_fail)
{
    for (uint64_t n = 1; n < 100; n++) {
        yki_shares *shares = NULL;
        yoke_status status;

        yki_alloc_fail_at(n);
        status =
            yki_shares_create(3, &(yki_shares_options){.batch = 9, .shares = "1,2,3"}, &shares);
        yki_alloc_fail_at(0);
        if (status == YOKE_OK) {
            ck_assert_uint_gt(n, 10);
            yki_shares_destroy(shares);
            return;
        }
        ck_assert_int_eq(status, YOKE_ERROR_OUT_OF_MEMORY);
        ck_assert_ptr_null(shares);
    }
    ck_abort_msg("creation never succeeds");
}
END_TEST

/* A decision each step must cost next to nothing: 0.5 % of a step of one millisecond. */
START_TEST(balancing_is_cheap)
{
    simulation s;
    double seconds[2] = {0.064, 0.064};
    int64_t counts[2];
    clock_t start;

    begin(&s, 2, 128, none, ones);
    create(&s, NULL);
    calibrate(&s);
    run(&s, 10);
    start = clock(); /* of this process: other programs run beside it */
    for (int i = 0; i < 20000; i++) {
        ASSERT_OK(yki_shares_next(s.shares, 128, counts));
        yki_shares_observe(s.shares, counts, seconds);
    }
    ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC / 20000, 50e-6);
    yki_shares_destroy(s.shares);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("balance");
    TCase *tc = test_case(suite, "speed");

    tcase_add_test(tc, calibration_tells_the_first_step);
    tcase_add_test(tc, unequal_pair);
    tcase_add_test(tc, without_calibration_steps_tell);
    tcase_add_test(tc, changes_are_followed);
    tcase_add_test(tc, drift_is_followed);
    tcase_add_test(tc, noise_is_not_followed);
    tcase_add_test(tc, wrong_overheads_are_learnt);
    tcase_add_test(tc, teams_of_all_sizes);
    tc = test_case(suite, "busy");
    tcase_add_test(tc, busy_equals_do_not_flip);
    tcase_add_test(tc, busy_unequals_are_followed);
    tcase_add_test(tc, one_sample_is_not_all_for_ever);
    tc = test_case(suite, "left out");
    tcase_add_test(tc, what_is_not_known_is_told_so);
    tcase_add_test(tc, what_holds_back_is_left_out);
    tcase_add_test(tc, probes_are_cheap);
    tcase_add_test(tc, next_to_useless_is_left_out);
    tc = test_case(suite, "fixed");
    tcase_add_test(tc, memory_bounds);
    tcase_add_test(tc, given_shares_stay);
    tcase_add_test(tc, fixed_shares_stay);
    tc = test_case(suite, "inside");
    tcase_add_test(tc, useless_times_are_left_aside);
    tcase_add_test(tc, decisions_are_functions_of_times);
    tcase_add_test(tc, lines_are_kept_and_told);
    tcase_add_test(tc, allocations_that_fail);
    tcase_add_test(tc, balancing_is_cheap);
    return suite;
}

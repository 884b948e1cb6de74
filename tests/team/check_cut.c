/* SPDX-License-Identifier: Apache-2.0
 *
 * check_cut.c - a chain of random units on random devices is cut as the best of all cuts, which are
 * tried one by one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "team/cut.h"

enum { MOST_UNITS = 7, MOST_DEVICES = 4 };

static uint32_t
draw(uint32_t below)
{
    static uint32_t x = 11;

    x = x * 1664525u + 1013904223u;
    return (x >> 8) % below;
}

typedef struct chain {
    yki_cut_unit units[MOST_UNITS];
    yki_cut_device devices[MOST_DEVICES];
    double seconds[MOST_DEVICES][MOST_UNITS];
} chain;

static void
make_chain(chain *c, yki_cut_problem *p)
{
    *p = (yki_cut_problem){.units = c->units,
                           .unit_count = 1 + draw(MOST_UNITS),
                           .devices = c->devices,
                           .device_count = 1 + draw(MOST_DEVICES),
                           .micro_batches = 1 + draw(6),
                           .seconds_per_byte = draw(2) ? 0.01 : 0};
    p->evaluates = draw(2);
    p->stages = draw(3) ? draw((uint32_t)p->device_count + 1) : 0;
    for (size_t i = 0; i < p->unit_count; i++)
        c->units[i] = (yki_cut_unit){.fixed = draw(20),
                                     .kept = draw(10),
                                     .working = draw(10),
                                     .evaluation = draw(10),
                                     .prepared = draw(5),
                                     .crosses = draw(30),
                                     .cuts = draw(4) > 0};
    for (size_t k = 0; k < p->device_count; k++) {
        const double speed = 1 + draw(3);

        c->devices[k] = (yki_cut_device){c->seconds[k], draw(2) ? 1000 : 20 + draw(120)};
        for (size_t i = 0; i < p->unit_count; i++)
            c->seconds[k][i] = draw(10) / speed;
    }
}

/* What a division costs, by its definition; infinity if it does not fit or is none. */
static double
cost_of(const yki_cut_problem *p, const uint32_t *device_of, size_t *stages)
{
    size_t begins[MOST_UNITS + 1], most;
    double longest = 0, sum = 0;

    *stages = 0;
    for (size_t i = 0; i < p->unit_count; i++) {
        if (i > 0 && device_of[i] == device_of[i - 1])
            continue;
        if (i > 0 && (device_of[i] < device_of[i - 1] || !p->units[i].cuts))
            return INFINITY;
        begins[(*stages)++] = i;
    }
    begins[*stages] = p->unit_count;
    most = p->stages ? p->stages : p->device_count;
    if (p->stages && *stages != p->stages)
        return INFINITY;
    for (size_t s = 0; s < *stages; s++) {
        const yki_cut_device *device = &p->devices[device_of[begins[s]]];
        const uint64_t depth = YKI_MIN(*stages - s, (size_t)p->micro_batches);
        const uint64_t width = YKI_MIN(most, (size_t)p->micro_batches);
        uint64_t across = s > 0 ? p->units[begins[s]].crosses : 0, bytes = 0, working = 0;
        uint64_t evaluation = 0;
        double seconds = 0;

        across += s + 1 < *stages ? p->units[begins[s + 1]].crosses : 0;
        for (size_t i = begins[s]; i < begins[s + 1]; i++) {
            seconds += device->seconds[i];
            bytes += p->units[i].fixed + depth * p->units[i].kept;
            working = YKI_MAX(working, p->units[i].working);
            evaluation = YKI_MAX(evaluation, p->units[i].evaluation);
            bytes += p->evaluates ? p->units[i].prepared : 0;
        }
        if (p->evaluates)
            working += evaluation + across / 2;
        if (bytes + working + width * across > device->memory)
            return INFINITY;
        seconds += (double)across * p->seconds_per_byte;
        longest = fmax(longest, seconds);
        sum += seconds;
    }
    return (p->micro_batches - 1) * longest + sum;
}

static double
best_of_all(const yki_cut_problem *p)
{
    uint32_t device_of[MOST_UNITS] = {0};
    double best = INFINITY;
    size_t i, stages;

    do {
        best = fmin(best, cost_of(p, device_of, &stages));
        for (i = 0; i < p->unit_count && ++device_of[i] == p->device_count; i++)
            device_of[i] = 0;
    } while (i < p->unit_count);
    return best;
}

START_TEST(best_of_all_cuts)
{
    int possible = 0, impossible = 0;

    for (int round = 0; round < 3000; round++) {
        uint32_t device_of[MOST_UNITS];
        size_t stages, counted;
        yki_cut_problem p;
        double seconds, best;
        chain c;

        make_chain(&c, &p);
        best = best_of_all(&p);
        ASSERT_OK(yki_cut(&p, device_of, &stages, &seconds));
        if (isinf(best)) {
            ck_assert_uint_eq(stages, 0);
            impossible++;
            continue;
        }
        possible++;
        ck_assert_uint_gt(stages, 0);
        ck_assert_double_eq_tol(seconds, best, 1e-9);
        ck_assert_double_eq_tol(cost_of(&p, device_of, &counted), best, 1e-9);
        ck_assert_uint_eq(counted, stages);
    }
    ck_assert_int_gt(possible, 500);
    ck_assert_int_gt(impossible, 100);
}
END_TEST

/* Sixty equal units on devices 1:3: a quarter and three quarters; equal ones share alike. */
START_TEST(by_speed)
{
    enum { UNITS = 60 };
    yki_cut_unit units[UNITS];
    double slow[UNITS], fast[UNITS];
    yki_cut_device devices[] = {{slow, 1000}, {fast, 1000}};
    yki_cut_problem p = {units, UNITS, devices, 2, 0, 8, false, 0};
    uint32_t device_of[UNITS];
    size_t stages, first = 0;
    double seconds;

    for (size_t i = 0; i < UNITS; i++) {
        units[i] = (yki_cut_unit){.fixed = 1, .cuts = true};
        slow[i] = 3;
        fast[i] = 1;
    }
    ASSERT_OK(yki_cut(&p, device_of, &stages, &seconds));
    ck_assert_uint_eq(stages, 2);
    while (device_of[first] == 0)
        first++;
    ck_assert_uint_eq(first, UNITS / 4);
    /* One micro-batch gains nothing by stages, so the fast one has all; unless it is too small. */
    p.micro_batches = 1;
    ASSERT_OK(yki_cut(&p, device_of, &stages, &seconds));
    ck_assert_uint_eq(stages, 1);
    ck_assert_uint_eq(device_of[0], 1);
    devices[1].memory = 50;
    ASSERT_OK(yki_cut(&p, device_of, &stages, &seconds));
    ck_assert_uint_eq(stages, 2);
    ck_assert_uint_eq(device_of[9], 0);
    ck_assert_uint_eq(device_of[10], 1);
}
END_TEST

/* With a budget for each micro-batch that it has under way, a stage fills its device. */
START_TEST(budgets)
{
    const yki_cut_unit units[] = {
        {.fixed = 98, .prepared = 2, .kept = 7, .working = 9, .evaluation = 20},
        {.fixed = 30, .kept = 7, .working = 9, .evaluation = 50, .crosses = 40, .cuts = true},
        {.fixed = 10, .kept = 7, .working = 9, .crosses = 10, .cuts = true}};
    const double seconds[] = {1, 1, 1};
    const yki_cut_device devices[] = {{seconds, 1000}, {seconds, 500}, {seconds, 20}};
    const yki_cut_problem p = {units, 3, devices, 3, 3, 2, true, 0};

    /* Three stages, two micro-batches: both are under way in the first two. */
    ck_assert_uint_eq(yki_cut_budget(&p, 0, 0, 1, 2, 3), (1000 - 100 - 2 * 40 - 20 - 20) / 2);
    ck_assert_uint_eq(yki_cut_budget(&p, 1, 1, 2, 1, 3), (500 - 30 - 2 * 50 - 50 - 25) / 2);
    ck_assert_uint_eq(yki_cut_budget(&p, 2, 2, 3, 0, 3), 0);
    ck_assert_uint_eq(yki_cut_budget(&p, 1, 2, 3, 0, 3), 500 - 10 - 2 * 10 - 5);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("cut");
    TCase *tc = test_case(suite, "cut");

    tcase_add_test(tc, best_of_all_cuts);
    tcase_add_test(tc, by_speed);
    tcase_add_test(tc, budgets);
    return suite;
}

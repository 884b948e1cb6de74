/* SPDX-License-Identifier: Apache-2.0
 *
 * check_shares.c - texts, rounding, and the fastest split of a batch, without a device.
 *
 * The fastest split is compared with one found by handing out samples one by one, each to
 * the device that is done first with it: the textbook optimum for times that grow.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shares/shares.h"
#include "support/support.h"

enum { MOST = 64 };

/* Random numbers that are the same everywhere. */
static uint32_t
draw(uint32_t *state)
{
    uint32_t out[4];

    yki_philox((uint32_t[2]){17, 4}, (uint32_t[4]){(*state)++, 0, 0, 0}, out);
    return out[0];
}

static double
uniform(uint32_t *state, double low, double high)
{
    return low + (high - low) * (draw(state) / 4294967296.0);
}

static int64_t
sum_of(const int64_t *counts, size_t devices)
{
    int64_t sum = 0;

    for (size_t k = 0; k < devices; k++) {
        ck_assert_int_ge(counts[k], 0);
        sum += counts[k];
    }
    return sum;
}

START_TEST(texts_that_are_read)
{
    yki_shares_kind kind;
    double w[3];

    ASSERT_OK(yki_shares_parse(NULL, YKI_SHARES_AUTO, 2, &kind, w));
    ck_assert_int_eq(kind, YKI_SHARES_AUTO);
    ASSERT_OK(yki_shares_parse(NULL, YKI_SHARES_EVEN, 2, &kind, w));
    ck_assert_int_eq(kind, YKI_SHARES_EVEN);
    ASSERT_OK(yki_shares_parse("auto", YKI_SHARES_EVEN, 2, &kind, w));
    ck_assert_int_eq(kind, YKI_SHARES_AUTO);
    ASSERT_OK(yki_shares_parse("even", YKI_SHARES_AUTO, 3, &kind, w));
    ck_assert_int_eq(kind, YKI_SHARES_EVEN);
    ck_assert_double_eq(w[0] + w[1] + w[2], 3);
    ASSERT_OK(yki_shares_parse(" 80 ,20,0.25", YKI_SHARES_AUTO, 3, &kind, w));
    ck_assert_int_eq(kind, YKI_SHARES_GIVEN);
    ck_assert_double_eq(w[0], 80);
    ck_assert_double_eq(w[1], 20);
    ck_assert_double_eq(w[2], 0.25);
    ASSERT_OK(yki_shares_parse("1", YKI_SHARES_AUTO, 1, &kind, w));
    ASSERT_OK(yki_shares_parse("0,1,.5", YKI_SHARES_AUTO, 3, &kind, w));
    ck_assert_double_eq(w[2], 0.5);
}
END_TEST

START_TEST(texts_that_are_refused)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "not a list of numbers"},
        {"fast", "not a list of numbers"},
        {"80",
         "shares \"80\" have 1 weight, and the team has 2 devices; give one weight for each "},
        {"80,10,10", "3 weights"},
        {"80,20,", "not a list"},
        {"80,,20", "not a list"},
        {"80 20", "not a list"},
        {"-1,2", "negative"},
        {"1,-0", "negative"},
        {"0,0", "every weight is zero"},
        {"0.0, 0", "every weight is zero"},
        {"nan,1", "not a list"},
        {"inf,1", "not a list"},
        {"1e3,1", "not a list"},
        {"0x10,1", "not a list"},
        {"1.2.3,1", "not a list"},
        {"AUTO", "not a list"},
        {"even,even", "not a list"},
        {"1234567890123456,1", "not a list"},
        {".,1", "not a list"},
    };

    for (size_t i = 0; i < YKI_COUNT(bad); i++) {
        yki_shares_kind kind = YKI_SHARES_EVEN;
        double w[2] = {7, 7};

        ck_assert_msg(yki_shares_parse(bad[i].text, YKI_SHARES_AUTO, 2, &kind, w) ==
                          YOKE_ERROR_INVALID_ARGUMENT,
                      "\"%s\" was taken", bad[i].text);
        ASSERT_DETAIL(bad[i].part);
        if (bad[i].text[0] != '\0')
            ASSERT_DETAIL(bad[i].text);
        ck_assert_double_eq(w[0] + w[1], 14); /* nothing is written on failure */
        ck_assert_int_eq(kind, YKI_SHARES_EVEN);
    }
}
END_TEST

START_TEST(rounding_known_answers)
{
    static const struct {
        double weights[4];
        size_t devices;
        int64_t n, counts[4];
    } known[] = {
        {{80, 20}, 2, 10, {8, 2}},
        {{80, 20}, 2, 64, {51, 13}},
        {{99, 1}, 2, 32, {32, 0}},
        {{99, 1}, 2, 64, {63, 1}},
        {{1, 0}, 2, 9, {9, 0}},
        {{1, 1, 1, 1}, 4, 7, {2, 2, 2, 1}},
        {{1, 1, 1, 1}, 4, 2, {1, 1, 0, 0}},
        {{1, 1, 1, 1}, 4, 0, {0, 0, 0, 0}},
        {{0.7, 0.2, 0.1}, 3, 10, {7, 2, 1}},
        {{0, 0, 3}, 3, 5, {0, 0, 5}},
        {{1, 3}, 2, 1, {0, 1}},
    };

    for (size_t i = 0; i < YKI_COUNT(known); i++) {
        int64_t counts[4];

        yki_shares_round(known[i].weights, known[i].devices, known[i].n, counts);
        for (size_t k = 0; k < known[i].devices; k++)
            ck_assert_msg(counts[k] == known[i].counts[k], "case %zu, device %zu: %lld", i, k,
                          (long long)counts[k]);
    }
}
END_TEST

/* The sum is exact, nobody is a whole sample off, a weight of 0 gets none. */
START_TEST(rounding_is_exact)
{
    uint32_t state = 0;

    for (int i = 0; i < 20000; i++) {
        size_t devices = 1 + draw(&state) % MOST;
        int64_t n = draw(&state) % 4097, counts[MOST];
        double w[MOST], sum = 0;

        for (size_t k = 0; k < devices; k++) {
            w[k] = draw(&state) % 4 ? uniform(&state, 0, 100) : 0;
            sum += w[k];
        }
        if (sum == 0)
            w[0] = sum = 1;
        yki_shares_round(w, devices, n, counts);
        ck_assert_int_eq(sum_of(counts, devices), n);
        for (size_t k = 0; k < devices; k++) {
            ck_assert(w[k] > 0 || counts[k] == 0);
            ck_assert_double_lt(fabs((double)counts[k] - (double)n * w[k] / sum), 1 + 1e-9);
        }
    }
}
END_TEST

START_TEST(split_of_a_team)
{
    int64_t counts[3] = {-1, -1, -1};

    ASSERT_OK(yki_shares_split(NULL, 3, 7, counts));
    ck_assert(counts[0] == 3 && counts[1] == 2 && counts[2] == 2);
    ASSERT_OK(yki_shares_split("2,1,0", 3, 9, counts));
    ck_assert(counts[0] == 6 && counts[1] == 3 && counts[2] == 0);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_shares_split("auto", 3, 9, counts));
    ASSERT_DETAIL("auto");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_shares_split("even", 3, -1, counts));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_shares_split("1,2", 3, 9, counts));
    ck_assert(counts[0] == 6 && counts[1] == 3 && counts[2] == 0);
}
END_TEST

/* The slowest device when each sample goes to who is done first with it. */
static double
greedy(const yki_line *lines, const int64_t *limits, size_t devices, int64_t n)
{
    int64_t counts[MOST] = {0};
    double slowest = 0;

    for (int64_t i = 0; i < n; i++) {
        size_t best = devices;
        double first = INFINITY;

        for (size_t k = 0; k < devices; k++)
            if (counts[k] < limits[k] && yki_line_seconds(&lines[k], counts[k] + 1) < first) {
                best = k;
                first = yki_line_seconds(&lines[k], counts[k] + 1);
            }
        if (best == devices)
            return -1;
        counts[best]++;
        slowest = fmax(slowest, first);
    }
    return slowest;
}

START_TEST(fastest_is_the_optimum)
{
    static const size_t teams[] = {1, 2, 3, 5, 8, 17, 64};
    uint32_t state = 100000;

    for (int i = 0; i < 1500; i++) {
        size_t devices = teams[draw(&state) % YKI_COUNT(teams)];
        int64_t n = draw(&state) % (i % 50 == 0 ? 4097 : 200), counts[MOST], limits[MOST];
        yki_line lines[MOST];
        double expected, seconds, slowest = 0;

        for (size_t k = 0; k < devices; k++) {
            lines[k].b = draw(&state) % 3 ? uniform(&state, 1e-6, 1e-3) : 1e-4; /* ties too */
            lines[k].a = draw(&state) % 3 ? uniform(&state, 0, 1e-2) : 0;
            if (draw(&state) % 10 == 0)
                lines[k].a = -5 * lines[k].b;
            limits[k] = draw(&state) % 2 ? INT64_MAX : (int64_t)(draw(&state) % 100);
        }
        expected = greedy(lines, limits, devices, n);
        seconds = yki_shares_fastest(lines, limits, NULL, devices, n, counts);
        if (expected < 0) {
            ck_assert_double_lt(seconds, 0);
            continue;
        }
        ck_assert_double_eq(seconds, expected);
        ck_assert_int_eq(sum_of(counts, devices), n);
        for (size_t k = 0; k < devices; k++) {
            ck_assert_int_le(counts[k], limits[k]);
            slowest = fmax(slowest, yki_line_seconds(&lines[k], counts[k]));
        }
        ck_assert_double_eq(slowest, expected);
    }
}
END_TEST

START_TEST(fastest_leaves_out)
{
    const yki_line lines[3] = {{0, 1}, {0, 1}, {100, 1}};
    const bool used[3] = {false, true, true};
    int64_t counts[3];

    ck_assert_double_eq(yki_shares_fastest(lines, NULL, NULL, 3, 20, counts), 10);
    ck_assert(counts[0] == 10 && counts[1] == 10 && counts[2] == 0);
    ck_assert_double_eq(yki_shares_fastest(lines, NULL, used, 3, 20, counts), 20);
    ck_assert(counts[0] == 0 && counts[1] == 20 && counts[2] == 0);
    ck_assert_double_eq(yki_shares_fastest(lines, NULL, NULL, 3, 0, counts), 0);
    ck_assert_int_eq(sum_of(counts, 3), 0);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("shares");
    TCase *tc = test_case(suite, "texts");

    tcase_add_test(tc, texts_that_are_read);
    tcase_add_test(tc, texts_that_are_refused);
    tc = test_case(suite, "rounding");
    tcase_add_test(tc, rounding_known_answers);
    tcase_add_test(tc, rounding_is_exact);
    tcase_add_test(tc, split_of_a_team);
    tc = test_case(suite, "fastest");
    tcase_add_test(tc, fastest_is_the_optimum);
    tcase_add_test(tc, fastest_leaves_out);
    return suite;
}

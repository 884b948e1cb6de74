/* SPDX-License-Identifier: Apache-2.0
 *
 * check_ranges.c - the table of ranges: complete, without overlaps, in proportion, at borders where
 * views may begin.
 */
#include <math.h>
#include <string.h>

#include "shares/ranges.h"
#include "support/support.h"

enum { MOST = 128, OWNERS = 9 };

static uint32_t
draw(uint32_t *state)
{
    uint32_t out[4];

    yki_philox((uint32_t[2]){23, 5}, (uint32_t[4]){(*state)++, 0, 0, 0}, out);
    return out[0];
}

/* Checks what holds for any table; gives the bytes of each owner. */
static void
check_table(const uint64_t *sizes, size_t buckets, const double *weights, size_t owners,
            uint64_t *totals)
{
    yki_ranges *r;

    memset(totals, 0, owners * sizeof *totals);
    ASSERT_OK(yki_ranges_create(sizes, buckets, weights, owners, &r));
    for (size_t b = 0; b < buckets; b++) {
        uint64_t end = 0;

        for (size_t k = 0; k < owners; k++) {
            const yki_range range = yki_ranges_of(r, b, k, 1);

            ck_assert_uint_eq(range.offset, end);
            ck_assert_uint_eq(range.size % YKI_RANGE_ALIGN, 0);
            ck_assert(weights[k] > 0 || range.size == 0);
            end += range.size;
            totals[k] += range.size;
        }
        ck_assert_uint_eq(end, sizes[b]);
        ck_assert_uint_eq(yki_ranges_of(r, b, 0, owners).size, sizes[b]);
        ck_assert_uint_eq(yki_ranges_of(r, b, owners, 0).size, 0);
    }
    for (size_t k = 0; k < owners; k++)
        ck_assert_uint_eq(yki_ranges_total(r, k), totals[k]);
    yki_ranges_destroy(r);
}

/* `slack` bytes off its proportion at most. */
static void
check_proportions(const uint64_t *totals, const double *weights, size_t owners, double slack)
{
    double all = 0, sum = 0;

    for (size_t k = 0; k < owners; k++) {
        all += (double)totals[k];
        sum += weights[k];
    }
    for (size_t k = 0; k < owners; k++)
        ck_assert_msg(fabs((double)totals[k] - all * weights[k] / sum) <= slack,
                      "owner %zu has %llu of %g bytes, with %g of %g", k,
                      (unsigned long long)totals[k], all, weights[k], sum);
}

START_TEST(known_answers)
{
    const uint64_t sizes[] = {4096, 512, 1024};
    uint64_t totals[2];
    yki_ranges *r;

    check_table(sizes, 3, (double[]){1, 3}, 2, totals);
    ck_assert_uint_eq(totals[0], 1536); /* 1408, and a border */
    check_table(sizes, 3, (double[]){0, 1}, 2, totals);
    ck_assert_uint_eq(totals[1], 5632);
    check_table(sizes, 3, (double[]){0.5, 0}, 2, totals);
    ck_assert_uint_eq(totals[0], 5632);
    ASSERT_OK(yki_ranges_create(sizes, 3, (double[]){1, 3}, 2, &r));
    ck_assert_uint_eq(yki_ranges_of(r, 0, 0, 1).size, 1024);
    ck_assert_uint_eq(yki_ranges_of(r, 0, 1, 1).offset, 1024);
    yki_ranges_destroy(r);
    check_table(NULL, 0, (double[]){1, 3}, 2, totals);
    ck_assert_uint_eq(totals[0] + totals[1], 0);
    check_table(sizes, 3, (double[]){7}, 1, totals);
}
END_TEST

START_TEST(many_buckets_stay_whole)
{
    const double weights[] = {1, 3, 0};
    uint64_t sizes[MOST], totals[3];
    yki_ranges *r;

    for (size_t b = 0; b < MOST; b++)
        sizes[b] = 4u << 20;
    check_table(sizes, MOST, weights, 3, totals);
    check_proportions(totals, weights, 3, 4 << 20);
    ASSERT_OK(yki_ranges_create(sizes, MOST, weights, 3, &r));
    for (size_t b = 0; b < MOST; b++) {
        uint64_t first = yki_ranges_of(r, b, 0, 1).size;

        ck_assert(first == 0 || first == sizes[b]);
        /* In each four that follow one another the first owner has one. */
        ck_assert(b < 4 || b % 4 ||
                  yki_ranges_of(r, b - 4, 0, 1).size + yki_ranges_of(r, b - 3, 0, 1).size +
                          yki_ranges_of(r, b - 2, 0, 1).size + yki_ranges_of(r, b - 1, 0, 1).size ==
                      sizes[b]);
    }
    yki_ranges_destroy(r);
    ASSERT_OK(yki_ranges_create(sizes, 60, weights, 3, &r)); /* 15 of the first owner: too few */
    ck_assert_uint_eq(yki_ranges_of(r, 0, 0, 1).size, 1u << 20);
    yki_ranges_destroy(r);
}
END_TEST

START_TEST(proportions)
{
    uint32_t state = 0;

    for (int i = 0; i < 300; i++) {
        size_t buckets = 1 + draw(&state) % 12, owners = 1 + draw(&state) % OWNERS;
        double weights[OWNERS] = {0};
        uint64_t sizes[12], totals[OWNERS];

        for (size_t b = 0; b < buckets; b++)
            sizes[b] = (1 + draw(&state) % (i % 2 ? 3 : 3000)) * (uint64_t)YKI_RANGE_ALIGN;
        for (size_t k = 0; k < owners; k++)
            weights[k] = draw(&state) % 4 * 1e9 + draw(&state) % 2 * 0.125;
        weights[draw(&state) % owners] = 1e9;
        check_table(sizes, buckets, weights, owners, totals);
        check_proportions(totals, weights, owners, (double)(owners + 1) * YKI_RANGE_ALIGN);
    }
}
END_TEST

/* A model of 4 TB on unlike memories. */
START_TEST(large)
{
    const double weights[] = {1e12, 3, 2.5e12};
    uint64_t sizes[4], totals[3];

    for (size_t b = 0; b < 4; b++)
        sizes[b] = UINT64_C(1) << 40;
    check_table(sizes, 4, weights, 3, totals);
    check_proportions(totals, weights, 3, 4e12 / (1 << 20)); /* weights are rounded */
}
END_TEST

START_TEST(common_parts)
{
    yki_range part = yki_range_common((yki_range){512, 1024}, (yki_range){1024, 4096});

    ck_assert(part.offset == 1024 && part.size == 512);
    ck_assert_uint_eq(yki_range_common((yki_range){0, 512}, (yki_range){512, 512}).size, 0);
    ck_assert_uint_eq(yki_range_common((yki_range){4096, 512}, (yki_range){512, 512}).size, 0);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("ranges");
    TCase *tc = test_case(suite, "ranges");

    tcase_add_test(tc, known_answers);
    tcase_add_test(tc, many_buckets_stay_whole);
    tcase_add_test(tc, proportions);
    tcase_add_test(tc, large);
    tcase_add_test(tc, common_parts);
    return suite;
}

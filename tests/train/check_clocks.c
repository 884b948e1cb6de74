/* SPDX-License-Identifier: Apache-2.0
 *
 * check_clocks.c - how a process finds rank 0's clock: with clocks and messages that are made up.
 *
 * There is one true time. Rank 0's clock and ours show it with an offset each, and ours goes wrong
 * by a rate. A message takes what a random number says, never less than LEAST. Rank 0 is simulated
 * by the comm's all-gather.
 */
#include <math.h>
#include <string.h>

#include "support/support.h"
#include "train/timeline.h"

enum { RANKS = 3 };

static const double LEAST = 20e-6;

static struct world {
    double truth;        /* true time */
    double offset, rate; /* of our clock: (1 + rate) * true time + offset */
    double noise;        /* a message takes up to so much longer */
    double first_open;   /* what rank 2 tells of itself */
    double zero_left;    /* when rank 0 left the round before, by its clock */
    int rounds;
    uint32_t random;
} world;

static const double ZERO = 5000; /* rank 0's clock shows so much more than true time */

static double
draw(double most)
{
    world.random = world.random * 1664525u + 1013904223u;
    return most * (double)(world.random >> 8) / (1 << 24);
}

static double
own_clock(void)
{
    world.truth += 1e-7;
    return world.truth * (1 + world.rate) + world.offset;
}

/* Both enter at times that differ, and leave when the other's message has come. */
static yoke_status
exchange(yoke_comm *comm, const void *in, size_t bytes, void *out)
{
    double entered = world.truth, zero_entered = world.truth + draw(2 * LEAST) - LEAST;
    double there = LEAST + draw(world.noise), back = LEAST + draw(world.noise);
    yki_clock_turn *all = out;

    ck_assert_uint_eq(bytes, sizeof *all);
    memcpy(&all[comm->rank], in, bytes);
    all[0] = (yki_clock_turn){.entered = ZERO + zero_entered, .left = world.zero_left};
    all[2] = (yki_clock_turn){.open = world.first_open};
    world.zero_left = ZERO + fmax(zero_entered, entered + there);
    world.truth = fmax(entered, zero_entered + back);
    world.rounds++;
    return YOKE_OK;
}

static yoke_comm comm = {.size = sizeof comm, .rank = 1, .ranks = RANKS, .allgather = exchange};

static void
begin(double offset, double rate, double noise)
{
    world =
        (struct world){.truth = 1000, .offset = offset, .rate = rate, .noise = noise, .random = 7};
}

/* Looks twice, `seconds` apart, and returns by how much the times between are wrong at most. */
static double
worst_between(double seconds, yki_sight sights[2])
{
    double from = world.truth, worst = 0;

    ASSERT_OK(yki_clocks_look(&comm, own_clock, &sights[0]));
    world.truth += seconds;
    ASSERT_OK(yki_clocks_look(&comm, own_clock, &sights[1]));
    for (int i = 0; i <= 100; i++) {
        double at = from + (world.truth - from) * i / 100;
        double shown = yki_sight_convert(sights, at * (1 + world.rate) + world.offset);

        worst = fmax(worst, fabs(shown - (ZERO + at)));
    }
    return worst;
}

static double
open_of(const yki_sight *sight)
{
    return sight->high - sight->low;
}

START_TEST(offsets_are_removed)
{
    static const double offsets[] = {0, 1e5, -900, 12.345};
    char why[YKI_CLOCKS_WHY];
    yki_sight sights[2];

    for (size_t i = 0; i < YKI_COUNT(offsets); i++) {
        begin(offsets[i], 0, 0);
        ck_assert_double_le(worst_between(10, sights), 2 * LEAST);
        ck_assert_double_ge(open_of(&sights[0]), 0);
        ck_assert(yki_clocks_agree(sights, why));
    }
}
END_TEST

/* 100 ppm for a thousand seconds: a tenth of a second. */
START_TEST(drift_is_removed)
{
    static const double rates[] = {1e-4, -1e-4};
    char why[YKI_CLOCKS_WHY];
    yki_sight sights[2];

    for (size_t i = 0; i < YKI_COUNT(rates); i++) {
        begin(50, rates[i], 0);
        ck_assert_double_le(worst_between(1000, sights), 3 * LEAST);
        ck_assert(yki_clocks_agree(sights, why));
    }
}
END_TEST

/* Most messages take a hundred times as long as the shortest: these decide, and there are rounds
 * until they came. The bounds hold. */
START_TEST(the_shortest_messages_count)
{
    char why[YKI_CLOCKS_WHY];
    yki_sight sights[2];
    double worst;

    begin(-77, 1e-6, 100 * LEAST);
    worst = worst_between(100, sights);
    ck_assert_int_gt(world.rounds, 64);
    ck_assert_double_le(worst, 10 * LEAST);
    ck_assert_double_le(worst, 0.5 * fmax(open_of(&sights[0]), open_of(&sights[1])) + 1e-6);
    ck_assert(yki_clocks_agree(sights, why));
}
END_TEST

/* All go on while one is not content, but not for ever. */
START_TEST(all_stop_together)
{
    yki_sight sight;

    begin(0, 0, 0);
    ASSERT_OK(yki_clocks_look(&comm, own_clock, &sight));
    ck_assert_int_eq(world.rounds, 16);
    begin(0, 0, 0);
    world.first_open = 1;
    ASSERT_OK(yki_clocks_look(&comm, own_clock, &sight));
    ck_assert_int_gt(world.rounds, 1000);
    ck_assert_double_le(world.truth, 1000 + 1.1);
}
END_TEST

START_TEST(what_cannot_be_compared_is_refused)
{
    char why[YKI_CLOCKS_WHY];
    yki_sight sights[2];

    /* Messages that take 10 ms and more. */
    begin(0, 0, 0);
    ASSERT_OK(yki_clocks_look(&comm, own_clock, &sights[0]));
    sights[1] = (yki_sight){sights[0].at + 10, sights[0].low - 5e-3, sights[0].high + 5e-3};
    ck_assert(!yki_clocks_agree(sights, why));
    ck_assert_ptr_nonnull(strstr(why, "messages leave 10"));
    /* A clock that was set by 10 ms in a second. */
    sights[1] = (yki_sight){sights[0].at + 1, sights[0].low + 1e-2, sights[0].high + 1e-2};
    ck_assert(!yki_clocks_agree(sights, why));
    ck_assert_ptr_nonnull(strstr(why, "moved by 10 ms against the other in 1 s"));
    /* As much in a hundred seconds may be so. */
    sights[1].at = sights[0].at + 100;
    ck_assert(yki_clocks_agree(sights, why));
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("clocks");
    TCase *tc = test_case(suite, "clocks");

    tcase_add_test(tc, offsets_are_removed);
    tcase_add_test(tc, drift_is_removed);
    tcase_add_test(tc, the_shortest_messages_count);
    tcase_add_test(tc, all_stop_together);
    tcase_add_test(tc, what_cannot_be_compared_is_refused);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_judge.c - who is to blame, by records alone.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "support/support.h"

enum { RANKS = 4 };
#define NOW   1000.0
#define LIMIT 100.0

static yki_mpi_witness ranks[RANKS];

/* All have come to call 12 and wait for `seconds`; heard just now. */
static void
all_wait(double seconds)
{
    memset(ranks, 0, sizeof ranks);
    for (int r = 0; r < RANKS; r++) {
        ranks[r].beat = (yki_mpi_beat){
            .entered = 12, .kind = YKI_MPI_ALLREDUCE, .count = 4096, .step = 3, .waited = seconds};
        ranks[r].heard = NOW - 1;
        ranks[r].changed = NOW - 1 - seconds;
        snprintf(ranks[r].host, sizeof ranks[r].host, "host%d", r);
    }
}

static void
late(int r)
{
    ranks[r].beat.entered = 11;
    ranks[r].beat.waited = 0;
    snprintf(ranks[r].beat.doing, sizeof ranks[r].beat.doing, "forward");
}

static bool
judge(char reason[YKI_MPI_REASON])
{
    return yki_mpi_judge(ranks, RANKS, NOW, LIMIT, reason);
}

START_TEST(judge_patience)
{
    char reason[YKI_MPI_REASON];

    all_wait(LIMIT - 10);
    late(2);
    ck_assert(!judge(reason));
    ck_assert(!yki_mpi_judge(ranks, RANKS, NOW, -1, reason));
    all_wait(0);
    ck_assert(!judge(reason));
}
END_TEST

START_TEST(judge_names_who_is_behind)
{
    char reason[YKI_MPI_REASON];

    all_wait(LIMIT + 2);
    late(2);
    ck_assert(judge(reason));
    ck_assert_str_eq(reason, "rank 2 (host2) has not come to all-reduce (call 12, 4096 values) for "
                             "103.0 s; it was last at step 3, forward");
}
END_TEST

START_TEST(judge_names_who_is_silent)
{
    char reason[YKI_MPI_REASON];

    /* it had come; another is behind because of it, and heard */
    all_wait(LIMIT + 2);
    ranks[1].heard = NOW - LIMIT;
    late(3);
    ck_assert(judge(reason));
    ck_assert_ptr_nonnull(strstr(reason, "rank 1 (host1) has not been heard of for 100.0 s"));
    ck_assert_ptr_null(strstr(reason, "rank 3"));
}
END_TEST

START_TEST(judge_spares_who_works)
{
    char reason[YKI_MPI_REASON];

    /* behind, but with a sign of life half a limit ago */
    all_wait(LIMIT + 50);
    late(2);
    ranks[2].changed = NOW - LIMIT / 2;
    ck_assert(!judge(reason));
    /* the last one has just come */
    all_wait(LIMIT + 50);
    ranks[2].beat.waited = 0.1;
    ck_assert(!judge(reason));
}
END_TEST

/* A judge that was stopped and goes on finds everybody silent; only what comes after counts. */
START_TEST(judge_forgives_its_own_absence)
{
    char reason[YKI_MPI_REASON];

    all_wait(LIMIT + 2);
    ranks[1].heard = ranks[2].heard = NOW - LIMIT;
    ck_assert(judge(reason));
    yki_mpi_forgive(ranks, RANKS, NOW, LIMIT - 5);
    ck_assert(ranks[0].heard <= NOW && ranks[0].changed <= NOW);
    ck_assert_msg(!judge(reason) || !strstr(reason, "heard"), "%s", reason);
    /* one that stays silent from then on is found */
    ranks[0].heard = ranks[2].heard = ranks[3].heard = NOW + LIMIT;
    ck_assert(yki_mpi_judge(ranks, RANKS, NOW + LIMIT, LIMIT, reason));
    ck_assert_ptr_nonnull(strstr(reason, "rank 1 (host1) has not been heard of"));
    ck_assert_ptr_null(strstr(reason, "rank 2"));
}
END_TEST

START_TEST(judge_names_many)
{
    char reason[YKI_MPI_REASON];

    all_wait(LIMIT + 2);
    late(1);
    late(3);
    ck_assert(judge(reason));
    ck_assert_ptr_nonnull(strstr(reason, "rank 1 (host1)"));
    ck_assert_ptr_nonnull(strstr(reason, "; rank 3 (host3)"));
    ck_assert_ptr_null(strstr(reason, "rank 0"));
    ck_assert_ptr_null(strstr(reason, "rank 2"));
}
END_TEST

START_TEST(judge_calls_that_differ)
{
    char reason[YKI_MPI_REASON];

    all_wait(LIMIT + 2);
    ranks[3].beat.kind = YKI_MPI_GATHER;
    ranks[3].beat.count = 8;
    ck_assert(judge(reason));
    ck_assert_str_eq(reason, "rank 0 (host0) is in all-reduce (call 12, 4096 values), but rank 3 "
                             "(host3) in gather (call 12, 8 bytes)");
    all_wait(LIMIT + 2);
    ck_assert(judge(reason));
    ck_assert_ptr_nonnull(strstr(reason, "all ranks have come to all-reduce"));
}
END_TEST

/* Rank r waits for a message of rank `peer`. */
static void
await_message(int r, int peer, int tag)
{
    ranks[r].beat.peer = (uint32_t)peer + 1;
    ranks[r].beat.message = YKI_MPI_RECEIVE;
    ranks[r].beat.tag = tag;
    ranks[r].beat.bytes = 8;
}

START_TEST(judge_names_who_sends_no_message)
{
    char reason[YKI_MPI_REASON];

    /* rank 1 has come to all that all ranks do, and so has rank 3, which nobody needs */
    all_wait(LIMIT + 2);
    await_message(0, 1, 7);
    ranks[2].beat.waited = 0.1;
    ranks[1].beat.waited = ranks[3].beat.waited = 0;
    ck_assert(judge(reason));
    ck_assert_str_eq(reason, "rank 1 (host1) has not come to the other end of receive (tag 7, 8 "
                             "bytes) for 103.0 s");
    /* nor is anybody to blame for being behind, if only a message is waited for */
    late(3);
    ck_assert(judge(reason));
    ck_assert_ptr_null(strstr(reason, "rank 3"));
    /* it works */
    ranks[1].changed = NOW - 1;
    ck_assert(!judge(reason));
    /* it is gone */
    ranks[1].heard = NOW - LIMIT;
    ck_assert(judge(reason));
    ck_assert_ptr_nonnull(strstr(reason, "rank 1 (host1) has not been heard of"));
}
END_TEST

START_TEST(judge_messages_in_a_circle)
{
    char reason[YKI_MPI_REASON];

    /* 0 waits for 1, 1 for 2, 2 for 1; 3 works */
    all_wait(LIMIT + 2);
    await_message(0, 1, 5);
    await_message(1, 2, 6);
    await_message(2, 1, 7);
    ranks[3].beat.waited = 0;
    ranks[3].changed = NOW;
    ck_assert(judge(reason));
    ck_assert_str_eq(reason, "rank 0 (host0) is in receive (tag 5, 8 bytes), but rank 1 (host1) in "
                             "receive (tag 6, 8 bytes)");
    /* 2 waits for 3, which works */
    await_message(2, 3, 7);
    ck_assert(!judge(reason));
    /* 3 waits for all ranks */
    ranks[3].beat.waited = LIMIT + 1;
    ck_assert(judge(reason));
    ck_assert_ptr_nonnull(strstr(reason, "rank 0 (host0) is in receive (tag 5, 8 bytes), but"));
}
END_TEST

START_TEST(judge_fits_its_buffer)
{
    char reason[YKI_MPI_REASON];

    all_wait(LIMIT + 2);
    for (int r = 1; r < RANKS; r++) {
        late(r);
        memset(ranks[r].host, 'h', sizeof ranks[r].host - 1);
        memset(ranks[r].beat.doing, 'd', sizeof ranks[r].beat.doing - 1);
    }
    ck_assert(judge(reason));
    ck_assert_uint_lt(strlen(reason), YKI_MPI_REASON);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("judge");
    TCase *tcase = test_case(suite, "judge");

    tcase_add_test(tcase, judge_patience);
    tcase_add_test(tcase, judge_names_who_is_behind);
    tcase_add_test(tcase, judge_names_who_is_silent);
    tcase_add_test(tcase, judge_spares_who_works);
    tcase_add_test(tcase, judge_forgives_its_own_absence);
    tcase_add_test(tcase, judge_names_many);
    tcase_add_test(tcase, judge_calls_that_differ);
    tcase_add_test(tcase, judge_names_who_sends_no_message);
    tcase_add_test(tcase, judge_messages_in_a_circle);
    tcase_add_test(tcase, judge_fits_its_buffer);
    return suite;
}

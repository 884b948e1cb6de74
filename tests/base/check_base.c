/* SPDX-License-Identifier: Apache-2.0
 *
 * check_base.c - status, memory, random numbers, hash.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "support/support.h"

START_TEST(status_codes_have_names_and_messages)
{
    ck_assert_str_eq(yoke_status_name(YOKE_OK), "YOKE_OK");
    ck_assert_str_eq(yoke_status_name(YOKE_ERROR_QUOTA), "YOKE_ERROR_QUOTA");
    ck_assert_str_eq(yoke_status_name((yoke_status)12345), "YOKE_ERROR_UNKNOWN");
    ck_assert_str_ne(yoke_status_string(YOKE_ERROR_BUSY), yoke_status_string(YOKE_OK));
}
END_TEST

START_TEST(status_detail_can_quote_itself)
{
    yki_fail(YOKE_ERROR_IO, "no file %d", 7);
    ck_assert_int_eq(yki_fail_in(YOKE_ERROR_IO, "opening"), YOKE_ERROR_IO);
    ck_assert_str_eq(yoke_last_error(), "opening: no file 7");
}
END_TEST

START_TEST(status_of_a_callback)
{
    ck_assert_int_eq(yoke_fail(YOKE_ERROR_COMM, "100% of rank 3"), YOKE_ERROR_COMM);
    ck_assert_str_eq(yoke_last_error(), "100% of rank 3");
    ck_assert_int_eq(yoke_fail(YOKE_OK, "nothing happened"), YOKE_OK);
    ck_assert_str_eq(yoke_last_error(), "100% of rank 3");
    ck_assert_int_eq(yoke_fail(YOKE_ERROR_COMM, NULL), YOKE_ERROR_COMM);
    ck_assert_str_eq(yoke_last_error(), "");
}
END_TEST

START_TEST(values_out_of_range_have_one_sentence)
{
    ASSERT_STATUS(YOKE_ERROR_INTERNAL, yki_fail_bug("%d slots", 3));
    ck_assert_str_eq(yoke_last_error(), "3 slots; this is a bug of yoke, please report it");
    ASSERT_STATUS(YOKE_ERROR_SHAPE,
                  yki_fail_range(YOKE_ERROR_SHAPE, "conv1: stride", -1, 1, 32767));
    ck_assert_str_eq(yoke_last_error(), "conv1: stride is -1; must be between 1 and 32767");
    yki_fail_range(YOKE_ERROR_SHAPE, "n", 0, 1, INT64_MAX);
    ck_assert_str_eq(yoke_last_error(), "n is 0; must be at least 1");
    yki_fail_range_real(YOKE_ERROR_SHAPE, "momentum", 1.5, 0, 1);
    ck_assert_str_eq(yoke_last_error(), "momentum is 1.5; must be between 0 and 1");
    yki_fail_range_real(YOKE_ERROR_SHAPE, "epsilon", -2, 0, FLT_MAX);
    ck_assert_str_eq(yoke_last_error(), "epsilon is -2; must be at least 0");
    yki_fail_range_real(YOKE_ERROR_SHAPE, "epsilon", (double)INFINITY, 0, FLT_MAX);
    ck_assert_str_eq(yoke_last_error(), "epsilon is inf; must be at least 0 and finite");
    yki_fail_range_real(YOKE_ERROR_SHAPE, "epsilon", (double)NAN, 0, FLT_MAX);
    ck_assert_str_eq(yoke_last_error(), "epsilon is nan; must be at least 0 and finite");
    yki_fail_range_below(YOKE_ERROR_SHAPE, "beta1", 1, 0, 1);
    ck_assert_str_eq(yoke_last_error(), "beta1 is 1; must be at least 0 and below 1");
    ASSERT_OK(yki_check_given("yoke_x", (yki_argument[]){{"graph", ""}, {NULL, NULL}}));
    ASSERT_STATUS(
        YOKE_ERROR_INVALID_ARGUMENT,
        yki_check_given("yoke_x", (yki_argument[]){{"graph", ""}, {"name", NULL}, {NULL, NULL}}));
    ck_assert_str_eq(yoke_last_error(), "yoke_x: name is NULL");
}
END_TEST

static void
other_thread(void *argument)
{
    yki_fail(YOKE_ERROR_IO, "elsewhere");
    *(int *)argument = strcmp(yoke_last_error(), "elsewhere") == 0;
}

START_TEST(status_detail_is_per_thread)
{
    yki_thread *thread;
    int seen = 0;

    yki_fail(YOKE_ERROR_IO, "here");
    ASSERT_OK(yki_thread_start(other_thread, &seen, "test", &thread));
    yki_thread_join(thread);
    ck_assert_int_eq(seen, 1);
    ck_assert_str_eq(yoke_last_error(), "here");
}
END_TEST

START_TEST(memory_sizes_are_checked)
{
    ck_assert_ptr_null(yki_alloc(SIZE_MAX / 2, 4, "too much"));
    ASSERT_DETAIL("too much");
}
END_TEST

START_TEST(memory_fails_at_the_nth)
{
    void *a, *b;

    yki_alloc_fail_at(2);
    a = yki_alloc(1, 1, "first");
    b = yki_alloc(1, 1, "second");
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(b);
    ck_assert_uint_eq(yki_alloc_fail_at(0), 2);
    yki_free(a);
}
END_TEST

/* Known answers of Random123's kat_vectors for philox4x32 with 10 rounds. */
START_TEST(random_philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    uint32_t out[4];

    for (size_t i = 0; i < YKI_COUNT(known); i++) {
        yki_philox(known[i].key, known[i].counter, out);
        ck_assert_mem_eq(out, known[i].out, sizeof out);
    }
}
END_TEST

START_TEST(hash_separates_strings)
{
    char a[33], b[33];
    yki_hash hash;

    yki_hash_start(&hash);
    yki_hash_string(&hash, "ab");
    yki_hash_string(&hash, "c");
    yki_hash_hex(&hash, a);
    yki_hash_start(&hash);
    yki_hash_string(&hash, "a");
    yki_hash_string(&hash, "bc");
    yki_hash_hex(&hash, b);
    ck_assert_str_ne(a, b);
    ck_assert_uint_eq(strlen(a), 32);
}
END_TEST

static char logged[64];

static void
keep_line(void *user, yoke_log_level level, const char *line)
{
    (void)user;
    (void)level;
    strncat(logged, line, sizeof logged - strlen(logged) - 1);
}

START_TEST(log_obeys_level_and_callback)
{
    yki_log(YOKE_LOG_ERROR, "nobody listens");
    yoke_log_set(keep_line, NULL, YOKE_LOG_INFO);
    yki_log(YOKE_LOG_INFO, "heard %d.", 1);
    yki_log(YOKE_LOG_DEBUG, "not heard");
    yoke_log_write(YOKE_LOG_DEBUG, "nor this");
    yoke_log_write(YOKE_LOG_WARNING, " 100%d");
    yoke_log_write(YOKE_LOG_WARNING, NULL);
    yoke_log_set(NULL, NULL, YOKE_LOG_DEBUG);
    yki_log(YOKE_LOG_ERROR, "gone");
    ck_assert_str_eq(logged, "heard 1. 100%d");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("base");
    TCase *tcase = test_case(suite, "base");

    tcase_add_test(tcase, status_codes_have_names_and_messages);
    tcase_add_test(tcase, status_detail_can_quote_itself);
    tcase_add_test(tcase, status_of_a_callback);
    tcase_add_test(tcase, values_out_of_range_have_one_sentence);
    tcase_add_test(tcase, status_detail_is_per_thread);
    tcase_add_test(tcase, memory_sizes_are_checked);
    tcase_add_test(tcase, memory_fails_at_the_nth);
    tcase_add_test(tcase, random_philox_known_answers);
    tcase_add_test(tcase, hash_separates_strings);
    tcase_add_test(tcase, log_obeys_level_and_callback);
    return suite;
}

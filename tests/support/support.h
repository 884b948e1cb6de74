/* SPDX-License-Identifier: Apache-2.0
 *
 * support.h - what every test program shares: a main, a context, a selection.
 *
 * Check forks each test, or most (test_shares_process); OpenCL must be touched first inside a test
 * (a checked fixture), never in main, or drivers hang. The implementation under test is whatever
 * the environment offers; YOKE_TEST_DEVICES (default "all") picks the devices that tests run on.
 */
#ifndef YOKE_TESTS_SUPPORT_H
#define YOKE_TESTS_SUPPORT_H

#include <check.h>

#include "yoke.h"

/* Each test program defines it: its suite. */
Suite *test_suite(void);

/* A test case whose tests have 60 seconds (kernels compile), added to the suite. */
TCase *test_case(Suite *suite, const char *name);

/* Stands in a program whose tests leave nothing behind, and ask for no other drivers than the one
 * before (devices.h): they run in one process, which lists the devices and starts their compilers
 * once. CK_FORK=yes gives each its own again. */
#define TESTS_SHARE_A_PROCESS                                                                      \
    __attribute__((constructor)) static void share_a_process(void)                                 \
    {                                                                                              \
        test_shares_process = true;                                                                \
    }
extern bool test_shares_process;
/* The number of the running test, from 1; always 1 in a process of its own. */
extern unsigned test_number;

/* YOKE_TEST_THOROUGH=1: also what differs little from what runs without it. */
bool test_is_thorough(void);
/* YOKE_MATRIX_SHORT=1 (tests/matrix.sh): of what only repeats not all. */
bool test_in_short(void);

/* Fails the test with the detail of the error. */
#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        yoke_status assert_status = (call);                                                        \
        ck_assert_msg(assert_status == YOKE_OK, "%s: %s: %s", #call,                               \
                      yoke_status_name(assert_status), yoke_last_error());                         \
    } while (0)
#define ASSERT_STATUS(expected, call)                                                              \
    do {                                                                                           \
        yoke_status assert_status = (call);                                                        \
        ck_assert_msg(assert_status == (expected), "%s: %s instead of %s: %s", #call,              \
                      yoke_status_name(assert_status), yoke_status_name(expected),                 \
                      yoke_last_error());                                                          \
    } while (0)
/* The detail of the last error contains this. */
#define ASSERT_DETAIL(part)                                                                        \
    ck_assert_msg(strstr(yoke_last_error(), (part)) != NULL, "\"%s\" is not in \"%s\"", (part),    \
                  yoke_last_error())

/* A call that is refused with this status, and a sentence that contains this. */
#define ASSERT_REFUSED(status, detail, call)                                                       \
    do {                                                                                           \
        ASSERT_STATUS(status, call);                                                               \
        ck_assert_str_ne(yoke_last_error(), "");                                                   \
        ASSERT_DETAIL(detail);                                                                     \
    } while (0)
/* ... as it makes no sense, whatever the words. */
#define ASSERT_INVALID(call) ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "", call)

/* For functions that tell lines: they are kept one below the other, or dropped. */
extern char test_lines[8192];
void test_forget_lines(void);
void test_keep_line(void *user, const char *line);
void test_drop_line(void *user, const char *line);

/* Leaves the test, which is reported as "ok ... # SKIP reason" (printf style); with
 * YOKE_REQUIRE_ALL=1 it fails instead. Directly in the body of a START_TEST only. */
#define TEST_SKIP(...)                                                                             \
    do {                                                                                           \
        if (test_note_skip(__func__, __VA_ARGS__))                                                 \
            return;                                                                                \
    } while (0)
/* The same for what this implementation cannot do at all: a skip, whatever is asked for. */
#define TEST_NOT_HERE(...)                                                                         \
    do {                                                                                           \
        if (test_note_unfit(__func__, __VA_ARGS__))                                                \
            return;                                                                                \
    } while (0)
bool test_note_skip(const char *function, const char *format, ...);
bool test_note_unfit(const char *function, const char *format, ...);

/* What YOKE_TEST_DEVICES says, else "all". */
const char *test_selector(void);

#endif

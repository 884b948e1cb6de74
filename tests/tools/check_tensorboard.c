/* SPDX-License-Identifier: Apache-2.0
 *
 * check_tensorboard.c - a disk that becomes full while `yoke train --tensorboard` runs: steps go
 * on, and the end tells the reason, unless training itself failed.
 */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "../tools/board.h"
#include "support/scratch.h"
#include "support/support.h"

enum { STEPS = 100, LIMIT = 4096 };

START_TEST(a_full_disk)
{
    static const char *const metrics[] = {"accuracy"}, *const names[] = {"cpu:0"};
    const struct rlimit limit = {LIMIT, LIMIT};
    const int64_t shares[] = {8};
    yki_tool_board boards[2] = {{0}};

    for (int i = 0; i < 2; i++)
        ASSERT_OK(yki_tool_board_open(&boards[i], scratch_path("board"), true));
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int64_t step = 1; step <= STEPS; step++) {
        const yoke_result result = {
            .loss = 1, .metric_count = 1, .samples = 8, .step = step, .seconds = 0.1};
        const yki_tool_board_step what = {&result, metrics, 0.1, shares, names, 1};

        for (int i = 0; i < 2; i++)
            yki_tool_board_add_step(&boards[i], &what);
    }
    ASSERT_REFUSED(YOKE_ERROR_IO, "cannot be written: File too large",
                   yki_tool_board_close(&boards[0], YOKE_OK));
    yoke_fail(YOKE_ERROR_VALUE, "training failed");
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "training failed",
                   yki_tool_board_close(&boards[1], YOKE_ERROR_VALUE));
}
END_TEST

START_TEST(all_is_written)
{
    yki_tool_board board = {0}, none = {0};

    ASSERT_OK(yki_tool_board_open(&board, scratch_path("board"), true));
    ASSERT_OK(yki_tool_board_close(&board, YOKE_OK));
    ASSERT_OK(yki_tool_board_open(&none, NULL, true));
    ck_assert_ptr_null(none.board);
    ASSERT_OK(yki_tool_board_close(&none, YOKE_OK));
    ASSERT_OK(yki_tool_board_open(&none, scratch_path("other"), false));
    ck_assert_ptr_null(none.board);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("tensorboard");
    TCase *tcase = test_case(suite, "disks");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_test(tcase, a_full_disk);
    tcase_add_test(tcase, all_is_written);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_comm.c - tables of communication that are not libyoke-mpi's.
 */
#include "support/support.h"

static int destroyed;

static void
count_destroy(yoke_comm *comm)
{
    (void)comm;
    destroyed++;
}

START_TEST(comm_destroy_calls_the_table)
{
    yoke_comm empty = {.size = sizeof empty};
    yoke_comm comm = {.size = sizeof comm, .destroy = count_destroy};

    yoke_comm_destroy(NULL);
    yoke_comm_destroy(&empty);
    ck_assert_int_eq(destroyed, 0);
    yoke_comm_destroy(&comm);
    ck_assert_int_eq(destroyed, 1);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("comm");
    TCase *tcase = test_case(suite, "comm");

    tcase_add_test(tcase, comm_destroy_calls_the_table);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_array.c - arrays on the devices of a team, and training written out with
 * replicas: sums, rows, what is lent, and what is refused.
 */
#include <string.h>

#include "support/devices.h"

TESTS_SHARE_A_PROCESS

static yoke_context *context;
static yoke_team *team;
static yoke_array *arrays[16];
static size_t devices;

static void
open_team(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_team_create(context, test_selector(), NULL, &team));
    devices = yoke_team_local_count(team);
    ck_assert_uint_le(devices, 16);
    ck_assert_uint_eq(yoke_team_count(team), devices);
}

static void
close_team(void)
{
    for (size_t k = 0; k < 16; k++)
        yoke_array_destroy(arrays[k]);
    memset(arrays, 0, sizeof arrays);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
}

static void
make(yoke_type type, int64_t count)
{
    for (size_t k = 0; k < devices; k++) {
        ASSERT_OK(yoke_array_create(yoke_team_get_device(team, k), type, count, &arrays[k]));
        ck_assert_ptr_eq(yoke_array_get_device(arrays[k]), yoke_team_get_device(team, k));
        ck_assert_int_eq(yoke_array_count(arrays[k]), count);
    }
}

START_TEST(sums_are_those_of_all_devices)
{
    float values[3], expected = (float)(devices * (devices + 1) / 2);

    make(YOKE_F32, 3);
    for (size_t k = 0; k < devices; k++) {
        for (int i = 0; i < 3; i++)
            values[i] = (float)(k + 1) * (float)(i + 1);
        ASSERT_OK(yoke_array_write(arrays[k], values, 3));
    }
    ASSERT_OK(yoke_team_allreduce(team, arrays, 1));
    for (size_t k = 0; k < devices; k++) {
        ASSERT_OK(yoke_array_read(arrays[k], values, 3));
        for (int i = 0; i < 3; i++)
            ck_assert_float_eq(values[i], expected * (float)(i + 1));
    }
}
END_TEST

START_TEST(rows_come_back_as_they_went)
{
    int32_t rows[7][3], back[7][3], part[21];
    int64_t counts[16], first = 0;

    make(YOKE_I32, 21);
    for (int i = 0; i < 21; i++)
        rows[i / 3][i % 3] = 1000 + i;
    ASSERT_OK(yoke_team_split(team, NULL, 7, counts));
    ASSERT_OK(yoke_team_scatter(team, counts, 3, rows, arrays));
    for (size_t k = 0; k < devices; k++) {
        ASSERT_OK(yoke_array_read(arrays[k], part, 21));
        ck_assert_mem_eq(part, rows[first], (size_t)counts[k] * sizeof rows[0]);
        first += counts[k];
    }
    ck_assert_int_eq(first, 7);
    memset(back, 0, sizeof back);
    ASSERT_OK(yoke_team_gather(team, counts, 3, arrays, back));
    ck_assert_mem_eq(back, rows, sizeof rows);
}
END_TEST

/* Rows of floats and of bytes: the second array would be filled from the wrong place. */
static void
refuse_types(const int64_t *counts)
{
    yoke_array *mixed[16];
    float values[4] = {0};

    memcpy(mixed, arrays, sizeof mixed);
    ASSERT_OK(yoke_array_create(yoke_team_get_device(team, 1), YOKE_U8, 4, &mixed[1]));
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_team_scatter(team, counts, 1, values, mixed));
    ASSERT_DETAIL("array 1 has type u8; must be f32, the type of array 0");
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_team_gather(team, counts, 1, mixed, values));
    yoke_array_destroy(mixed[1]);
}

START_TEST(bad_arrays_are_refused)
{
    yoke_array *other, *mixed[16];
    int64_t counts[16] = {0};
    float values[4] = {0};

    make(YOKE_F32, 4);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yoke_array_create(yoke_team_get_device(team, 0), YOKE_F32, 0, &other));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_array_write(arrays[0], values, 3));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_array_read(arrays[0], values, 5));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_array_read(NULL, values, 4));
    counts[0] = 5;
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_team_scatter(team, counts, 1, values, arrays));
    counts[0] = -1;
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_team_scatter(team, counts, 1, values, arrays));
    counts[0] = INT64_MAX / 2; /* 4 bytes each are 2^64 and more */
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_team_scatter(team, counts, 1, values, arrays));
    ASSERT_DETAIL("counts[0] is 4611686018427387903; must be at most 2305843009213693951");
    counts[0] = 0;
    memcpy(mixed, arrays, sizeof mixed);
    if (devices > 1)
        refuse_types(counts);
    mixed[0] = NULL;
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_team_allreduce(team, mixed, 1));
    ASSERT_OK(yoke_array_create(yoke_team_get_device(team, 0), YOKE_I32, 4, &other));
    mixed[0] = other;
    ASSERT_STATUS(YOKE_ERROR_TYPE, yoke_team_allreduce(team, mixed, 1));
    yoke_array_destroy(other);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_team_split(team, NULL, -1, counts));
}
END_TEST

/* y = w x, one sample on each device: the gradient of the batch is the sum of theirs. */
START_TEST(replicas_lend_what_is_summed)
{
    yoke_replica_options options = {.batch = 1, .optimizer = yoke_sgd(0.5f, 0)};
    yoke_initializer one = {YOKE_INIT_CONSTANT, 1, 0, 0};
    yoke_replica *replicas[16];
    yoke_array *lists[48], *again;
    float w, expected = 0;
    yoke_graph *g;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_mul(g, yoke_input(g, "x", YOKE_F32, yoke_shape(1)),
                 yoke_parameter(g, "w", yoke_shape(1), one));
    yoke_graph_set_loss(g, yoke_reshape(g, y, yoke_shape()));
    for (size_t k = 0; k < devices; k++) {
        float x = (float)(k + 1);

        expected += x / (float)devices;
        ASSERT_OK(yoke_replica_create(yoke_team_get_device(team, k), g, &options, &replicas[k]));
        ASSERT_OK(yoke_replica_get_loss(replicas[k], &lists[k]));
        ASSERT_OK(yoke_replica_get_gradient(replicas[k], "w", &lists[devices + k]));
        ASSERT_OK(yoke_replica_get_gradient(replicas[k], "w", &again));
        ck_assert_ptr_eq(again, lists[devices + k]);
        ASSERT_OK(yoke_replica_set_input(replicas[k], 1, yoke_feed_f32("x", &x, 1)));
        ASSERT_OK(yoke_replica_forward(replicas[k], 1));
        ASSERT_OK(yoke_replica_backward(replicas[k]));
    }
    ASSERT_OK(yoke_team_allreduce(team, lists, 2));
    for (size_t k = 0; k < devices; k++) {
        ASSERT_OK(yoke_replica_update(replicas[k], 1));
        ASSERT_OK(yoke_replica_get_parameter(replicas[k], "w", &again));
        ASSERT_OK(yoke_array_read(again, &w, 1));
        ck_assert_float_eq_tol(w, 1 - 0.5f * expected, 1e-6f);
        w = 7; /* what is written through it is used by the next forward */
        ASSERT_OK(yoke_array_write(again, &w, 1));
        ASSERT_OK(yoke_replica_read(replicas[k], "w", &w, 1));
        ck_assert_float_eq(w, 7);
    }
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_replica_get_parameter(replicas[0], "v", &again));
    for (size_t k = 0; k < devices; k++)
        yoke_replica_destroy(replicas[k]);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("array");
    TCase *all = test_case(suite, "array");

    tcase_add_checked_fixture(all, open_team, close_team);
    tcase_add_test(all, sums_are_those_of_all_devices);
    tcase_add_test(all, rows_come_back_as_they_went);
    tcase_add_test(all, bad_arrays_are_refused);
    tcase_add_test(all, replicas_lend_what_is_summed);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_search.c - a set of parameters that wisdom knows is taken, one for all problems
 * of a solver; a number that is no set is not. A search measures a set that fails once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"
#include "support/devices.h"
#include "support/fake_sets.h"
#include "support/scratch.h"
#include "support/support.h"

extern const yki_solver yki_solver_gemm_clblast;

static yoke_replica *
made(yoke_device *device, const char *wisdom)
{
    const yoke_replica_options o = {.batch = 8, .wisdom = wisdom};
    yoke_replica *replica;
    yoke_graph *g;
    yoke_node *h;

    ASSERT_OK(yoke_graph_create(&g));
    h = yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(24)),
                   &(yoke_dense_options){.units = 16});
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, h, h), NULL, 0));
    ASSERT_OK(yoke_replica_create(device, g, &o, &replica));
    yoke_graph_destroy(g);
    return replica;
}

static void
count_clblast(void *user, const char *line)
{
    *(int *)user += strstr(line, "gemm-clblast") != NULL;
}

/* For every product in the file: as if the set had taken next to no time. */
static void
add_set(yoke_device *device, const char *path, unsigned set)
{
    size_t size;
    char *text = scratch_read(path, &size), *save = NULL;
    yki_wisdom *w;
    int added = 0;

    ASSERT_OK(yki_wisdom_open(path, &w));
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *problem = strstr(line, " matmul");

        if (!problem || strstr(line, "gemm-clblast"))
            continue;
        ASSERT_OK(yki_wisdom_put(w, device, problem + 1, "gemm-clblast", set, 1e-9));
        added++;
    }
    ck_assert_int_gt(added, 0);
    ASSERT_OK(yki_wisdom_save(w));
    yki_wisdom_close(w);
    free(text);
}

START_TEST(search_takes_the_set_that_wisdom_knows)
{
    const char *path = scratch_path("w");
    const yki_parameter_sets *sets = yki_solver_gemm_clblast.sets;
    const unsigned *seeds;
    test_devices devices;
    yoke_device *device;
    yoke_replica *replica;
    unsigned valid = 0;
    size_t count = sets->seeds(&seeds);
    int used = 0;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    device = devices.device[0];
    if (devices.slow)
        TEST_NOT_HERE("CLBlast's kernels take long on a simulator");
    if (yki_device_get_traits(device)->type != YOKE_DEVICE_CPU)
        TEST_NOT_HERE(
            "GPUs' products add bias and sums on the way: tests/gpu/check_sets.c has sets");
    replica = made(device, path); /* measures ours */
    ASSERT_OK(yoke_replica_print_plan(replica, count_clblast, &used));
    ck_assert_int_eq(used, 0);
    yoke_replica_destroy(replica);

    add_set(device, path, UINT32_MAX - 1); /* no set at all */
    replica = made(device, path);
    ASSERT_OK(yoke_replica_print_plan(replica, count_clblast, &used));
    ck_assert_int_eq(used, 0);
    yoke_replica_destroy(replica);

    for (size_t i = 0; i < count; i++)
        if (sets->valid(seeds[i], yki_device_get_traits(device)))
            valid = seeds[i];
    add_set(device, path, valid);
    replica = made(device, path);
    ASSERT_OK(yoke_replica_print_plan(replica, count_clblast, &used));
    ck_assert_int_gt(used, 0);
    yoke_replica_destroy(replica);
    test_devices_close(&devices);
}
END_TEST

/* Searches on the first device, as long as it takes. */
static unsigned
search_fake_sets(bool all_fail)
{
    const fake_search_options o = {YOKE_PLAN_PATIENT, 1, all_fail};
    test_devices devices;
    unsigned taken;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    taken = fake_search(devices.device[0], &o);
    test_devices_close(&devices);
    return taken;
}

START_TEST(sets_that_fail_are_measured_once)
{
    ck_assert_uint_eq(search_fake_sets(false), FAKE_SETS - 1);
    for (unsigned set = 0; set < FAKE_SETS; set++)
        ck_assert_msg(fake_measured[set] <= 1, "set %u: %u times", set, fake_measured[set]);
    ck_assert_uint_eq(fake_measured[4], 1);
}
END_TEST

START_TEST(sets_that_fail_are_not_taken)
{
    ck_assert_uint_eq(search_fake_sets(true), FAKE_SETS);
    ck_assert_uint_eq(fake_measured[3], 1);
    ck_assert_uint_eq(fake_measured[8], 1);
}
END_TEST

/* At level measure a processor, whose own kernels are better, does not look for sets. */
START_TEST(processors_look_for_no_sets)
{
    const fake_search_options o = {YOKE_PLAN_MEASURE, 1e12, false};
    test_devices devices;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    for (size_t d = 0; d < devices.count; d++)
        if (yki_device_get_traits(devices.device[d])->type == YOKE_DEVICE_CPU)
            ck_assert_uint_eq(fake_search(devices.device[d], &o), FAKE_SETS);
    test_devices_close(&devices);
}
END_TEST

/* A solver for groups side by side is not even translated on a processor that another one suits. */
START_TEST(what_cannot_win_is_not_measured)
{
    test_devices devices;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    for (size_t d = 0; d < devices.count; d++) {
        const yki_device_traits *traits = yki_device_get_traits(devices.device[d]);
        bool processor = traits->type == YOKE_DEVICE_CPU && traits->vector_width >= 4;
        const char *path = scratch_path(d ? "other" : "w");
        size_t size;
        char *text;

        unlink(path);
        yoke_replica_destroy(made(devices.device[d], path));
        text = scratch_read(path, &size);
        ck_assert_ptr_nonnull(strstr(text, " gemm-"));
        ck_assert_msg(!strstr(text, " gemm-tiled ") == processor, "%s", text);
        free(text);
    }
    test_devices_close(&devices);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("search");
    TCase *tcase = test_case(suite, "search");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_test(tcase, search_takes_the_set_that_wisdom_knows);
    tcase_add_test(tcase, sets_that_fail_are_measured_once);
    tcase_add_test(tcase, sets_that_fail_are_not_taken);
    tcase_add_test(tcase, processors_look_for_no_sets);
    tcase_add_test(tcase, what_cannot_win_is_not_measured);
    return suite;
}

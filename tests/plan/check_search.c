/* SPDX-License-Identifier: Apache-2.0
 *
 * check_search.c - a set of CLBlast's parameters that wisdom knows is taken, one for
 * all products of a plan; a number that is no set is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "op/matmul/clblast.h"
#include "plan/plan.h"
#include "support/devices.h"
#include "support/scratch.h"
#include "support/support.h"

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
    const unsigned *seeds;
    test_devices devices;
    yoke_device *device;
    yki_clblast_set set;
    yoke_replica *replica;
    unsigned valid = 0;
    size_t count = yki_clblast_seeds(&seeds);
    int used = 0;

    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    device = devices.device[0];
    if (devices.slow)
        TEST_NOT_HERE("CLBlast's kernels take long on a simulator");
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
        if (yki_clblast_decode(seeds[i], &set) &&
            yki_clblast_valid(&set, yki_device_get_traits(device)))
            valid = seeds[i];
    add_set(device, path, valid);
    replica = made(device, path);
    ASSERT_OK(yoke_replica_print_plan(replica, count_clblast, &used));
    ck_assert_int_gt(used, 0);
    yoke_replica_destroy(replica);
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
    tcase_add_test(tcase, what_cannot_win_is_not_measured);
    return suite;
}

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

/* ---- a solver with sets that work and sets that fail ---- */

enum { FAKE_SETS = 16 };
static unsigned fake_measured[FAKE_SETS], fake_used;
static bool fake_all_fail;

static bool
fake_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    (void)traits;
    return true;
}

static double
fake_work(const yki_problem *problem, char *text, size_t size)
{
    snprintf(text, size, "a product");
    return (double)problem->max.batch;
}

static size_t
fake_seeds(const unsigned **seeds)
{
    static const unsigned list[] = {3, 3, 8};

    *seeds = list;
    return YKI_COUNT(list);
}

static bool
fake_valid(unsigned set, const yki_device_traits *traits)
{
    (void)traits;
    return set < FAKE_SETS;
}

static size_t
fake_neighbours(unsigned set, unsigned move, unsigned found[YKI_MAX_NEIGHBOURS])
{
    found[0] = set + 1 + move;
    found[1] = set - 1 - move;
    return 2;
}

static void
fake_describe(unsigned set, char *text, size_t size)
{
    snprintf(text, size, "%u", set);
}

/* Odd sets work, and a higher one is faster. */
static yoke_status
fake_measure(yki_queue *queue, const yki_problem *problem, unsigned set, double *seconds)
{
    (void)queue;
    (void)problem;
    if (set >= FAKE_SETS)
        return yki_fail(YOKE_ERROR_VALUE, "no own set");
    fake_measured[set]++;
    if (fake_all_fail || set % 2 == 0)
        return yki_fail(YOKE_ERROR_VALUE, "set %u computes wrongly", set);
    *seconds = 1.0 / set;
    return YOKE_OK;
}

static yoke_status
fake_use(yki_queue *queue, unsigned set)
{
    (void)queue;
    fake_used = set;
    return YOKE_OK;
}

static bool
fake_in_force(yki_queue *queue, unsigned *set)
{
    (void)queue;
    (void)set;
    return false;
}

static const yki_parameter_sets fake_sets = {
    .title = "a test",
    .own = UINT32_MAX,
    .moves = 2,
    .work = fake_work,
    .seeds = fake_seeds,
    .valid = fake_valid,
    .neighbours = fake_neighbours,
    .describe = fake_describe,
    .measure = fake_measure,
    .use = fake_use,
    .in_force = fake_in_force,
};

/* Searches the sets of the solver above for a plan with one product. Gives the set that the plan
 * takes; FAKE_SETS: none. */
static unsigned
search_fake_sets(bool all_fail)
{
    static const yki_op *const op = &yki_op_matmul;
    const yki_solver fake = {
        .name = "fake", .op = &op, .sets = &fake_sets, .applies = fake_applies};
    yki_plan_options options = {.max.batch = 4};
    const unsigned *set;
    unsigned taken;
    test_devices devices;
    yki_weights *weights;
    yki_queue *queue;
    yki_plan *plan;
    yoke_graph *g;

    fake_all_fail = all_fail;
    fake_used = FAKE_SETS;
    memset(fake_measured, 0, sizeof fake_measured);
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yki_wisdom_open(NULL, &options.wisdom));
    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_output(g, "y",
                          yoke_dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(6)),
                                     &(yoke_dense_options){.units = 5}));
    ASSERT_OK(yki_queue_create(devices.device[0], false, &queue));
    ASSERT_OK(yki_weights_create(devices.device[0], g, false, 0, NULL, &weights));
    ASSERT_OK(yki_plan_create(weights, queue, &options, &plan));
    ck_assert_ptr_null(yki_plan_set_of(plan, &fake));
    plan->options.level = YOKE_PLAN_PATIENT;
    ASSERT_OK(yki_plan_search_sets(plan, &fake));
    set = yki_plan_set_of(plan, &fake);
    taken = set ? *set : FAKE_SETS;
    ck_assert_uint_eq(fake_used, taken);
    yki_plan_destroy(plan);
    yki_weights_release(weights);
    yki_queue_destroy(queue);
    yoke_graph_destroy(g);
    yki_wisdom_close(options.wisdom);
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
    tcase_add_test(tcase, what_cannot_win_is_not_measured);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_kept_spaces.c - who selects again what was left finds its programs; what of it is new, and
 * what is not kept.
 */
#include <stdio.h>
#include <stdlib.h>

#include "device/cache.h"
#include "device/internal.h"
#include "support/devices.h"

static const char source[] =
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void one(__global int *x)\n"
    "{\n"
    "    x[0] = 1;\n"
    "}\n";

static yoke_context *context;
static bool keeps;    /* the first device has no memory of its own */
static bool cuttable; /* into ten parts at least */
static char first[64];

static void
open_context(void)
{
    const yoke_context_options options = {.no_cache = true}; /* each build counts */
    const yoke_device *device;

    setenv("POCL_MAX_PTHREAD_COUNT", "16", 1); /* compute units; others make slices */
    ASSERT_OK(yoke_context_create(&options, &context));
    device = yoke_context_get_device(context, 0);
    keeps = device->root->traits.host_memory;
    cuttable = !device->root->info.partition || device->traits.compute_units >= 3 + YKI_KEPT_SPACES;
    snprintf(first, sizeof first, "%s", yki_device_id(device));
}

static void
close_context(void)
{
    yoke_context_destroy(context);
}

static yoke_selection *
take(const char *suffix)
{
    yoke_selection *selection;
    char text[96];

    snprintf(text, sizeof text, "%s%s", first, suffix);
    ASSERT_OK(yoke_selection_create(context, text, NULL, &selection));
    return selection;
}

/* Runs the kernel on each device, and returns how many programs that took to build. */
static unsigned
builds_on(yoke_selection *selection)
{
    const yki_grid grid = {{1, 1, 1}, {1, 1, 1}};
    uint64_t before = yki_program_builds();

    for (size_t i = 0; i < yoke_selection_count(selection); i++) {
        yoke_device *device = yoke_selection_get(selection, i);
        yki_program *program;
        yki_kernel *kernel;
        yki_buffer *buffer;
        yki_queue *queue;
        int x = 0;

        ASSERT_OK(yki_program_get_source(device, "one.cl", source, "", &program));
        ASSERT_OK(yki_kernel_create(program, "one", &kernel));
        ASSERT_OK(yki_buffer_create(device, sizeof x, 0, "a test", &buffer));
        ASSERT_OK(yki_queue_create(device, false, &queue));
        ASSERT_OK(yki_kernel_set_buffer(kernel, 0, buffer));
        ASSERT_OK(yki_queue_launch(queue, kernel, &grid, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_finish(queue));
        ASSERT_OK(yki_buffer_get(buffer, 0, sizeof x, &x));
        ck_assert_int_eq(x, 1);
        yki_queue_destroy(queue);
        yki_buffer_destroy(buffer);
        yki_kernel_destroy(kernel);
        yki_program_release(program);
    }
    return (unsigned)(yki_program_builds() - before);
}

static unsigned
builds_of(const char *suffix)
{
    yoke_selection *selection = take(suffix);
    unsigned builds = builds_on(selection);

    yoke_selection_destroy(selection);
    return builds;
}

START_TEST(programs_are_found_again)
{
    ck_assert_uint_eq(builds_of(""), 1);
    ck_assert_uint_eq(builds_of(""), !keeps);
    ck_assert_uint_eq(builds_of("/2"), 1);
    ck_assert_uint_eq(builds_of("/2"), !keeps);
    ck_assert_uint_eq(builds_of("/2.1"), !keeps);
    ck_assert_uint_eq(builds_of(""), !keeps);
}
END_TEST

/* The parts of a split and core groups differ, also where they are as many. */
START_TEST(core_groups_are_found_again)
{
    yoke_selection *whole = take("");
    yoke_device *device = yoke_selection_get(whole, 0);

    if (yki_core_groups_count(device, 2) != 2) {
        yoke_selection_destroy(whole);
        if (test_in_matrix()) /* this one cannot */
            return;
        TEST_SKIP("%s is not divided into core groups", first);
    }
    yoke_selection_destroy(whole);
    ck_assert_uint_eq(builds_of("/2"), 1);
    for (int i = 0; i < 2; i++) {
        yoke_selection *groups;
        yki_buffer *buffer;
        yoke_memory_usage usage;

        whole = take(i ? "@1MiB" : "");
        device = yoke_selection_get(whole, 0);
        ASSERT_OK(yki_core_groups_create(device, 2, &groups));
        ck_assert_uint_eq(builds_on(groups), i == 0);
        /* They are charged to the device of now. */
        ASSERT_OK(yki_buffer_create(yoke_selection_get(groups, 1), 1 << 16, 0, "a test", &buffer));
        ASSERT_OK(yoke_device_get_memory(device, &usage));
        ck_assert_uint_ge(usage.used, 1 << 16);
        yki_buffer_destroy(buffer);
        yoke_selection_destroy(groups);
        yoke_selection_destroy(whole);
    }
    ck_assert_uint_eq(builds_of("/2"), 0);
}
END_TEST

START_TEST(all_but_programs_is_new)
{
    yoke_selection *selection = take("@1MiB");
    yoke_device *device = yoke_selection_get(selection, 0);
    yoke_memory_usage usage;

    builds_on(selection);
    yki_device_wait_asleep(device);
    ASSERT_OK(yoke_device_get_memory(device, &usage));
    ck_assert_uint_gt(usage.peak, 0);
    yoke_selection_destroy(selection);
    selection = take("");
    device = yoke_selection_get(selection, 0);
    ASSERT_OK(yoke_device_get_memory(device, &usage));
    ck_assert_uint_eq(usage.quota, 0);
    ck_assert_uint_eq(usage.used, 0);
    ck_assert_uint_eq(usage.peak, 0);
    ck_assert(!atomic_load(&device->asleep));
    yoke_selection_destroy(selection);
}
END_TEST

/* A driver may answer with an error ever after. */
START_TEST(what_has_failed_is_made_anew)
{
    yoke_selection *selection = take("/2");

    ck_assert_uint_eq(builds_on(selection), 1);
    ASSERT_STATUS(YOKE_ERROR_DEVICE, yki_cl_fail(CL_OUT_OF_RESOURCES, "clFinish",
                                                 yoke_selection_get(selection, 1), "a test"));
    yoke_selection_destroy(selection);
    ck_assert_uint_eq(builds_of("/2"), 1);
    ck_assert_uint_eq(builds_of("/2"), !keeps);
}
END_TEST

/* The oldest go. */
START_TEST(few_are_kept)
{
    const int most = YKI_KEPT_SPACES;
    char suffix[16];

    if (!cuttable && test_in_matrix())
        return;
    if (!cuttable)
        TEST_SKIP("%s has too few compute units", first);
    for (int round = 0; round < 2; round++)
        for (int parts = 2; parts <= 2 + most; parts++) { /* one too many */
            snprintf(suffix, sizeof suffix, "/%d", parts);
            ck_assert_msg(builds_of(suffix) == 1, "round %d, %s", round, suffix);
        }
    for (int parts = 2 + most; parts > 2; parts--) {
        snprintf(suffix, sizeof suffix, "/%d", parts);
        ck_assert_msg(builds_of(suffix) == !keeps, "again, %s", suffix);
    }
    yki_spaces_forget(context);
    ck_assert_uint_eq(builds_of("/3"), 1);
}
END_TEST

/* As those of a user's own kernels may be: a thousand and one. */
START_TEST(many_programs_are_not_kept)
{
    yoke_selection *selection = take("");
    yki_program own[1001] = {{.next = NULL}};
    yki_space *space = yki_device_space(yoke_selection_get(selection, 0));

    builds_on(selection);
    for (size_t i = 0; i + 1 < YKI_COUNT(own); i++)
        own[i].next = &own[i + 1];
    own[1000].next = space->programs;
    space->programs = &own[1];
    ck_assert_ptr_eq(yki_space_keep(space), space);
    space->programs = own[1000].next;
    yoke_selection_destroy(selection);
    ck_assert_uint_eq(builds_of(""), !keeps);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("kept spaces");
    TCase *kept = test_case(suite, "kept spaces");

    tcase_add_checked_fixture(kept, open_context, close_context);
    tcase_add_test(kept, programs_are_found_again);
    tcase_add_test(kept, core_groups_are_found_again);
    tcase_add_test(kept, all_but_programs_is_new);
    tcase_add_test(kept, what_has_failed_is_made_anew);
    tcase_add_test(kept, few_are_kept);
    tcase_add_test(kept, many_programs_are_not_kept);
    return suite;
}

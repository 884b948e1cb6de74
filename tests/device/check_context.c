/* SPDX-License-Identifier: Apache-2.0
 *
 * check_context.c - finding devices: what is here, no driver at all, and drivers that
 * share a chip.
 */
#include <ctype.h>
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"
#include "device/listing.h"
#include "support/devices.h"

/* ---- what is here ---- */

START_TEST(devices_are_listed_and_described)
{
    yoke_context *context;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ck_assert_uint_gt(yoke_context_device_count(context), 0);
    for (size_t i = 0; i < yoke_context_device_count(context); i++) {
        yoke_device_info info = list_info_at(context, i), best;

        ck_assert_str_ne(info.name, "");
        ck_assert_str_ne(info.platform, "");
        ck_assert_str_ne(info.driver, "");
        ck_assert_str_eq(info.parent, info.id);
        ck_assert_int_eq(strncmp(info.version, "OpenCL ", 7), 0);
        ck_assert_uint_gt(info.compute_units, 0);
        ck_assert_uint_gt(info.vector_width, 0);
        ck_assert_uint_gt(info.memory, 1 << 20);
        ck_assert_uint_gt(info.max_allocation, 1 << 20);
        ck_assert_uint_le(info.max_allocation, info.memory);
        ck_assert_uint_eq(info.quota, 0);
        ck_assert_int_eq(info.virtual_kind, YOKE_VIRTUAL_NONE);
        if (i)
            ck_assert_int_ge(info.type, list_info_at(context, i - 1).type);
        best = list_info_named(context, info.preferred);
        ck_assert_str_eq(best.hardware, info.hardware);
        ck_assert_str_eq(best.preferred, best.id);
        printf("# %s: %s, %s, %s, preferred %s\n", info.id, info.name, info.platform, info.hardware,
               info.preferred);
    }
    fflush(stdout);
    ck_assert_ptr_null(yoke_context_get_device(context, yoke_context_device_count(context)));
    ck_assert_ptr_null(yoke_context_get_problem(context, yoke_context_problem_count(context)));
    yoke_context_destroy(context);
}
END_TEST

START_TEST(ids_are_the_same_in_every_context)
{
    yoke_context *a, *b;

    ASSERT_OK(yoke_context_create(NULL, &a));
    ASSERT_OK(yoke_context_create(NULL, &b));
    ck_assert_uint_eq(yoke_context_device_count(a), yoke_context_device_count(b));
    for (size_t i = 0; i < yoke_context_device_count(a); i++) {
        yoke_device_info one, two;

        memset(&one, 0, sizeof one);
        memset(&two, 0, sizeof two);
        one = list_info_at(a, i);
        two = list_info_at(b, i);
        ck_assert_str_eq(one.id, two.id);
        ck_assert_str_eq(one.name, two.name);
        ck_assert_str_eq(one.hardware, two.hardware);
        ck_assert_int_eq(one.fp16, two.fp16);
    }
    yoke_context_destroy(a);
    yoke_context_destroy(b);
}
END_TEST

START_TEST(all_takes_each_hardware_once)
{
    yoke_context *context;
    yoke_selection *selection;
    yoke_device_info infos[16];
    size_t count;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, "all", NULL, &selection));
    count = yoke_selection_count(selection);
    ck_assert_uint_gt(count, 0);
    ck_assert_uint_le(count, 16);
    for (size_t i = 0; i < count; i++) {
        ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, i), &infos[i]));
        ck_assert_str_eq(infos[i].preferred, infos[i].id);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(infos[i].hardware, infos[j].hardware);
    }
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

START_TEST(a_part_of_the_name_is_enough)
{
    yoke_context *context;
    yoke_device_info info;
    char selector[200] = "name~";
    size_t length = strlen(selector);

    ASSERT_OK(yoke_context_create(NULL, &context));
    info = list_info_at(context, 0);
    for (const char *c = info.name + 1; *c && !strchr(",/@", *c); c++)
        selector[length++] = (char)toupper((unsigned char)*c);
    selector[length] = '\0';
    ck_assert_ptr_nonnull(strstr(list_selected(context, selector), info.id));
    yoke_context_destroy(context);
}
END_TEST

/* A caller built against an older, shorter struct. */
START_TEST(shorter_structs_are_filled_as_far_as_they_go)
{
    struct {
        char id[64];
        char guard[64];
    } old;
    yoke_memory_usage usage = {7, 7, 7};
    yoke_context *context;

    memset(&old, 'x', sizeof old);
    ASSERT_OK(yoke_context_create_sized(NULL, 0, &context));
    ASSERT_OK(yoke_device_get_info_sized(yoke_context_get_device(context, 0),
                                         (yoke_device_info *)&old, sizeof old.id));
    ck_assert_str_eq(old.id, list_info_at(context, 0).id);
    for (size_t i = 0; i < sizeof old.guard; i++)
        ck_assert_int_eq(old.guard[i], 'x');
    ASSERT_OK(yoke_device_get_memory_sized(yoke_context_get_device(context, 0), &usage, 8));
    ck_assert_uint_eq(usage.quota, 0);
    ck_assert_uint_eq(usage.used, 7);
    yoke_context_destroy(context);
}
END_TEST

START_TEST(null_arguments_are_refused)
{
    yoke_device_info info;

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_context_create(NULL, NULL));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_device_get_info(NULL, &info));
    yoke_context_destroy(NULL);
    ck_assert_uint_eq(yoke_context_device_count(NULL), 0);
    ck_assert_uint_eq(yoke_context_problem_count(NULL), 0);
    ck_assert_ptr_null(yoke_context_get_device(NULL, 0));
    ck_assert_ptr_null(yoke_context_get_problem(NULL, 0));
}
END_TEST

/* What a device says of host pointers must hold; the test does what the probe's kernel does
 * through commands that the runtime has. */
START_TEST(host_pointers_are_direct_where_it_says_so)
{
    yoke_context *context;
    yoke_selection *selection;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, "all", NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++) {
        yoke_device *device = yoke_selection_get(selection, i);
        const yki_device_traits *traits = yki_device_get_traits(device);

        printf("# %s: host memory %d, direct %d\n", yki_device_id(device), traits->host_memory,
               traits->direct_host);
        fflush(stdout);
        ck_assert(traits->host_memory || !traits->direct_host);
        if (strstr(device->root->info.platform, "Portable Computing"))
            ck_assert(traits->direct_host); /* measured: it is */
    }
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}
END_TEST

static size_t
open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;

    if (!dir)
        return 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Threads of a driver may take or give back some memory once, in one half; what each context loses
 * shows in both. */
START_TEST(a_thousand_contexts_do_not_grow)
{
    size_t memory[3] = {0}, files = 0;

    for (int i = 0; i < 1000; i++) {
        yoke_context *context;

        ASSERT_OK(yoke_context_create(NULL, &context));
        yoke_context_destroy(context);
        if (i == 9)
            files = open_files();
        if (i == 9 || i == 504 || i == 999)
            memory[(i + 1) / 500] = mallinfo2().uordblks;
    }
    ck_assert_msg(memory[1] <= memory[0] + 1024 || memory[2] <= memory[1] + 1024,
                  "%zu, %zu, %zu bytes", memory[0], memory[1], memory[2]);
    ck_assert_uint_eq(open_files(), files);
}
END_TEST

/* ---- set-ups of its own ---- */

START_TEST(no_driver_names_the_package)
{
    yoke_context *context = (yoke_context *)&context;

    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    ASSERT_STATUS(YOKE_ERROR_NO_OPENCL, yoke_context_create(NULL, &context));
    ASSERT_DETAIL("apt install pocl-opencl-icd");
    ASSERT_DETAIL("dnf install pocl");
    ASSERT_DETAIL("pacman -S pocl");
    ck_assert_ptr_eq(context, &context);
}
END_TEST

START_TEST(two_drivers_of_one_chip_are_one)
{
    yoke_context *context;
    test_devices devices;

    if (!test_devices_open(TEST_POCL_AND_RUSTICL, &devices))
        TEST_SKIP("%s", devices.missing);
    test_devices_close(&devices);
    ASSERT_OK(yoke_context_create(NULL, &context));
    ck_assert_uint_ge(yoke_context_device_count(context), 2);
    ck_assert_ptr_nonnull(strstr(list_info_named(context, "cpu:0").platform, "Portable Computing"));
    ck_assert_str_eq(list_info_named(context, "cpu:1").platform, "rusticl");
    ck_assert_str_eq(list_info_named(context, "cpu:0").hardware, "host-cpu");
    ck_assert_str_eq(list_info_named(context, "cpu:1").hardware, "host-cpu");
    ck_assert_str_eq(list_info_named(context, "cpu:1").preferred, "cpu:0");
    ck_assert_str_eq(list_selected(context, "cpu"), "cpu:0");
    ck_assert_ptr_null(strstr(list_selected(context, "all"), "cpu:1"));
    ck_assert_str_eq(list_selected(context, "cpu:1"), "cpu:1");
    ck_assert_str_eq(list_selected(context, "cpu:1,cpu:0"), "cpu:1 cpu:0");
    ck_assert_str_eq(list_selected(context, "name~LLVMpipe"), "cpu:1");
    yoke_context_destroy(context);
}
END_TEST

START_TEST(one_driver_may_show_a_chip_twice)
{
    yoke_device_info info;
    test_devices devices;
    char selector[80];

    if (!test_devices_open(TEST_POCL_ROOTS, &devices))
        TEST_SKIP("%s", devices.missing);
    ck_assert_uint_eq(devices.count, 2);
    ck_assert_ptr_ne(yki_device_space(devices.device[0]), yki_device_space(devices.device[1]));
    ck_assert_str_eq(list_info_named(devices.context, "cpu:1").preferred, "cpu:0");
    yoke_selection_destroy(devices.selection);
    devices.selection = NULL;
    ck_assert_str_eq(list_selected(devices.context, "cpu"), "cpu:0");
    /* PoCL calls it pthread-PROCESSOR up to version 4, then cpu-BUILD-PROCESSOR. */
    ASSERT_OK(yoke_device_get_info(yoke_context_get_device(devices.context, 0), &info));
    snprintf(selector, sizeof selector, "name~%.*s", (int)strcspn(info.name, "-"), info.name);
    ck_assert_str_eq(list_selected(devices.context, selector), "cpu:0 cpu:1");
    test_devices_close(&devices);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("context");
    TCase *here = test_case(suite, "here"), *own;

    tcase_add_test(here, devices_are_listed_and_described);
    tcase_add_test(here, ids_are_the_same_in_every_context);
    tcase_add_test(here, all_takes_each_hardware_once);
    tcase_add_test(here, a_part_of_the_name_is_enough);
    tcase_add_test(here, shorter_structs_are_filled_as_far_as_they_go);
    tcase_add_test(here, null_arguments_are_refused);
    tcase_add_test(here, host_pointers_are_direct_where_it_says_so);
    tcase_add_test(here, a_thousand_contexts_do_not_grow);
    if (test_in_matrix())
        return suite;
    own = test_case(suite, "set-ups");
    tcase_add_test(own, no_driver_names_the_package);
    tcase_add_test(own, two_drivers_of_one_chip_are_one);
    tcase_add_test(own, one_driver_may_show_a_chip_twice);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_drivers.c - drivers that are broken or claim odd things, and devices that no
 * test machine has: all of them are fakecl.c.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "device/listing.h"
#include "support/devices.h"

static const char *
fake_path(void)
{
    static char path[1024];
    const char *build = getenv("YOKE_BUILDDIR");

    snprintf(path, sizeof path, "%s/tests/device/.libs/fakecl.so", build ? build : ".");
    return path;
}

/* Ends the context, after which nothing of the driver may be left. */
static void
end(yoke_context *context)
{
    union {
        void *address;
        int (*function)(void);
    } entry;
    void *driver = dlopen(fake_path(), RTLD_NOW); /* the loader has it: the same */

    yoke_context_destroy(context);
    yki_release_kept_parts();
    ck_assert_ptr_nonnull(driver);
    entry.address = dlsym(driver, "fakecl_live");
    ck_assert_ptr_nonnull(entry.address);
    ck_assert_int_eq(entry.function(), 0);
    dlclose(driver);
}

static yoke_status
fake(const char *scene, yoke_context **context)
{
    setenv("OCL_ICD_VENDORS", fake_path(), 1);
    setenv("YOKE_FAKECL", scene, 1);
    return yoke_context_create(NULL, context);
}

START_TEST(gpus_are_known_by_their_address)
{
    yoke_context *context;

    ASSERT_OK(fake("gpus", &context));
    ck_assert_uint_eq(yoke_context_device_count(context), 6);
    /* sorted by identity: "driver:", then "pci:" in the order of addresses, then "uuid:" */
    ck_assert_str_eq(list_info_named(context, "gpu:0").name, "nothing known");
    ck_assert_str_eq(list_info_named(context, "gpu:1").name, "gfx-fake");
    ck_assert_str_eq(list_info_named(context, "gpu:1").hardware,
                     "pci:0000:03:00.0");                                 /* AMD's query */
    ck_assert_str_eq(list_info_named(context, "gpu:2").platform, "clvk"); /* the standard's */
    ck_assert_str_eq(list_info_named(context, "gpu:2").hardware, "pci:0000:03:00.0");
    ck_assert_str_eq(list_info_named(context, "gpu:2").preferred, "gpu:1");
    ck_assert_str_eq(list_info_named(context, "gpu:3").name, "Fake RTX"); /* NVIDIA's query */
    ck_assert_str_eq(list_info_named(context, "gpu:3").hardware, "pci:0010:81:02.1");
    ck_assert_str_eq(list_info_named(context, "gpu:4").preferred, "gpu:3");
    ck_assert_str_eq(list_info_named(context, "gpu:5").hardware,
                     "uuid:77777777777777777777777777777777");
    ck_assert_str_eq(list_selected(context, "all"), "gpu:0 gpu:1 gpu:3 gpu:5");
    ck_assert_str_eq(list_selected(context, "gpu"), "gpu:0 gpu:1 gpu:3 gpu:5");
    ck_assert_str_eq(list_selected(context, "name~fake"), "gpu:1 gpu:2 gpu:3 gpu:4");
    end(context);
}
END_TEST

/* As in gpus_are_known_by_their_address, less what is hidden. */
START_TEST(hidden_devices_are_not_there)
{
    yoke_context *context;
    yoke_selection *selection;

    setenv("YOKE_VISIBLE_DEVICES", "gpu:4, name~gfx", 1);
    ASSERT_OK(fake("gpus", &context));
    ck_assert_uint_eq(yoke_context_device_count(context), 3);
    /* the others are numbered anew, in their order */
    ck_assert_str_eq(list_info_named(context, "gpu:0").platform,
                     "AMD Accelerated Parallel Processing");
    ck_assert_str_eq(list_info_named(context, "gpu:1").platform, "clvk");
    ck_assert_str_eq(list_info_named(context, "gpu:2").name, "Fake RTX by another");
    /* what is hidden is not preferred */
    ck_assert_str_eq(list_info_named(context, "gpu:2").preferred, "gpu:2");
    ck_assert_str_eq(list_info_named(context, "gpu:1").preferred, "gpu:0");
    ck_assert_str_eq(list_selected(context, "all"), "gpu:0 gpu:2");
    ck_assert_str_eq(list_selected(context, "name~RTX"), "gpu:2");
    ASSERT_STATUS(YOKE_ERROR_SELECTOR, yoke_selection_create(context, "gpu:3", NULL, &selection));
    ASSERT_DETAIL("3 GPUs were found, and the first has the number 0");
    ASSERT_DETAIL("YOKE_VISIBLE_DEVICES hides 3 more");
    end(context);
}
END_TEST

START_TEST(all_hides_nothing)
{
    yoke_context *context;

    setenv("YOKE_VISIBLE_DEVICES", "all", 1);
    ASSERT_OK(fake("simulator", &context));
    ck_assert_str_eq(list_selected(context, "all"), "gpu:0");
    ck_assert_uint_eq(yoke_context_device_count(context), 2);
    end(context);
}
END_TEST

START_TEST(a_bad_list_of_visible_devices_names_the_variable)
{
    static const struct {
        const char *value;
        yoke_status status;
        const char *says[2];
    } rows[] = {
        {"", YOKE_ERROR_NO_DEVICE, {"YOKE_VISIBLE_DEVICES is empty", "or be unset"}},
        {" ", YOKE_ERROR_NO_DEVICE, {"YOKE_VISIBLE_DEVICES is empty", "or be unset"}},
        {"tpu",
         YOKE_ERROR_SELECTOR,
         {"YOKE_VISIBLE_DEVICES: selector \"tpu\"", "there are: gpu:0"}},
        {"gpu:0,gpu:6", YOKE_ERROR_SELECTOR, {"YOKE_VISIBLE_DEVICES: ", "6 GPUs were found"}},
        {"cpu", YOKE_ERROR_SELECTOR, {"YOKE_VISIBLE_DEVICES: ", "no CPU was found"}},
        {"gpu:0/2", YOKE_ERROR_SELECTOR, {"YOKE_VISIBLE_DEVICES: ", "as a whole"}},
        {"gpu:0@1GiB", YOKE_ERROR_SELECTOR, {"YOKE_VISIBLE_DEVICES: ", "as a whole"}},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        yoke_context *context = NULL;

        setenv("YOKE_VISIBLE_DEVICES", rows[i].value, 1);
        ASSERT_STATUS(rows[i].status, fake("gpus", &context));
        ck_assert_ptr_null(context);
        ASSERT_DETAIL(rows[i].says[0]);
        ASSERT_DETAIL(rows[i].says[1]);
    }
}
END_TEST

/* A maximum of sub-devices is reported, no type is offered, and the call would crash. */
START_TEST(what_is_not_offered_is_not_called)
{
    yoke_context *context;
    yoke_selection *selection;
    yoke_device_info info;

    ASSERT_OK(fake("gpus", &context));
    ck_assert_str_eq(list_selected(context, "gpu:1/2"), "gpu:1/2.0 gpu:1/2.1");
    ck_assert_str_eq(list_selected(context, "gpu:1/1+3.1"), "gpu:1/1+3.1");
    ASSERT_OK(yoke_selection_create(context, "gpu:1/4@1GiB", NULL, &selection));
    ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, 3), &info));
    ck_assert_int_eq(info.virtual_kind, YOKE_VIRTUAL_SLICE);
    ck_assert_uint_eq(info.quota, UINT64_C(1) << 30);
    ck_assert_uint_eq(info.compute_units, 36);
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED,
                  yoke_selection_create(context, "gpu:3/numa", NULL, &selection));
    yoke_selection_destroy(selection);
    end(context);
}
END_TEST

START_TEST(numa_domains_are_sub_devices)
{
    yoke_context *context;
    yoke_selection *selection;
    yoke_device_info info;
    const char *cpu, *id = "cpu:0/numa.0 cpu:0/numa.1";

    ASSERT_OK(fake("numa", &context));
    cpu = list_info_named(context, "cpu:0").name;
    ck_assert_uint_eq(list_info_named(context, "cpu:0").partition, YOKE_PARTITION_NUMA);
    ck_assert_str_eq(cpu, "two sockets");
    ck_assert_str_eq(list_selected(context, "cpu:0/numa"), id);
    ck_assert_str_eq(list_selected(context, "cpu:0/numa.1"), "cpu:0/numa.1");
    ASSERT_STATUS(YOKE_ERROR_SELECTOR,
                  yoke_selection_create(context, "cpu:0/numa.2", NULL, &selection));
    ASSERT_DETAIL("this split has 2 parts");
    ASSERT_OK(yoke_selection_create(context, "cpu:0/numa", NULL, &selection));
    ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, 1), &info));
    ck_assert_int_eq(info.virtual_kind, YOKE_VIRTUAL_SUBDEVICE);
    ck_assert_uint_eq(info.compute_units, 4);
    yoke_selection_destroy(selection);
    ck_assert_str_eq(list_selected(context, "cpu:0/2"), "cpu:0/2.0 cpu:0/2.1"); /* slices */
    end(context);
}
END_TEST

/* Seven units in two equal parts are three each; the driver makes no third part of the rest. In
 * three the driver makes three and a half: the half stays idle. */
START_TEST(equal_parts_where_counts_are_not_offered)
{
    yoke_context *context;
    yoke_selection *selection;
    yoke_device_info info;

    ASSERT_OK(fake("numa", &context));
    ck_assert_str_eq(list_info_named(context, "cpu:1").name, "equal only");
    for (uint32_t n = 1; n <= 7; n++) {
        char text[32];

        snprintf(text, sizeof text, "cpu:1/%u", n);
        ASSERT_OK(yoke_selection_create(context, text, NULL, &selection));
        ck_assert_uint_eq(yoke_selection_count(selection), n);
        ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, n - 1), &info));
        ck_assert_int_eq(info.virtual_kind, YOKE_VIRTUAL_SUBDEVICE);
        ck_assert_uint_eq(info.compute_units, 7 / n);
        yoke_selection_destroy(selection);
    }
    ASSERT_STATUS(YOKE_ERROR_SELECTOR, yoke_selection_create(context, "cpu:1/8", NULL, &selection));
    ASSERT_OK(yoke_selection_create(context, "cpu:1/3+4", NULL, &selection));
    ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, 0), &info));
    ck_assert_int_eq(info.virtual_kind, YOKE_VIRTUAL_SLICE);
    yoke_selection_destroy(selection);
    end(context);
}
END_TEST

START_TEST(simulators_stand_back)
{
    yoke_context *context;

    ASSERT_OK(fake("simulator", &context));
    ck_assert_str_eq(list_info_named(context, "acc:0").name, "claims all");
    ck_assert_str_eq(list_info_named(context, "acc:0").hardware, "host-cpu");
    ck_assert_str_eq(list_selected(context, "all"), "gpu:0");
    ck_assert_str_eq(list_selected(context, "acc"), "acc:0");
    ck_assert_str_eq(list_selected(context, "acc:0,gpu:0"), "acc:0 gpu:0");
    end(context);
}
END_TEST

static int warnings;

static void
count_warning(void *user, yoke_log_level level, const char *line)
{
    (void)user;
    (void)line;
    warnings += level == YOKE_LOG_WARNING;
}

START_TEST(broken_drivers_are_problems_not_errors)
{
    static const char *const says[] = {
        "platform broken does not list its devices: clGetDeviceIDs says CL_OUT_OF_RESOURCES (-5)",
        "platform empty has no device",
        "platform odd: unavailable is not available",
        "platform odd: compilerless has no compiler",
        "platform odd: old has no OpenCL 1.2",
        "platform odd: nonsense has no OpenCL 1.2",
        "platform odd: custom is a custom device",
        "platform odd: memoryless reports no memory",
    };
    yoke_context *context;

    yoke_log_set(count_warning, NULL, YOKE_LOG_DEBUG);
    ASSERT_OK(fake("broken", &context));
    ck_assert_uint_eq(yoke_context_device_count(context), 1);
    ck_assert_str_eq(list_info_at(context, 0).name, "works");
    ck_assert(!list_info_at(context, 0).fp16);
    ck_assert_uint_eq(yoke_context_problem_count(context), YKI_COUNT(says));
    for (size_t i = 0; i < YKI_COUNT(says); i++)
        ck_assert_msg(strstr(list_problems(context), says[i]) != NULL, "\"%s\" is not in \"%s\"",
                      says[i], list_problems(context));
    ck_assert_int_eq(warnings, (int)YKI_COUNT(says) - 1); /* an empty platform is usual: info */
    end(context);
}
END_TEST

START_TEST(a_device_that_is_listed_twice_is_one)
{
    yoke_context *context;

    ASSERT_OK(fake("twice", &context));
    ck_assert_uint_eq(yoke_context_device_count(context), 1);
    ck_assert_uint_eq(yoke_context_problem_count(context), 0);
    end(context);
}
END_TEST

START_TEST(drivers_without_devices_are_an_error)
{
    yoke_context *context;

    ASSERT_STATUS(YOKE_ERROR_NO_DEVICE, fake("nothing", &context));
    ASSERT_DETAIL("platform broken does not list its devices");
    ASSERT_DETAIL("and more");
    ASSERT_DETAIL("pocl-opencl-icd");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("drivers");
    TCase *fakes;

    /* Under the matrix other drivers are in the way, and it would be the same every time. */
    if (test_in_matrix())
        return suite;
    fakes = test_case(suite, "fakes");
    tcase_add_test(fakes, gpus_are_known_by_their_address);
    tcase_add_test(fakes, hidden_devices_are_not_there);
    tcase_add_test(fakes, all_hides_nothing);
    tcase_add_test(fakes, a_bad_list_of_visible_devices_names_the_variable);
    tcase_add_test(fakes, what_is_not_offered_is_not_called);
    tcase_add_test(fakes, numa_domains_are_sub_devices);
    tcase_add_test(fakes, equal_parts_where_counts_are_not_offered);
    tcase_add_test(fakes, simulators_stand_back);
    tcase_add_test(fakes, broken_drivers_are_problems_not_errors);
    tcase_add_test(fakes, a_device_that_is_listed_twice_is_one);
    tcase_add_test(fakes, drivers_without_devices_are_an_error);
    return suite;
}

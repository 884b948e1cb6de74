/* SPDX-License-Identifier: Apache-2.0
 *
 * check_quota.c - memory quotas of logical devices: what is asked, used and left, and
 * whose quota it is.
 */
#include <stdio.h>
#include <string.h>

#include "device/internal.h"
#include "support/devices.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static yoke_context *context;
static yoke_device_info root; /* the first device */

static void
open_context(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_device_get_info(yoke_context_get_device(context, 0), &root));
}

static void
close_context(void)
{
    yoke_context_destroy(context);
}

static yoke_selection *
take(const char *suffix)
{
    yoke_selection *selection = NULL;
    char text[160];

    snprintf(text, sizeof text, "%s%s", root.id, suffix);
    ASSERT_OK(yoke_selection_create(context, text, NULL, &selection));
    return selection;
}

static yoke_memory_usage
usage_of(yoke_device *device)
{
    yoke_memory_usage usage;

    ASSERT_OK(yoke_device_get_memory(device, &usage));
    return usage;
}

START_TEST(a_quota_is_a_limit)
{
    yoke_selection *selection = take("@1MiB");
    yoke_device *device = yoke_selection_get(selection, 0);
    yoke_device_info info;

    ASSERT_OK(yoke_device_get_info(device, &info));
    ck_assert_uint_eq(info.quota, MIB);
    ck_assert_uint_eq(usage_of(device).quota, MIB);
    ck_assert_uint_eq(yki_device_get_traits(device)->memory, MIB);
    ASSERT_OK(yki_quota_charge(device, 600 * KIB, "weights"));
    ASSERT_STATUS(YOKE_ERROR_QUOTA, yki_quota_charge(device, 600 * KIB, "scratch of conv1"));
    ASSERT_DETAIL("scratch of conv1");
    ASSERT_DETAIL(root.id);
    ASSERT_DETAIL("asked for 600 KiB, used 600 KiB, quota 1 MiB");
    ASSERT_DETAIL("614400, 614400, 1048576 bytes");
    ck_assert_uint_eq(usage_of(device).used, 600 * KIB);
    ASSERT_OK(yki_quota_charge(device, MIB - 600 * KIB, "to the last byte"));
    ASSERT_STATUS(YOKE_ERROR_QUOTA, yki_quota_charge(device, 1, "one more"));
    ck_assert_uint_eq(usage_of(device).peak, MIB);
    yki_quota_return(device, MIB - 600 * KIB);
    yki_quota_return(device, 600 * KIB);
    ck_assert_uint_eq(usage_of(device).used, 0);
    ck_assert_uint_eq(usage_of(device).peak, MIB);
    ASSERT_OK(yki_quota_charge(device, 1, "a byte"));
    ASSERT_STATUS(YOKE_ERROR_QUOTA, yki_quota_charge(device, UINT64_MAX, "far too much"));
    yki_quota_return(device, 1);
    yoke_selection_destroy(selection);
}
END_TEST

START_TEST(buffers_are_charged)
{
    yoke_selection *selection = take("@1MiB");
    yoke_device *device = yoke_selection_get(selection, 0);
    yki_buffer *buffer, *more = NULL;
    uint64_t used;

    ASSERT_OK(yki_buffer_create(device, 768 * KIB, 0, "a test", &buffer));
    used = usage_of(device).used;
    ck_assert_uint_ge(used, 768 * KIB);
    ASSERT_STATUS(YOKE_ERROR_QUOTA, yki_buffer_create(device, 512 * KIB, 0, "a test", &more));
    ASSERT_DETAIL(root.id);
    ck_assert_ptr_null(more);
    ck_assert_uint_eq(usage_of(device).used, used);
    yki_buffer_destroy(buffer);
    ck_assert_uint_eq(usage_of(device).used, 0);
    yoke_selection_destroy(selection);
}
END_TEST

/* Without a quota the memory of the hardware is the limit, for all its parts together. */
START_TEST(the_hardware_is_a_limit_for_all_parts)
{
    bool one = root.partition && root.compute_units < 2;
    yoke_selection *selection = take(one ? "/1" : "/2");
    yoke_device *a = yoke_selection_get(selection, 0), *b = yoke_selection_get(selection, !one);
    yoke_device *whole = yoke_context_get_device(context, 0);
    uint64_t part = root.memory / 4 * 3;

    ck_assert_uint_eq(usage_of(a).quota, 0);
    ASSERT_OK(yki_quota_charge(a, part, "one part"));
    ASSERT_STATUS(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, yki_quota_charge(b, part, "the other part"));
    ASSERT_DETAIL("the other part");
    ASSERT_DETAIL("used ");
    ASSERT_DETAIL(root.id);
    ck_assert_uint_eq(usage_of(whole).used, part);
    ck_assert_uint_eq(usage_of(a).used, part);
    if (!one)
        ck_assert_uint_eq(usage_of(b).used, 0);
    yki_quota_return(a, part);
    ASSERT_OK(yki_quota_charge(b, part, "the other part"));
    yki_quota_return(b, part);
    ck_assert_uint_eq(usage_of(whole).used, 0);
    ck_assert_uint_eq(usage_of(whole).peak, part);
    yoke_selection_destroy(selection);
}
END_TEST

START_TEST(parts_have_quotas_of_their_own)
{
    yoke_selection *selection, *other;
    char text[256];

    if (root.partition && root.compute_units < 2)
        snprintf(text, sizeof text, "%s/1.0@2MiB", root.id);
    else
        snprintf(text, sizeof text, "%s/2.1@2MiB,%s/2.0", root.id, root.id);
    ASSERT_OK(yoke_selection_create(context, text, NULL, &selection));
    ck_assert_uint_eq(usage_of(yoke_selection_get(selection, 0)).quota, 2 * MIB);
    if (yoke_selection_count(selection) > 1)
        ck_assert_uint_eq(usage_of(yoke_selection_get(selection, 1)).quota, 0);

    /* Without a quota it is shared as it is, with the same one too; another has to wait. */
    *strchr(text, '@') = '\0';
    ASSERT_OK(yoke_selection_create(context, text, NULL, &other));
    ck_assert_uint_eq(usage_of(yoke_selection_get(other, 0)).quota, 2 * MIB);
    yoke_selection_destroy(other);
    strcat(text, "@2048KiB");
    ASSERT_OK(yoke_selection_create(context, text, NULL, &other));
    yoke_selection_destroy(other);
    *strchr(text, '@') = '\0';
    strcat(text, "@1MiB");
    ASSERT_STATUS(YOKE_ERROR_BUSY, yoke_selection_create(context, text, NULL, &other));
    ASSERT_DETAIL("with a quota of 2 MiB by \"a selection\"; destroy that before you select it "
                  "with a quota of 1 MiB");
    yoke_selection_destroy(selection);
    ASSERT_OK(yoke_selection_create(context, text, NULL, &other));
    ck_assert_uint_eq(usage_of(yoke_selection_get(other, 0)).quota, MIB);
    ck_assert_uint_eq(usage_of(yoke_selection_get(other, 0)).peak, 0);
    yoke_selection_destroy(other);
}
END_TEST

/* Four threads charge and return; the limit holds at every moment and nothing is lost. */
typedef struct load {
    yoke_device *device;
    uint64_t charged;
    bool exceeded;
} load;

static void
charge_and_return(void *argument)
{
    load *l = argument;

    for (int i = 0; i < 20000; i++)
        if (yki_quota_charge(l->device, 300 * KIB, "a thread") == YOKE_OK) {
            l->charged++;
            if (usage_of(l->device).used > MIB)
                l->exceeded = true;
            yki_quota_return(l->device, 300 * KIB);
        }
}

START_TEST(threads_charge_together)
{
    yoke_selection *selection = take("@1MiB");
    yoke_device *device = yoke_selection_get(selection, 0);
    yki_thread *threads[4];
    load loads[4];

    for (int i = 0; i < 4; i++) {
        loads[i] = (load){device, 0, false};
        ASSERT_OK(yki_thread_start(charge_and_return, &loads[i], "load", &threads[i]));
    }
    for (int i = 0; i < 4; i++)
        yki_thread_join(threads[i]);
    for (int i = 0; i < 4; i++)
        ck_assert(!loads[i].exceeded);
    ck_assert_uint_gt(loads[0].charged + loads[1].charged + loads[2].charged + loads[3].charged, 0);
    ck_assert_uint_eq(usage_of(device).used, 0);
    ck_assert_uint_le(usage_of(device).peak, MIB);
    yoke_selection_destroy(selection);
}
END_TEST

START_TEST(null_arguments_are_refused)
{
    yoke_memory_usage usage;

    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_device_get_memory(NULL, &usage));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yoke_device_get_memory(yoke_context_get_device(context, 0), NULL));
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("quota");
    TCase *tcase = test_case(suite, "quota");

    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_add_test(tcase, a_quota_is_a_limit);
    tcase_add_test(tcase, buffers_are_charged);
    tcase_add_test(tcase, the_hardware_is_a_limit_for_all_parts);
    tcase_add_test(tcase, parts_have_quotas_of_their_own);
    tcase_add_test(tcase, threads_charge_together);
    tcase_add_test(tcase, null_arguments_are_refused);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_order.c - how devices are numbered and which driver is preferred, on lists of
 * devices that no test machine has. No OpenCL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"
#include "support/support.h"

enum { MOST = 8 };

static yki_root roots[MOST];
static size_t count;

static void
clear(void)
{
    memset(roots, 0, sizeof roots);
    count = 0;
}

/* `platform` stands for the cl_platform_id as well. */
static yki_root *
add(yoke_device_type type, const char *platform, const char *name, yki_driver_rank rank,
    const char *pci, const char *uuid)
{
    yki_root *root = &roots[count];

    root->info.type = type;
    root->rank = rank;
    root->found = count++;
    root->platform = (cl_platform_id)(uintptr_t)platform;
    snprintf(root->info.platform, sizeof root->info.platform, "%s", platform);
    snprintf(root->info.name, sizeof root->info.name, "%s", name);
    snprintf(root->pci, sizeof root->pci, "%s", pci);
    snprintf(root->uuid, sizeof root->uuid, "%s", uuid);
    if (pci[0])
        snprintf(root->info.hardware, sizeof root->info.hardware, "pci:%s", pci);
    else if (uuid[0])
        snprintf(root->info.hardware, sizeof root->info.hardware, "uuid:%s", uuid);
    else
        snprintf(root->info.hardware, sizeof root->info.hardware, "host-cpu");
    return root;
}

static const yoke_device_info *
find(const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(roots[i].info.id, id) == 0)
            return &roots[i].info;
    ck_abort_msg("there is no %s", id);
    return NULL;
}

static const char cuda[] = "NVIDIA CUDA", mesa[] = "rusticl",
                  pocl[] = "Portable Computing Language";

START_TEST(types_come_first_then_addresses)
{
    add(YOKE_DEVICE_ACCELERATOR, "X", "fpga", YKI_DRIVER_NATIVE, "0000:09:00.0", "");
    add(YOKE_DEVICE_CPU, pocl, "cpu", YKI_DRIVER_NATIVE, "", "");
    add(YOKE_DEVICE_GPU, cuda, "second", YKI_DRIVER_NATIVE, "0000:81:00.0", "");
    add(YOKE_DEVICE_GPU, cuda, "first", YKI_DRIVER_NATIVE, "0000:01:00.0", "");
    yki_roots_order(roots, count);
    ck_assert_str_eq(roots[0].info.id, "gpu:0");
    ck_assert_str_eq(roots[0].info.name, "first");
    ck_assert_str_eq(roots[1].info.name, "second");
    ck_assert_str_eq(roots[2].info.id, "cpu:0");
    ck_assert_str_eq(roots[3].info.id, "acc:0");
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_eq(roots[i].info.preferred, roots[i].info.id);
        ck_assert_str_eq(roots[i].info.parent, roots[i].info.id);
    }
}
END_TEST

START_TEST(the_order_of_the_loader_does_not_matter)
{
    char ids[2][3][256] = {{{0}}};

    for (int reverse = 0; reverse < 2; reverse++) {
        clear();
        for (int i = 0; i < 3; i++) {
            int k = reverse ? 2 - i : i;

            if (k == 0)
                add(YOKE_DEVICE_GPU, cuda, "a", YKI_DRIVER_NATIVE, "0000:01:00.0", "");
            else if (k == 1)
                add(YOKE_DEVICE_GPU, mesa, "b", YKI_DRIVER_NATIVE, "0000:01:00.0", "");
            else
                add(YOKE_DEVICE_GPU, mesa, "c", YKI_DRIVER_NATIVE, "0000:02:00.0", "");
        }
        yki_roots_order(roots, count);
        for (size_t i = 0; i < count; i++)
            snprintf(ids[reverse][i], sizeof ids[0][0], "%s %s", roots[i].info.id,
                     roots[i].info.name);
    }
    ck_assert_mem_eq(ids[0], ids[1], sizeof ids[0]);
    ck_assert_str_eq(find("gpu:1")->preferred, "gpu:0"); /* one chip, platforms by name */
    ck_assert_str_eq(find("gpu:2")->preferred, "gpu:2");
}
END_TEST

START_TEST(drivers_are_ranked)
{
    add(YOKE_DEVICE_ACCELERATOR, "Oclgrind", "simulator", YKI_DRIVER_SIMULATOR, "", "");
    add(YOKE_DEVICE_CPU, mesa, "llvmpipe", YKI_DRIVER_SOFTWARE, "", "");
    add(YOKE_DEVICE_CPU, "A", "does not partition", YKI_DRIVER_NATIVE, "", "");
    add(YOKE_DEVICE_CPU, pocl, "pthread", YKI_DRIVER_NATIVE, "", "")->info.partition =
        YOKE_PARTITION_EQUALLY;
    add(YOKE_DEVICE_GPU, "clvk", "layer", YKI_DRIVER_LAYERED, "0000:01:00.0", "");
    add(YOKE_DEVICE_GPU, mesa, "native", YKI_DRIVER_NATIVE, "0000:01:00.0", "");
    yki_roots_order(roots, count);
    ck_assert_str_eq(find("cpu:0")->name, "pthread");
    ck_assert_str_eq(find("cpu:1")->name, "does not partition");
    ck_assert_str_eq(find("cpu:2")->name, "llvmpipe");
    ck_assert_str_eq(find("cpu:2")->preferred, "cpu:0");
    ck_assert_str_eq(find("acc:0")->preferred, "cpu:0");
    ck_assert_str_eq(find("gpu:0")->name, "native");
    ck_assert_str_eq(find("gpu:1")->preferred, "gpu:0");
}
END_TEST

START_TEST(a_uuid_stands_for_an_address_told_elsewhere)
{
    add(YOKE_DEVICE_GPU, mesa, "uuid alone", YKI_DRIVER_NATIVE, "", "00aa");
    add(YOKE_DEVICE_GPU, cuda, "both", YKI_DRIVER_NATIVE, "0000:01:00.0", "00aa");
    add(YOKE_DEVICE_GPU, mesa, "other uuid", YKI_DRIVER_NATIVE, "", "00bb");
    yki_roots_order(roots, count);
    ck_assert_str_eq(find("gpu:0")->name, "both");
    ck_assert_str_eq(find("gpu:1")->name, "uuid alone");
    ck_assert_str_eq(find("gpu:1")->hardware, "pci:0000:01:00.0");
    ck_assert_str_eq(find("gpu:1")->preferred, "gpu:0");
    ck_assert_str_eq(find("gpu:2")->hardware, "uuid:00bb");
    ck_assert_str_eq(find("gpu:2")->preferred, "gpu:2");
}
END_TEST

START_TEST(parts_of_a_chip_by_its_driver_are_apart)
{
    add(YOKE_DEVICE_GPU, cuda, "MIG 1", YKI_DRIVER_NATIVE, "0000:01:00.0", "00aa");
    add(YOKE_DEVICE_GPU, cuda, "MIG 0", YKI_DRIVER_NATIVE, "0000:01:00.0", "0099");
    yki_roots_order(roots, count);
    ck_assert_str_eq(find("gpu:0")->name, "MIG 0");
    ck_assert_str_eq(find("gpu:0")->hardware, "uuid:0099");
    ck_assert_str_eq(find("gpu:1")->hardware, "uuid:00aa");
    ck_assert_str_eq(find("gpu:1")->preferred, "gpu:1");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("order");
    TCase *tcase = test_case(suite, "order");

    tcase_add_checked_fixture(tcase, clear, NULL);
    tcase_add_test(tcase, types_come_first_then_addresses);
    tcase_add_test(tcase, the_order_of_the_loader_does_not_matter);
    tcase_add_test(tcase, drivers_are_ranked);
    tcase_add_test(tcase, a_uuid_stands_for_an_address_told_elsewhere);
    tcase_add_test(tcase, parts_of_a_chip_by_its_driver_are_apart);
    return suite;
}

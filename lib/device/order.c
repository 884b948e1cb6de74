/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - numbers the devices so that ids stay the same from run to run, and picks
 * the preferred driver where several reach the same hardware.
 *
 * Ids count within a type. Devices are sorted by hardware identity (for GPUs the PCI
 * address, if known), then by driver. The drivers of one piece of hardware are ranked:
 * native before layered (OpenCL on Vulkan, CUDA, Direct3D), then software renderers,
 * then simulators. Equal ranks are ordered by whether the driver can partition, then
 * by the platform's name, then as the loader lists them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"

#define COMPARE(a, b) ((a) < (b) ? -1 : (a) > (b))

static int
compare_drivers(const yki_root *a, const yki_root *b)
{
    int order = COMPARE(a->rank, b->rank);

    if (!order)
        order = COMPARE(b->info.partition != 0, a->info.partition != 0);
    if (!order)
        order = strcmp(a->info.platform, b->info.platform);
    return order ? order : COMPARE(a->found, b->found);
}

bool
yki_root_better(const yki_root *a, const yki_root *b)
{
    return compare_drivers(a, b) < 0;
}

static int
compare_roots(const void *left, const void *right)
{
    const yki_root *a = left, *b = right;
    int order = COMPARE(a->info.type, b->info.type);

    if (!order)
        order = strcmp(a->info.hardware, b->info.hardware);
    return order ? order : compare_drivers(a, b);
}

/* If one driver reports only a UUID, and another the same UUID and a PCI address, both reach the
 * same hardware. */
static void
merge_identities(yki_root *roots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (roots[i].uuid[0] && !roots[i].pci[0] && roots[j].pci[0] &&
                strcmp(roots[i].uuid, roots[j].uuid) == 0) {
                memcpy(roots[i].pci, roots[j].pci, sizeof roots[i].pci);
                memcpy(roots[i].info.hardware, roots[j].info.hardware,
                       sizeof roots[i].info.hardware);
            }
}

/* Two devices of one platform at one address are pieces of one chip (NVIDIA's MIG). Their UUIDs
 * distinguish them. */
static void
split_identities(yki_root *roots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (i != j && roots[i].platform == roots[j].platform && roots[i].pci[0] &&
                roots[i].uuid[0] && strcmp(roots[i].pci, roots[j].pci) == 0 &&
                strcmp(roots[i].uuid, roots[j].uuid) != 0)
                snprintf(roots[i].info.hardware, sizeof roots[i].info.hardware, "uuid:%s",
                         roots[i].uuid);
}

void
yki_roots_order(yki_root *roots, size_t count)
{
    uint32_t next[YOKE_DEVICE_ACCELERATOR + 1] = {0};

    merge_identities(roots, count);
    split_identities(roots, count);
    if (count)
        qsort(roots, count, sizeof *roots, compare_roots);
    for (size_t i = 0; i < count; i++) {
        yoke_device_info *info = &roots[i].info;

        snprintf(info->id, sizeof info->id, "%s:%u", yki_type_name(info->type), next[info->type]++);
        memcpy(info->parent, info->id, sizeof info->parent);
    }
    for (size_t i = 0; i < count; i++) {
        const yki_root *best = &roots[i];

        for (size_t j = 0; j < count; j++)
            if (strcmp(roots[j].info.hardware, best->info.hardware) == 0 &&
                yki_root_better(&roots[j], best))
                best = &roots[j];
        memcpy(roots[i].info.preferred, best->info.id, sizeof roots[i].info.preferred);
    }
}

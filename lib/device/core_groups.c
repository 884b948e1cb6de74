/* SPDX-License-Identifier: Apache-2.0
 *
 * core_groups.c - makes core groups of a whole CPU: sub-devices that divide its compute units.
 *
 * The driver shares a launch on a whole CPU among the CPU's threads, and all of them wait for its
 * end. If launches take microseconds, that is most of the time. Core groups instead compute their
 * shares of a batch by themselves and meet once a step.
 *
 * They stand beside the device and do not replace it: it stays held whole, and nobody else sees
 * them.
 *
 * Not here: whether they are faster (lib/train/core_groups.c).
 */
#include "device/internal.h"

uint32_t
yki_core_groups_count(const yoke_device *device, uint32_t most)
{
    const yki_device_traits *traits = &device->traits;
    uint32_t offered = device->root->info.partition, count;

    if (device->kind != YOKE_VIRTUAL_NONE || traits->type != YOKE_DEVICE_CPU ||
        !(offered & (YOKE_PARTITION_EQUALLY | YOKE_PARTITION_BY_COUNTS)))
        return 0;
    count = YKI_MIN(traits->compute_units, most);
    while (count > 1 && traits->compute_units % count != 0)
        count--;
    return count;
}

yoke_status
yki_core_groups_create(yoke_device *whole, uint32_t count, yoke_selection **groups)
{
    yoke_context *context = whole->root->context;
    yoke_selection *made = yki_alloc(1, sizeof *made, "core groups");
    yki_space *space;
    yoke_status status;

    if (!made)
        return YOKE_ERROR_OUT_OF_MEMORY;
    made->devices = yki_alloc(count, sizeof *made->devices, "core groups");
    made->capacity = count;
    yki_device_retain(whole); /* the space takes this reference */
    status = made->devices ? yki_space_create_core_groups(whole, count, &space)
                           : YOKE_ERROR_OUT_OF_MEMORY;
    if (status != YOKE_OK) {
        yki_device_release(whole);
        yki_free(made->devices);
        yki_free(made);
        return status;
    }
    yki_context_retain(context);
    made->context = context;
    pthread_mutex_lock(&context->lock);
    for (; made->count < count; made->count++) {
        made->devices[made->count] = &space->devices[made->count];
        yki_device_retain_locked(made->devices[made->count]);
    }
    pthread_mutex_unlock(&context->lock);
    *groups = made;
    return YOKE_OK;
}

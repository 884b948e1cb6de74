/* SPDX-License-Identifier: Apache-2.0
 *
 * quota.c - accounts for the memory of logical devices.
 *
 * Every buffer is charged to one logical device before it is made, and the charge is
 * returned after it is destroyed. There are two limits: the quota of the logical device,
 * if it has one, and the memory of the hardware, which all logical devices of a root
 * share. The second is needed because some drivers allocate lazily: they would accept
 * too much and fail only when a kernel touches it. Roots that have one memory (memory.c)
 * also have one such limit together, the larger of theirs.
 *
 * The memory of a core group is charged to the whole device.
 *
 * Not here: the memory that other processes use, of which only the driver's errors tell.
 */
#include "device/internal.h"

/* Adds `size` to *used unless the sum would exceed `limit`. *before receives the old value. */
static bool
charge(atomic_uint_fast64_t *used, uint64_t size, uint64_t limit, uint64_t *before)
{
    uint_fast64_t now = atomic_load(used);

    do {
        *before = now;
        if (size > limit || now > limit - size)
            return false;
    } while (!atomic_compare_exchange_weak(used, &now, now + size));
    return true;
}

/* Returns the device that is charged. */
static yoke_device *
account(yoke_device *device)
{
    return device->space->core_groups_of ? device->space->core_groups_of : device;
}

/* Charges the memory of several roots; where one has it alone, its own limit is enough. */
static bool
charge_memory(yoke_device *device, uint64_t size, uint64_t *before)
{
    yki_memory *memory = device->space->memory;

    return !memory || !memory->limit || charge(&memory->used, size, memory->limit, before);
}

static yoke_status
fail_memory(const yoke_device *device, uint64_t size, uint64_t before, const char *what)
{
    const uint64_t limit = device->space->memory->limit;
    char asked[24], used[24], total[24];

    return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                    "%s on %s: asked for %s, used %s on all devices that have its memory, which is "
                    "%s (%llu, %llu, %llu bytes); take a smaller batch, or free memory of a device",
                    what, device->id, yki_size_text(size, asked), yki_size_text(before, used),
                    yki_size_text(limit, total), (unsigned long long)size,
                    (unsigned long long)before, (unsigned long long)limit);
}

static void
raise_peak(atomic_uint_fast64_t *peak, uint64_t used)
{
    uint_fast64_t now = atomic_load(peak);

    while (now < used && !atomic_compare_exchange_weak(peak, &now, used))
        ;
}

yoke_status
yki_quota_charge(yoke_device *user, uint64_t size, const char *what)
{
    yoke_device *device = account(user);
    yki_root *root = device->root;
    uint64_t limit = device->quota ? device->quota : UINT64_MAX;
    uint64_t own, all, together = 0;
    char asked[24], used[24], total[24];

    if (!charge(&device->used, size, limit, &own))
        return yki_fail(YOKE_ERROR_QUOTA,
                        "%s on %s: asked for %s, used %s, quota %s (%llu, %llu, %llu bytes); take "
                        "a smaller batch or a larger quota",
                        what, device->id, yki_size_text(size, asked), yki_size_text(own, used),
                        yki_size_text(limit, total), (unsigned long long)size,
                        (unsigned long long)own, (unsigned long long)limit);
    if (!charge(&root->used, size, root->info.memory, &all)) {
        atomic_fetch_sub(&device->used, size);
        return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                        "%s on %s: asked for %s, used %s on all of %s, memory %s (%llu, %llu, %llu "
                        "bytes); take a smaller batch, or free memory of the device",
                        what, device->id, yki_size_text(size, asked), yki_size_text(all, used),
                        root->info.id, yki_size_text(root->info.memory, total),
                        (unsigned long long)size, (unsigned long long)all,
                        (unsigned long long)root->info.memory);
    }
    if (!charge_memory(device, size, &together)) {
        atomic_fetch_sub(&root->used, size);
        atomic_fetch_sub(&device->used, size);
        return fail_memory(device, size, together, what);
    }
    raise_peak(&device->peak, own + size);
    raise_peak(&root->peak, all + size);
    return YOKE_OK;
}

void
yki_quota_return(yoke_device *device, uint64_t size)
{
    yoke_device *charged = account(device);

    atomic_fetch_sub(&charged->used, size);
    atomic_fetch_sub(&charged->root->used, size);
    if (charged->space->memory && charged->space->memory->limit)
        atomic_fetch_sub(&charged->space->memory->used, size);
}

uint64_t
yki_root_left(const yoke_device *device)
{
    const yki_space *space = device->space;
    const yki_memory *memory =
        space->core_groups_of ? space->core_groups_of->space->memory : space->memory;
    const yki_root *root = device->root;
    uint64_t all = atomic_load(&root->used), together, left;

    left = root->info.memory > all ? root->info.memory - all : 0;
    if (memory && memory->limit) {
        together = atomic_load(&memory->used);
        left = YKI_MIN(left, memory->limit > together ? memory->limit - together : 0);
    }
    return left;
}

uint64_t
yki_quota_left(const yoke_device *device)
{
    uint64_t own = atomic_load(&device->used), left = yki_root_left(device);

    if (device->space->core_groups_of)
        return yki_quota_left(device->space->core_groups_of);
    if (device->quota)
        left = YKI_MIN(left, device->quota > own ? device->quota - own : 0);
    return left;
}

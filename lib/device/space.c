/* SPDX-License-Identifier: Apache-2.0
 *
 * space.c - one root under one split: its sub-devices or slices, and their life.
 *
 * If the driver offers the partition, the split makes sub-devices with compute units
 * of their own. Otherwise, or where it then says that it cannot (Intel's runtime does of one part
 * that is all of the device), it makes slices: the same cl_device_id, with queues and a quota of
 * their own, on shared hardware. An N+M split then makes one slice for each count, whatever the
 * count. clCreateSubDevices is called only for a partition that the driver offers; elsewhere the
 * function may be a null entry.
 *
 * A space lives while any of its devices is retained. The last release detaches it
 * from its root under the context's lock, so that another split can begin. Then the
 * context keeps it for a while (kept_spaces.c), or it ends, without the lock, because
 * drivers take their time.
 */
#include <stdio.h>
#include <string.h>

#include "device/internal.h"

/* ---- making ---- */

/* Each device of a space starts as a copy of its root. */
static void
set_up_device(yki_space *space, uint32_t index, cl_device_id cl, yoke_virtual_kind kind)
{
    yoke_device *device = &space->devices[index];
    yki_root *root = space->root;

    device->space = space;
    device->root = root;
    device->cl = cl;
    device->kind = kind;
    device->traits = root->traits;
    atomic_init(&device->used, 0);
    atomic_init(&device->peak, 0);
    pthread_mutex_init(&device->setup_lock, NULL);
    if (kind == YOKE_VIRTUAL_NONE)
        memcpy(device->id, root->info.id, sizeof device->id);
    else if (space->core_groups_of) /* to all callers it is the whole device */
        memcpy(device->id, space->core_groups_of->id, sizeof device->id);
    else /* the parser refuses a split whose ids would not fit */
        snprintf(device->id, sizeof device->id, "%.14s/%s.%u", root->info.id, space->split.text,
                 index);
    if (kind == YOKE_VIRTUAL_SUBDEVICE) {
        cl_uint units = 0;

        if (clGetDeviceInfo(cl, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL) ==
                CL_SUCCESS &&
            units)
            device->traits.compute_units = units;
    }
    space->device_count = index + 1;
}

static yoke_status
allocate_devices(yki_space *space, uint32_t count)
{
    space->devices = yki_alloc(count, sizeof *space->devices, "logical devices");
    return space->devices ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

static yki_space *
allocate_space(yki_root *root, const yki_split *split)
{
    yki_space *space = yki_alloc(1, sizeof *space, "a space");

    if (!space)
        return NULL;
    space->root = root;
    space->split = *split;
    space->layout = split->kind == YKI_SPLIT_NONE ? yki_strdup(root->info.id, "a space")
                                                  : yki_format("%s/%s", root->info.id, split->text);
    if (!space->layout) {
        yki_free(space);
        return NULL;
    }
    pthread_mutex_init(&space->programs_lock, NULL);
    return space;
}

/* Writes the request to clCreateSubDevices; false if the driver does not offer this split. For
 * equal counts the driver may make more sub-devices than wanted, of the compute units that are
 * left. */
static bool
partition_properties(const yki_root *root, const yki_split *split,
                     cl_device_partition_property properties[YKI_MAX_PARTS + 3])
{
    uint32_t offered = root->info.partition, units = root->info.compute_units, i;

    if (split->kind == YKI_SPLIT_NUMA && (offered & YOKE_PARTITION_NUMA)) {
        properties[0] = CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN;
        properties[1] = CL_DEVICE_AFFINITY_DOMAIN_NUMA;
        properties[2] = 0;
        return true;
    }
    if (split->kind == YKI_SPLIT_EQUAL && (offered & YOKE_PARTITION_EQUALLY)) {
        properties[0] = CL_DEVICE_PARTITION_EQUALLY;
        properties[1] = (cl_device_partition_property)(units / split->count);
        properties[2] = 0;
        return true;
    }
    if ((split->kind == YKI_SPLIT_EQUAL || split->kind == YKI_SPLIT_COUNTS) &&
        (offered & YOKE_PARTITION_BY_COUNTS)) {
        properties[0] = CL_DEVICE_PARTITION_BY_COUNTS;
        for (i = 0; i < split->count; i++)
            properties[i + 1] =
                (cl_device_partition_property)(split->kind == YKI_SPLIT_EQUAL ? units / split->count
                                                                              : split->units[i]);
        properties[i + 1] = CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
        properties[i + 2] = 0;
        return true;
    }
    return false;
}

/* Makes the sub-devices and keeps the first `wanted` of them (0: all). *cannot: the driver says
 * that it cannot make them, though it offers such. */
static yoke_status
create_subdevices(yki_space *space, const cl_device_partition_property *properties, uint32_t wanted,
                  bool *cannot)
{
    cl_device_id *ids, root = space->root->id;
    cl_uint count = 0, made = 0;
    cl_int error = clCreateSubDevices(root, properties, 0, NULL, &count);
    yoke_status status;

    if (error == CL_SUCCESS && (!count || count < wanted || count > YKI_MAX_PARTS))
        return yki_fail(YOKE_ERROR_DEVICE, "splitting %s: the driver makes %u parts; must be %u",
                        space->layout, count, wanted);
    *cannot = error == CL_DEVICE_PARTITION_FAILED;
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clCreateSubDevices", space->root->whole, "splitting");
    ids = yki_alloc(count, sizeof *ids, "sub-devices");
    if (!ids)
        return YOKE_ERROR_OUT_OF_MEMORY;
    error = clCreateSubDevices(root, properties, count, ids, NULL);
    *cannot = error == CL_DEVICE_PARTITION_FAILED;
    status = error == CL_SUCCESS
                 ? allocate_devices(space, count)
                 : yki_cl_fail(error, "clCreateSubDevices", space->root->whole, "splitting");
    if (status == YOKE_OK)
        for (; made < (wanted ? wanted : count); made++)
            set_up_device(space, made, ids[made], YOKE_VIRTUAL_SUBDEVICE);
    for (; error == CL_SUCCESS && made < count; made++)
        clReleaseDevice(ids[made]);
    yki_free(ids);
    return status;
}

static yoke_status
create_devices(yki_space *space)
{
    const yki_split *split = &space->split;
    yki_root *root = space->root;
    cl_device_partition_property properties[YKI_MAX_PARTS + 3];
    bool whole = split->kind == YKI_SPLIT_NONE, cannot = false;
    uint32_t count = whole ? 1 : split->count;

    if (!whole && partition_properties(root, split, properties)) {
        yoke_status status = create_subdevices(space, properties, split->count, &cannot);

        if (!cannot || space->core_groups_of) /* these are nothing without units of their own */
            return status;
        yki_log(YOKE_LOG_INFO,
                "%s: its parts share compute units, as its driver cannot split it so",
                space->layout);
    }
    if (split->kind == YKI_SPLIT_NUMA)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s (%s, %s) cannot be split by NUMA domain, which its driver does not "
                        "offer; split it by compute units",
                        root->info.id, root->info.name, root->info.platform);
    YKI_TRY(allocate_devices(space, count));
    for (uint32_t i = 0; i < count; i++)
        set_up_device(space, i, root->id, whole ? YOKE_VIRTUAL_NONE : YOKE_VIRTUAL_SLICE);
    return YOKE_OK;
}

/* ---- ending ---- */

/* PoCL's threads (3.1) look at a command's device once more after a wait for that command has
 * returned. PoCL frees a sub-device at its release all the same, so one run in some hundreds
 * crashed. A sub-device that is given up is therefore released only after KEPT_PARTS others have
 * been given up. Sub-devices are small. */
enum { KEPT_PARTS = 256 };
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static cl_device_id kept[KEPT_PARTS];
static size_t next_kept;

/* Keeps `part` and releases the oldest one; NULL: only releases it. */
static void
give_up_part(cl_device_id part)
{
    cl_device_id oldest;

    pthread_mutex_lock(&kept_lock);
    oldest = kept[next_kept];
    kept[next_kept] = part;
    next_kept = (next_kept + 1) % KEPT_PARTS;
    pthread_mutex_unlock(&kept_lock);
    if (oldest)
        clReleaseDevice(oldest);
}

void
yki_release_kept_parts(void)
{
    for (int i = 0; i < KEPT_PARTS; i++)
        give_up_part(NULL);
}

static void
release_setup_queues(yki_space *space)
{
    for (size_t i = 0; i < space->device_count; i++) {
        yoke_device *device = &space->devices[i];

        if (device->setup_queue)
            clReleaseCommandQueue(device->setup_queue);
        device->setup_queue = NULL;
    }
}

/* It may be only partly made. */
void
yki_space_free(yki_space *space)
{
    release_setup_queues(space);
    for (size_t i = 0; i < space->device_count; i++)
        pthread_mutex_destroy(&space->devices[i].setup_lock);
    yki_programs_free(space);
    yki_memory_leave(space);
    for (size_t i = 0; i < space->device_count; i++)
        if (space->devices[i].kind == YOKE_VIRTUAL_SUBDEVICE)
            give_up_part(space->devices[i].cl);
    pthread_mutex_destroy(&space->programs_lock);
    yki_free(space->devices);
    yki_free(space->layout);
    yki_free(space->last_holder);
    yki_free(space);
}

/* Makes the devices of a space. On failure it frees the space. */
static yoke_status
fill_space(yki_space *space)
{
    yoke_status status = create_devices(space);

    if (status != YOKE_OK)
        yki_space_free(space);
    else
        yki_context_retain(space->root->context);
    return status;
}

/* Keeps a space that nobody holds, or frees it. */
static void
end_space(yki_space *space)
{
    yoke_context *context = space->root->context;
    yoke_device *whole = space->core_groups_of;
    yki_space *over;

    space->core_groups_of = NULL;
    release_setup_queues(space);
    pthread_mutex_lock(&context->lock);
    over = yki_space_keep(space);
    pthread_mutex_unlock(&context->lock);
    if (over)
        yki_space_free(over);
    yki_device_release(whole);
    yki_context_release(context);
}

yoke_status
yki_space_create(yki_root *root, const yki_split *split, bool alone, yki_space **space)
{
    yki_space *result = alone ? yki_space_take_kept(root, split, false) : NULL;

    if (result) {
        yki_context_retain(root->context);
    } else {
        result = allocate_space(root, split);
        if (!result)
            return YOKE_ERROR_OUT_OF_MEMORY;
        YKI_TRY(fill_space(result));
    }
    root->space = result;
    *space = result;
    return YOKE_OK;
}

yoke_status
yki_space_create_core_groups(yoke_device *whole, uint32_t count, yki_space **space)
{
    yki_split split = {.kind = YKI_SPLIT_EQUAL, .count = count};
    yoke_context *context = whole->root->context;
    yki_space *result;
    yoke_status status;

    snprintf(split.text, sizeof split.text, "%u", count);
    pthread_mutex_lock(&context->lock);
    result = yki_space_take_kept(whole->root, &split, true);
    pthread_mutex_unlock(&context->lock);
    if (result) {
        yki_context_retain(context);
        result->core_groups_of = whole;
        *space = result;
        return YOKE_OK;
    }
    result = allocate_space(whole->root, &split);
    if (!result)
        return YOKE_ERROR_OUT_OF_MEMORY;
    result->core_groups = true;
    result->core_groups_of = whole;
    YKI_TRY(fill_space(result));
    status = yki_memory_create(&result, 1);
    if (status != YOKE_OK) {
        result->core_groups_of = NULL; /* the reference stays the caller's */
        end_space(result);
        return status;
    }
    *space = result;
    return YOKE_OK;
}

void
yki_space_drop(yki_space *space)
{
    space->root->space = NULL;
}

yoke_status
yki_space_create_lent(yki_root *root)
{
    static const yki_split whole = {.kind = YKI_SPLIT_NONE};
    yki_space *space = allocate_space(root, &whole);

    if (!space)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (allocate_devices(space, 1) != YOKE_OK) {
        yki_space_free(space);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    set_up_device(space, 0, root->id, YOKE_VIRTUAL_NONE);
    root->lent = space;
    root->whole = &space->devices[0];
    return YOKE_OK;
}

void
yki_space_destroy_lent(yki_root *root)
{
    if (root->lent)
        yki_space_free(root->lent);
}

/* ---- references ---- */

/* Takes a space without references from its root. Returns true if the caller must end it, which it
 * does without the lock. */
static bool
detach_unused(yki_space *space)
{
    if (space->references)
        return false;
    if (space->root->space == space) /* a space of core groups is not the root's split */
        space->root->space = NULL;
    return true;
}

yki_space *
yki_space_retain(yki_space *space)
{
    yoke_context *context = space->root->context;

    if (space == space->root->lent) {
        yki_context_retain(context);
        return space;
    }
    pthread_mutex_lock(&context->lock);
    space->references++;
    pthread_mutex_unlock(&context->lock);
    return space;
}

void
yki_space_release(yki_space *space)
{
    yoke_context *context = space->root->context;
    bool over;

    if (space == space->root->lent) {
        yki_context_release(context);
        return;
    }
    pthread_mutex_lock(&context->lock);
    space->references--;
    over = detach_unused(space);
    pthread_mutex_unlock(&context->lock);
    if (over)
        end_space(space);
}

void
yki_device_retain_locked(yoke_device *device)
{
    device->references++;
    device->space->references++;
}

yoke_device *
yki_device_retain(yoke_device *device)
{
    yoke_context *context = device->root->context;

    pthread_mutex_lock(&context->lock);
    device->references++;
    pthread_mutex_unlock(&context->lock);
    yki_space_retain(device->space);
    return device;
}

void
yki_device_release(yoke_device *device)
{
    yoke_context *context;

    if (!device)
        return;
    context = device->root->context;
    pthread_mutex_lock(&context->lock);
    device->references--;
    pthread_mutex_unlock(&context->lock);
    yki_space_release(device->space);
}

void
yki_spaces_forget(yoke_context *context)
{
    for (;;) {
        yki_space *space;

        pthread_mutex_lock(&context->lock);
        space = yki_space_take_oldest(context);
        pthread_mutex_unlock(&context->lock);
        if (!space)
            break;
        yki_space_free(space);
    }
}

/* ---- asking ---- */

yki_space *
yki_device_space(const yoke_device *device)
{
    return device->space;
}

bool
yki_devices_share(const yoke_device *a, const yoke_device *b)
{
    return a->space == b->space || (a->space->memory && a->space->memory == b->space->memory);
}

const char *
yki_device_id(const yoke_device *device)
{
    return device->id;
}

yoke_context *
yki_device_context(const yoke_device *device)
{
    return device->root->context;
}

yoke_status
yoke_device_get_memory_sized(yoke_device *device, yoke_memory_usage *usage, size_t size)
{
    yoke_memory_usage result = {0};

    if (!device || !usage)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_device_get_memory: %s is NULL",
                        device ? "usage" : "device");
    if (device->space == device->root->lent) { /* of all logical devices of the root */
        result.used = atomic_load(&device->root->used);
        result.peak = atomic_load(&device->root->peak);
    } else {
        result.quota = device->quota;
        result.used = atomic_load(&device->used);
        result.peak = atomic_load(&device->peak);
    }
    memcpy(usage, &result, YKI_MIN(size, sizeof result));
    return YOKE_OK;
}

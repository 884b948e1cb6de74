/* SPDX-License-Identifier: Apache-2.0
 *
 * buffer.c - memory of a logical device, and the commands that move it.
 *
 * Idea: where the device's memory is the host's and the driver leaves it in
 * place, yoke allocates it (aligned, on huge pages if it is large) and gives it
 * to OpenCL. The host then reads and writes it without a copy. Elsewhere the
 * driver allocates and moves. Devices that use the host's memory, except GPUs,
 * fill and copy with a kernel on all cores, because the drivers' own commands
 * run on one core.
 *
 * Views of one buffer are released in the reverse of the order in which they were made, and the
 * buffer after them. OpenCL asks for no order, but NVIDIA's driver (580) crashes when one of many
 * views that overlap is released before a newer one.
 *
 * The owner's quota is charged before anything is allocated. Every range is
 * checked here, so no driver sees a bad one.
 *
 * Not here: pooling, packing or reuse of memory, which the plan does.
 */
#include <string.h>
#include <sys/mman.h>

#include "device/runtime.h"

enum {
    HUGE_PAGE = 2 << 20, /* bytes, on all known systems with 4 KiB pages */
    HUGE_FROM = 4 << 20, /* bytes; buffers of this size or more use huge pages */
    PAGE = 4096,
    LINE = 64,                  /* bytes of a cache line, and the least alignment */
    GROUP_MOST_BYTES = 1 << 20, /* a group of a fill or copy hardly moves more, up to 64 GiB */
    GROUP_BYTES = 64 << 10      /* ... and no less, unless there is less */
};

/* ---------------------------------------------------------------- life */

static void CL_CALLBACK
free_host(cl_mem cl, void *host)
{
    (void)cl;
    yki_free_aligned(host);
}

/* Allocates host memory and makes a buffer on it. The driver's callback frees the memory when the
 * driver needs it no more; for one that calls too early, see yki_buffer_destroy. */
static yoke_status
create_direct(yki_buffer *buffer, size_t size)
{
    size_t alignment = YKI_MAX(LINE, buffer->owner->traits.base_align);
    yoke_device *owner = buffer->owner;
    yoke_status status;
    cl_int error;

    if (size >= HUGE_FROM)
        alignment = YKI_MAX(alignment, HUGE_PAGE);
    else if (size >= PAGE)
        alignment = YKI_MAX(alignment, PAGE);
    buffer->host = yki_alloc_aligned(alignment, size, buffer->name);
    if (!buffer->host)
        return YOKE_ERROR_OUT_OF_MEMORY;
#ifdef MADV_HUGEPAGE
    if (size >= HUGE_FROM) /* only a hint: if it is refused, all works, but more slowly */
        (void)madvise(buffer->host, size / PAGE * PAGE, MADV_HUGEPAGE);
#endif
    buffer->cl = clCreateBuffer(owner->space->cl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size,
                                buffer->host, &error);
    if (error != CL_SUCCESS) {
        status = yki_cl_fail(error, "clCreateBuffer", owner, buffer->name);
        goto free_memory;
    }
    error = clSetMemObjectDestructorCallback(buffer->cl, free_host, buffer->host);
    if (error != CL_SUCCESS) {
        status = yki_cl_fail(error, "clSetMemObjectDestructorCallback", owner, buffer->name);
        goto release_buffer;
    }
    return YOKE_OK;

release_buffer:
    clReleaseMemObject(buffer->cl);
free_memory:
    yki_free_aligned(buffer->host);
    return status;
}

/* Gives the device's set-up queue, made when first needed. The caller holds device->setup_lock. */
static yoke_status
get_setup_queue(yoke_device *device, cl_command_queue *queue)
{
    cl_int error = CL_SUCCESS;

    if (!device->setup_queue) {
        cl_command_queue made = clCreateCommandQueue(device->space->cl, device->cl, 0, &error);

        if (error != CL_SUCCESS)
            return yki_cl_fail(error, "clCreateCommandQueue", device, "making the set-up queue");
        device->setup_queue = made;
    }
    *queue = device->setup_queue;
    return YOKE_OK;
}

/* Has the driver allocate page-locked memory, and maps it until the buffer is destroyed. */
static yoke_status
create_mapped(yki_buffer *buffer, size_t size)
{
    yoke_device *owner = buffer->owner;
    cl_command_queue queue;
    yoke_status status;
    cl_int error;

    buffer->cl = clCreateBuffer(owner->space->cl, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size,
                                NULL, &error);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clCreateBuffer", owner, buffer->name);
    pthread_mutex_lock(&owner->setup_lock);
    status = get_setup_queue(owner, &queue);
    if (status == YOKE_OK) {
        buffer->host = clEnqueueMapBuffer(queue, buffer->cl, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                          size, 0, NULL, NULL, &error);
        if (error != CL_SUCCESS)
            status = yki_cl_fail(error, "clEnqueueMapBuffer", owner, buffer->name);
    }
    pthread_mutex_unlock(&owner->setup_lock);
    if (status != YOKE_OK) {
        clReleaseMemObject(buffer->cl);
        return status;
    }
    buffer->mapped = true;
    return YOKE_OK;
}

static void
unmap(yki_buffer *buffer)
{
    yoke_device *owner = buffer->owner;
    cl_int error;

    pthread_mutex_lock(&owner->setup_lock);
    error = clEnqueueUnmapMemObject(owner->setup_queue, buffer->cl, buffer->host, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(owner->setup_queue);
    pthread_mutex_unlock(&owner->setup_lock);
    if (error == CL_SUCCESS)
        return;
    yki_device_failed(owner);
    yki_log(YOKE_LOG_WARNING, "pinned memory %s of %s could not be unmapped: %s", buffer->name,
            owner->id, yki_cl_error_name(error));
}

static yoke_status
create_plain(yki_buffer *buffer, size_t size)
{
    cl_int error;

    buffer->cl = clCreateBuffer(buffer->owner->space->cl, CL_MEM_READ_WRITE, size, NULL, &error);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clCreateBuffer", buffer->owner, buffer->name);
    return YOKE_OK;
}

yoke_status
yki_buffer_create(yoke_device *owner, uint64_t size, unsigned flags, const char *what,
                  yki_buffer **buffer)
{
    uint64_t limit = owner->traits.max_allocation;
    /* No driver makes a buffer of 0 bytes: it gets a cache line, which is not charged. */
    size_t real = size ? (size_t)size : LINE;
    yki_buffer *made;
    yoke_status status;

    if (!owner->space->cl)
        return yki_fail(YOKE_ERROR_STATE, "%s: %s is only listed; select it to work on it", what,
                        owner->id);
    if (size > limit || size > SIZE_MAX)
        return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                        "%s: a buffer of %llu bytes on %s; must be at most %llu bytes, its largest "
                        "single buffer; "
                        "take a smaller batch",
                        what, (unsigned long long)size, owner->id, (unsigned long long)limit);
    made = yki_alloc(1, sizeof *made, what);
    if (!made)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_name_set(made->name, what);
    made->owner = owner;
    made->size = size;
    made->pinned = flags & YKI_BUFFER_PINNED;
    made->charged = made->pinned && !owner->traits.host_memory ? 0 : size;
    status = yki_quota_charge(owner, made->charged, what);
    if (status != YOKE_OK)
        goto free_made;
    status = owner->traits.direct_host ? create_direct(made, real)
             : made->pinned            ? create_mapped(made, real)
                                       : create_plain(made, real);
    if (status != YOKE_OK)
        goto return_quota;
    yki_device_retain(owner);
    *buffer = made;
    return YOKE_OK;

return_quota:
    yki_quota_return(owner, made->charged);
free_made:
    yki_free(made);
    return status;
}

yoke_status
yki_buffer_view(yki_buffer *parent, uint64_t offset, uint64_t size, yki_buffer **view)
{
    cl_buffer_region region = {(size_t)offset, size ? (size_t)size : 1};
    yki_buffer *made;
    cl_int error;

    YKI_TRY(yki_buffer_check(parent, offset, size, "viewing"));
    if (parent->pinned || offset % parent->owner->traits.base_align)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "a view of %s begins at offset %llu; must be a multiple of %u bytes on %s",
                        parent->name, (unsigned long long)offset, parent->owner->traits.base_align,
                        parent->owner->id);
    made = yki_alloc(1, sizeof *made, parent->name);
    if (!made)
        return YOKE_ERROR_OUT_OF_MEMORY;
    made->cl = clCreateSubBuffer(parent->cl, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                 &region, &error);
    if (error != CL_SUCCESS) {
        yki_free(made);
        return yki_cl_fail(error, "clCreateSubBuffer", parent->owner, parent->name);
    }
    memcpy(made->name, parent->name, sizeof made->name);
    made->owner = yki_device_retain(parent->owner);
    made->size = size;
    made->view = true;
    made->parent = parent;
    made->host = parent->host ? (char *)parent->host + offset : NULL;
    pthread_mutex_lock(&parent->owner->setup_lock);
    made->before = parent->newest;
    parent->newest = made;
    pthread_mutex_unlock(&parent->owner->setup_lock);
    *view = made;
    return YOKE_OK;
}

static void
release(yki_buffer *buffer)
{
    clReleaseMemObject(buffer->cl);
    yki_device_release(buffer->owner);
    yki_free(buffer);
}

/* Notes that a buffer, or one of its views, is gone. Releases the newest views as far as they are
 * gone, then the buffer if it is gone too and has none left. After the lock another thread may have
 * released both. */
static void
leave(yki_buffer *parent, yki_buffer *gone)
{
    yoke_device *owner = parent->owner;
    yki_buffer *list = NULL, *view;
    bool last;

    pthread_mutex_lock(&owner->setup_lock);
    gone->gone = true;
    view = parent->newest;
    if (view && view->gone)
        list = view;
    while (view && view->gone && view->before && view->before->gone)
        view = view->before;
    if (list) {
        parent->newest = view->before;
        view->before = NULL;
    }
    last = parent->gone && !parent->newest;
    pthread_mutex_unlock(&owner->setup_lock);
    while (list) {
        view = list;
        list = view->before;
        release(view);
    }
    if (last)
        release(parent);
}

void
yki_buffer_destroy(yki_buffer *buffer)
{
    if (!buffer)
        return;
    if (buffer->mapped)
        unmap(buffer);
    else if (buffer->host) /* Rusticl frees it while launches that use it are queued */
        yki_memory_finish(buffer->owner->space);
    if (!buffer->view)
        yki_quota_return(buffer->owner, buffer->charged);
    leave(buffer->view ? buffer->parent : buffer, buffer);
}

uint64_t
yki_buffer_size(const yki_buffer *buffer)
{
    return buffer->size;
}

yoke_device *
yki_buffer_owner(const yki_buffer *buffer)
{
    return buffer->owner;
}

void *
yki_buffer_host(const yki_buffer *buffer)
{
    return buffer->host;
}

void *
yki_buffer_raw(const yki_buffer *buffer)
{
    return buffer->cl;
}

/* -------------------------------------------------------------- checks */

yoke_status
yki_buffer_check(const yki_buffer *buffer, uint64_t offset, uint64_t size, const char *verb)
{
    if (offset > buffer->size || size > buffer->size - offset)
        return yki_fail(
            YOKE_ERROR_INVALID_ARGUMENT,
            "%s %llu bytes at offset %llu of %s; must end within its %llu bytes (on %s)", verb,
            (unsigned long long)size, (unsigned long long)offset, buffer->name,
            (unsigned long long)buffer->size, buffer->owner->id);
    return YOKE_OK;
}

static yoke_status
check_space(const yki_queue *queue, const yki_buffer *buffer, const char *verb)
{
    if (!yki_devices_share(buffer->owner, queue->device))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s %s: it is on %s, and a queue of %s cannot reach it", verb, buffer->name,
                        buffer->owner->id, queue->device->id);
    return YOKE_OK;
}

static yoke_status
check_plain(const yki_buffer *buffer, const char *verb)
{
    if (buffer->pinned)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s %s: it is pinned host memory; use its host pointer", verb,
                        buffer->name);
    return YOKE_OK;
}

/* ------------------------------------------------------ reads and writes */

/* The caller has checked the arguments. */
static yoke_status
enqueue_write(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
              const void *data, yki_wait wait, yki_event *done)
{
    cl_event event = NULL;
    cl_uint count;
    cl_int error;

    YKI_TRY(yki_queue_begin(queue, wait, &count));
    error = clEnqueueWriteBuffer(queue->cl, buffer->cl, CL_FALSE, offset, size, data, count,
                                 count ? queue->waits : NULL, &event);
    return yki_queue_end(queue, error, event, "clEnqueueWriteBuffer", "writing", buffer->name, size,
                         done);
}

/* The caller has checked the arguments. */
static yoke_status
enqueue_read(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size, void *data,
             yki_wait wait, yki_event *done)
{
    cl_event event = NULL;
    cl_uint count;
    cl_int error;

    YKI_TRY(yki_queue_begin(queue, wait, &count));
    error = clEnqueueReadBuffer(queue->cl, buffer->cl, CL_FALSE, offset, size, data, count,
                                count ? queue->waits : NULL, &event);
    return yki_queue_end(queue, error, event, "clEnqueueReadBuffer", "reading", buffer->name, size,
                         done);
}

yoke_status
yki_queue_write(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
                const void *data, yki_wait wait, yki_event *done)
{
    YKI_TRY(yki_buffer_check(buffer, offset, size, "writing"));
    YKI_TRY(check_space(queue, buffer, "writing"));
    YKI_TRY(check_plain(buffer, "writing"));
    if (!size)
        return yki_queue_marker(queue, wait, done);
    return enqueue_write(queue, buffer, offset, size, data, wait, done);
}

yoke_status
yki_queue_read(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size, void *data,
               yki_wait wait, yki_event *done)
{
    YKI_TRY(yki_buffer_check(buffer, offset, size, "reading"));
    YKI_TRY(check_space(queue, buffer, "reading"));
    YKI_TRY(check_plain(buffer, "reading"));
    if (!size)
        return yki_queue_marker(queue, wait, done);
    return enqueue_read(queue, buffer, offset, size, data, wait, done);
}

yoke_status
yki_buffer_put(yki_buffer *buffer, uint64_t offset, uint64_t size, const void *data)
{
    yoke_device *owner = buffer->owner;
    cl_command_queue queue;
    yoke_status status;

    YKI_TRY(yki_buffer_check(buffer, offset, size, "writing"));
    if (!size)
        return YOKE_OK;
    if (buffer->host) {
        memcpy((char *)buffer->host + offset, data, size);
        return YOKE_OK;
    }
    pthread_mutex_lock(&owner->setup_lock);
    status = get_setup_queue(owner, &queue);
    if (status == YOKE_OK) {
        cl_int error =
            clEnqueueWriteBuffer(queue, buffer->cl, CL_TRUE, offset, size, data, 0, NULL, NULL);

        if (error != CL_SUCCESS)
            status = yki_cl_fail(error, "clEnqueueWriteBuffer", owner, buffer->name);
    }
    pthread_mutex_unlock(&owner->setup_lock);
    return status;
}

yoke_status
yki_buffer_get(yki_buffer *buffer, uint64_t offset, uint64_t size, void *data)
{
    yoke_device *owner = buffer->owner;
    cl_command_queue queue;
    yoke_status status;

    YKI_TRY(yki_buffer_check(buffer, offset, size, "reading"));
    if (!size)
        return YOKE_OK;
    if (buffer->host) {
        memcpy(data, (const char *)buffer->host + offset, size);
        return YOKE_OK;
    }
    pthread_mutex_lock(&owner->setup_lock);
    status = get_setup_queue(owner, &queue);
    if (status == YOKE_OK) {
        cl_int error =
            clEnqueueReadBuffer(queue, buffer->cl, CL_TRUE, offset, size, data, 0, NULL, NULL);

        if (error != CL_SUCCESS)
            status = yki_cl_fail(error, "clEnqueueReadBuffer", owner, buffer->name);
    }
    pthread_mutex_unlock(&owner->setup_lock);
    return status;
}

/* ------------------------------------------------------ fills and copies */

/* The kernels have one work-item per group, which suits CPUs. Their drivers' own commands use one
 * core. */
static bool
prefers_kernels(const yki_queue *queue)
{
    const yki_device_traits *traits = &queue->device->traits;

    return traits->host_memory && traits->type != YOKE_DEVICE_GPU;
}

/* Each queue has its own kernel, so that no other thread sets its arguments. */
static yoke_status
get_kernel(yki_queue *queue, const char *file, const char *name, yki_kernel **kernel)
{
    return *kernel ? YOKE_OK : yki_kernel_get(queue->device, file, "", name, kernel);
}

/* Takes a group for each compute unit: fewer for little work, more where a group would make too
 * many iterations (common.cl). */
static yki_grid
spread(const yki_queue *queue, uint64_t size)
{
    uint64_t units = queue->device->traits.compute_units;
    uint64_t groups = YKI_MIN(YKI_MAX(size / GROUP_BYTES, 1), units);

    groups = YKI_MAX(groups, size / GROUP_MOST_BYTES);
    return (yki_grid){.groups = {(size_t)YKI_MIN(groups, 65535)}};
}

static yoke_status
fill_by_kernel(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
               uint32_t pattern, yki_wait wait, yki_event *done)
{
    cl_ulong begin = offset, end = offset + size;
    yki_grid grid = spread(queue, size);
    unsigned char given[4], turned[4];

    YKI_TRY(get_kernel(queue, "fill.cl", "yki_fill", &queue->fill));
    /* The kernel writes whole aligned words: rotate the pattern so that it begins at `offset`. */
    memcpy(given, &pattern, sizeof given);
    for (unsigned i = 0; i < 4; i++)
        turned[(offset + i) % 4] = given[i];
    YKI_TRY(yki_kernel_set_buffer(queue->fill, 0, buffer));
    YKI_TRY(yki_kernel_set(queue->fill, 1, sizeof begin, &begin));
    YKI_TRY(yki_kernel_set(queue->fill, 2, sizeof end, &end));
    YKI_TRY(yki_kernel_set(queue->fill, 3, sizeof turned, turned));
    return yki_queue_launch(queue, queue->fill, &grid, wait, done);
}

yoke_status
yki_queue_fill(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
               uint32_t pattern, yki_wait wait, yki_event *done)
{
    cl_event event = NULL;
    cl_uint count;
    cl_int error;

    YKI_TRY(yki_buffer_check(buffer, offset, size, "filling"));
    YKI_TRY(check_space(queue, buffer, "filling"));
    YKI_TRY(check_plain(buffer, "filling"));
    if (!size)
        return yki_queue_marker(queue, wait, done);
    if (prefers_kernels(queue) || offset % 4 || size % 4)
        return fill_by_kernel(queue, buffer, offset, size, pattern, wait, done);
    YKI_TRY(yki_queue_begin(queue, wait, &count));
    error = clEnqueueFillBuffer(queue->cl, buffer->cl, &pattern, sizeof pattern, offset, size,
                                count, count ? queue->waits : NULL, &event);
    return yki_queue_end(queue, error, event, "clEnqueueFillBuffer", "filling", buffer->name, 0,
                         done);
}

yoke_status
yki_buffer_touch(yki_queue *queue, yki_buffer *buffer)
{
    if (buffer->pinned) {
        memset(buffer->host, 0, buffer->size);
        return YOKE_OK;
    }
    return yki_queue_fill(queue, buffer, 0, buffer->size, 0, YKI_NO_WAIT, NULL);
}

static yoke_status
copy_by_kernel(yki_queue *queue, yki_buffer *from, uint64_t from_offset, yki_buffer *to,
               uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done)
{
    cl_ulong from_first = from_offset / 4, to_first = to_offset / 4, count = size / 4;
    cl_uint tail = size % 4;
    yki_grid grid = spread(queue, size);
    yki_kernel *kernel;

    YKI_TRY(get_kernel(queue, "copy.cl", "yki_copy", &queue->copy));
    kernel = queue->copy;
    YKI_TRY(yki_kernel_set(kernel, 0, sizeof from->cl, &from->cl));
    YKI_TRY(yki_kernel_set(kernel, 1, sizeof to->cl, &to->cl));
    YKI_TRY(yki_kernel_set(kernel, 2, sizeof from_first, &from_first));
    YKI_TRY(yki_kernel_set(kernel, 3, sizeof to_first, &to_first));
    YKI_TRY(yki_kernel_set(kernel, 4, sizeof count, &count));
    YKI_TRY(yki_kernel_set(kernel, 5, sizeof tail, &tail));
    return yki_queue_launch(queue, kernel, &grid, wait, done);
}

yoke_status
yki_queue_copy(yki_queue *queue, yki_buffer *from, uint64_t from_offset, yki_buffer *to,
               uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done)
{
    cl_event event = NULL;
    cl_uint count;
    cl_int error;

    YKI_TRY(yki_buffer_check(from, from_offset, size, "copying from"));
    YKI_TRY(yki_buffer_check(to, to_offset, size, "copying to"));
    YKI_TRY(check_space(queue, from, "copying from"));
    YKI_TRY(check_space(queue, to, "copying to"));
    if (from == to && from_offset < to_offset + size && to_offset < from_offset + size)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "copying %llu bytes inside %s from offset %llu to %llu; must not overlap",
                        (unsigned long long)size, from->name, (unsigned long long)from_offset,
                        (unsigned long long)to_offset);
    if (!size)
        return yki_queue_marker(queue, wait, done);
    if (from->mapped && to->mapped)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "copying from %s to %s: both are pinned host memory; use their pointers",
                        from->name, to->name);
    if (from->mapped)
        return enqueue_write(queue, to, to_offset, size, (char *)from->host + from_offset, wait,
                             done);
    if (to->mapped)
        return enqueue_read(queue, from, from_offset, size, (char *)to->host + to_offset, wait,
                            done);
    if (prefers_kernels(queue) && from_offset % 4 == 0 && to_offset % 4 == 0)
        return copy_by_kernel(queue, from, from_offset, to, to_offset, size, wait, done);
    YKI_TRY(yki_queue_begin(queue, wait, &count));
    error = clEnqueueCopyBuffer(queue->cl, from->cl, to->cl, from_offset, to_offset, size, count,
                                count ? queue->waits : NULL, &event);
    return yki_queue_end(queue, error, event, "clEnqueueCopyBuffer", "copying to", to->name, size,
                         done);
}

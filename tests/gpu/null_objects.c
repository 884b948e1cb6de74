/* SPDX-License-Identifier: Apache-2.0
 *
 * null_objects.c - contexts and memory of the null driver. Memory is reserved, and the system gives
 * it when it is touched, so buffers may be larger than the host's memory.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "gpu/null_internal.h"

static cl_context CL_API_CALL
create_context(const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
               void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
               cl_int *error)
{
    cl_context context = calloc(1, sizeof *context);

    (void)properties, (void)notify, (void)user;
    if (!context || n < 1 || n > NULL_MOST_DEVICES || (n > 1 && null_injected.contexts_of_one)) {
        free(context);
        *error = CL_INVALID_VALUE;
        return NULL;
    }
    context->table = &null_table;
    context->references = 1;
    context->count = n;
    memcpy(context->devices, devices, n * sizeof(cl_device_id));
    *error = CL_SUCCESS;
    return context;
}

static cl_int CL_API_CALL
retain_context(cl_context context)
{
    context->references++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
release_context(cl_context context)
{
    if (NULL_LAST(context))
        free(context);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
get_context_info(cl_context context, cl_context_info what, size_t size, void *value, size_t *wrote)
{
    switch (what) {
    case CL_CONTEXT_DEVICES:
        return null_answer(context->devices, context->count * sizeof(cl_device_id), size, value,
                           wrote);
    case CL_CONTEXT_NUM_DEVICES:
        NULL_SAY(cl_uint, context->count);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_mem
make_memory(cl_int *error)
{
    static atomic_int made;
    cl_mem memory = calloc(1, sizeof *memory);

    *error = memory ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (!memory)
        return NULL;
    memory->table = &null_table;
    memory->references = 1;
    memory->number = ++made;
    return memory;
}

static cl_mem CL_API_CALL
create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    cl_ulong most = 0; /* as OpenCL says it: what the largest device takes */
    cl_mem memory;

    for (cl_uint i = 0; i < context->count; i++)
        if (context->devices[i]->model->allocation > most)
            most = context->devices[i]->model->allocation;
    if (!size || size > most) {
        *error = CL_INVALID_BUFFER_SIZE;
        return NULL;
    }
    memory = make_memory(error);
    if (!memory)
        return NULL;
    memory->size = size;
    memory->owned = !(flags & CL_MEM_USE_HOST_PTR);
    memory->data = host;
    if (memory->owned)
        memory->data = mmap(NULL, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory->data == MAP_FAILED) {
        free(memory);
        *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    if (flags & CL_MEM_COPY_HOST_PTR)
        memcpy(memory->data, host, size);
    return memory;
}

static cl_mem CL_API_CALL
create_sub_buffer(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type, const void *info,
                  cl_int *error)
{
    const cl_buffer_region *region = info;
    cl_mem memory = make_memory(error);

    (void)flags, (void)type;
    if (!memory)
        return NULL;
    parent->references++;
    memory->parent = parent;
    memory->before = parent->newest;
    parent->newest = memory;
    memory->data = parent->data + region->origin;
    memory->size = region->size;
    return memory;
}

static cl_int CL_API_CALL
retain_memory(cl_mem memory)
{
    memory->references++;
    return CL_SUCCESS;
}

/* Drivers were seen to crash when overlapping sub-buffers go in another order than the reverse of
 * that in which they came. */
static void
leave_parent(cl_mem memory)
{
    cl_mem *place = &memory->parent->newest;

    if (*place != memory)
        null_count_hasty_view();
    while (*place != memory)
        place = &(*place)->before;
    *place = memory->before;
}

static cl_int CL_API_CALL
release_memory(cl_mem memory)
{
    if (!NULL_LAST(memory))
        return CL_SUCCESS;
    if (memory->gone)
        memory->gone(memory, memory->user);
    if (memory->parent) {
        leave_parent(memory);
        release_memory(memory->parent);
    } else if (memory->owned) {
        munmap(memory->data, memory->size);
    }
    free(memory);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
get_memory_info(cl_mem memory, cl_mem_info what, size_t size, void *value, size_t *wrote)
{
    if (what != CL_MEM_SIZE)
        return CL_INVALID_VALUE;
    NULL_SAY(size_t, memory->size);
}

static cl_int CL_API_CALL
set_callback(cl_mem memory, void(CL_CALLBACK *gone)(cl_mem, void *), void *user)
{
    memory->gone = gone;
    memory->user = user;
    return CL_SUCCESS;
}

void
null_fill_objects(cl_icd_dispatch *table)
{
    table->clCreateContext = create_context;
    table->clRetainContext = retain_context;
    table->clReleaseContext = release_context;
    table->clGetContextInfo = get_context_info;
    table->clCreateBuffer = create_buffer;
    table->clCreateSubBuffer = create_sub_buffer;
    table->clRetainMemObject = retain_memory;
    table->clReleaseMemObject = release_memory;
    table->clGetMemObjectInfo = get_memory_info;
    table->clSetMemObjectDestructorCallback = set_callback;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.c - an OpenCL layer for tests: it stands between an application and its
 * drivers, counts calls and objects, fails the call it is told to, and slows a
 * device down.
 *
 * The ICD loader loads it when OPENCL_LAYERS names it (ocl-icd 2.3 and later, the
 * Khronos loader built with layers; both read the variable at the first OpenCL
 * call). It wraps OpenCL 1.2 without images, samplers and sharing, which yoke and
 * CLBlast do not use; anything else passes by uncounted.
 *
 * A call that is made to fail does nothing and writes nothing but its error code.
 * Retains and releases are counted as references but never fail: nobody has an
 * answer to a release that failed.
 *
 * For whole processes, from the environment: YOKE_FAULT_AT=n with
 * YOKE_FAULT_CODE=-5 (CL_OUT_OF_RESOURCES) and YOKE_FAULT_STICKY=1; YOKE_SLOW and
 * YOKE_FLIP (see layer_device.c); YOKE_FAULT_REPORT=file gets a line at exit with what was counted,
 * YOKE_FAULT_KERNELS=file one for each launch, with the kernel's name.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/layer_internal.h"

#define EXPORT __attribute__((visibility("default")))

const cl_icd_dispatch *fault_next;

/* ---- the n-th call ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t calls, at;
    int code;
    bool sticky;
    fault_hit hit;
} points;
static void (*watcher)(void);

static void
note_hit(const char *call)
{
    if (points.hit.count++ == 0) {
        points.hit.index = points.calls;
        snprintf(points.hit.call, sizeof points.hit.call, "%s", call);
    }
}

/* Every failable call passes here first. */
static cl_int
point(const char *call)
{
    cl_int error = CL_SUCCESS;

    pthread_mutex_lock(&lock);
    points.calls++;
    if (watcher)
        watcher();
    if (points.at && (points.calls == points.at || (points.sticky && points.calls > points.at))) {
        note_hit(call);
        error = points.code;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static cl_int
enqueue_point(cl_command_queue queue, const char *call)
{
    cl_int error = point(call);

    if (error == CL_SUCCESS) {
        error = fault_enqueue_error(queue);
        if (error != CL_SUCCESS) {
            pthread_mutex_lock(&lock);
            note_hit(call);
            pthread_mutex_unlock(&lock);
        }
    }
    return error;
}

static void
arm(uint64_t n, int code, bool sticky)
{
    pthread_mutex_lock(&lock);
    memset(&points, 0, sizeof points);
    points.at = n;
    points.code = code;
    points.sticky = sticky;
    pthread_mutex_unlock(&lock);
}

static void
watch(void (*seen)(void))
{
    pthread_mutex_lock(&lock);
    watcher = seen;
    pthread_mutex_unlock(&lock);
}

static uint64_t
calls(void)
{
    uint64_t count;

    pthread_mutex_lock(&lock);
    count = points.calls;
    pthread_mutex_unlock(&lock);
    return count;
}

static void
get_hit(fault_hit *hit)
{
    pthread_mutex_lock(&lock);
    *hit = points.hit;
    pthread_mutex_unlock(&lock);
}

static bool
active(void)
{
    return fault_next != NULL;
}

/* ---- wrappers, by shape ---- */

/* Returns an error and makes nothing. */
#define PLAIN(name, parameters, arguments)                                                         \
    static cl_int CL_API_CALL wrap_##name parameters                                               \
    {                                                                                              \
        cl_int error = point(#name);                                                               \
                                                                                                   \
        return error != CL_SUCCESS ? error : fault_next->name arguments;                           \
    }

/* Returns a handle; the error goes to errcode_ret. */
#define CREATE(type, kind, name, parameters, arguments)                                            \
    static type CL_API_CALL wrap_##name parameters                                                 \
    {                                                                                              \
        cl_int error = point(#name);                                                               \
        type made;                                                                                 \
                                                                                                   \
        if (error != CL_SUCCESS) {                                                                 \
            if (errcode_ret)                                                                       \
                *errcode_ret = error;                                                              \
            return NULL;                                                                           \
        }                                                                                          \
        made = fault_next->name arguments;                                                         \
        fault_object_add(FAULT_##kind, made, #name);                                               \
        return made;                                                                               \
    }

/* Cannot fail here. */
#define RETAIN(type, kind, name)                                                                   \
    static cl_int CL_API_CALL wrap_##name(type object)                                             \
    {                                                                                              \
        cl_int error = fault_next->name(object);                                                   \
                                                                                                   \
        if (error == CL_SUCCESS)                                                                   \
            fault_object_retain(FAULT_##kind, object, #name);                                      \
        return error;                                                                              \
    }

/* The count first: once released, the handle may come back as another object. */
#define RELEASE(type, kind, name, gone)                                                            \
    static cl_int CL_API_CALL wrap_##name(type object)                                             \
    {                                                                                              \
        if (fault_object_release(FAULT_##kind, object, #name))                                     \
            gone(object);                                                                          \
        return fault_next->name(object);                                                           \
    }

/* An enqueue: has `queue` and `event`. */
#define ENQUEUE(name, parameters, arguments)                                                       \
    static cl_int CL_API_CALL wrap_##name parameters                                               \
    {                                                                                              \
        cl_int error = enqueue_point(queue, #name);                                                \
                                                                                                   \
        if (error == CL_SUCCESS)                                                                   \
            error = fault_next->name arguments;                                                    \
        if (error == CL_SUCCESS && event)                                                          \
            fault_object_add(FAULT_EVENT, *event, #name);                                          \
        return error;                                                                              \
    }

static void
nothing(void *object)
{
    (void)object;
}

/* ---- platforms, devices, contexts ---- */

PLAIN(clGetPlatformIDs, (cl_uint n, cl_platform_id *ids, cl_uint *count), (n, ids, count))
PLAIN(clGetPlatformInfo,
      (cl_platform_id platform, cl_platform_info name, size_t size, void *value, size_t *wrote),
      (platform, name, size, value, wrote))
PLAIN(clGetDeviceIDs,
      (cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *ids, cl_uint *count),
      (platform, type, n, ids, count))
PLAIN(clGetDeviceInfo,
      (cl_device_id device, cl_device_info name, size_t size, void *value, size_t *wrote),
      (device, name, size, value, wrote))

static cl_int CL_API_CALL
wrap_clCreateSubDevices(cl_device_id device, const cl_device_partition_property *properties,
                        cl_uint n, cl_device_id *parts, cl_uint *count)
{
    cl_int error = point("clCreateSubDevices");
    cl_uint made = 0;

    if (error == CL_SUCCESS)
        error = fault_next->clCreateSubDevices(device, properties, n, parts, &made);
    if (error != CL_SUCCESS)
        return error;
    if (parts) {
        for (cl_uint i = 0; i < made; i++)
            fault_object_add(FAULT_SUBDEVICE, parts[i], "clCreateSubDevices");
        fault_subdevices_made(device, parts, made);
    }
    if (count)
        *count = made;
    return CL_SUCCESS;
}

RETAIN(cl_device_id, SUBDEVICE, clRetainDevice)
RELEASE(cl_device_id, SUBDEVICE, clReleaseDevice, nothing)
CREATE(cl_context, CONTEXT, clCreateContext,
       (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
        void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
        cl_int *errcode_ret),
       (properties, n, devices, notify, user, errcode_ret))
CREATE(cl_context, CONTEXT, clCreateContextFromType,
       (const cl_context_properties *properties, cl_device_type type,
        void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
        cl_int *errcode_ret),
       (properties, type, notify, user, errcode_ret))
RETAIN(cl_context, CONTEXT, clRetainContext)
RELEASE(cl_context, CONTEXT, clReleaseContext, nothing)
PLAIN(clGetContextInfo,
      (cl_context context, cl_context_info name, size_t size, void *value, size_t *wrote),
      (context, name, size, value, wrote))

/* ---- queues ---- */

/* Every queue is made with profiling, so that a device can be slowed at any time later. */
static cl_command_queue CL_API_CALL
wrap_clCreateCommandQueue(cl_context context, cl_device_id device,
                          cl_command_queue_properties properties, cl_int *errcode_ret)
{
    cl_int error = point("clCreateCommandQueue");
    cl_command_queue queue;

    if (error != CL_SUCCESS) {
        if (errcode_ret)
            *errcode_ret = error;
        return NULL;
    }
    queue = fault_next->clCreateCommandQueue(context, device,
                                             properties | CL_QUEUE_PROFILING_ENABLE, errcode_ret);
    if (queue) {
        fault_object_add(FAULT_QUEUE, queue, "clCreateCommandQueue");
        fault_queue_made(queue, device, properties & CL_QUEUE_PROFILING_ENABLE);
    }
    return queue;
}

static void
queue_gone(cl_command_queue queue)
{
    fault_slow_queue_gone(queue);
    fault_queue_gone(queue);
}

RETAIN(cl_command_queue, QUEUE, clRetainCommandQueue)
RELEASE(cl_command_queue, QUEUE, clReleaseCommandQueue, queue_gone)

static cl_int CL_API_CALL
wrap_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info name, size_t size,
                           void *value, size_t *wrote)
{
    cl_int error = point("clGetCommandQueueInfo");

    if (error == CL_SUCCESS)
        error = fault_next->clGetCommandQueueInfo(queue, name, size, value, wrote);
    if (error == CL_SUCCESS && name == CL_QUEUE_PROPERTIES && value &&
        fault_queue_timed_by_us(queue))
        *(cl_command_queue_properties *)value &=
            ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
    return error;
}

PLAIN(clFlush, (cl_command_queue queue), (queue))
PLAIN(clFinish, (cl_command_queue queue), (queue))

/* ---- memory ---- */

CREATE(cl_mem, MEM, clCreateBuffer,
       (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *errcode_ret),
       (context, flags, size, host, errcode_ret))
CREATE(cl_mem, MEM, clCreateSubBuffer,
       (cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type, const void *info,
        cl_int *errcode_ret),
       (buffer, flags, type, info, errcode_ret))
RETAIN(cl_mem, MEM, clRetainMemObject)
RELEASE(cl_mem, MEM, clReleaseMemObject, fault_flip_mem_gone)
PLAIN(clGetMemObjectInfo, (cl_mem mem, cl_mem_info name, size_t size, void *value, size_t *wrote),
      (mem, name, size, value, wrote))
PLAIN(clSetMemObjectDestructorCallback,
      (cl_mem mem, void(CL_CALLBACK *notify)(cl_mem, void *), void *user), (mem, notify, user))

/* ---- programs and kernels ---- */

CREATE(cl_program, PROGRAM, clCreateProgramWithSource,
       (cl_context context, cl_uint n, const char **strings, const size_t *lengths,
        cl_int *errcode_ret),
       (context, n, strings, lengths, errcode_ret))
CREATE(cl_program, PROGRAM, clCreateProgramWithBinary,
       (cl_context context, cl_uint n, const cl_device_id *devices, const size_t *lengths,
        const unsigned char **binaries, cl_int *statuses, cl_int *errcode_ret),
       (context, n, devices, lengths, binaries, statuses, errcode_ret))
CREATE(cl_program, PROGRAM, clCreateProgramWithBuiltInKernels,
       (cl_context context, cl_uint n, const cl_device_id *devices, const char *names,
        cl_int *errcode_ret),
       (context, n, devices, names, errcode_ret))
RETAIN(cl_program, PROGRAM, clRetainProgram)
RELEASE(cl_program, PROGRAM, clReleaseProgram, nothing)
PLAIN(clBuildProgram,
      (cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
       void(CL_CALLBACK *notify)(cl_program, void *), void *user),
      (program, n, devices, options, notify, user))
PLAIN(clCompileProgram,
      (cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
       cl_uint headers, const cl_program *programs, const char **names,
       void(CL_CALLBACK *notify)(cl_program, void *), void *user),
      (program, n, devices, options, headers, programs, names, notify, user))
CREATE(cl_program, PROGRAM, clLinkProgram,
       (cl_context context, cl_uint n, const cl_device_id *devices, const char *options,
        cl_uint inputs, const cl_program *programs, void(CL_CALLBACK *notify)(cl_program, void *),
        void *user, cl_int *errcode_ret),
       (context, n, devices, options, inputs, programs, notify, user, errcode_ret))
PLAIN(clUnloadPlatformCompiler, (cl_platform_id platform), (platform))
PLAIN(clGetProgramInfo,
      (cl_program program, cl_program_info name, size_t size, void *value, size_t *wrote),
      (program, name, size, value, wrote))
PLAIN(clGetProgramBuildInfo,
      (cl_program program, cl_device_id device, cl_program_build_info name, size_t size,
       void *value, size_t *wrote),
      (program, device, name, size, value, wrote))
CREATE(cl_kernel, KERNEL, clCreateKernel,
       (cl_program program, const char *name, cl_int *errcode_ret), (program, name, errcode_ret))

static cl_int CL_API_CALL
wrap_clCreateKernelsInProgram(cl_program program, cl_uint n, cl_kernel *kernels, cl_uint *count)
{
    cl_int error = point("clCreateKernelsInProgram");
    cl_uint made = 0;

    if (error == CL_SUCCESS)
        error = fault_next->clCreateKernelsInProgram(program, n, kernels, &made);
    if (error != CL_SUCCESS)
        return error;
    for (cl_uint i = 0; kernels && i < made; i++)
        fault_object_add(FAULT_KERNEL, kernels[i], "clCreateKernelsInProgram");
    if (count)
        *count = made;
    return CL_SUCCESS;
}

RETAIN(cl_kernel, KERNEL, clRetainKernel)

static void
kernel_gone(cl_kernel kernel)
{
    fault_slow_kernel_gone(kernel);
    fault_flip_kernel_gone(kernel);
}

RELEASE(cl_kernel, KERNEL, clReleaseKernel, kernel_gone)

static cl_int CL_API_CALL
wrap_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    cl_int error = point("clSetKernelArg");

    if (error == CL_SUCCESS)
        error = fault_next->clSetKernelArg(kernel, index, size, value);
    if (error == CL_SUCCESS)
        fault_flip_argument(kernel, index, size, value);
    return error;
}

PLAIN(clGetKernelInfo,
      (cl_kernel kernel, cl_kernel_info name, size_t size, void *value, size_t *wrote),
      (kernel, name, size, value, wrote))
PLAIN(clGetKernelArgInfo,
      (cl_kernel kernel, cl_uint index, cl_kernel_arg_info name, size_t size, void *value,
       size_t *wrote),
      (kernel, index, name, size, value, wrote))
PLAIN(clGetKernelWorkGroupInfo,
      (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name, size_t size,
       void *value, size_t *wrote),
      (kernel, device, name, size, value, wrote))

/* ---- events ---- */

CREATE(cl_event, EVENT, clCreateUserEvent, (cl_context context, cl_int *errcode_ret),
       (context, errcode_ret))
PLAIN(clSetUserEventStatus, (cl_event event, cl_int status), (event, status))
PLAIN(clWaitForEvents, (cl_uint n, const cl_event *events), (n, events))
RETAIN(cl_event, EVENT, clRetainEvent)
RELEASE(cl_event, EVENT, clReleaseEvent, fault_slow_event_gone)
PLAIN(clSetEventCallback,
      (cl_event event, cl_int type, void(CL_CALLBACK *notify)(cl_event, cl_int, void *),
       void *user),
      (event, type, notify, user))

/* A slowed launch's event is that of the busy time after it; what it was and when it began are
 * the launch's. */
static cl_int CL_API_CALL
wrap_clGetEventInfo(cl_event event, cl_event_info name, size_t size, void *value, size_t *wrote)
{
    cl_int error = point("clGetEventInfo");

    if (error != CL_SUCCESS)
        return error;
    if (name == CL_EVENT_COMMAND_TYPE)
        event = fault_slow_original(event);
    return fault_next->clGetEventInfo(event, name, size, value, wrote);
}

static cl_int CL_API_CALL
wrap_clGetEventProfilingInfo(cl_event event, cl_profiling_info name, size_t size, void *value,
                             size_t *wrote)
{
    cl_command_queue queue = NULL;
    cl_int error = point("clGetEventProfilingInfo");

    if (error != CL_SUCCESS)
        return error;
    if (fault_next->clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL) ==
            CL_SUCCESS &&
        fault_queue_timed_by_us(queue))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    if (name != CL_PROFILING_COMMAND_END)
        event = fault_slow_original(event);
    return fault_next->clGetEventProfilingInfo(event, name, size, value, wrote);
}

/* ---- enqueues ---- */

#define WAITS cl_uint n, const cl_event *waits, cl_event *event

ENQUEUE(clEnqueueReadBuffer,
        (cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset, size_t size,
         void *data, WAITS),
        (queue, mem, blocking, offset, size, data, n, waits, event))
ENQUEUE(clEnqueueReadBufferRect,
        (cl_command_queue queue, cl_mem mem, cl_bool blocking, const size_t *mem_origin,
         const size_t *host_origin, const size_t *region, size_t mem_row, size_t mem_slice,
         size_t host_row, size_t host_slice, void *data, WAITS),
        (queue, mem, blocking, mem_origin, host_origin, region, mem_row, mem_slice, host_row,
         host_slice, data, n, waits, event))
ENQUEUE(clEnqueueWriteBuffer,
        (cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset, size_t size,
         const void *data, WAITS),
        (queue, mem, blocking, offset, size, data, n, waits, event))
ENQUEUE(clEnqueueWriteBufferRect,
        (cl_command_queue queue, cl_mem mem, cl_bool blocking, const size_t *mem_origin,
         const size_t *host_origin, const size_t *region, size_t mem_row, size_t mem_slice,
         size_t host_row, size_t host_slice, const void *data, WAITS),
        (queue, mem, blocking, mem_origin, host_origin, region, mem_row, mem_slice, host_row,
         host_slice, data, n, waits, event))
ENQUEUE(clEnqueueFillBuffer,
        (cl_command_queue queue, cl_mem mem, const void *pattern, size_t pattern_size,
         size_t offset, size_t size, WAITS),
        (queue, mem, pattern, pattern_size, offset, size, n, waits, event))
ENQUEUE(clEnqueueCopyBuffer,
        (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
         size_t size, WAITS),
        (queue, from, to, from_offset, to_offset, size, n, waits, event))
ENQUEUE(clEnqueueCopyBufferRect,
        (cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_origin,
         const size_t *to_origin, const size_t *region, size_t from_row, size_t from_slice,
         size_t to_row, size_t to_slice, WAITS),
        (queue, from, to, from_origin, to_origin, region, from_row, from_slice, to_row, to_slice, n,
         waits, event))
ENQUEUE(clEnqueueUnmapMemObject, (cl_command_queue queue, cl_mem mem, void *mapped, WAITS),
        (queue, mem, mapped, n, waits, event))
ENQUEUE(clEnqueueMigrateMemObjects,
        (cl_command_queue queue, cl_uint count, const cl_mem *mems, cl_mem_migration_flags flags,
         WAITS),
        (queue, count, mems, flags, n, waits, event))
ENQUEUE(clEnqueueNativeKernel,
        (cl_command_queue queue, void(CL_CALLBACK *function)(void *), void *arguments, size_t size,
         cl_uint count, const cl_mem *mems, const void **places, WAITS),
        (queue, function, arguments, size, count, mems, places, n, waits, event))
ENQUEUE(clEnqueueMarkerWithWaitList, (cl_command_queue queue, WAITS), (queue, n, waits, event))
ENQUEUE(clEnqueueBarrierWithWaitList, (cl_command_queue queue, WAITS), (queue, n, waits, event))
ENQUEUE(clEnqueueMarker, (cl_command_queue queue, cl_event *event), (queue, event))

static cl_int CL_API_CALL
wrap_clEnqueueBarrier(cl_command_queue queue)
{
    cl_int error = enqueue_point(queue, "clEnqueueBarrier");

    return error != CL_SUCCESS ? error : fault_next->clEnqueueBarrier(queue);
}

static cl_int CL_API_CALL
wrap_clEnqueueWaitForEvents(cl_command_queue queue, cl_uint n, const cl_event *events)
{
    cl_int error = enqueue_point(queue, "clEnqueueWaitForEvents");

    return error != CL_SUCCESS ? error : fault_next->clEnqueueWaitForEvents(queue, n, events);
}

static void *CL_API_CALL
wrap_clEnqueueMapBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, cl_map_flags flags,
                        size_t offset, size_t size, WAITS, cl_int *errcode_ret)
{
    cl_int error = enqueue_point(queue, "clEnqueueMapBuffer");
    void *mapped;

    if (error != CL_SUCCESS) {
        if (errcode_ret)
            *errcode_ret = error;
        return NULL;
    }
    mapped = fault_next->clEnqueueMapBuffer(queue, mem, blocking, flags, offset, size, n, waits,
                                            event, &error);
    if (error == CL_SUCCESS && event)
        fault_object_add(FAULT_EVENT, *event, "clEnqueueMapBuffer");
    if (errcode_ret)
        *errcode_ret = error;
    return mapped;
}

/* ---- launches ---- */

/* What is common to both kinds: slow it, hand out an event when one is asked for. */
static cl_int
launched(cl_command_queue queue, cl_kernel kernel, size_t items, double ratio, cl_event made,
         cl_event *event, const char *call)
{
    if (ratio > 1) {
        cl_int error = fault_slow_launch(queue, kernel, items, ratio, made, event);

        if (error != CL_SUCCESS)
            return error;
    } else if (event) {
        *event = made;
    }
    if (event)
        fault_object_add(FAULT_EVENT, *event, call);
    return CL_SUCCESS;
}

/* One write each, so that lines of several processes do not mix. */
static void
note_kernel(cl_kernel kernel)
{
    const char *path = getenv("YOKE_FAULT_KERNELS");
    char name[256] = "";
    size_t length = 0;
    FILE *file;

    if (!path || !*path ||
        fault_next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, &length))
        return;
    file = fopen(path, "a");
    if (!file)
        return;
    fprintf(file, "%s\n", name);
    fclose(file);
}

static cl_int CL_API_CALL
wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                            const size_t *offset, const size_t *global, const size_t *local, WAITS)
{
    cl_int error = enqueue_point(queue, "clEnqueueNDRangeKernel");
    cl_event made = NULL;
    size_t items = 1;
    fault_flip flip;
    bool flips;
    double ratio;

    if (error != CL_SUCCESS)
        return error;
    flips = fault_launch_flips(queue, kernel, &flip);
    fault_flip_before(queue, kernel, flips ? &flip : NULL);
    ratio = fault_launch_ratio(queue, kernel);
    error = fault_next->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, n,
                                               waits, ratio > 1 || event ? &made : NULL);
    if (error != CL_SUCCESS)
        return error;
    if (flips)
        fault_flip_after(queue, kernel, &flip);
    note_kernel(kernel);
    for (cl_uint i = 0; i < dimensions; i++)
        items *= global[i];
    return launched(queue, kernel, items, ratio, made, event, "clEnqueueNDRangeKernel");
}

static cl_int CL_API_CALL
wrap_clEnqueueTask(cl_command_queue queue, cl_kernel kernel, WAITS)
{
    cl_int error = enqueue_point(queue, "clEnqueueTask");
    cl_event made = NULL;
    double ratio;

    if (error != CL_SUCCESS)
        return error;
    ratio = fault_launch_ratio(queue, kernel);
    error = fault_next->clEnqueueTask(queue, kernel, n, waits, ratio > 1 || event ? &made : NULL);
    if (error != CL_SUCCESS)
        return error;
    return launched(queue, kernel, 1, ratio, made, event, "clEnqueueTask");
}

/* ---- the layer's two entry points ---- */

#define WRAPPED(X)                                                                                 \
    X(clGetPlatformIDs)                                                                            \
    X(clGetPlatformInfo)                                                                           \
    X(clGetDeviceIDs)                                                                              \
    X(clGetDeviceInfo)                                                                             \
    X(clCreateSubDevices)                                                                          \
    X(clRetainDevice)                                                                              \
    X(clReleaseDevice)                                                                             \
    X(clCreateContext)                                                                             \
    X(clCreateContextFromType)                                                                     \
    X(clRetainContext)                                                                             \
    X(clReleaseContext)                                                                            \
    X(clGetContextInfo)                                                                            \
    X(clCreateCommandQueue)                                                                        \
    X(clRetainCommandQueue)                                                                        \
    X(clReleaseCommandQueue)                                                                       \
    X(clGetCommandQueueInfo)                                                                       \
    X(clFlush)                                                                                     \
    X(clFinish)                                                                                    \
    X(clCreateBuffer)                                                                              \
    X(clCreateSubBuffer)                                                                           \
    X(clRetainMemObject)                                                                           \
    X(clReleaseMemObject)                                                                          \
    X(clGetMemObjectInfo)                                                                          \
    X(clSetMemObjectDestructorCallback)                                                            \
    X(clCreateProgramWithSource)                                                                   \
    X(clCreateProgramWithBinary)                                                                   \
    X(clCreateProgramWithBuiltInKernels)                                                           \
    X(clRetainProgram)                                                                             \
    X(clReleaseProgram)                                                                            \
    X(clBuildProgram)                                                                              \
    X(clCompileProgram)                                                                            \
    X(clLinkProgram)                                                                               \
    X(clUnloadPlatformCompiler)                                                                    \
    X(clGetProgramInfo)                                                                            \
    X(clGetProgramBuildInfo)                                                                       \
    X(clCreateKernel)                                                                              \
    X(clCreateKernelsInProgram)                                                                    \
    X(clRetainKernel)                                                                              \
    X(clReleaseKernel)                                                                             \
    X(clSetKernelArg)                                                                              \
    X(clGetKernelInfo)                                                                             \
    X(clGetKernelArgInfo)                                                                          \
    X(clGetKernelWorkGroupInfo)                                                                    \
    X(clCreateUserEvent)                                                                           \
    X(clSetUserEventStatus)                                                                        \
    X(clWaitForEvents)                                                                             \
    X(clRetainEvent)                                                                               \
    X(clReleaseEvent)                                                                              \
    X(clSetEventCallback)                                                                          \
    X(clGetEventInfo)                                                                              \
    X(clGetEventProfilingInfo)                                                                     \
    X(clEnqueueReadBuffer)                                                                         \
    X(clEnqueueReadBufferRect)                                                                     \
    X(clEnqueueWriteBuffer)                                                                        \
    X(clEnqueueWriteBufferRect)                                                                    \
    X(clEnqueueFillBuffer)                                                                         \
    X(clEnqueueCopyBuffer)                                                                         \
    X(clEnqueueCopyBufferRect)                                                                     \
    X(clEnqueueUnmapMemObject)                                                                     \
    X(clEnqueueMigrateMemObjects)                                                                  \
    X(clEnqueueNativeKernel)                                                                       \
    X(clEnqueueMarkerWithWaitList)                                                                 \
    X(clEnqueueBarrierWithWaitList)                                                                \
    X(clEnqueueMarker)                                                                             \
    X(clEnqueueBarrier)                                                                            \
    X(clEnqueueWaitForEvents)                                                                      \
    X(clEnqueueMapBuffer)                                                                          \
    X(clEnqueueNDRangeKernel)                                                                      \
    X(clEnqueueTask)

static cl_icd_dispatch table, next;

static void
report_at_exit(void)
{
    const char *path = getenv("YOKE_FAULT_REPORT");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    char text[1024];
    size_t leaked;

    if (!file)
        return;
    leaked = fault_object_describe(text, sizeof text, true);
    fprintf(file, "calls %llu, failed %llu (%s), alive %zu: %s\n", (unsigned long long)points.calls,
            (unsigned long long)points.hit.count, points.hit.call, leaked, text);
    fclose(file);
}

static void
arm_from_environment(void)
{
    const char *at = getenv("YOKE_FAULT_AT"), *code = getenv("YOKE_FAULT_CODE");
    const char *sticky = getenv("YOKE_FAULT_STICKY");

    if (at && *at)
        arm(strtoull(at, NULL, 10), code && *code ? atoi(code) : CL_OUT_OF_RESOURCES,
            sticky && *sticky);
    if (!fault_device_environment())
        abort(); /* a test that names no device must not pass */
    atexit(report_at_exit);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL
clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *wrote)
{
    static const char layer_name[] = "yoke fault layer";

    switch (name) {
    case CL_LAYER_API_VERSION:
        if (value && size < sizeof(cl_layer_api_version))
            return CL_INVALID_VALUE;
        if (value)
            *(cl_layer_api_version *)value = CL_LAYER_API_VERSION_100;
        if (wrote)
            *wrote = sizeof(cl_layer_api_version);
        return CL_SUCCESS;
    case CL_LAYER_NAME:
        if (value && size < sizeof layer_name)
            return CL_INVALID_VALUE;
        if (value)
            memcpy(value, layer_name, sizeof layer_name);
        if (wrote)
            *wrote = sizeof layer_name;
        return CL_SUCCESS;
    default:
        return CL_INVALID_VALUE;
    }
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL
clInitLayer(cl_uint n, const cl_icd_dispatch *target, cl_uint *n_ret,
            const cl_icd_dispatch **dispatch)
{
    const size_t known = sizeof table / sizeof(void *);

    if (!target || !n_ret || !dispatch)
        return CL_INVALID_VALUE;
    /* A loader may know fewer functions, or more, than these headers. */
    memcpy(&next, target, (n < known ? n : known) * sizeof(void *));
    fault_next = &next;
    table = next;
#define SET(name) table.name = wrap_##name;
    WRAPPED(SET)
#undef SET
    *dispatch = &table;
    *n_ret = (cl_uint)known;
    arm_from_environment();
    return CL_SUCCESS;
}

EXPORT const fault_layer *
yoke_fault_layer(void)
{
    static const fault_layer layer = {
        .active = active,
        .arm = arm,
        .calls = calls,
        .watch = watch,
        .get_hit = get_hit,
        .live = fault_object_live,
        .overreleased = fault_object_overreleased,
        .describe = fault_object_describe,
        .step = fault_set_step,
        .slow = fault_add_slow,
        .slow_queue = fault_add_slow_queue,
        .fail_enqueue = fault_add_enqueue_error,
        .lose = fault_add_loss,
        .slow_errors = fault_slow_error_count,
        .flip = fault_add_flip,
        .flips = fault_flip_count,
    };

    return &layer;
}

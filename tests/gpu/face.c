/* SPDX-License-Identifier: Apache-2.0
 *
 * face.c - the GPU face: an OpenCL layer through which each device says that it is a GPU, a
 * discrete one.
 *
 * A library that goes by what devices say then takes its GPU-shaped way on a CPU: the same kernels,
 * groups and copies are run and checked without a GPU. The loader loads it when OPENCL_LAYERS names
 * it. YOKE_FACE_GROUP (256) and YOKE_FACE_LOCAL (32768) are the limits of a group: its work-items,
 * and the bytes of its local memory; YOKE_FACE_UNITS (16) counts compute units. With
 * YOKE_FACE_INTEGRATED=1 it is an integrated GPU, whose memory is the host's. With
 * YOKE_FACE_BESIDE=1 the first device stays the processor that it is. With
 * YOKE_FACE_ANSWER=N it names N as the limit of each kernel's groups, whatever they are. A launch
 * of a larger group fails, as it would there. With YOKE_FACE_COPIES=1 its compiler says that it
 * takes NVIDIA's options, so lib/device/dot.c tries copies beside what items compute, which
 * ordinary code does the work of (clkernels/tile_ahead.cl), and has them. Units for matrices fail
 * to compile.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>

#define EXPORT __attribute__((visibility("default")))

enum { UNITS = 16, GROUP = 256, LOCAL = 32768, ALIGN_BITS = 4096 };

static const cl_icd_dispatch *next;
static size_t units, most_items, most_local, integrated, kernel_items, beside, copies;
static cl_device_id processor; /* with YOKE_FACE_BESIDE */

static size_t
setting(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    long value = text ? strtol(text, NULL, 10) : 0;

    return value > 0 ? (size_t)value : otherwise;
}

static cl_int
answer(const void *value, size_t bytes, size_t size, void *to, size_t *wrote)
{
    if (wrote)
        *wrote = bytes;
    if (!to)
        return CL_SUCCESS;
    if (size < bytes)
        return CL_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CL_SUCCESS;
}

#define SAY(type, what)                                                                            \
    do {                                                                                           \
        const type answer_ = (type)(what);                                                         \
        return answer(&answer_, sizeof answer_, size, value, wrote);                               \
    } while (0)

static cl_int CL_API_CALL
get_device_ids(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *ids,
               cl_uint *count)
{
    cl_int error = next->clGetDeviceIDs(platform, type, n, ids, count);

    if (beside && !processor && error == CL_SUCCESS && n && ids)
        processor = ids[0];
    return error;
}

/* The device's extensions, and the one of NVIDIA's options. */
static cl_int
answer_extensions(cl_device_id device, size_t size, void *value, size_t *wrote)
{
    static const char more[] = " cl_nv_compiler_options";
    size_t length;
    cl_int error = next->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &length);
    char *text;

    if (error != CL_SUCCESS)
        return error;
    text = malloc(length + sizeof more);
    if (!text)
        return CL_OUT_OF_HOST_MEMORY;
    error = next->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, length, text, NULL);
    if (error == CL_SUCCESS) {
        strcat(text, more);
        error = answer(text, strlen(text) + 1, size, value, wrote);
    }
    free(text);
    return error;
}

static cl_int CL_API_CALL
get_device_info(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *wrote)
{
    if (device == processor)
        return next->clGetDeviceInfo(device, what, size, value, wrote);
    switch (what) {
    case CL_DEVICE_TYPE:
        SAY(cl_device_type, CL_DEVICE_TYPE_GPU);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        SAY(cl_bool, integrated ? CL_TRUE : CL_FALSE);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        SAY(cl_uint, units);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT:
        SAY(cl_uint, 1);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        SAY(size_t, most_items);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        SAY(cl_uint, ALIGN_BITS);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        SAY(cl_ulong, most_local);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        SAY(cl_device_local_mem_type, CL_LOCAL);
    case CL_DEVICE_PARTITION_PROPERTIES:
        SAY(cl_device_partition_property, 0);
    case CL_DEVICE_EXTENSIONS:
        if (copies)
            return answer_extensions(device, size, value, wrote);
        /* fall through */
    default:
        return next->clGetDeviceInfo(device, what, size, value, wrote);
    }
}

/* Without the option that caps registers, which the driver below does not know. */
static cl_int CL_API_CALL
build_program(cl_program program, cl_uint n, const cl_device_id *ids, const char *options,
              void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    static const char cap[] = "-cl-nv-maxrregcount=";
    char *text = options ? strdup(options) : NULL, *at = text ? strstr(text, cap) : NULL;
    cl_int error;

    if (options && !text)
        return CL_OUT_OF_HOST_MEMORY;
    if (at)
        memset(at, ' ', strcspn(at, " "));
    error = next->clBuildProgram(program, n, ids, text, notify, data);
    free(text);
    return error;
}

static cl_int CL_API_CALL
launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
       const size_t *items, const size_t *group, cl_uint waits, const cl_event *events,
       cl_event *event)
{
    cl_device_id device;
    cl_ulong local = 0;
    size_t size = 1;
    bool known = next->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device,
                                             NULL) == CL_SUCCESS;

    if (known && device == processor)
        return next->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, items, group, waits,
                                            events, event);
    for (cl_uint d = 0; group && d < dimensions; d++)
        size *= group[d];
    if (size > most_items)
        return CL_INVALID_WORK_GROUP_SIZE;
    if (known &&
        next->clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local,
                                       &local, NULL) == CL_SUCCESS &&
        local > most_local)
        return CL_OUT_OF_RESOURCES;
    return next->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, items, group, waits,
                                        events, event);
}

static cl_int CL_API_CALL
get_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t size,
               void *value, size_t *wrote)
{
    if (what == CL_KERNEL_WORK_GROUP_SIZE && device != processor)
        SAY(size_t, kernel_items);
    return next->clGetKernelWorkGroupInfo(kernel, device, what, size, value, wrote);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL
clGetLayerInfo(cl_layer_info what, size_t size, void *value, size_t *wrote)
{
    if (what != CL_LAYER_API_VERSION)
        return CL_INVALID_VALUE;
    SAY(cl_layer_api_version, CL_LAYER_API_VERSION_100);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL
clInitLayer(cl_uint n, const cl_icd_dispatch *target, cl_uint *count, const cl_icd_dispatch **layer)
{
    static cl_icd_dispatch below, table;
    const size_t known = sizeof table / sizeof(void *);

    if (!target || !count || !layer)
        return CL_INVALID_VALUE;
    /* A loader may know fewer functions, or more, than these headers. */
    memcpy(&below, target, (n < known ? n : known) * sizeof(void *));
    units = setting("YOKE_FACE_UNITS", UNITS);
    most_items = setting("YOKE_FACE_GROUP", GROUP);
    most_local = setting("YOKE_FACE_LOCAL", LOCAL);
    integrated = setting("YOKE_FACE_INTEGRATED", 0);
    kernel_items = setting("YOKE_FACE_ANSWER", most_items);
    beside = setting("YOKE_FACE_BESIDE", 0);
    copies = setting("YOKE_FACE_COPIES", 0);
    next = &below;
    table = below;
    table.clGetDeviceIDs = get_device_ids;
    table.clGetDeviceInfo = get_device_info;
    table.clEnqueueNDRangeKernel = launch;
    if (copies)
        table.clBuildProgram = build_program;
    table.clGetKernelWorkGroupInfo = get_group_info;
    *count = (cl_uint)known;
    *layer = &table;
    return CL_SUCCESS;
}

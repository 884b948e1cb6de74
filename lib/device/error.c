/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - turns OpenCL errors into statuses of yoke.
 *
 * Most codes become YOKE_ERROR_DEVICE with the name and number in the detail. Those
 * that a program can act on (no memory, no device, no driver, a program that does
 * not build) have a status of their own.
 */
#include "device/internal.h"

/* Codes of extensions and of OpenCL 2.x and 3.0, which the OpenCL headers may lack. */
enum {
    CODE_INVALID_PIPE_SIZE = -69,
    CODE_INVALID_DEVICE_QUEUE = -70,
    CODE_INVALID_SPEC_ID = -71,
    CODE_MAX_SIZE_RESTRICTION_EXCEEDED = -72,
    CODE_PLATFORM_NOT_FOUND = -1001,
    CODE_NVIDIA_ILLEGAL_ACCESS = -9999
};

#define ERROR_MAP(X)                                                                               \
    X(CL_SUCCESS)                                                                                  \
    X(CL_DEVICE_NOT_FOUND)                                                                         \
    X(CL_DEVICE_NOT_AVAILABLE)                                                                     \
    X(CL_COMPILER_NOT_AVAILABLE)                                                                   \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)                                                            \
    X(CL_OUT_OF_RESOURCES)                                                                         \
    X(CL_OUT_OF_HOST_MEMORY)                                                                       \
    X(CL_PROFILING_INFO_NOT_AVAILABLE)                                                             \
    X(CL_MEM_COPY_OVERLAP)                                                                         \
    X(CL_IMAGE_FORMAT_MISMATCH)                                                                    \
    X(CL_IMAGE_FORMAT_NOT_SUPPORTED)                                                               \
    X(CL_BUILD_PROGRAM_FAILURE)                                                                    \
    X(CL_MAP_FAILURE)                                                                              \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET)                                                             \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)                                                \
    X(CL_COMPILE_PROGRAM_FAILURE)                                                                  \
    X(CL_LINKER_NOT_AVAILABLE)                                                                     \
    X(CL_LINK_PROGRAM_FAILURE)                                                                     \
    X(CL_DEVICE_PARTITION_FAILED)                                                                  \
    X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)                                                            \
    X(CL_INVALID_VALUE)                                                                            \
    X(CL_INVALID_DEVICE_TYPE)                                                                      \
    X(CL_INVALID_PLATFORM)                                                                         \
    X(CL_INVALID_DEVICE)                                                                           \
    X(CL_INVALID_CONTEXT)                                                                          \
    X(CL_INVALID_QUEUE_PROPERTIES)                                                                 \
    X(CL_INVALID_COMMAND_QUEUE)                                                                    \
    X(CL_INVALID_HOST_PTR)                                                                         \
    X(CL_INVALID_MEM_OBJECT)                                                                       \
    X(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)                                                          \
    X(CL_INVALID_IMAGE_SIZE)                                                                       \
    X(CL_INVALID_SAMPLER)                                                                          \
    X(CL_INVALID_BINARY)                                                                           \
    X(CL_INVALID_BUILD_OPTIONS)                                                                    \
    X(CL_INVALID_PROGRAM)                                                                          \
    X(CL_INVALID_PROGRAM_EXECUTABLE)                                                               \
    X(CL_INVALID_KERNEL_NAME)                                                                      \
    X(CL_INVALID_KERNEL_DEFINITION)                                                                \
    X(CL_INVALID_KERNEL)                                                                           \
    X(CL_INVALID_ARG_INDEX)                                                                        \
    X(CL_INVALID_ARG_VALUE)                                                                        \
    X(CL_INVALID_ARG_SIZE)                                                                         \
    X(CL_INVALID_KERNEL_ARGS)                                                                      \
    X(CL_INVALID_WORK_DIMENSION)                                                                   \
    X(CL_INVALID_WORK_GROUP_SIZE)                                                                  \
    X(CL_INVALID_WORK_ITEM_SIZE)                                                                   \
    X(CL_INVALID_GLOBAL_OFFSET)                                                                    \
    X(CL_INVALID_EVENT_WAIT_LIST)                                                                  \
    X(CL_INVALID_EVENT)                                                                            \
    X(CL_INVALID_OPERATION)                                                                        \
    X(CL_INVALID_GL_OBJECT)                                                                        \
    X(CL_INVALID_BUFFER_SIZE)                                                                      \
    X(CL_INVALID_MIP_LEVEL)                                                                        \
    X(CL_INVALID_GLOBAL_WORK_SIZE)                                                                 \
    X(CL_INVALID_PROPERTY)                                                                         \
    X(CL_INVALID_IMAGE_DESCRIPTOR)                                                                 \
    X(CL_INVALID_COMPILER_OPTIONS)                                                                 \
    X(CL_INVALID_LINKER_OPTIONS)                                                                   \
    X(CL_INVALID_DEVICE_PARTITION_COUNT)

const char *
yki_cl_error_name(cl_int error)
{
    switch (error) {
#define CASE(code)                                                                                 \
    case code:                                                                                     \
        return #code;
        ERROR_MAP(CASE)
#undef CASE
    case CODE_INVALID_PIPE_SIZE:
        return "CL_INVALID_PIPE_SIZE";
    case CODE_INVALID_DEVICE_QUEUE:
        return "CL_INVALID_DEVICE_QUEUE";
    case CODE_INVALID_SPEC_ID:
        return "CL_INVALID_SPEC_ID";
    case CODE_MAX_SIZE_RESTRICTION_EXCEEDED:
        return "CL_MAX_SIZE_RESTRICTION_EXCEEDED";
    case CODE_PLATFORM_NOT_FOUND:
        return "CL_PLATFORM_NOT_FOUND_KHR";
    case CODE_NVIDIA_ILLEGAL_ACCESS:
        return "an illegal memory access or a kernel that was stopped (NVIDIA)";
    default:
        return "an unknown OpenCL error";
    }
}

static yoke_status
status_of(cl_int error)
{
    switch (error) {
    case CL_OUT_OF_HOST_MEMORY:
        return YOKE_ERROR_OUT_OF_MEMORY;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return YOKE_ERROR_OUT_OF_DEVICE_MEMORY;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILE_PROGRAM_FAILURE:
    case CL_LINK_PROGRAM_FAILURE:
    case CL_COMPILER_NOT_AVAILABLE:
        return YOKE_ERROR_BUILD;
    case CL_DEVICE_NOT_FOUND:
    case CL_DEVICE_NOT_AVAILABLE:
        return YOKE_ERROR_NO_DEVICE;
    case CODE_PLATFORM_NOT_FOUND:
        return YOKE_ERROR_NO_OPENCL;
    default:
        return YOKE_ERROR_DEVICE;
    }
}

void
yki_device_failed(const yoke_device *device)
{
    atomic_store(&device->space->failed, true);
}

yoke_status
yki_cl_fail(cl_int error, const char *call, const yoke_device *device, const char *what)
{
    const char *name = yki_cl_error_name(error);

    if (device) {
        yki_device_failed(device);
        return yki_fail(status_of(error), "%s, on %s (%s, %s): %s says %s (%d)", what, device->id,
                        device->root->info.name, device->root->info.platform, call, name,
                        (int)error);
    }
    return yki_fail(status_of(error), "%s: %s says %s (%d)", what, call, name, (int)error);
}

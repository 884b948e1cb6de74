/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel.c - kernels: one cl_kernel per launch, whose arguments stay set.
 *
 * Idea: a driver answers a forgotten argument or a group of the wrong size with a
 * bare number. So the driver is asked for the right ones when the kernel is made,
 * and queue.c can report a mistake in words before the driver sees it. A kernel that
 * needs a larger group than its registers leave room for is refused when it is made, where
 * the driver's number can be believed and the kernel requires a group; else its launch fails.
 *
 * Not here: building (program.c) and launching (queue.c).
 */
#include <stdio.h>
#include <string.h>

#include "device/runtime.h"

/* Whether the driver says of a kernel of next to no registers, too, that groups of so many
 * work-items are too large. Then the number is no limit: NVIDIA's driver answers 256 for all
 * kernels, and launches groups of 1024. Fails where memory is short, for then it is not known. */
static yoke_status
see_no_limit(yoke_device *device, size_t items, bool *no_limit)
{
    char options[40];
    yki_program *program;
    cl_kernel kernel;
    size_t most = 0;
    yoke_status status;
    cl_int error;

    *no_limit = false;
    if (items > device->traits.max_group)
        return YOKE_OK;
    snprintf(options, sizeof options, "-DVEC=2 -DWG=%zu", items);
    status = yki_program_get(device, "peak.cl", options, &program);
    if (status != YOKE_OK)
        return status == YOKE_ERROR_OUT_OF_MEMORY ? status : YOKE_OK;
    kernel = clCreateKernel(program->cl, "yki_peak_copy", &error);
    if (error == CL_SUCCESS) {
        error = clGetKernelWorkGroupInfo(kernel, device->cl, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
                                         &most, NULL);
        clReleaseKernel(kernel);
    }
    yki_program_release(program);
    *no_limit = error == CL_SUCCESS && most < items;
    return YOKE_OK;
}

/* A group that is no multiple of what the device runs at a time leaves some of it idle. yoke's
 * groups are powers of 2 from 64 on, which suits all GPUs that we know. */
static void
tell_idle_lanes(const yki_kernel *kernel, yoke_device *device, size_t items)
{
    size_t multiple = 0;

    if (clGetKernelWorkGroupInfo(kernel->cl, device->cl,
                                 CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof multiple,
                                 &multiple, NULL) == CL_SUCCESS &&
        multiple && items % multiple)
        yki_log(YOKE_LOG_DEBUG, "kernel %s has groups of %zu work-items; %s runs %zu at a time",
                kernel->name, items, device->id, multiple);
}

/* Reads the number of arguments and the group size, against which launches are checked. */
static yoke_status
inspect(yki_kernel *kernel)
{
    yoke_device *device = &kernel->program->space->devices[0];
    size_t items, wanted;
    bool no_limit = false;
    cl_int error = clGetKernelInfo(kernel->cl, CL_KERNEL_NUM_ARGS, sizeof kernel->argument_count,
                                   &kernel->argument_count, NULL);

    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clGetKernelInfo", device, kernel->name);
    error = clGetKernelWorkGroupInfo(kernel->cl, device->cl, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                     sizeof kernel->required, kernel->required, NULL);
    if (error == CL_SUCCESS)
        error = clGetKernelWorkGroupInfo(kernel->cl, device->cl, CL_KERNEL_WORK_GROUP_SIZE,
                                         sizeof kernel->most, &kernel->most, NULL);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clGetKernelWorkGroupInfo", device, kernel->name);
    /* Registers limit groups of GPUs. llvmpipe says 32, but runs 256. */
    if (device->traits.type == YOKE_DEVICE_CPU)
        kernel->most = device->traits.max_group;
    items = kernel->required[0] * kernel->required[1] * kernel->required[2];
    wanted = items ? items : YKI_MIN((uint32_t)YKI_FREE_GROUP, device->traits.max_group);
    if (wanted > kernel->most)
        YKI_TRY(see_no_limit(device, wanted, &no_limit));
    if (no_limit)
        kernel->most = wanted;
    if (items > 1 && device->traits.type == YOKE_DEVICE_GPU)
        tell_idle_lanes(kernel, device, items);
    if (items > kernel->most)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "kernel %s needs groups of %zu work-items; on %s it can have at most %zu",
                        kernel->name, items, device->id, kernel->most);
    return YOKE_OK;
}

yoke_status
yki_kernel_create(yki_program *program, const char *name, yki_kernel **kernel)
{
    yki_kernel *made = yki_alloc(1, sizeof *made, "a kernel");
    yoke_status status;
    cl_int error;

    if (!made)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_name_set(made->name, name);
    made->cl = clCreateKernel(program->cl, name, &error);
    if (error == CL_INVALID_KERNEL_NAME) {
        status = yki_fail(YOKE_ERROR_NOT_FOUND, "%s has no kernel \"%s\"", program->name, name);
        goto free_made;
    }
    if (error != CL_SUCCESS) {
        status = yki_cl_fail(error, "clCreateKernel", &program->space->devices[0], name);
        goto free_made;
    }
    made->program = yki_program_retain(program);
    status = inspect(made);
    if (status != YOKE_OK)
        goto release_program;
    *kernel = made;
    return YOKE_OK;

release_program:
    clReleaseKernel(made->cl);
    yki_program_release(made->program);
free_made:
    yki_free(made);
    return status;
}

yoke_status
yki_kernel_get(yoke_device *device, const char *file, const char *options, const char *name,
               yki_kernel **kernel)
{
    yki_program *program;
    yoke_status status;

    YKI_TRY(yki_program_get(device, file, options, &program));
    status = yki_kernel_create(program, name, kernel);
    yki_program_release(program);
    return status;
}

void
yki_kernel_destroy(yki_kernel *kernel)
{
    if (!kernel)
        return;
    clReleaseKernel(kernel->cl);
    yki_program_release(kernel->program);
    yki_free(kernel);
}

/* Sets any kind of argument; `what` names the value in an error. */
static yoke_status
set_argument(yki_kernel *kernel, unsigned index, size_t size, const void *value, const char *what)
{
    cl_int error;

    if (index >= kernel->argument_count)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "kernel %s: the number of an argument is %u; must be below %u",
                        kernel->name, index, kernel->argument_count);
    error = clSetKernelArg(kernel->cl, index, size, value);
    if (error == CL_INVALID_ARG_SIZE)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "kernel %s: argument %u is not %zu bytes wide (%s)", kernel->name, index,
                        size, what);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clSetKernelArg", &kernel->program->space->devices[0],
                           kernel->name);
    if (index < 64)
        kernel->set |= (uint64_t)1 << index;
    return YOKE_OK;
}

yoke_status
yki_kernel_set(yki_kernel *kernel, unsigned index, size_t size, const void *value)
{
    return set_argument(kernel, index, size, value, "a value");
}

yoke_status
yki_kernel_set_buffer(yki_kernel *kernel, unsigned index, yki_buffer *buffer)
{
    if (!buffer)
        return set_argument(kernel, index, sizeof(cl_mem), NULL, "no buffer");
    if (buffer->owner->space->memory != kernel->program->space->memory)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "kernel %s: buffer %s is on %s, which shares no memory with the kernel's "
                        "device; must be on that device",
                        kernel->name, buffer->name, buffer->owner->id);
    if (buffer->pinned)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "kernel %s: buffer %s is pinned host memory; must be device memory",
                        kernel->name, buffer->name);
    return set_argument(kernel, index, sizeof buffer->cl, &buffer->cl, buffer->name);
}

yoke_status
yki_kernel_set_int(yki_kernel *kernel, unsigned index, int64_t value)
{
    int32_t narrow = (int32_t)value;

    if (narrow != value)
        return yki_fail_bug("a number of a kernel is no int");
    return yki_kernel_set(kernel, index, sizeof narrow, &narrow);
}

yoke_status
yki_kernel_set_float(yki_kernel *kernel, unsigned index, float value)
{
    return yki_kernel_set(kernel, index, sizeof value, &value);
}

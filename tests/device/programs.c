/* SPDX-License-Identifier: Apache-2.0
 *
 * programs.c - see programs.h.
 */
#include <stdlib.h>

#include "device/cache.h"
#include "device/programs.h"
#include "support/scratch.h"

yoke_context *context;
yoke_selection *selection;

void
open_cached(const char *cache, const char *selector)
{
    yoke_context_options options = {.cache_dir = scratch_path(cache)};

    ASSERT_OK(yoke_context_create(&options, &context));
    ASSERT_OK(yoke_selection_create(context, selector, NULL, &selection));
}

void
open_devices(const char *selector)
{
    open_cached("cache", selector);
}

void
close_devices(void)
{
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

void
make_cheap(void)
{
    for (size_t d = 0; d < yoke_selection_count(selection); d++)
        ASSERT_OK(yki_program_set_asking(yoke_selection_get(selection, d), 1e-4));
}

static void
set_up(void)
{
    scratch_set_up();
    unsetenv("YOKE_CL_DIR");
    open_devices(test_selector());
}

void
set_up_cheap(void)
{
    set_up();
    make_cheap();
}

void
tear_down(void)
{
    close_devices();
    scratch_tear_down();
}

yoke_device *
first_device(void)
{
    return yoke_selection_get(selection, 0);
}

const yki_root *
first_root(void)
{
    return yki_device_space(first_device())->root;
}

int
run_program(size_t device, yki_program *program, const char *name)
{
    cl_device_id id = yoke_selection_get(selection, device)->cl;
    cl_int error, value = -1;
    cl_kernel kernel = clCreateKernel(program->cl, name, &error);
    cl_command_queue queue;
    cl_mem memory;

    ck_assert_msg(error == CL_SUCCESS, "kernel %s: %s", name, yki_cl_error_name(error));
    queue = clCreateCommandQueue(program->space->cl, id, 0, &error);
    ck_assert_int_eq(error, CL_SUCCESS);
    memory = clCreateBuffer(program->space->cl, CL_MEM_READ_WRITE, sizeof value, NULL, &error);
    ck_assert_int_eq(error, CL_SUCCESS);
    ck_assert_int_eq(clSetKernelArg(kernel, 0, sizeof memory, &memory), CL_SUCCESS);
    ck_assert_int_eq(clEnqueueTask(queue, kernel, 0, NULL, NULL), CL_SUCCESS);
    ck_assert_int_eq(
        clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL),
        CL_SUCCESS);
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    clReleaseKernel(kernel);
    return value;
}

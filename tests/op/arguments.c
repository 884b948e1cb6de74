/* SPDX-License-Identifier: Apache-2.0
 *
 * arguments.c - holds the arguments of launches to the parameters of their kernels, and says how
 * these are compiled.
 *
 * Solvers pass arguments by position. OpenCL notices a wrong number or size, but not two
 * ints that changed places, and where both are often equal (height and width) no result shows
 * it. So each int and float has a name, and the driver tells the names of the parameters.
 *
 * What is made for work-items that run side by side is there for other devices: a processor does
 * not optimise it, which would take most of the time that tests of operators take. Winograd's
 * kernels are few and their tests large, so that running them would take longer than compiling.
 */
#include <stdio.h>
#include <string.h>

#include "device/runtime.h"
#include "harness.h"

static const char *
kind_of(const yki_arg *arg)
{
    return arg->kind == YKI_ARG_INT ? "int" : arg->kind == YKI_ARG_FLOAT ? "float" : "a pointer";
}

/* Compares one argument with the parameter at its place. */
static void
check_argument(const yki_launch *launch, cl_kernel kernel, uint32_t index)
{
    const yki_arg *arg = &launch->args[index];
    char name[64] = "", type[64] = "", wanted[64];
    cl_kernel_arg_address_qualifier space = CL_KERNEL_ARG_ADDRESS_PRIVATE;
    bool pointer;

    ck_assert_int_eq(clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_NAME, sizeof name, name, NULL),
                     CL_SUCCESS);
    ck_assert_int_eq(
        clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL),
        CL_SUCCESS);
    ck_assert_int_eq(clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER,
                                        sizeof space, &space, NULL),
                     CL_SUCCESS);
    pointer = space != CL_KERNEL_ARG_ADDRESS_PRIVATE;
    ck_assert_msg(pointer ? arg->kind == YKI_ARG_SLOT || arg->kind == YKI_ARG_STEP
                          : strcmp(type, arg->kind == YKI_ARG_FLOAT ? "float" : "int") == 0 ||
                                (arg->kind == YKI_ARG_INT && strcmp(type, "uint") == 0),
                  "%s: argument %u is %s, the kernel takes %s %s", launch->kernel, index,
                  kind_of(arg), type, name);
    if (pointer || (launch->source && !arg->name)) /* what users write has names of their own */
        return;
    ck_assert_msg(arg->name, "%s: argument %u has no name", launch->kernel, index);
    if (arg->number < 0)
        snprintf(wanted, sizeof wanted, "%s", arg->name);
    else
        snprintf(wanted, sizeof wanted, "%s%d", arg->name, arg->number);
    /* PoCL's headers make a macro of some names, such as `length`. */
    if (strncmp(name, "_cl_", 4) == 0)
        memmove(name, name + 4, strlen(name + 4) + 1);
    ck_assert_msg(strcmp(name, wanted) == 0, "%s: argument %u is %s, the kernel's parameter is %s",
                  launch->kernel, index, wanted, name);
}

static bool
is_foreign(const yki_solver *solver, const yki_device_traits *traits)
{
    return solver->side_by_side && solver->numerical_class != YKI_CLASS_WINOGRAD4 &&
           traits->type == YOKE_DEVICE_CPU && traits->vector_width >= 4;
}

void
op_check_arguments(yoke_device *device, const yki_solver *solver, yki_recipe *recipe)
{
    const char *option = !op_thorough() && is_foreign(solver, yki_device_get_traits(device))
                             ? " -cl-kernel-arg-info -cl-opt-disable"
                             : " -cl-kernel-arg-info";

    for (size_t i = 0; i < recipe->launch_count; i++) {
        yki_launch *launch = &recipe->launches[i];
        size_t used = strlen(launch->options);
        yki_program *program;
        yki_kernel *kernel;

        ck_assert_uint_lt(used + strlen(option), sizeof launch->options);
        strcpy(launch->options + used, option);
        ASSERT_OK(yki_launch_program(device, launch, &program));
        ASSERT_OK(yki_kernel_create(program, launch->kernel, &kernel));
        ck_assert_msg(kernel->argument_count == launch->arg_count,
                      "%s: %u arguments, the kernel takes %u", launch->kernel, launch->arg_count,
                      kernel->argument_count);
        for (uint32_t k = 0; k < launch->arg_count; k++)
            check_argument(launch, kernel->cl, k);
        yki_kernel_destroy(kernel);
        yki_program_release(program);
    }
}

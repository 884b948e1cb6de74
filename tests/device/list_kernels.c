/* SPDX-License-Identifier: Apache-2.0
 *
 * list_kernels.c - the names of all kernels of the embedded table, one a line, as the
 * first device's compiler sees them: with the default macros, and with those that some
 * kernels are only there for. For tests/matrix.sh.
 */
#include <stdio.h>
#include <string.h>

#include "device/internal.h"
#include "device/sources.h"

static const char *const options[] = {"-cl-std=CL1.2", "-cl-std=CL1.2 -DWG=64",
                                      "-cl-std=CL1.2 -DDENSE=softmax_ce"};

static cl_program
program_of(cl_context context, const char *file)
{
    cl_program program = NULL;
    char *text;

    if (yki_source_of_file(file, &text) == YOKE_OK) {
        program = clCreateProgramWithSource(context, 1, (const char **)&text, NULL, NULL);
        yki_free(text);
    }
    return program;
}

/* 0 if all went well. */
static int
list(cl_context context, cl_device_id device, const yki_kernel_source *source)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        cl_program program = program_of(context, source->file);
        char names[8192] = "";

        if (!program || clBuildProgram(program, 1, &device, options[i], NULL, NULL) ||
            clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, NULL)) {
            fprintf(stderr, "list_kernels: %s does not compile with %s\n", source->file,
                    options[i]);
            return 1;
        }
        for (char *name = strtok(names, ";"); name; name = strtok(NULL, ";"))
            puts(name);
        clReleaseProgram(program);
    }
    return 0;
}

int
main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    int failed = 0;

    if (clGetPlatformIDs(1, &platform, NULL) ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 77;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    if (!context)
        return 1;
    for (size_t i = 0; !failed && i < yki_kernel_source_count; i++)
        failed = list(context, device, &yki_kernel_sources[i]);
    clReleaseContext(context);
    return failed;
}

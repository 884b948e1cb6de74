/* SPDX-License-Identifier: Apache-2.0
 *
 * dot.c - finds out which dot units a device has (clkernels/dot.cl): a small kernel is
 * compiled, run, and its numbers are checked. What fails costs a line of the log.
 *
 * An instruction that the processor does not have would end the process. So the
 * processor is asked before, and only drivers that compile for it are tried.
 */
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

#include "device/internal.h"

enum { LANES = 16 };

const char *
yki_dot_unit_name(yki_dot_unit unit)
{
    static const char *const names[] = {"fma", "rounded", "avx512-bf16"};

    return names[unit];
}

/* Asks the processor, and the system for its wide registers. */
static bool
host_has_avx512_bf16(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    unsigned a, b, c, d;

    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
#else
    return false;
#endif
}

yki_dot_unit
yki_dot_candidate(const yki_root *root)
{
    bool compiles_for_host = root->info.type == YOKE_DEVICE_CPU &&
                             root->rank == YKI_DRIVER_NATIVE && root->traits.vector_width >= LANES;

    return compiles_for_host && host_has_avx512_bf16() ? YKI_DOT_AVX512_BF16 : YKI_DOT_ROUNDED;
}

/* A whole number of few bits as bfloat16. */
static cl_uint
bf16(int value)
{
    float x = (float)value;
    cl_uint bits;

    memcpy(&bits, &x, sizeof bits);
    return bits >> 16;
}

static cl_uint
part(int first, int second)
{
    return bf16(first) | bf16(second) << 16;
}

/* Runs the kernel once. All numbers are small and whole, so the result is exact. */
static bool
run_step(cl_command_queue queue, cl_kernel kernel, cl_mem a, cl_mem b, cl_mem c)
{
    const size_t one = 1;
    cl_uint left = part(3, -5), right[LANES];
    cl_float sums[LANES];

    for (int i = 0; i < LANES; i++) {
        right[i] = part(i - 7, 2 * i + 1);
        sums[i] = (cl_float)(100 - 9 * i);
    }
    if (clEnqueueWriteBuffer(queue, a, CL_TRUE, 0, sizeof left, &left, 0, NULL, NULL) ||
        clEnqueueWriteBuffer(queue, b, CL_TRUE, 0, sizeof right, right, 0, NULL, NULL) ||
        clEnqueueWriteBuffer(queue, c, CL_TRUE, 0, sizeof sums, sums, 0, NULL, NULL) ||
        clSetKernelArg(kernel, 0, sizeof a, &a) || clSetKernelArg(kernel, 1, sizeof b, &b) ||
        clSetKernelArg(kernel, 2, sizeof c, &c) ||
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL) ||
        clEnqueueReadBuffer(queue, c, CL_TRUE, 0, sizeof sums, sums, 0, NULL, NULL))
        return false;
    for (int i = 0; i < LANES; i++)
        if (sums[i] != (cl_float)(100 - 9 * i + 3 * (i - 7) - 5 * (2 * i + 1)))
            return false;
    return true;
}

static bool
try_kernel(cl_context cl, cl_command_queue queue, cl_kernel kernel)
{
    cl_int errors[3];
    cl_mem a = clCreateBuffer(cl, CL_MEM_READ_ONLY, sizeof(cl_uint), NULL, &errors[0]);
    cl_mem b = clCreateBuffer(cl, CL_MEM_READ_ONLY, LANES * sizeof(cl_uint), NULL, &errors[1]);
    cl_mem c = clCreateBuffer(cl, CL_MEM_READ_WRITE, LANES * sizeof(cl_float), NULL, &errors[2]);
    bool good = !errors[0] && !errors[1] && !errors[2] && run_step(queue, kernel, a, b, c);

    if (!errors[0])
        clReleaseMemObject(a);
    if (!errors[1])
        clReleaseMemObject(b);
    if (!errors[2])
        clReleaseMemObject(c);
    return good;
}

static bool
try_program(cl_context cl, cl_command_queue queue, cl_device_id id, const char *text,
            const char *options)
{
    cl_int error;
    cl_program program = clCreateProgramWithSource(cl, 1, &text, NULL, &error);
    cl_kernel kernel;
    bool good = false;

    if (error != CL_SUCCESS)
        return false;
    if (clBuildProgram(program, 1, &id, options, NULL, NULL) == CL_SUCCESS) {
        kernel = clCreateKernel(program, "yki_dot_probe", &error);
        if (error == CL_SUCCESS) {
            good = try_kernel(cl, queue, kernel);
            clReleaseKernel(kernel);
        }
    }
    clReleaseProgram(program);
    return good;
}

yki_dot_unit
yki_dot_probe(const yki_root *root, cl_context cl, cl_command_queue queue)
{
    yki_dot_unit unit = yki_dot_candidate(root);
    char *text, options[64];
    bool good;

    if (unit == YKI_DOT_ROUNDED || yki_source_of_file("dot_probe.cl", &text) != YOKE_OK)
        return YKI_DOT_ROUNDED;
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DW=%d -DDOT=%d", LANES, (int)unit);
    good = try_program(cl, queue, root->id, text, options);
    yki_free(text);
    if (good)
        return unit;
    yki_log(YOKE_LOG_INFO,
            "%s: the driver does not compile %s as it should; bfloat16 is done without it",
            root->info.id, yki_dot_unit_name(unit));
    return YKI_DOT_ROUNDED;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * dot.c - finds out which dot units a device has (clkernels/dot.cl): a small kernel is
 * compiled, run, and its numbers are checked. What fails costs a line of the log.
 *
 * An instruction that the processor does not have would end the process. So the
 * processor is asked before, and only drivers that compile for it are tried. The compiler
 * of a GPU is asked itself: dot.cl stops those that would not understand.
 */
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

#include "device/internal.h"

enum { LANES = 16 };
/* The product of a trial: a tile of tile_probe.cl. */
enum { ROWS = 128, COLUMNS = 64, TERMS = 52, TILE_ITEMS = 128, TILE_LOCAL = 32768 };

const char *
yki_dot_unit_name(yki_dot_unit unit)
{
    static const char *const names[] = {"fma",      "rounded",      "avx512-bf16", "rounded-tf32",
                                        "mma-bf16", "mma-tf32",     "mma-pairs",   "rounded-f16",
                                        "mma-f16",  "mma-pairs-f16"};

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

    if (root->info.type == YOKE_DEVICE_GPU && root->caps_registers &&
        root->traits.max_group >= TILE_ITEMS && root->traits.local_memory >= TILE_LOCAL)
        return YKI_DOT_MMA_BF16;
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

/* An operand of a trial. */
typedef struct trial_buffer {
    cl_mem buffer;
    size_t size;
    void *values;
} trial_buffer;

/* Runs a kernel once, on buffers of these values, and one number. The last buffer is the result. */
static bool
run_once(cl_context cl, cl_command_queue queue, cl_kernel kernel, trial_buffer buffers[3],
         size_t items)
{
    bool good = true;
    cl_int error;

    for (cl_uint i = 0; i < 3; i++) {
        trial_buffer *b = &buffers[i];

        b->buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, b->size, b->values,
                                   &error);
        if (error != CL_SUCCESS)
            b->buffer = NULL;
        good = good && b->buffer &&
               clSetKernelArg(kernel, i, sizeof b->buffer, &b->buffer) == CL_SUCCESS;
    }
    good = good &&
           clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL) ==
               CL_SUCCESS &&
           clEnqueueReadBuffer(queue, buffers[2].buffer, CL_TRUE, 0, buffers[2].size,
                               buffers[2].values, 0, NULL, NULL) == CL_SUCCESS;
    for (int i = 0; i < 3; i++)
        if (buffers[i].buffer)
            clReleaseMemObject(buffers[i].buffer);
    return good;
}

/* A step of lanes. All numbers are small and whole, so the result is exact. */
static bool
try_lanes(cl_context cl, cl_command_queue queue, cl_kernel kernel)
{
    cl_uint left = part(3, -5), right[LANES];
    cl_float sums[LANES];
    trial_buffer buffers[] = {{.size = sizeof left, .values = &left},
                              {.size = sizeof right, .values = right},
                              {.size = sizeof sums, .values = sums}};

    for (int i = 0; i < LANES; i++) {
        right[i] = part(i - 7, 2 * i + 1);
        sums[i] = (cl_float)(100 - 9 * i);
    }
    if (!run_once(cl, queue, kernel, buffers, 1))
        return false;
    for (int i = 0; i < LANES; i++)
        if (sums[i] != (cl_float)(100 - 9 * i + 3 * (i - 7) - 5 * (2 * i + 1)))
            return false;
    return true;
}

/* Numbers without a symmetry: no two places of an operand could be exchanged unseen. */
static int
number_at(int row, int column)
{
    return (row * 37 + column * 101 + row * column * 5) % 61 - 30;
}

/* A product by tile.cl: more than one round of terms, and a rest. */
static bool
try_tile(cl_context cl, cl_command_queue queue, cl_kernel kernel)
{
    static const size_t size = (ROWS * TERMS + TERMS * COLUMNS + ROWS * COLUMNS) * sizeof(cl_float);
    cl_float *a = yki_alloc(size, 1, "numbers of a trial"), *b = a + ROWS * TERMS,
             *c = b + TERMS * COLUMNS;
    trial_buffer buffers[] = {{.size = ROWS * TERMS * sizeof *a, .values = a},
                              {.size = TERMS * COLUMNS * sizeof *b, .values = b},
                              {.size = ROWS * COLUMNS * sizeof *c, .values = c}};
    bool good;

    if (!a)
        return false;
    for (int i = 0; i < ROWS * TERMS; i++)
        a[i] = (cl_float)number_at(i / TERMS, i % TERMS);
    for (int i = 0; i < TERMS * COLUMNS; i++)
        b[i] = (cl_float)number_at(i % COLUMNS, i / COLUMNS + TERMS);
    good = run_once(cl, queue, kernel, buffers, TILE_ITEMS);
    for (int i = 0; i < ROWS * COLUMNS && good; i++) {
        int sum = 0;

        for (int k = 0; k < TERMS; k++)
            sum += number_at(i / COLUMNS, k) * number_at(i % COLUMNS, k + TERMS);
        good = c[i] == (cl_float)sum;
    }
    yki_free(a);
    return good;
}

/* What becomes of a trial. */
typedef enum outcome { REFUSED, WRONG, GOOD } outcome;

static outcome
try_program(cl_context cl, cl_command_queue queue, cl_device_id id, const char *text,
            const char *options, bool tile)
{
    cl_int error;
    cl_program program = clCreateProgramWithSource(cl, 1, &text, NULL, &error);
    outcome found = REFUSED;
    cl_kernel kernel;

    if (error != CL_SUCCESS)
        return WRONG;
    if (clBuildProgram(program, 1, &id, options, NULL, NULL) == CL_SUCCESS) {
        found = WRONG;
        kernel = clCreateKernel(program, tile ? "yki_tile_probe" : "yki_dot_probe", &error);
        if (error == CL_SUCCESS) {
            if (tile ? try_tile(cl, queue, kernel) : try_lanes(cl, queue, kernel))
                found = GOOD;
            clReleaseKernel(kernel);
        }
    }
    clReleaseProgram(program);
    return found;
}

/* `rounds` of terms in local memory, or 0: the plain core. Three are of fewer terms, as solvers use
 * them (yki_rounds): they fit TILE_LOCAL. */
static outcome
try_unit(const yki_root *root, cl_context cl, cl_command_queue queue, yki_dot_unit unit, int rounds)
{
    const bool tile = unit != YKI_DOT_AVX512_BF16;
    char *text, options[80], ahead[40] = "";
    outcome found;

    if (yki_source_of_file(tile ? "tile_probe.cl" : "dot_probe.cl", &text) != YOKE_OK)
        return WRONG;
    if (rounds > 0)
        snprintf(ahead, sizeof ahead, " -DTILE_ROUNDS=%d%s", rounds, rounds > 2 ? " -DTK=8" : "");
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDOT=%d -DW=%d%s", (int)unit,
             tile ? 4 : LANES, ahead);
    found = try_program(cl, queue, root->id, text, options, tile);
    yki_free(text);
    if (found != GOOD)
        yki_log(YOKE_LOG_INFO, "%s: the driver does not compile %s%s; products are made without it",
                root->info.id, rounds > 0 ? "copies to local memory" : yki_dot_unit_name(unit),
                found == WRONG ? " as it should" : "");
    return found;
}

/* Whether copies to local memory run beside the rest, with each unit that there is. */
static outcome
try_ahead(yki_root *root, cl_context cl, cl_command_queue queue)
{
    outcome found = try_unit(root, cl, queue, YKI_DOT_FMA, 3);

    if (found == GOOD && root->traits.bf16 == YKI_DOT_MMA_BF16)
        found = try_unit(root, cl, queue, YKI_DOT_MMA_BF16, 2);
    if (found == GOOD && root->traits.tf32 == YKI_DOT_MMA_TF32)
        found = try_unit(root, cl, queue, YKI_DOT_MMA_TF32, 2);
    if (found == GOOD && root->traits.f16 == YKI_DOT_MMA_F16)
        found = try_unit(root, cl, queue, YKI_DOT_MMA_F16, 2);
    root->traits.copies_ahead = found == GOOD;
    return found;
}

bool
yki_dot_probe(yki_root *root, cl_context cl, cl_command_queue queue)
{
    const yki_dot_unit candidate = yki_dot_candidate(root);
    outcome bf16, tf32, f16, ahead;

    root->traits.bf16 = YKI_DOT_ROUNDED;
    root->traits.tf32 = YKI_DOT_ROUNDED_TF32;
    root->traits.f16 = YKI_DOT_ROUNDED_F16;
    if (candidate == YKI_DOT_ROUNDED)
        return true;
    bf16 = try_unit(root, cl, queue, candidate, 0);
    if (bf16 == GOOD)
        root->traits.bf16 = candidate;
    if (candidate == YKI_DOT_AVX512_BF16)
        return bf16 == GOOD;
    tf32 = try_unit(root, cl, queue, YKI_DOT_MMA_TF32, 0);
    if (tf32 == GOOD)
        root->traits.tf32 = YKI_DOT_MMA_TF32;
    f16 = try_unit(root, cl, queue, YKI_DOT_MMA_F16, 0);
    if (f16 == GOOD)
        root->traits.f16 = YKI_DOT_MMA_F16;
    ahead = try_ahead(root, cl, queue);
    return bf16 != WRONG && tf32 != WRONG && f16 != WRONG && ahead != WRONG;
}

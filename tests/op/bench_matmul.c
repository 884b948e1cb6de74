/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_matmul.c - for who works on the matrix kernels: every solver and tuning of
 * a few products, beside the multiply-add peak of the same run. Built, not run.
 *
 *   bench_matmul [solver-name-part [repeats]]     YOKE_DEVICES picks the device
 *
 * Row-major in and out, packing included. "wall" is the best of the repeats, each
 * waited for; "queued" is one of many in a row; "cpu" compares processor time with
 * that of the peak, which other work on the machine disturbs less (CPU devices).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "op/ops.h"

static const char peak_source[] =
    "#define STEP(i) c##i = fma(a, b, c##i);\n"
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void peak(__global float *out,\n"
    "                                                                  int steps)\n"
    "{\n"
    "    floatw a = out[0], b = out[1], c0 = 1, c1 = 2, c2 = 3, c3 = 4, c4 = 5, c5 = 6, c6 = 7,\n"
    "           c7 = 8, c8 = 9, c9 = 10, c10 = 11, c11 = 12;\n"
    "    for (int i = 0; i < steps; i++) {\n"
    "        STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5)\n"
    "        STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11)\n"
    "    }\n"
    "    storew(c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11, get_group_id(0),\n"
    "           out);\n"
    "}\n";

typedef struct shape {
    int64_t m, n, k;
    bool ta, tb;
    bool sum; /* the inner axis is the batch: the gradient of a weight */
    const char *what;
} shape;

static const shape shapes[] = {
    {1024, 1024, 1024, false, false, false, "1024^3"},
    {1024, 1024, 1024, false, true, false, "1024^3"},
    {1024, 1024, 1024, true, false, false, "1024^3"},
    {1024, 1024, 1024, true, true, false, "1024^3"},
    {256, 128, 784, false, true, false, "dense 784 -> 128"},
    {256, 784, 128, false, false, false, "its input gradient"},
    {128, 784, 256, true, false, true, "its weight gradient"},
    {1000, 777, 333, false, false, false, "odd"},
    {64, 128, 784, false, true, false, "dense 784 -> 128, batch 64"},
    {64, 10, 128, false, true, false, "dense 128 -> 10, batch 64"},
    {10, 128, 64, true, false, true, "its weight gradient"},
    {32, 32, 10, false, false, false, "small"},
    {32, 10, 32, false, true, false, "small"},
    {2048, 2048, 2048, false, false, false, "2048^3"},
};

typedef struct stopwatch {
    double wall, cpu;
} stopwatch;

static double peak_wall, peak_cpu; /* flops a second, of all cores */

static void
must(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "bench_matmul: %s\n", yoke_last_error());
    exit(1);
}

static stopwatch
start(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (stopwatch){yki_now(), (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
}

static stopwatch
since(stopwatch from)
{
    stopwatch now = start();

    return (stopwatch){now.wall - from.wall, now.cpu - from.cpu};
}

static void
measure_peak(yki_queue *queue)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));
    uint32_t lanes = traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;
    int32_t steps = 1 << 20;
    yki_grid grid = {{traits->compute_units, 1, 1}, {1, 1, 1}};
    yki_program *program;
    yki_kernel *kernel;
    yki_buffer *buffer;
    char options[96];

    snprintf(options, sizeof options, "-Dfloatw=float%u -Dstorew=vstore%u", lanes, lanes);
    must(yki_program_get_source(yki_queue_device(queue), "peak", peak_source, options, &program));
    must(yki_kernel_create(program, "peak", &kernel));
    yki_program_release(program);
    must(yki_buffer_create(yki_queue_device(queue), 64ull * (traits->compute_units + 1), 0, "peak",
                           &buffer));
    must(yki_buffer_touch(queue, buffer));
    must(yki_kernel_set_buffer(kernel, 0, buffer));
    must(yki_kernel_set(kernel, 1, sizeof steps, &steps));
    for (int i = 0; i < 8; i++) {
        stopwatch watch = start();
        double flops = 2.0 * 12 * lanes * steps * traits->compute_units;

        must(yki_queue_launch(queue, kernel, &grid, YKI_NO_WAIT, NULL));
        must(yki_queue_finish(queue));
        watch = since(watch);
        if (i == 0)
            continue;
        peak_wall = YKI_MAX(peak_wall, flops / watch.wall);
        peak_cpu = YKI_MAX(peak_cpu, flops / watch.cpu * traits->compute_units);
    }
    printf("multiply-add peak: %.1f GFLOP/s (%.1f by processor time)\n", peak_wall / 1e9,
           peak_cpu / 1e9);
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(buffer);
}

/* The problem that a graph would have: samples are rows where they can be. */
static yki_problem
problem_of(const shape *s)
{
    yki_matmul_attrs attrs = {.transpose_a = s->ta, .transpose_b = s->tb, .sum_batch = s->sum};
    yki_problem p = {.op = &yki_op_matmul, .input_count = 2, .max_batch = 1};
    yoke_shape a = s->ta ? yoke_shape(2, s->k, s->m) : yoke_shape(2, s->m, s->k);

    memcpy(p.attrs.bytes, &attrs, sizeof attrs);
    p.in[0] = p.in[1] = p.out = (yki_operand){.type = YOKE_F32, .layout = YKI_PLAIN};
    p.in[1].shape = s->tb ? yoke_shape(2, s->n, s->k) : yoke_shape(2, s->k, s->n);
    p.in[0].shape = a;
    p.out.shape = yoke_shape(2, s->m, s->n);
    if (s->sum) { /* (batch, m) and (batch, n) */
        p.max_batch = s->k;
        p.in[0].batched = p.in[1].batched = true;
        p.in[0].shape = yoke_shape(1, s->m);
        p.in[1].shape = yoke_shape(1, s->n);
    } else if (!s->ta) {
        p.max_batch = s->m;
        p.in[0].batched = p.out.batched = true;
        p.in[0].shape = yoke_shape(1, s->k);
        p.out.shape = yoke_shape(1, s->n);
    }
    return p;
}

static yki_buffer *
operand(yki_queue *queue, const yki_operand *operand, int64_t n, uint32_t stream)
{
    int64_t count = yki_operand_count(operand, n);
    float *values = yki_alloc((size_t)count, sizeof *values, "an operand");
    yki_buffer *buffer;

    must(values ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)((i * 2654435761u + stream) % 1000) / 1000.0f - 0.5f;
    must(yki_buffer_create(yki_queue_device(queue), (uint64_t)count * 4, 0, "an operand", &buffer));
    must(yki_buffer_touch(queue, buffer));
    must(yki_buffer_put(buffer, 0, (uint64_t)count * 4, values));
    yki_free(values);
    return buffer;
}

static void
bench(yki_queue *queue, const shape *s, const yki_solver *solver, unsigned tuning, int repeats)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));
    yki_problem p = problem_of(s);
    double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    double wall = 0, queued = 0, cpu = 0;
    int in_a_row = YKI_MAX(1, YKI_MIN(200, (int)(5e7 / flops)));
    yki_buffer *buffers[3];
    yki_runner *runner;
    yki_recipe recipe;

    must(solver->emit(&p, traits, tuning, &recipe));
    buffers[0] = operand(queue, &p.in[0], p.max_batch, 1);
    buffers[1] = operand(queue, &p.in[1], p.max_batch, 2);
    buffers[2] = operand(queue, &p.out, p.max_batch, 3);
    must(yki_runner_create(queue, &p, &recipe, buffers, NULL, &runner));
    must(yki_runner_enqueue(runner, YKI_PHASE_PREPARE, p.max_batch, NULL));
    for (int r = 0; r <= repeats; r++) {
        stopwatch watch = start();

        must(yki_runner_enqueue(runner, YKI_PHASE_RUN, p.max_batch, NULL));
        must(yki_queue_finish(queue));
        watch = since(watch);
        wall = r == 0 ? 0 : YKI_MAX(wall, flops / watch.wall);
        watch = start();
        for (int i = 0; i < in_a_row; i++)
            must(yki_runner_enqueue(runner, YKI_PHASE_RUN, p.max_batch, NULL));
        must(yki_queue_finish(queue));
        watch = since(watch);
        queued = r == 0 ? 0 : YKI_MAX(queued, in_a_row * flops / watch.wall);
        cpu = r == 0 ? 0 : YKI_MAX(cpu, in_a_row * flops / watch.cpu * traits->compute_units);
    }
    printf("%5d %5d %5d %c%c  %-14s %2u  %7.1f GFLOP/s  wall %.3f  queued %.3f  cpu %.3f  "
           "%9.1f us  %s\n",
           (int)s->m, (int)s->n, (int)s->k, s->ta ? 't' : 'n', s->tb ? 't' : 'n', solver->name,
           tuning, queued / 1e9, wall / peak_wall, queued / peak_wall, cpu / peak_cpu,
           flops / queued * 1e6, s->what);
    fflush(stdout);
    yki_runner_destroy(runner);
    yki_recipe_clear(&recipe);
    for (int i = 0; i < 3; i++)
        yki_buffer_destroy(buffers[i]);
}

int
main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "gemm-cpu";
    int repeats = argc > 2 ? atoi(argv[2]) : 10;
    yoke_selection *selection;
    yoke_context *context;
    yki_queue *queue;

    must(yoke_context_create(NULL, &context));
    must(yoke_selection_create(context, NULL, NULL, &selection));
    must(yki_queue_create(yoke_selection_get(selection, 0), YKI_QUEUE_COMPUTE, false, &queue));
    measure_peak(queue);
    for (size_t i = 0; i < YKI_COUNT(shapes); i++)
        for (const yki_solver *const *solver = yki_solvers; *solver; solver++) {
            const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));
            yki_problem p = problem_of(&shapes[i]);
            unsigned tunings;

            if (*(*solver)->op != &yki_op_matmul || !strstr((*solver)->name, only) ||
                !(*solver)->applies(&p, traits))
                continue;
            tunings = (*solver)->tunings ? (*solver)->tunings(&p, traits) : 1;
            for (unsigned t = 0; t < tunings; t++)
                bench(queue, &shapes[i], *solver, t, repeats);
        }
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return 0;
}

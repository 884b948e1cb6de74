/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_winograd.c - for who works on the convolution kernels: solvers and tunings
 * of 3x3 layers in all three directions, as multiples of the multiply-add peak of
 * the same run (1 is the most a direct convolution can reach). Built, not run.
 *
 *   bench_winograd [solver-name-part [rounds [layer]]]     YOKE_DEVICES picks the device
 *
 * Where other work disturbs the machine only the best of many runs says anything:
 * each round runs the peak and every case once, and the best of each is kept.
 * PREPARE (weights transformed, once a step in training) is timed by itself. "cpu"
 * compares processor time with that of the peak, which other work disturbs less (on
 * CPU devices).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "op/ops.h"

enum { MAX_CASES = 256 };

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

typedef struct layer {
    int64_t channels, size;
} layer;

static const layer layers[] = {{64, 32}, {128, 16}, {256, 8}, {512, 4}, {64, 56}, {256, 14}};
static const yki_op *const ops[] = {&yki_op_conv2d, &yki_op_conv2d_grad_input,
                                    &yki_op_conv2d_grad_weight};

typedef struct bench_case {
    const layer *layer;
    const yki_solver *solver;
    unsigned tuning;
    double flops, seconds, cpu, prepare; /* the least of all runs */
    yki_problem problem;
    yki_recipe recipe;
    yki_runner *runner;
    yki_buffer *buffers[3];
} bench_case;

static bench_case cases[MAX_CASES];
static size_t case_count;

static void
must(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "bench_winograd: %s\n", yoke_last_error());
    exit(1);
}

/* Of all threads of the process. */
static double
cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static yki_kernel *
peak_kernel(yki_queue *queue, int32_t steps, yki_buffer **buffer, double *flops)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));
    uint32_t lanes = traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;
    yki_program *program;
    yki_kernel *kernel;
    char options[96];

    snprintf(options, sizeof options, "-Dfloatw=float%u -Dstorew=vstore%u", lanes, lanes);
    must(yki_program_get_source(yki_queue_device(queue), "peak", peak_source, options, &program));
    must(yki_kernel_create(program, "peak", &kernel));
    yki_program_release(program);
    must(yki_buffer_create(yki_queue_device(queue), 64ull * (traits->compute_units + 1), 0, "peak",
                           buffer));
    must(yki_buffer_touch(queue, *buffer));
    must(yki_kernel_set_buffer(kernel, 0, *buffer));
    must(yki_kernel_set(kernel, 1, sizeof steps, &steps));
    *flops = 2.0 * 12 * lanes * steps * traits->compute_units;
    return kernel;
}

static yki_problem
problem_of(const layer *l, const yki_op *op, int64_t batch)
{
    yki_conv_attrs attrs = {
        .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}, .groups = 1};
    yki_problem p = {.op = op, .input_count = 2, .max_batch = batch};
    yki_operand image = {.type = YOKE_F32,
                         .shape = yoke_shape(3, l->channels, l->size, l->size),
                         .batched = true,
                         .layout = YKI_PLAIN};
    yki_operand weight = {.type = YOKE_F32,
                          .shape = yoke_shape(4, l->channels, l->channels, 3, 3),
                          .layout = YKI_PLAIN};

    if (op == &yki_op_conv2d_grad_input)
        attrs.size[0] = attrs.size[1] = (int32_t)l->size;
    memcpy(p.attrs.bytes, &attrs, sizeof attrs);
    p.in[0] = p.in[1] = p.out = image;
    if (op == &yki_op_conv2d_grad_weight)
        p.out = weight;
    else
        p.in[1] = weight;
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
add_cases(yki_queue *queue, const layer *l, const yki_op *op, const char *only)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));

    for (const yki_solver *const *s = yki_solvers; *s; s++) {
        yki_problem p = problem_of(l, op, 32);
        unsigned tunings;

        if (*(*s)->op != op || !strstr((*s)->name, only) ||
            ((*s)->layouts && !(*s)->layouts(&p, traits, 0)) || !(*s)->applies(&p, traits))
            continue;
        tunings = (*s)->tunings ? (*s)->tunings(&p, traits) : 1;
        for (unsigned t = 0; t < tunings && case_count < MAX_CASES; t++) {
            bench_case *c = &cases[case_count++];

            c->layer = l;
            c->solver = *s;
            c->tuning = t;
            c->problem = p;
            c->seconds = c->cpu = c->prepare = 1e9;
            c->flops = 2.0 * 9 * 32 * (double)(l->channels * l->channels * l->size * l->size);
            must((*s)->emit(&c->problem, traits, t, &c->recipe));
            for (uint32_t i = 0; i < 3; i++)
                c->buffers[i] = operand(queue, i < 2 ? &p.in[i] : &p.out, 32, i);
            must(yki_runner_create(queue, &c->problem, &c->recipe, c->buffers, NULL, &c->runner));
        }
    }
}

static void
run_case(yki_queue *queue, bench_case *c)
{
    double start = yki_now();

    must(yki_runner_enqueue(c->runner, YKI_PHASE_PREPARE, 32, NULL));
    must(yki_queue_finish(queue));
    c->prepare = YKI_MIN(c->prepare, yki_now() - start);
    for (int i = 0; i < 2; i++) {
        double cpu = cpu_now();

        start = yki_now();
        must(yki_runner_enqueue(c->runner, YKI_PHASE_RUN, 32, NULL));
        must(yki_queue_finish(queue));
        c->seconds = YKI_MIN(c->seconds, yki_now() - start);
        c->cpu = YKI_MIN(c->cpu, cpu_now() - cpu);
    }
}

int
main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "winograd";
    int rounds = argc > 2 ? atoi(argv[2]) : 20, one = argc > 3 ? atoi(argv[3]) : -1;
    yki_grid grid = {{1, 1, 1}, {1, 1, 1}};
    yoke_selection *selection;
    yoke_context *context;
    yki_queue *queue;
    yki_kernel *peak;
    yki_buffer *buffer;
    double flops, best = 0, best_cpu = 0;
    int units;

    must(yoke_context_create(NULL, &context));
    must(yoke_selection_create(context, NULL, NULL, &selection));
    must(yki_queue_create(yoke_selection_get(selection, 0), YKI_QUEUE_COMPUTE, false, &queue));
    units = (int)yki_device_get_traits(yki_queue_device(queue))->compute_units;
    grid.groups[0] = (size_t)units;
    peak = peak_kernel(queue, 1 << 18, &buffer, &flops);
    for (size_t o = 0; o < YKI_COUNT(ops); o++)
        for (size_t l = 0; l < YKI_COUNT(layers); l++)
            if (one < 0 || (size_t)one == l)
                add_cases(queue, &layers[l], ops[o], only);
    for (int r = 0; r <= rounds; r++)
        for (size_t i = 0; i < case_count; i++) {
            double start = yki_now(), cpu = cpu_now();

            must(yki_queue_launch(queue, peak, &grid, YKI_NO_WAIT, NULL));
            must(yki_queue_finish(queue));
            best = YKI_MAX(best, flops / (yki_now() - start));
            best_cpu = YKI_MAX(best_cpu, flops / (cpu_now() - cpu) * units);
            run_case(queue, &cases[i]);
        }
    printf("multiply-add peak: %.1f GFLOP/s, %.1f by processor time\n", best / 1e9, best_cpu / 1e9);
    for (size_t i = 0; i < case_count; i++) {
        const bench_case *c = &cases[i];

        printf("%4d ch %2dx%-2d  %-30s %2u  %7.1f GFLOP/s  %.2f of peak  cpu %.2f  "
               "%8.1f us  prepare %8.1f us\n",
               (int)c->layer->channels, (int)c->layer->size, (int)c->layer->size, c->solver->name,
               c->tuning, c->flops / c->seconds / 1e9, c->flops / c->seconds / best,
               c->flops / c->cpu * units / best_cpu, c->seconds * 1e6, c->prepare * 1e6);
        yki_runner_destroy(c->runner);
        yki_recipe_clear(&cases[i].recipe);
        for (int k = 0; k < 3; k++)
            yki_buffer_destroy(c->buffers[k]);
    }
    yki_kernel_destroy(peak);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return 0;
}

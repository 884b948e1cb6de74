/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_conv.c - measures every solver of convolutions on chosen shapes, beside
 * the peak rate of multiply-adds measured in the same run. For developers: built
 * by `make check`, not run by it. Beside the wall clock stands the processor time
 * that all threads used, whose fraction of the peak also holds on a busy machine
 * (but does not show work that is shared badly).
 *
 *   bench_conv [-n batch] [-o f|i|w] [-s solver] [-d device] C H W filters k stride pad groups ...
 *
 * Without shapes: those of the table.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "op/ops.h"

enum { REPEATS = 9 };

typedef struct shape {
    int c, h, w, filters, k, stride, pad, groups;
} shape;

static const shape table[] = {
    {64, 32, 32, 64, 3, 1, 1, 1},   {128, 16, 16, 128, 3, 1, 1, 1}, {256, 8, 8, 256, 3, 1, 1, 1},
    {512, 4, 4, 512, 3, 1, 1, 1},   {64, 32, 32, 64, 1, 1, 0, 1},   {64, 32, 32, 128, 3, 2, 1, 1},
    {128, 16, 16, 256, 3, 2, 1, 1}, {64, 32, 32, 128, 1, 2, 0, 1},  {64, 32, 32, 64, 3, 1, 1, 64},
    {3, 32, 32, 64, 3, 1, 1, 1},    {20, 12, 12, 50, 5, 1, 0, 1},   {1, 28, 28, 6, 5, 1, 2, 1},
    {64, 7, 7, 64, 3, 1, 1, 1},     {128, 13, 13, 128, 3, 1, 1, 1}};

static const char peak_source[] =
    "#define R(a) a = fma(a, m, c);\n"
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void peak(__global float *out, int "
    "n)\n"
    "{\n"
    "    floatv m = 0.9999f + out[0], c = 0.0001f + out[1];\n"
    "    floatv a0 = 1, a1 = 2, a2 = 3, a3 = 4, a4 = 5, a5 = 6, a6 = 7, a7 = 8, a8 = 9, a9 = 10,\n"
    "        aa = 11, ab = 12, ac = 13, ad = 14, ae = 15, af = 16;\n"
    "    for (int i = 0; i < n; i++) {\n"
    "        R(a0) R(a1) R(a2) R(a3) R(a4) R(a5) R(a6) R(a7)\n"
    "        R(a8) R(a9) R(aa) R(ab) R(ac) R(ad) R(ae) R(af)\n"
    "    }\n"
    "    a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + aa + ab + ac + ad + ae + af;\n"
    "    for (int l = 0; l < LANES; l++)\n"
    "        out[16 + get_group_id(0) * LANES + l] = ((float *)&a0)[l];\n"
    "}\n";

static void
must(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "bench_conv: %s: %s\n", yoke_status_name(status), yoke_last_error());
    exit(1);
}

static int
ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Wall clock, and processor time of all threads, in seconds. */
typedef struct moment {
    double wall, processor;
} moment;

static moment
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (moment){yki_now(), (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
}

/* Multiply-adds per second, times two: of all units, and of one by processor time. */
static moment
measure_peak(yki_queue *queue)
{
    yoke_device *device = yki_queue_device(queue);
    const yki_device_traits *traits = yki_device_get_traits(device);
    unsigned lanes = traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;
    unsigned groups = traits->compute_units * (traits->type == YOKE_DEVICE_CPU ? 1 : 4096);
    char options[80];
    const float zeros[16] = {0};
    yki_program *program;
    yki_kernel *kernel;
    yki_buffer *out;
    int32_t loops = 1 << 20;
    double wall[REPEATS], processor[REPEATS], flops;

    snprintf(options, sizeof options, "-DLANES=%u -Dfloatv=float%u", lanes, lanes);
    must(yki_program_get_source(device, "peak", peak_source, options, &program));
    must(yki_kernel_create(program, "peak", &kernel));
    yki_program_release(program);
    must(yki_buffer_create(device, 4 * (16 + (uint64_t)groups * lanes), 0, "peak", &out));
    must(yki_buffer_put(out, 0, sizeof zeros, zeros));
    if (traits->type != YOKE_DEVICE_CPU)
        loops = 1 << 12;
    must(yki_kernel_set_buffer(kernel, 0, out));
    must(yki_kernel_set(kernel, 1, sizeof loops, &loops));
    for (int i = -1; i < REPEATS; i++) {
        moment start = now();

        must(yki_queue_launch(queue, kernel, &(yki_grid){{groups, 1, 1}, {1, 1, 1}}, YKI_NO_WAIT,
                              NULL));
        must(yki_queue_finish(queue));
        if (i >= 0) {
            wall[i] = now().wall - start.wall;
            processor[i] = now().processor - start.processor;
        }
    }
    qsort(wall, REPEATS, sizeof *wall, ascending);
    qsort(processor, REPEATS, sizeof *processor, ascending);
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(out);
    flops = 2.0 * 16 * lanes * loops * groups;
    return (moment){flops / wall[REPEATS / 2], flops / processor[REPEATS / 2]};
}

static const char copy_source[] =
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void copy(\n"
    "    __global const floatv *in, __global floatv *out, int n)\n"
    "{\n"
    "    long g = get_group_id(0), all = get_num_groups(0);\n"
    "    for (long i = n * g / all; i < n * (g + 1) / all; i++)\n"
    "        out[i] = in[i] * 1.5f;\n"
    "}\n";

/* Bytes read and written per second by a copy far beyond the caches: of all units, and of one by
 * processor time. */
static moment
measure_copy(yki_queue *queue)
{
    enum { BYTES = 64 << 20 };
    yoke_device *device = yki_queue_device(queue);
    yki_program *program;
    yki_kernel *kernel;
    yki_buffer *in, *out;
    int32_t count = BYTES / 64;
    double wall[REPEATS], processor[REPEATS];

    must(yki_program_get_source(device, "copy", copy_source, "-Dfloatv=float16", &program));
    must(yki_kernel_create(program, "copy", &kernel));
    yki_program_release(program);
    must(yki_buffer_create(device, BYTES, 0, "copy", &in));
    must(yki_buffer_create(device, BYTES, 0, "copy", &out));
    must(yki_buffer_touch(queue, in));
    must(yki_kernel_set_buffer(kernel, 0, in));
    must(yki_kernel_set_buffer(kernel, 1, out));
    must(yki_kernel_set(kernel, 2, sizeof count, &count));
    for (int i = -1; i < REPEATS; i++) {
        moment start = now();

        must(
            yki_queue_launch(queue, kernel, &(yki_grid){{64, 1, 1}, {1, 1, 1}}, YKI_NO_WAIT, NULL));
        must(yki_queue_finish(queue));
        if (i >= 0) {
            wall[i] = now().wall - start.wall;
            processor[i] = now().processor - start.processor;
        }
    }
    qsort(wall, REPEATS, sizeof *wall, ascending);
    qsort(processor, REPEATS, sizeof *processor, ascending);
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(in);
    yki_buffer_destroy(out);
    return (moment){2.0 * BYTES / wall[REPEATS / 2], 2.0 * BYTES / processor[REPEATS / 2]};
}

/* Medians of a recipe's RUN phase: seconds, processor seconds; and of PREPARE. */
static void
measure(yki_queue *queue, const yki_problem *problem, const yki_recipe *recipe, double out[3])
{
    yoke_device *device = yki_queue_device(queue);
    yki_buffer *operands[YKI_MAX_INPUTS + 1];
    yki_runner *runner;
    double wall[REPEATS], processor[REPEATS], prepare[REPEATS];

    for (uint32_t i = 0; i <= problem->input_count; i++) {
        const yki_operand *operand = i < problem->input_count ? &problem->in[i] : &problem->out;
        int64_t count = yki_operand_count(operand, problem->max_batch);
        float *data = yki_alloc((size_t)count, sizeof *data, "test data");

        if (!data)
            exit(1);
        for (int64_t k = 0; k < count; k++)
            data[k] = (float)((k * 2654435761u >> 8) & 1023) / 1024.f - 0.5f;
        must(yki_buffer_create(device, (uint64_t)count * 4, 0, "an operand", &operands[i]));
        must(yki_buffer_put(operands[i], 0, (uint64_t)count * 4, data));
        yki_free(data);
    }
    must(yki_runner_create(queue, problem, recipe, operands, NULL, &runner));
    for (int i = -2; i < REPEATS; i++) {
        moment start = now(), middle, end;

        must(yki_runner_enqueue(runner, YKI_PHASE_PREPARE, problem->max_batch, NULL));
        must(yki_queue_finish(queue));
        middle = now();
        must(yki_runner_enqueue(runner, YKI_PHASE_RUN, problem->max_batch, NULL));
        must(yki_queue_finish(queue));
        end = now();
        if (i >= 0) {
            prepare[i] = middle.processor - start.processor;
            wall[i] = end.wall - middle.wall;
            processor[i] = end.processor - middle.processor;
        }
    }
    qsort(wall, REPEATS, sizeof *wall, ascending);
    qsort(processor, REPEATS, sizeof *processor, ascending);
    qsort(prepare, REPEATS, sizeof *prepare, ascending);
    out[0] = wall[REPEATS / 2];
    out[1] = processor[REPEATS / 2];
    out[2] = prepare[REPEATS / 2];
    yki_runner_destroy(runner);
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_buffer_destroy(operands[i]);
}

static void
bench_node(yki_queue *queue, const yoke_node *node, int batch, const char *only, moment peak,
           moment copy)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));

    for (const yki_solver *const *s = yki_solvers; *s; s++)
        for (unsigned variant = 0; *(*s)->op == node->op; variant++) {
            yki_problem problem;
            yki_recipe recipe;
            char text[YKI_PROBLEM_TEXT];

            yki_problem_of_node(node, batch, &problem);
            if ((*s)->layouts ? !(*s)->layouts(&problem, traits, variant) : variant > 0)
                break;
            if ((only && !strstr((*s)->name, only)) || !(*s)->applies(&problem, traits))
                continue;
            yki_problem_text(&problem, text, sizeof text);
            printf("%s\n", text);
            for (unsigned t = 0; t < ((*s)->tunings ? (*s)->tunings(&problem, traits) : 1); t++) {
                double seconds[3], flops,
                    bytes = (double)yki_operand_count(&problem.out, batch) * 4;

                must((*s)->emit(&problem, traits, t, &recipe));
                measure(queue, &problem, &recipe, seconds);
                yki_recipe_clear(&recipe);
                for (uint32_t i = 0; i < problem.input_count; i++)
                    bytes += (double)yki_operand_count(&problem.in[i], batch) * 4;
                flops = node->op->flops(node) * batch;
                printf("  %-28s %2u %8.3f ms %7.1f GFLOP/s %5.3f of peak %5.1f GB/s | by processor "
                       "time %5.3f of peak, %.3f of copy, prepare %.3f ms\n",
                       (*s)->name, t, seconds[0] * 1e3, flops / seconds[0] / 1e9,
                       flops / seconds[0] / peak.wall, bytes / seconds[0] / 1e9,
                       flops / seconds[1] / peak.processor, bytes / seconds[1] / copy.processor,
                       seconds[2] * 1e3);
                fflush(stdout);
            }
        }
}

static void
bench_shape(yki_queue *queue, const shape *s, int batch, const char *ops, const char *only)
{
    yoke_graph *graph;
    yoke_node *x, *y;
    moment peak = measure_peak(queue), copy = measure_copy(queue);

    must(yoke_graph_create(&graph));
    x = yoke_input(graph, "x", YOKE_F32, yoke_shape(3, s->c, s->h, s->w));
    y = yoke_conv2d(graph, x,
                    &(yoke_conv2d_options){.filters = s->filters,
                                           .kernel = {s->k, s->k},
                                           .stride = {s->stride, s->stride},
                                           .pad = {s->pad, s->pad},
                                           .groups = s->groups,
                                           .no_bias = true});
    must(yoke_graph_status(graph));
    printf("%d %dx%d -> %d, %dx%d s%d p%d g%d, batch %d; peak %.1f GFLOP/s, %.1f per unit; copy "
           "%.1f GB/s, %.1f per unit\n",
           s->c, s->h, s->w, s->filters, s->k, s->k, s->stride, s->pad, s->groups, batch,
           peak.wall / 1e9, peak.processor / 1e9, copy.wall / 1e9, copy.processor / 1e9);
    {
        yoke_node *dy = yoke_input(graph, "dy", YOKE_F32, y->shape);
        bool wanted[3] = {true, true, false};
        yoke_node *dx[3] = {NULL, NULL, NULL};

        must(y->op->gradient(y, dy, wanted, dx));
        must(yoke_graph_status(graph));
        if (strchr(ops, 'f'))
            bench_node(queue, y, batch, only, peak, copy);
        if (strchr(ops, 'i'))
            bench_node(queue, dx[0], batch, only, peak, copy);
        if (strchr(ops, 'w'))
            bench_node(queue, dx[1], batch, only, peak, copy);
    }
    yoke_graph_destroy(graph);
}

int
main(int argc, char **argv)
{
    const char *ops = "fiw", *only = NULL, *selector = "cpu:0";
    int batch = 32, option;
    yoke_context *context;
    yoke_selection *selection;
    yki_queue *queue;

    while ((option = getopt(argc, argv, "n:o:s:d:")) != -1)
        switch (option) {
        case 'n':
            batch = atoi(optarg);
            break;
        case 'o':
            ops = optarg;
            break;
        case 's':
            only = optarg;
            break;
        case 'd':
            selector = optarg;
            break;
        default:
            return 2;
        }
    must(yoke_context_create(NULL, &context));
    must(yoke_selection_create(context, selector, NULL, &selection));
    must(yki_queue_create(yoke_selection_get(selection, 0), YKI_QUEUE_COMPUTE, false, &queue));
    for (size_t i = 0; optind == argc && i < YKI_COUNT(table); i++)
        bench_shape(queue, &table[i], batch, ops, only);
    for (; optind + 8 <= argc; optind += 8) {
        int v[8];

        for (int i = 0; i < 8; i++)
            v[i] = atoi(argv[optind + i]);
        bench_shape(queue, &(shape){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]}, batch, ops,
                    only);
    }
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_conv.c - measures every solver of convolutions on chosen shapes, beside
 * the peak rate of multiply-adds measured in the same run. For developers: built
 * by `make check`, not run by it. Beside the wall clock stands the processor time
 * that all threads used, whose fraction of the peak also holds on a busy machine
 * (but does not show work that is shared badly).
 *
 *   bench_conv [-c] [-n batch] [-o f|i|w] [-s solver] [-d device] C H W filters k stride pad
 *              groups ...
 *
 * -c: as in canonical plans.
 *
 * Without shapes: those of its table.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/timing.h"

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

static int
ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(double *values)
{
    qsort(values, REPEATS, sizeof *values, ascending);
    return values[REPEATS / 2];
}

/* Medians of a run, and of the processor time of PREPARE; the bytes of all operands. */
static void
measure(yki_queue *queue, const yki_problem *problem, const yki_recipe *recipe, bench_time *run,
        double *prepare, double *bytes)
{
    yki_buffer *operands[YKI_MAX_INPUTS + 1];
    double wall[REPEATS], cpu[REPEATS], packing[REPEATS];
    yki_runner *runner;

    *bytes = 0;
    for (uint32_t i = 0; i <= problem->input_count; i++)
        operands[i] = bench_operand(queue, yki_problem_operand(problem, i), problem->max, i, bytes);
    bench_must(yki_runner_create(queue, problem, recipe, operands, NULL, &runner));
    for (int i = -2; i < REPEATS; i++) {
        bench_time start = bench_now(), packed, ran;

        bench_must(yki_runner_enqueue(runner, YKI_PHASE_PREPARE, problem->max, NULL));
        bench_must(yki_queue_finish(queue));
        packed = bench_since(start);
        start = bench_now();
        bench_must(yki_runner_enqueue(runner, YKI_PHASE_RUN, problem->max, NULL));
        bench_must(yki_queue_finish(queue));
        ran = bench_since(start);
        if (i >= 0) {
            packing[i] = packed.cpu;
            wall[i] = ran.wall;
            cpu[i] = ran.cpu;
        }
    }
    *run = (bench_time){median(wall), median(cpu)};
    *prepare = median(packing);
    yki_runner_destroy(runner);
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_buffer_destroy(operands[i]);
}

typedef struct limits {
    bench_time peak, copy;
} limits;

static void
bench_solver(const bench_device *d, const yoke_node *node, const yki_problem *problem,
             const yki_solver *solver, unsigned tuning, const limits *most)
{
    double flops = node->op->flops(node) * (double)problem->max.batch, prepare, bytes;
    yki_recipe recipe;
    bench_time run;

    bench_must(yki_solver_emit(solver, problem, d->traits, tuning, &recipe));
    measure(d->queue, problem, &recipe, &run, &prepare, &bytes);
    yki_recipe_clear(&recipe);
    printf("  %-28s %2u %8.3f ms %7.1f GFLOP/s %5.3f of peak %5.1f GB/s | by processor time %5.3f "
           "of peak, %.3f of copy, prepare %.3f ms\n",
           solver->name, tuning, run.wall * 1e3, flops / run.wall / 1e9,
           flops / run.wall / most->peak.wall, bytes / run.wall / 1e9,
           flops / run.cpu / most->peak.cpu, bytes / run.cpu / most->copy.cpu, prepare * 1e3);
    fflush(stdout);
}

static void
bench_node(const bench_device *d, const yoke_node *node, int batch, const char *only,
           const limits *most)
{
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        for (unsigned variant = 0; *(*s)->op == node->op; variant++) {
            yki_problem problem;
            char text[YKI_PROBLEM_TEXT];

            yki_problem_of_node(node, (yki_extents){.batch = batch}, &problem);
            if ((*s)->layouts ? !(*s)->layouts(&problem, d->traits, variant) : variant > 0)
                break;
            if ((only && !strstr((*s)->name, only)) || !(*s)->applies(&problem, d->traits) ||
                (d->traits->canonical && (*s)->canonical != YKI_CANONICAL_FREE))
                continue;
            yki_problem_text(&problem, text, sizeof text);
            printf("%s\n", text);
            for (unsigned t = 0; t < ((*s)->tunings ? (*s)->tunings(&problem, d->traits) : 1); t++)
                bench_solver(d, node, &problem, *s, t, most);
        }
}

static void
bench_shape(const bench_device *d, const shape *s, int batch, const char *ops, const char *only)
{
    const limits most = {bench_peak(d), bench_copy(d)};
    bool wanted[3] = {true, true, false};
    yoke_node *x, *y, *dy, *dx[3] = {NULL, NULL, NULL};
    yoke_graph *graph;

    bench_must(yoke_graph_create(&graph));
    x = yoke_input(graph, "x", YOKE_F32, yoke_shape(s->c, s->h, s->w));
    y = yoke_conv2d(graph, x,
                    &(yoke_conv2d_options){.filters = s->filters,
                                           .kernel = {s->k, s->k},
                                           .stride = {s->stride, s->stride},
                                           .pad = {s->pad, s->pad},
                                           .groups = s->groups,
                                           .no_bias = true});
    bench_must(yoke_graph_status(graph));
    printf("%d %dx%d -> %d, %dx%d s%d p%d g%d, batch %d; peak %.1f GFLOP/s, %.1f per unit; copy "
           "%.1f GB/s, %.1f per unit\n",
           s->c, s->h, s->w, s->filters, s->k, s->k, s->stride, s->pad, s->groups, batch,
           most.peak.wall / 1e9, most.peak.cpu / 1e9, most.copy.wall / 1e9, most.copy.cpu / 1e9);
    dy = yoke_input(graph, "dy", YOKE_F32, y->shape);
    bench_must(y->op->gradient(y, dy, wanted, dx));
    bench_must(yoke_graph_status(graph));
    if (strchr(ops, 'f'))
        bench_node(d, y, batch, only, &most);
    if (strchr(ops, 'i'))
        bench_node(d, dx[0], batch, only, &most);
    if (strchr(ops, 'w'))
        bench_node(d, dx[1], batch, only, &most);
    yoke_graph_destroy(graph);
}

int
main(int argc, char **argv)
{
    const char *ops = "fiw", *only = NULL, *selector = "cpu:0";
    int batch = 32, option;
    yki_device_traits traits;
    bool canonical = false;
    bench_device d;

    while ((option = getopt(argc, argv, "cn:o:s:d:")) != -1)
        switch (option) {
        case 'c':
            canonical = true;
            break;
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
    d = bench_open(selector);
    if (canonical) {
        yki_canonical_traits(d.traits, YKI_CANONICAL_FREE, &traits);
        d.traits = &traits;
    }
    for (size_t i = 0; optind == argc && i < YKI_COUNT(table); i++)
        bench_shape(&d, &table[i], batch, ops, only);
    for (; optind + 8 <= argc; optind += 8) {
        int v[8];

        for (int i = 0; i < 8; i++)
            v[i] = atoi(argv[optind + i]);
        bench_shape(&d, &(shape){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]}, batch, ops, only);
    }
    bench_close(&d);
    return 0;
}

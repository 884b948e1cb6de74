/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_norm.c - for who works on pooling and normalisation: bytes a second of every
 * solver and layout on a few layers, beside a copy and a sum in the same run. Built,
 * not run.
 *
 *   bench_norm [part of a solver's name]     YOKE_DEVICES picks the device
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/timing.h"

enum { REPEATS = 9, BATCH = 64 };

static void
measure(const bench_device *d, const yki_problem *problem, const yki_solver *solver)
{
    yki_buffer *operands[YKI_MAX_INPUTS + 1];
    bench_time least = BENCH_NEVER;
    yki_recipe recipe;
    yki_runner *runner;
    double bytes = 0;

    bench_must(solver->emit(problem, d->traits, 0, &recipe));
    for (uint32_t i = 0; i <= problem->input_count; i++)
        operands[i] =
            bench_operand(d->queue, yki_problem_operand(problem, i), problem->max, i, &bytes);
    bench_must(yki_runner_create(d->queue, problem, &recipe, operands, operands[0], &runner));
    for (int i = 0; i < REPEATS; i++) {
        bench_time start = bench_now();

        bench_must(yki_runner_enqueue(runner, YKI_PHASE_RUN, problem->max, NULL));
        bench_must(yki_queue_finish(d->queue));
        if (i > 0)
            bench_keep_least(&least, bench_since(start));
    }
    printf("%-24s /%-2u %9.1f us %7.2f GB/s, %7.2f GB per s of cpu  %s\n", solver->name,
           problem->in[0].layout.block, least.wall * 1e6, bytes / least.wall * 1e-9,
           bytes / least.cpu * 1e-9, problem->op->name);
    fflush(stdout);
    yki_runner_destroy(runner);
    yki_recipe_clear(&recipe);
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_buffer_destroy(operands[i]);
}

static void
measure_graph(const bench_device *d, yoke_graph *graph, const char *only)
{
    bench_must(yoke_graph_status(graph));
    for (size_t i = 0; i < graph->node_count; i++)
        for (const yki_solver *const *s = yki_solvers; *s && graph->nodes[i]->op; s++)
            for (unsigned variant = 0; *(*s)->op == graph->nodes[i]->op; variant++) {
                yki_problem problem;

                yki_problem_of_node(graph->nodes[i], (yki_extents){.batch = BATCH}, &problem);
                if ((*s)->layouts ? !(*s)->layouts(&problem, d->traits, variant) : variant > 0)
                    break;
                if ((*s)->applies(&problem, d->traits) && (!only || strstr((*s)->name, only)) &&
                    yki_operand_count(&problem.in[0], (yki_extents){.batch = 1}) > 1000)
                    measure(d, &problem, *s);
            }
    yoke_graph_destroy(graph);
}

/* All nodes of a layer and its gradients. */
static void
layer(const bench_device *d, int kind, yoke_shape shape, const char *only)
{
    const yoke_pool2d_options stem = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
    const yoke_pool2d_options pairs = {.kernel = {2, 2}};
    yoke_graph *g;
    yoke_node *x, *y, *dy;

    bench_must(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, shape);
    y = kind == 0   ? yoke_relu(g, yoke_add(g, x, x))
        : kind == 1 ? yoke_batch_norm(g, x, NULL)
        : kind == 2 ? yoke_maxpool2d(g, x, &stem)
        : kind == 3 ? yoke_maxpool2d(g, x, &pairs)
        : kind == 4 ? yoke_avgpool2d(g, x, &pairs)
        : kind == 5 ? yoke_global_avgpool(g, x)
                    : yoke_layer_norm(g, x, &(yoke_layer_norm_options){.axes = 1});
    bench_must(yoke_graph_status(g));
    dy = yoke_input(g, "dy", YOKE_F32, y->shape);
    if (kind)
        bench_must(yki_graph_differentiate_from(g, &yki_op_binary, y, dy, &x, 1));
    printf("-- batch %d of %lld x %lld x %lld\n", BATCH, (long long)shape.dim[0],
           (long long)shape.dim[1], (long long)(shape.rank > 2 ? shape.dim[2] : 1));
    measure_graph(d, g, only);
}

int
main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL, *devices = getenv("YOKE_DEVICES");
    bench_device d = bench_open(devices ? devices : "cpu:0");

    layer(&d, 0, yoke_shape(64, 56, 56), NULL);
    layer(&d, 1, yoke_shape(64, 56, 56), only);
    layer(&d, 1, yoke_shape(512, 14, 14), only);
    layer(&d, 2, yoke_shape(64, 112, 112), only);
    layer(&d, 3, yoke_shape(64, 56, 56), only);
    layer(&d, 4, yoke_shape(64, 56, 56), only);
    layer(&d, 5, yoke_shape(512, 28, 28), only);
    layer(&d, 6, yoke_shape(196, 768), only);
    bench_close(&d);
    return 0;
}

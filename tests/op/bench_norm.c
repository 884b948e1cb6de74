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
#include <time.h>

#include "op/ops.h"

enum { REPEATS = 9, BATCH = 64 };

typedef struct stopwatch {
    double wall, cpu; /* seconds; cpu: of all units, which other work disturbs less */
} stopwatch;

static void
must(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "bench_norm: %s\n", yoke_last_error());
    exit(1);
}

static double
cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static stopwatch
seconds_of(yki_runner *runner, yki_queue *queue)
{
    stopwatch best = {1e30, 1e30};

    for (int i = 0; i < REPEATS; i++) {
        double start = yki_now(), cpu = cpu_time();

        must(yki_runner_enqueue(runner, YKI_PHASE_RUN, BATCH, NULL));
        must(yki_queue_finish(queue));
        if (i == 0)
            continue;
        best.wall = YKI_MIN(best.wall, yki_now() - start);
        best.cpu = YKI_MIN(best.cpu, cpu_time() - cpu);
    }
    return best;
}

static void
measure(yki_queue *queue, const yki_problem *problem, const yki_solver *solver)
{
    yoke_device *device = yki_queue_device(queue);
    yki_buffer *operands[YKI_MAX_INPUTS + 1];
    yki_recipe recipe;
    yki_runner *runner;
    double bytes = 0;
    stopwatch seconds;

    must(solver->emit(problem, yki_device_get_traits(device), 0, &recipe));
    for (uint32_t i = 0; i <= problem->input_count; i++) {
        const yki_operand *o = i < problem->input_count ? &problem->in[i] : &problem->out;
        uint64_t size = (uint64_t)yki_operand_count(o, BATCH) * 4;
        float *values = malloc(size + 4);

        for (uint64_t k = 0; k < size / 4; k++)
            values[k] = (float)(k * 2654435761u % 1021) * 1e-3f + 0.1f;
        must(yki_buffer_create(device, size, 0, "an operand", &operands[i]));
        must(yki_buffer_touch(queue, operands[i]));
        must(yki_queue_finish(queue));
        must(yki_buffer_put(operands[i], 0, size, values));
        free(values);
        bytes += (double)size;
    }
    must(yki_runner_create(queue, problem, &recipe, operands, operands[0], &runner));
    seconds = seconds_of(runner, queue);
    printf("%-24s /%-2u %9.1f us %7.2f GB/s, %7.2f GB per s of cpu  %s\n", solver->name,
           problem->in[0].layout.block, seconds.wall * 1e6, bytes / seconds.wall * 1e-9,
           bytes / seconds.cpu * 1e-9, problem->op->name);
    fflush(stdout);
    yki_runner_destroy(runner);
    yki_recipe_clear(&recipe);
    for (uint32_t i = 0; i <= problem->input_count; i++)
        yki_buffer_destroy(operands[i]);
}

static void
measure_graph(yki_queue *queue, yoke_graph *graph, const char *only)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));

    must(yoke_graph_status(graph));
    for (size_t i = 0; i < graph->node_count; i++)
        for (const yki_solver *const *s = yki_solvers; *s && graph->nodes[i]->op; s++)
            for (unsigned variant = 0; *(*s)->op == graph->nodes[i]->op; variant++) {
                yki_problem problem;

                yki_problem_of_node(graph->nodes[i], BATCH, &problem);
                if ((*s)->layouts ? !(*s)->layouts(&problem, traits, variant) : variant > 0)
                    break;
                if ((*s)->applies(&problem, traits) && (!only || strstr((*s)->name, only)) &&
                    yki_operand_count(&problem.in[0], 1) > 1000)
                    measure(queue, &problem, *s);
            }
    yoke_graph_destroy(graph);
}

/* All nodes of a layer and its gradients. */
static void
layer(yki_queue *queue, int kind, yoke_shape shape, const char *only)
{
    const yoke_pool2d_options stem = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
    const yoke_pool2d_options pairs = {.kernel = {2, 2}};
    yoke_graph *g;
    yoke_node *x, *y, *dy;

    must(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, shape);
    y = kind == 0   ? yoke_relu(g, yoke_add(g, x, x))
        : kind == 1 ? yoke_batch_norm(g, x, NULL)
        : kind == 2 ? yoke_maxpool2d(g, x, &stem)
        : kind == 3 ? yoke_maxpool2d(g, x, &pairs)
        : kind == 4 ? yoke_avgpool2d(g, x, &pairs)
        : kind == 5 ? yoke_global_avgpool(g, x)
                    : yoke_layer_norm(g, x, &(yoke_layer_norm_options){.axes = 1});
    must(yoke_graph_status(g));
    dy = yoke_input(g, "dy", YOKE_F32, y->shape);
    if (kind)
        must(yki_graph_differentiate_from(g, &yki_op_binary, y, dy, &x, 1));
    printf("-- batch %d of %lld x %lld x %lld\n", BATCH, (long long)shape.dim[0],
           (long long)shape.dim[1], (long long)(shape.rank > 2 ? shape.dim[2] : 1));
    measure_graph(queue, g, only);
}

int
main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL, *devices = getenv("YOKE_DEVICES");
    yoke_context *context;
    yoke_selection *selection;
    yki_queue *queue;

    must(yoke_context_create(NULL, &context));
    must(yoke_selection_create(context, devices ? devices : "cpu:0", NULL, &selection));
    must(yki_queue_create(yoke_selection_get(selection, 0), YKI_QUEUE_COMPUTE, false, &queue));
    layer(queue, 0, yoke_shape(3, 64, 56, 56), NULL);
    layer(queue, 1, yoke_shape(3, 64, 56, 56), only);
    layer(queue, 1, yoke_shape(3, 512, 14, 14), only);
    layer(queue, 2, yoke_shape(3, 64, 112, 112), only);
    layer(queue, 3, yoke_shape(3, 64, 56, 56), only);
    layer(queue, 4, yoke_shape(3, 64, 56, 56), only);
    layer(queue, 5, yoke_shape(3, 512, 28, 28), only);
    layer(queue, 6, yoke_shape(2, 196, 768), only);
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return 0;
}

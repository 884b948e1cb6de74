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

#include "op/timing.h"

enum { MAX_CASES = 256, BATCH = 32 };

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
    double flops;
    bench_time run, prepare; /* the least of all runs */
    yki_problem problem;
    yki_recipe recipe;
    yki_runner *runner;
    yki_buffer *buffers[3];
} bench_case;

static bench_case cases[MAX_CASES];
static size_t case_count;

static yki_problem
problem_of(const layer *l, const yki_op *op, int64_t batch)
{
    yki_conv_attrs attrs = {
        .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}, .groups = 1};
    yki_problem p = {.op = op, .input_count = 2, .max.batch = batch};
    yki_operand image = {.type = YOKE_F32,
                         .shape = yoke_shape(l->channels, l->size, l->size),
                         .batched = true,
                         .layout = YKI_PLAIN};
    yki_operand weight = {
        .type = YOKE_F32, .shape = yoke_shape(l->channels, l->channels, 3, 3), .layout = YKI_PLAIN};

    if (op == &yki_op_conv2d_grad_input)
        attrs.size[0] = attrs.size[1] = (int32_t)l->size;
    yki_conv_attrs_set(&p.attrs, &attrs);
    p.in[0] = p.in[1] = p.out = image;
    if (op == &yki_op_conv2d_grad_weight)
        p.out = weight;
    else
        p.in[1] = weight;
    return p;
}

static void
add_cases(const bench_device *d, const layer *l, const yki_op *op, const char *only)
{
    for (const yki_solver *const *s = yki_solvers; *s; s++) {
        yki_problem p = problem_of(l, op, BATCH);
        unsigned tunings;

        if (*(*s)->op != op || !strstr((*s)->name, only) ||
            ((*s)->layouts && !(*s)->layouts(&p, d->traits, 0)) || !(*s)->applies(&p, d->traits))
            continue;
        tunings = (*s)->tunings ? (*s)->tunings(&p, d->traits) : 1;
        for (unsigned t = 0; t < tunings && case_count < MAX_CASES; t++) {
            bench_case *c = &cases[case_count++];

            c->layer = l;
            c->solver = *s;
            c->tuning = t;
            c->problem = p;
            c->run = c->prepare = BENCH_NEVER;
            c->flops = 2.0 * 9 * BATCH * (double)(l->channels * l->channels * l->size * l->size);
            bench_must((*s)->emit(&c->problem, d->traits, t, &c->recipe));
            for (uint32_t i = 0; i < 3; i++)
                c->buffers[i] = bench_operand(d->queue, i < 2 ? &p.in[i] : &p.out, p.max, i, NULL);
            bench_must(
                yki_runner_create(d->queue, &c->problem, &c->recipe, c->buffers, NULL, &c->runner));
        }
    }
}

static void
run_phase(yki_queue *queue, bench_case *c, yki_phase phase, bench_time *least)
{
    bench_time start = bench_now();

    bench_must(yki_runner_enqueue(c->runner, phase, c->problem.max, NULL));
    bench_must(yki_queue_finish(queue));
    bench_keep_least(least, bench_since(start));
}

static void
report(const bench_case *c, bench_time peak)
{
    printf("%4d ch %2dx%-2d  %-30s %2u  %7.1f GFLOP/s  %.2f of peak  cpu %.2f  "
           "%8.1f us  prepare %8.1f us\n",
           (int)c->layer->channels, (int)c->layer->size, (int)c->layer->size, c->solver->name,
           c->tuning, c->flops / c->run.wall / 1e9, c->flops / c->run.wall / peak.wall,
           c->flops / c->run.cpu / peak.cpu, c->run.wall * 1e6, c->prepare.wall * 1e6);
}

int
main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "winograd";
    int rounds = argc > 2 ? atoi(argv[2]) : 20, one = argc > 3 ? atoi(argv[3]) : -1;
    bench_device d = bench_open(NULL);
    bench_limit peak;

    bench_peak_open(&d, &peak);
    for (size_t o = 0; o < YKI_COUNT(ops); o++)
        for (size_t l = 0; l < YKI_COUNT(layers); l++)
            if (one < 0 || (size_t)one == l)
                add_cases(&d, &layers[l], ops[o], only);
    for (int r = 0; r <= rounds; r++)
        for (size_t i = 0; i < case_count; i++) {
            bench_limit_run(&peak, 1);
            run_phase(d.queue, &cases[i], YKI_PHASE_PREPARE, &cases[i].prepare);
            for (int k = 0; k < 2; k++)
                run_phase(d.queue, &cases[i], YKI_PHASE_RUN, &cases[i].run);
        }
    printf("multiply-add peak: %.1f GFLOP/s, %.1f a unit by processor time\n", peak.most.wall / 1e9,
           peak.most.cpu / 1e9);
    for (size_t i = 0; i < case_count; i++) {
        report(&cases[i], peak.most);
        yki_runner_destroy(cases[i].runner);
        yki_recipe_clear(&cases[i].recipe);
        for (int k = 0; k < 3; k++)
            yki_buffer_destroy(cases[i].buffers[k]);
    }
    bench_limit_close(&peak);
    bench_close(&d);
    return 0;
}

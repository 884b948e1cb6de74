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

#include "op/timing.h"

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

/* The problem that a graph would have: samples are rows where they can be. */
static yki_problem
problem_of(const shape *s)
{
    yki_matmul_attrs attrs = {.transpose_a = s->ta, .transpose_b = s->tb, .sum_batch = s->sum};
    yki_problem p = {.op = &yki_op_matmul, .input_count = 2, .max.batch = 1};
    yoke_shape a = s->ta ? yoke_shape(s->k, s->m) : yoke_shape(s->m, s->k);

    yki_matmul_attrs_set(&p.attrs, &attrs);
    p.in[0] = p.in[1] = p.out = (yki_operand){.type = YOKE_F32, .layout = YKI_PLAIN};
    p.in[1].shape = s->tb ? yoke_shape(s->n, s->k) : yoke_shape(s->k, s->n);
    p.in[0].shape = a;
    p.out.shape = yoke_shape(s->m, s->n);
    if (s->sum) { /* (batch, m) and (batch, n) */
        p.max.batch = s->k;
        p.in[0].batched = p.in[1].batched = true;
        p.in[0].shape = yoke_shape(s->m);
        p.in[1].shape = yoke_shape(s->n);
    } else if (!s->ta) {
        p.max.batch = s->m;
        p.in[0].batched = p.out.batched = true;
        p.in[0].shape = yoke_shape(s->k);
        p.out.shape = yoke_shape(s->n);
    }
    return p;
}

static void
bench(const bench_device *d, bench_time peak, const shape *s, const yki_solver *solver,
      unsigned tuning, int repeats)
{
    yki_problem p = problem_of(s);
    double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    bench_time waited = BENCH_NEVER, queued = BENCH_NEVER;
    int in_a_row = YKI_MAX(1, YKI_MIN(200, (int)(5e7 / flops)));
    yki_buffer *buffers[3];
    yki_runner *runner;
    yki_recipe recipe;

    bench_must(yki_solver_emit(solver, &p, d->traits, tuning, &recipe));
    for (uint32_t i = 0; i < 3; i++)
        buffers[i] = bench_operand(d->queue, i < 2 ? &p.in[i] : &p.out, p.max, i + 1, NULL);
    bench_must(yki_runner_create(d->queue, &p, &recipe, buffers, NULL, &runner));
    bench_must(yki_runner_enqueue(runner, YKI_PHASE_PREPARE, p.max, NULL));
    for (int r = 0; r <= repeats; r++) {
        bench_time watch = bench_now();

        bench_must(yki_runner_enqueue(runner, YKI_PHASE_RUN, p.max, NULL));
        bench_must(yki_queue_finish(d->queue));
        if (r > 0)
            bench_keep_least(&waited, bench_since(watch));
        watch = bench_now();
        for (int i = 0; i < in_a_row; i++)
            bench_must(yki_runner_enqueue(runner, YKI_PHASE_RUN, p.max, NULL));
        bench_must(yki_queue_finish(d->queue));
        if (r > 0)
            bench_keep_least(&queued, bench_since(watch));
    }
    queued.wall /= in_a_row;
    queued.cpu /= in_a_row;
    printf("%5d %5d %5d %c%c  %-14s %2u  %7.1f GFLOP/s  wall %.3f  queued %.3f  cpu %.3f  "
           "%9.1f us  %s\n",
           (int)s->m, (int)s->n, (int)s->k, s->ta ? 't' : 'n', s->tb ? 't' : 'n', solver->name,
           tuning, flops / queued.wall / 1e9, flops / waited.wall / peak.wall,
           flops / queued.wall / peak.wall, flops / queued.cpu / peak.cpu, queued.wall * 1e6,
           s->what);
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
    bench_device d = bench_open(NULL);
    bench_time peak = bench_peak(&d);

    printf("multiply-add peak: %.1f GFLOP/s (%.1f a unit by processor time)\n", peak.wall / 1e9,
           peak.cpu / 1e9);
    for (size_t i = 0; i < YKI_COUNT(shapes); i++)
        for (const yki_solver *const *solver = yki_solvers; *solver; solver++) {
            yki_problem p = problem_of(&shapes[i]);
            unsigned tunings;

            if (*(*solver)->op != &yki_op_matmul || !strstr((*solver)->name, only) ||
                !(*solver)->applies(&p, d.traits))
                continue;
            tunings = (*solver)->tunings ? (*solver)->tunings(&p, d.traits) : 1;
            for (unsigned t = 0; t < tunings; t++)
                bench(&d, peak, &shapes[i], *solver, t, repeats);
        }
    bench_close(&d);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fusing.h - plans a network in two ways and runs both on the same numbers.
 */
#ifndef TEST_FUSING_H
#define TEST_FUSING_H

#include "plan/plan.h"

enum { NO_CPU = 2 };

typedef struct fusing_side {
    yki_weights *weights;
    yki_queue *queue;
    yki_plan *plan;
} fusing_side;

typedef struct fusing_expected {
    const char *solver; /* of the fused task; NULL: none */
    unsigned tasks;     /* how many of them */
    unsigned removed;   /* tasks fewer than without fusions, at least */
    double tolerance;
    int64_t batch; /* the largest */
    int cpu;       /* 1: only CPUs with vectors have it; NO_CPU: only other devices */
} fusing_expected;

void fusing_create(fusing_side *side, yoke_device *device, yoke_graph *graph,
                   const yki_plan_options *options);
/* The same of a plan by estimate, strict. */
void fusing_open(fusing_side *side, yoke_device *device, yoke_graph *graph, int64_t batch,
                 bool training, bool no_fusion);
void fusing_close(fusing_side *side);
/* Runs both for these batches, compares what they leave, and destroys them. Tolerance 0: the same
 * bits. */
void fusing_compare(fusing_side *one, fusing_side *other, const int64_t *batches, size_t count,
                    double tolerance);
/* How many tasks of a plan a solver has. */
unsigned fusing_tasks(const yki_plan *plan, const char *solver);
/* Calls `check` for each device of the test. */
void fusing_each(yoke_graph *graph,
                 void (*check)(yoke_device *device, yoke_graph *graph, const void *with),
                 const void *with);
/* With and without fusions, on each device. Destroys the graph. */
void fusing_check(yoke_graph *graph, bool training, const fusing_expected *expected);

#endif

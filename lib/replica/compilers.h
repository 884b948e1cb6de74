/* SPDX-License-Identifier: Apache-2.0
 *
 * compilers.h - processes that compile a plan's kernels beside this one.
 */
#ifndef YKI_COMPILERS_H
#define YKI_COMPILERS_H

#include <sys/types.h>

#include "plan/plan.h"

/* What a compiler process finds in its standard input, which is shared memory. */
typedef struct yki_compile_job {
    yki_claims claims;
    pid_t parent; /* without whom nobody wants the kernels */
    char text[];  /* JSON: the graph, the device, the options of the plan */
} yki_compile_job;

typedef struct yki_compilers yki_compilers;

/* Makes what plans of this graph on this device rehearse with. Nothing is started yet. */
yoke_status yki_compilers_create(yoke_device *device, yoke_graph *graph, yki_compilers **compilers);
const yki_rehearsal *yki_compilers_rehearsal(const yki_compilers *compilers);
void yki_compilers_destroy(yki_compilers *compilers); /* NULL is fine */

/* How many processes are started: by cores, and by memory that is free. */
size_t yki_compilers_wanted(void);
/* Seconds for which a plan waits for what they compile at the end. */
extern double yki_compilers_patience;

/* The fields of plans' options that a job has, so that both sides have the same. `X(kind, name)`.
 */
#define YKI_COMPILE_OPTIONS(X)                                                                     \
    X(bool, strict)                                                                                \
    X(bool, scales_loss)                                                                           \
    X(bool, team)                                                                                  \
    X(bool, repeats)                                                                               \
    X(bool, late_sums)                                                                             \
    X(uint32_t, lag)

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * alone.h - runs one operator over buffers of its own, small, so that Oclgrind looks at its kernels
 * too (within plans it loses track of memory, docs/drivers.md).
 */
#ifndef TEST_ALONE_H
#define TEST_ALONE_H

#include "op/harness.h"

/* The device, from alone_open to alone_close. */
extern yki_queue *alone_queue;
extern yki_device_traits alone_traits;
/* NULL, or a part of the name of the solvers to try. */
extern const char *alone_only;
/* Whether the last solver is tried instead of the first. */
extern bool alone_last;

void alone_open(void);
void alone_close(void);

/* Whether kernels that only CPUs have can be run; a simulator looks at them as well, with so many
 * lanes. */
bool alone_vectors(uint32_t width);

/* Returns the first solver that applies, or the last one. */
const yki_solver *alone_solver(const yki_problem *problem, bool last);
/* values[slot] are inputs, then results, of n samples; results are NaN before. */
void alone_run(const yki_problem *problem, unsigned tuning, int64_t n, void *const *values);

yki_operand alone_tensor(yoke_type type, bool batched, yoke_shape shape);
/* Numbers that depend on `stream`. */
void alone_fill(float *values, size_t count, uint32_t stream);
/* Within 1e-5 of values, or of 1 where they are smaller. */
void alone_near(const float *a, const float *b, int64_t count);

#endif

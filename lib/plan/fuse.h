/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse.h - what the rules of fusion share: the plan's tasks and who reads their
 * results, kept up to date while tasks are joined.
 */
#ifndef YKI_FUSE_H
#define YKI_FUSE_H

#include "plan/plan.h"

/* Who reads a value: how many operands, and the sum of their tasks' positions, which for one
 * operand is its task's. Both can be kept up to date without a list. */
typedef struct yki_readers {
    int64_t count, sum;
} yki_readers;

typedef struct yki_fusion {
    yki_plan *plan;
    yki_readers *readers; /* by value */
} yki_fusion;

/* ---- fusion.c ---- */

/* Before the first rule; to be ended. */
yoke_status yki_fusion_begin(yki_fusion *f, yki_plan *plan);
/* After the last rule: tasks that were dropped leave the plan. */
void yki_fusion_end(yki_fusion *f);
/* The one task that reads a value; -1: none, several, or seen from outside. */
int32_t yki_fusion_only_reader(const yki_fusion *f, int32_t value);
/* Takes a task out. A value that no task uses gets no memory. */
void yki_fusion_drop(yki_fusion *f, size_t index);
/* Puts another task in the place of one. */
void yki_fusion_replace(yki_fusion *f, size_t index, const yki_task *task);
/* The later task's result becomes the earlier one's, and the later one is dropped. */
void yki_fusion_take_over(yki_fusion *f, size_t earlier, size_t later);
/* Whether a solver of the device can do it, in plain layout at least. */
bool yki_fusion_solvable(const yki_fusion *f, const yki_problem *problem);

static inline int32_t
yki_task_result(const yki_task *task)
{
    return task->slots[task->problem.input_count];
}

bool yki_is_relu_gradient(const yki_task *task);

/* ---- rules ---- */

/* Running statistics leave the list of tasks (running.c). */
yoke_status yki_fuse_running(yki_fusion *f);

/* Rules: whether something was joined with the task at `index`, which may be gone then. */
bool yki_fuse_loss(yki_fusion *f, size_t index);        /* fuse_loss.c */
bool yki_fuse_pooled_gate(yki_fusion *f, size_t index); /* fuse_pool.c */
bool yki_fuse_averaged_gate(yki_fusion *f, size_t index);
bool yki_fuse_normalised_gate(yki_fusion *f, size_t index); /* fuse_norm.c */
bool yki_fuse_gate(yki_fusion *f, size_t index);            /* fuse_matmul.c */
bool yki_fuse_sums(yki_fusion *f, size_t index);
bool yki_fuse_pair(yki_fusion *f, size_t index); /* of what the others made */

#endif

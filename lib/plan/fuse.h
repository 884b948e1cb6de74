/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse.h - what the rules of fusion share: the plan's tasks and the readers of their results,
 * which are kept up to date while tasks are joined.
 */
#ifndef YKI_FUSE_H
#define YKI_FUSE_H

#include "plan/plan.h"

/* The readers of a value: the number of operands, and the sum of the positions of their tasks. With
 * one operand the sum is the position of its task. Both stay up to date without a list. */
typedef struct yki_readers {
    int64_t count, sum;
} yki_readers;

typedef struct yki_fusion {
    yki_plan *plan;
    yki_readers *readers; /* by value */
    size_t capacity;
} yki_fusion;

/* ---- fusion.c ---- */

/* Counts the readers of all values. Comes before the first rule; yki_fusion_end must follow. */
yoke_status yki_fusion_begin(yki_fusion *f, yki_plan *plan);
/* Removes dropped tasks from the plan. Comes after the last rule. */
void yki_fusion_end(yki_fusion *f);
/* Returns the one task that reads a value; -1 if there is none, if there are several, or if the
 * value is seen from outside. */
int32_t yki_fusion_only_reader(const yki_fusion *f, int32_t value);
/* Drops a task. A value that no task uses gets no memory. */
void yki_fusion_drop(yki_fusion *f, size_t index);
/* Replaces the task at `index` by a copy of *task, and updates the readers. */
void yki_fusion_replace(yki_fusion *f, size_t index, const yki_task *task);
/* Adds a value of the arena, which no task computes or reads yet. */
yoke_status yki_fusion_add_value(yki_fusion *f, const yki_operand *operand, int32_t *index);
/* Gives the later task's result to the earlier task and drops the later one. */
void yki_fusion_take_over(yki_fusion *f, size_t earlier, size_t later);
/* Returns whether the device has a solver for the problem with its layouts as they stand. */
bool yki_fusion_solvable(const yki_fusion *f, const yki_problem *problem);

/* The tasks of one layer are side by side. */
enum { YKI_FUSION_NEAR = 6 };
typedef bool (*yki_fusion_fits)(const yki_fusion *f, const yki_task *task, const yki_task *other);
/* Returns the next task near `index` that `fits` accepts; 0: there is none. */
size_t yki_fusion_find_near(const yki_fusion *f, size_t index, yki_fusion_fits fits);
/* Returns whether the value is there before backward begins. */
bool yki_is_of_forward(const yki_plan *plan, int32_t value);

static inline int32_t
yki_task_result(const yki_task *task)
{
    return task->slots[task->problem.input_count];
}

/* Returns whether it gates one value: joined with a sum, it no longer does. */
bool yki_is_relu_gradient(const yki_task *task);

/* Returns whether it adds two values of one shape. */
bool yki_is_plain_sum(const yki_task *task);

/* ---- rules ---- */

/* Moves running statistics out of the list of tasks (running.c). */
yoke_status yki_fuse_running(yki_fusion *f);

/* Rules. Each returns whether it joined something with the task at `index`, which may then be
 * dropped. */
bool yki_fuse_loss(yki_fusion *f, size_t index);        /* fuse_loss.c */
bool yki_fuse_linear_loss(yki_fusion *f, size_t index); /* fuse_linear_loss.c */
bool yki_fuse_attention(yki_fusion *f, size_t index);   /* fuse_attention.c */
bool yki_fuse_embedding(yki_fusion *f, size_t index);   /* fuse_embedding.c */
bool yki_fuse_pooled_gate(yki_fusion *f, size_t index); /* fuse_pool.c */
bool yki_fuse_averaged_gate(yki_fusion *f, size_t index);
bool yki_fuse_pooled(yki_fusion *f, size_t index); /* fuse_pooled.c; after the gates */
bool yki_fuse_pooled_grad(yki_fusion *f, size_t index);
bool yki_fuse_normalised_gate(yki_fusion *f, size_t index); /* fuse_norm.c */
bool yki_fuse_statistics(yki_fusion *f, size_t index);
bool yki_fuse_gradient_sums(yki_fusion *f, size_t index);
bool yki_fuse_layer_norm(yki_fusion *f, size_t index);
bool yki_fuse_gate(yki_fusion *f, size_t index); /* fuse_matmul.c */
bool yki_fuse_sums(yki_fusion *f, size_t index);
bool yki_fuse_pair(yki_fusion *f, size_t index);       /* runs after the others, on their tasks */
bool yki_fuse_dense_loss(yki_fusion *f, size_t index); /* fuse_dense_loss.c; after the pairs */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * fusion.c - the tasks of a plan while rules join them: counts readers, drops tasks and
 * replaces them. The rules are in the fuse files.
 */
#include <string.h>

#include "plan/fuse.h"

/* Adds a task to the readers of its inputs, or removes it from them (sign -1). */
static void
note_reads(yki_fusion *f, size_t index, int sign)
{
    const yki_task *task = &f->plan->tasks[index];

    f->plan->work++;
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        f->readers[task->slots[k]].count += sign;
        f->readers[task->slots[k]].sum += sign * (int64_t)index;
    }
}

int32_t
yki_fusion_only_reader(const yki_fusion *f, int32_t value)
{
    if (f->plan->values[value].storage != YKI_STORE_ARENA || f->readers[value].count != 1)
        return -1;
    return (int32_t)f->readers[value].sum;
}

void
yki_fusion_drop(yki_fusion *f, size_t index)
{
    note_reads(f, index, -1);
    f->plan->tasks[index].dropped = true;
}

void
yki_fusion_replace(yki_fusion *f, size_t index, const yki_task *task)
{
    note_reads(f, index, -1);
    f->plan->tasks[index] = *task;
    note_reads(f, index, 1);
}

yoke_status
yki_fusion_add_value(yki_fusion *f, const yki_operand *operand, int32_t *index)
{
    const yki_value value = {
        .operand = *operand, .storage = YKI_STORE_ARENA, .alias = -1, .decided = true};

    YKI_TRY(yki_plan_add_value(f->plan, &value, index));
    YKI_TRY(yki_grow((void **)&f->readers, &f->capacity, f->plan->value_count, sizeof *f->readers,
                     "a plan's readers"));
    f->readers[*index] = (yki_readers){0};
    return YOKE_OK;
}

void
yki_fusion_take_over(yki_fusion *f, size_t earlier, size_t later)
{
    yki_task *task = &f->plan->tasks[earlier];

    task->slots[task->problem.input_count] = yki_task_result(&f->plan->tasks[later]);
    if (task->node)
        f->plan->node_value[task->node->id] = -1;
    yki_fusion_drop(f, later);
}

bool
yki_fusion_solvable(const yki_fusion *f, const yki_problem *problem)
{
    return yki_plan_solver(f->plan, problem) != NULL;
}

bool
yki_is_of_forward(const yki_plan *plan, int32_t value)
{
    const yoke_node *node = plan->values[value].node;

    return node && !node->backward;
}

size_t
yki_fusion_find_near(const yki_fusion *f, size_t index, yki_fusion_fits fits)
{
    unsigned seen = 0;

    for (size_t t = index + 1; t < f->plan->task_count && seen < YKI_FUSION_NEAR; t++) {
        const yki_task *other = &f->plan->tasks[t];

        f->plan->work++;
        if (other->dropped)
            continue;
        seen++;
        if (other->section == f->plan->tasks[index].section &&
            fits(f, &f->plan->tasks[index], other))
            return t;
    }
    return 0;
}

bool
yki_is_relu_gradient(const yki_task *task)
{
    yki_unary_attrs attrs;

    attrs = yki_unary_attrs_get(&task->problem.attrs);
    return task->problem.op == &yki_op_unary_grad && attrs.kind == YKI_UNARY_RELU &&
           task->problem.input_count == 2;
}

bool
yki_is_plain_sum(const yki_task *task)
{
    const yki_problem *p = &task->problem;

    return p->op == &yki_op_binary && yki_binary_attrs_get(&p->attrs).kind == YKI_BINARY_ADD &&
           yki_shape_equal(p->in[0].shape, p->in[1].shape) && p->in[0].batched == p->in[1].batched;
}

yoke_status
yki_fusion_begin(yki_fusion *f, yki_plan *plan)
{
    f->plan = plan;
    f->capacity = plan->value_count;
    f->readers = yki_alloc(plan->value_count, sizeof *f->readers, "a plan's readers");
    if (!f->readers)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t t = 0; t < plan->task_count; t++)
        note_reads(f, t, 1);
    return YOKE_OK;
}

static void
remove_dropped(yki_plan *plan)
{
    size_t kept = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        if (!plan->tasks[t].dropped)
            plan->tasks[kept++] = plan->tasks[t];
    plan->task_count = kept;
}

void
yki_fusion_end(yki_fusion *f)
{
    remove_dropped(f->plan);
    yki_free(f->readers);
}

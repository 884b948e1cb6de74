/* SPDX-License-Identifier: Apache-2.0
 *
 * bind.c - makes buffers for the values, and programs and kernels for the tasks. After that a
 * plan runs without allocating or building.
 */
#include "plan/plan.h"

static yoke_status
make_chunks(yki_plan *plan)
{
    if (plan->memory)
        return YOKE_OK;
    plan->chunks.buffers =
        yki_alloc(plan->chunks.count, sizeof *plan->chunks.buffers, "a plan's chunks");
    if (!plan->chunks.buffers)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < plan->chunks.count; i++) {
        YKI_TRY(yki_buffer_create(yki_queue_device(plan->queue), plan->chunks.sizes[i], 0,
                                  "the values of a plan", &plan->chunks.buffers[i]));
        YKI_TRY(yki_buffer_touch(plan->queue, plan->chunks.buffers[i]));
    }
    return YOKE_OK;
}

/* The plan that has the buffer of a value which outlives a run; NULL: this one. */
static const yki_plan *
keeper(const yki_plan *plan, const yki_value *value)
{
    if (value->storage != YKI_STORE_KEPT)
        return NULL;
    return !value->node && plan->options.packer ? plan->options.packer : plan->memory;
}

static yoke_status
make_buffer(yki_plan *plan, yki_value *value)
{
    yoke_device *device = yki_queue_device(plan->queue);

    if (value->alias >= 0 || value->storage == YKI_STORE_LENT)
        return YOKE_OK;
    if (keeper(plan, value)) {
        value->buffer = keeper(plan, value)->values[value - plan->values].buffer;
        return YOKE_OK;
    }
    if (value->storage == YKI_STORE_POOLED) {
        YKI_TRY(yki_buffer_view(plan->running.pool, value->offset, value->size, &value->buffer));
    } else if (value->storage == YKI_STORE_ARENA) {
        if (value->last < 0)
            return YOKE_OK;
        YKI_TRY(yki_buffer_view(plan->chunks.buffers[value->chunk], value->offset, value->size,
                                &value->buffer));
    } else {
        YKI_TRY(yki_buffer_create(device, value->size, 0,
                                  value->node ? value->node->name : "a prepared operand",
                                  &value->buffer));
    }
    value->owned = true;
    return YOKE_OK;
}

void
yki_plan_slots(const yki_plan *plan, const yki_task *task, yki_buffer *slots[YKI_MAX_SLOTS])
{
    for (uint32_t s = 0; s < task->recipe.slot_count; s++)
        slots[s] = plan->values[yki_value_root(plan, task->slots[s])].buffer;
}

static yoke_status
make_kernels(yki_plan *plan, yki_task *task)
{
    yki_buffer *slots[YKI_MAX_SLOTS] = {0};

    if (!task->solver)
        return YOKE_OK;
    task->kernels = yki_alloc(task->recipe.launch_count, sizeof *task->kernels, "kernels");
    if (!task->kernels)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_plan_slots(plan, task, slots);
    for (size_t i = 0; i < task->recipe.launch_count; i++)
        YKI_TRY(yki_launch_bind(&task->recipe.launches[i], yki_queue_device(plan->queue), slots,
                                plan->step_values, &task->kernels[i]));
    return YOKE_OK;
}

static yoke_status
prepare_call(const yki_plan *plan, const yki_task *task)
{
    yki_buffer *slots[YKI_MAX_SLOTS] = {0};

    if (!task->recipe.call)
        return YOKE_OK;
    yki_plan_slots(plan, task, slots);
    return task->recipe.call->prepare(plan->queue, slots, yki_task_extents(task, plan->options.max),
                                      task->recipe.call_data);
}

static yoke_status
make_commit(const yki_plan *plan, yoke_device *device, const yki_weight *state, yki_buffer *next,
            yki_kernel **kernel)
{
    yki_kernel_destroy(*kernel);
    *kernel = NULL;
    YKI_TRY(yki_plan_update_kernel(device, "yki_commit_state", kernel));
    YKI_TRY(yki_kernel_set_buffer(*kernel, 0, next));
    YKI_TRY(yki_kernel_set_buffer(*kernel, 1, state->value));
    YKI_TRY(yki_kernel_set_buffer(*kernel, 2, yki_plan_update_values(plan)));
    return yki_kernel_set_int(*kernel, 3, (int64_t)(state->size / 4));
}

yoke_status
yki_plan_make_commits(yki_plan *plan, yoke_device *device)
{
    const yki_weights *w = plan->weights;

    if (!plan->options.training || w->state_count == 0 ||
        (plan->commits_on && yki_device_space(plan->commits_on) == yki_device_space(device)))
        return YOKE_OK;
    plan->commits_on = NULL;
    if (!plan->commits)
        plan->commits = yki_alloc(w->state_count, sizeof *plan->commits, "a plan's kernels");
    if (!plan->commits)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < w->state_count; i++) {
        yki_buffer *next = yki_plan_buffer(plan, w->states[i].node->next);

        if (next && w->states[i].value)
            YKI_TRY(make_commit(plan, device, &w->states[i], next, &plan->commits[i]));
    }
    YKI_TRY(yki_plan_make_running(plan, device));
    plan->commits_on = device;
    return YOKE_OK;
}

/* Lists the merges and the gathers, before which the caller leaves a section. */
static yoke_status
make_stops(yki_plan *plan)
{
    const size_t gathers = yki_plan_gather_count(plan);
    size_t count = gathers, gather = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        count += plan->tasks[t].problem.op == &yki_op_merge;
    plan->stops = yki_alloc(count, sizeof *plan->stops, "a plan's stops");
    if (!plan->stops)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];
        yki_stop *stop;

        for (; gather < gathers && yki_plan_gather(plan, gather).task == t; gather++)
            plan->stops[plan->stop_count++] = yki_plan_gather(plan, gather);
        if (task->problem.op != &yki_op_merge)
            continue;
        stop = &plan->stops[plan->stop_count];
        *stop =
            (yki_stop){.task = t,
                       .section = task->section,
                       .in = plan->values[yki_value_root(plan, task->slots[0])].buffer,
                       .out = plan->values[yki_value_root(plan, task->slots[1])].buffer,
                       .count = (size_t)yki_operand_count(&task->problem.out, plan->options.max)};
        stop->merge = yki_merge_get(&task->problem.attrs);
        plan->stop_count++;
    }
    return YOKE_OK;
}

static yoke_status
find_bucket_tasks(yki_plan *plan)
{
    const yki_weights *w = plan->weights;

    plan->bucket_task = yki_alloc(w->bucket_count, sizeof *plan->bucket_task, "a plan's buckets");
    if (!plan->bucket_task)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (!plan->options.training)
        return YOKE_OK;
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem);
             s++) {
            uint32_t bucket = plan->values[task->slots[s]].bucket;

            if (bucket && task->section == YKI_BACKWARD)
                plan->bucket_task[bucket - 1] = t;
        }
    }
    return YOKE_OK;
}

yoke_status
yki_plan_bind(yki_plan *plan)
{
    yoke_device *device = yki_queue_device(plan->queue);

    YKI_TRY(make_chunks(plan));
    YKI_TRY(
        yki_buffer_create(device, sizeof(yki_step_values), 0, "step values", &plan->step_values));
    YKI_TRY(yki_buffer_touch(plan->queue, plan->step_values));
    if (plan->running.pool_size && !plan->memory) {
        YKI_TRY(yki_buffer_create(device, plan->running.pool_size, 0, "statistics",
                                  &plan->running.pool));
        YKI_TRY(yki_buffer_touch(plan->queue, plan->running.pool));
    }
    for (size_t v = 0; v < plan->value_count; v++)
        YKI_TRY(make_buffer(plan, &plan->values[v]));
    YKI_TRY(yki_plan_lend_buckets(plan));
    YKI_TRY(yki_plan_lend_gathers(plan));
    YKI_TRY(yki_plan_fill_inputs(plan));
    for (size_t t = 0; t < plan->task_count; t++) {
        yki_plan_tick(plan);
        YKI_TRY(make_kernels(plan, &plan->tasks[t]));
    }
    for (size_t t = 0; t < plan->task_count; t++)
        YKI_TRY(prepare_call(plan, &plan->tasks[t]));
    YKI_TRY(make_stops(plan));
    YKI_TRY(find_bucket_tasks(plan));
    YKI_TRY(yki_plan_bind_running(plan));
    YKI_TRY(yki_plan_make_commits(plan, yki_queue_device(plan->queue)));
    return yki_plan_bind_late_sums(plan);
}

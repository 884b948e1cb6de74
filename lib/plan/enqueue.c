/* SPDX-License-Identifier: Apache-2.0
 *
 * enqueue.c - enqueues the tasks of a plan. Nothing is allocated or built here. If the queue is
 * traced, it is told what each launch is for.
 */
#include "device/trace.h"
#include "plan/plan.h"

yki_buffer *
yki_plan_buffer(const yki_plan *plan, const yoke_node *node)
{
    int32_t value;

    if (!node || node->id >= plan->node_count)
        return NULL;
    value = plan->node_value[node->id];
    return value < 0 ? NULL : plan->values[yki_value_root(plan, value)].buffer;
}

static yoke_status
set_extents(yki_plan *plan, yki_extents extents)
{
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        for (size_t k = 0; k < task->recipe.launch_count; k++)
            YKI_TRY(yki_launch_set_extents(&task->recipe.launches[k], task->kernels[k],
                                           yki_task_extents(task, extents)));
    }
    plan->extents = extents;
    return YOKE_OK;
}

static void
tell_task(const yki_task *task, yki_trace_details *details)
{
    details->name = task->node ? yki_node_title(task->node) : task->problem.op->name;
    details->op = task->problem.op->name;
    details->solver = task->solver->name;
    yki_shape_text(task->problem.out.shape, details->shape, sizeof details->shape);
}

/* Tells a timeline of a launch, when the timeline is written. */
static void
tell_launch(const yki_trace_about *about, yki_trace_details *details)
{
    const yki_task *task = about->subject;
    const yki_launch *launch = &task->recipe.launches[about->part];
    const yki_extents extents = {about->batch, about->length};

    tell_task(task, details);
    details->flops = (double)yki_expr_value(launch->flops, extents);
    details->bytes = (double)yki_expr_value(launch->bytes, extents);
}

/* Tells a timeline of a library's call. */
static void
tell_call(const yki_trace_about *about, yki_trace_details *details)
{
    const yki_task *task = about->subject;
    const yki_extents extents = {about->batch, about->length};

    tell_task(task, details);
    details->flops = (double)yki_expr_value(task->recipe.call_flops, extents);
    details->bytes = (double)yki_expr_value(task->recipe.call_bytes, extents);
}

static yoke_status
enqueue_launch(yki_plan *plan, const yki_task *task, size_t index)
{
    const yki_extents extents = yki_task_extents(task, plan->extents);

    if (yki_queue_track(plan->queue))
        yki_queue_about(plan->queue, &(yki_trace_about){tell_launch, task, index, extents.batch,
                                                        extents.length});
    return yki_launch_enqueue(&task->recipe.launches[index], task->kernels[index], plan->queue,
                              extents, NULL);
}

static yoke_status
enqueue_call(yki_plan *plan, const yki_task *task)
{
    const yki_extents extents = yki_task_extents(task, plan->extents);
    yki_buffer *slots[YKI_MAX_SLOTS] = {0};
    double begin = yki_span_begin(yki_queue_track(plan->queue));

    yki_plan_slots(plan, task, slots);
    YKI_TRY(task->recipe.call->run(plan->queue, slots, extents, task->recipe.call_data));
    yki_queue_about(plan->queue,
                    &(yki_trace_about){tell_call, task, 0, extents.batch, extents.length});
    return yki_queue_trace_call(plan->queue, begin, task->recipe.call->name);
}

static yoke_status
enqueue_task(yki_plan *plan, const yki_task *task, yki_phase phase)
{
    if (phase == YKI_PHASE_RUN && yki_plan_repacks(plan) && plan->extents.batch > 0)
        YKI_TRY(enqueue_task(plan, task, YKI_PHASE_PREPARE));
    if (task->recipe.call && phase == YKI_PHASE_RUN)
        YKI_TRY(enqueue_call(plan, task));
    for (size_t k = 0; k < task->recipe.launch_count; k++)
        if (task->recipe.launches[k].phase == phase)
            YKI_TRY(enqueue_launch(plan, task, k));
    yki_queue_about(plan->queue, NULL);
    return YOKE_OK;
}

yoke_status
yki_plan_begin(yki_plan *plan, yki_extents extents)
{
    YKI_TRY(yki_extents_check(extents, plan->options.max));
    if (!extents.length)
        extents.length = plan->options.max.length;
    if (!yki_extents_equal(extents, plan->extents))
        YKI_TRY(set_extents(plan, extents));
    if (plan->options.packer)
        plan->prepared_version = plan->options.packer->prepared_version;
    if (plan->prepared_version == plan->weights->version || yki_plan_repacks(plan))
        return YOKE_OK;
    for (size_t t = 0; t < plan->task_count; t++)
        if (!plan->tasks[t].again) /* which shares the copy of its first run */
            YKI_TRY(enqueue_task(plan, &plan->tasks[t], YKI_PHASE_PREPARE));
    plan->prepared_version = plan->weights->version;
    return YOKE_OK;
}

yoke_status
yki_plan_enqueue_tasks(yki_plan *plan, yki_section section, size_t first, size_t end)
{
    for (size_t t = first; t < end; t++) {
        if (plan->tasks[t].section != section || (plan->asked.some && plan->asked.skips[t]))
            continue;
        if (plan->tasks[t].opens)
            YKI_TRY(yki_plan_open_buckets(plan, t));
        YKI_TRY(enqueue_task(plan, &plan->tasks[t], YKI_PHASE_RUN));
    }
    return section == YKI_BACKWARD && end == plan->task_count ? yki_plan_enqueue_late_sums(plan)
                                                              : YOKE_OK;
}

yoke_status
yki_plan_enqueue(yki_plan *plan, yki_section section, yki_extents extents, yki_event *done)
{
    YKI_TRY(yki_plan_begin(plan, extents));
    YKI_TRY(yki_plan_enqueue_tasks(plan, section, 0, plan->task_count));
    return done ? yki_queue_marker(plan->queue, YKI_NO_WAIT, done) : YOKE_OK;
}

yoke_status
yki_plan_commit_states(yki_plan *plan)
{
    return yki_plan_commit_states_on(plan, plan->queue);
}

yoke_status
yki_plan_commit_states_on(yki_plan *plan, yki_queue *queue)
{
    YKI_TRY(yki_plan_make_commits(plan, yki_queue_device(queue)));
    for (size_t i = 0; plan->commits && i < plan->weights->state_count; i++) {
        /* A work-item makes at most 16384 iterations. */
        const yki_grid grid = {{plan->weights->states[i].size / 4 / 16384 + 1, 1, 1}, {1, 1, 1}};

        if (plan->commits[i])
            YKI_TRY(yki_queue_launch(queue, plan->commits[i], &grid, YKI_NO_WAIT, NULL));
    }
    return yki_plan_commit_running(plan, queue);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.c - measures each task of a plan by the device's own clock, while whole steps run
 * in their order.
 */
#include "plan/plan.h"

/* An event's time below this fraction of the host's time is not believed. */
static const double LEAST_SHARE = 1e-3;

typedef struct profile {
    yki_plan *plan;
    yki_queue *queue; /* with event times */
    double *seconds;  /* by task: the least of the repeats */
} profile;

/* A library's call gives no event of its own, so the host waits for it. */
static yoke_status
run_call(profile *p, const yki_task *task, yki_extents extents, double *seconds)
{
    yki_buffer *slots[YKI_MAX_SLOTS] = {0};
    double start;

    yki_plan_slots(p->plan, task, slots);
    start = yki_now();
    YKI_TRY(task->recipe.call->run(p->queue, slots, extents, task->recipe.call_data));
    YKI_TRY(yki_queue_finish(p->queue));
    *seconds = yki_now() - start;
    return YOKE_OK;
}

static yoke_status
run_task(profile *p, size_t index, yki_extents extents, double *seconds)
{
    const yki_task *task = &p->plan->tasks[index];

    extents = yki_task_extents(task, extents);
    *seconds = 0;
    if (task->recipe.call)
        YKI_TRY(run_call(p, task, extents, seconds));
    for (size_t k = 0; k < task->recipe.launch_count; k++) {
        yki_event done = {0};
        double wall = yki_now();
        uint64_t start, end;
        yki_grid grid;
        yoke_status status;

        if (!yki_launch_grid_at(&task->recipe.launches[k], extents, &grid))
            continue;
        YKI_TRY(yki_queue_launch(p->queue, task->kernels[k], &grid, YKI_NO_WAIT, &done));
        status = yki_event_wait(&done);
        wall = yki_now() - wall;
        /* Some drivers have no clock, and one says 1 ns for everything. The host's time then
         * counts, which includes launching and waiting. */
        if (status == YOKE_OK && yki_event_times(&done, &start, &end) == YOKE_OK && end > start &&
            1e-9 * (double)(end - start) > LEAST_SHARE * wall)
            wall = 1e-9 * (double)(end - start);
        yki_event_release(&done);
        YKI_TRY(status);
        *seconds += wall;
    }
    return YOKE_OK;
}

static yoke_status
run_all(profile *p, yki_extents extents, unsigned repeats)
{
    /* The first round compiles what has not run yet, and does not count. */
    for (unsigned r = 0; r <= repeats; r++)
        for (size_t t = 0; t < p->plan->task_count; t++) {
            double seconds;

            YKI_TRY(run_task(p, t, extents, &seconds));
            if (r == 1 || (r > 1 && seconds < p->seconds[t]))
                p->seconds[t] = seconds;
        }
    return YOKE_OK;
}

static void
report(const profile *p, yki_extents extents, void (*each)(void *, const yoke_task_info *),
       void *user)
{
    for (size_t t = 0; t < p->plan->task_count; t++) {
        const yki_task *task = &p->plan->tasks[t];
        const yki_extents of_task = yki_task_extents(task, extents);
        yoke_task_info info = {.seconds = p->seconds[t]};

        if (!task->solver)
            continue;
        info.name = task->node ? yki_node_title(task->node) : task->problem.op->name;
        info.op = task->problem.op->name;
        info.solver = task->solver->name;
        info.backward = task->section == YKI_BACKWARD;
        info.launches = (uint32_t)task->recipe.launch_count;
        if (task->recipe.call) {
            info.launches++;
            info.flops += (double)yki_expr_value(task->recipe.call_flops, of_task);
            info.bytes += (double)yki_expr_value(task->recipe.call_bytes, of_task);
        }
        for (size_t k = 0; k < task->recipe.launch_count; k++) {
            info.flops += (double)yki_expr_value(task->recipe.launches[k].flops, of_task);
            info.bytes += (double)yki_expr_value(task->recipe.launches[k].bytes, of_task);
        }
        each(user, &info);
    }
}

yoke_status
yki_plan_profile(yki_plan *plan, yki_extents extents, unsigned repeats,
                 void (*each)(void *, const yoke_task_info *), void *user)
{
    profile p = {.plan = plan};
    yoke_status status;

    YKI_TRY(yki_plan_enqueue(plan, YKI_FORWARD, extents, NULL)); /* sets arguments, packs weights */
    YKI_TRY(yki_queue_finish(plan->queue));
    p.seconds = yki_alloc(plan->task_count, sizeof *p.seconds, "times");
    if (!p.seconds)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_queue_create(yki_queue_device(plan->queue), true, &p.queue);
    if (status == YOKE_OK)
        status = run_all(&p, plan->extents, repeats);
    yki_queue_destroy(p.queue);
    if (status == YOKE_OK)
        report(&p, plan->extents, each, user);
    yki_free(p.seconds);
    return status;
}

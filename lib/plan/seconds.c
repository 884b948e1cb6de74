/* SPDX-License-Identifier: Apache-2.0
 *
 * seconds.c - how long each task of a plan takes: as measured, or guessed from its operations and
 * its bytes.
 */
#include "plan/plan.h"

/* Assumed where nothing was measured. Only their ratio counts, as long as nothing else is known. */
#define GUESSED_FLOPS_PER_SECOND 2e11
#define GUESSED_BYTES_PER_SECOND 2e10
#define GUESSED_LAUNCH           2e-6

/* Guesses the time of a task from its work, or from its operands where that is unknown. */
static double
guess(const yki_plan *plan, const yki_task *task)
{
    const yki_extents max = yki_task_extents(task, plan->options.max);
    const yki_recipe *r = &task->recipe;
    double flops = (double)yki_expr_value(r->call_flops, max), bytes = 0;

    for (size_t k = 0; k < r->launch_count; k++)
        flops += (double)yki_expr_value(r->launches[k].flops, max);
    for (uint32_t s = 0; s < yki_problem_operands(&task->problem); s++)
        bytes += (double)plan->values[task->slots[s]].size;
    return YKI_MAX(flops / GUESSED_FLOPS_PER_SECOND, bytes / GUESSED_BYTES_PER_SECOND) +
           GUESSED_LAUNCH * (double)r->launch_count;
}

bool
yki_plan_find_seconds(const yki_plan *plan, double *seconds)
{
    double measured = 0, guessed = 0;
    bool all = true;

    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        seconds[t] = 0;
        if (!task->solver)
            continue;
        seconds[t] = guess(plan, task);
        measured += task->seconds;
        guessed += task->seconds > 0 ? seconds[t] : 0;
        all &= task->seconds > 0;
    }
    for (size_t t = 0; t < plan->task_count; t++) {
        if (guessed > 0)
            seconds[t] *= measured / guessed;
        if (plan->tasks[t].seconds > 0)
            seconds[t] = plan->tasks[t].seconds;
    }
    return all;
}

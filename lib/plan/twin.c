/* SPDX-License-Identifier: Apache-2.0
 *
 * twin.c - a twin of a plan: the same tasks with the same solvers, and values of its own. So
 * forward of a micro-batch can run before backward of the one before, and both have the bits of one
 * plan.
 *
 * Weights, gradients and packed weights are those of the plan, and recipes are lent by it. A twin
 * has inputs and step values of its own. All other memory is its own or that of another twin, where
 * those two are never under way at the same time.
 */
#include <string.h>

#include "plan/plan.h"

/* Leaves what yki_plan_bind makes anew. */
static void
unbind(yki_plan *twin)
{
    twin->extents = (yki_extents){.batch = -1};
    twin->step_values = NULL;
    twin->chunks.buffers = twin->memory ? twin->memory->chunks.buffers : NULL;
    twin->stops = NULL;
    twin->stop_count = 0;
    twin->bucket_task = NULL;
    twin->commits = NULL;
    twin->commits_on = NULL;
    twin->running.pool = twin->memory ? twin->memory->running.pool : NULL;
    twin->running.table = twin->late.table = NULL;
    twin->running.kernel = twin->late.kernel = NULL;
    for (size_t v = 0; v < twin->value_count; v++) {
        if (twin->values[v].storage != YKI_STORE_LENT)
            twin->values[v].buffer = NULL;
        twin->values[v].owned = false;
    }
    for (size_t t = 0; t < twin->task_count; t++)
        twin->tasks[t].kernels = NULL;
}

/* Gives the values that cross other buffers. */
static void
lend(yki_plan *twin, yki_buffer *const *lent)
{
    for (size_t i = 0; i < twin->node_count; i++)
        if (lent[i] && twin->node_value[i] >= 0)
            twin->values[yki_value_root(twin, twin->node_value[i])].buffer = lent[i];
}

yoke_status
yki_plan_twin(yki_plan *plan, yki_plan *memory, yki_buffer *const *lent, yki_plan **out)
{
    yki_plan *twin = yki_alloc(1, sizeof *twin, "a plan");
    yki_value *values = yki_alloc(plan->value_count, sizeof *values, "a plan's values");
    yki_task *tasks = yki_alloc(plan->task_count, sizeof *tasks, "a plan's tasks");
    yoke_status status;

    if (!twin || !values || !tasks) {
        yki_free(twin);
        yki_free(values);
        yki_free(tasks);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (plan->value_count)
        memcpy(values, plan->values, plan->value_count * sizeof *values);
    if (plan->task_count)
        memcpy(tasks, plan->tasks, plan->task_count * sizeof *tasks);
    *twin = *plan;
    twin->weights = yki_weights_retain(plan->weights);
    twin->values = values;
    twin->tasks = tasks;
    twin->twin_of = twin->options.packer = plan;
    twin->memory = memory;
    unbind(twin);
    lend(twin, lent);
    status = yki_plan_bind(twin);
    if (status == YOKE_OK)
        status = yki_queue_finish(twin->queue);
    if (status != YOKE_OK) {
        yki_plan_destroy(twin);
        return status;
    }
    *out = twin;
    return YOKE_OK;
}

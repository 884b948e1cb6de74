/* SPDX-License-Identifier: Apache-2.0
 *
 * running.c - updates all running statistics of a plan by one launch, at the end of a step.
 *
 * The running mean and variance of a batch norm follow from the statistics of the batch by a
 * few operations a channel. As tasks they would take two launches a layer, and two more to
 * commit them. So the statistics of the batch stay in one buffer until the end of the step.
 * Then one launch updates every state; a table says which statistics belong to which state.
 */
#include <string.h>

#include "plan/fuse.h"

/* Channels for one work-item. Some drivers end a work-item whose loop is long. */
enum { MOST_CHANNELS = 4096, ROW = 6 };

/* Moves statistics into the common buffer. Returns false if they must be elsewhere. */
static bool
pool(yki_plan *plan, int32_t index)
{
    yki_value *value = &plan->values[index];

    if (value->storage == YKI_STORE_POOLED)
        return true;
    if (value->storage != YKI_STORE_ARENA || value->operand.batched)
        return false;
    value->storage = YKI_STORE_POOLED;
    value->offset = plan->running.pool_size;
    plan->running.pool_size += yki_plan_aligned(plan, value->size);
    return true;
}

static yoke_status
defer(yki_fusion *f, size_t index, const uint32_t *state_of)
{
    yki_plan *plan = f->plan;
    yki_running_update *update = &plan->running;
    const yki_task *task = &plan->tasks[index];
    const yoke_node *state = plan->values[task->slots[0]].node;
    yki_running made = {.statistics = task->slots[1]};
    yki_bn_attrs attrs;

    attrs = yki_bn_attrs_get(&task->problem.attrs);
    if (!state || state->role != YKI_ROLE_STATE || state->next != task->node ||
        !state_of[state->id] || !pool(plan, task->slots[1]))
        return YOKE_OK;
    made.state = state_of[state->id] - 1;
    made.variance = attrs.variance;
    made.momentum = attrs.momentum;
    YKI_TRY(yki_grow((void **)&update->list, &update->capacity, update->count + 1,
                     sizeof *update->list, "a plan's running statistics"));
    update->list[update->count++] = made;
    plan->node_value[task->node->id] = -1;
    yki_fusion_drop(f, index);
    return YOKE_OK;
}

yoke_status
yki_fuse_running(yki_fusion *f)
{
    yki_plan *plan = f->plan;
    uint32_t *state_of; /* by node id: its number among the states + 1; 0: no state */
    yoke_status status = YOKE_OK;

    if (!plan->options.training || plan->weights->state_count == 0)
        return YOKE_OK;
    state_of = yki_alloc(plan->node_count, sizeof *state_of, "a plan's states");
    if (!state_of)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < plan->weights->state_count; i++)
        state_of[plan->weights->states[i].node->id] = (uint32_t)i + 1;
    for (size_t t = 0; t < plan->task_count && status == YOKE_OK; t++) {
        plan->work++;
        if (!plan->tasks[t].dropped && plan->tasks[t].problem.op == &yki_op_bn_running)
            status = defer(f, t, state_of);
    }
    yki_free(state_of);
    return status;
}

/* ---- the launch ---- */

/* Fills the table, unless it is NULL, and returns the number of rows. A row holds: where the
 * statistics begin, where the state begins, the channels of the layer, the first and the end of
 * this row's channels, and the bits of the momentum. A negative momentum means the variance. */
static size_t
fill_table(const yki_plan *plan, int32_t *table)
{
    size_t rows = 0;

    for (size_t i = 0; i < plan->running.count; i++) {
        const yki_running *r = &plan->running.list[i];
        const yki_weight *state = &plan->weights->states[r->state];
        int32_t channels = (int32_t)(state->size / 4);

        for (int32_t first = 0; first < channels; first += MOST_CHANNELS, rows++) {
            float momentum = r->variance ? -r->momentum : r->momentum;
            int32_t *row = table + ROW * rows;

            if (!table)
                continue;
            row[0] = (int32_t)(plan->values[r->statistics].offset / 4);
            row[1] = (int32_t)(state->offset / 4);
            row[2] = channels;
            row[3] = first;
            row[4] = YKI_MIN(first + MOST_CHANNELS, channels);
            memcpy(&row[5], &momentum, sizeof momentum);
        }
    }
    return rows;
}

static yoke_status
make_table(yki_plan *plan)
{
    int32_t *table = yki_alloc(plan->running.rows * ROW, sizeof *table, "running statistics");
    uint64_t size = plan->running.rows * ROW * sizeof *table;
    yoke_status status;

    if (!table)
        return YOKE_ERROR_OUT_OF_MEMORY;
    fill_table(plan, table);
    status = yki_buffer_create(yki_queue_device(plan->queue), size, 0, "running statistics",
                               &plan->running.table);
    if (status == YOKE_OK)
        status = yki_buffer_put(plan->running.table, 0, size, table);
    yki_free(table);
    return status;
}

yoke_status
yki_plan_bind_running(yki_plan *plan)
{
    yki_running_update *update = &plan->running;

    if (update->count == 0)
        return YOKE_OK;
    update->rows = fill_table(plan, NULL);
    return make_table(plan);
}

yoke_status
yki_plan_make_running(yki_plan *plan, yoke_device *device)
{
    yki_running_update *update = &plan->running;

    if (update->count == 0)
        return YOKE_OK;
    yki_kernel_destroy(update->kernel);
    update->kernel = NULL;
    YKI_TRY(yki_plan_update_kernel(device, "yki_commit_running", &update->kernel));
    YKI_TRY(yki_kernel_set_buffer(update->kernel, 0, update->pool));
    YKI_TRY(yki_kernel_set_buffer(update->kernel, 1, plan->weights->state_bucket.values));
    YKI_TRY(yki_kernel_set_buffer(update->kernel, 2, yki_plan_update_values(plan)));
    YKI_TRY(yki_kernel_set_buffer(update->kernel, 3, update->table));
    return yki_kernel_set_int(update->kernel, 4, (int64_t)update->rows);
}

yoke_status
yki_plan_keep_running(yki_plan *plan, yki_buffer **kept)
{
    if (!plan->running.kernel)
        return YOKE_OK;
    if (!*kept)
        YKI_TRY(yki_buffer_create(yki_queue_device(plan->queue),
                                  yki_buffer_size(plan->running.pool), 0, "running statistics",
                                  kept));
    return yki_queue_copy(plan->queue, plan->running.pool, 0, *kept, 0, yki_buffer_size(*kept),
                          YKI_NO_WAIT, NULL);
}

yoke_status
yki_plan_commit_kept(yki_plan *plan, yki_queue *queue, yki_buffer *kept)
{
    if (plan->running.count == 0) /* after a failure there may be some and no kernel */
        return YOKE_OK;
    YKI_TRY(yki_plan_make_commits(plan, yki_queue_device(queue)));
    YKI_TRY(yki_kernel_set_buffer(plan->running.kernel, 0, kept));
    YKI_TRY(yki_plan_commit_running(plan, queue));
    return yki_kernel_set_buffer(plan->running.kernel, 0, plan->running.pool);
}

yoke_status
yki_plan_commit_running(yki_plan *plan, yki_queue *queue)
{
    const size_t most = 32768; /* groups of a launch; each takes several rows if there are more */
    const yki_grid grid = {{YKI_MIN(plan->running.rows, most), 1, 1},
                           {yki_plan_update_group(yki_queue_device(queue)), 1, 1}};

    if (!plan->running.kernel)
        return YOKE_OK;
    return yki_queue_launch(queue, plan->running.kernel, &grid, YKI_NO_WAIT, NULL);
}

void
yki_plan_free_running(yki_plan *plan)
{
    yki_kernel_destroy(plan->running.kernel);
    yki_buffer_destroy(plan->running.table);
    yki_buffer_destroy(plan->running.pool);
    yki_free(plan->running.list);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * late_sums.c - adds the parts of all weights' gradients by one launch, at the end of backward.
 *
 * The gradient of a small weight is computed in parts, so that a large device is busy, and a
 * second launch adds them up. With many layers these launches cost more than their work. So the
 * parts stay, side by side in one buffer, and one launch adds those of all layers, in their
 * order; a table tells where they are. It is for devices to which a launch is dear, and where
 * nobody reads gradients while backward runs. Parts take memory until the end: those that would
 * exceed a small fraction of the device's are added at once, as before.
 */
#include <string.h>

#include "plan/plan.h"

enum {
    ROW = 5,
    CHUNK = 256,          /* elements of a row */
    MEMORY_FRACTION = 64, /* of the device's memory, for all parts */
    MOST_BYTES = 1 << 30  /* of all parts: offsets are ints */
};

/* Returns the last launch of a task, if it adds the parts of a weight's gradient. */
static const yki_launch *
late_launch(const yki_plan *plan, const yki_task *task)
{
    const yki_launch *last;
    const yki_value *out;

    if (task->section != YKI_BACKWARD || task->recipe.launch_count < 2)
        return NULL;
    last = &task->recipe.launches[task->recipe.launch_count - 1];
    if (!last->adds_parts)
        return NULL;
    out = &plan->values[task->slots[last->args[1].slot]];
    return out->bucket && out->alias < 0 ? last : NULL;
}

/* Takes the launch out of its task, and keeps the parts in the common buffer. */
static yoke_status
defer(yki_plan *plan, yki_task *task, const yki_launch *last, uint64_t most)
{
    yki_value *part = &plan->values[task->slots[last->args[0].slot]];
    const yki_value *out = &plan->values[task->slots[last->args[1].slot]];
    yki_late_sums *late = &plan->late;

    if (part->storage != YKI_STORE_ARENA || late->bytes + part->size > most)
        return YOKE_OK;
    YKI_TRY(yki_grow((void **)&late->list, &late->capacity, late->count + 1, sizeof *late->list,
                     "sums of gradients"));
    part->storage = YKI_STORE_POOLED;
    part->offset = plan->running.pool_size;
    plan->running.pool_size += yki_plan_aligned(plan, part->size);
    late->bytes += part->size;
    late->list[late->count++] = (yki_late_sum){.from = part->offset,
                                               .to = out->offset,
                                               .count = last->args[2].expr.constant,
                                               .parts = last->args[3].expr.constant};
    task->recipe.launch_count--;
    return YOKE_OK;
}

yoke_status
yki_plan_find_late_sums(yki_plan *plan)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));
    uint64_t most = YKI_MIN(traits->memory / MEMORY_FRACTION, (uint64_t)MOST_BYTES);
    size_t found = 0;

    if (!plan->options.late_sums || plan->weights->transient || plan->options.canonical ||
        plan->options.small || plan->recomputed.tight || plan->options.no_fusion ||
        traits->type == YOKE_DEVICE_CPU || plan->weights->pool_count != 1)
        return YOKE_OK;
    for (size_t t = 0; t < plan->task_count; t++)
        found += late_launch(plan, &plan->tasks[t]) != NULL;
    for (size_t t = 0; t < plan->task_count && found > 1; t++) {
        const yki_launch *last = late_launch(plan, &plan->tasks[t]);

        plan->work++;
        if (last)
            YKI_TRY(defer(plan, &plan->tasks[t], last, most));
    }
    return YOKE_OK;
}

/* ---- the launch ---- */

/* Fills the table, unless it is NULL, and returns the number of rows. A row holds, in floats: where
 * its first part begins, how far the next part is, where the sums go, how many there are, and the
 * number of parts. */
static size_t
fill_table(const yki_plan *plan, int32_t *table)
{
    size_t rows = 0;

    for (size_t i = 0; i < plan->late.count; i++) {
        const yki_late_sum *sum = &plan->late.list[i];

        for (int64_t first = 0; first < sum->count; first += CHUNK, rows++) {
            int32_t *row = table + ROW * rows;

            if (!table)
                continue;
            row[0] = (int32_t)((int64_t)(sum->from / 4) + first);
            row[1] = (int32_t)sum->count;
            row[2] = (int32_t)((int64_t)(sum->to / 4) + first);
            row[3] = (int32_t)YKI_MIN(CHUNK, sum->count - first);
            row[4] = (int32_t)sum->parts;
        }
    }
    return rows;
}

yoke_status
yki_plan_bind_late_sums(yki_plan *plan)
{
    yki_late_sums *late = &plan->late;
    uint64_t size;
    int32_t *table;
    yoke_status status;

    if (late->count == 0)
        return YOKE_OK;
    late->rows = fill_table(plan, NULL);
    size = late->rows * ROW * sizeof *table;
    table = yki_alloc(late->rows, ROW * sizeof *table, "sums of gradients");
    if (!table)
        return YOKE_ERROR_OUT_OF_MEMORY;
    fill_table(plan, table);
    status = yki_buffer_create(yki_queue_device(plan->queue), size, 0, "sums of gradients",
                               &late->table);
    if (status == YOKE_OK)
        status = yki_buffer_put(late->table, 0, size, table);
    yki_free(table);
    YKI_TRY(status);
    YKI_TRY(yki_plan_update_kernel(yki_queue_device(plan->queue), "yki_sum_late", &late->kernel));
    YKI_TRY(yki_kernel_set_buffer(late->kernel, 0, plan->running.pool));
    YKI_TRY(yki_kernel_set_buffer(late->kernel, 1, plan->weights->pools[0].gradients));
    YKI_TRY(yki_kernel_set_buffer(late->kernel, 2, late->table));
    return yki_kernel_set_int(late->kernel, 3, (int64_t)late->rows);
}

yoke_status
yki_plan_enqueue_late_sums(yki_plan *plan)
{
    const size_t most = 32768; /* groups of a launch; each takes several rows if there are more */
    yki_grid grid = {{YKI_MIN(plan->late.rows, most), 1, 1}, {1, 1, 1}};

    if (!plan->late.kernel)
        return YOKE_OK;
    grid.local[0] = yki_plan_update_group(yki_queue_device(plan->queue));
    return yki_queue_launch(plan->queue, plan->late.kernel, &grid, YKI_NO_WAIT, NULL);
}

void
yki_plan_free_late_sums(yki_plan *plan)
{
    yki_kernel_destroy(plan->late.kernel);
    yki_buffer_destroy(plan->late.table);
    yki_free(plan->late.list);
}

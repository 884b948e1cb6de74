/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - making, running and freeing a plan. The stages are in files of their own.
 */
#include <string.h>

#include "plan/plan.h"

/* (2) per sample, value and count, summed over the batch; a plain scalar counts as 1. */
static yoke_node *
summed(yoke_graph *graph, yoke_node *node)
{
    if (!node->op || !node->op->is_loss)
        node = yki_node1(graph, &yki_op_counted, node);
    return node ? yki_node1(graph, &yki_op_batch_sum, node) : NULL;
}

/* The nodes that only a plan needs: the loss and the metrics summed over the batch. */
static yoke_status
finish_graph(yoke_graph *graph)
{
    bool differentiated = graph->differentiated;
    uint32_t place = graph->place;

    YKI_TRY(yki_graph_status(graph));
    yki_graph_begin_compiling(graph);
    /* They belong to the forward section, also when gradients are there already. */
    graph->differentiated = false;
    /* All of them on one device, that of the loss. */
    graph->place = graph->loss ? graph->loss->place : 0;
    if (graph->loss && !graph->loss_sum)
        graph->loss_sum = summed(graph, graph->loss);
    for (size_t i = 0; i < graph->metric_count; i++)
        if (!graph->metrics[i].sum)
            graph->metrics[i].sum = summed(graph, graph->metrics[i].node);
    graph->differentiated = differentiated;
    graph->place = place;
    yki_graph_end_compiling(graph);
    return yki_graph_status(graph);
}

yoke_status
yki_graph_complete(yoke_graph *graph, bool training)
{
    YKI_TRY(finish_graph(graph));
    if (!training)
        return YOKE_OK;
    return yki_graph_differentiate(graph, &yki_op_binary, &yki_op_ones, NULL, 0);
}

/* An empty plan. */
static yoke_status
begin(yki_weights *weights, yki_queue *queue, const yki_plan_options *options, yki_plan **out)
{
    yki_plan *plan;

    if (options->max_batch < 1)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "a plan for batches up to %lld: at least 1",
                        (long long)options->max_batch);
    plan = yki_alloc(1, sizeof *plan, "a plan");
    if (!plan)
        return YOKE_ERROR_OUT_OF_MEMORY;
    plan->options = *options;
    plan->weights = yki_weights_retain(weights);
    plan->queue = queue;
    plan->batch = -1;
    plan->measured_seconds = options->spent;
    *out = plan;
    return YOKE_OK;
}

/* Which tasks, and by which solvers. */
static yoke_status
decide(yki_plan *plan)
{
    YKI_TRY(yki_plan_lower(plan));
    YKI_TRY(yki_plan_fuse(plan));
    YKI_TRY(yki_plan_search(plan));
    return yki_plan_choose(plan);
}

yoke_status
yki_plan_survey(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                yki_costs *costs, double *seconds)
{
    yki_plan *plan;
    yoke_status status;

    YKI_TRY(begin(weights, queue, options, &plan));
    plan->costs = costs;
    status = decide(plan);
    *seconds = plan->measured_seconds;
    yki_plan_destroy(plan);
    return status;
}

yoke_status
yki_plan_create(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                yki_plan **out)
{
    yki_plan *plan;
    yoke_status status;

    YKI_TRY(begin(weights, queue, options, &plan));
    status = decide(plan);
    if (status == YOKE_OK)
        status = yki_classes_check(plan);
    if (status == YOKE_OK)
        status = yki_plan_recompute(plan);
    if (status == YOKE_OK)
        status = yki_plan_pack(plan);
    if (status == YOKE_OK)
        status = yki_plan_bind(plan);
    if (status == YOKE_OK)
        status = yki_queue_finish(queue);
    if (status != YOKE_OK) {
        yki_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return YOKE_OK;
}

void
yki_plan_destroy(yki_plan *plan)
{
    if (!plan)
        return;
    for (size_t t = 0; t < plan->task_count; t++) {
        yki_task *task = &plan->tasks[t];

        for (size_t i = 0; task->kernels && i < task->recipe.launch_count; i++)
            yki_kernel_destroy(task->kernels[i]);
        yki_free(task->kernels);
        yki_recipe_clear(&task->recipe);
    }
    for (size_t v = 0; v < plan->value_count; v++)
        if (plan->values[v].owned)
            yki_buffer_destroy(plan->values[v].buffer);
    for (size_t i = 0; plan->chunks && i < plan->chunk_count; i++)
        yki_buffer_destroy(plan->chunks[i]);
    for (size_t i = 0; plan->commits && i < plan->weights->state_count; i++)
        yki_kernel_destroy(plan->commits[i]);
    yki_free(plan->commits);
    yki_plan_free_running(plan);
    yki_buffer_destroy(plan->pool);
    yki_buffer_destroy(plan->step_values);
    yki_weights_release(plan->weights);
    yki_free(plan->chunks);
    yki_free(plan->chunk_sizes);
    yki_free(plan->values);
    yki_free(plan->tasks);
    yki_free(plan->node_value);
    yki_free(plan->unmerged);
    yki_free(plan->stops);
    yki_free(plan->bucket_task);
    yki_free(plan->asked);
    yki_free(plan->skips);
    yki_free(plan);
}

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
set_batch(yki_plan *plan, int64_t n)
{
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        for (size_t k = 0; k < task->recipe.launch_count; k++) {
            const yki_launch *launch = &task->recipe.launches[k];

            for (uint32_t i = 0; i < launch->arg_count; i++) {
                int32_t value;

                if (launch->args[i].kind != YKI_ARG_INT)
                    continue;
                value = (int32_t)yki_expr_value(launch->args[i].expr, n);
                YKI_TRY(yki_kernel_set(task->kernels[k], i, sizeof value, &value));
            }
        }
    }
    plan->batch = n;
    return YOKE_OK;
}

static yoke_status
enqueue_launch(yki_plan *plan, const yki_task *task, size_t index, yki_event *done)
{
    yki_grid grid;
    int64_t n = plan->batch;

    if (!yki_launch_grid_at(&task->recipe.launches[index], n, &grid))
        return YOKE_OK;
    return yki_queue_launch(plan->queue, task->kernels[index], &grid, YKI_NO_WAIT, done);
}

static yoke_status
enqueue_call(yki_plan *plan, const yki_task *task)
{
    yki_buffer *slots[YKI_MAX_SLOTS] = {0};

    yki_plan_slots(plan, task, slots);
    return task->recipe.call->run(plan->queue, slots, plan->batch, task->recipe.call_data);
}

static yoke_status
enqueue_task(yki_plan *plan, const yki_task *task, yki_phase phase)
{
    if (phase == YKI_PHASE_RUN && yki_plan_repacks(plan) && plan->batch > 0)
        YKI_TRY(enqueue_task(plan, task, YKI_PHASE_PREPARE));
    if (task->recipe.call && phase == YKI_PHASE_RUN)
        YKI_TRY(enqueue_call(plan, task));
    for (size_t k = 0; k < task->recipe.launch_count; k++)
        if (task->recipe.launches[k].phase == phase)
            YKI_TRY(enqueue_launch(plan, task, k, NULL));
    return YOKE_OK;
}

yoke_status
yki_plan_begin(yki_plan *plan, yki_section section, int64_t n)
{
    (void)section;
    if (n < 0 || n > plan->options.max_batch)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "a batch of %lld, the plan is for batches of 0 to %lld", (long long)n,
                        (long long)plan->options.max_batch);
    if (n != plan->batch)
        YKI_TRY(set_batch(plan, n));
    if (plan->prepared_version == plan->weights->version || yki_plan_repacks(plan))
        return YOKE_OK;
    for (size_t t = 0; t < plan->task_count; t++)
        YKI_TRY(enqueue_task(plan, &plan->tasks[t], YKI_PHASE_PREPARE));
    plan->prepared_version = plan->weights->version;
    return YOKE_OK;
}

yoke_status
yki_plan_enqueue_tasks(yki_plan *plan, yki_section section, size_t first, size_t end)
{
    for (size_t t = first; t < end; t++)
        if (plan->tasks[t].section == section && !(plan->asks && plan->skips[t]))
            YKI_TRY(enqueue_task(plan, &plan->tasks[t], YKI_PHASE_RUN));
    return YOKE_OK;
}

yoke_status
yki_plan_enqueue(yki_plan *plan, yki_section section, int64_t n, yki_event *done)
{
    YKI_TRY(yki_plan_begin(plan, section, n));
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
    for (size_t i = 0; plan->commits && i < plan->weights->state_count; i++) {
        /* At most 16384 turns a work-item. */
        const yki_grid grid = {{plan->weights->states[i].size / 4 / 16384 + 1, 1, 1}, {1, 1, 1}};

        if (plan->commits[i])
            YKI_TRY(yki_queue_launch(queue, plan->commits[i], &grid, YKI_NO_WAIT, NULL));
    }
    return yki_plan_commit_running(plan, queue);
}

/* Also of a plan that is packed, but not bound. */
uint64_t
yki_plan_memory(const yki_plan *plan)
{
    uint64_t limit = yki_device_get_traits(yki_queue_device(plan->queue))->max_allocation;
    uint64_t bytes = 0, largest = 0;

    for (size_t i = 0; i < plan->chunk_count; i++) {
        bytes += plan->chunk_sizes[i];
        largest = YKI_MAX(largest, plan->chunk_sizes[i]);
    }
    for (size_t v = 0; v < plan->value_count; v++) {
        const yki_value *value = &plan->values[v];

        if (value->alias >= 0 || value->storage == YKI_STORE_LENT ||
            value->storage == YKI_STORE_ARENA)
            continue;
        bytes += value->size;
        largest = YKI_MAX(largest, value->size);
    }
    return largest <= limit ? bytes : UINT64_MAX;
}

yoke_status
yki_plan_memory_at(const yki_plan *plan, int64_t batch, uint64_t *bytes)
{
    yki_plan_options options = plan->options;
    uint64_t repacked = 0;
    yki_plan *other;
    yoke_status status;

    if (options.level != YKI_LEVEL_ESTIMATE)
        YKI_TRY(yki_plan_repacked(plan, batch, &repacked));
    options.max_batch = batch;
    options.level = YKI_LEVEL_ESTIMATE;
    YKI_TRY(begin(plan->weights, plan->queue, &options, &other));
    status = decide(other);
    if (status == YOKE_OK)
        status = yki_plan_recompute(other);
    if (status == YOKE_OK)
        status = yki_plan_pack(other);
    if (status == YOKE_OK)
        *bytes = YKI_MAX(yki_plan_memory(other), repacked);
    yki_plan_destroy(other);
    return status;
}

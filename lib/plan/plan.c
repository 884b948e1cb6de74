/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - makes a plan, and frees it. The stages are in files of their own.
 */
#include <string.h>

#include "plan/plan.h"

/* Makes an empty plan. */
static yoke_status
begin(yki_weights *weights, yki_queue *queue, const yki_plan_options *options, yki_plan **out)
{
    yki_plan *plan;

    if (options->max.batch < 1)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the largest batch of a plan",
                              options->max.batch, 1, INT64_MAX);
    plan = yki_alloc(1, sizeof *plan, "a plan");
    if (!plan)
        return YOKE_ERROR_OUT_OF_MEMORY;
    plan->options = *options;
    plan->options.max.length = weights->graph->length;
    plan->weights = yki_weights_retain(weights);
    plan->queue = queue;
    plan->extents = (yki_extents){.batch = -1};
    for (int i = 0; i <= YKI_CANONICAL_FIXED; i++)
        yki_canonical_traits(yki_device_get_traits(yki_queue_device(queue)), (yki_canonical)i,
                             &plan->canonical[i]);
    plan->measuring.seconds = options->spent;
    *out = plan;
    return YOKE_OK;
}

/* Runs the stages that decide on tasks and solvers. */
static yoke_status
decide(yki_plan *plan)
{
    YKI_TRY(yki_plan_lower(plan));
    YKI_TRY(yki_plan_fuse(plan));
    YKI_TRY(yki_plan_search(plan));
    YKI_TRY(yki_plan_choose(plan));
    YKI_TRY(yki_plan_join(plan));
    return yki_plan_hasten(plan);
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
    *seconds = plan->measuring.seconds;
    yki_plan_destroy(plan);
    return status;
}

yoke_status
yki_plan_compile(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                 yki_claims *claims)
{
    yki_plan *plan;
    yoke_status status;

    YKI_TRY(begin(weights, queue, options, &plan));
    status = yki_plan_lower(plan);
    if (status == YOKE_OK)
        status = yki_plan_fuse(plan);
    if (status == YOKE_OK)
        status = yki_plan_compile_tasks(plan, claims);
    yki_plan_destroy(plan);
    return status;
}

yoke_status
yki_plan_find_loads(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                    yki_load *loads, bool *measured)
{
    yki_plan *plan;
    yoke_status status;

    YKI_TRY(begin(weights, queue, options, &plan));
    status = decide(plan);
    if (status == YOKE_OK)
        status = yki_plan_count_loads(plan, loads, measured);
    yki_plan_destroy(plan);
    return status;
}

static yoke_status
make(yki_plan *plan)
{
    char text[256];

    YKI_TRY(decide(plan));
    YKI_TRY(yki_classes_check(plan));
    YKI_TRY(yki_plan_recompute(plan));
    YKI_TRY(yki_plan_pack(plan));
    if (plan->recomputed.tasks || (plan->options.most && plan->halved.values))
        yki_log(YOKE_LOG_INFO, "%s: %s", yki_device_id(yki_queue_device(plan->queue)),
                yki_plan_recomputed_text(plan, text, sizeof text));
    YKI_TRY(yki_plan_bind(plan));
    return yki_queue_finish(plan->queue);
}

/* Whether a plan that took too much memory may take less in another form: what is joined or
 * hastened needs more at a time, and what is joined offers less to be computed again. */
static bool
may_shrink(const yki_plan *plan, yoke_status status)
{
    return yki_lacks_memory(status) &&
           (plan->joined || plan->hastened || (plan->options.most && !plan->options.small));
}

static void
shrink(yki_plan_options *o)
{
    o->no_join = true;
    o->small = o->small || o->most;
}

/* Where memory is too short, the plan is made again. Wisdom has the times of tasks that both have;
 * what is left of the time for measuring goes to the others. */
yoke_status
yki_plan_create(yki_weights *weights, yki_queue *queue, const yki_plan_options *options,
                yki_plan **out)
{
    yki_plan *plan;
    yoke_status status;

    YKI_TRY(begin(weights, queue, options, &plan));
    status = make(plan);
    if (may_shrink(plan, status)) {
        yki_plan_options again = *options;
        const uint64_t before = plan->recomputed.before;

        shrink(&again);
        again.spent = plan->measuring.seconds;
        (void)yki_queue_finish(queue); /* an error that it keeps is of this plan */
        yki_plan_destroy(plan);
        YKI_TRY(begin(weights, queue, &again, &plan));
        plan->recomputed.before = before;
        status = make(plan);
    }
    if (status != YOKE_OK) {
        yki_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return YOKE_OK;
}

/* Forgets what a twin has from its plan, and from the one whose memory it uses. */
static void
give_back(yki_plan *twin)
{
    for (size_t t = 0; t < twin->task_count; t++) {
        twin->tasks[t].recipe.launches = NULL;
        twin->tasks[t].recipe.launch_count = 0;
    }
    if (twin->memory) {
        twin->chunks.buffers = NULL;
        twin->running.pool = NULL;
    }
    twin->chunks.sizes = NULL;
    twin->running.list = NULL;
    twin->late.list = NULL;
    twin->node_value = twin->unmerged = NULL;
    memset(&twin->asked, 0, sizeof twin->asked);
    memset(&twin->sets, 0, sizeof twin->sets);
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
    }
    yki_plan_withdraw_buckets(plan);
    if (plan->twin_of)
        give_back(plan);
    for (size_t t = 0; t < plan->task_count; t++)
        yki_recipe_clear(&plan->tasks[t].recipe);
    for (size_t v = 0; v < plan->value_count; v++)
        if (plan->values[v].owned)
            yki_buffer_destroy(plan->values[v].buffer);
    for (size_t i = 0; plan->chunks.buffers && i < plan->chunks.count; i++)
        yki_buffer_destroy(plan->chunks.buffers[i]);
    for (size_t i = 0; plan->commits && i < plan->weights->state_count; i++)
        yki_kernel_destroy(plan->commits[i]);
    yki_free(plan->commits);
    yki_plan_free_running(plan);
    yki_plan_free_late_sums(plan);
    yki_buffer_destroy(plan->step_values);
    yki_weights_release(plan->weights);
    yki_free(plan->chunks.buffers);
    yki_free(plan->chunks.sizes);
    yki_free(plan->values);
    yki_free(plan->tasks);
    yki_free(plan->node_value);
    yki_free(plan->unmerged);
    yki_free(plan->stops);
    yki_free(plan->bucket_task);
    yki_free(plan->asked.nodes);
    yki_free(plan->asked.skips);
    yki_free(plan->sets.list);
    yki_free(plan);
}

static yoke_status
estimate(yki_weights *weights, yki_queue *queue, const yki_plan_options *options, uint64_t *bytes,
         bool *smaller)
{
    yki_plan *other;
    yoke_status status;

    YKI_TRY(begin(weights, queue, options, &other));
    status = decide(other);
    if (status == YOKE_OK)
        status = yki_plan_recompute(other);
    if (status == YOKE_OK)
        status = yki_plan_pack(other);
    if (status == YOKE_OK)
        *bytes = yki_plan_memory(other);
    *smaller = options->most && may_shrink(other, status);
    yki_plan_destroy(other);
    return status;
}

yoke_status
yki_plan_estimate(yki_weights *weights, yki_queue *queue, const yki_plan_options *given,
                  uint64_t *bytes)
{
    yki_plan_options options = *given;
    bool smaller;
    yoke_status status;

    options.level = YOKE_PLAN_ESTIMATE;
    options.only_bytes = true;
    status = estimate(weights, queue, &options, bytes, &smaller);
    if (smaller) {
        shrink(&options);
        status = estimate(weights, queue, &options, bytes, &smaller);
    }
    if (options.most && status == YOKE_ERROR_OUT_OF_DEVICE_MEMORY) {
        *bytes = UINT64_MAX;
        return YOKE_OK;
    }
    return status;
}

/* No plan takes one byte, so the search for what is possible is made. */
yoke_status
yki_plan_least(yki_weights *weights, yki_queue *queue, const yki_plan_options *given,
               uint64_t *bytes)
{
    yki_plan_options options = *given;
    yki_plan *other;
    yoke_status status;

    options.level = YOKE_PLAN_ESTIMATE;
    options.most = 1;
    shrink(&options);
    YKI_TRY(begin(weights, queue, &options, &other));
    status = decide(other);
    if (status == YOKE_OK)
        status = yki_plan_recompute(other);
    *bytes = other->recomputed.least ? other->recomputed.least : UINT64_MAX;
    yki_plan_destroy(other);
    return yki_lacks_memory(status) ? YOKE_OK : status;
}

yoke_status
yki_plan_memory_at(const yki_plan *plan, yki_extents max, uint64_t *bytes)
{
    yki_plan_options options = plan->options;
    uint64_t repacked = 0;

    if (options.level != YOKE_PLAN_ESTIMATE && !options.most)
        YKI_TRY(yki_plan_repacked(plan, max, &repacked));
    options.max = max;
    YKI_TRY(yki_plan_estimate(plan->weights, plan->queue, &options, bytes));
    *bytes = YKI_MAX(*bytes, repacked);
    return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * buckets.c - memory for gradients that are kept only until somebody has taken them.
 *
 * Where a device keeps a part of the gradients alone, it needs room for a whole bucket from the
 * first task that writes to it until its sum has left. Buckets then are values of the plan, packed
 * with all others by lifetime: they take the place of what forward has kept and backward has read,
 * and of buckets before them.
 *
 * How long a bucket lives depends on who takes it. If commands of the plan's queue do, right behind
 * its last task, that task ends it. If the host does, it lets the device compute `lag` more buckets
 * first, so that there is always something to do. Where backward has stops, at which the host waits
 * anyway, it takes at a stop all that is complete by then on every device; for a device that is one
 * stop behind there is room for as long. Where weights are gathered at stops, they are many, and
 * what is complete is taken at the next, so that there is something to do here too.
 *
 * Nothing writes to the gaps between parameters, or to the gradient of one that nobody computes. So
 * a bucket begins with zeros.
 */
#include "plan/plan.h"

yoke_status
yki_plan_add_buckets(yki_plan *plan)
{
    const yki_weights *w = plan->weights;

    if (!w->transient || !plan->options.training)
        return YOKE_OK;
    for (size_t b = 0; b < w->bucket_count; b++) {
        const yki_value value = {.alias = -1,
                                 .storage = YKI_STORE_ARENA,
                                 .operand = {.layout = YKI_PLAIN},
                                 .within = (uint32_t)b + 1};
        int32_t index;

        YKI_TRY(yki_plan_add_value(plan, &value, &index));
        plan->values[index].size = w->buckets[b].size;
        if (b == 0)
            plan->bucket_value = index;
    }
    return YOKE_OK;
}

/* Returns the value that is a bucket's memory; NULL: gradients are not transient. */
static yki_value *
memory_of(const yki_plan *plan, size_t bucket)
{
    return plan->bucket_value ? &plan->values[plan->bucket_value + (int32_t)bucket] : NULL;
}

/* Adds what tasks do to buckets to their lifetimes. */
static void
note_uses(const yki_plan *plan)
{
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        for (uint32_t s = 0; s < yki_problem_operands(&task->problem); s++) {
            const uint32_t within = plan->values[yki_value_root(plan, task->slots[s])].within;
            yki_value *memory = within ? memory_of(plan, within - 1) : NULL;

            if (!memory)
                continue;
            memory->first = YKI_MIN(memory->first, (int32_t)t);
            memory->last = YKI_MAX(memory->last, (int32_t)t);
        }
    }
}

/* The first task from `t` on before which backward stops; task_count: there is none. */
static int32_t
next_stop(const yki_plan *plan, int32_t t)
{
    const int32_t gather = yki_plan_next_gather(plan, t);

    while (t < gather &&
           (plan->tasks[t].problem.op != &yki_op_merge || plan->tasks[t].section != YKI_BACKWARD))
        t++;
    return YKI_MIN(t, gather);
}

/* Before the first task of backward buckets are taken that no task of backward writes: when all of
 * forward is enqueued. */
static int32_t
first_of_backward(const yki_plan *plan)
{
    int32_t t = 0;

    while (t < (int32_t)plan->task_count && plan->tasks[t].section != YKI_BACKWARD)
        t++;
    return t;
}

void
yki_plan_keep_buckets(yki_plan *plan)
{
    const size_t count = plan->weights->bucket_count;
    const size_t lag = plan->options.lag;
    const int32_t backward = first_of_backward(plan);
    const bool stops = next_stop(plan, 0) < (int32_t)plan->task_count;

    if (!plan->bucket_value)
        return;
    note_uses(plan);
    /* Buckets are taken in their order, so none before the one that it follows. */
    for (size_t b = 0; b < count; b++) {
        yki_value *memory = memory_of(plan, b);

        if (memory->first == INT32_MAX) /* nobody computes a gradient of it: zeros all along */
            memory->first = 0;
        memory->last = YKI_MAX(memory->last, backward);
        if (b > 0)
            memory->last = YKI_MAX(memory->last, memory_of(plan, b - 1)->last);
        plan->tasks[memory->first].opens = true;
    }
    for (size_t b = 0; b < count && lag; b++) {
        yki_value *memory = memory_of(plan, b);

        if (stops) {
            memory->last = next_stop(plan, next_stop(plan, memory->last + 1) + 1);
            if (plan->weights->divided) /* it is taken one stop later */
                memory->last = next_stop(plan, memory->last + 1);
        } else {
            memory->last =
                b + lag < count ? memory_of(plan, b + lag)->last : (int32_t)plan->task_count;
        }
    }
}

yoke_status
yki_plan_lend_buckets(yki_plan *plan)
{
    yki_weights *w = plan->weights;

    if (!plan->bucket_value)
        return YOKE_OK;
    plan->lends_buckets = true;
    for (size_t b = 0; b < w->bucket_count; b++) {
        const yki_value *memory = memory_of(plan, b);

        YKI_TRY(yki_buffer_view(plan->chunks.buffers[memory->chunk], memory->offset,
                                w->buckets[b].size, &w->buckets[b].gradients));
    }
    for (size_t v = 0; v < plan->value_count; v++) {
        yki_value *value = &plan->values[v];
        const yki_value *memory = value->within ? memory_of(plan, value->within - 1) : NULL;

        if (!memory || value->storage != YKI_STORE_LENT)
            continue;
        YKI_TRY(yki_buffer_view(
            plan->chunks.buffers[memory->chunk],
            memory->offset + value->offset - w->buckets[value->within - 1].start,
            (uint64_t)yki_value_bytes(&value->operand, plan->options.max), &value->buffer));
        value->owned = true;
    }
    return YOKE_OK;
}

void
yki_plan_withdraw_buckets(yki_plan *plan)
{
    yki_weights *w = plan->weights;

    for (size_t b = 0; plan->lends_buckets && b < w->bucket_count; b++) {
        yki_buffer_destroy(w->buckets[b].gradients);
        w->buckets[b].gradients = NULL;
    }
}

yoke_status
yki_plan_open_buckets(yki_plan *plan, size_t task)
{
    for (size_t b = 0; b < plan->weights->bucket_count; b++)
        if (memory_of(plan, b)->first == (int32_t)task)
            YKI_TRY(yki_queue_fill(plan->queue, plan->weights->buckets[b].gradients, 0,
                                   plan->weights->buckets[b].size, 0, YKI_NO_WAIT, NULL));
    return YOKE_OK;
}

size_t
yki_plan_bucket_end(const yki_plan *plan, size_t bucket)
{
    return (size_t)memory_of(plan, bucket)->last;
}

uint64_t
yki_plan_most_at_once(const yki_plan *plan, int32_t first, size_t count)
{
    const yki_value *memory = &plan->values[first];
    uint64_t most = 0;

    /* The most are there where one begins. */
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = 0;

        for (size_t k = 0; k < count; k++)
            if (memory[k].first <= memory[i].first && memory[k].last >= memory[i].first)
                bytes += memory[k].size;
        most = YKI_MAX(most, bytes);
    }
    return most;
}

uint64_t
yki_plan_bucket_bytes(const yki_plan *plan)
{
    return plan->bucket_value
               ? yki_plan_most_at_once(plan, plan->bucket_value, plan->weights->bucket_count)
               : 0;
}

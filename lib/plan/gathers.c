/* SPDX-License-Identifier: Apache-2.0
 *
 * gathers.c - memory for weights of which a device keeps a part.
 *
 * Whole buckets of them are there only while tasks read them: in forward, and again in backward.
 * Each is a value of the plan in each section, packed with all others by lifetime; the tasks of
 * backward read a second value of each parameter, which may lie elsewhere. The caller fills a
 * bucket at a stop of the plan. Packed copies are made anew before each task (yki_plan_repacks), so
 * none is older than what it was made of.
 *
 * All devices of all processes gather together, in an order that follows from the graph, whatever
 * tasks a plan has (gather_order.c). A task that reads a bucket earlier than in that order has all
 * come that stand before it. Every bucket is gathered in every section, even if this plan does not
 * read it. A bucket comes when the one before it is read first: then it travels while devices
 * compute with that one.
 */
#include "plan/plan.h"

static size_t
sections(const yki_plan *plan)
{
    return plan->options.training ? 2 : 1;
}

/* The value that is the memory of the bucket whose gather has this number. */
static yki_value *
memory_of(const yki_plan *plan, size_t index)
{
    const yki_weights *w = plan->weights;

    return &plan->values[(size_t)plan->weights_value + w->gather_order[index] +
                         (index < w->bucket_count ? 0 : w->bucket_count)];
}

/* Returns a value for tasks of backward in the place of a parameter, or of a view of one. Others
 * stay as they are. */
static yoke_status
replace(yki_plan *plan, int32_t *replaced, int32_t value, int32_t *by)
{
    const int32_t root = yki_value_root(plan, value);
    yki_value made = plan->values[value];

    *by = value;
    if (!plan->values[root].gathered || plan->values[root].gathered > plan->weights->bucket_count)
        return YOKE_OK;
    if (!replaced[value]) {
        if (root == value)
            made.gathered += (uint32_t)plan->weights->bucket_count;
        else
            YKI_TRY(replace(plan, replaced, root, &made.alias));
        if (made.storage == YKI_STORE_KEPT) /* the result is the one that forward has */
            made.storage = YKI_STORE_ARENA;
        YKI_TRY(yki_plan_add_value(plan, &made, &replaced[value]));
    }
    *by = replaced[value];
    return YOKE_OK;
}

static yoke_status
replace_all(yki_plan *plan)
{
    int32_t *replaced = yki_alloc(plan->value_count, sizeof *replaced, "a plan's weights");
    yoke_status status = replaced ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t t = 0; t < plan->task_count && status == YOKE_OK; t++) {
        yki_task *task = &plan->tasks[t];
        const uint32_t slots =
            YKI_MAX(task->recipe.slot_count, yki_problem_operands(&task->problem));

        for (uint32_t s = 0; s < slots && task->section == YKI_BACKWARD && status == YOKE_OK; s++)
            status = replace(plan, replaced, task->slots[s], &task->slots[s]);
    }
    yki_free(replaced);
    return status;
}

yoke_status
yki_plan_add_gathers(yki_plan *plan)
{
    const yki_weights *w = plan->weights;

    if (!w->divided)
        return YOKE_OK;
    YKI_TRY(replace_all(plan));
    for (size_t i = 0; i < sections(plan) * w->bucket_count; i++) {
        const yki_value value = {.alias = -1,
                                 .storage = YKI_STORE_ARENA,
                                 .operand = {.layout = YKI_PLAIN},
                                 .within = (uint32_t)(i % w->bucket_count) + 1,
                                 .gathered = (uint32_t)i + 1};
        int32_t index;

        YKI_TRY(yki_plan_add_value(plan, &value, &index));
        plan->values[index].size = w->buckets[i % w->bucket_count].size;
        if (i == 0)
            plan->weights_value = index;
    }
    return YOKE_OK;
}

/* An output that is a parameter is read after a run. */
static void
keep_outputs(yki_plan *plan)
{
    const yoke_graph *graph = plan->weights->graph;

    for (size_t i = 0; i < graph->output_count; i++) {
        const int32_t of = plan->node_value[graph->outputs[i].node->id];
        yki_value *value = of < 0 ? NULL : &plan->values[yki_value_root(plan, of)];

        if (!value || !value->gathered)
            continue;
        value->first = YKI_MIN(value->first, (int32_t)plan->task_count - 1);
        value->last = (int32_t)plan->task_count;
    }
}

/* Adds the lifetimes of weights to those of their memory. */
static void
note_uses(yki_plan *plan)
{
    for (int32_t v = 0; v < plan->weights_value; v++) {
        const yki_value *value = &plan->values[v];
        yki_value *memory;

        if (!value->gathered || value->alias >= 0 || value->last < 0)
            continue;
        memory = &plan->values[plan->weights_value + (int32_t)value->gathered - 1];
        memory->first = YKI_MIN(memory->first, value->first);
        memory->last = YKI_MAX(memory->last, value->last);
    }
}

void
yki_plan_keep_gathers(yki_plan *plan)
{
    const size_t count = plan->weights->bucket_count;

    if (!plan->weights_value)
        return;
    keep_outputs(plan);
    note_uses(plan);
    for (size_t section = 0; section < sections(plan); section++) {
        const size_t first = section * count, end = first + count;
        int32_t next = 0;

        for (size_t t = 0; t < plan->task_count; t++)
            if (plan->tasks[t].section == (yki_section)section)
                next = (int32_t)t;
        for (size_t i = end; i-- > first;)
            memory_of(plan, i)->first = next = YKI_MIN(memory_of(plan, i)->first, next);
        for (size_t i = end; i-- > first + 1;)
            memory_of(plan, i)->first = memory_of(plan, i - 1)->first;
    }
}

yoke_status
yki_plan_lend_gathers(yki_plan *plan)
{
    for (int32_t v = 0; v < plan->weights_value; v++) {
        yki_value *value = &plan->values[v];
        const yki_value *memory;

        if (!value->gathered || value->alias >= 0 || value->last < 0)
            continue;
        memory = &plan->values[plan->weights_value + (int32_t)value->gathered - 1];
        YKI_TRY(yki_buffer_view(plan->chunks.buffers[memory->chunk], memory->offset + value->offset,
                                (uint64_t)yki_value_bytes(&value->operand, plan->options.max),
                                &value->buffer));
        value->owned = true;
    }
    return YOKE_OK;
}

size_t
yki_plan_gather_count(const yki_plan *plan)
{
    return plan->weights_value ? sections(plan) * plan->weights->bucket_count : 0;
}

yki_stop
yki_plan_gather(const yki_plan *plan, size_t index)
{
    const yki_value *memory = memory_of(plan, index);

    return (yki_stop){.task = (size_t)memory->first,
                      .section = index < plan->weights->bucket_count ? YKI_FORWARD : YKI_BACKWARD,
                      .out = memory->buffer,
                      .gathers = memory->within};
}

int32_t
yki_plan_next_gather(const yki_plan *plan, int32_t task)
{
    for (size_t i = plan->weights->bucket_count; i < yki_plan_gather_count(plan); i++)
        if (memory_of(plan, i)->first >= task)
            return memory_of(plan, i)->first;
    return (int32_t)plan->task_count;
}

uint64_t
yki_plan_gathered_bytes(const yki_plan *plan)
{
    return yki_plan_most_at_once(plan, plan->weights_value, yki_plan_gather_count(plan));
}

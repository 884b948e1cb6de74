/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c - memory for the values between tasks. An operator that works in place takes over the
 * memory of its input; the rest is packed by lifetime.
 *
 * The largest value is placed first. Each value goes to the lowest offset where it overlaps no
 * value that lives at the same time. For networks that is within a few per cent of the bound,
 * which is the largest sum of the values that live at once. This compares every value with
 * every other. So more than FEW values are placed in the order of time instead, each in the
 * smallest gap where it fits.
 *
 * The device's largest allocation limits a chunk, and there are as many chunks as needed.
 * Forward and backward may run apart, so lifetimes are positions in the one list of tasks of
 * both.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

enum { FEW = 1024 };

/* Adds the scratch and prepared slots of a task's recipe as values. Prepared slots hold packed
 * weights. In a plan that packs weights in each run they are scratch too: this halves the plan of
 * ResNet-18. A task that runs again shares those that are kept. */
static yoke_status
add_slots(yki_plan *plan, yki_task *task)
{
    for (uint32_t s = yki_problem_operands(&task->problem); s < task->recipe.slot_count; s++) {
        const yki_slot *slot = &task->recipe.slots[s];
        yki_value value = {.alias = -1};

        if (task->again && slot->kind == YKI_SLOT_PREPARED && !yki_plan_repacks(plan)) {
            task->slots[s] = plan->tasks[task->first].slots[s];
            continue;
        }
        value.storage = slot->kind == YKI_SLOT_PREPARED && !yki_plan_repacks(plan)
                            ? YKI_STORE_KEPT
                            : YKI_STORE_ARENA;
        value.operand = (yki_operand){.layout = YKI_PLAIN};
        YKI_TRY(yki_plan_add_value(plan, &value, &task->slots[s]));
        plan->values[task->slots[s]].size =
            (uint64_t)yki_expr_value(slot->bytes, yki_task_extents(task, plan->options.max));
    }
    return YOKE_OK;
}

static void
find_lifetimes(yki_plan *plan)
{
    for (size_t v = 0; v < plan->value_count; v++) {
        plan->values[v].first = INT32_MAX;
        plan->values[v].last = -1;
    }
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];
        uint32_t slots = YKI_MAX(task->recipe.slot_count, yki_problem_operands(&task->problem));

        for (uint32_t s = 0; s < slots; s++) {
            yki_value *value = &plan->values[yki_value_root(plan, task->slots[s])];

            value->first = YKI_MIN(value->first, (int32_t)t);
            value->last = YKI_MAX(value->last, (int32_t)t);
        }
    }
    /* A result that is a view uses the memory of another value, which then lives to the end. */
    for (size_t v = 0; v < plan->value_count; v++)
        if (plan->values[v].storage == YKI_STORE_KEPT && plan->values[v].alias >= 0)
            plan->values[yki_value_root(plan, (int32_t)v)].last = (int32_t)plan->task_count;
}

/* Lets a result take over the memory of an input that no later task uses. */
static void
share_in_place(yki_plan *plan)
{
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];
        int32_t out = task->slots[task->problem.input_count];

        if (!task->solver || plan->values[out].alias >= 0 ||
            plan->values[out].storage != YKI_STORE_ARENA)
            continue;
        for (uint32_t k = 0; k < task->problem.input_count; k++) {
            int32_t in = yki_value_root(plan, task->slots[k]);
            yki_value *from = &plan->values[in], *to = &plan->values[out];

            if (!(task->problem.op->in_place >> k & 1) || from->storage != YKI_STORE_ARENA ||
                from->last != (int32_t)t || from->size != to->size || to->first != (int32_t)t)
                continue;
            to->alias = in;
            from->last = to->last;
            break;
        }
    }
}

/* The state of packing values into chunks. */
typedef struct packing {
    yki_plan *plan;
    yki_value **values; /* the values to be placed */
    size_t count;
    uint64_t limit; /* bytes of a chunk */
} packing;

static yoke_status
add_chunk(yki_plan *plan)
{
    YKI_TRY(yki_grow((void **)&plan->chunks.sizes, &plan->chunks.capacity, plan->chunks.count + 1,
                     sizeof *plan->chunks.sizes, "a plan's chunks"));
    plan->chunks.sizes[plan->chunks.count++] = 0;
    return YOKE_OK;
}

static void
put(yki_plan *plan, yki_value *value, uint32_t chunk, uint64_t offset)
{
    value->chunk = chunk;
    value->offset = offset;
    plan->chunks.sizes[chunk] = YKI_MAX(plan->chunks.sizes[chunk], offset + value->size);
}

/* ---- few values: the largest first ---- */

static int
larger_first(const void *a, const void *b)
{
    const yki_value *x = *(yki_value *const *)a, *y = *(yki_value *const *)b;

    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x < y ? -1 : 1;
}

static bool
meet(const yki_value *a, const yki_value *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Returns the lowest offset in a chunk where `value` fits among the values in `placed`, which are
 * in the order of their offsets. */
static uint64_t
lowest_offset(yki_plan *plan, yki_value *const *placed, size_t count, const yki_value *value,
              uint32_t chunk)
{
    uint64_t offset = 0;

    for (size_t i = 0; i < count; i++) {
        const yki_value *other = placed[i];

        plan->work++;
        if (other->chunk != chunk || !meet(value, other))
            continue;
        if (other->offset >= offset + value->size)
            break;
        offset = YKI_MAX(offset, other->offset + other->size);
    }
    return offset;
}

static yoke_status
place(packing *p, yki_value **placed, size_t count)
{
    yki_value *value = p->values[count];
    uint64_t offset;
    uint32_t chunk = 0;
    size_t at = count;

    for (;; chunk++) {
        if (chunk == p->plan->chunks.count)
            YKI_TRY(add_chunk(p->plan));
        offset = lowest_offset(p->plan, placed, count, value, chunk);
        if (offset + value->size <= p->limit || p->plan->chunks.sizes[chunk] == 0)
            break;
    }
    put(p->plan, value, chunk, offset);
    for (; at > 0 && placed[at - 1]->offset > offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = value;
    return YOKE_OK;
}

static yoke_status
pack_by_size(packing *p)
{
    yki_value **placed = yki_alloc(p->count, sizeof *placed, "a plan's memory map");
    yoke_status status = YOKE_OK;

    if (!placed)
        return YOKE_ERROR_OUT_OF_MEMORY;
    qsort(p->values, p->count, sizeof *p->values, larger_first);
    for (size_t i = 0; i < p->count && status == YOKE_OK; i++)
        status = place(p, placed, i);
    yki_free(placed);
    return status;
}

/* ---- many values: in the order of time ---- */

typedef struct gap {
    uint32_t chunk;
    uint64_t offset, size;
} gap;

typedef struct gaps {
    gap *list; /* by chunk and offset; no two touch */
    size_t count, capacity;
} gaps;

static int
by_first(const void *a, const void *b)
{
    const yki_value *x = *(yki_value *const *)a, *y = *(yki_value *const *)b;

    return x->first != y->first ? (x->first < y->first ? -1 : 1) : larger_first(a, b);
}

static int
by_last(const void *a, const void *b)
{
    const yki_value *x = *(yki_value *const *)a, *y = *(yki_value *const *)b;

    return x->last != y->last ? (x->last < y->last ? -1 : 1) : larger_first(a, b);
}

static yoke_status
insert_gap(gaps *g, size_t at, gap made)
{
    YKI_TRY(yki_grow((void **)&g->list, &g->capacity, g->count + 1, sizeof *g->list,
                     "a plan's memory map"));
    memmove(g->list + at + 1, g->list + at, (g->count - at) * sizeof *g->list);
    g->list[at] = made;
    g->count++;
    return YOKE_OK;
}

static void
remove_gap(gaps *g, size_t at)
{
    memmove(g->list + at, g->list + at + 1, (g->count - at - 1) * sizeof *g->list);
    g->count--;
}

static bool
touch(const gap *a, const gap *b)
{
    return a->chunk == b->chunk && a->offset + a->size == b->offset;
}

/* Makes a gap of a value's memory. */
static yoke_status
release(packing *p, gaps *g, const yki_value *value)
{
    gap made = {value->chunk, value->offset, value->size};
    size_t at = g->count;

    for (; at > 0 && (g->list[at - 1].chunk > made.chunk || (g->list[at - 1].chunk == made.chunk &&
                                                             g->list[at - 1].offset > made.offset));
         at--)
        p->plan->work++;
    if (at < g->count && touch(&made, &g->list[at])) {
        made.size += g->list[at].size;
        remove_gap(g, at);
    }
    if (at > 0 && touch(&g->list[at - 1], &made)) {
        g->list[at - 1].size += made.size;
        return YOKE_OK;
    }
    return insert_gap(g, at, made);
}

/* Places a value behind all values of a chunk, from a gap at the chunk's end on. Adds a chunk if
 * none has room. */
static yoke_status
take_end(packing *p, gaps *g, yki_value *value)
{
    for (uint32_t chunk = 0;; chunk++) {
        uint64_t end;
        size_t at = 0;

        if (chunk == p->plan->chunks.count)
            YKI_TRY(add_chunk(p->plan));
        end = p->plan->chunks.sizes[chunk];
        while (at < g->count &&
               !(g->list[at].chunk == chunk && g->list[at].offset + g->list[at].size == end))
            at++;
        if (at < g->count)
            end = g->list[at].offset;
        if (end + value->size > p->limit && end > 0)
            continue;
        if (at < g->count)
            remove_gap(g, at);
        put(p->plan, value, chunk, end);
        return YOKE_OK;
    }
}

/* Places a value in the smallest gap that is large enough, or else at the end of a chunk. */
static yoke_status
take_room(packing *p, gaps *g, yki_value *value)
{
    size_t best = g->count;

    for (size_t i = 0; i < g->count; i++) {
        p->plan->work++;
        if (g->list[i].size >= value->size &&
            (best == g->count || g->list[i].size < g->list[best].size))
            best = i;
    }
    if (best == g->count)
        return take_end(p, g, value);
    put(p->plan, value, g->list[best].chunk, g->list[best].offset);
    g->list[best].offset += value->size;
    g->list[best].size -= value->size;
    if (g->list[best].size == 0)
        remove_gap(g, best);
    return YOKE_OK;
}

/* Walks through the order of tasks, takes memory where a value begins, and gives it back after its
 * end. Gaps stay few, because backward gives back in reverse order what forward has made. */
static yoke_status
pack_by_time(packing *p)
{
    yki_value **ending = yki_alloc(p->count, sizeof *ending, "a plan's memory map");
    yoke_status status = YOKE_OK;
    gaps g = {0};
    size_t ended = 0;

    if (!ending)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (p->count)
        memcpy(ending, p->values, p->count * sizeof *ending);
    qsort(p->values, p->count, sizeof *p->values, by_first);
    qsort(ending, p->count, sizeof *ending, by_last);
    for (size_t i = 0; i < p->count && status == YOKE_OK; i++) {
        for (; status == YOKE_OK && ending[ended]->last < p->values[i]->first; ended++)
            status = release(p, &g, ending[ended]);
        if (status == YOKE_OK)
            status = take_room(p, &g, p->values[i]);
    }
    yki_free(ending);
    yki_free(g.list);
    return status;
}

/* Places values that have sizes and lifetimes. */
static yoke_status
pack_values(yki_plan *plan)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));
    packing p = {.plan = plan, .limit = traits->max_allocation};
    yoke_status status;

    p.values = yki_alloc(plan->value_count, sizeof *p.values, "a plan's memory map");
    if (!p.values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t v = 0; v < plan->value_count; v++) {
        yki_value *value = &plan->values[v];

        plan->work++;
        if (value->storage != YKI_STORE_ARENA || value->alias >= 0 || value->last < 0)
            continue;
        value->size = yki_plan_aligned(plan, value->size);
        p.values[p.count++] = value;
    }
    status = p.count <= FEW ? pack_by_size(&p) : pack_by_time(&p);
    yki_free(p.values);
    return status;
}

yoke_status
yki_plan_pack(yki_plan *plan)
{
    for (size_t t = 0; t < plan->task_count; t++)
        YKI_TRY(add_slots(plan, &plan->tasks[t]));
    YKI_TRY(yki_plan_find_late_sums(plan));
    YKI_TRY(yki_plan_add_buckets(plan));
    YKI_TRY(yki_plan_add_gathers(plan));
    find_lifetimes(plan);
    share_in_place(plan);
    yki_plan_keep_gathers(plan);
    yki_plan_keep_buckets(plan);
    return pack_values(plan);
}

/* ---- other extents ---- */

/* The memory of a bucket, whose size no extent changes. */
static bool
is_bucket(const yki_value *value)
{
    return value->within && value->storage == YKI_STORE_ARENA;
}

static void
size_values(yki_plan *plan, yki_extents max)
{
    for (size_t v = 0; v < plan->value_count; v++)
        if (!is_bucket(&plan->values[v]))
            plan->values[v].size = (uint64_t)yki_value_bytes(&plan->values[v].operand, max);
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        for (uint32_t s = yki_problem_operands(&task->problem); s < task->recipe.slot_count; s++)
            plan->values[task->slots[s]].size =
                (uint64_t)yki_expr_value(task->recipe.slots[s].bytes, yki_task_extents(task, max));
    }
}

/* Packs a copy of the plan. Only its values and its chunk sizes are its own. */
yoke_status
yki_plan_repacked(const yki_plan *plan, yki_extents max, uint64_t *bytes)
{
    yki_plan copy = *plan;
    yoke_status status;

    copy.chunks.sizes = NULL;
    copy.chunks.count = copy.chunks.capacity = 0;
    copy.values = yki_alloc(plan->value_count, sizeof *copy.values, "a plan's memory map");
    if (!copy.values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memcpy(copy.values, plan->values, plan->value_count * sizeof *copy.values);
    size_values(&copy, max);
    status = pack_values(&copy);
    *bytes = yki_plan_memory(&copy);
    yki_free(copy.chunks.sizes);
    yki_free(copy.values);
    return status;
}

/* The plan must be packed; it need not be bound. */
uint64_t
yki_plan_memory(const yki_plan *plan)
{
    uint64_t limit = yki_device_get_traits(yki_queue_device(plan->queue))->max_allocation;
    uint64_t bytes = 0, largest = 0;

    for (size_t i = 0; i < plan->chunks.count; i++) {
        bytes += plan->chunks.sizes[i];
        largest = YKI_MAX(largest, plan->chunks.sizes[i]);
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

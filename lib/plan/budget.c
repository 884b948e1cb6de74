/* SPDX-License-Identifier: Apache-2.0
 *
 * budget.c - meets a budget of memory: chooses which tasks of forward are run again in backward, so
 * that the packed values of a plan take no more bytes than options.most, and that this costs as
 * little time as the search below finds.
 *
 * A choice is a set of tasks whose results are dropped. From it follow the order of all tasks
 * (again.c), what lives at each moment, and the time of what runs twice. The search begins with
 * several choices: nothing that backward reads is dropped, or everything between cuts of the
 * network, which lie where few bytes cross and so many bytes of dropped values lie between two.
 * From each it goes on by single tasks, dropping or keeping one: the one that takes away most of
 * what is above the budget for its time. Then tasks whose results fit after all are kept again, the
 * dearest first. Of the choices that fit the cheapest is taken.
 *
 * What lives at a moment is a bound: packing may need a little more. So a choice is packed in the
 * end, and if it is above, the search goes on with a lower aim.
 *
 * To look at a choice takes time in proportion to the tasks, and so does the number of choices
 * that a search wants to see. So the places that a search visits are limited: where a network has
 * thousands of tasks it ends early, with the best that it has.
 *
 * The best choice is not guaranteed; that takes integer programming. Nothing is moved to the host.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/again.h"

enum {
    STARTS = 6,       /* choices from which a search begins; all but the first cut the network */
    AIMS = 8,         /* how often the aim is lowered where packing needs more than the bound */
    HALVINGS = 5,     /* of the interval in which the least memory lies, for the message */
    A_TICK = 64,      /* choices between two signs of life */
    VISITS = 16000000 /* places that a search visits from one start: a fraction of a second */
};

/* A choice that was found. */
typedef struct solution {
    bool *dropped;  /* by task */
    double cost;    /* seconds */
    uint64_t bytes; /* packed; UINT64_MAX: none was found */
} solution;

typedef struct budget {
    yki_plan *plan;
    yki_again again;
    size_t values;
    uint64_t *size;     /* of a value, rounded up */
    uint64_t *scratch;  /* by task: bytes that only it uses */
    double *seconds;    /* by task */
    bool *droppable;    /* by task: its results may be dropped */
    double *gain;       /* by task: what changing it was worth when last tried */
    int32_t *first;     /* by value, and behind those by copy: places in the order */
    int32_t *last;      /* between which it lives; -1: never */
    int64_t *change;    /* by place: bytes that begin to live there, less those that end */
    uint64_t elsewhere; /* bytes of the plan that recomputing does not change */
    size_t judged;      /* choices */
    size_t visits;      /* places, since this start of a search */
    solution best;      /* the cheapest that fits */
    solution least;     /* the one of the fewest bytes */
} budget;

/* What a choice leads to. */
typedef struct outcome {
    double above; /* bytes above the aim, summed over all places */
    double cost;  /* seconds of what runs again */
} outcome;

/* ---- a choice ---- */

static void
touch(budget *b, size_t life, size_t place)
{
    if (b->last[life] < 0)
        b->first[life] = (int32_t)place;
    b->last[life] = (int32_t)place;
}

/* Returns the number of a value's life: of its copy's, if a task of backward reads it or what runs
 * again writes it. Returns -1 for what is not packed. */
static int64_t
life_of(const budget *b, int32_t slot, bool backward, bool written_again)
{
    int32_t root = yki_value_root(b->plan, slot);

    if (written_again || (backward && yki_again_is_dropped(&b->again, root)))
        return (int64_t)b->values + root;
    return b->plan->values[root].storage == YKI_STORE_ARENA ? root : -1;
}

static void
find_lives(budget *b)
{
    const yki_again *a = &b->again;

    for (size_t i = 0; i < 2 * b->values; i++)
        b->last[i] = -1;
    for (size_t place = 0; place < a->count; place++) {
        const bool again = a->order[place] < 0;
        const yki_task *task = &b->plan->tasks[again ? ~a->order[place] : a->order[place]];
        const bool backward = again || task->section == YKI_BACKWARD;

        for (uint32_t s = 0; s < yki_problem_operands(&task->problem); s++) {
            bool is_input = s < task->problem.input_count;
            int64_t life = life_of(b, task->slots[s], backward && (is_input || !task->solver),
                                   again && !is_input);

            if (life >= 0)
                touch(b, (size_t)life, place);
        }
    }
}

static void
add_life(budget *b, int32_t first, int32_t last, uint64_t bytes)
{
    b->change[first] += (int64_t)bytes;
    b->change[last + 1] -= (int64_t)bytes;
}

/* Takes back what is counted twice where a result takes over the memory of an input. */
static void
share_in_place(budget *b, const yki_task *task, bool again, size_t place)
{
    const bool backward = again || task->section == YKI_BACKWARD;
    int32_t out = task->slots[task->problem.input_count];
    int64_t made = life_of(b, out, false, again);

    if (!task->solver || made < 0 || b->first[made] != (int32_t)place)
        return;
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        int64_t in = life_of(b, task->slots[k], backward, false);

        if (!(task->problem.op->in_place >> k & 1) || in < 0 || b->last[in] != (int32_t)place ||
            b->size[yki_value_root(b->plan, task->slots[k])] != b->size[out])
            continue;
        add_life(b, (int32_t)place, (int32_t)place, -b->size[out]);
        return;
    }
}

/* Computes what the choice at hand leads to, where `aim` bytes may live at a time. */
static outcome
judge(budget *b, uint64_t aim)
{
    yki_again *a = &b->again;
    outcome found = {0, 0};
    int64_t live = 0;

    if (b->judged++ % A_TICK == 0)
        yki_plan_tick(b->plan);
    yki_again_order(a);
    b->visits += a->count + 2 * b->values;
    find_lives(b);
    memset(b->change, 0, (a->count + 1) * sizeof *b->change);
    for (size_t i = 0; i < 2 * b->values; i++)
        if (b->last[i] >= 0)
            add_life(b, b->first[i], b->last[i], b->size[i % b->values]);
    for (size_t place = 0; place < a->count; place++) {
        const bool again = a->order[place] < 0;
        const size_t t = (size_t)(again ? ~a->order[place] : a->order[place]);

        b->plan->work++;
        add_life(b, (int32_t)place, (int32_t)place, b->scratch[t]);
        share_in_place(b, &b->plan->tasks[t], again, place);
        found.cost += again ? b->seconds[t] : 0;
    }
    for (size_t place = 0; place < a->count; place++) {
        live += b->change[place];
        found.above += live > (int64_t)aim ? (double)(live - (int64_t)aim) : 0;
    }
    return found;
}

/* ---- the search ---- */

static bool
is_late(const budget *b)
{
    return b->visits > VISITS;
}

/* Returns what it is worth to change task t: bytes above the aim that go, for a second. */
static double
try(budget *b, size_t t, uint64_t aim, const outcome *now)
{
    bool *dropped = &b->again.dropped[t];
    outcome then;

    *dropped = !*dropped;
    then = judge(b, aim);
    *dropped = !*dropped;
    if (then.above >= now->above)
        return -1;
    return (now->above - then.above) / YKI_MAX(then.cost - now->cost, 1e-9);
}

static size_t
best_of(const budget *b)
{
    size_t best = b->plan->task_count;

    for (size_t t = 0; t < b->plan->task_count; t++)
        if (b->droppable[t] && b->gain[t] > 0 &&
            (best == b->plan->task_count || b->gain[t] > b->gain[best]))
            best = t;
    return best;
}

/* Changes tasks one by one until nothing is above the aim. Gains change slowly, so only the best is
 * tried anew before it is taken. Returns false if no change helps, or it has taken too long. */
static bool
descend(budget *b, uint64_t aim)
{
    outcome now = judge(b, aim);
    bool fresh = false;

    for (size_t t = 0; t < b->plan->task_count; t++)
        b->gain[t] = 0;
    while (now.above > 0 && !is_late(b)) {
        size_t best = best_of(b);

        if (best < b->plan->task_count) {
            double before = b->gain[best];

            b->gain[best] = try(b, best, aim, &now);
            if (b->gain[best] <= 0 || (b->gain[best] < before && best_of(b) != best))
                continue;
            b->again.dropped[best] = !b->again.dropped[best];
            now = judge(b, aim);
            b->gain[best] = -1;
            fresh = false;
        } else if (fresh) {
            return false;
        } else {
            for (size_t t = 0; t < b->plan->task_count; t++)
                b->gain[t] = b->droppable[t] && !is_late(b) ? try(b, t, aim, &now) : -1;
            fresh = true;
        }
    }
    return now.above <= 0;
}

typedef struct dear {
    double seconds;
    size_t task;
} dear;

static int
dearest_first(const void *a, const void *b)
{
    const dear *x = a, *y = b;

    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return x->task < y->task ? -1 : 1;
}

/* Keeps the results of tasks again where that leaves nothing above the aim and takes less time. */
static yoke_status
keep_again(budget *b, uint64_t aim)
{
    const size_t tasks = b->plan->task_count;
    dear *list = yki_alloc(tasks, sizeof *list, "a plan's tasks");
    outcome now = judge(b, aim);
    size_t count = 0;

    if (!list)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t t = 0; t < tasks; t++)
        if (b->again.rerun[t] && b->again.dropped[t])
            list[count++] = (dear){b->seconds[t], t};
    qsort(list, count, sizeof *list, dearest_first);
    for (size_t i = 0; i < count && !is_late(b); i++) {
        bool *dropped = &b->again.dropped[list[i].task];
        outcome then;

        *dropped = false;
        then = judge(b, aim);
        if (then.above > 0 || then.cost >= now.cost)
            *dropped = true;
        else
            now = then;
    }
    yki_free(list);
    return YOKE_OK;
}

static void
take(budget *b, solution *into, uint64_t bytes)
{
    memcpy(into->dropped, b->again.dropped, b->plan->task_count * sizeof *into->dropped);
    into->cost = judge(b, UINT64_MAX / 2).cost;
    into->bytes = bytes;
}

/* Packs the choice at hand. */
static yoke_status
weigh(budget *b, uint64_t *bytes)
{
    YKI_TRY(yki_again_bytes(&b->again, bytes));
    if (*bytes < b->least.bytes)
        take(b, &b->least, *bytes);
    return YOKE_OK;
}

/* Looks for a choice within `most` bytes, from the choice at hand. */
static yoke_status
search_from_here(budget *b, uint64_t most)
{
    uint64_t aim = most > b->elsewhere ? most - b->elsewhere : 0, bytes;

    for (int i = 0; i < AIMS && aim > 0; i++) {
        if (!descend(b, aim))
            break;
        YKI_TRY(keep_again(b, aim));
        YKI_TRY(weigh(b, &bytes));
        if (bytes <= most) {
            if (b->best.bytes == UINT64_MAX || judge(b, aim).cost < b->best.cost)
                take(b, &b->best, bytes);
            return YOKE_OK;
        }
        aim = aim > bytes - most ? aim - (bytes - most) : 0;
    }
    return weigh(b, &bytes); /* as far as it came */
}

/* ---- where searches begin ---- */

/* Drops what backward does not read: if it is needed, it is made again rather than kept. */
static void
start_with_all(budget *b)
{
    for (size_t t = 0; t < b->plan->task_count; t++) {
        const yki_task *task = &b->plan->tasks[t];

        b->again.dropped[t] = b->droppable[t];
        for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++)
            b->again.dropped[t] &= !b->again.read[task->slots[s]];
    }
}

/* Gives by task the bytes that cross from the tasks of forward up to it to those behind it. */
static void
find_crossings(budget *b, int64_t *crossing)
{
    const size_t tasks = b->plan->task_count;

    memset(crossing, 0, (tasks + 1) * sizeof *crossing);
    for (size_t v = 0; v < 2 * b->values; v++)
        b->last[v] = -1;
    for (size_t t = 0; t < tasks; t++) {
        const yki_task *task = &b->plan->tasks[t];

        for (uint32_t k = 0; k < task->problem.input_count && task->section == YKI_FORWARD; k++)
            b->last[yki_value_root(b->plan, task->slots[k])] = (int32_t)t;
    }
    for (size_t v = 0; v < b->values; v++) {
        int32_t maker = b->again.maker[v];

        if (maker == YKI_NOWHERE || b->last[v] <= maker)
            continue;
        crossing[maker] += (int64_t)b->size[v];
        crossing[b->last[v]] -= (int64_t)b->size[v];
    }
    for (size_t t = 1; t < tasks; t++)
        crossing[t] += crossing[t - 1];
}

static uint64_t
results_of(const budget *b, size_t t)
{
    const yki_task *task = &b->plan->tasks[t];
    uint64_t bytes = 0;

    for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++)
        bytes += b->droppable[t] ? b->size[task->slots[s]] : 0;
    return bytes;
}

/* Keeps what crosses behind task `cut`. find_crossings has left the last readers. */
static void
keep_crossing(budget *b, size_t cut)
{
    for (size_t v = 0; v < b->values; v++) {
        int32_t maker = b->again.maker[v];

        if (maker != YKI_NOWHERE && maker <= (int32_t)cut && b->last[v] > (int32_t)cut)
            b->again.dropped[maker] = false;
    }
}

/* Drops everything but what crosses a few cuts: behind at least `length` bytes of results the next
 * cut lies where the fewest cross, before there are as many again. */
static yoke_status
start_with_cuts(budget *b, uint64_t length)
{
    const size_t tasks = b->plan->task_count;
    int64_t *crossing = yki_alloc(tasks + 1, sizeof *crossing, "a plan's cuts");
    uint64_t since = 0;
    size_t best = tasks;

    if (!crossing)
        return YOKE_ERROR_OUT_OF_MEMORY;
    find_crossings(b, crossing);
    for (size_t t = 0; t < tasks; t++)
        b->again.dropped[t] = b->droppable[t];
    for (size_t t = 0; t < tasks; t++) {
        since += results_of(b, t);
        if (!b->droppable[t] || since < length)
            continue;
        if (best == tasks || crossing[t] < crossing[best])
            best = t;
        if (since < 2 * length)
            continue;
        keep_crossing(b, best);
        since = 0;
        for (size_t i = best + 1; i <= t; i++)
            since += results_of(b, i);
        best = tasks;
    }
    yki_free(crossing);
    return YOKE_OK;
}

/* Searches from each start, or to the first that leads within `most` bytes if they are all that is
 * asked for. */
static yoke_status
search(budget *b, uint64_t most)
{
    const bool first = b->plan->options.only_bytes;
    uint64_t all = 0;

    for (size_t t = 0; t < b->plan->task_count; t++)
        all += results_of(b, t);
    b->best.bytes = UINT64_MAX;
    for (int i = 0; i < STARTS && !(first && b->best.bytes != UINT64_MAX); i++) {
        b->visits = 0;
        if (i == 0)
            start_with_all(b);
        else
            YKI_TRY(start_with_cuts(b, all >> i));
        YKI_TRY(search_from_here(b, most));
    }
    return YOKE_OK;
}

/* ---- what is known of the tasks ---- */

/* Fills in the times of the tasks. */
static void
find_seconds(budget *b)
{
    b->plan->recomputed.measured = yki_plan_find_seconds(b->plan, b->seconds);
    b->plan->recomputed.whole = 0;
    for (size_t t = 0; t < b->plan->task_count; t++)
        b->plan->recomputed.whole += b->seconds[t];
}

static void
find_sizes(budget *b)
{
    yki_plan *plan = b->plan;

    for (size_t v = 0; v < plan->value_count; v++) {
        const yki_value *value = &plan->values[v];

        b->size[v] = yki_plan_aligned(plan, value->size);
        if (value->alias < 0 && value->storage != YKI_STORE_LENT &&
            value->storage != YKI_STORE_ARENA)
            b->elsewhere += value->size;
    }
    for (size_t t = 0; t < plan->task_count; t++) {
        const yki_task *task = &plan->tasks[t];

        for (uint32_t s = yki_problem_operands(&task->problem); s < task->recipe.slot_count; s++) {
            const yki_slot *slot = &task->recipe.slots[s];
            uint64_t bytes =
                (uint64_t)yki_expr_value(slot->bytes, yki_task_extents(task, plan->options.max));

            if (slot->kind == YKI_SLOT_PREPARED && !yki_plan_repacks(plan))
                b->elsewhere += bytes;
            else
                b->scratch[t] += yki_plan_aligned(plan, bytes);
        }
        for (uint32_t s = task->problem.input_count; s < yki_problem_operands(&task->problem); s++)
            b->droppable[t] |= b->again.maker[task->slots[s]] == (int32_t)t;
    }
}

static void
end(budget *b)
{
    yki_again_end(&b->again);
    yki_free(b->size);
    yki_free(b->scratch);
    yki_free(b->seconds);
    yki_free(b->droppable);
    yki_free(b->gain);
    yki_free(b->first);
    yki_free(b->last);
    yki_free(b->change);
    yki_free(b->best.dropped);
    yki_free(b->least.dropped);
}

static yoke_status
start(budget *b, yki_plan *plan)
{
    const size_t tasks = plan->task_count;

    *b = (budget){.plan = plan, .values = plan->value_count};
    b->least.bytes = UINT64_MAX;
    YKI_TRY(yki_again_begin(&b->again, plan));
    b->size = yki_alloc(b->values, sizeof *b->size, "a plan's budget");
    b->scratch = yki_alloc(tasks, sizeof *b->scratch, "a plan's budget");
    b->seconds = yki_alloc(tasks, sizeof *b->seconds, "a plan's budget");
    b->droppable = yki_alloc(tasks, sizeof *b->droppable, "a plan's budget");
    b->gain = yki_alloc(tasks, sizeof *b->gain, "a plan's budget");
    b->first = yki_alloc(2 * b->values, sizeof *b->first, "a plan's budget");
    b->last = yki_alloc(2 * b->values, sizeof *b->last, "a plan's budget");
    b->change = yki_alloc(2 * tasks + 1, sizeof *b->change, "a plan's budget");
    b->best.dropped = yki_alloc(tasks, sizeof *b->best.dropped, "a plan's budget");
    b->least.dropped = yki_alloc(tasks, sizeof *b->least.dropped, "a plan's budget");
    if (!b->size || !b->scratch || !b->seconds || !b->droppable || !b->gain || !b->first ||
        !b->last || !b->change || !b->best.dropped || !b->least.dropped) {
        end(b);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    find_sizes(b);
    find_seconds(b);
    return YOKE_OK;
}

/* ---- the stage ---- */

/* Looks for the least memory that the plan could do with. What it finds does not depend on the
 * budget: a budget of so many bytes will be met. */
static yoke_status
find_least(budget *b)
{
    uint64_t low = b->elsewhere, bytes;

    memset(b->again.dropped, 0, b->plan->task_count * sizeof *b->again.dropped);
    b->least.bytes = UINT64_MAX;
    YKI_TRY(weigh(b, &bytes));
    for (int i = 0; i < HALVINGS; i++) {
        uint64_t middle = low + (b->least.bytes - low) / 2;

        YKI_TRY(search(b, middle));
        if (b->best.bytes == UINT64_MAX)
            low = middle;
    }
    return YOKE_OK;
}

static yoke_status
refuse(const budget *b)
{
    yki_plan *plan = b->plan;

    if (!plan->recomputed.least || b->least.bytes < plan->recomputed.least)
        plan->recomputed.least = b->least.bytes;
    return yki_fail(YOKE_ERROR_OUT_OF_DEVICE_MEMORY,
                    "%s: recompute_bytes is %llu; the values of a plan for %lld samples take %llu "
                    "bytes, and %llu at least if they are computed again; allow these, take a "
                    "smaller batch, or accumulate",
                    yki_device_id(yki_queue_device(plan->queue)),
                    (unsigned long long)plan->options.most, (long long)plan->options.max.batch,
                    (unsigned long long)plan->recomputed.before,
                    (unsigned long long)plan->recomputed.least);
}

/* Bytes are UINT64_MAX where one value is larger than the device allows, which no other choice
 * changes: the stage `bind` refuses that. */
static yoke_status
meet(budget *b)
{
    const solution *chosen = &b->best;
    yki_plan *plan = b->plan;
    uint64_t bytes;

    YKI_TRY(yki_again_bytes(&b->again, &bytes));
    if (bytes == UINT64_MAX)
        return YOKE_OK;
    if (!plan->recomputed.before)
        plan->recomputed.before = bytes;
    if (bytes <= plan->options.most)
        return YOKE_OK;
    plan->recomputed.tight = true;
    YKI_TRY(weigh(b, &bytes));
    if (bytes <= plan->options.most)
        return YOKE_OK;
    YKI_TRY(search(b, plan->options.most));
    if (b->best.bytes == UINT64_MAX) {
        if (plan->options.small && !plan->options.only_bytes) /* else nobody reads the sentence */
            YKI_TRY(find_least(b));
        if (b->least.bytes > plan->options.most)
            return refuse(b);
        chosen = &b->least;
    }
    memcpy(b->again.dropped, chosen->dropped, plan->task_count * sizeof *chosen->dropped);
    yki_again_order(&b->again);
    plan->recomputed.tasks = b->again.count - plan->task_count;
    plan->recomputed.seconds = chosen->cost;
    return yki_again_apply(&b->again, plan, false);
}

yoke_status
yki_plan_meet_budget(yki_plan *plan)
{
    budget b;
    yoke_status status;

    YKI_TRY(start(&b, plan));
    status = meet(&b);
    end(&b);
    return status;
}

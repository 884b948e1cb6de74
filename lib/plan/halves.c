/* SPDX-License-Identifier: Apache-2.0
 *
 * halves.c - saves memory where products are computed in bfloat16 or half: what forward leaves for
 * backward is rounded to that type, and kept in it, in half its bytes.
 *
 * A value that both read becomes four: what its task makes; that rounded, which forward reads,
 * often in the same memory; what is kept; and what backward reads, which is made before its first
 * reader. So the memory for whole floats is that of what a few tasks need at a time. Both read the
 * same numbers: else backward would take a number beside 0 for one on its other side, and give the
 * gradient of another function.
 *
 * The node's precision decides. What is so small that the two launches would cost more than they
 * bring stays as it is. Where the bits must not depend on the device nothing is kept so: devices
 * join other tasks, so they keep other values.
 */
#include <string.h>

#include "plan/again.h"

enum { LEAST_BYTES = 32768 };

/* Of a value that has memory of its own. */
typedef struct kept {
    bool is;        /* it is kept in half its bytes */
    bool read;      /* backward reads it */
    bool stays;     /* it cannot be */
    int32_t maker;  /* the task of forward that makes it */
    int32_t narrow; /* the value that is kept */
    yoke_type type; /* of that */
} kept;

typedef struct halves {
    yki_plan *plan;
    kept *kept;     /* by value */
    int32_t *copy;  /* by value: what backward reads instead; YKI_NOWHERE: not made yet */
    size_t values;  /* before there were more */
    int32_t *place; /* by task: where it is now */
    bool trial;     /* the plan is a copy, whose recipes are another plan's */
} halves;

/* ---- which values ---- */

/* Results that stay floats: of losses, probabilities, statistics and sums, and of what would leave
 * a half's range; of a maximum pooling, whose gradient looks for the number of the result among the
 * inputs; and of the user's own operators, which may do the same. */
static bool
leaves_floats(const yki_problem *p)
{
    static const yki_op *const ops[] = {
        &yki_op_softmax, &yki_op_fused_loss, &yki_op_attention_lse, &yki_op_bn_stats, &yki_op_row,
        &yki_op_reduce,  &yki_op_maxpool2d,  &yki_op_conv_pooled,   &yki_op_custom};

    for (size_t i = 0; i < YKI_COUNT(ops); i++)
        if (p->op == ops[i])
            return true;
    if (p->op == &yki_op_unary) {
        const int32_t kind = yki_unary_attrs_get(&p->attrs).kind;

        return kind == YKI_UNARY_EXP || kind == YKI_UNARY_LOG || kind == YKI_UNARY_POW;
    }
    return p->op->is_loss || p->op->takes_losses;
}

/* The first result of a task; further ones are statistics. */
static void
note_result(halves *h, int32_t index)
{
    const yki_task *task = &h->plan->tasks[index];
    const int32_t out = task->slots[task->problem.input_count];
    const yki_value *value = &h->plan->values[out];
    const yki_class rounds =
        task->node ? yki_precision_of(h->plan->options.precision, task->node) : YKI_CLASS_DIRECT;

    if (!task->solver || value->storage != YKI_STORE_ARENA || value->alias >= 0 ||
        value->operand.type != YOKE_F32 || value->size < LEAST_BYTES ||
        leaves_floats(&task->problem))
        return;
    h->kept[out].is = rounds == YKI_CLASS_BF16 || rounds == YKI_CLASS_F16;
    h->kept[out].type = rounds == YKI_CLASS_F16 ? YKI_TYPE_F16 : YKI_TYPE_BF16;
    h->kept[out].maker = index;
}

static void
note_task(halves *h, int32_t index)
{
    const yki_plan *plan = h->plan;
    const yki_task *task = &plan->tasks[index];
    const uint32_t inputs = task->problem.input_count;

    if (task->section == YKI_FORWARD)
        note_result(h, index);
    for (uint32_t s = 0; s < yki_problem_operands(&task->problem); s++) {
        kept *its = &h->kept[yki_value_root(plan, task->slots[s])];

        if (task->section == YKI_BACKWARD && s < inputs)
            its->read = true;
        if (s >= inputs && task->solver && its->maker != index)
            its->stays = true; /* a second task writes to its memory */
    }
}

/* Returns whether there are any. */
static bool
find_values(halves *h)
{
    bool any = false;

    for (size_t t = 0; t < h->plan->task_count; t++)
        note_task(h, (int32_t)t);
    /* A view that somebody outside sees. */
    for (size_t v = 0; v < h->values; v++)
        if (h->plan->values[v].alias >= 0 && h->plan->values[v].storage != YKI_STORE_ARENA)
            h->kept[yki_value_root(h->plan, (int32_t)v)].stays = true;
    for (size_t v = 0; v < h->values; v++) {
        h->kept[v].is &= h->kept[v].read && !h->kept[v].stays;
        any |= h->kept[v].is;
    }
    return any;
}

/* ---- the plan ---- */

/* A value with the shape and the layout of another one. */
static yoke_status
add_like(yki_plan *plan, int32_t other, yoke_type type, int32_t *made)
{
    yki_value value = {.node = plan->values[other].node,
                       .operand = plan->values[other].operand,
                       .storage = YKI_STORE_ARENA,
                       .alias = -1,
                       .decided = true};

    value.operand.type = type;
    return yki_plan_add_value(plan, &value, made);
}

/* Moves a task into the plan, which then has its recipe. */
static yoke_status
add(yki_plan *plan, yki_task *task)
{
    YKI_TRY(yki_plan_add_task(plan, task));
    memset(&task->recipe, 0, sizeof task->recipe);
    return YOKE_OK;
}

/* Appends a task of one input. `extra` is its further result, or YKI_NOWHERE. */
static yoke_status
convert(const halves *h, const yki_op *op, yki_section section, int32_t in, int32_t out,
        int32_t extra)
{
    yki_plan *plan = h->plan;
    const yki_operand operand = plan->values[out].operand;
    yki_task task = {.section = section, .slots = {in, out, extra}};
    yki_problem *p = &task.problem;
    yoke_status status = YOKE_OK;

    *p = (yki_problem){.op = op,
                       .input_count = 1,
                       .in = {plan->values[in].operand},
                       .out = operand,
                       .max = yki_extents_for(plan->options.max, operand.rows),
                       .rows = operand.rows};
    if (extra != YKI_NOWHERE) {
        p->extra_count = 1;
        p->extra[0] = plan->values[extra].operand;
    }
    task.solver = yki_plan_solver(plan, p);
    if (!task.solver)
        return yki_fail_bug("no solver keeps floats in half their bytes");
    if (!h->trial) {
        yki_trial trial = {.problem = *p, .solver = task.solver};

        YKI_TRY(yki_plan_time(plan, &trial));
        task.seconds = trial.seconds;
        status =
            yki_solver_emit(task.solver, p, yki_plan_traits(plan, task.solver), 0, &task.recipe);
    }
    if (status == YOKE_OK)
        status = add(plan, &task);
    yki_recipe_clear(&task.recipe);
    return status;
}

/* Gives the value that backward reads instead of `value`, and makes it if it is the first reader. A
 * view becomes a view of that. */
static yoke_status
find_copy(halves *h, int32_t value, int32_t *copy)
{
    yki_plan *plan = h->plan;
    const int32_t root = yki_value_root(plan, value);
    yki_value view = plan->values[value];

    *copy = value;
    if ((size_t)root >= h->values || !h->kept[root].is)
        return YOKE_OK;
    if (h->copy[value] == YKI_NOWHERE && value == root) {
        YKI_TRY(add_like(plan, root, YOKE_F32, &h->copy[value]));
        YKI_TRY(convert(h, &yki_op_widen, YKI_BACKWARD, h->kept[root].narrow, h->copy[value],
                        YKI_NOWHERE));
    } else if (h->copy[value] == YKI_NOWHERE) {
        YKI_TRY(find_copy(h, view.alias, &view.alias));
        YKI_TRY(yki_plan_add_value(plan, &view, &h->copy[value]));
    }
    *copy = h->copy[value];
    return YOKE_OK;
}

/* Takes a task of forward. If its result is to be kept, it is rounded behind it. */
static yoke_status
take_forward(halves *h, yki_task *task, int32_t index)
{
    yki_plan *plan = h->plan;
    int32_t *out = &task->slots[task->problem.input_count], rounded = *out;
    kept *its = &h->kept[rounded];

    h->place[index] = (int32_t)plan->task_count;
    if (!its->is || its->maker != index)
        return add(plan, task);
    YKI_TRY(add_like(plan, rounded, YOKE_F32, out));
    YKI_TRY(add_like(plan, rounded, its->type, &its->narrow));
    YKI_TRY(add(plan, task));
    plan->halved.values++;
    plan->halved.bytes += plan->values[its->narrow].size;
    return convert(h, &yki_op_narrow, YKI_FORWARD, *out, rounded, its->narrow);
}

static yoke_status
take_backward(halves *h, yki_task *task, int32_t index)
{
    const uint32_t inputs = task->problem.input_count;

    for (uint32_t k = 0; k < inputs; k++)
        YKI_TRY(find_copy(h, task->slots[k], &task->slots[k]));
    if (!task->solver)
        YKI_TRY(find_copy(h, task->slots[inputs], &task->slots[inputs]));
    if (task->again)
        task->first = h->place[task->first];
    h->place[index] = (int32_t)h->plan->task_count;
    return add(h->plan, task);
}

/* Makes the list of tasks anew. */
static yoke_status
rewrite(halves *h)
{
    yki_plan *plan = h->plan;
    yki_task *before = plan->tasks;
    const size_t count = plan->task_count;
    yoke_status status = YOKE_OK;

    plan->tasks = NULL;
    plan->task_count = plan->task_capacity = 0;
    for (size_t t = 0; t < count && status == YOKE_OK; t++)
        status = before[t].section == YKI_FORWARD ? take_forward(h, &before[t], (int32_t)t)
                                                  : take_backward(h, &before[t], (int32_t)t);
    for (size_t t = 0; t < count && !h->trial; t++) /* of those not taken, after an error */
        yki_recipe_clear(&before[t].recipe);
    yki_free(before);
    return status;
}

bool
yki_plan_may_halve(const yki_plan *plan)
{
    const char *precision = plan->options.precision;

    return precision && strstr(precision, "f16") && !plan->options.canonical;
}

yoke_status
yki_plan_halve(yki_plan *plan, bool trial)
{
    halves h = {.plan = plan, .values = plan->value_count, .trial = trial};
    yoke_status status = YOKE_OK;

    h.kept = yki_alloc(h.values, sizeof *h.kept, "a plan's values");
    h.copy = yki_alloc(h.values, sizeof *h.copy, "a plan's values");
    h.place = yki_alloc(plan->task_count, sizeof *h.place, "a plan's tasks");
    if (h.kept && h.copy && h.place) {
        for (size_t v = 0; v < h.values; v++) {
            h.kept[v] = (kept){.maker = YKI_NOWHERE, .narrow = YKI_NOWHERE};
            h.copy[v] = YKI_NOWHERE;
        }
        if (find_values(&h))
            status = rewrite(&h);
    } else {
        status = YOKE_ERROR_OUT_OF_MEMORY;
    }
    yki_free(h.kept);
    yki_free(h.copy);
    yki_free(h.place);
    return status;
}

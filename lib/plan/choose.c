/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.c - a solver and layouts for every task, and reorders where neighbours
 * disagree.
 *
 * Walks the tasks in order. What comes in has its layout by then, so a candidate's
 * cost is its own time plus that of bringing its inputs into the layouts it wants
 * (a tensor already brought there is used again). The greedy walk is enough
 * because layouts are sticky: what works on flat memory keeps its input's layout,
 * so a chain takes the layout of its heavy members.
 *
 * Times come from wisdom, else from measuring while the budget lasts, else from
 * the order of preference in solvers.c.
 */
#include <string.h>

#include "plan/plan.h"

/* Bytes per second assumed for a reorder where nothing was measured: only ever compared with
 * measured times of kernels, so the order of magnitude is enough. */
#define REORDER_BYTES_PER_SECOND 2e10
/* Preference in place of seconds: a solver further down the table is this much worse. */
#define RANK_COST 1e3
/* A tuning or solver that is not measured within the budget counts as this much slower than
 * the first: it is taken only if nothing else applies. */
#define UNMEASURED 1e6

typedef struct candidate {
    const yki_solver *solver;
    unsigned tuning;
    yki_problem problem;
    double seconds; /* its own; 0: not measured */
    double cost;    /* with reorders */
} candidate;

/* Seconds between two lines of the log. */
#define REPORT_EVERY 2.0

/* The tasks as they came, and who reads each value: while they are decided, the plan's list grows
 * anew, with reorders between them. */
typedef struct choice {
    yki_plan *plan;
    yki_task *tasks;
    size_t count, index; /* the one being decided */
    uint32_t *first;     /* by value: the first of its readers, which end where the next begin */
    uint32_t *readers;   /* tasks, in their order */
    size_t values;       /* those that the tasks came with */
} choice;

double
yki_plan_budget(const yki_plan *plan)
{
    if (plan->options.budget > 0)
        return plan->options.budget;
    return plan->options.level == YKI_LEVEL_PATIENT ? 600 : 20;
}

/* The value that holds `value` in this layout already, or -1. */
static int32_t
in_layout(yki_plan *plan, int32_t value, yki_layout layout)
{
    if (plan->values[value].operand.layout.block == layout.block)
        return value;
    for (int32_t c = plan->values[value].copies; c; c = plan->values[c].next_copy) {
        plan->work++;
        if (plan->values[c].operand.layout.block == layout.block)
            return c;
    }
    return -1;
}

static bool
reads_parameters(const yki_task *task)
{
    for (uint32_t k = 0; k < task->problem.input_count; k++)
        if (!task->problem.in[k].batched)
            return true;
    return false;
}

/* Tells the log where measuring stands, when it takes long. */
static void
report(const choice *choosing, const yki_task *task)
{
    yki_plan *plan = choosing->plan;
    double now = yki_now();

    if (plan->measured_count == 1)
        plan->reported = now;
    if (plan->measured_seconds > yki_plan_budget(plan))
        yki_log(YOKE_LOG_INFO,
                "%s: the %.0f s for measuring are used up after %u candidates; the rest is taken "
                "by preference",
                yki_device_id(yki_queue_device(plan->queue)), yki_plan_budget(plan),
                plan->measured_count);
    else if (now - plan->reported >= REPORT_EVERY)
        yki_log(YOKE_LOG_INFO,
                "%s: measured %u candidates in %.0f s, now for %s (command %zu of %zu)",
                yki_device_id(yki_queue_device(plan->queue)), plan->measured_count,
                plan->measured_seconds, task->node ? task->node->name : "a reorder",
                choosing->index + 1, choosing->count);
    else
        return;
    plan->reported = now;
}

/* Seconds of a candidate from wisdom or by measuring; 0 if neither is to be had. */
static yoke_status
seconds_of(const choice *choosing, const yki_task *task, candidate *c)
{
    yki_plan *plan = choosing->plan;
    yoke_device *device = yki_queue_device(plan->queue);
    char text[YKI_PROBLEM_TEXT];
    double start;

    c->seconds = 0;
    yki_problem_text(&c->problem, text, sizeof text);
    if (plan->options.wisdom && yki_wisdom_get(plan->options.wisdom, device, text, c->solver->name,
                                               c->tuning, &c->seconds))
        return YOKE_OK;
    if (plan->options.level == YKI_LEVEL_ESTIMATE ||
        plan->measured_seconds > yki_plan_budget(plan))
        return YOKE_OK;
    start = yki_now();
    YKI_TRY(yki_measure(plan->queue, &c->problem, c->solver, c->tuning,
                        plan->options.training && reads_parameters(task), &c->seconds));
    plan->measured_seconds += yki_now() - start;
    plan->measured_count++;
    report(choosing, task);
    if (plan->options.wisdom)
        return yki_wisdom_put(plan->options.wisdom, device, text, c->solver->name, c->tuning,
                              c->seconds);
    return YOKE_OK;
}

static const yki_solver *
reorder_solver(const yki_plan *plan, const yki_problem *problem)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));

    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == &yki_op_reorder && yki_solver_suits(*s, problem, traits))
            return *s;
    return NULL;
}

static void
reorder_problem(const yki_plan *plan, const yki_operand *from, yki_layout to, yki_problem *problem)
{
    *problem = (yki_problem){
        .op = &yki_op_reorder, .input_count = 1, .max_batch = plan->options.max_batch};
    problem->in[0] = *from;
    problem->out = *from;
    problem->out.layout = to;
}

/* Seconds to bring an operand into another layout: measured, else by its bytes. */
static yoke_status
reorder_seconds(const choice *choosing, const yki_operand *from, yki_layout to,
                double *seconds)
{
    yki_plan *plan = choosing->plan;
    candidate c = {.tuning = 0};
    yki_task task = {.node = NULL};
    yki_expr bytes = yki_operand_bytes(from);

    reorder_problem(plan, from, to, &c.problem);
    c.solver = reorder_solver(plan, &c.problem);
    if (c.solver)
        YKI_TRY(seconds_of(choosing, &task, &c));
    *seconds = c.seconds > 0 ? c.seconds
                             : 2.0 * (double)yki_expr_value(bytes, plan->options.max_batch) /
                                   REORDER_BYTES_PER_SECOND;
    return YOKE_OK;
}

/* What bringing the inputs into a candidate's layouts costs. */
static yoke_status
input_cost(const choice *choosing, const yki_task *task, const yki_problem *problem,
           double *cost)
{
    yki_plan *plan = choosing->plan;

    for (uint32_t k = 0; k < problem->input_count; k++) {
        const yki_operand *operand = &plan->values[task->slots[k]].operand;
        double seconds;

        if (in_layout(plan, task->slots[k], problem->in[k].layout) >= 0)
            continue;
        YKI_TRY(reorder_seconds(choosing, operand, problem->in[k].layout, &seconds));
        *cost += seconds;
    }
    return YOKE_OK;
}

/* The layout in which the next reader of a result has another operand of that shape: gradients
 * meet the tensors they belong to. 0: no such hint. */
static uint32_t
expected_block(const choice *choosing, const yki_task *task)
{
    yki_plan *plan = choosing->plan;
    size_t out = (size_t)task->slots[task->problem.input_count];

    for (uint32_t r = choosing->first[out]; r < choosing->first[out + 1]; r++) {
        const yki_task *reader = &choosing->tasks[choosing->readers[r]];
        uint32_t block = 0;

        plan->work++;
        for (uint32_t k = 0; k < reader->problem.input_count; k++) {
            const yki_value *other = &plan->values[reader->slots[k]];

            if (reader->slots[k] != (int32_t)out && other->operand.batched && other->decided &&
                yki_shape_equal(other->operand.shape, task->problem.out.shape))
                block = other->operand.layout.block;
        }
        if (block)
            return block;
    }
    return 0;
}

static yoke_status
output_cost(const choice *choosing, const yki_problem *problem, uint32_t expected, double *cost)
{
    yki_layout wanted = {expected};
    double seconds;

    if (!expected || problem->out.layout.block == expected || !problem->out.batched)
        return YOKE_OK;
    YKI_TRY(reorder_seconds(choosing, &problem->out, wanted, &seconds));
    *cost += seconds;
    return YOKE_OK;
}

/* Lays the problem out as the solver wants it, variant by variant; false after the last. */
static bool
lay_out(const yki_plan *plan, const yki_task *task, const yki_solver *solver, unsigned variant,
        yki_problem *problem)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));

    *problem = task->problem;
    if (solver->layouts)
        return solver->layouts(problem, traits, variant);
    return variant == 0;
}

/* Where values lie that others see: plain. */
static bool
permitted(const yki_plan *plan, const yki_task *task, const yki_problem *problem)
{
    for (uint32_t s = problem->input_count; s < yki_problem_operands(problem); s++)
        if (yki_problem_operand(problem, s)->layout.block != 1 &&
            plan->values[task->slots[s]].storage != YKI_STORE_ARENA)
            return false;
    return true;
}

static unsigned
tunings_of(const yki_solver *solver, const yki_problem *problem, const yki_device_traits *traits)
{
    return solver->tunings ? solver->tunings(problem, traits) : 1;
}

/* The best of a solver's variants and tunings goes to `best`, if it beats what is there. */
static yoke_status
try_solver(const choice *choosing, const yki_task *task, const yki_solver *solver, unsigned rank,
           uint32_t expected, candidate *best)
{
    yki_plan *plan = choosing->plan;
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));

    for (unsigned variant = 0;; variant++) {
        candidate c = {.solver = solver};
        unsigned first = 0, tunings;

        if (!lay_out(plan, task, solver, variant, &c.problem))
            return YOKE_OK;
        if (!permitted(plan, task, &c.problem) || !solver->applies(&c.problem, traits))
            continue;
        tunings = tunings_of(solver, &c.problem, traits);
        if (solver->searched) {
            if (!plan->has_set)
                continue;
            first = plan->set;
            tunings = first + 1;
        }
        for (c.tuning = first; c.tuning < tunings; c.tuning++) {
            if (!yki_solver_ends(solver, &c.problem, traits, c.tuning))
                continue;
            YKI_TRY(seconds_of(choosing, task, &c));
            if (solver->searched && c.seconds == 0)
                continue; /* only on a measured time */
            c.cost = c.seconds > 0 ? c.seconds
                                   : UNMEASURED + RANK_COST * (rank + 0.01 * (c.tuning - first));
            YKI_TRY(input_cost(choosing, task, &c.problem, &c.cost));
            YKI_TRY(output_cost(choosing, &c.problem, expected, &c.cost));
            if (!best->solver || c.cost < best->cost)
                *best = c;
        }
    }
}

/* Not worth the time to translate it, as long as another does the problem. */
static bool
is_hopeless(const yki_plan *plan, const yki_solver *solver)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));

    return solver->side_by_side && traits->type == YOKE_DEVICE_CPU &&
           traits->vector_width >= 4 && plan->options.level == YKI_LEVEL_MEASURE;
}

/* The best of the classes that `wanted` has a bit for; a survey notes the best of each. */
static yoke_status
best_of_classes(const choice *choosing, const yki_task *task, unsigned wanted, candidate *best)
{
    yki_plan *plan = choosing->plan;
    candidate by_class[YKI_CLASSES] = {{.solver = NULL}};
    double costs[YKI_CLASSES] = {0};
    uint32_t expected = expected_block(choosing, task);
    unsigned rank = 0;

    for (const yki_solver *const *s = yki_solvers; *s; s++) {
        const yki_solver *solver = *s;

        if (*solver->op != task->problem.op || !(wanted >> solver->numerical_class & 1))
            continue;
        if (by_class[solver->numerical_class].solver && is_hopeless(plan, solver))
            continue;
        rank++;
        plan->work++;
        YKI_TRY(try_solver(choosing, task, solver, rank, expected,
                           &by_class[solver->numerical_class]));
    }
    best->solver = NULL;
    for (int c = 0; c < YKI_CLASSES; c++) {
        if (!by_class[c].solver)
            continue;
        costs[c] = by_class[c].cost;
        if (!best->solver || by_class[c].cost < best->cost)
            *best = by_class[c];
    }
    if (plan->costs && task->node && best->solver)
        yki_costs_add(plan->costs, task->node->id, costs);
    return YOKE_OK;
}

static yoke_status
best_candidate(const choice *choosing, const yki_task *task, candidate *best)
{
    enum { DIRECT = 1u << YKI_CLASS_DIRECT };
    yki_plan *plan = choosing->plan;
    uint8_t agreed = yki_agreed_class(&plan->options, task->node);
    unsigned wanted = plan->options.strict      ? DIRECT
                      : agreed == YKI_ANY_CLASS ? (1u << YKI_CLASSES) - 1
                                                : 1u << (agreed - 1);

    YKI_TRY(best_of_classes(choosing, task, wanted, best));
    if (!best->solver && wanted != DIRECT)
        YKI_TRY(best_of_classes(choosing, task, DIRECT, best));
    if (!best->solver) {
        char text[YKI_PROBLEM_TEXT];

        yki_problem_text(&task->problem, text, sizeof text);
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s: no solver on %s for %s",
                        task->node ? task->node->name : "a copy",
                        yki_device_id(yki_queue_device(plan->queue)), text);
    }
    return YOKE_OK;
}

/* Appends a reorder of a value for a task of `section`. */
static yoke_status
add_reorder(const choice *choosing, yki_section section, int32_t value, yki_layout layout,
            int32_t *copy)
{
    yki_plan *plan = choosing->plan;
    yki_value target = {.alias = -1, .storage = YKI_STORE_ARENA, .decided = true};
    yki_task task = {.section = section};

    reorder_problem(plan, &plan->values[value].operand, layout, &task.problem);
    target.operand = task.problem.out;
    target.next_copy = plan->values[value].copies;
    YKI_TRY(yki_plan_add_value(plan, &target, copy));
    plan->values[value].copies = *copy;
    task.slots[0] = value;
    task.slots[1] = *copy;
    task.solver = reorder_solver(plan, &task.problem);
    if (!task.solver)
        return yki_fail(YOKE_ERROR_INTERNAL, "no solver for a reorder");
    YKI_TRY(reorder_seconds(choosing, &task.problem.in[0], layout, &task.seconds));
    return yki_plan_add_task(plan, &task);
}

static yoke_status
bring_inputs(const choice *choosing, yki_task *task)
{
    for (uint32_t k = 0; k < task->problem.input_count; k++) {
        yki_layout layout = task->problem.in[k].layout;
        int32_t value = task->slots[k], there = in_layout(choosing->plan, value, layout);

        if (there < 0)
            YKI_TRY(add_reorder(choosing, task->section, value, layout, &there));
        task->slots[k] = there;
    }
    return YOKE_OK;
}

/* A copy that was asked for: its layouts are given. */
static yoke_status
take_copy(const choice *choosing, yki_task *task)
{
    yki_plan *plan = choosing->plan;

    task->problem.in[0].layout = plan->values[task->slots[0]].operand.layout;
    task->solver = reorder_solver(plan, &task->problem);
    if (!task->solver)
        return yki_fail(YOKE_ERROR_INTERNAL, "no solver for a reorder");
    YKI_TRY(reorder_seconds(choosing, &task->problem.in[0], task->problem.out.layout,
                            &task->seconds));
    return yki_plan_add_task(plan, task);
}

/* Decides a task and appends it, behind what brings its inputs into their layouts. A view only
 * needs plain input. */
static yoke_status
take(const choice *choosing, yki_task *task)
{
    yki_plan *plan = choosing->plan;
    int32_t out = task->slots[task->problem.input_count];
    candidate best;

    if (task->problem.op == &yki_op_reorder)
        return take_copy(choosing, task);
    if (task->problem.op->is_view) {
        YKI_TRY(bring_inputs(choosing, task));
        plan->values[out].alias = yki_value_root(plan, task->slots[0]);
        plan->values[out].decided = true;
        return yki_plan_add_task(plan, task);
    }
    YKI_TRY(best_candidate(choosing, task, &best));
    task->solver = best.solver;
    task->tuning = best.tuning;
    task->problem = best.problem;
    task->seconds = best.seconds;
    for (uint32_t s = best.problem.input_count; s < yki_problem_operands(&best.problem); s++) {
        const yki_operand *result = yki_problem_operand(&best.problem, s);
        yki_value *value = &plan->values[task->slots[s]];

        value->operand.layout = result->layout;
        value->decided = true;
        value->size =
            (uint64_t)yki_expr_value(yki_operand_bytes(result), plan->options.max_batch);
    }
    YKI_TRY(bring_inputs(choosing, task));
    return yki_plan_add_task(plan, task);
}

/* Readers by value: counted, then entered, so that each has a stretch of one array. */
static yoke_status
list_readers(choice *c)
{
    size_t uses = 0;

    c->values = c->plan->value_count;
    for (size_t t = 0; t < c->count; t++)
        uses += c->tasks[t].problem.input_count;
    c->first = yki_alloc(c->values + 2, sizeof *c->first, "a plan's readers");
    c->readers = yki_alloc(uses, sizeof *c->readers, "a plan's readers");
    if (!c->first || !c->readers)
        return YOKE_ERROR_OUT_OF_MEMORY;
    /* Two places further than they belong: entering them moves each stretch's end to the next
     * one's beginning. */
    for (size_t t = 0; t < c->count; t++)
        for (uint32_t k = 0; k < c->tasks[t].problem.input_count; k++)
            c->first[c->tasks[t].slots[k] + 2]++;
    for (size_t v = 2; v < c->values + 2; v++)
        c->first[v] += c->first[v - 1];
    for (size_t t = 0; t < c->count; t++)
        for (uint32_t k = 0; k < c->tasks[t].problem.input_count; k++)
            c->readers[c->first[c->tasks[t].slots[k] + 1]++] = (uint32_t)t;
    return YOKE_OK;
}

yoke_status
yki_plan_choose(yki_plan *plan)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));
    choice c = {.plan = plan, .tasks = plan->tasks, .count = plan->task_count};
    yoke_status status;

    plan->tasks = NULL;
    plan->task_count = plan->task_capacity = 0;
    status = list_readers(&c);
    for (; c.index < c.count && status == YOKE_OK; c.index++) {
        yki_plan_tick(plan);
        status = take(&c, &c.tasks[c.index]);
    }
    yki_free(c.tasks);
    yki_free(c.first);
    yki_free(c.readers);
    YKI_TRY(status);
    for (size_t i = 0; i < plan->task_count; i++) {
        yki_task *task = &plan->tasks[i];

        plan->work++;
        if (task->solver)
            YKI_TRY(yki_solver_emit(task->solver, &task->problem, traits, task->tuning,
                                    &task->recipe));
    }
    return YOKE_OK;
}

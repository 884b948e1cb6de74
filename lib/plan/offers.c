/* SPDX-License-Identifier: Apache-2.0
 *
 * offers.c - finds which solvers can do each task, and how long they take.
 *
 * A time comes from wisdom. Otherwise it is measured while the budget lasts, together with the
 * other offers for the task; after that the order of the table of solvers takes its place. That
 * order also decides between offers that take about the same time, so that two plans agree; but
 * one that was measured before stays, so that a plan does not change when it is made again. All
 * tasks are listed in order before any is decided, because measured times do not depend on the
 * decisions, and of two offers with the same layouts nobody needs the slower one. An offer that
 * does not build, launch or fit is left out; only a task without any other fails.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/choose.h"

/* Bytes per second, assumed for a reorder that is not measured. It is only compared with measured
 * times of kernels, so the order of magnitude is enough. */
#define REORDER_BYTES_PER_SECOND 2e10
/* Added to the cost for each place further down the table of solvers, where a time is unknown. */
#define RANK_COST 1e3
/* Added to the cost of a solver or tuning whose time is unknown: it is taken only if no measured
 * one applies. */
#define UNMEASURED 1e6
/* The cost of a reorder that the device has no solver for. It is finite, because costs are
 * subtracted. */
#define IMPOSSIBLE 1e9
/* Of two offers with the same layouts and class the first one is kept unless the other takes less
 * by this fraction. Times differ by so much from run to run, and plans should not. */
#define TIE 0.03
/* Seconds between two lines of the log. */
#define REPORT_EVERY 2.0

double
yki_plan_budget(const yki_plan *plan)
{
    if (plan->options.budget > 0)
        return plan->options.budget;
    return plan->options.level == YOKE_PLAN_PATIENT ? 600 : 20;
}

bool
yki_task_packs(const yki_plan *plan, const yki_task *task)
{
    for (uint32_t k = 0; k < task->problem.input_count; k++)
        if (!task->problem.in[k].batched)
            return plan->options.training;
    return false;
}

/* Logs the progress of measuring when it takes long. */
static void
report(yki_plan *plan, const yki_task *task)
{
    double now = yki_now();

    if (plan->measuring.reported == 0)
        plan->measuring.reported = now;
    if (plan->measuring.seconds > yki_plan_budget(plan))
        yki_log(YOKE_LOG_INFO,
                "%s: the %.0f s for measuring are used up after %u candidates; the rest is taken "
                "by preference",
                yki_device_id(yki_queue_device(plan->queue)), yki_plan_budget(plan),
                plan->measuring.count);
    else if (now - plan->measuring.reported >= REPORT_EVERY)
        yki_log(YOKE_LOG_INFO, "%s: measured %u candidates in %.0f s, now for %s",
                yki_device_id(yki_queue_device(plan->queue)), plan->measuring.count,
                plan->measuring.seconds, task && task->node ? task->node->name : "a copy");
    else
        return;
    plan->measuring.reported = now;
}

/* Measures trials whose time wisdom does not know, while the budget lasts; the others keep 0
 * seconds. `task` is NULL for what the planner adds. */
static yoke_status
measure(yki_plan *plan, const yki_task *task, yki_trial *trials, size_t count)
{
    yoke_device *device = yki_queue_device(plan->queue);
    double start = yki_now(), left = yki_plan_budget(plan) - plan->measuring.seconds;
    char text[YKI_PROBLEM_TEXT];

    if (count == 0 || plan->options.level == YOKE_PLAN_ESTIMATE || plan->options.canonical ||
        left < 0)
        return YOKE_OK;
    YKI_TRY(
        yki_measure(plan->queue, trials, count, task && yki_task_packs(plan, task), start + left));
    plan->measuring.seconds += yki_now() - start;
    for (size_t i = 0; i < count; i++) {
        const yki_trial *t = &trials[i];

        if (t->seconds == 0)
            continue;
        plan->measuring.count++;
        yki_problem_text(&t->problem, text, sizeof text);
        if (plan->options.wisdom)
            YKI_TRY(yki_wisdom_put(plan->options.wisdom, device, text, t->solver->name, t->tuning,
                                   t->seconds));
    }
    report(plan, task);
    return YOKE_OK;
}

bool
yki_trial_is_known(const yki_plan *plan, yki_trial *trial)
{
    char text[YKI_PROBLEM_TEXT];

    if (!plan->options.wisdom || plan->options.canonical)
        return false;
    yki_problem_text(&trial->problem, text, sizeof text);
    return yki_wisdom_get(plan->options.wisdom, yki_queue_device(plan->queue), text,
                          trial->solver->name, trial->tuning, &trial->seconds);
}

yoke_status
yki_plan_time(yki_plan *plan, yki_trial *trial)
{
    return yki_trial_is_known(plan, trial) ? YOKE_OK : measure(plan, NULL, trial, 1);
}

/* Gives the seconds of a reorder; 0 if they are unknown. */
static yoke_status
reorder_seconds(yki_plan *plan, const yki_problem *problem, const yki_solver *solver,
                double *seconds)
{
    yki_trial trial = {.problem = *problem, .solver = solver};

    YKI_TRY(yki_plan_time(plan, &trial));
    *seconds = trial.failed == YOKE_OK ? trial.seconds : IMPOSSIBLE;
    return YOKE_OK;
}

/* ---- reorders ---- */

const yki_solver *
yki_plan_solver(const yki_plan *plan, const yki_problem *problem)
{
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == problem->op && yki_plan_allows(plan, *s) &&
            yki_solver_suits(*s, problem, yki_plan_traits(plan, *s)))
            return *s;
    return NULL;
}

static void
reorder_problem(const yki_plan *plan, const yki_operand *from, yki_layout to, yki_problem *problem)
{
    *problem = (yki_problem){.op = &yki_op_reorder,
                             .input_count = 1,
                             .max = yki_extents_for(plan->options.max, from->rows),
                             .rows = from->rows};
    problem->in[0] = *from;
    problem->out = *from;
    problem->out.layout = to;
}

yoke_status
yki_choice_make_reorder(const yki_choice *choice, const yki_operand *from, yki_layout to,
                        yki_task *task)
{
    reorder_problem(choice->plan, from, to, &task->problem);
    task->solver = yki_plan_solver(choice->plan, &task->problem);
    if (!task->solver)
        return yki_fail_bug("no solver computes a change of layout");
    return reorder_seconds(choice->plan, &task->problem, task->solver, &task->seconds);
}

/* Gives the measured time, or else an estimate from the bytes. */
static yoke_status
time_reorder(const yki_choice *choice, const yki_operand *from, yki_layout to, double *seconds)
{
    yki_plan *plan = choice->plan;
    const yki_solver *solver;
    yki_problem problem;
    int64_t bytes = yki_value_bytes(from, plan->options.max);

    reorder_problem(plan, from, to, &problem);
    solver = yki_plan_solver(plan, &problem);
    if (!solver) {
        *seconds = IMPOSSIBLE;
        return YOKE_OK;
    }
    YKI_TRY(reorder_seconds(plan, &problem, solver, seconds));
    if (*seconds == 0)
        *seconds = 2.0 * (double)bytes / REORDER_BYTES_PER_SECOND;
    return YOKE_OK;
}

/* This is called again and again for the same layouts, so each time is looked up once. */
yoke_status
yki_choice_reorder(yki_choice *choice, int32_t value, uint8_t from, uint8_t to, double *seconds)
{
    double *known = &choice->reorders[value][from][to];
    yki_operand operand = choice->plan->values[value].operand;

    operand.layout.block = 1u << from;
    if (from != to && *known == 0)
        YKI_TRY(time_reorder(choice, &operand, (yki_layout){1u << to}, known));
    *seconds = *known;
    return YOKE_OK;
}

/* ---- offers ---- */

/* Gives the problem the layouts of one of the solver's variants. Returns false after the last
 * variant. */
static bool
lay_out(const yki_plan *plan, const yki_task *task, const yki_solver *solver, unsigned variant,
        yki_problem *problem)
{
    *problem = task->problem;
    if (solver->layouts)
        return solver->layouts(problem, yki_plan_traits(plan, solver), variant);
    return variant == 0;
}

void
yki_offer_problem(const yki_plan *plan, const yki_task *task, const yki_offer *offer,
                  yki_problem *problem)
{
    (void)lay_out(plan, task, offer->solver, offer->variant, problem);
}

/* Values that are seen from outside must be in the plain layout, and no layout may have more
 * elements, padding included, than an int counts. */
static bool
permitted(const yki_plan *plan, const yki_task *task, const yki_problem *problem)
{
    for (uint32_t s = 0; s < yki_problem_operands(problem); s++)
        if (yki_operand_count(yki_problem_operand(problem, s), problem->max) > INT32_MAX)
            return false;
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

/* Keeps an offer, unless the task has one with the same layouts and class that costs no more, or
 * about the same. */
static yoke_status
keep(yki_choice *choice, const yki_problem *problem, yki_offer *offer)
{
    uint32_t operands = yki_problem_operands(problem);

    for (uint32_t s = 0; s < operands; s++)
        offer->lies[s] = yki_layout_index(yki_problem_operand(problem, s)->layout);
    for (size_t i = choice->menu[choice->index].begin; i < choice->offer_count; i++) {
        yki_offer *other = &choice->offers[i];

        choice->plan->work++;
        if (other->solver->numerical_class != offer->solver->numerical_class ||
            memcmp(other->lies, offer->lies, operands) != 0)
            continue;
        if (offer->known && !other->known ? (1 - TIE) * offer->cost <= other->cost
                                          : offer->cost < (1 - TIE) * other->cost)
            *other = *offer;
        return YOKE_OK;
    }
    YKI_TRY(yki_grow((void **)&choice->offers, &choice->offer_capacity, choice->offer_count + 1,
                     sizeof *choice->offers, "what solvers offer"));
    choice->offers[choice->offer_count++] = *offer;
    return YOKE_OK;
}

static bool
has_choice(const yki_task *task)
{
    return task->problem.op != &yki_op_reorder && !task->problem.op->is_view;
}

/* Returns a bit for each layout of the operands. */
static unsigned
layouts_of(const yki_problem *problem)
{
    unsigned layouts = 0;

    for (uint32_t s = 0; s < yki_problem_operands(problem); s++)
        layouts |= 1u << yki_layout_index(yki_problem_operand(problem, s)->layout);
    return layouts;
}

/* Adds the layouts that a solver wants, unless it would take other blocks as well. */
static void
add_layouts(yki_choice *choice, const yki_task *task, const yki_solver *solver)
{
    const yki_device_traits *traits = yki_plan_traits(choice->plan, solver);
    unsigned layouts = 0;
    yki_problem problem;

    for (unsigned variant = 0; lay_out(choice->plan, task, solver, variant, &problem); variant++) {
        choice->plan->work++;
        if (solver->applies(&problem, traits))
            layouts |= layouts_of(&problem) & ~(1u << YKI_LAYOUT_PLAIN_INDEX);
    }
    if ((layouts & (layouts - 1)) == 0)
        choice->layouts |= layouts;
}

/* Many operators work in blocks of any size. Those that nobody else works in gain nothing by them,
 * but would be compiled and measured in each. */
static void
find_layouts(yki_choice *choice)
{
    enum { PLAIN = 1u << YKI_LAYOUT_PLAIN_INDEX, ALL = (1u << YKI_LAYOUT_COUNT) - 1 };

    choice->layouts = PLAIN;
    for (size_t t = 0; t < choice->count; t++)
        for (const yki_solver *const *s = yki_solvers; *s && has_choice(&choice->tasks[t]); s++)
            if (*(*s)->op == choice->tasks[t].problem.op && (*s)->layouts &&
                yki_plan_allows(choice->plan, *s))
                add_layouts(choice, &choice->tasks[t], *s);
    if (choice->layouts == PLAIN || choice->plan->options.level == YOKE_PLAN_PATIENT)
        choice->layouts = ALL;
}

static bool
is_broken(const yki_choice *choice, const yki_solver *solver, unsigned variant, unsigned tuning)
{
    for (size_t i = 0; i < choice->broken_count; i++)
        if (choice->broken[i].solver == solver && choice->broken[i].variant == variant &&
            choice->broken[i].tuning == tuning)
            return true;
    return false;
}

/* Lists the variants and tunings of a solver. */
static yoke_status
ask_solver(yki_choice *choice, const yki_task *task, const yki_solver *solver, unsigned rank)
{
    yki_plan *plan = choice->plan;
    const yki_device_traits *traits = yki_plan_traits(plan, solver);
    const unsigned *set = yki_plan_set_of(plan, solver);
    bool fixed = plan->options.canonical && solver->canonical == YKI_CANONICAL_FIXED;
    /* Where no time is known, a unit for the precision that was asked for comes first. */
    double preference =
        yki_class_rounds(solver->numerical_class) && !solver->emulates ? 0 : (double)rank;
    yki_problem problem;

    if (solver->sets && !set)
        return YOKE_OK;
    for (unsigned variant = 0; lay_out(plan, task, solver, variant, &problem); variant++) {
        unsigned first = set ? *set : 0, end;

        if ((layouts_of(&problem) & ~(fixed ? 1u << YKI_LAYOUT_PLAIN_INDEX : choice->layouts)) ||
            !permitted(plan, task, &problem) || !solver->applies(&problem, traits))
            continue;
        end = set || fixed ? first + 1 : tunings_of(solver, &problem, traits);
        for (unsigned tuning = first; tuning < end; tuning++) {
            if (!yki_solver_ends(solver, &problem, traits, tuning) ||
                is_broken(choice, solver, variant, tuning))
                continue;
            YKI_TRY(yki_grow((void **)&choice->asked, &choice->asked_capacity,
                             choice->asked_count + 1, sizeof *choice->asked, "what solvers offer"));
            choice->asked[choice->asked_count++] = (yki_offer){
                .solver = solver,
                .tuning = tuning,
                .variant = variant,
                .cost = UNMEASURED + RANK_COST * (preference + 0.01 * (tuning - first))};
        }
    }
    return YOKE_OK;
}

/* Compiling a GPU-style solver for a CPU costs more than it can gain where another solver does the
 * problem. In a canonical plan nothing is measured, and the order of the table decides. */
static bool
is_foreign(const yki_plan *plan, const yki_solver *solver)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(plan->queue));

    return solver->side_by_side && traits->type == YOKE_DEVICE_CPU && traits->vector_width >= 4 &&
           plan->options.level != YOKE_PLAN_PATIENT && !plan->options.canonical;
}

/* Whether the class is settled, or is about to be: then a solver counts that gains nothing here. */
static bool
is_settled(const yki_plan *plan, const yki_task *task)
{
    return plan->options.strict || plan->costs ||
           yki_agreed_class(&plan->options, task->node) != YKI_ANY_CLASS;
}

/* Asks all solvers of the classes whose bits are set in `wanted`; foreign ones after the others,
 * and only of classes in which these offer nothing. */
static yoke_status
ask_classes(yki_choice *choice, const yki_task *task, unsigned wanted)
{
    unsigned rank = 0, found = 0;

    for (int foreign = 0; foreign < 2; foreign++)
        for (const yki_solver *const *s = yki_solvers; *s; s++) {
            const yki_solver *solver = *s;
            size_t before = choice->asked_count;

            if (*solver->op != task->problem.op || !(wanted >> solver->numerical_class & 1) ||
                !yki_plan_allows(choice->plan, solver) ||
                is_foreign(choice->plan, solver) != foreign)
                continue;
            if (found >> solver->numerical_class & 1 && (solver->emulates || foreign))
                continue;
            if (solver->emulates && !is_settled(choice->plan, task))
                continue;
            rank++;
            choice->plan->work++;
            YKI_TRY(ask_solver(choice, task, solver, rank));
            if (choice->asked_count > before && !solver->sets)
                found |= 1u << solver->numerical_class;
            if (choice->plan->options.canonical && solver->canonical == YKI_CANONICAL_FIXED &&
                choice->asked_count > before)
                return YOKE_OK; /* the bits of others may differ */
        }
    return YOKE_OK;
}

/* Finds the seconds of all that was asked, from wisdom or by measuring, and keeps the best. The
 * time of a set of parameters comes from its search, which ran nothing beside it: beside what is
 * measured it is measured again. */
static yoke_status
time_asked(yki_choice *choice, const yki_task *task)
{
    size_t count = choice->asked_count, unknown = 0;
    yki_trial *trials = yki_alloc(2 * count, sizeof *trials, "what is measured");
    yki_trial *measured = trials + count;
    bool all_known = true;
    yoke_status status;

    if (!trials)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        yki_offer *offer = &choice->asked[i];

        trials[i] = (yki_trial){.solver = offer->solver, .tuning = offer->tuning};
        yki_offer_problem(choice->plan, task, offer, &trials[i].problem);
        offer->known = yki_trial_is_known(choice->plan, &trials[i]);
        all_known &= offer->known;
    }
    for (size_t i = 0; i < count; i++) {
        yki_offer *offer = &choice->asked[i];

        offer->known &= all_known || !offer->solver->sets;
        if (offer->known)
            continue;
        measured[unknown] = trials[i];
        if (choice->plan->options.level != YOKE_PLAN_ESTIMATE)
            measured[unknown].seconds = 0;
        unknown++;
    }
    status = measure(choice->plan, task, measured, unknown);
    unknown = 0;
    for (size_t i = 0; i < count && status == YOKE_OK; i++) {
        yki_offer *offer = &choice->asked[i];

        offer->seconds = trials[i].seconds;
        if (!offer->known) {
            const yki_trial *t = &measured[unknown++];

            offer->seconds = t->seconds;
            if (t->failed != YOKE_OK) {
                choice->refusal = t->failed;
                continue;
            }
        }
        if (offer->solver->sets && offer->seconds == 0)
            continue; /* taken only with a measured time */
        if (offer->seconds > 0)
            offer->cost = offer->seconds;
        status = keep(choice, &trials[i].problem, offer);
    }
    yki_free(trials);
    return status;
}

/* Lists the offers of the task at hand, of the classes whose bits are set in `wanted`. */
static yoke_status
list(yki_choice *choice, const yki_task *task, unsigned wanted)
{
    choice->asked_count = 0;
    YKI_TRY(ask_classes(choice, task, wanted));
    return time_asked(choice, task);
}

/* In words of those who made the graph. */
static yoke_status
fail_unsolved(const yki_plan *plan, const yki_task *task)
{
    const char *id = yki_device_id(yki_queue_device(plan->queue));
    const yoke_node *node = task->node;
    char shape[128];

    yki_shape_text(task->problem.out.shape, shape, sizeof shape);
    return yki_fail(
        YOKE_ERROR_UNSUPPORTED, "%s: no solver on %s for %s%s of %s in a batch of %lld%s",
        node ? yki_node_title(node) : "a copy", id,
        node && node->backward ? "the gradient of " : "", node ? yki_node_function(node) : "values",
        shape, (long long)plan->options.max.batch,
        plan->options.canonical ? " has the same bits on every device" : "");
}

/* Returns the classes of the task at hand that are asked for, as bits. */
static unsigned
wanted_classes(const yki_choice *choice)
{
    enum {
        ROUNDS = 1u << YKI_CLASS_BF16 | 1u << YKI_CLASS_TF32 | 1u << YKI_CLASS_F16,
        EXACT = ((1u << YKI_CLASSES) - 1) & ~ROUNDS
    };
    const yki_plan_options *o = &choice->plan->options;
    const yki_task *task = &choice->tasks[choice->index];
    uint8_t agreed = yki_agreed_class(o, task->node);

    return o->strict                 ? 1u << task->rounds
           : o->canonical            ? 1u << yki_canonical_class(&task->problem)
           : agreed == YKI_ANY_CLASS ? EXACT | 1u << task->rounds
                                     : 1u << (agreed - 1);
}

yoke_status
yki_choice_ask(yki_choice *choice)
{
    const yki_task *task = &choice->tasks[choice->index];

    choice->asked_count = 0;
    return has_choice(task) ? ask_classes(choice, task, wanted_classes(choice)) : YOKE_OK;
}

/* Lists the offers of the task at hand. */
static yoke_status
ask(yki_choice *choice)
{
    enum { DIRECT = 1u << YKI_CLASS_DIRECT };
    yki_plan *plan = choice->plan;
    const yki_task *task = &choice->tasks[choice->index];
    unsigned wanted = wanted_classes(choice);
    struct yki_menu *menu = &choice->menu[choice->index];

    menu->begin = menu->end = choice->offer_count;
    if (!has_choice(task))
        return YOKE_OK;
    if (plan->options.canonical && task->rounds)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s: products in %s do not have the same bits on every device; its "
                        "precision must be f32",
                        task->node->name, yki_class_name(task->rounds));
    YKI_TRY(list(choice, task, wanted));
    if (choice->offer_count == menu->begin && wanted != DIRECT && !plan->options.canonical)
        YKI_TRY(list(choice, task, DIRECT));
    menu->end = choice->offer_count;
    if (menu->end > menu->begin)
        return YOKE_OK;
    if (choice->refusal != YOKE_OK)
        return choice->refusal; /* the detail is that of the newest that was left out */
    return fail_unsolved(plan, task);
}

/* A task and its operations. */
typedef struct sized_task {
    double flops;
    size_t index;
} sized_task;

static int
more_first(const void *a, const void *b)
{
    const sized_task *x = a, *y = b;

    if (x->flops != y->flops)
        return x->flops < y->flops ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Tasks with most operations come first: where the budget for measuring ends early, as it does
 * while a GPU's kernels are compiled for the first time, it has been spent on what takes longest.
 */
yoke_status
yki_choice_start(yki_choice *choice, size_t *order)
{
    sized_task *sized = yki_alloc(choice->count, sizeof *sized, "a plan's order");

    if (!sized)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t t = 0; t < choice->count; t++) {
        const yoke_node *node = choice->tasks[t].node;

        sized[t].index = t;
        sized[t].flops = node && node->op->flops ? node->op->flops(node) : 0;
    }
    qsort(sized, choice->count, sizeof *sized, more_first);
    for (size_t t = 0; t < choice->count; t++)
        order[t] = sized[t].index;
    yki_free(sized);
    find_layouts(choice);
    return YOKE_OK;
}

yoke_status
yki_choice_list_offers(yki_choice *choice)
{
    size_t *order = yki_alloc(choice->count, sizeof *order, "a plan's order");
    yoke_status status = order ? yki_choice_start(choice, order) : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK && choice->plan->options.rehearsal)
        status = yki_choice_rehearse(choice, order);
    for (size_t t = 0; t < choice->count && status == YOKE_OK; t++) {
        choice->index = order[t];
        yki_plan_tick(choice->plan);
        choice->refusal = YOKE_OK;
        status = ask(choice);
    }
    yki_free(order);
    return status;
}

/* Builds the kernels of an offer. */
static yoke_status
build(const yki_plan *plan, const yki_task *task, const yki_offer *offer)
{
    yoke_device *device = yki_queue_device(plan->queue);
    yki_recipe recipe = {.status = YOKE_OK};
    yki_problem problem;
    yoke_status status;

    yki_offer_problem(plan, task, offer, &problem);
    status = yki_solver_emit(offer->solver, &problem, yki_plan_traits(plan, offer->solver),
                             offer->tuning, &recipe);
    for (size_t k = 0; k < recipe.launch_count && status == YOKE_OK; k++) {
        yki_program *program;
        yki_kernel *kernel;

        status = yki_launch_program(device, &recipe.launches[k], &program);
        if (status != YOKE_OK)
            break;
        status = yki_kernel_create(program, recipe.launches[k].kernel, &kernel);
        yki_program_release(program);
        if (status == YOKE_OK)
            yki_kernel_destroy(kernel);
    }
    yki_recipe_clear(&recipe);
    return status;
}

yoke_status
yki_choice_try(yki_choice *choice, const yki_offer *offer, bool *works)
{
    yki_plan *plan = choice->plan;
    yoke_status status;

    *works = true;
    if (offer->seconds > 0) /* it was measured */
        return YOKE_OK;
    status = build(plan, &choice->tasks[choice->index], offer);
    if (status != YOKE_ERROR_BUILD && status != YOKE_ERROR_UNSUPPORTED &&
        status != YOKE_ERROR_DEVICE && status != YOKE_ERROR_OUT_OF_MEMORY)
        return status;
    *works = false;
    yki_log(YOKE_LOG_INFO, "%s: %s is left out: %s", yki_device_id(yki_queue_device(plan->queue)),
            offer->solver->name, yoke_last_error());
    YKI_TRY(yki_grow((void **)&choice->broken, &choice->broken_capacity, choice->broken_count + 1,
                     sizeof *choice->broken, "what does not work"));
    choice->broken[choice->broken_count++] = *offer;
    choice->refusal = status;
    return ask(choice);
}

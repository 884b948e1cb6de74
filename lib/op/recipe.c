/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.c - building recipes, and the text of a problem.
 *
 * The builder keeps the first error in recipe->status, and goes on: a launch that
 * cannot be made is NULL, and the setters do nothing after an error. So a solver
 * checks the status once, at its end.
 */
#include <stdio.h>
#include <string.h>

#include "op/recipe.h"

yoke_status
yki_extents_check(yki_extents extents, yki_extents max)
{
    if (extents.batch < 0 || extents.batch > max.batch)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the batch", extents.batch, 0,
                              max.batch);
    if (extents.length < 0 || extents.length > max.length)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the length", extents.length, 0,
                              max.length);
    return YOKE_OK;
}

int64_t
yki_expr_value(yki_expr expr, yki_extents extents)
{
    int64_t divisor = expr.divisor ? expr.divisor : 1;
    int64_t terms = expr.per_sample * extents.batch + expr.per_row * extents.length;
    int64_t value = (terms + expr.constant + divisor - 1) / divisor;

    return expr.max ? YKI_MIN(value, expr.max) : value;
}

yki_expr
yki_operand_elements(const yki_operand *operand)
{
    int64_t count = 1, block = YKI_MAX(operand->layout.block, 1u);

    for (int32_t i = 0; i < operand->shape.rank; i++) {
        int64_t dim = operand->shape.dim[i];

        count *= i == 0 ? (dim + block - 1) / block * block : dim;
    }
    return operand->batched ? YKI_PER_SAMPLE(count) : YKI_CONST(count);
}

int64_t
yki_operand_count(const yki_operand *operand, yki_extents extents)
{
    return yki_expr_value(yki_operand_elements(operand), extents);
}

yki_expr
yki_operand_bytes(const yki_operand *operand)
{
    yki_expr bytes = yki_operand_elements(operand);

    bytes.per_sample *= (int64_t)yki_type_size(operand->type);
    bytes.constant *= (int64_t)yki_type_size(operand->type);
    return bytes;
}

int64_t
yki_value_count(const yki_operand *operand, yki_extents extents)
{
    return yki_operand_count(operand, yki_extents_for(extents, operand->rows));
}

int64_t
yki_value_bytes(const yki_operand *operand, yki_extents extents)
{
    return yki_value_count(operand, extents) * (int64_t)yki_type_size(operand->type);
}

static size_t
operand_text(const yki_operand *operand, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s%s", yki_value_type_name(operand->type),
                                   operand->batched ? " N" : "");

    for (int32_t i = 0; i < operand->shape.rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%lld", i ? ',' : ' ',
                                 (long long)operand->shape.dim[i]);
    if (operand->layout.block > 1 && used < size)
        used += (size_t)snprintf(text + used, size - used, " /%u", operand->layout.block);
    return YKI_MIN(used, size);
}

const yki_operand *
yki_problem_operand(const yki_problem *problem, uint32_t slot)
{
    if (slot < problem->input_count)
        return &problem->in[slot];
    slot -= problem->input_count;
    return slot == 0 ? &problem->out : &problem->extra[slot - 1];
}

void
yki_problem_text(const yki_problem *problem, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s", problem->op->name);

    if (problem->op->describe && used < size) {
        char attrs[256] = "";

        problem->op->describe(&problem->attrs, attrs, sizeof attrs);
        used += (size_t)snprintf(text + used, size - used, " %s", attrs);
    }
    for (uint32_t i = 0; i < yki_problem_operands(problem) && used < size; i++) {
        const char *before = i < problem->input_count    ? " | "
                             : i == problem->input_count ? " -> "
                                                         : " + ";

        used += (size_t)snprintf(text + used, size - used, "%s", before);
        if (used < size)
            used += operand_text(yki_problem_operand(problem, i), text + used, size - used);
    }
    if (used < size)
        snprintf(text + used, size - used, " @%lld", (long long)problem->max.batch);
}

yki_operand
yki_operand_of(const yoke_node *node)
{
    return (yki_operand){node->type, node->shape, node->batched, YKI_PLAIN, node->length > 0};
}

static yki_operand
operand_for(const yki_op *op, const yoke_node *node)
{
    yki_operand operand = yki_operand_of(node);

    if (op->whole) {
        operand.shape = yki_whole_shape(node);
        operand.rows = false;
    }
    return operand;
}

void
yki_problem_set_inputs(yki_problem *problem, yoke_node *const *inputs, uint32_t count)
{
    problem->input_count = count;
    for (uint32_t i = 0; i < count; i++) {
        problem->in[i] = operand_for(problem->op, inputs[i]);
        problem->valid[i] = (int32_t)inputs[i]->low;
    }
}

void
yki_problem_of_node(const yoke_node *node, yki_extents max, yki_problem *problem)
{
    bool is_sequence = node->length > 0;

    memset(problem, 0, sizeof *problem);
    problem->op = node->op;
    problem->attrs = node->attrs;
    yki_problem_set_inputs(problem, node->inputs, node->input_count);
    problem->out = operand_for(node->op, node);
    problem->rows = problem->out.rows;
    for (uint32_t i = 0; i < node->input_count; i++) {
        problem->rows |= problem->in[i].rows;
        is_sequence |= node->inputs[i]->length > 0;
    }
    max.length = is_sequence ? node->graph->length : 0;
    problem->max = yki_extents_for(max, problem->rows);
    problem->data = node->data;
}

void
yki_recipe_start(yki_recipe *recipe, const yki_problem *problem)
{
    memset(recipe, 0, sizeof *recipe);
    for (uint32_t i = 0; i < problem->input_count; i++)
        yki_recipe_slot(recipe, YKI_SLOT_INPUT, yki_operand_bytes(&problem->in[i]));
    yki_recipe_slot(recipe, YKI_SLOT_OUTPUT, yki_operand_bytes(&problem->out));
    for (uint32_t i = 0; i < problem->extra_count; i++)
        yki_recipe_slot(recipe, YKI_SLOT_OUTPUT, yki_operand_bytes(&problem->extra[i]));
}

void
yki_recipe_clear(yki_recipe *recipe)
{
    yki_free(recipe->launches);
    memset(recipe, 0, sizeof *recipe);
}

static void
keep(yki_recipe *recipe, yoke_status status)
{
    if (recipe->status == YOKE_OK)
        recipe->status = status;
}

uint32_t
yki_recipe_slot(yki_recipe *recipe, yki_slot_kind kind, yki_expr bytes)
{
    if (recipe->slot_count == YKI_MAX_SLOTS) {
        keep(recipe, yki_fail_bug("a recipe has more than %d slots", YKI_MAX_SLOTS));
        return 0;
    }
    recipe->slots[recipe->slot_count] = (yki_slot){kind, bytes};
    return recipe->slot_count++;
}

yki_launch *
yki_recipe_launch(yki_recipe *recipe, const char *file, const char *kernel, const char *options,
                  ...)
{
    yki_launch *launch;
    yoke_status status;
    va_list args;

    status = yki_grow((void **)&recipe->launches, &recipe->launch_capacity,
                      recipe->launch_count + 1, sizeof *recipe->launches, "a recipe");
    if (status != YOKE_OK) {
        keep(recipe, status);
        return NULL;
    }
    launch = &recipe->launches[recipe->launch_count++];
    memset(launch, 0, sizeof *launch);
    launch->phase = YKI_PHASE_RUN;
    launch->file = file;
    launch->kernel = kernel;
    va_start(args, options);
    if (vsnprintf(launch->options, sizeof launch->options, options, args) >=
        (int)sizeof launch->options)
        keep(recipe, yki_fail_bug("%s: its build options are too long", kernel));
    va_end(args);
    return launch;
}

const char *
yki_two_groups(int64_t items)
{
    return items == 256 ? " -DYKI_REGISTERS=128" : ""; /* of 65536 */
}

int64_t
yki_rounds(const yki_device_traits *traits, int64_t terms)
{
    return traits->copies_ahead && terms < 16 ? 3 : 2;
}

/* Units that round what they store have nothing to copy. */
const char *
yki_ahead_option(const yki_device_traits *traits, yki_dot_unit unit, int64_t terms)
{
    if (!traits->copies_ahead || unit == YKI_DOT_ROUNDED || unit == YKI_DOT_ROUNDED_TF32 ||
        unit == YKI_DOT_ROUNDED_F16)
        return "";
    return yki_rounds(traits, terms) == 3 ? " -DTILE_ROUNDS=3" : " -DTILE_ROUNDS=2";
}

static yki_arg *
next_arg(yki_recipe *recipe, yki_arg_kind kind)
{
    yki_launch *launch = recipe->launch_count ? &recipe->launches[recipe->launch_count - 1] : NULL;
    yki_arg *arg;

    if (!launch || recipe->status != YOKE_OK)
        return NULL;
    if (launch->arg_count == YKI_MAX_ARGS) {
        keep(recipe, yki_fail_bug("%s has too many arguments", launch->kernel));
        return NULL;
    }
    arg = &launch->args[launch->arg_count++];
    arg->kind = kind;
    return arg;
}

void
yki_arg_slot(yki_recipe *recipe, uint32_t slot)
{
    yki_arg *arg = next_arg(recipe, YKI_ARG_SLOT);

    if (arg)
        arg->slot = slot;
}

void
yki_arg_expr_at(yki_recipe *recipe, const char *name, int number, yki_expr expr)
{
    yki_arg *arg = next_arg(recipe, YKI_ARG_INT);

    if (!arg)
        return;
    arg->name = name;
    arg->number = number;
    arg->expr = expr;
}

void
yki_arg_expr(yki_recipe *recipe, const char *name, yki_expr expr)
{
    yki_arg_expr_at(recipe, name, -1, expr);
}

void
yki_arg_int_at(yki_recipe *recipe, const char *name, int number, int64_t value)
{
    if (value > INT32_MAX || value < INT32_MIN)
        keep(recipe, yki_fail(YOKE_ERROR_UNSUPPORTED,
                              "a number of a kernel is %lld; must be between %d and %d",
                              (long long)value, INT32_MIN, INT32_MAX));
    yki_arg_expr_at(recipe, name, number, YKI_CONST(value));
}

void
yki_arg_int(yki_recipe *recipe, const char *name, int64_t value)
{
    yki_arg_int_at(recipe, name, -1, value);
}

void
yki_arg_ints(yki_recipe *recipe, const yki_named_int *ints, size_t count)
{
    for (size_t i = 0; i < count; i++)
        yki_arg_int(recipe, ints[i].name, ints[i].value);
}

void
yki_arg_float(yki_recipe *recipe, const char *name, float value)
{
    yki_arg *arg = next_arg(recipe, YKI_ARG_FLOAT);

    if (!arg)
        return;
    arg->name = name;
    arg->number = -1;
    arg->value = value;
}

void
yki_arg_step(yki_recipe *recipe)
{
    next_arg(recipe, YKI_ARG_STEP);
}

void
yki_launch_grid(yki_launch *launch, yki_expr g0, yki_expr g1, yki_expr g2, uint32_t l0, uint32_t l1,
                uint32_t l2)
{
    if (!launch)
        return;
    launch->groups[0] = g0;
    launch->groups[1] = g1;
    launch->groups[2] = g2;
    launch->local[0] = l0;
    launch->local[1] = l1;
    launch->local[2] = l2;
}

bool
yki_launch_grid_at(const yki_launch *launch, yki_extents extents, yki_grid *grid)
{
    memset(grid, 0, sizeof *grid);
    for (int d = 0; d < 3; d++) {
        int64_t groups = yki_expr_value(launch->groups[d], extents);

        /* A dimension that was not given is 1. One that is given and comes out as 0 or less means
         * no work. */
        if (groups <= 0 && (launch->groups[d].per_sample || launch->groups[d].constant))
            return false;
        grid->groups[d] = (size_t)YKI_MAX(groups, 1);
        grid->local[d] = YKI_MAX(launch->local[d], 1u);
    }
    return true;
}

/* ---- devices that end a work-item after too many iterations ---- */

void
yki_launch_iterations(yki_launch *launch, const yki_problem *problem, double iterations,
                      int64_t each)
{
    double items = 1;

    if (!launch)
        return;
    for (int i = 0; i < 3; i++)
        items *= (double)(YKI_MAX(yki_expr_value(launch->groups[i], problem->max), 1) *
                          YKI_MAX(launch->local[i], 1));
    launch->iterations = (int64_t)YKI_MIN(iterations / items, 1e15) + each;
}

static int64_t
most_iterations(const yki_recipe *recipe)
{
    int64_t most = 0;

    for (size_t i = 0; i < recipe->launch_count; i++)
        most = YKI_MAX(most, recipe->launches[i].iterations);
    return most;
}

bool
yki_plain_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)traits;
    for (uint32_t s = 0; s < yki_problem_operands(problem); s++)
        if (yki_problem_operand(problem, s)->layout.block > 1)
            return false;
    return true;
}

/* Fails if a number of a kernel is no int in the largest batch. */
static yoke_status
check_numbers(const yki_recipe *recipe, yki_extents max)
{
    for (size_t i = 0; i < recipe->launch_count; i++) {
        const yki_launch *launch = &recipe->launches[i];

        for (uint32_t k = 0; k < launch->arg_count; k++) {
            const yki_arg *arg = &launch->args[k];
            int64_t value = arg->kind == YKI_ARG_INT ? yki_expr_value(arg->expr, max) : 0;

            if (value > INT32_MAX || value < INT32_MIN)
                return yki_fail(YOKE_ERROR_UNSUPPORTED,
                                "%s: \"%s\" is %lld in a batch of %lld; must be between %d and %d",
                                launch->kernel, arg->name ? arg->name : "a number",
                                (long long)value, (long long)max.batch, INT32_MIN, INT32_MAX);
        }
    }
    return YOKE_OK;
}

static yoke_status
emit(const yki_solver *solver, const yki_problem *problem, const yki_device_traits *traits,
     unsigned tuning, yki_recipe *recipe)
{
    yki_dot_unit unit = YKI_DOT_FMA;

    if (solver->numerical_class == YKI_CLASS_BF16)
        unit = solver->emulates ? YKI_DOT_ROUNDED : traits->bf16;
    else if (solver->numerical_class == YKI_CLASS_TF32)
        unit = solver->emulates ? YKI_DOT_ROUNDED_TF32 : traits->tf32;
    else if (solver->numerical_class == YKI_CLASS_F16)
        unit = solver->emulates ? YKI_DOT_ROUNDED_F16 : traits->f16;
    return solver->emit_by ? solver->emit_by(problem, traits, unit, tuning, recipe)
                           : solver->emit(problem, traits, tuning, recipe);
}

void
yki_canonical_traits(const yki_device_traits *own, yki_canonical solver, yki_device_traits *traits)
{
    *traits = *own;
    traits->canonical = true;
    if (solver != YKI_CANONICAL_FIXED)
        return;
    traits->type = YOKE_DEVICE_GPU;
    traits->compute_units = 32;
    traits->vector_width = 4;
    traits->local_memory = 16384;
    traits->local_is_real = true;
    traits->max_group = 64;
    traits->cache = 0;
    traits->loop_limit = 65535;
}

/* Tells the kernels of a canonical plan that they are of one: common.cl says what that means. */
static yoke_status
make_canonical(yki_recipe *recipe)
{
    for (size_t i = 0; i < recipe->launch_count; i++) {
        char *options = recipe->launches[i].options;
        size_t used = strlen(options), room = sizeof recipe->launches[i].options - used;
        int size = 0;

        if (!strstr(options, "-DYKI_CANONICAL=1")) /* or it came from another solver's recipe */
            size = snprintf(options + used, room, "%s-DYKI_CANONICAL=1", used ? " " : "");
        if (size < 0 || (size_t)size >= room)
            return yki_fail_bug("the options of %s are too long", recipe->launches[i].kernel);
    }
    return YOKE_OK;
}

yoke_status
yki_solver_emit(const yki_solver *solver, const yki_problem *problem,
                const yki_device_traits *traits, unsigned tuning, yki_recipe *recipe)
{
    enum { MOST_UNITS = 1 << 12 };
    yki_device_traits finer = *traits;

    for (;; finer.compute_units *= 2) {
        yoke_status status = emit(solver, problem, &finer, tuning, recipe);

        if (status == YOKE_OK) {
            status = check_numbers(recipe, problem->max);
            if (status == YOKE_OK && traits->canonical)
                status = make_canonical(recipe);
            if (status != YOKE_OK)
                yki_recipe_clear(recipe);
        }
        if (status != YOKE_OK || !traits->loop_limit ||
            most_iterations(recipe) <= traits->loop_limit)
            return status;
        yki_recipe_clear(recipe);
        if (finer.compute_units > MOST_UNITS)
            return YOKE_ERROR_UNSUPPORTED;
    }
}

bool
yki_solver_ends(const yki_solver *solver, const yki_problem *problem,
                const yki_device_traits *traits, unsigned tuning)
{
    yki_recipe recipe;

    if (yki_solver_emit(solver, problem, traits, tuning, &recipe) != YOKE_OK)
        return false;
    yki_recipe_clear(&recipe);
    return true;
}

bool
yki_solver_suits(const yki_solver *solver, const yki_problem *problem,
                 const yki_device_traits *traits)
{
    return solver->applies(problem, traits) && yki_solver_ends(solver, problem, traits, 0);
}

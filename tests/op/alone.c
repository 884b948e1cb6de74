/* SPDX-License-Identifier: Apache-2.0
 *
 * alone.c - runs one operator over buffers of its own.
 */
#include <math.h>
#include <string.h>

#include "op/alone.h"

enum { MOST_BUFFERS = 128, MOST_RUNNERS = 32 };

static yoke_context *context;
static yoke_selection *selection;
yki_queue *alone_queue;
yki_device_traits alone_traits;
const char *alone_only;
bool alone_last;
/* Kept until the end: Oclgrind takes what follows a released buffer for that one. */
static yki_buffer *buffers[MOST_BUFFERS];
static yki_runner *runners[MOST_RUNNERS];
static size_t buffer_count, runner_count;

void
alone_open(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    ASSERT_OK(yki_queue_create(yoke_selection_get(selection, 0), false, &alone_queue));
    alone_traits = *yki_device_get_traits(yki_queue_device(alone_queue));
    alone_only = NULL; /* a test before this one may have failed */
    alone_last = false;
}

void
alone_close(void)
{
    while (runner_count > 0)
        yki_runner_destroy(runners[--runner_count]);
    while (buffer_count > 0)
        yki_buffer_destroy(buffers[--buffer_count]);
    yki_queue_destroy(alone_queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

const yki_solver *
alone_solver(const yki_problem *problem, bool last)
{
    const yki_solver *found = NULL;

    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if (*(*s)->op == problem->op && (*s)->applies(problem, &alone_traits) && (last || !found) &&
            (!alone_only || strstr((*s)->name, alone_only)))
            found = *s;
    ck_assert_msg(found != NULL, "nothing solves %s", problem->op->name);
    return found;
}

static uint64_t
bytes_of(const yki_problem *problem, uint32_t slot, int64_t n)
{
    const yki_expr bytes = yki_operand_bytes(yki_problem_operand(problem, slot));

    return (uint64_t)yki_expr_value(bytes, (yki_extents){.batch = n});
}

void
alone_run(const yki_problem *problem, unsigned tuning, int64_t n, void *const *values)
{
    const yki_extents extents = {.batch = n};
    uint32_t operands = yki_problem_operands(problem);
    yki_buffer **slots = buffers + buffer_count;
    const yki_solver *solver = alone_solver(problem, alone_last);
    yki_recipe recipe;

    ck_assert_uint_le(buffer_count + operands, MOST_BUFFERS);
    ck_assert_uint_lt(runner_count, MOST_RUNNERS);
    for (uint32_t i = 0; i < operands; i++) {
        uint64_t bytes = bytes_of(problem, i, n);

        if (i >= problem->input_count)
            memset(values[i], 0xff, bytes); /* which are NaN */
        ASSERT_OK(yki_buffer_create(yki_queue_device(alone_queue), bytes, 0, "an operand",
                                    &buffers[buffer_count++]));
        ASSERT_OK(yki_buffer_put(slots[i], 0, bytes, values[i]));
    }
    ASSERT_OK(yki_solver_emit(solver, problem, &alone_traits, tuning, &recipe));
    op_check_arguments(yki_queue_device(alone_queue), solver, &recipe);
    ASSERT_OK(
        yki_runner_create(alone_queue, problem, &recipe, slots, NULL, &runners[runner_count]));
    ASSERT_OK(yki_runner_enqueue(runners[runner_count++], YKI_PHASE_RUN, extents, NULL));
    ASSERT_OK(yki_queue_finish(alone_queue));
    yki_recipe_clear(&recipe);
    for (uint32_t i = problem->input_count; i < operands; i++)
        ASSERT_OK(yki_buffer_get(slots[i], 0, bytes_of(problem, i, n), values[i]));
}

yki_operand
alone_tensor(yoke_type type, bool batched, yoke_shape shape)
{
    return (yki_operand){.type = type, .shape = shape, .batched = batched, .layout = YKI_PLAIN};
}

/* Numbers that are exact in bfloat16, so the last solver, which rounds, sees the same. */
void
alone_fill(float *values, size_t count, uint32_t stream)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)op_bf16(op_uniform(5, stream, i) - 0.5);
}

void
alone_near(const float *a, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i])), "%lld: %g, not %g",
                      (long long)i, (double)a[i], (double)b[i]);
}

bool
alone_vectors(uint32_t width)
{
    if (op_on_simulator()) {
        alone_traits.type = YOKE_DEVICE_CPU;
        alone_traits.vector_width = width;
        alone_traits.compute_units = YKI_MAX(alone_traits.compute_units, 2u);
    }
    return alone_traits.type == YOKE_DEVICE_CPU && alone_traits.vector_width >= 4;
}

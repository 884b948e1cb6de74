/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c - measures the time of one recipe on one device by running it.
 *
 * The first run compiles and does not count. The least time of a few more runs counts, because
 * anything else that happens on the machine only adds to it.
 */
#include "plan/plan.h"

enum { RUNS = 3, MORE_RUNS = 10 };
#define SHORT_RUN 1e-3

typedef struct bench {
    yki_queue *queue;
    yki_buffer *operands[YKI_MAX_OPERANDS];
    yki_buffer *step;
    yki_runner *runner;
} bench;

/* Returns the bits that fill an operand. Floats are plain numbers, because denormals or NaN would
 * run at another speed. Integers are valid ones, because a kernel may use them as indices. */
static uint32_t
pattern_of(const yki_problem *problem, uint32_t index)
{
    uint32_t valid = index < problem->input_count ? (uint32_t)problem->valid[index] : 0;

    switch (yki_problem_operand(problem, index)->type) {
    case YOKE_F32:
        return 0x3f000000u;
    case YOKE_U8:
        return valid * 0x01010101u;
    case YOKE_I32:
        return valid;
    }
    return 0;
}

static yoke_status
make_operands(bench *b, const yki_problem *problem)
{
    yoke_device *device = yki_queue_device(b->queue);

    for (uint32_t i = 0; i < yki_problem_operands(problem); i++) {
        const yki_operand *operand = yki_problem_operand(problem, i);
        uint64_t size = (uint64_t)yki_expr_value(yki_operand_bytes(operand), problem->max);

        YKI_TRY(yki_buffer_create(device, size, 0, "an operand to measure with", &b->operands[i]));
        YKI_TRY(yki_queue_fill(b->queue, b->operands[i], 0, size, pattern_of(problem, i),
                               YKI_NO_WAIT, NULL));
    }
    YKI_TRY(yki_buffer_create(device, sizeof(yki_step_values), 0, "step values", &b->step));
    return yki_buffer_touch(b->queue, b->step);
}

static yoke_status
run(bench *b, yki_extents extents, bool prepare, double *seconds)
{
    double start = yki_now();

    if (prepare)
        YKI_TRY(yki_runner_enqueue(b->runner, YKI_PHASE_PREPARE, extents, NULL));
    YKI_TRY(yki_runner_enqueue(b->runner, YKI_PHASE_RUN, extents, NULL));
    YKI_TRY(yki_queue_finish(b->queue));
    *seconds = yki_now() - start;
    return YOKE_OK;
}

static yoke_status
time_it(bench *b, yki_extents extents, bool prepare, double *least)
{
    double seconds;
    int runs = RUNS;

    YKI_TRY(run(b, extents, true, &seconds));
    for (int i = 0; i < runs; i++) {
        YKI_TRY(run(b, extents, prepare, &seconds));
        if (i == 0 || seconds < *least)
            *least = seconds;
        if (i == 0 && seconds < SHORT_RUN)
            runs = MORE_RUNS;
    }
    return YOKE_OK;
}

yoke_status
yki_measure(yki_queue *queue, const yki_problem *problem, const yki_solver *solver, unsigned tuning,
            bool prepare, double *seconds)
{
    bench b = {.queue = queue};
    yki_recipe recipe = {.status = YOKE_OK};
    double least = 0;
    yoke_status status;

    status = yki_solver_emit(solver, problem, yki_device_get_traits(yki_queue_device(queue)),
                             tuning, &recipe);
    if (status == YOKE_OK)
        status = make_operands(&b, problem);
    if (status == YOKE_OK)
        status = yki_runner_create(queue, problem, &recipe, b.operands, b.step, &b.runner);
    if (status == YOKE_OK)
        status = time_it(&b, problem->max, prepare, &least);
    yki_runner_destroy(b.runner);
    for (size_t i = 0; i < YKI_COUNT(b.operands); i++)
        yki_buffer_destroy(b.operands[i]);
    yki_buffer_destroy(b.step);
    yki_recipe_clear(&recipe);
    if (status == YOKE_OK)
        *seconds = least;
    return status;
}

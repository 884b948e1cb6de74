/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - runs a recipe by itself: builds the programs, makes the kernels, sets their
 * arguments, allocates scratch memory. Tests and the planner's measurements use it. A
 * plan does the same over its own packed memory.
 *
 * When an extent changes, only arguments that are expressions are set again.
 */
#include <string.h>

#include "op/recipe.h"

struct yki_runner {
    yki_queue *queue;
    yki_problem problem;
    yki_recipe recipe;                /* a copy with its own launches */
    yki_buffer *slots[YKI_MAX_SLOTS]; /* operands are borrowed, the others owned */
    uint32_t lent;
    yki_buffer *step_values;
    yki_kernel **kernels;
    yki_extents extents; /* for which the arguments are set; a batch of -1: none */
};

yoke_status
yki_launch_program(yoke_device *device, const yki_launch *launch, yki_program **program)
{
    if (launch->source)
        return yki_program_get_source(device, launch->file, launch->source, launch->options,
                                      program);
    return yki_program_get(device, launch->file, launch->options, program);
}

static yoke_status
set_fixed_args(yki_runner *runner, size_t index)
{
    const yki_launch *launch = &runner->recipe.launches[index];
    yki_kernel *kernel = runner->kernels[index];

    for (uint32_t i = 0; i < launch->arg_count; i++) {
        const yki_arg *arg = &launch->args[i];

        switch (arg->kind) {
        case YKI_ARG_SLOT:
            YKI_TRY(yki_kernel_set_buffer(kernel, i, runner->slots[arg->slot]));
            break;
        case YKI_ARG_FLOAT:
            YKI_TRY(yki_kernel_set(kernel, i, sizeof arg->value, &arg->value));
            break;
        case YKI_ARG_STEP:
            YKI_TRY(yki_kernel_set_buffer(kernel, i, runner->step_values));
            break;
        case YKI_ARG_INT:
            break;
        }
    }
    return YOKE_OK;
}

static yoke_status
set_extents(yki_runner *runner, yki_extents extents)
{
    for (size_t k = 0; k < runner->recipe.launch_count; k++) {
        const yki_launch *launch = &runner->recipe.launches[k];

        for (uint32_t i = 0; i < launch->arg_count; i++) {
            const yki_arg *arg = &launch->args[i];
            int32_t value;

            if (arg->kind != YKI_ARG_INT)
                continue;
            value = (int32_t)yki_expr_value(arg->expr, extents);
            YKI_TRY(yki_kernel_set(runner->kernels[k], i, sizeof value, &value));
        }
    }
    runner->extents = extents;
    return YOKE_OK;
}

static yoke_status
prepare(yki_runner *runner, yki_buffer *const *operands)
{
    yoke_device *device = yki_queue_device(runner->queue);

    for (uint32_t i = 0; i < runner->recipe.slot_count; i++) {
        const yki_slot *slot = &runner->recipe.slots[i];

        if (i < runner->lent)
            runner->slots[i] = operands[i];
        else
            YKI_TRY(yki_buffer_create(device,
                                      (uint64_t)yki_expr_value(slot->bytes, runner->problem.max), 0,
                                      "scratch of an operator", &runner->slots[i]));
    }
    for (size_t k = 0; k < runner->recipe.launch_count; k++) {
        const yki_launch *launch = &runner->recipe.launches[k];
        yki_program *program;
        yoke_status status;

        YKI_TRY(yki_launch_program(device, launch, &program));
        status = yki_kernel_create(program, launch->kernel, &runner->kernels[k]);
        yki_program_release(program); /* the kernel keeps it */
        YKI_TRY(status);
        YKI_TRY(set_fixed_args(runner, k));
    }
    if (runner->recipe.call)
        return runner->recipe.call->prepare(runner->queue, runner->slots, runner->problem.max,
                                            runner->recipe.call_data);
    return YOKE_OK;
}

yoke_status
yki_runner_create(yki_queue *queue, const yki_problem *problem, const yki_recipe *recipe,
                  yki_buffer *const *operands, yki_buffer *step_values, yki_runner **out)
{
    yki_runner *runner = NULL;
    yoke_status status;

    YKI_TRY(recipe->status);
    runner = yki_alloc(1, sizeof *runner, "a recipe's runner");
    if (!runner)
        return YOKE_ERROR_OUT_OF_MEMORY;
    runner->queue = queue;
    runner->problem = *problem;
    runner->recipe = *recipe;
    runner->lent = yki_problem_operands(problem);
    runner->step_values = step_values;
    runner->extents = (yki_extents){.batch = -1};
    runner->recipe.launches = yki_alloc(recipe->launch_count, sizeof *recipe->launches, "launches");
    runner->kernels = yki_alloc(recipe->launch_count, sizeof *runner->kernels, "kernels");
    if (!runner->recipe.launches || !runner->kernels) {
        status = YOKE_ERROR_OUT_OF_MEMORY;
        goto fail;
    }
    if (recipe->launch_count)
        memcpy(runner->recipe.launches, recipe->launches,
               recipe->launch_count * sizeof *recipe->launches);
    status = prepare(runner, operands);
    if (status != YOKE_OK)
        goto fail;
    *out = runner;
    return YOKE_OK;
fail:
    yki_runner_destroy(runner);
    return status;
}

void
yki_runner_destroy(yki_runner *runner)
{
    if (!runner)
        return;
    for (size_t k = 0; runner->kernels && k < runner->recipe.launch_count; k++)
        yki_kernel_destroy(runner->kernels[k]);
    for (uint32_t i = runner->lent; i < runner->recipe.slot_count; i++)
        yki_buffer_destroy(runner->slots[i]);
    yki_free(runner->kernels);
    yki_free(runner->recipe.launches);
    yki_free(runner);
}

yoke_status
yki_runner_enqueue(yki_runner *runner, yki_phase phase, yki_extents extents, yki_event *done)
{
    size_t last = runner->recipe.launch_count;

    YKI_TRY(yki_extents_check(extents, runner->problem.max));
    if (done)
        memset(done, 0, sizeof *done);
    if (!yki_extents_equal(extents, runner->extents))
        YKI_TRY(set_extents(runner, extents));
    if (runner->recipe.call && phase == YKI_PHASE_RUN)
        YKI_TRY(runner->recipe.call->run(runner->queue, runner->slots, extents,
                                         runner->recipe.call_data));
    for (size_t k = 0; k < runner->recipe.launch_count; k++)
        if (runner->recipe.launches[k].phase == phase)
            last = k;
    for (size_t k = 0; k < runner->recipe.launch_count; k++) {
        const yki_launch *launch = &runner->recipe.launches[k];
        yki_grid grid;

        if (launch->phase == phase && yki_launch_grid_at(launch, extents, &grid))
            YKI_TRY(yki_queue_launch(runner->queue, runner->kernels[k], &grid, YKI_NO_WAIT,
                                     k == last ? done : NULL));
    }
    /* The last launch had nothing to do, or a library's call was last. */
    if (done && !done->cl)
        return yki_queue_marker(runner->queue, YKI_NO_WAIT, done);
    return YOKE_OK;
}

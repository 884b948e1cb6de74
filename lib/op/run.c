/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - makes the kernel of a launch and sets its arguments, and runs a recipe by
 * itself, with scratch memory of its own. Tests and the planner's measurements do that.
 * A plan runs recipes over its own packed memory.
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

yoke_status
yki_launch_bind(const yki_launch *launch, yoke_device *device, yki_buffer *const *slots,
                yki_buffer *step_values, yki_kernel **kernel)
{
    yki_program *program;
    yoke_status status;

    YKI_TRY(yki_launch_program(device, launch, &program));
    status = yki_kernel_create(program, launch->kernel, kernel);
    yki_program_release(program); /* the kernel keeps it */
    YKI_TRY(status);
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        const yki_arg *arg = &launch->args[i];

        switch (arg->kind) {
        case YKI_ARG_SLOT:
            YKI_TRY(yki_kernel_set_buffer(*kernel, i, slots[arg->slot]));
            break;
        case YKI_ARG_FLOAT:
            YKI_TRY(yki_kernel_set_float(*kernel, i, arg->value));
            break;
        case YKI_ARG_STEP:
            YKI_TRY(yki_kernel_set_buffer(*kernel, i, step_values));
            break;
        case YKI_ARG_INT:
            break;
        }
    }
    return YOKE_OK;
}

yoke_status
yki_launch_set_extents(const yki_launch *launch, yki_kernel *kernel, yki_extents extents)
{
    for (uint32_t i = 0; i < launch->arg_count; i++)
        if (launch->args[i].kind == YKI_ARG_INT)
            YKI_TRY(yki_kernel_set_int(kernel, i, yki_expr_value(launch->args[i].expr, extents)));
    return YOKE_OK;
}

yoke_status
yki_launch_enqueue(const yki_launch *launch, yki_kernel *kernel, yki_queue *queue,
                   yki_extents extents, yki_event *done)
{
    yki_grid grid;

    if (!yki_launch_grid_at(launch, extents, &grid))
        return YOKE_OK;
    return yki_queue_launch(queue, kernel, &grid, YKI_NO_WAIT, done);
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
    for (size_t k = 0; k < runner->recipe.launch_count; k++)
        YKI_TRY(yki_launch_bind(&runner->recipe.launches[k], device, runner->slots,
                                runner->step_values, &runner->kernels[k]));
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
    const yki_launch *launches = runner->recipe.launches;
    size_t last = runner->recipe.launch_count;

    YKI_TRY(yki_extents_check(extents, runner->problem.max));
    if (!extents.length)
        extents.length = runner->problem.max.length;
    if (done)
        memset(done, 0, sizeof *done);
    for (size_t k = 0;
         !yki_extents_equal(extents, runner->extents) && k < runner->recipe.launch_count; k++)
        YKI_TRY(yki_launch_set_extents(&launches[k], runner->kernels[k], extents));
    runner->extents = extents;
    if (runner->recipe.call && phase == YKI_PHASE_RUN)
        YKI_TRY(runner->recipe.call->run(runner->queue, runner->slots, extents,
                                         runner->recipe.call_data));
    for (size_t k = 0; k < runner->recipe.launch_count; k++)
        if (launches[k].phase == phase)
            last = k;
    for (size_t k = 0; k < runner->recipe.launch_count; k++)
        if (launches[k].phase == phase)
            YKI_TRY(yki_launch_enqueue(&launches[k], runner->kernels[k], runner->queue, extents,
                                       k == last ? done : NULL));
    /* The last launch had nothing to do, or a library's call was last. */
    if (done && !done->cl)
        return yki_queue_marker(runner->queue, YKI_NO_WAIT, done);
    return YOKE_OK;
}

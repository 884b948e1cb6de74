/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c - how well the devices of a selection run side by side.
 *
 * Idea: each device gets a load of multiply-adds that takes it about 20 ms when it is
 * alone; trials find the size. Then all loads run at once. Devices that share nothing
 * take as long together as the slowest takes alone. Slices of one chip take as long as
 * all of them one after another. Runs alone and together alternate, so that a machine
 * that slows down meanwhile affects both. Medians keep outliers out.
 *
 * It measures arithmetic only: no memory bandwidth, no transfers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/runtime.h"

#define TARGET_SECONDS 0.020
enum {
    GROUPS_PER_UNIT = 8, /* several, so that other cores can help a late one */
    GPU_GROUP = 64,
    FIRST_ROUNDS = 256,
    MAX_ROUNDS = 1 << 14, /* iterations of the loop (common.cl); larger loads have more groups */
    MAX_GROUPS = 65535,
    TRIES = 3,
    DEFAULT_REPEATS = 5,
    MAX_REPEATS = 1000
};

/* One device with its load. */
typedef struct load_job {
    yki_queue *queue;
    yki_kernel *kernel;
    yki_buffer *out;
    yki_grid grid;
    cl_uint rounds;
    double *alone; /* seconds, one for each repeat */
} load_job;

static void
load_close(load_job *job)
{
    yki_queue_destroy(job->queue);
    yki_kernel_destroy(job->kernel);
    yki_buffer_destroy(job->out);
    yki_free(job->alone);
}

/* On failure too, the caller closes the job with load_close. */
static yoke_status
load_open(load_job *job, yoke_device *device, unsigned repeats)
{
    const yki_device_traits *traits = yki_device_get_traits(device);
    size_t local = traits->type == YOKE_DEVICE_GPU ? YKI_MIN(GPU_GROUP, traits->max_group) : 1;
    size_t groups = YKI_MIN((size_t)traits->compute_units * GROUPS_PER_UNIT, MAX_GROUPS);
    yki_program *program;
    char options[32];
    yoke_status status;

    job->grid = (yki_grid){.groups = {groups}, .local = {local}};
    job->alone = yki_alloc(repeats, sizeof *job->alone, "times");
    if (!job->alone)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_queue_create(device, false, &job->queue));
    YKI_TRY(yki_buffer_create(device, sizeof(float), 0, "the result of a load", &job->out));
    snprintf(options, sizeof options, "-DLOCAL=%zu", local);
    YKI_TRY(yki_program_get(device, "load.cl", options, &program));
    status = yki_kernel_create(program, "yki_load", &job->kernel);
    yki_program_release(program);
    YKI_TRY(status);
    return yki_kernel_set_buffer(job->kernel, 0, job->out);
}

static yoke_status
load_start(load_job *job)
{
    YKI_TRY(yki_queue_launch(job->queue, job->kernel, &job->grid, YKI_NO_WAIT, NULL));
    return yki_queue_flush(job->queue);
}

/* Starts all loads at once and measures the time until the last is done. */
static yoke_status
run(load_job *loads, size_t count, double *seconds)
{
    double start = yki_now();

    for (size_t i = 0; i < count; i++)
        YKI_TRY(load_start(&loads[i]));
    for (size_t i = 0; i < count; i++)
        YKI_TRY(yki_queue_finish(loads[i].queue));
    *seconds = yki_now() - start;
    return YOKE_OK;
}

/* Multiplies the load by `factor`: its rounds as far as they may grow, then its groups. */
static yoke_status
scale(load_job *job, double factor)
{
    double rounds = YKI_MAX(job->rounds * factor, 1);
    double rest = YKI_MAX(rounds / MAX_ROUNDS, 1);
    double groups = YKI_MIN((double)job->grid.groups[0] * rest, MAX_GROUPS);

    job->rounds = (cl_uint)YKI_MIN(rounds, MAX_ROUNDS);
    job->grid.groups[0] = (size_t)groups;
    return yki_kernel_set(job->kernel, 1, sizeof job->rounds, &job->rounds);
}

/* Takes the best of a few runs, so that a disturbed run does not look like a heavy load. */
static yoke_status
run_best(load_job *job, double *seconds)
{
    double best = 0, once;

    for (int i = 0; i < TRIES; i++) {
        YKI_TRY(run(job, 1, &once));
        best = i && best < once ? best : once;
        if (best <= TARGET_SECONDS / 2)
            break;
    }
    *seconds = best;
    return YOKE_OK;
}

/* Doubles the load until it takes more than half of the target time, then scales it to fit. */
static yoke_status
calibrate(load_job *job)
{
    double seconds;

    job->rounds = FIRST_ROUNDS;
    YKI_TRY(scale(job, 1));
    YKI_TRY(run(job, 1, &seconds)); /* some drivers compile at the first launch */
    for (;;) {
        YKI_TRY(run_best(job, &seconds));
        if (seconds > TARGET_SECONDS / 2 || job->grid.groups[0] > MAX_GROUPS / 2)
            break;
        YKI_TRY(scale(job, 2));
    }
    return scale(job, TARGET_SECONDS / seconds);
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static yoke_status
measure(load_job *loads, size_t count, double *together, unsigned repeats, yoke_overlap *overlap)
{
    for (size_t i = 0; i < count; i++)
        YKI_TRY(calibrate(&loads[i]));
    for (unsigned r = 0; r < repeats; r++) {
        for (size_t i = 0; i < count; i++)
            YKI_TRY(run(&loads[i], 1, &loads[i].alone[r]));
        YKI_TRY(run(loads, count, &together[r]));
    }
    overlap->together_seconds = median(together, repeats);
    for (size_t i = 0; i < count; i++)
        overlap->alone_seconds = YKI_MAX(overlap->alone_seconds, median(loads[i].alone, repeats));
    return YOKE_OK;
}

yoke_status
yoke_selection_measure_overlap_sized(yoke_selection *selection, unsigned repeats,
                                     yoke_overlap *overlap, size_t size)
{
    yoke_overlap result = {0};
    size_t count, opened = 0;
    double *together = NULL;
    load_job *loads;
    yoke_status status = YOKE_OK;

    if (!selection || !overlap)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_selection_measure_overlap: %s is NULL",
                        selection ? "overlap" : "selection");
    if (repeats > MAX_REPEATS)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "repeats", repeats, 0, MAX_REPEATS);
    repeats = repeats ? repeats : DEFAULT_REPEATS;
    count = yoke_selection_count(selection);
    loads = yki_alloc(count, sizeof *loads, "loads");
    if (!loads)
        return YOKE_ERROR_OUT_OF_MEMORY;
    together = yki_alloc(repeats, sizeof *together, "times");
    if (!together) {
        status = YOKE_ERROR_OUT_OF_MEMORY;
        goto free_loads;
    }
    while (status == YOKE_OK && opened < count) {
        status = load_open(&loads[opened], yoke_selection_get(selection, opened), repeats);
        opened++;
    }
    if (status == YOKE_OK)
        status = measure(loads, count, together, repeats, &result);
    if (status == YOKE_OK)
        memcpy(overlap, &result, YKI_MIN(size, sizeof result));
    while (opened)
        load_close(&loads[--opened]);
    yki_free(together);
free_loads:
    yki_free(loads);
    return status;
}

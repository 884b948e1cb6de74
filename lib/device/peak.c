/* SPDX-License-Identifier: Apache-2.0
 *
 * peak.c - measures the limits of a device: multiply-adds, memory bandwidth, and the
 * time of a launch. Where yoke prints a fraction of the peak, the peak is from here.
 *
 * Multiply-adds and bandwidth are the best of a few runs, because other work on the
 * machine can only make a run slower. A launch is an average.
 */
#include <stdio.h>
#include <string.h>

#include "device/internal.h"

enum {
    RUNS = 5,
    ROUNDS = 20000,
    FLOPS_PER_LANE = 24, /* in a round of yki_peak_fma, for each SIMD lane */
    LAUNCHES = 500,
    WAITED = 50,
    GROUPS_PER_UNIT = 4,      /* of the streams; 16 times as many if not on a CPU */
    FMA_GROUPS_PER_UNIT = 128 /* milliseconds of multiply-adds, as a launch costs microseconds */
};
static const uint64_t STREAM_BYTES = 128u << 20; /* of an array, to exceed any cache */

typedef struct peak_run {
    yoke_device *device;
    yki_queue *queue;
    uint32_t vector, group, groups, fma_groups;
    yki_buffer *small, *streams[3];
    yki_kernel *fma, *triad, *copy;
    int32_t stream_vectors;
} peak_run;

static yoke_status
make_kernel(peak_run *run, const char *name, yki_kernel **kernel)
{
    char options[64];

    snprintf(options, sizeof options, "-DVEC=%u -DWG=%u", run->vector, run->group);
    return yki_kernel_get(run->device, "peak.cl", options, name, kernel);
}

static yoke_status
make_streams(peak_run *run)
{
    const yki_device_traits *traits = yki_device_get_traits(run->device);
    yki_kernel *kernels[2];
    uint64_t bytes = YKI_MIN(STREAM_BYTES, run->device->root->info.memory / 16);

    bytes = YKI_MIN(bytes, traits->max_allocation) / 4096 * 4096;
    run->stream_vectors = (int32_t)(bytes / 4 / run->vector);
    YKI_TRY(make_kernel(run, "yki_peak_triad", &run->triad));
    YKI_TRY(make_kernel(run, "yki_peak_copy", &run->copy));
    kernels[0] = run->triad;
    kernels[1] = run->copy;
    for (int i = 0; i < 3; i++) {
        YKI_TRY(yki_buffer_create(run->device, bytes, 0, "a stream", &run->streams[i]));
        YKI_TRY(yki_buffer_touch(run->queue, run->streams[i]));
        for (int k = 0; k < 2; k++)
            YKI_TRY(yki_kernel_set_buffer(kernels[k], (unsigned)i, run->streams[i]));
    }
    for (int k = 0; k < 2; k++)
        YKI_TRY(yki_kernel_set(kernels[k], 3, sizeof run->stream_vectors, &run->stream_vectors));
    return YOKE_OK;
}

static yoke_status
open_run(peak_run *run, yoke_device *device)
{
    const yki_device_traits *traits = yki_device_get_traits(device);
    const int32_t rounds = ROUNDS;
    const float never = -1; /* all terms are positive */
    bool cpu = traits->type == YOKE_DEVICE_CPU;

    run->device = device;
    run->vector = cpu ? YKI_MIN(YKI_MAX(traits->vector_width, 4u), 16u) : 4;
    run->group = cpu ? 1 : YKI_MIN(traits->max_group, 128u);
    run->groups = YKI_MIN(traits->compute_units * GROUPS_PER_UNIT * (cpu ? 1 : 16), 65535u);
    run->fma_groups = YKI_MIN(traits->compute_units * FMA_GROUPS_PER_UNIT, 65535u);
    YKI_TRY(yki_queue_create(device, false, &run->queue));
    YKI_TRY(yki_buffer_create(device, 64, 0, "a result nobody reads", &run->small));
    YKI_TRY(make_kernel(run, "yki_peak_fma", &run->fma));
    YKI_TRY(yki_kernel_set_buffer(run->fma, 0, run->small));
    YKI_TRY(yki_kernel_set(run->fma, 1, sizeof rounds, &rounds));
    YKI_TRY(yki_kernel_set(run->fma, 2, sizeof never, &never));
    return make_streams(run);
}

static void
close_run(peak_run *run)
{
    yki_kernel_destroy(run->fma);
    yki_kernel_destroy(run->triad);
    yki_kernel_destroy(run->copy);
    for (int i = 0; i < 3; i++)
        yki_buffer_destroy(run->streams[i]);
    yki_buffer_destroy(run->small);
    yki_queue_destroy(run->queue);
}

/* Measures the seconds of one launch: the best of RUNS, after a first one that may compile. */
static yoke_status
best_of(peak_run *run, yki_kernel *kernel, uint32_t groups, double *seconds)
{
    const yki_grid grid = {{groups, 1, 1}, {run->group, 1, 1}};

    for (int i = 0; i <= RUNS; i++) {
        double start = yki_now(), took;

        YKI_TRY(yki_queue_launch(run->queue, kernel, &grid, YKI_NO_WAIT, NULL));
        YKI_TRY(yki_queue_finish(run->queue));
        took = yki_now() - start;
        if (i == 1 || (i > 1 && took < *seconds))
            *seconds = took;
    }
    return YOKE_OK;
}

/* Measures the seconds of a launch that does almost nothing: *queued when many are enqueued in a
 * row, *waited when the host waits for each. */
static yoke_status
launch_cost(peak_run *run, double *queued, double *waited)
{
    const yki_grid one = {{1, 1, 1}, {run->group, 1, 1}};
    const int32_t none = 0;
    double start;

    YKI_TRY(yki_kernel_set(run->fma, 1, sizeof none, &none));
    YKI_TRY(yki_queue_launch(run->queue, run->fma, &one, YKI_NO_WAIT, NULL));
    YKI_TRY(yki_queue_finish(run->queue));
    start = yki_now();
    for (int i = 0; i < LAUNCHES; i++)
        YKI_TRY(yki_queue_launch(run->queue, run->fma, &one, YKI_NO_WAIT, NULL));
    YKI_TRY(yki_queue_finish(run->queue));
    *queued = (yki_now() - start) / LAUNCHES;
    start = yki_now();
    for (int i = 0; i < WAITED; i++) {
        YKI_TRY(yki_queue_launch(run->queue, run->fma, &one, YKI_NO_WAIT, NULL));
        YKI_TRY(yki_queue_finish(run->queue));
    }
    *waited = (yki_now() - start) / WAITED;
    return YOKE_OK;
}

static yoke_status
measure(peak_run *run, yoke_peak *peak)
{
    double bytes = (double)run->stream_vectors * run->vector * 4, seconds = 1;

    YKI_TRY(best_of(run, run->fma, run->fma_groups, &seconds));
    peak->gflops = (double)run->fma_groups * run->group * ROUNDS * FLOPS_PER_LANE * run->vector /
                   seconds / 1e9;
    YKI_TRY(best_of(run, run->triad, run->groups, &seconds));
    peak->triad_gbytes = 3 * bytes / seconds / 1e9;
    YKI_TRY(best_of(run, run->copy, run->groups, &seconds));
    peak->copy_gbytes = 2 * bytes / seconds / 1e9;
    return launch_cost(run, &peak->launch_seconds, &peak->waited_launch_seconds);
}

yoke_status
yoke_device_measure_peak_sized(yoke_device *device, yoke_peak *out, size_t size)
{
    peak_run run = {.device = device};
    yoke_peak peak = {0};
    yoke_status status;

    if (!device || !out)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_device_measure_peak: %s is NULL",
                        device ? "peak" : "device");
    status = open_run(&run, device);
    if (status == YOKE_OK)
        status = measure(&run, &peak);
    close_run(&run);
    if (status == YOKE_OK)
        memcpy(out, &peak, YKI_MIN(size, sizeof peak));
    return status;
}

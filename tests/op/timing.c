/* SPDX-License-Identifier: Apache-2.0
 *
 * timing.c - see timing.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "op/timing.h"

enum { RUNS = 9, FLOPS_PER_LANE = 24 /* of a round of yki_peak_fma */ };
static const uint64_t COPIED = 64u << 20; /* bytes: beyond any cache */

bench_time
bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (bench_time){yki_now(), (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
}

bench_time
bench_since(bench_time start)
{
    bench_time now = bench_now();

    return (bench_time){now.wall - start.wall, now.cpu - start.cpu};
}

void
bench_keep_least(bench_time *least, bench_time time)
{
    least->wall = YKI_MIN(least->wall, time.wall);
    least->cpu = YKI_MIN(least->cpu, time.cpu);
}

void
bench_must(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "bench: %s: %s\n", yoke_status_name(status), yoke_last_error());
    exit(1);
}

bench_device
bench_open(const char *selector)
{
    bench_device d;

    bench_must(yoke_context_create(NULL, &d.context));
    bench_must(yoke_selection_create(d.context, selector, NULL, &d.selection));
    bench_must(yki_queue_create(yoke_selection_get(d.selection, 0), false, &d.queue));
    d.traits = yki_device_get_traits(yki_queue_device(d.queue));
    return d;
}

void
bench_close(bench_device *device)
{
    yki_queue_destroy(device->queue);
    yoke_selection_destroy(device->selection);
    yoke_context_destroy(device->context);
}

yki_buffer *
bench_operand(yki_queue *queue, const yki_operand *operand, yki_extents extents, uint32_t stream,
              double *bytes)
{
    int64_t count = yki_operand_count(operand, extents);
    float *values = yki_alloc((size_t)count, sizeof *values, "an operand");
    yki_buffer *buffer;

    bench_must(values ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)((i * 2654435761u + stream) % 1000) / 1000.0f - 0.5f;
    bench_must(
        yki_buffer_create(yki_queue_device(queue), (uint64_t)count * 4, 0, "an operand", &buffer));
    bench_must(yki_buffer_touch(queue, buffer));
    bench_must(yki_queue_finish(queue));
    bench_must(yki_buffer_put(buffer, 0, (uint64_t)count * 4, values));
    yki_free(values);
    if (bytes)
        *bytes += 4.0 * (double)count;
    return buffer;
}

/* ---- limits ---- */

static uint32_t
core_groups_of(const bench_device *device)
{
    bool cpu = device->traits->type == YOKE_DEVICE_CPU;

    return cpu ? YKI_MIN(YKI_MAX(device->traits->vector_width, 4u), 16u) : 4;
}

static void
open_limit(const bench_device *device, const char *name, uint32_t groups_per_unit,
           bench_limit *limit)
{
    bool cpu = device->traits->type == YOKE_DEVICE_CPU;
    size_t group = cpu ? 1 : YKI_MIN(device->traits->max_group, 128u);
    yki_program *program;
    char options[64];

    *limit = (bench_limit){.device = device};
    limit->grid = (yki_grid){
        {YKI_MIN(device->traits->compute_units * groups_per_unit, 65535u), 1, 1}, {group, 1, 1}};
    snprintf(options, sizeof options, "-DVEC=%u -DWG=%u", core_groups_of(device), (unsigned)group);
    bench_must(yki_program_get(yki_queue_device(device->queue), "peak.cl", options, &program));
    bench_must(yki_kernel_create(program, name, &limit->kernel));
    yki_program_release(program);
}

static void
add_buffer(bench_limit *limit, unsigned at, uint64_t bytes)
{
    yki_queue *queue = limit->device->queue;

    bench_must(
        yki_buffer_create(yki_queue_device(queue), bytes, 0, "a limit", &limit->buffers[at]));
    bench_must(yki_buffer_touch(queue, limit->buffers[at]));
    bench_must(yki_kernel_set_buffer(limit->kernel, at, limit->buffers[at]));
}

void
bench_peak_open(const bench_device *device, bench_limit *limit)
{
    const int32_t rounds = 20000;
    const float never = -1;

    open_limit(device, "yki_peak_fma", 128, limit);
    add_buffer(limit, 0, 64);
    bench_must(yki_kernel_set(limit->kernel, 1, sizeof rounds, &rounds));
    bench_must(yki_kernel_set(limit->kernel, 2, sizeof never, &never));
    limit->work = (double)FLOPS_PER_LANE * rounds * core_groups_of(device) *
                  (double)(limit->grid.groups[0] * limit->grid.local[0]);
}

void
bench_copy_open(const bench_device *device, bench_limit *limit)
{
    const int32_t vectors = (int32_t)(COPIED / 4 / core_groups_of(device));

    open_limit(device, "yki_peak_copy", device->traits->type == YOKE_DEVICE_CPU ? 4 : 64, limit);
    for (unsigned i = 0; i < 3; i++)
        add_buffer(limit, i, COPIED);
    bench_must(yki_kernel_set(limit->kernel, 3, sizeof vectors, &vectors));
    limit->work = 2.0 * (double)COPIED;
}

void
bench_limit_run(bench_limit *limit, int runs)
{
    yki_queue *queue = limit->device->queue;

    for (int i = 0; i < runs; i++) {
        bench_time took = bench_now();

        bench_must(yki_queue_launch(queue, limit->kernel, &limit->grid, YKI_NO_WAIT, NULL));
        bench_must(yki_queue_finish(queue));
        took = bench_since(took);
        limit->most.wall = YKI_MAX(limit->most.wall, limit->work / took.wall);
        limit->most.cpu = YKI_MAX(limit->most.cpu, limit->work / took.cpu);
    }
}

void
bench_limit_close(bench_limit *limit)
{
    yki_kernel_destroy(limit->kernel);
    for (int i = 0; i < 3; i++)
        yki_buffer_destroy(limit->buffers[i]);
}

static bench_time
most_of(const bench_device *device, void (*open)(const bench_device *, bench_limit *))
{
    bench_limit limit;

    open(device, &limit);
    bench_limit_run(&limit, RUNS);
    bench_limit_close(&limit);
    return limit.most;
}

bench_time
bench_peak(const bench_device *device)
{
    return most_of(device, bench_peak_open);
}

bench_time
bench_copy(const bench_device *device)
{
    return most_of(device, bench_copy_open);
}

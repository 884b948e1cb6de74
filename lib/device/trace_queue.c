/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_queue.c - puts queues on a timeline: the switch to events with times, and the clocks of
 * devices.
 *
 * OpenCL 1.2 does not say where a device's clock stands. So a few bytes are written, and the host
 * looks at its own clock before it enqueues that and after it has waited: the times of the command
 * lie between. The narrowest bounds of several such writes count.
 */
#include <time.h>

#include "device/runtime.h"

enum { ROUNDS = 16 };

/* ---- clocks ---- */

static yoke_status
look(yki_queue *queue, yki_buffer *buffer, yki_sight *sight)
{
    static const uint32_t few = 0;
    double before = yki_now(), after;
    yki_event done = {0};
    uint64_t begin, end;
    yoke_status status;

    YKI_TRY(yki_queue_write(queue, buffer, 0, sizeof few, &few, YKI_NO_WAIT, &done));
    status = yki_event_wait(&done);
    after = yki_now();
    if (status == YOKE_OK)
        status = yki_event_times(&done, &begin, &end);
    yki_event_release(&done);
    YKI_TRY(status);
    yki_sight_take(sight, before, 1e-9 * (double)begin, after);
    yki_sight_take(sight, before, 1e-9 * (double)end, after);
    return YOKE_OK;
}

/* The rounds lie apart, so that a clock that does not run is found out. */
static yoke_status
sight_clock(yki_queue *queue, yki_sight *sight, bool *runs)
{
    const struct timespec pause = {0, 200000};
    double begin = yki_now();
    yki_buffer *buffer;
    yoke_status status;

    YKI_TRY(yki_buffer_create(queue->device, 64, 0, "the look at a clock", &buffer));
    status = yki_buffer_touch(queue, buffer);
    for (int i = 0; i < ROUNDS && status == YOKE_OK; i++) {
        status = look(queue, buffer, sight);
        nanosleep(&pause, NULL);
    }
    yki_buffer_destroy(buffer);
    *runs = status == YOKE_OK && yki_sight_is_good(sight, yki_now() - begin);
    return status;
}

/* ---- begin and end ---- */

/* Replaces the OpenCL queue by one with or without times. All commands are complete before that,
 * and their events stay what they are. Whoever waits for all queues of the device has its lock. */
static yoke_status
remake(yki_queue *queue, bool timed)
{
    cl_command_queue made, gone = queue->cl;
    cl_int error;

    YKI_TRY(yki_queue_finish(queue));
    if (queue->timed == timed)
        return YOKE_OK;
    made = clCreateCommandQueue(queue->device->space->cl, queue->device->cl,
                                timed ? CL_QUEUE_PROFILING_ENABLE : 0, &error);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clCreateCommandQueue", queue->device, "making a queue");
    pthread_mutex_lock(&queue->device->setup_lock);
    queue->cl = made;
    pthread_mutex_unlock(&queue->device->setup_lock);
    clReleaseCommandQueue(gone);
    queue->timed = timed;
    return YOKE_OK;
}

static yoke_status
begin(yki_queue *queue, yki_trace *trace, const char *name, yki_track **track)
{
    yki_trace_clock *clock;

    YKI_TRY(yki_trace_get_clock(trace, queue->device->space, &clock));
    if (clock->sights[0].at == 0)
        YKI_TRY(sight_clock(queue, &clock->sights[0], &clock->runs));
    YKI_TRY(yki_trace_add_track(trace, YKI_TRACK_QUEUE, name, track));
    (*track)->clock = clock->runs ? clock : NULL;
    return yki_queue_finish(queue);
}

yoke_status
yki_queue_trace(yki_queue *queue, yki_trace *trace, const char *name)
{
    bool was_timed = queue->timed;
    yki_track *track;
    yoke_status status;

    YKI_TRY(remake(queue, true));
    status = begin(queue, trace, name, &track);
    if (status != YOKE_OK) {
        (void)remake(queue, was_timed);
        return status;
    }
    queue->was_timed = was_timed;
    queue->track = track;
    return YOKE_OK;
}

/* The last look at the clock. One that goes wrong is not believed. */
static yoke_status
end(yki_queue *queue, yki_trace *trace)
{
    yki_trace_clock *clock;
    bool runs;

    YKI_TRY(yki_trace_get_clock(trace, queue->device->space, &clock));
    if (!clock->runs || clock->sights[1].at > 0)
        return YOKE_OK;
    YKI_TRY(sight_clock(queue, &clock->sights[1], &runs));
    if (!runs)
        clock->sights[1] = (yki_sight){0};
    return YOKE_OK;
}

yoke_status
yki_queue_untrace(yki_queue *queue)
{
    yki_track *track = queue->track;
    yoke_status status;

    if (!track)
        return YOKE_OK;
    status = yki_queue_finish(queue);
    yki_queue_about(queue, NULL);
    queue->track = NULL;
    yki_track_forget_ends(track); /* of commands that never were complete */
    if (status == YOKE_OK)
        status = end(queue, track->trace);
    return status == YOKE_OK ? remake(queue, queue->was_timed) : status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_commands.c - the commands of a queue on a timeline.
 *
 * queue.c calls this file with its lock held: when a command was enqueued, and when it is seen to
 * be complete. Where a device's clock does not run, the driver calls back when a command is
 * complete, and the host notes its own time.
 */
#include <stdlib.h>
#include <string.h>

#include "device/runtime.h"

/* ---- the host's time of an end ---- */

/* Belongs to the record and to the driver, which may call back after the queue has seen the end;
 * whoever comes last frees it. */
typedef struct seen {
    _Atomic(double) at; /* 0: not yet */
    atomic_int holders;
} seen;

static void
let_go(seen *s)
{
    if (atomic_fetch_sub(&s->holders, 1) == 1)
        free(s);
}

static void CL_CALLBACK
note_end(cl_event event, cl_int state, void *user)
{
    seen *s = user;

    (void)event;
    (void)state;
    atomic_store(&s->at, yki_now());
    let_go(s);
}

/* Not from yki_alloc: the last to free it may be a thread of the driver. */
static void
watch_end(yki_trace_record *record, cl_event event)
{
    seen *s = calloc(1, sizeof *s);

    if (!s)
        return;
    atomic_store(&s->holders, 2);
    if (clSetEventCallback(event, CL_COMPLETE, note_end, s) != CL_SUCCESS)
        free(s);
    else
        record->seen = s;
}

void
yki_track_forget_ends(yki_track *track)
{
    for (size_t i = 0; i < track->count; i++)
        if (track->records[i].seen) {
            let_go(track->records[i].seen);
            track->records[i].seen = NULL;
        }
}

/* ---- commands ---- */

static const char call_verb[] = "running library";

/* In an in-order queue the end of the marker is that of the call. */
yoke_status
yki_queue_trace_call(yki_queue *queue, double begin, const char *name)
{
    cl_event event = NULL;
    cl_uint count;
    cl_int error;

    if (!queue->track)
        return YOKE_OK;
    YKI_TRY(yki_queue_begin(queue, YKI_NO_WAIT, &count));
    queue->entered = begin;
    error = clEnqueueMarkerWithWaitList(queue->cl, 0, NULL, &event);
    return yki_queue_end(queue, error, event, "clEnqueueMarkerWithWaitList", call_verb, name, 0,
                         NULL);
}

size_t
yki_queue_note(yki_queue *queue, const yki_pending *command, uint64_t bytes)
{
    yki_trace_record *record = yki_track_add(queue->track);

    if (!record)
        return 0;
    record->enqueued = queue->entered;
    record->verb = command->verb;
    memcpy(record->name, command->name, sizeof record->name);
    record->bytes = bytes;
    record->about = queue->about;
    if (!queue->track->clock)
        watch_end(record, command->event);
    return queue->track->count;
}

void
yki_queue_note_times(yki_queue *queue, cl_event event, size_t number)
{
    yki_trace_record *record = &queue->track->records[number - 1];
    cl_ulong begin = 0, end = 0;
    double newest;

    if (queue->track->clock) {
        if (clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin,
                                    NULL) == CL_SUCCESS &&
            clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) ==
                CL_SUCCESS &&
            end >= begin) {
            record->begin = record->verb == call_verb ? 0 : 1e-9 * (double)begin;
            record->end = 1e-9 * (double)end;
        }
        return;
    }
    /* In an in-order queue a command begins when the one before it ends. */
    newest = number > 1 ? queue->track->records[number - 2].end : 0;
    record->begin = YKI_MAX(record->enqueued, newest);
    record->end = yki_now();
    if (record->seen) {
        double at = atomic_load(&((seen *)record->seen)->at);

        record->end = at > 0 ? YKI_MAX(at, record->begin) : record->end;
        let_go(record->seen);
        record->seen = NULL;
    }
}

yki_track *
yki_queue_track(const yki_queue *queue)
{
    return queue->track;
}

void
yki_queue_about(yki_queue *queue, const yki_trace_about *about)
{
    if (queue->track)
        queue->about = about ? *about : (yki_trace_about){0};
}

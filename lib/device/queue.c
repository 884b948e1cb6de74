/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - in-order queues, events, and kernel launches.
 *
 * Idea: an event carries its queue and its position in it. So the library knows
 * which waits cost nothing (same queue), which need the other queue flushed
 * first (same context; without the flush some drivers hang), and which only the
 * host can do (another context). Events of the host itself, gates, are gate.c's.
 *
 * The outcome of a command is known late. The queue keeps its event until the
 * command is seen complete. The first error is kept with the queue and returned
 * once, by the next call that waits. A wait for an event whose own command failed
 * always fails, because its result does not exist. Where a driver's events
 * cost as much as the launches, most have none unless the caller asks for it: an error is
 * then that of the next command that has one, or of clFinish.
 *
 * Locks: queue->lock guards the members that a waiting thread uses. It is never
 * held while the host waits or while another queue's lock is taken.
 *
 * It does not reorder, batch or time anything by itself. Of a queue that is traced (trace.h) it
 * notes the commands and their times.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/runtime.h"

enum {
    FIRST_PENDING = 64, /* commands remembered before the first look at their events */
    SPARSE = 16,        /* launches of a GPU, of which one has an event that nobody asked for */
    MAX_GROUPS = 65535  /* in a grid dimension; every driver takes so many */
};
static const char marker_verb[] = "passing";

void
yki_name_set(char name[YKI_NAME_LENGTH], const char *text)
{
    size_t length = strlen(text);

    if (length >= YKI_NAME_LENGTH)
        length = YKI_NAME_LENGTH - 1;
    memcpy(name, text, length);
    name[length] = '\0';
}

/* ---------------------------------------------------------------- life */

yoke_status
yki_queue_create(yoke_device *device, bool timed, yki_queue **queue)
{
    yki_queue *made = yki_alloc(1, sizeof *made, "a queue");
    cl_command_queue_properties properties = timed ? CL_QUEUE_PROFILING_ENABLE : 0;
    yoke_status status;
    cl_int error;

    if (!made)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (!device->space->cl) {
        status = yki_fail(YOKE_ERROR_STATE, "%s is only listed; select it to work on it",
                          yki_device_id(device));
        goto free_made;
    }
    pthread_mutex_init(&made->lock, NULL);
    made->cl = clCreateCommandQueue(device->space->cl, device->cl, properties, &error);
    if (error != CL_SUCCESS) {
        status = yki_cl_fail(error, "clCreateCommandQueue", device, "making a queue");
        goto destroy_lock;
    }
    made->device = yki_device_retain(device);
    made->timed = timed;
    made->sparse = !timed && device->space->root->costly_events;
    pthread_mutex_lock(&device->setup_lock);
    made->next = device->queues;
    device->queues = made;
    pthread_mutex_unlock(&device->setup_lock);
    *queue = made;
    return YOKE_OK;

destroy_lock:
    pthread_mutex_destroy(&made->lock);
free_made:
    yki_free(made);
    return status;
}

static void
unlist(yki_queue *queue)
{
    yki_queue **place = &queue->device->queues;

    pthread_mutex_lock(&queue->device->setup_lock);
    while (*place != queue)
        place = &(*place)->next;
    *place = queue->next;
    pthread_mutex_unlock(&queue->device->setup_lock);
}

void
yki_queue_destroy(yki_queue *queue)
{
    if (!queue)
        return;
    unlist(queue);
    if (yki_queue_finish(queue) != YOKE_OK)
        yki_log(YOKE_LOG_WARNING, "a queue is destroyed with an error nobody asked for: %s",
                yoke_last_error());
    for (size_t i = 0; i < queue->pending_count; i++)
        clReleaseEvent(queue->pending[queue->pending_first + i].event);
    for (size_t i = 0; i < queue->failed_count; i++)
        clReleaseEvent(queue->failed[i]);
    yki_kernel_destroy(queue->fill);
    yki_kernel_destroy(queue->copy);
    clReleaseCommandQueue(queue->cl);
    pthread_mutex_destroy(&queue->lock);
    yki_free(queue->pending);
    yki_free(queue->failed);
    yki_free(queue->waits);
    yki_device_release(queue->device);
    yki_free(queue);
}

yoke_device *
yki_queue_device(const yki_queue *queue)
{
    return queue->device;
}

void *
yki_queue_raw(const yki_queue *queue)
{
    return queue->cl;
}

/* ---------------------------------------------------- pending commands */

/* *state: CL_COMPLETE, an error (negative), or a positive number while the command runs. */
static yoke_status
event_state(yki_queue *queue, cl_event event, cl_int *state)
{
    cl_int error =
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof *state, state, NULL);

    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clGetEventInfo", queue->device, "asking whether work is done");
    return YOKE_OK;
}

/* Takes the event of a command that has failed. PoCL (3.1) looks at such a command again when
 * whatever else it waited for is complete, though nobody may hold its event any more. */
static yoke_status
keep_failed(yki_queue *queue, cl_event event)
{
    void *array = queue->failed;
    yoke_status status = yki_grow(&array, &queue->failed_capacity, queue->failed_count + 1,
                                  sizeof *queue->failed, "commands that failed");

    queue->failed = array;
    if (status == YOKE_OK)
        queue->failed[queue->failed_count++] = event;
    return status;
}

/* Forgets finished commands, oldest first, and keeps the first error. The caller holds the lock. */
static yoke_status
settle(yki_queue *queue)
{
    while (queue->pending_count) {
        yki_pending *oldest = &queue->pending[queue->pending_first];
        cl_int state;

        YKI_TRY(event_state(queue, oldest->event, &state));
        if (state > CL_COMPLETE)
            break;
        if (state < CL_COMPLETE && queue->error == CL_SUCCESS) {
            queue->error = state;
            queue->error_verb = oldest->verb;
            memcpy(queue->error_name, oldest->name, sizeof oldest->name);
        }
        if (oldest->record && queue->track)
            yki_queue_note_times(queue, oldest->event, oldest->record);
        oldest->record = 0;
        if (state < CL_COMPLETE)
            YKI_TRY(keep_failed(queue, oldest->event));
        else
            clReleaseEvent(oldest->event);
        queue->pending_first++;
        queue->pending_count--;
    }
    return YOKE_OK;
}

/* Makes room for one more command. Settling costs little, because it happens only when the array is
 * full, and the array is afterwards at most half full. */
static yoke_status
make_room(yki_queue *queue)
{
    size_t wanted;
    void *array = queue->pending;
    yoke_status status;

    if (queue->pending_first + queue->pending_count < queue->pending_capacity)
        return YOKE_OK;
    YKI_TRY(settle(queue));
    if (queue->pending_first && queue->pending_count)
        memmove(queue->pending, queue->pending + queue->pending_first,
                queue->pending_count * sizeof *queue->pending);
    queue->pending_first = 0;
    wanted = YKI_MAX(FIRST_PENDING, 2 * queue->pending_count);
    status = yki_grow(&array, &queue->pending_capacity, wanted, sizeof *queue->pending,
                      "commands under way");
    queue->pending = array;
    return status;
}

/* Returns the error that the queue keeps, once. The caller holds the lock. */
static yoke_status
report(yki_queue *queue)
{
    cl_int error = queue->error;
    char what[YKI_NAME_LENGTH + 32];

    if (error == CL_SUCCESS)
        return YOKE_OK;
    queue->error = CL_SUCCESS;
    snprintf(what, sizeof what, "%s %s", queue->error_verb, queue->error_name);
    return yki_cl_fail(error, "an enqueued command", queue->device, what);
}

/* For use after the host waited: forgets complete commands and returns the error that is kept. */
static yoke_status
settle_and_report(yki_queue *queue)
{
    yoke_status status;

    pthread_mutex_lock(&queue->lock);
    status = settle(queue);
    if (status == YOKE_OK)
        status = report(queue);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

/* Remembers a command that was enqueued, with its event. The caller holds the lock. */
static yoke_status
remember(yki_queue *queue, cl_event event, const char *verb, const char *name, yki_pending **out)
{
    yki_pending *pending;

    YKI_TRY(make_room(queue));
    pending = &queue->pending[queue->pending_first + queue->pending_count++];
    memset(pending, 0, sizeof *pending);
    pending->event = event;
    pending->serial = queue->seen = ++queue->serial;
    pending->verb = verb;
    yki_name_set(pending->name, name);
    *out = pending;
    return YOKE_OK;
}

/* Gives the newest command an event, by a marker if it has none: drivers whose clFinish returns
 * early or spins are waited for by it. Another thread than the one that enqueues may do so. */
static yoke_status
see_newest(yki_queue *queue)
{
    yki_pending *pending;
    yoke_status status = YOKE_OK;
    cl_event event = NULL;
    cl_int error;

    pthread_mutex_lock(&queue->lock);
    if (queue->seen != queue->serial) {
        error = clEnqueueMarkerWithWaitList(queue->cl, 0, NULL, &event);
        status = error == CL_SUCCESS ? remember(queue, event, marker_verb, "a marker", &pending)
                                     : yki_cl_fail(error, "clEnqueueMarkerWithWaitList",
                                                   queue->device, "passing a marker");
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

yoke_status
yki_queue_newest(yki_queue *queue, yki_event *event)
{
    yki_event newest = {NULL, queue, 0};
    cl_int error = CL_SUCCESS;

    YKI_TRY(see_newest(queue));
    pthread_mutex_lock(&queue->lock);
    if (queue->pending_count) {
        yki_pending *last = &queue->pending[queue->pending_first + queue->pending_count - 1];

        newest.cl = last->event;
        newest.serial = last->serial;
        error = clRetainEvent(last->event);
    }
    pthread_mutex_unlock(&queue->lock);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clRetainEvent", queue->device, "keeping an event");
    *event = newest;
    return YOKE_OK;
}

/* ------------------------------------------------------ flush and wait */

/* Makes sure that the command `serial` will run without any further call. */
static yoke_status
flush_to(yki_queue *queue, uint64_t serial)
{
    uint64_t newest;
    bool needed;
    cl_int error;

    pthread_mutex_lock(&queue->lock);
    needed = serial > queue->flushed;
    newest = queue->serial;
    pthread_mutex_unlock(&queue->lock);
    if (!needed)
        return YOKE_OK;
    error = clFlush(queue->cl);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clFlush", queue->device, "handing work to the device");
    pthread_mutex_lock(&queue->lock);
    queue->flushed = YKI_MAX(queue->flushed, newest);
    pthread_mutex_unlock(&queue->lock);
    return YOKE_OK;
}

yoke_status
yki_queue_flush(yki_queue *queue)
{
    return flush_to(queue, queue->serial);
}

void
yki_device_wait_asleep(yoke_device *device)
{
    atomic_store(&device->asleep, true);
}

/* Waits for a command that was flushed. */
static cl_int
wait_for_event(cl_event event, bool asleep)
{
    enum { LEAST = 10000, MOST = 100000 }; /* nanoseconds */
    struct timespec pause = {0, LEAST};
    cl_int error, state = CL_COMPLETE + 1;

    if (!asleep)
        return clWaitForEvents(1, &event);
    while (true) {
        error =
            clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (error != CL_SUCCESS)
            return error;
        if (state <= CL_COMPLETE)
            break;
        nanosleep(&pause, NULL);
        pause.tv_nsec = YKI_MIN(2 * pause.tv_nsec, MOST);
    }
    return state == CL_COMPLETE ? CL_SUCCESS : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
}

/* Waits for everything and returns the first OpenCL error of the calls that wait. Rusticl's
 * clFinish does not wait for commands that were flushed before it, so the last event is waited for
 * too. */
static cl_int
wait_for_all(yki_queue *queue, const char **call)
{
    cl_event last = NULL;
    cl_int error = CL_SUCCESS, finish_error;

    pthread_mutex_lock(&queue->lock);
    if (queue->pending_count) {
        last = queue->pending[queue->pending_first + queue->pending_count - 1].event;
        error = clRetainEvent(last);
    }
    pthread_mutex_unlock(&queue->lock);
    *call = "clRetainEvent";
    if (last && error == CL_SUCCESS) {
        *call = "clFlush";
        error = clFlush(queue->cl);
        if (error == CL_SUCCESS) {
            *call = "clWaitForEvents";
            error = wait_for_event(last, atomic_load(&queue->device->asleep));
        }
        clReleaseEvent(last);
    }
    finish_error = clFinish(queue->cl);
    if (error == CL_SUCCESS) {
        *call = "clFinish";
        error = finish_error;
    }
    return error;
}

yoke_status
yki_queue_finish(yki_queue *queue)
{
    const char *call;
    uint64_t newest;
    cl_int error;

    (void)see_newest(queue); /* if it fails, so does what follows */
    newest = queue->serial;
    error = wait_for_all(queue, &call);
    YKI_TRY(settle_and_report(queue));
    /* An error of a command was just reported, or by an earlier wait. */
    if (error != CL_SUCCESS && error != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
        pthread_mutex_lock(&queue->lock);
        queue->unfinished = true;
        pthread_mutex_unlock(&queue->lock);
        return yki_cl_fail(error, call, queue->device, "waiting for enqueued work");
    }
    pthread_mutex_lock(&queue->lock);
    queue->flushed = YKI_MAX(queue->flushed, newest);
    pthread_mutex_unlock(&queue->lock);
    return YOKE_OK;
}

bool
yki_queue_has_failed(yki_queue *queue)
{
    bool failed;

    pthread_mutex_lock(&queue->lock);
    failed = queue->failed_count > 0 || queue->unfinished;
    pthread_mutex_unlock(&queue->lock);
    return failed;
}

void
yki_space_finish(yki_space *space)
{
    const char *call;

    for (size_t i = 0; i < space->device_count; i++) {
        yoke_device *device = &space->devices[i];

        pthread_mutex_lock(&device->setup_lock);
        for (yki_queue *queue = device->queues; queue; queue = queue->next) {
            (void)see_newest(queue);
            (void)wait_for_all(queue, &call);
        }
        pthread_mutex_unlock(&device->setup_lock);
    }
}

/* Gives the next other space of the same memory, from root *at on, with a reference; or NULL. */
static yki_space *
next_beside(const yki_space *space, size_t *at)
{
    yoke_context *context = space->root->context;
    yki_space *found = NULL;

    pthread_mutex_lock(&context->lock);
    for (; !found && *at < context->root_count; ++*at) {
        yki_space *other = context->roots[*at].space;

        if (other && other != space && other->memory == space->memory)
            found = other;
    }
    if (found)
        found->references++;
    pthread_mutex_unlock(&context->lock);
    return found;
}

void
yki_memory_finish(yki_space *space)
{
    yki_space *other;
    size_t at = 0;

    yki_space_finish(space);
    while (space->memory->limit && (other = next_beside(space, &at))) {
        yki_space_finish(other);
        yki_space_release(other);
    }
}

yki_event
yki_event_retain(yki_event event)
{
    /* If the driver cannot count the reference, the copy stands for nothing to wait for. */
    if (event.cl && clRetainEvent(event.cl) != CL_SUCCESS)
        event.cl = NULL;
    return event;
}

void
yki_event_release(yki_event *event)
{
    if (event->cl)
        clReleaseEvent(event->cl);
    memset(event, 0, sizeof *event);
}

/* For use after a wait for the command returned `error`, and its queue had no error to tell. */
static yoke_status
own_error(const yki_event *event, cl_int error)
{
    cl_int state = CL_COMPLETE;

    if (error == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
        YKI_TRY(event_state(event->queue, event->cl, &state));
        error = state < CL_COMPLETE ? state : error;
    }
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clWaitForEvents", event->queue->device, "waiting for a command");
    return YOKE_OK;
}

yoke_status
yki_event_wait(const yki_event *event)
{
    cl_int error;

    if (!event->cl)
        return YOKE_OK;
    YKI_TRY(flush_to(event->queue, event->serial));
    error = wait_for_event(event->cl, atomic_load(&event->queue->device->asleep));
    YKI_TRY(settle_and_report(event->queue));
    return own_error(event, error);
}

yoke_status
yki_event_outlast(const yki_event *event)
{
    yki_queue *queue = event->queue;
    const yoke_device *device = queue->device;
    cl_int error, kept;
    yoke_status status;

    error = wait_for_event(event->cl,
                           device->traits.type == YOKE_DEVICE_GPU || atomic_load(&device->asleep));
    pthread_mutex_lock(&queue->lock);
    status = settle(queue);
    kept = queue->error;
    if (status == YOKE_OK)
        status = report(queue);
    queue->error = kept;
    pthread_mutex_unlock(&queue->lock);
    return status == YOKE_OK ? own_error(event, error) : status;
}

yoke_status
yki_event_is_complete(const yki_event *event, bool *complete)
{
    cl_int state = CL_COMPLETE;

    if (event->cl)
        YKI_TRY(event_state(event->queue, event->cl, &state));
    *complete = state <= CL_COMPLETE;
    return YOKE_OK;
}

bool
yki_event_has_succeeded(const yki_event *event)
{
    cl_int state = CL_COMPLETE + 1;

    return event->cl &&
           clGetEventInfo(event->cl, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                          NULL) == CL_SUCCESS &&
           state == CL_COMPLETE;
}

yoke_status
yki_event_times(const yki_event *event, uint64_t *start, uint64_t *end)
{
    cl_ulong from = 0, to = 0;
    cl_int error;

    if (!event->cl || !event->queue->timed)
        return yki_fail(YOKE_ERROR_STATE, "the times of an event cannot be read: %s",
                        event->cl ? "the event's queue was not made to be timed"
                                  : "the event stands for no command");
    error =
        clGetEventProfilingInfo(event->cl, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL);
    if (error == CL_SUCCESS)
        error = clGetEventProfilingInfo(event->cl, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clGetEventProfilingInfo", event->queue->device,
                           "reading a command's times");
    *start = from;
    *end = to;
    return YOKE_OK;
}

/* ------------------------------------------------------------- enqueue */

yoke_status
yki_queue_begin(yki_queue *queue, yki_wait wait, cl_uint *count)
{
    void *waits = queue->waits;
    cl_uint listed = 0;
    yoke_status status;

    status = yki_grow(&waits, &queue->wait_capacity, wait.count, sizeof *queue->waits,
                      "events to wait for");
    queue->waits = waits;
    if (status != YOKE_OK)
        return status;
    if (queue->track)
        queue->entered = yki_now();
    pthread_mutex_lock(&queue->lock);
    status = make_room(queue);
    pthread_mutex_unlock(&queue->lock);
    if (status != YOKE_OK)
        return status;
    /* Flush all queues before the host waits for any, or they would run one after another. */
    for (size_t i = 0; i < wait.count; i++) {
        const yki_event *event = &wait.events[i];

        if (event->cl && event->queue && event->queue != queue)
            YKI_TRY(flush_to(event->queue, event->serial));
    }
    for (size_t i = 0; i < wait.count; i++) {
        const yki_event *event = &wait.events[i];

        if (!event->cl || event->queue == queue)
            continue;
        if (!event->queue || yki_devices_share(event->queue->device, queue->device))
            queue->waits[listed++] = event->cl;
        else
            YKI_TRY(yki_event_wait(event));
    }
    *count = listed;
    return YOKE_OK;
}

yoke_status
yki_queue_end(yki_queue *queue, cl_int error, cl_event event, const char *call, const char *verb,
              const char *name, uint64_t bytes, yki_event *done)
{
    yki_pending *pending;
    yki_event made = {event, queue, 0};
    yoke_status status;

    if (error != CL_SUCCESS) {
        char what[YKI_NAME_LENGTH + 32];

        snprintf(what, sizeof what, "%s %s", verb, name);
        return yki_cl_fail(error, call, queue->device, what);
    }
    pthread_mutex_lock(&queue->lock);
    if (!event) {
        queue->serial++;
        pthread_mutex_unlock(&queue->lock);
        return YOKE_OK;
    }
    status = remember(queue, event, verb, name, &pending);
    if (status != YOKE_OK) {
        pthread_mutex_unlock(&queue->lock);
        return status;
    }
    made.serial = pending->serial;
    if (queue->track && verb != marker_verb)
        pending->record = yki_queue_note(queue, pending, bytes);
    if (done)
        error = clRetainEvent(event);
    pthread_mutex_unlock(&queue->lock);
    if (error != CL_SUCCESS)
        return yki_cl_fail(error, "clRetainEvent", queue->device, "keeping an event");
    if (done)
        *done = made;
    return YOKE_OK;
}

yoke_status
yki_queue_marker(yki_queue *queue, yki_wait wait, yki_event *done)
{
    cl_event event = NULL;
    cl_uint count;
    cl_int error;

    YKI_TRY(yki_queue_begin(queue, wait, &count));
    error = clEnqueueMarkerWithWaitList(queue->cl, count, count ? queue->waits : NULL, &event);
    return yki_queue_end(queue, error, event, "clEnqueueMarkerWithWaitList", marker_verb,
                         "a marker", 0, done);
}

/* -------------------------------------------------------------- launch */

/* Finds mistakes that a driver answers with a bare number, or does not notice, and names them. */
static yoke_status
check_launch(const yki_queue *queue, const yki_kernel *kernel, const size_t groups[3],
             const size_t local[3])
{
    size_t most = YKI_MIN(queue->device->traits.max_group, kernel->most);
    const size_t *required = kernel->required;
    size_t items = 1;

    if (kernel->program->space != queue->device->space)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "kernel %s belongs to another device; must be built for %s", kernel->name,
                        queue->device->id);
    for (int i = 0; i < 3; i++) {
        if (groups[i] > MAX_GROUPS)
            return yki_fail(
                YOKE_ERROR_INVALID_ARGUMENT,
                "kernel %s: the number of work-groups in dimension %d is %zu; must be at most %d",
                kernel->name, i, groups[i], MAX_GROUPS);
        if (required[i] && local[i] != required[i])
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "kernel %s: the work-group is %zux%zux%zu; must be %zux%zux%zu",
                            kernel->name, local[0], local[1], local[2], required[0], required[1],
                            required[2]);
        /* Each factor is bounded, so the product cannot overflow. */
        items = local[i] > most ? most + 1 : items * local[i];
        if (items > most)
            return yki_fail(
                YOKE_ERROR_UNSUPPORTED,
                "kernel %s: the work-group is %zux%zux%zu; must have at most %zu work-items on %s",
                kernel->name, local[0], local[1], local[2], most, queue->device->id);
    }
    for (cl_uint i = 0; i < kernel->argument_count && i < 64; i++)
        if (!(kernel->set >> i & 1))
            return yki_fail(
                YOKE_ERROR_INVALID_ARGUMENT,
                "kernel %s: argument %u of %u is not set; must be set before each launch",
                kernel->name, i, kernel->argument_count);
    return YOKE_OK;
}

yoke_status
yki_queue_launch(yki_queue *queue, yki_kernel *kernel, const yki_grid *grid, yki_wait wait,
                 yki_event *done)
{
    const bool silent =
        queue->sparse && !done && !queue->track && (queue->serial + 1) % SPARSE != 0;
    size_t groups[3], local[3], global[3];
    cl_event event = NULL;
    cl_uint count, dims = 3;
    cl_int error;

    for (int i = 0; i < 3; i++) {
        groups[i] = grid->groups[i] ? grid->groups[i] : 1;
        local[i] = grid->local[i] ? grid->local[i] : 1;
    }
    YKI_TRY(check_launch(queue, kernel, groups, local));
    for (int i = 0; i < 3; i++)
        global[i] = groups[i] * local[i];
    while (dims > 1 && global[dims - 1] == 1)
        dims--;
    YKI_TRY(yki_queue_begin(queue, wait, &count));
    error = clEnqueueNDRangeKernel(queue->cl, kernel->cl, dims, NULL, global, local, count,
                                   count ? queue->waits : NULL, silent ? NULL : &event);
    return yki_queue_end(queue, error, event, "clEnqueueNDRangeKernel", "running kernel",
                         kernel->name, 0, done);
}

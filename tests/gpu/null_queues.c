/* SPDX-License-Identifier: Apache-2.0
 *
 * null_queues.c - queues and events of the null driver: commands are counted, written to the log,
 * and those that move bytes do so at once. But a command counts as done only when the host waits
 * for it or for a younger one of the device, or when the next step but one has begun. Only then a
 * wait is no stop.
 *
 * A line of the log begins with the command: K (kernel), W (write), R (read), C (copy), F (fill), M
 * (map), marker, flush, finish, wait; then the queue. A kernel has its name, its groups and the
 * size of one, w<events that it waits for>, p<number of its program>, and its arguments: buffers as
 * m<number>:<bytes>, ints, local memory as ?<bytes>. What moves bytes has its buffer, their number
 * and w<events that it waits for>. YOKE_NULL_LOG=FILE begins it with the process.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "gpu/null_internal.h"

enum {
    CALL_NANOSECONDS = 5000, /* what a command takes, for those who ask */
    PAGE = 4096,
    MOST_MAPPED = 4096
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static null_counts counts;
static FILE *log_file;
static struct {
    const char *at;
    size_t size;           /* 0: free */
} mapped[MOST_MAPPED];     /* buffers that the host sees: it can be sent from there as it is */
static uint64_t serial;    /* of the newest command */
static pthread_t stepping; /* the thread that makes the steps, once there are any */
static bool steps_begun;
static cl_event held_by;          /* a gate for which a command waits, and with it every queue */
static uint64_t step_began, past; /* the newest command before this step, and the one before */

/* ---- counting and telling ---- */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void
say(const char *format, ...)
{
    va_list args;

    if (!log_file)
        return;
    va_start(args, format);
    vfprintf(log_file, format, args);
    va_end(args);
}

static int
start_log(const char *path)
{
    int status = 0;

    pthread_mutex_lock(&lock);
    if (log_file)
        status = fclose(log_file);
    log_file = path ? fopen(path, "w") : NULL;
    if (path && !log_file)
        status = -1;
    pthread_mutex_unlock(&lock);
    return status;
}

static void
get_counts(null_counts *out)
{
    pthread_mutex_lock(&lock);
    *out = counts;
    pthread_mutex_unlock(&lock);
}

null_faults null_injected;

static void
set_faults(const null_faults *faults)
{
    null_injected = *faults;
}

static void
end_log(void)
{
    start_log(NULL);
}

#define EXPORT __attribute__((visibility("default")))

static void
begin_step(void)
{
    pthread_mutex_lock(&lock);
    past = step_began;
    step_began = serial;
    stepping = pthread_self();
    steps_begun = true;
    pthread_mutex_unlock(&lock);
}

/* Time passes for a thread that waits while another one goes on: what it waits for is done, as it
 * sees it, and nothing is done by that for the thread that makes the steps. */
static bool
is_another_thread(void)
{
    return steps_begun && !pthread_equal(pthread_self(), stepping);
}

/* The host waits for a command. Returns whether that is a stop: it is not done, and something was
 * enqueued since the last stop. The caller holds the lock. */
static bool
is_stop(cl_device_id device, uint64_t command)
{
    static uint64_t stopped_at;
    bool first = stopped_at != serial;

    if (is_another_thread())
        return false;
    if (command <= past || command <= device->done)
        return false;
    device->done = command;
    stopped_at = serial;
    return first;
}

EXPORT const null_driver *
yoke_null_driver(void)
{
    static const null_driver driver = {get_counts, start_log, begin_step, set_faults};

    return &driver;
}

void
null_count_argument(void)
{
    pthread_mutex_lock(&lock);
    counts.arguments++;
    pthread_mutex_unlock(&lock);
}

void
null_count_hasty_view(void)
{
    pthread_mutex_lock(&lock);
    counts.hasty_views++;
    pthread_mutex_unlock(&lock);
}

/* ---- events ---- */

static cl_int CL_API_CALL
release_queue(cl_command_queue queue)
{
    if (NULL_LAST(queue))
        free(queue);
    return CL_SUCCESS;
}

/* A command of a queue must be flushed before another queue waits for its event: some drivers hang
 * otherwise. */
static void
count_unflushed(cl_command_queue queue, cl_uint count, const cl_event *events)
{
    pthread_mutex_lock(&lock);
    for (cl_uint i = 0; i < count; i++)
        if (events[i]->queue && events[i]->queue != queue &&
            events[i]->serial > events[i]->queue->flushed)
            counts.unflushed++;
    pthread_mutex_unlock(&lock);
}

static cl_int
give_event(cl_command_queue queue, cl_event *event)
{
    struct timespec now;

    if (!event)
        return CL_SUCCESS;
    *event = calloc(1, sizeof **event);
    if (!*event)
        return CL_OUT_OF_HOST_MEMORY;
    clock_gettime(CLOCK_MONOTONIC, &now);
    (*event)->table = &null_table;
    (*event)->references = 1;
    (*event)->device = queue->device;
    (*event)->serial = queue->newest;
    (*event)->queue = queue->table ? queue : NULL;
    if ((*event)->queue)
        queue->references++;
    (*event)->when = (cl_ulong)now.tv_sec * 1000000000u + (cl_ulong)now.tv_nsec;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
retain_event(cl_event event)
{
    event->references++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
release_event(cl_event event)
{
    if (!NULL_LAST(event))
        return CL_SUCCESS;
    if (event->queue)
        release_queue(event->queue);
    free(event);
    return CL_SUCCESS;
}

/* An event of the host. Bytes have moved when a command was enqueued, so nothing depends on it. */
static cl_event CL_API_CALL
create_user_event(cl_context context, cl_int *error)
{
    struct _cl_command_queue none = {.device = context->devices[0]};
    cl_event event = NULL;

    *error = give_event(&none, &event);
    if (event)
        event->host = true;
    return event;
}

static cl_int CL_API_CALL
set_user_event(cl_event event, cl_int status)
{
    (void)status;
    atomic_store(&event->open, true);
    return CL_SUCCESS;
}

static void
wait_for_gate(cl_event event)
{
    enum { MICROSECONDS = 100 };

    while (event->host && !atomic_load(&event->open))
        usleep(MICROSECONDS);
}

/* As a driver does that takes commands only once they can run; or one that has a single queue below
 * all of them. */
static void
hold(cl_uint count, const cl_event *events)
{
    for (cl_uint i = 0; i < count && null_injected.gates_hold; i++)
        wait_for_gate(events[i]);
    for (cl_uint i = 0; i < count && null_injected.gates_hold_queues && !held_by; i++)
        if (events[i]->host) {
            retain_event(events[i]);
            held_by = events[i];
        }
}

/* Whoever waits for a command waits for the gate, too. */
static void
wait_in_line(void)
{
    cl_event event = held_by;

    if (!event)
        return;
    wait_for_gate(event);
    held_by = NULL;
    release_event(event);
}

/* A command that was not flushed, of a queue that is lost, is never done. */
static bool
is_lost(cl_event event)
{
    return event->queue && event->queue->lost && event->serial > event->queue->flushed;
}

static cl_int CL_API_CALL
get_event_info(cl_event event, cl_event_info what, size_t size, void *value, size_t *wrote)
{
    enum { PATIENCE = 16 };
    static uint64_t asked, asked_at;
    static int times;
    bool done;

    if (what != CL_EVENT_COMMAND_EXECUTION_STATUS)
        return CL_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (!is_another_thread()) {
        times = asked == event->serial && asked_at == serial ? times + 1 : 0;
        if (times >= PATIENCE)
            counts.stops += is_stop(event->device, event->serial);
        asked = event->serial;
        asked_at = serial;
    }
    done = !is_lost(event) &&
           (event->serial <= past || event->serial <= event->device->done || is_another_thread());
    pthread_mutex_unlock(&lock);
    NULL_SAY(cl_int, done ? CL_COMPLETE : CL_RUNNING);
}

static cl_int CL_API_CALL
get_event_times(cl_event event, cl_profiling_info what, size_t size, void *value, size_t *wrote)
{
    NULL_SAY(cl_ulong, event->when + (what == CL_PROFILING_COMMAND_END ? CALL_NANOSECONDS : 0));
}

static cl_int CL_API_CALL
wait_for_events(cl_uint n, const cl_event *events)
{
    bool stop = false;

    pthread_mutex_lock(&lock);
    for (cl_uint i = 0; i < n; i++)
        counts.gpu_waits += events[i]->device->model->type == CL_DEVICE_TYPE_GPU;
    for (cl_uint i = 0; i < n; i++)
        stop |= is_stop(events[i]->device, events[i]->serial);
    for (cl_uint i = 0; i < n; i++)
        if (events[i]->queue && events[i]->queue->flushed < events[i]->serial)
            events[i]->queue->flushed = events[i]->serial;
    counts.stops += stop;
    say("wait %u%s\n", n, stop ? "" : " for what is done");
    pthread_mutex_unlock(&lock);
    return CL_SUCCESS;
}

/* ---- queues ---- */

static cl_command_queue CL_API_CALL
create_queue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
             cl_int *error)
{
    static atomic_int made;
    cl_command_queue queue = calloc(1, sizeof *queue);

    (void)properties;
    *error = queue ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (!queue)
        return NULL;
    queue->table = &null_table;
    queue->references = 1;
    queue->context = context;
    queue->device = device;
    queue->number = ++made;
    return queue;
}

static cl_int CL_API_CALL
retain_queue(cl_command_queue queue)
{
    queue->references++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
get_queue_info(cl_command_queue queue, cl_command_queue_info what, size_t size, void *value,
               size_t *wrote)
{
    switch (what) {
    case CL_QUEUE_CONTEXT:
        NULL_SAY(cl_context, queue->context);
    case CL_QUEUE_DEVICE:
        NULL_SAY(cl_device_id, queue->device);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL
flush(cl_command_queue queue)
{
    cl_int error = CL_OUT_OF_RESOURCES;

    pthread_mutex_lock(&lock);
    counts.flushes++;
    queue->lost |= null_injected.flushes > 0 && --null_injected.flushes == 0;
    if (!queue->lost) {
        queue->flushed = queue->newest;
        error = CL_SUCCESS;
    }
    say("flush q%d\n", queue->number);
    pthread_mutex_unlock(&lock);
    return error;
}

static cl_int CL_API_CALL
finish(cl_command_queue queue)
{
    if (queue->lost)
        return CL_OUT_OF_RESOURCES;
    pthread_mutex_lock(&lock);
    queue->flushed = queue->newest;
    counts.stops += is_stop(queue->device, queue->newest);
    say("finish q%d\n", queue->number);
    pthread_mutex_unlock(&lock);
    return CL_SUCCESS;
}

/* ---- commands ---- */

static bool
is_buffer(const void *value, cl_mem *memory)
{
    memcpy(memory, value, sizeof *memory);
    return *memory != NULL;
}

/* An argument of the size of a pointer is a buffer: kernels of yoke get longs as two ints. */
static void
say_arguments(cl_kernel kernel)
{
    for (cl_uint i = 0; i < kernel->count && i < NULL_MOST_ARGUMENTS; i++) {
        const void *value = kernel->argument[i].value;
        cl_mem memory;
        int number;

        if (kernel->argument[i].size == sizeof memory && is_buffer(value, &memory)) {
            say(" m%d:%zu", memory->number, memory->size);
        } else if (kernel->argument[i].size == sizeof number) {
            memcpy(&number, value, sizeof number);
            say(" %d", number);
        } else {
            say(" ?%zu", kernel->argument[i].size);
        }
    }
}

/* With null_injected.memories_copied: the copies of the buffer of a trial, by device. */
static struct {
    cl_mem of; /* NULL: the host has written to it since, or nobody has a copy */
    char *of_device[NULL_MOST_DEVICES];
    cl_uint newest; /* the device that has changed its copy last */
} copies;

static char *
copy_of(cl_mem whole, cl_device_id device)
{
    char **copy = &copies.of_device[device->index];

    if (!*copy && (*copy = malloc(whole->size)))
        memcpy(*copy, whole->data, whole->size);
    return *copy;
}

static void
forget_copies(void)
{
    for (size_t i = 0; i < NULL_MOST_DEVICES; i++) {
        free(copies.of_device[i]);
        copies.of_device[i] = NULL;
    }
    copies.of = NULL;
}

/* Where the device finds the words of a buffer. */
static char *
words_of(cl_command_queue queue, cl_mem memory, cl_uint waits, const cl_event *events)
{
    cl_mem whole = memory->parent ? memory->parent : memory;

    if (!null_injected.memories_copied)
        return memory->data;
    if (copies.of != whole)
        forget_copies();
    copies.of = whole;
    for (cl_uint i = 0; i < waits; i++)
        if (events[i]->device != queue->device)
            memcpy(copy_of(whole, queue->device), copy_of(whole, events[i]->device), whole->size);
    copies.newest = queue->device->index;
    return copy_of(whole, queue->device) + (memory->data - whole->data);
}

/* Before the host reads a buffer, or after it has written to it. */
static void
meet_copies(cl_mem memory, bool written)
{
    if (copies.of != memory)
        return;
    if (!written)
        memcpy(memory->data, copies.of_device[copies.newest], memory->size);
    forget_copies();
}

/* What the kernel of a trial does (memory.c), the only one that is run. */
static void
try_memory(cl_command_queue queue, cl_kernel kernel, size_t items, cl_uint waits,
           const cl_event *events)
{
    cl_mem memory;
    cl_uint *words;
    char *at;

    if (null_injected.memories_apart && queue->device != queue->context->devices[0])
        return;
    memcpy(&memory, kernel->argument[0].value, sizeof memory);
    at = words_of(queue, memory, waits, events);
    memcpy(&words, &at, sizeof words);
    for (size_t i = 0; i < items; i++)
        words[i] = 3 * words[i] + 1;
}

static cl_int CL_API_CALL
launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
       const size_t *items, const size_t *group, cl_uint waits, const cl_event *events,
       cl_event *event)
{
    size_t size = 1;

    (void)offset;
    count_unflushed(queue, waits, events);
    for (cl_uint d = 0; d < dimensions; d++) {
        if (!items[d] || (group && (!group[d] || items[d] % group[d])))
            return CL_INVALID_WORK_GROUP_SIZE;
        if (kernel->required[0] && (!group || group[d] != kernel->required[d]))
            return CL_INVALID_WORK_GROUP_SIZE;
        size *= group ? group[d] : 1;
    }
    if (size > queue->device->model->group)
        return CL_INVALID_WORK_GROUP_SIZE;
    if (kernel->program->device != queue->device)
        return CL_INVALID_PROGRAM_EXECUTABLE;
    if (null_fails(null_injected.launch, kernel->name))
        return null_injected.launch_error;
    if (null_injected.dead)
        return CL_OUT_OF_RESOURCES;
    pthread_mutex_lock(&lock);
    counts.launches++;
    counts.launch_events += event != NULL;
    counts.lonely += size == 1 && queue->device->model->type == CL_DEVICE_TYPE_GPU;
    queue->computes = true;
    queue->newest = ++serial;
    say("K q%d %s", queue->number, kernel->name);
    for (cl_uint d = 0; d < dimensions; d++)
        say("%c%zu", d ? 'x' : ' ', group ? items[d] / group[d] : items[d]);
    for (cl_uint d = 0; d < dimensions; d++)
        say("%c%zu", d ? 'x' : ' ', group ? group[d] : 1);
    say(" w%u p%d", waits, kernel->program->number);
    if (log_file)
        say_arguments(kernel);
    say("\n");
    pthread_mutex_unlock(&lock);
    if (strcmp(kernel->name, "yki_try_memory") == 0)
        try_memory(queue, kernel, items[0], waits, events);
    return give_event(queue, event);
}

/* Counts bytes between the device and the host that go the long way: to memory that no buffer has,
 * so a driver copies them once more, or behind kernels. Few are sent with the command itself. */
static void
count_detours(cl_command_queue queue, const char *host, size_t size)
{
    bool pinned = size < PAGE;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MOST_MAPPED && !pinned; i++)
        pinned = host >= mapped[i].at && host + size <= mapped[i].at + mapped[i].size;
    counts.bytes_unpinned += pinned ? 0 : size;
    counts.bytes_in_line += size < PAGE || !queue->computes ? 0 : size;
    pthread_mutex_unlock(&lock);
}

/* Enters a range that is mapped, or takes out the one that begins at `gone`. */
static void
note_mapped(const char *gone, const char *at, size_t size)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MOST_MAPPED; i++)
        if (gone ? mapped[i].size && mapped[i].at == gone : !mapped[i].size) {
            mapped[i].at = at;
            mapped[i].size = size;
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* Counts a command that moves bytes, in `count`, and in `bytes` if that is not NULL. */
static cl_int
moved(char what, cl_command_queue queue, cl_mem memory, size_t size, cl_bool blocking,
      cl_uint waits, uint64_t *count, uint64_t *bytes, cl_event *event)
{
    pthread_mutex_lock(&lock);
    ++*count;
    if (bytes)
        *bytes += size;
    queue->newest = ++serial;
    if (blocking) {
        queue->flushed = queue->newest;
        counts.stops += is_stop(queue->device, queue->newest);
    }
    say("%c q%d m%d %zu w%u%s\n", what, queue->number, memory->number, size, waits,
        blocking ? " blocking" : "");
    pthread_mutex_unlock(&lock);
    return give_event(queue, event);
}

static bool
lies_inside(cl_mem memory, size_t offset, size_t size)
{
    return size && offset <= memory->size && size <= memory->size - offset;
}

static cl_int CL_API_CALL
enqueue_write(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size,
              const void *from, cl_uint waits, const cl_event *events, cl_event *event)
{
    hold(waits, events);
    count_unflushed(queue, waits, events);
    if (null_injected.dead)
        return CL_OUT_OF_RESOURCES;
    if (!lies_inside(memory, offset, size))
        return CL_INVALID_VALUE;
    memcpy(memory->data + offset, from, size);
    meet_copies(memory, true);
    count_detours(queue, from, size);
    return moved('W', queue, memory, size, blocking, waits, &counts.writes, &counts.bytes_written,
                 event);
}

static cl_int CL_API_CALL
enqueue_read(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size,
             void *to, cl_uint waits, const cl_event *events, cl_event *event)
{
    if (blocking)
        wait_in_line();
    count_unflushed(queue, waits, events);
    if (null_injected.dead)
        return CL_OUT_OF_RESOURCES;
    if (!lies_inside(memory, offset, size))
        return CL_INVALID_VALUE;
    meet_copies(memory, false);
    memcpy(to, memory->data + offset, size);
    count_detours(queue, to, size);
    return moved('R', queue, memory, size, blocking, waits, &counts.reads, &counts.bytes_read,
                 event);
}

static cl_int CL_API_CALL
enqueue_copy(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at,
             size_t size, cl_uint waits, const cl_event *events, cl_event *event)
{
    count_unflushed(queue, waits, events);
    if (null_injected.dead)
        return CL_OUT_OF_RESOURCES;
    if (!lies_inside(from, from_at, size) || !lies_inside(to, to_at, size))
        return CL_INVALID_VALUE;
    memmove(to->data + to_at, from->data + from_at, size);
    return moved('C', queue, to, size, CL_FALSE, waits, &counts.copies, NULL, event);
}

/* Writes zeros. Whole pages are given back to the system, so that memory nobody writes to costs
 * nothing. */
static void
clear(cl_mem memory, size_t offset, size_t size)
{
    cl_mem root = memory->parent ? memory->parent : memory;
    char *from = memory->data + offset, *to = from + size;
    char *page = root->data + (size_t)(from - root->data + PAGE - 1) / PAGE * PAGE;
    char *end = root->data + (size_t)(to - root->data) / PAGE * PAGE;

    if (!root->owned || page >= end || madvise(page, (size_t)(end - page), MADV_DONTNEED) != 0) {
        memset(from, 0, size);
        return;
    }
    memset(from, 0, (size_t)(page - from));
    memset(end, 0, (size_t)(to - end));
}

static bool
is_zero(const unsigned char *pattern, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (pattern[i])
            return false;
    return true;
}

static cl_int CL_API_CALL
enqueue_fill(cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_size,
             size_t offset, size_t size, cl_uint waits, const cl_event *events, cl_event *event)
{
    count_unflushed(queue, waits, events);
    if (null_injected.dead)
        return CL_OUT_OF_RESOURCES;
    if (!lies_inside(memory, offset, size) || !pattern_size || size % pattern_size)
        return CL_INVALID_VALUE;
    if (is_zero(pattern, pattern_size))
        clear(memory, offset, size);
    else
        for (size_t at = 0; at < size; at += pattern_size)
            memcpy(memory->data + offset + at, pattern, pattern_size);
    return moved('F', queue, memory, size, CL_FALSE, waits, &counts.fills, NULL, event);
}

static void *CL_API_CALL
enqueue_map(cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags,
            size_t offset, size_t size, cl_uint waits, const cl_event *events, cl_event *event,
            cl_int *error)
{
    (void)flags;
    count_unflushed(queue, waits, events);
    *error = lies_inside(memory, offset, size) ? CL_SUCCESS : CL_INVALID_VALUE;
    if (*error == CL_SUCCESS)
        *error = moved('M', queue, memory, size, blocking, waits, &counts.maps, NULL, event);
    if (*error != CL_SUCCESS)
        return NULL;
    note_mapped(NULL, memory->data + offset, size);
    return memory->data + offset;
}

static cl_int CL_API_CALL
enqueue_unmap(cl_command_queue queue, cl_mem memory, void *at, cl_uint waits,
              const cl_event *events, cl_event *event)
{
    (void)memory;
    count_unflushed(queue, waits, events);
    note_mapped(at, NULL, 0);
    return give_event(queue, event);
}

static cl_int CL_API_CALL
enqueue_marker(cl_command_queue queue, cl_uint waits, const cl_event *events, cl_event *event)
{
    count_unflushed(queue, waits, events);
    pthread_mutex_lock(&lock);
    counts.markers++;
    queue->newest = ++serial;
    say("marker q%d w%u\n", queue->number, waits);
    pthread_mutex_unlock(&lock);
    return give_event(queue, event);
}

void
null_fill_queues(cl_icd_dispatch *table)
{
    const char *path = getenv("YOKE_NULL_LOG");

    if (path && *path) {
        start_log(path);
        atexit(end_log);
    }
    table->clRetainEvent = retain_event;
    table->clReleaseEvent = release_event;
    table->clGetEventInfo = get_event_info;
    table->clGetEventProfilingInfo = get_event_times;
    table->clWaitForEvents = wait_for_events;
    table->clCreateUserEvent = create_user_event;
    table->clSetUserEventStatus = set_user_event;
    table->clCreateCommandQueue = create_queue;
    table->clRetainCommandQueue = retain_queue;
    table->clReleaseCommandQueue = release_queue;
    table->clGetCommandQueueInfo = get_queue_info;
    table->clFlush = flush;
    table->clFinish = finish;
    table->clEnqueueNDRangeKernel = launch;
    table->clEnqueueWriteBuffer = enqueue_write;
    table->clEnqueueReadBuffer = enqueue_read;
    table->clEnqueueCopyBuffer = enqueue_copy;
    table->clEnqueueFillBuffer = enqueue_fill;
    table->clEnqueueMapBuffer = enqueue_map;
    table->clEnqueueUnmapMemObject = enqueue_unmap;
    table->clEnqueueMarkerWithWaitList = enqueue_marker;
}

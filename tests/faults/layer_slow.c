/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_slow.c - keeps a queue busy after a launch, in proportion to how long the
 * launch took.
 *
 * Where the device runs native kernels (PoCL, Oclgrind) one is enqueued behind
 * the launch: it reads the launch's profiling times and spins for (ratio - 1) times
 * their difference, so every launch is stretched by exactly what it took.
 *
 * Elsewhere a kernel spins, for as many rounds as the shortest of the last launches of the same
 * kernel and size on that queue took, as other processes only ever lengthen one; the first
 * one is waited for. Not the shortest ever: a core whose other thread has work meanwhile takes
 * twice as long for most kernels, but not for one that spins. Its rounds are timed once per queue.
 * YOKE_FAULT_NO_NATIVE=1 has every device do so.
 *
 * The caller's event is that of the busy time; the launch's own is kept beside it,
 * as the begin of the two.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "faults/layer_internal.h"

/* An event given out, and the launch behind it (one reference). */
typedef struct stretched {
    struct stretched *next;
    cl_event done, launched;
} stretched;

enum { RECENT = 8 };

/* How long a kernel has taken on a queue, nanoseconds. */
typedef struct duration {
    struct duration *next;
    cl_command_queue queue;
    cl_kernel kernel;
    size_t items;
    double recent[RECENT]; /* a ring; 0: none yet */
    unsigned next_place;
    cl_event pending; /* a launch that will tell */
} duration;

/* A kernel that takes its time. */
typedef struct spinner {
    struct spinner *next;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem sink;
    double rounds_per_nanosecond;
} spinner;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stretched *events;
static duration *durations;
static spinner *spinners;
static uint64_t errors;

static double
launch_nanoseconds(cl_event event)
{
    cl_ulong start = 0, end = 0;

    if (fault_next->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start,
                                            NULL) != CL_SUCCESS ||
        fault_next->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end,
                                            NULL) != CL_SUCCESS ||
        end < start)
        return 0;
    return (double)(end - start);
}

/* ---- native kernels ---- */

typedef struct native_arguments {
    cl_event launched; /* one reference */
    double factor;
} native_arguments;

static double
now_nanoseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void CL_CALLBACK
spin_native(void *arguments)
{
    const native_arguments *a = arguments;
    double start = now_nanoseconds(), busy = launch_nanoseconds(a->launched) * a->factor;

    while (now_nanoseconds() - start < busy)
        ;
    fault_next->clReleaseEvent(a->launched);
}

static bool
runs_native(cl_command_queue queue)
{
    cl_device_exec_capabilities can = 0;
    cl_device_id device = NULL;
    const char *refused = getenv("YOKE_FAULT_NO_NATIVE");

    fault_next->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    fault_next->clGetDeviceInfo(device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL);
    return (can & CL_EXEC_NATIVE_KERNEL) && !(refused && *refused);
}

static cl_int
stretch_native(cl_command_queue queue, cl_event launched, double factor, cl_event *done)
{
    native_arguments arguments = {launched, factor};
    cl_int error;

    fault_next->clRetainEvent(launched);
    error = fault_next->clEnqueueNativeKernel(queue, spin_native, &arguments, sizeof arguments, 0,
                                              NULL, NULL, 1, &launched, done);
    if (error != CL_SUCCESS)
        fault_next->clReleaseEvent(launched);
    return error;
}

/* ---- a spinning kernel ---- */

/* A chain of dependent multiplications that no compiler folds. */
static const char spin_source[] = "__kernel void\n"
                                  "fault_spin(__global uint *sink, uint rounds)\n"
                                  "{\n"
                                  "    uint x = sink[0];\n"
                                  "    for (uint i = 0; i < rounds; i++)\n"
                                  "        x = (x ^ (x >> 7)) * 1664525u + 1013904223u;\n"
                                  "    sink[0] = x;\n"
                                  "}\n";

static cl_int
spin_rounds(const spinner *s, cl_uint rounds, cl_uint waits, const cl_event *wait, cl_event *done)
{
    const size_t one = 1;
    cl_int error = fault_next->clSetKernelArg(s->kernel, 1, sizeof rounds, &rounds);

    if (error != CL_SUCCESS)
        return error;
    return fault_next->clEnqueueNDRangeKernel(s->queue, s->kernel, 1, NULL, &one, &one, waits, wait,
                                              done);
}

static double
time_rounds(const spinner *s, cl_uint rounds)
{
    cl_event done = NULL;
    double nanoseconds = 0;

    if (spin_rounds(s, rounds, 0, NULL, &done) != CL_SUCCESS)
        return 0;
    if (fault_next->clFlush(s->queue) == CL_SUCCESS &&
        fault_next->clWaitForEvents(1, &done) == CL_SUCCESS)
        nanoseconds = launch_nanoseconds(done);
    fault_next->clReleaseEvent(done);
    return nanoseconds;
}

/* Shortens `best` to the shortest of some more, because other processes take their share. */
static void
time_rounds_again(const spinner *s, cl_uint rounds, double *best)
{
    for (int i = 0; i < 7; i++) {
        double next = time_rounds(s, rounds);

        *best = next < *best || *best == 0 ? next : *best;
    }
}

/* How fast it spins, once and for all. On a busy machine all launches of a while may be disturbed,
 * which shows: a few rounds take nearly as long as many. */
static bool
time_spinner(spinner *s)
{
    enum { FEW = 50000, MANY = 1050000, TRIES = 20 };
    double few = 0, many = 0;

    time_rounds(s, FEW); /* the first launch compiles */
    for (int i = 0; i < TRIES && (i < 2 || few > 0.2 * many); i++) {
        time_rounds_again(s, FEW, &few);
        time_rounds_again(s, MANY, &many);
    }
    if (few <= 0 || many <= few)
        return false;
    s->rounds_per_nanosecond = (MANY - FEW) / (many - few);
    return true;
}

static void
free_spinner(spinner *s)
{
    if (s->sink)
        fault_next->clReleaseMemObject(s->sink);
    if (s->kernel)
        fault_next->clReleaseKernel(s->kernel);
    if (s->program)
        fault_next->clReleaseProgram(s->program);
    free(s);
}

/* Made whole or not at all. */
static bool
make_spinner(spinner *s)
{
    const char *source = spin_source;
    cl_device_id device = NULL;
    cl_uint zero = 0;

    fault_next->clGetCommandQueueInfo(s->queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    s->program = fault_next->clCreateProgramWithSource(s->context, 1, &source, NULL, NULL);
    if (!s->program ||
        fault_next->clBuildProgram(s->program, 1, &device, "", NULL, NULL) != CL_SUCCESS)
        return false;
    s->kernel = fault_next->clCreateKernel(s->program, "fault_spin", NULL);
    s->sink = fault_next->clCreateBuffer(s->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                         sizeof zero, &zero, NULL);
    if (!s->kernel || !s->sink ||
        fault_next->clSetKernelArg(s->kernel, 0, sizeof s->sink, &s->sink) != CL_SUCCESS)
        return false;
    return time_spinner(s);
}

static spinner *
get_spinner(cl_command_queue queue)
{
    spinner *s = spinners;

    while (s && s->queue != queue)
        s = s->next;
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->queue = queue;
    if (fault_next->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof s->context, &s->context,
                                          NULL) != CL_SUCCESS ||
        !make_spinner(s)) {
        free_spinner(s);
        return NULL;
    }
    s->next = spinners;
    spinners = s;
    return s;
}

static duration *
get_duration(cl_command_queue queue, cl_kernel kernel, size_t items)
{
    duration *d = durations;

    while (d && (d->queue != queue || d->kernel != kernel || d->items != items))
        d = d->next;
    if (d)
        return d;
    d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->queue = queue;
    d->kernel = kernel;
    d->items = items;
    d->next = durations;
    durations = d;
    return d;
}

static void
add_duration(duration *d, cl_event launched)
{
    double taken = launch_nanoseconds(launched);

    if (taken > 0)
        d->recent[d->next_place++ % RECENT] = taken;
}

/* The shortest of the last launches; 0 before the first one. */
static double
shortest(const duration *d)
{
    double least = d->recent[0];

    for (size_t i = 1; i < RECENT && d->recent[i] > 0; i++)
        least = d->recent[i] < least ? d->recent[i] : least;
    return least;
}

static void
update_duration(duration *d, cl_event launched)
{
    cl_int status = CL_QUEUED;

    if (d->pending) {
        fault_next->clGetEventInfo(d->pending, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                   &status, NULL);
        if (status <= CL_COMPLETE) {
            add_duration(d, d->pending);
            fault_next->clReleaseEvent(d->pending);
            d->pending = NULL;
        }
    }
    if (shortest(d) <= 0) {
        fault_next->clFlush(d->queue);
        fault_next->clWaitForEvents(1, &launched);
        add_duration(d, launched);
    } else if (!d->pending) {
        fault_next->clRetainEvent(launched);
        d->pending = launched;
    }
}

static cl_int
stretch_spinning(cl_command_queue queue, cl_kernel kernel, size_t items, cl_event launched,
                 double factor, cl_event *done)
{
    spinner *s = get_spinner(queue);
    duration *d = get_duration(queue, kernel, items);
    double rounds;

    if (!s || !d)
        return CL_OUT_OF_RESOURCES;
    update_duration(d, launched);
    rounds = shortest(d) * factor * s->rounds_per_nanosecond;
    return spin_rounds(s, rounds < UINT32_MAX ? (cl_uint)rounds : UINT32_MAX, 1, &launched, done);
}

/* ---- for layer.c ---- */

static void
remember(cl_event done, cl_event launched)
{
    stretched *e = calloc(1, sizeof *e);

    if (!e)
        abort();
    e->done = done;
    e->launched = launched;
    pthread_mutex_lock(&lock);
    e->next = events;
    events = e;
    pthread_mutex_unlock(&lock);
}

cl_int
fault_slow_launch(cl_command_queue queue, cl_kernel kernel, size_t items, double ratio,
                  cl_event launched, cl_event *done)
{
    cl_event busy = NULL, *busy_at = done ? &busy : NULL;
    cl_int error;

    if (runs_native(queue)) {
        error = stretch_native(queue, launched, ratio - 1, busy_at);
    } else {
        pthread_mutex_lock(&lock);
        error = stretch_spinning(queue, kernel, items, launched, ratio - 1, busy_at);
        pthread_mutex_unlock(&lock);
    }
    if (error != CL_SUCCESS) { /* the launch stands; it is only not slower */
        pthread_mutex_lock(&lock);
        errors++;
        pthread_mutex_unlock(&lock);
    }
    if (done && error == CL_SUCCESS) {
        *done = busy;
        remember(busy, launched);
    } else if (done) {
        *done = launched;
    } else {
        fault_next->clReleaseEvent(launched);
    }
    return CL_SUCCESS;
}

cl_event
fault_slow_original(cl_event event)
{
    pthread_mutex_lock(&lock);
    for (const stretched *e = events; e; e = e->next)
        if (e->done == event) {
            event = e->launched;
            break;
        }
    pthread_mutex_unlock(&lock);
    return event;
}

void
fault_slow_event_gone(cl_event event)
{
    stretched **at = &events, *gone;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->done != event)
        at = &(*at)->next;
    gone = *at;
    if (gone)
        *at = gone->next;
    pthread_mutex_unlock(&lock);
    if (gone)
        fault_next->clReleaseEvent(gone->launched);
    free(gone);
}

/* Handles are used again by drivers: forget what belongs to one that is gone. */
static void
forget_durations(cl_command_queue queue, cl_kernel kernel)
{
    for (duration **at = &durations; *at;) {
        duration *d = *at;

        if (d->queue == queue || d->kernel == kernel) {
            *at = d->next;
            if (d->pending)
                fault_next->clReleaseEvent(d->pending);
            free(d);
        } else {
            at = &d->next;
        }
    }
}

void
fault_slow_kernel_gone(cl_kernel kernel)
{
    pthread_mutex_lock(&lock);
    forget_durations(NULL, kernel);
    pthread_mutex_unlock(&lock);
}

void
fault_slow_queue_gone(cl_command_queue queue)
{
    pthread_mutex_lock(&lock);
    forget_durations(queue, NULL);
    for (spinner **at = &spinners; *at;) {
        spinner *s = *at;

        if (s->queue == queue) {
            *at = s->next;
            free_spinner(s);
        } else {
            at = &s->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

uint64_t
fault_slow_error_count(void)
{
    uint64_t count;

    pthread_mutex_lock(&lock);
    count = errors;
    pthread_mutex_unlock(&lock);
    return count;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_layer.c - the fault layer itself, over plain OpenCL: it counts, fails the
 * n-th call, finds a leak, fails an enqueue of a step and slows a device by the
 * ratio it was told.
 *
 * Runs on the first device of the loader's list.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "support/fault.h"
#include "support/support.h"

#define CHECK_CL(call)                                                                             \
    do {                                                                                           \
        cl_int check_error = (call);                                                               \
        ck_assert_msg(check_error == CL_SUCCESS, "%s: %d", #call, check_error);                    \
    } while (0)

enum { MAX_PARTS = 64, ITEMS = 64 };

static const fault_layer *faults;
static cl_platform_id platform;
static cl_device_id device;
static char device_name[256];

static void
open_device(void)
{
    char name[200];

    faults = fault_open();
    CHECK_CL(clGetPlatformIDs(1, &platform, NULL));
    CHECK_CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    CHECK_CL(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
    snprintf(device_name, sizeof device_name, "name~%s", name);
}

static const char *const source = "__kernel void busy(__global float *x, int rounds) {\n"
                                  "    float a = x[get_global_id(0)];\n"
                                  "    for (int i = 0; i < rounds; i++)\n"
                                  "        a = a * 0.999f + 0.5f;\n"
                                  "    x[get_global_id(0)] = a;\n"
                                  "}\n";

typedef struct bench {
    cl_context context;
    cl_command_queue queue, other; /* of the same device */
    cl_program program;
    cl_kernel kernel;
    cl_mem x;
} bench;

static void
make_bench(bench *b, cl_uint count, const cl_device_id *devices)
{
    cl_int error;

    memset(b, 0, sizeof *b);
    b->context = clCreateContext(NULL, count, devices, NULL, NULL, &error);
    CHECK_CL(error);
    b->queue =
        clCreateCommandQueue(b->context, devices[count - 1], CL_QUEUE_PROFILING_ENABLE, &error);
    CHECK_CL(error);
    b->other = clCreateCommandQueue(b->context, devices[0], 0, &error);
    CHECK_CL(error);
    b->program = clCreateProgramWithSource(b->context, 1, (const char **)&source, NULL, &error);
    CHECK_CL(error);
    CHECK_CL(clBuildProgram(b->program, 0, NULL, "", NULL, NULL));
    b->kernel = clCreateKernel(b->program, "busy", &error);
    CHECK_CL(error);
    b->x = clCreateBuffer(b->context, CL_MEM_READ_WRITE, ITEMS * sizeof(float), NULL, &error);
    CHECK_CL(error);
    CHECK_CL(clSetKernelArg(b->kernel, 0, sizeof b->x, &b->x));
}

static void
free_bench(bench *b)
{
    CHECK_CL(clReleaseMemObject(b->x));
    CHECK_CL(clReleaseKernel(b->kernel));
    CHECK_CL(clReleaseProgram(b->program));
    CHECK_CL(clReleaseCommandQueue(b->other));
    CHECK_CL(clReleaseCommandQueue(b->queue));
    CHECK_CL(clReleaseContext(b->context));
}

static cl_int
launch(const bench *b, cl_command_queue queue, int rounds, cl_event *event)
{
    const size_t global = ITEMS, local = ITEMS / 4;

    CHECK_CL(clSetKernelArg(b->kernel, 1, sizeof rounds, &rounds));
    return clEnqueueNDRangeKernel(queue, b->kernel, 1, NULL, &global, &local, 0, NULL, event);
}

static cl_ulong
event_time(cl_event event, cl_profiling_info what)
{
    cl_ulong time = 0;

    CHECK_CL(clGetEventProfilingInfo(event, what, sizeof time, &time, NULL));
    return time;
}

/* Nanoseconds of one launch as its event tells them. */
static double
launch_time(const bench *b, int rounds)
{
    cl_event event = NULL;
    double time;

    CHECK_CL(launch(b, b->queue, rounds, &event));
    CHECK_CL(clFlush(b->queue));
    CHECK_CL(clWaitForEvents(1, &event));
    time = (double)(event_time(event, CL_PROFILING_COMMAND_END) -
                    event_time(event, CL_PROFILING_COMMAND_START));
    CHECK_CL(clReleaseEvent(event));
    return time;
}

/* Mesa 22.3's Rusticl counts 0, 1, 2, 3 instead of reading a clock: nothing can be slowed by its
 * times, which the layer says with slow_errors(). */
static bool
has_clock(const bench *b)
{
    enum { MANY = 200000, LEAST = 1000 };

    launch_time(b, MANY); /* compiles */
    if (launch_time(b, MANY) >= LEAST)
        return true;
    puts("# the device's profiling reads no clock: it cannot be slowed");
    return false;
}

/* Rounds for launches of about a millisecond. */
static int
find_rounds(const bench *b)
{
    int rounds = 100;

    launch_time(b, 1); /* compiles */
    while (launch_time(b, rounds) < 1e6 && rounds < 1 << 28)
        rounds *= 2;
    return rounds;
}

static int
ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* How many times as long the shortest launch takes in step 1 as in step 0: other processes only
 * ever lengthen one. They alternate, so that a machine that slows down meanwhile hurts both.
 * *disturbed: most launches of step 0 took far longer than the shortest. */
static double
measure_ratio(const bench *b, int rounds, bool *disturbed)
{
    enum { PAIRS = 41 };
    double plain[PAIRS], slowed = INFINITY;

    for (int i = -3; i < PAIRS; i++) { /* a spinning kernel learns from the first ones */
        double first, second;

        faults->step(0);
        first = launch_time(b, rounds);
        faults->step(1);
        second = launch_time(b, rounds);
        if (i >= 0) {
            plain[i] = first;
            slowed = fmin(slowed, second);
        }
    }
    faults->step(0);
    qsort(plain, PAIRS, sizeof *plain, ascending);
    *disturbed = plain[PAIRS / 2] > 1.25 * plain[0];
    return slowed / plain[0];
}

/* In some assert_ratio nothing could be judged. */
static bool too_busy;
static const char busy[] =
    "other work lengthens most launches, so none can be slowed by their time";

/* Other processes may disturb one measurement, not five over a quarter of a minute; or there are so
 * many that a kernel which learns from the last launches learns of them, and nothing can be said.
 */
static void
assert_ratio(const bench *b, int rounds, double wanted, const char *what)
{
    bool disturbed = false;
    double ratio = 0;

    for (unsigned attempt = 0; attempt < 5; attempt++) {
        if (attempt > 0)
            sleep(1U << (attempt - 1));
        ratio = measure_ratio(b, rounds, &disturbed);
        if (fabs(ratio - wanted) <= 0.1 * wanted)
            break;
    }
    printf("# %s: asked %.2f, measured %.3f%s\n", what, wanted, ratio,
           disturbed ? ", disturbed" : "");
    fflush(stdout);
    if (disturbed && ratio > 1.1 * wanted) {
        too_busy = true;
        return;
    }
    ck_assert_msg(fabs(ratio - wanted) <= 0.1 * wanted, "%s: ratio %.3f instead of %.2f", what,
                  ratio, wanted);
}

START_TEST(layer_counts_calls_and_fails_the_nth)
{
    cl_uint count = 77;
    fault_hit hit;
    cl_int error = 77;

    faults->arm(2, CL_OUT_OF_RESOURCES, false);
    CHECK_CL(clGetPlatformIDs(0, NULL, &count));
    ck_assert_uint_ne(count, 77);
    count = 77;
    ck_assert_int_eq(clGetPlatformIDs(0, NULL, &count), CL_OUT_OF_RESOURCES);
    ck_assert_uint_eq(count, 77);
    CHECK_CL(clGetPlatformIDs(0, NULL, &count));
    ck_assert_uint_eq(faults->calls(), 3);
    faults->get_hit(&hit);
    ck_assert_uint_eq(hit.count, 1);
    ck_assert_uint_eq(hit.index, 2);
    ck_assert_str_eq(hit.call, "clGetPlatformIDs");

    /* A create says so through its last argument. */
    faults->arm(1, CL_OUT_OF_HOST_MEMORY, true);
    ck_assert_ptr_null(clCreateContext(NULL, 1, &device, NULL, NULL, &error));
    ck_assert_int_eq(error, CL_OUT_OF_HOST_MEMORY);
    ck_assert_ptr_null(clCreateContext(NULL, 1, &device, NULL, NULL, NULL));
    faults->get_hit(&hit);
    ck_assert_uint_eq(hit.count, 2);
    faults->arm(0, 0, false);
    CHECK_CL(clGetPlatformIDs(0, NULL, &count));
    fault_assert_nothing_alive("after failed creates");
}
END_TEST

START_TEST(layer_counts_objects_and_finds_a_leak)
{
    char text[1000];
    cl_event event = NULL;
    cl_int error;
    cl_mem part;
    bench b;

    make_bench(&b, 1, &device);
    ck_assert_int_eq(faults->live(FAULT_CONTEXT), 1);
    ck_assert_int_eq(faults->live(FAULT_QUEUE), 2);
    ck_assert_int_eq(faults->live(FAULT_MEM), 1);
    ck_assert_int_eq(faults->live(FAULT_PROGRAM), 1);
    ck_assert_int_eq(faults->live(FAULT_KERNEL), 1);
    CHECK_CL(clRetainMemObject(b.x));
    ck_assert_int_eq(faults->live(FAULT_MEM), 2);
    CHECK_CL(clReleaseMemObject(b.x));
    part = clCreateSubBuffer(b.x, 0, CL_BUFFER_CREATE_TYPE_REGION,
                             &(cl_buffer_region){0, ITEMS * sizeof(float)}, &error);
    CHECK_CL(error);
    CHECK_CL(launch(&b, b.queue, 1, NULL));
    ck_assert_int_eq(faults->live(FAULT_EVENT), 0);
    CHECK_CL(launch(&b, b.queue, 1, &event));
    CHECK_CL(clFinish(b.queue));
    free_bench(&b);

    ck_assert_uint_eq(faults->describe(text, sizeof text, true), 2);
    ck_assert_msg(strstr(text, "event (clEnqueueNDRangeKernel") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "mem (clCreateSubBuffer") != NULL, "%s", text);
    CHECK_CL(clReleaseEvent(event));
    CHECK_CL(clReleaseMemObject(part));
    fault_assert_nothing_alive("after all releases");
}
END_TEST

START_TEST(layer_finds_a_release_too_many)
{
    int status;
    pid_t child;

    fflush(NULL);
    child = fork();
    ck_assert(child >= 0);
    if (child == 0) { /* what the driver does afterwards is its affair */
        cl_context context;

        open_device();
        context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
        clCreateCommandQueue(context, device, 0, NULL); /* keeps the context alive */
        clReleaseContext(context);
        if (faults->overreleased() != 0)
            _exit(2);
        clReleaseContext(context);
        _exit(faults->overreleased() == 1 ? 0 : 1);
    }
    ck_assert(waitpid(child, &status, 0) == child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

START_TEST(layer_fails_an_enqueue_of_one_step)
{
    bench b;

    make_bench(&b, 1, &device);
    ck_assert(faults->fail_enqueue(device_name, 5, 2, CL_MEM_OBJECT_ALLOCATION_FAILURE));
    ck_assert(!faults->fail_enqueue("no such name", 5, 2, CL_OUT_OF_RESOURCES));
    for (uint64_t step = 4; step < 7; step++) {
        faults->step(step);
        CHECK_CL(launch(&b, b.queue, 1, NULL));
        ck_assert_int_eq(launch(&b, b.queue, 1, NULL),
                         step == 5 ? CL_MEM_OBJECT_ALLOCATION_FAILURE : CL_SUCCESS);
        CHECK_CL(launch(&b, b.queue, 1, NULL));
    }
    CHECK_CL(clFinish(b.queue));
    free_bench(&b);
}
END_TEST

START_TEST(layer_slows_by_the_ratio)
{
    static const double ratios[] = {1.5, 3};
    const bool native = _i == 0;
    char what[80];
    bench b;
    int rounds;

    if (!native)
        setenv("YOKE_FAULT_NO_NATIVE", "1", 1);
    make_bench(&b, 1, &device);
    if (!has_clock(&b)) {
        ck_assert(faults->slow(device_name, 2, 0, UINT64_MAX));
        CHECK_CL(launch(&b, b.queue, 1, NULL));
        CHECK_CL(clFinish(b.queue));
        ck_assert_uint_eq(faults->slow_errors(), 1);
        free_bench(&b);
        return;
    }
    rounds = find_rounds(&b);
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
        ck_assert(faults->slow(device_name, ratios[i], 1, 1));
        snprintf(what, sizeof what, "%s, step 1",
                 native ? "as the device can" : "by a spinning kernel");
        assert_ratio(&b, rounds, ratios[i], what);
    }
    ck_assert(faults->slow(device_name, 1, 0, UINT64_MAX));
    assert_ratio(&b, rounds, 1, "taken back");
    ck_assert(faults->slow_queue(b.queue, 2, 1, 1));
    assert_ratio(&b, rounds, 2, "one queue");
    ck_assert(faults->slow_queue(b.queue, 1, 0, 0));
    ck_assert(faults->slow_queue(b.other, 2, 1, 1));
    assert_ratio(&b, rounds, 1, "another queue");
    ck_assert_uint_eq(faults->slow_errors(), 0);
    free_bench(&b);
    fault_assert_nothing_alive("after slowed launches");
    if (too_busy)
        TEST_SKIP("%s", busy);
}
END_TEST

START_TEST(layer_keeps_order_and_events)
{
    cl_event slowed = NULL, next = NULL, hidden = NULL;
    cl_command_queue_properties properties = CL_QUEUE_PROFILING_ENABLE;
    cl_command_type type = 0;
    cl_ulong time;
    bench b;
    int rounds;

    make_bench(&b, 1, &device);
    if (!has_clock(&b)) {
        free_bench(&b);
        return;
    }
    rounds = find_rounds(&b);
    ck_assert(faults->slow(device_name, 4, 0, UINT64_MAX));
    CHECK_CL(launch(&b, b.queue, rounds, &slowed));
    CHECK_CL(launch(&b, b.queue, 1, &next));
    CHECK_CL(clFlush(b.queue));
    CHECK_CL(clWaitForEvents(1, &next));
    ck_assert_uint_ge(event_time(next, CL_PROFILING_COMMAND_START),
                      event_time(slowed, CL_PROFILING_COMMAND_END));
    ck_assert_uint_ge(event_time(slowed, CL_PROFILING_COMMAND_START),
                      event_time(slowed, CL_PROFILING_COMMAND_QUEUED));
    CHECK_CL(clGetEventInfo(slowed, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    ck_assert_uint_eq(type, CL_COMMAND_NDRANGE_KERNEL);

    /* The profiling that the layer needs is not seen by who did not ask for it. */
    CHECK_CL(
        clGetCommandQueueInfo(b.other, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    ck_assert_uint_eq(properties & CL_QUEUE_PROFILING_ENABLE, 0);
    CHECK_CL(launch(&b, b.other, 1, &hidden));
    CHECK_CL(clFinish(b.other));
    ck_assert_int_eq(
        clGetEventProfilingInfo(hidden, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL),
        CL_PROFILING_INFO_NOT_AVAILABLE);
    CHECK_CL(clReleaseEvent(hidden));
    CHECK_CL(clReleaseEvent(slowed));
    CHECK_CL(clReleaseEvent(next));
    free_bench(&b);
    fault_assert_nothing_alive("after slowed launches");
}
END_TEST

/* The shortest of some, because other processes take their share. */
static double
best_time(const bench *b, int rounds)
{
    double best = launch_time(b, rounds);

    for (int i = 0; i < 9; i++)
        best = fmin(best, launch_time(b, rounds));
    return best;
}

/* In a process of its own, which leaves a buffer behind. */
static void
use_environment(void)
{
    enum { FROM = 60 }; /* more launches than it takes to find the rounds and a time */
    double plain, slowed;
    bench b;
    int rounds = 1;

    ck_assert_int_eq(clGetPlatformIDs(1, &platform, NULL), CL_OUT_OF_HOST_MEMORY);
    open_device();
    make_bench(&b, 1, &device);
    if (has_clock(&b))
        rounds = find_rounds(&b);
    plain = best_time(&b, rounds);
    for (int i = 0; i < FROM; i++)
        launch_time(&b, 1);
    slowed = best_time(&b, rounds);
    ck_assert_msg(slowed > 3 * plain || !has_clock(&b), "%g and %g ns", plain, slowed);
    CHECK_CL(clRetainMemObject(b.x));
    free_bench(&b);
}

/* The first device, whatever its type; each launch is a step. */
START_TEST(layer_obeys_the_environment)
{
    char report[] = "/tmp/yoke-fault-report-XXXXXX", line[1000] = "";
    int status = 0, file = mkstemp(report);
    FILE *stream;
    pid_t child;

    ck_assert(file >= 0);
    setenv("YOKE_FAULT_AT", "1", 1);
    setenv("YOKE_FAULT_CODE", "-6", 1);
    setenv("YOKE_FAULT_REPORT", report, 1);
    setenv("YOKE_SLOW", "gpu:0:8:60,cpu:0:8:60,acc:0:8:60:100000", 1);
    faults = fault_open();
    fflush(NULL);
    child = fork();
    ck_assert(child >= 0);
    if (child == 0) {
        use_environment();
        exit(EXIT_SUCCESS); /* which writes the report */
    }
    ck_assert(waitpid(child, &status, 0) == child);
    ck_assert_int_eq(status, 0);
    stream = fdopen(file, "r");
    ck_assert(stream != NULL);
    ck_assert(fgets(line, sizeof line, stream) != NULL);
    ck_assert_msg(strstr(line, "failed 1 (clGetPlatformIDs)") != NULL, "%s", line);
    ck_assert_msg(strstr(line, "alive 1: mem (clCreateBuffer") != NULL, "%s", line);
    fclose(stream);
    unlink(report);
}
END_TEST

START_TEST(layer_slows_one_part)
{
    cl_device_id parts[MAX_PARTS];
    cl_device_partition_property ways[16] = {0};
    const cl_device_partition_property counts[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    char name[300];
    cl_uint count = 0;
    bench b;
    int rounds;

    /* Not the maximum: drivers name one without offering any way to partition. */
    CHECK_CL(clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, sizeof ways, ways, NULL));
    CHECK_CL(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof count, &count, NULL));
    if (ways[0] == 0 || count < 2 || count > MAX_PARTS) {
        puts("# the device cannot be partitioned in 2..64 parts");
        return;
    }
    CHECK_CL(clCreateSubDevices(device, counts, MAX_PARTS, parts, &count));
    ck_assert_int_eq(faults->live(FAULT_SUBDEVICE), count);
    make_bench(&b, 2, parts); /* b.queue is on part 1 */
    rounds = find_rounds(&b);
    snprintf(name, sizeof name, "%s/%u.1", device_name, count);
    ck_assert(faults->slow(name, 2, 1, 1));
    assert_ratio(&b, rounds, 2, "part 1 of the device");
    ck_assert(faults->slow(name, 1, 0, 0));
    snprintf(name, sizeof name, "%s/%u.0", device_name, count);
    ck_assert(faults->slow(name, 2, 1, 1));
    assert_ratio(&b, rounds, 1, "part 1 with part 0 slowed");
    free_bench(&b);
    for (cl_uint i = 0; i < count; i++)
        CHECK_CL(clReleaseDevice(parts[i]));
    fault_assert_nothing_alive("after the parts");
    if (too_busy)
        TEST_SKIP("%s", busy);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("layer");
    TCase *plain = test_case(suite, "layer"), *alone = test_case(suite, "environment");

    fault_require();
    tcase_add_checked_fixture(plain, open_device, NULL);
    tcase_add_test(plain, layer_counts_calls_and_fails_the_nth);
    tcase_add_test(plain, layer_counts_objects_and_finds_a_leak);
    tcase_add_test(plain, layer_fails_an_enqueue_of_one_step);
    tcase_add_loop_test(plain, layer_slows_by_the_ratio, 0, 2);
    tcase_add_test(plain, layer_keeps_order_and_events);
    tcase_add_test(plain, layer_slows_one_part);
    tcase_add_test(alone, layer_finds_a_release_too_many);
    tcase_add_test(alone, layer_obeys_the_environment);
    return suite;
}

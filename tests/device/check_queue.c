/* SPDX-License-Identifier: Apache-2.0
 *
 * check_queue.c - queues, events, kernels and launches, on the devices of the
 * environment; and how long devices take side by side.
 */
#include <stdio.h>
#include <string.h>

#include "device/cl.h"
#include "support/devices.h"

static const char source[] =
    "__kernel __attribute__((reqd_work_group_size(2, 1, 1))) void\n"
    "add(__global int *a, int value)\n"
    "{\n"
    "    a[get_global_id(0)] += value;\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void\n"
    "twice_plus(__global int *a, int value)\n"
    "{\n"
    "    a[0] = 2 * a[0] + value;\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(2, 2, 1))) void\n"
    "where(__global int *a)\n"
    "{\n"
    "    __local int scratch[4];\n"
    "    size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);\n"
    "    scratch[get_local_id(0) + 2 * get_local_id(1)] = (int)(x + 10 * y + 100 * z);\n"
    "    a[x + get_global_size(0) * (y + get_global_size(1) * z)] =\n"
    "        scratch[get_local_id(0) + 2 * get_local_id(1)];\n"
    "}\n";

static test_devices devices;
static yki_program *program;

static void
open_devices(void)
{
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yki_program_get_source(devices.device[0], "test", source, "", &program));
}

static void
close_devices(void)
{
    yki_program_release(program);
    test_devices_close(&devices);
}

static yki_queue *
make_queue(yoke_device *device)
{
    yki_queue *queue;

    ASSERT_OK(yki_queue_create(device, false, &queue));
    return queue;
}

/* `count` ints, all `value`. */
static yki_buffer *
make_ints(yoke_device *device, size_t count, int value)
{
    yki_buffer *buffer;

    /* In one piece: Oclgrind takes all but what was written last for uninitialized. */
    int values[128];

    ck_assert_uint_le(count, YKI_COUNT(values));
    for (size_t i = 0; i < count; i++)
        values[i] = value;
    ASSERT_OK(yki_buffer_create(device, count * sizeof(int), 0, "ints", &buffer));
    ASSERT_OK(yki_buffer_put(buffer, 0, count * sizeof(int), values));
    return buffer;
}

static int
get_int(yki_buffer *buffer, size_t index)
{
    int value;

    ASSERT_OK(yki_buffer_get(buffer, index * sizeof(int), sizeof value, &value));
    return value;
}

static yki_kernel *
make_kernel(const char *name, yki_buffer *buffer, int value)
{
    yki_kernel *kernel;

    ASSERT_OK(yki_kernel_create(program, name, &kernel));
    ASSERT_OK(yki_kernel_set_buffer(kernel, 0, buffer));
    ASSERT_OK(yki_kernel_set(kernel, 1, sizeof value, &value));
    return kernel;
}

static const yki_grid one = {{1}, {1}};

START_TEST(launch_runs_every_group)
{
    yki_queue *queue = make_queue(devices.device[0]);
    yki_buffer *buffer = make_ints(devices.device[0], 6, 40);
    yki_kernel *kernel = make_kernel("add", buffer, 2);

    ASSERT_OK(yki_queue_launch(queue, kernel, &(yki_grid){{3}, {2}}, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(get_int(buffer, i), 42);
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

START_TEST(launch_has_three_dimensions_and_local_memory)
{
    enum { X = 4, Y = 6, Z = 3 };
    yki_queue *queue = make_queue(devices.device[0]);
    yki_buffer *buffer = make_ints(devices.device[0], X * Y * Z, -1);
    yki_kernel *kernel;

    ASSERT_OK(yki_kernel_create(program, "where", &kernel));
    ASSERT_OK(yki_kernel_set_buffer(kernel, 0, buffer));
    ASSERT_OK(yki_queue_launch(queue, kernel, &(yki_grid){{2, 3, 3}, {2, 2}}, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    for (int i = 0; i < X * Y * Z; i++)
        ck_assert_int_eq(get_int(buffer, (size_t)i), i % X + 10 * (i / X % Y) + 100 * (i / X / Y));
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

START_TEST(launch_says_what_is_wrong)
{
    yki_queue *queue = make_queue(devices.device[0]);
    yki_buffer *buffer = make_ints(devices.device[0], 2, 0);
    uint32_t most = yki_device_get_traits(devices.device[0])->max_group;
    yki_kernel *kernel;
    int value = 1;

    ASSERT_OK(yki_kernel_create(program, "add", &kernel));
    ASSERT_OK(yki_kernel_set(kernel, 1, sizeof value, &value));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_launch(queue, kernel, &(yki_grid){{1}, {2}}, YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("argument 0 of 2 is not set; must be set before each launch");
    ASSERT_OK(yki_kernel_set_buffer(kernel, 0, buffer));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_launch(queue, kernel, &(yki_grid){{65536}, {2}}, YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("dimension 0 is 65536; must be at most 65535");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_launch(queue, kernel, &(yki_grid){{1}, {3}}, YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("the work-group is 3x1x1; must be 2x1x1");
    ASSERT_STATUS(
        YOKE_ERROR_INVALID_ARGUMENT,
        yki_queue_launch(queue, kernel, &(yki_grid){{1}, {2, 1, most}}, YKI_NO_WAIT, NULL));
    if (!devices.slow) { /* it would be a complaint in Oclgrind's report */
        ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                      yki_kernel_set(kernel, 1, 2 * sizeof value, (int[2]){0, 0}));
        ASSERT_DETAIL("argument 1 is not 8 bytes wide");
        ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yki_kernel_create(program, "no_such", &kernel));
        ASSERT_DETAIL("no_such");
    }
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yki_kernel_set(kernel, 2, sizeof value, &value));
    ASSERT_DETAIL("the number of an argument is 2; must be below 2");
    ASSERT_OK(yki_queue_launch(queue, kernel, &(yki_grid){{1}, {2}}, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ck_assert_int_eq(get_int(buffer, 1), 1);
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

START_TEST(launch_has_a_largest_group)
{
    static const char free_size[] = "__kernel void free_group(__global int *a) { a[0] = 1; }\n";
    yki_queue *queue = make_queue(devices.device[0]);
    yki_buffer *buffer = make_ints(devices.device[0], 1, 0);
    size_t most = yki_device_get_traits(devices.device[0])->max_group;
    yki_program *other;
    yki_kernel *kernel;

    ASSERT_OK(yki_program_get_source(devices.device[0], "free_group", free_size, "", &other));
    ASSERT_OK(yki_kernel_create(other, "free_group", &kernel));
    ASSERT_OK(yki_kernel_set_buffer(kernel, 0, buffer));
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED,
                  yki_queue_launch(queue, kernel, &(yki_grid){{1}, {most + 1}}, YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("must have at most");
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED,
                  yki_queue_launch(queue, kernel, &(yki_grid){{1}, {SIZE_MAX / 2, SIZE_MAX / 2}},
                                   YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_launch(queue, kernel, &one, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ck_assert_int_eq(get_int(buffer, 0), 1);
    yki_kernel_destroy(kernel);
    yki_program_release(other);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

/* Two queues take turns on one number; nobody flushes. 2 a + 1 and 2 a in the wrong order give
 * another number, and a missing flush gives none. */
START_TEST(events_order_two_queues)
{
    enum { TURNS = 24 };
    yoke_device *other = NULL;
    yki_queue *queues[2];
    yki_buffer *buffer = make_ints(devices.device[0], 1, 0);
    yki_kernel *kernels[2];
    yki_event last = {NULL, NULL, 0};
    int expected = 0;

    /* The second queue is another device's where one shares memory with the first. */
    for (size_t i = 1; i < devices.count && !other; i++)
        if (yki_device_space(devices.device[i]) == yki_device_space(devices.device[0]))
            other = devices.device[i];
    queues[0] = make_queue(devices.device[0]);
    queues[1] = make_queue(other ? other : devices.device[0]);
    kernels[0] = make_kernel("twice_plus", buffer, 1);
    kernels[1] = make_kernel("twice_plus", buffer, 0);
    for (int i = 0; i < TURNS; i++) {
        yki_event done;

        ASSERT_OK(
            yki_queue_launch(queues[i % 2], kernels[i % 2], &one, (yki_wait){&last, 1}, &done));
        yki_event_release(&last);
        last = done;
        expected = 2 * expected + !(i % 2);
    }
    ASSERT_OK(yki_event_wait(&last));
    ck_assert_int_eq(get_int(buffer, 0), expected);
    yki_event_release(&last);
    ck_assert_ptr_null(last.cl);
    for (int i = 0; i < 2; i++) {
        yki_kernel_destroy(kernels[i]);
        yki_queue_destroy(queues[i]);
    }
    yki_buffer_destroy(buffer);
}
END_TEST

START_TEST(events_of_nothing_are_complete)
{
    yki_queue *queue = make_queue(devices.device[0]);
    yki_buffer *buffer = make_ints(devices.device[0], 1, 5);
    yki_event nothing = {NULL, NULL, 0}, done, copy;
    uint64_t start, end;

    ASSERT_OK(yki_event_wait(&nothing));
    yki_event_release(&nothing);
    ASSERT_OK(yki_queue_fill(queue, buffer, 0, 4, 6, (yki_wait){&nothing, 1}, &done));
    copy = yki_event_retain(done);
    yki_event_release(&done);
    ASSERT_OK(yki_event_wait(&copy));
    ck_assert_int_eq(get_int(buffer, 0), 6);
    ASSERT_STATUS(YOKE_ERROR_STATE, yki_event_times(&copy, &start, &end));
    ASSERT_DETAIL("not made to be timed");
    ASSERT_STATUS(YOKE_ERROR_STATE, yki_event_times(&nothing, &start, &end));
    yki_event_release(&copy);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

START_TEST(events_of_timed_queues_have_times)
{
    yki_queue *queue;
    yki_buffer *buffer = make_ints(devices.device[0], 2, 0);
    yki_kernel *kernel = make_kernel("add", buffer, 1);
    yki_event first, second;
    uint64_t start[2], end[2];

    ASSERT_OK(yki_queue_create(devices.device[0], true, &queue));
    ASSERT_OK(yki_queue_launch(queue, kernel, &(yki_grid){{1}, {2}}, YKI_NO_WAIT, &first));
    ASSERT_OK(yki_queue_launch(queue, kernel, &(yki_grid){{1}, {2}}, YKI_NO_WAIT, &second));
    ASSERT_OK(yki_queue_finish(queue));
    ASSERT_OK(yki_event_times(&first, &start[0], &end[0]));
    ASSERT_OK(yki_event_times(&second, &start[1], &end[1]));
    ck_assert_uint_le(start[0], end[0]);
    ck_assert_uint_le(start[1], end[1]);
    ck_assert_uint_le(start[0], start[1]);
    ck_assert_uint_gt(end[1], 0);
    yki_event_release(&first);
    yki_event_release(&second);
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

START_TEST(queue_takes_thousands_of_commands)
{
    int count = devices.slow ? 300 : 20000;
    yki_queue *queue = make_queue(devices.device[0]);
    yki_buffer *buffer = make_ints(devices.device[0], 2, 0);
    yki_kernel *kernel = make_kernel("add", buffer, 1);

    for (int i = 0; i < count; i++)
        ASSERT_OK(yki_queue_launch(queue, kernel, &(yki_grid){{1}, {2}}, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ck_assert_int_eq(get_int(buffer, 1), count);
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

/* A command that fails after it was enqueued: it waits for a user event that is made to fail. */
START_TEST(queue_returns_errors_of_enqueued_work_once)
{
    yki_queue *queue = make_queue(devices.device[0]), *other = make_queue(devices.device[0]);
    yki_buffer *buffer = make_ints(devices.device[0], 2, 0);
    yki_kernel *kernel = make_kernel("add", buffer, 1);
    yki_event doomed = {NULL, other, 0}, done;
    cl_context context;
    cl_int error;

    if (devices.slow)
        TEST_NOT_HERE("Oclgrind waits for ever for a failed user event");
    ck_assert_int_eq(clGetCommandQueueInfo(yki_queue_raw(queue), CL_QUEUE_CONTEXT, sizeof context,
                                           &context, NULL),
                     CL_SUCCESS);
    doomed.cl = clCreateUserEvent(context, &error);
    ck_assert_int_eq(error, CL_SUCCESS);
    ASSERT_OK(
        yki_queue_launch(queue, kernel, &(yki_grid){{1}, {2}}, (yki_wait){&doomed, 1}, &done));
    ck_assert_int_eq(clSetUserEventStatus(doomed.cl, CL_OUT_OF_RESOURCES), CL_SUCCESS);
    ck_assert_int_ne(yki_queue_finish(queue), YOKE_OK);
    ASSERT_DETAIL("running kernel add");
    ASSERT_DETAIL(yki_device_id(devices.device[0]));
    ASSERT_OK(yki_queue_finish(queue));
    /* ... but who waits for that very command hears it again. */
    ck_assert_int_ne(yki_event_wait(&done), YOKE_OK);
    ck_assert_int_eq(get_int(buffer, 0), 0);
    yki_event_release(&done);
    yki_event_release(&doomed);
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(other);
    yki_queue_destroy(queue);
}
END_TEST

/* A driver whose clFinish forgets what was flushed earlier is waited for all the same. */
START_TEST(queue_finish_waits_for_what_was_flushed)
{
    size_t size = devices.slow ? 4096 : 64 << 20;
    yki_queue *queue = make_queue(devices.device[0]);
    yki_buffer *buffer;
    yki_event done;
    cl_int state = -1;

    ASSERT_OK(yki_buffer_create(devices.device[0], size, 0, "much", &buffer));
    ASSERT_OK(yki_queue_fill(queue, buffer, 0, size, 1, YKI_NO_WAIT, &done));
    ASSERT_OK(yki_queue_flush(queue));
    ASSERT_OK(yki_queue_finish(queue));
    ck_assert_int_eq(
        clGetEventInfo(done.cl, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
        CL_SUCCESS);
    ck_assert_int_eq(state, CL_COMPLETE);
    yki_event_release(&done);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

/* ---- threads: own queue and buffers each, one context and program table ---- */

enum { THREADS = 4, STEPS = 40 };

typedef struct worker_job {
    yoke_device *device;
    int seed;
    yoke_status status;
    int result;
    char detail[256];
} worker_job;

static yoke_status
work(worker_job *worker)
{
    yki_program *built = NULL;
    yki_queue *queue = NULL;
    yki_buffer *a = NULL, *b = NULL;
    yki_kernel *kernel = NULL;
    int value = worker->seed, zero = 0;

    YKI_TRY(yki_program_get_source(worker->device, "test", source, "", &built));
    YKI_TRY(yki_queue_create(worker->device, false, &queue));
    YKI_TRY(yki_kernel_create(built, "add", &kernel));
    YKI_TRY(yki_kernel_set(kernel, 1, sizeof value, &value));
    for (int i = 0; i < STEPS; i++) {
        yki_event filled;

        YKI_TRY(yki_buffer_create(worker->device, 256, 0, "a", &a));
        YKI_TRY(yki_buffer_create(worker->device, 256, 0, "b", &b));
        YKI_TRY(yki_queue_fill(queue, a, 0, 256, (uint32_t)i, YKI_NO_WAIT, &filled));
        YKI_TRY(yki_kernel_set_buffer(kernel, 0, a));
        YKI_TRY(
            yki_queue_launch(queue, kernel, &(yki_grid){{32}, {2}}, (yki_wait){&filled, 1}, NULL));
        YKI_TRY(yki_queue_copy(queue, a, 0, b, 0, 256, YKI_NO_WAIT, NULL));
        YKI_TRY(yki_queue_read(queue, b, 252, 4, &zero, YKI_NO_WAIT, NULL));
        YKI_TRY(yki_queue_finish(queue));
        if (zero != i + value)
            return yki_fail(YOKE_ERROR_VALUE, "step %d: %d instead of %d", i, zero, i + value);
        yki_event_release(&filled);
        yki_buffer_destroy(a);
        yki_buffer_destroy(b);
        worker->result++;
    }
    yki_kernel_destroy(kernel);
    yki_queue_destroy(queue);
    yki_program_release(built);
    return YOKE_OK;
}

static void
run_worker(void *argument)
{
    worker_job *worker = argument;

    worker->status = work(worker);
    snprintf(worker->detail, sizeof worker->detail, "%s", yoke_last_error());
}

START_TEST(queue_per_thread_needs_no_lock)
{
    worker_job workers[THREADS];
    yki_thread *threads[THREADS];

    if (devices.slow)
        TEST_NOT_HERE("Oclgrind crashes when two threads work at once");
    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (worker_job){devices.device[(size_t)i % devices.count], 1000 * (i + 1), YOKE_OK, 0, ""};
        ASSERT_OK(yki_thread_start(run_worker, &workers[i], "worker", &threads[i]));
    }
    for (int i = 0; i < THREADS; i++)
        yki_thread_join(threads[i]);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_msg(workers[i].status == YOKE_OK, "thread %d: %s", i, workers[i].detail);
        ck_assert_int_eq(workers[i].result, STEPS);
    }
}
END_TEST

START_TEST(queue_and_buffer_of_other_devices_are_told_apart)
{
    size_t far = 0;
    yki_queue *queue;
    yki_buffer *buffer;
    yki_kernel *kernel;

    for (size_t i = 1; i < devices.count && !far; i++)
        if (yki_device_space(devices.device[i]) != yki_device_space(devices.device[0]))
            far = i;
    if (!far)
        return; /* everything shares memory here; check_link has set-ups where it does not */
    queue = make_queue(devices.device[far]);
    buffer = make_ints(devices.device[0], 1, 0);
    kernel = make_kernel("twice_plus", buffer, 1);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_fill(queue, buffer, 0, 4, 0, YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("cannot reach it");
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yki_queue_launch(queue, kernel, &one, YKI_NO_WAIT, NULL));
    ASSERT_DETAIL("belongs to another device");
    yki_kernel_destroy(kernel);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

START_TEST(measure_overlap_gives_times)
{
    yoke_overlap overlap = {0, 0};

    ASSERT_OK(yoke_selection_measure_overlap(devices.selection, 1, &overlap));
    ck_assert_double_gt(overlap.alone_seconds, 0.002);
    ck_assert_double_gt(overlap.together_seconds, 0.002);
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_selection_measure_overlap(NULL, 1, &overlap));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yoke_selection_measure_overlap(devices.selection, 1u << 30, &overlap));
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("queue");
    TCase *tcase = test_case(suite, "queue");

    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    tcase_add_test(tcase, launch_runs_every_group);
    tcase_add_test(tcase, launch_has_three_dimensions_and_local_memory);
    tcase_add_test(tcase, launch_says_what_is_wrong);
    tcase_add_test(tcase, launch_has_a_largest_group);
    tcase_add_test(tcase, events_order_two_queues);
    tcase_add_test(tcase, events_of_nothing_are_complete);
    tcase_add_test(tcase, events_of_timed_queues_have_times);
    tcase_add_test(tcase, queue_takes_thousands_of_commands);
    tcase_add_test(tcase, queue_returns_errors_of_enqueued_work_once);
    tcase_add_test(tcase, queue_finish_waits_for_what_was_flushed);
    tcase_add_test(tcase, queue_per_thread_needs_no_lock);
    tcase_add_test(tcase, queue_and_buffer_of_other_devices_are_told_apart);
    tcase_add_test(tcase, measure_overlap_gives_times);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_trace.c - the clocks of a timeline, which are arithmetic, and its records.
 */
#include <math.h>
#include <string.h>

#include "device/cl.h"
#include "device/trace.h"
#include "support/opened.h"

/* A clock that shows 100 s less and runs 1 % fast is looked at; looks take 20 us or 2 ms. */
static double
other(double host)
{
    return 1.01 * (host - 1000) + 900;
}

static yki_sight
sight(double host)
{
    yki_sight s = {0};

    for (int i = 0; i < 16; i++) {
        double before = host + i * 1e-3, wait = i % 4 ? 2e-3 : 2e-5;

        yki_sight_take(&s, before, other(before + 0.7 * wait), before + wait);
    }
    return s;
}

START_TEST(sights_find_a_clock)
{
    yki_sight sights[2] = {0};
    double worst = 0;

    sights[0] = sight(1000);
    ck_assert(sights[0].low <= 100 && sights[0].high >= 100 - 2e-4);
    ck_assert(sights[0].high - sights[0].low < 3e-4);
    ck_assert(yki_sight_is_good(&sights[0], 16e-3));
    ck_assert_double_eq_tol(yki_sight_convert(sights, other(1000)), 1000, 3e-4);

    /* With a second look it is known in between, though it has gone wrong by 0.6 s. */
    sights[1] = sight(1060);
    for (int i = 0; i <= 60; i++)
        worst = fmax(worst, fabs(yki_sight_convert(sights, other(1000 + i)) - (1000 + i)));
    ck_assert_msg(worst < 0.01, "%g s", worst);
}
END_TEST

START_TEST(a_clock_that_stands_still_is_found_out)
{
    yki_sight s = {0};

    ck_assert(!yki_sight_is_good(&s, 1)); /* nobody has looked */
    for (int i = 0; i < 16; i++)
        yki_sight_take(&s, 50 + i * 1e-3, 3e-9, 50 + i * 1e-3 + 2e-5);
    ck_assert(!yki_sight_is_good(&s, 16e-3));
}
END_TEST

START_TEST(what_finds_no_room_is_counted)
{
    yki_trace *trace;
    yki_track *track;

    ASSERT_OK(yki_trace_create(3, &trace));
    ASSERT_OK(yki_trace_add_track(trace, YKI_TRACK_HOST, "host", &track));
    yki_span_end(track, yki_span_begin(NULL), "work", 0); /* began before the trace */
    yki_track_flow(track, 1, 's');                        /* there is no record to begin at */
    for (int i = 0; i < 5; i++)
        yki_span_end(track, yki_span_begin(track), "work", i);
    yki_trace_count(trace, 1, "loss", "loss", (double)NAN);
    yki_trace_count(trace, 1, "loss", "loss", 2);
    ck_assert_uint_eq(track->count, 3);
    ck_assert_int_eq(track->records[2].number, 2);
    ck_assert(track->records[2].end >= track->records[2].begin && track->records[0].begin > 0);
    ck_assert_uint_eq(trace->sample_count, 0);
    ck_assert_uint_eq(trace->flow_count, 0);
    ck_assert_uint_eq(atomic_load(&trace->lost), 3);
    yki_trace_destroy(trace);
    yki_span_end(NULL, yki_span_begin(NULL), "nothing", 0);
    yki_track_flow(NULL, 1, 's');
}
END_TEST

/* Commands are recorded while the queue is traced, not before and not behind that; their times lie
 * between those of the host. */
START_TEST(a_queue_is_recorded)
{
    yki_queue *queue;
    yki_buffer *buffer;
    yki_trace *trace;
    yki_event done;
    uint64_t times[2];
    char data[4096];

    memset(data, 0, sizeof data);
    ASSERT_OK(yki_queue_create(devices.device[0], false, &queue));
    ASSERT_OK(yki_buffer_create(devices.device[0], sizeof data, 0, "a buffer", &buffer));
    ASSERT_OK(yki_queue_write(queue, buffer, 0, sizeof data, data, YKI_NO_WAIT, NULL));
    ck_assert_ptr_null(yki_queue_track(queue));
    ASSERT_OK(yki_trace_create(100, &trace));
    ASSERT_OK(yki_queue_trace(queue, trace, "test"));
    ck_assert_uint_eq(yki_queue_track(queue)->count, 0);
    for (int i = 0; i < 3; i++) {
        double before = yki_now(), after, slack = 1e-6;
        yki_track *track = yki_queue_track(queue);
        yki_trace_record *record;
        double begin, end;

        ASSERT_OK(yki_queue_write(queue, buffer, 0, sizeof data, data, YKI_NO_WAIT, NULL));
        ASSERT_OK(yki_queue_marker(queue, YKI_NO_WAIT, NULL)); /* nobody wants to see it */
        ASSERT_OK(yki_queue_finish(queue));
        after = yki_now();
        ck_assert_uint_eq(track->count, (size_t)i + 1);
        record = &track->records[i];
        ck_assert_str_eq(record->name, "a buffer");
        ck_assert_uint_eq(record->bytes, sizeof data);
        ck_assert(record->enqueued >= before && record->enqueued <= after);
        begin =
            track->clock ? yki_sight_convert(track->clock->sights, record->begin) : record->begin;
        end = track->clock ? yki_sight_convert(track->clock->sights, record->end) : record->end;
        if (track->clock)
            slack += track->clock->sights[0].high - track->clock->sights[0].low;
        ck_assert(end >= begin);
        ck_assert_msg(begin >= before - slack && end <= after + slack,
                      "%.9f to %.9f is not in %.9f to %.9f (%g)", begin, end, before, after, slack);
    }
    ASSERT_OK(yki_queue_untrace(queue));
    ck_assert_ptr_null(yki_queue_track(queue));
    ASSERT_OK(yki_queue_write(queue, buffer, 0, sizeof data, data, YKI_NO_WAIT, &done));
    ASSERT_OK(yki_event_wait(&done));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "was not made to be timed",
                   yki_event_times(&done, &times[0], &times[1]));
    yki_event_release(&done);
    ck_assert_uint_eq(trace->tracks[0]->count, 3);
    ck_assert_ptr_null(trace->tracks[0]->records[2].seen);
    yki_trace_destroy(trace);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

static void
destroy_buffers(void *user)
{
    const atomic_bool *over = user;
    yki_buffer *buffer;

    while (!atomic_load(over)) {
        ASSERT_OK(yki_buffer_create(devices.device[0], 4096, 0, "a buffer", &buffer));
        yki_buffer_destroy(buffer);
    }
}

/* The end of a buffer waits for all queues of its device, in whatever thread. */
START_TEST(buffers_end_while_a_queue_is_traced)
{
    atomic_bool over = false;
    yki_thread *thread;
    yki_queue *queue;
    yki_trace *trace;

    if (devices.slow)
        TEST_NOT_HERE("Oclgrind aborts where two threads use one context");
    ASSERT_OK(yki_queue_create(devices.device[0], false, &queue));
    ASSERT_OK(yki_thread_start(destroy_buffers, &over, "of a test", &thread));
    for (int i = 0; i < 100; i++) {
        ASSERT_OK(yki_trace_create(100, &trace));
        ASSERT_OK(yki_queue_trace(queue, trace, "test"));
        ASSERT_OK(yki_queue_untrace(queue));
        yki_trace_destroy(trace);
    }
    atomic_store(&over, true);
    yki_thread_join(thread);
    yki_queue_destroy(queue);
}
END_TEST

/* What a library enqueues is one command, from the end of the one before it to its own. */
START_TEST(calls_of_libraries_are_recorded)
{
    const uint32_t zero = 0;
    yki_queue *queue;
    yki_buffer *buffer;
    yki_trace *trace;
    yki_track *track;
    cl_command_queue raw;
    double begin;

    ASSERT_OK(yki_queue_create(devices.device[0], false, &queue));
    ASSERT_OK(yki_queue_trace_call(queue, 0, "nobody looks"));
    ASSERT_OK(yki_buffer_create(devices.device[0], 1 << 20, 0, "a buffer", &buffer));
    ASSERT_OK(yki_trace_create(100, &trace));
    ASSERT_OK(yki_queue_trace(queue, trace, "test"));
    track = yki_queue_track(queue);
    raw = yki_queue_raw(queue);
    ASSERT_OK(yki_queue_fill(queue, buffer, 0, 1 << 20, 0, YKI_NO_WAIT, NULL));
    begin = yki_span_begin(track);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(clEnqueueFillBuffer(raw, yki_buffer_raw(buffer), &zero, sizeof zero, 0,
                                             1 << 20, 0, NULL, NULL),
                         CL_SUCCESS);
    ASSERT_OK(yki_queue_trace_call(queue, begin, "a library"));
    ASSERT_OK(yki_queue_fill(queue, buffer, 0, 1 << 20, 0, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    ck_assert_uint_eq(track->count, 3);
    ck_assert_str_eq(track->records[1].verb, "running library");
    ck_assert_str_eq(track->records[1].name, "a library");
    ck_assert_double_eq(track->records[1].enqueued, begin);
    ck_assert_double_le(track->records[1].begin, track->records[0].end);
    ck_assert_double_ge(track->records[1].end, track->records[0].end);
    ck_assert_double_le(track->records[1].end, track->records[2].end);
    ASSERT_OK(yki_queue_untrace(queue));
    yki_trace_destroy(trace);
    yki_buffer_destroy(buffer);
    yki_queue_destroy(queue);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("trace");
    TCase *tc = test_case(suite, "arithmetic");

    tcase_add_test(tc, sights_find_a_clock);
    tcase_add_test(tc, a_clock_that_stands_still_is_found_out);
    tcase_add_test(tc, what_finds_no_room_is_counted);
    tc = test_case(suite, "queues");
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    tcase_add_test(tc, a_queue_is_recorded);
    tcase_add_test(tc, calls_of_libraries_are_recorded);
    tcase_add_test(tc, buffers_end_while_a_queue_is_traced);
    return suite;
}

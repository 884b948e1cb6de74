/* SPDX-License-Identifier: Apache-2.0
 *
 * check_prefetch.c - samples that are read ahead: the same bits and errors as without, in
 * time for the step that wants them, at most two batches early, and nothing after the
 * end. What overlaps is counted, not timed: a step that lasts until the thread has got
 * somewhere ends only where there is a thread.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "data/dataset.h"
#include "support/support.h"

enum { COUNT = 97, WIDTH = 5, BATCH = 10 };

/* A function that fills, as slow as wanted. */
typedef struct source {
    int64_t broken; /* sample that cannot be had; -1: none */
    long pause;     /* nanoseconds a sample takes */
    pthread_t caller;
    atomic_int calls, inside, collisions, calls_of_caller, failures;
    atomic_int gate; /* samples that may be read before they wait; 0: all */
} source;

static void
rest(long nanoseconds)
{
    nanosleep(&(struct timespec){0, nanoseconds}, NULL);
}

static yoke_status
fill(void *user, int64_t index, size_t field, void *out)
{
    source *s = user;
    int32_t *values = out;
    int call;

    if (atomic_fetch_add(&s->inside, 1) != 0)
        atomic_fetch_add(&s->collisions, 1);
    call = atomic_fetch_add(&s->calls, 1);
    if (pthread_equal(pthread_self(), s->caller))
        atomic_fetch_add(&s->calls_of_caller, 1);
    while (atomic_load(&s->gate) && call >= atomic_load(&s->gate))
        rest(100000);
    if (s->pause)
        rest(s->pause);
    for (int i = 0; i < (field ? 1 : WIDTH); i++)
        values[i] = (int32_t)(index * 1000 + (int64_t)field * 100 + i);
    atomic_fetch_sub(&s->inside, 1);
    if (index == s->broken && field == 1) {
        atomic_fetch_add(&s->failures, 1);
        return YOKE_ERROR_IO;
    }
    return YOKE_OK;
}

static yoke_dataset *
dataset_of(source *s)
{
    const yoke_field fields[] = {{"x", YOKE_I32, yoke_shape(WIDTH), NULL, 0},
                                 {"label", YOKE_I32, yoke_shape(), NULL, 0}};
    yoke_dataset *dataset;

    s->caller = pthread_self();
    ASSERT_OK(yoke_dataset_create(COUNT, fields, 2,
                                  &(yoke_dataset_options){.fill = fill, .user = s}, &dataset));
    return dataset;
}

typedef struct reader {
    source source;
    yoke_dataset *dataset;
    yki_order order;
    yki_prefetch *ahead;
} reader;

static void
open_reader(reader *r)
{
    static const bool fields[YKI_MAX_FIELDS] = {true, true};

    r->dataset = dataset_of(&r->source);
    r->order = (yki_order){.count = COUNT, .seed = 5, .epoch = 2};
    ASSERT_OK(yki_prefetch_create(r->dataset, &r->order, fields, &r->ahead));
}

static void
close_reader(reader *r)
{
    yki_prefetch_destroy(r->ahead);
    yoke_dataset_destroy(r->dataset);
    ck_assert_int_eq(atomic_load(&r->source.collisions), 0);
}

/* Both fields of `count` samples; what is read is right. */
static yoke_status
read_some(reader *r, int64_t position, int64_t count)
{
    int64_t indices[COUNT];
    int32_t values[COUNT * WIDTH + 1];

    for (int64_t i = 0; i < count; i++)
        indices[i] = yki_order_at(&r->order, position + i);
    for (size_t f = 0; f < 2; f++) {
        int width = f ? 1 : WIDTH;

        memset(values, 0x55, sizeof values);
        YKI_TRY(yki_prefetch_read(r->ahead, position, f, indices, (size_t)count, values));
        for (int64_t i = 0; i < count; i++)
            for (int k = 0; k < width; k++)
                ck_assert_int_eq(values[i * width + k], indices[i] * 1000 + (int)f * 100 + k);
        ck_assert_int_eq(values[count * width], 0x55555555); /* not more */
    }
    return YOKE_OK;
}

/* Until so many samples were begun; false: that takes longer than any machine is slow. */
static bool
wait_for_calls(const source *s, int calls)
{
    for (int i = 0; i < 20000 && atomic_load(&s->calls) < calls; i++)
        rest(1000000);
    return atomic_load(&s->calls) >= calls;
}

/* ---- what is read ---- */

/* An epoch whose steps were foreseen, by one member and by three: all of it comes from the thread,
 * each sample once. */
START_TEST(foreseen)
{
    for (int members = 1; members <= 3; members += 2) {
        reader r = {.source = {.broken = -1}};

        open_reader(&r);
        for (int64_t p = 0; p < COUNT; p += BATCH)
            ASSERT_OK(yki_prefetch_ask(r.ahead, p, YKI_MIN((int64_t)BATCH, COUNT - p)));
        for (int64_t p = 0; p < COUNT; p += BATCH) {
            int64_t n = YKI_MIN((int64_t)BATCH, COUNT - p);

            for (int m = 0; m < members; m++)
                ASSERT_OK(
                    read_some(&r, p + n * m / members, n * (m + 1) / members - n * m / members));
        }
        ck_assert_int_eq(atomic_load(&r.source.calls), 2 * COUNT);
        ck_assert_int_eq(atomic_load(&r.source.calls_of_caller), 0);
        close_reader(&r);
    }
}
END_TEST

/* Members that read the same samples, as those of a graph with places do. */
START_TEST(read_twice)
{
    reader r = {.source = {.broken = -1}};

    open_reader(&r);
    ASSERT_OK(yki_prefetch_ask(r.ahead, 0, BATCH));
    ASSERT_OK(yki_prefetch_ask(r.ahead, BATCH, BATCH));
    for (int i = 0; i < 4; i++)
        ASSERT_OK(read_some(&r, i / 2 * BATCH, BATCH));
    ck_assert_int_eq(atomic_load(&r.source.calls), 4 * BATCH);
    close_reader(&r);
}
END_TEST

/* What is wanted is not what was asked for: less, more, earlier, later, nothing. */
START_TEST(guessed_wrong)
{
    uint32_t state = 1;

    for (int round = 0; round < 300; round++) {
        reader r = {.source = {.broken = -1}};

        open_reader(&r);
        for (int64_t asked = 0, wanted = 0; wanted < COUNT;) {
            int64_t n;

            state = state * 1664525 + 1013904223;
            n = state >> 28;
            if (state >> 27 & 1 && asked < COUNT) {
                asked = YKI_MAX(asked, wanted) + (state >> 20 & 3);
                ASSERT_OK(yki_prefetch_ask(r.ahead, YKI_MIN(asked, COUNT - 1),
                                           YKI_MIN(n, COUNT - YKI_MIN(asked, COUNT - 1))));
                asked += n;
            } else {
                n = YKI_MIN(n, COUNT - wanted);
                ASSERT_OK(read_some(&r, wanted, n));
                wanted += n + (state >> 20 & 7 ? 0 : 3);
            }
        }
        close_reader(&r);
    }
}
END_TEST

/* A field that stays on the device is not read. */
START_TEST(one_field)
{
    static const bool fields[YKI_MAX_FIELDS] = {false, true};
    reader r = {.source = {.broken = -1}};

    r.dataset = dataset_of(&r.source);
    r.order = (yki_order){.count = COUNT, .sequential = true};
    ASSERT_OK(yki_prefetch_create(r.dataset, &r.order, fields, &r.ahead));
    ASSERT_OK(yki_prefetch_ask(r.ahead, 0, BATCH));
    ck_assert(wait_for_calls(&r.source, BATCH));
    ASSERT_OK(read_some(&r, 0, BATCH));
    ck_assert_int_eq(atomic_load(&r.source.calls), 2 * BATCH);
    ck_assert_int_eq(atomic_load(&r.source.calls_of_caller), BATCH);
    close_reader(&r);
}
END_TEST

/* ---- when ---- */

/* While a step lasts the next batches are read: two, and no more before one is used. */
START_TEST(two_batches_early)
{
    reader r = {.source = {.broken = -1}};

    open_reader(&r);
    for (int64_t p = 0; p + BATCH <= COUNT; p += BATCH)
        ASSERT_OK(yki_prefetch_ask(r.ahead, p, BATCH));
    for (int step = 0; step < 5; step++) {
        ck_assert(wait_for_calls(&r.source, (step + 2) * 2 * BATCH)); /* this is the step */
        rest(3000000);
        ck_assert_int_eq(atomic_load(&r.source.calls), (step + 2) * 2 * BATCH);
        ASSERT_OK(read_some(&r, step * BATCH, BATCH));
        ASSERT_OK(read_some(&r, (step + 1) * BATCH, 0)); /* the first one is through */
    }
    close_reader(&r);
}
END_TEST

/* A batch is given out as soon as its rows are there, whatever becomes of the rest of it. */
START_TEST(no_longer_than_needed)
{
    reader r = {.source = {.broken = -1, .gate = 4}};
    int64_t indices[4];
    int32_t values[4 * WIDTH];

    open_reader(&r);
    ASSERT_OK(yki_prefetch_ask(r.ahead, 0, BATCH));
    for (int64_t i = 0; i < 4; i++)
        indices[i] = yki_order_at(&r.order, i);
    ASSERT_OK(yki_prefetch_read(r.ahead, 0, 0, indices, 4, values));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(values[i * WIDTH], indices[i] * 1000);
    atomic_store(&r.source.gate, 0);
    ASSERT_OK(read_some(&r, 0, BATCH));
    close_reader(&r);
}
END_TEST

/* ---- ends ---- */

/* The error comes with the sample that has it, once; those before it, and other parts of its batch,
 * are fine. */
START_TEST(errors)
{
    enum { AT = 4 * BATCH + 3 };
    reader r = {.source = {.broken = -1}};
    char name[64];
    int own;

    open_reader(&r);
    r.source.broken = yki_order_at(&r.order, AT);
    for (int64_t p = 0; p + BATCH <= COUNT; p += BATCH)
        ASSERT_OK(yki_prefetch_ask(r.ahead, p, BATCH));
    for (int step = 0; step < 4; step++)
        ASSERT_OK(read_some(&r, step * BATCH, BATCH));
    ASSERT_OK(read_some(&r, 4 * BATCH, 3));
    ASSERT_STATUS(YOKE_ERROR_IO, read_some(&r, AT - 2, 4));
    snprintf(name, sizeof name, "sample %lld, field 1", (long long)r.source.broken);
    ASSERT_DETAIL(name);
    ck_assert_int_eq(atomic_load(&r.source.failures), 1);
    ck_assert_int_eq(atomic_load(&r.source.calls_of_caller), 0);
    ASSERT_OK(read_some(&r, AT + 1, 2));
    /* Behind it nothing is read ahead. */
    own = atomic_load(&r.source.calls_of_caller);
    ASSERT_OK(read_some(&r, 5 * BATCH, BATCH));
    ck_assert_int_eq(atomic_load(&r.source.calls_of_caller), own + 2 * BATCH);
    close_reader(&r);
}
END_TEST

/* In the middle of a batch, and of a sample: nobody waits for the rest of it. */
START_TEST(destroyed_early)
{
    for (int i = 0; i < 5; i++) {
        reader r = {.source = {.broken = -1, .pause = 5000000}};

        open_reader(&r);
        ASSERT_OK(yki_prefetch_ask(r.ahead, 0, COUNT));
        ck_assert(wait_for_calls(&r.source, i));
        yki_prefetch_destroy(r.ahead);
        r.ahead = NULL;
        ck_assert_int_eq(atomic_load(&r.source.inside), 0);
        ck_assert_int_lt(atomic_load(&r.source.calls), 2 * COUNT);
        close_reader(&r);
    }
}
END_TEST

/* One at a time, also when the caller reads while the thread does. */
START_TEST(one_at_a_time)
{
    reader r = {.source = {.broken = -1, .pause = 100000}};

    open_reader(&r);
    ASSERT_OK(yki_prefetch_ask(r.ahead, 3 * BATCH, 2 * BATCH));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(read_some(&r, i * BATCH, BATCH));
    ck_assert(wait_for_calls(&r.source, 6 * BATCH + 1)); /* the thread has begun */
    ASSERT_OK(read_some(&r, 3 * BATCH, 2 * BATCH));
    ck_assert_int_eq(atomic_load(&r.source.calls), 10 * BATCH);
    close_reader(&r);
}
END_TEST

/* ---- which datasets ---- */

START_TEST(worth_it)
{
    static const int32_t labels[COUNT];
    const yoke_field field = {"label", YOKE_I32, yoke_shape(), labels, 0};
    yoke_dataset *memory, *filled, *refused, *part, *rest_of;
    source s = {.broken = -1};

    ASSERT_OK(yoke_dataset_create(COUNT, &field, 1, NULL, &memory));
    ck_assert(!memory->ahead);
    filled = dataset_of(&s);
    ck_assert(filled->ahead);
    ASSERT_OK(yoke_dataset_create(
        COUNT, &field, 1, &(yoke_dataset_options){.fill = fill, .user = &s, .no_ahead = true},
        &refused));
    ck_assert(!refused->ahead);
    ASSERT_OK(yoke_dataset_split(filled, 0.5, 1, &part, &rest_of));
    ck_assert(part->ahead && rest_of->ahead);
    yoke_dataset_destroy(part);
    yoke_dataset_destroy(rest_of);
    ASSERT_OK(yoke_dataset_split(refused, 0.5, 1, &part, &rest_of));
    ck_assert(!part->ahead && !rest_of->ahead);
    yoke_dataset_destroy(part);
    yoke_dataset_destroy(rest_of);
    yoke_dataset_destroy(memory);
    yoke_dataset_destroy(filled);
    yoke_dataset_destroy(refused);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("ahead");
    TCase *c = test_case(suite, "what");

    tcase_add_test(c, foreseen);
    tcase_add_test(c, read_twice);
    tcase_add_test(c, guessed_wrong);
    tcase_add_test(c, one_field);
    c = test_case(suite, "when");
    tcase_add_test(c, two_batches_early);
    tcase_add_test(c, no_longer_than_needed);
    c = test_case(suite, "ends");
    tcase_add_test(c, errors);
    tcase_add_test(c, destroyed_early);
    tcase_add_test(c, one_at_a_time);
    c = test_case(suite, "datasets");
    tcase_add_test(c, worth_it);
    return suite;
}

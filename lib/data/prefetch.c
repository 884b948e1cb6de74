/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch.c - a thread that reads the samples of an epoch before they are wanted. So slow files
 * and functions take their time while devices compute, not in between.
 *
 * The trainer announces which positions of the epoch's order it will want, as ranges in the order
 * of their use. The thread reads them, as many at once as the dataset likes, into a ring of two
 * batches in host memory, and yki_prefetch_read copies from there. Samples that were not announced,
 * or differently from what is wanted then (shares follow the speed), are read on the spot. So a
 * wrong guess costs time and changes nothing. An error is kept until its sample is wanted, and the
 * thread reads nothing after it.
 *
 * Knows no device. One thread outside asks and reads; the other is in this file.
 */
#include <string.h>

#include "data/dataset.h"

enum { RING = 2, ALIGN = 64, MOST_AT_ONCE = 256 };

typedef struct range {
    int64_t first, end; /* positions in the order */
} range;

typedef struct batch {
    range of;
    unsigned char *memory;
    size_t size;
    unsigned char *rows[YKI_MAX_FIELDS];
    int64_t ready[YKI_MAX_FIELDS]; /* rows that are read */
    bool done;                     /* the thread is finished with it */
    bool dropped;                  /* nobody wants the rows any more */
    int failed;                    /* field whose next row failed; -1: none */
} batch;

struct yki_prefetch {
    yoke_dataset *dataset; /* retained */
    yki_order order;
    bool fields[YKI_MAX_FIELDS];
    pthread_mutex_t lock; /* for all that follows, except rows that are not ready */
    pthread_cond_t changed;
    range *asked; /* ranges not begun, in the order of their use */
    size_t asked_count, asked_capacity;
    batch ring[RING];
    size_t oldest, begun; /* batches in the ring: the first of them, and how many */
    bool stop;
    yki_track *track;   /* of a timeline; NULL: none is recorded */
    yoke_status status; /* of the sample that failed */
    char *detail;
    yki_thread *thread;
};

/* Removes and returns the first range that is not begun. */
static range
pop(yki_prefetch *a)
{
    range first = a->asked[0];

    memmove(a->asked, a->asked + 1, --a->asked_count * sizeof *a->asked);
    return first;
}

/* ---- the thread ---- */

/* Makes memory for the rows of a range. If it fails, rows are read when they are wanted. */
static bool
make_room(const yki_prefetch *a, batch *b)
{
    uint64_t size = 0, count = (uint64_t)(b->of.end - b->of.first);
    uint64_t offsets[YKI_MAX_FIELDS];

    for (size_t f = 0; f < a->dataset->field_count; f++) {
        offsets[f] = size;
        if (a->fields[f])
            size += (count * yki_field_size(&a->dataset->fields[f]) + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (size > b->size) {
        yki_free(b->memory);
        b->size = 0;
        b->memory = yki_alloc((size_t)size, 1, "samples that are read ahead");
        if (!b->memory)
            return false;
        b->size = (size_t)size;
    }
    for (size_t f = 0; f < a->dataset->field_count; f++)
        b->rows[f] = b->memory + offsets[f];
    return true;
}

/* Reads `count` rows; returns whether to go on. If one of several fails, all are read again one by
 * one, so those before it are there. */
static bool
read_rows(yki_prefetch *a, batch *b, size_t field, int64_t row, int64_t count)
{
    size_t size = yki_field_size(&a->dataset->fields[field]);
    int64_t indices[MOST_AT_ONCE];
    yoke_status status;
    bool more = true;

    for (int64_t i = 0; i < count; i++)
        indices[i] = yki_order_at(&a->order, b->of.first + row + i);
    status = yki_dataset_read(a->dataset, field, indices, (size_t)count,
                              b->rows[field] + (size_t)row * size);
    if (status != YOKE_OK && count > 1) {
        for (int64_t i = 0; i < count && more; i++)
            more = read_rows(a, b, field, row + i, 1);
        return more;
    }
    pthread_mutex_lock(&a->lock);
    if (status == YOKE_OK) {
        b->ready[field] = row + count;
    } else {
        a->status = status;
        a->detail = yki_strdup(yoke_last_error(), "an error");
        b->failed = (int)field;
    }
    more = status == YOKE_OK && !a->stop && !b->dropped;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return more;
}

static void
read_batch(yki_prefetch *a, batch *b)
{
    bool more = make_room(a, b);

    const int64_t at_once = (int64_t)YKI_MIN(a->dataset->ahead, (size_t)MOST_AT_ONCE);

    for (size_t f = 0; f < a->dataset->field_count && more; f++)
        for (int64_t row = 0; a->fields[f] && row < b->of.end - b->of.first && more; row += at_once)
            more = read_rows(a, b, f, row, YKI_MIN(at_once, b->of.end - b->of.first - row));
}

/* Waits for a range and for room in the ring, and begins a batch; NULL: the thread must stop. */
static batch *
next_batch(yki_prefetch *a)
{
    batch *b;

    while (!a->stop && (a->asked_count == 0 || a->begun == RING || a->status != YOKE_OK))
        pthread_cond_wait(&a->changed, &a->lock);
    if (a->stop)
        return NULL;
    b = &a->ring[(a->oldest + a->begun++) % RING];
    b->of = pop(a);
    b->done = b->dropped = false;
    b->failed = -1;
    memset(b->ready, 0, sizeof b->ready);
    pthread_cond_broadcast(&a->changed);
    return b;
}

/* Bytes of a batch that were read. */
static uint64_t
bytes_of(const yki_prefetch *a, const batch *b)
{
    uint64_t bytes = 0;

    for (size_t f = 0; f < a->dataset->field_count; f++)
        bytes += (uint64_t)b->ready[f] * yki_field_size(&a->dataset->fields[f]);
    return bytes;
}

static void
run(void *argument)
{
    yki_prefetch *a = argument;
    batch *b;

    pthread_mutex_lock(&a->lock);
    while ((b = next_batch(a))) {
        double begin = yki_span_begin(a->track);

        pthread_mutex_unlock(&a->lock);
        read_batch(a, b);
        pthread_mutex_lock(&a->lock);
        yki_span_end_moved(a->track, begin, "read ahead", -1, bytes_of(a, b));
        b->done = true;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- who wants them ---- */

yoke_status
yki_prefetch_create(yoke_dataset *dataset, const yki_order *order, const bool *fields,
                    yki_prefetch **out)
{
    yki_prefetch *a = yki_alloc(1, sizeof *a, "reading ahead");
    yoke_status status;

    if (!a)
        return YOKE_ERROR_OUT_OF_MEMORY;
    a->dataset = yki_dataset_retain(dataset);
    a->order = *order;
    memcpy(a->fields, fields, sizeof a->fields);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    status = yki_thread_start(run, a, "that reads ahead", &a->thread);
    if (status != YOKE_OK) {
        yki_prefetch_destroy(a);
        return status;
    }
    *out = a;
    return YOKE_OK;
}

void
yki_prefetch_trace(yki_prefetch *a, yki_track *track)
{
    pthread_mutex_lock(&a->lock);
    a->track = track;
    pthread_mutex_unlock(&a->lock);
}

void
yki_prefetch_destroy(yki_prefetch *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    yki_thread_join(a->thread);
    for (size_t i = 0; i < RING; i++)
        yki_free(a->ring[i].memory);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    yoke_dataset_destroy(a->dataset);
    yki_free(a->asked);
    yki_free(a->detail);
    yki_free(a);
}

yoke_status
yki_prefetch_ask(yki_prefetch *a, int64_t first, int64_t count)
{
    yoke_status status = YOKE_OK;

    if (count < 1)
        return YOKE_OK;
    pthread_mutex_lock(&a->lock);
    status = yki_grow((void **)&a->asked, &a->asked_capacity, a->asked_count + 1, sizeof *a->asked,
                      "samples to read ahead");
    if (status == YOKE_OK) {
        a->asked[a->asked_count++] = (range){first, first + count};
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return status;
}

/* Waits for and returns the oldest batch that ends after `position`; NULL: no range that was asked
 * for begins before `end`. Batches that end before `position` are dropped. */
static batch *
find_batch(yki_prefetch *a, int64_t position, int64_t end)
{
    for (;;) {
        batch *b = a->begun ? &a->ring[a->oldest] : NULL;

        if (b && b->of.end > position)
            return b->of.first < end ? b : NULL;
        if (b && b->done) {
            a->oldest = (a->oldest + 1) % RING;
            a->begun--;
            pthread_cond_broadcast(&a->changed);
            continue;
        }
        if (!b && a->asked_count && a->asked[0].end <= position) {
            pop(a);
            continue;
        }
        if (b)
            b->dropped = true;
        else if (a->asked_count == 0 || a->asked[0].first >= end || a->status != YOKE_OK)
            return NULL;
        pthread_cond_wait(&a->changed, &a->lock);
    }
}

/* Waits for rows [from, to) of the batch; those up to `*got` are there. Returns an error if it was
 * at one of these rows. */
static yoke_status
wait_for_rows(yki_prefetch *a, const batch *b, size_t field, int64_t from, int64_t to, int64_t *got)
{
    while (b->ready[field] < to && !b->done)
        pthread_cond_wait(&a->changed, &a->lock);
    *got = YKI_MIN(b->ready[field], to);
    if (*got < from) {
        *got = from; /* the failed row is not wanted here */
        return YOKE_OK;
    }
    if (*got == to || b->failed != (int)field)
        return YOKE_OK;
    if (a->detail)
        yki_set_detail(a->detail);
    return a->status;
}

yoke_status
yki_prefetch_read(yki_prefetch *a, int64_t position, size_t field, const int64_t *indices,
                  size_t count, void *out)
{
    const int64_t end = position + (int64_t)count;
    size_t size = yki_field_size(&a->dataset->fields[field]);
    unsigned char *rows = out;
    int64_t from = end, to = end; /* positions that the batch holds */
    batch *b = NULL;
    yoke_status status = YOKE_OK;

    pthread_mutex_lock(&a->lock);
    if (a->fields[field])
        b = find_batch(a, position, end);
    if (b) {
        from = YKI_MAX(position, b->of.first);
        status = wait_for_rows(a, b, field, from - b->of.first,
                               YKI_MIN(end, b->of.end) - b->of.first, &to);
        to += b->of.first;
    }
    pthread_mutex_unlock(&a->lock);
    YKI_TRY(yki_dataset_read(a->dataset, field, indices, (size_t)(from - position), rows));
    YKI_TRY(status);
    if (b)
        memcpy(rows + (size_t)(from - position) * size,
               b->rows[field] + (size_t)(from - b->of.first) * size, (size_t)(to - from) * size);
    return yki_dataset_read(a->dataset, field, indices + (to - position), (size_t)(end - to),
                            rows + (size_t)(to - position) * size);
}

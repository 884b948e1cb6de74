/* SPDX-License-Identifier: Apache-2.0
 *
 * link.c - moves memory from one logical device to another.
 *
 * Idea: devices of one memory (memory.c) share buffers, so the receiver enqueues the copy and
 * nothing is staged. Devices of two memories cannot wait for one another, so the host
 * waits between them. If one side's memory is the host's, the other side reads or
 * writes it in place. If neither is, bytes go through two pieces of pinned memory,
 * and the read of one piece overlaps the write of the piece before.
 *
 * A link has no thread of its own: the caller's thread waits.
 */
#include <string.h>

#include "device/runtime.h"

enum {
    PIECE = 1 << 20, /* bytes: large enough to hide the host's wake-up, small enough to overlap */
    PIECES = 2
};

struct yki_link {
    yoke_device *from, *to; /* retained */
    yki_link_kind kind;
    uint64_t piece;
    yki_buffer *stage[PIECES]; /* pinned; NULL if one side's memory is the host's */
    cl_event sent[PIECES];     /* of a flushed write that may still read stage[i]; or NULL */
};

static yoke_status
make_stages(yki_link *link, uint64_t max_size)
{
    link->piece = YKI_MIN(YKI_MAX(max_size, 1), PIECE);
    for (int i = 0; i < PIECES; i++)
        YKI_TRY(yki_buffer_create(link->from, link->piece, YKI_BUFFER_PINNED, "a link's staging",
                                  &link->stage[i]));
    return YOKE_OK;
}

yoke_status
yki_link_create(yoke_device *from, yoke_device *to, uint64_t max_size, yki_link **link)
{
    yki_link *made = yki_alloc(1, sizeof *made, "a link");
    yoke_status status;

    if (!made)
        return YOKE_ERROR_OUT_OF_MEMORY;
    made->from = yki_device_retain(from);
    made->to = yki_device_retain(to);
    made->kind = yki_devices_share(from, to) ? YKI_LINK_SHARED : YKI_LINK_STAGED;
    if (made->kind == YKI_LINK_STAGED && !from->traits.direct_host && !to->traits.direct_host) {
        status = make_stages(made, max_size);
        if (status != YOKE_OK) {
            yki_link_destroy(made);
            return status;
        }
    }
    *link = made;
    return YOKE_OK;
}

/* Waits until a piece may be overwritten. The event was flushed when it was made. Its queue keeps
 * any error; the queue may no longer exist, so the wait is OpenCL's. */
static void
wait_sent(yki_link *link, int piece)
{
    if (!link->sent[piece])
        return;
    (void)clWaitForEvents(1, &link->sent[piece]);
    clReleaseEvent(link->sent[piece]);
    link->sent[piece] = NULL;
}

void
yki_link_destroy(yki_link *link)
{
    if (!link)
        return;
    for (int i = 0; i < PIECES; i++) {
        wait_sent(link, i);
        yki_buffer_destroy(link->stage[i]);
    }
    yki_device_release(link->to);
    yki_device_release(link->from);
    yki_free(link);
}

yki_link_kind
yki_link_get_kind(const yki_link *link)
{
    return link->kind;
}

/* Waits on the host for all that is in the queue now. */
static yoke_status
drain(yki_queue *queue)
{
    yki_event newest;
    yoke_status status;

    YKI_TRY(yki_queue_newest(queue, &newest));
    status = yki_event_wait(&newest);
    yki_event_release(&newest);
    return status;
}

/* For one context: the receiver copies, after all that the sender has in its queue. */
static yoke_status
copy_shared(yki_queue *from_queue, yki_buffer *from, uint64_t from_offset, yki_queue *to_queue,
            yki_buffer *to, uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done)
{
    yki_event newest;
    yoke_status status;

    YKI_TRY(yki_queue_newest(from_queue, &newest));
    status = from_queue == to_queue || !newest.cl
                 ? YOKE_OK
                 : yki_queue_marker(to_queue, (yki_wait){&newest, 1}, NULL);
    yki_event_release(&newest);
    YKI_TRY(status);
    return yki_queue_copy(to_queue, from, from_offset, to, to_offset, size, wait, done);
}

/* Waits on the host for all of `wait`. */
static yoke_status
wait_all(yki_wait wait)
{
    for (size_t i = 0; i < wait.count; i++)
        if (wait.events[i].cl)
            YKI_TRY(yki_queue_flush(wait.events[i].queue));
    for (size_t i = 0; i < wait.count; i++)
        YKI_TRY(yki_event_wait(&wait.events[i]));
    return YOKE_OK;
}

/* For a source in host memory: the receiver reads it there. */
static yoke_status
copy_from_host(yki_queue *from_queue, yki_buffer *from, uint64_t from_offset, yki_queue *to_queue,
               yki_buffer *to, uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done)
{
    const char *data = (const char *)from->host + from_offset;

    YKI_TRY(drain(from_queue));
    if (!to->pinned)
        return yki_queue_write(to_queue, to, to_offset, size, data, wait, done);
    /* No command may write pinned memory: the host copies, after all that both queues hold. */
    YKI_TRY(drain(to_queue));
    YKI_TRY(wait_all(wait));
    memcpy((char *)to->host + to_offset, data, size);
    return done ? yki_queue_marker(to_queue, YKI_NO_WAIT, done) : YOKE_OK;
}

/* For a target in host memory: the sender writes it there. The host waits, because the caller's
 * event must be one of `to_queue`. */
static yoke_status
copy_to_host(yki_queue *from_queue, yki_buffer *from, uint64_t from_offset, yki_queue *to_queue,
             yki_buffer *to, uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done)
{
    yki_event read;
    yoke_status status;

    YKI_TRY(drain(to_queue));
    YKI_TRY(yki_queue_read(from_queue, from, from_offset, size, (char *)to->host + to_offset, wait,
                           &read));
    status = yki_event_wait(&read);
    yki_event_release(&read);
    if (status != YOKE_OK || !done)
        return status;
    return yki_queue_marker(to_queue, YKI_NO_WAIT, done);
}

/* A copy of no bytes keeps its order in both queues. */
static yoke_status
copy_nothing(yki_queue *from_queue, yki_queue *to_queue, yki_wait wait, yki_event *done)
{
    YKI_TRY(drain(from_queue));
    return yki_queue_marker(to_queue, wait, done);
}

/* Moves one piece. The host waits while the sender fills it, not while the receiver reads it. */
static yoke_status
pass_piece(yki_link *link, int piece, yki_queue *from_queue, yki_buffer *from, uint64_t from_offset,
           yki_queue *to_queue, yki_buffer *to, uint64_t to_offset, uint64_t size, yki_wait wait,
           yki_event *written)
{
    void *host = link->stage[piece]->host;
    yki_event read;
    yoke_status status;

    wait_sent(link, piece);
    YKI_TRY(yki_queue_read(from_queue, from, from_offset, size, host, wait, &read));
    status = yki_event_wait(&read);
    yki_event_release(&read);
    YKI_TRY(status);
    YKI_TRY(yki_queue_write(to_queue, to, to_offset, size, host, YKI_NO_WAIT, written));
    /* The event is kept before the flush, which may fail: the write then still reads the piece. */
    if (clRetainEvent(written->cl) == CL_SUCCESS)
        link->sent[piece] = written->cl;
    else
        status = drain(to_queue);
    if (status == YOKE_OK)
        status = yki_queue_flush(to_queue);
    if (status != YOKE_OK)
        yki_event_release(written);
    return status;
}

static yoke_status
copy_staged(yki_link *link, yki_queue *from_queue, yki_buffer *from, uint64_t from_offset,
            yki_queue *to_queue, yki_buffer *to, uint64_t to_offset, uint64_t size, yki_wait wait,
            yki_event *done)
{
    yki_event written = {NULL, NULL, 0};
    yoke_status status;
    int piece = 0;

    for (uint64_t at = 0; at < size; at += link->piece, piece = (piece + 1) % PIECES) {
        uint64_t part = YKI_MIN(link->piece, size - at);

        yki_event_release(&written);
        status = pass_piece(link, piece, from_queue, from, from_offset + at, to_queue, to,
                            to_offset + at, part, wait, &written);
        if (status != YOKE_OK)
            return status;
        wait = YKI_NO_WAIT; /* the first piece has waited for all of it */
    }
    if (done)
        *done = written;
    else
        yki_event_release(&written);
    return YOKE_OK;
}

yoke_status
yki_link_copy(yki_link *link, yki_queue *from_queue, yki_buffer *from, uint64_t from_offset,
              yki_queue *to_queue, yki_buffer *to, uint64_t to_offset, uint64_t size, yki_wait wait,
              yki_event *done)
{
    if (!yki_devices_share(link->from, from_queue->device) ||
        !yki_devices_share(link->from, from->owner) ||
        !yki_devices_share(link->to, to_queue->device) || !yki_devices_share(link->to, to->owner))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "a link from %s to %s cannot copy %s (on %s) to %s (on %s); must be "
                        "buffers of its devices",
                        link->from->id, link->to->id, from->name, from->owner->id, to->name,
                        to->owner->id);
    YKI_TRY(yki_buffer_check(from, from_offset, size, "copying from"));
    YKI_TRY(yki_buffer_check(to, to_offset, size, "copying to"));
    if (link->kind == YKI_LINK_SHARED)
        return copy_shared(from_queue, from, from_offset, to_queue, to, to_offset, size, wait,
                           done);
    if (!size)
        return copy_nothing(from_queue, to_queue, wait, done);
    if (from->host)
        return copy_from_host(from_queue, from, from_offset, to_queue, to, to_offset, size, wait,
                              done);
    if (to->host)
        return copy_to_host(from_queue, from, from_offset, to_queue, to, to_offset, size, wait,
                            done);
    return copy_staged(link, from_queue, from, from_offset, to_queue, to, to_offset, size, wait,
                       done);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * staging.c - the way of data from the caller's arrays to a replica's inputs.
 *
 * Inputs are copied to a ring of staging memory and sent from there. So the caller may reuse its
 * array on return, and up to YKI_RING steps may be in flight. Where memory allows it, data travels
 * in a queue of its own to a buffer beside the input, while the step before computes.
 */
#include <string.h>

#include "replica/replica.h"

/* Bytes: fewer are sent with the command itself, so they need no pinned memory. */
enum { PINNED_FROM = 4096 };

static void
free_memory(yki_staging *s)
{
    if (s->pinned)
        yki_buffer_destroy(s->pinned);
    else
        yki_free_aligned(s->memory);
    yki_buffer_destroy(s->passing);
    s->pinned = s->passing = NULL;
    s->memory = NULL;
    s->size = 0;
}

yoke_status
yki_staging_get(yki_staging *s, yoke_device *device, uint64_t size)
{
    const yki_device_traits *traits = yki_device_get_traits(device);

    YKI_TRY(yki_event_wait(&s->busy));
    yki_event_release(&s->busy);
    if (s->size >= size)
        return YOKE_OK;
    free_memory(s);
    if (!traits->host_memory && size >= PINNED_FROM) {
        YKI_TRY(yki_buffer_create(device, size, YKI_BUFFER_PINNED, "staging memory", &s->pinned));
        s->memory = yki_buffer_host(s->pinned);
    } else {
        s->memory = yki_alloc_aligned(4096, size, "staging memory");
    }
    if (!s->memory)
        return YOKE_ERROR_OUT_OF_MEMORY;
    s->size = size;
    return YOKE_OK;
}

void
yki_staging_free(yki_staging *s)
{
    (void)yki_event_wait(&s->busy);
    yki_event_release(&s->busy);
    free_memory(s);
}

yoke_status
yki_replica_close_way(yoke_replica *r)
{
    r->in_line = true;
    for (size_t i = 0; i < r->input_count; i++)
        for (size_t k = 0; k < YKI_RING; k++) {
            yki_staging *s = &r->inputs[i].ring[k];

            YKI_TRY(yki_event_wait(&s->busy));
            yki_buffer_destroy(s->passing);
            s->passing = NULL;
        }
    return YOKE_OK;
}

/* Makes the queue of data on its way to inputs. */
static yoke_status
make_transfer(yoke_replica *r)
{
    if (r->transfer)
        return YOKE_OK;
    YKI_TRY(yki_queue_create(r->weights->device, false, &r->transfer));
    return r->traced.trace ? yki_queue_trace(r->transfer, r->traced.trace, r->traced.name)
                           : YOKE_OK;
}

/* Makes a buffer for data on its way to an input; not where memory is short. Some drivers find that
 * only when the memory is first used. */
static yoke_status
make_way(yoke_replica *r, yki_staging *s)
{
    yoke_device *device = r->weights->device;
    yoke_status status;

    if (!s->pinned || s->passing || r->in_line)
        return YOKE_OK;
    YKI_TRY(make_transfer(r));
    status = yki_buffer_create(device, s->size, 0, "an input on its way", &s->passing);
    if (status == YOKE_OK)
        status = yki_buffer_touch(r->transfer, s->passing);
    if (status == YOKE_OK)
        status = yki_queue_finish(r->transfer);
    if (status == YOKE_OK)
        return YOKE_OK;
    yki_buffer_destroy(s->passing);
    s->passing = NULL;
    r->in_line = yki_lacks_memory(status);
    return r->in_line ? YOKE_OK : status;
}

uint64_t
yki_replica_way_bytes(const yoke_replica *r, int64_t n)
{
    const yki_device_traits *traits = yki_device_get_traits(r->weights->device);
    uint64_t bytes = 0;

    for (size_t i = 0; i < r->input_count && !traits->host_memory && !r->in_line; i++) {
        const yoke_node *node = r->inputs[i].node;
        const uint64_t size = (uint64_t)yki_shape_count(yki_whole_shape(node)) *
                              yki_type_size(node->type) * (uint64_t)YKI_MIN(n, r->options.batch);

        if (size < PINNED_FROM || !yki_plan_buffer(r->training, node))
            continue;
        for (size_t k = 0; k < YKI_RING; k++)
            bytes += r->inputs[i].ring[k].passing ? 0 : size;
    }
    return bytes;
}

/* Enqueues the transfer of staged data to the buffer of an input. */
static yoke_status
send(yoke_replica *r, yki_staging *s, yki_buffer *to, uint64_t size)
{
    yki_event sent = {0};
    yoke_status status;

    if (!s->passing)
        return yki_queue_write(r->queue, to, 0, size, s->memory, YKI_NO_WAIT, &s->busy);
    YKI_TRY(yki_queue_write(r->transfer, s->passing, 0, size, s->memory, YKI_NO_WAIT, &sent));
    status = yki_queue_flush(r->transfer);
    if (status == YOKE_OK)
        status =
            yki_queue_copy(r->queue, s->passing, 0, to, 0, size, (yki_wait){&sent, 1}, &s->busy);
    if (status != YOKE_OK)
        (void)yki_queue_finish(r->transfer); /* the memory is used again */
    yki_event_release(&sent);
    return status;
}

yoke_status
yki_replica_upload(yoke_replica *r, yki_replica_input *in, yki_plan *plan, const void *data,
                   uint64_t size)
{
    yki_buffer *buffer = plan ? yki_plan_buffer(plan, in->node) : NULL;
    yki_staging *s = &in->ring[in->next];

    if (!buffer || size == 0)
        return YOKE_OK;
    in->next = (in->next + 1) % YKI_RING;
    YKI_TRY(yki_staging_get(s, r->weights->device, size));
    YKI_TRY(make_way(r, s));
    memcpy(s->memory, data, size);
    return send(r, s, buffer, size);
}

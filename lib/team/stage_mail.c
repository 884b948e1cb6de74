/* SPDX-License-Identifier: Apache-2.0
 *
 * stage_mail.c - what stages of several processes exchange besides the values that cross: room for
 * messages, weights, and norms of gradients.
 */
#include <string.h>

#include "team/stages.h"

enum { LETTER_ALIGN = 256, TAGS = 32768 };

static uint64_t
aligned(uint64_t bytes)
{
    return (bytes + LETTER_ALIGN - 1) / LETTER_ALIGN * LETTER_ALIGN;
}

/* The comm wants the same number of bytes from all processes: the most that one of them needs. */
static yoke_status
agree_on_bytes(yoke_comm *comm, uint64_t *bytes)
{
    uint64_t *all = yki_alloc((size_t)comm->ranks, sizeof *all, "messages");
    yoke_status status = all ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK)
        status = comm->allgather(comm, bytes, sizeof *bytes, all);
    for (int32_t r = 0; r < comm->ranks && status == YOKE_OK; r++)
        *bytes = YKI_MAX(*bytes, all[r]);
    yki_free(all);
    return status;
}

yoke_status
yki_stages_list(const yki_crew *crew, bool training, yki_extents max, size_t *count,
                uint64_t **bytes, uint32_t **ends)
{
    const struct yki_stages *s = crew->stages;
    const yki_crossings *all = &s->placed.crossings[training];

    *count = all->count + (training ? crew->team->total : 0);
    *bytes = yki_alloc(*count, sizeof **bytes, "crossings");
    *ends = yki_alloc(2 * *count, sizeof **ends, "crossings");
    if (!*bytes || !*ends)
        return YOKE_ERROR_OUT_OF_MEMORY;
    max.length = crew->graph->length;
    for (size_t i = 0; i < *count; i++) {
        const yki_crossing *c = i < all->count ? &all->list[i] : NULL;
        const yki_operand operand = c ? yki_operand_of(c->node) : (yki_operand){0};

        (*bytes)[i] = c ? (uint64_t)yki_value_bytes(&operand, max) : crew->pairs * 8;
        (*ends)[2 * i] = c ? c->from : (uint32_t)s->home;
        (*ends)[2 * i + 1] = c ? c->to : (uint32_t)(i - all->count);
    }
    return YOKE_OK;
}

yoke_status
yki_letters_make(yki_crew *crew, size_t count, const uint64_t *bytes, const uint32_t *ends,
                 size_t copies, yki_letter **letters, void **memory)
{
    uint64_t total = 0;
    char *at;

    *memory = NULL;
    *letters = yki_alloc(count * copies, sizeof **letters, "messages");
    if (!*letters)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count * copies; i++)
        (*letters)[i].peer = -1;
    if (!crew->comm)
        return YOKE_OK;
    if (count > TAGS)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%zu values cross between the stages; must be at most %d with several "
                        "processes",
                        count, TAGS);
    for (size_t i = 0; i < count; i++)
        if (yki_is_mailed(crew, ends[2 * i], ends[2 * i + 1]))
            total += copies * aligned(bytes[i]);
    YKI_TRY(agree_on_bytes(crew->comm, &total));
    if (total == 0)
        return YOKE_OK;
    *memory = at = yki_comm_alloc(crew->comm, (size_t)total, 0, "values on their way");
    if (!at)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t j = 0; j < count * copies; j++) {
        const size_t i = j / copies, from = ends[2 * i], to = ends[2 * i + 1];
        const bool goes = yki_is_here(crew, from);

        if (!yki_is_mailed(crew, from, to))
            continue;
        (*letters)[j] = (yki_letter){.memory = at,
                                     .peer = crew->stages->rank_of[goes ? to : from],
                                     .tag = (int32_t)i,
                                     .member = yki_here(crew, goes ? from : to),
                                     .most = bytes[i]};
        at += aligned(bytes[i]);
    }
    return YOKE_OK;
}

void
yki_letters_free(yki_crew *crew, yki_letter *letters, size_t count, void *memory)
{
    for (size_t i = 0; letters && i < count; i++)
        if (letters[i].peer >= 0)
            yki_mail_end(&crew->stages->mail, &letters[i]);
    yki_comm_release(crew->comm, memory);
    yki_free(letters);
}

yoke_status
yki_stages_settle(yki_crew *crew)
{
    return crew->comm ? yki_mail_settle(&crew->stages->mail) : YOKE_OK;
}

yoke_status
yki_stages_read(yki_crew *crew, const yki_weight *weight, float *values)
{
    const size_t home = crew->stages->placed.homes[weight->node->id];

    if (yki_is_here(crew, home)) {
        yki_weight *own =
            yki_weights_find(crew->stages->weights[yki_here(crew, home)], weight->node->name);

        crew->at = yki_here(crew, home);
        YKI_TRY(yki_buffer_get(own->value, 0, weight->size, values));
    }
    return crew->comm->broadcast(crew->comm, values, (size_t)weight->size,
                                 crew->stages->rank_of[home]);
}

/* ---- norms ---- */

/* Of each bucket the norms in one member's buffer, as floats of a row of all buckets. */
static yoke_status
read_norms(yki_crew *crew, float *row)
{
    for (size_t b = 0; b < crew->buckets.count; b++) {
        const size_t home = crew->members[0].replica->weights->buckets[b].home;
        uint64_t offset, size;
        yki_buffer *buffer;

        if (!yki_is_here(crew, home))
            continue;
        crew->at = yki_here(crew, home);
        buffer = yki_updater_norms(crew->members[crew->at].replica->updater, b, &offset, &size);
        YKI_TRY(yki_queue_read(crew->members[crew->at].replica->queue, buffer, offset, size,
                               row + offset / 4, YKI_NO_WAIT, NULL));
    }
    for (crew->at = 0; crew->at < crew->count; crew->at++)
        YKI_TRY(yki_queue_finish(crew->members[crew->at].replica->queue));
    crew->at = 0;
    return YOKE_OK;
}

/* Writes the norms of the buckets that the member has not. */
static yoke_status
write_norms(yki_crew *crew, size_t k, const float *rows, size_t floats)
{
    yki_member *m = &crew->members[k];

    crew->at = k;
    for (size_t b = 0; b < crew->buckets.count; b++) {
        const size_t home = m->replica->weights->buckets[b].home;
        const float *row = rows + (size_t)crew->stages->rank_of[home] * floats;
        uint64_t offset, size;
        yki_buffer *buffer = yki_updater_norms(m->replica->updater, b, &offset, &size);

        if (home == crew->team->first + k)
            continue;
        YKI_TRY(yki_queue_write(m->replica->queue, buffer, offset, size, row + offset / 4,
                                YKI_NO_WAIT, NULL));
    }
    return yki_queue_finish(m->replica->queue);
}

yoke_status
yki_stages_gather_norms(yki_crew *crew)
{
    const size_t floats = yki_updater_norm_count(crew->members[0].replica->weights);
    const size_t ranks = (size_t)crew->comm->ranks;
    float *own = yki_alloc(floats, sizeof *own, "norms of gradients");
    float *all = yki_alloc(floats * ranks, sizeof *all, "norms of gradients");
    yoke_status status = own && all ? read_norms(crew, own) : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK)
        status = crew->comm->allgather(crew->comm, own, floats * sizeof *own, all);
    for (size_t k = 0; k < crew->count && status == YOKE_OK; k++)
        status = write_norms(crew, k, all, floats);
    yki_free(own);
    yki_free(all);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * recheck.c - a second sum of granules, and how two are compared.
 *
 * A granule has the same bits wherever it is computed (granules.c). So if one member adds the
 * granules of another member once more, the two sums are the same bits, or one of the two has made
 * a mistake. Each member has a spare set of what granules are added to; it takes the place of the
 * member's own for as long as it computes for a comparison.
 *
 * Only the elements of tensors are compared: what lies between them in a bucket is nobody's. Nor
 * are the bits of what is no number.
 *
 * Not here: which member checks which, and what follows (lib/train/recheck.c).
 */
#include <string.h>

#include "team/crew.h"

/* ---- making ---- */

/* Makes the spare adder in the place of the member's own, which does not exist yet. */
static yoke_status
make_spare(yki_crew *crew, yki_member *m)
{
    yoke_device *device = m->replica->weights->device;
    yki_spare *s = &m->spare;
    yoke_status status;

    s->accumulated =
        yki_alloc(YKI_MAX(crew->buckets.count, (size_t)1), sizeof *s->accumulated, "sums");
    if (!s->accumulated)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t b = 0; b < crew->buckets.count; b++)
        YKI_TRY(yki_buffer_create(device, yki_crew_travel_size(crew, b), 0,
                                  "gradients that are compared", &s->accumulated[b]));
    YKI_TRY(yki_buffer_create(device, yki_buffer_size(m->results), 0, "results that are compared",
                              &s->results));
    yki_recheck_swap(m);
    status = yki_adder_create(crew, m);
    yki_recheck_swap(m);
    return status;
}

yoke_status
yki_recheck_create(yki_crew *crew)
{
    const yki_weights *w = crew->members[0].replica->weights;
    yki_exact *e = &crew->exact;
    uint64_t most = YKI_MAX(e->weights * sizeof(uint32_t), e->most * crew->pairs * 8);

    for (size_t i = 0; i < w->weight_count; i++)
        most = YKI_MAX(most, 2 * w->weights[i].size);
    e->room_size = most;
    e->room = yki_alloc(2, most, "tensors that are compared");
    e->verdicts = yki_alloc(crew->team->total, sizeof *e->verdicts, "verdicts");
    if (!e->room || !e->verdicts)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < crew->count; k++)
        YKI_TRY(make_spare(crew, &crew->members[k]));
    return e->together ? yki_passes_keep(crew) : YOKE_OK;
}

void
yki_recheck_destroy(yki_crew *crew)
{
    for (size_t k = 0; crew->members && k < crew->count; k++) {
        yki_spare *s = &crew->members[k].spare;

        yki_adder_destroy(crew, &s->adder);
        for (size_t b = 0; s->accumulated && b < crew->buckets.count; b++)
            yki_buffer_destroy(s->accumulated[b]);
        yki_buffer_destroy(s->results);
        yki_free(s->accumulated);
    }
    yki_passes_keep_no_more(crew);
    yki_free(crew->exact.room);
    yki_free(crew->exact.verdicts);
}

void
yki_recheck_swap(yki_member *m)
{
    const yki_spare own = {m->adder, m->accumulated, m->results};

    m->adder = m->spare.adder;
    m->accumulated = m->spare.accumulated;
    m->results = m->spare.results;
    m->spare = own;
}

/* ---- comparing ---- */

/* A piece of a member's sums; 0 bytes: there is no such piece. */
typedef struct piece {
    yki_buffer *buffer; /* NULL: `host` has it */
    uint64_t offset, size;
    const char *name;
    const void *host;
} piece;

/* The pieces are the weights, then the largest elements, losses and metrics, statistics. */
static size_t
piece_count(const yki_crew *crew)
{
    return crew->members[0].replica->weights->weight_count + 3;
}

static piece
statistics(const yki_crew *crew, bool spare)
{
    const yki_exact *e = &crew->exact;
    const yki_kept_rows *kept = &e->stats;

    return (piece){NULL, 0, e->micro_batches * kept->most * kept->size * sizeof(float),
                   "statistics of the batch", kept->granules[spare]};
}

static piece
piece_of(const yki_crew *crew, const yki_spare *s, bool spare, size_t index)
{
    const yki_weights *w = crew->members[0].replica->weights;
    const yki_weight *weight = &w->weights[index];
    const uint64_t word = crew->exact.wire->bytes;

    if (index == w->weight_count)
        return (piece){s->adder.largest, 0, w->weight_count * sizeof(uint32_t),
                       "the largest elements of gradients", NULL};
    if (index == w->weight_count + 1)
        return (piece){s->results, 0, s->adder.count * crew->pairs * 8,
                       yki_pair_node(crew->graph, 0)->name, NULL};
    if (index > w->weight_count)
        return statistics(crew, spare);
    if (weight->bucket >= w->bucket_count)
        return (piece){NULL, 0, 0, NULL, NULL};
    return (piece){s->accumulated[weight->bucket], weight->offset / 4 * word,
                   weight->size / 4 * word, weight->node->name, NULL};
}

/* Finds its bytes: in the buffer where the host may, else in `room`. */
static yoke_status
look(const piece *p, void *room, const void **at)
{
    const char *host = p->buffer ? yki_buffer_host(p->buffer) : p->host;

    *at = host ? host + p->offset : room;
    return host ? YOKE_OK : yki_buffer_get(p->buffer, p->offset, p->size, room);
}

static yki_spare
sums_of(const yki_member *m, bool spare)
{
    return spare ? m->spare : (yki_spare){m->adder, m->accumulated, m->results};
}

static bool
is_no_number(uint32_t bits)
{
    return (bits & 0x7fffffffu) >= 0x7f800000u;
}

/* Whether floats differ, or the largest elements. What is no number has other bits on each kind of
 * device. */
static bool
floats_differ(const uint32_t *a, const uint32_t *b, uint64_t size)
{
    for (uint64_t i = 0; i < size / 4; i++)
        if (a[i] != b[i] && !(is_no_number(a[i]) && is_no_number(b[i])))
            return true;
    return false;
}

/* The largest elements of a member, on the host. */
static yoke_status
find_largest(const yki_crew *crew, const yki_adder *a)
{
    return yki_buffer_get(a->largest, 0, crew->exact.weights * sizeof *a->found, a->found);
}

static bool
differs(const yki_crew *crew, const yki_spare *own, const yki_spare *again, size_t index,
        const void *left, const void *right, uint64_t size)
{
    if (memcmp(left, right, size) == 0)
        return false;
    if (index >= crew->members[0].replica->weights->weight_count)
        return floats_differ(left, right, size);
    return !is_no_number(own->adder.found[index]) || !is_no_number(again->adder.found[index]);
}

yoke_status
yki_recheck_compare(yki_crew *crew, yki_member *m, yki_member *other, const char **tensor)
{
    const yki_spare own = sums_of(m, false), again = sums_of(other, true);
    char *room = crew->exact.room;

    *tensor = NULL;
    YKI_TRY(yki_queue_finish(m->replica->queue));
    YKI_TRY(yki_queue_finish(other->replica->queue));
    YKI_TRY(find_largest(crew, &own.adder));
    YKI_TRY(find_largest(crew, &again.adder));
    for (size_t i = 0; i < piece_count(crew) && !*tensor; i++) {
        const piece a = piece_of(crew, &own, false, i), b = piece_of(crew, &again, true, i);
        const void *left, *right;

        if (a.size == 0)
            continue;
        YKI_TRY(look(&a, room, &left));
        YKI_TRY(look(&b, room + crew->exact.room_size, &right));
        if (differs(crew, &own, &again, i, left, right, a.size))
            *tensor = a.name;
    }
    return YOKE_OK;
}

yoke_status
yki_recheck_hash(yki_crew *crew, yki_member *m, bool spare, char hex[33])
{
    const yki_spare sums = sums_of(m, spare);
    yki_hash hash;

    YKI_TRY(yki_queue_finish(m->replica->queue));
    yki_hash_start(&hash);
    for (size_t i = 0; i < piece_count(crew); i++) {
        const piece p = piece_of(crew, &sums, spare, i);
        const void *at;

        if (p.size == 0)
            continue;
        YKI_TRY(look(&p, crew->exact.room, &at));
        yki_hash_add(&hash, at, p.size);
    }
    yki_hash_hex(&hash, hex);
    return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * ranges.c - cuts buckets into ranges, one for each owner, in proportion to weights.
 *
 * Idea: go through the buckets and know what each owner should have of all bytes so far. Of the
 * next bucket each owner gets what it lacks then, so errors of rounding do not add up. With many
 * buckets the owner that lacks most gets the whole bucket: fewer messages, and at any time of
 * backward all owners have something to receive. All in integers, so that processes on unlike
 * processors agree.
 */
#include <math.h>
#include <string.h>

#include "shares/ranges.h"

enum {
    UNITS = 1 << 20,  /* the largest weight, as an integer */
    MANY_BUCKETS = 16 /* of an owner, at least, if buckets stay whole */
};

struct yki_ranges {
    size_t buckets, owners;
    uint64_t *ends; /* by bucket and owner: where its range ends, in bytes */
};

/* What has been given so far, in multiples of YKI_RANGE_ALIGN. */
typedef struct ledger {
    size_t owners;
    uint64_t *weights, sum; /* sum: of the weights */
    uint64_t *given, *more; /* in all; of this bucket */
    uint64_t total;         /* of all buckets so far */
} ledger;

static void
take_weights(ledger *l, const double *weights)
{
    double most = 0;

    for (size_t k = 0; k < l->owners; k++)
        most = YKI_MAX(most, weights[k]);
    for (size_t k = 0; k < l->owners; k++) {
        l->weights[k] = (uint64_t)floor(weights[k] / most * UNITS + 0.5);
        if (weights[k] > 0 && l->weights[k] == 0)
            l->weights[k] = 1;
        l->sum += l->weights[k];
    }
}

/* What an owner lacks, times the sum of the weights; negative: it has too much. 2^20 * 2^40 / 512
 * bytes and more fit. */
static int64_t
lacks(const ledger *l, size_t k)
{
    return (int64_t)(l->weights[k] * l->total) - (int64_t)((l->given[k] + l->more[k]) * l->sum);
}

static size_t
neediest(const ledger *l)
{
    size_t best = l->owners;

    for (size_t k = 0; k < l->owners; k++)
        if (l->weights[k] > 0 && (best == l->owners || lacks(l, k) > lacks(l, best)))
            best = k;
    return best;
}

/* Cuts the next bucket into l->more[]. */
static void
cut(ledger *l, uint64_t units, bool whole)
{
    uint64_t left = units;

    memset(l->more, 0, l->owners * sizeof *l->more);
    l->total += units;
    for (size_t k = 0; k < l->owners && !whole; k++) {
        const int64_t need = lacks(l, k);

        l->more[k] = need > 0 ? YKI_MIN((uint64_t)need / l->sum, left) : 0;
        left -= l->more[k];
    }
    while (left > 0) {
        const uint64_t piece = whole ? left : 1;

        l->more[neediest(l)] += piece;
        left -= piece;
    }
    for (size_t k = 0; k < l->owners; k++)
        l->given[k] += l->more[k];
}

static bool
are_many(const ledger *l, size_t buckets)
{
    bool many = true;

    for (size_t k = 0; k < l->owners; k++)
        many &= l->weights[k] == 0 || buckets * l->weights[k] >= MANY_BUCKETS * l->sum;
    return many;
}

yoke_status
yki_ranges_create(const uint64_t *sizes, size_t buckets, const double *weights, size_t owners,
                  yki_ranges **out)
{
    yki_ranges *r = yki_alloc(1, sizeof *r, "a table of ranges");
    uint64_t *room = yki_alloc(3 * owners, sizeof *room, "a table of ranges");
    ledger l = {.owners = owners, .weights = room, .given = room + owners};

    if (r)
        r->ends = yki_alloc(YKI_MAX(buckets, (size_t)1) * owners, sizeof *r->ends, "ranges");
    if (!r || !room || !r->ends) {
        yki_free(room);
        yki_ranges_destroy(r);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    l.more = room + 2 * owners;
    r->buckets = buckets;
    r->owners = owners;
    take_weights(&l, weights);
    for (size_t b = 0; b < buckets; b++) {
        uint64_t end = 0;

        cut(&l, sizes[b] / YKI_RANGE_ALIGN, are_many(&l, buckets));
        for (size_t k = 0; k < owners; k++)
            r->ends[b * owners + k] = end += l.more[k] * YKI_RANGE_ALIGN;
    }
    yki_free(room);
    *out = r;
    return YOKE_OK;
}

void
yki_ranges_destroy(yki_ranges *r)
{
    if (r)
        yki_free(r->ends);
    yki_free(r);
}

yki_range
yki_ranges_of(const yki_ranges *r, size_t bucket, size_t first, size_t count)
{
    const uint64_t *ends = r->ends + bucket * r->owners;
    const uint64_t begin = first ? ends[first - 1] : 0;

    return (yki_range){begin, count ? ends[first + count - 1] - begin : 0};
}

uint64_t
yki_ranges_total(const yki_ranges *r, size_t owner)
{
    uint64_t total = 0;

    for (size_t b = 0; b < r->buckets; b++)
        total += yki_ranges_of(r, b, owner, 1).size;
    return total;
}

yki_range
yki_range_common(yki_range a, yki_range b)
{
    const uint64_t begin = YKI_MAX(a.offset, b.offset);
    const uint64_t end = YKI_MIN(a.offset + a.size, b.offset + b.size);

    return (yki_range){begin, end > begin ? end - begin : 0};
}

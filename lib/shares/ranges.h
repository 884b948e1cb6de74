/* SPDX-License-Identifier: Apache-2.0
 *
 * ranges.h - which owner keeps which part of each bucket.
 *
 * Pure arithmetic, as shares.h, but of memory instead of samples. Owners are numbered over all
 * processes. Their ranges of a bucket lie in that order and cover it without gaps.
 */
#ifndef YKI_RANGES_H
#define YKI_RANGES_H

#include "base/base.h"

enum { YKI_RANGE_ALIGN = 512 }; /* bytes: views of a buffer may begin there on every device */

/* A part of a bucket, in bytes. */
typedef struct yki_range {
    uint64_t offset, size;
} yki_range;

typedef struct yki_ranges yki_ranges;

/* Cuts buckets of these sizes, multiples of YKI_RANGE_ALIGN, in proportion to weights (finite, not
 * negative, not all 0). Where each owner with a weight gets many buckets, it gets whole ones;
 * otherwise every bucket is cut. In sum an owner has its proportion up to half a bucket, or one
 * border. The result is a function of the arguments alone, in any process. */
yoke_status yki_ranges_create(const uint64_t *sizes, size_t buckets, const double *weights,
                              size_t owners, yki_ranges **ranges);
/* NULL is fine. */
void yki_ranges_destroy(yki_ranges *ranges);
/* The part of a bucket that belongs to `count` owners from `first` on. */
yki_range yki_ranges_of(const yki_ranges *ranges, size_t bucket, size_t first, size_t count);
/* The bytes of an owner in all buckets. */
uint64_t yki_ranges_total(const yki_ranges *ranges, size_t owner);
/* The part of `range` that lies in `within`; size 0 if none does. */
yki_range yki_range_common(yki_range range, yki_range within);

#endif

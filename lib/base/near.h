/* SPDX-License-Identifier: Apache-2.0
 *
 * near.h - "did you mean": the known name that is nearest to one that is not known.
 *
 * Used by the library and, compiled once more, by the yoke command: it needs nothing else.
 */
#ifndef YKI_NEAR_H
#define YKI_NEAR_H

#include <stddef.h>

typedef struct yki_near {
    const char *word; /* that was given */
    const char *best; /* lent: the nearest name so far; NULL: none is near */
    size_t distance;  /* of `best` */
    char hint[112];
} yki_near;

void yki_near_start(yki_near *near, const char *word);
/* A name that is known; it lives until the hint is made. NULL is no name. */
void yki_near_offer(yki_near *near, const char *name);
/* "; did you mean \"lenet\"?", or "" if nothing is near; lent by `near`. */
const char *yki_near_hint(yki_near *near);
/* All at once: names[0] to names[count - 1]. */
const char *yki_near_among(yki_near *near, const char *word, const char *const *names,
                           size_t count);

#endif

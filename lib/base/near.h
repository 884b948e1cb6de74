/* SPDX-License-Identifier: Apache-2.0
 *
 * near.h - "did you mean": finds the known name that is nearest to an unknown one.
 *
 * The library uses it, and so does the yoke command, which compiles it again: it needs no other
 * file of the library.
 */
#ifndef YKI_NEAR_H
#define YKI_NEAR_H

#include <stddef.h>

typedef struct yki_near {
    const char *word; /* the unknown name; lent */
    const char *best; /* the nearest name so far; lent; NULL: none is near */
    size_t distance;  /* of `best` */
    char hint[112];
} yki_near;

/* Starts to look for names near `word`, which must live until the last name was offered. */
void yki_near_start(yki_near *near, const char *word);
/* Offers a known name, which must live until yki_near_hint is called. NULL is ignored. */
void yki_near_offer(yki_near *near, const char *name);
/* Returns "; did you mean \"lenet\"?", or "" if no name is near. The text is part of `near`. */
const char *yki_near_hint(yki_near *near);
/* Does all three at once, with names[0] to names[count - 1]. */
const char *yki_near_among(yki_near *near, const char *word, const char *const *names,
                           size_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * near.c - "did you mean": the known name that is nearest to one that is not known.
 *
 * Idea: the number of letters that are to be added, removed, replaced, or swapped with their
 * neighbour makes the distance of two names; a third of the shorter name's letters is near, but
 * one letter always is. Capital letters are as small ones, and "_" is as "-". The beginning of a
 * name, from three letters on, is near as well.
 *
 * Includes nothing of the library: the yoke command is compiled with it too.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/near.h"

enum { LONGEST = 64, BEGINNING = 3, FAR = LONGEST + 1 };

static int
letter(char c)
{
    return c == '_' ? '-' : tolower((unsigned char)c);
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* rows[0] is that of the letters of `a` before this one, rows[1] and rows[2] those before that. */
static size_t
count_changes(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST + 1], *now = rows[0], *before = rows[1], *older = rows[2];

    for (size_t j = 0; j <= b_length; j++)
        now[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *oldest = older;

        older = before;
        before = now;
        now = oldest;
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const int from = letter(a[i - 1]), to = letter(b[j - 1]);

            now[j] = least(least(before[j], now[j - 1]) + 1, before[j - 1] + (from != to));
            if (i > 1 && j > 1 && from == letter(b[j - 2]) && letter(a[i - 2]) == to)
                now[j] = least(now[j], older[j - 2] + 1);
        }
    }
    return now[b_length];
}

static size_t
distance(const char *word, const char *name)
{
    const size_t a = strlen(word), b = strlen(name), shorter = least(a, b);
    size_t changes, begins = 0;

    if (a > LONGEST || b > LONGEST || shorter == 0)
        return FAR;
    while (begins < shorter && letter(word[begins]) == letter(name[begins]))
        begins++;
    if (begins == a && (a == b || a >= BEGINNING))
        return a == b ? 0 : 1;
    changes = count_changes(word, a, name, b);
    return changes < shorter && changes <= (shorter < 6 ? 1 : shorter / 3) ? changes : FAR;
}

void
yki_near_start(yki_near *near, const char *word)
{
    near->word = word;
    near->best = NULL;
    near->distance = FAR;
    near->hint[0] = '\0';
}

void
yki_near_offer(yki_near *near, const char *name)
{
    size_t found = name ? distance(near->word, name) : FAR;

    if (found < near->distance) {
        near->distance = found;
        near->best = name;
    }
}

const char *
yki_near_hint(yki_near *near)
{
    if (near->best)
        snprintf(near->hint, sizeof near->hint, "; did you mean \"%s\"?", near->best);
    return near->hint;
}

const char *
yki_near_among(yki_near *near, const char *word, const char *const *names, size_t count)
{
    yki_near_start(near, word);
    for (size_t i = 0; i < count; i++)
        yki_near_offer(near, names[i]);
    return yki_near_hint(near);
}

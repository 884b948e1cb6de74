/* SPDX-License-Identifier: Apache-2.0
 *
 * near.c - "did you mean": finds the known name that is nearest to an unknown one.
 *
 * Idea: the distance of two names is the number of letters to add, remove, replace, or swap with
 * their neighbour. Names are near if the distance is 1, or at most a third of the shorter name's
 * length, and less than that length. Capital and small letters are the same, and so are "_" and
 * "-". An unknown name of three letters or more is near to the names that begin with it, too.
 *
 * It includes nothing of the library, because the yoke command compiles it too.
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

/* Row i has the distances of the first i letters of `a` from each beginning of `b`. Only three rows
 * are kept: `now`, the one `before` it, and the `older` one before that. */
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

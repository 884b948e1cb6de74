/* SPDX-License-Identifier: Apache-2.0
 *
 * number.c - decimal numbers in text. strtod depends on the locale, and may read 1.5 as 1.
 *
 * Up to 19 digits form an integer. With at most 15 digits and a power of ten up to 22, both are
 * exact in a double, and one operation rounds correctly. Other numbers are written as digits and
 * exponent, without a point, which strtod reads alike in every locale.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/text.h"

enum { DIGITS = 19, EXACT_DIGITS = 15, EXACT_POWER = 22, MOST_EXPONENT = 100000 };

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

bool
yki_ends_with(const char *name, const char *end)
{
    size_t a = strlen(name), b = strlen(end);

    return a >= b && strcasecmp(name + a - b, end) == 0;
}

size_t
yki_trim(char *text, size_t length)
{
    size_t first = 0;

    while (length && is_space(text[length - 1]))
        length--;
    while (first < length && is_space(text[first]))
        first++;
    memmove(text, text + first, length - first);
    text[length - first] = '\0';
    return length - first;
}

static bool
is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

static double
compose(uint64_t digits, int significant, int64_t exponent)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    char text[64];

    if (digits == 0)
        return 0;
    if (significant <= EXACT_DIGITS && exponent >= 0 && exponent <= EXACT_POWER)
        return (double)digits * powers[exponent];
    if (significant <= EXACT_DIGITS && exponent < 0 && exponent >= -EXACT_POWER)
        return (double)digits / powers[-exponent];
    snprintf(text, sizeof text, "%llue%lld", (unsigned long long)digits, (long long)exponent);
    return strtod(text, NULL);
}

bool
yki_parse_number(const char *text, size_t length, double *value)
{
    const char *p = text, *end = text + length;
    bool negative = false, any = false, small = false;
    uint64_t digits = 0;
    int significant = 0;
    int64_t exponent = 0, written = 0;

    if (p < end && (*p == '-' || *p == '+'))
        negative = *p++ == '-';
    for (bool point = false; is_digit(p, end) || (p < end && *p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        any = true;
        if (significant < DIGITS) {
            digits = digits * 10 + (uint64_t)(*p - '0');
            significant += digits > 0;
            exponent -= point;
        } else {
            exponent += !point;
        }
    }
    if (any && p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '-' || *p == '+'))
            small = *p++ == '-';
        if (!is_digit(p, end))
            return false;
        for (; is_digit(p, end); p++)
            written = written < MOST_EXPONENT ? written * 10 + (*p - '0') : written;
    }
    if (!any || p != end)
        return false;
    *value = compose(digits, significant, exponent + (small ? -written : written));
    if (negative)
        *value = -*value;
    return true;
}

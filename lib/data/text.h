/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - numbers in text, independent of the locale (number.c).
 */
#ifndef YKI_TEXT_H
#define YKI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether a file's name ends like this, in capitals or not. */
bool yki_ends_with(const char *name, const char *end);
/* Removes spaces, tabs and carriage returns at both ends and returns the new length. Ends the text
 * with a 0, for which it must have room. */
size_t yki_trim(char *text, size_t length);
/* Reads the whole text as a decimal number, with optional point and exponent. Gives the nearest
 * double (with more than 19 digits, within an ulp). Returns false for "nan", "inf" and other text.
 * A number that is too large gives infinity. */
bool yki_parse_number(const char *text, size_t length, double *value);

#endif

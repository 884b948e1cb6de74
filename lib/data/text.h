/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - numbers in text, whatever the locale (number.c).
 */
#ifndef YKI_TEXT_H
#define YKI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Takes spaces, tabs and returns off both ends; the new length. The text ends with a 0. */
size_t yki_trim(char *text, size_t length);
/* All of the text is a decimal number, with a point and an exponent perhaps: the nearest double
 * (with more than 19 digits, within an ulp). "nan" and "inf" are no numbers; what is too large is
 * infinite. */
bool yki_parse_number(const char *text, size_t length, double *value);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * markup.h - text that is harmless in XML and HTML, whoever chose it.
 */
#ifndef YOKE_TOOLS_MARKUP_H
#define YOKE_TOOLS_MARKUP_H

#include <stdbool.h>
#include <stdio.h>

/* Writes text as content of an element or of an attribute in double quotes. What XML does not have,
 * as control characters and bytes that are not UTF-8, becomes '?'. NULL is written as nothing. */
void yki_tool_markup(FILE *stream, const char *text);
/* The same for text that is made here. */
void yki_tool_markup_print(FILE *stream, const char *format, ...)
#if defined(__GNUC__) || defined(__clang__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * sources.h - the kernel files of clkernels/, which the build embeds.
 */
#ifndef YKI_SOURCES_H
#define YKI_SOURCES_H

#include <stddef.h>

typedef struct yki_source {
    const char *file; /* "fill.cl" */
    const char *const *lines;
    size_t line_count;
} yki_source;

extern const yki_source yki_sources[];
extern const size_t yki_source_count;

#endif

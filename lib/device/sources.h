/* SPDX-License-Identifier: Apache-2.0
 *
 * sources.h - the kernel files of clkernels/, which the build embeds.
 */
#ifndef YKI_SOURCES_H
#define YKI_SOURCES_H

#include <stddef.h>

typedef struct yki_kernel_source {
    const char *file; /* "fill.cl" */
    const char *const *lines;
    size_t line_count;
} yki_kernel_source;

extern const yki_kernel_source yki_kernel_sources[];
extern const size_t yki_kernel_source_count;

#endif

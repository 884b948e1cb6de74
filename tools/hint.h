/* SPDX-License-Identifier: Apache-2.0
 *
 * hint.h - what to try after a training that learned nothing.
 */
#ifndef YOKE_TOOLS_HINT_H
#define YOKE_TOOLS_HINT_H

#include <stdbool.h>
#include <stddef.h>

enum { TOOL_EARLY = 16, TOOL_HINT = 256 };

/* The course of a training, and its settings. */
typedef struct yki_tool_course {
    double step, early; /* losses: of the first step; the mean of the first TOOL_EARLY steps */
    double last;        /* the mean loss of the last epoch */
    size_t epochs;
    double rate; /* the learning rate */
    bool normalized;
    bool raw_targets; /* the model learns values that are not scaled */
} yki_tool_course;

/* Writes a sentence that says what went wrong and what may help; false: nothing went wrong. */
bool yki_tool_hint(const yki_tool_course *course, char text[TOOL_HINT]);

#endif

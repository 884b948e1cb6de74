/* SPDX-License-Identifier: Apache-2.0
 *
 * hint.h - what to try after a training that came to nothing.
 */
#ifndef YOKE_TOOLS_HINT_H
#define YOKE_TOOLS_HINT_H

#include <stdbool.h>
#include <stddef.h>

enum { TOOL_EARLY = 16, TOOL_HINT = 256 };

/* What a training did, and with which settings. */
typedef struct yki_tool_course {
    double step, early; /* the loss of the first step, and of the first TOOL_EARLY on average */
    double last;        /* of the last epoch on average */
    size_t epochs;
    double rate; /* of learning, that it had */
    bool normalized;
    bool raw_targets; /* values that the model has to reach as they are */
} yki_tool_course;

/* A sentence that says what went wrong and what may help; false: nothing did. */
bool yki_tool_hint(const yki_tool_course *course, char text[TOOL_HINT]);

#endif

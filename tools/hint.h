/* SPDX-License-Identifier: Apache-2.0
 *
 * hint.h - what to try after a training that came to nothing.
 */
#ifndef YOKE_TOOLS_HINT_H
#define YOKE_TOOLS_HINT_H

#include <stdbool.h>

/* What a training did, and with which settings. */
typedef struct yki_tool_course {
    double first, last; /* loss of the first step; of the last epoch or its test, which is less */
    double rate;        /* of learning, that it had */
    bool normalized;
    bool raw_targets;   /* values that the model has to reach as they are */
} yki_tool_course;

enum { TOOL_HINT = 256 };

/* A sentence that says what went wrong and what may help; false: nothing did. */
bool yki_tool_hint(const yki_tool_course *course, char text[TOOL_HINT]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * hint.c - one sentence after a training whose loss is no number, grew, or hardly
 * fell. It looks at the loss alone, which every model has.
 */
#include <math.h>
#include <stdio.h>

#include "hint.h"

/* A mean over an epoch differs from the loss of one step by more than that only if something
 * happened. */
static const double GROWN = 1.05, HARDLY_FALLEN = 0.9, LESS = 0.1, MORE = 10;

/* What to try with this learning rate. */
static void
advise(const yki_tool_course *c, double factor, char text[TOOL_HINT], int used)
{
    if (used < 0 || used >= TOOL_HINT)
        return;
    snprintf(text + used, (size_t)(TOOL_HINT - used), "; try --lr=%g%s%s", c->rate * factor,
             c->normalized ? "" : " or --normalize",
             c->raw_targets ? ", or targets between -1 and 1" : "");
}

bool
yki_tool_hint(const yki_tool_course *c, char text[TOOL_HINT])
{
    if (!isfinite(c->last)) {
        advise(c, LESS, text, snprintf(text, TOOL_HINT, "the loss is no longer a number"));
        return true;
    }
    if (!(c->first > 0) || c->last <= HARDLY_FALLEN * c->first)
        return false;
    if (c->last > GROWN * c->first)
        advise(c, LESS, text,
               snprintf(text, TOOL_HINT, "the loss grew from %.4g to %.4g", c->first, c->last));
    else
        advise(c, MORE, text,
               snprintf(text, TOOL_HINT, "the loss hardly fell, from %.4g to %.4g", c->first,
                        c->last));
    return true;
}

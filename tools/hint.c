/* SPDX-License-Identifier: Apache-2.0
 *
 * hint.c - one sentence after a training whose loss is no number, grew, or hardly
 * fell. It looks only at the loss, which every model has.
 */
#include <math.h>
#include <stdio.h>

#include "hint.h"
#include "progress.h"

static const double LESS = 0.1, MORE = 10;

/* The loss of one step is that of few samples, so it may be far off. */
static bool
has_grown(const yki_tool_course *c)
{
    return c->last > 3 * c->step || (c->last > 1.05 * c->early && c->last > c->step);
}

/* One epoch says little, because its mean loss is higher than the loss at its end. A large learning
 * rate may learn much in the first few steps; the loss of the first step still shows that. */
static bool
has_hardly_fallen(const yki_tool_course *c)
{
    return c->epochs > 1 && c->last > 0.9 * c->early && c->last > 0.5 * c->step;
}

bool
yki_tool_hint(const yki_tool_course *c, char text[TOOL_HINT])
{
    char wrong[80] = "is no longer a number", from[TOOL_LOSS], to[TOOL_LOSS];
    double factor = LESS;

    if (isfinite(c->last) && has_grown(c)) {
        snprintf(wrong, sizeof wrong, "grew from %s to %s", yki_tool_loss_text(c->step, from),
                 yki_tool_loss_text(c->last, to));
    } else if (isfinite(c->last)) {
        if (!has_hardly_fallen(c))
            return false;
        snprintf(wrong, sizeof wrong, "hardly fell, from %s to %s",
                 yki_tool_loss_text(c->early, from), yki_tool_loss_text(c->last, to));
        factor = MORE;
    }
    snprintf(text, TOOL_HINT, "the loss %s; try --lr=%g%s%s", wrong, c->rate * factor,
             c->normalized ? "" : " or --normalize",
             c->raw_targets ? ", or targets between -1 and 1" : "");
    return true;
}

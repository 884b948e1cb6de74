/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_spaces.c - spaces that nobody holds, for who asks for the same again.
 *
 * Idea: a program trains, predicts and tries one team after another on the same devices. With its
 * space a device would lose its cl_context and all compiled programs each time, and build them
 * anew. So the context keeps the spaces that were left last, without queues or buffers.
 *
 * A space is not kept after any OpenCL call on it has failed: a driver may answer all later calls
 * in that cl_context with an error. Nor is one that has its memory together with others, as these
 * would have to be asked for together again. A cl_context takes memory of a GPU, so of a device
 * with memory of its own one space is kept.
 *
 * All functions want context->lock.
 */
#include <string.h>

#include "device/internal.h"

/* Takes the space at `index` off the list. */
static yki_space *
take_at(yoke_context *context, size_t index)
{
    yki_space *space = context->kept[index];

    context->kept_count--;
    memmove(context->kept + index, context->kept + index + 1,
            (context->kept_count - index) * sizeof *context->kept);
    return space;
}

/* Returns the space that must go so that this one can be kept, or NULL. */
static yki_space *
make_room(const yki_space *space)
{
    yoke_context *context = space->root->context;

    for (size_t i = 0; i < context->kept_count && !space->root->traits.host_memory; i++)
        if (context->kept[i]->root == space->root)
            return take_at(context, i);
    return context->kept_count < YKI_KEPT_SPACES ? NULL : take_at(context, 0);
}

yki_space *
yki_space_keep(yki_space *space)
{
    yoke_context *context = space->root->context;
    yki_space *over;

    if (!space->memory || space->memory->limit || atomic_load(&space->failed))
        return space;
    over = make_room(space);
    context->kept[context->kept_count++] = space;
    return over;
}

/* Makes a space as if it were new, but for its programs. */
static void
renew(yki_space *space)
{
    yki_free(space->last_holder);
    space->last_holder = NULL;
    space->compiled.count = 0;
    space->compiled.seconds = space->compiled.reported = 0;
    for (size_t i = 0; i < space->device_count; i++) {
        space->devices[i].quota = 0;
        atomic_store(&space->devices[i].peak, 0);
        atomic_store(&space->devices[i].asleep, false);
    }
}

yki_space *
yki_space_take_kept(const yki_root *root, const yki_split *split, bool core_groups)
{
    yoke_context *context = root->context;

    for (size_t i = context->kept_count; i-- > 0;) {
        yki_space *space = context->kept[i];

        if (space->root == root && space->core_groups == core_groups &&
            !strcmp(space->split.text, split->text)) {
            yki_log(YOKE_LOG_DEBUG, "%s as it was left", space->layout);
            renew(space);
            return take_at(context, i);
        }
    }
    return NULL;
}

yki_space *
yki_space_take_oldest(yoke_context *context)
{
    return context->kept_count ? take_at(context, 0) : NULL;
}

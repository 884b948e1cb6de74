/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_spaces.c - spaces that nobody holds, kept for whoever asks for the same again.
 *
 * Idea: a program trains, predicts and tries one team after another on the same devices. With its
 * space a device would lose its cl_context and all compiled programs each time, and build them
 * anew. So the context keeps the spaces that were left last, without queues or buffers.
 *
 * A space is not kept after an OpenCL call on it has failed: a driver may answer all later calls in
 * that cl_context with an error. Nor is one that has its memory together with others, as these
 * would have to be asked for together again; nor one of a device with memory of its own, of which a
 * cl_context takes some; nor one with very many programs, as those of a user's own kernels may be.
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

/* No case of tests/train/check_shards has more than 31. */
enum { MOST_PROGRAMS = 1000 };

static bool
is_worth_keeping(const yki_space *space)
{
    size_t programs = 0;

    for (const yki_program *p = space->programs; p && programs <= MOST_PROGRAMS; p = p->next)
        programs++;
    return space->memory && !space->memory->limit && space->root->traits.host_memory &&
           programs <= MOST_PROGRAMS && !atomic_load(&space->failed);
}

yki_space *
yki_space_keep(yki_space *space)
{
    yoke_context *context = space->root->context;
    yki_space *over;

    if (!is_worth_keeping(space))
        return space;
    over = context->kept_count < YKI_KEPT_SPACES ? NULL : take_at(context, 0);
    context->kept[context->kept_count++] = space;
    return over;
}

/* Makes a space as if it were new, but for its programs. (What a device has used is 0, and who
 * selects it sets its quota.) */
static void
renew(yki_space *space)
{
    yki_free(space->last_holder);
    space->last_holder = NULL;
    space->compiled.count = 0;
    space->compiled.seconds = space->compiled.reported = 0;
    for (size_t i = 0; i < space->device_count; i++)
        atomic_store(&space->devices[i].asleep, false);
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

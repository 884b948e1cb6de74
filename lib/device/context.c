/* SPDX-License-Identifier: Apache-2.0
 *
 * context.c - the life of a context, and the questions that it answers.
 *
 * The application, every selection, every space and every retained lent device hold a
 * reference, so the application may destroy the context first. Spaces that nobody holds
 * (kept_spaces.c) hold none.
 *
 * Not here: finding the devices (find_devices.c).
 */
#include "device/internal.h"

void
yki_context_retain(yoke_context *context)
{
    atomic_fetch_add(&context->references, 1);
}

static void
free_context(yoke_context *context)
{
    yki_spaces_forget(context);
    for (size_t i = 0; i < context->root_count; i++)
        yki_space_destroy_lent(&context->roots[i]);
    for (size_t i = 0; i < context->problem_count; i++)
        yki_free(context->problems[i]);
    yki_free(context->roots);
    yki_free(context->problems);
    yki_free(context->cache_dir);
    yki_free(context->tried);
    pthread_mutex_destroy(&context->probe_lock);
    pthread_mutex_destroy(&context->lock);
    yki_free(context);
}

void
yki_context_release(yoke_context *context)
{
    if (atomic_fetch_sub(&context->references, 1) == 1)
        free_context(context);
}

void
yoke_context_destroy(yoke_context *context)
{
    if (context)
        yki_context_release(context);
}

size_t
yoke_context_problem_count(const yoke_context *context)
{
    return context ? context->problem_count : 0;
}

const char *
yoke_context_get_problem(const yoke_context *context, size_t index)
{
    return context && index < context->problem_count ? context->problems[index] : NULL;
}

size_t
yoke_context_device_count(const yoke_context *context)
{
    return context ? context->root_count : 0;
}

yoke_device *
yoke_context_get_device(yoke_context *context, size_t index)
{
    return context && index < context->root_count ? context->roots[index].whole : NULL;
}

const char *
yki_context_cache_dir(const yoke_context *context)
{
    return context->cache_dir;
}

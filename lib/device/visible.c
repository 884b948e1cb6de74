/* SPDX-License-Identifier: Apache-2.0
 *
 * visible.c - hides devices from a context: YOKE_VISIBLE_DEVICES names those that stay.
 *
 * Idea: the devices are first ordered and numbered as if none were hidden, so the variable means
 * the same in every process. The devices that it does not name are then taken off the list, and
 * the others get new numbers. The rest of the library does not know of hidden devices.
 *
 * Not here: sub-devices and slices. The variable hides whole devices; a selector divides them.
 */
#include <stdlib.h>

#include "device/internal.h"

static const char variable[] = "YOKE_VISIBLE_DEVICES";

static yoke_status
check_whole(const char *text, const yki_selector *selector)
{
    for (size_t i = 0; i < selector->count; i++) {
        const yki_selector_item *part = &selector->parts[i];

        if (part->split.kind != YKI_SPLIT_NONE || part->quota)
            return yki_selector_fail(text, part->start, part->length,
                                     "a device is hidden or visible as a whole: give the split "
                                     "and the quota in YOKE_DEVICES or in the selector");
    }
    return YOKE_OK;
}

/* Here `all` names every device, unlike in a selector: the driver of a chip is chosen later, among
 * the visible ones. */
static bool
names(const yoke_context *context, const yki_selector_item *part, const yki_root *root)
{
    return part->base == YKI_BASE_ALL || yki_selector_item_names(context, part, root);
}

static bool
is_visible(const yoke_context *context, const yki_selector *selector, const yki_root *root)
{
    for (size_t i = 0; i < selector->count; i++)
        if (names(context, &selector->parts[i], root))
            return true;
    return false;
}

/* An item that names no device is a mistake, even if other items name some. */
static yoke_status
check_matches(const yoke_context *context, const char *text, const yki_selector *selector)
{
    for (size_t i = 0; i < selector->count; i++) {
        const yki_selector_item *part = &selector->parts[i];
        size_t root = 0;

        while (root < context->root_count && !names(context, part, &context->roots[root]))
            root++;
        if (root == context->root_count)
            return yki_selector_fail_unmatched(context, text, part);
    }
    return YOKE_OK;
}

static void
hide_others(yoke_context *context, const yki_selector *selector)
{
    size_t kept = 0;

    for (size_t i = 0; i < context->root_count; i++) {
        const yki_root *root = &context->roots[i];

        if (is_visible(context, selector, root))
            context->roots[kept++] = *root;
        else
            yki_log(YOKE_LOG_INFO, "%s hides %s (%s)", variable, root->info.id, root->info.name);
    }
    context->hidden_count = context->root_count - kept;
    context->root_count = kept;
    yki_roots_order(context->roots, kept);
}

static yoke_status
hide(yoke_context *context, const char *text)
{
    yki_selector selector = {0};
    yoke_status status = yki_selector_parse(text, &selector);

    if (status == YOKE_OK)
        status = check_whole(text, &selector);
    if (status == YOKE_OK)
        status = check_matches(context, text, &selector);
    if (status == YOKE_OK)
        hide_others(context, &selector);
    yki_selector_free(&selector);
    if (status == YOKE_ERROR_SELECTOR)
        status = yki_context_add_devices(context, status);
    return status == YOKE_OK ? YOKE_OK : yki_fail_in(status, variable);
}

yoke_status
yki_context_hide(yoke_context *context)
{
    const char *text = getenv(variable);

    if (!text)
        return YOKE_OK;
    if (yki_selector_is_empty(text))
        return yki_fail(YOKE_ERROR_NO_DEVICE,
                        "%s is empty, which hides every device; must name devices, such as all or "
                        "gpu:0, or be unset",
                        variable);
    return hide(context, text);
}

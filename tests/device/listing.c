/* SPDX-License-Identifier: Apache-2.0
 *
 * listing.c - see listing.h.
 */
#include <stdio.h>
#include <string.h>

#include "device/listing.h"
#include "support/support.h"

yoke_device_info
list_info_at(yoke_context *context, size_t index)
{
    yoke_device_info info;

    ASSERT_OK(yoke_device_get_info(yoke_context_get_device(context, index), &info));
    return info;
}

yoke_device_info
list_info_named(yoke_context *context, const char *id)
{
    for (size_t i = 0; i < yoke_context_device_count(context); i++)
        if (strcmp(list_info_at(context, i).id, id) == 0)
            return list_info_at(context, i);
    ck_abort_msg("there is no %s", id);
    return (yoke_device_info){.id = ""};
}

const char *
list_problems(const yoke_context *context)
{
    static char text[2048];

    text[0] = '\0';
    for (size_t i = 0; i < yoke_context_problem_count(context); i++) {
        size_t length = strlen(text);

        snprintf(text + length, sizeof text - length, "%s; ", yoke_context_get_problem(context, i));
    }
    return text;
}

/* "gpu:0 gpu:1" */
const char *
list_selected(yoke_context *context, const char *selector)
{
    static char text[512];
    yoke_selection *selection;

    text[0] = '\0';
    ASSERT_OK(yoke_selection_create(context, selector, NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++) {
        yoke_device_info info;
        size_t length = strlen(text);

        ASSERT_OK(yoke_device_get_info(yoke_selection_get(selection, i), &info));
        snprintf(text + length, sizeof text - length, "%s%s", i ? " " : "", info.id);
    }
    yoke_selection_destroy(selection);
    return text;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * listing.h - what a context lists and a selector selects, in a form to compare. Each
 * fails the test on an error.
 */
#ifndef YOKE_TESTS_LISTING_H
#define YOKE_TESTS_LISTING_H

#include "yoke.h"

yoke_device_info list_info_at(yoke_context *context, size_t index);
yoke_device_info list_info_named(yoke_context *context, const char *id);
/* Until the next call: all problems, one after the other. */
const char *list_problems(const yoke_context *context);
/* Until the next call: "gpu:0 gpu:1". */
const char *list_selected(yoke_context *context, const char *selector);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - what the files that write JSON share: a text that grows.
 */
#ifndef YKI_JSON_H
#define YKI_JSON_H

#include <jansson.h>

#include "base/base.h"

/* Zero is an empty one. After it ran out of memory nothing is added any more. */
typedef struct yki_json_text {
    char *text; /* with a 0 behind it, once something was added */
    size_t length, capacity;
    bool failed;
} yki_json_text;

void yki_json_add(yki_json_text *text, const char *part);
/* One value, written by jansson with `flags`; takes `value`. */
void yki_json_add_value(yki_json_text *text, json_t *value, size_t flags);
/* The text, which is the caller's (yki_free), or none: then the status says so. */
yoke_status yki_json_take(yki_json_text *text, char **out);

/* The shortest number that is this float again; what JSON has no number for is a text: "inf". */
json_t *yki_json_float(float value);
/* False: no number, or more than a float holds. */
bool yki_json_get_float(const json_t *json, float *value);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - for files that write JSON: a text that grows, and floats.
 */
#ifndef YKI_JSON_H
#define YKI_JSON_H

#include <jansson.h>

#include "base/base.h"

/* Zero is an empty text. After an allocation fails, nothing is added any more. */
typedef struct yki_json_text {
    char *text; /* ends with a 0 once something is added */
    size_t length, capacity;
    bool failed;
} yki_json_text;

void yki_json_add(yki_json_text *text, const char *part);
/* Appends one value, written by jansson with `flags`. Takes over `value`; NULL counts as a failure.
 */
void yki_json_add_value(yki_json_text *text, json_t *value, size_t flags);
/* Gives the text to the caller, who frees it with yki_free. Fails if an addition failed or nothing
 * was added. The text is empty afterwards. */
yoke_status yki_json_take(yki_json_text *text, char **out);

/* The shortest JSON number that gives this float again. Infinities and NaN, which JSON lacks, are
 * texts: "inf". */
json_t *yki_json_float(float value);
/* Reads such a value. False: it is no number, or too large for a float. */
bool yki_json_get_float(const json_t *json, float *value);

#endif

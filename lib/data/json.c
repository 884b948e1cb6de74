/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - a text that grows, and floats in JSON.
 */
#include "data/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
add_bytes(const char *bytes, size_t size, void *user)
{
    yki_json_text *text = user;

    if (text->failed || yki_grow((void **)&text->text, &text->capacity, text->length + size + 1, 1,
                                 "a text") != YOKE_OK) {
        text->failed = true;
        return -1;
    }
    memcpy(text->text + text->length, bytes, size);
    text->length += size;
    text->text[text->length] = '\0';
    return 0;
}

void
yki_json_add(yki_json_text *text, const char *part)
{
    (void)add_bytes(part, strlen(part), text);
}

void
yki_json_add_value(yki_json_text *text, json_t *value, size_t flags)
{
    /* Nine digits are enough for any float. */
    flags |= JSON_ENCODE_ANY | JSON_REAL_PRECISION(9);
    if (!value || json_dump_callback(value, add_bytes, text, flags) != 0)
        text->failed = true;
    json_decref(value);
}

yoke_status
yki_json_take(yki_json_text *text, char **out)
{
    if (text->failed || !text->text) {
        yki_free(text->text);
        memset(text, 0, sizeof *text);
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for a text in JSON");
    }
    *out = text->text;
    memset(text, 0, sizeof *text);
    return YOKE_OK;
}

json_t *
yki_json_float(float value)
{
    char text[32];

    if (isnan(value))
        return json_string("nan");
    if (isinf(value))
        return json_string(value > 0 ? "inf" : "-inf");
    if (value == truncf(value) && fabsf(value) < 1e6f && !(value == 0 && signbit(value)))
        return json_integer((json_int_t)value);
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            return json_real(strtod(text, NULL));
    }
    return json_real((double)value);
}

bool
yki_json_get_float(const json_t *json, float *value)
{
    const char *text = json_string_value(json);
    double number = json_number_value(json);

    if (text && strcmp(text, "nan") == 0)
        *value = NAN;
    else if (text && strcmp(text, "inf") == 0)
        *value = INFINITY;
    else if (text && strcmp(text, "-inf") == 0)
        *value = -INFINITY;
    else if (json_is_number(json) && fabs(number) < 0x1.ffffffp127) /* rounds to FLT_MAX at most */
        *value = (float)number;
    else
        return false;
    return true;
}

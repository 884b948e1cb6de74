/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c - see fields.h.
 */
#include <stdio.h>

#include "fields.h"

size_t
yki_tool_values_of(yoke_shape shape)
{
    size_t count = 1;

    for (int32_t i = 0; i < shape.rank; i++)
        count *= (size_t)shape.dim[i];
    return count;
}

const char *
yki_tool_type_name(yoke_type type)
{
    return type == YOKE_U8 ? "u8" : type == YOKE_I32 ? "i32" : "f32";
}

size_t
yki_tool_type_bytes(yoke_type type)
{
    return type == YOKE_U8 ? 1 : 4;
}

double
yki_tool_number_at(yoke_type type, const void *values, size_t at)
{
    return type == YOKE_U8    ? ((const uint8_t *)values)[at]
           : type == YOKE_I32 ? ((const int32_t *)values)[at]
                              : (double)((const float *)values)[at];
}

const char *
yki_tool_class_name(const yoke_model *model, size_t index, char number[24])
{
    const char *name = yoke_model_get_class_name(model, index);

    snprintf(number, 24, "%zu", index);
    return name ? name : number;
}

yoke_status
yki_tool_fail_about(yoke_status status, const char *path, const char *what)
{
    char sentence[512];

    snprintf(sentence, sizeof sentence, "%s: %s", path, what);
    return yoke_fail(status, sentence);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.h - what the commands say and ask of fields, their types and their classes.
 */
#ifndef YOKE_TOOLS_FIELDS_H
#define YOKE_TOOLS_FIELDS_H

#include <yoke.h>

size_t yki_tool_values_of(yoke_shape shape); /* values of one sample */
const char *yki_tool_type_name(yoke_type type);
size_t yki_tool_type_bytes(yoke_type type);
/* Returns one of some values of a type. */
double yki_tool_number_at(yoke_type type, const void *values, size_t at);
/* Returns a class's name in a model, or else its number, written to `number`. */
const char *yki_tool_class_name(const yoke_model *model, size_t index, char number[24]);
/* Fails with "PATH: what". */
yoke_status yki_tool_fail_about(yoke_status status, const char *path, const char *what);

#endif

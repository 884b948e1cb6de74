/* SPDX-License-Identifier: Apache-2.0
 *
 * option_file.h - the options of a command as an object of JSON in a file, whose members have the
 * names of the options: true, a number or a text.
 */
#ifndef YOKE_TOOLS_OPTION_FILE_H
#define YOKE_TOOLS_OPTION_FILE_H

#include <jansson.h>

#include "tool.h"

/* Reads the options of a file into the struct that the command's rows have offsets of, as
 * yki_tool_read does. What is not in the file stays as it is. Texts point into `*kept`, which the
 * caller gives to json_decref(). Returns TOOL_OK or the exit status of an error. */
int yki_tool_read_options(const yki_tool_command *command, const char *path, void *to,
                          json_t **kept);
/* Writes the options that are given: those whose values are not zeros. `except` has names that are
 * left out, and ends with NULL. A file that was there stays as it was if the new one cannot be
 * written. */
yoke_status yki_tool_write_options(const yki_tool_command *command, const char *path,
                                   const void *from, const char *const *except);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * info.h - what a file of a model or a checkpoint holds, in words.
 */
#ifndef YOKE_TOOLS_INFO_H
#define YOKE_TOOLS_INFO_H

#include <stdio.h>

#include <yoke.h>

/* Writes what `yoke info` shows of a path. */
yoke_status yki_tool_info_print(const char *path, FILE *stream);

#endif

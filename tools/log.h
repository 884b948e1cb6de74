/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - the file of `yoke train --log` when training goes on.
 */
#ifndef YOKE_TOOLS_LOG_H
#define YOKE_TOOLS_LOG_H

#include <stdint.h>
#include <stdio.h>

/* Ends a log that is open for appending before its first line of a step behind `steps`, or of an
 * epoch that ended behind step `epochs`, or that is not whole. What is no regular file stays as it
 * is. An errno, or 0. */
int yki_tool_log_cut(FILE *log, const char *path, int64_t steps, int64_t epochs);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - the file of `yoke train --log` when a training is resumed.
 */
#ifndef YOKE_TOOLS_LOG_H
#define YOKE_TOOLS_LOG_H

#include <stdint.h>
#include <stdio.h>

/* Cuts a log that is open for appending before its first line that is about a step after `steps`,
 * or about an epoch that ended after step `epochs`, or that is incomplete. If the log is no regular
 * file it stays as it is. Returns an errno, or 0. */
int yki_tool_log_cut(FILE *log, const char *path, int64_t steps, int64_t epochs);

#endif

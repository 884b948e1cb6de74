/* SPDX-License-Identifier: Apache-2.0
 *
 * history.h - the course of a training, as the log of `yoke train` tells it.
 */
#ifndef YOKE_TOOLS_HISTORY_H
#define YOKE_TOOLS_HISTORY_H

#include <stddef.h>

#include <yoke.h>

enum { TOOL_MOST_CURVES = 64 }; /* of a log with more devices the shares are left out */

typedef struct yki_tool_point {
    double step, value, weight; /* in means */
} yki_tool_point;

typedef struct yki_tool_curve {
    yki_tool_point *points; /* in the order of steps, each of which comes once */
    size_t count, capacity;
} yki_tool_curve;

typedef struct yki_tool_history {
    yki_tool_curve loss, test_loss, metric, test_metric; /* tests are at the ends of epochs */
    yki_tool_curve rate;                                 /* of learning */
    yki_tool_curve speed; /* samples a second; tests between epochs do not count */
    yki_tool_curve shares[TOOL_MOST_CURVES];
    size_t devices;
    char *names[TOOL_MOST_CURVES]; /* of devices; NULL: unknown */
    char *metric_name;
    double steps;          /* the number of the last one */
    double epochs;         /* likewise */
    double batch, samples; /* 0: unknown */
    double seconds, epoch; /* of the step before, while a log is read */
} yki_tool_history;

/* Reads a log into a history of zeros, which the caller clears also after an error. If it has a
 * step twice, after a resumed training, the later one counts. */
yoke_status yki_tool_history_read(const char *path, yki_tool_history *history);
void yki_tool_history_clear(yki_tool_history *history);

#endif

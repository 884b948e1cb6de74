/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.h - the timeline of a trainer, and the file that it becomes.
 */
#ifndef YKI_TIMELINE_H
#define YKI_TIMELINE_H

#include "device/trace.h"
#include "train/trainer.h"

struct yki_timeline {
    yki_trace *trace;
    char *path; /* of the file */
};

/* Takes pieces of the file. */
typedef struct yki_timeline_sink {
    yoke_status (*write)(void *user, const char *text, size_t length);
    void *user;
} yki_timeline_sink;

/* ---- timeline_json.c ---- */

/* Writes what comes before and behind the events of all processes. */
yoke_status yki_timeline_write_head(const yki_timeline_sink *to);
yoke_status yki_timeline_write_tail(const yki_timeline_sink *to);
/* Writes the events of this process. `sights` are of rank 0's clock and give its times; they are
 * unknown in rank 0 itself. `zero` is the time of that clock from which the file counts. Changes
 * the records. */
yoke_status yki_timeline_write(yki_trace *trace, int32_t rank, const char *host,
                               const yki_sight sights[2], double zero, const yki_timeline_sink *to);

#endif

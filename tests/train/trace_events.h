/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_events.h - what holds for the events of every timeline. Knows nothing of yoke but the names
 * of tracks.
 */
#ifndef YOKE_TESTS_TRACE_EVENTS_H
#define YOKE_TESTS_TRACE_EVENTS_H

#include <jansson.h>
#include <stdbool.h>

typedef struct trace_counts {
    int processes, threads;
    int spans, counters;
    int gradients;  /* arrows from gradients to the update */
    int last;       /* arrows from the process that came last */
    int operations; /* of all processes together */
    double slack;   /* microseconds by which times of two tracks may be wrong to one another */
} trace_counts;

/* Returns a sentence about the first thing that does not hold, NULL if all is well: every span is
 * on a thread with a name in a process with a name; spans of a thread are in the order of their
 * begins, and none is half in another; every arrow begins once and ends once, on spans, and with
 * `clocks`, which all devices have, goes forward; an operation of all processes is made by all of
 * them at some time. */
const char *trace_events_fault(const json_t *events, bool clocks, trace_counts *counts);

#endif

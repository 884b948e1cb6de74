/* SPDX-License-Identifier: Apache-2.0
 *
 * read_trace.c - checks the file of a timeline, and prints what is in it as words with numbers.
 *
 *   read_trace FILE
 *
 * Exit status: 0, 1 (it is not as it must be).
 */
#include <stdio.h>

#include "train/trace_events.h"

int
main(int argc, char **argv)
{
    json_error_t error;
    json_t *file = argc == 2 ? json_load_file(argv[1], JSON_REJECT_DUPLICATES, &error) : NULL;
    trace_counts c;
    const char *wrong;

    if (!file) {
        fprintf(stderr, "read_trace: %s\n", argc == 2 ? error.text : "read_trace FILE");
        return 1;
    }
    wrong = trace_events_fault(json_object_get(file, "traceEvents"), true, &c);
    json_decref(file);
    if (wrong) {
        fprintf(stderr, "read_trace: %s: %s\n", argv[1], wrong);
        return 1;
    }
    printf("processes %d threads %d spans %d counters %d gradients %d last %d operations %d\n",
           c.processes, c.threads, c.spans, c.counters, c.gradients, c.last, c.operations);
    printf("slack %.0f\n", c.slack);
    return 0;
}

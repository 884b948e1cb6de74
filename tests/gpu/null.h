/* SPDX-License-Identifier: Apache-2.0
 *
 * null.h - how a test talks to the null driver: an OpenCL driver that answers like a GPU, compiles
 * and runs nothing, and counts what it is asked to do. support/gpu.h opens it.
 *
 * Buffers have memory, which writes and copies change. Kernels change nothing, so results are
 * whatever was there before: what is looked at is the work, not the numbers.
 */
#ifndef YOKE_TESTS_GPU_NULL_H
#define YOKE_TESTS_GPU_NULL_H

#include <stdint.h>

/* Since the process began. Take the difference of two. */
typedef struct null_counts {
    uint64_t launches;
    uint64_t writes, reads, copies, fills, maps; /* commands */
    uint64_t bytes_written, bytes_read;          /* between host and device */
    uint64_t markers, flushes;
    uint64_t
        stops; /* calls for which the host waits: blocking commands, clFinish, clWaitForEvents */
    uint64_t arguments; /* that were set */
} null_counts;

typedef struct null_driver {
    void (*get_counts)(null_counts *counts);
    /* Each later command is written to the file `path`, one a line; NULL: no more. */
    int (*log)(const char *path);
} null_driver;

#define NULL_DRIVER_SYMBOL "yoke_null_driver"
const null_driver *yoke_null_driver(void);

#endif

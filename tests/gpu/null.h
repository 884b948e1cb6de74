/* SPDX-License-Identifier: Apache-2.0
 *
 * null.h - how a test talks to the null driver: an OpenCL driver that answers like a GPU, compiles
 * and runs nothing, and counts what it is asked to do. support/gpu.h opens it.
 *
 * Buffers have memory, which writes and copies change. Kernels change nothing, but for that of a
 * trial (lib/device/memory.c), so results are whatever was there before: what is looked at is the
 * work, not the numbers.
 */
#ifndef YOKE_TESTS_GPU_NULL_H
#define YOKE_TESTS_GPU_NULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Since the process began. Take the difference of two. */
typedef struct null_counts {
    uint64_t launches;
    uint64_t launch_events; /* launches whose event was asked for */
    uint64_t lonely;        /* of them, those of GPUs whose groups have one work-item */
    uint64_t writes, reads, copies, fills, maps; /* commands */
    uint64_t bytes_written, bytes_read;          /* between host and device */
    uint64_t bytes_unpinned; /* of them, those from or to memory of the host that is not pinned */
    uint64_t bytes_in_line;  /* of them, those in a queue with kernels, which wait for them */
    uint64_t markers, flushes;
    uint64_t unflushed; /* events for which another queue waits before their command was flushed */
    /* Times that the thread which makes steps waits for devices; others may. Waiting for several,
     * with nothing enqueued in between, is one; asking again and again whether a command is done is
     * waiting, too. */
    uint64_t stops;
    uint64_t gpu_waits;   /* events of GPUs in clWaitForEvents, where some drivers spin */
    uint64_t arguments;   /* that were set */
    uint64_t hasty_views; /* sub-buffers that went before a newer one of the same buffer */
} null_counts;

/* What goes wrong from now on. The strings stay the caller's; "*" stands for all. */
typedef struct null_faults {
    int builds;           /* so many programs do not build */
    const char *launch;   /* a kernel's name */
    int launch_error;     /* of launches of this kernel, as CL_OUT_OF_RESOURCES */
    const char *narrow;   /* a kernel's name */
    size_t narrow_group;  /* CL_KERNEL_WORK_GROUP_SIZE of this kernel */
    size_t multiple;      /* CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE; 0: 32 */
    bool dead;            /* no command works any more */
    bool contexts_of_one; /* there is no context of several devices */
    bool memories_apart;  /* of several devices of a context one alone writes where others look */
    bool memories_copied; /* each has a copy of a buffer: it fetches another one's, whole, where it
                             waits for that one */
    bool gates_hold; /* a write that waits for an event of the host holds the host until then, */
    bool gates_hold_queues; /* or every other queue of the driver */
    int flushes; /* with the one of this number a queue is lost: 1 is the next; 0: none */
} null_faults;

typedef struct null_driver {
    void (*get_counts)(null_counts *counts);
    /* Each later command is written to the file `path`, one a line; NULL: no more. */
    int (*log)(const char *path);
    /* A step begins. Those before the last one are done by now: a host that is so far ahead has to
     * wait. Everything younger is done when the host waits for it, or for a younger command of the
     * same device. */
    void (*begin_step)(void);
    void (*set_faults)(const null_faults *faults);
} null_driver;

#define NULL_DRIVER_SYMBOL "yoke_null_driver"
const null_driver *yoke_null_driver(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.h - the bodies of queues, buffers and kernels, and how a command gets
 * into a queue; for the files of lib/device that enqueue, nobody else.
 *
 * Idea: every command goes through the same two steps. yki_queue_begin makes
 * sure that what it waits for will happen (flushing other queues, waiting on the
 * host for other contexts) and that there is room to remember the command;
 * yki_queue_end gives it a serial number, remembers its event until it is known
 * to have succeeded, and hands the event out.
 */
#ifndef YKI_DEVICE_RUNTIME_H
#define YKI_DEVICE_RUNTIME_H

#include "device/internal.h"

enum { YKI_NAME_LENGTH = 40 }; /* of buffers and kernels, as errors show them; longer is cut */

/* A command whose outcome is not known yet. */
typedef struct yki_pending {
    cl_event event;
    uint64_t serial;
    const char *verb; /* "writing", a constant */
    char name[YKI_NAME_LENGTH];
} yki_pending;

struct yki_queue {
    yoke_device *device; /* retained */
    yki_queue *next;     /* in device->queues */
    cl_command_queue cl;
    bool timed;
    /* Made when first needed; their arguments are set anew for each launch. */
    yki_kernel *fill, *copy;
    /* What the command being enqueued waits for. */
    cl_event *waits;
    size_t wait_capacity;
    /* Below: also used by a thread that waits for one of this queue's events. */
    pthread_mutex_t lock;
    uint64_t serial;  /* of the newest command */
    uint64_t flushed; /* up to this serial */
    yki_pending *pending;
    size_t pending_first, pending_count, pending_capacity;
    cl_int error; /* of the first failed command nobody heard of; CL_SUCCESS: none */
    const char *error_verb;
    char error_name[YKI_NAME_LENGTH];
};

struct yki_buffer {
    yoke_device *owner; /* retained */
    uint64_t size;
    cl_mem cl;
    void *host;  /* NULL: the memory cannot be used directly */
    bool pinned; /* for the host and for copies only, on every device */
    bool view;   /* a part of another buffer, which paid for it */
    bool mapped; /* pinned by mapping it for good: no command may name its cl_mem */
    char name[YKI_NAME_LENGTH];
};

struct yki_kernel {
    yki_program *program; /* retained */
    cl_kernel cl;
    size_t required[3]; /* reqd_work_group_size; zeros: any */
    cl_uint argument_count;
    uint64_t set; /* bit i: argument i has a value; the first 64 are watched */
    char name[YKI_NAME_LENGTH];
};

/* The newest command's event, retained; zeroed when nothing is pending. */
yoke_status yki_queue_newest(yki_queue *queue, yki_event *event);

/* On success queue->waits holds *count events for the command. */
yoke_status yki_queue_begin(yki_queue *queue, yki_wait wait, cl_uint *count);
/* `error` and `event` as `call` gave them; "writing conv1.weight" is what was being done. */
yoke_status yki_queue_end(yki_queue *queue, cl_int error, cl_event event, const char *call,
                          const char *verb, const char *name, yki_event *done);
/* The host waits for every queue of a space. Errors stay with the queues. */
void yki_space_finish(yki_space *space);

/* Is [offset, offset + size) inside? `verb` begins the sentence if not. */
yoke_status yki_buffer_check(const yki_buffer *buffer, uint64_t offset, uint64_t size,
                             const char *verb);

/* Cuts `text` to fit. */
void yki_name_set(char name[YKI_NAME_LENGTH], const char *text);

#endif

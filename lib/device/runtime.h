/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.h - the bodies of queues, buffers and kernels, and the way a command gets
 * into a queue. Only the files of lib/device that enqueue include it.
 *
 * Idea: every command goes through the same two steps. yki_queue_begin makes sure
 * that the events that the command waits for will happen: it flushes other queues,
 * and waits on the host for other contexts. It also makes room to remember the
 * command. yki_queue_end gives the command a serial number, remembers its event
 * until the outcome is known, and hands the event out.
 */
#ifndef YKI_DEVICE_RUNTIME_H
#define YKI_DEVICE_RUNTIME_H

#include "device/internal.h"
#include "device/trace.h"

enum { YKI_NAME_LENGTH = 40 }; /* of a buffer or kernel in errors; longer names are cut */

/* A command whose outcome is not known yet. */
typedef struct yki_pending {
    cl_event event;
    uint64_t serial;
    size_t record;    /* its number in the track of the queue, from 1; 0: none */
    const char *verb; /* a constant, such as "writing" */
    char name[YKI_NAME_LENGTH];
} yki_pending;

struct yki_queue {
    yoke_device *device; /* retained */
    yki_queue *next;     /* in device->queues */
    cl_command_queue cl;
    bool timed;
    bool sparse;           /* most launches have no event: with it they cost twice as much */
    yki_track *track;      /* where commands are recorded; NULL: nowhere */
    yki_trace_about about; /* of the next command */
    double entered;        /* when it began to be enqueued, by the host's clock */
    bool was_timed;        /* before it was traced */
    /* Made when first needed. Each launch sets their arguments anew. */
    yki_kernel *fill, *copy;
    /* The events that the command being enqueued waits for. */
    cl_event *waits;
    size_t wait_capacity;
    /* The lock guards the members below: other threads use them to wait for this queue's events. */
    pthread_mutex_t lock;
    uint64_t serial;      /* of the newest command */
    uint64_t flushed;     /* commands up to this serial are flushed */
    uint64_t seen;        /* the newest command that has an event */
    yki_pending *pending; /* oldest first, from pending_first on */
    size_t pending_first, pending_count, pending_capacity;
    cl_event *failed; /* kept until the queue is destroyed: see settle in queue.c */
    size_t failed_count, failed_capacity;
    bool unfinished; /* a wait for all of it failed */
    cl_int error;    /* of the first failed command, until a wait returns it; CL_SUCCESS: none */
    const char *error_verb;
    char error_name[YKI_NAME_LENGTH];
};

struct yki_buffer {
    yoke_device *owner;     /* retained */
    uint64_t size, charged; /* bytes; charged to the owner */
    cl_mem cl;
    void *host;         /* NULL: the host cannot use the memory directly */
    bool pinned;        /* YKI_BUFFER_PINNED: for the host and for copies only, on every device */
    bool view;          /* a range of another buffer, which was charged */
    bool gone;          /* destroyed, but kept for views that were made after it, or of it */
    yki_buffer *parent; /* of a view */
    yki_buffer *newest; /* of a buffer's views; those before it: */
    yki_buffer *before;
    bool mapped; /* pinned, and mapped until it is destroyed: no command may name its cl_mem */
    char name[YKI_NAME_LENGTH];
};

struct yki_kernel {
    yki_program *program; /* retained */
    cl_kernel cl;
    size_t required[3]; /* reqd_work_group_size; zeros: any */
    size_t most;        /* work-items in a group, for this kernel's registers */
    cl_uint argument_count;
    uint64_t set; /* bit i: argument i has a value; only the first 64 are checked */
    char name[YKI_NAME_LENGTH];
};

/* Gives the newest command's event, retained; its `cl` is NULL when no command is pending. */
yoke_status yki_queue_newest(yki_queue *queue, yki_event *event);

/* On success queue->waits holds *count events for the command to wait for. It may wait on the host
 * for events of other memories. */
yoke_status yki_queue_begin(yki_queue *queue, yki_wait wait, cl_uint *count);
/* Takes the `error` and the `event` that `call` gave. `verb` and `name` say in errors what was
 * being done, as in "writing conv1.weight"; `verb` must be a constant. `bytes` are those that are
 * copied, or 0. */
yoke_status yki_queue_end(yki_queue *queue, cl_int error, cl_event event, const char *call,
                          const char *verb, const char *name, uint64_t bytes, yki_event *done);
/* trace_commands.c, for queue.c, whose lock is held: record a command of a queue that is traced and
 * return its number on the track, 0 if it is lost; and record its times, when it is complete. */
size_t yki_queue_note(yki_queue *queue, const yki_pending *command, uint64_t bytes);
void yki_queue_note_times(yki_queue *queue, cl_event event, size_t number);
/* Frees what waits for the driver to tell the ends of commands. */
void yki_track_forget_ends(yki_track *track);
/* Waits on the host for every queue of a space. The queues keep their errors. */
void yki_space_finish(yki_space *space);
/* The same for every queue of the space's memory. */
void yki_memory_finish(yki_space *space);

/* Fails if [offset, offset + size) is not inside the buffer. `verb` begins the error. */
yoke_status yki_buffer_check(const yki_buffer *buffer, uint64_t offset, uint64_t size,
                             const char *verb);

/* Copies `text`, cut to fit. */
void yki_name_set(char name[YKI_NAME_LENGTH], const char *text);

#endif

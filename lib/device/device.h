/* SPDX-License-Identifier: Apache-2.0
 *
 * device.h - the internal interface of lib/device: logical devices and the
 * queues, events, buffers, links, programs and kernels on them. No cl_ type
 * appears here, so nothing above this folder sees OpenCL.
 *
 *   context --- root (one OpenCL device of one driver)
 *                 `-- space (one root under one split: one cl_context, shared memory)
 *                       |-- logical device (whole, sub-device or slice): quota, queues, buffers
 *                       `-- programs, built once for all devices of the space
 *
 * Above this folder nobody can tell a whole device from a part of one.
 *
 * Threads: a queue, buffer, kernel or link is used by one thread at a time;
 * context, space, program table and quota are locked inside.
 */
#ifndef YKI_DEVICE_H
#define YKI_DEVICE_H

#include "base/base.h"

typedef struct yki_space yki_space;
typedef struct yki_queue yki_queue;
typedef struct yki_buffer yki_buffer;
typedef struct yki_program yki_program;
typedef struct yki_kernel yki_kernel;
typedef struct yki_link yki_link;

/* ---- logical devices (selection.c, quota.c, info.c) ---- */

yki_space *yki_device_space(const yoke_device *device);
const char *yki_device_id(const yoke_device *device);
yoke_context *yki_device_context(const yoke_device *device);
/* Where compiled kernels (and wisdom) are kept; NULL: nothing is kept. Lent. */
const char *yki_context_cache_dir(const yoke_context *context);
/* What kernels and planners ask for; no compile, cannot fail. */
typedef struct yki_device_traits {
    uint32_t compute_units;
    uint32_t vector_width; /* native float lanes */
    uint64_t local_memory; /* bytes of __local */
    bool local_is_real;    /* __local is its own memory, not a part of global */
    uint32_t max_group;    /* work-items per work-group */
    uint64_t memory;       /* bytes */
    uint64_t max_allocation;
    uint64_t cache;      /* last-level cache the driver reports, bytes */
    uint32_t base_align; /* bytes, of sub-buffers */
    bool host_memory;    /* device memory is the host's */
    bool direct_host;    /* ... and host pointers of buffers may be used between finishes */
    bool fma;            /* fma() is one fast instruction */
    bool fp64;
    bool inf_nan;   /* CL_FP_INF_NAN */
    uint32_t turns; /* of loops, all in all, after which a work-item ends; 0: no limit */
    yoke_device_type type;
} yki_device_traits;
const yki_device_traits *yki_device_get_traits(const yoke_device *device);
/* What measured times depend on, as one line: "name; driver; platform; 2 units x 16". */
void yki_device_describe(const yoke_device *device, char *text, size_t size);
/* A retained device keeps its space, root and context alive. */
yoke_device *yki_device_retain(yoke_device *device);
void yki_device_release(yoke_device *device);
/* Tests that count objects: sub-devices that were given up are kept for a while (space.c); this
 * releases them. To be called when no work of theirs can still be ending. */
void yki_release_kept_parts(void);

/* ---- lanes (lanes.c): a whole CPU as a few devices that share its memory, each with units of its
 * own; their memory is charged to the whole device, which can be used beside them, and they have
 * its id ---- */

/* How many lanes the device can have, at most `most`, all of the same size; below 2: none. */
uint32_t yki_lanes_count(const yoke_device *device, uint32_t most);
yoke_status yki_lanes_create(yoke_device *whole, uint32_t count, yoke_selection **lanes);

/* Accounts for `size` bytes; over the quota it fails with asked, used, quota and device. */
yoke_status yki_quota_charge(yoke_device *device, uint64_t size, const char *what);
void yki_quota_return(yoke_device *device, uint64_t size);
/* Bytes that could still be charged. */
uint64_t yki_quota_left(const yoke_device *device);

/* ---- queues (queue.c): in order; a device has any number, usually one of each role ---- */

typedef enum yki_queue_role { YKI_QUEUE_COMPUTE, YKI_QUEUE_TRANSFER } yki_queue_role;

yoke_status yki_queue_create(yoke_device *device, yki_queue_role role, bool timed,
                             yki_queue **queue);
void yki_queue_destroy(yki_queue *queue); /* waits for what is enqueued */
yoke_status yki_queue_flush(yki_queue *queue);
/* Waits. An error of enqueued work is returned here, once, and names the device. */
yoke_status yki_queue_finish(yki_queue *queue);
yoke_device *yki_queue_device(const yki_queue *queue);

/* ---- events (queue.c): by value; a zeroed one stands for "nothing to wait for" ---- */

typedef struct yki_event {
    void *cl;         /* cl_event */
    yki_queue *queue; /* that will complete it; must outlive the event */
    uint64_t serial;  /* position in that queue, to know whether it was flushed */
} yki_event;

yki_event yki_event_retain(yki_event event);
void yki_event_release(yki_event *event);           /* and zeroes it */
yoke_status yki_event_wait(const yki_event *event); /* host waits; flushes first */
/* Nanoseconds on the device's clock; the queue must be timed and the event complete. */
yoke_status yki_event_times(const yki_event *event, uint64_t *start, uint64_t *end);

/* What a command waits for. Events of the same queue cost nothing (it is in order); those of
 * another queue of the same space have their queue flushed first, so nobody hangs; those of
 * another space cannot be waited for by a device and are waited for by the host. */
typedef struct yki_wait {
    const yki_event *events;
    size_t count;
} yki_wait;
#define YKI_NO_WAIT ((yki_wait){NULL, 0})

/* A command that does nothing after `wait`. */
yoke_status yki_queue_marker(yki_queue *queue, yki_wait wait, yki_event *done);

/* ---- buffers (buffer.c): charged to their owner; usable by every device of its space ---- */

/* Page-locked host memory, mapped for good: for its host pointer, as data of reads and writes,
 * and for yki_queue_copy; kernels, fills, reads and writes refuse it. Wait before destroying it. */
#define YKI_BUFFER_PINNED 1u

yoke_status yki_buffer_create(yoke_device *owner, uint64_t size, unsigned flags, const char *what,
                              yki_buffer **buffer);
/* A part of a buffer as a buffer, from a multiple of traits.base_align; the memory stays while
 * either lives, and is charged once. */
yoke_status yki_buffer_view(yki_buffer *parent, uint64_t offset, uint64_t size, yki_buffer **view);
void yki_buffer_destroy(yki_buffer *buffer); /* enqueued work that uses it still completes */
uint64_t yki_buffer_size(const yki_buffer *buffer);
yoke_device *yki_buffer_owner(const yki_buffer *buffer);
/* The memory itself where the device's memory is the host's and may be used directly (traits.
 * direct_host) or the buffer is pinned; else NULL. Valid when no enqueued work uses it. */
void *yki_buffer_host(const yki_buffer *buffer);
/* Makes lazily allocated memory real by writing zeros to it (touch when planning). */
yoke_status yki_buffer_touch(yki_queue *queue, yki_buffer *buffer);

/* Enqueued; `data` must stay until the event completes. `done` may be NULL; it is written over,
 * not released first. 0 bytes are a command too: it keeps its place and its waits. */
yoke_status yki_queue_write(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
                            const void *data, yki_wait wait, yki_event *done);
yoke_status yki_queue_read(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
                           void *data, yki_wait wait, yki_event *done);
/* By a kernel on all cores where memory is the host's and both offsets are multiples of 4, else
 * by the driver, which on some CPUs uses one core. The two ranges must not overlap. */
yoke_status yki_queue_copy(yki_queue *queue, yki_buffer *from, uint64_t from_offset, yki_buffer *to,
                           uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done);
/* A 4-byte pattern, all over [offset, offset + size); it starts at `offset`. */
yoke_status yki_queue_fill(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
                           uint32_t pattern, yki_wait wait, yki_event *done);
/* The same, waiting, through the device's own set-up queue: for set-up and tests. */
yoke_status yki_buffer_put(yki_buffer *buffer, uint64_t offset, uint64_t size, const void *data);
yoke_status yki_buffer_get(yki_buffer *buffer, uint64_t offset, uint64_t size, void *data);

/* ---- links (link.c): how two logical devices exchange memory ---- */

typedef enum yki_link_kind {
    YKI_LINK_SHARED, /* one space: the other's buffers are used as they are */
    YKI_LINK_STAGED  /* through pinned host memory of this link */
} yki_link_kind;

/* `max_size`: of the copies to expect, for the size of the staging; larger ones work too. */
yoke_status yki_link_create(yoke_device *from, yoke_device *to, uint64_t max_size, yki_link **link);
void yki_link_destroy(yki_link *link); /* waits for its copies */
yki_link_kind yki_link_get_kind(const yki_link *link);
/* Moves bytes after `wait` (events of either side) and after what is in both queues now; `done`
 * is an event of `to_queue`. Until it is complete the source must stay as it is. A staged copy
 * waits on the host for its first half: contexts cannot wait for one another. */
yoke_status yki_link_copy(yki_link *link, yki_queue *from_queue, yki_buffer *from,
                          uint64_t from_offset, yki_queue *to_queue, yki_buffer *to,
                          uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done);

/* ---- programs and kernels (program.c, cache.c) ---- */

/* A file of clkernels/ ("fill.cl") built with `options` (-D...), once per space and option
 * string; from memory, else the disk cache, else the compiler under the host-wide lock. */
yoke_status yki_program_get(yoke_device *device, const char *file, const char *options,
                            yki_program **program);
/* The same for source text from elsewhere (a user's operator); `name` shows in errors. */
yoke_status yki_program_get_source(yoke_device *device, const char *name, const char *source,
                                   const char *options, yki_program **program);
void yki_program_release(yki_program *program);

/* Every launch owns its kernel: arguments stay set. */
yoke_status yki_kernel_create(yki_program *program, const char *name, yki_kernel **kernel);
void yki_kernel_destroy(yki_kernel *kernel);
yoke_status yki_kernel_set(yki_kernel *kernel, unsigned index, size_t size, const void *value);
yoke_status yki_kernel_set_buffer(yki_kernel *kernel, unsigned index,
                                  yki_buffer *buffer); /* NULL ok */
yoke_status yki_kernel_set_local(yki_kernel *kernel, unsigned index, size_t size);

typedef struct yki_grid {
    size_t groups[3]; /* work-groups; 0 counts as 1 */
    size_t local[3];  /* work-items in a group; 0 counts as 1 */
} yki_grid;

yoke_status yki_queue_launch(yki_queue *queue, yki_kernel *kernel, const yki_grid *grid,
                             yki_wait wait, yki_event *done);

/* For the one file that calls CLBlast: cl_command_queue and cl_mem. A call that enqueues there by
 * itself comes after yki_queue_marker, for what it waits for, and before yki_queue_adopt. */
void *yki_queue_raw(const yki_queue *queue);
void *yki_buffer_raw(const yki_buffer *buffer);
/* Makes a command that a library enqueued by itself one of ours, to be waited for: takes over the
 * reference to its cl_event, also on failure. `what` names it in errors. */
yoke_status yki_queue_adopt(yki_queue *queue, void *event, const char *what, yki_event *done);

#endif

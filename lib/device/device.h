/* SPDX-License-Identifier: Apache-2.0
 *
 * device.h - the internal interface of lib/device: logical devices and the
 * queues, events, buffers, links, programs and kernels on them. No cl_ type
 * appears here, so nothing above this folder sees OpenCL.
 *
 *   context --- root (one OpenCL device of one driver)
 *                 `-- space (one root under one split), in a memory (one cl_context)
 *                       |-- logical device (whole, sub-device or slice): quota, queues, buffers
 *                       `-- programs, built once for all devices of the space
 *
 * Spaces of several roots have one memory where their memory is the host's and the driver allows
 * it. Above this folder nobody can tell a whole device from a sub-device or a slice.
 *
 * Threads: a queue, buffer, kernel or link is used by one thread at a time. Another thread may
 * wait for an event of a queue. Context, space, program table and quota have locks of their own.
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

/* All that these four return is lent. */
yki_space *yki_device_space(const yoke_device *device);
/* Returns whether two devices have one memory: each may use the buffers of the other and wait for
 * its events. Kernels are still those of one space. */
bool yki_devices_share(const yoke_device *a, const yoke_device *b);
const char *yki_device_id(const yoke_device *device);
yoke_context *yki_device_context(const yoke_device *device);
/* The directory for compiled kernels and wisdom; NULL: nothing is kept on disk. */
const char *yki_context_cache_dir(const yoke_context *context);
/* Takes the lock of a host's processes that start others to compile for them, without waiting.
 * Returns what drops it, or -1: somebody has it, or there is no cache. (cache.c) */
int yki_context_take_lock(yoke_context *context);
void yki_context_drop_lock(int lock);
/* Returns an environment variable. It returns NULL if the variable is unset or empty, or if the
 * process has more rights than its user (setuid): such a process must not read files that the user
 * chose, nor start programs. */
const char *yki_secure_env(const char *name);
/* What multiplies two numbers and adds them to a sum in float32 (clkernels/dot.cl, which has the
 * same numbers). Those that round are everywhere. */
typedef enum yki_dot_unit {
    YKI_DOT_FMA,          /* float32 */
    YKI_DOT_ROUNDED,      /* operands are rounded to bfloat16, and multiplied as float32 */
    YKI_DOT_AVX512_BF16,  /* pairs of bfloat16 */
    YKI_DOT_ROUNDED_TF32, /* operands are rounded to TF32, and multiplied as float32 */
    YKI_DOT_MMA_BF16,     /* matrices of bfloat16, by 32 work-items of a group */
    YKI_DOT_MMA_TF32,     /* matrices of TF32 */
    YKI_DOT_MMA_PAIRS, /* no unit of its own: the first, of operands that are bfloat16 in memory */
    YKI_DOT_ROUNDED_F16,  /* operands are rounded to halves, and multiplied as float32 */
    YKI_DOT_MMA_F16,      /* matrices of halves */
    YKI_DOT_MMA_PAIRS_F16 /* no unit of its own: of operands that are halves in memory */
} yki_dot_unit;

/* Returns whether it multiplies matrices. */
static inline bool
yki_dot_of_matrices(yki_dot_unit unit)
{
    return (unit >= YKI_DOT_MMA_BF16 && unit <= YKI_DOT_MMA_PAIRS) || unit >= YKI_DOT_MMA_F16;
}

/* The properties of a device that solvers and the planner need. */
typedef struct yki_device_traits {
    uint32_t compute_units;
    uint32_t vector_width; /* floats in a native vector */
    uint64_t local_memory; /* bytes of __local */
    bool local_is_real;    /* __local is memory of its own, not a piece of global memory */
    uint32_t max_group;    /* most work-items in a work-group */
    uint64_t memory;       /* bytes; the quota, if the device has one */
    uint64_t max_allocation;
    uint64_t cache;      /* bytes of the last-level cache, as the driver reports it */
    uint32_t base_align; /* bytes; sub-buffers start at multiples of it */
    bool host_memory;    /* the device's memory is the host's */
    bool direct_host;    /* the host may also use a buffer's memory between finishes, unmapped */
    bool gates;          /* commands may wait for events that the host completes (gate.c) */
    bool fma;            /* the driver reports a fused multiply-add (CL_FP_FMA) */
    bool fp64;
    bool inf_nan;    /* CL_FP_INF_NAN */
    bool denormals;  /* CL_FP_DENORM: it keeps numbers below FLT_MIN */
    bool to_nearest; /* CL_FP_ROUND_TO_NEAREST */
    bool rounded;    /* CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT */
    uint32_t
        loop_limit; /* iterations, over all its loops, after which a work-item ends; 0: no limit */
    yoke_device_type type;
    yki_dot_unit bf16, tf32, f16; /* what multiplies bfloat16, TF32, and half */
    bool copies_ahead; /* it copies to local memory beside what items compute (tile_ahead.cl) */
    bool canonical;    /* never of a device: what canonical plans tell solvers (op/recipe.h) */
} yki_device_traits;
/* Lends the traits. Compiles nothing and cannot fail. `direct_host`, `loop_limit`, `bf16`,
 * `tf32`, `f16` and `copies_ahead` are found by trial when a device is first selected; until then
 * they are false, 0 and YKI_DOT_FMA. */
const yki_device_traits *yki_device_get_traits(const yoke_device *device);
/* Returns what people call a unit: "avx512-bf16". */
const char *yki_dot_unit_name(yki_dot_unit unit);
/* Returns whether the device has a unit for pairs of bfloat16, of vectors as wide as its own. */
static inline bool
yki_has_bf16_pairs(const yki_device_traits *traits)
{
    return traits->bf16 == YKI_DOT_AVX512_BF16 && traits->vector_width >= 16;
}
/* Returns whether the device has a unit for bfloat16. */
static inline bool
yki_has_bf16(const yki_device_traits *traits)
{
    return traits->bf16 == YKI_DOT_MMA_BF16 || yki_has_bf16_pairs(traits);
}
/* Returns whether the device has a unit for TF32. */
static inline bool
yki_has_tf32(const yki_device_traits *traits)
{
    return traits->tf32 == YKI_DOT_MMA_TF32;
}
/* Returns whether the device has a unit for half. */
static inline bool
yki_has_f16(const yki_device_traits *traits)
{
    return traits->f16 == YKI_DOT_MMA_F16;
}
/* Writes what measured times depend on as one line, cut to `size`: "name; driver; platform; 2
 * units x 16". */
void yki_device_describe(const yoke_device *device, char *text, size_t size);
/* Returns `device`. A retained device keeps its space, root and context alive. */
yoke_device *yki_device_retain(yoke_device *device);
void yki_device_release(yoke_device *device); /* NULL is fine */
/* Tells that an OpenCL call on the device has failed where yki_cl_fail does not: its cl_context is
 * not kept for later. */
void yki_device_failed(const yoke_device *device);
/* Tests only, those that count objects. space.c keeps sub-devices for a while after their space has
 * ended; this releases them all. No command on them may still be ending when it is called. */
void yki_release_kept_parts(void);

/* ---- core groups (core_groups.c): the compute units of a whole CPU, divided among a few
 * sub-devices that share its memory. They have the id of the whole device, and it is charged for
 * their memory. The whole device can be used beside them. ---- */

/* Returns the largest number of equal core groups that the device can have, at most `most`. Below
 * 2, it cannot be divided. */
uint32_t yki_core_groups_count(const yoke_device *device, uint32_t most);
/* Makes `count` core groups, a number from yki_core_groups_count. They retain `whole`. The caller
 * destroys the selection. */
yoke_status yki_core_groups_create(yoke_device *whole, uint32_t count, yoke_selection **groups);

/* Charges `size` bytes to the device; `what` names them in errors. It fails when the quota of the
 * device or the memory of the hardware is exceeded. The error names the device and the bytes
 * asked, used and allowed. */
yoke_status yki_quota_charge(yoke_device *device, uint64_t size, const char *what);
/* Returns whether there was not enough memory: less of it may work. */
static inline bool
yki_lacks_memory(yoke_status status)
{
    return status == YOKE_ERROR_QUOTA || status == YOKE_ERROR_OUT_OF_DEVICE_MEMORY;
}
/* Gives back `size` bytes that were charged to the same device. */
void yki_quota_return(yoke_device *device, uint64_t size);
/* Returns how many bytes can still be charged. For a core group it counts the memory of the
 * hardware only, not the quota of the whole device. */
uint64_t yki_quota_left(const yoke_device *device);
/* The same of the hardware, which logical devices may share. */
uint64_t yki_root_left(const yoke_device *device);

/* ---- queues (queue.c): in order; a device has any number, usually one of each role ---- */

/* Makes a queue, which retains the device. The device must be selected, not only listed. `timed`:
 * yki_event_times works on its events. `role` has no effect, as OpenCL has no such distinction. */
yoke_status yki_queue_create(yoke_device *device, bool timed, yki_queue **queue);
/* Waits for all that is enqueued. An error that no wait has returned is only logged. */
void yki_queue_destroy(yki_queue *queue);
/* Hands all that is enqueued to the device; does not wait. */
yoke_status yki_queue_flush(yki_queue *queue);
/* Waits for all that is enqueued. The queue keeps the first error of an enqueued command until a
 * wait returns it, here or in yki_event_wait; it is returned once and names the device. */
yoke_status yki_queue_finish(yki_queue *queue);
/* Whether a command of the queue has failed, as far as waits have told, or a wait for all of them.
 * Nobody then knows what those behind it have done. */
bool yki_queue_has_failed(yki_queue *queue);
yoke_device *yki_queue_device(const yki_queue *queue);
/* From now on, a wait for an event of the device sleeps and asks, instead of waiting in the driver:
 * some drivers of GPUs spin there, on a core that a processor of the team needs. A wait may take
 * 0.1 ms longer. */
void yki_device_wait_asleep(yoke_device *device);

/* ---- events (queue.c): passed by value; a zeroed event stands for "nothing to wait for" ---- */

typedef struct yki_event {
    void *cl;         /* cl_event */
    yki_queue *queue; /* its command runs there; the queue must outlive the event. NULL: a gate */
    uint64_t serial;  /* position in that queue; it tells whether the command was flushed */
} yki_event;

/* Returns a second reference to the event. The owner of each reference releases it. */
yki_event yki_event_retain(yki_event event);
void yki_event_release(yki_event *event); /* also zeroes it */
/* Flushes the event's queue and waits on the host. Returns an error of this command, or one that
 * the queue keeps (yki_queue_finish). A zeroed event returns at once. */
yoke_status yki_event_wait(const yki_event *event);
/* The same for another thread than the one that enqueues: the command was flushed, the thread
 * sleeps while it waits for a GPU, and the queue keeps its error. */
yoke_status yki_event_outlast(const yki_event *event);
/* Asks, without waiting, whether the command is complete or has failed. It must have been flushed.
 * A zeroed event is complete. */
yoke_status yki_event_is_complete(const yki_event *event, bool *complete);
/* Asks, without waiting, whether the command is complete and has not failed. A zeroed event is not.
 */
bool yki_event_has_succeeded(const yki_event *event);
/* Writes start and end in nanoseconds on the device's clock. The queue must be timed and the
 * command complete. */
yoke_status yki_event_times(const yki_event *event, uint64_t *start, uint64_t *end);

/* The events that a command waits for; lent for the call. An event of the same queue costs nothing,
 * because the queue is in order. If the event is of another queue of the same memory, the call
 * flushes that queue first, since some drivers hang otherwise. If it is of another memory, the
 * device cannot wait for it: the host waits, inside the call. */
typedef struct yki_wait {
    const yki_event *events;
    size_t count;
} yki_wait;
#define YKI_NO_WAIT ((yki_wait){NULL, 0})

/* In all calls that enqueue, `done` may be NULL. Otherwise it receives an event that the caller
 * releases; an event that it held before is overwritten, not released. */

/* ---- gates (gate.c): events that the host completes; only with traits.gates ---- */

/* Makes a gate, which commands of the device's memory may wait for. It has no queue: only waits,
 * yki_event_retain and yki_event_release take it. The caller opens it, whatever happens, and
 * releases it. */
yoke_status yki_gate_create(yoke_device *device, yki_event *gate);
/* Lets the commands that wait for the gate run. Once for each gate, from any thread, before the
 * queues of these commands are destroyed. */
void yki_gate_open(const yki_event *gate);
/* Enqueues a command that does nothing; it completes after `wait` and all earlier commands. */
yoke_status yki_queue_marker(yki_queue *queue, yki_wait wait, yki_event *done);

/* ---- buffers (buffer.c): charged to their owner; usable by every device of its memory ---- */

/* Host memory for transfers; without traits.direct_host it is page-locked and stays mapped. Use it
 * through its host pointer, as data of reads and writes, or as one side of yki_queue_copy. Kernels,
 * fills, reads and writes refuse such a buffer. Wait for its commands before destroying it. */
#define YKI_BUFFER_PINNED 1u

/* Makes a buffer of `size` bytes, 0 included, with undefined contents, and charges its owner,
 * unless it is pinned and the device's memory is not the host's. `flags` is 0 or YKI_BUFFER_PINNED;
 * `what` names the buffer in errors. */
yoke_status yki_buffer_create(yoke_device *owner, uint64_t size, unsigned flags, const char *what,
                              yki_buffer **buffer);
/* Makes a buffer of a range of `parent`, which is not pinned; `offset` is a multiple of
 * traits.base_align. The memory stays while either of the two lives. It is charged once, and the
 * charge ends with the parent. */
yoke_status yki_buffer_view(yki_buffer *parent, uint64_t offset, uint64_t size, yki_buffer **view);
/* Enqueued work that uses the buffer still completes. If the host has a pointer to its memory, the
 * call first waits, for all queues of the memory or, if it is mapped, until it is unmapped. */
void yki_buffer_destroy(yki_buffer *buffer);
uint64_t yki_buffer_size(const yki_buffer *buffer);
yoke_device *yki_buffer_owner(const yki_buffer *buffer);
/* Lends the memory itself if the host may use it: with traits.direct_host, or if the buffer is
 * pinned. Otherwise NULL. It may be read and written while no enqueued work uses it. */
void *yki_buffer_host(const yki_buffer *buffer);
/* Fills the whole buffer with zeros, so that memory which the driver allocates lazily is there
 * before the first step. Enqueued; for a pinned buffer done at once. */
yoke_status yki_buffer_touch(yki_queue *queue, yki_buffer *buffer);

/* Both enqueue. The buffer must be in the queue's memory, and `data` must stay until the command is
 * complete. A command of 0 bytes still waits for `wait`, in its order. */
yoke_status yki_queue_write(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
                            const void *data, yki_wait wait, yki_event *done);
yoke_status yki_queue_read(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
                           void *data, yki_wait wait, yki_event *done);
/* Enqueues a copy; the ranges must not overlap. A device other than a GPU whose memory is the
 * host's copies with a kernel on all cores if both offsets are multiples of 4. Otherwise the driver
 * copies, on some CPUs with one core. */
yoke_status yki_queue_copy(yki_queue *queue, yki_buffer *from, uint64_t from_offset, yki_buffer *to,
                           uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done);
/* Enqueues a fill with the 4 bytes of `pattern`, repeated from `offset` on. Neither `offset` nor
 * `size` has to be a multiple of 4. */
yoke_status yki_queue_fill(yki_queue *queue, yki_buffer *buffer, uint64_t offset, uint64_t size,
                           uint32_t pattern, yki_wait wait, yki_event *done);
/* For set-up and tests: copy at once if the host has a pointer, else use the device's set-up queue
 * and wait. They do not wait for other queues: no enqueued work may use the range. */
yoke_status yki_buffer_put(yki_buffer *buffer, uint64_t offset, uint64_t size, const void *data);
yoke_status yki_buffer_get(yki_buffer *buffer, uint64_t offset, uint64_t size, void *data);

/* ---- links (link.c): how two logical devices exchange memory ---- */

typedef enum yki_link_kind {
    YKI_LINK_SHARED, /* one memory: each uses the other's buffers as they are */
    YKI_LINK_STAGED  /* two memories: through host memory, of one side or of the link */
} yki_link_kind;

/* Makes a link, which retains both devices. `max_size` is the size of the largest copy to expect,
 * from which the staging memory is sized; larger copies work too. */
yoke_status yki_link_create(yoke_device *from, yoke_device *to, uint64_t max_size, yki_link **link);
void yki_link_destroy(yki_link *link); /* waits for copies that use its staging memory */
/* Tests only: returns how copies are made. */
yki_link_kind yki_link_get_kind(const yki_link *link);
/* Copies `size` bytes, after `wait` (events of either side) and after all that both queues hold
 * now. `done` is an event of `to_queue`; until it is complete the source must not change. A staged
 * copy waits on the host for its first half, because contexts cannot wait for one another. */
yoke_status yki_link_copy(yki_link *link, yki_queue *from_queue, yki_buffer *from,
                          uint64_t from_offset, yki_queue *to_queue, yki_buffer *to,
                          uint64_t to_offset, uint64_t size, yki_wait wait, yki_event *done);

/* ---- programs and kernels (program.c, cache.c) ---- */

/* Gives the program of a file of clkernels/ ("fill.cl") with `options` (-D...; NULL: none). A space
 * builds each pair of file and options once. The program comes from memory, else from the disk
 * cache, else from the compiler, under a lock of the host. The caller releases it. */
yoke_status yki_program_get(yoke_device *device, const char *file, const char *options,
                            yki_program **program);
/* The same for source text of other origin (a user's operator); `name` stands in errors. */
yoke_status yki_program_get_source(yoke_device *device, const char *name, const char *source,
                                   const char *options, yki_program **program);
void yki_program_release(yki_program *program); /* NULL is fine; the space keeps the program */

/* Makes a kernel, which retains the program. Each launch of a plan has a kernel of its own, so that
 * its arguments stay set. */
yoke_status yki_kernel_create(yki_program *program, const char *name, yki_kernel **kernel);
/* Work-items of a group of kernels that require none: those of custom operators. */
enum { YKI_FREE_GROUP = 64 };
/* Makes a kernel of a file of clkernels/; see yki_program_get. */
yoke_status yki_kernel_get(yoke_device *device, const char *file, const char *options,
                           const char *name, yki_kernel **kernel);
void yki_kernel_destroy(yki_kernel *kernel);
/* These set an argument until it is set again. A value is copied; a buffer is not retained, must be
 * in the program's memory and may be NULL. */
yoke_status yki_kernel_set(yki_kernel *kernel, unsigned index, size_t size, const void *value);
yoke_status yki_kernel_set_buffer(yki_kernel *kernel, unsigned index, yki_buffer *buffer);
/* An int of OpenCL has 32 bits; the value must fit. */
yoke_status yki_kernel_set_int(yki_kernel *kernel, unsigned index, int64_t value);
yoke_status yki_kernel_set_float(yki_kernel *kernel, unsigned index, float value);

typedef struct yki_grid {
    size_t groups[3]; /* work-groups, at most 65535 in a dimension; 0 counts as 1 */
    size_t local[3];  /* work-items in a group; 0 counts as 1 */
} yki_grid;

/* Enqueues a launch. It fails, without asking the driver, if an argument is not set, the grid is
 * too large, or the size of a work-group is not the one that the kernel requires. */
yoke_status yki_queue_launch(yki_queue *queue, yki_kernel *kernel, const yki_grid *grid,
                             yki_wait wait, yki_event *done);

/* The cl_command_queue and the cl_mem, for the one file that calls CLBlast. */
void *yki_queue_raw(const yki_queue *queue);
void *yki_buffer_raw(const yki_buffer *buffer);

#endif

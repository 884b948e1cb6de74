/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h - the bodies of lib/device's objects, for its own files only.
 *
 * Ownership: the context owns its roots as long as it lives. A root has at most one
 * space, the split in force; spaces of core groups may stand beside it. A space owns
 * its logical devices. References go the other way: every retained logical device
 * counts in its space, which ends when the last of its references goes, if it is not kept
 * (kept_spaces.c), and every space that is not kept counts in the context. A space counts in its
 * memory, which ends with the last one.
 *
 * Locks: who holds space->programs_lock may take context->lock; who holds
 * device->setup_lock may take queue->lock. Of the locks below, no other two are held
 * at once. A space ends outside context->lock, because drivers are slow to release things.
 */
#ifndef YKI_DEVICE_INTERNAL_H
#define YKI_DEVICE_INTERNAL_H

#include "device/cl.h"
#include "device/device.h"

/* ---- selector.c: from text to items; knows no OpenCL ---- */

enum {
    YKI_MAX_COUNTS = 16,  /* counts in one N+M split; their text must fit an id */
    YKI_MAX_PARTS = 1024, /* sub-devices or slices of one device */
    YKI_SPLIT_TEXT = 36   /* bytes of a split's text, with the 0 at its end; an id has 64 */
};

typedef enum yki_split_kind {
    YKI_SPLIT_NONE,   /* the whole device */
    YKI_SPLIT_EQUAL,  /* "4" */
    YKI_SPLIT_COUNTS, /* "1+3", compute units */
    YKI_SPLIT_NUMA    /* "numa" */
} yki_split_kind;

typedef struct yki_split {
    yki_split_kind kind;
    uint32_t count; /* sub-devices or slices; 0 for numa, where the driver knows */
    uint32_t units[YKI_MAX_COUNTS];
    char text[YKI_SPLIT_TEXT]; /* canonical: "", "4", "1+3", "numa" */
} yki_split;

typedef enum yki_base_kind { YKI_BASE_ALL, YKI_BASE_TYPE, YKI_BASE_NAME } yki_base_kind;

/* One item of a selector. Its strings point into the selector's text. */
typedef struct yki_selector_item {
    size_t start, length; /* of the item in the text */
    yki_base_kind base;
    yoke_device_type type;
    bool has_index; /* "gpu:1", not "gpu" */
    uint32_t index;
    const char *name; /* "llvmpipe" of name~llvmpipe; name_length characters */
    size_t name_length;
    yki_split split;
    bool has_piece; /* ".1" of "cpu:0/2.1" */
    uint32_t piece;
    uint64_t quota; /* bytes; 0: none given */
    size_t quota_start, quota_length;
} yki_selector_item;

typedef struct yki_selector {
    const char *text; /* lent by the caller for the selector's life */
    yki_selector_item *parts;
    size_t count, capacity;
} yki_selector;

/* Reads `text`, which must stay until yki_selector_free. YOKE_ERROR_SELECTOR names the wrong token
 * and its position. */
yoke_status yki_selector_parse(const char *text, yki_selector *selector);
void yki_selector_free(yki_selector *selector);
/* Whether the text is nothing but blanks. A selector must name something. */
bool yki_selector_is_empty(const char *text);
/* Makes the same error for a mistake that shows only when the devices are known. The wrong token is
 * text[start .. start + length). */
yoke_status yki_selector_fail(const char *text, size_t start, size_t length, const char *format,
                              ...) YKI_PRINTF(4, 5);
const char *yki_type_name(yoke_device_type type); /* "gpu", "cpu", "acc" */
/* Writes "256 MiB" or "1.50 GiB", for messages; returns `text`. */
const char *yki_size_text(uint64_t size, char text[24]);

/* ---- bodies ---- */

/* Kinds of drivers, best first. For each piece of hardware `all` takes the best (order.c). */
typedef enum yki_driver_rank {
    YKI_DRIVER_NATIVE,   /* made for the hardware */
    YKI_DRIVER_LAYERED,  /* OpenCL on Vulkan, CUDA, Direct3D, ... */
    YKI_DRIVER_SOFTWARE, /* a renderer that runs on the CPU */
    YKI_DRIVER_SIMULATOR /* an interpreter that checks kernels for mistakes */
} yki_driver_rank;

/* Spaces that a context keeps after nobody holds them any more. */
enum { YKI_KEPT_SPACES = 8 };

/* One OpenCL device of one driver. Lives as long as the context. */
typedef struct yki_root {
    yoke_context *context;
    cl_platform_id platform;
    cl_device_id id;
    yoke_device_info info;    /* fp16 is set when it is first asked for */
    yki_device_traits traits; /* direct_host and turns are set by yki_root_probe */
    yki_driver_rank rank;
    size_t found;            /* position in the drivers' own list; decides ties last */
    char pci[24];            /* "0000:01:00.0" or "" */
    char uuid[40];           /* 32 hexadecimal digits or "" */
    bool caps_registers;     /* its compiler takes -cl-nv-maxrregcount, and PTX */
    bool costly_events;      /* of launches; clFinish tells of those that fail without one */
    bool fp16_known, probed; /* under context->probe_lock */
    /* The split in force; NULL: none. All who ask for the same split share it. Who asks for
     * another one gets YOKE_ERROR_BUSY while it lives. Under context->lock. */
    yki_space *space;
    yki_space *lent;                 /* has no cl_context: only questions can be asked of it */
    yoke_device *whole;              /* the one device of `lent`, as yoke_context_get_device */
    atomic_uint_fast64_t used, peak; /* bytes, of all its logical devices */
} yki_root;

struct yoke_context {
    pthread_mutex_t lock;
    pthread_mutex_t probe_lock; /* for probes, which compile and are too slow for `lock` */
    atomic_int references; /* the application, each selection, space and retained lent device */
    yki_root *roots;       /* in the order of their ids */
    size_t root_count, root_capacity;
    size_t hidden_count; /* devices that YOKE_VISIBLE_DEVICES took off the list */
    char **problems;
    size_t problem_count, problem_capacity;
    yki_space *kept[YKI_KEPT_SPACES]; /* without references, the oldest first; under lock */
    size_t kept_count;
    char *cache_dir;            /* absolute; NULL: no disk cache (yki_cache_choose) */
    unsigned char *tried;       /* by two roots: what a trial found (memory.c); under probe_lock */
    atomic_bool cache_reported; /* the warning that the cache does not work was logged */
    atomic_bool lock_given_up;  /* a holder of the build lock seems stuck: do not wait again */
};

/* A live selection that holds a space, with the name that its creator gave. */
typedef struct yki_holder {
    struct yki_holder *next;
    const yoke_selection *selection;
    char *name;
} yki_holder;

/* Devices that were taken together. Each is retained. */
struct yoke_selection {
    yoke_context *context;
    yoke_device **devices;
    size_t count, capacity;
};

/* One cl_context. Its devices are those of one space, or of spaces of several roots that were
 * selected together (memory.c); each may use the buffers of all. */
typedef struct yki_memory {
    cl_context cl;
    atomic_int references; /* of spaces */
    uint64_t limit; /* bytes for several roots together; 0: there is one, which has its own */
    atomic_uint_fast64_t used;
} yki_memory;

/* One root under one split. Its devices share a memory.
 * `layout` is the selector that makes it, "cpu:0", "cpu:0/2" or "gpu:0/1+3", without quotas, which
 * belong to its devices. */
struct yki_space {
    yki_root *root;
    int references; /* retained devices, programs, selections being made; under context->lock */
    char *layout;
    yki_split split;
    yki_memory *memory; /* NULL in a root's lent space */
    cl_context cl;      /* that of the memory, or NULL */
    yoke_device *devices;
    size_t device_count;
    bool core_groups;            /* the devices are core groups */
    yoke_device *core_groups_of; /* of this one, retained; NULL while nobody holds the space */
    atomic_bool failed;          /* an OpenCL call */
    yki_holder *holders;         /* live selections; under context->lock */
    char *last_holder;           /* name of the holder that left last, for errors; or NULL */
    pthread_mutex_t programs_lock;
    struct yki_program *programs; /* list; freed with the space (yki_programs_free) */
    struct {
        unsigned count;
        double seconds, reported; /* in all; in all at the last line of the log */
    } compiled;                   /* from source; under programs_lock */
};

struct yoke_device {
    yki_space *space;
    yki_root *root;
    cl_device_id cl; /* the root's id for whole devices and slices */
    yoke_virtual_kind kind;
    char id[64];
    yki_device_traits traits;
    uint64_t quota; /* bytes; 0: none. Set by the first who takes it, under context->lock */
    atomic_uint_fast64_t used, peak; /* bytes */
    atomic_bool asleep;              /* yki_device_wait_asleep */
    int references; /* of yki_device_retain, under context->lock; each holds the space */
    pthread_mutex_t setup_lock;
    cl_command_queue setup_queue; /* made when first needed, for put, get and mapping */
    yki_queue *queues;            /* list of the live ones; under setup_lock */
};

/* A kernel file or source text, built for every device of its space with one option string. It
 * stays in the space's table until the space ends, so the next plan finds it there. Each reference
 * to it also holds the space. */
struct yki_program {
    yki_space *space;
    atomic_int references; /* of yki_program_get and of kernels; may be 0 */
    cl_program cl;
    char *name;         /* "fill.cl", or the name that yki_program_get_source was given */
    char *key;          /* 32 hex digits, by which the table is searched */
    char *file_options; /* of a file's: what it was built with; of a caller's own text: NULL */
    struct yki_program *next; /* in space->programs, under space->programs_lock */
};

/* ---- program.c ---- */

yki_program *yki_program_retain(yki_program *program); /* for kernels */

/* Frees all programs of a space that ends, before its cl_context is released. */
void yki_programs_free(yki_space *space);

/* ---- cache.c ---- */

/* Gives the directory for a context's compiled kernels, as an absolute path to be freed:
 * `cache_dir` if given, else $YOKE_CACHE_DIR, else $XDG_CACHE_HOME/yoke, else $HOME/.cache/yoke.
 * The latter two count only if they are absolute. With `no_cache`, or without any of them, it gives
 * NULL and YOKE_OK. It makes nothing on disk. */
yoke_status yki_cache_choose(const char *cache_dir, bool no_cache, char **dir);

/* ---- sources.c ---- */

/* Gives the whole text of the program of a kernel file: common.cl, then the file, with those that
 * it includes. The caller frees it. */
yoke_status yki_source_of_file(const char *file, char **whole);
/* The same for a text that is no file; `name` stands for it in the compiler's messages. */
yoke_status yki_source_of_text(const char *name, const char *text, char **whole);
/* Puts builtins.cl before a whole text. */
yoke_status yki_source_behind_builtins(const char *text, char **whole);

/* ---- error.c ---- */

/* Returns the status for an OpenCL error. The detail has the call, the error's name and number, the
 * device, and `what`, the thing that was being done. `device` may be NULL. */
yoke_status yki_cl_fail(cl_int error, const char *call, const yoke_device *device,
                        const char *what);
const char *yki_cl_error_name(cl_int error);

/* ---- info.c ---- */

/* Fills in what the driver says of a device; `root` is zeroed but for `context` and `found`. A
 * device that cannot be used gives YOKE_ERROR_NO_DEVICE with the reason. */
yoke_status yki_root_query(cl_platform_id platform, const char *platform_name, cl_device_id id,
                           yki_root *root);
/* Finds traits.direct_host, loop_limit, bf16, tf32 and f16 by trial, once; they stay as they are if
 * the trial is impossible. It compiles, runs kernels and waits, or finds in the cache what an
 * earlier trial found. It takes probe_lock. */
void yki_root_probe(yki_root *root);

/* ---- dot units (dot.c) ---- */

/* Returns the unit that the device may have for bfloat16: what its processor has, if the driver
 * compiles for that; of a GPU, what its compiler may take. */
yki_dot_unit yki_dot_candidate(const yki_root *root);
/* Tries it, and of a GPU those for TF32 and half, and sets traits.bf16, tf32 and f16: the unit, or
 * what rounds in its place. Returns whether another trial would find the same, which is false where
 * a unit was compiled and did not work. */
bool yki_dot_probe(yki_root *root, cl_context cl, cl_command_queue queue);

/* ---- gate.c ---- */

/* Tries whether a command that waits for an event of the host holds neither the thread that
 * enqueues it nor another queue. */
bool yki_gate_probe(const yki_root *root, cl_context cl, cl_command_queue queue);

/* ---- order.c ---- */

/* Sorts the roots, gives them their ids, and marks the preferred driver of each hardware. */
void yki_roots_order(yki_root *roots, size_t count);
/* Whether `a` is the better driver of the two, for the same hardware. */
bool yki_root_better(const yki_root *a, const yki_root *b);

/* ---- context.c ---- */

void yki_context_retain(yoke_context *context);
void yki_context_release(yoke_context *context);

/* ---- selection.c ---- */

/* Whether the base of a selector's item, such as "gpu:0", names this device. */
bool yki_selector_item_names(const yoke_context *context, const yki_selector_item *part,
                             const yki_root *root);
/* Makes the error for an item of `text` that names no device. */
yoke_status yki_selector_fail_unmatched(const yoke_context *context, const char *text,
                                        const yki_selector_item *part);
/* Adds "; there are: cpu:0 (name), gpu:0 (name)" to the detail, and returns `status`. */
yoke_status yki_context_add_devices(const yoke_context *context, yoke_status status);

/* ---- visible.c ---- */

/* Takes the devices that YOKE_VISIBLE_DEVICES does not name off the ordered list, and gives the
 * others new ids. Without the variable it does nothing. */
yoke_status yki_context_hide(yoke_context *context);

/* Makes a program of a trial for one device of the context; NULL if it does not build. */
cl_program yki_probe_program(cl_context cl, cl_device_id id, const char *source);

/* ---- memory.c ---- */

/* Finds out by trial, once, whether two roots may share a memory. It takes probe_lock. */
void yki_sharing_probe(yki_root *a, yki_root *b);
/* Whether they may, as far as a trial has told. */
bool yki_roots_share(const yki_root *a, const yki_root *b);
/* Makes a memory of spaces that have none: one for all of them, or, where the driver refuses that,
 * one for each. On failure some may have one. The caller holds context->lock, or nobody else knows
 * the spaces. */
yoke_status yki_memory_create(yki_space *const *spaces, size_t count);
/* Lists the devices of a space as the driver knows them, and returns their number. There is room
 * for one of each logical device. */
cl_uint yki_space_list(const yki_space *space, cl_device_id *ids);
/* Takes a space from its memory. */
void yki_memory_leave(yki_space *space);

/* ---- space.c ---- */

/* Makes a space without OpenCL objects, for questions only. Its device becomes `root->whole`. */
yoke_status yki_space_create_lent(yki_root *root);
void yki_space_destroy_lent(yki_root *root);
/* Makes the space of a root that has none. With `alone`, for a space that has its memory alone, it
 * first looks among those that were kept. The caller holds context->lock. Before it lets go of it,
 * it takes a reference, as the space has none, and gives it a memory, if it has none, or drops it.
 */
yoke_status yki_space_create(yki_root *root, const yki_split *split, bool alone, yki_space **space);
/* Takes a space without a memory from its root, so that nobody finds it. */
void yki_space_drop(yki_space *space);
/* Makes a space of `count` core groups of a whole device. The root's split in force stays that of
 * the whole device. On success it takes the caller's reference to `whole`. */
yoke_status yki_space_create_core_groups(yoke_device *whole, uint32_t count, yki_space **space);
/* A space lives at least as long as one of its devices, programs or selections is held. */
yki_space *yki_space_retain(yki_space *space);
void yki_space_release(yki_space *space);
/* Frees a space that nobody holds or finds. */
void yki_space_free(yki_space *space);
/* Frees those that are kept (kept_spaces.c). */
void yki_spaces_forget(yoke_context *context);
/* Does what yki_device_retain does; the caller holds context->lock. */
void yki_device_retain_locked(yoke_device *device);

/* ---- kept_spaces.c ---- */

/* Keeps a space that nobody holds, and returns the one that the caller must free, which may be the
 * same, or NULL. */
yki_space *yki_space_keep(yki_space *space);
/* Returns a kept space of this split, now the caller's, or NULL. */
yki_space *yki_space_take_kept(const yki_root *root, const yki_split *split, bool core_groups);
/* Returns the one that was kept first, now the caller's, or NULL. */
yki_space *yki_space_take_oldest(yoke_context *context);

#endif

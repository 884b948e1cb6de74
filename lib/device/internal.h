/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h - the bodies of lib/device's objects, for its own files only.
 *
 * Who owns whom: the context owns its roots for good; a root owns at most one
 * space, the split in force; a space owns its logical devices. References go the
 * other way: every retained logical device counts in its space, and the space ends
 * with the last of them; every space counts in the context.
 *
 * Locks, in the order in which they may be taken: context->probe_lock,
 * context->lock, the rest. No OpenCL object is released under context->lock.
 */
#ifndef YKI_DEVICE_INTERNAL_H
#define YKI_DEVICE_INTERNAL_H

#include "device/cl.h"
#include "device/device.h"

/* ---- selector.c: from text to parts; knows no OpenCL ---- */

enum {
    YKI_MAX_COUNTS = 16,  /* parts of one N+M split; their text must fit an id */
    YKI_MAX_PARTS = 1024, /* slices of one device */
    YKI_SPLIT_TEXT = 36   /* characters of a split, with the end: an id has 64 */
};

typedef enum yki_split_kind {
    YKI_SPLIT_NONE,   /* the whole device */
    YKI_SPLIT_EQUAL,  /* "4" */
    YKI_SPLIT_COUNTS, /* "1+3", compute units */
    YKI_SPLIT_NUMA    /* "numa" */
} yki_split_kind;

typedef struct yki_split {
    yki_split_kind kind;
    uint32_t count; /* parts; 0 for numa, where the driver knows */
    uint32_t units[YKI_MAX_COUNTS];
    char text[YKI_SPLIT_TEXT]; /* canonical: "", "4", "1+3", "numa" */
} yki_split;

typedef enum yki_base_kind { YKI_BASE_ALL, YKI_BASE_TYPE, YKI_BASE_NAME } yki_base_kind;

/* One item of a selector. Strings are lent by the selector's text. */
typedef struct yki_part {
    size_t start, length; /* of the item in the text */
    yki_base_kind base;
    yoke_device_type type;
    bool has_index; /* "gpu:1", not "gpu" */
    uint32_t index;
    const char *name; /* "llvmpipe" of name~llvmpipe: name_length characters */
    size_t name_length;
    yki_split split;
    bool has_piece; /* ".1" of "cpu:0/2.1" */
    uint32_t piece;
    uint64_t quota; /* bytes; 0: none given */
    size_t quota_start, quota_length;
} yki_part;

typedef struct yki_selector {
    const char *text; /* lent by the caller for the selector's life */
    yki_part *parts;
    size_t count, capacity;
} yki_selector;

/* YOKE_ERROR_SELECTOR names the token at fault and where it stands. */
yoke_status yki_selector_parse(const char *text, yki_selector *selector);
void yki_selector_free(yki_selector *selector);
/* Nothing but blanks: a selector must name something. */
bool yki_selector_is_empty(const char *text);
/* The same error, for what only shows when the devices are known: the token is text[start ..
 * start + length). */
yoke_status yki_selector_fail(const char *text, size_t start, size_t length, const char *format,
                              ...) YKI_PRINTF(4, 5);
const char *yki_type_name(yoke_device_type type); /* "gpu", "cpu", "acc" */
/* "256 MiB", "1.5 GiB": for messages. */
const char *yki_size_text(uint64_t size, char text[24]);

/* ---- bodies ---- */

/* Kinds of drivers, best first: what `all` prefers for one piece of hardware (order.c). */
typedef enum yki_driver_rank {
    YKI_DRIVER_NATIVE,   /* made for the hardware */
    YKI_DRIVER_LAYERED,  /* OpenCL on Vulkan, CUDA, Direct3D, ... */
    YKI_DRIVER_SOFTWARE, /* a renderer that runs on the CPU */
    YKI_DRIVER_SIMULATOR /* an interpreter that looks for mistakes */
} yki_driver_rank;

/* One OpenCL device of one driver. Lives as long as the context. */
typedef struct yki_root {
    yoke_context *context;
    cl_platform_id platform;
    cl_device_id id;
    yoke_device_info info;    /* fp16 is filled in when first asked for */
    yki_device_traits traits; /* direct_host is filled in with the first space */
    yki_driver_rank rank;
    size_t found;            /* position in the drivers' own enumeration: the last tie-break */
    char pci[24];            /* "0000:01:00.0" or "" */
    char uuid[40];           /* 32 hexadecimal digits or "" */
    bool fp16_known, probed; /* under context->probe_lock */
    /* The split in force, shared by all who ask for the same; another one is busy while it
     * lives. Under context->lock. */
    yki_space *space;
    yki_space *lent;                 /* no cl_context: the device that is only asked questions */
    yoke_device *whole;              /* its one device: what yoke_context_get_device lends */
    atomic_uint_fast64_t used, peak; /* of all its logical devices */
} yki_root;

struct yoke_context {
    pthread_mutex_t lock;
    pthread_mutex_t probe_lock; /* probes compile and are slow: not under `lock` */
    atomic_int references; /* the application's one, one per space, one per retained lent device */
    yki_root *roots;       /* in the order of their ids */
    size_t root_count, root_capacity;
    size_t hidden_count; /* that YOKE_VISIBLE_DEVICES took off the list */
    char **problems;
    size_t problem_count, problem_capacity;
    char *cache_dir;            /* absolute; NULL: no disk cache (yki_cache_choose) */
    atomic_bool cache_reported; /* the one log line that the cache does not work was written */
    atomic_bool lock_given_up;  /* a holder of the build lock seems stuck: do not wait again */
};

/* Who holds a space: a live selection and the name it gave. */
typedef struct yki_holder {
    struct yki_holder *next;
    const yoke_selection *selection;
    char *name;
} yki_holder;

/* Devices that somebody took: each is retained. */
struct yoke_selection {
    yoke_context *context;
    yoke_device **devices;
    size_t count, capacity;
};

/* One root under one split. Its devices share a cl_context, so buffers of one may be used by
 * all. `layout` is the selector that makes it: "cpu:0", "cpu:0/2", "gpu:0/1+3"; quotas are its
 * devices' own. */
struct yki_space {
    yki_root *root;
    int references; /* of retained devices, programs, selections being made; under context->lock */
    char *layout;
    yki_split split;
    cl_context cl; /* NULL in a root's lent space */
    yoke_device *devices;
    size_t device_count;
    yoke_device *lanes_of; /* retained: its devices are lanes of this whole one; NULL */
    yki_holder *holders;   /* live selections; under context->lock */
    char *last_holder;     /* ... and the last one that left, for what it left behind; or NULL */
    pthread_mutex_t programs_lock;
    struct yki_program *programs; /* list; freed with the space (yki_programs_free) */
    struct {
        unsigned count;
        double seconds, reported; /* ... in all when the log was last told */
    } compiled;                   /* from source; under programs_lock */
};

struct yoke_device {
    yki_space *space;
    yki_root *root;
    cl_device_id cl; /* the root's id for whole devices and slices */
    yoke_virtual_kind kind;
    char id[64];
    yki_device_traits traits;
    uint64_t quota; /* 0: none. Set by the first who takes the device, under context->lock */
    atomic_uint_fast64_t used, peak;
    int references; /* of yki_device_retain, under context->lock; each holds the space */
    pthread_mutex_t setup_lock;
    cl_command_queue setup_queue; /* made when first needed: yki_buffer_put, yki_buffer_get */
    yki_queue *queues;            /* live ones, a list; under setup_lock */
};

/* A kernel file or source text, built for every device of its space with one option string. It
 * stays in the space's table until the space goes, so the next plan finds it there; whoever got
 * it holds the space through it. */
struct yki_program {
    yki_space *space;
    atomic_int references; /* of yki_program_get, each holding the space; may be 0 */
    cl_program cl;
    char *name;               /* "fill.cl", or what the caller of yki_program_get_source said */
    char *key;                /* what the table is searched by: 32 hex digits */
    struct yki_program *next; /* in space->programs, under space->programs_lock */
};

/* ---- program.c ---- */

yki_program *yki_program_retain(yki_program *program); /* for kernels */

/* For the end of a space, before its cl_context is released. */
void yki_programs_free(yki_space *space);

/* ---- cache.c ---- */

/* The directory of a context's compiled kernels: `cache_dir` if given, else
 * $YOKE_CACHE_DIR, else $XDG_CACHE_HOME/yoke, else $HOME/.cache/yoke; NULL, which is no error,
 * for no_cache and where none of these is an absolute path. Makes nothing on disk. */
yoke_status yki_cache_choose(const char *cache_dir, bool no_cache, char **dir);

/* ---- error.c ---- */

/* The status for an OpenCL error, with the call, its name and number, the device and what was
 * being done as detail. `device` may be NULL. */
yoke_status yki_cl_fail(cl_int error, const char *call, const yoke_device *device,
                        const char *what);
const char *yki_cl_error_name(cl_int error);

/* ---- info.c ---- */

/* Asks a device everything. A device that cannot be used is refused with the reason as detail. */
yoke_status yki_root_query(cl_platform_id platform, const char *platform_name, cl_device_id id,
                           yki_root *root);
/* traits.direct_host and traits.turns by trying; false and 0 when they cannot be tried. May
 * compile. Takes probe_lock. */
void yki_root_probe(yki_root *root);

/* ---- order.c ---- */

/* Sorts, numbers and names the roots, and picks the preferred driver of each hardware. */
void yki_roots_order(yki_root *roots, size_t count);
/* Is `a` the better driver of the same hardware? */
bool yki_root_better(const yki_root *a, const yki_root *b);

/* ---- context.c ---- */

void yki_context_retain(yoke_context *context);
void yki_context_release(yoke_context *context);

/* ---- selection.c ---- */

/* Whether the base of a selector's item names this device. */
bool yki_part_names(const yoke_context *context, const yki_part *part, const yki_root *root);
/* The error for an item of `text` that names no device. */
yoke_status yki_part_fail_unmatched(const yoke_context *context, const char *text,
                                    const yki_part *part);
/* Adds "; there are: cpu:0 (name), gpu:0 (name)" to the detail; returns `status`. */
yoke_status yki_context_add_devices(const yoke_context *context, yoke_status status);

/* ---- visible.c ---- */

/* Takes the devices that YOKE_VISIBLE_DEVICES does not name off the ordered list, and numbers the
 * others anew. */
yoke_status yki_context_hide(yoke_context *context);

/* ---- space.c ---- */

/* A space without OpenCL objects, for asking; its device is `root->whole`. */
yoke_status yki_space_create_lent(yki_root *root);
void yki_space_destroy_lent(yki_root *root);
/* Makes the root's space under this split; the root has none. The caller pins it, under the
 * same context->lock. */
yoke_status yki_space_create(yki_root *root, const yki_split *split, yki_space **space);
/* A whole device's lanes: beside the split in force, which stays that of the whole device; takes
 * the caller's reference to it. */
yoke_status yki_space_create_lanes(yoke_device *whole, uint32_t count, yki_space **space);
/* A space lives as long as a device, program or selection of it is held. */
yki_space *yki_space_retain(yki_space *space);
void yki_space_release(yki_space *space);
/* yki_device_retain under context->lock. */
void yki_device_retain_locked(yoke_device *device);

#endif

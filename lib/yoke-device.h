/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-device.h - status, log, the devices of this host, and what they can do.
 *
 * Programs include <yoke.h>, which includes this file and has the conventions that hold here.
 */
#ifndef YOKE_DEVICE_H
#define YOKE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define YOKE_API __attribute__((visibility("default")))
#else
#define YOKE_API
#endif

/* ---------------------------------------------------------------- status */

/* All status codes: code, name without its prefix, message. */
#define YOKE_STATUS_MAP(X)                                                                         \
    X(0, OK, "success")                                                                            \
    X(-1, ERROR_INVALID_ARGUMENT, "invalid argument")                                              \
    X(-2, ERROR_OUT_OF_MEMORY, "out of host memory")                                               \
    X(-3, ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory")                                      \
    X(-4, ERROR_QUOTA, "the device's memory quota is used up")                                     \
    X(-5, ERROR_NO_OPENCL, "no OpenCL driver is installed")                                        \
    X(-6, ERROR_NO_DEVICE, "no such device")                                                       \
    X(-7, ERROR_SELECTOR, "bad device selector")                                                   \
    X(-8, ERROR_BUSY, "in use")                                                                    \
    X(-9, ERROR_UNSUPPORTED, "not supported")                                                      \
    X(-10, ERROR_BUILD, "a kernel does not compile")                                               \
    X(-11, ERROR_DEVICE, "an OpenCL call failed")                                                  \
    X(-12, ERROR_IO, "a file cannot be read or written")                                           \
    X(-13, ERROR_FORMAT, "a file is damaged or of the wrong kind")                                 \
    X(-14, ERROR_NOT_FOUND, "no such name")                                                        \
    X(-15, ERROR_STATE, "not possible in this state")                                              \
    X(-16, ERROR_SHAPE, "shapes do not fit")                                                       \
    X(-17, ERROR_TYPE, "types do not fit")                                                         \
    X(-18, ERROR_VALUE, "a value is out of range")                                                 \
    X(-19, ERROR_COMM, "communication between processes failed")                                   \
    X(-20, ERROR_INTERNAL, "a mistake in yoke itself")

typedef enum yoke_status {
#define YOKE_STATUS_ENUM(code, name, message) YOKE_##name = code,
    YOKE_STATUS_MAP(YOKE_STATUS_ENUM)
#undef YOKE_STATUS_ENUM
        YOKE_STATUS_RESERVED = -0x7fff
} yoke_status;

/* Return the name of a code ("YOKE_ERROR_QUOTA") and its message. Both are constant strings, never
 * NULL, even for a code that does not exist. */
YOKE_API const char *yoke_status_name(yoke_status status);
YOKE_API const char *yoke_status_string(yoke_status status);

/* Returns a sentence about the last call that failed in this thread: it names the argument, device
 * or file, or has the end of a compiler's log. The text is "" before the first failure, and valid
 * until this thread's next failure. A call that succeeds does not change it. */
YOKE_API const char *yoke_last_error(void);

/* Makes `sentence` this thread's yoke_last_error() and returns `status`; with YOKE_OK it does
 * nothing else. Callbacks, and function tables that an application fills in, use it to report an
 * error. The sentence is copied; it is cut at 8191 bytes. */
YOKE_API yoke_status yoke_fail(yoke_status status, const char *sentence);

/* Frees memory that yoke allocated for the caller (yoke_graph_to_json). NULL is fine. */
YOKE_API void yoke_free(void *memory);

/* Returns the version of the library, such as "0.1.0". */
YOKE_API const char *yoke_version(void);

/* ------------------------------------------------------------------- log */

typedef enum yoke_log_level {
    YOKE_LOG_ERROR = 0,
    YOKE_LOG_WARNING = 1,
    YOKE_LOG_INFO = 2,
    YOKE_LOG_DEBUG = 3
} yoke_log_level;

/* Receives one line of the log, without a newline; the line is valid during the call. It may be
 * called from any thread, but by one at a time. It must not call yoke. */
typedef void (*yoke_log_callback)(void *user, yoke_log_level level, const char *line);

/* Sets who gets the log of this process. The library never prints: it hands each line of `level`
 * or a lower number to `callback`, with `user`. NULL, the default, drops all lines. When the
 * function returns, the callback that was set before does not run any more. Any thread. */
YOKE_API void yoke_log_set(yoke_log_callback callback, void *user, yoke_log_level level);

/* Adds a line of the caller's to the log, for example of a transport (yoke_comm). Any thread. */
YOKE_API void yoke_log_write(yoke_log_level level, const char *line);

/* --------------------------------------------------------------- context */

/* A context lists the OpenCL devices of this host, and owns the kernels compiled for them and their
 * cache. One is enough for a program, and all its threads may use it. */
typedef struct yoke_context yoke_context;

typedef struct yoke_context_options {
    /* The folder of compiled kernels. NULL: $YOKE_CACHE_DIR, else $XDG_CACHE_HOME/yoke, else
     * ~/.cache/yoke. */
    const char *cache_dir;
    bool no_cache; /* keep nothing on disk */
} yoke_context_options;

/* Makes a context with the devices of every platform, except those that $YOKE_VISIBLE_DEVICES
 * hides. A platform that does not work is left out; the log warns of it, and
 * yoke_context_get_problem() describes it. YOKE_ERROR_NO_OPENCL: no driver is installed, and the
 * error names the package to install. */
YOKE_API yoke_status yoke_context_create_sized(const yoke_context_options *options, size_t size,
                                               yoke_context **context);
static inline yoke_status
yoke_context_create(const yoke_context_options *options, yoke_context **context)
{
    return yoke_context_create_sized(options, sizeof(yoke_context_options), context);
}
/* Selections that were made from the context stay valid. NULL is fine. */
YOKE_API void yoke_context_destroy(yoke_context *context);

/* Return the number of platforms that were found but cannot be used, and a sentence about one of
 * them, which is lent; NULL where there is none. */
YOKE_API size_t yoke_context_problem_count(const yoke_context *context);
YOKE_API const char *yoke_context_get_problem(const yoke_context *context, size_t index);

/* --------------------------------------------------------------- devices */

/* A logical device: a whole OpenCL device, a sub-device, or a slice. Contexts, selections and teams
 * lend it. */
typedef struct yoke_device yoke_device;

typedef enum yoke_device_type {
    YOKE_DEVICE_GPU = 0,
    YOKE_DEVICE_CPU = 1,
    YOKE_DEVICE_ACCELERATOR = 2 /* also simulators, which claim to be of every type */
} yoke_device_type;

typedef enum yoke_virtual_kind {
    YOKE_VIRTUAL_NONE = 0,      /* a whole device */
    YOKE_VIRTUAL_SUBDEVICE = 1, /* has compute units of its own, by clCreateSubDevices */
    YOKE_VIRTUAL_SLICE = 2      /* has queues and a quota of its own, on shared hardware */
} yoke_virtual_kind;

/* The ways in which a driver can partition a device; combined with or. */
#define YOKE_PARTITION_EQUALLY   1u
#define YOKE_PARTITION_BY_COUNTS 2u
#define YOKE_PARTITION_NUMA      4u

typedef struct yoke_device_info {
    char id[64]; /* "cpu:0", "cpu:0/2.1"; can be used as a selector */
    char name[128];
    char vendor[128];
    char platform[128];
    char driver[128];
    char version[128];  /* the OpenCL version string */
    char parent[64];    /* id of the whole device; a whole device has its own id here */
    char hardware[64];  /* identity of the chip: "pci:0000:01:00.0", "uuid:...", "host-cpu" */
    char preferred[64]; /* id of the device that the selector "all" takes for this chip */
    yoke_device_type type;
    yoke_virtual_kind virtual_kind;
    uint32_t partition; /* YOKE_PARTITION_* that the driver offers; 0 for a part of a device */
    uint32_t compute_units;
    uint32_t vector_width;   /* floats in a native vector */
    bool host_memory;        /* the device uses the host's memory */
    bool fp16, fp64;         /* kernels may use the type; fp16 is tried by compiling a kernel */
    uint64_t memory;         /* bytes of the hardware, shared by all parts of it */
    uint64_t max_allocation; /* bytes of the largest single buffer */
    uint64_t quota;          /* bytes that this logical device may use; 0: no limit but memory */
    char bf16[32];           /* its unit for products of bfloat16, "avx512-bf16"; "": it has none */
    char tf32[32];           /* the same of TF32, "mma-tf32" */
    char f16[32];            /* the same of half, "mma-f16" */
} yoke_device_info;

typedef struct yoke_memory_usage {
    uint64_t quota; /* bytes; 0: none */
    uint64_t used;  /* bytes now */
    uint64_t peak;  /* the most bytes so far */
} yoke_memory_usage;

/* Return the number of whole devices, and one of them: GPUs first, then CPUs, then accelerators, in
 * the order of their ids. The device is lent; NULL where there is none. To compute on a device,
 * select it. */
YOKE_API size_t yoke_context_device_count(const yoke_context *context);
YOKE_API yoke_device *yoke_context_get_device(yoke_context *context, size_t index);

/* Describes a device. The first call for a device may compile and run small kernels (fp16, bf16,
 * tf32, f16). */
YOKE_API yoke_status yoke_device_get_info_sized(yoke_device *device, yoke_device_info *info,
                                                size_t size);
static inline yoke_status
yoke_device_get_info(yoke_device *device, yoke_device_info *info)
{
    return yoke_device_get_info_sized(device, info, sizeof(yoke_device_info));
}
/* Tells how much memory yoke has allocated on this logical device; for a device that a context
 * lends, on its whole hardware. Any thread may call it. */
YOKE_API yoke_status yoke_device_get_memory_sized(yoke_device *device, yoke_memory_usage *usage,
                                                  size_t size);
static inline yoke_status
yoke_device_get_memory(yoke_device *device, yoke_memory_usage *usage)
{
    return yoke_device_get_memory_sized(device, usage, sizeof(yoke_memory_usage));
}

/* ------------------------------------------------------------- selection */

/* The logical devices that a selector picks, such as "all", "gpu", "gpu:1", "cpu:0/2",
 * "cpu:0/1+3", "cpu:0/numa", "gpu:0/4@1GiB", "name~llvmpipe", or several with commas between them
 * (yoke-selectors(7)). While a selection exists, its hardware stays split as the selector says. */
typedef struct yoke_selection yoke_selection;

typedef struct yoke_selection_options {
    /* Who holds the hardware: a caller that asks for another split finds this text in its error.
     * Copied. NULL: "a selection". */
    const char *holder;
} yoke_selection_options;

/* Makes the devices that `selector` asks for, and splits hardware as it says. A selector of NULL is
 * $YOKE_DEVICES or, if that is unset or empty, "all". YOKE_ERROR_SELECTOR: the selector cannot be
 * read, or names what does not exist. YOKE_ERROR_BUSY: the hardware is split in another way now;
 * the error names the holder. */
YOKE_API yoke_status yoke_selection_create_sized(yoke_context *context, const char *selector,
                                                 const yoke_selection_options *options, size_t size,
                                                 yoke_selection **selection);
static inline yoke_status
yoke_selection_create(yoke_context *context, const char *selector,
                      const yoke_selection_options *options, yoke_selection **selection)
{
    return yoke_selection_create_sized(context, selector, options, sizeof(yoke_selection_options),
                                       selection);
}
YOKE_API void yoke_selection_destroy(yoke_selection *selection);
/* Return the number of devices, and one of them, in the order of the selector. The device is lent;
 * NULL where there is none. */
YOKE_API size_t yoke_selection_count(const yoke_selection *selection);
YOKE_API yoke_device *yoke_selection_get(const yoke_selection *selection, size_t index);

/* --------------------------------------------------------------- measure */

typedef struct yoke_overlap {
    double alone_seconds;    /* of the slowest device, when each runs alone */
    double together_seconds; /* until all are done, when all run at once */
} yoke_overlap;

/* Measures how well devices run side by side: it gives each the same load of arithmetic, first one
 * device at a time, then all at once. The times are medians of `repeats` runs; 0 means 5. Waits. */
YOKE_API yoke_status yoke_selection_measure_overlap_sized(yoke_selection *selection,
                                                          unsigned repeats, yoke_overlap *overlap,
                                                          size_t size);
static inline yoke_status
yoke_selection_measure_overlap(yoke_selection *selection, unsigned repeats, yoke_overlap *overlap)
{
    return yoke_selection_measure_overlap_sized(selection, repeats, overlap, sizeof(yoke_overlap));
}

/* What a device can do at most. Other measurements are given as fractions of these figures. */
typedef struct yoke_peak {
    double gflops;                /* 1e9 float32 operations a second; a multiply-add is two */
    double triad_gbytes;          /* 1e9 bytes a second, with two bytes read for each written */
    double copy_gbytes;           /* 1e9 bytes a second, with one byte read for each written */
    double launch_seconds;        /* for an empty kernel, with many launches in the queue */
    double waited_launch_seconds; /* for an empty kernel, if the host waits for each launch */
} yoke_peak;

/* Measures the limits of a selected device, in about a second. It needs up to three arrays of
 * 128 MiB on the device. Waits. */
YOKE_API yoke_status yoke_device_measure_peak_sized(yoke_device *device, yoke_peak *peak,
                                                    size_t size);
static inline yoke_status
yoke_device_measure_peak(yoke_device *device, yoke_peak *peak)
{
    return yoke_device_measure_peak_sized(device, peak, sizeof(yoke_peak));
}

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * null_internal.h - what the files of the null driver share.
 *
 * The first member of each object is the table of functions: the loader of drivers reads it there.
 */
#ifndef YOKE_TESTS_GPU_NULL_INTERNAL_H
#define YOKE_TESTS_GPU_NULL_INTERNAL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_icd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gpu/null.h"

enum { NULL_MOST_DEVICES = 16, NULL_MOST_ARGUMENTS = 64, NULL_NAME_SIZE = 80 };

extern cl_icd_dispatch null_table;

/* What a GPU answers. */
typedef struct null_model {
    const char *name, *device, *vendor, *driver, *version, *extensions;
    cl_device_type type;
    cl_uint vendor_id, units, clock, align, line; /* align: bits; line: bytes of a cache's line */
    cl_ulong memory, allocation, cache, local;
    size_t group;
    cl_bool host_memory;
    cl_device_fp_config single, twice;
} null_model;

struct _cl_platform_id {
    const cl_icd_dispatch *table;
};
struct _cl_device_id {
    const cl_icd_dispatch *table;
    const null_model *model;
    cl_uint index;
    uint64_t done; /* commands up to this serial number are */
};
struct _cl_context {
    const cl_icd_dispatch *table;
    atomic_int references;
    cl_device_id devices[NULL_MOST_DEVICES];
    cl_uint count;
};
struct _cl_command_queue {
    const cl_icd_dispatch *table;
    atomic_int references;
    int number;
    cl_context context;
    cl_device_id device;
    uint64_t newest, flushed; /* the serial number of its newest command, and of what is flushed */
    bool computes;            /* it has had kernels */
    bool lost;                /* what is not flushed yet never is */
};
struct _cl_mem {
    const cl_icd_dispatch *table;
    atomic_int references;
    int number;
    cl_mem parent;         /* of a sub-buffer */
    cl_mem newest, before; /* its newest sub-buffer; the one before, of the same parent */
    char *data;
    size_t size;
    bool owned; /* the memory is the driver's */
    void(CL_CALLBACK *gone)(cl_mem, void *);
    void *user;
};
struct _cl_program {
    const cl_icd_dispatch *table;
    atomic_int references;
    int number;
    cl_context context;
    cl_device_id device; /* for which it was built */
    char *source, *text; /* text: what the preprocessor makes of it */
};
struct _cl_kernel {
    const cl_icd_dispatch *table;
    atomic_int references;
    cl_program program;
    char name[NULL_NAME_SIZE];
    cl_uint count; /* of arguments */
    size_t required[3];
    struct {
        size_t size;
        unsigned char value[8];
    } argument[NULL_MOST_ARGUMENTS];
};
struct _cl_event {
    const cl_icd_dispatch *table;
    atomic_int references;
    cl_ulong when;
    cl_device_id device;
    cl_command_queue queue; /* NULL: of the host */
    uint64_t serial;
    bool host;        /* of the host, */
    atomic_bool open; /* which has completed it */
};

/* Answer a question of OpenCL: `size`, `value` and `wrote` are parameters. */
#define NULL_SAY(type, answer)                                                                     \
    do {                                                                                           \
        type answer_ = (answer);                                                                   \
        return null_answer(&answer_, sizeof answer_, size, value, wrote);                          \
    } while (0)
#define NULL_SAY_TEXT(text) return null_answer(text, strlen(text) + 1, size, value, wrote)

static inline cl_int
null_answer(const void *answer, size_t bytes, size_t size, void *value, size_t *wrote)
{
    if (wrote)
        *wrote = bytes;
    if (!value)
        return CL_SUCCESS;
    if (size < bytes)
        return CL_INVALID_VALUE;
    memcpy(value, answer, bytes);
    return CL_SUCCESS;
}

/* Counts one reference less; true if it was the last. */
#define NULL_LAST(object) (atomic_fetch_sub(&(object)->references, 1) == 1)

/* ---- one file each ---- */

extern struct _cl_platform_id null_platform;

cl_int CL_API_CALL null_platform_info(cl_platform_id platform, cl_platform_info what, size_t size,
                                      void *value, size_t *wrote);

/* Each file enters its functions. */
void null_fill_devices(cl_icd_dispatch *table);
void null_fill_objects(cl_icd_dispatch *table);
void null_fill_programs(cl_icd_dispatch *table);
void null_fill_queues(cl_icd_dispatch *table);

/* What goes wrong, and whether a fault's name means a kernel. */
extern null_faults null_injected;
static inline bool
null_fails(const char *fault, const char *kernel)
{
    return fault && (strcmp(fault, "*") == 0 || strcmp(fault, kernel) == 0);
}

/* Counts an argument that was set. */
void null_count_argument(void);

/* Counts a sub-buffer that goes before a newer one of its buffer. */
void null_count_hasty_view(void);

#endif

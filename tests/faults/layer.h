/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.h - how a test talks to the fault layer: a table of functions that the
 * layer exports under one name. Tests use tests/support/fault.h, which finds it.
 *
 * Devices are named as yoke names them: "cpu:0" (whole), "cpu:0/2.1" (the part
 * with index 1 of a partition). OpenCL cannot tell the slices of one device
 * apart, so they are named by queue: "gpu:0#2" is the third queue made on it.
 */
#ifndef YOKE_TESTS_FAULTS_LAYER_H
#define YOKE_TESTS_FAULTS_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is counted: +1 by a create, a retain or an enqueue's event, -1 by a release. */
#define FAULT_KIND_MAP(X)                                                                          \
    X(SUBDEVICE, "sub-device")                                                                     \
    X(CONTEXT, "context")                                                                          \
    X(QUEUE, "queue")                                                                              \
    X(MEM, "mem")                                                                                  \
    X(PROGRAM, "program")                                                                          \
    X(KERNEL, "kernel")                                                                            \
    X(EVENT, "event")

typedef enum fault_kind {
#define FAULT_KIND_ENUM(kind, name) FAULT_##kind,
    FAULT_KIND_MAP(FAULT_KIND_ENUM)
#undef FAULT_KIND_ENUM
        FAULT_KINDS
} fault_kind;

enum { FAULT_NAME_SIZE = 64 };

typedef struct fault_hit {
    uint64_t count;             /* calls failed since the layer was armed */
    uint64_t index;             /* number of the first of them, from 1 */
    char call[FAULT_NAME_SIZE]; /* and its name; "" for none */
} fault_hit;

/* A bit that flips, as in bad memory or a bad unit. */
typedef struct fault_flip {
    const char *device;
    uint64_t from, to;  /* steps; both inclusive */
    uint64_t nth;       /* launch on the device in each of them, from 1 */
    bool on;            /* and in all launches of the step after that one */
    const char *kernel; /* only its launches count; NULL: all */
    const char *until;  /* what comes from its launch on in a step does not count; NULL: nothing */
    uint64_t bit;       /* modulo the number of bits there are to flip */
    bool moves;         /* each time in the byte after the last one */
    bool before;        /* in a buffer that the launch uses, before it; else in what it changes */
} fault_flip;

typedef struct fault_layer {
    bool (*active)(void); /* the loader has put the layer in place (it does at the first call) */
    /* From now on the n-th call (1 is the next; 0: none) fails with `code`; with `sticky` every
     * call from the n-th on, as on a lost device. Starts the count of calls anew. */
    void (*arm)(uint64_t n, int code, bool sticky);
    uint64_t (*calls)(void); /* that could have failed, since arm */
    /* Calls `seen` in each call that could fail from now on; NULL: nothing. */
    void (*watch)(void (*seen)(void));
    void (*get_hit)(fault_hit *hit);

    /* References that the application holds. */
    int64_t (*live)(fault_kind kind);
    uint64_t (*overreleased)(void); /* releases of what was not alive */
    /* "1 mem (clCreateBuffer), 2 events (clEnqueueNDRangeKernel)"; returns how many objects.
     * Sub-devices only when asked for. */
    size_t (*describe)(char *text, size_t size, bool subdevices);

    /* The step that begins now; rules below count in it. */
    void (*step)(uint64_t step);
    /* Launches on `device` take `ratio` times as long in steps from..to (inclusive). A later
     * call for the same device replaces the earlier one; ratio 1 takes it away. */
    bool (*slow)(const char *device, double ratio, uint64_t from, uint64_t to);
    bool (*slow_queue)(void *queue, double ratio, uint64_t from, uint64_t to);
    /* The n-th enqueue (1 is the first) on `device` in `step` fails with `code`, once. */
    bool (*fail_enqueue)(const char *device, uint64_t step, uint64_t n, int code);
    /* The same, and so do all behind it in that step, as on a device that is lost. */
    bool (*lose)(const char *device, uint64_t step, uint64_t n, int code);
    uint64_t (*slow_errors)(void); /* launches that could not be slowed */
    /* Flips a bit; a later call for the same device replaces the earlier one. Buffers of several
     * devices are left alone: those that two of them have used since the first call. */
    bool (*flip)(const fault_flip *flip);
    uint64_t (*flips)(void); /* bits flipped so far */
} fault_layer;

#define FAULT_LAYER_SYMBOL "yoke_fault_layer"
const fault_layer *yoke_fault_layer(void);

#endif

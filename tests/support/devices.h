/* SPDX-License-Identifier: Apache-2.0
 *
 * devices.h - devices for a test: those of the environment, or a set-up of its own.
 *
 * A set-up changes environment variables that drivers read once, so a test calls
 * test_devices_open before anything of OpenCL, and Check must fork (it does unless
 * CK_FORK=no).
 */
#ifndef YOKE_TESTS_DEVICES_H
#define YOKE_TESTS_DEVICES_H

#include "device/device.h"
#include "support/support.h"

typedef enum test_setup {
    TEST_AS_IS,         /* what the environment and YOKE_TEST_DEVICES say */
    TEST_POCL_HALVES,   /* two sub-devices of PoCL */
    TEST_POCL_UNEVEN,   /* one of one unit, one of three */
    TEST_POCL_QUARTERS, /* four of one */
    TEST_POCL_ROOTS,    /* two root devices of PoCL */
    TEST_POCL_BESIDE,   /* the same, where one says it is an integrated GPU: they have one memory */
    TEST_RUSTICL_SLICES,   /* two slices of one Rusticl device */
    TEST_POCL_AND_RUSTICL, /* one device of each */
    TEST_OCLGRIND_SLICES   /* two slices of the simulator */
} test_setup;

typedef struct test_devices {
    yoke_context *context;
    yoke_selection *selection;
    yoke_device *device[16]; /* lent */
    size_t count;
    bool slow; /* simulated: keep it small */
    char selector[256];
    char missing[128];
} test_devices;

/* False, with `missing` telling why, where the set-up's implementation is not installed; other
 * errors fail the test. */
bool test_devices_open(test_setup setup, test_devices *devices);
/* The same without a selection, which would hold the hardware in this split: the context and
 * `selector` alone. test_devices_close takes it too. */
bool test_devices_find(test_setup setup, test_devices *devices);
/* Makes PoCL a processor and an integrated GPU, for a process that has not touched OpenCL: puts the
 * GPU face (tests/gpu/face.c) below what layer there is. False where it was not built. Groups of
 * work-items take PoCL's compiler long, so it does not optimise, and what it makes is kept apart.
 */
bool test_put_on_face(void);
/* From here on they pass for devices with memory of their own, as most GPUs have. */
void test_devices_hide_host_memory(test_devices *devices);
void test_devices_close(test_devices *devices);
/* The devices of test_selector(), selected once in a process: a compiler takes long to start, and a
 * kernel of one test serves the next. */
yoke_selection *test_selected(void);
/* Oclgrind starts in no time, and takes the numbers in memory that is used again for uninitialised:
 * there the next call of test_selected selects anew. */
void test_selected_leave(void);
/* On the first device of the selector. */
yoke_replica *test_replica(const test_devices *devices, yoke_graph *graph,
                           const yoke_replica_options *options);

/* The matrix of implementations runs this program: set-ups of one's own are left alone. */
bool test_in_matrix(void);

#endif

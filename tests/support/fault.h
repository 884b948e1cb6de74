/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.h - fault injection for tests: the fault layer (tests/faults/layer.h) and
 * loops that fail every OpenCL call, or every allocation, of a scenario in turn.
 *
 * Inside a test, before OpenCL is touched:
 *
 *   const fault_layer *faults = fault_open();
 *   faults->arm(3, -5, false);            the third cl call returns CL_OUT_OF_RESOURCES
 *   faults->slow("cpu:0/2.1", 3, 100, UINT64_MAX);
 *   faults->step(100);
 *
 * and in test_suite(), so that a loader without layers means a skip:
 *
 *   fault_require();
 */
#ifndef YOKE_TESTS_FAULT_H
#define YOKE_TESTS_FAULT_H

#include "faults/layer.h"
#include "yoke.h"

/* Error codes of OpenCL that the loops use; tests outside lib/device see no cl.h. */
enum {
    FAULT_CL_MEM_ALLOCATION_FAILURE = -4,
    FAULT_CL_OUT_OF_RESOURCES = -5,
    FAULT_CL_OUT_OF_HOST_MEMORY = -6,
    FAULT_CL_INVALID_VALUE = -30
};

/* Ends the program with a TAP skip where the loader loads no layers or there is no OpenCL
 * (asked in a child: OpenCL stays untouched here). */
void fault_require(void);
/* Names the layer to the loader and opens it; fails the test when it is not there. */
const fault_layer *fault_open(void);

/* Fails the test, naming them, when the application holds OpenCL objects. */
void fault_assert_nothing_alive(const char *when);
/* The same for memory, in a build with LeakSanitizer; true when it looked. */
bool fault_assert_no_leak(const char *when);
/* A build with LeakSanitizer: slower, and freed memory stays resident. */
bool fault_checks_leaks(void);

/* The layer's name of a device, for slow() and fail_enqueue(); false for a slice, whose queues
 * OpenCL cannot tell from its parent's: name those with slow_queue. */
bool fault_device_name(yoke_device *device, char *name, size_t size);

/* An unchecked fixture: a folder for yoke's cache, which the tests of a case share. */
void fault_make_folder(void);
void fault_remove_folder(void);
const char *fault_cache_folder(void);

/* Everything from nothing to nothing: what it made is gone when it returns, also on failure.
 * It checks what it computed and returns YOKE_ERROR_INTERNAL when that is wrong. */
typedef struct fault_scenario {
    const char *name;
    yoke_status (*run)(void *argument);
    void *argument;
    /* Whether the library may go on as if nothing had happened when this call, or an
     * allocation (NULL), fails. NULL: never. */
    bool (*may_absorb)(const char *call);
    unsigned seconds;    /* ends what hangs; 0: 120 */
    bool retry_once;     /* try again only after the last point, not after each: half the time */
    unsigned quick_step; /* with YOKE_TEST_QUICK=1 only each so many-th point; 0: all */
} fault_scenario;

typedef struct fault_counts {
    uint64_t failed;   /* points that were made to fail */
    uint64_t absorbed; /* of those, how many the scenario got over */
} fault_counts;

/* Fails call n with `code`, n = 1, 2, ... until the scenario passes untouched; of the calls that
 * are reached in the same way the first and the last. Each time it must end with a status and a
 * detail, leave nothing alive and pass when tried again. Runs in a process of its own, so a crash
 * or a hang is reported with its n. Fails the test at the end. */
fault_counts fault_loop_calls(const fault_scenario *scenario, int code, bool sticky);
/* The same for the n-th allocation of the library. */
fault_counts fault_loop_allocations(const fault_scenario *scenario);

#endif

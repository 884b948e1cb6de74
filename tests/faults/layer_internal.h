/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_internal.h - what the files of the fault layer share.
 */
#ifndef YOKE_TESTS_FAULTS_LAYER_INTERNAL_H
#define YOKE_TESTS_FAULTS_LAYER_INTERNAL_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>

#include "faults/layer.h"

/* What the layer's wrappers call: the next layer, or the loader's way to the drivers. */
extern const cl_icd_dispatch *fault_next;

/* ---- layer_objects.c: references that the application holds, by handle ---- */

void fault_object_add(fault_kind kind, void *handle, const char *call);
void fault_object_retain(fault_kind kind, void *handle, const char *call);
bool fault_object_known(fault_kind kind, void *handle);
/* True when that was the last reference. */
bool fault_object_release(fault_kind kind, void *handle, const char *call);
int64_t fault_object_live(fault_kind kind);
uint64_t fault_object_overreleased(void);
size_t fault_object_describe(char *text, size_t size, bool subdevices);

/* ---- layer_device.c: which queue belongs to which device, rules per device and step ---- */

void fault_subdevices_made(cl_device_id parent, const cl_device_id *parts, cl_uint count);
void fault_queue_made(cl_command_queue queue, cl_device_id device, bool timed);
void fault_queue_gone(cl_command_queue queue);
/* False when the application asked for profiling itself, or the queue is unknown. */
bool fault_queue_timed_by_us(cl_command_queue queue);
/* An enqueue is about to happen: an error to return instead, or CL_SUCCESS. */
cl_int fault_enqueue_error(cl_command_queue queue);
/* A launch is about to happen (its kernel may begin a step): how many times as long it is to
 * take; 1 for no change. */
double fault_launch_ratio(cl_command_queue queue, cl_kernel kernel);
/* Whether a bit is to flip at this launch, and which. */
bool fault_launch_flips(cl_command_queue queue, cl_kernel kernel, fault_flip *flip);
/* A number of the device of the queue; 0: unknown. */
uintptr_t fault_queue_device(cl_command_queue queue);
bool fault_add_flip(const fault_flip *flip);
void fault_set_step(uint64_t step);
bool fault_add_slow(const char *device, double ratio, uint64_t from, uint64_t to);
bool fault_add_slow_queue(void *queue, double ratio, uint64_t from, uint64_t to);
bool fault_add_enqueue_error(const char *device, uint64_t step, uint64_t n, int code);
bool fault_add_loss(const char *device, uint64_t step, uint64_t n, int code);
/* YOKE_FLIP="cpu:0/2.1:100:3:17[:100]", YOKE_SLOW="cpu:0/2.1:3:100[:200]" and
 * YOKE_FAULT_STEP_KERNEL; false with a bad value. */
bool fault_device_environment(void);

/* ---- layer_flip.c: flips a bit of a buffer ---- */

void fault_flip_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value);
void fault_flip_kernel_gone(cl_kernel kernel);
void fault_flip_mem_gone(void *mem);
/* From now on it is known which devices use a buffer. */
void fault_flip_begin(void);
bool fault_flip_begun(void);
/* Around a launch: finds what it uses, and flips. `flip` is NULL: nothing flips. */
void fault_flip_before(cl_command_queue queue, cl_kernel kernel, const fault_flip *flip);
void fault_flip_after(cl_command_queue queue, cl_kernel kernel, const fault_flip *flip);
uint64_t fault_flip_count(void);

/* ---- layer_slow.c: makes a queue busy after a launch ---- */

/* `launched` is the launch's event and is taken over; the event that completes after the busy
 * time goes to `done` when that is not NULL. */
cl_int fault_slow_launch(cl_command_queue queue, cl_kernel kernel, size_t items, double ratio,
                         cl_event launched, cl_event *done);
/* The launch behind an event given out by fault_slow_launch (not retained), or the event. */
cl_event fault_slow_original(cl_event event);
void fault_slow_event_gone(cl_event event);
void fault_slow_kernel_gone(cl_kernel kernel);
void fault_slow_queue_gone(cl_command_queue queue);
uint64_t fault_slow_error_count(void);

#endif

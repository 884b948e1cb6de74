/* SPDX-License-Identifier: Apache-2.0
 *
 * one_kernel.h - runs one kernel over buffers of its own: open_device(), then for each launch
 * begin(), its arguments in their order, launch(); then what came, and close_device(), which
 * destroys the buffers.
 */
#ifndef TESTS_DEVICE_ONE_KERNEL_H
#define TESTS_DEVICE_ONE_KERNEL_H

#include "device/device.h"

extern yki_queue *queue; /* of the first test device */

void open_device(void);
void close_device(void);

/* With these bytes: all of them at once (Oclgrind). */
yki_buffer *buffer(size_t size, const void *bytes);
yki_buffer *floats(size_t count, const float *values);

/* The next argument of a kernel that is being set up. */
typedef struct call {
    yki_kernel *kernel;
    unsigned next;
    size_t local;
} call;

/* The kernel `name` of a file of clkernels/, in groups of `local` work-items. */
call begin(const char *file, const char *options, const char *name, size_t local);
void pass_buffer(call *c, yki_buffer *value);
void pass_int(call *c, int32_t value);
void pass_float(call *c, float value);
/* Runs it, waits, and destroys it. */
void launch(call *c, size_t groups);

/* 64 different values, over and over. */
void ramp(float *values, size_t count, float from, float step);
/* The random word of an element, as clkernels/random_words.cl makes it. */
uint32_t random_word(uint32_t element, const uint32_t keys[2]);
/* Fails unless the floats are the wanted ones but for rounding; `what` names them. */
void expect(yki_buffer *got, const double *wanted, size_t count, const char *what);

#endif

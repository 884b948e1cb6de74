/* SPDX-License-Identifier: Apache-2.0
 *
 * timing.h - for the bench_ programs, which those who work on kernels run by hand: a device,
 * operands with something in them, the time, and the limits of the device in the same run.
 *
 * Beside the wall clock stands the processor time of all threads: on CPU devices it is disturbed
 * less by other work, but does not show work that is shared badly.
 */
#ifndef YOKE_TESTS_TIMING_H
#define YOKE_TESTS_TIMING_H

#include "op/ops.h"

/* In seconds; or in something a second: of the whole device, and of one of its units. */
typedef struct bench_time {
    double wall, cpu;
} bench_time;

bench_time bench_now(void);
bench_time bench_since(bench_time start);
/* The least of each so far; start with BENCH_NEVER. */
#define BENCH_NEVER ((bench_time){1e30, 1e30})
void bench_keep_least(bench_time *least, bench_time time);

/* Ends the program with yoke's sentence, unless all is well. */
void bench_must(yoke_status status);

typedef struct bench_device {
    yoke_context *context;
    yoke_selection *selection;
    yki_queue *queue;
    const yki_device_traits *traits;
} bench_device;
/* The first device of the selector; NULL: $YOKE_DEVICES, else all. */
bench_device bench_open(const char *selector);
void bench_close(bench_device *device);

/* A buffer for n samples of an operand, with numbers from -0.5 to 0.5 that depend on the stream;
 * its bytes are added to *bytes (NULL: not wanted). */
yki_buffer *bench_operand(yki_queue *queue, const yki_operand *operand, yki_extents extents,
                          uint32_t stream, double *bytes);

/* A launch of clkernels/peak.cl, and the most that runs of it have shown a second: floating-point
 * operations, or bytes read and written. */
typedef struct bench_limit {
    const bench_device *device;
    yki_kernel *kernel;
    yki_buffer *buffers[3];
    yki_grid grid;
    double work;
    bench_time most;
} bench_limit;
void bench_peak_open(const bench_device *device, bench_limit *limit);
void bench_copy_open(const bench_device *device, bench_limit *limit);
void bench_limit_run(bench_limit *limit, int runs);
void bench_limit_close(bench_limit *limit);

/* The same, opened, run and closed. */
bench_time bench_peak(const bench_device *device);
bench_time bench_copy(const bench_device *device);

#endif

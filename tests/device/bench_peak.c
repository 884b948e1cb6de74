/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_peak.c - `yoke bench peak`'s multiply-adds against a loop written with the
 * processor's own instructions, on as many threads as the device has units.
 *
 * Fractions of peak mean something only if the peak is one. `make check-peak` runs
 * this: turns of both are interleaved, and the best of each counts, since what else
 * happens on the machine only takes away. It fails where they differ by more than
 * 5 %; on a machine that is busy for all of its time, that says little, so it is no
 * part of `make check`. The first CPU is measured; 77: there is none, or no loop for it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

enum { TURNS = 40, MAX_THREADS = 256, CHAINS = 12 };
static const long rounds = 1500000; /* of a thread: a few milliseconds */

/* `lanes` floats of CHAINS chains, each multiplied and added `rounds` times; by name, so that they
 * stay in registers. The empty statement keeps the compiler from doing equal chains once. */
#define EACH(F)  F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define START(k) c##k = SPLAT((float)k);
#define STEP(k)                                                                                    \
    c##k = FMA(c##k, half, half);                                                                  \
    __asm__ volatile("" : "+" REGISTER(c##k));
#define FINISH(k) memcpy(sink, &c##k, sizeof c##k);
#define CHAINED(vector)                                                                            \
    vector half = SPLAT(0.5f), c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11;                   \
    float sink[sizeof half / sizeof(float)];                                                       \
                                                                                                   \
    EACH (START)                                                                                   \
        for (long i = 0; i < rounds; i++) {                                                        \
            EACH (STEP)                                                                            \
        }                                                                                          \
    EACH (FINISH)                                                                                  \
    *out = sink[0]

#if defined(__x86_64__)
#include <immintrin.h>
#define REGISTER "v"
#define FMA      _mm512_fmadd_ps
#define SPLAT    _mm512_set1_ps
__attribute__((target("avx512f"))) static void
chains_16(volatile float *out)
{
    CHAINED(__m512);
}
#undef FMA
#undef SPLAT
#undef REGISTER
#define REGISTER "x"
#define FMA      _mm256_fmadd_ps
#define SPLAT    _mm256_set1_ps
__attribute__((target("avx2,fma"))) static void
chains_8(volatile float *out)
{
    CHAINED(__m256);
}
static int
widest(void (**chains)(volatile float *))
{
    if (__builtin_cpu_supports("avx512f")) {
        *chains = chains_16;
        return 16;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        *chains = chains_8;
        return 8;
    }
    return 0;
}
#elif defined(__aarch64__)
#include <arm_neon.h>
#define REGISTER     "w"
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define SPLAT        vdupq_n_f32
static void
chains_4(volatile float *out)
{
    CHAINED(float32x4_t);
}
static int
widest(void (**chains)(volatile float *))
{
    *chains = chains_4;
    return 4;
}
#else
static int
widest(void (**chains)(volatile float *))
{
    *chains = NULL;
    return 0;
}
#endif

static void (*chains)(volatile float *);
static pthread_barrier_t gate;

/* Threads stay, as a driver's do; a turn starts and ends at the gate. */
static void *
work(void *unused)
{
    volatile float out;

    (void)unused;
    for (int turn = 0; turn < TURNS; turn++) {
        pthread_barrier_wait(&gate);
        chains(&out);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

/* The first CPU of a selection, or NULL. */
static yoke_device *
find_cpu(const yoke_selection *selection)
{
    for (size_t i = 0; i < yoke_selection_count(selection); i++) {
        yoke_device *device = yoke_selection_get(selection, i);

        if (yki_device_get_traits(device)->type == YOKE_DEVICE_CPU)
            return device;
    }
    return NULL;
}

/* The best of both, in GFLOP/s. */
static yoke_status
compare(yoke_device *device, unsigned threads, int lanes, double *ours, double *hands)
{
    pthread_t ids[MAX_THREADS];
    yoke_status status = YOKE_OK;

    *ours = *hands = 0;
    pthread_barrier_init(&gate, NULL, threads + 1);
    for (unsigned t = 0; t < threads; t++)
        if (pthread_create(&ids[t], NULL, work, NULL))
            exit(1);
    for (int turn = 0; turn < TURNS; turn++) {
        yoke_peak peak = {0};
        double start;

        if (status == YOKE_OK)
            status = yoke_device_measure_peak(device, &peak);
        *ours = YKI_MAX(*ours, peak.gflops);
        start = yki_now(); /* before: a busy machine may let the threads run first */
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
        *hands = YKI_MAX(*hands, 2.0 * CHAINS * lanes * (double)threads * (double)rounds /
                                     (yki_now() - start) / 1e9);
    }
    for (unsigned t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
    pthread_barrier_destroy(&gate);
    return status;
}

int
main(void)
{
    yoke_context *context = NULL;
    yoke_selection *selection = NULL;
    yoke_device *device = NULL;
    int lanes = widest(&chains), result = 77;
    double ours, hands;
    unsigned threads;
    yoke_status status = yoke_context_create(NULL, &context);

    if (status == YOKE_OK)
        status = yoke_selection_create(context, NULL, NULL, &selection);
    if (status == YOKE_OK)
        device = find_cpu(selection);
    if (device && lanes) {
        threads = YKI_MIN(yki_device_get_traits(device)->compute_units, (unsigned)MAX_THREADS);
        status = compare(device, threads, lanes, &ours, &hands);
        if (status == YOKE_OK) {
            printf(
                "yoke bench peak %.1f GFLOP/s, by hand with %d lanes and %u threads %.1f: %.3f\n",
                ours, lanes, threads, hands, ours / hands);
            result = ours < 0.95 * hands || ours > 1.05 * hands;
        }
    }
    if (status != YOKE_OK) {
        fprintf(stderr, "bench_peak: %s\n", yoke_last_error());
        result = 1;
    }
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h - what every other folder stands on: status with a line of detail,
 * log, host memory, threads, counter-based random numbers.
 *
 * Idea: the function that decides which error it is says so with yki_fail();
 * everybody above passes the status on. Nothing here knows OpenCL.
 */
#ifndef YKI_BASE_H
#define YKI_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "yoke.h"

#if defined(__GNUC__) || defined(__clang__)
#define YKI_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define YKI_WARN_UNUSED        __attribute__((warn_unused_result))
#else
#define YKI_PRINTF(fmt, first)
#define YKI_WARN_UNUSED
#endif

#define YKI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* One of the two is evaluated twice: no calls that do something. */
#define YKI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define YKI_MAX(a, b) ((a) > (b) ? (a) : (b))

/* The least multiple of `to` that is not less. */
static inline int64_t
yki_round_up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

/* Pass a failure on. */
#define YKI_TRY(call)                                                                              \
    do {                                                                                           \
        yoke_status yki_try_status = (call);                                                       \
        if (yki_try_status != YOKE_OK)                                                             \
            return yki_try_status;                                                                 \
    } while (0)

/* ---- status.c ---- */

/* Keeps one sentence for yoke_last_error() and returns `status`. */
yoke_status yki_fail(yoke_status status, const char *format, ...) YKI_PRINTF(2, 3);
/* Puts "prefix: " before the detail that is there; for a caller who knows the place. */
yoke_status yki_fail_in(yoke_status status, const char *prefix);
/* "conv1: stride is -1; must be between 1 and 32767": for every value that is out of its range.
 * INT64_MAX as a bound is none. */
yoke_status yki_fail_range(yoke_status status, const char *what, int64_t value, int64_t low,
                           int64_t high);
/* The same of a real number; with a `high` of FLT_MAX it has to be finite. */
yoke_status yki_fail_range_real(yoke_status status, const char *what, double value, double low,
                                double high);
/* In [low, high): "must be at least 0 and below 1". */
yoke_status yki_fail_range_below(yoke_status status, const char *what, double value, double low,
                                 double high);
/* Makes this thread's detail what another thread's was (a worker reports through its owner). */
void yki_set_detail(const char *detail);

/* ---- log.c ---- */
void yki_log(yoke_log_level level, const char *format, ...) YKI_PRINTF(2, 3);

/* ---- memory.c ---- */

/* Zeroed memory for count * size bytes (overflow checked); NULL, with the detail set, when
 * there is none. Free with yki_free. `what` names it in the error. */
void *yki_alloc(size_t count, size_t size, const char *what) YKI_WARN_UNUSED;
/* Grows an array to hold `count` elements; *array and *capacity change only on success. */
yoke_status yki_grow(void **array, size_t *capacity, size_t count, size_t size, const char *what);
/* Aligned, not zeroed; free with yki_free_aligned. */
void *yki_alloc_aligned(size_t alignment, size_t size, const char *what) YKI_WARN_UNUSED;
void yki_free(void *memory);
void yki_free_aligned(void *memory);
char *yki_strdup(const char *string, const char *what) YKI_WARN_UNUSED;
char *yki_format(const char *format, ...) YKI_PRINTF(1, 2) YKI_WARN_UNUSED;

/* Tests only: the n-th allocation from now fails (1 is the next; 0: none). Returns how many
 * were made since the last call. */
uint64_t yki_alloc_fail_at(uint64_t n);
/* Tests only: the largest size that was asked for since the last call. */
uint64_t yki_alloc_largest(void);

/* ---- thread.c ---- */
typedef struct yki_thread yki_thread;
yoke_status yki_thread_start(void (*run)(void *), void *argument, const char *name,
                             yki_thread **thread);
void yki_thread_join(yki_thread *thread); /* NULL is fine */
double yki_now(void);                     /* seconds, monotonic */

/* ---- random.c ---- */

/* Philox 4x32-10: four words from a key and a counter; no state, any order. */
void yki_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* ---- hash.c ---- */
typedef struct yki_hash {
    uint64_t h[2];
    uint64_t length;
} yki_hash;
/* 128-bit non-cryptographic hash (for cache keys and change detection). */
void yki_hash_start(yki_hash *hash);
void yki_hash_add(yki_hash *hash, const void *data, size_t size);
void yki_hash_string(yki_hash *hash,
                     const char *string); /* with its end, so "ab","c" != "a","bc" */
void yki_hash_hex(const yki_hash *hash, char hex[33]);

/* An unsigned number of `count` bytes (at most 8), the least first: on any host. */
static inline uint64_t
yki_little_endian(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;

    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

/* ---- checksum.c ---- */
typedef struct yki_checksum {
    uint64_t lane[4];
    uint64_t length;
    unsigned char rest[32]; /* of the newest incomplete stripe */
} yki_checksum;
/* XXH64 with seed 0, for the contents of files: some bytes a cycle, the same on every host. */
void yki_checksum_start(yki_checksum *sum);
void yki_checksum_add(yki_checksum *sum, const void *data, size_t size);
uint64_t yki_checksum_end(const yki_checksum *sum);
uint64_t yki_checksum_of(const void *data, size_t size);

/* ---- replace.c: a file that is there whole, or is what it was before ---- */
typedef struct yki_replace yki_replace;
/* A new file beside `path`, which commit puts in its place. */
yoke_status yki_replace_begin(const char *path, yki_replace **replace);
yoke_status yki_replace_write(yki_replace *replace, const void *data, size_t size);
/* Over what was written already. */
yoke_status yki_replace_patch(yki_replace *replace, uint64_t offset, const void *data, size_t size);
/* To the disk, then into place, then the folder to the disk. Ends `replace` in any case. */
yoke_status yki_replace_commit(yki_replace *replace);
/* Nothing happened. NULL is fine. */
void yki_replace_drop(yki_replace *replace);
/* Tests only: the n-th call of the system (1 is the next; 0: none) fails with `error`. Returns how
 * many were made since the last call. */
uint64_t yki_replace_fail_at(uint64_t n, int error);

#endif

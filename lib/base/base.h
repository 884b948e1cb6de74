/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h - what every other folder uses: status with a line of detail, log,
 * host memory, threads, counter-based random numbers, hashes, and files that are
 * replaced as a whole.
 *
 * Idea: the function that finds an error describes it with yki_fail(); its
 * callers pass the status on. Nothing here knows OpenCL.
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
/* One argument is evaluated twice, so neither may be a call with an effect. */
#define YKI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define YKI_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Returns the least multiple of `to` that is not less than `value`. */
static inline int64_t
yki_round_up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

/* Returns from the calling function with the status of a call that fails. */
#define YKI_TRY(call)                                                                              \
    do {                                                                                           \
        yoke_status yki_try_status = (call);                                                       \
        if (yki_try_status != YOKE_OK)                                                             \
            return yki_try_status;                                                                 \
    } while (0)

/* ---- status.c ---- */

/* Makes a sentence this thread's detail, which yoke_last_error() returns, and returns `status`. An
 * argument may be the present detail. */
yoke_status yki_fail(yoke_status status, const char *format, ...) YKI_PRINTF(2, 3);
/* The same with YOKE_ERROR_INTERNAL, which it returns: the sentence ends with what to do. */
yoke_status yki_fail_bug(const char *format, ...) YKI_PRINTF(1, 2);
/* Puts "prefix: " before the present detail and returns `status`. A caller that knows where the
 * error happened uses it. */
yoke_status yki_fail_in(yoke_status status, const char *prefix);
/* Reports a value out of its range: "stride is -1; must be between 1 and 32767". Use one of these
 * three for every such error. A `high` of INT64_MAX means that there is no upper bound. */
yoke_status yki_fail_range(yoke_status status, const char *what, int64_t value, int64_t low,
                           int64_t high);
/* The same for a real number. A `high` of FLT_MAX means that the value has to be finite. */
yoke_status yki_fail_range_real(yoke_status status, const char *what, double value, double low,
                                double high);
/* The same for the range [low, high): "must be at least 0 and below 1". */
yoke_status yki_fail_range_below(yoke_status status, const char *what, double value, double low,
                                 double high);
/* An argument of a public function that must not be NULL, for YKI_GIVEN. */
typedef struct yki_argument {
    const char *name;
    const void *value;
} yki_argument;

/* Fails with "yoke_x: name is NULL" for the first argument that is NULL; a NULL name ends the list.
 */
yoke_status yki_check_given(const char *function, const yki_argument *arguments);
/* Returns from a function if an argument is NULL: YKI_GIVEN("yoke_x", {"graph", graph}); */
#define YKI_GIVEN(function, ...)                                                                   \
    YKI_TRY(yki_check_given((function), (const yki_argument[]){__VA_ARGS__, {NULL, NULL}}))
/* Makes a copy of `detail` this thread's detail: one that was kept, or that of a worker thread. */
void yki_set_detail(const char *detail);

/* ---- log.c ---- */

/* Hands a line to the application's callback, if it wants lines of this level. */
void yki_log(yoke_log_level level, const char *format, ...) YKI_PRINTF(2, 3);

/* Who takes lines of a report, such as the caller of yoke_trainer_explain. */
typedef struct yki_teller {
    void (*line)(void *user, const char *text);
    void *user;
} yki_teller;

/* Hands over one line; more than 2047 bytes are cut off. */
void yki_tell(const yki_teller *to, const char *format, ...) YKI_PRINTF(2, 3);

/* ---- memory.c ---- */

/* In all of these `what` names the memory in the error. Where there is no memory they set the
 * detail and return NULL, or YOKE_ERROR_OUT_OF_MEMORY. */

/* Returns count * size bytes of zeroed memory; the product is checked for overflow. The caller
 * frees it with yki_free. */
void *yki_alloc(size_t count, size_t size, const char *what) YKI_WARN_UNUSED;
/* Grows an array of `*capacity` elements of `size` bytes until it can hold `count`. New elements
 * are zero. *array and *capacity change only on success. */
yoke_status yki_grow(void **array, size_t *capacity, size_t count, size_t size, const char *what);
/* Returns memory that is aligned and not zeroed. The caller frees it with yki_free_aligned. */
void *yki_alloc_aligned(size_t alignment, size_t size, const char *what) YKI_WARN_UNUSED;
void yki_free(void *memory);         /* NULL is fine */
void yki_free_aligned(void *memory); /* likewise */
/* Return a text that the caller frees with yki_free. */
char *yki_strdup(const char *string, const char *what) YKI_WARN_UNUSED;
char *yki_format(const char *format, ...) YKI_PRINTF(1, 2) YKI_WARN_UNUSED;

/* Tests only: makes the n-th allocation from now fail (1 is the next; 0: none). Returns how many
 * allocations were tried since the last call. */
uint64_t yki_alloc_fail_at(uint64_t n);
/* Tests only: calls `seen` in each allocation from now on; NULL: nothing. */
void yki_alloc_watch(void (*seen)(void));
/* Tests only: returns the largest size that was asked for since the last call. */
uint64_t yki_alloc_largest(void);

/* ---- thread.c ---- */

typedef struct yki_thread yki_thread;
/* Starts a thread that calls run(argument) with all signals blocked; `name` is for the error. The
 * caller joins it, which waits for it and frees it. */
yoke_status yki_thread_start(void (*run)(void *), void *argument, const char *name,
                             yki_thread **thread);
void yki_thread_join(yki_thread *thread); /* NULL is fine */
double yki_now(void);                     /* seconds, monotonic */

/* ---- random.c ---- */

/* Philox 4x32-10: computes four random words from a key and a counter. It has no state, so words
 * may be drawn in any order. */
void yki_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* ---- hash.c ---- */

/* A 128-bit hash, not cryptographic, for keys of the cache and to detect changes. */
typedef struct yki_hash {
    uint64_t h[2];
    uint64_t length;
} yki_hash;
void yki_hash_start(yki_hash *hash);
void yki_hash_add(yki_hash *hash, const void *data, size_t size);
/* Adds the text and its final 0, so that "ab", "c" and "a", "bc" differ. */
void yki_hash_string(yki_hash *hash, const char *string);
/* Writes the hash of all that was added, as 32 hexadecimal digits and a 0. */
void yki_hash_hex(const yki_hash *hash, char hex[33]);

/* Returns the unsigned number in `count` bytes (at most 8), the least significant first. */
static inline uint64_t
yki_little_endian(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;

    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

/* Writes the `size` bytes of a number, at most 8, the lowest first. */
static inline void
yki_put_little_endian(unsigned char *bytes, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
}

/* ---- exact_sum.c ---- */

enum { YKI_EXACT_DIGITS = 9 };

/* An exact sum of floats, the same whatever their order; zeros are an empty one. It is sent between
 * processes as it is. */
typedef struct yki_exact_sum {
    int64_t digits[YKI_EXACT_DIGITS];
    int64_t no_number, infinite[2]; /* how many NaN; infinity, minus infinity */
} yki_exact_sum;
/* Adds a float; a sum takes up to 2^31 of them, those of others merged included. */
void yki_exact_add(yki_exact_sum *sum, float value);
/* Adds another sum. */
void yki_exact_merge(yki_exact_sum *sum, const yki_exact_sum *other);
/* Returns the sum, rounded to a double. */
double yki_exact_value(const yki_exact_sum *sum);

/* ---- checksum.c ---- */

/* XXH64 with seed 0, for the contents of files. It takes several bytes a cycle, and is the same on
 * every host. */
typedef struct yki_checksum {
    uint64_t lane[4];       /* XXH64's four accumulators */
    uint64_t length;        /* bytes so far */
    unsigned char rest[32]; /* the bytes of the newest, incomplete stripe */
} yki_checksum;
void yki_checksum_start(yki_checksum *sum);
void yki_checksum_add(yki_checksum *sum, const void *data, size_t size);
/* Returns the checksum of all that was added. More may be added afterwards. */
uint64_t yki_checksum_end(const yki_checksum *sum);
/* Returns the checksum of one piece of memory. */
uint64_t yki_checksum_of(const void *data, size_t size);

/* Returns the CRC32C of one piece of memory (crc32c.c). */
uint32_t yki_crc32c(const void *data, size_t size);

/* ---- replace.c: replaces a file as a whole, or leaves it as it was ---- */

typedef struct yki_replace yki_replace;
/* Makes a new file beside `path`. yki_replace_commit or yki_replace_drop ends it. */
yoke_status yki_replace_begin(const char *path, yki_replace **replace);
/* Appends to the new file. */
yoke_status yki_replace_write(yki_replace *replace, const void *data, size_t size);
/* Overwrites bytes of the new file that were written already. */
yoke_status yki_replace_patch(yki_replace *replace, uint64_t offset, const void *data, size_t size);
/* Syncs the new file to the disk, renames it to `path`, and syncs the folder. Ends `replace`, also
 * if it fails. */
yoke_status yki_replace_commit(yki_replace *replace);
/* Removes the new file and leaves the old one as it is. NULL is fine. */
void yki_replace_drop(yki_replace *replace);
/* Tests only: makes the n-th system call from now fail with `error` (1 is the next; 0: none).
 * Returns how many were made since the last call. */
uint64_t yki_replace_fail_at(uint64_t n, int error);

#endif

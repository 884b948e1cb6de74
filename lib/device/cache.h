/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.h - the compiled kernels on disk (cache.c) and the locks that let one
 * process of a host build a program (lock.c); for program.c and the tests.
 *
 * No result depends on the cache. The first failure of each context is logged as a
 * warning, and kernels are then built from source. The cache knows no OpenCL: an
 * entry is bytes under a key.
 */
#ifndef YKI_DEVICE_CACHE_H
#define YKI_DEVICE_CACHE_H

#include "device/device.h"

/* The most bytes of all entries together. Above it, the entries unused for longest are removed. */
#define YKI_CACHE_LIMIT ((uint64_t)256 << 20)

/* ---- cache.c ---- */

/* Gives the payload that is stored under `key` (32 hex digits); the caller frees it with yki_free.
 * Without a usable entry it gives NULL and 0; an entry that cannot be used is logged at `level`.
 * It fails only for lack of memory. */
yoke_status yki_cache_load(yoke_context *context, const char *key, yoke_log_level level,
                           void **data, size_t *size);

/* Stores a payload under `key` if it can. A failure is only logged. */
void yki_cache_store(yoke_context *context, const char *key, const void *data, size_t size);

/* Tests only: removes the entries of `dir` that were unused for longest, until at most `limit`
 * bytes are left, and temporary files that a crash left behind. Returns the bytes that are left. */
uint64_t yki_cache_trim(const char *dir, uint64_t limit);

/* ---- lock.c: the operating system releases a lock when its holder dies ---- */

typedef struct yki_lock {
    int fd; /* -1: not held */
} yki_lock;

typedef enum yki_lock_state {
    YKI_LOCK_TAKEN,
    YKI_LOCK_STUCK, /* one holder kept it for all of `patience` */
    YKI_LOCK_BROKEN /* the file cannot be made, or its file system has no locks; see errno */
} yki_lock_state;

/* Takes this host's lock for `key` (of hex digits, or "compile"), a file in the open directory
 * `dirfd`. It waits, for at most `patience` seconds for each holder in turn. */
yki_lock_state yki_lock_take(int dirfd, const char *key, double patience, yki_lock *lock);
void yki_lock_release(yki_lock *lock); /* a lock that is not held is fine */

/* cache.c: takes the lock for building what `key` names in this context's cache. If it cannot, it
 * logs that, and the caller goes on without the lock. */
void yki_cache_lock(yoke_context *context, const char *key, yki_lock *lock);

/* ---- program.c ---- */

/* Tests only: returns how often this process gave source to a compiler. */
uint64_t yki_program_builds(void);

/* Tests only: stores `seconds` as the measured time that the device's driver takes to give a
 * binary, for each kernel in it. */
yoke_status yki_program_set_asking(yoke_device *device, double seconds);

/* The cache entry of a program whose driver was not asked for the binary. */
typedef struct yki_unasked {
    char text[24];
    double built; /* seconds that the first build took, 0.5 at least */
} yki_unasked;
#define YKI_UNASKED "yoke: built from source"

#endif

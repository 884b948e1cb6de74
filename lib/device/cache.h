/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.h - the compiled kernels on disk (cache.c) and the lock that lets one
 * process of a host build at a time (lock.c); for program.c and the tests.
 *
 * Nothing here is needed for a right answer: what fails is logged once for each
 * context, and kernels are built from source. No OpenCL in here: an entry is bytes
 * under a key.
 */
#ifndef YKI_DEVICE_CACHE_H
#define YKI_DEVICE_CACHE_H

#include "device/device.h"

/* All entries together, bytes; above it the ones unused for longest go. */
#define YKI_CACHE_LIMIT ((uint64_t)256 << 20)

/* ---- cache.c ---- */

/* An environment variable; NULL when unset, empty, or when the process runs with more rights
 * than its user (setuid): such a process must not read what the user points it at. */
const char *yki_secure_env(const char *name);

/* The payload stored under `key` (32 hex digits), to be freed with yki_free; NULL and 0 when
 * there is none fit for use, which for an entry that is there is a line of `level` in the log.
 * Fails only for want of memory. */
yoke_status yki_cache_load(yoke_context *context, const char *key, yoke_log_level level,
                           void **data, size_t *size);

/* Keeps a payload, best effort. */
void yki_cache_store(yoke_context *context, const char *key, const void *data, size_t size);

/* Removes the entries of `dir` unused for longest until the rest has at most `limit` bytes, and
 * what a crash left behind. Returns the number of bytes that are left. */
uint64_t yki_cache_trim(const char *dir, uint64_t limit);

/* ---- lock.c: released by the kernel when its holder dies ---- */

typedef struct yki_lock {
    int fd; /* -1: not held */
} yki_lock;

typedef enum yki_lock_state {
    YKI_LOCK_TAKEN,
    YKI_LOCK_STUCK, /* nobody took or gave it for the whole patience */
    YKI_LOCK_BROKEN /* the file cannot be made, or its file system has no locks: see errno */
} yki_lock_state;

/* Takes the lock of this host in the open directory `dirfd`. `patience` is in seconds: how long
 * the same holder may keep it. */
yki_lock_state yki_lock_take(int dirfd, double patience, yki_lock *lock);
void yki_lock_release(yki_lock *lock); /* also of one that is not held */

/* cache.c: the lock for building in this context's cache; goes on without it, with a log line,
 * where it cannot be had. */
void yki_cache_lock(yoke_context *context, yki_lock *lock);

/* ---- program.c ---- */

/* How often this process gave source to a compiler; tests count with it. */
uint64_t yki_program_builds(void);

/* For tests: as if getting a binary of the device's driver took so long for each kernel. */
yoke_status yki_program_set_asking(yoke_device *device, double seconds);

/* The entry of a program whose binary was not asked for. */
typedef struct yki_unasked {
    char text[24];
    double built; /* seconds */
} yki_unasked;
#define YKI_UNASKED "yoke: built from source"

#endif

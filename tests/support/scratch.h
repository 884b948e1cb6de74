/* SPDX-License-Identifier: Apache-2.0
 *
 * scratch.h - a private folder for a test's files, and an ear for the log.
 */
#ifndef YOKE_TESTS_SCRATCH_H
#define YOKE_TESTS_SCRATCH_H

#include <stddef.h>

/* For a checked fixture: makes the folder and listens to the log at every level. */
void scratch_set_up(void);
/* The same with PoCL's own cache in the folder too, not the one that all tests share: for the tests
 * in which compiling must take its time. */
void scratch_set_up_cold(void);
void scratch_tear_down(void);

/* The folder, and a path in it (of one of a few static buffers). */
const char *scratch_dir(void);
const char *scratch_path(const char *name);

void scratch_write(const char *path, const void *data, size_t size);
/* As NumPy saves `count` numbers of a type, such as "<u2". */
void scratch_write_npy(const char *path, const char *type, size_t count, const void *data,
                       size_t size);
/* The whole file, with a 0 after it; free() it. */
char *scratch_read(const char *path, size_t *size);

/* How many log lines up to `level` contain `part` since the last scratch_log_clear(). */
unsigned scratch_log_count(int level, const char *part);
void scratch_log_clear(void);
/* All of them, to show in a failure. */
const char *scratch_log(void);

#endif

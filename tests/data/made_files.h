/* SPDX-License-Identifier: Apache-2.0
 *
 * made_files.h - for tests of file formats: files are made of bytes that are put one behind the
 * other, written, and read as datasets.
 */
#ifndef TESTS_MADE_FILES_H
#define TESTS_MADE_FILES_H

#include "data/files.h"

/* What was put since the last start. */
extern unsigned char bytes[1 << 16];
extern size_t size;

void put(const void *data, size_t count);
void put_big(uint32_t value);
/* The header of an IDX file with up to 3 sizes; a fourth axis has the first one again. */
void start_idx(unsigned char type, int axes, uint32_t a, uint32_t b, uint32_t c);
/* The header of a .npy file. */
void start_npy(const char *dictionary);
/* Writes what was put, as it is or compressed; its path is good until a few others are made. */
const char *written(const char *name, bool compressed);
const char *text_file(const char *name, const char *text);
yoke_dataset *opened(const char *path, const yoke_dataset_open_options *options);
/* Refused, by a sentence that begins with the path and has this in it. */
void refused(const char *path, const yoke_dataset_open_options *options, yoke_status status,
             const char *part);
/* A field of one sample. */
void read_one(const yoke_dataset *dataset, const char *field, int64_t index, void *out);

#endif

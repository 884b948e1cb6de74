/* SPDX-License-Identifier: Apache-2.0
 *
 * files.h - what the readers of file formats share: bytes of a file, which may be
 * compressed, and columns of numbers in them.
 *
 * A reader looks at a header, computes from it how large the file must be, has that
 * checked (yki_bytes_expect), and says where which numbers lie. It neither copies
 * nor converts samples: a dataset of columns does that when they are read. So a
 * header can lie as it likes, nothing is allocated for it.
 */
#ifndef YKI_FILES_H
#define YKI_FILES_H

#include "data/dataset.h"

/* ---- bytes (bytes.c) ---- */

/* A file, or a part of memory; gzip is undone. */
typedef struct yki_bytes yki_bytes;

/* A regular file. `path` is copied, and named in errors. */
yoke_status yki_bytes_open(const char *path, yki_bytes **bytes);
/* Borrowed memory; `name` stands in errors. */
yoke_status yki_bytes_of_memory(const void *data, size_t size, const char *name, yki_bytes **bytes);
yki_bytes *yki_bytes_retain(yki_bytes *bytes);
void yki_bytes_release(yki_bytes *bytes);
const char *yki_bytes_name(const yki_bytes *bytes);
/* Of what is stored, so compressed. */
uint64_t yki_bytes_stored_size(const yki_bytes *bytes);
bool yki_bytes_compressed(const yki_bytes *bytes);
/* The first bytes, up to `size`; *got are there. */
yoke_status yki_bytes_peek(yki_bytes *bytes, void *out, size_t size, size_t *got);
/* There are exactly `size` bytes, as the header says: for a plain file a look at its size, a
 * compressed one is expanded into memory of that size, if it can hold that much. */
yoke_status yki_bytes_expect(yki_bytes *bytes, uint64_t size);
/* Of a plain file, or after yki_bytes_expect; any thread. */
yoke_status yki_bytes_read(const yki_bytes *bytes, uint64_t offset, uint64_t size, void *out);

/* ---- columns (columns.c) ---- */

typedef enum yki_number {
    YKI_NUMBER_U8, /* bool, too */
    YKI_NUMBER_I8,
    YKI_NUMBER_U16,
    YKI_NUMBER_I16,
    YKI_NUMBER_U32,
    YKI_NUMBER_I32,
    YKI_NUMBER_U64,
    YKI_NUMBER_I64,
    YKI_NUMBER_F16,
    YKI_NUMBER_F32,
    YKI_NUMBER_F64
} yki_number;

size_t yki_number_size(yki_number number);
/* What a field of them is: u8, i32 or f32. */
yoke_type yki_number_type(yki_number number);

enum { YKI_MAX_PARTS_OF_COLUMN = 16 };

/* One field of samples in files. */
typedef struct yki_column {
    yki_number number;
    bool big_endian;
    bool channels_last; /* (H, W, C) in the file; the shape below is (C, H, W) */
    yoke_shape shape;   /* of one sample */
    uint64_t stride;    /* bytes from sample to sample */
    int64_t limit;      /* labels: values are below; 0: anything */
    struct yki_column_part {
        yki_bytes *bytes; /* retained */
        uint64_t offset;
        int64_t count;
    } parts[YKI_MAX_PARTS_OF_COLUMN];
    size_t part_count;
    int64_t count; /* of all parts */
} yki_column;

/* Adds samples that begin at `offset`. */
yoke_status yki_column_add(yki_column *column, yki_bytes *bytes, uint64_t offset, int64_t count);
void yki_column_clear(yki_column *column);
/* A dataset of columns with as many samples each; takes them, also on failure. */
yoke_status yki_columns_make(yki_column *columns, const char *const *names, size_t count,
                             yoke_dataset **dataset);

/* ---- formats: one file each. All of them fill in what they were given only on success ---- */

bool yki_is_idx(const unsigned char *head, size_t size);
yoke_status yki_idx_parse(yki_bytes *bytes, yki_column *column);
bool yki_is_npy(const unsigned char *head, size_t size);
yoke_status yki_npy_parse(yki_bytes *bytes, bool channels_last, yki_column *column);
/* Files of one kind, of 10 or 100 classes: images and labels. */
yoke_status yki_cifar_parse(yki_bytes *const *files, size_t count, yki_column *images,
                            yki_column *labels, int *classes);

/* Names of classes: of text labels in CSV they are found, and numbered in alphabetical order, or
 * `known` before. */
typedef struct yki_csv_options {
    const char *label;   /* column, by name or number from 1; NULL: see csv.c */
    const char *targets; /* columns, with commas in between */
    bool no_label;
    bool integers; /* data is i32 */
    const char *const *known;
    size_t known_count;
    const char *data_name, *target_name; /* NULL: "x"; "label" or "target" */
} yki_csv_options;
yoke_status yki_csv_read(yki_bytes *bytes, const yki_csv_options *options, yoke_dataset **dataset);

/* ---- folders (folder.c) ---- */

/* The files of a part of a data set, by their names. */
typedef enum yki_found_kind {
    YKI_KIND_NONE,
    YKI_KIND_PAIR,
    YKI_KIND_CIFAR,
    YKI_KIND_CSV
} yki_found_kind;

typedef struct yki_found {
    yki_found_kind kind;
    char *data[YKI_MAX_PARTS_OF_COLUMN]; /* paths; owned */
    size_t data_count;
    char *target;  /* of a pair; NULL: none */
    char *train;   /* of CSV: where the names of classes come from; NULL: from itself */
    char *classes; /* a file with a name of a class a line; NULL: none */
} yki_found;

yoke_status yki_folder_search(const char *path, yoke_data_part part, yki_found *found);
void yki_found_clear(yki_found *found);

#endif

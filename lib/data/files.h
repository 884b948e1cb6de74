/* SPDX-License-Identifier: Apache-2.0
 *
 * files.h - what the readers of file formats share: bytes of a file, which may be compressed, and
 * columns of numbers in them.
 *
 * A reader looks at a header, computes from it how large the file must be, checks that with
 * yki_bytes_expect, and describes where the numbers are. It neither copies nor converts samples: a
 * dataset of columns does that when they are read. So a false header cannot make it allocate more
 * than the file's size allows.
 */
#ifndef YKI_FILES_H
#define YKI_FILES_H

#include "data/dataset.h"

/* ---- bytes (bytes.c) ---- */

/* A file or a block of memory; gzip is expanded. */
typedef struct yki_bytes yki_bytes;

/* Opens a regular file. `path` is copied, and appears in errors. */
yoke_status yki_bytes_open(const char *path, yki_bytes **bytes);
/* Tests only: uses borrowed memory, which must outlive the result. `name` is copied, and appears in
 * errors. */
yoke_status yki_bytes_of_memory(const void *data, size_t size, const char *name, yki_bytes **bytes);
/* The same for memory of yki_alloc, which it takes over on success. */
yoke_status yki_bytes_take(void *data, size_t size, const char *name, yki_bytes **bytes);
yki_bytes *yki_bytes_retain(yki_bytes *bytes);
void yki_bytes_release(yki_bytes *bytes);
const char *yki_bytes_name(const yki_bytes *bytes);
/* Bytes as stored: compressed, if the file is. */
uint64_t yki_bytes_stored_size(const yki_bytes *bytes);
bool yki_bytes_compressed(const yki_bytes *bytes);
/* Reads the first bytes, at most `size`; *got is their number. */
yoke_status yki_bytes_peek(yki_bytes *bytes, void *out, size_t size, size_t *got);
/* Checks that there are exactly `size` bytes, as the header says. A compressed file is expanded
 * into memory of that size, unless its stored size is too small to become so many bytes,
 * which is an error. */
yoke_status yki_bytes_expect(yki_bytes *bytes, uint64_t size);
/* Reads bytes of a plain file, or of a compressed one after yki_bytes_expect. Any thread may call
 * it. */
yoke_status yki_bytes_read(const yki_bytes *bytes, uint64_t offset, uint64_t size, void *out);

/* ---- columns (columns.c) ---- */

typedef enum yki_number {
    YKI_NUMBER_U8, /* bool too */
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
/* The type of a field of these numbers: u8, i32 or f32. */
yoke_type yki_number_type(yki_number number);

enum { YKI_MAX_PARTS_OF_COLUMN = 256 };

/* One field of samples in one or more files. */
typedef struct yki_column {
    yki_number number;
    bool big_endian;
    bool channels_last; /* (H, W, C) in the file; the shape below is (C, H, W) */
    yoke_shape shape;   /* of one sample */
    uint64_t stride;    /* bytes from one sample to the next */
    int64_t limit;      /* labels: values must be below it; 0: no limit */
    struct yki_column_part {
        yki_bytes *bytes; /* retained */
        uint64_t offset;
        int64_t count;
    } parts[YKI_MAX_PARTS_OF_COLUMN];
    size_t part_count;
    int64_t count; /* samples in all files */
} yki_column;

/* Appends `count` samples that begin at `offset` of a file. Retains `bytes`. */
yoke_status yki_column_add(yki_column *column, yki_bytes *bytes, uint64_t offset, int64_t count);
void yki_column_clear(yki_column *column);
/* Reads `count` integers from number `first` on of a column of single numbers. */
yoke_status yki_column_read_numbers(const yki_column *column, int64_t first, size_t count,
                                    int32_t *out);
/* Makes a dataset of columns, which must have equal numbers of samples. It takes over the columns,
 * also on failure. */
yoke_status yki_columns_make(yki_column *columns, const char *const *names, size_t count,
                             yoke_dataset **dataset);

/* ---- formats: one file each. All of them write their outputs only on success ---- */

/* A format of files that hold one column each. */
typedef struct yki_column_format {
    const char *name;
    const char *endings[5]; /* of names of files in folders; ends with NULL */
    /* Recognises the format by the first `size` bytes. */
    bool (*is)(const unsigned char *head, size_t size);
    /* Describes the samples of a file as a column. */
    yoke_status (*parse)(yki_bytes *bytes, const yoke_dataset_open_options *options,
                         yki_column *column);
} yki_column_format;

/* All of them, in the order in which a folder is searched. */
#define YKI_COLUMN_FORMATS(X)                                                                      \
    X(idx)                                                                                         \
    X(npy)
#define YKI_COLUMN_FORMAT(name) extern const yki_column_format yki_format_##name;
YKI_COLUMN_FORMATS(YKI_COLUMN_FORMAT)
#undef YKI_COLUMN_FORMAT
extern const yki_column_format *const yki_column_formats[]; /* NULL stands at the end (folder.c) */

/* Describes images and labels of files that are all of CIFAR-10 or all of CIFAR-100. */
yoke_status yki_cifar_parse(yki_bytes *const *files, size_t count, yki_column *images,
                            yki_column *labels);

/* Class names come from `known` if it is given; otherwise text labels are collected and numbered in
 * alphabetical order. */
typedef struct yki_csv_options {
    const char *label;   /* a column's name, or its number from 1; NULL: guessed (csv.c) */
    const char *targets; /* names or numbers of columns, separated by commas */
    const char *weights; /* the column of weights of samples; NULL: none */
    /* How data columns become numbers (data/encoding.h): rules, or what was learned of the training
     * data, which rules do not change; NULL: all of them are numbers. */
    const char *columns, *encoding;
    bool no_label;
    bool integers; /* data columns become i32 */
    const char *const *known;
    size_t known_count;
    const char *data_name, *target_name; /* NULL: "x"; "label" or "target" */
} yki_csv_options;
/* Reads a table, which must not be compressed, into memory and makes a dataset of it. */
yoke_status yki_csv_read(yki_bytes *bytes, const yki_csv_options *options, yoke_dataset **dataset);

/* Opens a table; `train`: the one that classes and texts are numbered by; NULL: this one. (open.c)
 */
yoke_status yki_table_open(const char *path, const char *train, const yoke_dataset_open_options *o,
                           yoke_dataset **dataset);

/* ---- several files (fields.c) ---- */

/* Opens the files that field_names of the options tell, and joins them. */
yoke_status yki_fields_open(const char *path, const yoke_dataset_open_options *options,
                            yoke_dataset **dataset);

/* ---- folders (folder.c) ---- */

/* The names in a folder, sorted by their bytes, without hidden ones. */
typedef struct yki_listing {
    const char *path; /* lent */
    char **names;
    size_t count, capacity;
} yki_listing;
yoke_status yki_list_folder(const char *path, yki_listing *listing);
void yki_listing_clear(yki_listing *listing);
/* The part of a data set that words in a name tell; YOKE_PART_ANY: none. */
yoke_data_part yki_part_of_name(const char *name);

/* Which files hold a part of a data set (training or test data), found by their names. */
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
    char *target;  /* of a pair: its labels; NULL: none */
    char *train;   /* CSV: the table that class names come from; NULL: this one */
    char *classes; /* a file with one class name a line; NULL: none */
} yki_found;

/* Finds the files of a part of a data set in a folder; YOKE_ERROR_NOT_FOUND: there are none. The
 * caller calls yki_found_clear. */
yoke_status yki_folder_search(const char *path, yoke_data_part part, yki_found *found);
void yki_found_clear(yki_found *found);

#endif

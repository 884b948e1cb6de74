/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.h - named tensors in a file: 8 bytes with the length of a header,
 * little-endian; the header, a JSON object of types, shapes and offsets, and texts
 * in its member "__metadata__"; the data, without gaps.
 *
 * Nothing of a file is believed before it was checked against the file's size.
 * Memory for a file that is open is about that of its header.
 *
 * Files that we write have two texts of their own, which others ignore: checksums of
 * each tensor ("yoke.sums") and of the header ("yoke.header").
 */
#ifndef YKI_SAFETENSORS_H
#define YKI_SAFETENSORS_H

#include "base/base.h"

#define YKI_SUMS_KEY   "yoke.sums"
#define YKI_HEADER_KEY "yoke.header"

typedef enum yki_dtype {
    YKI_DTYPE_F32,
    YKI_DTYPE_F64,
    YKI_DTYPE_F16,
    YKI_DTYPE_BF16,
    YKI_DTYPE_F8_E5M2,
    YKI_DTYPE_F8_E4M3,
    YKI_DTYPE_I64,
    YKI_DTYPE_I32,
    YKI_DTYPE_I16,
    YKI_DTYPE_I8,
    YKI_DTYPE_U64,
    YKI_DTYPE_U32,
    YKI_DTYPE_U16,
    YKI_DTYPE_U8,
    YKI_DTYPE_BOOL,
    /* known by size alone */
    YKI_DTYPE_F8_E8M0,
    YKI_DTYPE_F4,
    YKI_DTYPE_F6_E2M3,
    YKI_DTYPE_F6_E3M2,
    YKI_DTYPE_C64,
    YKI_DTYPES
} yki_dtype;

typedef struct yki_tensor {
    char *name;
    yki_dtype dtype;
    uint32_t rank;
    int64_t *shape;       /* owned */
    uint64_t count;       /* elements */
    uint64_t begin, size; /* bytes, within the data */
    bool has_sum;
    uint64_t sum;
} yki_tensor;

typedef struct yki_text {
    char *key, *value;
} yki_text;

typedef struct yki_safetensors {
    char *path; /* for errors */
    int fd;     /* -1: in memory */
    const unsigned char *memory;
    uint64_t size;       /* of the file */
    uint64_t start;      /* where the data begin */
    yki_tensor *tensors; /* in the order of their data */
    size_t count, capacity;
    uint32_t *by_name;
    yki_text *texts; /* by key */
    size_t text_count, text_capacity;
    bool has_header_sum;
} yki_safetensors;

const char *yki_dtype_name(yki_dtype dtype);
unsigned yki_dtype_bits(yki_dtype dtype);
/* False: no such type. */
bool yki_dtype_find(const char *name, yki_dtype *dtype);

/* ---- safetensors_read.c ---- */

yoke_status yki_safetensors_open(const char *path, yki_safetensors **file);
/* The same from memory, which has to stay; `name` is for errors. */
yoke_status yki_safetensors_open_memory(const void *data, size_t size, const char *name,
                                        yki_safetensors **file);
void yki_safetensors_close(yki_safetensors *file);
/* NULL: there is none. */
const yki_tensor *yki_safetensors_find(const yki_safetensors *file, const char *name);
const char *yki_safetensors_text(const yki_safetensors *file, const char *key);
/* All of a tensor, whose checksum is compared if the file has one: as it is in the file (but in
 * this host's byte order), or as floats; what floats cannot hold is refused. */
yoke_status yki_safetensors_read(const yki_safetensors *file, const yki_tensor *tensor, void *out);
yoke_status yki_safetensors_read_f32(const yki_safetensors *file, const yki_tensor *tensor,
                                     float *out);

/* Parses and checks a header of `length` bytes, for data of `data_size`; for `file`, whose
 * memory it uses (safetensors_header.c). */
yoke_status yki_safetensors_parse(yki_safetensors *file, const char *header, size_t length,
                                  uint64_t data_size);

/* ---- safetensors_write.c ---- */

typedef struct yki_tensor_source {
    const char *name;
    yki_dtype dtype; /* of at least 8 bits */
    uint32_t rank;
    const int64_t *shape;
} yki_tensor_source;

/* Writes a file, whole or not at all. `read` gives tensor `index` into memory, in this host's byte
 * order; asked once for each, in order. */
yoke_status yki_safetensors_write(const char *path, const yki_text *texts, size_t text_count,
                                  const yki_tensor_source *tensors, size_t count,
                                  yoke_status (*read)(void *user, size_t index, void *out),
                                  void *user);

#endif

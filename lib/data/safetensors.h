/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.h - named tensors in a file. The file has three pieces: 8 bytes with the length of
 * the header, little-endian; the header, a JSON object of types, shapes and offsets, with texts in
 * its member "__metadata__"; the data, without gaps.
 *
 * Nothing that a file says is trusted before it is compared with the file's size. An open file
 * takes about as much memory as its header.
 *
 * Files that yoke writes have two texts of their own, which other programs ignore: checksums of the
 * tensors ("yoke.sums") and of the header ("yoke.header").
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
    /* only their sizes are known */
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
    uint64_t begin, size; /* bytes, counted from the start of the data */
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
    uint64_t start;      /* offset of the data */
    yki_tensor *tensors; /* sorted by their data */
    size_t count, capacity;
    uint32_t *by_name;
    yki_text *texts; /* sorted by key */
    size_t text_count, text_capacity;
    bool has_header_sum;
} yki_safetensors;

const char *yki_dtype_name(yki_dtype dtype);
unsigned yki_dtype_bits(yki_dtype dtype);
/* Finds a type by its name; false: there is none. */
bool yki_dtype_find(const char *name, yki_dtype *dtype);
/* Converts the bits of one element, of types up to BOOL; false: it is too large for a float
 * (safetensors_read.c). */
bool yki_dtype_to_float(yki_dtype dtype, uint64_t bits, float *value);

/* ---- safetensors_read.c ---- */

/* Opens a file and checks its header. The caller closes it. */
yoke_status yki_safetensors_open(const char *path, yki_safetensors **file);
/* Tests only: the same for a file in memory, which must outlive the result. `name` is for errors.
 */
yoke_status yki_safetensors_open_memory(const void *data, size_t size, const char *name,
                                        yki_safetensors **file);
void yki_safetensors_close(yki_safetensors *file);
/* Both return NULL if there is none. */
const yki_tensor *yki_safetensors_find(const yki_safetensors *file, const char *name);
const char *yki_safetensors_text(const yki_safetensors *file, const char *key);
/* Read a whole tensor: as it is in the file, but in this host's byte order; or as floats, where a
 * value that is too large for a float is an error. They compare the tensor's checksum if the file
 * has one. */
yoke_status yki_safetensors_read(const yki_safetensors *file, const yki_tensor *tensor, void *out);
yoke_status yki_safetensors_read_f32(const yki_safetensors *file, const yki_tensor *tensor,
                                     float *out);

/* Parses and checks a header of `length` bytes for data of `data_size` bytes, and fills in tensors
 * and texts of `file` (safetensors_header.c). */
yoke_status yki_safetensors_parse(yki_safetensors *file, const char *header, size_t length,
                                  uint64_t data_size);

/* ---- safetensors_write.c ---- */

typedef struct yki_tensor_source {
    const char *name;
    yki_dtype dtype; /* must have at least 8 bits */
    uint32_t rank;
    const int64_t *shape;
} yki_tensor_source;

/* Writes a file, whole or not at all. Calls `read` once for each tensor, in order: it copies tensor
 * `index` to `out`, in this host's byte order. */
yoke_status yki_safetensors_write(const char *path, const yki_text *texts, size_t text_count,
                                  const yki_tensor_source *tensors, size_t count,
                                  yoke_status (*read)(void *user, size_t index, void *out),
                                  void *user);

#endif

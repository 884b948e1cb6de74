/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_tensor.c - the numbers of a tensor of ONNX: as bytes in the model, in a list of its own
 * kind, or in a file beside the model.
 *
 * Such a file must be inside the model's folder, also after its links are followed.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "data/files.h"
#include "data/onnx.h"
#include "data/safetensors.h"

enum { CHUNK = 1 << 16 };

/* Lists by the numbers of their fields: varints but for the second and the fourth. */
enum { LIST_FLOAT = 4, LIST_INT32 = 5, LIST_INT64 = 7, LIST_DOUBLE = 10, LIST_UINT64 = 11 };

static const struct type {
    int32_t type;
    const char *name;
    yki_dtype dtype;
    uint32_t list;
} types[] = {
    {YKI_ONNX_F32, "float", YKI_DTYPE_F32, LIST_FLOAT},
    {YKI_ONNX_U8, "uint8", YKI_DTYPE_U8, LIST_INT32},
    {YKI_ONNX_I8, "int8", YKI_DTYPE_I8, LIST_INT32},
    {YKI_ONNX_U16, "uint16", YKI_DTYPE_U16, LIST_INT32},
    {YKI_ONNX_I16, "int16", YKI_DTYPE_I16, LIST_INT32},
    {YKI_ONNX_I32, "int32", YKI_DTYPE_I32, LIST_INT32},
    {YKI_ONNX_I64, "int64", YKI_DTYPE_I64, LIST_INT64},
    {YKI_ONNX_BOOL, "bool", YKI_DTYPE_BOOL, LIST_INT32},
    {YKI_ONNX_F16, "float16", YKI_DTYPE_F16, LIST_INT32},
    {YKI_ONNX_F64, "double", YKI_DTYPE_F64, LIST_DOUBLE},
    {YKI_ONNX_U32, "uint32", YKI_DTYPE_U32, LIST_UINT64},
    {YKI_ONNX_U64, "uint64", YKI_DTYPE_U64, LIST_UINT64},
    {YKI_ONNX_BF16, "bfloat16", YKI_DTYPE_BF16, LIST_INT32},
};

static const struct type *
find_type(int32_t type)
{
    for (size_t i = 0; i < YKI_COUNT(types); i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

bool
yki_onnx_is_float(int32_t type)
{
    return type == YKI_ONNX_F32 || type == YKI_ONNX_F16 || type == YKI_ONNX_F64 ||
           type == YKI_ONNX_BF16;
}

const char *
yki_onnx_type_name(int32_t type)
{
    return find_type(type) ? find_type(type)->name : type == YKI_ONNX_TEXT ? "string" : "unknown";
}

/* ---- how many there are ---- */

static unsigned
width_of(const struct type *type)
{
    return yki_dtype_bits(type->dtype) / 8;
}

/* What one element takes in a packed list; 0: it is a varint. */
static size_t
packed_width(uint32_t list)
{
    return list == LIST_FLOAT ? 4 : list == LIST_DOUBLE ? 8 : 0;
}

static size_t
count_varints(const yki_wire_span *span)
{
    size_t count = 0;

    for (size_t i = 0; i < span->size; i++)
        count += span->at[i] < 128;
    return count;
}

static uint64_t
count_list(const yki_onnx_tensor *t, uint32_t list)
{
    const size_t width = packed_width(list);
    yki_wire_span message = t->message;
    yki_wire_field field;
    uint64_t count = 0;

    while (message.size && yki_wire_next(&message, &field))
        if (field.number == list)
            count += field.wire != YKI_WIRE_BYTES ? 1
                     : width                      ? field.bytes.size / width
                                                  : count_varints(&field.bytes);
    return count;
}

static yoke_status
wrong_size(const yki_onnx *m, const yki_onnx_tensor *t, uint64_t has, uint64_t wants,
           const char *what)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: the tensor \"%s\" has %llu %s; must have %llu", m->path,
                    t->name, (unsigned long long)has, what, (unsigned long long)wants);
}

/* ---- external data ---- */

static yoke_status
outside(const yki_onnx *m, const yki_onnx_tensor *t)
{
    return yki_fail(YOKE_ERROR_FORMAT,
                    "%s: the data of \"%s\" are in \"%.200s\"; must be a file inside the model's "
                    "folder",
                    m->path, t->name, t->location ? t->location : "");
}

/* Whether no part of a path leads out of its folder by its spelling. */
static bool
stays_inside(const char *path)
{
    if (!path || !*path || *path == '/' || strchr(path, '\\'))
        return false;
    for (const char *part = path; part; part = strchr(part, '/'), part += part != NULL)
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    return true;
}

/* Finds the file, and compares what its links lead to with the folder. The caller frees it. */
static yoke_status
find_external(const yki_onnx *m, const yki_onnx_tensor *t, char **out)
{
    const char *slash = strrchr(m->path, '/');
    char *path, folder[PATH_MAX], file[PATH_MAX];
    size_t length;

    if (!stays_inside(t->location))
        return outside(m, t);
    *out = path = slash ? yki_format("%.*s", (int)(slash + 1 - m->path), m->path)
                        : yki_strdup("./", "a path");
    if (!path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    *out = yki_format("%s%s", path, t->location);
    length = realpath(path, folder) ? strlen(folder) : 0;
    yki_free(path);
    if (!*out)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (!length || !realpath(*out, file))
        return yki_fail(YOKE_ERROR_NOT_FOUND,
                        "%s: the data of \"%s\" are in %s, which is not there; get all files of "
                        "the model",
                        m->path, t->name, *out);
    length -= folder[length - 1] == '/'; /* the root */
    return strncmp(file, folder, length) == 0 && file[length] == '/' ? YOKE_OK : outside(m, t);
}

static yoke_status
open_external(const yki_onnx *m, const yki_onnx_tensor *t, char **path, yki_bytes **bytes)
{
    const uint64_t size = (uint64_t)t->count * width_of(find_type(t->type));
    uint64_t has;

    YKI_TRY(find_external(m, t, path));
    YKI_TRY(yki_bytes_open(*path, bytes));
    has = yki_bytes_stored_size(*bytes);
    if (t->offset > has || size > has - t->offset)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: the data of \"%s\" are bytes %llu to %llu of %s, which has %llu",
                        m->path, t->name, (unsigned long long)t->offset,
                        (unsigned long long)(t->offset + size), *path, (unsigned long long)has);
    return YOKE_OK;
}

static yoke_status
check_external(const yki_onnx *m, const yki_onnx_tensor *t)
{
    yki_bytes *bytes = NULL;
    char *path = NULL;
    const yoke_status status = open_external(m, t, &path, &bytes);

    yki_free(path);
    yki_bytes_release(bytes);
    return status;
}

/* ---- the size ---- */

yoke_status
yki_onnx_check_size(const yki_onnx *m, const yki_onnx_tensor *t)
{
    const struct type *type = find_type(t->type);
    const uint64_t count = (uint64_t)t->count;
    uint64_t bytes;

    if (!type)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s: the tensor \"%s\" has elements of type %d (%s); must be floats, whole "
                        "numbers or bool",
                        m->path, t->name, (int)t->type, yki_onnx_type_name(t->type));
    bytes = count * width_of(type);
    if (t->is_external && t->has_length && t->length != bytes)
        return wrong_size(m, t, t->length, bytes, "bytes of external data");
    if (t->is_external)
        return check_external(m, t);
    if (!t->is_external && t->is_raw && t->raw.size != bytes)
        return wrong_size(m, t, t->raw.size, bytes, "bytes");
    if (!t->is_external && !t->is_raw && count_list(t, type->list) != count)
        return wrong_size(m, t, count_list(t, type->list), count, "elements");
    return YOKE_OK;
}

/* ---- elements ---- */

/* Where elements go: either of the two. */
typedef struct target {
    const yki_onnx *model;
    const yki_onnx_tensor *tensor;
    const struct type *type;
    float *floats;
    int64_t *ints;
    int64_t done;
} target;

static yoke_status
put(target *to, uint64_t bits)
{
    float value;

    if (to->ints) {
        const unsigned unused = 64 - 8 * width_of(to->type);
        const bool is_signed = to->type->dtype == YKI_DTYPE_I32 ||
                               to->type->dtype == YKI_DTYPE_I16 || to->type->dtype == YKI_DTYPE_I8;
        const uint64_t top = bits << unused;

        /* The sign of a narrow number fills the bits above it. */
        to->ints[to->done++] =
            (int64_t)(is_signed && top >> 63 ? ~(~top >> unused) : top >> unused);
        return YOKE_OK;
    }
    if (!yki_dtype_to_float(to->type->dtype, bits, &value))
        return yki_fail(YOKE_ERROR_VALUE,
                        "%s: a value of \"%s\" is too large for float32; must be at most 3.4e38",
                        to->model->path, to->tensor->name);
    to->floats[to->done++] = value;
    return YOKE_OK;
}

static yoke_status
put_bytes(target *to, const unsigned char *bytes, size_t size)
{
    const unsigned width = width_of(to->type);

    for (size_t i = 0; i + width <= size; i += width)
        YKI_TRY(put(to, yki_little_endian(bytes + i, width)));
    return YOKE_OK;
}

static yoke_status
put_list(target *to)
{
    const size_t width = packed_width(to->type->list);
    yki_wire_span message = to->tensor->message;
    yki_wire_field field;
    uint64_t value;

    while (message.size && yki_wire_next(&message, &field)) {
        if (field.number != to->type->list)
            continue;
        if (field.wire != YKI_WIRE_BYTES)
            YKI_TRY(put(to, field.value));
        for (size_t i = 0; width && field.wire == YKI_WIRE_BYTES && i + width <= field.bytes.size;
             i += width)
            YKI_TRY(put(to, yki_little_endian(field.bytes.at + i, width)));
        while (!width && field.wire == YKI_WIRE_BYTES && field.bytes.size) {
            if (!yki_wire_varint(&field.bytes, &value) || to->done == to->tensor->count)
                return yki_fail(YOKE_ERROR_FORMAT, "%s: the tensor \"%s\" has a damaged number",
                                to->model->path, to->tensor->name);
            YKI_TRY(put(to, value));
        }
    }
    return YOKE_OK;
}

static yoke_status
put_file(target *to, yki_bytes *bytes, unsigned char *chunk)
{
    const yki_onnx_tensor *t = to->tensor;
    const uint64_t size = (uint64_t)t->count * width_of(to->type);

    for (uint64_t offset = 0; offset < size; offset += CHUNK) {
        const uint64_t part = YKI_MIN(size - offset, (uint64_t)CHUNK);

        YKI_TRY(yki_bytes_read(bytes, t->offset + offset, part, chunk));
        YKI_TRY(put_bytes(to, chunk, (size_t)part));
    }
    return YOKE_OK;
}

/* Opens the file and compares its size. The caller frees the path and releases the bytes. */
static yoke_status
put_external(target *to)
{
    yki_bytes *bytes = NULL;
    char *path = NULL;
    unsigned char *chunk;
    yoke_status status = open_external(to->model, to->tensor, &path, &bytes);

    if (status == YOKE_OK) {
        chunk = yki_alloc(1, CHUNK, "a part of a file");
        status = chunk ? put_file(to, bytes, chunk) : YOKE_ERROR_OUT_OF_MEMORY;
        yki_free(chunk);
    }
    yki_free(path);
    yki_bytes_release(bytes);
    return status;
}

/* ---- reading ---- */

static yoke_status
read_all(target *to)
{
    YKI_TRY(yki_onnx_check_size(to->model, to->tensor));
    to->type = find_type(to->tensor->type);
    if (to->tensor->is_external)
        return put_external(to);
    if (to->tensor->is_raw)
        return put_bytes(to, to->tensor->raw.at, to->tensor->raw.size);
    return put_list(to);
}

yoke_status
yki_onnx_read_floats(yki_onnx *m, const yki_onnx_tensor *t, float *out)
{
    target to = {.model = m, .tensor = t, .floats = out};

    return read_all(&to);
}

yoke_status
yki_onnx_read_ints(yki_onnx *m, const yki_onnx_tensor *t, int64_t *out)
{
    target to = {.model = m, .tensor = t, .ints = out};

    return read_all(&to);
}

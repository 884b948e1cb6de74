/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors_read.c - opens a safetensors file and reads its tensors.
 *
 * It reads and does not map: if somebody shortens a mapped file, the process ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/safetensors.h"

enum { HEADER_LENGTH = 8, MAX_HEADER = 100 * 1000 * 1000, CHUNK = 1 << 16 };

/* Reads `size` bytes from `offset` of the file. */
static yoke_status
read_at(const yki_safetensors *file, uint64_t offset, size_t size, void *out)
{
    unsigned char *bytes = out;

    if (offset > file->size || size > file->size - offset)
        return yki_fail(YOKE_ERROR_FORMAT, "%s ends in the middle; get the whole file", file->path);
    if (file->fd < 0) {
        memcpy(out, file->memory + offset, size);
        return YOKE_OK;
    }
    while (size > 0) {
        ssize_t done = pread(file->fd, bytes, size, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return yki_fail(YOKE_ERROR_IO, "%s cannot be read: %s", file->path, strerror(errno));
        if (done == 0)
            return yki_fail(YOKE_ERROR_FORMAT, "%s ends in the middle; get the whole file",
                            file->path);
        bytes += done;
        size -= (size_t)done;
        offset += (uint64_t)done;
    }
    return YOKE_OK;
}

/* Other files that people take for weights, by their first bytes. */
static const struct {
    const char *bytes;
    size_t length;
    const char *what; /* what the file is, and what to do */
} others[] = {
    {"PK\3\4", 4,
     "a zip archive, as torch.save writes; save the weights with safetensors.torch.save_file "
     "instead"},
    {"\x80\2", 2,
     "a pickle, as old versions of torch.save write; save the weights with "
     "safetensors.torch.save_file instead"},
    {"\x80\4", 2, "a pickle of Python; save the weights with safetensors.numpy.save_file instead"},
    {"\x80\5", 2, "a pickle of Python; save the weights with safetensors.numpy.save_file instead"},
    {"\x89HDF\r\n", 6,
     "an HDF5 file, as Keras writes; save the weights with safetensors.numpy.save_file instead"},
    {"\x93NUMPY", 6, "an array of NumPy, as for data; weights need a safetensors file"},
    {"GGUF", 4, "a GGUF file; convert it to safetensors"},
    {"\x1f\x8b", 2, "compressed by gzip; unpack it first"},
    {"version https://git-lfs", 23,
     "a pointer of Git LFS; fetch the file itself with git lfs pull"},
    {"<", 1, "HTML or XML; was a page saved instead of the file?"},
};

/* True for JSON: a brace or a bracket after spaces. */
static bool
is_json(const unsigned char *bytes, size_t count)
{
    size_t i = 0;

    while (i < count && strchr(" \t\r\n", bytes[i]) && bytes[i])
        i++;
    return i < count && (bytes[i] == '{' || bytes[i] == '[');
}

/* True for words in ASCII. A length of at most 100 million would have zeros among these bytes. */
static bool
is_text(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((bytes[i] < ' ' && !strchr("\t\r\n", bytes[i])) || bytes[i] == 0 || bytes[i] > 126)
            return false;
    return count > HEADER_LENGTH;
}

static yoke_status
fail_other_file(const yki_safetensors *file, uint64_t length)
{
    unsigned char bytes[32] = {0};
    size_t count = (size_t)YKI_MIN(file->size, sizeof bytes);

    YKI_TRY(read_at(file, 0, count, bytes));
    for (size_t i = 0; i < YKI_COUNT(others); i++)
        if (count >= others[i].length && memcmp(bytes, others[i].bytes, others[i].length) == 0)
            return yki_fail(YOKE_ERROR_FORMAT, "%s: no safetensors file, but %s", file->path,
                            others[i].what);
    if (is_json(bytes, count))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: no safetensors file, but JSON, which has no weights; a graph as JSON "
                        "goes where a graph is wanted (yoke train --model)",
                        file->path);
    if (is_text(bytes, count))
        return yki_fail(YOKE_ERROR_FORMAT, "%s: no safetensors file, but text", file->path);
    if (file->size < HEADER_LENGTH + 2)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: no safetensors file: it has %" PRIu64 " bytes",
                        file->path, file->size);
    return yki_fail(YOKE_ERROR_FORMAT,
                    "%s: no safetensors file: the length of its header is %" PRIu64
                    "; must be between 2 and %" PRIu64,
                    file->path, length, YKI_MIN((uint64_t)MAX_HEADER, file->size - HEADER_LENGTH));
}

static yoke_status
load_header(yki_safetensors *file)
{
    unsigned char bytes[HEADER_LENGTH];
    uint64_t length;
    yoke_status status;
    char *header;

    if (file->size < sizeof bytes)
        return fail_other_file(file, 0);
    YKI_TRY(read_at(file, 0, sizeof bytes, bytes));
    length = yki_little_endian(bytes, sizeof bytes);
    if (length < 2 || length > MAX_HEADER || length > file->size - sizeof bytes)
        return fail_other_file(file, length);
    file->start = sizeof bytes + length;
    header = yki_alloc(1, (size_t)length, "a file's header");
    if (!header)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = read_at(file, sizeof bytes, (size_t)length, header);
    if (status == YOKE_OK)
        status = yki_safetensors_parse(file, header, (size_t)length, file->size - file->start);
    yki_free(header);
    return status;
}

static yoke_status
make(const char *name, yki_safetensors **out)
{
    yki_safetensors *file = yki_alloc(1, sizeof *file, "a file");

    if (!file)
        return YOKE_ERROR_OUT_OF_MEMORY;
    file->fd = -1;
    file->path = yki_strdup(name, "a path");
    if (!file->path) {
        yki_free(file);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    *out = file;
    return YOKE_OK;
}

static yoke_status
open_file(yki_safetensors *file)
{
    struct stat found;

    /* O_NONBLOCK, because opening a pipe would wait for a writer. */
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0 || fstat(file->fd, &found) != 0)
        return yki_fail(YOKE_ERROR_IO, "%s cannot be opened: %s", file->path, strerror(errno));
    if (!S_ISREG(found.st_mode))
        return yki_fail(YOKE_ERROR_IO, "%s is %s; must be a safetensors file", file->path,
                        S_ISDIR(found.st_mode) ? "a folder" : "no regular file");
    file->size = (uint64_t)found.st_size;
    return load_header(file);
}

yoke_status
yki_safetensors_open(const char *path, yki_safetensors **out)
{
    yki_safetensors *file;
    yoke_status status;

    YKI_TRY(make(path, &file));
    status = open_file(file);
    if (status != YOKE_OK) {
        yki_safetensors_close(file);
        return status;
    }
    *out = file;
    return YOKE_OK;
}

yoke_status
yki_safetensors_open_memory(const void *data, size_t size, const char *name, yki_safetensors **out)
{
    yki_safetensors *file;
    yoke_status status;

    YKI_TRY(make(name, &file));
    file->memory = data;
    file->size = size;
    status = load_header(file);
    if (status != YOKE_OK) {
        yki_safetensors_close(file);
        return status;
    }
    *out = file;
    return YOKE_OK;
}

void
yki_safetensors_close(yki_safetensors *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->count; i++) {
        yki_free(file->tensors[i].name);
        yki_free(file->tensors[i].shape);
    }
    for (size_t i = 0; i < file->text_count; i++) {
        yki_free(file->texts[i].key);
        yki_free(file->texts[i].value);
    }
    if (file->fd >= 0)
        close(file->fd);
    yki_free(file->tensors);
    yki_free(file->texts);
    yki_free(file->by_name);
    yki_free(file->path);
    yki_free(file);
}

const yki_tensor *
yki_safetensors_find(const yki_safetensors *file, const char *name)
{
    size_t low = 0, high = file->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const yki_tensor *tensor = &file->tensors[file->by_name[middle]];
        int order = strcmp(name, tensor->name);

        if (order == 0)
            return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *
yki_safetensors_text(const yki_safetensors *file, const char *key)
{
    for (size_t i = 0; i < file->text_count; i++)
        if (strcmp(file->texts[i].key, key) == 0)
            return file->texts[i].value;
    return NULL;
}

/* ---- values ---- */

/* Converts sign, exponent and fraction. An exponent of all ones means infinity or NaN; with `fn`
 * there are no infinities, and only the largest fraction is NaN. */
static float
small_float(uint64_t bits, int exponent_bits, int fraction_bits, bool fn)
{
    int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    int fraction = (int)bits & ((1 << fraction_bits) - 1);
    int top = (1 << exponent_bits) - 1, bias = top / 2;
    float value;

    if (exponent == top && (fn ? fraction == (1 << fraction_bits) - 1 : fraction != 0))
        value = NAN;
    else if (exponent == top && !fn)
        value = INFINITY;
    else if (exponent == 0)
        value = ldexpf((float)fraction, 1 - bias - fraction_bits);
    else
        value = ldexpf((float)(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits);
    return bits >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}

/* False: the value is too large for a float. */
static bool
from_double(uint64_t bits, float *value)
{
    double wide;

    memcpy(&wide, &bits, sizeof wide);
    *value = (float)wide;
    return !(isfinite(wide) && fabs(wide) > (double)FLT_MAX);
}

bool
yki_dtype_to_float(yki_dtype dtype, uint64_t bits, float *value)
{
    uint32_t word = (uint32_t)bits;

    switch (dtype) {
    case YKI_DTYPE_F32:
        memcpy(value, &word, sizeof word);
        return true;
    case YKI_DTYPE_BF16:
        word <<= 16;
        memcpy(value, &word, sizeof word);
        return true;
    case YKI_DTYPE_F64:
        return from_double(bits, value);
    case YKI_DTYPE_F16:
        *value = small_float(bits, 5, 10, false);
        return true;
    case YKI_DTYPE_F8_E5M2:
        *value = small_float(bits, 5, 2, false);
        return true;
    case YKI_DTYPE_F8_E4M3:
        *value = small_float(bits, 4, 3, true);
        return true;
    case YKI_DTYPE_I64:
        *value = (float)(int64_t)bits;
        return true;
    case YKI_DTYPE_I32:
        *value = (float)(int32_t)word;
        return true;
    case YKI_DTYPE_I16:
        *value = (float)(int16_t)word;
        return true;
    case YKI_DTYPE_I8:
        *value = (float)(int8_t)word;
        return true;
    default: /* unsigned */
        *value = (float)bits;
        return true;
    }
}

/* Where to_host and to_floats write, and how. */
typedef struct target {
    const yki_safetensors *file;
    const yki_tensor *tensor;
    bool floats;
    unsigned char *out;
} target;

/* Converts to this host's byte order. Types smaller than a byte stay as they are. */
static void
to_host(const target *t, const unsigned char *bytes, size_t size, uint64_t offset)
{
    unsigned width = YKI_MAX(yki_dtype_bits(t->tensor->dtype) / 8, 1u);
    unsigned char *out = t->out + offset;

    for (size_t i = 0; i + width <= size; i += width) {
        uint64_t word = yki_little_endian(bytes + i, width);
        uint32_t word32 = (uint32_t)word;
        uint16_t word16 = (uint16_t)word;

        if (width == 8)
            memcpy(out + i, &word, 8);
        else if (width == 4)
            memcpy(out + i, &word32, 4);
        else if (width == 2)
            memcpy(out + i, &word16, 2);
        else
            out[i] = (unsigned char)word;
    }
}

static yoke_status
to_floats(const target *t, const unsigned char *bytes, size_t size, uint64_t offset)
{
    unsigned width = yki_dtype_bits(t->tensor->dtype) / 8;
    float *out = (float *)(void *)t->out + offset / width;

    for (size_t i = 0; i < size / width; i++)
        if (!yki_dtype_to_float(t->tensor->dtype, yki_little_endian(bytes + i * width, width),
                                &out[i]))
            return yki_fail(
                YOKE_ERROR_VALUE,
                "%s: a value of \"%.200s\" is too large for float32; must be at most 3.4e38",
                t->file->path, t->tensor->name);
    return YOKE_OK;
}

static yoke_status
read_parts(const target *t, unsigned char *chunk)
{
    yki_checksum sum;

    yki_checksum_start(&sum);
    for (uint64_t offset = 0; offset < t->tensor->size; offset += CHUNK) {
        size_t size = (size_t)YKI_MIN(t->tensor->size - offset, (uint64_t)CHUNK);

        YKI_TRY(read_at(t->file, t->file->start + t->tensor->begin + offset, size, chunk));
        if (t->tensor->has_sum)
            yki_checksum_add(&sum, chunk, size);
        if (t->floats)
            YKI_TRY(to_floats(t, chunk, size, offset));
        else
            to_host(t, chunk, size, offset);
    }
    if (t->tensor->has_sum && yki_checksum_end(&sum) != t->tensor->sum)
        return yki_fail(YOKE_ERROR_FORMAT, "%s is damaged: the checksum of \"%.200s\" is another",
                        t->file->path, t->tensor->name);
    return YOKE_OK;
}

static yoke_status
read_tensor(const yki_safetensors *file, const yki_tensor *tensor, bool floats, void *out)
{
    const target t = {file, tensor, floats, out};
    unsigned char *chunk = yki_alloc(1, CHUNK, "a part of a file");
    yoke_status status;

    if (!chunk)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = read_parts(&t, chunk);
    yki_free(chunk);
    return status;
}

yoke_status
yki_safetensors_read(const yki_safetensors *file, const yki_tensor *tensor, void *out)
{
    return read_tensor(file, tensor, false, out);
}

yoke_status
yki_safetensors_read_f32(const yki_safetensors *file, const yki_tensor *tensor, float *out)
{
    if (tensor->dtype > YKI_DTYPE_BOOL)
        return yki_fail(YOKE_ERROR_TYPE,
                        "%s: \"%.200s\" is of type %s; must be one of floats, integers or bool",
                        file->path, tensor->name, yki_dtype_name(tensor->dtype));
    return read_tensor(file, tensor, true, out);
}

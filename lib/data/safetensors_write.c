/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors_write.c - writes a safetensors file.
 *
 * The header comes first but holds checksums of the data after it. So it is written with zeros in
 * their place, and again when they are known. The file has no name until then (base/replace.c).
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"

enum { CHUNK = 1 << 16, HEADER_ALIGN = 64 };

static uint64_t
tensor_size(const yki_tensor_source *tensor)
{
    uint64_t size = yki_dtype_bits(tensor->dtype) / 8;

    for (uint32_t i = 0; i < tensor->rank; i++)
        size *= (uint64_t)tensor->shape[i];
    return size;
}

static json_t *
describe(const yki_tensor_source *tensor, uint64_t begin)
{
    json_t *shape = json_array();
    bool good = shape != NULL;

    for (uint32_t i = 0; i < tensor->rank; i++)
        good = good && json_array_append_new(shape, json_integer(tensor->shape[i])) == 0;
    if (!good) {
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", yki_dtype_name(tensor->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + tensor_size(tensor)));
}

static json_t *
describe_texts(const yki_text *texts, size_t text_count, size_t count)
{
    json_t *object = json_object();
    char *sums = yki_alloc(1, 16 * count + 1, "checksums");
    bool good = object && sums;

    if (good) {
        memset(sums, '0', 16 * count);
        good = json_object_set_new(object, YKI_HEADER_KEY, json_string("0000000000000000")) == 0 &&
               json_object_set_new(object, YKI_SUMS_KEY, json_string(sums)) == 0;
    }
    for (size_t i = 0; good && i < text_count; i++)
        good = json_object_set_new(object, texts[i].key, json_string(texts[i].value)) == 0;
    yki_free(sums);
    if (!good) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* Adds members one by one, so that the error can tell which name or text is wrong. */
static yoke_status
describe_all(const char *path, const yki_text *texts, size_t text_count,
             const yki_tensor_source *tensors, size_t count, json_t *header)
{
    uint64_t begin = 0;

    if (json_object_set_new(header, "__metadata__", describe_texts(texts, text_count, count)) != 0)
        return yki_fail(YOKE_ERROR_VALUE, "%s: a text to write is no UTF-8; must be", path);
    for (size_t i = 0; i < count; i++) {
        if (json_object_get(header, tensors[i].name))
            return yki_fail(YOKE_ERROR_VALUE,
                            "%s: two tensors of the name \"%.200s\"; must have different names",
                            path, tensors[i].name);
        if (json_object_set_new(header, tensors[i].name, describe(&tensors[i], begin)) != 0)
            return yki_fail(YOKE_ERROR_VALUE, "%s: the name \"%.200s\" is no UTF-8; must be", path,
                            tensors[i].name);
        begin += tensor_size(&tensors[i]);
    }
    return YOKE_OK;
}

/* Puts the length before the header and spaces after it, so that the data begin at a multiple of
 * 64. */
static yoke_status
make_header(const char *path, const yki_text *texts, size_t text_count,
            const yki_tensor_source *tensors, size_t count, char **out, size_t *out_size)
{
    json_t *json = json_object();
    char *text = NULL, *header;
    size_t length, size;
    yoke_status status;

    if (!json)
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for a file's header");
    status = describe_all(path, texts, text_count, tensors, count, json);
    if (status == YOKE_OK)
        text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    YKI_TRY(status);
    if (!text)
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for a file's header");
    length = strlen(text);
    size = (8 + length + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    header = yki_alloc(1, size, "a file's header");
    if (header) {
        memset(header, ' ', size);
        memcpy(header + 8, text, length);
        yki_put_little_endian((unsigned char *)header, size - 8, 8);
        *out = header;
        *out_size = size;
    }
    free(text);
    return header ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

static void
to_little(const unsigned char *in, unsigned char *out, size_t size, unsigned width)
{
    for (size_t i = 0; i < size; i += width) {
        uint64_t word = in[i];

        if (width == 8) {
            memcpy(&word, in + i, 8);
        } else if (width == 4) {
            uint32_t word32;

            memcpy(&word32, in + i, 4);
            word = word32;
        } else if (width == 2) {
            uint16_t word16;

            memcpy(&word16, in + i, 2);
            word = word16;
        }
        for (unsigned k = 0; k < width; k++)
            out[i + k] = (unsigned char)(word >> 8 * k);
    }
}

static yoke_status
write_tensor(yki_replace *file, const unsigned char *data, uint64_t size, unsigned width,
             uint64_t *sum)
{
    unsigned char chunk[CHUNK];
    yki_checksum running;

    yki_checksum_start(&running);
    for (uint64_t offset = 0; offset < size; offset += CHUNK) {
        size_t part = (size_t)YKI_MIN(size - offset, (uint64_t)CHUNK);

        to_little(data + offset, chunk, part, width);
        yki_checksum_add(&running, chunk, part);
        YKI_TRY(yki_replace_write(file, chunk, part));
    }
    *sum = yki_checksum_end(&running);
    return YOKE_OK;
}

static void
put_sum(char *at, uint64_t sum)
{
    char digits[17];

    snprintf(digits, sizeof digits, "%016" PRIx64, sum);
    memcpy(at, digits, 16);
}

/* Finds the digits of a checksum. yoke's texts come first, and every quote inside a text has a
 * backslash, so the first match is the right one. */
static char *
digits_of(char *header, size_t size, const char *key)
{
    char *at = memmem(header, size, key, strlen(key));

    return at + strlen(key);
}

static yoke_status
write_data(yki_replace *file, char *sums, const yki_tensor_source *tensors, size_t count,
           yoke_status (*read)(void *, size_t, void *), void *user)
{
    yoke_status status = YOKE_OK;
    uint64_t largest = 0, sum;
    void *data;

    for (size_t i = 0; i < count; i++)
        largest = YKI_MAX(largest, tensor_size(&tensors[i]));
    data = yki_alloc(1, (size_t)largest, "a tensor");
    if (!data)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; status == YOKE_OK && i < count; i++) {
        status = read(user, i, data);
        if (status == YOKE_OK)
            status = write_tensor(file, data, tensor_size(&tensors[i]),
                                  yki_dtype_bits(tensors[i].dtype) / 8, &sum);
        if (status == YOKE_OK)
            put_sum(sums + 16 * i, sum);
    }
    yki_free(data);
    return status;
}

static yoke_status
write_file(yki_replace *file, char *header, size_t size, const yki_tensor_source *tensors,
           size_t count, yoke_status (*read)(void *, size_t, void *), void *user)
{
    char *own = digits_of(header, size, "\"" YKI_HEADER_KEY "\":\"");
    char *sums = digits_of(header, size, "\"" YKI_SUMS_KEY "\":\"");

    YKI_TRY(yki_replace_write(file, header, size));
    YKI_TRY(write_data(file, sums, tensors, count, read, user));
    put_sum(own, yki_checksum_of(header + 8, size - 8));
    return yki_replace_patch(file, 0, header, size);
}

yoke_status
yki_safetensors_write(const char *path, const yki_text *texts, size_t text_count,
                      const yki_tensor_source *tensors, size_t count,
                      yoke_status (*read)(void *user, size_t index, void *out), void *user)
{
    yki_replace *file = NULL;
    char *header = NULL;
    size_t size = 0;
    yoke_status status;

    YKI_TRY(make_header(path, texts, text_count, tensors, count, &header, &size));
    status = yki_replace_begin(path, &file);
    if (status == YOKE_OK) {
        status = write_file(file, header, size, tensors, count, read, user);
        if (status == YOKE_OK)
            status = yki_replace_commit(file);
        else
            yki_replace_drop(file);
    }
    yki_free(header);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors_header.c - parses the header of a safetensors file and checks that it can be true.
 *
 * A JSON tree of the whole header would take twenty times its size. So this file splits it into
 * members, by brackets and quotes alone, and jansson parses each member by itself, which finds what
 * is not JSON.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"

/* A longer description of a tensor is refused. */
enum { MAX_DESCRIPTION = 8192, MAX_TENSOR_RANK = 64, MAX_DEPTH = 64 };

static const struct dtype {
    const char *name;
    unsigned bits;
} dtypes[YKI_DTYPES] = {
    [YKI_DTYPE_F32] = {"F32", 32},        [YKI_DTYPE_F64] = {"F64", 64},
    [YKI_DTYPE_F16] = {"F16", 16},        [YKI_DTYPE_BF16] = {"BF16", 16},
    [YKI_DTYPE_F8_E5M2] = {"F8_E5M2", 8}, [YKI_DTYPE_F8_E4M3] = {"F8_E4M3", 8},
    [YKI_DTYPE_I64] = {"I64", 64},        [YKI_DTYPE_I32] = {"I32", 32},
    [YKI_DTYPE_I16] = {"I16", 16},        [YKI_DTYPE_I8] = {"I8", 8},
    [YKI_DTYPE_U64] = {"U64", 64},        [YKI_DTYPE_U32] = {"U32", 32},
    [YKI_DTYPE_U16] = {"U16", 16},        [YKI_DTYPE_U8] = {"U8", 8},
    [YKI_DTYPE_BOOL] = {"BOOL", 8},       [YKI_DTYPE_F8_E8M0] = {"F8_E8M0", 8},
    [YKI_DTYPE_F4] = {"F4", 4},           [YKI_DTYPE_F6_E2M3] = {"F6_E2M3", 6},
    [YKI_DTYPE_F6_E3M2] = {"F6_E3M2", 6}, [YKI_DTYPE_C64] = {"C64", 64},
};

const char *
yki_dtype_name(yki_dtype dtype)
{
    return dtypes[dtype].name;
}

unsigned
yki_dtype_bits(yki_dtype dtype)
{
    return dtypes[dtype].bits;
}

bool
yki_dtype_find(const char *name, yki_dtype *dtype)
{
    for (unsigned i = 0; i < YKI_DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype = (yki_dtype)i;
            return true;
        }
    return false;
}

static yoke_status
damaged(const yki_safetensors *file, const char *what)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: no safetensors file: %s", file->path, what);
}

/* ---- cutting an object into members ---- */

typedef struct cursor {
    const char *at, *end;
} cursor;

typedef yoke_status member(yki_safetensors *file, const char *key, const char *value,
                           size_t length);

static void
skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool
take(cursor *c, char what)
{
    skip_space(c);
    if (c->at >= c->end || *c->at != what)
        return false;
    c->at++;
    return true;
}

/* Moves past the string that begins here. */
static bool
skip_string(cursor *c)
{
    if (!take(c, '"'))
        return false;
    for (; c->at < c->end; c->at++) {
        if (*c->at == '"') {
            c->at++;
            return true;
        }
        if (*c->at == '\\')
            c->at++;
    }
    return false;
}

static bool
skip_value(cursor *c)
{
    unsigned depth = 0;

    skip_space(c);
    while (c->at < c->end) {
        char here = *c->at;

        if (here == '"') {
            if (!skip_string(c))
                return false;
        } else if (here == '{' || here == '[') {
            if (++depth > MAX_DEPTH)
                return false;
            c->at++;
        } else if (here == '}' || here == ']') {
            if (depth == 0)
                return true;
            depth--;
            c->at++;
        } else if (here == ',' && depth == 0) {
            return true;
        } else {
            c->at++;
            if (depth || (here != ' ' && here != '\n' && here != '\r' && here != '\t'))
                continue;
        }
        if (depth == 0)
            return true;
    }
    return depth == 0;
}

/* Decodes a JSON string; the caller calls free. NULL: it is not a string. */
static char *
decode_string(const char *text, size_t length)
{
    json_t *json = json_loadb(text, length, JSON_DECODE_ANY, NULL);
    const char *value = json_string_value(json);
    char *copy = value ? yki_strdup(value, "a text") : NULL;

    json_decref(json);
    return copy;
}

static yoke_status
for_members(yki_safetensors *file, const char *text, size_t length, member *each)
{
    cursor c = {text, text + length};
    bool more;

    if (!take(&c, '{'))
        return damaged(file, "the header does not begin with a brace");
    skip_space(&c);
    more = !take(&c, '}');
    while (more) {
        const char *key, *value;
        size_t key_length;
        yoke_status status;
        char *name;

        skip_space(&c);
        key = c.at;
        if (!skip_string(&c))
            return damaged(file, "the header is no JSON: a name in quotes is missing");
        key_length = (size_t)(c.at - key);
        if (!take(&c, ':'))
            return damaged(file, "the header is no JSON: a colon is missing");
        skip_space(&c);
        value = c.at;
        if (!skip_value(&c) || c.at == value)
            return damaged(file, "the header is no JSON: a value has no end");
        name = decode_string(key, key_length);
        if (!name)
            return damaged(file, "the header is no JSON: a name is no text");
        status = each(file, name, value, (size_t)(c.at - value));
        yki_free(name);
        if (status != YOKE_OK)
            return status;
        more = take(&c, ',');
        if (!more && !take(&c, '}'))
            return damaged(file, "the header is no JSON: a closing brace is missing");
    }
    skip_space(&c);
    return c.at == c.end ? YOKE_OK : damaged(file, "something follows the header's last brace");
}

/* ---- what members mean ---- */

static yoke_status
bad_tensor(const yki_safetensors *file, const char *name, const char *what)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: the tensor \"%.200s\" %s", file->path, name, what);
}

/* Reads a size or an offset: a whole number that is not negative. */
static bool
whole(const json_t *json, uint64_t *value)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0)
        return false;
    *value = (uint64_t)json_integer_value(json);
    return true;
}

static yoke_status
take_shape(yki_safetensors *file, yki_tensor *tensor, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > MAX_TENSOR_RANK)
        return bad_tensor(file, tensor->name, "has no shape, or one of more than 64 axes");
    tensor->rank = (uint32_t)json_array_size(shape);
    tensor->shape = yki_alloc(tensor->rank, sizeof *tensor->shape, "a shape");
    if (!tensor->shape)
        return YOKE_ERROR_OUT_OF_MEMORY;
    tensor->count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint64_t size;

        if (!whole(json_array_get(shape, i), &size))
            return bad_tensor(file, tensor->name, "has a size that is no number of elements");
        tensor->shape[i] = (int64_t)size;
        if (size && tensor->count > UINT64_MAX / 64 / size)
            return bad_tensor(file, tensor->name, "has more elements than can be counted");
        tensor->count *= size;
    }
    return YOKE_OK;
}

static yoke_status
take_tensor(yki_safetensors *file, yki_tensor *tensor, const json_t *json)
{
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    const json_t *offsets = json_object_get(json, "data_offsets");
    uint64_t end, bits;

    if (!json_is_object(json) || !dtype || !yki_dtype_find(dtype, &tensor->dtype))
        return bad_tensor(file, tensor->name, "has no type, or one that is not known");
    YKI_TRY(take_shape(file, tensor, json_object_get(json, "shape")));
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !whole(json_array_get(offsets, 0), &tensor->begin) ||
        !whole(json_array_get(offsets, 1), &end) || end < tensor->begin)
        return bad_tensor(file, tensor->name, "has no offsets, a beginning and an end");
    tensor->size = end - tensor->begin;
    bits = tensor->count * yki_dtype_bits(tensor->dtype);
    if (bits % 8 || bits / 8 != tensor->size)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: the tensor \"%.200s\" has %" PRIu64 " bytes, its shape and type need "
                        "%" PRIu64,
                        file->path, tensor->name, tensor->size, bits / 8);
    return YOKE_OK;
}

static yoke_status
take_text(yki_safetensors *file, const char *key, const char *value, size_t length)
{
    yki_text *text;

    YKI_TRY(yki_grow((void **)&file->texts, &file->text_capacity, file->text_count + 1,
                     sizeof *file->texts, "the texts of a file"));
    text = &file->texts[file->text_count];
    text->key = yki_strdup(key, "the name of a text");
    if (!text->key)
        return YOKE_ERROR_OUT_OF_MEMORY;
    text->value = decode_string(value, length);
    file->text_count++;
    return text->value ? YOKE_OK : damaged(file, "a member of __metadata__ is no text");
}

static yoke_status
take_member(yki_safetensors *file, const char *key, const char *value, size_t length)
{
    yoke_status status;
    yki_tensor *tensor;
    json_t *json;

    if (strcmp(key, "__metadata__") == 0) {
        if (file->text_count)
            return damaged(file, "__metadata__ is there twice");
        return for_members(file, value, length, take_text);
    }
    if (length > MAX_DESCRIPTION)
        return bad_tensor(file, key, "has a description that is too long for one");
    YKI_TRY(yki_grow((void **)&file->tensors, &file->capacity, file->count + 1,
                     sizeof *file->tensors, "the tensors of a file"));
    tensor = &file->tensors[file->count];
    memset(tensor, 0, sizeof *tensor);
    tensor->name = yki_strdup(key, "the name of a tensor");
    if (!tensor->name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    file->count++;
    json = json_loadb(value, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (!json)
        return bad_tensor(file, key, "has a description that is no JSON");
    status = take_tensor(file, tensor, json);
    json_decref(json);
    return status;
}

/* ---- whether it can be true ---- */

static int
by_offset(const void *a, const void *b)
{
    const yki_tensor *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int
by_key(const void *a, const void *b)
{
    return strcmp(((const yki_text *)a)->key, ((const yki_text *)b)->key);
}

static int
by_name(const void *a, const void *b, void *tensors)
{
    const yki_tensor *all = tensors;

    return strcmp(all[*(const uint32_t *)a].name, all[*(const uint32_t *)b].name);
}

/* Checks that each byte of the data belongs to exactly one tensor. */
static yoke_status
check_places(const yki_safetensors *file, uint64_t data_size)
{
    uint64_t expected = 0;

    for (size_t i = 0; i < file->count; i++) {
        const yki_tensor *tensor = &file->tensors[i];

        if (tensor->begin != expected)
            return bad_tensor(file, tensor->name,
                              tensor->begin < expected ? "overlaps another"
                                                       : "has unused bytes before it");
        expected += tensor->size;
        if (expected > data_size)
            return bad_tensor(file, tensor->name, "ends behind the end of the file");
    }
    if (expected != data_size)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: %" PRIu64 " bytes follow the last tensor; must be none", file->path,
                        data_size - expected);
    return YOKE_OK;
}

static yoke_status
check_names(yki_safetensors *file)
{
    file->by_name = yki_alloc(file->count, sizeof *file->by_name, "the names of tensors");
    if (!file->by_name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = (uint32_t)i;
    qsort_r(file->by_name, file->count, sizeof *file->by_name, by_name, file->tensors);
    for (size_t i = 1; i < file->count; i++)
        if (by_name(&file->by_name[i - 1], &file->by_name[i], file->tensors) == 0)
            return bad_tensor(file, file->tensors[file->by_name[i]].name, "is there twice");
    if (file->text_count)
        qsort(file->texts, file->text_count, sizeof *file->texts, by_key);
    for (size_t i = 1; i < file->text_count; i++)
        if (by_key(&file->texts[i - 1], &file->texts[i]) == 0)
            return damaged(file, "a member of __metadata__ is there twice");
    return YOKE_OK;
}

/* Reads 16 hexadecimal digits. */
static bool
parse_sum(const char *text, uint64_t *sum)
{
    *sum = 0;
    for (int i = 0; i < 16; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

        if (!digit)
            return false;
        *sum = *sum << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

static yoke_status
take_sums(yki_safetensors *file)
{
    const char *sums = yki_safetensors_text(file, YKI_SUMS_KEY);

    if (!sums)
        return YOKE_OK;
    if (strlen(sums) != 16 * file->count)
        return damaged(file, "there is not one checksum for each tensor");
    for (size_t i = 0; i < file->count; i++) {
        file->tensors[i].has_sum = true;
        if (!parse_sum(sums + 16 * i, &file->tensors[i].sum))
            return damaged(file, "a checksum is none");
    }
    return YOKE_OK;
}

/* The header's own checksum is computed with zeros in place of its digits. */
static yoke_status
check_header_sum(yki_safetensors *file, const char *header, size_t length)
{
    static const char key[] = "\"" YKI_HEADER_KEY "\":\"", zeros[] = "0000000000000000";
    const char *at = memmem(header, length, key, sizeof key - 1);
    yki_checksum sum;
    uint64_t told;
    size_t before;

    if (!yki_safetensors_text(file, YKI_HEADER_KEY))
        return YOKE_OK;
    if (!at || (size_t)(header + length - at) < sizeof key - 1 + 16 ||
        !parse_sum(at + sizeof key - 1, &told))
        return damaged(file, "the checksum of the header is none");
    before = (size_t)(at - header) + sizeof key - 1;
    yki_checksum_start(&sum);
    yki_checksum_add(&sum, header, before);
    yki_checksum_add(&sum, zeros, 16);
    yki_checksum_add(&sum, header + before + 16, length - before - 16);
    if (yki_checksum_end(&sum) != told)
        return yki_fail(YOKE_ERROR_FORMAT, "%s is damaged: the checksum of its header is another",
                        file->path);
    file->has_header_sum = true;
    return YOKE_OK;
}

yoke_status
yki_safetensors_parse(yki_safetensors *file, const char *header, size_t length, uint64_t data_size)
{
    YKI_TRY(for_members(file, header, length, take_member));
    if (file->count)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_offset);
    YKI_TRY(check_places(file, data_size));
    YKI_TRY(check_names(file));
    YKI_TRY(check_header_sum(file, header, length));
    return take_sums(file);
}

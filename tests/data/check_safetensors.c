/* SPDX-License-Identifier: Apache-2.0
 *
 * check_safetensors.c - files of tensors: what is written is read again, types of
 * others are understood, what breaks the format's rules is refused with a sentence,
 * damage is found, and a disk that fails leaves the old file as it was.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/safetensors.h"
#include "fuzz/fuzz.h"
#include "support/scratch.h"
#include "support/support.h"

/* ---- files by hand ---- */

/* A file of this header and data; free() it. */
static unsigned char *
compose(const char *header, const void *data, size_t data_size, size_t *size)
{
    size_t length = strlen(header);
    unsigned char *file = malloc(8 + length + data_size);

    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(file + 8, header, length);
    if (data_size)
        memcpy(file + 8 + length, data, data_size);
    *size = 8 + length + data_size;
    return file;
}

static yoke_status
open_composed(const char *header, size_t data_size)
{
    unsigned char data[64] = {0};
    size_t size;
    unsigned char *bytes = compose(header, data, data_size, &size);
    yki_safetensors *file = NULL;
    yoke_status status = yki_safetensors_open_memory(bytes, size, "x.safetensors", &file);

    ck_assert((status == YOKE_OK) == (file != NULL));
    yki_safetensors_close(file);
    free(bytes);
    return status;
}

START_TEST(what_is_allowed)
{
    static const struct {
        const char *header;
        size_t size;
    } files[] = {
        {"{}", 0},
        {"{ }   ", 0},
        {"{\"__metadata__\":{}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4},
        {" {\"a\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]}}", 0},
        /* out of order, one of them empty, a text, an unknown member, spaces behind */
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},"
         "\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\\n\":\"\"},"
         "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8],\"note\":{\"a\":[1]}},"
         "\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}  ",
         11},
        {"{\"f4\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[0,3]}}", 3},
    };

    for (size_t i = 0; i < YKI_COUNT(files); i++)
        ASSERT_OK(open_composed(files[i].header, files[i].size));
}
END_TEST

START_TEST(what_is_refused)
{
    static const struct {
        const char *header;
        size_t size;
        const char *detail;
    } files[] = {
        {"", 0, "it has 8 bytes"},
        {"[]", 0, "does not begin with a brace"},
        {"{}x", 0, "follows the header's last brace"},
        {"{\"a\"}", 0, "a colon is missing"},
        {"{\"a\":", 0, "a value has no end"},
        {"{\"a\":}", 0, "a value has no end"},
        {"{a:1}", 0, "a name in quotes is missing"},
        {"{\"\\ud800\":{}}", 0, "a name is no text"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]} \"b\":1}", 4,
         "a closing brace is missing"},
        {"{\"a\":[[[}", 4, "no JSON"},
        {"{\"a\":1}", 0, "\"a\" has no type"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not known"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
         "no number of elements"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
         "no number of elements"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, "has no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "no offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "no offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
         "has 4 bytes, its shape and type need 8"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "need 1"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
         "\"data_offsets\":[0,0]}}",
         0, "more elements than can be counted"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3,
         "ends behind the end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "1 bytes follow"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}", 5,
         "has unused bytes before it"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
         6, "\"b\" overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
         8, "\"a\" is there twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
         "no JSON"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "is no text"},
        {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "is there twice"},
        {"{\"__metadata__\":[]}", 0, "does not begin with a brace"},
        {"{\"__metadata__\":{\"yoke.sums\":\"00\"}}", 0, "not one checksum for each"},
        {"{\"__metadata__\":{\"yoke.header\":\"0000000000000000\"}}", 0, "damaged"},
        {"{\"__metadata__\":{\"yoke.header\":\"00\"}}", 0, "checksum of the header is none"},
    };

    for (size_t i = 0; i < YKI_COUNT(files); i++) {
        ASSERT_STATUS(YOKE_ERROR_FORMAT, open_composed(files[i].header, files[i].size));
        ASSERT_DETAIL(files[i].detail);
        ASSERT_DETAIL("x.safetensors");
    }
}
END_TEST

/* A hundred thousand brackets are no reason to run out of stack. */
START_TEST(deep_headers_are_refused)
{
    enum { DEPTH = 100000 };
    char *header = malloc(DEPTH + 16);

    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', DEPTH);
    header[5 + DEPTH] = '\0';
    ASSERT_STATUS(YOKE_ERROR_FORMAT, open_composed(header, 0));
    free(header);
}
END_TEST

/* Files that people take for weights are told by how they begin. */
START_TEST(files_of_other_kinds)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } files[] = {
        {"{\n  \"nodes\": []}", 16, "no safetensors file, but JSON, which has no weights"},
        {" [1, 2, 3]  ", 12, "no safetensors file, but JSON"},
        {"{}", 2, "no safetensors file, but JSON"},
        {"# yoke\n\nyoke trains", 19, "no safetensors file, but text"},
        {"PK\3\4\0\0\x08\x08\0\0\0\0", 12,
         "no safetensors file, but a zip archive, as torch.save writes; save the weights with "
         "safetensors.torch.save_file instead"},
        {"\x80\2\x8a\nl\xfc\x9c\x46\xf9 j", 11,
         "but a pickle, as old versions of torch.save write; save the weights with"},
        {"\x80\4\x95\x1e\0\0\0\0\0\0\0}", 12, "but a pickle of Python; save"},
        {"\x80\5\x95\x1e\0\0\0\0\0\0\0}", 12, "but a pickle of Python; save"},
        {"\x89HDF\r\n\x1a\n\0\0\0\0", 12, "but an HDF5 file, as Keras writes; save"},
        {"\x93NUMPY\1\0\x76\0{", 11, "but an array of NumPy"},
        {"GGUF\3\0\0\0\0\0\0\0", 12, "but a GGUF file"},
        {"\x1f\x8b\x08\0\0\0\0\0\0\0\0\0", 12, "but compressed by gzip; unpack it first"},
        {"version https://git-lfs.github.com/spec/v1", 42, "but a pointer of Git LFS"},
        {"<!doctype html>", 15, "but HTML or XML"},
    };

    for (size_t i = 0; i < YKI_COUNT(files); i++) {
        yki_safetensors *file = NULL;

        scratch_write(scratch_path("other"), files[i].bytes, files[i].size);
        ASSERT_STATUS(YOKE_ERROR_FORMAT, yki_safetensors_open(scratch_path("other"), &file));
        ASSERT_DETAIL(files[i].says);
        ck_assert_ptr_null(file);
    }
}
END_TEST

START_TEST(no_files)
{
    yki_safetensors *file = NULL;

    ASSERT_STATUS(YOKE_ERROR_IO, yki_safetensors_open(scratch_path("none"), &file));
    ASSERT_DETAIL("No such file");
    ASSERT_STATUS(YOKE_ERROR_IO, yki_safetensors_open(scratch_dir(), &file));
    ASSERT_DETAIL("is a folder");
    ASSERT_STATUS(YOKE_ERROR_IO, yki_safetensors_open("/dev/null", &file));
    scratch_write(scratch_path("empty"), "", 0);
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yki_safetensors_open(scratch_path("empty"), &file));
    ASSERT_DETAIL("it has 0 bytes");
    scratch_write(scratch_path("huge"), "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yki_safetensors_open(scratch_path("huge"), &file));
    ASSERT_DETAIL("no safetensors file: the length of its header is 9223372036854775807; "
                  "must be between 2 and 2");
    ck_assert_ptr_null(file);
}
END_TEST

/* ---- types ---- */

/* Little-endian bytes of each type, and what they are. */
static const struct {
    const char *dtype;
    const char *bytes;
    size_t size;
    float values[4];
} types[] = {
    {"F32", "\x00\x00\x80\x3f\x00\x00\x00\xc0", 8, {1, -2}},
    {"F64", "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x04\xc0", 16, {1, -2.5f}},
    {"F16", "\x00\x3c\x00\xc1\x01\x00\xff\x7b", 8, {1, -2.5f, 0x1p-24f, 65504}},
    {"BF16", "\x80\x3f\x20\xc0", 4, {1, -2.5f}},
    {"F8_E5M2", "\x3c\xc1\x01\x7b", 4, {1, -2.5f, 0x1p-16f, 57344}},
    {"F8_E4M3", "\x38\xc2\x01\x7e", 4, {1, -2.5f, 0x1p-9f, 448}},
    {"I64", "\x03\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", 16, {3, -1}},
    {"I32", "\x03\x01\x00\x00\xfe\xff\xff\xff", 8, {259, -2}},
    {"I16", "\x03\x01\xfe\xff", 4, {259, -2}},
    {"I8", "\x03\xfe", 2, {3, -2}},
    {"U64", "\x03\x00\x00\x00\x00\x00\x00\x00", 8, {3}},
    {"U32", "\xff\xff\x00\x00", 4, {65535}},
    {"U16", "\xff\xff", 2, {65535}},
    {"U8", "\x03\xfe", 2, {3, 254}},
    {"BOOL", "\x01\x00", 2, {1, 0}},
};

START_TEST(types_of_others)
{
    char header[160];
    float values[4];
    yki_safetensors *file;
    yki_dtype dtype;

    ck_assert(yki_dtype_find(types[_i].dtype, &dtype));
    size_t count = types[_i].size / (yki_dtype_bits(dtype) / 8), size;
    unsigned char *bytes;

    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", types[_i].dtype,
             count, types[_i].size);
    bytes = compose(header, types[_i].bytes, types[_i].size, &size);
    ASSERT_OK(yki_safetensors_open_memory(bytes, size, "x", &file));
    ck_assert_uint_eq(file->tensors[0].count, count);
    ASSERT_OK(yki_safetensors_read_f32(file, &file->tensors[0], values));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(memcmp(&values[i], &types[_i].values[i], 4) == 0, "%s[%zu] is %g",
                      types[_i].dtype, i, (double)values[i]);
    yki_safetensors_close(file);
    free(bytes);
}
END_TEST

/* NaN, infinities and what floats cannot hold. */
START_TEST(values_at_the_edge)
{
    static const char header[] =
        "{\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"h\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[8,14]},"
        "\"f\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[14,15]},"
        "\"q\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[15,16]}}";
    const char data[17] = "\x00\x00\x00\x00\x00\x00\xf0\x7e\x00\x7c\x00\xfc\x01\x7c\xff\x00";
    yki_safetensors *file;
    float values[3];
    size_t size;
    unsigned char *bytes = compose(header, data, 16, &size);

    ASSERT_OK(yki_safetensors_open_memory(bytes, size, "x", &file));
    ASSERT_STATUS(YOKE_ERROR_VALUE,
                  yki_safetensors_read_f32(file, yki_safetensors_find(file, "d"), values));
    ASSERT_DETAIL("a value of \"d\" is too large for float32");
    ASSERT_OK(yki_safetensors_read_f32(file, yki_safetensors_find(file, "h"), values));
    ck_assert(isinf(values[0]) && values[0] > 0 && isinf(values[1]) && values[1] < 0);
    ck_assert(isnan(values[2]));
    ASSERT_OK(yki_safetensors_read_f32(file, yki_safetensors_find(file, "f"), values));
    ck_assert(isnan(values[0]));
    ASSERT_STATUS(YOKE_ERROR_TYPE,
                  yki_safetensors_read_f32(file, yki_safetensors_find(file, "q"), values));
    ck_assert_ptr_null(yki_safetensors_find(file, "z"));
    yki_safetensors_close(file);
    free(bytes);
}
END_TEST

/* ---- writing ---- */

enum { LONG = 40000 }; /* more than a chunk */

static const int64_t shapes[4][2] = {{2, 3}, {LONG, 0}, {2, 0}, {0, 0}};
static const yki_tensor_source sources[] = {
    {"conv.weight", YKI_DTYPE_F32, 2, shapes[0]},
    {"a long one \"quoted\" \xc3\xa9", YKI_DTYPE_F32, 1, shapes[1]},
    {"steps", YKI_DTYPE_I64, 1, shapes[2]},
    {"bytes", YKI_DTYPE_U8, 1, shapes[2]},
    {"half", YKI_DTYPE_F16, 1, shapes[2]},
    {"scalar", YKI_DTYPE_F32, 0, NULL},
    {"nothing", YKI_DTYPE_F32, 1, shapes[3]},
};
static const size_t source_sizes[] = {24, 4 * LONG, 16, 2, 4, 4, 0};

/* Byte i of tensor k; `user` is added. */
static yoke_status
give(void *user, size_t index, void *out)
{
    for (size_t i = 0; i < source_sizes[index]; i++)
        ((unsigned char *)out)[i] = (unsigned char)(i * 7 + index * 31 + *(const int *)user);
    return YOKE_OK;
}

/* The same for what stands behind the first two. */
static yoke_status
give_behind(void *user, size_t index, void *out)
{
    return give(user, index + 2, out);
}

static yoke_status
write_it(const char *path, int salt)
{
    yki_text texts[] = {{(char *)"format", (char *)"pt"},
                        {(char *)"note", (char *)"\"yoke.sums\":\"x \xe2\x82\xac"}};

    return yki_safetensors_write(path, texts, 2, sources, YKI_COUNT(sources), give, &salt);
}

/* It is the whole file of this salt. */
static void
check_it(const char *path, int salt)
{
    yki_safetensors *file;
    unsigned char *got = malloc(4 * LONG), *expected = malloc(4 * LONG);

    ASSERT_OK(yki_safetensors_open(path, &file));
    ck_assert_uint_eq(file->count, YKI_COUNT(sources));
    ck_assert(file->has_header_sum);
    ck_assert_uint_eq(file->start % 64, 0);
    ck_assert_str_eq(yki_safetensors_text(file, "note"), "\"yoke.sums\":\"x \xe2\x82\xac");
    for (size_t i = 0; i < file->count; i++) {
        const yki_tensor *tensor = yki_safetensors_find(file, sources[i].name);

        ck_assert_ptr_nonnull(tensor);
        ck_assert(tensor->has_sum && tensor->size == source_sizes[i]);
        ASSERT_OK(give(&salt, i, expected));
        ASSERT_OK(yki_safetensors_read(file, tensor, got));
        ck_assert_int_eq(memcmp(got, expected, source_sizes[i]), 0);
    }
    yki_safetensors_close(file);
    free(got);
    free(expected);
}

static unsigned
files_in_scratch(void)
{
    char command[300], line[32] = "";
    FILE *pipe;

    snprintf(command, sizeof command, "ls -A '%s' | wc -l", scratch_dir());
    pipe = popen(command, "r");
    ck_assert(pipe && fgets(line, sizeof line, pipe));
    pclose(pipe);
    return (unsigned)atoi(line);
}

START_TEST(written_and_read_again)
{
    const char *path = scratch_path("w.safetensors");

    ASSERT_OK(write_it(path, 1));
    check_it(path, 1);
    ASSERT_OK(write_it(path, 2)); /* over it */
    check_it(path, 2);
}
END_TEST

START_TEST(links_are_followed)
{
    char link[300], target[300];
    struct stat found;

    snprintf(target, sizeof target, "%s", scratch_path("target"));
    snprintf(link, sizeof link, "%s", scratch_path("link"));
    ASSERT_OK(write_it(target, 1));
    ck_assert_int_eq(symlink("target", link), 0);
    ASSERT_OK(write_it(link, 2));
    ck_assert(lstat(link, &found) == 0 && S_ISLNK(found.st_mode));
    check_it(target, 2);
}
END_TEST

START_TEST(places_that_cannot_be_written)
{
    int salt = 0;
    const yki_tensor_source bad = {"\xff", YKI_DTYPE_F32, 0, NULL};
    const yki_tensor_source twice[2] = {{"a", YKI_DTYPE_F32, 0, NULL},
                                        {"a", YKI_DTYPE_F32, 0, NULL}};

    ASSERT_STATUS(YOKE_ERROR_IO, write_it(scratch_dir(), 1));
    ASSERT_DETAIL("is a folder");
    ASSERT_STATUS(YOKE_ERROR_IO, write_it("/dev/null", 1));
    ASSERT_DETAIL("is no regular file");
    ASSERT_STATUS(YOKE_ERROR_IO, write_it("", 1));
    ASSERT_STATUS(YOKE_ERROR_IO, write_it(scratch_path("no/such/folder"), 1));
    ASSERT_DETAIL("No such file or directory");
    ASSERT_STATUS(YOKE_ERROR_VALUE,
                  yki_safetensors_write(scratch_path("x"), NULL, 0, &bad, 1, give, &salt));
    ASSERT_STATUS(YOKE_ERROR_VALUE,
                  yki_safetensors_write(scratch_path("x"), NULL, 0, twice, 2, give, &salt));
    ASSERT_DETAIL("two tensors of the name \"a\"");
}
END_TEST

/* Each call of the system fails once, for want of room and for a broken disk. Until the rename is
 * done the old file stays; after it (the folder alone could not be brought to the disk) the new one
 * is there. Nothing else is left. */
START_TEST(a_disk_that_fails)
{
    static const int errors[] = {ENOSPC, EIO};
    const char *path = scratch_path("d.safetensors");
    uint64_t calls;
    unsigned files;

    ASSERT_OK(write_it(path, 1));
    files = files_in_scratch();
    (void)yki_replace_fail_at(0, 0);
    ASSERT_OK(write_it(path, 1));
    calls = yki_replace_fail_at(0, 0);
    ck_assert_uint_gt(calls, 8);
    for (uint64_t n = 1; n <= calls; n++) {
        int error = errors[n % 2];

        ASSERT_OK(write_it(path, 1));
        (void)yki_replace_fail_at(n, error);
        ASSERT_STATUS(YOKE_ERROR_IO, write_it(path, 2));
        (void)yki_replace_fail_at(0, 0);
        ASSERT_DETAIL(strerror(error));
        ASSERT_DETAIL(path);
        check_it(path, n + 2 <= calls ? 1 : 2);
        ck_assert_uint_eq(files_in_scratch(), files);
    }
}
END_TEST

/* ---- damage ---- */

/* Opens it and reads all; whether anything was noticed. */
static bool
noticed(const unsigned char *bytes, size_t size)
{
    static unsigned char out[4 * LONG];
    yki_safetensors *file = NULL;
    yoke_status status = yki_safetensors_open_memory(bytes, size, "damaged", &file);

    /* What a checkpoint asks for: a header without a checksum is damaged. */
    if (status == YOKE_OK && !file->has_header_sum)
        status = YOKE_ERROR_FORMAT;
    for (size_t i = 0; status == YOKE_OK && i < file->count; i++)
        status = yki_safetensors_read(file, &file->tensors[i], out);
    yki_safetensors_close(file);
    return status != YOKE_OK;
}

START_TEST(every_damage_is_found)
{
    const char *path = scratch_path("damage");
    int salt = 3;
    size_t size, header;
    unsigned char *bytes;

    /* Without the long one. */
    ASSERT_OK(yki_safetensors_write(path, NULL, 0, sources, 1, give, &salt));
    bytes = (unsigned char *)scratch_read(path, &size);
    header = size - 24;
    ck_assert(!noticed(bytes, size));
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        ck_assert_msg(noticed(bytes, size), "bit %zu of %zu (header %zu)", bit, 8 * size,
                      8 * header);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t length = 0; length < size; length++)
        ck_assert_msg(noticed(bytes, length), "%zu of %zu bytes", length, size);
    free(bytes);
}
END_TEST

/* The reference values of XXH64. */
START_TEST(checksums)
{
    unsigned char bytes[101];
    yki_checksum sum;

    ck_assert_uint_eq(yki_checksum_of("", 0), 0xef46db3751d8e999u);
    ck_assert_uint_eq(yki_checksum_of("a", 1), 0xd24ec4f1a98c6e5bu);
    ck_assert_uint_eq(yki_checksum_of("abc", 3), 0x44bc2cf5ad770999u);
    ck_assert_uint_eq(yki_checksum_of("Nobody inspects the spammish repetition", 39),
                      0xfbcea83c8a378bf1u);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        yki_checksum_start(&sum);
        yki_checksum_add(&sum, bytes, cut);
        yki_checksum_add(&sum, bytes + cut, sizeof bytes - cut);
        ck_assert_uint_eq(yki_checksum_end(&sum), yki_checksum_of(bytes, sizeof bytes));
    }
}
END_TEST

/* Files with random changes: what the fuzzer does for longer. */
START_TEST(mutations)
{
    const char *path = scratch_path("seed");
    const char *rounds = getenv("YOKE_TEST_QUICK") ? "2000" : "20000";
    int salt = 3;
    size_t size;
    unsigned char *bytes, *changed;

    ASSERT_OK(yki_safetensors_write(path, NULL, 0, sources + 2, 4, give_behind, &salt));
    bytes = (unsigned char *)scratch_read(path, &size);
    changed = malloc(size);
    for (uint32_t round = 0; round < (uint32_t)atoi(rounds); round++) {
        uint32_t key[2] = {round, 5}, random[4], counter[4] = {0};
        size_t length;

        yki_philox(key, counter, random);
        memcpy(changed, bytes, size);
        length = random[0] % 4 ? size : random[1] % (size + 1);
        for (uint32_t k = 0; k < random[2] % 6; k++) {
            counter[0] = k + 1;
            yki_philox(key, counter, random);
            changed[random[0] % size] = (unsigned char)random[1];
            random[2] = 6;
        }
        (void)fuzz_safetensors(changed, length);
    }
    free(changed);
    free(bytes);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *reading = test_case(suite, "reading"), *writing = test_case(suite, "writing");
    TCase *damage = test_case(suite, "damage");

    tcase_add_checked_fixture(reading, scratch_set_up, scratch_tear_down);
    tcase_add_checked_fixture(writing, scratch_set_up, scratch_tear_down);
    tcase_add_checked_fixture(damage, scratch_set_up, scratch_tear_down);
    tcase_add_test(reading, what_is_allowed);
    tcase_add_test(reading, what_is_refused);
    tcase_add_test(reading, deep_headers_are_refused);
    tcase_add_test(reading, files_of_other_kinds);
    tcase_add_test(reading, no_files);
    tcase_add_loop_test(reading, types_of_others, 0, (int)YKI_COUNT(types));
    tcase_add_test(reading, values_at_the_edge);
    tcase_add_test(writing, written_and_read_again);
    tcase_add_test(writing, links_are_followed);
    tcase_add_test(writing, places_that_cannot_be_written);
    tcase_add_test(writing, a_disk_that_fails);
    tcase_add_test(damage, checksums);
    tcase_add_test(damage, every_damage_is_found);
    tcase_add_test(damage, mutations);
    return suite;
}

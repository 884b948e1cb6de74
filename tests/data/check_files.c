/* SPDX-License-Identifier: Apache-2.0
 *
 * check_files.c - files of every format: read as they are meant, and refused with
 * a sentence that names the file where they are damaged, lie, or are something else.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "data/files.h"
#include "data/text.h"
#include "support/scratch.h"
#include "support/support.h"

/* ---- making files ---- */

static unsigned char bytes[1 << 16];
static size_t size;

static void
put(const void *data, size_t count)
{
    memcpy(bytes + size, data, count);
    size += count;
}

static void
put_big(uint32_t value)
{
    unsigned char b[] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                         (unsigned char)(value >> 8), (unsigned char)value};

    put(b, 4);
}

static void
start_idx(unsigned char type, int axes, uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t sizes[] = {a, b, c};

    size = 0;
    put((unsigned char[]){0, 0, type, (unsigned char)axes}, 4);
    for (int i = 0; i < axes; i++)
        put_big(sizes[i % 3]);
}

static void
start_npy(const char *dictionary)
{
    unsigned char length = (unsigned char)(strlen(dictionary) + 1);

    size = 0;
    put("\x93NUMPY\1\0", 8);
    put((unsigned char[]){length, 0}, 2);
    put(dictionary, length - 1u);
    put("\n", 1);
}

/* Writes what was put, as it is or compressed; its path is good until a few others are made. */
static const char *
written(const char *name, bool compressed)
{
    const char *path = scratch_path(name);
    gzFile file;

    if (!compressed) {
        scratch_write(path, bytes, size);
        return path;
    }
    file = gzopen(path, "wb9");
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)size), (int)size);
    ck_assert_int_eq(gzclose(file), Z_OK);
    return path;
}

static const char *
text_file(const char *name, const char *text)
{
    size = 0;
    put(text, strlen(text));
    return written(name, false);
}

static yoke_dataset *
opened(const char *path, const yoke_dataset_open_options *options)
{
    yoke_dataset *dataset = NULL;

    ASSERT_OK(yoke_dataset_open(path, options, &dataset));
    return dataset;
}

/* Refused, by a sentence that begins with the path and has this in it. */
static void
refused(const char *path, const yoke_dataset_open_options *options, yoke_status status,
        const char *part)
{
    yoke_dataset *dataset = NULL;

    ASSERT_STATUS(status, yoke_dataset_open(path, options, &dataset));
    ASSERT_DETAIL(part);
    ck_assert_msg(strncmp(yoke_last_error(), path, strlen(path)) == 0, "%s", yoke_last_error());
    ck_assert_ptr_null(dataset);
}

static void
read_one(const yoke_dataset *dataset, const char *field, int64_t index, void *out)
{
    int found = yki_dataset_find(dataset, field);

    ck_assert_int_ge(found, 0);
    ASSERT_OK(yoke_dataset_read(dataset, field, &index, 1, out,
                                yki_field_size(yoke_dataset_get_field(dataset, (size_t)found))));
}

/* ---- IDX ---- */

static void
put_two_images(void)
{
    start_idx(8, 3, 2, 2, 3);
    for (unsigned char i = 0; i < 12; i++)
        put(&i, 1);
}

START_TEST(idx)
{
    for (int compressed = 0; compressed < 2; compressed++) {
        yoke_dataset *dataset;
        const yoke_field *field;
        uint8_t image[6], both[12];

        put_two_images();
        dataset =
            opened(written(compressed ? "a-images.idx.gz" : "a-images.idx", compressed), NULL);
        ck_assert_int_eq(yoke_dataset_count(dataset), 2);
        ck_assert_uint_eq(yoke_dataset_field_count(dataset), 1);
        field = yoke_dataset_get_field(dataset, 0);
        ck_assert_str_eq(field->name, "image");
        ck_assert(field->type == YOKE_U8 && field->shape.rank == 3 && field->shape.dim[0] == 1 &&
                  field->shape.dim[1] == 2 && field->shape.dim[2] == 3);
        read_one(dataset, "image", 1, image);
        ck_assert_mem_eq(image, bytes + 16 + 6, 6);
        ASSERT_OK(yoke_dataset_read(dataset, "image", (int64_t[]){0, 1}, 2, both, sizeof both));
        ck_assert_mem_eq(both, bytes + 16, 12);
        ASSERT_OK(yoke_dataset_read(dataset, "image", (int64_t[]){1, 0}, 2, both, sizeof both));
        ck_assert_mem_eq(both + 6, bytes + 16, 6);
        yoke_dataset_destroy(dataset);
    }
}
END_TEST

START_TEST(idx_types)
{
    static const struct {
        unsigned char type, value[8];
        size_t size;
        double expected;
    } rows[] = {
        {0x09, {0xFE}, 1, -2},
        {0x0B, {0xFF, 0x00}, 2, -256},
        {0x0C, {0x80, 0, 0, 0}, 4, -2147483648.0},
        {0x0D, {0x3F, 0xC0, 0, 0}, 4, 1.5},
        {0x0E, {0xC0, 0x04, 0, 0, 0, 0, 0, 0}, 8, -2.5},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        yoke_dataset *dataset;
        const yoke_field *field;
        union {
            int32_t i;
            float f;
        } value;

        start_idx(rows[i].type, 1, 1, 0, 0);
        put(rows[i].value, rows[i].size);
        dataset = opened(written("x.idx", i % 2), NULL);
        field = yoke_dataset_get_field(dataset, 0);
        read_one(dataset, field->name, 0, &value);
        ck_assert_int_eq(field->type, rows[i].type < 0x0D ? YOKE_I32 : YOKE_F32);
        ck_assert((field->type == YOKE_I32 ? (double)value.i : (double)value.f) ==
                  rows[i].expected);
        yoke_dataset_destroy(dataset);
    }
}
END_TEST

START_TEST(idx_lies)
{
    put_two_images();
    size--;
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "27 bytes, its header says 28");
    refused(written("a.idx.gz", true), NULL, YOKE_ERROR_FORMAT, "less than the 28 bytes");
    size += 2;
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "29 bytes, its header says 28");
    refused(written("a.idx.gz", true), NULL, YOKE_ERROR_FORMAT, "more than the 28 bytes");
    start_idx(8, 3, 1u << 31, 28, 28);
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT,
            "16 bytes, its header says 1683627180");
    refused(written("a.idx.gz", true), NULL, YOKE_ERROR_FORMAT, "cannot be the 1683627180");
    start_idx(8, 3, UINT32_MAX, INT32_MAX, INT32_MAX);
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "more than any file holds");
    start_idx(8, 9, INT32_MAX, INT32_MAX, INT32_MAX);
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "more than any file holds");
    start_idx(8, 2, 3, 0, 0);
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "axis 1 has size 0");
    start_idx(8, 2, 3, 4, 0);
    size = 9;
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "ends within its header");
    start_idx(0x0A, 1, 3, 0, 0);
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "neither IDX nor .npy");
    start_idx(8, 1, 0, 0, 0);
    yoke_dataset_destroy(opened(written("empty.idx", false), NULL)); /* no sample is no mistake */
    size = 0;
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "neither IDX nor .npy");
}
END_TEST

/* Whatever is cut off or turned, an image file is refused or has the size that it says. */
static void
survive(const char *path)
{
    yoke_dataset *dataset = NULL;

    if (yoke_dataset_open(path, NULL, &dataset) == YOKE_OK) {
        const yoke_field *field = yoke_dataset_get_field(dataset, 0);
        unsigned char *out = malloc(yki_field_size(field));

        for (int64_t i = 0; i < yoke_dataset_count(dataset); i++)
            read_one(dataset, field->name, i, out);
        free(out);
        yoke_dataset_destroy(dataset);
    } else {
        ck_assert_msg(strstr(yoke_last_error(), path) != NULL, "\"%s\" does not name the file",
                      yoke_last_error());
    }
}

START_TEST(damage)
{
    unsigned char whole[512];
    size_t length, good = 0;
    char *stored;

    put_two_images();
    stored = scratch_read(written("d.idx.gz", true), &length);
    ck_assert_uint_le(length, sizeof whole);
    memcpy(whole, stored, length);
    free(stored);
    for (size_t cut = 0; cut < length; cut++) {
        yoke_dataset *dataset = NULL;

        scratch_write(scratch_path("d.idx.gz"), whole, cut);
        ck_assert_int_ne(yoke_dataset_open(scratch_path("d.idx.gz"), NULL, &dataset), YOKE_OK);
    }
    for (size_t bit = 0; bit < length * 8; bit++) {
        yoke_dataset *dataset = NULL;

        whole[bit / 8] ^= (unsigned char)(1u << bit % 8);
        scratch_write(scratch_path("d.idx.gz"), whole, length);
        survive(scratch_path("d.idx.gz"));
        if (yoke_dataset_open(scratch_path("d.idx.gz"), NULL, &dataset) == YOKE_OK) {
            uint8_t both[12]; /* some bits mean nothing: what is read is what was written */

            ASSERT_OK(yoke_dataset_read(dataset, "image", (int64_t[]){0, 1}, 2, both, sizeof both));
            ck_assert_mem_eq(both, bytes + 16, 12);
            yoke_dataset_destroy(dataset);
            good++;
        }
        whole[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    ck_assert_uint_lt(good, 12 * 8);
    put_two_images();
    for (size_t bit = 0; bit < 16 * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (bit / 8 != 2) /* other types are as good */
            refused(written("d.idx", false), NULL, YOKE_ERROR_FORMAT, "");
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}
END_TEST

/* A file that shrinks while it is in use. */
START_TEST(shrinks)
{
    yoke_dataset *dataset;
    const int64_t second = 1;
    uint8_t image[6];

    put_two_images();
    dataset = opened(written("s.idx", false), NULL);
    ck_assert_int_eq(truncate(scratch_path("s.idx"), 22), 0);
    read_one(dataset, "image", 0, image);
    ASSERT_STATUS(YOKE_ERROR_FORMAT,
                  yoke_dataset_read(dataset, "image", &second, 1, image, sizeof image));
    ASSERT_DETAIL("s.idx: has become shorter");
    yoke_dataset_destroy(dataset);
}
END_TEST

START_TEST(no_file)
{
    char path[4096];

    refused(scratch_path("nothing"), NULL, YOKE_ERROR_NOT_FOUND, "no such file");
    ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0600), 0);
    refused(scratch_path("pipe"), NULL, YOKE_ERROR_FORMAT, "no regular file");
    ck_assert_int_eq(mkdir(scratch_path("folder.csv"), 0700), 0);
    refused(scratch_path("folder.csv"), NULL, YOKE_ERROR_NOT_FOUND, "no data here");
    text_file("hello.txt", "hello, world\n");
    refused(scratch_path("hello.txt"), NULL, YOKE_ERROR_FORMAT, "neither IDX nor .npy");
    text_file("a.npz", "PK\3\4 and so on");
    refused(scratch_path("a.npz"), NULL, YOKE_ERROR_UNSUPPORTED, "zip archive");
    snprintf(path, sizeof path, "%s", text_file("secret.csv", "1,2\n"));
    if (geteuid() != 0) {
        ck_assert_int_eq(chmod(path, 0), 0);
        refused(path, NULL, YOKE_ERROR_IO, "cannot be opened");
    }
}
END_TEST

/* ---- npy ---- */

START_TEST(npy)
{
    static const struct {
        const char *descr;
        unsigned char value[8];
        size_t size;
        double expected;
    } rows[] = {
        {"|u1", {200}, 1, 200},
        {"|b1", {1}, 1, 1},
        {"|i1", {0xFE}, 1, -2},
        {"<i2", {0x00, 0xFF}, 2, -256},
        {"<u2", {0x00, 0xFF}, 2, 65280},
        {"<i4", {0xFF, 0xFF, 0xFF, 0xFF}, 4, -1},
        {"<u4", {0x01, 0, 0, 0x40}, 4, 1073741825.0},
        {"<i8", {0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, 8, -2},
        {"<u8", {7}, 8, 7},
        {"<f2", {0x00, 0xC1}, 2, -2.5},
        {"<f2", {0x01, 0x00}, 2, 5.9604644775390625e-8},
        {"<f4", {0, 0, 0xC0, 0x3F}, 4, 1.5},
        {"<f8", {0, 0, 0, 0, 0, 0, 0x04, 0xC0}, 8, -2.5},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        yoke_dataset *dataset;
        const yoke_field *field;
        union {
            uint8_t u;
            int32_t i;
            float f;
        } value[2];
        char text[128];

        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }",
                 rows[i].descr);
        start_npy(text);
        put(rows[i].value, rows[i].size);
        put(rows[i].value, rows[i].size);
        dataset = opened(written("x.npy", false), NULL);
        ck_assert_int_eq(yoke_dataset_count(dataset), 2);
        field = yoke_dataset_get_field(dataset, 0);
        read_one(dataset, field->name, 1, value);
        ck_assert((field->type == YOKE_U8    ? (double)value->u
                   : field->type == YOKE_I32 ? (double)value->i
                                             : (double)value->f) == rows[i].expected);
        yoke_dataset_destroy(dataset);
    }
}
END_TEST

START_TEST(npy_images)
{
    static const char *const dictionary =
        "{\"shape\": (1, 2, 2, 3), \"descr\": \"|u1\", 'fortran_order':False}";
    static const uint8_t expected[] = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11};
    const yoke_field *field;
    yoke_dataset *dataset;
    uint8_t image[12];

    start_npy(dictionary);
    for (unsigned char i = 0; i < 12; i++)
        put(&i, 1);
    dataset = opened(written("x.npy", false), &(yoke_dataset_open_options){.channels_last = true});
    field = yoke_dataset_get_field(dataset, 0);
    ck_assert(field->shape.rank == 3 && field->shape.dim[0] == 3 && field->shape.dim[2] == 2);
    ck_assert_str_eq(field->name, "image");
    read_one(dataset, "image", 0, image);
    ck_assert_mem_eq(image, expected, 12);
    yoke_dataset_destroy(dataset);
}
END_TEST

static char warned[512];

static void
keep_warning(void *user, yoke_log_level level, const char *line)
{
    (void)user;
    if (level == YOKE_LOG_WARNING)
        snprintf(warned, sizeof warned, "%s", line);
}

/* Nothing in the file says where the channels are: what looks like the other way is warned of. */
START_TEST(channels_that_look_last_are_warned_of)
{
    static const struct {
        const char *shape;
        bool last, warns;
    } rows[] = {
        {"(1, 16, 16, 3)", false, true},  {"(1, 16, 16, 1)", false, true},
        {"(1, 16, 16, 4)", false, true},  {"(1, 16, 16, 3)", true, false},
        {"(1, 3, 16, 16)", false, false}, {"(1, 16, 16, 16)", false, false},
        {"(1, 16, 4, 4)", false, false},  {"(1, 1, 16, 3)", false, false},
        {"(1, 16, 3)", false, false},
    };
    static const unsigned char zeros[4096];

    yoke_log_set(keep_warning, NULL, YOKE_LOG_WARNING);
    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        const yoke_dataset_open_options how = {.channels_last = rows[i].last};
        char dictionary[128];
        int sizes[4] = {1, 1, 1, 1};

        sscanf(rows[i].shape, "(%d, %d, %d, %d", &sizes[0], &sizes[1], &sizes[2], &sizes[3]);
        snprintf(dictionary, sizeof dictionary,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': %s}", rows[i].shape);
        start_npy(dictionary);
        put(zeros, (size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]));
        warned[0] = '\0';
        yoke_dataset_destroy(opened(written("x.npy", false), &how));
        ck_assert_msg((warned[0] != '\0') == rows[i].warns, "%s: \"%s\"", rows[i].shape, warned);
    }
    start_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 16, 16, 3)}");
    put(zeros, 16 * 16 * 3);
    yoke_dataset_destroy(opened(written("x.npy", false), NULL));
    ck_assert_ptr_nonnull(strstr(warned, "x.npy: its samples of (16, 16, 3) are taken for images of "
                                         "16 channels"));
    ck_assert_ptr_nonnull(strstr(warned, "--channels-last"));
    yoke_log_set(NULL, NULL, YOKE_LOG_WARNING);
}
END_TEST

START_TEST(npy_refusals)
{
    static const struct {
        const char *dictionary;
        yoke_status status;
        const char *part;
    } rows[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", YOKE_ERROR_UNSUPPORTED,
         "Python objects"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", YOKE_ERROR_UNSUPPORTED,
         "big-endian"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", YOKE_ERROR_UNSUPPORTED,
         "type <U3"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
         YOKE_ERROR_UNSUPPORTED, "structs"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", YOKE_ERROR_UNSUPPORTED,
         "Fortran"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", YOKE_ERROR_FORMAT,
         "single number"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0), }", YOKE_ERROR_FORMAT,
         "axis 1 has size 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
         YOKE_ERROR_FORMAT, "more than any file holds"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 28, 28), }",
         YOKE_ERROR_FORMAT, "its header says 6734508720"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 2147483647, 2147483647), "
         "}",
         YOKE_ERROR_FORMAT, "more than any file holds"},
        {"{'descr': '<f4', 'shape': (1,), }", YOKE_ERROR_FORMAT, "once each"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
         YOKE_ERROR_FORMAT, "once each"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", YOKE_ERROR_FORMAT, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1)}",
         YOKE_ERROR_UNSUPPORTED, "more than 9 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", YOKE_ERROR_FORMAT,
         "size of an axis"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", YOKE_ERROR_FORMAT, "\")\""},
        {"", YOKE_ERROR_FORMAT, "\"{\""},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        start_npy(rows[i].dictionary);
        put("\0\0\200?", 4);
        refused(written("x.npy", false), NULL, rows[i].status, rows[i].part);
    }
    start_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}");
    put("\0\0\0\0\1\0\0\0", 8);
    {
        yoke_dataset *dataset = opened(written("x.npy", false), NULL);
        const int64_t first = 0;
        int32_t value;

        ASSERT_STATUS(YOKE_ERROR_VALUE,
                      yoke_dataset_read(dataset, "x", &first, 1, &value, sizeof value));
        ASSERT_DETAIL("x.npy: a number of sample 0 is beyond 32 bits");
        yoke_dataset_destroy(dataset);
    }
    bytes[6] = 9;
    refused(written("x.npy", false), NULL, YOKE_ERROR_UNSUPPORTED, "version 9");
    bytes[6] = 1;
    for (size = 0; size < 70; size++)
        refused(written("x.npy", false), NULL, YOKE_ERROR_FORMAT, "");
}
END_TEST

/* ---- CIFAR ---- */

static void
put_cifar(int labels, int count, int first)
{
    unsigned char pixels[3072];

    for (int i = 0; i < count; i++) {
        for (size_t j = 0; j < sizeof pixels; j++)
            pixels[j] = (unsigned char)(first + i + (int)j);
        if (labels == 2)
            put((unsigned char[]){(unsigned char)(i % 20)}, 1);
        put((unsigned char[]){(unsigned char)((first + i) % (labels == 2 ? 100 : 10))}, 1);
        put(pixels, sizeof pixels);
    }
}

START_TEST(cifar)
{
    yoke_dataset *dataset;
    uint8_t image[3072], label;

    size = 0;
    put_cifar(1, 3, 0);
    ck_assert_int_eq(mkdir(scratch_path("c10"), 0700), 0);
    written("c10/data_batch_1.bin", false);
    size = 0;
    put_cifar(1, 2, 3);
    written("c10/data_batch_2.bin", false);
    size = 0;
    put_cifar(1, 1, 7);
    written("c10/test_batch.bin", false);
    text_file("c10/batches.meta.txt", "airplane\nautomobile\r\n\n bird \n");
    dataset = opened(scratch_path("c10"), NULL);
    ck_assert_int_eq(yoke_dataset_count(dataset), 5);
    ck_assert_uint_eq(yoke_dataset_class_count(dataset), 3);
    ck_assert_str_eq(yoke_dataset_get_class_name(dataset, 1), "automobile");
    ck_assert_str_eq(yoke_dataset_get_class_name(dataset, 2), "bird");
    for (int64_t i = 0; i < 5; i++) {
        read_one(dataset, "image", i, image);
        read_one(dataset, "label", i, &label);
        ck_assert_int_eq(label, i);
        ck_assert_int_eq(image[0], i);
        ck_assert_int_eq(image[3071], (uint8_t)(i + 3071));
    }
    yoke_dataset_destroy(dataset);
    dataset = opened(scratch_path("c10"), &(yoke_dataset_open_options){.part = YOKE_PART_TEST});
    ck_assert_int_eq(yoke_dataset_count(dataset), 1);
    yoke_dataset_destroy(dataset);

    size = 0;
    put_cifar(2, 4, 50);
    dataset = opened(written("train.bin", false), NULL);
    ck_assert_int_eq(yoke_dataset_count(dataset), 4);
    read_one(dataset, "label", 3, &label);
    ck_assert_int_eq(label, 53); /* the fine one */
    yoke_dataset_destroy(dataset);

    bytes[1] = 100;
    refused(written("train.bin", false), NULL, YOKE_ERROR_FORMAT, "label 100");
    size--;
    refused(written("train.bin", false), NULL, YOKE_ERROR_FORMAT, "multiple of 3073");
    size = 0;
    refused(written("train.bin", false), NULL, YOKE_ERROR_FORMAT, "0 bytes");
    put_cifar(1, 3, 0);
    bytes[2 * 3073] = 10;
    refused(written("train.bin", false), NULL, YOKE_ERROR_FORMAT, "image 2 has the label 10");
    refused(written("train.bin", true), NULL, YOKE_ERROR_FORMAT, "compressed");
}
END_TEST

/* ---- folders ---- */

static void
put_labels(uint32_t count)
{
    start_idx(8, 1, count, 0, 0);
    for (uint32_t i = 0; i < count; i++)
        put((unsigned char[]){(unsigned char)(i % 10)}, 1);
}

START_TEST(folders)
{
    const yoke_dataset_open_options test = {.part = YOKE_PART_TEST};
    yoke_dataset *dataset;

    ck_assert_int_eq(mkdir(scratch_path("m"), 0700), 0);
    put_two_images();
    written("m/train-images-idx3-ubyte.gz", true);
    refused(scratch_path("m"), NULL, YOKE_ERROR_NOT_FOUND, "no file with its labels");
    put_labels(2);
    written("m/train-labels-idx1-ubyte.gz", true);
    refused(scratch_path("m"), &test, YOKE_ERROR_NOT_FOUND, "no test data here");
    put_labels(3);
    written("m/t10k-labels-idx1-ubyte", false);
    put_two_images();
    written("m/t10k-images-idx3-ubyte", false);
    written("m/t10k-images-idx3-ubyte.gz", true); /* the same, compressed: no matter */
    dataset = opened(scratch_path("m"), NULL);
    ck_assert_int_eq(yoke_dataset_count(dataset), 2);
    ck_assert_str_eq(yoke_dataset_get_field(dataset, 1)->name, "label");
    yoke_dataset_destroy(dataset);
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_dataset_open(scratch_path("m"), &test, &dataset));
    ASSERT_DETAIL("t10k-images-idx3-ubyte has 2 samples");
    ASSERT_DETAIL("t10k-labels-idx1-ubyte has 3");
    written("m/train-images2-idx3-ubyte", false);
    put_two_images();
    written("m/other-train-images-idx3-ubyte", false);
    refused(scratch_path("m"), NULL, YOKE_ERROR_FORMAT,
            "other-train-images-idx3-ubyte or train-images-idx3-ubyte.gz?");
}
END_TEST

START_TEST(folders_of_arrays_and_tables)
{
    yoke_dataset *dataset;
    float x[2];
    int32_t label;

    ck_assert_int_eq(mkdir(scratch_path("n"), 0700), 0);
    ck_assert_int_eq(mkdir(scratch_path("n/train"), 0700), 0);
    start_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }");
    for (int i = 0; i < 6; i++)
        put(&(double){i / 4.0}, 8);
    written("n/train/X.npy", false);
    start_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 1), }");
    for (int i = 0; i < 3; i++)
        put(&(int64_t){i + 1}, 8);
    written("n/train/y.npy", false);
    dataset = opened(scratch_path("n"), NULL);
    read_one(dataset, "x", 2, x);
    read_one(dataset, "label", 2, &label);
    ck_assert(x[0] == 1 && x[1] == 1.25f && label == 3);
    ck_assert_int_eq(yoke_dataset_get_field(dataset, 1)->shape.rank, 0);
    yoke_dataset_destroy(dataset);
    refused(scratch_path("n"), &(yoke_dataset_open_options){.part = YOKE_PART_TEST},
            YOKE_ERROR_NOT_FOUND, "no test data here");

    ck_assert_int_eq(mkdir(scratch_path("t"), 0700), 0);
    text_file("t/train.csv", "a,class\n1,pear\n2,apple\n3,fig\n");
    text_file("t/test.csv", "a,class\n5,pear\n");
    dataset = opened(scratch_path("t"), &(yoke_dataset_open_options){.part = YOKE_PART_TEST});
    read_one(dataset, "label", 0, &label);
    ck_assert_int_eq(label, 2); /* as in the training data, though it is the only class here */
    ck_assert_uint_eq(yoke_dataset_class_count(dataset), 3);
    yoke_dataset_destroy(dataset);
    text_file("t/test.csv", "a,class\n5,plum\n");
    ASSERT_STATUS(YOKE_ERROR_FORMAT,
                  yoke_dataset_open(scratch_path("t"),
                                    &(yoke_dataset_open_options){.part = YOKE_PART_TEST},
                                    &dataset));
    ASSERT_DETAIL("line 2, column 2: a class that the training data does not have");
}
END_TEST

/* Every allocation fails once: a status, nothing lost (the sanitizers look), and it works again. */
static void
starve(const char *path, const yoke_dataset_open_options *options)
{
    yoke_dataset *dataset = NULL;
    uint64_t failed = 0;

    for (;; failed++) {
        yoke_status status;

        yki_alloc_fail_at(failed + 1);
        status = yoke_dataset_open(path, options, &dataset);
        yki_alloc_fail_at(0);
        if (status == YOKE_OK)
            break;
        ck_assert_msg(status == YOKE_ERROR_OUT_OF_MEMORY, "allocation %llu: %s: %s",
                      (unsigned long long)failed, yoke_status_name(status), yoke_last_error());
        ck_assert_ptr_null(dataset);
    }
    ck_assert_uint_gt(failed, 5);
    yoke_dataset_destroy(dataset);
}

START_TEST(no_memory)
{
    ck_assert_int_eq(mkdir(scratch_path("a"), 0700), 0);
    put_two_images();
    written("a/train-images-idx3-ubyte.gz", true);
    put_labels(2);
    written("a/train-labels-idx1-ubyte", false);
    text_file("a/classes.txt", "one\ntwo\n");
    starve(scratch_path("a"), NULL);
    text_file("t.csv", "a,b,class\n1,2,pear\n2,3,apple\n3,4,fig\n");
    starve(scratch_path("t.csv"), NULL);
    starve(scratch_path("t.csv"),
           &(yoke_dataset_open_options){.csv_targets = "a", .csv_label = "class"});
    size = 0;
    put_cifar(1, 2, 0);
    starve(written("d.bin", false), NULL);
    start_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}");
    put(&(float){1}, 4);
    starve(written("x.npy", true), NULL);
}
END_TEST

/* What is installed with the examples. */
START_TEST(digits)
{
    const char *source = getenv("YOKE_SRCDIR");
    char path[4096];

    snprintf(path, sizeof path, "%s/examples/data", source ? source : "..");
    for (int part = YOKE_PART_TRAIN; part <= YOKE_PART_TEST; part++) {
        yoke_dataset *dataset =
            opened(path, &(yoke_dataset_open_options){.part = (yoke_data_part)part});
        int64_t count = yoke_dataset_count(dataset), seen[10] = {0};

        ck_assert_int_eq(count, part == YOKE_PART_TRAIN ? 1437 : 360);
        ck_assert_uint_eq(yki_field_size(yoke_dataset_get_field(dataset, 0)), 64);
        for (int64_t i = 0; i < count; i++) {
            uint8_t label, image[64];

            read_one(dataset, "label", i, &label);
            read_one(dataset, "image", i, image);
            ck_assert_int_lt(label, 10);
            seen[label]++;
        }
        for (int c = 0; c < 10; c++)
            ck_assert_int_gt(seen[c], count / 15);
        yoke_dataset_destroy(dataset);
    }
}
END_TEST

/* ---- tables ---- */

START_TEST(csv)
{
    yoke_dataset *dataset =
        opened(text_file("t.csv",
                         "\xEF\xBB\xBF"
                         "sepal, width ,\"the \"\"class\"\"\"\r\n5.1,-3.5e0,2\r\n\r\n+4,.25,0\r\n"),
               NULL);
    const yoke_field *x = yoke_dataset_get_field(dataset, 0);
    float row[2];
    int32_t label;

    ck_assert_int_eq(yoke_dataset_count(dataset), 2);
    ck_assert_str_eq(x->name, "x");
    ck_assert(x->type == YOKE_F32 && x->shape.rank == 1 && x->shape.dim[0] == 2);
    read_one(dataset, "x", 0, row);
    ck_assert(row[0] == 5.1f && row[1] == -3.5f);
    read_one(dataset, "x", 1, row);
    ck_assert(row[0] == 4 && row[1] == 0.25f);
    read_one(dataset, "label", 0, &label);
    ck_assert_int_eq(label, 2);
    yoke_dataset_destroy(dataset);
}
END_TEST

START_TEST(csv_integers)
{
    yoke_dataset *dataset;
    int32_t whole[2];

    dataset = opened(text_file("t.csv", "a,b,label\n3,-2147483648,1\n16777217,5,0\n"),
                     &(yoke_dataset_open_options){.csv_integers = true});
    ck_assert_int_eq(yoke_dataset_get_field(dataset, 0)->type, YOKE_I32);
    ck_assert_str_eq(yoke_dataset_get_field(dataset, 1)->name, "label");
    read_one(dataset, "x", 0, whole);
    ck_assert(whole[0] == 3 && whole[1] == INT32_MIN);
    read_one(dataset, "x", 1, whole);
    ck_assert(whole[0] == 16777217 && whole[1] == 5); /* exact where floats are not */
    yoke_dataset_destroy(dataset);
    refused(text_file("t.csv", "a,b,label\n3,2.5,1\n"),
            &(yoke_dataset_open_options){.csv_integers = true}, YOKE_ERROR_FORMAT,
            "line 2, column 2: \"2.5\" is not a whole number of 32 bits");
    refused(text_file("t.csv", "a,b,label\n3,2147483648,1\n"),
            &(yoke_dataset_open_options){.csv_integers = true}, YOKE_ERROR_FORMAT,
            "\"2147483648\" is not a whole number");
}
END_TEST

START_TEST(csv_columns)
{
    static const char text[] = "price;y;size;kind\n1.5;7;2;b\n2.5;8;3;a\n3.5;9;4;b\n";
    yoke_dataset *dataset;
    float values[4];
    int32_t label;

    /* One called y: whole numbers, so classes. */
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_dataset_open(text_file("t.csv", text), NULL, &dataset));
    ASSERT_DETAIL("line 2, column 4: \"b\" is not a number");
    dataset = opened(scratch_path("t.csv"),
                     &(yoke_dataset_open_options){.csv_label = "kind", .csv_targets = "price,3"});
    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 3);
    read_one(dataset, "x", 2, values);
    ck_assert(values[0] == 9);
    read_one(dataset, "target", 2, values);
    ck_assert(values[0] == 3.5f && values[1] == 4);
    read_one(dataset, "label", 2, &label);
    ck_assert_int_eq(label, 1);
    ck_assert_str_eq(yoke_dataset_get_class_name(dataset, 0), "a");
    yoke_dataset_destroy(dataset);
    dataset = opened(text_file("t.tsv", "1\t2\t0.5\n3\t4\t1e3\n"), NULL);
    read_one(dataset, "target", 1, values);
    ck_assert(values[0] == 1000);
    yoke_dataset_destroy(dataset);
    dataset = opened(scratch_path("t.tsv"), &(yoke_dataset_open_options){.csv_no_label = true});
    ck_assert_int_eq(yoke_dataset_get_field(dataset, 0)->shape.dim[0], 3);
    yoke_dataset_destroy(dataset);
    refused(text_file("t.csv", text), &(yoke_dataset_open_options){.csv_label = "color"},
            YOKE_ERROR_NOT_FOUND, "no column \"color\"");
    refused(scratch_path("t.csv"), &(yoke_dataset_open_options){.csv_label = "5"},
            YOKE_ERROR_NOT_FOUND, "no column \"5\"");
    refused(scratch_path("t.csv"),
            &(yoke_dataset_open_options){.csv_label = "kind", .csv_targets = "kind"},
            YOKE_ERROR_INVALID_ARGUMENT, "named twice");
    refused(scratch_path("t.csv"), &(yoke_dataset_open_options){.csv_label = "price"},
            YOKE_ERROR_FORMAT, "line 2, column 4");
    refused(text_file("t.csv", "1,2.5\n2,3\n"), &(yoke_dataset_open_options){.csv_label = "2"},
            YOKE_ERROR_FORMAT, "line 1, column 2: a label has to be a whole number");
}
END_TEST

START_TEST(csv_refusals)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "is empty"},
        {"1,2\n3\n", "line 2, column 1: the row ends, with fewer columns than the 2"},
        {"1,2\n3,4,5\n", "line 2, column 3: more columns than the 2"},
        {"1,a\n2,3\n", "line 2, column 2: a number among labels that are text"},
        {"1,2\n\n\n3,nan\n", "line 4, column 2: \"nan\""},
        {"a,b\n1,0\nNaN,1\n", "line 3, column 1: \"NaN\" is not a number"},
        {"1,2\n1e39,4\n", "line 2, column 1: \"1e39\" is not a finite number of 32 bits"},
        {"1,2\n-inf,4\n", "line 2, column 1: \"-inf\" is not a number"},
        {"1,2\n,4\n", "line 2, column 1: is empty"},
        {"1,2\n1,\n", "line 2, column 2: is empty, a label is expected"},
        {"1,2\n\"3,4\n", "line 2, column 1: a quote is not closed"},
        {"1,2\n\"3\"4,4\n", "line 2, column 1: more text after a quote"},
        {"1,2\n0x10,4\n", "\"0x10\" is not a number"},
        {"1,2\n1.2.3,4\n", "\"1.2.3\" is not a number"},
    };
    size_t before;

    for (size_t i = 0; i < YKI_COUNT(rows); i++)
        refused(text_file("t.csv", rows[i].text), NULL, YOKE_ERROR_FORMAT, rows[i].part);
    size = 0;
    put("1,2\n3,\0\n", 8);
    refused(written("t.csv", false), NULL, YOKE_ERROR_FORMAT, "line 2, column 2: a zero byte");
    before = size;
    refused(written("t.csv", true), NULL, YOKE_ERROR_UNSUPPORTED, "compressed");
    ck_assert_uint_eq(before, size);
}
END_TEST

START_TEST(numbers)
{
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "1.5",
                                       "-2e-3",
                                       "1e22",
                                       "1E23",
                                       "0.1",
                                       "123456789012345678",
                                       ".5",
                                       "5.",
                                       "+7",
                                       "3.4028235e38",
                                       "1e-45",
                                       "0.000000000000000000000000000000001",
                                       "100000000000000000000000000000000000"};
    static const char *const bad[] = {"", "-", ".", "1e", "e1", "1 2", "1,5", "nan", "0x1", "--1"};
    double value;

    for (size_t i = 0; i < YKI_COUNT(good); i++) {
        ck_assert(yki_parse_number(good[i], strlen(good[i]), &value));
        ck_assert_msg(value == strtod(good[i], NULL), "%s is %.17g", good[i], value);
    }
    for (size_t i = 0; i < YKI_COUNT(bad); i++)
        ck_assert_msg(!yki_parse_number(bad[i], strlen(bad[i]), &value), "\"%s\"", bad[i]);
    ck_assert(yki_parse_number("1e999", 5, &value) && isinf(value));
    ck_assert(yki_parse_number("1e99999999999999999999", 22, &value) && isinf(value));
    ck_assert(yki_parse_number("1e-99999999999999999999", 23, &value) && value == 0);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("files");
    TCase *c = test_case(suite, "files");

    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, idx);
    tcase_add_test(c, idx_types);
    tcase_add_test(c, idx_lies);
    tcase_add_test(c, damage);
    tcase_add_test(c, shrinks);
    tcase_add_test(c, no_file);
    tcase_add_test(c, npy);
    tcase_add_test(c, npy_images);
    tcase_add_test(c, channels_that_look_last_are_warned_of);
    tcase_add_test(c, npy_refusals);
    tcase_add_test(c, cifar);
    tcase_add_test(c, folders);
    tcase_add_test(c, folders_of_arrays_and_tables);
    tcase_add_test(c, no_memory);
    tcase_add_test(c, digits);
    c = test_case(suite, "tables");
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, csv);
    tcase_add_test(c, csv_columns);
    tcase_add_test(c, csv_integers);
    tcase_add_test(c, csv_refusals);
    tcase_add_test(c, numbers);
    return suite;
}

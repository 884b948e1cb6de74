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

#include "data/made_files.h"
#include "data/text.h"
#include "support/scratch.h"
#include "support/support.h"

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
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT,
            "27 bytes; must have 28, as its header says");
    refused(written("a.idx.gz", true), NULL, YOKE_ERROR_FORMAT, "less than the 28 bytes");
    size += 2;
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT,
            "29 bytes; must have 28, as its header says");
    refused(written("a.idx.gz", true), NULL, YOKE_ERROR_FORMAT, "more than the 28 bytes");
    start_idx(8, 3, 1u << 31, 28, 28);
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "16 bytes; must have 1683627180");
    refused(written("a.idx.gz", true), NULL, YOKE_ERROR_FORMAT, "cannot expand to the 1683627180");
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
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "none of IDX, .npy");
    start_idx(8, 1, 0, 0, 0);
    yoke_dataset_destroy(opened(written("empty.idx", false), NULL)); /* no sample is no mistake */
    size = 0;
    refused(written("a.idx", false), NULL, YOKE_ERROR_FORMAT, "none of IDX, .npy");
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
    ASSERT_DETAIL("s.idx has become shorter");
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
    refused(scratch_path("hello.txt"), NULL, YOKE_ERROR_FORMAT, "none of IDX, .npy");
    text_file("a.npz", "PK\3\4 and so on");
    refused(scratch_path("a.npz"), NULL, YOKE_ERROR_UNSUPPORTED, "zip archive");
    snprintf(path, sizeof path, "%s", text_file("secret.csv", "1,2\n"));
    if (geteuid() != 0) {
        ck_assert_int_eq(chmod(path, 0), 0);
        refused(path, NULL, YOKE_ERROR_IO, "cannot be opened");
    }
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
            "other-train-images-idx3-ubyte and train-images-idx3-ubyte.gz; must");
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

/* A folder with a file for each field, of which the last may lack one. */
START_TEST(fields)
{
    static const char *const names[] = {"wide", "my_table", "label"};
    yoke_dataset_open_options o = {.field_names = names, .field_count = 3, .optional_fields = 1},
                              test = o;
    yoke_dataset *dataset;
    float x[3];
    int32_t label;

    test.part = YOKE_PART_TEST;
    ck_assert_int_eq(mkdir(scratch_path("f"), 0700), 0);
    refused(scratch_path("f"), &o, YOKE_ERROR_NOT_FOUND, "must have a file for \"wide\"");
    start_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    for (int i = 0; i < 6; i++)
        put(&(float){(float)i}, 4);
    written("f/wide-train.npy", false);
    text_file("f/train_my_table.csv", "a,label\n1,pear\n2,fig\n");
    text_file("f/label.csv", "5\n6\n"); /* of another part */
    dataset = opened(scratch_path("f"), &o);
    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 3);
    ck_assert_str_eq(yoke_dataset_get_class_name(dataset, 0), "fig");
    read_one(dataset, "wide", 1, x);
    ck_assert(x[0] == 3 && x[2] == 5);
    read_one(dataset, "my_table", 1, x);
    read_one(dataset, "label", 1, &label);
    ck_assert(x[0] == 2 && label == 0);
    yoke_dataset_destroy(dataset);
    refused(scratch_path("f"), &test, YOKE_ERROR_NOT_FOUND, "no test data here");

    start_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }");
    put(x, 12);
    ck_assert_int_eq(mkdir(scratch_path("f/test"), 0700), 0);
    written("f/test/wide.npy", false);
    refused(scratch_path("f"), &test, YOKE_ERROR_FORMAT,
            "test has no file for \"my_table\"; must have my_table.npy, for example");
    text_file("f/test/my_table.csv", "a\n7\n");
    dataset = opened(scratch_path("f"), &test); /* new samples have no label */
    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 2);
    yoke_dataset_destroy(dataset);
    text_file("f/test/label.csv", "4\n");
    dataset = opened(scratch_path("f"), &test);
    read_one(dataset, "label", 0, &label);
    ck_assert_int_eq(label, 4);
    yoke_dataset_destroy(dataset);
    text_file("f/test/my_table.csv", "a\n7\n8\n");
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_dataset_open(scratch_path("f"), &test, &dataset));
    ASSERT_DETAIL("my_table.csv has 2 samples, \"wide\" has 1; must have the same number");
    o.csv_columns = "*=auto";
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_dataset_open(scratch_path("f"), &o, &dataset));
    o.csv_columns = NULL;
    starve(scratch_path("f"), &o);
    o.optional_fields = 3;
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_dataset_open(scratch_path("f"), &o, &dataset));
    ASSERT_DETAIL("optional_fields is 3; must be between 0 and 2");
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
    tcase_add_test(c, cifar);
    tcase_add_test(c, folders);
    tcase_add_test(c, folders_of_arrays_and_tables);
    tcase_add_test(c, no_memory);
    tcase_add_test(c, fields);
    tcase_add_test(c, digits);
    return suite;
}

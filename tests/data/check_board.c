/* SPDX-License-Identifier: Apache-2.0
 *
 * check_board.c - files that TensorBoard shows: each record is whole, by checksums of the test's
 * own, and has the values that were added; and files that cannot be written.
 */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "data/wire.h"
#include "support/scratch.h"
#include "support/support.h"

/* ---- reading ---- */

/* Bit by bit, apart from what the library does. */
static uint32_t
crc32c(const unsigned char *data, size_t size)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static uint64_t
word(const unsigned char *at, int size)
{
    uint64_t value = 0;

    for (int i = 0; i < size; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static uint32_t
masked(const unsigned char *data, size_t size)
{
    const uint32_t crc = crc32c(data, size);

    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* Takes a record off a file. */
static yki_wire_span
take_record(yki_wire_span *file)
{
    yki_wire_span record;

    ck_assert_uint_ge(file->size, 16);
    ck_assert_uint_eq(word(file->at + 8, 4), masked(file->at, 8));
    record = (yki_wire_span){file->at + 12, (size_t)word(file->at, 8)};
    ck_assert_uint_le(record.size, file->size - 16);
    ck_assert_uint_eq(word(record.at + record.size, 4), masked(record.at, record.size));
    file->at += record.size + 16;
    file->size -= record.size + 16;
    return record;
}

/* The field of a number, which must be there. */
static yki_wire_field
get(yki_wire_span message, uint32_t number)
{
    yki_wire_field field;

    while (message.size > 0) {
        ck_assert(yki_wire_next(&message, &field));
        if (field.number == number)
            return field;
    }
    ck_abort_msg("there is no field %u", number);
    return field;
}

static double
number(yki_wire_field field)
{
    double value;
    float small;
    const uint32_t bits = (uint32_t)field.value;

    memcpy(&small, &bits, sizeof small);
    memcpy(&value, &field.value, sizeof value);
    return field.wire == YKI_WIRE_FIXED32 ? (double)small : value;
}

/* Element `i` of a packed list of doubles. */
static double
element(yki_wire_field field, size_t i)
{
    const uint64_t bits = word(field.bytes.at + 8 * i, 8);
    double value;

    ck_assert_uint_lt(8 * i, field.bytes.size);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The next record's value, after its step and tag are checked. */
static yki_wire_span
take_value(yki_wire_span *file, int64_t step, const char *tag)
{
    yki_wire_span event = take_record(file), value;
    yki_wire_field name;

    ck_assert_int_eq((int64_t)get(event, 2).value, step);
    ck_assert(number(get(event, 1)) > 1.6e9); /* seconds since 1970 */
    value = get(get(event, 5).bytes, 1).bytes;
    name = get(value, 1);
    ck_assert_uint_eq(name.bytes.size, strlen(tag));
    ck_assert_mem_eq(name.bytes.at, tag, name.bytes.size);
    return value;
}

/* The path of the only file of a folder. */
static void
find_file(const char *folder, char path[1024])
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    int count = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.') {
            ck_assert_ptr_eq(strstr(entry->d_name, "events.out.tfevents."), entry->d_name);
            snprintf(path, 1024, "%s/%s", folder, entry->d_name);
            count++;
        }
    closedir(dir);
    ck_assert_int_eq(count, 1);
}

/* ---- what is written ---- */

START_TEST(records)
{
    const float values[6] = {-1, 0, 0.1f, 2, NAN, INFINITY};
    const float pixels[3 * 2 * 2] = {0, 1, 2, 3, 0, 0, 0, 0, 4, 4, 4, 4};
    const char *folder = scratch_path("a/b//c");
    yki_wire_span file, value, histogram;
    yki_wire_field version;
    char path[1024], *text;
    yoke_board *board;
    double count = 0;
    yoke_status images;
    size_t size;

    ASSERT_OK(yoke_board_create(folder, &board));
    ASSERT_OK(yoke_board_add_scalar(board, "train/loss", 7, 0.25));
    ASSERT_OK(yoke_board_add_histogram(board, "weights/fc", (int64_t)1 << 40, values, 6));
    ASSERT_OK(yoke_board_add_histogram(board, "none", 1, values + 4, 2));
    ASSERT_OK(yoke_board_restart(board, 5));
    images = yoke_board_add_image(board, "samples/1", 0, pixels, yoke_shape(3, 2, 2), 0, 4);
    ASSERT_OK(yoke_board_flush(board));
    yoke_board_destroy(board);
    find_file(folder, path);
    text = scratch_read(path, &size);
    file = (yki_wire_span){(const unsigned char *)text, size};

    version = get(take_record(&file), 3);
    ck_assert_uint_eq(version.bytes.size, 13);
    ck_assert_mem_eq(version.bytes.at, "brain.Event:2", 13);
    ck_assert(number(get(take_value(&file, 7, "train/loss"), 2)) == 0.25);

    histogram = get(take_value(&file, (int64_t)1 << 40, "weights/fc"), 5).bytes;
    ck_assert(number(get(histogram, 1)) == -1 && number(get(histogram, 2)) == 2);
    ck_assert(number(get(histogram, 3)) == 4);
    ck_assert(fabs(number(get(histogram, 4)) - 1.1) < 1e-6);
    ck_assert(fabs(number(get(histogram, 5)) - 5.01) < 1e-6);
    ck_assert_uint_eq(get(histogram, 6).bytes.size, get(histogram, 7).bytes.size);
    for (size_t i = 0; i < get(histogram, 7).bytes.size / 8; i++) {
        const double limit = element(get(histogram, 6), i), in = element(get(histogram, 7), i);

        ck_assert(i == 0 || limit > element(get(histogram, 6), i - 1));
        ck_assert_msg(in == (i == 0 || i == 10 || i == 11 || i == 29), "%g in range %zu", in, i);
        count += in;
    }
    ck_assert(count == 4);
    ck_assert(number(get(get(take_value(&file, 1, "none"), 5).bytes, 3)) == 0);
    ck_assert_uint_eq(get(get(take_record(&file), 7).bytes, 1).value, 1);

    if (images == YOKE_ERROR_UNSUPPORTED) {
        ck_assert_ptr_nonnull(strstr(yoke_last_error(), "libpng"));
    } else {
        ASSERT_OK(images);
        value = get(take_value(&file, 0, "samples/1"), 4).bytes;
        ck_assert(get(value, 1).value == 2 && get(value, 2).value == 2 && get(value, 3).value == 3);
        ck_assert_mem_eq(get(value, 4).bytes.at, "\x89PNG\r\n\x1a\n", 8);
    }
    ck_assert_uint_eq(file.size, 0);
    free(text);
}
END_TEST

/* The first images of a run and its later files are apart, also within one second. */
START_TEST(two_files_of_a_folder)
{
    const char *folder = scratch_path("two");
    yoke_board *boards[2];

    for (int i = 0; i < 2; i++)
        ASSERT_OK(yoke_board_create(folder, &boards[i]));
    for (int i = 0; i < 2; i++)
        yoke_board_destroy(boards[i]);
    yoke_board_destroy(NULL);
}
END_TEST

/* ---- what cannot be written ---- */

START_TEST(no_folder)
{
    const char *path = scratch_path("file");
    char below[1100];
    yoke_board *board;

    scratch_write(path, "x", 1);
    ASSERT_REFUSED(YOKE_ERROR_IO, path, yoke_board_create(path, &board));
    snprintf(below, sizeof below, "%s/below", path);
    ASSERT_REFUSED(YOKE_ERROR_IO, "cannot be made: Not a directory",
                   yoke_board_create(below, &board));
    ASSERT_INVALID(yoke_board_create("", &board));
    ASSERT_INVALID(yoke_board_create(NULL, &board));
}
END_TEST

/* A file that may not grow stands for a disk that is full. */
START_TEST(a_full_disk)
{
    const struct rlimit limit = {1000, 1000};
    yoke_status status = YOKE_OK;
    yoke_board *board;

    ASSERT_OK(yoke_board_create(scratch_path("full"), &board));
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 100 && status == YOKE_OK; i++) {
        status = yoke_board_add_scalar(board, "x", i, i);
        if (status == YOKE_OK)
            status = yoke_board_flush(board);
    }
    ASSERT_REFUSED(YOKE_ERROR_IO, "cannot be written: File too large", status);
    ASSERT_REFUSED(YOKE_ERROR_IO, "cannot be written: File too large",
                   yoke_board_add_scalar(board, "x", 0, 0));
    ASSERT_REFUSED(YOKE_ERROR_IO, "cannot be written", yoke_board_flush(board));
    yoke_board_destroy(board);
}
END_TEST

START_TEST(refusals)
{
    const float x = 0;
    yoke_board *board;

    ASSERT_OK(yoke_board_create(scratch_path("refusals"), &board));
    ASSERT_INVALID(yoke_board_add_scalar(board, NULL, 0, 0));
    ASSERT_INVALID(yoke_board_add_scalar(NULL, "x", 0, 0));
    ASSERT_INVALID(yoke_board_add_histogram(board, "x", 0, NULL, 1));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "must be (1 or 3, height, width)",
                   yoke_board_add_image(board, "x", 0, &x, yoke_shape(2, 1, 1), 0, 1));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "must be (1 or 3, height, width)",
                   yoke_board_add_image(board, "x", 0, &x, yoke_shape(1, 1 << 20, 1), 0, 1));
    yoke_board_destroy(board);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("board");
    TCase *tcase = test_case(suite, "files");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_test(tcase, records);
    tcase_add_test(tcase, two_files_of_a_folder);
    tcase_add_test(tcase, no_folder);
    tcase_add_test(tcase, a_full_disk);
    tcase_add_test(tcase, refusals);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check_npy.c - arrays of NumPy: types, orders and shapes, images with channels first or last,
 * and what is refused with a sentence that names the file.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/made_files.h"
#include "support/scratch.h"
#include "support/support.h"

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
    ck_assert_ptr_nonnull(strstr(warned,
                                 "x.npy: its samples of (16, 16, 3) are taken for images of "
                                 "16 channels"));
    ck_assert_ptr_nonnull(strstr(warned, "--channels-last"));
    yoke_log_set(NULL, NULL, YOKE_LOG_WARNING);
}
END_TEST

static const struct {
    const char *dictionary;
    yoke_status status;
    const char *part;
} refusals[] = {
    {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", YOKE_ERROR_UNSUPPORTED,
     "Python objects"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", YOKE_ERROR_UNSUPPORTED,
     "big-endian"},
    {"{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", YOKE_ERROR_UNSUPPORTED,
     "type <U3"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", YOKE_ERROR_UNSUPPORTED,
     "structs"},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", YOKE_ERROR_UNSUPPORTED,
     "Fortran"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", YOKE_ERROR_FORMAT, "single number"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0), }", YOKE_ERROR_FORMAT,
     "axis 1 has size 0"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
     YOKE_ERROR_FORMAT, "more than any file holds"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 28, 28), }", YOKE_ERROR_FORMAT,
     "must have 6734508720"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 2147483647, 2147483647), "
     "}",
     YOKE_ERROR_FORMAT, "more than any file holds"},
    {"{'descr': '<f4', 'shape': (1,), }", YOKE_ERROR_FORMAT, "once each"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}", YOKE_ERROR_FORMAT,
     "once each"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", YOKE_ERROR_FORMAT, "True or False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1)}",
     YOKE_ERROR_UNSUPPORTED, "too many axes; must have at most 9"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", YOKE_ERROR_FORMAT,
     "size of an axis"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", YOKE_ERROR_FORMAT, "\")\""},
    {"", YOKE_ERROR_FORMAT, "\"{\""},
};

START_TEST(npy_refusals)
{
    for (size_t i = 0; i < YKI_COUNT(refusals); i++) {
        start_npy(refusals[i].dictionary);
        put("\0\0\200?", 4);
        refused(written("x.npy", false), NULL, refusals[i].status, refusals[i].part);
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

Suite *
test_suite(void)
{
    Suite *suite = suite_create("npy");
    TCase *c = test_case(suite, "npy");

    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, npy);
    tcase_add_test(c, npy_images);
    tcase_add_test(c, channels_that_look_last_are_warned_of);
    tcase_add_test(c, npy_refusals);
    return suite;
}

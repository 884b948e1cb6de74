/* SPDX-License-Identifier: Apache-2.0
 *
 * check_images.c - images: pixels of every kind of file are those that were written, resizing gives
 * what can be computed by hand, folders have their classes and parts, and what is damaged is
 * refused with a sentence, or left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/made_files.h"
#include "data/made_images.h"
#include "support/scratch.h"
#include "support/support.h"

#ifdef MADE_IMAGES

enum { SIDE = 40, NOISE = SIDE * SIDE * 4 };

static uint8_t noise[NOISE];

static void
set_up(void)
{
    uint32_t state = 1;

    scratch_set_up();
    for (size_t i = 0; i < NOISE; i++)
        noise[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
}

/* Reads the one image of a file as `channels` planes of this size, and compares it. */
static void
expect(const char *path, int channels, int height, int width, const uint8_t *pixels)
{
    const yoke_dataset_open_options o = {
        .image_channels = channels, .image_height = height, .image_width = width};
    const size_t count = (size_t)(channels * height * width);
    uint8_t *got = malloc(count);
    yoke_dataset *dataset = opened(path, &o);

    ck_assert_int_eq(yoke_dataset_count(dataset), 1);
    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 1);
    read_one(dataset, "image", 0, got);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == pixels[i], "%s: value %zu is %d, not %d", path, i, got[i],
                      pixels[i]);
    yoke_dataset_destroy(dataset);
    free(got);
}

/* ---- pixels ---- */

START_TEST(png_kinds)
{
    static const png_color palette[] = {{9, 8, 7}, {200, 100, 50}, {1, 2, 3}, {255, 0, 128}};
    const struct {
        made_png png;
        uint8_t pixels[12]; /* planes of 2 x 2 */
        int channels;
    } rows[] = {
        {{2, 2, 8, PNG_COLOR_TYPE_GRAY, false, (const uint8_t[]){1, 2, 3, 250}, NULL, 0},
         {1, 2, 3, 250},
         1},
        {{2, 2, 2, PNG_COLOR_TYPE_GRAY, false, (const uint8_t[]){0x10, 0xB0}, NULL, 0},
         {0, 85, 170, 255},
         1},
        {{2, 2, 16, PNG_COLOR_TYPE_GRAY, false, (const uint8_t[]){0, 127, 0, 129, 255, 0, 128, 200},
          NULL, 0},
         {0, 1, 254, 128},
         1},
        {{2, 2, 8, PNG_COLOR_TYPE_GRAY_ALPHA, false, (const uint8_t[]){1, 0, 2, 255, 3, 128, 4, 9},
          NULL, 0},
         {1, 2, 3, 4},
         1},
        {{2, 2, 8, PNG_COLOR_TYPE_RGB, false,
          (const uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, NULL, 0},
         {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12},
         3},
        {{2, 2, 8, PNG_COLOR_TYPE_RGB_ALPHA, true,
          (const uint8_t[]){1, 2, 3, 0, 4, 5, 6, 255, 7, 8, 9, 1, 10, 11, 12, 2}, NULL, 0},
         {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12},
         3},
        {{2, 2, 8, PNG_COLOR_TYPE_PALETTE, false, (const uint8_t[]){0, 1, 2, 3}, palette, 4},
         {9, 200, 1, 255, 8, 100, 2, 0, 7, 50, 3, 128},
         3},
        {{2, 2, 8, PNG_COLOR_TYPE_RGB, false,
          (const uint8_t[]){255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30}, NULL, 0},
         {76, 150, 29, 18},
         1}, /* made gray */
        {{2, 2, 8, PNG_COLOR_TYPE_GRAY, true, (const uint8_t[]){1, 2, 3, 4}, NULL, 0},
         {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4},
         3},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        make_png(scratch_path("a.png"), &rows[i].png);
        expect(scratch_path("a.png"), rows[i].channels, 2, 2, rows[i].pixels);
    }
}
END_TEST

/* Decodes to whole planes; returns their size. */
static size_t
decoded(const char *path, uint8_t *out)
{
    yoke_dataset *dataset = opened(path, NULL);
    const size_t bytes_of = yki_field_size(yoke_dataset_get_field(dataset, 0));

    ck_assert_uint_le(bytes_of, NOISE);
    read_one(dataset, "image", 0, out);
    yoke_dataset_destroy(dataset);
    return bytes_of;
}

START_TEST(interlaced)
{
    made_png png = {37, 29, 8, PNG_COLOR_TYPE_RGB, false, noise, NULL, 0};
    static uint8_t plain[NOISE], other[NOISE];

    make_png(scratch_path("a.png"), &png);
    png.interlaced = true;
    make_png(scratch_path("b.png"), &png);
    ck_assert_uint_eq(decoded(scratch_path("a.png"), plain), 37 * 29 * 3);
    ck_assert_uint_eq(decoded(scratch_path("b.png"), other), 37 * 29 * 3);
    ck_assert_mem_eq(plain, other, 37 * 29 * 3);
    for (size_t i = 0; i < 37 * 29; i++)
        ck_assert_int_eq(plain[37 * 29 + i], noise[3 * i + 1]);
}
END_TEST

/* A surface of one colour is that colour again, but for rounding. */
static void
expect_flat(const char *path, int channels, const int *color)
{
    static uint8_t got[NOISE];
    const size_t plane = decoded(path, got) / (size_t)channels;

    ck_assert_uint_eq(plane, 16 * 16);
    for (int c = 0; c < channels; c++)
        for (size_t i = 0; i < plane; i++)
            ck_assert_int_le(abs(got[(size_t)c * plane + i] - color[c]), 2);
}

START_TEST(jpeg_kinds)
{
    static const struct {
        int channels, given, color[4], expected[3];
        J_COLOR_SPACE from, to;
    } rows[] = {
        {1, 1, {100}, {100}, JCS_GRAYSCALE, JCS_GRAYSCALE},
        {3, 3, {200, 60, 20}, {200, 60, 20}, JCS_RGB, JCS_YCbCr},
        {3, 3, {200, 60, 20}, {200, 60, 20}, JCS_RGB, JCS_RGB},
        /* Both have Adobe's marker, so 255 is no ink. */
        {3, 4, {200, 100, 50, 255}, {200, 100, 50}, JCS_CMYK, JCS_CMYK},
        {3, 4, {200, 100, 50, 128}, {100, 50, 25}, JCS_CMYK, JCS_YCCK},
    };
    static uint8_t flat[16 * 16 * 4];

    for (size_t i = 0; i < YKI_COUNT(rows); i++)
        for (int progressive = 0; progressive < 2; progressive++) {
            const made_jpeg jpeg = {16,         16,          rows[i].given, rows[i].from,
                                    rows[i].to, progressive, flat};

            for (int k = 0; k < 16 * 16 * rows[i].given; k++)
                flat[k] = (uint8_t)rows[i].color[k % rows[i].given];
            make_jpeg(scratch_path("a.jpg"), &jpeg);
            expect_flat(scratch_path("a.jpg"), rows[i].channels, rows[i].expected);
        }
}
END_TEST

START_TEST(progressive)
{
    made_jpeg jpeg = {37, 29, 3, JCS_RGB, JCS_YCbCr, false, noise};
    static uint8_t plain[NOISE], other[NOISE];

    make_jpeg(scratch_path("a.jpg"), &jpeg);
    jpeg.progressive = true;
    make_jpeg(scratch_path("b.jpg"), &jpeg);
    ck_assert_uint_eq(decoded(scratch_path("a.jpg"), plain), 37 * 29 * 3);
    decoded(scratch_path("b.jpg"), other);
    ck_assert_mem_eq(plain, other, 37 * 29 * 3);
}
END_TEST

START_TEST(resized)
{
    static const struct {
        uint32_t width, height;
        uint8_t pixels[16];
        int to_height, to_width;
        uint8_t expected[16];
    } rows[] = {
        /* means, rounded to the nearest */
        {4, 2, {1, 2, 10, 20, 3, 5, 30, 41}, 1, 2, {3, 25}},
        /* 3 to 2: whole pixels count 2, the middle ones 1 of 3 */
        {3, 3, {0, 90, 180, 0, 90, 180, 0, 90, 180}, 2, 2, {30, 150, 30, 150}},
        /* the middle of the longer side */
        {6, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 2, 2, {3, 4, 9, 10}},
        {1, 5, {1, 2, 3, 4, 5}, 1, 1, {3}},
        /* 4 to 1 across 8: the pixels 2 to 5 */
        {8, 1, {0, 0, 4, 8, 8, 4, 0, 0}, 1, 4, {4, 8, 8, 4}},
        /* between centres, and the edge beyond them */
        {2, 1, {0, 100}, 2, 4, {0, 25, 75, 100, 0, 25, 75, 100}},
        {1, 1, {77}, 3, 3, {77, 77, 77, 77, 77, 77, 77, 77, 77}},
        {3, 1, {0, 80, 0}, 2, 4, {20, 60, 60, 20, 20, 60, 60, 20}},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        make_png(scratch_path("a.png"),
                 &(made_png){rows[i].width, rows[i].height, 8, PNG_COLOR_TYPE_GRAY, false,
                             rows[i].pixels, NULL, 0});
        expect(scratch_path("a.png"), 1, rows[i].to_height, rows[i].to_width, rows[i].expected);
    }
}
END_TEST

/* ---- what is damaged ---- */

/* The first sample is refused with a sentence that begins with the file's name. */
static void
expect_damage(const char *path, const char *part)
{
    const yoke_dataset_open_options o = {.image_height = 8, .image_width = 8, .image_channels = 3};
    yoke_dataset *dataset = opened(path, &o);
    uint8_t out[8 * 8 * 3];

    ASSERT_STATUS(YOKE_ERROR_FORMAT,
                  yoke_dataset_read(dataset, "image", (int64_t[]){0}, 1, out, sizeof out));
    ck_assert_msg(strncmp(yoke_last_error(), path, strlen(path)) == 0, "%s", yoke_last_error());
    ASSERT_DETAIL(part);
    yoke_dataset_destroy(dataset);
}

START_TEST(cut_short)
{
    const made_png png = {SIDE, SIDE, 8, PNG_COLOR_TYPE_RGB, true, noise, NULL, 0};
    const made_jpeg jpeg = {SIDE, SIDE, 3, JCS_RGB, JCS_YCbCr, true, noise};
    const char *const names[] = {"a.png", "a.jpg"};

    make_png(scratch_path("a.png"), &png);
    make_jpeg(scratch_path("a.jpg"), &jpeg);
    for (size_t i = 0; i < 2; i++) {
        char *path = strdup(scratch_path(names[i])), *data;
        size_t length;

        data = scratch_read(path, &length);
        ck_assert_uint_gt(length, 1000);
        for (size_t kept = 0; kept < length; kept += 64) {
            scratch_write(path, data, kept);
            expect_damage(path, "");
        }
        scratch_write(path, data, length - 2);
        expect_damage(path, "is damaged");
        free(data);
        free(path);
    }
}
END_TEST

static uint32_t
crc(const uint8_t *data, size_t count)
{
    uint32_t sum = 0xffffffffu;

    for (size_t i = 0; i < count; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
}

static void
put_at(char *data, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        data[i] = (char)(value >> (24 - 8 * i));
}

START_TEST(false_sizes)
{
    static const struct {
        uint32_t width, height;
        const char *part;
    } rows[] = {
        {70000, 2, "70000 x 2 pixels; must have at most 67108864, and at most 65535 a side"},
        {0x7fffffff, 0x7fffffff, "2147483647 x 2147483647 pixels; must have at most"},
        {60000, 60000, "60000 x 60000 pixels; must have at most"},
        {8000, 8000, "is damaged: it is too short for its pixels"},
        {0, 8, "is damaged"},
        {0x80000000u, 8, "is damaged"}};
    const made_jpeg jpeg = {SIDE, SIDE, 3, JCS_RGB, JCS_YCbCr, false, noise};
    const char *path = scratch_path("a.png");
    size_t length;
    char *data, *frame;

    make_png(path, &(made_png){2, 2, 8, PNG_COLOR_TYPE_GRAY, true, noise, NULL, 0});
    data = scratch_read(path, &length);
    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        put_at(data + 16, rows[i].width);
        put_at(data + 20, rows[i].height);
        put_at(data + 29, crc((const uint8_t *)data + 12, 17));
        scratch_write(path, data, length);
        expect_damage(path, rows[i].part);
    }
    free(data);
    path = scratch_path("b.jpg");
    make_jpeg(path, &jpeg);
    data = scratch_read(path, &length);
    frame = memmem(data, length, "\xff\xc0", 2);
    ck_assert_ptr_nonnull(frame);
    memcpy(frame + 5, "\xff\xdc\xff\xdc", 4);
    scratch_write(path, data, length);
    expect_damage(path, "65500 x 65500 pixels; must have at most");
    memcpy(frame + 5, "\x10\0\x10\0", 4);
    scratch_write(path, data, length);
    expect_damage(path, "is damaged");
    free(data);
}
END_TEST

START_TEST(no_images)
{
    const char *path = scratch_path("a.png");
    const yoke_dataset_open_options bad = {.image_channels = 2}, large = {.image_height = 5000};

    scratch_write(path, "GIF89a..........", 16);
    expect_damage(path, "is neither PNG nor JPEG by its first bytes");
    refused(path, NULL, YOKE_ERROR_FORMAT, "is neither PNG nor JPEG");
    scratch_write(path, "\x89PNG\r\n\x1a\nxxxxxxxxxxxxxxxxxxxxxxxxx", 33);
    expect_damage(path, "is damaged");
    scratch_write(path, "\xff\xd8\xff\xe0xxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 33);
    expect_damage(path, "is damaged");
    ck_assert_int_eq(yoke_dataset_open(path, &bad, &(yoke_dataset *){NULL}),
                     YOKE_ERROR_INVALID_ARGUMENT);
    ASSERT_DETAIL("image_channels is 2; must be 0, 1 or 3");
    ck_assert_int_eq(yoke_dataset_open(path, &large, &(yoke_dataset *){NULL}),
                     YOKE_ERROR_INVALID_ARGUMENT);
    ASSERT_DETAIL("image_height is 5000; must be between 0 and 4096");
    ck_assert_int_eq(mkdir(scratch_path("gone"), 0700), 0);
    ck_assert_int_eq(symlink("nowhere", scratch_path("gone/a.png")), 0);
    refused(scratch_path("gone"), NULL, YOKE_ERROR_IO, "gone/a.png cannot be opened: ");
}
END_TEST

/* ---- folders ---- */

/* A gray image of one value, at FOLDER/NAME of the scratch folder. */
static void
put_image(const char *folder, const char *name, uint8_t value)
{
    char path[512], part[1024];
    const uint8_t pixels[4] = {value, value, value, value};

    snprintf(path, sizeof path, "%s/%s", scratch_dir(), folder);
    for (char *slash = path + strlen(scratch_dir()) + 1; (slash = strchr(slash, '/')); slash++) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        mkdir(part, 0700);
    }
    mkdir(path, 0700);
    snprintf(part, sizeof part, "%s/%s", path, name);
    make_png(part, &(made_png){2, 2, 8, PNG_COLOR_TYPE_GRAY, false, pixels, NULL, 0});
}

static void
expect_sample(const yoke_dataset *dataset, int64_t index, int value, int label)
{
    uint8_t pixels[4];
    int32_t got;

    read_one(dataset, "image", index, pixels);
    read_one(dataset, "label", index, &got);
    ck_assert_int_eq(pixels[0], value);
    ck_assert_int_eq(got, label);
}

START_TEST(parts)
{
    static const char *const given[] = {"owl", "cat", "dog"};
    const yoke_dataset_open_options test = {.part = YOKE_PART_TEST},
                                    known = {.class_names = given, .class_count = 3};
    const char *root = scratch_path("set");
    yoke_dataset *dataset;

    mkdir(root, 0700);
    refused(root, NULL, YOKE_ERROR_NOT_FOUND, "no data here");
    put_image("set/train/dog", "b.png", 20);
    put_image("set/train/dog", "a.PNG", 10);
    put_image("set/train/cat", "z.png", 30);
    put_image("set/train/owl", "1.png", 40);
    put_image("set/test/owl", "1.png", 50);
    scratch_write(scratch_path("set/train/notes.txt"), "x", 1);
    dataset = opened(root, NULL);
    ck_assert_int_eq(yoke_dataset_count(dataset), 4);
    ck_assert_uint_eq(yoke_dataset_class_count(dataset), 3);
    ck_assert_str_eq(yoke_dataset_get_class_name(dataset, 1), "dog");
    expect_sample(dataset, 0, 30, 0);
    expect_sample(dataset, 1, 10, 1);
    expect_sample(dataset, 2, 20, 1);
    expect_sample(dataset, 3, 40, 2);
    yoke_dataset_destroy(dataset);
    dataset = opened(root, &test); /* the classes are those of the training part */
    ck_assert_int_eq(yoke_dataset_count(dataset), 1);
    expect_sample(dataset, 0, 50, 2);
    yoke_dataset_destroy(dataset);
    dataset = opened(scratch_path("set/test"), &known);
    expect_sample(dataset, 0, 50, 0);
    ck_assert_uint_eq(yoke_dataset_class_count(dataset), 3);
    yoke_dataset_destroy(dataset);
    mkdir(scratch_path("set/eval-logs"), 0700); /* sorted before test/, but without images */
    put_image("set/test/fox", "1.png", 60);
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_dataset_open(root, &test, &dataset));
    ASSERT_DETAIL("\"fox\" is no class of the training data; must be one of its 3, as \"cat\"");
}
END_TEST

START_TEST(without_parts)
{
    const yoke_dataset_open_options test = {.part = YOKE_PART_TEST};
    yoke_dataset *dataset;

    put_image("flat/train", "1.png", 1); /* a class of that name */
    put_image("flat/bus", "1.png", 2);
    dataset = opened(scratch_path("flat"), NULL);
    ck_assert_int_eq(yoke_dataset_count(dataset), 2);
    ck_assert_str_eq(yoke_dataset_get_class_name(dataset, 1), "train");
    expect_sample(dataset, 0, 2, 0);
    yoke_dataset_destroy(dataset);
    refused(scratch_path("flat"), &test, YOKE_ERROR_NOT_FOUND, "no test data here");
    put_image("flat/test/train", "1.png", 3);
    dataset = opened(scratch_path("flat"), &test); /* its class has the number of training */
    expect_sample(dataset, 0, 3, 1);
    yoke_dataset_destroy(dataset);
    dataset = opened(scratch_path("flat/bus"), NULL); /* no classes: no labels */
    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 1);
    ck_assert_uint_eq(yoke_dataset_class_count(dataset), 0);
    yoke_dataset_destroy(dataset);
}
END_TEST

/* Images of a test part that have no classes, and a folder whose name is that of an image. */
START_TEST(without_classes)
{
    const yoke_dataset_open_options test = {.part = YOKE_PART_TEST};
    yoke_dataset *dataset, *part;

    put_image("new/train/a", "1.png", 1);
    put_image("new/train/a/2.png", "3.png", 3);
    put_image("new/train/b", "1.png", 2);
    put_image("new/test", "y.png", 5);
    put_image("new/test", "x.png", 4);
    put_image("new/test/album.jpg", "z.png", 6);
    dataset = opened(scratch_path("new"), NULL);
    ck_assert_int_eq(yoke_dataset_count(dataset), 2);
    yoke_dataset_destroy(dataset);
    ck_assert_int_eq(unlink(scratch_path("new/test/album.jpg/z.png")), 0);
    dataset = opened(scratch_path("new"), &test);
    ck_assert_int_eq(yoke_dataset_count(dataset), 2);
    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 1);
    ck_assert_str_eq(yoke_dataset_get_file(dataset, 0), scratch_path("new/test/x.png"));
    ck_assert_ptr_null(yoke_dataset_get_file(dataset, 2));
    ASSERT_OK(yoke_dataset_subset(dataset, (const int64_t[]){1}, 1, &part));
    ck_assert_str_eq(yoke_dataset_get_file(part, 0), scratch_path("new/test/y.png"));
    yoke_dataset_destroy(part);
    yoke_dataset_destroy(dataset);
    put_image("new/c", "1.png", 2); /* now they are classes, and "test" is one of them */
    refused(scratch_path("new"), &test, YOKE_ERROR_NOT_FOUND, "no test data here");
}
END_TEST

START_TEST(left_out)
{
    const yoke_dataset_open_options skip = {.skip_bad_images = true, .image_channels = 1};
    yoke_dataset *dataset, *train, *rest;
    yki_prefetch *ahead;
    static const bool fields[YKI_MAX_FIELDS] = {true, true};
    const yki_order order = {.count = 6, .sequential = true};
    const int64_t all[] = {0, 1, 2, 3, 4, 5};
    uint8_t pixels[6 * 4];

    for (int i = 0; i < 6; i++) {
        char name[16];

        snprintf(name, sizeof name, "%d.png", i);
        put_image(i < 3 ? "some/a" : "some/b", name, (uint8_t)(10 * i));
    }
    ck_assert_int_eq(truncate(scratch_path("some/b/3.png"), 50), 0);
    dataset = opened(scratch_path("some"), NULL);
    ck_assert_int_eq(yoke_dataset_count(dataset), 6);
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_dataset_read(dataset, "image", all, 6, pixels, 24));
    ASSERT_DETAIL("some/b/3.png is damaged: ");
    /* What is read ahead at once ends at the damaged one; those before it are there. */
    ASSERT_OK(yki_prefetch_create(dataset, &order, fields, &ahead));
    ASSERT_OK(yki_prefetch_ask(ahead, 0, 6));
    ASSERT_OK(yki_prefetch_read(ahead, 0, 0, all, 3, pixels));
    ck_assert_int_eq(pixels[11], 20);
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yki_prefetch_read(ahead, 3, 0, all + 3, 1, pixels));
    ASSERT_DETAIL("some/b/3.png is damaged: ");
    yki_prefetch_destroy(ahead);
    yoke_dataset_destroy(dataset);

    dataset = opened(scratch_path("some"), &skip);
    ck_assert_int_eq(yoke_dataset_count(dataset), 5);
    ck_assert_uint_eq(scratch_log_count(YOKE_LOG_WARNING, "some/b/3.png is damaged"), 1);
    expect_sample(dataset, 2, 20, 0);
    expect_sample(dataset, 3, 40, 1);
    ASSERT_OK(yoke_dataset_split(dataset, 0.4, 3, &train, &rest));
    ck_assert_int_eq(yoke_dataset_count(train), 3);
    ASSERT_OK(yoke_dataset_read(train, "image", all, 3, pixels, 12));
    yoke_dataset_destroy(train);
    yoke_dataset_destroy(rest);
    yoke_dataset_destroy(dataset);
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof name, "some/a/%d.png", i);
        scratch_write(scratch_path(name), "x", 1);
        snprintf(name, sizeof name, "some/b/%d.png", i + 3);
        scratch_write(scratch_path(name), "x", 1);
    }
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_dataset_open(scratch_path("some"), &skip, &dataset));
    ASSERT_DETAIL("none of the 6 images can be decoded");
}
END_TEST

/* No memory: an error, and nothing is lost. */
START_TEST(no_memory)
{
    yoke_dataset *dataset = NULL;
    uint8_t pixels[4];
    uint64_t tries = 0;
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    put_image("few/a", "1.png", 1);
    put_image("few/b", "2.png", 2);
    while (status != YOKE_OK) {
        ck_assert_uint_lt(tries, 500);
        yki_alloc_fail_at(++tries);
        status = yoke_dataset_open(scratch_path("few"), NULL, &dataset);
        if (status == YOKE_OK)
            status = yoke_dataset_read(dataset, "image", (int64_t[]){1}, 1, pixels, 4);
        yki_alloc_fail_at(0);
        if (status != YOKE_OK)
            ck_assert(status != YOKE_ERROR_INTERNAL && status != YOKE_ERROR_FORMAT);
        yoke_dataset_destroy(dataset);
        dataset = NULL;
    }
    ck_assert_uint_gt(tries, 20);
    ck_assert_int_eq(pixels[0], 2);
}
END_TEST

static void
add_tests(TCase *c)
{
    tcase_add_checked_fixture(c, set_up, scratch_tear_down);
    tcase_add_test(c, png_kinds);
    tcase_add_test(c, interlaced);
    tcase_add_test(c, jpeg_kinds);
    tcase_add_test(c, progressive);
    tcase_add_test(c, resized);
    tcase_add_test(c, cut_short);
    tcase_add_test(c, false_sizes);
    tcase_add_test(c, no_images);
    tcase_add_test(c, parts);
    tcase_add_test(c, without_parts);
    tcase_add_test(c, without_classes);
    tcase_add_test(c, left_out);
    tcase_add_test(c, no_memory);
}

#else

/* A build without one of the libraries says so of such a file, and has all else. */
START_TEST(unread)
{
    static const char png[] = "\x89PNG\r\n\x1a\nxxxxxxxx", jpeg[] = "\xff\xd8\xff\xe0xxxxxxxx";
    const char *path = scratch_path("a.png");

#ifndef YOKE_HAVE_PNG
    scratch_write(path, png, sizeof png);
    refused(path, NULL, YOKE_ERROR_UNSUPPORTED,
            "is a PNG, which this build of yoke cannot read; build it with libpng");
#endif
#ifndef YOKE_HAVE_JPEG
    scratch_write(path, jpeg, sizeof jpeg);
    refused(path, NULL, YOKE_ERROR_UNSUPPORTED,
            "is a JPEG, which this build of yoke cannot read; build it with libjpeg-turbo");
#endif
    (void)png;
    (void)jpeg;
}
END_TEST

static void
add_tests(TCase *c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, unread);
}

#endif

Suite *
test_suite(void)
{
    Suite *suite = suite_create("images");

    add_tests(test_case(suite, "images"));
    return suite;
}

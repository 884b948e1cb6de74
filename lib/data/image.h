/* SPDX-License-Identifier: Apache-2.0
 *
 * image.h - one image: a decoder for each format gives its rows, from top to bottom, and resizing
 * makes a sample of them.
 *
 * Nothing is allocated by a size that a file states before that size was checked.
 */
#ifndef YKI_IMAGE_H
#define YKI_IMAGE_H

#include "data/files.h"

/* What is read: more is refused. */
enum {
    YKI_IMAGE_MOST_SIDE = 65535,
    YKI_IMAGE_MOST_PIXELS = 1 << 26,
    YKI_IMAGE_MOST_BYTES = 1 << 28, /* of a file */
    YKI_IMAGE_MOST_RESULT = 4096    /* rows or columns of a sample */
};

/* A file in memory, and what its header says. */
typedef struct yki_image {
    const char *name;
    const unsigned char *data;
    size_t size;
    uint32_t width, height;
    uint32_t channels; /* that decoding gives: 1, or 3 (red, green, blue) */
} yki_image;

/* ---- resizing (image_resize.c) ---- */

/* Which pixels of one axis of an image make one of the result: `count` from `first` on, by
 * `weights`, which add up to `total` of the axis. */
typedef struct yki_image_span {
    uint32_t first, count;
    size_t weights;
} yki_image_span;

typedef struct yki_image_axis {
    yki_image_span *spans;
    uint32_t *weights;
    size_t span_capacity, weight_capacity;
    uint64_t total;
} yki_image_axis;

typedef struct yki_resize {
    uint32_t height, width, channels; /* of the result; given by who uses it */
    yki_image_axis x, y;
    uint32_t from;   /* channels of the rows that come */
    uint32_t shared; /* channels that are added up: the fewer of both */
    uint32_t columns, row, open;
    uint8_t *gray;
    uint32_t *line;
    uint64_t *sums;
    size_t gray_capacity, line_capacity, sum_capacity;
} yki_resize;

/* Begins an image of the size and the channels that `image` has. */
yoke_status yki_resize_begin(yki_resize *resize, const yki_image *image);
/* Takes the next row. */
void yki_resize_row(yki_resize *resize, const uint8_t *row);
/* Writes the result (channels, height, width) after the last row. */
void yki_resize_end(const yki_resize *resize, uint8_t *out);
void yki_resize_clear(yki_resize *resize);

/* ---- decoding (image_check.c) ---- */

/* Checks what a header says, before anything is made for it. */
yoke_status yki_image_check(const yki_image *image, uint64_t width, uint64_t height);
/* "NAME is damaged: why" */
yoke_status yki_image_fail(const yki_image *image, const char *why);
/* Sets size and channels of `image` and, if `resize` is not NULL, begins it and gives it all rows.
 * Every damage is an error. (image_png.c, image_jpeg.c) */
yoke_status yki_png_decode(yki_image *image, yki_resize *resize);
yoke_status yki_jpeg_decode(yki_image *image, yki_resize *resize);
/* Writes (height, width, channels) as PNG, into memory for yki_free; channels are 1 or 3.
 * (image_png.c) */
yoke_status yki_png_encode(const uint8_t *pixels, uint32_t height, uint32_t width,
                           uint32_t channels, unsigned char **png, size_t *size);
/* The same for a file of either format, by its first bytes. A format that this build cannot read
 * is YOKE_ERROR_UNSUPPORTED, everything else YOKE_ERROR_FORMAT. (images.c) */
yoke_status yki_image_decode(yki_image *image, yki_resize *resize);

/* ---- image_folder.c ---- */

/* Images and their classes, in the order of their names. */
typedef struct yki_image_list {
    char **paths;    /* owned, as all that follows */
    int32_t *labels; /* of each; -1: they have none */
    size_t count, path_capacity, label_capacity;
    char **classes; /* names of folders */
    size_t class_count, class_capacity;
} yki_image_list;

/* Lists a part of a folder: folders of classes, or images without classes; or one image. The list
 * is empty if there is none. Classes are numbered as in `known`, if it is given, else by the names
 * of the folders, for a test part those of the training part. */
bool yki_image_name(const char *name); /* whether its ending is that of an image */
yoke_status yki_image_list_make(const char *path, yoke_data_part part, const char *const *known,
                                size_t known_count, yki_image_list *list);
void yki_image_list_clear(yki_image_list *list);

/* ---- images.c ---- */

/* Makes a dataset of a list that is not empty, which it takes over, also on failure. */
yoke_status yki_images_make(yki_image_list *list, const yoke_dataset_open_options *options,
                            yoke_dataset **dataset);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * sheet.c - see sheet.h. Four rows of four images, small ones enlarged so that they can be seen, on
 * grey. PNG is written by libpng, which makes it small, or else by png_write.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "fields.h"
#include "png_write.h"
#include "sheet.h"

#ifdef YOKE_HAVE_PNG
#include <png.h>
#endif

enum { ACROSS = 4, SAMPLES = ACROSS * ACROSS, GAP = 2, GREY = 128, SEEN = 64, MOST_SIDE = 4096 };

typedef struct sheet {
    uint32_t height, width, channels; /* of an image */
    uint32_t times;                   /* each pixel is a square of so many */
    uint32_t rows, columns;           /* of the whole picture */
    uint8_t *pixels;
} sheet;

static bool
ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), end = strlen(ending);

    return length > end && strcmp(path + length - end, ending) == 0;
}

static yoke_status
begin(sheet *s, const yoke_field *field, const char *path)
{
    const int64_t *dim = field->shape.dim;

    if (field->shape.rank != 3 || (dim[0] != 1 && dim[0] != 3) || dim[1] > MOST_SIDE ||
        dim[2] > MOST_SIDE)
        return yoke_fail(YOKE_ERROR_SHAPE,
                         "--out draws images; samples must be of shape (1 or 3, height, width)");
    s->channels = (uint32_t)dim[0];
    s->height = (uint32_t)dim[1];
    s->width = (uint32_t)dim[2];
    s->times = SEEN / (s->height > s->width ? s->height : s->width);
    if (s->times == 0)
        s->times = 1;
    s->rows = ACROSS * (s->height * s->times + GAP) + GAP;
    s->columns = ACROSS * (s->width * s->times + GAP) + GAP;
    s->pixels = malloc((size_t)s->rows * s->columns * s->channels);
    if (!s->pixels)
        return yki_tool_fail_about(YOKE_ERROR_OUT_OF_MEMORY, path, "out of memory for the picture");
    memset(s->pixels, GREY, (size_t)s->rows * s->columns * s->channels);
    return YOKE_OK;
}

uint8_t
yki_tool_shade(yoke_type type, const void *image, size_t at, double least, double most)
{
    double number = yki_tool_number_at(type, image, at);

    number = most > least ? 255 * (number - least) / (most - least) : 0;
    return (uint8_t)(number >= 255 ? 255 : number > 0 ? number + 0.5 : 0); /* NaN: black */
}

static void
put(sheet *s, uint32_t place, yoke_type type, const void *image, double least, double most)
{
    uint32_t top = GAP + place / ACROSS * (s->height * s->times + GAP);
    uint32_t left = GAP + place % ACROSS * (s->width * s->times + GAP);

    for (uint32_t y = 0; y < s->height * s->times; y++)
        for (uint32_t x = 0; x < s->width * s->times; x++)
            for (uint32_t c = 0; c < s->channels; c++) {
                size_t at = ((size_t)c * s->height + y / s->times) * s->width + x / s->times;

                s->pixels[((size_t)(top + y) * s->columns + left + x) * s->channels + c] =
                    yki_tool_shade(type, image, at, least, most);
            }
}

static yoke_status
write_netpbm(const sheet *s, const char *path)
{
    size_t size = (size_t)s->rows * s->columns * s->channels;
    FILE *file = fopen(path, "wb");
    bool good;

    if (!file)
        return yki_tool_fail_about(YOKE_ERROR_IO, path, "cannot be written");
    good = fprintf(file, "P%d\n%u %u\n255\n", s->channels == 3 ? 6 : 5, s->columns, s->rows) > 0 &&
           fwrite(s->pixels, 1, size, file) == size;
    good = fclose(file) == 0 && good;
    return good ? YOKE_OK : yki_tool_fail_about(YOKE_ERROR_IO, path, "cannot be written");
}

#ifdef YOKE_HAVE_PNG
static yoke_status
write_png(const sheet *s, const char *path)
{
    png_image image;

    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.width = s->columns;
    image.height = s->rows;
    image.format = s->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    return png_image_write_to_file(&image, path, 0, s->pixels, 0, NULL)
               ? YOKE_OK
               : yki_tool_fail_about(YOKE_ERROR_IO, path, "cannot be written");
}
#else
static yoke_status
write_png(const sheet *s, const char *path)
{
    FILE *file = fopen(path, "wb");
    bool good;

    if (!file)
        return yki_tool_fail_about(YOKE_ERROR_IO, path, "cannot be written");
    good = yki_tool_png_write(file, s->pixels, s->rows, s->columns, s->channels) && !ferror(file);
    good = fclose(file) == 0 && good;
    return good ? YOKE_OK : yki_tool_fail_about(YOKE_ERROR_IO, path, "cannot be written");
}
#endif

yoke_status
yki_tool_draw_sheet(const yoke_dataset *dataset, const yoke_field *field, double least, double most,
                    const char *path)
{
    bool png = ends_in(path, ".png");
    int64_t count = yoke_dataset_count(dataset);
    sheet s = {0};
    yoke_status status;
    size_t bytes;
    void *image;

    if (!png && !ends_in(path, ".ppm") && !ends_in(path, ".pgm"))
        return yki_tool_fail_about(YOKE_ERROR_INVALID_ARGUMENT, path,
                                   "must end in .png, .ppm or .pgm");
    status = begin(&s, field, path);
    if (status)
        return status;
    bytes = (size_t)s.channels * s.height * s.width * yki_tool_type_bytes(field->type);
    image = malloc(bytes);
    if (!image)
        status = yki_tool_fail_about(YOKE_ERROR_OUT_OF_MEMORY, path, "out of memory for an image");
    for (uint32_t i = 0; i < SAMPLES && i < count && !status; i++) {
        int64_t index = count < SAMPLES ? i : count * i / SAMPLES;

        status = yoke_dataset_read(dataset, field->name, &index, 1, image, bytes);
        if (!status)
            put(&s, i, field->type, image, least, most);
    }
    if (!status)
        status = png ? write_png(&s, path) : write_netpbm(&s, path);
    free(image);
    free(s.pixels);
    return status;
}

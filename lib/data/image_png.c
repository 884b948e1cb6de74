/* SPDX-License-Identifier: Apache-2.0
 *
 * image_png.c - PNG, by libpng.
 *
 * Of files, palettes and grays of few bits become bytes, 16 bits are scaled to 8, and alpha is left
 * out. libpng leaves by longjmp where it finds an error, so what it and this file allocate is in a
 * struct of the function that called setjmp. The pixels are taken row by row, but those of an
 * interlaced image all at once, after a check that the file can hold so many.
 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "data/image.h"

#ifdef YOKE_HAVE_PNG
#include <png.h>

enum { MOST_EXPANSION = 1032, WHY = 120 }; /* deflate does not exceed 1032 to 1 */

typedef struct decoder {
    jmp_buf jump;
    yki_image *image;
    yki_resize *resize;
    size_t at; /* bytes that are read */
    png_structp png;
    png_infop info;
    unsigned char *pixels;
    bool no_room;       /* an allocation failed, which is no damage */
    yoke_status status; /* of what failed outside libpng */
    char why[WHY];
} decoder;

static void
take_bytes(png_structp png, png_bytep out, size_t size)
{
    decoder *d = png_get_io_ptr(png);

    if (size > d->image->size - d->at)
        png_error(png, "it ends too early");
    memcpy(out, d->image->data + d->at, size);
    d->at += size;
}

static void
on_error(png_structp png, png_const_charp why)
{
    decoder *d = png_get_error_ptr(png);

    snprintf(d->why, sizeof d->why, "%s", why);
    longjmp(d->jump, 1);
}

static void
on_warning(png_structp png, png_const_charp why)
{
    (void)png;
    (void)why;
}

static png_voidp
png_room(png_structp png, png_alloc_size_t size)
{
    decoder *d = png_get_mem_ptr(png);
    void *memory = yki_alloc(1, size, "decoding an image");

    if (!memory)
        d->no_room = true;
    return memory;
}

static void
png_no_room(png_structp png, png_voidp memory)
{
    (void)png;
    yki_free(memory);
}

/* Reads the header, checks it, and makes libpng give rows of bytes. */
static yoke_status
read_header(decoder *d)
{
    const uint64_t most = (uint64_t)MOST_EXPANSION * d->image->size;
    png_structp png = d->png;

    png_set_read_fn(png, d, take_bytes);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(png, d->info);
    YKI_TRY(yki_image_check(d->image, png_get_image_width(png, d->info),
                            png_get_image_height(png, d->info)));
    d->image->width = png_get_image_width(png, d->info);
    d->image->height = png_get_image_height(png, d->info);
    d->image->channels = png_get_color_type(png, d->info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
    if (png_get_rowbytes(png, d->info) * (uint64_t)d->image->height > most)
        return yki_image_fail(d->image, "it is too short for its pixels");
    return YOKE_OK;
}

static yoke_status
read_pixels(decoder *d)
{
    png_structp png = d->png;
    int passes;
    size_t row;

    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, d->info);
    row = png_get_rowbytes(png, d->info);
    if (row != (size_t)d->image->width * d->image->channels)
        return yki_fail_bug("%s: libpng gives rows of %zu bytes; report it", d->image->name, row);
    YKI_TRY(yki_resize_begin(d->resize, d->image));
    d->pixels = yki_alloc(passes > 1 ? d->image->height : 1, row, "pixels of an image");
    if (!d->pixels)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int pass = 1; pass < passes; pass++)
        for (uint32_t y = 0; y < d->image->height; y++)
            png_read_row(png, d->pixels + y * row, NULL);
    for (uint32_t y = 0; y < d->image->height; y++) {
        unsigned char *pixels = d->pixels + (passes > 1 ? y * row : 0);

        png_read_row(png, pixels, NULL);
        yki_resize_row(d->resize, pixels);
    }
    png_read_end(png, NULL);
    return YOKE_OK;
}

/* All that libpng may leave by longjmp. */
static bool
guarded(decoder *d)
{
    if (setjmp(d->jump))
        return false;
    d->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, on_error, on_warning, d, png_room,
                                      png_no_room);
    d->info = d->png ? png_create_info_struct(d->png) : NULL;
    d->status = d->info ? read_header(d) : YOKE_ERROR_OUT_OF_MEMORY;
    if (d->status == YOKE_OK && d->resize)
        d->status = read_pixels(d);
    return true;
}

yoke_status
yki_png_decode(yki_image *image, yki_resize *resize)
{
    decoder d = {.image = image, .resize = resize};
    const bool returned = guarded(&d);

    png_destroy_read_struct(&d.png, &d.info, NULL);
    yki_free(d.pixels);
    if (returned)
        return d.status;
    return d.no_room ? YOKE_ERROR_OUT_OF_MEMORY : yki_image_fail(image, d.why);
}

/* ---- writing ---- */

yoke_status
yki_png_encode(const uint8_t *pixels, uint32_t height, uint32_t width, uint32_t channels,
               unsigned char **out, size_t *size)
{
    png_image image;
    png_alloc_size_t bytes;
    unsigned char *png = NULL;

    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.width = width;
    image.height = height;
    image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    png = yki_alloc(bytes, 1, "an image as PNG");
    if (!png)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (!png_image_write_to_memory(&image, png, &bytes, 0, pixels, 0, NULL)) {
        yki_free(png);
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "libpng cannot write an image: %s", image.message);
    }
    *out = png;
    *size = bytes;
    return YOKE_OK;
}

#else

yoke_status
yki_png_decode(yki_image *image, yki_resize *resize)
{
    (void)resize;
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "%s is a PNG, which this build of yoke cannot read; build it with libpng",
                    image->name);
}

yoke_status
yki_png_encode(const uint8_t *pixels, uint32_t height, uint32_t width, uint32_t channels,
               unsigned char **out, size_t *size)
{
    (void)pixels, (void)height, (void)width, (void)channels, (void)out, (void)size;
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "this build of yoke cannot write images as PNG; build it with libpng");
}

#endif

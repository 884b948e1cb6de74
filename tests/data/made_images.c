/* SPDX-License-Identifier: Apache-2.0
 *
 * made_images.c - writes PNG and JPEG files, for tests.
 */
#include "data/made_images.h"

#ifdef MADE_IMAGES
#include "support/support.h"

void
make_png(const char *path, const made_png *m)
{
    static const int channels[] = {1, 0, 3, 1, 2, 0, 4};
    const size_t row = (m->width * (size_t)(channels[m->color] * m->depth) + 7) / 8;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    FILE *file = fopen(path, "wb");
    int passes;

    ck_assert(png && info && file);
    png_init_io(png, file);
    png_set_IHDR(png, info, m->width, m->height, m->depth, m->color,
                 m->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (m->palette) {
        png_set_PLTE(png, info, m->palette, m->palette_size);
        png_set_tRNS(png, info, (const png_byte[]){0, 128}, 2, NULL);
    }
    png_write_info(png, info);
    passes = png_set_interlace_handling(png);
    while (passes--)
        for (uint32_t y = 0; y < m->height; y++)
            png_write_row(png, m->pixels + y * row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    ck_assert_int_eq(fclose(file), 0);
}

void
make_jpeg(const char *path, const made_jpeg *m)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = m->width;
    jpeg.image_height = m->height;
    jpeg.input_components = m->channels;
    jpeg.in_color_space = m->from;
    jpeg_set_defaults(&jpeg);
    jpeg_set_colorspace(&jpeg, m->to);
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (m->progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (uint32_t y = 0; y < m->height; y++) {
        JSAMPROW row = (JSAMPROW)m->pixels + (size_t)y * m->width * (size_t)m->channels;

        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    ck_assert_int_eq(fclose(file), 0);
}
#endif
